# SPDX-License-Identifier: Apache-2.0
"""
Stacks captured in the hook beside libunwind's cursor, and beside a stepper that remembers nothing, at the same instant
(tests/oracle), in real programs.
"""
import json
import os
import shutil
import subprocess

import pytest

from netapi import free_port, wait_until

BUILD = os.environ.get("BYTELEDGER_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
ORACLE = os.path.join(BUILD, "tests", "oracle", "liboracle-heap.so")
AGAIN = os.path.join(BUILD, "tests", "oracle", "libagain-heap.so")
DRAIN = os.path.join(BUILD, "tests", "oracle", "drain")
PYTHON = "import json, re, xml.dom.minidom\nfor i in range(3000):\n    json.loads(json.dumps({'a': list(range(50)), 'b': 'x' * 100}))\n"
PERL = "sub f { my ($d, $t) = @_; $d ? f($d - 1, join ',', map { \"$_$d\" } split /,/, $t) + f($d - 2 > 0 ? $d - 2 : 0, $t) : length $t } " \
       "for my $i (1 .. 90) { f(7, 'a,b,c'); my %h = map { $_ => \"$_\" } 1 .. $i; eval { die { a => 1 } } }"
CPP = "#include <algorithm>\n#include <functional>\n#include <map>\n#include <regex>\n#include <string>\n" \
      "int main() { std::map<std::string, std::function<int(int)>> m; return std::regex_search(\"aabce\", std::regex(\"a+b*(c|d)e\")) + (int)m.size(); }\n"


def env(tmp_path, every):
    return {**os.environ, "ORACLE_OUT": str(tmp_path / "oracle"), "ORACLE_EVERY": str(every), "PYTHONMALLOC": "malloc"}


def judge(tmp_path, least):
    """At least 99.9 % of at least @least captures identical; the differences are the assertion's message."""
    text = (tmp_path / "oracle").read_text()
    ends = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    total, same = sum(e["compared"] for e in ends), sum(e["identical"] for e in ends)
    print(f"{same} of {total} identical")
    assert total >= least, text[-500:]
    assert same >= total * 0.999, text[:4000]


def run(argv, tmp_path, every, least):
    done = subprocess.run([DRAIN, ORACLE, *argv], env=env(tmp_path, every), capture_output=True, timeout=280)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    judge(tmp_path, least)


def test_stacks_of_a_program_with_exceptions_equal_libunwinds(prog, tmp_path):
    # one in 50: the oracle stops at 10,000 comparisons, and so they reach over most of the run
    run([prog("stacks_throw"), "5000"], tmp_path, 50, 5000)


def test_stacks_of_python_equal_libunwinds(installed, tmp_path):
    run([installed("python3"), "-c", PYTHON], tmp_path, 60, 5000)


def test_stacks_of_clang_equal_libunwinds(installed, tmp_path):
    clang = os.path.realpath(installed("clang"))  # a link to it would be read as another mode of the driver
    source = tmp_path / "a.cc"
    source.write_text(CPP)
    # -fintegrated-cc1: in one process
    run([clang, "-fintegrated-cc1", "-O2", "-std=c++17", "-c", "-o", str(tmp_path / "a.o"), str(source)], tmp_path, 100, 5000)


def test_stacks_of_redis_equal_libunwinds(installed, tmp_path):
    server, bench = installed("redis-server"), shutil.which("redis-benchmark")
    if not bench:
        pytest.skip("redis-benchmark is not installed")
    port = str(free_port())
    child = subprocess.Popen([DRAIN, ORACLE, server, "--port", port, "--save", "", "--appendonly", "no", "--dir", str(tmp_path)],
                             env=env(tmp_path, 40), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        wait_until(lambda: subprocess.run(["redis-cli", "-p", port, "ping"], capture_output=True).stdout.strip() == b"PONG",
                   what="redis")
        subprocess.run([bench, "-p", port, "-n", "30000", "-q", "-t", "set,get,lpush,lrange_100,sadd,hset,zadd,mset"],
                       capture_output=True, timeout=200)
        subprocess.run(["redis-cli", "-p", port, "shutdown", "nosave"], capture_output=True, timeout=60)
        child.wait(60)
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()
    judge(tmp_path, 5000)


@pytest.mark.parametrize("argv", [["perl", "-e", PERL], ["python3", "-c", PYTHON.replace("3000", "300")], ["bench_pairs", "grammar:3000-random", "40", "60000"],
                                  ["bench_pairs", "interp", "100", "60000"], ["bench_pairs", "grammar:30000", "100", "20000"]],
                         ids=["perl", "python3", "random", "runs", "beyond-what-fits"])
def test_remembered_stacks_equal_walked_ones(installed, prog, tmp_path, argv):
    """Every third capture or so; 10^7 captures each of perl, python3, clang and guile: docs/history/heap.md C10."""
    program = prog(argv[0]) if argv[0] == "bench_pairs" else installed(argv[0])
    out = tmp_path / "again"
    done = subprocess.run([DRAIN, AGAIN, program, *argv[1:]], env={**os.environ, "AGAIN_OUT": str(out), "PYTHONMALLOC": "malloc"},
                          capture_output=True, timeout=280)
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
    text = out.read_text()
    end = json.loads(text.splitlines()[-1])
    print(end)
    assert end["different"] == 0 and end["unknown"] == 0, text[:4000]
    assert end["compared"] > 7000 and end["walked"] < end["captures"]


@pytest.mark.parametrize("program", ["newdelete", "stacks_throw"])
def test_no_stack_begins_in_the_library_itself(record, prog, program):
    rows = record([prog(program), "20"]).report()["rows"]
    # a handler that operator new calls has it above; nothing was allocated by it
    own = [r["frames"][:3] for r in rows if r["frames"][0]["module"] == "libbyteledger-heap.so"]
    assert rows and own == []


def test_an_object_in_the_place_of_code_that_was_made_has_stacks_of_its_own(record, prog):
    library = os.path.join(os.path.dirname(prog("jitted")), "libplugin_after.so")
    done = record([prog("jitted"), library])
    assert done.stdout == b"done\n"
    rows = {row["allocated_bytes"]: row["frames"] for row in done.report()["rows"]}
    assert rows[77][0]["module"] is None
    assert [frame["function"] for frame in rows[78]][:2] == ["plugin_take", "main"]


@pytest.mark.parametrize("library", ["noheader", "debugframe"])
def test_entries_that_no_header_announces_are_found(record, prog, library):
    path = os.path.join(os.path.dirname(prog("frames")), f"libplugin_{library}.so")
    sections = subprocess.run(["readelf", "-SlW", path], capture_output=True, text=True, check=True).stdout
    assert ("GNU_EH_FRAME" not in sections) if library == "noheader" else (".debug_frame" in sections)
    report = record([prog("frames"), path]).report()
    row = next(r for r in report["rows"] if r["allocated_bytes"] == 123400)
    assert [f["function"] for f in row["frames"]][:3] == ["frames_inner", "frames_outer", "main"]
    assert row["allocations"] == 100 and report["partial_stacks"]["events"] == 0
