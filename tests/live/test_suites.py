# SPDX-License-Identifier: Apache-2.0
"""Other projects' own tests, bare, recorded, and with their children followed: the same results. Sources through Debian's source
packages, by a state of apt's of its own; what cannot be fetched is skipped with its reason.

A test that ends otherwise than bare is tried twice more, alone: some of these suites have tests that a busy machine fails. What is a
harm fails each time. What fails bare, too, says nothing and is left out.
"""
import glob
import os
import re
import shutil
import signal
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
    before = set(os.listdir(folder))
    subprocess.run(["tar", "xf", archive], cwd=folder, check=True)
    made, = set(os.listdir(folder)) - before
    return str(folder / made)


def outcome(argv, cwd):
    done = subprocess.run(argv, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, timeout=280)
    return done.returncode, done.stderr.decode("utf-8", "replace")[-300:]


@pytest.mark.timeout(3000)
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


def ways(byteledger, folder, *follow):
    """Bare, recorded, and with children followed: what stands before the command."""
    recordings = folder / "recordings"
    recordings.mkdir(exist_ok=True)
    return {"bare": [], **{name: [byteledger, "run", "-q", "--no-pages", *words, "-o", str(recordings / "%e-%p.blt"), "--"]
                           for name, words in (("run", []), ("followed", ["--follow-children"])) if name in follow or not follow}}


def emptied(folder):
    shutil.rmtree(folder / "recordings", ignore_errors=True)
    (folder / "recordings").mkdir()


def same(names, before, run, folder):
    """run(prefix, name) says how the test @name ended, None: it did not. How many passed bare; all of them pass recorded, too."""
    bare = {name: run([], name) for name in names}
    good = [name for name in names if bare[name]]
    different = {}
    for way, prefix in before.items():
        for name in good if prefix else []:
            seen = run(prefix, name)
            for _ in range(2):
                if seen == bare[name]:
                    break
                if run([], name) != bare[name]:
                    seen = bare[name]  # bare, it does not end alike each time either
                    break
                seen = run(prefix, name)
            if seen != bare[name]:
                different[way, name] = bare[name], seen
        emptied(folder)
    print(f"{len(good)} of {len(names)} say something, not: {sorted(set(names) - set(good))}")
    assert not different, different
    return len(good)


def call(argv, cwd, timeout=120, **more):
    """The process, or None where it took too long; nothing of its group is left."""
    process = subprocess.Popen(argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True, **more)
    try:
        out, _ = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return None
    return subprocess.CompletedProcess(argv, process.returncode, out.decode("utf-8", "replace"), "")


@pytest.mark.timeout(3000)
def test_jemallocs_own_tests_end_as_they_do_bare(byteledger, tmp_path):
    top = source("jemalloc", tmp_path)
    for command in ["./configure", "--disable-doc"], ["make", "-s", f"-j{os.cpu_count()}", "tests_unit", "tests_integration"]:
        done = call(command, top, 1200)
        assert done and done.returncode == 0, done and done.stdout[-2000:]
    names = [os.path.relpath(path[:-2], top) for folder in ("unit", "integration") for path in glob.glob(f"{top}/test/{folder}/*.c")
             if os.access(path[:-2], os.X_OK)]

    def run(prefix, name):
        # its test.sh has the settings of each test in a script beside it
        script = f"export enable_fill=1 enable_prof=0; [ ! -e {name}.sh ] || . ./{name}.sh; exec \"$@\""
        done = call(["sh", "-c", script, "-", *prefix, f"{top}/{name}", top + "/", top + "/"], top)
        return done and done.returncode in (0, 1) and (done.returncode, re.findall(r"^(test_\w+ .*): (\w+)$", done.stdout, re.M))

    assert same(sorted(names), ways(byteledger, tmp_path), run, tmp_path) > 90


UV_LEFT_OUT = ("win/", "aix", "bsd", "darwin", "os390", "os400", "kqueue", "sunos", "cygwin", "ibmi", "hurd", "haiku", "qnx", "no-proctitle",
               "no-fsevents", "posix-hrtime", "posix-poll", "sysinfo", "android", "pthread-barrier", "fsevents", "posix-", "windows")


@pytest.mark.timeout(3000)
def test_libuvs_own_tests_end_as_they_do_bare(byteledger, tmp_path):
    top = source("libuv1", tmp_path)
    library = [path for path in glob.glob(f"{top}/src/*.c") + glob.glob(f"{top}/src/unix/*.c")
               if not any(word in os.path.relpath(path, top + "/src") for word in UV_LEFT_OUT)] + \
              glob.glob(f"{top}/src/unix/proctitle.c")
    tests = [path for path in glob.glob(f"{top}/test/*.c") if not re.search(r"/(benchmark-|runner-win|run-benchmarks)", path)]
    done = call(["gcc", "-O1", "-g", "-w", "-D_GNU_SOURCE", f"-I{top}/include", f"-I{top}/src", "-o", f"{top}/uv_run_tests",
                 *sorted(set(library)), *tests, "-lpthread", "-ldl", "-lrt",
                 "-Wl,--allow-multiple-definition"], top, 600)  # a test includes one of the sources
    assert done.returncode == 0, done.stdout[-2000:]
    env = {**os.environ, "UV_RUN_AS_ROOT": "1"}
    names = [name for name in call([f"{top}/uv_run_tests", "--list"], top, env=env).stdout.split() if name != "fail_always"]

    def run(prefix, name):
        done = call([*prefix, f"{top}/uv_run_tests", name], top, env=env)
        return done and done.returncode == 0 and not re.search("skip", done.stdout, re.I) and done.returncode == 0

    assert same(names, ways(byteledger, tmp_path), run, tmp_path) > 250


REDIS = """unit/dump unit/auth unit/protocol unit/keyspace unit/scan unit/info unit/type/string unit/type/incr unit/type/list unit/type/set
    unit/multi unit/quit unit/pubsub""".split()


@pytest.mark.timeout(3000)
def test_redis_own_units_end_as_they_do_bare(byteledger, installed, tmp_path_factory):
    installed("tclsh"), installed("redis-server")
    tmp_path = tmp_path_factory.mktemp("r")  # its servers' sockets have long names: of a path 107 characters are left
    top = source("redis", tmp_path)
    for name in "redis-server", "redis-cli", "redis-benchmark", "redis-check-aof", "redis-check-rdb":
        os.symlink(installed(name), f"{top}/src/{name}")

    def run(prefix, name):
        done = call([*prefix, "tclsh", "tests/test_helper.tcl", "--single", name, "--clients", "1", "--baseport", "21111"], top, 400)
        return done and done.returncode == 0 and sorted(re.findall(r"\[ok\]: (.*?)(?: \(\d+ ms\))?$", re.sub("\x1b\\[[0-9;]*m", "", done.stdout), re.M))

    assert same(REDIS, ways(byteledger, tmp_path, "followed"), run, tmp_path) == len(REDIS)


SQL = """test_setup boolean char name varchar text int2 int4 int8 oid float4 float8 bit numeric uuid enum money rangetypes strings point lseg
    line box path polygon circle date time timetz timestamp interval inet macaddr geometry regex expressions copy insert
    create_table create_index triggers select join aggregates arrays subselect union case transactions portals update delete gin gist
    jsonb json with plpgsql window xml temp sequence""".split()


@pytest.mark.timeout(3000)
def test_postgresqls_regress_scripts_end_as_they_do_bare(byteledger, tmp_path):
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    if not found or os.geteuid() != 0 or not shutil.which("setpriv"):
        pytest.skip("needs postgresql, root and setpriv")
    bins = os.path.dirname(found[-1])
    regress, = glob.glob(os.path.dirname(bins) + "/lib/pgxs/src/test/regress/pg_regress") or [""]
    if not regress:
        pytest.skip("pg_regress is not installed")
    top = source("postgresql-" + os.path.basename(os.path.dirname(bins)), tmp_path)
    tmp_path.chmod(0o777)
    for up in tmp_path.parents:  # the server's user has to come here
        if up != tmp_path.anchor and os.stat(up).st_uid == 0 and not os.stat(up).st_mode & 1 and str(up).startswith(("/tmp/", "/var/tmp/")):
            up.chmod(up.stat().st_mode | 0o011)
    user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    outcomes = {}
    for way, prefix in ways(byteledger, tmp_path).items():
        place = tmp_path / way
        place.mkdir()
        (tmp_path / "recordings").chmod(0o777)
        shutil.chown(place, "postgres", "postgres")
        data = str(place / "data")
        subprocess.run([*user, f"{bins}/initdb", "-D", data, "-A", "trust", "-N", "--no-locale"], check=True, capture_output=True, timeout=100, cwd=place)
        server = subprocess.Popen([*user, *prefix, found[-1], "-D", data, "-c", "listen_addresses=", "-k", str(place)], cwd=place,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            subprocess.run(["sh", "-c", f"until {bins}/pg_isready -q -h {place}; do sleep 0.1; done"], check=True, timeout=100)
            done = call([*user, regress, "--use-existing", "--dbname=postgres", f"--host={place}", f"--inputdir={top}/src/test/regress",
                         f"--outputdir={place}", f"--bindir={bins}", f"--dlpath={place}", *SQL], place, 1200)
            assert done, "pg_regress took too long"
            outcomes[way] = dict(re.findall(r"^test (\w+) +\.\.\. (ok|FAILED)", done.stdout, re.M))
            assert set(outcomes[way]) == set(SQL), done.stdout[-2000:]
            outcomes[way + "'s words"] = {name: masked(f"{place}/results/{name}.out", place) for name in SQL}
        finally:
            with open(f"{data}/postmaster.pid", encoding="ascii") as file:
                os.kill(int(file.readline()), signal.SIGINT)
            server.wait(100)
        emptied(tmp_path)
    print({way: list(o.values()).count("ok") for way, o in outcomes.items() if "'" not in way})
    assert list(outcomes["bare"].values()).count("ok") > len(SQL) / 2
    for way in "run", "followed":
        different = {name for name in SQL if outcomes[way][name] != outcomes["bare"][name]}
        assert not different, (way, different)


def masked(path, place):
    with open(path, encoding="utf-8", errors="replace") as file:
        return re.sub(r"\d+", "N", file.read().replace(str(place), ""))


# cheap ones: bz2, decimal, io, lzma, multiprocessing, subprocess and threading take half a minute or more each time
PYTHON = """test_abc test_argparse test_array test_ast test_base64 test_bigmem test_binascii test_bisect test_bytes test_calendar
    test_cmath test_codecs test_collections test_configparser test_contextlib test_copy test_csv test_dataclasses test_deque
    test_dict test_difflib test_email test_enum test_exceptions test_fork1 test_functools test_gc test_generators test_hashlib test_heapq
    test_itertools test_json test_list test_marshal test_memoryview test_mmap test_pickle
    test_posix test_re test_resource test_set test_signal test_sqlite3 test_string test_struct test_sys test_tempfile
    test_thread test_tracemalloc test_tuple test_unicode test_userdict test_wait3 test_wait4 test_weakref test_zlib""".split()


@pytest.mark.timeout(3000)
def test_cpythons_own_modules_end_as_they_do_bare(byteledger, tmp_path):
    version = subprocess.run(["/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True,
                             text=True, check=True).stdout.strip()
    top = source(f"python{version}", tmp_path)
    os.makedirs(f"{tmp_path}/lib")
    os.symlink(f"{top}/Lib/test", f"{tmp_path}/lib/test")
    (tmp_path / "work").mkdir()
    env = {**os.environ, "PYTHONPATH": f"{tmp_path}/lib", "PYTHONDONTWRITEBYTECODE": "1", "TZ": "UTC"}
    names = [name for name in PYTHON if glob.glob(f"{top}/Lib/test/{name}*")]

    def run(prefix, name):
        done = call([*prefix, "/usr/bin/python3", "-m", "unittest", "-q", f"test.{name}"], tmp_path / "work", 300, env=env)
        if not done:
            return None
        ran = re.findall(r"^Ran (\d+) tests? in", done.stdout, re.M)
        bad = sorted(re.findall(r"^(?:FAIL|ERROR): (\w+) \(", done.stdout, re.M))
        return ran and ran[-1] != "0" and (ran[-1], bad)

    assert same(names, ways(byteledger, tmp_path, "followed"), run, tmp_path) >= 50
