# SPDX-License-Identifier: Apache-2.0
"""Odd stacks: pages that are closed while something further in allocates, where no read of ours may fault; large frames."""
import json
import os
import re
import resource
import subprocess
import time

import pytest

from conftest import ROOT

WAYS = ["mprotect", "syscall", "raw", "other", "pkey", "guard", "fixed", "unmapped"]


@pytest.mark.parametrize("where", [[], ["thread"]], ids=["main", "thread"])
@pytest.mark.parametrize("how", WAYS)
def test_a_closed_page_of_outer_frames_ends_the_stack_and_not_the_program(record, prog, tmp_path, how, where):
    done = record([prog("closed"), how, *where])
    if done.returncode == 77:
        pytest.skip(f"this kernel or processor has no {how}")
    assert (done.returncode, done.stdout) == (0, b"alive\n"), done.stderr
    report = done.report()
    # its own 111 calls, and what libc allocates for threads
    assert 111 <= report["totals"]["allocations"] <= 114 and report["totals"]["frees"] == 111, report["totals"]
    assert report["lost"]["events"] == 0
    partial = report["partial_stacks"]
    if [how, where] != ["unmapped", []]: # the kernel grows the main stack into the gap: zeros, which end a stack
        # what was allocated while the page was closed, and nothing else
        assert partial == {"events": 45, "by_reason": {"unreadable": 45}}, partial


def test_frames_of_a_megabyte_cost_no_more_than_small_ones(record, prog):
    def spent(name):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = record([prog(name), "300000"])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        report = done.report()
        assert {row["allocated_bytes"]: [f["function"] for f in row["frames"] if (f["file"] or "").endswith("bigframe.c")] for row in report["rows"]} == {
            30000000: ["pairs", "main"],
            60000000: ["pairs", "inner", "main"]}
        assert report["partial_stacks"]["events"] == 0
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    big, small = (min(spent(name) for _ in range(3)) for name in ("bigframe", "smallframe"))
    # where the frame's size does not fit into a recipe, nothing of such a stack is remembered: fifty times as much
    assert big < 4 * small, (big, small)


@pytest.fixture(scope="module")
def gocgo(installed, tmp_path_factory, go_cache):
    folder = tmp_path_factory.mktemp("gocgo")
    env = {**os.environ, "CGO_ENABLED": "1", "GOCACHE": go_cache, "HOME": str(folder)}
    built = subprocess.run([installed("go"), "build", "-o", str(folder / "gocgo"), os.path.join(ROOT, "tests/prog/gocgo.go")], env=env,
                           capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr
    return str(folder / "gocgo")


def test_stacks_go_on_where_go_and_c_call_each_other(record, byteledger, gocgo):
    """C runs on the thread's stack and Go on a goroutine's: each of the three ways to C's malloc is told to its beginning."""
    done = record([gocgo, "500"])
    assert (done.returncode, done.stdout) == (0, b"done\n"), done.stderr
    with open(gocgo, "rb") as file:
        minor = int(re.search(rb"\xff Go buildinf:.{19}go1\.([0-9]+)", file.read(), re.DOTALL)[1])
    # Go before 1.21 keeps no frame pointer where it goes to a thread's stack: what the runtime itself allocates there begins there
    cut = set() if minor >= 21 else {"runtime.rt0_go.abi0", "runtime.systemstack.abi0"}
    counted = {}
    folded = subprocess.run([byteledger, "export", "--to", "folded", "--cost", "allocations", done.path], check=True,
                            capture_output=True, text=True, timeout=60).stdout
    for line in folded.splitlines():
        frames, _, number = line.rpartition(" ")
        names = frames.split(";")
        assert names[0] != "[partial: gap]" or names[1] in cut, line
        if names[-1] == "keep":
            ways = [name for name in names if name.startswith("main.") and not name.startswith("main._C")]
            counted[tuple(ways), "runtime.goexit.abi0" in names, "crosscall2" in names] = int(number)
    assert counted == {(("main.main", "main.allocate"), True, False): 500,
                       (("main.main", "main.byCallback", "main.goBack", "main.allocate"), True, True): 500,
                       (("main.main.gowrap1" if minor >= 22 else "main.main.func1", "main.beside", "main.allocate"), True, False): 500}, counted


def test_pages_have_the_stacks_of_go_that_calls_c(byteledger, gocgo, tmp_path):
    """In the kernel, too; where Go was called back by C they begin there, as the assembly between them has no recipes."""
    path = str(tmp_path / "x.blt")
    with subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", gocgo, "50", "65536"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True) as child:
        assert child.stdout.readline() == "done\n"

        def pages():
            got = subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, text=True, timeout=60)
            rows = json.loads(got.stdout).get("pages", {}).get("rows", []) if got.returncode == 0 else []
            named = [({frame["function"] for frame in row["frames"]}, row["bytes"]) for row in rows if row["kind"] == "anon"]
            kept = [(names, size) for names, size in named if "keep" in names]
            return kept if sum(size for _, size in kept) >= 150 * 65536 else None
        end, kept = time.monotonic() + 60, None
        while not kept:
            assert time.monotonic() < end, "its pages were not counted"
            kept = pages()
        child.stdin.close()
        assert child.wait(timeout=60) == 0
    for way in ({"main.main", "main.allocate", "runtime.main"}, {"main.beside", "main.allocate"}, {"main.goBack", "main.allocate"}):
        assert sum(size for names, size in kept if way <= names) >= 49 * 65536, (way, kept)
