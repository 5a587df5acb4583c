# SPDX-License-Identifier: Apache-2.0
"""Several processes as one, and memory that is in no process's RSS: what is open and unmapped, sockets, page tables, the cgroup."""
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from test_regions import program, run, wait_for, zoo  # noqa: F401 (a fixture)
from test_regions_answers import Python, limited, look  # noqa: F401 (a fixture)
from test_regions_serve import Watch, fetch

HOLDERS = """
import ctypes, mmap, os, sys
fd = os.memfd_create('held-by-three')
for _ in range(20): os.write(fd, b'x' * (1 << 20))
shown = os.memfd_create('mapped-by-one')
for _ in range(5): os.write(shown, b'x' * (1 << 20))
kids = []
for n in range(2):
    pipe = os.pipe()
    pid = os.fork()
    if pid == 0:
        if n: m = mmap.mmap(shown, 5 << 20)
        os.write(pipe[1], b'x')
        sys.stdin.read()
        os._exit(0)
    os.read(pipe[0], 1)
print('ready', flush=True)
sys.stdin.read()
"""


def together(byteledger, *options):
    return json.loads(run(byteledger, *options, "--group", "process", "--format", "json").stdout)


def test_what_several_hold_and_none_maps_is_counted_once(byteledger, tmp_path):
    link = tmp_path / "holders"
    link.symlink_to(sys.executable)
    child = subprocess.Popen([str(link), "-c", HOLDERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        one = together(byteledger, "-n", "holders")
        assert len(one["processes"]) == 3
        assert (one["unmapped_file_bytes"], one["unmapped_files"]) == (20 << 20, 1), one["held"]
        assert one["held"] == [{"name": "/memfd:held-by-three", "bytes": 20 << 20}]
        text = run(byteledger, "-n", "holders", "--group", "process").stdout.decode()
        assert "20.0 MiB in 1 open file without a name that none of them maps:\n    20.0 MiB  /memfd:held-by-three\n" in text, text
        # of a single one both are unmapped, and stand in its RSS nowhere
        assert look(byteledger, child.pid)["beside"]["unmapped_file_bytes"] == 25 << 20
    finally:
        child.communicate("", timeout=60)


def test_a_segment_that_nobody_has_attached_is_its_makers(byteledger):
    code = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
segment = libc.shmget(0, 3 << 20, 0o1600)
at = libc.shmat(segment, None, 0)
ctypes.memset(at, 1, 3 << 20)
libc.shmdt(ctypes.c_void_p(at))
print(segment, flush=True)
sys.stdin.readline()
libc.shmctl(segment, 0, None)
"""
    with Python(code) as child:
        try:
            def of_kernel():
                with open("/proc/sysvipc/shm", encoding="ascii") as file:
                    return next((int(row[14]) for row in map(str.split, file) if row[1] == child.said), None)
            for _ in range(20):
                before, seen, after = of_kernel(), look(byteledger, child.pid)["beside"], of_kernel()
                if before == after:
                    break
            assert before and seen["unmapped_file_bytes"] == before, (before, seen)
            assert seen["unmapped_file_largest"].startswith(f"System V segment {child.said}, key 0x")
        finally:
            child.child.communicate("\n", timeout=60)


def test_what_lies_unread_in_sockets_is_told(byteledger):
    code = """
import socket, sys
a, b = socket.socketpair()
server = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(server.getsockname())
d, _ = server.accept()
sent = 0
for s in (a, c):
    s.setblocking(False)
    try:
        for _ in range(64): sent += s.send(b'x' * 4096)
    except BlockingIOError: pass
print(sent, flush=True)
sys.stdin.read()
"""
    with Python(code) as child:
        seen = look(byteledger, child.pid)["beside"]
        assert seen["sockets"] == 5 and int(child.said) <= seen["socket_bytes"] < int(child.said) * 8, (child.said, seen)
        assert re.search(r"beside it [0-9.]+ [KM]iB in buffers of its 5 sockets", run(byteledger, "-p", child.pid, "--all").stdout.decode())
    with Python("print('ready', flush=True); input()") as child:
        assert look(byteledger, child.pid)["beside"]["socket_bytes"] == 0


def test_page_tables_and_mappings_stand_in_the_verdict_where_they_are_large(byteledger, zoo): # noqa: F811
    code = """
import mmap, sys
m = mmap.mmap(-1, 4 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000)  # MAP_NORESERVE
m.madvise(15)  # MADV_NOHUGEPAGE
for i in range(0, 4 << 30, 2 << 20): m[i] = 1
print('ready', flush=True)
sys.stdin.read()
"""
    with Python(code) as child:
        seen = look(byteledger, child.pid)
        assert seen["page_table_bytes"] > 8 << 20 and seen["beside"]["oom_bytes"] == seen["rss_bytes"] + seen["swap_bytes"] + seen["page_table_bytes"]
        assert re.search(r"^  beside it page tables 8\.[0-9]+ MiB; the OOM killer counts ", run(byteledger, "-p", child.pid).stdout.decode(), re.M)
    limit = int(open("/proc/sys/vm/max_map_count", encoding="ascii").read())
    if limit > 200000:
        pytest.skip(f"a process may have {limit} mappings here: that takes too long")
    with zoo(splits=limit // 4 + 500) as (child, _, why):
        if "split" in why:
            pytest.skip(why["split"])
        page = run(byteledger, "-p", child.pid, "--top", "0").stdout.decode()
        assert re.search(rf"^  \d+ mappings of {limit} that a process may have \(vm.max_map_count\)$", page, re.M), page


def test_a_table_of_processes_is_made_again_and_again_in_any_order(byteledger, tmp_path):
    link = tmp_path / "tabled"
    link.symlink_to(sys.executable)
    code = "import sys\nx = bytearray({} << 20)\nprint('ready', flush=True)\nsys.stdin.readline()\ny = bytearray(30 << 20)\nprint('grown', flush=True)\nsys.stdin.read()"
    some = [subprocess.Popen([str(link), "-c", code.format(mib)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for mib in (40, 5, 20)]
    try:
        for child in some:
            assert child.stdout.readline() == "ready\n"
        with Watch(byteledger, None, "-n", "tabled", "--group", "process", "--watch", "0.2", "--sort", "growth", "--jsonl") as watch:
            def newest():
                return json.loads(watch.out[-1])["processes"] if watch.out else []
            wait_for(lambda: len(newest()) == 3, "a table")
            some[1].stdin.write("\n")
            some[1].stdin.flush()
            assert some[1].stdout.readline() == "grown\n"
            wait_for(lambda: newest()[0]["pid"] == some[1].pid and newest()[0]["growth_bytes"] > 25 << 20, "who grew comes first")
            one = json.loads(watch.out[-1])
            assert sum(p["pss_bytes"] for p in one["processes"]) == one["pss_bytes"]
            # one that ends leaves the table, one that comes has its row
            some[0].communicate("", timeout=60)
            some.append(subprocess.Popen([str(link), "-c", code.format(1)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            wait_for(lambda: {p["pid"] for p in newest()} == {c.pid for c in some[1:]}, "who is there now")
        with Watch(byteledger, None, "-n", "tabled", "--group", "process", "--watch", "0.1", "--sort", "rss") as watch:
            wait_for(lambda: sum(line.endswith("  sum") for line in watch.out) >= 2, "a second table")
            page = "\n".join(watch.out)
        tables = [[int(line.split()[-2]) for line in table.splitlines() if line.endswith("  tabled")] for table in page.split("\n\n")[:2]]
        assert len(tables) == 2 and all(t[:2] == [some[1].pid, some[2].pid] for t in tables), page
    finally:
        for child in some:
            child.kill()
            child.communicate()
    # all have ended: so does the table of those that were named by their ids
    with program(["sleep", "0.5"]) as child:
        run(byteledger, "-p", child.pid, "--group", "process", "--watch", "0.1")
    for wrong in (("--alert", "rss>1G"), ("--history", str(tmp_path / "h")), ("--serve", "127.0.0.1:0")):
        assert b"table to look at" in run(byteledger, "-p", os.getpid(), "--group", "process", "--watch", "1", *wrong, code=2).stderr


@pytest.mark.parametrize("rows, columns", [(4, 80), (6, 60), (24, 60), (24, 100)])
def test_a_table_made_again_fits_its_terminal(byteledger, rows, columns):
    """Nothing scrolls: a screen has a line less than the terminal, and no line is wider."""
    some = [subprocess.Popen(["sleep", "600"]) for _ in range(30 if rows > 6 else 3)]
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    targets = [word for child in some for word in ("-p", str(child.pid))]
    env = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
    try:
        table = subprocess.Popen([byteledger, "regions", *targets, "--group", "process", "--watch", "0.2", "--duration", "60s"],
                                 stdin=slave, stdout=slave, stderr=subprocess.DEVNULL, env={**env, "TERM": "xterm"})
        os.close(slave)
        shown = b""
        while shown.count(b"\x1b[H\x1b[J") < 3:
            shown += os.read(master, 1 << 16)
        for child in some:
            child.kill()
        table.kill()
        table.communicate()
        for screen in shown.decode().split("\x1b[H\x1b[J")[1:3]:
            lines = screen.replace("\r", "").splitlines()
            assert len(lines) + sum((len(line) - 1) // columns for line in lines if line) < rows, screen
            heading = next(line for line in lines if "PSS" in line and "pid" in line)
            assert len(heading) <= columns and heading.split()[:3] == ["PSS", "grown", "RSS"], screen
            assert [line for line in lines if line.endswith("  sleep")], screen
            if rows > 4:
                assert lines[-1].endswith("  sum"), screen
    finally:
        os.close(master)
        for child in some:
            child.kill()
            child.communicate()


def test_what_the_kernel_says_of_the_cgroup_is_what_is_told(byteledger, limited, tmp_path): # noqa: F811
    """Both versions; page cache, sockets, page tables, whatever that version tells."""
    code = f"""
import sys
x = bytearray(20 << 20)
with open({str(tmp_path / 'cached')!r}, 'wb') as file: file.write(b'x' * (10 << 20))
print('ready', flush=True)
sys.stdin.read()
"""
    def words(name):
        with open(os.path.join(limited, name), encoding="ascii") as file:
            text = file.read()
        return int(text) if text.strip().isdigit() else {w: int(n) for w, n in (line.split() for line in text.splitlines() if len(line.split()) == 2)}
    child = subprocess.Popen(["sh", "-c", f"echo $$ >{limited}/cgroup.procs && exec \"$0\" -c \"$1\"", sys.executable, code],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        two = os.path.exists(limited + "/memory.current")
        now = "memory.current" if two else "memory.usage_in_bytes"
        told = {"anon_bytes": "anon" if two else "total_rss", "page_cache_bytes": "file" if two else "total_cache",
                "page_cache_inactive_bytes": "inactive_file" if two else "total_inactive_file", "shmem_bytes": "shmem" if two else "total_shmem",
                "page_cache_dirty_bytes": "file_dirty" if two else "total_dirty"}
        if two:
            told.update({"page_table_bytes": "pagetables", "slab_reclaimable_bytes": "slab_reclaimable", "kernel_stack_bytes": "kernel_stack",
                         "slab_unreclaimable_bytes": "slab_unreclaimable", "socket_bytes": "sock", "kernel_bytes": "kernel", "percpu_bytes": "percpu"})
        for _ in range(100):
            before = words(now), words("memory.stat")
            one = together(byteledger, "--cgroup", limited)
            after = words(now), words("memory.stat")
            # it is the kernel's, which counts in batches and takes back: a reading between two that are equal counts
            if all(before[1].get(w) == after[1].get(w) for w in told.values()) and before[0] == after[0]:
                break
        assert before[0] == after[0], "the kernel's figures never stand still"
        group = one["cgroup"]
        assert {k: group[k] for k in told} == {k: after[1].get(w) for k, w in told.items()}
        assert group["version"] == (2 if two else 1) and group["current_bytes"] == after[0] and group["limit_bytes"] == 200 << 20
        assert group["page_cache_reclaimable_bytes"] + group["page_cache_held_bytes"] >= group["page_cache_bytes"] or group["page_cache_held_bytes"] == 0
        assert group["working_set_bytes"] == max(group["current_bytes"] - group["page_cache_inactive_bytes"], 0)
        if os.path.exists("/proc/pressure/memory"):
            assert 0 <= group["pressure_full_percent"] <= group["pressure_some_percent"] <= 100
        text = run(byteledger, "--cgroup", limited, "--group", "process").stdout.decode()
        for words_of in ("page cache, of that", "  can go when memory is wanted", "working set, which kubelet counts"):
            assert words_of in text, text
    finally:
        child.communicate("", timeout=60)


def test_histories_rules_and_metrics_know_what_is_beside(byteledger, tmp_path):
    kept = tmp_path / "h"
    with Python("import os, sys\nfd = os.memfd_create('x')\nos.write(fd, b'x' * (3 << 20))\nprint('ready', flush=True)\nsys.stdin.read()") as child:
        done = run(byteledger, "-p", child.pid, "--watch", "0.2", "--history", kept, "--alert", "unmapped>2M", "--on-alert", "exit", "--duration", "60s", code=3)
        assert b"open files without a name that nobody maps in the process is 3.00 MiB, above 2.00 MiB" in done.stderr
        with Watch(byteledger, child.pid, "--watch", "0.2", "--serve", "127.0.0.1:0") as watch:
            url = watch.url()
            watch.wait_line(r"^\d\d:\d\d:\d\d", watch.out)
            fetch(url + "/debug/memory?full=1&format=json")
            rows = fetch(url + "/metrics")[2]
            assert re.search(r"^byteledger_socket_buffer_bytes\{[^}]*\} 0$", rows, re.M)
            assert re.search(r"^byteledger_unmapped_file_bytes\{[^}]*\} 3145728$", rows, re.M)
            assert re.search(r"^byteledger_oom_bytes\{[^}]*\} \d+$", rows, re.M)
            told = look(byteledger, child.pid)["beside"]["cgroup"]
            for name, kind in (("page_cache_reclaimable_bytes", "page_cache_reclaimable"), ("current_bytes", "current")):
                assert (told.get(name) is not None) == (f'kind="{kind}"' in rows), rows
            assert ("pressure_some_percent" in told) == ("byteledger_cgroup_pressure_ratio{" in rows)
    series = {(s["class"], s["label"]) for s in json.loads(run(byteledger, "--history", kept, "--format", "json").stdout)["series"]}
    assert ("beside", "page tables") in series
    listed = run(byteledger, "--classes").stdout.decode()
    assert re.search(r"^beside .*no part of RSS", listed, re.M) and re.search(r"^  page tables ", listed, re.M)
