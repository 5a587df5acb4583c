# SPDX-License-Identifier: Apache-2.0
"""The answers that people look for first: which line, who asked, what was alive when the heap was largest."""
import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time

SOURCE = os.path.join(os.path.dirname(__file__), "..", "prog", "answers.c")


def line_of(mark):
    """The line of answers.c that says @mark."""
    with open(SOURCE, encoding="utf-8") as f:
        return next(i for i, text in enumerate(f, 1) if mark in text and "/*" in text)


def text(recording, *words, width=100, env=None):
    done = subprocess.run([recording.program, "report", recording.path, *words], capture_output=True, text=True,
                          env={**os.environ, "COLUMNS": str(width), "LC_ALL": "C.UTF-8", **(env or {})})
    assert done.returncode == 0, done.stderr
    return done.stdout


def section(page, title):
    """The lines of one section, up to the empty one behind it."""
    lines = page.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith(title + "  ") and not lines[i - 1])
    return lines[first + 1:lines.index("", first) if "" in lines[first:] else len(lines)]


def test_two_calls_of_one_function_are_two_rows_with_their_own_lines(record, prog):
    recording = record([prog("answers")])
    rows = section(text(recording), "Peak")
    assert "100 MiB" in rows[0] and f"work  answers.c:{line_of('line large')}" in rows[0]
    small = section(text(recording, "--cost", "allocations", "--max-size", "16"), "Allocations")
    assert any(f"work  answers.c:{line_of('line small')}" in row and "16 B" in row for row in small)


def test_rows_that_look_alike_say_where_they_differ(record, prog):
    rows = section(text(record([prog("answers")])), "Peak")
    for amount, mark in (("3.00 MiB", "line first"), ("4.00 MiB", "line second")):
        at = next(i for i, row in enumerate(rows) if amount in row)
        assert "cache" in rows[at] and "via zmalloc" in rows[at]
        assert rows[at + 1].split() == ["←", "main", f"answers.c:{line_of(mark)}"]


def test_rows_of_a_function_that_calls_itself_say_how_deep(record, tmp_path):
    source = tmp_path / "deep.c"
    source.write_text("#include <stdlib.h>\nstatic void *dive(int n) { void *volatile p = n ? dive(n - 1) : malloc(1 << 20); return p; }\n"
                      "int main(void) { for (int i = 10; i <= 40; i += 10) dive(i); return 0; }\n")
    subprocess.run(["gcc", "-g", "-O1", "-fno-inline", "-fno-optimize-sibling-calls", "-o", tmp_path / "deep", source], check=True)
    rows = section(text(record([tmp_path / "deep"])), "Peak")
    shown = [rows[i] + rows[i + 1] for i, row in enumerate(rows) if "dive" in row and "1.00 MiB" in row]
    assert len(shown) == 4 and len(set(shown)) == 4, rows
    assert all(len(row) <= 100 for row in rows)


def test_groups_have_what_is_their_own_and_what_comes_through_them(record, prog):
    recording = record([prog("answers")])
    rows = {row["frames"][0]["function"]: row for row in recording.report("--by", "function")["rows"]}
    assert rows["cache"]["peak_bytes"] == 7 << 20 == rows["zmalloc"]["inclusive_peak_bytes"]
    assert rows["zmalloc"]["peak_bytes"] == 0
    assert rows["walk"]["peak_bytes"] == rows["walk"]["inclusive_peak_bytes"] == 5000
    assert rows["walk"]["inclusive_allocations"] == 5
    totals = recording.report()["totals"]
    for key in ("peak_bytes", "allocations", "allocated_bytes", "temporary_allocations", "peak_allocations"):
        assert rows["main"]["inclusive_" + key] == totals[key], key
        assert sum(row[key] for row in rows.values()) == totals[key], key
    by_inclusive = recording.report("--by", "function", "--sort", "inclusive")["rows"]
    figures = [row["inclusive_peak_bytes"] for row in by_inclusive]
    assert figures == sorted(figures, reverse=True)


def test_wrappers_are_named_by_pattern_or_not_at_all(record, prog):
    recording = record([prog("answers")])

    def own(*words):
        rows = recording.report("--by", "function", *words)["rows"]
        return {row["frames"][0]["function"]: row["peak_bytes"] for row in rows if row["peak_bytes"]}
    assert "zmalloc" not in own() and own()["cache"] == 7 << 20
    assert own("--no-skip")["zmalloc"] == 7 << 20 and "cache" not in own("--no-skip")
    assert own("--skip", "^cache$")["main"] == 7 << 20
    hidden = [[frame["function"] for frame in row["frames"] if frame.get("hidden")] for row in recording.report()["rows"]]
    assert hidden.count(["zmalloc"]) == 2 and all(names in ([], ["zmalloc"]) for names in hidden)


def test_no_row_of_a_table_is_empty(record, prog):
    recording = record([prog("answers")])
    for by in ("function", "file", "line", "module"):
        for cost in ("leaked", "peak"):
            page = text(recording, "--by", by, "--cost", cost)
            assert not [line for line in page.splitlines() if line.startswith("      0 B     0 %")], page


def test_what_stands_under_peak_was_alive_then(record, prog):
    recording = record([prog("answers")])
    page = recording.report()
    churn = [row for row in page["rows"] if any(frame["function"] == "churn" for frame in row["frames"])]
    assert [row["allocations"] for row in churn] == [5000] and churn[0]["peak_allocations"] == 0
    assert page["totals"]["peak_allocations"] == sum(row["peak_allocations"] for row in page["rows"]) == 9
    assert "1 block" in section(text(recording), "Peak")[0]


def test_what_lives_while_the_recording_goes_on_is_no_leak(byteledger, prog, tmp_path):
    path = tmp_path / "x.blt"
    child = subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", prog("answers"), "sleep", "30"],
                             stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout.readline() == "ready\n"
        deadline = time.monotonic() + 20
        page = {}
        while time.monotonic() < deadline and page.get("totals", {}).get("live_bytes", 0) < 107 << 20:
            done = subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, text=True)
            page = json.loads(done.stdout) if done.returncode == 0 else {}
        assert page["process"]["being_written"] is True and page["process"]["complete"] is False
        assert page["totals"]["leaked_allocations"] == page["totals"]["leaked_bytes"] == 0
        assert page["totals"]["live_bytes"] == page["totals"]["peak_bytes"] > 107 << 20
        shown = subprocess.run([byteledger, "report", path], capture_output=True, text=True).stdout
        assert "Live now" in shown and "the recording goes on" in shown and "Leaked" not in shown
    finally:
        child.terminate()
        child.wait(20)


def test_what_lives_where_the_recording_ends_before_the_program_is_no_leak(byteledger, prog, tmp_path):
    """`--duration`, and `heap -p`: it holds its blocks yet. It was told to have leaked them."""
    path = tmp_path / "x.blt"
    child = subprocess.Popen([byteledger, "heap", "-q", "--duration", "1s", "-o", path, "--", prog("answers"), "sleep", "30"],
                             stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert child.wait(60) == 0
        shown = subprocess.run([byteledger, "report", path], capture_output=True, text=True).stdout
        page = json.loads(subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, text=True).stdout)
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.stdout.close()
    assert ", went on, " in shown and "Live at end" in shown and "the program went on" in shown and "Leaked" not in shown, shown
    assert page["process"]["went_on"] is True and "exit_status" not in page["process"]


# ---- what was typed ----------------------------------------------------------------------------------------------------

def said(*argv, **more):
    return subprocess.run([str(a) for a in argv], capture_output=True, text=True, **{"timeout": 60, **more})


def test_clock_times_are_those_of_the_recording(byteledger, record, prog):
    recording = record([prog("answers"), "sleep", "3"])
    start = recording.report()["process"]["start_realtime_ns"] / 1e9
    second = time.localtime(start + 2)
    for form in ("%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%H:%M", "%Y-%m-%dT%H:%M:%S"):
        live = recording.report("--at", time.strftime(form, second))["totals"]["live_bytes"]
        assert live > 107 << 20 or form == "%H:%M", form  # the last minute's end is the recording's
    assert recording.report("--from", time.strftime("%H:%M:%S", second))["totals"]["allocations"] == 0
    for outside in ("50", "9999s", "-9999s", "00:00" if second.tm_hour else "12:00", "2001-01-01 10:00", "2001-01-01T10:00:00Z"):
        for option in ("--at", "--from", "--to"):
            done = said(byteledger, "report", recording.path, option, outside)
            assert done.returncode == 1 and not done.stdout
            first, hint = done.stderr.splitlines()
            assert first == f"byteledger: '{outside}' lies outside of the recording"
            assert hint.startswith("hint: it goes from 0 to 3.") and time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(start)) in hint
    assert "per cent are written 50%" in said(byteledger, "report", recording.path, "--at", "50").stderr
    assert recording.report("--at", "50%")["totals"]["live_bytes"] > 107 << 20


def test_what_cannot_be_written_stops_before_the_program_starts(byteledger, tmp_path):
    started = tmp_path / "started"
    for words in (("-o", "/nonexistent/x.blt"), ("--report", "/nonexistent/r.txt"), ("-o", "/proc/x.blt"),
                  ("-o", "/dev/null")):
        done = said(byteledger, "run", *words, "--", "touch", started, cwd=tmp_path)
        assert done.returncode == 1 and not started.exists(), words
        assert len(done.stderr.splitlines()) == 2 and words[1] in done.stderr
    done = said(byteledger, "run", "-o", "none/", "--", "touch", started, cwd=tmp_path)
    assert (done.returncode, done.stderr.splitlines()) == (1, [
        "byteledger: cannot create a recording like 'none/': No such file or directory",
        "hint: the program was not started; make that folder first"]) and not started.exists()
    assert os.listdir(tmp_path) == []


def test_recordings_go_into_a_folder_that_is_named(byteledger, tmp_path):
    (tmp_path / "family").mkdir()
    said(byteledger, "run", "-q", "-o", "family", "--follow-children", "--", "sh", "-c", "ls; ls", cwd=tmp_path)
    files = os.listdir(tmp_path / "family")
    assert sorted(name.split("_")[1] for name in files)[1:] == ["ls", "ls"] and os.listdir(tmp_path) == ["family"]
    tree = said(byteledger, "report", "--tree", tmp_path / "family" / files[0])
    assert tree.returncode == 0 and "ls" in tree.stdout


def test_a_report_of_its_own_is_not_mixed_with_what_the_program_says(byteledger, tmp_path):
    done = said(byteledger, "run", "-o", tmp_path / "x.blt", "--format", "json", "--report", tmp_path / "r.json", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert json.loads((tmp_path / "r.json").read_text())["version"] == 1
    assert said(byteledger, "run", "-q", "-o", tmp_path / "y.blt", "--report", tmp_path / "r.txt", "--", "echo", "x").stdout == "x\n"
    assert "Peak heap" in (tmp_path / "r.txt").read_text()


def test_damage_is_said_first_by_every_view(byteledger, record, tmp_path):
    recording = record(["gawk", "BEGIN { for (i = 0; i < 60000; i++) a[i] = i \"x\" i }"])
    data = bytearray(open(recording.path, "rb").read())
    at, events = 0, []
    while (at := data.find(b"\x8fLTBlock", at)) >= 0:  # docs/format.md: type, how many bytes follow the header
        if data[at + 8] == 2:
            events.append((int.from_bytes(data[at + 20:at + 24], "little"), at))
        at += 8
    stored, at = max(events)
    data[at + 48 + stored // 2] ^= 0x40
    path = tmp_path / "bad.blt"
    path.write_bytes(data)
    for command in (["report"], ["report", "--by", "function"], ["report", "--cost", "leaked"]):
        done = said(byteledger, *command, path)
        assert done.returncode == 0 and "is damaged" in done.stderr
        assert any("LOST: " in line and "file_damaged" in line for line in done.stdout.splitlines()[:4])
    lost = json.loads(said(byteledger, "report", "--format", "json", path).stdout)["lost"]
    assert lost["events"] > 0 and lost["by_reason"]["file_damaged"] == lost["events"]
    for words in (["report", "--format", "csv"], ["export", "--to", "folded"], ["export", "--to", "pprof", "-o", "/dev/null"]):
        assert "is damaged" in said(byteledger, *words, path).stderr, words
    whole, bad = said(byteledger, "info", recording.path), said(byteledger, "info", path)
    assert whole.returncode == 0 and bad.returncode == 1
    assert "DAMAGED" in bad.stdout and "is damaged" in bad.stderr


def test_options_end_at_the_program(byteledger, tmp_path):
    done = said(byteledger, "run", "-q", "-o", tmp_path / "x.blt", "echo", "-n", "--format", "-o", "y")
    assert (done.returncode, done.stdout) == (0, "--format -o y")
    for command in ("run", "heap"):
        done = said(byteledger, command, "-q", "-o", tmp_path / f"{command}.blt", "sh", "-c", "exit 7")
        assert done.returncode == 7 and (tmp_path / f"{command}.blt").exists()
    assert "RSS" in said(byteledger, "regions", "sleep", "2").stderr


def test_the_nearest_name_is_offered(byteledger):
    for words, nearest in ((["reprot"], "'report'"), (["exprot"], "'export'"), (["report", "--lmit", "3", "x"], "'--limit'"),
                           (["run", "--fromat", "json", "true"], "'--format'"), (["report", "--minsize=3", "x"], "'--min-size'")):
        done = said(byteledger, *words)
        assert done.returncode == 2 and f"hint: did you mean {nearest}?" in done.stderr, (words, done.stderr)
    for words in (["zzzzzz"], ["report", "--qqqqqqq", "x"], ["report", "-Z", "x"]):
        assert "did you mean" not in said(byteledger, *words).stderr


def test_every_command_has_short_help_without_boilerplate(byteledger):
    commands = [line.split()[0] for line in said(byteledger, "-h").stdout.split("Commands:")[1].splitlines() if line.startswith("  ")]
    assert len(commands) > 8
    for command in commands:
        short, long = said(byteledger, command, "-h"), said(byteledger, command, "--help")
        assert short.returncode == 0 and short.stdout == long.stdout and f"Usage: byteledger {command}" in long.stdout
        assert "Mandatory" not in long.stdout


def test_signals_have_names(byteledger, prog, tmp_path):
    done = said(byteledger, "run", "-o", tmp_path / "x.blt", prog("answers"), "abort")
    assert done.returncode == 134 and "killed by SIGABRT (6)" in done.stderr


def test_a_place_is_never_cut_away(record, prog, tmp_path):
    source = tmp_path / "a_source_file_with_a_rather_long_name.cpp"
    source.write_text("""#include <cstdlib>
namespace a_company { namespace its_product { namespace a_part_of_it {
template <class T> struct a_class_with_a_long_name { static void *a_function_that_allocates(unsigned long n) {
	void *p = malloc(n); __asm__ volatile("" ::"r"(p) : "memory"); return p; } };
} } }
int main() { a_company::its_product::a_part_of_it::a_class_with_a_long_name<int>::a_function_that_allocates(1 << 20); }
""")
    subprocess.run(["g++", "-g", "-O0", "-o", tmp_path / "x", source], check=True)
    recording = record([tmp_path / "x"])
    for width in (60, 80, 120):
        rows = section(text(recording, width=width), "Peak")
        shown = "\n".join(rows)
        assert "cpp:4" in shown and all(len(row) <= width for row in rows), shown
        assert width < 80 or "a_source_file_with_a_rather_long_name.cpp:4" in shown
        line = text(recording, "--by", "line", width=width)
        assert "long_name.cpp:4" in line


def test_the_head_of_a_report_loses_no_word_where_it_is_narrow(byteledger, tmp_path):
    stripped = tmp_path / "without_names"
    (tmp_path / "x.c").write_text("#include <stdlib.h>\nint main(void) { void *volatile p = malloc(1 << 20); (void)p; abort(); }\n")
    subprocess.run(["gcc", "-s", "-O1", "-o", stripped, tmp_path / "x.c"], check=True)
    done = subprocess.run([byteledger, "heap", "-q", "-o", tmp_path / "x.blt", "--", stripped], capture_output=True, timeout=60)
    assert done.returncode == 134, done.stderr
    for width in (60, 80, 100, 200):
        page = subprocess.run([byteledger, "report", tmp_path / "x.blt"], capture_output=True, text=True, timeout=60,
                              env={**os.environ, "COLUMNS": str(width), "LC_ALL": "C.UTF-8"}).stdout
        lines = page.splitlines()
        assert all(len(line) <= width for line in lines), page
        whole = " ".join(page.split())
        assert re.search(r"killed by SIGABRT \(6\), recording incomplete, 20\d\d-\d\d-\d\d \d\d:\d\d:\d\d ", whole), page
        assert re.search(r"Few names in without_names \(.*\): debug symbols \(-dbgsym packages\) or DEBUGINFOD_URLS give them", whole), page


def on_a_terminal(argv, rows, columns, **env):
    """What a terminal of that size shows of a command, and its status."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    process = subprocess.Popen(argv, stdin=slave, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm", "NO_COLOR": "1", **env})
    os.close(slave)
    shown = b""
    try:
        while part := os.read(master, 65536):
            shown += part
    except OSError:  # everybody has closed the other end
        pass
    os.close(master)
    return shown.decode().replace("\r\n", "\n"), process.wait(60)


def test_a_long_report_goes_through_the_pager_of_a_terminal_only(byteledger, record, prog):
    argv = [byteledger, "report", record([prog("answers")]).path]
    plain, status = on_a_terminal([*argv, "--no-pager"], 10, 80, PAGER="sed s/^/paged:/")
    assert status == 0 and "paged:" not in plain and len(plain.splitlines()) > 10
    paged, status = on_a_terminal(argv, 10, 80, PAGER="sed s/^/paged:/")
    assert status == 0 and paged == "".join(f"paged:{line}\n" for line in plain.splitlines())
    # what fits is not paged; neither is anything without a pager, with one that is not there, or into a pipe
    for rows, pager in (500, "sed s/^/paged:/"), (10, ""), (10, "cat"):
        assert on_a_terminal(argv, rows, 80, PAGER=pager) == (plain, 0)
    shown, status = on_a_terminal(argv, 10, 80, PAGER="no-such-pager-here")
    assert status == 0 and shown.endswith(plain)
    # one that ends early is no error
    assert on_a_terminal(argv, 10, 80, PAGER="head -n 1") == (plain.splitlines()[0] + "\n", 0)
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, "PAGER": "sed s/^/paged:/"}, timeout=60)
    assert done.returncode == 0 and "paged:" not in done.stdout


# ---- leaks that nobody wants to hear of, and limits ---------------------------------------------------------------------

def test_what_runtimes_never_free_is_one_line(byteledger, record, prog, tmp_path):
    recording = record([prog("newdelete"), "1"])
    page = text(recording)
    pool = re.search(r"suppressed: (7[12])\.", page)[1]  # KiB, by release of libstdc++
    lines = [line for line in page.splitlines() if line.startswith(f"suppressed: {pool}.")]
    assert len(lines) == 1 and "libstdc++'s emergency pool" in lines[0] and " KiB suppressed" in page
    assert not [row for row in section(page, "Leaked") if row.startswith(f" {pool}.0 KiB")]
    whole = text(recording, "--no-suppress")
    assert "suppressed" not in whole and [row for row in section(whole, "Leaked") if row.startswith(f" {pool}.0 KiB")]
    machine = recording.report()
    assert machine["suppressed"]["bytes"] >= 72704 and machine["suppressed"]["applied"] is False
    assert sum(row["leaked_bytes"] for row in machine["rows"]) == machine["totals"]["leaked_bytes"]


def test_patterns_suppress_leaks_and_nothing_else(byteledger, record, prog, tmp_path):
    recording = record([prog("answers"), "leak", "123456"])
    rules = tmp_path / "known.supp"
    rules.write_text("# known since 2019\nleak:^main$\n")
    before, after = recording.report(), recording.report("--suppress", str(rules))
    assert before["totals"]["leaked_bytes"] == 123456 and after["totals"]["leaked_bytes"] == 0
    assert after["suppressed"]["rules"] == [{"pattern": "^main$", "built_in": False, "allocations": 1, "bytes": 123456}]
    for key in ("peak_bytes", "allocations", "allocated_bytes", "frees", "temporary_allocations"):
        assert before["totals"][key] == after["totals"][key]
    folded = said(byteledger, "export", "--to", "folded", "--cost", "leaked", "--suppress", rules, recording.path)
    assert "123456" not in folded.stdout and "suppressed: 121 KiB of leaks in 1 block" in folded.stderr
    rules.write_text("leak:main\nthread:x\n")
    done = said(byteledger, "report", "--suppress", rules, recording.path)
    assert done.returncode == 1 and "no suppression in line 2" in done.stderr and not done.stdout
    started = tmp_path / "started"
    assert said(byteledger, "run", "--suppress", rules, "touch", started, cwd=tmp_path).returncode == 1
    assert not started.exists()


def test_limits_fail_a_run_and_say_why(byteledger, prog, tmp_path):
    rules = tmp_path / "known.supp"
    rules.write_text("leak:main\n")

    def run(*words, program=("leak", "5000")):
        done = said(byteledger, "run", "-q", "-o", tmp_path / "x.blt", *words, prog("answers"), *program)
        return done.returncode, done.stderr.splitlines()

    assert run("--fail-if", "peak>200M", "--fail-if", "leaked>1M", "--fail-if", "rss>1G") == (0, [])
    assert run("--fail-if", "leaked>4999") == (3, ["byteledger: failed: leaked>4999: it is 4.88 KiB (5,000 bytes)"])
    assert run("--fail-if", "leaked>=5000")[0] == 3 and run("--fail-if", "leaked>5000")[0] == 0
    assert run("--fail-if", "leaked>0", "--suppress", rules) == (0, [])
    status, lines = run("--fail-if", "peak > 100M", "--fail-if", "allocations>5k", "--fail-if", "temporary>99%", "--fail-if", "rss>1G")
    assert status == 3 and [line.split(":")[2] for line in lines] == [" peak > 100M", " allocations>5k", " temporary>99%"]
    assert run("--fail-if", "peak>1G", program=("abort",))[0] == 134
    for bad in ("peek>1", "peak<1", "peak>", "peak>1%", "leaked", "allocations>x"):
        assert run("--fail-if", bad)[0] == 2, bad


def test_the_examples_for_continuous_integration_run(byteledger, prog, tmp_path):
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "ci.md"), encoding="utf-8") as f:
        source = f.read().split("```python\n")[1].split("```")[0]
    (tmp_path / "import").symlink_to(prog("answers"))
    (tmp_path / "test_import.py").write_text(source)
    env = {**os.environ, "PATH": os.path.dirname(byteledger) + ":" + os.environ["PATH"]}
    done = said("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_import.py", cwd=tmp_path, env=env)
    assert done.returncode == 0, done.stdout
    (tmp_path / "test_import.py").write_text(source.replace("200M", "2M"))
    done = said("python3", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_import.py", cwd=tmp_path, env=env)
    assert done.returncode == 1 and "byteledger: failed: peak>2M" in done.stdout


def test_the_ctest_example_runs_as_it_stands(byteledger, installed, tmp_path):
    installed("cmake"), installed("ctest")
    with open(os.path.join(os.path.dirname(__file__), "..", "..", "docs", "ci.md"), encoding="utf-8") as f:
        page = f.read()
    example, rules = page.split("```cmake\n")[1].split("```")[0], page.split("```\n")[1].split("```")[0]
    (tmp_path / "data.csv").write_text("1\n")
    (tmp_path / "memory.supp").write_text(rules)
    for source, passes in (("free(malloc(1000));", True), ("*(void *volatile *)malloc(8) = malloc(1000);", False)):
        (tmp_path / "import.c").write_text("#include <stdlib.h>\nint main(void) { " + source + " return 0; }\n")
        (tmp_path / "CMakeLists.txt").write_text("cmake_minimum_required(VERSION 3.13)\nproject(example C)\nenable_testing()\n"
                                                 "add_executable(import import.c)\n" + example)
        env = {**os.environ, "PATH": os.path.dirname(byteledger) + ":" + os.environ["PATH"]}
        for words in ["cmake", "-S", ".", "-B", "b"], ["cmake", "--build", "b"]:
            subprocess.run(words, cwd=tmp_path, env=env, check=True, capture_output=True, timeout=100)
        done = said("ctest", "--output-on-failure", cwd=tmp_path / "b", env=env)
        assert (done.returncode == 0) is passes and (passes or "byteledger: failed: leaked>0: it is" in done.stdout), done.stdout


def test_a_recording_keeps_its_names_when_the_program_is_built_anew(byteledger, record, tmp_path):
    source, program = tmp_path / "x.c", tmp_path / "x"

    def build(name):
        source.write_text(f"""#include <stdlib.h>
__attribute__((noinline)) void *{name}(void) {{ void *p = malloc(100000); __asm__ volatile("" ::"r"(p) : "memory"); return p; }}
int main(void) {{ return {name}() == 0; }}
""")
        subprocess.run(["gcc", "-g", "-o", program, source], check=True)

    build("as_it_was")
    kept, bare = record([program]), record([program], options=["--no-store-symbols"])
    for one in kept, bare:
        assert "has changed" not in said(byteledger, "report", one.path).stderr
    build("as_it_is")
    for options in (), ("--by", "function"), ("--format", "json"):
        shown = said(byteledger, "report", kept.path, *options)
        assert shown.stderr.count("has changed") == 1, shown.stderr
        assert f"'{program}' has changed since it was recorded: names and lines are those of then" in shown.stderr
    shown = said(byteledger, "report", kept.path)
    assert "as_it_was  x.c:2" in shown.stdout
    shown = said(byteledger, "report", bare.path)
    assert "as_it" not in shown.stdout and f"'{program}' has changed since it was recorded" in shown.stderr


def test_lines_of_system_libraries_are_looked_for_when_they_are_shown(byteledger, record, tmp_path):
    source, program = tmp_path / "x.c", tmp_path / "x"
    source.write_text("#include <string.h>\nint main(int n, char **v) { return n + (strdup(v[0]) == 0) > 2; }\n")
    subprocess.run(["gcc", "-g", "-o", program, source], check=True)
    kept = record([program]).path

    def frames():
        shown = json.loads(said(byteledger, "report", kept, "--format", "json").stdout)
        return [f for row in shown["rows"] for f in row["frames"]]

    stored = os.path.getsize(kept)
    strdup = next(f for f in frames() if (f["function"] or "").lstrip("_").removeprefix("GI_").lstrip("_") == "strdup")
    assert any(f["function"] == "main" and f["line"] == 2 for f in frames())
    build_id = subprocess.run(["readelf", "-n", "/lib/x86_64-linux-gnu/libc.so.6"], capture_output=True, text=True).stdout
    build_id = re.search("Build ID: ([0-9a-f]+)", build_id).group(1)
    has_lines = os.path.exists(f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    assert (strdup["line"] is not None and strdup["line"] > 0) == has_lines, strdup
    said(byteledger, "report", kept, "--store-symbols")
    assert (os.path.getsize(kept) > stored) == has_lines
    again = os.path.getsize(kept)
    said(byteledger, "report", kept, "--store-symbols")
    assert os.path.getsize(kept) == again, "nothing was to add"


def test_what_a_wrapper_becomes_is_what_is_recorded(byteledger, prog, tmp_path):
    wrapper = tmp_path / "wrap.sh"
    wrapper.write_text(f"#!/bin/sh\nA=1\nexport A\nexec env B=2 nice {prog('answers')} \"$@\"\n")
    wrapper.chmod(0o755)
    done = said(byteledger, "run", "-o", tmp_path / "%e.blt", "--format", "json", wrapper, "leak", "5000", cwd=tmp_path)
    page = json.loads(done.stdout)
    assert done.returncode == 0 and os.listdir(tmp_path).count("answers.blt") == 1
    assert sorted(os.listdir(tmp_path)) == ["answers.blt", "wrap.sh"]
    assert page["process"]["exe"].endswith("/answers") and page["totals"]["leaked_bytes"] == 5000 and page["process"]["complete"]
    assert page["totals"]["peak_bytes"] > 107 << 20
    before = [line for line in done.stderr.splitlines() if line.startswith("byteledger: before it, in the same process")]
    assert len(before) == 1 and before[0].endswith(", env, nice")
    assert said(byteledger, "run", "-q", "-o", tmp_path / "f.blt", "--fail-if", "leaked>0", wrapper, "leak", "5000").returncode == 3


def test_an_exec_leaves_no_trace_in_the_environment(byteledger, tmp_path):
    show = "import os; print(sorted(os.environ)); print([l for l in open('/proc/self/environ').read().split(chr(0)) if 'yteledger' in l.lower() and not l.startswith('PWD=')])"
    env = {"PATH": os.environ["PATH"], "HOME": "/"}
    # PWD would tell where the tree lies, which may be a folder of our name
    bare = said("sh", "-c", 'exec /usr/bin/env python3 -c "$0"', show, env=env, cwd="/").stdout
    seen = said(byteledger, "run", "-q", "-o", tmp_path / "x.blt", "sh", "-c", 'exec /usr/bin/env python3 -c "$0"', show, env=env, cwd="/").stdout
    assert seen == bare and seen.endswith("[]\n")
    # a child of the program is no successor, and what a static program hands on to its own children is not meant for them
    done = said(byteledger, "run", "-q", "-o", tmp_path / "y.blt", "sh", "-c", "env; ls / > /dev/null; exit 4", env=env, cwd="/")
    assert done.returncode == 4 and "yteledger" not in done.stdout.lower() and sorted(os.listdir(tmp_path)) == ["x.blt", "y.blt"]


def test_children_that_are_not_recorded_are_told_first(byteledger, tmp_path):
    script = 'perl -e \'$x = "x" x 60_000_000; sleep 1\'; sleep 0.3; :'
    done = said(byteledger, "run", "-o", tmp_path / "x.blt", "sh", "-c", script)
    first = done.stderr.splitlines()[0]
    assert first.startswith("byteledger: not recorded: 2 children, the largest ") and first.endswith(" MiB, perl: --follow-children")
    assert "not recorded" not in said(byteledger, "run", "-o", tmp_path / "y.blt", "sleep", "0.3").stderr
    followed = said(byteledger, "run", "--follow-children", "-o", tmp_path / "%e_%p.blt", "sh", "-c", script).stderr
    assert "not recorded" not in followed


COMPLETIONS = os.path.join(os.path.dirname(__file__), "..", "..", "completions")


def test_fish_offers_commands_options_and_words(byteledger, installed):
    env = {**os.environ, "PATH": os.path.dirname(byteledger) + ":" + os.environ["PATH"]}
    fish, source = installed("fish"), os.path.join(COMPLETIONS, "byteledger.fish")

    def offered(line):
        done = said(fish, "--no-config", "-c", f"source {source}; complete -C '{line}'", env=env)
        return [found.split("\t")[0] for found in done.stdout.splitlines()]
    assert "report" in offered("byteledger rep") and "run" in offered("byteledger ")
    assert "--no-skip" in offered("byteledger report --no-s") and "--fail-if" in offered("byteledger run --f")
    assert set(offered("byteledger report --sort ")) >= {"own", "inclusive"}
    assert "--fail-if" not in offered("byteledger run -- ls --f")


def test_zsh_offers_commands_options_and_words(byteledger, installed):
    def offered(*words):
        script = ("compadd() { print -l -- $@ }; _files() { print FILES }; _command_names() { print PROGRAMS };"
                  f"autoload() {{ }}; source {os.path.join(COMPLETIONS, '_byteledger')}; words=(\"$@\"); CURRENT=$#words; _byteledger")
        done = said(installed("zsh"), "-f", "-c", script, "zsh", byteledger, *words)
        assert not done.stderr, done.stderr
        return done.stdout.split()
    assert "report" in offered("") and "--no-skip" in offered("report", "--no")
    assert offered("report", "--sort", "") == ["own", "inclusive"] and offered("report", "") == ["FILES"]
    assert offered("run", "--", "") == ["PROGRAMS"] and offered("run", "--", "ls", "-") == ["FILES"]


def test_pprof_leaves_names_of_rust_alone(byteledger, installed, tmp_path):
    source = tmp_path / "x.rs"
    source.write_text("""struct Thing { held: Vec<u8> }
trait Fill { fn fill(&mut self); }
impl Fill for Thing { #[inline(never)] fn fill(&mut self) { self.held = vec![1; 1 << 20]; } }
fn main() { let mut t = Thing { held: Vec::new() }; t.fill(); println!("{}", t.held.len()); }
""")
    subprocess.run([installed("rustc"), "-g", "-o", tmp_path / "x", source], check=True, capture_output=True)
    assert said(byteledger, "run", "-q", "-o", tmp_path / "x.blt", tmp_path / "x").returncode == 0
    assert said(byteledger, "export", "--to", "pprof", "-o", tmp_path / "x.pb.gz", tmp_path / "x.blt").returncode == 0
    # whoever calls it first has it built: Go comes without it
    said(installed("go"), "tool", "pprof", "-h", timeout=280)
    top = said(installed("go"), "tool", "pprof", "-sample_index=alloc_space", "-top", "-cum", tmp_path / "x.pb.gz").stdout
    assert "<x::Thing as x::Fill>::fill" in top, top


def test_a_small_stack_is_the_programs_alone(byteledger, tmp_path):
    """The recorder's threads had no more: the one that reads where the memory is ended byteledger by SIGSEGV."""
    done = subprocess.run(["sh", "-c", f"ulimit -s 128; exec {byteledger} run -q -o {tmp_path}/x.blt perl -e 'print 7; exit 3'"], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (3, "7"), done.stderr
