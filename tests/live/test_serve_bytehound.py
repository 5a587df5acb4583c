# SPDX-License-Identifier: Apache-2.0
"""`/list` and `/data/<id>/…`: the older tracer's REST, field by field, against what the report says."""
import json
import os
import subprocess

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
def served(byteledger, tmp_path_factory):
    """A server over one recording of sqlite3: server, path."""
    path = str(tmp_path_factory.mktemp("bytehound") / "sqlite.blt")
    subprocess.run([byteledger, "run", "-q", "--free-stacks", "-o", path, "--", "sqlite3", ":memory:", SQL], check=True,
                   capture_output=True, timeout=120)
    with Server(byteledger, path) as server:
        yield server, path


def get(server, path, status=200):
    code, _, body = server.ask(path)
    assert code == status, (path, code, body[:300])
    return json.loads(body)


def nanoseconds(time):
    return time["secs"] * 10**9 + time["fract_nsecs"]


def test_the_list_names_what_there_is(served, byteledger):
    server, path = served
    known = report(byteledger, path)
    listed, = get(server, "/list")
    assert set(listed) == LISTED and len(listed["id"]) == 32
    assert listed["final_allocated"] == known["totals"]["leaked_bytes"]
    assert listed["unique_backtrace_count"] == known["totals"]["stacks"]
    assert nanoseconds(listed["runtime"]) == known["process"]["runtime_ns"]
    assert listed["cmdline"].startswith("sqlite3 :memory:")
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
        assert set(node) == {"size", "count", "first", "last", "value", "children"}
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
    assert server.ask("/data/last/export/replay")[0] == 404


@pytest.mark.parametrize("words", ["from=yesterday", "to=101x", "order=up", "sort_by=colour", "count=many", "skip=-1", "lifetime=short",
                                   "size_min=big", "function_regex=(", "mmaped=maybe", "arena=third", "custom_filter=x", "marker=1",
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
    for words in ("readable=yes", "peak_rss_min=1", "id=x", "sort_by=peak_rss", "count=x"):
        assert server.ask("/data/last/maps?" + words)[0] == 400, words
