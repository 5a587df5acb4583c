# SPDX-License-Identifier: Apache-2.0
"""Live capture: what pseudo-nodes (tests/prog/p2pnode) say they sent is what the recorder has, by every kind of call."""
import json
import os
import signal
import socket
import subprocess
import sys
import time

import pytest

from conftest import ROOT
from netapi import Node, free_port, require_capture

IDENTITIES = os.path.join(ROOT, "tests", "vectors", "tezos", "identities")
IN, OUT = 0, 1


def identity(side):
    return os.path.join(IDENTITIES, f"recorder-{side}.json")


@pytest.fixture(autouse=True)
def permitted(byteledger):
    require_capture(byteledger)


def children(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return [int(word) for word in f.read().split()]


class Recorder:
    def __init__(self, path, *args, wrap=()):
        self.packets = "packet" in args
        self.process = subprocess.Popen([*wrap, path, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n", self.process.stderr.read()
        self.pid = children(self.process.pid)[0] if wrap else self.process.pid

    def says(self, *words):
        """Wait until it has said all of these ("listens PORT", "ends PORT", "accepts PORT", "connects REMOTE_PORT", "closes REMOTE_PORT")."""
        missing = set(words)
        while missing:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            missing.discard(line.strip())

    def finish(self):
        """(connections in order, counters)"""
        os.kill(self.pid, signal.SIGTERM)
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        return lines[:-1], lines[-1]

    def kill(self):
        os.kill(self.pid, signal.SIGKILL)
        self.process.communicate(timeout=60)


@pytest.fixture
def node(prog):
    """node(args...) -> a running pseudo-node, ended with the test."""
    started = []

    def start(*args, wrap=()):
        started.append(Node(prog("p2pnode"), *args, wrap=wrap))
        return started[-1]
    yield start
    for one in started:
        one.end()


@pytest.fixture(params=["bpf", "packet"])
def recorder(prog, request):
    """recorder(args...) -> a running recorder, by either way of capture."""
    started = []

    def start(*args, wrap=()):
        started.append(Recorder(prog("netrec"), "-b", request.param, *args, wrap=wrap))
        return started[-1]
    yield start
    for one in started:
        if one.process.poll() is None:
            one.kill()


def all_closed(port):
    """Wait for the last acknowledgement: the kernel ends a socket a moment after the process that held it."""
    listen, time_wait, ends = "0A", "06", f":{port:04X}"
    deadline = time.monotonic() + 60
    while True:
        lines = [line.split() for file in ("tcp", "tcp6") for line in open(f"/proc/net/{file}", encoding="ascii")]
        if not any(line[1].endswith(ends) and line[3] not in (listen, time_wait) for line in lines):
            return
        assert time.monotonic() < deadline
        time.sleep(0.01)


def converse(node, recorder, responder=(), initiator=(), host="127.0.0.1", port=None, record=()):
    """A recorded conversation; the responder is the recorded node. -> (its truth, the initiator's, connections, counters)"""
    port = port or free_port()
    rec = recorder("-p", port, "-i", identity("r"), *record)
    r = node("--listen", port, "--identity", identity("r"), *responder)
    i = node("--connect", f"{host}:{port}", "--identity", identity("i"), *initiator)
    said_i, said_r = i.truths(), r.truths()
    all_closed(port)
    conns, counters = rec.finish()
    return said_r, said_i, conns, counters


def check_whole(conn, responder, initiator):
    """Nothing lost, everything in order, both directions."""
    assert conn["gaps"] == [0, 0] and conn["before"] == [0, 0]
    assert conn["messages"] == [initiator["sent"], responder["sent"]]
    assert conn["sha256"] == [initiator["sent_sha256"], responder["sent_sha256"]]


def check_counters(counters):
    for key in ("unreadable", "refused", "lost_events", "bad_records", "unknown_segments"):
        assert counters[key] == 0, counters
    for way in (IN, OUT):
        assert counters["seen_bytes"][way] == counters["delivered_bytes"][way] + counters["lost_bytes"][way] + counters["duplicate_bytes"][way]


SEND = ["write", "writev", "send", "sendto", "sendmsg", "sendmmsg", "sendfile", "splice", "uring"]
RECEIVE = ["read", "readv", "recv", "recvmsg", "recvmmsg", "peek", "splice", "uring", "read"]


@pytest.mark.parametrize("send,receive", list(zip(SEND, RECEIVE)), ids=[f"{s}-{r}" for s, r in zip(SEND, RECEIVE)])
def test_every_kind_of_call_is_recorded_whole(node, recorder, send, receive):  # W2, W3, W4
    ways = ("--send", send, "--receive", receive, "--count", 300, "--kind", "all")
    said_r, said_i, conns, counters = converse(node, recorder, (*ways, "--seed", 1), (*ways, "--seed", 2))
    assert len(conns) == 1
    check_whole(conns[0], said_r[0], said_i[0])
    check_counters(counters)
    assert counters["lost_bytes"] == [0, 0]
    # the pseudo-node's own crypto and ours agree on what is undecodable: the unknown tag, each 26th message
    assert conns[0]["errors"] == [300 // 26] * 2


@pytest.mark.parametrize("args", [("--piece", 1, "--count", 20), ("--pack", 7), ("--cut", 3), ("--empty-chunks",), ("--wait-for-hello",)],
                         ids=lambda a: a[0])
def test_odd_framing_changes_nothing(node, recorder, args):
    said_r, said_i, conns, _ = converse(node, recorder, ("--count", 200), ("--count", 200, *args))
    check_whole(conns[0], said_r[0], said_i[0])


def test_ipv6_and_its_addresses(node, recorder):  # W28
    said_r, said_i, conns, _ = converse(node, recorder, ("--count", 50, "--v6"), ("--count", 60), host="::1", port=free_port("::1"))
    check_whole(conns[0], said_r[0], said_i[0])
    assert conns[0]["local"].startswith("[::1]:") and conns[0]["remote"].startswith("[::1]:")


def test_a_v4_mapped_peer_is_plain_ipv4(node, recorder):  # W28
    said_r, said_i, conns, _ = converse(node, recorder, ("--count", 5, "--v6"), ("--count", 5), port=free_port("127.0.0.1", "::1"))
    check_whole(conns[0], said_r[0], said_i[0])
    assert conns[0]["local"].startswith("127.0.0.1:") and conns[0]["remote"].startswith("127.0.0.1:")


def test_accept_without_an_address_is_recorded_with_one(node, recorder):  # W5: p2pnode accepts with NULL
    _, _, conns, _ = converse(node, recorder, ("--count", 1), ("--count", 1))
    assert conns[0]["remote"].startswith("127.0.0.1:") and not conns[0]["local_initiated"]


@pytest.mark.parametrize("then", ["dup", "fork", "exec", "pass"])
def test_a_socket_is_followed_through(node, recorder, then):  # W7
    said_r, said_i, conns, _ = converse(node, recorder, ("--count", 100, "--then", then), ("--count", 100, "--then", then))
    assert len(conns) == 1
    check_whole(conns[0], said_r[0], said_i[0])


def test_a_node_that_listens_already_is_adopted(node, recorder):  # W1
    port = free_port()
    r = node("--listen", port, "--identity", identity("r"), "--count", 100)
    rec = recorder("-p", port, "-i", identity("r"))
    said_i = node("--connect", f"127.0.0.1:{port}", "--identity", identity("i"), "--count", 100).truths()
    said_r = r.truths()
    conns, counters = rec.finish()
    check_whole(conns[0], said_r[0], said_i[0])
    assert counters["listens"] == 1 and conns[0]["pid"] == said_r[0]["pid"] and conns[0]["node_port"] == port


@pytest.mark.parametrize("already", [True, False], ids=["adopted", "new"])
def test_a_listener_that_closes_leaves_the_ports_other_one(recorder, already):
    """A port is often listened on twice, by IPv4 and by IPv6."""
    port = free_port("127.0.0.1", "::1")
    rec = None if already else recorder("-p", port, "-n")
    with socket.create_server(("127.0.0.1", port)) as v4:
        v6 = socket.create_server(("::1", port), family=socket.AF_INET6)
        rec = rec or recorder("-p", port, "-n")
        v6.close()
        with socket.create_connection(("127.0.0.1", port)) as client, v4.accept()[0] as server:
            client.sendall(b"hello")
            assert server.recv(5) == b"hello"
            conns, counters = rec.finish()
    # this process is the node, so it is recorded as the one that connects, too
    accepted = [c for c in conns if not c["local_initiated"]]
    assert [(c["bytes"], c["gaps"], c["node_port"]) for c in accepted] == [([5, 0], [0, 0], port)]
    check_counters(counters)


def test_children_that_end_are_not_their_node(recorder):
    """One child from before the recording, which has the listener open, and one from later."""
    port = free_port()
    program = f"""if True:
        import os, socket
        server = socket.create_server(("127.0.0.1", {port}))
        r, w = os.pipe()
        early = os.fork()
        if not early:
            os.close(w)
            os.read(r, 1)
            os._exit(0)
        print("listening", flush=True)
        input()
        late = os.fork()
        if not late:
            os._exit(0)
        os.waitpid(late, 0)
        os.close(w)
        os.waitpid(early, 0)
        """
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "listening\n"
        rec = recorder("-p", port, "-n")
        # all ends lie behind it when it looks again
        rec.process.send_signal(signal.SIGSTOP)
        stopped(rec.process)
        process.stdin.write("go\n")
        process.stdin.flush()
        assert process.wait(60) == 0
        rec.process.send_signal(signal.SIGCONT)
    rec.says(f"listens {port}", f"ends {port}")
    _, counters = rec.finish()
    assert (counters["listens"], counters["ends"]) == (1, 1)


@pytest.mark.parametrize("role", ["responder", "initiator"])
def test_an_open_connection_is_adopted_at_its_exact_place(node, recorder, role):
    port = free_port()
    r = node("--listen", port, "--identity", identity("r"), "--count", 200, "--pause-after", 100)
    i = node("--connect", f"127.0.0.1:{port}", "--identity", identity("i"), "--count", 200, "--pause-after", 100)
    r.wait_for_pause(), i.wait_for_pause()
    watch = ("-p", port) if role == "responder" else ("-P", i.process.pid)
    rec = recorder(*watch, "-i", identity("r" if role == "responder" else "i"))
    r.go(), i.go()
    said_i, said_r = i.truths(), r.truths()
    conns, _ = rec.finish()
    assert len(conns) == 1 and said_i[0]["received"] == said_r[0]["received"] == 200
    conn = conns[0]
    assert conn["late"] == 1 and conn["gaps"] == [0, 0]
    assert conn["local_initiated"] == (role == "initiator")
    # 200 equal operations after connection message (108), metadata (20), ack (19): half before, half behind the adoption
    operation = 2 + 16 + 4 + 2 + 32 + 128
    assert conn["bytes"] == [100 * operation] * 2
    # how much moved before is the kernel's secret where only packets are seen
    assert conn["before"] == [0 if rec.packets else 108 + 20 + 19 + 100 * operation] * 2
    assert conn["messages"] == [0, 0]  # without the handshake nothing can be opened


def test_a_refused_connect_is_told_as_such(node, recorder):  # W6, W9
    port, nobody = free_port(), free_port()
    i = node("--listen", port, "--connect", f"127.0.0.1:{nobody}")
    rec = recorder("-p", port)
    i.go()
    i.process.communicate(timeout=60)
    conns, counters = rec.finish()
    if rec.packets:
        # refused at once, so there never was a moment to see whose socket it was: counted
        assert conns == [] and counters["unowned"] >= 1
        return
    assert [(c["reason"], c["remote"], c["local_initiated"]) for c in conns] == [("connection refused", f"127.0.0.1:{nobody}", 1)]


@pytest.mark.parametrize("who,reason", [("responder", "closed"), ("initiator", "closed by peer"), ("reset", "reset")])
def test_the_end_says_who_ended(node, recorder, who, reason):
    # the first to end waits for as much as the other sends, the other for the end
    r, i = ("--count", 3), ("--count", 5)
    if who == "responder":
        r, i = (*r, "--expect", 5), (*i, "--end-last")
    else:
        r, i = (*r, "--end-last"), (*i, "--expect", 3, *(("--reset",) if who == "reset" else ()))
    _, _, conns, _ = converse(node, recorder, r, i)
    assert conns[0]["reason"] == reason
    assert conns[0]["messages"] == [5, 3]


def test_what_is_pending_at_the_end_is_kept(node, recorder, tmp_path):  # W10
    said_r, said_i, conns, _ = converse(node, recorder, ("--count", 5), ("--count", 5, "--half-chunk"), record=("-s", tmp_path / "db"))
    check_whole(conns[0], said_r[0], said_i[0])
    import sqlite3
    db = sqlite3.connect(tmp_path / "db" / "store.sqlite")
    sizes = [n for (n,) in db.execute("SELECT raw_len FROM chunk WHERE sender = 1 AND counter IS NULL")]
    assert sizes == [14]


def test_a_nack_ends_the_talk_and_is_recorded(node, recorder):
    _, _, conns, _ = converse(node, recorder, ("--nack",), ("--count", 2))
    assert conns[0]["messages"][OUT] == 0 and conns[0]["errors"] == [0, 0]


@pytest.mark.parametrize("fault", ["--corrupt", "--skip"])
def test_a_damaged_or_missing_chunk_costs_only_itself(node, recorder, fault):  # W11
    said_r, said_i, conns, _ = converse(node, recorder, ("--count", 50), ("--count", 50, fault, 20))
    assert said_r[0]["received"] == conns[0]["messages"][IN] == 49
    assert conns[0]["sha256"][IN] == said_r[0]["received_sha256"]
    assert conns[0]["messages"][OUT] == 50 and conns[0]["sha256"][OUT] == said_r[0]["sent_sha256"]
    assert "cannot decrypt, position: 20" in conns[0]["comments"]


def test_several_nodes_and_both_ends_at_once(node, recorder):
    ports = [free_port() for _ in range(3)]
    rec = recorder(*[a for p in ports for a in ("-p", p)], "-i", identity("r"), "-i", identity("i"))
    pairs = []
    for n, port in enumerate(ports[:2]):
        r = node("--listen", port, "--identity", identity("r"), "--count", 100, "--seed", n)
        pairs.append((port, r))
    # the third is a node of its own that connects: recorded from both ends
    i = node("--listen", ports[2], "--connect", f"127.0.0.1:{ports[0]}", "--identity", identity("i"), "--count", 100, "--seed", 9,
             "--pause-after", 50)
    rec.says(*(f"listens {p}" for p in ports))
    i.go()
    i.wait_for_pause()
    # whose a connection is that only packets tell of is seen as long as it is open
    rec.says(f"connects {ports[0]}")
    i.go()
    other = node("--connect", f"127.0.0.1:{ports[1]}", "--identity", identity("i"), "--count", 100, "--seed", 8)
    said = {ports[0]: i.truths()[0], ports[1]: other.truths()[0]}
    said_r = {port: r.truths()[0] for port, r in pairs}
    conns, counters = rec.finish()
    assert len(conns) == 3 and counters["listens"] == 3
    for conn in conns:
        if conn["local_initiated"]:
            assert conn["node_port"] == ports[2]
            check_whole(conn, said[ports[0]], said_r[ports[0]])
        else:
            check_whole(conn, said_r[conn["node_port"]], said[conn["node_port"]])


def test_two_hundred_connections_one_after_the_other(node, recorder):
    said_r, said_i, conns, counters = converse(node, recorder, ("--connections", 200, "--count", 2), ("--connections", 200, "--count", 2))
    assert len(conns) == len(said_r) == 200 and counters["opened"] == 200
    for conn, r, i in zip(conns, said_r, said_i):
        check_whole(conn, r, i)


def test_remote_ports_can_be_left_out(node, recorder):
    port, remote = free_port(), free_port()
    other = node("--listen", remote, "--count", 3)
    i = node("--listen", port, "--connect", f"127.0.0.1:{remote}", "--count", 3)
    rec = recorder("-p", port, "-x", remote)
    i.go()
    i.truths(), other.truths()
    conns, counters = rec.finish()
    assert conns == [] and counters["opened"] == 0


def test_a_node_in_another_network_namespace(node, recorder):
    if subprocess.run(["unshare", "-n", "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine permits no network namespaces")
    port = free_port()
    rec = recorder("-p", port, "-i", identity("r"))
    inside = ("unshare", "-n", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")
    r = node("--listen", port, "--identity", identity("r"), "--count", 20, wrap=inside)
    enter = ("nsenter", "-n", "-t", str(r.process.pid))
    said_i = node("--connect", f"127.0.0.1:{port}", "--identity", identity("i"), "--count", 20, wrap=enter).truths()
    said_r = r.truths()
    conns, _ = rec.finish()
    if rec.packets:
        assert conns == []  # a packet socket sees its own network namespace
    else:
        check_whole(conns[0], said_r[0], said_i[0])


def test_a_node_in_another_pid_namespace(node, recorder):
    """As in a container that shares the network: the recorder sees its ids, not the container's."""
    inside = ("unshare", "-p", "-f", "--mount-proc")
    if subprocess.run([*inside, "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine permits no pid namespaces")
    port = free_port()
    r = node("--listen", port, "--identity", identity("r"), "--count", 20, "--pause-after", 10, wrap=inside)
    rec = recorder("-p", port, "-i", identity("r"))
    i = node("--connect", f"127.0.0.1:{port}", "--identity", identity("i"), "--count", 20)
    r.wait_for_pause()
    (child,) = children(r.process.pid)
    r.go()
    said_i, said_r = i.truths(), r.truths()
    conns, _ = rec.finish()
    check_whole(conns[0], said_r[0], said_i[0])
    assert said_r[0]["pid"] == 1 and conns[0]["pid"] == child


@pytest.fixture
def pid_namespace():
    """What runs a program inside one."""
    holder = subprocess.Popen(["unshare", "-p", "-f", "--mount-proc", "--kill-child", "sh", "-c", "echo here; exec sleep 600"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if holder.stdout.readline() != "here\n":
        pytest.skip("this machine permits no pid namespaces")
    yield "nsenter", "-p", "-m", "-t", str(children(holder.pid)[0])
    holder.kill()
    holder.communicate()


def test_a_recorder_in_a_pid_namespace_of_its_own(node, recorder, pid_namespace):
    """In a container with its node: ids are those that it can see, and what runs outside is nobody's."""
    port, outside = free_port(), free_port()
    r = node("--listen", port, "--identity", identity("r"), "--count", 20, wrap=pid_namespace)
    other = node("--listen", outside, "--connect", f"127.0.0.1:{port}", "--identity", identity("i"), "--count", 20)
    rec = recorder("-p", port, "-p", outside, "-i", identity("r"), wrap=pid_namespace)
    other.go()
    said_i, said_r = other.truths(), r.truths()
    conns, _ = rec.finish()
    assert len(conns) == 1
    check_whole(conns[0], said_r[0], said_i[0])
    assert 1 < said_r[0]["pid"] == conns[0]["pid"] < 100


def test_times_are_those_of_the_kernel(node, recorder):  # W24
    before = time.time_ns()
    _, _, conns, _ = converse(node, recorder, ("--count", 1), ("--count", 1))
    # wall clock, to the accuracy of reading two clocks one after the other
    assert before - 5_000_000 <= conns[0]["time_ns"] <= time.time_ns()


def test_100000_messages_none_lost_stored_equals_sent(node, recorder, prog, tmp_path):
    many = ("--count", 50_000)
    said_r, said_i, conns, counters = converse(node, recorder, (*many, "--seed", 1), (*many, "--seed", 2), record=("-s", tmp_path / "db"))
    check_whole(conns[0], said_r[0], said_i[0])
    assert conns[0]["messages"] == [50_000, 50_000] and counters["lost_bytes"] == [0, 0]
    check_counters(counters)
    done = subprocess.run([prog("netrec"), "-R", tmp_path / "db"], capture_output=True, text=True, timeout=120)
    back, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert back["messages"] == [50_000, 50_000] and last["half_messages"] == 0
    assert back["sha256"] == [said_i[0]["sent_sha256"], said_r[0]["sent_sha256"]]


def stopped(process):
    """Wait until the kernel says so."""
    deadline = time.monotonic() + 30
    while open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()[0] != "T":
        assert time.monotonic() < deadline
        time.sleep(0.01)


def all_sent(port):
    """Wait until nothing that was written to @port is still in its sender's buffer."""
    deadline = time.monotonic() + 60
    while any(line.split()[2].endswith(f":{port:04X}") and int(line.split()[4].split(":")[0], 16)
              for line in open("/proc/net/tcp").readlines()[1:]):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def retransmitted():
    names, values = [line.split() for line in open("/proc/net/snmp", encoding="ascii") if line.startswith("Tcp:")]
    return int(values[names.index("RetransSegs")])


def test_a_burst_is_counted_and_found_back_and_the_other_direction_is_untouched(node, recorder):  # W8
    port = free_port()
    before = retransmitted()
    rec = recorder("-p", port, "-i", identity("r"), "-r", 4 << 20)
    # the responder says a little before and after; the initiator bursts between
    r = node("--listen", port, "--identity", identity("r"), "--count", 60, "--pause-after", 30)
    i = node("--connect", f"127.0.0.1:{port}", "--identity", identity("i"), "--count", 20_100, "--size", 200,
             "--pause-after", 0, "--pause-after", 20_000)
    r.wait_for_pause(), i.wait_for_pause()
    rec.says(f"accepts {port}")
    rec.process.send_signal(signal.SIGSTOP)
    stopped(rec.process)
    i.go()
    i.wait_for_pause()
    all_sent(port)  # 5 MB went out while nobody took anything: the nodes did not wait
    rec.process.send_signal(signal.SIGCONT)
    rec.says("empty")
    r.go(), i.go()
    said_i, said_r = i.truths()[0], r.truths()[0]
    conns, counters = rec.finish()
    conn = conns[0]
    sent = 108 + 20 + 19 + 20_100 * (2 + 16 + 4 + 2 + 32 + 200)
    assert conn["gaps"][IN] >= 1 and conn["bytes"][IN] + conn["gap_bytes"][IN] == sent
    assert counters["dropped_packets" if rec.packets else "lost_segments"]
    assert counters["lost_bytes"][OUT] == conn["gap_bytes"][OUT] == 0
    # what a full socket refused comes again: lost the first time, it is no gap if room was found the second time
    assert counters["lost_bytes"][IN] >= conn["gap_bytes"][IN]
    if retransmitted() == before:
        assert counters["lost_bytes"] == conn["gap_bytes"]
    check_counters(counters)
    # decoded again behind the gap, to the last message
    assert 100 <= conn["messages"][IN] < 20_100 and said_r["received"] == 20_100
    assert "lack chunks" in conn["comments"]
    assert conn["gaps"][OUT] == 0 and conn["messages"][OUT] == 60 and conn["sha256"][OUT] == said_r["sent_sha256"]
    assert said_i["received"] == 60


@pytest.mark.parametrize("seen", ["while recording", "at the end"])
def test_a_connection_whose_closing_found_no_room_is_closed_all_the_same(prog, seen):
    port = free_port()
    rec = Recorder(prog("netrec"), "-b", "bpf", "-p", port, "-n", "-r", 1 << 20)
    try:
        with socket.create_server(("127.0.0.1", port)) as listener:
            def connection():
                client = socket.create_connection(("127.0.0.1", port))
                return client, listener.accept()[0]
            client, server = connection()
            known = client.getsockname()[1]
            rec.says(f"accepts {port}", f"connects {port}")
            rec.process.send_signal(signal.SIGSTOP)
            stopped(rec.process)
            # two openings and two closings each, of 160 bytes: more than 1 MiB
            for _ in range(2000):
                for end in connection():
                    end.close()
            client.close(), server.close()
            all_closed(port)
            rec.process.send_signal(signal.SIGCONT)
            if seen == "while recording":
                rec.says(f"closes {known}")
        conns, counters = rec.finish()
    finally:
        if rec.process.poll() is None:
            rec.kill()
    assert counters["lost_events"] > 0
    assert [c["reason"] for c in conns if c["remote"] == f"127.0.0.1:{known}"] == ["closed, end not seen"]
    assert not [c for c in conns if c["reason"] == "recording ended"]


def test_a_killed_recorder_leaves_whole_rows_and_undisturbed_nodes(node, recorder, prog, tmp_path):
    import sqlite3
    port = free_port()
    rec = recorder("-p", port, "-i", identity("r"), "-s", tmp_path / "db")
    r = node("--listen", port, "--identity", identity("r"), "--count", 30_000, "--rate", 20_000, "--burst", 20)
    i = node("--connect", f"127.0.0.1:{port}", "--identity", identity("i"), "--count", 30_000, "--rate", 20_000, "--burst", 20)
    deadline, rows = time.monotonic() + 60, 0
    while rows < 1000:  # in the middle of it
        assert time.monotonic() < deadline
        try:
            db = sqlite3.connect(f"file:{tmp_path}/db/store.sqlite?mode=ro", uri=True, timeout=10)
            rows = db.execute("SELECT count(*) FROM message").fetchone()[0]
            db.close()
        except sqlite3.OperationalError:
            pass
    rec.kill()
    said_i, said_r = i.truths()[0], r.truths()[0]
    assert said_i["received"] == said_r["received"] == 30_000
    done = subprocess.run([prog("netrec"), "-R", tmp_path / "db"], capture_output=True, text=True, timeout=120)
    back, last = [json.loads(line) for line in done.stdout.splitlines()]
    assert last["half_messages"] == 0 and sum(back["messages"]) + 6 >= rows
    db = sqlite3.connect(tmp_path / "db" / "store.sqlite")
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    # and the next recorder takes it over
    rec = recorder("-p", port, "-s", tmp_path / "db")
    rec.finish()


@pytest.mark.guest
def test_the_same_under_linux_6_1(prog, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root for virtiofs")
    script = os.path.join(ROOT, "build", "netlive-guest.sh")
    with open(script, "w", encoding="utf-8") as f:
        f.write(f"""set -eu
d=$(mktemp -d)
{prog("netrec")} -p 9732 -i {identity("r")} >$d/rec & rec=$!
until grep -q ready $d/rec; do kill -0 $rec; sleep 1; done
for ways in "write read" "sendmsg recvmsg" "sendfile splice" "splice readv" "uring uring"; do
	set -- $ways
	: >$d/r
	{prog("p2pnode")} --listen 9732 --identity {identity("r")} --count 60 --kind all --send $1 --receive $2 >$d/r & r=$!
	until grep -q listening $d/r; do kill -0 $r; sleep 1; done
	{prog("p2pnode")} --connect 127.0.0.1:9732 --identity {identity("i")} --count 70 --send $1 --receive $2 >$d/i
	wait $r
	grep sent $d/r; cat $d/i
done
kill -TERM $rec; wait $rec
cat $d/rec
""")
    done = subprocess.run([os.path.join(ROOT, "scripts", "guest.sh"), "-k", "6.1", "--", "sh", script], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr + done.stdout
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    said = [line for line in lines if "sent" in line]
    conns = [line for line in lines if "conn" in line]
    assert len(said) == 10 and len(conns) == 5
    for conn, r, i in zip(conns, said[0::2], said[1::2]):
        check_whole(conn, r, i)
    check_counters(lines[-1])
