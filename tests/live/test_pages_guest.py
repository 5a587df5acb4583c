# SPDX-License-Identifier: Apache-2.0
"""`pages` under other kernels, Linux 6.1 in any case: it loads, and the rows of the truth table that take seconds hold."""
import os
import subprocess
import sys

import pytest

from conftest import ROOT


@pytest.mark.guest
@pytest.mark.timeout(620)
@pytest.mark.parametrize("kernel", ["6.1", *filter(None, os.environ.get("GUEST_KERNELS", "").split(":"))])
def test_pages_add_up_and_have_stacks_on_linux(kernel):
    """GUEST_KERNELS: packages of other cloud kernels, by path."""
    if os.geteuid() != 0:
        pytest.skip("needs root for virtiofs")
    done = subprocess.run([os.path.join(ROOT, "scripts", "guest.sh"), "-k", kernel, "-t", "280", "--", sys.executable, "-m", "pytest", "-q",
                           "-p", "no:cacheprovider", "-c", "tests/live/pytest.ini", "--rootdir", ".", "tests/live/test_pages.py",
                           "-m", "not large", "-k", "every_step or without_frame or before_is or nothing_is_left or a_leaf"], capture_output=True, text=True, timeout=600, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    assert "6 passed" in done.stdout and "skipped" not in done.stdout, done.stdout[-1000:]
