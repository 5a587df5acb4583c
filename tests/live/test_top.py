# SPDX-License-Identifier: Apache-2.0
"""`byteledger top` in a real terminal (tmux): screens as grids of cells, keys, sizes, a program that is being recorded."""
import os
import shutil
import signal
import subprocess
import time

import pytest


SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *keep[100000];
static int n;
__attribute__((noinline)) void *cache(size_t s) { return keep[n++] = memset(malloc(s), 1, s); }
__attribute__((noinline)) void leak(int k) { for (int i = 0; i < k; i++) cache(1 << 20); }
__attribute__((noinline)) void small(int k) { for (int i = 0; i < k; i++) cache(1 << 10); }
int main(int argc, char **argv)
{
	leak(7);
	small(1024);
	for (int i = 0; argc > 1 && i < 3000; i++) {
		leak(1);
		usleep(10000);
	}
	return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("top")
    (folder / "p.c").write_text(SOURCE)
    subprocess.run(["gcc", "-g", "-O1", "-fno-builtin", "-o", str(folder / "p"), str(folder / "p.c")], check=True, timeout=60)
    return str(folder / "p")


@pytest.fixture
def recording(byteledger, program, tmp_path):
    path = str(tmp_path / "p.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", program], check=True, timeout=60)
    return path


class Terminal:
    """A tmux of its own; screen() waits until it says what is expected."""

    def __init__(self, tmux, folder, command, columns=80, rows=24, locale="C.UTF-8"):
        self.tmux = [tmux, "-f", "/dev/null", "-S", str(folder / "tmux")]
        env = {"PATH": os.environ["PATH"], "LC_ALL": locale, "HOME": str(folder), "TERM": "screen"}
        line = " ".join(f"'{word}'" for word in command)
        subprocess.run([*self.tmux, "-u", "new-session", "-d", "-x", str(columns), "-y", str(rows), f"{line}; echo ended with $?; read x"],
                       check=True, env=env, cwd=folder, timeout=20)

    def grid(self):
        out = subprocess.run([*self.tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True, timeout=20).stdout
        return out.split("\n")

    def keys(self, *names):
        subprocess.run([*self.tmux, "send-keys", *names], check=True, timeout=20)

    def resize(self, columns, rows):
        subprocess.run([*self.tmux, "resize-window", "-x", str(columns), "-y", str(rows)], check=True, timeout=20)

    def until(self, expected, seconds=20):
        end = time.monotonic() + seconds
        while True:
            lines = self.grid()
            if expected in "\n".join(lines):
                return lines
            assert time.monotonic() < end, (expected, lines)
            time.sleep(0.05)

    def close(self):
        subprocess.run([*self.tmux, "kill-server"], capture_output=True, timeout=20)


@pytest.fixture
def terminal(installed, tmp_path):
    open_ones = []

    def start(*command, **options):
        open_ones.append(Terminal(installed("tmux"), tmp_path, command, **options))
        return open_ones[-1]
    yield start
    for one in open_ones:
        one.close()


def row_of(lines, name):
    return next(line for line in lines if line.rstrip().endswith(name))


def test_the_tree_opens_on_its_hot_path_and_keys_open_and_close(byteledger, recording, terminal):
    top = terminal(byteledger, "top", recording)
    lines = top.until("▾ leak")
    assert lines[2].split() == ["PEAK", "%", "SELF", "FUNCTION"]
    assert row_of(lines, "main").split()[:4] == ["8.00", "MiB", "100", "%"]
    assert row_of(lines, "leak").split()[:4] == ["7.00", "MiB", "87.5", "%"]
    assert row_of(lines, "cache").split()[4:6] == ["7.00", "MiB"]
    for _ in range(12):
        top.keys("Down")
    top.keys("Home", "Left")
    closed = top.until("▸ _start")
    assert not any("leak" in line for line in closed)
    top.keys("Right", "/", "s", "m", "a", "l", "l", "Enter")
    assert row_of(top.until("● small"), "small").split()[:4] == ["1.00", "MiB", "12.5", "%"]
    top.keys("q")
    top.until("ended with 0")


def test_the_table_counts_a_function_once_and_merges_as_asked(byteledger, recording, terminal):
    top = terminal(byteledger, "top", "--by", "function", recording)
    lines = top.until("cache")
    assert row_of(lines, "cache").split()[:7] == ["8.00", "MiB", "100", "%", "8.00", "MiB", "cache"]
    assert row_of(lines, "leak").split()[4:6] == ["0", "B"]
    top.keys("m")
    assert row_of(top.until("· module ·"), "[p]").split()[:4] == ["8.00", "MiB", "100", "%"]
    top.keys("c")
    top.until("allocated · module")
    top.keys("?")
    top.until("print the row's call path")
    top.keys("x", "q")
    top.until("ended with 0")


MANY = """#include <stdlib.h>
#define F(n) __attribute__((noinline)) void *tiny##n(void) { return malloc(100 + n); }
#define ALL(X) X(10) X(11) X(12) X(13) X(14) X(15) X(16) X(17) X(18) X(19)
ALL(F)
extern void byteledger_heap_set_marker(unsigned) __attribute__((weak));
#define C(n) keep[k++] = tiny##n();
void *keep[100];
int k;
__attribute__((noinline)) void *large(void) { return calloc(1, 3 << 20); }
__attribute__((noinline)) void *medium(void) { return calloc(1, 1 << 20); }
int main(void)
{
	keep[k++] = medium();
	ALL(C)
	if (byteledger_heap_set_marker) {
		byteledger_heap_set_marker(7);
		byteledger_heap_set_marker(23);
	}
	keep[k++] = large();
}
"""


@pytest.fixture(scope="module")
def many(byteledger, tmp_path_factory, installed):
    path = tmp_path_factory.mktemp("many")
    (path / "m.c").write_text(MANY)
    subprocess.run([installed("cc"), "-g", "-O0", "-o", str(path / "m"), str(path / "m.c")], check=True)
    subprocess.run([byteledger, "run", "-q", "-o", str(path / "m.blt"), "--", str(path / "m")], check=True, timeout=60)
    return str(path / "m.blt")


@pytest.mark.parametrize("locale, dots", [("C.UTF-8", "…"), ("C", "...")])
def test_small_callees_are_one_row_with_their_sum(byteledger, many, terminal, locale, dots):
    """Ten functions that hold a thousandth together do not push the others off the screen; Enter shows them, a search finds them."""
    top = terminal(byteledger, "top", many, columns=80, locale=locale)
    row = row_of(top.until("10 smaller"), f"{dots} 10 smaller")
    assert row.split()[:5] == ["1.12", "KiB", "<0.1", "%", "-"], row  # 10 x 100 + 10 + ... + 19
    assert not any("tiny" in line for line in top.grid())
    top.keys("End")
    top.until("10 that hold less each: <0.1 % of all")
    top.keys("Enter")
    shown = top.until("tiny10")
    assert sum("tiny" in line for line in shown) == 10 and not any("smaller" in line for line in shown)
    # whoever closes the caller finds it as it was at first
    top.keys("Left", "Left", "Right")
    top.until("10 smaller")
    top.keys("/", *"tiny14", "Enter")
    top.until("● tiny14" if dots == "…" else "* tiny14")
    top.keys("q")
    top.until("ended with 0")


def test_marks_stand_in_the_head_by_the_moment(byteledger, many, terminal):
    top = terminal(byteledger, "top", many, columns=120)
    top.until("▽ mark 23 at")
    assert ", 2 in all" in top.grid()[0]
    top.keys("q")
    top.until("ended with 0")


def test_a_table_is_sorted_by_the_next_column_and_then_the_other_way(byteledger, many, terminal):
    top = terminal(byteledger, "top", many, columns=80)
    top.until("10 smaller")
    top.keys("4")
    top.until("s:sort")
    assert "· by" not in top.grid()[1]
    for said in ("· by self", "· by self, other way", "· by name", "· by name, other way", "· whole recording", "· by total, other way", "· by self"):
        top.keys("s")
        head = top.until(said)[1]
        assert ("other way" in said) == ("other way" in head), head
    assert row_of(top.grid(), "large").split()[:2] == ["3.00", "MiB"]
    top.keys("q")
    top.until("ended with 0")


@pytest.mark.parametrize("columns, heads", [
    (60, "PEAK FUNCTION"), (80, "PEAK % SELF FUNCTION"), (120, "PEAK % SELF BLOCKS TEMP % FUNCTION"),
    (200, "PEAK % SELF BLOCKS TEMP % LIVE RATE/s FUNCTION CALL PATH, INNERMOST FIRST")])
@pytest.mark.parametrize("locale", ["C.UTF-8", "C"])
def test_columns_follow_the_width(byteledger, recording, terminal, columns, heads, locale):
    top = terminal(byteledger, "top", recording, columns=columns, locale=locale)
    lines = top.until("leak")
    assert lines[2].split() == heads.split()
    assert all(len(line) <= columns for line in lines)
    if locale == "C":
        assert all(ord(c) < 128 for line in lines for c in line), lines


def test_a_hundred_sizes_in_five_seconds_and_one_that_is_too_small(byteledger, recording, terminal):
    top = terminal(byteledger, "top", recording)
    top.until("leak")
    for i in range(100):
        top.resize(60 + i % 90, 12 + i % 40)
    top.resize(40, 10)
    top.until("top needs 60 columns and 12 rows")
    top.resize(100, 30)
    assert row_of(top.until("▾ leak"), "leak")
    top.keys("q")
    top.until("ended with 0")


def test_a_program_that_is_being_recorded_grows_and_rows_stay_under_the_cursor(byteledger, program, terminal, tmp_path):
    path = str(tmp_path / "live.blt")
    run = subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", program, "on"])
    try:
        while not os.path.exists(path):
            time.sleep(0.05)
        children = f"/proc/{run.pid}/task/{run.pid}/children"
        while not (pids := open(children).read().split()):
            time.sleep(0.05)
        pid = pids[0]
        time.sleep(2)
        top = terminal(byteledger, "top", "-p", pid, columns=100)
        first = row_of(top.until("leak"), "leak").split()[0]
        lines = top.until("+-", seconds=30)
        assert lines[2].split()[:3] == ["LIVE", "%", "SELF"]
        end = time.monotonic() + 30
        while row_of(lines, "leak").split()[0] == first or "+0" in row_of(lines, "leak"):
            assert time.monotonic() < end, lines
            time.sleep(0.2)
            lines = top.grid()
        top.keys("Space")
        top.until("held")
        held = row_of(top.grid(), "leak")
        time.sleep(2.5)
        assert row_of(top.grid(), "leak") == held
        top.keys("Space")
        os.kill(int(pid), signal.SIGTERM)
        top.until("ended")
        top.keys("y", "q")
        top.until("ended with 0")
    finally:
        run.terminate()
        run.wait(timeout=30)


def test_processes_by_what_they_hold_lead_to_the_heap_of_one_that_is_recorded(byteledger, program, terminal, tmp_path):
    """Two of one kind, one of them recorded: RSS as the kernel has it, Enter, and back again."""
    for name in ("a-crowd", "b-crowd"):
        shutil.copy(program, tmp_path / name)
    bare = subprocess.Popen([tmp_path / "b-crowd", "on"])
    run = subprocess.Popen([byteledger, "run", "-q", "-o", str(tmp_path / "live.blt"), "--", str(tmp_path / "a-crowd"), "on"])
    try:
        top = terminal(byteledger, "top", "-n", "[ab]-crowd", columns=100)
        top.until("a-crowd on", seconds=60)
        os.kill(bare.pid, signal.SIGSTOP)
        while open(f"/proc/{bare.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
            time.sleep(0.02)
        mib = int(open(f"/proc/{bare.pid}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)
        end = time.monotonic() + 30
        while abs(float(row_of(lines := top.grid(), "b-crowd on").split()[1]) - mib) > 0.06 + mib / 200:
            assert time.monotonic() < end, (mib, lines)
            time.sleep(0.1)
        assert lines[0].split()[:3] == ["byteledger", "2", "processes"] and lines[2].split()[:2] == ["PID", "RSS"]
        assert row_of(lines, "b-crowd on").split()[0] == str(bare.pid)
        top.keys("/", *"b-crowd", "Enter", "Enter")
        top.until(f"process {bare.pid} is not being recorded")
        assert "6reg" in top.until("CLASS OF MEMORY")[-2], "what it holds is shown all the same"
        top.keys("1")
        top.until("Enter:open")
        top.keys("/", *"a-crowd", "Enter")
        top.until('1 with "a-crowd"')
        top.keys("Enter")
        assert row_of(top.until("leak", seconds=30), "leak")
        top.keys("q")
        top.until("Enter:open")
        top.keys("q")
        top.until("ended with 0")
    finally:
        bare.kill()
        bare.wait(timeout=30)
        run.terminate()
        run.wait(timeout=30)


def test_without_a_terminal_it_says_what_does_the_same(byteledger, recording):
    done = subprocess.run([byteledger, "top", recording], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    assert done.returncode == 2 and "no terminal" in done.stderr and "byteledger report" in done.stderr


def test_a_process_that_is_not_there_is_said(byteledger, terminal):
    gone = subprocess.Popen(["true"])
    gone.wait(timeout=20)
    top = terminal(byteledger, "top", "-p", str(gone.pid))
    top.until(f"process {gone.pid}")
    top.until("ended with 1")
    done = subprocess.run([byteledger, "top", "-p", "0"], capture_output=True, text=True, timeout=20)
    assert done.returncode == 2 and "is not a process id" in done.stderr
