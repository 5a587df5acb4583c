#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every note of docs/decisions is one page: question, choice, rejected, figure, in this order. Prints TAP. usage: check-decisions.py ROOT"""
import os
import re
import sys

PARTS = ["Question", "Choice", "Rejected", "Figure"]
PAGE = 4500  # characters


def main():
    folder = os.path.join(sys.argv[1], "docs", "decisions")
    faults, names = [], sorted(os.listdir(folder))
    for number, name in enumerate(names, 1):
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            text = file.read()
        found = [word for word in re.findall(r"^\*\*(\w+)\.\*\*", text, re.M) if word in PARTS]
        if not name.startswith(f"{number:04}-") or not text.startswith(f"# {number:04}: "):
            faults.append(f"{name} is not number {number:04}, or its title does not say so")
        if found != PARTS:
            faults.append(f"{name} has {', '.join(found) or 'no parts'} where {', '.join(PARTS)} are told, each once")
        if len(text) > PAGE:
            faults.append(f"{name} has {len(text)} characters, more than a page ({PAGE}): the rest goes into docs/history/decisions.md")
    print("1..1")
    print(f"{'not ok' if faults else 'ok'} 1 - {len(names)} decisions are told on a page each")
    for fault in faults:
        print(f"# {fault}")
    return 1 if faults else 0


sys.exit(main())
