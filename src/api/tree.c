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

/* "-250ms", "-30s", "-5m", "-2h": so long before now. */
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
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "ms", 1000000ull },
		      { "s", NS_PER_S },
		      { "m", 60 * NS_PER_S },
		      { "h", 3600 * NS_PER_S } };
	for (size_t i = 0; n && n <= 1000000 && i < ARRAY_LEN(units); i++) {
		if (strcmp(end, units[i].name) == 0) {
			*ns = n * units[i].ns;
			return 0;
		}
	}
	http_reply_error(reply, 400, "%s is a time before now: -250ms, -30s, -5m, -2h", key);
	return -EINVAL;
}

enum shown { SHOW_RSS, SHOW_LIVE, SHOW_GROUP };

struct question {
	enum shown view;
	/* before now; 0 = not asked for */
	uint64_t at_ns, since_ns;
	struct pages_tree_opt tree;
	int is_short, bytes;
	uint64_t pid;
};

static int parse(const struct http_request *request, struct question *q, struct http_reply *reply)
{
	uint64_t threshold = THRESHOLD_KIB, depth = 0, limit = 0;
	static const char *const views[] = {
		[SHOW_RSS] = "rss", [SHOW_LIVE] = "live", [SHOW_GROUP] = "group"
	};
	const char *view = http_request_arg(request, "view");
	while (view && q->view <= SHOW_GROUP && strcmp(view, views[q->view]) != 0)
		q->view++;
	if (q->view > SHOW_GROUP) {
		http_reply_error(reply, 400, "view is rss, live or group");
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
	if (q->view == SHOW_GROUP && q->pid) {
		http_reply_error(reply, 400, "view=group is of all targets together: no pid");
		return -EINVAL;
	}
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

static int put_live(struct page_process *to, const struct page_live *live, unsigned kind,
		    uint64_t bytes)
{
	if (!bytes)
		return 0;
	struct page_row *row = &to->rows[to->row_count++];
	*row = (struct page_row){ .bytes = bytes,
				  .kind = (uint8_t)kind,
				  .stack = page_stack_get(live->stack),
				  .reason = live->stack ? PAGES_KNOWN : PAGES_NO_FRAMES };
	to->kinds[kind] += bytes;
	return 1;
}

/* What @process caused and nobody has freed, as a process. NULL without memory. */
static struct page_process *living(const struct page_process *process)
{
	struct page_process *live = page_process_new();
	if (live)
		live->rows = calloc(process->live_count * 3 + 1, sizeof(*live->rows));
	if (!live || !live->rows) {
		page_process_put(live);
		return NULL;
	}
	live->pid = process->pid;
	live->time_ns = process->time_ns;
	live->rss_anon_bytes = process->rss_anon_bytes;
	for (size_t i = 0; i < process->live_count; i++) {
		put_live(live, &process->live[i], PAGES_ANON, process->live[i].anon_bytes);
		put_live(live, &process->live[i], PAGES_CACHE, process->live[i].cache_bytes);
		put_live(live, &process->live[i], PAGES_KERNEL, process->live[i].kernel_bytes);
	}
	return live;
}

/*
 * The process of @shot that @q is about, seen as it asks: a reference of the caller's. NULL, and no
 * @shot or no process in it: there is nothing; NULL with a reply else.
 */
static struct page_process *look(const struct question *q, const struct page_shot *shot, pid_t pid,
				 struct http_reply *reply, int *refused)
{
	const struct page_process *process = shot ? page_shot_find(shot, pid) : NULL;
	struct page_process *seen = NULL;
	if (!process)
		return NULL;
	if (q->view == SHOW_GROUP)
		return page_process_get(shot->group ? shot->group : (struct page_process *)process);
	if (q->view == SHOW_RSS)
		return page_process_get((struct page_process *)process);
	if (!process->live_count && shot->home)
		http_reply_error(reply, 400,
				 "a recording knows what was resident, not what lived: "
				 "view=rss");
	else if (!(seen = living(process)))
		http_reply_error(reply, 500, "out of memory");
	*refused = !seen;
	return seen;
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
	if ((q.at_ns && !shot) || (q.since_ns && !then))
		return;
	int refused = q.pid > INT32_MAX;
	pid_t pid = refused ? 0 : (pid_t)q.pid;
	CLEANUP(process_putp)
	struct page_process *process = refused ? NULL : look(&q, shot, pid, reply, &refused);
	if (q.pid && !process && (q.pid > INT32_MAX || !refused)) {
		http_reply_error(reply, 404, "process %llu is none of the targets",
				 (unsigned long long)q.pid);
		return;
	}
	if (refused)
		return;
	if (then && process) {
		CLEANUP(process_putp)
		struct page_process *was = look(&q, then, process->pid, reply, &refused);
		if (refused)
			return;
		struct page_process *growth = pages_growth(process, was);
		page_process_put(process);
		process = growth;
		if (!growth) {
			http_reply_error(reply, 500, "out of memory");
			return;
		}
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

size_t tree_routes(struct tree_source *source, struct http_route *routes)
{
	routes[0] = (struct http_route){ "/v1/tree", tree_route, source };
	routes[1] = (struct http_route){ "/v1/pid", tree_pid_route, source };
	routes[2] = (struct http_route){ "/openapi/memory-profiler-openapi.json",
					 tree_openapi_route, NULL };
	return TREE_ROUTES;
}
