# SPDX-License-Identifier: Apache-2.0
"""`serve`: what stands on the time axis besides the heap."""
import json
import os
import subprocess
import time

import netapi
import pytest
import test_net_api
from conftest import ROOT
from test_regions_serve import Watch, fetch
from test_serve import Server

GOLDEN = os.path.join(ROOT, "tests", "golden", "data", "sheet.blt")
PARTS = ("anon", "file", "shmem", "swap")
KINDS = r"""
import mmap, sys, time
own = mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
own[:] = b"x" * len(own)
time.sleep(0.4)
shared = mmap.mmap(-1, 24 << 20, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS)
shared[:] = b"x" * len(shared)
time.sleep(0.4)
with open(sys.argv[1], "rb") as file:
    mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
sum(mapped[::4096])
time.sleep(0.4)
own.close()
time.sleep(0.4)
"""


@pytest.fixture(scope="module")
def kinds(byteledger, installed, tmp_path_factory):
    """A program that takes 32 MiB of its own, then 24 shared, then 16 of a file, and gives its own back."""
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "data").write_bytes(os.urandom(1 << 20) * 16)
    subprocess.run([byteledger, "run", "-q", "-o", folder / "x.blt", "--", installed("python3"), "-c", KINDS, folder / "data"],
                   check=True, timeout=60)
    return folder / "x.blt"


def most(series):
    return max(filter(None, series["max"]), default=0)


def test_what_rss_consists_of_is_on_the_time_axis(byteledger, kinds):
    mib = 1 << 20
    with Server(byteledger, kinds) as server:
        line = server.get("timeline", series="rss,anon,file,shmem,swap")["series"]
        assert set(line) == {"rss", *PARTS}
        for at, rss in enumerate(line["rss"]["last"]):
            told = [line[name]["last"][at] for name in PARTS[:3]]
            assert told == [None] * 3 if rss is None else sum(told) == rss, at
        begun = {name: next(filter(None, line[name]["last"]), 0) for name in PARTS}
        steps = {name: most(line[name]) - begun[name] for name in PARTS}
        assert steps["anon"] > 31 * mib and steps["shmem"] > 23 * mib and steps["file"] > 15 * mib and steps["swap"] < mib
        assert line["anon"]["last"][-1] < most(line["anon"]) - 31 * mib  # given back
        # in this order, and each but the last until the end
        first = {name: next(i for i, high in enumerate(line[name]["max"]) if (high or 0) > begun[name] + (10 << 20)) for name in PARTS[:3]}
        assert first["anon"] < first["shmem"] < first["file"]
        all_there_are = server.get("timeline")["series"]
        assert set(PARTS) < set(all_there_are)
        assert server.get("timeline", points=3, series="anon")["series"]["anon"]["max"] == \
            [max(filter(None, part)) for part in thirds(line["anon"]["max"])]


def thirds(values):
    """As the server puts points together."""
    parts = [[], [], []]
    for i, value in enumerate(values):
        parts[i * 3 // len(values)].append(value)
    return parts


def test_recordings_of_before_say_so(byteledger):
    with Server(byteledger, GOLDEN) as server:
        line = server.get("timeline", series="rss,anon,swap")
        assert set(line["series"]) == {"rss"} and any(line["series"]["rss"]["last"])
        assert line["unapplied"] == [{"word": "series=anon,file,shmem,swap", "why": "this recording does not say what RSS consists of"}]
        assert not set(PARTS) & set(server.get("timeline")["series"])


MARKS = r"""
import ctypes, os, time
mark = ctypes.CDLL(None).byteledger_heap_set_marker
keep = []
for number in (7, 8, 7, 9):
    assert mark(number) == 0
    time.sleep(0.01)  # times are exact to a millisecond
    for i in range(ROUNDS):
        keep.append(bytearray(4000))
        bytearray(3000)
    time.sleep(0.05)
time.sleep(0.4)
os._exit(0)  # what is freed for an exit is not what this is about
"""


@pytest.fixture(scope="module", params=[100, 20000], ids=["replayed", "summed"])
def marked(byteledger, installed, tmp_path_factory, request):
    """Marks 7, 8, 7 again, 9, each before some 4,000-byte blocks that stay: without a summary and with one."""
    path = tmp_path_factory.mktemp("marked") / "x.blt"
    subprocess.run([byteledger, "heap", "-q", "-o", path, "--", installed("python3"), "-c", MARKS.replace("ROUNDS", str(request.param))],
                   check=True, timeout=120, env={**os.environ, "PYTHONMALLOC": "malloc"})
    path.with_suffix(".rounds").write_text(str(request.param), encoding="ascii")
    return path


def command(byteledger, *argv):
    return subprocess.run([byteledger, *argv], capture_output=True, text=True, timeout=60)


def live_at(byteledger, path, at):
    done = command(byteledger, "report", "--format", "json", "--cost", "live", "--at", at, str(path))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["totals"]


def test_marks_are_flags_and_name_moments(byteledger, marked):
    with Server(byteledger, marked) as server:
        marks = [flag for flag in server.get("timeline")["flags"] if flag["kind"] == "mark"]
        assert [(flag["value"], flag["label"]) for flag in marks] == [(n, f"mark {n}") for n in (7, 8, 7, 9)]
        times = [flag["time_ns"] for flag in marks]
        assert times == sorted(times) and times[-1] > times[0] + 100_000_000
        # the first of its name, wherever a moment is named
        for number, ns in ((7, times[0]), (8, times[1]), (9, times[3])):
            assert live_at(byteledger, marked, f"mark:{number}") == live_at(byteledger, marked, f"{ns}ns")
            assert server.get("tree", cost="live", at=f"mark:{number}")["total"] == server.get("tree", cost="live", at=f"{ns}ns")["total"]
        made = server.get("tree", cost="allocated", _from="mark:8", to="mark:9")["total"]
        assert made == server.get("tree", cost="allocated", _from=f"{times[1]}ns", to=f"{times[3]}ns")["total"] > 0
        grown = server.get("tree", cost="live", at="mark:9", base="@mark:7")
        assert grown["total"] - grown["base_total"] > 2 * 100 * 4000
        assert server.get("tree", cost="live", at="mark:7")["total"] == grown["base_total"]
    known = [command(byteledger, "diff", "--format", "json", f"{marked}@{a}", f"{marked}@{b}").stdout
             for a, b in (("mark:7", "mark:9"), (f"{times[0]}ns", f"{times[3]}ns"))]
    assert json.loads(known[0])["rows"] == json.loads(known[1])["rows"] != []


def test_a_mark_that_is_not_there_names_those_that_are(byteledger, marked):
    missing = command(byteledger, "report", "--at", "mark:10", str(marked))
    assert missing.returncode == 1 and missing.stderr == "byteledger: the recording has no mark 10\nhint: it has 7, 8, 9\n"
    nonsense = command(byteledger, "report", "--at", "mark:sync", str(marked))
    assert nonsense.returncode == 2 and "bad time 'mark:sync'" in nonsense.stderr
    with Server(byteledger, marked) as server:
        status, _, body = server.ask("/api/v1/tree?at=mark:10")
        assert status == 400 and "no mark 10" in json.loads(body)["error"]
    plain = command(byteledger, "report", "--at", "mark:7", GOLDEN)
    assert plain.returncode == 1 and "marks" in plain.stderr


def test_alerts_of_a_watched_process_are_flags_of_its_recording(byteledger, prog, tmp_path):
    path = tmp_path / "x.blt"
    run = subprocess.Popen([byteledger, "heap", "-q", "-o", path, "--", prog("leaker"), "leak", "256", "20"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                           stderr=subprocess.DEVNULL)
    pid = None
    try:
        until = time.monotonic() + 20
        while not pid and time.monotonic() < until:
            with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as children:
                pid = next((int(p) for p in children.read().split() if "leaker" in os.readlink(f"/proc/{p}/exe")), None)
            time.sleep(0.2 if pid else 0.02)
        with Watch(byteledger, pid, "--serve", "127.0.0.1:0", "--watch", "0.2", "--alert", "rss>1M") as watch:
            watch.wait_line("alert: rss>1M")
            flags, until = [], time.monotonic() + 20  # what the recorder has not written yet is not there
            while not flags and time.monotonic() < until:
                line = json.loads(fetch(watch.url() + "/api/v1/timeline?src=0")[2])
                flags = [flag for flag in line["flags"] if flag["kind"] == "alert"]
                time.sleep(0.2)
            alert, = json.loads(fetch(watch.url() + "/api/v1/alerts")[2])
            start = json.loads(fetch(watch.url() + "/api/v1/sources")[2])[0]["start_realtime_ns"]
            assert flags == [{"time_ns": alert["time_realtime_ns"] - start, "kind": "alert", "value": 0, "label": alert["text"]}]
            assert 0 < flags[0]["time_ns"] <= line["length_ns"]
    finally:
        if pid:
            os.kill(pid, 9)
        run.wait(timeout=30)
        run.stdin.close()
        run.stdout.close()


def test_messages_and_log_lines_of_a_node_are_on_the_time_axis(byteledger, kinds, tmp_path):
    """By their clocks: each message in its stretch, and only those of the recording's time."""
    with Server(byteledger, kinds) as server:
        length, begun = server.get("timeline")["length_ns"], server.get("sources")[0]["start_realtime_ns"]
        assert server.get("timeline", series="messages")["unapplied"] == [
            {"word": "series=messages", "why": "no store of a node is served beside this recording"}]
    lines = test_net_api.stream("all-kinds")
    times = [begun - 10**9 + (length + 2 * 10**9) * i // len(lines) for i in range(len(lines))]  # from a second before to a second behind
    with open(tmp_path / "x.jsonl", "w", encoding="ascii") as file:
        for line, time_ns in zip(lines, times):
            file.write(json.dumps({**line, "conn": 1, "time_ns": time_ns}) + "\n")
    test_net_api.fill(byteledger, tmp_path / "db", tmp_path / "x.jsonl", "--role", "responder", "--identity", netapi.identity("recorder-r"))
    with Server(byteledger, kinds, tmp_path / "db") as server:
        assert "messages" not in server.get("timeline")["series"]  # only where it is named: counted anew each time
        line = server.get("timeline", series="heap,messages,logs")
        stored = [m["timestamp"] for m in json.loads(server.ask("/v3/messages?limit=1000")[2])]
        edges, counts = [0, *line["time_ns"]], line["series"]["messages"]["last"]
        assert len(stored) > 20 and 0 < sum(counts) < len(stored)
        for i, count in enumerate(counts):
            assert count == sum(edges[i] < at - begun <= edges[i + 1] for at in stored), i
        assert sum(line["series"]["logs"]["last"]) == 0 and len(line["series"]["logs"]["last"]) == len(counts)
        few = server.get("timeline", series="messages", points=2)["series"]["messages"]["last"]
        assert sum(few) == sum(counts)


def test_growth_between_marks(byteledger, marked):
    rounds = int(marked.with_suffix(".rounds").read_text(encoding="ascii"))
    with Server(byteledger, marked) as server:
        marks = [flag["time_ns"] for flag in server.get("timeline")["flags"] if flag["kind"] == "mark"]
        told = server.get("growth", marks="9,7,8", limit=10000)
        assert told["time_ns"][:3] == [marks[0], marks[1], marks[3]] and len(told["time_ns"]) == 4  # in their order in time
        rows = told["rows"]
        assert {len(points) for points in rows["points"]} == {4} and {len(made) for made in rows["generations"]} == {3}
        kept = max(zip(rows["live_bytes"], rows["generations"]))[1]
        for made, times in zip(kept, (1, 2, 1)):  # 8 to 9 has the second 7 within
            assert times * rounds * 4000 <= made < times * rounds * 4000 * 1.02 + 100_000, (kept, rounds)
        # what came and went in between is in none of them
        assert sum(map(sum, rows["generations"])) < 4 * rounds * 4000 * 1.2 + 500_000
        assert "generations" not in server.get("growth")["rows"]
        for words, sentence in (("marks=10", "no mark 10"), ("marks=x", "list of numbers"), ("marks=", "names no mark"),
                                ("marks=" + ",".join("7" * 1 for _ in range(16)), "at most 15")):
            status, _, body = server.ask("/api/v1/growth?" + words)
            assert status == 400 and sentence in json.loads(body)["error"], (words, body)
            assert words != "marks=10" or json.loads(body)["hint"] == "it has 7, 8, 9"
