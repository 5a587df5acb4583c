/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rowless.c - where code was met that belongs to no object: a program's own, made as it runs. An
 * object that comes to lie there must not take over what is known of that code's addresses, and it
 * is a page's number that both have in common.
 *
 * Any thread, in hooks: no lock, pages are only ever added. Where too many have been met the
 * further ones are not known of.
 */
#include "preload/rowless.h"

#define PAGE_SHIFT 12
/* of a number; pages 8 TiB apart may be taken for one another, which costs one generation */
#define PAGE_MASK (UINT32_MAX >> 1)
#define PLACES 2048u
#define PAGES_MAX     \
	(PLACES / 4 * \
	 3) /* so that whoever looks for one that is not there soon finds a free place */

static uint32_t places[PLACES]; /* page << 1 | it went away since; 0: free */
static uint32_t count;

static uint32_t page_of(uint64_t addr)
{
	return (uint32_t)(addr >> PAGE_SHIFT) & PAGE_MASK;
}

static uint32_t *place_of(uint32_t page, uint32_t *found)
{
	uint32_t at = (uint32_t)(page * 0x9e3779b97f4a7c15ULL >> 40) % PLACES;
	for (;; at = (at + 1) % PLACES) {
		*found = __atomic_load_n(&places[at], __ATOMIC_ACQUIRE);
		if (!*found || *found >> 1 == page)
			return &places[at];
	}
}

void rowless_met(uint64_t pc)
{
	uint32_t page = page_of(pc), found, *place;
	do {
		place = place_of(page, &found);
		if (found == page << 1 ||
		    (!found && __atomic_load_n(&count, __ATOMIC_RELAXED) >= PAGES_MAX))
			return;
	} while (!__atomic_compare_exchange_n(place, &found, page << 1, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
	if (!found)
		__atomic_fetch_add(&count, 1, __ATOMIC_RELAXED);
}

/* Whether the page of a place is one of @pages pages from @first on. */
static int lies_in(uint32_t found, uint32_t first, uint64_t pages)
{
	return found && (((found >> 1) - first) & PAGE_MASK) < pages;
}

static enum rowless look_at(uint32_t found)
{
	return !found ? ROWLESS_NONE : found & 1 ? ROWLESS_GONE : ROWLESS_THERE;
}

enum rowless rowless_in(uint64_t lo, uint64_t hi)
{
	enum rowless state = ROWLESS_NONE, one;
	uint64_t pages = ((hi - 1) >> PAGE_SHIFT) - (lo >> PAGE_SHIFT) + 1;
	uint32_t first = page_of(lo), found;
	if (!__atomic_load_n(&count, __ATOMIC_RELAXED) || hi <= lo)
		return state;
	for (uint32_t i = 0; i < (pages < PLACES ? pages : PLACES) && state != ROWLESS_THERE; i++) {
		if (pages < PLACES) {
			place_of((first + i) & PAGE_MASK, &found);
		} else {
			found = __atomic_load_n(&places[i], __ATOMIC_ACQUIRE);
			if (!lies_in(found, first, pages))
				continue;
		}
		one = look_at(found);
		state = one > state ? one : state;
	}
	return state;
}

void rowless_gone(uint64_t lo, uint64_t hi)
{
	uint64_t pages = ((hi - 1) >> PAGE_SHIFT) - (lo >> PAGE_SHIFT) + 1;
	for (uint32_t i = 0; i < PLACES; i++)
		if (lies_in(__atomic_load_n(&places[i], __ATOMIC_RELAXED), page_of(lo), pages))
			__atomic_fetch_or(&places[i], 1, __ATOMIC_RELEASE);
}
