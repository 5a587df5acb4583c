# SPDX-License-Identifier: Apache-2.0
"""One breakdown of a process: `regions` beside smem, pmap -X and a plain reader of smaps; and the call of libbyteledger beside a
bare read in the same process. CPU of the whole command, wall time beside it; variants alternate within a round. --only small,
middle, many (shapes) or embedded."""
import json
import os
import shutil
import subprocess
import sys
import time

import judge
import measure
import tools

# name: memory in MiB, mappings
SHAPES = {"small": (64, 25), "middle": (256, 1000), "many": (1024, 30000)}
PLAIN = "import sys\nt=0\nfor l in open('/proc/'+sys.argv[1]+'/smaps'):\n if l.startswith('Rss:'): t+=int(l.split()[1])\nprint(t)"
TARGET = """
import ctypes, mmap, sys
m, n = int(sys.argv[1]) << 20, int(sys.argv[2])
libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
at = libc.mmap(None, ctypes.c_size_t(m), 3, 0x22, -1, ctypes.c_long(0))
libc.madvise(ctypes.c_void_p(at), ctypes.c_size_t(m), 15)
ctypes.memset(at, 1, m)
for i in range(0, n, 2):
    libc.mprotect(ctypes.c_void_p(at + i * 2 * 4096), ctypes.c_size_t(4096), 1)
print('ready', flush=True)
sys.stdin.read()
"""


def once(argv):
    """One run: CPU and wall seconds, exit status. (measure.run() waits for every child, and the target is one.)"""
    began = time.monotonic()
    child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime, time.monotonic() - began, child.returncode


def embedded(rounds):
    """bench_embed pairs the two calls itself; one run gives medians of its pairs."""
    path = os.path.join(tools.BUILD, "tests", "prog", "bench_embed")
    rows = []
    for name, (mib, mappings) in {"empty": (1, 2), **SHAPES}.items():
        done = subprocess.run([path, str(mib), str(mappings), str(max(rounds, 5) * 5)], capture_output=True, text=True, check=True)
        rows.append({"shape": name, **json.loads(done.stdout)})
    return rows


def main(opt, lock, progress):
    results, missing = [], [t for t in ("smem", "pmap") if not shutil.which(t)]
    if missing:
        raise tools.Missing(f"{', '.join(missing)} not installed (./dev deps --bench)")
    print(f"{'shape':7} {'MiB':>5} {'maps':>6} | CPU ms: {'regions':>8} {'--quick':>8} {'plain':>8} {'pmap -X':>8} {'smem':>8} | of plain, pmap, smem")
    for name in [n for n in SHAPES if not opt.only or n in opt.only]:
        mib, mappings = SHAPES[name]
        child = subprocess.Popen([sys.executable, "-c", TARGET, str(mib), str(mappings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert child.stdout.readline() == b"ready\n"
            pid = str(child.pid)
            # smem walks all processes and filters by command line, which nothing can narrow further
            argv = {"regions": [tools.BYTELEDGER, "regions", "-p", pid],
                    "quick": [tools.BYTELEDGER, "regions", "-p", pid, "--quick"],
                    "plain": [sys.executable, "-c", PLAIN, pid],
                    "pmap": ["pmap", "-X", pid],
                    "smem": ["smem", "-m", "-P", "import ctypes, mmap"]}
            rows = {v: {"cpu": [], "wall": []} for v in argv}
            void = []
            for r in range(opt.rounds + 1):
                with lock:
                    for v in judge.alternate(argv, r):
                        progress.show(f"regions {name}: round {r}/{opt.rounds}, {v}")
                        cpu, wall, status = once(argv[v])
                        if status:
                            void.append(f"{v} ended with status {status}")
                        if r:
                            rows[v]["cpu"].append(cpu)
                            rows[v]["wall"].append(wall)
        finally:
            child.kill()
            child.communicate()
        progress.clear()
        med = {v: {k: measure.median(x) for k, x in rows[v].items()} for v in rows}
        ratio = {v: med["regions"]["cpu"] / med[v]["cpu"] for v in ("plain", "pmap", "smem")}
        judged = not void and measure.spread(rows["plain"]["cpu"]) <= 0.2
        pairs = judge.rows({v: rows[v]["cpu"] for v in rows})
        found = {v: judge.estimate(pairs, judge.over("regions", v)) for v in ratio}
        results.append({"shape": name, "mib": mib, "mappings": mappings, "runs": rows, "median": med, "ratio": ratio,
                        "void": void, "judged": judged, "estimates": {v: e.json() for v, e in found.items()}})
        print(f"{name:7} {mib:5d} {mappings:6d} |         " + " ".join(f"{med[v]['cpu'] * 1e3:8.1f}" for v in argv)
              + " | " + ", ".join(e.text(2) for e in found.values())
              + f" | plain +-{100 * measure.spread(rows['plain']['cpu']):.0f} %" + "".join("; " + w for w in sorted(set(void))), flush=True)
    calls = []
    if not opt.only or "embedded" in opt.only:
        with lock:
            progress.show("regions: the embedded call")
            calls = embedded(opt.rounds)
    progress.clear()
    for c in calls:
        print(f"embedded, {c['mib']} MiB, {c['mappings']} mappings: {c['ours_cpu_ns'] / 1e6:.2f} ms CPU beside {c['bare_cpu_ns'] / 1e6:.2f} "
              f"of a bare read: {c['cpu_ratio']:.2f} (bar 1.3), wall {c['wall_ratio']:.2f}; {c['memory_bytes'] / 2**10:.0f} KiB (bar 1,024)")
    return {"regions": results, "embedded": calls}
