# SPDX-License-Identifier: Apache-2.0
"""Where the page is served beside recordings: on the ports of nodes and of watched processes."""
import http.client
import json
import os
import signal
import subprocess
import threading
import time
from urllib.parse import urlsplit

import pytest

from netapi import Recorder, config_of, free_port
from test_regions_heap import Program
from test_regions_serve import Watch, fetch
from test_serve import Server


def page_is_at(base, has):
    status, headers, text = fetch(base + "/")
    assert status in (200, 406), text  # the page is there with gzip only, which urllib does not take
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    status, _, text = fetch(base + "/api/v1/sources")
    assert status == 200
    sources = json.loads(text)
    assert [s["has"] for s in sources] == [has]
    assert sources[0]["ended"] is False and sources[0]["error"] is None
    status, _, text = fetch(base + "/api/v1/sources?x=1")
    assert status == 400 and "no parameter" in text


def test_the_port_of_a_node_shows_its_messages_connections_and_logs(byteledger, tmp_path):
    port = free_port()
    ports = {"v2": free_port(), "v3": port}
    recorder = Recorder(byteledger, tmp_path, config_of(tmp_path / "db", ports, log=f"{{ port = {free_port()} }}"), ports)
    try:
        page_is_at(f"http://127.0.0.1:{port}", ["messages", "connections", "logs"])
    finally:
        assert recorder.stop() == 0


def test_regions_serve_shows_the_process(byteledger, prog):
    with Program(prog("leaker"), "steady", "64", "20") as target, Watch(byteledger, target.pid, "--serve", "127.0.0.1:0") as watch:
        page_is_at(watch.url(), ["regions", "rss", "events", "explain"])
        source = json.loads(fetch(watch.url() + "/api/v1/sources")[2])[0]
        assert source["id"] == 4096 and source["pid"] == target.pid and source["live"]
        sheet = json.loads(fetch(watch.url() + "/api/v1/explain")[2])
        assert sheet["source"] == 4096 and sheet["pid"] == target.pid and sheet["rss_bytes"] > 0
        assert fetch(watch.url() + "/api/v1/tree?src=4096")[0] == 404 and fetch(watch.url() + "/api/v1/explain?at=1s")[0] == 400
        status, _, text = fetch(watch.url() + "/debug/memory?format=json&top=500")
        assert status == 200 and json.loads(text)["pid"] == target.pid


def starve(server, until):
    """A machine with much else to do: the server gets a seventh of the time."""
    while not until.wait(0.1):
        server.send_signal(signal.SIGSTOP)
        time.sleep(0.6)
        server.send_signal(signal.SIGCONT)


@pytest.mark.large
@pytest.mark.parametrize("starves", [False, True])
def test_a_silent_stream_of_events_stays_open(byteledger, tmp_path, starves):
    """Nothing happens to a finished recording: comments keep the stream, the server's idle limit does not end it, however busy the machine."""
    file = tmp_path / "true.blt"
    subprocess.run([byteledger, "run", "-q", "-o", str(file), "--", "/usr/bin/perl", "-e", "1"], check=True, timeout=60)
    with subprocess.Popen([byteledger, "serve", "-l", "127.0.0.1:0", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as server:
        done = threading.Event()
        other = threading.Thread(target=starve, args=(server, done))
        try:
            at = urlsplit(server.stdout.readline().strip())
            connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
            connection.request("GET", "/api/v1/events")
            answer = connection.getresponse()
            if starves:
                other.start()
            seen, end = b"", time.monotonic() + 25
            while time.monotonic() < end and seen.count(b": still here") < 2:
                line = answer.fp.readline()
                assert line, f"the stream ended after {seen!r}"
                seen += line
            assert b"event: hello" in seen and seen.count(b": still here") == 2, seen
        finally:
            done.set()
            if other.is_alive():
                other.join()
            server.terminate()


def test_a_store_stands_beside_recordings(byteledger, tmp_path):
    capture = tmp_path / "one.jsonl"
    capture.write_text(json.dumps({"n": 0, "from": "initiator", "hex": "000a" + "00" * 10, "time_ns": 1_700_000_000_000_000_000}) + "\n")
    subprocess.run([byteledger, "net", "replay", "--store", str(tmp_path / "node"), str(capture)], check=True, capture_output=True, timeout=60)
    subprocess.run([byteledger, "run", "-q", "-o", str(tmp_path / "ls.blt"), "--", "/bin/ls"], check=True, capture_output=True, timeout=60)
    with Server(byteledger, str(tmp_path / "ls.blt"), str(tmp_path / "node")) as server:
        recording, node = server.get("sources")
        assert recording["id"] == 0 and node["id"] == 4096 and node["kind"] == "node" and node["name"] == "node"
        assert node["has"] == ["messages", "connections", "logs"]
        assert server.get("summary")["process"]["exe"] == "/usr/bin/ls"
        for path in ("/v3/messages", "/v3/logs?limit=5", "/v3/connections", "/v2/p2p?node_name=node&limit=3", "/v2/log?node_name=node"):
            status, _, body = server.ask(path)
            assert status == 200 and isinstance(json.loads(body), list), path
        assert server.ask("/v3/messages?limit=x")[0] == 400 and server.ask("/v2/p2p?node_name=other")[0] in (400, 404)
        assert server.ask("/v3/messages?from=1700000000000000000&to=1700000001000000000&limit=10")[0] == 200
    with Server(byteledger, str(tmp_path / "node")) as server:
        assert [s["kind"] for s in server.get("sources")] == ["node"] and server.ask("/v3/logs")[0] == 200


def test_a_process_that_is_being_recorded_shows_its_recording(byteledger, tmp_path):
    run = subprocess.Popen([byteledger, "run", "-q", "-o", str(tmp_path / "live.blt"), "--", "/usr/bin/python3", "-c",
                            "import time\nx = [str(i) * 10 for i in range(100000)]\nprint('up', flush=True)\ntime.sleep(60)"],
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    pid = None
    try:
        assert run.stdout.readline() == "up\n"
        with open(f"/proc/{run.pid}/task/{run.pid}/children", encoding="ascii") as children:
            mine = [int(p) for p in children.read().split()]
        pid = next(p for p in mine if "python3" in os.readlink(f"/proc/{p}/exe"))
        with Watch(byteledger, pid, "--serve", "127.0.0.1:0") as watch:
            sources = json.loads(fetch(watch.url() + "/api/v1/sources")[2])
            assert [s["id"] for s in sources] == [0, 4096] and sources[0]["path"] == str(tmp_path / "live.blt")
            until = time.monotonic() + 20  # what the recorder has not written yet is not there
            while not (total := json.loads(fetch(watch.url() + "/api/v1/tree?nodes=5")[2])["total"]) and time.monotonic() < until:
                time.sleep(0.3)
            assert total > 0 and json.loads(fetch(watch.url() + "/api/v1/summary")[2])["process"]["pid"] == pid
            assert json.loads(fetch(watch.url() + "/api/v1/explain?src=4096")[2])["recorded"] is True
    finally:
        if pid:
            os.kill(pid, 9)
        run.wait(timeout=30)
