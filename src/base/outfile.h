/* SPDX-License-Identifier: Apache-2.0 */
/* outfile.h - a file that appears whole or not at all; or a new one beside what exists. */
#ifndef BASE_OUTFILE_H
#define BASE_OUTFILE_H

#include <stdio.h>

#include "base/err.h"

/** struct outfile - zero-initialised is closed. */
struct outfile {
	/* write here */
	FILE *to;
	/* below a compressing @to; else NULL */
	FILE *file;
	/* NULL: a device, a fifo, or what is lent */
	char *path;
	char *temporary;
	/* @to is whoever set it's: flushed, and not closed */
	int is_lent;
};

/**
 * outfile_open() - a temporary file beside @path, mode 0600, which outfile_commit() renames; a name
 * ending in ".gz" or ".zst" is compressed with @compress. A signal that ends us meanwhile takes the
 * temporary file along. One at a time; not thread-safe.
 */
int outfile_open(struct outfile *out, const char *path, int compress, struct err *err);
/** outfile_is() - 1: @path is the file @other, by whatever name. */
int outfile_is(const char *path, const char *other);
/**
 * outfile_commit() - flush, close, put in place. On failure nothing is left behind, what stood at
 * the path stays.
 */
int outfile_commit(struct outfile *out, struct err *err);
/** outfile_fini() - close and remove what was not committed. CLEANUP(outfile_fini) works. */
void outfile_fini(struct outfile *out);

/**
 * outfile_create() - a new file of mode 0600 called @path, or with the first number behind it that
 * is free: *@made, malloc'd.
 */
FILE *outfile_create(const char *path, char **made, struct err *err);

#endif
