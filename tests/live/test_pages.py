# SPDX-License-Identifier: Apache-2.0
"""`pages`: every resident page by the call stack that made it so, held against the kernel's own figures.

tests/prog/pages.c touches memory in one way after the other, told by its standard input; after each it is stopped, and a
reading made while it stood still is compared with smaps and status.
"""
import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.request

import pytest

from conftest import BUILD
from netapi import free_port

MIB = 1 << 20
EACH_CHANGE = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 2)
IN_RSS = ("anon", "shmem", "file")

needs_bpf = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"),
    reason="BPF needs root and a kernel with BTF")
pytestmark = needs_bpf


def kernel_figures(pid):
    figures = {}
    with open(f"/proc/{pid}/status") as status:
        for line in status:
            key, value = line.split(":", 1)
            if value.strip().endswith("kB"):
                figures[key] = int(value.split()[0]) * 1024
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        for line in rollup:
            if line.startswith(("Rss:", "Anonymous:")):
                figures["smaps" if line[0] == "R" else "smaps_anon"] = int(line.split()[1]) * 1024
    return figures


def resident(figures):
    return {key: figures[key] for key in ("smaps", "smaps_anon", "RssAnon", "RssFile", "RssShmem", "VmSwap")}


def stands(pid):
    """Every thread of it has taken its stop signal."""
    def state(tid):
        try:
            with open(f"/proc/{pid}/task/{tid}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return "T"
    return all(state(tid) == "T" for tid in os.listdir(f"/proc/{pid}/task"))


class Stepper:
    """tests/prog/pages under `pages --jsonl`, or attached to later."""

    def __init__(self, byteledger, program, file_path, options=(), late=False):
        self.lines, self.more = [], threading.Condition()
        argv = [program, file_path]
        if late:
            self.prog = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.stdin, self.stdout = self.prog.stdin, self.prog.stdout
            self.ledger = None
            self.byteledger, self.options = byteledger, options
        else:
            read, write = os.pipe()
            self.ledger = subprocess.Popen(
                [byteledger, "pages", "--jsonl", "--watch", "0.1", "--report", f"/dev/fd/{write}", *options, "--", *argv],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, pass_fds=[write])
            os.close(write)
            self.listen(os.fdopen(read))
            self.stdin, self.stdout = self.ledger.stdin, self.ledger.stdout
        self.pid = int(self.expect("done begin").split()[2])
        if not late:
            self.known()

    def attach(self, *options):
        self.ledger = subprocess.Popen(
            [self.byteledger, "pages", "--jsonl", "--watch", "0.1", "-p", str(self.pid), *self.options, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.listen(self.ledger.stdout)
        self.reading(timeout=120) # it may be loaded under emulation

    def listen(self, stream):
        def run():
            for line in stream:
                with self.more:
                    self.lines.append(json.loads(line))
                    self.more.notify_all()
        threading.Thread(target=run, daemon=True).start()

    def expect(self, begin):
        line = self.stdout.readline()
        assert line.startswith(begin), (line, self.ledger and self.ledger.poll())
        return line

    def go(self, way):
        self.stdin.write(way + "\n")
        self.stdin.flush()
        self.expect(f"done {way}")

    def known(self):
        """Until its tables are there its stacks are short."""
        def whole():
            self.go("known")
            process, _ = self.reading(timeout=60)
            return any({"way_known", "main", "_start"} <= set(names(row)) for row in process["rows"])
        wait_for(whole, 60)

    def reading(self, pid=None, timeout=20):
        """One that was begun from now on: its process, and all of it."""
        now, end = time.monotonic_ns(), time.monotonic() + timeout
        while True:
            with self.more:
                self.more.wait(0.2)
                for whole in reversed(self.lines):
                    for process in whole["processes"]:
                        if process["pid"] == (pid or self.pid) and not process["ended"] and \
                                process["time_ns"] - process["walk_ns"] > now:
                            return process, whole
            assert time.monotonic() < end, "no reading came"
            assert self.ledger.poll() is None, self.ledger.stderr.read()

    def still(self):
        """
        The process stands, the reading is of that, and so are the kernel's figures. The kernel may take pages back at any moment
        (and a file system of a guest does when somebody opens the file): figures of before and behind the reading are the same, or
        there is another.
        """
        os.kill(self.pid, signal.SIGSTOP)
        try:
            wait_for(lambda: stands(self.pid))
            for _ in range(10):
                before = resident(kernel_figures(self.pid))
                process, _ = self.reading()
                figures = kernel_figures(self.pid)
                if resident(figures) == before:
                    break
            return process, figures
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def close(self):
        for process in (self.ledger, getattr(self, "prog", None)):
            if process and process.poll() is None:
                if process is self.ledger and process.stdin:
                    try:
                        process.stdin.write("quit\n")
                        process.stdin.close()
                    except OSError:
                        pass
                else:
                    process.terminate()
                process.wait(20)


@pytest.fixture
def cold_file(tmp_path):
    """Of a file system with a page cache: a guest's temporary files are shared memory."""
    folder = tempfile.mkdtemp(dir=BUILD) if os.environ.get("BYTELEDGER_GUEST") else str(tmp_path)
    path = os.path.join(folder, "cold")
    with open(path, "wb") as file:
        file.write(os.urandom(MIB) * 16)
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    yield path
    if folder != str(tmp_path):
        shutil.rmtree(folder)


@pytest.fixture
def stepper(byteledger, prog, cold_file):
    made = []

    def make(*options, late=False):
        made.append(Stepper(byteledger, prog("pages"), cold_file, options, late))
        return made[-1]
    yield make
    for one in made:
        one.close()


def names(row):
    return [frame["function"] for frame in row["frames"]]


def of_function(process, name, kinds=IN_RSS):
    """Bytes of stacks that pass through that function."""
    return sum(row["bytes"] for row in process["rows"] if name in names(row) and row["kind"] in kinds)


def held_against_kernel(process, figures):
    """Every sum is the kernel's own."""
    assert process["rss_bytes"] == figures["smaps"] == process["checks"]["smaps_rss_bytes"]
    assert process["checks"]["residual_bytes"] == 0
    kinds = process["kinds"]
    assert kinds["anon"] == figures["smaps_anon"]
    assert kinds["swap"] == figures["VmSwap"]
    if EACH_CHANGE: # before, status lags by up to 64 pages a thread
        assert kinds["anon"] == figures["RssAnon"]
        assert kinds["file"] == figures["RssFile"]
        assert kinds["shmem"] == figures["RssShmem"]
    rows = {kind: sum(row["bytes"] for row in process["rows"] if row["kind"] == kind) for kind in kinds}
    assert rows == kinds
    assert process["attributed_bytes"] + sum(process["unattributed"].values()) == process["rss_bytes"]


def test_every_step_adds_up_to_what_the_kernel_counts_and_has_a_stack(stepper):
    s = stepper()
    own = {}
    for way in ("memset", "small", "mmap", "dontneed", "filemap", "read", "readfresh", "filecow", "fork", "parentcow",
                "reap", "thp", "thpsplit", "shmem", "threads", "zero", "mremap", "populate", "mlock", "tmpfs", "willneed", "free",
                "unmap", "lazyfree", "written"):
        s.go(way)
        process, figures = s.still()
        held_against_kernel(process, figures)
        # where changes of RSS are told 64 at a time, some mapped file pages are not explained
        # what another process has written is that one's affair, and no more than that
        written = {"other_task": 4 * MIB} if way == "written" else {}
        assert process["unattributed"] == written if EACH_CHANGE else set(process["unattributed"]) <= {*written, "not_seen"}, \
            (way, process["unattributed"])
        assert process["lost"]["events"] - process["lost"]["by_reason"].get("events_missed", 0) == 0
        own[way] = process
    page = 4096
    if not EACH_CHANGE: # the sums hold; a few pages are told by their window
        assert abs(of_function(own["mmap"], "way_mmap") - 16 * MIB) <= 16 * page
        return
    assert abs(of_function(own["memset"], "way_memset", ("anon",)) - 8 * MIB) <= 2 * page
    assert of_function(own["small"], "way_small") >= 1000 * page
    # code that is read in meanwhile is file pages of that function, too
    assert of_function(own["mmap"], "way_mmap", ("anon",)) == 16 * MIB
    assert of_function(own["dontneed"], "way_mmap", ("anon",)) == 10 * MIB
    assert of_function(own["filemap"], "way_filemap", ("file",)) >= 4 * MIB
    assert of_function(own["read"], "way_read", ("cache", "file")) >= 4 * MIB
    assert of_function(own["readfresh"], "way_readfresh", ("anon",)) == 2 * MIB
    assert of_function(own["filecow"], "way_filecow", ("anon",)) == 2 * MIB
    # what the child copied is its own; what the parent copied is the parent's, by the function that wrote
    assert of_function(own["parentcow"], "way_parentcow", ("anon",)) == 3 * MIB
    assert of_function(own["parentcow"], "way_mmap", ("anon",)) == 7 * MIB
    assert of_function(own["thp"], "way_thp", ("anon",)) == 8 * MIB
    assert of_function(own["thpsplit"], "way_thp", ("anon",)) == 7 * MIB
    assert of_function(own["shmem"], "way_shmem", ("shmem",)) == 6 * MIB
    assert of_function(own["threads"], "in_thread", ("anon",)) == 8 * MIB
    assert of_function(own["mremap"], "in_thread", ("anon",)) == 8 * MIB
    assert of_function(own["zero"], "way_zero", ("anon",)) == 0
    assert of_function(own["populate"], "way_populate", ("anon",)) == 3 * MIB
    assert of_function(own["mlock"], "way_mlock", ("anon",)) == MIB
    assert of_function(own["tmpfs"], "way_tmpfs", ("held",)) == 4 * MIB
    assert of_function(own["lazyfree"], "way_lazyfree", ("anon",)) == 4 * MIB # half of it lazily: still there
    # freed from another function than the one that allocated
    assert of_function(own["free"], "way_memset", ("anon",)) <= 2 * page
    for gone in ("way_mmap", "in_thread"): # but for code that was read in there, which stays mapped
        assert of_function(own["unmap"], gone, ("anon", "shmem")) == 0


def test_stacks_reach_main_without_frame_pointers(stepper):
    s = stepper()
    s.go("memset")
    s.go("readfresh")
    process, _ = s.still()
    rows = [row for row in process["rows"] if "way_memset" in names(row)]
    whole = sum(row["bytes"] for row in rows if "main" in names(row) and not row.get("partial"))
    assert whole >= 8 * MIB - 8192, rows
    # the caller of a leaf of libc is not left out, nor is that of a system call
    top = max(rows, key=lambda row: row["bytes"])
    assert "memset" in top["frames"][0]["function"] and names(top)[1:3] == ["way_memset", "main"]
    assert top["frames"][1]["module"] == "pages" and top["frames"][0]["module"].startswith("libc.so")
    read = max((row for row in process["rows"] if "way_readfresh" in names(row)), key=lambda row: row["bytes"])
    # newer C libraries have functions of their own between
    own = [name for name, frame in zip(names(read), read["frames"]) if not frame["module"].startswith("libc.so")]
    assert own[:2] == ["way_readfresh", "main"] and read["frames"][0]["module"].startswith("libc.so"), read


def test_a_leaf_made_at_run_time_shows_its_caller(stepper):
    """It has no recipes and makes no frame: the word at the stack pointer is believed, as it leads behind a call."""
    s = stepper()

    def known():
        s.go("leafonce")
        process, _ = s.reading()
        return any(names(row)[:3] == [None, "way_leafonce", "main"] for row in process["rows"])
    wait_for(known, 60) # its code has been looked at
    s.go("leaf")
    s.go("leafinside")
    process, figures = s.still()
    held_against_kernel(process, figures)
    for way, callers, pages in (("way_leaf", ["way_leaf", "main"], 1024), ("way_leafinside", [None, "way_leafinside", "main"], 512)):
        rows = [row for row in process["rows"] if way in names(row) and row["kind"] == "anon"]
        through = [row for row in rows if names(row)[:1 + len(callers)] == [None, *callers]]
        assert sum(row["bytes"] for row in through) == pages * 4096, (way, rows)
        assert all("_start" in names(row) for row in through), through


def test_what_was_there_before_is_named_by_mapping_and_only_shrinks(stepper):
    s = stepper(late=True)
    s.go("memset")
    s.go("mmap")
    s.attach()
    process, figures = s.still()
    held_against_kernel(process, figures)
    before = process["unattributed"]["before_attach"]
    assert before >= process["rss_bytes"] * 0.99
    rows = [row for row in process["rows"] if row.get("reason") == "before_attach"]
    assert all(row["label"] and row["frames"] == [] for row in rows)
    s.go("threads")
    s.go("filemap")
    process, figures = s.still()
    held_against_kernel(process, figures)
    assert set(process["unattributed"]) <= {"before_attach"}
    assert process["unattributed"]["before_attach"] <= before
    assert 0 <= of_function(process, "in_thread", ("anon",)) - 8 * MIB <= 4096 # a page of its stack
    s.go("unmap")
    process, figures = s.still()
    held_against_kernel(process, figures)
    assert process["unattributed"]["before_attach"] <= before - 16 * MIB


def test_an_exec_begins_anew(stepper):
    s = stepper()
    s.go("memset")
    s.stdin.write("exec\n")
    s.stdin.flush()
    s.expect("done begin")
    s.known()
    s.go("small")
    process, figures = s.still()
    held_against_kernel(process, figures)
    assert process["unattributed"] == {}
    assert of_function(process, "way_memset") == 0 and of_function(process, "way_small") >= 900 * 4096


def test_children_are_followed_on_request(stepper):
    s = stepper("--follow-children")
    s.go("mmap")
    s.go("fork")
    _, whole = s.reading()
    child = next(p["pid"] for p in whole["processes"] if p["pid"] != s.pid)
    process, _ = s.reading(child)
    assert process["unattributed"] == {}
    copied = [row for row in process["rows"] if "way_fork" in names(row) and row["kind"] == "anon" and
              row.get("owner_pid", child) == child]
    assert sum(row["bytes"] for row in copied) >= 2 * MIB
    # what it shares with its parent is the parent's
    shared = [row for row in process["rows"] if "way_mmap" in names(row)]
    assert all(row["owner_pid"] == s.pid for row in shared) and sum(row["bytes"] for row in shared) == 14 * MIB
    s.go("reap")


def test_a_recording_is_read_by_whatever_reads_recordings(byteledger, prog, cold_file, tmp_path):
    path = str(tmp_path / "pages.blt")
    program = subprocess.Popen([byteledger, "pages", "-q", "--watch", "0.1", "-o", path, "--", prog("pages"), cold_file],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    program.stdout.readline()
    time.sleep(0.2)
    for way in ("memset", "mmap", "dontneed", "quit"):
        program.stdin.write(way + "\n")
        program.stdin.flush()
        if way != "quit":
            program.stdout.readline()
            time.sleep(0.4)
    assert program.wait(20) == 0

    def run(*argv):
        done = subprocess.run([byteledger, *argv], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout
    report = json.loads(run("report", path, "--format", "json"))
    assert report["process"]["complete"] and report["process"]["exit_status"] == 0
    totals = report["totals"]
    assert totals["peak_bytes"] == totals["peak_rss_bytes"] and totals["leaked_bytes"] <= totals["peak_bytes"] - 6 * MIB
    peaks = {name: sum(row["peak_bytes"] for row in report["rows"]
                       if name in [frame["function"] for frame in row["frames"]]) for name in ("way_mmap", "way_memset")}
    assert peaks["way_mmap"] == 16 * MIB and abs(peaks["way_memset"] - 8 * MIB) <= 8192
    live = json.loads(run("report", path, "--format", "json", "--at", "end", "--cost", "live"))
    assert sum(row["leaked_bytes"] for row in live["rows"] if "way_mmap" in
               [frame["function"] for frame in row["frames"]]) == 10 * MIB
    assert "way_mmap" in run("export", "--to", "folded", path)
    assert "recorded by pages" in run("info", path)


def programs_of(pid):
    """Numbers of the BPF programs and links whose descriptors that process holds."""
    found = []
    for fd in os.listdir(f"/proc/{pid}/fdinfo"):
        try:
            with open(f"/proc/{pid}/fdinfo/{fd}") as info:
                found += [int(line.split()[1]) for line in info if line.startswith("prog_id:")]
        except FileNotFoundError: # closed meanwhile
            continue
    return set(found)


def loaded():
    out = subprocess.run(["bpftool", "-j", "prog", "list"], capture_output=True, text=True)
    return {program["id"] for program in json.loads(out.stdout)}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_nothing_is_left_in_the_kernel(stepper, number):
    s = stepper(late=True)
    s.attach()
    ours = programs_of(s.ledger.pid)
    assert len(ours) >= 10 and ours <= loaded()
    s.ledger.send_signal(number)
    s.ledger.wait(20)
    end = time.monotonic() + 10
    while ours & loaded() and time.monotonic() < end: # the kernel frees them a moment later
        time.sleep(0.1)
    assert not ours & loaded()
    s.go("memset") # and the target goes on


def wait_for(condition, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def last_of(path):
    """The processes of the last whole line."""
    lines = path.read_text().split("\n")
    return json.loads(lines[-2])["processes"] if len(lines) > 1 else []


def test_a_name_is_waited_for_and_followed_through_restarts(byteledger, prog, cold_file, tmp_path):
    link = tmp_path / "pagesnamed"
    link.symlink_to(prog("pages"))
    name = tmp_path / "pageswaited"
    shutil.copy(prog("pages"), name)
    out = tmp_path / "out"
    with open(out, "wb") as to:
        ledger = subprocess.Popen([byteledger, "pages", "-n", "pageswaited", "--jsonl", "--watch", "0.1"], stdout=to,
                                  stderr=subprocess.PIPE, text=True)
        assert "waiting" in ledger.stderr.readline()
        pids = []
        for _ in range(2):
            program = subprocess.Popen([name, cold_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            program.stdout.readline()
            time.sleep(0.1) # its first stacks are short, until its tables are there
            program.stdin.write("memset\n")
            program.stdin.flush()
            program.stdout.readline()
            wait_for(lambda: any(
                process["pid"] == program.pid and of_function(process, "way_memset") >= 8 * MIB - 8192 for process in last_of(out)))
            program.communicate("quit\n")
            pids.append(program.pid)
        ledger.send_signal(signal.SIGINT)
        assert ledger.wait(20) == 0
    last = {}
    for line in out.read_text().splitlines():
        for process in json.loads(line)["processes"]:
            last[process["pid"]] = process
    for pid in pids:
        # the pages of its arguments were there before it could be known by its name
        assert set(last[pid]["unattributed"]) <= {"before_attach"}
        assert sum(last[pid]["unattributed"].values()) <= 16384, last[pid]["unattributed"]
        assert of_function(last[pid], "way_memset") >= 8 * MIB - 8192


def sums_hold(node, key="value"):
    inside = sum(child[key] for child in node["frames"]) + node.get("selfValue", 0) if key == "value" else None
    if inside is not None:
        assert inside == node["value"], (inside, node["value"], node.get("name"))
    assert node["cacheValue"] <= node["value"]
    for child in node["frames"]:
        if isinstance(child["name"], str):
            assert child["name"] in ("underThreshold", "unknown") and "frames" not in child
        else:
            assert list(child["name"]) == ["offset", "executable", "functionName", "functionCategory"]
            assert len(child["name"]["offset"]) == 8
            sums_hold(child)


def test_http_is_that_of_tezedge_with_additions(byteledger, prog, cold_file):
    port = free_port()
    ledger = subprocess.Popen([byteledger, "pages", "--serve", f"127.0.0.1:{port}", "--watch", "0.1", "-q", "--",
                               prog("pages"), cold_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)

    def get(path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as reply:
                return reply.status, json.loads(reply.read()), reply.headers
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read()), error.headers
    try:
        pid = int(ledger.stdout.readline().split()[2])
        for way in ("memset", "filemap"):
            ledger.stdin.write(way + "\n")
            ledger.stdin.flush()
            ledger.stdout.readline()
        wait_for(lambda: get("/v1/pid")[1] == pid)
        os.kill(pid, signal.SIGSTOP)
        time.sleep(0.3)
        wait_for(lambda: get("/v1/tree?short=true")[1]["age"] < 200)
        figures = kernel_figures(pid)
        trees = {}
        for reverse in ("false", "true"):
            for threshold in (0, 512, 1 << 40):
                status, tree, headers = get(f"/v1/tree?threshold={threshold}&reverse={reverse}")
                assert status == 200 and headers["Content-Type"].startswith("application/json")
                assert "name" not in tree and set(tree) >= {"value", "cacheValue", "frames"}
                assert (tree["value"] - tree["cacheValue"]) * 1024 == figures["RssAnon"]
                if threshold != 1 << 40:
                    sums_hold(tree)
                trees[reverse, threshold] = tree
        assert len({(tree["value"], tree["cacheValue"]) for tree in trees.values()}) == 1
        assert [child["name"] for child in trees["false", 1 << 40]["frames"]] == ["underThreshold"]
        assert len(get("/v1/tree")[1]["frames"]) >= len(trees["false", 512]["frames"])
        outer = {child["name"]["functionName"] for child in trees["true", 512]["frames"]
                 if isinstance(child["name"], dict)}
        assert "_start" in outer or "__libc_start_main" in outer, outer
        status, short, _ = get("/v1/tree?short=true")
        assert status == 200 and short["total"] - short["cache"] == short["anon"] == short["systemReportAnon"]
        assert get("/v1/tree?threshold=x")[0] == get("/v1/tree?reverse=1")[0] == 400
        assert get("/v1/tree?threshold=-1")[0] == 400 and "error" in get("/v1/tree?kind=x")[1]
        # growth since a reading of before
        assert get("/v1/tree?since=5s")[0] == get("/v1/tree?at=x")[0] == 400
        assert get("/v1/tree?since=-100h")[0] == 404
        os.kill(pid, signal.SIGCONT)
        time.sleep(2.5) # earlier readings are kept a second apart: that of two seconds ago may be three old
        ledger.stdin.write("populate\n")
        ledger.stdin.flush()
        ledger.stdout.readline()
        time.sleep(1.2)
        growth = get("/v1/tree?since=-2s&threshold=0&kind=anon&reverse=false")[1]
        assert 3 * 1024 <= growth["value"] <= 8 * 1024, growth["value"]
        assert get("/v1/tree?at=-1s")[1]["value"] > 0
        assert get("/v1/tree?unknown=1")[0] == 200
        assert get("/v1/tree?pid=1")[0] == 404 and get(f"/v1/tree?pid={pid}")[0] == 200
        assert get("/openapi/memory-profiler-openapi.json")[1]["openapi"].startswith("3.")
        sites = get("/v1/tree?threshold=0&merge=site&unit=bytes")[1]
        assert sites["value"] >= trees["false", 0]["value"] * 1024
        sums_hold(sites)
        assert {"nodeCpp"} == {category(node) for node in every(sites) if executable(node) == "pages"}
    finally:
        os.kill(pid, signal.SIGCONT)
        ledger.communicate("quit\n", timeout=20)


def every(node):
    for child in node["frames"]:
        if isinstance(child["name"], dict):
            yield child
            yield from every(child)


def executable(node):
    return node["name"]["executable"]


def category(node):
    return node["name"]["functionCategory"]


@pytest.mark.parametrize("argv, status, words", [
    (["-p", "4194303"], 1, "4194303"),
    ([], 2, "which process"),
    (["-p", "1", "--kind", "heap"], 2, "unknown kind"),
    (["-p", "1", "--format", "csv"], 2, "text or json"),
    (["-p", "1", "--threshold", "-1"], 2, "threshold"),
    (["-p", "1", "--format", "json", "--reverse"], 2, "for text"),
    (["-p", "1", "--no-auth"], 2, "--serve"),
    (["--", "/no/such/program"], 127, "/no/such/program"),
])
def test_what_cannot_be_done_is_said_in_one_line_with_a_hint(byteledger, argv, status, words):
    done = subprocess.run([byteledger, "pages", *argv], capture_output=True, text=True, timeout=60,
                          stdin=subprocess.DEVNULL)
    assert done.returncode == status and words in done.stderr and "hint:" in done.stderr, done.stderr
    assert done.stdout == "" and len(done.stderr.splitlines()) == 2


def test_inside_a_pid_namespace_ids_are_those_of_the_inside(byteledger, prog, cold_file, tmp_path):
    out = tmp_path / "out.json"
    said = tmp_path / "said"
    said.touch()

    def then(way, done):
        return f"echo {way}; until grep -q 'done {done}' {said}; do sleep 0.02; done; sleep 0.3; "
    script = f"(until grep -q begin {said}; do sleep 0.02; done; sleep 0.3; {then('memset', 'memset')} {then('mmap', 'mmap')}" \
             f"{then('fork', 'fork')} echo reap; echo quit) | " \
             f"{byteledger} pages --watch 0.1 --follow-children --format json --report {out} -- {prog('pages')} {cold_file} >{said}; s=$?; " \
             f"cat {said}; exit $s"
    done = subprocess.run(["unshare", "-m", "-p", "-f", "--mount-proc", "sh", "-c", script],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    pid = int(done.stdout.split()[2])
    assert pid < 1000
    processes = {process["pid"]: process for process in json.loads(out.read_text())["processes"]}
    assert len(processes) == 2 and processes[pid]["unattributed"] == {}
    assert abs(of_function(processes[pid], "way_memset") - 8 * MIB) <= 8192


def test_without_privilege_it_says_what_is_missing(byteledger):
    done = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "--inh-caps=-all", byteledger, "pages", "-p",
                           str(os.getpid())], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "hint:" in done.stderr and "CAP_BPF" in done.stderr, done.stderr


def test_text_keeps_to_eighty_columns_and_says_the_sums(byteledger, prog, cold_file, tmp_path):
    record = tmp_path / "a.blt"
    looker = subprocess.Popen([byteledger, "pages", "-o", record.name, "--", prog("pages"), cold_file], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env={**os.environ, "COLUMNS": "80"})
    looker.stdin.write("memset\nfilemap\n")
    looker.stdin.flush()
    wait_for(lambda: record.exists() and record.stat().st_size > 0)  # the first reading is there
    out, said = looker.communicate("quit\n", timeout=60)
    assert looker.returncode == 0 and "done memset" in out
    lines = said.splitlines()
    assert lines and "RSS" in lines[0] and "with a stack" in lines[0]
    assert all(len(line) <= 80 for line in lines), max(lines, key=len)


def test_a_program_that_ends_before_it_is_counted_is_told(byteledger):
    """Most of these end within the ten milliseconds before the first reading; each is told, or said not to be."""
    for _ in range(5):
        done = subprocess.run([byteledger, "pages", "--", "/bin/true"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0
        assert done.stderr == "byteledger: the program ended before its pages were counted\n" or "with a stack" in done.stderr, done.stderr


@pytest.mark.large
@pytest.mark.timeout(300)
def test_pages_that_compaction_moves_keep_their_stack(stepper):
    s = stepper()
    s.go("mmap")
    s.go("fragment")
    moved = 0
    for _ in range(20):
        with open("/proc/sys/vm/compact_memory", "w") as compact:
            compact.write("1")
        _, whole = s.reading()
        moved = whole["kernel"]["moved_pages"]
        if moved > 100:
            break
    process, figures = s.still()
    held_against_kernel(process, figures)
    assert process["unattributed"] == {} and moved > 100, moved
    assert of_function(process, "way_mmap") == 16 * MIB and of_function(process, "way_fragment") == 32 * MIB


@contextlib.contextmanager
def eager_khugepaged():
    folder = "/sys/kernel/mm/transparent_hugepage/khugepaged/"
    before = {}
    for name, value in (("scan_sleep_millisecs", "10"), ("pages_to_scan", "100000")):
        with open(folder + name) as file:
            before[name] = file.read()
        with open(folder + name, "w") as file:
            file.write(value)
    try:
        yield
    finally:
        for name, value in before.items():
            with open(folder + name, "w") as file:
                file.write(value)


def huge(pid):
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return next(int(line.split()[1]) for line in rollup if line.startswith("AnonHugePages")) * 1024


@pytest.mark.large
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", ["collapse", "collapsepart"])
def test_pages_that_khugepaged_gathers_keep_their_stack(stepper, way):
    """What it fills between them is there because of whoever touched the rest."""
    with eager_khugepaged():
        s = stepper()
        s.go(way)
        s.go("willcollapse")
        wait_for(lambda: huge(s.pid) >= 4 * MIB, 60)
        process, figures = s.still()
    held_against_kernel(process, figures)
    assert process["unattributed"] == {} and of_function(process, f"way_{way}", ("anon",)) == 4 * MIB


@pytest.mark.large
@pytest.mark.timeout(300)
def test_pages_that_khugepaged_gathers_before_anybody_looked_have_their_stack(byteledger, prog, cold_file, tmp_path):
    """No reading remembers who had them: the faults that made them tell."""
    out = tmp_path / "out"
    target = subprocess.Popen([prog("pages"), cold_file], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pid = int(target.stdout.readline().split()[2])

    def go(way):
        target.stdin.write(way + "\n")
        target.stdin.flush()
        assert target.stdout.readline() == f"done {way}\n"
    record = tmp_path / "first.blt"
    ledger = subprocess.Popen([byteledger, "pages", "--format", "json", "--watch", "3600", "--report", str(out), "-o", str(record), "-p", str(pid)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: record.exists() and record.stat().st_size > 0, 60) # the one reading at the start
        with eager_khugepaged():
            go("collapse")
            go("willcollapse")
            wait_for(lambda: huge(pid) >= 4 * MIB, 60)
            os.kill(pid, signal.SIGSTOP)
            wait_for(lambda: stands(pid))
            figures = kernel_figures(pid)
        ledger.send_signal(signal.SIGINT)
        assert ledger.wait(60) == 0, ledger.stderr.read()
    finally:
        target.kill()
        target.communicate()
        ledger.kill()
        ledger.communicate()
    process = json.loads(out.read_text())["processes"][0]
    held_against_kernel(process, figures)
    assert set(process["unattributed"]) == {"before_attach"} and of_function(process, "way_collapse", ("anon",)) == 4 * MIB, process["unattributed"]


@pytest.mark.large
@pytest.mark.timeout(300)
def test_a_storm_of_allocations_leaves_no_error(stepper):
    s = stepper()
    s.go("churn")
    process, figures = s.still()
    held_against_kernel(process, figures)
    assert process["unattributed"] == {}
    # what the kernel's lists of recently used pages hold back is memory still held: 31 folios a CPU and kind
    assert process["kinds"]["held"] <= 5 * 31 * 4096 * os.cpu_count(), process["kinds"]
    _, whole = s.reading()
    ever = sum(row["bytes"] for row in process["rows"]) // 4096
    assert whole["kernel"]["stale_pages"] <= 50 + ever * 0.001, whole["kernel"]


@pytest.mark.large
@pytest.mark.timeout(300)
def test_a_storm_of_forks_fits_into_the_tables(byteledger, tmp_path):
    out = tmp_path / "out.json"
    script = "i=0; while [ $i -lt 500 ]; do /bin/true; /bin/ls / >/dev/null; i=$((i + 1)); done"
    done = subprocess.run([byteledger, "pages", "--follow-children", "--format", "json", "--report", str(out), "--", "sh", "-c", script],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    whole = json.loads(out.read_text())
    lost = whole["processes"][0]["lost"]["by_reason"]
    assert set(lost) <= {"events_missed"}, lost
    assert whole["kernel"]["stacks"] < whole["kernel"]["stacks_max"]


RUST = """
#[inline(never)] fn rust_touches(n: usize) -> Vec<u8> { let mut v = vec![1u8; n]; v[5] = 2; v }
fn main() { let v = rust_touches(8 << 20); println!("ready"); std::thread::sleep(std::time::Duration::from_secs(3)); println!("{}", v[7]); }
"""
CPP = """
#include <cstdio>
#include <unistd.h>
#include <vector>
namespace deep { struct Holder { std::vector<int> *all; __attribute__((noinline)) void touches(unsigned n) { all = new std::vector<int>(n, 7); } }; }
int main() { usleep(300000); deep::Holder h; h.touches(2 << 20); puts("ready"); fflush(stdout); sleep(3); return (*h.all)[5] - 7; }
"""


@pytest.mark.large
@pytest.mark.parametrize("compiler, source, suffix, function", [
    ("g++", CPP, "cc", "deep::Holder::touches"), ("rustc", RUST, "rs", "rust_touches")])
def test_cpp_and_rust_without_frame_pointers_are_named(byteledger, installed, tmp_path, compiler, source, suffix, function):
    path = tmp_path / f"t.{suffix}"
    path.write_text(source)
    program = str(tmp_path / "t")
    optimise = ["-O2", "-fomit-frame-pointer"] if compiler == "g++" else ["-O"]
    subprocess.run([installed(compiler), *optimise, "-o", program, str(path)], check=True, capture_output=True)
    out = tmp_path / "out.json"
    done = subprocess.run([byteledger, "pages", "--format", "json", "--report", str(out), "--", program], capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    process = json.loads(out.read_text())["processes"][0]
    assert process["unattributed"] == {}
    found = sum(row["bytes"] for row in process["rows"] if row["kind"] == "anon" and
                any(frame["function"] and function in frame["function"] for frame in row["frames"]))
    assert found >= 7.9 * MIB, [row for row in process["rows"] if row["bytes"] > MIB]
