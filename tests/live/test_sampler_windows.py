# SPDX-License-Identifier: Apache-2.0
"""What windows of a budget show, held against what the program knows that it made."""
import contextlib
import json
import os
import subprocess
import sys
import time

import pytest

import test_sampler
from test_sampler import end, go, running, sampling

pytestmark = [test_sampler.pytestmark, pytest.mark.alone]


@contextlib.contextmanager
def busy_processors(count):
    hogs = [subprocess.Popen([sys.executable, "-c", "print(flush=True)\nwhile True: pass"], stdout=subprocess.PIPE) for _ in range(count)]
    try:
        for hog in hogs:
            hog.stdout.readline()
        yield
    finally:
        for hog in hogs:
            hog.kill()
            hog.communicate()


@pytest.mark.parametrize("hogs", [0, 12], ids=["alone", "among twelve"])
def test_what_windows_show_is_told_with_an_error_that_holds_the_truth(byteledger, prog, hogs):
    """
    All that it made is known. Probes slow it down while they are in, and where others want the processors, too, it never catches up in a
    window: what is seen then is a twentieth of the truth, and it has to be said that it is the least.
    """
    with busy_processors(hogs), running(prog("calls"), "1", "300000", "2") as p, \
            sampling(byteledger, "-p", p.pid, "--sample-bytes", "4K", "--format", "json") as s:
        go(p)
        made = json.loads(p.stdout.readline())["pairs"]
        got = json.loads(end(s))["processes"][0]
    told, error, how = got["estimated_allocations"], got["error_allocations"], got["cost"].get("governed", "")
    # what the last window stands for ended with the program; at most so much comes from the time before it began
    assert abs(told - made) < 3 * error + 0.1 * made or (told < made and ("at least" in how or "not seen" in how)), (told, error, made, how)


# One malloc a block: what is larger than 512 bytes is not python's own pool's. It begins when a line comes, and says how many it made.
STEADY = """
import sys, time
rate, seconds, work = map(int, sys.argv[1:])
made, kept = 0, []
print("ready", flush=True)
sys.stdin.readline()
begun = time.monotonic()
while (since := time.monotonic() - begun) < seconds:
    if rate and made > since * rate:
        time.sleep(0.001)
        continue
    for _ in range(20):
        kept.append(bytes(600 + made % 100))
        if len(kept) > 100:
            del kept[0]
        for _ in range(work):
            pass
    made += 20
print(made, flush=True)
sys.stdin.readline()
"""


@pytest.mark.parametrize("rate,work", [(3000, 500), (0, 60)], ids=["three thousand", "as many as go"])
def test_a_program_of_the_real_world_is_told_a_total_that_is_of_use(byteledger, rate, work):
    """
    A call with its probe takes as long as the work between two of them, and what it takes is the machine's: it has to be seen there. By what a
    probe costs elsewhere the second one was told a tenth of its calls, give or take a hundred times as many.
    """
    with subprocess.Popen(["/usr/bin/python3", "-c", STEADY, str(rate), "3", str(work)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        assert p.stdout.readline() == "ready\n"
        with sampling(byteledger, "-p", p.pid, "--format", "json") as s:
            go(p)
            made = int(p.stdout.readline())
            got = json.loads(end(s))["processes"][0]
        p.stdin.close()
    told, error = got["estimated_allocations"], got["error_allocations"]
    assert abs(told - made) < 3 * error + 0.1 * made, (told, error, made, got["cost"])
    assert error < 0.7 * made, (told, error, made, got["cost"])


def called(byteledger, prog, threads, rate, seconds, *options):
    """A program at work, sampled for a while: (pairs a second meanwhile, the last JSON process, [(time, cost)] in ns)."""
    with running(prog("calls"), str(threads), str(rate), str(seconds + 2)) as p:
        go(p)
        time.sleep(0.5)
        done = subprocess.run([byteledger, "sample", "-p", str(p.pid), "--jsonl", "--interval", "500ms", "--duration", f"{seconds}s", *options],
                              capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        rates = json.loads(p.stdout.readline())["by_second"][1:seconds]
    shown = [json.loads(line)["processes"][0] for line in done.stdout.splitlines()]
    spent, before, costs = 0, 0, []
    for q in shown: # each call at the price that was known then: what the machine does beside it changes it
        spent += (q["cost"]["hits"] - before) * q["cost"]["ns_per_hit"]
        before = q["cost"]["hits"]
        costs.append((q["runtime_ns"], spent, q["cost"]["overdrawn_ns"]))
    return sum(rates) / len(rates), shown[-1], costs


def kept(byteledger, prog, threads, rate):
    """A budget, over five seconds. Returns the error as a part of what is told: how far it is of use."""
    pairs, last, costs = called(byteledger, prog, threads, rate, 5)
    assert last["cost"]["duty"] < 0.5
    # what the purse holds at first, what it earns, and what was spent beyond it at most, once: it is earned back before more is
    # spent. How much that is depends on how soon byteledger runs when the kernel has woken it, which is the machine's; so does
    # the price of a call, which is known by tenths. Without a budget it were sixty times as much.
    for at, cost, overdrawn in costs:
        assert cost < 1.5 * (0.0085 * at + 6e6) + 1.1 * overdrawn, (at, cost, overdrawn)
    # a loop without time to spare, too, is told with an error that holds it
    seconds = last["runtime_ns"] / 1e9
    got, error = last["estimated_allocations"] / seconds, last["error_allocations"] / seconds
    assert abs(got - pairs) < 5 * error, (pairs, got, error)
    return error / got if got else float("inf")


@pytest.mark.parametrize("threads,rate", [(1, 0), (2, 600000)], ids=["a loop", "at a pace"])
def test_a_budget_is_kept_from_the_first_call_on(byteledger, prog, threads, rate):
    """
    Of a loop little beside the probes is left to tell by: of 20 runs on a quiet machine 3 had an error above 1.5 of what they told, all
    held the truth. Usually it is of use: where the first is not, the median of five is.
    """
    of_use = [kept(byteledger, prog, threads, rate)]
    if not rate and of_use[0] >= 1.5:
        of_use += [kept(byteledger, prog, threads, rate) for _ in range(4)]
        assert sorted(of_use)[2] < 1.5, of_use


@pytest.mark.parametrize("computing,of_a_thread", [(7, -1), (0, 100)], ids=["beside others", "a thread for 100 calls"])
def test_threads_that_call_are_told_by_their_own_time(byteledger, prog, computing, of_a_thread):
    """Beside threads that only compute, and where those that called in the last window are no more."""
    with running(prog("callers"), str(computing), "4", str(of_a_thread)) as p, \
            sampling(byteledger, "-p", p.pid, "--format", "json") as s:
        go(p)
        made = int(p.stdout.readline())
        got = json.loads(end(s))["processes"][0]
    told, error = got["estimated_allocations"], got["error_allocations"]
    assert got["cost"]["duty"] < 0.9
    assert abs(told - made) < 3 * error, (told, error, made)
    assert error < 2 * told, (told, error, made) # 0.15 to 1.42 of it in 30 runs; without a clock of each thread's own, nothing held


def test_few_calls_are_seen_all_of_the_time(byteledger, prog):
    """It begins when the probes are in, and they stay until it has ended: what it made is what was seen, however late either runs.
    At 7 us a call, on a machine that others make slow, 2,000 of them a second are more than the budget, and not few."""
    with running(prog("calls"), "1", "500", "2") as p, \
            sampling(byteledger, "-p", p.pid, "--all", "--budget", "1", "--format", "json") as s:
        go(p)
        made = json.loads(p.stdout.readline())["pairs"]
        got = json.loads(end(s))["processes"][0]
    assert got["cost"]["duty"] > 0.5
    assert abs(got["estimated_allocations"] - made) < 0.25 * made, (got["estimated_allocations"], made)


def test_a_budget_of_many_processes_with_many_allocators_is_kept_from_the_first_window_on(byteledger, prog):
    """
    Probes of nine processes with four allocators each take tens of milliseconds to go in. While the last go in those that have theirs pay, and
    a try before, process by process, cost chromium three times what the purse holds, before the first window was open.
    """
    libraries = [f"{test_sampler.LIBS}/{name}" for name in ("libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so")]
    env = {"LD_PRELOAD": ":".join(filter(os.path.exists, libraries))}
    with contextlib.ExitStack() as stack:
        all_of_them = [stack.enter_context(running(prog("calls"), "1", "80000", "8", env=env)) for _ in range(9)]
        for p in all_of_them:
            go(p)
        targets = [word for p in all_of_them for word in ("-p", str(p.pid))]
        done = subprocess.run([byteledger, "sample", *targets, "--jsonl", "--interval", "500ms", "--duration", "5s"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    costs = [json.loads(line)["processes"][0]["cost"] for line in done.stdout.splitlines()]
    assert costs[-1]["duty"] < 0.5
    assert costs[-1]["overdrawn_ns"] < 6e6, costs # no more than the purse once more, which is the machine's to waste
    assert costs[0]["hits"] * costs[0]["ns_per_hit"] < 2 * 6e6 + 5e8 * 0.0085, costs[0]


BURNED = """
import time
while time.process_time() < 2:
    pass
print("burned", flush=True)
while True:
    kept = bytearray(4 << 20)
    time.sleep(0.02)
"""


def test_what_a_process_did_before_is_no_part_of_what_was_not_seen(byteledger):
    """A reading before any gap was told is doubtful by what ran unseen: by all that the process ever ran, two seconds here."""
    with subprocess.Popen([sys.executable, "-c", BURNED], stdout=subprocess.PIPE, text=True) as p:
        try:
            assert p.stdout.readline() == "burned\n"
            done = subprocess.run([byteledger, "sample", "-p", str(p.pid), "--jsonl", "--interval", "100ms", "--count", "5"],
                                  capture_output=True, text=True, timeout=60)
        finally:
            p.kill()
    told = [json.loads(line)["processes"][0] for line in done.stdout.splitlines()]
    assert told, done.stderr
    for process in told: # two seconds are 125 million calls, as a standard error
        assert process["error_allocations"] < 1e7, process
