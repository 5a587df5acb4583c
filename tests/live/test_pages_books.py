# SPDX-License-Identifier: Apache-2.0
"""What `pages` says of itself adds up: reasons, the page cache against the kernel's own books, and what it leaves in the kernel."""
import contextlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.request

import pytest

from netapi import free_port
from test_pages import IN_RSS, MIB, cold_file, loaded, needs_bpf, programs_of, wait_for # noqa: F401 (fixtures)
from test_pages_targets import Target

pytestmark = needs_bpf


def test_reasons_add_up_to_what_is_told(byteledger, tmp_path):
    """Of stacks that are missing, that end early, and of what was lost: every byte has one reason."""
    out = tmp_path / "out"
    code = ("import json, sqlite3, email, http.client, xml.dom.minidom, unittest, asyncio, decimal, ctypes, sys\n"
            "x = [bytearray(50000) for _ in range(400)]\nsys.stdin.read()")
    done = subprocess.Popen([byteledger, "pages", "--stacks", "1024", "--follow-children", "--jsonl", "--watch", "0.05", "--report", str(out),
                             "--", sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    # until a reading shows that the table was too small: that is one of the reasons
    try:
        wait_for(lambda: out.exists() and '"table_full":' in out.read_text(), 60)
    finally:
        said = done.communicate(timeout=60)[1]
    assert done.returncode == 0, said
    readings = [process for line in out.read_text().splitlines() for process in json.loads(line)["processes"]]
    assert any("table_full" in process["unattributed"] for process in readings)
    for process in readings:
        resident = [row for row in process["rows"] if row["kind"] in IN_RSS]

        def by(key):
            sums = {}
            for row in resident:
                if key in row:
                    sums[row[key]] = sums.get(row[key], 0) + row["bytes"]
            return sums
        assert by("reason") == process["unattributed"]
        assert sum(process["unattributed"].values()) == process["rss_bytes"] - process["attributed_bytes"]
        assert by("partial") == process["partial_stacks"]["by_reason"]
        assert sum(process["partial_stacks"]["by_reason"].values()) == process["partial_stacks"]["bytes"]
        assert sum(process["lost"]["by_reason"].values()) == process["lost"]["events"]
        assert all(("reason" in row) == (row["frames"] == []) for row in resident)


@contextlib.contextmanager
def memory_group():
    """Of whichever version."""
    name = f"byteledger-{secrets.token_hex(8)}"
    for root in ("/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
        folder = f"{root}/{name}"
        try:
            os.mkdir(folder)
        except OSError:
            continue
        if os.path.exists(folder + "/memory.stat"):
            break
        os.rmdir(folder)
    else:
        pytest.skip("no memory cgroup can be made")
    try:
        yield folder
    finally:
        wait_for(lambda: not open(folder + "/cgroup.procs").read())
        os.rmdir(folder)


def cache_of(folder):
    """Page cache that the kernel has charged to the group: of files, not of shared memory."""
    figures = dict(line.split() for line in open(folder + "/memory.stat"))
    return int(figures["file" if "file" in figures else "cache"]) - int(figures["shmem"])


def test_page_cache_that_it_read_is_what_the_kernel_charges_to_its_group(byteledger, prog, cold_file): # noqa: F811
    port = free_port()
    with memory_group() as folder:
        def inside():
            with open(folder + "/cgroup.procs", "w") as procs:
                procs.write(str(os.getpid()))
        target = Target([prog("pages"), cold_file], inside)
        ledger = subprocess.Popen([byteledger, "pages", "-q", "--serve", f"127.0.0.1:{port}", "-p", str(target.pid)], stderr=subprocess.DEVNULL)
        try:
            def live():
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/tree?short=true&view=live&unit=bytes", timeout=20) as reply:
                    return json.loads(reply.read())["cache"]

            def answers():
                try:
                    return live() is not None
                except OSError:
                    return False
            wait_for(answers)
            before, at_first = cache_of(folder), live()
            for way in ("filemap", "read"):
                target.go(way)
            # read before: 0; the kernel's figure is brought up to date by and by, and pages may be taken back at any moment
            wait_for(lambda: live() - at_first == cache_of(folder) - before and live() - at_first >= 4 * MIB, 30)
            os.truncate(cold_file, MIB) # and what goes is gone from both
            wait_for(lambda: live() - at_first == cache_of(folder) - before and live() - at_first <= 2 * MIB, 30)
        finally:
            ledger.terminate()
            ledger.wait(20)
            target.end()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("command", ["run", "sample", "pages of a name"])
def test_the_kernel_has_as_many_programs_as_before(byteledger, prog, cold_file, tmp_path, command, number): # noqa: F811
    """Whoever of ours loads programs, and however it ends."""
    target = Target([prog("pages"), cold_file])
    argv = {"run": ["run", "-q", "-o", str(tmp_path / "x.blt"), "--", prog("pages"), cold_file],
            "sample": ["sample", "-p", str(target.pid), "-f", "malloc", "--format", "json"],
            "pages of a name": ["pages", "-n", "nobody-bears-that-name", "--jsonl"]}[command]
    ledger = subprocess.Popen([byteledger, *argv], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: programs_of(ledger.pid) or ledger.poll() is not None, 60)
        assert ledger.poll() is None
        ours = programs_of(ledger.pid)
        assert ours and ours <= loaded()
        ledger.send_signal(number)
        ledger.communicate(b"quit\n", timeout=60)
        # whatever it loaded since is in none of the lists either: its descriptors were all that held them
        wait_for(lambda: not ours & loaded()) # the kernel frees them a moment later
    finally:
        if ledger.poll() is None:
            ledger.kill()
            ledger.wait()
        target.end()


GROWS = ("import mmap,sys\n"
         "kept=[]\n"
         "def first(): kept.append(mmap.mmap(-1,4<<20)); kept[-1].write(b'x'*(4<<20))\n"
         "def later(): kept.append(mmap.mmap(-1,16<<20)); kept[-1].write(b'x'*(16<<20))\n"
         "first()\n"
         "print('ready',flush=True)\n"
         "sys.stdin.readline()\n"
         "later()\n"
         "print('done',flush=True)\n"
         "sys.stdin.read()\n")


def test_since_shows_what_came_and_a_quiet_target_wakes_nobody(byteledger, tmp_path):
    """One that waits: the thread that follows it sleeps, and is there at once when stacks come."""
    target = subprocess.Popen([sys.executable, "-c", GROWS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    record, out = tmp_path / "pages.blt", tmp_path / "out"
    ledger = None
    try:
        assert target.stdout.readline() == "ready\n"
        ledger = subprocess.Popen([byteledger, "pages", "-p", str(target.pid), "--since", "1h", "--watch", "3600", "-o", str(record), "--report",
                                   str(out)], env={**os.environ, "COLUMNS": "80"}, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: record.exists() and record.stat().st_size > 0) # the first reading is there
        tasks = f"/proc/{ledger.pid}/task"
        thread = next(t for t in os.listdir(tasks) if open(f"{tasks}/{t}/comm").read() == "pages\n")

        def switches():
            return next(line for line in open(f"{tasks}/{thread}/status") if line.startswith("voluntary"))

        def sleeps():
            before = switches()
            time.sleep(0.5) # five turns, while it makes any
            return switches() == before
        wait_for(sleeps)
        target.stdin.write("\n")
        target.stdin.flush()
        assert target.stdout.readline() == "done\n"
        wait_for(sleeps)
        ledger.send_signal(signal.SIGINT)
        said = ledger.communicate(timeout=60)[1]
        assert ledger.returncode == 0, said
    finally:
        if ledger and ledger.poll() is None:
            ledger.kill()
        target.kill()
        target.wait()
    text = out.read_text()
    lines = text.splitlines()
    assert all(len(line) <= 80 for line in lines), text
    assert any(" before: 16." in line and "MiB more" in line for line in lines), text
    assert "mmap_write_method" in text or "mmap" in text, text
    assert "(no stack)" not in text, text
