/* SPDX-License-Identifier: Apache-2.0 */
/* Hostile PAGES blocks: a reading that is accepted adds up, makes a tree, and goes out and in again unchanged; names, too. */
#include <stdlib.h>

#include "trace/paged.h"
#include "view/pages.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COLUMNS 7

static struct page_shot *again(struct paged_home *home, const struct page_shot *shot)
{
	struct blt_cols cols = { 0 };
	struct blt_view view = { 0 };
	struct paged_names names = { 0 };
	int rc;
	if (paged_encode(&cols, shot, shot->processes[0], 0, &names) < 0)
		abort();
	for (unsigned i = 0; i < COLUMNS; i++) {
		view.col[i].at = (const uint8_t *)cols.col[i].data;
		view.col[i].end = view.col[i].at + cols.col[i].len;
	}
	struct page_shot *same = paged_decode(home, &view, &rc);
	blt_cols_fini(&cols);
	paged_names_fini(&names);
	return same;
}

/* The first bytes say where the columns end, in 255ths of the rest. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct blt_view view = { 0 };
	struct err err = { 0 };
	int rc;
	if (size < COLUMNS)
		return 0;
	const uint8_t *at = data + COLUMNS, *end = data + size;
	for (unsigned i = 0; i < COLUMNS; i++) {
		size_t len = (size_t)(end - at) * data[i] / 255;
		view.col[i].at = at;
		view.col[i].end = at + len;
		at += len;
	}
	struct paged_home *home = paged_home_new();
	if (!home)
		return 0;
	paged_decode_names(home, &view);
	struct page_shot *shot = paged_decode(home, &view, &rc);
	if (shot) {
		const struct page_process *process = shot->processes[0];
		struct page_shot *same = again(home, shot);
		struct pages_tree *tree = pages_tree_new(process, NULL, &err);
		uint64_t sum = 0;
		for (unsigned kind = 0; kind < PAGES_KINDS; kind++)
			sum += PAGES_TREE_KINDS >> kind & 1 ? process->kinds[kind] : 0;
		if (!same || same->processes[0]->rss_bytes != process->rss_bytes ||
		    same->processes[0]->row_count != process->row_count ||
		    (tree && pages_tree_root(tree)->bytes != sum))
			abort();
		pages_tree_free(tree);
		page_shot_put(same);
	}
	page_shot_put(shot);
	paged_home_put(home);
	return 0;
}
