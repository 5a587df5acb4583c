/* SPDX-License-Identifier: Apache-2.0 */
#include "out/growth.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "view/growth.h"

#define LABEL_SHOWN 40

/* "+1.21 MiB", "-4.00 KiB", "" for nothing. */
static const char *change(char to[TEXT_NUMBER_MAX + 1], int64_t bytes)
{
	to[0] = '\0';
	if (bytes) {
		to[0] = bytes < 0 ? '-' : '+';
		text_bytes(to + 1, (uint64_t)llabs(bytes));
	}
	return to;
}

static void put_name(FILE *to, const struct history_key *key, int ascii)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	text_escape(&name, key->class, ascii);
	buf_puts(&name, "/");
	text_escape(&name, key->label, ascii);
	const char *text = buf_cstr(&name);
	fprintf(to, "%.*s", (int)text_fit(text, LABEL_SHOWN), text);
}

/* The label that changed most since the sample before. */
static void put_mover(FILE *to, const struct history *history, uint64_t time_ns, uint64_t before_ns,
		      int ascii)
{
	size_t keys = history_keys(history), most = 0;
	struct history_point *now = calloc(keys, sizeof(*now)), *then = calloc(keys, sizeof(*then));
	int64_t delta = 0;
	char text[TEXT_NUMBER_MAX + 1];
	if (now && then && history_at(history, time_ns, now, keys) == 0 &&
	    history_at(history, before_ns, then, keys) == 0) {
		for (size_t i = 1; i < keys; i++) {
			/* what is no part of RSS explains no change of it */
			if (!history_adds_up(history_key(history, i).class))
				continue;
			int64_t d = (int64_t)(now[i].rss_bytes - then[i].rss_bytes);
			if (llabs(d) > llabs(delta)) {
				delta = d;
				most = i;
			}
		}
	}
	free(now);
	free(then);
	if (!most)
		return;
	struct history_key key = history_key(history, most);
	fprintf(to, "  %s ", change(text, delta));
	put_name(to, &key, ascii);
}

void out_look_text(FILE *to, const struct out_look *look)
{
	char rss[TEXT_NUMBER_MAX], delta[TEXT_NUMBER_MAX + 1], swap[TEXT_NUMBER_MAX], clock[16];
	time_t seconds = (time_t)(look->time_ns / NS_PER_S);
	struct tm tm;
	strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&seconds, &tm));
	if (look->is_first)
		fprintf(to, "%-8s %s %10s %11s %10s %8s  what changed most\n", "time",
			look->pid ? "    pid" : "", "RSS", "change", "swap", "mappings");
	fprintf(to, "%s ", clock);
	if (look->pid)
		fprintf(to, "%7d", (int)look->pid);
	fprintf(to, " %10s %11s %10s %8llu", text_bytes(rss, look->rss_bytes),
		change(delta, (int64_t)(look->rss_bytes - look->before_bytes)),
		text_bytes(swap, look->swap_bytes), (unsigned long long)look->mappings);
	put_mover(to, look->history, look->time_ns,
		  look->time_ns > 1000000 ? look->time_ns - 1000000 : 0, look->ascii);
	fputc('\n', to);
}

/* ---- growth ---------------------------------------------------------------------------------- */

struct grown {
	size_t key;
	struct growth growth;
};

static int by_growth(const void *a, const void *b)
{
	const struct growth *x = &((const struct grown *)a)->growth,
			    *y = &((const struct grown *)b)->growth;
	int64_t dx = (int64_t)(x->last_bytes - x->first_bytes),
		dy = (int64_t)(y->last_bytes - y->first_bytes);
	if (llabs(dx) != llabs(dy))
		return llabs(dx) < llabs(dy) ? 1 : -1;
	return x->high_bytes < y->high_bytes ? 1 : x->high_bytes > y->high_bytes ? -1 : 0;
}

static int by_last(const void *a, const void *b)
{
	uint64_t x = ((const struct grown *)a)->growth.last_bytes,
		 y = ((const struct grown *)b)->growth.last_bytes;
	return x < y ? 1 : x > y ? -1 : by_growth(a, b);
}

static void put_growth(FILE *to, const struct history *history, const struct grown *g,
		       uint64_t limit_bytes, int ascii)
{
	char first[TEXT_NUMBER_MAX], last[TEXT_NUMBER_MAX], high[TEXT_NUMBER_MAX],
		rate[TEXT_NUMBER_MAX + 1], eta[TEXT_NUMBER_MAX];
	int trend = g->growth.verdict == GROWTH_GROWING || g->growth.verdict == GROWTH_SHRINKING;
	struct history_key key = history_key(history, g->key);
	fprintf(to, "%10s %10s %10s %13s  %-9s ", text_bytes(first, g->growth.first_bytes),
		text_bytes(last, g->growth.last_bytes), text_bytes(high, g->growth.high_bytes),
		trend ? change(rate, (int64_t)(g->growth.bytes_per_second * 3600)) : "",
		view_growth_word(g->growth.verdict));
	if (g->key)
		put_name(to, &key, ascii);
	else
		fprintf(to, "the process");
	double seconds =
		g->key || !limit_bytes ? INFINITY : view_growth_eta(&g->growth, limit_bytes);
	if (isfinite(seconds) && seconds < 1e9)
		fprintf(to, ", at its limit of %s in %s", text_bytes(high, limit_bytes),
			text_duration(eta, (uint64_t)(seconds * 1e9)));
	fputc('\n', to);
}

int out_growth_text(FILE *to, const struct history *history, const struct out_growth_opt *opt,
		    struct err *err)
{
	size_t keys = history_keys(history), count = 0;
	struct grown *all = calloc(keys, sizeof(*all));
	int rc = all ? 0 : -ENOMEM;
	for (size_t next = 0; next < keys && rc == 0;) {
		struct history_line lines[HISTORY_LINES_MAX];
		size_t n = 0;
		for (; n < HISTORY_LINES_MAX && next < keys; n++)
			lines[n].number = next++;
		rc = history_lines(history, lines, n, 0, UINT64_MAX);
		for (size_t i = 0; i < n && rc == 0; i++) {
			all[count].key = lines[i].number;
			rc = view_growth(lines[i].points, lines[i].count, &all[count].growth);
			count += all[count].growth.high_bytes != 0 &&
				 strcmp(lines[i].key.class, HISTORY_CLASS_KIND) != 0;
		}
		history_lines_fini(lines, n);
	}
	if (rc < 0) {
		free(all);
		return err_set(err, rc, "cannot judge the growth");
	}
	char span[TEXT_NUMBER_MAX];
	size_t first = count && all[0].key == 0;
	if (count > first)
		qsort(all + first, count - first, sizeof(*all), opt->by_rss ? by_last : by_growth);
	fprintf(to, "%10s %10s %10s %13s  %-9s over %s\n", "first", "last", "highest", "per hour",
		"trend", text_duration(span, count ? all[0].growth.span_ns : 0));
	for (size_t i = 0; i < count && i < opt->rows + first; i++)
		put_growth(to, history, &all[i], opt->limit_bytes, opt->ascii);
	if (count > opt->rows + first)
		fprintf(to, "%10s %zu more\n", "...", count - opt->rows - first);
	free(all);
	return 0;
}
