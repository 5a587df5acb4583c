# SPDX-License-Identifier: Apache-2.0
"""`export --to prometheus`."""
import json
import os
import shutil
import subprocess
import sys

import pytest


def said(byteledger, *argv):
    return subprocess.run([byteledger, *argv], check=True, capture_output=True, text=True, timeout=120).stdout


@pytest.fixture(scope="module")
def own(byteledger, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("own") / "own.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", sys.executable, "-S", "-c",
                    "import threading, json\nkeep = []\ndef work():\n keep.extend(json.loads(str(list(range(n)))) for n in range(300))\n"
                    "all = [threading.Thread(target=work) for _ in range(3)]\n[t.start() for t in all]\n[t.join() for t in all]"],
                   check=True, timeout=120, env={**os.environ, "PYTHONMALLOC": "malloc"})
    return path


@pytest.mark.parametrize("by", ["stack", "function", "module", "file", "line", "thread"])
def test_prometheus_has_the_totals_and_rows_that_add_up_to_them(byteledger, own, by):
    text = said(byteledger, "export", "--to", "prometheus", "--by", by, "--limit", "7", own)
    ours = json.loads(said(byteledger, "report", "--format", "json", own))["totals"]
    series = {}
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        series_name, value = line.rsplit(" ", 1)
        assert series_name not in series, series_name # a scrape with two alike is thrown away
        series[series_name] = float(value)
    for name, key in (("peak_bytes", "peak_bytes"), ("leaked_bytes", "leaked_bytes"), ("allocations_total", "allocations"),
                      ("allocated_bytes_total", "allocated_bytes")):
        assert [v for k, v in series.items() if k.startswith(f"byteledger_recording_{name}{{")] == [ours[key]]
        rows = [v for k, v in series.items() if k.startswith(f"byteledger_recording_by_{by}_{name}{{")]
        assert 1 <= len(rows) <= 8 and sum(rows) == ours[key], (name, rows)
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stdout + done.stderr, done.stdout + done.stderr


@pytest.mark.parametrize("by", ["stack", "function", "module"])
def test_rows_that_look_alike_have_labels_of_their_own(byteledger, tmp_path, by):
    """Three libraries of one name, in folders of their own: a scrape with equal labels is thrown away."""
    raw = tmp_path / "raw"
    raw.write_text("v 10400 3\nx 2 /a\nX a\nI 1000 1\nm 1 -\nm 4 /b/x 1000 0 1000\nm 4 /c/x 5000 0 1000\nm 4 /d/x 9000 0 1000\n"
                   "t 1010 0\nt 5010 0\nt 9010 0\n+ 10 1 100000\n+ 20 2 200000\n+ 40 3 300000\n")
    text = said(byteledger, "export", "--to", "prometheus", "--by", by, raw)
    lines, leaked = ([line for line in text.splitlines() if f"_by_{by}_{what}_bytes{{" in line] for what in ("peak", "leaked"))
    assert [line.replace("_peak_", "_leaked_") for line in lines] == leaked # nothing was freed: the same rows, by the same labels
    assert sum(int(line.split()[-1]) for line in lines) == 0x70
    assert len({line.rsplit(" ", 1)[0] for line in lines}) == len(lines) == 3, lines
