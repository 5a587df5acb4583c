/* SPDX-License-Identifier: Apache-2.0 */
/* sampler_govern_say.c - what was done to keep to a budget, and what figures are worth by that. */
#include <stdio.h>
#include <string.h>

#include "source/sampler_book.h"

#define HURRY_NS 20000000ull

int sampler_governor_hurries(const struct sampler_governor *g, uint64_t now_ns)
{
	return g->budget > 0 && !g->only_measure && g->on && !g->lasting && g->cut_ns > now_ns &&
	       g->cut_ns - now_ns < HURRY_NS;
}

void sampler_governor_say(struct sampler_governor *g, uint64_t now_ns)
{
	struct samples *s = g->samples;
	/* a window may have begun since */
	uint64_t open_ns = g->on && now_ns > g->since_ns ? now_ns - g->since_ns : 0;
	double on = (double)(g->on_ns + open_ns);
	double whole = (double)(now_ns - g->began_ns);
	s->duty = whole > 0 && on < whole * 0.98 ? on / whole : 1;
	s->governed[0] = '\0';
	if (s->duty < 1)
		snprintf(s->governed, sizeof(s->governed),
			 "probes were in for %.3g %% of the time, to keep to the budget: figures "
			 "are multiplied by what was left out%s",
			 100 * s->duty,
			 !g->doubts && samples_are_least(s)
				 ? ", and are at least so much: with probes in there "
				   "is time for little else"
				 : "");
	if (g->doubts) {
		size_t len = strlen(s->governed);
		snprintf(s->governed + len, sizeof(s->governed) - len,
			 "; of the rest too little was seen to tell how often it calls");
	} else if (g->unseen_ns > 0) {
		size_t len = strlen(s->governed);
		snprintf(s->governed + len, sizeof(s->governed) - len,
			 "%sthe last %.1f s were not seen, as calls before cost too much for that, "
			 "and are "
			 "taken to be like those before",
			 len ? "; " : "", g->unseen_ns / 1e9);
	}
}
