# SPDX-License-Identifier: Apache-2.0
"""Programs that make life hard for a library inside them: output and status stay, and the counts are the program's own.

The counts come from tests/prog/heapcount, which reads the shared memory without a line of the recorder. Each hostile
program prints its own truth on descriptor 8; what libc and the loader allocate besides is taken out by running the
program with two repetition counts and comparing the differences.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.request

import pytest

from conftest import BUILD, finished, report
from netapi import free_port

NONE = [[0, 0, 0]] * 8


class Run:
    def __init__(self, returncode, stdout, stderr, truth, seen):
        self.returncode, self.stdout, self.stderr, self.truth, self.seen = returncode, stdout, stderr, truth, seen


def run(argv, counter=(), env=None, cwd=None, timeout=120, stdin=subprocess.DEVNULL):
    """Run with descriptors 8 (the program's truth) and 9 (the counter's findings) being pipes to here."""
    reads, writes = zip(os.pipe(), os.pipe())

    def place():
        high = [os.dup2(fd, 100 + i) for i, fd in enumerate(writes)] # the pipes may stand at 8 and 9 themselves
        for i, fd in enumerate(high):
            os.dup2(fd, 8 + i)
            os.close(fd)
    child = subprocess.Popen([*counter, *argv], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                             pass_fds=(8, 9), preexec_fn=place, env={**os.environ, **(env or {})}, cwd=cwd)
    for fd in writes:
        os.close(fd)
    try:
        stdout, stderr = child.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        child.kill()
        child.communicate()
        raise
    finally:
        truth, seen = (os.fdopen(fd).read() for fd in reads)
    return Run(child.returncode, stdout, stderr, [int(n) for n in truth.split()], json.loads(seen) if seen else None)


@pytest.fixture
def counted(preload, prog):
    """counted(argv) -> Run under the counter, after comparing output and status with the bare program's."""
    def both(argv, env=None, counter_env=None, **more):
        bare = run(argv, env=env, **more)
        traced = run(argv, [prog("heapcount"), preload], env={**(env or {}), **(counter_env or {})}, **more)
        assert (traced.returncode, traced.stdout, traced.stderr) == (bare.returncode, bare.stdout, bare.stderr)
        assert traced.seen["bad"] == 0
        return traced
    return both


def difference(counted, argv_of, low, high, **more):
    """What `high` repetitions have over `low` ones: (seen, truth) as [allocations, bytes, frees]."""
    a, b = counted(argv_of(low), **more), counted(argv_of(high), **more)
    assert a.seen["lost"] == NONE and b.seen["lost"] == NONE
    keys = ("allocs", "bytes", "frees")
    return [b.seen[k] - a.seen[k] for k in keys], [y - x for x, y in zip(a.truth, b.truth)]


def test_every_entry_point_and_every_failure_is_counted_exactly(counted, prog):
    seen, truth = difference(counted, lambda n: [prog("shapes"), str(n)], 1, 201)
    assert seen == truth


def test_short_threads_are_counted_to_the_last_destructor(counted, prog):
    # libc allocates for a thread (its vector of modules' storage): once per stack that is not reused
    low, high = counted([prog("threads"), "800"]), counted([prog("threads"), "10000"])
    seen = [high.seen[k] - low.seen[k] for k in ("allocs", "bytes", "frees")]
    truth = [y - x for x, y in zip(low.truth, high.truth)]
    extra = [s - t for s, t in zip(seen, truth)]
    assert extra[0] == extra[2] and 0 <= extra[0] <= 9200, (seen, truth)
    assert high.seen["lost"] == NONE
    assert high.seen["threads"] >= 10001 and high.seen["thread_ends"] >= 10000
    assert high.seen["owned"] == 1 # only the main thread holds a slot at the end


def test_busy_threads_are_counted_exactly(counted, prog):
    seen, truth = difference(counted, lambda n: [prog("threads"), str(n), "parallel"], 1000, 201000)
    assert seen == truth


def test_a_thread_whose_first_allocation_holds_its_own_lock_goes_on(counted, prog):
    done = counted([prog("threads"), "5", "asks"], timeout=20)
    assert done.seen["threads"] == 6


@pytest.mark.parametrize("raw", [False, True], ids=["recorded", "raw"])
def test_threads_that_share_an_arena_are_counted_exactly(record, prog, preload, byteledger, tmp_path, raw):
    # a block has passed through several threads before two of their stamps differ; none is left when they end
    each, one = 2000 if raw else 10000, {"MALLOC_ARENA_MAX": "1"}
    argv = [prog("threads"), str(each), "arena"]
    if raw:
        subprocess.run([*alone(preload, tmp_path, BYTELEDGER_HELPER="/nonexistent", **one), *argv], check=True, timeout=60)
        out = subprocess.run([byteledger, "report", "--format", "json", "--by", "function", str(tmp_path / "alone.blt.raw")],
                             capture_output=True, check=True, timeout=60).stdout
        report = json.loads(out)
    else:
        report = record(argv, env=one, timeout=60).report("--by", "function")
    row = next(row for row in report["rows"] if row["frames"][0]["function"] == "shares")
    totals = report["totals"]
    assert (report["lost"]["events"], totals["foreign_frees"]) == (0, 0)
    assert row["allocations"] == 50 * each
    assert totals["allocations"] - totals["leaked_allocations"] >= 50 * each


def test_a_clock_that_the_program_has_of_its_own_is_not_the_recorders(record, prog):
    # whoever waits for a recorder looks at the time of its last beat
    done = record([prog("threads"), "200000", "arena"], timeout=110,
                  env={"LD_PRELOAD": os.path.join(BUILD, "tests", "prog", "libfakeclock.so")})
    assert done.returncode == 0
    report = done.report("--by", "function")
    row = next(row for row in report["rows"] if row["frames"][0]["function"] == "shares")
    assert abs(report["process"]["start_realtime_ns"] / 1e9 - time.time()) < 86400
    assert report["lost"] == {"events": 0, "bytes": 0, "by_reason": {}}
    assert row["allocations"] == 50 * 200000


def test_a_larger_budget_has_room_for_more_threads(record, prog, byteledger):
    argv = [prog("threads"), "400", "alive"]
    few, many = record(argv), record(argv, ["--budget", "128"])
    lost = few.report()["lost"]["by_reason"]
    assert set(lost) == {"no_slot"} and 100 <= lost["no_slot"]
    text = subprocess.run([byteledger, "report", few.path], capture_output=True, text=True, check=True).stdout
    assert "no_slot: more threads at once than buffers" in text
    whole = many.report()
    assert whole["lost"]["events"] == 0 and whole["totals"]["threads"] == 401
    assert whole["totals"]["allocations"] >= 400 * 100


def test_a_program_may_have_all_keys_of_threads(counted, prog):
    # 250 threads hold slots when the library's key goes, and end unnoticed; the 400 after them find room
    done, few = counted([prog("keys"), "250", "400"]), counted([prog("keys"), "250", "0"])
    assert done.stdout == few.stdout and int(done.stdout) == os.sysconf("SC_THREAD_KEYS_MAX")
    assert done.seen["lost"] == NONE
    assert [done.seen[k] - few.seen[k] for k in ("allocs", "bytes", "frees")] == [y - x for x, y in zip(few.truth, done.truth)]


def test_a_drop_policy_counts_what_it_drops_exactly(counted, prog):
    high = counted([prog("threads"), "100000", "parallel"],
                   counter_env={"HEAPCOUNT_POLICY": "drop", "HEAPCOUNT_LET_DROP": "1"})
    low = counted([prog("threads"), "0", "parallel"])
    lost = [sum(reason[i] for reason in high.seen["lost"]) for i in range(3)]
    assert lost[0] > 0, "nothing was dropped: the test shows nothing"
    kept = [high.seen[k] - low.seen[k] for k in ("allocs", "bytes", "frees")]
    assert [k + n for k, n in zip(kept, lost)] == high.truth
    assert high.seen["waits"] == 0


def test_children_write_nothing_into_their_parents_book(counted, prog):
    one, many = counted([prog("forks"), "1"]), counted([prog("forks"), "60"])
    for r in (one, many):
        assert r.seen["lost"] == NONE
        assert r.seen["foreign"] == 0
    extra = [[r.seen[k] - t for k, t in zip(("allocs", "bytes", "frees"), r.truth)] for r in (one, many)]
    # posix_spawn() and fork() themselves allocate nothing that stays; three thread vectors either way
    assert extra[0] == extra[1]


def test_signals_jumps_coroutines_and_small_stacks(counted, prog):
    seen, truth = difference(counted, lambda n: [prog("jumps"), str(n)], 16, 160)
    assert [s - t for s, t in zip(seen, truth)][1:] in ([0, 0], [9 * 272, 9], [9 * 288, 9]) # nine threads' vectors


def test_a_jump_out_of_a_look_at_a_new_object_leaves_the_next_unload_alone(record, prog):
    done = record([prog("jumpout"), os.path.dirname(prog("jumpout"))])
    assert (done.returncode, done.stdout) == (0, b"done\n")


@pytest.mark.parametrize("how, said", [("fork", b"child: 0\ndone\n"), ("jump", b"done\n")])
def test_a_deep_load_that_is_left_half_way_leaves_the_next_one_alone(byteledger, prog, tmp_path, how, said):
    library = os.path.join(os.path.dirname(prog("held")), "libplugin_deep.so")
    done = subprocess.run([byteledger, "heap", "-q", "--follow-children", "-o", str(tmp_path / "%e_%p.blt"), "--",
                           prog("held"), how, library], capture_output=True, timeout=100)
    assert (done.returncode, done.stdout) == (0, said), done.stderr


def test_a_child_of_a_fork_in_the_middle_of_a_late_start_can_start(byteledger, preload, prog, tmp_path):
    done = subprocess.run([prog("held"), "start"], capture_output=True, timeout=60,
                          env={**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "%p.blt"),
                               "BYTELEDGER_DISABLE_BY_DEFAULT": "1", "BYTELEDGER_TRACK_CHILD_PROCESSES": "1"})
    assert done.returncode == -signal.SIGKILL, done.stderr
    child = str(tmp_path / f"{int(done.stdout)}.blt")
    deadline = time.monotonic() + 60
    while len(os.listdir(tmp_path)) < 2 or not all(finished(byteledger, str(tmp_path / f)) for f in os.listdir(tmp_path)):
        assert time.monotonic() < deadline, os.listdir(tmp_path)
        time.sleep(0.05)
    told = {str(path): report(byteledger, str(path)) for path in tmp_path.iterdir()}
    assert 78 in [row["allocated_bytes"] for row in told.pop(child)["rows"]]
    parent, = told.values()
    # the child that ended at once was not told as the end of its parent
    assert 77 in [row["allocated_bytes"] for row in parent["rows"]] and not parent["process"]["complete"]


def test_a_handler_that_allocates_after_the_stack_pointer_was_lost(record, prog):
    done = record([prog("lostsp")])
    assert (done.returncode, done.stdout) == (0, b"handled\n")


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_a_walk_reads_nothing_that_is_not_there_whatever_the_registers(record, prog, seed):
    # the environment is part of what the stack may grow to
    done = record([prog("wild"), seed], env={"LARGE": 120000 * "x"})
    assert (done.returncode, done.stdout) == (0, b"alive\n")
    assert done.report()["lost"]["events"] == 0


def test_what_a_guess_finds_outside_of_code_is_no_frame(byteledger, record, prog, tmp_path):
    done = record([prog("junk")])
    assert done.returncode == 0
    out = str(tmp_path / "events")
    subprocess.run([byteledger, "export", done.path, "--to", "jsonl", "-o", out], check=True, timeout=60)
    with open(out) as f:
        events = [json.loads(line) for line in f]
    stacks = {e["stack"]: e for e in events if e["event"] == "stack"}
    seen = {e["stack"] for e in events if e["event"] == "alloc" and e["bytes"] == 77}
    assert len(seen) == 1, [stacks[s] for s in seen]
    one = stacks[seen.pop()]
    assert one["frames"][0]["module"] is None
    assert stacks[one["parent"]]["incomplete"] == "no_module", stacks[one["parent"]]


def test_operator_new_in_all_forms_exceptions_and_late_destructors(counted, prog):
    seen, truth = difference(counted, lambda n: [prog("newdelete"), str(n)], 2, 52)
    # each thread's vector of modules' storage comes from libc, and is kept with the cached stack or released
    assert seen[0] - truth[0] == seen[2] - truth[2]
    assert 0 <= seen[0] - truth[0] <= 100


def test_plugins_come_and_go_at_the_same_address(counted, prog):
    folder = os.path.dirname(prog("plugins"))
    few, many = counted([prog("plugins"), "2", folder]), counted([prog("plugins"), "42", folder])
    assert many.seen["foreign"] == 0 and many.seen["lost"] == NONE
    assert many.seen["module_gen"] - few.seen["module_gen"] == 40
    assert many.seen["stops"][0] == many.seen["allocs"], "a stack was cut"


def test_a_program_with_its_own_malloc_keeps_it_and_is_seen(counted, prog):
    done = counted([prog("ownmalloc")])
    assert done.stdout == b"own\n"
    # malloc, the realloc that is built of it, and printf's buffer
    assert (done.seen["allocs"], done.seen["lost"]) == (3, NONE)
    assert counted([prog("ownmalloc")], env={"BYTELEDGER_OWN_ALLOCATORS": "0"}).seen["allocs"] == 0


@pytest.mark.parametrize("how", ["prctl", "syscall"])
def test_strict_seccomp_is_survived(counted, prog, how):
    done = counted([prog("strict"), how, "100000"])
    assert done.returncode == 0
    lost = [sum(reason[i] for reason in done.seen["lost"]) for i in range(3)]
    assert [done.seen[k] + n for k, n in zip(("allocs", "bytes", "frees"), lost)] == done.truth


def test_a_full_ring_under_seccomp_drops_and_counts(counted, prog):
    done = counted([prog("strict"), "prctl", "1000000"], counter_env={"HEAPCOUNT_SLEEP_US": "200000"})
    lost = [sum(reason[i] for reason in done.seen["lost"]) for i in range(3)]
    assert lost[0] > 0, "nothing was dropped: the test shows nothing"
    assert [done.seen[k] + n for k, n in zip(("allocs", "bytes", "frees"), lost)] == done.truth


def test_who_only_asks_for_seccomp_goes_on_being_recorded(record, prog):
    done = record([prog("seccasks")])
    assert done.returncode == 0
    report = done.report("--by", "thread")
    assert report["lost"]["events"] == 0, report["lost"]
    # the 77 bytes, and the buffer of its printf()
    assert [row["allocations"] for row in report["rows"] if row["tid"] == int(done.stdout)] == [2]


@pytest.mark.parametrize("how", ["exec", "exit"])
def test_what_a_vfork_child_forbids_itself_its_parent_may_do(record, prog, how):
    done = record([prog("vforked"), how])
    assert done.returncode == 128 + signal.SIGKILL, done.stdout
    assert not done.report()["process"]["complete"]
    assert int(done.stdout) in [row["tid"] for row in done.report("--by", "thread")["rows"]]


def test_a_setuid_program_is_not_recorded(preload, prog, tmp_path):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv to make a setuid program")
    copy = tmp_path / "secure"
    shutil.copy(prog("secure"), copy)
    os.chmod(copy, 0o4755)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        if str(folder).startswith("/tmp/"):
            os.chmod(folder, 0o755)
    argv = ["setpriv", "--reuid=65534", "--clear-groups", str(copy)]
    bare = run(argv)
    if bare.stdout != b"secure 1 euid 0\n":
        pytest.skip("the temporary folder does not honour setuid")
    traced = run(argv, env={"LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "of_%e.blt"),
                            "BYTELEDGER_TRACK_CHILD_PROCESSES": "1"})
    assert traced.stdout == bare.stdout
    # setpriv itself, which is not in secure mode, may be recorded; what it runs is not
    assert not [name for name in os.listdir(tmp_path) if name.startswith("of_secure")]


def test_a_recorder_that_comes_after_an_exec_names_what_it_records(byteledger, preload, tmp_path):
    helper, pid, out = tmp_path / "helper", tmp_path / "pid", tmp_path / "out"
    out.mkdir()
    helper.write_text(f'#!/bin/sh\nuntil [ "$(cat /proc/$(cat {pid})/comm)" = cat ]; do sleep 0.01; done\n'
                      f'exec {byteledger} "$@"\n')
    helper.chmod(0o755)
    env = {"LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(out / "of_%e.blt"), "BYTELEDGER_HELPER": str(helper)}
    argv = ["/bin/bash", "-c", 'exec cat']
    child = subprocess.Popen(argv, env={**os.environ, **env}, stdin=subprocess.PIPE)
    pid.write_text(str(child.pid))
    report, deadline = {}, time.monotonic() + 30
    while not report.get("process", {}).get("complete") and time.monotonic() < deadline:
        time.sleep(0.05)
        done = subprocess.run([byteledger, "report", str(out / "of_bash.blt"), "--format", "json"], capture_output=True)
        report = json.loads(done.stdout) if done.returncode == 0 else {}
    child.communicate(timeout=60)
    assert child.returncode == 0 and os.listdir(out) == ["of_bash.blt"]
    assert report["process"]["complete"] and os.path.basename(report["process"]["exe"]) == "bash"


@pytest.mark.parametrize("end,complete", [("exit 0", True), ("kill 9, $$", False)])
def test_a_program_that_is_gone_before_its_recorder_came_is_recorded_whole(byteledger, preload, tmp_path, end, complete):
    helper, pid, out = tmp_path / "helper", tmp_path / "pid", tmp_path / "out"
    out.mkdir()
    helper.write_text(f'#!/bin/sh\nuntil [ -s {pid} ]; do sleep 0.01; done\n'
                      f'while [ -e /proc/$(cat {pid}) ]; do sleep 0.01; done\n{byteledger} "$@" 2>{tmp_path}/errors\n: >{tmp_path}/done\n')
    helper.chmod(0o755)
    env = {"LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(out / "of_%e.blt"), "BYTELEDGER_HELPER": str(helper)}
    child = subprocess.Popen(["perl", "-e", f"my @kept = map {{ 'x' x 1000 . $_ }} 1 .. 1000; {end}"],
                             env={**os.environ, **env})
    child.wait(timeout=60)
    pid.write_text(str(child.pid)) # reaped: nothing can be asked about it any more
    deadline = time.monotonic() + 30
    while not (tmp_path / "done").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert os.listdir(out) == ["of_perl.blt"]
    done = subprocess.run([byteledger, "report", str(out / "of_perl.blt"), "--format", "json"], capture_output=True)
    report = json.loads(done.stdout)
    assert report["totals"]["allocations"] > 1000 and report["lost"]["events"] == 0
    assert report["process"]["complete"] is complete and os.path.basename(report["process"]["exe"]) == "perl"
    assert (tmp_path / "errors").read_text() == ""


@pytest.mark.parametrize("how", ["call", "alias", "signal"])
def test_recording_is_switched_from_inside(preload, prog, how):
    counter = [prog("heapcount"), preload]
    env = {"BYTELEDGER_DISABLE_BY_DEFAULT": "1", "BYTELEDGER_LOG": "info"}
    a, b = (run([prog("toggles"), how, n], counter, env=env) for n in ("10", "60"))
    assert a.returncode == b.returncode == 0
    assert b.seen["allocs"] - a.seen["allocs"] == 50
    assert b.seen["frees"] - a.seen["frees"] == 50
    assert b.seen["bytes"] - a.seen["bytes"] == 5000
    assert b.seen["marks"] == (0 if how == "signal" else 60)
    assert b.stderr.count(b"override_next_timestamp() is accepted without effect") == 1 # said once, called twice


@pytest.mark.parametrize("how", ["call", "signal"])
def test_a_program_under_byteledger_begins_switched_off_on_request(byteledger, prog, tmp_path, how):
    def totals(n):
        path = str(tmp_path / f"{n}.blt")
        subprocess.run([byteledger, "heap", "-q", "-o", path, "--", prog("toggles"), how, str(n)], capture_output=True, check=True,
                       env={**os.environ, "MEMORY_PROFILER_DISABLE_BY_DEFAULT": "1"}, timeout=60)
        done = subprocess.run([byteledger, "report", path, "--format", "json"], capture_output=True, check=True, timeout=60)
        return json.loads(done.stdout)["totals"]
    a, b = totals(10), totals(60)
    assert b["allocations"] - a["allocations"] == 50 and b["allocated_bytes"] - a["allocated_bytes"] == 5000
    assert b["frees"] - a["frees"] == 50


def test_what_the_library_shows_is_the_hooks_and_nothing_else(preload):
    names = subprocess.run(["nm", "-D", "--defined-only", preload], capture_output=True, text=True, check=True).stdout
    shown = {line.split()[-1] for line in names.splitlines()}
    allowed = set("""malloc free cfree calloc realloc reallocarray posix_memalign memalign aligned_alloc valloc pvalloc
        free_sized free_aligned_sized mmap mmap64 munmap mremap brk sbrk mprotect pkey_mprotect madvise shmat shmdt dlclose __register_frame __deregister_frame
        pthread_key_create __pthread_key_create prctl syscall dlopen __libc_start_main _exit _Exit quick_exit execve execv execvp execvpe fexecve execveat execl execlp execle""".split())
    allowed |= {n for n in shown if n.startswith(("_Zn", "_Zd", "byteledger_heap_", "memory_profiler_"))}
    assert shown == allowed
    dynamic = subprocess.run(["readelf", "-dW", preload], capture_output=True, text=True, check=True).stdout
    assert "NODELETE" in dynamic


# ---- programs of the world: the same output, the same status; their counts are judged elsewhere ----

def wait_for(port, seconds=60):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


@pytest.fixture
def served(preload, prog, tmp_path):
    """served(argv, port) -> context of a traced server; yields a list that holds its Run afterwards."""
    @contextlib.contextmanager
    def serve(argv, port, library=preload):
        done = []
        thread = threading.Thread(target=lambda: done.append(run(argv, [prog("heapcount"), library], timeout=120)))
        thread.start()
        try:
            wait_for(port)
            yield done
        finally:
            thread.join()
    return serve


def test_redis_under_its_benchmark(served, installed):
    installed("redis-benchmark")
    port = free_port()
    argv = [installed("redis-server"), "--port", str(port), "--save", "", "--appendonly", "no"]
    with served(argv, port) as done:
        out = subprocess.run(["redis-benchmark", "-p", str(port), "-n", "20000", "-q", "-t", "set,get,lpush,hset"],
                             capture_output=True, text=True, timeout=100)
        size = subprocess.run(["redis-cli", "-p", str(port), "llen", "mylist"], capture_output=True, text=True)
        subprocess.run(["redis-cli", "-p", str(port), "shutdown", "nosave"], check=False)
    assert out.returncode == 0 and size.stdout.strip() == "20000"
    assert done[0].returncode == 0 and done[0].seen["bad"] == 0
    assert done[0].seen["allocs"] > 100000 and done[0].seen["lost"] == NONE


def test_nginx_with_workers(served, installed, tmp_path):
    port = free_port()
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"daemon off; pid {tmp_path}/pid; error_log {tmp_path}/log; worker_processes 2;\n"
                    "events { worker_connections 64; }\n"
                    f"http {{ access_log off; server {{ listen 127.0.0.1:{port}; location / {{ return 200 hello; }} }} }}\n")
    for folder in (tmp_path, *list(tmp_path.parents)[:3]):
        if str(folder).startswith("/tmp/"):
            os.chmod(folder, 0o755)
    with served([installed("nginx"), "-c", str(conf)], port) as done:
        for _ in range(50):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=10) as answer:
                assert answer.read() == b"hello"
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGQUIT)
    assert done[0].returncode == 0 and done[0].seen["bad"] == 0 and done[0].seen["lost"] == NONE


def test_node(counted, installed):
    script = "let a=[];for(let i=0;i<100000;i++)a.push('x'+i);setTimeout(()=>console.log(a.length),20)"
    done = counted([installed("node"), "-e", script])
    assert done.stdout == b"100000\n" and done.seen["allocs"] > 1000


JAVA = """public class T { public static void main(String[] a) throws Exception {
    Thread[] t = new Thread[8];
    for (int i = 0; i < 8; i++) { t[i] = new Thread(() -> { StringBuilder b = new StringBuilder();
        for (int k = 0; k < 100000; k++) b.append(k); }); t[i].start(); }
    for (Thread x : t) x.join();
    System.out.println("joined"); } }"""


def test_a_jvm(counted, installed, tmp_path):
    installed("java")
    (tmp_path / "T.java").write_text(JAVA)
    subprocess.run([installed("javac"), "T.java"], cwd=tmp_path, check=True, timeout=100)
    done = counted([installed("java"), "-cp", str(tmp_path), "T"])
    assert done.stdout == b"joined\n" and done.seen["threads"] > 8


GO = """package main
import ("fmt"; "net"; "os/exec")
func main() { m := map[int]string{}; for i := 0; i < 100000; i++ { m[i] = fmt.Sprint(i) }; fmt.Println(len(m))
o, _ := exec.Command("echo", "hi").Output(); fmt.Print(string(o)); _, e := net.LookupHost("localhost"); fmt.Println(e) }"""


def test_a_go_program_with_cgo(counted, installed, tmp_path, go_cache):
    (tmp_path / "g.go").write_text(GO)
    env = {"CGO_ENABLED": "1", "GOCACHE": go_cache, "GOFLAGS": "-mod=mod", "HOME": str(tmp_path)}
    built = subprocess.run([installed("go"), "build", "-o", "g", "g.go"], cwd=tmp_path, env={**os.environ, **env},
                           capture_output=True, timeout=280)
    if built.returncode != 0:
        pytest.skip("go cannot build here: " + built.stderr.decode()[-200:])
    done = counted([str(tmp_path / "g")])
    assert done.stdout.startswith(b"100000\nhi\n")


@pytest.mark.large
def test_headless_chromium_with_its_own_allocator(counted, tmp_path):
    program = "/usr/lib/chromium/chromium"
    if not os.path.exists(program):
        pytest.skip("chromium is not installed")
    argv = [program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
            f"--user-data-dir={tmp_path}", "--dump-dom", "data:text/html,<p>hello</p>"]
    bare = run(argv, timeout=60)
    if b"hello" not in bare.stdout:
        pytest.skip("chromium does not run here")
    # the counter takes no nodes out of their table, which a page fills
    traced = run(argv, [os.path.join(BUILD, "tests/prog/heapcount"), os.path.join(BUILD, "libbyteledger-heap.so")],
                 env={"HEAPCOUNT_POLICY": "drop"}, timeout=60)
    assert (traced.returncode, traced.stdout) == (bare.returncode, bare.stdout) # its stderr has times in it
    assert traced.seen["attached"] == 1 and traced.seen["bad"] == 0
    assert traced.seen["allocs"] > 100000, "its own malloc and operators are not hooked"


def glibc_release():
    return tuple(map(int, os.confstr("CS_GNU_LIBC_VERSION").split()[-1].split(".")))


def test_jemalloc_behind_the_library_stays_in_place(preload, prog):
    jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(jemalloc):
        pytest.skip("libjemalloc2 is not installed")
    counter = [prog("heapcount"), preload + ":" + jemalloc]
    a, b = (run([prog("newdelete"), n], counter) for n in ("2", "52"))
    assert a.returncode == b.returncode == 0
    extra = [b.seen[k] - a.seen[k] - (b.truth[i] - a.truth[i]) for k, i in (("allocs", 0), ("frees", 2))]
    # the vector that libc allocates for each of the 50 threads; since 2.43 it stays with the cached stack, which the next thread has
    assert extra == [50, 50] or extra == [0, 0] and glibc_release() >= (2, 43)
    assert b.seen["lost"] == NONE


# ---- the loader ----

@pytest.fixture
def copies(prog, tmp_path):
    """A folder with eight copies of a plugin."""
    for i in range(8):
        shutil.copy(os.path.join(os.path.dirname(prog("loaders")), "libplugin_a.so"), tmp_path / f"p{i}.so")
    return str(tmp_path)


def test_new_code_may_allocate_inside_dl_iterate_phdr_while_another_thread_unloads(counted, prog, copies):
    assert counted([prog("loaders"), "callback", "300", copies], timeout=60).stdout == b"done\n"


def test_objects_have_names_after_thousands_of_loads(record, prog, copies):
    done = record([prog("loaders"), "churn", "5000", copies])
    assert done.returncode == 0
    rows = [row for row in done.report()["rows"] if row["leaked_bytes"] == 12345]
    assert [row["frames"][0]["module"] for row in rows] == ["p3.so"], rows
    assert rows[0]["frames"][0]["function"] == "plugin_take"


@pytest.mark.parametrize("how, each", [("again", 0), ("churn", 4)])
def test_stacks_keep_their_numbers_when_objects_come_and_go(counted, prog, copies, how, each):
    few, many = (counted([prog("loaders"), how, n, copies]) for n in ("10", "210"))
    assert many.seen["module_gen"] - few.seen["module_gen"] == 200
    assert many.seen["stops"][0] == many.seen["allocs"], "a stack was cut"
    grown = many.seen["nodes"] - few.seen["nodes"]
    assert grown <= 200 * each, f"{grown} nodes of 200 loads"


def test_code_where_an_object_was_is_not_taken_for_it(preload, prog, copies, byteledger, tmp_path):
    """Nobody reads the raw file before the object is back."""
    env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_HELPER": "/nonexistent",
           "BYTELEDGER_OUTPUT": str(tmp_path / "between.blt")}
    subprocess.run([prog("loaders"), "between", "1", copies], env=env, capture_output=True, check=True)
    text = subprocess.run([byteledger, "report", "--format", "json", str(tmp_path / "between.blt.raw")],
                          capture_output=True, check=True).stdout
    first = {row["leaked_bytes"]: [f["module"] for f in row["frames"][:2]] for row in json.loads(text)["rows"]}
    assert [first[n] for n in (111, 222, 333)] == [["p0.so", "loaders"], [None, "loaders"], ["p0.so", "loaders"]]


def test_an_object_loaded_by_a_relative_name_is_found_again(record, prog, copies):
    done = record([prog("manners"), "take", "12345", "./p0.so", copies])
    assert done.stdout == b"taken\n"
    rows = [row for row in done.report()["rows"] if row["leaked_bytes"] == 12345]
    assert [(f["module"], f["function"]) for row in rows for f in row["frames"][:1]] == [("p0.so", "plugin_take")]


def test_objects_beyond_the_table_are_said_to_be_nameless(record, prog, copies, byteledger):
    for i in range(8, 4200):
        shutil.copyfile(f"{copies}/p0.so", f"{copies}/p{i}.so")
    done = record([prog("loaders"), "hold", "4200", copies])
    assert done.returncode == 0
    nameless = done.report()["process"]["modules_nameless"]
    assert 100 <= nameless <= 120
    text = subprocess.run([byteledger, "report", done.path], capture_output=True, text=True, check=True).stdout
    assert f"NAMELESS: {nameless} objects" in text
    info = subprocess.run([byteledger, "info", "--format", "json", done.path], capture_output=True, check=True).stdout
    assert json.loads(info)["process"]["modules_nameless"] == nameless


def test_frames_in_the_vdso_have_its_name(record, prog):
    done = record([prog("vdso")])
    names = {f["module"] for row in done.report()["rows"] if row["allocated_bytes"] % 777 == 0 for f in row["frames"]}
    assert "[vdso]" in names, names


# ---- starting ----

def alone(preload, tmp_path, **more):
    """A command that runs what follows with the library and nothing else; shells in front of it are not traced."""
    env = {"LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "alone.blt"), **more}
    return ["/usr/bin/env", *(f"{k}={v}" for k, v in env.items())]


def test_a_full_disk_in_raw_mode_loses_events_and_not_the_program(byteledger, preload, prog, tmp_path):
    space = tmp_path / "small"
    space.mkdir()
    env = alone(preload, space, BYTELEDGER_HELPER="/nonexistent")
    script = ('cd "$1" && mount -t tmpfs -o size=6m none "$1" && file=$1/alone.blt.raw && report=$2 && shift 2 && "$@" && '
              '"$report" report "$file" --format json')
    inside = ["unshare", "-m", "sh", "-c", script, "sh", str(space), byteledger, *env, prog("manners"), "blocks", "400000"]
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(space)], capture_output=True).returncode:
        pytest.skip("no mount namespace here")
    done = subprocess.run(inside, capture_output=True, timeout=60)
    assert done.returncode == 0, (done.returncode, done.stderr)
    lines = done.stdout.split(b"\n", 1)
    assert lines[0] == b"400000"
    report = json.loads(lines[1])
    lost = report["lost"]["by_reason"]
    assert report["lost"]["events"] > 0, "the disk did not fill up: the test shows nothing"
    assert report["totals"]["allocations"] > 1000
    assert 400000 <= report["totals"]["allocations"] + report["lost"]["events"] <= 400010, lost


def test_a_disk_without_room_for_the_tables_is_said_at_once(preload, prog, tmp_path):
    if subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", str(tmp_path)], capture_output=True).returncode:
        pytest.skip("no mount namespace here")
    env = alone(preload, tmp_path, BYTELEDGER_HELPER="/nonexistent")
    script = 'mount -t tmpfs -o size=1m none "$1" && shift && "$@"'
    done = subprocess.run(["unshare", "-m", "sh", "-c", script, "sh", str(tmp_path), *env, prog("manners"), "blocks", "10"],
                          capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"10\n")
    assert b"error 28" in done.stderr and b"nothing is recorded" in done.stderr


@pytest.mark.parametrize("kib, recorded", [(100_000, True), (64_000, False)])
def test_a_tight_address_space_is_left_to_the_program(byteledger, tmp_path, kib, recorded):
    """ulimit -v: the program gets as far as it does bare; the recording takes an eighth of what is left, or there is none."""
    perl = 'my @a; push @a, "x" x 1000000 for 1 .. $ARGV[0]; print scalar(@a), "\\n"'
    limited = ["sh", "-c", f"ulimit -v {kib}; exec perl -e '{perl}' $1", "sh", str(kib * 6 // 10_000)]
    bare = subprocess.run(limited, capture_output=True, timeout=60)
    assert bare.returncode == 0
    done = subprocess.run([byteledger, "heap", "-q", "-o", str(tmp_path / "%e.blt"), "--", *limited], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, bare.stdout), done.stderr
    told = subprocess.run([byteledger, "report", "--format", "json", str(tmp_path / "perl.blt")], capture_output=True, timeout=60)
    assert (told.returncode == 0) == recorded, told.stderr
    if recorded:
        report = json.loads(told.stdout)
        assert report["totals"]["peak_bytes"] > kib * 600 and report["lost"]["events"] == 0


def test_the_break_can_be_moved_before_anything_else_ran(counted, prog):
    assert counted([prog("early")]).stdout == b"1 1 1\n"


def test_a_file_size_limit_costs_the_recording_and_not_the_program(byteledger, preload, prog, tmp_path):
    limited = ["sh", "-c", 'ulimit -f 1000; exec "$@"', "sh"]
    done = subprocess.run([*limited, *alone(preload, tmp_path), prog("manners"), "blocks", "10"], capture_output=True,
                          timeout=60)
    assert (done.returncode, done.stdout) == (0, b"10\n")
    assert b"nothing is recorded" in done.stderr
    done = subprocess.run([*limited, byteledger, "heap", "-o", str(tmp_path / "a.blt"), "--", prog("manners"), "blocks", "10"],
                          capture_output=True, timeout=60)
    assert done.returncode == 1 and b"hint:" in done.stderr and b"ulimit -f" in done.stderr


def test_an_inherited_filter_that_kills_old_calls_is_not_met(preload, prog, tmp_path):
    log = str(tmp_path / "log")
    for helper in ("/nonexistent", os.path.join(BUILD, "byteledger")):
        env = alone(preload, tmp_path, BYTELEDGER_HELPER=helper, BYTELEDGER_LOG="trace", BYTELEDGER_LOGFILE=log,
                    BYTELEDGER_LOGFILE_ROTATE_WHEN_BIGGER_THAN="1")
        done = subprocess.run([prog("filtered"), *env, prog("manners"), "blocks", "10"], capture_output=True, timeout=60)
        assert (done.returncode, done.stdout) == (0, b"10\n"), done.stderr
    assert os.path.exists(log + ".initial")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_a_program_without_stdin_gets_a_recorder_with_one(preload, prog, tmp_path, closed):
    helper, seen = tmp_path / "helper", tmp_path / "seen"
    helper.write_text(f'#!/bin/sh\nall=$(for n in 0 1 2 3 4; do readlink /proc/$$/fd/$n || echo closed; done)\n'
                      f'echo "$all" >{seen}.part\nmv {seen}.part {seen}\n')
    helper.chmod(0o755)
    done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *alone(preload, tmp_path, BYTELEDGER_HELPER=str(helper)),
                           prog("manners"), "fd", "0"], capture_output=True, timeout=60)
    assert done.returncode == 0
    if closed == "<&-":
        assert done.stdout == b"closed\n"
    deadline = time.monotonic() + 30
    while not seen.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    targets = seen.read_text().splitlines()
    assert targets[:3] == ["/dev/null"] * 3 and "memfd:byteledger" in targets[3]
    # where the recorder takes its own stderr from once it has begun
    assert targets[4] == "/dev/null" if "2>&-" in closed else targets[4].startswith("pipe:")


@pytest.mark.parametrize("status", ["127", "1", "0", "kill"])
def test_a_recorder_that_ends_before_it_has_begun_leaves_a_raw_file_and_says_nothing(byteledger, preload, prog, tmp_path, status):
    # a shared library is missing, or of another version; beside the library, where it is looked for first
    library = shutil.copy(preload, tmp_path / "libbyteledger-heap.so")
    helper, log = tmp_path / "byteledger", tmp_path / "log"
    end = "kill -9 $$" if status == "kill" else f"exit {status}"
    helper.write_text(f"#!/bin/sh\necho error while loading shared libraries >&2; {end}\n")
    helper.chmod(0o755)
    env = alone(library, tmp_path, BYTELEDGER_LOG="warn", BYTELEDGER_LOGFILE=str(log), PATH=str(tmp_path / "nothing"))
    done = subprocess.run([*env, prog("manners"), "blocks", "1000"], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"1000\n", b"")
    said = log.read_text().splitlines()
    ended = "137" if status == "kill" else status
    assert len(said) == 1 and f" WRN recorder {helper} ended with {ended} before it attached; raw file instead" in said[0], said
    assert 1000 <= report(byteledger, str(tmp_path / "alone.blt.raw"))["totals"]["allocations"] < 1010


def test_an_exit_waits_for_no_recorder(preload, prog, tmp_path):
    # the helper starts and never reads; a program that sleeps is killed
    env = alone(preload, tmp_path, BYTELEDGER_HELPER="/bin/true")
    done = subprocess.run([prog("filtered"), "-s", *env, prog("manners"), "blocks", "10"], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"10\n"), done.stderr


@pytest.mark.parametrize("name", ["BYTELEDGER_SHM", "MEMORY_PROFILER_SHM"])
def test_a_foreign_descriptor_is_left_open(preload, prog, tmp_path, name):
    done = subprocess.run(["sh", "-c", 'exec "$@" 5</dev/null', "sh", *alone(preload, tmp_path, **{name: "5"}),
                           prog("manners"), "fd", "5"], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, b"open\n")
    assert (b"descriptor 5 is not" in done.stderr) == name.startswith("BYTE")


# ---- operators ----

def test_no_frame_of_ours_stands_in_a_stack(record, prog):
    # the exception of an operator new that fails is allocated below it
    done = record([prog("newdelete"), "5"])
    rows = done.report()["rows"]
    assert any(f["function"] == "__cxa_allocate_exception" for row in rows for f in row["frames"])
    assert [row for row in rows if any(f["module"] == "libbyteledger-heap.so" for f in row["frames"])] == []


def test_a_plugins_own_operator_new_stays_in_place(counted, prog):
    plugin = os.path.join(os.path.dirname(prog("manners")), "libplugin_pool.so")
    few, many = (counted([prog("manners"), "plugin", n, plugin]) for n in ("10", "60"))
    assert many.stdout == b"60060\n"
    assert [many.seen[k] - few.seen[k] for k in ("allocs", "bytes", "frees")] == [50, 200, 50]


@pytest.mark.parametrize("plugin", ["start", "ask"])
def test_a_plugins_first_new_asks_the_loader_for_nothing(counted, prog, plugin):
    # start: a thread calls it while the loader's lock is held; ask: between a failed dlsym() and dlerror()
    library = os.path.join(os.path.dirname(prog("manners")), f"libplugin_{plugin}.so")
    assert counted([prog("manners"), "load", "0", library], timeout=20).stdout == b"loaded\n"


def test_a_plugin_that_looks_into_its_own_libraries_first_is_seen(counted, record, prog):
    library = os.path.join(os.path.dirname(prog("manners")), "libplugin_deep.so")
    few, many = (counted([prog("manners"), "deep", n, library]) for n in ("10", "60"))
    assert many.stdout == b"swapped\n"
    assert [many.seen[k] - few.seen[k] for k in ("allocs", "bytes", "frees")] == [150, 50 * 1264, 150]
    report = record([prog("manners"), "deep", "10", library]).report()
    assert report["lost"]["events"] == 0 and report["totals"]["foreign_frees"] == 0
    # its constructor's block, as it was after the last realloc
    assert [(row["leaked_bytes"], row["frames"][0]["function"]) for row in report["rows"] if row["leaked_bytes"] == 1100] == [
        (1100, "plugin_swap")]


def test_operators_of_the_runtime_that_lead_into_the_programs_own_count_once(counted, record, prog):
    few, many = (counted([prog("ownnew"), n]) for n in ("10", "60"))
    assert many.stdout == b"done\n"
    # as in the program itself: its operator asks malloc for 32 bytes more
    assert [many.seen[k] - few.seen[k] for k in ("allocs", "bytes", "frees")] == [200, 50 * (132 + 33 + 232 + 64), 200]
    report = record([prog("ownnew"), "10"]).report()
    assert report["lost"]["events"] == 0 and report["totals"]["foreign_frees"] == 0


def test_an_allocators_operators_do_not_lead_into_the_programs_own(record, prog):
    jemalloc = "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"
    if not os.path.exists(jemalloc):
        pytest.skip("libjemalloc2 is not installed")
    few, many = (record([prog("ownnew"), n, "0"], env={"LD_PRELOAD": jemalloc}).report() for n in ("10", "60"))
    keys = ("allocations", "allocated_bytes", "frees")
    assert [many["totals"][k] - few["totals"][k] for k in keys] == [200, 50 * (100 + 1 + 200 + 64), 200]
    assert many["lost"]["events"] == 0 and many["totals"]["foreign_frees"] == 0
