#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renew the pictures of README and docs: record a real program, open it in Chromium, take the pictures.

usage: screenshots.py [BUILD]      (needs chromium, clang++-14 and web/node_modules, which the build makes)
"""
import os
import shlex
import subprocess
import sys
import tempfile

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
PICTURES = os.path.join(ROOT, "docs", "pictures")
LARGEST = 170 * 1000  # what one picture may weigh
PROGRAM = "#include <map>\n#include <regex>\n#include <string>\nint main() { std::map<std::string, std::regex> m; return (int)m.size(); }\n"


def main():
    build = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build"))
    byteledger = os.path.join(build, "byteledger")
    os.makedirs(PICTURES, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "regex.cpp")
        with open(source, "w", encoding="ascii") as file:
            file.write(PROGRAM)
        shown = subprocess.run(["clang++-14", "-###", "-O1", "-c", source, "-o", source + ".o"], capture_output=True, text=True,
                               check=True).stderr
        compiler = shlex.split(shown.splitlines()[-1])  # the compiler itself, without its driver
        recording = os.path.join(folder, "clang.blt")
        subprocess.run([byteledger, "run", "-q", "--snapshot", "500ms", "-o", recording, "--", *compiler], check=True)
        subprocess.run(["node", os.path.join(ROOT, "web", "test", "browser.mjs"), "pictures", byteledger, PICTURES, recording], check=True)
    os.unlink(os.path.join(PICTURES, "pictures.json"))
    for name in sorted(os.listdir(PICTURES)):
        size = os.path.getsize(os.path.join(PICTURES, name))
        print(f"{name}: {size} bytes")
        if name.startswith("page-") and size > LARGEST:
            sys.exit(f"screenshots.py: {name} weighs more than {LARGEST} bytes")


if __name__ == "__main__":
    main()
