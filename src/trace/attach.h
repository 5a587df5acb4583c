/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach.h - FILE blocks: files that were embedded in a recording, one a block. Private to trace/;
 * docs/format.md is normative.
 */
#ifndef TRACE_ATTACH_H
#define TRACE_ATTACH_H

#include "trace/block.h"
#include "trace/trace.h"

enum attach_col {
	ATC_FILE =
		/*
		 * path (length, bytes), how long it is, when it was changed, enum trace_file_state
		 */
	0,
	ATC_CONTENT = 1,
};

/** attach_put() - the columns of a FILE block. */
void attach_put(struct blt_cols *cols, const struct trace_file *file, const void *content);
/**
 * attach_get() - @path receives the name, NUL-terminated, which @file points to. 0, -EBADMSG,
 * -ENOMEM.
 */
int attach_get(const struct blt_view *view, struct trace_file *file, struct buf *path);

#endif
