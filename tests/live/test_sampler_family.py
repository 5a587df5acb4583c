# SPDX-License-Identifier: Apache-2.0
"""`byteledger sample --follow-children`: a family of many is let go by few links, also where the recorder is killed as it does so."""
import contextlib
import json
import os
import signal
import sys
import time

import pytest

from test_sampler import end, go, pytestmark, running, sampling, text_of  # noqa: F401

CHILDREN = 48
FAMILY = """import os, sys
sys.stdin.readline()
go, told = os.pipe()
children = []
for _ in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        os.close(told)
        os.read(go, 1)
        kept = [bytearray(5000) for _ in range(100)]
        os._exit(len(kept) != 100)
    children.append(pid)
print(*children, flush=True)
sys.stdin.readline()
os.close(told)
print(sum(os.waitpid(pid, 0)[1] == 0 for pid in children), flush=True)
"""


def of_whole_processes(options):
    """Links of a whole process came with Linux 6.10, such of returns with 6.13; before, one is closed after the other, a tenth of a second each."""
    version = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    return version >= ((6, 13) if options else (6, 10))


def links(pid):
    """What keeps probes in: each takes a turn of all processors to close. One that a thread closes meanwhile is none."""
    held = 0
    for entry in os.scandir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            held += os.readlink(entry) in ("anon_inode:bpf_link", "anon_inode:[perf_event]")
    return held


def probed(pids, clean):
    return [pid for pid in pids if text_of(pid) != clean]


@pytest.mark.parametrize("options", [(), ("--leaks",)], ids=["calls", "leaks"])
@pytest.mark.parametrize("killed", [False, True], ids=["ends", "is killed as it ends"])
def test_a_family_is_let_go_when_byteledger(byteledger, killed, options):
    """A perf event for each function of each process takes 0.1 s to close, whoever waits beside it: there were 340 of them, half a minute."""
    clean = text_of(os.getpid())
    with running(sys.executable, "-c", FAMILY, str(CHILDREN)) as p, \
            sampling(byteledger, "-p", p.pid, "--follow-children", "--budget", "0", "--jsonl", "--interval", "200ms", *options) as s:
        go(p)
        family = {p.pid, *map(int, p.stdout.readline().split())}
        until = time.monotonic() + 60
        while not family <= {one["pid"] for one in json.loads(s.stdout.readline())["processes"]}:
            assert time.monotonic() < until, "children are not followed"
        assert len(probed(family, clean)) == CHILDREN + 1
        assert links(s.pid) <= 3 * (CHILDREN + 1) or not of_whole_processes(options)
        s.send_signal(signal.SIGINT)
        if killed:
            time.sleep(0.1)
            s.kill()
        s.communicate(timeout=240)
        assert s.returncode == (-signal.SIGKILL if killed else 0)
        until = time.monotonic() + 240
        while probed(family, clean):
            assert time.monotonic() < until, "probes are left"
            time.sleep(0.05)
        go(p)
        assert p.stdout.readline() == f"{CHILDREN}\n", "children died"


@pytest.mark.parametrize("options", [(), ("--leaks",)], ids=["calls", "leaks"])
def test_many_processes_that_are_given_are_let_go_as_a_family_is(byteledger, options):
    """By perf events nine of them took 6 s to let go, and 0.9 s with --leaks: one for each function of each process."""
    clean = text_of(os.getpid())
    with running(sys.executable, "-c", FAMILY, "9") as p:
        go(p)
        children = p.stdout.readline().split()
        with sampling(byteledger, *(word for pid in children for word in ("-p", pid)), "--budget", "0", "-q", *options) as s:
            assert len(probed(map(int, children), clean)) == 9
            assert links(s.pid) <= 3 * 9 or not of_whole_processes(options)
            begun = time.monotonic()
            end(s)
            print(f"nine processes were let go in {time.monotonic() - begun:.2f} s")
        assert not probed(map(int, children), clean), "probes are left"
        go(p)
        assert p.stdout.readline() == "9\n", "children died"
