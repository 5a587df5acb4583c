/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_rows.h - whole tables of unwind recipes (wire/unwind.h), built from a file's .eh_frame and
 * .debug_frame and kept on disk by build id: for the kernel side, and for modules without
 * .eh_frame_hdr.
 */
#ifndef SYM_UNWIND_ROWS_H
#define SYM_UNWIND_ROWS_H

/*
 * A circle of files: rows_build.c fills the table that is declared here, and is asked to by
 * unwind_rows.c.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/unwind.h"

/** A stretch of the file that is mapped executable: how addresses in memory become the table's. */
struct unwind_rows_segment {
	uint64_t file_offset, file_bytes, vaddr;
};
#define UNWIND_ROWS_SEGMENTS 16

/**
 * struct unwind_rows_info - where the module's code stands, and what building its table met (zeros
 * from the cache).
 */
struct unwind_rows_info {
	struct unwind_rows_segment exec[UNWIND_ROWS_SEGMENTS];
	uint32_t exec_count;
	int cached;
	uint64_t fdes, rows, rules;
	/* rows that no recipe word expresses: a walk stops there */
	uint64_t eval_rows;
	/* of executable segments */
	uint64_t text_bytes;
};

struct unwind_rows;

/**
 * unwind_rows_new() - a maker of tables. @pid: as in struct sym_opt. @cache_dir: where tables are
 * kept; NULL: below $XDG_CACHE_HOME or ~/.cache, /var/cache for root; "" = nowhere. The folder is
 * made with mode 0700; one that others may write to, or that belongs to somebody else, is not used.
 * Return: NULL with @err set.
 */
struct unwind_rows *unwind_rows_new(uint32_t pid, const char *cache_dir, struct err *err);
void unwind_rows_free(struct unwind_rows *rows);

/**
 * unwind_rows_rest() - for now no more are wanted: whoever reads files ends (sym/files.h). NULL is
 * fine.
 */
void unwind_rows_rest(struct unwind_rows *rows);

/**
 * unwind_rows_get() - the table of the module at @path ("[vdso]" too; deleted files while the
 * process lives).
 * @build_id: compared with the file's (@len 0: not compared, and nothing is cached for files
 *   without one).
 * @blob: malloc'd, 8-aligned, valid by unwind_table_valid(); free() it. Return: its bytes;
 *   -ENOENT where there is no
 * such file or it has no unwind data, -ESTALE for another build id, -EBADMSG for a damaged file,
 * -E2BIG for a module that the format cannot hold, -EPIPE where its reader died over it. Cost: some
 * ms per MiB of text when built, a copy when cached. @info may be NULL.
 */
int64_t unwind_rows_get(struct unwind_rows *rows, const char *path, const uint8_t *build_id,
			uint8_t len, struct wire_unwind **blob, struct unwind_rows_info *info,
			struct err *err);

#endif
