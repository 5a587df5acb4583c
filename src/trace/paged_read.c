/* SPDX-License-Identifier: Apache-2.0 */
/*
 * paged_read.c - PAGES blocks, the reading side. Bytes are a stranger's: numbers are compared with
 * what is there, and what a block makes of itself is bounded by FRAMES_MAX.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "trace/cursor.h"
#include "trace/paged.h"
#include "trace/paged_impl.h"

#define DEPTH_MAX 1024u
#define FRAMES_MAX (8u << 20) /* of all stacks of a reading together */
#define BYTES_MAX (1ull << 56)
#define TEXT_MAX (64u << 20)

struct paged_home {
	atomic_int refs;
	struct arena arena;
	struct intern texts;
	struct idtab module_tab, frame_tab, stack_tab;
	struct page_module **modules;
	struct page_frame **frames;
	struct page_stack **stacks;
	size_t module_count, module_room, frame_count, frame_room, stack_count, stack_room;
};

struct paged_home *paged_home_new(void)
{
	struct paged_home *home = calloc(1, sizeof(*home));
	if (home)
		atomic_init(&home->refs, 1);
	return home;
}

struct paged_home *paged_home_get(struct paged_home *home)
{
	atomic_fetch_add(&home->refs, 1);
	return home;
}

void paged_home_put(struct paged_home *home)
{
	if (!home || atomic_fetch_sub(&home->refs, 1) > 1)
		return;
	for (size_t i = 0; i < home->stack_count; i++)
		page_stack_put(home->stacks[i]);
	free(home->stacks);
	free(home->modules);
	free(home->frames);
	idtab_fini(&home->module_tab);
	idtab_fini(&home->frame_tab);
	idtab_fini(&home->stack_tab);
	intern_fini(&home->texts);
	arena_fini(&home->arena);
	free(home);
}

static void leave(void *home)
{
	paged_home_put(home);
}

static int grow(void *all, size_t count, size_t *room)
{
	if (count < *room)
		return 0;
	size_t more = *room ? *room * 2 : 256;
	void *grown = reallocarray(*(void **)all, more, sizeof(void *));
	if (!grown)
		return -ENOMEM;
	*(void **)all = grown;
	*room = more;
	return 0;
}

/* ---- what equal things are one of ------------------------------------------------------------ */

static struct page_module *module_of(struct paged_home *home, const struct page_module *like)
{
	uint32_t hash = (uint32_t)(hash_u64((uintptr_t)like->path, (uintptr_t)like->name, 1) ^
				   hash_bytes(like->build_id, like->build_id_len, hash_seed()));
	if (idtab_reserve(&home->module_tab) < 0 ||
	    grow(&home->modules, home->module_count, &home->module_room) < 0)
		return NULL;
	uint32_t at = idtab_first(&home->module_tab, hash);
	for (; home->module_tab.slots[at].id != IDTAB_NONE;
	     at = idtab_next(&home->module_tab, at)) {
		struct page_module *known = home->modules[home->module_tab.slots[at].id];
		if (known->path == like->path && known->name == like->name &&
		    known->build_id_len == like->build_id_len &&
		    !memcmp(known->build_id, like->build_id, like->build_id_len))
			return known;
	}
	struct page_module *module = arena_memdup(&home->arena, like, sizeof(*like));
	if (!module)
		return NULL;
	idtab_put(&home->module_tab, at, hash, (uint32_t)home->module_count);
	return home->modules[home->module_count++] = module;
}

static struct page_frame *frame_of(struct paged_home *home, const struct page_module *module,
				   uint64_t offset, uint64_t file_offset)
{
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)module, offset, hash_seed());
	if (idtab_reserve(&home->frame_tab) < 0 ||
	    grow(&home->frames, home->frame_count, &home->frame_room) < 0)
		return NULL;
	uint32_t at = idtab_first(&home->frame_tab, hash);
	for (; home->frame_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&home->frame_tab, at)) {
		struct page_frame *known = home->frames[home->frame_tab.slots[at].id];
		if (known->module == module && known->offset == offset &&
		    known->file_offset == file_offset)
			return known;
	}
	struct page_frame *frame = arena_alloc(&home->arena, sizeof(*frame));
	if (!frame)
		return NULL;
	memset(frame, 0, sizeof(*frame));
	frame->module = module;
	frame->offset = offset;
	frame->file_offset = file_offset;
	frame->number = (uint32_t)home->frame_count;
	idtab_put(&home->frame_tab, at, hash, (uint32_t)home->frame_count);
	return home->frames[home->frame_count++] = frame;
}

/* A reference for the caller; @frames are @count of them, innermost first. */
static struct page_stack *stack_of(struct paged_home *home, const struct page_stack *like,
				   const struct page_frame *const *frames, uint16_t count)
{
	uint32_t hash = (uint32_t)(hash_bytes(frames, count * sizeof(*frames), hash_seed()) ^
				   hash_u64((uint64_t)like->pid, like->stop, 2));
	if (idtab_reserve(&home->stack_tab) < 0 ||
	    grow(&home->stacks, home->stack_count, &home->stack_room) < 0)
		return NULL;
	uint32_t at = idtab_first(&home->stack_tab, hash);
	for (; home->stack_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&home->stack_tab, at)) {
		struct page_stack *known = home->stacks[home->stack_tab.slots[at].id];
		if (home->stack_tab.slots[at].hash == hash && known->pid == like->pid &&
		    known->stop == like->stop && known->count == count &&
		    !memcmp(known->frames, frames, count * sizeof(*frames)))
			return page_stack_get(known);
	}
	struct page_stack *stack = malloc(sizeof(*stack) + count * sizeof(*frames));
	if (!stack)
		return NULL;
	*stack = *like;
	atomic_init(&stack->refs, 2);
	stack->number = (uint32_t)home->stack_count;
	stack->count = count;
	memcpy(stack->frames, frames, count * sizeof(*frames));
	idtab_put(&home->stack_tab, at, hash, (uint32_t)home->stack_count);
	return home->stacks[home->stack_count++] = stack;
}

/* ---- one block ------------------------------------------------------------------------------- */

struct unpacking {
	struct paged_home *home;
	struct cursor text;
	size_t text_bytes;
	/* by number, [0] unused */
	const struct page_module **modules;
	const struct page_frame **frames;
	/* [0] the empty stack */
	struct node {
		uint32_t parent, depth;
		const struct page_frame *frame;
	} * nodes;
	uint64_t module_count, frame_count, node_count, row_count, frames_made;
	int bad, no_memory;
};

static void unpacking_fini(struct unpacking *u)
{
	free(u->modules);
	free(u->frames);
	free(u->nodes);
}

static int text_begin(struct unpacking *u, const struct blt_view *view)
{
	u->text = cursor_column(view, PGC_TEXT);
	u->text_bytes = (size_t)(u->text.end - u->text.at);
	return u->text_bytes && u->text_bytes <= TEXT_MAX && !u->text.end[-1] ? 0 : -EBADMSG;
}

/* "" for place 0; lent by the block. */
static const char *get_text(struct unpacking *u, struct cursor *c)
{
	uint64_t place = get_num(c);
	if (c->bad || place >= u->text_bytes) {
		u->bad = 1;
		return "";
	}
	return place ? (const char *)u->text.at + place : "";
}

static const char *keep(struct unpacking *u, const char *text)
{
	const char *kept = intern_str(&u->home->texts, text);
	u->no_memory |= !kept;
	return kept ? kept : "";
}

/* A list of @count rows from 1 on, each of which takes @least bytes of the column or more. */
static void *list_of(struct unpacking *u, const struct cursor *c, uint64_t count, unsigned least,
		     size_t row_bytes)
{
	if (count > (uint64_t)(c->end - c->at) / least) {
		u->bad = 1;
		return NULL;
	}
	void *list = calloc(count + 1, row_bytes);
	u->no_memory |= !list;
	return list;
}

static void get_modules(struct unpacking *u, const struct blt_view *view)
{
	struct cursor c = cursor_column(view, PGC_MODULES);
	u->modules = list_of(u, &c, u->module_count, 3, sizeof(*u->modules));
	for (uint64_t i = 1; u->modules && i <= u->module_count && !u->bad; i++) {
		struct page_module like = { 0 };
		like.path = keep(u, get_text(u, &c));
		const char *name = get_text(u, &c), *base = strrchr(like.path, '/');
		uint64_t len = get_num(&c);
		if (c.bad || len > sizeof(like.build_id) || len > (uint64_t)(c.end - c.at)) {
			u->bad = 1;
			return;
		}
		memcpy(like.build_id, c.at, len);
		like.build_id_len = (uint8_t)len;
		c.at += len;
		like.name = keep(u, *name ? name : base ? base + 1 : like.path);
		u->modules[i] = module_of(u->home, &like);
		u->no_memory |= !u->modules[i];
	}
}

static void get_frames(struct unpacking *u, const struct blt_view *view)
{
	struct cursor c = cursor_column(view, PGC_FRAMES);
	uint64_t module = 0, offset = 0, shift = 0;
	u->frames = list_of(u, &c, u->frame_count, 3, sizeof(*u->frames));
	for (uint64_t i = 1; u->frames && i <= u->frame_count && !u->bad && !u->no_memory; i++) {
		module += (uint64_t)unzigzag(get_num(&c));
		offset += (uint64_t)unzigzag(get_num(&c));
		shift += (uint64_t)unzigzag(get_num(&c));
		if (c.bad || !module || module > u->module_count) {
			u->bad = 1;
			return;
		}
		u->frames[i] = frame_of(u->home, u->modules[module], offset, offset + shift);
		u->no_memory |= !u->frames[i];
	}
}

static void get_nodes(struct unpacking *u, const struct blt_view *view)
{
	struct cursor c = cursor_column(view, PGC_NODES);
	uint64_t frame = 0;
	u->nodes = list_of(u, &c, u->node_count, 2, sizeof(*u->nodes));
	for (uint64_t i = 1; u->nodes && i <= u->node_count && !u->bad; i++) {
		uint64_t back = get_num(&c);
		frame += (uint64_t)unzigzag(get_num(&c));
		if (c.bad || !back || back > i || !frame || frame > u->frame_count) {
			u->bad = 1;
			return;
		}
		struct node *node = &u->nodes[i];
		node->parent = (uint32_t)(i - back);
		node->depth = u->nodes[node->parent].depth + 1;
		node->frame = u->frames[frame];
		u->bad |= node->depth > DEPTH_MAX;
	}
}

static const struct page_stack *get_stack(struct unpacking *u, struct cursor *c, pid_t pid,
					  const struct page_module *program)
{
	const struct page_frame *frames[DEPTH_MAX];
	uint64_t node = get_num(c), stop = get_num(c), owner = get_num(c);
	if (c->bad || node > u->node_count || stop >= STACK_STOP_MAX || owner > INT32_MAX) {
		u->bad = 1;
		return NULL;
	}
	const struct page_stack like = { .pid = owner ? (pid_t)owner : pid,
					 .program = owner ? NULL : program,
					 .stop = (uint8_t)stop };
	uint16_t count = 0;
	for (; node; node = u->nodes[node].parent)
		frames[count++] = u->nodes[node].frame;
	u->frames_made += count;
	u->bad |= u->frames_made > FRAMES_MAX;
	const struct page_stack *stack = u->bad ? NULL : stack_of(u->home, &like, frames, count);
	u->no_memory |= !u->bad && !stack;
	return stack;
}

static void get_rows(struct unpacking *u, const struct blt_view *view, struct page_process *process,
		     const struct page_module *program)
{
	struct cursor c = cursor_column(view, PGC_ROWS);
	process->rows = list_of(u, &c, u->row_count, 3, sizeof(*process->rows));
	for (uint64_t i = 0; process->rows && i < u->row_count && !u->bad && !u->no_memory; i++) {
		struct page_row *row = &process->rows[process->row_count];
		uint64_t word = get_num(&c), bytes = get_num(&c);
		const char *label = get_text(u, &c);
		if (c.bad || word >> 8 >= PAGES_KINDS || (word & 255) >> 1 >= PAGES_REASONS ||
		    bytes >= BYTES_MAX || process->kinds[word >> 8] >= BYTES_MAX) {
			u->bad = 1;
			return;
		}
		row->kind = (uint8_t)(word >> 8);
		row->reason = (word & 255) >> 1;
		row->bytes = bytes;
		if (*label)
			row->label = strdup(label);
		u->no_memory |= *label && !row->label;
		process->row_count++; /* what it holds is let go with it from here on */
		row->stack = word & 1 ? get_stack(u, &c, process->pid, program) : NULL;
		process->kinds[row->kind] += bytes;
		if (row->kind > PAGES_FILE)
			continue;
		process->rss_bytes += bytes;
		if (row->stack)
			process->attributed_bytes += bytes;
		else
			process->unattributed[row->reason] += bytes;
	}
}

static uint64_t get_known(struct cursor *c)
{
	return get_num(c) - 1;
}

static void get_reading(struct unpacking *u, struct cursor *c, const struct blt_view *view,
			struct page_shot *shot, struct page_process *process)
{
	process->time_ns = shot->time_ns = get_num(c);
	get_num(c); /* RSS is what the rows come to */
	uint64_t pid = get_num(c), flags = get_num(c);
	process->pid = (pid_t)(pid & INT32_MAX);
	process->ended = flags & 1;
	process->was_late = flags >> 1 & 1;
	shot->realtime_ns = get_num(c);
	process->walk_ns = get_num(c);
	const char *exe = get_text(u, c), *comm = get_text(u, c);
	uint64_t program = get_num(c);
	uint64_t *checks[] = { &process->smaps_rss_bytes, &process->status_rss_bytes,
			       &process->rss_anon_bytes,  &process->rss_file_bytes,
			       &process->rss_shmem_bytes, &process->swap_bytes,
			       &process->hugetlb_bytes };
	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		*checks[i] = get_known(c);
	shot->kernel_bytes = get_num(c);
	shot->stacks = get_u32(c);
	shot->stacks_max = get_u32(c);
	shot->moved_pages = get_num(c);
	shot->stale_pages = get_num(c);
	u->module_count = get_num(c);
	u->frame_count = get_num(c);
	u->node_count = get_num(c);
	u->row_count = get_num(c);
	uint64_t losses = get_num(c);
	for (uint64_t i = 0; i < losses && !c->bad; i++) {
		uint64_t lost = get_num(c);
		if (i < PAGES_LOSSES)
			shot->lost[i] = lost;
	}
	if (c->bad || u->bad || pid > INT32_MAX || program > u->module_count) {
		u->bad = 1;
		return;
	}
	snprintf(process->exe, sizeof(process->exe), "%s", exe);
	snprintf(process->comm, sizeof(process->comm), "%s", comm);
	get_modules(u, view);
	if (!u->bad && !u->no_memory)
		get_frames(u, view);
	if (!u->bad && !u->no_memory)
		get_nodes(u, view);
	if (!u->bad && !u->no_memory)
		get_rows(u, view, process, program ? u->modules[program] : NULL);
}

struct page_shot *paged_decode(struct paged_home *home, const struct blt_view *view, int *rc)
{
	struct unpacking u = { .home = home };
	CLEANUP(page_shot_putp) struct page_shot *shot = calloc(1, sizeof(*shot));
	struct page_process *process = page_process_new();
	if (!shot || !process || !(shot->processes = calloc(1, sizeof(*shot->processes)))) {
		page_process_put(process);
		if (shot)
			atomic_init(&shot->refs, 1);
		*rc = -ENOMEM;
		return NULL;
	}
	atomic_init(&shot->refs, 1);
	shot->home = paged_home_get(home);
	shot->leave = leave;
	shot->processes[shot->count++] = process;
	struct cursor c = cursor_column(view, PGC_HEAD);
	*rc = text_begin(&u, view);
	if (!*rc && (get_num(&c) != PAGED_VERSION || get_num(&c) != PAGED_READING))
		*rc = -EBADMSG;
	if (!*rc)
		get_reading(&u, &c, view, shot, process);
	unpacking_fini(&u);
	if (!*rc)
		*rc = u.no_memory ? -ENOMEM : u.bad ? -EBADMSG : 0;
	return *rc ? NULL : STEAL(shot);
}

/* ---- names ----------------------------------------------------------------------------------- */

static void get_symbols(struct unpacking *u, const struct blt_view *view)
{
	struct cursor c = cursor_column(view, PGC_SYMBOLS);
	for (uint64_t i = 1; i <= u->frame_count && !u->bad && !u->no_memory; i++) {
		uint64_t n = get_num(&c);
		if (c.bad || !n || n > PAGED_SYMBOLS_MAX || n > (uint64_t)(c.end - c.at) / 3) {
			u->bad = 1;
			return;
		}
		struct symbol *symbols = arena_alloc(&u->home->arena, n * sizeof(*symbols));
		if (!symbols) {
			u->no_memory = 1;
			return;
		}
		memset(symbols, 0, n * sizeof(*symbols));
		for (uint64_t k = 0; k < n && !u->bad; k++) {
			const char *function = get_text(u, &c), *file = get_text(u, &c);
			uint64_t word = get_num(&c);
			symbols[k].function = *function ? keep(u, function) : NULL;
			symbols[k].file = *file ? keep(u, file) : NULL;
			symbols[k].line = (uint32_t)(word >> 4);
			symbols[k].language = word >> 1 & 7;
			symbols[k].inlined = word & 1;
		}
		struct page_frame *frame = (struct page_frame *)u->frames[i];
		if (u->bad || u->no_memory || atomic_load(&frame->symbols))
			continue;
		atomic_store(&frame->symbol_count, (uint32_t)n);
		atomic_store(&frame->symbols, symbols);
	}
	u->bad |= c.bad;
}

int paged_decode_names(struct paged_home *home, const struct blt_view *view)
{
	struct unpacking u = { .home = home };
	struct cursor c = cursor_column(view, PGC_HEAD);
	int rc = text_begin(&u, view);
	if (!rc && (get_num(&c) != PAGED_VERSION || get_num(&c) != PAGED_NAMES))
		rc = -EBADMSG;
	u.module_count = get_num(&c);
	u.frame_count = get_num(&c);
	if (!rc && c.bad)
		rc = -EBADMSG;
	if (!rc)
		get_modules(&u, view);
	if (!rc && !u.bad && !u.no_memory)
		get_frames(&u, view);
	if (!rc && !u.bad && !u.no_memory)
		get_symbols(&u, view);
	unpacking_fini(&u);
	return rc ? rc : u.no_memory ? -ENOMEM : u.bad ? -EBADMSG : 0;
}

uint64_t paged_time(const struct blt_view *view, uint64_t *rss_bytes)
{
	struct cursor c = cursor_column(view, PGC_HEAD);
	uint64_t version = get_num(&c), kind = get_num(&c), time_ns = get_num(&c);
	*rss_bytes = get_num(&c);
	return c.bad || version != PAGED_VERSION || kind != PAGED_READING ? UINT64_MAX : time_ns;
}
