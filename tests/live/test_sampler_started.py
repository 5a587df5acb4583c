# SPDX-License-Identifier: Apache-2.0
"""`byteledger sample -- PROGRAM`: probes are in before it begins, however short it lives."""
import json
import subprocess

import pytest

import test_sampler
from test_sampler import by_way

pytestmark = test_sampler.pytestmark


@pytest.mark.parametrize("argv,status", [(("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -TERM $$"), 143)],
                         ids=["true", "7", "killed"])
def test_a_program_of_milliseconds_is_sampled_and_its_status_handed_on(byteledger, argv, status):
    """It used to be gone before its code was looked at: 'process N has no code', each time."""
    done = subprocess.run([byteledger, "sample", "--", *argv], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done
    assert "sampling 1 process" in done.stderr and "has no code" not in done.stderr, done.stderr


def test_all_that_a_program_of_milliseconds_asks_for_is_seen(byteledger, prog, tmp_path):
    """Its first call is behind a probe. What it writes itself stands before the report."""
    line = tmp_path / "go"
    line.write_text("go\n")
    with open(line, encoding="utf-8") as go:
        done = subprocess.run([byteledger, "sample", "--budget", "0", "--all", "--format", "json", "--", prog("asked"), "3", "1"], stdin=go,
                              capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    own, _, report = done.stdout.partition("done\n")
    truth = {name: list(map(int, numbers)) for name, *numbers in map(str.split, own.splitlines())}
    found = by_way(json.loads(report)["processes"][0])
    assert len(truth) > 5
    for way, (count, size, _) in truth.items():
        assert found.get(way, [0])[:2] == [count, size], (way, truth[way], found.get(way))
