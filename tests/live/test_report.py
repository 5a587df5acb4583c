# SPDX-License-Identifier: Apache-2.0
"""One recording read by its summary, by replay and through selections: the same figures."""
import contextlib
import http.server
import json
import os
import shutil
import subprocess
import threading


def report(byteledger, path, *words):
    done = subprocess.run([byteledger, "report", "--format", "json", *words, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def recording(byteledger, folder):
    path = folder / "x.blt"
    script = "BEGIN { for (i = 0; i < 20000; i++) a[i % 700] = a[i % 700] i; for (k in a) n += length(a[k]); print n }"
    subprocess.run([byteledger, "run", "-q", "-o", str(path), "--", "gawk", script], check=True, stdout=subprocess.DEVNULL)
    return path


def test_rows_add_up_to_the_totals(byteledger, tmp_path):
    whole = report(byteledger, recording(byteledger, tmp_path))
    for key in ("allocations", "allocated_bytes", "temporary_allocations", "leaked_allocations", "leaked_bytes", "peak_bytes"):
        assert sum(row[key] for row in whole["rows"]) == whole["totals"][key], key
    assert whole["lost"]["events"] == 0
    assert whole["process"]["complete"] is True
    peaks = [row["peak_bytes"] for row in whole["rows"]]
    assert peaks == sorted(peaks, reverse=True)


def test_the_pool_that_libstdcxx_keeps_is_named(byteledger, prog, tmp_path):
    def text(program, *words):
        path = tmp_path / os.path.basename(program[0])
        if not path.exists():
            subprocess.run([byteledger, "run", "-q", "-o", str(path), "--", *program], check=True, stdout=subprocess.DEVNULL)
        done = subprocess.run([byteledger, "report", *words, str(path)], capture_output=True, text=True, check=True).stdout
        return [line for line in done.splitlines() if "emergency pool" in line]

    shown = text([prog("newdelete"), "1"])
    assert shown == text([prog("newdelete"), "1"], "--cost", "leaked")
    assert len(shown) == 1 and shown[0].startswith(("suppressed: 71.", "suppressed: 72."))  # by release; threads that were kept have theirs beside it
    assert text([prog("newdelete"), "1"], "--cost", "peak") == text([prog("newdelete"), "1"], "--no-suppress") == []
    assert text(["gawk", "BEGIN { }"]) == []


def test_a_replay_says_what_the_summary_says(byteledger, tmp_path):
    path = recording(byteledger, tmp_path)
    summary = report(byteledger, path)
    replayed = report(byteledger, path, "--lifetime-min", "0")  # true of every block, but only a replay knows
    assert replayed["totals"] == summary["totals"]
    assert replayed["rows"] == summary["rows"]


def test_what_was_live_at_the_peak_is_the_peak(byteledger, tmp_path):
    path = recording(byteledger, tmp_path)
    whole = report(byteledger, path)
    peak = report(byteledger, path, "--at", "peak")
    assert peak["totals"]["leaked_bytes"] == whole["totals"]["peak_bytes"]
    held = {json.dumps(r["frames"]): r["peak_bytes"] for r in whole["rows"] if r["peak_bytes"]}
    assert {json.dumps(r["frames"]): r["leaked_bytes"] for r in peak["rows"] if r["leaked_bytes"]} == held
    end = report(byteledger, path, "--at", "end")
    leaked = report(byteledger, path, "--leaked")
    assert end["totals"]["leaked_bytes"] == leaked["totals"]["leaked_bytes"] == whole["totals"]["leaked_bytes"]


def test_stored_symbols_make_a_recording_readable_elsewhere(byteledger, tmp_path):
    path = recording(byteledger, tmp_path)
    before = report(byteledger, path)
    assert any(f["function"] for r in before["rows"] for f in r["frames"])
    report(byteledger, path, "--store-symbols")
    after = report(byteledger, path)
    assert after == before
    info = subprocess.run([byteledger, "info", str(path)], capture_output=True, text=True).stdout
    assert "symbols" in info and "symbols                            0" not in info


def test_a_cut_recording_is_read_up_to_the_cut_and_says_so(byteledger, tmp_path):
    path = recording(byteledger, tmp_path)
    data = path.read_bytes()
    cut = tmp_path / "cut.blt"
    cut.write_bytes(data[: len(data) * 2 // 3])
    done = subprocess.run([byteledger, "report", "--format", "json", str(cut)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "ends early" in done.stderr
    assert json.loads(done.stdout)["process"]["complete"] is False


def test_a_pipe_is_refused_with_a_hint_and_not_waited_for(byteledger, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for command in (["report"], ["info"], ["export", "--to", "csv"], ["import", "-o", str(tmp_path / "x.blt")]):
        for path, given in ((str(tmp_path / "fifo"), None), ("/dev/stdin", b"89504")):
            done = subprocess.run([byteledger, *command, path], input=given, capture_output=True, timeout=120)
            assert done.returncode == 1 and done.stdout == b"", command
            assert done.stderr.decode().startswith(f"byteledger: cannot read '{path}': a pipe can be read only once\nhint: ")
    assert os.listdir(tmp_path) == ["fifo"]


@contextlib.contextmanager
def server(answer):
    """A debuginfod server on loopback; its requests' paths are listed. @answer(path) gives bytes, None for 404."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            content = answer(self.path)
            self.send_response(404 if content is None else 200)
            self.send_header("Content-Length", str(len(content or b"")))
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, *args):
            pass
    listening = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=listening.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{listening.server_port}", asked
    finally:
        listening.shutdown()
        listening.server_close()


def stripped(prog, byteledger, folder):
    """A recording of a program without symbols, and the symbols."""
    exe = str(folder / "program")
    shutil.copy(prog("temporaries"), exe)
    with open(exe, "rb") as file:
        symbols = file.read()
    subprocess.run(["strip", exe], check=True)
    subprocess.run([byteledger, "run", "-q", "-o", str(folder / "s.blt"), "--", exe, "100"], check=True,
                   stdout=subprocess.DEVNULL, cwd=folder)
    return str(folder / "s.blt"), symbols


def report_with(byteledger, path, folder, url, **more):
    env = {**os.environ, "DEBUGINFOD_URLS": url, "DEBUGINFOD_CACHE_PATH": str(folder / "cache"), **more}
    done = subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stderr
    functions = {f["function"] for row in json.loads(done.stdout)["rows"] for f in row["frames"] if f["module"] == "program"}
    return functions, done.stderr


def test_names_come_from_a_debuginfod_server(byteledger, prog, tmp_path):
    path, symbols = stripped(prog, byteledger, tmp_path)
    with server(lambda asked: symbols) as (url, asked):
        functions, errors = report_with(byteledger, path, tmp_path, url)
    assert asked and "main" in functions and errors == ""


def test_a_debuginfod_server_that_says_nothing_is_asked_once(byteledger, prog, tmp_path):
    """Its client would wait 90 seconds, three times, for each of the objects."""
    path, _ = stripped(prog, byteledger, tmp_path)
    over = threading.Event()
    with server(lambda asked: over.wait(300) and None) as (url, asked):
        functions, errors = report_with(byteledger, path, tmp_path, url, DEBUGINFOD_TIMEOUT="1")
        over.set()
    assert "main" not in functions
    assert len(asked) == 1
    assert errors.startswith("byteledger: no answer from a debuginfod server: ") and "\nhint: " in errors
    assert errors.count("\n") == 2


def test_an_empty_argument_is_seen_in_the_head(byteledger, tmp_path):
    path = str(tmp_path / "x.blt")
    subprocess.run([byteledger, "run", "-q", "-o", path, "--", "/bin/true", "a", "", "b", ""], check=True, timeout=60)
    head = subprocess.run([byteledger, "report", path], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()[0]
    assert "/bin/true a '' b ''" in head
    massif = subprocess.run([byteledger, "export", "--to", "massif", path], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "cmd: /bin/true a '' b ''\n" in massif
