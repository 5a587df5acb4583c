# SPDX-License-Identifier: Apache-2.0
"""malloc+free pairs in three shapes at several depths, and two busy threads: CPU added to the traced process per pair.

tests/prog/bench_pairs SHAPE DEPTH PAIRS [THREADS] does nothing else; its whole CPU, seen from outside, is divided by the pairs.
"""
import math
import os

import measure
import tools
from tools import Target

SHAPES = ("same", "reenter", "paths")
BARS = {"same": 0.1, "reenter": 0.1, "paths": 0.25}


def variants(free_stacks):
    found = {"bare": tools.bare, "ours": tools.Ours(), "heaptrack": tools.heaptrack_in_process}
    if free_stacks:
        found["ours_free_stacks"] = tools.Ours(["--free-stacks"])
    return found


def per_pair(argv, pairs, rounds, lock, progress, tried, label):
    """ns of CPU of the traced process per pair, per variant, and whether events were lost."""
    t = Target(label, argv)
    rows, void, seq = {v: [] for v in tried}, [], list(tried)
    for r in range(rounds + 1):
        for v in seq[r % len(seq):] + seq[:r % len(seq)]:
            progress.show(f"{label}: round {r}/{rounds}, {v}")
            with lock:
                run = tried[v](t)
            if run.status != 0:
                void.append(f"{v} ended with status {run.status}")
            if r == 0:
                continue
            if run.traced is None:
                void.append(f"{v}: the traced process was not seen")
            rows[v].append((run.traced if run.traced is not None else math.nan) / pairs * 1e9)
            if v.startswith("ours"):
                report = tried[v].report()
                if report["lost"]["events"]:
                    void.append(f"{v}: {report['lost']['events']} events lost")
                if report["totals"]["allocations"] < pairs:
                    void.append(f"{v}: only {report['totals']['allocations']} allocations recorded")
    return rows, sorted(set(void))


def main(opt, lock, progress):
    program = os.path.join(tools.BUILD, "tests", "prog", "bench_pairs")
    if not os.path.exists(program):
        raise tools.Missing("tests/prog/bench_pairs is not built")
    results = []
    print("ns of CPU per pair in the traced process; added = over bare; ratio = added by ours / by heaptrack in-process")
    print(f"{'shape':8} {'depth':>5} {'bare':>7} {'+-%':>4} {'ours':>7} {'heaptrack':>9} | {'added':>7} {'peer':>7} {'ratio':>6} | verdict")
    for shape in opt.only or SHAPES:
        for depth in opt.depths:
            pairs = opt.pairs
            tried = variants(opt.free_stacks)
            rows, void = per_pair([program, shape, str(depth), str(pairs)], pairs, opt.rounds, lock, progress, tried, f"{shape} {depth}")
            progress.clear()
            med = {v: measure.median(x) for v, x in rows.items()}
            add = {v: measure.median([a - b for a, b in zip(rows[v], rows["bare"])]) for v in rows if v != "bare"}
            r = {"shape": shape, "depth": depth, "pairs": pairs, "ns": rows, "median_ns": med, "added_ns": add, "void": void,
                 "bare_spread": measure.spread(rows["bare"]), "ratio": {v: add[v] / add["heaptrack"] for v in add if v != "heaptrack"}}
            # bare is some 20 ns of several hundred: its own scatter is held against what heaptrack adds, not against itself
            r["judged"] = not void and (r["bare_spread"] <= 0.2 or (max(rows["bare"]) - min(rows["bare"])) < 0.02 * add["heaptrack"])
            results.append(r)
            verdict = "; ".join(void) or (f"bar {BARS[shape]}" if r["judged"] else "not judged: bare varies by more than 20 %")
            print(f"{shape:8} {depth:5d} {med['bare']:7.1f} {100 * r['bare_spread']:4.0f} {med['ours']:7.1f} {med['heaptrack']:9.1f} | "
                  f"{add['ours']:7.1f} {add['heaptrack']:7.1f} {r['ratio']['ours']:6.3f} | {verdict}", flush=True)
            if "ours_free_stacks" in add:
                print(f"{'':8} {'':5} with stacks of free: added {add['ours_free_stacks']:.1f}, ratio {r['ratio']['ours_free_stacks']:.3f}", flush=True)
    return {"pairs": results}


def threads(opt, lock, progress):
    program = os.path.join(tools.BUILD, "tests", "prog", "bench_pairs")
    if not os.path.exists(program):
        raise tools.Missing("tests/prog/bench_pairs is not built")
    out = {}
    for count in (1, 2):
        tried = {"bare": tools.bare, "ours": tools.Ours()}
        rows, void = per_pair([program, "same", "10", str(opt.pairs), str(count)], opt.pairs * count, opt.rounds, lock, progress,
                              tried, f"{count} threads")
        progress.clear()
        out[count] = {"ns": rows, "median_ns": {v: measure.median(x) for v, x in rows.items()}, "void": void,
                      "bare_spread": measure.spread(rows["bare"])}
    own = {v: out[2]["median_ns"][v] / out[1]["median_ns"][v] for v in ("bare", "ours")}
    void = out[1]["void"] + out[2]["void"]
    spread = max(out[c]["bare_spread"] for c in out)
    print("CPU per pair, two threads over one (each thread does as many pairs)")
    for c in out:
        print(f"  {c} thread(s): bare {out[c]['median_ns']['bare']:.1f} ns, ours {out[c]['median_ns']['ours']:.1f} ns, bare varies {100 * out[c]['bare_spread']:.0f} %")
    print(f"  bare x{own['bare']:.3f}, ours x{own['ours']:.3f}, ours over bare {own['ours'] / own['bare']:.3f} (bar 1.15)"
          + (f"; void: {'; '.join(void)}" if void else "; not judged: bare varies by more than 20 %" if spread > 0.2 else ""))
    return {"threads": {str(c): out[c] for c in out}, "ratio": own["ours"] / own["bare"], "void": void,
            "judged": not void and spread <= 0.2}
