/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fileio.h - whole reads and writes at a position. Files are read, never mapped: one that shrinks
 * must not raise SIGBUS.
 */
#ifndef BASE_FILEIO_H
#define BASE_FILEIO_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

/**
 * fileio_text() - a small file as a string: at most @size - 1 bytes, always terminated ("" where
 * nothing can be read). @dir: where @path begins, or AT_FDCWD. What the kernel makes anew for each
 * read comes with the first one, as of one moment. Return: its length, or negative errno.
 */
ssize_t fileio_text(int dir, const char *path, char *text, size_t size);
/**
 * fileio_pread() - up to @len bytes at @at, fewer only at the end of the file; returns their
 * number, negative errno.
 */
ssize_t fileio_pread(int fd, void *to, size_t len, uint64_t at);
/**
 * fileio_pwrite() - all of @len bytes at @at; 0 or negative errno (what was written before stays).
 * Beyond RLIMIT_FSIZE it is -EFBIG and nothing is written: the write itself would raise SIGXFSZ.
 */
int fileio_pwrite(int fd, const void *from, size_t len, uint64_t at);

/**
 * fileio_closep(), fileio_fclosep() - for CLEANUP(): a descriptor that may be negative, a stream
 * that may be NULL.
 */
static inline void fileio_closep(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}
static inline void fileio_fclosep(FILE **file)
{
	if (*file)
		fclose(*file);
}

#endif
