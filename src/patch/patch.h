/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patch.h - the head of a machine function moves elsewhere, and a jump takes its place.
 *
 * 	function:   jump to the stub, what is left of the old head, the rest as it was
 * 	stub:       says which function it was, and goes on to the hook
 * 	trampoline: the old head, re-reckoned for its new place, and a jump behind it: what the hook
 *	calls instead
 *
 * Pure functions on bytes, one file for each architecture: no system call, no allocation, no state;
 * any thread. Addresses count where the code stands, so @code and @to are where it runs.
 */
#ifndef PATCH_PATCH_H
#define PATCH_PATCH_H

#include <stddef.h>
#include <stdint.h>

#include "preload/sys.h"

#define PATCH_JUMP_BYTES 5  /* what patch_jump() overwrites */
#define PATCH_MOVED_MAX 160 /* what patch_move() writes at most */
#define PATCH_STUB_BYTES 25 /* what patch_stub() writes at most */

/**
 * patch_length() - how many bytes the instruction at @code has, of which @bytes can be read. Linear
 * in its length. Return: 0 where it is none that is known and valid, or is cut short.
 */
unsigned patch_length(const uint8_t *code, size_t bytes) HIDDEN;

/**
 * patch_head() - how many bytes at the start of the function @code must move to make room for the
 * jump: whole instructions, at least PATCH_JUMP_BYTES. Reads all of the function once, and nothing
 * behind it; some 20 ns an instruction.
 * @bytes: the function's length, by its symbol; all of them must be mapped.
 *
 * A jump to the very start of the function stays one: it comes to the hook like the call that it
 * stands for. Branches whose target stands in a register or in a table cannot be seen. A case of a
 * switch cannot lie in the head, since what finds its number comes before it, unless the function
 * is a loop that begins with its first instructions. Return: 0 if they cannot move: the function is
 * too short, an instruction in the head is not known or cannot run elsewhere (somebody's
 * breakpoint, what only the kernel may do, a call unless the head ends with it: what is called must
 * return into the function), something in the function leads into the head, or the function cannot
 * be read to its end.
 */
unsigned patch_head(const uint8_t *code, size_t bytes) HIDDEN;

/** patch_does_nothing() - whether the function @code returns at once. */
int patch_does_nothing(const uint8_t *code, size_t bytes) HIDDEN;

/**
 * patch_led_into() - whether code that the function goes on in leads back into its head: compilers
 * put what hardly ever runs elsewhere. @head: what patch_head() returned for @code and @bytes. @lo,
 * @hi: mapped code, outside of which nothing is read. Follows branches over 64 blocks at most, the
 * nearest first: behind the last step of a chain of calls they are other functions'. Some 10 us.
 * Return: 1 it does: the head cannot move.
 */
int patch_led_into(const uint8_t *code, size_t bytes, unsigned head, const uint8_t *lo,
		   const uint8_t *hi) HIDDEN;

/**
 * patch_move() - write at @to what does there what the first @head bytes of @code do, and a jump to
 * what follows them.
 * @head: what patch_head() returned. @to: room for PATCH_MOVED_MAX bytes, within reach of @code
 *   and of what the head names.
 * Return: bytes written; 0: something does not reach, and nothing was written.
 */
unsigned patch_move(uint8_t *to, const uint8_t *code, unsigned head) HIDDEN;

/**
 * patch_stub() - write at @to what jumps to @entry, wherever that is, with @arg in rax and what
 * stood there on the stack. Every other register stays what it is: a compiler may know which ones a
 * function leaves alone.
 * Return: bytes written.
 */
unsigned patch_stub(uint8_t *to, const void *arg, const void *entry) HIDDEN;

/**
 * patch_jump() - overwrite the start of @code with a jump to @to. The caller has made it writable,
 * with the rest of the aligned word in which it begins. One store where the jump lies within that
 * word, so that a thread which enters meanwhile finds the old head or the jump; otherwise byte by
 * byte, and the caller's must be the only thread. Either way no thread may stand inside of the
 * head. Return: 1; 0: out of reach, nothing was written.
 */
int patch_jump(uint8_t *code, const uint8_t *to) HIDDEN;

#endif
