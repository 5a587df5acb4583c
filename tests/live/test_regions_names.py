# SPDX-License-Identifier: Apache-2.0
"""Names by BPF where the kernel keeps none: who mapped it, and what prctl() was refused."""
import json
import os
import shutil
import signal
import subprocess
import time
import urllib.request

import pytest

from test_regions_serve import Watch

LOOKING = "byteledger: looking at what is mapped and named from now on"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="BPF needs root")


class Mapper:
    """tests/prog/mapnames: maps and names when told to."""

    def __init__(self, prog, *wrap):
        self.child = subprocess.Popen([*wrap, prog("mapnames")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.child.stdout.readline() == "ready\n"
        self.pid = self.child.pid

    def go(self):
        """{what: [(start, bytes)]}, the last of each last."""
        self.child.stdin.write("go\n")
        self.child.stdin.flush()
        places = {}
        while (line := self.child.stdout.readline()) != "done\n":
            what, start, size = line.split()
            places.setdefault(what, []).append((int(start), int(size)))
        return places

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.wait()
        self.child.stdin.close()
        self.child.stdout.close()


def over(seen, start, size):
    """The pieces that cover [start, start + size), in order."""
    return [r for r in seen["regions"] if r["start"] < start + size and r["end"] > start]


def check(seen, places, exact=True):
    def one(what, number=-1):
        start, size = places[what][number]
        found = over(seen, start, size)
        assert len(found) == 1 and (found[0]["start"], found[0]["end"]) == (start, start + size), (what, found)
        assert found[0]["rss_bytes"] == size
        return found[0]["class"], found[0]["label"], found[0]["how"]

    asked = "stack that mapped it"
    # one mapping to the kernel, two functions to us
    assert one("index", 0) == ("anonymous", "mmap by keep_index", asked)
    assert one("blocks", 0) == ("anonymous", "mmap by keep_blocks", asked)
    assert over(seen, *places["index"][0])[0]["owner"].endswith("/mapnames")
    # mapped anew where another's had been; moved by mremap(); mapped over what had a name
    assert one("blocks", 1) == ("anonymous", "mmap by keep_blocks", asked)
    assert one("moved") == ("anonymous", "mmap by grow", asked)
    assert one("blocks", 2) == ("anonymous", "mmap by keep_blocks", asked)
    start, size = places["cache"][0]
    assert [(r["name"], r["label"], r["class"], r["how"], r["rss_bytes"]) for r in over(seen, start, size)] == [
        (f"TNC-{n}", "TNC-*", "named", "name seen by the prctl probe", size // 4) for n in range(4)]
    rows = {(c["class"], c["label"]): c for c in seen["classes"]}
    assert rows["named", "TNC-*"]["rss_bytes"] == size and rows["named", "TNC-*"]["count"] == 4
    # the rules that know the kernel's names know these; what the kernel would never take is none
    assert one("go") == ("runtime", "Go: heap", "name seen by the prctl probe")
    assert one("bad") == ("anonymous", "mmap by main", asked)
    assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"]
    if exact:
        assert seen["rss_bytes"] == seen["checks"]["rollup_rss_bytes"]


def kernel_keeps_names():
    """A kernel with VMA names refuses none, so the probe has nothing to show: its own names are tested elsewhere."""
    import ctypes
    import mmap
    memory = mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    return ctypes.CDLL(None).prctl(0x53564d41, 0, ctypes.c_ulong(address), ctypes.c_ulong(4096), b"x") == 0


@needs_root
def test_what_is_mapped_meanwhile_is_called_by_who_asked_or_by_the_refused_name(byteledger, prog):
    if kernel_keeps_names():
        pytest.skip("this kernel keeps names itself")
    with Mapper(prog) as mapper:
        before = Watch(byteledger, mapper.pid, "--probe", "--duration", "10m", "--all", "--format", "json")
        before.wait_line(LOOKING)
        places = mapper.go()
        before.child.send_signal(signal.SIGINT)  # enough seen
        assert before.finish() == 0
        check(json.loads("".join(before.out)), places)
        # who comes later knows only what rules know
        late = json.loads(subprocess.run([byteledger, "regions", "-p", str(mapper.pid), "--format", "json", "--all"],
                                         capture_output=True, check=True).stdout)
        assert not {"stack that mapped it", "name seen by the prctl probe"} & {r["how"] for r in late["regions"]}


@needs_root
def test_a_watch_with_the_probe_serves_the_names(byteledger, prog):
    if kernel_keeps_names():
        pytest.skip("this kernel keeps names itself")
    with Mapper(prog) as mapper:
        watch = Watch(byteledger, mapper.pid, "--probe", "--watch", "0.2", "--serve", "127.0.0.1:0")
        try:
            watch.wait_line(LOOKING)
            url = watch.url()
            places = mapper.go()
            deadline = time.monotonic() + 60
            while True:
                quick = json.loads(urllib.request.urlopen(f"{url}/debug/memory?format=json&top=10000", timeout=30).read())
                if any(c["label"] == "TNC-*" for c in quick["classes"]):
                    break
                assert time.monotonic() < deadline
                time.sleep(0.05)
            check(quick, places, exact=False)
            full = json.loads(urllib.request.urlopen(f"{url}/debug/memory?format=json&top=10000&full=1", timeout=30).read())
            check(full, places)
        finally:
            watch.child.terminate()
            watch.finish()


def test_without_bpf_the_rules_name_what_they_can_and_stderr_says_so(byteledger, prog):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, to become somebody else")
    somebody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    copies = {name: shutil.copy(path, f"/tmp/byteledger-test-{name}-{os.getpid()}")
              for name, path in (("mapnames", prog("mapnames")), ("byteledger", byteledger))}
    try:
        with Mapper(copies.get, *somebody) as mapper:
            done = subprocess.run([*somebody, copies["byteledger"], "regions", "-p", str(mapper.pid), "--probe", "--duration", "1s",
                                   "--format", "json"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 0, done.stderr
            lines = done.stderr.splitlines()
            assert len(lines) == 2 and lines[0].endswith(": new mappings are called by rules only") and lines[1].startswith("hint: ")
            assert json.loads(done.stdout)["rss_bytes"] > 0
    finally:
        for path in copies.values():
            os.unlink(path)


def test_the_probe_needs_a_time_to_look(byteledger):
    done = subprocess.run([byteledger, "regions", "-p", str(os.getpid()), "--probe"], capture_output=True, text=True)
    assert done.returncode == 2 and "--duration" in done.stderr
