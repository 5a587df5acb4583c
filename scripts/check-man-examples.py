#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The page of a library against its header: its synopsis declares what the header does, and its examples build and run.
usage: check-man-examples.py PAGE HEADER LIBRARY.a CC..."""
import os
import re
import socket
import subprocess
import sys
import tempfile

page, header, library, *cc = sys.argv[1:]
with open(page, encoding="utf-8") as f:
    lines = f.read().split("\n")
with open(header, encoding="utf-8") as f:
    declared = set(re.findall(r"^[a-z_ ]+\*?\b(\w+)\(", re.sub(r"/\*.*?\*/", "", f.read(), flags=re.S), re.M))


def plain(text):
    for roff, char in ((r"\-", "-"), (r"\(ga", "`"), (r"\(dq", '"'), (r"\&", ""), (r"\e", "\\")):
        text = text.replace(roff, char)
    return text


def blocks(begin, end):
    found = []
    for line in lines:
        if line == begin:
            found.append([])
            inside = True
        elif line == end and found:
            inside = False
        elif found and inside:
            found[-1].append(line)
    return found


def font_macro(line):
    """".BI "int f(int " fd );" as one text: arguments are joined, quotes go."""
    words = re.findall(r'"([^"]*)"|(\S+)', line.split(" ", 1)[1])
    return "".join(quoted or bare for quoted, bare in words)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def build(source, before, after=()):
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program")
        argv = [*cc, "-Wall", "-Wextra", "-Werror", "-I", os.path.dirname(header), *before, "-", "-o", program, *after]
        done = subprocess.run(argv, input=source, capture_output=True, text=True)
        if done.returncode != 0 or "-c" in argv:
            return done
        return subprocess.run([program], capture_output=True, text=True, timeout=60)


synopsis = [font_macro(line) for line in blocks(".SH SYNOPSIS", ".SH DESCRIPTION")[0] if line.startswith(".BI ")]
named = {re.search(r"(\w+)\(", text).group(1) for text in synopsis}
cases = [("the synopsis has every function of the header", named == declared and named != set(), f"{named ^ declared}")]
# a declaration that differs from the header's does not compile beside it
done = build("#include <byteledger.h>\n" + "\n".join(synopsis), ["-x", "c", "-c"])
cases.append(("the synopsis declares what the header does", done.returncode == 0, done.stderr))
examples = ["\n".join(map(plain, block)) for block in blocks(".EX", ".EE")]
used = {name for name in declared if any(name + "(" in source for source in examples)}
cases.append(("the examples use every function", used == declared, f"{declared - used}"))
for number, source in enumerate(examples, 1):
    source = source.replace(":6060", f":{free_port()}")
    for language in ("c", "c++"):
        done = build(source, ["-x", language], ["-x", "none", library, "-pthread"])
        good = done.returncode == 0 and re.search("anonymous|sum of all mappings", done.stdout.lower()) and not done.stderr
        cases.append((f"example {number} works as {language}", good, done.stderr + done.stdout))

print(f"1..{len(cases)}")
for number, (name, good, why) in enumerate(cases, 1):
    print(f"{'ok' if good else 'not ok'} {number} - {name}")
    if not good:
        print("".join(f"# {line}\n" for line in why.splitlines()), end="")
sys.exit(not all(good for _, good, _ in cases))
