# SPDX-License-Identifier: Apache-2.0
"""`serve` of what is not over: recordings while they are written, commands that serve what they record, running processes."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from test_serve import Server, report

LIVE = """#include <stdlib.h>
#include <unistd.h>
void *keep[100000];
int main(void)
{
	for (int i = 0; i < 1000000; i++) {
		keep[i % 100000] = malloc(1000);
		usleep(1000);
	}
}
"""


def read_events(server, seconds, query=""):
    """(event, data) of the stream for so long."""
    got, deadline = [], time.monotonic() + seconds
    with urllib.request.urlopen(f"{server.url}api/v1/events{query}", timeout=10) as stream:
        event = None
        while time.monotonic() < deadline:
            line = stream.readline().decode().rstrip()
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                got.append((event, json.loads(line[6:])))
                if event == "ended" or not server.get("sources")[0]["live"]:
                    break
    return got


def test_a_recording_is_followed_while_it_is_written(byteledger, tmp_path, installed):
    (tmp_path / "live.c").write_text(LIVE.replace("1000000", "7000"))
    subprocess.run([installed("cc"), "-g", "-o", str(tmp_path / "live"), str(tmp_path / "live.c")], check=True)
    path = str(tmp_path / "live.blt")
    recorder = subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", str(tmp_path / "live")])
    try:
        deadline = time.monotonic() + 20
        while not (os.path.exists(path) and os.path.getsize(path) > 1000) and time.monotonic() < deadline:
            time.sleep(0.1)
        with Server(byteledger, path) as server:
            first = server.get("summary")
            assert first["live"] and not first["ended"] and first["age_ns"] < 5e9
            events = read_events(server, 3.5)
            early = next(f"{data['time_ns']}ns" for name, data in events if name == "sample" and data["heap_bytes"])  # it has begun by then
            at = server.get("tree", at=early, cost="live")
            assert server.get("tree", at=early, cost="live", function_regex="^main$")["total"] == at["total"]
            assert server.get("tree", cost="allocated", function_regex="^no such$")["total"] == 0
            rows = server.get("rows", by="function", cost="live", function_regex="^main$")["rows"]
            assert max(rows["inclusive_live_bytes"]) > 0 and set(rows["peak_bytes"]) == set(rows["inclusive_peak_bytes"]) == {None}
            assert 0 < max(server.get("rows", by="function", cost="peak", function_regex="^main$")["rows"]["inclusive_peak_bytes"])
            later = server.get("summary")
            assert later["generation"] > first["generation"]
            assert later["totals"]["allocations"] > first["totals"]["allocations"]
            assert server.get("tree", at=early, cost="live")["total"] == at["total"] > 0
            assert server.get("allocations", limit=1)["matched"] > 0
            names = [name for name, _ in events]
            assert names[0] == "hello" and events[0][1]["live"] == [0] and names.count("sample") >= 2
            heaps = [data["heap_bytes"] for name, data in events if name == "sample"]
            assert heaps == sorted(heaps) and heaps[-1] > 0
            assert read_events(server, 25)[-1] == ("ended", {"source": 0})
            recorder.wait(20)
            done = server.get("summary")
            assert done["ended"] and not done["live"]
            told = server.get("tree", cost="allocated", function_regex="^main$")["total"]
            assert told == report(byteledger, path, "--function-regex", "^main$")["totals"]["allocated_bytes"] > 0
            assert None not in server.get("rows", by="function", cost="live", function_regex="^main$")["rows"]["peak_bytes"]
            assert done["totals"]["allocations"] == report(byteledger, path)["totals"]["allocations"] >= 7000
            assert server.ask("/api/v1/events?topics=noise")[0] == 400
    finally:
        recorder.terminate()
        recorder.wait()


GROWS = """
import mmap, sys, time
kept = []
for _ in range(400):
    kept.append(bytearray(100_000))
    shared = mmap.mmap(-1, 1 << 20)
    shared.write(bytes(1 << 20))
    kept.append(shared)
    time.sleep(0.1)
"""


def test_groups_of_blocks_are_told_while_a_recording_grows(byteledger, tmp_path):
    """Blocks and whole groups are readings of their own, of one recording that grows between them: each answer holds together."""
    path = str(tmp_path / "live.blt")
    program = "import time; k = []\nwhile True:\n    k.extend(bytearray(700 + i % 50) for i in range(200)); time.sleep(0.02)"
    with subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", "/usr/bin/python3", "-c", program]) as recorder:
        try:
            deadline = time.monotonic() + 20
            while not (os.path.exists(path) and os.path.getsize(path) > 1000) and time.monotonic() < deadline:
                time.sleep(0.1)
            with Server(byteledger, path) as server:
                while server.get("summary")["totals"]["allocations"] < 20000 and time.monotonic() < deadline:
                    time.sleep(0.1)
                sums = []
                for _ in range(8):
                    rows = server.get("allocations", group="stack", limit=10000)["rows"]
                    assert all(part <= whole for part, whole in zip(rows["count"], rows["all_count"]))
                    with urllib.request.urlopen(server.url + "data/last/allocation_groups?count=3", timeout=60) as answer:
                        assert json.load(answer)["total_count"] > 0
                    sums.append(sum(rows["count"]))
                    time.sleep(0.6)
                assert sums == sorted(sums) and sums[-1] > sums[0] > 0
        finally:
            recorder.terminate()


def test_marks_and_what_rss_consists_of_come_live(byteledger, tmp_path, installed):
    """A mark that is set from outside is an event and a flag within two seconds, while the series go on."""
    recorder = subprocess.Popen([byteledger, "run", "-q", "-o", str(tmp_path / "x.blt"), "--serve", "127.0.0.1:0", "--", installed("python3"), "-c", GROWS],
                                stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONMALLOC": "malloc"})
    try:
        line = ""
        while "serving" not in line:
            line = recorder.stderr.readline()
            assert line
        url = re.search(r"http://\S+/", line)[0]

        def children():
            for task in os.listdir(f"/proc/{recorder.pid}/task"):
                with open(f"/proc/{recorder.pid}/task/{task}/children", encoding="ascii") as f:
                    yield from f.read().split()

        def timeline():
            with urllib.request.urlopen(url + "api/v1/timeline", timeout=10) as answer:
                return json.loads(answer.read())

        def steer(number):
            assert subprocess.run([byteledger, "heap", "-p", pid, "--mark", str(number)], timeout=30).returncode == 0
            return time.monotonic()

        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            time.sleep(0.2)
            with contextlib.suppress(urllib.error.HTTPError, urllib.error.URLError, KeyError):
                if len(timeline()["series"]["anon"]["last"]) > 3:
                    break
        pid = next(children())
        steer(6)  # before anybody listens: in the timeline, no event
        time.sleep(2)
        first = timeline()
        assert [flag["value"] for flag in first["flags"] if flag["kind"] == "mark"] == [6]
        marks, asked = [], None
        with urllib.request.urlopen(url + "api/v1/events?topics=mark,sample", timeout=10) as stream:
            event, deadline = None, time.monotonic() + 15
            while len(marks) < 2 and time.monotonic() < deadline:
                told = stream.readline().decode().rstrip()
                event = told[7:] if told.startswith("event: ") else event
                if not told.startswith("data: "):
                    continue
                if event == "sample" and asked is None:
                    steer(7)
                    asked = steer(8)
                elif event == "mark":
                    marks.append(json.loads(told[6:]))
                    assert time.monotonic() - asked < 2
        assert [mark["value"] for mark in marks] == [7, 8] and marks[0]["source"] == 0
        later = timeline()
        assert [(flag["time_ns"], flag["value"]) for flag in later["flags"] if flag["kind"] == "mark"][1:] == [
            (mark["time_ns"], mark["value"]) for mark in marks]
        for name in ("anon", "file", "shmem", "swap"):
            assert len(later["series"][name]["last"]) == len(later["time_ns"]), name
        for name in ("anon", "shmem"):
            assert later["series"][name]["last"][-1] > first["series"][name]["last"][-1], name
    finally:
        recorder.kill()
        recorder.wait()
        recorder.stderr.close()


def test_a_command_that_records_serves_what_it_records(byteledger, tmp_path, installed):
    (tmp_path / "live.c").write_text(LIVE.replace("1000000", "3000"))
    subprocess.run([installed("cc"), "-o", str(tmp_path / "live"), str(tmp_path / "live.c")], check=True)
    recorder = subprocess.Popen([byteledger, "run", "-q", "-o", str(tmp_path / "x.blt"), "--serve", "127.0.0.1:0", "--", str(tmp_path / "live")],
                                stderr=subprocess.PIPE, text=True)
    try:
        line = ""
        while "serving" not in line:
            line = recorder.stderr.readline()
            assert line
        url = re.search(r"http://\S+/", line)[0]
        deadline, total = time.monotonic() + 20, 0
        while not total and time.monotonic() < deadline:
            time.sleep(0.1)
            with contextlib.suppress(urllib.error.HTTPError), urllib.request.urlopen(url + "api/v1/rows?by=function&cost=live",
                                                                                     timeout=10) as answer:
                total = json.loads(answer.read())["total"]
        assert total > 0
        assert recorder.wait(30) == 0
        assert report(byteledger, str(tmp_path / "x.blt"))["totals"]["allocations"] >= 3000
    finally:
        recorder.kill()
        recorder.wait()
        recorder.stderr.close()
    taken = socket.create_server(("127.0.0.1", 0))
    out = subprocess.run([byteledger, "run", f"--serve=127.0.0.1:{taken.getsockname()[1]}", "--", "sh", "-c", "echo ran"],
                         capture_output=True, text=True, timeout=20)
    taken.close()
    assert out.returncode == 1 and "cannot listen" in out.stderr and "ran" not in out.stdout


def test_a_browser_is_started_where_there_is_a_desktop(byteledger, tmp_path):
    opener, seen = tmp_path / "bin" / "xdg-open", tmp_path / "seen"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" > {seen}.new; mv {seen}.new {seen}\n')
    opener.chmod(0o755)
    command = [byteledger, "run", "-q", "-o", str(tmp_path / "x.blt"), "--serve=127.0.0.1:0", "--open", "--", "sh", "-c", "exit 3"]
    desktop = dict(os.environ, DISPLAY=":9", PATH=f"{opener.parent}:{os.environ['PATH']}")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=desktop) as child:
        for line in child.stderr:
            if "stays until" in line:
                break
        else:
            raise AssertionError("the page does not stay")
        while not seen.exists():
            time.sleep(0.05)
        with urllib.request.urlopen(seen.read_text().strip() + "api/v1/summary", timeout=20) as answer:
            assert json.loads(answer.read())["totals"]["allocations"] > 0
        child.send_signal(signal.SIGINT)
        assert child.wait(20) == 3
    out = subprocess.run([w for w in command if w != "-q"], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                         env={k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")})
    assert out.returncode == 3 and "there is no desktop" in out.stderr and "hint: the page: http://127.0.0.1:" in out.stderr


def test_a_running_process_is_shown_by_mapping(byteledger):
    target = subprocess.Popen(["sleep", "60"])
    child = subprocess.Popen([byteledger, "serve", "-p", str(target.pid), "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    try:
        url = child.stdout.readline().strip()
        assert re.fullmatch(r"http://127\.0\.0\.1:[0-9]+/", url)
        with urllib.request.urlopen(url + "debug/memory?format=json", timeout=20) as answer:
            assert json.loads(answer.read())["pid"] == target.pid
    finally:
        for process in (child, target):
            process.terminate()
            process.wait(20)
        child.stdout.close()
    for words in (["-p", str(os.getpid()), "x.blt"], []):
        out = subprocess.run([byteledger, "serve", *words], capture_output=True, text=True, timeout=20)
        assert out.returncode == 2 and "hint:" in out.stderr


def test_a_process_that_may_not_be_read_is_an_error(byteledger):
    """Whoever watches only what it may not read ends with 1 and one error; beside a process that it may read it goes on, and says so."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, to become somebody else")
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]
    for words in (["serve", "-l", "127.0.0.1:0"], ["regions", "--serve", "127.0.0.1:0"], ["regions", "--watch", "1"]):
        done = subprocess.run([*nobody, byteledger, *words, "-p", str(os.getpid())], cwd="/", capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 1, (words, done.stderr)
        assert len(re.findall("^byteledger: cannot read .*: Permission denied$", done.stderr, re.M)) == 1, done.stderr
        assert len(re.findall("^hint: it belongs to user 0", done.stderr, re.M)) == 1, done.stderr
    with subprocess.Popen([*nobody, "sleep", "60"]) as own:
        done = subprocess.run([*nobody, byteledger, "regions", "--watch", "0.1", "--duration", "300ms", "-p", str(os.getpid()), "-p", str(own.pid)],
                              cwd="/", capture_output=True, text=True, timeout=60, check=False)
        own.kill()
    assert done.returncode == 0, done.stderr
    assert len(re.findall("^byteledger: cannot read .*: Permission denied$", done.stderr, re.M)) == 1, done.stderr
