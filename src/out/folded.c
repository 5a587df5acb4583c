/* SPDX-License-Identifier: Apache-2.0 */
/*
 * folded.c - one line a stack, "outermost;...;innermost COST": the input of flamegraph.pl and its
 * many relatives.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "out/out.h"
#include "out/stream.h"

struct line {
	uint32_t node;
	/* callers further out were left out */
	uint32_t cut;
	uint64_t cost;
};

static int by_cost(const void *a, const void *b)
{
	const struct line *x = a, *y = b;
	if (x->cost != y->cost)
		return x->cost < y->cost ? 1 : -1;
	return x->node < y->node ? -1 : 1;
}

/*
 * ';' and the space before the number are the format's: inside names they would cut them up
 * ("operator new" may stay).
 */
static void put_clean(struct buf *line, const char *text)
{
	for (; *text; text++)
		buf_putc(line, *text == ';' ? ':' : (unsigned char)*text < ' ' ? ' ' : *text);
}

static void put_name(struct buf *line, const struct view_frame *frame)
{
	if (frame->function) {
		put_clean(line, frame->function);
	} else if (frame->module) {
		put_clean(line, frame->module);
		buf_printf(line, "+0x%" PRIx64, frame->offset);
	} else {
		buf_printf(line, "0x%" PRIx64, frame->offset);
	}
}

static int put_line(FILE *to, const struct view_tree *tree, const struct line *line,
		    struct buf *text, uint32_t *path)
{
	uint32_t depth = 0;
	for (uint32_t at = line->node; at; at = tree->nodes[at].parent)
		path[depth++] = at;
	buf_clear(text);
	while (depth) {
		put_name(text, view_node_frame(tree, path[--depth]));
		if (depth)
			buf_putc(text, ';');
	}
	if (line->cut)
		buf_puts(text, text->len ? ";" VIEW_CUT_LABEL : VIEW_CUT_LABEL);
	if (!text->len)
		buf_puts(text, "[no stack]");
	buf_printf(text, " %" PRIu64 "\n", line->cost);
	if (buf_failed(text))
		return -1;
	fwrite(text->data, 1, text->len, to);
	return 0;
}

int out_folded(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	CLEANUP(view_tree_freep)
	struct view_tree *tree =
		view_tree_new(prof, opt->cost, opt->inverted ? VIEW_TREE_INVERTED : 0, err);
	if (!tree)
		return err->code;
	CLEANUP(buf_fini) struct buf text = { 0 };
	struct line *lines = calloc(tree->self_count + 1, sizeof(*lines));
	uint32_t *path = calloc(tree->count + 1, sizeof(*path));
	int rc = 0;
	if (!lines || !path)
		rc = out_no_memory(err);
	size_t count = 0;
	for (uint32_t i = 1; rc == 0 && i < tree->self_count; i++) {
		uint64_t cost = view_cost_of(&tree->selfs[i].cost, opt->cost);
		if (cost)
			lines[count++] =
				(struct line){ tree->selfs[i].node, tree->selfs[i].cut, cost };
	}
	if (rc == 0)
		qsort(lines, count, sizeof(*lines), by_cost);
	if (opt->limit && count > opt->limit)
		count = opt->limit;
	for (size_t i = 0; rc == 0 && i < count; i++)
		if (put_line(to, tree, &lines[i], &text, path) < 0)
			rc = out_no_memory(err);
	free(lines);
	free(path);
	return rc;
}
