# SPDX-License-Identifier: Apache-2.0
"""Whose memory it is: runtimes by the proof that their headers give, a JVM's parts beside its own books, and no name without one in a zoo of programs."""
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from test_regions import run, wait_for

MIB = 1 << 20
# what is only told where the program has it
CLAIMS = {"jemalloc", "tcmalloc", "mimalloc", "Go heap", "CPython objects", "HotSpot heap", "V8 heap", "V8 code", "PHP heap", "Ruby heap",
          "musl malloc", "PartitionAlloc", "PartitionAlloc metadata", "Oilpan heap", "BEAM carriers", "OCaml heap", "OCaml minor heap",
          "SBCL heap", "SBCL code and symbols"}


def look(byteledger, pid):
    return json.loads(run(byteledger, "-p", pid, "--format", "json").stdout)


def by_label(seen, key="rss_bytes"):
    sums = {}
    for c in seen["classes"]:
        sums[c["label"]] = sums.get(c["label"], 0) + c[key]
    return sums


class Runs:
    """A program that is looked at while it waits; stdin stays open."""

    def __init__(self, *argv, **more):
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **more)
        self.pid = self.child.pid

    def wait_said(self, word="ready"):
        line = self.child.stdout.readline()
        assert word in line, line
        return self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.communicate()


SCRIPTS = [
    ("node", ["-e", "x=[];for(let i=0;i<1e6;i++)x.push({a:i});console.log('ready');process.stdin.resume()"], "V8 heap", 30),
    ("php", ["-r", '$x=[];for($i=0;$i<500000;$i++)$x[]="s$i";echo "ready\n";fgets(STDIN);'], "PHP heap", 12),
    ("erl", ["-noshell", "-eval", 'L=[{X,integer_to_list(X)}||X<-lists:seq(1,300000)], io:format("ready~n"), io:get_line(""), io:format("~p",[length(L)]).'],
     "BEAM carriers", 50),
    ("ruby", ["-e", 'x=(1..300000).map{|i|"s#{i}"};puts "ready";$stdout.flush;STDIN.gets'], "Ruby heap", 10),
]


def test_sbcls_heap_is_its_own_and_no_code(byteledger, installed):
    lisp = ('(progn (defvar *x* (loop for i below 500000 collect (cons i (list i)))) (gc :full t)'
            ' (format t "ready ~d ~d~%" sb-vm:dynamic-space-start (sb-ext:dynamic-space-size)) (finish-output) (read-line) (print (length *x*)))')
    with Runs(installed("sbcl"), "--noinform", "--non-interactive", "--no-userinit", "--no-sysinit", "--eval", lisp) as program:
        start, size = map(int, program.child.stdout.readline().split()[1:])
        seen = json.loads(run(byteledger, "-p", program.pid, "--format", "json", "--all").stdout)
        heap = [r for r in seen["regions"] if r["label"] == "SBCL heap"]
        assert all(start <= r["start"] and r["end"] <= start + size for r in heap), heap
        assert not [r for r in seen["regions"] if r["class"] == "jit" and start <= r["start"] < start + size], seen["regions"][:20]
        # half a million pairs of pairs of 16 bytes each, all of them new: none lies in the core's file
        assert 2 * 16 * 500000 <= sum(r["rss_bytes"] for r in heap), heap
        assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"]


@pytest.mark.parametrize("name, argv, label, mib", SCRIPTS, ids=[s[0] for s in SCRIPTS])
def test_a_runtime_is_named_by_its_headers(byteledger, installed, name, argv, label, mib):
    with Runs(installed(name), *argv).wait_said() as program:
        seen = look(byteledger, program.pid)
        sums = by_label(seen)
        assert sums.get(label, 0) > mib * MIB, sums
        if label == "PHP heap":  # wherever the kernel puts its chunks: eight of 2 MiB, the last of them in part
            # and one block of 8 MiB that is larger than a chunk, which the heap lists
            assert 11.2 * 2 * MIB < sums[label] <= 12 * 2 * MIB, sums
        assert sums.keys() & CLAIMS <= {label, "V8 code"}, sums
        assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"]


def javas():
    found = sorted(p for p in (f"/usr/lib/jvm/{d}/bin" for d in (os.listdir("/usr/lib/jvm") if os.path.isdir("/usr/lib/jvm") else []))
                   if os.path.exists(p + "/jcmd") and not os.path.islink(os.path.dirname(p)))
    return found or [None]


@pytest.mark.parametrize("collector", ["G1", "Parallel", "Serial"])
@pytest.mark.parametrize("java", javas(), ids=lambda p: os.path.basename(os.path.dirname(p)) if p else "none")
def test_a_jvms_parts_lie_where_its_own_books_say(byteledger, tmp_path, java, collector):
    if not java:
        pytest.skip("no JDK is installed")
    source = tmp_path / "H.java"
    source.write_text("public class H { public static void main(String[] a) throws Exception { byte[][] l = new byte[200][];"
                      "for (int i = 0; i < 200; i++) l[i] = new byte[200000]; System.out.println(\"ready\"); System.in.read(); } }")
    with Runs(java + "/java", "-XX:NativeMemoryTracking=summary", "-Xmx256m", f"-XX:+Use{collector}GC", str(source)).wait_said() as program:
        def books():
            return subprocess.run([java + "/jcmd", str(program.pid), "VM.native_memory", "summary"], capture_output=True, text=True, timeout=60).stdout

        def spaces(text):
            return {kind: int(size) << 10 for kind, size in
                    re.findall(r"\(\s+(Metadata|Class space):\s*\)\s*\(\s+reserved=\d+KB, committed=(\d+)KB", text)}
        books()  # asking brings classes in, too
        own = books()
        committed = {kind: int(size) << 10 for kind, size in re.findall(r"-\s+(Java Heap|Class|Code|GC) \(reserved=\d+KB, committed=(\d+)KB\)", own)}
        assert set(committed) == {"Java Heap", "Class", "Code", "GC"}, own
        seen = look(byteledger, program.pid)
        mapped, resident, after = by_label(seen, "virtual_bytes"), by_label(seen), spaces(books())
        # archived objects are mapped from a file into the heap: 1 MiB or so
        assert committed["Java Heap"] - 4 * MIB <= mapped["HotSpot heap"] <= committed["Java Heap"], (mapped, committed)
        assert resident["HotSpot heap"] > 38 * MIB
        assert mapped["HotSpot code cache"] <= committed["Code"] + MIB and mapped["HotSpot code cache"] > 2 * MIB
        assert 0 < mapped["HotSpot class space"] <= committed["Class"] + MIB
        assert 0 < mapped["HotSpot card table"] <= committed["GC"]
        # what classes are described by: whole reservations, whatever lies in their pieces
        before = spaces(own)
        assert before["Metadata"] * 0.99 <= mapped["HotSpot metaspace"] <= after["Metadata"], (mapped, before, after)
        assert before["Class space"] <= mapped["HotSpot class space"] <= after["Class space"], (mapped, before, after)
        row = next(a for a in seen["allocators"] if a["allocator"] == "HotSpot heap")
        assert "by its own tables" in row["how"]


def test_musl_is_told_from_glibc(byteledger, installed, tmp_path):
    installed("musl-gcc")
    source = tmp_path / "m.c"
    source.write_text("#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(void) { for (int i = 0; i < 100; i++) {"
                      "memset(malloc(300000), 1, 300000); for (int k = 0; k < 50; k++) memset(malloc(2000), 1, 2000); }"
                      "write(1, \"ready\\n\", 6); char c; return (int)read(0, &c, 1); }\n")
    subprocess.run(["musl-gcc", "-O1", "-o", tmp_path / "m", source], check=True, timeout=60)
    with Runs(str(tmp_path / "m")).wait_said() as program:
        seen = look(byteledger, program.pid)
        sums = by_label(seen)
        assert sums.get("musl malloc", 0) > 20 * MIB, sums
        assert "malloc large" not in sums and not [a for a in seen["allocators"] if a["live_bytes"] is not None], sums


def wait_quiet(pid):
    """Until it has come to rest, or 3 s."""
    before = None
    for _ in range(30):
        try:
            with open(f"/proc/{pid}/statm", encoding="ascii") as file:
                now = file.read()
        except OSError:
            return
        if now == before:
            return
        before = now
        time.sleep(0.1)


ZOO = [
    ("bash", [], set()), ("dash", [], set()), ("perl", ["-e", "%h=map{$_=>1}1..100000;<STDIN>"], set()),
    ("gawk", ['BEGIN{for(i=0;i<300000;i++)a[i]=i;getline}'], set()), ("mawk", ['BEGIN{for(i=0;i<300000;i++)a[i]=i;getline}'], set()),
    ("sqlite3", [":memory:"], set()), ("bc", [], set()), ("dc", [], set()), ("sed", ["-n", "p"], set()), ("sort", [], set()),
    ("jq", ["."], set()), ("cat", [], set()), ("tclsh", [], set()), ("lua5.4", ["-"], set()), ("guile", ["-c", "(read)"], set()),
    ("sbcl", ["--noinform"], {"SBCL heap", "SBCL code and symbols"}), ("ocaml", [], set()), ("erl", ["-noshell"], {"BEAM carriers"}), ("gdb", ["-q"], {"CPython objects"}), ("psql", ["--version"], set()),
    ("python3", ["-c", "x=[str(i) for i in range(200000)];input()"], {"CPython objects"}),
    ("node", ["-e", "process.stdin.resume()"], {"V8 heap", "V8 code"}), ("php", ["-r", "fgets(STDIN);"], {"PHP heap"}),
    ("ruby", ["-e", "gets"], {"Ruby heap"}), ("redis-server", ["--port", "0", "--save", ""], {"jemalloc"}),
    ("memcached", ["-u", "nobody", "-s", "/dev/null/none", "-l", "127.0.0.1", "-p", "0"], set()), ("git", ["cat-file", "--batch"], set()),
    ("ssh-agent", ["-D"], set()), ("xz", ["-z", "-c"], set()), ("zstd", ["-c"], set()), ("gs", ["-q", "-dNODISPLAY"], set()),
    ("openssl", ["enc", "-base64"], set()), ("socat", ["-", "EXEC:cat"], set()), ("clang", ["-x", "c", "-fsyntax-only", "-"], set()),
    ("gcc", ["-x", "c", "-fsyntax-only", "-"], set()), ("ld.lld-14", ["--version"], set()), ("less", [], set()), ("vim", ["-es"], set()),
    ("tar", ["-cf", "/dev/null", "-T", "-"], set()), ("curl", ["-T", "-", "file:///dev/null"], set()), ("dot", [], set()),
    ("nginx", ["-g", "daemon off; master_process off; error_log /dev/null; pid /dev/null;"], set()), ("chromium", None, set()),
]


@pytest.mark.large
def test_nothing_in_a_zoo_has_a_name_without_proof(byteledger, tmp_path):
    seen_programs = []
    for name, argv, may in ZOO:
        path = shutil.which(name)
        if not path or argv is None:
            continue
        with Runs(path, *argv, cwd=tmp_path if name != "git" else os.path.dirname(__file__)) as program:
            wait_quiet(program.pid)
            done = subprocess.run([byteledger, "regions", "-p", str(program.pid), "--format", "json"], capture_output=True, timeout=60)
            if done.returncode:
                continue  # it ended by itself
            seen = json.loads(done.stdout)
            told = {a["allocator"] for a in seen["allocators"] if a["live_bytes"] is not None}
            claimed = (by_label(seen).keys() | told) & CLAIMS
            assert claimed <= may, (name, claimed)
            assert all(a["consistency"] >= 50 and a["resident_bytes"] <= seen["rss_bytes"] for a in seen["allocators"]
                       if a["live_bytes"] is not None and a["resident_bytes"] is not None), (name, seen["allocators"])
            assert sum(seen["verdict"].values()) == seen["rss_bytes"], name
            seen_programs.append(name)
    if shutil.which("chromium"):
        child = subprocess.Popen(["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0",
                                  f"--user-data-dir={tmp_path}/cr", "data:text/html,<script>x=[];for(i=0;i<1e5;i++)x.push({a:i})</script>"],
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        renderers = set()
        try:
            mine = lambda: [p for p in os.listdir("/proc") if p.isdigit() and str(tmp_path).encode() in (read(p) or b"")]
            wait_for(lambda: len(mine()) >= 4, "its processes")
            time.sleep(2)
            for pid in mine():
                done = subprocess.run([byteledger, "regions", "-p", pid, "--format", "json"], capture_output=True, timeout=120)
                if done.returncode:
                    continue
                seen = json.loads(done.stdout)
                told = {a["allocator"] for a in seen["allocators"] if a["live_bytes"] is not None}
                named = (by_label(seen).keys() | told) & CLAIMS
                assert named <= {"V8 heap", "V8 code", "PartitionAlloc", "PartitionAlloc metadata", "Oilpan heap"}, (pid, named)
                assert "PartitionAlloc" in told, (pid, told)
                # what nobody's books know is little: thread stacks apart
                sums = by_label(seen)
                assert sums.get("read-write", 0) < max(4 * MIB, seen["rss_bytes"] // 50), (pid, sums)
                if b"--type=renderer" in read(pid):
                    renderers |= named
                seen_programs.append("chromium")
            assert {"V8 heap", "Oilpan heap"} <= renderers, renderers
        finally:
            os.killpg(child.pid, 9)
            child.wait()
    assert len(seen_programs) >= 30, seen_programs


def read(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return None
