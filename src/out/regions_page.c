/* SPDX-License-Identifier: Apache-2.0 */
#include "out/regions_page.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"

static int put(FILE *to, const struct buf *text, struct err *err)
{
	if (buf_failed(text))
		return err_set(err, -ENOMEM, "cannot print");
	fwrite(text->data, 1, text->len, to);
	return 0;
}

static void put_compat(struct buf *text, const struct breakdown *b,
		       const struct out_regions_page *p)
{
	char title[64];
	size_t listed = p->how.top < b->region_count ? p->how.top : b->region_count;
	snprintf(title, sizeof(title), p->how.all ? "All Memory Regions" : "Top %zu Memory Regions",
		 listed);
	regions_compat(text, b, p->how.all ? b->region_count : p->how.top, title);
}

static int page_text(FILE *to, const struct breakdown *b, const struct out_regions_page *p,
		     struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	struct regions_text_opt how = p->how;
	how.all_labels = how.all;
	if (p->compat) {
		put_compat(&text, b, p);
	} else if (p->base) {
		const struct regions_diff_opt diff = { how.top, how.all, how.raw, how.ascii,
						       how.colour };
		int rc = regions_diff_text(&text, p->base, b, &diff, err);
		if (rc < 0)
			return rc;
	} else if (p->group) {
		out_regions_groups(&text, b, p->group, &how);
	} else {
		regions_text(&text, b, &how);
	}
	if (p->before_end && !p->compat) {
		char age[TEXT_NUMBER_MAX];
		buf_printf(&text, "\nthis is what it had %s before it ended\n",
			   text_duration(age, p->age_ns));
	}
	return put(to, &text, err);
}

int out_regions_page(FILE *to, const struct breakdown *b, const struct out_regions_page *p,
		     struct err *err)
{
	const struct out_regions_opt opt = { .top = p->how.top,
					     .all = p->how.all,
					     .sort = p->how.sort };
	struct jsonw json;
	int rc;
	switch (p->format) {
	case OUT_REGIONS_JSON:
		jsonw_init(&json, to);
		rc = p->base ? regions_diff_json(&json, p->base, b, err)
			     : out_regions_json(&json, NULL, b, &opt, p->age_ns, err);
		jsonw_line(&json);
		return rc;
	case OUT_REGIONS_CSV:
		return out_regions_csv(to, b, &opt, p->header, err);
	case OUT_REGIONS_TEXT:
		break;
	}
	return page_text(to, b, p, err);
}

int out_ledger_page(FILE *to, const struct ledger *ledger, const char *title, int json,
		    const struct regions_text_opt *how, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (json) {
		struct jsonw writer;
		jsonw_init(&writer, to);
		int rc = out_ledger_json(&writer, ledger, title, err);
		jsonw_line(&writer);
		return rc;
	}
	ledger_text(&text, ledger, title, how);
	return put(to, &text, err);
}

/*
 * Lines that the text takes, those that a terminal breaks among them; where the one behind @most
 * begins goes to *@cut.
 */
static size_t lines_of(const struct buf *text, size_t from, size_t width, size_t most, size_t *cut)
{
	size_t lines = 0;
	*cut = text->len;
	for (size_t at = from; at < text->len;) {
		const char *line = (const char *)text->data + at;
		const char *end = memchr(line, '\n', text->len - at);
		size_t len = end ? (size_t)(end - line) : text->len - at;
		lines += width && len > width ? (len + width - 1) / width : 1;
		if (lines > most && *cut == text->len)
			*cut = at;
		at += len + 1;
	}
	return lines;
}

static void put_screen(struct buf *text, const struct ledger *ledger, const char *title,
		       size_t rows, uint64_t after_ns, const struct regions_text_opt *how)
{
	/* with what fits least: a head, a heading, a process, the sum */
	const size_t least = 9;
	char since[TEXT_NUMBER_MAX];
	size_t from = text->len, room = rows - 1 /* the cursor's */, cut, lines = 0;
	struct regions_text_opt opt = *how;
	for (size_t shown = rows; shown > 0;
	     shown = lines - room < shown ? shown - (lines - room) : 0) {
		text->len = from;
		if (after_ns && rows > least)
			buf_printf(text, "after %s\n", text_duration(since, after_ns));
		opt.brief = rows <= least;
		ledger_live_text(text, ledger, title, shown, &opt);
		lines = lines_of(text, from, (size_t)opt.width, room, &cut);
		if (lines <= room)
			return;
	}
	text->len = cut;
}

int out_ledger_screen(FILE *to, const struct ledger *ledger, const char *title, size_t rows,
		      uint64_t after_ns, int apart, const struct regions_text_opt *how,
		      struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	char since[TEXT_NUMBER_MAX];
	if (rows) {
		buf_puts(&text, "\033[H\033[J");
		put_screen(&text, ledger, title, rows > 1 ? rows : 2, after_ns, how);
		return put(to, &text, err);
	}
	if (apart)
		buf_putc(&text, '\n');
	if (after_ns)
		buf_printf(&text, "after %s\n", text_duration(since, after_ns));
	ledger_live_text(&text, ledger, title, 0, how);
	return put(to, &text, err);
}
