# SPDX-License-Identifier: Apache-2.0
"""Processes that were recorded together, and what takes a program's place while it is recorded."""
import json
import os
import re
import shutil
import subprocess
import time
import urllib.request

import pytest

SCRIPT = """#!/bin/sh
for i in 1 2 3; do perl -e 'my @a = map { "x" x 1000 } 1..(shift)' ${i}000; done
/bin/sh -c 'perl -e "my %h; \\$h{\\$_}=1 for 1..3000"; true'
exit 3
"""
GROWS = """import time, sys
x = [bytearray(100000) for i in range(50)]
end = time.time() + float(sys.argv[1])
while time.time() < end:
    y = [bytes(2000) for i in range(100)]; time.sleep(0.002)
"""


def said(*command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=120, **options)


def script(folder, text, name="wrap.sh"):
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return path


@pytest.fixture
def family(byteledger, tmp_path):
    """A shell, three programs, a shell with one more: six processes."""
    folder = tmp_path / "family"
    folder.mkdir()
    done = said(byteledger, "run", "--follow-children", "-o", folder / "%e_%p.blt", script(tmp_path, SCRIPT))
    assert done.returncode == 3, done.stderr
    return folder, done


def tree(byteledger, path, *options):
    done = said(byteledger, "report", "--tree", path, "--format", "json", *options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_that_follows_children_ends_with_all_of_them_as_a_tree(family):
    folder, done = family
    lines = done.stderr[done.stderr.index("Family "):].splitlines()
    assert re.match(r"Family  6 processes, ", lines[0])
    rows = [line for line in lines if re.search(r"  \d+ (dash|bash|sh|perl)", line)]
    assert len(rows) == 6
    assert [line.index(re.search(r"\d+ (\w+sh|sh|perl)", line)[0]) for line in rows] == [50, 52, 52, 52, 52, 54]
    assert lines[-1].startswith("byteledger: 6 processes were recorded: 'byteledger report --tree ")


def test_any_file_of_a_family_and_its_folder_lead_to_all_of_it(byteledger, family):
    folder, _ = family
    pages = [tree(byteledger, folder)] + [tree(byteledger, folder / name) for name in os.listdir(folder)]
    for page in pages:
        for process in page["processes"]:
            process["file"] = os.path.basename(process["file"])
        assert page["processes"] == pages[0]["processes"] and page["others"] == 0
    processes = pages[0]["processes"]
    assert [process["parent"] for process in processes] == [None, 0, 0, 0, 0, 4]
    assert [process["depth"] for process in processes] == [0, 1, 1, 1, 1, 2]
    assert processes[1]["parent_pid"] == processes[0]["pid"] and processes[0]["exit_status"] == 3
    for process in processes:  # the figures of the tree are those of each report
        alone = json.loads(said(byteledger, "report", "--format", "json", folder / process["file"]).stdout)["totals"]
        for key in ("allocations", "allocated_bytes", "peak_bytes", "peak_rss_bytes"):
            assert process[key] == alone[key], key
    assert pages[0]["totals"]["allocations"] == sum(process["allocations"] for process in processes)


def test_a_long_name_in_a_tree_keeps_its_end(byteledger, tmp_path):
    for name in "as", "ld":
        shutil.copy(shutil.which("true"), tmp_path / f"x86_64-linux-gnu-of-a-longer-name-{name}")
    text = f"#!/bin/sh\n{tmp_path}/x86_64-linux-gnu-of-a-longer-name-as\n{tmp_path}/x86_64-linux-gnu-of-a-longer-name-ld\n:\n"
    done = said(byteledger, "run", "--follow-children", "--no-pages", "-o", tmp_path / "%e_%p.blt", script(tmp_path, text),
                env={**os.environ, "COLUMNS": "80"})
    lines = [line for line in done.stderr.splitlines() if "x86_64" in line and "…" in line]
    assert [line[-8:] for line in lines] == ["-name-as", "-name-ld"], done.stderr
    assert max(map(len, lines)) <= 80


def test_families_in_one_folder_stay_apart(byteledger, family, tmp_path):
    folder, _ = family
    first = tree(byteledger, folder)
    said(byteledger, "run", "-q", "--follow-children", "-o", folder / "%e_%p.blt", "sh", "-c", "perl -e 1; perl -e 2; :")
    said(byteledger, "run", "-q", "-o", folder / "alone.blt", "perl", "-e", "1")
    assert tree(byteledger, first["processes"][2]["file"])["processes"] == first["processes"]
    assert len(tree(byteledger, folder / "alone.blt")["processes"]) == 1
    (folder / "a.txt").write_text("no recording")
    newest = tree(byteledger, folder)
    assert len(newest["processes"]) == 1 and newest["others"] == 9
    done = said(byteledger, "report", folder)
    assert done.returncode == 0 and "not listed: 9 recordings of other families in" in done.stderr
    os.mkdir(tmp_path / "two")
    for name in "first", "second":
        said(byteledger, "run", "-q", "-o", tmp_path / "two" / f"{name}.blt", "perl", "-e", "1")
    done = said(byteledger, "report", tmp_path / "two")
    assert done.returncode == 0 and "not listed: 1 recording of other families in" in done.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    done = said(byteledger, "report", "--tree", empty)
    assert done.returncode == 1 and "there is no recording in" in done.stderr


def test_the_library_alone_makes_a_family_by_parents(byteledger, preload, tmp_path):
    env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": f"{tmp_path}/%e_%p.blt", "BYTELEDGER_TRACK_CHILD_PROCESSES": "1"}
    said("sh", "-c", "perl -e 1; sh -c 'perl -e 2; :'; :", env=env)
    deadline = time.monotonic() + 20
    while True:
        page = tree(byteledger, tmp_path)
        if len(page["processes"]) == 4 and not any(p["being_written"] for p in page["processes"]):
            break
        assert time.monotonic() < deadline, page
        time.sleep(0.05)
    assert [process["parent"] for process in page["processes"]] == [None, 0, 0, 2]


def test_processes_of_another_namespace_are_listed(byteledger, tmp_path):
    """The first of a namespace of processes inherits its orphans: no recorder is started there, the library writes itself."""
    ours = ["unshare", "-p", "-f", "true"]
    if subprocess.run(ours, capture_output=True).returncode:
        pytest.skip("no namespace of processes here")
    perl = 'my @a = map { "x" x 1000 } 1..3000; system("perl", "-e", "1"); 1'
    done = said(byteledger, "heap", "--follow-children", "-o", tmp_path / "%e_%p.blt", *ours[:3], "perl", "-e", perl)
    assert done.returncode == 0, done.stderr
    assert re.search(r"  1 perl .*\(raw file\)$", done.stderr, re.M), done.stderr
    page = tree(byteledger, tmp_path)
    assert {process["file"] for process in page["processes"]} == {f"{tmp_path}/{name}" for name in os.listdir(tmp_path)} and page["others"] == 0
    first = next(p for p in page["processes"] if p["pid"] == 1 and p["exe"].endswith("/perl"))
    assert first["raw"] and first["allocations"] > 3000 and first["peak_bytes"] > 3_000_000
    for key in "allocations", "peak_bytes":
        assert first[key] == json.loads(said(byteledger, "report", "--format", "json", first["file"]).stdout)["totals"][key]


def test_what_a_process_became_unrecorded_is_said_in_the_family(byteledger, prog, tmp_path):
    static = prog("asked_static")
    done = said(byteledger, "heap", "--follow-children", "-o", tmp_path / "%e_%p.blt", "sh", "-c",
                f"sh -c 'exec {static}'; sh -c 'exec perl -e 1'; :")
    assert done.returncode == 0 and "; not recorded: 1\n" in done.stderr, done.stderr
    processes = tree(byteledger, tmp_path)["processes"]
    became = [process for process in processes if "became" in process]
    assert len(became) == 1 and became[0]["became"] in (static, ""), processes
    assert [os.path.basename(p["exe"]) for p in processes if "became" not in p][-1] == "perl"


def test_a_member_divided_into_files_is_one(byteledger, prog, tmp_path):
    env = {**os.environ, "BYTELEDGER_MAX_SIZE": "20000", "BYTELEDGER_STAMP_EVERY_EVENT": "1"}
    perl = "for my $i (1..60) { my @a = map { 'x' x (1000 + $_) } 1..800; select(undef, undef, undef, 0.03) }"
    said(byteledger, "run", "-q", "--follow-children", "-o", tmp_path / "%e_%p.blt", "sh", "-c", f'perl -e "{perl}"; :'.replace("$", "\\$"), env=env)
    page = tree(byteledger, tmp_path)
    assert [process["parent"] for process in page["processes"]] == [None, 0]
    assert page["processes"][1]["files"] == len(os.listdir(tmp_path)) - 1 > 1
    assert page["processes"][1]["allocations"] > 48000


# ---- what takes a program's place ----

@pytest.fixture
def wrapper(tmp_path):
    (tmp_path / "grows.py").write_text(GROWS)
    return script(tmp_path, f'#!/bin/sh\nexec /usr/bin/python3 {tmp_path}/grows.py "$@"\n')


def test_a_duration_ends_what_took_the_programs_place(byteledger, wrapper, tmp_path):
    """The program says when it has what it will keep; so long takes its start here, recorded, that the duration is a multiple of it."""
    (tmp_path / "grows.py").write_text(GROWS.replace("end =", "open(sys.argv[2], 'w').write(str(time.monotonic()))\nend ="))
    started = time.monotonic()
    subprocess.run([byteledger, "run", "-q", "-o", tmp_path / "first.blt", wrapper, "0", tmp_path / "has"], check=True, timeout=60)
    duration = max(0.7, 5 * (float((tmp_path / "has").read_text()) - started))
    began = time.monotonic()
    with open(tmp_path / "err", "w+") as err:  # no pipes: the program goes on, and would hold them
        done = subprocess.run([byteledger, "run", "--duration", f"{duration * 1000:.0f}ms", "-o", tmp_path / "x.blt", "--format", "json",
                               "--report", tmp_path / "x.json", wrapper, f"{duration + 60}", tmp_path / "has"],
                              stdout=subprocess.DEVNULL, stderr=err, timeout=duration + 60)
        err.seek(0)
        heard = err.read()
    assert time.monotonic() - began < 15 + duration - 0.7
    took, had = time.monotonic() - began, float((tmp_path / "has").read_text()) - began
    page = json.loads((tmp_path / "x.json").read_text())
    assert done.returncode == 0 and "python3" in page["process"]["exe"] and page["process"]["complete"]
    # of what took the place alone, and to the end of the duration
    assert duration - had < page["process"]["runtime_ns"] / 1e9 < min(took, 0.8 + duration) and page["totals"]["leaked_bytes"] > 5_000_000
    assert "before it, in the same process" in heard
    os.kill(page["process"]["pid"], 15)  # it goes on


def test_files_of_what_took_the_programs_place_are_numbered(byteledger, wrapper, tmp_path):
    env = {**os.environ, "BYTELEDGER_MAX_SIZE": "20000", "BYTELEDGER_STAMP_EVERY_EVENT": "1"}
    done = said(byteledger, "run", "-q", "-o", tmp_path / "x.blt", wrapper, "2", env=env)
    assert done.returncode == 0, done.stderr
    files = sorted((name for name in os.listdir(tmp_path) if "blt" in name), key=lambda name: (len(name), name))
    assert files == ["x.blt"] + [f"x.blt.{n}" for n in range(1, len(files))] and len(files) > 2
    pages = [json.loads(said(byteledger, "report", "--format", "json", tmp_path / name).stdout)["process"] for name in files]
    assert {page["pid"] for page in pages} == {pages[0]["pid"]} and all("python3" in page["exe"] for page in pages)


def test_what_took_the_programs_place_is_served(byteledger, wrapper, tmp_path):
    run = subprocess.Popen([byteledger, "run", "-q", "--serve", "127.0.0.1:0", "-o", tmp_path / "x.blt", wrapper, "4"],
                           stderr=subprocess.PIPE, text=True)
    address = None
    while not address:
        line = run.stderr.readline()
        assert line
        address = re.search(r"http://[0-9.:]+", line)
    address = address[0]
    deadline = time.monotonic() + 10
    while True:
        served = json.load(urllib.request.urlopen(f"{address}/list", timeout=10))
        if any("python3" in (one["executable"] or "") for one in served):
            break
        assert time.monotonic() < deadline and run.poll() is None, served
        time.sleep(0.1)
    assert run.wait(60) == 0
    assert "python3" in json.loads(said(byteledger, "report", "--format", "json", tmp_path / "x.blt").stdout)["process"]["exe"]


def test_an_exec_by_its_number_is_followed(byteledger, prog, wrapper, tmp_path):
    done = said(byteledger, "run", "-o", tmp_path / "x.blt", "--format", "json", prog("rawexec"), "syscall", "/usr/bin/python3", tmp_path / "grows.py", "0.2")
    page = json.loads(done.stdout)
    assert "python3" in page["process"]["exe"] and page["totals"]["peak_bytes"] > 5_000_000, done.stderr
    # past every function of the C library nobody can put the library before the next program: that is said
    done = said(byteledger, "run", "-o", tmp_path / "y.blt", "--format", "json", prog("rawexec"), "instruction", "/usr/bin/python3", tmp_path / "grows.py", "0.3")
    assert json.loads(done.stdout)["process"]["exe"].endswith("/rawexec")
    assert json.loads(said(byteledger, "info", "--format", "json", tmp_path / "x.blt").stdout)["process"]["source"] == "run"
    assert "replaced itself by /usr/bin/python3" in done.stderr and "past the C library" in done.stderr


def test_a_static_successor_is_told_with_what_sees_it(byteledger, tmp_path):
    if not shutil.which("cc"):
        pytest.skip("no compiler")
    (tmp_path / "s.c").write_text("#include <unistd.h>\nint main(void) { sleep(1); return 7; }\n")
    if said("cc", "-static", "-o", tmp_path / "s", tmp_path / "s.c").returncode:
        pytest.skip("no static C library")
    done = said(byteledger, "run", "-o", tmp_path / "x.blt", "sh", "-c", f"exec {tmp_path}/s")
    assert done.returncode == 7 and "statically linked" in done.stderr and "byteledger pages" in done.stderr


def test_children_of_what_took_the_programs_place_are_told(byteledger, tmp_path):
    inner = script(tmp_path, "#!/bin/sh\nperl -e '$x = \"x\" x 60_000_000; sleep 1'\n:\n", "inner.sh")
    done = said(byteledger, "run", "-o", tmp_path / "x.blt", "sh", "-c", f"exec {inner}")
    first = done.stderr.splitlines()[0]
    assert first.startswith("byteledger: not recorded: 1 child, its peak RSS ") and first.endswith(" MiB, perl: --follow-children")


@pytest.fixture
def other_root(tmp_path):
    """A root with a shell in it, and nothing of ours."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    root = tmp_path / "root"
    shell = os.path.realpath("/bin/sh")
    for path in [shell, *re.findall(r"(/\S+) \(", said("ldd", shell).stdout)]:
        to = root / path.lstrip("/")
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return root, shell


@pytest.mark.parametrize("follow", [[], ["--follow-children"]])
def test_a_program_under_another_root_hears_nothing_of_the_library(byteledger, other_root, tmp_path, follow):
    root, shell = other_root
    bare = said("chroot", root, shell, "-c", "echo here; (exit 3)")
    done = said(byteledger, "run", "-q", *follow, "-o", tmp_path / "x%p.blt", "chroot", root, shell, "-c", "echo here; (exit 3)")
    assert (done.returncode, done.stdout) == (3, "here\n") == (bare.returncode, bare.stdout)
    assert "ld.so" not in done.stderr and "preload" not in done.stderr, done.stderr
    # it lives for a moment, or nobody sees what chroot became
    lives = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; exit 3"
    done = said(byteledger, "run", *follow, "-o", tmp_path / "y%p.blt", "chroot", root, shell, "-c", lives)
    assert "another root" in done.stderr, done.stderr


def test_a_program_that_may_not_open_the_library_hears_nothing_of_it(byteledger, preload, tmp_path):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    mine = tmp_path / "mine"
    mine.mkdir(0o700)
    for path in byteledger, preload:
        shutil.copy(path, mine)
    for follow in [], ["--follow-children"]:
        done = said(mine / "byteledger", "run", "-q", *follow, "-o", tmp_path / "x%p.blt", "setpriv", "--reuid=65534", "--regid=65534",
                    "--clear-groups", "/bin/sh", "-c", "echo here", cwd="/")
        assert (done.returncode, done.stdout) == (0, "here\n")
        assert "ld.so" not in done.stderr, done.stderr


@pytest.mark.parametrize("how", [[], ["--follow-children"]])
def test_a_program_that_cannot_be_recorded_hears_nothing_of_it(byteledger, tmp_path, how):
    """The library cannot make what it needs: a file, and shared memory, of more than 5 KB. Of one that was to be followed the library itself says it."""
    for end in "exec perl -e 'print 7'", "perl -e 'print 7'; :":
        done = said(byteledger, "run", "-q", *how, "-o", tmp_path / "x%p.blt", "sh", "-c", f"ulimit -f 10; {end}")
        assert (done.returncode, done.stdout) == (0, "7")
        if not how:
            assert "ERR" not in done.stderr, done.stderr


def test_what_was_begun_beside_a_recording_is_gone_though_nobody_reads_the_report(byteledger, tmp_path):
    folder = tmp_path / "alone"
    folder.mkdir()
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([byteledger, "run", "--", "perl", "-e", "exit 0"], cwd=folder, stdout=write, stderr=write, timeout=60)
    os.close(write)
    assert done.returncode == -13 and [path.name[:15] for path in folder.iterdir()] == ["byteledger_perl"], list(folder.iterdir())
