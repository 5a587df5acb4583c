# SPDX-License-Identifier: Apache-2.0
"""`sample --serve`: an answer is what `--format json` prints, of the moment of the question."""
import json
import os
import subprocess
import urllib.error
import urllib.request

import pytest

from test_sampler import go, running
from test_serve import value_fits

pytestmark = pytest.mark.skipif(os.geteuid() != 0 or not os.path.exists("/sys/kernel/btf/vmlinux"),
                                reason="probes need root and a kernel with BTF")
ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def ask(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def address_of(sampler):
    """Where it serves; it is told before the first probe is in."""
    for line in sampler.stderr:
        if "/api/v1/sample" in line:
            return line.split()[-1]
    raise AssertionError("it told no address")


@pytest.mark.parametrize("options", [("--all",), ("--all", "--leaks", "--show-allocs")], ids=["calls", "leaks"])
def test_what_was_sampled_is_served_and_grows(byteledger, prog, options):
    with open(os.path.join(ROOT, "src", "api", "byteledger-openapi.json"), encoding="utf-8") as file:
        spec = json.load(file)
    with running(prog("calls"), "1", "2000", "600") as p, \
            subprocess.Popen([byteledger, "sample", "-p", str(p.pid), "--serve", "0", "-q", *options], stderr=subprocess.PIPE, text=True) as s:
        try:
            url = address_of(s)
            go(p)
            seen = []
            while not seen or seen[-1]["estimated_allocations"] <= max(1, seen[0]["estimated_allocations"]):
                status, told = ask(url)
                assert status == 200 and s.poll() is None
                value_fits(told, spec["components"]["schemas"]["Sample"], spec, "Sample")
                seen += told["processes"]
            assert [q["pid"] for q in seen] == [p.pid] * len(seen)
            assert [q["runtime_ns"] for q in seen] == sorted(q["runtime_ns"] for q in seen)
            assert seen[-1]["rows"] and seen[-1]["rows"][0]["frames"]
            status, told = ask(url + "?nonsense=1")
            assert status == 400 and "nonsense" in told["error"]
            status, sources = ask(url.replace("sample", "sources"))
            assert [(one["kind"], one["pid"], one["has"]) for one in sources] == [("process", p.pid, ["sample"])]
        finally:
            s.terminate()
            s.communicate(timeout=60)
        assert s.returncode == 0


def test_an_address_that_is_taken_is_refused_before_a_probe_is_in(byteledger, prog):
    with running(prog("calls"), "1", "2000", "600") as p, \
            subprocess.Popen([byteledger, "sample", "-p", str(p.pid), "--serve", "0", "-q"], stderr=subprocess.PIPE, text=True) as s:
        try:
            port = address_of(s).split(":")[2].split("/")[0]
            done = subprocess.run([byteledger, "sample", "-p", str(p.pid), f"--serve=127.0.0.1:{port}"], capture_output=True, text=True, timeout=120)
            assert done.returncode == 1 and port in done.stderr and "sampling" not in done.stderr
        finally:
            s.terminate()
            s.communicate(timeout=60)


def test_what_guards_belongs_to_what_is_served(byteledger):
    done = subprocess.run([byteledger, "sample", "-p", str(os.getpid()), "--no-auth"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "--serve" in done.stderr
