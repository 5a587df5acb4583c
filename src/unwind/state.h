/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * state.h - what capture.c, walk.c and process.c keep between calls; nobody outside of the room
 * includes it.
 */
#ifndef UNWIND_STATE_H
#define UNWIND_STATE_H

#include <stddef.h>
#include <stdint.h>

#include "unwind/capture.h"
#include "unwind/cfi.h"
#include "unwind/likely.h"
#include "unwind/nodes.h"

#define UNWIND_FRAMES_MAX 65535
#define UNWIND_BLOCKS_MAX 1024
#define UNWIND_SHARED_BITS 16

/* Recipe words in the caches only; the wire's kinds end at 9. */
enum {
	RULE_NOT_CODE = 10, /* not a frame (never cached: code may appear there) */
	RULE_CODE = 11,     /* code without recipes (JIT): guess, else WIRE_STOP_NO_MODULE */
	RULE_GUESS = 12 /* a frame that was stepped by its frame pointer; in frame records only */
};

/*
 * A recipe in the thread's cache: bits 4..15 of the word, unused otherwise, name the entry that
 * came next last time.
 */
struct cached_rule {
	uint64_t ip, rule;
};
#define NEXT_SHIFT 4
#define NEXT_MASK 0xfffu

/* Half-written entries do not match: the key is mixed with the recipe and the generation. */
struct shared_rule {
	uint64_t key, rule;
};

/* Call frame records announced by the program. */
struct frame_block {
	/* 0 = free, 1 = being filled; published last */
	const uint8_t *begin;
	const uint8_t *read_lo, *read_hi;
	uint64_t lo, hi;
};

#define EPOCH_CODE_SHIFT 16

struct unwind_process {
	struct unwind_nodes nodes;
	const uint32_t *module_gen;
	unwind_find_module_fn find;
	unwind_probe_fn probe;
	void *ctx;
	/* unwind_process_reused() */
	uint64_t reused_lo, reused_hi;
	/* of code; the lowest EPOCH_CODE_SHIFT bits: of stacks */
	_Alignas(64) uint64_t epoch;
	/* slots ever used */
	uint32_t block_count;
	_Alignas(64) uint32_t block_readers;
	_Alignas(64) struct frame_block block[UNWIND_BLOCKS_MAX];
	_Alignas(4096) struct shared_rule shared[1u << UNWIND_SHARED_BITS];
};

/*
 * One frame of the last stack, from the outermost on. While a walk is under way fresh frames wait
 * at the array's end.
 */
struct last_frame {
	uint64_t ip, sp, bp;
	/* waiting: the recipe that led on */
	uint64_t rule;
	uint32_t node;
	/* placed: saved words up to and with this frame; top bits are flags */
	uint32_t words;
};
#define FRAME_NEEDS_BP (1u << 31) /* this frame or one further out hangs on this rbp */
#define FRAME_TAINTED \
	(1u << 30) /* hangs on words that are not kept: never joined, never remembered */
#define FRAME_WORDS ((1u << 28) - 1)

/*
 * A saved word as the memo keeps it: value << 16 | (address - sp) / 8. What does not fit (a word
 * 512 KiB out, a value that is no user address) keeps the stack out of the memo. One load for both
 * halves: loads are what a compare costs.
 */
#define MEMO_OFF_BITS 16

/*
 * A saved word of a stack whose words are packed: value << 16 | how much further in than the word
 * before it stands | whether the value is meant from the word's own address (a saved rbp). A
 * program has hardly more of them than return addresses, so each stands once, and a stack names its
 * words by 16 bits each.
 */
#define LINK_STEP 0xfff8u
#define LINK_RELATIVE 1u

/*
 * Where something begins in the circular area that holds what is remembered: a running number of 8
 * byte units, so that it tells by itself whether it has been written over. All of them are
 * forgotten before they would begin anew.
 */
#define AREA_UNIT 8u
#define AREA_NONE 0u /* older than everything */
#define AREA_END_MAX (3u << 30)

/*
 * Below an (ip, sp) the stacks that ended there form a tree. A fork stands where two of them first
 * differ, seen from the innermost frame: up to there all stacks below it are the same, so its word
 * is a slot of each, whatever their frames' sizes further out. What lies between forks is not
 * looked at on the way; the stack found at the end is compared as a whole. Nothing that stands here
 * is a claim: what is wrong, or gone, leads to a walk.
 */
struct memo_ref {
	/*
	 * the youngest stack below; the stack itself where there is no fork. Dead: so is all below
	 */
	uint32_t rep;
	/* of the fork, in the table of children; hardly ever used twice */
	uint32_t id;
	/* 0: none; FORK_BP; else 1 + the distance of its word from sp, in words */
	uint16_t fork;
	/* in roots: how far out the slots go of the stacks that were met */
	uint16_t reach;
};
#define FORK_BP \
	0xffffu /* the register, where the stacks differ in it and hang on it: before all words */
#define FORK_MAX 0xfffeu
#define FORKS_MAX 64u /* on the way to a stack */

struct memo_root {
	uint64_t ip, sp;
	struct memo_ref ref;
	/* the struct memo that answered last */
	uint32_t last;
};

/*
 * What follows a fork for one word. Its first line is named by the fork alone, so that the children
 * of one stand together; where there is no room a second one is named by the word too.
 */
struct memo_child {
	uint32_t tag;
	struct memo_ref ref;
};
#define CHILD_WAYS 4
struct memo_line {
	struct memo_child way[CHILD_WAYS];
};

/* Which stack came after two others. */
struct memo_after {
	uint32_t tag, place;
};

/*
 * The words of outer frames that stacks of one time have in common stand in the circular area once,
 * in front of the first stack that names them: what calls a program deep inside of itself is most
 * of the words, and hardly changes.
 */
struct memo_outer {
	/* their distances count from here */
	uint64_t sp;
	uint32_t count;
	/* AREA_NONE, or where those further out are, whose distances count from somewhere else */
	uint32_t next;
	uint64_t word[];
};

/*
 * One remembered stack in the circular area, its words outermost first: as 8 byte words, padded to
 * a multiple of 4, or packed.
 */
struct memo {
	/* ip << 16 | number of words | flags */
	uint64_t head;
	uint64_t bp;
	/* base + this, as of the thread */
	uint32_t sp;
	uint32_t node;
	/* AREA_NONE, or where its struct memo_outer is */
	uint32_t outer;
	/* the stack that came after it last; AREA_NONE: not known */
	uint32_t next;
	/* packed: what the first step counts from, in bytes from sp */
	uint32_t top;
	/* how often it came in a row the last time, but for the last one */
	uint16_t run;
	/* flags */
	uint16_t more;
	uint64_t word[];
};
#define MEMO_WORDS 0x3fffu
#define MEMO_PACKED 0x4000u
#define MEMO_NEEDS_BP 0x8000u
/*
 * In @more: more than one stack has come after it; some of its links are relative; it has answered
 * after others came.
 */
#define MEMO_MANY 1u
#define MEMO_RELATIVE 2u
#define MEMO_FOUND 4u

#define UNWIND_CALLED 16
struct unwind_thread {
	/* read by every capture */
	const uint32_t *module_gen;
	const uint64_t *process_epoch;
	uint64_t seen_epoch;
	uint32_t seen_gen;
	/* set while a walk changes what is remembered */
	uint32_t busy;
	/* roots - 1 */
	uint32_t root_mask;
	/* lines of children - 1 */
	uint32_t line_mask;
	/* places - 1 */
	uint32_t after_mask;
	/* what begins before this in the area is gone */
	uint32_t oldest;
	/* what begins at the area's start in this lap */
	uint32_t lap;
	uint32_t area_units;
	uint32_t repeated_mask;
	/*
	 * The stack that gave the last two answers at one (ip, sp), or the first one there: 32 bits
	 * of the two << 32 | place. Its words are compared at once, without asking which of the
	 * stacks that end there it could be. Most calls repeat; where it turns out to be another
	 * one, the place has to earn this again.
	 */
	uint64_t *repeated;
	/*
	 * What came after the last stack the last time, and the last one itself, in the order that
	 * is likelier; the last two, and how often the last one came again; of the last 32 guesses
	 * which were right.
	 */
	uint32_t expected, other, before, before2, again, history;
	struct memo_root *root;
	struct memo_line *line;
	struct memo_after *after;
	uint64_t *link;
	uint8_t *area;

	/* misses */

	/* the epoch in the top bits: old keys of the rule cache do not match */
	uint64_t salt;
	/* 64 - log2(places) */
	uint32_t link_shift;
	/* words that found no place since the table was cleared */
	uint32_t link_full;
	/* so many, and it is cleared */
	uint32_t link_patience;
	/* the number given last */
	uint32_t forks;
	/* stacks that begin before this are not packed: those are compared faster */
	uint32_t wide_end;
	/* number of forgettings */
	uint32_t epoch;
	/* where the next one will begin */
	uint32_t area_end;
	/*
	 * of this time round the area: stacks that went in, those that were found there; is it one
	 * that takes few?
	 */
	uint32_t taken, found, sparse;
	/* words of the last stack are at base + 32-bit offset; base + 2^32 = stack_hi */
	uint64_t base;
	uint64_t stack_lo, stack_hi;
	/* the innermost place of it where code ran; stack_hi: none yet */
	uint64_t used_lo;
	/* from used_lo up to here all of it can be read */
	uint64_t trust_hi;
	/* and up to here it was asked for just now; UINT64_MAX: it need not be */
	uint64_t checked_hi;
	/* below it lie all words that are remembered */
	uint64_t words_hi;
	/* what could be read has changed; set by any thread */
	uint32_t doubt;
	/* it has happened before: pages are asked for as the stack grows */
	uint32_t careful;
	/* more stacks came than there is room for */
	uint32_t crowded;
	/* the next look at the stack asks for all pages */
	uint32_t verify;
	/* see unwind_stack_keyed() */
	uint32_t keyed;
	struct unwind_process *process;
	/* where addresses have had other meanings */
	uint64_t reused_lo, reused_bytes;
	struct cached_rule *rules;
	/* of the entry's address, where it lies there */
	uint32_t *rule_since;
	/* 64 - log2(entries) */
	uint32_t rule_shift;
	uint32_t rule_count;
	uint32_t frame_count, frame_max;
	uint32_t word_max;
	/* enum wire_stop below which the last stack hangs */
	uint32_t last_root;
	/* its outermost guessed frame; UINT32_MAX: none */
	uint32_t guess_at;
	/* one of the process's block_readers is this thread */
	uint32_t reading;
	/* of the last stack, what stands in the area as outer words; outer_frames 0: nothing */
	uint32_t outer_frames, outer;
	struct last_frame *frame;
	uint64_t *word;
	uint32_t *word_off;
	uint64_t magic;
	uint64_t bytes;
	struct unwind_stats stats;
	/* addresses behind a call, by their low bits; see guess_elsewhere() */
	uint64_t called[UNWIND_CALLED];
	struct unwind_cfi_work work;
	/*
	 * of the look for a rule that is under way; not on the stack, of which hardly anything may
	 * be left
	 */
	struct unwind_module module;
	struct unwind_image image;
	struct unwind_fde fde;
};
#define THREAD_MAGIC 0x31656b6174747361ULL

/* A word of the stack. */
static UNWIND_INLINE uint64_t word_at(uint64_t addr)
{
#ifdef __SANITIZE_ADDRESS__
	return unwind_load(
		addr); /* the words between variables are poisoned, and are what we are after */
#else
	return *(const uint64_t *)(uintptr_t)addr;
#endif
}

/**
 * unwind_find_rule() - the recipe word for @ip (an "address after") from modules, blocks and
 * patterns; WIRE_RULE_* or RULE_*. Slow: the caller caches it.
 */
uint64_t unwind_find_rule(struct unwind_thread *t, uint64_t ip, int *cacheable);

/**
 * unwind_read_blocks() / unwind_leave_blocks() - around a look at the blocks that the program
 * announced: they stay.
 */
void unwind_read_blocks(struct unwind_thread *t);
void unwind_leave_blocks(struct unwind_thread *t);

/**
 * unwind_find_row() - FDE and full row for @ip. Return 1, or 0 where there is none; @hi bounds its
 * expressions.
 */
int unwind_find_row(struct unwind_thread *t, uint64_t ip, struct unwind_fde *fde,
		    const uint8_t **hi);

/** unwind_walk() - the number of the stack at @regs that the memo did not know; remembers it. */
uint32_t unwind_walk(struct unwind_thread *t, const struct unwind_regs *regs) UNWIND_HOT;

/**
 * unwind_deepen() - forget everything and make room for stacks twice as deep as @t's frames hold
 * now, where enough is left for what it remembers. Return 0 where not. While t->busy only.
 */
int unwind_deepen(struct unwind_thread *t);

/**
 * unwind_remember() - put the whole last stack into the memo under @regs; its @joined outermost
 * frames were there before. Return its place, which is that of the next one, too, where it is not
 * to stay; AREA_NONE: it could not be kept.
 */
uint32_t unwind_remember(struct unwind_thread *t, const struct unwind_regs *regs,
			 uint32_t joined) UNWIND_HOT;

/**
 * unwind_follows() - the stack at @place, or one that is not remembered, came now. What comes next?
 */
enum follows { FOLLOWS_WALKED, FOLLOWS_FOUND, FOLLOWS_EXPECTED };
void unwind_follows(struct unwind_thread *t, uint32_t place, enum follows how) UNWIND_APART;

/**
 * unwind_forget_links() - begin the table of words anew; everything is forgotten. While t->busy
 * only.
 */
void unwind_forget_links(struct unwind_thread *t);

#endif
