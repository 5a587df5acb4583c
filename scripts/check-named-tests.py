#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every test that the documentation names exists, and every row of the recorder's tables names one. Prints TAP.

usage: check-named-tests.py SOURCE-FOLDER

Names in backquotes: FILE.py::TEST (tests/live), unit_NAME::TEST (tests/unit/test_NAME.c), fuzz_NAME (tests/fuzz).
"""
import glob
import os
import re
import sys

NAME = re.compile(r"`(?:(test_\w+\.py)::(test_\w+)(?:\[[^\]`]*\])?|unit_(\w+)::(\w+)|fuzz_(\w+))`")
ACCEPTANCE = ["p2p_limit", "p2p_cursor", "p2p_types_filter", "check_messages", "wait", "log level", "log pagination", "log timestamp",
              "timestamp and level", "full text", "size"]
WEAKNESSES = [f"W{n}" for n in range(1, 29)]


def read(*path):
    try:
        with open(os.path.join(*path), encoding="utf-8") as file:
            return file.read()
    except OSError:
        return ""


def exists(root, hit):
    file, test, unit, case, fuzz = hit
    if file:
        return re.search(rf"^def {test}\(", read(root, "tests", "live", file), re.M)
    if unit:
        return re.search(rf"cmocka_unit_test\w*\(\s*{case}\b", read(root, "tests", "unit", f"test_{unit}.c"))
    return read(root, "tests", "fuzz", f"fuzz_{fuzz}.c") and f"'{fuzz}':" in read(root, "tests", "fuzz", "meson.build")


def main():
    root = sys.argv[1]
    results = []
    for path in sorted(glob.glob(os.path.join(root, "docs", "**", "*.md"), recursive=True)):
        text = read(path)
        for match in NAME.finditer(text):
            results.append((bool(exists(root, match.groups())), f"{os.path.basename(path)} names {match.group(0)}"))
    rows = {}
    for line in read(root, "docs", "network.md").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if line.startswith("| ") and len(cells) >= 2:
            # commas part the tests of a row, but for those in brackets
            for name in re.sub(r"\([^)]*\)", "", cells[0]).split(","):
                rows[name.strip()] = bool(NAME.search(cells[-1]))
    for name in ACCEPTANCE + WEAKNESSES:
        results.append((rows.get(name, False), f"network.md names a test for {name}"))
    print(f"1..{len(results)}")
    for number, (good, what) in enumerate(results, 1):
        print(f"{'ok' if good else 'not ok'} {number} - {what}")
    return 0 if all(good for good, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
