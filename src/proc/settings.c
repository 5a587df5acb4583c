/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/settings.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TEXT_MAX (1u << 20)

/* The variables, and with a star all that begin so. */
static const char *const variables[] = {
	"MALLOC_*",
	"GLIBC_TUNABLES",
	"JE_MALLOC_CONF",
	"_RJEM_MALLOC_CONF",
	"TCMALLOC_*",
	"MIMALLOC_*",
	"GOGC",
	"GOMEMLIMIT",
	"GODEBUG",
	"GOMAXPROCS",
	"JAVA_OPTS",
	"JAVA_TOOL_OPTIONS",
	"JDK_JAVA_OPTIONS",
	"_JAVA_OPTIONS",
	"PYTHONMALLOC*",
	"NODE_OPTIONS",
	"LD_PRELOAD",
	"RUBY_GC_*",
	"OCAMLRUNPARAM",
	"ERL_FLAGS",
	"DOTNET_GC*",
	"COMPlus_GC*",
	"USE_ZEND_ALLOC*",
};
/* Arguments of programs that run others' code. */
static const char *const arguments[] = {
	"-Xmx",
	"-Xms",
	"-Xmn",
	"-Xss",
	"-XX:",
	"--max-old-space-size",
	"--max-semi-space-size",
	"--max_old_space_size",
	"--jemalloc",
	"+MB",
	"+MH",
	"+Mu",
};

void settings_add(struct settings *s, const char *name, const char *value, const char *from)
{
	if (s->count == SETTINGS_MAX) {
		s->left_out++;
		return;
	}
	struct setting *row = &s->rows[s->count++];
	snprintf(row->name, sizeof(row->name), "%.47s", name);
	snprintf(row->value, sizeof(row->value), "%.159s", value);
	snprintf(row->from, sizeof(row->from), "%.47s", from);
}

/* Texts with a NUL behind each. */
static char *read_texts(const struct target *target, const char *name, size_t *len)
{
	struct err ignored = { 0 };
	int fd = target_file(target, name, &ignored);
	char *text = fd >= 0 ? malloc(TEXT_MAX + 1) : NULL;
	ssize_t got;
	*len = 0;
	while (text && *len < TEXT_MAX && (got = read(fd, text + *len, TEXT_MAX - *len)) > 0)
		*len += (size_t)got;
	if (text)
		text[*len] = '\0';
	if (fd >= 0)
		close(fd);
	return text;
}

static int is_wanted(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		size_t want = strlen(variables[i]);
		int star = variables[i][want - 1] == '*';
		want -= (size_t)star;
		if (strncmp(name, variables[i], want) == 0 && (star ? len >= want : len == want))
			return 1;
	}
	return 0;
}

static void take_variable(struct settings *s, const char *text)
{
	const char *equals = strchr(text, '=');
	char name[64];
	if (!equals || !equals[1] || (size_t)(equals - text) >= sizeof(name) ||
	    !is_wanted(text, (size_t)(equals - text)))
		return;
	memcpy(name, text, (size_t)(equals - text));
	name[equals - text] = '\0';
	settings_add(s, name, equals + 1, "environment");
}

static void take_argument(struct settings *s, const char *text)
{
	for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++) {
		if (strncmp(text, arguments[i], strlen(arguments[i])) != 0)
			continue;
		const char *equals = strchr(text, '=');
		char name[48];
		size_t len = equals ? (size_t)(equals - text) : strlen(text);
		snprintf(name, sizeof(name), "%.*s", (int)(len < 47 ? len : 47), text);
		settings_add(s, name, equals ? equals + 1 : "", "command line");
		return;
	}
}

void settings_read(struct settings *s, const struct target *target)
{
	static void (*const take[])(struct settings *, const char *) = { take_variable,
									 take_argument };
	static const char *const files[] = { "environ", "cmdline" };
	for (unsigned f = 0; f < 2; f++) {
		size_t len, at = 0;
		char *text = read_texts(target, files[f], &len);
		/* the program itself is no argument */
		if (text && f == 1)
			at = strlen(text) + 1;
		for (; text && at < len; at += strlen(text + at) + 1)
			take[f](s, text + at);
		free(text);
	}
}
