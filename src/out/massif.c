/* SPDX-License-Identifier: Apache-2.0 */
/*
 * massif.c - snapshots as Valgrind's massif writes them: a hundred over the recording's length,
 * every tenth with the tree of stacks, and one, with its tree, at the very event of the peak. The
 * tree grows from the allocating function outwards; what is below 1 % of the snapshot is summed up,
 * as massif does.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "out/out.h"
#include "out/stream.h"

#define SNAPSHOTS 100
#define DETAILED_EVERY 10
#define TREE_DEPTH_MAX 64 /* frames; also bounds the recursion below */
#define THRESHOLD_PERCENT 1

/* A stack on its way outwards: the frame that comes next, and what is live below it. */
struct walker {
	/* row; 0 = past the outermost frame */
	uint32_t stack;
	/* of its frame: inlined functions come one by one */
	uint32_t symbol;
	/* of that frame, for grouping */
	uint64_t key;
	uint64_t bytes;
};

struct group {
	/* walkers */
	size_t from, to;
	uint64_t bytes;
};

struct massif_out {
	struct out_stream stream;
	/* bytes by stack row */
	uint64_t *live;
	uint32_t live_cap;
	uint64_t live_bytes, events;
	struct prof_totals totals;
	uint64_t step_ns, next_ns;
	unsigned written;
	int begun;
	struct walker *walkers;
	size_t walker_cap;
};

static void set_key(const struct massif_out *out, struct walker *walker)
{
	const struct prof_stack *stack =
		prof_stack(out->stream.names, (struct stack_id){ walker->stack });
	/* reason roots have no frame: told apart by their stop number beyond all frames */
	uint64_t frame = stack->stop ? (uint64_t)UINT32_MAX + stack->stop : stack->frame.v;
	walker->key = walker->stack ? frame << 16 | (walker->symbol & 0xffff) : 0;
}

/*
 * A line end in a name would be a line of the format, and ms_print hands the rest on to the
 * terminal.
 */
static void put_escaped(FILE *to, const char *name)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	text_escape(&text, name, 0);
	fputs(buf_cstr(&text), to);
}

/* One frame outwards. */
static void step(const struct massif_out *out, struct walker *walker)
{
	const struct prof *names = out->stream.names;
	const struct prof_stack *stack = prof_stack(names, (struct stack_id){ walker->stack });
	uint32_t symbols = stack->stop ? 0 : prof_frame(names, stack->frame)->symbol_count;
	if (walker->symbol + 1 < symbols) {
		walker->symbol++;
	} else {
		walker->stack = stack->parent.v;
		walker->symbol = 0;
	}
	set_key(out, walker);
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = ((const struct walker *)a)->key, y = ((const struct walker *)b)->key;
	return (x > y) - (x < y);
}

static int by_bytes(const void *a, const void *b)
{
	uint64_t x = ((const struct group *)a)->bytes, y = ((const struct group *)b)->bytes;
	return (x < y) - (x > y);
}

static void write_label(const struct massif_out *out, const struct walker *walker)
{
	const struct prof *names = out->stream.names;
	const struct prof_stack *stack = prof_stack(names, (struct stack_id){ walker->stack });
	FILE *to = out->stream.to;
	if (stack->stop) {
		fprintf(to, "0x0: %s", view_stop_label(stack->stop));
		return;
	}
	const struct prof_frame *frame = prof_frame(names, stack->frame);
	const struct prof_module *module = prof_module(names, frame->module);
	fprintf(to, "0x%" PRIX64 ": ", module->bias + frame->offset);
	const struct symbol *symbol =
		walker->symbol < frame->symbol_count ? &frame->symbols[walker->symbol] : NULL;
	put_escaped(to, symbol && symbol->function ? symbol->function : "???");
	const char *place = symbol && symbol->file ? symbol->file : module->path;
	if (!*place)
		return;
	fputs(symbol && symbol->file ? " (" : " (in ", to);
	put_escaped(to, place);
	if (symbol && symbol->file)
		fprintf(to, ":%u", symbol->line);
	putc(')', to);
}

/*
 * The children of a node, largest first: walkers grouped by their next frame. NULL without memory.
 */
static struct group *group_walkers(struct massif_out *out, size_t from, size_t to, size_t *count)
{
	qsort(out->walkers + from, to - from, sizeof(*out->walkers), by_key);
	size_t groups = 0;
	for (size_t i = from; i < to; i++)
		groups += i == from || out->walkers[i].key != out->walkers[i - 1].key;
	struct group *group = calloc(groups ? groups : 1, sizeof(*group));
	if (!group)
		return NULL;
	*count = 0;
	for (size_t i = from; i < to; i++) {
		if (!out->walkers[i].stack)
			continue; /* ends here: it is the node's own */
		if (!*count || out->walkers[i].key != out->walkers[group[*count - 1].from].key)
			group[(*count)++].from = i;
		group[*count - 1].to = i + 1;
		group[*count - 1].bytes += out->walkers[i].bytes;
	}
	qsort(group, *count, sizeof(*group), by_bytes);
	return group;
}

/*
 * A node and what is below it; @label is its frame, the walkers [@from, @to) stand one frame
 * further out.
 */
static int write_node(struct massif_out *out, const struct walker *label, size_t from, size_t to,
		      uint64_t bytes, unsigned depth)
{
	FILE *file = out->stream.to;
	size_t count, shown = 0;
	struct group *group = group_walkers(out, from, to, &count);
	if (!group)
		return -ENOMEM;
	if (depth >= TREE_DEPTH_MAX)
		count = 0;
	while (shown < count && group[shown].bytes &&
	       group[shown].bytes >= out->live_bytes / 100 * THRESHOLD_PERCENT)
		shown++;
	uint64_t rest = 0;
	for (size_t i = shown; i < count; i++)
		rest += group[i].bytes;
	fprintf(file, "%*sn%zu: %" PRIu64 " ", (int)depth, "", shown + (rest > 0), bytes);
	if (label)
		write_label(out, label);
	else
		fputs("(heap allocation functions) malloc/new/new[], --alloc-fns, etc.", file);
	putc('\n', file);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < shown; i++) {
		struct walker child = out->walkers[group[i].from];
		for (size_t w = group[i].from; w < group[i].to; w++)
			step(out, &out->walkers[w]);
		rc = write_node(out, &child, group[i].from, group[i].to, group[i].bytes, depth + 1);
	}
	if (rc == 0 && rest)
		fprintf(file,
			"%*sn0: %" PRIu64 " in %zu place%s below massif's threshold (%d.00%%)\n",
			(int)depth + 1, "", rest, count - shown,
			count - shown == 1 ? "," : "s, all", THRESHOLD_PERCENT);
	free(group);
	return rc;
}

static int write_tree(struct massif_out *out)
{
	size_t count = 0;
	uint32_t rows = prof_stack_count(out->stream.names);
	for (uint32_t row = 0; row < rows && row < out->live_cap; row++)
		count += out->live[row] > 0;
	if (count > out->walker_cap) {
		struct walker *grown = realloc(out->walkers, count * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		out->walkers = grown;
		out->walker_cap = count;
	}
	count = 0;
	for (uint32_t row = 0; row < rows && row < out->live_cap; row++) {
		if (!out->live[row])
			continue;
		out->walkers[count] = (struct walker){ .stack = row, .bytes = out->live[row] };
		set_key(out, &out->walkers[count++]);
	}
	return write_node(out, NULL, 0, count, out->live_bytes, 0);
}

static int write_snapshot(struct massif_out *out, uint64_t time_ns, int peak)
{
	int detailed = peak || out->written % DETAILED_EVERY == DETAILED_EVERY - 1;
	fprintf(out->stream.to,
		"#-----------\nsnapshot=%u\n#-----------\ntime=%" PRIu64 "\nmem_heap_B=%" PRIu64
		"\nmem_heap_extra_B=0\nmem_stacks_B=0\nheap_tree=%s\n",
		out->written++, time_ns / 1000000, out->live_bytes,
		peak       ? "peak"
		: detailed ? "detailed"
			   : "empty");
	return detailed ? write_tree(out) : 0;
}

static int begin(struct massif_out *out)
{
	if (out->begun)
		return 0;
	out->begun = 1;
	prof_totals(out->stream.names, &out->totals);
	out->step_ns = out->totals.runtime_ns / SNAPSHOTS + 1;
	out->next_ns = out->step_ns;
	char *cmdline = out_command_line(out->stream.names);
	if (!cmdline)
		return -ENOMEM;
	fprintf(out->stream.to, "desc: byteledger");
	if (out->totals.culled_allocations)
		fprintf(out->stream.to,
			", without %" PRIu64 " short-lived allocations of %" PRIu64 " bytes",
			out->totals.culled_allocations, out->totals.culled_bytes);
	fprintf(out->stream.to, "\ncmd: %s\ntime_unit: ms\n", *cmdline ? cmdline : "unknown");
	free(cmdline);
	return write_snapshot(out, 0, 0);
}

static int put_event(struct massif_out *out, const struct event *event, struct err *err)
{
	int rc = 0;
	/* what stood at each moment that has passed, before this event changes it */
	while (rc == 0 && event->time_ns > out->next_ns && out->written <= SNAPSHOTS) {
		rc = write_snapshot(out, out->next_ns, 0);
		out->next_ns += out->step_ns;
	}
	if (rc < 0)
		return out_no_memory(err);
	if (event->kind != EVENT_ALLOC && event->kind != EVENT_FREE)
		return 0;
	uint32_t row = prof_stack_row(out->stream.names, event->stack).v;
	if (row >= out->live_cap) {
		uint32_t cap = prof_stack_count(out->stream.names);
		uint64_t *grown = realloc(out->live, cap * sizeof(*grown));
		if (!grown)
			return out_no_memory(err);
		memset(grown + out->live_cap, 0, (cap - out->live_cap) * sizeof(*grown));
		out->live = grown;
		out->live_cap = cap;
	}
	if (event->kind == EVENT_ALLOC) {
		if (out_live_add(&out->live_bytes, event->bytes, err) < 0)
			return -EBADMSG;
		out->live[row] += event->bytes;
	} else {
		out->live[row] -= event->bytes;
		out->live_bytes -= event->bytes;
	}
	if (++out->events == out->totals.peak_event && write_snapshot(out, event->time_ns, 1) < 0)
		return out_no_memory(err);
	return 0;
}

static int massif_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink;
	(void)def;
	(void)err;
	return 0; /* definitions are taken from the prof when they are needed */
}

static int massif_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct massif_out *out = (struct massif_out *)sink;
	if (begin(out) < 0)
		return out_no_memory(err);
	int rc = 0;
	for (size_t i = 0; rc == 0 && i < count; i++)
		rc = put_event(out, &events[i], err);
	if (rc < 0)
		return rc;
	if (ferror(out->stream.to))
		return err_set(err, errno ? -errno : -EIO, "cannot write the export");
	return 0;
}

static int massif_finish(struct out_stream *stream, struct err *err)
{
	struct massif_out *out = (struct massif_out *)stream;
	if (begin(out) < 0 || write_snapshot(out, out->totals.runtime_ns, 0) < 0)
		return out_no_memory(err);
	return 0;
}

static void massif_fini(struct out_stream *stream)
{
	struct massif_out *out = (struct massif_out *)stream;
	free(out->live);
	free(out->walkers);
}

struct out_stream *out_massif_new(FILE *to, const struct prof *names, struct err *err)
{
	struct massif_out *out = calloc(1, sizeof(*out));
	if (!out) {
		out_no_memory(err);
		return NULL;
	}
	out->stream = (struct out_stream){ .sink = { massif_define, massif_put },
					   .to = to,
					   .names = names,
					   .finish = massif_finish,
					   .fini = massif_fini };
	return &out->stream;
}
