# SPDX-License-Identifier: Apache-2.0
"""Pairs and real programs once more, each variant at once with the bare program. On a host whose speed changes within seconds it
changes for both alike, and what is added is told in parts of bare. The two programs share one processor, bare beginning anew
until the variant has ended, so that each has company all the time; what works beside them (recorder, heaptrack's compressor and
interpreter) has another processor for itself. CPU time alone: wall says nothing here. Programs run at half their speed, so what
works by the clock counts for more, and "all" is rather too high."""
import json
import os
import random
import select
import sys

import inputs
import judge
import measure
import pairs
import programs
import tools

HEAVY = ("sqlite3", "gawk", "perl", "jq", "git", "clang", "python3")  # xz hardly allocates: see light


def begin(measured, gate, stop):
    """A process of its own measures one run: the children of each are counted apart. It begins once @gate is closed. @stop: it goes
    on running, unmeasured, until that is closed, too."""
    result, to = os.pipe()
    pid = os.fork()
    if pid:
        os.close(to)
        return pid, result
    try:
        os.close(gate[1])
        os.close(stop[1])
        measure.become_subreaper()
        processors = sorted(os.sched_getaffinity(0))
        measure.program_processor = processors[0]
        os.sched_setaffinity(0, {processors[-1]})
        os.read(gate[0], 1)
        run = measured()
        os.write(to, json.dumps({"traced": run.traced, "all": run.cpu_all, "status": run.status}).encode())
        os.close(to)
        while measured.goes_on and not select.select([stop[0]], [], [], 0)[0]:
            measured()
    except tools.Missing as why:
        os.write(to, json.dumps({"missing": str(why)}).encode())
    except BaseException as why:  # nothing of the parent's runs here
        print(f"{type(why).__name__}: {why}", file=sys.stderr, flush=True)
    finally:
        os._exit(0)


class Load:
    """The bare program, again and again: whoever runs longer has company to his end."""

    goes_on = True

    def __init__(self, target):
        self.target = target

    def __call__(self):
        return tools.bare(self.target)


class Once:
    goes_on = False

    def __init__(self, variant, target):
        self.variant, self.target = variant, target

    def __call__(self):
        return self.variant(self.target)


def at_once(measured):
    """{name: {"traced", "all", "status"}} of {name: what runs}; an empty one failed. tools.Missing."""
    gate, stop, found = os.pipe(), os.pipe(), {}
    begun = {v: begin(measured[v], gate, stop) for v in random.sample(list(measured), len(measured))}
    os.close(gate[0])
    os.close(gate[1])
    for v, (_, result) in begun.items():
        with os.fdopen(result, "rb") as f:
            found[v] = json.loads(f.read() or "{}")
    os.close(stop[0])
    os.close(stop[1])
    for pid, _ in begun.values():
        os.waitpid(pid, 0)
    for f in found.values():
        if "missing" in f:
            raise tools.Missing(f["missing"])
    return found


def planned(name, folder, opt):
    """What runs under @name, and the bars of its traced CPU and of all CPU; None: none, and all CPU is not asked for."""
    if name in pairs.EVEN:
        argv = [os.path.join(tools.BUILD, "tests", "prog", "bench_pairs"), name, str(pairs.BAR_DEPTH), str(opt.pairs)]
        return tools.Target(name, argv), pairs.BARS[name], None
    return programs.target(name, folder), programs.BARS["traced"], programs.BARS["all"]


def one(target, whole, opt, lock, progress):
    name, ours = target.name, tools.Ours()
    variants = {"ours": ours, "heaptrack_in_process": tools.heaptrack_in_process}
    if whole:
        variants["heaptrack"] = tools.Heaptrack()
    rows, void = {v: {"traced": [], "all": []} for v in variants}, []
    for r in range(opt.rounds + 1):
        for v in judge.alternate(variants, r):
            progress.show(f"{name}: round {r}, {v}")
            with lock:
                found = at_once({v: Once(variants[v], target), "bare": Load(target)})
            unseen = [x for x, f in found.items() if not f or f["traced"] is None]
            if unseen:
                return rows, [*void, f"round {r}: {' and '.join(unseen)} beside {v} could not be measured"]
            if found[v]["status"] != found["bare"]["status"]:
                void.append(f"round {r}: {v} ended with status {found[v]['status']}")
            for k in rows[v] if r else ():  # the first one warms the page cache
                rows[v][k].append(found[v][k] / found["bare"][k])
        totals = ours.report()
        if totals["lost"]["events"]:
            void.append(f"round {r}: {totals['lost']['events']} events lost")
    return rows, void


def judged(rows, bar, bar_all):
    """Rows hold factors over bare, which is 1."""
    of = lambda k: judge.rows({"bare": [1] * len(rows["ours"][k]), **{v: rows[v][k] for v in rows}})
    light = measure.median(rows["heaptrack_in_process"]["traced"]) < 1.3
    found = {"traced": judge.estimate(of("traced"), judge.added_over("ours", "heaptrack_in_process"), None if light else bar)}
    if bar_all:
        found["all"] = judge.estimate(of("all"), judge.added_over("ours", "heaptrack"), bar_all)
    found["x"] = judge.estimate(of("traced"), judge.over("ours", "bare"), programs.LIGHT_BAR if light else None)
    found["peer x"] = judge.estimate(of("traced"), judge.over("heaptrack_in_process", "bare"))
    return found, light


def main(opt, lock, progress):
    if len(os.sched_getaffinity(0)) < 2:
        raise tools.Missing("two processors are needed")
    folder = inputs.make(os.path.join(tools.OUT, "input"))
    print("CPU added over bare, ours / heaptrack's, each at once with bare. traced: its preload library alone; all: the heaptrack\n"
          "command. x: CPU of the traced process over bare. same, reenter, paths: pairs at depth 30")
    results, heavy = [], []
    for name in opt.only or (*pairs.EVEN, *HEAVY):
        try:
            target, bar, bar_all = planned(name, folder, opt)
            rows, void = one(target, bar_all is not None, opt, lock, progress)
        except tools.Missing as why:
            progress.clear()
            print(f"{name:9} not run: {why}")
            continue
        progress.clear()
        result = {"program": name, "runs": rows, "void": void}
        results.append(result)
        if void:
            print(f"{name:8} void: {'; '.join(void)}", flush=True)
            continue
        found, light = judged(rows, bar, bar_all)
        result["estimates"] = {k: e.json() for k, e in found.items()}
        if not light and bar_all:
            heavy.append(judge.rows({"bare": [1] * len(rows["ours"]["traced"]), **{v: rows[v]["traced"] for v in rows}}))
        print(f"{name:8} " + " | ".join(f"{k} {programs.say(e)}" for k, e in found.items()) + f"; {opt.rounds} rounds", flush=True)
    summary = {"programs": results}
    if heavy:
        mean = judge.geomean(heavy, judge.added_over("ours", "heaptrack_in_process"), programs.GEOMEAN_BAR)
        summary["traced_geomean"] = mean.json()
        print(f"traced CPU of {len(heavy)}: geometric mean {programs.say(mean)} (bar {programs.GEOMEAN_BAR})")
    return summary
