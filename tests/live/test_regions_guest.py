# SPDX-License-Identifier: Apache-2.0
"""`regions` and libbyteledger under Linux 6.1: no PAGEMAP_SCAN, no PROCMAP_QUERY, no KSM line in smaps, no VMA names (and the probe for them)."""
import os
import subprocess
import sys

import pytest

from conftest import ROOT


@pytest.mark.guest
def test_regions_and_the_library_hold_their_promises_on_linux_6_1():
    if os.geteuid() != 0:
        pytest.skip("needs root for virtiofs")
    chosen = "each_kind or quick_reading or without_privileges or inside_and_outside or every_promise or clear_line or mapped_meanwhile or without_bpf or thread_that_runs"
    done = subprocess.run([os.path.join(ROOT, "scripts", "guest.sh"), "-k", "6.1", "-t", "280", "--", sys.executable, "-m", "pytest", "-q",
                           "-p", "no:cacheprovider", "tests/live/test_regions.py", "tests/live/test_embed.py", "tests/live/test_regions_names.py", "-m", "not large",
                           "-k", chosen], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "11 passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-1000:]



@pytest.mark.guest
def test_processes_of_a_cgroup_of_version_2_are_one_ledger():
    """This machine may have the memory controller in version 1; the guest has version 2."""
    if os.geteuid() != 0:
        pytest.skip("needs root for virtiofs")
    done = subprocess.run([os.path.join(ROOT, "scripts", "guest.sh"), "-k", "6.1", "-t", "280", "--", sys.executable, "-m", "pytest", "-q",
                           "-p", "no:cacheprovider", "tests/live/test_regions_together.py", "-k", "kernel_says or several_hold"],
                          capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "2 passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-1000:]


test_processes_of_a_cgroup_of_version_2_are_one_ledger.pytestmark.append(pytest.mark.timeout(620))
test_regions_and_the_library_hold_their_promises_on_linux_6_1.pytestmark.append(pytest.mark.timeout(620))
