/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events_model.h - what writer and reader both know after the events so far, and what they guess
 * from it. Private to trace/.
 *
 * Both sides keep the same state and change it by the same functions here, so a right guess costs
 * next to nothing in the file. docs/format.md states every rule; none may change without a new
 * format version.
 *
 *  - A block has a slot. Slots of dead blocks remember their address and wait in a list per size
 *    class, last freed first,
 *    because allocators hand out the block freed last. In front of it stand a few that the thread
 *    itself freed, as in glibc's
 *    thread caches: the first seven stay there, and the blocks behind them are moved there when
 *    they are needed.
 *  - What is not found there was cut from a larger piece, and lies behind the last one that was;
 *    or it is a dead block far down
 *    the list, near to the last one that was taken from there: bins are emptied in the order they
 *    were filled, or backwards.
 *  - The last 2^20 allocations stand in a ring: a free says how many allocations ago its block
 *    was made, or how far that one
 *    is from the block that was freed just before.
 *  - What a thread did in its last two steps names a guess: what it does next.
 */
#ifndef TRACE_EVENTS_MODEL_H
#define TRACE_EVENTS_MODEL_H

#include <errno.h>
#include <stdint.h>

#include "model/event.h"
#include "trace/events.h"

enum events_col {
	EVC_META = 0,   /* sums before this block */
	EVC_OP = 1,     /* a byte an event, see below */
	EVC_TIME = 2,   /* runs: events, nanoseconds before the first of them */
	EVC_THREAD = 3, /* runs: events, thread */
	EVC_STACK = 4,  /* stacks that were not guessed: zigzag, from the last such */
	EVC_BYTES = 5,  /* sizes that were not guessed */
	EVC_ADDR = 6,   /* addresses that were not guessed: from the thread's last */
	EVC_DEPTH = 7,  /* a byte each: place in the list of dead blocks */
	EVC_AGE = 8,    /* frees that were not guessed: allocations since */
	EVC_SLOT = 9,   /* frees of older blocks: slot */
	EVC_FLAGS = 10, /* a byte each: flags that were not guessed */
	EVC_AUX = 11,   /* freeing stacks that were not guessed */
	EVC_KIND = 12, /* a byte for each event that is neither alloc nor free: kind | flags << 4 */
	EVC_OTHER = 13, /* their stack, addr, bytes, value, aux stack, block */
	EVC_DEAD = 14,  /* key blocks: the slots that hold no live block */
	EVC_APART =
		/* not guessed, right behind another free: allocations between the two blocks' */
	15,
	EVC_STEP = 16,  /* a byte each: places in the list from the last one taken far down */
	EVC_PLACE = 17, /* places below the list's end */
	EVC_COUNT
};

/*
 * The op byte. Alloc: (addr * 4 + what) * 2 + odd flags, below 32; those from ADDR_CUT on 32 more.
 * Free: 32 + (which * 2 + aux differs) * 2 + odd flags.
 */
enum op_what {
	WHAT_GUESSED = 0, /* stack and size as guessed */
	WHAT_BYTES = 1,   /* stack as guessed, size in EVC_BYTES */
	WHAT_STACK = 2,   /* stack in EVC_STACK, size as guessed */
	WHAT_BOTH = 3,
};
enum op_addr {
	ADDR_TOP = 0,   /* of the block of this size class that is handed out first */
	ADDR_BUMP = 1,  /* right behind the thread's last allocation */
	ADDR_DEPTH = 2, /* of one further down the list */
	ADDR_NEW = 3,
	ADDR_CUT = 4, /* from here on not in versions 1 and 2; right behind the thread's last cut */
	ADDR_STEP = 5,  /* of a dead one near the last that was taken far down, EVC_STEP */
	ADDR_PLACE = 6, /* of a dead one anywhere in the list, EVC_PLACE */
	ADDR_COUNT
};
enum op_which {
	WHICH_AGE = 0,  /* as many allocations ago as guessed */
	WHICH_NEXT = 1, /* allocated right after the block that this thread freed last */
	WHICH_RING = 2, /* age in EVC_AGE, or what EVC_APART says */
	WHICH_SLOT = 3, /* slot in EVC_SLOT */
};
#define OP_FREE 32
#define OP_OTHER 48
#define OP_CUT 64 /* what allocations begin with whose address is ADDR_CUT or behind it */
#define OP_END (OP_CUT + (ADDR_COUNT - ADDR_CUT) * 8)

#define RING_BITS 20
#define RING_SIZE (1u << RING_BITS)
#define GUESS_BITS 12
#define THREAD_CONTEXTS 64
#define CLASS_LINEAR 1024
#define CLASSES (CLASS_LINEAR + 8 * 64)
#define DEPTH_MAX 12    /* of the list; what is near comes on top */
#define NEAR_MAX 7      /* glibc's tcache_count up to 2.41 */
#define NEAR_CLASSES 66 /* chunks of up to 1,040 bytes */
#define FAST_CLASSES \
	9 /* chunks of up to 128 bytes: fastbins, of which a thread's cache is filled */
#define NO_SLOT 0xffffffffu
#define WHERE_BITS 17
#define WHERE_PLACES (1u << 20)

enum slot_state { SLOT_DEAD = 0, SLOT_LIVE = 1 };

struct slot {
	uint64_t addr, bytes;
	uint32_t stack;
	/* which allocation since the last key block made it */
	uint32_t seq;
	uint32_t state;
	/* of its allocation, where a reader was asked for what lives */
	uint32_t time_ms;
};
_Static_assert(sizeof(struct slot) == 32, "two slots a cache line");

/*
 * Dead blocks of one size class, last died on top. An array: the search for an address stays within
 * three cache lines.
 */
struct dead {
	uint64_t addr;
	/*
	 * NO_SLOT: taken out from amid others that stay where they are; never the first nor the top
	 */
	uint32_t slot;
	uint32_t reserved;
};
struct dead_list {
	/* from @first up to @count, the top */
	struct dead *dead;
	uint32_t first, count, cap;
	/* how many were taken out from amid the others */
	uint32_t taken;
	/* the place of the last of them; modulo 2^32, since those below @first go */
	uint32_t last;
};
/* Those of one thread and class that are handed out before the list's. */
struct near_list {
	struct dead dead[NEAR_MAX];
	uint32_t count;
};

struct guess {
	uint64_t bytes;
	uint32_t stack, age, aux;
	uint8_t alloc_flags, free_flags;
};

struct thread_context {
	/* what the thread did in its last two steps */
	uint32_t last, before;
	/* allocation number of the block which it freed last */
	uint32_t freed_seq;
	/* slot of its last allocation while that lives; else NO_SLOT */
	uint32_t made;
	/* of its last allocation, and where the next one would begin */
	uint64_t addr, bump;
	/* the end of its last one that no dead block near by made room for */
	uint64_t cut;
	/* its own, by class; NULL: recordings of version 1 */
	struct near_list *near;
};

struct events_model {
	struct slot *slots;
	uint32_t slot_count, slot_cap;
	/* slots without a block or an address, since the last key block */
	uint32_t *spare;
	uint32_t spare_count, spare_cap;
	/* allocations since the last key block */
	uint32_t seq;
	struct {
		uint64_t addr, bytes, value;
		uint32_t stack;
	} other[EVENT_KIND_MAX];
	/* last one in EVC_STACK */
	uint32_t literal_stack;
	struct thread_context thread[THREAD_CONTEXTS];
	struct guess guess[1 << GUESS_BITS];
	struct dead_list dead[CLASSES];
	/* there was a key block */
	int has_begun;
	int has_near;
	/* blocks are found far down, and behind the last cut; since version 3 */
	int has_far;
	/*
	 * the writer's: where in its class's list an address may stand, by its hash; a hint. NULL:
	 * nobody asks
	 */
	uint32_t *where;
	struct near_list near[THREAD_CONTEXTS][NEAR_CLASSES];
	/* never cleared: what is read from it was made since the last key block */
	uint32_t ring[RING_SIZE];
};

/** events_model_grow() - room for more in @list. 0, -ENOMEM. */
int events_model_grow(struct events_model *m, struct dead_list *list);
/**
 * events_model_squeeze() - close the places in @list from which something was taken. O(its length).
 */
void events_model_squeeze(struct events_model *m, struct dead_list *list);

static inline uint32_t model_class(uint64_t bytes)
{
	/* glibc's chunk sizes, which other allocators' classes are unions of or near to */
	uint64_t units = bytes / 16 + (bytes % 16 > 8) + 1;
	if (bytes <= 24)
		units = 2;
	if (units < CLASS_LINEAR)
		return (uint32_t)units;
	unsigned top = 63 - (unsigned)__builtin_clzll(units);
	return CLASS_LINEAR + 8 * top + (units >> (top - 3) & 7);
}

static inline uint64_t model_bump(uint64_t addr, uint64_t bytes)
{
	return addr + (bytes <= 24 ? 32 : (bytes + 8 + 15) & ~15ULL);
}

static inline struct thread_context *model_thread(struct events_model *m, uint32_t thread)
{
	return &m->thread[thread % THREAD_CONTEXTS];
}

/* What a thread does after the steps @before and @last. */
static inline struct guess *model_guess_after(struct events_model *m, uint32_t before,
					      uint32_t last)
{
	uint64_t h = last * 0x9e3779b97f4a7c15ULL ^ before * 0xc2b2ae3d27d4eb4fULL;
	return &m->guess[(h ^ h >> 29) * 0xbf58476d1ce4e5b9ULL >> (64 - GUESS_BITS)];
}

static inline struct guess *model_guess(struct events_model *m, const struct thread_context *t)
{
	return model_guess_after(m, t->before, t->last);
}

/* The step that an allocation or a free under @stack is. */
static inline uint32_t model_what(uint32_t stack, unsigned is_free)
{
	return stack * 2 + is_free;
}

/* Whether the thread's last step was a free, so that the next one's block is told by that one's. */
static inline int model_after_free(const struct events_model *m, const struct thread_context *t)
{
	return m->has_far && t->last & 1;
}

/* The thread's last allocation is at an address that was found as @addr says. */
static inline void model_cut(struct thread_context *t, unsigned addr)
{
	if (addr != ADDR_TOP && addr != ADDR_DEPTH)
		t->cut = t->bump;
}

static inline void model_step(struct thread_context *t, uint32_t what)
{
	t->before = t->last;
	t->last = what;
}

/* A slot that holds nothing; the caller made sure of room. */
static inline uint32_t model_fresh(struct events_model *m)
{
	return m->spare_count ? m->spare[--m->spare_count] : m->slot_count++;
}

/*
 * What m->where holds: of a place in a list the lower bits, and above them some of the address's
 * own.
 */
static inline uint32_t *model_where(const struct events_model *m, uint64_t addr, uint32_t *mark)
{
	uint64_t h = (addr >> 4) * 0x9e3779b97f4a7c15ULL;
	*mark = (uint32_t)h & ~(WHERE_PLACES - 1);
	return &m->where[h >> (64 - WHERE_BITS)];
}

static inline void model_note_where(const struct events_model *m, const struct dead_list *list,
				    uint32_t place)
{
	uint32_t mark, *where = model_where(m, list->dead[place].addr, &mark);
	*where = mark | (place & (WHERE_PLACES - 1));
}

/* Neither the top nor the oldest entry is one that was taken out. */
static inline void model_trim(struct dead_list *list)
{
	if (__builtin_expect(!list->taken, 1))
		return;
	for (; list->count > list->first && list->dead[list->count - 1].slot == NO_SLOT;
	     list->taken--)
		list->count--;
	for (; list->count > list->first && list->dead[list->first].slot == NO_SLOT; list->taken--)
		list->first++;
}

/* How far @place is above the one that was taken last. */
static inline int64_t model_step_to(const struct dead_list *list, uint32_t place)
{
	return (int32_t)(place - list->last);
}

/* Take out the entry at @place, wherever that is: the others stay where they are. */
static inline uint32_t model_take_far(struct dead_list *list, uint32_t place)
{
	struct dead *dead = &list->dead[place];
	uint32_t slot = dead->slot;
	*dead = (struct dead){ UINT64_MAX, NO_SLOT, 0 };
	list->taken++;
	list->last = place;
	model_trim(list);
	return slot;
}

/*
 * Where in @list @addr stands, as far as the writer remembers, below what is looked at anyway; -1:
 * nowhere. Entries near the top may have moved down a little.
 */
static inline int64_t model_search(const struct events_model *m, const struct dead_list *list,
				   uint64_t addr)
{
	if (list->count - list->first <= DEPTH_MAX)
		return -1;
	uint32_t mark, where = *model_where(m, addr, &mark), top = list->count - 1;
	if ((where ^ mark) / WHERE_PLACES)
		return -1;
	uint32_t place = top - ((top - where) & (WHERE_PLACES - 1));
	for (uint32_t i = 0; i < 4 && place < list->count && place >= list->first; i++, place--) {
		if (list->dead[place].addr == addr && list->dead[place].slot != NO_SLOT)
			return place;
	}
	return -1;
}

/* Take the entry @depth places below the top out of @list. */
static inline uint32_t model_unlist(struct dead_list *list, uint32_t depth)
{
	struct dead *at = &list->dead[list->count - 1 - depth];
	uint32_t slot = at->slot;
	for (; depth; depth--, at++) {
		*at = at[1];
		__asm__ volatile("" : : : "memory"); /* a call of memmove() for so few costs more */
	}
	list->count--;
	model_trim(list);
	return slot;
}

static inline struct near_list *model_near(const struct thread_context *t, uint32_t class)
{
	return t->near && class < NEAR_CLASSES ? &t->near[class] : NULL;
}

static inline void model_push_near(struct near_list *near, struct dead dead)
{
	near->dead[near->count++] = dead;
}

/*
 * The next block of a fastbin is wanted and the thread's cache is empty: glibc fills it from the
 * bin.
 */
static inline void model_refill(struct near_list *near, struct dead_list *list)
{
	while (near->count < NEAR_MAX && list->count > list->first) {
		model_push_near(near, list->dead[--list->count]);
		model_trim(list);
	}
}

/* How many places are looked at for an address: near ones, then the list's. */
static inline uint32_t model_depths(const struct near_list *near, const struct dead_list *list)
{
	uint32_t in_list = list->count - list->first;
	return (near ? near->count : 0) + (in_list < DEPTH_MAX ? in_list : DEPTH_MAX);
}

static inline struct dead *model_dead_at(struct near_list *near, struct dead_list *list,
					 uint32_t depth)
{
	uint32_t nearby = near ? near->count : 0;
	return depth < nearby ? &near->dead[nearby - 1 - depth]
			      : &list->dead[list->count - 1 - (depth - nearby)];
}

/* The depth below @most at which @addr stands; @most: at none. */
static inline uint32_t model_find(struct near_list *near, struct dead_list *list, uint32_t most,
				  uint64_t addr)
{
	uint32_t depth = 0;
	while (depth < most && model_dead_at(near, list, depth)->addr != addr)
		depth++;
	/* what was taken out has an address that hardly any block has */
	return depth < most && model_dead_at(near, list, depth)->slot == NO_SLOT ? most : depth;
}

/* Take out what stands at @depth, as its allocator would. Return: its slot. */
static inline uint32_t model_take(struct near_list *near, struct dead_list *list, uint32_t class,
				  uint32_t depth)
{
	uint32_t nearby = near ? near->count : 0, slot;
	if (depth < nearby) {
		slot = near->dead[nearby - 1 - depth].slot;
		for (uint32_t i = nearby - 1 - depth; i + 1 < nearby; i++)
			near->dead[i] = near->dead[i + 1];
		near->count--;
		return slot;
	}
	slot = model_unlist(list, depth - nearby);
	if (near && !depth && class < FAST_CLASSES)
		model_refill(near, list);
	return slot;
}

/*
 * Take the slot for a block at an address that was not found, so that the lists do not grow with
 * every address that is never seen again: the one that has been dead for longest; a fresh one if
 * there is none. Version 1: the last one which the search came to, which took those away that were
 * wanted next.
 */
static inline uint32_t model_replace(struct events_model *m, struct near_list *near,
				     struct dead_list *list)
{
	uint32_t in_list = list->count - list->first;
	if (in_list && !m->has_near)
		return model_unlist(list, (in_list < DEPTH_MAX ? in_list : DEPTH_MAX) - 1);
	if (in_list) {
		uint32_t slot = list->dead[list->first++].slot;
		model_trim(list);
		return slot;
	}
	if (near && near->count)
		return model_take(near, list, 0, near->count - 1);
	return model_fresh(m);
}

/* The slot for a block at @addr, which the thread's last block names. */
static inline uint32_t model_place_bump(struct events_model *m, struct near_list *near,
					struct dead_list *list, uint32_t class, uint64_t addr)
{
	uint32_t most = m->has_near ? model_depths(near, list) : 0;
	uint32_t depth = model_find(near, list, most, addr);
	return depth < most ? model_take(near, list, class, depth) : model_replace(m, near, list);
}

/* A new block's part in what is guessed; same order of changes on both sides. */
static inline void model_alloc_guess(struct events_model *m, struct thread_context *t,
				     struct guess *guess, uint32_t slot, const struct event *event)
{
	m->seq++;
	guess->bytes = event->bytes;
	guess->stack = event->stack.v;
	guess->alloc_flags = event->flags;
	t->addr = event->addr;
	t->bump = model_bump(event->addr, event->bytes);
	t->made = slot;
	model_step(t, model_what(event->stack.v, 0));
}

/* Enter a new block: the reader's side, which has to remember what frees do not say. */
static inline void model_alloc(struct events_model *m, struct thread_context *t,
			       struct guess *guess, uint32_t slot, const struct event *event)
{
	struct slot *s = &m->slots[slot];
	s->addr = event->addr;
	s->bytes = event->bytes;
	s->stack = event->stack.v;
	s->state = SLOT_LIVE;
	s->seq = m->seq;
	m->ring[m->seq % RING_SIZE] = slot;
	model_alloc_guess(m, t, guess, slot, event);
}

/* The slot that was made @age allocations ago and lives; else NO_SLOT. */
static inline uint32_t model_aged(const struct events_model *m, uint32_t age)
{
	if (age - 1 >= RING_SIZE || age > m->seq)
		return NO_SLOT;
	uint32_t seq = m->seq - age, slot = m->ring[seq % RING_SIZE];
	if (slot == NO_SLOT || m->slots[slot].seq != seq || m->slots[slot].state != SLOT_LIVE)
		return NO_SLOT;
	return slot;
}

/* The flags that a free of @slot by @t most likely has. */
static inline uint8_t model_free_flags(const struct thread_context *t, const struct guess *guess,
				       uint32_t slot)
{
	return (uint8_t)((guess->free_flags & ~EVENT_F_TEMPORARY) |
			 (t->made == slot ? EVENT_F_TEMPORARY : 0));
}

/*
 * A free's part in what is guessed, and its slot's place in the list; @event names the block's
 * address, size and stack,
 * @seq which allocation made it. Return: 0, -ENOMEM.
 */
static inline int model_free_guess(struct events_model *m, struct thread_context *t,
				   struct guess *guess, uint32_t slot, uint32_t seq, uint32_t age,
				   const struct event *event)
{
	uint32_t class = model_class(event->bytes);
	struct dead_list *list = &m->dead[class];
	struct near_list *near = model_near(t, class);
	const struct dead dead = { .addr = event->addr, .slot = slot };
	if (near && near->count < NEAR_MAX) {
		model_push_near(near, dead);
	} else {
		if (__builtin_expect(list->taken > (list->count - list->first) / 2, 0))
			events_model_squeeze(m, list);
		if (__builtin_expect(list->count == list->cap, 0) && events_model_grow(m, list) < 0)
			return -ENOMEM;
		list->dead[list->count++] = dead;
		/*
		 * those above are looked at anyway; most that come and go do so among them, at the
		 * same place of the table
		 */
		if (m->where && list->count - list->first > DEPTH_MAX)
			model_note_where(m, list, list->count - 1 - DEPTH_MAX);
	}
	guess->age = age;
	guess->aux = event->aux_stack.v;
	guess->free_flags = event->flags;
	t->freed_seq = seq;
	if (t->made == slot)
		t->made = NO_SLOT;
	model_step(t, model_what(event->stack.v, 1));
	return 0;
}

/* The reader's side; @event has been filled from the slot. */
static inline int model_free(struct events_model *m, struct thread_context *t, struct guess *guess,
			     uint32_t slot, uint32_t age, const struct event *event)
{
	struct slot *s = &m->slots[slot];
	int rc = model_free_guess(m, t, guess, slot, s->seq, age, event);
	if (rc == 0)
		s->state = SLOT_DEAD;
	return rc;
}

/** events_model_new() - both sides begin like this; some 5 MB. @version: of the file. */
struct events_model *events_model_new(uint32_t version, struct err *err);
void events_model_free(struct events_model *model);
/**
 * events_model_room() - make sure that one more slot can be taken. -ENOMEM, -E2BIG beyond
 * EVENTS_BLOCK_MAX.
 */
int events_model_room(struct events_model *model);
/**
 * events_model_reset() - a key block begins: forget all guesses, lists and ages. Slots of live
 * blocks stay; all others, by falling number, become spare (so the lowest number is taken first).
 * Return: 0, -ENOMEM.
 */
int events_model_reset(struct events_model *model);
/**
 * events_model_reset_to() - the same for a side that keeps no slots: @live says which ones hold a
 * block.
 */
int events_model_reset_to(struct events_model *model, const uint8_t *live);

#endif
