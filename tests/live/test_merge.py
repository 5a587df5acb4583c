# SPDX-License-Identifier: Apache-2.0
"""`merge`: one recording of those of several processes; what it says is what the files say together."""
import collections
import json
import os
import subprocess
import sys

import pytest

FAMILY = """
import mmap, os, time
keep = [bytes(2000 + i) for i in range(1500)]
pids = []
for k in range(3):
    pid = os.fork()
    if not pid:
        some = [bytes(5000 + k) for i in range(1000 * (k + 1))]
        some = some[:100]
        m = mmap.mmap(-1, 1 << 22)
        m.write(b"x" * (1 << 20))
        time.sleep(0.3)
        os._exit(0)
    pids.append(pid)
for pid in pids:
    os.waitpid(pid, 0)
os.execv("/bin/ls", ["ls", "/"])
"""
ADDED = ("allocations", "allocated_bytes", "frees", "foreign_frees", "temporary_allocations", "leaked_allocations", "leaked_bytes",
         "live_allocations", "live_bytes", "threads")


def said(byteledger, *argv, status=0):
    done = subprocess.run([byteledger, *argv], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, (argv, done.stderr)
    return done


def report(byteledger, *argv):
    return json.loads(said(byteledger, "report", "--format", "json", *argv).stdout)


def record(byteledger, path, program, *options, **more):
    subprocess.run([byteledger, "run", "-q", *options, "-o", path, "--", sys.executable, "-S", "-c", program], check=True, timeout=120,
                   env={**os.environ, "PYTHONMALLOC": "malloc", **more}, stdout=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def family(byteledger, tmp_path_factory):
    folder = tmp_path_factory.mktemp("family")
    record(byteledger, folder / "%e_%p.blt", FAMILY, "--follow-children")
    files = sorted(str(folder / name) for name in os.listdir(folder) if ".blt" in name)
    assert len(files) >= 5 # it, three children, and what it became
    said(byteledger, "merge", "-o", folder / "all", *files)
    return files, str(folder / "all")


def by_path(*reports):
    """Sums of the rows whose call paths look alike."""
    sums = collections.defaultdict(lambda: [0] * 4)
    for told in reports:
        for row in told["rows"]:
            path = tuple((frame["function"], frame["module"], frame["offset"]) for frame in row["frames"])
            for i, key in enumerate(("allocations", "allocated_bytes", "leaked_bytes", "temporary_allocations")):
                sums[path][i] += row[key]
    return dict(sums)


def test_all_sums_are_those_of_the_files_together(byteledger, family):
    files, merged = family
    each, together = [report(byteledger, path) for path in files], report(byteledger, merged)
    for key in ADDED:
        assert together["totals"][key] == sum(told["totals"][key] for told in each), key
    assert by_path(together) == by_path(*each)
    assert len(together["rows"]) < sum(len(told["rows"]) for told in each) # equal call paths are one row
    peaks = [told["totals"]["peak_bytes"] for told in each]
    assert max(peaks) < together["totals"]["peak_bytes"] <= sum(peaks)
    assert max(t["totals"]["peak_rss_bytes"] for t in each) < together["totals"]["peak_rss_bytes"] <= sum(t["totals"]["peak_rss_bytes"] for t in each)
    assert "(and" in " ".join(together["process"]["cmdline"]) and together["process"]["pid"] == min(told["process"]["pid"] for told in each)


def test_a_moment_is_that_of_the_clock(byteledger, tmp_path):
    """The second begins when the first has ended: in between there is what the first left."""
    record(byteledger, tmp_path / "a.blt", "a = [bytes(3000) for i in range(500)]")
    record(byteledger, tmp_path / "b.blt", "import time; b = [bytes(7000) for i in range(900)]; time.sleep(0.2)")
    said(byteledger, "merge", "-o", tmp_path / "ab.blt", tmp_path / "b.blt", tmp_path / "a.blt")
    a, b, ab = (report(byteledger, tmp_path / name) for name in ("a.blt", "b.blt", "ab.blt"))
    assert ab["process"]["pid"] == a["process"]["pid"] # who was there first
    start = ab["process"]["start_realtime_ns"]
    assert start == a["process"]["start_realtime_ns"]
    gap = b["process"]["start_realtime_ns"] - start
    assert gap > a["process"]["runtime_ns"]
    assert abs(ab["process"]["runtime_ns"] - gap - b["process"]["runtime_ns"]) < 5_000_000
    between = report(byteledger, "--at", f"{(gap + a['process']['runtime_ns']) / 2e9:.6f}s", tmp_path / "ab.blt")
    assert between["totals"]["live_bytes"] == a["totals"]["live_bytes"]
    later = report(byteledger, "--from", f"{gap / 1e9 - 0.001:.6f}s", tmp_path / "ab.blt")
    assert later["totals"]["allocations"] == b["totals"]["allocations"]


def test_mappings_and_other_formats_add_up(byteledger, family):
    files, merged = family
    each, together = [report(byteledger, path)["mapped"] for path in files], report(byteledger, merged)["mapped"]
    for kind in ("anonymous", "file", "reserved"):
        for key in ("mappings", "mapped_bytes", "live_bytes"):
            assert together[kind][key] == sum(told[kind][key] for told in each if told), (kind, key)
    assert together["anonymous"]["mapped_bytes"] > 3 << 22
    folded = [sum(int(line.rsplit(" ", 1)[1]) for line in said(byteledger, "export", "--to", "folded", "--cost", "allocated", path).stdout.splitlines())
              for path in [*files, merged]]
    assert folded[-1] == sum(folded[:-1]) > 0
    rows = [json.loads(line) for line in said(byteledger, "export", "--to", "jsonl", merged).stdout.splitlines()]
    times = [row["time_ns"] for row in rows if "time_ns" in row]
    assert times == sorted(times) and len(times) > 1000


def test_what_heaptrack_recorded_is_merged_too(byteledger, tmp_path, family):
    said(byteledger, "export", "--to", "heaptrack", "-o", tmp_path / "h", family[0][0])
    said(byteledger, "merge", "-o", tmp_path / "m", tmp_path / "h", family[0][1])
    told = [report(byteledger, path)["totals"]["allocations"] for path in (tmp_path / "h", family[0][1], tmp_path / "m")]
    assert told[0] + told[1] == told[2]


def test_who_is_damaged_is_said_and_counts_as_lost(byteledger, tmp_path, family):
    path = max(family[0], key=os.path.getsize)
    data = bytearray(open(path, "rb").read())
    data[len(data) // 2] ^= 0x55
    (tmp_path / "bad").write_bytes(data)
    other = next(file for file in family[0] if file != path)
    done = said(byteledger, "merge", "-o", tmp_path / "m", tmp_path / "bad", other)
    assert str(tmp_path / "bad") in done.stderr
    told = report(byteledger, tmp_path / "m")
    assert "file_damaged" in told["lost"]["by_reason"] or not told["process"]["complete"]


def test_what_cannot_be_added_up_is_refused(byteledger, tmp_path, family):
    files, merged = family
    record(byteledger, tmp_path / "culled", "a = [bytes(i) for i in range(5000)]", BYTELEDGER_CULL_TEMPORARY_ALLOCATIONS="1",
           BYTELEDGER_TEMPORARY_ALLOCATION_LIFETIME_THRESHOLD="0.001")
    for others, why in (((files[1], files[1]), "the same process"), ((files[1], merged), "is a merged recording"), ((files[1], tmp_path / "culled"), "short-lived"),
                        ((files[1], "/etc/passwd"), "/etc/passwd"), ((files[1], tmp_path / "none"), "No such file")):
        done = said(byteledger, "merge", "-o", tmp_path / "m", *others, status=1)
        assert why in done.stderr and "hint:" in done.stderr, done.stderr
        assert not (tmp_path / "m").exists(), why
    assert "name all of them" in said(byteledger, "merge", "-o", tmp_path / "m", files[1], status=2).stderr
    assert "-o OUT" in said(byteledger, "merge", *files, status=2).stderr
    (tmp_path / "m").write_text("mine")
    assert said(byteledger, "merge", "-o", tmp_path / "m", *files[:2]).stdout.startswith(f"{tmp_path / 'm'}.1: ")
    assert (tmp_path / "m").read_text() == "mine"


def test_many_that_follow_each_other_need_no_more_memory(byteledger, tmp_path):
    """Who has ended is out of memory: ten that would take 12 MiB each at once, within 72 MiB."""
    for i in range(10):
        record(byteledger, tmp_path / f"{i}", f"for k in range({3000 + i}): bytes(3000)")
    files = [str(tmp_path / name) for name in os.listdir(tmp_path)]
    said(byteledger, "merge", "--memory", "72M", "-o", tmp_path / "all", *files)
    assert report(byteledger, tmp_path / "all")["totals"]["allocations"] == sum(report(byteledger, file)["totals"]["allocations"] for file in files)
