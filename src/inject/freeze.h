/* SPDX-License-Identifier: Apache-2.0 */
/* freeze.h - stop every thread of a process for a moment, without a signal that it could see. */
#ifndef INJECT_FREEZE_H
#define INJECT_FREEZE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct freeze_thread {
	pid_t tid;
	/* that was on its way when it stopped */
	int signal;
};
/** struct freeze - zeroed is nothing stopped. */
struct freeze {
	struct freeze_thread *threads;
	size_t count, room;
	uint64_t since_ns;
};
/**
 * freeze_begin() - PTRACE_SEIZE and PTRACE_INTERRUPT of every thread of @pid, those that begin
 * meanwhile too. Some 25 us a thread. A system call that waits is made anew, by the kernel or by
 * freeze_end() (on x86-64 only: elsewhere epoll_wait() and the like return EINTR); what has a time
 * limit that counts from its begin waits as long again. The calling thread is the tracer: if it
 * ends, all go on, and such calls return EINTR. 0 or negative errno with @err; freeze_end() in any
 * case.
 */
int freeze_begin(struct freeze *freeze, pid_t pid, struct err *err);
/**
 * freeze_can() - whether no thread of @pid is in a wait that nothing interrupts (a device, a file
 * system that does not answer, the child of a vfork() that has not become a program):
 * freeze_begin() would wait for that, with the others stopped.
 */
int freeze_can(pid_t pid);
/** freeze_await() - until freeze_can(), two seconds at most. Return: 0, -ETIMEDOUT. */
int freeze_await(pid_t pid);
/** freeze_keep() - all but @tid go on, which freeze_end() lets go. */
void freeze_keep(struct freeze *freeze, pid_t tid);
/** freeze_end() - all go on. Return: for how long they stood still, ns. */
uint64_t freeze_end(struct freeze *freeze);

#endif
