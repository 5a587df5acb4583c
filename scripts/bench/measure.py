# SPDX-License-Identifier: Apache-2.0
"""Run a command once and say what it cost: wall time, CPU of all its processes, CPU of the traced process alone.

All processes: the bench is a child subreaper, so whatever the command leaves behind comes back here, and RUSAGE_CHILDREN holds
the sum once nothing is left to reap. The traced process: it is seized by ptrace with nothing but the exit event asked for
(no stop, no system-call stops while it runs), and its CPU clock is read in that last stop - exact, and the same for every tool.
"""
import contextlib
import ctypes
import os
import resource
import shutil
import signal
import statistics
import subprocess
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
PR_SET_CHILD_SUBREAPER = 36
PTRACE_CONT, PTRACE_DETACH, PTRACE_SEIZE, PTRACE_LISTEN = 7, 17, 0x4206, 0x4208
PTRACE_O_TRACEEXIT, PTRACE_EVENT_EXIT, PTRACE_EVENT_STOP = 1 << 6, 6, 128
WALL, CLD_TRAPPED = 0x40000000, 4

program_processor = None  # where the traced program goes as soon as it is seen; None: where it likes


def become_subreaper():
    """Again in every child of a fork that runs something: a process is asked for itself alone."""
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


become_subreaper()


class Run:
    """
    One run's costs in seconds. `traced` is None where the process was gone before it could be seized; of the command itself,
    which may be that short, it then is what wait4() says (with children that it waited for).
    """

    def __init__(self, wall, cpu_all, traced, status, usage=None):
        self.wall, self.cpu_all, self.traced, self.status, self.usage = wall, cpu_all, traced, status, usage


def process_clock(pid):
    """CPU seconds of all threads of another process, to the nanosecond (clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def descendants(pid):
    found, todo = [], [pid]
    while todo:
        p = todo.pop()
        found.append(p)
        try:
            for tid in os.listdir(f"/proc/{p}/task"):
                with open(f"/proc/{p}/task/{tid}/children") as f:
                    todo += [int(c) for c in f.read().split()]
        except OSError:
            pass
    return found


def find_target(root, exe, deadline):
    """The descendant of (or) @root that runs @exe; None when @root ends first."""
    while time.monotonic() < deadline:
        for pid in descendants(root):
            try:
                if os.path.realpath(os.readlink(f"/proc/{pid}/exe")) == exe:
                    return pid
            except OSError:
                continue
        if not os.path.exists(f"/proc/{root}/exe"):
            return None
        time.sleep(0.0005)
    return None


def watch(pid):
    """Seize @pid, let it run to its end, return its CPU seconds there."""
    if libc.ptrace(PTRACE_SEIZE, pid, None, PTRACE_O_TRACEEXIT) < 0:
        return None
    if program_processor is not None:
        for tid in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(ProcessLookupError):  # a thread may end meanwhile
                os.sched_setaffinity(int(tid), {program_processor})
    while True:
        try:
            # looked at first: what has ended stays for run() to reap
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WSTOPPED | os.WNOWAIT | WALL).si_code != CLD_TRAPPED:
                return None  # ended without the stop: it was on its way out already
            _, status = os.waitpid(pid, WALL)
        except ChildProcessError:
            return None
        event, sig = status >> 16, os.WSTOPSIG(status)
        if event == PTRACE_EVENT_EXIT:
            cpu = process_clock(pid)
            libc.ptrace(PTRACE_DETACH, pid, None, 0)
            return cpu or None  # 0 now and then of a program of half a millisecond, on a busy machine
        if event == PTRACE_EVENT_STOP:
            group = sig in (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
            libc.ptrace(PTRACE_LISTEN if group else PTRACE_CONT, pid, None, 0)
        else:
            libc.ptrace(PTRACE_CONT, pid, None, sig)


def children_cpu():
    u = resource.getrusage(resource.RUSAGE_CHILDREN)
    return u.ru_utime + u.ru_stime


def run(argv, exe=None, env=None, stdin=None, stdout=os.devnull, cwd=None, stderr=os.devnull):
    """Run @argv to its end. @exe: real path of the traced program; None leaves `traced` out."""
    before = children_cpu()
    with open(stdin or os.devnull, "rb") as i, open(stdout, "wb") as o, open(stderr, "wb") as e:
        start = time.monotonic()
        child = subprocess.Popen(argv, stdin=i, stdout=o, stderr=e, cwd=cwd, env={**os.environ, **(env or {})})
    traced = None
    if exe:
        # Popen() returns when the program has begun: one that ends at once is gone before it is found among others
        itself = os.path.realpath(shutil.which(argv[0]) or "") == exe
        target = child.pid if itself else find_target(child.pid, exe, start + 10)
        if target:
            traced = watch(target)
    # wait4 directly: Popen.wait() is unaware that watch() shares the children
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    if exe and traced is None and target == child.pid:
        traced = usage.ru_utime + usage.ru_stime
    child.returncode = os.waitstatus_to_exitcode(status)
    while True:  # whatever was left behind and re-parented to us
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    return Run(wall, children_cpu() - before, traced, child.returncode, usage)


def peak_rss_bytes(result):
    return result.usage.ru_maxrss * 1024


def median(values):
    return statistics.median(values)


def spread(values):
    """How much a figure varied in the run: (max - min) / median; 0.2 means 20 %."""
    mid = statistics.median(values)
    return (max(values) - min(values)) / mid if mid else 0.0


class Progress:
    """A line on a terminal, nothing elsewhere."""

    def __init__(self):
        self.on = os.isatty(2)
        self.lock = threading.Lock()

    def show(self, text):
        if self.on:
            with self.lock:
                os.write(2, f"\r\033[K{text}".encode())

    def clear(self):
        self.show("")
