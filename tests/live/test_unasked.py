# SPDX-License-Identifier: Apache-2.0
"""Nobody listens who was not asked to."""
import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest

BPF = os.geteuid() == 0 and os.path.exists("/sys/kernel/btf/vmlinux")


def listeners(pid):
    """Addresses at which a process listens."""
    with open(f"/proc/{pid}/net/tcp", encoding="ascii") as file:
        rows = [line.split() for line in file.readlines()[1:]]
    address = {row[9]: row[1] for row in rows if row[3] == "0A"}
    links = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # closed since it was listed
            links.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return [address[link[8:-1]] for link in links if link.startswith("socket:[") and link[8:-1] in address]


@pytest.mark.parametrize("command", [["pages", "--jsonl", "--watch", "0.1"], ["sample", "--jsonl", "--interval", "100ms"],
                                     ["regions", "--watch", "0.1", "--jsonl"]], ids=lambda c: c[0])
@pytest.mark.parametrize("asked", [False, True], ids=["unasked", "asked"])
def test_who_was_not_asked_to_serve_does_not_listen(byteledger, tmp_path, command, asked):
    if command[0] != "regions" and not BPF:
        pytest.skip("BPF needs root and a kernel with BTF")
    target = subprocess.Popen([sys.executable, "-c", "while True: bytearray(1000)"])
    serve = ["--serve", "127.0.0.1:0", "--no-auth"] if asked else []
    with open(tmp_path / "out", "wb") as out:
        look = subprocess.Popen([byteledger, *command, *serve, "-p", str(target.pid)], stdout=out, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not (tmp_path / "out").stat().st_size:
            assert time.monotonic() < deadline and look.poll() is None
            time.sleep(0.02)
        assert bool(listeners(look.pid)) == asked
    finally:
        look.send_signal(signal.SIGKILL)
        target.kill()
        look.wait()
        target.wait()
