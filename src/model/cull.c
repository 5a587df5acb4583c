/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cull.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/chunked.h"

#define BATCH 512
#define SUMS_FIRST 1024u
#define SUMS_MAX 65536u /* then they are reported at once */
#define REPORT_NS 2000000000u

/* An event that waits. Numbers of nodes: 0 = none. */
struct node {
	struct event ev;
	/* in the order of events; next also: in the list of free nodes */
	uint32_t prev, next;
	/* of a realloc's parts: the one before */
	uint32_t chain;
	uint32_t reserved;
	/* counts all events */
	uint64_t index;
	/* counts allocations and frees, those that were left out too */
	uint64_t raw;
	/* allocation: of the first one of its chain */
	uint64_t born_ns, first_index;
};

/* What is known of a live block. */
struct block {
	uint64_t born_ns, first_index;
	/* its allocation; 0: handed on */
	uint32_t node;
	uint32_t reserved;
};

/* Between the two halves of a realloc. */
struct half {
	uint64_t born_ns, first_index;
	uint32_t node;
	uint32_t waiting;
};

struct sum {
	uint32_t stack, thread, class;
	uint32_t temporary;
	/* count 0: empty */
	uint64_t count, bytes, largest;
};

struct cull {
	struct sink sink;
	struct sink *to;
	const struct prof *sums;
	struct cull_opt opt;
	struct chunked nodes, blocks, halves;
	uint32_t free_node, head, tail, waiting;
	/* of the newest event; of the newest that was handed on */
	uint64_t index, taken;
	uint64_t now_ns, report_ns;
	/* allocations and frees seen; as of the peak */
	uint64_t block_events, peak_raw;
	/* of them handed on */
	uint64_t handed;
	struct cull_result result;
	struct sum *table;
	uint32_t sum_count, sum_mask;
	struct event batch[BATCH];
	size_t batched;
};

static struct node *node_at(struct cull *c, uint32_t number)
{
	return chunked_at(&c->nodes, number);
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot hold events that are not decided yet");
}

static int flush(struct cull *c, struct err *err)
{
	size_t count = c->batched;
	c->batched = 0;
	return count ? c->to->put(c->to, c->batch, count, err) : 0;
}

/* ---- the queue ------------------------------------------------------------------------------- */

static uint32_t append(struct cull *c, const struct event *ev, struct err *err)
{
	uint32_t number = c->free_node;
	struct node *node;
	if (number) {
		node = node_at(c, number);
		c->free_node = node->next;
	} else {
		number = c->nodes.count;
		node = chunked_add(&c->nodes);
		if (!node) {
			no_memory(err);
			return 0;
		}
	}
	*node = (struct node){
		.ev = *ev, .prev = c->tail, .index = ++c->index, .raw = c->block_events
	};
	if (c->tail)
		node_at(c, c->tail)->next = number;
	else
		c->head = number;
	c->tail = number;
	c->waiting++;
	return number;
}

static void unlink_node(struct cull *c, uint32_t number)
{
	struct node *node = node_at(c, number);
	if (node->prev)
		node_at(c, node->prev)->next = node->next;
	else
		c->head = node->next;
	if (node->next)
		node_at(c, node->next)->prev = node->prev;
	else
		c->tail = node->prev;
	node->next = c->free_node;
	c->free_node = number;
	c->waiting--;
}

static int is_block_event(const struct event *ev)
{
	return ev->kind == EVENT_ALLOC || ev->kind == EVENT_FREE;
}

/* An allocation that may yet turn out to be short-lived. */
static int is_undecided(const struct cull *c, uint64_t born_ns, uint64_t first_index)
{
	return first_index > c->taken && c->now_ns - born_ns < c->opt.lifetime_ns;
}

static int hand_on(struct cull *c, struct err *err)
{
	uint32_t number = c->head;
	struct node *node = node_at(c, number);
	const struct event *ev = &node->ev;
	if (ev->kind == EVENT_ALLOC && chunked_has(&c->blocks, ev->block.v)) {
		struct block *block = chunked_at(&c->blocks, ev->block.v);
		if (block->node == number)
			block->node = 0;
	}
	if (is_block_event(ev)) {
		c->handed++;
		if (node->raw <= c->peak_raw)
			c->result.peak_event = c->handed;
	}
	c->taken = node->index;
	c->batch[c->batched++] = *ev;
	unlink_node(c, number);
	return c->batched == BATCH ? flush(c, err) : 0;
}

static int hand_on_due(struct cull *c, struct err *err)
{
	int rc = 0;
	while (c->head && rc >= 0) {
		const struct node *node = node_at(c, c->head);
		if (node->ev.kind == EVENT_ALLOC && c->waiting <= c->opt.pending_max &&
		    is_undecided(c, node->born_ns, node->first_index))
			break;
		rc = hand_on(c, err);
	}
	return rc;
}

/* ---- what is left out ------------------------------------------------------------------------ */

static struct event event_of(const struct cull *c, const struct sum *sum)
{
	return (struct event){ .kind = EVENT_CULLED,
			       .thread.v = sum->thread,
			       .time_ns = c->now_ns,
			       .addr = sum->count,
			       .bytes = sum->bytes,
			       .value = cull_value(sum->class, sum->largest),
			       .stack.v = sum->stack,
			       .block.v = sum->temporary };
}

static int report(struct cull *c, struct err *err)
{
	c->report_ns = c->now_ns + REPORT_NS;
	for (uint32_t i = 0; c->sum_count && i <= c->sum_mask; i++) {
		struct sum *sum = &c->table[i];
		if (!sum->count)
			continue;
		const struct event ev = event_of(c, sum);
		if (!append(c, &ev, err))
			return -ENOMEM;
		sum->count = 0;
		c->sum_count--;
	}
	return 0;
}

static struct sum *sum_of(struct cull *c, uint32_t stack, uint32_t thread, unsigned class)
{
	uint64_t h = ((uint64_t)stack << 32 | thread << 3 | class) * 0x9e3779b97f4a7c15ULL;
	for (uint32_t i = (uint32_t)(h >> 40) & c->sum_mask;; i = (i + 1) & c->sum_mask) {
		struct sum *sum = &c->table[i];
		if (!sum->count ||
		    (sum->stack == stack && sum->thread == thread && sum->class == class))
			return sum;
	}
}

static int grow_sums(struct cull *c, struct err *err)
{
	struct sum *old = c->table;
	uint32_t count = old ? c->sum_mask + 1 : 0, more = old ? count * 2 : SUMS_FIRST;
	c->table = calloc(more, sizeof(*c->table));
	if (!c->table) {
		c->table = old;
		return no_memory(err);
	}
	c->sum_mask = more - 1;
	for (uint32_t i = 0; i < count; i++)
		if (old[i].count)
			*sum_of(c, old[i].stack, old[i].thread, old[i].class) = old[i];
	free(old);
	return 0;
}

/* One allocation and its free go into the sums. */
static int leave_out(struct cull *c, const struct event *alloc, uint64_t free_ns, int temporary,
		     struct err *err)
{
	if (!c->table || c->sum_count > c->sum_mask / 2) {
		int rc = c->sum_count < c->opt.sums_max ? grow_sums(c, err) : report(c, err);
		if (rc < 0)
			return rc;
	}
	unsigned class = cull_class(free_ns - alloc->time_ns);
	struct sum *sum = sum_of(c, alloc->stack.v, alloc->thread.v, class);
	if (!sum->count) {
		*sum = (struct sum){ .stack = alloc->stack.v,
				     .thread = alloc->thread.v,
				     .class = class };
		c->sum_count++;
	}
	sum->count++;
	sum->bytes += alloc->bytes;
	sum->temporary += temporary != 0;
	if (alloc->bytes > sum->largest)
		sum->largest = alloc->bytes;
	c->result.allocations++;
	c->result.bytes += alloc->bytes;
	return sum->temporary == UINT32_MAX - 1 ? report(c, err) : 0;
}

/*
 * The block whose last part is @number dies by @end: it and all that it was reallocated from never
 * were.
 */
static int forget_chain(struct cull *c, uint32_t number, const struct event *end, struct err *err)
{
	uint64_t free_ns = end->time_ns;
	int temporary = (end->flags & EVENT_F_TEMPORARY) != 0, rc = 0;
	while (number && rc >= 0) {
		const struct node *node = node_at(c, number);
		uint32_t before = node->chain;
		if (node->ev.kind == EVENT_ALLOC) {
			rc = leave_out(c, &node->ev, free_ns, temporary, err);
		} else {
			free_ns = node->ev.time_ns;
			temporary = (node->ev.flags & EVENT_F_TEMPORARY) != 0;
		}
		unlink_node(c, number);
		number = before;
	}
	return rc;
}

/* ---- events ---------------------------------------------------------------------------------- */

static int take_alloc(struct cull *c, const struct event *ev, struct err *err)
{
	struct block *block = chunked_touch(&c->blocks, ev->block.v);
	struct half *half = chunked_touch(&c->halves, ev->thread.v);
	uint32_t number = append(c, ev, err);
	if (!block || !half || !number)
		return no_memory(err);
	struct node *node = node_at(c, number);
	node->born_ns = ev->time_ns;
	node->first_index = ev->flags & EVENT_F_INHERITED ? 0 : node->index;
	if (half->waiting && ev->flags & EVENT_F_REALLOC) {
		node->born_ns = half->born_ns;
		node->first_index = half->first_index;
		node->chain = half->node;
	}
	half->waiting = 0;
	*block = (struct block){ node->born_ns, node->first_index, number };
	return 0;
}

static int take_free(struct cull *c, const struct event *ev, struct err *err)
{
	struct block *block = chunked_touch(&c->blocks, ev->block.v);
	struct half *half = chunked_touch(&c->halves, ev->thread.v);
	if (!block || !half)
		return no_memory(err);
	uint32_t alloc = block->node, number = 0;
	int undecided = alloc && is_undecided(c, block->born_ns, block->first_index);
	block->node = 0;
	/* one that nobody saw says when the address came again, and is no free that counts */
	if (undecided && !(ev->flags & (EVENT_F_REALLOC | EVENT_F_IMPLIED)))
		return forget_chain(c, alloc, ev, err);
	number = append(c, ev, err);
	if (!number)
		return -ENOMEM;
	if (!(ev->flags & EVENT_F_REALLOC))
		return 0;
	*half = (struct half){ block->born_ns, block->first_index, undecided ? number : 0, 1 };
	if (undecided)
		node_at(c, number)->chain = alloc;
	else
		half->first_index = 0;
	return 0;
}

static int cull_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct cull *c = (struct cull *)sink;
	return c->to->define(c->to, def, err);
}

/* A peak that lies further on than before: what was handed on came before it. */
static void note_peak(struct cull *c)
{
	uint64_t peak = c->sums ? prof_peak_event(c->sums) : 0;
	if (peak != c->peak_raw)
		c->result.peak_event = c->handed;
	c->peak_raw = peak;
}

static int cull_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct cull *c = (struct cull *)sink;
	int rc = 0;
	note_peak(c);
	for (size_t i = 0; i < count && rc >= 0; i++) {
		const struct event *ev = &events[i];
		c->now_ns = ev->time_ns;
		c->block_events += is_block_event(ev);
		if (ev->kind == EVENT_ALLOC && ev->block.v != BLOCK_NONE)
			rc = take_alloc(c, ev, err);
		else if (ev->kind == EVENT_FREE && ev->block.v != BLOCK_NONE)
			rc = take_free(c, ev, err);
		else
			rc = append(c, ev, err) ? 0 : -ENOMEM;
		if (rc >= 0)
			rc = hand_on_due(c, err);
	}
	return rc;
}

/* ---- life ------------------------------------------------------------------------------------ */

struct cull *cull_new(const struct cull_opt *opt, const struct prof *sums, struct sink *to,
		      struct err *err)
{
	struct cull *c = calloc(1, sizeof(*c));
	if (!c) {
		no_memory(err);
		return NULL;
	}
	c->sink = (struct sink){ .define = cull_define, .put = cull_put };
	c->to = to;
	c->sums = sums;
	c->opt = *opt;
	if (!c->opt.pending_max)
		c->opt.pending_max = CULL_PENDING_DEFAULT;
	if (!c->opt.sums_max)
		c->opt.sums_max = SUMS_MAX;
	c->report_ns = REPORT_NS;
	c->nodes = (struct chunked)CHUNKED_INIT(struct node);
	c->blocks = (struct chunked)CHUNKED_INIT(struct block);
	c->halves = (struct chunked)CHUNKED_INIT(struct half);
	if (!chunked_add(&c->nodes)) { /* number 0 */
		no_memory(err);
		cull_freep(&c);
	}
	return c;
}

void cull_freep(struct cull **cull)
{
	struct cull *c = *cull;
	*cull = NULL;
	if (!c)
		return;
	chunked_fini(&c->nodes);
	chunked_fini(&c->blocks);
	chunked_fini(&c->halves);
	free(c->table);
	free(c);
}

struct sink *cull_sink(struct cull *cull)
{
	return &cull->sink;
}

int cull_leave_out(struct cull *c, const struct event *alloc, const struct event *freed,
		   struct err *err)
{
	return leave_out(c, alloc, freed->time_ns, freed->flags & EVENT_F_TEMPORARY, err);
}

void cull_skip(struct cull *c)
{
	c->block_events++;
}

int cull_advance(struct cull *c, uint64_t now_ns, struct err *err)
{
	/*
	 * what is reported now may be followed by events that are a little older: its time is the
	 * last one's
	 */
	int rc = c->now_ns >= c->report_ns || now_ns >= c->report_ns + REPORT_NS ? report(c, err)
										 : 0;
	uint64_t last_ns = c->now_ns;
	if (now_ns > c->now_ns)
		c->now_ns = now_ns;
	if (rc >= 0)
		rc = hand_on_due(c, err);
	c->now_ns = last_ns;
	return rc < 0 ? rc : flush(c, err);
}

int cull_tell(struct cull *c, struct sink *to, struct err *err)
{
	int rc = 0;
	for (uint32_t at = c->head; at && rc >= 0; at = node_at(c, at)->next)
		rc = to->put(to, &node_at(c, at)->ev, 1, err);
	for (uint32_t i = 0; c->sum_count && i <= c->sum_mask && rc >= 0; i++) {
		const struct event ev = event_of(c, &c->table[i]);
		if (ev.addr)
			rc = to->put(to, &ev, 1, err);
	}
	return rc;
}

int cull_finish(struct cull *c, struct err *err)
{
	note_peak(c);
	int rc = report(c, err);
	while (c->head && rc >= 0)
		rc = hand_on(c, err);
	return rc < 0 ? rc : flush(c, err);
}

void cull_result(const struct cull *cull, struct cull_result *result)
{
	*result = cull->result;
}
