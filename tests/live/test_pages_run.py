# SPDX-License-Identifier: Apache-2.0
"""`run` takes resident pages along: one recording has both books."""
import json
import os
import subprocess
import sys
import tempfile
import time

import pytest

MIB = 1 << 20
needs_bpf = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"),
    reason="BPF needs root and a kernel with BTF")
# Its code is known before it touches anything (the thread that learns of it goes before all others); and what it has is there when
# it ends, however late the recorder comes to look.
TOUCH = ("import mmap,os,time\n"
         "time.sleep(1)\n"
         "m=mmap.mmap(-1,24<<20,mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS)\n"
         "for i in range(0,24<<20,4096): m[i]=1\n"
         "b=[bytearray(1<<14) for _ in range(800)]\n"
         "os._exit(0)\n")


def run(*argv, **more):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, **more)


def report(byteledger, path, *options):
    done = run(byteledger, "report", path, "--format", "json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@needs_bpf
def test_one_recording_has_both_books(byteledger, tmp_path):
    path = str(tmp_path / "both.blt")
    done = run(byteledger, "run", "-o", path, "--", os.path.realpath(sys.executable), "-c", TOUCH)
    assert done.returncode == 0, done.stderr
    assert "Resident pages" in done.stderr and "without resident pages" not in done.stderr
    whole = report(byteledger, path)
    pages = whole["pages"]
    assert whole["totals"]["allocations"] > 1000
    # the rows are RSS, each on one line, and what smaps said right behind it was near
    assert sum(row["bytes"] for row in pages["rows"] if row["kind"] in ("anon", "shmem", "file")) == pages["rss_bytes"]
    assert pages["rss_bytes"] > 34 * MIB and abs(pages["checks"]["residual_bytes"]) < MIB
    assert pages["attributed_bytes"] >= 0.999 * pages["rss_bytes"], pages["unattributed"]
    # the program's own mapping, and the allocator's, have stacks and the names of mappings
    own = [row for row in pages["rows"] if row["kind"] == "anon" and not row["label"].startswith("heap")]
    assert sum(row["bytes"] for row in own if any("python" in (frame["module"] or "") for frame in row["frames"])) >= 24 * MIB - 65536
    assert all(row["label"] for row in pages["rows"] if row["kind"] in ("anon", "shmem", "file"))
    named = sum(row["bytes"] for row in pages["rows"] if any(frame["function"] for frame in row["frames"]))
    assert named >= 0.9 * pages["rss_bytes"]
    # earlier it was less, and a selection of blocks says nothing of pages
    early = report(byteledger, path, "--at", "0")["pages"]
    assert early["time_ns"] <= pages["time_ns"] and early["rss_bytes"] <= pages["rss_bytes"]
    assert "Resident pages" not in run(byteledger, "report", path, "--by", "function").stdout
    assert "pages" in run(byteledger, "info", path).stdout


@needs_bpf
def test_what_a_wrapper_execs_has_both_books(byteledger, tmp_path):
    path = str(tmp_path / "wrapped.blt")
    done = run(byteledger, "run", "-q", "-o", path, "--", "env", "A=b", os.path.realpath(sys.executable), "-c", TOUCH)
    assert done.returncode == 0, done.stderr
    pages = report(byteledger, path)["pages"]
    assert pages["rss_bytes"] > 34 * MIB and pages["attributed_bytes"] >= 0.999 * pages["rss_bytes"]
    assert "python" in pages["exe"]


CHILD = ("import mmap,os,sys,time\n"
         "m=mmap.mmap(-1,24<<20,mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS)\n"
         "for i in range(0,24<<20,4096): m[i]=1\n"
         "b=[bytearray(1<<14) for _ in range(800)]\n"
         "print('touched',flush=True)\n"
         "while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
         "os._exit(0)\n") # by the interpreter's way out the mapping goes first, and a reading may come in between
FORKS = ("import mmap,os,sys,time\n"
         "if os.fork() == 0:\n"
         "    m=mmap.mmap(-1,16<<20,mmap.MAP_PRIVATE|mmap.MAP_ANONYMOUS)\n"
         "    for i in range(0,16<<20,4096): m[i]=1\n"
         "    print('touched',flush=True)\n"
         "    while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
         "    os._exit(0)\n"
         "if os.fork() == 0: os.execv(sys.executable,[sys.executable,'-c',sys.argv[2],sys.argv[1]])\n"
         "os.wait()\n"
         "os.wait()\n")


@needs_bpf
def test_children_that_are_followed_have_both_books_too(byteledger, tmp_path):
    """One is a fork, the other another program; each in its own recording."""
    go, folder = tmp_path / "go", tmp_path / "family"
    folder.mkdir()
    done = subprocess.Popen([byteledger, "run", "--follow-children", "-o", str(folder / "%p.blt"), "--", os.path.realpath(sys.executable), "-c",
                             FORKS, str(go), CHILD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(2):
            assert done.stdout.readline() == "touched\n"
        root = int(open(f"/proc/{done.pid}/task/{done.pid}/children").read().split()[0])
        end = time.monotonic() + 60

        def of(path):
            asked = run(byteledger, "report", str(path), "--format", "json", "--at", "end")
            return json.loads(asked.stdout) if asked.returncode == 0 else {}

        def last_reading():
            return of(folder / f"{root}.blt").get("pages", {"time_ns": 0})["time_ns"]
        # all are read together: the next but one that the program's own file gets was begun when both had touched theirs
        for _ in range(2):
            before = last_reading()
            while last_reading() == before:
                assert time.monotonic() < end, "no reading came"
                assert done.poll() is None, done.stderr.read()
                time.sleep(0.1)
    finally:
        go.touch()
    said = done.communicate(timeout=60)[1]
    assert done.returncode == 0 and "2 children have their resident pages in their files" in said, said
    sizes = {}
    for path in folder.glob("*.blt*"):
        whole = of(path)
        if "pages" not in whole: # what the second child was before it became another program
            continue
        pages = whole["pages"]
        assert sum(row["bytes"] for row in pages["rows"] if row["kind"] in ("anon", "shmem", "file")) == pages["rss_bytes"]
        assert pages["attributed_bytes"] >= 0.999 * pages["rss_bytes"], pages["unattributed"]
        own = sum(row["bytes"] for row in pages["rows"] if row["kind"] == "anon" and not (row["label"] or "").startswith("heap") and
                  row.get("owner_pid", whole["process"]["pid"]) == whole["process"]["pid"])
        sizes[whole["process"]["pid"]] = own
    assert len(sizes) == 3
    program, small, large = sizes.pop(root), *sorted(sizes.values())
    assert program < 16 * MIB <= small < 20 * MIB and 24 * MIB <= large < 40 * MIB, (program, small, large)


@needs_bpf
def test_pages_are_left_out_where_they_are_not_wanted_or_not_permitted(byteledger, tmp_path):
    path = str(tmp_path / "without.blt")
    done = run(byteledger, "run", "-o", path, "--no-pages", "--", "/bin/true")
    assert done.returncode == 0 and "resident pages" not in done.stderr.lower()
    assert "pages" not in report(byteledger, path)
    # nobody may load programs: the rest is recorded, and what is missing is said once
    with tempfile.TemporaryDirectory() as folder: # pytest's own are its user's alone
        os.chmod(folder, 0o777)
        path = os.path.join(folder, "user.blt")
        done = run("setpriv", "--reuid", "65534", "--clear-groups", byteledger, "run", "-o", path, "--", "/bin/true")
        assert done.returncode == 0, done.stderr
        assert done.stderr.count("without resident pages by stack") == 1, done.stderr
        assert "pages" not in report(byteledger, path)


@needs_bpf
def test_code_of_libraries_is_theirs_from_the_first_moment(byteledger, prog, tmp_path):
    """It runs before anybody has told of its mapping, and nothing is remembered from an earlier start: none of it is made at run time."""
    for n in range(4):  # how late that is told differs
        path = str(tmp_path / f"{n}.blt")
        done = run(byteledger, "run", "-q", "-o", path, "--", prog("frag"), "200000", "90", stdin=subprocess.DEVNULL,
                   env={**os.environ, "XDG_CACHE_HOME": str(tmp_path / f"cache{n}")})
        assert done.returncode == 0, done.stderr
        pages = report(byteledger, path)["pages"]
        nowhere = [row for row in pages["rows"] if any(not frame["module"] for frame in row["frames"])]
        assert sum(row["bytes"] for row in nowhere) <= 16 * 4096 < 0.01 * pages["rss_bytes"], nowhere
