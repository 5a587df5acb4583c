#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fold the fragments of news/ into NEWS.md, under the version that is being made, and remove them.

usage: news.py [SOURCE-FOLDER] [NUMBER-FROM NUMBER-TO]    (the first three digits of the names; all without)
"""
import os
import re
import sys

AREAS = [("Network and logs", r"network recorder|^net\b|`net |`byteledger net|log lines?\b|pcap|identit"),
         ("Memory by mapping", r"`regions|`byteledger regions|/debug/memory|libbyteledger|--alert|--history|mappings? of"),
         ("The page, the screen, comparisons", r"web page|`byteledger (serve|top|diff|explain|pages|sample)`?|/api/v1|/list"),
         ("Recordings of the heap", r"")]
HEAD = "# News\n\nWhat a user notices, newest version first. Fragments of what comes next wait in `news/`.\n"


def area_of(text):
    return next(name for name, pattern in AREAS if re.search(pattern, text))


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else "."
    low, high = (int(sys.argv[2]), int(sys.argv[3])) if len(sys.argv) > 3 else (0, 999)
    with open(os.path.join(root, "meson.build"), encoding="utf-8") as file:
        version = re.search(r"version: '([^']+)'", file.read()).group(1)
    path, title = os.path.join(root, "NEWS.md"), f"## {version}"
    text = open(path, encoding="utf-8").read() if os.path.exists(path) else HEAD
    if title not in text:
        text = text.replace(HEAD, f"{HEAD}\n{title}\n") if HEAD in text else f"{HEAD}\n{title}\n"
    folded = []
    for name in sorted(os.listdir(os.path.join(root, "news"))):
        number = re.match(r"(\d{3})-.*\.md$", name)
        if not number or not low <= int(number.group(1)) <= high:
            continue
        with open(os.path.join(root, "news", name), encoding="utf-8") as file:
            folded.append((name, " ".join(file.read().split())))
    before, _, rest = text.partition(title + "\n")
    this, mark, older = rest.partition("\n## ")
    parts = {name: re.findall(r"^- .*$", body, re.M) for name, body in re.findall(r"^### (.*)\n((?:(?!### ).*\n?)*)", this, re.M)}
    for _, line in folded:
        parts.setdefault(area_of(line), []).append("- " + line)
    with open(path, "w", encoding="utf-8") as file:
        file.write(before + title + "\n")
        for name, _ in AREAS:
            if parts.get(name):
                file.write(f"\n### {name}\n\n" + "\n".join(parts[name]) + "\n")
        file.write(mark + older)
    for name, _ in folded:
        os.remove(os.path.join(root, "news", name))
    print(f"{len(folded)} fragments folded into NEWS.md")


main()
