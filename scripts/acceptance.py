#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""docs/acceptance.md: what byteledger has to show, a line each. Prints TAP, one case per rule.

usage: acceptance.py [ROOT]             hold the page against what it is made of, and its lines to 200 characters
       acceptance.py --write [ROOT]     make it
       acceptance.py --record FILE...   take figures of `./dev bench` (build/bench/*.json) into docs/acceptance.json, and make it

It is made of the full rows in docs/history/*.md, cut to fit, and of docs/acceptance.json, which has better words for some of them:
those that `./dev bench --record` writes ("by": "bench"), and others ("by": "hand").
"""
import json
import os
import re
import sys

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MOST = 200
BAR, FIGURE, COMMAND, DATE = 64, 52, 36, 10
VERDICTS = ("holds", "met", "not met", "not settled", "in part", "open")
COLUMNS = ["#", "must show", "newest figure", "verdict", "command", "date"]
CELL = re.compile(r"(?<!\\)\|")
# What a figure of `./dev bench` is the row of: file, section, how the row is found in it.
RECORDED = {
    "pairs": ("heap", lambda r: {("same", 30): "C1", ("reenter", 30): "C2", ("paths", 30): "C3"}.get((r.get("shape"), r.get("depth")))),
    "threads": ("heap", lambda r: "C9"),
    "reading": ("heap", lambda r: "R1" if r.get("program") == "clang" else None),
}


def cells(line):
    return [c.strip() for c in CELL.split(line.strip())[1:-1]]


def sections(root):
    """[(name, title, text above, rows)] of docs/history, in the order that docs/history/README.md lists them."""
    folder = os.path.join(root, "docs", "history")
    names = re.findall(r"^- \[.*?\]\((.*?)\.md\)", open(os.path.join(folder, "README.md"), encoding="utf-8").read(), re.M)
    for name in names:
        title, above, rows = "", [], []
        for line in open(os.path.join(folder, name + ".md"), encoding="utf-8").read().split("\n"):
            if line.startswith("# "):
                title = line[2:]
            elif line.startswith("|"):
                rows.append(cells(line))
        yield name, title, [r for r in rows[2:]]


def whole(text):
    """@text, which was cut somewhere, marked and closed."""
    text = text.rstrip(" ,;:(-=<>+")
    return text + (" …`" if text.count("`") % 2 else " …")


def cut(text, most):
    text = text.replace("**", "")
    if len(text) <= most:
        return text
    at = text.rfind(" ", 0, most - 2)
    return whole(text[:at if at > most // 2 else most - 2])


def newest(figure):
    """The part that tells most: from the first figure in bold on, where it stands too far behind."""
    at = 0
    for i, part in enumerate(figure.split("**")):
        if i % 2 and re.search(r"\d", part):
            return figure[at:] if at + len(part) > FIGURE else figure
        at += len(part) + 2
    return figure


def judge(figure):
    lower = figure.lower()
    if "not met" in lower:
        return "in part" if re.search(r"(?<!not )\bmet\b", lower) else "not met"
    if re.match(r"(\*\*)?not yet|^-$|^$", lower):
        return "open"
    if "not settled" in lower:
        return "not settled"
    if "not yet" in lower or "not measured" in lower:
        return "in part"
    return "met" if re.search(r"\bmet\b", lower) else "holds"


def render(root):
    known = json.load(open(os.path.join(root, "docs", "acceptance.json"), encoding="utf-8"))
    out = [open(os.path.join(root, "docs", "history", "acceptance.head"), encoding="utf-8").read().rstrip(), ""]
    for name, title, rows in sections(root):
        out += [f"## {title}", "", f"In full: [history/{name}.md](history/{name}.md).", "",
                "| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
        for row in rows:
            number, bar, figure, command, date = (row + [""] * 5)[:5]
            better = known.get(name, {}).get(number, {})
            verdict = better.get("verdict") or judge(figure)
            line = [number, cut(better.get("bar", bar), BAR), cut(better.get("figure") or newest(figure), FIGURE), verdict,
                    cut(better.get("command", command), COMMAND), better.get("date", date)[:DATE]]
            out.append("| " + " | ".join(line) + " |")
        out.append("")
    return "\n".join(out)


def record(root, paths):
    where = os.path.join(root, "docs", "acceptance.json")
    known = json.load(open(where, encoding="utf-8"))
    for path in paths:
        name = os.path.splitext(os.path.basename(path))[0]
        if name not in RECORDED:
            print(f"{name}: its rows are written by hand")
            continue
        data, (section, find) = json.load(open(path, encoding="utf-8")), RECORDED[name]
        rows = data[name] if isinstance(data[name], list) else [data]
        for row in rows:
            number, found = find(row), row.get("estimate")
            if not number or not found or row.get("void"):
                continue
            low, high = (x if x is not None else float("nan") for x in found["interval"])
            better = known.setdefault(section, {}).setdefault(number, {})
            better.update(by="bench", figure=f"{found['figure']:.3f} ({low:.3f} to {high:.3f}; {found['rounds']} rounds)",
                          verdict=found["verdict"], command=f"`{data['command']}`", date=data["date"][:10])
            print(f"{section} {number}: {better['figure']}, {better['verdict']}")
    with open(where, "w", encoding="utf-8") as to:
        json.dump(known, to, indent=1, ensure_ascii=False, sort_keys=True)
        to.write("\n")


def write(root):
    with open(os.path.join(root, "docs", "acceptance.md"), "w", encoding="utf-8") as to:
        to.write(render(root))


def check(root):
    text = open(os.path.join(root, "docs", "acceptance.md"), encoding="utf-8").read()
    rows = [line for line in text.split("\n") if line.startswith("|") and not line.startswith("|---")]
    known = json.load(open(os.path.join(root, "docs", "acceptance.json"), encoding="utf-8"))
    there = {name: {r[0] for r in rows_of} for name, _, rows_of in sections(root)}
    cases = [
        ("rows have at most 200 characters", [f"{len(r)}: {r[:60]}" for r in rows if len(r) > MOST]),
        ("rows have six columns", [r[:60] for r in rows if len(cells(r)) != len(COLUMNS)]),
        ("verdicts are one of six", [r[:60] for r in rows if len(cells(r)) > 3 and cells(r)[3] not in VERDICTS + ("verdict",)]),
        ("better words are of rows that are there", [f"{s} {n}" for s in known for n in known[s] if n not in there.get(s, ())]),
        ("the page is as it is made (scripts/acceptance.py --write)", [] if text == render(root) else ["docs/acceptance.md"]),
    ]
    print(f"1..{len(cases)}")
    for i, (name, faults) in enumerate(cases, 1):
        print(f"{'not ok' if faults else 'ok'} {i} - {name}")
        for fault in faults:
            print(f"# {fault}")
    return any(faults for _, faults in cases)


def main():
    words = sys.argv[1:]
    if words[:1] and words[0] in ("--help", "-h"):
        return print(__doc__.strip())
    if words[:1] and words[0].startswith("-") and words[0] not in ("--record", "--write"):
        print(f"acceptance.py: unknown option '{words[0]}'\nhint: acceptance.py --help", file=sys.stderr)
        return 2
    if words[:1] == ["--record"]:
        record(HERE, words[1:])
        return write(HERE)
    if words[:1] == ["--write"]:
        return write(words[1] if len(words) > 1 else HERE)
    return check(words[0] if words else HERE)


if __name__ == "__main__":
    sys.exit(main())
