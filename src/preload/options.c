/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/options.h"

#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/utsname.h>

#include "preload/log.h"
#include "wire/heap.h"
#include "wire/heap_layout.h"
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

/* The first letter is asked before all else: of an environment's variables it rules nearly all out, for twenty names each. */
static const char *look_for(char *const *env, const char *prefix, const char *name)
{
	const char *value = NULL;
	for (char *const *e = env; *e && !value; e++)
		if (**e == *prefix)
			value = value_of(*e, prefix, name);
	return value;
}

static const char *look(char *const *env, const char *name)
{
	const char *value = look_for(env, WIRE_ENV_PREFIX, name);
	return value ? value : look_for(env, WIRE_ENV_ALIAS, name);
}

const char *options_entry(char *const *env, const char *name)
{
	const char *value = look(env, name);
	return value ? value - strlen(name) - 1 : NULL;
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

/* Take this library, and no other, out of LD_PRELOAD: programs started from here are not traced. */
static void take_out_preload(char **env)
{
	for (char **e = env; *e; e++) {
		if (strncmp(*e, "LD_PRELOAD=", 11) != 0)
			continue;
		char *to = *e + 11;
		const char *from = to;
		while (*from) {
			size_t len = strcspn(from, ": ");
			const char *base = from;
			for (size_t i = 0; i < len; i++)
				if (from[i] == '/')
					base = from + i + 1;
			size_t name = sizeof(WIRE_PRELOAD_NAME) - 1;
			int ours = (size_t)(from + len - base) >= name &&
				   strncmp(base, WIRE_PRELOAD_NAME, name) == 0;
			size_t whole = len + (from[len] != '\0');
			if (!ours) {
				memmove(to, from, whole);
				to += whole;
			}
			from += whole;
		}
		*to = '\0';
		if (to == *e + 11) {
			take_out(env, "LD_PRELOAD");
			return;
		}
	}
}

/* Names of the older tool that mean nothing here. */
static void tell_accepted(char **env)
{
	static const char *const names[] = {
		"USE_SHADOW_STACK",
		"BACKTRACE_CACHE_SIZE_LEVEL_1",
		"BACKTRACE_CACHE_SIZE_LEVEL_2",
		"USE_PERF_EVENT_OPEN",
		"EMIT_PARTIAL_BACKTRACES",
		"DISABLE_PR_SET_VMA_ANON_NAME",
		"GATHER_MAPS",
		"GATHER_MMAP_CALLS",
		"BASE_SERVER_PORT",
	};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (look(env, names[i]))
			log_line(LOG_INFO, "%s is accepted without effect", names[i]);
	/* asked for, and not there: say so instead of recording something else */
	static const char *const absent[] = {
		"ENABLE_SERVER",
		"ENABLE_BROADCAST",
		"SEND",
		"SERVER_ADDRESS",
	};
	for (size_t i = 0; i < sizeof(absent) / sizeof(absent[0]); i++) {
		const char *value = look(env, absent[i]);
		if (value && strcmp(value, "0") != 0)
			log_line(LOG_WARN, "%s is not supported: ignored", absent[i]);
	}
}

/*
 * The pattern as children find it, those of forks and what they start: a program may overwrite its environment with a title,
 * and a daemon or a script goes to another folder. The variable, where there is one, says the same from now on.
 */
static const char *keep_output(char **env, const char *pattern)
{
	static char folder[4096], kept[4 * 4096];
	char **entry = env;
	while (*entry && (pattern < *entry || pattern > *entry + strlen(*entry)))
		entry++;
	size_t lead = *entry ? (size_t)(pattern - *entry) : 0, len = lead;
	if (lead + 2 * sizeof(folder) + strlen(pattern) >= sizeof(kept))
		return pattern;
	if (*entry)
		memcpy(kept, *entry, lead);
	long n =
		*pattern == '/' ? 0 : sys2(SYS_getcwd, folder, sizeof(folder)); /* counts the NUL */
	if (n > 1 && folder[0] == '/') {
		folder[n - 1] = '/';
		for (long i = 0; i < n; i++) {
			kept[len++] = folder[i];
			if (folder[i] == '%')
				kept[len++] = '%';
		}
	}
	memcpy(kept + len, pattern, strlen(pattern) + 1);
	if (*entry)
		*entry = kept;
	return kept + lead;
}

struct options *options_read(char **stack)
{
	long argc = *(long *)stack;
	char **env = stack + 1 + argc + 1;
	unsigned long n;
	struct options *o = &options;
	o->env = env;
	n = 0;
	number(look(env, "LOGFILE_ROTATE_WHEN_BIGGER_THAN"), &n);
	const char *file = look(env, "LOGFILE");
	static char log_file[1024];
	if (file && (!*file || !options_file(log_file, sizeof(log_file), file, -1)))
		file = NULL;
	log_open(look(env, "LOG"), file ? log_file : NULL, n);
	/* nobody but a byteledger parent sets it: no alias */
	for (char **e = env; *e && o->fd < 0; e++)
		if (number(value_of(*e, "", WIRE_ENV_SHM), &n) && n < 1u << 20)
			o->fd = (int)n;
	o->track_children =
		on(look(env, "TRACK_CHILD_PROCESSES")) || on(look(env, "TRACK_CHILDREN"));
	o->disabled = on(look(env, "DISABLE_BY_DEFAULT"));
	const char *stacks = look(env, "FREE_STACKS");
	o->free_stacks = on(stacks ? stacks : look(env, "GRAB_BACKTRACES_ON_FREE"));
	o->stamp_every_event = on(look(env, "STAMP_EVERY_EVENT"));
	const char *usr1 = look(env, "REGISTER_SIGUSR1"), *usr2 = look(env, "REGISTER_SIGUSR2");
	o->usr1 = usr1 ? on(usr1) : o->disabled;
	o->usr2 = usr2 ? on(usr2) : o->disabled;
	const char *full = look(env, "ON_FULL");
	o->on_full = WIRE_FULL_LIMIT;
	if (full && strcmp(full, "wait") == 0)
		o->on_full = WIRE_FULL_WAIT;
	else if (full && strcmp(full, "drop") == 0)
		o->on_full = WIRE_FULL_DROP;
	else if (full && strcmp(full, "limit") != 0)
		log_line(LOG_WARN, "ON_FULL=%s is not wait, limit or drop: limit it is", full);
	o->budget = WIRE_HEAP_BUDGET_DEFAULT;
	const char *budget = look(env, "BUDGET");
	if (number(budget, &n) && n >= WIRE_HEAP_BUDGET_MIN && n <= 1u << 30)
		o->budget = n;
	else if (budget && o->fd < 0)
		log_line(LOG_WARN, "BUDGET=%s is not a number of bytes from %d to %d: ignored",
			 budget, (long)WIRE_HEAP_BUDGET_MIN, 1L << 30);
	const char *sample = look(env, "SAMPLE_BYTES");
	if (number(sample, &n) && n <= WIRE_SAMPLE_MAX)
		o->sample_bytes = n;
	else if (sample && o->fd < 0)
		log_line(LOG_WARN,
			 "SAMPLE_BYTES=%s is not a number of bytes up to %d: ignored, "
			 "every allocation has a stack",
			 sample, (long)WIRE_SAMPLE_MAX);
	o->output = look(env, "OUTPUT");
	if (!o->output)
		o->output = "byteledger_%e_%p.blt";
	if (o->track_children && *o->output)
		o->output = keep_output(env, o->output);
	o->filter = look(env, "FILTER");
	o->filter = o->filter ? o->filter : "";
	const char *own = look(env, "OWN_ALLOCATORS");
	o->own_allocators = !own || (strcmp(own, "0") != 0 && strcmp(own, "false") != 0);
	o->zero_memory = on(look(env, "ZERO_MEMORY"));
	o->helper = look(env, "HELPER");
	for (char **e = env; *e && !o->path; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			o->path = *e + 5;
	if (o->fd < 0)
		tell_accepted(env);
	take_out(env, WIRE_ENV_SHM);
	if (!o->track_children)
		take_out_preload(env);
	return o;
}

/* ---- file names ---- */

static int put(char *to, size_t size, size_t *len, const char *text, int value)
{
	for (; *text; text++) {
		char c = *text;
		if (value && (c == '/' || (unsigned char)c < ' ' || c == 127))
			c = '_';
		if (*len + 1 >= size)
			return 0;
		to[(*len)++] = c;
	}
	to[*len] = '\0';
	return 1;
}

static const char *decimal(char digits[24], unsigned long v)
{
	int at = 23;
	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	return digits + at;
}

int options_file(char *to, size_t size, const char *pattern, long number)
{
	static char exe[4096];
	char digits[24];
	size_t len = 0;
	struct utsname host;
	struct timespec ts;
	to[0] = '\0';
	for (const char *p = pattern; *p; p++) {
		char one[2] = { *p, '\0' };
		const char *value = NULL;
		if (*p != '%') {
			if (!put(to, size, &len, one, 0))
				return 0;
			continue;
		}
		p++;
		if (*p == 'e') {
			long n = sys4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", exe,
				      sizeof(exe) - 1);
			exe[n > 0 ? n : 0] = '\0';
			value = strrchr(exe, '/') ? strrchr(exe, '/') + 1 : exe;
		} else if (*p == 't') {
			clock_gettime(CLOCK_REALTIME, &ts);
			value = decimal(digits, (unsigned long)ts.tv_sec);
		} else if (*p == 'p') {
			value = decimal(digits, (unsigned long)sys0(SYS_getpid));
		} else if (*p == 'n') {
			value = number < 0 ? "" : decimal(digits, (unsigned long)number);
		} else if (*p == 'h') {
			value = sys_failed(sys1(SYS_uname, &host)) ? "" : host.nodename;
		} else if (*p == '%') {
			value = "%";
		}
		/* what stands for nothing stays as it was typed */
		const char typed[3] = { '%', *p, '\0' };
		if (!put(to, size, &len, value ? value : typed, value != NULL))
			return 0;
		if (!*p)
			break;
	}
	return len > 0;
}
