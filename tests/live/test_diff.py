# SPDX-License-Identifier: Apache-2.0
"""`byteledger diff`: two recordings, or two moments of one, side by side."""
import json
import os
import re
import shutil
import subprocess

import pytest

import formats
from test_serve import Server

SOURCE = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
%s
static void *keep[100000];
static int n;
__attribute__((noinline)) void *cache(size_t s) { return keep[n++] = memset(malloc(s), 1, s); }
__attribute__((noinline)) void work(int k) { for (int i = 0; i < k; i++) cache(1000); }
__attribute__((noinline)) void gone(void) { for (int i = 0; i < 50; i++) cache(700); }
__attribute__((noinline)) void fresh(void) { for (int i = 0; i < 30; i++) cache(3000); }
int main(int argc, char **argv)
{
	work(atoi(argv[1]));
	usleep(50000);
	if (argc > 2)
		fresh();
	else
		gone();
	return 0;
}
"""


@pytest.fixture(scope="module")
def pair(byteledger, tmp_path_factory):
    """Two recordings: the second of a program that was built anew, so that nothing is at its old address or line."""
    folder = tmp_path_factory.mktemp("diff")
    made = []
    for name, extra, argv in (("a", "", ["100"]), ("b", "int pushed[999] = { 1 };\n\n\nint push(int x) { return pushed[x] * 7; }", ["150", "x"])):
        (folder / f"{name}.c").write_text(SOURCE % extra)
        subprocess.run(["gcc", "-g", "-O1", "-fno-builtin", "-o", str(folder / "prog"), str(folder / f"{name}.c")], check=True, timeout=60)
        made.append(str(folder / f"{name}.blt"))
        subprocess.run([byteledger, "run", "-q", "-o", made[-1], "--", str(folder / "prog"), *argv], check=True, timeout=60)
        subprocess.run([byteledger, "report", "--store-symbols", made[-1]], check=True, capture_output=True, timeout=60)
    return made


def diff(byteledger, *words, status=0):
    done = subprocess.run([byteledger, "diff", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done


def asker(row):
    return row["frames"][1]["function"]


def test_call_paths_of_a_rebuilt_program_meet_by_function(byteledger, pair):
    told = json.loads(diff(byteledger, "--format", "json", *pair).stdout)
    rows = {asker(row): row for row in told["rows"] if row["frames"][0]["function"] == "cache"}
    assert {name: (row["before"], row["after"], row["what"]) for name, row in rows.items()} == {
        "work": (100000, 150000, "grown"), "fresh": (0, 90000, "new"), "gone": (35000, 0, "gone")}
    assert told["change"] == told["total_after"] - told["total_before"] == 105000
    assert sum(row["change"] for row in told["rows"]) == told["change"]
    changes = [abs(row["change"]) for row in told["rows"]]
    assert changes == sorted(changes, reverse=True)


def test_groups_have_own_and_inclusive_changes(byteledger, pair):
    told = json.loads(diff(byteledger, "--format", "json", "--by", "function", "--cost", "live", *pair).stdout)
    rows = {row["frames"][0]["function"]: row for row in told["rows"]}
    assert (rows["main"]["change"], rows["main"]["inclusive_change"]) == (0, 105000)
    assert (rows["cache"]["change"], rows["cache"]["inclusive_change"]) == (105000, 105000)
    assert rows["fresh"]["inclusive_before"] == 0 and rows["fresh"]["what"] == "new"


def live_at(byteledger, path, ms):
    told = subprocess.run([byteledger, "report", path, "--format", "json", "--cost", "live", "--at", f"{ms}ms"], capture_output=True, timeout=60)
    return sum(row["leaked_bytes"] for row in json.loads(told.stdout)["rows"] if any(f["function"] == "cache" for f in row["frames"]))


def test_two_moments_of_one_recording_are_compared(byteledger, pair):
    # the program sleeps between the two, sooner or later by how busy the machine is
    between = next(ms for ms in range(5, 5000, 5) if live_at(byteledger, pair[1], ms) == 150000)
    told = json.loads(diff(byteledger, "--format", "json", f"{pair[1]}@{between}ms", f"{pair[1]}@end").stdout)
    assert told["cost"] == "live"
    assert {asker(row): row["change"] for row in told["rows"]} == {"fresh": 90000}
    # beside a moment a recording as a whole is what lives at its end: before, nothing did
    moment = f"{pair[1]}@{between}ms"
    for words, turned in (((moment, pair[1]), 1), ((pair[1], moment), -1)):
        whole = json.loads(diff(byteledger, "--format", "json", *words).stdout)
        assert {asker(row): turned * row["change"] for row in whole["rows"]} == {"fresh": 90000}


def test_a_recording_and_itself_are_the_same(byteledger, pair):
    assert "the same to the byte" in diff(byteledger, pair[0], pair[0]).stdout
    assert json.loads(diff(byteledger, "--format", "json", pair[0], pair[0]).stdout)["rows"] == []


def test_growth_beyond_a_bound_ends_with_three(byteledger, pair):
    assert "growth>5%: peak grew from 132 KiB to 234 KiB" in diff(byteledger, "--fail-if", "growth>5%", *pair, status=3).stderr
    diff(byteledger, "--fail-if", "growth>100K", *pair, status=3)
    diff(byteledger, "--fail-if", "growth>200K", "--fail-if", "growth>80%", *pair)
    diff(byteledger, "--fail-if", "growth>0%", *reversed(pair))


def test_folded_lines_hold_both_sides_and_what_did_not_change(byteledger, pair):
    lines = diff(byteledger, "--format", "folded", pair[0], pair[0]).stdout.splitlines()
    assert [line.split(" ")[1:] for line in lines if ";work;cache" in line] == [["100000", "100000"]]
    both = diff(byteledger, "--format", "folded", *pair).stdout.splitlines()
    assert sum(int(line.split(" ")[2]) - int(line.split(" ")[1]) for line in both) == 105000


@pytest.mark.large
def test_go_tool_pprof_shows_the_same_growth(byteledger, pair, tmp_path):
    go = shutil.which("go") or "/usr/local/go/bin/go"
    if not os.path.exists(go):
        pytest.skip("go is not installed")
    for name, path in zip("ab", pair):
        subprocess.run([byteledger, "export", path, "--to", "pprof", "-o", str(tmp_path / name)], check=True, timeout=60)
    done = subprocess.run([go, "tool", "pprof", "-top", "-cum", "-unit=b", "-sample_index=inuse_space", "-nodefraction=0", "-diff_base",
                           str(tmp_path / "a"), str(tmp_path / "b")], capture_output=True, text=True, check=True, timeout=120).stdout
    rows = {line.split()[-1]: line.split()[3] for line in done.splitlines() if re.match(r" *-?[0-9.]+B? .*%", line)}
    told = json.loads(diff(byteledger, "--format", "json", "--by", "function", "--cost", "live", *pair).stdout)
    for row in told["rows"]:
        name = row["frames"][0]["function"]
        if name and row["inclusive_change"]:
            assert rows[name].rstrip("B") == str(row["inclusive_change"]), (name, done)
    assert rows["main"].startswith("105000")


@pytest.mark.parametrize("columns", ["40", "80", "160"])
def test_lines_keep_to_the_width(byteledger, pair, columns):
    for words in ([], ["--by", "function"], ["--by", "line"]):
        done = subprocess.run([byteledger, "diff", *words, *pair], capture_output=True, text=True, timeout=60, check=True,
                              env={"COLUMNS": columns, "LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"})
        longest = max(done.stdout.splitlines()[8:], key=len)
        assert columns == "40" or len(longest) <= int(columns), longest


@pytest.mark.parametrize("words, said", [
    (["one"], "two readings are compared"), (["a", "b", "c"], "too many files: 'c'"), (["--by", "thread", "A", "B"], "threads"),
    (["A@then", "B"], "bad time 'then'"), (["A", "missing"], "cannot open 'missing'"), (["--fail-if", "peak>1", "A", "B"], "bad rule"),
    (["--format", "pdf", "A", "B"], "unknown format"), (["--inverted", "A", "B"], "--inverted is of trees")])
def test_what_cannot_be_compared_is_said_in_a_line(byteledger, pair, words, said):
    words = [word.replace("A", pair[0], 1) if word[0] == "A" else pair[1] if word == "B" else word for word in words]
    done = subprocess.run([byteledger, "diff", *words], capture_output=True, text=True, timeout=60)
    assert done.returncode in (1, 2) and said in done.stderr.splitlines()[0] and not done.stdout, done.stderr


RENAMED = """#include <stdlib.h>
void *kept[4000];
int k;
__attribute__((noinline)) void grows(int n) { for (int i = 0; i < n; i++) kept[k++] = malloc(100); }
__attribute__((noinline)) void stays(void) { for (int i = 0; i < 1000; i++) kept[k++] = malloc(300); }
int main(void) { grows(TIMES); stays(); }
"""


def test_two_builds_with_names_of_their_own_meet(byteledger, installed, tmp_path):
    """What people do by hand: prog.old and prog.new side by side. The program is the program, whatever its file is called."""
    files = []
    for name, times, line in (("prog.old", 1000, ""), ("prog.new", 2000, "\n\n")):
        (tmp_path / "p.c").write_text(line + RENAMED)
        subprocess.run([installed("cc"), "-g", "-O1", f"-DTIMES={times}", "-o", str(tmp_path / name), str(tmp_path / "p.c")], check=True)
        files.append(str(tmp_path / f"{name}.blt"))
        subprocess.run([byteledger, "run", "-q", "-o", files[-1], "--", str(tmp_path / name)], check=True, timeout=60)
    for by, count in (("stack", 1), ("function", 3), ("module", 1)):
        done = subprocess.run([byteledger, "diff", *files, "--by", by], capture_output=True, text=True, check=True, timeout=60).stdout
        assert "0 new, 0 gone" in done and "+97.7 KiB" in done, done
    with Server(byteledger, *files) as server:
        tree = server.get("tree", src="1", base="0", cost="peak")
        names = tree["frames"]["name"]
        changes = {names[f]: (base, total) for f, base, total in zip(tree["node"]["frame"], tree["node"]["base"], tree["node"]["total"]) if f >= 0}
        assert changes["grows"] == (100000, 200000) and changes["stays"] == (300000, 300000)
        assert sum(n == "main" for n in names) == 1


def test_code_without_a_name_stays_its_programs(byteledger, installed, tmp_path):
    """Two programs that have nothing in common: what one of them had and is gone is not told as the other's code."""
    files = []
    for argv in (["sort", "/etc/passwd"], ["gawk", "BEGIN { for (i = 0; i < 5000; i++) a[i] = i }"]):
        files.append(str(tmp_path / f"{argv[0]}.blt"))
        subprocess.run([byteledger, "run", "-q", "-o", files[-1], "--", installed(argv[0]), *argv[1:]], check=True, timeout=60, capture_output=True)
    with Server(byteledger, *files) as server:
        tree = server.get("tree", src="1", base="0", cost="allocated")
    frames, modules = tree["frames"], tree["modules"]
    unnamed = {(base > 0, total > 0, modules[frames["module"][f]]) for f, base, total in zip(tree["node"]["frame"], tree["node"]["base"], tree["node"]["total"])
               if f >= 0 and not frames["name"][f] and frames["module"][f] >= 0}
    assert {m for was, now, m in unnamed if was and not now and m in ("sort", "gawk")} == {"sort"}, unnamed
    assert {m for was, now, m in unnamed if now and not was and m in ("sort", "gawk")} == {"gawk"}, unnamed


def test_a_differential_profile_is_what_pprof_makes_of_two(byteledger, installed, tmp_path):
    """Sums are the change; `go tool pprof` shows the same table as for both profiles and its own -diff_base."""
    files, profiles = [], []
    for name, times in (("one", 1000), ("two", 2000)):
        (tmp_path / "p.c").write_text(RENAMED)
        subprocess.run([installed("cc"), "-g", "-O1", f"-DTIMES={times}", "-o", str(tmp_path / name), str(tmp_path / "p.c")], check=True)
        files.append(str(tmp_path / f"{name}.blt"))
        profiles.append(str(tmp_path / f"{name}.pb.gz"))
        subprocess.run([byteledger, "run", "-q", "-o", files[-1], "--", str(tmp_path / name)], check=True, timeout=60)
        subprocess.run([byteledger, "export", files[-1], "--to", "pprof", "-o", profiles[-1]], check=True, timeout=60)
    out = tmp_path / "diff.pb.gz"
    out.write_bytes(subprocess.run([byteledger, "diff", *files, "--format", "pprof"], check=True, capture_output=True, timeout=60).stdout)
    sums = {name: value - (1 << 64) if value >> 63 else value for name, value in ((n, v & (1 << 64) - 1) for n, v in formats.pprof_sums(out).items())}
    assert sums["peak_space"] == sums["alloc_space"] == 100000 and sums["alloc_objects"] == 1000, sums
    go = shutil.which("go")
    if go is None:
        pytest.skip("go is not installed: what its pprof shows is not looked at")
    table = [formats.check([go, "tool", "pprof", "-top", "-unit=B", "-sample_index=peak_space", *what]).split("flat%")[1]
             for what in ([str(out)], ["-diff_base", profiles[0], profiles[1]])]
    assert table[0] == table[1] and "100000B" in table[0], table
