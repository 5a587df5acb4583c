# SPDX-License-Identifier: Apache-2.0
"""`net replay` on the recorded and constructed Tezos captures: peers, chunks, messages, gaps, from JSON lines and from pcap."""
import csv
import json
import os
import random
import struct
import subprocess
import sys

import pytest

VECTORS = os.path.join(os.path.dirname(__file__), "..", "vectors", "tezos")
CAPTURES = os.path.join(VECTORS, "captures")


def identity(name):
    return os.path.join(VECTORS, "identities", name + ".json")


def replay(byteledger, path, *options):
    done = subprocess.run([byteledger, "net", "replay", *options, str(path)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return lines[:-1], lines[-1]["summary"]


def load(*parts):
    with open(os.path.join(CAPTURES, *parts), encoding="utf-8") as file:
        return json.load(file)


def check_messages(got, want):
    assert len(got) == len(want)
    for have, expected in zip(got, want):
        for key, value in expected.items():
            if key in ("remote_addr", "message_omitted"):  # JSON lines have no addresses; a remark of the vectors
                continue
            assert have.get(key) == value, (expected["id"], key)


@pytest.mark.parametrize("capture,role,who", [
    ("all-kinds", "initiator", "recorder-i"), ("all-kinds", "responder", "recorder-r"),
    ("nack", "initiator", "config"), ("nack", "responder", "drone-3"),
    ("octez-outgoing", "initiator", "drone-1")])
@pytest.mark.parametrize("said", [True, False], ids=["role given", "role found"])
def test_every_message_of_a_capture_is_found_from_either_end(byteledger, capture, role, who, said):
    want = load(capture, f"expected-{role}.json")
    options = ["--role", role] if said else []
    got, summary = replay(byteledger, os.path.join(CAPTURES, capture, "stream.jsonl"), "--identity", identity(who), *options)
    check_messages(got, want["messages"])
    (row,) = summary["connections"]
    assert row["local_peer_id"] == want["local_peer_id"]
    assert row["remote_peer_id"] == want["remote_peer_id"]
    assert row["initiator"] == want["initiator"]
    assert row["chunks_local"] == want["chunks_local"]
    assert row["chunks_remote"] == want["chunks_remote"]
    assert row["undecrypted_local"] == row["undecrypted_remote"] == row["gaps"] == 0


def test_wrong_identity_keeps_chunks_and_the_right_one_decodes_them_later(byteledger):
    path = os.path.join(CAPTURES, "wrong-identity", "stream.jsonl")
    want = load("wrong-identity", "expected-initiator.json")
    got, summary = replay(byteledger, path, "--identity", identity("recorder-i"), "--role", "initiator")
    assert [m["category"] for m in got] == ["connection", "connection"]
    (row,) = summary["connections"]
    assert row["chunks_local"] == len(want["raw_chunk_lengths_local"])
    assert row["chunks_remote"] == len(want["raw_chunk_lengths_remote"])
    assert "outgoing connection message public key does not match with identity" in row["comments"]
    got, _ = replay(byteledger, path, "--identity", identity("recorder-i"), "--identity", identity("drone-2"))
    check_messages(got, want["messages_after_recovery"])


def test_without_an_identity_everything_stays_sealed(byteledger):
    got, summary = replay(byteledger, os.path.join(CAPTURES, "all-kinds", "stream.jsonl"))
    assert [m["category"] for m in got] == ["connection", "connection"]
    assert summary["connections"][0]["chunks_local"] == 20
    assert summary["connections"][0]["undecrypted_local"] == 19


def test_recording_with_holes_gives_back_every_chunk_that_can_be_found(byteledger, tmp_path):
    want = load("tezedge_communication.first3300.expected.json")
    path = tmp_path / "recording.jsonl"
    with open(os.path.join(CAPTURES, "tezedge_communication.first3300.csv"), encoding="utf-8") as source, \
            open(path, "w", encoding="utf-8") as out:
        for row in csv.DictReader(source):
            out.write(json.dumps({"from": "initiator" if row["direction"] == "Sent" else "responder", "hex": row["message"]}) + "\n")
    got, summary = replay(byteledger, path, "--identity", identity(want["identity"]))
    kinds = {}
    for message in got:
        if message["category"] == "p2p" and not message["incoming"]:
            kinds[message["kind"]] = kinds.get(message["kind"], 0) + 1
    assert kinds == want["sent_messages_by_kind"]
    assert summary["connections"][0]["chunks_local"] == want["sent_chunks_including_connection_message"]
    assert summary["connections"][0]["undecrypted_local"] == 0
    sent = [m for m in got if m["category"] == "p2p" and not m["incoming"]]
    for message, expected in zip(sent, want["first_sent_messages"]):
        assert message["sender_chunks"][0] == expected["chunk"]
        assert message["kind"] == expected["kind"]
        assert message["message"] == expected["message"]
    found = {m["sender_chunks"][0]: m["kind"] or m["category"] for m in got if m["incoming"] and m["message"] is not None}
    for chunk in want["received_recoverable_by_resync"]:
        if chunk["complete_message"]:
            assert found.get(chunk["chunk_counter"]) == chunk["kind"], chunk


def lines_of(capture):
    with open(os.path.join(CAPTURES, capture, "stream.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def test_known_gap_costs_only_the_messages_it_touches(byteledger, tmp_path):
    """Bytes of one direction are cut out at random places; the rest of both directions is decoded, in order."""
    want = load("octez-outgoing", "expected-initiator.json")["messages"]
    lines = lines_of("octez-outgoing")
    rng = random.Random(5)
    for round_ in range(10):
        victim = rng.choice([i for i, line in enumerate(lines) if i > 12 and len(line["hex"]) > 40])
        path = tmp_path / f"gap{round_}.jsonl"
        with open(path, "w", encoding="utf-8") as out:
            for i, line in enumerate(lines):
                line = dict(line)
                if i == victim:
                    cut = rng.randrange(2, len(line["hex"]) // 2)
                    line["gap"], line["hex"] = cut, line["hex"][2 * cut:]
                out.write(json.dumps(line) + "\n")
        got, summary = replay(byteledger, path, "--identity", identity("drone-1"), "--role", "initiator")
        assert summary["connections"][0]["gaps"] == 1
        side = lines[victim]["from"] == "responder"
        decoded = [m["plain_sha256"] for m in got if m["message"] is not None or (m["error"] or "").startswith("unknown tag")]
        expected = [m["plain_sha256"] for m in want]
        missing = [m for m in want if m["plain_sha256"] not in decoded]
        assert all(m["incoming"] == side for m in missing), "the other direction lost messages"
        assert len(missing) <= 3
        positions = [expected.index(h) for h in decoded if h in expected]
        # every message that is decoded is one that was sent
        assert all(h in expected for h in decoded)
        assert len(positions) >= len(want) - 3


def test_corrupted_chunk_is_kept_and_the_next_ones_decode(byteledger, tmp_path):
    lines = lines_of("octez-outgoing")
    stream = "".join(line["hex"] for line in lines if line["from"] == "initiator")
    data = bytearray.fromhex(stream)
    at, counter = 0, 0
    while counter < 5:
        at += 2 + int.from_bytes(data[at:at + 2], "big")
        counter += 1
    data[at + 2 + 3] ^= 1  # the authenticator of chunk 5
    path = tmp_path / "corrupt.jsonl"
    with open(path, "w", encoding="utf-8") as out:
        for line in lines:
            if line["from"] == "responder":
                out.write(json.dumps(line) + "\n")
            else:
                n = len(line["hex"]) // 2
                out.write(json.dumps({"from": "initiator", "hex": data[:n].hex()}) + "\n")
                del data[:n]
    want = load("octez-outgoing", "expected-initiator.json")["messages"]
    got, summary = replay(byteledger, path, "--identity", identity("drone-1"), "--role", "initiator")
    decoded = [m["plain_sha256"] for m in got if m["message"] is not None]
    lost = [m for m in want if m["message"] is not None and m["plain_sha256"] not in decoded] if all("message" in m for m in want) \
        else [m for m in want if m["plain_sha256"] not in decoded]
    assert len(lost) <= 1
    assert "outgoing chunk cannot decrypt, position: 5" in summary["connections"][0]["comments"]


def packet(src, dst, seq, ack, flags, payload, v6):
    sport, dport = src[1], dst[1]
    tcp = struct.pack("!HHIIBBHHH", sport, dport, seq & 0xffffffff, ack & 0xffffffff, 5 << 4, flags, 65535, 0, 0) + payload
    if v6:
        ip = struct.pack("!IHBB", 6 << 28, len(tcp), 6, 64) + bytes(15) + bytes([src[0]]) + bytes(15) + bytes([dst[0]])
    else:
        ip = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0) + bytes([10, 0, 0, src[0]]) + bytes([10, 0, 0, dst[0]])
    return bytes(12) + struct.pack("!H", 0x86dd if v6 else 0x0800) + ip + tcp


def write_pcap(path, packets):
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 1))
        for i, p in enumerate(packets):
            out.write(struct.pack("<IIII", 1600000000, i, len(p), len(p)) + p)


@pytest.mark.parametrize("v6", [False, True], ids=["IPv4", "IPv6"])
@pytest.mark.parametrize("ng", [False, True], ids=["pcap", "pcapng"])
def test_pcap_with_shuffled_and_repeated_segments_decodes_alike(byteledger, tmp_path, v6, ng):
    want = load("all-kinds", "expected-responder.json")
    ours, theirs = (2, 9732), (1, 41000)
    rng = random.Random(3)
    packets = []
    seq = {"initiator": 0xfffffff0, "responder": 1000}
    packets.append(packet(theirs, ours, seq["initiator"] - 1, 0, 2, b"", v6))
    packets.append(packet(ours, theirs, seq["responder"] - 1, seq["initiator"], 0x12, b"", v6))
    for line in lines_of("all-kinds"):
        data, way = bytes.fromhex(line["hex"]), line["from"]
        burst = []
        for at in range(0, len(data), 1400):
            piece = data[at:at + 1400]
            src, dst = (theirs, ours) if way == "initiator" else (ours, theirs)
            burst.append(packet(src, dst, seq[way] + at, 0, 0x08, piece, v6))
            if rng.random() < 0.3:
                burst.append(burst[-1])
        seq[way] += len(data)
        rng.shuffle(burst)
        packets += burst
    path = tmp_path / ("x.pcapng" if ng else "x.pcap")
    if ng:
        with open(path, "wb") as out:
            out.write(struct.pack("<IIIHHqI", 0x0a0d0d0a, 28, 0x1a2b3c4d, 1, 0, -1, 28))
            out.write(struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20))
            for i, p in enumerate(packets):
                padded = p + bytes(-len(p) % 4)
                size = 32 + len(padded)
                out.write(struct.pack("<IIIIIII", 6, size, 0, 0, i, len(p), len(p)) + padded + struct.pack("<I", size))
    else:
        write_pcap(path, packets)
    local = "::2" if v6 else "10.0.0.2"
    got, summary = replay(byteledger, path, "--identity", identity("recorder-r"), "--local", local)
    check_messages(got, want["messages"])
    assert summary["connections"][0]["remote_addr"] == ("[::1]:41000" if v6 else "10.0.0.1:41000")
    assert summary["connections"][0]["gaps"] == 0


@pytest.mark.parametrize("local", ["garbage", "10.0.0", "10.0.0.2:", "10.0.0.2:0", "10.0.0.2:65536", "[::2", "[10.0.0.2]:1", "::2]:1", ""])
def test_a_local_address_that_is_none_is_refused(byteledger, local):
    stream = os.path.join(CAPTURES, "nack", "stream.jsonl")
    done = subprocess.run([byteledger, "net", "replay", "--local", local, stream], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and f"'{local}' is none" in done.stderr and not done.stdout


@pytest.mark.parametrize("local,ours", [
    ("0:0:0:0:0:0:0:2", True), ("[::2]", True), ("[0::2]:9732", True), ("[::2]:9733", False), ("::3", False)])
def test_a_local_address_is_compared_as_an_address(byteledger, tmp_path, local, ours):
    us, them = (2, 9732), (1, 41000)
    write_pcap(tmp_path / "x.pcap", [packet(them, us, 99, 0, 2, b"", True), packet(us, them, 499, 100, 0x12, b"", True)])
    done = subprocess.run([byteledger, "net", "replay", "--local", local, str(tmp_path / "x.pcap")],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout.splitlines()[-1])["summary"]["connections"]
    assert row["remote_addr"] == ("[::1]:41000" if ours else "[::2]:9732")
    assert ("no connection of" in done.stderr) != ours


@pytest.mark.parametrize("content,text", [
    (b"", "it is empty"), (b"\x00\x01\x02\x03 garbage", "neither pcap"), (b'{"from":"nobody","hex":"00"}\n', "line 1"),
    (b'{"from":"initiator","hex":"0"}\n', "hex digits"), (b'{"from":"initiator","hex":"00"}\n{broken\n', "line 2"),
    (b"\xd4\xc3\xb2\xa1", "cannot read capture")])
def test_bad_captures_give_a_clear_error(byteledger, tmp_path, content, text):
    path = tmp_path / "bad"
    path.write_bytes(content)
    done = subprocess.run([byteledger, "net", "replay", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert text in done.stderr
    assert done.stderr.startswith("byteledger: cannot ")


@pytest.mark.parametrize("content,text", [
    ("{", "cannot read identity"), ("[]", "not a JSON object"), ('{"public_key":"00"}', "'public_key'"),
])
def test_damaged_identities_are_refused(byteledger, tmp_path, content, text):
    path = tmp_path / "identity.json"
    path.write_text(content)
    stream = os.path.join(CAPTURES, "nack", "stream.jsonl")
    done = subprocess.run([byteledger, "net", "replay", "--identity", str(path), stream], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert text in done.stderr


def handshake_of(byteledger, tmp_path, role, order):
    """(category, incoming) of what the first chunks of all-kinds give in @order: I and R stand for the next one of that side."""
    sides = {"I": b"", "R": b""}
    with open(os.path.join(CAPTURES, "all-kinds", "stream.jsonl"), encoding="utf-8") as file:
        for line in map(json.loads, file):
            sides[line["from"][0].upper()] += bytes.fromhex(line["hex"])
    path = tmp_path / "stream.jsonl"
    with open(path, "w", encoding="utf-8") as out:
        for side in order:
            size = 2 + int.from_bytes(sides[side][:2], "big")
            chunk, sides[side] = sides[side][:size], sides[side][size:]
            out.write(json.dumps({"from": "initiator" if side == "I" else "responder", "hex": chunk.hex()}) + "\n")
    rows, _ = replay(byteledger, path, "--identity", identity("recorder-i" if role == "initiator" else "recorder-r"), "--role", role)
    return [(row["category"], row["incoming"]) for row in rows]


@pytest.mark.parametrize("role", ["initiator", "responder"])
def test_metadata_and_acks_have_the_same_numbers_whichever_side_was_faster(byteledger, tmp_path, role):
    i, r = role == "responder", role == "initiator"  # is that side incoming
    hello = [("connection", False), ("connection", True)]
    usual = hello + [("meta", i), ("meta", r), ("ack", i), ("ack", r), ("p2p", i), ("p2p", r)]
    for order in ("IRIRIRIR", "IRRIRIIR", "IRRRIIIR", "IRRIIRIR", "RIRRIIIR", "RRRIIIIR"):
        assert handshake_of(byteledger, tmp_path, role, order) == usual, order
    # what the initiator says without waiting keeps its place, and nothing waits for a side that says no more
    assert handshake_of(byteledger, tmp_path, role, "IRIIIR") == hello + [("meta", i), ("ack", i), ("p2p", i), ("meta", r)]
    assert handshake_of(byteledger, tmp_path, role, "IRRR") == hello + [("meta", r), ("ack", r)]
    assert handshake_of(byteledger, tmp_path, role, "IRRRRI") == hello + [("meta", r), ("ack", r), ("p2p", r), ("meta", i)]


def test_store_holds_what_was_printed(byteledger, tmp_path):
    import sqlite3
    path = os.path.join(CAPTURES, "all-kinds", "stream.jsonl")
    for start in (0, 1):  # the second replay is added behind the first
        got, summary = replay(byteledger, path, "--identity", identity("recorder-i"), "--store", str(tmp_path / "db"))
        db = sqlite3.connect(tmp_path / "db" / "store.sqlite")
        rows = db.execute("SELECT id, plain_len, preview, error, tag FROM message WHERE id >= ? ORDER BY id",
                          (0 if start == 0 else len(got),)).fetchall()
        assert [r[1] for r in rows] == [m["plain_len"] for m in got]
        assert [r[2] for r in rows] == [m["preview"] for m in got]
        assert [r[3] for r in rows] == [m["error"] for m in got]
        assert db.execute("SELECT count(*) FROM chunk").fetchone()[0] == (38 if start == 0 else 76)
        assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
        db.close()


def test_a_line_that_never_ends_is_refused_without_reading_it_whole(byteledger, tmp_path):
    """1 GiB without a line end: what is kept of it is what a line may have, not what the file has."""
    capture = tmp_path / "capture.jsonl"
    with open(capture, "wb") as out:
        out.write(b'{"from":"initiator","hex":"')
        out.truncate(1 << 30)
    watched = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:]); "
               "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss); sys.exit(done.returncode)")
    done = subprocess.run([sys.executable, "-c", watched, byteledger, "net", "replay", str(capture)],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 1
    assert "line 1 of" in done.stderr and "longer than 64 MiB" in done.stderr
    assert int(done.stdout.split()[-1]) < 512 << 10  # KiB


def test_bytes_of_many_connections_at_once_go_each_to_its_own(byteledger, tmp_path):
    """The first byte of every connection comes before the second of any; only together are they a chunk."""
    rng = random.Random(30)
    conns = rng.sample(range(1 << 62), 18000) + list(range(2000))
    names = {conn: bytes(97 + rng.randrange(26) for _ in range(1 + rng.randrange(40))) for conn in conns}
    bodies = {conn: b"\xab" * 82 + len(name).to_bytes(4, "big") + name + b"\0\0\0\1" for conn, name in names.items()}
    capture = tmp_path / "many.jsonl"
    with open(capture, "w", encoding="utf-8") as out:
        for conn in conns:
            out.write(json.dumps({"conn": conn, "from": "initiator", "hex": "00"}) + "\n")
        for conn in reversed(conns):
            out.write(json.dumps({"conn": conn, "from": "initiator", "hex": bytes([len(bodies[conn])]).hex() + bodies[conn].hex()}) + "\n")
    got, summary = replay(byteledger, capture)
    assert [row["chunks_local"] for row in summary["connections"]] == [1] * len(conns)
    assert [m["plain_len"] for m in got] == [len(bodies[conn]) for conn in conns]


def test_a_full_disk_ends_a_replay_with_its_reason(byteledger, tmp_path):
    """A small file system of its own; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        capture = tmp_path / "capture.jsonl"
        capture.write_text("".join(json.dumps({"n": n, "from": "initiator", "hex": "ab" * 30000}) + "\n"
                                   for n in range(200)))
        done = subprocess.run([byteledger, "net", "replay", "--store", str(disk / "db"), str(capture)],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1
        assert done.stderr.startswith("byteledger: cannot ") and "No space left" in done.stderr
        assert "summary" not in done.stdout
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_connections_that_make_it_search_again_and_again_are_bounded_together(byteledger, prog, tmp_path):
    storm = tmp_path / "storm.jsonl"
    with open(storm, "wb") as file:
        subprocess.run([prog("seekstorm"), identity("drone-1"), "4", "16384"],
                       stdout=file, check=True)
    got, summary = replay(byteledger, storm, "--identity", identity("drone-1"), "--role", "initiator")
    assert len(summary["connections"]) == 4
    assert sum(message["category"] == "connection" for message in got) == 8
    for row in summary["connections"]:
        # what the budget reaches is found, and not one search more: 2,500 tries of 0.3 us each against 0.27 s
        assert 1 < row["chunks_local"] < 455
