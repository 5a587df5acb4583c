# SPDX-License-Identifier: Apache-2.0
"""byteledger heap|run around a program: statuses, signals, names, and the ways without a parent."""
import contextlib
import json
import os
import platform
import re
import signal
import struct
import subprocess
import sys
import time

import pytest

from conftest import read_once


def heap(byteledger, *argv, **more):
    return subprocess.run([byteledger, "heap", *argv], capture_output=True, stdin=subprocess.DEVNULL, timeout=60, **more)


def report(byteledger, path):
    out = subprocess.run([byteledger, "report", str(path), "--format", "json"], capture_output=True, timeout=60)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def until(condition, what, seconds=30):
    deadline = time.monotonic() + seconds
    while True:
        outcome = condition()
        if outcome:
            return outcome
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def when_complete(byteledger, path):
    """The report of a recording, once it has its end."""
    def taken():
        whole = report(byteledger, path) if path.exists() and path.stat().st_size else None
        return whole and whole["process"]["complete"] and whole
    return until(taken, path)


def held(byteledger, *argv, **more):
    """`byteledger heap` around a program that lives until its standard input is closed."""
    return subprocess.Popen([byteledger, "heap", *argv], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            **more)


def child_of(pid):
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        return int(f.read().split()[0])


def process_state(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def exec_was_seen(child, successor):
    """The program has become @successor, and its recorder has had the time to look (a second at most between two looks) and looked."""
    def status(pid, key):
        with open(f"/proc/{pid}/status", encoding="ascii") as f:
            return int(next(line for line in f if line.startswith(key)).split()[1])

    def is_successor():
        with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as f:
            program = f.read().split()
        return program and os.path.basename(os.readlink(f"/proc/{program[0]}/exe")).startswith(successor)

    until(is_successor, successor)
    time.sleep(1.1)
    rounds = status(child.pid, "voluntary_ctxt_switches") + 5 # it sleeps once a round
    until(lambda: status(child.pid, "voluntary_ctxt_switches") >= rounds, "the recorder goes round")


@pytest.mark.parametrize("script,status", [("exit 7", 7), ("kill -9 $$", 137), ("kill -TERM $$", 143)])
def test_the_exit_status_is_the_programs(byteledger, tmp_path, script, status):
    assert heap(byteledger, "-q", "-o", str(tmp_path / "a.blt"), "--", "sh", "-c", script).returncode == status


@pytest.mark.parametrize("command", ["run", "heap", "regions"])
def test_the_exit_status_is_the_programs_though_whoever_started_us_ignores_children(byteledger, tmp_path, command):
    def run(*program):
        argv = [byteledger, command, "-q", *(["-o", str(tmp_path / "x.blt")] if command != "regions" else []), "--", *program]
        return subprocess.run(argv, capture_output=True, text=True, timeout=60,
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
    done = run("sh", "-c", "exit 7")
    assert done.returncode == 7, done.stderr
    # the program finds what it would have found without us: bit 16 is SIGCHLD's
    done = run("grep", "SigIgn", "/proc/self/status")
    assert int(done.stdout.split()[1], 16) >> 16 & 1


@pytest.mark.parametrize("program,status", [("/nonexistent", 127), ("/etc/passwd", 126)])
def test_what_cannot_start_leaves_no_file(byteledger, tmp_path, program, status):
    done = heap(byteledger, "-o", str(tmp_path / "a.blt"), "--", program)
    assert done.returncode == status
    assert done.stderr.startswith(b"byteledger: cannot run ")
    assert list(tmp_path.iterdir()) == []


def test_a_program_for_another_c_library_is_refused_instead_of_stopped(byteledger, tmp_path):
    with open("/usr/bin/env", "rb") as f:
        program = f.read()
    glibc, musl = b"/lib64/ld-linux-x86-64.so.2\0", b"/lib/ld-musl-x86_64.so.1\0"
    assert program.count(glibc) == 1
    (tmp_path / "musl").write_bytes(program.replace(glibc, musl.ljust(len(glibc), b"\0")))
    (tmp_path / "musl").chmod(0o755)
    done = heap(byteledger, "-o", str(tmp_path / "a.blt"), "--", str(tmp_path / "musl"))
    assert done.returncode == 1 and done.stdout == b""
    assert b"C library is not glibc" in done.stderr and b"\nhint: " in done.stderr and b"sample" in done.stderr
    assert not (tmp_path / "a.blt").exists()


def test_a_program_with_address_sanitizer_is_refused_instead_of_stopped(byteledger, tmp_path):
    (tmp_path / "s.c").write_text('#include <stdio.h>\nint main(void) { return puts("runs") < 0; }\n')
    subprocess.run(["gcc", "-fsanitize=address", "-o", str(tmp_path / "s"), str(tmp_path / "s.c")], check=True)
    done = heap(byteledger, "-o", str(tmp_path / "a.blt"), "--", str(tmp_path / "s"))
    assert done.returncode == 1 and done.stdout == b""
    assert done.stderr.startswith(b"byteledger: cannot trace ") and b"AddressSanitizer" in done.stderr and b"\nhint: " in done.stderr
    assert not (tmp_path / "a.blt").exists()


def test_a_static_program_is_refused_with_a_hint(byteledger, tmp_path):
    (tmp_path / "s.c").write_text("int main(void) { return 0; }\n")
    subprocess.run(["gcc", "-static", "-o", str(tmp_path / "s"), str(tmp_path / "s.c")], check=True)
    done = heap(byteledger, "-o", str(tmp_path / "a.blt"), "--", str(tmp_path / "s"))
    assert done.returncode == 1
    assert b"statically linked" in done.stderr and b"\nhint: " in done.stderr and b"sample" in done.stderr
    assert not (tmp_path / "a.blt").exists()


def test_a_file_that_cannot_be_made_keeps_the_program_from_starting(byteledger, tmp_path):
    done = heap(byteledger, "-o", str(tmp_path / "no" / "a.blt"), "--", "sh", "-c", "echo out; exit 5")
    assert done.returncode == 1 and done.stdout == b""
    assert done.stderr.startswith(b"byteledger: cannot create ") and b"was not started" in done.stderr


def test_a_program_that_replaces_itself_is_one_line(byteledger, tmp_path):
    child = held(byteledger, "-o", str(tmp_path / "a.blt"), "--", "bash", "-c", "exec cat")
    exec_was_seen(child, "cat")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0 and os.listdir(tmp_path) == ["a.blt"]
    assert report(byteledger, str(tmp_path / "a.blt"))["process"]["exe"].endswith("/cat")
    lines = err.decode().splitlines()
    assert lines[-2].startswith("byteledger: recorded into ")
    assert lines[-1] == "byteledger: before it, in the same process and not recorded further: bash"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_followed_successor_is_no_trouble_to_quiet_runs(byteledger, tmp_path, quiet):
    flags = ["-q"] if quiet else []
    child = held(byteledger, *flags, "--follow-children", "-o", str(tmp_path / "%p.%e.blt"), "--", "bash", "-c", "exec cat")
    exec_was_seen(child, "cat")
    _, err = child.communicate(timeout=60)
    told = b"/cat, which is followed" in err
    assert child.returncode == 0 and (err == b"" if quiet else told)
    assert len(list(tmp_path.glob("*.blt"))) == 2


def test_a_successor_that_cannot_be_followed_is_told_even_quietly(byteledger, tmp_path):
    child = held(byteledger, "-q", "--follow-children", "-o", str(tmp_path / "%e.blt"), "--", "env", "-i", "/bin/cat")
    exec_was_seen(child, "cat")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0 and os.listdir(tmp_path) == ["env.blt"]
    told, hint = err.decode().splitlines()
    assert "replaced itself by" in told and "/cat, which was started without the recording library" in told
    assert hint.startswith("hint: ") and "env -i" in hint


def test_an_exec_past_the_c_library_ends_the_recording_too(byteledger, prog, tmp_path):
    path = tmp_path / "a.blt"
    reads, writes = os.pipe()
    successor = ["/usr/bin/perl", "-e", "my $x = 'x' x 120_000_000; <STDIN>; print length $x"]
    child = held(byteledger, "-q", "-o", str(path), "--", prog("rawexec"), "instruction", *successor, pass_fds=[8],
                 preexec_fn=lambda: os.dup2(reads, 8))
    os.close(reads)
    # the recorder's first point on the curve is flushed with the first block
    until(lambda: curve(byteledger, path), "a point on the curve")
    os.close(writes)
    exec_was_seen(child, "perl")
    out, err = child.communicate(timeout=60)
    assert (child.returncode, out) == (0, b"120000000")
    assert b"replaced itself by" in err and b"/perl" in err
    taken = report(byteledger, path)
    assert taken["process"]["complete"] and taken["totals"]["peak_rss_bytes"] < 100 << 20
    assert all(e["rss_bytes"] < 100 << 20 for e in curve(byteledger, path))


def curve(byteledger, path):
    done = subprocess.run([byteledger, "export", "--to", "jsonl", str(path)], capture_output=True, timeout=60)
    return [e for e in map(json.loads, done.stdout.splitlines()) if e.get("event") == "rss"]


def test_a_followed_successor_has_its_own_recording_and_the_first_ends_at_the_exec(byteledger, tmp_path):
    child = held(byteledger, "--follow-children", "-o", str(tmp_path / "%e"), "--", "bash", "-c", "exec cat")
    exec_was_seen(child, "cat")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0
    first = when_complete(byteledger, tmp_path / "bash")["process"]
    assert b"which is followed" in err and b"hint: " not in err
    second = when_complete(byteledger, tmp_path / "cat")["process"]
    assert first["pid"] == second["pid"] and second["complete"]
    first_end, second_end = (p["start_realtime_ns"] + p["runtime_ns"] for p in (first, second))
    assert first_end < second_end


def test_a_followed_successor_without_a_file_is_not_said_to_have_one(byteledger, tmp_path):
    (tmp_path / "bash").mkdir()
    child = held(byteledger, "--follow-children", "-o", str(tmp_path / "%e/r.blt"), "--", "bash", "-c", "exec cat")
    exec_was_seen(child, "cat")
    _, err = child.communicate(timeout=60)
    assert (child.returncode, os.listdir(tmp_path)) == (0, ["bash"])
    assert f"cannot create '{tmp_path}/cat/r.blt'".encode() in err
    assert re.search(rb"\nhint: process \d+ goes on, unrecorded\n", err)
    assert b"which is followed: it gets a recording of its own, or a line that says why not" in err


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_child_that_may_not_write_there_is_told_with_its_user(byteledger, tmp_path):
    code = "import os; os.setuid(65534); child = os.fork(); child and os.waitpid(child, 0)"
    done = subprocess.run([byteledger, "heap", "-q", "--follow-children", "-o", str(tmp_path / "%p.blt"), "--", sys.executable, "-c", code],
                          capture_output=True, timeout=60)
    assert done.returncode == 0 and len(os.listdir(tmp_path)) == 1
    told, hint = done.stderr.decode().splitlines()
    assert told.startswith(f"byteledger: cannot create '{tmp_path}/") and told.endswith(": Permission denied")
    assert re.fullmatch(r"hint: process \d+ goes on, unrecorded; its recorder runs as its user, 65534, who .*", hint)


def test_under_valgrind_we_stay_there(byteledger, installed, tmp_path):
    out = tmp_path / "callgrind.out"
    subprocess.run([installed("valgrind"), "-q", "--tool=callgrind", f"--callgrind-out-file={out}", byteledger, "run", "-q",
                    "-o", str(tmp_path / "r.blt"), "--", "/bin/true"], check=True, capture_output=True, timeout=100)
    assert "totals:" in out.read_text() # written at its end


def test_a_program_finds_nothing_of_ours_in_its_environment(byteledger, tmp_path):
    options = ["--free-stacks", "--time-resolution", "1us", "--budget", "40", "--on-full", "limit"]
    bare = subprocess.run(["/usr/bin/env"], capture_output=True, check=True).stdout
    done = heap(byteledger, "-q", *options, "-o", str(tmp_path / "a.blt"), "--", "/usr/bin/env")
    assert done.stdout == bare
    assert report(byteledger, tmp_path / "a.blt")["process"]["time_bound_ns"] == 1000


@pytest.mark.parametrize("preloads", [False, True], ids=["", "preloads"])
def test_every_way_of_reading_arguments_environment_and_auxv_finds_what_was_there(byteledger, prog, tmp_path, preloads):
    env = {"PATH": "/usr/bin", "A": "1", "LD_PRELOAD": "libm.so.6", "B": "2"} if preloads else {"A": "1", "B": "2"}
    argv = [prog("readall"), "one", ""]
    bare = subprocess.run(argv, capture_output=True, check=True, env=env).stdout
    assert b"missing" not in bare and b"differs" not in bare
    done = subprocess.run([byteledger, "heap", "-q", "-o", str(tmp_path / "a.blt"), "--", *argv], capture_output=True, env=env,
                          timeout=60)
    assert done.stdout.decode().splitlines() == bare.decode().splitlines()
    assert done.returncode == 0 and report(byteledger, tmp_path / "a.blt")["totals"]["allocations"] > 0


@pytest.mark.parametrize("children", ["0", "1"])
def test_with_the_library_alone_the_auxiliary_vector_stays_behind_the_environment(preload, prog, tmp_path, children):
    env = {"A": "1", "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "a.blt"),
           "BYTELEDGER_TRACK_CHILD_PROCESSES": children, "B": "2"}
    done = subprocess.run([prog("readall"), "one"], capture_output=True, env=env, timeout=60)
    said = done.stdout.decode()
    assert done.returncode == 0 and "missing" not in said and "differs" not in said, said
    # of an odd number of places one variable stays, empty: what is started from here is not traced
    expected = {f"{k}={v}" for k, v in env.items() if k != "LD_PRELOAD"} | {f"LD_PRELOAD={preload if children == '1' else ''}"}
    for way in ("environ", "envp", "behind argv", "constructor", "/proc/self/environ"):
        if way.startswith("/proc"): # the kernel's own is what the program was given
            expected = {f"{k}={v}" for k, v in env.items()}
        assert {line.split(" ", len(way.split()))[-1] for line in said.splitlines() if line.startswith(way + " ")} == expected, way


def test_followed_children_are_recorded_as_their_parent_is(byteledger, tmp_path):
    options = ["--follow-children", "--free-stacks", "--time-resolution", "1us", "--budget", "40", "-o", str(tmp_path / "%e")]
    done = heap(byteledger, "-q", *options, "--", "bash", "-c", "perl -e '1'; true")
    assert done.returncode == 0
    child = when_complete(byteledger, tmp_path / "perl") # its recorder finishes after it
    parent = report(byteledger, tmp_path / "bash")
    assert child["process"]["time_bound_ns"] == parent["process"]["time_bound_ns"] == 1000


def header_at(pid):
    """Where the library in @pid has what it shares with its recorder; None: nothing yet."""
    with open(f"/proc/{pid}/maps", encoding="ascii") as f:
        return next((int(line.split("-")[0], 16) for line in f if "/memfd:byteledger" in line and line.split()[2] == "00000000"), None)


def shared_header(pid):
    """The first 96 bytes of it, as wire/heap.h lays them out; None: nothing yet."""
    at = header_at(pid)
    if at is None:
        return None
    with open(f"/proc/{pid}/mem", "rb") as f:
        f.seek(at)
        return f.read(96)


def header_word(pid, offset, value=None):
    """A 32-bit word of it, read or written; None: nothing yet."""
    at = header_at(pid)
    if at is None:
        return None
    with open(f"/proc/{pid}/mem", "r+b", buffering=0) as f:
        f.seek(at + offset)
        return struct.unpack("I", f.read(4))[0] if value is None else f.write(struct.pack("I", value))


def test_a_program_that_takes_its_time_to_end_does_not_keep_the_recorder_busy(byteledger, tmp_path):
    path = tmp_path / "cat.blt"
    child = held(byteledger, "-q", "-o", path, "--", "cat")
    attached, exiting = 268, 276  # of struct wire_heap_header

    def hooked():
        with contextlib.suppress(OSError, IndexError):
            return header_word(child_of(child.pid), attached)
    until(hooked, "the library")
    cat = child_of(child.pid)
    header_word(cat, exiting, 1)

    def ticks():
        with open(f"/proc/{child.pid}/stat", encoding="ascii") as f:
            return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))
    before = ticks()
    time.sleep(1.5)
    assert ticks() - before < os.sysconf("SC_CLK_TCK") / 4
    assert header_word(cat, exiting) == 1
    child.communicate(timeout=60)
    assert child.returncode == 0 and report(byteledger, path)["process"]["complete"]


@pytest.mark.parametrize("policy,number", [(None, 0), ("drop", 2)])
def test_followed_children_share_memory_as_their_parent_does(byteledger, tmp_path, policy, number):
    options = ["--follow-children", "--free-stacks", "--time-resolution", "1us", "--budget", "40", "-o", str(tmp_path / "%e")]
    child = held(byteledger, "-q", *options, *(["--on-full", policy] if policy else []), "--", "bash", "-c", "cat; true")

    def child_of(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
            return next(iter(f.read().split()), None)

    def reads_its_input(pid):
        with open(f"/proc/{pid}/syscall", encoding="ascii") as f: # number and arguments
            return f.read().split()[:2] == [{"x86_64": "0", "aarch64": "63"}[platform.machine()], "0x0"]

    def header_of_cat():
        cat = child_of(bash)
        with contextlib.suppress(OSError): # before it is at work its header is only begun
            return cat and os.readlink(f"/proc/{cat}/exe").endswith("/cat") and reads_its_input(cat) and shared_header(cat)

    bash = until(lambda: child_of(child.pid), "bash")
    of_cat, of_bash = until(header_of_cat, "cat"), shared_header(bash)
    child.communicate(timeout=60)
    assert child.returncode == 0
    assert of_cat[8:] == of_bash[8:]
    on_full, free_stacks, stamp_every_event = struct.unpack("3I", of_cat[84:])
    assert (on_full, free_stacks, stamp_every_event) == (number, 1, 1)


def heed_sigint():
    """A shell without job control starts what it puts behind & with SIGINT ignored, and the check may run there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_ctrl_c_ends_a_recording_that_is_complete_but_a_fatal_signal_does_not(byteledger, tmp_path):
    for group, complete in ((True, True), (False, False)):
        path = tmp_path / f"{group}.blt"
        script = "$| = 1; print qq($$\\n); sleep 60"
        done = subprocess.Popen([byteledger, "heap", "-q", "-o", str(path), "--", "perl", "-e", script],
                                stdout=subprocess.PIPE, start_new_session=True, preexec_fn=heed_sigint)
        pid = int(done.stdout.readline())
        if group:  # as the terminal does it
            os.killpg(done.pid, signal.SIGINT)
        else:
            os.kill(pid, signal.SIGINT)
        assert done.wait(60) == 128 + signal.SIGINT
        assert report(byteledger, path)["process"]["complete"] is complete


def test_a_script_without_an_interpreter_is_the_shells(byteledger, tmp_path):
    script, data = tmp_path / "script", tmp_path / "data"
    script.write_text('echo "$0 $1 $2"; exit 3\n')
    data.write_bytes(b"neither\0text nor a program\n")
    for file in (script, data):
        file.chmod(0o755)
    done = heap(byteledger, "-q", "-o", str(tmp_path / "a.blt"), "--", str(script), "a b", "c")
    assert (done.returncode, done.stdout) == (3, f"{script} a b c\n".encode())
    taken = report(byteledger, tmp_path / "a.blt")["process"]
    assert taken["cmdline"] == ["/bin/sh", str(script), "a b", "c"] and taken["complete"]
    done = heap(byteledger, "-q", "-o", str(tmp_path / "b.blt"), "--", str(data))
    assert done.returncode == 126 and b"Exec format error" in done.stderr and not (tmp_path / "b.blt").exists()


@pytest.mark.parametrize("line", ["/usr/bin/env perl", "/usr/bin/env -S perl -w", "/usr/bin/env -Sperl"])
def test_a_script_is_recorded_through_its_interpreter(byteledger, tmp_path, line):
    script = tmp_path / "script"
    script.write_text(f'#!{line}\nprint "hi $0 @ARGV $^W\\n"; exit 3\n')
    script.chmod(0o755)
    bare = subprocess.run([str(script), "a b"], capture_output=True, check=False)
    done = heap(byteledger, "-q", "-o", str(tmp_path / "a.blt"), "--", str(script), "a b")
    assert (done.returncode, done.stdout, done.stderr) == (3, bare.stdout, bare.stderr) and b"a b" in done.stdout
    taken = report(byteledger, tmp_path / "a.blt")
    assert taken["process"]["exe"].endswith("perl") and taken["totals"]["allocations"] > 100


def test_sigterm_is_forwarded_and_sigint_is_the_programs(byteledger, tmp_path):
    for number, status in ((signal.SIGTERM, 143), (signal.SIGINT, 0)):
        path = tmp_path / f"{number}.blt"
        child = held(byteledger, "-q", "-o", str(path), "--", "perl", "-e", "$| = 1; print 'here'; <STDIN>", preexec_fn=heed_sigint)
        assert child.stdout.read(4) == b"here"
        child.send_signal(number)
        if number == signal.SIGTERM: # it ends by the signal alone
            child.wait(timeout=60)
        child.communicate(timeout=60)
        assert child.returncode == status
        assert report(byteledger, path)["process"]["complete"] is (status == 0)


@pytest.mark.parametrize("command", ["heap", "regions"])
def test_a_program_ends_and_is_told_to_where_pidfd_open_is_refused(byteledger, prog, tmp_path, command):
    path = tmp_path / "a.blt"
    options = ["-o", str(path)] if command == "heap" else []
    for number in (None, signal.SIGTERM, signal.SIGHUP):
        child = subprocess.Popen([prog("nopidfd"), byteledger, command, "-q", *options, "--", "perl", "-e",
                                  "$SIG{TERM} = $SIG{HUP} = sub { exit 9 }; $| = 1; print 'here'; kill STOP, $$; "
                                  # a signal that comes just before a wait is heeded behind it
                                  "1 until select(my $r = chr(1), undef, undef, 0.05); exit 5"],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert child.stdout.read(4) == b"here"
        pid = child_of(child.pid)
        until(lambda: process_state(pid) == "T", "stopped")  # which is no end
        os.kill(pid, signal.SIGCONT)
        if number:
            child.send_signal(number)
            child.wait(timeout=60)
        _, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (9 if number else 5, b"")
        if command == "heap":
            assert report(byteledger, path)["process"]["complete"] is True
            path.unlink()


@pytest.mark.parametrize("own", [True, False], ids=["started", "running"])
def test_regions_tell_the_last_of_a_process_where_pidfd_open_is_refused(byteledger, prog, own):
    program = ["perl", "-e", "$x = 'x' x 32e6; $| = 1; print 'here'; <STDIN>; exit 5"]
    command = [prog("nopidfd"), byteledger, "regions", "--format", "json"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen([*command, "--", *program] if own else program, **pipes)
    assert child.stdout.read(4) == b"here"
    pid = child_of(child.pid) if own else child.pid
    looker = child if own else subprocess.Popen([*command, "-p", str(pid), "--duration", "1h"], **pipes)
    read_once(looker.pid, pid)
    out, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (5, b"")
    if not own:
        out, err = looker.communicate(timeout=60)
        assert (looker.returncode, err) == (0, b"")
    told = json.loads(out)
    assert told["pid"] == pid and told["rss_bytes"] > 32e6


def test_a_device_is_no_place_for_a_recording(byteledger, tmp_path):
    """Refused before the program starts, as whatever cannot be written; a folder takes it in: test_answers."""
    os.mkfifo(tmp_path / "fifo")
    for name in ("/dev/null", str(tmp_path / "fifo")):
        done = subprocess.run([byteledger, "run", "-q", "-o", name, "--", "echo", "there"], capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout) == (1, "")
        assert f"cannot create a recording like '{name}', which is no file" in done.stderr
    assert os.listdir(tmp_path) == ["fifo"] and not os.path.exists("/dev/null.1")


def test_a_file_is_never_overwritten_and_patterns_are_filled_in(byteledger, tmp_path):
    (tmp_path / "a.blt").write_bytes(b"precious")
    assert heap(byteledger, "-q", "-o", "a.blt", "--", "true", cwd=tmp_path).returncode == 0
    assert (tmp_path / "a.blt").read_bytes() == b"precious"
    assert report(byteledger, tmp_path / "a.blt.1")["process"]["complete"] is True
    assert (tmp_path / "a.blt.1").stat().st_mode & 0o777 == 0o600
    assert heap(byteledger, "-q", "-o", "%e-%%-%n.blt", "--", "true", cwd=tmp_path).returncode == 0
    assert (tmp_path / "true-%-0.blt").exists()
    assert heap(byteledger, "-q", "-o", "100%done-%q%", "--", "true", cwd=tmp_path).returncode == 0
    assert (tmp_path / "100%done-%q%").exists()


@pytest.mark.parametrize("words", [["heap", "-o", "-", "--", "echo", "there"], ["run", "-o", "-", "--", "echo", "there"],
                                   ["import", "-o", "-", "/dev/null"]])
def test_a_recording_does_not_go_to_stdout(byteledger, tmp_path, words):
    done = subprocess.run([byteledger, *words], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert (done.returncode, done.stdout, os.listdir(tmp_path)) == (2, "", [])
    assert done.stderr.startswith("byteledger: a recording needs a file"), done.stderr


def test_at_the_end_of_the_duration_the_program_goes_on(byteledger, tmp_path):
    child = held(byteledger, "-q", "--duration", "500ms", "-o", str(tmp_path / "a.blt"), "--",
                 "sh", "-c", f"exec >/dev/null 2>&1; read line; echo $line >'{tmp_path}/late'")
    assert child.wait(timeout=60) == 0 # while the program waits for its line
    taken = report(byteledger, tmp_path / "a.blt")["process"]
    assert taken["complete"] is True and taken["runtime_ns"] >= 500_000_000
    child.communicate(b"words\n", timeout=60)
    until(lambda: (tmp_path / "late").exists() and (tmp_path / "late").read_bytes() == b"words\n", "the program's last word")


def test_results_go_to_stderr_unless_a_format_was_asked_for(byteledger, tmp_path):
    done = heap(byteledger, "-o", str(tmp_path / "a.blt"), "--", "echo", "out")
    assert done.stdout == b"out\n" and b"llocations" in done.stderr
    done = heap(byteledger, "--format", "json", "-o", str(tmp_path / "b.blt"), "--", "perl", "-e", "1")
    told = json.loads(done.stdout)
    assert told == report(byteledger, tmp_path / "b.blt") and told["totals"]["allocations"] > 100
    done = heap(byteledger, "-q", "-o", str(tmp_path / "c.blt"), "--", "true")
    assert (done.stdout, done.stderr) == (b"", b"")


def test_the_library_alone_starts_its_recorder(byteledger, preload, tmp_path):
    path = tmp_path / "d.blt"
    env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(path)}
    subprocess.run(["perl", "-e", "print 1"], env=env, check=True, capture_output=True, timeout=60)
    taken = when_complete(byteledger, path) # the recorder finishes after the program
    assert taken["totals"]["allocations"] > 100 and taken["lost"]["events"] == 0
    assert taken["process"]["cmdline"] == ["perl", "-e", "print 1"]


def test_arguments_of_programs_that_end_at_once_are_known(byteledger, preload, tmp_path):
    """The recorder is held back until the program has ended, and its parent has asked for its status."""
    helper = tmp_path / "late"
    helper.write_text(f'#!/bin/sh\nread -r _ < "{tmp_path}/go"\nexec "{byteledger}" "$@"\n')
    helper.chmod(0o755)
    os.mkfifo(tmp_path / "go")
    argv = ["true", "a b", "", "x" * 5000]
    env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "t.blt"), "BYTELEDGER_HELPER": str(helper)}
    subprocess.run(argv, env=env, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, timeout=60)
    (tmp_path / "go").write_text("\n")
    assert when_complete(byteledger, tmp_path / "t.blt")["process"]["cmdline"] == argv


def test_without_any_recorder_a_raw_file_holds_the_same(byteledger, preload, prog, tmp_path):
    env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "r.blt"),
           "BYTELEDGER_HELPER": "/nonexistent"}
    argv = [prog("temporaries"), "1000"]
    subprocess.run(argv, env=env, check=True, capture_output=True, timeout=60)
    subprocess.run(["true"], env={**env, "BYTELEDGER_OUTPUT": str(tmp_path / "100%done-%e%q%")}, check=True, timeout=60)
    assert (tmp_path / "100%done-true%q%.raw").exists()
    raw = report(byteledger, tmp_path / "r.blt.raw")
    heap(byteledger, "-q", "-o", str(tmp_path / "h.blt"), "--", *argv)
    recorded = report(byteledger, tmp_path / "h.blt")
    assert raw["process"]["complete"] is True
    assert raw["process"]["cmdline"] == recorded["process"]["cmdline"] == argv
    for taken in (raw, recorded):
        assert taken["lost"]["events"] == 0 and taken["totals"]["allocations"] >= 1000
        for measured in ("peak_time_ns", "peak_rss_bytes"):
            del taken["totals"][measured]
    assert raw["totals"] == recorded["totals"]
    assert raw["rows"] == recorded["rows"]


@pytest.mark.parametrize("asked", ["whole", "relative", "script"])
def test_a_raw_file_knows_its_program_where_nothing_is_at_proc(byteledger, preload, prog, tmp_path, asked):
    """In a root of its own, as a container's or a build's, /proc often is an empty folder."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0:
        pytest.skip("no mount namespace of our own")
    program = prog("temporaries")
    script = tmp_path / "script"
    script.write_text(f"#! {program} 1000\n")
    script.chmod(0o755)
    argv = [{"whole": program, "relative": "./" + os.path.basename(program), "script": str(script)}[asked]]
    argv += [] if asked == "script" else ["1000", "a word"]
    done = subprocess.run(["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /proc && exec env LD_PRELOAD="$0" "$@"', preload, *argv],
                          env={**os.environ, "BYTELEDGER_OUTPUT": str(tmp_path / "r-%e.blt"), "BYTELEDGER_HELPER": "/nonexistent"},
                          cwd=os.path.dirname(program), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    path = tmp_path / "r-temporaries.blt.raw"
    taken = report(byteledger, path)
    assert taken["process"]["exe"] == program
    assert taken["process"]["cmdline"] == ([program, "1000", str(script)] if asked == "script" else argv)
    assert taken["totals"]["allocations"] >= 1000
    assert {row["frames"][-1]["function"] for row in taken["rows"]} & {"main", "_start"}, taken["rows"]
    shown = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=60).stdout
    assert shown.startswith(" ".join(taken["process"]["cmdline"][:2])), shown


def test_a_raw_file_knows_its_times_its_program_and_its_length(byteledger, preload, tmp_path):
    env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": str(tmp_path / "r.blt"),
           "BYTELEDGER_HELPER": "/nonexistent"}
    script = "my $n = 100000; my $a = 'x' x (3 * $n); select(undef, undef, undef, 0.3); my $b = 'y' x (7 * $n); " \
             "select(undef, undef, undef, 0.2)"
    before = time.time()
    subprocess.run(["perl", "-e", script], env=env, check=True, capture_output=True, timeout=60)
    raw = report(byteledger, tmp_path / "r.blt.raw")
    assert os.path.basename(raw["process"]["exe"]).startswith("perl")
    out = str(tmp_path / "imported.blt")
    assert subprocess.run([byteledger, "import", str(tmp_path / "r.blt.raw"), "-o", out]).returncode == 0
    assert report(byteledger, out)["totals"] == raw["totals"]
    done = subprocess.run([byteledger, "info", "--format", "json", str(tmp_path / "r.blt.raw")], capture_output=True)
    info = json.loads(done.stdout)
    assert info["file"]["format"] == "raw" and info["events"]["allocations"] == raw["totals"]["allocations"]
    assert info["process"]["runtime_ns"] == raw["process"]["runtime_ns"]
    done = subprocess.run([byteledger, "export", str(tmp_path / "r.blt.raw"), "--to", "jsonl"], capture_output=True,
                          check=True, timeout=60)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    first, second = ([e["time_ns"] for e in lines if e["event"] == "alloc" and e["bytes"] // 100000 == n][-1]
                     for n in (3, 7))
    assert second - first >= 299_000_000 # each is exact to a millisecond
    assert raw["process"]["runtime_ns"] - second >= 199_000_000
    assert before - 1 <= lines[0]["start_realtime_ns"] / 1e9 <= time.time()


def test_what_other_threads_allocate_during_the_start_is_counted_as_lost(record, prog):
    done = record(["/bin/true"], env={"LD_PRELOAD": prog("liblatestart.so")})
    whole = done.report()
    assert whole["lost"]["by_reason"] == {"before_start": 2000} and whole["lost"]["bytes"] == 10000
    assert whole["totals"]["uncertain_allocations"] == 0


def test_a_first_allocation_under_a_lock_of_libc_is_survived(record, prog):
    # as of libgpg-error and p11-kit: gpg and curl hung
    done = record(["/bin/true"], env={"LD_PRELOAD": prog("libearlytext.so")}, timeout=30)
    assert done.returncode == 0
    assert done.stderr.decode().splitlines()[0] == "dlerror: nothing"
    assert done.report()["process"]["complete"]


def test_the_curve_of_a_short_program_ends_with_its_size_at_exit(record, byteledger):
    done = record(["/bin/true"])
    peak = done.report()["totals"]["peak_rss_bytes"]
    lines = subprocess.run([byteledger, "export", "--to", "jsonl", done.path], capture_output=True, check=True).stdout.splitlines()
    sizes = [e for e in map(json.loads, lines) if e["event"] == "rss"]
    assert peak > 0 and sizes[-1]["rss_bytes"] > peak / 2
    assert all(e["rss_bytes"] > peak / 4 for e in sizes) # none of what was there before the program


def test_the_size_of_a_program_that_outlives_its_main_thread_is_known(record, byteledger, prog):
    done = record([prog("outlived"), "24"], stdin=b"x")
    assert done.returncode == 3 and done.stdout.endswith(b"alone\n")
    assert done.report()["totals"]["peak_rss_bytes"] > 24 << 20
    lines = subprocess.run([byteledger, "export", "--to", "jsonl", done.path], capture_output=True, check=True).stdout.splitlines()
    assert max(e["rss_bytes"] for e in map(json.loads, lines) if e["event"] == "rss") > 24 << 20


def test_a_recording_that_goes_on_is_told_from_one_whose_recorder_died(byteledger, tmp_path):
    path = str(tmp_path / "x.blt")

    def asked(command):
        done = subprocess.run([byteledger, command, "--format", "json", path], capture_output=True, text=True, timeout=60)
        return (json.loads(done.stdout), done.stderr) if done.returncode == 0 else ({}, done.stderr)

    with subprocess.Popen([byteledger, "run", "-q", "-o", path, "--", "cat"], stdin=subprocess.PIPE) as recorder:
        until(lambda: asked("info")[0].get("events", {}).get("allocations", 0) > 0, "a first block")
        assert asked("info")[0]["file"]["being_written"] is True
        told, beside = asked("report")
        assert told["process"]["complete"] is False and told["lost"] == {"events": 0, "bytes": 0, "by_reason": {}}
        assert "is still being recorded" in beside
        recorder.kill()
        recorder.wait()
        recorder.stdin.close()
    assert asked("info")[0]["file"]["being_written"] is False
    told, beside = asked("report")
    assert told["lost"]["by_reason"] == {"recorder_died": 0} and "still" not in beside


def test_no_variable_of_the_older_tool_is_passed_over_in_silence(preload, tmp_path):
    nothing = "USE_SHADOW_STACK BACKTRACE_CACHE_SIZE_LEVEL_1 BACKTRACE_CACHE_SIZE_LEVEL_2 USE_PERF_EVENT_OPEN " \
              "EMIT_PARTIAL_BACKTRACES DISABLE_PR_SET_VMA_ANON_NAME GATHER_MAPS GATHER_MMAP_CALLS " \
              "BASE_SERVER_PORT".split()
    absent = "ENABLE_SERVER ENABLE_BROADCAST SEND".split()
    env = {**os.environ, "LD_PRELOAD": preload, "MEMORY_PROFILER_OUTPUT": str(tmp_path / "a.blt"),
           "MEMORY_PROFILER_LOG": "info", **{f"MEMORY_PROFILER_{name}": "1" for name in nothing + absent}}
    done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    for name in nothing:
        assert any(f" INF {name} is accepted without effect" in line for line in lines), name
    for name in absent:
        assert any(f" WRN {name} is not supported" in line for line in lines), name


def test_a_program_without_any_allocation_seen_is_said_to_be_one(byteledger, prog, tmp_path, monkeypatch):
    # whether it made none, or none that reached us, is not known: neither is said alone
    monkeypatch.setenv("BYTELEDGER_OWN_ALLOCATORS", "0")
    for name, program in (("a", prog("ownmalloc")), ("t", "/bin/true")):
        path = str(tmp_path / f"{name}.blt")
        done = heap(byteledger, "-o", path, "--", program)
        assert done.returncode == 0
        told = " ".join(done.stderr.decode().split())  # once: the report says it
        assert told.count("the program made none, or by an allocator that it brings inside itself") == 1
        assert "no allocation of" not in told
        report = subprocess.run([byteledger, "report", path], capture_output=True, text=True)
        assert report.returncode == 0 and "peak" not in report.stdout.replace("at its peak", "")  # that of its mappings
        assert "the program made none, or by an allocator that it brings inside itself" in " ".join(report.stdout.split())
    assert b"no allocation" not in heap(byteledger, "-o", str(tmp_path / "b.blt"), "--", "bash", "-c", "true").stderr
