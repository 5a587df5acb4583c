# SPDX-License-Identifier: Apache-2.0
"""`pages` where memory is short: a memory cgroup that reclaims, swap, and the pool of huge pages. Needs to change the machine for a moment:
not part of every check."""
import contextlib
import glob
import os
import subprocess
import time

import pytest

from test_pages import MIB, cold_file, held_against_kernel, needs_bpf, of_function, stepper, wait_for # noqa: F401 (fixtures)

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
