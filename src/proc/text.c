/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "proc/group.h"
#include "proc/numa.h"
#include "proc/settings.h"
#include "proc/verdict.h"

#define BAR_COLUMNS 10u
#define LABELS_SHOWN 8u /* of a class; the small ones are one line */

struct style {
	const char *bold, *dim, *colour, *plain;
};

static struct style style_of(const struct regions_text_opt *opt)
{
	return opt->colour ? (struct style){ "\033[1m", "\033[2m", "\033[36m", "\033[0m" }
			   : (struct style){ "", "", "", "" };
}

static const char *size(char to[TEXT_NUMBER_MAX], uint64_t bytes, int raw)
{
	if (!raw)
		return text_bytes(to, bytes);
	snprintf(to, TEXT_NUMBER_MAX, "%" PRIu64, bytes);
	return to;
}

static int size_columns(const struct regions_text_opt *opt)
{
	return opt->raw ? 15 : 10;
}

/*
 * Without printf(): a page has dozens, and its call in libbyteledger may cost little more than
 * reading smaps.
 */
static void put_hex(struct buf *to, uint64_t value)
{
	char text[16];
	size_t at = sizeof(text);
	do {
		text[--at] = "0123456789abcdef"[value & 15];
	} while (value >>= 4);
	buf_put(to, text + at, sizeof(text) - at);
}

static void put_blanks(struct buf *to, size_t count)
{
	char *at = buf_room(to, count);
	if (at) {
		memset(at, ' ', count);
		to->len += count;
	}
}

/** put_right() - text of one column a byte, right-aligned in @columns. */
static void put_right(struct buf *to, const char *text, size_t columns)
{
	size_t len = strlen(text), all = len < columns ? columns : len;
	char *at = buf_room(to, all);
	if (!at)
		return;
	memset(at, ' ', all - len);
	memcpy(at + all - len, text, len);
	to->len += all;
}

/* Without colours there is nothing to put, several times a row. */
static inline void put_style(struct buf *to, const char *style)
{
	if (*style)
		buf_puts(to, style);
}

/** put_size() - right-aligned, "-" where it is not known. */
static void put_size(struct buf *to, const struct regions_text_opt *opt, uint64_t bytes, int known)
{
	char text[TEXT_NUMBER_MAX];
	put_right(to, known ? size(text, bytes, opt->raw) : "-", (size_t)size_columns(opt));
}

/**
 * put_cell() - escaped text in exactly @columns, cut with "..." or padded; at the end of a line
 * without padding.
 */
static void put_cell(struct buf *to, const char *text, size_t columns, int ascii, int pad)
{
	size_t plain = 0;
	while (text[plain] >= 0x20 && text[plain] < 0x7f)
		plain++;
	if (!text[plain] &&
	    plain <= columns) { /* nearly every name: nothing to escape, one column a byte */
		buf_put(to, text, plain);
		put_blanks(to, pad ? columns - plain : 0);
		return;
	}
	if (!text[plain] && columns > 3) {
		if (text[0] == '/') { /* the end of a path tells more than its beginning */
			buf_put(to, "...", 3);
			buf_put(to, text + plain - (columns - 3), columns - 3);
		} else {
			buf_put(to, text, columns - 3);
			buf_put(to, "...", 3);
		}
		return;
	}
	struct buf clean = { 0 };
	text_escape(&clean, text, ascii);
	const char *safe = buf_cstr(&clean);
	size_t wide = text_columns(safe);
	if (wide > columns && columns > 3) {
		int path = safe[0] == '/';
		if (path) {
			const char *at = safe;
			while (*at && text_columns(at) > columns - 3) {
				at++;
				while ((*at & 0xc0) == 0x80)
					at++;
			}
			buf_puts(to, "...");
			buf_puts(to, at);
			wide = text_columns(at) + 3;
		} else {
			size_t fit = text_fit(safe, columns - 3);
			buf_put(to, safe, fit);
			buf_puts(to, "...");
			wide = columns;
		}
	} else {
		buf_puts(to, safe);
	}
	put_blanks(to, pad && wide < columns ? columns - wide : 0);
	buf_fini(&clean);
}

static void put_bar(struct buf *to, const struct regions_text_opt *opt, uint64_t part,
		    uint64_t whole)
{
	static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
	uint64_t units = whole ? (uint64_t)((double)part * BAR_COLUMNS * 8 / (double)whole) : 0;
	if (units > BAR_COLUMNS * 8)
		units = BAR_COLUMNS * 8;
	unsigned column = 0;
	struct style style = style_of(opt);
	put_style(to, style.colour);
	for (; column < units / 8; column++)
		buf_puts(to, opt->ascii ? "#" : "█");
	if (!opt->ascii && units % 8) {
		buf_puts(to, eighths[units % 8]);
		column++;
	}
	put_style(to, style.plain);
	put_blanks(to, BAR_COLUMNS - column);
}

/* ---- the head -------------------------------------------------------------------------------- */

static void put_check(struct buf *to, const char *name, uint64_t theirs, uint64_t ours, int raw)
{
	char text[TEXT_NUMBER_MAX];
	if (theirs == UINT64_MAX)
		buf_printf(to, "%s does not tell", name);
	else if (theirs == ours)
		buf_printf(to, "%s says the same", name);
	else
		buf_printf(to, "%s says %s %s", name,
			   size(text, theirs > ours ? theirs - ours : ours - theirs, raw),
			   theirs > ours ? "more" : "less");
}

static void put_fact(struct buf *to, const char *name, uint64_t bytes, int raw)
{
	char text[TEXT_NUMBER_MAX];
	if (!bytes || bytes == UINT64_MAX)
		return;
	put_blanks(to, 3);
	buf_puts(to, name);
	buf_putc(to, ' ');
	buf_puts(to, size(text, bytes, raw));
}

void regions_text_head(struct buf *to, const struct breakdown *b,
		       const struct regions_text_opt *opt)
{
	struct style style = style_of(opt);
	char text[TEXT_NUMBER_MAX];
	put_style(to, style.bold);
	put_cell(to, b->comm, 32, opt->ascii, 0);
	buf_printf(to, "%s  pid %d   %sRSS %s%s", style.plain, (int)b->pid, style.bold,
		   size(text, b->rss_bytes, opt->raw), style.plain);
	if (b->full)
		put_fact(to, "PSS", b->pss_bytes, opt->raw);
	put_fact(to, "swap", b->swap_bytes, opt->raw);
	put_fact(to, "huge pages", b->hugetlb_bytes, opt->raw);
	put_fact(to, "virtual", b->virtual_bytes, opt->raw);
	/* too much for a narrow line */
	if ((b->reserved_bytes || b->own_rss_bytes) && opt->width && opt->width < 100)
		buf_putc(to, '\n');
	put_fact(to, "of it reserved", b->reserved_bytes, opt->raw);
	put_fact(to, "byteledger's own", b->own_rss_bytes, opt->raw);
	buf_putc(to, '\n');
	size_t begin = to->len + strlen(style.dim);
	buf_printf(to, "%s%" PRIu64 " mappings", style.dim, b->region_total);
	if (b->thread_count)
		buf_printf(to, ", %zu thread%s", b->thread_count, b->thread_count == 1 ? "" : "s");
	buf_printf(to, "; read in %s", text_duration(text, b->end_ns - b->start_ns));
	if (b->reading.pages && b->reading.pages != b->reading.list)
		buf_printf(to, " from %s and %s", b->reading.list, b->reading.pages);
	else
		buf_printf(to, " from %s", b->reading.list);
	size_t width = opt->width ? (size_t)opt->width : 100;
	text_duration(text, b->reading.stall_ns);
	int fits = to->len - begin + strlen(", held up for at most ") + strlen(text) <= width;
	buf_printf(to, "%sheld up for at most %s", fits ? ", " : "\n", text);
	const char *between = "RSS: ";
	buf_putc(to, '\n');
	if (b->rollup_rss_bytes != UINT64_MAX) {
		buf_puts(to, between);
		put_check(to, "smaps_rollup", b->rollup_rss_bytes, b->rss_bytes, opt->raw);
		between = ", ";
	}
	if (b->totals.rss_bytes != UINT64_MAX) {
		buf_puts(to, between);
		put_check(to, "status", b->totals.rss_bytes, b->rss_bytes, opt->raw);
		between = "; ";
	}
	if (b->totals.page_table_bytes != UINT64_MAX && b->totals.page_table_bytes)
		buf_printf(to, "%sbeside it page tables %s", between,
			   size(text, b->totals.page_table_bytes, opt->raw));
	put_fact(to, "locked", b->totals.locked_bytes, opt->raw);
	put_fact(to, "pinned", b->totals.pinned_bytes, opt->raw);
	buf_printf(to, "%s\n\n", style.plain);
}

/* ---- classes --------------------------------------------------------------------------------- */

struct class_sum {
	unsigned class;
	uint64_t rss_bytes, pss_bytes, virtual_bytes, swap_bytes, hugetlb_bytes, count, rows;
};

static int by_rss(const void *a, const void *b)
{
	const struct class_sum *x = a, *y = b;
	if (x->rss_bytes != y->rss_bytes)
		return x->rss_bytes < y->rss_bytes ? 1 : -1;
	if (x->virtual_bytes != y->virtual_bytes)
		return x->virtual_bytes < y->virtual_bytes ? 1 : -1;
	return x->class < y->class ? -1 : x->class > y->class;
}

/* For a label, and behind it for how it is known. */
static size_t label_columns(const struct regions_text_opt *opt, size_t *how)
{
	size_t width = opt->width ? (size_t)opt->width : 100;
	size_t numbers = 2 * (size_t)size_columns(opt) + 8 + 2 + BAR_COLUMNS + 2;
	size_t rest = width > numbers + 24 ? width - numbers : 24;
	if (!opt->all_labels && rest > 48)
		rest = 48; /* a number far from its name is not read */
	*how = !opt->all_labels || rest < 46 ? 0 : rest >= 72 ? 32 : 24;
	return rest - *how - 9;
}

/* Whether a label fits behind the name of its class. */
static int fits_behind(const struct regions_text_opt *opt, const struct class_row *row)
{
	const char *class = region_class_name(row->class);
	size_t how, columns = label_columns(opt, &how);
	return strcmp(class, row->label) == 0 || strlen(class) + 2 + strlen(row->label) <= columns;
}

/** put_row() - a label of a class, or with @single the only one of it, behind the class's name. */
static void put_row(struct buf *to, const struct breakdown *b, const struct regions_text_opt *opt,
		    const struct class_row *row, int single)
{
	struct style style = style_of(opt);
	size_t how, label = label_columns(opt, &how);
	char text[TEXT_NUMBER_MAX];
	put_size(to, opt, row->rss_bytes, 1);
	put_size(to, opt, row->pss_bytes, b->full);
	put_right(to, text_percent(text, row->rss_bytes, b->rss_bytes), 8);
	put_blanks(to, 2);
	if (single) {
		const char *class = region_class_name(row->class);
		size_t len = strlen(class);
		put_bar(to, opt, row->rss_bytes, b->rss_bytes);
		buf_puts(to, "  ");
		put_style(to, style.bold);
		buf_puts(to, class);
		put_style(to, style.plain);
		if (strcmp(class, row->label) != 0) {
			buf_puts(to, "  ");
			put_cell(to, row->label, label > len + 6 ? label - len - 2 : 4, opt->ascii,
				 1);
		} else {
			put_blanks(to, label > len ? label - len : 1);
		}
	} else {
		buf_puts(to, "    ");
		put_cell(to, row->label, label + BAR_COLUMNS - 2, opt->ascii, 1);
	}
	put_right(to, text_count(text, row->count), 7);
	int extra = row->hugetlb_bytes || row->swap_bytes || row->lazy_free_bytes || row->ksm_bytes;
	if (how) {
		put_blanks(to, 2);
		put_style(to, style.dim);
		put_cell(to, region_how_name(row->how), how, opt->ascii, 0);
		put_style(to, style.plain);
	}
	if (extra) { /* a line of its own: the row is as wide as the page */
		buf_puts(to, "\n          of it");
		put_fact(to, "huge", row->hugetlb_bytes, opt->raw);
		put_fact(to, "swap", row->swap_bytes, opt->raw);
		put_fact(to, "lazily freed", row->lazy_free_bytes, opt->raw);
		put_fact(to, "KSM", row->ksm_bytes, opt->raw);
	}
	buf_putc(to, '\n');
}

static int is_small(const struct breakdown *b, uint64_t rss_bytes)
{
	return rss_bytes < b->rss_bytes / 100;
}

static const struct class_row *only_row(const struct breakdown *b, unsigned class)
{
	for (size_t i = 0; i < b->class_count; i++)
		if (b->classes[i].class == class)
			return &b->classes[i];
	return NULL;
}

void regions_text_classes(struct buf *to, const struct breakdown *b,
			  const struct regions_text_opt *opt)
{
	struct class_sum sums[REGION_CLASS_COUNT] = { 0 };
	struct style style = style_of(opt);
	char text[TEXT_NUMBER_MAX];
	size_t count = 0;
	uint8_t place[REGION_CLASS_COUNT] = { 0 }; /* number + 1 */
	for (size_t i = 0; i < b->class_count; i++) {
		unsigned class = b->classes[i].class;
		if (!place[class]) {
			sums[count++].class = class;
			place[class] = (uint8_t)count;
		}
		struct class_sum *sum = &sums[place[class] - 1];
		sum->rss_bytes += b->classes[i].rss_bytes;
		sum->pss_bytes += b->classes[i].pss_bytes;
		sum->virtual_bytes += b->classes[i].virtual_bytes;
		sum->swap_bytes += b->classes[i].swap_bytes;
		sum->hugetlb_bytes += b->classes[i].hugetlb_bytes;
		sum->count += b->classes[i].count;
		sum->rows++;
	}
	qsort(sums, count, sizeof(sums[0]), by_rss);
	int columns = size_columns(opt);
	size_t how;
	label_columns(opt, &how);
	buf_printf(to, "%s%*s%*s%8s  %-*s  class, what, mappings%s%s\n", style.dim, columns, "RSS",
		   columns, "PSS", "share", (int)BAR_COLUMNS, "", how ? ", how it is known" : "",
		   style.plain);
	struct class_sum small = { 0 };
	const struct class_sum *last_small = NULL;
	for (size_t s = 0; s < count; s++) {
		const struct class_sum *sum = &sums[s];
		if (!opt->all_labels && is_small(b, sum->rss_bytes) && !sum->swap_bytes &&
		    !sum->hugetlb_bytes) {
			small.rss_bytes += sum->rss_bytes;
			small.pss_bytes += sum->pss_bytes;
			small.count += sum->count;
			small.rows++;
			last_small = sum;
			continue;
		}
		const struct class_row *only = sum->rows == 1 ? only_row(b, sum->class) : NULL;
		if (only && fits_behind(opt, only)) {
			put_row(to, b, opt, only, 1);
			continue;
		}
		put_size(to, opt, sum->rss_bytes, 1);
		put_size(to, opt, sum->pss_bytes, b->full);
		put_right(to, text_percent(text, sum->rss_bytes, b->rss_bytes), 8);
		put_blanks(to, 2);
		put_bar(to, opt, sum->rss_bytes, b->rss_bytes);
		put_blanks(to, 2);
		put_style(to, style.bold);
		buf_puts(to, region_class_name(sum->class));
		put_style(to, style.plain);
		buf_putc(to, '\n');
		struct class_row rest = { .label = NULL };
		size_t shown = 0, more = 0;
		for (size_t i = 0; i < b->class_count; i++) {
			const struct class_row *row = &b->classes[i];
			if (row->class != sum->class)
				continue;
			int small_row = !opt->all_labels && shown && is_small(b, row->rss_bytes) &&
					!row->swap_bytes && !row->hugetlb_bytes;
			if (opt->all_labels || (!small_row && shown < LABELS_SHOWN)) {
				put_row(to, b, opt, row, 0);
				shown++;
				continue;
			}
			rest.rss_bytes += row->rss_bytes;
			rest.pss_bytes += row->pss_bytes;
			rest.count += row->count;
			rest.how = row->how;
			more++;
		}
		if (more) {
			char label[48];
			snprintf(label, sizeof(label), "... %zu more", more);
			rest.label = label;
			put_row(to, b, opt, &rest, 0);
		}
	}
	if (small.rows) {
		char words[64];
		put_size(to, opt, small.rss_bytes, 1);
		put_size(to, opt, small.pss_bytes, b->full);
		put_right(to, text_percent(text, small.rss_bytes, b->rss_bytes), 8);
		if (small.rows == 1)
			snprintf(words, sizeof(words), "%s", region_class_name(last_small->class));
		else
			snprintf(words, sizeof(words), "%zu classes", (size_t)small.rows);
		buf_printf(to, "  %-*s  %s below 1 %%: --all\n", (int)BAR_COLUMNS, "", words);
	}
	put_size(to, opt, b->rss_bytes, 1);
	put_size(to, opt, b->pss_bytes, b->full);
	buf_printf(to, "%8s  %-*s  %ssum of all mappings%s\n\n",
		   text_percent(text, b->rss_bytes, b->rss_bytes), (int)BAR_COLUMNS, "", style.bold,
		   style.plain);
}

void regions_text_groups(struct buf *to, const struct breakdown *b, const struct class_row *rows,
			 size_t count, const struct regions_text_opt *opt)
{
	struct style style = style_of(opt);
	size_t columns = (size_t)size_columns(opt), width = opt->width ? (size_t)opt->width : 100;
	size_t fixed = 3 * columns + 8 + 2 + BAR_COLUMNS + 8 + 4;
	size_t limit = opt->all || count < opt->top ? count : opt->top;
	char text[TEXT_NUMBER_MAX];
	buf_printf(to, "%s%*s%*s%*s%8s  %-*s  mappings%s\n", style.dim, (int)columns, "RSS",
		   (int)columns, "PSS", (int)columns, "size", "share", (int)BAR_COLUMNS, "",
		   style.plain);
	struct class_row rest = { .label = NULL };
	for (size_t i = 0; i < count; i++) {
		const struct class_row *row = &rows[i];
		if (i >= limit) {
			rest.rss_bytes += row->rss_bytes;
			rest.pss_bytes += row->pss_bytes;
			rest.virtual_bytes += row->virtual_bytes;
			rest.count += row->count;
			if (i + 1 < count)
				continue;
			row = &rest;
		}
		put_size(to, opt, row->rss_bytes, 1);
		put_size(to, opt, row->pss_bytes, b->full);
		put_size(to, opt, row->virtual_bytes, 1);
		put_right(to, text_percent(text, row->rss_bytes, b->rss_bytes), 8);
		put_blanks(to, 2);
		put_bar(to, opt, row->rss_bytes, b->rss_bytes);
		put_right(to, text_count(text, row->count), 8);
		put_blanks(to, 4);
		if (!row->label) {
			buf_printf(to, "... %zu more: --all", count - limit);
		} else if (row->class == REGION_CLASS_COUNT) {
			buf_printf(to, "(%s)", row->label);
		} else {
			put_cell(to, row->label, width > fixed + 12 ? width - fixed : 12,
				 opt->ascii, 0);
		}
		buf_putc(to, '\n');
	}
	buf_putc(to, '\n');
}

/* ---- threads, allocators --------------------------------------------------------------------- */

void regions_text_threads(struct buf *to, const struct breakdown *b,
			  const struct regions_text_opt *opt)
{
	struct style style = style_of(opt);
	if (!b->thread_count)
		return;
	int columns = size_columns(opt);
	size_t limit = opt->all ? b->thread_count : 10;
	buf_printf(to, "%sthreads%s\n%s%9s  %-16s%*s%*s%*s  stack%s\n", style.bold, style.plain,
		   style.dim, "tid", "name", columns, "used", columns, "resident", columns, "size",
		   style.plain);
	for (size_t i = 0; i < b->thread_count && i < limit; i++) {
		const struct thread_stack *t = &b->threads[i];
		int known = t->stack_end > t->stack_start;
		int used = known && t->stack_pointer >= t->stack_start &&
			   t->stack_pointer < t->stack_end;
		buf_printf(to, "%9d  ", (int)t->tid);
		put_cell(to, t->name, 16, opt->ascii, 1);
		put_size(to, opt, t->stack_end - t->stack_pointer, used);
		put_size(to, opt, t->rss_bytes, known);
		put_size(to, opt, t->stack_end - t->stack_start, known);
		buf_printf(to, "  %s%s%s\n", style.dim,
			   known ? region_how_name(t->how) : "not found", style.plain);
	}
	if (b->thread_count > limit)
		buf_printf(to, "%9s  %zu more: --all\n", "...", b->thread_count - limit);
	buf_putc(to, '\n');
}

/* What a collector waits for, and what it keeps: a line of its own below. */
static void put_pace(struct buf *to, const struct allocator_reading *a,
		     const struct regions_text_opt *opt)
{
	struct style style = style_of(opt);
	char goal[32], idle[32], released[32];
	text_bytes(idle, a->idle_bytes);
	text_bytes(released, a->released_bytes);
	buf_printf(to, "\n%s    ", style.dim);
	if (a->gc_percent < 0)
		buf_puts(to, "not collected (GOGC=off)");
	else
		buf_printf(to, "next collection at %s (GOGC=%d)", text_bytes(goal, a->goal_bytes),
			   a->gc_percent);
	buf_printf(to, "; idle %s, released %s%s", idle, released, style.plain);
}

void regions_text_allocators(struct buf *to, const struct breakdown *b,
			     const struct regions_text_opt *opt)
{
	struct style style = style_of(opt);
	if (!b->allocator_count)
		return;
	int columns = size_columns(opt);
	buf_printf(to, "%sallocators%s\n%s%*s%*s%*s%*s%*s  allocator%s%s\n", style.bold,
		   style.plain, style.dim, columns, "live", columns, "free", columns, "holes",
		   columns, "caches", columns, "metadata", opt->all ? ", how it is known" : "",
		   style.plain);
	for (size_t i = 0; i < b->allocator_count; i++) {
		const struct allocator_reading *a = &b->allocators[i];
		put_size(to, opt, a->live_bytes, a->live_bytes != UINT64_MAX);
		put_size(to, opt, a->free_page_bytes, a->free_page_bytes != UINT64_MAX);
		put_size(to, opt, a->hole_bytes, a->hole_bytes != UINT64_MAX);
		put_size(to, opt, a->cache_bytes, a->cache_bytes != UINT64_MAX);
		put_size(to, opt, a->metadata_bytes, a->metadata_bytes != UINT64_MAX);
		buf_puts(to, "  ");
		put_cell(to, a->allocator, 32, opt->ascii, 0);
		if (a->paced)
			put_pace(to, a, opt);
		if (!opt->all && a->live_bytes != UINT64_MAX && a->consistency >= 99.95) {
			buf_putc(to, '\n');
			continue;
		}
		/* a line of its own: it is a sentence */
		buf_printf(to, "\n%s    ", style.dim);
		put_cell(to, a->how, 96, opt->ascii, 0);
		if (a->live_bytes != UINT64_MAX)
			buf_printf(to, ", %.1f %% consistent", a->consistency);
		buf_printf(to, "%s\n", style.plain);
	}
	buf_putc(to, '\n');
}

/* ---- mappings -------------------------------------------------------------------------------- */

/* smaps' facts that are not in the table: a line below the mapping, with --all. */
static void put_facts(struct buf *to, const struct breakdown *b, const struct region *r,
		      const struct regions_text_opt *opt)
{
	char flags[REGION_FLAGS_TEXT];
	region_flags_text(r, flags);
	uint64_t huge = r->anon_huge_bytes + r->shmem_huge_bytes + r->file_huge_bytes;
	const struct numa_row *numa = numa_at(b->numa, r->start);
	int spread = numa && numa_is_told(numa);
	if (!huge && !r->ksm_bytes && !r->lazy_free_bytes && !r->locked_bytes && !r->swap_bytes &&
	    !r->key && !spread)
		return;
	buf_puts(to, "          of it");
	put_fact(to, "huge pages", huge, opt->raw);
	put_fact(to, "swap", r->swap_bytes, opt->raw);
	put_fact(to, "locked", r->locked_bytes, opt->raw);
	put_fact(to, "lazily freed", r->lazy_free_bytes, opt->raw);
	put_fact(to, "KSM", r->ksm_bytes, opt->raw);
	put_fact(to, "pages of", r->page_bytes > 4096 ? r->page_bytes : 0, opt->raw);
	if (r->key)
		buf_printf(to, "   protection key %u", r->key);
	for (unsigned i = 0; spread && i < NUMA_NODES_MAX; i++) {
		char node[24];
		snprintf(node, sizeof(node), "node %u", i);
		put_fact(to, node, numa->node_bytes[i], opt->raw);
	}
	if (spread && strcmp(numa->policy, "default") != 0)
		buf_printf(to, "   policy %s", numa->policy);
	buf_printf(to, "   flags %s\n", flags);
}

#define RANGE_COLUMNS 25u
#define START_COLUMNS 12u

/*
 * What fits on a line: a narrow one has fewer sizes, then no ends of mappings. JSON has all of it.
 */
struct mapping_columns {
	unsigned sizes;
	size_t address, name;
};

static struct mapping_columns mapping_columns(const struct regions_text_opt *opt)
{
	size_t width = opt->width ? (size_t)opt->width : 100, each = (size_t)size_columns(opt);
	struct mapping_columns at = { .sizes = 4, .address = RANGE_COLUMNS };
	size_t fixed = at.sizes * each + 8 + at.address;
	if (width < fixed + 24) {
		at.sizes = 2;
		fixed -= 2 * each;
	}
	if (width < fixed + 24) {
		fixed -= at.address - START_COLUMNS;
		at.address = START_COLUMNS;
	}
	at.name = width > fixed + 12 ? width - fixed : 12;
	return at;
}

void regions_text_mappings(struct buf *to, const struct breakdown *b,
			   const struct regions_text_opt *opt)
{
	struct style style = style_of(opt);
	size_t limit = opt->all ? b->region_count : opt->top;
	if (limit == 0)
		return;
	const struct region **list = regions_order(b, opt->sort, opt->growth);
	if (!list) {
		to->failed = 1;
		return;
	}
	int columns = size_columns(opt);
	struct mapping_columns at = mapping_columns(opt);
	buf_printf(to, "%smappings%s\n%s%*s%*s", style.bold, style.plain, style.dim, columns, "RSS",
		   columns, "private");
	if (at.sizes == 4)
		buf_printf(to, "%*s%*s", columns, "shared", columns, "size");
	buf_printf(to, "  %-4s %-*s %s%s\n", "", (int)at.address, "address", "name", style.plain);
	size_t shown = 0;
	for (size_t i = 0; i < b->region_count && shown < limit; i++) {
		const struct region *r = list[i];
		if (!r->rss_bytes && !r->swap_bytes && !region_hugetlb_bytes(r))
			continue;
		char perms[5];
		put_size(to, opt, r->rss_bytes, 1);
		put_size(to, opt, region_private_bytes(r), b->full);
		if (at.sizes == 4) {
			put_size(to, opt, region_shared_bytes(r), b->full);
			put_size(to, opt, r->end - r->start, 1);
		}
		put_blanks(to, 2);
		buf_put(to, region_perms(r, perms), 4);
		buf_putc(to, ' ');
		size_t began = to->len;
		put_hex(to, r->start);
		if (at.address == RANGE_COLUMNS) {
			buf_putc(to, '-');
			put_hex(to, r->end);
		}
		size_t long_by = to->len - began;
		put_blanks(to, long_by < at.address ? at.address + 1 - long_by : 1);
		put_cell(to, r->name[0] ? r->name : r->label, at.name, opt->ascii, 0);
		buf_putc(to, '\n');
		if (opt->all && b->full)
			put_facts(to, b, r, opt);
		shown++;
	}
	free(list);
	buf_putc(to, '\n');
}

/* Bytes are told as everywhere on the page, with the number that whoever sets it would write. */
static const char *readable(const struct setting *s, char *to)
{
	char *end, text[TEXT_NUMBER_MAX];
	uint64_t bytes = strtoull(s->value, &end, 10);
	int is_size = strstr(s->name, "threshold") || strstr(s->name, "THRESHOLD") ||
		      strstr(s->name, "top_pad") || strstr(s->name, "TOP_PAD") ||
		      strcmp(s->name, "GOMEMLIMIT") == 0;
	if (!is_size || *end || end == s->value || bytes < 1024)
		return s->value;
	snprintf(to, sizeof(s->value) + TEXT_NUMBER_MAX + 4, "%s (%s)", s->value,
		 text_bytes(text, bytes));
	return to;
}

/* What somebody asked for always, what is merely in force with --all. */
static void put_settings(struct buf *to, const struct breakdown *b,
			 const struct regions_text_opt *opt)
{
	struct style style = style_of(opt);
	size_t width = opt->width ? (size_t)opt->width : 100, shown = 0;
	for (size_t i = 0; b->settings && i < b->settings->count; i++) {
		const struct setting *s = &b->settings->rows[i];
		if (!opt->all &&
		    (strcmp(s->from, "glibc, as it comes") == 0 || strcmp(s->from, "glibc") == 0 ||
		     strcmp(s->from, "glibc, in use") == 0 ||
		     strcmp(s->from, "where malloc leads") == 0))
			continue;
		if (!shown++)
			buf_printf(to, "%ssettings in force%s\n", style.bold, style.plain);
		buf_puts(to, "  ");
		put_cell(to, s->name, 24, opt->ascii, 1);
		buf_putc(to, ' ');
		char value[sizeof(s->value) + TEXT_NUMBER_MAX + 4];
		put_cell(to, readable(s, value),
			 width > 80   ? width - 56
			 : width > 68 ? 24
				      : 12,
			 opt->ascii, 1);
		buf_printf(to, " %s%s%s\n", style.dim, s->from, style.plain);
	}
	if (shown)
		buf_putc(to, '\n');
}

void regions_text(struct buf *to, const struct breakdown *b, const struct regions_text_opt *opt)
{
	regions_text_head(to, b, opt);
	verdict_text(to, b, opt);
	regions_text_classes(to, b, opt);
	regions_text_allocators(to, b, opt);
	put_settings(to, b, opt);
	regions_text_threads(to, b, opt);
	regions_text_mappings(to, b, opt);
}
