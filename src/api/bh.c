/* SPDX-License-Identifier: Apache-2.0 */
/* bh.c - which recording, which endpoint; readings that endpoints need. */
#include "api/bh.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh_internal.h"
#include "base/intern.h"
#include "out/formats.h"

/* ---- what is read ---------------------------------------------------------------------------- */

/** count_frames() - in how many allocating stacks each frame stands. */
static int count_frames(struct bh_call *b, struct err *err)
{
	const struct book *book = b->rows->book;
	b->frame_count = calloc((size_t)prof_frame_count(b->names) + 1, sizeof(*b->frame_count));
	if (!b->frame_count)
		return err_set(err, -ENOMEM, "cannot count the frames");
	for (uint32_t i = 0; i < book->count; i++) {
		struct stack_id at = { book->stacks[i] };
		for (; at.v; at = prof_stack(b->names, at)->parent)
			b->frame_count[prof_stack(b->names, at)->frame.v]++;
	}
	return 0;
}

static int get_ready(struct bh_call *b, struct err *err)
{
	int rc = v1_blocks_get(&b->call, &b->blocks, err);
	if (rc == 0) {
		b->rows = b->call.reading;
		b->call.reading = NULL;
		rc = v1_groups_get(&b->call, b->rows, &b->sums, err);
	}
	if (rc)
		return rc < 0 ? rc : err_set(err, -EAGAIN, "not yet");
	b->names = b->rows->book->names;
	b->groups = b->sums->product.data;
	const struct prof_process *process = prof_process(b->names);
	b->start_ns = process ? process->start_realtime_ns : 0;
	b->length_ns = b->rows->totals.runtime_ns;
	for (uint32_t i = 1; i < prof_module_count(b->names); i++)
		b->has_jemalloc |= strncmp(prof_module(b->names, (struct module_id){ i })->name,
					   "libjemalloc", 11) == 0;
	const char *strip = bh_arg(b, "strip_template_args");
	b->strip = strip && (strcmp(strip, "true") == 0 || strcmp(strip, "1") == 0);
	rc = count_frames(b, err);
	if (rc == 0)
		rc = bh_filter_parse(b, err);
	return rc == 0 && bh_arg(b, "custom_filter") ? bh_custom(b, err) : rc;
}

static void let_go(struct bh_call *b)
{
	bh_filter_fini(&b->filter);
	script_bits_free(b->custom, b->custom_count);
	free(b->frame_count);
	ask_fini(&b->call.ask);
	shelf_put(b->call.shelf, b->whole);
	shelf_put(b->call.shelf, b->rows);
	shelf_put(b->call.shelf, b->sums);
	shelf_put(b->call.shelf, b->call.reading);
}

/* ---- which recording ------------------------------------------------------------------------- */

void bh_data_id(const struct shelf *shelf, size_t source, char to[33])
{
	const char *path = shelf_at(shelf, source)->path;
	snprintf(to, 33, "%016llx%016llx",
		 (unsigned long long)hash_bytes(path, strlen(path), 0x6279746568),
		 (unsigned long long)hash_bytes(path, strlen(path), 0x6f756e64));
}

/** find_source() - of "ID/rest" or "last/rest"; @rest receives what follows. -1: there is none. */
static long find_source(const struct shelf *shelf, const char *tail, const char **rest)
{
	size_t len = strcspn(tail, "/"), count = shelf_count(shelf);
	char id[33];
	*rest = tail[len] ? tail + len + 1 : tail + len;
	if (len == 4 && strncmp(tail, "last", 4) == 0)
		return (long)count - 1;
	for (size_t i = 0; i < count && len == 32; i++) {
		bh_data_id(shelf, i, id);
		if (strncmp(id, tail, 32) == 0)
			return (long)i;
	}
	return -1;
}

static int put_listed(struct jsonw *json, struct bh_call *b)
{
	const struct book *book = b->whole->book;
	const struct prof_process *p = prof_process(book->names);
	const struct prof_totals *t = &b->whole->totals;
	CLEANUP(buf_fini) struct buf cmdline = { 0 };
	uint32_t depth = 0;
	char id[33];
	for (uint32_t i = 0; i < book->count; i++) {
		uint32_t d = prof_stack(book->names, (struct stack_id){ book->stacks[i] })->depth;
		depth = d > depth ? d : depth;
	}
	for (size_t i = 0; p && p->cmdline && i < p->cmdline_bytes; i++)
		buf_putc(&cmdline, p->cmdline[i] ? p->cmdline[i] : ' ');
	while (cmdline.len && cmdline.data[cmdline.len - 1] == ' ')
		cmdline.len--;
	bh_data_id(b->call.shelf, b->call.source, id);
	b->start_ns = p ? p->start_realtime_ns : 0;
	jsonw_object(json, NULL);
	jsonw_str(json, "id", id);
	jsonw_str(json, "executable", p && p->exe ? p->exe : "");
	jsonw_strn(json, "cmdline", cmdline.data ? cmdline.data : "", cmdline.len);
	jsonw_str(json, "architecture", "x86_64");
	jsonw_u64(json, "final_allocated", t->cost.leaked_bytes + t->cost.uncertain_bytes);
	jsonw_u64(json, "final_allocated_count", t->cost.leaked + t->cost.uncertain);
	bh_put_span(json, "runtime", t->runtime_ns);
	jsonw_u64(json, "unique_backtrace_count", t->stacks);
	jsonw_u64(json, "maximum_backtrace_depth", depth);
	bh_put_time(json, "timestamp", b, 0);
	jsonw_object_end(json);
	return 0;
}

static int answer_list(struct bh_call *b, struct err *err)
{
	jsonw_array(&b->call.json, NULL);
	for (size_t i = shelf_count(b->call.shelf); i-- > 0;) { /* newest first */
		const struct shelf_query query = { .source = i, .key = "" };
		b->call.source = i;
		struct err failed = { 0 };
		if (v1_reading(&b->call, &query, &b->whole, &failed) == 0)
			put_listed(&b->call.json, b);
		shelf_put(b->call.shelf, b->whole);
		b->whole = NULL;
	}
	jsonw_array_end(&b->call.json);
	(void)err;
	return 0;
}

/* ---- endpoints ------------------------------------------------------------------------------- */

static const char statics[] =
	"_GLOBAL__(sub_)?I_|__static_initialization_and_destruction|^__cxx_global_var_init";
static const char constants[] = "(_GLOBAL__(sub_)?I_|__static_initialization).*constprop";

static int is(const char *path, const char *name)
{
	size_t len = strlen(name);
	return strncmp(path, name, len) == 0 && (!path[len] || path[len] == '/');
}

/** as_query() - the filter words that an export can follow, as those of a selection. */
static int as_query(struct bh_call *b, struct err *err)
{
	static const char *const others[] = { "alive_at_2",
					      "chain_lifetime_min",
					      "chain_lifetime_max",
					      "first_size_min",
					      "first_size_max",
					      "last_size_min",
					      "last_size_max",
					      "address_min",
					      "address_max",
					      "backtrace_depth_min",
					      "backtrace_depth_max",
					      "backtraces",
					      "deallocation_backtraces",
					      "source_regex",
					      "negative_function_regex",
					      "negative_source_regex",
					      "group_interval_min",
					      "group_interval_max",
					      "group_allocations_min",
					      "group_allocations_max",
					      "group_leaked_allocations_min",
					      "group_leaked_allocations_max",
					      "chain_length_min",
					      "chain_length_max",
					      "position_in_chain_min",
					      "position_in_chain_max",
					      "mmaped",
					      "arena",
					      "jemalloc" };
	const struct bh_filter *f = &b->filter;
	struct ask *ask = &b->call.ask;
	CLEANUP(buf_fini) struct buf key = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(others); i++)
		if (bh_arg(b, others[i]))
			return err_set(err, -EINVAL, "an export cannot follow '%s'", others[i]);
	if (f->life == BH_CHAIN_LEAKED || f->life == BH_WHOLE_GROUP_LEAKED ||
	    f->life == BH_TEMPORARY)
		return err_set(err, -EINVAL,
			       "an export follows lifetime=all and only_leaked alone");
	struct query *q = &ask->query;
	q->leaked = f->life == BH_LEAKED;
	q->min_size = f->size.min;
	q->has_max_size = f->size.max != UINT64_MAX;
	q->max_size = f->size.max;
	q->has_lifetime_min = f->lifetime.min != 0;
	q->lifetime_min_ns = f->lifetime.min;
	q->has_lifetime_max = f->lifetime.max != UINT64_MAX;
	q->lifetime_max_ns = f->lifetime.max;
	q->function_regex = bh_arg(b, "function_regex");
	if (f->time.min)
		q->from = (struct query_time){ QUERY_TIME_START_NS, f->time.min };
	if (f->time.max != UINT64_MAX)
		q->to = (struct query_time){ QUERY_TIME_START_NS, f->time.max + 1 };
	if (f->has_alive[0])
		q->at = (struct query_time){ QUERY_TIME_START_NS, f->alive_at[0] };
	if (!query_is_empty(q))
		buf_printf(&key, "bh %d %llu %llu %llu %llu %llu %llu %d %llu %s", q->leaked,
			   (unsigned long long)f->size.min, (unsigned long long)f->size.max,
			   (unsigned long long)f->lifetime.min, (unsigned long long)f->lifetime.max,
			   (unsigned long long)f->time.min, (unsigned long long)f->time.max,
			   f->has_alive[0], (unsigned long long)f->alive_at[0],
			   q->function_regex ? q->function_regex : "");
	ask->reading = buf_take(&key);
	return ask->reading ? 0 : err_set(err, -ENOMEM, "cannot export");
}

static int answer_export(struct bh_call *b, const char *name, struct err *err)
{
	size_t len = strcspn(name, "/");
	const char *format = len == 10 && strncmp(name, "flamegraph", len) == 0      ? "flamegraph"
			     : len == 13 && strncmp(name, "flamegraph.pl", len) == 0 ? "folded"
			     : len == 9 && strncmp(name, "heaptrack", len) == 0      ? "heaptrack"
										     : NULL;
	int replays = len == 6 && strncmp(name, "replay", len) == 0;
	if (!format && !replays)
		return err_set(err, -ENOENT, "there is no export '%.40s'", name);
	b->call.ask.cost = VIEW_COST_ALLOCATED;
	int rc = as_query(b, err);
	return rc < 0 ? rc
		      : v1_export_as(&b->call,
				     replays ? &out_format_replay : out_format_find(format), err);
}

static int answer(struct bh_call *b, const char *path, struct http_reply *reply, struct err *err)
{
	size_t len;
	const char *body = http_request_body(b->call.request, &len);
	if (body && strcmp(path, "execute_script") != 0)
		return err_set(err, -EINVAL, "only a script is POSTed, to execute_script");
	if (strncmp(path, "script_files/", 13) == 0)
		return bh_script_file(b, path + 13, err);
	if (strcmp(path, "allocation_filter_to_script") == 0)
		return bh_filter_to_script(b, 0, err);
	if (strcmp(path, "map_filter_to_script") == 0)
		return bh_filter_to_script(b, 1, err);
	b->wants_maps = strcmp(path, "maps") == 0;
	int rc = get_ready(b, err);
	int text = is(path, "allocation_ascii_tree") || strstr(path, "_ascii_tree");
	if (rc < 0)
		return rc;
	if (text)
		reply->content_type = "text/plain; charset=utf-8";
	if (strcmp(path, "allocations") == 0)
		return bh_allocations(b, err);
	if (strcmp(path, "allocation_groups") == 0)
		return bh_allocation_groups(b, err);
	if (strcmp(path, "timeline") == 0 || strcmp(path, "timeline_leaked") == 0)
		return bh_timeline(b, path[8] != '\0', err);
	if (strcmp(path, "timeline_maps") == 0)
		return bh_timeline_maps(b, err);
	if (strcmp(path, "backtraces") == 0)
		return bh_backtraces(b, err);
	if (strncmp(path, "backtrace/", 10) == 0)
		return bh_backtrace(b, path + 10, err);
	if (strcmp(path, "tree") == 0 || is(path, "allocation_ascii_tree"))
		return bh_tree(b, NULL, text, err);
	if (is(path, "dynamic_statics") || is(path, "dynamic_statics_ascii_tree"))
		return bh_tree(b, statics, text, err);
	if (is(path, "dynamic_constants") || is(path, "dynamic_constants_ascii_tree"))
		return bh_tree(b, constants, text, err);
	if (strncmp(path, "export/", 7) == 0)
		return answer_export(b, path + 7, err);
	if (strcmp(path, "maps") == 0)
		return bh_maps(b, err);
	if (strcmp(path, "regions") == 0)
		return bh_regions(b, err);
	if (strncmp(path, "graph/", 6) == 0)
		return bh_graph(b, path + 6, err);
	if (strcmp(path, "execute_script") == 0)
		return bh_execute(b, err);
	if (strcmp(path, "raw_allocations") == 0)
		return bh_raw_allocations(b, err);
	if (strcmp(path, "mallopts") == 0) { /* calls of mallopt() are not recorded */
		jsonw_array(&b->call.json, NULL);
		jsonw_array_end(&b->call.json);
		return 0;
	}
	return err_set(err, -ENOENT, "there is no '%.60s' here", path);
}

static void handle(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	struct shelf *shelf = ctx;
	struct bh_call b = { .call = { .shelf = shelf, .request = request, .reply = reply } };
	struct err err = { 0 };
	const char *path = NULL, *tail = http_request_tail(request);
	char *text = NULL;
	size_t len = 0;
	if (http_request_bytes(request) > ASK_QUERY_MAX) {
		http_reply_error(reply, 414, "the question is longer than %d bytes", ASK_QUERY_MAX);
		return;
	}
	long source = *tail ? find_source(shelf, tail, &path) : 0;
	if (source < 0) {
		http_reply_error(reply, 404, "there is no recording '%.40s': /list names them",
				 tail);
		return;
	}
	b.call.source = (size_t)source;
	FILE *to = open_memstream(&text, &len);
	if (!to) {
		http_reply_error(reply, 500, "out of memory");
		return;
	}
	jsonw_init(&b.call.json, to);
	int rc = *tail ? answer(&b, path, reply, &err) : answer_list(&b, &err);
	if (fclose(to) != 0 && rc == 0)
		rc = err_set(&err, -ENOMEM, "cannot answer");
	if (rc < 0)
		http_reply_err(reply, &err);
	else if (!reply->body_more)
		buf_put(&reply->body, text, len);
	free(text);
	let_go(&b);
}

size_t bh_routes(struct shelf *shelf, struct http_route routes[BH_ROUTES_MAX])
{
	routes[0] = (struct http_route){ .path = "/list", .handler = handle, .ctx = shelf };
	routes[1] = (struct http_route){
		.path = "/data/", .handler = handle, .ctx = shelf, .posts = HTTP_POST_TOO
	};
	return 2;
}
