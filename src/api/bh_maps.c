/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bh_maps.c - /data/<id>/maps: mappings that the program made, with the older tracer's filters and
 * fields.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "api/bh_internal.h"

/** struct picked - a mapping that matches: its number in the recording, and the row. */
struct picked {
	size_t number;
	const struct v1_map *row;
};

struct map_words {
	/* -1: any */
	int readable, writable, executable, jemalloc, bytehound;
	/* UINT64_MAX: any */
	uint64_t id;
};

static int take_only(const struct bh_call *b, const char *key, int *to, struct err *err)
{
	const char *value = bh_arg(b, key);
	*to = -1;
	if (!value)
		return 0;
	*to = strcmp(value, "only_true") == 0;
	return *to || strcmp(value, "only_false") == 0
		       ? 0
		       : err_set(err, -EINVAL, "'%s' is only_true or only_false, not '%.40s'", key,
				 value);
}

static int take_words(const struct bh_call *b, struct map_words *w, struct err *err)
{
	static const struct {
		const char *key, *what;
	} missing[] = { { "peak_rss_min", "the resident size of single mappings" },
			{ "peak_rss_max", "the resident size of single mappings" },
			{ "deallocation_backtraces", "who unmapped a mapping" } };
	const struct {
		const char *key;
		int *to;
	} all[] = { { "readable", &w->readable },
		    { "writable", &w->writable },
		    { "executable", &w->executable },
		    { "jemalloc", &w->jemalloc },
		    { "bytehound", &w->bytehound } };
	const char *id = bh_arg(b, "id");
	char *end;
	for (size_t i = 0; i < ARRAY_LEN(missing); i++)
		if (bh_arg(b, missing[i].key))
			return err_set(err, -EINVAL, "'%s': %s is not recorded", missing[i].key,
				       missing[i].what);
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		int rc = take_only(b, all[i].key, all[i].to, err);
		if (rc < 0)
			return rc;
	}
	w->id = id ? strtoull(id, &end, 10) : UINT64_MAX;
	if (id && (*id < '0' || *id > '9' || *end))
		return err_set(err, -EINVAL, "'id' is a number, not '%.40s'", id);
	return 0;
}

static int is(int wanted, int value)
{
	return wanted < 0 || wanted == !!value;
}

static int in(const struct bh_range *range, uint64_t value)
{
	return value >= range->min && value <= range->max;
}

static int matches(const struct bh_call *b, const struct map_words *w, size_t number,
		   const struct v1_map *row)
{
	const struct bh_filter *f = &b->filter;
	uint64_t end = row->gone_ns == BLOCK_NEVER ? b->length_ns : row->gone_ns;
	if (b->custom && !(b->custom[number / 8] >> number % 8 & 1))
		return 0;
	if (!in(&f->time, row->made_ns) || !in(&f->size, row->bytes) ||
	    !in(&f->address, row->addr) || (f->stacks && !f->stacks[row->stack]) ||
	    !in(&f->lifetime, end > row->made_ns ? end - row->made_ns : 0) ||
	    !in(&f->depth, prof_stack(b->names, (struct stack_id){ row->stack })->depth))
		return 0;
	for (int i = 0; i < 2; i++)
		if (f->has_alive[i] &&
		    !(row->made_ns <= f->alive_at[i] && row->gone_ns > f->alive_at[i]))
			return 0;
	if ((f->life == BH_LEAKED && row->gone_ns != BLOCK_NEVER) ||
	    (f->life == BH_TEMPORARY && row->gone_ns == BLOCK_NEVER) ||
	    (f->backtrace != UINT64_MAX && f->backtrace != row->stack))
		return 0;
	/* whose a mapping is, is not recorded, and the recorder's own are in no list */
	return is(w->readable, row->prot & PROT_READ) && is(w->writable, row->prot & PROT_WRITE) &&
	       is(w->executable, row->prot & PROT_EXEC) && is(w->jemalloc, 0) &&
	       is(w->bytehound, 0) && (w->id == UINT64_MAX || w->id == number);
}

static int by_time(const void *x, const void *y)
{
	const struct picked *a = x, *b = y;
	if (a->row->made_ns != b->row->made_ns)
		return a->row->made_ns < b->row->made_ns ? -1 : 1;
	return (a->number > b->number) - (a->number < b->number);
}

static int by_address(const void *x, const void *y)
{
	const struct picked *a = x, *b = y;
	return a->row->addr != b->row->addr ? (a->row->addr < b->row->addr ? -1 : 1)
					    : by_time(x, y);
}

static int by_size(const void *x, const void *y)
{
	const struct picked *a = x, *b = y;
	return a->row->bytes != b->row->bytes ? (a->row->bytes < b->row->bytes ? -1 : 1)
					      : by_time(x, y);
}

static int wants(const struct bh_call *b, const char *key)
{
	const char *value = bh_arg(b, key);
	return value && (strcmp(value, "true") == 0 || strcmp(value, "1") == 0);
}

/** put_place() - where it lies, and since when. */
static void put_place(struct jsonw *json, const struct bh_call *b, const struct v1_map *r)
{
	char text[20];
	snprintf(text, sizeof(text), "%016llX", (unsigned long long)r->addr);
	jsonw_u64(json, "address", r->addr);
	jsonw_str(json, "address_s", text);
	bh_put_times(json, "timestamp", b, r->made_ns);
	jsonw_u64(json, "size", r->bytes);
}

/** put_rest() - how it ended, and what may be done with it. */
static void put_rest(struct jsonw *json, const struct bh_call *b, const struct v1_map *r)
{
	if (r->gone_ns == BLOCK_NEVER) {
		jsonw_null(json, "deallocation");
	} else { /* who unmapped it is not kept */
		jsonw_object(json, "deallocation");
		bh_put_times(json, "timestamp", b, r->gone_ns);
		jsonw_null(json, "source");
		jsonw_object_end(json);
	}
	jsonw_bool(json, "is_readable", r->prot & PROT_READ);
	jsonw_bool(json, "is_writable", r->prot & PROT_WRITE);
	jsonw_bool(json, "is_executable", r->prot & PROT_EXEC);
	jsonw_bool(json, "is_shared", r->flags & MAP_SHARED && !(r->flags & MAP_PRIVATE));
	jsonw_str(json, "name", v1_map_name(b->names, r));
}

/** put_regions() - a mapping is one region here: what cuts it makes mappings of their own. */
static void put_regions(struct jsonw *json, const struct bh_call *b, const struct v1_map *r)
{
	jsonw_array(json, "regions");
	jsonw_object(json, NULL);
	put_place(json, b, r);
	put_rest(json, b, r);
	jsonw_object_end(json);
	jsonw_array_end(json);
}

/** put_usage() - of address space; what of it was resident is not recorded: 0. */
static void put_usage(struct jsonw *json, const struct bh_call *b, const struct v1_map *r)
{
	jsonw_array(json, "usage_history");
	for (int gone = 0; gone < (r->gone_ns == BLOCK_NEVER ? 1 : 2); gone++) {
		jsonw_object(json, NULL);
		bh_put_times(json, "timestamp", b, gone ? r->gone_ns : r->made_ns);
		jsonw_u64(json, "address_space", gone ? 0 : r->bytes);
		jsonw_u64(json, "rss", 0);
		jsonw_object_end(json);
	}
	jsonw_array_end(json);
}

static void put_map(struct jsonw *json, const struct bh_call *b, const struct picked *p)
{
	const struct v1_map *r = p->row;
	jsonw_object(json, NULL);
	jsonw_u64(json, "id", p->number);
	put_place(json, b, r);
	if (r->stack) {
		jsonw_object(json, "source");
		bh_put_times(json, "timestamp", b, r->made_ns);
		jsonw_u64(json, "thread", r->tid);
		jsonw_u64(json, "backtrace_id", r->stack);
		bh_put_backtrace(json, "backtrace", b, r->stack);
		jsonw_object_end(json);
	} else {
		jsonw_null(json, "source");
	}
	put_rest(json, b, r);
	jsonw_u64(json, "peak_rss", 0); /* not recorded, as is said in docs/bytehound.md */
	bh_put_graphs(json, b, "map", p->number);
	if (wants(b, "with_regions"))
		put_regions(json, b, r);
	if (wants(b, "with_usage_history"))
		put_usage(json, b, r);
	jsonw_object_end(json);
}

int bh_maps(struct bh_call *b, struct err *err)
{
	static const struct {
		const char *name;
		int (*order)(const void *x, const void *y);
	} sorts[] = { { "timestamp", by_time },
		      { "address", by_address },
		      { "size", by_size },
		      { "peak_rss", by_time } /* which is 0 of each */ };
	const struct v1_map *rows;
	size_t count, kept = 0, sort = 0;
	struct bh_paging paging;
	struct map_words words;
	int rc = bh_paging(b, &paging, err);
	if (rc == 0)
		rc = take_words(b, &words, err);
	if (rc == 0)
		rc = v1_maps_get(&b->call, &rows, &count, err);
	if (rc)
		return rc < 0 ? rc : err_set(err, -EAGAIN, "not yet");
	if (b->call.reading->book != b->rows->book)
		return err_set(err, -EAGAIN, "the recording changed while it was read");
	while (*paging.sort_by && sort < ARRAY_LEN(sorts) &&
	       strcmp(paging.sort_by, sorts[sort].name) != 0)
		sort++;
	if (sort == ARRAY_LEN(sorts))
		return err_set(err, -EINVAL,
			       "'sort_by' is timestamp, address, size or peak_rss, not '%.40s'",
			       paging.sort_by);
	struct picked *picked = malloc((count + 1) * sizeof(*picked));
	if (!picked)
		return err_set(err, -ENOMEM, "cannot list the mappings");
	for (size_t i = 0; i < count; i++)
		if (matches(b, &words, i, &rows[i]))
			picked[kept++] = (struct picked){ i, &rows[i] };
	qsort(picked, kept, sizeof(*picked), sorts[sort].order);
	jsonw_object(&b->call.json, NULL);
	jsonw_array(&b->call.json, "maps");
	for (size_t i = paging.skip; i < kept && i - paging.skip < paging.count; i++)
		put_map(&b->call.json, b, &picked[paging.descending ? kept - 1 - i : i]);
	jsonw_array_end(&b->call.json);
	jsonw_u64(&b->call.json, "total_count", kept);
	jsonw_object_end(&b->call.json);
	free(picked);
	return 0;
}
