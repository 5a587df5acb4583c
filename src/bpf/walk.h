/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * walk.h - the repetition around unwind/step.h for programs in the kernel: where recipes and stack
 * words come from.
 *
 * What the verifier wants, measured: all walk state in map memory (it sees unknown values there, so
 * iterations look alike and are verified once), every index masked as a 64-bit number, a search
 * without branches on data. The user's stack is read in blocks up to the end of a page: a copy that
 * touches an unmapped page fails as a whole.
 */
#ifndef BPF_WALK_H
#define BPF_WALK_H

#include "bpf/kernel.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "wire/heap.h"
#include "wire/stack.h"

#define WALK_BLOCK_BYTES 4096
#define WALK_PAGE 4096u
#define WALK_PUSHED_BYTES 48u /* six registers */
#define WALK_ELSEWHERE_MAX 8  /* garbage could lead in circles */
#define WALK_RETURNS_MAX 64   /* the kernel's MAX_URETPROBE_DEPTH */

/** What one walk needs; the value of a per-CPU map. */
struct walk {
	/* thread that is using it + 1; 0 = nobody */
	uint64_t busy;
	uint64_t ip, sp, bp, bx;
	/* the process's places */
	uint32_t first, count;
	/* the one that served last, and the one before */
	uint32_t place, other;
	uint32_t frames;
	uint32_t guessed, reads, failed, missed;
	/* frame pointers followed to another stack */
	uint32_t elsewhere;
	int32_t stop;
	/* generation << 47 */
	uint64_t tag;
	/* of the frames so far */
	uint64_t hash;
	/* what a frame pointer names: kept here, since BPF's stack is small */
	uint64_t there, next;
	struct wire_stack out;
	/*
	 * Copies of stack memory, one of an even page and one of an odd page: a frame across two
	 * pages needs both, by turns. Of each, words from at to at + last can be read; nothing yet:
	 * 0 and 0, as nothing is at 0. A byte stands at its address modulo two pages, so a word is
	 * loaded without waiting for where its copy begins.
	 */
	uint64_t at[2], last[2];
	/* the verifier lets a copy end behind them */
	uint8_t bytes[2 * WALK_PAGE + WALK_BLOCK_BYTES];
};

/* Sizes are settled between open and load, masks with them. */
const volatile uint64_t walk_words_mask = 0;
const volatile uint32_t walk_use_cache = 1;
const volatile uint32_t walk_block_bytes = WALK_BLOCK_BYTES;
const volatile uint32_t walk_frames_max = WIRE_STACK_FRAMES_MAX;

struct walk_words {
	/* as long as the map's value */
	uint32_t v[2];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__uint(key_size, sizeof(uint32_t));
	/* the loader's to settle */
	__uint(value_size, sizeof(struct walk_words));
} walk_words SEC(".maps");

struct walk_places {
	struct wire_stack_place v[WIRE_STACK_PLACES_MAX];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct walk_places);
} walk_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, WIRE_STACK_PROCESSES_MAX);
	__type(key, uint32_t);
	__type(value, struct wire_stack_process);
} walk_processes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WIRE_STACK_SLOTS);
	__type(key, uint32_t);
	__type(value, struct walk);
} walk_scratch SEC(".maps");

/*
 * An ordinary array indexed by CPU and slot: per-CPU values over 32 KiB are refused. Sized by the
 * loader.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct wire_stack_rules);
} walk_rules SEC(".maps");

struct walk_counters {
	uint64_t v[WIRE_STACK_COUNTERS];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, uint32_t);
	__type(value, struct walk_counters);
} walk_counters SEC(".maps");

/*
 * Functions that are not static are verified once, whatever is known where they are called; in
 * return they know nothing of their caller, and look their maps up themselves.
 */
#define WALK_APART __attribute__((noinline))

/* Travels on the BPF stack: pointers to map memory only. */
struct walk_tools {
	struct walk *w;
	const struct walk_words *words;
	const struct wire_stack_place *places;
	struct wire_stack_rule *rules;
};

static UNWIND_INLINE uint64_t walk_page(uint64_t addr)
{
	return addr / WALK_PAGE & 1;
}

WALK_APART int walk_fill(struct walk *w, uint64_t addr)
{
	uint64_t at = addr, bytes = 8, page = walk_page(addr);

	if (!w)
		return 1;
	w->reads++;
	w->at[page] = 0;
	w->last[page] = 0;
	/*
	 * A word across two pages comes alone; else from the frame's own stack pointer on if that
	 * is in this page, else with what the function pushed: the return address is loaded first,
	 * and rbp was saved right below it.
	 */
	if ((addr & (WALK_PAGE - 1)) <= WALK_PAGE - 8) {
		if (w->sp < addr && !((w->sp ^ addr) & ~(uint64_t)(WALK_PAGE - 1)) &&
		    addr - w->sp < walk_block_bytes - 8)
			at = w->sp;
		else if ((addr & (WALK_PAGE - 1)) >= WALK_PUSHED_BYTES &&
			 walk_block_bytes >= 2 * WALK_PUSHED_BYTES)
			at = addr - WALK_PUSHED_BYTES;
		bytes = WALK_PAGE - (at & (WALK_PAGE - 1));
		if (bytes > walk_block_bytes)
			bytes = walk_block_bytes;
	} else {
		/* and ends where the other page's copy begins */
		w->at[!page] = 0;
		w->last[!page] = 0;
	}
	if (bytes < 8 || bytes > WALK_BLOCK_BYTES)
		return 1;
	if (bpf_probe_read_user(w->bytes + (at & (2 * WALK_PAGE - 1)), bytes, (void *)at)) {
		w->failed++;
		return 1;
	}
	w->at[page] = at;
	w->last[page] = bytes - 8;
	return 0;
}

static UNWIND_INLINE int walk_load(void *ctx, uint64_t addr, uint64_t *out);
#define UNWIND_LOAD(ctx, addr, out) walk_load((ctx), (addr), (out))
#include "unwind/call_x86_64.h"
#include "unwind/step.h"

static UNWIND_INLINE int walk_load(void *ctx, uint64_t addr, uint64_t *out)
{
	struct walk *w = ctx;
	uint64_t page = walk_page(addr);

	if (addr - w->at[page] > w->last[page] && walk_fill(w, addr))
		return 1;
	*out = *(uint64_t *)(w->bytes + (addr & (2 * WALK_PAGE - 1)));
	return 0;
}

/* A table is where its three arrays start in words. */
struct walk_table {
	const struct walk_words *words;
	/* a copy, so that it is loaded once */
	uint64_t mask;
	uint32_t idx, row, rule;
};
#define WALK_U32(t, i) ((t).words->v[(uint64_t)(uint32_t)(i) & (t).mask])
#define UNWIND_TABLE struct walk_table
#define UNWIND_IDX(t, i) WALK_U32(t, (t).idx + (uint32_t)(i))
#define UNWIND_ROW(t, i) WALK_U32(t, (t).row + (uint32_t)(i))
/* recipes start at a multiple of 8 bytes: both halves in one load */
#define UNWIND_RULE(t, i)        \
	(*(const uint64_t *)&(t) \
		  .words->v[(uint64_t)((t).rule + 2 * (uint32_t)(i)) & (t).mask & ~1ULL])
#include "unwind/table.h"

/* Beside the wire's kinds, in the walk only. */
#define WALK_NOT_CODE 10
#define WALK_CODE 11

#define WALK_PLACE(places, i) (&(places)[(uint64_t)(uint32_t)(i) & (WIRE_STACK_PLACES_MAX - 1)])
/* One of two halves of [lo, lo + n) holds the first place past @pc. */
#define WALK_PLACES_HALVE(places, lo, n, pc)                                                       \
	do {                                                                                       \
		uint32_t half = ((n) + 1) >> 1;                                                    \
		uint64_t at = (uint64_t)(uint32_t)((lo) + half - 1) & (WIRE_STACK_PLACES_MAX - 1); \
		int64_t d = (int64_t)(places)[at].lo - (int64_t)((pc) + 1);                        \
		(lo) += half & (uint32_t)(d >> 63);                                                \
		(n) -= half;                                                                       \
	} while (0)

/* The process's executable mapping that holds @pc; NULL = none. */
static UNWIND_INLINE const struct wire_stack_place *
walk_place(struct walk *w, const struct wire_stack_place *places, uint64_t pc)
{
	uint32_t at = w->place, lo = w->first, n = w->count;
	const struct wire_stack_place *p = WALK_PLACE(places, at);

	if (pc < p->lo || pc >= p->hi) {
		/* calls go to and fro between two modules */
		at = w->other;
		p = WALK_PLACE(places, at);
		if (pc < p->lo || pc >= p->hi) {
			/* five halvings empty 31 places, which is what most processes have */
			if (n > 31)
				for (int i = 5; i < WIRE_STACK_PLACE_PROBES; i++)
					WALK_PLACES_HALVE(places, lo, n, pc);
			for (int i = 0; i < 5; i++)
				WALK_PLACES_HALVE(places, lo, n, pc);
			at = lo - 1;
			p = WALK_PLACE(places, at);
			if (lo == w->first || pc >= p->hi)
				return 0;
		}
		w->other = w->place;
		w->place = at;
	}
	return WALK_PLACE(places, w->place);
}

/* The same, of what is not on the short way: looked through once. */
WALK_APART int walk_is_place(struct walk *w, uint64_t pc)
{
	uint32_t zero = 0;
	const struct wire_stack_place *places = bpf_map_lookup_elem(&walk_places, &zero);
	return w && places && walk_place(w, places, pc) ? 1 : 0;
}

static UNWIND_INLINE uint64_t walk_lookup(const struct walk_tools *t, uint64_t ip)
{
	const struct wire_stack_place *p = walk_place(t->w, t->places, ip - 1);
	struct walk_table table;
	uint64_t off;

	if (!p)
		return WALK_NOT_CODE;
	off = ip - 1 - p->text_lo;
	if (off >= p->text_bytes)
		return p->text_bytes ? WIRE_RULE_GAP : WALK_CODE;
	table.words = t->words;
	table.mask = walk_words_mask;
	table.idx = p->idx;
	table.row = p->row;
	table.rule = p->rule * 2;
	return unwind_table_lookup(table, off);
}

WALK_APART uint64_t walk_find_rule(struct walk *w, uint64_t ip)
{
	uint32_t zero = 0;
	const struct walk_tools t = {
		.w = w,
		.words = bpf_map_lookup_elem(&walk_words, &zero),
		.places = bpf_map_lookup_elem(&walk_places, &zero),
	};

	return w && t.words && t.places ? walk_lookup(&t, ip) : WALK_NOT_CODE;
}

/* The recipe of @ip, remembered or out of the tables. */
static UNWIND_INLINE uint64_t walk_rule(struct walk_tools *t, uint64_t ip)
{
	struct walk *w = t->w;
	struct wire_stack_rule *kept;
	uint64_t tag = ip | w->tag;

	kept = &t->rules[(ip * 0x9e3779b97f4a7c15ULL) >> (64 - WIRE_STACK_CACHE_BITS)];
	if (kept->tag != tag) {
		w->missed++;
		kept->rule = walk_find_rule(w, ip);
		kept->tag = tag;
	}
	return kept->rule;
}

static UNWIND_INLINE uint64_t walk_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * 0xff51afd7ed558ccdULL;
	return hash ^ hash >> 32;
}

/* Note a frame. Return 0 where there is no room for it. */
static UNWIND_INLINE int walk_note(struct walk *w, uint64_t ip)
{
	uint32_t n = w->frames;

	if (n >= walk_frames_max || n >= WIRE_STACK_FRAMES_MAX) {
		w->stop = WIRE_STOP_TOO_DEEP;
		return 0;
	}
	w->out.frame[(uint64_t)n & (WIRE_STACK_FRAMES_MAX - 1)] = ip;
	w->frames = n + 1;
	w->hash = walk_mix(w->hash, ip);
	return 1;
}

/* The caller is known, or why there is none. Return 1 where the walk ends. */
static UNWIND_INLINE int walk_to(struct walk *w, const struct unwind_frame *f, int stop)
{
	if (stop == UNWIND_GO_ON && !f->ip)
		stop = WIRE_STOP_END;
	if (stop != UNWIND_GO_ON) {
		w->stop = stop;
		return 1;
	}
	w->ip = f->ip;
	w->sp = f->sp;
	w->bp = f->bp;
	w->bx = f->bx;
	return 0;
}

WALK_APART int walk_is_behind_call(uint64_t ip)
{
	uint64_t code = 0;

	return ip >= 8 && !(ip >> 47) &&
	       !bpf_probe_read_user(&code, sizeof(code), (void *)(ip - 8)) &&
	       unwind_follows_call(code);
}

/*
 * A function without recipes that calls nobody often makes no frame either, then rbp is its
 * caller's or anything: where it returns to stands at the stack pointer. That is believed where it
 * leads to code behind a call. Return 1: @f is the caller.
 */
static UNWIND_INLINE int walk_leaf(struct walk *w, struct unwind_frame *f)
{
	uint64_t word = 0;

	if (w->frames != 1 || walk_load(w, f->sp, &word) || word >> 47 ||
	    !walk_is_place(w, word - 1) || !walk_is_behind_call(word))
		return 0;
	f->ip = word;
	f->sp += 8;
	return 1;
}

/*
 * The frame pointer does not lead up this stack: a runtime that went to another one keeps it (Go,
 * which calls C on the thread's stack). What it names has to be a frame: a return address behind a
 * call. Return as unwind_guess(), @w is the caller's then.
 */
WALK_APART int walk_elsewhere(struct walk *w)
{
	if (!w || w->bp & 7 || w->bp < 4096 || w->bp >> 47 || w->elsewhere >= WALK_ELSEWHERE_MAX ||
	    (w->bp < w->sp && w->sp - w->bp <= UNWIND_GUESS_MAX))
		return WIRE_STOP_GAP;
	w->elsewhere++;
	if (walk_load(w, w->bp + 8, &w->there) || walk_load(w, w->bp, &w->next) ||
	    w->there < 4096 || w->there >> 47 || !walk_is_behind_call(w->there))
		return WIRE_STOP_GAP;
	if (!walk_is_place(w, w->there - 1))
		return WIRE_STOP_GAP;
	w->guessed++;
	w->ip = w->there;
	w->sp = w->bp + 16;
	w->bp = w->next;
	w->bx = 0;
	return UNWIND_GO_ON;
}

/*
 * Whoever probes the return of a function, be it another tool, makes it return to a page of the
 * kernel's. Of a call that was handed on by a jump, or that is not the innermost, that page is what
 * stands on the stack; where it really returns to is in the kernel's list, by the place on the
 * stack. Return 0 where nobody does that.
 */
WALK_APART uint64_t walk_real_return(uint64_t slot)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	struct return_instance *ri = 0;

	if (!bpf_core_field_exists(task->utask))
		return 0;
	struct uprobe_task *utask = BPF_CORE_READ(task, utask);
	if (utask)
		ri = BPF_CORE_READ(utask, return_instances);
	for (int i = 0; ri && i < WALK_RETURNS_MAX; i++) {
		if (BPF_CORE_READ(ri, stack) == slot)
			return BPF_CORE_READ(ri, orig_ret_vaddr);
		ri = BPF_CORE_READ(ri, next);
	}
	return 0;
}

/* One frame with a recipe other than the common one. */
WALK_APART int walk_odd(struct walk *w, uint64_t rule)
{
	uint32_t kind = unwind_rule_kind(rule);
	int stop;

	if (!w)
		return 1;
	struct unwind_frame f = { w->ip, w->sp, w->bp, w->bx };
	if (w->frames && !(f.ip & (WALK_PAGE - 1)) &&
	    (kind == WALK_NOT_CODE || kind == WALK_CODE)) {
		uint64_t real = walk_real_return(f.sp - 8);
		if (real) {
			w->ip = real;
			return 0;
		}
	}
	/*
	 * what a runtime makes may be new, or writable and not executable for a moment; and of a
	 * library that is just being loaded nothing is known yet
	 */
	if (kind == WALK_NOT_CODE && w->frames && walk_is_behind_call(f.ip))
		kind = WALK_CODE;
	if (kind == WALK_NOT_CODE) {
		/* not a frame: the walk ended before it, or the recipe knew of no other stack */
		if (w->frames && walk_elsewhere(w) == UNWIND_GO_ON)
			return 0;
		w->stop = WIRE_STOP_NO_MODULE;
		return 1;
	}
	if (!walk_note(w, f.ip))
		return 1;
	if (kind == WIRE_RULE_GAP || kind == WALK_CODE) {
		stop = walk_leaf(w, &f) ? UNWIND_GO_ON : unwind_guess(w, &f);
		if (stop == WIRE_STOP_GAP && walk_elsewhere(w) == UNWIND_GO_ON)
			return 0;
		/* a guess has to lead to code */
		if (stop == UNWIND_GO_ON && f.ip && !walk_is_place(w, f.ip - 1) &&
		    !walk_is_behind_call(f.ip) &&
		    ((f.ip & (WALK_PAGE - 1)) || !walk_real_return(f.sp - 8)))
			stop = WIRE_STOP_GAP;
		if (stop == UNWIND_GO_ON)
			w->guessed++;
		else if (stop != WIRE_STOP_END && kind == WALK_CODE)
			stop = WIRE_STOP_NO_MODULE;
	} else {
		stop = unwind_step(w, &f, rule);
	}
	return walk_to(w, &f, stop);
}

/* One frame: note it, go to its caller. Return 1 where the walk ends (w->stop says why). */
static UNWIND_INLINE int walk_frame(struct walk *w, uint64_t rule)
{
	if (unwind_rule_kind(rule) != WIRE_RULE_SP)
		return walk_odd(w, rule);

	struct unwind_frame f = { w->ip, w->sp, w->bp, w->bx };
	uint64_t cfa = f.sp + (uint64_t)unwind_rule_cfa(rule);
	if (!walk_note(w, f.ip))
		return 1;
	return walk_to(w, &f, unwind_leave(w, &f, rule, cfa, cfa));
}

/*
 * Some frames at a time: where the kernel guards its returns against speculation, each costs as
 * much as a third of a frame.
 */
static long walk_frames(uint32_t i, struct walk_tools *t)
{
	struct walk *w = t->w;

	(void)i;
	for (int k = 0; k < 4; k++) {
		if (walk_frame(w, w->ip >> 47 ? WALK_NOT_CODE : walk_rule(t, w->ip)))
			return 1;
	}
	return 0;
}

/* The same with nothing remembered. Apart: together they need more registers than there are. */
static long walk_frames_by_tables(uint32_t i, struct walk_tools *t)
{
	struct walk *w = t->w;

	(void)i;
	for (int k = 0; k < 2; k++) {
		w->missed++;
		if (walk_frame(w, w->ip >> 47 ? WALK_NOT_CODE : walk_lookup(t, w->ip)))
			return 1;
	}
	return 0;
}

static UNWIND_INLINE void walk_count(uint32_t which, uint64_t by)
{
	uint32_t zero = 0;
	struct walk_counters *counters = bpf_map_lookup_elem(&walk_counters, &zero);
	if (counters)
		__sync_fetch_and_add(&counters->v[which & (WIRE_STACK_COUNTERS - 1)], by);
}

/*
 * A scratch slot of this CPU for thread @tid; programs can be preempted by others, and interrupted.
 */
static UNWIND_INLINE struct walk *walk_begin(uint32_t tid, uint32_t *slot)
{
	for (uint32_t i = 0; i < WIRE_STACK_SLOTS; i++) {
		uint32_t key = i;
		struct walk *w = bpf_map_lookup_elem(&walk_scratch, &key);
		if (w && __sync_val_compare_and_swap(&w->busy, 0, (uint64_t)tid + 1) == 0) {
			*slot = i;
			return w;
		}
	}
	walk_count(WIRE_STACK_BUSY, 1);
	return 0;
}

static UNWIND_INLINE void walk_end(struct walk *w)
{
	__sync_lock_test_and_set(&w->busy, 0);
}

/**
 * walk_stack() - walk from @regs (an exact place) into @w->out, which then holds everything but
 * time, arg and ids. Return 0; or -1 where the process is not tracked.
 */
static UNWIND_INLINE int walk_stack(struct walk *w, uint32_t slot, uint32_t pid, uint64_t ip,
				    uint64_t sp, uint64_t bp, uint64_t bx)
{
	uint32_t zero = 0, cpu_slot = bpf_get_smp_processor_id() * WIRE_STACK_SLOTS + slot;
	struct wire_stack_process *process = bpf_map_lookup_elem(&walk_processes, &pid);
	struct walk_tools t = {
		.w = w,
		.words = bpf_map_lookup_elem(&walk_words, &zero),
		.places = bpf_map_lookup_elem(&walk_places, &zero),
		.rules = bpf_map_lookup_elem(&walk_rules, &cpu_slot),
	};

	if (!process) {
		walk_count(WIRE_STACK_UNTRACKED, 1);
		return -1;
	}
	if (!t.words || !t.places || !t.rules)
		return -1;
	w->ip = ip + 1;
	w->sp = sp;
	w->bp = bp;
	w->bx = bx;
	w->at[0] = w->last[0] = 0;
	w->at[1] = w->last[1] = 0;
	w->first = process->first;
	w->count = process->count;
	w->place = w->other = process->first;
	w->tag = (uint64_t)process->generation << 47;
	w->hash = 0x9e3779b97f4a7c15ULL;
	w->frames = w->guessed = w->reads = w->failed = w->missed = w->elsewhere = 0;
	w->stop = WIRE_STOP_TOO_DEEP;
	if (walk_use_cache)
		bpf_loop(WIRE_STACK_FRAMES_MAX + 1, walk_frames, &t, 0);
	else
		bpf_loop(WIRE_STACK_FRAMES_MAX + 1, walk_frames_by_tables, &t, 0);
	if (w->stop == WIRE_STOP_END && w->guessed)
		w->stop = WIRE_STOP_GUESSED;
	w->out.count = (uint16_t)w->frames;
	w->out.stop = (uint8_t)w->stop;
	w->out.guessed = w->guessed > 255 ? 255 : (uint8_t)w->guessed;
	w->out.reads = (uint16_t)w->reads;
	w->out.missed = (uint16_t)w->missed;
	return 0;
}

#endif
