#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What commits say: `room: What it does` in at most 72 characters, an empty line, and why. Prints TAP.

usage: check-commits.py ROOT            the last hundred since the rule began
       check-commits.py --message FILE  one that is about to be made (scripts/hooks/commit-msg)
"""
import os
import re
import subprocess
import sys

SINCE = "2026-11-25T01:30:00Z"
SUBJECT = re.compile(r"(Revert \"|[a-z0-9_*./-]+(, [a-z0-9_*./-]+)*: [A-Z0-9`'\"/])")


def faults(message):
    lines = [line for line in message.rstrip("\n").split("\n") if not line.startswith("#")]
    subject = lines[0] if lines else ""
    found = []
    if len(subject) > 72:
        found.append(f"the subject has {len(subject)} characters, at most 72 are read everywhere")
    if not SUBJECT.match(subject):
        found.append("the subject begins with the room: `trace: Write an index`")
    if subject.endswith("."):
        found.append("the subject ends with a full stop")
    if len(lines) > 1 and lines[1]:
        found.append("an empty line follows the subject")
    if not "".join(lines[2:]).strip():
        found.append("nothing says why")
    return found


def main():
    if sys.argv[1:2] == ["--message"]:
        with open(sys.argv[2], encoding="utf-8") as f:
            found = faults(f.read())
        for fault in found:
            print(f"commit: {fault}", file=sys.stderr)
        return 1 if found else 0
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    if not os.path.exists(os.path.join(root, ".git")):
        print("1..0 # SKIP a source tarball has no commits")
        return 0
    out = subprocess.run(["git", "-C", root, "-c", f"safe.directory={os.path.realpath(root)}", "log", "--no-merges", "-100",
                          f"--since={SINCE}", "--format=%h%x00%B%x01"], capture_output=True, text=True, check=True).stdout
    bad = []
    commits = [c.strip("\n") for c in out.split("\x01") if c.strip()]
    for commit in commits:
        name, message = commit.split("\0", 1)
        bad += [f"{name}: {fault}" for fault in faults(message)]
    for line in bad:
        print(f"# {line}")
    print("1..1")
    print(f"{'not ' if bad else ''}ok 1 - {len(commits)} commits say what and why")
    return 1 if bad else 0


sys.exit(main())
