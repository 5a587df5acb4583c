# SPDX-License-Identifier: Apache-2.0
"""`heap -p PID` of a process with an allocator of its own: under malloc's names or others, in the executable or a library."""
import json
import os
import subprocess
import time

import pytest

from conftest import ROOT
from test_inject import attaches, code, data_words, recorded_again, refused, running, totals # noqa: F401

LIBRARIES = "/usr/lib/x86_64-linux-gnu"


# ---- in a library: the words that lead to it lead to hooks ----


@pytest.fixture(scope="session")
def calling(tmp_path_factory):
    """calling(source, library, prefix) -> a program of tests/prog that calls an installed library by its own names; None: ours, of jemalloc's."""
    folder, made = tmp_path_factory.mktemp("calling"), {}

    def build(source, library, prefix=""):
        if library and not os.path.exists(f"{LIBRARIES}/{library}"):
            pytest.skip(f"{library} is not installed")
        if (source, library, prefix) not in made:
            out, sources = folder / f"p{len(made)}", os.path.join(ROOT, "tests/prog")
            words = ["-O2", "-fno-builtin", "-w", *([] if source.endswith("cpp") else [f"-DPREFIX={prefix}"])]
            at = f"{LIBRARIES}/{library}" if library else f"{out}.so"
            if not library:
                subprocess.run(["gcc", *words, *(["-DWHOLE"] if prefix else []), "-fPIC", "-shared", "-o", at, f"{sources}/ownje_lib.c"],
                               check=True, timeout=60)
            subprocess.run(["g++" if source.endswith("cpp") else "gcc", *words, "-o", out, f"{sources}/{source}", at], check=True, timeout=120)
            made[source, library, prefix] = out
        return made[source, library, prefix]
    return build


FORMS = [("ownje.c", None, ""), ("ownje.c", None, "je_"), ("ownje.c", None, "_rjem_"), ("ownje.c", "libjemalloc.so.2", ""),
         ("ownmi.c", "libmimalloc.so", ""), ("owntc.cpp", "libtcmalloc_minimal.so.4", "")]
NAMES = ["mallocx", "je_", "_rjem_", "jemalloc", "mimalloc", "tcmalloc"]


def counts(is_there):
    return [is_there["allocations"], is_there["allocated_bytes"], is_there["frees"] + is_there["foreign_frees"]]


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_a_librarys_own_names_are_counted_in_every_form(running, calling, byteledger, form):
    changes = ["changes"] if form[0] != "owntc.cpp" else [] # a block where it stands; tcmalloc's second word throws
    it = running(calling(*form), "lines", *changes)
    it.say(3)
    recorder, path = it.begin()
    told = [[int(n) for n in it.say(rounds).split()] for rounds in (1, 2, 200)]
    it.end(recorder)
    assert it.say(5) # not in it any more
    it.close()
    is_there = totals(byteledger, path)
    assert counts(is_there) == [sum(n) for n in zip(*told)]
    assert is_there["foreign_frees"] == 0 and is_there["leaked_allocations"] == 0


@pytest.mark.parametrize("form", FORMS[:1] + FORMS[3:], ids=NAMES[:1] + NAMES[3:])
def test_who_is_started_is_counted_the_same(running, calling, byteledger, tmp_path, form):
    seen = []
    for name, rounds in (("few", "2\n"), ("many", "2\n50\n")):
        path = str(tmp_path / f"{name}.blt")
        subprocess.run([byteledger, "heap", "-q", "-o", path, "--", calling(*form), "lines"], input=rounds, text=True, check=True,
                       timeout=120, stdout=subprocess.DEVNULL)
        seen.append(counts(totals(byteledger, path)))
    it = running(calling(*form), "lines")
    recorder, path = it.begin()
    it.say(50)
    it.end(recorder)
    it.close()
    assert counts(totals(byteledger, path)) == [many - few for few, many in zip(*seen)]


@pytest.mark.parametrize("form", FORMS, ids=NAMES)
def test_what_led_to_a_library_is_what_it_was(running, calling, byteledger, tmp_path, form):
    it = running(calling(*form), "lines")
    it.say(2)
    before = code(it.pid)
    for again in range(3):
        recorder, path = it.begin()
        assert code(it.pid).items() >= before.items()
        told = [int(n) for n in it.say(20 + again).split()]
        it.end(recorder)
        assert data_words(it.pid) == 0
        assert code(it.pid).items() >= before.items()
        assert counts(totals(byteledger, path)) == told
    attaches(byteledger, tmp_path, it, 3)
    assert data_words(it.pid) == 0
    it.say(2)
    it.close()


def test_exceptions_pass_where_tcmalloc_is_led(running, calling, byteledger):
    """As where it is started so: each is allocated within the hook and not recorded, which is said; everything after it is."""
    it = running(calling("owntc.cpp", "libtcmalloc_minimal.so.4"), "lines", "throws")
    it.say(2)
    recorder, path = it.begin()
    told = [int(n) for n in it.say(50).split()]
    it.end(recorder)
    it.close()
    out = subprocess.run([byteledger, "report", "--format", "json", path], capture_output=True, text=True, timeout=120, check=True).stdout
    is_there = json.loads(out)
    assert is_there["lost"]["by_reason"] == {"nested_signal": 50}
    assert [n + m for n, m in zip(counts(is_there["totals"]), (50, is_there["lost"]["bytes"], 0))] == told


def test_the_summary_says_whose_names_are_led(running, calling, byteledger, tmp_path):
    it = running(calling("ownje.c", None), "lines")
    done = subprocess.run([byteledger, "heap", "-p", str(it.pid), "--duration", "100ms", "-o", tmp_path / "x.blt"], capture_output=True,
                          text=True, timeout=60)
    assert done.returncode == 0 and "also recorded: jemalloc (mallocx)" in done.stdout + done.stderr, done
    it.close()


# ---- who is refused ----


def test_who_brings_its_own_allocator_is_refused(byteledger, tmp_path):
    (tmp_path / "s.c").write_text(
        "#include <stdlib.h>\n#include <unistd.h>\nstatic char m[1<<20]; static size_t n;\n"
        "void *malloc(size_t b) { void *p = m + n; n += (b + 31) & ~15ul; return p; }\nvoid free(void *p) { (void)p; }\n"
        "void *calloc(size_t a, size_t b) { return malloc(a * b); }\nvoid *realloc(void *p, size_t b) { (void)p; return malloc(b); }\n"
        "int main(void) { free(malloc(1)); pause(); }\n")
    subprocess.run(["cc", "-o", tmp_path / "s", tmp_path / "s.c"], check=True, timeout=60)
    it = subprocess.Popen([tmp_path / "s"])
    try:
        time.sleep(0.2)
        refused(byteledger, it.pid, tmp_path, "an allocator of its own")
        assert it.poll() is None
    finally:
        it.kill()
        it.wait()


CARRIED = """
#include <stdio.h>
#include <stdlib.h>
#define JOIN2(a, b) a##b
#define JOIN(a, b) JOIN2(a, b)
#ifndef LIBRARY
#define KEPT
#else
#define KEPT __attribute__((visibility("default")))
#endif
void *JOIN(P, malloc)(size_t n);
void JOIN(P, free)(void *p);
#ifdef DEFINES
static _Alignas(16) char memory[1 << 20];
static size_t used;
KEPT __attribute__((noinline)) void *JOIN(P, malloc)(size_t n)
{
	void *p = memory + used;
	used = (used + n + 15) % sizeof(memory) / 2 & ~15ul;
	return p;
}
#ifndef NEVER_FREES
KEPT __attribute__((noinline)) void JOIN(P, free)(void *p) { __asm__ volatile("nop; nop; nop; nop; nop; nop" : : "r"(p)); }
#endif
#endif
#ifdef UNLED
int JOIN(P, reallocarr)(void *p, size_t count, size_t n);
#elif defined(LIBRARY)
KEPT int JOIN(P, reallocarr)(void *p, size_t count, size_t n) { return -1; }
#endif
#ifndef LIBRARY
int main(void)
{
	int n;
#ifdef UNLED
	if (getenv("NOT_THERE"))
		return JOIN(P, reallocarr)(&n, 1, 1);
#endif
	for (puts("ready"), fflush(stdout); scanf("%d", &n) == 1; puts("done"), fflush(stdout))
		for (int i = 0; i < n; i++) {
#ifdef CALLS
			JOIN(P, free)(JOIN(P, malloc)(24));
#endif
			free(malloc(100));
		}
}
#endif
"""


@pytest.fixture
def carrying(tmp_path):
    """carrying(prefix, *words) -> a program that carries such an allocator; libraries=N: N libraries do, beside it."""
    def build(prefix, *words, libraries=0):
        (tmp_path / "s.c").write_text(CARRIED)
        made = ["gcc", "-O1", "-fno-builtin", f"-DP={prefix}", "-o", tmp_path / "s", tmp_path / "s.c", *(f"-D{word}" for word in words)]
        for n in range(libraries):
            subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-fno-builtin", f"-DP={prefix}", "-DLIBRARY", "-DDEFINES", "-o",
                            tmp_path / f"libs{n}.so", tmp_path / "s.c"], check=True, timeout=60)
            made += ["-Wl,--no-as-needed", tmp_path / f"libs{n}.so", f"-Wl,-rpath,{tmp_path}"]
        subprocess.run(made + ([] if libraries else ["-DDEFINES"]), check=True, timeout=60)
        return tmp_path / "s"
    return build


@pytest.mark.parametrize("prefix, libraries", [("je_", 0), ("_rjem_", 0), ("tc_", 0), ("mi_", 0), ("mi_", 2)])
def test_who_has_an_allocator_under_names_of_its_own_is_refused(running, carrying, byteledger, tmp_path, prefix, libraries):
    """In the executable, or in two libraries, either of which may be meant."""
    it = running(carrying(prefix, "CALLS", libraries=libraries))
    refused(byteledger, it.pid, tmp_path, f"an allocator of its own, {prefix}malloc()")
    assert it.say("10") == "done"
    it.close()


def test_who_calls_a_librarys_function_that_has_no_hook_is_refused(running, carrying, byteledger, tmp_path):
    it = running(carrying("mi_", "CALLS", "UNLED", libraries=1))
    refused(byteledger, it.pid, tmp_path, "an allocator of its own, mi_reallocarr()")
    assert it.say("10") == "done"
    it.close()


@pytest.mark.parametrize("words, libraries, bytes_each", [(("NEVER_FREES",), 0, 100), ((), 1, 100), (("CALLS",), 1, 24)],
                         ids=["a name is no allocator", "of a library that nobody calls so", "of a library"])
def test_who_only_has_such_names_is_recorded(running, carrying, byteledger, words, libraries, bytes_each):
    it = running(carrying("mi_", *words, libraries=libraries))
    recorder, path = it.begin()
    assert it.say("10") == "done"
    it.end(recorder)
    assert totals(byteledger, path, "--min-size", str(bytes_each), "--max-size", str(bytes_each))["allocations"] == 10
    it.close()


def test_a_preloaded_program_that_carries_one_is_recorded_again(carrying, byteledger, tmp_path):
    told, path = recorded_again(byteledger, tmp_path, [carrying("je_", "CALLS")], 10)
    assert told == "done\n"
    assert totals(byteledger, path, "--min-size", "24", "--max-size", "24")["allocations"] == 10
