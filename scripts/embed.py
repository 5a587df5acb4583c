#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Turn a text file into a C header with one string constant.

usage: embed.py IN OUT NAME
"""
import sys

source, out, name = sys.argv[1:]
with open(source, encoding="utf-8") as file, open(out, "w", encoding="utf-8") as to:
    to.write(f"/* made from {source.rsplit('/', 1)[-1]} */\nstatic const char {name}[] =\n")
    for line in file:
        text = line.rstrip("\n").replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
        to.write(f'\t"{text}\\n"\n')
    to.write(";\n")
