# SPDX-License-Identifier: Apache-2.0
"""`gather`: what a traced process sends while it is recorded arrives byte by byte, whatever happens on the way."""
import contextlib
import filecmp
import json
import os
import re
import signal
import socket
import struct
import subprocess
import time
import urllib.request
import zlib

import pytest

TOKEN = "a-token-of-some-length"
GROWS = "import time\nkept = []\nfor i in range(%d):\n    kept.append([str(i) * 20 for i in range(2000)])\n    time.sleep(0.02)\n"
CHURNS = "import time\nfor i in range(%d):\n    went = [str(i) * 20 for i in range(2000)]\n    time.sleep(0.02)\n"
HELLO, ANSWER, FRAME = struct.Struct("<8sII64s176s256s"), struct.Struct("<8sIIQ"), struct.Struct("<IIQ")
MAGIC = b"BLTSEND\n"
OK, NO_TOKEN, VERSIONS, BUSY, FULL, REFUSED = range(6)
DATA, ALIVE, END, DROP = 1, 2, 3, 4


class Gather:
    """`byteledger gather` running."""

    def __init__(self, byteledger, folder, *options, listen="127.0.0.1:0", wrap=()):
        self.folder, self.lines = folder, []
        self.child = subprocess.Popen([*wrap, byteledger, "gather", "--listen", listen, "--dir", str(folder), *options],
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL)
        self.address = self.child.stdout.readline().strip()
        assert self.address, self.child.stderr.read()

    def connect(self):
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=20)

    def until(self, pattern):
        """The line that says so, of those that come."""
        while True:
            line = self.child.stdout.readline()
            assert line, (pattern, self.lines)
            self.lines.append(line.rstrip())
            if re.search(pattern, line):
                return line.rstrip()

    def end(self, number=signal.SIGTERM):
        self.child.send_signal(number)
        out, errors = self.child.communicate(timeout=30)
        self.lines += out.splitlines()
        assert self.child.returncode == (0 if number != signal.SIGKILL else -9), errors
        return self.lines, errors

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(timeout=20)
            finally:
                self.child.kill()
                self.child.wait()


@pytest.fixture
def places(tmp_path):
    """Where it is sent from, and where to."""
    made = [tmp_path / "here", tmp_path / "there"]
    for place in made:
        place.mkdir()
    return made


@pytest.fixture
def token(tmp_path):
    path = tmp_path / "token"
    path.write_text(TOKEN + "\n")
    path.chmod(0o600)
    return path


def wait_for(what, seconds=30):
    until = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < until, "it did not come"
        time.sleep(0.05)
    return found


def environment(address, token=None, **more):
    to = {**os.environ, "BYTELEDGER_SEND": address, "PYTHONMALLOC": "malloc", **more}
    return {**to, "BYTELEDGER_TOKEN_FILE": str(token)} if token else to


def start(byteledger, place, address, program, *, name="sent.blt", token=None, command="heap", **more):
    return subprocess.Popen([byteledger, command, "-q", "-o", name, "--", *program], cwd=place, env=environment(address, token, **more),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def python(script):
    return ["/usr/bin/python3", "-c", script]


def same(places, name="sent.blt"):
    here, there = places[0] / name, places[1] / name
    assert there.stat().st_size == here.stat().st_size and filecmp.cmp(here, there, shallow=False), (here.stat(), there.stat())
    assert there.stat().st_mode & 0o777 == 0o600


def info(byteledger, path):
    return json.loads(subprocess.run([byteledger, "info", "--format", "json", str(path)], capture_output=True, check=True).stdout)


def allocations_served(url):
    with urllib.request.urlopen(f"{url}api/v1/summary", timeout=60) as answer:
        return json.loads(answer.read())["totals"]["allocations"]


def test_what_arrives_is_what_was_recorded(byteledger, preload, places):
    with Gather(byteledger, places[1]) as there:
        for command in ("heap", "run"):
            child = start(byteledger, places[0], there.address, python(GROWS % 5), name=f"{command}.blt", command=command)
            assert child.communicate(timeout=120)[1] == "" and child.returncode == 0
        alone = subprocess.run(python(GROWS % 5), cwd=places[0], timeout=120, capture_output=True, text=True, check=True,
                               env=environment(there.address, LD_PRELOAD=str(preload), BYTELEDGER_OUTPUT="alone.blt"))
        assert alone.stderr == ""
        there.until(r"^alone\.blt ends: \d+ bytes$")
        for name in ("heap.blt", "run.blt", "alone.blt"):
            same(places, name)
            begins = [line for line in there.lines if line.startswith(f"{name} begins: process ")]
            ends = [line for line in there.lines if line == f"{name} ends: {(places[1] / name).stat().st_size} bytes"]
            assert len(begins) == 1 and len(ends) == 1, there.lines
        assert there.end()[1] == ""


def test_it_is_read_while_it_grows(byteledger, places):
    with Gather(byteledger, places[1]) as there:
        child = start(byteledger, places[0], there.address, python(CHURNS % 20000))
        path = places[1] / "sent.blt"
        there.until("^sent.blt begins")
        wait_for(lambda: path.stat().st_size > 4096)
        told = subprocess.run([byteledger, "report", str(path)], capture_output=True, text=True)
        assert told.returncode == 0 and "so far" in told.stdout and "still being recorded" in told.stderr, told
        assert info(byteledger, path)["file"]["being_written"]
        served = subprocess.Popen([byteledger, "serve", "-l", "127.0.0.1:0", str(path)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True)
        try:
            url = served.stdout.readline().strip()
            allocations = allocations_served(url)
            wait_for(lambda: allocations_served(url) > allocations)
        finally:
            served.terminate()
            served.communicate(timeout=30)
            child.terminate()
            child.communicate(timeout=60)
        there.until("^sent.blt ends")
        same(places)


def test_a_receiver_that_was_killed_and_came_back_has_all_of_it(byteledger, places):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % probe.getsockname()[1]
    with Gather(byteledger, places[1], listen=address) as there:
        child = start(byteledger, places[0], address, python(CHURNS % 20000))
        there.until("^sent.blt begins")
        wait_for(lambda: (places[1] / "sent.blt").stat().st_size > 4096)
        there.end(signal.SIGKILL)
    held = (places[1] / "sent.blt").stat().st_size
    # what was there reads like one that was cut short
    assert subprocess.run([byteledger, "report", str(places[1] / "sent.blt")], capture_output=True).returncode == 0
    time.sleep(1)
    with Gather(byteledger, places[1], listen=address) as there:
        there.until(f"^sent.blt goes on at {held} bytes")
        child.terminate()
        errors = child.communicate(timeout=120)[1]
        there.until("^sent.blt ends")
        same(places)
        assert sorted(os.listdir(places[1])) == ["sent.blt"]
        # it is said once that nobody was there
        assert errors.count("cannot") == 1 and "tried again" in errors, errors


def test_who_finds_no_receiver_records_all_the_same(byteledger, places):
    began = time.monotonic()
    child = start(byteledger, places[0], "127.0.0.1:1", python(GROWS % 5))
    errors = child.communicate(timeout=60)[1]
    assert child.returncode == 0 and 5 < time.monotonic() - began < 20
    assert "cannot reach '127.0.0.1:1': Connection refused" in errors and "what is here is whole" in errors
    assert "allocations" in json.dumps(info(byteledger, places[0] / "sent.blt"))


@pytest.mark.parametrize("to", ["nowhere", "localhost:", "localhost:http", "unix:"])
def test_an_address_that_is_none_is_refused_before_the_program_starts(byteledger, places, to):
    done = subprocess.run([byteledger, "heap", "-o", "x.blt", "--", "/usr/bin/touch", "touched"], cwd=places[0], env=environment(to),
                          capture_output=True, text=True)
    assert done.returncode and f"cannot use BYTELEDGER_SEND '{to}'" in done.stderr
    assert os.listdir(places[0]) == []


def test_only_who_has_the_token_is_received(byteledger, places, token, tmp_path):
    other = tmp_path / "other"
    other.write_text("another-token-of-some-length\n")
    other.chmod(0o600)
    with Gather(byteledger, places[1], "--token-file", str(token)) as there:
        for wrong, why in ((None, "shows no token"), (other, "is another one")):
            began = time.monotonic()
            child = start(byteledger, places[0], there.address, python(GROWS % 5), name="no.blt", token=wrong)
            errors = child.communicate(timeout=60)[1]
            assert child.returncode == 0 and "its token is another one" in errors, errors
            assert time.monotonic() - began < 5 + 10
            assert os.listdir(places[1]) == []
        child = start(byteledger, places[0], there.address, python(GROWS % 5), token=token)
        assert child.communicate(timeout=60)[1] == ""
        there.until("^sent.blt ends")
        same(places)
        errors = there.end()[1]
        assert "it shows no token" in errors and "its token is another one" in errors


def test_beyond_loopback_it_takes_a_token(byteledger, places, token):
    command = [byteledger, "gather", "--listen", "0.0.0.0:0", "--dir", str(places[1])]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "beyond this machine without a token" in done.stderr and "--token-file" in done.stderr
    for guard in (["--token-file", str(token)], ["--no-auth"]):
        with Gather(byteledger, places[1], *guard, listen="0.0.0.0:0") as there:
            there.end()
    token.chmod(0o644)
    done = subprocess.run([*command, "--token-file", str(token)], capture_output=True, text=True, timeout=20)
    assert done.returncode == 1 and "others may read" in done.stderr


def test_by_a_socket_of_the_file_system(byteledger, places, tmp_path):
    path = tmp_path / "socket"
    with Gather(byteledger, places[1], listen=f"unix:{path}") as there:
        assert there.address == f"unix:{path}" and path.stat().st_mode & 0o777 == 0o600
        child = start(byteledger, places[0], there.address, python(GROWS % 5))
        assert child.communicate(timeout=60)[1] == ""
        there.until("^sent.blt ends")
        same(places)
        again = subprocess.run([byteledger, "gather", "--listen", f"unix:{path}"], capture_output=True, text=True, timeout=20)
        assert again.returncode == 1 and "in use" in again.stderr
        there.end(signal.SIGKILL)
    with Gather(byteledger, places[1], listen=f"unix:{path}") as there:  # what a killed one left is no hindrance
        there.end()
    assert not path.exists()


def test_twenty_at_once(byteledger, places):
    with Gather(byteledger, places[1]) as there:
        children = [start(byteledger, places[0], there.address, python(GROWS % 10), name=f"of{i}.blt") for i in range(20)]
        for child in children:
            assert child.communicate(timeout=280)[1] == "" and child.returncode == 0
        for i in range(20):
            wait_for(lambda i=i: (places[1] / f"of{i}.blt").exists())
            same(places, f"of{i}.blt")
        assert len(os.listdir(places[1])) == 20


def test_what_stands_there_is_kept(byteledger, places):
    (places[1] / "sent.blt").write_text("mine")
    os.symlink("/etc/hostname", places[1] / "sent.blt.1")
    with Gather(byteledger, places[1]) as there:
        child = start(byteledger, places[0], there.address, python(GROWS % 5))
        child.communicate(timeout=60)
        there.until(r"^sent.blt.2 ends")
    assert (places[1] / "sent.blt").read_text() == "mine"
    assert filecmp.cmp(places[0] / "sent.blt", places[1] / "sent.blt.2", shallow=False)


def test_files_of_one_recording_and_children_arrive_each(byteledger, places):
    with Gather(byteledger, places[1]) as there:
        child = start(byteledger, places[0], there.address, python(CHURNS % 240), name="many.blt", BYTELEDGER_MAX_SIZE="32K")
        assert child.communicate(timeout=120)[1] == ""
        several = sorted(os.listdir(places[0]))
        assert len(several) > 2
        done = subprocess.run([byteledger, "heap", "-q", "--follow-children", "-o", "%e_%p.blt", "--", "/bin/sh", "-c",
                               "/usr/bin/python3 -c 'print([str(i) for i in range(9)])'; /bin/ls; :"], cwd=places[0],
                              env=environment(there.address), capture_output=True, text=True, timeout=120)
        assert done.returncode == 0 and done.stderr == ""
        wait_for(lambda: sorted(os.listdir(places[1])) == sorted(os.listdir(places[0])))
        names = os.listdir(places[0])
        assert len(names) >= len(several) + 3
        there.end()
        for name in names:
            same(places, name)


def test_what_an_exec_put_in_its_place_is_what_arrives(byteledger, places):
    with Gather(byteledger, places[1]) as there:
        child = start(byteledger, places[0], there.address, ["/bin/sh", "-c", 'exec /usr/bin/python3 -c "$0"', GROWS % 60], name="%e.blt")
        assert child.communicate(timeout=120)[1] == ""
        there.end()
        assert len(os.listdir(places[0])) == 1 and len(os.listdir(places[1])) == 1, there.lines
        here, arrived = places[0] / os.listdir(places[0])[0], places[1] / os.listdir(places[1])[0]
        assert filecmp.cmp(here, arrived, shallow=False) and "python" in here.name and "python" in arrived.name


def test_the_recording_of_a_sender_that_was_killed_reads_as_cut_short(byteledger, places):
    with Gather(byteledger, places[1]) as there:
        child = start(byteledger, places[0], there.address, python(GROWS % 400))
        there.until("^sent.blt begins")
        path = places[1] / "sent.blt"
        wait_for(lambda: path.stat().st_size > 4096)
        child.kill()
        child.communicate(timeout=30)
        there.until(r"^sent.blt is cut short at \d+ bytes: its sender is gone$")
        told = subprocess.run([byteledger, "report", str(path)], capture_output=True, text=True)
        assert told.returncode == 0 and "python" in told.stdout
        assert not info(byteledger, path)["file"]["being_written"] and not info(byteledger, path)["file"]["finished"]


def test_a_full_disk_is_survived_and_what_was_there_goes_on(byteledger, places):
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(places[1])], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(mounted.stderr)
    try:
        with Gather(byteledger, places[1]) as there:
            child = start(byteledger, places[0], there.address, python(CHURNS % 20000))
            there.until("^sent.blt begins")
            wait_for(lambda: (places[1] / "sent.blt").stat().st_size > 4096)
            with contextlib.suppress(OSError), open(places[1] / "ballast", "wb", buffering=0) as out:
                while True:
                    out.write(bytes(4096))
            assert "no room on the disk" in there.child.stderr.readline()
            assert subprocess.run([byteledger, "report", str(places[1] / "sent.blt")], capture_output=True).returncode == 0
            (places[1] / "ballast").unlink()
            there.until("^sent.blt goes on at")
            child.terminate()
            assert "no room on the disk there" in child.communicate(timeout=120)[1]
            there.until("^sent.blt ends")
            same(places)
    finally:
        subprocess.run(["umount", "-l", str(places[1])], check=True)


# ---- strangers ----


def header_of(places, byteledger):
    """The first bytes of a real recording."""
    subprocess.run([byteledger, "heap", "-q", "-o", str(places[0] / "real.blt"), "--", "/bin/true"], check=True, capture_output=True)
    return (places[0] / "real.blt").read_bytes()


def hello(header, name=b"sent.blt", token=b"", version=1, magic=MAGIC):
    return HELLO.pack(magic, version, 7, header[:64], name, token)


def say(sock, *parts):
    with contextlib.suppress(OSError):
        for part in parts:
            sock.sendall(part)


def hear(sock):
    """Status and what is held; None: it hung up."""
    got = b""
    with contextlib.suppress(ConnectionError):
        while len(got) < ANSWER.size and (more := sock.recv(ANSWER.size - len(got))):
            got += more
    return ANSWER.unpack(got)[1::2] if len(got) == ANSWER.size else None


def test_garbage_is_refused_and_makes_no_file(byteledger, places):
    real = header_of(places, byteledger)
    broken = bytes([real[0]]) + real[1:40] + b"\xff" + real[41:]
    with Gather(byteledger, places[1]) as there:
        for what, status in ((b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", REFUSED), (os.urandom(4096), REFUSED),
                             (hello(real, version=99), VERSIONS), (hello(real, magic=b"BLTSENT\n"), REFUSED), (hello(broken), REFUSED),
                             (hello(b"\0" * 64), REFUSED), (hello(real, name=b"x" * 176), REFUSED), (hello(real, token=b"x" * 256), REFUSED)):
            with there.connect() as sock:
                say(sock, what)
                assert (hear(sock) or (None,))[0] == status, what[:80]
        assert os.listdir(places[1]) == []
        # behind a good hello
        for i, what in enumerate((FRAME.pack(9, 0, 64), FRAME.pack(DATA, 0, 64), FRAME.pack(DATA, 1 << 20, 64), FRAME.pack(DATA, 4, 1 << 63) + b"abcd",
                                  FRAME.pack(DATA, 4, 65) + b"abcd", FRAME.pack(DATA, 4, 0) + b"abcd", FRAME.pack(END, 0, 65), FRAME.pack(END, 3, 64),
                                  FRAME.pack(ALIVE, 1, 0))):
            with there.connect() as sock:
                say(sock, hello(real, name=b"garbage.blt"))
                assert hear(sock) == (OK, 64)
                say(sock, what)
                assert hear(sock) == (REFUSED, 64), (i, what)
        assert (places[1] / "garbage.blt").read_bytes() == real[:64]
        # and it still receives
        child = start(byteledger, places[0], there.address, python(GROWS % 5))
        assert child.communicate(timeout=60)[1] == ""
        there.until("^sent.blt ends")
        same(places)


def test_a_strangers_name_leads_nowhere_else(byteledger, places):
    real = header_of(places, byteledger)
    with Gather(byteledger, places[1]) as there:
        for i, name in enumerate((b"../../escaped.blt", b"/etc/passwd", b"..", b".hidden", b"", b"a/b/", b"a\x1b[31m\nb", b"\xff\xfe", b"n" * 175)):
            other = bytearray(real[:64])
            struct.pack_into("<Q", other, 40, i)
            struct.pack_into("<I", other, 60, zlib.crc32(other[:60]))
            with there.connect() as sock:
                say(sock, hello(bytes(other), name=name))
                assert hear(sock) == (OK, 64)
                say(sock, FRAME.pack(END, 0, 64))
                assert hear(sock) == (OK, 64)
        names = os.listdir(places[1])
        assert len(names) == 9 and all(re.fullmatch(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*\.blt(\.\d+)?", name) for name in names), names
        lines = there.end()[0]
        assert all(line.isascii() and line.isprintable() for line in lines)
    assert sorted(os.listdir(places[1].parent)) == ["here", "there"]


def test_it_takes_up_what_it_holds_and_the_newer_connection_wins(byteledger, places):
    real = header_of(places, byteledger)
    with Gather(byteledger, places[1]) as there:
        with there.connect() as first, there.connect() as second:
            say(first, hello(real), FRAME.pack(DATA, 100, 64) + real[64:164])
            assert hear(first) == (OK, 64)
            wait_for(lambda: (places[1] / "sent.blt").stat().st_size == 164)
            say(second, hello(real))
            assert hear(second) == (OK, 164)
            assert first.recv(1) == b""  # the older one is let go
            say(second, FRAME.pack(DATA, len(real) - 164, 164) + real[164:], FRAME.pack(END, 0, len(real)))
            assert hear(second) == (OK, len(real))
        assert (places[1] / "sent.blt").read_bytes() == real
        # who says that a recording is to go, which this one did not begin, is not believed
        with there.connect() as third:
            say(third, hello(real))
            assert hear(third) == (OK, len(real))
            say(third, FRAME.pack(DROP, 0, 0))
            hear(third)
        assert (places[1] / "sent.blt").read_bytes() == real


def test_who_only_connects_keeps_nobody_out(byteledger, places):
    with Gather(byteledger, places[1]) as there, contextlib.ExitStack() as idle:
        for _ in range(200):
            idle.enter_context(there.connect())
        child = start(byteledger, places[0], there.address, python(GROWS % 5))
        assert child.communicate(timeout=60)[1] == ""
        there.until("^sent.blt ends")
        same(places)


def test_sixty_four_are_received_and_one_more_is_told_so(byteledger, places):
    real = header_of(places, byteledger)
    with Gather(byteledger, places[1]) as there, contextlib.ExitStack() as held:
        for i in range(65):
            other = bytearray(real[:64])
            struct.pack_into("<Q", other, 40, i)
            struct.pack_into("<I", other, 60, zlib.crc32(other[:60]))
            sock = held.enter_context(there.connect())
            say(sock, hello(bytes(other)))
            assert hear(sock) == ((OK, 64) if i < 64 else (BUSY, 0)), i
        there.end()
        assert sum("cut short" in line for line in there.lines) == 64


def test_what_is_still_to_be_sent_can_be_left(byteledger, places):
    """A receiver that never says that it has all of it: who waits for that can be told not to."""
    with socket.socket() as slow:
        slow.bind(("127.0.0.1", 0))
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.listen(1)
        child = start(byteledger, places[0], "127.0.0.1:%d" % slow.getsockname()[1], python(GROWS % 40))
        with slow.accept()[0] as taken:
            taken.settimeout(20)
            got = taken.recv(HELLO.size, socket.MSG_WAITALL)
            taken.sendall(ANSWER.pack(MAGIC, OK, 0, 64))
            assert HELLO.unpack(got)[3] == (places[0] / "sent.blt").read_bytes()[:64]
            got = b""
            while got[-FRAME.size:] != FRAME.pack(END, 0, (places[0] / "sent.blt").stat().st_size):
                got += taken.recv(65536)
            assert child.poll() is None
            child.send_signal(signal.SIGTERM)
            errors = child.communicate(timeout=3)[1]
    assert child.returncode == 0 and "1 file was not sent, or not to the end; what is here is whole" in errors


def test_what_ends_the_program_does_not_end_the_sending(byteledger, preload, places):
    """Ctrl-C reaches the program and its recorder."""
    with Gather(byteledger, places[1]) as there:
        child = subprocess.Popen(python(GROWS % 1000), cwd=places[0], stderr=subprocess.DEVNULL, start_new_session=True,
                                 env=environment(there.address, LD_PRELOAD=str(preload), BYTELEDGER_OUTPUT="sent.blt"))
        there.until("^sent.blt begins")
        wait_for(lambda: (places[1] / "sent.blt").stat().st_size > 4096)
        os.killpg(child.pid, signal.SIGINT)
        child.wait(timeout=60)
        there.until("^sent.blt ends")
        same(places)
        assert info(byteledger, places[1] / "sent.blt")["file"]["finished"]
