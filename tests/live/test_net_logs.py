# SPDX-License-Identifier: Apache-2.0
"""The recorder's log receiver (docs/network.md): the known integration tests, lines by each way, descriptors, search, retention."""
import json
import os
import resource
import socket
import sqlite3
import time

import compat
from netapi import recorder, send_lines, wait_until  # pylint: disable=W0611


def test_known_log_tests_pass_with_a_restart_between_the_halves(recorder):
    r = recorder()
    server = compat.Server(f"http://127.0.0.1:{r.ports['v2']}", "9732")
    address = f"127.0.0.1:{r.ports['udp']}"
    compat.send_logs(address, range(5000), server)
    compat.wait_for_log(server, 4999)
    r.stop()
    r = recorder(ports=r.ports)
    compat.send_logs(address, range(5000, 10000), server)
    compat.wait_for_log(server, 9999)
    for check in compat.LOG:
        check(server)
    logs = r.status()["logs"]
    assert (logs["received"], logs["malformed"], logs["dropped"]) == (5000, 0, 0)


def test_lines_come_by_udp_tcp_and_unix_and_nothing_is_lost_in_silence(recorder, tmp_path):
    r = recorder()
    head = "<27>1 2021-07-14T12:00:00.026683+02:00 h a 1 a - "
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for text in (head + "Jul 14 12:00:00.026 WARN by udp", "no header at all", b"\xff\xfe broken", "<30>Jul 14 12:00:00 host x: old"):
        udp.sendto(text if isinstance(text, bytes) else text.encode(), ("127.0.0.1", r.ports["udp"]))
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    unix.sendto((head + "Jul 14 12:00:00 - p2p.maintenance: by unix").encode(), f"{tmp_path}/log.sock")
    with socket.create_connection(("127.0.0.1", r.ports["tcp"])) as tcp:
        framed = (head + "10:00:00.000 NOTICE | framed\nwith a line end").encode()
        for piece in (b"%d " % len(framed), framed[:20], framed[20:], b"<26>line one\n<31>line", b" two\n", b"\n", b"last, no end"):
            tcp.sendall(piece)
            time.sleep(0.01)  # so that pieces arrive alone; nothing depends on it
    wait_until(lambda: r.status()["logs"]["received"] == 9, what="nine lines")
    rows = wait_until(lambda: (lambda got: got if len(got) == 8 else None)(r.get("/v3/logs", "v3")), what="eight rows")
    got = {(x["level"], x["section"], x["message"]) for x in rows}
    assert got == {("Warning", "", "by udp"), ("Info", "", "no header at all"), ("Info", "", "old"),
                   ("Info", "p2p.maintenance", "by unix"), ("Notice", "", "framed\nwith a line end"), ("Fatal", "", "line one"),
                   ("Debug", "", "line two"), ("Info", "", "last, no end")}
    logs = r.status()["logs"]
    assert (logs["malformed"], logs["dropped"]) == (1, 0)
    assert 1626256800026683000 in {x["timestamp"] for x in rows}


def test_a_line_over_tcp_that_never_ends_is_cut_and_the_next_one_is_whole(recorder):
    r = recorder()
    with socket.create_connection(("127.0.0.1", r.ports["tcp"])) as tcp:
        tcp.sendall(b"x" * 300_000 + b"\nafter\n")
        wait_until(lambda: any(x["message"] == "after" for x in r.get("/v3/logs", "v3")), what="the next line")
    rows = r.get("/v3/logs", "v3")
    assert [len(x["message"]) for x in rows] == [5, 65536]
    assert r.status()["logs"]["truncated"] == 1
    assert 'byteledger_log_truncated_total{node="9732"} 1\n' in r.request("/metrics")[2].decode()


def test_a_line_that_is_cut_inside_a_letter_keeps_the_letters_before(recorder, tmp_path):
    r = recorder()
    unix = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    unix.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    unix.sendto("x".encode() + "\u00e4".encode() * 40_000, f"{tmp_path}/log.sock")
    row, = wait_until(lambda: r.get("/v3/logs", "v3"), what="the line")
    assert row["message"] == "x" + "\u00e4" * 32_767
    logs = r.status()["logs"]
    assert (logs["malformed"], logs["truncated"]) == (0, 1)


def test_a_nul_inside_a_line_ends_nothing(recorder):
    r = recorder()
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"<27>before\0behind it\0", ("127.0.0.1", r.ports["udp"]))
    row, = wait_until(lambda: r.get("/v3/logs", "v3"), what="the line")
    assert row["message"] == "before\0behind it"
    assert r.get("/v3/logs", "v3", query="behind it") == [row]


def test_a_new_sender_takes_the_place_of_the_one_silent_for_longest(recorder):
    r = recorder()
    held = [socket.create_connection(("127.0.0.1", r.ports["tcp"])) for _ in range(32)]
    held[0].sendall(b"one line\nhalf")
    wait_until(lambda: len(r.get("/v3/logs", "v3", limit=100)) == 1, what="the first line")
    for number in range(1, 32):
        held[number].sendall(b"line %d\n" % number)
    wait_until(lambda: len(r.get("/v3/logs", "v3", limit=100)) == 32, what="the other lines")
    assert r.status()["logs"]["refused_senders"] == 0
    with socket.create_connection(("127.0.0.1", r.ports["tcp"])) as tcp:
        tcp.sendall(b"there is room\n")
        wait_until(lambda: len(r.get("/v3/logs", "v3", limit=100)) == 34, what="both lines")
    assert {"half", "there is room"} <= {x["message"] for x in r.get("/v3/logs", "v3", limit=100)}
    wait_until(lambda: r.status()["logs"]["refused_senders"] == 1, what="the count")
    assert held[0].recv(1) == b""
    for s in held:
        s.close()


def thread_states(pid):
    states = {}
    for tid in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{tid}/stat", encoding="utf-8") as file:
                name, rest = file.read().split("(", 1)[1].rsplit(")", 1)
            states[name, tid] = rest.split()[0]
        except (FileNotFoundError, ProcessLookupError):
            pass
    return states


def test_without_descriptors_nothing_spins_and_newcomers_get_in(recorder):
    r = recorder(wrap=("prlimit", "--nofile=96:96"))
    held = []
    for kind in ("tcp", "v2", "v3"):
        for _ in range(120):
            s = socket.create_connection(("127.0.0.1", r.ports[kind]))
            s.settimeout(20)
            s.sendall(b"GET /v3/status HT" if kind != "tcp" else b"<14>1 - - - - - - half a li")
            held.append(s)
    # each server answers a newcomer, once it has seen that what the others have sent is no question yet; and a new sender is heard
    for port in ("v2", "v3"):
        answer = wait_until(lambda port=port: (got := r.request("/v3/status", port))[0] == 200 and got[2], what=f"{port}'s answer", seconds=20)
        assert json.loads(answer)["nodes"]
    late = socket.create_connection(("127.0.0.1", r.ports["tcp"]))
    late.sendall(b"<14>1 - - - - - - from the late one\n")
    wait_until(lambda: "from the late one" in str(r.get("/v2/log", limit=1000)), what="the late sender's line")
    # a thread that is woken for ever by what it cannot take is never asleep: all are, at one moment
    wait_until(lambda: set(thread_states(r.process.pid).values()) == {"S"}, what="a moment's rest")
    for s in held:
        s.close()


def test_the_soft_limit_of_descriptors_is_raised_to_the_hard_one(recorder):
    r = recorder(wrap=("prlimit", "--nofile=64:4096"))
    assert resource.prlimit(r.process.pid, resource.RLIMIT_NOFILE) == (4096, 4096)
    assert r.get("/v3/status")["nodes"]


def test_disabled_search_says_so(recorder):
    r = recorder(log_options=", disable_search = true")
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"some words", ("127.0.0.1", r.ports["udp"]))
    wait_until(lambda: r.get("/v2/log"), what="the line")
    status, _, body = r.request("/v2/log", query="words")
    assert (status, json.loads(body)) == (500, {"error": "database error: there is no log indexer"})


def test_retention_of_logs_takes_the_text_index_with_it(recorder, tmp_path):
    r = recorder(log_options=", store_limit = 100")
    send_lines(r, [f"word{n} line" for n in range(1000)])
    wait_until(lambda: (r.get("/v2/log", limit=1) or [{"id": 0}])[0]["id"] == 999, what="all lines")
    rows = r.get("/v2/log", limit=1000)
    assert [x["id"] for x in rows] == list(range(999, 899, -1))
    assert r.get("/v2/log", query="word5") == [] and len(r.get("/v2/log", query="word950")) == 1
    r.stop()
    db = sqlite3.connect(tmp_path / "db" / "store.sqlite")
    assert db.execute("SELECT count(*) FROM log").fetchone() == (100,)
    db.execute("INSERT INTO log_text(log_text) VALUES('integrity-check')")
    db.close()
