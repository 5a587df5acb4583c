# SPDX-License-Identifier: Apache-2.0
"""`/list` and `/data/<id>/…`: the older tracer's REST, field by field, against what the report says."""
import contextlib
import json
import os
import socket
import struct
import subprocess
import time
import urllib.parse

import pytest

from conftest import BUILD
from test_serve import SQL, Server, report

ALLOCATION = {"id", "address", "address_s", "timestamp", "timestamp_relative", "timestamp_relative_p", "thread", "size", "extra_space",
              "backtrace_id", "backtrace", "deallocation", "chain_deallocation", "chain_lifetime", "position_in_chain", "chain_length",
              "is_mmaped", "is_jemalloc", "in_main_arena"}
FRAME = {"address", "address_s", "count", "library", "function", "raw_function", "source", "line", "column", "is_inline"}
GROUP = {"size", "min_size", "max_size", "min_timestamp", "min_timestamp_relative", "min_timestamp_relative_p", "max_timestamp",
         "max_timestamp_relative", "max_timestamp_relative_p", "interval", "leaked_count", "allocated_count", "max_total_usage_first_seen_at"}
LISTED = {"id", "executable", "cmdline", "architecture", "final_allocated", "final_allocated_count", "runtime", "unique_backtrace_count",
          "maximum_backtrace_depth", "timestamp"}


@pytest.fixture(scope="module")
def served(byteledger, sqlite, tmp_path_factory):
    """A server over one recording of sqlite3: server, path."""
    path = str(tmp_path_factory.mktemp("bytehound") / "sqlite.blt")
    subprocess.run([byteledger, "run", "-q", "--free-stacks", "-o", path, "--", sqlite, ":memory:", SQL], check=True,
                   capture_output=True, timeout=120)
    with Server(byteledger, path) as server:
        yield server, path


def get(server, path, status=200):
    code, _, body = server.ask(path)
    assert code == status, (path, code, body[:300])
    return json.loads(body)


def nanoseconds(time):
    return time["secs"] * 10**9 + time["fract_nsecs"]


def test_the_list_names_what_there_is(sqlite, served, byteledger):
    server, path = served
    known = report(byteledger, path)
    listed, = get(server, "/list")
    assert set(listed) == LISTED and len(listed["id"]) == 32
    assert listed["final_allocated"] == known["totals"]["leaked_bytes"]
    assert listed["unique_backtrace_count"] == known["totals"]["stacks"]
    assert nanoseconds(listed["runtime"]) == known["process"]["runtime_ns"]
    assert listed["cmdline"].startswith(f"{sqlite} :memory:")
    assert get(server, f"/data/{listed['id']}/mallopts") == []
    get(server, "/data/" + "0" * 32 + "/tree", 404)
    get(server, "/data/last/nothing", 404)


def test_allocations_have_every_field_and_all_their_filters(served, byteledger):
    server, path = served
    known = report(byteledger, path)["totals"]
    page = get(server, "/data/last/allocations?count=3&page=7&whatever=1")
    assert page["total_count"] == known["allocations"] and len(page["allocations"]) == 3
    for row in page["allocations"]:
        assert set(row) == ALLOCATION and all(set(frame) == FRAME for frame in row["backtrace"])
        assert row["address_s"] == f"{row['address']:016X}"
        if row["deallocation"]:
            assert {"timestamp", "thread", "backtrace_id", "backtrace"} <= set(row["deallocation"])
            assert nanoseconds(row["deallocation"]["timestamp"]) >= nanoseconds(row["timestamp"])
    freed = get(server, "/data/last/allocations?count=1&lifetime=only_temporary")["allocations"][0]
    assert freed["deallocation"]["backtrace"], "stacks of frees were recorded"

    def count(words):
        return get(server, "/data/last/allocations?count=0&" + words)["total_count"]
    assert count("lifetime=only_leaked") == known["leaked_allocations"]
    assert count("lifetime=only_leaked") + count("lifetime=only_temporary") == known["allocations"]
    assert count("size_min=1000") == report(byteledger, path, "--min-size", "1000")["totals"]["allocations"]
    assert count("size_max=16&size_min=16") == report(byteledger, path, "--min-size", "16", "--max-size", "16")["totals"]["allocations"]
    assert count("lifetime_min=5ms") == report(byteledger, path, "--lifetime-min", "5ms")["totals"]["allocations"]
    assert count("function_regex=sqlite3") == report(byteledger, path, "--function-regex", "sqlite3")["totals"]["allocations"]
    assert count("function_regex=sqlite3") + count("negative_function_regex=sqlite3") == known["allocations"]
    assert count("alive_at=50%25") == report(byteledger, path, "--at", "50%")["totals"]["leaked_allocations"]
    whole = report(byteledger, path)  # at the peak something lives, however long the program took to begin and to end
    peak = 100 * whole["totals"]["peak_time_ns"] / whole["process"]["runtime_ns"]
    assert 0 < count(f"alive_at={peak:.6f}%25&alive_at_2={peak + 0.001:.6f}%25") <= count(f"alive_at={peak:.6f}%25")
    assert count("chain_length_min=2") > 0 and count("chain_length_min=2&position_in_chain_max=0") < count("chain_length_min=2")
    assert count("chain_length_max=1") + count("chain_length_min=2") == known["allocations"]
    assert count("mmaped=yes") + count("mmaped=no") == known["allocations"]
    assert count("arena=main") > 0 and count("jemalloc=yes") == 0
    stack = page["allocations"][0]["backtrace_id"]
    group = get(server, f"/data/last/allocation_groups?backtraces={stack}")["allocations"][0]
    assert count(f"backtraces={stack}") == group["all"]["allocated_count"]
    assert count("group_allocations_min=100") + count("group_allocations_max=99") == known["allocations"]
    assert count("lifetime=only_whole_group_leaked") <= count("lifetime=only_leaked")
    assert count("group_leaked_allocations_min=100%25") == count("lifetime=only_whole_group_leaked")
    assert count("backtrace_depth_min=5") + count("backtrace_depth_max=4") == known["allocations"]
    start = nanoseconds(get(server, "/list")[0]["timestamp"]) // 10**6
    assert count(f"from={start}") == known["allocations"] and count(f"to={start - 1000}") in (0, count("to=0%25"))
    for sort, key in (("size", "size"), ("address", "address"), ("timestamp", "id")):
        rows = get(server, f"/data/last/allocations?sort_by={sort}&order=dsc&count=50&skip=10")["allocations"]
        values = [row[key] for row in rows]
        assert len(rows) == 50 and values == sorted(values, reverse=True)


def test_questions_that_come_at_once_are_answered_of_one_reading(byteledger, sqlite, tmp_path):
    """
    As a page that opens asks them. Each could make a reading of its own of a file that did not change, and what is made of two does
    not fit together: groups were 503 for as long as the server lived, in 2 of 15 to 4 of 12.
    """
    path = str(tmp_path / "demo.blt")
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "scripts", "demo.sql"), "rb") as sql:
        subprocess.run([byteledger, "run", "-q", "-o", path, "--", sqlite, ":memory:"], stdin=sql, stdout=subprocess.DEVNULL, check=True, timeout=120)
    for _ in range(30):
        with Server(byteledger, path) as server:
            with contextlib.ExitStack() as stack:
                clients = [(stack.enter_context(socket.create_connection(("127.0.0.1", server.port))), words)
                           for words in ("summary", "timeline?points=1440", "allocations?group=stack&min-size=64")]
                for client, words in clients:
                    client.sendall(f"GET /api/v1/{words} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
                for client, _ in clients:
                    while client.recv(65536):
                        pass
            assert server.get("allocations", group="stack", limit=3)["matched"] > 0
            get(server, "/data/last/allocation_groups?count=3")


@pytest.mark.parametrize("own, older", [
    ({}, ""), ({"leaked": 1}, "&lifetime=only_leaked"), ({"min_size": 100, "max_size": 5000}, "&size_min=100&size_max=5000"),
    ({"lifetime_min": "5ms"}, "&lifetime_min=5ms"), ({"function_regex": "sqlite3"}, "&function_regex=sqlite3"), ({"at": "peak"}, "&alive_at=peak")])
def test_groups_of_the_page_are_those_of_the_older_rest(served, byteledger, own, older):
    """`allocations?group=stack`, row by row: what matches and the whole; its lifetimes are the single blocks' means."""
    server, path = served
    if "at" in own:  # behind the peak something lives, however long the program took to begin and to end
        whole = report(byteledger, path)
        moment = f"{100 * whole['totals']['peak_time_ns'] / whole['process']['runtime_ns'] + 0.001:.6f}%"
        own, older = {"at": moment}, "&alive_at=" + moment.replace("%", "%25")
    known = get(server, "/data/last/allocation_groups?count=100000" + older)
    start = nanoseconds(get(server, "/list")[0]["timestamp"])
    told = {g["backtrace_id"]: g for g in known["allocations"]}
    page = server.get("allocations", group="stack", limit=10000, **own)
    rows = page["rows"]
    assert page["total_rows"] == known["total_count"] == len(rows["group"]) and page["next"] is None and set(rows["group"]) == set(told)
    assert len(told) > ("leaked" not in own)  # newer ones than 3.40 leave blocks of one stack alone
    assert page["matched"] == sum(rows["count"]) == server.get("allocations", limit=1, **own)["matched"]
    for i, group in enumerate(rows["group"]):
        for ours, theirs in (("", "only_matched"), ("all_", "all")):
            side = told[group][theirs]
            assert [rows[ours + k][i] for k in ("count", "bytes", "leaked", "min_bytes", "max_bytes")] == \
                [side[k] for k in ("allocated_count", "size", "leaked_count", "min_size", "max_size")]
            assert [rows[ours + k][i] + start for k in ("first_ns", "last_ns")] == \
                [nanoseconds(side[k]) for k in ("min_timestamp", "max_timestamp")]
        assert rows["all_most_ns"][i] + start == nanoseconds(told[group]["all"]["max_total_usage_first_seen_at"])
        assert rows["count"][i] <= rows["all_count"][i] and 0 < rows["all_most_bytes"][i] <= rows["all_bytes"][i]
    for word, column in (("size", "bytes"), ("count", "count"), ("leaked", "leaked"), ("lifetime", "lifetime_ns"), ("time", "first_ns"),
                         ("all.size", "all_bytes"), ("all.lifetime", "all_lifetime_ns")):
        for sign in ("", "-"):
            begin = server.get("allocations", group="stack", order=sign + word, limit=1, **own)
            assert (begin["next"] is None) == (len(told) == 1)
            rest = server.get("allocations", group="stack", order=sign + word, limit=10000, cursor=begin["next"] or 1, **own)
            values = begin["rows"][column] + rest["rows"][column]
            assert sorted(begin["rows"]["group"] + rest["rows"]["group"]) == sorted(rows["group"])
            assert values == sorted(values, reverse=bool(sign)) and sorted(values) == sorted(rows[column])
    # a group opens its blocks: the same figures by the list and by one replay, whatever else is selected
    for i in range(0, len(rows["group"]), max(1, len(rows["group"]) // 10)):
        words = {"stack": rows["group"][i], **own}
        assert server.get("allocations", limit=1, **words)["matched"] == rows["count"][i]
        tree = server.get("tree", cost="allocations", nodes=1, **words)
        assert tree["total"] == rows["count"][i]
    assert server.ask(f"/api/v1/allocations?stack={1 << 31}")[0] == 400
    # single blocks, all pages of them: names of stacks are shared by groups, sums of lifetimes are not
    for words, prefix in ((own, ""), ({}, "all_")):
        lived, cursor = 0, None
        while cursor is not None or not lived:
            blocks = server.get("allocations", limit=10000, **words, **({"cursor": cursor} if cursor else {}))
            lived += sum(blocks["allocations"]["lifetime_ns"])
            cursor = blocks["next"]
        if not own or not prefix:
            means = sum(count * mean for count, mean in zip(rows[prefix + "count"], rows[prefix + "lifetime_ns"]))
            assert 0 <= lived - means < sum(rows[prefix + "count"]), "each mean is cut to a nanosecond"
    assert server.ask("/api/v1/allocations?group=function")[0] == 400
    assert server.ask("/api/v1/allocations?group=stack&order=address")[0] == 400
    assert server.ask("/api/v1/allocations?order=count")[0] == 400


def test_words_mean_of_a_mapping_what_they_mean_of_a_block(byteledger, tmp_path):
    """Before, words but times and sizes were taken and left out in silence."""
    path = str(tmp_path / "maps.blt")
    program = "import mmap; a = [mmap.mmap(-1, (1 << 20) + 4096 * i) for i in range(20)]; [a.pop().close() for i in range(10)]; import os; os._exit(0)"
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", "/usr/bin/python3", "-c", program], check=True, timeout=60)
    with Server(byteledger, path) as server:
        def kept(**words):
            maps = server.get("maps", **words)["maps"]
            return list(zip(*(maps[k] for k in ("address", "bytes", "made_ns", "gone_ns", "thread"))))
        every = kept()
        assert len(every) >= 20
        assert kept(leaked=1) == [m for m in every if m[3] is None] != every and len(kept(leaked=1)) >= 10
        assert kept(thread=every[0][4]) == every and kept(thread=every[0][4] + 1) == []
        first = int(every[-1][0], 16)
        assert every[-1] in kept(address=f"{first - 1:#x}-{first + 1:#x}")
        assert every[-1] not in kept(address=f"{first - 1:#x}-{first:#x}")
        assert kept(function_regex="no such function") == [] and kept(lifetime_min="1h") == []


def test_groups_have_what_the_published_page_reads(served, byteledger):
    server, path = served
    groups = get(server, "/data/last/allocation_groups?count=10&sort_by=all.size&order=dsc&lifetime=only_leaked")
    assert groups["total_count"] >= len(groups["allocations"])
    whole = get(server, "/data/last/allocation_groups?count=100000")
    assert sum(g["all"]["allocated_count"] for g in whole["allocations"]) == report(byteledger, path)["totals"]["allocations"]
    for group in groups["allocations"]:
        assert set(group["all"]) == GROUP | {"max_total_usage_first_seen_at_relative", "max_total_usage_first_seen_at_relative_p"}
        assert set(group["only_matched"]) == GROUP and group["only_matched"]["leaked_count"] == group["only_matched"]["allocated_count"]
        assert group["only_matched"]["size"] <= group["all"]["size"]
    sizes = [group["all"]["size"] for group in groups["allocations"]]
    assert sizes == sorted(sizes, reverse=True)


def test_trees_timelines_and_regions_add_up(served, byteledger):
    server, path = served
    known = report(byteledger, path)["totals"]
    tree = get(server, "/data/last/tree")

    def check(node):
        assert set(node) == {"size", "count", "first", "last", "value", "children"} and (not node["value"] or set(node["value"]) == FRAME)
        assert sum(child["size"] for child in node["children"]) <= node["size"]
        return 1 + sum(map(check, node["children"]))
    assert tree["size"] == known["allocated_bytes"] and tree["count"] == known["allocations"] and check(tree) > 100
    assert get(server, "/data/last/tree?lifetime=only_leaked")["size"] == known["leaked_bytes"]
    text = server.ask("/data/last/allocation_ascii_tree")[2].decode()
    assert text.splitlines()[0].split() == ["SIZE", "COUNT", "FIRST", "LAST", "SOURCE"] and "sqlite3VdbeExec" in text
    line = get(server, "/data/last/timeline")
    assert set(line) == {"xs", "size_delta", "count_delta", "allocated_size", "allocated_count", "allocations", "deallocations"}
    assert {len(values) for values in line.values()} == {1000}
    assert sum(line["allocations"]) == known["allocations"] and sum(line["deallocations"]) == known["frees"]
    assert line["allocated_size"][-1] == sum(line["size_delta"]) == known["leaked_bytes"]
    assert get(server, "/data/last/timeline_leaked")["allocated_count"][-1] == known["leaked_allocations"]
    assert max(get(server, "/data/last/timeline_maps")["rss"]) > 0
    regions = get(server, "/data/last/regions")
    assert regions["regions"] == sorted(regions["regions"], key=lambda r: int(r[0]))
    assert int(regions["main_heap_start"]) < int(regions["main_heap_end"])
    stacks = get(server, "/data/last/backtraces")
    assert stacks["total_count"] == known["stacks"]
    one = stacks["backtraces"][3]
    assert get(server, f"/data/last/backtrace/{one['id']}")["frames"] == one["frames"]
    raw = get(server, "/data/last/raw_allocations?size_min=4096")
    assert len(raw["allocations"]) == report(byteledger, path, "--min-size", "4096")["totals"]["allocations"]
    for name in ("dynamic_constants", "dynamic_statics"):
        assert get(server, f"/data/last/{name}")["count"] == 0
        assert server.ask(f"/data/last/{name}_ascii_tree/name.txt")[0] == 200


def test_exports_are_those_of_the_command_line(served, byteledger):
    server, path = served

    def export(*options):
        return subprocess.run([byteledger, "export", path, *options], capture_output=True, check=True, timeout=60).stdout
    assert server.ask("/data/last/export/flamegraph.pl/x.txt")[2] == export("--to", "folded", "--cost", "allocated")
    assert server.ask("/data/last/export/flamegraph/x.svg")[2] == export("--to", "flamegraph", "--cost", "allocated")
    assert server.ask("/data/last/export/heaptrack")[2] == export("--to", "heaptrack")
    assert server.ask("/data/last/export/flamegraph.pl?lifetime=only_leaked&size_min=100")[2] == export(
        "--to", "folded", "--cost", "allocated", "--leaked", "--min-size", "100")
    assert server.ask("/data/last/export/heaptrack?mmaped=yes")[0] == 400
    assert server.ask("/data/last/export/nothing")[0] == 404


@pytest.mark.parametrize("words", ["from=yesterday", "to=101x", "order=up", "sort_by=colour", "count=many", "skip=-1", "lifetime=short",
                                   "size_min=big", "function_regex=(", "mmaped=maybe", "arena=third", "from_map=1", "marker=1",
                                   "group_leaked_allocations_min=x%25", "count=2000000"])
def test_bad_filters_are_told(served, words):
    server, _ = served
    assert get(server, "/data/last/allocations?" + words, 400)["error"]
    assert os.path.exists(os.path.join(BUILD, "byteledger"))


MAP_FIELDS = {"id", "address", "address_s", "timestamp", "timestamp_relative", "timestamp_relative_p", "size", "source", "deallocation",
              "is_readable", "is_writable", "is_executable", "is_shared", "name", "peak_rss"}


def test_maps_are_those_of_the_recording_and_filters_divide_them(byteledger, tmp_path):
    path = str(tmp_path / "maps.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", "/usr/bin/python3", "-c",
                    "x = [str(i) * 10 for i in range(200000)]\ny = bytearray(5000000)\ndel x"], check=True, capture_output=True, timeout=120)
    with Server(byteledger, path) as server:
        check_maps(server)


def check_maps(server):
    everything = get(server, "/data/last/maps?count=100000")
    rows = everything["maps"]
    assert everything["total_count"] == len(rows) > 5 and all(set(row) == MAP_FIELDS for row in rows)
    own = server.get("maps")["maps"]
    assert sorted((row["address"], row["size"]) for row in rows) == sorted((int(a, 16), b) for a, b in zip(own["address"], own["bytes"]))
    assert [row["address_s"] for row in rows] == [f"{row['address']:016X}" for row in rows]

    def total(words):
        return get(server, "/data/last/maps?" + words)["total_count"]
    for one, other in (("readable=only_true", "readable=only_false"), ("writable=only_true", "writable=only_false"),
                       ("executable=only_true", "executable=only_false"), ("lifetime=only_leaked", "lifetime=only_temporary"),
                       ("size_min=65537", "size_max=65536"), ("bytehound=only_true", "bytehound=only_false"),
                       ("jemalloc=only_true", "jemalloc=only_false"),
                       ("function_regex=arena", "negative_function_regex=arena"), ("from=50%25", "to=49.999999%25")):
        assert total(one) + total(other) == len(rows), one
    assert total("lifetime=only_leaked") == sum(row["deallocation"] is None for row in rows)
    assert total("alive_at=100%25") == total("lifetime=only_leaked") or total("alive_at=100%25") >= 1
    sizes = [row["size"] for row in get(server, "/data/last/maps?sort_by=size&order=dsc&count=5")["maps"]]
    assert sizes == sorted((row["size"] for row in rows), reverse=True)[:5]
    first, second = (get(server, f"/data/last/maps?sort_by=address&skip={n}&count=1")["maps"][0]["address"] for n in (0, 1))
    assert first <= second
    assert get(server, f"/data/last/maps?id={rows[2]['id']}")["maps"] == [rows[2]]
    traced = [row for row in rows if row["source"]]
    assert traced and all(row["source"]["backtrace"] for row in traced)
    # nothing is known of it, so that it orders nothing; the page of one mapping asks for its regions and how it was used
    assert [row["id"] for row in get(server, "/data/last/maps?sort_by=peak_rss")["maps"]] == [row["id"] for row in get(server, "/data/last/maps")["maps"]]
    for row in rows:
        one, = get(server, f"/data/last/maps?with_regions=true&with_usage_history=true&id={row['id']}")["maps"]
        region, = one["regions"]
        assert set(one) == MAP_FIELDS | {"regions", "usage_history"} and {**row, **region} == row
        assert [use["address_space"] for use in one["usage_history"]] == ([row["size"], 0] if row["deallocation"] else [row["size"]])
        assert all(set(use) == {"timestamp", "timestamp_relative", "timestamp_relative_p", "address_space", "rss"} for use in one["usage_history"])
    for words in ("readable=yes", "peak_rss_min=1", "peak_rss_max=1", "deallocation_backtraces=1", "jemalloc=yes", "id=x", "sort_by=name", "count=x"):
        assert server.ask("/data/last/maps?" + words)[0] == 400, words


TOKEN = "0123456789abcdef-scripts"


@pytest.fixture(scope="module")
def scripted(served, byteledger, tmp_path_factory):
    """The same recording behind a token: scripts are served."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(TOKEN, encoding="ascii")
    token.chmod(0o600)
    with Server(byteledger, "--token-file", str(token), served[1]) as server:
        yield server


def post(server, source, headers=None, path="/data/last/execute_script"):
    body = source.encode()
    lines = [f"POST {path} HTTP/1.1", "Host: localhost", f"Content-Length: {len(body)}", "Connection: close",
             *(headers if headers is not None else [f"Authorization: Bearer {TOKEN}"])]
    answer = server.raw("\r\n".join([*lines, "", ""]).encode() + body, timeout=60)
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), rest


def children(pid):
    found = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
            found += file.read().split()
    return found


def run_script(server, source):
    status, body = post(server, source)
    assert status == 200, body
    return json.loads(body)


def test_a_script_runs_whatever_its_sender_has_seen(scripted):
    """"Not modified" is no answer to a POST."""
    headers = [f"Authorization: Bearer {TOKEN}", "If-None-Match: *"]
    status, body = post(scripted, "println(1 + 1)", headers)
    assert status == 200 and json.loads(body)


def test_scripts_say_what_the_filters_and_the_report_say(scripted, served, byteledger):
    known = report(byteledger, served[1])["totals"]
    answer = run_script(scripted, """
        local all = allocations()
        local leaked = all:only_leaked()
        println("{} {} {}", #all, #leaked, leaked:size())
        println(#all:only_larger_or_equal(1000), #all:only_passing_through_function("sqlite3"), #all:only_chain_length_at_least(2))
        local groups = leaked:group_by_backtrace():sort_by_size()
        println(#groups, groups:ungroup():size())
        println(groups[1][1]:backtrace():strip())
        graph():add("Leaked", leaked):add("Temporary", all:only_matching_backtraces(leaked)):save("leaks/over time")
        leaked:save_as_flamegraph()
    """)
    assert answer["status"] == "ok" and answer["elapsed"] > 0
    lines = [output["value"] for output in answer["output"] if output["kind"] == "println"]
    assert lines[0] == f"{known['allocations']} {known['leaked_allocations']} {known['leaked_bytes']}"

    def count(words):
        code, _, body = scripted.ask("/data/last/allocations?count=0&" + words, {"Authorization": f"Bearer {TOKEN}"})
        assert code == 200, body
        return json.loads(body)["total_count"]
    assert lines[1].split() == [str(count(words)) for words in ("size_min=1000", "function_regex=sqlite3", "chain_length_min=2")]
    assert lines[2].split()[1] == str(known["leaked_bytes"]) and "#00 [" in lines[3]
    images = [output for output in answer["output"] if output["kind"] == "image"]
    assert [image["path"] for image in images] == ["/leaks/over time.svg", "/Flamegraph #2.svg"] and images[0]["basename"] == "over time.svg"
    for image in images:
        assert set(image) == {"kind", "url", "path", "basename", "checksum"} and len(image["checksum"]) == 32
        code, headers, body = scripted.ask(image["url"], {"Authorization": f"Bearer {TOKEN}"})
        assert code == 200 and headers["Content-Type"] == "image/svg+xml" and b"<svg" in body and "sandbox" in headers["Content-Security-Policy"]
    # every filter word of the REST as a script, and a script as a filter: the same blocks
    for words in ("size_min=1k&lifetime=only_leaked", "lifetime_min=5ms&function_regex=sqlite3", "from=10%25&to=60%25&size_max=64", "alive_at=50%25",
                  "chain_length_min=2&position_in_chain_max=0", "arena=main&mmaped=no", "group_allocations_min=100", "lifetime=only_whole_group_leaked",
                  "negative_function_regex=Btree&backtrace_depth_min=5", "group_leaked_allocations_min=50%25", "group_interval_min=10%25",
                  "first_size_min=10&last_size_max=1000&chain_lifetime_max=1s", "address_min=4096&source_regex=nothing"):
        code, _, body = scripted.ask("/data/last/allocation_filter_to_script?" + words, {"Authorization": f"Bearer {TOKEN}"})
        script = json.loads(body)
        assert code == 200 and set(script) == {"prologue", "code"}
        source = f"{script['prologue']}return {script['code']}"
        assert count("custom_filter=" + urllib.parse.quote(source)) == count(words), (words, source)
        printed = run_script(scripted, f"{script['prologue']}println(#{script['code']})")
        assert printed["output"][0]["value"] == str(count(words))
    code, _, body = scripted.ask("/data/last/map_filter_to_script?writable=only_true&size_min=4096", {"Authorization": f"Bearer {TOKEN}"})
    assert code == 200 and json.loads(body)["code"].startswith("maps()")
    assert scripted.ask("/data/last/allocation_filter_to_script?marker=1", {"Authorization": f"Bearer {TOKEN}"})[0] == 400


def test_scripts_need_a_token_and_say_where_they_fail(served, scripted):
    server, _ = served
    status, body = post(server, "println(1)", headers=[])
    assert status == 403 and "token" in json.loads(body)["error"] and "--token-file" in json.loads(body)["hint"]
    assert server.ask("/data/last/allocations?custom_filter=return%20allocations()")[0] == 403
    assert post(scripted, "println(1)", headers=[])[0] == 401
    assert post(scripted, "println(1)", headers=[f"Authorization: Bearer {TOKEN}", "Origin: http://evil.example"])[0] == 403
    assert post(scripted, "println(1)", path="/data/last/tree")[0] == 400
    assert post(scripted, "println(1)", path="/api/v1/sources")[0] == 405
    assert post(scripted, "--" + "x" * 70000)[0] == 413
    assert scripted.ask("/data/last/execute_script", {"Authorization": f"Bearer {TOKEN}"})[0] == 400
    assert scripted.ask("/data/last/script_files/" + "0" * 32 + "/x.svg", {"Authorization": f"Bearer {TOKEN}"})[0] == 404
    for source in ("x", "return 7", "return maps()", "return allocations():only_larger()"):
        code, _, body = scripted.ask("/data/last/allocations?custom_filter=" + urllib.parse.quote(source), {"Authorization": f"Bearer {TOKEN}"})
        assert code == 400 and "custom_filter" in json.loads(body)["error"], (source, body)
    failed = run_script(scripted, 'println("so far")\nerror("no further")')
    assert failed == {"status": "error", "message": "no further", "line": 2, "column": None, "output": [{"kind": "println", "value": "so far"}]}
    older = run_script(scripted, "let x = allocations();\nprintln(x.len());")
    assert older["status"] == "error" and "Lua 5.4" in older["message"]
    for source in ("string.rep('x', 1e12)", "local function f() return 1 + f() end f()", "os.exit()", "io.open('/etc/passwd')", "require('os')",
                   "while true do println(('x'):rep(60000)) end"):
        assert run_script(scripted, source)["status"] == "error", source
    # whoever hangs up ends his script, and the next one runs
    with socket.create_connection(("127.0.0.1", scripted.port), timeout=10) as sock:
        sock.sendall(f"POST /data/last/execute_script HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
                     "Content-Length: 17\r\n\r\nwhile true do end".encode())
        while not children(scripted.child.pid):
            time.sleep(0.01)
        sock.shutdown(socket.SHUT_RDWR)
    while children(scripted.child.pid):
        time.sleep(0.01)
    assert run_script(scripted, "println(1 + 1)")["output"] == [{"kind": "println", "value": "2"}]


def test_replay_files_and_graphs(served, byteledger):
    server, path = served
    known = report(byteledger, path)["totals"]
    code, headers, body = server.ask("/data/last/export/replay/x.dat")
    slots, count = struct.unpack_from("<QQ", body)
    assert code == 200 and len(body) == 16 + 32 * count and headers["Content-Type"] == "application/octet-stream"
    live, most, calls = {}, 0, {1: 0, 2: 0, 3: 0}
    for what, slot, _, size in struct.iter_unpack("<QQQQ", body[16:]):
        calls[what] += 1
        assert slot < slots and (slot in live) == (what != 1)
        if what == 2:
            del live[slot]
        else:
            live[slot] = size
        most = max(most, len(live))
    assert calls[1] + calls[3] == known["allocations"] and calls[2] + calls[3] == known["frees"] and calls[3] > 0
    assert sum(live.values()) == known["leaked_bytes"] and most == slots
    small = server.ask("/data/last/export/replay?size_min=1000")[2]
    assert struct.unpack_from("<QQ", small)[1] < count
    groups = get(server, "/data/last/allocation_groups?count=2&generate_graphs=true&size_min=100")["allocations"]
    for group in groups:
        for part in ("all", "only_matched"):
            for key in ("graph_url", "graph_preview_url"):
                code, headers, body = server.ask(group[part][key])
                assert code == 200 and headers["Content-Type"] == "image/svg+xml" and body.startswith(b"<svg")
    assert groups[0]["all"]["graph_url"] != groups[0]["only_matched"]["graph_url"]
    for one in get(server, "/data/last/maps?count=1&generate_graphs=true")["maps"]:
        assert server.ask(one["graph_url"])[0] == 200
    get(server, "/data/last/graph/group/99999999", 404)
    get(server, "/data/last/graph/../etc", 404)
