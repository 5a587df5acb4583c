# SPDX-License-Identifier: Apache-2.0
"""`sample`: what sampling allocations costs the sampled program, in CPU time a pair of malloc and free.

The loop: tests/prog/calls, pairs of malloc(100) and free below 20 calls, as fast as they go. "trap" is what this machine's kernel takes
for a probe on malloc whose program does nothing: half a microsecond on one machine and a whole one on another, so bars of
microseconds hold for one machine, and ratios to its trap for all.
Ours: every call looked at without a budget ("ours"), frees too ("ours --leaks"), within the default budget ("ours, 1 %"), jemalloc by
its own hook. Peers in the same rounds: a bpftrace one-liner (sizes by stack), bcc's memleak (headers: any linux-headers package of
Debian), heaptrack in the process. Calls that were seen are held against those that were made: with one missing there is no figure.
"""
import glob
import json
import os
import shutil
import signal
import subprocess
import time

import judge
import measure
import tools

LOOP = os.path.join(tools.BUILD, "tests", "prog", "calls")
LIBS = "/usr/lib/x86_64-linux-gnu"
LIBC = f"{LIBS}/libc.so.6"
JEMALLOC = os.path.join(tools.OUT, "calls-jemalloc")
SECONDS = "1"
# bcc 0.26's Python hands six arguments to a function of libbcc that takes seven: the last one, the place of a semaphore, is what the stack
# happens to hold, and the kernel refuses it or not by chance. Zero is what it means.
MEMLEAK = """
import runpy, sys
from bcc.libbcc import lib
attach = lib.bpf_attach_uprobe
if len(attach.argtypes) == 6:
    import ctypes
    attach.argtypes = [*attach.argtypes, ctypes.c_uint32]
    lib.bpf_attach_uprobe = lambda *given: attach(*given, 0)
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# us a pair on the machine that the bars come from, whose trap takes 0.51 us; and so as ratios to traps
BARS = {"ours": (0.7, 0.7 / 0.51), "ours --leaks": (1.3, 1.3 / 0.51)}
HOOK_BAR = 0.008 / 0.51


def code_of(pid):
    """libc's, as the process has it now."""
    for line in open(f"/proc/{pid}/maps"):
        if line.endswith("/libc.so.6\n") and " r-xp " in line:
            lo, hi = (int(n, 16) for n in line.split()[0].split("-"))
            with open(f"/proc/{pid}/mem", "rb", 0) as mem:
                mem.seek(lo)
                return mem.read(hi - lo)
    return None


def wait_for_probes(pid, other):
    """A peer says that it is ready before it is: until the code has changed, and changes no more for a second."""
    before = now = code_of(pid)
    same = 0
    for _ in range(600):
        time.sleep(0.1)
        last, now = now, code_of(pid)
        same = same + 1 if now == last and now != before else 0
        if same == 10:
            return
        if other.poll() is not None:
            break
    raise RuntimeError(f"{other.args[0]} put no probe in")


def loop(beside=None, own=True, env=None, only_env=None, program=LOOP):
    """One run, with what @beside starts once the program is there: (ns a pair, pairs, what that has said)."""
    process = subprocess.Popen([program, "1", "0", SECONDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env={**os.environ, **(env or {})})
    other, said = None, ""
    try:
        if beside:
            other = subprocess.Popen([str(process.pid) if word == "PID" else word for word in beside], stdout=subprocess.PIPE if own else subprocess.DEVNULL,
                                     stderr=subprocess.PIPE if own else subprocess.DEVNULL, text=True, env={**os.environ, **(only_env or {})})
            if own:
                line = other.stderr.readline()
                if "sampling" not in line:
                    raise RuntimeError(f"{beside[0]}: {line}")
            else:
                wait_for_probes(process.pid, other)
        process.stdin.write("go\n")
        process.stdin.flush()
        result = json.loads(process.stdout.readline())
        if other:
            other.send_signal(signal.SIGINT if own else signal.SIGKILL) # told to end they name stacks, for minutes
            said = other.communicate(timeout=60)[0]
    finally:
        for one in (other, process):
            if one and one.poll() is None:
                one.kill()
                one.wait()
    return result["ns_per_pair"], result["pairs"], said


def ours(*options, program=LOOP, per_pair=1):
    ns, pairs, said = loop([tools.BYTELEDGER, "sample", "-p", "PID", "--format", "json", *options], program=program)
    got = json.loads(said)["processes"][0]
    if got["lost"]["events"] or per_pair and got["cost"]["hits"] < pairs * per_pair:
        raise RuntimeError(f"a void run: {got['cost']['hits']} calls seen of {pairs * per_pair}, lost {got['lost']}")
    return ns


def bpftrace(program):
    return loop(["bpftrace", "-p", "PID", "-e", program], own=False)[0]


def headers(folder):
    """Debian divides them into two trees that link to each other; bcc looks for one."""
    whole = sorted(glob.glob("/usr/src/linux-headers-*-amd64"))
    common = sorted(glob.glob("/usr/src/linux-headers-*-common"))
    if not whole or not common:
        return None
    tree = os.path.join(folder, "headers")
    if not os.path.isdir(tree + "/include"):
        os.makedirs(tree, exist_ok=True)
        subprocess.run(["cp", "-rs", common[-1] + "/.", tree], check=True)
        subprocess.run(["cp", "-rsf", *(f"{whole[-1]}/{part}" for part in ("include", "arch")), tree], check=True)
    return tree


def site():
    """Offsets into malloc and free of the instructions that ours probes."""
    process = subprocess.Popen([LOOP, "1", "1", "1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        done = subprocess.run([tools.BYTELEDGER, "sample", "-p", str(process.pid), "--leaks", "--format", "json", "--duration", "100ms"],
                              capture_output=True, text=True, check=True, timeout=60)
    finally:
        process.kill()
        process.wait()
    return {f["function"]: f["site"] for f in json.loads(done.stdout)["processes"][0]["functions"]}


def with_jemalloc():
    """The loop with jemalloc inside, whose names are there: its events are the sampler's then."""
    source = os.path.join(tools.ROOT, "tests", "prog", "calls.c")
    return os.path.exists(f"{LIBS}/libjemalloc.a") and subprocess.run(
        ["gcc", "-O2", "-fno-builtin", "-fno-optimize-sibling-calls", source, "-o", JEMALLOC, "-l:libjemalloc.a", "-lm", "-lstdc++", "-lpthread",
         "-ldl"]).returncode == 0


def variants():
    at = site()
    if at.get("malloc"):
        raise tools.Missing("this libc's malloc is not probed at its first instruction, where bpftrace puts its probe")
    found = {"bare": lambda: loop()[0], "ours": lambda: ours("--budget", "0"), "ours --leaks": lambda: ours("--leaks", per_pair=2),
             "ours, 1 %": lambda: ours(per_pair=0)}
    if shutil.which("bpftrace"):
        found["trap"] = lambda: bpftrace(f"uprobe:{LIBC}:malloc {{ }}")
        found["bpftrace"] = lambda: bpftrace(f"uprobe:{LIBC}:malloc {{ @[ustack(perf)] = hist(arg0); }}")
    tree = headers(tools.OUT)
    memleak = shutil.which("memleak-bpfcc")
    if memleak and tree:
        found["memleak"] = lambda: loop(["/usr/bin/python3", "-c", MEMLEAK, memleak, "-p", "PID", "100", "1"], own=False, only_env={"BCC_KERNEL_SOURCE": tree})[0]
    if os.path.exists(tools.HEAPTRACK_PRELOAD):
        found["heaptrack"] = lambda: loop(env={"LD_PRELOAD": tools.HEAPTRACK_PRELOAD, "DUMP_HEAPTRACK_OUTPUT": "/dev/null"})[0]
    if with_jemalloc():
        found["jemalloc bare"] = lambda: loop(program=JEMALLOC)[0]
        found["jemalloc hook"] = lambda: ours("--budget", "0", program=JEMALLOC, per_pair=0)
    return found


def main(opt, lock, progress):
    if os.geteuid() != 0:
        raise tools.Missing("BPF needs root")
    if not os.path.exists(LOOP):
        raise tools.Missing("tests/prog/calls is not built")
    tried = variants()
    series = {v: [] for v in tried}
    for r in range(opt.rounds + 1):
        for v in judge.alternate(tried, r):
            progress.show(f"round {r}/{opt.rounds}, {v}")
            with lock:
                value = tried[v]()
            if r: # the first is not counted
                series[v].append(value)
    progress.clear()
    for name, missing in (("trap", "bpftrace"), ("memleak", "bpfcc-tools with linux-headers-amd64"), ("heaptrack", "heaptrack"), ("jemalloc bare", "libjemalloc-dev")):
        if name not in tried:
            print(f"without {name}: {missing} is not installed")
    rows = judge.rows(series)
    results = {}
    print("ns of CPU time a pair of malloc(100) and free; ratios of what is added over bare")
    for v, values in series.items():
        result = results[v] = {"values": values, "median": measure.median(values)}
        said = []
        if v in BARS:
            us, ratio = BARS[v]
            e = judge.estimate(rows, lambda r, v=v: judge.over(v, "bare")(r) * judge.statistics.median(x["bare"] for x in r) / 1000, us)
            result["us"] = e.json()
            said.append(f"bar {us} us: {e.verdict}")
            if "trap" in tried:
                e = judge.estimate(rows, judge.over(v, "trap"), ratio)
                result["over_trap"] = e.json()
                said.append(f"{e.text(2)} of one bare trap, bar {ratio:.2f}: {e.verdict}")
        if v == "jemalloc hook":
            e = judge.estimate(rows, lambda r: judge.statistics.median(x["jemalloc hook"] - x["jemalloc bare"] for x in r), 8)
            result["added"] = e.json()
            said.append(f"{e.text(1)} ns added, bar 8: {e.verdict}")
            if "trap" in tried:
                e = judge.estimate(rows, lambda r: judge.statistics.median((x["jemalloc hook"] - x["jemalloc bare"]) / (x["trap"] - x["bare"]) for x in r), HOOK_BAR)
                result["over_trap"] = e.json()
                said.append(f"{e.text(4)} of one bare trap, bar {HOOK_BAR:.4f}: {e.verdict}")
        for peer in ("bpftrace", "memleak", "heaptrack"):
            if v.startswith("ours") and peer in tried:
                e = judge.estimate(rows, judge.added_over(v, peer))
                result[f"over_{peer}"] = e.json()
                said.append(f"{e.text(3)} of {peer}")
        print(f"{v:14} {result['median']:9.1f} | {'; '.join(said)}", flush=True)
    return {"sample": results}
