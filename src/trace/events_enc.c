/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/huge.h"
#include "trace/cursor.h"
#include "trace/events_model.h"

/* Most bytes that one event can add to a column; 0 = the column grows by buf. */
static const uint8_t room_per_event[EVC_COUNT] = {
	[EVC_OP] = 1,         [EVC_TIME] = 3 + VARINT_MAX,
	[EVC_THREAD] = 3 + 5, [EVC_STACK] = 5,
	[EVC_BYTES] = 10,     [EVC_ADDR] = 10,
	[EVC_DEPTH] = 1,      [EVC_AGE] = 5,
	[EVC_SLOT] = 5,       [EVC_FLAGS] = 1,
	[EVC_AUX] = 5,        [EVC_APART] = 10,
	[EVC_STEP] = 1,       [EVC_PLACE] = 5,
};

/*
 * Columns that programs which do the same again and again fill with the same bytes: they go on from
 * block to block, since a round of such a program's may be longer than one.
 */
static const uint32_t goes_on = 1u << EVC_OP | 1u << EVC_STACK | 1u << EVC_BYTES | 1u << EVC_DEPTH |
				1u << EVC_AGE | 1u << EVC_AUX | 1u << EVC_APART | 1u << EVC_STEP;

/* All that has to be remembered of a live block: a free's event names the rest. */
struct enc_block {
	/* of the model, + 1; 0 = dead */
	uint32_t slot;
	/* as in struct slot; NO_SEQ = made before the last key block */
	uint32_t seq;
};
#define NO_SEQ 0xffffffffu
/* So many rows are fetched from the kernel at once: 128 KiB. */
#define BLOCK_STEP 16384u

struct events_enc {
	struct events_model *m;
	struct blt_cols cols;
	/* where the next byte of a column goes */
	uint8_t *at[EVC_COUNT];
	uint32_t rows;
	/* the block under construction is a key block */
	int key;
	/* the next one must be */
	int want_key;
	/* a block was dropped: the file knows nothing of what it did to the slots */
	int adrift;
	/* open.events: see rows */
	struct events_tally kept, open;
	/* by the open block */
	struct events_told told;
	/* of the block's first event, of the last event */
	uint64_t block_time, time;
	/* nanoseconds before the run of equal times that goes on */
	uint64_t time_step;
	/* the rows at which the runs that go on began */
	uint32_t time_from, thread, thread_from;
	/* by the producer's number */
	struct enc_block *blocks;
	/* that are in memory */
	uint32_t block_count;
	/* that the mapping has room for */
	uint32_t block_room;
};

struct events_enc *events_enc_new(struct err *err)
{
	struct events_enc *enc = calloc(1, sizeof(*enc));
	if (!enc || !(enc->m = events_model_new(BLT_VERSION, err)) ||
	    !(enc->m->where = calloc(1u << WHERE_BITS, sizeof(*enc->m->where)))) {
		err_set(err, -ENOMEM, "cannot set up the recording");
		events_enc_free(enc);
		return NULL;
	}
	enc->want_key = 1;
	/*
	 * what no guess finds hardly repeats: short codes alone cost a third of the time, and some
	 * percent of the size
	 */
	enc->cols.plain = 1u << EVC_ADDR;
	for (unsigned i = 0; i < EVC_COUNT; i++) {
		if (goes_on >> i & 1 && !(enc->cols.flow[i] = zflow_enc_new())) {
			err_set(err, -ENOMEM, "cannot set up the recording");
			events_enc_free(enc);
			return NULL;
		}
		if (!room_per_event[i])
			continue;
		/* one run more than events: the last one is closed with the block */
		char *to =
			buf_reserve(&enc->cols.col[i], (EVENTS_ROWS_MAX + 1) * room_per_event[i]);
		if (!to) {
			err_set(err, -ENOMEM, "cannot set up the recording");
			events_enc_free(enc);
			return NULL;
		}
		enc->at[i] = (uint8_t *)to;
	}
	return enc;
}

void events_enc_free(struct events_enc *enc)
{
	if (!enc)
		return;
	blt_cols_fini(&enc->cols);
	events_model_free(enc->m);
	huge_free(enc->blocks, enc->block_room * sizeof(*enc->blocks));
	free(enc);
}

/*
 * What a run of events of one thread at one moment changes with each of them, and the compiler
 * cannot keep in registers otherwise: a byte stored in a column might change whatever memory holds.
 */
struct run {
	uint8_t *at[EVC_COUNT];
	struct thread_context t;
	uint64_t allocations, bytes, frees, implied;
};

static inline void put(uint8_t *at[], enum events_col col, uint64_t v)
{
	at[col] = varint_put(at[col], v);
}

static int map_room(struct events_enc *enc, uint32_t block, struct err *err)
{
	if (block >= EVENTS_BLOCK_MAX)
		return err_set(err, -EINVAL, "block number %u is out of range", block);
	uint32_t room = enc->block_room ? enc->block_room : BLOCK_STEP;
	while (room <= block)
		room *= 2;
	if (room > enc->block_room) {
		struct enc_block *to =
			huge_resize(enc->blocks, enc->block_room * sizeof(*to), room * sizeof(*to));
		if (!to)
			return err_set(err, -ENOMEM, "cannot hold %u live blocks", room);
		enc->blocks = to;
		enc->block_room = room;
	}
	/* numbers are given out one after the other, and each row is read before it is written */
	uint32_t count = (block / BLOCK_STEP + 1) * BLOCK_STEP;
	if (count - enc->block_count == BLOCK_STEP)
		huge_populate(enc->blocks + enc->block_count, BLOCK_STEP * sizeof(*enc->blocks));
	enc->block_count = count;
	return 0;
}

/*
 * The difference of two addresses; most are multiples of 16, which then needs one bit instead of
 * four.
 */
static inline uint64_t fold_addr(uint64_t delta)
{
	return zigzag(
		(int64_t)(delta % 16 ? delta << 1 | 1 : (uint64_t)((int64_t)delta >> 4) << 1));
}

/* Find a slot for the block, and tell how its address was found. */
static inline unsigned place(struct events_model *m, struct run *run, const struct event *event,
			     uint32_t *slot)
{
	uint32_t class = model_class(event->bytes);
	struct dead_list *list = &m->dead[class];
	struct near_list *near = model_near(&run->t, class);
	uint32_t most = model_depths(near, list), depth;
	if (most && model_dead_at(near, list, 0)->addr == event->addr) {
		*slot = model_take(near, list, class, 0);
		return ADDR_TOP;
	}
	if (event->addr == run->t.bump) {
		*slot = model_place_bump(m, near, list, class, event->addr);
		return ADDR_BUMP;
	}
	if (event->addr == run->t.cut) {
		*slot = model_place_bump(m, near, list, class, event->addr);
		return ADDR_CUT;
	}
	depth = model_find(near, list, most, event->addr);
	if (depth < most) {
		*run->at[EVC_DEPTH]++ = (uint8_t)depth;
		*slot = model_take(near, list, class, depth);
		return ADDR_DEPTH;
	}
	int64_t place = model_search(m, list, event->addr);
	if (place < 0) {
		*slot = model_replace(m, near, list);
		put(run->at, EVC_ADDR, fold_addr(event->addr - run->t.addr));
		return ADDR_NEW;
	}
	uint64_t step = zigzag(model_step_to(list, (uint32_t)place));
	uint32_t below = list->count - (uint32_t)place;
	*slot = model_take_far(list, (uint32_t)place);
	if (step > UINT8_MAX) {
		put(run->at, EVC_PLACE, below);
		return ADDR_PLACE;
	}
	*run->at[EVC_STEP]++ = (uint8_t)step;
	return ADDR_STEP;
}

static inline int add_alloc(struct events_enc *enc, struct run *run, struct guess *guess,
			    const struct event *event, struct err *err)
{
	struct events_model *m = enc->m;
	if (__builtin_expect(event->block.v >= enc->block_count, 0)) {
		int rc = map_room(enc, event->block.v, err);
		if (rc < 0)
			return rc;
	}
	struct enc_block *block = &enc->blocks[event->block.v];
	if (__builtin_expect(block->slot != 0, 0))
		return err_set(err, -EINVAL, "block %u is allocated while it lives",
			       event->block.v);
	if (__builtin_expect(m->slot_count >= EVENTS_BLOCK_MAX, 0) && !m->spare_count)
		return err_set(err, -E2BIG, "cannot hold %u live blocks", m->slot_count);
	unsigned what = WHAT_GUESSED, odd = event->flags != guess->alloc_flags;
	if (event->stack.v != guess->stack) {
		what |= WHAT_STACK;
		put(run->at, EVC_STACK, zigzag((int64_t)event->stack.v - m->literal_stack));
		m->literal_stack = event->stack.v;
	}
	if (event->bytes != guess->bytes) {
		what |= WHAT_BYTES;
		put(run->at, EVC_BYTES, event->bytes);
	}
	if (odd)
		*run->at[EVC_FLAGS]++ = event->flags;
	uint32_t slot;
	unsigned addr = place(m, run, event, &slot);
	*run->at[EVC_OP]++ =
		(uint8_t)((addr * 4 + what) * 2 + odd + (addr < ADDR_CUT ? 0 : OP_CUT - OP_FREE));
	*block = (struct enc_block){ slot + 1, m->seq };
	model_alloc_guess(m, &run->t, guess, slot, event);
	model_cut(&run->t, addr);
	run->allocations++;
	run->bytes += event->bytes;
	return 0;
}

static inline int add_free(struct events_enc *enc, struct run *run, struct guess *guess,
			   const struct event *event, struct err *err)
{
	struct events_model *m = enc->m;
	uint32_t number = event->block.v;
	if (__builtin_expect(number >= enc->block_count || enc->blocks[number].slot == 0, 0))
		return err_set(err, -EINVAL, "block %u is freed but does not live", number);
	const struct enc_block block = { enc->blocks[number].slot - 1, enc->blocks[number].seq };
	enc->blocks[number].slot = 0;
	uint32_t age = m->seq - block.seq;
	if (age > RING_SIZE || block.seq == NO_SEQ)
		age = 0;
	unsigned which;
	if (!age) {
		which = WHICH_SLOT;
		put(run->at, EVC_SLOT, block.slot);
	} else if (age == guess->age) {
		which = WHICH_AGE;
	} else if (block.seq == run->t.freed_seq + 1) {
		which = WHICH_NEXT;
	} else {
		which = WHICH_RING;
		if (model_after_free(m, &run->t))
			put(run->at, EVC_APART, zigzag((int64_t)block.seq - run->t.freed_seq));
		else
			put(run->at, EVC_AGE, age);
	}
	unsigned odd = event->flags != model_free_flags(&run->t, guess, block.slot);
	unsigned aux = event->aux_stack.v != guess->aux;
	if (odd)
		*run->at[EVC_FLAGS]++ = event->flags;
	if (aux)
		put(run->at, EVC_AUX, event->aux_stack.v);
	*run->at[EVC_OP]++ = (uint8_t)(OP_FREE + (which * 2 + aux) * 2 + odd);
	run->frees++;
	run->implied += event->flags / EVENT_F_IMPLIED & 1;
	/* the reader's slots of old blocks say 0 */
	if (model_free_guess(m, &run->t, guess, block.slot, block.seq == NO_SEQ ? 0 : block.seq,
			     age, event) < 0)
		return err_set(err, -ENOMEM, "cannot hold the dead blocks");
	return 0;
}

static void add_other(struct events_enc *enc, const struct event *event)
{
	struct buf *to = &enc->cols.col[EVC_OTHER];
	struct events_model *m = enc->m;
	unsigned kind = event->kind;
	buf_putc(&enc->cols.col[EVC_KIND], (char)(kind | event->flags << 4));
	put_num(to, zigzag((int64_t)event->stack.v - m->other[kind].stack));
	put_num(to, zigzag((int64_t)(event->addr - m->other[kind].addr)));
	put_num(to, zigzag((int64_t)(event->bytes - m->other[kind].bytes)));
	put_num(to, zigzag((int64_t)(event->value - m->other[kind].value)));
	put_num(to, event->aux_stack.v);
	put_num(to, event->block.v + 1); /* BLOCK_NONE is 2^32 - 1 */
	m->other[kind].stack = event->stack.v;
	m->other[kind].addr = event->addr;
	m->other[kind].bytes = event->bytes;
	m->other[kind].value = event->value;
	*enc->at[EVC_OP]++ = OP_OTHER;
	enc->open.frees += kind == EVENT_FREE_FOREIGN;
	events_tally_speak(&enc->open, event);
	events_told_add(&enc->told, event);
}

/* A key block: what it needs of the past is which slots are taken. */
static __attribute__((noinline)) int begin_key(struct events_enc *enc, struct err *err)
{
	struct events_model *m = enc->m;
	struct buf *to = &enc->cols.col[EVC_DEAD];
	uint8_t *live = calloc(1, (size_t)m->slot_count + 1);
	for (uint32_t i = 0; live && i < enc->block_count; i++) {
		enc->blocks[i].seq = NO_SEQ;
		if (enc->blocks[i].slot)
			live[enc->blocks[i].slot - 1] = 1;
	}
	if (!live || events_model_reset_to(m, live) < 0) {
		free(live);
		return err_set(err, -ENOMEM, "cannot hold the dead blocks");
	}
	if (!enc->adrift)
		put_num(to, m->slot_count);
	for (uint32_t i = 0; i < m->slot_count && !enc->adrift;) {
		uint32_t from = i, state = live[i];
		if (!from && !state)
			put_num(to, 0); /* runs begin with a live one */
		while (i < m->slot_count && live[i] == state)
			i++;
		put_num(to, i - from);
	}
	free(live);
	for (unsigned i = 0; i < EVC_COUNT; i++) {
		if (enc->cols.flow[i])
			zflow_restart(enc->cols.flow[i]);
	}
	enc->want_key = 0;
	enc->key = 1;
	return 0;
}

/*
 * Frees reach far back; their rows are fetched while events before them are coded. So are the
 * guesses, which are nearer by.
 */
#define AHEAD 16
#define GUESS_AHEAD 4

/*
 * The guess for @event, which follows two others, will soon be asked for. Always inlined, as
 * live_prefetch() is.
 */
static inline __attribute__((always_inline)) void expect_guess(struct events_model *m,
							       const struct event *event)
{
	uint32_t before = model_what(event[-2].stack.v, event[-2].kind == EVENT_FREE);
	uint32_t last = model_what(event[-1].stack.v, event[-1].kind == EVENT_FREE);
	__builtin_prefetch(model_guess_after(m, before, last), 1);
}

/*
 * Take allocations and frees as long as they are of the thread and the moment of the open block's
 * last event. *@taken: how many. A copy of @enc->blocks is out of date after any event.
 */
static int add_run(struct events_enc *enc, const struct event *events, size_t count, size_t *taken,
		   struct err *err)
{
	struct thread_context *t = model_thread(enc->m, enc->thread);
	const uint64_t time = enc->time;
	const uint32_t thread = enc->thread;
	const struct event *event = events, *end = events + count;
	struct run run = { .t = *t };
	struct guess *guess = model_guess(enc->m, t);
	/*
	 * stacks are numbered as they appear, so that a high number tells of many, and of guesses
	 * all over their table
	 */
	const int spread = events->stack.v > 1u << GUESS_BITS;
	int rc = 0;
	memcpy(run.at, enc->at, sizeof(run.at));
	for (; event < end; event++) {
		unsigned is_free = event->kind - EVENT_ALLOC;
		/* one by one: joined by ||, gcc would evaluate them all */
		if (__builtin_expect(event->time_ns != time, 0))
			break;
		if (__builtin_expect(event->thread.v != thread, 0))
			break;
		if (__builtin_expect(is_free > 1, 0))
			break;
		if (__builtin_expect(event->flags >> 4 | event->stack.v >> 31, 0))
			break;
		/*
		 * never further than the batch; the address of a row that is not there is as good
		 * as any
		 */
		const struct event *far = event + AHEAD < end ? event + AHEAD : event;
		uintptr_t row = (uintptr_t)enc->blocks;
		row += sizeof(*enc->blocks) * (uintptr_t)far->block.v;
		__builtin_prefetch((const void *)row, 1);
		if (end - event > GUESS_AHEAD) {
			uint32_t mark;
			__builtin_prefetch(model_where(enc->m, event[GUESS_AHEAD].addr, &mark));
			if (spread)
				expect_guess(enc->m, event + GUESS_AHEAD);
		}
		/*
		 * the next event's, on its way while this one is coded, which often takes another
		 * turn than was expected
		 */
		struct guess *next =
			model_guess_after(enc->m, run.t.last, model_what(event->stack.v, is_free));
		__builtin_prefetch(next, 1);
		rc = is_free ? add_free(enc, &run, guess, event, err)
			     : add_alloc(enc, &run, guess, event, err);
		if (__builtin_expect(rc < 0, 0))
			break;
		guess = next;
	}
	*t = run.t;
	memcpy(enc->at, run.at, sizeof(run.at));
	enc->open.allocations += run.allocations;
	enc->open.bytes += run.bytes;
	enc->open.frees += run.frees;
	enc->open.implied += run.implied;
	*taken = (size_t)(event - events);
	enc->rows += (uint32_t)*taken;
	return rc;
}

/* What add_run() stopped at, or what a block begins with. */
static int add_one(struct events_enc *enc, const struct event *event, struct err *err)
{
	int rc = 0;
	unsigned kind = event->kind;
	if (kind == 0 || kind >= EVENT_KIND_MAX || event->flags > 15 || event->stack.v > INT32_MAX)
		return err_set(err, -EINVAL, "an event of kind %u cannot be recorded", kind);
	if (event->time_ns < enc->time)
		return err_set(err, -EINVAL, "time goes back from %" PRIu64 " to %" PRIu64 " ns",
			       enc->time, event->time_ns);
	if (!enc->rows && enc->want_key)
		rc = begin_key(enc, err);
	if (rc < 0)
		return rc;
	if (kind <= EVENT_FREE && enc->adrift)
		return err_set(err, -EINVAL, "a recording that lost a block takes no more events");
	if (!enc->rows) {
		enc->block_time = enc->time = event->time_ns;
		enc->time_step = 0;
		enc->thread = event->thread.v;
	}
	if (event->time_ns != enc->time) {
		put(enc->at, EVC_TIME, enc->rows - enc->time_from);
		put(enc->at, EVC_TIME, enc->time_step);
		enc->time_step = event->time_ns - enc->time;
		enc->time_from = enc->rows;
		enc->time = event->time_ns;
	}
	if (event->thread.v != enc->thread) {
		put(enc->at, EVC_THREAD, enc->rows - enc->thread_from);
		put(enc->at, EVC_THREAD, enc->thread);
		enc->thread_from = enc->rows;
		enc->thread = event->thread.v;
	}
	if (kind <= EVENT_FREE) {
		size_t taken;
		return add_run(enc, event, 1, &taken, err);
	}
	add_other(enc, event);
	enc->rows++;
	return 0;
}

int events_enc_add(struct events_enc *enc, const struct event *events, size_t count, size_t *taken,
		   struct err *err)
{
	int rc = 0;
	size_t i = 0;
	while (i < count && enc->rows < EVENTS_ROWS_MAX && rc >= 0) {
		size_t run = 0, room = EVENTS_ROWS_MAX - enc->rows;
		if (enc->rows && !enc->adrift)
			rc = add_run(enc, events + i, MIN(count - i, room), &run, err);
		i += run;
		if (rc < 0 || run)
			continue;
		rc = add_one(enc, &events[i], err);
		i += rc >= 0;
	}
	*taken = i;
	return rc < 0 ? rc : enc->rows == EVENTS_ROWS_MAX;
}

uint32_t events_enc_rows(const struct events_enc *enc)
{
	return enc->rows;
}

struct blt_cols *events_enc_block(struct events_enc *enc, struct blt_head *head)
{
	struct buf *col = enc->cols.col;
	put(enc->at, EVC_TIME, enc->rows - enc->time_from);
	put(enc->at, EVC_TIME, enc->time_step);
	put(enc->at, EVC_THREAD, enc->rows - enc->thread_from);
	put(enc->at, EVC_THREAD, enc->thread);
	put_num(&col[EVC_META], enc->kept.allocations);
	put_num(&col[EVC_META], enc->kept.bytes);
	put_num(&col[EVC_META], enc->kept.frees);
	put_num(&col[EVC_META], enc->kept.implied);
	for (unsigned i = 0; i < 3; i++)
		put_num(&col[EVC_META], enc->kept.spoken[i]);
	for (unsigned i = 0; i < EVC_COUNT; i++)
		if (room_per_event[i])
			col[i].len = (size_t)(enc->at[i] - (uint8_t *)col[i].data);
	*head = (struct blt_head){ .type = BLT_EVENTS,
				   .flags = enc->key ? BLT_F_KEY : 0,
				   .rows = enc->rows,
				   .first = enc->kept.events,
				   .time_ns = enc->block_time };
	return &enc->cols;
}

void events_enc_clear(struct events_enc *enc, int kept, int key_next)
{
	if (kept) {
		enc->kept.events += enc->rows;
		enc->kept.allocations += enc->open.allocations;
		enc->kept.bytes += enc->open.bytes;
		enc->kept.frees += enc->open.frees;
		enc->kept.implied += enc->open.implied;
		for (unsigned i = 0; i < 3; i++)
			enc->kept.spoken[i] += enc->open.spoken[i];
	}
	enc->open = (struct events_tally){ 0 };
	enc->told = (struct events_told){ 0 };
	blt_cols_clear(&enc->cols);
	for (unsigned i = 0; i < EVC_COUNT; i++)
		enc->at[i] = (uint8_t *)enc->cols.col[i].data;
	enc->rows = enc->time_from = enc->thread_from = 0;
	enc->key = 0;
	/*
	 * Numbers since the last key block are 32 bits wide; without a dropped block nothing can be
	 * guessed.
	 */
	enc->adrift |= !kept;
	enc->want_key = key_next || !kept || enc->m->seq > 1u << 30;
}

void events_enc_tally(const struct events_enc *enc, struct events_tally *kept,
		      struct events_tally *open)
{
	if (kept)
		*kept = enc->kept;
	if (open) {
		*open = enc->open;
		open->events = enc->rows;
	}
}

void events_tally_speak(struct events_tally *tally, const struct event *event)
{
	uint64_t frees = event->kind == EVENT_CULLED ? event->addr : event->block.v;
	if (event->kind != EVENT_CULLED &&
	    (event->kind != EVENT_LOST || event->value == LOSS_REGION))
		return;
	tally->spoken[0] += event->addr;
	tally->spoken[1] += event->bytes;
	tally->spoken[2] += frees;
}

static void told_add(struct events_tally *to, const struct event *event, uint64_t frees)
{
	to->events++;
	to->allocations += event->addr;
	to->bytes += event->bytes;
	to->frees += frees;
}

void events_told_add(struct events_told *told, const struct event *event)
{
	if (event->kind == EVENT_LOST && event->value < LOSS_REASON_MAX)
		told_add(&told->lost[event->value], event, event->block.v);
	else if (event->kind == EVENT_CULLED)
		told_add(&told->culled, event, event->addr); /* each of them was freed */
	else if (event->kind == EVENT_FILTERED)
		told_add(event->flags & EVENT_F_INHERITED ? &told->filtered_inherited
							  : &told->filtered,
			 event, event->value);
}

const struct events_told *events_enc_told(const struct events_enc *enc)
{
	return &enc->told;
}

uint32_t events_enc_slots(const struct events_enc *enc)
{
	return enc->m->slot_count;
}

uint64_t events_enc_last_time(const struct events_enc *enc)
{
	return enc->time;
}

uint32_t events_enc_slot(const struct events_enc *enc, uint32_t number)
{
	return number < enc->block_count ? enc->blocks[number].slot - 1 : UINT32_MAX;
}
