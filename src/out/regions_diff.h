/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions_diff.h - `regions --diff FILE`: what changed since a breakdown was saved with --format
 * json.
 */
#ifndef OUT_REGIONS_DIFF_H
#define OUT_REGIONS_DIFF_H

#include "base/buf.h"
#include "base/jsonw.h"
#include "proc/breakdown.h"

struct regions_base;

/**
 * regions_base_read() - the breakdowns in @path, one JSON object a line; NULL with @err. Release
 * with regions_base_free().
 */
struct regions_base *regions_base_read(const char *path, struct err *err);
void regions_base_free(struct regions_base *base);
void regions_base_freep(struct regions_base **base);

struct regions_diff_opt {
	/* rows of text; JSON has all that changed */
	size_t top;
	int all, raw, ascii, colour;
};
/**
 * regions_diff_text(), regions_diff_json() - rows by class and label, largest change of RSS first.
 * The base is that of the same process id; where the file holds one breakdown alone, that one (a
 * restarted program has another id). Return: 0, -ENOENT with @err if the file has none that fits.
 */
int regions_diff_text(struct buf *to, const struct regions_base *base, const struct breakdown *b,
		      const struct regions_diff_opt *opt, struct err *err);
int regions_diff_json(struct jsonw *json, const struct regions_base *base,
		      const struct breakdown *b, struct err *err);

#endif
