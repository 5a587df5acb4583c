/* SPDX-License-Identifier: Apache-2.0 */
/*
 * target.h - a process looked at from outside: its /proc folder held open, so that a PID used again
 * is never mistaken for it.
 */
#ifndef PROC_TARGET_H
#define PROC_TARGET_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct target {
	pid_t pid;
	/* by whom it is read: @pid, or a thread that goes on though the main one has ended */
	pid_t tid;
	/*
	 * /proc/TID; openat() on it fails with ESRCH once the thread is gone. -1: the caller's own,
	 * asked by its path: target_openat()
	 */
	int dir;
	/* /proc/TID/mem, as of the first reading; 0: not asked for yet, negative errno: refused */
	int mem;
	char comm[32];
	/* "" where it may not be read */
	char exe[4096];
	uint64_t exe_inode;
	/* st_dev */
	uint64_t exe_device;
};

/**
 * target_open() - hold process @pid (0: the caller's own). Fails in one clear line, with a hint,
 * for a process that does not exist, a kernel thread and a zombie; permission is not asked yet.
 * Some 30 us.
 */
int target_open(struct target *target, pid_t pid, struct err *err);
/**
 * target_again() - after a reading that found no memory: whether another thread of the same process
 * can be read, by which
 * @target is read from now on. Return: 1, or 0: it has ended.
 */
int target_again(struct target *target);
/**
 * target_renew() - it runs another program now: its name, executable and memory are asked for
 * again.
 */
void target_renew(struct target *target);
/** target_close() - CLEANUP(target_close) works on a zeroed struct, too. */
void target_close(struct target *target);

/** target_openat() - open /proc/PID/@name; a descriptor, or -1 with errno. */
int target_openat(const struct target *target, const char *name, int flags);
/**
 * target_file() - open /proc/PID/@name read-only; a descriptor, or negative errno with an error
 * that names the process (ended, or whose permission is missing, with the remedy).
 */
int target_file(const struct target *target, const char *name, struct err *err);
/**
 * target_text() - the whole of a small /proc/PID/@name, terminated; its length, or negative errno.
 */
ssize_t target_text(const struct target *target, const char *name, char *text, size_t size);
/**
 * target_fail() - the error for a failed reading of @target's @what with @code: tells "ended" from
 * "not permitted".
 */
int target_fail(const struct target *target, int code, const char *what, struct err *err);

/**
 * target_read() - copy [@addr, @addr + @len) of the target's memory, which goes on running; 1 us
 * and the copy. By pread() of /proc/PID/mem: process_vm_readv() pins pages, and pinning gives a
 * forked process copies of what it shared with its parent. Return: bytes copied from the start
 * (fewer where the rest is not mapped), or negative errno (-EPERM, -ESRCH, -EFAULT).
 */
ssize_t target_read(const struct target *target, uint64_t addr, void *to, size_t len);

struct target_piece {
	uint64_t addr;
	void *to;
	size_t len;
};
/**
 * target_read_pieces() - up to 64 pieces, a system call each; bytes copied in order until the first
 * that fails, or negative errno.
 */
ssize_t target_read_pieces(const struct target *target, const struct target_piece *pieces,
			   unsigned count);

#endif
