# SPDX-License-Identifier: Apache-2.0
"""Where the page is served beside recordings: on the ports of nodes and of watched processes."""
import http.client
import json
import subprocess
import time
from urllib.parse import urlsplit

import pytest

from netapi import Recorder, config_of, free_port
from test_regions_heap import Program
from test_regions_serve import Watch, fetch


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
        page_is_at(watch.url(), ["regions"])
        status, _, text = fetch(watch.url() + "/debug/memory?format=json&top=500")
        assert status == 200 and json.loads(text)["pid"] == target.pid


@pytest.mark.large
def test_a_silent_stream_of_events_stays_open(byteledger, tmp_path):
    """Nothing happens to a finished recording: comments keep the stream, the server's idle limit does not end it."""
    file = tmp_path / "true.blt"
    subprocess.run([byteledger, "run", "-q", "-o", str(file), "--", "/usr/bin/perl", "-e", "1"], check=True, timeout=60)
    with subprocess.Popen([byteledger, "serve", "-l", "127.0.0.1:0", str(file)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True) as server:
        try:
            at = urlsplit(server.stdout.readline().strip())
            connection = http.client.HTTPConnection(at.hostname, at.port, timeout=30)
            connection.request("GET", "/api/v1/events")
            answer = connection.getresponse()
            seen, end = b"", time.monotonic() + 25
            while time.monotonic() < end and seen.count(b": still here") < 2:
                line = answer.fp.readline()
                assert line, f"the stream ended after {seen!r}"
                seen += line
            assert b"event: hello" in seen and seen.count(b": still here") == 2, seen
        finally:
            server.terminate()
