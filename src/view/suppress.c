/* SPDX-License-Identifier: Apache-2.0 */
#include "view/suppress.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "view/impl.h"

#define POOL_MAX (256u << 10)
#define LINE_SHOWN 60

struct suppress {
	/* the built-in ones first */
	struct suppress_rule *rules;
	size_t count, cap, built_in;
	/* after the run: that many have anything, and stand first */
	size_t taken;
	uint64_t allocations, bytes;
	int applied;
};

/* ---- what runtimes keep ---------------------------------------------------------------------- */

enum built_in { CXX_POOL, RUST_MAIN, LIBC_NAMES, LIBC_LOCALE, LIBC_STDIO, LIBC_TLS, BUILT_IN };

static const char *const about[BUILT_IN] = {
	[CXX_POOL] = "libstdc++'s emergency pool", [RUST_MAIN] = "Rust's main thread",
	[LIBC_NAMES] = "glibc's name services",    [LIBC_LOCALE] = "glibc's locales and time zone",
	[LIBC_STDIO] = "glibc's stdio buffers",    [LIBC_TLS] = "glibc's thread-local storage",
};

static int starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static int is_libc(const char *module)
{
	return starts(module, "libc.so") || starts(module, "libc-2") ||
	       starts(module, "ld-linux") || starts(module, "libnss_") ||
	       starts(module, "libpthread");
}

/** libc_rule() - by the name of a function of the C library; BUILT_IN: none. */
static enum built_in libc_rule(const char *name)
{
	static const struct {
		const char *head;
		enum built_in rule;
	} heads[] = {
		{ "nss_", LIBC_NAMES },
		{ "getpw", LIBC_NAMES },
		{ "getgr", LIBC_NAMES },
		{ "gethost", LIBC_NAMES },
		{ "getserv", LIBC_NAMES },
		{ "setlocale", LIBC_LOCALE },
		{ "nl_find_locale", LIBC_LOCALE },
		{ "nl_load_domain", LIBC_LOCALE },
		{ "dcigettext", LIBC_LOCALE },
		{ "bindtextdomain", LIBC_LOCALE },
		{ "set_binding_values", LIBC_LOCALE },
		{ "textdomain", LIBC_LOCALE },
		{ "tzset", LIBC_LOCALE },
		{ "tzfile_read", LIBC_LOCALE },
		{ "IO_file_doallocate", LIBC_STDIO },
		{ "IO_doallocbuf", LIBC_STDIO },
		{ "dl_allocate_tls", LIBC_TLS },
	};
	if (starts(name, "__GI_"))
		name += 5;
	name += strspn(name, "_");
	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		if (starts(name, heads[i].head))
			return heads[i].rule;
	return BUILT_IN;
}

/** innermost() - the module of the frame that allocated; "" where there is none. */
static const char *module_at(const struct prof *prof, struct stack_id id)
{
	const struct prof_stack *s = prof_stack(prof, id);
	return id.v == 0 || s->stop ? ""
				    : prof_module(prof, prof_frame(prof, s->frame)->module)->name;
}

/** rust_rule() - everything up to the runtime's start is the standard library's. */
static int is_rust_start(const struct prof *prof, struct stack_id id)
{
	for (const struct prof_stack *s; id.v && !(s = prof_stack(prof, id))->stop;
	     id = s->parent) {
		const struct prof_frame *f = prof_frame(prof, s->frame);
		for (uint32_t i = 0; i < f->symbol_count; i++) {
			const char *name = f->symbols[i].function;
			if (name && starts(name, "std::rt::"))
				return 1;
			if (view_role(name) != VIEW_STANDARD)
				return 0;
		}
		if (f->symbol_count == 0)
			return 0;
	}
	return 0;
}

/*
 * Memory for exceptions that are thrown when there is none left: one block, made when the library
 * is loaded, and kept.
 */
static int is_cxx_pool(const struct prof *prof, struct stack_id id, const struct cost *cost)
{
	if (cost->leaked != 1 || cost->leaked_bytes > POOL_MAX)
		return 0;
	const struct prof_stack *s = prof_stack(prof, id);
	const struct prof_frame *f = prof_frame(prof, s->frame);
	for (uint32_t i = 0; i < f->symbol_count; i++)
		if (f->symbols[i].function && strstr(f->symbols[i].function, "eh_alloc.cc"))
			return 1; /* linked into the program */
	return starts(module_at(prof, id), "libstdc++.so") &&
	       starts(module_at(prof, s->parent), "ld-linux");
}

static enum built_in built_in_of(const struct prof *prof, struct stack_id id,
				 const struct cost *cost)
{
	if (id.v == 0 || prof_stack(prof, id)->stop)
		return BUILT_IN;
	if (is_cxx_pool(prof, id, cost))
		return CXX_POOL;
	if (is_rust_start(prof, id))
		return RUST_MAIN;
	for (const struct prof_stack *s; id.v && !(s = prof_stack(prof, id))->stop;
	     id = s->parent) {
		const struct prof_frame *f = prof_frame(prof, s->frame);
		/* from the allocation outwards as long as it is the C library that asks */
		if (!is_libc(prof_module(prof, f->module)->name))
			break;
		for (uint32_t i = 0; i < f->symbol_count; i++) {
			const char *name = f->symbols[i].function;
			enum built_in rule = name ? libc_rule(name) : BUILT_IN;
			if (rule != BUILT_IN)
				return rule;
		}
	}
	return BUILT_IN;
}

/* ---- patterns -------------------------------------------------------------------------------- */

/*
 * Each '*' takes as little as it can: what follows is looked for from there on, so it takes no
 * longer than both lengths multiplied.
 */
int suppress_matches(const char *pattern, const char *name)
{
	int anchored = *pattern == '^';
	pattern += anchored;
	for (;;) {
		size_t len = strcspn(pattern, "*");
		int last = pattern[len] == '\0', at_end = last && len && pattern[len - 1] == '$';
		size_t word = len - (size_t)at_end;
		const char *found = NULL;
		if (anchored)
			found = strncmp(name, pattern, word) == 0 ? name : NULL;
		else if (at_end)
			found = strlen(name) >= word ? name + strlen(name) - word : NULL;
		else
			found = memmem(name, strlen(name), pattern, word);
		if (!found || (at_end && memcmp(found, pattern, word) != 0))
			return 0;
		name = found + word;
		if (at_end && *name)
			return 0;
		if (last)
			return 1;
		pattern += len + 1;
		anchored = 0;
	}
}

static int frame_matches(const struct prof *prof, const struct prof_frame *f, const char *pattern)
{
	if (suppress_matches(pattern, prof_module(prof, f->module)->path))
		return 1;
	for (uint32_t i = 0; i < f->symbol_count; i++) {
		const struct symbol *s = &f->symbols[i];
		if ((s->function && suppress_matches(pattern, s->function)) ||
		    (s->file && suppress_matches(pattern, s->file)))
			return 1;
	}
	return 0;
}

/* ---- rules ----------------------------------------------------------------------------------- */

struct suppress *suppress_new(int built_in, struct err *err)
{
	CLEANUP(suppress_freep) struct suppress *s = calloc(1, sizeof(*s));
	if (s)
		s->rules = calloc(BUILT_IN, sizeof(*s->rules));
	if (!s || !s->rules) {
		err_set(err, -ENOMEM, "cannot keep suppressions");
		return NULL;
	}
	s->cap = BUILT_IN;
	s->count = s->built_in = built_in ? BUILT_IN : 0;
	for (size_t i = 0; i < s->count; i++)
		s->rules[i] = (struct suppress_rule){ .pattern = about[i], .built_in = 1 };
	return STEAL(s);
}

void suppress_freep(struct suppress **suppress)
{
	struct suppress *s = *suppress;
	for (size_t i = 0; s && i < s->count; i++)
		if (!s->rules[i].built_in)
			free((char *)s->rules[i].pattern);
	if (s)
		free(s->rules);
	free(s);
	*suppress = NULL;
}

static int add_rule(struct suppress *s, const char *pattern, size_t len, struct err *err)
{
	if (s->count == s->cap) {
		size_t cap = 2 * s->cap + 16;
		struct suppress_rule *rules = realloc(s->rules, cap * sizeof(*rules));
		if (!rules)
			return err_set(err, -ENOMEM, "cannot keep suppressions");
		s->rules = rules;
		s->cap = cap;
	}
	char *copy = strndup(pattern, len);
	if (!copy)
		return err_set(err, -ENOMEM, "cannot keep suppressions");
	s->rules[s->count++] = (struct suppress_rule){ .pattern = copy };
	return 0;
}

int suppress_add(struct suppress *s, const char *text, size_t bytes, const char *name,
		 struct err *err)
{
	const char *end = text + bytes;
	for (size_t number = 1; text < end; number++) {
		const char *line = text, *stop = memchr(text, '\n', (size_t)(end - text));
		size_t len = (size_t)((stop ? stop : end) - line);
		text = stop ? stop + 1 : end;
		while (len && (*line == ' ' || *line == '\t'))
			line++, len--;
		while (len &&
		       (line[len - 1] == ' ' || line[len - 1] == '\t' || line[len - 1] == '\r'))
			len--;
		if (len == 0 || *line == '#')
			continue;
		if (len <= 5 || memcmp(line, "leak:", 5) != 0 || memchr(line, '\0', len)) {
			err_set(err, -EINVAL, "no suppression in line %zu of '%s': '%.*s'", number,
				name, (int)(len < LINE_SHOWN ? len : LINE_SHOWN), line);
			return err_hint(err,
					"a line is leak:PATTERN, or a comment that begins with #");
		}
		if (len - 5 > SUPPRESS_PATTERN_MAX || s->count >= SUPPRESS_RULES_MAX)
			return err_set(err, -E2BIG, "too much in line %zu of '%s'", number, name);
		int rc = add_rule(s, line + 5, len - 5, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int suppress_add_pattern(struct suppress *s, const char *pattern, struct err *err)
{
	size_t len = strlen(pattern);
	if (len == 0 || len > SUPPRESS_PATTERN_MAX)
		return 0;
	if (s->count >= SUPPRESS_RULES_MAX)
		return err_set(err, -E2BIG, "too many suppressions");
	return add_rule(s, pattern, len, err);
}

/* ---- the run --------------------------------------------------------------------------------- */

/**
 * rule_of_frame() - the first pattern that fits; @s->count: none. Remembered in @known, 1 more, 0 =
 * not looked at yet.
 */
static size_t rule_of_frame(const struct suppress *s, const struct prof *prof, struct frame_id id,
			    uint32_t *known)
{
	if (known[id.v])
		return known[id.v] - 1;
	size_t rule = s->built_in;
	while (rule < s->count &&
	       !frame_matches(prof, prof_frame(prof, id), s->rules[rule].pattern))
		rule++;
	known[id.v] = (uint32_t)rule + 1;
	return rule;
}

static size_t rule_of_stack(const struct suppress *s, const struct prof *prof, struct stack_id id,
			    const struct cost *cost, uint32_t *known)
{
	size_t rule = s->count;
	struct stack_id at = id;
	for (const struct prof_stack *row;
	     s->count > s->built_in && at.v && !(row = prof_stack(prof, at))->stop;
	     at = row->parent) {
		size_t of_frame = rule_of_frame(s, prof, row->frame, known);
		rule = of_frame < rule ? of_frame : rule;
	}
	enum built_in built_in =
		rule == s->count && s->built_in ? built_in_of(prof, id, cost) : BUILT_IN;
	return built_in == BUILT_IN ? rule : built_in;
}

static int by_bytes(const void *a, const void *b)
{
	const struct suppress_rule *x = a, *y = b;
	if (!x->allocations != !y->allocations)
		return x->allocations ? -1 : 1;
	return x->bytes == y->bytes ? 0 : x->bytes < y->bytes ? 1 : -1;
}

int suppress_run(struct suppress *s, struct prof *prof, int apply, struct err *err)
{
	uint32_t stacks = prof_stack_count(prof);
	uint32_t *known = calloc(prof_frame_count(prof) + 1u, sizeof(*known));
	int rc = known ? 0 : err_set(err, -ENOMEM, "cannot look for suppressions");
	for (uint32_t i = prof_stack_used(prof, 0); i < stacks && rc == 0;
	     i = prof_stack_used(prof, i + 1)) {
		struct stack_id id = { i };
		struct cost cost;
		prof_stack_cost(prof, id, &cost);
		size_t rule = cost.leaked ? rule_of_stack(s, prof, id, &cost, known) : s->count;
		if (rule == s->count)
			continue;
		sum_add(&s->rules[rule].allocations, cost.leaked);
		sum_add(&s->rules[rule].bytes, cost.leaked_bytes);
		sum_add(&s->allocations, cost.leaked);
		sum_add(&s->bytes, cost.leaked_bytes);
		if (apply)
			rc = prof_suppress(prof, id, err);
	}
	free(known);
	s->applied = apply;
	qsort(s->rules, s->count, sizeof(*s->rules), by_bytes);
	while (s->taken < s->count && s->rules[s->taken].allocations)
		s->taken++;
	return rc;
}

const struct suppress_rule *suppress_rules(const struct suppress *s, size_t *count)
{
	*count = s->taken;
	return s->rules;
}

void suppress_sum(const struct suppress *s, uint64_t *allocations, uint64_t *bytes)
{
	*allocations = s->allocations;
	*bytes = s->bytes;
}

int suppress_applied(const struct suppress *s)
{
	return s->applied;
}
