# SPDX-License-Identifier: Apache-2.0
"""Programs with an allocator of their own that rely on what no calling convention grants, or hide what leads into its functions."""
import subprocess

import pytest

from conftest import ROOT
from test_own import KEYS, grown, hooked, says # noqa: F401 (a fixture)


def test_registers_that_an_own_allocator_leaves_alone_are_left_alone(hooked, prog):
    seen, truth, _ = grown(hooked, lambda n: [prog("ownregs"), str(n)], 1, 20001)
    assert seen == truth


def test_who_calls_an_own_allocator_from_elsewhere_is_seen_along_the_frame_pointers(hooked, prog):
    seen, truth, done = grown(hooked, lambda n: [prog("ownfar"), str(n)], 1, 2001)
    assert seen == truth and b"0 unseen 0 odd" in done.stdout


def test_a_function_that_begins_anew_needs_no_more_stack(hooked, prog):
    seen, truth, done = grown(hooked, lambda n: [prog("ownloops"), str(n)], 1, 21)
    assert seen == truth and says(done, "malloc of the executable is hooked, 4 functions")


def test_an_exception_that_the_allocator_catches_itself_leaves_its_hook_alone(hooked, prog):
    low, high = (hooked([prog("ownquiet"), str(n)]) for n in (1, 21))
    # what the exceptions themselves take is lost
    assert [high.seen[k] - low.seen[k] for k in ("bytes", "frees")] == [b - a for a, b in zip(low.truth, high.truth)][1:]
    assert high.seen["foreign"] == low.seen["foreign"] == 0


@pytest.mark.parametrize("kind", ["", "_own"], ids=["libc", "own"])
def test_what_threads_without_a_buffer_do_is_counted_once(hooked, prog, kind):
    low, high = (hooked([prog("slotless" + kind), "400", str(n)]) for n in (1, 21))
    lost = [sum(row[i] for row in high.seen["lost"]) - sum(row[i] for row in low.seen["lost"]) for i in range(3)]
    assert min(lost) > 0
    assert [high.seen[k] - low.seen[k] + n for k, n in zip(KEYS, lost)] == [b - a for a, b in zip(low.truth, high.truth)]


def test_a_function_whose_other_part_leads_into_its_head_is_left_alone(hooked, prog):
    done = hooked([prog("owncold"), "100", "0"])
    assert done.truth[0] == 100 and done.seen["allocs"] == 0
    assert says(done, "malloc of the executable cannot be hooked: .*")


BUMP = """
#include <stddef.h>
#include <string.h>
static char pool[1 << 20];
static size_t used;
#define KEPT __attribute__((noipa))
KEPT void *NAME(malloc)(size_t n) { size_t at = used; used = at + ((n + 15) & ~15ul); return pool + at; }
KEPT void NAME(free)(void *p) FREE
KEPT void *NAME(calloc)(size_t n, size_t m) { return memset(NAME(malloc)(n * m), 0, n * m); }
KEPT void *NAME(realloc)(void *old, size_t n) { char *p = NAME(malloc)(n); return old ? memcpy(p, old, n) : p; }
"""
CALLS = """
#include <stddef.h>
#include <stdlib.h>
#include "truth.h"
void *NAME(malloc)(size_t n);
void NAME(free)(void *p);
void event(void *p);
int main(int argc, char **argv)
{
	for (int i = 0; i < atoi(argv[1]); i++) {
		void *p = took(NAME(malloc)(100), 100);
		event(p);
		gave(p);
		NAME(free)(p);
	}
	truth_print();
	return 0;
}
"""


@pytest.fixture
def build(tmp_path, installed):
    """build(name, source, *options) -> path of what gcc made of it"""
    def make(name, source, *options, free="{ used -= p == NULL; }", prefix=""):
        (tmp_path / f"{name}.c").write_text(source)
        subprocess.run([installed("gcc"), "-O2", "-w", "-fno-builtin", f"-DNAME(x)={prefix + '##' if prefix else ''}x", f"-DFREE={free}",
                        f"-I{ROOT}/tests/prog", tmp_path / f"{name}.c", "-o", tmp_path / name, *options], check=True, timeout=60)
        return str(tmp_path / name)
    return make


EVENT = "__attribute__((noipa)) void event(void *p) {}"


def test_a_free_that_is_one_with_other_functions_that_do_nothing_is_left_alone(hooked, build):
    # as linkers make of functions that are alike (--icf=all); one that does is not in every release's binutils
    done = hooked([build("folded", EVENT + BUMP + CALLS, free='__attribute__((alias("event")));'), "100"])
    assert done.seen["allocs"] == done.seen["frees"] == 0
    assert says(done, "free of the executable cannot be hooked: it does nothing, .*")
    # by itself it is an allocator like others
    seen, truth, _ = grown(hooked, lambda n: [build("alone", BUMP + EVENT + CALLS, free="{}"), str(n)], 1, 101)
    assert seen == truth


def test_an_executable_at_the_lowest_of_addresses_is_hooked(hooked, build):
    low = build("low", BUMP + EVENT + CALLS, "-no-pie", "-Wl,-Ttext-segment=0x20000")
    seen, truth, _ = grown(hooked, lambda n: [low, str(n)], 1, 101)
    assert seen == truth and seen[0] == 100


def test_symbols_behind_many_sections_are_found(hooked, build):
    many = "".join(f'__attribute__((section("part{i}"))) int in_part{i} = {i};\n' for i in range(100))
    path = build("parts", BUMP + EVENT + CALLS + many, prefix="mi_")
    seen, truth, done = grown(hooked, lambda n: [path, str(n)], 1, 101)
    assert seen == truth and says(done, "mimalloc .mi_. of the executable is hooked, 4 functions")


def test_a_library_above_a_large_one_is_hooked(hooked, build, tmp_path):
    library = ["-shared", "-fPIC"]
    build("libmi.so", BUMP, *library, prefix="mi_")
    build("libbig.so", "char big[1500 << 20];" + EVENT, *library)
    path = build("above", CALLS, "-Wl,--no-as-needed", f"-L{tmp_path}", "-lmi", "-lbig", f"-Wl,-rpath,{tmp_path}", prefix="mi_")
    seen, truth, done = grown(hooked, lambda n: [path, str(n)], 1, 101)
    assert seen == truth and says(done, "mimalloc .mi_. of .*libmi.so is hooked, 4 functions")


def test_an_executable_with_room_between_its_segments_is_one_allocator(hooked, installed, tmp_path):
    path = str(tmp_path / "wide")
    subprocess.run([installed("gcc"), "-O0", "-fno-builtin", "-w", "-Wl,-z,max-page-size=0x200000", f"{ROOT}/tests/prog/ownwrap.c", "-o", path],
                   check=True, timeout=60)
    seen, truth, done = grown(hooked, lambda n: [path, str(n)], 2, 102)
    assert seen == truth and done.seen["foreign"] == 0


WALKS = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "truth.h"
static char pool[1 << 20];
static size_t used;
static int found;
void *asks(size_t n);
__attribute__((noipa)) void *malloc(size_t n)
{
	uintptr_t *frame = __builtin_frame_address(0);
	for (int i = 0; i < 5 && n == 100; i++, frame = (uintptr_t *)frame[0])
		if (frame[1] - (uintptr_t)asks < 64) {
			found++;
			break;
		}
	size_t at = used;
	used = at + ((n + 15) & ~15ul);
	return pool + at;
}
__attribute__((noipa)) void free(void *p) { used -= p == NULL; }
void *calloc(size_t n, size_t m) { return memset(malloc(n * m), 0, n * m); }
void *realloc(void *old, size_t n) { void *p = malloc(n); return old ? memcpy(p, old, n) : p; }
__attribute__((noipa)) void *asks(size_t n) { return took(malloc(n), n) + (n == 1); }
int main(int argc, char **argv)
{
	for (int i = 0; i < atoi(argv[1]); i++)
		asks(100);
	truth_print();
	return found == atoi(argv[1]) ? 0 : 3;
}
"""


def test_an_own_allocator_finds_its_callers_by_their_frames(hooked, build):
    path = build("walks", WALKS, "-fno-omit-frame-pointer")
    seen, truth, done = grown(hooked, lambda n: [path, str(n)], 1, 101)
    assert done.returncode == 0 and seen == truth and truth[0] == 100


INSIDE = r"""
__asm__(".text\n.globl sums\n.type sums, @function\nsums:\n.cfi_startproc\npush %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbx, 0\n"
	".globl mi_zalloc\n.type mi_zalloc, @function\nmi_zalloc:\nlea (%rdi, %rsi), %rbx\nmov %rbx, %rax\npop %rbx\n.cfi_adjust_cfa_offset -8\n"
	"ret\n.cfi_endproc\n.size mi_zalloc, .-mi_zalloc\n.size sums, .-sums\n");
long sums(long a, long b);
void event(void *p)
{
	if (sums(3, 4) != 7)
		abort();
}
"""


def test_a_name_within_a_function_is_no_function(hooked, build):
    path = build("inside", BUMP + "#include <stdlib.h>\n" + INSIDE + CALLS, prefix="mi_")
    seen, truth, done = grown(hooked, lambda n: [path, str(n)], 1, 101)
    assert seen == truth and says(done, "mi_zalloc of the executable cannot be hooked: .*")


STOPS = """
#include <dlfcn.h>
#include <stdlib.h>
KEPT void *mi_reallocf(void *old, size_t n)
{
	if (n < 1000)
		return mi_realloc(old, n);
	mi_free(old);
	return NULL;
}
int main(void)
{
	void (*stop)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "byteledger_heap_stop");
	void *p = mi_malloc(100), *q = mi_malloc(200);
	if (stop)
		stop();
	return mi_reallocf(p, 5000) || !mi_realloc(q, 300);
}
"""


def test_a_reallocf_that_fails_while_switched_off_is_a_free(record, build):
    report = record([build("stops", BUMP + STOPS, prefix="mi_")], command="heap").report("--by", "function")
    row = next(row for row in report["rows"] if row["frames"][0]["function"] == "main")
    assert (row["allocations"], row["leaked_allocations"], report["totals"]["foreign_frees"]) == (2, 0, 0)
