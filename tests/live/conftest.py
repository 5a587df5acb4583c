# SPDX-License-Identifier: Apache-2.0
"""What live tests share: the built program, little programs of tests/prog, one way to record and read back."""
import contextlib
import json
import os
import shutil
import subprocess
import time

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
BUILD = os.environ.get("BYTELEDGER_BUILD", os.path.join(ROOT, "build"))
os.environ.pop("COLUMNS", None) # newer pytest tells its workers, and a command's text would be fitted to it
os.environ.pop("OLDPWD", None) # a shell that did cd has it, and another shell in between drops it: perl copies one variable less


@pytest.fixture(scope="session")
def byteledger():
    """Path of the program under test."""
    path = os.path.join(BUILD, "byteledger")
    assert os.access(path, os.X_OK), f"{path} is not built"
    return path


@pytest.fixture(scope="session")
def preload():
    """Path of the preload library."""
    path = os.path.join(BUILD, "libbyteledger-heap.so")
    assert os.path.exists(path), f"{path} is not built"
    return path


@pytest.fixture(scope="session")
def prog():
    """prog("name") -> path of a program from tests/prog."""
    def find(name):
        path = os.path.join(BUILD, "tests", "prog", name)
        assert os.access(path, os.X_OK), f"{path} is not built (tests/prog/meson.build)"
        return path
    return find


@pytest.fixture(scope="session")
def installed():
    """installed("jq") -> its path, or the test is skipped with the reason."""
    def find(name):
        path = shutil.which(name)
        if not path:
            pytest.skip(f"{name} is not installed")
        return path
    return find


@pytest.fixture(scope="session")
def sqlite(prog):
    """A shell of sqlite whose functions have names: sqlite3, or ours where sqlite3 has the library within itself (Debian sid)."""
    shell = shutil.which("sqlite3")
    said = subprocess.run(["ldd", shell], capture_output=True, text=True, timeout=60).stdout if shell else ""
    return "sqlite3" if "libsqlite3" in said else prog("sqlshell")


@pytest.fixture(scope="session")
def go_cache(tmp_path_factory):
    """Where `go build` keeps what it compiled: with cgo the first program takes fifteen seconds, the next ones one."""
    return str(tmp_path_factory.mktemp("go-cache"))


class Recording:
    """A finished recording: the traced program's outcome, the file, and the report on demand."""

    def __init__(self, program, path, done):
        self.program, self.path = program, path
        self.returncode, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr

    def report(self, *options):
        """The JSON of `report`, parsed."""
        out = subprocess.run([self.program, "report", self.path, "--format", "json", *options],
                             capture_output=True, timeout=280)
        assert out.returncode == 0, out.stderr.decode("utf-8", "replace")
        return json.loads(out.stdout)


@pytest.fixture
def record(byteledger, tmp_path):
    """record([program, args...], options=[], input=b"", env={}, command="run") -> Recording"""
    count = 0

    def run(argv, options=(), stdin=b"", env=None, command="run", timeout=280, cwd=None, wrap=()):
        nonlocal count
        count += 1
        path = str(tmp_path / f"recording-{count}.blt")
        done = subprocess.run([*wrap, byteledger, command, "-q", "-o", path, *options, "--", *argv], input=stdin,
                              capture_output=True, timeout=timeout, env={**os.environ, **(env or {})}, cwd=cwd)
        return Recording(byteledger, path, done)
    return run


def report(byteledger, path, *options):
    """The JSON of `report`, parsed."""
    out = subprocess.run([byteledger, "report", path, "--format", "json", *options], capture_output=True, timeout=60)
    assert out.returncode == 0, out.stderr
    return json.loads(out.stdout)


def info(byteledger, path):
    """The JSON of `info`, parsed; None where there is no recording yet."""
    out = subprocess.run([byteledger, "info", path, "--format", "json"], capture_output=True, timeout=60)
    return json.loads(out.stdout) if out.returncode == 0 else None


def finished(byteledger, path):
    """Has the recorder written the recording's end?"""
    told = info(byteledger, path)
    return told is not None and told["file"]["finished"]


def read_once(looker, pid):
    """Wait until `regions`, process @looker, has made a whole reading of process @pid from now on: between two it waits for events."""
    def knows():
        with contextlib.suppress(OSError):
            return f"/proc/{pid}" in [os.readlink(f"/proc/{looker}/fd/{fd}") for fd in os.listdir(f"/proc/{looker}/fd")]

    def bytes_read():
        with open(f"/proc/{looker}/io", encoding="ascii") as file:
            return int(next(line for line in file if line.startswith("rchar")).split()[1])

    def waits():
        """In poll() or ppoll(): amid a reading it pauses, too, but by nanosleep()."""
        with open(f"/proc/{looker}/syscall", encoding="ascii") as file:
            return file.read().split()[0] in ("7", "271", "73") # x86-64's, arm64's

    deadline = time.monotonic() + 60
    for _ in range(2): # the first may have begun before
        began = bytes_read()
        while not (knows() and bytes_read() > began + (20 << 10) and waits()):
            assert time.monotonic() < deadline, f"no reading of process {pid}"
            time.sleep(0.01)


@pytest.fixture
def recorded(byteledger, preload, tmp_path):
    """recorded(how, argv, env, options) -> (path, outcome): `under` byteledger, with the library `alone`, or `raw`, without a recorder."""
    def run(how, argv, env, options=()):
        path = str(tmp_path / f"{len(list(tmp_path.iterdir()))}.blt")
        if how == "under":
            return path, subprocess.run([byteledger, "heap", "-q", "-o", path, *options, "--", *argv], env={**os.environ, **env},
                                        capture_output=True, timeout=140)
        env = {**os.environ, "LD_PRELOAD": preload, "BYTELEDGER_OUTPUT": path, "BYTELEDGER_ON_FULL": "wait", **env}
        if how == "raw":
            env["BYTELEDGER_HELPER"] = "/nonexistent"
        done = subprocess.run(argv, env=env, capture_output=True, timeout=140)
        if how == "raw":
            return path + ".raw", done
        deadline = time.monotonic() + 60
        while not finished(byteledger, path):
            assert time.monotonic() < deadline, path
            time.sleep(0.02)
        return path, done
    return run
