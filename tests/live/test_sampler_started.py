# SPDX-License-Identifier: Apache-2.0
"""`byteledger sample -- PROGRAM`: probes are in before it begins, however short it lives."""
import json
import shutil
import subprocess
import sys

import pytest

import test_sampler
from test_sampler import by_way

pytestmark = test_sampler.pytestmark


@pytest.mark.parametrize("argv,status", [(("true",), 0), (("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -TERM $$"), 143)],
                         ids=["true", "7", "killed"])
def test_a_program_of_milliseconds_is_sampled_and_its_status_handed_on(byteledger, argv, status):
    """It used to be gone before its code was looked at: 'process N has no code', each time."""
    done = subprocess.run([byteledger, "sample", "--", *argv], capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done
    assert "sampling 1 process" in done.stderr and "has no code" not in done.stderr, done.stderr


def test_all_that_a_program_of_milliseconds_asks_for_is_seen(byteledger, prog, tmp_path):
    """Its first call is behind a probe. What it writes itself stands before the report."""
    line = tmp_path / "go"
    line.write_text("go\n")
    with open(line, encoding="utf-8") as go:
        done = subprocess.run([byteledger, "sample", "--budget", "0", "--all", "--format", "json", "--", prog("asked"), "3", "1"], stdin=go,
                              capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done
    own, _, report = done.stdout.partition("done\n")
    truth = {name: list(map(int, numbers)) for name, *numbers in map(str.split, own.splitlines())}
    found = by_way(json.loads(report)["processes"][0])
    assert len(truth) > 5
    for way, (count, size, _) in truth.items():
        assert found.get(way, [0])[:2] == [count, size], (way, truth[way], found.get(way))


HELLO_32 = """
.globl _start
_start:
    movl $1, %eax
    movl $5, %ebx
    int $0x80
"""
LOOP_32 = ".globl _start\n_start:\n    jmp _start\n"



def test_what_a_started_program_begins_with_is_seen_whole_within_the_budget(byteledger, prog):
    """8,041 calls, of some milliseconds of probes. The purse held what 0.6 s earn, and probes were out after a window of five."""
    done = subprocess.run([byteledger, "sample", "--format", "json", "--", prog("temporaries"), "4000"], capture_output=True, text=True, timeout=60)
    process = json.loads(done.stdout.partition("\n")[2])["processes"][0]
    assert process["cost"]["duty"] == 1 and process["cost"]["hits"] >= 8041, process["cost"]
    assert abs(process["estimated_allocations"] - process["cost"]["hits"]) < 5 * process["error_allocations"], process


def test_a_program_of_a_second_is_seen_whole(byteledger, prog):
    """300,041 calls. Some 20,000 were seen, and the rest told to be a tenth of what it was, 5 to 140 errors off."""
    done = subprocess.run([byteledger, "sample", "--format", "json", "--", prog("temporaries"), "150000"], capture_output=True, text=True, timeout=120)
    process = json.loads(done.stdout.partition("\n")[2])["processes"][0]
    assert process["cost"]["duty"] == 1 and process["cost"]["hits"] >= 300041, process["cost"]
    assert process["cost"]["given_ns"] == 1e9 and process["cost"]["budget"] == 0.05, process["cost"]
    assert abs(process["estimated_allocations"] - process["cost"]["hits"]) < 5 * process["error_allocations"] < 1e5, process


@pytest.mark.parametrize("times", [150000, 3000000], ids=["short", "longer"])
def test_what_was_hardly_looked_into_is_told_to_be_anything(byteledger, prog, times):
    """Within a budget that is asked for: at least what was seen, and an error that reaches what it may be."""
    done = subprocess.run([byteledger, "sample", "--budget", "1", "--format", "json", "--", prog("temporaries"), str(times)], capture_output=True,
                          text=True, timeout=120)
    process = json.loads(done.stdout.partition("\n")[2])["processes"][0]
    assert process["cost"]["duty"] < 1 and "given_ns" not in process["cost"], process["cost"]
    assert abs(process["estimated_allocations"] - 2 * times) < 2 * process["error_allocations"], process["cost"]


def of_32_bits(tmp_path, text):
    """A program of 32 bits without a library: binutils make it, and most kernels run it."""
    source, built = tmp_path / "of32.s", tmp_path / "of32"
    source.write_text(text)
    subprocess.run(["as", "--32", "-o", tmp_path / "of32.o", source], check=True)
    subprocess.run(["ld", "-m", "elf_i386", "-o", built, tmp_path / "of32.o"], check=True)
    return built


def test_a_program_of_32_bits_runs_as_it_would_and_is_said_to_be_one(byteledger, tmp_path):
    """It is not held, as its registers are others. Its status was 0 where it ended before anything was looked at."""
    built = of_32_bits(tmp_path, HELLO_32)
    try:
        assert subprocess.run([built], check=False).returncode == 5
    except OSError:
        pytest.skip("this kernel runs no programs of 32 bits")
    done = subprocess.run([byteledger, "sample", "--", built], capture_output=True, text=True, timeout=60)
    assert done.returncode == 5, done
    with subprocess.Popen([of_32_bits(tmp_path, LOOP_32)]) as p:
        try:
            done = subprocess.run([byteledger, "sample", "-p", str(p.pid)], capture_output=True, text=True, timeout=60)
        finally:
            p.kill()
    assert done.returncode == 1 and "another machine or word size" in done.stderr, done


ASKS_32 = """
.globl malloc
.type malloc,@function
malloc:
    push %ebx
    pop %ebx
    ret
.size malloc,.-malloc
.globl _start
_start:
    push $64
again:
    call malloc
    jmp again
"""


@pytest.mark.parametrize("options", [(), ("-f", "malloc"), ("-f", "malloc:0"), ("--leaks",)], ids=str)
def test_an_allocator_of_32_bits_is_refused_by_whatever_it_is_named(byteledger, tmp_path, options):
    """Its arguments are on the stack: by its file alone it was probed, and sizes were whatever a register held."""
    with subprocess.Popen([built := of_32_bits(tmp_path, ASKS_32)]) as p:
        try:
            for target in (("-p", str(p.pid)), ("--program", built), ("-p", str(p.pid), "--program", built)):
                done = subprocess.run([byteledger, "sample", *target, *options, "--duration", "1s"], capture_output=True, text=True, timeout=60)
                assert done.returncode == 1 and "another machine or word size" in done.stderr and "hint: only programs of" in done.stderr, done
            assert p.poll() is None
        finally:
            p.kill()


# no call of ptrace() from here on, as in a container's usual filter: load number; if it is 101 then EPERM, else allow
WITHOUT_PTRACE = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
text = b"".join(struct.pack("HBBI", *x) for x in ((0x20, 0, 0, 0), (0x15, 0, 1, 101), (6, 0, 0, 0x50001), (6, 0, 0, 0x7fff0000)))
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_char_p)]
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(Program(4, text)), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"""


@pytest.mark.parametrize("by", [(), (sys.executable, "-c", WITHOUT_PTRACE)], ids=["held", "ptrace refused"])
def test_a_program_that_cannot_be_held_runs_all_the_same(byteledger, by):
    """One that goes on is sampled from some moment on, one of a millisecond ends with its own status: it was 0 until now."""
    with subprocess.Popen([*by, byteledger, "sample", "--budget", "0", "--format", "json", "--", sys.executable, "-c",
                           "input(); kept = [bytearray(5000) for _ in range(1000)]; raise SystemExit(3)"],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as sample:
        said = next((line for line in sample.stderr if "sampling 1 process" in line), None)
        out, _ = sample.communicate("go\n", timeout=60)
        assert said and sample.returncode == 3, out
    assert json.loads(out)["processes"][0]["cost"]["hits"] > 0, out
    done = subprocess.run([*by, byteledger, "sample", "--", "sh", "-c", "exit 7"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 7, done


@pytest.mark.skipif(not shutil.which("setcap"), reason="setcap is not installed (libcap2-bin)")
@pytest.mark.parametrize("caps", ["cap_sys_admin,cap_dac_override", "cap_sys_admin,cap_dac_override,cap_sys_ptrace"], ids=["without", "with"])
def test_a_program_that_gains_privileges_gains_them(byteledger, caps, tmp_path_factory):
    """By a byteledger without CAP_SYS_PTRACE, held by ptrace, the kernel would take them from it: it is not held then."""
    folder = tmp_path_factory.mktemp("gains")
    for at in (folder, *folder.parents[:-1]):
        at.chmod(at.stat().st_mode | 0o055)
    own, gains = folder / "byteledger", folder / "gains"
    shutil.copy(byteledger, own)
    shutil.copy("/usr/bin/id", gains)
    gains.chmod(0o4755)
    subprocess.run(["setcap", f"{caps}+ep", own], check=True)
    done = subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", own, "sample", "--", gains, "-u"],
                          capture_output=True, text=True, timeout=60, cwd="/")
    assert done.returncode == 0 and done.stdout == "0\n", done


def test_each_reading_of_a_started_program_tells_what_may_be_beside_what_was_seen(byteledger, prog):
    """As the end does: they told some hundred thousand calls, give or take a thousand, with probes out for most of the time."""
    done = subprocess.run([byteledger, "sample", "--budget", "1", "--interval", "200ms", "--jsonl", "--", prog("temporaries"), "3000000"],
                          capture_output=True, text=True, timeout=120)
    told = [json.loads(line)["processes"][0] for line in done.stdout.splitlines() if line.startswith("{")]
    out = [p for p in told if p["cost"]["duty"] < 1 and "too little was seen" in p["cost"]["governed"]]
    assert out, [p["cost"] for p in told]
    for p in out: # a tenth of a second of a loop whose pair takes 0.2 us and less is more than what was seen
        assert p["error_allocations"] > 0.1 * p["estimated_allocations"], p
    # at its end, too, where it ended before the first interval had passed: nothing was told of it
    for interval in ("200ms", "60s"):
        said = subprocess.run([byteledger, "sample", "--budget", "1", "--interval", interval, "--format", "text", "--", prog("temporaries"), "3000000"],
                              capture_output=True, text=True, timeout=120).stdout
        assert " or more (up to " in said, said
