# SPDX-License-Identifier: Apache-2.0
"""`heap -p PID` of a process that nobody records: the library comes into it, and is quiet again."""
import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import time

import pytest


class Running:
    """A program that runs, and byteledger beside it."""

    def __init__(self, byteledger, tmp_path, argv, **more):
        self.byteledger, self.folder, self.count = byteledger, tmp_path, 0
        self.it = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **more)
        self.pid = self.it.pid
        assert self.line() == "ready"

    def line(self):
        return self.it.stdout.readline().strip()

    def say(self, text):
        self.it.stdin.write(f"{text}\n")
        self.it.stdin.flush()
        return self.line()

    def begin(self, *words):
        """Record it from here on; returns when it is recorded."""
        self.count += 1
        path = str(self.folder / f"{self.count}.blt")
        recorder = subprocess.Popen([self.byteledger, "heap", "-p", str(self.pid), "-q", "-o", path, *words], text=True,
                                    stderr=subprocess.PIPE, stdout=subprocess.PIPE)
        deadline = time.monotonic() + 60
        while not is_led(self.pid) and recorder.poll() is None:
            assert time.monotonic() < deadline, "it is not recorded"
            time.sleep(0.005)
        assert recorder.poll() is None, recorder.stderr.read()
        return recorder, path

    def end(self, recorder):
        """Ctrl-C, and what byteledger said."""
        recorder.send_signal(signal.SIGINT)
        out, said = recorder.communicate(timeout=60)
        assert recorder.returncode == 0, said
        return said

    def close(self):
        """It ends as it would have without us."""
        self.it.stdin.close()
        assert self.it.wait(timeout=60) == 0
        self.it.stdout.close()


@pytest.fixture
def running(byteledger, tmp_path):
    made = []

    def run(*argv, **more):
        made.append(Running(byteledger, tmp_path, [str(word) for word in argv], **more))
        return made[-1]
    yield run
    for it in made:
        if it.it.poll() is None:
            it.it.kill()
            it.it.wait()


def maps(pid):
    with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
        return [(int(a, 16), int(b, 16), perms, path) for a, b, perms, path in
                re.findall(r"^([0-9a-f]+)-([0-9a-f]+) (\S+) \S+ \S+ \S+ *(.*)$", file.read(), re.M)]


def memory(pid, lo, hi):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
        file.seek(lo)
        return file.read(hi - lo)


def hooks(pid):
    """The code of the library in @pid."""
    found = [(lo, hi) for lo, hi, perms, path in maps(pid) if path.endswith("libbyteledger-heap.so") and "x" in perms]
    return found[0] if found else (0, 0)


def data_words(pid):
    """The words of all objects' data but the library's own that lead into its code."""
    lo, hi = hooks(pid)
    found = 0
    for start, end, perms, path in maps(pid):
        if not path.startswith("/") or "x" in perms or "libbyteledger" in path or "memfd" in path or "p" not in perms or "r" not in perms:
            continue
        with contextlib.suppress(OSError):
            data = memory(pid, start, end)
            found += sum(lo <= word < hi for word in memoryview(data[:len(data) // 8 * 8]).cast("Q"))
    return found


def is_led(pid):
    with contextlib.suppress(OSError, ValueError):
        return hooks(pid) != (0, 0) and data_words(pid) > 0
    return False


def code(pid):
    """Digests of all executable mappings but the library's."""
    with contextlib.suppress(OSError):
        return {(lo, path): hashlib.sha256(memory(pid, lo, hi)).hexdigest() for lo, hi, perms, path in maps(pid)
                if "x" in perms and path.startswith("/") and "libbyteledger" not in path}


def totals(byteledger, path, *words):
    out = subprocess.run([byteledger, "report", "--format", "json", path, *words], capture_output=True, text=True, timeout=120)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)["totals"]


def attach(byteledger, pid, path, *words):
    return subprocess.run([byteledger, "heap", "-p", str(pid), "-q", "-o", str(path), *words], capture_output=True, text=True, timeout=120)


# ---- what is recorded ----


def test_totals_are_the_programs_own_counts(running, prog, byteledger):
    it = running(prog("injected"), "count")
    assert it.say(50) # 50 kept blocks, and what came before
    recorder, path = it.begin()
    told = [[int(n) for n in it.say(rounds).split()] for rounds in (1, 100, 3000)]
    it.end(recorder)
    assert it.say(500) # not in it any more
    it.close()
    is_there = totals(byteledger, path)
    assert is_there["allocations"] == sum(n[0] for n in told)
    assert is_there["allocated_bytes"] == sum(n[1] for n in told)
    assert is_there["frees"] + is_there["foreign_frees"] == sum(n[2] for n in told)
    assert is_there["foreign_frees"] == 50
    assert is_there["leaked_allocations"] == 64 # those that it keeps, all younger than the attaching
    said = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "ATTACHED to a process that ran" in said


def test_marks_stand_in_a_recording_of_a_process_that_ran(running, prog, byteledger):
    it = running(prog("injected"), "count")
    recorder, path = it.begin()
    for mark, rounds in ((1, 10), (2, 200)):
        subprocess.run([byteledger, "heap", "-p", str(it.pid), "--mark", str(mark)], check=True, timeout=60)
        told = [int(n) for n in it.say(rounds).split()]
    subprocess.run([byteledger, "heap", "-p", str(it.pid), "--mark", "3"], check=True, timeout=60)
    it.end(recorder)
    it.close()
    assert totals(byteledger, path, "--from", "mark:2", "--to", "mark:3")["allocations"] == told[0]


def test_stacks_lead_to_main(running, prog, byteledger):
    it = running(prog("injected"), "count")
    recorder, path = it.begin()
    it.say(10)
    it.end(recorder)
    it.close()
    out = subprocess.run([byteledger, "export", "--to", "folded", path], capture_output=True, text=True, timeout=60)
    assert out.returncode == 0, out.stderr
    assert re.search(r"main;.*one_round", out.stdout), out.stdout


def test_what_the_data_holds_is_led_too(running, prog, byteledger):
    it = running(prog("injected"), "pointer")
    recorder, path = it.begin()
    assert it.say("go") == "done"
    it.end(recorder)
    it.close()
    assert totals(byteledger, path, "--min-size", "777", "--max-size", "777")["allocations"] == 100


def test_libraries_that_come_later_are_led(running, prog, byteledger):
    library = os.path.join(os.path.dirname(prog("plugins")), "libplugin_a.so")
    it = running(prog("injected"), "opens", library, "plugin_take", "100")
    recorder, path = it.begin()
    for _ in range(3):
        assert it.say("late") == "done"
    it.end(recorder)
    it.close()
    assert totals(byteledger, path, "--min-size", "321", "--max-size", "321")["allocations"] == 300


def test_python(installed, byteledger, running):
    program = "import sys\nprint('ready', flush=True)\nkeep = []\nfor line in sys.stdin:\n" \
              "    keep.extend(bytearray(100_000) for _ in range(int(line)))\n    print('done', flush=True)\n"
    it = running(installed("python3"), "-c", program, env={**os.environ, "PYTHONMALLOC": "malloc"})
    it.say(5)
    recorder, path = it.begin()
    it.say(30)
    it.end(recorder)
    it.say(5)
    it.close()
    assert totals(byteledger, path, "--min-size", "100000", "--max-size", "100100")["allocations"] == 30


def test_cpp_operators_count_as_what_was_asked_of_them(running, prog, byteledger):
    it = running(prog("injected_cxx"))
    it.say(10)
    recorder, path = it.begin()
    told = [int(n) for n in it.say(1000).split()]
    it.end(recorder)
    it.say(10)
    it.close()
    is_there = totals(byteledger, path)
    assert [is_there["allocations"], is_there["allocated_bytes"], is_there["frees"]] == told


def test_redis_under_load(installed, byteledger, tmp_path):
    server, cli, bench = installed("redis-server"), installed("redis-cli"), installed("redis-benchmark")
    socket = str(tmp_path / "s")
    it = subprocess.Popen([server, "--port", "0", "--unixsocket", socket, "--save", "", "--dir", str(tmp_path)], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while subprocess.run([cli, "-s", socket, "ping"], capture_output=True, text=True, timeout=60).stdout != "PONG\n":
            assert time.monotonic() < deadline
            time.sleep(0.1)
        load = subprocess.Popen([bench, "-s", socket, "-q", "-n", "30000", "-c", "10", "-t", "set,lpush,sadd,hset"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        for i in range(5):
            done = attach(byteledger, it.pid, tmp_path / f"r{i}.blt", "--duration", "200ms")
            assert done.returncode == 0, done.stderr
        out, _ = load.communicate(timeout=200)
        assert load.returncode == 0 and "rror" not in out, out
        assert data_words(it.pid) == 0
        assert sum(totals(byteledger, str(tmp_path / f"r{i}.blt"))["allocations"] for i in range(5)) > 0
        assert "OK" in subprocess.run([cli, "-s", socket, "eval", "for i = 1, 20000 do redis.call('set', 'key' .. i, i) end return 'OK'", "0"],
                                      capture_output=True, text=True, timeout=60).stdout
    finally:
        it.terminate()
        assert it.wait(timeout=60) == 0


# ---- the program is unharmed ----


def test_code_and_data_are_what_they_were(running, prog):
    it = running(prog("injected"), "count")
    it.say(10)
    before = code(it.pid)
    recorder, _ = it.begin()
    assert data_words(it.pid) > 0
    assert code(it.pid).items() >= before.items()
    it.say(10)
    it.end(recorder)
    assert data_words(it.pid) == 0
    assert code(it.pid).items() >= before.items()
    perms = {(lo, path): p for lo, _, p, path in maps(it.pid)}
    assert not [key for key, p in perms.items() if "w" in p and "x" in p]
    it.say(10)
    it.close()


def test_it_can_be_done_again(running, prog, byteledger):
    it = running(prog("injected"), "count")
    for budget in ("64", "64", "32", "64"):
        recorder, path = it.begin("--budget", budget)
        told = [int(n) for n in it.say(200).split()]
        it.end(recorder)
        assert it.say(20)
        assert totals(byteledger, path)["allocations"] == told[0]
    it.close()


def attaches(byteledger, tmp_path, it, times, may_wait=False):
    """@may_wait: a thread may wait for a lock within a hook of the time before, for seconds: then the next is refused, and says so."""
    refusals = 0
    for i in range(times):
        done = attach(byteledger, it.pid, tmp_path / "x.blt", "--duration", "20ms", "--no-store-symbols")
        refused_so = may_wait and done.returncode == 1 and "nothing was changed" in done.stderr
        assert done.returncode == 0 or refused_so, (i, done.stderr)
        refusals += refused_so
        for path in glob.glob(str(tmp_path / "x.blt*")):
            os.unlink(path)
        assert it.it.poll() is None, i
    assert refusals <= times // 2


def test_a_hundred_times_in_a_row(running, prog, byteledger, tmp_path):
    it = running(prog("injected"), "tight", 2, 10000)
    mappings = None
    for _ in range(4):
        attaches(byteledger, tmp_path, it, 25)
        now = len(maps(it.pid))
        assert mappings is None or now <= mappings + 4, "each leaves something behind"
        mappings = mappings or now
    assert data_words(it.pid) == 0
    it.it.kill()


@pytest.mark.parametrize("what", [["tight", "4"], ["locked"], ["registers"]])
def test_it_goes_on_as_if_nothing_had_been(running, prog, byteledger, tmp_path, what):
    it = running(prog("injected"), *what, 25)
    attaches(byteledger, tmp_path, it, 6, what == ["locked"])
    assert it.line() == "ok"
    it.close()


def test_who_sleeps_is_not_woken(prog, byteledger, tmp_path, running):
    it = running(prog("injected"), "sleeps")
    time.sleep(0.2)
    attaches(byteledger, tmp_path, it, 3)
    told = [it.line().split() for _ in range(7)]
    for name, result, why, took in told:
        assert result == "0" and why == "-", (name, result, why)
        # two are woken by main, whose own sleep may have begun before they came to wait
        assert (0.1 if name in ("read", "epoll") else 2.45) < float(took) < 6, (name, took)
    assert len({name for name, *_ in told}) == 7
    it.close()


def test_the_recorder_may_be_killed(running, prog, byteledger):
    it = running(prog("injected"), "count")
    for _ in range(3):
        recorder, path = it.begin()
        it.say(100)
        recorder.kill()
        recorder.wait()
        recorder.stdout.close()
        recorder.stderr.close()
        deadline = time.monotonic() + 30
        while data_words(it.pid):
            assert time.monotonic() < deadline, "nobody puts it back"
            time.sleep(0.01)
        assert it.say(2000)
    recorder, path = it.begin()
    told = [int(n) for n in it.say(100).split()]
    it.end(recorder)
    it.close()
    assert totals(byteledger, path)["allocations"] == told[0]


@pytest.mark.parametrize("after", [0.0, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05])
def test_the_recorder_may_be_killed_at_any_moment(running, prog, byteledger, tmp_path, after):
    it = running(prog("injected"), "count")
    for i in range(3):
        recorder = subprocess.Popen([byteledger, "heap", "-p", str(it.pid), "-q", "-o", str(tmp_path / "k.blt")], stderr=subprocess.DEVNULL)
        time.sleep(after + i * 0.001)
        recorder.kill()
        recorder.wait()
        assert it.say(100)
        time.sleep(0.1)
    it.close()


def blocks(pid, tid):
    """The signals that the thread blocks."""
    with open(f"/proc/{pid}/task/{tid}/status", encoding="ascii", errors="replace") as file:
        return re.search(r"^SigBlk:\s*(\w+)", file.read(), re.M)[1]


def keeper_of(recorder):
    """The process beside @recorder that leads a thread of the program aside."""
    deadline = time.monotonic() + 20
    while recorder.poll() is None and time.monotonic() < deadline:
        with contextlib.suppress(OSError, IndexError):
            with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="ascii") as file:
                return int(file.read().split()[0])
    return None


@pytest.mark.parametrize("what", [["count"], ["registers", 12]])
def test_who_leads_a_thread_aside_may_be_killed_at_any_moment(running, prog, byteledger, tmp_path, what):
    it = running(prog("injected"), *what)
    blocked = [blocks(it.pid, tid) for tid in os.listdir(f"/proc/{it.pid}/task")]
    for i in range(20):
        recorder = subprocess.Popen([byteledger, "heap", "-p", str(it.pid), "-q", "-o", str(tmp_path / f"{i}.blt")], stderr=subprocess.DEVNULL)
        keeper = keeper_of(recorder)
        time.sleep(0.002 * i)
        with contextlib.suppress(OSError, TypeError):
            os.kill(keeper, signal.SIGKILL)
        recorder.send_signal(signal.SIGINT)
        recorder.wait(timeout=60)
        assert it.it.poll() is None, f"it died of a kill after {2 * i} ms"
        if what == ["count"]:
            assert it.say(100)
    deadline = time.monotonic() + 30 # the last one may be on its way back still
    while [blocks(it.pid, tid) for tid in os.listdir(f"/proc/{it.pid}/task")] != blocked:
        assert time.monotonic() < deadline, "signals stay blocked"
        time.sleep(0.05)
    if what != ["count"]:
        assert it.line() == "ok"
    it.close()


def test_signals_end_the_recording(running, prog, byteledger):
    it = running(prog("injected"), "count")
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        recorder, path = it.begin()
        told = [int(n) for n in it.say(10).split()]
        recorder.send_signal(number)
        _, said = recorder.communicate(timeout=60)
        assert recorder.returncode == 0, said
        assert data_words(it.pid) == 0
        assert totals(byteledger, path)["allocations"] == told[0]
    it.close()


def test_ctrl_c_on_the_way_in_undoes_it_at_once(running, prog, byteledger, tmp_path):
    """Nobody is told for two seconds that somebody else is about to record."""
    it = running(prog("injected"), "count")
    for i in range(12):
        recorder = subprocess.Popen([byteledger, "heap", "-p", str(it.pid), "-q", "-o", str(tmp_path / f"a{i}.blt")], stderr=subprocess.DEVNULL,
                                    preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)) # a job in the background has it ignored
        time.sleep(0.005 * i)
        recorder.send_signal(signal.SIGINT)
        assert recorder.wait(timeout=60) in (0, -signal.SIGINT) # before anything was begun it just ends
        done = attach(byteledger, it.pid, tmp_path / f"b{i}.blt", "--duration", "20ms")
        assert done.returncode == 0, (i, done)
        assert it.say(10)
    it.close()


def test_who_cannot_be_entered_for_a_while_can_be_given_up(running, prog, byteledger, tmp_path):
    it = running(prog("injected"), "vforks", "5")
    assert it.say("go") == "now"
    began = time.monotonic()
    recorder = subprocess.Popen([byteledger, "heap", "-p", str(it.pid), "-q", "-o", str(tmp_path / "x.blt")], text=True, stderr=subprocess.PIPE)
    time.sleep(0.3)
    recorder.send_signal(signal.SIGINT)
    said = recorder.communicate(timeout=60)[1]
    assert (recorder.returncode, "interrupted" in said) == (1, True) or time.monotonic() - began > 1.9, said # a busy machine
    assert it.line() == "done"
    it.close()


def test_the_program_ends_while_it_is_recorded(running, prog, byteledger):
    it = running(prog("injected"), "count")
    recorder, path = it.begin()
    told = [int(n) for n in it.say(10).split()]
    it.close()
    _, said = recorder.communicate(timeout=60)
    assert recorder.returncode == 0, said
    assert totals(byteledger, path)["allocations"] == told[0]


def test_children_go_their_way(running, prog, byteledger):
    it = running(prog("injected"), "forks")
    recorder, path = it.begin()
    assert it.say("go") == "done"
    it.end(recorder)
    assert it.say("go") == "done"
    it.close()
    assert totals(byteledger, path, "--min-size", "60", "--max-size", "60")["allocations"] == 1000
    assert totals(byteledger, path, "--min-size", "50", "--max-size", "50")["allocations"] == 0


def test_another_program_ends_the_recording_and_is_named(running, prog, byteledger):
    it = running(prog("injected"), "execs", "/bin/sleep", "2")
    recorder, _ = it.begin()
    it.it.stdin.write("go\n")
    it.it.stdin.flush()
    _, said = recorder.communicate(timeout=60)
    assert "replaced itself by" in said and "sleep" in said
    assert it.it.wait(timeout=60) == 0


def test_execs_at_any_moment(byteledger, prog, tmp_path):
    """A program that becomes another one, again and again: what was meant for one never reaches the next."""
    script = tmp_path / "again.sh"
    script.write_text(f'[ "$1" = 0 ] && exec {prog("injected")} count\nexec /bin/sh {script} $(($1 - 1))\n')
    it = subprocess.Popen(["/bin/sh", script, "600"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    came = 0
    for _ in range(40):
        done = attach(byteledger, it.pid, tmp_path / "e.blt", "--duration", "5ms", "--no-store-symbols")
        assert done.returncode in (0, 1) and "statically" not in done.stderr and "glibc" not in done.stderr, done
        came += done.returncode == 0
        for path in glob.glob(str(tmp_path / "e.blt*")):
            os.unlink(path)
    assert it.stdout.readline() == "ready\n"
    it.stdin.write("5\n")
    it.stdin.flush()
    assert it.stdout.readline().split()[0] == "30"
    it.stdin.close()
    assert it.wait(timeout=60) == 0
    it.stdout.close()
    assert came


def test_the_child_of_a_recorded_process_is_recorded_by_itself(byteledger, installed, running):
    program = "import os, sys\nprint('ready', flush=True)\nsys.stdin.readline()\nchild = os.fork()\n" \
              "if child:\n    print(child, flush=True)\n    sys.exit(os.waitpid(child, 0)[1])\n" \
              "keep = []\nfor line in sys.stdin:\n    keep.extend(bytearray(50_000) for _ in range(int(line)))\n" \
              "    print('done', flush=True)\nos._exit(0)\n"
    it = running(installed("python3"), "-c", program, env={**os.environ, "PYTHONMALLOC": "malloc"})
    recorder, path = it.begin()
    child = int(it.say("fork"))
    parent, it.pid = it.pid, child
    assert data_words(child) # as its parent's were
    own = str(it.folder / "child.blt")
    second = subprocess.Popen([byteledger, "heap", "-p", str(child), "-q", "-o", own], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not os.path.exists(own):
        assert time.monotonic() < deadline and second.poll() is None, second.stderr.read()
        time.sleep(0.01)
    time.sleep(0.5)
    assert it.say("7") == "done"
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=60) == 0, second.stderr.read()
    second.stderr.close()
    assert data_words(child) == 0
    it.pid = parent
    assert it.say("9") == "done"
    it.close()
    assert recorder.wait(timeout=60) == 0
    assert totals(byteledger, own, "--min-size", "50000", "--max-size", "50100")["allocations"] == 7
    assert totals(byteledger, path, "--min-size", "50000", "--max-size", "50100")["allocations"] == 0


def recorded_again(byteledger, tmp_path, argv, word):
    """A program that was started under byteledger and left alone is recorded by its number: (what it answered to @word, that recording)."""
    it = subprocess.Popen([byteledger, "heap", "-q", "--duration", "300ms", "-o", tmp_path / "first.blt", "--", *argv], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert it.stdout.readline() == "ready\n"
    with open(f"/proc/{it.pid}/task/{it.pid}/children", encoding="ascii") as file:
        pid = int(file.read().split()[0])
    assert it.wait(timeout=60) == 0 # the recorder; the program goes on
    path = str(tmp_path / "second.blt")
    second = subprocess.Popen([byteledger, "heap", "-p", str(pid), "-q", "-o", path], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not os.path.exists(path):
        assert time.monotonic() < deadline and second.poll() is None, second.stderr.read()
        time.sleep(0.01)
    time.sleep(0.5)
    it.stdin.write(f"{word}\n")
    it.stdin.flush()
    told = it.stdout.readline()
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=60) == 0, second.stderr.read()
    second.stderr.close()
    it.stdin.close()
    it.stdout.close()
    return told, path


def test_a_preloaded_program_can_be_recorded_again(byteledger, prog, tmp_path):
    told, path = recorded_again(byteledger, tmp_path, [prog("injected"), "count"], 100)
    assert totals(byteledger, path)["allocations"] == int(told.split()[0])


# ---- who is refused ----


def refused(byteledger, pid, tmp_path, word):
    done = attach(byteledger, pid, tmp_path / "no.blt", "--duration", "1s")
    assert done.returncode == 1, done
    assert word in done.stderr, done.stderr
    assert not glob.glob(str(tmp_path / "no.blt*"))


def test_who_is_gone_is_refused(byteledger, tmp_path):
    it = subprocess.Popen(["true"])
    it.wait()
    refused(byteledger, it.pid, tmp_path, "No such process")


def test_a_static_program_is_refused(byteledger, tmp_path):
    (tmp_path / "s.c").write_text("#include <unistd.h>\nint main(void) { pause(); }\n")
    subprocess.run(["cc", "-static", "-o", tmp_path / "s", tmp_path / "s.c"], check=True, timeout=60)
    it = subprocess.Popen([tmp_path / "s"])
    try:
        refused(byteledger, it.pid, tmp_path, "statically linked")
        assert it.poll() is None
    finally:
        it.kill()
        it.wait()


def test_another_c_library_is_refused(byteledger, tmp_path, installed):
    (tmp_path / "s.c").write_text("#include <unistd.h>\nint main(void) { pause(); }\n")
    done = subprocess.run([installed("musl-gcc"), "-o", tmp_path / "s", tmp_path / "s.c"], capture_output=True, timeout=60)
    if done.returncode or not shutil.which("musl-gcc"):
        pytest.skip("musl-gcc does not work here")
    it = subprocess.Popen([tmp_path / "s"])
    try:
        time.sleep(0.2)
        refused(byteledger, it.pid, tmp_path, "not glibc")
        assert it.poll() is None
    finally:
        it.kill()
        it.wait()


def test_who_gained_privileges_is_refused(byteledger, tmp_path, prog):
    if os.geteuid() != 0:
        pytest.skip("only root can make such a program")
    folder = f"/tmp/byteledger-setuid-{os.getpid()}"
    os.mkdir(folder, 0o755)
    try:
        path = os.path.join(folder, "injected")
        shutil.copy(prog("injected"), path)
        os.chown(path, 65534, 65534)
        os.chmod(path, 0o4755)
        it = subprocess.Popen([path, "count"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert it.stdout.readline() == b"ready\n"
        refused(byteledger, it.pid, tmp_path, "other privileges")
        it.stdin.close()
        assert it.wait(timeout=60) == 0
        it.stdout.close()
    finally:
        shutil.rmtree(folder)


def test_another_users_process_is_refused(running, prog, byteledger, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    it = running(prog("injected"), "count")
    done = subprocess.run([byteledger, "heap", "-p", str(it.pid), "-o", "/tmp/%p.blt"], capture_output=True, text=True, timeout=60, user=65534)
    assert done.returncode == 1 and "Permission denied" in done.stderr and "hint: it belongs to user 0" in done.stderr, done
    assert it.say(1)
    it.close()


def test_who_is_recorded_already_is_refused(running, prog, byteledger, tmp_path):
    it = running(prog("injected"), "count")
    recorder, path = it.begin()
    refused(byteledger, it.pid, tmp_path, "recorded already")
    told = [int(n) for n in it.say(10).split()]
    it.end(recorder)
    it.close()
    assert totals(byteledger, path)["allocations"] == told[0]
    it = running(byteledger, "heap", "-q", "-o", str(tmp_path / "own.blt"), "--", prog("injected"), "count")
    with open(f"/proc/{it.pid}/task/{it.pid}/children", encoding="ascii") as file:
        refused(byteledger, file.read().split()[0], tmp_path, "recorded already")
    it.close()


def test_who_is_traced_is_refused(running, prog, byteledger, tmp_path, installed):
    it = running(prog("injected"), "count")
    tracer = subprocess.Popen([installed("strace"), "-p", str(it.pid), "-o", str(tmp_path / "trace")], stderr=subprocess.PIPE, text=True)
    assert "attached" in tracer.stderr.readline()
    refused(byteledger, it.pid, tmp_path, "strace traces it already")
    tracer.terminate()
    tracer.wait()
    tracer.stderr.close()
    assert it.say(10)
    it.close()


def test_who_is_stopped_is_refused(running, prog, byteledger, tmp_path):
    it = running(prog("injected"), "count")
    os.kill(it.pid, signal.SIGSTOP)
    time.sleep(0.1)
    refused(byteledger, it.pid, tmp_path, "it is stopped")
    os.kill(it.pid, signal.SIGCONT)
    assert it.say(10)
    it.close()


def test_who_waits_so_that_nothing_interrupts_it_is_refused_and_not_stopped(running, prog, byteledger, tmp_path):
    it = running(prog("injected"), "vforks", "5")
    assert it.say("go") == "now"
    time.sleep(0.1)
    began = time.monotonic()
    refused(byteledger, it.pid, tmp_path, "vfork")
    assert it.line() == "done"
    assert time.monotonic() - began < 8
    it.close()


def test_nobody_stands_still_until_such_a_thread_can_be_stopped(running, prog, byteledger):
    it = running(prog("injected"), "vforks", "5")
    assert it.say("go") == "now"
    time.sleep(0.1)
    done = subprocess.run([byteledger, "explain", "--freeze", "-p", str(it.pid)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and "vfork" in done.stderr and "without --freeze" in done.stderr, done
    assert it.line() == "done"
    it.close()


def test_children_cannot_be_followed(running, prog, byteledger, tmp_path):
    it = running(prog("injected"), "count")
    done = attach(byteledger, it.pid, tmp_path / "no.blt", "--follow-children")
    assert done.returncode == 1 and "cannot be followed" in done.stderr, done
    it.close()


def test_what_cannot_be_put_back_now_is_put_back_later(running, prog, byteledger):
    it = running(prog("injected"), "vforks", "4")
    recorder, _ = it.begin()
    assert it.say("go") == "now"
    said = it.end(recorder)
    assert "as soon as it can" in said
    assert it.line() == "done"
    deadline = time.monotonic() + 30
    while data_words(it.pid):
        assert time.monotonic() < deadline, "nobody puts it back"
        time.sleep(0.05)
    it.close()
