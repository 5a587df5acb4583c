# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments: of the program, of the recorder, of both. The program's own count is the truth.

tests/prog/countdown moves a counter before and after each call in a file that survives it: what a recording holds must lie
between what had returned and what had begun. A recorder that dies may lose its last second, nothing else.
"""
import json
import os
import random
import signal
import struct
import subprocess
import time

import pytest

ROUNDS = {"small": 8, "large": 100}


class Truth:
    """The counters of tests/prog/countdown."""

    def __init__(self, path):
        self.path = path

    def read(self):
        with open(self.path, "rb") as f:
            begun, done, free_begun, free_done, finished, _ = struct.unpack("6Q", f.read(48))
        return {"begun": begun, "done": done, "free_begun": free_begun, "free_done": free_done, "finished": finished}

    def stop(self):
        with open(self.path, "r+b") as f:
            f.seek(40)
            f.write(struct.pack("Q", 1))

    def wait_for_start(self):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if os.path.exists(self.path) and os.path.getsize(self.path) >= 48 and self.read()["done"] > 100:
                return
            time.sleep(0.005)
        raise AssertionError("countdown did not start")


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return int(f.read().split()[0])


def recorded(byteledger, path):
    """allocations and frees of the blocks that step() asked for; and the whole report."""
    out = subprocess.run([byteledger, "report", path, "--format", "json", "--by", "function"], capture_output=True, timeout=120)
    assert out.returncode == 0, out.stderr.decode("utf-8", "replace")
    report = json.loads(out.stdout)
    rows = [r for r in report["rows"] if r["frames"] and r["frames"][0]["function"] == "step"]
    allocations = sum(r["allocations"] for r in rows)
    leaked = sum(r["leaked_allocations"] for r in rows)
    return allocations, allocations - leaked, report


@pytest.fixture
def start(byteledger, prog, tmp_path):
    started = []

    def go(number, env=None):
        truth = Truth(str(tmp_path / f"truth-{number}"))
        path = str(tmp_path / f"kill-{number}.blt")
        child = subprocess.Popen([byteledger, "heap", "-q", "-o", path, "--", prog("countdown"), truth.path, "30"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                 env={**os.environ, **(env or {})})
        started.append((child, truth))
        truth.wait_for_start()
        return child, truth, path
    yield go
    for child, truth in started:
        if os.path.exists(truth.path):
            truth.stop()
        if child.poll() is None:
            child.kill()
        child.communicate()


def missing_pending(byteledger, path):
    """What report says of the file beside a recording, and whether info does."""
    report = subprocess.run([byteledger, "report", path], capture_output=True, text=True, check=True).stderr
    info = subprocess.run([byteledger, "info", "--format", "json", path], capture_output=True, check=True).stdout
    return [line for line in report.splitlines() if ".pending" in line], json.loads(info)["file"]["pending_missing"]


def rounds(kind):
    return pytest.mark.parametrize("count", [ROUNDS["small"], pytest.param(ROUNDS["large"], marks=pytest.mark.large)])


@rounds("target")
def test_a_killed_program_loses_nothing_that_a_hook_had_finished(start, byteledger, count):
    rng = random.Random(count)
    for number in range(count):
        child, truth, path = start(number)
        time.sleep(rng.uniform(0, 0.25))
        os.kill(child_of(child.pid), signal.SIGKILL)
        child.wait(timeout=60)
        assert child.returncode == 128 + signal.SIGKILL
        t = truth.read()
        allocations, frees, report = recorded(byteledger, path)
        assert report["lost"] == {"events": 0, "bytes": 0, "by_reason": {}}
        assert t["done"] <= allocations <= t["begun"], (number, allocations, t)
        assert t["free_done"] <= frees <= t["free_begun"], (number, frees, t)
        assert report["process"]["complete"] is False
        os.unlink(path)


@pytest.mark.parametrize("env", [{}, {"BYTELEDGER_CULL_TEMPORARY_ALLOCATIONS": "1"}], ids=["all", "culled"])
@rounds("recorder")
def test_a_killed_recorder_loses_at_most_its_last_second_and_the_program_goes_on(start, byteledger, count, env):
    rng = random.Random(count + 1)
    for number in range(count):
        child, truth, path = start(number, env)
        time.sleep(rng.uniform(0, 0.6))
        before = truth.read()
        time.sleep(1.0)
        child.kill()
        child.wait(timeout=60)
        at_death = truth.read()
        allocations, frees, report = recorded(byteledger, path)
        assert before["done"] <= allocations <= at_death["begun"], (number, allocations, before, at_death)
        assert report["process"]["complete"] is False
        assert "recorder_died" in report["lost"]["by_reason"], "how much is missing is not known; that it is, is"
        # what may turn out to be short-lived is undecided for ten seconds, and not lost
        assert os.path.exists(path + ".pending") == bool(env) and (report["culled"]["allocations"] > 0) == bool(env)
        assert missing_pending(byteledger, path) == ([], False)
        if env:
            os.rename(path + ".pending", path + ".away")
            line = f"byteledger: '{path}.pending' is not there: what was undecided at the end, if anything, is missing"
            assert missing_pending(byteledger, path) == ([line], True)
        truth.stop()
        deadline = time.monotonic() + 20
        while not truth.read()["finished"]:
            assert time.monotonic() < deadline, "the program did not go on after its recorder's death"
            time.sleep(0.01)
        os.unlink(path)


@rounds("both")
def test_when_both_are_killed_at_most_the_last_second_is_lost(start, byteledger, count):
    rng = random.Random(count + 2)
    for number in range(count):
        child, truth, path = start(number)
        time.sleep(rng.uniform(0, 0.4))
        before = truth.read()
        time.sleep(1.0)
        target = child_of(child.pid)
        # one moment for both: else the recorder may come to an end between the two, and nothing is missing
        os.kill(child.pid, signal.SIGSTOP)
        for pid in rng.sample([target, child.pid], 2):
            os.kill(pid, signal.SIGKILL)
        assert child.wait(timeout=60) == -signal.SIGKILL
        allocations, frees, report = recorded(byteledger, path)
        t = truth.read()
        assert before["done"] <= allocations <= t["begun"], (number, allocations, before, t)
        assert frees <= t["free_begun"]
        assert "recorder_died" in report["lost"]["by_reason"]
        os.unlink(path)
