/* SPDX-License-Identifier: Apache-2.0 */
/*
 * state.h - what the library knows about the process and about the calling thread.
 *
 * One comparison guards every hook: the thread's @sync against the process's @word. They are equal exactly when the
 * process records, the thread is READY, no module went away since its last event, it is in no hook, and this is not
 * the child of a fork (the kernel wipes the page that holds @word). Everything else takes the slow path.
 */
#ifndef PRELOAD_STATE_H
#define PRELOAD_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "preload/next.h"
#include "preload/sys.h"
#include "unwind/capture.h"
#include "wire/heap.h"

/* Low byte of the process word; the upper bits are an epoch that makes threads look again. */
enum mode {
	MODE_NONE = 0,         /* not started, or the child of a fork */
	MODE_OFF = 0x20,       /* never records: AT_SECURE, no memory, detached */
	MODE_IDLE = 0x21,      /* alone and switched off so far: nothing was created yet */
	MODE_SUSPENDED = 0x22, /* frees are written, allocations are not */
	MODE_ON = 0x23,
};
#define MODE_MASK 0x7fu
#define MODE_PLAIN \
	0x80u /* the next allocator never comes back to us, and frees need no stack: no guard around it */
#define MODE_EPOCH 0x100u

/* Values of @sync that equal no process word. */
#define SYNC_UNBORN 1u /* the thread never called, or must look at the process again */
#define SYNC_NEXT 2u   /* inside a hook, in the next definition */
#define SYNC_OWN 3u    /* inside a hook, in our own code */
/* Inside a hook the upper bits say where on the stack: a handler may have jumped out of it. 0: not known. */
#define SYNC_IN(sync, sp) ((uint32_t)((sp) >> 4) << 8 | (sync))
#define SYNC_KIND(sync) ((sync)&0xffu)

enum thread_state {
	THREAD_UNBORN = 0,
	THREAD_READY, /* owns a slot */
	THREAD_DEAD,  /* has given its slot back: takes one for each event */
	THREAD_POOR,  /* found no slot: like DEAD */
};

/** What an operator new remembers for the malloc that it will call; @sp 0 = nothing. */
struct outer {
	uint64_t sp, pc, bp, bx;
	const struct code_range *code; /* of the runtime that serves it */
	size_t size;
};

struct thread {
	uint32_t sync;
	uint32_t tick; /* of the last stamp */
	uint64_t head; /* bytes ever written to the ring */
	uint64_t soft; /* up to here a record can be written without looking at anything else */
	uint64_t *
		mark; /* is own_rseq, unless the thread has lost its processor since the last stamp */
	char *ring;   /* the slot's ring; @head modulo @mask + 1 */
	uint64_t mask;
	struct wire_heap_slot *slot;
	struct unwind_thread *unwind; /* NULL: no scratch memory, or see @walker */
	struct outer outer;
	void *skip_free;         /* operator delete has written this free already */
	const void *realloc_old; /* between the two records of a realloc, see recover() */
	uint32_t outer_sync;     /* of the hook around a region hook */
	uint64_t limit;          /* the ring is full here, as of the last look at the tail */
	uint64_t stamped;        /* cycles of the last stamp in this ring, 0 = none */
	uint64_t stamped_at;     /* where that stands */
	uint32_t allowance;      /* bytes behind it that need no other one */
	uint64_t lost, lost_frees, lost_bytes; /* since the last record that went into the ring */
	uint64_t second_began_ns, second_waited_ns; /* policy limit: 10 % of any second */
	uint64_t stood_beat,
		stood_ns; /* an old heartbeat that is no evidence for a moment, and when that began */
	uint64_t stack_lo, stack_hi;
	uint32_t tid;
	uint32_t gen;        /* module_gen that @unwind knows */
	uint8_t state;       /* enum thread_state */
	uint8_t own;         /* what is called now is called by us: neither recorded nor lost */
	uint8_t rounds;      /* key destructor rounds seen */
	uint8_t stack_floor; /* nothing more to be found below @stack_lo */
	uint8_t unnamed; /* WIRE_THREAD to write before the next record: the slot had another owner */
	uint8_t switched; /* WIRE_SWITCH to write before the next record: 1 + value */
	uint32_t
		fork_word; /* the process word as this thread's fork began; 0 = its child is not followed */
	uint32_t fork_number; /* of its WIRE_FORK record; 0 = there is none */
	struct unwind_thread
		*walker;       /* NULL: no scratch memory; with sampling it stands here only */
	uint64_t name[2];      /* as last written to a ring */
	int64_t sample_left;   /* bytes that decide nothing yet */
	uint64_t sample_state; /* of the random numbers; 0 = not begun */
	uint64_t
		realloc_begin; /* where the ring's head is once the begin of @realloc_old is published, */
	uint64_t realloc_end; /* and once its end is */
	uint32_t
		inner; /* calls that are passed over since they are within the hook of another one */
	uint8_t forbidden; /* its vfork child, which runs on it, forbade itself system calls */
	struct kept_hook *fork_kept; /* of the hook that a handler forks out of, see fork.c */
};

extern __thread struct thread self __attribute__((tls_model("initial-exec"))) HIDDEN;

/* A page of its own: wiped in the child of a fork, whoever makes it (raw clone included). */
extern struct proc_page {
	_Alignas(4096) volatile uint32_t word; /* enum mode | epoch */
	char rest[4096 - sizeof(uint32_t)];
} proc HIDDEN;

enum start { START_NONE, START_BUSY, START_DONE };

extern struct process {
	struct wire_heap_header *heap; /* the shared mapping; NULL before the start */
	struct wire_heap_slot *slots;
	struct unwind_process *unwind;
	uint32_t started;  /* enum start */
	uint32_t resolved; /* next is filled */
	uint32_t seccomp;  /* no system call from now on */
	uint32_t slot_hint;
	uint32_t slot_top; /* slots that ever had an owner lie below */
	uint32_t have_key;
	uint32_t pid;
	uint32_t free_stacks;
	uint64_t sample_bytes; /* 0 = every allocation has a stack */
	int64_t rseq_offset;   /* of glibc's rseq area from the thread pointer; 0 = there is none */
	uint32_t
		closes; /* there is code that may close pages by itself: stacks are asked for at each capture */
	uint32_t alone;             /* without a byteledger parent */
	uint32_t wanted;            /* before there is a header: switched on by a call or signal */
	uint32_t follow;            /* the children of forks are recorded, too */
	const char *next, *library; /* as in struct options */
	uint32_t forks;             /* WIRE_FORK records so far */
	uint32_t forked; /* this is such a child: its first thread may run on any stack */
	uint32_t
		reaper; /* orphans become children of this process, or of one that it was forked from */
	uint32_t starter; /* 1 = reads @starter_heap while it starts the recorder of this child */
	struct wire_heap_header *starter_heap; /* the parent's book, as long as that may read it */
	uint32_t no_tsc;                       /* rdtsc faults */
	uint64_t last_cycles;
	uint32_t raw; /* the mapping is a file that nobody reads meanwhile */
	uint32_t key; /* pthread_key_t */
	uint64_t main_stack_lo, main_stack_hi;
	struct wire_lost_count
		early; /* other threads' calls during the start: there is no header yet */
} process HIDDEN;

extern const char own_rseq[] HIDDEN; /* ring.c */

/** no_calls() - whether system calls are forbidden to who is running: to the process, or to a vfork child of it. */
static inline int no_calls(void)
{
	return unlikely(process.seccomp || self.forbidden);
}

/** stamp() - the cycle counter, or its last known value where reading it would fault. */
static inline uint64_t stamp(void)
{
	return likely(!process.no_tsc) ? cycles() : process.last_cycles;
}

/* ---- start.c ---- */

/** start_once() - resolve, map, begin; by whoever comes first. Later and concurrent callers return at once. */
void start_once(void) HIDDEN;

/** start_late() - leave MODE_IDLE: create what start_once() put off. */
void start_late(void) HIDDEN;

/** own_memory_name() - name anonymous memory as the library's own; without effect where kernels do not. */
void own_memory_name(const void *at, uint64_t bytes) HIDDEN;
/** own_range_add() - enter memory as the library's own into process.heap. Return: 0 where that has no room. */
int own_range_add(const void *at, uint64_t bytes) HIDDEN;

/** start_child() - in the child of a fork, whose only thread is @t: a recording of its own. */
void start_child(struct thread *t) HIDDEN;

/* ---- thread.c ---- */

enum hook_kind { HOOK_ALLOC, HOOK_FREE, HOOK_REALLOC, HOOK_REGION };
/* Answers of hook_enter() below PASS_MAX: call the next definition and record nothing; 1 + reason: count it as lost. */
#define PASS 0u
#define PASS_LOST(reason) (1u + (reason))
#define PASS_MAX 16u
#define REGION_INNER \
	17u /* a region call within an allocator call: record, then put SYNC_NEXT back */

/**
 * hook_enter() - the slow way into a hook, for whatever the one comparison did not settle. @sp: its caller's, see hooks.h.
 * Return: below PASS_MAX (see there), else the hook may record, with self.sync == SYNC_OWN; end with hook_leave().
 */
uint32_t hook_enter(struct thread *t, enum hook_kind kind, uint64_t sp) HIDDEN;
void hook_leave(struct thread *t) HIDDEN;

/** count_lost() - one or more calls that were not recorded; async-signal-safe. */
void count_lost(struct thread *t, enum wire_lost reason, uint64_t allocations, uint64_t bytes,
		uint64_t frees) HIDDEN;
/** count_early() - hand what other threads called during the start to the recorder, once it records. */
void count_early(void) HIDDEN;

/** stack_grew() - @sp lies below the known stack: look whether it is the same one. */
void stack_grew(struct thread *t, uint64_t sp) HIDDEN;

/**
 * stacks_change() - what can be read in [@at, @at + @bytes) is about to change, or has changed. Any thread, in a hook too; a
 * glance at each thread. Return: 1 it is part of a stack that the stepper trusts.
 */
int stacks_change(uint64_t at, uint64_t bytes) HIDDEN;

/** thread_end() - the key's destructor. */
void thread_end(void *arg) HIDDEN;

/** thread_forked() - in the child of a fork: no other thread is at anything. */
void thread_forked(void) HIDDEN;

/** thread_key_give() - the program needs the last key, which is ours. Return: 1 it is free now. */
int thread_key_give(void) HIDDEN;

/* ---- sample.c ---- */

/** capture_always() - the stack, where the hot path sees no scratch memory. */
uint32_t capture_always(struct thread *t, uint64_t pc, uint64_t sp, uint64_t bp,
			uint64_t bx) HIDDEN;
/** capture_sampled() - likewise of an allocation of @size bytes: WIRE_STOP_UNSAMPLED, unless its turn has come. */
uint32_t capture_sampled(struct thread *t, uint64_t size, uint64_t pc, uint64_t sp, uint64_t bp,
			 uint64_t bx) HIDDEN;

/* ---- fork.c ---- */

/** fork_prepare(), fork_parent(), fork_child() - for pthread_atfork(). */
void fork_prepare(void) HIDDEN;
void fork_parent(void) HIDDEN;
void fork_child(void) HIDDEN;
/**
 * fork_settle() - let go of the parent's book if what starts this child's recorder has done so. Any thread, in a hook too; a
 * system call where something is to be settled.
 */
void fork_settle(void) HIDDEN;

/* ---- ring.c ---- */

/**
 * ring_room_slow() - make room for a record of @bytes (at most 24): stamp, pad at the ring's end, wait or drop.
 * @kept: the room was kept by the record before (a realloc's end): cannot fail. Return: where to write, or NULL - the
 * caller counts the loss with ring_dropped(). Only by the ring's owner.
 */
uint64_t *ring_room_slow(struct thread *t, unsigned bytes, int kept) HIDDEN;
/**
 * ring_wait_nodes() - the table of nodes is full: wait until the recorder has made room, under the rules of a full ring.
 * Return: 1 there is room, 0 the stack stays without a number.
 */
int ring_wait_nodes(struct thread *t) HIDDEN COLD;
/** ring_dropped() - count what ring_room_slow() refused. */
void ring_dropped(struct thread *t, uint64_t allocations, uint64_t bytes, uint64_t frees) HIDDEN;
/** ring_wait_drained() - until the recorder has read what stands in all rings now; at most @limit_ns. Return: 1 it has. */
int ring_wait_drained(uint64_t limit_ns) HIDDEN;
/** ring_wake() - the recorder may sleep: something is about to be written, or said otherwise. Any thread; mostly no call. */
void ring_wake(void) HIDDEN;
/**
 * ring_wait_last_block() - at the program's end, until what it wrote stands in the recorder's file: bounded by its heartbeat, and
 * some seconds. Not where it would drop on a full ring.
 */
void ring_wait_last_block(void) HIDDEN;
/** ring_attach() - continue the ring of @slot, which the thread has just taken. */
void ring_attach(struct thread *t, struct wire_heap_slot *slot) HIDDEN;

/* ---- modules.c ---- */

/** modules_init() - once, after the mapping exists. */
void modules_init(void) HIDDEN;
/** own_memory() - zeroed, named and entered as the library's own; NULL where there is none, or no room to enter it. */
void *own_memory(uint64_t bytes) HIDDEN;
/** calls_closing() - whether the code of an object, at most 2 MiB of it, has system calls of its own that may close pages of a stack. */
struct frames_object;
int calls_closing(const char *path, const struct frames_object *object,
		  const struct unwind_module *module) HIDDEN;
int module_find(void *ctx, uint64_t pc, struct unwind_module *module) HIDDEN;
int page_probe(void *ctx, uint64_t addr) HIDDEN;
/** modules_forked() - in the child: the lock is nobody's; the table was carried over to process.heap. */
void modules_forked(void) HIDDEN;
/** modules_left() - the calling thread jumped out of a hook: if it held the lock there, nobody does now. */
void modules_left(void) HIDDEN;
/** modules_closed() - after a dlclose(): if a module really went away, note which and make threads forget. */
void modules_closed(void) HIDDEN;
/** modules_unmapped() - the program released [@at, @at + @bytes): code of no object that was met there is gone. In a hook. */
void modules_unmapped(uint64_t at, uint64_t bytes) HIDDEN;

/* ---- rowless.c: code that belongs to no object ---- */

enum rowless { ROWLESS_NONE, ROWLESS_GONE, ROWLESS_THERE };
/** rowless_met() - such code was met at @pc. */
void rowless_met(uint64_t pc) HIDDEN;
/** rowless_in() - what is known of [@lo, @hi): none was met there, or all of it went away, or some is there. O(pages). */
enum rowless rowless_in(uint64_t lo, uint64_t hi) HIDDEN;
/** rowless_gone() - what was met in [@lo, @hi) is not there any more. */
void rowless_gone(uint64_t lo, uint64_t hi) HIDDEN;

/** stamp_holds() - neither has the recorder ticked nor the thread stood still since its last stamp. */
static inline int stamp_holds(const struct thread *t)
{
	return t->tick == __atomic_load_n(&process.heap->tick, __ATOMIC_RELAXED) &&
	       __atomic_load_n(t->mark, __ATOMIC_RELAXED) == (uint64_t)own_rseq;
}

/**
 * ring_room() - where a record of @bytes goes; NULL if it must be dropped. Behind it a realloc's end always fits.
 */
static inline uint64_t *ring_room(struct thread *t, unsigned bytes)
{
	barrier(); /* @sync says that this thread writes, before it does */
	if (unlikely(!stamp_holds(t) || t->head + bytes > t->soft))
		return ring_room_slow(t, bytes, 0);
	return (uint64_t *)(t->ring + (t->head & t->mask));
}

static inline void ring_publish(struct thread *t, unsigned bytes)
{
	t->head += bytes;
	__atomic_store_n(&t->slot->head, t->head, __ATOMIC_RELEASE);
	barrier();
}

#endif
