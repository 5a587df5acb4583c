# SPDX-License-Identifier: Apache-2.0
"""`byteledger top` of a program that runs, in tmux: what is redrawn, what stays put, and the columns that only wide terminals have room for."""
import os
import subprocess
import time

import pytest

from test_top import row_of, terminal  # noqa: F401  pylint: disable=unused-import

# holds: 32 MiB from the beginning. overtakes: a MiB at first, 64 more once a line has come, in steps. churns: blocks that are freed at once.
SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *keep[1000];
static int n;
__attribute__((noinline)) void holds(void) { for (int i = 0; i < 32; i++) keep[n++] = memset(malloc(1 << 20), 1, 1 << 20); }
__attribute__((noinline)) void overtakes(void) { keep[n++] = memset(malloc(1 << 20), 1, 1 << 20); }
__attribute__((noinline)) void churns(void) { static void *one; if (!one) one = malloc(64); for (int i = 0; i < 100; i++) { void *volatile p = malloc(1000); free(p); } }
int main(void)
{
	char line[8];
	holds();
	overtakes();
	churns();
	if (read(0, line, sizeof(line)) < 1)
		return 1;
	for (int i = 0; i < 64; i++) {
		overtakes();
		churns();
		usleep(50000);
	}
	for (int i = 0; i < 1200; i++) {
		churns();
		usleep(100000);
	}
	return 0;
}
"""
BARS = "▁▂▃▄▅▆▇█"


@pytest.fixture
def race(byteledger, installed, tmp_path):
    """The program, recorded, and its PID; a line on its stdin lets it go on."""
    (tmp_path / "race.c").write_text(SOURCE)
    subprocess.run([installed("cc"), "-g", "-O1", "-fno-builtin", "-o", str(tmp_path / "race"), str(tmp_path / "race.c")], check=True, timeout=60)
    run = subprocess.Popen([byteledger, "run", "-q", "-o", str(tmp_path / "race.blt"), "--", str(tmp_path / "race")], stdin=subprocess.PIPE)
    end = time.monotonic() + 30
    while not (pid := next((one for one in open(f"/proc/{run.pid}/task/{run.pid}/children").read().split()
                            if os.path.exists(f"/proc/{one}/exe") and os.readlink(f"/proc/{one}/exe") == str(tmp_path / "race")), None)):
        assert time.monotonic() < end
        time.sleep(0.05)
    # who looks before there is a recording is shown the process as it is
    while not (os.path.exists(tmp_path / "race.blt") and os.path.getsize(tmp_path / "race.blt")):
        assert time.monotonic() < end
        time.sleep(0.05)
    yield run, pid
    run.terminate()
    run.wait(timeout=30)


def line_of(lines, name):
    """Which line the function's row is; its name ends where the panel begins."""
    return next(i for i, line in enumerate(lines) if i > 2 and line.split("│")[0].rstrip().endswith(name))


def table(lines):
    return [line.split("│")[0].rstrip() for line in lines[2:-3]]


def test_rows_stay_for_three_seconds_after_a_key_and_the_cursor_keeps_its_row(byteledger, race, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    run, pid = race
    top = terminal(byteledger, "top", "--by", "function", "-p", pid, columns=200)
    lines = top.until("churns", seconds=60)
    assert line_of(lines, "holds") < line_of(lines, "overtakes")
    top.keys("/", *"holds", "Enter")
    held = table(top.until("● holds"))
    since = time.monotonic()
    run.stdin.write(b"on\n")
    run.stdin.flush()
    while time.monotonic() < since + 2.2:  # the key came before: three seconds are not over
        assert table(top.grid()) == held
        time.sleep(0.1)
    end = time.monotonic() + 60
    while line_of(lines := top.grid(), "holds") < line_of(lines, "overtakes"):
        assert time.monotonic() < end, lines
        time.sleep(0.1)
    detail = next(line for line in lines[::-1] if "of all" in line)
    assert "race.c:7" in detail, (detail, "the cursor went on with the row that it was on")
    top.keys("q")
    top.until("ended with 0")


def test_what_wide_terminals_show_besides(byteledger, race, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    run, pid = race
    top = terminal(byteledger, "top", "--by", "function", "-p", pid, columns=200)
    top.until("churns", seconds=60)
    run.stdin.write(b"on\n")
    run.stdin.flush()
    end = time.monotonic() + 60
    while True:  # 64 MiB in 3.2 s, told from a reading of before
        lines = top.grid()
        row = lines[line_of(lines, "overtakes")]
        if "65.0 MiB" in row[:10] and sum(bar in row for bar in BARS) > 1:
            break
        assert time.monotonic() < end, lines
        time.sleep(0.1)
    head = lines[2].split()
    assert head[:2] == ["LIVE", "%"] and lines[2].rstrip().endswith("MOST OF IT COMES THIS WAY, INNERMOST FIRST"), lines[2]
    for name in ("BLOCKS", "TEMP", "PEAK", "RATE/s"):
        assert name in head, lines[2]

    def cell(row, name, width):
        at = lines[2].index(name) + len(name)
        return row[at - width:at].strip()
    assert cell(row, "PEAK", 9) == "65.0 MiB" and cell(row, "BLOCKS", 9) == "65" and cell(row, "TEMP %", 7) == "0 %"
    value, unit = cell(row, "RATE/s", 9).split()
    assert unit == "MiB" and 0 < float(value) < 64, row
    assert cell(lines[line_of(lines, "holds")], "PEAK", 9) == "32.0 MiB"
    assert float(cell(lines[line_of(lines, "churns")], "TEMP %", 7).split()[0]) > 98
    top.keys("/", *"overtakes", "Enter")
    lines = top.until("● overtakes")
    while (panel := [line.split("│")[1].split() for line in lines if "│" in line])[0] != ["overtakes", "race.c:8"]:
        assert time.monotonic() < end, panel  # the row that was looked for is asked for its stack
        time.sleep(0.1)
        lines = top.grid()
    assert panel[1][0] == "main" and panel[1][1].startswith("race.c:"), panel
    top.resize(120, 24)
    lines = top.until("TEMP %")
    while "RATE/s" in lines[2]:
        lines = top.grid()
    assert "PEAK" not in lines[2] and "│" not in "".join(lines[3:5])
    top.keys("q")
    top.until("ended with 0")


def test_one_function_alone_or_left_out_and_undone(byteledger, race, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    _, pid = race
    top = terminal(byteledger, "top", "-p", pid, columns=120)
    top.until("churns", seconds=60)
    top.keys("/", *"overtakes", "Enter", "f")
    lines = top.until("only overtakes")
    assert "3.0 % of 33.0 MiB" in lines[1] and not any(line.endswith("holds") for line in lines), lines
    top.keys("BSpace")
    lines = top.until("holds")
    assert "of 33.0 MiB" in lines[1] and "%" not in lines[1], lines
    top.keys("/", *"holds", "Enter", "Left", "-")
    lines = top.until("without main")
    assert not any(line.endswith(" main") for line in lines) and row_of(lines, "holds").startswith(" 32.0 MiB"), lines
    top.keys("BSpace", "p")
    assert "peak" in top.until("peak ·")[1]
    top.keys("p")
    top.until("live ·")
    top.keys("q")
    top.until("ended with 0")


def test_the_hot_path_opens_to_its_end(byteledger, race, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    _, pid = race
    top = terminal(byteledger, "top", "-p", pid, columns=100)
    top.until("churns", seconds=60)
    top.keys("Home", "Left")
    while any("holds" in line for line in top.grid()):
        time.sleep(0.05)
    top.keys("h")
    lines = top.until("holds")
    assert "race.c:7" in "".join(line for line in lines if "of all" in line), lines
    top.keys("q")
    top.until("ended with 0")
