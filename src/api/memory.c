/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c - /debug/memory: one reading in the layout that was asked for. */
#include "api/memory.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/jsonw.h"
#include "base/text.h"
#include "out/regions.h"
#include "proc/group.h"
#include "proc/text.h"

#define GROWTH_NS 600000000000ull /* what grew: in ten minutes, unless `since` says otherwise */

struct ask {
	int32_t pid;
	uint64_t top;
	enum { COMPAT, TEXT, JSON, PROM, CSV } format;
	enum { BY_ALL, BY_LABEL, BY_VMA, BY_THREAD, BY_FILE, BY_MODULE } group;
	/* with growth: from when on */
	uint64_t since_ns;
	int growth;
	enum regions_sort sort;
	int full, hide;
};

int32_t memory_arg_pid(const struct http_request *request, struct http_reply *reply)
{
	uint64_t pid = 0;
	if (http_request_u64(request, "pid", &pid, reply) < 0)
		return -1;
	if (pid > INT32_MAX) {
		http_reply_error(reply, 400, "'pid' is the number of a process");
		return -1;
	}
	return (int32_t)pid;
}

int memory_find(const struct memory_source *source, int32_t pid, struct memory_facts *facts,
		struct http_reply *reply)
{
	struct memory_facts *all = calloc(MEMORY_TARGETS_MAX, sizeof(*all));
	if (!all) {
		http_reply_error(reply, 500, "out of memory");
		return -1;
	}
	size_t count = source->facts(source->ctx, all), i = 0;
	while (pid && i < count && all[i].pid != pid)
		i++;
	if (i < count)
		*facts = all[i];
	free(all);
	if (i < count)
		return 0;
	http_reply_error(reply, 404, "process %d is not one of those watched here", (int)pid);
	return -1;
}

/*
 * One of @words by number; @value stays where the argument is absent. -EINVAL with a 400 that lists
 * them.
 */
static int arg_word(const struct http_request *request, const char *key, const char *const *words,
		    int count, int *value, struct http_reply *reply)
{
	const char *text = http_request_arg(request, key);
	char list[128] = "";
	if (!text)
		return 0;
	for (int i = 0; i < count; i++) {
		if (strcmp(text, words[i]) == 0) {
			*value = i;
			return 1;
		}
		snprintf(list + strlen(list), sizeof(list) - strlen(list), "%s%s", i ? ", " : "",
			 words[i]);
	}
	http_reply_error(reply, 400, "'%s' is one of %s, not '%.40s'", key, list, text);
	return -EINVAL;
}

static int parse(const struct http_request *request, struct ask *ask, struct http_reply *reply)
{
	static const char *const names[] = { "top", "format",    "group", "sort", "full",
					     "pid", "addresses", "since", NULL };
	static const char *const formats[] = { "text", "json", "prom", "csv" };
	static const char *const groups[] = { "all", "label", "vma", "thread", "file", "module" };
	static const char *const sorts[] = { "rss", "pss", "swap", "virtual", "growth" };
	static const char *const switches[] = { "0", "1" };
	static const char *const visible[] = { "off", "on" };
	int format = -1, group = 0, sort = 0, full = -1, addresses = 1;
	*ask = (struct ask){ .top = MEMORY_TOP_DEFAULT };
	if (http_request_only(request, names, reply) < 0)
		return -EINVAL;
	ask->pid = memory_arg_pid(request, reply);
	const char *top = http_request_arg(request, "top");
	if (ask->pid < 0)
		return -EINVAL;
	if (top) {
		char *end;
		errno = 0;
		unsigned long long n = strtoull(top, &end, 10);
		if (top[0] < '0' || top[0] > '9' || *end || errno || n > MEMORY_TOP_MAX) {
			http_reply_error(reply, 400, "'top' is a number from 0 to %d, not '%.40s'",
					 MEMORY_TOP_MAX, top);
			return -EINVAL;
		}
		ask->top = n;
	}
	if (arg_word(request, "format", formats, 4, &format, reply) < 0 ||
	    arg_word(request, "group", groups, 6, &group, reply) < 0 ||
	    arg_word(request, "sort", sorts, 5, &sort, reply) < 0 ||
	    arg_word(request, "full", switches, 2, &full, reply) < 0 ||
	    arg_word(request, "addresses", visible, 2, &addresses, reply) < 0)
		return -EINVAL;
	ask->format = format < 0 ? COMPAT : TEXT + (unsigned)format;
	ask->group = (unsigned)group;
	ask->sort = (enum regions_sort)sort;
	ask->hide = !addresses;
	uint64_t now = clock_ns(CLOCK_REALTIME);
	ask->since_ns = now > GROWTH_NS ? now - GROWTH_NS : 0;
	if (memory_arg_time(request, "since", now, &ask->since_ns, reply) < 0)
		return -EINVAL;
	ask->growth = ask->sort == REGIONS_BY_GROWTH || http_request_arg(request, "since");
	/* the known layout tells PSS, which only a full reading has */
	ask->full = full < 0 ? ask->format == COMPAT || ask->sort == REGIONS_BY_PSS : full;
	if (!ask->full && (ask->format == COMPAT || ask->sort == REGIONS_BY_PSS)) {
		http_reply_error(reply, 400,
				 "PSS stands in a full reading only: leave 'full' out, or full=1");
		return -EINVAL;
	}
	return 0;
}

int64_t *memory_growth(const struct history *history, const struct breakdown *b, uint64_t since_ns)
{
	size_t keys = history_keys(history);
	struct history_point *then = calloc(keys + 1, sizeof(*then));
	int64_t *growth = calloc(b->class_count + 1, sizeof(*growth));
	if (!then || !growth) {
		free(then);
		free(growth);
		return NULL;
	}
	memory_at(history, since_ns, then, keys);
	for (size_t i = 0; i < b->class_count; i++) {
		const struct class_row *row = &b->classes[i];
		const char *class = region_class_name(row->class);
		int key = history_find(history, class, row->label);
		/* among its class's other labels: how much of them it was is not known */
		if (key < 0 && history_find(history, class, "(other)") >= 0)
			continue;
		growth[i] = (int64_t)row->rss_bytes -
			    (int64_t)(key >= 0 && (size_t)key < keys ? then[key].rss_bytes : 0);
	}
	free(then);
	return growth;
}

struct grown {
	size_t row;
	int64_t bytes;
};

static int by_size(const void *a, const void *b)
{
	const struct grown *x = a, *y = b;
	uint64_t v = (uint64_t)llabs(x->bytes), w = (uint64_t)llabs(y->bytes);
	return v < w ? 1 : v > w ? -1 : x->row < y->row ? -1 : x->row > y->row;
}

/* The labels that changed, the largest change first. */
static void put_growth(const struct ask *ask, const struct breakdown *b, const int64_t *growth,
		       struct buf *to)
{
	struct grown *rows = malloc((b->class_count + 1) * sizeof(*rows));
	size_t count = 0;
	if (!rows) {
		to->failed = 1;
		return;
	}
	for (size_t i = 0; i < b->class_count; i++)
		if (growth[i])
			rows[count++] = (struct grown){ i, growth[i] };
	qsort(rows, count, sizeof(*rows), by_size);
	buf_printf(to, "changed since %llu\n", (unsigned long long)(ask->since_ns / NS_PER_S));
	for (size_t i = 0; i < count && i < ask->top; i++) {
		const struct class_row *row = &b->classes[rows[i].row];
		char size[TEXT_NUMBER_MAX];
		text_bytes(size, (uint64_t)llabs(rows[i].bytes));
		buf_printf(to, "%c%-12s %-18s ", rows[i].bytes < 0 ? '-' : '+', size,
			   region_class_name(row->class));
		text_escape(to, row->label, 0);
		buf_putc(to, '\n');
	}
	buf_putc(to, '\n');
	free(rows);
}

static void put_groups(const struct breakdown *b, enum regions_group by,
		       const struct regions_text_opt *opt, struct buf *to)
{
	size_t count;
	/* growth is known by label, not by file */
	enum regions_sort sort = opt->sort == REGIONS_BY_GROWTH ? REGIONS_BY_RSS : opt->sort;
	struct class_row *rows = breakdown_group(b, by, sort, &count);
	if (rows)
		regions_text_groups(to, b, rows, count, opt);
	else
		to->failed = 1;
	free(rows);
}

static void put_text(const struct ask *ask, const struct breakdown *b, const int64_t *growth,
		     struct buf *to)
{
	struct regions_text_opt opt = {
		.width = 120, .top = ask->top, .sort = ask->sort, .growth = growth
	};
	switch (ask->group) {
	case BY_ALL:
		regions_text(to, b, &opt);
		break;
	case BY_LABEL:
		opt.all_labels = 1;
		regions_text_head(to, b, &opt);
		regions_text_classes(to, b, &opt);
		break;
	case BY_VMA:
		regions_text_head(to, b, &opt);
		regions_text_mappings(to, b, &opt);
		break;
	case BY_THREAD:
		regions_text_head(to, b, &opt);
		regions_text_threads(to, b, &opt);
		break;
	case BY_FILE:
		regions_text_head(to, b, &opt);
		put_groups(b, GROUP_FILE, &opt, to);
		break;
	case BY_MODULE:
		regions_text_head(to, b, &opt);
		put_groups(b, GROUP_MODULE, &opt, to);
		break;
	}
	if (growth)
		put_growth(ask, b, growth, to);
}

/* Writers that want a stream get one in memory. */
static int put_stream(const struct ask *ask, const struct memory_shot *shot, const int64_t *growth,
		      struct buf *to, struct err *err)
{
	struct out_regions_opt opt = {
		.top = ask->top, .sort = ask->sort, .growth = growth, .no_addresses = ask->hide
	};
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	if (!stream)
		return err_set(err, -ENOMEM, "out of memory");
	int rc;
	if (ask->format == JSON) {
		struct jsonw json;
		jsonw_init(&json, stream);
		rc = out_regions_json(&json, NULL, shot->breakdown, &opt, shot->age_ns, err);
		jsonw_line(&json);
	} else {
		rc = out_regions_csv(stream, shot->breakdown, &opt, 1, err);
	}
	if (fclose(stream) != 0 && rc == 0)
		rc = err_set(err, -ENOMEM, "out of memory");
	if (rc == 0)
		buf_put(to, text, len);
	free(text);
	return rc;
}

void memory_debug(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	const struct memory_source *source = ctx;
	struct memory_shot shot;
	struct err err = { 0 };
	struct ask ask;
	if (parse(request, &ask, reply) < 0)
		return;
	ask.hide |= source->hide_addresses;
	if (ask.hide && (ask.format == COMPAT || ask.format == TEXT) && ask.group != BY_LABEL) {
		/* those layouts are rows of addresses: without them the sums are left */
		ask.top = 0;
	}
	if (ask.format == PROM) {
		reply->content_type = "text/plain; version=0.0.4; charset=utf-8";
		memory_metrics_put(source, &reply->body);
		return;
	}
	if (source->get(source->ctx, ask.pid, ask.full, &shot, &err) < 0) {
		if (err.code == -ENOENT || err.code == -ESRCH)
			http_reply_error(reply, 404, "%s", err.msg);
		else
			http_reply_error(reply, 500, "could not obtain the memory profile: %s",
					 err.msg);
		return;
	}
	int64_t *growth = NULL;
	struct memory_facts facts;
	if (ask.growth &&
	    (memory_find(source, ask.pid, &facts, reply) < 0 ||
	     !(growth = memory_growth(facts.history, shot.breakdown, ask.since_ns)))) {
		source->put(source->ctx, &shot);
		if (!reply->status || reply->status == 200)
			http_reply_error(reply, 500, "out of memory");
		return;
	}
	int rc = 0;
	if (ask.format == COMPAT) {
		char title[64];
		snprintf(title, sizeof(title), "Top %llu Memory Regions",
			 (unsigned long long)ask.top);
		regions_compat(&reply->body, shot.breakdown, ask.top, title);
	} else if (ask.format == TEXT) {
		put_text(&ask, shot.breakdown, growth, &reply->body);
	} else {
		rc = put_stream(&ask, &shot, growth, &reply->body, &err);
	}
	reply->content_type = ask.format == JSON  ? NULL
			      : ask.format == CSV ? "text/csv; charset=utf-8"
						  : "text/plain; charset=utf-8";
	source->put(source->ctx, &shot);
	free(growth);
	if (rc < 0)
		http_reply_err(reply, &err);
}
