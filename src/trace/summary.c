/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/varint.h"
#include "model/mapped.h"
#include "trace/cursor.h"

enum {
	COL_TOTALS = 0,
	COL_ID = 1,                     /* stack number minus the one before */
	COL_COST = 2,                   /* one column for each of the fields below, behind COL_ID */
	COL_PEAK_BLOCKS = COL_COST + 9, /* the tenth of them: absent in older files */
	COL_THREADS = 16,
	COL_TIMELINE = 17,
	COL_MAPPED =
		19, /* what was mapped: four sums, then rows of stacks; absent in older files */
	COL_THREAD_PEAK_BLOCKS = 18, /* of the threads of COL_THREADS, in their order */
	COL_MARKS = 21,              /* absent in older files */
	COL_PARTS = 20, /* what RSS consists of, by point of COL_TIMELINE; absent in older files */
};

/* The fields of a cost, in the order of their columns. */
#define COST_FIELDS 10
#define COST_FIELDS_FIRST \
	9 /* what stands in one piece where more fields have no column of their own */
_Static_assert(COL_PEAK_BLOCKS == COL_COST + COST_FIELDS_FIRST, "columns of a summary");
_Static_assert(sizeof(struct cost) == COST_FIELDS * sizeof(uint64_t), "struct cost");

/* A field that the model gains must be stored here too, and described in docs/format.md. */
_Static_assert(sizeof(struct prof_point) == (8 + 2 * PROF_PARTS) * sizeof(uint64_t),
	       "struct prof_point");
_Static_assert(sizeof(struct prof_totals) == (COST_FIELDS + 18 + 3 * 16) * sizeof(uint64_t),
	       "struct prof_totals");

static void cost_fields(const struct cost *cost, uint64_t *field)
{
	const uint64_t fields[COST_FIELDS] = {
		cost->allocations,     cost->allocated_bytes, cost->frees,      cost->temporary,
		cost->leaked,          cost->leaked_bytes,    cost->peak_bytes, cost->uncertain,
		cost->uncertain_bytes, cost->peak_blocks,
	};
	memcpy(field, fields, sizeof(fields));
}

static void cost_from_fields(struct cost *cost, const uint64_t *field)
{
	*cost = (struct cost){
		.allocations = field[0],
		.allocated_bytes = field[1],
		.frees = field[2],
		.temporary = field[3],
		.leaked = field[4],
		.leaked_bytes = field[5],
		.peak_bytes = field[6],
		.uncertain = field[7],
		.uncertain_bytes = field[8],
		.peak_blocks = field[9],
	};
}

static void put_cost(struct buf *to, const struct cost *cost)
{
	uint64_t field[COST_FIELDS];
	cost_fields(cost, field);
	for (unsigned i = 0; i < COST_FIELDS_FIRST; i++)
		put_num(to, field[i]);
}

static void put_totals(struct buf *to, const struct prof_totals *totals)
{
	const struct prof_totals t = *totals;
	put_cost(to, &t.cost);
	put_num(to, t.foreign_frees);
	put_num(to, t.peak_time_ns);
	put_num(to, t.runtime_ns);
	put_num(to, t.peak_event);
	put_num(to, t.peak_rss_bytes);
	put_num(to, t.lost_events);
	put_num(to, t.lost_bytes);
	put_num(to, t.culled_allocations);
	put_num(to, t.culled_bytes);
	put_num(to, t.threads);
	put_num(to, t.stacks);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		put_num(to, t.lost[i]);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		put_num(to, t.loss_reports[i]);
	for (unsigned i = 0; i < STACK_STOP_MAX; i++)
		put_num(to, t.partial[i]);
	put_num(to, t.forked_from);
	put_num(to, t.inherited_known);
	put_num(to, t.inherited_allocations);
	put_num(to, t.inherited_bytes);
	put_num(to, t.filtered_allocations);
	put_num(to, t.filtered_bytes);
	put_num(to, t.filtered_frees);
	put_num(to, t.filtered_inherited_allocations);
	put_num(to, t.filtered_inherited_bytes);
	put_num(to, t.cost.peak_blocks);
}

static void put_threads(struct buf *to, struct buf *peaks, const struct prof *prof, uint32_t count)
{
	uint32_t next = 0;
	for (uint32_t id = 0; id < count; id++) {
		if (prof_thread_row(prof, (struct thread_id){ id }).v != id)
			continue; /* never defined */
		const struct prof_thread *thread = prof_thread(prof, (struct thread_id){ id });
		if (!thread || !thread->events)
			continue;
		put_num(to, id - next);
		next = id + 1;
		put_cost(to, &thread->cost);
		put_num(to, thread->events);
		put_num(peaks, thread->cost.peak_blocks);
	}
}

static void raise(uint64_t *to, uint64_t from)
{
	if (from > *to)
		*to = from;
}

/* What RSS consists of at one point: differences to the last one, and to what was most. */
static void put_parts(struct buf *to, const struct prof_point *p, const struct prof_point *last,
		      const uint64_t most[PROF_PARTS])
{
	for (unsigned k = 0; k < PROF_PARTS; k++) {
		put_num(to, zigzag((int64_t)(p->part_bytes[k] - last->part_bytes[k])));
		put_num(to, most[k] - p->part_bytes[k]);
	}
}

/*
 * Every point's fields, as differences; @most of them, evenly chosen, the last one always among
 * them. What is left out hands its maxima on to the next one that is kept.
 */
static void put_timeline(struct buf *to, struct buf *parts, const struct prof *prof, size_t most)
{
	size_t count;
	const struct prof_point *point = prof_timeline(prof, &count);
	struct prof_point last = { 0 };
	uint64_t known = 0;
	for (size_t i = 0; i < count; i++)
		known |= point[i].part_bytes[PROF_ANON] | point[i].part_bytes[PROF_FILE];
	if (most < 2)
		most = 2;
	size_t kept = count < most ? count : most, next = 0;
	for (size_t i = 0; i < kept; i++) {
		size_t at = kept == count ? i : (i * (count - 1) + (kept - 1) / 2) / (kept - 1);
		const struct prof_point *p = &point[at];
		uint64_t rss_max = 0, heap_max = 0, part_max[PROF_PARTS] = { 0 };
		for (; next <= at; next++) {
			raise(&rss_max, point[next].rss_max_bytes);
			raise(&heap_max, point[next].heap_max_bytes);
			for (unsigned k = 0; k < PROF_PARTS; k++)
				raise(&part_max[k], point[next].part_max_bytes[k]);
		}
		put_num(to, p->time_ns - last.time_ns);
		put_num(to, zigzag((int64_t)(p->rss_bytes - last.rss_bytes)));
		put_num(to, zigzag((int64_t)(p->virtual_bytes - last.virtual_bytes)));
		put_num(to, zigzag((int64_t)(p->heap_bytes - last.heap_bytes)));
		put_num(to, zigzag((int64_t)(rss_max - p->rss_bytes)));
		put_num(to, zigzag((int64_t)(heap_max - p->heap_bytes)));
		put_num(to, zigzag((int64_t)(p->allocations - last.allocations)));
		put_num(to, zigzag((int64_t)(p->frees - last.frees)));
		if (known)
			put_parts(parts, p, &last, part_max);
		last = *p;
	}
}

/* Room for so many rows is made at once. */
#define ROWS_AHEAD 1024

/* One stack's number and counters, at the ends of their columns. */
static void put_row(uint8_t **at, uint32_t step, const struct cost *cost)
{
	uint64_t field[COST_FIELDS];
	cost_fields(cost, field);
	at[0] = varint_put(at[0], step);
	for (unsigned i = 0; i < COST_FIELDS; i++)
		at[1 + i] = varint_put(at[1 + i], field[i]);
}

/* Begin to write, or go on, behind what the columns of rows hold. Return: 0, -ENOMEM. */
static int open_rows(struct blt_cols *cols, uint8_t **at)
{
	for (unsigned i = 0; i < 1 + COST_FIELDS; i++) {
		struct buf *col = &cols->col[COL_ID + i];
		if (at[i])
			col->len = (size_t)(at[i] - (uint8_t *)col->data);
		at[i] = (uint8_t *)buf_reserve(col, ROWS_AHEAD * VARINT_MAX);
		if (!at[i])
			return -ENOMEM;
	}
	return 0;
}

static int64_t put_stacks(const struct prof *prof, uint32_t stacks, uint8_t *done,
			  struct blt_cols *cols, struct err *err)
{
	uint8_t *at[1 + COST_FIELDS] = { 0 };
	int64_t count = 0;
	uint32_t next = 0;
	for (uint32_t id = prof_stack_next(prof, 0); id < stacks;
	     id = prof_stack_next(prof, id + 1)) {
		uint32_t row = prof_stack_row(prof, (struct stack_id){ id }).v;
		if (done[row / 8] >> (row % 8) & 1)
			continue;
		done[row / 8] |= (uint8_t)(1u << row % 8);
		struct cost cost;
		prof_stack_cost(prof, (struct stack_id){ row }, &cost);
		if (!cost.allocations)
			continue;
		if (count % ROWS_AHEAD == 0 && open_rows(cols, at) < 0)
			return err_set(err, -ENOMEM, "cannot hold the summary");
		put_row(at, id - next, &cost);
		next = id + 1;
		count++;
	}
	return open_rows(cols, at) < 0 ? err_set(err, -ENOMEM, "cannot hold the summary") : count;
}

static void put_mapped_sum(struct buf *to, const struct mapped_sum *sum)
{
	put_num(to, sum->count);
	put_num(to, sum->bytes);
	put_num(to, sum->live_count);
	put_num(to, sum->live_bytes);
	put_num(to, sum->peak_bytes);
}

/* Rows of the prof to the recording's numbers: of those that became one row the first. */
static uint32_t *numbers_of(const struct prof *prof, uint32_t stacks)
{
	uint32_t rows = prof_stack_count(prof);
	uint32_t *number = calloc(rows ? rows : 1, sizeof(*number));
	for (uint32_t id = stacks; number && id-- > 1;) {
		uint32_t row = prof_stack_row(prof, (struct stack_id){ id }).v;
		if (row < rows)
			number[row] = id;
	}
	return number;
}

static int put_mapped(struct buf *to, const struct prof *prof, uint32_t stacks, struct err *err)
{
	const struct mapped *mapped = prof_mapped(prof);
	struct mapped_sum sum = { 0 };
	if (!prof_knows_mapped(prof))
		return 0;
	for (unsigned kind = 0; kind < MAPPED_KINDS; kind++) {
		if (mapped)
			mapped_sum(mapped, kind, &sum);
		put_mapped_sum(to, &sum);
		put_num(to, sum.at_heap_peak_bytes);
		put_num(to, sum.peak_time_ns);
	}
	put_num(to, mapped ? mapped_lost(mapped) : 0);
	uint32_t *number = mapped ? numbers_of(prof, stacks) : NULL;
	if (mapped && !number)
		return err_set(err, -ENOMEM, "cannot hold the summary");
	for (size_t i = 0; mapped && i < mapped_count(mapped); i++) {
		struct mapped_row row;
		mapped_row(mapped, i, &row);
		put_num(to, row.stack < prof_stack_count(prof) ? number[row.stack] : 0);
		put_num(to, row.kind);
		put_mapped_sum(to, &row.sum);
	}
	free(number);
	return 0;
}

static void put_marks(struct buf *to, const struct marks *marks)
{
	uint64_t last = 0;
	put_num(to, marks->total);
	for (uint32_t i = 0; i < marks->count; i++) {
		put_num(to, marks->at[i].time_ns - last);
		put_num(to, marks->at[i].value);
		last = marks->at[i].time_ns;
	}
}

int64_t summary_put(const struct prof *prof, const struct prof_totals *totals,
		    const struct summary_names *names, size_t points, struct blt_cols *cols,
		    struct err *err)
{
	/*
	 * Several of the recording's numbers may have become one row: its counters go to the first
	 * of them.
	 */
	uint8_t *done = calloc(1, prof_stack_count(prof) / 8 + 1);
	if (!done)
		return err_set(err, -ENOMEM, "cannot hold the summary");
	int64_t count = put_stacks(prof, names->stacks, done, cols, err);
	free(done);
	put_totals(&cols->col[COL_TOTALS], totals);
	put_threads(&cols->col[COL_THREADS], &cols->col[COL_THREAD_PEAK_BLOCKS], prof,
		    names->threads);
	put_timeline(&cols->col[COL_TIMELINE], &cols->col[COL_PARTS], prof, points);
	put_marks(&cols->col[COL_MARKS], prof_marks(prof));
	if (put_mapped(&cols->col[COL_MAPPED], prof, names->stacks, err) < 0)
		return -ENOMEM;
	return count;
}

/* ---- reading --------------------------------------------------------------------------------- */

static void get_cost(struct cursor *c, struct cost *cost)
{
	uint64_t field[COST_FIELDS] = { 0 };
	for (unsigned i = 0; i < COST_FIELDS_FIRST; i++)
		field[i] = get_num(c);
	cost_from_fields(cost, field);
}

static int get_totals(const struct blt_view *view, struct prof *prof, struct err *err)
{
	struct cursor c = cursor_column(view, COL_TOTALS);
	struct prof_totals t = { 0 };
	get_cost(&c, &t.cost);
	t.foreign_frees = get_num(&c);
	t.peak_time_ns = get_num(&c);
	t.runtime_ns = get_num(&c);
	t.peak_event = get_num(&c);
	t.peak_rss_bytes = get_num(&c);
	t.lost_events = get_num(&c);
	t.lost_bytes = get_num(&c);
	t.culled_allocations = get_num(&c);
	t.culled_bytes = get_num(&c);
	t.threads = (uint32_t)get_num(&c);
	t.stacks = (uint32_t)get_num(&c);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		t.lost[i] = get_num(&c);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		t.loss_reports[i] = get_num(&c);
	for (unsigned i = 0; i < STACK_STOP_MAX; i++)
		t.partial[i] = get_num(&c);
	if (!c.bad && c.at < c.end) {
		t.forked_from = (uint32_t)get_num(&c);
		t.inherited_known = (uint32_t)get_num(&c);
		t.inherited_allocations = get_num(&c);
		t.inherited_bytes = get_num(&c);
	}
	if (!c.bad && c.at < c.end) {
		t.filtered_allocations = get_num(&c);
		t.filtered_bytes = get_num(&c);
		t.filtered_frees = get_num(&c);
	}
	if (!c.bad && c.at < c.end) {
		t.filtered_inherited_allocations = get_num(&c);
		t.filtered_inherited_bytes = get_num(&c);
	}
	if (!c.bad && c.at < c.end)
		t.cost.peak_blocks = get_num(&c);
	else
		prof_load_no_peak_blocks(prof);
	return c.bad ? -EBADMSG : prof_load_totals(prof, &t, err);
}

static int get_stacks(const struct blt_view *view, uint32_t rows, struct prof *prof,
		      struct err *err)
{
	struct cursor id = cursor_column(view, COL_ID), col[COST_FIELDS];
	uint64_t next = 0, sum[COST_FIELDS] = { 0 };
	for (unsigned i = 0; i < COST_FIELDS; i++)
		col[i] = cursor_column(view, COL_COST + i);
	const unsigned fields = col[COST_FIELDS_FIRST].at < col[COST_FIELDS_FIRST].end
					? COST_FIELDS
					: COST_FIELDS_FIRST;
	for (uint32_t n = 0; n < rows; n++) {
		uint64_t field[COST_FIELDS] = { 0 }, number;
		int bad = __builtin_add_overflow(next, get_num(&id), &number) || id.bad;
		for (unsigned i = 0; i < fields; i++) {
			field[i] = get_num(&col[i]);
			/* so that no sum over any of the rows has to be watched */
			bad |= __builtin_add_overflow(sum[i], field[i], &sum[i]) || col[i].bad;
		}
		if (bad || number > UINT32_MAX)
			return -EBADMSG;
		next = number + 1;
		struct cost cost;
		cost_from_fields(&cost, field);
		struct stack_id row = prof_stack_row(prof, (struct stack_id){ (uint32_t)number });
		if (number && !row.v)
			return -EBADMSG; /* not defined in this recording */
		int rc = prof_load_stack(prof, row, &cost, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int get_threads(const struct blt_view *view, struct prof *prof, struct err *err)
{
	struct cursor c = cursor_column(view, COL_THREADS);
	struct cursor peaks = cursor_column(view, COL_THREAD_PEAK_BLOCKS);
	uint64_t next = 0;
	while (c.at < c.end) {
		uint64_t number;
		struct cost cost;
		if (__builtin_add_overflow(next, get_num(&c), &number) || number > UINT32_MAX)
			return -EBADMSG;
		next = number + 1;
		get_cost(&c, &cost);
		uint64_t events = get_num(&c);
		if (peaks.at < peaks.end)
			cost.peak_blocks = get_num(&peaks);
		struct thread_id row =
			prof_thread_row(prof, (struct thread_id){ (uint32_t)number });
		if (c.bad || peaks.bad || (number && !row.v))
			return -EBADMSG;
		int rc = prof_load_thread(prof, row, &cost, events, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

#define POINTS_MAX 65536

static int get_timeline(const struct blt_view *view, struct prof *prof, struct err *err)
{
	struct cursor c = cursor_column(view, COL_TIMELINE);
	struct cursor parts = cursor_column(view, COL_PARTS);
	const int knows_parts = parts.at < parts.end;
	struct prof_point *points = NULL, p = { 0 };
	size_t count = 0, cap = 0;
	int rc = 0;
	while (c.at < c.end && rc >= 0) {
		p.time_ns += get_num(&c);
		p.rss_bytes += (uint64_t)unzigzag(get_num(&c));
		p.virtual_bytes += (uint64_t)unzigzag(get_num(&c));
		p.heap_bytes += (uint64_t)unzigzag(get_num(&c));
		p.rss_max_bytes = p.rss_bytes + (uint64_t)unzigzag(get_num(&c));
		p.heap_max_bytes = p.heap_bytes + (uint64_t)unzigzag(get_num(&c));
		p.allocations += (uint64_t)unzigzag(get_num(&c));
		p.frees += (uint64_t)unzigzag(get_num(&c));
		for (unsigned k = 0; knows_parts && k < PROF_PARTS; k++) {
			p.part_bytes[k] += (uint64_t)unzigzag(get_num(&parts));
			p.part_max_bytes[k] = p.part_bytes[k] + get_num(&parts);
		}
		if (c.bad || parts.bad || count == POINTS_MAX) {
			rc = -EBADMSG;
			break;
		}
		if (count == cap) {
			cap = cap ? cap * 2 : 256;
			struct prof_point *to = realloc(points, cap * sizeof(*points));
			if (!to) {
				rc = err_set(err, -ENOMEM, "cannot hold the timeline");
				break;
			}
			points = to;
		}
		points[count++] = p;
	}
	if (rc >= 0 && count)
		rc = prof_load_timeline(prof, points, count, err);
	free(points);
	return rc;
}

static void get_mapped_sum(struct cursor *c, struct mapped_sum *sum)
{
	sum->count = get_num(c);
	sum->bytes = get_num(c);
	sum->live_count = get_num(c);
	sum->live_bytes = get_num(c);
	sum->peak_bytes = get_num(c);
}

static int get_mapped(const struct blt_view *view, struct prof *prof, struct err *err)
{
	struct cursor c = cursor_column(view, COL_MAPPED);
	if (c.at == c.end) {
		prof_load_no_mapped(prof);
		return 0;
	}
	struct mapped *mapped = prof_load_mapped(prof, err);
	if (!mapped)
		return -ENOMEM;
	for (unsigned kind = 0; kind < MAPPED_KINDS; kind++) {
		struct mapped_sum sum = { 0 };
		get_mapped_sum(&c, &sum);
		sum.at_heap_peak_bytes = get_num(&c);
		sum.peak_time_ns = get_num(&c);
		mapped_load_sum(mapped, kind, &sum);
	}
	mapped_load_lost(mapped, get_num(&c));
	while (!c.bad && c.at < c.end) {
		struct mapped_row row = { 0 };
		uint64_t number = get_num(&c);
		row.kind = (uint32_t)get_num(&c);
		get_mapped_sum(&c, &row.sum);
		row.stack = number > UINT32_MAX
				    ? 0
				    : prof_stack_row(prof, (struct stack_id){ (uint32_t)number }).v;
		if (c.bad || (number && !row.stack) || row.kind >= MAPPED_KINDS)
			return -EBADMSG;
		if (mapped_load(mapped, &row) < 0)
			return err_set(err, -ENOMEM, "cannot hold what was mapped");
	}
	return c.bad ? -EBADMSG : 0;
}

static int get_marks(const struct blt_view *view, struct prof *prof)
{
	struct cursor c = cursor_column(view, COL_MARKS);
	struct marks *marks = prof_load_marks(prof);
	uint64_t total, time_ns = 0;
	marks->unknown = c.at == c.end;
	if (marks->unknown)
		return 0;
	total = get_num(&c);
	while (!c.bad && c.at < c.end) {
		if (__builtin_add_overflow(time_ns, get_num(&c), &time_ns) ||
		    time_ns > EVENT_TIME_MAX_NS || marks->count == MARKS_MAX)
			return -EBADMSG;
		marks_put(marks, time_ns, get_num(&c));
	}
	if (c.bad || total < marks->total)
		return -EBADMSG;
	marks->total = total;
	return 0;
}

int summary_get(const struct blt_view *view, uint32_t rows, struct prof *prof, struct err *err)
{
	int rc = get_stacks(view, rows, prof, err);
	if (rc >= 0)
		rc = get_threads(view, prof, err);
	if (rc >= 0)
		rc = get_timeline(view, prof, err);
	if (rc >= 0)
		rc = get_mapped(view, prof, err);
	if (rc >= 0)
		rc = get_marks(view, prof);
	if (rc >= 0)
		rc = get_totals(view, prof, err);
	return rc == -EBADMSG ? err_set(err, rc, "the summary breaks the format's rules") : rc;
}
