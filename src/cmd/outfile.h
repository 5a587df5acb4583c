/* SPDX-License-Identifier: Apache-2.0 */
/* outfile.h - where a command's result goes: stdout, or a file that appears whole or not at all. */
#ifndef CMD_OUTFILE_H
#define CMD_OUTFILE_H

#include <stdio.h>

#include "base/err.h"

/** struct outfile - zero-initialised is closed. */
struct outfile {
	FILE *to;   /* write here */
	FILE *file; /* below a compressing @to; else NULL */
	char *path; /* NULL: stdout */
	char *temporary;
};

/**
 * outfile_open() - @path NULL: stdout, which must not be a terminal for @binary results. Else a temporary file beside
 * @path, mode 0600, which outfile_commit() renames; a name ending in ".gz" or ".zst" is compressed with @compress.
 * A signal that ends us meanwhile takes the temporary file along. One at a time; not thread-safe.
 */
int outfile_open(struct outfile *out, const char *path, int binary, int compress, struct err *err);
/** outfile_commit() - flush, close, put in place. On failure nothing is left behind, what stood at the path stays. */
int outfile_commit(struct outfile *out, struct err *err);
/** outfile_fini() - close and remove what was not committed. CLEANUP(outfile_fini) works. */
void outfile_fini(struct outfile *out);

#endif
