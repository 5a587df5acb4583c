# SPDX-License-Identifier: Apache-2.0
"""`pages` of large programs that people run: nearly every byte has a stack where they are started under it, and the sums are the kernel's to the byte."""
import contextlib
import glob
import json
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time

import pytest

from test_pages import MIB, held_against_kernel, kernel_figures, needs_bpf, resident, stands, wait_for

pytestmark = [needs_bpf, pytest.mark.large, pytest.mark.timeout(500)]


class Looked:
    """A program and what it starts, under `pages` or (@late) taken up by it; its readings."""

    def __init__(self, byteledger, folder, argv, options=(), late=False, **more):
        self.out, self.begun, self.last = folder / "out", "", None
        self.program = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more) if late else None
        self.ledger, self.file = None, None
        self.byteledger, self.options = byteledger, options
        if not late:
            self.look("--", *argv, **more)

    def look(self, *target, **more):
        self.ledger = subprocess.Popen(
            [self.byteledger, "pages", "--follow-children", "--jsonl", "--watch", "0.2", "--report", str(self.out), *self.options, *target],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        wait_for(self.out.exists, 60)
        self.file = open(self.out, encoding="utf-8")
        wait_for(self.read, 60)

    def read(self):
        """Take in what readings there are: the last whole one."""
        before = self.last
        self.begun += self.file.read()
        lines = self.begun.split("\n")
        self.begun = lines.pop()
        if lines:
            self.last = json.loads(lines[-1])
        assert self.ledger.poll() is None, "byteledger ended"
        return self.last if self.last is not before else None

    def living(self):
        return [process for process in self.last["processes"] if not process["ended"]]

    def rss(self):
        self.read()
        return sum(process["rss_bytes"] for process in self.living())

    @contextlib.contextmanager
    def stopped(self):
        """
        All of them stand still, and are read after that: they, and what the kernel says, which may take pages of files back at any
        moment: what it says before and behind the reading is the same, or there is another.
        """
        stopped, figures = set(), {}
        try:
            now, end = 0, time.monotonic() + 240
            while True:
                assert time.monotonic() < end, "no reading came"
                new = {process["pid"] for process in self.living()} - stopped
                for pid in new:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGSTOP)
                for pid in new:
                    with contextlib.suppress(FileNotFoundError):
                        wait_for(lambda pid=pid: stands(pid), 60)
                if new:
                    stopped |= new
                    now = time.monotonic_ns()
                elif self.living() and all(process["time_ns"] - process["walk_ns"] > now for process in self.living()):
                    before, figures = figures, {pid: kernel_figures(pid) for pid in sorted(process["pid"] for process in self.living())}
                    if {pid: resident(f) for pid, f in before.items()} == {pid: resident(f) for pid, f in figures.items()}:
                        break
                    now = time.monotonic_ns()
                wait_for(self.read, 60)
            yield self.living(), figures
        finally:
            for pid in stopped:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def check(self, title, bar=0.001, reasons=None):
        """Each sum is the kernel's, to the byte; of all of them less than @bar has no stack. Printed: -s shows it."""
        with self.stopped() as (processes, figures):
            for process in processes:
                held_against_kernel(process, figures[process["pid"]])
            rss = sum(process["rss_bytes"] for process in processes)
            without, short = {}, {}
            for process in processes:
                for to, by in ((without, process["unattributed"]), (short, process["partial_stacks"]["by_reason"])):
                    for reason, size in by.items() - {("guessed", by.get("guessed"))}: # those are whole
                        to[reason] = to.get(reason, 0) + size
        said = f"{title}: {len(processes)} processes, {rss / MIB:.0f} MiB, without a stack {100 * sum(without.values()) / rss:.4f} % " \
                  f"{without}, ending early {100 * sum(short.values()) / rss:.2f} % {short}"
        print("\n" + said, flush=True)
        if bar is not None:
            assert sum(without.values()) < bar * rss, said
        if reasons is not None:
            assert set(without) <= reasons, said
        return processes, without

    def end(self):
        if self.ledger and not self.program:
            self.ledger.terminate() # it hands that on
        elif self.program:
            self.program.terminate()
            self.program.wait(60)
        if self.ledger:
            try:
                self.ledger.wait(60)
            finally:
                self.ledger.kill()
            self.file.close()


@pytest.fixture
def looked(byteledger, tmp_path):
    made = []

    def make(argv, *options, late=False, **more):
        made.append(Looked(byteledger, tmp_path, argv, options, late, **more))
        return made[-1]
    yield make
    for one in made:
        one.end()


FILL = """
local from = tonumber(ARGV[1])
for i = from, from + 49999 do redis.call('set', 'k' .. i, string.rep(tostring(i % 10), 1024)) end
return 1
"""


class Redis:
    def __init__(self, tmp_path, installed):
        self.socket = str(tmp_path / "s")
        self.script = tmp_path / "fill.lua"
        self.script.write_text(FILL)
        self.client = installed("redis-cli")
        self.bench = [installed("redis-benchmark"), "-s", self.socket, "-t", "set,get,lpush", "-d", "200", "-r", "100000", "-n", "100000000", "-q"]
        self.argv = [installed("redis-server"), "--port", "0", "--unixsocket", self.socket, "--save", "", "--dir", str(tmp_path), "--lua-time-limit", "0"]

    def ask(self, *argv):
        return subprocess.run([self.client, "-s", self.socket, *argv], capture_output=True, text=True, timeout=120).stdout.strip()

    def fill(self, begin, end):
        wait_for(lambda: self.ask("ping") == "PONG", 60)
        for i in range(begin, end, 50000):
            assert self.ask("--eval", str(self.script), ",", str(i)) == "1"

    @contextlib.contextmanager
    def load(self):
        def served():
            return int(next(line for line in self.ask("info", "stats").splitlines() if line.startswith("total_commands_processed")).split(":")[1])
        before = served()
        load = subprocess.Popen(self.bench, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_for(lambda: served() > before + 20000, 60)
            yield
        finally:
            load.kill()
            load.wait()


def test_redis_that_is_filled_to_a_gibibyte_under_load(looked, installed, tmp_path):
    redis = Redis(tmp_path, installed)
    server = looked(redis.argv)
    redis.fill(0, 850000)
    with redis.load():
        processes, _ = server.check("redis-server")
    assert processes[0]["rss_bytes"] >= 1024 * MIB


def test_redis_that_ran_before(looked, installed, tmp_path):
    redis = Redis(tmp_path, installed)
    server = looked(redis.argv, late=True)
    redis.fill(0, 200000)
    server.look("-p", str(server.program.pid))
    _, first = server.check("redis-server, taken up", None, {"before_attach"})
    redis.fill(200000, 400000)
    with redis.load():
        processes, then = server.check("redis-server, taken up and filled", None, {"before_attach"})
    assert then["before_attach"] <= first["before_attach"]
    assert processes[0]["attributed_bytes"] >= 200 * MIB


class Postgres:
    """Of the user that its package has made; it starts as nobody else."""

    def __init__(self, installed):
        found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not found:
            pytest.skip("postgresql is not installed")
        self.bin, user = found[-1], pwd.getpwnam("postgres")
        self.bench = installed("pgbench")
        self.folder = tempfile.mkdtemp(prefix="byteledger-pg-")
        os.chown(self.folder, user.pw_uid, user.pw_gid)
        self.as_user = ["setpriv", "--reuid", "postgres", "--regid", "postgres", "--clear-groups"]
        subprocess.run([*self.as_user, f"{self.bin}/initdb", "-A", "trust", "-D", f"{self.folder}/data"], check=True, capture_output=True, timeout=120)
        self.argv = [*self.as_user, f"{self.bin}/postgres", "-D", f"{self.folder}/data", "-k", self.folder, "-c", "listen_addresses="]

    def run(self, *argv):
        return subprocess.run([self.bench, "-h", self.folder, "-U", "postgres", *argv, "postgres"], capture_output=True, text=True, timeout=240)

    def fill(self):
        wait_for(lambda: self.run("-i", "-q", "-s", "5").returncode == 0, 60)

    @contextlib.contextmanager
    def load(self, server):
        load = subprocess.Popen([self.bench, "-h", self.folder, "-U", "postgres", "-n", "-c", "4", "-T", "600", "postgres"],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            few = len(server.living())
            wait_for(lambda: server.read() and len(server.living()) >= few + 4, 60)
            yield
        finally:
            load.kill()
            load.wait()


@pytest.fixture
def postgres(installed):
    one = Postgres(installed)
    yield one
    shutil.rmtree(one.folder)


def test_postgres_under_load(postgres, looked):
    server = looked(postgres.argv, cwd="/")
    postgres.fill()
    with postgres.load(server):
        server.check("postgres")


def test_postgres_that_ran_before(postgres, looked):
    server = looked(postgres.argv, late=True, cwd="/")
    postgres.fill()
    server.look("-p", str(server.program.pid))
    with postgres.load(server):
        # of what its children map some was there before
        processes, _ = server.check("postgres, taken up", None, {"before_attach"})
    assert len(processes) >= 5


def test_a_loader_of_lmdb(looked, installed, tmp_path):
    """It is fed, so that it is looked at before it ends."""
    dump, folder = tmp_path / "dump", tmp_path / "db"
    folder.mkdir()
    os.mkfifo(dump)
    loader = looked([installed("mdb_load"), "-f", str(dump), str(folder)])
    with open(dump, "w", encoding="ascii") as file:
        file.write("VERSION=3\nformat=bytevalue\ntype=btree\nmapsize=1073741824\nmaxreaders=126\ndb_pagesize=4096\nHEADER=END\n")
        for i in range(250000):
            file.write(f" {i:016x}\n {i % 251:02x}{'5a' * 511}\n")
        file.flush()
        wait_for(lambda: loader.rss() >= 64 * MIB, 120)
        loader.check("mdb_load")
        file.write("DATA=END\n")


PYTHON = """
import asyncio, ctypes, decimal, email, http.client, json, sqlite3, sys, threading, unittest, xml.dom.minidom
base = sqlite3.connect(":memory:")
base.execute("create table t(a, b)")
base.executemany("insert into t values(?, ?)", ((i, str(i) * 8) for i in range(200000)))
kept = [{str(i): [i]} for i in range(100000)] + [bytearray(100000) for _ in range(200)]
threads = [threading.Thread(target=lambda: kept.append([bytearray(5000) for _ in range(1000)])) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
sys.stdin.read()
"""
NODE = """
const kept = [];
for (let i = 0; i < 200000; i++) kept.push({ name: 'n' + i, list: [i, String(i)] });
for (let i = 0; i < 200; i++) kept.push(Buffer.alloc(100000, i));
process.stdin.resume();
"""
JAVA = """
public class Keeps { public static void main(String[] a) throws Exception {
  java.util.ArrayList<Object> l = new java.util.ArrayList<>(); java.util.HashMap<String, byte[]> m = new java.util.HashMap<>();
  for (int i = 0; i < 200000; i++) { l.add(new byte[200]); m.put("k" + i, new byte[i % 300]); }
  Thread[] t = new Thread[4];
  for (int i = 0; i < 4; i++) { t[i] = new Thread(() -> { byte[] b = new byte[2000000]; synchronized (l) { l.add(b); } }); t[i].start(); }
  for (Thread x : t) x.join();
  System.in.read(); } }
"""


@pytest.mark.parametrize("name", ["python3", "node", "java"])
def test_an_interpreter(looked, installed, tmp_path, name):
    if name == "java":
        (tmp_path / "Keeps.java").write_text(JAVA)
        subprocess.run([installed("javac"), "-d", str(tmp_path), str(tmp_path / "Keeps.java")], check=True, timeout=120)
        argv = [installed("java"), "-Xmx400m", "-cp", str(tmp_path), "Keeps"]
    else:
        argv = [installed(name), "-c" if name == "python3" else "-e", PYTHON if name == "python3" else NODE]
    one = looked(argv)
    wait_for(lambda: one.rss() >= 60 * MIB, 120)
    one.check(name)


PAGE = """<!doctype html><title>t</title><canvas id=c width=900 height=600></canvas><script>
const kept = []; for (let i = 0; i < 300000; i++) kept.push({ a: i, b: String(i) });
const x = document.getElementById('c').getContext('2d'); for (let i = 0; i < 900; i++) x.fillRect(i, i % 600, 9, 9);
for (let i = 0; i < 3000; i++) { const p = document.createElement('p'); p.textContent = 'line ' + i; document.body.append(p); }
</script>"""


@pytest.mark.timeout(600)
def test_a_browser(looked, installed, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(PAGE)
    one = looked([installed("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--remote-debugging-port=0",
                  f"--user-data-dir={tmp_path / 'profile'}", f"file://{page}"], "--tables", "64", "--watch", "2") # a reading of it is 70 MB of text
    wait_for(lambda: one.rss() >= 400 * MIB, 120)
    one.check("chromium")
