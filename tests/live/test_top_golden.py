# SPDX-License-Identifier: Apache-2.0
"""`byteledger top FILE` in tmux, cell by cell: the grids of tests/golden/top. BYTELEDGER_BLESS=1 renews them (look at the difference)."""
import os
import re
import subprocess
import time
from pathlib import Path

import pytest

from conftest import ROOT
from test_top import Terminal

GRIDS = Path(ROOT) / "tests" / "golden" / "top"
PROCESS_GRIDS = Path(ROOT) / "tests" / "golden" / "top-processes"
DATA = Path(ROOT) / "tests" / "golden" / "data" / "sqlite.heaptrack.zst"
BLESS = os.environ.get("BYTELEDGER_BLESS") == "1"
# name, keys that lead to it from the screen before, what it has that the other has not
SCREENS = [("tree", [], "i:inv"), ("table", ["4"], "s:sor"), ("table by module", ["m"], "module"), ("allocated", ["c"], "allo"), ("without it", ["-"], "without"), ("help", ["?"], "hold what is shown")]


@pytest.fixture(scope="module")
def folder(byteledger, tmp_path_factory):
    path = tmp_path_factory.mktemp("grids")
    subprocess.run([byteledger, "import", str(DATA), "-o", str(path / "sqlite.blt")], check=True, capture_output=True, timeout=60)
    return path


def settled(top, differs_from):
    """For a new golden file only: the grid once it is another one and stays."""
    last, since = None, 0
    while True:
        grid = top.grid()
        if grid != last:
            last, since = grid, time.monotonic()
        elif grid != differs_from and any(grid) and time.monotonic() - since > 2:
            return grid
        time.sleep(0.1)


def wait_for(top, name, expected):
    """The grid becomes @expected, however long that takes on a busy machine; else the difference, cell by cell."""
    end = time.monotonic() + 60
    grid = top.grid()
    while grid != expected and time.monotonic() < end:
        time.sleep(0.05)
        grid = top.grid()
    wrong = [f"row {i}: {a!r}\n  golden {b!r}" for i, (a, b) in enumerate(zip(grid, expected)) if a != b]
    assert grid == expected, name + "\n" + "\n".join(wrong)


def read(path):
    screens, name = {}, None
    for line in path.read_text(encoding="utf-8").split("\n")[:-1]:
        if line.startswith("== "):
            name = line[3:]
            screens[name] = []
        else:
            screens[name].append(line[1:])
    return screens


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
def test_the_screens_are_the_golden_grids(byteledger, installed, folder, tmp_path, columns, locale):
    path = GRIDS / f"{columns}-{'utf8' if locale == 'C.UTF-8' else 'ascii'}"
    golden = {} if BLESS else read(path)
    top = Terminal(installed("tmux"), tmp_path, [byteledger, "top", str(folder / "sqlite.blt")], columns=columns, rows=24, locale=locale)
    try:
        before = None
        for name, keys, _ in SCREENS:
            if keys:
                top.keys(*keys)
            if BLESS:
                golden[name] = before = settled(top, before)
            else:
                wait_for(top, name, golden[name])
                assert max(map(len, golden[name])) <= columns
    finally:
        top.close()
    if BLESS:
        GRIDS.mkdir(exist_ok=True)
        path.write_text("".join(f"== {name}\n" + "".join(f"|{line}\n" for line in grid) for name, grid in golden.items()), encoding="utf-8")


CROWD = r"""
#include <signal.h>
#include <stdlib.h>
#include <string.h>
int main(int argc, char **argv)
{
	char *p = malloc(strtoul(argv[2], NULL, 10) << 20);
	memset(p, argc, strtoul(argv[2], NULL, 10) << 20);
	raise(SIGSTOP);
	return p[0];
}
"""
CALLED = f"crowdling-{os.getpid() % 100000:05}"  # whoever runs these tests beside us has others of their own
PROCESSES = [("processes", [], "PROCESS"), ("by name", ["s"] * 5, "by name"), ("found", ["/", *"half", "Enter"], "9 with"), ("help", ["?"], "VmHWM")]


class Anonymous(Terminal):
    """What differs from run to run is the same: digits are nines, and a process has a number of five of them."""

    def grid(self):
        return [re.sub(r"\d", "9", re.sub(r"^ *\d+(?=  )", "    99999", line)) for line in super().grid()]


@pytest.fixture(scope="module")
def crowd(installed, tmp_path_factory):
    """Three processes that were stopped: their figures stay."""
    folder = tmp_path_factory.mktemp("crowd")
    (folder / "crowdling.c").write_text(CROWD)
    subprocess.run([installed("cc"), "-O1", "-o", str(folder / CALLED), str(folder / "crowdling.c")], check=True, timeout=60)
    ones = [subprocess.Popen([CALLED, name, str(mib)], executable=str(folder / CALLED)) for name, mib in
            (("a-tenth", 20), ("whole", 200), ("half", 64))]
    for one in ones:
        assert os.WIFSTOPPED(os.waitpid(one.pid, os.WUNTRACED)[1])
    yield
    for one in ones:
        one.kill()
        one.wait(timeout=30)


@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
@pytest.mark.parametrize("columns", [60, 80, 100, 120, 200])
def test_stopped_processes_are_the_golden_grids(byteledger, installed, crowd, tmp_path, columns, locale):
    path = PROCESS_GRIDS / f"{columns}-{'utf8' if locale == 'C.UTF-8' else 'ascii'}"
    golden = {} if BLESS else read(path)
    # one reading: nothing changes afterwards
    top = Anonymous(installed("tmux"), tmp_path, [byteledger, "top", "-n", CALLED, "-d", "1h"], columns=columns, rows=16, locale=locale)
    try:
        before = None
        for name, keys, _ in PROCESSES:
            if keys:
                top.keys(*keys)
            if BLESS:
                golden[name] = before = settled(top, before)
            else:
                wait_for(top, name, golden[name])
    finally:
        top.close()
    if BLESS:
        PROCESS_GRIDS.mkdir(exist_ok=True)
        path.write_text("".join(f"== {name}\n" + "".join(f"|{line}\n" for line in grid) for name, grid in golden.items()), encoding="utf-8")


def test_the_grids_of_processes_are_in_order_and_as_wide_as_they_say():
    for path in PROCESS_GRIDS.iterdir():
        screens = read(path)
        assert list(screens) == [name for name, _, _ in PROCESSES], path
        for name, _, has in PROCESSES:
            assert any(has in line for line in screens[name]), (path, name)
            assert len(screens[name]) == 17 and max(map(len, screens[name])) <= int(path.name.split("-")[0])
        rows = {name: re.findall(r"crowdling-99999 ([\w-]+)", "\n".join(screens[name])) for name in screens}
        assert rows["processes"] == ["whole", "half", "a-tenth"] and rows["by name"] == ["a-tenth", "half", "whole"] and rows["found"] == ["half"]


def test_the_grids_are_of_the_screens_that_they_name():
    for path in GRIDS.iterdir():
        screens = read(path)
        assert list(screens) == [name for name, _, _ in SCREENS], path
        for name, _, has in SCREENS:
            assert any(has in line for line in screens[name]), (path, name)
            assert len(screens[name]) == 25, "24 rows and the end of the last"
        if path.name.endswith("ascii"):
            assert path.read_text(encoding="utf-8").isascii(), path
