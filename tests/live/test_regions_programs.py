# SPDX-License-Identifier: Apache-2.0
"""`byteledger regions` on real programs, and on some that lead a reader astray: every mapping the kernel's own, each in its class."""
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest

from netapi import free_port
from test_regions import AS_ROOT, judge, look, program, run, smaps, taken_back, wait_for, whole


def listening(port):
    def ask():
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return True
    return ask


def kinds(seen):
    return {c["class"] for c in seen["classes"]}


def runs(seen):
    """What is made of the memory that no file backs and that may be run."""
    return {(r["class"], r["label"]) for r in seen["regions"] if "x" in r["perms"] and not r["name"]}


def test_redis_server(byteledger, installed, tmp_path):
    port = free_port()
    with program([installed("redis-server"), "--port", str(port), "--save", "", "--dir", str(tmp_path)]) as child:
        wait_for(listening(port), "redis")
        wait_for(lambda: len(os.listdir(f"/proc/{child.pid}/task")) >= 4, "redis's threads, which it starts last")
        seen = judge(byteledger, child.pid)
        assert len(seen["threads"]) >= 4 and all(t["stack_end"] for t in seen["threads"]), seen["threads"]
        assert {"program-text", "library-text", "stack"} <= kinds(seen)
        assert any(r["owner"] and "redis" in r["owner"] for r in seen["regions"] if r["class"] == "program-text")


def test_nginx_master_and_workers(byteledger, installed, tmp_path):
    nginx, port = installed("nginx"), free_port()
    (tmp_path / "logs").mkdir()
    conf = tmp_path / "nginx.conf"
    conf.write_text(f"daemon off; worker_processes 2; pid {tmp_path}/pid; error_log {tmp_path}/logs/e;"
                    "events {} http { access_log off; client_body_temp_path b; proxy_temp_path p; fastcgi_temp_path f;"
                    f" uwsgi_temp_path u; scgi_temp_path s; server {{ listen 127.0.0.1:{port}; }} }}")
    if AS_ROOT:
        conf.write_text("user root; " + conf.read_text())
    with program([nginx, "-p", str(tmp_path), "-c", str(conf)]) as child:
        wait_for(listening(port), "nginx")

        def started():
            with open(f"/proc/{child.pid}/task/{child.pid}/children", encoding="ascii") as file:
                pids = [int(pid) for pid in file.read().split()]
            return pids if len(pids) == 2 else None

        workers = wait_for(started, "workers, which come behind the port")
        try:
            for pid in [child.pid, *workers]:
                judge(byteledger, pid)
            lines = run(byteledger, *[a for w in workers for a in ("-p", w)], "--format", "json").stdout.splitlines()
            assert [json.loads(line)["pid"] for line in lines] == workers
        finally:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)


def test_python(byteledger, installed):
    code = "import ssl, json, threading; x = [str(i) for i in range(200000)]; print('ready', flush=True); input()"
    with program([installed("python3"), "-c", code], ready="ready") as child:
        seen = judge(byteledger, child.pid)
        assert "library-data" in kinds(seen)


@pytest.mark.large
def test_node(byteledger, installed):
    with program([installed("node"), "-e", "console.log('ready'); setInterval(() => {}, 1000)"], ready="ready") as child:
        seen = judge(byteledger, child.pid)
        assert runs(seen) == {("runtime", "V8 code")}
        assert all(t["stack_end"] for t in seen["threads"]), seen["threads"]


@pytest.mark.large
def test_java(byteledger, installed, tmp_path):
    (tmp_path / "Idle.java").write_text(
        "public class Idle { public static void main(String[] a) throws Exception { System.out.println(\"ready\");"
        " System.in.read(); } }")
    java = installed("java")
    if shutil.which("javac"):
        subprocess.run(["javac", "-d", str(tmp_path), str(tmp_path / "Idle.java")], check=True, timeout=120)
        argv = [java, "-cp", str(tmp_path), "Idle"]
        with program(argv, ready="ready") as child:
            seen = judge(byteledger, child.pid)
    else:
        with program([java, "-XshowSettings:vm", "-jar", "/dev/stdin"]) as child:
            wait_for(lambda: len(os.listdir(f"/proc/{child.pid}/task")) > 8, "the JVM")
            seen = judge(byteledger, child.pid)
    assert runs(seen) == {("runtime", "HotSpot code cache")}
    found = [t for t in seen["threads"] if t["stack_end"]]
    assert len(found) == len(seen["threads"]), [t for t in seen["threads"] if not t["stack_end"]]


@pytest.mark.large
def test_go_program(byteledger, installed, tmp_path, go_cache):
    (tmp_path / "idle.go").write_text(
        'package main\nimport ("fmt"; "os")\nvar keep [][]byte\nfunc main() { for i := 0; i < 64; i++ {'
        ' keep = append(keep, make([]byte, 1<<20)) }\nfor _, k := range keep { for i := range k { k[i] = 1 } }\n'
        'fmt.Println("ready"); os.Stdin.Read(make([]byte, 1)) }\n')
    subprocess.run([installed("go"), "build", "-o", str(tmp_path / "idle"), str(tmp_path / "idle.go")], check=True,
                   timeout=280, env={**os.environ, "GOCACHE": go_cache, "GO111MODULE": "off"})
    with program([str(tmp_path / "idle")], ready="ready") as child:
        seen = judge(byteledger, child.pid)
        assert {"program-text", "program-bss"} <= kinds(seen)
        # goroutines run on heap memory: a stack pointer in it does not make the heap a stack
        assert max((r["rss_bytes"] for r in seen["regions"] if r["class"] == "stack"), default=0) < 8 << 20


@pytest.mark.large
def test_chromium_renderer(byteledger, installed, tmp_path):
    argv = [installed("chromium"), "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}",
            "--remote-debugging-port=0", "about:blank"]
    with program(argv, start_new_session=True) as child:
        def renderer():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                with contextlib.suppress(OSError):
                    if os.getsid(int(pid)) == child.pid and b"--type=renderer" in open(f"/proc/{pid}/cmdline", "rb").read():
                        return int(pid)
        try:
            pid = wait_for(renderer, "a renderer", 120)
            wait_for(lambda: len(os.listdir(f"/proc/{pid}/task")) >= 5, "its threads", 60)
            seen = judge(byteledger, pid)
            assert len(seen["threads"]) >= 5
        finally:
            with contextlib.suppress(OSError):
                os.killpg(child.pid, signal.SIGKILL)


@pytest.mark.large
def test_postgres_backends(byteledger, tmp_path):
    binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    if not binaries or not AS_ROOT:
        pytest.skip("PostgreSQL is not installed, or this is not root")
    data = tempfile.mkdtemp(prefix="byteledger-pg-")
    try:
        shutil.chown(data, "nobody")
        nobody = {"user": "nobody", "group": "nogroup", "cwd": "/"}
        subprocess.run([binaries[-1] + "/initdb", "-D", data, "-A", "trust", "-U", "t"], check=True, capture_output=True,
                       timeout=200, **nobody)
        with program([binaries[-1] + "/postgres", "-D", data, "-k", data, "-c", "listen_addresses="], **nobody) as child:
            wait_for(lambda: any(n.startswith(".s.PGSQL") and "lock" not in n for n in os.listdir(data)), "postgres")
            ask = [binaries[-1] + "/psql", "-h", data, "-U", "t", "postgres", "-c"]
            wait_for(lambda: subprocess.run([*ask, "select 1"], capture_output=True, **nobody).returncode == 0, "postgres")
            with program([*ask, "select pg_sleep(600)"], **nobody):
                def backends():
                    pids = [int(p) for p in open(f"/proc/{child.pid}/task/{child.pid}/children").read().split()]
                    busy = [p for p in pids if b"SELECT" in open(f"/proc/{p}/cmdline", "rb").read()]
                    return pids if busy else None
                for pid in wait_for(backends, "a backend"):
                    seen = judge(byteledger, pid)
                    assert {"sysv-shm", "shared-anonymous"} & kinds(seen), kinds(seen)
    finally:
        shutil.rmtree(data, ignore_errors=True)


# Named like the C library, so that its data is the first where a malloc is looked for: an arena whose bins are filled with
# chunks all over the rest of the file, which nobody has touched.
LURE = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
base, size = 0x100000, 0x200000
fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
os.ftruncate(fd, size)
where = libc.mmap(ctypes.c_void_p(base), ctypes.c_size_t(size), 3, 0x100002, fd, ctypes.c_long(0))
assert where == base, (where, ctypes.get_errno())
bins = base + 0x200
words = [base + 0x800, 0]  # top, last_remainder
for i in range(127):
    at = bins + i * 16
    words += [at - 16] * 2 if i < 40 else [base + 0x8000 + (i - 40) * 0x5000] * 2
words += [0, 0, bins - 112, 0, 1, 0x21000]
ctypes.memmove(bins - 16, struct.pack(f"<{len(words)}Q", *words), len(words) * 8)
print("ready", flush=True)
sys.stdin.read()
"""


def test_foreign_pointers_bring_nothing_into_memory(byteledger, tmp_path):
    path = tmp_path / "libc.so.6"
    with program([sys.executable, "-c", LURE, str(path)], ready="ready\n") as child:
        seen = judge(byteledger, child.pid)
        lure = [r for r in seen["regions"] if r["name"] == str(path)]
        assert [(r["start"], r["rss_bytes"]) for r in lure] == [(0x100000, 4096)]


def test_a_process_without_its_main_thread_is_read_by_another(byteledger, prog):
    with program([prog("outlived"), "24"], ready="ready\n") as child:
        before = look(byteledger, child.pid, "--all")
        child.stdin.write(b"x")
        child.stdin.flush()
        assert child.stdout.readline() == b"alone\n"
        state = lambda tid: open(f"/proc/{child.pid}/task/{tid}/stat").read().rsplit(")", 1)[1].split()[0]
        wait_for(lambda: state(child.pid) == "Z", "zombie")
        thread = next(int(tid) for tid in os.listdir(f"/proc/{child.pid}/task") if int(tid) != child.pid)
        os.kill(child.pid, signal.SIGSTOP)
        wait_for(lambda: state(thread) == "T", "stop")
        for _ in range(50):
            kernel = smaps(thread)
            seen, quick = look(byteledger, child.pid, "--all"), look(byteledger, child.pid, "--quick")
            after = smaps(thread)
            if kernel == after:
                break
            assert taken_back(kernel, after)
        assert kernel == after
        assert whole(seen["regions"], kernel) == sorted((r[0], r[1], r[2], r[3]) for r in kernel)
        assert sum(c["rss_bytes"] for c in seen["classes"]) == seen["rss_bytes"] == quick["rss_bytes"] == sum(r[3] for r in kernel)
        assert seen["rss_bytes"] > 24 << 20 and seen["checks"]["status_rss_bytes"] > 24 << 20
        for words in ("-n", "outlived"), ("-p", os.getpid(), "--follow-children"):
            done = subprocess.run([byteledger, "regions", *map(str, words), "--quick", "--format", "json"], capture_output=True, timeout=60)
            found = [json.loads(line) for line in done.stdout.splitlines()]
            assert [f["rss_bytes"] for f in found if f["pid"] == child.pid] == [quick["rss_bytes"]], words
        assert seen["allocators"] and [a["allocator"] for a in seen["allocators"]] == [a["allocator"] for a in before["allocators"]]
