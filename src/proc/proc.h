/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proc.h - single facts read from /proc/PID. All functions: any thread, no allocation unless said,
 * 0 or negative errno (-ESRCH or -ENOENT once the process is gone; -ENODATA where the kernel no
 * longer tells, e.g. of a zombie).
 */
#ifndef PROC_PROC_H
#define PROC_PROC_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/wait.h>

struct proc_memory {
	uint64_t rss_bytes, virtual_bytes;
};

struct proc_resident {
	struct proc_memory memory;
	uint64_t peak_bytes, anon_bytes, file_bytes, shmem_bytes, swap_bytes;
};

/**
 * proc_living_thread() - a thread of @pid that goes on though the main one has ended: that one's
 * files in /proc tell of no memory, any other's do. 0: there is none, the process has ended.
 */
pid_t proc_living_thread(pid_t pid);

/**
 * proc_peak_rss() - VmHWM in bytes; some 20 us. -ENODATA for a process without memory (zombie,
 * kernel thread).
 */
int proc_peak_rss(pid_t pid, uint64_t *bytes);

/*
 * What is asked of one process again and again, from files that stay open: to find them costs more
 * than to read them.
 */
struct proc_gauge {
	pid_t pid;
	/* one more than the descriptor; 0: not open */
	int statm, stat, status;
};
/**
 * proc_gauge_memory() - resident and virtual size. The kernel's counters may lag by a few pages per
 * CPU.
 */
int proc_gauge_memory(struct proc_gauge *gauge, struct proc_memory *memory);
/**
 * proc_gauge_resident() - what resident memory consists of, its peak, and what is swapped out, all
 * of one reading of `status`; some 15 us, and the process is not kept from anything. @resident's
 * memory.rss_bytes is the sum of the three kinds.
 */
int proc_gauge_resident(struct proc_gauge *gauge, struct proc_resident *resident);
/**
 * proc_gauge_start_stack() - where the program's arguments begin on its stack: another place after
 * an exec, wherever addresses are random. Return: 0, or negative errno (-EACCES where the kernel
 * does not say).
 */
int proc_gauge_start_stack(struct proc_gauge *gauge, uint64_t *at);
/**
 * proc_gauge_stir() - a number that is another one after the process took a page fault, or 10 ms of
 * CPU time, in any thread: faults and clock ticks in one. Return: 0, or negative errno.
 */
int proc_gauge_stir(struct proc_gauge *gauge, uint64_t *stir);
/** proc_gauge_fini() - close what is open. */
void proc_gauge_fini(struct proc_gauge *gauge);

/**
 * proc_comm() - a thread's name without the newline, always terminated; control characters are
 * kept.
 */
int proc_comm(pid_t pid, pid_t tid, char *name, size_t size);

/** proc_exit_status() - of what waitpid() tells: as shells have it, 128 + n for signal n. */
static inline int proc_exit_status(int status)
{
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/** proc_exe() - where /proc/PID/exe points, always terminated; " (deleted)" is kept. */
int proc_exe(pid_t pid, char *path, size_t size);

/**
 * proc_cmdline() - arguments separated by NUL; malloc'd, at most 1 MiB. Return: its length, or
 * negative errno.
 */
ssize_t proc_cmdline(pid_t pid, char **cmdline);

/**
 * proc_maps_has() - 1 if a mapping of @pid has a path that begins with @name ("/memfd:byteledger")
 * and, unless 0, that
 * @inode; 0 if none has: tells whether an exec has replaced the address space. Reads maps up to the
 * first hit:
 * milliseconds for large processes.
 */
int proc_maps_has(pid_t pid, const char *name, uint64_t inode);

/**
 * proc_environ_has() - 1 if @pid was started with a variable @name whose value has @text in it, 0
 * if not (or it has ended).
 */
int proc_environ_has(pid_t pid, const char *name, const char *text);

#endif
