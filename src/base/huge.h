/* SPDX-License-Identifier: Apache-2.0 */
/*
 * huge.h - tables that grow: moved by the kernel, not copied, and in pages of 2 MiB once that pays.
 */
#ifndef BASE_HUGE_H
#define BASE_HUGE_H

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/*
 * Then tables come from the allocator, which sees it when somebody reads behind them or forgets
 * them.
 */
#if defined(__SANITIZE_ADDRESS__)
#define HUGE_WATCHED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HUGE_WATCHED 1
#endif
#endif

/*
 * From this size on a table asks for huge pages. In a virtual machine that gives free pages back to
 * its host each fresh one costs a millisecond or more, as much as they save a table of a few MiB in
 * its whole life.
 */
#ifdef HUGE_WATCHED
#define HUGE_FROM (1u << 20) /* nobody asks; what tests make of it stays small */
#else
#define HUGE_FROM (64u << 20)
#endif

/**
 * huge_resize() - the table @old of @old_bytes (NULL, 0: none yet) with room for @bytes, no fewer
 * than before; the kernel makes whole pages of both. What is new reads as zero and costs no memory
 * until it is written. Huge pages are a wish: where the kernel has none it goes on with small ones.
 * Return: its place now; NULL without memory, and the table is as it was. Release with huge_free().
 */
static inline void *huge_resize(void *old, size_t old_bytes, size_t bytes)
{
#ifdef HUGE_WATCHED
	char *grown = old ? realloc(old, bytes) : calloc(1, bytes);
	if (old && grown)
		memset(grown + old_bytes, 0, bytes - old_bytes);
	return grown;
#else
	void *at =
		old ? mremap(old, old_bytes, bytes, MREMAP_MAYMOVE)
		    : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return NULL;
	/*
	 * of a table that has grown to it, and the whole of it: a mapping of two kinds cannot be
	 * moved
	 */
	if (old && bytes >= HUGE_FROM)
		madvise(at, bytes, MADV_HUGEPAGE);
	return at;
#endif
}

/**
 * huge_populate() - all of these pages, from the begin of the first one on, are about to be
 * written. One by one, and where each is read first, they cost up to twice as much. Before Linux
 * 5.14 they still do.
 */
static inline void huge_populate(void *at, size_t bytes)
{
	madvise(at, bytes, MADV_POPULATE_WRITE);
}

/**
 * huge_trim() - of the table @at of @bytes only the first @keep are wanted: the rest goes. Return:
 * the bytes to give huge_free().
 */
static inline size_t huge_trim(void *at, size_t bytes, size_t keep)
{
#ifdef HUGE_WATCHED
	(void)at, (void)keep;
	return bytes;
#else
	size_t page = (size_t)sysconf(_SC_PAGESIZE), kept = (keep + page - 1) & ~(page - 1);
	kept = kept ? kept : page;
	if (!at || kept >= bytes || munmap((char *)at + kept, bytes - kept) < 0)
		return bytes;
	return kept;
#endif
}

static inline void huge_free(void *at, size_t bytes)
{
#ifdef HUGE_WATCHED
	(void)bytes;
	free(at);
#else
	if (at)
		munmap(at, bytes);
#endif
}

#endif
