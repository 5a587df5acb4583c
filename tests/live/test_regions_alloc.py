# SPDX-License-Identifier: Apache-2.0
"""jemalloc, tcmalloc, mimalloc and Go's heap read from outside, against what each says of itself."""
import glob
import os
import re
import signal
import socket
import subprocess
import time

import pytest

from conftest import ROOT
from test_regions_heap import Program, check_no_page_is_brought_in, close, named, regions

LIBRARIES = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc_minimal.so.4", "mimalloc": "libmimalloc.so"}


def library(allocator):
    found = glob.glob(f"/usr/lib/*/{LIBRARIES[allocator]}")
    if not found:
        pytest.skip(f"{LIBRARIES[allocator]} is not installed")
    return found[0]


def start(prog, allocator, *argv):
    program = Program(prog("heapstats"), allocator, *argv, env={"LD_PRELOAD": library(allocator)})
    return program, {k: int(v) for k, v in (word.split("=") for word in program.said[1:])}


def check_jemalloc(heap, own):
    close(heap["live_bytes"] + heap["cache_bytes"], own["stats.allocated"], 0.001)
    close(heap["cache_bytes"], own["stats.arenas.4096.tcache_bytes"], 0.01)
    # its own count of pages to give back has those that were never touched in it, too
    unused = 4096 * (own["stats.arenas.4096.pdirty"] + own["stats.arenas.4096.pmuzzy"])
    assert 0.5 * unused < heap["free_page_bytes"] <= unused + own["stats.retained"], (heap, own)
    assert heap["hole_bytes"] <= own["stats.active"] - own["stats.allocated"] + (1 << 20)
    assert 0 < heap["metadata_bytes"] <= own["stats.metadata"] + (1 << 20), (heap, own)


def check_tcmalloc(heap, own):
    close(heap["live_bytes"], own["generic.current_allocated_bytes"], 0.001)
    close(heap["cache_bytes"], own["tcmalloc.transfer_cache_free_bytes"] + own["tcmalloc.thread_cache_free_bytes"], 0.01)
    assert 0.5 * own["tcmalloc.pageheap_free_bytes"] < heap["free_page_bytes"] <= own["tcmalloc.pageheap_free_bytes"], (heap, own)
    assert heap["hole_bytes"] <= own["tcmalloc.central_cache_free_bytes"] + (1 << 20)
    close(heap["reserved_bytes"], own["generic.heap_size"], 0.01)


def check_mimalloc(heap, own):
    close(heap["live_bytes"], own["bytes"], 0.001)
    close(heap["live_count"], own["blocks"], 0.001)


CHECKS = {"jemalloc": check_jemalloc, "tcmalloc": check_tcmalloc, "mimalloc": check_mimalloc}


def check_identity(breakdown, heap, allocator):
    """What the allocator's mappings hold is what its parts occupy, and the classes add up to RSS."""
    assert sum(c["rss_bytes"] for c in breakdown["classes"]) == breakdown["rss_bytes"]
    own = sum(c["rss_bytes"] for c in breakdown["classes"] if c["class"] == "allocator" and c["label"].startswith(allocator))
    close(own, heap["resident_bytes"], 0.1)
    parts = [heap[k] for k in ("free_page_bytes", "hole_bytes", "metadata_bytes")]
    assert sum(parts) <= heap["resident_bytes"]


@pytest.mark.parametrize("threads", ["1", "4"])
@pytest.mark.parametrize("allocator", CHECKS)
def test_an_allocator_agrees_with_its_own_statistics(byteledger, prog, allocator, threads):
    program, own = start(prog, allocator, "64", threads)
    with program:
        breakdown = regions(byteledger, program.pid)
        heap = named(breakdown, allocator)
        CHECKS[allocator](heap, own)
        assert heap["exact"] and heap["consistency"] > 99.9, heap
        check_identity(breakdown, heap, allocator)
        # the C library's own malloc was never used
        assert [a["allocator"] for a in breakdown["allocators"]] == [allocator]


@pytest.mark.parametrize("allocator", CHECKS)
def test_a_stopped_program_agrees_as_well_and_stays_stopped(byteledger, prog, allocator):
    program, own = start(prog, allocator, "16", "2")
    with program:
        os.kill(program.pid, signal.SIGSTOP)
        CHECKS[allocator](named(regions(byteledger, program.pid), allocator), own)
        with open(f"/proc/{program.pid}/stat", encoding="ascii") as file:
            assert file.read().rsplit(")", 1)[1].split()[0] in "Tt"


@pytest.mark.parametrize("allocator", CHECKS)
def test_an_allocator_at_work_is_read_without_harm(byteledger, prog, allocator):
    program, own = start(prog, allocator, "64", "4", "churn")
    with program:
        told, deadline = 0, time.monotonic() + 60
        for n in range(1000):
            if n >= 10 and (told or time.monotonic() > deadline):
                break
            heap = named(regions(byteledger, program.pid), allocator)
            if heap["live_bytes"] is None: # it changed under the reading so much that no figure is given
                assert heap["consistency"] < 50
                continue
            told += 1
            assert 0 < heap["live_bytes"] < 1 << 31
            assert 50 <= heap["consistency"] <= 100
        assert told
        assert program.child.poll() is None


@pytest.mark.parametrize("allocator", CHECKS)
def test_reading_an_allocator_brings_no_page_in(byteledger, prog, allocator):
    program, _ = start(prog, allocator, "16", "2")
    with program:
        check_no_page_is_brought_in(byteledger, program.pid)


def test_what_is_said_of_an_allocator_is_in_text_and_csv_too(byteledger, prog):
    program, _ = start(prog, "mimalloc", "16", "1")
    with program:
        text = subprocess.run([byteledger, "regions", "-p", str(program.pid), "--all"], capture_output=True, text=True, timeout=60).stdout
        assert "mimalloc" in text and re.search(r"(found by the secret that they share|by its page map), 100.0 % consistent", text)
        csv = subprocess.run([byteledger, "regions", "-p", str(program.pid), "--format", "csv", "--all"],
                             capture_output=True, text=True, timeout=60).stdout
        assert any('"allocator","mimalloc","mimalloc"' in line for line in csv.splitlines()), csv


def test_an_allocator_of_another_version_is_named_and_not_guessed_at(byteledger, prog, tmp_path):
    """A library of that name whose layout is not known: here, one that holds no allocator at all."""
    source = tmp_path / "other.c"
    source.write_text("int other;\n")
    names = {"jemalloc": "libjemalloc.so.1", "tcmalloc": "libtcmalloc.so.9", "mimalloc": "libmimalloc.so.3"}
    for name in names.values():
        subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / name), str(source)], check=True, timeout=60)
    with Program(prog("glibcheap"), "1", "1", env={"LD_PRELOAD": ":".join(str(tmp_path / n) for n in names.values())}) as program:
        breakdown = regions(byteledger, program.pid)
    for allocator in names:
        heap = named(breakdown, allocator)
        assert heap["how"].startswith("identified only, because "), heap
        assert heap["live_bytes"] is None and heap["consistency"] == 0


def test_books_that_lead_in_circles_are_given_up_and_the_others_are_read(byteledger, prog):
    """Followed to its end, the tree of this program would take minutes."""
    with Program(prog("hostileheap")) as program:
        breakdown = regions(byteledger, program.pid)
        heap = named(breakdown, "jemalloc")
        assert heap["how"] == "given up: what looks like its tables asks for more work than its memory warrants", heap
        assert heap["live_bytes"] is None and not heap["exact"], heap
        assert not any(c["label"].startswith("jemalloc") for c in breakdown["classes"]), breakdown["classes"]
        # what was looked for and not found in what was left is no news
        assert {a["allocator"] for a in breakdown["allocators"]} == {"glibc malloc", "jemalloc"}, breakdown["allocators"]
        assert named(breakdown, "glibc malloc")["consistency"] == 100


def redis_memory(path):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(b"INFO memory\r\n")
        text = b""
        while b"mem_allocator" not in text or not text.endswith(b"\r\n"):
            text += client.recv(65536)
    return dict(line.split(":", 1) for line in text.decode().split("\r\n") if ":" in line)


def test_redis_with_jemalloc_agrees_with_its_own_figures(byteledger, installed, tmp_path):
    server = subprocess.Popen([installed("redis-server"), "--port", "0", "--unixsocket", str(tmp_path / "r"), "--save", "",
                               "--dir", str(tmp_path), "--enable-debug-command", "yes"], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not os.path.exists(tmp_path / "r"):
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(tmp_path / "r"))
            client.sendall(b"DEBUG POPULATE 100000 key 200\r\n")
            assert client.recv(64) == b"+OK\r\n"
        own = redis_memory(str(tmp_path / "r"))
        if not own["mem_allocator"].startswith("jemalloc"):
            pytest.skip("this redis-server does not use jemalloc")
        # it asks its allocator ten times a second, not for each INFO
        while int(own["allocator_allocated"]) < 100000 * 200:
            assert time.monotonic() < deadline, own
            time.sleep(0.05)
            own = redis_memory(str(tmp_path / "r"))
        heap = named(regions(byteledger, server.pid), "jemalloc")
        close(heap["live_bytes"] + heap["cache_bytes"], int(own["allocator_allocated"]))
        assert heap["consistency"] > 99.9, heap
    finally:
        server.kill()
        server.wait()


@pytest.fixture(scope="module")
def goheap(installed, tmp_path_factory, go_cache):
    folder = tmp_path_factory.mktemp("go")
    env = {**os.environ, "GOCACHE": go_cache, "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local"}
    built = subprocess.run([installed("go"), "build", "-o", str(folder / "goheap"), os.path.join(ROOT, "tests/prog/goheap.go")],
                           env=env, capture_output=True, text=True, timeout=280)
    assert built.returncode == 0, built.stderr
    return str(folder / "goheap")


@pytest.mark.parametrize("stopped", [False, True])
def test_gos_heap_agrees_with_memstats(byteledger, goheap, stopped, tmp_path):
    if stopped:  # without symbols and debug information, too
        subprocess.run(["strip", "-o", str(tmp_path / "goheap"), goheap], check=True, timeout=60)
        goheap = str(tmp_path / "goheap")
    with Program(goheap, "64") as program:
        own = dict(word.split("=") for word in program.said[1:])
        own = {k: int(v) for k, v in own.items() if k != "Version"}
        if stopped:
            os.kill(program.pid, signal.SIGSTOP)
        breakdown = regions(byteledger, program.pid)
        heap, stacks = named(breakdown, "Go heap"), named(breakdown, "Go stacks")
        close(heap["live_bytes"], own["HeapAlloc"])
        close(heap["live_count"], own["HeapObjects"])
        close(heap["reserved_bytes"], own["HeapInuse"])
        close(stacks["live_bytes"], own["StackInuse"], 0.1)
        # each stack's memory is a piece of the arena's mapping: the pieces are the spans
        assert sum(c["virtual_bytes"] for c in breakdown["classes"] if c["label"] == "Go stacks") == stacks["reserved_bytes"], breakdown["classes"]
        # pages that it took and did not give back; some were never touched, some are given back behind its count
        assert heap["free_page_bytes"] <= own["HeapIdle"], (heap, own)
        assert heap["consistency"] > 99, heap
        # its threads run on stacks that are spans' parts: where the pointer is known, so is how much of one is used
        threads = [t for t in breakdown["threads"] if t["tid"] != program.pid]
        assert len(threads) >= 2 and (not stopped or all(t["used_bytes"] for t in threads)), threads
        for thread in threads:
            size = (thread["stack_end"] or 0) - (thread["stack_start"] or 0)
            assert thread["used_bytes"] is None or (0 < thread["used_bytes"] <= size <= 1 << 23), thread
        assert sum(c["rss_bytes"] for c in breakdown["classes"]) == breakdown["rss_bytes"]
        own_maps = sum(c["rss_bytes"] for c in breakdown["classes"] if c["class"] == "runtime")
        close(own_maps, heap["resident_bytes"] + stacks["resident_bytes"], 0.1)


JOINED = """
import sys
small = [str(i) * 3 for i in range(300000)]
large = [bytearray(1 << 20) for _ in range(16)]
small += [str(i) * 5 for i in range(300000)]
sys._debugmallocstats()
print("ready", flush=True)
sys.stdin.readline()
"""


def test_cpythons_arenas_that_the_kernel_joined_to_mallocs_blocks_are_counted(byteledger, tmp_path):
    """Mappings that touch are one to the kernel: eight arenas of 46 stood behind large blocks, and 38 MB of 47 were called exact."""
    with open(tmp_path / "own", "w+", encoding="utf-8") as said, \
            subprocess.Popen(["/usr/bin/python3", "-c", JOINED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        said.seek(0)
        own = int(re.search(r"# bytes in allocated blocks *= *([0-9,]+)", said.read())[1].replace(",", ""))
        seen = regions(byteledger, child.pid)
        child.stdin.close()
    assert own > 40 << 20
    close(named(seen, "CPython objects")["live_bytes"], own, 0.001)
    sums = {c["label"]: c["rss_bytes"] for c in seen["classes"]}
    assert sums["CPython objects"] >= own and sums["malloc large"] > 16 << 20
    assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"]


def test_gos_goal_and_limit_in_force_are_told(byteledger, goheap):
    with Program(goheap, "4", "paced", env={"GOGC": "37", "GOMEMLIMIT": "1GiB"}) as program:
        rows = {(s["name"], s["from"]): s["value"] for s in regions(byteledger, program.pid)["settings"]}
        assert rows["GOGC", "Go, in force"] == rows["GOGC", "environment"] == "37", rows
        assert rows["GOMEMLIMIT", "Go, in force"] == str(1 << 30), rows


def test_gos_heap_in_many_mappings_agrees_with_memstats(byteledger, goheap):
    with Program(goheap, "32", "split") as program:
        own = dict(word.split("=") for word in program.said[1:])
        own = {k: int(v) for k, v in own.items() if k != "Version"}
        os.kill(program.pid, signal.SIGSTOP)
        breakdown = regions(byteledger, program.pid)
        heap, stacks = named(breakdown, "Go heap"), named(breakdown, "Go stacks")
        assert next(c["count"] for c in breakdown["classes"] if c["label"] == "Go heap") > 300, breakdown["classes"]
        close(heap["live_bytes"], own["HeapAlloc"])
        close(heap["live_count"], own["HeapObjects"])
        close(heap["reserved_bytes"], own["HeapInuse"])
        assert heap["consistency"] > 99, heap
        # not a page of it is left out; what was only ever read is one page of zeroes, there but not part of RSS
        own_maps = sum(c["rss_bytes"] for c in breakdown["classes"] if c["class"] == "runtime")
        beside = heap["resident_bytes"] + stacks["resident_bytes"] - own_maps
        assert 0 <= beside <= own_maps / 100, (own_maps, heap, stacks)


@pytest.mark.parametrize("mode", ["paced", ""])
def test_gos_goal_and_what_it_keeps_are_told(byteledger, goheap, mode):
    with Program(goheap, "32", *([mode] if mode else [])) as program:
        own = dict(word.split("=") for word in program.said[1:])
        heap = named(regions(byteledger, program.pid), "Go heap")
        text = subprocess.run([byteledger, "regions", "-p", str(program.pid)], capture_output=True, text=True, timeout=60).stdout
        # the scavenger gives back behind its count: what is kept and what is given back are HeapIdle together
        close(heap["idle_bytes"] + heap["released_bytes"], int(own["HeapIdle"]))
        if mode:
            assert heap["gc_percent"] == 100
            close(heap["goal_bytes"], int(own["NextGC"]))
            assert re.search(r"next collection at [0-9.]+ MiB \(GOGC=100\); idle ", text), text
        else:
            assert heap["gc_percent"] == -1 and heap["goal_bytes"] is None
            assert "not collected (GOGC=off)" in text


def test_gos_heap_at_work_is_read_without_harm(byteledger, goheap):
    with Program(goheap, "32", "churn") as program:
        readings = [named(regions(byteledger, program.pid), "Go heap") for _ in range(10)]
        assert program.child.poll() is None
        # the list of spans may move away under the reader, or the heap grow by half while it reads on a busy machine: then it says so
        excuses = ("identified only, because ", "not told: only ")
        unread = [heap["how"] for heap in readings if heap["live_bytes"] is None]
        assert all(how.startswith(excuses) for how in unread), unread
        whole = [heap for heap in readings if heap["live_bytes"] is not None]
        assert whole and all(0 < heap["live_bytes"] < 1 << 31 and 0 < heap["consistency"] <= 100 for heap in whole), readings
