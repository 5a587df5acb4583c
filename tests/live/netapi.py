# SPDX-License-Identifier: Apache-2.0
"""What the tests of `net --config` share: a recorder under test, its configuration, its API."""
import errno
import functools
import json
import os
import random
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from conftest import ROOT

VECTORS = os.path.join(ROOT, "tests", "vectors", "tezos")


def identity(name):
    return os.path.join(VECTORS, "identities", name + ".json")


given = set()


def free_port(*hosts):
    """
    Of two ports in a row that nobody has and nobody here was given, the first (http_v2 takes the next one too); nor are they
    among those that the kernel gives to connections by itself, which take a port between its choice and its use.
    """
    while True:
        port = random.randint(20001, 32000)
        if given & {port, port + 1}:
            continue
        held = []
        try:
            for host in hosts or ("127.0.0.1",):
                for number in (port, port + 1):
                    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                        s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
                        held.append(s)
                        s.bind((host, number))
            given.update((port, port + 1))
            return port
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL):
                pytest.skip(f"this machine has no {host}")
        finally:
            for s in held:
                s.close()


def wait_until(condition, seconds=60, what="the condition"):
    until = time.monotonic() + seconds
    while True:
        got = condition()
        if got:
            return got
        assert time.monotonic() < until, f"{what} did not come true in {seconds} s"
        time.sleep(0.02)


@functools.cache  # it tries each feature, which takes seconds
def capture_line(byteledger):
    done = subprocess.run([byteledger, "check", "--format", "json"], capture_output=True, text=True, timeout=60)
    return {f["feature"]: f for f in json.loads(done.stdout)}["net-capture"]


def require_capture(byteledger):
    """Skip where the kernel or the user permits no capture by BPF; as root with BTF that is a fault."""
    line = capture_line(byteledger)
    if not line["ok"]:
        assert not (os.geteuid() == 0 and os.path.exists("/sys/kernel/btf/vmlinux")), line["why"]
        pytest.skip(line["why"])


class Node:
    """A running pseudo-node; one with --listen is up when this returns."""

    def __init__(self, path, *args, wrap=()):
        self.process = subprocess.Popen([*wrap, path, *map(str, args)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        if "--listen" in args:
            line = self.process.stdout.readline()
            assert line == "listening\n", line + self.process.stderr.read()

    def wait_for_pause(self):
        line = self.process.stdout.readline()
        assert line == "paused\n", line + self.process.stderr.read()

    def go(self):
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def truths(self):
        """What it sent and received: one dict a connection."""
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines() if line.startswith("{")]

    def truth(self):
        return self.truths()[-1]

    def end(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()


class Recorder:
    """A running `byteledger net --config`; stderr goes to a file, so that it can be read meanwhile."""

    def __init__(self, byteledger, tmp_path, config, ports, wrap=(), ready=True):
        self.config, self.ports = os.path.join(tmp_path, "config.toml"), ports
        self.err_path = os.path.join(tmp_path, "stderr")
        with open(self.config, "w", encoding="utf-8") as out:
            out.write(config)
        with open(self.err_path, "wb") as err:
            self.process = subprocess.Popen([*wrap, byteledger, "net", "--config", self.config], stderr=err,
                                            stdout=subprocess.DEVNULL, cwd=tmp_path)
        if ready:
            wait_until(lambda: "ends it" in self.said() or self.process.poll() is not None, what="start")
            assert self.process.poll() is None, self.said()

    def said(self):
        with open(self.err_path, encoding="utf-8") as err:
            return err.read()

    def request(self, path, port="v2", headers=None, **params):
        """(status, headers, body)"""
        query = "?" + urllib.parse.urlencode(params) if params else ""
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[port]}{path}{query}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, answer.headers, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.headers, error.read()

    def get(self, path, port="v2", **params):
        status, _, body = self.request(path, port, **params)
        assert status == 200, (path, params, status, body[:300])
        return json.loads(body)

    def post(self, path, port="v2", **params):
        query = "?" + urllib.parse.urlencode(params) if params else ""
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[port]}{path}{query}", method="POST", data=b"")
        with urllib.request.urlopen(request, timeout=180) as answer:
            return json.loads(answer.read())

    def status(self):
        return self.get("/v3/status")["nodes"][0]

    def stop(self, number=signal.SIGTERM):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout=60)


def config_of(db, ports, p2p=None, log=None, top="", name="9732"):
    lines = [top, f'http_v2 = {ports["v2"]}', "[[nodes]]", f'name = "{name}"', f'http_v3 = {ports["v3"]}', f'db = "{db}"']
    if p2p:
        lines.append(f"p2p = {p2p}")
    if log:
        lines.append(f"log = {log}")
    return "\n".join(lines) + "\n"


@pytest.fixture
def recorder(byteledger, tmp_path):
    """recorder(top="", log_options="", ...) -> Recorder over tmp_path/db; stopped at the end."""
    started = []

    def start(top="", log_options="", wrap=(), ready=True, ports=None, db=None):
        ports = ports or {"v2": free_port(), "v3": free_port(), "udp": free_port(), "tcp": free_port()}
        log = f'{{ port = {ports["udp"]}, tcp_port = {ports["tcp"]}, unix = "{tmp_path}/log.sock"{log_options} }}'
        r = Recorder(byteledger, tmp_path, config_of(db or tmp_path / "db", ports, log=log, top=top), ports, wrap, ready)
        started.append(r)
        return r
    yield start
    for r in started:
        r.stop()


def send_lines(r, lines):
    """By UDP, which has no back-pressure: no more are under way than a socket holds without the right to have a larger one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        for n, line in enumerate(lines):
            udp.sendto(line.encode(), ("127.0.0.1", r.ports["udp"]))
            if n % 250 == 249 and n + 1 < len(lines):
                wait_until(lambda: r.status()["logs"]["received"] > n, what=f"line {n}")  # pylint: disable=W0640
