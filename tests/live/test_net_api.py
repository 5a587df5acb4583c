# SPDX-License-Identifier: Apache-2.0
"""The recorder's log receiver, store and HTTP API (docs/network.md): the known integration tests, every filter
against a naive one, shapes, errors, event streams, and what may go wrong. Messages come from captures; no kernel is needed."""
import http.client
import json
import os
import pwd
import random
import resource
import shutil
import socket
import sqlite3
import struct
import subprocess
import tempfile
import threading
import time
import urllib.parse

import pytest

import compat
from netapi import VECTORS, Recorder, config_of, free_port, identity, recorder, send_lines, wait_until  # pylint: disable=W0611
from test_net_replay import packet

CAPTURES = os.path.join(VECTORS, "captures")


def stream(capture):
    with open(os.path.join(CAPTURES, capture, "stream.jsonl"), encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_pcap(path, seed=7, conversations=8):
    """Conversations with several peers, both ways round, the clock stepping back now and then."""
    rng = random.Random(seed)
    lines = {name: stream(name) for name in ("all-kinds", "octez-outgoing")}
    clock = 1_700_000_000_000_000  # microseconds
    with open(path, "wb") as out:
        out.write(struct.pack("<IHHiIII", 0xa1b2c3d4, 2, 4, 0, 0, 262144, 1))
        for n in range(conversations):
            name = rng.choice(list(lines))
            # ours is 10.0.0.2: drone-1 connects, recorder-r is connected to
            peer = (1 + 2 * (n % 3), 20000 + rng.randrange(3))
            ours = (2, 9732 if name == "all-kinds" else 40000 + n)
            ends = {"initiator": peer, "responder": ours} if name == "all-kinds" else {"initiator": ours, "responder": peer}
            peer_port = peer[1] + n * 10
            ends = {k: (v[0], peer_port if v is peer else v[1]) for k, v in ends.items()}
            seq = {"initiator": rng.randrange(2 ** 32), "responder": rng.randrange(2 ** 32)}
            packets = [packet(ends["initiator"], ends["responder"], seq["initiator"] - 1, 0, 2, b"", False),
                       packet(ends["responder"], ends["initiator"], seq["responder"] - 1, seq["initiator"], 0x12, b"", False)]
            for line in lines[name]:
                data, way = bytes.fromhex(line["hex"]), line["from"]
                other = "responder" if way == "initiator" else "initiator"
                for at in range(0, len(data), 1400):
                    packets.append(packet(ends[way], ends[other], seq[way] + at, 0, 8, data[at:at + 1400], False))
                seq[way] += len(data)
            for p in packets:
                clock += rng.randrange(1, 200_000) if rng.random() < 0.98 else -rng.randrange(3_000_000)
                out.write(struct.pack("<IIII", clock // 1_000_000, clock % 1_000_000, len(p), len(p)) + p)


def fill(byteledger, db, capture, *options):
    done = subprocess.run([byteledger, "net", "replay", "--store", str(db), *options, str(capture)], capture_output=True,
                          text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def traffic(byteledger, tmp_path_factory):
    """A store with messages of several peers; copied by who changes it."""
    folder = tmp_path_factory.mktemp("traffic")
    write_pcap(folder / "x.pcap")
    fill(byteledger, folder / "db", folder / "x.pcap", "--identity", identity("recorder-r"), "--identity", identity("drone-1"),
         "--local", "10.0.0.2")
    return folder / "db"


@pytest.fixture
def served(traffic, recorder, tmp_path):
    shutil.copytree(traffic, tmp_path / "db")
    return recorder()


# ---- messages ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", compat.P2P, ids=lambda c: c.__name__)
def test_known_p2p_tests_pass(served, check):
    check(compat.Server(f"http://127.0.0.1:{served.ports['v2']}", "9732"))


def naive(rows, q, pivot=None):
    """The rules of section 7 in the plainest words."""
    forward = q.get("direction") == "forward"
    kept = []
    for row in sorted(rows, key=lambda r: r["id"] if forward else -r["id"]):
        if "cursor" in q and (row["id"] < q["cursor"] if forward else row["id"] > q["cursor"]):
            continue
        word = row["kind"] or {"connection": "connection_message", "meta": "metadata", "ack": "ack_message"}[row["category"]]
        if "types" in q and word not in q["types"].split(","):
            continue
        if "incoming" in q and str(row["incoming"]).lower() != q["incoming"]:
            continue
        if "source_type" in q and row["source_type"] != q["source_type"]:
            continue
        if "remote_addr" in q and row["remote_addr"] != q["remote_addr"]:
            continue
        if "from" in q and row["timestamp"] < q["from"] * 10 ** 6:
            continue
        if "to" in q and row["timestamp"] > q["to"] * 10 ** 6:
            continue
        if pivot is not None and (row["timestamp"] > pivot) != forward:
            continue
        kept.append(row)
    return kept[:q.get("limit", 100)]


def test_any_filter_gives_over_http_what_a_naive_one_gives(served):
    rows = served.get("/v3/messages", "v3", limit=10 ** 6, direction="forward")
    assert len(rows) > 300 and [r["id"] for r in rows] == list(range(len(rows)))
    assert len({r["remote_addr"] for r in rows}) >= 4 and len({r["source_type"] for r in rows}) == 2
    words = sorted({r["kind"] or {"connection": "connection_message", "meta": "metadata", "ack": "ack_message"}[r["category"]]
                    for r in rows})
    times = sorted(r["timestamp"] // 10 ** 6 for r in rows)
    rng = random.Random(11)
    nonempty = 0
    for _ in range(400):
        q, pivot = {}, None
        if rng.random() < 0.8:
            q["limit"] = rng.choice([0, 1, 2, 7, 100, 1000])
        if rng.random() < 0.5:
            q["direction"] = rng.choice(["forward", "backward"])
        if rng.random() < 0.4:
            q["cursor"] = rng.randrange(len(rows) + 50)
        if rng.random() < 0.4:
            q["types"] = ",".join(rng.sample(words, rng.randrange(1, 4)))
        if rng.random() < 0.3:
            q["incoming"] = rng.choice(["true", "false"])
        if rng.random() < 0.3:
            q["source_type"] = rng.choice(["local", "remote"])
        if rng.random() < 0.3:
            q["remote_addr"] = rng.choice(rows)["remote_addr"]
        if rng.random() < 0.2:
            q["from"] = rng.choice(times)
        if rng.random() < 0.2:
            q["to"] = rng.choice(times)
        sent = dict(q)
        if rng.random() < 0.2:
            ms = rng.choice(times)
            pivot = ms * 10 ** 6
            sent["timestamp"] = rng.choice([ms, ms * 1000, ms * 10 ** 6])
        if rng.random() < 0.3 and "cursor" in sent:
            sent["cursor_id"] = sent.pop("cursor")
        want = naive(rows, q, pivot)
        nonempty += bool(want)
        port, path = rng.choice([("v2", "/v2/p2p"), ("v3", "/v3/messages")])
        assert served.get(path, port, **sent) == want, sent
    assert nonempty > 150


def test_from_in_nanoseconds_with_a_direction_is_a_moment_to_look_around(served):
    rows = served.get("/v3/messages", "v3", limit=10 ** 6, direction="forward")
    moment = rows[len(rows) // 2]["timestamp"]
    for direction in ("forward", "backward"):
        pivot = served.get("/v2/p2p", **{"from": moment, "direction": direction, "limit": 500})
        assert pivot == served.get("/v2/p2p", timestamp=moment, direction=direction, limit=500)
        assert pivot == naive(rows, {"direction": direction, "limit": 500}, moment)
    assert served.get("/v2/p2p", **{"from": moment, "limit": 10 ** 6}) == \
        [r for r in reversed(rows) if r["timestamp"] >= moment]


def test_v4_mapped_addresses_find_their_messages(served):
    address = served.get("/v2/p2p", limit=1)[0]["remote_addr"]
    host, port = address.rsplit(":", 1)
    assert served.get("/v2/p2p", remote_addr=f"[::ffff:{host}]:{port}") == served.get("/v2/p2p", remote_addr=address) != []


@pytest.mark.parametrize("path,port,params", [
    ("/v2/p2p", "v2", {"limit": "x"}), ("/v2/p2p", "v2", {"direction": "up"}), ("/v2/log", "v2", {"direction": "up"}), ("/v2/p2p", "v2", {"limit": "-1"}), ("/v2/p2p", "v2", {"cursor": ""}),
    ("/v2/p2p", "v2", {"source_type": "foo"}), ("/v2/p2p", "v2", {"incoming": "1"}), ("/v2/p2p", "v2", {"types": "foo"}),
    ("/v2/p2p", "v2", {"types": "metadata,"}), ("/v2/p2p", "v2", {"remote_addr": "1.2.3.4"}),
    ("/v2/p2p", "v2", {"remote_addr": "::1:9732"}), ("/v2/p2p", "v2", {"from": "yesterday"}),
    ("/v2/log", "v2", {"log_level": "loud"}), ("/v3/logs", "v3", {"level": ","}), ("/v3/logs", "v3", {"query_no_quotes": "x"}),
    ("/v3/logs", "v3", {"query": "!!"}), ("/v3/chunks", "v3", {"cn": "abc"}), ("/v3/chunks", "v3", {"cursor": "1.2-here-3"}),
    ("/v3/connections", "v3", {"cursor": "1.9999999999"}), ("/v3/chunk/1.2-local", "v3", {}),
    ("/v2/p2p", "v2", {"limit": "18446744073709551616"})])
def test_bad_parameters_are_400_with_json_and_cors(served, path, port, params):
    status, headers, body = served.request(path, port, {"Origin": "http://localhost:8080"}, **params)
    assert status == 400, body
    assert headers["Content-Type"] == "application/json"
    assert headers["Access-Control-Allow-Origin"] == "http://localhost:8080"
    assert list(json.loads(body)) == ["error"]


def test_paths_methods_and_missing_things(served):
    assert served.request("/v2/nothing")[0] == 404
    assert served.request("/v2/p2p/abc")[0] == 404
    status, _, body = served.request("/v2/p2p", node_name="9999")
    assert (status, json.loads(body)) == (404, {"error": 'no such node: "9999"'})
    assert served.get("/v2/p2p/999999999") is None
    assert served.get("/v3/message/999999999", "v3") is None
    assert served.get("/v3/chunk/5.5-local-0", "v3") is None
    assert served.request("/v3/connection/5.5", "v3")[0] == 404
    assert served.get("/v3/chunks", "v3", cn="5.5") == []
    assert served.get("/v2/p2p", unknown_key="is ignored", limit=1)
    assert isinstance(served.get("/v2/version"), str) and served.get("/v2/version", "v3") == served.get("/v2/version")
    assert served.get("/v2/version/") == served.get("/v2/version") == served.get("/v2/version/", "v3")
    for path in ("/v2/p2p", "/v2/log"):
        assert served.request(path, direction="up")[0] == 400 and served.request(path, direction="forward")[0] == 200
    connection = http.client.HTTPConnection("127.0.0.1", served.ports["v2"], timeout=60)
    for body in (None, b"x" * 100, b"y" * 5000):
        connection.request("POST", "/v2/p2p", body)
        answer = connection.getresponse()
        assert (answer.status, list(json.loads(answer.read()))) == (405, ["error"])
        connection.close()


def test_details_give_the_bytes_and_the_whole_message(byteledger, recorder, tmp_path):
    with open(os.path.join(CAPTURES, "all-kinds", "expected-initiator.json"), encoding="utf-8") as file:
        want = json.load(file)["messages"]
    fill(byteledger, tmp_path / "db", os.path.join(CAPTURES, "all-kinds", "stream.jsonl"), "--identity", identity("recorder-i"),
         "--role", "initiator")
    r = recorder()
    rows = r.get("/v2/p2p", direction="forward", limit=1000)
    assert len(rows) == len(want)
    raw = {"initiator": b"", "responder": b""}
    for line in stream("all-kinds"):
        raw[line["from"]] += bytes.fromhex(line["hex"])
    for row, expected in zip(rows, want):
        for key in ("id", "incoming", "source_type", "category", "kind"):
            assert row[key] == expected[key], (key, expected["id"])
        assert row["message_preview"] == expected["preview"]
        details = r.get(f"/v2/p2p/{row['id']}")
        assert details == r.get(f"/v3/message/{row['id']}", "v3")
        assert list(details) == ["id", "message", "original_bytes", "decrypted_bytes", "error"]
        assert len(details["decrypted_bytes"]) == expected["plain_len"]
        if expected.get("message") is not None:
            assert details["message"] == expected["message"] and details["error"] is None
        else:
            assert (details["message"] is None) == bool(details["error"])
        original = bytes(int(byte, 16) for byte in details["original_bytes"])
        assert original in raw["responder" if row["incoming"] else "initiator"]
        assert all(len(byte) == 2 for byte in details["original_bytes"][:50])
    unknown = [row for row in rows if row["kind"] == "unknown"]
    assert unknown and all(row["tag"].startswith("0x") for row in unknown)
    assert r.get("/v2/p2p", types="unknown") == unknown


def test_connections_and_chunks_page_in_both_directions(served):
    every = served.get("/v3/connections", "v3")
    assert len(every) == 8 and every == served.get("/v3/connections", "v3", direction="backward")[::-1]
    for key, value in every:
        seconds, nanos = key.split(".")
        assert len(nanos) == 9 and set(value) >= {"initiator", "remote_addr", "peer_id", "comments", "closed_at", "gaps"}
        assert served.get(f"/v3/connection/{key}", "v3") == value
        # the older spelling, nanoseconds not padded
        assert served.get(f"/v3/connection/{seconds}.{int(nanos)}", "v3") == value
    assert served.get("/v3/connections", "v3", cursor=every[3][0], limit=2) == every[3:5]
    assert served.get("/v3/connections", "v3", cursor=every[3][0], limit=2, direction="backward") == [every[3], every[2]]
    chunks = served.get("/v3/chunks", "v3", limit=10 ** 6)
    order = [c[0] for c in chunks]
    place = {key: n for n, (key, _) in enumerate(every)}

    def rank(name):
        connection, sender, counter = name.split("-")
        return place[connection], int(counter), sender
    assert order == sorted(order, key=rank) and len(order) == sum(v["chunks_local"] + v["chunks_remote"] for _, v in every)
    rng = random.Random(2)
    for _ in range(30):
        at, limit = rng.randrange(len(order)), rng.choice([0, 1, 5, 63, 64, 65, 129, 200])
        assert served.get("/v3/chunks", "v3", cursor=order[at], limit=limit) == chunks[at:at + limit]
        assert served.get("/v3/chunks", "v3", cursor=order[at], limit=limit, direction="backward") == \
            chunks[max(0, at + 1 - limit):at + 1][::-1]
    cn = every[5][0]
    assert served.get("/v3/chunks", "v3", cn=cn, limit=1000) == [c for c in chunks if c[0].startswith(cn)]
    long = [c for c in chunks if "truncated" in c[1]["bytes"]]
    for name, chunk in chunks[:5] + long[:3]:
        whole = served.get(f"/v3/chunk/{name}", "v3")
        assert chunk["net"] is True and whole["timestamp"] == chunk["timestamp"]
        assert whole["bytes"][:131072] == chunk["bytes"][:131072].split("...")[0]
        assert int(whole["bytes"][:4], 16) * 2 + 4 == len(whole["bytes"])


def test_a_cursor_whose_connection_is_gone_goes_on_at_the_next_one(served):
    def later(name, ns):
        seconds, nanos = map(int, name.split("."))
        return f"{seconds + (nanos + ns) // 10 ** 9}.{(nanos + ns) % 10 ** 9:09d}"
    every = served.get("/v3/connections", "v3")
    chunks = served.get("/v3/chunks", "v3", limit=10 ** 6)
    names = [name for name, _ in every]
    for name in names:
        # nobody began a nanosecond later; who began next is not always who was stored next: the clock steps
        gone, after = later(name, 1), sorted(n for n in names if n > name)
        want = every[names.index(after[0]):] if after else []
        assert served.get("/v3/connections", "v3", cursor=gone) == want
        assert served.get("/v3/connections", "v3", cursor=gone, direction="backward") == every[:names.index(name) + 1][::-1]
        first = [c[0] for c in chunks].index(f"{after[0]}-local-0") if after else len(chunks)
        assert served.get("/v3/chunks", "v3", cursor=f"{gone}-remote-7", limit=5) == chunks[first:first + 5]
        last = max(n for n, c in enumerate(chunks) if c[0].startswith(name))
        assert served.get("/v3/chunks", "v3", cursor=f"{gone}-remote-7", limit=5, direction="backward") == \
            chunks[max(0, last - 4):last + 1][::-1]
    for path in ("/v3/connections", "/v3/chunks"):
        end = "" if path.endswith("connections") else "-local-0"
        assert served.get(path, "v3", cursor="1.0" + end, direction="backward") == []
        assert served.get(path, "v3", cursor="9000000000.0" + end) == []
    status, _, body = served.request("/v3/connection/1.5", "v3")
    assert (status, json.loads(body)) == (404, {"error": "no such connection: 1.5"})


def test_openapi_lists_the_routes_that_answer(served):
    document = served.get("/openapi/network-recorder-openapi.json")
    assert document["openapi"] == "3.0.0"
    connection = served.get("/v3/connections", "v3", limit=1)[0][0]
    chunk = served.get("/v3/chunks", "v3", limit=1)[0][0]
    for path, methods in document["paths"].items():
        assert list(methods) == ["post" if path == "/compact" else "get"]
        if path.endswith("/stream") or path == "/compact":
            continue
        there = path.replace("{id}", connection if "connection" in path else chunk if "chunk" in path else "0")
        port = "v3" if path.startswith("/v3") else "v2"
        assert served.request(there, port)[0] == 200, path
    assert served.request("/compact", "v2")[0] == 404
    served.ports["compact"] = served.ports["v2"] + 1
    assert served.request("/compact", "compact")[0] == 405  # a link or an image that a page holds changes nothing
    assert served.post("/compact", "compact") == 0


# ---- old front ends -----------------------------------------------------------------------------------------------------


def test_front_end_of_the_older_recorder_finds_its_pages(served):
    rows = served.get("/v2/p2p", node_name="9732", limit=1000)
    assert [r["id"] for r in rows] == list(range(len(rows) - 1, -1, -1))
    assert served.get("/v2/p2p", node_name="9732", cursor=998, limit=1000)[-1]["id"] == 0
    again = served.get("/v2/p2p", node_name="9732", cursor=rows[99]["id"], limit=1000)
    assert again[0] == rows[99]
    pairs = ["get_current_head,current_head", "connection_message", "swap_request,swap_ack",
             "get_operation_hashes_for_blocks,operation_hashes_for_block"]
    for pair in pairs:
        kinds = {r["kind"] for r in served.get("/v2/p2p", node_name="9732", types=pair, limit=1000)}
        assert kinds and kinds <= {None, *pair.split(","), "operation_hashes_for_blocks"}
    assert served.get("/v2/log", node_name="9732", log_level="trace,debug,info,notice,warning,error,fatal") == []


# The filter buttons of the network page, and the types that each asks for.
BUTTONS = {"Connection": "connection_message", "Meta": "metadata", "Acknowledge": "ack_message", "Bootstrap": "bootstrap", "Advertise": "advertise",
           "Swap": "swap_request,swap_ack", "Deactivate": "deactivate", "Current Head": "get_current_head,current_head",
           "Current Branch": "get_current_branch,current_branch", "Operation": "get_operations,operation", "Protocol": "get_protocols,protocol",
           "Block Headers": "get_block_headers,block_header", "Block Operations": "get_operations_for_blocks,operations_for_blocks",
           "Block Operations Hashes": "get_operation_hashes_for_blocks,operation_hashes_for_block"}
MESSAGE_ROW = {"id": int, "timestamp": int, "remote_addr": str, "source_type": str, "incoming": bool, "category": str, "kind": (str, type(None)),
               "message_preview": (str, type(None))}
LOG_ROW = {"id": int, "level": str, "timestamp": int, "section": str, "message": str}


def has_fields(row, fields):
    """Those that are read, in that order and of that type; an unknown message has its tag behind them."""
    assert [key for key in row if key != "tag"] == list(fields), row
    for key, kind in fields.items():
        assert isinstance(row[key], kind) and (kind is not int or not isinstance(row[key], bool)), (key, row)


def test_front_end_of_the_older_recorder_reads_each_field_of_its_network_page(served):
    """Its requests as it sends them, in the order in which a user would: open, live, row, filters, pages, a moment."""
    def ask(**words):
        rows = served.get("/v2/p2p", node_name="9732", **words)
        for row in rows:
            has_fields(row, MESSAGE_ROW)
        return rows
    rows = ask(limit=1000)
    assert rows == ask(limit=1000)  # live: the same again every five seconds
    assert {r["source_type"] for r in rows} == {"local", "remote"} and {r["incoming"] for r in rows} == {True, False}
    assert {r["category"] for r in rows} == {"connection", "meta", "ack", "p2p"}
    assert all((r["kind"] is None) == (r["category"] != "p2p") for r in rows)
    for row in rows[:40]:
        details = served.get(f"/v2/p2p/{row['id']}", node_name="9732")
        assert list(details) == ["id", "message", "original_bytes", "decrypted_bytes", "error"] and details["id"] == row["id"]
        for key in ("original_bytes", "decrypted_bytes"):  # the hex tab: 16 of them a line
            assert all(isinstance(byte, str) and len(byte) == 2 and byte == byte.lower() and int(byte, 16) >= 0 for byte in details[key])
        assert details["original_bytes"] and (details["message"] is None or details["error"] is None)
        preview = row["message_preview"]
        assert (preview is None) == (details["message"] is None)
        if preview is not None:
            whole = json.dumps(details["message"], separators=(",", ":"), ensure_ascii=False).encode()
            assert whole.startswith(preview.encode()) and len(preview.encode()) <= 100
    words = {"connection": "connection_message", "meta": "metadata", "ack": "ack_message"}
    for button, types in BUTTONS.items():
        kept = [r for r in rows if (r["kind"] or words[r["category"]]).replace("for_blocks", "for_block") in types.replace("for_blocks", "for_block").split(",")]
        assert ask(types=types, limit=1000) == kept != [], button
    both = ",".join(BUTTONS.values())
    every = both.replace("for_blocks", "for_block").split(",")  # both spellings are one type
    assert ask(types=both, limit=1000) == [r for r in rows if (r["kind"] or words[r["category"]]).replace("for_blocks", "for_block") in every]
    for side in ("local", "remote"):
        assert ask(source_type=side, limit=1000) == [r for r in rows if r["source_type"] == side]
    address = rows[len(rows) // 2]["remote_addr"]
    assert ask(remote_addr=address, limit=1000) == [r for r in rows if r["remote_addr"] == address]
    assert ask(remote_addr=address, source_type="local", types="metadata", limit=1000) == \
        [r for r in rows if (r["remote_addr"], r["source_type"], r["category"]) == (address, "local", "meta")]
    # pages: the oldest row shown begins the next one, so that it repeats
    first = ask(cursor=rows[0]["id"], limit=100)
    older = ask(cursor=first[-1]["id"], limit=100)
    assert first == rows[:100] and older == rows[99:199]
    # a moment: later ones, turned around, and earlier ones behind them
    moment = rows[len(rows) // 2]["timestamp"]
    sides = [ask(**{"from": moment, "direction": way, "limit": 500}) for way in ("forward", "backward")]
    assert sides[0][::-1] + sides[1] == [r for r in rows if r["timestamp"] > moment] + [r for r in rows if r["timestamp"] <= moment]


def test_front_end_of_the_older_recorder_reads_each_field_of_its_logs_page(recorder):
    r = recorder()
    server = compat.Server(f"http://127.0.0.1:{r.ports['v2']}", "9732")
    compat.send_logs(f"127.0.0.1:{r.ports['udp']}", range(300), server)
    compat.wait_for_log(server, 299)

    def ask(**words):
        rows = r.get("/v2/log", node_name="9732", **words)
        for row in rows:
            has_fields(row, LOG_ROW)
        return rows
    rows = ask(limit=1000)
    assert [row["id"] for row in rows] == list(range(299, -1, -1)) and rows == ask(limit=1000)
    levels = {row["level"] for row in rows}
    assert levels <= {"Trace", "Debug", "Info", "Notice", "Warning", "Error", "Fatal"}
    for level in levels:
        assert ask(log_level=level.lower(), limit=1000) == [row for row in rows if row["level"] == level]
    assert ask(log_level=",".join(sorted(level.lower() for level in levels)), limit=1000) == rows
    moment = rows[150]["timestamp"] // 10 ** 6
    sides = [ask(timestamp=moment, direction=way, limit=500) for way in ("forward", "backward")]
    assert sides[0][::-1] + sides[1] == rows
    text = rows[7]["message"]
    found = ask(query=f'"{text}"', limit=1000)
    assert rows[7] in found and all(text in row["message"] for row in found)


def test_cors_is_loopback_unless_the_configuration_says_more(traffic, recorder, tmp_path):
    shutil.copytree(traffic, tmp_path / "db")
    r = recorder()
    assert r.request("/v2/p2p", headers={"Origin": "http://evil.example"})[0] == 403
    assert r.request("/v2/p2p", headers={"Host": "evil.example"})[0] == 403
    r.stop()
    r = recorder(top='cors = "*"\nhosts = ["node.example"]', ports=r.ports)
    status, headers, _ = r.request("/v2/p2p", headers={"Origin": "http://elsewhere.example", "Host": "node.example"})
    assert status == 200 and headers["Access-Control-Allow-Origin"] == "*"


# ---- event streams ----------------------------------------------------------------------------------------------------------


def read_events(r, path, port, count, headers=None, **params):
    connection = http.client.HTTPConnection("127.0.0.1", r.ports[port], timeout=60)
    connection.request("GET", f"{path}?{urllib.parse.urlencode(params)}", headers=headers or {})
    answer = connection.getresponse()
    assert answer.status == 200 and answer.headers["Content-Type"] == "text/event-stream"
    got, key = [], None
    while len(got) < count:
        line = answer.readline().decode().rstrip("\n")
        if line.startswith("id: "):
            key = int(line[4:])
        elif line.startswith("data: "):
            got.append(json.loads(line[6:]))
            assert got[-1]["id"] == key
    connection.close()
    return got


def test_event_streams_give_new_rows_with_the_same_filters(recorder):
    r = recorder()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    to = ("127.0.0.1", r.ports["udp"])
    udp.sendto(b"<27>before", to)
    wait_until(lambda: r.get("/v2/log"), what="the first line")
    got = []
    reader = threading.Thread(target=lambda: got.extend(read_events(r, "/v3/logs/stream", "v3", 3, level="error")))
    reader.start()
    n = 0
    while reader.is_alive():  # the stream begins whenever it begins
        n += 1
        udp.sendto(b"<27>error %d" % n, to)
        udp.sendto(b"<30>info %d" % n, to)
        reader.join(0.05)
    assert len(got) == 3 and {x["level"] for x in got} == {"Error"} and all(x["message"] != "before" for x in got)
    ids = [x["id"] for x in got]
    assert ids == sorted(ids)
    every = read_events(r, "/v2/log/stream", "v2", 4, cursor=0)
    assert [x["id"] for x in every] == [0, 1, 2, 3] and every[0]["message"] == "before"
    later = read_events(r, "/v2/log/stream", "v2", 1, headers={"Last-Event-ID": "2"})
    assert later[0]["id"] == 3


def test_streams_after_a_moment_give_what_comes_after_it(served):
    rows = served.get("/v3/messages", "v3", direction="forward", limit=10 ** 6)
    moment = rows[len(rows) // 2]["timestamp"]
    want = [x for x in rows if x["timestamp"] > moment]
    assert 0 < len(want) < len(rows)
    # a stream has no other direction
    for more in ({}, {"direction": "backward"}, {"direction": "forward"}):
        assert read_events(served, "/v3/messages/stream", "v3", len(want), cursor=0, timestamp=moment, **more) == want


def test_a_stream_takes_no_search(served):
    for path, port in (("/v2/log/stream", "v2"), ("/v3/logs/stream", "v3")):
        status, _, body = served.request(path, port, query="words", cursor=0)
        assert status == 400 and "'query'" in json.loads(body)["error"], body


def test_message_streams_replay_from_a_cursor(served):
    want = served.get("/v3/messages", "v3", direction="forward", cursor=50, limit=300, types="operation,metadata")
    assert read_events(served, "/v3/messages/stream", "v3", len(want), cursor=50, types="operation,metadata") == want


# ---- configuration ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text,words", [
    ("", "names no node"), ("http_v2 = 'x'\n", "line 1: 'http_v2' must be"), ("[[nodes]]\nname='a'\n", "line 1: the node has no 'db'"),
    ("[[nodes]]\ndb='x'\np2p={port=1}\nhttp_v3=70000\n", "line 4: 'http_v3'"), ("[[nodes]]\ndb='x'\np2p={}\n", "line 3: 'p2p' has no 'port'"),
    ("[[nodes]]\nname='a'\ndb='x'\n", "nothing to record"), ("nodes = 1\n", "line 1: 'nodes' is a list"), ("a = \n", "line 1"),
    ("[[nodes]]\ndb='x'\np2p={port=1}\n[[nodes]]\ndb='x'\np2p={port=2}\n", "line 4: another node has the same 'db'"),
    ("http_v2=5\n[[nodes]]\ndb='x'\np2p={port=1}\nhttp_v3=6\n", "wants port 6, which is 'http_v2 + 1"),
    ("bind='nowhere'\n[[nodes]]\ndb='x'\np2p={port=1}\n", "'bind' is an IP address")])
def test_a_bad_configuration_names_its_line(byteledger, tmp_path, text, words):
    path = tmp_path / "config.toml"
    path.write_text(text)
    done = subprocess.run([byteledger, "net", "--config", str(path)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and done.stderr.startswith("byteledger: cannot ") and words in done.stderr, done.stderr


def test_unknown_keys_are_said_and_older_names_understood(byteledger, tmp_path):
    ports = {"v2": free_port(), "v3": free_port(), "udp": free_port()}
    text = (f'bpf_sniffer_path = "/usr/bin/x"\nrpc_port = {ports["v2"]}\nflavour = "mint"\n[[nodes]]\nname = "old"\n'
            f'db_path = "{tmp_path}/db"\nrpc_port = {ports["v3"]}\nsyslog_port = {ports["udp"]}\nodd = 1\n')
    r = Recorder(byteledger, tmp_path, text, ports)
    try:
        said = r.said()
        assert "line 3: unknown key 'flavour'" in said and "line 9: unknown key 'odd'" in said and "bpf_sniffer" not in said
        assert r.get("/v2/p2p", node_name="old") == r.get("/v3/messages", "v3") == []
    finally:
        assert r.stop() == 0


# ---- what may go wrong -----------------------------------------------------------------------------------------------------


def test_two_recorders_on_one_store_and_a_taken_port_are_refused(byteledger, recorder, tmp_path):
    r = recorder()
    other = tmp_path / "other"
    other.mkdir()
    ports = {"v2": free_port(), "v3": free_port(), "udp": free_port()}
    for db, taken, words in ((tmp_path / "db", ports, "another recorder writes to it"),
                             (other / "db", {**ports, "v2": r.ports["v2"]}, "another program has that port")):
        second = Recorder(byteledger, other, config_of(db, taken, log=f'{{ port = {ports["udp"]} }}'), taken, ready=False)
        assert second.process.wait(timeout=60) == 1
        assert words in second.said()
    # a log port that is taken costs only the logs
    third = Recorder(byteledger, other, config_of(other / "db", ports, log=f'{{ port = {r.ports["udp"]} }}'), ports)
    assert "it goes on without logs" in third.said()
    assert third.stop() == 0
    assert r.get("/v2/log") == []


def test_beyond_loopback_only_with_a_token_or_a_word(byteledger, tmp_path):
    ports = {"v2": free_port(), "v3": free_port(), "udp": free_port()}
    log = f'{{ port = {ports["udp"]} }}'
    r = Recorder(byteledger, tmp_path, config_of(tmp_path / "db", ports, log=log, top='bind = "0.0.0.0"'), ports, ready=False)
    assert r.process.wait(timeout=60) == 1 and "without a token" in r.said()
    token = tmp_path / "token"
    token.write_text("0123456789abcdef0123")
    token.chmod(0o600)
    r = Recorder(byteledger, tmp_path, config_of(tmp_path / "db", ports, log=log,
                                                 top=f'bind = "0.0.0.0"\ntoken_file = "{token}"'), ports)
    assert r.request("/v2/log")[0] == 401
    assert r.request("/v2/log", headers={"Authorization": "Bearer 0123456789abcdef0123"})[0] == 200
    assert r.stop() == 0


def test_a_locked_database_delays_rows_and_loses_none(recorder, tmp_path):
    r = recorder()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.sendto(b"first", ("127.0.0.1", r.ports["udp"]))
    wait_until(lambda: r.get("/v2/log"), what="the first line")
    lock = sqlite3.connect(tmp_path / "db" / "store.sqlite", isolation_level=None, timeout=60)
    lock.execute("BEGIN IMMEDIATE")
    for n in range(50):
        udp.sendto(b"held %d" % n, ("127.0.0.1", r.ports["udp"]))
    trouble = wait_until(lambda: r.status()["writer"]["trouble"], what="trouble")
    assert "lock" in trouble
    assert len(r.get("/v2/log", limit=100)) == 1  # readers are not held up
    lock.execute("ROLLBACK")
    lock.close()
    wait_until(lambda: len(r.get("/v2/log", limit=100)) == 51, what="all lines")
    wait_until(lambda: r.status()["writer"]["trouble"] is None, what="the end of the trouble")
    assert r.status()["writer"]["rows_lost"] == 0
    assert "the store is written again" in r.said()


def test_a_full_disk_keeps_what_is_stored_and_goes_on_when_there_is_room(byteledger, tmp_path):
    """A small file system of its own; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")
    try:
        ports = {"v2": free_port(), "v3": free_port(), "udp": free_port()}
        r = Recorder(byteledger, tmp_path, config_of(disk / "db", ports, log=f'{{ port = {ports["udp"]} }}'), ports)
        ballast = disk / "ballast"
        udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        udp.sendto(b"stored before", ("127.0.0.1", ports["udp"]))
        wait_until(lambda: r.get("/v2/log"), what="the first line")
        try:
            with open(ballast, "wb") as out:
                while True:
                    out.write(bytes(4096))
                    out.flush()
        except OSError:
            pass
        sent = 0
        while not r.status()["writer"]["trouble"]:
            for _ in range(20):
                udp.sendto(b"%d " % sent + b"x" * 1000, ("127.0.0.1", ports["udp"]))
                sent += 1
            time.sleep(0.02)
        assert "node '9732'" in r.said()
        assert "disk is full" in r.said().lower() or "no space" in r.said().lower()
        ballast.unlink()
        wait_until(lambda: r.status()["writer"]["trouble"] is None, what="room")
        udp.sendto(b"stored after", ("127.0.0.1", ports["udp"]))
        wait_until(lambda: r.get("/v2/log", query="stored after"), what="the last line")
        assert len(r.get("/v2/log", query="stored before")) == 1
        rows = r.get("/v2/log", limit=100000)
        status = r.status()
        assert sent + 2 == len(rows) + status["logs"]["dropped"] + status["writer"]["rows_lost"]
        assert r.stop() == 0
        db = sqlite3.connect(disk / "db" / "store.sqlite")
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        db.close()
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def test_stopping_stores_what_was_sent_before(recorder, tmp_path):
    r = recorder()
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    for n in range(500):
        udp.sendto(b"line %d" % n, ("127.0.0.1", r.ports["udp"]))
    assert r.stop() == 0
    db = sqlite3.connect(tmp_path / "db" / "store.sqlite")
    assert db.execute("SELECT count(*) FROM log").fetchone() == (500,)
    db.close()


def test_a_killed_recorder_leaves_a_store_that_opens(recorder, tmp_path):
    r = recorder()
    send_lines(r, [f"line {n}" for n in range(2000)])
    wait_until(lambda: r.get("/v2/log"), what="a line")
    r.process.kill()
    r.process.wait()
    r = recorder(ports=r.ports)
    rows = r.get("/v2/log", limit=100000, direction="forward")
    assert rows and [x["message"] for x in rows] == [f"line {n}" for n in range(len(rows))]
    send_lines(r, ["more"])
    wait_until(lambda: r.get("/v2/log", limit=1)[0]["message"] == "more", what="the next line")
    assert r.get("/v2/log", limit=1)[0]["id"] == len(rows)


# ---- decoding later ----------------------------------------------------------------------------------------------------------


def test_reprocess_decodes_what_was_kept_sealed(byteledger, recorder, tmp_path):
    path = os.path.join(CAPTURES, "all-kinds", "stream.jsonl")
    fill(byteledger, tmp_path / "db", path, "--role", "initiator")
    done = subprocess.run([byteledger, "net", "reprocess", "--store", str(tmp_path / "db"), "--identity", identity("recorder-r")],
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, json.loads(done.stdout)) == (0, {"connections": 0, "chunks": 0}), done.stderr  # not ours
    for chunks in (36, 0):  # a second time there is nothing left to do
        done = subprocess.run([byteledger, "net", "reprocess", "--store", str(tmp_path / "db"), "--identity",
                               identity("recorder-i")], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and json.loads(done.stdout)["chunks"] == chunks, done.stdout + done.stderr
    with open(os.path.join(CAPTURES, "all-kinds", "expected-initiator.json"), encoding="utf-8") as file:
        want = json.load(file)["messages"]
    r = recorder()
    rows = r.get("/v2/p2p", direction="forward", limit=1000)
    assert sorted((x["incoming"], x["kind"] or x["category"], x["message_preview"] or "") for x in rows) == \
        sorted((x["incoming"], x["kind"] or x["category"], x["preview"] or "") for x in want)
    for row in rows:
        details = r.get(f"/v2/p2p/{row['id']}")
        assert details["error"] is None or details["error"].startswith("unknown tag")
    (_, connection), = r.get("/v3/connections", "v3")
    assert connection["undecrypted_local"] == connection["undecrypted_remote"] == 0
    assert len(r.get("/v3/chunks", "v3", limit=1000)) == 38


def test_metrics_are_well_formed_and_count(recorder):
    r = recorder()
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", r.ports["udp"]))
    wait_until(lambda: r.get("/v2/log"), what="the line")
    status, headers, body = r.request("/metrics", "v3")
    assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
    text = body.decode()
    assert 'byteledger_log_lines_total{node="9732"} 1\n' in text
    assert 'byteledger_net_query_seconds_bucket{node="9732",le="+Inf"}' in text
    if shutil.which("promtool"):
        done = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, timeout=60)
        assert done.returncode == 0, done.stderr


def test_secrets_are_out_of_reach_and_privileges_gone(served):
    """No core file, no ptrace by the same user, and of the capabilities only what the configuration needs (here: none)."""
    with open(f"/proc/{served.process.pid}/status", encoding="utf-8") as file:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    assert fields["NoNewPrivs"] == "1"
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert resource.prlimit(served.process.pid, resource.RLIMIT_CORE) == (0, 0)


def identity_of(pid):
    """What the kernel says of each thread: ids, capabilities, seccomp."""
    found = set()
    for tid in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{tid}/status", encoding="utf-8") as file:
            fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
        found.add((fields["Uid"], fields["Gid"], fields["CapPrm"], fields["CapEff"], fields["CapBnd"], fields["Seccomp"]))
    return found


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user: needs root")
@pytest.mark.parametrize("how", ["named", "owner"])
def test_root_becomes_a_user_once_it_is_attached(recorder, how):
    nobody = pwd.getpwnam("nobody")
    nothing, ids = "0" * 16, "\t".join([str(nobody.pw_uid)] * 4)
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        db = os.path.join(folder, "db")
        if how == "owner":
            os.mkdir(db, 0o700)
            os.chown(db, nobody.pw_uid, nobody.pw_gid)
        for start in (1, 2):
            r = recorder(top='user = "nobody"' if how == "named" else "", db=db)
            # the first start gives up what the second does
            assert identity_of(r.process.pid) == {(ids, "\t".join([str(nobody.pw_gid)] * 4), nothing, nothing, nothing, "2")}
            assert os.stat(db).st_uid == nobody.pw_uid
            with socket.create_connection(("127.0.0.1", r.ports["tcp"])) as s:
                s.sendall(b"<14>1 - - - - - - to whom it concerns\n")
            wait_until(lambda: len(r.get("/v2/log")) == start, what="the line")  # pylint: disable=cell-var-from-loop
            r.stop()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_a_user_that_there_is_not_is_refused(recorder):
    r = recorder(top='user = "nobody-of-that-name"', ready=False)
    assert r.process.wait(timeout=60) == 1
    assert "cannot become user 'nobody-of-that-name'" in r.said()
