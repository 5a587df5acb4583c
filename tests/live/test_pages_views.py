# SPDX-License-Identifier: Apache-2.0
"""/v1/tree seen otherwise than as RSS: what a process caused and still lives, several processes with each page once, and the readings
that a recording has."""
import json
import os
import signal
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from netapi import free_port
from test_pages import cold_file, kernel_figures, needs_bpf, sums_hold, wait_for # noqa: F401 (a fixture)

pytestmark = needs_bpf
MIB = 1 << 20


class Served:
    """A command that serves, and what it answers."""

    def __init__(self, argv, port, **more):
        self.base = f"http://127.0.0.1:{port}"
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **more)

    def ask(self, path):
        try:
            with urllib.request.urlopen(self.base + path, timeout=10) as reply:
                return reply.status, json.loads(reply.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())
        except OSError:
            return 0, {}

    def go(self, way):
        self.process.stdin.write(way + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline().startswith(f"done {way}")


def frames_of(pid):
    """Numbers of the physical pages that are RSS."""
    found = set()
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/pagemap", "rb") as pagemap:
        for line in maps:
            start, end = (int(n, 16) for n in line.split()[0].split("-"))
            if "[vvar" in line or "[vsyscall]" in line:
                continue
            pagemap.seek(start // 4096 * 8)
            for word in struct.unpack(f"{(end - start) // 4096}Q", pagemap.read((end - start) // 4096 * 8)):
                if word >> 63:
                    found.add(word & ((1 << 55) - 1))
    return found


def test_several_processes_count_each_page_once_and_live_memory_is_what_was_caused(byteledger, prog, cold_file): # noqa: F811
    port = free_port()
    served = Served([byteledger, "pages", "--serve", f"127.0.0.1:{port}", "--watch", "0.1", "-q", "--follow-children", "--",
                     prog("pages"), cold_file], port)
    try:
        pid = int(served.process.stdout.readline().split()[2])
        for way in ("mmap", "read", "fork"):
            served.go(way)
        wait_for(lambda: served.ask("/v1/pid")[1] == pid)
        children = open(f"/proc/{pid}/task/{pid}/children").read().split()
        assert len(children) == 1
        pids = [pid, int(children[0])]
        for one in pids:
            os.kill(one, signal.SIGSTOP)
        time.sleep(0.3)
        wait_for(lambda: served.ask("/v1/tree?short=true")[1].get("age", 999) < 200)
        query = "/v1/tree?threshold=0&unit=bytes&kind=anon,shmem,file"
        single = [served.ask(f"{query}&pid={one}")[1]["value"] for one in pids]
        assert single == [kernel_figures(one)["smaps"] for one in pids]
        group = served.ask(f"{query}&view=group")[1]
        assert group["value"] == 4096 * len(frames_of(pids[0]) | frames_of(pids[1])) < sum(single)
        sums_hold(group)
        assert served.ask(f"/v1/tree?view=group&pid={pid}")[0] == served.ask("/v1/tree?view=heap")[0] == 400
        # what it caused and still lives: its anonymous memory, and the page cache that it read, mapped or not
        live = served.ask("/v1/tree?threshold=0&unit=bytes&view=live")[1]
        sums_hold(live)
        short = served.ask("/v1/tree?short=true&view=live&unit=bytes")[1]
        assert live["value"] == short["total"] and live["cacheValue"] == short["cache"] >= 4 * MIB
        reverse = served.ask("/v1/tree?threshold=0&unit=bytes&view=live&reverse=true")[1]
        assert (reverse["value"], reverse["cacheValue"]) == (live["value"], live["cacheValue"])
        # but for copies that only the child has by now
        assert 0 <= live["value"] - live["cacheValue"] - kernel_figures(pid)["RssAnon"] <= 4 * MIB
        assert served.ask("/v1/tree?view=live&kind=kernel&threshold=0")[1]["value"] > 0
    finally:
        for one in pids:
            os.kill(one, signal.SIGCONT)
        served.process.communicate("reap\nquit\n", timeout=20)


def test_a_recording_of_both_books_is_served_with_its_tree(byteledger, tmp_path):
    path, port = str(tmp_path / "both.blt"), free_port()
    program = "import mmap,time\nm=mmap.mmap(-1,12<<20)\nfor i in range(0,12<<20,4096): m[i]=1\ntime.sleep(1.2)\n"
    done = subprocess.run([byteledger, "run", "-q", "-o", path, "--", os.path.realpath(sys.executable), "-c", program], timeout=60)
    assert done.returncode == 0
    recorded = json.loads(subprocess.run([byteledger, "report", path, "--format", "json", "--at", "end"], capture_output=True).stdout)
    served = Served([byteledger, "serve", "-q", "-l", f"127.0.0.1:{port}", path], port)
    try:
        wait_for(lambda: served.ask("/v1/pid")[0] == 200)
        assert served.ask("/v1/pid")[1] == recorded["process"]["pid"]
        tree = served.ask("/v1/tree?threshold=0&unit=bytes&kind=anon,shmem,file")[1]
        assert tree["value"] == recorded["pages"]["rss_bytes"]
        sums_hold(tree)
        # a moment of the recording, be it before its first reading
        first = json.loads(subprocess.run([byteledger, "report", path, "--format", "json", "--at", "0"], capture_output=True).stdout)["pages"]
        past = recorded["pages"]["time_ns"] - first["time_ns"]
        for ago in (past // 1000000, past // 1000000 + 1, recorded["pages"]["time_ns"] // 1000000):
            if ago:
                earlier = served.ask(f"/v1/tree?threshold=0&unit=bytes&at=-{ago}ms&kind=anon,shmem,file")
                assert earlier[0] == 200, (ago, earlier)
        assert earlier[1]["value"] == first["rss_bytes"]
        assert served.ask("/v1/tree?at=-10m")[0] == 404
        assert served.ask("/v1/tree?view=live")[0] == 400
        assert served.ask("/openapi/memory-profiler-openapi.json")[1]["openapi"].startswith("3.")
    finally:
        served.process.terminate()
        served.process.communicate(timeout=20)
