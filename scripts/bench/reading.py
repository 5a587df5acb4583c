# SPDX-License-Identifier: Apache-2.0
"""Reading a recording: `report` beside heaptrack_print on its digested file of the same program; CPU, wall, memory."""
import os
import shutil

import inputs
import judge
import measure
import programs
import tools

BAR = 1


def main(opt, lock, progress):
    if not shutil.which("heaptrack_print"):
        raise tools.Missing("heaptrack_print is not installed")
    folder = inputs.make(os.path.join(tools.OUT, "input"))
    results = []
    print(f"{'program':9} {'events':>9} | {'report s':>8} {'print s':>8} {'ratio of CPU':>20} | {'wall':>6} | {'MiB':>5} {'peer MiB':>8} | {'M ev/s':>6} | verdict")
    for name in opt.only or ("sqlite3", "gawk", "perl", "clang"):
        try:
            t = programs.target(name, folder)
        except tools.Missing as why:
            print(f"{name:9} not run: {why}")
            continue
        ours, peer = tools.Ours(), tools.Heaptrack()
        ours(t)
        peer(t)
        totals = ours.report()["totals"]
        events = totals["allocations"] + totals["frees"]
        argv = {"ours": [tools.BYTELEDGER, "report", ours.file], "peer": ["heaptrack_print", "-f", peer.file]}
        rows = {v: {"cpu": [], "wall": [], "rss": []} for v in argv}
        void = []
        for r in range(opt.rounds + 1):
            with lock:
                for v in judge.alternate(argv, r):
                    progress.show(f"reading {name}: round {r}/{opt.rounds}, {v}")
                    run = measure.run(argv[v])
                    if run.status:
                        void.append(f"{v} ended with status {run.status}")
                    if r:
                        rows[v]["cpu"].append(run.cpu_all)
                        rows[v]["wall"].append(run.wall)
                        rows[v]["rss"].append(measure.peak_rss_bytes(run))
        progress.clear()
        med = {v: {k: measure.median(x) for k, x in rows[v].items()} for v in rows}
        r = {"program": name, "events": events, "runs": rows, "median": med, "void": void,
             "ratio": {"cpu": med["ours"]["cpu"] / med["peer"]["cpu"], "wall": med["ours"]["wall"] / med["peer"]["wall"]},
             "judged": not void and measure.spread(rows["peer"]["cpu"]) <= 0.2}
        found = judge.estimate(judge.rows({v: rows[v]["cpu"] for v in rows}), judge.over("ours", "peer"), BAR)
        r["estimate"] = found.json()
        results.append(r)
        print(f"{name:9} {events:9d} | {med['ours']['cpu']:8.2f} {med['peer']['cpu']:8.2f} {found.text(2):>20} | {r['ratio']['wall']:6.2f} | "
              f"{med['ours']['rss'] / 2**20:5.0f} {med['peer']['rss'] / 2**20:8.0f} | {events / med['ours']['cpu'] / 1e6:6.1f} | "
              f"{'; '.join(sorted(set(void))) or f'{found.verdict} (bar {BAR}, aim 0.5)' + judge.remark(measure.spread(rows['peer']['cpu']))}", flush=True)
    return {"reading": results}
