# SPDX-License-Identifier: Apache-2.0
"""`--container`: ids in cgroup paths, names by the engine's socket; the engine here is a server of our own."""
import contextlib
import json
import os
import secrets
import socketserver
import subprocess
import threading

import pytest

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root to make a cgroup")


@pytest.fixture
def container():
    """(id, process) of a process in a cgroup that is called as docker calls its."""
    ident = secrets.token_hex(32)
    mounts = [line.split() for line in open("/proc/self/mounts")]
    root = next((m[1] for m in mounts if m[2] == "cgroup2"), "/sys/fs/cgroup/memory")
    group = f"{root}/docker-{ident}.scope"
    try:
        os.mkdir(group)
    except OSError as why:
        pytest.skip(f"no cgroup can be made: {why}")
    child = subprocess.Popen(["sleep", "600"])
    try:
        with open(group + "/cgroup.procs", "w") as procs:
            procs.write(str(child.pid))
        yield ident, child
    finally:
        child.kill()
        child.wait()
        with open(group + "/cgroup.procs", encoding="ascii") as procs:
            while procs.read():  # who has ended leaves its group behind that
                procs.seek(0)
        os.rmdir(group)


@contextlib.contextmanager
def engine(path, answer):
    """A socket that answers each request with answer(request line); yields the lines."""
    seen = []

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            seen.append(self.rfile.readline().decode().strip())
            self.wfile.write(answer(seen[-1]))

    with socketserver.ThreadingUnixStreamServer(str(path), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield seen
        finally:
            server.shutdown()
            thread.join()


def run(byteledger, name, **env):
    clean = {k: v for k, v in os.environ.items() if k not in ("DOCKER_HOST", "CONTAINER_HOST", "XDG_RUNTIME_DIR")}
    return subprocess.run([byteledger, "regions", "--container", name, "--top", "0", "--format", "json"], capture_output=True, text=True,
                          timeout=60, env={**clean, "DOCKER_HOST": "unix:///nonexistent", "CONTAINER_HOST": "unix:///nonexistent", **env})


def test_a_container_is_found_by_its_id_and_by_the_part_that_engines_print(byteledger, container):
    ident, child = container
    for text in (ident, ident[:12]):
        done = run(byteledger, text)
        assert done.returncode == 0, done.stderr
        assert [json.loads(line)["pid"] for line in done.stdout.splitlines()] == [child.pid]
    # the middle of an id is none
    done = run(byteledger, ident[1:13])
    assert done.returncode == 1 and "holds no process" in done.stderr and "hint: " in done.stderr


def test_a_name_is_what_the_engine_says(byteledger, container, tmp_path):
    ident, child = container
    body = json.dumps({"Id": ident, "State": {"Pid": child.pid}}).encode()
    with engine(tmp_path / "sock", lambda _: b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + body) as seen:
        for host in ("DOCKER_HOST", "CONTAINER_HOST"):
            done = run(byteledger, "web-1", **{host: f"unix://{tmp_path}/sock"})
            assert done.returncode == 0, done.stderr
            assert json.loads(done.stdout)["pid"] == child.pid
        assert seen == ["GET /containers/web-1/json HTTP/1.0"] * 2


@pytest.mark.parametrize("answer, hint", [
    (b"HTTP/1.0 404 Not Found\r\n\r\n{\"message\":\"no such container\"}", "docker ps"),
    (b"HTTP/1.0 200 OK\r\n\r\n{\"Id\":\"../../etc\"}", "not understood"),
    (b"HTTP/1.0 200 OK\r\n\r\n[" + b"[" * 100000, "not understood"),
    (b"", "not understood"),
])
def test_what_an_engine_may_answer_is_no_harm(byteledger, tmp_path, answer, hint):
    with engine(tmp_path / "sock", lambda _: answer):
        done = run(byteledger, "web", DOCKER_HOST=f"unix://{tmp_path}/sock")
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 2 and hint in done.stderr, done.stderr


def test_an_engine_that_never_comes_to_an_end_is_not_waited_for(byteledger, tmp_path):
    """A byte now and then keeps each recv() within its time; the answer as a whole has one, too."""
    over = threading.Event()

    class Dripping(socketserver.StreamRequestHandler):
        def handle(self):
            with contextlib.suppress(OSError):
                while not over.wait(0.5):
                    self.wfile.write(b"x")

    with socketserver.ThreadingUnixStreamServer(str(tmp_path / "sock"), Dripping) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            done = run(byteledger, "web", DOCKER_HOST=f"unix://{tmp_path}/sock")
        finally:
            over.set()
            server.shutdown()
            thread.join()
    assert done.returncode == 1 and "hangs" in done.stderr, done.stderr


def test_names_that_are_none_and_nobody_to_ask(byteledger):
    for text in ("a/b", "x y", "", "web\r\nHost: elsewhere"):
        done = run(byteledger, text)
        assert done.returncode == 1 and "not the name or the id" in done.stderr, done.stderr
    done = run(byteledger, "web")
    assert done.returncode == 1 and "neither docker nor podman" in done.stderr, done.stderr
