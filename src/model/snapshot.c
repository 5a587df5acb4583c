/* SPDX-License-Identifier: Apache-2.0 */
#include "model/snapshot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[SHEET_CLASSES] = {
	"heap-live",
	"heap-waste",
	"allocator-free-pages",
	"allocator-holes",
	"allocator-caches",
	"allocator-metadata",
	"runtime-heap",
	"anonymous-mmap",
	"named-regions",
	"thread-stacks",
	"program-and-library-data",
	"file-mappings",
	"shared-memory",
	"huge-pages",
	"kernel-instrumentation",
	"byteledger",
	"unexplained",
};

const char *sheet_class_name(unsigned class)
{
	return class < SHEET_CLASSES ? names[class] : "?";
}

void snapshot_free(struct snapshot *s)
{
	if (!s)
		return;
	free(s->regions);
	free(s->runs);
	free(s->units);
	free(s->pieces);
	free(s->stacks);
	free(s->own);
	free(s->allocators);
	free(s->sizes);
	free(s->text);
	free(s);
}

void snapshot_freep(struct snapshot **s)
{
	snapshot_free(*s);
}

uint32_t snapshot_text(struct snapshot *s, const char *text)
{
	size_t len = strlen(text) + 1;
	/* labels repeat: the last ones first would be no better, there are some dozens */
	for (size_t at = 0; at + len <= s->text_bytes; at += strlen(s->text + at) + 1)
		if (strcmp(s->text + at, text) == 0)
			return (uint32_t)at;
	if (s->text_bytes + len + 1 > s->text_room) {
		size_t room = (s->text_bytes + len + 1) * 2 + 256;
		char *grown = room < UINT32_MAX ? realloc(s->text, room) : NULL;
		if (!grown)
			return 0;
		s->text = grown;
		s->text_room = room;
	}
	if (!s->text_bytes)
		s->text[s->text_bytes++] = '\0';
	if (len == 1)
		return 0;
	memcpy(s->text + s->text_bytes, text, len);
	s->text_bytes += len;
	return (uint32_t)(s->text_bytes - len);
}

/* ---- what a file says ------------------------------------------------------------------------ */

#define PAGED_END (1ull << 62) /* what is looked at page by page lies below; vsyscall does not */
#define BYTES_MAX (1ull << 56) /* so many of the most that there can be do not overflow a sum */

static int range_ok(uint64_t *last, uint64_t start, uint64_t bytes)
{
	uint64_t end;
	if (!bytes || start < *last || __builtin_add_overflow(start, bytes, &end))
		return 0;
	*last = end;
	return 1;
}

static int regions_ok(const struct snapshot *s)
{
	uint64_t last = 0, sum = 0;
	for (size_t i = 0; i < s->region_count; i++) {
		const struct snapshot_region *r = &s->regions[i];
		uint64_t bytes = r->end - r->start;
		if (r->end <= r->start || !range_ok(&last, r->start, bytes) ||
		    r->rss_bytes > bytes || r->private_bytes > bytes || r->shared_bytes > bytes ||
		    r->swap_bytes > bytes || r->anonymous_bytes > r->rss_bytes ||
		    r->huge_bytes > bytes || r->lazy_free_bytes > bytes ||
		    r->class >= SHEET_CLASSES ||
		    (r->flags & SNAPSHOT_PAGED && r->end > PAGED_END) || r->label >= s->text_bytes)
			return 0;
		sum += r->rss_bytes;
	}
	return sum == s->rss_bytes && sum < BYTES_MAX;
}

int snapshot_check(const struct snapshot *s)
{
	uint64_t last = 0;
	int ok = s->text_bytes && !s->text[0] && !s->text[s->text_bytes - 1] &&
		 s->page_bytes >= 512 && s->page_bytes <= 1u << 20 &&
		 !(s->page_bytes & (s->page_bytes - 1)) && regions_ok(s);
	for (size_t i = 0; i < s->run_count && ok; i++)
		ok = s->runs[i].end > s->runs[i].start &&
		     range_ok(&last, s->runs[i].start, s->runs[i].end - s->runs[i].start) &&
		     !((s->runs[i].start | s->runs[i].end) & (s->page_bytes - 1));
	last = 0;
	for (size_t i = 0; i < s->unit_count && ok; i++) {
		const struct snapshot_unit *u = &s->units[i];
		ok = range_ok(&last, u->start, u->bytes) && u->kind >= SNAPSHOT_CHUNKS &&
		     u->kind < SNAPSHOT_UNIT_KINDS && u->slot < BYTES_MAX && u->head < BYTES_MAX &&
		     u->allocator < s->allocator_count;
	}
	last = 0;
	for (size_t i = 0; i < s->piece_count && ok; i++)
		ok = range_ok(&last, s->pieces[i].start, s->pieces[i].bytes) &&
		     s->pieces[i].kind >= SNAPSHOT_PIECE_FREE &&
		     s->pieces[i].kind <= SNAPSHOT_PIECE_TABLES;
	last = 0;
	for (size_t i = 0; i < s->stack_count && ok; i++)
		ok = s->stacks[i].end > s->stacks[i].start &&
		     range_ok(&last, s->stacks[i].start, s->stacks[i].end - s->stacks[i].start);
	last = 0;
	for (size_t i = 0; i < s->own_count && ok; i++)
		ok = s->own[i].end > s->own[i].start &&
		     range_ok(&last, s->own[i].start, s->own[i].end - s->own[i].start);
	for (size_t i = 0; i < s->allocator_count && ok; i++)
		ok = s->allocators[i].name < s->text_bytes && s->allocators[i].how < s->text_bytes;
	for (size_t i = 0; i < s->size_count && ok; i++)
		ok = s->sizes[i].sum < BYTES_MAX && s->sizes[i].count < BYTES_MAX;
	return ok ? 0 : -EBADMSG;
}
