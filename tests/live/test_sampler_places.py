# SPDX-License-Identifier: Apache-2.0
"""`byteledger sample` where the allocator is another libc's, or its files lie in a file system that only the process sees."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

import pytest

from conftest import ROOT
from test_sampler import by_way, end, go, pytestmark, running, sample_asked, sampling, truth_of  # noqa: F401


def held_against(truth, got):
    found, figures = by_way(got), 3 if "live_bytes" in got else 2
    assert {way: tuple(found.get(way, [0])[:figures]) for way in truth} == {way: t[:figures] for way, t in truth.items()}
    assert "-" not in found and got["lost"]["events"] == got["partial_stacks"]["no_caller"] == 0, (got["lost"], got["partial_stacks"])


@pytest.mark.skipif(not shutil.which("musl-gcc"), reason="musl-gcc is not installed (musl-tools)")
@pytest.mark.parametrize("link", [[], ["-static"]], ids=["dynamic", "static"])
def test_musls_functions_are_counted_as_all_others(byteledger, tmp_path, link):
    asked = str(tmp_path / "asked")
    subprocess.run(["musl-gcc", "-O2", "-g", "-fno-builtin", *link, f"{ROOT}/tests/prog/asked.c", "-o", asked], check=True)
    truth, got = sample_asked(byteledger, asked, 200, "--all", *([] if link else ["--leaks"]))
    assert {f["module"] for f in got["functions"]} == ({"asked"} if link else {"ld-musl-x86_64.so.1", "libc.so"} & {f["module"] for f in got["functions"]})
    held_against(truth, got)


OWNABSL = """
#include <cstdio>
#include <cstdlib>
__attribute__((noinline)) void by_malloc(int i) { void *volatile p = malloc(100); if (i % 2) free(p); }
__attribute__((noinline)) void by_new(int i) { char *volatile p = new char[200]; if (i % 2) delete[] p; }
__attribute__((noinline)) void by_calloc(int i) { void *volatile p = calloc(3, 100); if (i % 2) free(p); }
__attribute__((noinline)) void by_realloc(int i) { void *volatile p = realloc(nullptr, 50); p = realloc(p, 5000); if (i % 2) free(p); }
int main()
{
	getchar();
	for (int i = 0; i < 1000; i++) { by_malloc(i); by_new(i); by_calloc(i); by_realloc(i); }
	puts("by_malloc 1000 100000 500\\nby_new 1000 200000 500\\nby_calloc 1000 300000 500\\nby_realloc 2000 5050000 500\\ndone");
	fflush(stdout);
	getchar();
	getchar();
}
"""


@pytest.mark.parametrize("options", [(), ("--leaks",)], ids=["calls", "leaks"])
@pytest.mark.parametrize("link", [[], ["-static"]], ids=["dynamic", "static"])
def test_an_allocator_of_aliases_in_the_program_itself_is_counted(byteledger, tmp_path, link, options):
    """As google's tcmalloc is linked: new is not malloc there, and both are other names of functions of its own."""
    program = tmp_path / "ownabsl"
    (tmp_path / "main.cpp").write_text(OWNABSL)
    subprocess.run(["c++", "-O2", "-g", "-std=c++17", "-fno-builtin", *link, f"{ROOT}/tests/prog/ownabsl.cpp", tmp_path / "main.cpp", "-o", program],
                   check=True)
    with running(program) as p, sampling(byteledger, "-p", p.pid, "--all", "--format", "json", *options) as s:
        go(p)
        truth = truth_of(p)
        got = json.loads(end(s))["processes"][0]
    found, figures = {}, 3 if options else 2
    for row in got["rows"]:
        sums = found.setdefault(row["frames"][0]["function"].split("(")[0] if row["frames"] else "-", [0, 0, 0])
        for i, value in enumerate((row["count"], row["bytes"], row.get("live_count", 0))):
            sums[i] += value
    assert {way: tuple(found.get(way, [0])[:figures]) for way in truth} == {way: t[:figures] for way, t in truth.items()}


def libraries_of(program):
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", said)


OVERLAY = """
set -e
mount -t tmpfs none "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" "$1/root"
exec chroot "$1/root" /asked "$3" "$4"
"""


@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks")], ids=["calls", "leaks"])
def test_files_of_an_overlay_that_only_the_process_sees_are_probed(byteledger, prog, tmp_path, options):
    lower, here = tmp_path / "lower", tmp_path / "here"
    here.mkdir()
    for path in [prog("asked"), *libraries_of(prog("asked"))]:
        to = lower / ("asked" if path == prog("asked") else path[1:])
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    script = tmp_path / "asked-below"
    script.write_text(f"#!/bin/sh\nexec unshare -m sh -c '{OVERLAY}' sh {here} {lower} \"$@\"\n")
    script.chmod(0o755)
    with running(str(script), "200", "1") as p:
        until = time.monotonic() + 30
        while "/libc.so.6" not in pathlib.Path(f"/proc/{p.pid}/maps").read_text() or not os.readlink(f"/proc/{p.pid}/exe").endswith("/asked"):
            assert p.poll() is None and time.monotonic() < until
            time.sleep(0.01)
        with sampling(byteledger, "-p", p.pid, "--format", "json", "--budget", "0", *options) as s:
            go(p)
            truth = truth_of(p)
            held_against(truth, json.loads(end(s))["processes"][0])


def test_a_program_that_execs_is_named_by_what_it_has_become(byteledger, prog):
    script = f'read line; exec {prog("asked")} 100'
    with running("/bin/sh", "-c", script) as p, sampling(byteledger, "-p", p.pid, "--all", "--format", "json", "--jsonl", "--interval", "100ms") as s:
        go(p)
        until = time.monotonic() + 30
        while os.path.basename(json.loads(s.stdout.readline())["processes"][0]["exe"]) != "asked":
            assert time.monotonic() < until, "it has another name"
        go(p)
        truth = truth_of(p)
        rows = json.loads(end(s).splitlines()[-1])["processes"][0]
    assert {way: by_way(rows)[way][0] for way in truth} == {way: t[0] for way, t in truth.items()}


def test_a_program_that_execs_and_is_soon_over_is_named_by_what_it_was_at_the_end(byteledger):
    """New code is looked into once a second: what began and ended in between was called a shell."""
    with running("/bin/sh", "-c", "read line; exec sleep 0.8") as p, sampling(byteledger, "-p", p.pid, "--format", "json") as s:
        go(p)
        p.wait(timeout=60)
        out, err = s.communicate(timeout=60)
    assert os.path.basename(json.loads(out)["processes"][0]["exe"]) == "sleep", (out, err)


def test_calls_of_a_library_that_two_processes_have_are_said_to_be_of_both(byteledger, prog):
    with running(prog("asked"), "50") as p, running(prog("asked"), "50") as q, \
            sampling(byteledger, "-p", p.pid, "-p", q.pid, "--all", "--format", "json") as s:
        go(p)
        truth_of(p)
        both = json.loads(end(s))["processes"]
    called = [{f["function"]: f["calls"] for f in one["functions"] if f["shared"]} for one in both]
    assert called[0] == called[1] and called[0]["malloc"] >= 100
    assert sorted(one["estimated_allocations"] > 0 for one in both) == [False, True]


def test_what_is_outstanding_is_of_blocks_as_old_as_asked_for(byteledger, prog):
    shown = {}
    for older in ("1h", "0"):
        with running(prog("asked"), "50") as p, sampling(byteledger, "-p", p.pid, "--all", "--older", older) as s:
            go(p)
            truth_of(p)
            shown[older] = end(s)
    assert "no outstanding allocations to show" in shown["1h"] and "of younger blocks alone" in shown["1h"], shown["1h"]
    assert "by_leak" in shown["0"] and "younger" not in shown["0"] and "\n0 B in 0 " not in shown["0"], shown["0"]


def test_a_word_too_many_and_a_wrong_name_are_told_as_what_they_are(byteledger, prog):
    with running(prog("asked"), "50") as p:
        def said(*argv):
            return subprocess.run([byteledger, "sample", "-p", str(p.pid), *argv], capture_output=True, text=True, timeout=60).stderr
        assert "'a.csv' would be a program" in said("--csv-flat", "a.csv")
        wrong = said("-f", "mallok")
        assert "malloc" in wrong and "static" not in wrong, wrong


BATCHES = """import os, sys
for line in sys.stdin:
    go, told = os.pipe()
    children = []
    for _ in range(int(line)):
        pid = os.fork()
        if not pid:
            os.close(told)
            os.read(go, 1)
            kept = bytearray(7 << 20)
            os._exit(0)
        children.append(pid)
    print(*children, flush=True)
    sys.stdin.readline()
    os.close(told)
    os.close(go)
    for pid in children:
        os.waitpid(pid, 0)
    print("done", flush=True)
"""


def test_children_that_come_later_are_followed_as_soon_as_the_first(byteledger):
    with running(sys.executable, "-c", BATCHES) as p, \
            sampling(byteledger, "-p", p.pid, "--follow-children", "--budget", "0", "-f", "malloc", "--jsonl", "--interval", "200ms") as s:
        asked = set()
        for _ in range(2):
            p.stdin.write("8\n")
            p.stdin.flush()
            children = set(map(int, p.stdout.readline().split()))
            until = time.monotonic() + 40
            while time.monotonic() < until and not children <= {one["pid"] for one in json.loads(s.stdout.readline())["processes"]}:
                pass
            go(p)
            assert p.stdout.readline() == "done\n"
            asked |= children
        s.send_signal(signal.SIGINT)
        last = {one["pid"]: one for one in json.loads(s.communicate(timeout=60)[0].splitlines()[-1])["processes"]}
    told = {pid: max([r["bytes"] for r in last[pid]["rows"]], default=0) >> 20 for pid in asked if pid in last}
    assert told == dict.fromkeys(asked, 7)
