/* SPDX-License-Identifier: Apache-2.0 */
/*
 * explain_text.c - the sheet for people: the verdict, the lines, who holds what, what would help.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "base/words.h"
#include "out/explain_impl.h"
#include "out/wrap.h"

#define WIDTH 100u
#define GROUPS 5u
#define FOLD_NAMED 52429 /* a twentieth of a MiB */

struct page {
	FILE *to;
	const struct explain *e;
	size_t width, limit;
	int ascii;
	/* names of lines that are too small for one of their own */
	struct buf fold;
	uint64_t folded;
};

/* What would be told as 0.0 MiB, and is no hundredth of its line, or the largest there, either. */
static int is_nothing(uint64_t bytes, uint64_t line)
{
	return bytes < FOLD_NAMED && bytes < line / 100;
}

static const char *shown(struct buf *to, const char *name, int ascii, size_t columns)
{
	buf_clear(to);
	text_escape(to, name, ascii);
	const char *text = buf_cstr(to);
	if (text_columns(text) > columns && columns > 3) {
		to->len = text_fit(text, columns - 3);
		buf_puts(to, "...");
		text = buf_cstr(to);
	}
	return text;
}

/* ---- groups ---------------------------------------------------------------------------------- */

static void name_groups(struct page *p, unsigned class, size_t most, struct buf *to)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	char n[TEXT_NUMBER_MAX];
	size_t count, shown_count = 0;
	struct explain_ranked *ranked = explain_rank(p->e, class, &count);
	uint64_t rest = 0, line = p->e->sheet->class_bytes[class];
	for (size_t i = 0; i < count; i++) {
		if (shown_count == most || (shown_count && is_nothing(ranked[i].bytes, line))) {
			rest += ranked[i].bytes;
			continue;
		}
		buf_printf(to, "%s%s %s", shown_count ? ", " : "",
			   shown(&name, explain_group_name(p->e, ranked[i].group), p->ascii, 48),
			   explain_mib(n, ranked[i].bytes));
		shown_count++;
	}
	if (!is_nothing(rest, line))
		buf_printf(to, ", others %s", explain_mib(n, rest));
	free(ranked);
}

/* ---- lines ----------------------------------------------------------------------------------- */

static int is_small(const struct page *p, uint64_t bytes)
{
	return explain_is_small(p->e, bytes);
}

static void put_line(struct page *p, uint64_t bytes, const char *text)
{
	char n[TEXT_NUMBER_MAX];
	double percent =
		p->e->sheet->rss_bytes ? 100.0 * (double)bytes / (double)p->e->sheet->rss_bytes : 0;
	fprintf(p->to, "%8s %5.1f  ", explain_mib(n, bytes), percent);
	out_wrap(p->to, p->width, 16, 16, text);
}

static void fold(struct page *p, uint64_t bytes, const char *text)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	char n[TEXT_NUMBER_MAX];
	p->folded += bytes;
	if (bytes < FOLD_NAMED) /* it would be told as 0.0 */
		return;
	buf_printf(&p->fold, "%s%s %s", p->fold.len ? "; " : "", shown(&name, text, p->ascii, 48),
		   explain_mib(n, bytes));
}

static void line_or_fold(struct page *p, uint64_t bytes, const char *line, const char *name)
{
	if (!bytes)
		return;
	if (is_small(p, bytes))
		fold(p, bytes, name);
	else
		put_line(p, bytes, line);
}

static void put_live(struct page *p)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	const struct explain *e = p->e;
	char n[TEXT_NUMBER_MAX];
	uint64_t other = explain_line_bytes(e, SHEET_LIVE, "not recorded"),
		 live = e->sheet->class_bytes[SHEET_LIVE] - other;
	if (live) {
		buf_printf(&text,
			   "live blocks, %s of them: ", text_grouped(n, e->sheet->live_blocks));
		name_groups(p, SHEET_LIVE, 3, &text);
		put_line(p, live, buf_cstr(&text));
	}
	if (!other)
		return;
	buf_clear(&text);
	buf_printf(&text, "in use by %s's own word, not recorded", explain_keeper(e));
	uint64_t count = 0;
	for (size_t i = 0; i < e->snapshot->size_count; i++)
		count += e->snapshot->sizes[i].count;
	if (!e->recorded && count) {
		/* the four sizes that take most */
		uint8_t taken[256] = { 0 };
		buf_printf(&text, ": %s blocks, most of it in", text_grouped(n, count));
		for (int k = 0; k < 4; k++) {
			size_t best = SIZE_MAX;
			for (size_t i = 0; i < e->snapshot->size_count && i < 256; i++)
				if (!taken[i] &&
				    (best == SIZE_MAX ||
				     e->snapshot->sizes[i].sum > e->snapshot->sizes[best].sum))
					best = i;
			if (best == SIZE_MAX)
				break;
			taken[best] = 1;
			buf_printf(&text, "%s %s of", k ? "," : "",
				   text_grouped(n, e->snapshot->sizes[best].count));
			buf_printf(&text, " %s",
				   text_bytes(n, e->snapshot->sizes[best].sum /
							 (e->snapshot->sizes[best].count
								  ? e->snapshot->sizes[best].count
								  : 1)));
		}
	}
	line_or_fold(p, other, buf_cstr(&text), "not recorded");
}

/*
 * What could go at once, and what blocks are longer than was asked for: on one line where that is
 * little.
 */
static void put_free(struct page *p)
{
	const struct sheet *sheet = p->e->sheet;
	uint64_t pages = sheet->class_bytes[SHEET_FREE_PAGES],
		 waste = sheet->class_bytes[SHEET_WASTE];
	char text[256], a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	if (!is_small(p, pages) && waste && is_small(p, waste)) {
		snprintf(text, sizeof(text), "free pages that %s keeps %s, rounding of blocks %s",
			 explain_keeper(p->e), explain_mib(a, pages), explain_mib(b, waste));
		put_line(p, pages + waste, text);
		return;
	}
	snprintf(text, sizeof(text), "free pages that %s keeps", explain_keeper(p->e));
	line_or_fold(p, pages, text, "free pages");
	line_or_fold(p, waste, "rounding of blocks up to their slots", "rounding of blocks");
}

/* What the allocators keep for themselves and for threads. */
static void put_books(struct page *p)
{
	const struct sheet *sheet = p->e->sheet;
	char text[64];
	line_or_fold(p, sheet->class_bytes[SHEET_CACHES], "caches: freed, but kept for a thread",
		     "caches");
	snprintf(text, sizeof(text), "%s's headers", explain_keeper(p->e));
	line_or_fold(p, sheet->class_bytes[SHEET_METADATA], "allocators' headers and tables", text);
}

static void put_holes(struct page *p)
{
	const struct explain *e = p->e;
	const struct sheet *sheet = e->sheet;
	CLEANUP(buf_fini) struct buf name = { 0 }, text = { 0 };
	char n[TEXT_NUMBER_MAX], a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX], c[TEXT_NUMBER_MAX];
	uint64_t holes = sheet->class_bytes[SHEET_HOLES], rest = 0;
	const char *units = explain_has_slabs(e) ? "slabs" : "pages";
	size_t count, others = 0;
	if (is_small(p, holes)) {
		fold(p, holes, "holes beside live blocks");
		return;
	}
	buf_printf(&text, "holes: free, but %s with a live block%s",
		   explain_has_slabs(e) ? "in a slab" : "on a page",
		   e->recorded ? "; held by" : "");
	put_line(p, holes, buf_cstr(&text));
	struct explain_ranked *ranked = e->recorded ? explain_rank(e, SHEET_HOLES, &count) : NULL;
	for (size_t i = 0; ranked && i < count; i++) {
		const struct sheet_group *g = &sheet->groups[ranked[i].group];
		if (i >= p->limit || ranked[i].bytes < holes / 100) {
			rest += ranked[i].bytes;
			others++;
			continue;
		}
		fprintf(p->to, "%8s        ", explain_mib(n, ranked[i].bytes));
		buf_clear(&text);
		buf_puts(&text, shown(&name, explain_group_name(e, ranked[i].group), p->ascii, 40));
		if (ranked[i].group < sheet->group_count)
			buf_printf(&text, "  %s MiB in %s blocks on %s MiB of %s (%.0f %% full)",
				   explain_mib(a, g->live_bytes), text_grouped(b, g->blocks),
				   explain_mib(c, g->unit_bytes), units,
				   g->unit_bytes
					   ? 100.0 * (double)(g->live_bytes + g->waste_bytes) /
						     (double)g->unit_bytes
					   : 0);
		out_wrap(p->to, p->width, 16, 18, buf_cstr(&text));
	}
	if (rest)
		fprintf(p->to, "%8s        %zu others\n", explain_mib(n, rest), others);
	free(ranked);
}

/* Who touched the anonymous memory under @label first: three names. */
static void name_touched(struct page *p, const char *label, struct buf *to)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	char n[TEXT_NUMBER_MAX];
	uint64_t rest = 0, most = 0;
	size_t count, at = explain_touched(p->e, label, &count);
	for (size_t i = 0; i < count; i++) {
		const struct explain_touch *touch = &p->e->touched[at + i];
		struct view_frame frame;
		if (i >= 3 || (i && is_nothing(touch->bytes, most))) {
			rest += touch->bytes;
			continue;
		}
		explain_touch_frame(touch, touch->first, &frame);
		most = i ? most : touch->bytes;
		buf_printf(
			to, "%s%s %s", i ? ", " : "",
			shown(&name, frame.function ? frame.function : frame.module, p->ascii, 48),
			explain_mib(n, touch->bytes));
	}
	if (!is_nothing(rest, most))
		buf_printf(to, ", others %s", explain_mib(n, rest));
}

static void put_mapped(struct page *p)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	const struct explain *e = p->e;
	uint64_t bytes = e->sheet->class_bytes[SHEET_MMAP] - e->touched_bytes;
	buf_puts(&text, "mapped by the program itself: ");
	name_groups(p, SHEET_MMAP, 3, &text);
	line_or_fold(p, bytes, buf_cstr(&text), "mapped by the program");
	for (size_t i = 0; i < e->sheet->line_count; i++) {
		const struct sheet_line *line = &e->sheet->lines[i];
		if (!line->touched)
			continue;
		buf_clear(&text);
		buf_puts(&text, "anonymous memory that nobody is known to have asked for, by who "
				"touched it first: ");
		name_touched(p, line->label, &text);
		line_or_fold(p, line->bytes, buf_cstr(&text), "touched by the program");
	}
}

static void put_runtime(struct page *p)
{
	const struct sheet *sheet = p->e->sheet;
	char text[256], a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	for (size_t i = 0; i < sheet->line_count; i++) {
		const struct sheet_line *line = &sheet->lines[i];
		if (line->class != SHEET_RUNTIME)
			continue;
		if (explain_is_walked(sheet, line))
			snprintf(text, sizeof(text), "%s: %s in use%s, %s free beside it",
				 line->label, explain_mib(a, sheet->runtime_live_bytes),
				 strcmp(line->label, "Go heap") ? "" : " or not yet collected",
				 explain_mib(b, sheet->runtime_hole_bytes +
							sheet->runtime_free_bytes));
		else if (explain_counted(p->e, line) != UINT64_MAX)
			snprintf(text, sizeof(text),
				 "%s: %s in use when it last collected; the rest not told apart",
				 line->label, explain_mib(a, explain_counted(p->e, line)));
		else
			snprintf(text, sizeof(text), "%s: live, garbage and free, not told apart",
				 line->label);
		CLEANUP(buf_fini) struct buf whole = { 0 };
		size_t touched;
		explain_touched(p->e, line->label, &touched);
		buf_puts(&whole, text);
		if (touched) {
			buf_puts(&whole, "; touched first by ");
			name_touched(p, line->label, &whole);
		}
		line_or_fold(p, line->bytes, buf_cstr(&whole), line->label);
	}
}

/* Classes of which each label stands by itself. */
static void put_others(struct page *p)
{
	static const struct {
		unsigned class;
		const char *text;
	} classes[] = { { SHEET_NAMED, "named: %s" },
			{ SHEET_STACKS, "stacks: %s" },
			{ SHEET_SHARED, "shared memory: %s" },
			{ SHEET_HUGE,
			  "%s: memory that was never written, as far as its contents tell" },
			{ SHEET_KERNEL, "kernel: %s" } };
	CLEANUP(buf_fini) struct buf name = { 0 };
	const struct sheet *sheet = p->e->sheet;
	char text[512];
	for (size_t k = 0; k < sizeof(classes) / sizeof(classes[0]); k++) {
		for (size_t i = 0; i < sheet->line_count; i++) {
			const struct sheet_line *line = &sheet->lines[i];
			if (line->class != classes[k].class || is_small(p, line->bytes))
				continue;
			const char *label = shown(&name, line->label, p->ascii, 60);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
			snprintf(text, sizeof(text), classes[k].text, label);
#pragma GCC diagnostic pop
			put_line(p, line->bytes, text);
		}
		uint64_t small = 0;
		for (size_t i = 0; i < sheet->line_count; i++)
			if (sheet->lines[i].class == classes[k].class &&
			    is_small(p, sheet->lines[i].bytes))
				small += sheet->lines[i].bytes;
		static const char *const folded[] = { "named regions", "stacks", "shared memory",
						      "zeroes in huge pages", "the kernel's" };
		fold(p, small, folded[k]);
	}
	line_or_fold(p, sheet->class_bytes[SHEET_DATA], "program's and libraries' own data",
		     "program and libraries' data");
	line_or_fold(p, sheet->class_bytes[SHEET_FILES],
		     "pages of files: program, libraries, mapped files", "files");
}

/* ---- the whole page -------------------------------------------------------------------------- */

static double explained(const struct explain *e)
{
	int64_t left = e->sheet->unexplained_bytes < 0 ? -e->sheet->unexplained_bytes
						       : e->sheet->unexplained_bytes;
	return e->sheet->rss_bytes ? 100.0 * (1 - (double)left / (double)e->sheet->rss_bytes) : 100;
}

static void put_heading(struct page *p)
{
	const struct explain *e = p->e;
	CLEANUP(buf_fini) struct buf name = { 0 };
	char left[256], right[128], age[TEXT_NUMBER_MAX], rss[TEXT_NUMBER_MAX];
	snprintf(left, sizeof(left), "%s (pid %u)%s%s%s",
		 shown(&name, e->snapshot->comm, p->ascii, 40), e->snapshot->pid,
		 e->snapshot->start_age_ns ? ", " : "",
		 e->snapshot->start_age_ns ? text_duration(age, e->snapshot->start_age_ns) : "",
		 e->snapshot->start_age_ns ? " after its start" : "");
	snprintf(right, sizeof(right), "RSS %s MiB, %.2f %% explained",
		 explain_mib(rss, e->sheet->rss_bytes), explained(e));
	size_t used = text_columns(left) + text_columns(right);
	if (used + 2 <= p->width)
		fprintf(p->to, "%s%*s%s\n", left, (int)(p->width - used), "", right);
	else
		fprintf(p->to, "%s\n  %s\n", left, right);
}

/* In plain words: what the program uses, and what became of the rest. */
static void put_verdict(struct page *p)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	out_explain_verdict(&text, p->e);
	char *line = (char *)(uintptr_t)buf_cstr(&text), *next;
	for (; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		fputs("  ", p->to);
		out_wrap(p->to, p->width, 2, 2, line);
	}
}

static void put_occupancy(struct page *p)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	const struct sheet *sheet = p->e->sheet;
	uint64_t all = 0, parts[4] = { 0 };
	static const char *const names[] = { "0-10\xc2\xa0%", "10-50\xc2\xa0%", "50-90\xc2\xa0%",
					     "90-100\xc2\xa0%" };
	char n[TEXT_NUMBER_MAX];
	for (unsigned i = 0; i < SHEET_OCCUPANCY; i++) {
		all += sheet->occupancy[i].bytes;
		parts[i < 1 ? 0 : i < 5 ? 1 : i < 9 ? 2 : 3] += sheet->occupancy[i].bytes;
	}
	if (!all || is_small(p, sheet->class_bytes[SHEET_HOLES]))
		return;
	buf_printf(&text, "How full are the %s MiB of %s with live blocks?", explain_mib(n, all),
		   explain_has_slabs(p->e) ? "slabs" : "pages");
	for (unsigned i = 0, some = 0; i < 4; i++) {
		unsigned bar = (unsigned)((unsigned __int128)parts[i] * 12 / all);
		if (parts[i])
			buf_printf(&text, "%s %s\xc2\xa0%.*s%s%s", some++ ? "," : "", names[i],
				   (int)bar, "############", bar ? "\xc2\xa0" : "",
				   explain_mib(n, parts[i]));
	}
	fputs("  ", p->to);
	out_wrap(p->to, p->width, 2, 2, buf_cstr(&text));
}

/* The allocator of each module, where there are several, and what glibc's settings are. */
static void put_in_force(struct page *p)
{
	const struct snapshot *s = p->e->snapshot;
	CLEANUP(buf_fini) struct buf text = { 0 }, name = { 0 };
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	size_t count;
	struct explain_module *modules = explain_modules(p->e, &count);
	int several = 0;
	for (size_t i = 1; i < count; i++)
		several |= strcmp(modules[i].allocator, modules[0].allocator) != 0;
	for (size_t i = 0; i < count && several && i < 6; i++)
		buf_printf(&text, "%s%s by %s", i ? ", " : "Who allocates: ",
			   shown(&name, modules[i].module, p->ascii, 40), modules[i].allocator);
	if (several)
		buf_puts(&text, count > 6 ? ", and others. " : ". ");
	if (s->has_settings) {
		buf_printf(&text, "In force in glibc: trim threshold %s",
			   text_bytes(a, s->trim_threshold));
		buf_printf(&text, ", mmap threshold %s (%s)", text_bytes(b, s->mmap_threshold),
			   s->thresholds_set                ? "set"
			   : s->trim_threshold == 131072ull ? "as built"
							    : "risen by themselves");
		buf_printf(&text, ", %u arena%s", s->arenas, s->arenas == 1 ? "" : "s");
		if (s->arena_max)
			buf_printf(&text, " of at most %llu", (unsigned long long)s->arena_max);
		buf_putc(&text, '.');
	}
	free(modules);
	if (!text.len)
		return;
	fputs("  ", p->to);
	out_wrap(p->to, p->width, 2, 2, buf_cstr(&text));
}

static void put_advice(struct page *p)
{
	const struct explain *e = p->e;
	char n[TEXT_NUMBER_MAX], d[TEXT_NUMBER_MAX];
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (e->advice_count)
		fprintf(p->to, "  What would help%*s\n", (int)(p->width - 17), "saves at most");
	for (unsigned i = 0; i < e->advice_count; i++) {
		const struct advice *a = &e->advice[i];
		char saves[TEXT_NUMBER_MAX + 8] = "not known";
		if (a->bound != ADVICE_UNKNOWN)
			snprintf(saves, sizeof(saves), "%s MiB", explain_mib(n, a->saves_bytes));
		buf_clear(&text);
		text_escape(&text, a->text, p->ascii);
		fprintf(p->to, "  %u ", i + 1);
		out_wrap_beside(p->to, p->width, 4, buf_cstr(&text), saves);
		buf_clear(&text);
		if (a->command[0])
			buf_printf(&text, "%s  ", a->command);
		buf_printf(&text, "(%s)", a->evidence);
		if (a->has_again)
			buf_printf(&text,
				   a->again_bytes ? " Of it %s MiB were needed again within %s."
						  : " None of it was needed again within %s%s.",
				   a->again_bytes ? explain_mib(n, a->again_bytes)
						  : text_duration(d, a->again_ns),
				   a->again_bytes ? text_duration(d, a->again_ns) : "");
		fputs("    ", p->to);
		out_wrap(p->to, p->width, 4, 4, buf_cstr(&text));
	}
	put_in_force(p);
	if (!e->not_advised_count)
		return;
	buf_clear(&text);
	buf_puts(&text, "Of no use here:");
	for (unsigned i = 0; i < e->not_advised_count; i++)
		buf_printf(&text, "%s %s (%s)", i ? "," : "", e->not_advised[i].id,
			   e->not_advised[i].why);
	buf_puts(&text, ".");
	fputs("  ", p->to);
	out_wrap(p->to, p->width, 2, 2, buf_cstr(&text));
}

static void put_beside(struct page *p)
{
	const struct explain *e = p->e;
	CLEANUP(buf_fini) struct buf text = { 0 };
	char n[TEXT_NUMBER_MAX];
	const struct {
		const char *name;
		uint64_t bytes;
	} beside[] = { { "never touched", e->sheet->untouched_bytes },
		       { "swapped out", e->snapshot->swap_bytes },
		       { "page tables", e->snapshot->page_table_bytes },
		       { "hugetlb", e->snapshot->hugetlb_bytes },
		       { "in nameless files, not mapped", e->snapshot->held_bytes },
		       { "its cgroup's page cache", e->snapshot->cgroup_cache_bytes },
		       { "its cgroup's sockets", e->snapshot->cgroup_socket_bytes } };
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++)
		if (beside[i].bytes != UINT64_MAX && beside[i].bytes >= 1u << 20)
			buf_printf(&text, "%s%s %s",
				   text.len ? ", " : "Beside RSS: ", beside[i].name,
				   explain_mib(n, beside[i].bytes));
	if (!text.len)
		return;
	fputs("  ", p->to);
	out_wrap(p->to, p->width, 2, 2, buf_cstr(&text));
}

static void put_pins(struct page *p)
{
	const struct sheet *sheet = p->e->sheet;
	CLEANUP(buf_fini) struct buf text = { 0 }, name = { 0 };
	char a[TEXT_NUMBER_MAX], b[TEXT_NUMBER_MAX];
	if (!sheet->pin_count || is_small(p, sheet->pins[0].free_below_bytes + 1))
		return;
	buf_puts(&text, "The heap's top is pinned by");
	for (unsigned i = 0; i < sheet->pin_count && i < 3; i++) {
		uint64_t below = sheet->pins[i].free_below_bytes;
		if (i && is_nothing(below, sheet->pins[0].free_below_bytes))
			break;
		buf_printf(
			&text, "%s %s of %s (%s MiB free below it)", i ? "," : "",
			text_bytes(b, sheet->pins[i].bytes),
			shown(&name, explain_group_name(p->e, sheet->pins[i].group), p->ascii, 40),
			explain_mib(a, below));
	}
	fputs("  ", p->to);
	out_wrap(p->to, p->width, 2, 2, buf_cstr(&text));
}

static void page_init(struct page *p, FILE *to, const struct explain *e, const struct out_opt *opt)
{
	memset(p, 0, sizeof(*p));
	p->to = to;
	p->e = e;
	p->width = opt->width > 40 ? (size_t)opt->width : WIDTH;
	p->limit = opt->limit ? opt->limit : GROUPS;
	p->ascii = opt->ascii;
}

int out_explain_text(FILE *to, const struct explain *e, const struct out_opt *opt, struct err *err)
{
	const struct sheet *sheet = e->sheet;
	struct page p;
	char text[256], n[TEXT_NUMBER_MAX];
	page_init(&p, to, e, opt);
	put_heading(&p);
	put_verdict(&p);
	fputs("     MiB     %\n", to);
	put_live(&p);
	put_free(&p);
	put_holes(&p);
	put_books(&p);
	put_runtime(&p);
	put_mapped(&p);
	put_others(&p);
	if (p.folded)
		put_line(&p, p.folded,
			 p.fold.len ? buf_cstr(&p.fold)
				    : "all else: stacks, headers, caches, data, files");
	if (sheet->class_bytes[SHEET_BYTELEDGER])
		put_line(&p, sheet->class_bytes[SHEET_BYTELEDGER],
			 "byteledger itself: not there without it");
	int64_t left = sheet->unexplained_bytes;
	snprintf(text, sizeof(text),
		 "unexplained (%lld KiB); the lines differ from the kernel's RSS by 0 bytes",
		 (long long)(left / 1024));
	fprintf(to, "%8.1f %5.1f  ", (double)left / 1048576,
		sheet->rss_bytes ? 100.0 * (double)left / (double)sheet->rss_bytes : 0);
	out_wrap(p.to, p.width, 16, 16, text);
	put_beside(&p);
	put_occupancy(&p);
	put_pins(&p);
	put_advice(&p);
	if (e->snapshot->mode == SNAPSHOT_FROZEN)
		fprintf(to, "  Stopped for %s while it was read.\n",
			text_duration(n, e->snapshot->stall_ns));
	else if (e->sheet->contradictions)
		fprintf(to,
			"  Nothing was stopped: %llu of %llu blocks contradict the allocator's "
			"books; the recording counts.\n",
			(unsigned long long)e->sheet->contradictions,
			(unsigned long long)e->sheet->live_blocks);
	if (e->snapshot->mode != SNAPSHOT_FROZEN && e->has_window &&
	    e->window_allocated_bytes + e->window_freed_bytes >= sheet->rss_bytes / 1000) {
		char window[TEXT_NUMBER_MAX], made[TEXT_NUMBER_MAX], freed[TEXT_NUMBER_MAX];
		snprintf(text, sizeof(text),
			 "It was read in %s, in which %s MiB were allocated and %s MiB freed.",
			 text_duration(window, e->snapshot->window_ns),
			 explain_mib(made, e->window_allocated_bytes),
			 explain_mib(freed, e->window_freed_bytes));
		out_wrap(p.to, p.width, 2, 2, text);
	}
	if (e->snapshot_age_ns >= 1000000000 || e->snapshot_age_ns <= -1000000000)
		fprintf(to, "  The snapshot is %s %s the moment that was asked for.\n",
			text_duration(n, (uint64_t)(e->snapshot_age_ns < 0 ? -e->snapshot_age_ns
									   : e->snapshot_age_ns)),
			e->snapshot_age_ns < 0 ? "after" : "before");
	buf_fini(&p.fold);
	return ferror(to) ? err_set(err, -EIO, "cannot write the sheet") : 0;
}

#define LEAST_SHOWN 52429 /* 0.1 MiB, rounded */

int out_explain_brief(FILE *to, const struct explain *e, const struct out_opt *opt, struct err *err)
{
	const struct sheet *sheet = e->sheet;
	CLEANUP(buf_fini) struct buf text = { 0 }, name = { 0 };
	char a[TEXT_NUMBER_MAX];
	struct page p;
	size_t count;
	page_init(&p, to, e, opt);
	uint64_t live = sheet->class_bytes[SHEET_LIVE],
		 pages = sheet->class_bytes[SHEET_FREE_PAGES],
		 holes = sheet->class_bytes[SHEET_HOLES];
	buf_printf(&text, "RSS %s MiB", explain_mib(a, sheet->rss_bytes));
	buf_printf(&text, " = %s " WORDS_LIVE, explain_mib(a, live));
	buf_printf(&text, " + %s " WORDS_FREE, explain_mib(a, pages));
	struct explain_ranked *ranked = explain_rank(e, SHEET_HOLES, &count);
	if (holes < LEAST_SHOWN || !count)
		holes = 0; /* of nothing there is no most */
	if (holes) {
		buf_printf(&text, " + %s " WORDS_HOLES ", most of them held by",
			   explain_mib(a, holes));
		buf_printf(&text, " %s",
			   shown(&name, explain_group_name(e, ranked[0].group), p.ascii, 40));
	}
	free(ranked);
	buf_printf(&text, " + %s " WORDS_ELSE,
		   explain_mib(a, sheet->rss_bytes - live - pages - holes));
	out_wrap(p.to, p.width, 0, 2, buf_cstr(&text));
	if (e->advice_count && e->advice[0].bound != ADVICE_UNKNOWN) {
		buf_clear(&text);
		text_escape(&text, e->advice[0].text, p.ascii);
		buf_printf(&text, ": %s MiB at most", explain_mib(a, e->advice[0].saves_bytes));
		out_wrap(p.to, p.width, 0, 2, buf_cstr(&text));
	}
	buf_clear(&text);
	snprintf(a, sizeof(a), "%.2f", explained(e));
	buf_printf(&text, "%s %% explained; 'byteledger explain' tells all of it", a);
	out_wrap(p.to, p.width, 0, 2, buf_cstr(&text));
	return ferror(to) ? err_set(err, -EIO, "cannot write the sheet") : 0;
}
