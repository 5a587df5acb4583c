# SPDX-License-Identifier: Apache-2.0
"""What the environment asks of a recording: short-lived blocks left out, zeroed memory, room on the disk, another owner."""
import csv
import io
import json
import os
import re
import shutil
import subprocess
import time

import pytest

from conftest import info, report

CULL = "CULL_TEMPORARY_ALLOCATIONS"


def rows(taken):
    # the sizes of stacks of the program's own; addresses of libraries differ from run to run, offsets do not
    keys = ("allocations", "allocated_bytes", "temporary_allocations", "leaked_allocations", "leaked_bytes", "peak_bytes")
    return sorted((row["frames"][0]["offset"], *(row[k] for k in keys)) for row in taken["rows"]
                  if row["frames"][0]["module"] == "temporaries")


@pytest.mark.parametrize("how,prefix", [("under", "BYTELEDGER_"), ("alone", "MEMORY_PROFILER_")])
def test_what_is_left_out_stays_in_the_totals_and_the_peak(recorded, byteledger, prog, how, prefix):
    argv = [prog("temporaries"), "50000"]
    plain, _ = recorded(how, argv, {})
    culled, done = recorded(how, argv, {prefix + CULL: "1"})
    assert (done.returncode, done.stderr) == (0, b"")
    assert not [name for name in os.listdir(os.path.dirname(culled)) if "pending" in name]
    a, b = report(byteledger, plain), report(byteledger, culled)
    assert rows(a) == rows(b)
    for key in ("temporary_allocations", "foreign_frees", "threads"):
        assert a["totals"][key] == b["totals"][key]
    assert a["totals"]["peak_bytes"] - b["totals"]["peak_bytes"] < 1000 # the C library's own of the environment
    assert a["culled"] == {"allocations": 0, "bytes": 0} and b["lost"]["events"] == 0
    assert 100002 <= b["culled"]["allocations"] <= 100010 and b["culled"]["in_peaks"] is True
    assert b["culled"]["bytes"] >= 50000 * 400 + (10 << 20) + 64
    # nothing but what stays is an event of its own
    events = info(byteledger, culled)["events"]
    assert 500 <= events["allocations"] < 520 and events["frees"] < 20 and events["culled_sums"] >= 3
    assert os.path.getsize(culled) < os.path.getsize(plain)
    text = subprocess.run([byteledger, "report", culled], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "CULLED: 100,00" in text


def test_a_selection_by_function_takes_what_was_left_out_along(recorded, byteledger, prog):
    path, _ = recorded("under", [prog("temporaries"), "1000"], {"BYTELEDGER_" + CULL: "1"})
    passes = report(byteledger, path, "--function-regex", "^passes$")["totals"]
    assert passes["allocations"] == 2000 and passes["leaked_allocations"] == 0
    assert report(byteledger, path, "--function-regex", "^passes$")["culled"]["in_peaks"] is False
    # sizes and lifetimes of what was left out are not told apart
    assert report(byteledger, path, "--min-size", "1")["totals"]["allocations"] < 100
    assert report(byteledger, path, "--at", "end")["totals"]["leaked_allocations"] >= 10


def test_a_selection_that_cannot_tell_what_was_left_out_apart_says_so(recorded, byteledger, prog):
    path, _ = recorded("under", [prog("temporaries"), "1000"], {"BYTELEDGER_" + CULL: "1", "BYTELEDGER_WRITE_BINARIES_TO_OUTPUT": "0"})
    whole = report(byteledger, path)["culled"]
    with open(path, "rb") as file:
        data = file.read()
    blocks = [m.start() for m in re.finditer(b"\x8fLTBlock", data)] # the last three: summary, index, end
    killed = path + ".killed"
    with open(killed, "wb") as file: # as a recorder leaves it that is killed
        file.write(data[:blocks[-3]])
    assert info(byteledger, path)["file"]["summary"] and not info(byteledger, killed)["file"]["summary"]
    for asked in ("--at", "1ms"), ("--at", "0%"), ("--min-size", "1"), ("--max-size", "1000"), ("--lifetime-max", "1s"), \
            ("--from", "0s", "--to", "1ms"):
        for file in path, killed:
            told = report(byteledger, file, *asked)["culled"]
            assert told["allocations"] == whole["allocations"] and told["bytes"] == whole["bytes"], (asked, file)
            assert told["in_totals"] is False and told["in_peaks"] is False, (asked, file)
        text = subprocess.run([byteledger, "report", path, *asked], capture_output=True, text=True, timeout=60, check=True).stdout
        assert "may belong here" in " ".join(text.split()), asked
    # what is known for certain needs no word
    for asked in ("--at", "end"), ("--leaked",), ("--min-size", str(11 << 20)), ("--lifetime-min", "1h"):
        assert report(byteledger, path, *asked)["culled"] == {"allocations": 0, "bytes": 0}, asked


def test_a_threshold_of_nothing_leaves_nothing_out(recorded, byteledger, prog):
    env = {"BYTELEDGER_" + CULL: "1", "MEMORY_PROFILER_TEMPORARY_ALLOCATION_LIFETIME_THRESHOLD": "0"}
    path, _ = recorded("under", [prog("temporaries"), "1000"], env)
    taken = report(byteledger, path)
    assert taken["culled"]["allocations"] == 0 and info(byteledger, path)["events"]["allocations"] > 2000


def test_a_bound_on_what_is_undecided_writes_the_oldest(recorded, byteledger, prog):
    def take(bound):
        path, _ = recorded("under", [prog("temporaries"), "1000"], {"BYTELEDGER_" + CULL: "1", **bound})
        assert rows(report(byteledger, path)) == expected
        return report(byteledger, path)["culled"]["allocations"], info(byteledger, path)["events"]["frees"]
    name = "BYTELEDGER_TEMPORARY_ALLOCATION_PENDING_THRESHOLD"
    plain, _ = recorded("under", [prog("temporaries"), "1000"], {})
    expected = rows(report(byteledger, plain))
    free, few, one = take({}), take({name: "5"}), take({name: "1"})
    # a block of each round and what it becomes by realloc, and two more; nothing else is ever freed
    assert free == (2002, 0)
    # of five the older ones are those that stay: were the newer ones written, the rounds' would be
    assert few == free
    # with room for nothing but itself a block is written before its realloc can say that it was short-lived
    assert one == (2, 2000)


def test_what_was_left_out_is_exported_as_sums(recorded, byteledger, prog):
    path, _ = recorded("under", [prog("temporaries"), "1000"], {"BYTELEDGER_" + CULL: "1"})
    out = subprocess.run([byteledger, "export", "--to", "jsonl", path], capture_output=True, check=True, timeout=60).stdout
    sums = [e for e in map(json.loads, out.splitlines()) if e["event"] == "culled"]
    assert sum(e["allocations"] for e in sums) == report(byteledger, path)["culled"]["allocations"]
    assert max(e["largest_bytes"] for e in sums) == 10 << 20
    assert all(e["lived_less_than"] for e in sums if e["allocations"] > 100)
    totals = report(byteledger, path)["totals"]
    out, apart, sums = {}, "not told apart and left out", "in the sums of their stacks only"
    for form, words in ("massif", apart), ("heaptrack", apart), ("dhat", sums), ("folded", sums), ("csv", sums), ("pprof", sums):
        cost = ["--cost", "allocations"] if words == sums and form != "dhat" else []
        done = subprocess.run([byteledger, "export", "--to", form, *cost, path], capture_output=True, check=True, timeout=60)
        assert done.stderr.startswith(b"CULLED: ") and words in " ".join(done.stderr.decode().split()), form
        out[form] = done.stdout.decode("utf-8", "replace")
    # where a format has a place, its totals are those of the report, else a line says how much it lacks
    assert sum(int(line.split()[-1]) for line in out["folded"].splitlines()) == totals["allocations"]
    assert sum(int(row["allocations"]) for row in csv.DictReader(io.StringIO(out["csv"]))) == totals["allocations"]
    points = json.loads(out["dhat"])["pps"]
    assert sum(p["tbk"] for p in points) == totals["allocations"] and sum(p["tb"] for p in points) == totals["allocated_bytes"]
    assert max(p["mb"] for p in points) == 10 << 20 and all(p["mb"] <= p["tb"] for p in points)
    assert sum(p["gb"] for p in points) == totals["peak_bytes"] and all(p["gb"] <= p["mb"] and p["gbk"] for p in points if p["gb"])
    culled = report(byteledger, path)["culled"]
    assert f"# culled: {culled['allocations']} allocations, {culled['bytes']} bytes\n" in out["heaptrack"]
    assert f"without {culled['allocations']} short-lived allocations of {culled['bytes']} bytes\n" in out["massif"]


@pytest.mark.parametrize("how", ["under", "alone"])
def test_memory_is_zeroed_on_request(recorded, byteledger, prog, how):
    plain, done = recorded(how, [prog("temporaries"), "10"], {})
    assert done.stdout == b"dirty\n"
    path, done = recorded(how, [prog("temporaries"), "10"], {"MEMORY_PROFILER_ZERO_MEMORY": "1"})
    assert done.stdout == b"zero\n"
    assert rows(report(byteledger, path)) == rows(report(byteledger, plain))


@pytest.mark.parametrize("how", ["under", "alone"])
def test_a_recording_belongs_to_whom_it_was_meant_for(recorded, prog, how):
    if os.geteuid() != 0:
        pytest.skip("needs root")
    path, _ = recorded(how, [prog("temporaries"), "10"], {"BYTELEDGER_CHOWN_OUTPUT_TO": "12345"})
    there = os.stat(path)
    assert there.st_uid == 12345 and there.st_gid == os.getgid() and there.st_mode & 0o777 == 0o600


def test_a_recording_that_cannot_be_given_away_is_none_and_the_program_goes_on(byteledger, prog, tmp_path):
    root = os.geteuid() == 0
    if root and not shutil.which("setpriv"):
        pytest.skip("needs setpriv")
    argv = ["setpriv", "--bounding-set=-chown"] * root + [byteledger, "heap", "-o", str(tmp_path / "x.blt"), "--", prog("temporaries"), "10"]
    done = subprocess.run(argv, env={**os.environ, "BYTELEDGER_CHOWN_OUTPUT_TO": "12345"}, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"dirty\n"), done.stderr
    assert b"to user 12345: Operation not permitted" in done.stderr and b"hint: the program goes on, unrecorded" in done.stderr
    assert done.stderr.count(b"\n") == 2 and not os.listdir(tmp_path)


def test_a_full_file_goes_on_where_none_can_follow(byteledger, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    script = ('my @a; for (1 .. 150000) { push @a, "x" x ($_ * 7919 % 300); splice(@a, $_ * 31 % 400, 1) if @a > 400; '
              'if ($_ == 10) { select(undef, undef, undef, 0.002) until -s "$ARGV[0]/x.blt"; rename($ARGV[0], $ARGV[1]) } }')
    argv = [byteledger, "heap", "-q", "-o", str(here / "x.blt"), "--", "perl", "-e", script, str(here), str(there)]
    done = subprocess.run(argv, env={**os.environ, "BYTELEDGER_MAX_SIZE": "50K"}, capture_output=True, timeout=120)
    assert done.returncode == 0 and b"cannot create" in done.stderr and b"beyond BYTELEDGER_MAX_SIZE" in done.stderr, done.stderr
    assert os.listdir(there) == ["x.blt"] and (there / "x.blt").stat().st_size > 100 << 10
    told = report(byteledger, str(there / "x.blt"))
    assert told["process"]["complete"] and told["lost"]["events"] == 0 and told["totals"]["allocations"] > 150000


def test_a_disk_without_the_room_asked_for_is_left_alone(recorded, byteledger, prog):
    path, done = recorded("under", [prog("temporaries"), "10"], {"BYTELEDGER_MIN_FREE": str(1 << 60)})
    assert done.returncode == 0 and done.stdout == b"dirty\n"
    assert b"less than 1152921504606846976 bytes free" in done.stderr
    assert not os.path.exists(path)


@pytest.mark.parametrize("name,off,on", [(CULL, "0", "0"), (CULL, "0", "1"), ("FILTER", "!module:none.so*", "!module:libc.so*")])
def test_what_is_recorded_and_what_a_full_disk_costs_are_the_whole(recorded, byteledger, tmp_path, name, off, on):
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("no file system of its own can be mounted here")
    # perl copies its environment: values of one length make it ask for the same, and the shell between adds PWD where there is none
    env = {"PERL_HASH_SEED": "0", "PERL_PERTURB_KEYS": "0", "PWD": os.getcwd()}
    argv = ["perl", "-e", 'for (1 .. 50000) { push @a, [$_, "x" x ($_ * 7919 % 97)]; splice(@a, $_ * 31 % 500, 1) if @a > 500 }']
    whole = report(byteledger, recorded("under", argv, {**env, "BYTELEDGER_" + name: off})[0])["totals"]
    disk, said = tmp_path / "disk", tmp_path / "said"
    disk.mkdir()
    # room for the tail that is kept free, and one page
    script = ('mount -t tmpfs -o size=68k none "$1" && "$2" heap -q -o "$1"/x.blt -- perl -e "$4"; '
              '"$2" report --format json "$1"/x.blt > "$3"')
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(disk), byteledger, str(said), argv[2]],
                          env={**os.environ, **env, "BYTELEDGER_" + name: on}, capture_output=True, timeout=60)
    assert b"cannot write" in done.stderr and b"No space left on device" in done.stderr, done.stderr
    told = json.loads(said.read_text())
    kept, lost, left_out = told["totals"], told["lost"], told["filtered"]
    # a machine that lets the recorder stand still for a second makes the program drop calls instead of waiting for it
    assert "write_failed" in lost["by_reason"] and lost["by_reason"].keys() <= {"write_failed", "ring_full"}
    assert kept["allocations"] + kept["frees"] + lost["events"] + left_out["allocations"] + left_out["frees"] == \
        whole["allocations"] + whole["frees"]
    assert kept["allocated_bytes"] + lost["bytes"] + left_out["bytes"] == whole["allocated_bytes"]
    assert (left_out["allocations"] > 0) == (name == "FILTER")


def test_a_full_disk_is_told_as_that_and_not_as_a_dead_recorder(byteledger, tmp_path):
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("no file system of its own can be mounted here")
    disk, said = tmp_path / "disk", tmp_path / "said"
    disk.mkdir()
    # room for the head, and not for what 60,000 blocks take (180,000 events); many more come once that has been noticed
    script = 'cd "$1" && mount -t tmpfs -o size=100k none "$1" && "$2" heap -q -o "$1/a.blt" -- perl -e "$3" "$4" 2>"$4" && ' \
             '"$2" report --format json "$1/a.blt"'
    program = 'srand(1); push @a, "x" x int(rand(300)) for 1 .. 60000; ' \
              'for (1 .. 6000) { last if -s $ARGV[0]; select(undef, undef, undef, 0.01) } ' \
              'push @a, "x" x int(rand(300)) for 1 .. 240000; print STDERR "all of it\n"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(disk), byteledger, program, str(said)],
                          capture_output=True, text=True, timeout=120)
    heard = said.read_text(encoding="utf-8")
    assert "No space left on device" in heard.split("all of it")[0] and heard.endswith("all of it\n"), heard + done.stderr
    told = json.loads(done.stdout)
    # a machine that lets the recorder stand still for a second makes the program drop calls instead of waiting for it
    assert "write_failed" in told["lost"]["by_reason"] and told["lost"]["by_reason"].keys() <= {"write_failed", "ring_full"}
    assert told["totals"]["allocations"] + sum(told["lost"]["by_reason"].values()) >= 300000


def test_a_recorder_without_memory_says_so_in_the_file_and_the_program_goes_on(byteledger, installed, tmp_path):
    (tmp_path / "many.c").write_text("#include <stdio.h>\n#include <stdlib.h>\nint main(void)\n{\n\tlong n = 0;\n"
                                     "\tfor (long i = 0; i < 6000000; i++)\n\t\tn += malloc(16) != NULL;\n"
                                     "\treturn printf(\"%ld\\n\", n) < 0;\n}\n")
    subprocess.run([installed("cc"), "-O1", "-o", str(tmp_path / "many"), str(tmp_path / "many.c")], check=True, timeout=60)
    # room for the program's 190 MB; what is known of its blocks takes more
    done = subprocess.run(["bash", "-c", 'ulimit -v 420000; exec "$0" heap -q -o "$1/x.blt" -- "$1/many"', byteledger, str(tmp_path)],
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "6000000\n") and "live blocks: Cannot allocate memory" in done.stderr, done.stderr
    told = json.loads(subprocess.run([byteledger, "report", "--format", "json", str(tmp_path / "x.blt")], capture_output=True,
                                     text=True, check=True, timeout=60).stdout)
    assert told["lost"]["by_reason"].keys() == {"no_memory"}
    assert 1000000 < told["totals"]["allocations"] < 6000000 and not told["process"]["complete"]


def test_a_recording_goes_on_in_another_file_when_the_full_disk_has_room_again(byteledger, tmp_path):
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("no file system of its own can be mounted here")
    disk, said = tmp_path / "disk", tmp_path / "said"
    disk.mkdir()
    # room for the head; what lies in the way is taken away by the program, once the full disk was noticed and 50,000 blocks were lost
    script = 'mount -t tmpfs -o size=8m none "$1" && fallocate -l 8286208 "$1/ballast" && ' \
             '"$2" heap -q -o "$1/a.blt" -- perl -e "$3" "$4" "$1/ballast" 2>"$4"; ls "$1"; ' \
             '"$2" report --format json "$1/a.blt" && "$2" report --format json "$1/a.blt.1"'
    program = 'sub seen { for (1 .. 6000) { open my $f, "<", $ARGV[0]; return if join("", <$f>) =~ $_[0]; select(undef, undef, undef, 0.01) } ' \
              'exit 9 } sub more { push @a, "x" x int(rand(300)) for 1 .. $_[0] } srand(1); ' \
              'more(60000); seen("No space"); more(50000); unlink $ARGV[1]; seen("goes on in"); more(40000)'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(disk), byteledger, program, str(said)],
                          capture_output=True, text=True, timeout=120)
    heard = said.read_text(encoding="utf-8")
    assert re.search("is only counted until there is room again\n.*has room again: the recording goes on in", heard), heard + done.stderr
    names, first, second = done.stdout.split("{\"version\"")
    assert names.split() == ["a.blt", "a.blt.1"], done.stdout
    first, second = (json.loads("{\"version\"" + one) for one in (first, second))
    assert first["lost"]["by_reason"]["write_failed"] > 0 and not first["process"]["complete"]
    # a machine that lets the recorder stand still for a second makes the program drop calls instead of waiting for it
    dropped = sum(one["lost"]["by_reason"].get("ring_full", 0) for one in (first, second))
    # all that lives is known again, what was allocated in between, too
    assert second["process"]["complete"] and second["process"]["continued"] and "write_failed" not in second["lost"]["by_reason"]
    assert second["totals"]["inherited_allocations"] >= 110000 - dropped
    assert second["totals"]["allocations"] - second["totals"]["inherited_allocations"] >= 40000 - dropped
    assert second["totals"]["leaked_allocations"] + second["totals"].get("uncertain_allocations", 0) >= 150000 - dropped
    assert all(row["frames"] and row["frames"][0]["module"] for row in second["rows"])


# It sleeps so often that most blocks live for two milliseconds on the fastest machine, and that its recorder keeps up.
CHURN = 'srand(1); for (1 .. 300000) { push @a, "x" x int(rand(300)); splice(@a, int(rand(@a)), 1) if @a > 400; ' \
        'select(undef, undef, undef, 0.002) unless $_ % 500 }'


@pytest.mark.parametrize("how,extra", [("under", {}), ("alone", {}), ("under", {"BYTELEDGER_FILTER": "!module:libc.so*"}),
                                       ("under", {"BYTELEDGER_" + CULL: "1",
                                       "BYTELEDGER_TEMPORARY_ALLOCATION_LIFETIME_THRESHOLD": "1"})])
def test_a_full_file_is_followed_by_another_that_begins_with_what_lives(recorded, byteledger, how, extra):
    argv = ["perl", "-e", CHURN]
    env = {"PERL_HASH_SEED": "0", **extra}
    told = report(byteledger, recorded("under", argv, {**env, "BYTELEDGER_MAX_SIZE": "0"})[0])
    whole = told["totals"]
    size = "60000"
    first, done = recorded("under", argv, {**env, "BYTELEDGER_MAX_SIZE": size}) if how == "under" else \
        recorded("alone", argv, {**env, "MEMORY_PROFILER_MAX_SIZE": size})
    assert done.returncode == 0
    files = [first] + [name for n in range(1, 100) if os.path.exists(name := f"{first}.{n}")]
    assert len(files) >= 2
    deadline = time.monotonic() + 30
    while not info(byteledger, files[-1])["file"]["finished"]:
        assert time.monotonic() < deadline
        time.sleep(0.02)
        files = [first] + [name for n in range(1, 100) if os.path.exists(name := f"{first}.{n}")]
    parts = [report(byteledger, name) for name in files]
    assert all(p["process"]["complete"] and p["lost"]["events"] == 0 for p in parts)
    assert all(p["process"]["continued"] for p in parts[1:]) and "continued" not in parts[0]["process"]
    for a, b in zip(parts, parts[1:]):
        assert a["totals"]["leaked_allocations"] == b["totals"]["inherited_allocations"]
        assert a["totals"]["leaked_bytes"] == b["totals"]["inherited_bytes"]
    slack = 0 if how == "under" else 30 # perl copies the variables of the environment
    for key, inherited in (("allocations", "inherited_allocations"), ("allocated_bytes", "inherited_bytes"), ("frees", None)):
        total = sum(p["totals"][key] - p["totals"].get(inherited, 0) for p in parts)
        assert abs(total - whole[key]) <= (slack * 100 if "bytes" in key else slack) + (2000 if "bytes" in key else 2), key
    assert sum(p["totals"]["foreign_frees"] for p in parts) == whole["foreign_frees"]
    # what lived when a file began and was left out before is left out again, and told apart
    left_out = sum(p["filtered"]["allocations"] - p["filtered"].get("inherited_allocations", 0) for p in parts)
    assert abs(left_out - told["filtered"]["allocations"]) <= slack + 2 and (left_out > 0) == ("BYTELEDGER_FILTER" in extra)
    frames = [row["frames"] for row in parts[-1]["rows"]]
    assert all(f["module"] for stack in frames for f in stack[:1]) and max(map(len, frames)) > 5


@pytest.mark.parametrize("name,value", [("MAX_SIZE", "10x"), ("MIN_FREE", "much"), ("KEEP_FILES", "2K")])
def test_a_limit_that_makes_no_sense_is_not_passed_over(recorded, byteledger, prog, name, value):
    argv, env = [prog("temporaries"), "10"], {f"BYTELEDGER_{name}": value}
    path, done = recorded("under", argv, env)
    assert done.returncode == 1 and not os.path.exists(path)
    assert f"cannot use BYTELEDGER_{name}\nhint: it is a " in done.stderr.decode()
    path, done = recorded("alone", argv, env)
    assert (done.returncode, report(byteledger, path)["process"]["complete"]) == (0, True)
    assert done.stderr.decode() == f"byteledger: BYTELEDGER_{name} makes no sense: no limit\n"


def test_only_so_many_files_are_kept(recorded, byteledger):
    path, _ = recorded("under", ["perl", "-e", CHURN], {"BYTELEDGER_MAX_SIZE": "59K", "BYTELEDGER_KEEP_FILES": "2"})
    folder = os.path.dirname(path)
    left = sorted(os.listdir(folder), key=lambda name: int(name.split(".")[2]))
    numbers = [int(name.split(".")[2]) for name in left]
    assert len(left) == 2 and numbers[0] >= 3 and numbers[1] == numbers[0] + 1 # the last two, however many there were
    assert [bool(report(byteledger, os.path.join(folder, name))["process"].get("continued")) for name in left] == [True, True]
    assert all(report(byteledger, os.path.join(folder, name))["process"]["complete"] for name in left)


@pytest.mark.parametrize("how", ["under", "alone"])
def test_symbols_are_stored_on_request_and_read_without_the_program(recorded, byteledger, prog, tmp_path, how):
    copy = tmp_path / "temporaries"
    copy.write_bytes(open(prog("temporaries"), "rb").read())
    copy.chmod(0o755)
    path, done = recorded(how, [str(copy), "1000"], {"MEMORY_PROFILER_WRITE_BINARIES_TO_OUTPUT": "1"})
    assert (done.returncode, done.stderr) == (0, b"")
    deadline = time.monotonic() + 30
    while not info(byteledger, path)["definitions"]["symbols"]: # the recorder adds them once the file is whole
        assert time.monotonic() < deadline
        time.sleep(0.02)
    copy.unlink()
    functions = {row["frames"][0]["function"] for row in report(byteledger, path)["rows"]}
    assert {"passes", "main"} <= functions


def test_the_log_warns_of_what_is_not_followed_and_of_nothing_else(recorded, prog):
    wrong = {"BUDGET": "7", "ON_FULL": "sometimes", "SAMPLE_BYTES": "many"}
    right = {"MAX_SIZE": "100000000", "KEEP_FILES": "3"}
    _, done = recorded("alone", [prog("manners"), "blocks", "3"],
                       {"BYTELEDGER_LOG": "warn", **{"BYTELEDGER_" + k: v for k, v in {**wrong, **right}.items()}})
    lines = done.stderr.decode().splitlines()
    assert sorted(line.split(" WRN ")[1].split("=")[0].split()[0] for line in lines) == sorted(wrong)


@pytest.mark.parametrize("how", ["under", "alone"])
def test_files_that_match_are_embedded_and_listed(recorded, byteledger, prog, tmp_path_factory, how):
    folder = tmp_path_factory.mktemp("etc")
    noise = os.urandom(5000) # not to be compressed, so that it can be found as it is
    (folder / "a.conf").write_bytes(noise)
    (folder / "b\x1b.conf").write_bytes(b"short")
    (folder / "c.conf").mkdir()
    (folder / "d.txt").write_bytes(b"of another name")
    with open(folder / "large.conf", "wb") as large:
        large.truncate((8 << 20) + 1)
    env = {"MEMORY_PROFILER_INCLUDE_FILE": f"{folder}/*.conf"}
    path, done = recorded(how, [prog("temporaries"), "10"], env)
    assert "large.conf' is not in the recording: files of more than 8 MiB" in done.stderr.decode() and done.stderr.count(b"\n") == 1
    files = info(byteledger, path)["files"]
    assert [(os.path.basename(f["path"]), f["bytes"], f["stored"], f.get("why")) for f in files] == [
        ("a.conf", 5000, True, None), ("b\x1b.conf", 5, True, None), ("large.conf", (8 << 20) + 1, False, "too large")]
    assert files[0]["changed_realtime_ns"] == os.stat(folder / "a.conf").st_mtime_ns
    with open(path, "rb") as file:
        whole = file.read()
    assert whole.count(noise) == 1 and b"of another name" not in whole
    text = subprocess.run([byteledger, "info", path], capture_output=True, text=True, check=True, timeout=60).stdout
    assert "\x1b" not in text and "large.conf, left out: too large" in text
    assert report(byteledger, path)["totals"]["allocations"] > 10


def test_a_pattern_that_nothing_matches_is_told(recorded, byteledger, prog):
    path, done = recorded("under", [prog("temporaries"), "10"], {"BYTELEDGER_INCLUDE_FILE": "/nonexistent/*"})
    assert done.stderr == b"byteledger: '/nonexistent/*' is not in the recording: no file matches\n"
    assert done.returncode == 0 and info(byteledger, path)["files"] == []
