/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * step.h - apply one recipe: from a frame to its caller. The part that preload, BPF and user space
 * share.
 *
 * No loop, no table, no global; the repetition is the user's (for, bpf_loop). Keep the frame in map
 * memory in BPF: the verifier then sees its contents as unknown and iterations look alike. Before
 * including, define
 *
 *     UNWIND_LOAD(ctx, addr, out)   0 after *(uint64_t *)out was read from addr, else non-zero
 *     UNWIND_NOTE(ctx, what, addr)  optional: which stack word decided (enum unwind_note)
 *
 * Convention, in all users: frame.ip is "the address after": a return address, or an exact
 * (interrupted, sampled) address + 1. So ip - 1 lies in the instruction that the frame executes;
 * look recipes up with that.
 */
#ifndef UNWIND_STEP_H
#define UNWIND_STEP_H

#include "unwind/rule.h"
#include "wire/heap.h"

#ifndef UNWIND_NOTE
#define UNWIND_NOTE(ctx, what, addr) ((void)0)
#endif

/** The registers that recipes talk about. */
struct unwind_frame {
	uint64_t ip, sp, bp, bx;
};

enum unwind_note {
	UNWIND_NOTE_RA, /* the return address came from here */
	UNWIND_NOTE_BP, /* the caller's rbp came from here */
	UNWIND_NOTE_BX,
	UNWIND_NOTE_CFA /* the CFA itself came from here (DRAP), or a word of a signal frame */
};

#define UNWIND_GO_ON (-1)
/** Furthest that a guessed frame pointer may stand above the stack pointer. */
#define UNWIND_GUESS_MAX (1u << 20)

/**
 * unwind_leave() - the second half of unwind_step(): @f's caller, whose CFA is known. @slots: what
 * the recipe's slots count from. Apart for a walk that keeps the common kind of recipe on a short
 * way of its own.
 */
static UNWIND_INLINE int unwind_leave(void *ctx, struct unwind_frame *f, uint64_t rule,
				      uint64_t cfa, uint64_t slots)
{
	uint64_t bp = f->bp, bx = f->bx, ip = 0;
	int64_t n;

	(void)ctx;
	if (cfa <= f->sp)
		return WIRE_STOP_NO_PROGRESS;
	if (UNWIND_LOAD(ctx, cfa - 8, &ip))
		return WIRE_STOP_READ;
	UNWIND_NOTE(ctx, UNWIND_NOTE_RA, cfa - 8);

	n = unwind_rule_bx(rule);
	if (n == WIRE_RULE_SLOT_LOST * 8) {
		bx = 0;
	} else if (n) {
		if (UNWIND_LOAD(ctx, slots + (uint64_t)n, &bx))
			return WIRE_STOP_READ;
		UNWIND_NOTE(ctx, UNWIND_NOTE_BX, slots + (uint64_t)n);
	}
	n = unwind_rule_bp(rule);
	if (n || unwind_rule_kind(rule) == WIRE_RULE_DRAP) {
		if (UNWIND_LOAD(ctx, slots + (uint64_t)n, &bp))
			return WIRE_STOP_READ;
		UNWIND_NOTE(ctx, UNWIND_NOTE_BP, slots + (uint64_t)n);
	}
	f->ip = ip;
	f->sp = cfa;
	f->bp = bp;
	f->bx = bx;
	return UNWIND_GO_ON;
}

/**
 * unwind_step() - replace @f by its caller, by @rule. Return: UNWIND_GO_ON, or the enum wire_stop
 * that ends the walk (WIRE_STOP_END: @f was the outermost frame). @f is unchanged unless the walk
 * goes on. The caller decides what a new ip of 0 or outside of executable memory means (end; not a
 * frame).
 */
static UNWIND_INLINE int unwind_step(void *ctx, struct unwind_frame *f, uint64_t rule)
{
	uint32_t kind = unwind_rule_kind(rule);
	uint64_t sp = f->sp, bp = f->bp, bx = f->bx, cfa, ip = 0;
	int64_t n = unwind_rule_cfa(rule);

	(void)ctx;
	if (kind == WIRE_RULE_SIGNAL) {
		uint64_t new_sp = 0;
		if (UNWIND_LOAD(ctx, sp + WIRE_SIGFRAME_IP, &ip) ||
		    UNWIND_LOAD(ctx, sp + WIRE_SIGFRAME_SP, &new_sp) ||
		    UNWIND_LOAD(ctx, sp + WIRE_SIGFRAME_BP, &bp) ||
		    UNWIND_LOAD(ctx, sp + WIRE_SIGFRAME_BX, &bx))
			return WIRE_STOP_READ;
		UNWIND_NOTE(ctx, UNWIND_NOTE_RA, sp + WIRE_SIGFRAME_IP);
		UNWIND_NOTE(ctx, UNWIND_NOTE_CFA, sp + WIRE_SIGFRAME_SP);
		UNWIND_NOTE(ctx, UNWIND_NOTE_BP, sp + WIRE_SIGFRAME_BP);
		UNWIND_NOTE(ctx, UNWIND_NOTE_BX, sp + WIRE_SIGFRAME_BX);
		f->ip = ip + 1; /* interrupted before this instruction: exact */
		f->sp = new_sp; /* may be lower: the handler ran on another stack */
		f->bp = bp;
		f->bx = bx;
		return UNWIND_GO_ON;
	}
	if (kind == WIRE_RULE_SP)
		cfa = sp + (uint64_t)n;
	else if (kind == WIRE_RULE_BP)
		cfa = bp + (uint64_t)n;
	else if (kind == WIRE_RULE_BX)
		cfa = bx + (uint64_t)n;
	else if (kind == WIRE_RULE_PLT)
		cfa = sp + 8 + ((((f->ip - 1) & 15) >= (uint64_t)n / 8) ? 8 : 0);
	else if (kind == WIRE_RULE_DRAP) {
		if (UNWIND_LOAD(ctx, bp + (uint64_t)n, &cfa))
			return WIRE_STOP_READ;
		UNWIND_NOTE(ctx, UNWIND_NOTE_CFA, bp + (uint64_t)n);
	} else if (kind == WIRE_RULE_END)
		return WIRE_STOP_END;
	else if (kind == WIRE_RULE_GAP)
		return WIRE_STOP_GAP;
	else
		return WIRE_STOP_UNSUPPORTED;

	return unwind_leave(ctx, f, rule, cfa, kind == WIRE_RULE_DRAP ? bp : cfa);
}

/**
 * unwind_guess() - the frame-pointer fall-back for an address without a recipe: return address at
 * rbp + 8. Same results as unwind_step(); the user marks the stack as guessed and checks that the
 * new ip is code.
 */
static UNWIND_INLINE int unwind_guess(void *ctx, struct unwind_frame *f)
{
	uint64_t bp = f->bp, ip = 0, next = 0;

	(void)ctx;
	if (!bp)
		return WIRE_STOP_END; /* start code clears rbp: the outermost frame by convention */
	if (bp < f->sp || bp - f->sp > UNWIND_GUESS_MAX || (bp & 7))
		return WIRE_STOP_GAP;
	if (UNWIND_LOAD(ctx, bp + 8, &ip) || UNWIND_LOAD(ctx, bp, &next))
		return WIRE_STOP_READ;
	UNWIND_NOTE(ctx, UNWIND_NOTE_RA, bp + 8);
	UNWIND_NOTE(ctx, UNWIND_NOTE_BP, bp);
	f->ip = ip;
	f->sp = bp + 16;
	f->bp = next;
	f->bx = 0; /* where it was saved, or whether, is not known */
	return UNWIND_GO_ON;
}

#endif
