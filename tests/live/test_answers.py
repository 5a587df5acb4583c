# SPDX-License-Identifier: Apache-2.0
"""The answers that people look for first: which line, who asked, what was alive when the heap was largest."""
import json
import os
import subprocess
import time

SOURCE = os.path.join(os.path.dirname(__file__), "..", "prog", "answers.c")


def line_of(mark):
    """The line of answers.c that says @mark."""
    with open(SOURCE, encoding="utf-8") as f:
        return next(i for i, text in enumerate(f, 1) if mark in text and "/*" in text)


def text(recording, *words, width=100, env=None):
    done = subprocess.run([recording.program, "report", recording.path, *words], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": str(width), "LC_ALL": "C.UTF-8", **(env or {})})
    assert done.returncode == 0, done.stderr
    return done.stdout


def section(page, title):
    """The lines of one section, up to the empty one behind it."""
    lines = page.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(title + "  ") and not lines[i - 1])
    return lines[first + 1:lines.index("", first) if "" in lines[first:] else len(lines)]


def test_two_calls_of_one_function_are_two_rows_with_their_own_lines(record, prog):
    recording = record([prog("answers")])
    rows = section(text(recording), "Peak")
    assert "100 MiB" in rows[0] and f"work  answers.c:{line_of('line large')}" in rows[0]
    small = section(text(recording, "--cost", "allocations", "--max-size", "16"), "Allocations")
    assert any(f"work  answers.c:{line_of('line small')}" in row and "16 B" in row for row in small)


def test_rows_that_look_alike_say_where_they_differ(record, prog):
    rows = section(text(record([prog("answers")])), "Peak")
    for amount, mark in (("3.00 MiB", "line first"), ("4.00 MiB", "line second")):
        at = next(i for i, row in enumerate(rows) if amount in row)
        assert "cache" in rows[at] and "via zmalloc" in rows[at]
        assert rows[at + 1].split() == ["←", "main", f"answers.c:{line_of(mark)}"]


def test_groups_have_what_is_their_own_and_what_comes_through_them(record, prog):
    recording = record([prog("answers")])
    rows = {row["frames"][0]["function"]: row for row in recording.report("--by", "function")["rows"]}
    assert rows["cache"]["peak_bytes"] == 7 << 20 == rows["zmalloc"]["inclusive_peak_bytes"]
    assert rows["zmalloc"]["peak_bytes"] == 0
    assert rows["walk"]["peak_bytes"] == rows["walk"]["inclusive_peak_bytes"] == 5000
    assert rows["walk"]["inclusive_allocations"] == 5
    totals = recording.report()["totals"]
    for key in ("peak_bytes", "allocations", "allocated_bytes", "temporary_allocations", "peak_allocations"):
        assert rows["main"]["inclusive_" + key] == totals[key], key
        assert sum(row[key] for row in rows.values()) == totals[key], key
    by_inclusive = recording.report("--by", "function", "--sort", "inclusive")["rows"]
    figures = [row["inclusive_peak_bytes"] for row in by_inclusive]
    assert figures == sorted(figures, reverse=True)


def test_wrappers_are_named_by_pattern_or_not_at_all(record, prog):
    recording = record([prog("answers")])

    def own(*words):
        rows = recording.report("--by", "function", *words)["rows"]
        return {row["frames"][0]["function"]: row["peak_bytes"] for row in rows if row["peak_bytes"]}
    assert "zmalloc" not in own() and own()["cache"] == 7 << 20
    assert own("--no-skip")["zmalloc"] == 7 << 20 and "cache" not in own("--no-skip")
    assert own("--skip", "^cache$")["main"] == 7 << 20
    hidden = [[frame["function"] for frame in row["frames"] if frame.get("hidden")] for row in recording.report()["rows"]]
    assert hidden.count(["zmalloc"]) == 2 and all(names in ([], ["zmalloc"]) for names in hidden)


def test_no_row_of_a_table_is_empty(record, prog):
    recording = record([prog("answers")])
    for by in ("function", "file", "line", "module"):
        for cost in ("leaked", "peak"):
            page = text(recording, "--by", by, "--cost", cost)
            assert not [line for line in page.splitlines() if line.startswith("      0 B     0 %")], page


def test_what_stands_under_peak_was_alive_then(record, prog):
    recording = record([prog("answers")])
    page = recording.report()
    churn = [row for row in page["rows"] if any(frame["function"] == "churn" for frame in row["frames"])]
    assert [row["allocations"] for row in churn] == [5000] and churn[0]["peak_allocations"] == 0
    assert page["totals"]["peak_allocations"] == sum(row["peak_allocations"] for row in page["rows"]) == 9
    assert "1 block" in section(text(recording), "Peak")[0]


def test_what_lives_while_the_recording_goes_on_is_no_leak(byteledger, prog, tmp_path):
    path = tmp_path / "x.blt"
    child = subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", prog("answers"), "sleep", "30"],
                             stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 20
        page = {}
        while time.monotonic() < deadline and page.get("totals", {}).get("live_bytes", 0) < 107 << 20:
            done = subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, text=True)
            page = json.loads(done.stdout) if done.returncode == 0 else {}
        assert page["process"]["being_written"] is True and page["process"]["complete"] is False
        assert page["totals"]["leaked_allocations"] == page["totals"]["leaked_bytes"] == 0
        assert page["totals"]["live_bytes"] == page["totals"]["peak_bytes"] > 107 << 20
        shown = subprocess.run([byteledger, "report", path], capture_output=True, text=True).stdout
        assert "Live now" in shown and "the recording goes on" in shown and "Leaked" not in shown
    finally:
        child.terminate()
        child.wait(20)
