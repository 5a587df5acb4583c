# SPDX-License-Identifier: Apache-2.0
"""glibc's heap read from outside: a fragmented GiB in 4 arenas, against the program's own mallinfo2 and a bare copy of it;
and watching 30,000 mappings: CPU of the watcher, and how long the watched program's own mmap and munmap take meanwhile."""
import json
import os
import re
import resource
import subprocess
import time

import judge
import measure
import tools

COPY_BAR, ERROR_BAR, CPU_BAR, STALL_BAR_US = 2.0, 0.01, 0.005, 5000


def program(name):
    path = os.path.join(tools.BUILD, "tests", "prog", name)
    if not os.path.exists(path):
        raise tools.Missing(f"tests/prog/{name} is not built")
    return path


class Target:
    def __init__(self, *argv):
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.said = self.child.stdout.readline().split()
        self.pid = self.child.pid

    def end(self):
        """What it printed last."""
        self.child.stdin.close()
        text = self.child.stdout.read()
        self.child.wait()
        return text

    def reset(self):
        self.child.stdin.write("reset\n")
        self.child.stdin.flush()


def heap(opt, lock, progress):
    target = Target(program("glibcheap"), "1024", "4")
    try:
        progress.show("1 GiB in 4 arenas")
        with lock:
            done = subprocess.run([program("bench_heapread"), str(target.pid), str(opt.rounds)], capture_output=True, text=True, timeout=280)
    finally:
        target.end()
    progress.clear()
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    r = json.loads(done.stdout)
    uordblks, fordblks, hblkhd, fsmblks, _ = map(int, target.said[1:6])
    used = r["live_bytes"] + r["cache_bytes"] + r["metadata_bytes"]
    free = r["free_bytes"] + r["fastbin_bytes"]
    r["mallinfo2"] = {"uordblks": uordblks, "fordblks": fordblks, "hblkhd": hblkhd, "fsmblks": fsmblks}
    r["used_error"] = abs(used - uordblks - hblkhd) / (uordblks + hblkhd)
    r["free_error"] = abs(free - fordblks) / fordblks
    spread = max(measure.spread(r["copy_cpu_ns"]), measure.spread(r["walk_cpu_ns"]))
    ratio = {k: measure.median(r[f"walk_{k}_ns"]) / measure.median(r[f"copy_{k}_ns"]) for k in ("cpu", "wall")}
    pairs = judge.rows({"copy": r["copy_cpu_ns"], "walk": r["walk_cpu_ns"]})
    found = judge.estimate(pairs, judge.over("walk", "copy"), COPY_BAR)
    r.update(estimate=found.json(), ratio=ratio, copy_spread=measure.spread(r["copy_cpu_ns"]), judged=spread <= 0.2)
    print(f"in use {used / 2**20:.1f} MiB (own statistics {(uordblks + hblkhd) / 2**20:.1f}, off by {100 * r['used_error']:.3f} %), "
          f"free {free / 2**20:.1f} MiB (own {fordblks / 2**20:.1f}, off by {100 * r['free_error']:.3f} %), bar 1 %")
    print(f"copy {measure.median(r['copy_cpu_ns']) / 1e6:.0f} ms, reading {measure.median(r['walk_cpu_ns']) / 1e6:.0f} ms of CPU: "
          f"{found.text(2)}, {found.verdict} (bar {COPY_BAR}); wall {ratio['wall']:.2f}; copies vary by {100 * r['copy_spread']:.0f} %")
    return r


def stalls(text):
    found = re.search(r"calls (\d+) p50_us (\d+) p99_us (\d+) worst_us (\d+)", text)
    return {k: int(v) for k, v in zip(("calls", "p50_us", "p99_us", "worst_us"), found.groups())}


def watch(opt, lock, progress):
    seconds = opt.seconds
    out = {}
    with lock:
        progress.show("30,000 mappings, nobody watches")
        target = Target(program("mapper"), "30000", "1024")
        target.reset()
        time.sleep(10)
        out["alone"] = stalls(target.end())
        progress.show(f"30,000 mappings, watched for {seconds} s")
        target = Target(program("mapper"), "30000", "1024")
        target.reset()
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        began = time.monotonic()
        done = subprocess.run([tools.BYTELEDGER, "regions", "-p", str(target.pid), "--watch", "1", "--duration", f"{seconds}s"],
                              capture_output=True, text=True, timeout=280)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        wall = time.monotonic() - began
        out["watched"] = stalls(target.end())
    progress.clear()
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    out.update(seconds=wall, cpu_seconds=cpu, cpu_share=cpu / wall, said=[line for line in done.stderr.splitlines() if "mappings" in line])
    print(f"watcher: {cpu:.2f} s of CPU in {wall:.0f} s: {100 * cpu / wall:.2f} % (bar {100 * CPU_BAR} %); {out['said'][-1] if out['said'] else ''}")
    for name in ("alone", "watched"):
        s = out[name]
        print(f"mmap + touch + munmap {name}: {s['calls']} calls, p50 {s['p50_us']} us, p99 {s['p99_us']} us (bar {STALL_BAR_US}), worst {s['worst_us']} us")
    return out
