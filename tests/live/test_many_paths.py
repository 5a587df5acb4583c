# SPDX-License-Identifier: Apache-2.0
"""More call paths than the table between the program and the recorder has places for: each keeps its stack, and its row."""
import pytest

# With --budget=32 the table has 65,536 places, and a tree of depth 16 twice as many nodes, made
# faster than anybody can copy them: with the policy `limit` some stacks would stay without a number, and be counted.
DEPTH, LEAVES = 16, 1 << 16


def leaves(told):
    return [row for row in told["rows"] if row["frames"] and row["frames"][0]["function"] == "down"]


@pytest.mark.parametrize("threads, rounds", [(1, 3), (4, 2)])
def test_every_path_is_told_apart_and_known_again(record, prog, threads, rounds):
    done = record([prog("manypaths"), str(DEPTH), str(threads), str(rounds)], options=["--budget=32", "--on-full=wait"])
    assert done.returncode == 0
    told = done.report("--limit", "100000")
    assert told["partial_stacks"]["events"] == 0 and told["lost"]["events"] == 0
    rows = leaves(told)
    # a path that the table forgot and met again is the same row
    assert len(rows) == LEAVES
    assert all(row["allocations"] == threads * rounds for row in rows)
    assert all(len([f for f in row["frames"] if f["function"] == "down"]) == DEPTH + 1 for row in rows)


def test_a_raw_file_says_which_stacks_its_table_had_no_room_for(prog, preload, byteledger, tmp_path):
    """Nobody copies there: the first 65,536 nodes have numbers, what hangs below others is partial, and no call is lost."""
    import json
    import os
    import subprocess
    env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "x"), "BYTELEDGER_HELPER": "/nonexistent",
           "BYTELEDGER_BUDGET": str(32 << 20)}
    subprocess.run([prog("manypaths"), str(DEPTH), "1", "1"], env=env, check=True, timeout=120)
    out = subprocess.run([byteledger, "report", str(tmp_path / "x.raw"), "--format", "json", "--limit", "100000"],
                         capture_output=True, check=True, timeout=120)
    told = json.loads(out.stdout)
    full = told["partial_stacks"]["by_reason"]["node_table_full"]
    rows = leaves(told)
    assert 0 < full < LEAVES and told["lost"]["events"] == 0
    assert len(rows) + full == LEAVES and all(row["allocations"] == 1 for row in rows)
