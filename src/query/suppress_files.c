/* SPDX-License-Identifier: Apache-2.0 */
#include "query/suppress_files.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/cleanup.h"

#define FILE_MAX (4u << 20)

static int read_rules(struct suppress *rules, const char *path, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	FILE *from = fopen(path, "re");
	if (!from)
		return err_set(err, -errno, "cannot read suppressions from '%s'", path);
	char part[16384];
	size_t got;
	errno = 0;
	while (text.len <= FILE_MAX && (got = fread(part, 1, sizeof(part), from)) > 0)
		buf_put(&text, part, got);
	int bad = ferror(from), why = errno;
	fclose(from);
	if (bad)
		return err_set(err, why ? -why : -EIO, "cannot read suppressions from '%s'", path);
	if (text.len > FILE_MAX)
		return err_set(err, -E2BIG, "'%s' is too large to hold suppressions", path);
	if (buf_failed(&text))
		return err_set(err, -ENOMEM, "cannot read suppressions from '%s'", path);
	return text.len ? suppress_add(rules, buf_cstr(&text), text.len, path, err) : 0;
}

static struct suppress *make(const struct suppress_files *given, int built_in, struct err *err)
{
	CLEANUP(suppress_freep) struct suppress *rules = suppress_new(built_in, err);
	for (size_t i = 0; rules && i < given->count; i++)
		if (read_rules(rules, given->files[i], err) < 0)
			return NULL;
	return STEAL(rules);
}

int suppress_files_check(const struct suppress_files *given, struct err *err)
{
	CLEANUP(suppress_freep) struct suppress *rules = make(given, 0, err);
	return rules ? 0 : err->code;
}

struct suppress *suppress_files_run(const struct suppress_files *given, struct prof *prof,
				    int built_in_too, struct err *err)
{
	CLEANUP(suppress_freep) struct suppress *rules = make(given, !given->off, err);
	for (uint32_t i = 0; rules && !given->off && i < prof_rule_count(prof); i++)
		if (suppress_add_pattern(rules, prof_rule(prof, i), err) < 0)
			return NULL;
	if (!rules || suppress_run(rules, prof, built_in_too || given->count, err) < 0)
		return NULL;
	return STEAL(rules);
}

void suppress_subtract(const struct suppress *suppress, struct prof_totals *totals)
{
	uint64_t allocations, bytes;
	if (suppress_applied(suppress))
		return;
	suppress_sum(suppress, &allocations, &bytes);
	totals->cost.leaked -= allocations;
	totals->cost.leaked_bytes -= bytes;
}
