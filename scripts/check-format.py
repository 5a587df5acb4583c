#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file stands as clang-format 14 would write it. Prints TAP, one case. usage: check-format.py [ROOT]"""
import os
import subprocess
import sys

ROOT = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), ".."))


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
    print("1..1")
    print(f"{'not ok' if wrong else 'ok'} 1 - {len(paths)} files are formatted")
    for path in sorted(wrong):
        print(f"# {os.path.relpath(path, ROOT)} (hint: ./dev format)")
    if run.returncode and not wrong:
        print(f"Bail out! clang-format-14: {run.stderr.strip()[:400]}")
        return 1
    return 1 if wrong else 0


sys.exit(main())
