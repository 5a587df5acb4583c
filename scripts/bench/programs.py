# SPDX-License-Identifier: Apache-2.0
"""Real programs: bare, byteledger, heaptrack in-process, heaptrack whole; CPU, wall time and file size."""
import json
import math
import os

import inputs
import judge
import measure
import tools
from tools import Missing, Target

NAMES = ("sqlite3", "gawk", "perl", "jq", "xz", "git", "clang", "python3")
JQ = ('map({id, tags: (.tags|join("+")), s: (.nested.b|map(. // 0)|add), n: (.name|ascii_upcase)}) | group_by(.tags) | '
      'map({k: .[0].tags, c: length, t: (map(.s)|add)})')


def target(name, folder):
    path = lambda n: os.path.join(folder, n)
    lines = path("lines.txt")
    if name == "sqlite3":
        return Target(name, ["sqlite3", ":memory:"], stdin=path("sqlite.sql"))
    if name == "gawk":
        return Target(name, ["gawk", "-f", path("gawk.awk"), path("xz.txt")])
    if name == "perl":
        return Target(name, ["perl", path("perl.pl"), lines, lines, lines], env={"PERL_HASH_SEED": "0"})
    if name == "jq":
        return Target(name, ["jq", "-c", JQ, path("big.json")])
    if name == "xz":
        return Target(name, ["xz", "-T1", "-6", "-c", path("xz.txt")])
    if name == "git":
        return Target(name, ["git", "--no-pager", "-C", path("repo.git"), "log", "-p", "main"], env={"GIT_CONFIG_NOSYSTEM": "1"})
    if name == "clang":
        return Target(name, ["clang++", "-c", "-O0", "-o", "/dev/null", path("shapes.cc")])
    if name == "python3":
        return Target(name, ["/usr/bin/python3", path("program.py")], env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"})
    raise KeyError(name)


def light_target(name, folder):
    """What hardly allocates, for some tenths of a second; git's check of a repository unpacks and hashes every object."""
    if name == "xz":
        return Target(name, ["xz", "-T1", "-3", "-c", os.path.join(folder, "xz.txt")])
    if name == "git":
        return Target(name, ["git", "-C", os.path.join(folder, "repo.git"), "fsck", "--full"], env={"GIT_CONFIG_NOSYSTEM": "1"})
    return target(name, folder)


def added(variant, bare):
    """Median of the per-round differences: a slow minute hits both halves of a pair."""
    return measure.median([v - b for v, b in zip(variant, bare)])


def ratio(ours, theirs):
    return ours / theirs if theirs > 0 else None


BARS = {"traced": 0.4, "wall": 1 / 6, "all": 1 / 4}
GEOMEAN_BAR = 0.25
LIGHT_BAR = 1.05


def judged(rows, level):
    """What the rounds so far say. Where heaptrack adds under 30 % in-process, the ratio of two small numbers says little: there the
    factor over bare is judged."""
    traced, whole, wall = (judge.rows({v: rows[v][k] for v in rows}) for k in ("traced", "cpu_all", "wall"))
    light = measure.median(rows["heaptrack_in_process"]["traced"]) / measure.median(rows["bare"]["traced"]) < 1.3
    found = {"traced": judge.estimate(traced, judge.added_over("ours", "heaptrack_in_process"), None if light else BARS["traced"], level),
             "wall": judge.estimate(wall, judge.added_over("ours", "heaptrack"), BARS["wall"], level),
             "all": judge.estimate(whole, judge.added_over("ours", "heaptrack"), BARS["all"], level),
             "factor": judge.estimate(traced, judge.over("ours", "bare"), LIGHT_BAR if light else None, level)}
    return found, light


def settled(rows, level):
    """CPU is judged, wall time shown beside it: a wall that nobody can settle is not waited for."""
    found, light = judged(rows, level)
    return found["all"].settled() and found["factor" if light else "traced"].settled()


def one(name, folder, opt, lock, progress):
    t = target(name, folder)
    ours, whole, raw = tools.Ours(), tools.Heaptrack(), tools.Heaptrack(raw=True)
    # as they run: bare between the two that are compared with it inside the process, the long command at an end
    variants = {"ours": ours, "bare": tools.bare, "heaptrack_in_process": tools.heaptrack_in_process, "heaptrack": whole}
    rows = {v: {"wall": [], "cpu_all": [], "traced": []} for v in variants}
    status = {v: set() for v in variants}
    result = {"program": name, "void": []}
    plan = judge.Plan(opt.rounds, opt.until_settled)
    for r in plan.numbers(lambda level: bool(result["void"]) or settled(rows, level)):
        with lock:  # a round at a time, so that others can measure in between
            for v in judge.alternate(variants, r):
                progress.show(f"{name}: round {r}, {v}")
                run = variants[v](t)
                status[v].add(run.status)
                if r == 0:
                    continue  # warms the page cache; not counted
                rows[v]["wall"].append(run.wall)
                rows[v]["cpu_all"].append(run.cpu_all)
                if run.traced is None:
                    result["void"].append(f"{v}: the traced process was not seen")
                rows[v]["traced"].append(run.traced if run.traced is not None else math.nan)
        if r:
            lost = ours.report()["lost"]["events"]
            if lost:
                result["void"].append(f"round {r}: {lost} events lost")
    report = ours.report()
    raw(t)
    result["events"] = report["totals"]["allocations"] + report["totals"]["frees"]
    result["size"] = {"ours": os.path.getsize(ours.file), "heaptrack_raw": os.path.getsize(raw.file)}
    result["runs"] = rows
    for v, seen in status.items():
        if seen != status["bare"]:
            result["void"].append(f"{v} ended with status {sorted(seen)}, bare with {sorted(status['bare'])}")
    result["rounds"] = len(rows["bare"]["wall"])
    b, o, p, h = (rows[v] for v in ("bare", "ours", "heaptrack_in_process", "heaptrack"))
    result["bare_spread"] = {"cpu": measure.spread(b["traced"]), "wall": measure.spread(b["wall"])}
    result["median"] = {v: {k: measure.median(x) for k, x in rows[v].items()} for v in rows}
    add = {"ours_traced": added(o["traced"], b["traced"]), "peer_traced": added(p["traced"], b["traced"]),
           "ours_wall": added(o["wall"], b["wall"]), "peer_wall": added(h["wall"], b["wall"]),
           "ours_all": added(o["cpu_all"], b["cpu_all"]), "peer_all": added(h["cpu_all"], b["cpu_all"])}
    result["added"] = add
    result["ratio"] = {"traced": ratio(add["ours_traced"], add["peer_traced"]), "wall": ratio(add["ours_wall"], add["peer_wall"]),
                       "all": ratio(add["ours_all"], add["peer_all"]),
                       "size": result["size"]["ours"] / result["size"]["heaptrack_raw"]}
    result["factor_traced"] = result["median"]["ours"]["traced"] / result["median"]["bare"]["traced"]
    result["peer_factor_traced"] = result["median"]["heaptrack_in_process"]["traced"] / result["median"]["bare"]["traced"]
    result["judged"] = result["bare_spread"]["cpu"] <= 0.20 and not result["void"]
    result["wall_judged"] = result["bare_spread"]["wall"] <= 0.20 and not result["void"]
    # what byteledger does beside the program: its own start, draining the rings, writing the file
    result["recorder_seconds"] = measure.median([a - b for a, b in zip(o["cpu_all"], o["traced"])])
    result["recorder_ns_per_event"] = result["recorder_seconds"] / max(1, result["events"]) * 1e9
    return result, rows, plan.level


def say(estimate):
    return f"{estimate.text()} {estimate.verdict}" if estimate.verdict else estimate.text()


def main(opt, lock, progress):
    folder = inputs.make(os.path.join(tools.OUT, "input"))
    results, heavy, levels = [], [], [judge.LEVEL]
    print("Added over bare, ours / heaptrack's, with the middle 95 % of resampled rounds and the verdict by it. Traced CPU: its preload library\n"
          "alone; wall and all CPU: the heaptrack command. x: CPU of the traced process over bare. recorder: CPU of byteledger beside it.\n"
          "+-%: how much bare varied, for a look at the host; it decides nothing.")
    for name in opt.only or NAMES:
        try:
            r, rows, level = one(name, folder, opt, lock, progress)
        except Missing as why:
            progress.clear()
            print(f"{name:9} not run: {why}")
            continue
        progress.clear()
        results.append(r)
        head = f"{name:8} {r['events']} events, bare {r['median']['bare']['traced']:.2f} s +-{100 * r['bare_spread']['cpu']:.0f} %, {r['rounds']} rounds{judge.remark(r['bare_spread']['cpu'])}"
        if r["void"]:
            print(f"{head} | void: {'; '.join(r['void'])}", flush=True)
            continue
        found, light = judged(rows, level)
        r["estimates"] = {k: e.json() for k, e in found.items()}
        if not light:
            levels.append(level)
            heavy.append(judge.rows({v: rows[v]["traced"] for v in rows}))
        print(f"{head}; recorder {r['recorder_seconds']:.3f} s, {r['recorder_ns_per_event']:.0f} ns/event; "
              f"size {r['ratio']['size']:.2f}, {8 * r['size']['ours'] / max(1, r['events']):.2f} bits/event\n"
              f"{'':8} traced {say(found['traced'])} | wall {say(found['wall'])} | all {say(found['all'])} | x{say(found['factor'])}, "
              f"peer x{r['peer_factor_traced']:.2f}", flush=True)
    summary = {"programs": results}
    if heavy:
        mean = judge.geomean(heavy, judge.added_over("ours", "heaptrack_in_process"), GEOMEAN_BAR, max(levels))
        worst = [r["ratio"]["traced"] for r in results if "estimates" in r and r["estimates"]["traced"]["bar"]]
        summary.update(traced_geomean=mean.figure, traced_geomean_estimate=mean.json(), traced_worst=max((w for w in worst if w is not None), default=None))
        print(f"traced CPU of {len(heavy)}: geometric mean {say(mean)} (bar {GEOMEAN_BAR}, aim 0.125); bar of each {BARS['traced']}, of wall "
              f"{BARS['wall']:.3f}, of all {BARS['all']}; of x {LIGHT_BAR} where heaptrack adds under 30 %")
    return summary


LIGHT_ROUNDS_MIN = 41


def kept(bench, build):
    """What the last run of @bench found, if it was of the same build; else nothing."""
    try:
        with open(os.path.join(tools.OUT, bench + ".json")) as f:
            last = json.load(f)
    except FileNotFoundError:
        return []
    return last[bench] if last.get("build") == build else []


def light(opt, lock, progress):
    """Where heaptrack in-process adds under 30 %: the traced process's CPU over bare, in many pairs of runs."""
    folder = inputs.make(os.path.join(tools.OUT, "input"))
    results, build = [], tools.build_id()
    earlier = kept("light", build)
    print("CPU of the traced process over bare, in pairs of runs, the order changing; interval: the middle 95 % of resampled medians")
    print(f"{'program':9} {'pairs':>5} {'bare s':>7} {'+-%':>4} {'ratio':>24} {'of min':>6} {'peer':>5} | verdict")
    for name in opt.only or ("xz", "git"):
        t, ours = light_target(name, folder), tools.Ours()
        variants = {"ours": ours, "bare": tools.bare}
        before = next((r for r in earlier if r["program"] == name and "estimate" in r), None) if opt.add else None
        rows, peer, void = before["runs"] if before else {v: [] for v in variants}, before["peer"] if before else [], []
        plan = judge.Plan(max(opt.rounds, LIGHT_ROUNDS_MIN), opt.until_settled, earlier=len(rows["bare"]), looks=before["looks"] if before else 0)
        look = lambda level: judge.estimate(judge.rows(rows), judge.over("ours", "bare"), LIGHT_BAR, level)
        for r in plan.numbers(lambda level: look(level).settled()):
            progress.show(f"{name}: round {r}")
            with lock:
                for v in judge.alternate(variants, r):
                    run = variants[v](t)
                    if run.status != 0 or run.traced is None:
                        void.append(f"{v}: status {run.status}, CPU {run.traced}")
                    elif r:
                        rows[v].append(run.traced)
                if r and r % 10 == 0:
                    peer.append(tools.heaptrack_in_process(t).traced)
            lost = ours.report()["lost"]["events"]
            if lost:
                void.append(f"round {r}: {lost} events lost")
            if void:
                break
        progress.clear()
        if void:
            print(f"{name:9} void: {'; '.join(void)}")
            results.append({"program": name, "void": void})
            continue
        found, bare = look(plan.level), measure.median(rows["bare"])
        least = min(rows["ours"]) / min(rows["bare"])
        peer_factor = measure.median([p / rows["bare"][10 * i + 9] for i, p in enumerate(peer)])  # each beside its own round
        verdict = "heaptrack adds 30 % or more: not judged" if peer_factor >= 1.3 else found.verdict
        print(f"{name:9} {found.count:5d} {bare:7.3f} {100 * measure.spread(rows['bare']):4.0f} {found.text():>24} {least:6.3f} "
              f"{peer_factor:5.2f} | {verdict}{judge.remark(measure.spread(rows['bare']))}", flush=True)
        results.append({"program": name, "runs": rows, "peer": peer, "ratio": found.figure, "interval": found.json()["interval"],
                        "ratio_of_minima": least, "peer_factor": peer_factor, "estimate": found.json(), "looks": plan.looks, "verdict": verdict})
    done = {r["program"] for r in results}
    return {"light": results + [r for r in earlier if opt.add and r["program"] not in done], "build": build}
