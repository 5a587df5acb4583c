/* SPDX-License-Identifier: Apache-2.0 */
/*
 * call.h - a stopped thread of another process makes calls for us, on a stack of its own, and then
 * stands where it stood: registers, floating point, blocked signals, the system call that it was
 * in. Nothing is written into the process's code, no signal of its own is touched: what is called
 * returns to a system call instruction of the C library's, and we hear of system calls.
 */
#ifndef INJECT_CALL_H
#define INJECT_CALL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct call;

/**
 * call_begin() - @tid is stopped by us (freeze.h), and stands at a safe place. @instruction: where
 * a system call instruction is. NULL with @err: nothing was changed.
 */
struct call *call_begin(pid_t tid, uint64_t instruction, struct err *err);
#define CALL_GUARD_MOST (72u << 10)

/**
 * call_guard() - from now on, should this process be killed, the thread goes on as it stood once
 * the call that it is in returns: a signal's frame lies at @at and above, call_guard_bytes() of
 * them, at most CALL_GUARD_MOST. @restorer is the C library's way back from a handler; behind
 * @instruction stands a return. A system call that was interrupted may then end with EINTR.
 */
int call_guard(struct call *call, uint64_t at, uint64_t restorer, struct err *err);
size_t call_guard_bytes(const struct call *call);
/** call_guard_again() - by the frame that lies at @at already; 0: by none any more. */
void call_guard_again(struct call *call, uint64_t at);
/** call_stack() - the thread's own stack pointer. */
uint64_t call_stack(const struct call *call);
/**
 * call_system() - one system call. Return: 0 and *@result, the kernel's value; negative errno with
 * @err: -ESRCH it has ended.
 */
int call_system(struct call *call, long nr, const uint64_t arg[6], int64_t *result,
		struct err *err);
/**
 * call_function() - call @function with the stack pointer @stack, where the frame
 * lies if there is one; waits @limit_ns at most. Return:
 * as call_system(); -ETIMEDOUT: it is still at it, -EFAULT: it crashed. After either the thread can
 * only be put back.
 */
int call_function(struct call *call, uint64_t function, uint64_t stack, const uint64_t arg[3],
		  uint64_t limit_ns, uint64_t *result, struct err *err);
/** call_end() - the thread stands where it stood, stopped. Negative errno: it has ended. */
int call_end(struct call *call);

/**
 * call_leave() - let @tid, which is stopped within the allocator, say, run on, instruction by
 * instruction, until @done says so, at most @steps. *@signal: one that came for it, to be handed on
 * as it is let go. Return: 1 it did; 0: not; -ESRCH it has ended. It is stopped in any case.
 */
int call_leave(pid_t tid, int (*done)(void *ctx, pid_t tid), void *ctx, unsigned steps,
	       int *signal);

#endif
