#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`./dev check`: build with both compilers and the sanitizers, run every suite, add up the single cases.

First what the live tests run is built; beside them, on the processor time that they leave, the rest: see Beside.

A build counts as one case, a TAP line and a pytest function as one each. A test program that dies before it has printed its
plan counts as one failed case, however many it would have run. The last line is `N passed, N failed, N skipped`.
"""
import argparse
import json
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), ".."))
BUILD = os.path.join(ROOT, "build")
# What runs in several threads, for ThreadSanitizer.
THREADED = ["base_queue", "model_history", "model_snap", "query_follow", "node", "watch", "recorder"]


# So many failed live tests are run again, alone, to tell what hangs on the machine from what does not; they have failed either way.
AGAIN_MAX = 8


class Tally:
    def __init__(self):
        self.passed, self.failures, self.skips = 0, [], []

    def ok(self, count=1):
        self.passed += count

    def fail(self, what, detail=""):
        self.failures.append(what)
        print(f"FAILED: {what}")
        if detail:
            print("\n".join("    " + line for line in detail.strip().splitlines()[-40:]))

    def add(self, other):
        self.passed += other.passed
        self.failures += other.failures
        self.skips += other.skips

    def skip(self, what, why):
        # Root on a kernel with type information can do all that the BPF parts need: there a skip would hide a fault.
        if "BPF" in why and os.geteuid() == 0 and os.path.exists("/sys/kernel/btf/vmlinux"):
            self.fail(what, f"skipped as root on a kernel with BTF: {why}")
        else:
            self.skips.append((what, why))


def say(text):
    print(f"== {text}", flush=True)


def configure(folder, options, env):
    if os.path.exists(os.path.join(folder, "build.ninja")):
        return None
    done = subprocess.run(["meson", "setup", folder, *options], cwd=ROOT, capture_output=True, text=True,
                          env={**os.environ, **env})
    return None if done.returncode == 0 else done.stdout + done.stderr


def compile_in(tally, title, folder, options=(), env=None, targets=()):
    """Configure and build; the outcome is one case."""
    start = time.time()
    error = configure(folder, list(options), env or {})
    if not error:
        done = subprocess.run(["ninja", "-C", folder, *targets], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        error = done.stdout if done.returncode else None
    if error:
        interesting = [line for line in error.splitlines() if re.search(r"error|FAILED|ERROR|undefined", line)]
        tally.fail(title, "\n".join(interesting[:20]) or error)
        return False
    tally.ok()
    say(f"{title}: {time.time() - start:.0f} s")
    return True


def read_tap(tally, name, record):
    """One meson test of protocol tap: count its lines, and notice cases that are missing."""
    out = record["stdout"] or ""
    plan = re.search(r"^1\.\.(\d+)\s*(?:#\s*SKIP\b[:\s]*(.*))?$", out, re.M | re.I)
    if plan and plan.group(1) == "0":
        tally.skip(name, plan.group(2) or "no reason given")
        return
    seen = bad = 0
    lines = out.splitlines()
    for i, line in enumerate(lines):
        hit = re.match(r"(not )?ok\b\s*\d*\s*-?\s*(.*)", line)
        if not hit:
            continue
        seen += 1
        skip = re.search(r"#\s*SKIP\b[:\s]*(.*)", hit.group(2), re.I)
        title = f"{name}: {hit.group(2)}"
        if skip:
            # cmocka writes `not ok N # SKIP name`; its reason is the last comment before
            comments = [l[1:].strip() for l in lines[max(0, i - 3):i] if l.startswith("#")]
            tally.skip(f"{name}: {skip.group(1)}", comments[-1] if comments else "no reason given")
        elif hit.group(1):
            bad += 1
            notes = []
            for note in lines[i + 1:i + 40]:
                if re.match(r"(not )?ok\b", note):
                    break
                notes.append(note)
            tally.fail(title, "\n".join(notes) + "\n" + (record.get("stderr") or "")[-2000:])
        else:
            tally.ok()
    missing = int(plan.group(1)) - seen if plan else 1
    if missing > 0:
        tally.fail(f"{name}: {missing} of its cases were not reached", out[-1500:] + (record.get("stderr") or "")[-3000:])
    elif record["result"] not in ("OK", "EXPECTEDFAIL", "SKIP") and not bad:
        tally.fail(f"{name}: ended with {record['result']}, status {record.get('returncode')}",
                   out[-1500:] + (record.get("stderr") or "")[-3000:])


def meson_tests(tally, title, folder, suites, env=None, multiplier=1):
    start = time.time()
    args = ["meson", "test", "-C", folder, "--no-rebuild", "--logbase", "check", "-t", str(multiplier)]
    for suite in suites:
        args += ["--suite", suite]
    log = os.path.join(folder, "meson-logs", "check.json")
    if os.path.exists(log):
        os.unlink(log)
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, **(env or {})})
    if done.returncode < 0:
        # what was not begun by then left no record: silence is no pass
        tally.fail(f"{title}: meson test was ended by signal {-done.returncode}", done.stdout[-2000:])
    if not os.path.exists(log):
        if "No suitable tests" not in done.stdout:
            tally.fail(f"{title}: meson test did not run", done.stdout)
        return
    before = tally.passed
    with open(log, encoding="utf-8") as f:
        for line in f:
            record = json.loads(line)
            name = record["name"].split(":", 1)[-1]
            read_tap(tally, f"{title}, {name}", record)
    say(f"{title}: {tally.passed - before} passed, {time.time() - start:.0f} s")


def thread_tests(tally, folder):
    """The parts that run in several threads, under ThreadSanitizer: what it says fails the case."""
    start, before = time.time(), tally.passed
    vectors = os.path.join(ROOT, "tests", "vectors")
    env = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "TAP", "TSAN_OPTIONS": "halt_on_error=0:exitcode=66", "SOURCE_ROOT": ROOT,
           "TEZOS_VECTORS": os.path.join(vectors, "tezos"), "KEYS_JSON": os.path.join(vectors, "keys.json"),
           "LIBRARY": os.path.join(BUILD, "libbyteledger-heap.so")}
    for name in THREADED:
        done = subprocess.run([os.path.join(folder, "tests", "unit", f"unit_{name}")], env=env, cwd=ROOT, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=600)
        read_tap(tally, f"threads, {name}", {"stdout": done.stdout, "stderr": done.stderr, "returncode": done.returncode,
                                             "result": "OK" if done.returncode == 0 else "FAIL"})
        if done.returncode == 0 and "WARNING: ThreadSanitizer" in done.stderr:
            tally.fail(f"threads, {name}: ThreadSanitizer", done.stderr)
    say(f"threads: {tally.passed - before} passed, {time.time() - start:.0f} s")


def run_live(xml, temporary, *select):
    """pytest on the live tests; the outcome stands in `xml`."""
    if os.path.exists(xml):
        os.unlink(xml)
    return subprocess.run([sys.executable, "-m", "pytest", "-c", "tests/live/pytest.ini", "--rootdir", ".", "-q", "--no-header",
                           "-p", "no:cacheprovider", f"--basetemp={temporary}", f"--junitxml={xml}", "--tb=short", *select],
                          cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)


def passes_alone(case, temporary):
    """A failed live test twice more, with nothing of ours beside it: true when both times it passes (a skip is no pass)."""
    xml = os.path.join(BUILD, "again.xml")
    node = case.get("classname", "").replace(".", "/") + ".py::" + case.get("name")
    for _ in range(2):
        if run_live(xml, f"{temporary}/again", node).returncode != 0 or not os.path.exists(xml):
            return False
        ran = list(ET.parse(xml).getroot().iter("testcase"))
        if len(ran) != 1 or len(ran[0].findall("skipped")) > 0:
            return False
    return True


def read_live(tally, xml):
    """Count the cases of a run; returns those that failed: (case, name, detail)."""
    bad_cases = []
    for case in ET.parse(xml).getroot().iter("testcase"):
        name = f"live, {case.get('classname', '').split('.')[-1]}: {case.get('name')}"
        bad = [e for e in case if e.tag in ("failure", "error")]
        skipped = case.find("skipped")
        if bad:
            bad_cases.append((case, name, (bad[0].get("message") or "") + "\n" + (bad[0].text or "")))
        elif skipped is not None:
            tally.skip(name, skipped.get("message") or "no reason given")
        else:
            tally.ok()
    return bad_cases


def live_tests(tally, everything, select, beside):
    """
    The live suite: two files at a time, as most of them wait for something most of the time, and then what measures and is marked
    `alone`, with nothing of ours beside it: @beside has ended by then. What fails is run twice more, alone: whether it
    passes then is told beside it, and it has failed.
    """
    start = time.time()
    xml = os.path.join(BUILD, "live.xml")
    temporary = tempfile.mkdtemp(prefix="byteledger-check-")  # a short path: sockets stand there
    before, passed, ran, bad_cases = len(tally.failures), tally.passed, 0, []
    side_by_side = ["-n", str(min(2, os.cpu_count() or 1)), "--dist", "loadfile"]  # a file's tests stay together
    for number, (mark, how) in enumerate([("not alone", side_by_side), ("alone", [])]):
        if mark == "alone":
            beside.wait()
        marks = mark if everything else f"{mark} and not large and not guest"
        done = run_live(xml, f"{temporary}/t{number}", "tests/live", *how, "-m", marks, *(["-k", select] if select else []))
        if done.returncode == 5 and os.path.exists(xml):  # none is selected
            continue
        if not os.path.exists(xml):
            tally.fail("live tests did not run", done.stdout)
            continue
        ran += 1
        bad = read_live(tally, xml)
        bad_cases += bad
        if done.returncode not in (0, 1) and not bad:
            tally.fail(f"live: pytest ended with {done.returncode}", done.stdout)
    for case, name, detail in bad_cases:
        alone = len(bad_cases) <= AGAIN_MAX and passes_alone(case, temporary)
        tally.fail(name + (" (passed twice when run again, alone)" if alone else ""), detail)
    if not ran and len(tally.failures) == before:
        say("live: no test selected")
    if len(tally.failures) == before:
        shutil.rmtree(temporary, ignore_errors=True)  # hundreds of megabytes
    else:
        say(f"what the live tests wrote is kept in {temporary}")
    say(f"live: {tally.passed - passed} passed, {time.time() - start:.0f} s")


def fuzz(tally, seconds):
    done = subprocess.run([sys.executable, "scripts/fuzz.py", "--each", str(seconds)], cwd=ROOT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    for line in done.stdout.splitlines():
        hit = re.match(r"fuzz (\S+): (no finding|FINDING)", line)
        if hit and hit.group(2) == "no finding":
            tally.ok()
        elif hit:
            tally.fail(f"fuzz {hit.group(1)}", line)
    if done.returncode not in (0, 1):
        tally.fail("fuzz did not run", done.stdout)


def tidy(tally):
    done = subprocess.run([sys.executable, "scripts/tidy.py"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        tally.ok()
    else:
        tally.fail("clang-tidy", done.stdout)


class Beside:
    """What runs beside the live tests, which wait for half of their time, on what they leave of it: a process of its own."""

    def __init__(self, function):
        fork = multiprocessing.get_context("fork")
        self.ours, theirs = fork.Pipe(duplex=False)
        self.process = fork.Process(target=self.run, args=(function, theirs))
        self.process.start()
        theirs.close()
        self.tally = None

    @staticmethod
    def run(function, result):
        os.setsid()
        os.nice(10)
        try:  # where the kernel shares the processors between sessions first, nice or not (autogroups)
            with open("/proc/self/autogroup", "w", encoding="utf-8") as f:
                f.write("10")
        except OSError:
            pass
        tally = Tally()
        function(tally)
        result.send(tally)

    def wait(self):
        """Its outcome; a process that died of something says so as a failure."""
        if not self.tally:
            try:
                self.tally = self.ours.recv()
            except EOFError:
                self.tally = Tally()
                self.tally.fail("the second compiler and the sanitizers: ended before they were through")
            self.process.join()
        return self.tally

    def end(self):
        if self.process.is_alive():
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.join()


def needed_live():
    """What the live tests run: all but the unit tests and fuzz targets, which are two thirds of the build."""
    told = subprocess.run(["meson", "introspect", BUILD, "--targets"], stdout=subprocess.PIPE, text=True, check=True).stdout
    apart = tuple(os.path.join(ROOT, "tests", folder, "") for folder in ("unit", "golden", "fuzz"))
    return [os.path.relpath(name, BUILD) for target in json.loads(told) if target["build_by_default"]
            and not target["defined_in"].startswith(apart) for name in target["filename"]]


def suites(tally):
    """The suites that need no process to look at."""
    if compile_in(tally, "build of the unit tests and fuzz targets with gcc", BUILD):
        meson_tests(tally, "gcc", BUILD, ["unit", "golden", "corpus", "house"], None, 4)


def suites_and_other_builds(tally):
    """The same, the second compiler, and the sanitizers with their suites."""
    suites(tally)
    compile_in(tally, "build with clang, warnings are errors", os.path.join(BUILD, "clang"),
               ["-Dlive=false", "-Dpage=false", "-Doptimization=0", "-Ddebug=false"], {"CC": "clang", "CXX": "clang++"})
    folder = os.path.join(BUILD, "asan")
    if compile_in(tally, "build with address and undefined-behaviour sanitizers", folder,
                  ["-Db_sanitize=address,undefined", "-Db_lundef=false", "-Dlive=false", "-Doptimization=1", "-Dc_args=-g1"]):
        meson_tests(tally, "sanitizers", folder, ["unit", "golden", "corpus"],
                    {"UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1", "ASAN_OPTIONS": "detect_stack_use_after_return=0"}, 4)
    folder = os.path.join(BUILD, "tsan")
    # -Wno-tsan: it does not know the fences of src/unwind, which no test here runs in two threads
    if compile_in(tally, "build with the thread sanitizer", folder, ["-Db_sanitize=thread", "-Db_lundef=false", "-Dlive=false",
                  "-Dpage=false", "-Doptimization=1", "-Dc_args=-Wno-tsan"],
                  targets=[f"tests/unit/unit_{name}" for name in THREADED]):
        thread_tests(tally, folder)


def main():
    parser = argparse.ArgumentParser(prog="./dev check", description="build and run every test")
    parser.add_argument("--all", action="store_true", help="also large programs, other kernels, a minute of fuzzing a target")
    parser.add_argument("--quick", action="store_true", help="only the gcc build and its suites (no clang, no sanitizers)")
    parser.add_argument("-k", metavar="EXPR", help="only live tests that match (pytest -k)")
    opt = parser.parse_args()
    tally, start = Tally(), time.time()
    os.makedirs(BUILD, exist_ok=True)

    if not (error := configure(BUILD, [], {})):
        compile_in(tally, "build with gcc, warnings are errors", BUILD, targets=needed_live())
    else:
        tally.fail("configure", error)
    beside = Beside(suites if opt.quick else suites_and_other_builds)
    try:
        if os.path.exists(os.path.join(BUILD, "byteledger")):
            live_tests(tally, opt.all, opt.k, beside)
        tally.add(beside.wait())
    finally:
        beside.end()
    if opt.all:
        fuzz(tally, 60)
        tidy(tally)

    if tally.skips:
        say("skipped, and why")
        for what, why in tally.skips:
            print(f"{what}: {why}")
    scope = [] if opt.all else ["large programs, the page in a browser, other kernels under emulation, fuzzing, clang-tidy (./dev check --all)"]
    if opt.quick:
        scope.append("clang and sanitizer builds (--quick)")
    scope += ["other architectures", "measurements (./dev bench)"]
    say("not in scope of this check: " + "; ".join(scope))
    if tally.failures:
        say("failed")
        for what in tally.failures:
            print(what)
    say(f"{time.time() - start:.0f} s")
    print(f"{tally.passed} passed, {len(tally.failures)} failed, {len(tally.skips)} skipped", flush=True)
    return 1 if tally.failures else 0


sys.exit(main())
