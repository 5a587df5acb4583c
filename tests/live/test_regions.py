# SPDX-License-Identifier: Apache-2.0
"""`byteledger regions`: every mapping in its class, the classes adding up to smaps to the byte, on real and hostile programs."""
import contextlib
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import pytest

HEADER = re.compile(rb"^([0-9a-f]+)-([0-9a-f]+) ([r-][w-][x-][sp]) ([0-9a-f]+) [0-9a-f]+:[0-9a-f]+ \d+ *(.*)$")
AS_ROOT = os.geteuid() == 0


def smaps(pid):
    """The kernel's own text, read by other code than ours: [(start, end, perms, rss, hugetlb, name)]."""
    rows = []
    for line in open(f"/proc/{pid}/smaps", "rb").read().split(b"\n"):
        head = HEADER.match(line)
        if head:
            rows.append([int(head[1], 16), int(head[2], 16), head[3].decode(), 0, 0, head[5]])
        elif line.startswith(b"Rss:"):
            rows[-1][3] = int(line.split()[1]) * 1024
        elif re.match(rb"(Shared|Private)_Hugetlb:", line):
            rows[-1][4] += int(line.split()[1]) * 1024
    return rows


@contextlib.contextmanager
def stopped(pid):
    """The process and all its threads stand still, so that two readings see the same. Each stops for itself: where processors
    are busy one may end its page fault long after the first thread stands."""
    def stands(tid):
        try:
            return open(f"/proc/{pid}/task/{tid}/stat").read().rsplit(")", 1)[1].split()[0] in "TtZX"
        except (FileNotFoundError, ProcessLookupError):
            return True
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: all(map(stands, os.listdir(f"/proc/{pid}/task"))), "stop")
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.02)
    raise AssertionError(f"{what}: not within {seconds} s")


def run(byteledger, *options, code=0, wrap=(), **more):
    done = subprocess.run([*wrap, byteledger, "regions", *map(str, options)], capture_output=True, timeout=120, **more)
    assert done.returncode == code, (done.returncode, done.stderr.decode("utf-8", "replace"))
    return done


def look(byteledger, pid, *options, wrap=(), **more):
    return json.loads(run(byteledger, "-p", pid, "--format", "json", *options, wrap=wrap, **more).stdout)


def whole(regions, kernel):
    """Our mappings, those that were cut between several owners joined again: [(start, end, perms, rss)]."""
    ends = {r[0]: r[1] for r in kernel}
    joined = []
    for r in sorted(regions, key=lambda r: r["start"]):
        last = joined[-1] if joined else None
        if last and last[1] == r["start"] and last[2] == r["perms"] and ends.get(last[0], 0) > last[1]:
            joined[-1] = (last[0], r["end"], last[2], last[3] + r["rss_bytes"])
        else:
            joined.append((r["start"], r["end"], r["perms"], r["rss_bytes"]))
    return joined


def taken_back(before, after):
    """Whether the mappings are the same and some have less: the kernel takes pages of files, of MADV_FREE, or swaps out at any time."""
    return [r[:3] + r[5:] for r in before] == [r[:3] + r[5:] for r in after] and all(a[3] <= b[3] for b, a in zip(before, after))


def facts(pid):
    """What smaps says of each mapping: {start: {field: bytes}}."""
    found, at = {}, None
    for line in open(f"/proc/{pid}/smaps", "rb").read().split(b"\n"):
        head, field = HEADER.match(line), re.match(rb"(\w+): +(\d+) kB$", line)
        if head:
            at = found.setdefault(int(head[1], 16), {})
        elif field:
            at[field[1].decode()] = int(field[2]) << 10
    return found


def undisturbed(pid, check):
    """check(), during which the kernel took nothing from the stopped process: else again."""
    for _ in range(50):
        before = smaps(pid)
        try:
            check()
            return
        except AssertionError:
            after = smaps(pid)
            if before == after or not taken_back(before, after):
                raise
    raise AssertionError("the kernel takes pages back all the time")


def judge(byteledger, pid):
    """G1: with the target stopped our mappings are the kernel's, and the classes add up to them. Returns the breakdown, and with it
    what the kernel said of each mapping at that moment ("kernel")."""
    with stopped(pid):
        for _ in range(50):
            before = smaps(pid)
            seen = look(byteledger, pid, "--all")
            seen["kernel"], after = facts(pid), smaps(pid)
            if before == after:
                break
            assert taken_back(before, after), "looking changed what was looked at"
    assert before == after, "the kernel takes pages back all the time"
    kernel = sorted((r[0], r[1], r[2], r[3]) for r in before)
    ours = whole(seen["regions"], kernel)
    if "libbyteledger name, pages counted" not in {r["how"] for r in seen["regions"]}:
        assert ours == kernel
    total = sum(r[3] for r in before)
    assert sum(c["rss_bytes"] for c in seen["classes"]) == total
    assert seen["rss_bytes"] == total == seen["checks"]["smaps_rss_bytes"]
    assert seen["checks"]["rollup_rss_bytes"] == total
    assert sum(c["count"] for c in seen["classes"] if not c["label"].endswith("(copied)")) == len(seen["regions"])
    assert sum(c["virtual_bytes"] for c in seen["classes"]) == seen["virtual_bytes"] == sum(r[1] - r[0] for r in before)
    assert sum(c["hugetlb_bytes"] for c in seen["classes"]) == sum(r[4] for r in before)
    assert seen["unknown_fields"] == {}
    return seen


@contextlib.contextmanager
def program(argv, ready=None, **more):
    """A child that is ended and waited for; ready: text on its stdout to wait for."""
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE if ready else subprocess.DEVNULL,
                             stderr=subprocess.DEVNULL, **more)
    try:
        child.said = b""
        if ready:
            end = time.monotonic() + 90
            while ready.encode() not in child.said:
                left = end - time.monotonic()
                assert left > 0 and select.select([child.stdout], [], [], left)[0], child.said[-500:]
                chunk = os.read(child.stdout.fileno(), 1 << 16)
                assert chunk, child.said[-500:]
                child.said += chunk
        yield child
    finally:
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            if pipe:
                pipe.close()


@pytest.fixture
def zoo(prog, tmp_path):
    """zoo(splits, names, threads) -> (child, {kind: address})"""
    @contextlib.contextmanager
    def start(splits=0, names=0, threads=8, **env):
        with program([prog("zoo"), str(tmp_path), str(splits), str(names), str(threads)], ready="\nready\n",
                     env={**os.environ, **env}) as child:
            places, why = {}, {}
            for line in child.said.decode().splitlines():
                kind, *rest = line.split(" ", 2)
                if len(rest) == 2 and rest[0] == "-":
                    why[kind] = rest[1]
                elif rest:
                    places[kind] = int(rest[0])
            yield child, places, why
    return start


def at(seen, address):
    return next(r for r in seen["regions"] if r["start"] <= address < r["end"])


CLASSES = {
    "anonymous": ("anonymous", "read-write"), "readonly": ("anonymous", "read-only"),
    "executeonly": ("jit", "code without a file"), "writeonly": ("anonymous", "read-write"),
    "closed": ("reserved", "no access"), "jit": ("jit", "writable code"), "reserved": ("reserved", "no access"),
    "shared": ("shared-anonymous", "shared anonymous"), "lazyfree": ("anonymous", "read-write"),
    "guarded": ("anonymous", "read-write"), "devzero": ("anonymous", "/dev/zero"),
    "devzeroshared": ("shared-anonymous", "shared anonymous"), "thp": ("anonymous", "read-write"),
    "ksm": ("anonymous", "read-write"), "memfd": ("memfd", "zoo memfd-*"), "memfdprivate": ("memfd", "zoo-private"),
    "sysv": ("sysv-shm", None), "posixshm": ("posix-shm", "/dev/shm/byteledger-zoo-*"),
    "hugetlb": ("hugetlb", "private huge pages"), "file": ("mapped-file", "*.sst"), "fileprivate": ("mapped-file", "data.mdb"),
    "deleted": ("mapped-file", "gone.sst"), "iouring": ("kernel-buffer", "io_uring"), "perf": ("kernel-buffer", "perf events"),
    "bpf": ("kernel-buffer", "BPF"), "large": ("allocator", "malloc large"), "split": ("anonymous", "read-only"),
    **{f"odd{n}": ("mapped-file", None) for n in range(10)},
}


def test_each_kind_of_mapping_lands_in_its_class_and_the_classes_add_up(byteledger, zoo):
    with zoo(splits=1000, ZOO_SPIN="1") as (child, places, why):
        seen = judge(byteledger, child.pid)
        assert set(places) | set(why) >= set(CLASSES)
        for kind, address in places.items():
            cls, label = CLASSES[kind]
            found = at(seen, address)
            assert found["class"] == cls, (kind, found)
            assert label is None or found["label"].endswith(label), (kind, found)
        labels = {(c["class"], c["label"]): c for c in seen["classes"]}
        # a private mapping of a memfd: what was written to is the process's own
        # (what is resident of it the kernel says: it may have taken pages back)
        private = seen["kernel"][places["memfdprivate"]]
        assert labels["memfd", "zoo-private (copied)"]["rss_bytes"] == private["Anonymous"] <= 256 << 10
        assert labels["memfd", "zoo-private"]["rss_bytes"] == private["Rss"] - private["Anonymous"] <= 256 << 10
        assert at(seen, places["closed"])["rss_bytes"] == seen["kernel"][places["closed"]]["Rss"] <= 512 << 10
        lazy = at(seen, places["lazyfree"])
        assert lazy["lazy_free_bytes"] == seen["kernel"][places["lazyfree"]]["LazyFree"] <= 400 << 10, lazy
        # 4 stacks of ended threads wait in glibc's cache; each live thread has its own row
        assert labels["stack-cache", "stack cache"]["count"] == 4
        assert labels["stack", "thread stacks"]["count"] == 8
        assert len(seen["threads"]) == 9
        for thread in seen["threads"]:
            assert thread["stack_end"] > thread["stack_start"] and thread["rss_bytes"] > 0, thread
        used = [t["used_bytes"] for t in seen["threads"] if t["used_bytes"] is not None]
        assert len(used) >= 8 and sum(u >= 48 << 10 for u in used) >= 7, used
        if not AS_ROOT and ("bpf" in why or "perf" in why):
            pytest.skip(f"not permitted for this user: {why}")


def test_two_hundred_threads_each_have_a_stack(byteledger, zoo):
    with zoo(threads=200) as (child, _, _):
        seen = judge(byteledger, child.pid)
        assert len(seen["threads"]) == 201
        stacks = {t["stack_start"] for t in seen["threads"]}
        assert len(stacks) == 201 and None not in stacks
        live = [r for r in seen["regions"] if r["class"] == "stack"]
        assert len(live) == 201
        assert sum(r["class"] == "stack-cache" for r in seen["regions"]) == 4


@pytest.mark.skipif(not AS_ROOT, reason="BPF needs root")
def test_a_thread_that_runs_shows_what_it_uses_of_its_stack(byteledger, zoo):
    with zoo(ZOO_SPIN="1") as (child, _, _):
        seen = look(byteledger, child.pid)
        for thread in seen["threads"]:
            size = thread["stack_end"] - thread["stack_start"]
            assert thread["used_bytes"] and thread["used_bytes"] <= size, thread
            assert thread["tid"] == child.pid or thread["used_bytes"] >= 48 << 10, thread


def state(pid, tid):
    with open(f"/proc/{pid}/task/{tid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()[0]


def test_a_thread_that_no_library_made_has_the_mapping_it_runs_on(byteledger, prog):
    with program([prog("rawthread")], ready="\n") as child:
        alone, *shared, pointer = map(int, child.said.split()[1:])
        # of those that wait alone the kernel tells the pointer
        wait_for(lambda: all(state(child.pid, t) == "S" for t in (alone, *shared)), "threads that wait")
        seen = look(byteledger, child.pid)
        threads = {t["tid"]: t for t in seen["threads"]}
        one = threads[alone]
        assert one["stack_start"] < pointer < one["stack_end"] and one["stack_end"] - one["stack_start"] == 128 << 10, one
        # what it prints is its lowest variable, which may lie in the 128 bytes below the pointer
        assert abs(one["stack_end"] - pointer - one["used_bytes"]) <= 256, (one, pointer)
        assert one["how"] == "stack pointer of a thread" and one["rss_bytes"] >= 20000, one
        # of a mapping that two run on nobody can say whose it is: it stays what it is
        assert [threads[t]["stack_start"] for t in shared] == [None, None], threads
        assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"]


def test_stacks_in_one_mapping_are_each_threads_own(byteledger, prog):
    """So lie those that glibc guards by markers since 2.42: the kernel joins them."""
    with program([prog("stackrow"), "5"], ready="\n") as child:
        start, stack, data, *tids = map(int, child.said.split()[1:])
        wait_for(lambda: all(state(child.pid, t) == "S" for t in tids), "threads that wait")
        truth = {tid: start + i * stack + (data if i == 4 else 0) for i, tid in enumerate(tids)}
        for options in (), ("--quick",):
            seen = look(byteledger, child.pid, "--all", *options)
            threads = {t["tid"]: t for t in seen["threads"]}
            for tid, low in truth.items():
                one = threads[tid]
                assert (one["stack_start"], one["stack_end"], one["how"]) == (low, low + stack, "thread descriptor"), (one, low)
                assert 0 < one["used_bytes"] < stack and 0 < one["rss_bytes"] <= stack, one
            assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"]
        seen = look(byteledger, child.pid, "--all")
        rows = [r for r in seen["regions"] if r["class"] == "stack" and start <= r["start"] < start + 5 * stack + data]
        assert sorted((r["start"], r["end"]) for r in rows) == sorted((low, low + stack) for low in truth.values())
        assert {r["owner"] for r in rows} == {f"thread {tid} (stackrow)" for tid in tids}
        assert at(seen, start + 4 * stack)["class"] != "stack"


def test_rows_stay_bounded_when_every_mapping_has_another_name(byteledger, zoo):
    with zoo(names=6000) as (child, _, _):
        seen = judge(byteledger, child.pid)
        assert len(seen["classes"]) <= 4096 + 30
        other = next(c for c in seen["classes"] if c["class"] == "memfd" and c["label"] == "(other)")
        assert other["count"] > 1000
        text = run(byteledger, "-p", child.pid).stdout
        assert len(text.splitlines()) < 200


def test_quick_reading_agrees_with_smaps_on_rss(byteledger, zoo, prog):
    """Zero pages apart, which PAGEMAP_SCAN cannot tell without a full walk; with and without the new system calls."""
    with zoo() as (child, _, _), stopped(child.pid):
        undisturbed(child.pid, lambda: quick_agrees(byteledger, prog, child.pid))


def quick_agrees(byteledger, prog, pid):
    full = look(byteledger, pid, "--all")
    quick = look(byteledger, pid, "--all", "--quick")
    old = look(byteledger, pid, "--all", "--quick", wrap=[prog("noioctl")])
    assert quick["source"] == "PAGEMAP_SCAN" or os.uname().release < "6.7"
    assert old["source"] == "pagemap"
    assert quick["pss_bytes"] is None
    # vsyscall is the kernel's own page, beside the address space: PROCMAP_QUERY and some kernels do not list it
    # what a full reading cuts (several stacks in one mapping) a quick one leaves whole
    kernel = [r[:4] for r in smaps(pid)]
    exact = {start: rss for start, _, _, rss in whole([r for r in full["regions"] if r["label"] != "vsyscall"], kernel)}
    for reading in (quick, old):
        assert {r["start"] for r in reading["regions"] if r["label"] != "vsyscall"} == set(exact)
        for r in reading["regions"]:
            if r["class"] not in ("kernel-buffer", "kernel-helper", "mapped-file"):
                assert r["rss_bytes"] == exact[r["start"]], r
        uncut = {k[0] for k in kernel} & {r["start"] for r in full["regions"] if (r["start"], r["end"]) in {(k[0], k[1]) for k in kernel}}
        rows = [{(r["class"], r["label"]) for r in x["regions"] if r["start"] in uncut} for x in (full, reading)]
        assert rows[0] - {("kernel-helper", "vsyscall")} == rows[1] - {("kernel-helper", "vsyscall")}


def test_text_page_escapes_names_and_lists_what_was_asked_for(byteledger, zoo):
    with zoo() as (child, _, _):
        page = run(byteledger, "-p", child.pid, "--all").stdout
        assert b"\x1b" not in page and b"\\x1b[31mred" in page
        assert b"\xff\xfe" not in page
        assert b"thread stacks" in page and b"sum of all mappings" in page
        none = run(byteledger, "-p", child.pid, "--top", "0").stdout.decode()
        assert "private" not in none.split("threads")[-1]
        raw = run(byteledger, "-p", child.pid, "--bytes", "--top", "3").stdout.decode()
        assert "KiB" not in raw and "1099511627776" not in raw.split("\n")[4]


@pytest.mark.parametrize("options", [(), ("--all",), ("--quick",), ("--group", "file"), ("--group", "module"), ("--group", "thread")])
def test_text_keeps_to_the_width_that_it_has(byteledger, zoo, options):
    with zoo() as (child, _, _):
        for pid in (child.pid, os.getpid()):
            for columns in 80, 100:
                for line in run(byteledger, "-p", pid, *options, env={**os.environ, "COLUMNS": str(columns)}).stdout.decode().splitlines():
                    assert len(line) <= columns, line


def test_compatible_layout_feeds_the_scripts_that_know_it(byteledger, zoo):
    def as_known(pid):
        seen = look(byteledger, pid)
        done = run(byteledger, "-p", pid, "--compat", "--top", "5")
        page = done.stdout.decode()
        # the section of named regions, or one line that says why there is none
        named = "Named Memory Regions (mmap):" in page
        said = [line for line in done.stderr.decode().splitlines() if line.startswith("byteledger: no named regions: ")]
        assert len(said) == (0 if named else 1), (page, done.stderr)
        done = subprocess.run("grep 'RSS (Resident)' | awk '{print $3}'", shell=True, input=page, capture_output=True,
                              text=True, check=True)
        assert done.stdout.strip() == str(seen["rss_bytes"] >> 20)
        lines = page.splitlines()
        assert lines[0] == "=== Complete Memory Breakdown ===" and "=== Top 5 Memory Regions ===" in lines
        assert lines[lines.index("=== Top 5 Memory Regions ===") + 3] == "-" * 120
        parts = [int(line.split()[-2]) for line in lines if line.strip().startswith("Subtotal:") or line.startswith("Other:")]
        # whole MB: each of at most five sums loses less than one
        assert 0 <= (seen["rss_bytes"] >> 20) - sum(parts) <= 5
    with zoo() as (child, _, _), stopped(child.pid):
        undisturbed(child.pid, lambda: as_known(child.pid))


def test_csv_has_one_line_for_each_mapping(byteledger, zoo):
    import csv
    import io

    def as_the_kernel(pid):
        text = run(byteledger, "-p", pid, "--format", "csv", "--all").stdout.decode("utf-8", "replace")
        rows = list(csv.DictReader(io.StringIO(text, newline="")))
        ours = [{"start": int(r["start"]), "end": int(r["end"]), "perms": r["perms"], "rss_bytes": int(r["rss_bytes"])} for r in rows]
        kernel = sorted((r[0], r[1], r[2], r[3]) for r in smaps(pid))
        assert whole(ours, kernel) == kernel and len(rows) >= len(kernel)
        assert sum(int(r["rss_bytes"]) for r in rows) == sum(r[3] for r in smaps(pid))
    with zoo() as (child, _, _), stopped(child.pid):
        undisturbed(child.pid, lambda: as_the_kernel(child.pid))


MAPPING = """
import mmap, os, sys
fd = os.open(os.fsencode(sys.argv[1]), os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, 4096)
kept = mmap.mmap(fd, 4096)
print("ready", flush=True)
sys.stdin.read()
"""


def test_names_in_csv_are_text_that_no_terminal_acts_on(byteledger, tmp_path):
    import csv
    import io
    name = b'a "b",\x1b[31m\xc3\xa4\xff\xe2\x80\xae\x7fz'
    with program([sys.executable, "-c", MAPPING, os.fsencode(tmp_path) + b"/" + name], ready="ready\n") as child:
        out = run(byteledger, "-p", child.pid, "--format", "csv", "--all").stdout
    names = [r["name"] for r in csv.DictReader(io.StringIO(out.decode("utf-8"), newline=""))]
    assert f'{tmp_path}/a "b",\\x1b[31m\u00e4\\xff\\xe2\\x80\\xae\\x7fz' in names, names


# ---- things that cannot be looked at --------------------------------------------------------------------------------

def test_a_program_too_short_to_be_read_is_told_with_what_records_it(byteledger):
    said = []
    for _ in range(20): # now and then it is read: this one lives for a millisecond
        done = subprocess.run([byteledger, "regions", "--format", "json", "--", "true"], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        if not done.stdout:
            said.append(done.stderr)
    assert set(said) == {"byteledger: the program ended before its memory was read\n"
                         "hint: 'byteledger run -- PROGRAM' records such short ones, too\n"}, said


def test_errors_are_one_clear_line_and_a_hint(byteledger):
    child = subprocess.Popen(["true"])
    wait_for(lambda: open(f"/proc/{child.pid}/stat").read().rsplit(")", 1)[1].split()[0] == "Z", "zombie")
    zombie = run(byteledger, "-p", child.pid, code=1)
    assert b"zombie" in zombie.stderr and zombie.stdout == b"", zombie
    child.wait()
    gone = run(byteledger, "-p", child.pid, code=1)
    assert b"No such process" in gone.stderr and len(gone.stderr.splitlines()) == 2
    for options, text in ((["-p", "2"], b"kernel thread"),):
        if os.path.exists("/proc/2/comm") and b"kthreadd" in open("/proc/2/comm", "rb").read():
            assert text in run(byteledger, *options, code=1).stderr
    for options in (["--top", "-1"], ["--top=-1", "-p", "1"], ["--top", "99999999999999999999", "-p", "1"],
                    ["--sort", "colour", "-p", "1"], ["-p", "0"], ["-p", "-5"], ["-p", "1x"], [], ["-n", "a/b"],
                    ["--quick", "--sort", "pss", "-p", "1"], ["--format", "xml", "-p", "1"]):
        done = run(byteledger, *options, code=2)
        assert done.stdout == b"" and len(done.stderr) < 400, done.stderr


def test_the_duration_counts_while_a_program_is_waited_for(byteledger):
    for more in ([], ["--watch", "1"], ["--format", "json"]):
        done = subprocess.run([byteledger, "regions", "-n", "no-such-program-runs", "--duration", "1s", *more],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and done.stdout == ""
        waiting, failed, hint = done.stderr.splitlines()
        assert waiting == "byteledger: waiting for a program called 'no-such-program-runs'"
        assert failed == "byteledger: no program called 'no-such-program-runs' came while --duration ran"
        assert hint.startswith("hint: ")


def test_one_that_ended_does_not_take_the_others_with_it(byteledger):
    child = subprocess.Popen(["true"])
    child.wait()
    done = run(byteledger, "-p", os.getpid(), "-p", child.pid, "-p", os.getppid(), "--format", "json", code=1)
    assert [json.loads(line)["pid"] for line in done.stdout.splitlines()] == [os.getpid(), os.getppid()]
    assert len(done.stderr.splitlines()) == 2


def test_a_process_that_ends_while_it_is_read_gives_a_clear_error(byteledger):
    statuses = set()
    for n in range(200):
        child = subprocess.Popen(["sleep", "60"])
        reader = subprocess.Popen([byteledger, "regions", "-p", str(child.pid)], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for _ in range(n % 50 * 400):
            pass
        child.kill()
        out, err = reader.communicate(timeout=60)
        child.wait()
        assert reader.returncode in (0, 1), err
        assert (reader.returncode == 0) == (err == b""), err
        if err:
            assert err.startswith(b"byteledger: cannot ") and b"hint: " in err, err
        statuses.add(reader.returncode)
    assert statuses


@pytest.fixture
def for_anybody(byteledger):
    """The program where user nobody may run it."""
    folder = tempfile.mkdtemp(prefix="byteledger-any-")
    os.chmod(folder, 0o755)
    copy = shutil.copy(byteledger, folder)
    yield copy
    shutil.rmtree(folder)


@pytest.mark.skipif(not AS_ROOT, reason="needs root to become another user")
def test_without_privileges_own_processes_are_read_and_others_refused(for_anybody):
    nobody = {"user": "nobody", "group": "nogroup", "extra_groups": []}
    other = run(for_anybody, "-p", os.getpid(), code=1, **nobody)
    assert b"Permission denied" in other.stderr and b"belongs to user 0" in other.stderr, other.stderr
    with program(["sleep", "600"], **nobody) as child:
        wait_for(lambda: os.readlink(f"/proc/{child.pid}/exe").endswith("sleep"), "exec")
        seen = json.loads(run(for_anybody, "-p", child.pid, "--format", "json", "--all", **nobody).stdout)
        assert seen["rss_bytes"] == sum(c["rss_bytes"] for c in seen["classes"]) == seen["checks"]["smaps_rss_bytes"]
        assert seen["threads"][0]["stack_end"]
        quick = json.loads(run(for_anybody, "-p", child.pid, "--format", "json", "--quick", **nobody).stdout)
        assert quick["rss_bytes"] > 0


def test_by_name_all_are_found_and_the_next_one_is_waited_for(byteledger, tmp_path):
    name = f"zoo-{os.getpid()}-sleeper"
    sleep = shutil.copy(shutil.which("sleep"), tmp_path / name)
    with program([sleep, "600"]) as one, program([sleep, "600"]) as two:
        wait_for(lambda: all(os.readlink(f"/proc/{c.pid}/exe") == str(sleep) for c in (one, two)), "exec")
        lines = run(byteledger, "-n", name[:-4] + "*", "--format", "json").stdout.splitlines()
        assert sorted(json.loads(line)["pid"] for line in lines) == sorted([one.pid, two.pid])
    waiting = subprocess.Popen([byteledger, "regions", "-n", name, "--format", "json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    assert b"waiting" in waiting.stderr.readline()
    with program([sleep, "600"]) as late:
        out, _ = waiting.communicate(timeout=60)
        assert json.loads(out)["pid"] == late.pid


@pytest.mark.skipif(not AS_ROOT, reason="needs root to make a cgroup")
def test_all_processes_of_a_cgroup(byteledger):
    mounts = [line.split() for line in open("/proc/self/mounts")]
    root = next((m[1] for m in mounts if m[2] == "cgroup2"), "/sys/fs/cgroup/memory")
    group = f"{root}/byteledger-test-{os.getpid()}"
    try:
        os.makedirs(group + "/below")
    except OSError as why:
        pytest.skip(f"no cgroup can be made: {why}")
    try:
        empty = run(byteledger, "--cgroup", group, code=1)
        assert b"holds no process" in empty.stderr
        with program(["sleep", "600"]) as one, program(["sleep", "600"]) as two:
            open(group + "/cgroup.procs", "w").write(str(one.pid))
            open(group + "/below/cgroup.procs", "w").write(str(two.pid))
            for path in (group, os.path.basename(group), "/" + os.path.basename(group)):
                lines = run(byteledger, "--cgroup", path, "--format", "json").stdout.splitlines()
                assert sorted(json.loads(line)["pid"] for line in lines) == sorted([one.pid, two.pid])
        wait_for(lambda: not open(group + "/below/cgroup.procs").read() and not open(group + "/cgroup.procs").read(), "end")
    finally:
        os.rmdir(group + "/below")
        os.rmdir(group)
    run(byteledger, "--cgroup", "no/such/group", code=1)
    # of whom the one at the top holds, kernel threads are not worth a word; others may end meanwhile, or let nobody look
    top = subprocess.run([byteledger, "regions", "--cgroup", root, "--quick", "--top", "0", "--format", "csv"], capture_output=True, timeout=120)
    assert top.stdout and b"kernel thread" not in top.stderr, top.stderr


# ---- what changes the machine, and puts it back ---------------------------------------------------------------------

@contextlib.contextmanager
def setting(path, value):
    """Write @value, and what stood there afterwards."""
    before = open(path).read().strip()
    before = re.sub(r".*\[(\w+)\].*", r"\1", before)
    open(path, "w").write(value)
    try:
        yield
    finally:
        open(path, "w").write(before)


@pytest.mark.skipif(not AS_ROOT, reason="needs root to change the machine")
def test_huge_pages_and_merged_pages_are_told(byteledger, zoo):
    with contextlib.ExitStack() as changes:
        try:
            changes.enter_context(setting("/proc/sys/vm/nr_hugepages", "8"))
            if int(open("/proc/sys/vm/nr_hugepages").read()) < 2:
                pytest.skip("the kernel has no huge pages to spare")
            changes.enter_context(setting("/sys/kernel/mm/ksm/pages_to_scan", "5000"))
            changes.enter_context(setting("/sys/kernel/mm/ksm/run", "1"))
        except OSError as why:
            pytest.skip(f"not possible here: {why}")
        with zoo() as (child, places, why):
            assert "hugetlb" in places, why
            wait_for(lambda: at(look(byteledger, child.pid, "--all"), places["ksm"])["ksm_bytes"] > 0, "KSM", 90)
            seen = judge(byteledger, child.pid)
            huge = at(seen, places["hugetlb"])
            assert huge["class"] == "hugetlb" and huge["hugetlb_bytes"] > 0 and huge["rss_bytes"] == 0, huge
            assert seen["hugetlb_bytes"] == huge["hugetlb_bytes"]
            quick = look(byteledger, child.pid, "--all", "--quick")
            assert at(quick, places["hugetlb"])["rss_bytes"] == 0
            assert sum(c["ksm_bytes"] for c in seen["classes"]) > 0


# ---- other pages ----------------------------------------------------------------------------------------------------

def test_groups_add_up_to_the_same_rss(byteledger, zoo):
    def adds_up(pid):
        rss = look(byteledger, pid)["rss_bytes"]
        for group in ("file", "module"):
            page = run(byteledger, "-p", pid, "--group", group, "--bytes", "--all").stdout.decode()
            table = page.split("mappings\n", 1)[1].strip().splitlines()
            assert sum(int(line.split()[0]) for line in table) == rss
            assert any(line.endswith("libc.so.6") for line in table) and any(line.endswith("(anonymous)") for line in table)
            short = run(byteledger, "-p", pid, "--group", group, "--bytes", "--top", "2").stdout.decode()
            table = short.split("mappings\n", 1)[1].strip().splitlines()
            assert len(table) == 3 and "more: --all" in table[2] and sum(int(t.split()[0]) for t in table) == rss
        threads = run(byteledger, "-p", pid, "--group", "thread").stdout.decode()
        assert threads.count("thread descriptor") == 8
        vma = run(byteledger, "-p", pid, "--group", "vma", "--top", "3").stdout.decode()
        assert len(vma.split(" name\n", 1)[1].strip().splitlines()) == 3
    with zoo() as (child, _, _), stopped(child.pid):
        undisturbed(child.pid, lambda: adds_up(child.pid))


def test_diff_tells_what_grew_since_a_saved_breakdown(byteledger, tmp_path):
    code = ("import mmap, sys; m = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS); print('ready', flush=True)\n"
            "sys.stdin.readline()\nfor i in range(0, 16 << 20, 4096): m[i] = 1\nprint('grown', flush=True); sys.stdin.readline()")
    saved = tmp_path / "before.json"
    with program(["python3", "-c", code], ready="ready") as child:
        saved.write_bytes(run(byteledger, "-p", child.pid, "-p", os.getpid(), "--format", "json", "--top", "0").stdout)
        assert json.loads(run(byteledger, "-p", child.pid, "--format", "json", "--diff", saved).stdout)["base_pid"] == child.pid
        child.stdin.write(b"\n")
        child.stdin.flush()
        assert wait_for(lambda: b"grown" in os.read(child.stdout.fileno(), 1 << 16), "the program's growth")
        delta = json.loads(run(byteledger, "-p", child.pid, "--format", "json", "--diff", saved).stdout)
        first = delta["classes"][0]
        assert first["class"] == "anonymous" and abs(first["rss_delta_bytes"] - (16 << 20)) < 64 << 10, delta
        assert delta["rss_delta_bytes"] == sum(c["rss_delta_bytes"] for c in delta["classes"])
        page = run(byteledger, "-p", child.pid, "--diff", saved).stdout.decode()
        assert "+16.0 MiB" in page
        lone = tmp_path / "other.json"
        lone.write_bytes(b"".join(run(byteledger, "-p", os.getpid(), "--format", "json").stdout for _ in range(2)))
        assert b"has no breakdown of process" in run(byteledger, "-p", child.pid, "--diff", lone, code=1).stderr
    for content in (b"", b"{", b"[]", b"{\"pid\":1}", b"\x00" * 100, b"{\"classes\":[],\"pid\":\"x\"}", saved.read_bytes()[:500]):
        saved.write_bytes(content)
        done = run(byteledger, "-p", os.getpid(), "--diff", saved, code=1)
        assert b"holds no breakdown" in done.stderr and len(done.stderr.splitlines()) == 2
    run(byteledger, "-p", os.getpid(), "--diff", tmp_path / "missing", code=1)
    # rows that make no sense are passed over
    saved.write_text('{"pid": 1, "time_ns": -5, "classes": [7, {"class": "x"}, {"class": "x", "label": "y", "rss_bytes": 1e99}]}\n')
    run(byteledger, "-p", os.getpid(), "--diff", saved)


@pytest.mark.skipif(not AS_ROOT, reason="needs root to change the machine")
def test_a_hundred_thousand_differently_named_mappings_give_bounded_rows_and_memory(byteledger, zoo):
    try:
        more = setting("/proc/sys/vm/max_map_count", "250000")
        more.__enter__()
    except OSError as why:
        pytest.skip(f"not possible here: {why}")
    try:
        with zoo(names=100000) as (child, _, why):
            assert why["named"] == "100000", why
            code = ("import resource, subprocess, sys; done = subprocess.run(sys.argv[1:], capture_output=True)\n"
                    "sys.stderr.write(str(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)); sys.stdout.buffer.write(done.stdout)")
            done = subprocess.run(["python3", "-c", code, byteledger, "regions", "-p", str(child.pid), "--format", "json"],
                                  capture_output=True, check=True, timeout=120)
            seen = json.loads(done.stdout)
            assert len(seen["classes"]) <= 4096 + 30 and len(seen["regions"]) == 20
            assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"] == seen["checks"]["smaps_rss_bytes"]
            assert next(c for c in seen["classes"] if c["label"] == "(other)")["count"] > 90000
            assert int(done.stderr) * 1024 < 96 << 20, done.stderr
            assert len(run(byteledger, "-p", child.pid).stdout.splitlines()) < 200
    finally:
        more.__exit__(None, None, None)
