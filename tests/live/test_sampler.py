# SPDX-License-Identifier: Apache-2.0
"""`byteledger sample`: estimates against exact counts, every allocator, forks, detaching, bad input, all outputs."""
import contextlib
import csv
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"),
                                reason="probes need root and a kernel with BTF")
LIBS = "/usr/lib/x86_64-linux-gnu"


@contextlib.contextmanager
def running(*argv, env=None):
    """A program that begins with a line on stdin."""
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ, **(env or {})}) as p:
        try:
            yield p
        finally:
            p.kill()


@contextlib.contextmanager
def sampling(byteledger, *argv, stdout=subprocess.PIPE):
    """byteledger, with its probes in."""
    with subprocess.Popen([byteledger, "sample", *map(str, argv)], stdout=stdout, stderr=subprocess.PIPE, text=True) as s:
        first = s.stderr.readline()
        assert "sampling" in first, first + s.stderr.read()
        try:
            yield s
        finally:
            s.kill()


def go(program):
    program.stdin.write("go\n")
    program.stdin.flush()


def end(sampler, how=signal.SIGINT):
    sampler.send_signal(how)
    out, err = sampler.communicate(timeout=60)
    assert sampler.returncode == 0, err
    return out


def truth_of(program):
    """{way: (count, bytes, live)} as the program has counted."""
    found = {}
    for line in program.stdout:
        if line == "done\n":
            return found
        name, *numbers = line.split()
        found[name] = tuple(map(int, numbers))
    raise AssertionError("the program ended early")


def by_way(process):
    """{way: [count, bytes, live, variance of bytes, of counts]} of a JSON process; what has no way is under "-"."""
    found = {}
    for row in process["rows"]:
        way = next((f["function"] for f in row["frames"] if (f["function"] or "").startswith("by_")), "-")
        sums = found.setdefault(way, [0, 0, 0, 0, 0])
        for i, value in enumerate((row["count"], row["bytes"], row["live_bytes"], row["error_bytes"] ** 2, row["error_count"] ** 2)):
            sums[i] += value
    return found


def sample_asked(byteledger, asked, rounds, *options, seed=1, env=None):
    with running(asked, str(rounds), str(seed), env=env) as p, \
            sampling(byteledger, "-p", p.pid, "--format", "json", "--budget", "0", *options) as s:
        go(p)
        truth = truth_of(p)
        return truth, json.loads(end(s))["processes"][0]


@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks")], ids=["calls", "leaks"])
@pytest.mark.parametrize("library", [None, "libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so"])
def test_every_way_to_ask_counts_once_and_with_its_size(byteledger, prog, library, options):
    if library and not os.path.exists(f"{LIBS}/{library}"):
        pytest.skip(f"{library} is not installed")
    env = {"LD_PRELOAD": f"{LIBS}/{library}"} if library else None
    truth, got = sample_asked(byteledger, prog("asked"), 500, *options, env=env)
    found = by_way(got)
    leaks = "--leaks" in options
    for way, (count, size, live) in truth.items():
        assert found.get(way, [0])[:3 if leaks else 2] == [count, size, live][:3 if leaks else 2], (way, truth[way], found.get(way))
    assert "-" not in found, "calls that no way made"
    assert got["lost"]["events"] == 0, got["lost"]


@pytest.mark.parametrize("library", [None, "libjemalloc.so.2", "libtcmalloc_minimal.so.4"])
@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks")], ids=["calls", "leaks"])
def test_every_new_and_what_is_left_without_return_counts_as_asked(byteledger, prog, library, options):
    """Aligned, sized, nothrow; jemalloc's own; a handler that jumps out of operator new, a thread that ends inside of it."""
    if library and not os.path.exists(f"{LIBS}/{library}"):
        pytest.skip(f"{library} is not installed")
    env = {"LD_PRELOAD": f"{LIBS}/{library}"} if library else None
    truth, got = sample_asked(byteledger, prog("askedmore"), 60, *options, env=env)
    found, figures = by_way(got), 3 if "--leaks" in options else 2
    del truth["by_pool"]
    assert ("by_mallocx" in truth) == (library == "libjemalloc.so.2")
    assert {way: tuple(found.get(way, [0])[:figures]) for way in truth} == {way: t[:figures] for way, t in truth.items()}
    # what threads are started with; not what was refused
    assert found.get("-", [0, 0])[1] < 1 << 20 and got["lost"]["events"] == 0


@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks")], ids=["calls", "leaks"])
def test_a_function_that_calls_itself_and_is_jumped_out_of_counts_its_outermost_calls(byteledger, prog, options):
    truth, got = sample_asked(byteledger, prog("askedmore"), 60, "-f", "pool_get", *options)
    count, size, live = truth["by_pool"]
    if "--leaks" in options:
        assert by_way(got) == {"by_pool": [count, size, live, 0, 0]}
    else:  # by its beginning alone: whether it came back is not known
        assert by_way(got)["by_pool"][0] == 60


LOADS = f"""
import ctypes, sys
sys.stdin.readline()
mi = ctypes.CDLL("{LIBS}/libmimalloc.so.2.0")
sys.stdin.readline()
for i in range(777):
    mi.mi_malloc(5000)
print("done", flush=True)
sys.stdin.readline()
"""


@pytest.mark.skipif(not os.path.exists(f"{LIBS}/libmimalloc.so.2.0"), reason="libmimalloc2.0 is not installed")
def test_an_allocator_that_is_loaded_later_is_sampled_too(byteledger):
    with running(sys.executable, "-c", LOADS) as p, \
            sampling(byteledger, "-p", p.pid, "--all", "--interval", "100ms", "--jsonl") as s:
        go(p)
        until = time.monotonic() + 30

        def calls():
            assert time.monotonic() < until, "it is not seen"
            functions = json.loads(s.stdout.readline())["processes"][0]["functions"]
            return {f["function"]: f["calls"] for f in functions if "mimalloc" in f["module"]}
        while not calls():
            pass
        go(p)
        p.stdout.readline()
        while max(calls().values()) < 777:
            pass


def test_a_static_program_is_sampled_by_its_own_names(byteledger, prog):
    truth, got = sample_asked(byteledger, prog("asked_static"), 300, "--all")
    found = by_way(got)
    assert {w: tuple(found[w][:2]) for w in truth} == {w: t[:2] for w, t in truth.items()}


def deviations(byteledger, asked, seed, *options):
    """(way, estimated less true bytes, their variance, the same of counts) of a run."""
    truth, got = sample_asked(byteledger, asked, 3000, *options, seed=seed)
    found = by_way(got)
    assert "-" not in found and not got["lost"]["events"], (got["lost"], found.get("-"), [r["frames"] for r in got["rows"]][:3])
    for way, (count, size, _) in truth.items():
        sums = found.get(way, [0] * 5)
        # one call in so many misses rare large ones: that is what bytes are for
        if size > 1 << 20 and (way != "by_malloc" or "--sample-every" not in options):
            yield way, sums[1] - size, sums[3], sums[0] - count, sums[4]


def judge(found, sigma=5):
    """
    Sums over all seeds lie within so many of the errors that are told, whatever the way, for bytes and for counts. It is sums that are
    held against sums: an estimate that is too low has an error that is too low, so that single ones divided by theirs are not
    centred although the estimates are.
    """
    sums = {}
    for way, *values in found:
        sums[way] = [a + b for a, b in zip(sums.get(way, [0] * 4), values)]
    worst = {}
    for way, (size, size_variance, count, count_variance) in sums.items():
        worst[way] = (size / math.sqrt(size_variance or 1), count / math.sqrt(count_variance or 1))
    assert len(worst) >= 9 and all(v[1] > 0 for v in sums.values())
    assert all(abs(z) < sigma for pair in worst.values() for z in pair), worst
    # and are not told too large: a fifth of the ways is further off than half of what is told
    assert sum(abs(z) > 0.3 for pair in worst.values() for z in pair) >= 3, worst
    return worst


@pytest.mark.parametrize("options", [("--sample-bytes", "16K"), ("--sample-every", "20")], ids=["bytes", "every"])
def test_estimates_are_unbiased_and_their_errors_true(byteledger, prog, options):
    judge([d for seed in range(1, 5) for d in deviations(byteledger, prog("asked"), seed, *options)])


@pytest.mark.large
@pytest.mark.parametrize("options", [("--sample-bytes", "16K"), ("--sample-every", "20")], ids=["bytes", "every"])
def test_estimates_hold_over_a_hundred_seeds(byteledger, prog, options):
    found = [d for seed in range(1, 101) for d in deviations(byteledger, prog("asked"), seed, *options)]
    worst = judge(found)
    print("over a hundred seeds, sigma of (bytes, count):", {way: (round(a, 2), round(b, 2)) for way, (a, b) in worst.items()})
    single = [z for _, a, va, b, vb in found for z in ((a / math.sqrt(va or 1)), b / math.sqrt(vb or 1))]
    print("single runs beyond 3 sigma of their own error:", sum(abs(z) > 3 for z in single), "of", len(single))


def test_json_has_the_keys_that_are_promised(byteledger, prog):
    _, got = sample_asked(byteledger, prog("asked"), 100, "--all", "--leaks")
    assert set("pid tier functions samples estimated_allocations estimated_bytes rows cost lost".split()) <= set(got)
    assert set("count bytes live_count live_bytes error_bytes histogram verdict frames".split()) <= set(got["rows"][0])
    assert set("ns_per_hit hits_per_second cpu_fraction budget".split()) <= set(got["cost"])
    assert set("module function offset site".split()) <= set(got["functions"][0])
    for row in got["rows"]:
        assert sum(b["count"] for b in row["histogram"]) == row["count"]
        assert all(b["from"] <= b["to"] for b in row["histogram"])
    assert got["estimated_bytes"] == sum(r["bytes"] for r in got["rows"])
    assert got["cost"]["kernel_bytes"] < 64 << 20


def text_of(pid, library="libc.so.6"):
    """The code of a library as the process has it now."""
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for line in open(f"/proc/{pid}/maps"):
            if line.rstrip().endswith("/" + library) and " r-xp " in line:
                lo, hi = (int(n, 16) for n in line.split()[0].split("-"))
                with open(f"/proc/{pid}/mem", "rb", 0) as mem:
                    mem.seek(lo)
                    return mem.read(hi - lo)
        time.sleep(0.01)  # it is being loaded: its first mapping is not that of its code
    raise AssertionError(f"no {library}")


@pytest.mark.parametrize("options", [(), ("--leaks",)], ids=["calls", "leaks"])
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["ends", "is killed"])
def test_nothing_is_left_in_the_code_when_byteledger(byteledger, prog, how, options):
    with running(prog("asked"), "300") as p:
        before = text_of(p.pid)
        with sampling(byteledger, "-p", p.pid, "-q", "--budget", "0", *options) as s:
            assert text_of(p.pid) != before, "no probe is in"
            s.send_signal(how)
            s.wait(60)
        until = time.monotonic() + 10
        while text_of(p.pid) != before and time.monotonic() < until:
            time.sleep(0.02)
        assert text_of(p.pid) == before
        go(p)
        truth_of(p)


def fork_under_probes(byteledger, prog, count, *options):
    with running(prog("forkmany"), str(count)) as p, sampling(byteledger, "-p", p.pid, "--format", "json", *options) as s:
        go(p)
        good, bad = map(int, p.stdout.readline().split())
        got = json.loads(end(s))["processes"]
    assert (good, bad) == (count, 0)
    assert len(got) == 1 and got[0]["estimated_allocations"] >= count


@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks")], ids=["calls", "leaks"])
def test_forked_children_live_and_are_not_counted(byteledger, prog, options):
    fork_under_probes(byteledger, prog, 40, *options)


def child_ns(byteledger, prog, *options):
    """ns of CPU that a child of a probed program takes for a pair, as it says itself; with @options None nobody probes."""
    with running(prog("forkpays"), "20", "20000") as p:
        if options == (None,):
            go(p)
            return float(p.stdout.readline())
        with sampling(byteledger, "-p", p.pid, "-q", *options) as s:
            go(p)
            took = float(p.stdout.readline())
            end(s)
            return took


@pytest.mark.large
def test_forked_children_pay_what_is_said(byteledger, prog):
    """By calls alone their code is as it was from the first hit on; with --leaks and sessions they pay a trap a pair."""
    bare, calls, leaks = (child_ns(byteledger, prog, *o) for o in ((None,), ("--budget", "0"), ("--leaks",)))
    print(f"ns a pair in a child: bare {bare:.0f}, calls {calls:.0f}, --leaks {leaks:.0f}")
    assert calls < bare + 100, "children pay for every call"
    assert leaks < 20 * 1000


@pytest.mark.large
@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks")], ids=["calls", "leaks"])
def test_a_thousand_forked_children_live(byteledger, prog, options):
    fork_under_probes(byteledger, prog, 1000, *options)


def told_in_time(s, seconds, is_told):
    """Reads what is shown until it is so in five readings one behind the other; {function: row} of the last one."""
    until, said, same = time.monotonic() + seconds, {}, 0
    while time.monotonic() < until and same < 5:
        said = {row["frames"][0]["function"]: row for row in json.loads(s.stdout.readline())["processes"][0]["rows"] if row["frames"]}
        same = same + 1 if is_told(said) else 0
    return said, same == 5


def test_a_leak_is_told_from_a_cache_and_from_what_is_made_at_the_start(byteledger, prog):
    wanted = {"leak": ("growing",), "into_cache": ("plateau", "startup"), "at_start": ("plateau", "startup"), "storm": ("temporary",)}
    with running(prog("growth"), "4000", "800") as p, \
            sampling(byteledger, "-p", p.pid, "--sample-bytes", "64K", "--interval", "100ms", "--older", "0", "--jsonl") as s:
        go(p)

        def is_told(said):
            if any(said.get(name, {}).get("verdict") not in verdicts for name, verdicts in wanted.items()):
                return False
            rate, error = said["leak"]["growth_bytes_per_s"], said["leak"]["growth_error_bytes_per_s"]
            return abs(rate - 4e6) < 5 * error + 2e5
        said, told = told_in_time(s, 60, is_told)
    assert told, {name: (row["verdict"], row.get("growth_bytes_per_s"), row.get("growth_error_bytes_per_s")) for name, row in said.items()}


@pytest.mark.large
def test_a_leak_of_a_mebibyte_a_minute_in_a_storm_of_calls_is_named_within_five_minutes(byteledger, prog):
    """2 million calls a second where nobody looks, as many as the probes leave time for where somebody does."""
    begun = time.monotonic()
    with running(prog("growth"), str(2**20 / 60000), "20000", "1100") as p, \
            sampling(byteledger, "-p", p.pid, "--sample-bytes", "64K", "--interval", "5s", "--older", "0", "--jsonl") as s:
        go(p)

        def is_told(said):
            row = said.get("leak", {})
            return row.get("verdict") == "growing" and said.get("into_cache", {}).get("verdict") in ("plateau", "startup")
        said, told = told_in_time(s, 300, is_told)
    assert told, {name: (row["verdict"], row["live_bytes"]) for name, row in said.items()}
    took, rate, error = time.monotonic() - begun, said["leak"]["growth_bytes_per_s"], said["leak"]["growth_error_bytes_per_s"]
    print(f"named after {took:.0f} s: {rate * 60 / 2**20:.2f} +- {error * 60 / 2**20:.2f} MiB a minute, cache: {said['into_cache']['verdict']}")
    assert abs(rate * 60 - 2**20) < 5 * error * 60 + 0.1 * 2**20


@pytest.mark.large
@pytest.mark.parametrize("options", [("--sample-bytes", "64K"), ("--sample-every", "1000")], ids=["bytes", "every"])
def test_what_comes_in_step_is_neither_missed_nor_doubled(byteledger, prog, options):
    """Calls of three sites whose period is the rate's own: each site is right within its error."""
    with running(prog("instep"), "400000") as p, sampling(byteledger, "-p", p.pid, "--format", "json", "--budget", "0", *options) as s:
        go(p)
        truth = truth_of(p)
        found = by_way(json.loads(end(s))["processes"][0])
    assert len(truth) == 3
    for way, (count, size, _) in truth.items():
        got = found.get(way, [0] * 5)
        # of a site with few samples the error is taken from the truth: counts of a sampled site are Poisson's
        error = math.sqrt(count * 1000) if "--sample-every" in options else math.sqrt(got[4] or 1)
        assert abs(got[0] - count) < 5 * error, (way, got, count)
        if "--sample-bytes" in options:
            assert abs(got[1] - size) < 5 * math.sqrt(got[3] or 1), (way, got, size)


@pytest.mark.large
@pytest.mark.timeout(3600)  # 2 * 10^8 traps of a microsecond or two; on a busy machine, ten times that
def test_a_hundred_million_short_blocks_leave_nothing(byteledger, prog):
    with running(prog("growth"), "0", "0", "100000", env={"GROWTH_STORMS": "100000000"}) as p, \
            sampling(byteledger, "-p", p.pid, "--leaks", "--sample-bytes", "16K", "--format", "json") as s:
        go(p)
        assert p.stdout.readline() == "stormed\n"
        got = json.loads(end(s))["processes"][0]
    storm = [row for row in got["rows"] if row["frames"] and row["frames"][0]["function"] == "storm"]
    assert len(storm) == 1 and storm[0]["count"] > 5e7 and got["lost"]["events"] == 0, got["lost"]
    assert (storm[0]["live_count"], storm[0]["live_bytes"], storm[0]["live_error_bytes"]) == (0, 0, 0)
    assert got["cost"]["hits"] >= 2e8 and got["cost"]["kernel_bytes"] < 20 << 20


def test_live_estimates_return_to_nothing(byteledger, prog):
    truth, got = sample_asked(byteledger, prog("asked"), 2000, "--all", "--leaks")
    live = {w: sums[2] for w, sums in by_way(got).items()}
    assert all(live[w] == t[2] for w, t in truth.items())
    for row in got["rows"]:
        if row["live_count"] == 0:
            assert row["live_bytes"] == 0 and row["live_error_bytes"] == 0


def test_text_has_the_layout_that_users_know(byteledger, prog):
    with running(prog("asked"), "200") as p, sampling(byteledger, "-p", p.pid, "--all", "--top", "0") as s:
        go(p)
        truth = truth_of(p)
        out = end(s)
    assert re.search(r"^total stack traces: \d+$", out, re.M)
    blocks = out.split("*" * 80 + "\n")[1:]
    assert len(blocks) >= len(truth)
    for block in blocks:
        frames, table = block.split("-" * 80 + "\n")
        assert all(re.match(r"0x[0-9a-f]{12} - ", line) for line in frames.splitlines()), frames
        head, rule, *rows = table.rstrip("\n").splitlines()
        assert head.split(" | ") == ["Size      ", "Count    ", "Percentage", "Distribution"]
        total = next(i for i, row in enumerate(rows) if row.startswith("Total allocations: "))
        counts = [int(row.split("|")[1]) for row in rows[:total]]
        assert rows[total].endswith(f" in {sum(counts)} allocations")
        assert max(row.count("#") for row in rows[:total]) == 50


def test_tables_and_flame_graphs_are_written(byteledger, prog, tmp_path):
    table, flat, flame = tmp_path / "t.csv", tmp_path / "f.csv", tmp_path / "f.svg"
    for path, options in ((table, ()), (flat, ("--csv-flat",))):
        with running(prog("asked"), "200") as p, \
                sampling(byteledger, "-p", p.pid, "--all", "--leaks", "-q", "--csv", path, "--flame", flame, *options) as s:
            go(p)
            truth = truth_of(p)
            end(s)
    rows = list(csv.DictReader(open(table, newline="")))
    assert list(rows[0])[:6] == ["pid", "stack_id", "total", "count", "histogram", "stacktrace"]
    sums = {}
    for row in rows:
        way = re.search(r"by_\w+", row["stacktrace"])[0]
        sums[way] = sums.get(way, 0) + int(row["total"])
        assert f" in {row['count']} allocations" in row["histogram"]
    assert sums == {w: t[1] for w, t in truth.items()}
    counts = {}
    for row in csv.DictReader(open(flat, newline="")):
        way = re.search(r"by_\w+", row["stacktrace"])[0]
        counts[way] = counts.get(way, 0) + int(row["count"])
    assert counts == {w: t[0] for w, t in truth.items()}
    for name in ("f.svg", "f-by-count.svg", "f-by-traffic.svg", "f-by-live.svg"):
        text = (tmp_path / name).read_text()
        xml.etree.ElementTree.fromstring(text)
        assert ("by_leak" if name in ("f.svg", "f-by-live.svg") else "by_malloc") in text, name
    assert "by_leak" in (tmp_path / "f-by-live.svg").read_text()


def dumped(s, report, count):
    """Asks for a dump, and waits until so many have begun in @report."""
    s.send_signal(signal.SIGUSR1)
    until = time.monotonic() + 20
    while not report.exists() or report.read_text().count("total stack traces") < count:
        assert time.monotonic() < until, "nothing was dumped"
        assert s.poll() is None
        time.sleep(0.02)


def test_a_signal_dumps_without_stopping(byteledger, prog, tmp_path):
    """At once after attaching, and all that was called before: of six ways the sums are equal, so ten rows show them all by chance only."""
    report = tmp_path / "r"
    with running(prog("asked"), "200") as p, sampling(byteledger, "-p", p.pid, "--all", "--top", "0", "--report", report) as s:
        dumped(s, report, 1)
        go(p)
        truth = truth_of(p)
        dumped(s, report, 2)
        end(s)
    first, second, last = report.read_text().split("total stack traces")[1:]
    assert "by_malloc" not in first
    for way in truth:
        assert way in second and way in last, way


def test_it_detaches_after_its_time_and_the_program_goes_on(byteledger, prog):
    with running(prog("asked"), "200") as p:
        begun = time.monotonic()
        done = subprocess.run([byteledger, "sample", "-p", str(p.pid), "--duration", "1s"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert 1 <= time.monotonic() - begun < 20
        assert p.poll() is None
        go(p)
        truth_of(p)


def test_filters_on_size_count_both_bounds(byteledger, prog):
    truth, got = sample_asked(byteledger, prog("asked"), 300, "--all", "--min-alloc-size", "1M", "--max-alloc-size", "1M")
    assert {w: s[:2] for w, s in by_way(got).items()} == {"by_malloc": [3, 3 << 20]}
    _, got = sample_asked(byteledger, prog("asked"), 300, "--all", "--min-alloc-size", "1048577")
    assert got["rows"] == []


def test_a_function_of_ones_own_is_probed_by_its_argument(byteledger, prog):
    with running(prog("asked"), "300") as p, sampling(byteledger, "-p", p.pid, "--format", "json", "--all", "-f", "BY_MALLOC:0") as s:
        go(p)
        truth = truth_of(p)
        got = json.loads(end(s))["processes"][0]
    assert (got["estimated_allocations"], got["estimated_bytes"]) == truth["by_malloc"][:2]
    assert [f["function"] for f in got["functions"]] == ["by_malloc"]
    assert got["rows"][0]["frames"][0]["function"] == "main"


def test_a_library_is_probed_in_every_process_that_maps_it(byteledger, prog, tmp_path):
    own = tmp_path / "asked"
    shutil.copy(prog("asked"), own)
    with sampling(byteledger, "--program", own, "-f", "by_calloc:0", "--all", "--format", "json") as s, \
            running(own, "100") as p, running(own, "100") as q:
        for one in (p, q):
            go(one)
            truth_of(one)
        time.sleep(0.3)
        got = json.loads(end(s))["processes"]
    counts = {one["pid"]: one["estimated_allocations"] for one in got}
    assert counts == {p.pid: 100, q.pid: 100}


def test_a_deleted_program_is_sampled(byteledger, prog, tmp_path):
    own = tmp_path / "asked"
    shutil.copy(prog("asked_static"), own)
    with running(own, "100") as p:
        own.unlink()
        with sampling(byteledger, "-p", p.pid, "--format", "json", "--all") as s:
            go(p)
            truth = truth_of(p)
            got = json.loads(end(s))["processes"][0]
    assert got["estimated_bytes"] == sum(t[1] for t in truth.values())


def refused(byteledger, *argv):
    done = subprocess.run([byteledger, "sample", *map(str, argv)], capture_output=True, text=True, timeout=60)
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_what_cannot_be_done_is_said(byteledger, prog, tmp_path):
    with running(prog("asked"), "1") as p:
        code, said = refused(byteledger, "-p", p.pid, "-f", "by_mallok")
        assert code == 1 and "no function 'by_mallok'" in said and "by_malloc" in said.split("hint:")[1], said
        code, said = refused(byteledger, "-p", p.pid, "-f", "by_malloc:6")
        assert code == 1 and "from 0 to 5" in said, said
        code, said = refused(byteledger, "-p", p.pid, "--min-alloc-size", "2K", "--max-alloc-size", "1K")
        assert code == 2 and "above" in said, said
        code, said = refused(byteledger, "-p", p.pid, "--program", "/usr/bin/true")
        assert code == 1 and "has not mapped" in said, said
        code, said = refused(byteledger, "-p", p.pid, "--order-by", "live")
        assert code == 2 and "--leaks" in said, said
        for option, value in (("--order-by", "size"), ("--sample-every", "0"), ("--sample-bytes", "2G"), ("--budget", "x"), ("--top", "-1")):
            code, said = refused(byteledger, "-p", p.pid, option, value)
            assert code == 2 and value in said, (option, said)
        assert p.poll() is None
    code, said = refused(byteledger, "--program", LIBS + "/libc.so.6", "-f", "mallok")
    assert code == 1 and "malloc" in said.split("hint:")[1], said
    code, said = refused(byteledger, "-p", "4194303")
    assert code == 1 and "4194303" in said and "no process has that id" in said, said
    stripped = tmp_path / "stripped"
    subprocess.run(["strip", "-o", stripped, prog("asked_static")], check=True)
    with running(stripped, "1") as p:
        code, said = refused(byteledger, "-p", p.pid)
        assert code == 1 and "static program, stripped of its names" in said, said


def test_without_privileges_it_says_what_is_missing(byteledger, prog, tmp_path):
    own = tmp_path / "byteledger"
    shutil.copy(byteledger, own)
    os.chmod(tmp_path, 0o755)
    with running(prog("asked"), "1") as p:
        done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", own, "sample", "-p", str(p.pid)],
                              capture_output=True, text=True, timeout=60, cwd="/")
        assert done.returncode == 1 and "hint:" in done.stderr, done.stderr


def test_a_recording_is_read_as_all_others_are(byteledger, prog, tmp_path):
    with running(prog("asked"), "500") as p, sampling(byteledger, "-p", p.pid, "-q", "--all", "-o", tmp_path / "%e.blt") as s:
        go(p)
        truth = truth_of(p)
        end(s)
    blt = tmp_path / "asked.blt"
    report = json.loads(subprocess.run([byteledger, "report", blt, "--format", "json"], capture_output=True, check=True).stdout)
    totals = report["totals"]
    assert totals["allocations"] == sum(t[0] for t in truth.values())
    assert totals["allocated_bytes"] == sum(t[1] for t in truth.values())
    assert totals["leaked_bytes"] == sum(t[2] for t in truth.values())
    for form in ("pprof", "folded", "heaptrack", "speedscope"):
        done = subprocess.run([byteledger, "export", blt, "--to", form, "-o", tmp_path / form], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / form).stat().st_size > 100


def test_a_sampled_recording_says_that_all_of_it_is_estimated(byteledger, prog, tmp_path):
    with running(prog("asked"), "2000") as p, \
            sampling(byteledger, "-p", p.pid, "-q", "--sample-bytes", "8K", "-o", tmp_path / "r.blt") as s:
        go(p)
        truth = truth_of(p)
        end(s)
    report = json.loads(subprocess.run([byteledger, "report", tmp_path / "r.blt", "--format", "json"], capture_output=True, check=True).stdout)
    assert report["sampled"] == {"every_bytes": 8192, "exact_totals": False}
    size = sum(t[1] for t in truth.values())
    assert abs(report["totals"]["allocated_bytes"] - size) < 5 * math.sqrt(size * 8192), (report["totals"], size)


GO = """package main
import ("bufio"; "os"; "fmt")
var sink []byte
//go:noinline
func make_some(n int) []byte { return make([]byte, n) }
func main() {
	bufio.NewReader(os.Stdin).ReadString('\\n')
	for i := 0; i < 20000; i++ { sink = make_some(5000) }
	fmt.Println("done")
	bufio.NewReader(os.Stdin).ReadString('\\n')
}
"""


@pytest.mark.large
@pytest.mark.skipif(not shutil.which("go"), reason="no go")
def test_a_go_program_is_sampled_and_its_collector_is_respected(byteledger, tmp_path):
    (tmp_path / "main.go").write_text(GO)
    subprocess.run(["go", "build", "-o", "gosome", "main.go"], cwd=tmp_path, check=True, timeout=300,
                   env={**os.environ, "GO111MODULE": "off", "GOFLAGS": ""})
    with running(tmp_path / "gosome") as p:
        code, said = refused(byteledger, "-p", p.pid, "--leaks")
        assert code == 1 and "runs Go" in said, said
        with sampling(byteledger, "-p", p.pid, "--format", "json", "--budget", "0", "--sample-bytes", "64K") as s:
            go(p)
            assert p.stdout.readline() == "done\n"
            got = json.loads(end(s))["processes"][0]
    found = [r for r in got["rows"] if any(f["function"] == "main.make_some" for f in r["frames"])]
    size, error = sum(r["bytes"] for r in found), math.sqrt(sum(r["error_bytes"] ** 2 for r in found))
    assert abs(size - 20000 * 5000) < 4 * error + 1, (size, error)


@pytest.mark.parametrize("options", [(), ("--leaks",)], ids=["calls", "leaks"])
def test_a_program_that_samples_itself_is_taken_at_its_word(byteledger, prog, options):
    """By the otel_memory contract: semaphores, arguments in registers and in memory, weights, frees."""
    with running(prog("usdt"), "5000") as p, sampling(byteledger, "-p", p.pid, "--format", "json", "--budget", "0", *options) as s:
        go(p)
        told, size, live = map(int, p.stdout.readline().split())
        got = json.loads(end(s))["processes"][0]
    assert told == 500 and got["tier"] == "A"
    assert (got["samples"], got["estimated_allocations"], got["estimated_bytes"]) == (told, 10 * told, size)
    assert {f["function"] for f in got["functions"]} == {"otel_memory:alloc"} | ({"otel_memory:free"} if options else set())
    assert not options or got["live_bytes"] == live < size
    assert got["rows"][0]["frames"][0]["function"] == "by_sampled"


def hooked(byteledger, program, env, hook):
    """What is said of a program that asks for 100 bytes half a million times a second, by its allocator's own hook."""
    with running(program, "1", "500000", "4", env=env) as p, \
            sampling(byteledger, "-p", p.pid, "--duration", "2s", "--format", "json") as s:
        go(p)
        out, err = s.communicate(timeout=60)
        assert s.returncode == 0, err
        rates = json.loads(p.stdout.readline())["by_second"][1:3]
    got = json.loads(out)["processes"][0]
    assert [f["function"] for f in got["functions"] if f["calls"]] == [hook], got["functions"]
    assert got["cost"]["hits"] < 0.02 * sum(rates), "the hook is called for few of the calls alone"
    assert "pairs" in [f["function"] for f in got["rows"][0]["frames"]]
    seconds = got["runtime_ns"] / 1e9
    return got["estimated_bytes"] / seconds, got["error_bytes"] / seconds, sum(rates) / 2


@pytest.fixture(scope="module")
def with_jemalloc(tmp_path_factory):
    """calls.c with jemalloc inside, whose names are there."""
    folder = tmp_path_factory.mktemp("jemalloc")
    if not os.path.exists(f"{LIBS}/libjemalloc.a"):
        pytest.skip("libjemalloc-dev is not installed")
    source = os.path.join(os.path.dirname(__file__), "..", "prog", "calls.c")
    subprocess.run(["gcc", "-O2", "-fno-builtin", "-fno-optimize-sibling-calls", source, "-o", folder / "calls", "-l:libjemalloc.a", "-lm",
                    "-lstdc++", "-lpthread", "-ldl"], check=True, timeout=60)
    return folder / "calls"


def test_jemallocs_own_events_are_used_where_its_names_are_there(byteledger, with_jemalloc):
    got, error, rate = hooked(byteledger, with_jemalloc, None, "je_te_event_trigger")
    assert abs(got - 112 * rate) < 0.1 * 112 * rate + 4 * error, (got, 112 * rate, error)  # it counts by size class


def test_of_a_storm_of_jemallocs_events_some_stand_for_all(byteledger, with_jemalloc):
    with running(with_jemalloc, "1", "0", "1") as p, sampling(byteledger, "-p", p.pid, "--budget", "0", "--format", "json") as s:
        go(p)
        pairs = json.loads(p.stdout.readline())["pairs"]
        got = json.loads(end(s))["processes"][0]
    events = got["cost"]["hits"] / 2  # of what is freed there are as many
    assert abs(got["estimated_bytes"] - 112 * pairs) < 0.01 * 112 * pairs + 4 * got["error_bytes"], (got, pairs)
    assert events / 20 < got["samples"] <= events and got["error_bytes"] < 6 * 65536 * math.sqrt(events + 1), (got["samples"], events)
    assert "pairs" in [f["function"] for f in got["rows"][0]["frames"]]


def test_tcmallocs_own_samples_are_used_where_it_takes_some(byteledger, prog):
    if not os.path.exists(f"{LIBS}/libtcmalloc.so.4"):
        pytest.skip("libtcmalloc is not installed")
    env = {"LD_PRELOAD": f"{LIBS}/libtcmalloc.so.4", "TCMALLOC_SAMPLE_PARAMETER": "65536"}
    got, error, rate = hooked(byteledger, prog("calls"), env, "_ZN8tcmalloc7Sampler20RecordAllocationSlowEm")
    assert abs(got - 100 * rate) < 0.1 * 100 * rate + 4 * error, (got, 100 * rate, error)


def test_a_nop_of_five_bytes_is_probed_only_where_children_live(byteledger, prog):
    checked = json.loads(subprocess.run([byteledger, "check", "--format", "json"], capture_output=True, check=True).stdout)
    safe = next(line for line in checked if line["feature"] == "sample-nop5")
    assert safe["ok"] or "died" in safe["why"], safe
    with running(prog("nop5"), "20") as p, sampling(byteledger, "-p", p.pid, "-f", "only_nop5:0", "--all", "--format", "json") as s:
        go(p)
        assert p.stdout.readline() == "20\n", "children died"
        got = json.loads(end(s))["processes"][0]
    assert got["functions"][0]["kind"] != "nop5" and got["estimated_allocations"] == 1000


@pytest.mark.guest
def test_linux_6_1_counts_every_way_alike(byteledger, prog):
    """By perf events and two links each: neither sessions nor links of many probes are there."""
    root = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
    done = subprocess.run([os.path.join(root, "scripts", "guest.sh"), "-k", "6.1", "-t", "480", "--", sys.executable, "-m", "pytest", "-q",
                           "-c", "tests/live/pytest.ini", "--rootdir", ".", "-p", "no:cacheprovider", "tests/live/test_sampler.py",
                           "-m", "not large", "-k", "every_way and None or nothing_is_left or forked_children or its_word or kernels_own"],
                          cwd=root, capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert done.returncode == 0 and "passed" in done.stdout, done.stdout[-3000:] + done.stderr[-2000:]


PIPES = """import os, sys
sys.stdin.readline()
held = [os.pipe() for _ in range(300)]
print("held", flush=True)
sys.stdin.readline()
for r, w in held: os.close(r), os.close(w)
print("closed", flush=True)
sys.stdin.readline()
"""


def live_pipes(line):
    """(live blocks, live bytes) of what the kernel keeps of pipes, and the slab caches or kinds it was asked for."""
    rows = [r for r in json.loads(line)["processes"][0]["rows"] if any("alloc_pipe_info" in (f["function"] or "") for f in r["frames"])
            # pages that a slab cache took for them: it keeps these when the pipes are gone
            and not any("allocate_slab" in (f["function"] or "") for f in r["frames"])]
    return sum(r["live_count"] for r in rows), {r["frames"][0]["function"] for r in rows}


def test_the_kernels_own_allocations_are_followed_by_its_stacks(byteledger):
    with running(sys.executable, "-c", PIPES) as p, \
            sampling(byteledger, "--kernel", "-p", p.pid, "--all", "--leaks", "--jsonl", "--interval", "100ms") as s:
        go(p)
        assert p.stdout.readline() == "held\n"
        until = time.monotonic() + 10
        while time.monotonic() < until and live_pipes(line := s.stdout.readline())[0] < 600:
            pass
        count, kinds = live_pipes(line)
        assert count >= 600 and kinds <= {"[kmalloc]", "[pages]"} | {k for k in kinds if k.startswith("[slab ")}, (count, kinds)
        go(p)
        assert p.stdout.readline() == "closed\n"
        # what an interrupt gives back inside of a probe is not seen, and counted: never more than that is left
        until = time.monotonic() + 60
        while time.monotonic() < until and live_pipes(line := s.stdout.readline())[0] > lost_of(line):
            pass
        assert live_pipes(line)[0] <= lost_of(line) < 60, line[:300]
        end(s)


def lost_of(line):
    return json.loads(line)["processes"][0]["lost"]["events"]


def test_single_blocks_are_listed_with_address_size_and_age(byteledger, prog):
    with running(prog("asked"), "20") as p, \
            sampling(byteledger, "-p", p.pid, "--all", "--show-allocs", "--older", "0", "--format", "json") as s:
        go(p)
        truth = truth_of(p)
        rows = json.loads(end(s))["processes"][0]["rows"]
    found = [b for r in rows if any(f["function"] == "by_leak" for f in r["frames"]) for b in r["allocs"]]
    assert (len(found), sum(b["bytes"] for b in found)) == (truth["by_leak"][0], truth["by_leak"][2])
    assert len({b["addr"] for b in found}) == len(found) and all(b["stands_for"] == 1 and b["age_ns"] > 0 for b in found)
    with running(prog("asked"), "20") as p, sampling(byteledger, "-p", p.pid, "--all", "--show-allocs", "--older", "0", "--count", "1") as s:
        go(p)
        truth_of(p)
        out = s.communicate(timeout=60)[0]
    assert len(re.findall(r"^\taddr = [0-9a-f]+ size = \d+, age ", out, re.M)) >= truth["by_leak"][0]


def test_one_thread_and_one_allocator_can_be_asked_about_alone(byteledger, prog):
    def count(*options):
        with running(prog("asked"), "50") as p, \
                sampling(byteledger, "-p", p.pid, "--all", "--format", "json", *[o if o != "PID" else str(p.pid) for o in options]) as s:
            go(p)
            truth = truth_of(p)
            return json.loads(end(s))["processes"][0]["estimated_allocations"], sum(t[0] for t in truth.values())
    got, all_of_it = count("--tid", "PID", "--comm", "asked", "--allocator", "glibc")
    assert got == all_of_it
    assert count("--tid", "1")[0] == 0
    assert count("--comm", "aske")[0] == 0
    with running(prog("asked"), "1") as p:
        code, said = refused(byteledger, "-p", p.pid, "--allocator", "jemalloc")
        assert code == 1 and "no jemalloc" in said, said
