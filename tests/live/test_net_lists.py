# SPDX-License-Identifier: Apache-2.0
"""Long lists, and lists whose rows or bytes retention takes while they are read. The stores are written row by row."""
import http.client
import json
import socket
import sqlite3

import pytest

from netapi import Recorder, config_of, free_port, wait_until

RAW = 65537
CHUNKS = 600


@pytest.fixture
def serve(byteledger, tmp_path):
    """serve() -> a recorder over tmp_path/db that takes log lines; stopped at the end."""
    started = []

    def start():
        ports = {"v2": free_port(), "v3": free_port(), "udp": free_port()}
        r = Recorder(byteledger, tmp_path, config_of(tmp_path / "db", ports, log=f'{{ port = {ports["udp"]} }}'), ports)
        started.append(r)
        return r
    yield start
    for r in started:
        r.stop()


def change(tmp_path, *statements):
    db = sqlite3.connect(tmp_path / "db" / "store.sqlite", timeout=60)
    for sql in statements:
        db.execute(sql)
    db.commit()
    db.close()


@pytest.fixture
def large(serve, tmp_path):
    """600 chunks of 64 KiB that hold 100 bytes each, all of one message."""
    serve().stop()
    with open(tmp_path / "db" / "segment-00000001", "wb") as out:
        out.write((b"r" * RAW + b"p" * 100) * CHUNKS)
    change(tmp_path,
           "INSERT INTO connection VALUES(0,1000000000,2000000000,0,'10.0.0.1:9732','','','',600,0,0,0,0,0,0,'closed',600)",
           f"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {CHUNKS - 1}) "
           f"INSERT INTO chunk SELECT i, 0, 0, i, 1000000000, 1, i * {RAW + 100}, {RAW}, 100 FROM n",
           "INSERT INTO address VALUES(1, '10.0.0.1:9732')",
           f"INSERT INTO message VALUES(0,0,1000000000,16,0,1,49,3,{CHUNKS - 1},3,0,{(CHUNKS - 3) * 100},NULL,NULL)",
           "INSERT INTO message_block VALUES(0,1000000000,1000000000,0)")
    return serve()


def test_long_lists_need_no_more_memory_than_short_ones(serve, tmp_path):
    serve().stop()
    change(tmp_path, "INSERT INTO address VALUES(1, '10.0.0.1:9732')",
           "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 599999) INSERT INTO message "
           "SELECT i, 0, 1000000000 + i, 16, 0, 1, 49, i, i, 0, 0, 200, printf('%.100c', 'x'), NULL FROM n")
    r = serve()

    def peak():
        with open(f"/proc/{r.process.pid}/status", encoding="utf-8") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) * 1024
    r.get("/v3/messages", "v3", limit=100)
    before = peak()
    connection = http.client.HTTPConnection("127.0.0.1", r.ports["v3"], timeout=120)
    connection.request("GET", "/v3/messages?limit=9223372036854775808")
    answer = connection.getresponse()
    size = rows = 0
    while piece := answer.read(1 << 20):
        size += len(piece)
        rows += piece.count(b'"id":')
    assert rows >= 599_000  # a key may lie across two pieces
    # the database keeps at most 32 MiB of pages for a reader
    grown = peak() - before
    assert size > 3 * (48 << 20) and grown < 48 << 20, (size, grown)


def test_a_list_goes_on_behind_rows_that_went_meanwhile(large, tmp_path):
    connection = http.client.HTTPConnection("127.0.0.1", large.ports["v3"], timeout=60)
    connection.request("GET", "/v3/chunks?limit=100000")
    answer = connection.getresponse()
    text = answer.read(1000)
    # more than all buffers hold is left: whatever row the list stands at is gone, and so are the next
    change(tmp_path, f"DELETE FROM chunk WHERE id < {CHUNKS - 70}")
    got = [int(name.rsplit("-", 1)[1]) for name, _ in json.loads(text + answer.read())]
    assert got == sorted(got) and got[-70:] == list(range(CHUNKS - 70, CHUNKS)) and len(got) < CHUNKS


def test_bytes_that_went_meanwhile_are_said_to_be_gone(large, tmp_path):
    whole = large.get("/v3/chunk/1.000000000-local-5", "v3")
    assert len(whole["bytes"]) == 2 * RAW and "gone" not in whole
    (tmp_path / "db" / "segment-00000001").unlink()
    chunk = large.get("/v3/chunk/1.000000000-local-5", "v3")
    assert chunk == {**whole, "bytes": "", "plain": "", "decrypted": False, "gone": True}
    assert [c["gone"] for _, c in large.get("/v3/chunks", "v3", limit=3)] == [True] * 3
    details = large.get("/v3/message/0", "v3")
    assert details["error"].startswith("only 0 of") and details["original_bytes"] == []


def test_a_message_of_too_many_chunk_bytes_says_so(large):
    details = large.get("/v3/message/0", "v3")
    assert "too many to show" in details["error"] and details["message"] is None
    assert details["original_bytes"] == details["decrypted_bytes"] == []


def test_a_line_with_a_nul_is_shown_whole(serve):
    r = serve()
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"before\0behind", ("127.0.0.1", r.ports["udp"]))
    row, = wait_until(lambda: r.get("/v2/log"), what="the line")
    assert row["message"] == "before\0behind"
    assert r.get("/v2/log", query="behind") == [row]
