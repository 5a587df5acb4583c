# SPDX-License-Identifier: Apache-2.0
"""`pages`: what knowing the owner of every page costs, in CPU time.

The loop: tests/prog/faults touches 4 KiB pages and gives them back from below 5, 20 and 60 calls, with nothing attached ("bare"),
while another process is followed ("other": the tax on the whole machine) and as the followed program ("target"). Beside it a
bpftrace one-liner that counts page faults by stack, and one that streams every page event, where it is installed. Programs: a compiler, a build of small files, redis that is filled, a storm of forks; CPU time of
the program alone and of all together with byteledger's own.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

import judge
import measure
import tools
from bpfstack import SOURCE

LEDGER = os.path.join(tools.BUILD, "byteledger")
LOOP = os.path.join(tools.BUILD, "tests", "prog", "faults")
ROUNDS = "21"
BARS = {"other": 1.25, "target": 2.5}
AIMS = {"other": 1.10, "target": 1.5}


class Beside:
    """Something that runs while a variant is measured."""

    def __init__(self, argv, ready, end=signal.SIGINT):
        self.argv, self.ready, self.end = argv, ready, end

    def __enter__(self):
        self.process = subprocess.Popen(self.argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(self.ready)
        if self.process.poll() is not None:
            raise RuntimeError(f"{self.argv[0]} ended at once")

    def __exit__(self, *_):
        self.process.send_signal(self.end)
        self.process.wait(30)


def loop(depth):
    out = subprocess.run([LOOP, str(depth), ROUNDS], capture_output=True, text=True, check=True, timeout=120)
    return float(out.stdout)


def followed(depth):
    out = subprocess.run([LEDGER, "pages", "--format", "json", "--", LOOP, str(depth), ROUNDS], capture_output=True, text=True,
                         check=True, timeout=120)
    figure, reading = out.stdout.split("\n", 1)
    lost = json.loads(reading)["processes"][0]["lost"]["by_reason"] if reading.strip() else {}
    if any(reason != "events_missed" for reason in lost):
        raise RuntimeError(f"a void run: {lost}")
    return float(figure)


def with_other(depth, idle):
    with Beside([LEDGER, "pages", "-q", "-p", str(idle)], 0.7):
        return loop(depth)


def with_bpftrace(depth):
    with Beside(["bpftrace", "-e", "tracepoint:exceptions:page_fault_user { @[ustack(perf)] = count(); }"], 3, signal.SIGKILL): # told to end it names its stacks, for minutes
        return loop(depth)


STREAM = ("tracepoint:kmem:mm_page_alloc { printf(\"+%lx %d %s\\n\", args->pfn, args->order, ustack(perf)); } "
          "tracepoint:kmem:mm_page_free { printf(\"-%lx %d\\n\", args->pfn, args->order); }")


def with_streaming(depth):
    """As profilers do that hand every page event of the machine to user space, with its stack."""
    with Beside(["bpftrace", "-e", STREAM], 3, signal.SIGKILL):
        return loop(depth)


def usage(argv, stdin=None):
    """CPU seconds of a program and of all that it waited for."""
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{argv[0]} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime


def programs(folder, idle):
    found = {}
    clang = shutil.which("clang++")
    if clang:
        source = os.path.join(folder, "t.cc")
        with open(source, "w") as f:
            f.write(SOURCE)
        found["clang"] = [clang, "-O2", "-c", "-o", os.devnull, source]
    found["forks"] = ["sh", "-c", "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i + 1)); done"]
    if shutil.which("gcc"):
        # as a build of many small files: make's shell, the driver, the compiler and the assembler, 40 times
        small = os.path.join(folder, "small.c")
        with open(small, "w") as f:
            f.write("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n" +
                    "".join(f"int f{i}(const char *s) {{ return printf(\"%s %zu\", s, strlen(s) + {i}); }}\n" for i in range(40)))
        found["build"] = ["sh", "-c", f"i=0; while [ $i -lt 40 ]; do sh -c 'gcc -O1 -c -o {folder}/small.o {small}' || exit 1; i=$((i + 1)); done"]
    if shutil.which("redis-server"):
        # 200,000 values of 1 KiB, made by the server itself
        fill = os.path.join(folder, "fill.lua")
        with open(fill, "w") as f:
            f.write("for i = 1, 200000 do redis.call('set', 'k' .. i, string.rep(tostring(i % 10), 1024)) end return 1")
        sock = os.path.join(folder, "redis.sock")
        script = (f"redis-server --port 0 --unixsocket {sock} --save '' --appendonly no --lua-time-limit 0 --daemonize no --dir {folder} & "
                  f"until redis-cli -s {sock} ping 2>/dev/null | grep -q PONG; do sleep 0.02; done; "
                  f"redis-cli -s {sock} --eval {fill} >/dev/null && redis-cli -s {sock} shutdown nosave; wait $!")
        found["redis"] = ["sh", "-c", script]
    if shutil.which("python3"):
        found["python"] = [shutil.which("python3"), "-c", "x = [{str(i): i} for i in range(400000)]"]

    def variants(argv):
        def other():
            with Beside([LEDGER, "pages", "-q", "-p", str(idle)], 0.7):
                return usage(argv)
        return {"bare": lambda: usage(argv), "other": other,
                "target": lambda: usage([LEDGER, "pages", "--report", os.path.join(folder, "report-%p.txt"), "--follow-children", "--", *argv])}
    return {name: variants(argv) for name, argv in found.items()}


def table(label, tried, unit, opt, lock, progress, bars):
    series = {v: [] for v in tried}
    for r in range(opt.rounds + 1):
        for v in judge.alternate(tried, r):
            progress.show(f"{label}: round {r}/{opt.rounds}, {v}")
            with lock:
                value = tried[v]()
            if r: # the first is not counted
                series[v].append(value)
    progress.clear()
    result = {}
    for v, values in series.items():
        result[v] = {"values": values, "median": measure.median(values)}
        said = ""
        if v != "bare":
            e = judge.estimate(judge.rows({"ours": values, "bare": series["bare"]}), judge.over("ours", "bare"), bars.get(v))
            result[v]["estimate"] = e.json()
            said = f"{e.text(2)} of bare" + (f", bar {bars[v]}: {e.verdict}" if v in bars else "")
        print(f"{label:10} {v:10} {result[v]['median']:10.{0 if unit == 'ns' else 3}f} {unit} | {said}", flush=True)
    return result


def main(opt, lock, progress):
    if os.geteuid() != 0:
        raise tools.Missing("BPF needs root")
    if not os.path.exists(LOOP):
        raise tools.Missing("tests/prog/faults is not built")
    results = {}
    print("ns of CPU time a page touched and given back; s of CPU time of programs, of a followed one with all of byteledger's")
    idle = subprocess.Popen(["sleep", "100000"])
    try:
        for depth in (5, 20, 60):
            label = f"depth {depth}"
            if opt.only and label not in opt.only:
                continue
            tried = {"bare": lambda: loop(depth), "other": lambda: with_other(depth, idle.pid), "target": lambda: followed(depth)}
            if shutil.which("bpftrace"):
                tried["bpftrace"] = lambda: with_bpftrace(depth)
                tried["streaming"] = lambda: with_streaming(depth)
            results[label] = table(label, tried, "ns", opt, lock, progress, BARS if depth == 20 else {"other": BARS["other"]})
        with tempfile.TemporaryDirectory() as folder:
            for label, tried in programs(folder, idle.pid).items():
                if not opt.only or label in opt.only:
                    results[label] = table(label, tried, "s", opt, lock, progress,
                                           {"other": 1.25} if label == "forks" else {"other": 1.05, "target": 1.05})
    finally:
        idle.kill()
        idle.wait()
    return {"pages": results}
