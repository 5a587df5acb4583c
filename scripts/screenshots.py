#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Renew the pictures of README, docs and man pages: record a real program, open it in Chromium and in a terminal, take the pictures.

usage: screenshots.py [--terminal] [BUILD]   (needs tmux, clang++-14, chromium and web/node_modules, which the build makes)

--terminal: the screen of `top` in its man page alone.
"""
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
PICTURES = os.path.join(ROOT, "docs", "pictures")
LARGEST = 170 * 1000  # what one picture may weigh
PROGRAM = "#include <map>\n#include <regex>\n#include <string>\nint main() { std::map<std::string, std::regex> m; return (int)m.size(); }\n"


def screen_of(byteledger, recording, folder):
    """What `top` shows, as lines."""
    tmux = ["tmux", "-f", os.devnull, "-S", os.path.join(folder, "tmux")]
    command = shlex.join(["env", "LC_ALL=C", "TERM=screen", byteledger, "top", recording])
    subprocess.run([*tmux, "new-session", "-d", "-x", "72", "-y", "20", command], check=True)
    try:
        end, lines = time.monotonic() + 60, []
        while not any("FUNCTION" in line for line in lines):
            if time.monotonic() > end:
                sys.exit("screenshots.py: top shows nothing")
            time.sleep(0.2)
            lines = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout.splitlines()
        return lines
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def put_screen(lines):
    """Between the marks in the man page of top."""
    page = os.path.join(ROOT, "man", "byteledger-top.1")
    text = "".join(f"\\&{line.rstrip()}\n" for line in lines).replace("-", "\\-")
    with open(page, encoding="utf-8") as file:
        old = file.read()
    new = re.sub(r'(\.\\" the screen, by scripts/screenshots.py\n\.nf\n).*?(?=\.fi\n)', lambda m: m[1] + text, old, count=1, flags=re.S)
    with open(page, "w", encoding="utf-8") as file:
        file.write(new)


def main():
    words = [word for word in sys.argv[1:] if word != "--terminal"]
    build = os.path.abspath(words[0] if words else os.path.join(ROOT, "build"))
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
        put_screen(screen_of(byteledger, recording, folder))
        if "--terminal" in sys.argv:
            return
        subprocess.run(["node", os.path.join(ROOT, "web", "test", "browser.mjs"), "pictures", byteledger, PICTURES, recording], check=True)
    os.unlink(os.path.join(PICTURES, "pictures.json"))
    for name in sorted(os.listdir(PICTURES)):
        size = os.path.getsize(os.path.join(PICTURES, name))
        print(f"{name}: {size} bytes")
        if name.startswith("page-") and size > LARGEST:
            sys.exit(f"screenshots.py: {name} weighs more than {LARGEST} bytes")


if __name__ == "__main__":
    main()
