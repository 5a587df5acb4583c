# SPDX-License-Identifier: Apache-2.0
"""Allocators read from outside, against what they say of themselves."""
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest


class Program:
    """A program of tests/prog that says `ready ...` and ends with its stdin."""

    def __init__(self, *argv, env=None):
        self.child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, **(env or {})})
        self.said = self.child.stdout.readline().split()
        assert self.said and self.said[0] == "ready", self.said
        self.pid = self.child.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


def regions(byteledger, pid, *options):
    done = subprocess.run([byteledger, "regions", "-p", str(pid), "--format", "json", *options], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def glibc(breakdown):
    found = [a for a in breakdown["allocators"] if a["allocator"] == "glibc malloc"]
    assert len(found) == 1, breakdown["allocators"]
    return found[0]


def close(got, want, share=0.01):
    assert abs(got - want) <= share * want, (got, want)


def check_against_mallinfo(byteledger, program):
    uordblks, fordblks, hblkhd, fsmblks, arena = map(int, program.said[1:6])
    breakdown = regions(byteledger, program.pid)
    heap = glibc(breakdown)
    # mallinfo counts cached blocks of threads and their tables as in use, and large blocks apart
    close(heap["live_bytes"] + heap["cache_bytes"] + heap["metadata_bytes"], uordblks + hblkhd)
    # what is free and not resident (given back already) is in mallinfo's figure only; fastbins are free in both
    assert heap["free_page_bytes"] + heap["hole_bytes"] <= fordblks * 1.01
    close(heap["free_page_bytes"] + heap["hole_bytes"], fordblks)
    close(heap["reserved_bytes"], arena + hblkhd)
    assert heap["consistency"] > 99.9
    labels = {c["label"]: c for c in breakdown["classes"] if c["class"] == "allocator"}
    assert sum(c["rss_bytes"] for c in breakdown["classes"]) == breakdown["rss_bytes"]
    # the identity: what the allocator's mappings hold is what its parts occupy
    close(sum(c["rss_bytes"] for c in labels.values()), heap["resident_bytes"])
    assert sum(heap[k] for k in ("free_page_bytes", "hole_bytes", "cache_bytes", "metadata_bytes")) <= heap["resident_bytes"]
    return labels


def test_four_arenas_agree_with_their_own_statistics(byteledger, prog):
    with Program(prog("glibcheap"), "64", "4") as program:
        labels = check_against_mallinfo(byteledger, program)
        assert {"heap (brk)", "malloc arenas", "malloc large"} <= set(labels), labels


def pss(pid):
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def test_reading_the_child_of_a_fork_leaves_what_it_shares_shared(byteledger, prog):
    with Program(prog("oddheap"), "fork", "50") as program:
        child = int(program.said[5])
        before = pss(program.pid), pss(child)
        assert before[1] < 40 * 1024, before  # it is shared
        assert glibc(regions(byteledger, child))["live_bytes"] > 45 << 20
        assert glibc(regions(byteledger, program.pid))["live_bytes"] > 45 << 20
        for was, now in zip(before, (pss(program.pid), pss(child))):
            close(now, was)


def glibc_release():
    return tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[-1].split(".")))


def test_chunks_in_fastbins_are_free_and_make_whole_pages(byteledger, prog):
    with Program(prog("oddheap"), "fastbins", "100") as program:
        uordblks, fordblks, hblkhd, fsmblks = map(int, program.said[1:5])
        # since 2.43 there are none: what would lie in them is free as all else
        assert fsmblks > 90 << 20 or (fsmblks == 0 and fordblks > 90 << 20 and glibc_release() >= (2, 43))
        heap = glibc(regions(byteledger, program.pid))
        close(heap["live_bytes"] + heap["cache_bytes"] + heap["metadata_bytes"], uordblks + hblkhd)
        close(heap["free_page_bytes"] + heap["hole_bytes"], fordblks)
        assert heap["free_page_bytes"] > 0.9 * fordblks, heap
        assert heap["consistency"] > 99.9


def test_a_large_block_that_advice_and_protection_cut_is_one_block(byteledger, prog):
    with Program(prog("oddheap"), "cut", "64") as program:
        uordblks, _, hblkhd, _ = map(int, program.said[1:5])
        heap = glibc(regions(byteledger, program.pid))
        assert hblkhd >= 64 << 20
        close(heap["live_bytes"] + heap["cache_bytes"] + heap["metadata_bytes"], uordblks + hblkhd)
        assert heap["consistency"] > 99.9


def test_a_heap_with_few_empty_bins_is_read(byteledger, prog):
    with Program(prog("oddheap"), "nobins") as program:
        uordblks, fordblks, hblkhd, _ = map(int, program.said[1:5])
        heap = glibc(regions(byteledger, program.pid))
        close(heap["live_bytes"] + heap["cache_bytes"] + heap["metadata_bytes"], uordblks + hblkhd)
        # the top was never touched to its end
        assert 0.8 * fordblks < heap["free_page_bytes"] + heap["hole_bytes"] <= fordblks


@pytest.mark.large
def test_a_gibibyte_in_four_arenas_agrees_with_its_own_statistics(byteledger, prog):
    with Program(prog("glibcheap"), "1024", "4") as program:
        check_against_mallinfo(byteledger, program)


def test_a_stopped_program_is_read_and_stays_stopped(byteledger, prog):
    with Program(prog("glibcheap"), "16", "2") as program:
        os.kill(program.pid, signal.SIGSTOP)
        check_against_mallinfo(byteledger, program)
        with open(f"/proc/{program.pid}/stat", encoding="ascii") as file:
            assert file.read().rsplit(")", 1)[1].split()[0] in "Tt"


def test_a_heap_that_changes_all_the_time_is_read_without_harm(byteledger, prog):
    with Program(prog("glibcheap"), "64", "4", "churn") as program:
        readings = [glibc(regions(byteledger, program.pid)) for _ in range(10)]
        assert program.child.poll() is None
        # one that was moved under the reader for too long says so, and tells nothing
        told = [heap for heap in readings if heap["live_bytes"] is not None]
        assert all(heap["how"].startswith("not told: only ") for heap in readings if heap not in told), readings
        assert told and all(0 < heap["live_bytes"] < 1 << 30 and 50 <= heap["consistency"] <= 100 for heap in told), readings


def check_no_page_is_brought_in(byteledger, pid):
    def rss():
        with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("Rss:"))

    def waits(thread):
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "S"

    # on the way from its last word to its next read, or from the last barrier to its pause, each may bring in code of its own
    while not all(map(waits, os.listdir(f"/proc/{pid}/task"))):
        time.sleep(0.001)
    before = rss()
    regions(byteledger, pid)
    assert rss() == before


def test_reading_a_heap_brings_no_page_in(byteledger, prog):
    with Program(prog("glibcheap"), "32", "4") as program:
        check_no_page_is_brought_in(byteledger, program.pid)


def test_a_static_program_is_read_too(byteledger, prog):
    with Program(prog("glibcheap_static"), "16", "3") as program:
        check_against_mallinfo(byteledger, program)


def named(breakdown, allocator):
    found = [a for a in breakdown["allocators"] if a["allocator"] == allocator]
    assert len(found) == 1, breakdown["allocators"]
    return found[0]


def test_cpythons_small_objects_agree_with_its_own_statistics(byteledger):
    script = ("import sys,os\nkeep=[(i,str(i)*3) for i in range(200000)]\ndel keep[::3]\n"
              "sys._debugmallocstats()\nos.write(1,b'ready\\n')\nos.read(0,1)\n")
    child = subprocess.Popen(["/usr/bin/python3", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        # its statistics come before "ready", and fit into the pipe
        assert child.stdout.readline() == b"ready\n"
        breakdown = regions(byteledger, child.pid)
        child.stdin.close()
        stats = child.stderr.read().decode()
    finally:
        child.kill()
        child.wait()
        for stream in (child.stdout, child.stderr):
            stream.close()
    own = {k: int(v.replace(",", "")) for k, v in re.findall(r"^# bytes in (allocated|available) blocks\s*=\s*([0-9,]+)", stats, re.M)}
    heap = named(breakdown, "CPython objects")
    close(heap["live_bytes"], own["allocated"])
    assert heap["hole_bytes"] <= own["available"] * 1.05 + (1 << 20)
    runtime = sum(c["rss_bytes"] for c in breakdown["classes"] if c["class"] == "runtime")
    close(runtime, heap["resident_bytes"], 0.1)
    assert sum(c["rss_bytes"] for c in breakdown["classes"]) == breakdown["rss_bytes"]


@pytest.mark.large
@pytest.mark.parametrize("collector", ["G1", "Serial", "Parallel"])
def test_hotspots_spaces_are_those_of_jstat(byteledger, installed, tmp_path, collector):
    java = installed("java")
    source = tmp_path / "Hold.java"
    source.write_text("public class Hold { public static void main(String[] a) throws Exception {\n"
                      "byte[][] keep = new byte[256][]; for (int i = 0; i < 256; i++) keep[i] = new byte[1 << 18];\n"
                      "System.gc(); System.out.println(\"ready\"); System.in.read(); System.out.println(keep.length); } }\n")
    done = subprocess.run([java, "--version"], capture_output=True, text=True, timeout=60)
    javac = shutil.which("javac")
    if not javac:
        pytest.skip("javac is not installed")
    assert done.returncode == 0
    subprocess.run([javac, str(source)], check=True, timeout=120)
    with Program(java, "-XX:+UsePerfData", f"-XX:+Use{collector}GC", "-Xmx256m", "-cp", str(tmp_path), "Hold") as program:
        breakdown = regions(byteledger, program.pid)
        heap = named(breakdown, "HotSpot heap")
        # its mapping has the objects, and hardly another
        own = [c for c in breakdown["classes"] if c["label"] == "HotSpot heap"]
        assert [c["class"] for c in own] == ["runtime"] and 64 << 20 < own[0]["rss_bytes"] <= heap["resident_bytes"], (own, heap)
        assert max((c["rss_bytes"] for c in breakdown["classes"] if c["class"] == "anonymous"), default=0) < 64 << 20
        assert (64 << 20) < heap["live_bytes"] < (96 << 20), heap
        assert heap["live_bytes"] <= heap["reserved_bytes"] and heap["hole_bytes"] is None
        # `explain` knows as much, and both say that of the rest nothing is known
        sheet = " ".join(subprocess.run([byteledger, "explain", "-p", str(program.pid)], capture_output=True, text=True, check=True).stdout.split())
        assert re.search(r"HotSpot heap: [6-9][0-9.]+ in use when it last collected; the rest not told apart", sheet), sheet
        said = " ".join(subprocess.run([byteledger, "regions", "-p", str(program.pid)], capture_output=True, text=True, check=True).stdout.split())
        assert ("of heap it is not known what is in use" in sheet) == ("of heap it is not known what is in use" in said)
        jstat = shutil.which("jstat")
        if jstat:
            out = subprocess.run([jstat, "-gc", str(program.pid)], capture_output=True, text=True, timeout=60).stdout.split("\n")
            row = dict(zip(out[0].split(), map(lambda v: float(v) if v != "-" else 0, out[1].split())))
            close(heap["live_bytes"], 1024 * sum(row[k] for k in ("S0U", "S1U", "EU", "OU", "MU")), 0.05)
