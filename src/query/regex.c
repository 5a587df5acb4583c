/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "query/impl.h"

/* A pattern longer than this is no question but an attack on the matcher. */
#define REGEX_MAX 1000
/* Each costs memory, and all are made before anything is matched. */
#define COPIES_MAX 4096.0

/**
 * struct memo - each name is matched once, however many frames carry it (names are interned: one
 * address).
 */
struct memo {
	struct idtab tab;
	const char **names;
	uint8_t *matches;
	uint32_t count, cap;
};

static void memo_fini(struct memo *memo)
{
	idtab_fini(&memo->tab);
	free(memo->names);
	free(memo->matches);
}

static int memo_matches(struct memo *memo, const regex_t *re, const char *name)
{
	if (idtab_reserve(&memo->tab) < 0)
		return -ENOMEM;
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)name, 0, hash_seed());
	uint32_t at = idtab_first(&memo->tab, hash);
	for (; memo->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&memo->tab, at))
		if (memo->names[memo->tab.slots[at].id] == name)
			return memo->matches[memo->tab.slots[at].id];
	if (memo->count == memo->cap) {
		uint32_t cap = memo->cap ? memo->cap * 2 : 256;
		const char **names = realloc(memo->names, cap * sizeof(*names));
		if (!names)
			return -ENOMEM;
		memo->names = names;
		uint8_t *matches = realloc(memo->matches, cap);
		if (!matches)
			return -ENOMEM;
		memo->matches = matches;
		memo->cap = cap;
	}
	memo->names[memo->count] = name;
	memo->matches[memo->count] = regexec(re, name, 0, NULL, 0) == 0;
	idtab_put(&memo->tab, at, hash, memo->count);
	return memo->matches[memo->count++];
}

static int frame_matches(const struct prof *prof, uint32_t row, const regex_t *re, int source,
			 struct memo *memo)
{
	const struct prof_frame *f = prof_frame(prof, (struct frame_id){ row });
	for (uint32_t i = 0; i < f->symbol_count; i++) {
		const char *text = source ? f->symbols[i].file : f->symbols[i].function;
		if (!text)
			continue;
		int rc = memo_matches(memo, re, text);
		if (rc != 0)
			return rc;
	}
	return 0;
}

/**
 * copies() - how often at most the compiler writes parts of @regex anew: what is repeated is
 * copied, and copies of copies multiply.
 */
static double copies(const char *regex)
{
	double times = 1;
	char before = 0;
	for (const char *at = regex; *at; before = *at++) {
		if (*at == '\\' && at[1]) {
			at++;
		} else if (*at == '[') { /* a list: none of it repeats, ']' may come first in it */
			at += 1 + (at[1] == '^');
			at = strchr(*at ? at + 1 : at, ']');
			if (!at)
				break;
		} else if (*at == '+' && before && strchr(")+*?}", before)) {
			times *= 2;
		} else if (*at == '{') {
			unsigned long least = strtoul(at + 1, NULL, 10), most = least;
			const char *comma = at + 1 + strspn(at + 1, "0123456789");
			if (*comma == ',')
				most = strtoul(comma + 1, NULL, 10);
			times *= (double)(most > least ? most : least) + 1;
		}
	}
	return times;
}

static int compile(regex_t *re, const char *regex, struct err *err)
{
	if (strlen(regex) > REGEX_MAX)
		return err_set(err, -EINVAL, "a regular expression of %zu bytes (at most %d)",
			       strlen(regex), REGEX_MAX);
	if (copies(regex) > COPIES_MAX)
		return err_set(err, -EINVAL, "a regular expression whose repetitions multiply");
	int bad = regcomp(re, regex, REG_EXTENDED | REG_NOSUB);
	if (bad == 0)
		return 0;
	char text[200];
	regerror(bad, re, text, sizeof(text));
	err_set(err, -EINVAL, "bad regular expression '%s': %s", regex, text);
	return err_hint(err, "POSIX extended syntax; quote ( ) [ ] { } * + ? . | with \\");
}

int query_regex_check(const char *regex, struct err *err)
{
	regex_t re;
	int rc = compile(&re, regex, err);
	if (rc == 0)
		regfree(&re);
	return rc;
}

uint8_t *query_mask(const struct prof *prof, const char *regex, int source, struct err *err)
{
	regex_t re;
	if (compile(&re, regex, err) < 0)
		return NULL;
	struct memo memo = { 0 };
	uint32_t frames = prof_frame_count(prof), stacks = prof_stack_count(prof);
	uint8_t *frame = calloc(frames, 1), *stack = calloc(stacks, 1);
	int rc = frame && stack ? 0 : -ENOMEM;
	for (uint32_t i = 1; i < frames && rc >= 0; i++) {
		rc = frame_matches(prof, i, &re, source, &memo);
		if (rc > 0)
			frame[i] = 1;
	}
	/* A caller's row is smaller than its callee's: one pass. */
	for (uint32_t i = 1; i < stacks && rc >= 0; i++) {
		const struct prof_stack *s = prof_stack(prof, (struct stack_id){ i });
		stack[i] = stack[s->parent.v] || (!s->stop && frame[s->frame.v]);
	}
	regfree(&re);
	memo_fini(&memo);
	free(frame);
	if (rc < 0) {
		free(stack);
		err_set(err, -ENOMEM, "cannot match '%s' against the stacks", regex);
		return NULL;
	}
	return stack;
}

int module_stacks(const struct prof *prof, const char *name, uint8_t **stacks, struct err *err)
{
	uint32_t count = prof_stack_count(prof);
	uint8_t *in = calloc(count, 1);
	if (!in)
		return err_set(err, -ENOMEM, "cannot look for the module '%s'", name);
	for (uint32_t i = 1; i < count; i++) {
		const struct prof_stack *s = prof_stack(prof, (struct stack_id){ i });
		in[i] = in[s->parent.v];
		if (!in[i] && !s->stop) {
			const struct prof_frame *f = prof_frame(prof, s->frame);
			in[i] = strcmp(prof_module(prof, f->module)->name, name) == 0;
		}
	}
	for (uint32_t i = 1; *stacks && i < count; i++)
		in[i] &= (*stacks)[i];
	free(*stacks);
	*stacks = in;
	return 0;
}

int one_stack(const struct prof *prof, uint32_t row, uint8_t **stacks, struct err *err)
{
	uint32_t count = prof_stack_count(prof);
	if (row >= count)
		return err_set(err, -EINVAL, "there is no stack %u: there are %u", row, count - 1);
	uint8_t *in = calloc(count, 1);
	if (!in)
		return err_set(err, -ENOMEM, "cannot look for the stack %u", row);
	in[row] = !*stacks || (*stacks)[row];
	free(*stacks);
	*stacks = in;
	return 0;
}
