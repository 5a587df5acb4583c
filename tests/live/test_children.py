# SPDX-License-Identifier: Apache-2.0
"""Children of forks: each has a recording of its own, which begins with what it inherited and counts exactly."""
import contextlib
import fcntl
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import time

import pytest

from netapi import free_port
from test_manners import wait_for


class Tree:
    """Runs a program with its children followed; recordings are looked for by the program's name and pid."""

    def __init__(self, byteledger, preload, folder):
        self.byteledger, self.preload, self.folder = byteledger, preload, str(folder)
        os.chmod(self.folder, 0o777)

    def command(self, *options):
        return [self.byteledger, "heap", "-q", "--follow-children", *options, "-o", f"{self.folder}/%e_%p.blt", "--"]

    def alone(self, **more):
        return {**os.environ, "LD_PRELOAD": self.preload, "BYTELEDGER_OUTPUT": f"{self.folder}/%e_%p.blt",
                "BYTELEDGER_TRACK_CHILD_PROCESSES": "1", "BYTELEDGER_ON_FULL": "wait", **more}

    def report(self, path):
        done = subprocess.run([self.byteledger, "report", path, "--format", "json"], capture_output=True, timeout=60)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def finished(self, name, pid, seconds=60):
        """The report of process `pid` once its recorder, which outlives it, has finished the file."""
        path = f"{self.folder}/{name}_{pid}.blt"
        deadline = time.monotonic() + seconds
        while True:
            info = subprocess.run([self.byteledger, "info", "--format", "json", path], capture_output=True, timeout=60)
            if info.returncode == 0 and json.loads(info.stdout)["file"]["finished"]:
                return self.report(path)
            assert time.monotonic() < deadline, f"{path} is not there: {os.listdir(self.folder)}"
            time.sleep(0.05)

    def all(self, name, expected=1):
        """The reports of the processes called `name`, `expected` at least: a child's file may come after the child's end."""
        deadline = time.monotonic() + 60
        while len(glob.glob(f"{self.folder}/{name}_*.blt")) < expected:
            assert time.monotonic() < deadline, os.listdir(self.folder)
            time.sleep(0.05)
        pids = [path.split("_")[-1].split(".")[0] for path in glob.glob(f"{self.folder}/{name}_*.blt")]
        return {int(pid): self.finished(name, pid) for pid in pids}


@pytest.fixture
def tree(byteledger, preload, tmp_path):
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if str(folder).startswith("/tmp/"):
            os.chmod(folder, 0o755)
    out = tmp_path / "out"
    out.mkdir()
    return Tree(byteledger, preload, out)


def run_children(argv, env=None):
    """Returns what the program wrote on descriptor 8: pids."""
    read, write = os.pipe()

    def place():
        os.dup2(write, 100)
        os.dup2(100, 8)
        os.close(100)
    child = subprocess.Popen(argv, preexec_fn=place, pass_fds=(8,), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, env=env)
    os.close(write)
    with os.fdopen(read) as pids:
        said = pids.read().split()
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out, err) == (0, b"", b"")
    return [int(pid) for pid in said]


def own(report):
    totals = report["totals"]
    return (totals["allocations"] - totals["inherited_allocations"],
            totals["allocated_bytes"] - totals["inherited_bytes"], totals["frees"])


def eldest(reports):
    """The pid of the one that nobody forked; a child's number may be the smaller one, for numbers begin again."""
    pid, = (pid for pid, report in reports.items() if "forked_from" not in report["process"])
    return pid


@pytest.mark.parametrize("how", ["under", "alone"])
@pytest.mark.parametrize("kind", ["fork", "thread", "daemon"])
def test_a_child_has_exact_books_that_begin_with_its_parents_blocks(tree, prog, kind, how):
    argv = [prog("children"), kind, "1001"]
    pid, = run_children(tree.command() + argv) if how == "under" else run_children(argv, tree.alone())
    child = tree.finished("children", pid)
    assert own(child) == (1001, 100100, 501)
    assert child["totals"]["foreign_frees"] == 0 and child["lost"]["events"] == 0
    assert child["process"]["inherited_known"] is True and child["process"]["complete"] is True
    assert child["process"]["cmdline"] == argv
    processes = 3 if kind == "daemon" else 2
    parents = tree.all("children", processes)
    assert child["process"]["forked_from"] in parents and len(parents) == processes
    # what it inherited stands under the stacks that asked for it, in the parent; the block that it freed is gone
    by_bytes = {row["allocated_bytes"]: row for row in child["rows"] if row["frames"][0]["function"] == "main"}
    assert by_bytes[2000]["leaked_bytes"] == 2000 and by_bytes[1000]["leaked_bytes"] == 0 and 3000 not in by_bytes
    assert child["totals"]["leaked_bytes"] - 501 * 100 == child["totals"]["inherited_bytes"] - 1000
    parent = parents[eldest(parents)]
    assert parent["lost"]["events"] == 0
    if kind != "thread":
        assert parent["totals"]["foreign_frees"] == 0
        assert child["totals"]["inherited_bytes"] >= 3000 and child["totals"]["inherited_allocations"] >= 2


@pytest.mark.parametrize("follow", [True, False], ids=["followed", "alone"])
def test_a_signal_handler_may_fork_within_a_hook(tree, prog, follow):
    command = [word for word in tree.command() if follow or word != "--follow-children"]
    done = subprocess.run(command + [prog("alarmforks"), "60"], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "60 forks, 0 bad\n"), done.stderr
    books = [report for report in tree.all("alarmforks").values() if "forked_from" in report["process"]]
    # one that a handler made in the midst of the allocator has none: what it goes on with belongs to neither book
    assert len(books) in (range(1, 61) if follow else [0])
    for report in books:
        kept = [row for row in report["rows"] if row["allocated_bytes"] == 100 * 4321]
        assert report["lost"]["events"] == 0 and [row["allocations"] for row in kept] == [100]


def test_a_signal_handler_may_fork_while_a_hook_waits_for_room(tree, prog):
    # the ring is full as the child is forked, and what the recorder reads from then on is its parent's
    done = subprocess.run(tree.command() + [prog("alarmforks"), "3", "full"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "3 forks, 0 bad\n"), done.stderr
    parent = next(report for report in tree.all("alarmforks").values() if "forked_from" not in report["process"])
    assert parent["totals"]["allocations"] * 24 > 4 << 20, "the ring was never full: the test shows nothing"


@pytest.mark.parametrize("kind", ["vfork", "spawn", "clone"])
def test_a_child_that_shares_or_replaces_its_memory_has_no_book_of_the_forks(tree, prog, kind):
    pid, = run_children(tree.command() + [prog("children"), kind, "1"])
    parents = tree.all("children")
    assert pid not in parents and len(parents) == 1
    if kind != "clone":
        successor = tree.finished("true", pid)
        assert "forked_from" not in successor["process"]


def test_who_becomes_the_same_program_again_has_the_name_that_is_given_up(tree, prog):
    pids = run_children(tree.command() + [prog("children"), "itself", "1001"])
    assert len(pids) == 10
    deadline = time.monotonic() + 60
    for pid in pids:
        while True: # the file of what is only between fork and exec goes, the program's stays
            files = glob.glob(f"{tree.folder}/children_{pid}.blt*")
            infos = [subprocess.run([tree.byteledger, "info", "--format", "json", path], capture_output=True, timeout=60) for path in files]
            if len(files) == 1 and infos[0].returncode == 0 and json.loads(infos[0].stdout)["file"]["finished"]:
                break
            assert time.monotonic() < deadline, os.listdir(tree.folder)
            time.sleep(0.05)
        assert files == [f"{tree.folder}/children_{pid}.blt"]
        report = tree.report(files[0])
        assert "forked_from" not in report["process"] and report["totals"]["allocations"] >= 1001 + 3


@contextlib.contextmanager
def not_executed(path):
    """While this lasts, whoever executes `path` stands still in execve(): the lease is taken back first."""
    was = signal.signal(signal.SIGIO, signal.SIG_IGN)
    with open(path, "rb") as held:
        try:
            fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        except OSError as no:
            signal.signal(signal.SIGIO, was)
            pytest.skip(f"no lease on a file of {path}: {no}")
        yield
        fcntl.fcntl(held, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    signal.signal(signal.SIGIO, was)


@pytest.mark.parametrize("kind", ["fork", "daemon"])
def test_a_child_does_not_wait_for_its_recorder(tree, prog, byteledger, tmp_path, kind):
    helper = shutil.copy(byteledger, tmp_path / "slow")
    with not_executed(helper):
        with open(tmp_path / "pids", "wb") as said:
            done = subprocess.run([*tree.command(), prog("children"), kind, "1001"], timeout=30, preexec_fn=lambda: os.dup2(1, 8),
                                  pass_fds=(8,), stdout=said, env={**os.environ, "BYTELEDGER_HELPER": str(helper)})
        pid, = (tmp_path / "pids").read_text().split() # the kernel breaks a lease after 45 seconds
        assert done.returncode == 0 and not glob.glob(f"{tree.folder}/children_{pid}.blt")
    child = tree.finished("children", pid)
    # the parent's recorder has ended meanwhile, and with it the parent's word on the block that the child freed
    assert own(child) == (1001, 100100, 500) and child["totals"]["foreign_frees"] == 1
    assert child["process"]["inherited_known"] is False and child["lost"]["events"] == 0


def test_a_recorder_that_cannot_be_executed_is_said_and_costs_the_child_nothing(tree, prog, tmp_path):
    helper = tmp_path / "broken"
    helper.write_bytes(b"\0not a program")
    helper.chmod(0o755)
    # who ends within milliseconds of his child may not have heard of it
    program = "import os, time\npid = os.fork()\nif not pid: os._exit(0)\nos.waitpid(pid, 0)\ntime.sleep(1)"
    done = subprocess.run([word for word in tree.command() if word != "-q"] + ["/usr/bin/python3", "-S", "-c", program], capture_output=True, timeout=60,
                          env={**os.environ, "BYTELEDGER_HELPER": str(helper)})
    assert done.returncode == 0
    # nothing of the library's on the program's stderr, which is its own: it is said when all has ended
    assert b" ERR " not in done.stderr
    assert b"; not recorded: 1\n" in done.stderr and b" (1 child not recorded)\n" in done.stderr, done.stderr
    assert len([name for name in os.listdir(tree.folder) if name.endswith(".blt")]) == 1
    logged = subprocess.run([*tree.command(), prog("children"), "fork", "1001"], capture_output=True, timeout=60,
                            preexec_fn=lambda: os.dup2(1, 8), pass_fds=(8,),
                            env={**os.environ, "BYTELEDGER_HELPER": str(helper), "BYTELEDGER_LOG": "error"})
    assert b" ERR the recorder of a child could not be started" in logged.stderr


@pytest.mark.parametrize("alone", [False, True], ids=["run", "alone"])
def test_a_followed_child_has_no_child_that_it_has_not_made(tree, prog, alone):
    argv = [prog("nochild")] if alone else [*tree.command(), prog("nochild")]
    for _ in range(5):
        done = subprocess.run(argv, capture_output=True, timeout=60, env=tree.alone() if alone else None)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"0 0\n", b"")
    tree.all("nochild", 10)


def test_without_the_option_no_child_is_recorded(tree, prog, byteledger):
    run_children([byteledger, "heap", "-q", "-o", f"{tree.folder}/%e_%p.blt", "--", prog("children"), "fork", "10"])
    assert len(tree.all("children")) == 1


def test_a_parent_without_a_recorder_leaves_its_blocks_unknown_and_the_child_says_so(tree, prog):
    argv = [prog("children"), "fork", "1001"]
    pid, = run_children(argv, tree.alone(BYTELEDGER_HELPER="/nonexistent"))
    path = f"{tree.folder}/children_{pid}.blt.raw"
    child = tree.report(path)
    assert child["totals"]["allocations"] == 1001 and child["totals"]["foreign_frees"] == 1
    assert child["process"]["forked_from"] and child["process"]["inherited_known"] is False
    text = subprocess.run([tree.byteledger, "report", path], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "FORKED from process" in text and "not known" in text


def test_what_a_child_inherited_is_marked_event_by_event(tree, prog):
    pid, = run_children(tree.command() + [prog("children"), "fork", "3"])
    tree.finished("children", pid)
    out = subprocess.run([tree.byteledger, "export", "--to", "jsonl", f"{tree.folder}/children_{pid}.blt"],
                         capture_output=True, check=True, timeout=60).stdout
    events = [json.loads(line) for line in out.splitlines()]
    sizes = sorted(e["bytes"] for e in events if e["event"] == "alloc" and e.get("inherited"))
    assert sizes[-2:] == [1000, 2000]
    assert [e["bytes"] for e in events if e["event"] == "alloc" and not e.get("inherited")] == [100] * 3
    forked, = (e for e in events if e["event"] == "forked")
    assert forked["known"] is True and forked["allocations"] == len(sizes)


def test_a_shells_children_are_recorded_as_what_they_become(tree):
    done = subprocess.run(tree.command() + ["sh", "-c", "ls / >/dev/null; x=$(echo one); (echo $x; echo two)"],
                          capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"one\ntwo\n", b"")
    shell = os.path.basename(os.path.realpath(shutil.which("sh")))
    shells = tree.all(shell)
    first = eldest(shells)
    assert all(r["process"].get("forked_from") == (None if pid == first else first) for pid, r in shells.items())
    listed, = tree.all("ls").values()
    assert listed["totals"]["allocations"] > 20 and "forked_from" not in listed["process"]
    assert all(r["totals"]["foreign_frees"] == 0 and r["lost"]["events"] == 0 for r in (*shells.values(), listed))


@pytest.mark.parametrize("how", ["under", "BYTELEDGER_", "MEMORY_PROFILER_"])
def test_a_relative_name_counts_from_the_first_folder_for_programs_started_elsewhere(tree, tmp_path, how):
    first, tree.folder = tmp_path / "100%p", str(tmp_path / "100%p" / "out") # a folder may be called like a pattern
    (first / "out").mkdir(parents=True)
    relative, argv = "out/%e_%p.blt", ["sh", "-c", "cd / && ls && true"]
    env = {k: v for k, v in tree.alone().items() if k != "BYTELEDGER_OUTPUT"}
    if how == "under":
        done = subprocess.run([*tree.command()[:-2], relative, "--", *argv], cwd=first, capture_output=True, timeout=60)
    else:
        done = subprocess.run(argv, cwd=first, env={**env, how + "OUTPUT": relative}, capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b""), done.stderr
    shell = os.path.basename(os.path.realpath(shutil.which("sh")))
    deadline = time.monotonic() + 60
    while not (glob.glob(f"{glob.escape(tree.folder)}/ls_*.blt") and glob.glob(f"{glob.escape(tree.folder)}/{shell}_*.blt")):
        assert time.monotonic() < deadline, list(os.walk(tmp_path))
        time.sleep(0.05)


def test_all_of_64_children_forked_at_once_know_what_they_inherited(tree):
    program = 'push @a, "x" x int(rand(300)) for 1 .. 20000; pipe R, W; my $all = 64; ' \
              'for (1 .. $all) { fork or do { close W; push @b, "y" x 100 for 1 .. 50; sysread R, my $x, 1; exit } } ' \
              'for (1 .. 6000) { last if (() = glob "$ARGV[0]/perl_*.blt") > $all; select undef, undef, undef, 0.01 } ' \
              'close W; 1 while wait > 0'
    done = subprocess.run(tree.command() + ["perl", "-e", program, tree.folder], capture_output=True, timeout=100)
    assert (done.returncode, done.stderr) == (0, b"")
    reports = tree.all("perl", 65)
    children = [r for r in reports.values() if "forked_from" in r["process"]]
    assert len(children) == 64
    known = [r["process"]["inherited_known"] for r in children]
    assert all(known), known
    assert all(r["totals"]["inherited_allocations"] > 20000 and r["totals"]["foreign_frees"] == 0 for r in children)


POOL = """
import multiprocessing, os
def work(n): return len([bytes(n + i) for i in range(20000)])
if __name__ == "__main__":
    multiprocessing.set_start_method("fork")
    with multiprocessing.Pool(3) as pool: print(sum(pool.map(work, range(600, 606), 1)))
"""


def test_pythons_pool_of_processes(tree):
    program = subprocess.run(["python3", "-c", "import sys; print(sys.executable)"], capture_output=True, text=True,
                             check=True).stdout.strip()
    done = subprocess.run(tree.command() + [program, "-c", POOL], capture_output=True, timeout=100)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"120000\n", b"")
    reports = tree.all(os.path.basename(os.path.realpath(program)), 4)
    assert len(reports) == 4
    first = eldest(reports)
    for pid, report in reports.items():
        assert report["lost"]["events"] == 0 and report["totals"]["foreign_frees"] == 0
        if pid != first:
            assert report["process"]["inherited_known"] and report["totals"]["inherited_bytes"] > 100000
    assert sum(own(r)[0] for pid, r in reports.items() if pid != first) >= 120000


def test_the_workers_of_an_nginx_that_is_a_daemon(tree, installed, tmp_path):
    port = free_port()
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"daemon on; pid {tmp_path}/pid; error_log {tmp_path}/log; worker_processes 2;\n"
                    "events { worker_connections 64; }\n"
                    f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; location / {{ return 200 hello; }} }} }}\n")
    done = subprocess.run(tree.command() + [installed("nginx"), "-c", str(conf)], capture_output=True, timeout=60)
    assert done.returncode == 0
    wait_for(port)
    deadline = time.monotonic() + 30
    while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text().strip():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    master = int((tmp_path / "pid").read_text())
    try:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", port), 10) as s:
                s.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert s.makefile("rb").read().endswith(b"hello")
    finally:
        os.kill(master, signal.SIGQUIT)
    reports = tree.all("nginx", 4)
    daemon = reports.pop(master)
    workers = [r for r in reports.values() if r["process"].get("forked_from") == master]
    assert len(workers) == 2 and "forked_from" in daemon["process"]
    for report in (daemon, *workers):
        assert report["process"]["complete"] and report["process"]["inherited_known"]
        assert report["lost"]["events"] == 0 and report["totals"]["foreign_frees"] == 0
        assert report["totals"]["inherited_bytes"] > 10000
    assert sum(own(r)[0] for r in workers) > 50


def test_redis_saves_in_a_child(tree, installed, tmp_path):
    port = free_port()
    server = subprocess.Popen(tree.command() + [installed("redis-server"), "--port", str(port), "--save", "", "--dir",
                                                str(tmp_path)], stdout=subprocess.DEVNULL)

    def redis(*argv):
        return subprocess.run(["redis-cli", "-p", str(port), *argv], capture_output=True, text=True, timeout=60).stdout
    try:
        wait_for(port)
        assert "OK" in redis("eval", "for i = 1, 20000 do redis.call('set', 'key' .. i, i) end return 'OK'", "0")
        assert "started" in redis("bgsave")
        deadline = time.monotonic() + 60
        while "rdb_bgsave_in_progress:1" in redis("info", "persistence"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        with contextlib.suppress(subprocess.SubprocessError):
            redis("shutdown", "nosave")
        server.wait(60)
    (tmp_path / "dump.rdb").stat()
    reports = tree.all(os.path.basename(os.path.realpath(installed("redis-server"))), 2)
    first = eldest(reports)
    child, = (r for pid, r in reports.items() if pid != first)
    assert child["process"]["inherited_known"] and child["lost"]["events"] == 0
    assert child["totals"]["inherited_allocations"] > 40000 and child["totals"]["foreign_frees"] == 0


def test_postgres_and_its_backends(tree, installed, tmp_path):
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found or os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs postgresql, root and setpriv")
    bins, data = os.path.dirname(found[-1]), tmp_path / "data"
    data.mkdir()
    shutil.chown(data, "postgres", "postgres")
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    subprocess.run([*user, f"{bins}/initdb", "-D", str(data), "-A", "trust", "-N"], check=True, capture_output=True, timeout=100)
    port = free_port()
    server = subprocess.Popen([*user, *tree.command(), found[-1], "-D", str(data), "-p", str(port), "-k", str(data)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(port)
        query = "select pg_backend_pid(), (select count(*) from generate_series(1, 200000) g(i) where md5(i::text) < 'zz')"
        deadline = time.monotonic() + 30
        while True: # it listens before it is ready
            asked = subprocess.run([*user, f"{bins}/psql", "-h", str(data), "-p", str(port), "-At", "-d", "postgres", "-c",
                                    query], capture_output=True, text=True, timeout=60)
            if asked.returncode == 0:
                break
            assert time.monotonic() < deadline, asked.stderr
            time.sleep(0.1)
    finally:
        children = subprocess.run(["pgrep", "-P", str(server.pid)], capture_output=True, text=True, check=False).stdout.split()
        os.kill(int(children[0]), signal.SIGINT)
        server.wait(60)
    backend, rows = asked.stdout.strip().split("|")
    assert rows == "200000"
    report = tree.finished("postgres", backend)
    assert report["process"]["inherited_known"] and report["process"]["forked_from"] == int(children[0])
    assert report["lost"]["events"] == 0 and report["totals"]["foreign_frees"] == 0
    assert own(report)[0] > 50 and report["totals"]["inherited_bytes"] > 100000
