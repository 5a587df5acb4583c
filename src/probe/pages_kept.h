/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages_kept.h - earlier readings of pages: those for whoever asks by HTTP, thinned out, and those
 * that the last one is compared with. In order of use: pages_kept_put() and pages_kept_since() of
 * each reading; pages_kept_past(), pages_kept_then(); pages_kept_fini().
 */
#ifndef PROBE_PAGES_KEPT_H
#define PROBE_PAGES_KEPT_H

#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "model/pages.h"

#define PAGES_KEPT_MAX 64
#define PAGES_KEPT_EVERY_NS NS_PER_S
#define PAGES_SINCE_MAX 40
#define PAGES_SINCE_PARTS 32 /* so finely its time is met */

/**
 * struct pages_kept - zero-initialised; its references go with pages_kept_fini(). The caller's
 * lock.
 */
struct pages_kept {
	struct page_shot *kept[PAGES_KEPT_MAX];
	size_t count;
	uint64_t every_ns;
	/* one of before, then those of within */
	struct page_shot *since[PAGES_SINCE_MAX];
	size_t since_count;
};

/** pages_kept_put() - @shot is the latest; when there is no more room every second one goes. */
void pages_kept_put(struct pages_kept *kept, struct page_shot *shot);
/**
 * pages_kept_past() - the last one that is @ago_ns old or older at @now_ns; NULL: none is. Put by
 * the caller.
 */
struct page_shot *pages_kept_past(const struct pages_kept *kept, uint64_t now_ns, uint64_t ago_ns);
/**
 * pages_kept_since() - @shot is the latest: it will be compared with what was @since_ns before,
 * which is kept.
 */
void pages_kept_since(struct pages_kept *kept, struct page_shot *shot, uint64_t since_ns);
/**
 * pages_kept_then() - what the latest is compared with; NULL: nothing. Lent until the next
 * pages_kept_since().
 */
const struct page_shot *pages_kept_then(const struct pages_kept *kept);
void pages_kept_fini(struct pages_kept *kept);

#endif
