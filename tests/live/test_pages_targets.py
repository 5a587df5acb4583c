# SPDX-License-Identifier: Apache-2.0
"""`pages` of processes with file systems of their own, of containers and cgroups, of several at once, and of programs whose file is gone."""
import contextlib
import json
import os
import re
import secrets
import shutil
import signal
import struct
import subprocess
import sys

import pytest

from test_pages import MIB, cold_file, held_against_kernel, kernel_figures, names, needs_bpf, of_function, stands, wait_for # noqa: F401

pytestmark = needs_bpf


@contextlib.contextmanager
def group():
    """A cgroup that is called as docker calls a container's: its folder and the id."""
    ident = secrets.token_hex(32)
    mounts = [line.split() for line in open("/proc/self/mounts")]
    root = next((m[1] for m in mounts if m[2] == "cgroup2"), "/sys/fs/cgroup/memory")
    folder = f"{root}/docker-{ident}.scope"
    try:
        os.mkdir(folder)
    except OSError as why:
        pytest.skip(f"no cgroup can be made: {why}")
    try:
        yield folder, ident
    finally:
        wait_for(lambda: not open(folder + "/cgroup.procs").read())
        os.rmdir(folder)


def root_of(folder, program):
    """A file system of its own: the program and its libraries, under names that nothing else has."""
    os.makedirs(folder / "inside")
    shutil.copy(program, folder / "inside" / "boxed")
    for path in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout):
        os.makedirs(folder / os.path.dirname(path)[1:], exist_ok=True)
        shutil.copy(os.path.realpath(path), folder / path[1:])
    (folder / "inside" / "file").write_bytes(os.urandom(MIB) * 16)
    return folder


class Target:
    """tests/prog/pages, wherever it runs."""

    def __init__(self, argv, before=None):
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, preexec_fn=before)
        self.process.stdout.readline() # "done begin"
        self.pid = self.process.pid

    def go(self, way):
        self.process.stdin.write(way + "\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == f"done {way}\n"

    def end(self):
        self.process.communicate("quit\n", timeout=20)


class Ledger:
    def __init__(self, byteledger, out, *options):
        self.out = out
        self.process = subprocess.Popen([byteledger, "pages", "--jsonl", "--watch", "0.1", "--report", str(out), *options],
                                        stderr=subprocess.PIPE, text=True)

    def last(self):
        """The last whole object, by process."""
        text = self.out.read_text() if self.out.exists() else ""
        whole = [line for line in text.split("\n")[:-1] if line]
        return {process["pid"]: process for process in json.loads(whole[-1])["processes"]} if whole else {}

    def until(self, condition):
        def holds():
            assert self.process.poll() is None, self.process.stderr.read()
            return condition(self.last())
        wait_for(holds, 30)
        return self.last()

    def end(self):
        self.process.send_signal(signal.SIGINT)
        assert self.process.wait(20) == 0, self.process.stderr.read()


def still(ledger, pid):
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_for(lambda: stands(pid))
        figures = kernel_figures(pid)
        process = ledger.until(lambda last: pid in last and last[pid]["rss_bytes"] == figures["smaps"] ==
                               last[pid]["checks"]["smaps_rss_bytes"])[pid]
        held_against_kernel(process, figures)
        return process
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_container_has_its_own_files_and_needs_no_client(byteledger, prog, tmp_path):
    root = root_of(tmp_path / "root", prog("pages"))
    with group() as (folder, ident):
        def inside():
            with open(folder + "/cgroup.procs", "w") as procs:
                procs.write(str(os.getpid()))
            os.chroot(root)
            os.chdir("/")
        target = Target(["/inside/boxed", "/inside/file"], inside)
        ledger = Ledger(byteledger, tmp_path / "out", "--container", ident[:12])
        try:
            ledger.until(lambda last: target.pid in last)
            target.go("memset")
            target.go("filemap")
            process = still(ledger, target.pid)
            assert set(process["unattributed"]) <= {"before_attach"}
            rows = [row for row in process["rows"] if "way_memset" in names(row)]
            assert abs(sum(row["bytes"] for row in rows if row["kind"] == "anon") - 8 * MIB) <= 8192
            assert all("main" in names(row) for row in rows if row["bytes"] > MIB)
            assert {frame["module"] for row in rows for frame in row["frames"] if frame["function"] == "way_memset"} == {"boxed"}
            # who starts in the container is in it
            target.go("mmap")
            target.go("fork")
            ledger.until(lambda last: len([p for p in last.values() if not p["ended"]]) == 2)
            target.go("reap")
        finally:
            target.end()
            ledger.end() if ledger.process.poll() is None else ledger.process.wait()


def test_a_cgroup_and_several_processes_at_once(byteledger, prog, cold_file, tmp_path): # noqa: F811
    with group() as (folder, _):
        def inside():
            with open(folder + "/cgroup.procs", "w") as procs:
                procs.write(str(os.getpid()))
        first, second = Target([prog("pages"), cold_file], inside), Target([prog("pages"), cold_file])
        ledgers = [Ledger(byteledger, tmp_path / "group", "--cgroup", folder),
                   Ledger(byteledger, tmp_path / "both", "-p", str(first.pid), "-p", str(second.pid))]
        try:
            ledgers[0].until(lambda last: set(last) == {first.pid})
            ledgers[1].until(lambda last: set(last) == {first.pid, second.pid})
            first.go("memset")
            second.go("mmap")
            for ledger in ledgers:
                assert abs(of_function(still(ledger, first.pid), "way_memset") - 8 * MIB) <= 8192
            assert of_function(still(ledgers[1], second.pid), "way_mmap", ("anon",)) == 16 * MIB
        finally:
            first.end()
            second.end()
            for ledger in ledgers:
                ledger.end() if ledger.process.poll() is None else ledger.process.wait()


def test_a_program_whose_file_is_deleted_keeps_its_names(byteledger, prog, cold_file, tmp_path): # noqa: F811
    name = tmp_path / "soon-gone"
    shutil.copy(prog("pages"), name)
    target = Target([name, cold_file])
    name.unlink()
    ledger = Ledger(byteledger, tmp_path / "out", "-p", str(target.pid))
    try:
        ledger.until(lambda last: target.pid in last)
        target.go("mmap")
        process = still(ledger, target.pid)
        assert of_function(process, "way_mmap", ("anon",)) == 16 * MIB, process["unattributed"]
    finally:
        target.end()
        ledger.end() if ledger.process.poll() is None else ledger.process.wait()


def test_capabilities_do_instead_of_root_and_are_dropped(byteledger, prog, cold_file, tmp_path): # noqa: F811
    target = Target([prog("pages"), cold_file])
    out = tmp_path / "out"
    out.touch(mode=0o666)
    caps = "+bpf,+perfmon,+sys_admin,+sys_ptrace,+dac_read_search"
    ledger = subprocess.Popen(["setpriv", "--bounding-set=-all," + caps, byteledger, "pages", "--jsonl", "--watch", "0.1", "-p", str(target.pid)],
                              stdout=open(out, "w"), stderr=subprocess.PIPE, text=True)
    try:
        wait_for(lambda: out.read_text().count("\n") > 1 or ledger.poll() is not None)
        assert ledger.poll() is None, ledger.stderr.read()
        def effective():
            found = set()
            for tid in os.listdir(f"/proc/{ledger.pid}/task"):
                with open(f"/proc/{ledger.pid}/task/{tid}/status") as status:
                    found.add(next(int(line.split()[1], 16) for line in status if line.startswith("CapEff")))
            return found
        # CAP_DAC_READ_SEARCH 2, CAP_KILL 5, CAP_SYS_PTRACE 19, CAP_SYS_ADMIN 21: neither CAP_BPF 39 nor CAP_PERFMON 38
        wait_for(lambda: all(caps & ~(1 << 2 | 1 << 5 | 1 << 19 | 1 << 21) == 0 for caps in effective()))
    finally:
        ledger.send_signal(signal.SIGINT)
        ledger.wait(20)
        target.end()


def tables_of(ledger):
    """Names and numbers of the maps that @ledger has open."""
    numbers = set()
    for fd in os.listdir(f"/proc/{ledger.pid}/fdinfo"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/{ledger.pid}/fdinfo/{fd}") as about:
            numbers.update(re.findall(r"^map_id:\s*(\d+)$", about.read(), re.M))
    listed = json.loads(subprocess.run(["bpftool", "-j", "map", "list"], capture_output=True, check=True).stdout)
    return {one["name"]: one["id"] for one in listed if str(one["id"]) in numbers}


def counted_by_the_kernel(tables, pid):
    """Pages of all stacks of @pid: anonymous and shared memory, cache."""
    def values(name):
        rows = json.loads(subprocess.run(["bpftool", "-j", "map", "dump", "id", str(tables[name])], capture_output=True, check=True).stdout)
        return [bytes(int(byte, 16) for byte in row["value"]) for row in rows]
    sums = [struct.unpack_from("<qq", live) for head, live in zip(values("pages_heads"), values("pages_live"))
            if struct.unpack_from("<I", head, 16)[0] == pid]
    return sum(s[0] for s in sums), sum(s[1] for s in sums)


def test_of_a_process_that_ended_page_cache_alone_is_owned(byteledger, tmp_path):
    path = tmp_path / "written"
    target = subprocess.Popen([sys.executable, "-c", f"input(); a = b'x' * (8 << 20); open({str(path)!r}, 'wb').write(a); print(flush=True); input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    other = subprocess.Popen(["sleep", "60"])
    ledger = Ledger(byteledger, tmp_path / "out", "--stacks", "1024", "-p", str(target.pid), "-p", str(other.pid))
    try:
        ledger.until(lambda last: target.pid in last)
        target.stdin.write("\n")
        target.stdin.flush()
        target.stdout.readline()
        tables = tables_of(ledger.process)
        anon, cache = counted_by_the_kernel(tables, target.pid)
        assert anon >= 2048 and cache >= 2048
        target.communicate("\n", timeout=20)
        anon, cache = counted_by_the_kernel(tables, target.pid)
        assert anon == 0 and cache >= 2048
        path.unlink()
        assert counted_by_the_kernel(tables, target.pid)[1] <= cache - 2048
    finally:
        target.kill()
        other.kill()
        target.wait()
        other.wait()
        ledger.end() if ledger.process.poll() is None else ledger.process.wait()


def in_one_line_with_a_hint(done, words):
    assert done.returncode == 1 and words in done.stderr and done.stdout == "", done.stderr
    lines = done.stderr.splitlines()
    assert len(lines) == 2 and lines[1].startswith("hint:"), lines


def test_of_other_users_processes_what_lacks_is_said(byteledger):
    target = subprocess.Popen(["sleep", "60"], user=65534)
    try:
        def run(more):
            return subprocess.run(["setpriv", "--bounding-set=-all,+bpf,+perfmon,+sys_admin,+sys_ptrace" + more, byteledger, "pages",
                                   "--duration", "0.1s", "-p", str(target.pid)], capture_output=True, text=True, timeout=100)
        wait_for(lambda: open(f"/proc/{target.pid}/comm").read() == "sleep\n")
        done = run("")
        in_one_line_with_a_hint(done, "pagemap")
        assert "user 65534" in done.stderr and "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH" in done.stderr
        done = run(",+dac_read_search")
        assert done.returncode == 0 and f"pid {target.pid} " in done.stdout, done.stderr
    finally:
        target.kill()
        target.wait()


def test_a_target_that_has_ended_is_said_to_be_gone(byteledger):
    ended = subprocess.Popen(["true"])
    ended.wait()
    in_one_line_with_a_hint(subprocess.run([byteledger, "pages", "-p", str(ended.pid)], capture_output=True, text=True, timeout=100), str(ended.pid))


def test_a_kernel_that_does_not_tell_its_types_is_said_to_be_one(byteledger):
    done = subprocess.run(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /sys/kernel/btf && exec {byteledger} pages -p {os.getpid()}"],
                          capture_output=True, text=True, timeout=100)
    in_one_line_with_a_hint(done, "BTF")
    assert "No such process" not in done.stderr


def test_a_full_table_of_stacks_is_said_with_what_helps(byteledger, tmp_path):
    code = "import json, sqlite3, email, http.client, xml.dom.minidom, unittest, asyncio, decimal, ctypes, time; time.sleep(6)"  # it is read while it is there
    report = tmp_path / "report"
    done = subprocess.run([byteledger, "pages", "--stacks", "1024", "--format", "json", "--report", str(report), "--", sys.executable, "-c", code],
                          capture_output=True, text=True, timeout=100)
    assert done.returncode == 0 and "hint: --stacks 4096" in done.stderr, done.stderr
    process = json.loads(report.read_text())["processes"][0]
    assert process["unattributed"]["table_full"] > 0
    assert {"stacks_full", "frames_full"} & set(process["lost"]["by_reason"]) # numbers or frames, by how deep they are
    assert process["attributed_bytes"] + sum(process["unattributed"].values()) == process["rss_bytes"]


def test_a_reading_that_is_older_than_its_programs_end_says_so(byteledger):
    """What was touched behind the last look is not there: how long before the end that was is told in its place."""
    head = re.compile(r"^\w+  pid \d+   RSS .*   ended [0-9.]+ \w+ later$")
    counted = re.compile(r"^\w+  pid \d+   RSS .*   counted in [0-9.]+ \w+$")
    done = subprocess.run([byteledger, "pages", "--", "sleep", "0.3"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and head.match(done.stderr.splitlines()[0]), done.stderr
    target = subprocess.Popen(["sleep", "1"])  # not waited for: it is there as a zombie
    done = subprocess.run([byteledger, "pages", "-p", str(target.pid)], capture_output=True, text=True, timeout=60)
    target.wait()
    assert done.returncode == 0 and head.match(done.stdout.splitlines()[0]), done.stdout
    target = subprocess.Popen(["sleep", "60"])
    done = subprocess.run([byteledger, "pages", "-p", str(target.pid), "--duration", "200ms"], capture_output=True, text=True, timeout=60)
    target.kill()
    target.wait()
    assert done.returncode == 0 and counted.match(done.stdout.splitlines()[0]), done.stdout
