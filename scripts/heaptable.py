#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""heaptable.py - the table of allocators and runtimes: what `byteledger regions` reads from outside, beside what each says of itself.

  scripts/heaptable.py [--build build] [--root NAME=FOLDER]... [--python FILE]... [--go FILE]... [--node FILE]... [--java FILE]...
                       [--mimalloc LIBRARY]... [--dotnet 'COMMAND PROGRAM']... [--only WORD] [--check PERCENT]

--root names a Debian root (scripts/fresh.sh -d) whose C library, allocators, python3, node, JDKs and OCaml are used, by chroot: needs root, and
/proc mounted in it for a JDK. --python, --node and --java name further ones; --go is a `go` command, or GOTOOLCHAIN's word (go1.24.9); --dotnet
is what runs a program that says "ready committed=BYTES heap=BYTES" by GC.GetGCMemoryInfo(). Prints Markdown; ends with 1 where a row is further away
than --check (default 1) per cent, or could not be read.
"""
import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROWS, FAILED = [], []
PYTHON = """
import gc, sys
x = [str(i) * 3 for i in range(200000)]
y = [{'a': i} for i in range(50000)]
del x[::3]
gc.collect()
sys._debugmallocstats()
sys.stderr.flush()
print('ready', flush=True)
sys.stdin.readline()
"""
NODE = ("x=[];for(let i=0;i<4e5;i++)x.push({a:i,b:'s'+i});const v=require('v8');global.gc&&gc();const h=v.getHeapSpaceStatistics();"
        "console.log('ready '+JSON.stringify({spaces:h.reduce((a,s)=>a+s.physical_space_size,0),all:v.getHeapStatistics().total_physical_size}));"
        "process.stdin.resume()")
JAVA = ("public class H { public static void main(String[] a) throws Exception { byte[][] l = new byte[200][];"
        "for (int i = 0; i < 200; i++) l[i] = new byte[200000]; System.out.println(\"ready\"); System.in.read(); } }")
OCAML = """let keep = Array.init 4000 (fun i -> List.init 200 (fun k -> (i, string_of_int k)))
let () = Gc.compact (); Printf.printf "ready %d\\n%!" ((Gc.quick_stat ()).Gc.heap_words * 8);
  ignore (input_char stdin); print_int (List.length keep.(0))
"""
PHP = '$x=[];for($i=0;$i<500000;$i++)$x[]="s$i";echo "ready ".memory_get_usage(true)."\n";fgets(STDIN);'
RUBY = 'x=(1..300000).map{|i|"s#{i}"};GC.start;puts "ready #{GC.stat(:heap_allocated_pages)*(GC::INTERNAL_CONSTANTS[:HEAP_PAGE_SIZE]||16384)}";$stdout.flush;STDIN.gets'


class Runs:
    def __init__(self, argv, env=None, stderr=subprocess.DEVNULL):
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, text=True,
                                      env={**os.environ, **(env or {})})
        self.said = self.child.stdout.readline()
        while self.said and not self.said.startswith("ready"):
            self.said = self.child.stdout.readline()
        self.numbers = {k: int(v) for k, v in re.findall(r"(\S+)=(\d+)", self.said)}
        self.words = [int(w) for w in self.said.split()[1:] if w.isdigit()]

    def look(self, *options):
        done = subprocess.run([args.byteledger, "regions", "-p", str(self.child.pid), "--format", "json", *options], capture_output=True, timeout=120)
        return json.loads(done.stdout) if done.returncode == 0 else {"allocators": [], "classes": []}

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.communicate()


def named(seen, name):
    return next((a for a in seen["allocators"] if a["allocator"] == name), {})


def label(seen, name, key="rss_bytes"):
    return sum(c[key] for c in seen["classes"] if c["label"] == name)


def row(what, statistic, own, ours, allowed=None):
    """allowed: per cent; None: the table's; a text says why it cannot be told in bytes."""
    beside = abs(ours - own) / own * 100 if ours is not None and own else None
    limit = args.check if allowed is None else allowed
    good = beside is not None and beside <= limit
    ROWS.append((what, statistic, own, ours, beside, good))
    print(f"| {what} | {statistic} | {own:,} | {'not told' if ours is None else f'{ours:,}'} | "
          f"{'-' if beside is None else f'{beside:.3f} %'}{'' if good else ' **beside**'} |", flush=True)


def skipped(what, why):
    print(f"| {what} | - | - | - | not run: {why} |", flush=True)


def wanted(what):
    return not args.only or args.only in what


def tool(name):
    return os.path.join(args.build, "tests/prog", name)


# ---- C allocators ---------------------------------------------------------------------------------------------------


def inside(root, program):
    """The command that runs a program of ours in that root."""
    if not root:
        return [program], ""
    shutil.copy(program, root + "/tmp/")
    name = os.path.basename(program)
    if subprocess.run(["chroot", root, "/tmp/" + name], capture_output=True, timeout=60).stderr.startswith(b"/tmp/"):
        # an older C library than it was linked with: made anew there
        for source in (name + ".c", "blocks.h"):
            shutil.copy(os.path.join(TOP, "tests/prog", source), root + "/tmp/")
        subprocess.run(["chroot", root, "gcc", "-O1", "-D_GNU_SOURCE", "-pthread", "-o", "/tmp/" + name, "/tmp/" + name + ".c", "-ldl"], check=False, timeout=120)
    return ["chroot", root, "/tmp/" + os.path.basename(program)], root


def glibc(name, root):
    libc = (root or "") + "/lib/x86_64-linux-gnu/libc.so.6"
    version = re.search(rb"stable release version (2\.\d+)", open(libc, "rb").read())
    what = f"glibc {version.group(1).decode() if version else '?'} ({name})"
    if not wanted(what):
        return
    for arenas in ("1", "4"):
        with Runs(inside(root, tool("glibcheap"))[0] + ["64", arenas]) as program:
            heap = named(program.look(), "glibc malloc")
            in_use, free, mapped, fast, _ = program.words
            live = sum(heap[k] for k in ("live_bytes", "cache_bytes", "metadata_bytes")) if heap.get("live_bytes") is not None else None
            row(f"{what}, {arenas} arena{'s'[:int(arenas) - 1]}", "mallinfo2: uordblks + hblkhd", in_use + mapped, live)
            free_now = None if live is None else heap["reserved_bytes"] - live
            row(f"{what}, {arenas} arena{'s'[:int(arenas) - 1]}", "mallinfo2: fordblks", free, free_now)


def preloaded(name, root, allocator, pattern, versions):
    for path in sorted(set(map(os.path.realpath, glob.glob((root or "") + pattern)))):
        what = f"{versions(path)} ({name})"
        if not wanted(what):
            continue
        for threads in ("1", "4"):
            argv, top = inside(root, tool("heapstats"))
            preload = path[len(top):]
            env = argv[:2] + ["/usr/bin/env", "LD_PRELOAD=" + preload] + argv[2:] if root else ["env", "LD_PRELOAD=" + preload] + argv
            with Runs(env + [allocator, "64", threads]) as program:
                heap, own = named(program.look(), allocator), program.numbers
                live, cached = heap.get("live_bytes"), heap.get("cache_bytes")
                where = f"{what}, {threads} thread{'s'[:int(threads) - 1]}"
                if allocator == "jemalloc":
                    row(where, "mallctl stats.allocated", own["stats.allocated"], None if live is None else live + cached)
                elif allocator == "tcmalloc":
                    row(where, "MallocExtension current_allocated_bytes", own["generic.current_allocated_bytes"], live)
                    row(where, "MallocExtension heap_size", own["generic.heap_size"], heap.get("reserved_bytes"))
                else:
                    row(where, "mi_heap_visit_blocks, mi_usable_size", own["bytes"], live)


# ---- runtimes -------------------------------------------------------------------------------------------------------


def cpython(command, name):
    with tempfile.TemporaryFile("w+") as stats:
        with Runs(command + ["-c", PYTHON], stderr=stats) as program:
            stats.seek(0)
            found = re.search(r"# bytes in allocated blocks\s*=\s*([\d,]+)", stats.read())
            row(f"CPython {name}", "sys._debugmallocstats allocated blocks", int(found.group(1).replace(",", "")),
                named(program.look(), "CPython objects").get("live_bytes"))


def python_version(command):
    return subprocess.run(command + ["-V"], capture_output=True, text=True, timeout=60).stdout.split()[-1]


def go(word, folder):
    env = {"GOCACHE": folder + "/cache", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": word if word.startswith("go1") else "local"}
    command = "go" if word.startswith("go1") else word
    built = subprocess.run([command, "build", "-o", folder + "/goheap", TOP + "/tests/prog/goheap.go"], env={**os.environ, **env},
                           capture_output=True, text=True, timeout=400)
    if built.returncode:
        return skipped(word, "it does not build")
    with Runs([folder + "/goheap", "64", "paced"]) as program:
        seen, own = program.look(), program.numbers
        heap, stacks = named(seen, "Go heap"), named(seen, "Go stacks")
        version = re.search(r"Version=(\S+)", program.said).group(1)
        row(f"Go {version}", "MemStats HeapAlloc", own["HeapAlloc"], heap.get("live_bytes"))
        row(f"Go {version}", "MemStats HeapInuse", own["HeapInuse"], heap.get("reserved_bytes"))
        row(f"Go {version}", "MemStats StackInuse", own["StackInuse"], stacks.get("live_bytes"), 10)
        row(f"Go {version}", "MemStats NextGC (GOGC=100)", own["NextGC"], heap.get("goal_bytes"))
        row(f"Go {version}", "MemStats HeapIdle", own["HeapIdle"], heap.get("idle_bytes", 0) + heap.get("released_bytes", 0) or None)
    return None


def node(command, name):
    with Runs(command + ["--expose-gc", "-e", NODE]) as program:
        own = json.loads(program.said[6:])
        seen = program.look()
        row(f"Node {name}", "v8.getHeapSpaceStatistics physical_space_size", own["spaces"],
            label(seen, "V8 heap") + label(seen, "V8 code") or None, 5)


def java(command, folder, root=""):
    source, inside_root = folder + "/H.java", ["chroot", root] if root else []
    if root:
        source = "/tmp/H.java"
    with open(root + source, "w", encoding="ascii") as file:
        file.write(JAVA)
    jcmd = os.path.join(os.path.dirname(os.path.realpath(command)), "jcmd")
    jcmd = inside_root + [jcmd[len(os.path.realpath(root)):] if root else jcmd]
    command = inside_root + [command[len(root):]]
    version = re.search(r'"([^"]+)"', subprocess.run(command + ["-version"], capture_output=True, text=True, timeout=60).stderr).group(1)
    for collector in ("G1", "Parallel", "Serial"):
        with Runs([*command, "-XX:NativeMemoryTracking=summary", "-Xmx256m", f"-XX:+Use{collector}GC", source]) as program:
            own = subprocess.run([*jcmd, str(program.child.pid), "VM.native_memory", "summary"], capture_output=True, text=True, timeout=60).stdout
            committed = {kind: int(size) << 10 for kind, size in
                         re.findall(r"-\s+(Java Heap|Class|Metaspace|Code|GC) \(reserved=\d+KB, committed=(\d+)KB", own)}
            spaces = {kind: int(size) << 10 for kind, size in re.findall(r"\(\s+(Metadata|Class space):\s*\)\s*\(\s+reserved=\d+KB, committed=(\d+)KB", own)}
            seen = program.look()
            what = f"JDK {version} {collector}"
            row(what, "NMT Java Heap committed (archived objects are a file)", committed["Java Heap"], label(seen, "HotSpot heap", "virtual_bytes"), 2)
            if "Metadata" in spaces:
                row(what, "NMT Metadata committed", spaces["Metadata"], label(seen, "HotSpot metaspace", "virtual_bytes") or None)
            if "Class space" in spaces:
                row(what, "NMT Class space committed", spaces["Class space"], label(seen, "HotSpot class space", "virtual_bytes") or None)


def ocaml(folder, name, root=""):
    """Pools are ours to tell, and blocks of more than 128 words are malloc's: what is asked for has none but one of 4,000."""
    inside_root, at = (["chroot", root], "/tmp") if root else ([], folder)
    with open(root + at + "/heap.ml", "w", encoding="ascii") as file:
        file.write(OCAML)
    version = subprocess.run(inside_root + ["ocamlopt", "-version"], capture_output=True, text=True, timeout=60).stdout.strip()
    built = subprocess.run(inside_root + ["sh", "-c", f"cd {at} && ocamlopt -o heap heap.ml"], capture_output=True, text=True, timeout=120)
    if built.returncode:
        return skipped(f"OCaml {version} ({name})", "it does not build")
    with Runs(inside_root + [at + "/heap"]) as program:
        seen = program.look()
        row(f"OCaml {version} ({name})", "Gc.quick_stat heap_words", program.words[0],
            label(seen, "OCaml heap", "virtual_bytes") + sum(c["virtual_bytes"] for c in seen["classes"] if c["label"] == "malloc large") or None, 5)
    return None


def dotnet(words):
    with Runs(words.split()) as program:
        own, seen = program.numbers, program.look()
        what, size = ("TotalCommittedBytes", own["committed"]) if own.get("committed") else ("HeapSizeBytes", own["heap"])
        row(".NET: " + words, "GC.GetGCMemoryInfo " + what, size, label(seen, ".NET heap", "virtual_bytes") or None, 2)


def scripted(command, statistic, name, label_name, least):
    with Runs(command) as program:
        row(name, statistic, program.words[0], label(program.look(), label_name, "virtual_bytes") or None, least)


def main():
    roots = [("here", None)] + [tuple(r.split("=", 1)) for r in args.root]
    folder = tempfile.mkdtemp(prefix="heaptable-")
    print("| what | its own statistic | it says | read from outside | beside |\n|---|---|---|---|---|")
    try:
        for name, root in roots:
            glibc(name, root)
            library = "/usr/lib/x86_64-linux-gnu/"
            deb = lambda package, path, root=root: subprocess.run(
                (["chroot", root] if root else []) + ["dpkg-query", "-W", "-f", "${Version}", package], capture_output=True, text=True,
                timeout=60).stdout or os.path.basename(path)
            preloaded(name, root, "jemalloc", library + "libjemalloc.so.2", lambda p: "jemalloc " + deb("libjemalloc2", p))
            preloaded(name, root, "tcmalloc", library + "libtcmalloc_minimal.so.4",
                      lambda p: "gperftools " + (deb("libtcmalloc-minimal4", p) if "-" in deb("libtcmalloc-minimal4", p)
                                                 else deb("libtcmalloc-minimal4t64", p)))
            preloaded(name, root, "mimalloc", library + "libmimalloc.so", lambda p: "mimalloc " + os.path.basename(p))
        for path in args.mimalloc:
            preloaded("built", None, "mimalloc", path, os.path.basename)
        if wanted("CPython"):
            for path in args.python or ["python3"]:
                cpython([path], python_version([path]))
            for name, root in roots[1:]:
                cpython(["chroot", root, "python3"], f"{python_version(['chroot', root, 'python3'])} ({name})")
        if wanted("Go"):
            for word in args.go or (["go"] if shutil.which("go") else []):
                go(word, folder)
        if wanted("Node"):
            nodes = [[n] for n in args.node or (["node"] if shutil.which("node") else [])]
            nodes += [["chroot", root, "node"] for _, root in roots[1:] if os.path.exists(root + "/usr/bin/node")]
            for command in nodes:
                node(command, subprocess.run(command + ["--version"], capture_output=True, text=True, timeout=60).stdout.strip())
        if wanted("JDK"):
            for path in args.java or sorted(p for p in glob.glob("/usr/lib/jvm/*/bin/java") if not os.path.islink(p.split("/bin")[0])):
                java(path, folder)
            for _, root in [] if args.java else roots[1:]:
                for path in sorted(p for p in glob.glob(root + "/usr/lib/jvm/*/bin/java") if not os.path.islink(p.split("/bin")[0])):
                    java(path, folder, root)
        if wanted("OCaml"):
            for name, root in roots:
                if os.path.exists((root or "") + "/usr/bin/ocamlopt"):
                    ocaml(folder, name, root or "")
        if wanted(".NET"):
            for words in args.dotnet:
                dotnet(words)
        if wanted("PHP") and shutil.which("php"):
            scripted(["php", "-r", PHP], "memory_get_usage(true)", "PHP " + subprocess.run(["php", "-r", "echo PHP_VERSION;"],
                     capture_output=True, text=True, timeout=60).stdout, "PHP heap", 1)
        if wanted("Ruby") and shutil.which("ruby"):
            scripted(["ruby", "-e", RUBY], "GC.stat heap_allocated_pages x their size", "Ruby " + subprocess.run(
                ["ruby", "-e", "print RUBY_VERSION"], capture_output=True, text=True, timeout=60).stdout, "Ruby heap", 3)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if not ROWS or any(not r[5] for r in ROWS) else 0


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--build", default=os.path.join(TOP, "build"))
for option in ("root", "python", "go", "node", "java", "mimalloc", "dotnet"):
    parser.add_argument("--" + option, action="append", default=[])
parser.add_argument("--only")
parser.add_argument("--check", type=float, default=1)
args = parser.parse_args()
args.build = os.path.abspath(args.build)
args.byteledger = os.path.join(args.build, "byteledger")
sys.exit(main())
