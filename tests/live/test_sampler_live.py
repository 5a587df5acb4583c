# SPDX-License-Identifier: Apache-2.0
"""`byteledger sample` on a terminal, in tmux: what is redrawn, how wide it is, and what Ctrl-C leaves behind."""
import re
import subprocess
import sys
import time

from test_sampler import go, pytestmark, running  # noqa: F401
from test_top import terminal  # noqa: F401  pylint: disable=unused-import

ASKS = """import sys
kept = []
for line in sys.stdin:
    kept += [bytearray(1 << 20) for _ in range(64)]
    print(len(kept), flush=True)
"""


def tmux(of, *words):
    return subprocess.run([*of.tmux, *words], capture_output=True, text=True, check=True, timeout=20).stdout


def told(of, least):
    """The screen once it tells of so many MiB, lines that were too wide for it as one."""
    until = time.monotonic() + 30
    while True:
        lines = [line.rstrip() for line in tmux(of, "capture-pane", "-p", "-J").split("\n")]
        found = [re.match(r"([\d.]+) MiB in [\d,]+ allocations", line) for line in lines]
        if any(one and least <= float(one[1]) < least + 16 for one in found):
            return lines
        assert time.monotonic() < until, (least, lines)
        time.sleep(0.05)


def test_the_screen_is_redrawn_within_its_width_and_ctrl_c_leaves_a_report_and_a_sane_terminal(byteledger, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    with running(sys.executable, "-c", ASKS) as p:
        shell = terminal("sh", columns=80, rows=24)
        shell.keys("stty -g > before; echo first $?", "Enter")
        shell.until("first 0")
        shell.keys(f"'{byteledger}' sample -p {p.pid} --all", "Enter")
        until = time.monotonic() + 30
        while tmux(shell, "display-message", "-p", "#{alternate_on}") != "1\n":
            assert time.monotonic() < until, shell.grid()
            time.sleep(0.05)
        for mib in (64, 128):
            go(p)
            assert p.stdout.readline() == f"{mib}\n"
            lines = told(shell, mib)
            assert max(map(len, lines)) <= 80 and len(lines) <= 25, lines
            assert "first 0" not in lines, "the shell's text is on another screen"
        shell.keys("C-c")
        shell.keys("stty -g > after; cmp before after; echo ended $?", "Enter")
        lines = shell.until("ended 0")
        assert tmux(shell, "display-message", "-p", "#{alternate_on} #{cursor_flag}") == "0 1\n"
        text = tmux(shell, "capture-pane", "-p", "-J", "-S", "-").split("\n")
        total = next(i for i, line in enumerate(text) if re.match(r"1(2[89]|3\d)\.?\d* MiB in [\d,]+ allocations", line))
        assert any("PyByteArray" in line or "python3" in line for line in text[total:]), "the last report has no stacks"
        assert "first 0" in "\n".join(text[:total]), "the shell's text is gone"
        assert max(map(len, text[total:])) <= 80, text
        go(p)
        assert p.stdout.readline() == "192\n"
