/* SPDX-License-Identifier: Apache-2.0 */
/*
 * confine.h - give up all that reading bytes does not need: for a child that reads what strangers
 * wrote.
 */
#ifndef SYM_CONFINE_H
#define SYM_CONFINE_H

/**
 * confine_self() - of a process with one thread, for good: every descriptor but @keep_fd is closed,
 * shared mappings are let go, no capabilities, no core file, as nobody where we are root, nothing
 * of the file system (where there is Landlock), and no system call but those for memory, for
 * descriptors that are open and for the end (seccomp). What is refused fails. Return: 0, or
 * negative errno: it is not confined and must not read.
 */
int confine_self(int keep_fd);

#endif
