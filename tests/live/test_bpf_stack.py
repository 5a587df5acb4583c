# SPDX-License-Identifier: Apache-2.0
"""The stepper's second user, the kernel: a BPF program of the same source takes the same stacks as user space.

stackdouble.so stands in for the preload library: at every n-th malloc it walks by unwind/capture and by libunwind, then
calls a function that a uprobe watches. All three have to agree, frame by frame, on every capture.
"""
import json
import os
import shutil
import subprocess
import time

import pytest

from conftest import BUILD, ROOT
from netapi import free_port

DRIVER = os.path.join(BUILD, "tests", "bpf", "bpf_stack")
DOUBLE = os.path.join(BUILD, "tests", "bpf", "stackdouble.so")
INSTRUCTIONS_MAX = 10_000
STACK_MAX = {14: 300}  # bytes, by the compiler's version; the verifier lets 512 pass, newer ones take some more
SQL = os.path.join(ROOT, "scripts", "demo.sql")
PYTHON_SCRIPT = """
import json, re, decimal, sqlite3, ctypes
for i in range(%d):
    json.loads(json.dumps({'a': [1, 2, 3] * 20, 'b': 'x' * 50}))
    re.compile('a%%d(b|c)*' %% i)
"""

needs_bpf = pytest.mark.skipif(
    os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"),
    reason="BPF needs root and a kernel with BTF")


def drive(*argv, timeout=280, env=None):
    done = subprocess.run([DRIVER, *map(str, argv)], capture_output=True, text=True, timeout=timeout,
                          stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def clang_version():
    told = subprocess.run(["clang", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    return int(told.split(".")[0])


def check_budget(result):
    assert 0 < result["verified_instructions"] <= INSTRUCTIONS_MAX
    assert 0 < result["stack_bytes"] <= STACK_MAX.get(clang_version(), 340)


def check_books(result):
    """Nothing is lost in silence: each capture has one reason to stop, each is received."""
    assert result["stops_sum"] == result["captures"]
    assert result["busy"] == 0 and result["ring_full"] == 0
    assert result["reads_failed"] <= result["reads"] // 1000


def compare(every, *argv, least, env=None):
    result, stderr = drive("compare", every, DOUBLE, "--", *argv, env=env)
    print({k: v for k, v in result.items() if k in ("compared", "mean_depth", "at_the_frame_limit", "dlopens", "stops")})
    check_budget(result)
    check_books(result)
    assert result["captures"] == result["taken"] == result["compared"]
    assert result["compared"] >= least
    assert result["equal_to_user_space"] == result["compared"], stderr
    assert result["equal_to_libunwind"] == result["compared"], stderr
    return result


@needs_bpf
def test_the_program_passes_the_verifier_within_its_budget():
    result, _ = drive("load")
    check_budget(result)
    assert result["modules_without_table"] == 0


@needs_bpf
def test_every_stack_of_sqlite3_is_the_one_that_user_space_sees(installed):
    sqlite3 = installed("sqlite3")
    told = subprocess.run([sqlite3, "--version"], capture_output=True, text=True, check=True).stdout
    every = 5 if int(told.split(".")[1]) <= 40 else 1  # newer ones allocate a third as often
    compare(every, sqlite3, ":memory:", f".read {SQL}", least=10_000)


@needs_bpf
def test_every_stack_of_python3_is_the_one_that_user_space_sees_through_dlopens(installed):
    result = compare(10, "/usr/bin/python3", "-c", PYTHON_SCRIPT % 300, least=10_000, env={"PYTHONMALLOC": "malloc"})
    assert result["dlopens"] >= 3


@needs_bpf
def test_every_stack_of_redis_server_is_the_one_that_user_space_sees(installed, tmp_path):
    server, benchmark = installed("redis-server"), installed("redis-benchmark")
    port = free_port()
    load = subprocess.Popen(
        ["sh", "-c", f"for i in $(seq 300); do redis-cli -p {port} ping >/dev/null 2>&1 && break; sleep 0.2; done; "
         f"{benchmark} -p {port} -q -n 20000 -c 20 -t set,lpush,sadd,hset,zadd; redis-cli -p {port} shutdown nosave"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        compare(1, server, "--port", port, "--save", "", "--daemonize", "no", "--dir", str(tmp_path), least=10_000)
    finally:
        load.wait(timeout=60)


@needs_bpf
def test_every_stack_of_clang_is_the_one_that_user_space_sees(installed, tmp_path):
    source = tmp_path / "t.cc"
    source.write_text("#include <map>\n#include <regex>\n#include <string>\n#include <vector>\n"
                      "int main(){std::map<std::string,std::vector<int>>m;std::regex r(\"a(b|c)*d\");"
                      "for(int i=0;i<100;i++)m[std::to_string(i)].push_back(i);"
                      "return std::regex_match(\"abcd\",r)+(int)m.size();}\n")
    # some 40 frames lie on 7 or 8 pages; a page is not read again for what stands below a return address. Where the kernel puts
    # the stack so that its busiest frames lie across pages, it takes up to two reads more (five, were pages read again)
    reads = []
    while not reads or (reads[-1] >= 10 and len(reads) < 3):
        result = compare(100, installed("clang++"), "-O2", "-c", "-o", os.devnull, source, least=10_000)
        reads.append(result["reads"] / result["captures"])
    assert reads[-1] < 10, reads


@needs_bpf
def test_malloc_of_an_unmodified_running_program_is_probed_and_followed(installed, tmp_path):
    """No library inside: libc's malloc in sqlite3, which was started before and has no frame pointers."""
    script = tmp_path / "again.sql"
    script.write_text(f".read {SQL}\n" * 200)
    program = subprocess.Popen([installed("sqlite3"), ":memory:", f".read {script}"], stdout=subprocess.DEVNULL)
    try:
        libc, deadline = None, time.monotonic() + 30
        while not libc:  # until it has loaded its libraries
            assert time.monotonic() < deadline and program.poll() is None
            libc = next((line.split()[-1] for line in open(f"/proc/{program.pid}/maps") if "libc.so" in line), None)
        for seconds in (2, 8, 32):  # a busy machine needs longer for as many
            result, _ = drive("watch", seconds, libc, "malloc", "-p", program.pid)
            if result["captures"] >= 10_000:
                break
    finally:
        program.kill()
        program.wait()
    check_books(result)
    assert result["captures"] >= 10_000
    assert result["received"] == result["captures"]
    assert result["stops"] == {"0": result["captures"]}, "every stack reaches the program's start"
    assert result["frames"] / result["captures"] > 10


@needs_bpf
def test_code_without_recipes_is_crossed_by_its_frame_pointers_and_marked(prog):
    """tests/prog/nocfi.c: machine code in an anonymous mapping that keeps frame pointers and calls back."""
    result, _ = drive("watch", 5, prog("nocfi"), "target", "--", prog("nocfi"))
    check_books(result)
    assert result["captures"] >= 100
    assert result["stops"] == {"7": result["captures"]}, "reached the end, with guesses"
    assert result["guessed"] == result["captures"]


@needs_bpf
@pytest.mark.guest
def test_it_passes_the_verifier_of_linux_6_1_and_takes_the_same_stacks_there(installed):
    sqlite3 = installed("sqlite3")
    if not shutil.which("qemu-system-x86_64"):
        pytest.skip("qemu-system-x86_64 is not installed")
    done = subprocess.run(
        [os.path.join(ROOT, "scripts", "guest.sh"), "-k", "6.1", "--", "sh", "-c",
         f"{DRIVER} load && {DRIVER} compare 10 {DOUBLE} -- {sqlite3} :memory: '.read {SQL}'"],
        capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stderr
    load, compared = (json.loads(line) for line in done.stdout.splitlines())
    check_budget(load)
    check_budget(compared)
    check_books(compared)
    assert compared["compared"] == compared["taken"] >= 1000
    assert compared["equal_to_user_space"] == compared["equal_to_libunwind"] == compared["compared"], done.stderr
