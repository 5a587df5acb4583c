#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every C file stands as clang-format 14 would write it, and no line of src/, comments too, has more than 100 columns but in a table
between `clang-format off` and `on`; what clang-tidy is to leave alone on the next line is said on the last line of a comment; what is
said of a member of a struct or union stands above it (of an enumerator: where it fits, they are lists). Prints TAP, five cases.
usage: check-format.py [ROOT]"""
import os
import re
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


# What is no code, and a directive with its continued lines.
ASIDE = re.compile(r'(/\*.*?\*/|//[^\n]*)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\\\n/]|\\\n|\\.|/(?![*/]))*', re.S | re.M)
HAS_MEMBERS = re.compile(r"\b(?:struct|union)(?:\s+\w+|\s+__attribute__\s*\(\(.*?\)\))*\s*$", re.S)
MARK = "\1"  # stands for a comment


def beside_members(text):
    """Lines of comments behind a member of a struct or union, or amid one."""
    def mask(match):
        return (MARK if match[1] else "") + "\n" * match[0].count("\n")

    code, inside, begin, lines = ASIDE.sub(mask, text), [], 0, []
    for match in re.finditer("[{};" + MARK + "]", code):
        at, what = match.start(), match[0]
        head = code[begin:at].replace(MARK, "")
        if what == MARK:
            before = code[code.rfind("\n", 0, at) + 1:at].replace(MARK, "").strip()
            if inside and inside[-1] and (head.strip() or (before and not before.endswith("{"))):
                lines.append(code.count("\n", 0, at) + 1)
            continue
        if what == "{":
            inside.append("=" not in head and bool(HAS_MEMBERS.search(head)))
        elif what == "}" and inside:
            inside.pop()
        begin = at + 1
    return lines


BESIDE = [  # what is refused, and on which lines; what is not
    ("struct a {\n\tint b; /* c */\n};\n", [2]),
    ("struct a {\n\tint b,\n\t\tc; // d\n\tint e\n\t\t/* f */\n\t\t[2];\n};\n", [3, 5]),
    ("static const struct {\n\tunion __attribute__((packed)) {\n\t\tint a; /* b\n\t\t\t* c */\n\t} d; /* e */\n} f[] = { { 1 }, /* g */\n};\n", [3, 5]),
    ("struct a { /* b */\n\t/* c */\n\tint d;\n}; /* e */\n", []),
    ("enum a {\n\tB, /* c */\n};\nstruct d {\n\tenum {\n\t\tE, /* f */\n\t} g;\n};\n", []),
    ("int a(void)\n{\n\tstruct b c = { 0 }; /* d */\n\tuse((struct b){\n\t\t1, /* e */\n\t});\n\treturn '\"'; /* f */\n}\n", []),
    ("#define A(b) struct b { \\\n\tint c; /* d */ \\\n}\nstruct e {\n\tA(f);\n#ifdef G /* h */\n\tint i;\n#endif /* j */\n};\n", []),
]


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
    beside = {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            if lines := beside_members(file.read()):
                beside[os.path.relpath(path, ROOT)] = lines
    unseen = [(text, lines, seen) for text, lines in BESIDE if (seen := beside_members(text)) != lines]
    print("1..5")
    print(f"{'not ok' if wrong else 'ok'} 1 - {len(paths)} files are formatted")
    for path in sorted(wrong):
        print(f"# {os.path.relpath(path, ROOT)} (hint: ./dev format)")
    print(f"{'not ok' if wide else 'ok'} 2 - lines of src have at most {COLUMNS} columns")
    for path, number in sorted(wide.items()):
        print(f"# {path}:{number}")
    print(f"{'not ok' if astray else 'ok'} 3 - NOLINTNEXTLINE stands before the line that it means")
    for path, number in sorted(astray.items()):
        print(f"# {path}:{number}")
    print(f"{'not ok' if beside else 'ok'} 4 - comments of members of structs and unions stand above them")
    for path, lines in sorted(beside.items()):
        print(f"# {path}:{', '.join(map(str, lines))} (hint: a line of its own above the member; beside enumerators they may stay)")
    print(f"{'not ok' if unseen else 'ok'} 5 - which comments those are")
    for text, lines, seen in unseen:
        print(f"# {text!r}: lines {seen}, not {lines}")
    if run.returncode and not wrong:
        print(f"Bail out! clang-format-14: {run.stderr.strip()[:400]}")
        return 1
    return 1 if wrong or wide or astray or beside or unseen else 0


sys.exit(main())
