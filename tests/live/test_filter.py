# SPDX-License-Identifier: Apache-2.0
"""BYTELEDGER_FILTER: some threads' or modules' allocations are kept out of a recording, and their number is told."""
import json
import os
import subprocess
import time

import pytest

from conftest import finished, report

SUMS = ("allocations", "allocated_bytes", "frees", "leaked_allocations", "leaked_bytes")
COPY = len("a copy of its own") + 1
# what tests/prog/words.c does in the thread named keeper: calls, bytes, freed by whomever, left, bytes left, at its peak
KEEPER = {"allocations": 100 + 5 + 3, "allocated_bytes": 100 * 64 + 5 * 5000 + 3 * COPY, "frees": 10 + 20 + 30 + 1 + 1,
          "leaked_allocations": 40 + 4 + 2, "leaked_bytes": 40 * 64 + 4 * 5000 + 2 * COPY, "peak_bytes": 90 * 64 + 5 * 5000 + 3 * COPY}
OTHER = {"allocations": 20 + 10 + 1, "allocated_bytes": 20 * 7000 + 10 * 300 + 1, "frees": 1 + 4, "leaked_allocations": 20 + 6,
         "leaked_bytes": 20 * 7000 + 6 * 300, "peak_bytes": 20 * 7000 + 10 * 300 + 1}


@pytest.fixture
def filtered(recorded, prog):
    """filtered(how, filter) -> path: what the program words did, but for what the filter leaves out."""
    def run(how, words, expect=0, name="words"):
        path, done = recorded(how, [prog(name)], {"BYTELEDGER_FILTER": words})
        assert (done.returncode, done.stderr) == (expect, b"")
        return path
    return run


def sums(told):
    return {key: told["totals"][key] for key in SUMS}


@pytest.mark.parametrize("how", ["under", "alone", "raw"])
@pytest.mark.parametrize("words,want", [("thread:keeper", KEEPER), ("thread:oth*", OTHER),
                                        ("thread:*,!thread:words,!thread:other", KEEPER)])
def test_only_the_threads_that_were_asked_for_are_recorded(filtered, byteledger, how, words, want):
    told = report(byteledger, filtered(how, words))
    assert {key: told["totals"][key] for key in want} == want
    assert told["totals"]["foreign_frees"] == 0 and told["lost"]["events"] == 0
    assert sum(row["allocations"] for row in told["rows"]) == want["allocations"]
    assert sum(row["peak_bytes"] for row in told["rows"]) == want["peak_bytes"]


@pytest.mark.parametrize("how", ["under", "alone", "raw"])
@pytest.mark.parametrize("words", ["thread:keeper", "thread:keeper,thread:other", "module:words", "module:libc.so*"])
def test_what_is_kept_and_what_is_left_out_are_the_whole(filtered, byteledger, how, words):
    whole, kept = report(byteledger, filtered(how, "")), report(byteledger, filtered(how, words))
    rest = report(byteledger, filtered(how, ",".join("!" + word for word in words.split(","))))
    assert whole["filtered"] == {"allocations": 0, "bytes": 0, "frees": 0}
    assert 0 < kept["totals"]["allocations"] < whole["totals"]["allocations"]
    # the C library and the loader copy the variable
    def near(a, b):
        return all(abs(a[key] - b[key]) <= (600 if "bytes" in key else 0) for key in a)
    assert near({key: kept["totals"][key] + rest["totals"][key] for key in SUMS}, sums(whole))
    for a, b in (kept, rest), (rest, kept):
        assert near(a["filtered"], {"allocations": b["totals"]["allocations"], "bytes": b["totals"]["allocated_bytes"],
                                    "frees": b["totals"]["frees"]})
        assert a["totals"]["foreign_frees"] == whole["totals"]["foreign_frees"]


def test_words_about_threads_and_modules_must_both_hold(filtered, byteledger):
    told = report(byteledger, filtered("under", "thread:keeper,module:libc.so*"))
    assert sums(told) == {"allocations": 3, "allocated_bytes": 3 * COPY, "frees": 1, "leaked_allocations": 2, "leaked_bytes": 2 * COPY}
    assert {row["frames"][0]["module"] for row in told["rows"]} == {"libc.so.6"}
    told = report(byteledger, filtered("under", "thread:keeper,!module:libc.so*"))
    assert told["totals"]["allocations"] == KEEPER["allocations"] - 3


def test_the_report_says_what_the_recording_lacks(filtered, byteledger):
    path = filtered("under", "thread:keeper")
    left_out = report(byteledger, path)["filtered"]
    text = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=60, check=True).stdout
    assert f"FILTERED: {left_out['allocations']} allocations" in text and "on request" in text
    done = subprocess.run([byteledger, "export", "--to", "folded", path], capture_output=True, timeout=60, check=True)
    assert done.stderr.startswith(b"FILTERED: ")
    # nothing at all is kept: that is no program without allocations
    path = filtered("under", "thread:nobody")
    told = report(byteledger, path)
    assert told["totals"]["allocations"] == 0 and told["rows"] == [] and told["filtered"]["allocations"] > 150
    text = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "FILTERED: " in text and "NOTHING SEEN" not in text


def test_a_realloc_of_which_one_half_is_left_out_is_the_other_half(filtered, byteledger):
    path = filtered("under", "thread:keeper")
    out = subprocess.run([byteledger, "export", "--to", "jsonl", path], capture_output=True, check=True, timeout=60).stdout
    blocks = [e for e in map(json.loads, out.splitlines()) if e["event"] in ("alloc", "free")]
    assert not [e for e in blocks if e.get("realloc")]
    assert sum(e["bytes"] for e in blocks if e["event"] == "alloc") == KEEPER["allocated_bytes"]
    told = [e for e in map(json.loads, out.splitlines()) if e["event"] == "filtered"]
    assert sum(e["allocations"] for e in told) == report(byteledger, path)["filtered"]["allocations"]
    out = subprocess.run([byteledger, "export", "--to", "jsonl", filtered("under", "module:words")], capture_output=True, check=True,
                         timeout=60).stdout
    blocks = [e for e in map(json.loads, out.splitlines()) if e["event"] in ("alloc", "free")]
    assert [e["event"] for e in blocks if e.get("realloc")] == ["free", "alloc"] * (5 + 20 + 4)


@pytest.mark.parametrize("words", ["keeper", "thread:", "thread:a,", ",", "!thread", "module:a,b", "thread:" + "x" * 1017])
def test_a_filter_that_makes_no_sense_records_nothing_and_says_so(byteledger, preload, prog, tmp_path, words):
    argv, path = [prog("manners"), "blocks", "3"], str(tmp_path / "r.blt")
    env = {**os.environ, "BYTELEDGER_FILTER": words}
    done = subprocess.run([byteledger, "heap", "-o", path, "--", *argv], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith(f"byteledger: cannot use BYTELEDGER_FILTER '{words[:60]}") and "\nhint: thread:NAME" in done.stderr
    env |= {"LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": path}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "3\n")
    assert len(done.stderr.splitlines()) == 1 and " ERR nothing is recorded: FILTER=" in done.stderr
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("how", ["under", "alone"])
def test_a_thread_that_is_called_otherwise_is_judged_so_from_there_on(byteledger, preload, prog, tmp_path, how):
    def sizes(words):
        path = str(tmp_path / f"{len(os.listdir(tmp_path))}.blt")
        env = {**os.environ, "BYTELEDGER_FILTER": words}
        if how == "under":
            subprocess.run([byteledger, "heap", "-q", "-o", path, "--", prog("words"), "renames"], env=env, check=True,
                           capture_output=True, timeout=60)
        else:
            env |= {"LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": path, "BYTELEDGER_ON_FULL": "wait"}
            subprocess.run([prog("words"), "renames"], env=env, check=True, capture_output=True, timeout=60)
            deadline = time.monotonic() + 30
            while not finished(byteledger, path):
                assert time.monotonic() < deadline, path
                time.sleep(0.02)
        return {row["allocated_bytes"] // row["allocations"]: row["allocations"] for row in report(byteledger, path)["rows"]}
    # the name is looked at with every 64th allocation, and more often
    late, early = sizes("thread:late"), sizes("thread:early")
    assert list(late) == [20] and 1000 - 64 <= late[20] <= 1000
    assert early.pop(10) == 1000 and sum(early.values()) <= 64


def test_a_filter_of_raw_mode_holds_when_the_file_is_read(filtered, byteledger, tmp_path):
    raw = filtered("raw", "module:words,!thread:other")
    told = report(byteledger, raw)
    assert {row["frames"][0]["module"] for row in told["rows"]} == {"words"} and told["filtered"]["allocations"] >= 3
    made = str(tmp_path / "made.blt")
    subprocess.run([byteledger, "import", raw, "-o", made], check=True, capture_output=True, timeout=60)
    again = report(byteledger, made)
    assert again["totals"] == told["totals"] and again["filtered"] == told["filtered"]


def test_sums_stay_exact_where_short_lived_blocks_are_left_out_as_well(byteledger, prog, tmp_path):
    def totals(**env):
        path = str(tmp_path / f"{len(os.listdir(tmp_path))}.blt")
        subprocess.run([byteledger, "heap", "-q", "-o", path, "--", prog("temporaries"), "1000"], env={**os.environ, **env}, check=True,
                       capture_output=True, timeout=60)
        told = report(byteledger, path)
        return told["totals"], told["filtered"], told["culled"]
    words = {"BYTELEDGER_FILTER": "module:temporaries"}
    plain, left_out, _ = totals(**words)
    culled, also, short_lived = totals(**words, BYTELEDGER_CULL_TEMPORARY_ALLOCATIONS="1")
    keys = (*SUMS, "temporary_allocations", "peak_bytes")
    assert {key: plain[key] for key in keys} == {key: culled[key] for key in keys} and short_lived["allocations"] >= 2000
    assert left_out["allocations"] == also["allocations"] > 0


def test_a_child_of_a_fork_filters_what_it_inherits_as_well(byteledger, prog, tmp_path):
    def child(**env):
        folder = tmp_path / str(len(os.listdir(tmp_path)))
        folder.mkdir()
        subprocess.run([byteledger, "heap", "-q", "--follow-children", "-o", f"{folder}/%p.blt", "--", prog("children"), "fork", "40"],
                       env={**os.environ, **env}, check=True, capture_output=True, timeout=60, close_fds=False,
                       preexec_fn=lambda: os.dup2(1, 8)) # where the program says who its child is
        deadline = time.monotonic() + 30
        while True: # the parent's is there, the child's may not be finished
            assert time.monotonic() < deadline, os.listdir(folder)
            paths = [f"{folder}/{name}" for name in os.listdir(folder) if name.endswith(".blt")]
            for told in (report(byteledger, path) for path in paths if finished(byteledger, path)):
                if told["process"].get("forked_from"):
                    return told
            time.sleep(0.02)
    whole, own = child(BYTELEDGER_FILTER=""), child(BYTELEDGER_FILTER="module:children")
    rest = child(BYTELEDGER_FILTER="!module:children")
    sampled = child(BYTELEDGER_FILTER="", BYTELEDGER_SAMPLE_BYTES="100000")
    assert whole["process"]["forked_from"] and whole["totals"]["inherited_allocations"] >= 1
    for key in ("allocations", "frees", "foreign_frees", "leaked_allocations", "inherited_allocations"):
        assert own["totals"][key] + rest["totals"][key] == whole["totals"][key] == sampled["totals"][key], key
    assert own["totals"]["allocations"] == own["totals"]["inherited_allocations"] + 40
    for a, b in (own, rest), (rest, own):
        assert a["filtered"]["allocations"] == b["totals"]["allocations"] and a["filtered"]["frees"] == b["totals"]["frees"]
        for key in ("inherited_allocations", "inherited_bytes"): # the parent's recording counts them as well
            assert a["filtered"][key] == b["totals"][key], key
    assert sampled["sampled"] == {"every_bytes": 100000, "exact_totals": True}
