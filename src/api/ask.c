/* SPDX-License-Identifier: Apache-2.0 */
/* ask.c - words and values of a question. */
#include "api/ask.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "out/formats.h"

struct parse;
struct word {
	const char *name;
	unsigned group;
	int (*take)(struct parse *p, const char *value, struct err *err);
	/* of which canonical texts it is a part */
	unsigned part;
};
enum { PART_READING = 1, PART_AT = 2, PART_FOLDING = 4 };

struct parse {
	struct ask *ask;
	unsigned words;
	struct buf selection, rest, reading, but_at, folding;
};

/* ---- values ---------------------------------------------------------------------------------- */

static int bad(struct err *err, const char *key, const char *value, const char *expected)
{
	return err_set(err, -EINVAL, "'%s' is %s, not '%.60s'", key, expected, value);
}

static int number(const char *key, const char *value, uint64_t least, uint64_t most, uint64_t *to,
		  struct err *err)
{
	char *end, expected[80];
	errno = 0;
	unsigned long long v = strtoull(value, &end, 10);
	if (*value >= '0' && *value <= '9' && !*end && !errno && v >= least && v <= most) {
		*to = v;
		return 0;
	}
	snprintf(expected, sizeof(expected), "a whole number from %llu to %llu",
		 (unsigned long long)least, (unsigned long long)most);
	return bad(err, key, value, expected);
}

static int truth(const char *key, const char *value, int *to, struct err *err)
{
	if (!*value || strcmp(value, "1") == 0 || strcmp(value, "true") == 0)
		*to = 1;
	else if (strcmp(value, "0") == 0 || strcmp(value, "false") == 0)
		*to = 0;
	else
		return bad(err, key, value, "1 or 0");
	return 0;
}

/**
 * explain() - what is wrong with the value of @key: the parser's own sentence, with the key in
 * front.
 */
static int explain(int rc, const char *key, struct err *err)
{
	return rc < 0 ? err_wrap(err, "'%s'", key) : 0;
}

static int take_src(struct parse *p, const char *v, struct err *err)
{
	p->ask->source_given = 1;
	return number("src", v, 0, UINT32_MAX, &p->ask->source, err);
}
static int take_cost(struct parse *p, const char *v, struct err *err)
{
	p->ask->cost_given = 1;
	return explain(view_cost_parse(v, &p->ask->cost, err), "cost", err);
}
static int take_by(struct parse *p, const char *v, struct err *err)
{
	p->ask->by_given = 1;
	return explain(view_by_parse(v, &p->ask->by, err), "by", err);
}
static int take_at(struct parse *p, const char *v, struct err *err)
{
	return explain(query_time_parse(v, &p->ask->query.at, err), "at", err);
}
static int take_from(struct parse *p, const char *v, struct err *err)
{
	return explain(query_time_parse(v, &p->ask->query.from, err), "from", err);
}
static int take_to(struct parse *p, const char *v, struct err *err)
{
	if (p->words & ASK_EXPORT && out_format_find(v)) {
		p->ask->format = v;
		return 0;
	}
	return explain(query_time_parse(v, &p->ask->query.to, err), "to", err);
}
static int take_regex(struct parse *p, const char *v, struct err *err)
{
	p->ask->query.function_regex = v;
	return explain(query_regex_check(v, err), "function-regex", err);
}
static int take_min_size(struct parse *p, const char *v, struct err *err)
{
	return explain(query_size_parse(v, &p->ask->query.min_size, err), "min-size", err);
}
static int take_max_size(struct parse *p, const char *v, struct err *err)
{
	p->ask->query.has_max_size = 1;
	return explain(query_size_parse(v, &p->ask->query.max_size, err), "max-size", err);
}
static int take_lifetime_min(struct parse *p, const char *v, struct err *err)
{
	p->ask->query.has_lifetime_min = 1;
	return explain(query_duration_parse(v, &p->ask->query.lifetime_min_ns, err), "lifetime-min",
		       err);
}
static int take_lifetime_max(struct parse *p, const char *v, struct err *err)
{
	p->ask->query.has_lifetime_max = 1;
	return explain(query_duration_parse(v, &p->ask->query.lifetime_max_ns, err), "lifetime-max",
		       err);
}
static int take_leaked(struct parse *p, const char *v, struct err *err)
{
	return truth("leaked", v, &p->ask->query.leaked, err);
}
static int take_inverted(struct parse *p, const char *v, struct err *err)
{
	return truth("inverted", v, &p->ask->inverted, err);
}
static int take_limit(struct parse *p, const char *v, struct err *err)
{
	p->ask->limit_given = 1;
	return number("limit", v, 1, ASK_LIMIT_MAX, &p->ask->limit, err);
}

static int take_thread(struct parse *p, const char *v, struct err *err)
{
	uint64_t tid = 0;
	int rc = number("thread", v, 0, UINT32_MAX, &tid, err);
	p->ask->query.has_thread = 1;
	p->ask->query.thread = (uint32_t)tid;
	return rc;
}
static int take_module(struct parse *p, const char *v, struct err *err)
{
	p->ask->query.module = v;
	return *v ? 0 : bad(err, "module", v, "the base name of a module");
}

static int take_stack(struct parse *p, const char *v, struct err *err)
{
	uint64_t row = 0;
	int rc = number("stack", v, 0, UINT32_MAX, &row, err);
	p->ask->query.has_stack = 1;
	p->ask->query.stack = (uint32_t)row;
	return rc;
}
/** take_hex() - `0x` and hex digits from @v on; what follows them, NULL: none are there. */
static const char *take_hex(const char *v, uint64_t *to)
{
	char *end;
	errno = 0;
	*to = strtoull(v, &end, 16);
	return strncmp(v, "0x", 2) == 0 && isxdigit((unsigned char)v[2]) && !errno ? end : NULL;
}
static int take_address(struct parse *p, const char *v, struct err *err)
{
	struct query *q = &p->ask->query;
	const char *at = take_hex(v, &q->address_from);
	q->has_address = 1;
	q->address_to = q->address_from + 1;
	if (at && *at == '-')
		at = take_hex(at + 1, &q->address_to);
	return at && !*at && q->address_to > q->address_from
		       ? 0
		       : bad(err, "address", v, "0xFROM-0xTO, or one address");
}

static int take_own(struct parse *p, const char *v, struct err *err)
{
	p->ask->own = v;
	return explain(query_regex_check(v, err), "own", err);
}

static int take_base(struct parse *p, const char *v, struct err *err)
{
	struct ask *ask = p->ask;
	char digits[24];
	const char *at = strchr(v, '@');
	size_t len = at ? (size_t)(at - v) : strlen(v);
	if ((!len && !at) || len >= sizeof(digits))
		return bad(err, "base", v, "SRC, SRC@TIME or @TIME");
	memcpy(digits, v, len);
	digits[len] = '\0';
	ask->has_base = 1;
	ask->base_source = UINT64_MAX; /* the same as what it is compared with */
	if (len && number("base", digits, 0, UINT32_MAX, &ask->base_source, err) < 0)
		return err_hint(err, "SRC, SRC@TIME or @TIME");
	if (!at)
		return 0;
	ask->base_time = at + 1;
	return explain(query_time_parse(at + 1, &ask->base_at, err), "base", err);
}

/** take_step() - one word of `x`, which is changed. */
static int take_step(struct ask *ask, char *word, struct err *err)
{
	static const struct {
		const char *name;
		enum fold_op op;
	} ops[] = { { "hide:", FOLD_HIDE },
		    { "fold:", FOLD_MODULE },
		    { "focus:", FOLD_FOCUS },
		    { "drop:", FOLD_DROP } };
	if (strcmp(word, "rec") == 0) {
		ask->fold.rec = 1;
		return 0;
	}
	if (strcmp(word, "trunk") == 0) {
		ask->trunk = 1;
		return 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		size_t len = strlen(ops[i].name);
		if (strncmp(word, ops[i].name, len) != 0)
			continue;
		if (ask->fold.step_count == FOLD_STEPS_MAX)
			return err_set(err, -EINVAL, "'x' has more than %d words", FOLD_STEPS_MAX);
		struct fold_step *step = &ask->fold.steps[ask->fold.step_count++];
		step->op = ops[i].op;
		step->module = word + len;
		if (step->op == FOLD_MODULE && !*step->module)
			return err_set(err, -EINVAL, "'x' has a 'fold:' without a module");
		return step->op == FOLD_MODULE
			       ? 0
			       : explain(view_key_parse(word + len, &step->key, err), "x", err);
	}
	return bad(err, "x", word,
		   "a list of hide:KEY, fold:MODULE, focus:KEY, drop:KEY, rec and trunk");
}

static int take_x(struct parse *p, const char *v, struct err *err)
{
	struct ask *ask = p->ask;
	ask->text = strdup(v);
	if (!ask->text)
		return err_set(err, -ENOMEM, "cannot read the question");
	char *save = NULL;
	for (char *word = strtok_r(ask->text, ",", &save); word;
	     word = strtok_r(NULL, ",", &save)) {
		/* a comma in a name comes escaped twice */
		for (char *at = word; (at = strstr(at, "%2C")); at++) {
			*at = ',';
			memmove(at + 1, at + 3, strlen(at + 3) + 1);
		}
		int rc = take_step(ask, word, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int take_n(struct parse *p, const char *v, struct err *err)
{
	p->ask->has_node = 1;
	return explain(view_key_parse(v, &p->ask->node, err), "n", err);
}
static int take_nodes(struct parse *p, const char *v, struct err *err)
{
	return number("nodes", v, 1, ASK_NODES_MAX, &p->ask->nodes, err);
}
static int take_function(struct parse *p, const char *v, struct err *err)
{
	p->ask->has_function = 1;
	return explain(view_key_parse(v, &p->ask->function, err), "function", err);
}
static int take_side(struct parse *p, const char *v, struct err *err)
{
	p->ask->callers = strcmp(v, "callers") == 0;
	return p->ask->callers || strcmp(v, "callees") == 0
		       ? 0
		       : bad(err, "side", v, "callers or callees");
}
static int take_keys(struct parse *p, const char *v, struct err *err)
{
	return truth("keys", v, &p->ask->keys, err);
}
static int take_more(struct parse *p, const char *v, struct err *err)
{
	while (*v) {
		size_t len = strcspn(v, ",");
		if (len == 9 && strncmp(v, "temporary", len) == 0)
			p->ask->with_temporary = 1;
		else if (len == 3 && strncmp(v, "age", len) == 0)
			p->ask->with_age = 1;
		else
			return bad(err, "more", v, "a list of temporary and age");
		v += len + (v[len] == ',');
	}
	return 0;
}
static int take_marks(struct parse *p, const char *v, struct err *err)
{
	(void)err;
	p->ask->marks = v;
	return 0;
}
static int take_sort(struct parse *p, const char *v, struct err *err)
{
	(void)err;
	p->ask->sort = v; /* the route knows its columns */
	return 0;
}
static int take_order(struct parse *p, const char *v, struct err *err)
{
	p->ask->ascending = strcmp(v, "asc") == 0;
	return p->ask->ascending || strcmp(v, "desc") == 0 ? 0
							   : bad(err, "order", v, "asc or desc");
}
static int take_cursor(struct parse *p, const char *v, struct err *err)
{
	return number("cursor", v, 0, UINT32_MAX, &p->ask->cursor, err);
}
static int take_find(struct parse *p, const char *v, struct err *err)
{
	size_t len = strlen(v);
	p->ask->find = v;
	if (!len)
		return bad(err, "find", v, "some text, or /a regular expression/");
	if (v[0] != '/' || len < 3 || v[len - 1] != '/')
		return 0;
	char *regex = strndup(v + 1, len - 2);
	int rc = regex ? query_regex_check(regex, err) : err_set(err, -ENOMEM, "cannot search");
	free(regex);
	return explain(rc, "find", err);
}
static int take_series(struct parse *p, const char *v, struct err *err)
{
	(void)err;
	p->ask->series = v;
	return 0;
}
static int take_points(struct parse *p, const char *v, struct err *err)
{
	return number("points", v, 1, ASK_POINTS_MAX, &p->ask->points, err);
}
static int take_encoding(struct parse *p, const char *v, struct err *err)
{
	p->ask->deltas = strcmp(v, "delta") == 0;
	return p->ask->deltas || strcmp(v, "plain") == 0
		       ? 0
		       : bad(err, "encoding", v, "plain or delta");
}
static int take_format(struct parse *p, const char *v, struct err *err)
{
	p->ask->format = v;
	return out_format_find(v) ? 0 : bad(err, "format", v, "one of" OUT_FORMAT_NAMES);
}
static int take_group(struct parse *p, const char *v, struct err *err)
{
	p->ask->grouped = 1;
	return strcmp(v, "stack") == 0 ? 0 : bad(err, "group", v, "stack");
}
static int take_groups_order(struct parse *p, const char *v, struct err *err)
{
	static const char *const orders[] = { "size", "count", "leaked", "lifetime", "time" };
	const char *word = v + (*v == '-');
	p->ask->order = v;
	word += strncmp(word, "all.", 4) == 0 ? 4 : 0;
	for (size_t i = 0; i < ARRAY_LEN(orders); i++)
		if (strcmp(word, orders[i]) == 0)
			return 0;
	return bad(err, "order", v,
		   "size, count, leaked, lifetime or time, of whole groups with all. in front, "
		   "with - before that: the largest first");
}
static int take_blocks_order(struct parse *p, const char *v, struct err *err)
{
	static const char *const orders[] = { "time",  "-time",    "size",
					      "-size", "lifetime", "-lifetime" };
	if (p->ask->grouped)
		return take_groups_order(p, v, err);
	p->ask->order = v;
	for (size_t i = 0; i < ARRAY_LEN(orders); i++)
		if (strcmp(v, orders[i]) == 0)
			return 0;
	return bad(err, "order", v, "time, size or lifetime, with - in front: the largest first");
}
static int take_axis(const char *key, const char *v, const char **to, struct err *err)
{
	*to = v;
	if (strcmp(v, "size") == 0 || strcmp(v, "lifetime") == 0 || strcmp(v, "age") == 0)
		return 0;
	return bad(err, key, v, "size, lifetime or age");
}
static int take_axis_x(struct parse *p, const char *v, struct err *err)
{
	return take_axis("x", v, &p->ask->axis_x, err);
}
static int take_axis_y(struct parse *p, const char *v, struct err *err)
{
	return take_axis("y", v, &p->ask->axis_y, err);
}
static int take_topics(struct parse *p, const char *v, struct err *err)
{
	(void)err;
	p->ask->topics = v;
	return 0;
}
static int take_width(struct parse *p, const char *v, struct err *err)
{
	return number("width", v, 16, 8192, &p->ask->width, err);
}
static int take_file(struct parse *p, const char *v, struct err *err)
{
	p->ask->has_file = 1;
	return explain(view_key_parse(v, &p->ask->file, err), "file", err);
}
static int take_prefix(struct parse *p, const char *v, struct err *err)
{
	p->ask->prefix = v;
	return v[0] == '/' ? 0 : bad(err, "prefix", v, "a folder by its whole path");
}
static int take_diff(struct parse *p, const char *v, struct err *err)
{
	return explain(query_time_parse(v, &p->ask->diff, err), "diff", err);
}
static int take_wait(struct parse *p, const char *v, struct err *err)
{
	p->ask->has_wait = 1;
	return number("wait", v, 0, ASK_WAIT_MAX, &p->ask->wait_ms, err);
}
static int take_stop(struct parse *p, const char *v, struct err *err)
{
	int rc = truth("stop", v, &p->ask->stops, err);
	p->ask->has_wait |= p->ask->stops;
	return rc;
}
static int take_part(struct parse *p, const char *v, struct err *err)
{
	return truth("part", v, &p->ask->part, err);
}

/* In the canonical order. */
static const struct word all_words[] = {
	{ "src", ASK_SRC, take_src, 0 },
	{ "cost", ASK_SELECTION, take_cost, 0 },
	{ "by", ASK_SELECTION | ASK_SHEET, take_by, PART_FOLDING },
	{ "at", ASK_SELECTION | ASK_SHEET, take_at, PART_READING | PART_AT },
	{ "from", ASK_SELECTION, take_from, PART_READING },
	{ "to", ASK_SELECTION, take_to, PART_READING },
	{ "function-regex", ASK_SELECTION, take_regex, PART_READING },
	{ "min-size", ASK_SELECTION, take_min_size, PART_READING },
	{ "max-size", ASK_SELECTION, take_max_size, PART_READING },
	{ "lifetime-min", ASK_SELECTION, take_lifetime_min, PART_READING },
	{ "lifetime-max", ASK_SELECTION, take_lifetime_max, PART_READING },
	{ "leaked", ASK_SELECTION, take_leaked, PART_READING },
	{ "inverted", ASK_SELECTION, take_inverted, 0 },
	{ "limit", ASK_SELECTION | ASK_SHEET, take_limit, 0 },
	{ "thread", ASK_SELECTION, take_thread, PART_READING },
	{ "module", ASK_SELECTION, take_module, PART_READING },
	{ "stack", ASK_SELECTION, take_stack, PART_READING },
	{ "address", ASK_SELECTION, take_address, PART_READING },
	{ "base", ASK_SELECTION, take_base, 0 },
	{ "own", ASK_SELECTION, take_own, 0 },
	{ "x", ASK_TRANSFORMS, take_x, PART_FOLDING },
	{ "n", ASK_TREE, take_n, 0 },
	{ "nodes", ASK_TREE, take_nodes, 0 },
	{ "function", ASK_TREE, take_function, 0 },
	{ "side", ASK_TREE, take_side, 0 },
	{ "keys", ASK_TREE, take_keys, 0 },
	{ "more", ASK_TREE, take_more, 0 },
	{ "sort", ASK_ROWS, take_sort, 0 },
	{ "order", ASK_ROWS, take_order, 0 },
	{ "cursor", ASK_ROWS, take_cursor, 0 },
	{ "find", ASK_FIND, take_find, 0 },
	{ "series", ASK_SERIES, take_series, 0 },
	{ "points", ASK_SERIES, take_points, 0 },
	{ "encoding", ASK_SERIES, take_encoding, 0 },
	{ "format", ASK_EXPORT, take_format, 0 },
	{ "group", ASK_BLOCKS, take_group, 0 },
	{ "order", ASK_BLOCKS, take_blocks_order, 0 },
	{ "cursor", ASK_BLOCKS, take_cursor, 0 },
	{ "part", ASK_BLOCKS, take_part, 0 },
	{ "x", ASK_AXES, take_axis_x, 0 },
	{ "y", ASK_AXES, take_axis_y, 0 },
	{ "width", ASK_WIDTH, take_width, 0 },
	{ "file", ASK_FILE, take_file, 0 },
	{ "prefix", ASK_FILE, take_prefix, 0 },
	{ "marks", ASK_MARKS, take_marks, 0 },
	{ "topics", ASK_TOPICS, take_topics, 0 },
	{ "diff", ASK_SHEET, take_diff, 0 },
	{ "wait", ASK_WAIT, take_wait, 0 },
	{ "stop", ASK_WAIT, take_stop, 0 },
};

/* ---- canonical text -------------------------------------------------------------------------- */

static void put_word(struct buf *to, const char *name, const char *value)
{
	if (to->len)
		buf_putc(to, '&');
	buf_puts(to, name);
	buf_putc(to, '=');
	for (const unsigned char *at = (const unsigned char *)value; *at; at++) {
		if ((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
		    (*at >= '0' && *at <= '9') || strchr("-_.~:/@,*", *at))
			buf_putc(to, (char)*at);
		else
			buf_printf(to, "%%%02X", *at);
	}
}

static void note(struct parse *p, const struct word *word, const char *value)
{
	int is_flag = word->take == take_leaked || word->take == take_inverted;
	int set = word->take == take_leaked ? p->ask->query.leaked : p->ask->inverted;
	if (is_flag && !set)
		return;
	value = is_flag ? "1" : value;
	if (word->group & (ASK_SELECTION | ASK_TRANSFORMS))
		put_word(&p->selection, word->name, value);
	else if (word->group != ASK_SRC && word->group != ASK_WAIT)
		put_word(&p->rest, word->name, value);
	if (word->part & PART_READING)
		put_word(&p->reading, word->name, value);
	if (word->part & PART_READING && !(word->part & PART_AT))
		put_word(&p->but_at, word->name, value);
	/*
	 * stacks and threads are folded as by function, which is how they are folded where nothing
	 * is said
	 */
	int is_plain = word->take == take_by &&
		       (p->ask->by == VIEW_BY_STACK || p->ask->by == VIEW_BY_FUNCTION ||
			p->ask->by == VIEW_BY_THREAD);
	if (word->part & PART_FOLDING && !is_plain)
		put_word(&p->folding, word->name, value);
}

static int parse_all(struct parse *p, ask_get get, void *ctx, unsigned words, struct err *err)
{
	size_t bytes = 0;
	for (size_t i = 0; i < ARRAY_LEN(all_words); i++) {
		const struct word *word = &all_words[i];
		const char *value = word->group & words ? get(ctx, word->name) : NULL;
		if (!value)
			continue;
		bytes += strlen(word->name) + strlen(value) + 2;
		if (bytes > ASK_QUERY_MAX)
			return err_set(err, -EMSGSIZE, "the question is longer than %d bytes",
				       ASK_QUERY_MAX);
		int rc = word->take(p, value, err);
		if (rc < 0)
			return rc;
		note(p, word, value);
	}
	struct ask *ask = p->ask;
	if (words & ASK_TREE && ask->has_function != (get(ctx, "side") != NULL))
		return err_set(err, -EINVAL, "'function' and 'side' belong together");
	return 0;
}

int ask_parse(ask_get get, void *ctx, unsigned words, struct ask *ask, struct err *err)
{
	struct parse p = { .ask = ask, .words = words };
	*ask = (struct ask){ .nodes = ASK_NODES_DEFAULT,
			     .limit = ASK_LIMIT_DEFAULT,
			     .points = ASK_POINTS_DEFAULT };
	ask->query.times_inside =
		1; /* a moment that is not there is an error here as on the command line */
	int rc = parse_all(&p, get, ctx, words, err);
	if (!ask->cost_given)
		ask->cost =
			ask->query.at.kind || ask->base_at.kind ? VIEW_COST_LIVE : VIEW_COST_PEAK;
	ask->fold.by = ask->by;
	if (ask->has_base && ask->base_source == UINT64_MAX)
		ask->base_source = ask->source;
	ask->selection = buf_take(&p.selection);
	ask->rest = buf_take(&p.rest);
	ask->reading = buf_take(&p.reading);
	ask->reading_but_at = buf_take(&p.but_at);
	ask->folding = buf_take(&p.folding);
	if (rc == 0 &&
	    !(ask->selection && ask->rest && ask->reading && ask->reading_but_at && ask->folding))
		rc = err_set(err, -ENOMEM, "cannot read the question");
	if (rc < 0)
		ask_fini(ask);
	return rc;
}

void ask_fini(struct ask *ask)
{
	free(ask->text);
	free(ask->selection);
	free(ask->rest);
	free(ask->reading);
	free(ask->reading_but_at);
	free(ask->folding);
	ask->text = ask->selection = ask->rest = ask->reading = ask->reading_but_at = ask->folding =
		NULL;
}

size_t ask_names(unsigned words, const char *names[ASK_NAMES_MAX + 1])
{
	size_t count = 0;
	for (size_t i = 0; i < ARRAY_LEN(all_words) && count < ASK_NAMES_MAX; i++)
		if (all_words[i].group & words)
			names[count++] = all_words[i].name;
	names[count] = NULL;
	return count;
}
