# SPDX-License-Identifier: Apache-2.0
"""The web page in a real Chromium, on recordings of real programs: web/test/browser.mjs has the cases, this records and runs them."""
import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

import netapi
import pytest
import test_net_api
import test_serve_time
from test_serve import value_fits

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))
WEB = os.path.join(ROOT, "web")
pytestmark = [pytest.mark.large, pytest.mark.timeout(900)]

# Names of functions, modules and files that would do harm where they are taken for markup, formulas or the direction of text.
NAMES = ["<img src=x onerror=window.__ran=1>", "=cmd|' /C calc'!A0", "evil\u202egnp.exe", "a\x01b\u2066c", "<script>window.__ran=2</script>",
         "x" * (1 << 20), "${alert(1)}{{7*7}}", "ns::f<a<b,c>>(int)\"'&amp;"]
MODULES = ["/tmp/<b>mod</b>.so", "/lib/=evil.so"]
FILES = ["/src/<i>file</i>.c", "/src/=x.c"]

PYTHON = """
import json, threading
keep = []
def work():
    for i in range(150):
        text = json.dumps({str(k): [k] * 50 for k in range(200)})
        keep.append(text[:2000])
        json.loads(text)
threads = [threading.Thread(target=work) for _ in range(3)]
[t.start() for t in threads]
[t.join() for t in threads]
"""
HOSTILE = """
import ctypes, mmap, sys, threading, time
libc = ctypes.CDLL(None)
over = threading.Event()
keep = []
def work(name):
    libc.prctl(15, name, 0, 0, 0)
    keep.extend(bytearray(5000) for i in range(200))
    over.wait()
for name in (b"<img src=x>", b"=cmd|' /C x'", "ev\\u202eil".encode(), b"a\\x07b"):
    t = threading.Thread(target=work, args=(name,))
    t.start()
time.sleep(1)
over.set()
with open(sys.argv[2], "w+b") as file:
    file.write(bytes(1 << 16))
    file.flush()
    keep.append(mmap.mmap(file.fileno(), 1 << 16))
    keep[-1].read()
"""
CHURN = "while True: a = [bytearray(600 + i % 40) for i in range(2000)]"
SAMPLED = "import time; k = [bytearray(900) for i in range(300000)]; time.sleep(2)"
CPP = "#include <map>\n#include <string>\n#include <vector>\nint main() { std::map<std::string, std::vector<int>> m; return (int)m.size(); }\n"


def hostile_heaptrack(path):
    lines = ["v 10500 3", "X /usr/bin/<u>hostile</u> <script>alert(1)</script>", "I 1000 1000"]
    strings = MODULES + NAMES + FILES
    lines += [f"s {len(s.encode()):x} {s}" for s in strings]
    at = {s: i + 1 for i, s in enumerate(strings)}
    for k, name in enumerate(NAMES):
        lines.append(f"i {0x1000 + 16 * k:x} {at[MODULES[k % 2]]:x} {at[name]:x} {at[FILES[k % 2]]:x} {k + 1:x}")
    lines += [f"t {k + 1:x} {k:x}" for k in range(len(NAMES))] + ["c 0"]
    lines += [f"a {1000 * (k + 1):x} {k + 1:x}" for k in range(len(NAMES))]
    for k in range(len(NAMES)):
        lines += [f"+ {k:x}"] * 20 + [f"c {100 * (k + 1):x}", f"R {1000 + k:x}"]
    lines += [f"- {k:x}" for k in range(len(NAMES))] + ["c 1000"]
    with open(path, "w", encoding="utf-8", newline="\n") as file:
        file.write("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def browser():
    node, chromium = shutil.which("node"), shutil.which("chromium")
    if not node or not chromium:
        pytest.skip("node or chromium is not installed")
    if not os.path.isdir(os.path.join(WEB, "node_modules", "playwright-core")):
        pytest.skip("web/node_modules is not there: the page came built")
    return node


def run_on(recorder, seconds):
    """Until the recorder's program has had so much time of a processor, however busy the machine is."""
    def spent():
        children = Path(f"/proc/{recorder.pid}/task/{recorder.pid}/children").read_text(encoding="ascii").split()
        stats = [Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(") ", 1)[1].split() for pid in children]
        return max((int(s[11]) + int(s[12]) for s in stats), default=0) / os.sysconf("SC_CLK_TCK")
    begin, end = spent(), time.monotonic() + 120
    while spent() - begin < seconds:
        assert time.monotonic() < end and recorder.poll() is None
        time.sleep(0.02)


@pytest.fixture(scope="module")
def recordings(byteledger, tmp_path_factory):
    """name -> recording, made when it is first asked for."""
    folder = tmp_path_factory.mktemp("page")
    made = {}

    def record(name):
        if name in made:
            return made[name]
        path = str(folder / f"{name}.blt")
        run = [byteledger, "run", "-q", "-o", path, "--"]
        if name.startswith("sqlite3"):  # "sqlite3-anew": the same once more
            with open(os.path.join(ROOT, "scripts", "demo.sql"), "rb") as sql:
                subprocess.run([*run, "sqlite3", ":memory:"], stdin=sql, stdout=subprocess.DEVNULL, check=True, timeout=120)
        elif name == "python3":
            subprocess.run([*run, "/usr/bin/python3", "-c", PYTHON], stdout=subprocess.DEVNULL, check=True, timeout=120)
        elif name == "redis":
            server = shutil.which("redis-server")
            if not server:
                pytest.skip("redis-server is not installed")
            sock = str(folder / "redis.sock")
            traced = subprocess.Popen([*run, server, "--port", "0", "--unixsocket", sock, "--save", ""], stdout=subprocess.DEVNULL,
                                      cwd=folder)
            for _ in range(200):
                if os.path.exists(sock):
                    break
                subprocess.run(["sleep", "0.05"], check=True)
            subprocess.run(["redis-cli", "-s", sock, "--pipe"], input="".join(
                f"*3\r\n$3\r\nSET\r\n${len(k)}\r\n{k}\r\n${len(v)}\r\n{v}\r\n" for k, v in
                ((f"key:{i}", "v" * (i % 300)) for i in range(20000))), text=True, stdout=subprocess.DEVNULL, check=True, timeout=60)
            subprocess.run(["redis-cli", "-s", sock, "SHUTDOWN", "NOSAVE"], check=False, timeout=60)
            traced.wait(timeout=120)
        elif name == "clang":
            clang = shutil.which("clang++") or pytest.skip("clang is not installed")
            source = folder / "t.cpp"
            source.write_text(CPP, encoding="ascii")
            shown = subprocess.run([clang, "-###", "-O1", "-c", str(source), "-o", str(folder / "t.o")], capture_output=True, text=True,
                                   check=True).stderr.splitlines()
            words = [w.strip('"') for w in shown[-1].split()]
            subprocess.run([*run, *words], stdout=subprocess.DEVNULL, check=True, timeout=300)
        elif name == "sheet":
            subprocess.run([byteledger, "run", "-q", "--snapshot", "1s", "-o", path, "--", "/usr/bin/python3", "-c", PYTHON], stdout=subprocess.DEVNULL,
                           check=True, timeout=120)
        elif name == "family":
            path = str(folder / "family")
            os.makedirs(path)
            inner = "gawk 'BEGIN { for (i = 0; i < 10000; i++) a[i] = i; system(\"sort /etc/passwd >/dev/null\") }'"
            subprocess.run([byteledger, "run", "-q", "--follow-children", "-o", f"{path}/%e_%p.blt", "--", "/bin/dash", "-c",
                            f"perl -e 'my @a = map {{ \"x\" x 1000 }} 1..2000'; {inner}; true"], check=True, timeout=120)
        elif name == "sampled":
            done = subprocess.run([byteledger, "sample", "--duration", "3s", "-q", "-o", path, "--", "/usr/bin/python3", "-c", SAMPLED],
                                  capture_output=True, text=True, check=False, timeout=60)
            if done.returncode and "hint" in done.stderr:
                pytest.skip(f"no probes here: {done.stderr.splitlines()[0]}")
            assert os.path.exists(path), done.stderr
        elif name == "lossy":
            # a recorder that stands still beside a program that does not wait, for two seconds of the program's own time
            with subprocess.Popen([byteledger, "run", "-q", "--on-full", "drop", "-o", path, "--", "/usr/bin/python3", "-c", CHURN]) as recorder:
                run_on(recorder, 1)
                recorder.send_signal(signal.SIGSTOP)
                run_on(recorder, 2)
                recorder.send_signal(signal.SIGCONT)
                run_on(recorder, 0.5)
                recorder.terminate()
        elif name == "hostile":
            path = str(folder / "hostile.heaptrack")
            hostile_heaptrack(path)
        elif name == "named":
            path = str(folder / "<b onclick=window.__ran=5>.blt")
            (folder / "h.py").write_text(HOSTILE, encoding="utf-8")
            subprocess.run([byteledger, "run", "-q", "--snapshot", "1s", "-o", path, "--", "/usr/bin/python3", str(folder / "h.py"), "<script>window.__ran=4</script>",
                            str(folder / "<img src=x onerror=window.__ran=6>")], check=True, timeout=120)
        elif name == "cut":
            with open(record("sqlite3"), "rb") as whole:
                data = whole.read()
            with open(path, "wb") as part:
                part.write(data[:len(data) * 2 // 3])
        made[name] = path
        return path
    return record


def in_browser(case, browser, byteledger, tmp_path, *words):
    out = os.path.join(os.environ.get("PAGE_PICTURES", str(tmp_path)), case)
    done = subprocess.run([browser, os.path.join(WEB, "test", "browser.mjs"), case, byteledger, out, *words],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=850, check=False)
    assert done.returncode == 0, done.stdout[-6000:]
    print(done.stdout)


CASES = [("questions", ["sqlite3"]), ("questions", ["redis"]), ("questions", ["clang"]), ("questions", ["python3"]), ("links", ["sqlite3"]), ("agreement", ["sqlite3"]),
         ("hostile", ["hostile"]), ("states", ["sqlite3"]), ("trust", ["sqlite3", "cut"]), ("rows", ["sqlite3"]), ("unseen", ["sqlite3"]),
         ("wire", ["sqlite3"]), ("frames", ["clang"]), ("views", ["sqlite3", "python3"]), ("live", []), ("wrapped", []),
         ("lossy", ["lossy"]), ("sampled", ["sampled"]), ("balance", ["sheet"]), ("again", ["sqlite3", "sqlite3-anew"]), ("oneSum", ["sqlite3"]),
         ("downloads", ["sheet"]), ("groups", ["sqlite3"]), ("keys", ["sqlite3"]), ("keys", ["redis"]), ("keys", ["clang"]), ("keys", ["python3"]), ("following", []),
         ("named", ["named"]), ("struck", ["sqlite3"]), ("cells", ["sqlite3"]), ("cells", ["redis"]),
         ("family", ["family"]),
         ("ranges", ["sqlite3"]), ("far", ["sqlite3"]), ("narrow", ["python3"]), ("commands", ["sqlite3", "python3"]), ("commands", ["sheet", "sqlite3"]),
         ("tabs", [])]


@pytest.mark.parametrize("case,names", CASES, ids=["-".join([case, *names[:1]]) for case, names in CASES])
def test_page_in_chromium(case, names, browser, byteledger, recordings, tmp_path):
    in_browser(case, browser, byteledger, tmp_path, *[recordings(n) for n in names])


@pytest.mark.large
def test_page_of_a_hundred_million_events(browser, byteledger, prog, tmp_path):
    """Openings, 300 interactions with sums, the first rows of a block filter, Stop, the server's memory; moments and ranges are timed, too."""
    path = str(tmp_path / "large.blt")
    subprocess.run([prog("bigtrace"), "--phases", path, "100000000", "300000", "100000"], check=True, timeout=600)
    in_browser("large", browser, byteledger, tmp_path, path)
    with open(tmp_path / "large" / "large.json", encoding="utf-8") as file:
        figures = json.load(file)
    assert figures["allocations"] > 49000000 and figures["stacks"] > 70000 and figures["interactions"] > 250
    assert figures["first_opening_ms"] < 5000 and figures["second_opening_ms"] < 1000
    assert figures["p95_ms"] < 200 and figures["block_filter_first_rows_ms"] < 500
    assert figures["cpu_in_3_s_after_stop_ms"] <= 100 and figures["server_peak_mib"] < 477  # 500 MB


def test_page_of_a_node(browser, byteledger, tmp_path):
    """Messages, connections and logs of a store that a node's recorder filled, on the node's own port."""
    capture = tmp_path / "x.pcap"
    test_net_api.write_pcap(capture)
    test_net_api.fill(byteledger, tmp_path / "db", capture, "--identity", netapi.identity("recorder-r"), "--identity",
                      netapi.identity("drone-1"), "--local", "10.0.0.2")
    ports = {"v2": netapi.free_port(), "v3": netapi.free_port(), "udp": netapi.free_port()}
    config = netapi.config_of(tmp_path / "db", ports, log=f'{{ port = {ports["udp"]} }}')
    recorder = netapi.Recorder(byteledger, tmp_path, config, ports)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as log:
            for i in range(300):
                line = f"<{(3, 4, 6, 7)[i % 4]}>Nov 25 00:00:00 node[1]: block {i} <script>window.__ran=1</script>"
                log.sendto(line.encode(), ("127.0.0.1", ports["udp"]))
        netapi.wait_until(lambda: len(recorder.get("/v3/logs", port="v3", limit=1000)) == 300, 20, "the log's lines")
        in_browser("node", browser, byteledger, tmp_path, f"http://127.0.0.1:{ports['v3']}/")
    finally:
        recorder.stop()


def test_a_recording_and_a_nodes_store_have_one_time_axis(browser, byteledger, recordings, tmp_path):
    """What was said when memory was taken: the range of the recording's axis, in Messages and Logs of the store beside it."""
    recording = recordings("python3")
    done = subprocess.run([byteledger, "report", "--format", "json", recording], capture_output=True, text=True, check=True)
    length = json.loads(done.stdout)["process"]["runtime_ns"]
    ended = int(os.stat(recording).st_mtime_ns)
    lines = test_net_api.stream("all-kinds")
    with open(tmp_path / "x.jsonl", "w", encoding="ascii") as file:
        for i, line in enumerate(lines):
            file.write(json.dumps({**line, "conn": 1, "time_ns": ended - length + length * i // len(lines)}) + "\n")
    test_net_api.fill(byteledger, tmp_path / "db", tmp_path / "x.jsonl", "--role", "responder", "--identity", netapi.identity("recorder-r"))
    in_browser("axis", browser, byteledger, tmp_path, recording, str(tmp_path / "db"))
    in_browser("ten", browser, byteledger, tmp_path, recording, str(tmp_path / "db"))


def test_marks_of_a_program_are_flags(browser, byteledger, tmp_path):
    path = tmp_path / "x.blt"
    subprocess.run([byteledger, "heap", "-q", "-o", path, "--", "/usr/bin/python3", "-c", test_serve_time.MARKS.replace("ROUNDS", "2000").replace("0.05", "0.3")],
                   check=True, timeout=120, env={**os.environ, "PYTHONMALLOC": "malloc"})
    in_browser("marks", browser, byteledger, tmp_path, str(path))


def page_address(process):
    """Where the page is, as the command tells it on stderr."""
    for line in process.stderr:
        if "the page: " in line:
            return line.split("the page: ")[1].strip()
    raise AssertionError("it told no address")


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"), reason="counting pages needs root and a kernel with BTF")
def test_page_of_what_pages_counts(browser, byteledger, tmp_path):
    """`pages --serve` of a real program that stands still: its answer has the described shape, and the view shows it."""
    with open(os.path.join(ROOT, "src", "api", "byteledger-openapi.json"), encoding="utf-8") as file:
        spec = json.load(file)
    program = "k = [bytearray(40000) for i in range(500)]\nprint('there', flush=True)\ninput()\n"
    with subprocess.Popen([byteledger, "pages", "-q", "--serve", "127.0.0.1:0", "--", "/usr/bin/python3", "-c", program], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as pages:
        try:
            address = page_address(pages)
            assert pages.stdout.readline() == "there\n"
            with urllib.request.urlopen(address + "api/v1/pages", timeout=60) as answer:
                told = json.load(answer)
            value_fits(told, spec["components"]["schemas"]["Pages"], spec, "Pages")
            assert told["processes"][0]["rows"]
            with pytest.raises(urllib.error.HTTPError, match="400"):
                urllib.request.urlopen(address + "api/v1/pages?src=0", timeout=60)
            in_browser("pages", browser, byteledger, tmp_path, address)
        finally:
            pages.communicate("\n", timeout=60)
    assert pages.returncode == 0


@pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"), reason="probes need root and a kernel with BTF")
def test_page_of_what_sample_finds(browser, byteledger, tmp_path):
    """`sample --serve` of a program that goes on allocating."""
    program = "import time\nk = []\nwhile True:\n    k.append(bytearray(20000))\n    del k[:-500]\n    time.sleep(0.001)\n"
    with subprocess.Popen(["/usr/bin/python3", "-c", program]) as target:
        try:
            with subprocess.Popen([byteledger, "sample", "-q", "-p", str(target.pid), "--all", "--serve", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True) as sample:
                try:
                    for line in sample.stderr:
                        if "/api/v1/sample" in line:
                            break
                    in_browser("sampler", browser, byteledger, tmp_path, line.split()[-1].replace("api/v1/sample", ""))
                finally:
                    sample.terminate()
                    sample.communicate(timeout=60)
        finally:
            target.kill()


def test_page_of_a_process(browser, byteledger, tmp_path):
    """A process that grows, followed by its mappings."""
    program = "import time\nk = [str(i) * 3 for i in range(200000)]\nwhile True:\n    k.append(bytearray(20000))\n    time.sleep(0.02)\n"
    with subprocess.Popen(["/usr/bin/python3", "-c", program]) as target:
        with subprocess.Popen([byteledger, "serve", "-p", str(target.pid), "-l", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as server:
            try:
                url = server.stdout.readline().strip()
                in_browser("regions", browser, byteledger, tmp_path, url)
                in_browser("watched", browser, byteledger, tmp_path, url)
            finally:
                server.terminate()
                target.kill()


def test_the_page_is_built_to_equal_bytes_without_the_network(browser, tmp_path):
    """npm ci from its cache, vite build, twice: the same files."""
    digests = []
    for turn in ("one", "two"):
        copy = tmp_path / turn
        shutil.copytree(WEB, copy, ignore=shutil.ignore_patterns("node_modules", "dist", ".build-lock"))
        done = subprocess.run(["npm", "ci", "--offline", "--ignore-scripts"], cwd=copy, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip("npm has not all packages in its cache")
        subprocess.run(["node", "node_modules/vite/bin/vite.js", "build", "--logLevel", "error"], cwd=copy, check=True)
        whole = hashlib.sha256()
        for folder, folders, files in os.walk(copy / "dist"):
            folders.sort()
            for name in sorted(files):
                with open(os.path.join(folder, name), "rb") as file:
                    whole.update(name.encode() + b"\0" + file.read())
        digests.append(whole.hexdigest())
    assert digests[0] == digests[1]


def test_the_lock_file_names_no_registry(browser):
    with open(os.path.join(WEB, "package-lock.json"), encoding="utf-8") as file:
        text = file.read()
    packages = json.loads(text)["packages"]
    assert "resolved" not in text and all("integrity" in p for name, p in packages.items() if name)


def test_without_npm_a_built_page_is_taken_and_none_stops_with_a_hint(browser, tmp_path):
    """scripts/page.py in a tree as a release tarball has it, and in one without web/dist."""
    tree = tmp_path / "tree"
    os.makedirs(tree / "scripts")
    shutil.copytree(WEB, tree / "web", ignore=shutil.ignore_patterns("node_modules", ".build-lock"))
    os.makedirs(tree / "src" / "api")
    shutil.copy(os.path.join(ROOT, "src", "api", "byteledger-openapi.json"), tree / "src" / "api")
    script = os.path.join(ROOT, "scripts", "page.py")
    words = ["/usr/bin/python3", script, str(tree), str(tmp_path / "page.S"), str(tmp_path / "page.bin"), str(tmp_path / "page.d")]
    bare = {"PATH": str(tmp_path)}
    done = subprocess.run(words, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "page_assets" in (tmp_path / "page.S").read_text(encoding="ascii")
    shutil.rmtree(tree / "web" / "dist")
    done = subprocess.run(words, env=bare, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "there is no npm" in done.stderr and "hint:" in done.stderr
