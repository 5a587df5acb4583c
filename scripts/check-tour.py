#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every stop of docs/tour.md, `FILE: FUNCTION()` or `FILE`, is there. Prints TAP. usage: check-tour.py SOURCE-FOLDER"""
import os
import re
import sys

STOP = re.compile(r"`(src/[\w./-]+?)(?::\s+(\w+)\(\))?`")


def main():
    root = sys.argv[1]
    with open(os.path.join(root, "docs", "tour.md"), encoding="utf-8") as file:
        stops = STOP.findall(file.read())
    faults = []
    for path, function in stops:
        full = os.path.join(root, path)
        if not os.path.exists(full):
            faults.append(f"{path} is not there")
            continue
        if not function or os.path.isdir(full):
            continue
        with open(full, encoding="utf-8") as file:
            # its definition: the name stands at the start of a line, behind a type
            if not re.search(rf"^[\w *()]*\b{function}\(", file.read(), re.M):
                faults.append(f"{path} has no {function}()")
    if len(stops) < 30:
        faults.append(f"only {len(stops)} stops were found: has the notation changed?")
    print("1..1")
    print(f"{'not ok' if faults else 'ok'} 1 - {len(stops)} stops of the tour are there")
    for fault in faults:
        print(f"# {fault}")
    return 1 if faults else 0


sys.exit(main())
