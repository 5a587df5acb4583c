/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile SNAPSHOT blocks: what is accepted makes a sheet whose lines add up, and it goes out and in again unchanged. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/shot.h"
#include "view/reconcile.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first bytes say where the columns end, in 255ths of the rest; what is left makes blocks. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blt_view view = { 0 };
	struct sheet_block blocks[64];
	struct sheet_input in = { .blocks = blocks, .group_count = 3, .recorded = 1 };
	struct err err = { 0 };
	int rc;
	if (size < 10)
		return 0;
	const uint8_t *at = data + 9, *end = data + size;
	for (unsigned i = 0; i < 8; i++) {
		size_t len = (size_t)(end - at) * data[i] / 255;
		view.col[i].at = at;
		view.col[i].end = at + len;
		at += len;
	}
	struct snapshot *snapshot = shot_decode(&view, &rc);
	if (!snapshot)
		return 0;
	in.lossy = data[8] & 1;
	in.complete = data[8] & 2;
	for (; end - at >= 9 && in.block_count < 64; at += 9) {
		uint64_t word;
		memcpy(&word, at, 8);
		blocks[in.block_count++] =
			(struct sheet_block){ word >> 16, word & 0xffff, at[8] % 3, 0 };
	}
	in.snapshot = snapshot;
	struct sheet *sheet = reconcile(&in, &err);
	if (!sheet && err.code != -ENOMEM)
		abort();
	struct blt_cols cols = { 0 };
	shot_encode(&cols, snapshot);
	struct blt_view again = { 0 };
	for (unsigned i = 0; i < 8; i++) {
		again.col[i].at = (const uint8_t *)cols.col[i].data;
		again.col[i].end = again.col[i].at + cols.col[i].len;
	}
	struct snapshot *same = shot_decode(&again, &rc);
	if (!same || same->rss_bytes != snapshot->rss_bytes ||
	    same->piece_count != snapshot->piece_count)
		abort();
	blt_cols_fini(&cols);
	snapshot_free(same);
	sheet_free(sheet);
	snapshot_free(snapshot);
	return 0;
}
