/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/owned.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "proc/names.h"

void owned_fini(struct owned *owned)
{
	free(owned->spans);
	intern_fini(&owned->texts);
	*owned = (struct owned){ 0 };
}

int owned_add(struct owned *owned, const struct owned_span *span)
{
	if (span->end <= span->start)
		return 0;
	if (owned->count == owned->room) {
		size_t room = owned->room ? owned->room * 2 : 64;
		struct owned_span *grown = realloc(owned->spans, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		owned->spans = grown;
		owned->room = room;
	}
	struct owned_span *own = &owned->spans[owned->count];
	*own = *span;
	own->label = intern_str(&owned->texts, span->label);
	own->owner = span->owner ? intern_str(&owned->texts, span->owner) : NULL;
	if (!own->label || (span->owner && !own->owner))
		return -ENOMEM;
	owned->count++;
	return 0;
}

static int by_claim(const void *a, const void *b)
{
	const struct owned_span *x = a, *y = b;
	if (x->weak != y->weak)
		return x->weak - y->weak;
	return x->start < y->start ? -1 : x->start > y->start;
}

/* Stacks stay apart: each is one. */
static int same(const struct owned_span *a, const struct owned_span *b)
{
	return a->class != REGION_STACK_CACHE && a->class == b->class && a->label == b->label &&
	       a->owner == b->owner && a->how == b->how;
}

static void put_span(struct owned_span *to, size_t *count, struct owned_span s, uint64_t start,
		     uint64_t end)
{
	struct owned_span *last = *count ? &to[*count - 1] : NULL;
	if (end <= start)
		return;
	s.grows = s.grows && end == s.end;
	s.start = start;
	s.end = end;
	if (last && last->end == start && same(last, &s)) {
		last->end = end;
		last->grows = s.grows;
	} else {
		to[(*count)++] = s;
	}
}

/*
 * @weak ones, by address, get what is left between the @strong, which do not overlap. @to has room
 * for all, and for a piece more of a weak one
 * behind each strong one.
 */
static size_t lay(struct owned_span *to, const struct owned_span *strong, size_t strong_count,
		  const struct owned_span *weak, size_t weak_count)
{
	size_t count = 0, s = 0;
	uint64_t from = 0; /* below it all is given away */
	for (size_t w = 0; w < weak_count; w++) {
		uint64_t start = weak[w].start > from ? weak[w].start : from;
		while (s < strong_count && strong[s].start < weak[w].end) {
			put_span(to, &count, weak[w], start, strong[s].start);
			put_span(to, &count, strong[s], strong[s].start, strong[s].end);
			start = strong[s].end > start ? strong[s].end : start;
			s++;
		}
		put_span(to, &count, weak[w], start, weak[w].end);
		from = weak[w].end > start ? weak[w].end : start;
	}
	for (; s < strong_count; s++)
		put_span(to, &count, strong[s], strong[s].start, strong[s].end);
	return count;
}

int owned_sort(struct owned *o)
{
	if (!o->count)
		return 0;
	/* each of the two further levels lays at most one piece more for each stretch above it */
	size_t room = o->count * 4;
	struct owned_span *kept = calloc(room, sizeof(*kept)), *next = calloc(room, sizeof(*next));
	if (!kept || !next) {
		free(kept);
		free(next);
		return -ENOMEM;
	}
	qsort(o->spans, o->count, sizeof(*o->spans), by_claim);
	size_t count = 0;
	for (size_t i = 0; i < o->count;) {
		size_t end = i;
		while (end < o->count && o->spans[end].weak == o->spans[i].weak)
			end++;
		count = lay(next, kept, count, o->spans + i, end - i);
		struct owned_span *swap = kept;
		kept = next;
		next = swap;
		i = end;
	}
	free(next);
	free(o->spans);
	o->spans = kept;
	o->room = room;
	o->count = count < OWNED_MAX ? count : OWNED_MAX;
	return 0;
}

/* ---- over a breakdown ------------------------------------------------------------------------ */

struct applied {
	struct names names;
	/* of each entry of names */
	const struct owned_span **by;
};

static void describe(const struct names *names, size_t index, int part, struct region *piece,
		     char label[LABEL_MAX])
{
	const struct applied *a = names->ctx;
	const struct owned_span *s = a->by[index];
	(void)part;
	size_t len = strnlen(s->label, LABEL_MAX - 1);
	memcpy(label, s->label, len);
	label[len] = '\0';
	piece->class = s->class;
	piece->how = s->how;
	piece->label = label;
	if (s->owner)
		piece->owner = s->owner;
}

/*
 * A module's bss, and what the kernel has joined to it: only parts that are proven are somebody
 * else's.
 */
static int is_bss(const struct region *r)
{
	return !r->name[0] && !(r->perms & REGION_SHARED) &&
	       (r->class == REGION_LIBRARY_BSS || r->class == REGION_PROGRAM_BSS);
}

/* What a name of its own or a file stands behind is known already; the rest may be anybody's. */
static int may_be_owned(const struct region *r)
{
	if (is_bss(r))
		return 1;
	return !r->name[0] && !(r->perms & REGION_SHARED) && (r->perms & 7) &&
	       (r->class == REGION_ANONYMOUS || r->class == REGION_ALLOCATOR ||
		r->class == REGION_RUNTIME || r->class == REGION_JIT || r->class == REGION_STACK ||
		r->class == REGION_STACK_CACHE) &&
	       (r->how == HOW_FLAGS || r->how == HOW_ALLOCATOR || r->how == HOW_CHUNK_HEADER ||
		r->how == HOW_STACK_POINTER || r->how == HOW_THREAD_DESCRIPTOR);
}

static size_t first_beyond(const struct owned *o, uint64_t addr)
{
	return search_beyond(o->spans, o->count, sizeof(*o->spans),
			     offsetof(struct owned_span, end), addr);
}

static int put(struct applied *a, const struct owned_span *by, uint64_t start, uint64_t end,
	       size_t *room)
{
	if (a->names.count == *room) {
		size_t more = *room ? *room * 2 : 64;
		struct names_entry *entries = realloc(a->names.entries, more * sizeof(*entries));
		if (!entries)
			return -ENOMEM;
		a->names.entries = entries;
		const struct owned_span **list = realloc(a->by, more * sizeof(*list));
		if (!list)
			return -ENOMEM;
		a->by = list;
		*room = more;
	}
	a->names.entries[a->names.count] =
		(struct names_entry){ .start = start, .bytes = end - start };
	a->by[a->names.count++] = by;
	return 0;
}

/* Entries for one mapping: one where an owner has nearly all of it, else one for each stretch. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one walk along two sorted lists */
static int plan(struct applied *a, const struct owned *o, struct breakdown *b, size_t index,
		size_t *room)
{
	struct region *r = &b->regions[index];
	uint64_t size = r->end - r->start, most = 0, owned = 0, page = 4096;
	const struct owned_span *main_owner = NULL;
	int bss = is_bss(r);
	size_t at = first_beyond(o, r->start), first = at;
	for (; at < o->count && o->spans[at].start < r->end; at++) {
		const struct owned_span *s = &o->spans[at];
		uint64_t start = s->start > r->start ? s->start : r->start, end = s->end;
		int last = at + 1 == o->count || o->spans[at + 1].start >= r->end;
		if (bss && s->weak != OWNED_PART)
			continue;
		if (end > r->end || (s->grows && last))
			end = r->end;
		owned += end - start;
		if (end - start > most) {
			most = end - start;
			main_owner = s;
		}
	}
	if (!main_owner)
		return 0;
	uint64_t rest = size - most;
	if (rest < OWNED_CUT_MIN && rest < size / 8)
		return put(a, main_owner, r->start, r->end, room);
	/* what nobody owns is called by what it is, and not by what its first words look like */
	if (owned < size && !bss &&
	    breakdown_relabel(b, index, REGION_ANONYMOUS,
			      r->perms & REGION_WRITE ? "read-write" : "read-only", NULL,
			      HOW_FLAGS) < 0)
		return -ENOMEM;
	int rc = 0;
	for (at = first; at < o->count && o->spans[at].start < r->end && rc == 0; at++) {
		const struct owned_span *s = &o->spans[at];
		uint64_t start = s->start > r->start ? s->start : r->start, end = s->end;
		int last = at + 1 == o->count || o->spans[at + 1].start >= r->end;
		if (bss && s->weak != OWNED_PART)
			continue;
		start &= ~(page - 1);
		if (a->names.count && start < a->names.entries[a->names.count - 1].start +
						      a->names.entries[a->names.count - 1].bytes)
			start = a->names.entries[a->names.count - 1].start +
				a->names.entries[a->names.count - 1].bytes;
		end = (end + page - 1) & ~(page - 1);
		if (end > r->end || (s->grows && last))
			end = r->end;
		if (end > start)
			rc = put(a, s, start, end, room);
	}
	return rc;
}

int owned_apply(const struct owned *o, struct breakdown *b, const struct target *target,
		struct err *err)
{
	struct applied a = { .names = { .describe = describe } };
	size_t room = 0;
	int rc = 0;
	a.names.ctx = &a;
	for (size_t i = 0; i < b->region_count && o->count && rc == 0; i++)
		if (may_be_owned(&b->regions[i]))
			rc = plan(&a, o, b, i, &room);
	if (rc == 0 && a.names.count)
		rc = breakdown_cut(b, target, &a.names, may_be_owned);
	free(a.names.entries);
	free(a.by);
	if (rc < 0)
		return err_set(err, rc, "cannot name the mappings of process %d", (int)b->pid);
	return breakdown_sum(b, err);
}
