# SPDX-License-Identifier: Apache-2.0
"""Other projects' own tests, bare, recorded, and with their children followed: the same results. Sources through Debian's source
packages, by a state of apt's of its own; what cannot be fetched is skipped with its reason."""
import glob
import os
import subprocess

import pytest

pytestmark = pytest.mark.large

CONFIG = "#define HAVE_EXECINFO_H 1\n#define HAVE_SIGALTSTACK 1\n#define HAVE_DECL_PTRACE_POKEUSER 1\n#define PACKAGE_STRING \"libunwind\"\n"
# what its Makefile.am runs on a machine of ours, but for those that want its own build: coredumps, ptrace, static linking
LIBUNWIND = """Gtest-bt Ltest-bt Gtest-exc Ltest-exc Gtest-concurrent Ltest-concurrent Gtest-trace Ltest-trace Gtest-nomalloc
    Ltest-nomalloc Ltest-nocalloc Gtest-resume-sig Ltest-resume-sig Gtest-resume-sig-rt Ltest-resume-sig-rt Ltest-varargs
    Ltest-mem-validate test-async-sig test-flush-cache test-strerror test-proc-info test-mem test-setjmp test-reg-state
    Lrs-race""".split()


def source(package, folder):
    """The unpacked source package below @folder."""
    with open("/etc/os-release", encoding="utf-8") as file:
        suite = dict(line.strip().split("=", 1) for line in file if "=" in line).get("VERSION_CODENAME", "sid").strip('"')
    (folder / "lists" / "partial").mkdir(parents=True)
    (folder / "cache" / "archives" / "partial").mkdir(parents=True)
    (folder / "sources").write_text(f"deb-src http://deb.debian.org/debian {suite} main\n")
    apt = ["apt-get", "-o", f"Dir::Etc::sourcelist={folder}/sources", "-o", "Dir::Etc::sourceparts=/dev/null",
           "-o", f"Dir::State::lists={folder}/lists", "-o", f"Dir::Cache={folder}/cache", "-o", "APT::Sandbox::User=root"]
    try:
        for command in (["update"], ["source", "--download-only", package]):
            done = subprocess.run([*apt, *command], cwd=folder, capture_output=True, timeout=400)
            if done.returncode:
                pytest.skip(f"cannot fetch {package}: {done.stderr.decode()[-200:]}")
    except (OSError, subprocess.TimeoutExpired) as error:
        pytest.skip(f"cannot fetch {package}: {error}")
    archive, = (path for path in glob.glob(f"{folder}/{package}_*.orig.tar.*") if not path.endswith(".asc"))
    subprocess.run(["tar", "xf", archive], cwd=folder, check=True)
    return next(path for path in sorted(glob.glob(f"{folder}/{package}-*")) if os.path.isdir(path))


def outcome(argv, cwd):
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=280)
    return done.returncode, done.stderr.decode("utf-8", "replace")[-300:]


def test_libunwinds_own_tests_end_as_they_do_bare(byteledger, tmp_path):
    if not glob.glob("/usr/include/**/libunwind.h", recursive=True):
        pytest.skip("libunwind-dev is not installed")
    top = source("libunwind", tmp_path)
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "config.h").write_text(CONFIG)
    built, different = [], {}
    for name in LIBUNWIND:
        done = subprocess.run(["gcc", "-O1", "-g", "-w", "-D_GNU_SOURCE", "-DHAVE_CONFIG_H", f"-I{tmp_path}/config", "-idirafter",
                               f"{top}/include", "-idirafter", f"{top}/src", "-idirafter", f"{top}/include/tdep",
                               "-o", str(tmp_path / name), f"{top}/tests/{name}.c", "-lunwind-x86_64", "-lunwind", "-lpthread",
                               "-ldl"], capture_output=True)
        if done.returncode == 0:
            built.append(name)
    print(f"built {len(built)} of {len(LIBUNWIND)}, not: {sorted(set(LIBUNWIND) - set(built))}")
    assert len(built) >= 15 and "Ltest-mem-validate" in built
    for name in built:
        bare = outcome([str(tmp_path / name)], tmp_path)
        for follow in ([], ["--follow-children"]):
            seen = outcome([byteledger, "run", "-q", *follow, "-o", str(tmp_path / f"{name}-%p.blt"), "--", str(tmp_path / name)],
                           tmp_path)
            if seen[0] != bare[0]:
                different[name, bool(follow)] = bare, seen
    assert not different, different
