# SPDX-License-Identifier: Apache-2.0
"""Decoding later what a store keeps sealed: each message once, whatever was decoded before, and beside the recording."""
import json
import os
import shutil
import sqlite3
import subprocess

import pytest

from netapi import VECTORS, Recorder, config_of, free_port, identity, wait_until

STREAM = os.path.join(VECTORS, "captures", "all-kinds", "stream.jsonl")


@pytest.fixture
def net(byteledger):
    """net(words...) -> what `byteledger net` prints, as text"""
    def run(*words):
        done = subprocess.run([byteledger, "net", *map(str, words)], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


def reprocess(net, db, key):
    return json.loads(net("reprocess", "--store", db, "--identity", key))


def rows(db, sql):
    """Of a store at rest."""
    connection = sqlite3.connect(db / "store.sqlite")
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def messages(db):
    return sorted(rows(db, "SELECT connection, type, si, first_chunk, last_chunk, first_offset, plain_len, preview FROM message"))


def chunks(db):
    return sorted(rows(db, "SELECT connection, sender, counter, raw_len, plain_len FROM chunk WHERE counter IS NOT NULL"))


def stream():
    with open(STREAM, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_lines(path, lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def damaged(tmp_path):
    """The capture with one byte of a chunk in its middle that is not what was sent."""
    lines = stream()
    line = [x for x in lines if x["from"] == "initiator" and len(x["hex"]) > 60][8]
    line["hex"] = line["hex"][:-2] + ("00" if line["hex"][-2:] != "00" else "01")
    return write_lines(tmp_path / "damaged.jsonl", lines)


def test_a_damaged_chunk_does_not_bring_the_messages_around_it_a_second_time(net, tmp_path):
    db, key = tmp_path / "db", identity("recorder-i")
    net("replay", "--store", db, "--role", "initiator", "--identity", key, damaged(tmp_path))
    before = messages(db), chunks(db)
    assert len(before[0]) > 20 and rows(db, "SELECT undecrypted_local FROM connection") == [(1,)]
    for _ in range(2):
        assert reprocess(net, db, key) == {"connections": 0, "chunks": 0}
        assert (messages(db), chunks(db)) == before


def test_sealed_chunks_around_a_damaged_one_are_decoded_once(net, tmp_path):
    key = identity("recorder-i")
    net("replay", "--store", tmp_path / "at once", "--role", "initiator", "--identity", key, damaged(tmp_path))
    net("replay", "--store", tmp_path / "later", "--role", "initiator", tmp_path / "damaged.jsonl")
    assert reprocess(net, tmp_path / "later", key)["connections"] == 1
    assert messages(tmp_path / "later") == messages(tmp_path / "at once")
    after = chunks(tmp_path / "later")
    assert len({x[:3] for x in after}) == len(after)
    assert reprocess(net, tmp_path / "later", key) == {"connections": 0, "chunks": 0}
    assert chunks(tmp_path / "later") == after


def test_work_that_was_broken_off_is_taken_up_where_it_stood(net, tmp_path):
    key = identity("recorder-i")
    net("replay", "--store", tmp_path / "db", "--role", "initiator", STREAM)
    assert reprocess(net, tmp_path / "db", key)["connections"] == 1
    want = messages(tmp_path / "db"), chunks(tmp_path / "db")
    # a kill leaves whole transactions: chunks from some number on are as they were, and so are their messages
    connection = sqlite3.connect(tmp_path / "db" / "store.sqlite")
    connection.execute("UPDATE chunk SET plain_len = NULL WHERE counter > 9 AND sender = 0 OR counter > 4 AND sender = 1")
    connection.execute("DELETE FROM message WHERE last_chunk > 9 AND si < 2 OR last_chunk > 4 AND si >= 2")
    connection.execute("UPDATE connection SET undecrypted_local = 5")
    connection.commit()
    connection.close()
    assert len(messages(tmp_path / "db")) < len(want[0])
    assert reprocess(net, tmp_path / "db", key)["connections"] == 1
    assert (messages(tmp_path / "db"), chunks(tmp_path / "db")) == want


def test_gaps_are_found_on_both_sides_and_stay_counted(net, tmp_path):
    lines = stream()
    for side in ("initiator", "responder"):
        line = [x for x in lines if x["from"] == side and len(x["hex"]) > 60][6]
        line["gap"], line["hex"] = 10, line["hex"][20:]
    path, key = write_lines(tmp_path / "gaps.jsonl", lines), identity("recorder-i")
    net("replay", "--store", tmp_path / "at once", "--role", "initiator", "--identity", key, path)
    net("replay", "--store", tmp_path / "later", "--role", "initiator", path)
    assert reprocess(net, tmp_path / "later", key)["connections"] == 1
    of = "SELECT gaps, gap_bytes FROM connection"
    assert rows(tmp_path / "later", of) == rows(tmp_path / "at once", of) == [(2, 20)]
    for si in ("si < 2", "si >= 2"):
        found = f"SELECT count(*) FROM message WHERE error IS NULL AND {si}"
        assert rows(tmp_path / "later", found) == rows(tmp_path / "at once", found)


def test_a_backlog_is_decoded_bit_by_bit_and_across_restarts(byteledger, net, prog, tmp_path):
    """120,000 sealed messages of a store, the identity there from the start."""
    done = subprocess.run([byteledger, "check", "--format", "json"], capture_output=True, text=True, timeout=60)
    line = {f["feature"]: f for f in json.loads(done.stdout)}["net-capture"]
    if not line["ok"]:
        assert not (os.geteuid() == 0 and os.path.exists("/sys/kernel/btf/vmlinux")), line["why"]
        pytest.skip(line["why"])
    key, db = tmp_path / "identity.json", tmp_path / "db"
    subprocess.run([prog("bigpcap"), tmp_path / "x.pcap", key, "120000", "20"], check=True, stdout=subprocess.DEVNULL)
    net("replay", "--store", db, "--local", "192.0.2.1", tmp_path / "x.pcap")
    total, = rows(db, "SELECT sum(undecrypted_local + undecrypted_remote) FROM connection")[0]
    ports = {"v2": free_port(), "v3": free_port(), "p2p": free_port()}
    config = config_of(db, ports, p2p=f'{{ port = {ports["p2p"]}, identity = "{key}" }}')
    r = Recorder(byteledger, tmp_path, config, ports)
    # some, not all: it answers, captures and ends in between
    part = wait_until(lambda: r.status()["reprocessed_chunks"], what="the first chunks")
    assert r.stop() == 0
    assert 0 < part < total and rows(db, "SELECT count(*) FROM chunk WHERE plain_len IS NULL")[0][0] > 0
    r = Recorder(byteledger, tmp_path, config, ports)
    try:
        wait_until(lambda: "were decoded" in r.said(), what="the rest", seconds=120)
    finally:
        assert r.stop() == 0
    net("replay", "--store", tmp_path / "at once", "--local", "192.0.2.1", "--identity", key, tmp_path / "x.pcap")
    assert chunks(db) == chunks(tmp_path / "at once")
    assert messages(db) == messages(tmp_path / "at once")
    shutil.rmtree(tmp_path / "at once")
