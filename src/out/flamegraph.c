/* SPDX-License-Identifier: Apache-2.0 */
/*
 * flamegraph.c - one SVG file that shows a call tree without help (in any viewer), and with its
 * script, which stands inside, can be zoomed, searched and flipped in a browser. Nothing is loaded
 * from elsewhere. Names come from foreign programs and are written as escaped text only.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "out/flamegraph-js.h"
#include "out/out.h"
#include "out/stream.h"
#include "out/text_impl.h"

#define WIDTH 1200
#define SIDE 10
#define ROW 17
#define TOP 64           /* title and buttons */
#define BOTTOM 46        /* details: two lines */
#define LETTER 6.7       /* width of one, 11 px monospace */
#define DEPTH_MAX 1000   /* rows drawn; 17,000 pixels */
#define TALL 48          /* rows; more do not fit into a window */
#define FRAMES_MAX 10000 /* drawn: the widest ones; beyond, browsers become slow */

struct box {
	/* in units of the cost, from the left */
	uint64_t start;
	/* a folded one stands at its caller's */
	uint32_t depth;
	uint8_t drawn;
	/* what stands above main in every stack: not drawn, what it calls is */
	uint8_t folded;
};

struct flame {
	FILE *to;
	const struct view_tree *tree;
	struct box *boxes;
	/* by node: allocations below it */
	uint64_t *calls;
	enum view_cost cost;
	uint64_t total;
	/* of the drawn ones: deepest, how many */
	uint32_t depth, drawn;
	/* with any cost, but for folded ones */
	uint32_t present;
	uint32_t folded;
	int flipped;
	struct buf name, label;
};

/*
 * XML text: markup escaped, what XML 1.0 forbids (controls, U+FFFE, U+FFFF) and what is no UTF-8 as
 * U+FFFD.
 */
static void put_text(struct buf *to, const char *text)
{
	for (size_t len = strlen(text), step; len; text += step, len -= step) {
		unsigned char c = (unsigned char)*text;
		step = utf8_len(text, len);
		int forbidden = !step || (c < ' ' && c != '\t' && c != '\n') || c == 0x7f ||
				(step == 3 && memcmp(text, "\xef\xbf", 2) == 0 &&
				 (unsigned char)text[2] >= 0xbe);
		step = step ? step : 1;
		if (forbidden)
			buf_puts(to, "\xef\xbf\xbd");
		else if (c == '&')
			buf_puts(to, "&amp;");
		else if (c == '<')
			buf_puts(to, "&lt;");
		else if (c == '>')
			buf_puts(to, "&gt;");
		else if (c == '"')
			buf_puts(to, "&quot;");
		else
			buf_put(to, text, step);
	}
}

static const char *unit_of(enum view_cost cost)
{
	return cost == VIEW_COST_ALLOCATIONS || cost == VIEW_COST_TEMPORARY ? "allocations"
									    : "bytes";
}

static const char *meaning_of(enum view_cost cost)
{
	static const char *const text[] = {
		[VIEW_COST_PEAK] = "bytes live at the peak",
		[VIEW_COST_ALLOCATIONS] = "allocations",
		[VIEW_COST_ALLOCATED] = "bytes allocated",
		[VIEW_COST_TEMPORARY] = "temporary allocations",
		[VIEW_COST_LEAKED] = "bytes never freed",
		[VIEW_COST_LIVE] = "bytes live",
	};
	return text[cost];
}

static void put_amount(struct buf *to, uint64_t value, enum view_cost cost)
{
	if (unit_of(cost)[0] == 'a') {
		buf_printf(to, "%" PRIu64 " allocations", value);
		return;
	}
	static const char *const names[] = { "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	double scaled = (double)value / 1024;
	size_t unit = 0;
	if (value < 1024) {
		buf_printf(to, "%" PRIu64 " B", value);
		return;
	}
	for (; scaled >= 1024 && unit + 1 < ARRAY_LEN(names); unit++)
		scaled /= 1024;
	buf_printf(to, "%.2f %s", scaled, names[unit]);
}

/* The function, or where it would be; plain text. */
static void name_of(struct flame *f, uint32_t node)
{
	const struct view_frame *frame = view_node_frame(f->tree, node);
	buf_clear(&f->name);
	if (!node)
		buf_puts(&f->name, "all");
	else if (frame->function)
		buf_puts(&f->name, frame->function);
	else if (frame->module)
		buf_printf(&f->name, "%s+0x%" PRIx64, frame->module, frame->offset);
	else
		buf_printf(&f->name, "0x%" PRIx64, frame->offset);
}

/*
 * What is written into the box: the name without what nobody reads there; the whole stands in the
 * title.
 */
static void label_of(struct flame *f, uint32_t node)
{
	const char *function = view_node_frame(f->tree, node)->function;
	buf_clear(&f->label);
	if (node && function && strpbrk(function, "(<"))
		text_short_name(&f->label, function, 0);
	if (f->label.len == 0)
		buf_puts(&f->label, buf_cstr(&f->name));
}

/*
 * Warm for named functions, a hue for each module; grey where nothing is known. Always the same for
 * the same name.
 */
static void put_colour(struct buf *to, const struct view_frame *frame, uint32_t node)
{
	if (!node || !frame->function) {
		buf_puts(to, node ? "hsl(0,0%,78%)" : "hsl(40,20%,85%)");
		return;
	}
	uint32_t module = 2166136261u, function = 2166136261u;
	for (const char *p = frame->module ? frame->module : ""; *p; p++)
		module = (module ^ (unsigned char)*p) * 16777619u;
	for (const char *p = frame->function; *p; p++)
		function = (function ^ (unsigned char)*p) * 16777619u;
	buf_printf(to, "hsl(%u,%u%%,%u%%)", (module >> 7) % 360, 55 + function % 20,
		   66 + (function >> 8) % 12);
}

static int put_frame(struct flame *f, uint32_t node, struct buf *text)
{
	uint64_t value = f->tree->nodes[node].total;
	const struct view_frame *frame = view_node_frame(f->tree, node);
	uint64_t self = view_cost_of(view_node_self(f->tree, node), f->cost);
	const struct box *box = &f->boxes[node];
	double scale = (double)(WIDTH - 2 * SIDE) / (double)(f->total ? f->total : 1);
	double x = SIDE + (double)box->start * scale, width = (double)value * scale;
	uint32_t y = TOP + ROW * (f->flipped ? box->depth : f->depth - box->depth);
	buf_clear(text);
	buf_printf(text,
		   "<g class=\"f\" data-x=\"%" PRIu64 "\" data-v=\"%" PRIu64
		   "\" data-d=\"%u\" data-s=\"%" PRIu64 "\"",
		   box->start, value, box->depth, self);
	name_of(f, node);
	label_of(f, node);
	if (strcmp(buf_cstr(&f->label), buf_cstr(&f->name)) != 0) {
		buf_puts(text, " data-l=\"");
		put_text(text, buf_cstr(&f->label));
		buf_putc(text, '"');
	}
	buf_puts(text, "><title>");
	put_text(text, buf_cstr(&f->name));
	buf_puts(text, "\n");
	put_amount(text, value, f->cost);
	buf_printf(text, ", %.2f %%", 100.0 * (double)value / (double)(f->total ? f->total : 1));
	if (self && node) {
		buf_puts(text, ", itself ");
		put_amount(text, self, f->cost);
	}
	if (unit_of(f->cost)[0] != 'a')
		buf_printf(text, "\n%" PRIu64 " allocation%s", f->calls[node],
			   f->calls[node] == 1 ? "" : "s");
	if (node && frame->module) {
		buf_puts(text, "\n");
		put_text(text, frame->module);
	}
	if (node && frame->file) {
		buf_puts(text, "\n");
		put_text(text, frame->file);
		if (frame->line)
			buf_printf(text, ":%u%s", frame->line,
				   f->tree->nodes[node].other_lines ? " and other lines" : "");
	}
	buf_printf(text, "</title><rect x=\"%.2f\" y=\"%u\" width=\"%.2f\" height=\"%d\" fill=\"",
		   x, y, width > 0.7 ? width - 0.4 : 0.3, ROW - 1);
	put_colour(text, frame, node);
	buf_puts(text, "\"/>");
	/* cut to what fits, at a character's end */
	size_t fits = width > 6 ? (size_t)((width - 6) / LETTER) : 0, letters = 0, at = 0;
	const char *name = buf_cstr(&f->label);
	size_t len = f->label.len, step;
	for (; at < len && letters < fits; at += step ? step : 1, letters++)
		step = utf8_len(name + at, len - at);
	if (fits >= 3 && at < len) {
		at = 0;
		for (letters = 0; letters < fits - 2; letters++, at += step ? step : 1)
			step = utf8_len(name + at, len - at);
	}
	if (fits >= 3) {
		int cut = at < len;
		f->label.len = at;
		buf_printf(text, "<text x=\"%.2f\" y=\"%u\">", x + 3, y + 12);
		put_text(text, buf_cstr(&f->label));
		buf_puts(text, cut ? "..</text>" : "</text>");
	}
	buf_puts(text, "</g>\n");
	if (buf_failed(text) || buf_failed(&f->name) || buf_failed(&f->label))
		return -1;
	fwrite(text->data, 1, text->len, f->to);
	return 0;
}

static int descending(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x < y) - (x > y);
}

/**
 * widest() - so many frames are drawn at most: those wider than @least, and @ties that are just as
 * wide. Only rows that are drawn compete; else a deep recursion, whose frames are all of one width,
 * would leave no room for its own beginning.
 */
static int widest(const struct flame *f, uint64_t *least, uint32_t *ties)
{
	const struct view_tree *tree = f->tree;
	*least = 0;
	*ties = 0;
	if (tree->count <= FRAMES_MAX)
		return 0;
	uint64_t *values = malloc(tree->count * sizeof(*values));
	if (!values)
		return -1;
	uint32_t count = 0;
	for (uint32_t i = 1; i < tree->count; i++) /* the root is drawn anyway */
		if (f->boxes[i].depth < DEPTH_MAX && !f->boxes[i].folded)
			values[count++] = tree->nodes[i].total;
	qsort(values, count, sizeof(*values), descending);
	if (count > FRAMES_MAX) {
		*least = values[FRAMES_MAX - 1];
		for (uint32_t i = FRAMES_MAX; i-- && values[i] == *least;)
			++*ties;
	}
	free(values);
	return 0;
}

/*
 * Whether @node stands above main. A stripped program's _start has no name, but what is next to it
 * has. @outer: what is next to it towards the root is the root or folded; @deep: it is not the
 * root.
 */
static int is_start(const struct view_tree *tree, uint32_t node, int outer, int deep)
{
	const char *function = view_node_frame(tree, node)->function;
	uint32_t count = tree->nodes[node].child_count;
	if (function)
		return (outer || tree->inverted) && view_role(function) == VIEW_START;
	if (tree->inverted)
		return outer && deep && !count;
	for (uint32_t i = 0; outer && i < count; i++) {
		uint32_t child = view_node_child(tree, node, i);
		if (view_role(view_node_frame(tree, child)->function) != VIEW_START)
			return 0;
	}
	return outer && count;
}

/* Where every node stands, and which are wide enough to be drawn: all, or the FRAMES_MAX widest. */
static int measure(struct flame *f)
{
	const struct view_tree *tree = f->tree;
	uint64_t least;
	uint32_t ties;
	/* a parent comes before its children */
	for (uint32_t i = 1; i < tree->count; i++) {
		uint32_t parent = tree->nodes[i].parent;
		int outer = !parent || f->boxes[parent].folded;
		f->boxes[i].folded = is_start(tree, i, outer, parent != 0);
		f->boxes[i].depth = f->boxes[parent].depth + !f->boxes[i].folded;
	}
	for (uint32_t i = tree->count; i-- > 0;) {
		f->calls[i] += view_node_self(tree, i)->allocations;
		if (i)
			f->calls[tree->nodes[i].parent] += f->calls[i];
	}
	if (widest(f, &least, &ties) < 0)
		return -1;
	f->boxes[0].drawn = 1;
	f->drawn = f->present = 1;
	for (uint32_t i = 0; i < tree->count; i++) {
		const struct view_node *n = &tree->nodes[i];
		uint64_t start = f->boxes[i].start;
		for (uint32_t c = 0; c < n->child_count; c++) {
			uint32_t child = tree->children[n->first_child + c];
			uint64_t value = tree->nodes[child].total;
			struct box *box = &f->boxes[child];
			box->start = start;
			box->drawn = f->boxes[i].drawn && value && box->depth < DEPTH_MAX &&
				     (box->folded || value > least || (value == least && ties));
			ties -= box->drawn && !box->folded && value == least;
			start += value;
			f->drawn += box->drawn && !box->folded;
			f->present += value > 0 && !box->folded;
			f->folded |= value > 0 && box->folded;
			if (box->drawn && box->depth > f->depth)
				f->depth = box->depth;
		}
	}
	return 0;
}

static void put_head(struct flame *f, const char *cmdline, struct buf *text)
{
	uint32_t height = TOP + ROW * (f->depth + 1) + BOTTOM;
	buf_printf(text,
		   "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		   "<svg xmlns=\"http://www.w3.org/2000/svg\" version=\"1.1\" width=\"%d\" "
		   "height=\"%u\" "
		   "preserveAspectRatio=\"xMinYMin meet\" "
		   "viewBox=\"0 0 %d %u\" data-width=\"%d\" data-top=\"%d\" data-depth=\"%u\" "
		   "data-total=\"%" PRIu64 "\" data-unit=\"%s\" data-flipped=\"%d\">\n",
		   WIDTH, height, WIDTH, height, WIDTH, TOP, f->depth, f->total, unit_of(f->cost),
		   f->flipped);
	buf_puts(text, "<style>\n"
		       "text{font:11px ui-monospace,Menlo,'DejaVu Sans Mono',monospace;fill:#111}\n"
		       ".title{font:600 17px system-ui,'DejaVu Sans',sans-serif}\n"
		       ".note{font:12px system-ui,'DejaVu Sans',sans-serif;fill:#555}\n"
		       ".button{font:12px system-ui,'DejaVu "
		       "Sans',sans-serif;fill:#0a58b5;display:none;cursor:pointer}\n"
		       ".live .button{display:inline}\n.live .button.off{display:none}\n"
		       ".f{cursor:pointer}\n.f text{pointer-events:none}\n"
		       ".f:hover rect{stroke:#111;stroke-width:.7}\n"
		       ".faded{opacity:.45}\n.hit rect{fill:#d63af9}\n"
		       "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#fdfcf8\"/>\n");
	buf_printf(text, "<text class=\"title\" x=\"%d\" y=\"24\">", SIDE);
	put_text(text, cmdline);
	buf_printf(text, "</text>\n<text class=\"note\" x=\"%d\" y=\"42\">%s: ", SIDE,
		   meaning_of(f->cost));
	put_amount(text, f->total, f->cost);
	if (f->folded)
		buf_puts(text, "; frames above main() are folded");
	if (f->tree->inverted)
		buf_puts(text, "; who allocates first, callers below");
	if (f->tree->cut)
		buf_printf(text, "; the outer callers of %u call paths are left out", f->tree->cut);
	if (f->drawn < f->present)
		buf_printf(text, "; %u of %u frames, too small or too deep, are not drawn",
			   f->present - f->drawn, f->present);
	buf_printf(text,
		   "</text>\n<text class=\"button reset off\" x=\"%d\" y=\"58\">Reset zoom</text>\n"
		   "<text class=\"button flip\" x=\"%d\" y=\"58\">Flip</text>\n"
		   "<text class=\"button search\" x=\"%d\" y=\"58\">Search (/)</text>\n"
		   "<text class=\"note matched\" x=\"%d\" y=\"58\"></text>\n"
		   "<text class=\"details\" x=\"%d\" y=\"%u\"></text>\n"
		   "<text class=\"facts\" x=\"%d\" y=\"%u\"></text>\n",
		   SIDE + 120, SIDE, SIDE + 40, SIDE + 200, SIDE, height - 26, SIDE, height - 10);
}

int out_flamegraph(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	CLEANUP(view_tree_freep)
	struct view_tree *tree =
		view_tree_new(prof, opt->cost, opt->inverted ? VIEW_TREE_INVERTED : 0, err);
	if (!tree)
		return err->code;
	struct flame f = { .to = to,
			   .tree = tree,
			   .cost = opt->cost,
			   .flipped = opt->inverted,
			   .total = tree->nodes[0].total };
	CLEANUP(buf_fini) struct buf text = { 0 };
	char *cmdline = out_command_line(prof);
	f.boxes = calloc(tree->count + 1, sizeof(*f.boxes));
	f.calls = calloc(tree->count + 1, sizeof(*f.calls));
	int rc = !cmdline || !f.boxes || !f.calls || measure(&f) < 0 ? -1 : 0;
	f.flipped |= f.depth > TALL; /* the page opens at its top: main belongs there */
	if (rc == 0) {
		put_head(&f, cmdline, &text);
		rc = buf_failed(&text) ? -1 : 0;
		fwrite(text.data ? text.data : "", 1, text.len, to);
	}
	for (uint32_t node = 0; rc == 0 && node < tree->count; node++)
		if (f.boxes[node].drawn && !f.boxes[node].folded)
			rc = put_frame(&f, node, &text);
	if (rc == 0)
		fprintf(to, "<script><![CDATA[\n%s]]></script>\n</svg>\n", flamegraph_js);
	free(cmdline);
	free(f.boxes);
	free(f.calls);
	buf_fini(&f.name);
	buf_fini(&f.label);
	return rc < 0 ? out_no_memory(err) : 0;
}
