/* SPDX-License-Identifier: Apache-2.0 */
/* bh_sums.c - answers of the bytehound-compatible routes that add up: timelines, trees, regions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh_internal.h"
#include "base/clock.h"
#include "out/name.h"

#define POINTS 1000
#define TREE_NODES_MAX 200000
#define TREE_DEPTH_MAX 1000 /* it recurses */
#define REGION_GAP 4096

/* ---- timelines ------------------------------------------------------------------------------- */

struct timeline {
	const struct bh_call *b;
	int leaked;
	uint64_t made[POINTS], made_bytes[POINTS], freed[POINTS], freed_bytes[POINTS], looks;
	struct err *err;
};

static size_t point_of(const struct bh_call *b, uint64_t ns)
{
	size_t at = (size_t)((__uint128_t)ns * POINTS / (b->length_ns ? b->length_ns : 1));
	return at < POINTS ? at : POINTS - 1;
}

static int timeline_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct timeline *t = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		if ((t->leaked && r->freed_ns != BLOCK_NEVER) || !bh_matches(t->b, r))
			continue;
		size_t made = point_of(t->b, r->time_ns);
		t->made[made]++;
		t->made_bytes[made] += r->bytes;
		if (r->freed_ns == BLOCK_NEVER)
			continue;
		size_t freed = point_of(t->b, r->freed_ns);
		t->freed[freed]++;
		t->freed_bytes[freed] += r->bytes;
	}
	return v1_is_gone(&t->b->call, &t->looks, t->err);
}

static void put_xs(struct jsonw *json, const struct bh_call *b)
{
	jsonw_array(json, "xs");
	for (size_t i = 0; i < POINTS; i++)
		jsonw_u64(json, NULL,
			  (b->start_ns + (uint64_t)((__uint128_t)b->length_ns * i / POINTS)) /
				  1000000);
	jsonw_array_end(json);
}

int bh_timeline(struct bh_call *b, int leaked, struct err *err)
{
	struct jsonw *json = &b->call.json;
	struct timeline *t = calloc(1, sizeof(*t));
	if (!t)
		return err_set(err, -ENOMEM, "cannot put the timeline together");
	t->b = b;
	t->leaked = leaked;
	t->err = err;
	int rc = blocks_scan(b->blocks, timeline_each, t, err);
	if (rc == 0) {
		static const char *const keys[] = { "size_delta",     "count_delta",
						    "allocated_size", "allocated_count",
						    "allocations",    "deallocations" };
		jsonw_object(json, NULL);
		put_xs(json, b);
		for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
			int64_t bytes = 0, count = 0;
			jsonw_array(json, keys[k]);
			for (size_t i = 0; i < POINTS; i++) {
				int64_t more_bytes =
					(int64_t)t->made_bytes[i] - (int64_t)t->freed_bytes[i];
				int64_t more = (int64_t)t->made[i] - (int64_t)t->freed[i];
				bytes += more_bytes;
				count += more;
				const int64_t values[] = { more_bytes,
							   more,
							   bytes,
							   count,
							   (int64_t)t->made[i],
							   (int64_t)t->freed[i] };
				jsonw_i64(json, NULL, values[k]);
			}
			jsonw_array_end(json);
		}
		jsonw_object_end(json);
	}
	free(t);
	return rc;
}

int bh_timeline_maps(struct bh_call *b, struct err *err)
{
	static const char *const keys[] = { "address_space", "rss",   "anonymous",
					    "dirty",         "clean", "swap" };
	struct jsonw *json = &b->call.json;
	size_t count;
	const struct prof_point *points = prof_timeline(b->names, &count);
	(void)err;
	jsonw_object(json, NULL);
	jsonw_array(json, "xs");
	for (size_t i = 0; i < count; i++)
		jsonw_u64(json, NULL, (b->start_ns + points[i].time_ns) / 1000000);
	jsonw_array_end(json);
	for (size_t k = 0; k < ARRAY_LEN(keys); k++) {
		jsonw_array(json, keys[k]);
		for (size_t i = 0; i < count; i++)
			jsonw_u64(json, NULL,
				  k == 0   ? points[i].virtual_bytes
				  : k == 1 ? points[i].rss_bytes
					   : 0); /* not recorded */
		jsonw_array_end(json);
	}
	jsonw_object_end(json);
	return 0;
}

/* ---- the tree -------------------------------------------------------------------------------- */

struct leaf {
	uint64_t bytes, count, first, last;
};

struct tree {
	const struct bh_call *b;
	const uint8_t *only;
	/* by stack row */
	struct leaf *leaves;
	uint64_t looks;
	struct err *err;
	/* nodes of the folded tree, summed */
	const struct fold *fold;
	struct leaf *nodes;
	uint32_t shown;
};

static void add_leaf(struct leaf *to, const struct leaf *from)
{
	if (!from->count)
		return;
	if (!to->count || from->first < to->first)
		to->first = from->first;
	to->last = from->last > to->last ? from->last : to->last;
	to->bytes += from->bytes;
	to->count += from->count;
}

static int tree_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct tree *t = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		/* what static initialisers allocated is asked for as it is live at the end */
		if (t->only && (!t->only[r->stack] || r->freed_ns != BLOCK_NEVER))
			continue;
		if (!bh_matches(t->b, r))
			continue;
		const struct leaf one = { r->bytes, 1, r->time_ns, r->time_ns };
		add_leaf(&t->leaves[r->stack], &one);
	}
	return v1_is_gone(&t->b->call, &t->looks, t->err);
}

static int by_bytes(const void *a, const void *b, void *ctx)
{
	const struct tree *t = ctx;
	const struct leaf *x = &t->nodes[*(const uint32_t *)a],
			  *y = &t->nodes[*(const uint32_t *)b];
	return x->bytes < y->bytes ? 1 : x->bytes > y->bytes ? -1 : 0;
}

/** children_of() - those with anything, the largest first; malloc'd, NULL without memory. */
static uint32_t *children_of(struct tree *t, uint32_t node, uint32_t *count)
{
	*count = 0;
	for (uint32_t i = t->fold->nodes[node].first_child; i; i = t->fold->nodes[i].next)
		*count += t->nodes[i].count != 0;
	uint32_t *all = malloc((*count + 1) * sizeof(*all)), n = 0;
	for (uint32_t i = t->fold->nodes[node].first_child; all && i; i = t->fold->nodes[i].next)
		if (t->nodes[i].count)
			all[n++] = i;
	if (all)
		qsort_r(all, n, sizeof(*all), by_bytes, t);
	return all;
}

static void put_value(FILE *to, const struct fold_frame *f)
{
	struct jsonw json;
	jsonw_init(&json, to);
	if (!f->key) {
		jsonw_null(&json, NULL);
		return;
	}
	char text[20];
	snprintf(text, sizeof(text), "%016llX", (unsigned long long)f->offset);
	jsonw_object(&json, NULL);
	jsonw_u64(&json, "address", f->offset);
	jsonw_str(&json, "address_s", text);
	jsonw_u64(&json, "count", f->passes);
	jsonw_str(&json, "library", f->path && *f->path ? f->path : NULL);
	jsonw_str(&json, "function", f->function);
	jsonw_str(&json, "raw_function", f->function);
	jsonw_str(&json, "source", f->file);
	if (f->line)
		jsonw_u64(&json, "line", f->line);
	else
		jsonw_null(&json, "line");
	jsonw_null(&json, "column");
	jsonw_bool(&json, "is_inline", 0);
	jsonw_object_end(&json);
}

static void put_moment(FILE *to, const char *key, uint64_t ns)
{
	fprintf(to, "\"%s\":{\"secs\":%llu,\"fract_nsecs\":%llu},", key,
		(unsigned long long)(ns / NS_PER_S), (unsigned long long)(ns % NS_PER_S));
}

/**
 * put_node() - by hand, for a JSON writer keeps count of fewer levels. Beyond TREE_DEPTH_MAX they
 * are in the sums above.
 */
static void put_node(struct tree *t, uint32_t node, unsigned depth)
{
	FILE *to = t->b->call.json.to;
	const struct leaf *l = &t->nodes[node];
	uint32_t count = 0, *children = NULL;
	fprintf(to, "{\"size\":%llu,\"count\":%llu,", (unsigned long long)l->bytes,
		(unsigned long long)l->count);
	put_moment(to, "first", t->b->start_ns + l->first);
	put_moment(to, "last", t->b->start_ns + l->last);
	fputs("\"value\":", to);
	put_value(to, &t->fold->frames[t->fold->nodes[node].frame]);
	fputs(",\"children\":[", to);
	if (depth < TREE_DEPTH_MAX && t->shown < TREE_NODES_MAX)
		children = children_of(t, node, &count);
	for (uint32_t i = 0; children && i < count && t->shown < TREE_NODES_MAX; i++) {
		if (i)
			fputc(',', to);
		t->shown++;
		put_node(t, children[i], depth + 1);
	}
	free(children);
	fputs("]}", to);
}

static void put_ascii(struct tree *t, uint32_t node, const char *indent, unsigned depth)
{
	FILE *to = t->b->call.json.to;
	const struct leaf *l = &t->nodes[node];
	const struct fold_frame *f = &t->fold->frames[t->fold->nodes[node].frame];
	uint32_t count = 0, *children = NULL;
	char deeper[2 * 200 + 2];
	CLEANUP(buf_fini) struct buf name = { 0 };
	if (node && f->function)
		text_short_name(&name, f->function, 0);
	else if (node)
		buf_printf(&name, "%s+0x%llx", f->module ? f->module : "?",
			   (unsigned long long)f->offset);
	fprintf(to, "%12llu %10llu %10.3f %10.3f  %s%s", (unsigned long long)l->bytes,
		(unsigned long long)l->count, (double)l->first / 1e9, (double)l->last / 1e9, indent,
		node ? buf_cstr(&name) : "all");
	if (f->file)
		fprintf(to, " [%s:%u]", f->file, f->line);
	fputc('\n', to);
	snprintf(deeper, sizeof(deeper), "%s  ", indent);
	if (depth < 200 && t->shown < TREE_NODES_MAX)
		children = children_of(t, node, &count);
	for (uint32_t i = 0; children && i < count && t->shown < TREE_NODES_MAX; i++) {
		t->shown++;
		put_ascii(t, children[i], deeper, depth + 1);
	}
	free(children);
}

int bh_tree(struct bh_call *b, const char *only, int ascii, struct err *err)
{
	static const struct fold_opt plain = { 0 };
	const struct book *book = b->rows->book;
	uint32_t stacks = prof_stack_count(b->names);
	uint8_t *mask = only ? query_mask(b->names, only, 0, err) : NULL;
	struct tree t = { .b = b,
			  .only = mask,
			  .leaves = calloc((size_t)stacks + 1, sizeof(*t.leaves)),
			  .err = err };
	struct shelf_fold *folded = NULL;
	int rc = only && !mask ? err->code
		 : t.leaves    ? blocks_scan(b->blocks, tree_each, &t, err)
			       : err_set(err, -ENOMEM, "cannot make the tree");
	if (rc == 0) {
		folded = shelf_fold(b->call.shelf, &plain, "", &b->rows, 1, err);
		rc = folded ? 0 : err->code;
	}
	if (rc == 0) {
		t.fold = folded->fold;
		t.nodes = calloc(t.fold->node_count, sizeof(*t.nodes));
		rc = t.nodes ? 0 : err_set(err, -ENOMEM, "cannot make the tree");
	}
	for (uint32_t i = 0; rc == 0 && i < book->count; i++)
		if (t.fold->node_of[0][i] != FOLD_NONE)
			add_leaf(&t.nodes[t.fold->node_of[0][i]], &t.leaves[book->stacks[i]]);
	for (uint32_t i = rc == 0 ? t.fold->node_count : 0; i-- > 1;)
		add_leaf(&t.nodes[t.fold->nodes[i].parent], &t.nodes[i]);
	if (rc == 0 && ascii) {
		fputs("        SIZE      COUNT      FIRST       LAST  SOURCE\n", b->call.json.to);
		put_ascii(&t, 0, "", 0);
	} else if (rc == 0) {
		put_node(&t, 0, 0);
	}
	shelf_unfold(b->call.shelf, folded);
	free(t.nodes);
	free(t.leaves);
	free(mask);
	return rc;
}

/* ---- regions --------------------------------------------------------------------------------- */

struct extent {
	uint64_t from, to;
};
struct extents {
	const struct bh_call *b;
	struct extent *all;
	size_t count, cap;
	uint64_t looks, heap_from, heap_to;
	struct err *err;
};

static int by_from(const void *a, const void *b)
{
	const struct extent *x = a, *y = b;
	return x->from < y->from ? -1 : x->from > y->from;
}

/** merge() - neighbours become one, so that a long list of blocks stays a short one of ranges. */
static void merge(struct extents *e)
{
	size_t kept = 0;
	if (e->count)
		qsort(e->all, e->count, sizeof(*e->all), by_from);
	for (size_t i = 0; i < e->count; i++) {
		if (kept && e->all[i].from <= e->all[kept - 1].to + REGION_GAP) {
			if (e->all[i].to > e->all[kept - 1].to)
				e->all[kept - 1].to = e->all[i].to;
		} else {
			e->all[kept++] = e->all[i];
		}
	}
	e->count = kept;
}

static int extents_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct extents *e = ctx;
	for (size_t i = 0; i < count; i++) {
		const struct block_row *r = &rows[i];
		uint64_t end;
		if (!bh_matches(e->b, r) || __builtin_add_overflow(r->addr, r->bytes, &end))
			continue;
		if (block_in_main_arena(r)) {
			e->heap_from = r->addr < e->heap_from ? r->addr : e->heap_from;
			e->heap_to = end > e->heap_to ? end : e->heap_to;
		}
		if (e->count == e->cap) {
			merge(e);
			if (e->count > e->cap / 2) {
				size_t cap = e->cap * 2;
				struct extent *all = realloc(e->all, cap * sizeof(*all));
				if (!all)
					return err_set(e->err, -ENOMEM, "cannot list the regions");
				e->all = all;
				e->cap = cap;
			}
		}
		e->all[e->count++] = (struct extent){ r->addr, end };
	}
	return v1_is_gone(&e->b->call, &e->looks, e->err);
}

int bh_regions(struct bh_call *b, struct err *err)
{
	struct jsonw *json = &b->call.json;
	struct extents e = { .b = b, .cap = 65536, .heap_from = UINT64_MAX, .err = err };
	e.all = malloc(e.cap * sizeof(*e.all));
	int rc = e.all ? blocks_scan(b->blocks, extents_each, &e, err)
		       : err_set(err, -ENOMEM, "cannot list the regions");
	if (rc == 0) {
		char text[20];
		merge(&e);
		snprintf(text, sizeof(text), "%llu",
			 (unsigned long long)(e.heap_to ? e.heap_from : 0));
		jsonw_object(json, NULL);
		jsonw_str(json, "main_heap_start", text);
		snprintf(text, sizeof(text), "%llu", (unsigned long long)e.heap_to);
		jsonw_str(json, "main_heap_end", text);
		jsonw_array(json, "regions");
		for (size_t i = 0; i < e.count; i++) {
			jsonw_array(json, NULL);
			snprintf(text, sizeof(text), "%llu", (unsigned long long)e.all[i].from);
			jsonw_str(json, NULL, text);
			snprintf(text, sizeof(text), "%llu", (unsigned long long)e.all[i].to);
			jsonw_str(json, NULL, text);
			jsonw_array_end(json);
		}
		jsonw_array_end(json);
		jsonw_object_end(json);
	}
	free(e.all);
	return rc;
}
