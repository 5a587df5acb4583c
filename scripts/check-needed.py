#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What runs inside other people's programs needs libc and nothing else. Prints TAP. usage: check-needed.py BUILD"""
import os
import re
import subprocess
import sys

ALLOWED = re.compile(r"libc\.so\.6|ld-linux.*\.so\.\d+")
OLDEST_GLIBC = (2, 17)
# library -> pattern of symbols that it may export; all else is a leak of our insides into the program
LIBRARIES = ("libbyteledger-heap.so", "libbyteledger.so")


def main():
    build = sys.argv[1]
    cases = []
    for name in LIBRARIES:
        path = os.path.join(build, name)
        if not os.path.exists(path):
            continue
        out = subprocess.run(["readelf", "-dW", path], capture_output=True, text=True, check=True).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*?)\]", out)
        wrong = [n for n in needed if not ALLOWED.fullmatch(n)]
        cases.append((f"{name} needs only libc", [f"needs {n}" for n in wrong]))
        if name == "libbyteledger-heap.so":
            # it is built on one system and loaded into programs of others: what it asks for has been there since 2012
            out_symbols = subprocess.run(["objdump", "-T", path], capture_output=True, text=True, check=True).stdout
            versions = sorted({tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([0-9.]+)", out_symbols)})
            newer = [v for v in versions if v > OLDEST_GLIBC]
            cases.append((f"{name} asks for nothing newer than glibc 2.17", ["asks for GLIBC_" + ".".join(map(str, v)) for v in newer]
                          + ([] if versions else ["no version is seen"])))
        cases.append((f"{name} has no text relocations", ["TEXTREL"] if "TEXTREL" in out else []))
    if not cases:
        print("1..0 # SKIP no library is built yet")
        return 0
    print(f"1..{len(cases)}")
    for number, (title, faults) in enumerate(cases, 1):
        print(f"{'not ok' if faults else 'ok'} {number} - {title}")
        for fault in faults:
            print("# " + fault)
    return 1 if any(f for _, f in cases) else 0


sys.exit(main())
