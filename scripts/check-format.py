#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file stands as clang-format 14 would write it, and no line of src/, comments too, has more than 100 columns but in a table
between `clang-format off` and `on`; what clang-tidy is to leave alone on the next line is said on the last line of a comment. Prints
TAP, three cases. usage: check-format.py [ROOT]"""
import os
import subprocess
import sys

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))


COLUMNS = 100


def too_wide(path):
    """The first line of @path that is; 0: none. Tabs are 8 wide."""
    table = False
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            table = "clang-format off" in line or (table and "clang-format on" not in line)
            if not table and len(line.rstrip("\n").expandtabs(8)) > COLUMNS:
                return number
    return 0


def tidy_astray(path):
    """The first line of @path whose NOLINTNEXTLINE speaks of the rest of its own comment; 0: none."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if "NOLINTNEXTLINE" in line and not line.rstrip().endswith("*/") and "//" not in line:
                return number
    return 0


def c_files():
    for top in ("src", "include", "tests", "bench"):
        for folder, _, names in os.walk(os.path.join(ROOT, top)):
            for name in sorted(names):
                if name.endswith((".c", ".h")):
                    yield os.path.join(folder, name)


def main():
    paths = list(c_files())
    run = subprocess.run(["clang-format-14", "--style=file", "--dry-run", "--ferror-limit=1", *paths],
                         capture_output=True, text=True, cwd=ROOT)
    wrong = {line.split(":")[0] for line in run.stderr.splitlines() if "clang-format-violations" in line}
    wide = {os.path.relpath(path, ROOT): number for path in paths if path.startswith(os.path.join(ROOT, "src") + os.sep)
            and (number := too_wide(path))}
    astray = {os.path.relpath(path, ROOT): number for path in paths if (number := tidy_astray(path))}
    print("1..3")
    print(f"{'not ok' if wrong else 'ok'} 1 - {len(paths)} files are formatted")
    for path in sorted(wrong):
        print(f"# {os.path.relpath(path, ROOT)} (hint: ./dev format)")
    print(f"{'not ok' if wide else 'ok'} 2 - lines of src have at most {COLUMNS} columns")
    for path, number in sorted(wide.items()):
        print(f"# {path}:{number}")
    print(f"{'not ok' if astray else 'ok'} 3 - NOLINTNEXTLINE stands before the line that it means")
    for path, number in sorted(astray.items()):
        print(f"# {path}:{number}")
    if run.returncode and not wrong:
        print(f"Bail out! clang-format-14: {run.stderr.strip()[:400]}")
        return 1
    return 1 if wrong or wide or astray else 0


sys.exit(main())
