#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--help` and the manual say the same: every command has a page, every option stands in both. Prints TAP.

usage: check-help.py BYTELEDGER MAN-FOLDER
"""
import os
import re
import subprocess
import sys

OPTION = re.compile(r"(?<![\w-])(--[a-z][a-z0-9-]*|-[A-Za-z0-9?])(?![\w])")
COMMON = {"--help", "--usage", "--version", "-?", "-V", "-h"}


def run(*argv):
    return subprocess.run(argv, capture_output=True, text=True, env=dict(os.environ, ARGP_HELP_FMT="rmargin=200"))


def commands(program):
    out = run(program, "--help").stdout
    section = out.split("Commands:", 1)[1] if "Commands:" in out else ""
    return re.findall(r"^  ([a-z][a-z-]*) ", section, re.M)


def help_options(text):
    """Option tokens at the head of an indented line; the description may name others, which are not counted."""
    found = set()
    for line in text.splitlines():
        head = re.match(r"\s{1,8}(-\S.*?)(?:\s{2,}|$)", line)
        if head:
            found |= set(OPTION.findall(re.sub(r"=\S+|\[=?\S+\]", "", head.group(1))))
    return found - COMMON


def man_options(text):
    """Options of the tag lines (.TP's next line, .It) in a man page."""
    found, tag = set(), False
    for line in text.splitlines():
        if tag:
            plain = re.sub(r'^\.[A-Z]+ |\\f[BIRP]|"', " ", line).replace("\\-", "-")
            found |= set(OPTION.findall(re.sub(r"=\s*\S+", "", plain)))
        tag = line.startswith((".TP", ".TQ"))
    return found - COMMON


def examples(text):
    """The lines of a page's EXAMPLES."""
    section = re.search(r"^\.SH EXAMPLES\n(.*?)(?=^\.SH |\Z)", text, re.M | re.S)
    return [] if not section else [line.replace("\\-", "-") for line in section.group(1).splitlines() if not line.startswith(".")]


def example_faults(program, text):
    """Options of byteledger's own in EXAMPLES that it does not have."""
    lines, faults = examples(text), []
    if not lines:
        return ["no EXAMPLES"]
    for line in lines:
        for call in re.findall(r"\bbyteledger ([a-z]+)((?: [^|&;>]*)?)", line):
            own = re.split(r" -- ", call[1] + " ")[0]
            known = help_options(run(program, call[0], "--help").stdout) | COMMON
            faults += [f"'{call[0]}' has no {o}: {line}" for o in OPTION.findall(re.sub(r"'[^']*'|=\S+", "", own)) if o not in known]
    return faults


def main():
    program, man = sys.argv[1], sys.argv[2]
    names = commands(program)
    cases = []
    main_page = os.path.join(man, "byteledger.1")
    text = open(main_page, encoding="utf-8").read() if os.path.exists(main_page) else ""
    listed = set(re.findall(r"byteledger\\-([a-z-]+)", text))
    cases.append(("byteledger.1 lists exactly the commands that exist",
                  [f"not in the page: {n}" for n in names if n not in listed] +
                  [f"not a command: {n}" for n in sorted(listed - set(names))]))
    for name in names:
        page = os.path.join(man, f"byteledger-{name}.1")
        if not os.path.exists(page):
            cases.append((f"{name} has a man page", [f"{page} is missing"]))
            continue
        done = run(program, name, "--help")
        in_help = help_options(done.stdout)
        in_man = man_options(open(page, encoding="utf-8").read())
        faults = [f"only in --help: {o}" for o in sorted(in_help - in_man)]
        faults += [f"only in the man page: {o}" for o in sorted(in_man - in_help)]
        if done.returncode != 0:
            faults.append(f"--help ended with {done.returncode}")
        cases.append((f"{name} --help and its man page name the same options", faults))
        cases.append((f"{name} has examples, of options that it has", example_faults(program, open(page, encoding="utf-8").read())))
    pages = [p for p in os.listdir(man) if re.fullmatch(r"byteledger-.*\.1", p)]
    cases.append(("every page belongs to a command",
                  [p for p in pages if p[len("byteledger-"):-2] not in names]))
    print(f"1..{len(cases)}")
    for number, (title, faults) in enumerate(cases, 1):
        print(f"{'not ok' if faults else 'ok'} {number} - {title}")
        for fault in faults:
            print("# " + fault)
    return 1 if any(f for _, f in cases) else 0


sys.exit(main())
