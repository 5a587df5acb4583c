/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/rows_build.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "unwind/cfi.h"
#include "unwind/table.h"

#define SPANS_MAX (64u << 20)
#define TEXT_MAX_BYTES (2ULL << 30) /* the index then takes 32 MiB */
#define PADDING_BYTES \
	16 /* a hole this small between functions is alignment, nobody returns there */

void rows_fini(struct rows_list *list)
{
	free(list->all);
	memset(list, 0, sizeof(*list));
}

void rows_add(struct rows_list *list, uint64_t lo, uint64_t hi, uint64_t rule)
{
	if (lo >= hi)
		return;
	struct rows_span *last = list->count ? &list->all[list->count - 1] : NULL;
	if (last && last->hi == lo && last->rule == rule) {
		last->hi = hi;
		return;
	}
	if (list->count == list->cap) {
		size_t cap = list->cap ? list->cap * 2 : 4096;
		struct rows_span *grown =
			cap <= SPANS_MAX ? reallocarray(list->all, cap, sizeof(*grown)) : NULL;
		if (!grown) {
			list->failed = 1;
			return;
		}
		list->all = grown;
		list->cap = cap;
	}
	list->all[list->count++] = (struct rows_span){ lo, hi, rule };
}

int rows_from_eh_frame(struct rows_list *list, const struct image *image)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = image_section(image, ".eh_frame", &shdr);
	Elf_Data *data = scn && shdr.sh_type != SHT_NOBITS ? elf_getdata(scn, NULL) : NULL;
	if (!data || !data->d_buf || !data->d_size)
		return -ENOENT;
	const uint8_t *lo = data->d_buf;
	struct unwind_image section = { .lo = lo, .hi = lo + data->d_size, .eh_frame = lo };
	/*
	 * what counts from its own place comes out as if the file were loaded where the section
	 * stands now
	 */
	uint64_t moved = (uint64_t)(uintptr_t)lo - shdr.sh_addr;
	struct unwind_cfi_work *work = malloc(sizeof(*work));
	struct unwind_fde fde;
	if (!work)
		return -ENOMEM;
	for (const uint8_t *at = lo; at && !list->failed;) {
		const uint8_t *next = unwind_cfi_next(&section, at, &fde);
		if (next && next <= at)
			break;
		at = next && next < section.hi ? next : NULL;
		if (fde.hi <= fde.lo)
			continue;
		list->fdes++;
		uint64_t bias = (fde.pointer_enc & 0x70) == 0x10 ? moved : 0;
		for (int found = unwind_cfi_row(&section, &fde, fde.lo, work); found;
		     found = unwind_cfi_next_row(&section, &fde, work))
			rows_add(list, work->row_lo - bias, work->row_hi - bias,
				 unwind_cfi_rule(&fde, &work->row, section.hi));
	}
	free(work);
	return 0;
}

static int by_lo(const void *a, const void *b)
{
	const struct rows_span *x = a, *y = b;
	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	return (x->hi > y->hi) - (x->hi < y->hi);
}

static int is_sorted(const struct rows_list *list)
{
	for (size_t i = 1; i < list->count; i++)
		if (list->all[i].lo < list->all[i - 1].lo)
			return 0;
	return 1;
}

struct run {
	uint64_t lo;
	size_t first, count;
};

static int by_run_lo(const void *a, const void *b)
{
	const struct run *x = a, *y = b;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

/*
 * Order whole functions, not rows: spans that join seamlessly move together. 0 where memory is
 * short.
 */
static int sort_runs(struct rows_list *list)
{
	size_t count = 0;
	for (size_t i = 0; i < list->count; i++)
		count += !i || list->all[i].lo != list->all[i - 1].hi;
	struct run *runs = calloc(count, sizeof(*runs));
	struct rows_span *sorted = calloc(list->count, sizeof(*sorted));
	if (runs && sorted) {
		size_t run = 0, to = 0;
		for (size_t i = 0; i < list->count; i++) {
			if (!i || list->all[i].lo != list->all[i - 1].hi)
				runs[run++] = (struct run){ list->all[i].lo, i, 0 };
			runs[run - 1].count++;
		}
		qsort(runs, count, sizeof(*runs), by_run_lo);
		for (run = 0; run < count; to += runs[run++].count)
			memcpy(sorted + to, list->all + runs[run].first,
			       runs[run].count * sizeof(*sorted));
		free(list->all);
		list->all = STEAL(sorted);
		list->cap = list->count;
	}
	free(runs);
	free(sorted);
	return is_sorted(list);
}

/* Overlaps, which honest files do not have: the one that starts first keeps the place. */
static void sort(struct rows_list *list)
{
	if (list->count && !is_sorted(list) && !sort_runs(list))
		qsort(list->all, list->count, sizeof(*list->all), by_lo);
	uint64_t done = 0;
	for (size_t i = 0; i < list->count; i++) {
		struct rows_span *span = &list->all[i];
		if (span->lo < done)
			span->lo = done < span->hi ? done : span->hi;
		if (span->hi > done)
			done = span->hi;
	}
}

void rows_fill(struct rows_list *list, struct rows_list *more)
{
	sort(list);
	sort(more);
	size_t known = list->count, at = 0;
	for (size_t i = 0; i < more->count && !list->failed; i++) {
		const struct rows_span span = more->all[i];
		uint64_t lo = span.lo;
		while (at < known && list->all[at].hi <= lo)
			at++;
		for (size_t j = at; lo < span.hi; j++) {
			uint64_t hi =
				j < known && list->all[j].lo < span.hi ? list->all[j].lo : span.hi;
			if (lo < hi)
				rows_add(list, lo, hi, span.rule);
			if (j >= known || list->all[j].lo >= span.hi)
				break;
			if (list->all[j].hi > lo)
				lo = list->all[j].hi;
		}
	}
	list->fdes += more->fdes;
}

/* Numbers for recipes: open addressing over the dictionary being made. */
struct dictionary {
	uint64_t *rules;
	uint32_t count;
	/* number + 1 */
	uint32_t *slots;
};
#define DICTIONARY_SLOTS (WIRE_UNWIND_RULES_MAX * 2)

static int number_of(struct dictionary *d, uint64_t rule)
{
	uint64_t at = hash_u64(rule, 0, hash_seed()) & (DICTIONARY_SLOTS - 1);
	for (; d->slots[at]; at = (at + 1) & (DICTIONARY_SLOTS - 1))
		if (d->rules[d->slots[at] - 1] == rule)
			return (int)d->slots[at] - 1;
	if (d->count == WIRE_UNWIND_RULES_MAX)
		return -1;
	d->rules[d->count] = rule;
	d->slots[at] = ++d->count;
	return (int)d->count - 1;
}

struct layout {
	uint64_t text_lo, text_bytes;
	uint32_t *row;
	size_t row_count, row_cap;
	uint32_t *idx;
	/* grains whose first row is known */
	uint64_t idx_filled;
	/* rule number of the last row */
	int last;
	struct dictionary rules;
};

/* The executable segments: everything else is no code. */
static int find_text(struct layout *layout, const struct image *image, uint64_t *code_bytes)
{
	size_t count;
	uint64_t lo = UINT64_MAX, hi = 0;
	if (elf_getphdrnum(image->elf, &count) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr phdr;
		uint64_t end;
		if (!gelf_getphdr(image->elf, (int)i, &phdr) || phdr.p_type != PT_LOAD ||
		    !(phdr.p_flags & PF_X) || !phdr.p_memsz ||
		    __builtin_add_overflow(phdr.p_vaddr, phdr.p_memsz, &end))
			continue;
		lo = phdr.p_vaddr < lo ? phdr.p_vaddr : lo;
		hi = end > hi ? end : hi;
		*code_bytes += phdr.p_memsz;
	}
	if (lo >= hi)
		return -ENOENT;
	layout->text_lo = lo & ~(uint64_t)(WIRE_UNWIND_TEXT_ALIGN - 1);
	layout->text_bytes = hi - layout->text_lo;
	return layout->text_bytes > TEXT_MAX_BYTES ? -E2BIG : 0;
}

static int put_row(struct layout *l, uint64_t off, uint64_t rule)
{
	int number = number_of(&l->rules, rule);
	if (number < 0)
		return -E2BIG;
	if (number == l->last)
		return 0;
	for (uint64_t grain = off >> WIRE_UNWIND_GRAIN_SHIFT; l->idx_filled <= grain;
	     l->idx_filled++)
		l->idx[l->idx_filled] = (uint32_t)l->row_count;
	if (l->row_count == l->row_cap) {
		l->row_cap = l->row_cap ? l->row_cap * 2 : 4096;
		uint32_t *grown = reallocarray(l->row, l->row_cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		l->row = grown;
	}
	l->row[l->row_count++] = (uint32_t)(off & 0xffff) << 16 | (uint32_t)number;
	l->last = number;
	return 0;
}

static int lay_out(struct layout *l, const struct rows_list *list, struct unwind_rows_info *stats)
{
	const uint64_t gap = unwind_rule_make(WIRE_RULE_GAP, 0, 0, 0);
	uint64_t text_hi = l->text_lo + l->text_bytes, done = l->text_lo;
	l->row_count = 1; /* the sentinel; number 0 is the gap */
	l->last = number_of(&l->rules, gap);
	l->row = calloc(4096, sizeof(*l->row));
	l->row_cap = 4096;
	if (!l->row)
		return -ENOMEM;
	int rc = 0;
	for (size_t i = 0; !rc && i < list->count; i++) {
		const struct rows_span *span = &list->all[i];
		uint64_t lo = span->lo < l->text_lo ? l->text_lo : span->lo;
		uint64_t hi = span->hi > text_hi ? text_hi : span->hi;
		if (lo >= hi)
			continue;
		if (lo >= done + PADDING_BYTES)
			rc = put_row(l, done - l->text_lo, gap);
		if (!rc)
			rc = put_row(l, lo - l->text_lo, span->rule);
		if (unwind_rule_kind(span->rule) == WIRE_RULE_EVAL)
			stats->eval_rows++;
		done = hi;
	}
	if (!rc && done + PADDING_BYTES <= text_hi)
		rc = put_row(l, done - l->text_lo, gap);
	return rc;
}

static int64_t write_blob(struct layout *l, const struct image *image, struct wire_unwind **blob)
{
	uint64_t grains =
		(l->text_bytes + (1u << WIRE_UNWIND_GRAIN_SHIFT) - 1) >> WIRE_UNWIND_GRAIN_SHIFT;
	while (l->idx_filled <= grains)
		l->idx[l->idx_filled++] = (uint32_t)l->row_count;
	struct wire_unwind head = {
		.magic = WIRE_UNWIND_MAGIC,
		.version = WIRE_UNWIND_VERSION,
		.machine = WIRE_UNWIND_MACHINE_X86_64,
		.text_lo = l->text_lo,
		.text_bytes = l->text_bytes,
		.idx_count = (uint32_t)grains + 1,
		.row_count = (uint32_t)l->row_count,
		.rule_count = l->rules.count,
		.idx_off = sizeof(head),
	};
	head.row_off = head.idx_off + head.idx_count * 4;
	uint64_t rule_off = ((uint64_t)head.row_off + (uint64_t)head.row_count * 4 + 7) & ~7ULL;
	uint64_t total = rule_off + (uint64_t)head.rule_count * 8;
	if (total > INT32_MAX)
		return -E2BIG;
	head.rule_off = (uint32_t)rule_off;
	head.total_bytes = (uint32_t)total;
	if (image->build_id_len <= sizeof(head.build_id)) {
		head.build_id_len = image->build_id_len;
		memcpy(head.build_id, image->build_id, image->build_id_len);
	}
	char *out = calloc(1, total);
	if (!out)
		return -ENOMEM;
	memcpy(out, &head, sizeof(head));
	memcpy(out + head.idx_off, l->idx, (size_t)head.idx_count * 4);
	memcpy(out + head.row_off, l->row, (size_t)head.row_count * 4);
	memcpy(out + head.rule_off, l->rules.rules, (size_t)head.rule_count * 8);
	*blob = (struct wire_unwind *)out;
	return (int64_t)total;
}

int64_t rows_blob(struct rows_list *list, const struct image *image, struct wire_unwind **blob,
		  struct unwind_rows_info *stats)
{
	struct layout l = { 0 };
	if (list->failed)
		return -ENOMEM;
	sort(list);
	int64_t rc = find_text(&l, image, &stats->text_bytes);
	if (rc < 0)
		return rc;
	l.idx = calloc((l.text_bytes >> WIRE_UNWIND_GRAIN_SHIFT) + 3, sizeof(*l.idx));
	l.rules.rules = calloc(WIRE_UNWIND_RULES_MAX, sizeof(*l.rules.rules));
	l.rules.slots = calloc(DICTIONARY_SLOTS, sizeof(*l.rules.slots));
	rc = -ENOMEM;
	if (l.idx && l.rules.rules && l.rules.slots && !(rc = lay_out(&l, list, stats)))
		rc = write_blob(&l, image, blob);
	stats->fdes = list->fdes;
	stats->rows = l.row_count;
	stats->rules = l.rules.count;
	free(l.idx);
	free(l.row);
	free(l.rules.rules);
	free(l.rules.slots);
	return rc;
}
