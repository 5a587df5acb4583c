/* SPDX-License-Identifier: Apache-2.0 */
/*
 * byteledger.h - a program that keeps its own books: libbyteledger, for C and C++. Needs nothing but libc.
 *
 *	cc prog.c -lbyteledger
 *
 * Every function: any thread, any time after main() has begun; 0 or a negative errno; nothing is printed, nothing is
 * allocated behind your back that stays, the process is never stopped or ended.
 */
#ifndef BYTELEDGER_H
#define BYTELEDGER_H

#include <stddef.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Longest name, in bytes, without the terminating zero. */
#define BYTELEDGER_NAME_MAX 79

/**
 * byteledger_name() - call [@start, @start + @bytes) @name, in every breakdown: byteledger_breakdown()'s and that of
 * `byteledger regions -p` from outside. Numbers at the end of a name are folded: "cache-0" ... "cache-511" are one row.
 * @start: the beginning of a page (what mmap() returned). @name: printable ASCII without [ ] \ $ and `; NULL takes the name
 * away, which a program does before it unmaps, so that whoever gets the addresses next does not inherit it.
 *
 * Where the kernel can name anonymous memory (CONFIG_ANON_VMA_NAME) it does; elsewhere, and for file mappings, the name is kept in a
 * table of this process, up to 8,000 names. Naming the same range again replaces its name. Costs 1 us; the table 100 bytes a name.
 * Return: 0; -EADDRNOTAVAIL (@start is not the beginning of a page: of memory that malloc() returned only whole pages can have a name);
 * -EINVAL (no bytes, a name that is too long or has a forbidden character); -ENOMEM (nothing is mapped there); -ENOSPC (the table is
 * full).
 */
int byteledger_name(void *start, size_t bytes, const char *name);

/**
 * byteledger_breakdown() - write to @fd, as text, where this process's memory is: classes that add up to its RSS to the
 * byte, and the @top largest mappings (0: none, at most 1000). Costs a reading of /proc/self/smaps (10 ms a GiB of small
 * pages) and less than 1 MiB of memory while it runs; other threads' mmap() may wait for the walk of one mapping.
 * Return: 0; -EINVAL (@top out of range); what write() or /proc said.
 */
int byteledger_breakdown(int fd, int top);

/**
 * byteledger_breakdown_text() - the same into @to, terminated, cut where @size ends.
 * Return: the length of the whole text, like snprintf(), or a negative errno.
 */
ssize_t byteledger_breakdown_text(char *to, size_t size, int top);

/**
 * byteledger_breakdown_signal() - write to @fd a shorter breakdown: RSS, and what of it is heap, stacks, named, libraries, program, other
 * files, anonymous. For signal handlers, of a crash too: calls nothing but open, read, readlink, write and close, needs 12 KiB of stack, and
 * takes no lock.
 * Return: 0, or a negative errno. errno is kept.
 */
int byteledger_breakdown_signal(int fd);

/**
 * byteledger_serve() - answer GET /debug/memory?top=N and /metrics (Prometheus) on "127.0.0.1:6060", "[::1]:6060" or ":6060" (which is
 * 127.0.0.1); and /debug/pprof/heap and allocs (pprof's format) while the program's heap is recorded by `byteledger run --serve`. From a
 * thread of its own with all signals blocked, until the process ends. Without `format` the answer has the layout of
 * Teranode's analyzer, with `format=text` byteledger's own. smaps is read at most once in 10 seconds, others get that
 * reading with its age. Only loopback addresses, since the answer undoes address randomisation.
 * Return: 0; -EINVAL (no such address); -EACCES (not loopback); -EBUSY (this process serves already); what bind() said.
 * A child of fork() does not serve, and holds none of its parent's sockets; it may serve an address of its own.
 */
int byteledger_serve(const char *addr_port);

/**
 * byteledger_serve_token() - the same on any address, a container's published port say, to those who show @token: "Authorization: Bearer
 * TOKEN", or the parameter token=TOKEN. @token: 16 to 128 printable bytes without blanks, & and %.
 * Return: as byteledger_serve(), but for -EACCES; -EINVAL also for a token that is none.
 */
int byteledger_serve_token(const char *addr_port, const char *token);

#ifdef __cplusplus
}
#endif

#endif
