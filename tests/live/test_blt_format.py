# SPDX-License-Identifier: Apache-2.0
"""docs/format.md tells all that a reader needs: blt.py, made from that page alone, reads what byteledger reads."""
import json
import os
import subprocess
import time
from collections import Counter, defaultdict

import pytest

import blt
from conftest import finished
from test_truth import PERL, SQL, inputs

SUMS = ("allocations", "allocated_bytes", "frees", "temporary_allocations", "leaked_allocations", "leaked_bytes")
CULLING = {"BYTELEDGER_CULL_TEMPORARY_ALLOCATIONS": "1"}


def change(event):
    """What an event adds to the sums of its stack."""
    size, flags = event["bytes"], event["flags"]
    if event["kind"] == blt.ALLOC:
        return 1, size, 0, 0, 1, size
    if event["kind"] == blt.FREE:
        return 0, 0, not flags & blt.IMPLIED, bool(flags & blt.TEMPORARY), -1, -size
    return (event["addr"], size, event["addr"], event["block"], 0, 0) if event["kind"] == blt.CULLED else ()


def costs(recording):
    """{places: sums}, bytes at the peak and its time, from the events."""
    stacks, live, most, when, at_peak = defaultdict(Counter), Counter(), 0, 0, 0
    for i, event in enumerate(recording.events):
        stacks[event["stack"]].update(dict(zip(SUMS, change(event))))
        live[0] += (change(event) or (0,))[-1]
        if live[0] > most:
            most, when, at_peak = live[0], event["time"], i + 1
    rows = defaultdict(Counter)
    for event in recording.events[:at_peak]:
        stacks[event["stack"]]["peak_bytes"] += (change(event) or (0,))[-1]
    for stack, cost in stacks.items():
        if cost["allocations"]:
            rows[recording.places(stack)[0]].update(cost)
    return rows, most, when


def places(frames):
    """Of a row of the report: what was inlined at a place is at the same place."""
    return tuple((frame["module"], frame["offset"]) for inner, frame in zip([None, *frames], frames)
                 if not (inner and inner["inlined"]))


def assert_reported(recording, report):
    events, totals, process = recording.events, report["totals"], recording.process
    rows, most, when = costs(recording)
    last = max(event["time"] for event in events)
    mine = {name: sum(row[name] for row in rows.values()) for name in SUMS} | {
        "foreign_frees": sum(event["kind"] == blt.FREE_FOREIGN for event in events), "stacks": len(rows),
        "threads": len({event["thread"] for event in events if event["kind"] <= blt.BRK or event["kind"] == blt.CULLED})}
    names = {*SUMS}
    if not report["culled"]["allocations"]:  # else nobody finds the peak in the events
        mine |= {"peak_bytes": most, "peak_time_ns": when}
        names |= {"peak_bytes"}
    assert mine == {name: totals[name] for name in mine}
    assert {places(row["frames"]) for row in report["rows"]} == rows.keys()
    for row in report["rows"]:
        own = rows[places(row["frames"])]
        assert {name: row[name] for name in row.keys() & names} == {name: own[name] for name in row.keys() & names}
    assert report["partial_stacks"]["events"] == sum(
        bool(recording.places(event["stack"])[1]) for event in events if event["kind"] == blt.ALLOC)
    said = report["process"]
    assert [said["pid"], said["exe"], said["complete"]] == [process["pid"], process["exe"].decode(), bool(process["flags"] & 2)]
    assert said["cmdline"] == process["cmdline"].decode().split("\0")[:-1]
    assert said["runtime_ns"] == max(process["runtime_ns"], last)
    assert said["start_realtime_ns"] == process["realtime_ns"]
    if recording.summary:
        assert_summary(recording, rows, report)


def assert_summary(recording, rows, report):
    """The summary counts what its events say."""
    totals, stacks = recording.summary["totals"], defaultdict(Counter)
    assert {name: totals[name] for name in report["totals"] if name in totals} == \
        {name: report["totals"][name] for name in report["totals"] if name in totals}
    for stack, cost in recording.summary["stacks"].items():
        stacks[recording.places(stack)[0]].update(cost)
    assert {at: [cost[name] for name in SUMS] for at, cost in stacks.items()} == \
        {at: [cost[name] for name in SUMS] for at, cost in rows.items()}
    assert sum(cost["peak_bytes"] for cost in stacks.values()) == totals["peak_bytes"]
    by_thread, counted = Counter(), (*range(blt.ALLOC, blt.BRK + 1), blt.CULLED)
    for event in recording.events:
        if event["kind"] in counted:
            by_thread[event["thread"]] += 2 * event["addr"] if event["kind"] == blt.CULLED else 1
    assert {thread: cost["events"] for thread, cost in recording.summary["threads"].items()} == by_thread
    last = recording.summary["timeline"][-1]
    assert last[3] == totals["leaked_bytes"] and last[6:] == [totals["allocations"], totals["frees"]]
    marks = [(event["time"], event["value"]) for event in recording.events if event["kind"] == blt.MARK]
    assert recording.summary["marks"] == (len(marks), marks)
    sizes = [event for event in recording.events if event["kind"] in (blt.RSS, blt.RESIDENT)]
    if sizes:  # each of all figures, the last one of the end: what there is of which kind adds up
        file, shared, swapped = [sizes[-1][name] for name in ("addr", "bytes", "value")]
        assert [event["kind"] for event in sizes] == [blt.RSS, blt.RESIDENT] * (len(sizes) // 2)
        assert len(recording.summary["parts"]) == len(recording.summary["timeline"])
        assert recording.summary["parts"][-1][::2] == [last[1] - file - shared, file, shared, swapped]
    if not totals["culled_allocations"]:
        before = [event for event in recording.events if event["kind"] in (blt.ALLOC, blt.FREE)][:totals["peak_event"]]
        assert sum(change(event)[-1] for event in before) == totals["peak_bytes"]


def assert_events(recording, byteledger, path):
    """Every event, one by one; the stacks are those of the export, under numbers of their own."""
    done = subprocess.run([byteledger, "export", "--to", "jsonl", path], capture_output=True, check=True, timeout=120)
    kinds = {"alloc": blt.ALLOC, "free": blt.FREE, "foreign_free": blt.FREE_FOREIGN, "map": blt.MAP, "unmap": blt.UNMAP,
             "brk": blt.BRK, "rss": blt.RSS, "mark": blt.MARK, "lost": blt.LOST, "switch": blt.SWITCH,
             "thread_end": blt.THREAD_END, "forked": blt.FORKED, "culled": blt.CULLED, "filtered": blt.FILTERED,
             "resident": blt.RESIDENT}
    told, number, mine = (json.loads(line) for line in done.stdout.splitlines()), {0: 0}, iter(recording.events)
    for want in told:
        # what nobody finished may lack an end: that is said by the reader, in no event of the file
        if want["event"] not in kinds or (want.get("reason") == "recorder_died" and not recording.process["flags"] & 1):
            continue
        event = next(mine)
        assert kinds[want["event"]] == event["kind"]
        assert [want["time_ns"], want["tid"]] == [event["time"], recording.threads[event["thread"]][0]]
        for name, value in (("address", hex(event["addr"]) if event["addr"] else None), ("bytes", event["bytes"]), ("value", event.get("value")),
                            ("temporary", bool(event["flags"] & blt.TEMPORARY)), ("virtual_bytes", event["addr"]),
                            ("file_bytes", event["addr"]), ("shmem_bytes", event["bytes"]), ("swap_bytes", event.get("value")),
                            ("rss_bytes", event["bytes"]), ("peak_rss_bytes", event.get("value"))):
            if event["kind"] != blt.CULLED and name in want:
                assert want[name] == value, (name, want, event)
        for key in ("stack", "aux"):
            row = want.get("free_stack" if key == "aux" else key, 0)
            assert number.setdefault(event[key], row) == row
        if event["kind"] in (blt.ALLOC, blt.FREE) and "block" in event:
            assert event["block"] == want["block"]
    assert next(mine, None) is None


@pytest.fixture
def read(byteledger, record, tmp_path):
    """read([program, args...], ...) -> a second reader's Recording, which agrees with all that byteledger reads."""
    def run(argv, **options):
        inputs(tmp_path, 3000)
        (tmp_path / "in.sql").write_text(SQL.format(n=12000))
        done = record(argv, cwd=tmp_path, **options)
        assert done.returncode == 0, done.stderr
        recording = blt.Recording(done.path)
        assert_events(recording, byteledger, done.path)
        assert_reported(recording, done.report())
        assert recording.index
        return recording
    return run


def test_a_program_with_one_thread(read):
    assert len(read(["sqlite3", ":memory:", ".read in.sql"]).events) > 1000  # newer ones ask far less often


def test_two_threads_and_a_summary(read, prog):
    recording = read([prog("threads"), "20000", "parallel"])
    assert recording.summary and len(recording.summary["threads"]) == 5


def test_stacks_of_frees_and_a_time_for_each_event(read):
    recording = read(["perl", "-e", PERL, "in.txt"], options=["--free-stacks", "--time-resolution", "1ns"])
    assert any(event["aux"] for event in recording.events if event["kind"] == blt.FREE)


def test_sums_of_short_lived_blocks(read):
    recording = read(["perl", "-e", PERL, "in.txt"], env=CULLING)
    assert recording.header["flags"] & 1 and recording.summary["totals"]["culled_allocations"]


def test_a_child_of_a_fork(byteledger, tmp_path):
    subprocess.run([byteledger, "heap", "-q", "--follow-children", "-o", "%p.blt", "--", "bash", "-c", "x=$(read a <<<1); exit 0"],
                   cwd=tmp_path, check=True, timeout=60)
    paths, deadline = [], time.monotonic() + 60
    while len(paths) < 2 or not all(finished(byteledger, path) for path in paths):
        assert time.monotonic() < deadline, paths  # a child's recorder may outlive the program
        time.sleep(0.02)
        paths = list(tmp_path.glob("*.blt"))
    forked = 0
    for path in paths:
        recording = blt.Recording(path)
        assert_events(recording, byteledger, path)
        done = subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, check=True, timeout=60)
        assert_reported(recording, json.loads(done.stdout))
        forked += any(event["kind"] == blt.FORKED for event in recording.events)
    assert forked


def test_key_blocks_that_find_live_blocks(byteledger, prog, tmp_path):
    path = tmp_path / "x.blt"
    subprocess.run([prog("bigtrace"), path, "200000", "2000"], check=True, timeout=60)
    recording = blt.Recording(path)
    assert sum(head["type"] == blt.EVENTS and head["flags"] for head in recording.blocks) > 1
    assert recording.symbols
    assert_events(recording, byteledger, path)


def test_an_embedded_file(byteledger, tmp_path):
    (tmp_path / "notes.txt").write_bytes(bytes(range(256)) * 9)
    subprocess.run([byteledger, "heap", "-q", "-o", "x.blt", "--", "true"], cwd=tmp_path, check=True, timeout=60,
                   env={**os.environ, "BYTELEDGER_INCLUDE_FILE": str(tmp_path / "notes.txt")})
    files = blt.Recording(tmp_path / "x.blt").files
    (path, (length, changed_ns, state, content)), = files.items()
    assert path.decode() == str(tmp_path / "notes.txt") and [length, state] == [2304, 0]
    assert content == (tmp_path / "notes.txt").read_bytes()
    assert changed_ns == os.stat(tmp_path / "notes.txt").st_mtime_ns


def test_what_is_undecided_when_the_recorder_dies(byteledger, tmp_path):
    path, beside = tmp_path / "x.blt", tmp_path / "x.blt.pending"
    script = 'for (1..3000) { push @a, [$_, "x" x ($_ % 50)]; shift @a if @a > 700 } $| = 1; print "made\\n"; <STDIN>'
    recorder = subprocess.Popen([byteledger, "heap", "-q", "-o", path, "--", "perl", "-e", script], stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, env={**os.environ, **CULLING})
    assert recorder.stdout.readline() == b"made\n"
    deadline = time.monotonic() + 60
    while not (beside.exists() and beside.stat().st_size > 4000):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    recorder.kill()
    recorder.wait()
    recording = blt.Recording(path)
    recorder.stdin.close()
    done = subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, check=True, timeout=60)
    assert_reported(recording, json.loads(done.stdout))
    assert_events(recording, byteledger, path)
    assert len(recording.events) > 1000 and not recording.index
