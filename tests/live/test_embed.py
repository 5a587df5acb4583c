# SPDX-License-Identifier: Apache-2.0
"""libbyteledger: names, the own breakdown and the responder, from C and C++, seen from inside and from outside."""
import contextlib
import glob
import gzip
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import time

import pytest

from conftest import ROOT
from netapi import free_port
from test_regions import wait_for

VARIANTS = ("embedded", "embedded_static", "embedded_cpp")


@contextlib.contextmanager
def embedded(prog, variant, *args):
    child = subprocess.Popen([prog(variant), *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        page = b""
        while b"ready\n" not in page:
            chunk = os.read(child.stdout.fileno(), 65536)
            assert chunk, (page, child.stderr.read())
            page += chunk
        child.page = page.decode()
        yield child
    finally:
        child.kill()
        child.communicate()


def cpu_ticks(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return int(fields[11]) + int(fields[12])


def outside(byteledger, pid):
    done = subprocess.run([byteledger, "regions", "-p", str(pid), "--format", "json", "--all"], capture_output=True, check=True)
    return json.loads(done.stdout)


def get(port, path, **headers):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    client.request("GET", path, headers=headers)
    answer = client.getresponse()
    body = answer.read().decode()
    client.close()
    return answer, body


@pytest.mark.parametrize("variant", VARIANTS)
def test_names_are_seen_from_inside_and_outside_page_by_page(byteledger, prog, variant):
    with embedded(prog, variant) as child:
        row = next(line for line in child.page.splitlines() if "cache-*" in line)
        assert row.split()[:2] == ["6.00", "MiB"], row
        seen = outside(byteledger, child.pid)
        named = [c for c in seen["classes"] if c["class"] == "named"]
        assert [(c["label"], c["rss_bytes"], c["count"]) for c in named] == [("cache-*", 6 << 20, 8)]
        chunks = {r["name"]: r["rss_bytes"] for r in seen["regions"] if r["class"] == "named"}
        assert chunks == {f"cache-{i}": (1 << 20 if i < 6 else 0) for i in range(8)}
        # one mapping was cut into eight: nothing is lost or counted twice
        assert sum(r["rss_bytes"] for r in seen["regions"]) == seen["rss_bytes"]
        assert sum(r["pss_bytes"] for r in seen["regions"]) == seen["pss_bytes"]
        assert seen["own_rss_bytes"] > 0


def test_breakdown_of_self_adds_up_and_needs_no_other_library(prog):
    with embedded(prog, "embedded_static") as child:
        lines = child.page.splitlines()
        total = next(line for line in lines if "sum of all mappings" in line).split()
        assert lines[0].split("RSS ")[1].startswith(" ".join(total[:2]))
    needed = subprocess.run(["readelf", "-d", prog("embedded_static")], capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"NEEDED.*\[(.*)\]", needed)) == {"libc.so.6"}


def test_a_process_without_its_main_thread_sees_itself(prog):
    library = os.path.join(os.path.dirname(prog("outlived")), "..", "..", "libbyteledger.so")
    done = subprocess.run([prog("outlived"), "24", library], input=b"x", capture_output=True, timeout=60)
    assert done.returncode == 3 and done.stdout.endswith(b"alone\n"), done
    assert float(re.search(rb"RSS ([0-9.]+) MiB", done.stdout).group(1)) > 24


def test_serves_the_known_layout_to_local_users_only(prog):
    port = free_port()
    with embedded(prog, "embedded", f"127.0.0.1:{port}") as child:
        answer, body = get(port, "/debug/memory?top=3")
        assert answer.status == 200 and answer.getheader("Content-Type") == "text/plain; charset=utf-8"
        assert "=== Top 3 Memory Regions ===" in body and "Named Memory Regions (mmap):" in body
        awk = subprocess.run("grep 'RSS (Resident)' | awk '{print $3}'", shell=True, input=body, text=True, capture_output=True)
        rss = int(open(f"/proc/{child.pid}/statm").read().split()[1]) * 4096 >> 20
        assert abs(int(awk.stdout) - rss) <= 2
        assert "sum of all mappings" in get(port, "/debug/memory?format=text")[1]
        for path, status in (("/debug/memory?top=-1", 400), ("/debug/memory?top=0", 400), ("/debug/memory?top=1x", 400),
                             ("/debug/memory?top=1001", 400), ("/debug/memory?tops=3", 400), ("/debug/memory?top=3&pid=1", 400), ("/debug/memory?top=", 400), ("/debug/memory?format=xml", 400),
                             ("/debug/memory?token=0123456789abcdef", 400), ("/debug/memoryX", 404)):
            assert get(port, path)[0].status == status, path
        for headers in ({"Host": "evil.example"}, {"Host": "evil.example:80"}, {"Origin": "http://evil.example"},
                        {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": ""}, {"Origin": "http://10.0.0.1"},
                        {"Origin": "http://[fe80::1]:80"}, {"Origin": "http://127.0.0.1.evil.example"},
                        {"Origin": "http://[::1].evil.example"}, {"Origin": "localhost"}, {"Origin": "http://" + "a" * 300},
                        {"Origin": ""}, {"Host": "a" * 300}, {"Sec-Fetch-Site": "x" * 300}):
            assert get(port, "/debug/memory", **headers)[0].status == 403, headers
        for host in ("localhost", "localhost:1", "127.0.0.1", "[::1]:5", "10.0.0.1:80"):
            assert get(port, "/debug/memory", Host=host)[0].status == 200, host
        for host, origin in (("localhost", "http://localhost:3000"), ("localhost", "https://127.0.0.9"), ("[::1]:5", "http://[::1]"),
                             ("10.0.0.1:80", "http://10.0.0.1:80")):
            assert get(port, "/debug/memory", Host=host, Origin=origin)[0].status == 200, origin
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"POST /debug/memory HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 405 " in raw.recv(100)
        with socket.create_connection(("127.0.0.1", port)) as raw:  # old clients name no host
            raw.sendall(b"GET /debug/memory HTTP/1.0\r\n\r\n")
            assert b" 200 " in raw.recv(100)
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"GET /debug/memory HTTP/1.1\r\n\r\n")
            assert b" 403 " in raw.recv(100)
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"OPTIONS /debug/memory HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost:3000\r\n\r\n")
            told = raw.recv(1000)
            assert b" 204 " in told and b"Access-Control-Allow-Origin: http://localhost:3000\r\n" in told, told
        assert "/metrics" in get(port, "/")[1]
        with socket.create_connection(("127.0.0.1", port)) as raw:
            raw.sendall(b"GET /" + b"a" * 5000)
            assert b" 431 " in raw.recv(100)


def test_who_has_an_answer_already_gets_no_second_copy(prog):
    port = free_port()
    with embedded(prog, "embedded", f"127.0.0.1:{port}"):
        answer, _ = get(port, "/debug/memory?top=3")
        tag = answer.getheader("ETag")
        # it stays the same reading for ten seconds, and this takes as long as it takes
        again, body = get(port, "/debug/memory?top=3", **{"If-None-Match": tag})
        assert (again.status, body) == (304, "") if again.getheader("ETag") == tag else again.status == 200
        assert get(port, "/debug/memory?top=4", **{"If-None-Match": tag})[0].status == 200


def test_a_token_opens_any_address_and_prometheus_is_served(prog):
    port, token = free_port(), "0123456789abcdefXYZ"
    with embedded(prog, "embedded", f"0.0.0.0:{port}", token) as child:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": token}, {"Authorization": f"Bearer {token}x"}):
            assert get(port, "/metrics", **headers)[0].status == 401, headers
        assert get(port, "/metrics?token=0123456789abcdef")[0].status == 401
        assert get(port, f"/debug/memory?token={token}&top=2")[0].status == 200
        answer, body = get(port, "/metrics", Authorization=f"Bearer {token}")
        assert answer.status == 200 and "version=0.0.4" in answer.getheader("Content-Type")
        rows = dict(line.rsplit(" ", 1) for line in body.splitlines() if line[0] != "#")
        rss = int(rows["process_resident_memory_bytes"])
        assert rss == sum(int(v) for k, v in rows.items() if k.startswith("byteledger_resident_bytes{")), body
        assert int(rows['byteledger_resident_bytes{class="named",label="cache-*"}']) == 6 << 20, body
        assert get(port, "/metrics", Authorization=f"Bearer {token}", Host="evil.example")[0].status == 403
        assert child.poll() is None


@pytest.mark.large
def test_a_recording_of_the_program_is_had_from_itself(byteledger, prog, tmp_path):
    """/debug/pprof of libbyteledger is the recorder's, head and all; without one it says how to have one."""
    port, token = free_port(), "0123456789abcdefXYZ"
    with embedded(prog, "embedded", f"127.0.0.1:{port}"):
        answer, body = get(port, "/debug/pprof/heap")
        assert answer.status == 404 and "byteledger run --serve" in body, body
    child = subprocess.Popen([byteledger, "run", "-q", "--serve", "127.0.0.1:0", "-o", tmp_path / "b.blt", "--", prog("embedded"),
                              f"0.0.0.0:{port}", token], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        while b"ready" not in child.stdout.readline():
            pass
        assert get(port, "/debug/pprof/heap")[0].status == 401

        def profile(which):
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            client.request("GET", f"/debug/pprof/{which}", headers={"Authorization": f"Bearer {token}"})
            answer = client.getresponse()
            body = answer.read()
            assert answer.status == 200 and answer.getheader("Content-Type") == "application/octet-stream", body
            return gzip.decompress(body)
        # its table of strings names what is counted, and whose code asked once that stands in the recording
        for which in ("heap", "allocs"):
            wait_for(lambda w=which: b"libbyteledger.so" in profile(w), "its stacks")
            assert b"inuse_space" in profile(which) and b"alloc_objects" in profile(which)
    finally:
        child.communicate()


def test_a_go_program_that_embeds_it_sees_its_heap_and_its_stacks(installed, tmp_path):
    """By cgo, with and without the names that Go gives its mappings: most kernels keep none."""
    build = os.path.abspath(os.environ.get("BYTELEDGER_BUILD", "build"))
    env = {**os.environ, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CGO_ENABLED": "1",
           "CGO_CFLAGS": f"-I{os.path.join(ROOT, 'include')}", "CGO_LDFLAGS": f"-L{build} -lbyteledger -Wl,-rpath,{build}"}
    done = subprocess.run([installed("go"), "build", "-o", str(tmp_path / "goembed"), os.path.join(ROOT, "tests/prog/goembed.go")],
                          env=env, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    port = free_port()
    with subprocess.Popen([str(tmp_path / "goembed"), f"127.0.0.1:{port}", "64"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        own = {k: int(v) for k, v in (word.split("=") for word in child.stdout.readline().split()[1:])}
        known = get(port, "/debug/memory")[1].splitlines()
        heap, stack = (int(next(line for line in known if line.startswith(f"  {word}:")).split()[1]) for word in ("Heap", "Stack"))
        assert own["HeapAlloc"] >> 20 <= heap <= (own["HeapInuse"] >> 20) + 24, (own, known)
        # of a stack that was never gone down whole the rest is not resident
        assert 5 <= stack <= (own["StackInuse"] >> 20) + 2, (own, known)
        assert any(line.startswith("  Program Binary") for line in known)
        text = get(port, "/debug/memory?format=text")[1]
        assert re.search(r"% +[█▉▊▋▌▍▎▏]* +runtime\n", text) and re.search(r"% +Go heap +\d+\n", text) and re.search(r"% +Go stacks +\d+\n", text), text
        rows = dict(line.rsplit(" ", 1) for line in get(port, "/metrics")[1].splitlines() if line[0] != "#")
        assert int(rows['byteledger_resident_bytes{class="runtime",label="Go heap"}']) >= own["HeapAlloc"], rows
        assert 5 << 20 <= int(rows['byteledger_resident_bytes{class="runtime",label="Go stacks"}']) <= own["StackInuse"] + (2 << 20), rows
        child.stdin.close()


def test_pkg_config_knows_the_library(tmp_path):
    found = glob.glob(os.path.join(os.environ.get("BYTELEDGER_BUILD", "build"), "meson-private", "byteledger.pc"))
    assert found, "byteledger.pc"
    with open(found[0], encoding="ascii") as file:
        text = file.read()
    assert "-lbyteledger" in text and "Name: byteledger" in text and "Requires:" not in text


def test_two_hundred_slow_clients_keep_nobody_out(prog):
    port = free_port()
    with embedded(prog, "embedded", f":{port}") as child:
        get(port, "/debug/memory")
        before = int(open(f"/proc/{child.pid}/statm").read().split()[1])
        slow = []
        try:
            for _ in range(200):
                s = socket.create_connection(("127.0.0.1", port), 30)
                s.sendall(b"GET /debug/memory HTTP/1.1\r\nHo")
                slow.append(s)
            for _ in range(5):
                assert get(port, "/debug/memory")[0].status == 200
            assert (int(open(f"/proc/{child.pid}/statm").read().split()[1]) - before) * 4096 < 1 << 20
            assert len(os.listdir(f"/proc/{child.pid}/fd")) < 40
        finally:
            for s in slow:
                s.close()


@pytest.mark.parametrize("limit", [3, 18])  # poll() refuses; accept() refuses
def test_a_program_out_of_descriptors_does_not_pay_for_those_who_wait(prog, limit):
    port = free_port()
    with embedded(prog, "embedded", f"127.0.0.1:{port}") as child, contextlib.ExitStack() as stack:
        get(port, "/debug/memory")
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (limit, 100))
        waiting = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 30)) for _ in range(20)]
        time.sleep(0.5)
        before = cpu_ticks(child.pid)
        time.sleep(1)
        assert cpu_ticks(child.pid) - before < os.sysconf("SC_CLK_TCK") / 5
        resource.prlimit(child.pid, resource.RLIMIT_NOFILE, (100, 100))
        waiting[-1].sendall(b"GET /debug/memory HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in waiting[-1].recv(100)


@pytest.mark.parametrize("address", ["0.0.0.0:1234", "192.168.1.1:80", "[::]:80", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:70000",
                                     "localhost:x", "", "example.com:80"])
def test_refuses_addresses_that_are_wrong_or_not_loopback(prog, address):
    done = subprocess.run([prog("embedded"), address], stdin=subprocess.DEVNULL, capture_output=True)
    assert done.returncode == 1 and b"cannot serve" in done.stderr


def test_every_promise_of_the_header_holds(prog):
    """tests/prog/embed_rules.c: what is refused, renaming, taking back, forks, signals, descriptors and errno."""
    done = subprocess.run([prog("embed_rules")], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_hostile_name_tables_cost_nothing(byteledger, prog):
    """A table that lies: overlapping, wrapping, unterminated, counts beyond the mapping, always changing."""
    for kind in ("count", "odd", "wrap", "overlap", "text", "huge", "magic", "spin"):
        child = subprocess.Popen([prog("embed_liar"), kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            assert child.stdout.readline() == b"ready\n"
            began = time.process_time()
            seen = outside(byteledger, child.pid)
            assert time.process_time() - began < 10
            assert sum(r["rss_bytes"] for r in seen["regions"]) == seen["rss_bytes"]
            assert sum(r["end"] - r["start"] for r in seen["regions"]) == seen["virtual_bytes"]
            page = subprocess.run([byteledger, "regions", "-p", str(child.pid)], capture_output=True, check=True).stdout
            assert b"\x1b" not in page and b"\x07" not in page
            if kind == "text":
                assert b"\\x1b" in page, page
        finally:
            child.kill()
            child.communicate()
