# SPDX-License-Identifier: Apache-2.0
"""scripts/guest.sh itself: a command under Linux 6.1 gives its output and status back."""
import os
import subprocess

import pytest

from conftest import ROOT


@pytest.mark.guest
def test_a_command_runs_under_linux_6_1_and_its_status_comes_back():
    if os.geteuid() != 0:
        pytest.skip("needs root for virtiofs")
    done = subprocess.run([os.path.join(ROOT, "scripts", "guest.sh"), "-k", "6.1", "--", "sh", "-c",
                           "uname -r; echo chatter >&2; ls /sys/kernel/btf/vmlinux; exit 7"],
                          capture_output=True, text=True, timeout=280)
    assert done.returncode == 7, done.stderr
    assert done.stdout.splitlines()[0].startswith("6.1.")
    assert "/sys/kernel/btf/vmlinux" in done.stdout
    assert "chatter" in done.stderr
