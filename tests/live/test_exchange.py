# SPDX-License-Identifier: Apache-2.0
"""Blocks that go back and forth between contending threads: the books are the program's own, to the unit.

tests/prog/exchange counts what each function and each thread of it asks for, and what stays; at its end it makes the
largest block of all at a moment when nobody else moves, so that the peak is known, too. What libc allocates besides is what
is left over without any round.
"""
import os
import subprocess

import pytest

from conftest import report

# One arena, and no cache of a thread's own before it: what one thread frees is another one's block an instant later.
SHARED = {"MALLOC_ARENA_MAX": "1", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
MARK_BYTES = 4 << 20
TOTALS = ("allocations", "allocated_bytes", "leaked_allocations", "leaked_bytes", "frees", "peak_bytes", "threads")
KEYS = ("allocations", "allocated_bytes", "leaked_allocations", "leaked_bytes")


@pytest.fixture
def busy():
    """As many other programs as there are processors, which do nothing but compute."""
    children = [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(os.cpu_count())]
    yield
    for child in children:
        child.kill()
        child.wait()


def judge(byteledger, path, done):
    """Hold a recording against what the program printed; what the totals have besides."""
    assert (done.returncode, done.stderr) == (0, b"")
    lines = [line.split() for line in done.stdout.decode().splitlines()]
    functions = {w[1]: [int(n) for n in w[2:]] for w in lines if w[0] == "function" and w[2] != "0"}
    threads = {int(w[1]): [int(n) for n in w[2:]] for w in lines if w[0] == "thread"}
    frees = int(lines[-1][1])
    taken = report(byteledger, path, "--by", "function")
    assert taken["lost"] == {"events": 0, "bytes": 0, "by_reason": {}}
    totals = taken["totals"]
    assert (totals["foreign_frees"], totals["uncertain_allocations"]) == (0, 0)
    rows = {row["frames"][0]["function"]: row for row in taken["rows"]}
    assert {name: [rows[name][key] for key in KEYS] for name in functions} == functions
    # nothing else moves while main holds the largest block, and nothing that lives then is freed later
    assert rows["mark"]["peak_bytes"] == MARK_BYTES
    assert {name: rows[name]["peak_bytes"] for name in functions if name != "mark"} == \
        {name: live_bytes for name, (_, _, _, live_bytes) in functions.items() if name != "mark"}
    rows = {row["tid"]: row for row in report(byteledger, path, "--by", "thread")["rows"]}
    assert {tid: [rows[tid][key] for key in KEYS[:2]] for tid in threads} == threads
    own = [sum(sums) for sums in zip(*functions.values())]
    own += [frees, own[3] + MARK_BYTES, len(threads)]
    return [totals[key] - count for key, count in zip(TOTALS, own)]


def exact(byteledger, recorded, prog, how, what, rounds, threads=4, env=None, options=()):
    argv = [prog("exchange"), what, str(rounds), str(threads)]
    few = judge(byteledger, *recorded(how, [*argv[:2], "0", argv[3]], env or {}, options))
    many = judge(byteledger, *recorded(how, argv, env or {}, options))
    assert many == few


@pytest.mark.parametrize("env", [{}, SHARED], ids=["arenas", "shared"])
@pytest.mark.parametrize("what", ["swap", "resize", "pass", "mix"])
def test_blocks_that_threads_exchange_are_counted_exactly(byteledger, recorded, prog, what, env):
    exact(byteledger, recorded, prog, "under", what, 20000, env=env)


def test_they_are_with_a_stamp_on_each_of_them_too(byteledger, recorded, prog):
    exact(byteledger, recorded, prog, "under", "mix", 20000, env=SHARED, options=["--time-resolution", "1us"])


@pytest.mark.parametrize("how,options", [("under", ["--budget", "32"]), ("alone", [])], ids=["under", "alone"])
def test_they_are_on_a_busy_machine_through_small_buffers_too(byteledger, recorded, prog, busy, how, options):
    env = {**SHARED, "BYTELEDGER_BUDGET": str(32 << 20)} # the library's, where it is alone
    exact(byteledger, recorded, prog, how, "mix", 15000, threads=8, env=env, options=options)


def test_they_are_without_a_recorder_too(byteledger, recorded, prog, busy):
    for _ in range(3): # which threads were held up, and where, is different each time
        exact(byteledger, recorded, prog, "raw", "mix", 4000, threads=12, env=SHARED)
