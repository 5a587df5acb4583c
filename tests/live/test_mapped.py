# SPDX-License-Identifier: Apache-2.0
"""What a program maps by itself stands beside its heap, with its stacks, and in none of the heap's figures."""
import json
import subprocess

MAPS = """import mmap
one, two, three = (mmap.mmap(-1, n << 20) for n in (30, 20, 10))
two.close()
four = mmap.mmap(-1, 15 << 20)
three.close()
"""
STAYS = MAPS + "import os\nos._exit(0)\n"
ARENAS = "import ctypes\nd = [{'id': i, 'tags': [str(i), 'a%d' % i]} for i in range(120000)]\n"


def pages(byteledger, *command):
    done = subprocess.run([byteledger, "run", "--format", "json", "-o", command[0], "--", *command[1:]],
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_mappings_count_beside_the_heap_with_their_stacks(byteledger, tmp_path):
    page = pages(byteledger, tmp_path / "x.blt", "/usr/bin/python3", "-c", STAYS)
    mapped = page["mapped"]
    own = [row for row in mapped["rows"] if any("mmap" in (frame["module"] or "") for frame in row["frames"])
           or row["mapped_bytes"] >= 75 << 20]
    assert sum(row["mapped_bytes"] for row in own) == 75 << 20 and sum(row["mappings"] for row in own) == 4
    assert sum(row["peak_bytes"] for row in own) == 60 << 20 and sum(row["live_bytes"] for row in own) == 45 << 20
    assert mapped["anonymous"]["peak_bytes"] >= 60 << 20 and page["totals"]["peak_bytes"] < 20 << 20
    text = subprocess.run([byteledger, "report", tmp_path / "x.blt"], capture_output=True, text=True, timeout=60).stdout
    assert "by the program itself at its peak" in text and "Mapped  by the program itself, beside the heap" in text


def test_an_interpreters_arenas_are_in_the_report(byteledger, tmp_path):
    """Objects of up to 512 bytes lie in arenas of CPython's own: with them the report tells what the process holds."""
    show = ARENAS + "import sys; sys._debugmallocstats()"
    done = subprocess.run([byteledger, "run", "--report", tmp_path / "r.json", "--format", "json", "-o", tmp_path / "x.blt",
                           "/usr/bin/python3", "-c", show], capture_output=True, text=True, timeout=120)
    line = next(line for line in done.stderr.splitlines() if "arenas * " in line and "bytes/arena" in line)
    arenas = int(line.split("=")[-1].replace(",", ""))
    page = json.loads((tmp_path / "r.json").read_text())
    anonymous = page["mapped"]["anonymous"]["peak_bytes"]
    assert arenas <= anonymous < arenas + (2 << 20) and arenas > 10 << 20
    # heap and mappings together are most of what is resident
    assert page["totals"]["peak_bytes"] + anonymous > 0.75 * page["totals"]["peak_rss_bytes"]


def test_what_an_allocator_maps_for_the_heap_is_not_counted_twice(byteledger, tmp_path):
    import glob
    found = glob.glob("/usr/lib/*/libjemalloc.so.2")
    if not found:
        import pytest
        pytest.skip("jemalloc is not installed")
    page = json.loads(subprocess.run(
        [byteledger, "run", "--format", "json", "-o", tmp_path / "x.blt", "env", f"LD_PRELOAD={found[0]}", "perl", "-e",
         "my @a = map { chr(97 + $_ % 26) x 100000 } 1..400"], capture_output=True, text=True, timeout=60).stdout)
    assert page["totals"]["peak_bytes"] > 40_000_000
    assert page["mapped"]["allocator"]["peak_bytes"] > 40_000_000 > 10_000_000 > page["mapped"]["anonymous"]["peak_bytes"]


def test_a_long_recording_says_the_same_from_its_summary_and_by_replay(byteledger, tmp_path):
    code = MAPS + "for i in range(3000):\n    x = [bytearray(600) for _ in range(20)]\n"
    whole = pages(byteledger, tmp_path / "x.blt", "/usr/bin/python3", "-c", code)
    replayed = json.loads(subprocess.run([byteledger, "report", "--format", "json", "--from", "0s", tmp_path / "x.blt"],
                                         capture_output=True, text=True, timeout=60).stdout)
    assert whole["totals"]["allocations"] > 60_000
    for kind in ("anonymous", "file", "reserved", "allocator"):
        assert whole["mapped"][kind]["peak_bytes"] == replayed["mapped"][kind]["peak_bytes"]
        assert whole["mapped"][kind]["live_bytes"] == replayed["mapped"][kind]["live_bytes"]
