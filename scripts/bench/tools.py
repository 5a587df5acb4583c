# SPDX-License-Identifier: Apache-2.0
"""The tools under comparison: how each runs a program, where its file ends up, whether it lost events."""
import glob
import hashlib
import json
import os
import shutil
import subprocess

import measure

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("BYTELEDGER_BUILD", os.path.join(ROOT, "build"))
OUT = os.path.join(BUILD, "bench")
BYTELEDGER = os.path.join(BUILD, "byteledger")
HEAPTRACK_PRELOAD = "/usr/lib/heaptrack/libheaptrack_preload.so"


def build_id():
    """What is measured: rounds of two builds are never put together."""
    digest = hashlib.sha256()
    for path in (BYTELEDGER, os.path.join(BUILD, "libbyteledger-heap.so")):
        with open(path, "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


class Missing(Exception):
    """A tool or program that this machine does not have; the message is the reason to print."""


class Target:
    """A program to trace: argv with a full path, its input, extra environment; `exe` is the file that really runs."""

    def __init__(self, name, argv, stdin=None, env=None, cwd=None, exe=None):
        path = shutil.which(argv[0])
        if not path:
            raise Missing(f"{argv[0]} is not installed")
        self.name, self.argv, self.stdin, self.env, self.cwd = name, [path, *argv[1:]], stdin, env or {}, cwd
        self.exe = os.path.realpath(exe or path)


def bare(target):
    return measure.run(target.argv, exe=target.exe, env=target.env, stdin=target.stdin, cwd=target.cwd)


class Ours:
    """`byteledger run` (or heap) into a file; keeps the last file for its size and loss counters."""

    def __init__(self, options=(), command="run"):
        self.options, self.command = list(options) + (["--no-pages"] if command == "run" else []), command # what others record, too
        self.file, self.log = os.path.join(OUT, "ours.blt"), os.path.join(OUT, "ours.log")

    def __call__(self, target):
        for old in glob.glob(self.file + "*"):
            os.unlink(old)
        argv = [BYTELEDGER, self.command, "-q", "-o", self.file, *self.options, "--", *target.argv]
        return measure.run(argv, exe=target.exe, env=target.env, stdin=target.stdin, cwd=target.cwd, stderr=self.log)

    def report(self):
        done = subprocess.run([BYTELEDGER, "report", self.file, "--format", "json", "--limit", "1"], capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"report failed: {done.stderr.decode('utf-8', 'replace')[:300]}")
        return json.loads(done.stdout)


def heaptrack_in_process(target):
    """heaptrack's preload library alone, its output thrown away: what it costs inside the program."""
    if not os.path.exists(HEAPTRACK_PRELOAD):
        raise Missing("heaptrack is not installed")
    env = {**target.env, "LD_PRELOAD": HEAPTRACK_PRELOAD, "DUMP_HEAPTRACK_OUTPUT": "/dev/null"}
    return measure.run(target.argv, exe=target.exe, env=env, stdin=target.stdin, cwd=target.cwd)


class Heaptrack:
    """The heaptrack command as people use it; raw=True leaves the interpretation out."""

    def __init__(self, raw=False):
        self.raw, self.base = raw, os.path.join(OUT, "peer-raw" if raw else "peer")
        self.file = None

    def __call__(self, target):
        if not shutil.which("heaptrack") or not shutil.which("zstd"):
            raise Missing("heaptrack or zstd is not installed")
        for old in glob.glob(self.base + ".*"):
            os.unlink(old)
        argv = ["/usr/bin/heaptrack", "-o", self.base, *(["--raw"] if self.raw else []), *target.argv]
        result = measure.run(argv, exe=target.exe, env=target.env, stdin=target.stdin, cwd=target.cwd)
        self.file = (glob.glob(self.base + ".*") or [None])[0]
        return result
