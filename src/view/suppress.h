/* SPDX-License-Identifier: Apache-2.0 */
/*
 * suppress.h - leaks that nobody wants to hear of: by patterns in the syntax of LeakSanitizer and
 * heaptrack, and those that runtimes never free on purpose.
 *
 * A line of a file is "leak:PATTERN", a comment ("#") or empty. A pattern is looked for in the
 * names of functions, source files and modules of all frames of a stack; '*' stands for anything,
 * '^' and '$' for the ends of the name.
 */
#ifndef VIEW_SUPPRESS_H
#define VIEW_SUPPRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "model/prof.h"

#define SUPPRESS_RULES_MAX 10000u
#define SUPPRESS_PATTERN_MAX 1000u

/** One rule and what it took. */
struct suppress_rule {
	/* as it was written; of a built-in one what it is about */
	const char *pattern;
	int built_in;
	uint64_t allocations, bytes;
};

struct suppress;

/**
 * suppress_new() - with the built-in rules, if @built_in; NULL with @err -ENOMEM. suppress_freep()
 * accepts NULL.
 */
struct suppress *suppress_new(int built_in, struct err *err);
void suppress_freep(struct suppress **suppress);
/**
 * suppress_add() - the rules in @text, which is called @name in messages. -EINVAL for a line that
 * is none, -E2BIG, -ENOMEM.
 */
int suppress_add(struct suppress *suppress, const char *text, size_t bytes, const char *name,
		 struct err *err);
/**
 * suppress_add_pattern() - one, without its "leak:"; the recording's own (prof_rule()). Too long
 * ones are left out. -E2BIG, -ENOMEM.
 */
int suppress_add_pattern(struct suppress *suppress, const char *pattern, struct err *err);
/**
 * suppress_run() - which leaks of @prof are meant, each by the first rule that fits: O(frames of
 * leaking stacks * rules). With @apply they are taken out of @prof's leaks. Once.
 */
int suppress_run(struct suppress *suppress, struct prof *prof, int apply, struct err *err);

/** suppress_rules() - those that took anything, most bytes first; lent. */
const struct suppress_rule *suppress_rules(const struct suppress *suppress, size_t *count);
/** suppress_sum() - of all of them. */
void suppress_sum(const struct suppress *suppress, uint64_t *allocations, uint64_t *bytes);
/** suppress_applied() - were they taken out of what suppress_run() was given? */
int suppress_applied(const struct suppress *suppress);

/** suppress_matches() - does @name fit @pattern? For tests. */
int suppress_matches(const char *pattern, const char *name);

#endif
