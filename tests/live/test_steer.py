# SPDX-License-Identifier: Apache-2.0
"""`heap -p PID`: a recording that is made elsewhere is marked, switched and brought up to date from outside."""
import json
import os
import subprocess
import time

import pytest

# A phase per line of input, of as many blocks of 100,000 bytes that stay; each is answered.
PHASES = r"""
import os, sys
keep = []
print("ready", flush=True)
for line in sys.stdin:
    for i in range(int(line)):
        keep.append(bytearray(100_000))
    print("done", flush=True)
os._exit(0)
"""


class Recorded:
    def __init__(self, byteledger, python, path):
        self.byteledger, self.path = byteledger, str(path)
        self.it = subprocess.Popen([byteledger, "heap", "-q", "-o", self.path, "--", python, "-c", PHASES], text=True,
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONMALLOC": "malloc"})
        assert self.it.stdout.readline() == "ready\n"
        with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as f:
            assert str(self.it.pid) in f.read().split()
        with open(f"/proc/{self.it.pid}/task/{self.it.pid}/children", encoding="ascii") as f:
            self.pid = int(f.read().split()[0])

    def phase(self, blocks):
        self.it.stdin.write(f"{blocks}\n")
        self.it.stdin.flush()
        assert self.it.stdout.readline() == "done\n"

    def steer(self, *words, ends=0):
        done = subprocess.run([self.byteledger, "heap", "-p", str(self.pid), *words], capture_output=True, text=True, timeout=30)
        assert done.returncode == ends, done
        return done.stderr

    def report(self, *words):
        done = subprocess.run([self.byteledger, "report", "--format", "json", self.path, *words], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["totals"]

    def large(self, *words):
        """How many of the phases' blocks."""
        return self.report("--cost", "live", "--min-size", "100000", "--max-size", "100100", *words)["live_allocations"]

    def end(self):
        self.it.stdin.close()
        assert self.it.wait(timeout=60) == 0
        self.it.stdout.close()


@pytest.fixture
def recorded(byteledger, installed, tmp_path):
    it = Recorded(byteledger, installed("python3"), tmp_path / "x.blt")
    yield it
    if it.it.poll() is None:
        it.it.kill()
        it.it.wait()


def test_marks_stand_between_what_came_before_and_after(recorded):
    assert recorded.steer("--mark", "1") == ""
    recorded.phase(10)
    recorded.steer("--mark=2")
    recorded.phase(20)
    time.sleep(2)  # long enough for the recorder to sleep, too
    recorded.steer("--mark", "4294967295")
    recorded.phase(40)
    recorded.end()
    assert [recorded.large("--at", f"mark:{n}") for n in (1, 2, 4294967295)] == [0, 10, 30]
    assert recorded.large() == 70


def test_what_happened_before_a_sync_stands_in_the_file(recorded):
    for expected in (3, 8, 13):
        recorded.phase(expected - (recorded.large() if expected > 3 else 0))
        recorded.steer("--sync")
        assert recorded.large() == expected
    recorded.end()


def test_allocations_are_recorded_between_start_and_stop(recorded):
    recorded.phase(5)
    recorded.steer("--stop", "--sync")
    recorded.phase(50)
    recorded.steer("--start", "--mark", "7")
    recorded.phase(9)
    recorded.end()
    assert recorded.large() == 14 and recorded.large("--at", "mark:7") == 5


def test_who_cannot_be_steered_is_told(byteledger, recorded):
    def told(*words, ends):
        done = subprocess.run([byteledger, "heap", *words], capture_output=True, text=True, timeout=30)
        assert done.returncode == ends and done.stdout == "", done
        return done.stderr

    own = str(os.getpid())
    assert f"nothing records process {own}" in told("-p", own, "--mark", "1", ends=1)
    assert "No such process" in told("-p", "4194303", "--sync", ends=1)
    assert "true" in told("-p", own, "true", ends=2)
    assert "-p PID" in told("--sync", ends=2)
    assert "not both" in told("-p", own, "--start", "--stop", ends=2)
    assert "true" in told("-p", own, "--sync", "true", ends=2)
    assert "'x'" in told("-p", own, "--mark", "x", ends=2) and "'-1'" in told("-p", own, "--mark=-1", ends=2)
    recorded.it.send_signal(19)  # its recorder stands still
    try:
        assert "does not answer" in recorded.steer("--sync", ends=1)
    finally:
        recorded.it.send_signal(18)
    recorded.phase(4)
    recorded.end()
    assert recorded.large() == 4


FORKS = """
import os, sys
child = os.fork()
if child:
    print(os.getpid(), child, flush=True)
    sys.stdin.readline()
    os.kill(child, 9)
    os.waitpid(child, 0)
else:
    while True:
        os.read(0, 0)
        __import__("time").sleep(1)
"""


def test_a_forked_child_is_not_taken_for_its_parent(byteledger, installed, tmp_path):
    """It has its parent's shared memory, but nobody records it."""
    path = str(tmp_path / "x.blt")
    recorder = subprocess.Popen([byteledger, "heap", "-q", "-o", path, "--", installed("python3"), "-c", FORKS], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        parent, child = recorder.stdout.readline().split()

        def steer(pid, mark):
            return subprocess.run([byteledger, "heap", "-p", pid, "--mark", mark], capture_output=True, text=True, timeout=30)

        done = steer(child, "7")
        assert done.returncode == 1 and f"nothing records process {child}" in done.stderr, done
        assert steer(parent, "8").returncode == 0
    finally:
        recorder.communicate("\n", timeout=30)
    done = subprocess.run([byteledger, "report", path, "--at", "mark:7"], capture_output=True, text=True, timeout=60)
    assert done.returncode != 0 and "8" in done.stderr and "7" in done.stderr, done


FILLS = """
import os, random
print("ready", flush=True)
while os.read(0, 1):
    for i in range(400000):
        bytearray(random.randrange(600, 90000))
    print("done", flush=True)
"""


def test_nothing_is_answered_while_the_disk_is_full(byteledger, installed, tmp_path):
    wrap = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=256k none "$1" && shift && exec "$@"', "sh", str(tmp_path)]
    if subprocess.run([*wrap, "true"], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    recorder = subprocess.Popen([*wrap, byteledger, "heap", "-q", "-o", str(tmp_path / "x.blt"), "--", installed("python3"), "-c", FILLS], text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONMALLOC": "malloc"})
    try:
        assert recorder.stdout.readline() == "ready\n"
        with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="ascii") as f:
            pid = f.read().split()[0]
        recorder.stdin.write("x")
        recorder.stdin.flush()
        assert recorder.stdout.readline() == "done\n"
        done = subprocess.run([byteledger, "heap", "-p", pid, "--sync"], capture_output=True, text=True, timeout=30)
        assert done.returncode == 1 and "is its disk full" in done.stderr, done
    finally:
        _, told = recorder.communicate(timeout=60)
    assert "No space left" in told
