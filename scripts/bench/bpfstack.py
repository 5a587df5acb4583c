# SPDX-License-Identifier: Apache-2.0
"""Stacks walked in the kernel: time in the program per stack and per frame, beside bpf_get_stack() with frame pointers.

The kernel's own statistics of BPF programs (run_time_ns) are divided by runs and frames; the uprobe's trap is in neither. Hot:
tests/prog/bench_depth stands at one depth and calls a probed function again and again. Real: clang++ -O2, libc's malloc.
"""
import json
import os
import shutil
import subprocess
import tempfile

import judge
import measure
import tools

DRIVER = os.path.join(tools.BUILD, "tests", "bpf", "bpf_stack")
BARS = {"tables": 45, "tables+cache": 30}
REAL_BARS = {"tables": 90, "tables+cache": 70}
SOURCE = """#include <map>
#include <regex>
#include <string>
#include <vector>
int main() { std::map<std::string, std::vector<int>> m; std::regex r("a(b|c)*d");
for (int i = 0; i < 100; i++) m[std::to_string(i)].push_back(i); return std::regex_match("abcd", r) + (int)m.size(); }
"""


def drive(*argv):
    done = subprocess.run([DRIVER, *argv], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=280)
    if done.returncode != 0:
        raise RuntimeError(f"bpf_stack: {done.stderr.strip()}")
    r = json.loads(done.stdout)
    # a run that captured nothing is cheap and would make the others look so
    if not r["runs"] or r["runs"] > r["captures"] or r.get("busy") or r.get("ring_full") \
            or sum(r.get("stops", {}).values()) != r.get("stops_sum", 0):
        raise RuntimeError(f"a void run: {r}")
    return {"ns": r["run_ns"] / r["runs"], "frames": r["frames"] / max(1, r["captures"]), "captures": r["captures"],
            "reads": r.get("reads", 0) / max(1, r["captures"])}


def hot(depth):
    bare, kept = (os.path.join(tools.BUILD, "tests", "prog", name) for name in ("bench_depth", "bench_depth_fp"))
    walk = ["watch", "0.3", bare, "bench_here", "stats", "count-only"]
    return {"bpf_get_stack": lambda: drive("peer", "0.3", kept, "bench_here", "stack", "--", kept, str(depth)),
            "tables": lambda: drive(*walk, "no-cache", "--", bare, str(depth)),
            "tables+cache": lambda: drive(*walk, "--", bare, str(depth))}


def real(clang, libc, source):
    walk = ["watch", "120", libc, "malloc", "stats", "count-only"]
    compile_it = ["--", clang, "-O2", "-c", "-o", os.devnull, source]
    return {"tables": lambda: drive(*walk, "no-cache", *compile_it), "tables+cache": lambda: drive(*walk, *compile_it)}


def rounds(label, tried, count, lock, progress):
    rows = {v: [] for v in tried}
    for r in range(count):
        for v in judge.alternate(tried, r):
            progress.show(f"{label}: round {r + 1}/{count}, {v}")
            with lock:
                rows[v].append(tried[v]())
    progress.clear()
    return {v: {"ns_per_stack": [x["ns"] for x in row], "median_ns": measure.median([x["ns"] for x in row]),
                "frames": row[0]["frames"], "reads": row[0]["reads"], "captures": sum(x["captures"] for x in row)}
            for v, row in rows.items()}


def main(opt, lock, progress):
    if not os.path.exists(DRIVER):
        raise tools.Missing("tests/bpf/bpf_stack is not built")
    if os.geteuid() != 0:
        raise tools.Missing("BPF needs root")
    results = {}
    print("ns in the program per stack (median of rounds, least), per frame; one body without a walk takes some 40 ns")
    print(f"{'case':10} {'variant':14} {'frames':>6} {'reads':>5} {'ns/stack':>9} {'least':>7} {'ns/frame':>8} | bar, verdict")
    cases = [(f"depth {d}", hot(d), BARS) for d in (5, 20, 60)]
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "t.cc")
        with open(source, "w") as f:
            f.write(SOURCE)
        libc = next(line.split()[-1] for line in open("/proc/self/maps") if "libc.so" in line)
        clang = shutil.which("clang++")
        if clang:
            cases.append(("clang", real(clang, libc, source), REAL_BARS))
        else:
            print("clang: not run, it is not installed")
        for label, tried, bars in cases:
            if opt.only and label not in opt.only:
                continue
            found = rounds(label, tried, opt.rounds, lock, progress)
            results[label] = found
            peer = found.get("bpf_get_stack")
            for v, r in found.items():
                per_frame = r["median_ns"] / max(1, r["frames"])
                said = []
                if v in bars and (label == "clang" or label == "depth 60"):
                    frames = max(1, r["frames"])
                    e = judge.estimate(r["ns_per_stack"], lambda ns: measure.median(ns) / frames, bars[v])
                    said.append(f"{e.text(1)}, bar {bars[v]} ns/frame: {e.verdict}")
                    r["estimate"] = e.json()
                if peer and v in bars:
                    e = judge.estimate(judge.rows({"ours": r["ns_per_stack"], "peer": peer["ns_per_stack"]}), judge.over("ours", "peer"))
                    said.append(f"{e.text(2)} of bpf_get_stack")
                    r["estimate_of_peer"] = e.json()
                verdict = "; ".join(said)
                print(f"{label:10} {v:14} {r['frames']:6.1f} {r['reads']:5.1f} {r['median_ns']:9.0f} {min(r['ns_per_stack']):7.0f} "
                      f"{per_frame:8.1f} | {verdict}", flush=True)
    return {"bpf-stack": results}
