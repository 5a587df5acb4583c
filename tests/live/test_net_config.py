# SPDX-License-Identifier: Apache-2.0
"""`net --config` on live pseudo-nodes: the handshake in order, identities that come late, are wrong or change, retention."""
import os
import shutil
import sqlite3
import subprocess

import pytest

from netapi import Node, Recorder, config_of, free_port, identity, require_capture, wait_until


@pytest.fixture(autouse=True)
def permitted(byteledger):
    require_capture(byteledger)


@pytest.fixture
def p2pnode(prog):
    started = []

    def start(*args, wrap=()):
        started.append(Node(prog("p2pnode"), *args, wrap=wrap))
        return started[-1]
    yield start
    for node in started:
        node.end()


@pytest.fixture
def record(byteledger, tmp_path):
    """record([(name, p2p, further keys)]) -> Recorder with http_v3 ports named after the nodes."""
    started = []

    def start(nodes, ports=None, top="", wrap=()):
        ports = ports or {"v2": free_port(), "v3": free_port(), **{n[0]: free_port() for n in nodes}}
        lines = [top, f'http_v2 = {ports["v2"]}']
        for name, p2p, *more in nodes:
            lines += ["[[nodes]]", f'name = "{name}"', f'http_v3 = {ports[name]}', f'db = "{tmp_path}/{name}"',
                      f"p2p = {p2p}", *more]
        r = Recorder(byteledger, tmp_path, "\n".join(lines) + "\n", ports, wrap=wrap)
        started.append(r)
        return r
    yield start
    for r in started:
        r.stop()


def p2p(port, path, more=""):
    return f'{{ port = {port}, identity = "{path}"{more} }}'


def count(r, node, **filters):
    return len(r.get("/v3/messages", node, limit=10 ** 6, **filters))


def test_a_thousand_messages_come_in_order_behind_the_handshake(record, p2pnode):
    ours, theirs = free_port(), free_port()
    r = record([("i", p2p(ours, identity("recorder-i")))])
    peer = p2pnode("--listen", theirs, "--identity", identity("recorder-r"), "--count", 0, "--expect", 1000)
    node = p2pnode("--listen", ours, "--connect", f"127.0.0.1:{theirs}", "--identity", identity("recorder-i"), "--count", 1000,
                   "--expect", 0)
    wait_until(lambda: r.status()["pids"], what="the node's process")
    node.go()
    assert node.truth()["sent"] == peer.truth()["received"] == 1000
    wait_until(lambda: count(r, "i") == 1006, what="1006 messages")
    rows = r.get("/v3/messages", "i", direction="forward", limit=1006)
    assert [x["id"] for x in rows] == list(range(1006))
    assert [(x["category"], x["incoming"]) for x in rows[:7]] == [
        ("connection", False), ("connection", True), ("meta", False), ("meta", True), ("ack", False), ("ack", True), ("p2p", False)]
    assert all((x["kind"], x["incoming"], x["source_type"]) == ("operation", False, "local") for x in rows[6:])
    times = [x["timestamp"] for x in rows]
    assert times[6:] == sorted(times[6:])
    (_, connection), = r.get("/v3/connections", "i")
    assert connection["remote_addr"] == f"127.0.0.1:{theirs}" and connection["peer_id"] == "idtfHtY9LK9r47LyxPU53KdzeGPNog"
    assert connection["gaps"] == 0
    wait_until(lambda: r.status()["connections"]["open"] == 0, what="the end")


@pytest.mark.parametrize("before", ["missing", "damaged", "another's"])
def test_identity_that_comes_late_opens_what_was_kept_and_what_follows(record, p2pnode, tmp_path, before):
    path = tmp_path / "identity.json"
    if before == "damaged":
        path.write_text('{"public_key":"00"')
    elif before == "another's":
        shutil.copy(identity("drone-3"), path)
    port = free_port()
    r = record([("n", p2p(port, path))])
    node = p2pnode("--listen", port, "--identity", identity("recorder-r"), "--count", 5, "--expect", 60)
    peer = p2pnode("--connect", f"127.0.0.1:{port}", "--identity", identity("recorder-i"), "--kind", "all", "--count", 60,
                   "--expect", 5, "--pause-after", 30)
    peer.wait_for_pause()
    wait_until(lambda: sum(r.status()["chunks_not_decrypted"].values()) > 30, what="sealed chunks")
    # counted when they are decoded, stored a moment later
    wait_until(lambda: count(r, "n") > 0, what="stored messages")
    assert {x["category"] for x in r.get("/v3/messages", "n", limit=1000)} == {"connection"}
    if before == "another's":
        (_, connection), = r.get("/v3/connections", "n")
        assert "outgoing connection message public key does not match with identity" in connection["comments"]
    else:
        assert "stays sealed" in r.said() and ("No such file" if before == "missing" else "cannot read identity") in r.said()
    assert r.status()["connections"]["sealed"] == 1
    metrics = r.request("/metrics", "n")[2].decode()
    assert 'byteledger_net_connections_sealed_total{node="n"} 1\n' in metrics
    capture = r.get("/v3/status")["capture"]
    for name in ("lost_events", "bad_records", "unknown_segments"):
        assert f"byteledger_net_capture_{name}_total {capture[name]}\n" in metrics
    # replaced as a node does it: whole, under its name
    shutil.copy(identity("recorder-r"), tmp_path / "new")
    os.rename(tmp_path / "new", path)
    wait_until(lambda: count(r, "n", incoming="true", types="operation") or count(r, "n") > 20, what="decoded messages")
    peer.go()
    assert peer.truth()["sent"] == node.truth()["received"] == 60
    wait_until(lambda: count(r, "n") == 60 + 5 + 6, what="all messages")
    (_, connection), = wait_until(lambda: [c for c in r.get("/v3/connections", "n") if c[1]["closed_at"]], what="the end")
    assert connection["undecrypted_local"] == connection["undecrypted_remote"] == connection["gaps"] == 0
    assert connection["comments"] == []
    for row in r.get("/v3/messages", "n", limit=1000):
        details = r.get(f"/v3/message/{row['id']}", "n")
        assert details["error"] is None or details["error"].startswith("unknown tag"), details["error"]
    assert "stored chunks" in r.said()


def test_status_counts_damaged_chunks_and_ways_back(record, p2pnode):
    port = free_port()
    r = record([("n", p2p(port, identity("recorder-r")))])
    node = p2pnode("--listen", port, "--identity", identity("recorder-r"), "--count", 5, "--expect", 29)
    peer = p2pnode("--connect", f"127.0.0.1:{port}", "--identity", identity("recorder-i"), "--count", 30, "--expect", 5,
                   "--corrupt", 10)
    assert peer.truth()["sent"] == 30 and node.truth()["bad_chunks"] == 1
    wait_until(lambda: count(r, "n") == 6 + 5 + 29, what="all messages but one")
    status = r.status()
    assert status["resyncs"] == {"incoming": 1, "outgoing": 0}
    # kept whole, though perhaps in pieces: the way back is sought at each of its bytes
    raw = [bytes.fromhex(c["bytes"]) for name, c in r.get("/v3/chunks", "n", limit=1000) if "-remote-raw." in name]
    assert status["raw_pieces"] == {"incoming": len(raw), "outgoing": 0}
    damaged = b"".join(raw)
    assert len(damaged) == 2 + int.from_bytes(damaged[:2], "big") > 100


def test_a_node_that_restarts_with_a_new_identity_is_decoded_on(record, p2pnode, tmp_path):
    path = tmp_path / "identity.json"
    port = free_port()
    shutil.copy(identity("recorder-r"), path)
    r = record([("n", p2p(port, path))])
    for round_, name in enumerate(("recorder-r", "drone-1", "recorder-r"), 1):
        shutil.copy(identity(name), tmp_path / "new")
        os.rename(tmp_path / "new", path)
        node = p2pnode("--listen", port, "--identity", identity(name), "--count", 10, "--expect", 10)
        peer = p2pnode("--connect", f"127.0.0.1:{port}", "--identity", identity("recorder-i"), "--count", 10, "--expect", 10)
        assert node.truth()["received"] == peer.truth()["received"] == 10
        wait_until(lambda: count(r, "n") == round_ * 26, what=f"26 messages with {name}")  # pylint: disable=cell-var-from-loop
    assert r.status()["identities"] == 2
    assert len({c["local_peer_id"] for _, c in r.get("/v3/connections", "n")}) == 2


def test_a_second_recorder_is_refused_while_connections_are_open(record, p2pnode, byteledger, tmp_path):
    port = free_port()
    r = record([("n", p2p(port, identity("recorder-r")))])
    p2pnode("--listen", port, "--identity", identity("recorder-r"), "--count", 5, "--expect", 20)
    peer = p2pnode("--connect", f"127.0.0.1:{port}", "--identity", identity("recorder-i"), "--count", 20, "--expect", 5,
                   "--pause-after", 10)
    peer.wait_for_pause()
    wait_until(lambda: count(r, "n") >= 16, what="the first messages")
    other = tmp_path / "other"
    other.mkdir()
    ports = {"v2": free_port(), "v3": free_port()}
    second = Recorder(byteledger, other, config_of(tmp_path / "n", ports, p2p=p2p(port, identity("recorder-r"))), ports, ready=False)
    assert second.process.wait(timeout=60) == 1, second.said()
    assert "another recorder writes to it" in second.said()
    peer.go()
    wait_until(lambda: count(r, "n") == 31, what="all messages of the first")


def test_rows_of_open_connections_are_current_and_outlive_a_killed_recorder(record, p2pnode, byteledger, tmp_path):
    port = free_port()
    r = record([("n", p2p(port, identity("recorder-r")))])
    p2pnode("--listen", port, "--identity", identity("recorder-r"), "--count", 0, "--expect", 50)
    peer = p2pnode("--connect", f"127.0.0.1:{port}", "--identity", identity("recorder-i"), "--count", 50, "--expect", 0,
                   "--pause-after", 40)
    peer.wait_for_pause()

    wait_until(lambda: r.get("/v3/connections", "n"), what="the row")

    def row():
        return r.get("/v3/connections", "n")[0][1]
    wait_until(lambda: row()["chunks_remote"] == 43, what="the row of the open connection")
    assert row()["closed_at"] is None
    r.process.kill()
    r.process.wait()
    done = subprocess.run([byteledger, "net", "reprocess", "--store", str(tmp_path / "n"), "--identity", identity("recorder-r")],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    with sqlite3.connect(tmp_path / "n" / "store.sqlite") as db:
        assert db.execute("SELECT chunks_remote, chunks_local FROM connection").fetchone() == (43, 3)


def folder_bytes(path):
    return sum(os.path.getsize(os.path.join(path, name)) for name in os.listdir(path))


def test_limits_bound_the_store_and_unlimited_keeps_everything(record, p2pnode, tmp_path):
    """100,000 operations of 128 random bytes between two recorded nodes, one of which keeps 10,000 messages."""
    first, second = free_port(), free_port()
    r = record([("all", p2p(first, identity("recorder-i"))),
                ("few", p2p(second, identity("recorder-r"), ", store_limit = 10_000"))])
    node = p2pnode("--listen", second, "--identity", identity("recorder-r"), "--count", 0, "--expect", 100_000)
    peer = p2pnode("--listen", first, "--connect", f"127.0.0.1:{second}", "--identity", identity("recorder-i"),
                   "--count", 100_000, "--expect", 0, "--rate", 20_000)
    wait_until(lambda: all(n["pids"] for n in r.get("/v3/status")["nodes"]), what="both processes")
    peer.go()
    assert node.truth()["received"] == peer.truth()["sent"] == 100_000
    for name in ("all", "few"):
        wait_until(lambda: (r.get("/v3/messages", name, limit=1) or [{"id": 0}])[0]["id"] == 100_005,  # pylint: disable=W0640
                   what="all messages")
    r.ports["compact"] = r.ports["v2"] + 1
    for name in ("all", "few"):
        assert r.post("/compact", "compact", node_name=name) == 0
    assert folder_bytes(tmp_path / "all") > 32 << 20
    assert folder_bytes(tmp_path / "few") < 10 << 20
    rows = r.get("/v3/messages", "few", limit=10 ** 6)
    assert [x["id"] for x in rows] == list(range(100_005, 90_005, -1))
    assert r.get(f"/v3/message/{rows[-1]['id']}", "few")["message"]["Operation"]
    assert count(r, "all") == 100_006


def test_a_recorder_that_was_killed_goes_on_and_says_what_it_missed(record, p2pnode):
    port = free_port()
    nodes = [("n", p2p(port, identity("recorder-r")))]
    r = record(nodes)
    node = p2pnode("--listen", port, "--identity", identity("recorder-r"), "--count", 5, "--expect", 20)
    peer = p2pnode("--connect", f"127.0.0.1:{port}", "--identity", identity("recorder-i"), "--count", 20, "--expect", 5,
                   "--pause-after", 10)
    peer.wait_for_pause()
    wait_until(lambda: count(r, "n") >= 16, what="the first messages")
    r.process.kill()
    r.process.wait()
    r = record(nodes, ports=r.ports)
    had = count(r, "n")
    wait_until(lambda: len(r.get("/v3/connections", "n")) == 2, what="the connection found again")
    peer.go()
    assert peer.truth()["sent"] == node.truth()["received"] == 20
    wait_until(lambda: all(c["closed_at"] for _, c in r.get("/v3/connections", "n")), what="the end")
    old, late = [c for _, c in r.get("/v3/connections", "n")]
    assert old["close_reason"] == "the recorder ended" and old["closed_at"] and not old["attached_late"]
    assert late["attached_late"] and late["closed_at"] and any("handshake is missing" in c for c in late["comments"])
    assert count(r, "n") == had
    raw = wait_until(lambda: [c for c in r.get("/v3/chunks", "n", limit=1000) if "-raw." in c[0]], what="raw pieces")
    assert all(not c["decrypted"] for _, c in raw)
    assert r.get(f"/v3/chunk/{raw[0][0]}", "n")["bytes"] == raw[0][1]["bytes"]


ONLY_NET_RAW = ("setpriv", "--bounding-set=-all,+net_raw", "--inh-caps=-all")


@pytest.mark.parametrize("top,wrap,why", [('capture = "packet"', (), None), ("", ONLY_NET_RAW, "BPF is not to be had")])
def test_packet_sockets_stand_in_for_bpf(record, p2pnode, top, wrap, why):
    ours, theirs = free_port(), free_port()
    r = record([("n", p2p(ours, identity("recorder-r")))], top=top, wrap=wrap)
    peer = p2pnode("--listen", theirs, "--identity", identity("recorder-i"), "--count", 30, "--expect", 40)
    # the recorder may look into processes of its user that have no privileges, as it has none left
    node = p2pnode("--listen", ours, "--connect", f"127.0.0.1:{theirs}", "--identity", identity("recorder-r"), "--count", 40,
                   "--expect", 30, "--pause-after", 10, wrap=wrap and ("setpriv", "--bounding-set=-all", "--inh-caps=-all"))
    wait_until(lambda: r.status()["pids"] == [node.process.pid], what="the node's process")
    node.go()
    node.wait_for_pause()
    wait_until(lambda: r.status()["connections"]["open"] == 1, what="its connection")
    node.go()
    assert node.truth()["received"] == 30 and peer.truth()["received"] == 40
    wait_until(lambda: count(r, "n") == 76 and r.status()["connections"]["open"] == 0, what="76 messages")
    assert all(x["source_type"] == "local" for x in r.get("/v3/messages", "n", limit=100))
    capture = r.get("/v3/status")["capture"]
    assert capture["backend"] == "packet" and capture["gaps"] == {"incoming": 0, "outgoing": 0}
    assert why is None and capture["backend_reason"] is None or "Operation not permitted" in capture["backend_reason"]
    assert why is None or why in r.said()
    wait_until(lambda: r.status()["pids"] == [], what="the node's end")


def test_a_foreign_node_is_recorded_where_it_listens_and_said_to_be_foreign(record, p2pnode):
    """Without the right to look into other users' processes: what comes to the watched port is recorded, the rest is told."""
    port = free_port()
    r = record([("n", p2p(port, identity("recorder-r")))], wrap=ONLY_NET_RAW)
    node = p2pnode("--listen", port, "--identity", identity("recorder-r"), "--count", 10, "--expect", 20)
    wait_until(lambda: r.get("/v3/status")["capture"]["hidden_nodes"] == 1, what="a listener of somebody else")
    peer = p2pnode("--connect", f"127.0.0.1:{port}", "--identity", identity("recorder-i"), "--count", 20, "--expect", 10)
    assert peer.truth()["received"] == 10 and node.truth()["received"] == 20
    wait_until(lambda: count(r, "n") == 36, what="36 messages")
    assert "belongs to another user" in r.said() and r.status()["pids"] == []


def test_an_unknown_way_of_capture_is_refused(byteledger, tmp_path):
    config = tmp_path / "c.toml"
    config.write_text('capture = "magic"\n[[nodes]]\nname = "n"\ndb = "db"\np2p = { port = 9732 }\n')
    done = subprocess.run([byteledger, "net", "--config", config], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "'capture' is" in done.stderr and "line 1" in done.stderr
