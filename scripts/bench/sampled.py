# SPDX-License-Identifier: Apache-2.0
"""`sample`, real programs under load: what an operation costs them in CPU time beside the same without us, and whether the stacks agree.

Each program is started once and gets the same load in turns, sampled within the default budget and not; the quotient of CPU seconds an
operation is judged, not throughput, which on a shared machine varies by itself. What was sampled is held against a full heap trace of the
same load: how much of the bytes the two give to different callers (the innermost function that is no wrapper), 0 to 1.
"""
import contextlib
import http.server
import json
import os
import queue
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import judge
import measure
import tools

PG = "/usr/lib/postgresql/15/bin"
PYTHON = """
import json, sys
d = {"a": [1, 2, 3, "xyz" * 300], "b": {"c": "y" * 900, "d": None}}
for line in sys.stdin:
    for i in range(int(line)):
        json.loads(json.dumps(d))
    print("done", flush=True)
"""
GO = """
package main
import ("bufio"; "encoding/json"; "fmt"; "os"; "strconv"; "strings")
func main() {
	in := bufio.NewScanner(os.Stdin)
	d := map[string]any{"a": []int{1, 2, 3}, "b": strings.Repeat("y", 900)}
	for in.Scan() {
		n, _ := strconv.Atoi(in.Text())
		for i := 0; i < n; i++ { b, _ := json.Marshal(d); var v any; json.Unmarshal(b, &v) }
		fmt.Println("done")
	}
}
"""
JAVA = """
import java.util.*;
public class Work {
	static Object kept;
	public static void main(String[] a) {
		Scanner in = new Scanner(System.in);
		while (in.hasNextInt()) {
			int n = in.nextInt();
			for (int i = 0; i < n; i++) { List<String> l = new ArrayList<>(); for (int k = 0; k < 20; k++) l.add("number " + i + k); kept = String.join(",", l); }
			System.out.println("done");
		}
	}
}
"""


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_port(port):
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise RuntimeError("a server does not answer")


class Program:
    """One that is there for the whole run. @argv; @work(ops) is its load; @heap: it can be started below a heap trace as well."""
    heap, ops = True, 1000

    def __init__(self, folder):
        self.folder = folder

    def start(self, before=()):
        self.process = subprocess.Popen([*before, *self.argv()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                        cwd=self.folder, start_new_session=True)
        self.ready()

    def ready(self):
        pass

    def pids(self):
        return [self.process.pid]

    def work(self, ops):
        self.process.stdin.write(f"{ops}\n")
        self.process.stdin.flush()
        if self.process.stdout.readline() != "done\n":
            raise RuntimeError(f"{self.name} ended early")

    def stop(self):
        self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)


class Python(Program):
    name, ops = "python3", 200000

    def argv(self):
        return [shutil.which("python3"), "-c", PYTHON]


class Redis(Program):
    name, ops = "redis-server", 400000

    def argv(self):
        self.port = free_port()
        return [shutil.which("redis-server"), "--port", str(self.port), "--save", "", "--appendonly", "no", "--bind", "127.0.0.1"]

    def ready(self):
        wait_port(self.port)

    def work(self, ops):
        subprocess.run(["redis-benchmark", "-p", str(self.port), "-n", str(ops // 2), "-c", "20", "-d", "200", "-t", "set,lpush", "-q"], check=True,
                       stdout=subprocess.DEVNULL)


class Nginx(Program):
    name, ops = "nginx", 400000

    def argv(self):
        self.port = free_port()
        with open(os.path.join(self.folder, "nginx.conf"), "w") as f:
            f.write(f"daemon off; master_process off; pid {self.folder}/nginx.pid; error_log {self.folder}/error.log; events {{}}\n"
                    f"http {{ access_log off; keepalive_requests 1000000; client_body_temp_path {self.folder}/a; proxy_temp_path {self.folder}/b; "
                    f"fastcgi_temp_path {self.folder}/c; uwsgi_temp_path {self.folder}/d; scgi_temp_path {self.folder}/e; "
                    f"server {{ listen 127.0.0.1:{self.port}; location / {{ return 200 'it is here'; }} }} }}\n")
        return [shutil.which("nginx"), "-c", os.path.join(self.folder, "nginx.conf")]

    def ready(self):
        wait_port(self.port)

    def work(self, ops):
        ask = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port)) as s:
            for _ in range(ops // 50):
                s.sendall(ask * 50)
                left, tail = 50, b""
                while left:
                    got = s.recv(1 << 16)
                    if not got:
                        raise RuntimeError("nginx hung up")
                    left -= (tail + got).count(b"it is here")
                    tail = (tail + got)[-9:]


class Postgres(Program):
    name, ops, heap = "postgres", 40000, False

    def argv(self):
        self.port = free_port()
        data = os.path.join(self.folder, "pg")
        shutil.chown(self.folder, "postgres")
        self.as_user = ["runuser", "-u", "postgres", "--"]
        subprocess.run([*self.as_user, f"{PG}/initdb", "-D", data, "-A", "trust"], check=True, stdout=subprocess.DEVNULL)
        return [*self.as_user, f"{PG}/postgres", "-D", data, "-p", str(self.port), "-k", self.folder, "-h", "127.0.0.1", "-c", "autovacuum=off"]

    def ready(self):
        wait_port(self.port)
        time.sleep(1)
        self.run("pgbench", "-i", "-s", "1", "-q")
        # connections that stay are what is sampled; pgbench opens its own for every run, so one is kept and asked
        self.client = subprocess.Popen([*self.as_user, "psql", "-q", "-o", "/dev/null", "-h", self.folder, "-p", str(self.port), "postgres"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, text=True, cwd=self.folder)
        self.work(10)

    def run(self, what, *options):
        subprocess.run([*self.as_user, what, "-h", self.folder, "-p", str(self.port), *options, "postgres"], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, cwd=self.folder)

    def pids(self):
        return [p for p in measure.descendants(self.process.pid) if os.path.basename(os.readlink(f"/proc/{p}/exe")) == "postgres"]

    def work(self, ops):
        self.client.stdin.write("select abalance from pgbench_accounts where aid = 77;\n" * ops + "\\echo done\n")
        self.client.stdin.flush()
        while True:
            line = self.client.stdout.readline()
            if line == "done\n":
                return
            if not line:
                raise RuntimeError("psql ended early")

    def stop(self):
        self.client.kill()
        self.process.terminate()
        os.killpg(self.process.pid, signal.SIGTERM)
        self.process.wait(30)


class Go(Program):
    name, ops, heap = "go", 400000, False

    def argv(self):
        with open(os.path.join(self.folder, "work.go"), "w") as f:
            f.write(GO)
        subprocess.run(["go", "build", "-o", "work", "work.go"], check=True, cwd=self.folder,
                       env={**os.environ, "GOCACHE": os.path.join(tools.OUT, "gocache"), "GO111MODULE": "off"})
        return [os.path.join(self.folder, "work")]


class Java(Program):
    name, ops, heap = "java", 2000000, False

    def argv(self):
        with open(os.path.join(self.folder, "Work.java"), "w") as f:
            f.write(JAVA)
        subprocess.run(["javac", "Work.java"], check=True, cwd=self.folder)
        return [shutil.which("java"), "-Xmx256m", "-cp", self.folder, "Work"]


PAGE = """<body><script>
const d = {a: [1, 2, 3], b: "y".repeat(900)};
(async () => {
	for (;;) {
		const n = await (await fetch("/next")).text();
		for (let i = 0; i < n; i++) {
			const e = document.createElement("div");
			e.textContent = "number " + i;
			document.body.appendChild(e);
			JSON.parse(JSON.stringify(d));
			if (i % 300 == 0) document.body.replaceChildren();
		}
		await fetch("/done");
	}
})();
</script>"""


class Chromium(Program):
    """One page that works when it is told; all of the browser's processes are sampled."""
    name, ops, heap = "chromium", 2500000, False

    def argv(self):
        self.wanted, self.worked = queue.Queue(), queue.Queue()
        outer = self

        class Answer(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                text = PAGE if self.path == "/" else ""
                if self.path == "/next":
                    text = str(outer.wanted.get())
                elif self.path == "/done":
                    outer.worked.put(1)
                self.send_response(200)
                self.send_header("Content-Type", "text/html" if self.path == "/" else "text/plain")
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return [shutil.which("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                "--remote-debugging-port=0", f"--user-data-dir={self.folder}/profile", f"http://127.0.0.1:{server.server_address[1]}/"]

    def ready(self):
        self.work(10)

    def pids(self):
        return [p for p in measure.descendants(self.process.pid) if os.path.basename(os.readlink(f"/proc/{p}/exe")) == "chromium"]

    def work(self, ops):
        self.wanted.put(ops)
        self.worked.get(timeout=120)


NEEDS = {Python: ["python3"], Redis: ["redis-server", "redis-benchmark"], Nginx: ["nginx"], Postgres: [f"{PG}/postgres", "psql", "pgbench"], Go: ["go"], Java: ["javac"], Chromium: ["chromium"]}


def used(program):
    return sum(measure.process_clock(p) for p in program.pids())


def turn(program, sampled):
    """(CPU seconds an operation, what sample has said)."""
    said, s = None, None
    if sampled:
        targets = [word for p in program.pids() for word in ("-p", str(p))]
        s = subprocess.Popen([tools.BYTELEDGER, "sample", *targets, "--format", "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = s.stderr.readline()
        if "sampling" not in line:
            raise RuntimeError(f"{program.name}: {line}")
    try:
        before = used(program)
        program.work(program.ops)
        spent = used(program) - before
    finally:
        if s:
            s.send_signal(signal.SIGINT)
            said = json.loads(s.communicate(timeout=120)[0])["processes"]
    return spent / program.ops, said


WRAPPER = re.compile(r"(z|je_|ngx_p?|_?x)?(m|c|re|mem)?(alloc|align)\w*|ztry\w*|z(m|re|c)alloc\w*|_?Py(Mem|Object)_\w*|ngx_p\w?alloc\w*|palloc\w*|MemoryContextAlloc\w*|operator new.*")


def callers(rows, weight, count):
    """{caller: its share of the bytes}"""
    found = {}
    for row in rows:
        # what only calls an allocator for others, as its own name says, is none
        name = next((f["function"] for f in row["frames"] if f["function"] and not WRAPPER.fullmatch(f["function"])), "?")
        found[name] = found.get(name, 0) + row[weight] * (count or 1)
    whole = sum(found.values()) or 1
    return {k: v / whole for k, v in found.items()}


def traced(program):
    """The callers of the same load by a full heap trace."""
    blt = os.path.join(program.folder, "traced.blt")
    program.start([tools.BYTELEDGER, "heap", "-q", "-o", blt, "--"])
    try:
        program.work(program.ops)
    finally:
        program.stop()
    said = subprocess.run([tools.BYTELEDGER, "report", blt, "--format", "json", "--cost", "allocated", "--no-suppress"], capture_output=True, text=True, check=True)
    return callers(json.loads(said.stdout)["rows"], "allocated_bytes", 1)


def measured(kind, opt, lock, progress):
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        program = kind(folder)
        program.start()
        series, rows = {"bare": [], "sampled": []}, []
        fractions = []
        try:
            for r in range(opt.rounds + 1):
                for v in judge.alternate(series, r):
                    progress.show(f"{program.name}, round {r}/{opt.rounds}, {v}")
                    with lock:
                        cost, said = turn(program, v == "sampled")
                    if r:
                        series[v].append(cost)
                        if said:
                            fractions.append(sum(p["cost"]["cpu_fraction"] for p in said[:1]))
                            rows += [row for p in said for row in p["rows"]]
        finally:
            program.stop()
        e = judge.estimate(judge.rows(series), judge.over("sampled", "bare"))
        result = {"us_per_op": {v: 1e6 * measure.median(x) for v, x in series.items()}, "over_bare": e.json(), "told_cost": measure.median(fractions)}
        text = f"{program.name:14} {result['us_per_op']['bare']:8.2f} us an operation; sampled {e.text(2)} of it, told to cost {100 * result['told_cost']:.2f} %"
        ours = callers(rows, "bytes", 1)
        result["samples"], result["callers"] = sum(r["samples"] for r in rows), dict(sorted(ours.items(), key=lambda x: -x[1])[:5])
        if program.heap:
            theirs = traced(kind(folder))
            result["apart"] = sum(abs(ours.get(k, 0) - theirs.get(k, 0)) for k in ours | theirs) / 2
            result["traced"] = dict(sorted(theirs.items(), key=lambda x: -x[1])[:5])
            text += f"; {result['apart']:.2f} of the bytes apart from a full trace ({result['samples']} samples)"
        progress.clear()
        print(text + "; " + ", ".join(f"{k} {100 * v:.0f} %" for k, v in list(result["callers"].items())[:3]), flush=True)
        return result


def main(opt, lock, progress):
    if os.geteuid() != 0:
        raise tools.Missing("BPF needs root")
    results = {}
    for kind, needs in NEEDS.items():
        if opt.only and kind.name not in opt.only:
            continue
        missing = [n for n in needs if not shutil.which(n)]
        if missing:
            print(f"without {kind.name}: {missing[0]} is not installed")
            continue
        results[kind.name] = measured(kind, opt, lock, progress)
    return {"sample-programs": results}
