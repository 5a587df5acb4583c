#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The known integration tests of network recorders, against any server that speaks v2. Prints TAP.

usage: compat.py --url http://127.0.0.1:17732 [--node 9732] [--syslog 127.0.0.1:10000]

Messages must be there already (a node talked to its peers). The log tests want the 10,000 lines that --syslog sends first,
into an empty log; without it they are skipped.
"""
import argparse
import datetime
import itertools
import json
import socket
import sys
import time
import urllib.parse
import urllib.request

START = 1626264000  # seconds, of the first line
LINES = 10000
LEVELS = {1: "WARN", 4: "WARN", 5: "WARN", 8: "WARN", 7: "ERROR", 10: "ERROR"}  # by line number mod 19
WORDS = ["peer", "block", "mempool", "reorg", "head", "chain", "validated", "timeout"]


class Server:
    def __init__(self, url, node):
        self.url, self.node = url.rstrip("/"), node

    def get(self, path, **params):
        if self.node is not None:
            params["node_name"] = self.node
        with urllib.request.urlopen(f"{self.url}{path}?{urllib.parse.urlencode(params)}", timeout=60) as answer:
            assert answer.status == 200, answer.status
            return json.load(answer)

    def p2p(self, **params):
        return self.get("/v2/p2p", **params)

    def log(self, **params):
        return self.get("/v2/log", **params)


def level_of(number):
    return LEVELS.get(number % 19, "INFO")


def text_of(number):
    return f"line {number} {WORDS[number % 8]} {WORDS[number // 8 % 8]}"


def send_logs(address, numbers, server=None):
    """The lines, one second apart by their headers; waits for the server now and then, UDP has no other back-pressure."""
    host, port = address.rsplit(":", 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for count, number in enumerate(numbers, 1):
            when = datetime.datetime.fromtimestamp(START + number, datetime.timezone.utc)
            stamp = when.strftime("%Y-%m-%dT%H:%M:%S.%f+00:00")
            s.sendto(f"<27>1 {stamp} host c0ffee 665 c0ffee - {when.strftime('%b %d %H:%M:%S')}.000 {level_of(number)} "
                     f"{text_of(number)}".encode(), (host, int(port)))
            if server and count % 500 == 0:
                wait_for_log(server, number)


def wait_for_log(server, number, seconds=60):
    until = time.monotonic() + seconds
    while True:
        rows = server.log(limit=1)
        if rows and rows[0]["id"] >= number:
            return
        assert time.monotonic() < until, f"line {number} was not stored in {seconds} s: {rows}"
        time.sleep(0.02)


def p2p_limit(server):
    for limit in range(8):
        rows = server.p2p(limit=limit)
        assert len(rows) == limit, (limit, len(rows))


def p2p_cursor(server):
    for cursor in range(8):
        rows = server.p2p(cursor=cursor)
        assert rows[0]["id"] == cursor, (cursor, rows[0])
        assert [r["id"] for r in rows] == list(range(cursor, -1, -1))


def p2p_types_filter(server):
    types = ["connection_message", "metadata", "advertise", "get_block_headers", "block_header"]
    alone = {t: server.p2p(cursor=999, limit=1000, types=t) for t in types}
    for a, b in itertools.combinations(types, 2):
        both = server.p2p(cursor=999, limit=1000, types=f"{a},{b}")
        want = sorted(alone[a] + alone[b], key=lambda row: -row["id"])
        assert both == want, (a, b)
    assert any(alone.values())


def log_level(server):
    for size in (1, 2, 3):
        for levels in itertools.combinations(("info", "warn", "error"), size):
            for options in ({"direction": "forward", "cursor": 0}, {"direction": "backward"}):
                rows = server.log(log_level=",".join(levels), **options)
                assert rows, levels
                want = {{"info": "Info", "warn": "Warning", "error": "Error"}[level] for level in levels}
                assert {r["level"] for r in rows} <= want, (levels, options)


def log_pagination(server, count=LINES):
    far = server.log(cursor=10 ** 9, limit=1)
    assert far[0]["id"] == count - 1, far
    for cursor in range(999, count, 1000):
        rows = server.log(cursor=cursor, limit=1000)
        assert [r["id"] for r in rows] == list(range(cursor, cursor - 1000, -1))
        assert all(r["message"] == text_of(r["id"]) for r in rows)


def log_timestamp(server):
    def ask(seconds, direction, want):
        moment = (START + seconds) * 1000
        rows = server.log(timestamp=moment, direction=direction, limit=500)
        assert len(rows) == want, (seconds, direction, len(rows))
        times = [r["timestamp"] for r in rows]
        assert times == sorted(times, reverse=direction == "backward")
        assert all((t <= moment * 10 ** 6) == (direction == "backward") for t in times)
    ask(321, "backward", 322)
    ask(321, "forward", 500)
    ask(9876, "forward", 123)
    ask(9876, "backward", 500)


def log_timestamp_and_level(server):
    for direction in ("forward", "backward"):
        rows = server.log(timestamp=(START + 5000) * 1000, log_level="warn", direction=direction)
        assert rows and {r["level"] for r in rows} == {"Warning"}, direction
        assert all((r["timestamp"] <= (START + 5000) * 10 ** 9) == (direction == "backward") for r in rows)


def log_full_text(server):
    def words(row):
        return set(row["message"].split())
    cases = [("peer reorg", 500, lambda w: w & {"peer", "reorg"}),
             ("+peer +reorg", 16, lambda w: {"peer", "reorg"} <= w),
             ("peer block -reorg", 500, lambda w: w & {"peer", "block"} and "reorg" not in w),
             ("+head -chain", 4, lambda w: "head" in w and "chain" not in w)]
    for query, limit, fits in cases:
        rows = server.log(query=query, query_no_quotes="true", limit=limit)
        assert 0 < len(rows) <= limit, (query, len(rows))
        assert all(fits(words(r)) for r in rows), query
        times = [r["timestamp"] for r in rows]
        assert times == sorted(times, reverse=True)
    rows = server.log(query="head chain", limit=500)
    assert rows and all("head chain" in r["message"] for r in rows)
    assert server.log(query="chain reorg", limit=500) == [] or \
        all("chain reorg" in r["message"] for r in server.log(query="chain reorg", limit=500))


P2P = [p2p_limit, p2p_cursor, p2p_types_filter]
LOG = [log_level, log_pagination, log_timestamp, log_timestamp_and_level, log_full_text]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--url", required=True, help="address of the v2 API, e.g. http://127.0.0.1:17732")
    parser.add_argument("--node", help="node_name")
    parser.add_argument("--syslog", metavar="HOST:PORT", help="where the server receives logs over UDP")
    options = parser.parse_args()
    server = Server(options.url, options.node)
    print(f"1..{len(P2P) + len(LOG)}")
    if options.syslog:
        send_logs(options.syslog, range(LINES), server)
        wait_for_log(server, LINES - 1)
    failed = 0
    for number, check in enumerate(P2P + LOG, 1):
        if check in LOG and not options.syslog:
            print(f"ok {number} - {check.__name__} # SKIP no --syslog")
            continue
        try:
            check(server)
            print(f"ok {number} - {check.__name__}", flush=True)
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"not ok {number} - {check.__name__}\n# {type(error).__name__}: {str(error)[:500]}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
