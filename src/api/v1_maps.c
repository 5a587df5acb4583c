/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_maps.c - mappings over time, where in the address space blocks lie, and what is at an address.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/v1_blocks.h"
#include "base/chunked.h"

#define MAPS_MAX 200000
#define STRIP_GAP (30ull << 20) /* a gap this large begins a new strip */
#define STRIPS_MAX 1000

/* ---- mappings -------------------------------------------------------------------------------- */

struct maps {
	struct v1_map *rows;
	size_t count, cap;
	/* more than MAPS_MAX */
	int cut;
};

struct map_build {
	struct sink sink;
	struct maps *maps;
	const struct prof *names;
	/* uint32_t by the producer's thread number */
	struct chunked tids;
	size_t *live, live_count, live_cap;
	/* plus one */
	size_t break_row;
	/* of what an mremap took away */
	uint32_t kept_prot, kept_flags;
};

static int add_map(struct map_build *b, const struct v1_map *row, struct err *err)
{
	struct maps *m = b->maps;
	if (m->count == MAPS_MAX) {
		m->cut = 1;
		return 0;
	}
	if (m->count == m->cap || b->live_count == b->live_cap) {
		size_t cap = m->cap ? m->cap * 2 : 256;
		size_t live_cap = b->live_cap ? b->live_cap * 2 : 256;
		struct v1_map *rows =
			m->count == m->cap ? realloc(m->rows, cap * sizeof(*rows)) : m->rows;
		size_t *live = b->live_count == b->live_cap
				       ? realloc(b->live, live_cap * sizeof(*live))
				       : b->live;
		if (m->count == m->cap && rows)
			m->cap = cap;
		if (b->live_count == b->live_cap && live)
			b->live_cap = live_cap;
		m->rows = rows ? rows : m->rows;
		b->live = live ? live : b->live;
		if (!rows || !live)
			return err_set(err, -ENOMEM, "cannot list the mappings");
	}
	b->live[b->live_count++] = m->count;
	m->rows[m->count++] = *row;
	return 0;
}

/**
 * take_away() - [@addr, @end) is mapped no more; what stands out on either side goes on as a
 * mapping of its own.
 */
static int take_away(struct map_build *b, uint64_t addr, uint64_t end, uint64_t time_ns,
		     struct err *err)
{
	int rc = 0;
	for (size_t i = b->live_count; i-- > 0 && rc == 0;) {
		struct v1_map *row = &b->maps->rows[b->live[i]];
		uint64_t row_end = row->addr + row->bytes;
		if (row->is_break || row->addr >= end || row_end <= addr)
			continue;
		struct v1_map left = *row, right = *row;
		row->gone_ns = time_ns;
		b->kept_prot = row->prot;
		b->kept_flags = row->flags;
		b->live[i] = b->live[--b->live_count];
		left.bytes = addr > left.addr ? addr - left.addr : 0;
		right.addr = end;
		right.bytes = row_end > end ? row_end - end : 0;
		left.made_ns = right.made_ns = time_ns;
		if (left.bytes)
			rc = add_map(b, &left, err);
		if (right.bytes && rc == 0)
			rc = add_map(b, &right, err);
	}
	return rc;
}

static int on_break(struct map_build *b, const struct event *ev, struct v1_map row, struct err *err)
{
	if (!b->break_row) {
		row.is_break = 1;
		row.bytes = 0;
		row.prot = PROT_READ | PROT_WRITE;
		row.flags = MAP_PRIVATE;
		int rc = add_map(b, &row, err);
		b->break_row = b->maps->count;
		return rc;
	}
	struct v1_map *heap = &b->maps->rows[b->break_row - 1];
	if (ev->addr >= heap->addr) {
		heap->bytes = ev->addr - heap->addr;
	} else {
		heap->bytes += heap->addr - ev->addr;
		heap->addr = ev->addr;
	}
	return 0;
}

static int map_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct map_build *b = (struct map_build *)sink;
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		const struct event *ev = &events[i];
		uint64_t end;
		if (ev->kind != EVENT_MAP && ev->kind != EVENT_UNMAP && ev->kind != EVENT_BRK)
			continue;
		if (__builtin_add_overflow(ev->addr, ev->bytes, &end))
			continue;
		struct v1_map row = {
			.addr = ev->addr,
			.bytes = ev->bytes,
			.made_ns = ev->time_ns,
			.gone_ns = BLOCK_NEVER,
			.stack = prof_stack_row(b->names, ev->stack).v,
			.prot = (uint32_t)ev->value,
			.flags = (uint32_t)(ev->value >> 32),
		};
		if (chunked_has(&b->tids, ev->thread.v))
			row.tid = *(uint32_t *)chunked_at(&b->tids, ev->thread.v);
		if (ev->kind == EVENT_BRK) {
			rc = on_break(b, ev, row, err);
			continue;
		}
		rc = take_away(b, ev->addr, end, ev->time_ns, err);
		if (ev->kind == EVENT_UNMAP || rc < 0)
			continue;
		if (ev->flags & EVENT_F_REALLOC) {
			row.prot = b->kept_prot;
			row.flags = b->kept_flags;
		}
		rc = add_map(b, &row, err);
	}
	return rc;
}

static int map_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct map_build *b = (struct map_build *)sink;
	if (def->kind != DEF_THREAD)
		return 0;
	uint32_t *tid = chunked_touch(&b->tids, def->id);
	if (!tid)
		return err_set(err, -ENOMEM, "cannot keep the threads");
	*tid = def->thread.tid;
	return 0;
}

static void maps_free(void *data)
{
	struct maps *maps = data;
	free(maps->rows);
	free(maps);
}

static int make_maps(const void *args, const struct shelf_task *task, struct shelf_product *product,
		     struct err *err)
{
	(void)args;
	struct maps *maps = calloc(1, sizeof(*maps));
	struct map_build b = { .sink = { .define = map_define, .put = map_put },
			       .maps = maps,
			       .names = task->book->names,
			       .tids = CHUNKED_INIT(uint32_t) };
	int rc = maps ? task->source->run(task->source->ctx, &b.sink, err)
		      : err_set(err, -ENOMEM, "cannot list the mappings");
	chunked_fini(&b.tids);
	free(b.live);
	if (rc < 0) {
		if (maps)
			maps_free(maps);
		return rc;
	}
	*product = (struct shelf_product){ maps, maps->cap * sizeof(*maps->rows), maps_free };
	return 0;
}

/** module_at() - what of a file lies there; NULL. */
static const struct prof_module *module_at(const struct prof *names, uint64_t addr)
{
	for (uint32_t i = 1; i < prof_module_count(names); i++) {
		const struct prof_module *m = prof_module(names, (struct module_id){ i });
		if (addr >= m->lo && addr < m->hi)
			return m;
	}
	return NULL;
}

const char *v1_map_name(const struct prof *names, const struct v1_map *map)
{
	const struct prof_module *module = map->is_break ? NULL : module_at(names, map->addr);
	return map->is_break ? "[heap]" : module ? module->name : NULL;
}

int v1_maps_get(struct v1_call *call, const struct v1_map **rows, size_t *count, struct err *err)
{
	const struct shelf_query query = { .source = call->source,
					   .key = "maps?",
					   .make = make_maps };
	int rc = v1_reading(call, &query, &call->reading, err);
	if (rc)
		return rc;
	const struct maps *maps = call->reading->product.data;
	*rows = maps->rows;
	*count = maps->count;
	return 0;
}

static void put_maps(struct v1_call *call, struct v1_stacks *stacks, const struct maps *maps,
		     const struct block_filter *filter)
{
	struct jsonw *json = &call->json;
	const struct prof *names = call->reading->book->names;
	struct v1_column addr = { 0 }, bytes = { 0 }, prot = { 0 }, made = { 0 }, gone = { 0 },
			 thread = { 0 }, stack = { 0 };
	jsonw_object(json, "maps");
	jsonw_array(json, "name");
	for (size_t i = 0; i < maps->count; i++) {
		const struct v1_map *r = &maps->rows[i];
		/* the words mean of a mapping what they mean of a block */
		const struct block_row row = {
			.time_ns = r->made_ns,
			.freed_ns = r->gone_ns,
			.addr = r->addr,
			.bytes = r->bytes,
			.stack = r->stack,
			.tid = r->tid,
		};
		if (!block_matches(filter, &row))
			continue;
		char text[8];
		snprintf(text, sizeof(text), "\"%c%c%c%c\"", r->prot & PROT_READ ? 'r' : '-',
			 r->prot & PROT_WRITE ? 'w' : '-', r->prot & PROT_EXEC ? 'x' : '-',
			 r->flags & MAP_SHARED && !(r->flags & MAP_PRIVATE) ? 's' : 'p');
		jsonw_str(json, NULL, v1_map_name(names, r));
		v1_col_addr(&addr, r->addr);
		v1_col_u64(&bytes, r->bytes);
		v1_col_raw(&prot, text);
		v1_col_u64(&made, r->made_ns);
		v1_col_time(&gone, r->gone_ns);
		v1_col_u64(&thread, r->tid);
		v1_col_i64(&stack, v1_stack(stacks, r->stack));
	}
	jsonw_array_end(json);
	v1_col_put(call, "address", &addr);
	v1_col_put(call, "bytes", &bytes);
	v1_col_put(call, "prot", &prot);
	v1_col_put(call, "made_ns", &made);
	v1_col_put(call, "gone_ns", &gone);
	v1_col_put(call, "thread", &thread);
	v1_col_put(call, "stack", &stack);
	jsonw_object_end(json);
}

int v1_maps(struct v1_call *call, struct err *err)
{
	struct block_filter filter;
	struct v1_stacks stacks;
	const struct v1_map *all;
	size_t count;
	int rc = v1_maps_get(call, &all, &count, err);
	if (rc)
		return rc;
	const struct maps *maps = call->reading->product.data;
	rc = block_filter_init(&filter, &call->ask.query, call->reading->book->names, err);
	if (rc < 0)
		return rc;
	uint32_t *rows = malloc((maps->count + 1) * sizeof(*rows));
	for (size_t i = 0; rows && i < maps->count; i++)
		rows[i] = maps->rows[i].stack;
	rc = rows ? v1_stacks_init(&stacks, call, rows, (uint32_t)maps->count, err)
		  : err_set(err, -ENOMEM, "cannot list the mappings");
	if (rc == 0) {
		v1_blocks_unapplied(call);
		jsonw_object(&call->json, NULL);
		v1_head(call, NULL);
		if (maps->cut)
			jsonw_u64(&call->json, "first_only", MAPS_MAX);
		put_maps(call, &stacks, maps, &filter);
		v1_stacks_put(&stacks);
		jsonw_object_end(&call->json);
		v1_stacks_fini(&stacks);
	}
	free(rows);
	block_filter_fini(&filter);
	return rc;
}

/* ---- where blocks lie ------------------------------------------------------------------------ */

struct extent {
	uint64_t addr, bytes;
};

struct space {
	const struct v1_call *call;
	const struct block_filter *filter;
	struct extent *all;
	size_t count, cap;
	uint64_t looks;
	struct err *err;
};

static int space_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct space *s = ctx;
	for (size_t i = 0; i < count; i++) {
		if (!block_matches(s->filter, &rows[i]))
			continue;
		if (s->count == s->cap) {
			size_t cap = s->cap ? s->cap * 2 : 4096;
			struct extent *all = realloc(s->all, cap * sizeof(*all));
			if (!all)
				return err_set(s->err, -ENOMEM, "cannot place the blocks");
			s->all = all;
			s->cap = cap;
		}
		s->all[s->count++] = (struct extent){ rows[i].addr, rows[i].bytes };
	}
	return v1_is_gone(s->call, &s->looks, s->err);
}

static int by_addr(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;
	return x->addr < y->addr ? -1 : x->addr > y->addr;
}

static uint64_t end_of(const struct extent *e)
{
	uint64_t end;
	return __builtin_add_overflow(e->addr, e->bytes, &end) ? UINT64_MAX : end;
}

/** put_strip() - [@first, @last] of the sorted blocks as cells, each with the bytes used in it. */
static int put_strip(struct v1_call *call, const struct extent *first, size_t count, uint64_t width,
		     struct err *err)
{
	struct jsonw *json = &call->json;
	uint64_t start = first->addr & ~4095ull, end = start;
	for (size_t i = 0; i < count; i++)
		end = end_of(&first[i]) > end ? end_of(&first[i]) : end;
	uint64_t cell = (end - start) / width + 1;
	cell = cell < 4096 ? 4096 : (cell + 4095) & ~4095ull;
	size_t cells = (size_t)((end - start) / cell) + 1;
	uint64_t *used = calloc(cells, sizeof(*used));
	struct v1_column column = { 0 };
	if (!used)
		return err_set(err, -ENOMEM, "cannot place the blocks");
	for (size_t i = 0; i < count; i++) {
		uint64_t at = first[i].addr, to = end_of(&first[i]);
		while (at < to) {
			size_t c = (size_t)((at - start) / cell);
			uint64_t edge = start + (c + 1) * cell, stop = to < edge ? to : edge;
			used[c] += stop - at;
			at = stop;
		}
	}
	for (size_t i = 0; i < cells; i++)
		v1_col_u64(&column, used[i]);
	free(used);
	char text[24];
	jsonw_object(json, NULL);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)start);
	jsonw_str(json, "start", text);
	snprintf(text, sizeof(text), "0x%llx", (unsigned long long)end);
	jsonw_str(json, "end", text);
	jsonw_u64(json, "cell_bytes", cell);
	jsonw_u64(json, "blocks", count);
	v1_col_put(call, "used", &column);
	jsonw_object_end(json);
	return 0;
}

static int put_strips(struct v1_call *call, struct space *s, uint64_t width, struct err *err)
{
	int rc = 0;
	size_t begin = 0, strips = 0;
	uint64_t end = 0;
	if (s->count)
		qsort(s->all, s->count, sizeof(*s->all), by_addr);
	jsonw_array(&call->json, "strips");
	for (size_t i = 0; i <= s->count && rc == 0; i++) {
		int last = i == s->count;
		if (!last &&
		    (i == begin || s->all[i].addr <= end || s->all[i].addr - end <= STRIP_GAP)) {
			end = end_of(&s->all[i]) > end ? end_of(&s->all[i]) : end;
			continue;
		}
		if (i > begin && strips++ < STRIPS_MAX)
			rc = put_strip(call, s->all + begin, i - begin, width, err);
		begin = i;
		if (!last)
			end = end_of(&s->all[i]);
	}
	jsonw_array_end(&call->json);
	jsonw_u64(&call->json, "strips_total", strips);
	return rc;
}

/** live_filter() - a moment is meant in any case: the end where none was named. */
static int live_filter(struct v1_call *call, struct block_filter *filter, struct err *err)
{
	struct query query = call->ask.query;
	if (!query.at.kind)
		query.at.kind = QUERY_TIME_END;
	return block_filter_init(filter, &query, call->reading->book->names, err);
}

int v1_space(struct v1_call *call, struct err *err)
{
	const struct blocks *blocks;
	struct block_filter filter;
	int rc = v1_blocks_get(call, &blocks, err);
	if (rc == 0)
		rc = live_filter(call, &filter, err);
	if (rc)
		return rc;
	struct space s = { .call = call, .filter = &filter, .err = err };
	rc = blocks_scan(blocks, space_each, &s, err);
	if (rc == 0) {
		v1_blocks_unapplied(call);
		jsonw_object(&call->json, NULL);
		v1_head(call, NULL);
		rc = put_strips(call, &s, call->ask.width ? call->ask.width : 1024, err);
		jsonw_object_end(&call->json);
	}
	free(s.all);
	block_filter_fini(&filter);
	return rc;
}

/* ---- an address ------------------------------------------------------------------------------ */

struct place {
	uint64_t addr, at_ns;
	struct block_row row;
	int found, lives;
};

static int place_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct place *p = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		uint64_t bytes = r->bytes ? r->bytes : 1;
		if (p->addr < r->addr || p->addr - r->addr >= bytes || r->time_ns > p->at_ns)
			continue;
		int lives = r->freed_ns > p->at_ns;
		/* rows come in order of their end: a later one was there last */
		if (p->found && p->lives && !lives)
			continue;
		if (p->found && p->lives == lives && r->id < p->row.id)
			continue;
		p->row = *r;
		p->found = 1;
		p->lives = lives;
	}
	return 0;
}

/** address_unapplied() - what lies there is looked for among all blocks, whatever is chosen. */
static void address_unapplied(struct v1_call *call)
{
	const struct query *q = &call->ask.query;
	const struct {
		int given;
		const char *word;
	} words[] = {
		{ q->from.kind != 0, "from" },
		{ q->to.kind != 0, "to" },
		{ q->function_regex != NULL, "function-regex" },
		{ q->min_size != 0, "min-size" },
		{ q->has_max_size, "max-size" },
		{ q->has_lifetime_min, "lifetime-min" },
		{ q->has_lifetime_max, "lifetime-max" },
		{ q->leaked, "leaked" },
		{ q->module != NULL, "module" },
		{ q->has_thread, "thread" },
		{ q->has_stack, "stack" },
		{ q->has_address, "address" },
	};
	v1_blocks_unapplied(call);
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (words[i].given)
			v1_unapplied(call, "whatever lies there is told", words[i].word, NULL);
}

int v1_address(struct v1_call *call, struct err *err)
{
	const char *tail = http_request_tail(call->request);
	struct jsonw *json = &call->json;
	const struct blocks *blocks;
	struct block_filter filter;
	char *end, text[24];
	struct place place = { .addr = strtoull(tail, &end, 16) };
	if (strncmp(tail, "0x", 2) != 0 || !tail[2] || *end || strlen(tail) > 18)
		return err_set(err, -EINVAL, "'%.40s' is no address: 0x and hex digits", tail);
	int rc = v1_blocks_get(call, &blocks, err);
	if (rc == 0)
		rc = live_filter(call, &filter, err);
	if (rc)
		return rc;
	place.at_ns = filter.at_ns;
	rc = blocks_scan(blocks, place_each, &place, err);
	uint32_t rows[2] = { place.row.stack, place.row.free_stack };
	struct v1_stacks stacks;
	if (rc == 0)
		rc = v1_stacks_init(&stacks, call, rows, 2, err);
	if (rc == 0) {
		const struct prof_module *module =
			module_at(call->reading->book->names, place.addr);
		address_unapplied(call);
		jsonw_object(json, NULL);
		v1_head(call, NULL);
		snprintf(text, sizeof(text), "0x%llx", (unsigned long long)place.addr);
		jsonw_str(json, "address", text);
		jsonw_str(json, "what",
			  place.found && place.lives ? "block"
			  : module                   ? "code"
			  : place.found              ? "freed_block"
						     : "nothing");
		if (place.found)
			v1_block_rows(call, &stacks, &place.row, 1, filter.end_ns, blocks);
		if (module) {
			jsonw_object(json, "in_module");
			jsonw_str(json, "name", module->name);
			jsonw_str(json, "path", module->path);
			jsonw_u64(json, "offset", place.addr - module->bias);
			jsonw_object_end(json);
		}
		v1_stacks_put(&stacks);
		jsonw_object_end(json);
		v1_stacks_fini(&stacks);
	}
	block_filter_fini(&filter);
	return rc;
}
