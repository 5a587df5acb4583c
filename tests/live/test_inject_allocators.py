# SPDX-License-Identifier: Apache-2.0
"""`heap -p PID` of a process with an allocator of its own: under malloc's names or others, in the executable or a library."""
import subprocess
import time

import pytest

from test_inject import recorded_again, refused, running, totals # noqa: F401


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
#ifndef LIBRARY
int main(void)
{
	int n;
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
    """carrying(prefix, *words) -> a program that carries such an allocator; of="library": a library does, beside it."""
    def build(prefix, *words, of="executable"):
        (tmp_path / "s.c").write_text(CARRIED)
        made = ["gcc", "-O1", "-fno-builtin", f"-DP={prefix}", "-o", tmp_path / "s", tmp_path / "s.c", *(f"-D{word}" for word in words)]
        if of == "library":
            subprocess.run(["gcc", "-O1", "-fPIC", "-shared", "-fno-builtin", f"-DP={prefix}", "-DLIBRARY", "-DDEFINES", "-o",
                            tmp_path / "libs.so", tmp_path / "s.c"], check=True, timeout=60)
            made += ["-Wl,--no-as-needed", tmp_path / "libs.so", f"-Wl,-rpath,{tmp_path}"]
        else:
            made.append("-DDEFINES")
        subprocess.run(made, check=True, timeout=60)
        return tmp_path / "s"
    return build


@pytest.mark.parametrize("prefix, of", [("je_", "executable"), ("_rjem_", "executable"), ("tc_", "executable"), ("mi_", "executable"),
                                        ("mi_", "library")])
def test_who_has_an_allocator_under_names_of_its_own_is_refused(running, carrying, byteledger, tmp_path, prefix, of):
    it = running(carrying(prefix, "CALLS", of=of))
    refused(byteledger, it.pid, tmp_path, f"an allocator of its own, {prefix}malloc()")
    assert it.say("10") == "done"
    it.close()


@pytest.mark.parametrize("words, of", [(("NEVER_FREES",), "executable"), ((), "library")],
                         ids=["a name is no allocator", "of a library that nobody calls so"])
def test_who_only_has_such_names_is_recorded(running, carrying, byteledger, words, of):
    it = running(carrying("mi_", *words, of=of))
    recorder, path = it.begin()
    assert it.say("10") == "done"
    it.end(recorder)
    assert totals(byteledger, path, "--min-size", "100", "--max-size", "100")["allocations"] == 10
    it.close()


def test_a_preloaded_program_that_carries_one_is_recorded_again(carrying, byteledger, tmp_path):
    told, path = recorded_again(byteledger, tmp_path, [carrying("je_", "CALLS")], 10)
    assert told == "done\n"
    assert totals(byteledger, path, "--min-size", "24", "--max-size", "24")["allocations"] == 10
