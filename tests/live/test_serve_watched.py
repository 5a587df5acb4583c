# SPDX-License-Identifier: Apache-2.0
"""What is resident of processes that nothing records, over time: `serve -p`, `serve -n`, `regions --serve`."""
import contextlib
import json
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

from test_regions_serve import Watch, fetch

GROWS = "import time\nk = []\nwhile True:\n    k.append(bytearray(1 << 20))\n    time.sleep(0.05)\n"
PARTS = ("anon", "file", "shmem")


def ask(url, what):
    status, _, text = fetch(url.rstrip("/") + what)
    assert status == 200, text
    return json.loads(text)


def until(condition, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        got = condition()
        if got:
            return got
        time.sleep(0.1)
    raise AssertionError(condition)


@contextlib.contextmanager
def served(byteledger, *who):
    with subprocess.Popen([byteledger, "serve", "-l", "127.0.0.1:0", *who], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


def events(url, names, seconds=20):
    """Data of events until each of @names was heard."""
    heard, deadline, event = [], time.monotonic() + seconds, None
    with urllib.request.urlopen(f"{url.rstrip('/')}/api/v1/events", timeout=10) as stream:
        while time.monotonic() < deadline and not set(names) <= {name for name, _ in heard}:
            line = stream.readline().decode().rstrip()
            if line.startswith("event: "):
                event = line[7:]
            elif line.startswith("data: "):
                heard.append((event, json.loads(line[6:])))
    return heard


def test_a_process_has_a_past_since_it_is_watched(byteledger):
    with subprocess.Popen([sys.executable, "-c", GROWS]) as target:
        try:
            with served(byteledger, "-p", str(target.pid)) as url:
                line = until(lambda: (lambda t: len(t["time_ns"]) >= 4 and t)(ask(url, "/api/v1/timeline")))
                source = ask(url, "/api/v1/sources")[0]
                assert source["id"] == line["source"] == 4096 and {"rss", "events"} <= set(source["has"])
                assert source["start_realtime_ns"] and source["length_ns"] >= line["length_ns"] == line["time_ns"][-1]
                # a look a second; anonymous, of files and shared are all of it, in each
                steps = [b - a for a, b in zip(line["time_ns"], line["time_ns"][1:])]
                assert 0.5e9 < sorted(steps)[len(steps) // 2] < 2e9, steps
                series = {name: line["series"][name]["last"] for name in (*PARTS, "rss", "swap", "virtual")}
                assert [sum(x) for x in zip(*(series[p] for p in PARTS))] == series["rss"]
                assert series["rss"] == sorted(series["rss"]) and series["rss"][0] < series["rss"][-1] < series["virtual"][-1]
                assert "heap" not in line["series"] and line["flags"] == [] and line["unapplied"] == []
                # the words of the route hold here, too
                short = ask(url, "/api/v1/timeline?series=rss,heap&points=2")
                assert list(short["series"]) == ["rss"] and len(short["time_ns"]) == 2 and "nothing is recorded" in short["unapplied"][0]["why"]
                assert fetch(url.rstrip("/") + "/api/v1/timeline?series=bytes")[0] == 400
                assert fetch(url.rstrip("/") + "/api/v1/timeline?src=4097")[0] == 404
                # what is of a kind is of a label, too: it stands in no list that adds up
                for path, rows in (("/debug/memory/history", "series"), ("/debug/memory/diff?a=-3", "rows")):
                    assert all(row["class"] != "kind" for row in ask(url, path)[rows]), path
                assert [s["label"] for s in ask(url, "/debug/memory/history?class=kind")["series"]] == list(PARTS)
                assert b'class="kind"' not in fetch(url.rstrip("/") + "/metrics")[2].encode()
                heard = events(url, ("hello", "generation", "sample"))
                assert heard[0] == ("hello", {"version": heard[0][1]["version"], "sources": 0, "live": [4096]})
                sample = next(data for name, data in heard if name == "sample")
                assert sample["source"] == 4096 and sample["heap_bytes"] is None and sample["age_ns"] < 5e9
                assert sample["anon_bytes"] + sample["file_bytes"] + sample["shmem_bytes"] == sample["rss_bytes"] >= series["rss"][-1]
                target.kill()
                target.wait()
        finally:
            target.kill()


def test_a_name_is_waited_for_and_its_end_is_told(byteledger, tmp_path):
    program = tmp_path / "comeslater"
    shutil.copy("/usr/bin/sleep", program)
    with served(byteledger, "-n", "comeslater") as url:
        waited = ask(url, "/api/v1/sources")
        assert [(s["pid"], s["live"], s["has"]) for s in waited] == [(None, False, ["regions", "events"])]
        assert fetch(url.rstrip("/") + "/api/v1/timeline")[0] == 404
        for _ in range(2):  # a restart has the same place, and the axis goes on
            with subprocess.Popen([program, "60"]) as target:
                try:
                    source = until(lambda: (lambda s: s["pid"] == target.pid and s["length_ns"] and s)(ask(url, "/api/v1/sources")[0]))
                    assert source["name"] == "comeslater" and source["live"] and "rss" in source["has"]
                    count = len(until(lambda: ask(url, "/api/v1/timeline")["time_ns"]))
                    target.kill()
                    assert ("ended", {"source": 4096}) in events(url, ("ended",))
                finally:
                    target.kill()
            source = ask(url, "/api/v1/sources")
            assert len(source) == 1 and source[0]["ended"] and not source[0]["live"]
            assert len(ask(url, "/api/v1/timeline")["time_ns"]) >= count
        assert len(ask(url, "/api/v1/timeline")["time_ns"]) >= 2


def test_an_alert_is_a_flag_of_the_axis(byteledger):
    with subprocess.Popen([sys.executable, "-c", GROWS]) as target:
        try:
            watch = Watch(byteledger, target.pid, "--serve", "127.0.0.1:0", "--alert", "rss>20M")
            with watch:
                url = watch.url()
                flags = until(lambda: ask(url, "/api/v1/timeline")["flags"])
                assert [(f["kind"], "rss>20M" in f["label"] or "20" in f["label"]) for f in flags] == [("alert", True)]
                line = ask(url, "/api/v1/timeline")
                assert 0 < flags[0]["time_ns"] <= line["length_ns"]
        finally:
            target.kill()
