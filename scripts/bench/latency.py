# SPDX-License-Identifier: Apache-2.0
"""What snapshots cost who is looked at: answers of a redis of about 1 GiB, at a fixed rate of GETs, to requests begun within snapshots and
to all others of the same run, beside where the same windows would have lain by chance; the longest that the server's mmap() may have
waited, and CPU time. Runs without snapshots alternate with them."""
import json
import os
import shutil
import socket
import statistics
import subprocess
import tempfile
import time

import judge
import tools

KEYS = 2600000
SECONDS, RATE, CLIENTS, SHOTS, PAUSE_MS = 8, 10000, 20, 10, 250


def prog(name):
    return os.path.join(tools.BUILD, "tests", "prog", name)


def start(folder):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    server = subprocess.Popen(["redis-server", "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", folder,
                               "--enable-debug-command", "local"], stdout=subprocess.DEVNULL)
    while subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).stdout != b"PONG\n":
        if server.poll() is not None:
            raise RuntimeError("redis-server did not start")
        time.sleep(0.05)
    subprocess.run(["redis-cli", "-p", port, "debug", "populate", str(KEYS), "key", "256"], check=True, capture_output=True)
    return server, port


def once(server, port, shots):
    """One run under load: what bench_latency says, what bench_shot says (None without snapshots)."""
    client = subprocess.Popen([prog("bench_latency"), port, str(CLIENTS), str(RATE), str(SECONDS), str(KEYS)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    windows, said = "", None
    if shots:
        time.sleep(0.3)
        taken = subprocess.run([prog("bench_shot"), str(server.pid), str(SHOTS), str(PAUSE_MS)], capture_output=True, text=True, check=True)
        windows, said = taken.stdout, json.loads(taken.stderr)
    out, _ = client.communicate(windows)
    return json.loads(out), said


def main(opt, lock, progress):
    if not shutil.which("redis-server"):
        raise tools.Missing("redis-server not installed (./dev deps --bench)")
    rows, bare = [], []
    with tempfile.TemporaryDirectory() as folder:
        server, port = start(folder)
        try:
            for r in range(opt.rounds + 1):
                with lock:
                    for shots in judge.alternate({True: 0, False: 0}, r):
                        progress.show(f"latency: round {r}/{opt.rounds}, {'with' if shots else 'without'} snapshots")
                        answers, said = once(server, port, shots)
                        if r and shots:
                            rows.append({**{f"{k}_{p}": answers[k][p] for k in ("inside", "outside") for p in ("p50", "p99", "max")},
                                         "elsewhere": answers["elsewhere"]["p99"], **said})
                        elif r:
                            bare.append(answers["outside"]["p99"])
        finally:
            server.terminate()
            server.wait()
    middle = {k: statistics.median(row[k] for row in rows) for k in rows[0] if k != "elsewhere"}
    low, high = (statistics.median(row["elsewhere"][i] for row in rows) for i in (0, 2))
    inside, outside = middle["inside_p99"], middle["outside_p99"]
    kept = sum(row["inside_p99"] <= row["elsewhere"][2] for row in rows)
    print(f"GETs at {RATE} a second, medians of {len(rows)} runs of {SHOTS} snapshots, us:")
    print(f"  p50 within snapshots {middle['inside_p50']:.0f}, else {middle['outside_p50']:.0f}")
    print(f"  p99 within snapshots {inside:.0f}, else {outside:.0f}; the same windows put elsewhere {low:.0f} to {high:.0f}; "
          f"runs without {statistics.median(bare):.0f}; {kept} of {len(rows)} runs within their own windows put elsewhere")
    print(f"  a snapshot takes {middle['cpu_ms']:.0f} ms of CPU, {middle['wall_ms']:.0f} ms; the server's mmap() waits at most "
          f"{max(row['worst_stall_ms'] for row in rows):.1f} ms, {middle['stall_ms']:.2f} in the middle")
    return {"results": {"rows": rows, "bare_p99": bare, "medians": middle, "kept": kept}}
