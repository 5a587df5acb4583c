/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_internal.h - what the files source/heap*.c share: heap.c (life), heap_ring.c (merge), heap_records.c (decode), heap_defs.c
 * (nodes, modules, threads to definitions), heap_clock.c (cycles to nanoseconds), heap_raw.c (files without a recorder),
 * heap_fork.c (what a child takes along).
 */
#ifndef SOURCE_HEAP_INTERNAL_H
#define SOURCE_HEAP_INTERNAL_H

#include <stdbool.h>

#include "model/live.h"
#include "source/jitmap.h"
#include "source/source.h"
#include "wire/heap.h"

#define HEAP_BATCH 512 /* events; their 28 KiB stay near until the sink has read them */
#define HEAP_ANCHORS 64
#define HEAP_NO_THREAD UINT32_MAX
/* So many threads are told apart; those that come later share one row, which is the last one. */
#define HEAP_THREADS_MAX 65536u

/* ---- clock: continuous, monotone mapping between moments at which both clocks were read ------------------------- */

struct heap_anchor {
	uint64_t cycles, ns; /* ns since CLOCK_MONOTONIC's zero */
	double slope;        /* ns per cycle up to the next anchor */
};
struct heap_clock {
	struct heap_anchor anchors[HEAP_ANCHORS]; /* circular, ascending */
	uint32_t first, count;
	uint64_t start_ns;
};

uint64_t heap_cycles(void);
void heap_clock_init(struct heap_clock *clock, uint64_t start_cycles, uint64_t start_ns);
/**
 * heap_clock_add() - a later moment; one that does not advance both clocks is ignored. Where the counter has jumped back what is
 * known of it is forgotten, but for its rate.
 */
void heap_clock_add(struct heap_clock *clock, uint64_t cycles, uint64_t ns);
/** heap_clock_sample() - read both clocks, unless the last reading is younger than half a millisecond. */
void heap_clock_sample(struct heap_clock *clock);
/** heap_clock_ns() - nanoseconds since start of a full cycle count; 0 for what lies before it. */
uint64_t heap_clock_ns(const struct heap_clock *clock, uint64_t cycles);
/** heap_clock_full() - the cycle count whose low 56 bits are @low and that lies nearest to the last anchor. */
uint64_t heap_clock_full(const struct heap_clock *clock, uint64_t low);

/* ---- rings ------------------------------------------------------------------------------------------------------- */

enum heap_wait { HEAP_WAIT_NO = 0, HEAP_WAIT_LIVE, HEAP_WAIT_DEAD };

/*
 * Records are looked at some time before their turn. What those will need whose blocks are not near (live.h) is fetched for
 * a group at a time: first the buckets, a group later the rows.
 */
#define HEAP_LOOK_BYTES 576 /* some 50 records */
#define HEAP_LOOK_GROUP 16
#define HEAP_FAR 64
struct heap_look {
	uint64_t pos;    /* where the next record stands that was not looked at */
	uint32_t looked; /* records */
	uint32_t found;  /* those of them whose blocks are not near */
};
/* Nothing is gained by looking ahead while the table has no more buckets than these. */
#define HEAP_AHEAD_FROM 8192

#define HEAP_BEATS 4096 /* seven seconds of them */

struct heap_ring {
	const char *base; /* in the mapped file; raw: a window that is refilled */
	uint64_t mask;
	uint64_t tail, head;
	uint64_t safe;   /* records that begin before it may be taken, see refresh_heads() */
	uint64_t now_ns; /* what follows happened at or after it */
	bool exact;      /* what follows at once happened then */
	uint32_t thread; /* index into threads, HEAP_NO_THREAD before the first WIRE_THREAD */
	bool closed, active;
	uint64_t last_order;  /* of its thread's last allocation */
	uint8_t wait;         /* enum heap_wait: the next record contradicts the books */
	bool wait_ahead;      /* what it waits for stands in another ring that waits, too */
	bool realloc_pending; /* BEGIN was read, END or FAIL not yet */
	bool realloc_freed; /* its old block is free: it is known to move, or somebody else got the address */
	bool remapped; /* the last region record was WIRE_REMAP: the next one is its WIRE_MAP */
	uint64_t realloc_old;
	uint32_t realloc_aux;
	uint64_t counted; /* closed: up to here what it holds has been counted as lost */
	uint64_t wait_addr;
	uint64_t
		wait_until_ns; /* the waiting record happened before this; UINT64_MAX: not known yet */
	uint64_t wait_epoch;  /* of the reading of heads in which it began to wait */
	uint64_t crowd_until; /* records before it wait for nothing: their stamps are too coarse */
	uint64_t raw_off;     /* raw: where the ring lies in the file, and how far it was written */
	uint64_t raw_head;
	struct wire_heap_slot *slot;
	struct wire_lost_count lost[WIRE_LOST_MAX]; /* already reported */
	uint64_t placed_frees;                      /* lost ones whose place in the ring was read */
	size_t there;                               /* heap_make_room() */
	struct heap_look look;
	uint32_t far_buckets, far_rows; /* of those found: fetched */
	uint64_t far[HEAP_FAR];         /* their addresses, up to far_buckets their tags */
};

struct heap_thread {
	uint32_t tid; /* 0: the row that later threads share */
	bool ended;
	bool told;           /* its name comes with its events */
	uint64_t last_order; /* as it left its ring; between the two it may have been in no ring */
	uint64_t start_ns, end_ns, check_ns;
	char name[32];
};

/*
 * Frees that came too early or too late. Within a stamp's precision two threads may pass one address back and forth; then
 * the free of the second block at an address can be taken for that of the first, and the first one's free finds nothing:
 * it is owed to the next allocation of the address, which takes it at once (debt). Likewise an allocation may find its
 * predecessor alive although everything was read: the predecessor is freed, and the next free of that address is not
 * another one (credit). The counts stay exact, the two blocks' lifetimes are exact to the stamps. A debt that nobody
 * claims is a free of a foreign block after all, such a credit a lost free.
 */
#define HEAP_RECENT 65536 /* half a megabyte: what busy threads free within a second */
#define HEAP_DEBTS 16384  /* named by 16 bits */
#define HEAP_DEBT_CHAINS 4096
#define HEAP_DEBT_NS 1000000000u /* a thread may lose its processor for long between two records */
struct heap_recent {
	uint32_t addr; /* enough of it, see heap_recent_addr(); 0 = none */
	uint32_t time; /* in units of 2^20 ns */
};
struct heap_debt {
	uint64_t addr, ns;
	uint32_t thread, aux_stack;
	uint16_t next; /* of the same chain: its index + 1; 0 = the last one */
	bool credit;
};

struct heap_module {
	uint64_t lo, hi, bias;
	uint32_t index; /* in the shared table */
	uint32_t id;
};

struct heap_frame_slot {
	uint64_t offset;
	uint32_t module, id; /* id 0 = empty */
};

/* What a return address was found to be, while no module is added. */
#define HEAP_PCS 32768
struct heap_pc {
	uint64_t pc;
	uint32_t gen, frame; /* frame 0 = empty */
};

/* In search of what ends a wait: so far at a time, so many times what was read, and not more than that saved up. */
#define LOOK_AHEAD_BYTES (1u << 20)
#define LOOK_AHEAD_SHARE 16u
#define LOOK_AHEAD_MOST (64u << 20)

/* A node on the way to what is known. */
struct heap_step {
	uint32_t number;
	struct wire_node node;
};

/* The stack that was the first to go on from another one, and by which frame; 0 = none has. Most stacks are such first ones. */
struct heap_branch {
	uint32_t first, first_frame;
};

/* Which other one goes on from @parent by @frame; open addressing, stack 0 = free. */
struct heap_known {
	uint32_t parent, frame, stack;
};

struct source_heap {
	int fd;
	char *base;          /* mapped; raw: a private copy of everything before the rings */
	uint64_t base_bytes; /* mapped or allocated */
	struct wire_heap_header layout; /* private copy of the constant part, validated once */
	struct wire_heap_header *header;
	bool raw;

	struct heap_ring *rings;
	uint32_t *active; /* numbers of rings that ever held data */
	uint32_t active_count;
	uint64_t epoch;         /* readings of all heads */
	bool news;              /* the last one found something */
	bool sealed;            /* the recording ends: no head is read any more */
	uint32_t realloc_count; /* rings with a realloc that is under way */
	uint64_t look_left;     /* bytes that may be searched for the ends of waits */
	uint64_t crowd_waits,
		crowd_events; /* waits and events at the last look at their relation */

	struct live live;
	struct heap_recent *recent; /* addresses freed lately, while there are several rings */
	struct heap_debt *debts;    /* HEAP_DEBTS */
	uint16_t debt_chains[HEAP_DEBT_CHAINS];
	uint32_t debt_count, credit_count; /* entries; those of them that are credits */
	struct heap_clock clock;
	uint64_t last_ns; /* of the latest event: times never decrease */
	uint64_t told_ns; /* the time that the latest event was given */
	uint64_t told_keep_ns,
		told_mask; /* for so long others have the same; its digits that are told */
	uint64_t limit_ns; /* no event can be later than this (now) */

	uint32_t *node_stack; /* node -> stack, 0 = not defined yet; @node_cap of them */
	uint32_t node_cap;
	uint32_t
		copied; /* nodes before this one stand in @copies (heap_nodes.c); 0: none needs to */
	struct wire_node *copies; /* room for @copy_cap */
	uint32_t copy_cap;
	uint32_t
		hole_until; /* nodes before this one had numbers at @hole_ns, when one was not written */
	uint64_t hole_ns;
	bool borrowed; /* the copies are those of the books that this is a snapshot of */
	struct heap_branch *branches; /* by stack */
	uint32_t branch_count;
	struct heap_known *known; /* the stacks that are nobody's first */
	uint32_t known_mask, known_count;
	size_t nodes_there, index_there; /* heap_make_room() */
	struct heap_step *path;          /* scratch of heap_define_stack() */
	uint32_t path_cap;
	uint32_t stack_count, frame_count;
	struct heap_frame_slot *frames;
	uint32_t frame_mask;
	struct heap_pc *pcs;
	struct jitmap *jit;  /* names of code that lies in no module; NULL before the first of it */
	uint32_t jit_module; /* the one that such frames are given; 0: not defined yet */
	struct heap_module *modules;
	uint32_t module_count;
	uint32_t module_last;    /* the last hit */
	uint64_t own_lo, own_hi; /* of the library itself, which is never unloaded */

	struct heap_thread *threads;
	uint32_t thread_count, thread_max;
	uint32_t *living; /* threads whose end was not seen when their names were last looked at */
	uint32_t living_count;
	uint32_t *thread_index; /* tid -> thread + 1, open addressing */
	uint32_t thread_mask;
	pid_t pid;

	struct wire_lost_count lost[WIRE_LOST_MAX]; /* of the header, already reported */
	uint64_t lost_frees_left; /* lost frees that no reuse of an address has explained yet */
	uint64_t
		risk_order; /* of the last block that was there when a free was lost; 0 = none was */

	struct heap_inherited *
		inherited; /* NULL: not the child of a fork, or its parent's blocks are not known */
	int (*fork)(void *ctx, uint64_t number);
	void *fork_ctx;

	struct event *batch;
	uint32_t batched;
	struct heap_ring *stretch; /* events from @stretch_from on are all under its last stamp */
	uint32_t stretch_from;
	/* when the last ticks came: written by the thread that beats, read by the one that drains */
	uint64_t beats, beat_ns[HEAP_BEATS];
	uint64_t worst_ns; /* how far the time of an event may be off, at most */
	struct sink *sink; /* during a call */
	struct err *err;
	struct source_heap_stats stats;
};

/* How many bytes a record has; a word of what is none. */
extern const uint8_t heap_record_bytes[256];

static inline uint64_t heap_word_at(const struct heap_ring *ring, uint64_t pos)
{
	return __atomic_load_n((const uint64_t *)(ring->base + (pos & ring->mask)),
			       __ATOMIC_RELAXED);
}

enum heap_run {
	HEAP_RUN_EMPTY,
	HEAP_RUN_YIELD,
	HEAP_RUN_WAIT,
	HEAP_RUN_BAD,   /* a rule was broken */
	HEAP_RUN_FAILED /* the sink's failure, heap->err is filled */
};

/** heap_merge() - read all heads, take what is there. Return: thousandths of the fullest ring, or negative errno. */
ssize_t heap_merge(struct source_heap *heap, bool final);
/**
 * heap_run_ring() - take records of one ring until it is empty, its stamp passes @limit_ns, or one contradicts the books.
 * @resolve: the first record has waited long enough; take it as it is.
 */
enum heap_run heap_run_ring(struct source_heap *heap, struct heap_ring *ring, uint64_t limit_ns,
			    bool resolve);
/** heap_free_by_realloc() - another thread's realloc of @addr is under way and has released it: take its free now. True if there was one. */
bool heap_free_by_realloc(struct source_heap *heap, uint64_t addr);
/** heap_report_lost() - losses that the producer of @ring (NULL: all, and those without a slot) counted since last time. */
int heap_report_lost(struct source_heap *heap, struct heap_ring *ring);
/**
 * heap_place_lost() - frees were lost here that were reported before: counters run ahead of what is read, and a block that
 * was allocated between the two may have been released by one of them.
 */
int heap_place_lost(struct source_heap *heap, struct heap_ring *ring);
/** heap_report_closed() - what was written to closed rings since they were closed: lost. */
int heap_report_closed(struct source_heap *heap);
/**
 * heap_settle() - no more events come from the ring in hand under its last stamp; the next one is @until_ns, or later than
 * what was read (UINT64_MAX). An event that does not stand right behind its stamp may be later by what lies between that and
 * the next tick: where that is more than the bound that is told, such events get the middle of what is possible, or what is
 * likely, and the bound grows.
 */
void heap_settle(struct source_heap *heap, uint64_t until_ns);
/** heap_next_stamp() - the first stamp behind @ring's next record; UINT64_MAX if none stands near. */
uint64_t heap_next_stamp(const struct source_heap *heap, const struct heap_ring *ring);
/** heap_beat_after() - when the first tick came behind @ns; UINT64_MAX: none so far. */
uint64_t heap_beat_after(const struct source_heap *heap, uint64_t ns);
/** heap_flush() - hand the batch to the sink. */
int heap_flush(struct source_heap *heap);
/** heap_next_event() - a zeroed event at the end of the batch, flushing a full one; NULL: the sink failed. */
struct event *heap_next_event(struct source_heap *heap, const struct heap_ring *ring);

static inline void heap_end_realloc(struct source_heap *heap, struct heap_ring *ring)
{
	heap->realloc_count -= ring->realloc_pending;
	ring->realloc_pending = false;
}

/*
 * Times are not told finer than they are known: an event has the time of the last one for as long as that is within the bound, which
 * leaves room for what comes until the next stamp. Digits that mean nothing were most of the file of a program that repeats itself.
 */
#define HEAP_TOLD_STEP_NS (1u << 16)
#define HEAP_TOLD_NS (SOURCE_HEAP_BOUND_NS - 2 * HEAP_TOLD_STEP_NS)

/* The time that an event of @ns, which never decreases, is given. */
static inline uint64_t heap_told(struct source_heap *heap, uint64_t ns)
{
	if (ns - heap->told_ns >= heap->told_keep_ns)
		heap->told_ns = ns & heap->told_mask;
	return heap->told_ns;
}

static inline uint64_t heap_event_time(struct source_heap *heap, const struct heap_ring *ring)
{
	if (ring->now_ns > heap->last_ns)
		heap->last_ns = ring->now_ns;
	return heap->last_ns;
}

/* The two places of @addr: what was freed last stands in the first, and what stood there in the second. */
static inline struct heap_recent *heap_recent_pair(struct source_heap *heap, uint64_t addr)
{
	/* threads have arenas of 64 MiB, which they use in the same way: each bit has its say */
	return &heap->recent[((addr >> 4) * 0x9e3779b97f4a7c15ULL >> 40) % (HEAP_RECENT / 2) * 2];
}

/* 2 TiB of addresses without a double; a stranger's free that looks like a recent one is owed for a second. */
static inline uint32_t heap_recent_addr(uint64_t addr)
{
	return (uint32_t)(addr >> 4 << 1) | 1;
}

static inline uint32_t heap_recent_time(uint64_t ns)
{
	return (uint32_t)(ns >> 20);
}

static inline void heap_note_free(struct source_heap *heap, uint64_t addr, uint64_t ns)
{
	struct heap_recent *pair = heap_recent_pair(heap, addr);
	const struct heap_recent fresh = { heap_recent_addr(addr), heap_recent_time(ns) };
	if (pair[0].addr != fresh.addr)
		pair[1] = pair[0];
	pair[0] = fresh;
}

/** heap_debt_chain() - what @addr owes, or may: its first entry's index + 1. */
static inline uint16_t *heap_debt_chain(struct source_heap *heap, uint64_t addr)
{
	return &heap->debt_chains[(addr >> 4 ^ addr >> 14) % HEAP_DEBT_CHAINS];
}
/** heap_add_debt() - remember a free to be settled (@credit: one that was taken early); room must be there. */
void heap_add_debt(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
		   uint32_t aux_stack, bool credit);
/** heap_take_debt() - settle the oldest debt (or credit) of @addr; false: there is none. */
bool heap_take_debt(struct source_heap *heap, uint64_t addr, bool credit, struct heap_debt *debt);
/** heap_pay_debt() - a new block lives at @addr: if it owes a free, take it. */
enum heap_run heap_pay_debt(struct source_heap *heap, uint64_t addr);
/** heap_free_of_dead() - a free that waited in vain: a debt, where the address was freed lately, else foreign. */
enum heap_run heap_free_of_dead(struct source_heap *heap, struct heap_ring *ring, uint64_t addr,
				uint32_t aux_stack);
/** heap_free_out_of_turn() - end the block at @addr, if there is one, with an EVENT_FREE by @thread. */
enum heap_run heap_free_out_of_turn(struct source_heap *heap, uint64_t addr, uint32_t thread,
				    uint32_t aux_stack, uint8_t flags);
/** heap_report_disorder() - a free that must have been, and was not seen. */
enum heap_run heap_report_disorder(struct source_heap *heap);
/** heap_expire_debts() - what nobody claimed in its time (@all: any more) is what it looked like at first. */
int heap_expire_debts(struct source_heap *heap, bool all);

/** heap_raw_init() - check heap->layout and set up everything but the windows. */
int heap_raw_init(struct source_heap *heap, uint64_t file_bytes, struct err *err);
/** heap_raw_fill() - raw: fetch the next stretch of a ring into its window; *@head = how far it goes now. */
int heap_raw_fill(struct source_heap *heap, struct heap_ring *ring, uint64_t *head);

/**
 * heap_raw_safe() - raw: up to where records begin that stand in the window whole, and do not end it: an empty window is that of
 * a ring from which nothing comes any more, and others would pass it by.
 */
static inline uint64_t heap_raw_safe(const struct heap_ring *ring)
{
	const uint64_t cut = WIRE_RECORD_WORDS_MAX * 8;
	if (ring->head == ring->raw_head)
		return ring->head;
	return ring->head - ring->tail > cut ? ring->head - cut : ring->tail;
}

/**
 * heap_take_nodes() - copy what the shared table will need the room of. Before anything that the rings held at their last
 * reading is translated. Return: 0, or negative errno.
 */
int heap_take_nodes(struct source_heap *heap);
/**
 * heap_make_room() - let the kernel find the pages of the shared file that the program will come to next: those of its rings, nodes
 * and their index. The first touch of a page that is not there costs a thread of the program 7 microseconds.
 */
void heap_make_room(struct source_heap *heap);
/** heap_node_at() - a node's content, copied or not; pc 0: there is none. Unchecked: it is the target's. */
struct wire_node heap_node_at(const struct source_heap *heap, uint32_t node);
/** heap_known_stack() - the stack that goes on from @parent (one that is known, or 0) by @frame; 0: there is none. */
uint32_t heap_known_stack(const struct source_heap *heap, uint32_t parent, uint32_t frame);
/** heap_know_stack() - it is @stack, which is new. Return: 0, or -ENOMEM. */
int heap_know_stack(struct source_heap *heap, uint32_t parent, uint32_t frame, uint32_t stack);
/** heap_forget_stacks() - numbers begin anew, or the end. */
void heap_forget_stacks(struct source_heap *heap);
/** heap_is_own() - an operator of the library's stands for the one that it calls: without us there would be one frame less. */
static inline bool heap_is_own(const struct source_heap *heap, const struct wire_node *node)
{
	return node->parent && node->pc - 1 - heap->own_lo < heap->own_hi - heap->own_lo;
}
/** heap_define_frame() - the frame of @pc, defined if it is new. */
enum heap_run heap_define_frame(struct source_heap *heap, uint64_t pc, uint32_t gen, uint32_t *id);
/** heap_name_rest() - frames in code of no module that has a name by now. */
enum heap_run heap_name_rest(struct source_heap *heap);
/** heap_define_stack() - give @node a stack number and define it; EMPTY done, BAD, or FAILED. */
enum heap_run heap_define_stack(struct source_heap *heap, uint32_t node, uint32_t *stack);
/** heap_thread_of() - the thread that @tid stands for now, defined if it is new; bounded by HEAP_THREADS_MAX. */
enum heap_run heap_thread_of(struct source_heap *heap, uint32_t tid, uint64_t now_ns,
			     uint32_t *thread);
/** heap_switch_thread() - from here on @ring is written by @tid. */
enum heap_run heap_switch_thread(struct source_heap *heap, struct heap_ring *ring, uint32_t tid);
/** heap_name_thread() - from here on it is called so, @name having 16 bytes; what came before is handed on first. */
enum heap_run heap_name_thread(struct source_heap *heap, uint32_t thread, const char *name);
/** heap_rename_threads() - define threads again whose name has changed; each is looked at ever more rarely. */
int heap_rename_threads(struct source_heap *heap, uint64_t now_ns, bool all);
/** heap_fork_fini() - release what was inherited. */
void heap_fork_fini(struct source_heap *heap);
/** heap_defs_restart() - forget all numbers but those of threads, which are defined to heap->sink again. */
int heap_defs_restart(struct source_heap *heap);
int heap_defs_init(struct source_heap *heap, struct err *err);
void heap_defs_fini(struct source_heap *heap);

#endif
