# SPDX-License-Identifier: Apache-2.0
"""Where the page is served beside recordings: on the ports of nodes and of watched processes."""
import json

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
