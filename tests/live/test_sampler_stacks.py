# SPDX-License-Identifier: Apache-2.0
"""Stacks of `byteledger sample` that others make hard to have: return probes of another tool, code that comes while probes go in."""
import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from test_sampler import LIBS, by_way, end, go, pytestmark, running, sampling, truth_of  # noqa: F401


@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks")], ids=["calls", "leaks"])
def test_return_probes_of_somebody_else_hide_no_caller(byteledger, prog, options):
    """realloc(NULL, n) jumps to malloc: what stands on the stack there is the page of whoever probes realloc's return."""
    with running(prog("asked"), "200") as p, sampling(byteledger, "-p", p.pid, "-f", "realloc", "--leaks", "--all", "-q"), \
            sampling(byteledger, "-p", p.pid, "--format", "json", *options) as s:
        go(p)
        truth = truth_of(p)
        got = json.loads(end(s))["processes"][0]
    found, figures = by_way(got), 3 if "--leaks" in options else 2
    assert {way: tuple(found.get(way, [0])[:figures]) for way in truth} == {way: t[:figures] for way, t in truth.items()}
    assert got["partial_stacks"]["no_caller"] == 0 and got["lost"]["events"] == 0, (got["partial_stacks"], got["lost"])


def has_tables(pid):
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/{pid}/fd/{number}") == "anon_inode:bpf-map":
                return True
    return False


LOADS = """
import ctypes, sys
sys.stdin.readline()
zstd = ctypes.CDLL("libzstd.so.1")
zstd.ZSTD_createCCtx.restype = ctypes.c_void_p
print("loaded", flush=True)
sys.stdin.readline()
for i in range(321):
    zstd.ZSTD_createCCtx()
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not os.path.exists(f"{LIBS}/libzstd.so.1"), reason="libzstd1 is not installed")
def test_code_that_comes_while_probes_are_loaded_is_known(byteledger):
    with running(sys.executable, "-c", LOADS) as p, \
            subprocess.Popen([byteledger, "sample", "-p", str(p.pid), "--all", "--format", "json"],
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as s:
        until = time.monotonic() + 30
        # its processes have been looked at by then, and its programs are about to be loaded
        while not has_tables(s.pid):
            assert s.poll() is None and time.monotonic() < until, "no table is made"
        go(p)
        assert p.stdout.readline() == "loaded\n"
        assert "sampling" in s.stderr.readline()
        go(p)
        assert p.stdout.readline() == "done\n"
        got = json.loads(end(s))["processes"][0]
    calls = sum(r["count"] for r in got["rows"] if r["frames"] and (r["frames"][0]["module"] or "").startswith("libzstd"))
    assert calls >= 321 and not got["partial_stacks"]["no_caller"], (calls, got["partial_stacks"])


EARLY = """
#include <stdlib.h>
__attribute__((noinline)) void *early(void)
{
	void *volatile block = malloc(321);
	return block;
}
"""
EARLY_LOADS = """
import ctypes, sys
sys.stdin.readline()
early = ctypes.CDLL(sys.argv[1]).early
early.restype = ctypes.c_void_p
for i in range(321):
    early()
print("done", flush=True)
sys.stdin.readline()
"""


def test_code_that_calls_before_anybody_knows_it_is_named(byteledger, tmp_path):
    """A JVM's library has called a third of what it ever will when its recipes are read: by its frame pointers, meanwhile."""
    (tmp_path / "early.c").write_text(EARLY)
    subprocess.run(["cc", "-O1", "-g", "-fno-omit-frame-pointer", "-shared", "-fPIC", "-o", tmp_path / "early.so", tmp_path / "early.c"], check=True)
    with running(sys.executable, "-c", EARLY_LOADS, tmp_path / "early.so") as p, \
            sampling(byteledger, "-p", p.pid, "--all", "--budget", "0", "--format", "json") as s:
        s.send_signal(signal.SIGSTOP)
        try:
            go(p)
            assert p.stdout.readline() == "done\n"
        finally:
            s.send_signal(signal.SIGCONT)
        time.sleep(0.3) # two looks at what is mapped
        got = json.loads(end(s))["processes"][0]
    rows = [r for r in got["rows"] if r["frames"] and r["frames"][0]["function"] == "early"]
    assert sum(r["count"] for r in rows) == 321, (got["partial_stacks"], rows)
    assert all(any("Eval" in f["function"] for f in r["frames"] if f["function"]) for r in rows), rows
    assert not got["partial_stacks"]["no_caller"], got["partial_stacks"]
