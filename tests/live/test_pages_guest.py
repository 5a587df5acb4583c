# SPDX-License-Identifier: Apache-2.0
"""`pages` under other kernels, Linux 6.1 in any case: it loads, and the rows of the truth table that take seconds hold."""
import os
import subprocess
import sys

import pytest

from conftest import ROOT


@pytest.mark.guest
@pytest.mark.timeout(1900)
@pytest.mark.parametrize("kernel", ["6.1", *filter(None, os.environ.get("GUEST_KERNELS", "").split(":"))])
def test_pages_add_up_and_have_stacks_on_linux(kernel):
    """GUEST_KERNELS: packages of other cloud kernels, by path. Two minutes each, where nobody else computes."""
    if os.geteuid() != 0:
        pytest.skip("needs root for virtiofs")
    done = subprocess.run([os.path.join(ROOT, "scripts", "guest.sh"), "-k", kernel, "-t", "900", "--", sys.executable, "-m", "pytest", "-q",
                           "-p", "no:cacheprovider", "-c", "tests/live/pytest.ini", "--rootdir", ".", "tests/live/test_pages.py",
                           "-m", "not large", "-k", "every_step or without_frame or before_is or nothing_is_left or a_leaf"], capture_output=True, text=True, timeout=1880, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "6 passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-1000:]
