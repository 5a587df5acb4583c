# SPDX-License-Identifier: Apache-2.0
"""What recording costs two pseudo-nodes that exchange messages at a steady rate: their own CPU per message, bare, with one of
them recorded, and with both, decoded into a store on disk. Not fewer than 12 rounds: single ratios vary by a fifth.
"""
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile

import judge
import tools

RATE = 10_000  # messages a second, each way
SECONDS = 1.5
BAR = 1.05
ROUNDS_MIN = 12
IDENTITIES = os.path.join(tools.ROOT, "tests", "vectors", "tezos", "identities")


def free_port():
    while True:
        port = random.randint(20001, 32000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


def program(name):
    path = os.path.join(tools.BUILD, "tests", "prog", name)
    if not os.path.exists(path):
        raise tools.Missing(f"tests/prog/{name} is not built")
    return path


def node(*args):
    return subprocess.Popen([program("p2pnode"), "--count", str(int(RATE * SECONDS)), "--rate", str(RATE), *args], text=True,
                            stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def said(process):
    return [json.loads(line) for line in process.communicate(timeout=120)[0].splitlines() if line.startswith("{")][-1]


def run(variant, backend):
    """One conversation: ns of CPU per message of both nodes, their elapsed time, and the recorder's counters."""
    ports = [free_port(), free_port()]
    folder, recorder, counters = tempfile.mkdtemp(prefix="byteledger-net-", dir=tools.OUT), None, None
    try:
        if variant != "bare":
            watched = ports[:1] if variant == "one" else ports
            recorder = subprocess.Popen([program("netrec"), "-b", backend, "-i", os.path.join(IDENTITIES, "recorder-r.json"), "-s", folder + "/db",
                                         *(a for p in watched for a in ("-p", str(p)))], text=True, stdout=subprocess.PIPE)
            if recorder.stdout.readline() != "ready\n":
                raise tools.Missing("the recorder is not permitted here")
        r = node("--listen", str(ports[0]), "--identity", os.path.join(IDENTITIES, "recorder-r.json"))
        r.stdout.readline()
        i = node("--listen", str(ports[1]), "--connect", f"127.0.0.1:{ports[0]}", "--identity", os.path.join(IDENTITIES, "recorder-i.json"))
        i.stdout.readline()
        i.stdin.write("go\n")
        i.stdin.flush()
        ends = said(i), said(r)
        if recorder:
            recorder.send_signal(signal.SIGTERM)
            counters = json.loads(recorder.communicate(timeout=120)[0].splitlines()[-1])
    finally:
        if recorder and recorder.poll() is None:
            recorder.kill()
            recorder.wait()
        shutil.rmtree(folder, ignore_errors=True)
    messages = sum(e["sent"] for e in ends)
    return sum(e["cpu_ns"] for e in ends) / messages, max(e["elapsed_ns"] for e in ends) / 1e9, counters


def main(opt, lock, progress):
    rounds, backend = max(opt.rounds, ROUNDS_MIN), "bpf"
    variants = [v for v in ("bare", "one", "both") if v == "bare" or not opt.only or v in opt.only]
    rows, void, elapsed = {v: [] for v in variants}, [], {v: [] for v in variants}
    for r in range(rounds + 1):
        for v in judge.alternate(variants, r):
            progress.show(f"net: round {r}/{rounds}, {v}")
            with lock:
                cost, seconds, counters = run(v, backend)
            if r == 0:
                continue
            rows[v].append(cost)
            elapsed[v].append(seconds)
            if counters and any(counters["lost_bytes"]):
                void.append(f"{v}: {counters['lost_bytes']} bytes lost")
    progress.clear()
    print(f"nodes' CPU per message, {RATE} messages/s each way, {rounds} rounds of {SECONDS} s; ratios of the same round")
    print(f"{'recorded':9} {'min us':>7} {'median us':>9} {'ratio':>6} {'95 %':>13} {'single':>13} {'of min':>6} | verdict")
    results = []
    for v in variants:
        ratios = [a / b for a, b in zip(rows[v], rows["bare"])]
        found = judge.estimate(judge.rows(rows), judge.over(v, "bare"), BAR)
        ratio, low, high = found.figure, found.low, found.high
        least = min(rows[v]) / min(rows["bare"])
        verdict = "" if v == "bare" else "void, " + void[0] if void else found.verdict
        print(f"{v:9} {min(rows[v]) / 1e3:7.2f} {statistics.median(rows[v]) / 1e3:9.2f} {ratio:6.3f} {low:6.3f}-{high:5.3f} "
              f"{min(ratios):6.2f}-{max(ratios):5.2f} {least:6.3f} | {verdict}")
        results.append({"recorded": v, "ns": rows[v], "elapsed_s": elapsed[v], "ratio": ratio, "interval": [low, high], "ratio_of_minima": least,
                        "verdict": verdict})
    return {"rate": RATE, "seconds": SECONDS, "rounds": rounds, "backend": backend, "bar": BAR, "results": results, "void": void}
