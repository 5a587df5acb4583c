#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Build the web page and turn it into an assembler file that holds it (src/api/page.h describes the table).

usage: page.py SOURCE_ROOT OUT.S OUT.bin DEPFILE
       page.py --dist SOURCE_ROOT       (meson dist: the built page goes into the tarball)

web/dist carries the hash of what it was built from. Where that is the hash of what is there now, nothing is built: so several
build folders build it once, and the tarball of a release needs no npm. Otherwise `npm ci` and `vite build` run in web/, or in a
copy below the build folder where the sources cannot be written.
"""
import fcntl
import gzip
import hashlib
import os
import shutil
import subprocess
import sys
import zlib

TYPES = {".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".svg": "image/svg+xml", ".json": "application/json"}
INPUTS = ("package.json", "package-lock.json", ".npmrc", "tsconfig.json", "vite.config.ts", "index.html", "openapi.mjs")
OPENAPI = os.path.join("src", "api", "byteledger-openapi.json")  # types of its answers are made from it
SCHEMA = os.path.join("src", "api", "schema.ts")
STAMP = "built-from"
IN_HASTE = os.environ.get("PAGE_TYPES") == "0"  # ./dev demo: checking the types takes three times as long as the bundle
UNTYPED = " untyped"
BUNDLE_MAX = 150 * 1024  # what the page may weigh, compressed


def stop(text, hint):
    sys.exit(f"page.py: {text}\nhint: {hint}")


def inputs(web):
    """What the page is made from; tests are not part of it, nor what is made of the server's OpenAPI file."""
    found = [os.path.join(web, name) for name in INPUTS] + [os.path.join(os.path.dirname(web), OPENAPI)]
    for folder, folders, names in os.walk(os.path.join(web, "src")):
        folders.sort()
        found += [os.path.join(folder, name) for name in sorted(names)
                  if not name.startswith(".") and os.path.join(folder, name) != os.path.join(web, SCHEMA)]
    return found


def digest(web, files):
    whole = hashlib.sha256()
    for path in files:
        with open(path, "rb") as file:
            data = file.read()
        whole.update(f"{os.path.relpath(path, web)}\0{len(data)}\0".encode())
        whole.update(data)
    return whole.hexdigest()


def is_built(dist, wanted):
    """Whether the page there was made of this; one whose types were not looked at is good enough for who does not look at them."""
    try:
        with open(os.path.join(dist, STAMP), encoding="ascii") as file:
            return file.read().strip() in ((wanted, wanted + UNTYPED) if IN_HASTE else (wanted,))
    except OSError:
        return False


def run(what, command, folder, hint):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode:
        sys.stderr.write(done.stdout[-4000:])
        stop(f"{what} failed", hint)


def build(web, wanted):
    """npm ci where the lock file is not the one that was installed, types, bundle; returns nothing, leaves web/dist."""
    without = "a build without the page: meson configure -Dpage=false; a release tarball carries it built (web/dist)"
    if not shutil.which("npm"):
        stop("cannot build the web page: there is no npm", f"apt-get install --no-install-recommends nodejs npm; or {without}")
    modules = os.path.join(web, "node_modules")
    with open(os.path.join(web, "package-lock.json"), "rb") as file:
        lock = hashlib.sha256(file.read()).hexdigest()
    mark = os.path.join(modules, ".byteledger-lock")
    installed = ""
    if os.path.exists(mark):
        with open(mark, encoding="ascii") as file:
            installed = file.read()
    if installed != lock:
        run("npm ci", ["npm", "ci", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund"], web,
            f"npm fetches the packages of web/package-lock.json: is its registry within reach? Or {without}")
        with open(mark, "w", encoding="ascii") as file:
            file.write(lock)
    run("making types", ["node", "openapi.mjs", os.path.join("..", OPENAPI), SCHEMA], web, "is the OpenAPI file in order?")
    if not IN_HASTE:
        run("the type check", ["node", os.path.join("node_modules", "typescript", "bin", "tsc"), "--noEmit"], web,
            "the lines above name the file")
    run("vite build", ["node", os.path.join("node_modules", "vite", "bin", "vite.js"), "build", "--logLevel", "warn"], web,
        "the lines above name the file")
    with open(os.path.join(web, "dist", STAMP), "w", encoding="ascii") as file:
        file.write(wanted + (UNTYPED if IN_HASTE else "") + "\n")


def built_page(root, scratch):
    """The folder with the page as it must be for what is in web/ now."""
    web = os.path.join(root, "web")
    files = inputs(web)
    wanted = digest(web, files)
    dist = os.path.join(web, "dist")
    if is_built(dist, wanted):
        return dist, files
    if not os.access(web, os.W_OK):
        copy = os.path.join(scratch, "web")
        for path in files:
            to = os.path.join(copy, os.path.relpath(path, web))
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copyfile(path, to)
        web, dist = copy, os.path.join(copy, "dist")
    with open(os.path.join(web, ".build-lock"), "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several build folders, one page
        if not is_built(dist, wanted):
            build(web, wanted)
    return dist, files


def quoted(path):
    return path.replace("\\", "\\\\").replace('"', '\\"')


def assets(dist):
    """(path as asked for, type, etag, gzip'd bytes); index.html is "/" and stands first."""
    found = []
    for folder, folders, names in os.walk(dist):
        folders.sort()
        for name in sorted(names):
            path = "/" + os.path.relpath(os.path.join(folder, name), dist)
            if path == "/" + STAMP:
                continue
            with open(os.path.join(folder, name), "rb") as file:
                data = file.read()
            kind = TYPES.get(os.path.splitext(name)[1])
            if not kind:
                stop(f"no type is known for '{path}'", "TYPES in scripts/page.py")
            packed = gzip.compress(data, 9, mtime=0)
            found.append(("/" if path == "/index.html" else path, kind, hashlib.sha256(data).hexdigest()[:16], packed))
    found.sort(key=lambda asset: (asset[0] != "/", asset[0]))
    return found


def write(path, data):
    with open(path + ".new", "wb") as file:
        file.write(data)
    os.replace(path + ".new", path)


def main():
    if sys.argv[1] == "--dist":
        to = os.environ["MESON_DIST_ROOT"]
        dist, _ = built_page(sys.argv[2], to)
        shutil.copytree(dist, os.path.join(to, "web", "dist"), dirs_exist_ok=True)
        return
    root, out_s, out_bin, depfile = sys.argv[1:]
    dist, files = built_page(root, os.path.dirname(os.path.abspath(out_bin)))
    table, strings, blob = [], [], b""
    total = 0
    for number, (path, kind, etag, packed) in enumerate(assets(dist)):
        total += len(packed)
        table.append(f"\t.quad .Lpath{number}, .Ltype{number}, .Letag{number}, .Lblob + {len(blob)}, {len(packed)}\n\t.long 1, 0\n")
        strings.append(f'.Lpath{number}:\t.asciz "{quoted(path)}"\n.Ltype{number}:\t.asciz "{quoted(kind)}"\n'
                       f'.Letag{number}:\t.asciz "\\"{etag}\\""\n')
        blob += packed
    if total > BUNDLE_MAX:
        stop(f"the page weighs {total} bytes compressed, more than {BUNDLE_MAX}", "what was added that large?")
    write(out_bin, blob)
    write(out_s, (f'/* made by scripts/page.py; crc {zlib.crc32(blob):08x} */\n'
                  '\t.section .data.rel.ro.page_assets, "aw"\n\t.balign 8\n\t.globl page_assets\n'
                  '\t.type page_assets, %object\npage_assets:\n' + "".join(table) +
                  '\t.size page_assets, . - page_assets\n\t.section .rodata\n\t.balign 8\n\t.globl page_asset_count\n'
                  f'\t.type page_asset_count, %object\npage_asset_count:\t.quad {len(table)}\n'
                  '\t.size page_asset_count, . - page_asset_count\n' + "".join(strings) +
                  f'\t.balign 16\n.Lblob:\t.incbin "{quoted(os.path.abspath(out_bin))}"\n'
                  '\t.section .note.GNU-stack, "", %progbits\n').encode())
    with open(depfile, "w", encoding="utf-8") as file:
        file.write(f"{out_s}: " + " ".join(path.replace(" ", "\\ ") for path in files) + "\n")


if __name__ == "__main__":
    main()
