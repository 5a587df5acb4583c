#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev fuzz [TARGET [SECONDS]]`: run libFuzzer targets (clang, address and undefined-behaviour sanitizers).

Each target starts from tests/fuzz/corpus/NAME; what it finds interesting goes to build/fuzz/corpus/NAME, a crashing input to
build/fuzz/crash-NAME-*. Prints `fuzz NAME: no finding, N runs in S s` or `fuzz NAME: FINDING, file`.
"""
import argparse
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
BUILD = os.path.join(ROOT, "build", "fuzz")


def build():
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        subprocess.run(["meson", "setup", BUILD, "-Dfuzz=true", "-Db_sanitize=address,undefined", "-Db_lundef=false",
                        "-Dlive=false", "-Doptimization=1"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "CC": "clang", "CXX": "clang++"})
    # only the targets: unit tests cannot be linked with a fuzzer's coverage hooks
    listed = subprocess.run(["ninja", "-C", BUILD, "-t", "targets", "all"], capture_output=True, text=True, check=True).stdout
    names = sorted(set(re.findall(r"^tests/fuzz/fuzz_(\w+):", listed, re.M)))
    if names:
        subprocess.run(["ninja", "-C", BUILD, *[f"tests/fuzz/fuzz_{n}" for n in names]], check=True,
                       stdout=subprocess.DEVNULL)
    return names


def run(name, seconds):
    seeds = os.path.join(ROOT, "tests", "fuzz", "corpus", name)
    grown = os.path.join(BUILD, "corpus", name)
    os.makedirs(grown, exist_ok=True)
    prefix = os.path.join(BUILD, f"crash-{name}-")
    log = os.path.join(BUILD, f"{name}.log")
    options = os.path.join(ROOT, "tests", "fuzz", f"{name}.options")
    extra = open(options, encoding="utf-8").read().split() if os.path.exists(options) else []
    with open(log, "wb") as out:
        done = subprocess.run([os.path.join(BUILD, "tests", "fuzz", f"fuzz_{name}"), f"-max_total_time={seconds}",
                               "-timeout=10", "-rss_limit_mb=2048", f"-artifact_prefix={prefix}", "-print_final_stats=1",
                               *extra, grown, seeds], stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)
    text = open(log, encoding="utf-8", errors="replace").read()
    runs = re.search(r"stat::number_of_executed_units: (\d+)", text)
    if done.returncode == 0:
        print(f"fuzz {name}: no finding, {runs.group(1) if runs else '?'} runs in {seconds} s", flush=True)
        return True
    newest = max(glob.glob(prefix + "*"), key=os.path.getmtime, default="no file")
    why = re.search(r"(ERROR: .*|.*runtime error: .*)", text)
    print(f"fuzz {name}: FINDING, {newest}: {why.group(1)[:200] if why else 'see ' + log}", flush=True)
    return False


def main():
    parser = argparse.ArgumentParser(prog="./dev fuzz")
    parser.add_argument("target", nargs="?")
    parser.add_argument("seconds", nargs="?", type=int, default=60)
    parser.add_argument("--each", type=int, metavar="SECONDS", help="every target for so long")
    opt = parser.parse_args()
    names = build()
    if opt.target and opt.target not in names:
        print(f"fuzz: no target '{opt.target}'; there are: {' '.join(names) or 'none yet'}", file=sys.stderr)
        return 2
    good = [run(n, opt.each or opt.seconds) for n in ([opt.target] if opt.target else names)]
    return 0 if all(good) else 1


sys.exit(main())
