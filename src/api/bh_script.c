/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bh_script.c - scripts over HTTP: run one, hand out the pictures that it made, filters as scripts
 * and scripts as filters.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api/bh_internal.h"
#include "base/clock.h"
#include "base/intern.h"

#define SCRIPTS_MAX 2 /* at once */
#define FILES_MAX \
	((size_t)32 << 20) /* of pictures; beyond, the oldest go until FILES_KEPT are left */
#define FILES_KEPT ((size_t)16 << 20)

/* ---- pictures -------------------------------------------------------------------------------- */

/**
 * struct picture - newest first; named by its content, so that no recording sees another one's by
 * guessing.
 */
struct picture {
	struct picture *next;
	char checksum[33];
	char *svg;
	size_t len;
};
static struct {
	pthread_mutex_t lock;
	struct picture *first;
	size_t bytes;
} pictures = { .lock = PTHREAD_MUTEX_INITIALIZER };
static atomic_int running;

/** keep_picture() - takes @svg. */
static int keep_picture(char *svg, size_t len, char checksum[33])
{
	struct picture *p = calloc(1, sizeof(*p));
	if (!p) {
		free(svg);
		return -ENOMEM;
	}
	snprintf(p->checksum, sizeof(p->checksum), "%016llx%016llx",
		 (unsigned long long)hash_bytes(svg, len, hash_seed()),
		 (unsigned long long)hash_bytes(svg, len, ~hash_seed()));
	memcpy(checksum, p->checksum, sizeof(p->checksum));
	p->svg = svg;
	p->len = len;
	pthread_mutex_lock(&pictures.lock);
	p->next = pictures.first;
	pictures.first = p;
	pictures.bytes += len;
	if (pictures.bytes > FILES_MAX) {
		size_t kept = 0;
		struct picture **at = &pictures.first;
		while (*at && (kept += (*at)->len) <= FILES_KEPT)
			at = &(*at)->next;
		struct picture *old = *at;
		*at = NULL;
		while (old) {
			struct picture *next = old->next;
			pictures.bytes -= old->len;
			free(old->svg);
			free(old);
			old = next;
		}
	}
	pthread_mutex_unlock(&pictures.lock);
	return 0;
}

int bh_script_file(struct bh_call *b, const char *tail, struct err *err)
{
	struct http_reply *reply = b->call.reply;
	int found = 0;
	if (!http_request_guarded(b->call.request))
		return err_set(err, -ENOENT, "no script has made a picture here");
	pthread_mutex_lock(&pictures.lock);
	for (const struct picture *p = pictures.first; p && !found; p = p->next) {
		if (strncmp(tail, p->checksum, 32) != 0 || (tail[32] && tail[32] != '/'))
			continue;
		fwrite(p->svg, 1, p->len, b->call.json.to);
		found = 1;
	}
	pthread_mutex_unlock(&pictures.lock);
	if (!found)
		return err_set(err, -ENOENT,
			       "there is no such picture: the oldest go when new ones come");
	reply->content_type = "image/svg+xml";
	reply->policy = "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
			"style-src 'unsafe-inline'";
	return 0;
}

/* ---- running one ----------------------------------------------------------------------------- */

static int is_gone(void *ctx)
{
	return http_request_gone(ctx);
}

/** map_rows() - mappings as a script's rows; malloc'd. */
static struct script_map *map_rows(const struct v1_map *maps, size_t count)
{
	struct script_map *rows = calloc(count + 1, sizeof(*rows));
	for (size_t i = 0; rows && i < count; i++) {
		rows[i].row = (struct block_row){ .id = i + 1,
						  .time_ns = maps[i].made_ns,
						  .freed_ns = maps[i].gone_ns,
						  .addr = maps[i].addr,
						  .bytes = maps[i].bytes,
						  .stack = maps[i].stack,
						  .tid = maps[i].tid };
		rows[i].prot = maps[i].prot;
	}
	return rows;
}

/** may_run() - who may: those with the token, one after the other. */
static int may_run(const struct bh_call *b, struct err *err)
{
	if (!http_request_guarded(b->call.request)) {
		err_set(err, -EPERM, "no");
		snprintf(err->msg, sizeof(err->msg),
			 "scripts need a token, on this machine, too: "
			 "the server has none");
		return err_hint(err, "start it with --token-file FILE");
	}
	if (atomic_fetch_add(&running, 1) >= SCRIPTS_MAX) {
		atomic_fetch_sub(&running, 1);
		return err_set(err, -EBUSY, "%d scripts are running already", SCRIPTS_MAX);
	}
	return 0;
}

static int run(struct bh_call *b, const char *source, size_t len, struct script_opt *opt,
	       struct script_result *result, struct err *err)
{
	const struct v1_map *maps = NULL;
	size_t count = 0;
	int rc = may_run(b, err);
	if (rc < 0)
		return rc;
	rc = v1_maps_get(&b->call, &maps, &count, err);
	if (rc > 0)
		rc = err_set(err, -EAGAIN, "not yet");
	struct script_map *rows = rc == 0 ? map_rows(maps, count) : NULL;
	if (rc == 0 && !rows)
		rc = err_set(err, -ENOMEM, "cannot run a script");
	if (rc == 0 && opt->of_maps)
		b->custom_count = count;
	else if (rc == 0)
		b->custom_count = blocks_count(b->blocks);
	if (rc == 0 && opt->bits == NULL && bh_arg(b, "custom_filter")) {
		opt->bits = b->custom = script_bits_new(b->custom_count);
		rc = opt->bits ? 0 : err_set(err, -ENOMEM, "cannot run a script");
	}
	const struct script_data data = { .blocks = b->blocks,
					  .names = b->names,
					  .groups = b->groups->all,
					  .maps = rows,
					  .map_count = count,
					  .length_ns = b->length_ns,
					  .has_jemalloc = b->has_jemalloc };
	opt->gone = is_gone;
	opt->ctx = (void *)b->call.request;
	if (rc == 0)
		rc = script_run(source, len, &data, opt, result, err);
	free(rows);
	atomic_fetch_sub(&running, 1);
	return rc;
}

static void put_output(struct bh_call *b, struct script_output *o)
{
	struct jsonw *json = &b->call.json;
	jsonw_object(json, NULL);
	if (!o->path) {
		jsonw_str(json, "kind", "println");
		jsonw_strn(json, "value", o->text, o->len);
	} else {
		const char *slash = strrchr(o->path, '/'), *base = slash ? slash + 1 : o->path;
		char checksum[33] = "", id[33];
		CLEANUP(buf_fini) struct buf url = { 0 };
		if (keep_picture(o->text, o->len, checksum) == 0) {
			bh_data_id(b->call.shelf, b->call.source, id);
			buf_printf(&url, "/data/%s/script_files/%s/", id, checksum);
			for (const char *at = base; *at; at++)
				buf_printf(&url,
					   strchr("-._~", *at) || (*at >= '0' && *at <= '9') ||
							   (*at >= 'a' && *at <= 'z') ||
							   (*at >= 'A' && *at <= 'Z')
						   ? "%c"
						   : "%%%02X",
					   (unsigned char)*at);
		}
		o->text = NULL;
		jsonw_str(json, "kind", "image");
		jsonw_str(json, "url", buf_cstr(&url));
		jsonw_str(json, "path", o->path);
		jsonw_str(json, "basename", base);
		jsonw_str(json, "checksum", checksum);
	}
	jsonw_object_end(json);
}

/**
 * is_of_the_older_language() - words that only scripts of the older tracer have, where Lua stumbles
 * over them.
 */
static int is_of_the_older_language(const char *source)
{
	static const char *const words[] = { "let ", "fn ", "//" };
	for (const char *at = source; at && *at; at = strchr(at, '\n')) {
		at += strspn(at, "\n\t ");
		for (size_t i = 0; i < ARRAY_LEN(words); i++)
			if (strncmp(at, words[i], strlen(words[i])) == 0)
				return 1;
	}
	return 0;
}

int bh_execute(struct bh_call *b, struct err *err)
{
	struct jsonw *json = &b->call.json;
	struct script_result result;
	struct script_opt opt = { 0 };
	size_t len;
	const char *body = http_request_body(b->call.request, &len);
	if (!body)
		return err_set(err, -EINVAL, "a script is POSTed, as the body");
	CLEANUP(buf_fini) struct buf source = { 0 };
	buf_put(&source, body, len);
	int rc = run(b, buf_cstr(&source), len, &opt, &result, err);
	if (rc < 0)
		return rc;
	jsonw_object(json, NULL);
	jsonw_str(json, "status", result.ok ? "ok" : "error");
	if (result.ok) {
		jsonw_double(json, "elapsed", result.elapsed_seconds);
	} else {
		CLEANUP(buf_fini) struct buf text = { 0 };
		buf_puts(&text, result.message ? result.message : "it failed");
		if (is_of_the_older_language(buf_cstr(&source)))
			buf_puts(&text, " (scripts are Lua 5.4 here; those of the older tracer's "
					"language do not run)");
		jsonw_str(json, "message", buf_cstr(&text));
		if (result.line)
			jsonw_u64(json, "line", result.line);
		else
			jsonw_null(json, "line");
		jsonw_null(json, "column"); /* Lua tells none */
	}
	jsonw_array(json, "output");
	for (size_t i = 0; i < result.count; i++)
		put_output(b, &result.outputs[i]);
	jsonw_array_end(json);
	jsonw_object_end(json);
	script_result_fini(&result);
	return 0;
}

int bh_custom(struct bh_call *b, struct err *err)
{
	const char *source = bh_arg(b, "custom_filter");
	struct script_result result;
	struct script_opt opt = { .of_maps = b->wants_maps };
	int rc = run(b, source, strlen(source), &opt, &result, err);
	if (rc < 0)
		return rc;
	if (!result.ok)
		rc = err_set(err, -EINVAL, "'custom_filter', line %u: %.300s", result.line,
			     result.message ? result.message : "it failed");
	script_result_fini(&result);
	return rc;
}

/* ---- filters as scripts ---------------------------------------------------------------------- */

enum form { NUMBER, DURATION, SHARE_OR_DURATION, SHARE_OR_NUMBER, REGEX };

/** put_duration() - "250ms" as ms(250); a bare number is seconds. */
static int put_duration(struct buf *to, const char *value)
{
	uint64_t ns;
	struct err none = { 0 };
	if (query_duration_parse(value, &ns, &none) < 0)
		return -1;
	if (ns % NS_PER_S == 0)
		buf_printf(to, "s(%llu)", (unsigned long long)(ns / NS_PER_S));
	else if (ns % 1000000 == 0)
		buf_printf(to, "ms(%llu)", (unsigned long long)(ns / 1000000));
	else
		buf_printf(to, "us(%.3f)", (double)ns / 1e3);
	return 0;
}

static int put_value(struct buf *to, const char *value, enum form form)
{
	char *end;
	uint64_t number;
	struct err none = { 0 };
	double share = strtod(value, &end) / 100;
	int is_share = end > value && strcmp(end, "%") == 0;
	switch (form) {
	case SHARE_OR_DURATION:
	case SHARE_OR_NUMBER:
		if (is_share) {
			buf_printf(to, "%.6f", share);
			return 0;
		}
		if (form == SHARE_OR_DURATION)
			return put_duration(to, value);
		__attribute__((fallthrough));
	case NUMBER:
		number = strtoull(value, &end, 0);
		if (end == value || *end)
			if (query_size_parse(value, &number, &none) < 0)
				return -1;
		buf_printf(to, "%llu", (unsigned long long)number);
		return 0;
	case DURATION:
		return put_duration(to, value);
	case REGEX:
		buf_putc(to, '"');
		for (const char *at = value; *at; at++) {
			if ((unsigned char)*at < 32 || *at == '"' || *at == '\\')
				buf_printf(to, "\\%03d", (unsigned char)*at);
			else
				buf_putc(to, *at);
		}
		buf_putc(to, '"');
		return 0;
	}
	return -1;
}

static const struct bh_word {
	const char *key, *method;
	enum form form;
	/* too */
	int of_maps;
} words[] = {
	{ "lifetime_min", "only_alive_for_at_least", DURATION, 1 },
	{ "lifetime_max", "only_alive_for_at_most", DURATION, 1 },
	{ "chain_lifetime_min", "only_chain_alive_for_at_least", DURATION, 0 },
	{ "chain_lifetime_max", "only_chain_alive_for_at_most", DURATION, 0 },
	{ "size_min", "only_larger_or_equal", NUMBER, 1 },
	{ "size_max", "only_smaller_or_equal", NUMBER, 1 },
	{ "first_size_min", "only_first_size_larger_or_equal", NUMBER, 0 },
	{ "first_size_max", "only_first_size_smaller_or_equal", NUMBER, 0 },
	{ "last_size_min", "only_last_size_larger_or_equal", NUMBER, 0 },
	{ "last_size_max", "only_last_size_smaller_or_equal", NUMBER, 0 },
	{ "address_min", "only_address_at_least", NUMBER, 1 },
	{ "address_max", "only_address_at_most", NUMBER, 1 },
	{ "backtrace_depth_min", "only_backtrace_length_at_least", NUMBER, 1 },
	{ "backtrace_depth_max", "only_backtrace_length_at_most", NUMBER, 1 },
	{ "chain_length_min", "only_chain_length_at_least", NUMBER, 0 },
	{ "chain_length_max", "only_chain_length_at_most", NUMBER, 0 },
	{ "position_in_chain_min", "only_position_in_chain_at_least", NUMBER, 0 },
	{ "position_in_chain_max", "only_position_in_chain_at_most", NUMBER, 0 },
	{ "group_interval_min", "only_group_interval_at_least", SHARE_OR_DURATION, 0 },
	{ "group_interval_max", "only_group_interval_at_most", SHARE_OR_DURATION, 0 },
	{ "group_allocations_min", "only_group_allocations_at_least", NUMBER, 0 },
	{ "group_allocations_max", "only_group_allocations_at_most", NUMBER, 0 },
	{ "group_leaked_allocations_min", "only_group_leaked_allocations_at_least", SHARE_OR_NUMBER,
	  0 },
	{ "group_leaked_allocations_max", "only_group_leaked_allocations_at_most", SHARE_OR_NUMBER,
	  0 },
	{ "group_max_total_usage_first_seen_min", "only_group_max_total_usage_first_seen_at_least",
	  SHARE_OR_DURATION, 0 },
	{ "group_max_total_usage_first_seen_max", "only_group_max_total_usage_first_seen_at_most",
	  SHARE_OR_DURATION, 0 },
	{ "function_regex", "only_passing_through_function", REGEX, 1 },
	{ "negative_function_regex", "only_not_passing_through_function", REGEX, 1 },
	{ "source_regex", "only_passing_through_source", REGEX, 1 },
	{ "negative_source_regex", "only_not_passing_through_source", REGEX, 1 },
};

/** put_moment() - "50%" of the run, or milliseconds since 1970, as a duration from the start. */
static int put_moment(struct bh_call *b, struct buf *to, const char *key, int end, struct err *err)
{
	const char *value = bh_arg(b, key);
	char *rest;
	double number = strtod(value, &rest);
	if (rest == value || number < 0 || (*rest && strcmp(rest, "%") != 0))
		return err_set(err, -EINVAL,
			       "'%s' is milliseconds since 1970 or a percentage, not '%.40s'", key,
			       value);
	if (*rest == '%') {
		buf_printf(to, "data():runtime() * %.6f", number / 100);
		return 0;
	}
	const uint64_t start_ms = b->start_ns / 1000000; /* whole ones, as the page tells them */
	double ms = number - (double)start_ms + (end ? 0.999999 : 0);
	buf_printf(to, "ms(%.6f)", ms > 0 ? ms : 0);
	return 0;
}

static int put_times(struct bh_call *b, struct buf *to, struct err *err)
{
	static const struct {
		const char *key, *method;
		int end;
	} times[] = { { "from", "only_allocated_after_at_least", 0 },
		      { "to", "only_allocated_until_at_most", 1 },
		      { "alive_at", "only_alive_at", 0 },
		      { "alive_at_2", "only_alive_at", 0 } };
	int rc = 0;
	for (size_t i = 0; i < ARRAY_LEN(times) && rc == 0; i++) {
		if (!bh_arg(b, times[i].key))
			continue;
		buf_printf(to, "\n\t:%s(", times[i].method);
		rc = put_moment(b, to, times[i].key, times[i].end, err);
		buf_putc(to, ')');
	}
	return rc;
}

static int put_choices(struct bh_call *b, int of_maps, struct buf *to, struct err *err)
{
	static const struct {
		const char *key, *value, *method;
		/* 1: blocks, 2: mappings, 3: both */
		int of;
	} choices[] = { { "lifetime", "all", "", 3 },
			{ "lifetime", "only_leaked", "only_leaked", 3 },
			{ "lifetime", "only_temporary", "only_temporary", 3 },
			{ "lifetime", "only_chain_leaked", "only_chain_leaked", 1 },
			{ "lifetime", "only_whole_group_leaked",
			  "only_group_leaked_allocations_at_least(1.0)", 1 },
			{ "mmaped", "yes", "only_ptmalloc_mmaped", 1 },
			{ "mmaped", "no", "only_ptmalloc_not_mmaped", 1 },
			{ "arena", "main", "only_ptmalloc_from_main_arena", 1 },
			{ "arena", "non_main", "only_ptmalloc_not_from_main_arena", 1 },
			{ "jemalloc", "yes", "only_jemalloc", 1 },
			{ "jemalloc", "no", "only_not_jemalloc", 1 },
			{ "jemalloc", "only_true", "only_jemalloc", 2 },
			{ "jemalloc", "only_false", "only_not_jemalloc", 2 },
			{ "bytehound", "only_true", "only_bytehound", 2 },
			{ "bytehound", "only_false", "only_not_bytehound", 2 },
			{ "readable", "only_true", "only_readable", 2 },
			{ "readable", "only_false", "only_not_readable", 2 },
			{ "writable", "only_true", "only_writable", 2 },
			{ "writable", "only_false", "only_not_writable", 2 },
			{ "executable", "only_true", "only_executable", 2 },
			{ "executable", "only_false", "only_not_executable", 2 } };
	for (size_t i = 0; i < ARRAY_LEN(choices); i++) {
		const char *value = bh_arg(b, choices[i].key);
		int known = 0, taken = 0;
		if (!value || (i && strcmp(choices[i].key, choices[i - 1].key) == 0))
			continue; /* each key once */
		for (size_t k = 0; k < ARRAY_LEN(choices); k++) {
			if (strcmp(choices[k].key, choices[i].key) != 0 ||
			    !(choices[k].of & (of_maps ? 2 : 1)))
				continue;
			known = 1;
			if (strcmp(choices[k].value, value) != 0)
				continue;
			taken = 1;
			if (*choices[k].method)
				buf_printf(to, "\n\t:%s%s", choices[k].method,
					   strchr(choices[k].method, '(') ? "" : "()");
		}
		if (known && !taken)
			return err_set(err, -EINVAL, "'%s' cannot be '%.40s'", choices[i].key,
				       value);
	}
	return 0;
}

int bh_filter_to_script(struct bh_call *b, int of_maps, struct err *err)
{
	static const char *const missing[] = { "marker",
					       "from_map",
					       "custom_filter",
					       "backtraces",
					       "deallocation_backtraces",
					       "peak_rss_min",
					       "peak_rss_max" };
	struct jsonw *json = &b->call.json;
	CLEANUP(buf_fini) struct buf code = { 0 };
	const struct shelf_query query = { .source = b->call.source, .key = "" };
	int rc = v1_reading(&b->call, &query, &b->whole, err);
	if (rc)
		return rc < 0 ? rc : err_set(err, -EAGAIN, "not yet");
	const struct prof_process *p = prof_process(b->whole->book->names);
	b->start_ns = p ? p->start_realtime_ns : 0;
	for (size_t i = 0; i < ARRAY_LEN(missing); i++)
		if (bh_arg(b, missing[i]))
			return err_set(err, -EINVAL, "'%s' cannot be written as a script",
				       missing[i]);
	buf_printf(&code, "%s()", of_maps ? "maps" : "allocations");
	rc = put_times(b, &code, err);
	for (size_t i = 0; i < ARRAY_LEN(words) && rc == 0; i++) {
		const char *value = bh_arg(b, words[i].key);
		if (!value || (of_maps && !words[i].of_maps))
			continue;
		buf_printf(&code, "\n\t:%s(", words[i].method);
		if (put_value(&code, value, words[i].form) < 0)
			rc = err_set(err, -EINVAL, "'%s' cannot be '%.40s'", words[i].key, value);
		buf_putc(&code, ')');
	}
	if (rc == 0)
		rc = put_choices(b, of_maps, &code, err);
	if (rc < 0)
		return rc;
	jsonw_object(json, NULL);
	jsonw_str(json, "prologue", "-- Lua 5.4\n");
	jsonw_str(json, "code", buf_cstr(&code));
	jsonw_object_end(json);
	return 0;
}

/* ---- words of a filter, for addresses -------------------------------------------------------- */

void bh_put_filter(struct buf *to, const struct bh_call *b)
{
	static const char *const others[] = { "from",
					      "to",
					      "alive_at",
					      "alive_at_2",
					      "lifetime",
					      "backtraces",
					      "deallocation_backtraces",
					      "mmaped",
					      "arena",
					      "jemalloc" };
	for (size_t i = 0; i < ARRAY_LEN(words) + ARRAY_LEN(others); i++) {
		const char *key =
			i < ARRAY_LEN(words) ? words[i].key : others[i - ARRAY_LEN(words)];
		const char *value = bh_arg(b, key);
		if (!value)
			continue;
		buf_printf(to, "&%s=", key);
		for (const char *at = value; *at; at++)
			buf_printf(to,
				   (*at >= '0' && *at <= '9') || (*at >= 'a' && *at <= 'z')
					   ? "%c"
					   : "%%%02X",
				   (unsigned char)*at);
	}
}
