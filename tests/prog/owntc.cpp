// SPDX-License-Identifier: Apache-2.0
// owntc N|lines [throws] - every form of tcmalloc's own functions, N times over, with the operators and malloc beside them; with a
// second word also a tc_new that fails, and throws through whatever stands in front of it. Linked with tcmalloc as it is,
// whose malloc and operators are then the program's, too, or with one that has only the names in tc_.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <unistd.h>

#include "lines.h"

extern "C" {
void *tc_malloc(size_t n);
void *tc_malloc_skip_new_handler(size_t n);
void tc_free(void *p);
void tc_free_sized(void *p, size_t n);
void *tc_realloc(void *p, size_t n);
void *tc_calloc(size_t count, size_t n);
void tc_cfree(void *p);
void *tc_memalign(size_t align, size_t n);
int tc_posix_memalign(void **to, size_t align, size_t n);
void *tc_valloc(size_t n);
void *tc_pvalloc(size_t n);
size_t tc_nallocx(size_t n, int flags);
size_t tc_malloc_size(void *p);
void *tc_new(size_t n);
void *tc_new_nothrow(size_t n, const std::nothrow_t &);
void tc_delete(void *p);
void tc_delete_sized(void *p, size_t n);
void tc_delete_nothrow(void *p, const std::nothrow_t &);
void *tc_newarray(size_t n);
void *tc_newarray_nothrow(size_t n, const std::nothrow_t &);
void tc_deletearray(void *p);
void tc_deletearray_sized(void *p, size_t n);
void tc_deletearray_nothrow(void *p, const std::nothrow_t &);
void *tc_new_aligned(size_t n, std::align_val_t a);
void *tc_new_aligned_nothrow(size_t n, std::align_val_t a, const std::nothrow_t &);
void tc_delete_aligned(void *p, std::align_val_t a);
void tc_delete_sized_aligned(void *p, size_t n, std::align_val_t a);
void tc_delete_aligned_nothrow(void *p, std::align_val_t a, const std::nothrow_t &);
void *tc_newarray_aligned(size_t n, std::align_val_t a);
void *tc_newarray_aligned_nothrow(size_t n, std::align_val_t a, const std::nothrow_t &);
void tc_deletearray_aligned(void *p, std::align_val_t a);
void tc_deletearray_sized_aligned(void *p, size_t n, std::align_val_t a);
void tc_deletearray_aligned_nothrow(void *p, std::align_val_t a, const std::nothrow_t &);
}

static unsigned long allocs, bytes, frees;
static volatile size_t huge = (size_t)1 << 62;
static int wrong;

#define CHECK(x) ((x) ? (void)0 : (void)(wrong++, fprintf(stderr, "line %d: %s\n", __LINE__, #x)))
#define ALIGNED(p, n) CHECK((reinterpret_cast<uintptr_t>(p) & ((n)-1)) == 0)

static void *took(void *p, size_t n)
{
	CHECK(p);
	allocs++;
	bytes += n;
	return p;
}

static void *gave(void *p)
{
	frees++;
	return p;
}

static void plain()
{
	void *p = took(tc_malloc(100), 100);
	tc_free(gave(p));
	tc_free(nullptr);
	p = took(tc_malloc_skip_new_handler(110), 110);
	tc_free_sized(gave(p), 110);
	p = took(tc_calloc(3, 50), 150);
	p = took(tc_realloc(gave(p), 5000), 5000);
	CHECK(!tc_realloc(p, huge));
	tc_cfree(gave(p));
	p = took(tc_realloc(nullptr, 33), 33);
	tc_free(gave(p));
	CHECK(!tc_calloc(huge, 16));
	CHECK(!tc_malloc(huge << 1));
	p = took(tc_memalign(256, 200), 200);
	ALIGNED(p, 256);
	tc_free(gave(p));
	p = reinterpret_cast<void *>(1);
	CHECK(tc_posix_memalign(&p, 3, 10) == EINVAL);
	CHECK(tc_posix_memalign(&p, 512, 210) == 0);
	ALIGNED(p, 512);
	tc_free(gave(took(p, 210)));
	p = took(tc_valloc(220), 220);
	ALIGNED(p, 4096);
	tc_free(gave(p));
	p = took(tc_pvalloc(230), 230);
	tc_free(gave(p));
	p = took(tc_malloc(9 << 20), 9 << 20);
	tc_free(gave(p));
	CHECK(tc_nallocx(100, 0) >= 100);
}

static void news()
{
	const std::align_val_t wide{ 128 };
	void *p = took(tc_new(300), 300);
	tc_delete(gave(p));
	p = took(tc_new(310), 310);
	tc_delete_sized(gave(p), 310);
	p = took(tc_new_nothrow(320, std::nothrow), 320);
	tc_delete_nothrow(gave(p), std::nothrow);
	p = took(tc_newarray(330), 330);
	tc_deletearray(gave(p));
	p = took(tc_newarray(340), 340);
	tc_deletearray_sized(gave(p), 340);
	p = took(tc_newarray_nothrow(350, std::nothrow), 350);
	tc_deletearray_nothrow(gave(p), std::nothrow);
	p = took(tc_new_aligned(360, wide), 360);
	ALIGNED(p, 128);
	tc_delete_aligned(gave(p), wide);
	p = took(tc_new_aligned(370, wide), 370);
	tc_delete_sized_aligned(gave(p), 370, wide);
	p = took(tc_new_aligned_nothrow(380, wide, std::nothrow), 380);
	tc_delete_aligned_nothrow(gave(p), wide, std::nothrow);
	p = took(tc_newarray_aligned(390, wide), 390);
	tc_deletearray_aligned(gave(p), wide);
	p = took(tc_newarray_aligned(400, wide), 400);
	tc_deletearray_sized_aligned(gave(p), 400, wide);
	p = took(tc_newarray_aligned_nothrow(410, wide, std::nothrow), 410);
	tc_deletearray_aligned_nothrow(gave(p), wide, std::nothrow);
}

static void throws()
{
	CHECK(!tc_new_nothrow(huge, std::nothrow));
	try {
		tc_new(huge);
		wrong++;
	} catch (std::bad_alloc &) {
		allocs++; // the exception
		bytes += sizeof(std::bad_alloc) + 128;
		frees++;
	}
	void *p = took(tc_new(420), 420);
	tc_delete(gave(p));
}

static void operators()
{
	void *p = took(operator new(500), 500);
	operator delete(gave(p));
	p = took(operator new[](510), 510);
	operator delete[](gave(p));
	p = took(operator new(520, std::align_val_t(64)), 520);
	ALIGNED(p, 64);
	operator delete(gave(p), std::align_val_t(64));
	p = took(operator new(530, std::nothrow), 530);
	operator delete(gave(p), std::nothrow);
	p = took(operator new(540), 540);
	operator delete(gave(p), size_t(540));
}

static void rounds(int n, int with_throws)
{
	void *beside[64] = {};
	for (int i = 0; i < n; i++) {
		int at = i % 64;
		if (beside[at])
			free(gave(beside[at]));
		beside[at] = took(malloc(i % 500), i % 500);
		plain();
		news();
		operators();
		if (with_throws)
			throws();
	}
	for (void *p : beside)
		if (p)
			free(gave(p));
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "lines") == 0) {
		lines_ready();
		for (int n; (n = lines_next()) >= 0;) {
			allocs = bytes = frees = 0;
			rounds(n, argc > 2);
			lines_say(allocs, bytes, frees);
		}
		return wrong != 0;
	}
	rounds(argc > 1 ? atoi(argv[1]) : 1, argc > 2);
	char text[128];
	int len = snprintf(text, sizeof(text), "%lu %lu %lu\n", allocs, bytes, frees);
	if (write(8, text, len) < 0)
		wrong |= 0;
	puts(wrong ? "wrong" : "right");
	return wrong != 0;
}
