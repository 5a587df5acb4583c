/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.c - what the environment asks of the recording, be it byteledger's own (`heap --
 * PROGRAM`) or, handed on as arguments NAME=VALUE, that of a program with the library alone.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "query/query.h"
#include "recorder/record.h"
#include "source/filter.h"
#include "wire/heap.h"
#include "wire/heap_start.h"

#define MS 1000000u
#define CULL_LIFETIME_MS 10000
#define KEEP_FILES "KEEP_FILES"
#define KEEP_MAX 100000

static const char *value_of(const char *entry, const char *prefix, const char *name)
{
	size_t len = strlen(prefix), name_len = strlen(name);
	if (strncmp(entry, prefix, len) != 0 || strncmp(entry + len, name, name_len) != 0 ||
	    entry[len + name_len] != '=')
		return NULL;
	return entry + len + name_len + 1;
}

static const char *look(char *const *entries, const char *prefix, const char *name)
{
	const char *value = NULL;
	for (; entries && *entries && !value; entries++)
		value = value_of(*entries, prefix, name);
	return value;
}

/* As the older tool reads them: a number that does not parse is not there. */
static int number(const char *text, uint64_t *to)
{
	uint64_t v = 0;
	if (!text || !*text)
		return 0;
	for (; *text; text++)
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (uint64_t)(*text - '0'), &v))
			return 0;
	*to = v;
	return 1;
}

static int on(const char *text)
{
	return text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
}

static const char *setting(char *const *entries, int bare, const char *name)
{
	if (bare)
		return look(entries, "", name);
	const char *value = look(entries, WIRE_ENV_PREFIX, name);
	return value ? value : look(entries, WIRE_ENV_ALIAS, name);
}

/* A size that bounds the files; one that is misread would fill the disk in silence. */
static uint64_t limit(struct record_settings *to, char *const *entries, int bare, const char *name)
{
	const char *value = setting(entries, bare, name);
	uint64_t bytes = 0;
	if (value && *value && query_size_parse(value, &bytes, NULL) < 0)
		to->bad = name;
	return bytes;
}

int record_settings_check(const struct record_settings *settings, struct err *err)
{
	if (settings->sample_bad) {
		err_set(err, -EINVAL, "cannot use BYTELEDGER_SAMPLE_BYTES");
		return err_hint(err, "it is a number of bytes, at most %u; 0 is off",
				WIRE_SAMPLE_MAX);
	}
	if (settings->bad) {
		err_set(err, -EINVAL, "cannot use BYTELEDGER_%s", settings->bad);
		return err_hint(err, strcmp(settings->bad, KEEP_FILES) == 0
					     ? "it is a number of files; 0 is all"
					     : "it is a size such as 500000, 64M or 2G; 0 is off");
	}
	return record_send_check(settings, err);
}

void record_settings_read(struct record_settings *to, char *const *entries, int bare)
{
	uint64_t n;
	*to = (struct record_settings){ .owner = -1 };
	if (on(setting(entries, bare, "CULL_TEMPORARY_ALLOCATIONS"))) {
		n = CULL_LIFETIME_MS;
		number(setting(entries, bare, "TEMPORARY_ALLOCATION_LIFETIME_THRESHOLD"), &n);
		to->cull.lifetime_ns = n < UINT64_MAX / 4 / MS ? n * MS : UINT64_MAX / 4;
		n = 0;
		number(setting(entries, bare, "TEMPORARY_ALLOCATION_PENDING_THRESHOLD"), &n);
		to->cull.pending_max = n < CULL_PENDING_DEFAULT ? (uint32_t)n : 0;
	}
	const char *sample = setting(entries, bare, "SAMPLE_BYTES");
	if (number(sample, &n) && n <= WIRE_SAMPLE_MAX)
		to->sample_bytes = n;
	else
		to->sample_bad = sample != NULL;
	to->filter = setting(entries, bare, "FILTER");
	to->include = setting(entries, bare, "INCLUDE_FILE");
	/* what a program was is best known while its files are what they were */
	const char *names = setting(entries, bare, "WRITE_BINARIES_TO_OUTPUT");
	to->store_symbols = !names || on(names);
	if (bare && number(look(entries, "", "UNTIL"), &n))
		to->until_ns = n;
	if (bare && number(setting(entries, bare, "FAMILY"), &n))
		to->family = n;
	to->min_free_bytes = limit(to, entries, bare, "MIN_FREE");
	to->max_bytes = limit(to, entries, bare, "MAX_SIZE");
	to->send = setting(entries, bare, "SEND");
	to->token_file = setting(entries, bare, "TOKEN_FILE");
	const char *keep = setting(entries, bare, "KEEP_FILES");
	if (number(keep, &n))
		to->keep_files = n < KEEP_MAX ? (uint32_t)n : KEEP_MAX;
	else if (keep && *keep)
		to->bad = KEEP_FILES;
	if (number(setting(entries, bare, "CHOWN_OUTPUT_TO"), &n) && n < UINT32_MAX)
		to->owner = (int64_t)n;
}

int record_filter(struct record *rec, uint64_t sample_bytes, struct err *err)
{
	if (sample_bytes && rec->settings.filter && wire_filter_has_module(rec->settings.filter)) {
		err_set(err, -EINVAL,
			"cannot use BYTELEDGER_FILTER '%s' with BYTELEDGER_SAMPLE_BYTES",
			rec->settings.filter);
		return err_hint(err,
				"which module called is known of stacks that were not left out; "
				"words about threads can be used");
	}
	return source_filter_new(&rec->sieve, rec->settings.filter, &rec->tee.sink, err);
}
