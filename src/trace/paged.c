/* SPDX-License-Identifier: Apache-2.0 */
/* paged.c - PAGES blocks, the writing side; paged_read.c reads them. */
#include "trace/paged.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"
#include "trace/cursor.h"
#include "trace/paged_impl.h"

/*
 * What a block has numbered so far: modules by address, texts by their one copy, frames and nodes
 * by what they are.
 */
struct seen {
	struct idtab tab;
	struct seen_row {
		uint64_t a, b;
		/* of a text */
		uint64_t place;
	} * rows;
	size_t count, room;
};

static void seen_fini(struct seen *seen)
{
	idtab_fini(&seen->tab);
	free(seen->rows);
}

/* Return: its number from 1, 0 without memory; *@fresh: it was not there. */
static uint32_t seen_number(struct seen *seen, uint64_t a, uint64_t b, int *fresh)
{
	uint32_t hash = (uint32_t)hash_u64(a, b, hash_seed());
	*fresh = 0;
	if (idtab_reserve(&seen->tab) < 0)
		return 0;
	uint32_t at = idtab_first(&seen->tab, hash);
	for (; seen->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&seen->tab, at)) {
		const struct seen_row *row = &seen->rows[seen->tab.slots[at].id];
		if (seen->tab.slots[at].hash == hash && row->a == a && row->b == b)
			return seen->tab.slots[at].id + 1;
	}
	if (seen->count == seen->room) {
		size_t room = seen->room ? seen->room * 2 : 256;
		struct seen_row *grown = realloc(seen->rows, room * sizeof(*grown));
		if (!grown)
			return 0;
		seen->rows = grown;
		seen->room = room;
	}
	seen->rows[seen->count] = (struct seen_row){ .a = a, .b = b };
	idtab_put(&seen->tab, at, hash, (uint32_t)seen->count);
	*fresh = 1;
	return (uint32_t)++seen->count;
}

struct packing {
	struct blt_cols *cols;
	struct intern texts;
	struct seen text_places, modules, frames, nodes;
	uint64_t last_offset, last_shift;
	uint32_t last_module, last_frame;
	int failed;
};

static void packing_init(struct packing *p, struct blt_cols *cols)
{
	*p = (struct packing){ .cols = cols };
	buf_putc(&cols->col[PGC_TEXT], '\0'); /* place 0: no text */
}

static void packing_fini(struct packing *p)
{
	intern_fini(&p->texts);
	seen_fini(&p->text_places);
	seen_fini(&p->modules);
	seen_fini(&p->frames);
	seen_fini(&p->nodes);
}

/* Where @text stands; 0 for none. */
static uint64_t text_place(struct packing *p, const char *text)
{
	struct buf *to = &p->cols->col[PGC_TEXT];
	int fresh = 0;
	if (!text || !text[0])
		return 0;
	const char *kept = intern_str(&p->texts, text);
	uint32_t number = kept ? seen_number(&p->text_places, (uintptr_t)kept, 0, &fresh) : 0;
	if (!number) {
		p->failed = 1;
		return 0;
	}
	struct seen_row *row = &p->text_places.rows[number - 1];
	if (fresh) {
		row->place = to->len;
		buf_put(to, text, strlen(text) + 1);
	}
	return row->place;
}

static uint32_t pack_module(struct packing *p, const struct page_module *module)
{
	int fresh;
	uint32_t number = seen_number(&p->modules, (uintptr_t)module, 0, &fresh);
	if (!number)
		p->failed = 1;
	if (fresh) {
		struct buf *to = &p->cols->col[PGC_MODULES];
		put_num(to, text_place(p, module->path));
		put_num(to, text_place(p, module->path[0] ? NULL : module->name));
		put_num(to, module->build_id_len);
		buf_put(to, module->build_id, module->build_id_len);
	}
	return number;
}

static uint32_t pack_frame(struct packing *p, const struct page_frame *frame)
{
	int fresh;
	uint32_t number = seen_number(&p->frames, (uintptr_t)frame, 0, &fresh);
	if (!number)
		p->failed = 1;
	if (fresh) {
		struct buf *to = &p->cols->col[PGC_FRAMES];
		uint32_t module = pack_module(p, frame->module);
		uint64_t shift = frame->file_offset - frame->offset;
		put_num(to, zigzag((int64_t)module - (int64_t)p->last_module));
		put_num(to, zigzag((int64_t)(frame->offset - p->last_offset)));
		put_num(to, zigzag((int64_t)(shift - p->last_shift)));
		p->last_module = module;
		p->last_offset = frame->offset;
		p->last_shift = shift;
	}
	return number;
}

static uint32_t pack_stack(struct packing *p, const struct page_stack *stack)
{
	uint32_t node = 0;
	int fresh;
	for (uint16_t i = stack->count; i-- > 0;) {
		uint32_t frame = pack_frame(p, stack->frames[i]), parent = node;
		node = seen_number(&p->nodes, parent, frame, &fresh);
		if (!node)
			p->failed = 1;
		if (!fresh)
			continue;
		struct buf *to = &p->cols->col[PGC_NODES];
		put_num(to, node - parent);
		put_num(to, zigzag((int64_t)frame - (int64_t)p->last_frame));
		p->last_frame = frame;
	}
	return node;
}

static void pack_row(struct packing *p, const struct page_process *process,
		     const struct page_row *row)
{
	struct buf *to = &p->cols->col[PGC_ROWS];
	uint32_t node = row->stack ? pack_stack(p, row->stack) : 0;
	put_num(to, (uint64_t)row->kind << 8 | row->reason << 1 | (row->stack != NULL));
	put_num(to, row->bytes);
	put_num(to, text_place(p, row->label));
	if (!row->stack)
		return;
	put_num(to, node);
	put_num(to, row->stack->stop);
	put_num(to, row->stack->pid == process->pid ? 0 : (uint64_t)row->stack->pid);
}

/* The executable that most stacks belong to: the same in all of them but a parent's. */
static const struct page_module *program_of(const struct page_process *process)
{
	for (size_t i = 0; i < process->row_count; i++) {
		const struct page_stack *stack = process->rows[i].stack;
		if (stack && stack->pid == process->pid && stack->program)
			return stack->program;
	}
	return NULL;
}

static int note_names(struct paged_names *names, const struct packing *p)
{
	for (size_t i = 0; i < p->frames.count; i++) {
		const struct page_frame *frame = (const void *)(uintptr_t)p->frames.rows[i].a;
		if (!frame->module->path[0]) /* it never has a name, and may be forgotten by then */
			continue;
		if (frame->number >= names->room) {
			uint32_t room = names->room ? names->room : 1024;
			while (room <= frame->number)
				room *= 2;
			const struct page_frame **grown =
				realloc(names->frames, room * sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			memset(grown + names->room, 0, (room - names->room) * sizeof(*grown));
			names->frames = grown;
			names->room = room;
		}
		names->frames[frame->number] = frame;
	}
	return 0;
}

void paged_names_fini(struct paged_names *names)
{
	free(names->frames);
	*names = (struct paged_names){ 0 };
}

int paged_encode(struct blt_cols *cols, const struct page_shot *shot,
		 const struct page_process *process, uint64_t zero_ns, struct paged_names *names)
{
	struct packing p;
	packing_init(&p, cols);
	for (size_t i = 0; i < process->row_count && !p.failed; i++)
		pack_row(&p, process, &process->rows[i]);
	const struct page_module *program = program_of(process);
	uint32_t program_number = program ? pack_module(&p, program) : 0;
	uint64_t exe = text_place(&p, process->exe), comm = text_place(&p, process->comm);
	const uint64_t numbers[] = {
		PAGED_VERSION,
		PAGED_READING,
		process->time_ns > zero_ns ? process->time_ns - zero_ns : 0,
		process->rss_bytes,
		(uint64_t)process->pid,
		(uint64_t)(process->ended != 0) | (uint64_t)(process->was_late != 0) << 1,
		shot->realtime_ns,
		process->walk_ns,
		exe,
		comm,
		program_number,
		process->smaps_rss_bytes + 1,
		process->status_rss_bytes + 1,
		process->rss_anon_bytes + 1,
		process->rss_file_bytes + 1,
		process->rss_shmem_bytes + 1,
		process->swap_bytes + 1,
		process->hugetlb_bytes + 1,
		shot->kernel_bytes,
		shot->stacks,
		shot->stacks_max,
		shot->moved_pages,
		shot->stale_pages,
		p.modules.count,
		p.frames.count,
		p.nodes.count,
		process->row_count,
		PAGES_LOSSES,
	};
	struct buf *to = &cols->col[PGC_HEAD];
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		put_num(to, numbers[i]);
	for (unsigned i = 0; i < PAGES_LOSSES; i++)
		put_num(to, shot->lost[i]);
	int rc = p.failed ? -ENOMEM : note_names(names, &p);
	packing_fini(&p);
	return rc;
}

int paged_encode_names(struct blt_cols *cols, const struct paged_names *names, uint32_t *from,
		       uint32_t *count)
{
	struct packing p;
	struct buf *to = &cols->col[PGC_SYMBOLS];
	packing_init(&p, cols);
	*count = 0;
	for (; *from < names->room && !p.failed && *count < NAMES_ROWS_MAX &&
	       to->len + cols->col[PGC_TEXT].len < NAMES_BYTES;
	     ++*from) {
		const struct page_frame *frame = names->frames[*from];
		const struct symbol *symbols =
			frame ? atomic_load_explicit(&frame->symbols, memory_order_acquire) : NULL;
		if (!symbols || !symbols[0].function)
			continue;
		uint32_t n = atomic_load_explicit(&frame->symbol_count, memory_order_relaxed);
		n = n < PAGED_SYMBOLS_MAX ? n : PAGED_SYMBOLS_MAX;
		pack_frame(&p, frame); /* each is there once: its number is the row's */
		put_num(to, n);
		for (uint32_t i = 0; i < n; i++) {
			put_num(to, text_place(&p, symbols[i].function));
			put_num(to, text_place(&p, symbols[i].file));
			put_num(to, (uint64_t)symbols[i].line << 4 |
					    (uint64_t)(symbols[i].language & 7) << 1 |
					    (symbols[i].inlined != 0));
		}
		++*count;
	}
	const uint64_t numbers[] = { PAGED_VERSION, PAGED_NAMES, p.modules.count, p.frames.count };
	for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
		put_num(&cols->col[PGC_HEAD], numbers[i]);
	int failed = p.failed;
	packing_fini(&p);
	return failed ? -ENOMEM : 0;
}
