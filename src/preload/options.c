/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/options.h"

#include <stddef.h>
#include <string.h>

#include "wire/heap_start.h"

static struct options options = { .fd = -1 };

/* The value of "PREFIX_NAME=" in @entry, NULL if it is another variable. */
static const char *value_of(const char *entry, const char *prefix, const char *name)
{
	size_t len = strlen(prefix);
	if (strncmp(entry, prefix, len) != 0)
		return NULL;
	entry += len;
	len = strlen(name);
	if (strncmp(entry, name, len) != 0 || entry[len] != '=')
		return NULL;
	return entry + len + 1;
}

static const char *look(char **env, const char *name)
{
	const char *value = NULL;
	for (char **e = env; *e && !value; e++)
		value = value_of(*e, "BYTELEDGER_", name);
	for (char **e = env; *e && !value; e++)
		value = value_of(*e, "MEMORY_PROFILER_", name);
	return value;
}

static int number(const char *text, unsigned long *to)
{
	unsigned long v = 0;
	if (!text || !*text)
		return 0;
	for (; *text; text++) {
		if (*text < '0' || *text > '9' || __builtin_mul_overflow(v, 10, &v) ||
		    __builtin_add_overflow(v, (unsigned long)(*text - '0'), &v))
			return 0;
	}
	*to = v;
	return 1;
}

static int on(const char *text)
{
	return text && (strcmp(text, "1") == 0 || strcmp(text, "true") == 0);
}

static void take_out(char **env, const char *variable)
{
	size_t len = strlen(variable);
	char **to = env;
	for (char **e = env; *e; e++)
		if (strncmp(*e, variable, len) != 0 || (*e)[len] != '=')
			*to++ = *e;
	*to = NULL;
}

struct options *options_read(char **stack)
{
	long argc = *(long *)stack;
	char **env = stack + 1 + argc + 1;
	unsigned long fd;
	if (number(look(env, "SHM"), &fd) && fd < 1u << 20)
		options.fd = (int)fd;
	options.track_children =
		on(look(env, "TRACK_CHILD_PROCESSES")) || on(look(env, "TRACK_CHILDREN"));
	take_out(env, WIRE_ENV_SHM);
	if (!options.track_children)
		take_out(env, "LD_PRELOAD");
	return &options;
}
