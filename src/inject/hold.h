/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hold.h - a program that was started waits before its first instruction: its libraries are there,
 * its own main() has not begun. By ptrace, on one thread: if we end while it waits, it goes on by
 * itself; if we are killed in the milliseconds before, it ends, too.
 */
#ifndef INJECT_HOLD_H
#define INJECT_HOLD_H

#include <sys/types.h>

/**
 * hold_keeps_privileges() - a program that gains privileges as it is started does so held, too;
 * without CAP_SYS_PTRACE of ours the kernel takes them from it.
 */
int hold_keeps_privileges(void);
/** hold_ask() - in the child, before it execs. 0 or negative errno: it will not wait. */
int hold_ask(void);
/**
 * hold_at_entry() - of a child that has asked and exec'ed: until it is there. Return: 0 it waits; a
 * negative errno: it runs, or has ended; its status is still to be had.
 */
int hold_at_entry(pid_t pid);
/** hold_let_go() - of one that waits. */
void hold_let_go(pid_t pid);

#endif
