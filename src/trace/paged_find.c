/* SPDX-License-Identifier: Apache-2.0 */
/* paged_find.c - the readings of resident pages that a recording has. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "trace/paged.h"
#include "trace/reader.h"

struct trace_pages {
	struct trace_reader *reader;
	struct paged_home *home;
	struct trace_pages_reading *all;
	size_t count, room;
};

void trace_pages_free(struct trace_pages *pages)
{
	if (!pages)
		return;
	trace_reader_freep(&pages->reader);
	paged_home_put(pages->home);
	free(pages->all);
	free(pages);
}

static void freep(struct trace_pages **pages)
{
	trace_pages_free(*pages);
}

size_t trace_pages_count(const struct trace_pages *pages)
{
	return pages->count;
}

const struct trace_pages_reading *trace_pages_reading(const struct trace_pages *pages, size_t i)
{
	return i < pages->count ? &pages->all[i] : NULL;
}

/* A damaged block is passed over: the others tell as much as they did. */
static int take_block(struct trace_pages *pages, uint64_t at, const struct blt_head *head)
{
	struct blt_view view;
	struct trace_pages_reading one = { .at = at };
	int rc = reader_load(pages->reader, at, head, &view);
	if (rc < 0)
		return rc == -EBADMSG ? 0 : rc;
	one.time_ns = paged_time(&view, &one.rss_bytes);
	if (one.time_ns == UINT64_MAX) {
		rc = paged_decode_names(pages->home, &view);
		return rc == -EBADMSG ? 0 : rc;
	}
	if (pages->count == pages->room) {
		size_t room = pages->room ? pages->room * 2 : 16;
		struct trace_pages_reading *grown = realloc(pages->all, room * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		pages->all = grown;
		pages->room = room;
	}
	pages->all[pages->count++] = one;
	return 0;
}

static int find(struct trace_pages *pages)
{
	struct trace_reader *r = pages->reader;
	int rc = 0;
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes && rc >= 0;) {
		struct blt_head head;
		rc = reader_head(r, at, &head);
		if (rc == 0) {
			rc = reader_resync(r, at + 1, &at);
			if (rc == 0)
				break;
			continue;
		}
		if (rc > 0 && head.type == BLT_PAGES)
			rc = take_block(pages, at, &head);
		at += BLT_BLOCK_HEADER + head.stored;
	}
	return rc < 0 ? rc : 0;
}

struct trace_pages *trace_pages_new(const char *path, struct err *err)
{
	CLEANUP(freep) struct trace_pages *pages = calloc(1, sizeof(*pages));
	if (pages)
		pages->home = paged_home_new();
	if (!pages || !pages->home) {
		err_set(err, -ENOMEM, "cannot read '%s'", path);
		return NULL;
	}
	pages->reader = trace_reader_new(path, err);
	if (!pages->reader)
		return NULL;
	int rc = find(pages);
	if (rc < 0) {
		err_set(err, rc, "cannot read '%s'", path);
		return NULL;
	}
	return STEAL(pages);
}

struct page_shot *trace_pages_load(struct trace_pages *pages, size_t i, struct err *err)
{
	struct trace_reader *r = pages->reader;
	struct page_shot *shot = NULL;
	struct blt_head head;
	struct blt_view view;
	int rc = i < pages->count ? reader_head(r, pages->all[i].at, &head) : -ENOENT;
	rc = rc == 1 ? reader_load(r, pages->all[i].at, &head, &view) : rc < 0 ? rc : -EBADMSG;
	if (rc >= 0)
		shot = paged_decode(pages->home, &view, &rc);
	if (!shot)
		err_set(err, rc, "cannot use a reading of pages in '%s'%s", r->path,
			rc == -EBADMSG ? ": what it says is not possible" : "");
	return shot;
}
