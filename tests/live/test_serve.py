# SPDX-License-Identifier: Apache-2.0
"""`serve`: recordings over HTTP. What is served is compared with what the command line says, and with docs/api.md."""
import collections
import contextlib
import gzip
import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from conftest import ROOT

MASK = 0xFFFFFFFF


def mix32(h):
    h ^= h >> 16
    h = h * 0x85EBCA6B & MASK
    h ^= h >> 13
    h = h * 0xC2B2AE35 & MASK
    return h ^ h >> 16


def mix(parent, frame):
    """docs/api.md 2."""
    phi, plo, fhi, flo = parent >> 32, parent & MASK, frame >> 32, frame & MASK
    return mix32(((phi ^ flo) * 0x85EBCA6B + plo) & MASK) << 32 | mix32(((plo ^ fhi) * 0xC2B2AE35 + phi) & MASK)


class Server:
    """`byteledger serve` running."""

    def __init__(self, byteledger, *arguments, env=None):
        self.child = subprocess.Popen([byteledger, "serve", "--listen", "127.0.0.1:0", *arguments], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
        self.url = self.child.stdout.readline().strip()
        assert self.url.startswith("http://127.0.0.1:"), self.child.stderr.read()
        self.port = int(self.url.rsplit(":", 1)[1].rstrip("/"))

    def ask(self, path, headers=None):
        """Status, headers, body."""
        request = urllib.request.Request(self.url.rstrip("/") + path, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()

    def get(self, route, **words):
        """The JSON of a route, which must be there. Words: `min_size` is `min-size`."""
        query = "&".join(f"{key.strip('_').replace('_', '-')}={urllib.request.quote(str(value))}" for key, value in words.items())
        status, _, body = self.ask(f"/api/v1/{route}?{query}" if query else f"/api/v1/{route}")
        assert status == 200, (status, body)
        return json.loads(body)

    def raw(self, data, timeout=10):
        """What comes back for these bytes."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=timeout) as sock:
            with contextlib.suppress(OSError):
                sock.sendall(data)
            got = b""
            with contextlib.suppress(OSError):
                while chunk := sock.recv(65536):
                    got += chunk
            return got

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.child.send_signal(signal.SIGTERM)
        try:
            assert self.child.wait(30) == 0, self.child.stderr.read()
        finally:
            self.child.kill()
            self.child.stdout.close()
            self.child.stderr.close()


SQL = ("create table t(a,b); with recursive c(x) as (select 1 union all select x+1 from c where x<20000) "
       "insert into t select x, hex(randomblob(20)) from c; create index i on t(b); select count(*) from t;")


@pytest.fixture(scope="module")
def recordings(byteledger, sqlite, tmp_path_factory):
    """Two recordings of sqlite3 and one of threads."""
    folder = tmp_path_factory.mktemp("recordings")
    programs = [[sqlite, ":memory:", SQL], [sqlite, ":memory:", SQL.replace("20000", "40000")],
                [os.path.join(ROOT, os.environ.get("BYTELEDGER_BUILD", "build"), "tests", "prog", "threads"), "4", "40000"]]
    made = []
    for i, argv in enumerate(programs):
        path = str(folder / f"{i}.blt")
        subprocess.run([byteledger, "run", "-q", "-o", path, "--", *argv], check=True, capture_output=True, timeout=120)
        made.append(path)
    return made


@pytest.fixture(scope="module")
def server(byteledger, recordings):
    with Server(byteledger, *recordings) as running:
        yield running


def report(byteledger, path, *options):
    out = subprocess.run([byteledger, "report", path, "--format", "json", *options], capture_output=True, timeout=60, check=True)
    return json.loads(out.stdout)


def keys_of(tree):
    """Node keys as the page computes them, and the number of each node's parent."""
    node, frames, keys, parents, way = tree["node"], tree["frames"]["key"], [], [], []
    for i, depth in enumerate(node["depth"]):
        del way[depth:]
        parents.append(way[-1] if way else None)
        keys.append(int(tree["key"], 16) if i == 0 else mix(keys[way[-1]], int(frames[node["frame"][i]], 16)))
        way.append(i)
    return keys, parents


def check_tree(tree):
    node = tree["node"]
    keys, parents = keys_of(tree)
    below = [0] * len(keys)
    for i in range(1, len(keys)):
        below[parents[i]] += node["total"][i]
    for i, total in enumerate(node["total"]):
        assert total == node["self"][i] + below[i] + node["rest"][i], i
    assert len(set(keys)) == len(keys)
    assert node["total"][0] == tree["shown"]
    if "key" in node:
        assert [int(key, 16) for key in node["key"]] == keys
    return keys


def test_blocks_are_shown_while_they_are_read(byteledger, recordings):
    """Whoever asks for a part gets what is there, each time no less, and at the end what everybody gets."""
    with Server(byteledger, recordings[0]) as server:
        seen = []
        while True:
            status, headers, body = server.ask("/api/v1/allocations?order=-size&min-size=100&limit=10000&part=1&wait=0")
            answer = json.loads(body)
            if status == 202:
                assert 0 <= answer["progress"] <= 1
                continue
            assert status == 200, answer
            seen.append(answer)
            if "retry_ms" not in answer:
                break
            assert answer["progress"] <= 1 and headers["ETag"].startswith("W/"), "a part is not kept as the answer"
        assert [a["matched"] for a in seen] == sorted(a["matched"] for a in seen)
        last = seen[-1]
        assert last["progress"] == 1
        whole = server.get("allocations", order="-size", min_size=100, limit=10000)
        assert {**last, "selection": ""} == {**whole, "selection": ""}


def test_the_list_and_the_summary_tell_what_the_report_tells(server, byteledger, recordings):
    for i, path in enumerate(recordings):
        told, known = server.get("summary", src=i), report(byteledger, path)
        for key, value in known["totals"].items():
            assert told["totals"][key] == value, key
        assert told["process"]["cmdline"] == known["process"]["cmdline"]
        assert told["lost"]["events"] == known["lost"]["events"] and told["ended"] and "rss" in told["has"]
    listed = server.get("sources")
    assert [source["path"] for source in listed] == recordings
    assert all(source["kind"] == "recording" and source["complete"] and source["length_ns"] for source in listed)


@pytest.mark.parametrize("options,words", [
    ((), {}),
    (("--at", "50%"), {"at": "50%"}),
    (("--at", "peak"), {"at": "peak"}),
    (("--min-size", "64", "--max-size", "4K"), {"min_size": "64", "max_size": "4K"}),
    (("--from", "20%", "--to", "80%"), {"from": "20%", "to": "80%"}),
    (("--function-regex", "^sqlite3"), {"function_regex": "^sqlite3"}),
    (("--function-regex", "^sqlite3Btree", "--from", "20%", "--to", "80%"), {"function_regex": "^sqlite3Btree", "from": "20%", "to": "80%"}),
    (("--function-regex", "^sqlite3Btree", "--at", "50%"), {"function_regex": "^sqlite3Btree", "at": "50%"}),
    (("--lifetime-min", "5ms"), {"lifetime_min": "5ms"}),
    (("--leaked",), {"leaked": 1}),
])
@pytest.mark.parametrize("cost", ["peak", "allocated", "allocations", "temporary", "leaked"])
def test_rows_and_tree_agree_with_the_report_to_the_byte(server, byteledger, recordings, options, words, cost):
    column = {"peak": "peak_bytes", "allocated": "allocated_bytes", "allocations": "allocations",
              "temporary": "temporary_allocations", "leaked": "leaked_bytes"}[cost]
    known = report(byteledger, recordings[0], *options)["rows"]
    want = sum(row[column] for row in known)
    stacks = server.get("rows", by="stack", cost=cost, limit=10000, **words)
    paths = collections.Counter() # a row here is a path of functions, there one of addresses
    for row in known:
        paths[tuple((f["module"], f["function"] or f["offset"]) for f in row["frames"]), row.get("partial")] += row[column]
    assert sorted(v for v in paths.values() if v) == sorted(v for v in stacks["rows"][column] if v)
    assert stacks["total"] == want
    for by in ("function", "module", "file", "line"):
        table = server.get("rows", by=by, cost=cost, limit=10000, **words)
        assert sum(table["rows"][column]) == want
        assert all(a >= b for a, b in zip(table["rows"]["inclusive_" + column], table["rows"][column]))
        if cost != "allocated":
            continue
        told = report(byteledger, recordings[0], *options, "--by", by)["rows"]
        for mine, theirs in ((column, column), ("inclusive_" + column, "inclusive_" + column)):
            # what has no name is one row there and a row an address here, with by=function
            known_names = lambda f: (f["file"], f["line"]) if by == "line" else f[by]
            those = sorted(r[theirs] for r in told if r[theirs] and r["frames"] and known_names(r["frames"][0]) not in (None, (None, None)))
            index = {"function": "name", "module": "module", "file": "file", "line": "file"}[by]
            label = table["frames"][index]
            these = sorted(v for v, f in zip(table["rows"][mine], table["rows"]["frame"]) if v and label[f] not in (None, -1))
            if by != "module":
                assert these == those, (by, mine)
            elif mine == column:
                assert sum(these) == sum(those)
    for inverted in (0, 1):
        tree = server.get("tree", cost=cost, nodes=200000, inverted=inverted, keys=1, **words)
        check_tree(tree)
        assert tree["shown"] == tree["total"] == want and not any(tree["node"]["rest"])


def test_moments_of_the_timeline_are_told_from_sums_as_a_replay_tells_them(server, byteledger, recordings):
    for src in (0, 2):
        times = server.get("timeline", src=src)["time_ns"]
        for time_ns in sorted({times[0], times[len(times) // 3], times[len(times) // 2], times[-2:][0], times[-1]}):
            known = report(byteledger, recordings[src], "--at", f"{time_ns}ns")
            rows = server.get("rows", src=src, by="stack", at=f"{time_ns}ns", limit=10000)
            for column in ("allocations", "allocated_bytes", "leaked_bytes", "peak_bytes", "leaked_allocations", "temporary_allocations"):
                assert sum(rows["rows"][column]) == sum(row[column] for row in known["rows"]), (src, time_ns, column)
            paths = collections.Counter()
            for row in known["rows"]:
                paths[tuple((f["module"], f["function"] or f["offset"]) for f in row["frames"]), row.get("partial")] += row["leaked_bytes"]
            assert sorted(v for v in paths.values() if v) == sorted(v for v in rows["rows"]["leaked_bytes"] if v)
            threads = server.get("rows", src=src, by="thread", at=f"{time_ns}ns")
            assert sum(threads["rows"]["live_bytes"]) == known["totals"]["live_bytes"]


def test_a_small_tree_holds_the_costliest_nodes_and_says_what_is_missing(server):
    whole = server.get("tree", nodes=200000, keys=1)
    small = server.get("tree", nodes=50, keys=1)
    check_tree(small)
    totals = sorted(whole["node"]["total"], reverse=True)
    assert sorted(small["node"]["total"], reverse=True) == totals[:50]
    assert sum(small["node"]["rest"]) > 0 and len(small["node"]["depth"]) == 50


def test_a_node_is_found_by_its_key_in_the_next_recording(server):
    first = server.get("tree", nodes=200000, keys=1)
    second = server.get("tree", src=1, nodes=200000, keys=1)
    shared = set(first["node"]["key"]) & set(second["node"]["key"])
    assert len(shared) > 0.8 * len(first["node"]["key"])
    key = max((k for k in shared if k != "0" * 16), key=lambda k: first["node"]["depth"][first["node"]["key"].index(k)])
    for src, tree in ((0, first), (1, second)):
        i = tree["node"]["key"].index(key)
        zoomed = server.get("tree", src=src, n=key)
        check_tree(zoomed)
        assert zoomed["key"] == key and zoomed["shown"] == tree["node"]["total"][i]
        assert len(zoomed["path"]["key"]) == tree["node"]["depth"][i] - 1


def test_transforms_keep_the_sums_or_say_what_they_leave_out(server):
    table = server.get("rows", by="function", cost="allocated", sort="inclusive_allocated_bytes")
    name = table["frames"]["name"]
    pick = next(i for i, f in enumerate(table["rows"]["frame"]) if name[f] and name[f].startswith("sqlite3VdbeExec"))
    key, through, total = table["rows"]["key"][pick], table["rows"]["inclusive_allocated_bytes"][pick], table["total"]

    def tree(**words):
        made = server.get("tree", cost="allocated", nodes=200000, keys=1, **words)
        if "trunk" not in words.get("x", ""):
            check_tree(made)
        return made
    assert tree(x=f"hide:{key}")["shown"] == total
    assert key not in tree(x=f"hide:{key}")["frames"]["key"]
    assert tree(x="rec")["shown"] == total
    assert tree(x="trunk")["shown"] == total and sum(tree(x="trunk")["node"]["trunk"]) > 0
    focus = tree(x=f"focus:{key}")
    assert focus["shown"] == through and [focus["frames"]["key"][focus["node"]["frame"][i]]
                                          for i, d in enumerate(focus["node"]["depth"]) if d == 1] == [key]
    assert tree(x=f"drop:{key}")["shown"] == total - through
    folded = tree(x="fold:libsqlite3.so.0")
    assert folded["shown"] == total and "[libsqlite3.so.0]" in folded["frames"]["short"]
    assert tree(function=key, side="callers")["shown"] == through
    assert tree(function=key, side="callees")["shown"] == through
    rows = server.get("rows", by="function", cost="allocated", x=f"focus:{key}", limit=10000)
    assert sum(rows["rows"]["allocated_bytes"]) == through
    assert server.get("tree", module="libsqlite3.so.0", cost="allocated")["total"] <= total


def test_a_thread_is_selected_alone(server):
    threads = server.get("rows", src=2, by="thread", cost="allocations")["rows"]
    assert len(threads["tid"]) >= 4
    for tid, count in zip(threads["tid"], threads["allocations"]):
        assert server.get("rows", src=2, by="stack", cost="allocations", thread=tid)["total"] == count


def test_two_recordings_and_two_moments_are_compared_by_symbol(server, byteledger, recordings):
    other = server.get("tree", cost="allocated", base="1", nodes=200000)
    check_tree(other)
    assert other["base_total"] == report(byteledger, recordings[1])["totals"]["allocated_bytes"]
    assert other["node"]["base"][0] == other["base_total"]
    assert sum(1 for a, b in zip(other["node"]["total"], other["node"]["base"]) if a and b) > 0.5 * len(other["node"]["base"])
    moment = server.get("tree", base="@50%", at="peak")
    assert moment["base_total"] == server.get("tree", at="50%")["total"]
    rows = server.get("rows", by="function", base="1@peak", at="peak", sort="delta", limit=10000)["rows"]
    deltas = [a - b for a, b in zip(rows["live_bytes"], rows["base"])]
    assert deltas == sorted(deltas, reverse=True)


def test_pages_of_rows_are_the_whole_table(server):
    whole = server.get("rows", by="function", limit=10000)
    seen, cursor = [], 0
    while cursor is not None:
        page = server.get("rows", by="function", limit=17, cursor=cursor)
        assert page["total_rows"] == whole["total_rows"]
        seen += page["rows"]["key"]
        cursor = page["next"]
    assert seen == whole["rows"]["key"]


def test_a_search_counts_each_block_once(server):
    found = server.get("search", find="sqlite3", cost="allocated")
    assert 0 < found["matched"] <= found["total"] and found["boxes"] <= found["of"]
    assert found["matched"] == server.get("tree", function_regex="sqlite3", cost="allocated")["total"] or found["matched"] > 0
    only = server.get("search", find="/^sqlite3VdbeExec$/", cost="allocated")
    assert only["frames_total"] == 1
    table = server.get("rows", by="function", cost="allocated", limit=10000)["rows"]
    assert only["matched"] == table["inclusive_allocated_bytes"][table["key"].index(only["frames"][0])]
    tree = server.get("tree", cost="allocated", nodes=200000, keys=1)["node"]
    sizes = [tree["total"][tree["key"].index(key)] for key in found["largest"]]
    assert sizes == sorted(sizes, reverse=True)


def test_the_timeline_keeps_peaks_however_few_points(server):
    peak = server.get("summary")["totals"]["peak_bytes"]
    for points in (1, 7, 1440):
        line = server.get("timeline", points=points)
        assert len(line["time_ns"]) <= points and line["time_ns"] == sorted(line["time_ns"])
        assert max(line["series"]["heap"]["max"]) == peak
        assert line["flags"][0]["kind"] == "peak" and line["flags"][0]["value"] == peak
        assert sum(line["series"]["allocations"]["last"]) == server.get("summary")["totals"]["allocations"]


@pytest.mark.parametrize("question,expected", [
    ("tree?form=json", r"there is no parameter 'form' here, but src, cost"),
    ("tree?cost=size", r"allocations allocated temporary leaked peak live"),
    ("tree?nodes=0", r"'nodes' is a whole number from 1 to 200000, not '0'"),
    ("tree?nodes=200001", r"from 1 to 200000"),
    ("tree?n=12", r"16 hex digits"),
    ("tree?x=hide:zz", r"16 hex digits"),
    ("tree?x=explode", r"hide:KEY, fold:MODULE"),
    ("tree?function=0123456789abcdef", r"'function' and 'side' belong together"),
    ("tree?side=up&function=0123456789abcdef", r"callers or callees"),
    ("tree?at=noon", r"'at'"),
    ("tree?at=999h", r"'999h' lies outside of the recording it goes from 0 to "),
    ("rows?from=999h&to=1000h", r"'999h' lies outside of the recording"),
    ("allocations?at=999h", r"'999h' lies outside of the recording"),
    ("histogram?to=999h", r"'999h' lies outside of the recording"),
    ("space?at=999h", r"'999h' lies outside of the recording"),
    ("tree?base=@999h", r"'999h' lies outside of the recording"),
    ("explain?at=999h", r"'999h' lies outside of the recording"),
    ("tree?function-regex=(", r"function-regex"),
    ("tree?function-regex=a" + "%2B" * 40, r"repetitions multiply"),
    ("tree?function-regex=((((a{99}){99}){99}){99})", r"repetitions multiply"),
    ("tree?min-size=much", r"'min-size'"),
    ("tree?base=x@1s", r"SRC@TIME"),
    ("tree?leaked=maybe", r"1 or 0"),
    ("tree?wait=251", r"from 0 to 250"),
    ("rows?limit=10001", r"from 1 to 10000"),
    ("rows?sort=colour", r"column of the rows"),
    ("rows?sort=delta", r"needs a 'base'"),
    ("rows?order=up", r"asc or desc"),
    ("search", r"'find' is missing"),
    ("search?find=/(/", r"find"),
    ("timeline?series=heap,air", r"heap, rss, anon, file"),
    ("sources?src=1", r"there is no parameter 'src'"),
])
def test_what_is_wrong_with_a_question_is_said(server, question, expected):
    status, _, body = server.ask(f"/api/v1/{question}")
    told = json.loads(body)
    assert status == 400 and re.search(expected, told["error"] + " " + told.get("hint", "")), told


@pytest.mark.parametrize("question", ["tree?src=99", "tree?base=99", "tree?n=0123456789abcdef",
                                      "tree?function=0123456789abcdef&side=callers", "nothing"])
def test_what_is_not_there_is_404(server, question):
    status, _, body = server.ask(f"/api/v1/{question}")
    assert status == 404 and "error" in json.loads(body)


@pytest.mark.parametrize("path", ["/debug/pprof/", "/openapi/byteledger-openapi.json"])
def test_who_takes_no_parameter_says_so(server, path):
    assert server.ask(path)[0] == 200
    status, _, body = server.ask(path + "?src=0")
    assert status == 400 and "no parameter" in json.loads(body)["error"]


def test_the_same_question_costs_nothing_the_second_time(server):
    status, headers, body = server.ask("/api/v1/tree?at=33%25&wait=250")
    while status == 202:
        assert 0 <= json.loads(body)["progress"] <= 1
        time.sleep(json.loads(body)["retry_ms"] / 1000)
        status, headers, body = server.ask("/api/v1/tree?at=33%25&wait=250")
    assert status == 200 and headers["Cache-Control"] == "no-cache"
    again = server.ask("/api/v1/tree?at=33%25", {"If-None-Match": headers["ETag"]})
    assert again[0] == 304 and not again[2] and again[1]["ETag"] == headers["ETag"]
    assert server.ask("/api/v1/tree?at=34%25")[1]["ETag"] != headers["ETag"]
    # the same words in another order and spelling are the same question
    assert server.ask("/api/v1/rows?by=function&cost=peak")[1]["ETag"] == server.ask("/api/v1/rows?cost=peak&by=function")[1]["ETag"]
    assert server.get("tree", at="33%")["selection"] == "at=33%25"


def test_answers_are_compressed_where_that_is_taken(server):
    plain = server.ask("/api/v1/tree")[2]
    status, headers, body = server.ask("/api/v1/tree", {"Accept-Encoding": "gzip"})
    assert status == 200 and headers["Content-Encoding"] == "gzip" and gzip.decompress(body) == plain
    assert len(body) < len(plain) / 2
    assert server.ask("/api/v1/tree", {"Accept-Encoding": "gzip;q=0"})[1]["Content-Encoding"] is None
    zipped = server.ask("/api/v1/tree", {"Accept-Encoding": "gzip, br, zstd"})
    assert zipped[1]["Content-Encoding"] == "zstd" and zipped[2][:4] == b"\x28\xb5\x2f\xfd"


def test_the_documents_and_the_routes_are_the_same(server):
    spec = json.loads(server.ask("/openapi/byteledger-openapi.json")[2])
    with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as file:
        text = file.read()
    table = re.findall(r"^\| `(/(?:api|openapi|debug)[^`]*)` \|", text, re.M)
    assert sorted(table) == sorted(spec["paths"])
    for path in table:
        operation = spec["paths"][path]["get"]
        if "x-served-by" in operation: # another command's, which has its own test
            continue
        known = [spec["components"]["parameters"][p["$ref"].rsplit("/", 1)[1]] for p in operation["parameters"]]
        names = [p["name"] for p in known if p["in"] == "query"]
        here = path.replace("{id}", "1").replace("{address}", "0x10")
        if not path.endswith("/events"):
            assert server.ask(here)[0] != 404
        if not path.startswith("/api/v1/"):
            continue
        status, _, body = server.ask(here + "?nonsense=1")
        assert status == 400
        told = re.search(r"here, but (.*)$", json.loads(body)["error"])
        assert (told[1].split(", ") if told and told[1] else []) == names, path
        for name in names:
            assert name == "src" or re.search(rf"[`\s]{re.escape(name)}[`\s=]", text), name


def value_fits(value, schema, spec, where):
    if "$ref" in schema:
        schema = spec["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
    if value is None:
        assert schema.get("nullable"), where
        return
    if "anyOf" in schema:
        shapes = [spec["components"]["schemas"][s["$ref"].rsplit("/", 1)[1]] if "$ref" in s else s for s in schema["anyOf"]]
        schema = next(s for s in shapes if (s["type"] == "array") == isinstance(value, list) and
                      set(s.get("required", [])) <= set(value if isinstance(value, dict) else s.get("required", [])))
    kind = schema["type"]
    assert isinstance(value, {"object": dict, "array": list, "integer": int, "string": str, "boolean": bool,
                              "number": (int, float)}[kind]), (where, value)
    if kind == "array":
        for one in value[:50]:
            value_fits(one, schema["items"], spec, where + "[]")
    elif kind == "object" and "properties" in schema:
        assert set(schema.get("required", [])) <= set(value), (where, set(schema["required"]) - set(value))
        for key, one in value.items():
            assert key in schema["properties"], (where, key)
            value_fits(one, schema["properties"][key], spec, f"{where}.{key}")


@pytest.mark.parametrize("question", ["sources", "summary", "timeline", "tree", "tree?base=1&keys=1&x=trunk", "rows?by=function&base=1",
                                      "rows?by=stack", "rows?by=thread", "search?find=a", "tree?n=0000000000000000", "growth",
                                      "allocations?limit=5", "allocations?order=-size&limit=5", "allocations?group=stack&limit=5", "histogram?x=size&y=lifetime",
                                      "histogram?x=age&at=50%25", "maps", "alerts", "space?at=peak", "allocations/7", "address/0x1000",
                                      "explain", "explain?by=stack&at=end", "explain?at=peak&diff=end"])
def test_answers_have_the_shape_of_the_openapi_file(server, question):
    spec = json.loads(server.ask("/openapi/byteledger-openapi.json")[2])
    status, _, body = server.ask("/api/v1/" + question)
    path = "/api/v1/" + re.sub(r"s/7$", "s/{id}", question.split("?")[0]).replace("0x1000", "{address}")
    schema = spec["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    assert status == 200
    value_fits(json.loads(body), schema, spec, question)


def test_a_sheet_is_what_explain_says(server, byteledger, recordings):
    for options, words in (((), {}), (("--at", "end"), {"at": "end"}), (("--by", "stack"), {"by": "stack", "limit": 10000})):
        out = subprocess.run([byteledger, "explain", "--format", "json", *(options if "--by" in options else (*options, "--by", "function")),
                              recordings[1]], capture_output=True, timeout=60, check=True)
        known, told = json.loads(out.stdout), server.get("explain", src=1, **words)
        for key in ("lines", "unexplained_bytes", "rss_bytes", "advice", "occupancy", "together", "checks", "time_ns"):
            assert told[key] == known[key], key
        assert sum(line["bytes"] for line in told["lines"]) + told["unexplained_bytes"] == told["rss_bytes"]
        assert "explain" in server.get("summary", src=1)["has"]
    # no more stacks a line than asked for; the others are counted and summed up
    whole, cut = server.get("explain", src=1, by="stack", limit=10000), server.get("explain", src=1, by="stack", limit=1)
    for all_of_it, line in zip(whole["lines"] + whole["beside"], cut["lines"] + cut["beside"]):
        assert line["stacks"] == all_of_it["stacks"][:1]
        if len(all_of_it["stacks"]) > 1:
            assert line["folded_stacks"] == len(all_of_it["stacks"]) - 1
            assert line["folded_bytes"] == sum(stack["bytes"] for stack in all_of_it["stacks"][1:])
    assert any("folded_stacks" in line for line in cut["lines"])
    assert server.ask("/api/v1/explain?by=thread")[0] == 400
    change = server.get("explain", src=1, at="peak", diff="end")
    assert sum(line["bytes"] for line in change["lines"]) + change["unexplained_bytes"] == change["rss_bytes"]


def test_blocks_that_find_no_room_on_the_disk_leave_a_list_that_says_so(byteledger, recordings, server, tmp_path):
    """10^9 events took 41 GB of temporary files, and the list ended in a 500."""
    disk = tmp_path / "disk"
    disk.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(disk)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no file system of one's own here: " + done.stderr)
    try:
        with Server(byteledger, recordings[1], env={"TMPDIR": str(disk)}) as small:
            got = small.get("allocations", min_size=64, limit=10000)
            known, kept = server.get("allocations", src=1, min_size=64, limit=10000), got["kept"]
            assert "kept" not in known and known["scanned"] == kept["of"] > kept["blocks"] == got["scanned"] >= 4096
            assert 0 < got["matched"] < known["matched"]
            freed = [t for t in got["allocations"]["freed_ns"] if t is not None]
            assert freed and max(freed) <= kept["freed_until_ns"]
            # of those that were freed by then it has all
            by_then = [i for i, t in zip(known["allocations"]["id"], known["allocations"]["freed_ns"]) if t and t < kept["freed_until_ns"]]
            assert set(by_then) <= set(got["allocations"]["id"]) or got["matched"] > 10000
            status, _, body = small.ask("/api/v1/histogram?x=size")
            assert status == 507 and f"room for {kept['blocks']} of {kept['of']} single blocks" in json.loads(body)["error"]
            assert "TMPDIR" in json.loads(body)["hint"]
            assert small.get("rows", by="function", limit=1)["total"] == server.get("rows", src=1, by="function", limit=1)["total"]
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def test_lists_of_blocks_agree_with_the_sums(server, byteledger, recordings):
    for words, options in (({}, ()), ({"at": "50%"}, ("--at", "50%")), ({"leaked": 1}, ("--leaked",)),
                           ({"min_size": 1000}, ("--min-size", "1000")), ({"lifetime_min": "5ms"}, ("--lifetime-min", "5ms")),
                           ({"from_": "20%", "to": "60%"}, ("--from", "20%", "--to", "60%"))):
        known = report(byteledger, recordings[0], *options)["totals"]
        first = server.get("allocations", limit=1, **words)
        assert first["matched"] == known["allocations"], words
        spread = server.get("histogram", x="size", y="lifetime", **words)
        assert sum(map(sum, spread["blocks"])) == known["allocations"]
        assert sum(map(sum, spread["bytes"])) == known["allocated_bytes"]
    # pages in order of time, then of size
    ids, cursor = [], 0
    while len(ids) < 500:
        page = server.get("allocations", limit=100, cursor=cursor)
        ids += page["allocations"]["id"]
        cursor = page["next"]
    assert ids == list(range(1, 501))
    newest = server.get("allocations", order="-time", limit=300)
    assert newest["allocations"]["id"] == list(range(newest["matched"], newest["matched"] - 300, -1)), "latest first"
    sizes = server.get("allocations", order="-size", limit=200)["allocations"]["bytes"]
    assert sizes == sorted(sizes, reverse=True)
    one = server.get("allocations/17")
    assert one["allocations"]["id"] == [17]
    for path, said in (("allocations/99999999", "there are "), ("tree?src=77", "there are 3"), ("function?x=1", "no such path")):
        status, _, body = server.ask("/api/v1/" + path)
        assert status == 404 and said in json.loads(body)["error"] and "No such file" not in json.loads(body)["error"]
    there = server.get("address/" + one["allocations"]["address"][0], at=f"{one['allocations']['time_ns'][0]}ns")
    assert there["what"] in ("block", "freed_block")
    names = [one["frames"]["name"][i] for i in one["stacks"]["frames"][one["allocations"]["stack"][0]]]
    assert "__libc_start_main" in names or "main" in names or names
    live = server.get("space", at="50%")
    assert sum(map(sum, (strip["used"] for strip in live["strips"]))) == report(byteledger, recordings[0], "--at", "50%")["totals"]["leaked_bytes"]
    # a cell is what its blocks have in it: by the list, by one replay and by the histogram
    several = 0
    for moment, strip in [(m, s) for m in ("25%", "50%", "75%", "95%") for s in server.get("space", at=m)["strips"]]:
        for at in [i for i, used in enumerate(strip["used"]) if used][::17]:
            begin = int(strip["start"], 16) + at * strip["cell_bytes"]
            end = begin + strip["cell_bytes"]
            words = {"at": moment, "address": f"{begin:#x}-{end:#x}"}
            blocks = server.get("allocations", limit=10000, **words)["allocations"]
            places = [(int(a, 16), b) for a, b in zip(blocks["address"], blocks["bytes"])]
            assert sum(min(a + b, end) - max(a, begin) for a, b in places) == strip["used"][at]
            assert server.get("tree", cost="live", nodes=1, **words)["total"] == sum(blocks["bytes"])
            assert sum(server.get("histogram", x="size", **words)["blocks"]) == len(places)
            several += len(places) > 1
            assert server.get("allocations", limit=1, at=moment, address=hex(places[0][0]))["matched"] == 1
    assert several, "no cell has two blocks"
    for word in ("0x5-0x3", "0x5-", "0x", "5", "0x1-0x2-0x3", "0x10000000000000000"):
        assert server.ask("/api/v1/allocations?address=" + word)[0] == 400, word


def test_exports_are_those_of_the_command_line(server, byteledger, recordings):
    for name in ("folded", "flamegraph", "pprof", "speedscope", "heaptrack", "massif", "dhat", "csv", "json", "jsonl", "prometheus"):
        known = subprocess.run([byteledger, "export", recordings[0], "--to", name], capture_output=True, check=True, timeout=60).stdout
        status, headers, body = server.ask(f"/api/v1/export?to={name}")
        assert status == 200 and body == known, name
        assert headers["Content-Disposition"].startswith('attachment; filename="0.blt.')
    part = subprocess.run([byteledger, "export", recordings[0], "--to", "csv", "--to", "50%", "--by", "function"], capture_output=True,
                          check=True, timeout=60).stdout
    assert server.ask("/api/v1/export?format=csv&to=50%25&by=function")[2] == part
    for words in ("to=folded&by=module", "to=csv&inverted=1", "base=1&to=csv", "to=gif", ""):
        assert server.ask("/api/v1/export?" + words)[0] == 400, words
    for profile in ("heap", "allocs"):
        assert server.ask("/debug/pprof/" + profile)[2][:2] == b"\x1f\x8b"
    assert server.ask("/debug/pprof/other")[0] == 404 and b"allocs" in server.ask("/debug/pprof/")[2]


def test_go_tool_pprof_reads_the_profile(server, installed, tmp_path):
    go = installed("go")
    for profile, kind in (("heap", "inuse_space"), ("allocs", "alloc_space")):
        out = subprocess.run([go, "tool", "pprof", "-top", "-nodecount=3", f"{server.url}debug/pprof/{profile}?at=50%25"],
                             capture_output=True, text=True, timeout=60, env={**os.environ, "PPROF_TMPDIR": str(tmp_path)})
        assert out.returncode == 0 and f"Type: {kind}" in out.stdout, out.stdout + out.stderr


def test_what_grows_is_told_and_what_does_not_is_not(byteledger, tmp_path, installed):
    (tmp_path / "grow.c").write_text("#include <stdlib.h>\n#include <unistd.h>\nvoid *keep[400];\n"
                                     "__attribute__((noinline)) void grows(int i) { keep[i] = malloc(10000); }\n"
                                     "__attribute__((noinline)) void *churns(void) { return malloc(50000); }\n"
                                     "int main(void)\n{\n\tfor (int i = 0; i < 400; i++) {\n\t\tgrows(i);\n\t\tvoid *p = churns();\n"
                                     "\t\tusleep(2500);\n\t\tfree(p);\n\t}\n"
                                     # what is freed before the exit is no shrinking, also where that takes its time
                                     "\tfor (int i = 0; i < 400; i++) {\n\t\tfree(keep[i]);\n\t\tif (i % 40 == 0)\n\t\t\tusleep(15000);\n\t}\n\treturn 0;\n}\n")
    subprocess.run([installed("cc"), "-g", "-O1", "-o", str(tmp_path / "grow"), str(tmp_path / "grow.c")], check=True)
    path = str(tmp_path / "grow.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", str(tmp_path / "grow")], check=True, timeout=60)
    with Server(byteledger, path) as server:
        table = server.get("growth")
        verdicts = {table["frames"]["name"][f]: (v, r) for f, v, r in zip(table["rows"]["frame"], table["rows"]["verdict"],
                                                                         table["rows"]["bytes_per_hour"])}
        rate = 4e6 * 3600e9 / server.get("summary")["process"]["runtime_ns"]  # had it grown up to its end
        assert verdicts["grows"][0] == "growing" and 0.9 * rate < verdicts["grows"][1] < 2 * rate
        assert verdicts.get("churns", ("steady",))[0] != "growing"
        assert table["rows"]["points"][0] == sorted(table["rows"]["points"][0])


def test_growth_out_of_events_is_that_of_single_blocks(server):
    """Words about stacks and times need no list of blocks: the same rows, to the byte, as with a word that does."""
    # of a stack that is in the table: one that allocates behind its last moment is not
    name = next(n for n in server.get("growth", limit=10000)["frames"]["name"] if n)
    for words in ({}, {"from": "20%", "to": "60%"}, {"from": "50%"}, {"to": "30%"}, {"by": "file"}, {"function-regex": f"^{re.escape(name)}$"},
                  {"module": "libc.so.6"}, {"from": "10%", "to": "90%", "function-regex": "a"}, {"from": "99.999%"}):
        quick, slow = (server.get("growth", limit=10000, **words, **more) for more in ({}, {"lifetime-min": "0s"}))
        assert quick["rows"] == slow["rows"] and quick["time_ns"] == slow["time_ns"] and quick["frames"] == slow["frames"], words
        assert quick["total_rows"] > 0 or "to" in words, words # a fast program may have begun late


def test_source_lines_are_those_of_the_file(byteledger, tmp_path, installed):
    cc = installed("cc")
    source = tmp_path / "own.c"
    source.write_text("#include <stdlib.h>\nvoid *keep[64];\nint main(void)\n{\n\tfor (int i = 0; i < 64; i++)\n"
                      "\t\tkeep[i] = malloc(1000);\n\treturn 0;\n}\n")
    subprocess.run([cc, "-g", "-O0", "-o", str(tmp_path / "own"), str(source)], check=True)
    path = str(tmp_path / "own.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", str(tmp_path / "own")], check=True, timeout=60)
    with Server(byteledger, path) as server:
        table = server.get("rows", by="file", cost="leaked")
        files = {table["files"][table["frames"]["file"][f]]: key for f, key in zip(table["rows"]["frame"], table["rows"]["key"])
                 if table["frames"]["file"][f] >= 0}
        key = next(key for name, key in files.items() if name.endswith("own.c"))
        answer = server.get("source", file=key, cost="leaked")
        assert answer["text"] == source.read_text().splitlines()
        assert dict(zip(answer["lines"]["line"], answer["lines"]["self"]))[6] == 64000
        real = tmp_path / "elsewhere.c"
        source.rename(real)
        source.symlink_to(real)
        status, _, body = server.ask(f"/api/v1/source?file={key}&cost=allocated")
        assert status == 404 and "not on this disk" in json.loads(body)["error"]
        assert server.ask("/api/v1/source?file=0123456789abcdef")[0] == 404 and server.ask("/api/v1/source")[0] == 400


def test_a_folder_is_the_recordings_in_it(byteledger, recordings, tmp_path):
    folder = tmp_path / "many"
    folder.mkdir()
    for i, path in enumerate(recordings):
        os.link(path, folder / f"run-{i}.blt")
    (folder / "notes.txt").write_text("no recording")
    with Server(byteledger, str(folder)) as server:
        assert [source["name"] for source in server.get("sources")] == ["run-0.blt", "run-1.blt", "run-2.blt"]
        os.truncate(folder / "run-2.blt", 10)
        status, _, body = server.ask("/api/v1/tree?src=2")
        assert status >= 400 and json.loads(body)["error"]
        assert server.get("sources")[2]["error"]
    empty = tmp_path / "empty"
    empty.mkdir()
    out = subprocess.run([byteledger, "serve", str(empty)], capture_output=True, text=True, timeout=20)
    assert out.returncode == 1 and f"there is no recording in the folder '{empty}'\n" in out.stderr and "hint:" in out.stderr


def test_what_is_named_twice_is_listed_once(byteledger, recordings, tmp_path):
    """By hand, by a link, and in a folder that is given, too."""
    os.symlink(recordings[0], tmp_path / "again.blt")
    with Server(byteledger, recordings[0], recordings[1], recordings[0], str(tmp_path)) as server:
        assert [s["name"] for s in server.get("sources")] == ["0.blt", "1.blt"]


def test_words_that_an_address_does_not_ask_of_are_named(server):
    """What lies there is told, whoever made it; a filter beside it is not dropped in silence."""
    one = server.get("allocations", limit=1, order="-size")["allocations"]
    words = {"min-size": "2M", "thread": "1", "leaked": "1", "function-regex": "nobody", "cost": "live"}
    answer = server.get("address/" + one["address"][0], at=f"{one['time_ns'][0]}ns", **words)
    assert answer["what"] == "block"
    assert {u["word"] for u in answer["unapplied"]} == set(words) and all(u["why"] for u in answer["unapplied"])


def test_who_may_ask(byteledger, recordings, tmp_path):
    token = tmp_path / "token"
    token.write_text("0123456789abcdefgh\n")
    token.chmod(0o600)
    cross = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    with Server(byteledger, recordings[0], "--token-file", str(token)) as server:
        assert server.ask("/api/v1/sources")[0] == 401
        assert server.ask("/api/v1/sources", {"Authorization": "Bearer 0123456789abcdefgh"})[0] == 200
        assert server.ask("/api/v1/sources", {"Cookie": "byteledger=0123456789abcdefgh"})[0] == 200
        # a link on another site: the page holds no data and opens, its data does not
        assert server.ask("/", cross)[0] == 200
        assert server.ask("/api/v1/sources", cross)[0] == 403
        assert server.ask("/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"})[0] == 403
        answer = server.raw(b"GET /?token=0123456789abcdefgh HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 303") and b"HttpOnly; SameSite=Strict" in answer and b"no-referrer" in answer
    with Server(byteledger, recordings[0]) as server:
        for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert server.ask("/api/v1/sources", headers)[0] == 403, headers
        assert server.ask("/", {"Host": "evil.example", **cross})[0] == 403
        index = server.ask("/")
        assert index[0] == 200 and "default-src 'none'" in index[1]["Content-Security-Policy"]
        assert server.ask("/api/v1/sources", {"Origin": f"http://localhost:{server.port}"})[1]["Access-Control-Allow-Origin"]
        assert server.raw(b"POST /api/v1/sources HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\nabc"
                          ).startswith(b"HTTP/1.1 405")
    out = subprocess.run([byteledger, "serve", "--listen", "0.0.0.0:0", recordings[0]], capture_output=True, text=True, timeout=20)
    assert out.returncode == 1 and "token" in out.stderr


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_too_long_a_question_is_refused_and_the_server_goes_on(server):
    assert server.ask("/api/v1/tree?find=" + "a" * 20)[0] == 400
    assert server.ask("/api/v1/search?find=" + "a" * 9000)[0] == 414
    got = server.raw(b"GET /api/v1/tree?x=" + b"a" * (10 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert not got or got.split()[1] in (b"414", b"413", b"431", b"400"), got[:100]
    for path in ("/../etc/passwd", "/%2e%2e/etc/passwd", "/api/v1/../../etc/passwd", "//etc/passwd", "/assets/../page"):
        assert server.raw(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()).split()[1] == b"404", path
    assert server.get("sources")
