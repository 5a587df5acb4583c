/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_names.h - what the target numbered, in our numbers: nodes to frames and stacks, modules,
 * threads. Reads the target's tables (heap_out.h), each row once, and hands definitions to a sink.
 * In order of use: heap_names_init(); heap_take_nodes() before records are translated;
 * heap_define_stack(), heap_thread_of() and so on as records name them; heap_rename_threads() now
 * and then; heap_names_restart() where another sink begins; heap_name_rest() at the end;
 * heap_names_fini().
 */
#ifndef SOURCE_HEAP_NAMES_H
#define SOURCE_HEAP_NAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "source/heap_out.h"
#include "source/jitmap.h"

/* So many threads are told apart; those that come later share one row, which is the last one. */
#define HEAP_THREADS_MAX 65536u

struct heap_thread {
	/* 0: the row that later threads share */
	uint32_t tid;
	bool ended;
	/* its name comes with its events */
	bool told;
	/* as it left its ring; between the two it may have been in no ring */
	uint64_t last_order;
	uint64_t start_ns, end_ns, check_ns;
	char name[32];
};

struct heap_module {
	uint64_t lo, hi, bias;
	/* in the shared table */
	uint32_t index;
	uint32_t id;
};

struct heap_frame_slot {
	uint64_t offset;
	/* id 0 = empty */
	uint32_t module, id;
};

/* What a return address was found to be, while no module is added. */
#define HEAP_PCS 32768
struct heap_pc {
	uint64_t pc;
	/* frame 0 = empty */
	uint32_t gen, frame;
};

/* A node on the way to what is known. */
struct heap_step {
	uint32_t number;
	struct wire_node node;
};

/*
 * The stack that was the first to go on from another one, and by which frame; 0 = none has. Most
 * stacks are such first ones.
 */
struct heap_branch {
	uint32_t first, first_frame;
};

/* Which other one goes on from @parent by @frame; open addressing, stack 0 = free. */
struct heap_known {
	uint32_t parent, frame, stack;
};

struct heap_names {
	const struct heap_tables *tables;
	struct heap_out *out;
	/* whose /proc names the threads; 0: nobody's */
	pid_t pid;

	/* node -> stack, 0 = not defined yet; @node_cap of them */
	uint32_t *node_stack;
	uint32_t node_cap;
	/* nodes before this one stand in @copies (heap_nodes.c); 0: none needs to */
	uint32_t copied;
	/* room for @copy_cap */
	struct wire_node *copies;
	uint32_t copy_cap;
	/* nodes before it had numbers at @hole_ns, when one was not written */
	uint32_t hole_until;
	uint64_t hole_ns;
	/* the copies are those of the books that this is a snapshot of */
	bool borrowed;
	/* by stack */
	struct heap_branch *branches;
	uint32_t branch_count;
	/* the stacks that are nobody's first */
	struct heap_known *known;
	uint32_t known_mask, known_count;
	/* scratch of heap_define_stack() */
	struct heap_step *path;
	uint32_t path_cap;
	uint32_t stack_count, frame_count;
	struct heap_frame_slot *frames;
	uint32_t frame_mask;
	struct heap_pc *pcs;
	/* names of code that lies in no module; NULL before the first of it */
	struct jitmap *jit;
	/* the one that such frames are given; 0: not defined yet */
	uint32_t jit_module;

	struct heap_module *modules;
	uint32_t module_count;
	/* with what is no row of the table */
	uint32_t modules_told;
	/* the last hit */
	uint32_t module_last;
	/* of the library itself, which is never unloaded */
	uint64_t own_lo, own_hi;

	struct heap_thread *threads;
	uint32_t thread_count, thread_max;
	uint32_t threads_told;
	/* threads whose end was not seen when their names were last looked at */
	uint32_t *living;
	uint32_t living_count;
	/* tid -> thread + 1, open addressing */
	uint32_t *thread_index;
	uint32_t thread_mask;
};

/**
 * heap_names_init() - nothing is known. @tables and @out belong to the caller, and stay; node_cap,
 * copied and copies may be another one's, with @borrowed. 0 or -ENOMEM; heap_names_fini() in any
 * case.
 */
int heap_names_init(struct heap_names *names, const struct heap_tables *tables,
		    struct heap_out *out, struct err *err);
void heap_names_fini(struct heap_names *names);
/**
 * heap_names_restart() - forget all numbers but those of threads, which are defined to
 * names->out->sink again.
 */
int heap_names_restart(struct heap_names *names);
/**
 * heap_take_nodes() - copy what the shared table will need the room of. Before anything that the
 * rings held at their last reading is translated. Return: 0, or negative errno.
 */
int heap_take_nodes(struct heap_names *names);
/**
 * heap_node_at() - a node's content, copied or not; pc 0: there is none. Unchecked: it is the
 * target's.
 */
struct wire_node heap_node_at(const struct heap_names *names, uint32_t node);
/**
 * heap_known_stack() - the stack that goes on from @parent (one that is known, or 0) by @frame; 0:
 * there is none.
 */
uint32_t heap_known_stack(const struct heap_names *names, uint32_t parent, uint32_t frame);
/** heap_know_stack() - it is @stack, which is new. Return: 0, or -ENOMEM. */
int heap_know_stack(struct heap_names *names, uint32_t parent, uint32_t frame, uint32_t stack);
/** heap_forget_stacks() - numbers begin anew, or the end. */
void heap_forget_stacks(struct heap_names *names);
/**
 * heap_is_own() - an operator of the library's stands for the one that it calls: without us there
 * would be one frame less.
 */
static inline bool heap_is_own(const struct heap_names *names, const struct wire_node *node)
{
	return node->parent && node->pc - 1 - names->own_lo < names->own_hi - names->own_lo;
}
/** heap_define_frame() - the frame of @pc, defined if it is new. */
enum heap_run heap_define_frame(struct heap_names *names, uint64_t pc, uint32_t gen, uint32_t *id);
/** heap_name_rest() - frames in code of no module that has a name by now. */
enum heap_run heap_name_rest(struct heap_names *names);
/** heap_define_stack() - give @node a stack number and define it; EMPTY done, BAD, or FAILED. */
enum heap_run heap_define_stack(struct heap_names *names, uint32_t node, uint32_t *stack);
/**
 * heap_thread_of() - the thread that @tid stands for now, defined if it is new; bounded by
 * HEAP_THREADS_MAX.
 */
enum heap_run heap_thread_of(struct heap_names *names, uint32_t tid, uint64_t now_ns,
			     uint32_t *thread);
/**
 * heap_call_thread() - from here on it is called @name, which has 16 bytes. @out's events are
 * handed over before.
 */
enum heap_run heap_call_thread(struct heap_names *names, uint32_t thread, const char *name);
/** heap_is_called() - whether a thread is called so already, or has no name of its own. */
bool heap_is_called(struct heap_names *names, uint32_t thread, const char *name);
/**
 * heap_rename_threads() - define threads again whose name has changed; each is looked at ever more
 * rarely.
 */
int heap_rename_threads(struct heap_names *names, uint64_t now_ns, bool all);

#endif
