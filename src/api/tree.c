/* SPDX-License-Identifier: Apache-2.0 */
#include "api/tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/memory-profiler-openapi.h"
#include "base/clock.h"
#include "base/jsonw.h"
#include "view/pages.h"

#define THRESHOLD_KIB 256
#define KIB_MAX (UINT64_MAX >> 11)

struct emission {
	FILE *to;
	const struct page_module *program;
	uint64_t unit;
};

/* Trees nest deeper than the house's JSON writer does: brackets are put by hand, texts by it. */
static void put_text(struct emission *e, const char *key, const char *text)
{
	struct jsonw json;
	fprintf(e->to, "\"%s\":", key);
	jsonw_init(&json, e->to);
	jsonw_str(&json, NULL, text);
}

static void put_values(struct emission *e, uint64_t bytes, uint64_t cache_bytes)
{
	fprintf(e->to, "\"value\":%llu,\"cacheValue\":%llu", (unsigned long long)(bytes / e->unit),
		(unsigned long long)(cache_bytes / e->unit));
}

static void put_name(struct emission *e, const struct pages_node *node)
{
	fprintf(e->to, "\"name\":{\"offset\":\"%08x\",", (unsigned)node->frame->file_offset);
	put_text(e, "executable", node->frame->module->name);
	fputc(',', e->to);
	put_text(e, "functionName", node->symbol ? node->symbol->function : NULL);
	fprintf(e->to, ",\"functionCategory\":\"%s\"},",
		pages_category(node->frame, node->symbol, e->program));
}

static void put_pseudo(struct emission *e, const char *name, uint64_t bytes, uint64_t cache_bytes,
		       int first)
{
	if (!bytes)
		return;
	fprintf(e->to, "%s{\"name\":\"%s\",", first ? "" : ",", name);
	put_values(e, bytes, cache_bytes);
	fputc('}', e->to);
}

/* As deep as stacks are with what is inlined: some thousand levels at most. */
static void put_node(struct emission *e, const struct pages_node *node)
{
	fputc('{', e->to);
	if (node->frame)
		put_name(e, node);
	put_values(e, node->bytes, node->cache_bytes);
	if (node->frame)
		fprintf(e->to, ",\"selfValue\":%llu,\"id\":\"%08x\"",
			(unsigned long long)(node->self_bytes / e->unit), node->id);
	fputs(",\"frames\":[", e->to);
	for (uint32_t i = 0; i < node->count; i++) {
		if (i)
			fputc(',', e->to);
		put_node(e, node->children[i]);
	}
	put_pseudo(e, "underThreshold", node->under_bytes, node->under_cache_bytes, !node->count);
	put_pseudo(e, "unknown", node->unknown_bytes, node->unknown_cache_bytes,
		   !node->count && !node->under_bytes);
	fputs("]}", e->to);
}

static int parse_kinds(const char *text, uint32_t *kinds, struct http_reply *reply)
{
	for (const char *at = text; at && *at;) {
		size_t len = strcspn(at, ",");
		unsigned kind = 0;
		while (kind < PAGES_KINDS && (strlen(pages_kind_name(kind)) != len ||
					      strncmp(pages_kind_name(kind), at, len) != 0))
			kind++;
		if (kind == PAGES_KINDS && (len != 3 || strncmp(at, "all", 3) != 0)) {
			http_reply_error(reply, 400,
					 "kind is made of anon, shmem, file, swap, hugetlb, cache, "
					 "kernel, held or all");
			return -EINVAL;
		}
		*kinds |= kind == PAGES_KINDS ? (1u << PAGES_KINDS) - 1 : 1u << kind;
		at += len + (at[len] == ',');
	}
	return 0;
}

/* One of two words. Return: 1 for the second, 0 for the first or none, -EINVAL with a 400. */
static int parse_word(const struct http_request *request, const char *key, const char *first,
		      const char *second, struct http_reply *reply)
{
	const char *word = http_request_arg(request, key);
	if (!word || strcmp(word, first) == 0)
		return 0;
	if (strcmp(word, second) == 0)
		return 1;
	http_reply_error(reply, 400, "%s is %s or %s", key, first, second);
	return -EINVAL;
}

/* "-30s", "-5m", "-2h": so long before now. */
static int parse_ago(const struct http_request *request, const char *key, uint64_t *ns,
		     struct http_reply *reply)
{
	const char *text = http_request_arg(request, key);
	char *end;
	if (!text)
		return 0;
	unsigned long long n = text[0] == '-' && text[1] >= '0' && text[1] <= '9'
				       ? strtoull(text + 1, &end, 10)
				       : 0;
	uint64_t unit = !n ? 0 : *end == 's' ? 1 : *end == 'm' ? 60 : *end == 'h' ? 3600 : 0;
	if (!unit || end[1] || n > 1000000) {
		http_reply_error(reply, 400, "%s is a time before now: -30s, -5m, -2h", key);
		return -EINVAL;
	}
	*ns = n * unit * 1000000000u;
	return 0;
}

struct question {
	uint64_t at_ns, since_ns; /* before now; 0 = not asked for */
	struct pages_tree_opt tree;
	int is_short, bytes;
	uint64_t pid;
};

static int parse(const struct http_request *request, struct question *q, struct http_reply *reply)
{
	uint64_t threshold = THRESHOLD_KIB, depth = 0, limit = 0;
	if (http_request_arg(request, "view")) {
		http_reply_error(reply, 400, "'view' is not known here: values are those of RSS");
		return -EINVAL;
	}
	if (parse_ago(request, "at", &q->at_ns, reply) < 0 ||
	    parse_ago(request, "since", &q->since_ns, reply) < 0)
		return -EINVAL;
	if (http_request_u64(request, "threshold", &threshold, reply) < 0 ||
	    http_request_bool(request, "reverse", &q->tree.reverse, reply) < 0 ||
	    http_request_bool(request, "short", &q->is_short, reply) < 0 ||
	    http_request_u64(request, "pid", &q->pid, reply) < 0 ||
	    http_request_u64(request, "depth", &depth, reply) < 0 ||
	    http_request_u64(request, "limit", &limit, reply) < 0 ||
	    (q->tree.by_site = parse_word(request, "merge", "function", "site", reply)) < 0 ||
	    (q->bytes = parse_word(request, "unit", "kib", "bytes", reply)) < 0)
		return -EINVAL;
	q->tree.threshold_bytes = (threshold < KIB_MAX ? threshold : KIB_MAX) * 1024;
	q->tree.depth = depth < 1000000 ? (unsigned)depth : 1000000;
	q->tree.limit = limit;
	return parse_kinds(http_request_arg(request, "kind"), &q->tree.kinds, reply);
}

static void put_short(struct emission *e, const struct page_shot *shot,
		      const struct page_process *p)
{
	uint64_t sum = 0, cache = 0, missing = 0, lost = 0, now = clock_ns(CLOCK_MONOTONIC);
	for (unsigned kind = 0; p && kind < PAGES_KINDS; kind++) {
		sum += PAGES_TREE_KINDS >> kind & 1 ? p->kinds[kind] : 0;
		cache += PAGES_TREE_KINDS >> kind & 1 && pages_kind_is_cache(kind) ? p->kinds[kind]
										   : 0;
	}
	for (unsigned i = 1; p && i < PAGES_REASONS; i++)
		missing += p->unattributed[i];
	for (unsigned i = 0; shot && i < PAGES_LOSSES; i++)
		lost += i == PAGES_LOST_MISSED ? 0 : shot->lost[i];
	uint64_t anon = p && p->rss_anon_bytes != PAGES_UNKNOWN ? p->rss_anon_bytes : 0;
	const struct {
		const char *key;
		uint64_t value;
	} values[] = { { "total", sum / e->unit },
		       { "cache", cache / e->unit },
		       { "anon", (sum - cache) / e->unit },
		       { "systemReportAnon", anon / e->unit },
		       { "file", p ? p->kinds[PAGES_FILE] / e->unit : 0 },
		       { "shmem", p ? p->kinds[PAGES_SHMEM] / e->unit : 0 },
		       { "kernel", p ? p->kinds[PAGES_KERNEL] / e->unit : 0 },
		       { "unattributed", missing / e->unit },
		       { "lost", lost },
		       { "age", p && now > p->time_ns ? (now - p->time_ns) / 1000000 : 0 } };
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		fprintf(e->to, "%s\"%s\":%llu", i ? "," : "{", values[i].key,
			(unsigned long long)values[i].value);
	fputc('}', e->to);
}

/* The main executable: that of most stacks is that of the largest. */
static const struct page_module *program_of(const struct page_process *p)
{
	for (size_t i = 0; p && i < p->row_count; i++)
		if (p->rows[i].stack && p->rows[i].stack->pid == p->pid &&
		    p->rows[i].stack->program)
			return p->rows[i].stack->program;
	return NULL;
}

static int answer(FILE *to, const struct question *q, const struct page_shot *shot,
		  const struct page_process *process, struct err *err)
{
	struct emission e = { .to = to,
			      .program = program_of(process),
			      .unit = q->bytes ? 1 : 1024 };
	if (q->is_short) {
		put_short(&e, shot, process);
		return 0;
	}
	CLEANUP(pages_tree_freep)
	struct pages_tree *tree = pages_tree_new(process, &q->tree, err);
	if (!tree)
		return err->code;
	put_node(&e, pages_tree_root(tree));
	return 0;
}

static int by_stack(const void *a, const void *b)
{
	const struct page_row *x = *(const struct page_row *const *)a,
			      *y = *(const struct page_row *const *)b;
	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->reason != y->reason)
		return x->reason < y->reason ? -1 : 1;
	return x->stack ? 0 : strcmp(x->label ? x->label : "", y->label ? y->label : "");
}

/* What @now has more than @then, as a process; what became less is left out. NULL without memory. */
static struct page_process *grown(const struct page_process *now, const struct page_process *then)
{
	struct page_process *growth = page_process_new();
	const struct page_row **before = calloc(then ? then->row_count + 1 : 1, sizeof(*before));
	if (growth)
		growth->rows = calloc(now->row_count + 1, sizeof(*growth->rows));
	if (!growth || !before || !growth->rows) {
		free(before);
		page_process_put(growth);
		return NULL;
	}
	size_t count = then ? then->row_count : 0;
	for (size_t i = 0; i < count; i++)
		before[i] = &then->rows[i];
	if (count)
		qsort(before, count, sizeof(*before), by_stack);
	growth->pid = now->pid;
	for (size_t i = 0; i < now->row_count; i++) {
		const struct page_row *row = &now->rows[i];
		const struct page_row **was =
			count ? bsearch(&row, before, count, sizeof(*before), by_stack) : NULL;
		uint64_t bytes = was ? (*was)->bytes : 0;
		if (row->bytes <= bytes)
			continue;
		struct page_row *more = &growth->rows[growth->row_count++];
		*more = *row;
		more->bytes = row->bytes - bytes;
		more->label = row->label ? strdup(row->label) : NULL;
		page_stack_get(row->stack);
		growth->kinds[row->kind] += more->bytes;
	}
	free(before);
	return growth;
}

static struct page_shot *past(const struct tree_source *source, uint64_t ago_ns, const char *key,
			      struct http_reply *reply)
{
	struct page_shot *shot = source->lend_past ? source->lend_past(source->ctx, ago_ns) : NULL;
	if (!shot)
		http_reply_error(reply, 404, "no reading is as old as '%s' asks for", key);
	return shot;
}

static void process_putp(struct page_process **process)
{
	page_process_put(*process);
}

void tree_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	const struct tree_source *source = ctx;
	struct question q = { 0 };
	struct err err = { 0 };
	if (parse(request, &q, reply) < 0)
		return;
	CLEANUP(page_shot_putp)
	struct page_shot *shot =
		q.at_ns ? past(source, q.at_ns, "at", reply) : source->lend(source->ctx);
	CLEANUP(page_shot_putp)
	struct page_shot *then =
		q.since_ns && (shot || !q.at_ns) ? past(source, q.since_ns, "since", reply) : NULL;
	CLEANUP(process_putp) struct page_process *growth = NULL;
	if ((q.at_ns && !shot) || (q.since_ns && !then))
		return;
	const struct page_process *process =
		shot && q.pid <= INT32_MAX ? page_shot_find(shot, (pid_t)q.pid) : NULL;
	if (q.pid && !process) {
		http_reply_error(reply, 404, "process %llu is none of the targets",
				 (unsigned long long)q.pid);
		return;
	}
	if (then && process) {
		growth = grown(process, page_shot_find(then, process->pid));
		if (!growth) {
			http_reply_error(reply, 500, "out of memory");
			return;
		}
		process = growth;
	}
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	int rc = to ? answer(to, &q, shot, process, &err) : err_set(&err, -ENOMEM, "cannot answer");
	if (to && fclose(to) != 0 && !rc)
		rc = err_set(&err, -ENOMEM, "cannot answer");
	if (rc < 0)
		http_reply_err(reply, &err);
	else
		buf_put(&reply->body, text, len);
	free(text);
}

void tree_pid_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	const struct tree_source *source = ctx;
	(void)request;
	CLEANUP(page_shot_putp) struct page_shot *shot = source->lend(source->ctx);
	const struct page_process *process = shot ? page_shot_find(shot, 0) : NULL;
	buf_printf(&reply->body, "%d", process ? (int)process->pid : 0);
}

void tree_openapi_route(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)ctx;
	(void)request;
	buf_put(&reply->body, memory_profiler_openapi, sizeof(memory_profiler_openapi) - 1);
}
