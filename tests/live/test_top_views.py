# SPDX-License-Identifier: Apache-2.0
"""`top` beside the heap's screens: balance, growth, mappings, pages, sampler, node; of recordings, processes and servers, against the commands."""
import json
import os
import re
import signal
import subprocess
import time

from test_net_api import traffic  # noqa: F401  pylint: disable=unused-import
from test_pages import needs_bpf
from test_top import program, recording, terminal  # noqa: F401  pylint: disable=unused-import

UNITS = {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}


def rows(lines):
    """(bytes, name) of each row that begins with a size, below the heads; above them may stand sentences."""
    first = next((i for i, line in enumerate(lines) if i > 1 and re.match(r" +[A-Z][A-Z]", line)), 2) + 1
    found = [re.match(r" *(-?[\d.]+) (B|KiB|MiB|GiB) +(.*)", line) for line in lines[first:-3]]
    return [(float(m[1]) * UNITS[m[2]], m[3].strip()) for m in found if m]


def close(shown, exact):
    return abs(shown - exact) <= exact / 190 + 0.5


def json_of(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout)


def test_the_balance_is_the_command_s_and_moves_through_the_recording(byteledger, recording, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    top = terminal(byteledger, "top", recording, columns=100)
    top.until("2bal 3tree 4tab 5grow 6maps")
    top.keys("2")
    sheet = json_of(byteledger, "explain", "--format", "json", recording)
    exact = sorted([line["bytes"] for line in sheet["lines"] if line["bytes"]] + [sheet["unexplained_bytes"]], reverse=True)
    lines = top.until("LINE OF THE BALANCE")
    assert all(close(shown, value) for (shown, _), value in zip(rows(lines)[:12], exact)) and len(rows(lines)) >= 10
    assert sum(exact) == sheet["rss_bytes"]
    top.keys("<", "<", "<", "<", "<", "<")
    early = json_of(byteledger, "explain", "--format", "json", "--at", "40%", recording)
    end = time.monotonic() + 30
    while not close(rows(lines := top.grid())[0][0], max(line["bytes"] for line in early["lines"])):
        assert time.monotonic() < end, lines
        time.sleep(0.1)
    top.keys("d", ">", ">", ">", ">", ">", ">")
    assert "+-" in next(line for line in top.until("+-") if "LINE OF THE BALANCE" in line)
    top.keys("3")
    top.until("▾ leak")
    top.keys("q")
    top.until("ended with 0")


def test_the_tree_and_the_table_of_a_file_move_through_its_time(byteledger, recording, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    top = terminal(byteledger, "top", recording, columns=100)
    top.until("3tree 4tab")
    top.keys("3", "<", "<", "<", "<", "<")
    top.until("at 50.0 %")
    then = json_of(byteledger, "report", "--format", "json", "--at", "50%", recording)["totals"]["leaked_bytes"]
    end = time.monotonic() + 30
    # that of a program which was slow to begin is empty by then
    while not (close(found[0][0], then) if (found := rows(lines := top.grid())) else not then and "nothing lives" in "".join(lines)):
        assert time.monotonic() < end, (lines, then)
        time.sleep(0.1)
    top.keys("4")
    while "▾" in "".join(lines := top.grid()) or "at 50.0 %" not in lines[1]:
        assert time.monotonic() < end, lines
        time.sleep(0.1)
    top.keys("4")
    top.until("whole recording")
    top.keys("q")
    top.until("ended with 0")


def test_growth_is_the_page_s_and_begins_where_it_is_told(byteledger, program, terminal, tmp_path):  # noqa: F811  pylint: disable=redefined-outer-name
    path = str(tmp_path / "grows.blt")
    run = subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", program, "on"])
    try:
        while not os.path.exists(path):
            time.sleep(0.05)
        time.sleep(2)
    finally:
        run.terminate()
        run.wait(timeout=30)
    top = terminal(byteledger, "top", path, columns=120)
    top.until("5grow")
    top.keys("5")
    row = next(line for line in top.until("VERDICT") if line.rstrip().endswith("cache"))
    assert "growing" in row and re.search(r"\+[\d.]+ GiB/h", row) and "▁" in row and "█" in row
    whole = re.search(r"growth · from (\S+ \S+) to", top.grid()[1])[1]
    top.keys("<", "<", "<", "<", "<", "d")
    end = time.monotonic() + 30
    while (found := re.search(r"growth · from (\S+ \S+) to", top.grid()[1])) is None or found[1] == whole:
        assert time.monotonic() < end
        time.sleep(0.1)
    top.keys("q")
    top.until("ended with 0")


def test_a_process_that_nobody_records_is_shown_by_mapping(byteledger, program, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    bare = subprocess.Popen([program, "on"])
    try:
        time.sleep(0.5)
        bare.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, bare.pid, os.WSTOPPED | os.WNOWAIT)
        top = terminal(byteledger, "top", "-p", str(bare.pid), columns=100)
        lines = top.until("CLASS OF MEMORY")
        assert f"process {bare.pid} is not being recorded" in "\n".join(lines)
        sums = {}
        told = json_of(byteledger, "regions", "-p", str(bare.pid), "--format", "json")
        sentences = " ".join(told["verdict_sentences"])
        assert len(sentences) > 20 and sentences in " ".join(" ".join(lines[2:]).split()), (sentences, lines)
        for row in told["classes"]:
            sums[row["class"]] = sums.get(row["class"], 0) + row["rss_bytes"]
        shown = {name.split()[-1]: value for value, name in rows(lines)}
        for name, value in sums.items():
            assert close(shown[name], value), (name, value, lines)
        for keys, has in (("v", "MAPPING"), ("6", "STACK RSS"), ("v", "ALLOCATOR"), ("5", "KIND OF MEMORY"), ("2", "unexplained")):
            top.keys(keys)
            top.until(has)
        top.keys("3")
        top.until("'heap -p PID' would record it")
        top.keys("8")
        top.until("sample -p PID --serve")
        bare.kill()
        bare.wait(timeout=30)
        top.keys("2")
        top.until("unexplained")
        top.keys("m")  # another question: the last answer is no longer of use
        top.until("has ended")
        top.keys("q")
        top.until("ended with 0")
    finally:
        bare.kill()
        bare.wait(timeout=30)


def test_a_recording_that_begins_later_is_found(byteledger, terminal, tmp_path):  # noqa: F811  pylint: disable=redefined-outer-name
    """`heap -p` comes into a process that is being looked at: its tree and table are there from then on."""
    with subprocess.Popen(["/usr/bin/python3", "-c", "import time; k = []\nwhile True: k.append(bytearray(2000)); time.sleep(0.01)"]) as bare:
        try:
            top = terminal(byteledger, "top", "-p", str(bare.pid), columns=100)
            assert "3tree" not in "\n".join(top.until("CLASS OF MEMORY"))
            heap = subprocess.Popen([byteledger, "heap", "-q", "-o", str(tmp_path / "x.blt"), "-p", str(bare.pid)])
            try:
                top.until("3 and 4 show it")
                top.keys("3")
                assert "3tree 4tab" in "\n".join(top.until("FUNCTION"))
                top.until("▾ _start")
                top.keys("6")
                top.until("regions")
                top.keys("q")
                top.until("ended with 0")
            finally:
                heap.send_signal(signal.SIGINT)
                assert heap.wait(timeout=60) == 0
        finally:
            bare.kill()


def test_a_growing_process_is_followed_held_and_the_cursor_stays_on_its_row(byteledger, program, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    bare = subprocess.Popen([program, "on"])
    try:
        top = terminal(byteledger, "top", "-p", str(bare.pid), columns=100)
        top.until("CLASS OF MEMORY")
        end = time.monotonic() + 40
        while not re.search(r"\+[\d.]+ MiB .*allocator|\+[\d.]+ MiB .*anonymous", "\n".join(lines := top.grid())):
            assert time.monotonic() < end, lines
            time.sleep(0.2)
        top.keys("Space")
        top.until("held: Space goes on")
        held = top.grid()[2:-3]
        time.sleep(2.2)
        assert top.grid()[2:-3] == held
        top.keys("Space", "/", *"stack", "Enter")
        assert all("stack" in name for _, name in rows(top.until('with "stack"')))
        top.keys("q")
        top.until("ended with 0")
    finally:
        bare.kill()
        bare.wait(timeout=30)


def test_behind_a_wrapper_the_program_is_shown(byteledger, program, terminal, tmp_path):  # noqa: F811  pylint: disable=redefined-outer-name
    """A shell that execs: what is being written of the program has another name until it ends."""
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\nexec {program} on\n")
    wrapper.chmod(0o755)
    run = subprocess.Popen([byteledger, "run", "-q", "-o", str(tmp_path / "w.blt"), "--", str(wrapper)])
    try:
        end = time.monotonic() + 30
        while True:
            children = open(f"/proc/{run.pid}/task/{run.pid}/children").read().split()
            if children and os.path.realpath(f"/proc/{children[0]}/exe") == os.path.realpath(program):
                break
            assert time.monotonic() < end
            time.sleep(0.05)
        time.sleep(2)
        top = terminal(byteledger, "top", "-p", children[0], columns=100)
        assert "heap" in top.until("leak", seconds=30)[0]
        top.keys("q")
        top.until("ended with 0")
    finally:
        os.kill(int(children[0]), signal.SIGTERM)
        run.wait(timeout=30)


def served(byteledger, *command):
    """A command that serves: its process, and the address that it tells."""
    child = subprocess.Popen([byteledger, *command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in child.stdout:
        if found := re.search(r"http://127\.0\.0\.1:\d+/", line):
            return child, found[0]
    raise AssertionError((command, child.wait(timeout=20)))


def one_after_the_other(byteledger, terminal, folder, *what):  # noqa: F811  pylint: disable=redefined-outer-name
    """One terminal, in which each is left before the next comes; what goes to stderr is kept."""
    script = folder / "script"
    script.write_text("".join(f"'{byteledger}' top '{each}' 2>>'{folder}/said' || echo status $? >>'{folder}/said'\n" for each in what))
    return terminal("sh", str(script), columns=100)


def test_a_server_is_shown_as_its_page_shows_it_and_its_end_is_said(byteledger, recording, terminal, tmp_path):  # noqa: F811  pylint: disable=redefined-outer-name
    token = tmp_path / "token"
    token.write_text("a-token-of-24-characters\n")
    token.chmod(0o600)
    child, url = served(byteledger, "serve", "--listen", "127.0.0.1:0", "--token-file", str(token), recording)
    try:
        top = one_after_the_other(byteledger, terminal, tmp_path, url, "http://", "http://[::1", "http://127.0.0.1:port/", url + "?token=a-token-of-24-characters")
        top.until("3tree 4tab 5grow 6maps")
        top.keys("3")
        assert top.until("▾ _start")[1].startswith("live · by function")
        top.keys("4", "m")
        top.until("by module")
        child.kill()
        child.wait(timeout=30)
        top.keys("5")
        top.until("cannot reach 127.0.0.1")
        top.keys("q")
        top.until("ended with 0")
    finally:
        child.kill()
        child.wait(timeout=30)
    said = (tmp_path / "said").read_text()
    assert "a token is needed" in said and said.count("is no address of a server") == 3 and said.count("status 1\n") == 4


def test_the_messages_of_a_store(byteledger, traffic, terminal):  # noqa: F811  pylint: disable=redefined-outer-name
    top = terminal(byteledger, "top", str(traffic), columns=120)
    lines = top.until("messages · the newest")
    assert lines[2].split() == ["TIME", "KIND", "PEER", "MESSAGE"] and len(lines[3].split()) > 4
    top.keys("9")
    top.until("connections · 8 of them")
    top.keys("9")
    top.until("no log line is stored")
    top.keys("q")
    top.until("ended with 0")


@needs_bpf
def test_pages_and_samples_of_servers(byteledger, program, terminal, tmp_path):  # noqa: F811  pylint: disable=redefined-outer-name
    bare = subprocess.Popen([program, "on"])
    children = []
    try:
        urls = []
        for command in (["pages", "-p", str(bare.pid), "--serve", "127.0.0.1:0"], ["sample", "--sample-bytes", "4K", "-p", str(bare.pid), "--serve", "127.0.0.1:0"]):
            child, url = served(byteledger, *command)
            children.append(child)
            urls.append(url)
        top = one_after_the_other(byteledger, terminal, tmp_path, *urls)
        for has in ("WHO TOUCHED", "▸ cache"):
            top.until(has, seconds=60)
            top.keys("/", *"cache", "Enter")
            top.until('with "cache"')
            top.keys("q")
        top.until("ended with 0")
    finally:
        for child in children:
            child.terminate()
            child.wait(timeout=30)
        bare.kill()
        bare.wait(timeout=30)
