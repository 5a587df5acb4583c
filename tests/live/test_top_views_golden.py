# SPDX-License-Identifier: Apache-2.0
"""The screens of `top` beside the heap's, cell by cell, in tmux: answers that real commands gave (tests/golden/top-views/*.json, digits and all) come
from a server of this test, so that each grid is the same on every machine. BYTELEDGER_BLESS=1 renews the grids (look at the difference)."""
import http.server
import json
import threading
import urllib.parse
from pathlib import Path

import pytest

from conftest import ROOT
from test_top import Terminal
from test_top_golden import BLESS, read, settled, wait_for

FOLDER = Path(ROOT) / "tests" / "golden" / "top-views"
# name of the screen, keys that lead to it from the one before, what it has that the other has not
SCREENS = {
    "recording": [
        ("maps", [], "MAPPED BY"), ("balance", ["2"], "LINE OF THE BALANCE"), ("its stacks", ["Right"], "▾ heap-live"),
        ("tree", ["3"], "by function"), ("table", ["4"], "of 8.00 MiB"), ("growth", ["5"], "VERDICT"), ("growth by name", ["s"] * 3, "by name"),
        ("pages", ["7"], "WHO TOUCHED"), ("found", ["/", *"leak", "Enter"], '"leak"'), ("none such", ["8"], "sample -p PID --serve"), ("help", ["2", "?"], "hold what is shown")],
    "process": [
        ("classes", [], "CLASS OF MEMORY"), ("its labels", ["Right"], "▾"), ("mappings", ["6"], "MAPPING"), ("threads", ["v"], "STACK RSS"), ("allocators", ["v"], "ALLOCATOR"),
        ("balance now", ["2"], "now"), ("growth", ["5"], "KIND OF MEMORY"), ("sampler", ["8"], "WHO ASKED"), ("its frames", ["Right"], "▾"),
        ("messages", ["9"], "MESSAGE"), ("connections", ["9"], "PEER"), ("logs", ["9"], "LEVEL")]}
SIZES = [(60, "C.UTF-8"), (80, "C.UTF-8"), (80, "C"), (120, "C.UTF-8"), (200, "C.UTF-8")]


class Answers(http.server.BaseHTTPRequestHandler):
    """Whatever is known of a path; what it is asked with was looked at by other tests."""

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        known = self.server.answers
        found = known.get(url.path + "?short") if "short=" in url.query else known.get(url.path)
        body = json.dumps({"error": "no such path"} if found is None else found).encode()
        self.send_response(404 if found is None else 200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module", params=list(SCREENS))
def answering(request):
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.answers = json.loads((FOLDER / f"{request.param}.json").read_text(encoding="utf-8"))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield request.param, f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("columns, locale", SIZES)
def test_the_screens_are_the_golden_grids(byteledger, installed, answering, tmp_path, columns, locale):
    kind, url = answering
    path = FOLDER / f"{kind}-{columns}-{'utf8' if locale == 'C.UTF-8' else 'ascii'}"
    golden = {} if BLESS else read(path)
    # one answer to each question: nothing changes afterwards
    top = Terminal(installed("tmux"), tmp_path, ["env", "TZ=UTC", byteledger, "top", "-d", "1h", url], columns=columns, rows=24, locale=locale)
    try:
        before = None
        for name, keys, _ in SCREENS[kind]:
            if keys:
                top.keys(*keys)
            if BLESS:
                golden[name] = before = settled(top, before)
            else:
                wait_for(top, name, golden[name])
    finally:
        top.close()
    if BLESS:
        path.write_text("".join(f"== {name}\n" + "".join(f"|{line}\n" for line in grid) for name, grid in golden.items()), encoding="utf-8")


def test_the_grids_are_of_the_screens_that_they_name_and_as_wide_as_they_say():
    for path in FOLDER.glob("*-*"):
        kind, columns, coding = path.name.split("-")
        screens = read(path)
        assert list(screens) == [name for name, _, _ in SCREENS[kind]], path
        for name, _, has in SCREENS[kind]:
            text = "\n".join(screens[name])
            assert len(screens[name]) == 25 and max(map(len, screens[name])) <= int(columns), (path, name)
            if has.isascii() and not (has == "sample -p PID --serve" and int(columns) < 80):
                assert has in text, (path, name)
            assert "\x1b" not in text and "\u202e" not in text, "names from outside are text"
        if coding == "ascii":
            assert path.read_text(encoding="utf-8").isascii(), path


def test_the_grids_say_what_the_answers_say():
    """The sheet adds up to RSS as the answer does: largest first, each figure with three digits."""
    for kind in SCREENS:
        explain = json.loads((FOLDER / f"{kind}.json").read_text(encoding="utf-8"))["/api/v1/explain"]
        assert sum(line["bytes"] for line in explain["lines"]) + explain["unexplained_bytes"] == explain["rss_bytes"]
        largest = sorted([line["bytes"] for line in explain["lines"]] + [explain["unexplained_bytes"]], reverse=True)
        grid = read(FOLDER / f"{kind}-200-utf8")["balance" if kind == "recording" else "balance now"]
        for line, value in zip(grid[3:], largest[:10]):
            shown, unit = line.split()[:2]
            assert abs(float(shown) * {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}[unit] - value) <= value / 190, (line, value)
