/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/jsonw.h"
#include "out/explain.h"
#include "out/failed.h"
#include "view/key.h"

#define FRAMES_MAX 256

static void put_frame(struct jsonw *j, const struct view_frame *f)
{
	jsonw_object(j, NULL);
	jsonw_str(j, "function", f->function);
	jsonw_str(j, "module", f->module);
	jsonw_u64(j, "offset", f->offset);
	jsonw_str(j, "file", f->file);
	if (f->line)
		jsonw_u64(j, "line", f->line);
	else
		jsonw_null(j, "line");
	jsonw_bool(j, "inlined", f->inlined);
	jsonw_object_end(j);
}

/* What it is called, and what names it where two are called alike. */
static void put_name(struct jsonw *j, enum view_by by, const char *name, uint64_t key,
		     const struct view_frame *f)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	char digits[VIEW_KEY_TEXT];
	buf_puts(&text, name);
	if (by == VIEW_BY_LINE && f && f->file)
		buf_printf(&text, ":%u", f->line);
	jsonw_str(j, "name", buf_cstr(&text));
	jsonw_str(j, "key", view_key_text(key, digits));
}

/* Without a file, by file, a group is its module (view/explain.c). */
static uint64_t group_key(enum view_by by, const struct view_frame *f)
{
	return view_frame_key(f, by == VIEW_BY_FILE && !f->file ? VIEW_BY_MODULE : by);
}

/* Call sites of one function are told apart. */
static uint64_t site_key(uint64_t outer, const struct view_frame *f)
{
	return view_key_mix(view_key_mix(outer, view_frame_key(f, VIEW_BY_FUNCTION)),
			    view_key_function(f->module, "", f->offset));
}

/** put_stack() - the frames of @group's stack. Return: the key of that path. */
static uint64_t put_stack(struct jsonw *j, const struct explain *e, uint32_t group)
{
	struct view_frame *frames = malloc(FRAMES_MAX * sizeof(*frames));
	unsigned stop;
	uint64_t key = VIEW_KEY_ROOT;
	size_t count = frames ? view_frames(e->names, (struct stack_id){ e->groups[group].stack },
					    frames, FRAMES_MAX, &stop)
			      : 0;
	for (size_t i = 0; i < count; i++)
		put_frame(j, &frames[i]);
	for (size_t i = count; i-- > 0;)
		key = site_key(key, &frames[i]);
	free(frames);
	return key;
}

static void put_frames(struct jsonw *j, const struct explain *e, uint32_t group)
{
	const char *name = explain_group_name(e, group);
	struct view_frame frame = { 0 };
	uint64_t key = view_key_function(NULL, name, 0);
	jsonw_array(j, "frames");
	if (group < e->sheet->group_count) {
		frame = e->groups[group].frame;
		if (e->by == VIEW_BY_STACK) {
			key = put_stack(j, e, group);
		} else {
			put_frame(j, &frame);
			if (!frame.function) /* all code of the module that has no names */
				frame.offset = 0;
			key = group_key(e->by, &frame);
		}
	}
	jsonw_array_end(j);
	put_name(j, e->by, name, key, &frame);
}

/** put_group() - @brief: of what lies beside RSS only how much. */
static void put_group(struct jsonw *j, const struct explain *e, const struct explain_ranked *ranked,
		      int brief)
{
	const struct sheet_group *g = &e->sheet->groups[ranked->group];
	jsonw_object(j, NULL);
	put_frames(j, e, ranked->group);
	jsonw_u64(j, "bytes", ranked->bytes);
	if (!brief) {
		jsonw_u64(j, "blocks", g->blocks);
		jsonw_u64(j, "live_bytes", g->live_bytes);
		jsonw_u64(j, "unit_bytes", g->unit_bytes);
		jsonw_u64(j, "alone_bytes", g->alone_bytes);
		jsonw_u64(j, "alone_without_caches_bytes", g->alone_without_caches_bytes);
		jsonw_u64(j, "untouched_bytes", g->untouched_bytes);
		jsonw_u64(j, "swapped_bytes", g->swapped_bytes);
		if (g->blocks) {
			jsonw_array(j, "age_ns"); /* 5, 50 and 95 % are younger */
			for (unsigned k = 0; k < 3; k++)
				jsonw_u64(j, NULL, g->age_ms[k] * 1000000ull);
			jsonw_array_end(j);
		}
	}
	jsonw_object_end(j);
}

static void put_folded(struct jsonw *j, size_t stacks, uint64_t bytes)
{
	if (!stacks)
		return;
	jsonw_u64(j, "folded_stacks", stacks);
	jsonw_u64(j, "folded_bytes", bytes);
}

/** put_stacks() - the @most costliest, 0: all; what is left is one sum. */
static void put_stacks(struct jsonw *j, const struct explain *e, unsigned class, size_t most)
{
	size_t count;
	struct explain_ranked *ranked = explain_rank(e, class, &count);
	size_t shown = most && most < count ? most : count;
	uint64_t folded = 0;
	jsonw_array(j, "stacks");
	for (size_t i = 0; i < shown; i++) {
		jsonw_line(j);
		put_group(j, e, &ranked[i], class >= EXPLAIN_UNTOUCHED);
	}
	jsonw_array_end(j);
	for (size_t i = shown; i < count; i++)
		folded += ranked[i].bytes;
	put_folded(j, count - shown, folded);
	free(ranked);
}

/*
 * Who touched the anonymous memory of this name first: of a line that is no other stack's, all
 * there is to say.
 */
static void put_touched(struct jsonw *j, const struct explain *e, const char *key,
			const char *label, size_t most)
{
	size_t count, at = explain_touched(e, label, &count);
	size_t shown = most && most < count ? most : count;
	uint64_t folded = 0;
	jsonw_array(j, key);
	for (size_t i = 0; i < shown; i++) {
		const struct explain_touch *touch = &e->touched[at + i];
		struct view_frame frame = { 0 }, first;
		uint64_t path = VIEW_KEY_ROOT;
		jsonw_object(j, NULL);
		jsonw_array(j, "frames");
		explain_touch_frame(touch, touch->first, &first);
		if (e->by != VIEW_BY_STACK)
			put_frame(j, &first);
		for (size_t k = 0; k < touch->stack->count && e->by == VIEW_BY_STACK; k++) {
			explain_touch_frame(touch, k, &frame);
			put_frame(j, &frame);
		}
		for (size_t k = touch->stack->count; k-- > 0 && e->by == VIEW_BY_STACK;) {
			explain_touch_frame(touch, k, &frame);
			path = site_key(path, &frame);
		}
		jsonw_array_end(j);
		put_name(j, e->by, explain_frame_name(e, &first),
			 e->by == VIEW_BY_STACK ? path : group_key(e->by, &first), &first);
		jsonw_u64(j, "bytes", touch->bytes);
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
	for (size_t i = shown; i < count; i++)
		folded += e->touched[at + i].bytes;
	put_folded(j, count - shown, folded);
}

static void put_lines(struct jsonw *j, const struct explain *e, size_t most)
{
	const struct sheet *sheet = e->sheet;
	int told[SHEET_CLASSES] = { 0 };
	jsonw_array(j, "lines");
	for (size_t i = 0; i < sheet->line_count; i++) {
		const struct sheet_line *line = &sheet->lines[i];
		jsonw_line(j);
		jsonw_object(j, NULL);
		jsonw_str(j, "class", sheet_class_name(line->class));
		jsonw_str(j, "label", line->label);
		jsonw_u64(j, "bytes", line->bytes);
		jsonw_bool(j, "exact", line->exact);
		jsonw_str(j, "how", line->how);
		jsonw_u64(j, "private_bytes",
			  line->bytes - (line->shared_bytes < line->bytes ? line->shared_bytes
									  : line->bytes));
		jsonw_u64(j, "shared_bytes", line->shared_bytes);
		/*
		 * groups belong to a class; they stand at its first line that is not somebody
		 * else's
		 */
		int theirs =
			(line->class == SHEET_LIVE && strcmp(line->label, "not recorded") != 0) ||
			line->class == SHEET_WASTE || line->class == SHEET_HOLES ||
			(line->class == SHEET_MMAP && !line->touched);
		size_t touched;
		explain_touched(e, line->label, &touched);
		touched = line->class == SHEET_RUNTIME || line->class == SHEET_NAMED ||
					  line->class == SHEET_DATA
				  ? touched
				  : 0;
		if (line->touched)
			put_touched(j, e, "stacks", line->label, most);
		else if (theirs && !told[line->class]) {
			told[line->class] = 1;
			put_stacks(j, e, line->class, most);
		} else {
			jsonw_array(j, "stacks");
			jsonw_array_end(j);
		}
		if (touched)
			put_touched(j, e, "touched_by", line->label, most);
		if (line->class == SHEET_LIVE && strcmp(line->label, "not recorded") == 0) {
			jsonw_array(j, "sizes");
			for (size_t k = 0; k < e->snapshot->size_count && !e->recorded; k++) {
				const struct snapshot_size *size = &e->snapshot->sizes[k];
				jsonw_object(j, NULL);
				jsonw_u64(j, "from", size->bytes);
				jsonw_u64(j, "blocks", size->count);
				jsonw_u64(j, "bytes", size->sum);
				jsonw_object_end(j);
			}
			jsonw_array_end(j);
		}
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
}

static void put_beside(struct jsonw *j, const struct explain *e, size_t most)
{
	const struct snapshot *s = e->snapshot;
	const struct {
		const char *class;
		uint64_t bytes;
	} beside[] = { { "untouched", e->sheet->untouched_bytes },
		       { "swapped", s->swap_bytes },
		       { "page-tables", s->page_table_bytes },
		       { "hugetlb", s->hugetlb_bytes },
		       { "held-files", s->held_bytes },
		       { "cgroup-page-cache", s->cgroup_cache_bytes },
		       { "cgroup-sockets", s->cgroup_socket_bytes } };
	jsonw_array(j, "beside");
	for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
		if (beside[i].bytes == UINT64_MAX) /* not known */
			continue;
		jsonw_object(j, NULL);
		jsonw_str(j, "class", beside[i].class);
		jsonw_str(j, "label", beside[i].class);
		jsonw_u64(j, "bytes", beside[i].bytes);
		if (i < 2) {
			put_stacks(j, e, i ? EXPLAIN_SWAPPED : EXPLAIN_UNTOUCHED, most);
		} else {
			jsonw_array(j, "stacks");
			jsonw_array_end(j);
		}
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
}

/** put_verdict() - the sheet in plain words, a sentence or some an entry. */
static void put_verdict(struct jsonw *j, const struct explain *e)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	out_explain_verdict(&text, e);
	char *line = (char *)(uintptr_t)buf_cstr(&text), *next;
	jsonw_line(j);
	jsonw_array(j, "verdict");
	for (; line; line = next) {
		next = strchr(line, '\n');
		if (next)
			*next++ = '\0';
		jsonw_str(j, NULL, line);
	}
	jsonw_array_end(j);
}

static void put_advice(struct jsonw *j, const struct explain *e)
{
	jsonw_line(j);
	jsonw_array(j, "advice");
	for (unsigned i = 0; i < e->advice_count; i++) {
		const struct advice *a = &e->advice[i];
		jsonw_line(j);
		jsonw_object(j, NULL);
		jsonw_str(j, "id", a->id);
		if (a->bound == ADVICE_UNKNOWN)
			jsonw_null(j, "saves_bytes");
		else
			jsonw_u64(j, "saves_bytes", a->saves_bytes);
		jsonw_str(j, "bound", advice_bound_name(a->bound));
		jsonw_str(j, "text", a->text);
		jsonw_str(j, "command", a->command);
		jsonw_str(j, "evidence", a->evidence);
		if (a->has_again) {
			jsonw_u64(j, "touched_again_bytes", a->again_bytes);
			jsonw_u64(j, "touched_again_within_ns", a->again_ns);
		}
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
	jsonw_array(j, "not_advised");
	for (unsigned i = 0; i < e->not_advised_count; i++) {
		jsonw_object(j, NULL);
		jsonw_str(j, "id", e->not_advised[i].id);
		jsonw_str(j, "why", e->not_advised[i].why);
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
}

static void put_check(struct jsonw *j, const char *name, uint64_t bytes, int64_t difference)
{
	jsonw_object(j, NULL);
	jsonw_str(j, "name", name);
	jsonw_u64(j, "bytes", bytes);
	jsonw_i64(j, "difference_bytes", difference);
	jsonw_object_end(j);
}

/* Which allocators there are, whose blocks they have, and what is in force. */
static void put_allocators(struct jsonw *j, const struct explain *e)
{
	const struct snapshot *s = e->snapshot;
	size_t count;
	struct explain_module *modules = explain_modules(e, &count);
	jsonw_line(j);
	jsonw_array(j, "allocators");
	for (size_t i = 0; i < s->allocator_count; i++) {
		const char *name = snapshot_string(s, s->allocators[i].name);
		jsonw_object(j, NULL);
		jsonw_str(j, "allocator", name);
		jsonw_str(j, "how", snapshot_string(s, s->allocators[i].how));
		jsonw_array(j, "modules");
		for (size_t k = 0; k < count; k++) {
			if (strcmp(modules[k].allocator, name) != 0)
				continue;
			jsonw_object(j, NULL);
			jsonw_str(j, "module", modules[k].module);
			jsonw_u64(j, "live_bytes", modules[k].live_bytes);
			jsonw_object_end(j);
		}
		jsonw_array_end(j);
		if (s->has_settings && strcmp(name, "glibc malloc") == 0) {
			jsonw_object(j, "settings");
			jsonw_u64(j, "trim_threshold", s->trim_threshold);
			jsonw_u64(j, "mmap_threshold", s->mmap_threshold);
			jsonw_bool(j, "thresholds_set", s->thresholds_set);
			jsonw_u64(j, "arena_max", s->arena_max); /* 0: not set */
			jsonw_u64(j, "arenas", s->arenas);
			jsonw_object_end(j);
		}
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
	free(modules);
}

static void put_rest(struct jsonw *j, const struct explain *e)
{
	const struct sheet *sheet = e->sheet;
	const struct snapshot *s = e->snapshot;
	jsonw_array(j, "occupancy");
	for (unsigned i = 0; i < SHEET_OCCUPANCY; i++) {
		jsonw_object(j, NULL);
		jsonw_double(j, "from", i / 10.0);
		jsonw_double(j, "to", (i + 1) / 10.0);
		jsonw_u64(j, "bytes", sheet->occupancy[i].bytes);
		jsonw_u64(j, "units", sheet->occupancy[i].units);
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
	jsonw_array(j, "map");
	for (unsigned i = 0; i < sheet->strip_count; i++) {
		const struct sheet_strip *strip = &sheet->strips[i];
		char text[24];
		jsonw_line(j);
		jsonw_object(j, NULL);
		jsonw_str(j, "label", strip->label);
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)strip->start);
		jsonw_str(j, "start", text);
		jsonw_u64(j, "bytes", strip->bytes);
		jsonw_u64(j, "rss_bytes", strip->rss_bytes);
		jsonw_u64(j, "cell_bytes", strip->cell_bytes);
		jsonw_array(j, "resident_bytes");
		for (unsigned k = 0; k < strip->cell_count; k++)
			jsonw_u64(j, NULL, strip->cells[k].resident_bytes);
		jsonw_array_end(j);
		jsonw_array(j, "owned_bytes");
		for (unsigned k = 0; k < strip->cell_count; k++)
			jsonw_u64(j, NULL, strip->cells[k].owned_bytes);
		jsonw_array_end(j);
		jsonw_array(j, "owner"); /* who has most of it; null: nobody */
		for (unsigned k = 0; k < strip->cell_count; k++)
			jsonw_str(j, NULL,
				  strip->cells[k].votes
					  ? explain_group_name(e, strip->cells[k].group)
					  : NULL);
		jsonw_array_end(j);
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
	jsonw_array(j, "together");
	for (unsigned i = 0; i < sheet->pair_count; i++) {
		jsonw_object(j, NULL);
		jsonw_array(j, "groups");
		for (unsigned k = 0; k < 2; k++) {
			jsonw_object(j, NULL);
			put_frames(j, e, k ? sheet->pairs[i].b : sheet->pairs[i].a);
			jsonw_object_end(j);
		}
		jsonw_array_end(j);
		jsonw_u64(j, "bytes", sheet->pairs[i].bytes);
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
	jsonw_array(j, "top_pins");
	for (unsigned i = 0; i < sheet->pin_count; i++) {
		const struct sheet_pin *pin = &sheet->pins[i];
		jsonw_object(j, NULL);
		jsonw_u64(j, "arena", pin->arena);
		put_frames(j, e, pin->group);
		jsonw_u64(j, "bytes", pin->bytes);
		jsonw_u64(j, "age_ns", pin->age_ms * 1000000u);
		jsonw_u64(j, "free_below_bytes", pin->free_below_bytes);
		jsonw_u64(j, "top_bytes", pin->top_bytes);
		jsonw_object_end(j);
	}
	jsonw_array_end(j);
	put_verdict(j, e);
	put_advice(j, e);
	put_allocators(j, e);
	jsonw_object(j, "contradictions");
	jsonw_u64(j, "blocks", sheet->contradictions);
	jsonw_double(j, "share",
		     sheet->live_blocks ? (double)sheet->contradictions / (double)sheet->live_blocks
					: 0);
	jsonw_u64(j, "unrecorded_bytes", sheet->unrecorded_bytes);
	jsonw_u64(j, "dropped_blocks", sheet->dropped_blocks);
	jsonw_object_end(j);
	jsonw_array(j, "checks");
	if (s->smaps_rss_bytes)
		put_check(j, "smaps_rss", s->smaps_rss_bytes,
			  (int64_t)(s->smaps_rss_bytes - s->rss_bytes));
	if (s->status_rss_bytes != UINT64_MAX)
		put_check(j, "status_rss", s->status_rss_bytes,
			  (int64_t)(s->status_rss_bytes - s->rss_bytes));
	put_check(j, "scan_rss", s->rss_bytes - (uint64_t)sheet->moved_bytes, -sheet->moved_bytes);
	uint64_t walked = 0;
	for (size_t i = 0; i < s->allocator_count; i++)
		if (s->allocators[i].consistency)
			walked += s->allocators[i].live_bytes;
	put_check(j, "walk_live", walked, (int64_t)(walked - sheet->live_bytes_all));
	jsonw_array_end(j);
}

void out_explain_members(struct jsonw *j, const struct explain *e, size_t most)
{
	const struct snapshot *s = e->snapshot;
	jsonw_u64(j, "pid", s->pid);
	jsonw_str(j, "comm", s->comm);
	jsonw_u64(j, "time_ns", s->time_ns);
	jsonw_i64(j, "snapshot_age_ns", e->snapshot_age_ns);
	jsonw_u64(j, "rss_bytes", s->rss_bytes);
	if (e->peak_rss_bytes)
		jsonw_u64(j, "peak_rss_bytes", e->peak_rss_bytes);
	else
		jsonw_null(j, "peak_rss_bytes");
	if (s->pss_bytes)
		jsonw_u64(j, "pss_bytes", s->pss_bytes);
	else
		jsonw_null(j, "pss_bytes");
	jsonw_bool(j, "recorded", e->recorded);
	jsonw_bool(j, "complete", e->complete);
	jsonw_bool(j, "recorder_behind", e->behind);
	jsonw_u64(j, "unreadable_snapshots", e->unreadable);
	put_lines(j, e, most);
	jsonw_line(j);
	jsonw_i64(j, "unexplained_bytes", e->sheet->unexplained_bytes);
	jsonw_object(j, "instant");
	jsonw_str(j, "mode", s->mode == SNAPSHOT_FROZEN ? "frozen" : "running");
	jsonw_u64(j, "window_ns", s->window_ns);
	jsonw_u64(j, "scan_ns", s->scan_ns);
	jsonw_u64(j, "stall_ns", s->stall_ns);
	if (e->has_window) {
		jsonw_u64(j, "allocated_bytes", e->window_allocated_bytes);
		jsonw_u64(j, "freed_bytes", e->window_freed_bytes);
	} else {
		jsonw_null(j, "allocated_bytes");
		jsonw_null(j, "freed_bytes");
	}
	jsonw_object_end(j);
	if (e->has_pages)
		jsonw_i64(j, "pages_age_ns", e->pages_age_ns);
	put_beside(j, e, most);
	put_rest(j, e);
}

int out_explain_json(FILE *to, const struct explain *e, size_t most, struct err *err)
{
	struct jsonw j;
	jsonw_init(&j, to);
	jsonw_object(&j, NULL);
	jsonw_u64(&j, "version", 1);
	jsonw_object(&j, "lost");
	jsonw_u64(&j, "events", e->lost_events);
	jsonw_object(&j, "by_reason");
	jsonw_object_end(&j);
	jsonw_object_end(&j);
	out_explain_members(&j, e, most);
	jsonw_object_end(&j);
	jsonw_line(&j);
	return out_failed(to, "cannot write the sheet", err);
}
