/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/pace.h"

#define FIRST_NS 250000000ull
#define LEAST_NS 500000000ull
#define SHARE 200u /* of the time: 0.5 % of a CPU */
#define EAGER_NS 50000000ull
#define EAGER_SHARE 10u
#define PAGES_SHARE 50u /* 2 % */
/*
 * Further and further apart: a day's recording has some hundred readings, most of its beginning and
 * its growth.
 */
#define PAGES_EVERY_NS 2000000000ull
#define PAGES_PART 50u

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* @now and @share times @cost more; the end of time where that is beyond it. */
static uint64_t behind(uint64_t now, uint64_t cost, unsigned share)
{
	uint64_t pause;
	if (__builtin_mul_overflow(cost, share, &pause) ||
	    __builtin_add_overflow(now, pause, &pause))
		return UINT64_MAX;
	return pause;
}

int record_pace_shot(const struct record_pace *pace, uint64_t now)
{
	return now >= (pace->eager ? EAGER_NS : FIRST_NS) && now >= pace->shot_next_ns;
}

int record_pace_pages(const struct record_pace *pace, uint64_t now, int wanted)
{
	return now >= (pace->eager ? EAGER_NS : FIRST_NS) && now >= pace->pages_pause_ns &&
	       (wanted || now >= pace->pages_next_ns);
}

void record_pace_same(struct record_pace *pace, uint64_t now)
{
	pace->pages_next_ns =
		later(pace->pages_pause_ns, now + later(now / PAGES_PART, PAGES_EVERY_NS));
}

void record_pace_spent(struct record_pace *pace, uint64_t now, uint64_t shot_ns, uint64_t pages_ns)
{
	if (shot_ns)
		pace->shot_next_ns = later(behind(now, shot_ns, pace->eager ? EAGER_SHARE : SHARE),
					   now + (pace->eager ? EAGER_NS : LEAST_NS));
	if (!pages_ns)
		return;
	pace->pages_pause_ns = behind(now, pages_ns, pace->eager ? EAGER_SHARE : PAGES_SHARE);
	record_pace_same(pace, now);
}
