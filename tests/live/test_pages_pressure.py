# SPDX-License-Identifier: Apache-2.0
"""`pages` where memory is short: a memory cgroup that reclaims, swap, and the pool of huge pages. Needs to change the machine for a moment:
not part of every check."""
import contextlib
import json
import os
import signal
import subprocess
import threading
import time

import pytest

from test_pages import MIB, cold_file, held_against_kernel, kernel_figures, needs_bpf, of_function, stands, stepper, wait_for # noqa: F401 (fixtures)

pytestmark = [needs_bpf, pytest.mark.large, pytest.mark.timeout(300)]


@contextlib.contextmanager
def swap(tmp_path, mib):
    """A swap file, where the kernel takes one."""
    path = str(tmp_path / "swap")
    with open(path, "wb") as file:
        for _ in range(mib):
            file.write(bytes(MIB))
    os.chmod(path, 0o600)
    for command in (["mkswap", path], ["swapon", path]):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"no swap here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["swapoff", path], check=True)


@contextlib.contextmanager
def small_cgroup(pid, mib):
    """The process in a memory cgroup of that size, of whichever version."""
    for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/unified", "memory.max")):
        folder = os.path.join(root, f"byteledger-test-{pid}")
        home = root
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(os.path.join(folder, limit)):
            break
        os.rmdir(folder)
    else:
        pytest.skip("no memory cgroup can be made")

    def write(name, text):
        with open(os.path.join(folder, name), "w") as file:
            file.write(text)
    try:
        write(limit, str(mib * MIB))
        write("cgroup.procs", str(pid))
        yield
    finally:
        write(limit, "-1" if limit.endswith("bytes") else "max")
        with open(os.path.join(home, "cgroup.procs"), "w") as file:
            file.write(str(pid))
        for _ in range(50):
            try:
                os.rmdir(folder)
                break
            except OSError:
                time.sleep(0.1)


def test_what_a_memory_cgroup_swaps_out_keeps_its_stack(stepper, tmp_path): # noqa: F811
    s = stepper()
    s.go("memset")
    with swap(tmp_path, 128):
        with small_cgroup(s.pid, 24):
            s.go("big")
            process, figures = s.still()
            held_against_kernel(process, figures)
            assert process["kinds"]["swap"] >= 36 * MIB, process["kinds"]
            assert not set(process["unattributed"]), process["unattributed"]
            # resident or swapped out, each of its pages is that function's
            assert of_function(process, "way_big", ("anon", "swap")) == 64 * MIB
            assert of_function(process, "way_memset", ("anon", "swap")) >= 8 * MIB
            s.go("bigagain")
            process, figures = s.still()
            held_against_kernel(process, figures)
            assert not set(process["unattributed"]), process["unattributed"]
            # what comes back is read in for whoever looks, and is still the one's who made it
            assert of_function(process, "way_big", ("anon", "swap")) + of_function(process, "way_bigagain", ("anon", "swap")) == 64 * MIB
            assert process["lost"]["events"] - process["lost"]["by_reason"].get("events_missed", 0) == 0


def test_what_is_paged_out_and_read_in_again_keeps_its_stack(stepper, tmp_path): # noqa: F811
    s = stepper()
    s.go("mmap")
    with swap(tmp_path, 64):
        s.go("pageout")
        process, figures = s.still()
        held_against_kernel(process, figures)
        assert process["unattributed"] == {} and process["kinds"]["swap"] >= 3 * MIB, process["kinds"]
        assert of_function(process, "way_mmap", ("anon", "swap")) == 16 * MIB
        s.go("dontneed") # of others
        s.go("pagein")
        process, figures = s.still()
        held_against_kernel(process, figures)
        # what comes back is read in for whoever looks
        assert process["unattributed"] == {} and process["kinds"]["swap"] == 0
        assert of_function(process, "way_mmap") + of_function(process, "way_pagein", ("anon",)) == 10 * MIB


def test_pages_of_the_pool_have_the_stack_that_touched_them(stepper): # noqa: F811
    pool = "/proc/sys/vm/nr_hugepages"
    before = open(pool).read()
    try:
        with open(pool, "w") as file:
            file.write("8")
        if int(open(pool).read()) < 4:
            pytest.skip("no huge pages can be had")
        s = stepper()
        s.go("hugetlb")
        process, figures = s.still()
        held_against_kernel(process, figures)
        assert process["kinds"]["hugetlb"] == process["checks"]["hugetlb_bytes"] == 4 * MIB
        assert of_function(process, "way_hugetlb", ("hugetlb",)) == 4 * MIB
    finally:
        with open(pool, "w") as file:
            file.write(before)


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


CHURN = float(os.environ.get("BYTELEDGER_CHURN", "60")) # seconds


@pytest.mark.timeout(600 + 2 * CHURN) # the last round may be a long one
def test_churn_leaves_sums_exact_and_tables_bounded(byteledger, prog, tmp_path): # noqa: F811
    """BYTELEDGER_CHURN: seconds (default 60). What it came to is printed: -s shows it."""
    path, out = tmp_path / "file", tmp_path / "out"
    path.write_bytes(os.urandom(MIB) * 4)
    ledger = subprocess.Popen([byteledger, "pages", "--jsonl", "--watch", "0.5", "--follow-children", "--report", str(out), "--",
                               prog("pagestorm"), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    rounds, begun, seen, figures = 0, "", [], []
    try:
        wait_for(lambda: out.exists() and out.read_text().count("\n") > 0)
        pid = json.loads(out.read_text().split("\n")[0])["processes"][0]["pid"]
        threading.Thread(target=lambda: seen.extend(ledger.stdout), daemon=True).start()
        with swap(tmp_path, 64), open(out) as lines:
            end = time.monotonic() + CHURN
            while time.monotonic() < end:
                with open("/proc/sys/vm/compact_memory", "w") as file:
                    file.write("1")
                behind = len(seen)
                wait_for(lambda: len(seen) >= behind + 5, 120) # rounds go on
                os.kill(pid, signal.SIGSTOP)
                try:
                    now, whole = time.monotonic_ns(), None
                    wait_for(lambda: stands(pid))
                    now = time.monotonic_ns()
                    limit = time.monotonic() + 60
                    while whole is None:
                        assert time.monotonic() < limit, "no reading came"
                        begun += lines.readline()
                        if not begun.endswith("\n"):
                            time.sleep(0.05)
                            continue
                        one, begun = json.loads(begun), ""
                        mine = [p for p in one["processes"] if p["pid"] == pid]
                        if mine and mine[0]["time_ns"] - mine[0]["walk_ns"] > now:
                            whole = one
                    held_against_kernel(mine[0], kernel_figures(pid))
                finally:
                    os.kill(pid, signal.SIGCONT)
                assert set(mine[0]["unattributed"]) <= {"other_task"} and \
                    mine[0]["attributed_bytes"] >= 0.999 * mine[0]["rss_bytes"], mine[0]["unattributed"]
                # what was swapped out and is read again was made by whoever reads it
                kept = of_function(mine[0], "steady", ("anon", "swap")) + of_function(mine[0], "storm_of_swapping", ("anon", "swap"))
                assert kept == 16 * MIB, kept
                lost = mine[0]["lost"]["by_reason"]
                assert set(lost) <= {"events_missed"}, lost
                kernel = whole["kernel"]
                assert kernel["stacks"] < kernel["stacks_max"]
                figures.append((len(seen), kernel["stacks"], kernel.get("moved_pages", 0), kernel.get("stale_pages", 0), resident_kib(ledger.pid)))
            rounds = len(seen)
    finally:
        ledger.communicate("\n", timeout=60)
    assert ledger.returncode == 0
    # rounds, numbers of stacks, pages moved, stale owners, KiB of byteledger's own: the second half grows by little
    half = figures[len(figures) // 2]
    print(f"rounds {rounds}, forks {8 * rounds}, checks {len(figures)}, half {half}, end {figures[-1]}")
    assert figures[-1][4] <= half[4] * 1.25 + 8192, (half, figures[-1])
