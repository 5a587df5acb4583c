#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev tidy [FILE...]`: clang-tidy with .clang-tidy over src/ as build/ compiles it. Ends with 1 where it finds something.

`./dev check --all` reads the lines that begin with `tidy`."""
import concurrent.futures
import json
import os
import shutil
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
# what runs in the kernel or in other people's programs is written for one compiler and its builtins
LEFT_OUT = ("src/bpf/", "src/unwind/")


def main():
    tidy = shutil.which("clang-tidy-14") or shutil.which("clang-tidy")
    if not tidy:
        print("tidy: clang-tidy is not installed (./dev deps --all)", file=sys.stderr)
        return 2
    build = os.path.join(ROOT, "build")
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        files = sorted({os.path.realpath(os.path.join(c["directory"], c["file"])) for c in json.load(f)})
    files = [os.path.relpath(f, ROOT) for f in files]
    wanted = sys.argv[1:]
    files = [f for f in files if f.startswith("src/") and f.endswith(".c") and not f.startswith(LEFT_OUT)
             and (not wanted or f in wanted)]

    def run(path):
        done = subprocess.run([tidy, "-p", build, "--quiet", "--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wno-ignored-optimization-argument", path], cwd=ROOT, capture_output=True, text=True)
        return path, done.returncode, done.stdout.replace(ROOT + "/", "").replace("build/../", "").replace("../src/", "src/")

    bad = set()
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        for path, status, said in pool.map(run, files):
            if status:
                bad.add(path)
                print(said.strip(), flush=True)
    print(f"tidy: {len(files)} files, {len(bad)} with findings")
    return 1 if bad else 0


sys.exit(main())
