/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bh_graph.c - small pictures of groups and mappings over time: drawn when they are asked for, not
 * with the list.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh_internal.h"
#include "base/text.h"

#define POINTS 400

struct curve {
	const struct bh_call *b;
	uint32_t stack;
	int64_t deltas[POINTS + 1];
	uint64_t looks;
	struct err *err;
};

static size_t point_of(const struct bh_call *b, uint64_t ns)
{
	size_t at = (size_t)((__uint128_t)ns * POINTS / (b->length_ns ? b->length_ns : 1));
	return at < POINTS ? at : POINTS;
}

static void add_span(struct curve *c, uint64_t from, uint64_t to, uint64_t bytes)
{
	c->deltas[point_of(c->b, from)] += (int64_t)bytes;
	if (to != BLOCK_NEVER)
		c->deltas[point_of(c->b, to)] -= (int64_t)bytes;
}

static int curve_each(void *ctx, const struct block_row *rows, size_t count)
{
	struct curve *c = ctx;
	for (size_t i = 0; i < count; i++)
		if (rows[i].stack == c->stack && bh_matches(c->b, &rows[i]))
			add_span(c, rows[i].time_ns, rows[i].freed_ns, rows[i].bytes);
	return v1_is_gone(&c->b->call, &c->looks, c->err);
}

static void put_svg(FILE *to, const struct curve *c, int preview)
{
	int width = preview ? 400 : 1200, height = preview ? 100 : 400;
	int left = preview ? 0 : 80, bottom = preview ? 0 : 24;
	int64_t now = 0, most = 1;
	char text[TEXT_NUMBER_MAX];
	for (size_t i = 0; i <= POINTS; i++) {
		now += c->deltas[i];
		most = now > most ? now : most;
	}
	fprintf(to,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 "
		"0 %d "
		"%d\"><rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/><path fill=\"#7dc3fc\" "
		"d=\"M%d %d",
		width, height, width, height, width, height, left, height - bottom);
	now = 0;
	for (size_t i = 0; i <= POINTS; i++) {
		now += c->deltas[i];
		fprintf(to, "L%.1f %.1f", left + (double)(width - left) * (double)i / POINTS,
			(double)(height - bottom) * (1 - 0.96 * (double)now / (double)most));
	}
	fprintf(to, "L%d %dZ\"/>", width, height - bottom);
	if (!preview)
		fprintf(to,
			"<g font-family=\"system-ui,sans-serif\" font-size=\"12\" "
			"fill=\"#14181f\"><text "
			"x=\"%d\" y=\"20\" text-anchor=\"end\">%s</text><text x=\"%d\" y=\"%d\">0 "
			"s</text><text x=\"%d\" y=\"%d\" text-anchor=\"end\">%.3f s</text></g>",
			left - 6, text_bytes(text, (uint64_t)most), left, height - 6, width - 4,
			height - 6, (double)c->b->length_ns / 1e9);
	fputs("</svg>\n", to);
}

int bh_graph(struct bh_call *b, const char *what, struct err *err)
{
	struct curve c = { .b = b, .err = err };
	int of_map = strncmp(what, "map/", 4) == 0;
	const char *digits = of_map ? what + 4 : strncmp(what, "group/", 6) == 0 ? what + 6 : "";
	const char *preview = bh_arg(b, "preview");
	char *end;
	uint64_t number = strtoull(digits, &end, 10);
	const struct v1_map *maps;
	size_t count;
	int rc = 0;
	if (*digits < '0' || *digits > '9' || *end)
		return err_set(err, -ENOENT, "there is no graph '%.40s'", what);
	if (of_map) {
		rc = v1_maps_get(&b->call, &maps, &count, err);
		if (rc)
			return rc < 0 ? rc : err_set(err, -EAGAIN, "not yet");
		if (number >= count)
			return err_set(err, -ENOENT, "there is no mapping %.20s", digits);
		add_span(&c, maps[number].made_ns, maps[number].gone_ns, maps[number].bytes);
	} else {
		if (number >= prof_stack_count(b->names))
			return err_set(err, -ENOENT, "there is no stack %.20s", digits);
		c.stack = (uint32_t)number;
		rc = blocks_scan(b->blocks, curve_each, &c, err);
	}
	if (rc == 0) {
		b->call.reply->content_type = "image/svg+xml";
		b->call.reply->policy = "default-src 'none'; sandbox";
		put_svg(b->call.json.to, &c, preview != NULL);
	}
	return rc;
}

void bh_put_graphs(struct jsonw *json, const struct bh_call *b, const char *what, uint64_t number)
{
	const char *wanted = bh_arg(b, "generate_graphs");
	char id[33];
	if (!wanted || (strcmp(wanted, "true") != 0 && strcmp(wanted, "1") != 0))
		return;
	int matched = strcmp(what, "group") == 0, whole = strcmp(what, "all") == 0;
	bh_data_id(b->call.shelf, b->call.source, id);
	for (int preview = 0; preview < 2; preview++) {
		CLEANUP(buf_fini) struct buf url = { 0 };
		buf_printf(&url, "/data/%s/graph/%s/%llu?%s", id, whole ? "group" : what,
			   (unsigned long long)number, preview ? "preview=1" : "full=1");
		if (matched)
			bh_put_filter(&url, b);
		jsonw_str(json, preview ? "graph_preview_url" : "graph_url", buf_cstr(&url));
	}
}
