/* SPDX-License-Identifier: Apache-2.0 */
/* screens_more.c - a process by mapping, resident pages, samples, and what a node said. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"
#include "tui/screens_internal.h"

#define COLUMNS(s, c)                             \
	do {                                      \
		(s)->columns = (c);               \
		(s)->column_count = ARRAY_LEN(c); \
	} while (0)

static struct sheet_row *add(struct sheet *s, uint32_t parent, uint64_t key, struct buf *name)
{
	return sheet_add(s, parent, key, buf_cstr(name));
}

/* Above what a signed number holds: the kernel's half. */
static uint64_t address(const json_t *object, const char *key)
{
	double n = json_number_value(json_object_get(object, key));
	return n > 0 && n < 18446744073709551615.0 ? (uint64_t)n : 0;
}

/* Of two addresses that are there: what lies between them. */
static int64_t span_of(uint64_t start, uint64_t end)
{
	uint64_t bytes = end - start;
	return end <= start ? SHEET_NONE : bytes >> 61 ? INT64_C(1) << 61 : (int64_t)bytes;
}

/* ---- regions --------------------------------------------------------------------------------- */

static const struct sheet_column class_columns[] = { { "RSS", SHEET_BYTES, 10, 0 },
						     { "PSS", SHEET_BYTES, 10, 120 },
						     { "SWAP", SHEET_BYTES, 9, 100 },
						     { "VIRTUAL", SHEET_BYTES, 10, 80 },
						     { "COUNT", SHEET_COUNT, 6, 100 } };

/** read_classes() - a class is the sum of its labels. */
static int read_classes(const struct reading *r)
{
	struct sheet *s = r->sheet;
	static const char *const keys[] = { "rss_bytes", "pss_bytes", "swap_bytes", "virtual_bytes",
					    "count" };
	const json_t *all = ARRAY(r, "classes"), *row;
	size_t i, count = json_array_size(all);
	uint32_t *place = arena_alloc(&s->arena, (count + 1) * sizeof(*place));
	if (!place)
		return -ENOMEM;
	for (i = 0; i < count; i++) {
		const char *class = reading_word(json_array_get(all, i), "class");
		size_t first = 0;
		while (first < i &&
		       strcmp(reading_word(json_array_get(all, first), "class")
				      ? reading_word(json_array_get(all, first), "class")
				      : "",
			      class ? class : "") != 0)
			first++;
		if (first == i && !sheet_add(s, 0, sheet_key(0, class), class))
			return -ENOMEM;
		place[i] = first == i ? s->count : place[first];
	}
	json_array_foreach((json_t *)all, i, row)
	{
		const char *label = reading_word(row, "label");
		struct sheet_row *sum = &s->rows[place[i] - 1];
		for (unsigned c = 0; c < ARRAY_LEN(keys); c++) {
			int64_t n = reading_number(row, keys[c]);
			sum->cells[c].number = reading_sum(sum->cells[c].number, n);
		}
		struct sheet_row *own = sheet_add(s, place[i], sheet_key(sum->key, label),
						  label && *label ? label : "(no label)");
		if (!own)
			return -ENOMEM;
		for (unsigned c = 0; c < ARRAY_LEN(keys); c++)
			own->cells[c].number = reading_number(row, keys[c]);
		if (reading_word(row, "how"))
			own->detail = reading_text(s, "known by: %s", reading_word(row, "how"));
	}
	s->name_head = "CLASS OF MEMORY";
	COLUMNS(s, class_columns);
	return 0;
}

static const struct sheet_column mapping_columns[] = { { "RSS", SHEET_BYTES, 10, 0 },
						       { "SWAP", SHEET_BYTES, 9, 100 },
						       { "VIRTUAL", SHEET_BYTES, 10, 80 },
						       { "PERMS", SHEET_WORD, 5, 80 },
						       { "CLASS", SHEET_WORD, 16, 120 } };

static int read_mappings(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *row;
	json_array_foreach(ARRAY(r, "regions"), i, row)
	{
		CLEANUP(buf_fini) struct buf name = { 0 };
		uint64_t start = address(row, "start"), end = address(row, "end");
		const char *label = reading_word(row, "label"), *file = reading_word(row, "name"),
			   *owner = reading_word(row, "owner");
		buf_printf(&name, "%llx %s", (unsigned long long)start,
			   label && *label ? label
			   : file          ? file
					   : "");
		struct sheet_row *to = add(s, 0, (uint64_t)start, &name);
		if (!to)
			return -ENOMEM;
		to->cells[0].number = reading_number(row, "rss_bytes");
		to->cells[1].number = reading_number(row, "swap_bytes");
		to->cells[2].number = span_of(start, end);
		to->cells[3].word = sheet_text(s, reading_word(row, "perms"));
		to->cells[4].word = sheet_text(s, reading_word(row, "class"));
		to->detail = reading_text(s, "%llx-%llx %s%s%s", (unsigned long long)start,
					  (unsigned long long)end, file ? file : "",
					  owner ? " · of " : "", owner ? owner : "");
	}
	s->name_head = "MAPPING";
	COLUMNS(s, mapping_columns);
	return 0;
}

static const struct sheet_column thread_columns[] = { { "STACK RSS", SHEET_BYTES, 10, 0 },
						      { "USED", SHEET_BYTES, 10, 0 },
						      { "RESERVED", SHEET_BYTES, 10, 80 },
						      { "TID", SHEET_NUMBER, 8, 0 } };

static int read_threads(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *row;
	json_array_foreach(ARRAY(r, "threads"), i, row)
	{
		int64_t tid = reading_number(row, "tid");
		struct sheet_row *to = sheet_add(s, 0, (uint64_t)tid, reading_word(row, "name"));
		if (!to)
			return -ENOMEM;
		to->cells[0].number = reading_number(row, "rss_bytes");
		to->cells[1].number = reading_number(row, "used_bytes");
		uint64_t start = address(row, "stack_start"), end = address(row, "stack_end");
		to->cells[2].number = span_of(start, end);
		to->cells[3].number = tid;
		to->detail = end ? reading_text(s, "stack %llx-%llx", (unsigned long long)start,
						(unsigned long long)end)
				 : "its stack is not known";
	}
	s->name_head = "THREAD";
	s->whole = 0;
	COLUMNS(s, thread_columns);
	return 0;
}

static const struct sheet_column allocator_columns[] = { { "LIVE", SHEET_BYTES, 10, 0 },
							 { "FREE", SHEET_BYTES, 10, 0 },
							 { "HOLES", SHEET_BYTES, 10, 0 },
							 { "CACHES", SHEET_BYTES, 10, 80 },
							 { "METADATA", SHEET_BYTES, 10, 100 } };

static int read_allocators(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *row;
	static const char *const keys[] = { "live_bytes", "free_page_bytes", "hole_bytes",
					    "cache_bytes", "metadata_bytes" };
	json_array_foreach(ARRAY(r, "allocators"), i, row)
	{
		const char *name = reading_word(row, "allocator"), *how = reading_word(row, "how");
		struct sheet_row *to = sheet_add(s, 0, sheet_key(0, name), name);
		if (!to)
			return -ENOMEM;
		for (unsigned c = 0; c < ARRAY_LEN(keys); c++)
			to->cells[c].number = reading_number(row, keys[c]);
		if (how)
			to->detail = reading_text(s, "known by: %s", how);
	}
	s->name_head = "ALLOCATOR";
	s->whole = 0;
	s->empty = "no allocator that can be read from outside";
	COLUMNS(s, allocator_columns);
	return 0;
}

int read_regions(const struct reading *r)
{
	static int (*const forms[])(const struct reading *) = { read_classes, read_mappings,
								read_threads, read_allocators };
	static const char *const names[] = { "classes", "mappings", "threads", "allocators" };
	unsigned form = r->what->form % ARRAY_LEN(forms);
	int64_t rss = reading_number(r->top, "rss_bytes"),
		swap = reading_number(r->top, "swap_bytes");
	char x[TEXT_NUMBER_MAX];
	r->sheet->rss_bytes = r->sheet->whole = rss > 0 ? (uint64_t)rss : 0;
	snprintf(r->sheet->says, sizeof(r->sheet->says), "regions · %s", names[form]);
	if (swap > 0)
		snprintf(r->sheet->right, sizeof(r->sheet->right), "swapped out %s",
			 text_bytes(x, (uint64_t)swap));
	else
		snprintf(r->sheet->right, sizeof(r->sheet->right), "%s mappings",
			 reading_count(x, r->top, "mappings"));
	reading_verdict(r, "verdict_sentences");
	return forms[form](r);
}

static const struct sheet_column map_columns[] = { { "BYTES", SHEET_BYTES, 10, 0 },
						   { "PERMS", SHEET_WORD, 5, 0 },
						   { "MADE", SHEET_SPAN, 10, 0 },
						   { "GONE", SHEET_SPAN, 10, 80 } };

/** read_maps() - of a recording: what the program mapped itself. */
int read_maps(const struct reading *r)
{
	struct sheet *s = r->sheet;
	const json_t *maps = ARRAY(r, "maps"),
		     *stacks = json_object_get(ARRAY(r, "stacks"), "frames"),
		     *names = json_object_get(ARRAY(r, "frames"), "short");
	size_t count = json_array_size(json_object_get(maps, "address"));
	COLUMNS(s, map_columns);
	s->name_head = "MAPPED BY";
	s->empty = "the program mapped nothing itself";
	for (size_t i = 0; i < count; i++) {
		CLEANUP(buf_fini) struct buf name = { 0 };
		const char *address =
			reading_word(json_array_get(json_object_get(maps, "address"), i), NULL);
		const char *file =
			reading_word(json_array_get(json_object_get(maps, "name"), i), NULL);
		int64_t stack =
			reading_number(json_array_get(json_object_get(maps, "stack"), i), NULL);
		const json_t *frames = stack >= 0 ? json_array_get(stacks, (size_t)stack) : NULL;
		int64_t first = reading_number(json_array_get(frames, 0), NULL);
		const char *who = first >= 0
					  ? reading_word(json_array_get(names, (size_t)first), NULL)
					  : NULL;
		buf_printf(&name, "%s %s", address ? address : "", who ? who : file ? file : "");
		uint64_t key = sheet_key(i, address);
		struct sheet_row *to = add(s, 0, key, &name);
		uint32_t place = s->count;
		if (!to)
			return -ENOMEM;
		to->cells[0].number =
			reading_number(json_array_get(json_object_get(maps, "bytes"), i), NULL);
		to->cells[1].word = sheet_text(
			s, reading_word(json_array_get(json_object_get(maps, "prot"), i), NULL));
		to->cells[2].number =
			reading_number(json_array_get(json_object_get(maps, "made_ns"), i), NULL);
		to->cells[3].number =
			reading_number(json_array_get(json_object_get(maps, "gone_ns"), i), NULL);
		to->detail = sheet_text(s, file);
		for (size_t f = 0; f < json_array_size(frames); f++) {
			int64_t frame = reading_number(json_array_get(frames, f), NULL);
			char at[24];
			snprintf(at, sizeof(at), "frame %zu", f);
			struct sheet_row *caller = sheet_add(
				s, place, sheet_key(key, at),
				frame >= 0
					? reading_word(json_array_get(names, (size_t)frame), NULL)
					: "?");
			if (!caller)
				return -ENOMEM;
			caller->is_faint = 1;
		}
	}
	snprintf(s->says, sizeof(s->says), "mappings that the program made itself");
	snprintf(s->right, sizeof(s->right), "%zu of them", count);
	return 0;
}

/* ---- pages ----------------------------------------------------------------------------------- */

static const struct sheet_column page_columns[] = { { "RESIDENT", SHEET_BYTES, 10, 0 },
						    { "SELF", SHEET_BYTES, 10, 80 },
						    { "OF FILES", SHEET_BYTES, 10, 100 } };

static int put_page(const struct reading *r, const json_t *node, uint32_t parent, uint64_t key,
		    int64_t above, unsigned depth)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *child;
	const json_t *name = json_object_get(node, "name");
	CLEANUP(buf_fini) struct buf text = { 0 };
	const char *pseudo = json_string_value(name),
		   *function = reading_word(name, "functionName"),
		   *module = reading_word(name, "executable");
	if (pseudo)
		buf_puts(&text, strcmp(pseudo, "underThreshold") == 0 ? "smaller ones"
				: strcmp(pseudo, "unknown") == 0      ? "no stack is known"
								      : pseudo);
	else if (function && r->what->short_name)
		r->what->short_name(&text, function, 0);
	else
		buf_printf(&text, "%s+0x%s", module && *module ? module : "?",
			   reading_word(name, "offset") ? reading_word(name, "offset") : "");
	/* its own name for the path, where it has one: two functions may be called alike */
	key = sheet_key(key, reading_word(node, "id") ? reading_word(node, "id") : buf_cstr(&text));
	struct sheet_row *row = add(s, parent, key, &text);
	uint32_t place = s->count;
	if (!row)
		return -ENOMEM;
	row->is_faint = pseudo != NULL;
	row->cells[0].number = reading_number(node, "value");
	row->cells[1].number = reading_number(node, "selfValue");
	row->cells[2].number = reading_number(node, "cacheValue");
	row->shows = row->cells[0].number * 2 >= above && depth < 40;
	row->detail = reading_text(s, "%s%s%s", function ? function : "",
				   function && module ? " · " : "", module ? module : "");
	int64_t own = row->cells[0].number;
	if (depth + 1 >= SHEET_DEPTH_MAX) {
		if (json_array_size(json_object_get(node, "frames")))
			reading_too_deep(s);
		return 0;
	}
	json_array_foreach(json_object_get(node, "frames"), i, child)
	{
		int rc = put_page(r, child, place, key, own, depth + 1);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int read_pages(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *child;
	char x[TEXT_NUMBER_MAX];
	int64_t whole = reading_number(r->top, "value");
	COLUMNS(s, page_columns);
	s->name_head = "WHO TOUCHED THE PAGES FIRST";
	s->whole = whole > 0 ? (uint64_t)whole : 0;
	s->rss_bytes = r->what->form % 2 ? 0 : s->whole;
	s->empty = "no page was counted";
	snprintf(s->says, sizeof(s->says),
		 r->what->form % 2 ? "pages · resident, and page cache that it caused"
				   : "pages · resident, callers on top");
	snprintf(s->right, sizeof(s->right), "of %s", text_bytes(x, s->whole));
	json_array_foreach(ARRAY(r, "frames"), i, child)
	{
		int rc = put_page(r, child, 0, 0, whole, 0);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- sampler --------------------------------------------------------------------------------- */

static const struct sheet_column sample_columns[] = { { "ASKED FOR", SHEET_BYTES, 10, 0 },
						      { "+- ERROR", SHEET_BYTES, 10, 100 },
						      { "CALLS", SHEET_COUNT, 9, 80 },
						      { "LIVE", SHEET_BYTES, 10, 0 },
						      { "VERDICT", SHEET_WORD, 9, 80 } };

static int read_sampled(const struct reading *r, const json_t *process, uint32_t parent,
			uint64_t key)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *row;
	char count[24];
	json_array_foreach(json_object_get(process, "rows"), i, row)
	{
		CLEANUP(buf_fini) struct buf name = { 0 }, whole = { 0 };
		const json_t *frames = json_object_get(row, "frames");
		if (json_array_size(frames))
			reading_function(r, json_array_get(frames, 0), &name);
		else
			buf_puts(&name, "no stack");
		for (size_t f = 0; f < json_array_size(frames); f++)
			buf_printf(&whole, " %s+%llx",
				   reading_word(json_array_get(frames, f), "module")
					   ? reading_word(json_array_get(frames, f), "module")
					   : "",
				   (unsigned long long)reading_number(json_array_get(frames, f),
								      "offset"));
		uint64_t own = sheet_key(key, buf_cstr(&whole));
		struct sheet_row *to = add(s, parent, own, &name);
		uint32_t place = s->count;
		if (!to)
			return -ENOMEM;
		to->cells[0].number = reading_number(row, "bytes");
		to->cells[1].number = reading_number(row, "error_bytes");
		to->cells[2].number = reading_number(row, "count");
		/* 0 where frees are not followed, which then says nothing */
		to->cells[3].number = json_object_get(row, "live_error_bytes")
					      ? reading_number(row, "live_bytes")
					      : SHEET_NONE;
		to->cells[4].word = sheet_text(s, reading_word(row, "verdict"));
		to->detail = reading_text(s, "%s samples", reading_count(count, row, "samples"));
		if (reading_frames(r, frames, place, own) < 0)
			return -ENOMEM;
	}
	return 0;
}

int read_sampler(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *process;
	json_t *all = ARRAY(r, "processes");
	size_t count = json_array_size(all);
	char x[TEXT_NUMBER_MAX], number[24];
	COLUMNS(s, sample_columns);
	s->name_head = "WHO ASKED";
	s->empty = "no call was sampled yet";
	json_array_foreach(all, i, process)
	{
		CLEANUP(buf_fini) struct buf name = { 0 };
		const char *exe = reading_word(process, "exe"),
			   *slash = exe ? strrchr(exe, '/') : NULL;
		int64_t bytes = reading_number(process, "estimated_bytes"),
			pid = reading_number(process, "pid"),
			ns = reading_number(process, "runtime_ns");
		uint64_t key = sheet_key((uint64_t)pid, "sampled");
		uint32_t parent = 0;
		s->whole += bytes > 0 ? (uint64_t)bytes : 0;
		snprintf(s->says, sizeof(s->says), "sampler · estimates of %s",
			 text_duration(x, ns > 0 ? (uint64_t)ns : 0));
		if (count > 1) {
			buf_printf(&name, "%s %s",
				   slash ? slash + 1
				   : exe ? exe
					 : "",
				   reading_count(number, process, "pid"));
			struct sheet_row *to = add(s, 0, key, &name);
			if (!to)
				return -ENOMEM;
			to->cells[0].number = bytes;
			to->cells[2].number = reading_number(process, "estimated_allocations");
			to->shows = 1;
			parent = s->count;
		}
		if (read_sampled(r, process, parent, key) < 0)
			return -ENOMEM;
		const json_t *lost = json_object_get(process, "lost");
		if (reading_number(lost, "events") > 0)
			snprintf(s->warns, sizeof(s->warns), "lost: %lld events",
				 (long long)reading_number(lost, "events"));
	}
	snprintf(s->right, sizeof(s->right), "of %s", text_bytes(x, s->whole));
	return 0;
}

/* ---- node ------------------------------------------------------------------------------------ */

static const struct sheet_column message_columns[] = { { "TIME", SHEET_CLOCK, 12, 0 },
						       { "", SHEET_WORD, 3, 0 },
						       { "KIND", SHEET_WORD, 22, 0 },
						       { "PEER", SHEET_WORD, 21, 80 } };

/* A list is an array, or a page of one with where it goes on. */
static json_t *list_of(const struct reading *r, const char *key)
{
	return json_is_array(r->top) ? r->top : ARRAY(r, key);
}

int read_messages(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *m;
	char number[24];
	json_t *all = list_of(r, "messages");
	COLUMNS(s, message_columns);
	s->name_head = "MESSAGE";
	s->stays = 1;
	s->empty = "no message is stored";
	json_array_foreach(all, i, m)
	{
		int64_t id = reading_number(m, "id");
		const char *kind = reading_word(m, "kind"), *category = reading_word(m, "category"),
			   *text = reading_word(m, "message_preview");
		struct sheet_row *to = sheet_add(s, 0, (uint64_t)id, text ? text : "");
		if (!to)
			return -ENOMEM;
		to->cells[0].number = reading_number(m, "timestamp");
		to->cells[1].word = json_is_true(json_object_get(m, "incoming")) ? "in" : "out";
		to->cells[2].word = sheet_text(s, kind ? kind : category);
		to->cells[3].word = sheet_text(s, reading_word(m, "remote_addr"));
		to->detail = reading_text(
			s, "message %s · %s · connection begun by %s",
			reading_count(number, m, "id"), category ? category : "",
			reading_word(m, "source_type") ? reading_word(m, "source_type") : "?");
	}
	if (json_array_size(all))
		snprintf(s->says, sizeof(s->says), "messages · the newest %zu first",
			 json_array_size(all));
	else
		snprintf(s->says, sizeof(s->says), "messages");
	return 0;
}

static const struct sheet_column connection_columns[] = {
	{ "BEGAN", SHEET_CLOCK, 12, 0 }, { "ENDED", SHEET_CLOCK, 12, 80 },
	{ "BY", SHEET_WORD, 6, 0 },      { "CHUNKS IN", SHEET_COUNT, 9, 100 },
	{ "OUT", SHEET_COUNT, 9, 100 },  { "GAPS", SHEET_COUNT, 5, 120 }
};

int read_connections(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *item;
	char in[24], out[24];
	json_t *all = list_of(r, "connections");
	COLUMNS(s, connection_columns);
	s->name_head = "PEER";
	s->stays = 1;
	s->empty = "no connection is stored";
	json_array_foreach(all, i, item)
	{
		CLEANUP(buf_fini) struct buf name = { 0 };
		/* [id, connection] */
		const json_t *c = json_is_array(item) ? json_array_get(item, 1) : item;
		const char *peer = reading_word(c, "peer_id"),
			   *why = reading_word(c, "close_reason"),
			   *at = reading_word(c, "remote_addr");
		buf_printf(&name, "%s %s", at ? at : "", peer ? peer : "");
		struct sheet_row *to =
			add(s, 0, sheet_key((uint64_t)reading_number(c, "started_at"), at), &name);
		if (!to)
			return -ENOMEM;
		to->cells[0].number = reading_number(c, "started_at");
		to->cells[1].number = reading_number(c, "closed_at");
		to->cells[2].word = sheet_text(s, reading_word(c, "initiator"));
		to->cells[3].number = reading_number(c, "chunks_remote");
		to->cells[4].number = reading_number(c, "chunks_local");
		to->cells[5].number = reading_number(c, "gaps");
		to->detail =
			reading_text(s, "%s · not decrypted: %s in, %s out", why ? why : "open",
				     reading_count(in, c, "undecrypted_remote"),
				     reading_count(out, c, "undecrypted_local"));
	}
	snprintf(s->says, sizeof(s->says), "connections · %zu of them", json_array_size(all));
	return 0;
}

static const struct sheet_column log_columns[] = { { "TIME", SHEET_CLOCK, 12, 0 },
						   { "LEVEL", SHEET_WORD, 7, 0 },
						   { "SECTION", SHEET_WORD, 20, 100 } };

int read_logs(const struct reading *r)
{
	struct sheet *s = r->sheet;
	size_t i;
	const json_t *m;
	json_t *all = list_of(r, "logs");
	COLUMNS(s, log_columns);
	s->name_head = "LINE";
	s->stays = 1;
	s->empty = "no log line is stored";
	json_array_foreach(all, i, m)
	{
		struct sheet_row *to = sheet_add(s, 0, (uint64_t)reading_number(m, "id"),
						 reading_word(m, "message"));
		if (!to)
			return -ENOMEM;
		to->cells[0].number = reading_number(m, "timestamp");
		to->cells[1].word = sheet_text(s, reading_word(m, "level"));
		to->cells[2].word = sheet_text(s, reading_word(m, "section"));
		to->detail = sheet_text(s, reading_word(m, "message"));
	}
	if (json_array_size(all))
		snprintf(s->says, sizeof(s->says), "log lines · the newest %zu first",
			 json_array_size(all));
	else
		snprintf(s->says, sizeof(s->says), "log lines");
	return 0;
}
