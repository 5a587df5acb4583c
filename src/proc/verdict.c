/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/verdict.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "base/words.h"
#include "proc/beside.h"

#define LARGE_SHARE 20u /* of RSS: what stands beside it is told from a twentieth on */
#define LARGE_BYTES (64ull << 20)
#define WIDTH_LEAST 60u

static uint64_t known(uint64_t bytes)
{
	return bytes == UINT64_MAX ? 0 : bytes;
}

static const struct {
	const char *allocator, *would, *name;
} makers[] = {
	{ "glibc malloc", "malloc_trim(0) would return", "malloc" },
	{ "jemalloc", "jemalloc gives back after a time", "jemalloc" },
	{ "tcmalloc", "ReleaseFreeMemory() would return", "tcmalloc" },
	{ "mimalloc", "mi_collect(true) would return", "mimalloc" },
	{ "PartitionAlloc", "PartitionAlloc gives back after a time", "PartitionAlloc" },
	{ "Go heap", "the Go runtime keeps idle", "the Go runtime" },
	{ "CPython objects", "Python keeps for objects to come", "Python" },
};

static size_t maker_of(const char *allocator)
{
	size_t i = 0;
	while (i < sizeof(makers) / sizeof(makers[0]) &&
	       strcmp(makers[i].allocator, allocator) != 0)
		i++;
	return i;
}

const char *verdict_would(const char *allocator)
{
	size_t i = maker_of(allocator);
	return i < sizeof(makers) / sizeof(makers[0]) ? makers[i].would : "free";
}

static void add_class(struct verdict *v, const struct class_row *r, uint64_t *heaps)
{
	switch (r->class) {
	case REGION_ALLOCATOR:
	case REGION_RUNTIME:
		*heaps += r->rss_bytes;
		break;
	case REGION_PROGRAM_TEXT:
	case REGION_PROGRAM_RODATA:
	case REGION_LIBRARY_TEXT:
	case REGION_LIBRARY_RODATA:
	case REGION_MAPPED_FILE:
		v->files += r->rss_bytes;
		break;
	case REGION_PROGRAM_DATA:
	case REGION_PROGRAM_BSS:
	case REGION_LIBRARY_DATA:
	case REGION_LIBRARY_BSS:
		v->data += r->rss_bytes;
		break;
	case REGION_STACK:
	case REGION_STACK_CACHE:
		v->stacks += r->rss_bytes;
		break;
	case REGION_MEMFD:
	case REGION_SYSV_SHM:
	case REGION_POSIX_SHM:
	case REGION_SHARED_ANONYMOUS:
		v->shared += r->rss_bytes;
		break;
	case REGION_NAMED:
		v->named += r->rss_bytes;
		break;
	case REGION_ANONYMOUS:
		v->anonymous += r->rss_bytes;
		break;
	case REGION_JIT:
		v->code += r->rss_bytes;
		v->rest += r->rss_bytes;
		break;
	case REGION_BYTELEDGER:
		v->own += r->rss_bytes;
		break;
	default:
		v->rest += r->rss_bytes;
		break;
	}
}

/*
 * What the books tell more than there is lies where no mapping is theirs: in anonymous memory, then
 * in variables.
 */
static void take_from(uint64_t *part, uint64_t *more)
{
	uint64_t take = *more < *part ? *more : *part;
	*part -= take;
	*more -= take;
}

struct verdict verdict_of(const struct breakdown *b)
{
	struct verdict v = { .rss = b->rss_bytes };
	uint64_t heaps = 0, told = 0;
	for (size_t i = 0; i < b->class_count; i++)
		add_class(&v, &b->classes[i], &heaps);
	for (size_t i = 0; i < b->allocator_count; i++) {
		const struct allocator_reading *a = &b->allocators[i];
		if (a->live_bytes == UINT64_MAX || a->resident_bytes == UINT64_MAX)
			continue;
		uint64_t free_pages = known(a->free_page_bytes), holes = known(a->hole_bytes),
			 caches = known(a->cache_bytes), metadata = known(a->metadata_bytes);
		uint64_t parts = free_pages + holes + caches + metadata, live = a->live_bytes;
		/* some of what is in use was never touched, or is swapped out */
		if (a->resident_bytes > parts && live > a->resident_bytes - parts)
			live = a->resident_bytes - parts;
		v.live += live;
		v.free_pages += free_pages;
		v.holes += holes;
		v.caches += caches;
		v.metadata += metadata;
		told += live + parts;
		size_t maker = maker_of(a->allocator);
		const char *by = maker < sizeof(makers) / sizeof(makers[0]) ? makers[maker].name
									    : a->allocator;
		if (free_pages + holes > b->rss_bytes / 100)
			v.by = v.by ? "allocators" : by;
		v.read = 1;
	}
	if (told <= heaps) {
		v.unread = heaps - told;
	} else {
		uint64_t more = told - heaps;
		uint64_t *const from[] = { &v.anonymous, &v.data,     &v.rest,
					   &v.stacks,    &v.metadata, &v.caches,
					   &v.live,      &v.holes,    &v.free_pages };
		for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++)
			take_from(from[i], &more);
	}
	if (v.code > v.rest)
		v.code = v.rest;
	return v;
}

/* ---- text ------------------------------------------------------------------------------------ */

static const char *size(char to[TEXT_NUMBER_MAX], uint64_t bytes, int raw)
{
	if (!raw)
		return text_bytes(to, bytes);
	snprintf(to, TEXT_NUMBER_MAX, "%" PRIu64, bytes);
	return to;
}

struct term {
	uint64_t bytes;
	const char *what;
};

/* @piece, on a new line with two blanks before it where it does not fit. */
static void flow(struct buf *to, size_t *column, size_t width, const char *piece)
{
	size_t len = text_columns(piece);
	if (*column + len > width && *column > 2) {
		buf_puts(to, "\n      ");
		*column = 6;
		piece += *piece == ' ';
		len = text_columns(piece);
	}
	buf_puts(to, piece);
	*column += len;
}

static void put_terms(struct buf *to, const struct verdict *v, const struct term *terms,
		      size_t count, const struct regions_text_opt *opt)
{
	char text[TEXT_NUMBER_MAX], piece[160];
	size_t column = 0, width = opt->width ? (size_t)opt->width : 100;
	uint64_t small = 0;
	int first = 1;
	width = width < WIDTH_LEAST ? WIDTH_LEAST : width;
	flow(to, &column, width, size(text, v->rss, opt->raw));
	for (size_t i = 0; i <= count; i++) {
		uint64_t bytes = i < count ? terms[i].bytes : small;
		const char *what = i < count ? terms[i].what : WORDS_ELSE;
		/* below a hundredth it is not what an operator looks for */
		if (i < count && bytes < v->rss / 100 && !opt->all) {
			small += bytes;
			continue;
		}
		if (!bytes)
			continue;
		snprintf(piece, sizeof(piece), " %s %s %s", first ? "=" : "+",
			 size(text, bytes, opt->raw), what);
		first = 0;
		flow(to, &column, width, piece);
	}
	buf_putc(to, '\n');
}

static void sort_terms(struct term *terms, size_t from, size_t count)
{
	for (size_t i = from + 1; i < count; i++)
		for (size_t j = i; j > from && terms[j].bytes > terms[j - 1].bytes; j--) {
			struct term swap = terms[j];
			terms[j] = terms[j - 1];
			terms[j - 1] = swap;
		}
}

/* Word by word, two blanks before the first, broken where a line is full. */
static void put_words(struct buf *to, const char *text, size_t width)
{
	size_t column = 1;
	char piece[64];
	buf_putc(to, ' ');
	while (*text && *text != '\n') {
		size_t len = strcspn(text, " \n");
		snprintf(piece, sizeof(piece), " %.*s", (int)len, text);
		flow(to, &column, width, piece);
		text += len + (text[len] == ' ');
	}
	buf_putc(to, '\n');
	if (*text)
		put_words(to, text + 1, width);
}

static int has_slabs(const char *by)
{
	return by && strcmp(by, "malloc") != 0 && strcmp(by, "Python") != 0 &&
	       strcmp(by, "the Go runtime") != 0;
}

static int is_little(const struct verdict *v)
{
	return v->free_pages + v->holes < v->rss / 100;
}

void verdict_sentence(struct buf *to, const struct verdict *v, int raw)
{
	char uses[TEXT_NUMBER_MAX], all[TEXT_NUMBER_MAX], pages[TEXT_NUMBER_MAX],
		holes[TEXT_NUMBER_MAX], unread[TEXT_NUMBER_MAX], mapped[TEXT_NUMBER_MAX];
	if (!v->read)
		return;
	int both = v->free_pages && v->holes;
	/* code that was made at run time lies in a heap, too */
	uint64_t unknown = v->unread + v->code;
	const struct words_verdict words = {
		.uses = size(uses, v->live + v->named, raw),
		.unknown = unknown < v->rss / 100 ? NULL : size(unread, unknown, raw),
		.mapped = v->anonymous < v->rss / 100 ? NULL : size(mapped, v->anonymous, raw),
		.free = is_little(v) ? NULL : size(all, v->free_pages + v->holes, raw),
		.keeper = v->by ? v->by : "allocators",
		.at_once = both ? size(pages, v->free_pages, raw) : NULL,
		.stuck = size(holes, v->holes, raw),
		.in_slabs = has_slabs(v->by),
	};
	words_verdict(to, &words);
}

static void put_sentence(struct buf *to, const struct verdict *v,
			 const struct regions_text_opt *opt)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	verdict_sentence(&text, v, opt->raw);
	if (!text.len)
		return;
	size_t width = opt->width ? (size_t)opt->width : 100;
	put_words(to, buf_cstr(&text), width < WIDTH_LEAST ? WIDTH_LEAST : width);
	if (!is_little(v))
		buf_puts(to, "  'byteledger explain' says who holds it, and what would help\n");
}

static int is_large(uint64_t bytes, uint64_t rss)
{
	return bytes != UINT64_MAX && (bytes >= LARGE_BYTES || bytes >= rss / LARGE_SHARE) &&
	       bytes >= 1u << 20;
}

static void put_cgroup(struct buf *to, const struct breakdown *b, const struct cgroup_memory *m,
		       const struct regions_text_opt *opt)
{
	char text[TEXT_NUMBER_MAX];
	const struct term parts[] = {
		{ m->anon_bytes, "anonymous" },
		{ m->file_bytes, "page cache" },
		{ m->page_table_bytes, "page tables" },
		{ m->slab_reclaimable_bytes, "slab that can go" },
		{ m->slab_unreclaimable_bytes, "slab that stays" },
		{ m->socket_bytes, "sockets" },
		{ m->kernel_stack_bytes, "kernel stacks" },
		{ m->version == 1 ? m->kernel_bytes : UINT64_MAX, "of the kernel" },
	};
	uint64_t working = cgroup_working_set(m);
	if (m->current_bytes == UINT64_MAX ||
	    (!opt->all && m->limit_bytes == UINT64_MAX &&
	     m->current_bytes < b->rss_bytes + b->rss_bytes / LARGE_SHARE + LARGE_BYTES))
		return;
	buf_printf(to, "  its cgroup is charged for %s", size(text, m->current_bytes, opt->raw));
	if (m->limit_bytes != UINT64_MAX) {
		buf_printf(to, " of %s", size(text, m->limit_bytes, opt->raw));
		buf_printf(to, " (%s)", text_percent(text, m->current_bytes, m->limit_bytes));
	}
	if (working != UINT64_MAX)
		buf_printf(to, "; kubelet counts %s", size(text, working, opt->raw));
	buf_putc(to, '\n');
	size_t column = 10, width = opt->width ? (size_t)opt->width : 100;
	const char *between = "    of it";
	char piece[160], goes[TEXT_NUMBER_MAX];
	for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!parts[i].bytes || parts[i].bytes == UINT64_MAX ||
		    (!opt->all && !is_large(parts[i].bytes, m->current_bytes)))
			continue;
		int cache = i == 1 && cgroup_cache_reclaimable(m) != UINT64_MAX;
		buf_puts(to, between);
		snprintf(piece, sizeof(piece), " %s %s%s%s%s", size(text, parts[i].bytes, opt->raw),
			 parts[i].what, cache ? " (" : "",
			 cache ? size(goes, cgroup_cache_reclaimable(m), opt->raw) : "",
			 cache ? " of it can go)" : "");
		flow(to, &column, width, piece);
		between = ",";
	}
	if (between[0] == ',')
		buf_putc(to, '\n');
	if (m->pressure_some > 0)
		buf_printf(to, "    tasks%s waited for memory in %.1f %% of the last 10 s\n",
			   m->pressure_of_machine ? " of the machine" : "", m->pressure_some);
	if (m->oom_kills && m->oom_kills != UINT64_MAX)
		buf_printf(to, "    the OOM killer was there %" PRIu64 " time%s\n", m->oom_kills,
			   m->oom_kills == 1 ? "" : "s");
}

static void put_beside(struct buf *to, const struct breakdown *b,
		       const struct regions_text_opt *opt)
{
	const struct beside *s = b->beside;
	char text[TEXT_NUMBER_MAX];
	if (s->page_table_bytes != UINT64_MAX &&
	    (opt->all || is_large(s->page_table_bytes, b->rss_bytes))) {
		buf_printf(to, "  beside it page tables %s; the OOM killer counts",
			   size(text, s->page_table_bytes, opt->raw));
		buf_printf(to, " %s\n", size(text, s->oom_bytes, opt->raw));
	}
	if (opt->all ? s->socket_bytes != UINT64_MAX && s->sockets
		     : is_large(s->socket_bytes, b->rss_bytes)) {
		buf_printf(to, "  beside it %s in buffers of its %" PRIu64 " socket%s\n",
			   size(text, s->socket_bytes, opt->raw), s->sockets,
			   s->sockets == 1 ? "" : "s");
	}
	if (s->held_bytes >= 1u << 20 || (opt->all && s->held_count)) {
		CLEANUP(buf_fini) struct buf piece = { 0 };
		size_t column = 0, width = opt->width ? (size_t)opt->width : 100;
		buf_printf(
			&piece,
			"  beside it %s in %" PRIu64 " open file%s without a name that %s mapped:",
			size(text, s->held_bytes, opt->raw), s->held_count,
			s->held_count == 1 ? "" : "s", s->held_count == 1 ? "is not" : "are not");
		flow(to, &column, width, buf_cstr(&piece));
		buf_clear(&piece);
		buf_putc(&piece, ' ');
		text_escape(&piece, s->held_name, opt->ascii);
		flow(to, &column, width, buf_cstr(&piece));
		buf_printf(to, "%s\n", s->held_count > 1 ? " and others" : "");
	}
	if (s->mappings_max != UINT64_MAX && s->mappings_max &&
	    (opt->all || s->mappings >= s->mappings_max / 2)) {
		buf_printf(to,
			   "  %" PRIu64 " mappings of %" PRIu64
			   " that a process may have (vm.max_map_count)\n",
			   s->mappings, s->mappings_max);
	}
	if (s->cgroup.version)
		put_cgroup(to, b, &s->cgroup, opt);
}

/* One allocator's way of giving back, or several's. */
static const char *would(const struct breakdown *b)
{
	const char *found = NULL;
	for (size_t i = 0; i < b->allocator_count; i++) {
		const struct allocator_reading *a = &b->allocators[i];
		if (a->live_bytes == UINT64_MAX || known(a->free_page_bytes) < b->rss_bytes / 100)
			continue;
		if (found)
			return "free";
		found = verdict_would(a->allocator);
	}
	return found ? found : "free";
}

void verdict_text(struct buf *to, const struct breakdown *b, const struct regions_text_opt *opt)
{
	struct verdict v = verdict_of(b);
	struct term terms[] = {
		{ v.live, WORDS_LIVE },
		{ v.free_pages, would(b) },
		{ v.holes, WORDS_HOLES },
		{ v.files, "files" },
		{ v.caches, "in caches" },
		{ v.metadata, "allocators' books" },
		{ v.unread, v.read ? "heaps, not split" : "heaps" },
		{ v.data, "variables" },
		{ v.stacks, "stacks" },
		{ v.shared, "shared memory" },
		{ v.named, "named by the program" },
		{ v.anonymous, "mapped by the program" },
		{ v.own, "byteledger itself" },
		{ v.code, "code made at run time" },
		{ v.rest - v.code, "other" },
	};
	size_t count = sizeof(terms) / sizeof(terms[0]);
	sort_terms(terms, 3, count);
	put_terms(to, &v, terms, count, opt);
	put_sentence(to, &v, opt);
	if (b->beside)
		put_beside(to, b, opt);
	buf_putc(to, '\n');
}
