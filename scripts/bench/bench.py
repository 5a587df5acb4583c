#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev bench [NAME...]`: side-by-side benchmarks; prints tables and writes build/bench/NAME.json.

Names: pairs (malloc+free microbenchmark), threads (two busy threads), programs (real programs), light (programs that hardly
allocate, in many pairs of runs), together (pairs and real programs, each variant at once with the bare one), reading (report
beside heaptrack_print), bpf-stack (stacks walked in the kernel), net (what recording costs nodes), pages (owners of resident pages),
sample (calls of allocators sampled), sample-programs (servers and runtimes under load, sampled), latency (a redis that snapshots are taken of), regions (one breakdown), regions-heap (glibc's heap
read from outside), regions-watch (30,000 mappings watched).
Variants alternate within a round, one round is not counted, figures are medians of the rounds. CPU time is judged,
wall time shown beside it; what was added is compared, not totals. Beside a ratio stands the middle 95 % of what it is when whole
rounds are drawn again at random (2,000 times), and the verdict goes by that: "met" where all of it keeps the bar, "not met" where
none of it does, "not settled" in between; below 5 rounds there is none. How much the bare program varied is shown and decides
nothing: a slow minute hits all of a round alike. With lost events a line says so and is void.
"""
import argparse
import contextlib
import datetime
import fcntl
import json
import os
import platform
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import bpfstack  # noqa: E402
import heapread  # noqa: E402
import latency  # noqa: E402
import measure  # noqa: E402
import net  # noqa: E402
import pages  # noqa: E402
import pairs  # noqa: E402
import programs  # noqa: E402
import reading  # noqa: E402
import regions  # noqa: E402
import sample  # noqa: E402
import sampled  # noqa: E402
import together  # noqa: E402
import tools  # noqa: E402

BENCHES = {"pairs": pairs.main, "threads": pairs.threads, "programs": programs.main, "light": programs.light, "together": together.main, "reading": reading.main,
           "bpf-stack": bpfstack.main, "net": net.main, "pages": pages.main, "latency": latency.main, "sample": sample.main, "sample-programs": sampled.main, "regions": regions.main, "regions-heap": heapread.heap, "regions-watch": heapread.watch}


class Lock:
    """One measurement at a time: an advisory lock file, held a round at a time (BYTELEDGER_BENCH_LOCK names another)."""

    def __init__(self, path):
        self.file = open(path, "w")

    def __enter__(self):
        fcntl.flock(self.file, fcntl.LOCK_EX)

    def __exit__(self, *_):
        fcntl.flock(self.file, fcntl.LOCK_UN)


def machine():
    model = "unknown"
    with contextlib.suppress(OSError):
        for line in open("/proc/cpuinfo"):
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release(), "load": os.getloadavg()[0]}


def main():
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=100, help="regions-watch: how long is watched (100)")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(BENCHES)}; all without")
    parser.add_argument("--only", action="append", help="only this program, shape or case, as the first column spells it (repeatable)")
    parser.add_argument("--rounds", type=int, default=5, help="pairs per figure (default 5, at least 5 for a figure that counts)")
    parser.add_argument("--until-settled", type=float, metavar="MINUTES",
                        help="pairs, threads, programs, light: double the rounds, from at least 10, until the interval leaves the bar on one "
                             "side, at most so long a line; the looks share the 5 %% of error")
    parser.add_argument("--add", action="store_true", help="light, with --until-settled: go on from the pairs and looks of the last run of this build")
    parser.add_argument("--pairs", type=int, default=5_000_000, help="malloc+free pairs a run (default 5 million = 10 million events)")
    parser.add_argument("--depths", type=lambda s: [int(x) for x in s.split(",")], default=[5, 30, 100])
    parser.add_argument("--free-stacks", action="store_true", help="pairs: also with stacks of free")
    parser.add_argument("--record", action="store_true", help="take the figures into docs/acceptance.json and make docs/acceptance.md of it")
    opt = parser.parse_args()
    if opt.record and opt.rounds < 5:
        parser.error("--record needs 5 rounds at least: below that there is no verdict")
    if opt.add and not opt.until_settled:
        parser.error("--add needs --until-settled: a second look at the same level would not be worth its name")
    for name in opt.names:
        if name not in BENCHES:
            parser.error(f"no benchmark '{name}'; there are {', '.join(BENCHES)}")
    os.makedirs(tools.OUT, exist_ok=True)
    lock = Lock(os.environ.get("BYTELEDGER_BENCH_LOCK", os.path.join(tools.OUT, "lock")))
    progress = measure.Progress()
    failed = 0
    for name in opt.names or BENCHES:
        print(f"== {name}", flush=True)
        try:
            result = BENCHES[name](opt, lock, progress)
        except tools.Missing as why:
            print(f"not run: {why}")
            failed = 1
            continue
        result.update(date=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"), machine=machine(),
                      command="./dev bench " + " ".join(sys.argv[1:]))
        path = os.path.join(tools.OUT, name + ".json")
        with open(path + ".part", "w") as f:
            json.dump(result, f, indent=1)
        os.rename(path + ".part", path)
        if opt.rounds < 5:
            print("fewer than 5 rounds: for a look, not a figure")
        print(f"written: {os.path.relpath(path, tools.ROOT)}")
        if opt.record:
            subprocess.run([sys.executable, os.path.join(tools.ROOT, "scripts", "acceptance.py"), "--record", path], check=True)
    return failed


sys.exit(main())
