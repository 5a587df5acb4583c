#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Run one golden case and compare with what it printed when it was blessed. Prints TAP.

usage: golden.py BYTELEDGER CASE-FOLDER [--bless]
The case's `cmd` is run by sh in a scratch folder; stdout is compared, stderr and the status only if `cmd` prints them.
"""
import difflib
import os
import subprocess
import sys
import tempfile


def run(program, case):
    env = dict(os.environ, BYTELEDGER=os.path.abspath(program), SRC=os.path.abspath(case), LC_ALL="C.UTF-8",
               NO_COLOR="1", COLUMNS="100", TZ="UTC")
    with tempfile.TemporaryDirectory() as scratch:
        with open(os.path.join(case, "cmd"), encoding="utf-8") as f:
            script = f.read()
        done = subprocess.run(["sh", "-c", script], env=env, cwd=scratch, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def main():
    program, case = sys.argv[1], sys.argv[2]
    bless = "--bless" in sys.argv[3:]
    name = os.path.basename(case.rstrip("/"))
    expect_path = os.path.join(case, "expect")
    got, chatter = run(program, case)
    try:
        with open(expect_path, encoding="utf-8") as f:
            want = f.read()
    except FileNotFoundError:
        want = ""
    diff = list(difflib.unified_diff(want.splitlines(), got.splitlines(), "expected", "printed", lineterm=""))
    if bless:
        print("\n".join(diff) if diff else f"{name}: no difference")
        with open(expect_path, "w", encoding="utf-8") as f:
            f.write(got)
        return 0
    print("1..1")
    print(f"{'ok' if got == want and want else 'not ok'} 1 - {name}")
    for line in diff[:200]:
        print("# " + line)
    if diff and chatter:
        print("# stderr: " + chatter[:2000].replace("\n", "\n# "))
    return 0 if got == want and want else 1


sys.exit(main())
