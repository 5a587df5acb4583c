# SPDX-License-Identifier: Apache-2.0
"""`regions` and its targets: programs of its own, names through restarts, children; and where results go."""
import csv
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import pytest

from conftest import read_once
from test_regions import program, run, wait_for
from test_regions_serve import Watch, fetch

HOLD = "import sys; x = bytearray(64 << 20); print('ready', flush=True); sys.stdin.read(); "


def start(byteledger, *options, **more):
    return subprocess.Popen([byteledger, "regions", *map(str, options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True, **more)


def held(byteledger, *options, code="raise SystemExit(7)"):
    """A program holds 64 MiB until its reading must have seen them; what byteledger then prints."""
    child = start(byteledger, *options, "--", sys.executable, "-c", HOLD + code)
    assert child.stdout.readline() == "ready\n"
    read_once(child.pid, started_by(child.pid))
    out, err = child.communicate("", timeout=60)
    return child.returncode, out, err


def started_by(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
        return int(file.read())


def test_a_program_is_read_until_it_ends_and_its_status_is_ours(byteledger):
    code, out, err = held(byteledger, "--format", "json", "--all")
    assert code == 7, err
    seen = json.loads(out)
    assert seen["rss_bytes"] == sum(c["rss_bytes"] for c in seen["classes"]) > 64 << 20
    assert seen["age_ns"] > 0
    code, out, err = held(byteledger, "--top", "0")
    assert code == 7 and out == "", "stdout is the program's"
    assert re.search(r"^this is what it had .* before it ended$", err, re.M), err
    assert float(re.search(r"RSS ([0-9.]+) MiB", err)[1]) > 64
    assert held(byteledger, "-q") == (7, "", "")


def test_what_a_program_is_told_and_how_it_starts(byteledger, tmp_path):
    for argv, code in ((["/nonexistent"], 127), ([str(tmp_path)], 126), (["sh", "-c", "kill -9 $$"], 137), (["true"], 0),
                       (["sh", "-c", "exit 3"], 3)):
        done = subprocess.run([byteledger, "regions", "--top", "0", "--", *argv], capture_output=True, text=True, timeout=60)
        assert done.returncode == code, (argv, done.stderr)
        assert done.stdout == ""
    assert run(byteledger, "--", code=2).stderr.startswith(b"byteledger: no program given\nhint: ")
    assert b"either a program" in run(byteledger, "-p", os.getpid(), "--", "true", code=2).stderr
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\nexit 5\n")
    script.chmod(0o755)
    assert run(byteledger, "-q", "--", script, code=5).stderr == b""
    # its own signals, environment and descriptors: nothing is preloaded, nothing left open
    done = run(byteledger, "-q", "--", sys.executable, "-c",
               "import os, signal; print(sorted(os.listdir('/proc/self/fd')), signal.pthread_sigmask(0, []), 'LD_PRELOAD' in os.environ)")
    assert done.stdout == b"['0', '1', '2', '3'] set() False\n"
    for number in (signal.SIGTERM, signal.SIGHUP):
        child = start(byteledger, "-q", "--", sys.executable, "-c",
                      f"import signal, sys, time; signal.signal({int(number)}, lambda *_: sys.exit(9)); print('ready', flush=True)\n"
                      "while True: time.sleep(0.05)")  # a signal that comes just before a sleep is heeded behind it
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGINT)  # of the terminal: not ours, and not sent on
        child.send_signal(number)
        child.communicate(timeout=60)
        assert child.returncode == 9


def test_duration_ends_the_look_and_the_program_goes_on(byteledger, tmp_path):
    mark = tmp_path / "pid"
    done = run(byteledger, "--format", "json", "--duration", "1s", "--", "sh", "-c", f"echo $$ > {mark}; exec sleep 600 >&- 2>&-")
    pid = json.loads(done.stdout)["pid"]
    try:
        wait_for(lambda: os.readlink(f"/proc/{pid}/exe").endswith("sleep"), "the program's way on")
        assert int(mark.read_text()) == pid
        assert json.loads(run(byteledger, "-p", pid, "--duration", "1s", "--format", "json").stdout)["pid"] == pid
    finally:
        os.kill(pid, signal.SIGKILL)


def test_a_watched_program_has_stdout_to_itself(byteledger, tmp_path):
    child = start(byteledger, "--watch", "0.1", "--", sys.executable, "-c", HOLD + "raise SystemExit(4)")
    assert child.stdout.readline() == "ready\n"
    while not re.match("^[0-9]{2}:[0-9]{2}:[0-9]{2} ", child.stderr.readline()):
        pass
    out, err = child.communicate("", timeout=60)
    assert child.returncode == 4 and out == "" and "trend" in err
    # its status comes before that of an alert; leaving before its end is told by the alert
    child = start(byteledger, "--alert", "rss>1M", "--", "sh", "-c", "read x; exit 4")
    while "alert" not in child.stderr.readline():
        pass
    child.communicate("\n", timeout=60)
    assert child.returncode == 4
    child = start(byteledger, "--alert", "rss>100K", "--on-alert", "exit", "--", "sh", "-c", "read x; exit 4")
    assert child.wait(60) == 3
    child.communicate("\n")


def test_a_name_is_followed_through_restarts(byteledger, tmp_path):
    name = f"zoo-{os.getpid()}-restarter"
    sleep = shutil.copy(shutil.which("sleep"), tmp_path / name)
    history = tmp_path / "history"
    child = start(byteledger, "-n", name, "--watch", "0.1", "--history", history, "--serve", "127.0.0.1:0")
    try:
        assert "waiting" in child.stderr.readline()
        pids = []
        url = None
        for _ in range(3):
            with program([sleep, "600"]) as one:
                pids.append(one.pid)
                for line in child.stderr:
                    found = re.search(r"serving (http://\S+/)debug/memory", line)
                    url = found[1] if found else url
                    if found or f"watching process {one.pid}," in line:
                        break
                seen = wait_for(lambda: get_json(url + "debug/memory?format=json"), "a reading")
                assert seen["pid"] == one.pid
                assert get_json(f"{url}debug/memory?format=json&pid={one.pid}")["pid"] == one.pid
        child.send_signal(signal.SIGINT)
        assert child.wait(60) == 0
    finally:
        child.kill()
        child.communicate()
    runs = json.loads(run(byteledger, "--history", history, "--format", "json").stdout)
    assert runs["pid"] == pids[-1]


def test_a_name_is_read_through_restarts_until_the_duration_ends(byteledger, tmp_path):
    name = f"zoo-{os.getpid()}-again"
    sleep = shutil.copy(shutil.which("sleep"), tmp_path / name)
    with program([sleep, "600"]) as first:
        wait_for(lambda: os.readlink(f"/proc/{first.pid}/exe") == str(sleep), "exec")
        child = start(byteledger, "-n", name, "--duration", "10m", "--format", "json")
        read_once(child.pid, first.pid)
    with program([sleep, "600"]) as second:
        read_once(child.pid, second.pid)
        child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=60)
    assert child.returncode == 0, err
    assert [json.loads(line)["pid"] for line in out.splitlines()] == [first.pid, second.pid]


def get_json(url):
    answer = fetch(url)
    return json.loads(answer[-1]) if answer else None


def test_children_are_followed_those_that_run_and_those_to_come(byteledger):
    with program(["sh", "-c", "sleep 600 & (sleep 601 & wait) & echo ready; read x; sleep 602 & wait"], ready="ready") as shell:
        def below():
            lines = run(byteledger, "-p", shell.pid, "--follow-children", "--quick", "--top", "0", "--format", "json").stdout.splitlines()
            return sorted(json.loads(line)["pid"] for line in lines)

        family = wait_for(lambda: len(below()) == 4 and below(), "children")
        assert shell.pid in family
        with Watch(byteledger, shell.pid, "--follow-children", "--watch", "0.2", "-q") as watch:
            watch.wait_line(f"process {shell.pid}: a reading of")
            shell.stdin.write(b"\n")
            shell.stdin.flush()
            new = int(watch.wait_line("watching process ([0-9]+), too")[1])
            assert new not in family and new in below()
        for pid in below():
            if pid != shell.pid:
                os.kill(pid, signal.SIGKILL)


def test_results_go_to_files_that_are_never_overwritten(byteledger, tmp_path):
    with program(["sleep", "600"]) as one, program(["sleep", "600"]) as two:
        wait_for(lambda: all(os.readlink(f"/proc/{c.pid}/exe").endswith("sleep") for c in (one, two)), "exec")
        both = ["-p", one.pid, "-p", two.pid]
        for _ in range(2):
            done = run(byteledger, *both, "--format", "json", "-o", tmp_path / "all.json")
            assert done.stdout == b""
        for name in ("all.json", "all.json.1"):
            lines = (tmp_path / name).read_text().splitlines()
            assert [json.loads(line)["pid"] for line in lines] == [one.pid, two.pid]
            assert os.stat(tmp_path / name).st_mode & 0o777 == 0o600
        run(byteledger, *both, "--format", "csv", "-o", tmp_path / "%e-%p%%.csv")
        for child in (one, two):
            rows = list(csv.DictReader(open(tmp_path / f"sleep-{child.pid}%.csv", encoding="utf-8")))
            assert len(rows) > 5 and "start" in rows[0]
        before = set(os.listdir("/dev"))
        run(byteledger, *both, "-o", "/dev/null")
        assert not [name for name in set(os.listdir("/dev")) - before if name.startswith("null")]
        assert b"cannot create" in run(byteledger, "-p", one.pid, "-o", tmp_path / "no" / "file", code=1).stderr
        if os.path.exists("/dev/full"):
            assert b"cannot write" in run(byteledger, "-p", one.pid, "-o", "/dev/full", code=1).stderr
        (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
        run(byteledger, "-p", one.pid, "-o", tmp_path / "link")
        assert not os.path.exists(tmp_path / "elsewhere") and os.path.exists(tmp_path / "link.1")


def test_objects_of_a_watch_come_at_its_end_or_for_each_reading(byteledger, prog):
    with program([prog("leaker"), "leak", "512", "20"]) as leaker:
        options = ["-p", leaker.pid, "--watch", "0.2", "--duration", "3s"]
        once = run(byteledger, *options, "--format", "json").stdout.splitlines()
        assert len(once) == 1 and json.loads(once[0])["pid"] == leaker.pid
        child = start(byteledger, *options[:-2], "--jsonl", "--sort", "growth", "--all")
        try:
            lines, grown = [], {"nothing": 0}
            while len(lines) < 2 or max(grown.values()) <= 0:
                lines.append(json.loads(child.stdout.readline()))
                grown = {(c["class"], c["label"]): c["growth_bytes"] for c in lines[-1]["classes"]}
            child.send_signal(signal.SIGINT)
            lines += map(json.loads, child.communicate(timeout=60)[0].splitlines())
            assert child.returncode == 0
        finally:
            child.kill()
            child.communicate()
        assert all(line["regions"] for line in lines)
        last = lines[-1]
        grown = {(c["class"], c["label"]): c["growth_bytes"] for c in last["classes"]}
        by = [grown[r["class"], r["label"]] for r in last["regions"]]
        assert by == sorted(by, reverse=True)
        assert "growth_bytes" not in json.loads(once[0])["classes"][0]
    assert b"growth needs" in run(byteledger, "-p", os.getpid(), "--sort", "growth", code=2).stderr
