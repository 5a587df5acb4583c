# SPDX-License-Identifier: Apache-2.0
"""What strangers do to `serve`: many clients, slow ones, half-open connections, hostile names. It stays up, small and right."""
import collections
import contextlib
import json
import os
import select
import socket
import subprocess
import threading
import time

import pytest

from test_serve import SQL, Server, cpu_seconds


@pytest.fixture(scope="module")
def recording(byteledger, tmp_path_factory):
    path = str(tmp_path_factory.mktemp("attacks") / "sqlite.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", "sqlite3", ":memory:", SQL.replace("20000", "100000")], check=True,
                   capture_output=True, timeout=120)
    return path


def memory(server):
    with open(f"/proc/{server.child.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmRSS"))


def descriptors(server):
    return len(os.listdir(f"/proc/{server.child.pid}/fd"))


def settle(server, most, seconds=25):
    """Wait until the server has closed what it need not keep open."""
    deadline = time.monotonic() + seconds
    while descriptors(server) > most and time.monotonic() < deadline:
        time.sleep(0.2)
    return descriptors(server)


def test_two_hundred_clients_get_right_answers_and_leave_nothing_behind(byteledger, recording):
    with Server(byteledger, recording) as server:
        want = server.get("tree", nodes=100, keys=1)["node"]
        server.get("rows", by="function")
        before, open_before = memory(server), descriptors(server)
        statuses, wrong = [], []

        def client(number):
            for i in range(5):
                with contextlib.suppress(OSError, json.JSONDecodeError):
                    status, _, body = server.ask("/api/v1/tree?nodes=100&keys=1" if (number + i) % 2 else
                                                 f"/api/v1/rows?by=function&limit={1 + (number * 7 + i) % 90}")
                    statuses.append(status)
                    if status == 200 and (number + i) % 2 and json.loads(body)["node"] != want:
                        wrong.append(number)
        threads = [threading.Thread(target=client, args=(number,)) for number in range(200)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not wrong and statuses.count(200) > 500 and set(statuses) <= {200, 503}
        assert server.get("tree", nodes=100, keys=1)["node"] == want
        assert settle(server, open_before + 3) <= open_before + 3
        assert memory(server) < before + (150 << 20)


MANY_STACKS = """
#include <stdlib.h>
enum { COUNT = 400000 };
static void *blocks[COUNT];
__attribute__((noinline)) static void *deep(unsigned depth, unsigned way)
{
    void *volatile made;
    if (!depth) return malloc(48);
    if (way & 1) made = deep(depth - 1, way >> 1);
    else if (way & 2) made = deep(depth - 1, way >> 2);
    else made = deep(depth - 1, way >> 1);
    return made;
}
int main(void)
{
    for (unsigned round = 0; round < 3; round++)
        for (unsigned i = 0; i < COUNT; i++) free(blocks[i]), blocks[i] = deep(12, i * 2654435761u >> 12);
    return 0;
}
"""


def test_questions_that_find_no_memory_are_answered_in_turn(byteledger, tmp_path):
    """Each fits into the server's memory, all at once do not: they wait for each other, and who has waited in vain may come again."""
    source, program, path = tmp_path / "many.c", tmp_path / "many", str(tmp_path / "many.blt")
    source.write_text(MANY_STACKS)
    subprocess.run(["cc", "-O1", "-o", str(program), str(source)], check=True, timeout=60)
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", str(program)], check=True, capture_output=True, timeout=300)
    questions = [f"/api/v1/{what}&at={4 + i * 3}%25" for i in range(15) for what in ("allocations?group=stack&limit=500", "tree?nodes=2000")]
    with Server(byteledger, path, "--memory", "220M") as server:
        server.get("summary")
        told = {}

        def ask(question):
            status, _, body = server.ask(question)
            told[question] = (status, body)
        threads = [threading.Thread(target=ask, args=(question,)) for question in questions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        print(sorted(status for status, _ in told.values()))
        assert {status for status, _ in told.values()} <= {200, 503}, told
        for question in questions:
            status, _, body = server.ask(question)
            assert status == 200, (question, body)
            if told[question][0] == 200:
                assert json.loads(body) == json.loads(told[question][1])


def test_who_loses_the_place_before_asking_is_told_why(byteledger, recording):
    """Was hung up on: a client that had connected and asked a moment later got no status at all."""
    with Server(byteledger, recording) as server:
        server.get("summary")
        socks = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(90)]
        try:
            assert select.select(socks[:1], [], [], 20)[0], "the first place was not given up"
            told = collections.Counter()
            for sock in socks:  # the first ones gave their places up to the last ones, and ask only now
                with contextlib.suppress(OSError):
                    sock.sendall(b"GET /api/v1/summary HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                got = b""
                with contextlib.suppress(OSError):
                    while chunk := sock.recv(65536):
                        got += chunk
                told[got[9:12]] += 1
                if got[9:12] == b"503":
                    head, _, body = got.partition(b"\r\n\r\n")
                    assert b"application/json" in head and "too many connections" in json.loads(body)["error"]
            print(told)
            assert told[b"503"] >= 1 and told[b"200"] >= 60 and set(told) == {b"200", b"503"}
        finally:
            for sock in socks:
                sock.close()


def test_slow_readers_and_half_open_connections_keep_nobody_out(byteledger, recording):
    with Server(byteledger, recording) as server:
        server.get("tree")
        held = []
        try:
            for i in range(150):
                with contextlib.suppress(OSError):
                    sock = socket.create_connection(("127.0.0.1", server.port), timeout=5)
                    if i % 3 == 0:  # asks for much and reads nothing
                        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                        sock.sendall(b"GET /api/v1/tree?nodes=200000&keys=1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    elif i % 3 == 1:  # half a request
                        sock.sendall(b"GET /api/v1/tree HTTP/1.1\r\nHo")
                    held.append(sock)
            began = time.monotonic()
            assert server.get("summary")["totals"]["allocations"] > 0
            assert time.monotonic() - began < 10
            assert descriptors(server) < 400 and memory(server) < (400 << 20)
        finally:
            for sock in held:
                sock.close()
        assert server.get("sources")


def test_streams_have_a_bound_and_ordinary_questions_go_on(byteledger, recording):
    with Server(byteledger, recording) as server:
        socks, answers = [], []
        for _ in range(40):
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=10)
            sock.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            socks.append(sock)
        for sock in socks:
            with contextlib.suppress(OSError):
                answers.append(sock.recv(200).split(b" ")[1])
        assert answers.count(b"200") == 32 and answers.count(b"503") == 8
        assert server.get("sources")
        for sock in socks:
            sock.close()


def test_work_that_nobody_waits_for_ends(byteledger, recording):
    with Server(byteledger, recording) as server:
        server.get("summary")
        for i in range(30):  # each another replay, each client gone at once
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            sock.sendall(f"GET /api/v1/tree?lifetime-min={i + 1}us HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            sock.close()
        time.sleep(3)
        before = cpu_seconds(server.child.pid)
        for i in range(30):  # who would come back, and hangs up instead: seconds of replays that end at once
            sock = socket.create_connection(("127.0.0.1", server.port), timeout=5)
            sock.sendall(f"GET /api/v1/tree?lifetime-min={i + 100}us&wait=250 HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            sock.close()
        time.sleep(1)
        assert cpu_seconds(server.child.pid) - before < 0.2
        stopped = 0
        for i in range(30):  # who says in between that he does not come back
            question = f"/api/v1/tree?lifetime-min={i + 200}us&wait=0"
            assert server.ask(question)[0] == 202
            status = server.ask(question + "&stop=1")[0]
            assert status in (200, 202)  # 200: it was done already
            stopped += status == 202
        assert stopped >= 20
        time.sleep(1)
        assert cpu_seconds(server.child.pid) - before < 0.4
        status, _, body = server.ask("/api/v1/tree?lifetime-min=77us&wait=0")
        assert status in (200, 202) and json.loads(body)


HOSTILE = """#include <stdlib.h>
#include <sys/prctl.h>
void *hostile_name(void) { return malloc(100); }
int main(void)
{
	prctl(PR_SET_NAME, "\\xe2\\x80\\xae<b>\\"");
	for (int i = 0; i < 10; i++)
		hostile_name();
	return 0;
}
"""


def test_hostile_names_are_text(byteledger, tmp_path, installed):
    (tmp_path / "hostile.c").write_text(HOSTILE)
    cc, objcopy = installed("cc"), installed("objcopy")
    subprocess.run([cc, "-O0", "-c", "-o", str(tmp_path / "hostile.o"), str(tmp_path / "hostile.c")], check=True)
    subprocess.run([objcopy, "--redefine-sym", "hostile_name=<img src=x onerror=alert(1)>", str(tmp_path / "hostile.o")], check=True)
    subprocess.run([cc, "-o", str(tmp_path / "hostile"), str(tmp_path / "hostile.o")], check=True)
    path = str(tmp_path / "<script>alert(2)<" / "x.blt")
    os.mkdir(os.path.dirname(path))
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", str(tmp_path / "hostile")], check=True, timeout=60)
    with Server(byteledger, path) as server:
        for route in ("tree", "rows?by=function", "rows?by=thread", "sources", "export?to=json", "search?find=img"):
            status, headers, body = server.ask("/api/v1/" + route)
            assert status == 200 and headers["Content-Type"] == "application/json" and headers["X-Content-Type-Options"] == "nosniff"
            json.loads(body)
        names = server.get("rows", by="function", cost="leaked")["frames"]["name"]
        assert "<img src=x onerror=alert(1)>" in names
        status, headers, picture = server.ask("/api/v1/export?to=flamegraph&cost=leaked")
        assert status == 200 and b"<img" not in picture and "sandbox" in headers["Content-Security-Policy"]
        assert "attachment" in headers["Content-Disposition"]


def test_wrong_protocols_cost_nothing(byteledger, recording):
    with Server(byteledger, recording) as server:
        before = memory(server)
        for data in (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(500), b"GET\r\n\r\n", b"\r\n" * 5000, os.urandom(100000),
                     b"GET / HTTP/9.9\r\n\r\n", b"GET /api/v1/tree HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 20000 + b"\r\n",
                     b"POST /api/v1/tree HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n" + b"z" * 100000,
                     b"GET /api/v1/tree?" + b"&" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n"):
            got = server.raw(data, timeout=3)
            assert not got.startswith(b"HTTP/1.1 200"), data[:40]
        assert server.get("sources") and memory(server) < before + (50 << 20)
