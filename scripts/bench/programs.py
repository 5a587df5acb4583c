# SPDX-License-Identifier: Apache-2.0
"""Real programs: bare, byteledger, heaptrack in-process, heaptrack whole; CPU, wall time and file size."""
import math
import os

import inputs
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
        return Target(name, ["clang++-14", "-c", "-O0", "-o", "/dev/null", path("shapes.cc")])
    if name == "python3":
        return Target(name, ["/usr/bin/python3", path("program.py")], env={"PYTHONMALLOC": "malloc", "PYTHONHASHSEED": "0"})
    raise KeyError(name)


def light_target(name, folder):
    """What hardly allocates, for some tenths of a second; a search of git's history for a string opens every blob, prints nothing."""
    if name == "xz":
        return Target(name, ["xz", "-T1", "-3", "-c", os.path.join(folder, "xz.txt")])
    if name == "git":
        repo = os.path.join(folder, "repo.git")
        return Target(name, ["git", "--no-pager", "-C", repo, "log", "--oneline", "-Sno such word", "main~2500..main"],
                      env={"GIT_CONFIG_NOSYSTEM": "1"})
    return target(name, folder)


def added(variant, bare):
    """Median of the per-round differences: a slow minute hits both halves of a pair."""
    return measure.median([v - b for v, b in zip(variant, bare)])


def ratio(ours, theirs):
    return ours / theirs if theirs > 0 else None


def one(name, folder, rounds, lock, progress):
    t = target(name, folder)
    ours, whole, raw = tools.Ours(), tools.Heaptrack(), tools.Heaptrack(raw=True)
    variants = {"bare": tools.bare, "ours": ours, "heaptrack_in_process": tools.heaptrack_in_process, "heaptrack": whole}
    rows = {v: {"wall": [], "cpu_all": [], "traced": []} for v in variants}
    status = {v: set() for v in variants}
    result = {"program": name, "rounds": rounds, "void": []}
    sequence = list(variants)
    for r in range(rounds + 1):
        with lock:  # a round at a time, so that others can measure in between
            for v in sequence[r % 4:] + sequence[:r % 4]:
                progress.show(f"{name}: round {r}/{rounds}, {v}")
                run = variants[v](t)
                status[v].add(run.status)
                if r == 0:
                    continue  # warms the page cache; not counted
                rows[v]["wall"].append(run.wall)
                rows[v]["cpu_all"].append(run.cpu_all)
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
        if any(math.isnan(x) for x in rows[v]["traced"]):
            result["void"].append(f"{v}: the traced process was not seen")
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
    return result


def show(x, digits=2):
    return "-" if x is None else f"{x:.{digits}f}"


def main(opt, lock, progress):
    folder = inputs.make(os.path.join(tools.OUT, "input"))
    results = []
    print("Added over bare, ours / heaptrack's (traced CPU: its preload library alone; wall and all CPU: the heaptrack command; ? = not judged, bare varies by more than 20 %)")
    print(f"{'program':9} {'events':>9} {'bare s':>7} {'+-%':>4} | {'traced x':>8} {'peer x':>7} | {'traced':>7} {'wall':>6} {'all cpu':>7} | "
          f"{'size':>6} {'bits/ev':>7} | verdict")
    for name in opt.only or NAMES:
        try:
            r = one(name, folder, opt.rounds, lock, progress)
        except Missing as why:
            progress.clear()
            print(f"{name:9} not run: {why}")
            continue
        progress.clear()
        results.append(r)
        verdict = "; ".join(r["void"]) or ("" if r["judged"] else "not judged: bare varies by more than 20 %")
        print(f"{name:9} {r['events']:9d} {r['median']['bare']['traced']:7.2f} {100 * r['bare_spread']['cpu']:4.0f} | "
              f"{r['factor_traced']:8.2f} {r['peer_factor_traced']:7.2f} | {show(r['ratio']['traced'], 3):>7} {show(r['ratio']['wall'], 3) + ('' if r['wall_judged'] else '?'):>6} "
              f"{show(r['ratio']['all'], 3):>7} | {r['ratio']['size']:6.2f} {8 * r['size']['ours'] / max(1, r['events']):7.2f} | {verdict}", flush=True)
    # where heaptrack adds under 30 %, the ratio of two small numbers says little: there our factor is judged (<= 1.05)
    small = [r for r in results if r["peer_factor_traced"] < 1.3]
    large = [r for r in results if r not in small and r["judged"]]
    summary = {"programs": results}
    logs = [math.log(max(r["ratio"]["traced"], 1e-3)) for r in large if r["ratio"]["traced"] is not None]
    if logs:
        summary["traced_geomean"] = math.exp(sum(logs) / len(logs))
        summary["traced_worst"] = max(r["ratio"]["traced"] for r in large)
        print(f"traced CPU: geometric mean {summary['traced_geomean']:.3f} (bar 0.25, aim 0.125), worst {summary['traced_worst']:.3f} (bar 0.4)")
    for r in small:
        print(f"{r['program']}: heaptrack adds under 30 %; ours x{r['factor_traced']:.3f} (bar 1.05)" + ("" if r["judged"] else ", not judged"))
    return summary


LIGHT_ROUNDS_MIN = 41
LIGHT_BAR = 1.05


def light(opt, lock, progress):
    """Where heaptrack in-process adds under 30 %: the traced process's CPU over bare, in many pairs of runs."""
    folder = inputs.make(os.path.join(tools.OUT, "input"))
    count, results = max(opt.rounds, LIGHT_ROUNDS_MIN), []
    print(f"CPU of the traced process over bare, {count} pairs of runs, the order changing; interval: the middle 95 % of resampled medians")
    print(f"{'program':9} {'bare s':>7} {'+-%':>4} {'ratio':>6} {'95 %':>13} {'of min':>6} {'peer':>5} | verdict")
    for name in opt.only or ("xz", "git"):
        t, ours = light_target(name, folder), tools.Ours()
        variants = {"bare": tools.bare, "ours": ours}
        rows, peer, void = {v: [] for v in variants}, [], []
        for r in range(count + 1):
            progress.show(f"{name}: round {r}/{count}")
            with lock:
                for v in variants if r % 2 else reversed(variants):
                    run = variants[v](t)
                    if run.status != 0 or run.traced is None:
                        void.append(f"{v}: status {run.status}, CPU {run.traced}")
                    elif r:
                        rows[v].append(run.traced)
                if r and r % 10 == 0:
                    peer.append(tools.heaptrack_in_process(t).traced)
            if void:
                break
        progress.clear()
        if void or ours.report()["lost"]["events"]:
            print(f"{name:9} void: {void or 'events lost'}")
            results.append({"program": name, "void": void or ["events lost"]})
            continue
        ratios = [o / b for o, b in zip(rows["ours"], rows["bare"])]
        low, high = measure.interval(ratios)
        ratio, bare = measure.median(ratios), measure.median(rows["bare"])
        least, peer_factor = min(rows["ours"]) / min(rows["bare"]), measure.median(peer) / bare
        verdict = "heaptrack adds 30 % or more: not judged" if peer_factor >= 1.3 else "met" if high <= LIGHT_BAR else \
            "NOT met" if low > LIGHT_BAR else "not told apart from the bar"
        print(f"{name:9} {bare:7.3f} {100 * measure.spread(rows['bare']):4.0f} {ratio:6.3f} {low:6.3f}-{high:5.3f} {least:6.3f} "
              f"{peer_factor:5.2f} | {verdict}", flush=True)
        results.append({"program": name, "runs": rows, "peer": peer, "ratio": ratio, "interval": [low, high], "ratio_of_minima": least,
                        "peer_factor": peer_factor, "verdict": verdict})
    return {"light": results}
