/* SPDX-License-Identifier: Apache-2.0 */
#include "model/pagebook.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/intern.h"

#define BATCH 512

/* What one stack and kind had at the last reading; its number is the block's. */
struct slot {
	/* stack, or the text of reason and label */
	const void *who;
	/* a reference, so that no other gets its address; NULL for a text */
	const struct page_stack *held;
	uint8_t kind;
	struct stack_id stack;
	uint64_t bytes;
	/* that it was part of last, with @now bytes, of mappings of all names */
	uint64_t reading;
	uint64_t now;
};

struct named {
	/* module, frame, or interned text of a made-up frame */
	const void *what;
	/* of a stack node: its parent */
	uint64_t more;
	uint32_t id;
};

struct table {
	struct idtab tab;
	struct named *all;
	size_t count, cap;
};

struct pagebook {
	struct sink *sink;
	struct table modules, frames, nodes;
	struct intern texts;
	struct slot *slots;
	struct idtab slot_tab;
	size_t slot_count, slot_cap;
	/* by frame number; NULL: a made-up one */
	const struct page_frame **real;
	size_t real_cap;
	uint64_t readings, begun_ns, last_ns, peak_bytes;
	/* of the last reading */
	struct page_process *process;
	struct event events[BATCH];
	size_t event_count;
};

struct pagebook *pagebook_new(struct sink *sink, struct err *err)
{
	struct pagebook *book = calloc(1, sizeof(*book));
	if (!book) {
		err_set(err, -ENOMEM, "cannot record pages");
		return NULL;
	}
	book->sink = sink;
	return book;
}

static void table_fini(struct table *table)
{
	idtab_fini(&table->tab);
	free(table->all);
}

void pagebook_free(struct pagebook *book)
{
	if (!book)
		return;
	table_fini(&book->modules);
	table_fini(&book->frames);
	table_fini(&book->nodes);
	intern_fini(&book->texts);
	idtab_fini(&book->slot_tab);
	for (size_t i = 0; i < book->slot_count; i++)
		page_stack_put(book->slots[i].held);
	free(book->slots);
	free(book->real);
	page_process_put(book->process);
	free(book);
}

/*
 * The number of @what, a new one where it was not there: *@fresh. Numbers begin at 1. 0: no memory.
 */
static uint32_t number_of(struct table *table, const void *what, uint64_t more, int *fresh)
{
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)what, more, hash_seed());
	*fresh = 0;
	if (idtab_reserve(&table->tab) < 0)
		return 0;
	uint32_t at = idtab_first(&table->tab, hash);
	for (; table->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&table->tab, at)) {
		const struct named *known = &table->all[table->tab.slots[at].id];
		if (table->tab.slots[at].hash == hash && known->what == what && known->more == more)
			return known->id;
	}
	if (table->count == table->cap) {
		size_t cap = table->cap ? table->cap * 2 : 256;
		struct named *grown = realloc(table->all, cap * sizeof(*grown));
		if (!grown)
			return 0;
		table->all = grown;
		table->cap = cap;
	}
	table->all[table->count] =
		(struct named){ .what = what, .more = more, .id = (uint32_t)table->count + 1 };
	idtab_put(&table->tab, at, hash, (uint32_t)table->count);
	*fresh = 1;
	return (uint32_t)++table->count;
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot record pages");
}

static int define(struct pagebook *book, const struct def *def, struct err *err)
{
	return book->sink->define(book->sink, def, err);
}

/* ---- definitions ----------------------------------------------------------------------------- */

static int64_t module_id(struct pagebook *book, const struct page_module *module, struct err *err)
{
	int fresh;
	if (!module->path[0])
		return 0;
	uint32_t id = number_of(&book->modules, module, 0, &fresh);
	if (!id)
		return no_memory(err);
	struct def def = { .kind = DEF_MODULE, .id = id };
	def.module.path = module->path;
	memcpy(def.module.build_id, module->build_id, sizeof(def.module.build_id));
	def.module.build_id_len = module->build_id_len;
	int rc = fresh ? define(book, &def, err) : 0;
	return rc < 0 ? rc : (int64_t)id;
}

static int note_real(struct pagebook *book, uint32_t id, const struct page_frame *frame)
{
	if (id >= book->real_cap) {
		size_t cap = book->real_cap ? book->real_cap * 2 : 1024;
		while (cap <= id)
			cap *= 2;
		const struct page_frame **grown = realloc(book->real, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		memset(grown + book->real_cap, 0, (cap - book->real_cap) * sizeof(*grown));
		book->real = grown;
		book->real_cap = cap;
	}
	book->real[id] = frame;
	return 0;
}

static int64_t frame_id(struct pagebook *book, const struct page_frame *frame, struct err *err)
{
	int fresh;
	int64_t module = module_id(book, frame->module, err);
	if (module < 0)
		return module;
	uint32_t id = number_of(&book->frames, frame, 0, &fresh);
	if (!id || (fresh && note_real(book, id, frame) < 0))
		return no_memory(err);
	struct def def = { .kind = DEF_FRAME, .id = id };
	def.frame.module.v = (uint32_t)module;
	def.frame.offset = frame->offset;
	int rc = fresh ? define(book, &def, err) : 0;
	return rc < 0 ? rc : (int64_t)id;
}

/* A frame that is a word: a kind, a reason, a mapping. */
static int64_t word_id(struct pagebook *book, const char *text, struct err *err)
{
	int fresh;
	const char *kept = intern_str(&book->texts, text);
	uint32_t id = kept ? number_of(&book->frames, kept, 1, &fresh) : 0;
	if (!id || (fresh && note_real(book, id, NULL) < 0))
		return no_memory(err);
	if (!fresh)
		return id;
	struct def def = { .kind = DEF_FRAME, .id = id };
	def.frame.offset = UINT64_MAX - id; /* told apart by it where there is no module */
	int rc = define(book, &def, err);
	const struct symbol symbol = { .function = kept };
	struct def name = { .kind = DEF_SYMBOL, .id = id };
	name.symbol.symbols = &symbol;
	name.symbol.count = 1;
	if (!rc)
		rc = define(book, &name, err);
	return rc < 0 ? rc : (int64_t)id;
}

static int64_t node_id(struct pagebook *book, int64_t parent, int64_t frame, unsigned stop,
		       struct err *err)
{
	int fresh;
	if (parent < 0 || frame < 0)
		return parent < 0 ? parent : frame;
	uint32_t id =
		number_of(&book->nodes, NULL,
			  (uint64_t)parent << 33 | (uint64_t)stop << 28 | (uint64_t)frame, &fresh);
	if (!id)
		return no_memory(err);
	struct def def = { .kind = DEF_STACK, .id = id };
	def.stack.parent.v = (uint32_t)parent;
	def.stack.frame.v = (uint32_t)frame;
	def.stack.stop = (uint8_t)stop;
	int rc = fresh ? define(book, &def, err) : 0;
	return rc < 0 ? rc : (int64_t)id;
}

static const char *const kind_words[] = { [PAGES_ANON] = "[anonymous pages]",
					  [PAGES_SHMEM] = "[shared memory pages]",
					  [PAGES_FILE] = "[file pages]" };

static int64_t stack_id(struct pagebook *book, const struct page_row *row, struct err *err)
{
	unsigned stop = row->stack ? row->stack->stop : 0;
	int64_t node = stop && stop < STACK_STOP_MAX && stack_stop_name(stop)
			       ? node_id(book, 0, 0, stop, err)
			       : 0;
	node = node_id(book, node, word_id(book, kind_words[row->kind], err), 0, err);
	if (!row->stack) {
		node = node_id(book, node, word_id(book, page_reason_text(row->reason), err), 0,
			       err);
		return row->label ? node_id(book, node, word_id(book, row->label, err), 0, err)
				  : node;
	}
	for (uint16_t i = row->stack->count; i-- > 0 && node >= 0;)
		node = node_id(book, node, frame_id(book, row->stack->frames[i], err), 0, err);
	return node;
}

static int define_process(struct pagebook *book, int ended, int exit_status, struct err *err)
{
	const struct page_process *process = book->process;
	struct def def = { .kind = DEF_PROCESS };
	uint64_t now = clock_ns(CLOCK_MONOTONIC), real = clock_ns(CLOCK_REALTIME);
	def.process.pid = (uint32_t)process->pid;
	def.process.exe = process->exe;
	def.process.cmdline = process->cmdline ? process->cmdline : "";
	def.process.cmdline_bytes = process->cmdline_bytes;
	def.process.comment = PAGEBOOK_COMMENT;
	def.process.start_monotonic_ns = book->begun_ns;
	def.process.start_realtime_ns = real - (now - book->begun_ns);
	def.process.ended = ended >= 0;
	def.process.complete = ended >= 0;
	def.process.exit_status = exit_status;
	def.process.runtime_ns = book->last_ns - book->begun_ns;
	def.process.peak_rss_bytes = book->peak_bytes;
	return define(book, &def, err);
}

/* ---- events ---------------------------------------------------------------------------------- */

static int flush(struct pagebook *book, struct err *err)
{
	int rc = book->event_count
			 ? book->sink->put(book->sink, book->events, book->event_count, err)
			 : 0;
	book->event_count = 0;
	return rc;
}

static struct event *next_event(struct pagebook *book, enum event_kind kind)
{
	struct event *event = &book->events[book->event_count++];
	*event = (struct event){ .kind = (uint8_t)kind,
				 .time_ns = book->last_ns - book->begun_ns,
				 .block = { BLOCK_NONE } };
	return event;
}

/* @bytes is what @slot has now. */
static int change(struct pagebook *book, struct slot *slot, uint64_t bytes, struct err *err)
{
	int rc = book->event_count + 2 > BATCH ? flush(book, err) : 0;
	uint32_t number = (uint32_t)(slot - book->slots);
	uint8_t flags = slot->bytes && bytes ? EVENT_F_REALLOC : 0;
	if (rc < 0 || slot->bytes == bytes)
		return rc;
	if (slot->bytes) {
		struct event *event = next_event(book, EVENT_FREE);
		event->flags = flags;
		event->addr = ((uint64_t)number + 1) << 12;
		event->bytes = slot->bytes;
		event->stack = slot->stack;
		event->block.v = number;
	}
	if (bytes) {
		struct event *event = next_event(book, EVENT_ALLOC);
		event->flags = flags;
		event->addr = ((uint64_t)number + 1) << 12;
		event->bytes = bytes;
		event->stack = slot->stack;
		event->block.v = number;
	}
	slot->bytes = bytes;
	return 0;
}

static struct slot *slot_of(struct pagebook *book, const struct page_row *row, struct err *err)
{
	char text[512];
	const void *who = row->stack;
	if (!who) {
		snprintf(text, sizeof(text), "%u %s", row->reason, row->label ? row->label : "");
		who = intern_str(&book->texts, text);
	}
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)who, row->kind, hash_seed());
	if (!who || idtab_reserve(&book->slot_tab) < 0)
		return no_memory(err), NULL;
	uint32_t at = idtab_first(&book->slot_tab, hash);
	for (; book->slot_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&book->slot_tab, at)) {
		struct slot *known = &book->slots[book->slot_tab.slots[at].id];
		if (book->slot_tab.slots[at].hash == hash && known->who == who &&
		    known->kind == row->kind)
			return known;
	}
	if (book->slot_count == book->slot_cap) {
		size_t cap = book->slot_cap ? book->slot_cap * 2 : 1024;
		struct slot *grown = realloc(book->slots, cap * sizeof(*grown));
		if (!grown)
			return no_memory(err), NULL;
		book->slots = grown;
		book->slot_cap = cap;
	}
	int64_t stack = stack_id(book, row, err);
	if (stack < 0)
		return NULL;
	struct slot *slot = &book->slots[book->slot_count];
	*slot = (struct slot){ .who = who,
			       .held = page_stack_get(row->stack),
			       .kind = row->kind,
			       .stack = { (uint32_t)stack } };
	idtab_put(&book->slot_tab, at, hash, (uint32_t)book->slot_count++);
	return slot;
}

static int begin(struct pagebook *book, struct err *err)
{
	book->begun_ns = book->last_ns;
	int rc = define_process(book, -1, -1, err);
	struct def def = { .kind = DEF_THREAD };
	def.thread.tid = (uint32_t)book->process->pid;
	def.thread.name = book->process->comm;
	return rc < 0 ? rc : define(book, &def, err);
}

int pagebook_put(struct pagebook *book, const struct page_process *process, struct err *err)
{
	if (process->time_ns <= book->last_ns)
		return 0;
	page_process_put(book->process);
	book->process = page_process_get((struct page_process *)process);
	book->last_ns = process->time_ns;
	int rc = book->readings++ ? 0 : begin(book, err);
	if (process->rss_bytes > book->peak_bytes)
		book->peak_bytes = process->rss_bytes;
	for (size_t i = 0; !rc && i < process->row_count; i++) {
		const struct page_row *row = &process->rows[i];
		if (row->kind > PAGES_FILE)
			continue;
		struct slot *slot = slot_of(book, row, err);
		if (!slot)
			return err->code;
		slot->now = row->bytes + (slot->reading == book->readings ? slot->now : 0);
		slot->reading = book->readings;
	}
	/* what became less goes first: else a peak would be of two readings */
	for (int more = 0; more < 2; more++) {
		for (size_t i = 0; !rc && i < book->slot_count; i++) {
			struct slot *slot = &book->slots[i];
			uint64_t now = slot->reading == book->readings ? slot->now : 0;
			if ((now > slot->bytes) == more)
				rc = change(book, slot, now, err);
		}
	}
	if (!rc && book->event_count + 1 > BATCH)
		rc = flush(book, err);
	if (!rc) {
		struct event *event = next_event(book, EVENT_RSS);
		event->bytes = process->rss_bytes;
		event->value = book->peak_bytes;
		rc = flush(book, err);
	}
	if (!rc) {
		struct event *event = next_event(book, EVENT_RESIDENT);
		event->addr = process->kinds[PAGES_FILE];
		event->bytes = process->kinds[PAGES_SHMEM];
		event->value = process->kinds[PAGES_SWAP];
		rc = flush(book, err);
	}
	return rc;
}

int pagebook_end(struct pagebook *book, int ended, int exit_status, struct err *err)
{
	int rc = 0;
	for (uint32_t id = 0; !rc && book->process && id < book->real_cap; id++) {
		const struct page_frame *frame = book->real[id];
		const struct symbol *symbols =
			frame ? atomic_load_explicit(&frame->symbols, memory_order_acquire) : NULL;
		if (!symbols || !symbols[0].function)
			continue;
		struct def def = { .kind = DEF_SYMBOL, .id = id };
		def.symbol.symbols = symbols;
		def.symbol.count = frame->symbol_count;
		rc = define(book, &def, err);
	}
	return rc || !book->process ? rc : define_process(book, ended, exit_status, err);
}
