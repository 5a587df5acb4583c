# SPDX-License-Identifier: Apache-2.0
"""`byteledger check`: every line is an attempt, refusals name a remedy."""
import ctypes
import json
import os
import platform
import shutil
import struct
import subprocess
import tempfile

import pytest

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "../.."))


def features(byteledger, *prefix, **kw):
    done = subprocess.run([*prefix, byteledger, "check", "--format", "json"], capture_output=True, text=True, timeout=60, **kw)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return {f["feature"]: f for f in json.loads(done.stdout)}


def test_every_entry_has_the_four_keys_of_the_contract(byteledger, tmp_path):
    for entry in features(byteledger, cwd=tmp_path).values():
        assert list(entry) == ["feature", "ok", "why", "hint"]
        assert isinstance(entry["ok"], bool) and entry["why"]
    assert os.listdir(tmp_path) == []


def test_text_has_one_line_a_feature_and_hints_below_refusals(byteledger, tmp_path):
    out = subprocess.run([byteledger, "check"], capture_output=True, text=True, cwd=tmp_path).stdout.splitlines()
    names = [line.split()[1] for line in out if not line.startswith(" ")]
    assert names == list(features(byteledger, cwd=tmp_path))
    column = max(len(name) for name in names) + len("ok   ") + 1
    assert all(line[:column].strip() in ("", *(f"{word}   {name}" for word in ("ok", "no") for name in names)) and line[column] != " "
               for line in out)


def test_the_manual_explains_every_line_and_no_other(byteledger, tmp_path):
    with open(os.path.join(ROOT, "man", "byteledger-check.1"), encoding="utf-8") as f:
        lines = f.read().split(".SH LINES\n")[1].split(".SH ")[0].replace("\\-", "-").splitlines()
    explained = [line[3:] for before, line in zip(lines, lines[1:]) if before == ".TP" and line.startswith(".B ")]
    assert explained == list(features(byteledger, cwd=tmp_path))


def test_a_folder_that_cannot_be_written_is_told(byteledger):
    assert features(byteledger, cwd="/proc")["output"]["ok"] is False


def test_in_a_user_namespace_bpf_is_refused_with_a_hint(byteledger):
    if subprocess.run(["unshare", "-U", "-r", "true"], capture_output=True).returncode != 0:
        pytest.skip("this machine permits no user namespaces")
    bpf = features(byteledger, "unshare", "-U", "-r", cwd="/tmp")["bpf"]
    assert bpf["ok"] is False and "CAP_BPF" in bpf["hint"]


def test_an_unprivileged_user_is_refused_probes_with_a_hint(byteledger, tmp_path):
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root, to become somebody else")
    # a copy where that user can reach it
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        copy = shutil.copy(byteledger, folder)
        found = features(copy, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", cwd="/proc")
    assert found["memfd"]["ok"] and found["proc"]["ok"]
    assert found["uprobe"]["ok"] is False and "CAP_SYS_ADMIN" in found["uprobe"]["hint"]


def test_an_unreachable_debuginfod_server_is_told(byteledger, tmp_path):
    entry = features(byteledger, env={**os.environ, "DEBUGINFOD_URLS": "http://127.0.0.1:9/", "HOME": str(tmp_path),
                                      "DEBUGINFOD_CACHE_PATH": str(tmp_path)}, cwd=tmp_path)["debuginfod"]
    assert entry["ok"] is False
    assert "127.0.0.1:9" in entry["hint"]


def test_an_unknown_format_is_a_usage_error(byteledger):
    assert subprocess.run([byteledger, "check", "--format", "xml"], capture_output=True).returncode == 2


def as_nobody(*capabilities):
    """What stands before a command that has these capabilities and no others."""
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    words = ",".join(["-all", *("+" + name for name in capabilities)])
    return ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups", f"--inh-caps={words}", f"--ambient-caps={words}", "--"]


def test_what_is_missing_is_named_and_nothing_else(byteledger, tmp_path):
    def asked(*capabilities):
        done = subprocess.run([*as_nobody(*capabilities), byteledger, "check", "--format", "json"], cwd="/", capture_output=True, text=True,
                              timeout=100, check=False)
        return {line["feature"]: line for line in json.loads(done.stdout)}

    found = asked("bpf", "perfmon")
    if not found["bpf"]["ok"]:
        pytest.skip("the kernel grants no BPF here: " + found["bpf"]["why"])
    assert found["net-capture"]["ok"] is False and found["net-capture"]["hint"] == "run as root, or grant CAP_NET_ADMIN"
    assert found["uprobe"]["ok"] or "CAP_SYS_ADMIN" in found["uprobe"]["hint"]
    assert asked("bpf", "perfmon", "net_admin")["net-capture"]["ok"]
    assert asked("perfmon")["bpf"]["hint"] == "run as root, or grant CAP_BPF"


def test_a_seccomp_filter_is_told_from_a_missing_capability(byteledger, tmp_path):
    if os.geteuid() != 0 or platform.machine() != "x86_64":
        pytest.skip("needs root on x86-64")

    def filtered():
        """bpf() is refused, as containers' default profiles do."""
        code = b"".join(struct.pack("=HBBI", *line) for line in ((0x20, 0, 0, 0), (0x15, 0, 1, 321), (0x06, 0, 0, 0x50001), (0x06, 0, 0, 0x7fff0000)))
        keep = ctypes.create_string_buffer(code)
        program = ctypes.create_string_buffer(struct.pack("=H6xQ", 4, ctypes.addressof(keep)))
        if ctypes.CDLL(None).prctl(22, 2, program, 0, 0):
            os._exit(99)

    done = subprocess.run([byteledger, "check", "--format", "json"], cwd=tmp_path, capture_output=True, text=True, timeout=100,
                          preexec_fn=filtered, check=False)
    found = {line["feature"]: line for line in json.loads(done.stdout)}
    assert found["bpf"]["ok"] is False and "seccomp" in found["bpf"]["hint"], found["bpf"]
    assert "seccomp" in found["net-capture"]["hint"] and "seccomp" in found["bpf-stack"]["hint"]


def test_regions_says_that_it_may_not_read_what_is_resident(byteledger):
    program = subprocess.Popen(["sleep", "100"])
    try:
        done = subprocess.run([*as_nobody("sys_ptrace"), byteledger, "regions", "-p", str(program.pid), "--format", "json"], cwd="/",
                              capture_output=True, text=True, timeout=60, check=False)
    finally:
        program.kill()
        program.wait()
    assert done.returncode == 0 and json.loads(done.stdout)["allocators"] == []
    assert "allocators and stacks" in done.stderr and "CAP_DAC_READ_SEARCH" in done.stderr and done.stderr.count("byteledger:") == 1
