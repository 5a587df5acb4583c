# SPDX-License-Identifier: Apache-2.0
"""malloc+free pairs in several shapes and depths, and two busy threads: CPU added to the traced process per pair.

tests/prog/bench_pairs SHAPE DEPTH PAIRS [THREADS] does nothing else; its whole CPU, seen from outside, is divided by the pairs.
"""
import math
import os
import statistics

import judge
import measure
import tools
from tools import Target

# what is known again however often; then what runs through frames of different sizes, in turn and in random order
EVEN = ("same", "reenter", "paths")
MIXED = ("outer", "inner", "grammar", "tree", "interp")
SHAPES = (*EVEN, *MIXED, *(f"{s}-random" for s in MIXED))
BARS = {"same": 0.1, "reenter": 0.1, "paths": 0.25}
BAR_DEPTH = 30
THREADS_BAR = 1.15


def bar_of(shape, depth):
    """grammar:20000-random -> the bar of what ours adds over what heaptrack adds; None: a figure without one."""
    if shape in EVEN:
        return BARS[shape] if depth == BAR_DEPTH else None
    return None if depth < BAR_DEPTH else 0.5 if shape.endswith("-random") else 0.25


def variants(free_stacks):
    # bare runs between the two that are compared with it
    found = {"ours_free_stacks": tools.Ours(["--free-stacks"])} if free_stacks else {}
    return {**found, "ours": tools.Ours(), "bare": tools.bare, "heaptrack": tools.heaptrack_in_process}


def once(run_it, target, v, pairs, lock, void):
    """ns of CPU of the traced process per pair in one run; what makes the run void is added to @void."""
    with lock:
        run = run_it(target)
    if run.status != 0:
        void.append(f"{v} ended with status {run.status}")
    if run.traced is None:
        void.append(f"{v}: the traced process was not seen")
    if v.startswith("ours"):
        report = run_it.report()
        if report["lost"]["events"]:
            void.append(f"{v}: {report['lost']['events']} events lost")
        if report["totals"]["allocations"] < pairs:
            void.append(f"{v}: only {report['totals']['allocations']} allocations recorded")
    return (run.traced if run.traced is not None else math.nan) / pairs * 1e9


def per_pair(argv, pairs, opt, lock, progress, tried, label, look):
    """ns of CPU of the traced process per pair, per variant; what @look(rows, level) estimates of it; why it is void."""
    t = Target(label, argv)
    rows, void = {v: [] for v in tried}, []
    plan = judge.Plan(opt.rounds, opt.until_settled)
    for r in plan.numbers(lambda level: bool(void) or look(rows, level).settled()):
        for v in judge.alternate(tried, r):
            progress.show(f"{label}: round {r}, {v}")
            cost = once(tried[v], t, v, pairs, lock, void)
            if r:
                rows[v].append(cost)
    progress.clear()
    return rows, look(rows, plan.level), sorted(set(void))


def main(opt, lock, progress):
    program = os.path.join(tools.BUILD, "tests", "prog", "bench_pairs")
    if not os.path.exists(program):
        raise tools.Missing("tests/prog/bench_pairs is not built")
    results = []
    print("ns of CPU per pair in the traced process; added = over bare; ratio = added by ours / by heaptrack in-process, same, reenter and paths judged at depth 30, the others from there on")
    print(f"{'shape':14} {'depth':>5} {'bare':>7} {'+-%':>4} {'ours':>7} {'heaptrack':>9} | {'added':>7} {'peer':>7} {'ratio':>24} | verdict")
    for shape in opt.only or SHAPES:
        for depth in opt.depths:
            pairs = opt.pairs
            tried = variants(opt.free_stacks)
            bar = bar_of(shape, depth)
            look = lambda rows, level: judge.estimate(judge.rows(rows), judge.added_over("ours", "heaptrack"), bar, level)
            rows, found, void = per_pair([program, shape, str(depth), str(pairs)], pairs, opt, lock, progress, tried, f"{shape} {depth}", look)
            med = {v: measure.median(x) for v, x in rows.items()}
            add = {v: measure.median([a - b for a, b in zip(rows[v], rows["bare"])]) for v in rows if v != "bare"}
            r = {"shape": shape, "depth": depth, "pairs": pairs, "ns": rows, "median_ns": med, "added_ns": add, "void": void,
                 "bare_spread": measure.spread(rows["bare"]), "ratio": {v: add[v] / add["heaptrack"] for v in add if v != "heaptrack"}}
            # bare is some 20 ns of several hundred: its own scatter is held against what heaptrack adds, not against itself
            r["judged"] = not void and (r["bare_spread"] <= 0.2 or (max(rows["bare"]) - min(rows["bare"])) < 0.02 * add["heaptrack"])
            r["estimate"] = found.json()
            results.append(r)
            verdict = f"void: {'; '.join(void)}" if void else f"{found.verdict} (bar {bar}){judge.remark(0 if r['judged'] else 1)}" if bar else ""
            print(f"{shape:14} {depth:5d} {med['bare']:7.1f} {100 * r['bare_spread']:4.0f} {med['ours']:7.1f} {med['heaptrack']:9.1f} | "
                  f"{add['ours']:7.1f} {add['heaptrack']:7.1f} {found.text():>24} | {verdict}", flush=True)
            if "ours_free_stacks" in add:
                frees = judge.estimate(judge.rows(rows), judge.added_over("ours_free_stacks", "heaptrack"), level=found.level)
                r["estimate_free_stacks"] = frees.json()
                print(f"{'':14} {'':5} with stacks of free: added {add['ours_free_stacks']:.1f}, ratio {frees.text()}", flush=True)
    return {"pairs": results}


def threads(opt, lock, progress):
    program = os.path.join(tools.BUILD, "tests", "prog", "bench_pairs")
    if not os.path.exists(program):
        raise tools.Missing("tests/prog/bench_pairs is not built")
    # one thread and two in the same round: their ratio is what is asked for, and bare stands between in both orders
    targets = {c: Target(f"{c} threads", [program, "same", "10", str(opt.pairs), str(c)]) for c in (1, 2)}
    tried = {"ours": tools.Ours(), "bare": tools.bare}
    cases = [("ours", 1), ("bare", 1), ("bare", 2), ("ours", 2)]
    ns, void = {case: [] for case in cases}, []
    plan = judge.Plan(opt.rounds, opt.until_settled)

    def own(rounds):
        return statistics.median(r["ours", 2] / r["ours", 1] / (r["bare", 2] / r["bare", 1]) for r in rounds)

    look = lambda level: judge.estimate(judge.rows(ns), own, THREADS_BAR, level)
    for r in plan.numbers(lambda level: bool(void) or look(level).settled()):
        for v, count in judge.alternate(cases, r):
            progress.show(f"{v}, {count} thread(s): round {r}")
            cost = once(tried[v], targets[count], v, opt.pairs * count, lock, void)
            if r:
                ns[v, count].append(cost)
    progress.clear()
    found, out = look(plan.level), {}
    for c in (1, 2):
        rows = {v: ns[v, c] for v in tried}
        out[c] = {"ns": rows, "median_ns": {v: measure.median(x) for v, x in rows.items()}, "void": sorted(set(void)),
                  "bare_spread": measure.spread(rows["bare"])}
    own_of = {v: measure.median([b / a for a, b in zip(ns[v, 1], ns[v, 2])]) for v in tried}
    print(f"CPU per pair, two threads over one (each thread does as many pairs), {found.count} rounds")
    for c in out:
        print(f"  {c} thread(s): bare {out[c]['median_ns']['bare']:.1f} ns, ours {out[c]['median_ns']['ours']:.1f} ns, bare varies {100 * out[c]['bare_spread']:.0f} %")
    print(f"  bare x{own_of['bare']:.3f}, ours x{own_of['ours']:.3f}, ours over bare {found.text()}: "
          + (f"void: {'; '.join(sorted(set(void)))}" if void else f"{found.verdict} (bar {THREADS_BAR}){judge.remark(max(out[c]['bare_spread'] for c in out))}"))
    return {"threads": {str(c): out[c] for c in out}, "ratio": found.figure, "void": sorted(set(void)), "estimate": found.json(),
            "judged": not void and max(out[c]["bare_spread"] for c in out) <= 0.2}
