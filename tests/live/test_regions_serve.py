# SPDX-License-Identifier: Apache-2.0
"""`regions` over time: watching, histories, alerts, and what is served over HTTP."""
import contextlib
import http.server
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import pytest

from test_regions_heap import Program


class Watch:
    """`byteledger regions -p PID ...` (None: @options say who) running; its lines of stderr as they come."""

    def __init__(self, byteledger, pid, *options, cwd=None):
        self.child = subprocess.Popen([byteledger, "regions", *(("-p", str(pid)) if pid else ()), *options], stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, text=True, cwd=cwd, stdin=subprocess.DEVNULL)
        self.lines, self.out, self.seen = [], [], threading.Condition()
        self.threads = [threading.Thread(target=self.read, args=(self.child.stderr, self.lines)),
                        threading.Thread(target=self.read, args=(self.child.stdout, self.out))]
        for thread in self.threads:
            thread.start()

    def read(self, stream, to):
        for line in stream:
            with self.seen:
                to.append(line.rstrip("\n"))
                self.seen.notify_all()
        with self.seen:
            self.seen.notify_all()

    def wait_line(self, pattern, lines=None, timeout=60):
        lines = self.lines if lines is None else lines
        deadline = time.monotonic() + timeout
        with self.seen:
            while True:
                for line in lines:
                    found = re.search(pattern, line)
                    if found:
                        return found
                left = deadline - time.monotonic()
                assert left > 0, (pattern, self.lines, self.out)
                assert self.child.poll() is None or any(t.is_alive() for t in self.threads), (pattern, self.lines)
                self.seen.wait(min(left, 1))

    def url(self):
        return self.wait_line(r"serving (http://\S+/)debug/memory")[1].rstrip("/")

    def finish(self, timeout=60):
        status = self.child.wait(timeout)
        for thread in self.threads:
            thread.join()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.terminate()
        self.finish()
        self.child.stdout.close()
        self.child.stderr.close()


def fetch(url, headers=None):
    request = urllib.request.Request(url, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, error.read().decode()


def fetch_bytes(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read()


@contextlib.contextmanager
def served(byteledger, prog, *options, program=("glibcheap", "16", "2")):
    with Program(prog(program[0]), *program[1:]) as target, \
            Watch(byteledger, target.pid, "--serve", "127.0.0.1:0", *options) as watch:
        url = watch.url()
        # the first look comes right behind the start; who asks before it gets a full reading
        deadline = time.monotonic() + 30
        while json.loads(fetch(url + "/debug/memory?full=0&format=json")[2])["pss_bytes"] is not None:
            assert time.monotonic() < deadline
        yield url, target, watch


def test_debug_memory_has_the_known_layout_by_default(byteledger, prog):
    with served(byteledger, prog) as (url, target, _):
        status, headers, text = fetch(url + "/debug/memory")
        assert status == 200 and headers["Content-Type"] == "text/plain; charset=utf-8"
        assert text.startswith("=== Complete Memory Breakdown ===\n")
        rss = int(next(line for line in text.splitlines() if "RSS (Resident)" in line).split()[2])
        with open(f"/proc/{target.pid}/statm", encoding="ascii") as file:
            assert abs(rss - int(file.read().split()[1]) // 256) <= 1
        assert "=== Top 20 Memory Regions ===" in text
        assert "=== Top 3 Memory Regions ===" in fetch(url + "/debug/memory?top=3")[2]


def test_debug_memory_has_every_layout_and_parameter(byteledger, prog):
    with served(byteledger, prog) as (url, target, _):
        quick = json.loads(fetch(url + "/debug/memory?format=json&top=2")[2])
        before = time.time_ns()
        full = json.loads(fetch(url + "/debug/memory?format=json&full=1&top=100&sort=pss")[2])
        after = time.time_ns()
        assert quick["pid"] == full["pid"] == target.pid
        assert quick["pss_bytes"] is None and full["pss_bytes"] > 0
        # an age counts from a reading's end, its time is the beginning
        assert len(quick["regions"]) == 2 and quick["time_ns"] + quick["age_ns"] <= before
        assert full["time_ns"] + full["age_ns"] <= after
        assert sum(c["rss_bytes"] for c in full["classes"]) == full["rss_bytes"]
        assert full["allocators"][0]["allocator"] == "glibc malloc"
        pss = [r["pss_bytes"] for r in full["regions"]]
        assert pss == sorted(pss, reverse=True)
        # one full reading in ten seconds: the second asker gets the first one's
        later = time.time_ns()
        again = json.loads(fetch(url + "/debug/memory?format=json&full=1")[2])
        assert again["time_ns"] == full["time_ns"]
        assert later - after <= again["age_ns"] - full["age_ns"] <= time.time_ns() - before
        status, headers, csv = fetch(url + "/debug/memory?format=csv&top=5")
        assert status == 200 and headers["Content-Type"].startswith("text/csv") and csv.count("\n") == 6
        hidden = fetch(url + "/debug/memory?format=csv&addresses=off&top=50")[2].splitlines()
        assert len(hidden) > 5 and all(line.split(",")[1] == "0" for line in hidden[1:])
        assert all(int(line.split(",")[2]) < 1 << 40 for line in hidden[1:])  # `end` is then the size
        for group, word in (("label", "malloc arenas"), ("vma", "[heap]"), ("thread", "glibcheap"), ("all", "[heap]"),
                            ("file", "/libc.so.6"), ("module", "    libc.so.6\n")):
            assert word in fetch(f"{url}/debug/memory?format=text&group={group}")[2]
        assert "byteledger_resident_bytes{" in fetch(url + "/debug/memory?format=prom")[2]
        hidden = json.loads(fetch(url + "/debug/memory?format=json&addresses=off&top=50")[2])
        assert hidden["regions"] and all(r["start"] == 0 for r in hidden["regions"])  # `end` is then the size
        assert fetch(f"{url}/debug/memory?pid={target.pid}&format=json")[0] == 200


def test_what_grew_since_a_time_comes_first(byteledger, prog):
    with served(byteledger, prog, "--watch", "0.2", program=("leaker", "leak", "512", "20")) as (url, target, _):
        since = time.time() + 0.5
        deadline = time.monotonic() + 60
        while True:
            status, _, text = fetch(f"{url}/debug/memory?format=json&sort=growth&since={since:.0f}&top=10000")
            assert status == 200, text
            seen = json.loads(text)
            grown = {(c["class"], c["label"]): c["growth_bytes"] for c in seen["classes"]}
            most = max(grown, key=grown.get)
            if grown[most] > 8 << 20:
                break
            assert time.monotonic() < deadline, grown
            time.sleep(0.2)
        # the leak is what grew, and its mappings lead; nothing else that is larger does
        order = [(r["class"], r["label"]) for r in seen["regions"]]
        assert order[0] == most and [grown.get(o, 0) for o in order] == sorted((grown.get(o, 0) for o in order), reverse=True)
        text = fetch(f"{url}/debug/memory?format=text&since=-10m&top=5")[2]
        assert re.search(r"^\+[0-9.]+ MiB +" + re.escape(most[0]) + " +" + re.escape(most[1]), text, re.M), text
        assert "growth_bytes" not in fetch(url + "/debug/memory?format=json")[2]
        assert "libc" in fetch(url + "/debug/memory?format=text&group=module&sort=growth")[2]


@pytest.mark.parametrize("query", ["since=x", "since=-5q", "sort=grow", "group=files", "top=-1", "top=", "top=10001", "top=1e3", "top=99999999999999999999", "format=xml", "group=x",
                                   "sort=growth%20", "full=2", "addresses=1", "pid=-1", "pid=x", "full=0", "sort=pss&full=0&format=json", "tops=5", "top=3&a=1"])
def test_wrong_parameters_say_what_is_right(byteledger, prog, query):
    with served(byteledger, prog) as (url, _, _w):
        status, headers, text = fetch(url + "/debug/memory?" + query)
        assert status == 400, text
        assert headers["Content-Type"] == "application/json" and json.loads(text)["error"]


def test_a_parameter_that_is_none_is_told_with_those_that_are(byteledger, prog):
    with served(byteledger, prog) as (url, _, _w):
        error = json.loads(fetch(url + "/debug/memory?top=3&tops=%225%22")[2])["error"]
        assert error == "there is no parameter 'tops' here, but top, format, group, sort, full, pid, addresses, since"
        assert fetch(url + "/debug/memory?top=3&")[0] == fetch(url + "/debug/memory?")[0] == 200
        assert fetch(url + "/metrics?some=thing")[0] == 200 # a scraper's own


def test_only_watched_processes_are_shown_and_only_to_local_names(byteledger, prog):
    with served(byteledger, prog) as (url, _, _w):
        assert fetch(url + "/debug/memory?pid=1")[0] == 404
        assert fetch(url + "/debug/memory/history?pid=1")[0] == 404
        for route in ("/debug/memory", "/debug/memory/history", "/debug/memory/diff", "/metrics"):
            assert fetch(url + route, {"Host": "evil.example"})[0] == 403
            assert fetch(url + route, {"Origin": "http://evil.example"})[0] == 403
            assert fetch(url + route, {"Sec-Fetch-Site": "cross-site"})[0] == 403
            assert fetch(url + route)[0] == 200


def test_histories_and_differences_are_served(byteledger, prog):
    with served(byteledger, prog, "--watch", "0.2", program=("leaker", "leak", "512", "50")) as (url, target, _):
        deadline = time.monotonic() + 60
        while True:
            history = json.loads(fetch(url + "/debug/memory/history")[2])
            # tier 0 keeps a sample in half a second at most
            if history["series"] and history["series"][0]["growth"]["points"] >= 8 or time.monotonic() > deadline:
                break
            time.sleep(0.2)
        whole = history["series"][0]
        assert whole["class"] is None and whole["growth"]["verdict"] == "growing", whole
        assert whole["growth"]["bytes_per_hour"] > 0 and whole["growth"]["confidence"] > 0.99
        assert "points" not in whole and history["runs"][0]["pid"] == target.pid
        anonymous = json.loads(fetch(url + "/debug/memory/history?class=anonymous")[2])["series"]
        assert anonymous and len(anonymous[0]["points"]) >= 8
        assert all(len(p) == 5 for p in anonymous[0]["points"])
        diff = json.loads(fetch(url + "/debug/memory/diff?a=-1h")[2])
        assert diff["rss_delta_bytes"] > 0 and diff["rows"][0]["class"] == "anonymous"
        # nothing was kept before the first sample: that is what was then, at either end
        before = json.loads(fetch(url + "/debug/memory/diff?a=-2h&b=-1h")[2])
        assert before["a_rss_bytes"] == before["b_rss_bytes"] == diff["a_rss_bytes"] > 0 and before["rows"] == []
        assert before["a_time_ns"] == before["b_time_ns"] == diff["a_time_ns"]
        for bad in ("history?from=x", "history?points=2", "diff?a=-", "diff?b=-5x", "history?to=5m", "diff?a=1e9",
                    "history?since=-5m", "diff?from=-5m"):
            assert fetch(f"{url}/debug/memory/{bad}")[0] == 400, bad


def families(text):
    """name -> (type, [(labels, value)]); every line is checked against the format."""
    found, current = {}, None
    for line in text.removesuffix("\n").split("\n"):
        if line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert name not in found
            current = found[name] = (kind, [])
        elif line.startswith("#"):
            assert line.startswith(("# HELP ", "# UNIT ")), line
        else:
            match = re.fullmatch(r'([a-z_]+)(?:\{((?:[a-z]+="(?:[^"\\]|\\.)*",?)*)\})? (-?[0-9.e+-]+|\+Inf)', line)
            assert match and current is not None, line
            current[1].append((dict(re.findall(r'([a-z]+)="((?:[^"\\]|\\.)*)"', match[2] or "")), match[3]))
    return found


def test_metrics_serve_the_last_sample(byteledger, prog):
    with served(byteledger, prog) as (url, target, _):
        fetch(url + "/debug/memory")
        status, headers, text = fetch(url + "/metrics")
        assert status == 200 and headers["Content-Type"].startswith("text/plain; version=0.0.4")
        found = families(text)
        resident = sum(int(v) for _, v in found["byteledger_resident_bytes"][1])
        assert abs(resident - int(found["process_resident_memory_bytes"][1][0][1])) < 1 << 20
        assert all(labels["pid"] == str(target.pid) for _, rows in found.values() for labels, _ in rows)
        assert found["byteledger_allocator_live_bytes"][1]
        for name, (kind, _) in found.items():
            assert (kind == "counter") == name.endswith("_total"), name


def test_metrics_of_many_labels_are_bounded(byteledger, prog, tmp_path):
    # three hundred files under names that no rule folds together
    names = tmp_path / "names"
    names.mkdir()
    script = ("import mmap,sys,os\nkeep=[]\nw='abcdefghijklmnopqrstuvwxyz'\nfor i in range(300):\n"
              " p=sys.argv[1]+'/'+w[i%26]+w[i//26%26]+w[i*7%26]+'.'+w[i//26%26]+w[i%26]+'x'\n f=open(p,'wb+')\n f.truncate(8192)\n"
              " m=mmap.mmap(f.fileno(),8192)\n m[0]=1\n keep.append(m)\nprint('ready',flush=True)\nsys.stdin.read()\n")
    with Program("/usr/bin/python3", "-c", script, str(names)) as target, \
            Watch(byteledger, target.pid, "--serve", "127.0.0.1:0") as watch:
        url = watch.url()
        deadline = time.monotonic() + 30
        text = fetch(url + "/metrics")[2]
        while "byteledger_resident_bytes{" not in text and time.monotonic() < deadline:
            text = fetch(url + "/metrics")[2]
        rows = families(text)["byteledger_resident_bytes"][1]
        assert len(rows) == 51 and any(labels["label"] == "other" for labels, _ in rows)


def test_two_hundred_slow_clients_keep_nobody_out(byteledger, prog):
    with served(byteledger, prog) as (url, _, watch):
        port = int(url.rsplit(":", 1)[1])

        def memory():
            with open(f"/proc/{watch.child.pid}/statm", encoding="ascii") as file:
                return int(file.read().split()[1]) * 4096

        before = memory()
        slow = []
        try:
            for _ in range(200):
                s = socket.create_connection(("127.0.0.1", port), timeout=30)
                slow.append(s)
                with contextlib.suppress(OSError): # those that make room are closed
                    s.sendall(b"GET /debug/memory HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ")
            for _ in range(5):
                assert fetch(url + "/metrics")[0] == 200
                for s in slow: # never silent for long
                    with contextlib.suppress(OSError):
                        s.sendall(b"x")
            assert memory() - before < 64 << 20
        finally:
            for s in slow:
                s.close()


def test_a_watch_goes_on_when_the_main_thread_ends(byteledger, prog):
    with subprocess.Popen([prog("outlived"), "24"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout.readline() == b"ready\n"
        with Watch(byteledger, child.pid, "--watch", "0.1") as watch:
            watch.wait_line("^[0-9]{2}:[0-9]{2}:[0-9]{2} ", watch.out)
            child.stdin.write(b"x")
            child.stdin.flush()
            assert child.stdout.readline() == b"alone\n"
            first = len(watch.out)
            with watch.seen: # a reading that began before the end, and some behind it
                assert watch.seen.wait_for(lambda: len(watch.out) >= first + 12, 60), watch.lines
            assert all(float(line.split()[1]) > 24 for line in watch.out[1:first + 12]), watch.out
            child.stdin.close()
            assert child.wait(60) == 3
            assert watch.finish() == 0


@pytest.mark.parametrize("period", ["0.2", "3600"])
def test_the_end_of_a_process_ends_its_watch_at_once(byteledger, prog, period):
    with Program(prog("leaker"), "steady", "64", "20") as target, Watch(byteledger, target.pid, "--watch", period) as watch:
        watch.wait_line("^[0-9]{2}:[0-9]{2}:[0-9]{2} ", watch.out)
        target.child.kill()
        target.child.wait()
        assert watch.finish() == 0
        watch.wait_line("has ended|does not exist")
        assert period == "3600" or any("over" in line and "trend" in line for line in watch.out)


def test_duration_and_signals_end_a_watch_with_0(byteledger, prog):
    with Program(prog("leaker"), "steady", "64", "20") as target:
        done = subprocess.run([byteledger, "regions", "-p", str(target.pid), "--watch", "0.1", "--duration", "1s", "--format", "json"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        assert rows and all(r["pid"] == target.pid for r in rows)
        for number in (signal.SIGINT, signal.SIGTERM):
            with Watch(byteledger, target.pid, "--watch", "0.1") as watch:
                watch.wait_line("^[0-9]{2}:[0-9]{2}:[0-9]{2} ", watch.out)
                watch.child.send_signal(number)
                assert watch.finish() == 0


def test_a_leak_alerts_and_a_sawtooth_does_not(byteledger, prog):
    rule = ["--watch", "0.5", "--alert", "rate>100K/min for 5s"]
    with Program(prog("leaker"), "leak", "64", "100") as leak, Watch(byteledger, leak.pid, *rule, "--on-alert", "exit") as watch, \
            Program(prog("leaker"), "sawtooth", "256", "20") as saw, \
            Watch(byteledger, saw.pid, *rule, "--duration", "12s") as quiet:
        assert watch.finish(120) == 3
        watch.wait_line(r"alert: rate>100K/min for 5s: the process grows by .* a minute")
        assert quiet.finish(120) == 0
        assert not [line for line in quiet.lines if "alert" in line]


def test_alert_actions_get_values_and_no_shell_text(byteledger, prog, tmp_path):
    posts = []

    class Hook(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            posts.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with Program(prog("leaker"), "steady", "4096", "20") as target, \
                Watch(byteledger, target.pid, "--alert", "rss>1M", "--on-alert",
                      "exec:env | grep ^BYTELEDGER_ALERT >got; echo printed; grep ^Sig /proc/self/status >signals; exit 3",
                      "--on-alert", f"post:http://127.0.0.1:{server.server_port}/hook", "--on-alert", "snapshot",
                      "--on-alert", "exit", cwd=tmp_path) as watch:
            assert watch.finish() == 3
            # what the command prints is no result, and it starts with the usual signals
            watch.wait_line("^printed$")
            assert "printed" not in watch.out
            signals = dict(line.split(":\t") for line in (tmp_path / "signals").read_text(encoding="utf-8").splitlines())
            assert int(signals["SigBlk"], 16) == 0 and not int(signals["SigIgn"], 16) >> (signal.SIGPIPE - 1) & 1
            got = dict(line.split("=", 1) for line in (tmp_path / "got").read_text(encoding="utf-8").splitlines())
            assert got["BYTELEDGER_ALERT_RULE"] == "rss>1M" and got["BYTELEDGER_ALERT_PID"] == str(target.pid)
            assert float(got["BYTELEDGER_ALERT_VALUE"]) > 1 << 20
            assert posts and posts[0]["rule"] == "rss>1M" and posts[0]["comm"] == "leaker"
            snapshot = json.loads((tmp_path / f"byteledger_leaker_{target.pid}.json").read_text(encoding="utf-8"))
            assert snapshot["pid"] == target.pid and snapshot["pss_bytes"]
            assert (tmp_path / f"byteledger_leaker_{target.pid}.json").stat().st_mode & 0o777 == 0o600
    finally:
        server.shutdown()
        server.server_close()


def test_a_history_survives_the_kill_of_its_watcher(byteledger, prog, tmp_path):
    path = str(tmp_path / "h")
    with Program(prog("leaker"), "leak", "256", "50") as target:
        for _ in range(2):
            with Watch(byteledger, target.pid, "--watch", "0.5", "--history", path) as watch:
                for count in range(3):
                    before = len(watch.out)
                    watch.wait_line(".", watch.out[before:] or watch.out)
                deadline = time.monotonic() + 60
                while len(watch.out) < 8 and time.monotonic() < deadline:
                    time.sleep(0.05)
                watch.child.kill()
                watch.finish()
        with Watch(byteledger, target.pid, "--watch", "0.5", "--history", path) as first:
            first.wait_line(".", first.out)
            second = subprocess.run([byteledger, "regions", "-p", str(target.pid), "--history", path], capture_output=True,
                                    text=True, timeout=60)
            assert second.returncode == 1 and "another watcher writes this history" in second.stderr
    shown = subprocess.run([byteledger, "regions", "--history", path, "--format", "json"], capture_output=True, text=True, timeout=60)
    assert shown.returncode == 0, shown.stderr
    history = json.loads(shown.stdout)
    assert len(history["runs"]) == 3 and history["runs"][0]["comm"] == "leaker"
    points = history["series"][0]["points"]
    assert len(points) >= 5  # looks half a second apart: those that come a little early are not kept
    assert [p[0] for p in points] == sorted(p[0] for p in points)
    assert points[-1][1] > points[0][1]
    table = subprocess.run([byteledger, "regions", "--history", path], capture_output=True, text=True, timeout=60)
    assert table.returncode == 0 and "the process" in table.stdout


def test_wrong_histories_and_rules_are_refused_in_a_line(byteledger, tmp_path):
    stranger = tmp_path / "stranger"
    stranger.write_bytes(b"precious data")
    done = subprocess.run([byteledger, "regions", "-p", str(os.getpid()), "--history", str(stranger)], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 1 and "is no history" in done.stderr and stranger.read_bytes() == b"precious data"
    for rule in ("rss", "rate>1", "eta<5", "mem>1G"):
        done = subprocess.run([byteledger, "regions", "-p", "1", "--alert", rule], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and "rules look like" in done.stderr, done.stderr
    done = subprocess.run([byteledger, "regions", "-p", "1", "--alert", "rss>1", "--on-alert", "post:file:///x"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    done = subprocess.run([byteledger, "regions", "-p", str(os.getpid()), "--serve", "0.0.0.0:0", "--duration", "1s"],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "token" in done.stderr


def test_many_mappings_are_read_as_often_as_the_budget_allows(byteledger, prog):
    with Program(prog("mapper"), "20000", "100") as target, Watch(byteledger, target.pid, "--watch", "0.5") as watch:
        said = watch.wait_line(r"a reading of (\d+) mappings takes ([0-9.]+) ms of CPU: one every ([0-9.]+) (s|min)")
        assert int(said[1]) >= 20000
        period = float(said[3]) * (60 if said[4] == "min" else 1)
        assert period >= float(said[2]) / 1000 / 0.005 * 0.9

        def looks():
            return [[int(n) for n in line.split()[0].split(":")] for line in watch.out if re.match("[0-9]{2}:", line)]

        # sums come at each look all the same
        with watch.seen:
            assert watch.seen.wait_for(lambda: len(looks()) >= 4, 60), watch.out
        first, fourth = (h * 3600 + m * 60 + s for h, m, s in (looks()[0], looks()[3]))
        assert (fourth - first) % 86400 < period
        watch.child.terminate()
        assert watch.finish() == 0


def test_promtool_accepts_the_metrics(byteledger, prog, installed):
    promtool = installed("promtool")
    with served(byteledger, prog) as (url, _, _w):
        fetch(url + "/debug/memory")
        text = fetch(url + "/metrics")[2]
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and not done.stdout and not done.stderr, done.stdout + done.stderr


def test_promtool_accepts_names_that_are_no_text(byteledger, installed, tmp_path):
    promtool = installed("promtool")
    # a name of every byte that may stand in one, in pieces short enough for a file system, and some that are UTF-8
    odd = [bytes(b for b in range(low, low + 64) if b and b != ord("/")) for low in range(0, 256, 64)]
    names = [*odd, b'a"b\\c\nd\\', "gr\u00fc\u00dfe \u2603 \U0001f600".encode(), b"cut \xe2\x98", b"long \xc0\xaf", b"half \xed\xa0\x80"]
    script = ("import mmap,os,sys\nkeep=[]\nfor name in os.listdir(os.fsencode(sys.argv[1])):\n"
              " f=open(os.path.join(os.fsencode(sys.argv[1]),name),'rb+')\n f.truncate(65536)\n m=mmap.mmap(f.fileno(),65536)\n"
              " m[:]=b'x'*65536\n keep.append(m)\nprint('ready',flush=True)\nsys.stdin.read()\n")
    folder = tmp_path / "names"
    folder.mkdir()
    for name in names:
        with open(os.path.join(os.fsencode(folder), name), "wb"):
            pass
    with Program("/usr/bin/python3", "-c", script, str(folder)) as target, \
            Watch(byteledger, target.pid, "--serve", "127.0.0.1:0") as watch:
        url = watch.url()
        deadline = time.monotonic() + 30
        while b"byteledger_resident_bytes{" not in (text := fetch_bytes(url + "/metrics")):
            assert time.monotonic() < deadline
        for full in (0, 1):
            if full:
                fetch_bytes(url + "/debug/memory?format=csv&full=1")  # the proportional family has names, too
                text = fetch_bytes(url + "/metrics")
            text.decode("utf-8")
            done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, timeout=60)
            assert done.returncode == 0 and not done.stdout and not done.stderr, done.stdout + done.stderr
        rows = [(labels["class"], labels["label"]) for labels, _ in families(text.decode("utf-8"))["byteledger_resident_bytes"][1]]
        labels = [label for _, label in rows]
        assert len(set(rows)) == len(rows) and any("\u2603" in label for label in labels), labels
        assert any(r"\\xff" in label for label in labels) and any(r"cut \\xe2\\x98" in label for label in labels), labels


@pytest.mark.large
def test_a_real_prometheus_scrapes_for_a_minute(byteledger, prog, installed, tmp_path):
    prometheus = installed("prometheus")
    with served(byteledger, prog) as (url, target, _):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        config = tmp_path / "prometheus.yml"
        config.write_text("global: {scrape_interval: 2s}\nscrape_configs:\n- job_name: byteledger\n  static_configs:\n"
                          f"  - targets: ['{url.split('//')[1]}']\n", encoding="utf-8")
        server = subprocess.Popen([prometheus, f"--config.file={config}", f"--storage.tsdb.path={tmp_path / 'data'}",
                                   f"--web.listen-address=127.0.0.1:{port}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            def ask(query):
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?query={query}", timeout=10) as answer:
                    return json.load(answer)["data"]["result"]

            deadline, scrapes = time.monotonic() + 150, 0
            while scrapes < 30 and time.monotonic() < deadline:
                time.sleep(2)
                with contextlib.suppress(OSError):
                    found = ask("count_over_time(up[5m])")
                    scrapes = int(found[0]["value"][1]) if found else 0
            assert scrapes >= 30
            assert ask("min_over_time(up[5m])")[0]["value"][1] == "1"
            rss = ask("process_resident_memory_bytes")
            assert rss[0]["metric"]["pid"] == str(target.pid) and int(rss[0]["value"][1]) > 1 << 20
        finally:
            server.terminate()
            server.wait()
