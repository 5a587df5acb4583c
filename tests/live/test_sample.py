# SPDX-License-Identifier: Apache-2.0
"""BYTELEDGER_SAMPLE_BYTES: one stack for so many bytes. Totals stay exact; what is said of stacks are estimates."""
import json
import math
import os
import re
import subprocess

import pytest

from conftest import report

ROW = ("allocations", "allocated_bytes", "temporary_allocations", "leaked_allocations", "leaked_bytes", "peak_bytes")
ROUNDS = 50000


@pytest.fixture
def sampled(recorded):
    """sampled(how, argv, bytes) -> path of a recording with one stack for so many bytes."""
    def run(how, argv, every, **more):
        path, done = recorded(how, argv, {"BYTELEDGER_SAMPLE_BYTES": every, **more})
        assert done.returncode == 0, done.stderr
        return path
    return run


def exact(told):
    return {key: value for key, value in told["totals"].items() if key not in ("peak_time_ns", "peak_rss_bytes", "stacks")}


def of_passes(told):
    """What the function passes of tests/prog/temporaries.c asked for: blocks of 100 and of about 300 bytes, all short-lived."""
    rows = [row for row in told["rows"] if row["frames"][0]["function"] == "passes"]
    return {key: sum(row[key] for row in rows) for key in ROW}


@pytest.mark.parametrize("how", ["under", "alone", "raw"])
def test_totals_stay_exact_and_rows_are_estimates(sampled, byteledger, prog, how):
    argv = [prog("temporaries"), str(ROUNDS)]
    whole, told = report(byteledger, sampled(how, argv, "0000")), report(byteledger, sampled(how, argv, "2000"))
    assert "sampled" not in whole and told["sampled"] == {"every_bytes": 2000, "exact_totals": True}
    assert exact(told) == exact(whole) and told["lost"]["events"] == 0 and told["partial_stacks"] == whole["partial_stacks"]
    assert not [row for row in told["rows"] if not row["frames"][0]["function"] and row.get("partial") == "not_sampled"]
    # six standard deviations: each block of s bytes has a stack with probability p, and stands for 1 / p then
    want, got = of_passes(whole), of_passes(told)
    chance = [(100, 1 - math.exp(-100 / 2000)), (303, 1 - math.exp(-303 / 2000))]
    count_bound = 6 * math.sqrt(sum(ROUNDS * (1 - p) / p for _, p in chance))
    bytes_bound = 6 * math.sqrt(sum(ROUNDS * s * s * (1 - p) / p for s, p in chance))
    assert want["allocations"] == 2 * ROUNDS and abs(got["allocations"] - want["allocations"]) < count_bound
    assert got != want # they are estimates
    assert abs(got["allocated_bytes"] - want["allocated_bytes"]) < bytes_bound
    assert got["leaked_allocations"] == got["leaked_bytes"] == 0
    assert got["temporary_allocations"] <= got["allocations"]
    stays = [row for row in told["rows"] if row["frames"][0]["module"] == "temporaries" and row["frames"][0]["function"] != "passes"]
    p = 1 - math.exp(-1000 / 2000)
    assert abs(sum(row["leaked_allocations"] for row in stays) - ROUNDS // 100) < 6 * math.sqrt(ROUNDS // 100 * (1 - p) / p)
    # large ones always have a stack, and stand for themselves
    assert sum(row["peak_bytes"] == 10 << 20 for row in told["rows"]) == 1


def test_a_summary_says_what_a_replay_says(sampled, byteledger, prog):
    path = sampled("under", [prog("temporaries"), str(ROUNDS)], "2000")
    with open(path, "rb") as file:
        data = file.read()
    blocks = [m.start() for m in re.finditer(b"\x8fLTBlock", data)] # the last three: summary, index, end
    cut = path + ".cut"
    with open(cut, "wb") as file:
        file.write(data[:blocks[-3]])
    loaded, replayed = report(byteledger, path), report(byteledger, cut)
    assert loaded["rows"] == replayed["rows"] and exact(loaded) == exact(replayed)
    assert loaded["sampled"] == replayed["sampled"]


def test_threads_are_exact_and_selections_by_name_say_that_they_are_not(sampled, byteledger, prog):
    argv = [prog("words")]
    whole, path = sampled("under", argv, "0000"), sampled("under", argv, "1000")
    def threads(file):
        rows = report(byteledger, file, "--by", "thread")["rows"]
        return sorted((row["name"], row["allocations"], row["allocated_bytes"], row["leaked_bytes"]) for row in rows)
    assert threads(path) == threads(whole) and len(threads(path)) == 3
    told = report(byteledger, sampled("under", [prog("temporaries"), str(ROUNDS)], "2000"), "--function-regex", "^passes$")
    assert told["sampled"]["exact_totals"] is False
    for key in ("allocations", "allocated_bytes"):
        assert told["totals"][key] == sum(row[key] for row in told["rows"]) > ROUNDS
    text = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "SAMPLED: one stack per 1,000 bytes" in text and "totals and threads are exact" in " ".join(text.split())


def test_exports_of_events_say_what_has_no_stack(sampled, byteledger, prog):
    path = sampled("under", [prog("temporaries"), "2000"], "2000")
    out = subprocess.run([byteledger, "export", "--to", "jsonl", path], capture_output=True, check=True, timeout=60).stdout
    events = [json.loads(line) for line in out.splitlines()]
    bare = {e["id"] if "id" in e else e["stack"] for e in events if e.get("incomplete") == "not_sampled"}
    assert events[0]["event"] == "process" and events[0]["sample_bytes"] == 2000
    allocs = [e for e in events if e["event"] == "alloc"]
    assert len(allocs) == report(byteledger, path)["totals"]["allocations"]
    assert len(bare) == 1 and 0 < sum(e.get("stack") in bare for e in allocs) < len(allocs)
    for form, words in (("massif", "[not sampled]"), ("heaptrack", "[not sampled]"), ("folded", "is an estimate")):
        done = subprocess.run([byteledger, "export", "--to", form, path], capture_output=True, check=True, timeout=60)
        assert done.stderr.startswith(b"SAMPLED: ") and words in " ".join(done.stderr.decode().split()), form


def test_dhat_shows_what_was_recorded_also_where_short_lived_blocks_are_left_out(sampled, byteledger, prog):
    argv = [prog("temporaries"), "2000"]
    path = sampled("under", argv, "2000", BYTELEDGER_CULL_TEMPORARY_ALLOCATIONS="1")
    told = report(byteledger, path)
    out = subprocess.run([byteledger, "export", "--to", "dhat", path], capture_output=True, check=True, timeout=60).stdout
    points = json.loads(out)["pps"]
    assert told["culled"]["allocations"] > 2000
    assert sum(p["tb"] for p in points) == told["totals"]["allocated_bytes"]
    for p in points: # an estimate of a stack is more than all that was seen of it
        assert p["gb"] <= p["mb"] <= p["tb"] and p["gbk"] <= p["mbk"] <= p["tbk"], p
    assert 0 < sum(p["gb"] for p in points) <= told["totals"]["peak_bytes"]


def test_sampling_goes_with_threads_but_not_with_modules_that_are_filtered(sampled, byteledger, preload, prog, tmp_path):
    told = report(byteledger, sampled("under", [prog("words")], "1000", BYTELEDGER_FILTER="thread:keeper"))
    assert told["totals"]["allocations"] == 108 and told["sampled"]["every_bytes"] == 1000
    path = str(tmp_path / "none.blt")
    env = {**os.environ, "BYTELEDGER_SAMPLE_BYTES": "1000", "BYTELEDGER_FILTER": "thread:keeper,!module:libc.so*"}
    done = subprocess.run([byteledger, "heap", "-o", path, "--", prog("manners"), "blocks", "3"], env=env, capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == "" and "with BYTELEDGER_SAMPLE_BYTES\nhint: " in done.stderr
    env |= {"LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": path}
    done = subprocess.run([prog("manners"), "blocks", "3"], env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "3\n") and " ERR nothing is recorded: FILTER=" in done.stderr
    assert not [name for name in os.listdir(tmp_path) if name.startswith("none")]


@pytest.mark.parametrize("text", ["many", "-1", "1073741825", "1e3", ""])
def test_a_number_that_is_none_is_refused(byteledger, prog, tmp_path, text):
    env = {**os.environ, "BYTELEDGER_SAMPLE_BYTES": text}
    done = subprocess.run([byteledger, "heap", "-o", str(tmp_path / "r.blt"), "--", prog("manners"), "blocks", "3"], env=env,
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("byteledger: cannot use BYTELEDGER_SAMPLE_BYTES") and os.listdir(tmp_path) == []
