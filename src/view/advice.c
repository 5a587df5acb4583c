/* SPDX-License-Identifier: Apache-2.0 */
/*
 * advice.c - what would bring resident bytes back: rules with a forecast, ranked by it. Savings
 * overlap and are never added up.
 */
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "view/explain.h"

#define LEAST_PERCENT 2 /* of RSS: less is not worth a line */
#define FULL_PERCENT \
	25 /* a group that fills less of its units would do better in units of its own */

const char *advice_bound_name(enum advice_bound bound)
{
	static const char *const names[] = { "exact", "at-most", "unknown" };
	return names[bound];
}

static int is_worth(const struct explain *e, uint64_t bytes)
{
	return bytes && bytes / LEAST_PERCENT >= e->sheet->rss_bytes / 100;
}

static struct advice *add(struct explain *e, const char *id, uint64_t saves,
			  enum advice_bound bound)
{
	if (e->advice_count == ADVICE_MAX)
		return NULL;
	unsigned at = e->advice_count++;
	/* those without a figure come last */
	while (at && (e->advice[at - 1].saves_bytes < saves)) {
		e->advice[at] = e->advice[at - 1];
		at--;
	}
	e->advice[at] = (struct advice){ .id = id, .saves_bytes = saves, .bound = bound };
	return &e->advice[at];
}

static void refuse(struct explain *e, const char *id, const char *why)
{
	if (e->not_advised_count == ADVICE_MAX)
		return;
	struct not_advised *n = &e->not_advised[e->not_advised_count++];
	n->id = id;
	snprintf(n->why, sizeof(n->why), "%s", why);
}

#define TEXT(to, ...) snprintf(to, sizeof(to), __VA_ARGS__)

static int has(const struct explain *e, const char *name)
{
	for (size_t i = 0; i < e->snapshot->allocator_count; i++)
		if (e->snapshot->allocators[i].consistency &&
		    strcmp(snapshot_string(e->snapshot, e->snapshot->allocators[i].name), name) ==
			    0)
			return 1;
	return 0;
}

static int has_units(const struct explain *e, unsigned kind)
{
	for (size_t i = 0; i < e->snapshot->unit_count; i++)
		if (e->snapshot->units[i].kind == kind)
			return 1;
	return 0;
}

/*
 * How long what is given back stays away: what of the free pages was in use again in later
 * snapshots.
 */
static void note_again(struct advice *a, const struct instant *instant)
{
	for (size_t i = 0; i < instant->later_count; i++) {
		const struct snapshot_later *later = &instant->later[i];
		uint64_t again =
			later->again_bytes < a->saves_bytes ? later->again_bytes : a->saves_bytes;
		a->has_again = 1;
		a->again_bytes = again > a->again_bytes ? again : a->again_bytes;
		a->again_ns = later->after_ns > a->again_ns ? later->after_ns : a->again_ns;
	}
}

/* Each arena keeps what it needed at its own peak; two that share the threads keep two peaks. */
static void about_arenas(struct explain *e, const struct instant *instant)
{
	const struct sheet *sheet = e->sheet;
	uint64_t spare = sheet->other_tops_bytes + sheet->trim_bytes +
			 explain_line_bytes(e, SHEET_HOLES, "glibc malloc"),
		 saves = 0;
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX];
	struct advice *ad;
	if (instant->has_arenas && instant->arena_peaks_bytes > instant->arena_pair_bytes)
		saves = instant->arena_peaks_bytes - instant->arena_pair_bytes;
	saves = saves < spare ? saves : spare; /* no more than what is free in them */
	if (!is_worth(e, instant->has_arenas ? saves : spare)) {
		refuse(e, "arena-max",
		       instant->has_arenas && is_worth(e, spare)
			       ? "its arenas had their peaks at the same time"
			       : "its arenas hold little that is free");
		return;
	}
	if (!(ad = add(e, "arena-max", saves,
		       instant->has_arenas ? ADVICE_AT_MOST : ADVICE_UNKNOWN)))
		return;
	TEXT(ad->text, "Fewer arenas share what is free: their threads have their peaks in turns");
	TEXT(ad->command, "MALLOC_ARENA_MAX=2");
	if (instant->has_arenas)
		TEXT(ad->evidence,
		     "%u arenas needed %s, each at its own peak; two would have needed %s, one "
		     "%s",
		     e->snapshot->arenas, text_bytes(a, instant->arena_peaks_bytes),
		     text_bytes(b, instant->arena_pair_bytes),
		     text_bytes(c, instant->arenas_peak_bytes));
	else
		TEXT(ad->evidence,
		     "%u arenas; %s are free at the tops of further ones, which malloc_trim() "
		     "leaves; a recording would tell how much",
		     e->snapshot->arenas, text_bytes(a, sheet->other_tops_bytes));
	note_again(ad, instant);
}

static void about_glibc(struct explain *e, const struct instant *instant)
{
	const struct sheet *sheet = e->sheet;
	const struct snapshot *s = e->snapshot;
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	struct advice *ad;
	if (!has_units(e, SNAPSHOT_CHUNKS)) {
		refuse(e, "malloc-trim", "no heap of glibc's malloc");
		return;
	}
	if (is_worth(e, sheet->trim_bytes) &&
	    (ad = add(e, "malloc-trim", sheet->trim_bytes, ADVICE_EXACT))) {
		TEXT(ad->text, "Give the free pages back: malloc_trim(0) when the load is over");
		TEXT(ad->command, has(e, "CPython objects") ? "ctypes.CDLL(None).malloc_trim(0)"
							    : "malloc_trim(0);");
		TEXT(ad->evidence,
		     "whole free pages of %u arena%s, tops of further arenas left out", s->arenas,
		     s->arenas == 1 ? "" : "s");
		note_again(ad, instant);
	} else if (!is_worth(e, sheet->trim_bytes)) {
		refuse(e, "malloc-trim", "few free pages");
	}
	if (s->has_settings && s->trim_threshold > 131072 && is_worth(e, sheet->top_bytes) &&
	    (ad = add(e, "trim-threshold", sheet->top_bytes, ADVICE_AT_MOST))) {
		TEXT(ad->text,
		     "Let the top of the heap go by itself: a fixed threshold does not rise");
		TEXT(ad->command, "MALLOC_TRIM_THRESHOLD_=131072");
		if (s->thresholds_set)
			TEXT(ad->evidence,
			     "M_TRIM_THRESHOLD was set to %s: so much stays at the top",
			     text_bytes(a, s->trim_threshold));
		else
			TEXT(ad->evidence,
			     "a block of %s was freed; since then up to %s stay at the top",
			     text_bytes(a, s->mmap_threshold), text_bytes(b, s->trim_threshold));
		note_again(ad, instant);
	}
	if (s->arenas <= 2)
		refuse(e, "arena-max", s->arenas == 1 ? "one arena" : "two arenas");
	else
		about_arenas(e, instant);
}

static void about_others(struct explain *e, const struct instant *instant)
{
	const struct sheet *sheet = e->sheet;
	struct advice *ad;
	char a[TEXT_NUMBER_MAX];
	if (has(e, "jemalloc")) {
		uint64_t dirty = sheet->decaying_bytes + sheet->given_bytes;
		if (is_worth(e, dirty) && (ad = add(e, "jemalloc-decay", dirty, ADVICE_EXACT))) {
			TEXT(ad->text, "Let jemalloc give dirty pages back sooner, in a thread of "
				       "its own: idle threads decay nothing");
			TEXT(ad->command, "MALLOC_CONF=background_thread:true,dirty_decay_ms:1000");
			TEXT(ad->evidence, "dirty and muzzy extents");
			note_again(ad, instant);
		} else if (!is_worth(e, dirty)) {
			refuse(e, "jemalloc-decay", "few dirty pages");
		}
		uint64_t holes = explain_line_bytes(e, SHEET_HOLES, "jemalloc") + dirty;
		if (strncmp(e->snapshot->comm, "redis", 5) == 0 && is_worth(e, holes) &&
		    (ad = add(e, "defragment", holes, ADVICE_AT_MOST))) {
			TEXT(ad->text,
			     "Bring live blocks together: CONFIG SET activedefrag yes; a build on "
			     "a stock jemalloc refuses "
			     "it: DEBUG RELOAD and MEMORY PURGE, or a restart with its data");
			TEXT(ad->command, "redis-cli CONFIG SET activedefrag yes");
			TEXT(ad->evidence,
			     "free slots of slabs that some live block keeps, and free pages");
		}
	}
	if (has(e, "tcmalloc")) {
		uint64_t spans = explain_line_bytes(e, SHEET_FREE_PAGES, "tcmalloc");
		if (is_worth(e, spans) && (ad = add(e, "tcmalloc-release", spans, ADVICE_EXACT))) {
			TEXT(ad->text,
			     "Release free spans: MallocExtension::ReleaseFreeMemory(), or a rate");
			TEXT(ad->command, "TCMALLOC_RELEASE_RATE=10");
			TEXT(ad->evidence, "spans on the normal list");
			note_again(ad, instant);
		} else if (!is_worth(e, spans)) {
			refuse(e, "tcmalloc-release", "few free spans");
		}
	}
	if (has(e, "mimalloc")) {
		uint64_t pages = explain_line_bytes(e, SHEET_FREE_PAGES, "mimalloc");
		if (is_worth(e, pages) &&
		    (ad = add(e, "mimalloc-collect", pages, ADVICE_AT_MOST))) {
			TEXT(ad->text,
			     "Collect: mimalloc gives free pages back some tenths of a second "
			     "later");
			TEXT(ad->command, "mi_collect(true);");
			TEXT(ad->evidence, "slices of segments that no page has");
			note_again(ad, instant);
		}
	}
	uint64_t caches = sheet->groups[sheet->group_count + SHEET_GROUP_CACHES].alone_bytes;
	if (is_worth(e, caches) && (ad = add(e, "empty-caches", caches, ADVICE_AT_MOST))) {
		TEXT(ad->text, "Empty the caches in the threads that own them");
		TEXT(ad->command, "%s",
		     has(e, "mimalloc")   ? "mi_collect(true);"
		     : has(e, "jemalloc") ? "mallctl(\"thread.tcache.flush\", ...)"
					  : "let idle threads end");
		TEXT(ad->evidence, "pages that hold cached blocks alone; all caches hold %s",
		     text_bytes(a, sheet->class_bytes[SHEET_CACHES]));
	}
	if (is_worth(e, sheet->class_bytes[SHEET_HUGE]) &&
	    (ad = add(e, "no-thp", sheet->class_bytes[SHEET_HUGE], ADVICE_AT_MOST))) {
		TEXT(ad->text,
		     "No transparent huge pages here: what was never written takes memory as well");
		TEXT(ad->command, "prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0)");
		TEXT(ad->evidence, "pages of huge pages that hold only zeroes; the program may "
				   "have written them");
	} else if (!sheet->class_bytes[SHEET_HUGE]) {
		refuse(e, "no-thp", "no zeroes in huge pages");
	}
	if (has(e, "Go heap") && is_worth(e, sheet->runtime_free_bytes) &&
	    (ad = add(e, "go-free", sheet->runtime_free_bytes, ADVICE_AT_MOST))) {
		TEXT(ad->text,
		     "debug.FreeOSMemory() gives free spans back; GOMEMLIMIT keeps them few");
		TEXT(ad->command, "GOMEMLIMIT=...");
		TEXT(ad->evidence, "idle spans that are resident");
	}
	uint64_t pools = sheet->runtime_hole_bytes + sheet->runtime_free_bytes;
	if (has(e, "CPython objects") && is_worth(e, pools) &&
	    (ad = add(e, "restart-workers", pools, ADVICE_AT_MOST))) {
		TEXT(ad->text,
		     "A pool goes back only with its last object: restart workers after a peak");
		TEXT(ad->command, "PYTHONMALLOC=malloc shows whose objects they are, with stacks");
		TEXT(ad->evidence, "free places in pools that hold objects");
	}
	if (has(e, "HotSpot heap") && (ad = add(e, "jvm-heap", 0, ADVICE_UNKNOWN))) {
		TEXT(ad->text, "Collect, or a smaller heap: garbage is not seen from outside");
		TEXT(ad->command, "-XX:G1PeriodicGCInterval=60000, -Xmx");
		TEXT(ad->evidence, "NativeMemoryTracking tells the JVM's parts");
	}
}

/* Whose blocks are strewn over units that they hardly fill. */
static void about_groups(struct explain *e)
{
	const struct sheet *sheet = e->sheet;
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX];
	const char *units = has_units(e, SNAPSHOT_SLAB) ? "slabs" : "pages";
	for (int n = 0; n < 3; n++) {
		uint32_t best = UINT32_MAX;
		for (uint32_t i = 0; i < sheet->group_count; i++) {
			const struct sheet_group *g = &sheet->groups[i];
			int taken = 0;
			for (unsigned k = 0; k < e->advice_count; k++)
				taken |=
					strcmp(e->advice[k].id, "pool") == 0 &&
					strstr(e->advice[k].text, explain_group_name(e, i)) != NULL;
			if (!taken && is_worth(e, g->alone_bytes) &&
			    (g->live_bytes + g->waste_bytes) * 100 < g->unit_bytes * FULL_PERCENT &&
			    (best == UINT32_MAX ||
			     g->alone_bytes > sheet->groups[best].alone_bytes))
				best = i;
		}
		if (best == UINT32_MAX)
			return;
		const struct sheet_group *g = &sheet->groups[best];
		struct advice *ad =
			add(e, "pool",
			    g->alone_bytes - (g->live_bytes < g->alone_bytes ? g->live_bytes : 0),
			    ADVICE_AT_MOST);
		if (!ad)
			return;
		TEXT(ad->text, "Put %.200s's blocks together (a pool): they alone hold so many %s",
		     explain_group_name(e, best), units);
		TEXT(ad->evidence, "%s in %s blocks on %s of %s", text_bytes(a, g->live_bytes),
		     text_grouped(b, g->blocks), text_bytes(c, g->unit_bytes), units);
	}
}

void explain_advise(struct explain *e, const struct instant *instant)
{
	about_glibc(e, instant);
	about_others(e, instant);
	if (e->recorded && e->by != VIEW_BY_STACK)
		about_groups(e);
}
