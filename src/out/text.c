/* SPDX-License-Identifier: Apache-2.0 */
/* text.c - the report for people: which sections a page has. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "out/text_impl.h"

#define WIDTH_DEFAULT 100
#define WIDTH_MIN 40
#define WIDTH_MAX 240 /* lines longer than this are read by nobody */
#define LIMIT_DEFAULT 10

/**
 * page_tree() - a tree for the page to show, whose frames' roles are not known yet; NULL without
 * memory.
 */
static struct view_tree *page_tree(struct page *page, const struct prof *prof, enum view_cost cost,
				   unsigned how, struct err *err)
{
	struct view_tree *tree = view_tree_new(prof, cost, how | VIEW_TREE_FOLD_UNNAMED, err);
	if (!tree)
		return NULL;
	free(page->roles);
	page->roles = calloc(tree->frame_count, sizeof(*page->roles));
	if (!page->roles) {
		err_set(err, -ENOMEM, "cannot write the report");
		view_tree_freep(&tree);
	}
	return tree;
}

static int put_sections(struct page *page, const struct prof *prof, const struct out_opt *opt,
			size_t limit, struct err *err)
{
	static const enum view_cost all[] = { VIEW_COST_PEAK, VIEW_COST_LEAKED,
					      VIEW_COST_ALLOCATIONS, VIEW_COST_TEMPORARY };
	CLEANUP(view_tree_freep)
	struct view_tree *tree = page_tree(page, prof, opt->cost, 0, err);
	if (!tree)
		return err ? err->code : -ENOMEM;
	CLEANUP(view_paths_freep) struct view_paths *paths = view_paths_new(prof, opt->skip, err);
	if (!paths)
		return err ? err->code : -ENOMEM;
	text_names(page, tree);
	if (opt->one_section) {
		text_section(page, prof, paths, opt->cost, limit, 1, opt->being_written);
		if (opt->cost == VIEW_COST_LEAKED)
			text_suppressed(page, opt->suppress, 0);
	} else {
		for (size_t i = 0; i < ARRAY_LEN(all); i++) {
			text_section(page, prof, paths, all[i], limit, 0, opt->being_written);
			if (all[i] == VIEW_COST_LEAKED)
				text_suppressed(page, opt->suppress,
						!view_cost_of(&paths->whole, VIEW_COST_LEAKED));
		}
		if (!opt->selection)
			text_mapped(page, prof, paths, limit);
	}
	if (!opt->inverted) {
		text_tree(page, tree, limit);
		return 0;
	}
	view_tree_freep(&tree);
	tree = page_tree(page, prof, opt->cost, VIEW_TREE_INVERTED, err);
	if (!tree)
		return err ? err->code : -ENOMEM;
	text_tree(page, tree, limit);
	return 0;
}

int out_text(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	CLEANUP(buf_fini) struct buf b = { 0 };
	size_t width = opt->width > 0 ? (size_t)opt->width : WIDTH_DEFAULT;
	struct page page = {
		.to = &b,
		.width = width < WIDTH_MIN   ? WIDTH_MIN
			 : width > WIDTH_MAX ? WIDTH_MAX
					     : width,
		.colour = opt->colour,
		.ascii = opt->ascii,
		.skip = opt->skip,
	};
	size_t limit = opt->limit ? opt->limit : LIMIT_DEFAULT;
	struct prof_totals totals;
	prof_totals(prof, &totals);
	text_header(&page, prof, &totals, opt);
	int rc = 0;
	if (opt->selection && totals.cost.allocations == 0) {
		text_title(&page, "Nothing", "no allocation fits this selection");
	} else {
		text_curves(&page, prof, &totals, opt->selection != NULL);
		rc = opt->by == VIEW_BY_STACK ? put_sections(&page, prof, opt, limit, err)
					      : text_table(&page, prof, opt, limit, err);
		free(page.roles);
	}
	if (rc < 0)
		return rc;
	if (buf_failed(&b))
		return err_set(err, -ENOMEM, "cannot write the report");
	errno = 0;
	if (fwrite(b.data, 1, b.len, to) != b.len || fflush(to) != 0 || ferror(to))
		return err_set(err, errno ? -errno : -EIO, "cannot write the report");
	return 0;
}
