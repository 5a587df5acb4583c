# SPDX-License-Identifier: Apache-2.0
"""Files that ask for more than they are worth: bombs, modules, colliding addresses, deep stacks. Time and memory stay bounded."""
import gzip
import json
import os
import subprocess
import sys

import pytest

from conftest import ROOT
from test_serve import Server


def test_a_bomb_is_refused_in_bounded_memory(byteledger, tmp_path):
    """Some KB of zstd that unpack to hundreds of millions of live blocks."""
    head = "v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\n"
    path = str(tmp_path / "bomb.zst")
    chunk = b"+ 0\n" * (1 << 20)
    packer = subprocess.Popen(["zstd", "-q", "-o", path], stdin=subprocess.PIPE)
    packer.stdin.write(head.encode())
    for _ in range(70):
        packer.stdin.write(chunk)
    packer.stdin.close()
    assert packer.wait() == 0
    assert os.path.getsize(path) < 1 << 20
    done = subprocess.run(["bash", "-c", f"ulimit -v 2000000; exec '{byteledger}' report '{path}'"],
                          capture_output=True, text=True, timeout=200)
    assert done.returncode == 1
    assert done.stderr.startswith(f"byteledger: cannot read '{path}': too many live blocks\nhint: ")


def test_more_modules_than_a_process_can_map_are_refused(byteledger, tmp_path):
    path = str(tmp_path / "modules.heaptrack")
    for count, status in (1 << 16, 0), ((1 << 16) + 1, 1):
        with open(path, "w", encoding="ascii") as file:
            file.write("v 10400 3\nX a\n")
            file.writelines(f"s 6 m{i:05x}\ni {i:x} {i + 1:x}\n" for i in range(count))
        done = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=200)
        assert done.returncode == status, done.stderr
    assert done.stderr.startswith(f"byteledger: cannot read '{path}': too many modules\nhint: ")


def test_nobody_can_choose_addresses_that_collide(byteledger, tmp_path):
    """A million addresses of which a table by plain multiplication would compare each with all others: hours."""
    path, inverse = str(tmp_path / "collide.heaptrack"), pow(0x9e3779b97f4a7c15, -1, 1 << 64)
    with open(path, "w", encoding="ascii") as file:
        file.write("v 10400 3\nX a\ns 8 /nowhere\n")
        file.writelines(f"i {(7 << 32 | i) * inverse % (1 << 64):x} 1\n" for i in range(1 << 20))
        file.write("t 1 0\na 8 1\n+ 0\n")
    done = subprocess.run([byteledger, "report", path], capture_output=True, text=True, timeout=220)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_deep_recursion_is_exported_in_bounded_memory(byteledger, tmp_path):
    """Each level allocates: 8,000 stacks of up to 8,000 frames, 32 million steps together, from a file of 250 KB."""
    path, levels, random = str(tmp_path / "deep.heaptrack"), 8000, 1
    with open(path, "w", encoding="ascii") as file:
        file.write("v 10400 3\nX a\n")
        for i in range(16):
            file.write(f"s 2 {chr(ord('a') + i)}f\ni {i + 1000:x} 0 {i + 1:x}\n")
        for level in range(levels):
            random = (random * 1664525 + 1013904223) % 2**32
            file.write(f"t {random // 65536 % 16 + 1:x} {level:x}\na 8 {level + 1:x}\n+ {level:x}\n")
    for words in (["export", "--to", "pprof", "-o", str(tmp_path / "out.gz")],
                  ["report", "--format", "csv", "--limit", "1"]):
        done = subprocess.run(["bash", "-c", 'ulimit -v 200000; exec "$0" "$@"', byteledger, *words, path],
                              capture_output=True, text=True, timeout=200)
        assert (done.returncode, done.stderr) == (0, ""), words
    with gzip.open(tmp_path / "out.gz") as file:
        profile = file.read()
    assert len(profile) > levels * levels / 2
    assert all(f"{chr(ord('a') + i)}f".encode() in profile for i in range(16))


# ---- the consumers that are large -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bomb(tmp_path_factory):
    """A heaptrack file of some 100 KB that unfolds to hundreds of megabytes of different allocations."""
    path = tmp_path_factory.mktemp("bomb") / "bomb.gz"
    data = subprocess.run(["zstd", "-dcq", f"{ROOT}/tests/golden/data/sqlite.heaptrack.zst"], stdout=subprocess.PIPE, check=True)
    with gzip.open(path, "wb") as f:
        f.write(data.stdout)
        for _ in range(40):
            f.write(b"a 11c00 4\n" * 100_000)
    return path


@pytest.mark.parametrize("words", [("report",), ("info",), ("export", "--to", "folded", "-o", "{out}"), ("import", "-o", "{out}")])
def test_a_small_file_that_unfolds_to_much_is_refused_and_told_what_lifts_that(byteledger, bomb, tmp_path, words):
    out = tmp_path / "out"
    args = [word.format(out=out) for word in words]
    # from a small process: what a child of a large one had before exec counts as its largest
    code = "import resource, subprocess, sys; print(subprocess.run(sys.argv[1:]).returncode, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    done = subprocess.run([sys.executable, "-S", "-c", code, byteledger, args[0], "--memory", "64M", *args[1:], bomb],
                          capture_output=True, text=True)
    text, (status, largest) = done.stderr, map(int, done.stdout.split()[-2:])
    assert status == 1 and "Cannot allocate memory" in text
    assert "--memory 2G" in text and "--memory unlimited" in text
    assert largest < 128 << 10  # KiB: what it may take, its program and libraries
    assert not out.exists()


def test_screens_and_explanations_are_refused_likewise(record, byteledger, bomb):
    code = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]) >> 8)"
    done = subprocess.run([sys.executable, "-S", "-c", code, byteledger, "top", "--memory", "64M", bomb], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL, env={**os.environ, "TERM": "xterm"}, timeout=200)
    assert done.returncode == 1 and "Cannot allocate memory" in done.stdout and "--memory 2G" in done.stdout, done.stdout
    kept = record(["/usr/bin/python3", "-S", "-c", "kept = [object() for _ in range(400_000)]"], env={"PYTHONMALLOC": "malloc"})
    done = subprocess.run([byteledger, "explain", "--memory", "24M", kept.path], capture_output=True, text=True, timeout=200)
    assert done.returncode == 1 and "Cannot allocate memory" in done.stderr and "--memory 2G" in done.stderr, done.stderr


def test_memory_may_be_unlimited_and_nonsense_is_refused(byteledger, bomb):
    done = subprocess.run([byteledger, "info", "--memory", "unlimited", bomb], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for word in ("much", "0", "1K", "-5M"):
        done = subprocess.run([byteledger, "info", f"--memory={word}", bomb], capture_output=True, text=True)
        assert done.returncode == 2 and "hint:" in done.stderr


def test_a_server_refuses_what_takes_more_than_it_may_and_serves_on(record, byteledger):
    """400,000 live blocks, whose table takes more than the 64 MiB that it may."""
    done = record(["/usr/bin/python3", "-S", "-c", "kept = [object() for _ in range(400_000)]"],
                  env={"PYTHONMALLOC": "malloc"}, command="heap", options=["--no-store-symbols"])
    # what is missing first differs: the unfolding, the table
    for most in ("40M", "64M"):
        server = Server(byteledger, "--memory", most, done.path)
        try:
            status, _, body = server.ask("/api/v1/allocations?limit=3")
            answer = json.loads(body)
            assert status == 500 and "Cannot allocate memory" in answer["error"] and "--memory" in answer["hint"], answer
            assert server.ask("/api/v1/timeline")[0] == 200
        finally:
            server.child.kill()
            server.child.communicate()
