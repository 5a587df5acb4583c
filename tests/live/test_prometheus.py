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
