/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/options.h"

#include <elf.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
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

/*
 * The first letter is asked before all else: of an environment's variables it rules nearly all out,
 * for twenty names each.
 */
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

/*
 * The list @from without this library into @to, of @size bytes. Return: what is left, in bytes; -1
 * it is not in there, or long.
 */
static long without_library(const char *from, char *to, size_t size)
{
	size_t left = 0;
	int found = 0;
	if (strlen(from) >= size)
		return -1;
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
			memcpy(to + left, from, whole);
			left += whole;
		}
		found |= ours;
		from += whole;
	}
	to[left] = '\0';
	return found ? (long)left : -1;
}

static int is_variable(const char *entry, const char *name)
{
	size_t len = strlen(name);
	return strncmp(entry, name, len) == 0 && entry[len] == '=';
}

/*
 * Whether all of @env[@at] is meant for us alone. A second LD_PRELOAD, which is the one that the
 * loader obeys, is: the first is what the program was given. One that names other libraries, too,
 * is replaced by one that names those.
 */
static int is_ours_alone(char **env, unsigned at, int children)
{
	static char kept[8192] = "LD_PRELOAD=";
	const size_t begin = sizeof("LD_PRELOAD=") - 1;
	if (is_variable(env[at], WIRE_ENV_SHM) || is_variable(env[at], WIRE_ENV_PAD) ||
	    is_variable(env[at], WIRE_ENV_NEXT))
		return 1;
	if (children || !is_variable(env[at], "LD_PRELOAD"))
		return 0;
	long left = without_library(env[at] + begin, kept + begin, sizeof(kept) - begin);
	for (unsigned i = 0; left > 0 && i < at; i++)
		if (is_variable(env[i], "LD_PRELOAD"))
			return 1;
	if (left > 0)
		env[at] = kept;
	return left == 0;
}

char *const *options_bare_env(char *const *env, char **to, char *text, size_t size)
{
	const size_t begin = sizeof("LD_PRELOAD=") - 1;
	size_t count = 0;
	for (; *env; env++) {
		long left = -1;
		if (is_variable(*env, "LD_PRELOAD") && size > begin)
			left = without_library(*env + begin, text + begin, size - begin);
		if (left < 0) {
			to[count++] = *env;
		} else if (left > 0) {
			memcpy(text, *env, begin);
			to[count++] = text;
			text += begin + (size_t)left + 1;
			size -= begin + (size_t)left + 1;
		}
	}
	to[count] = NULL;
	return to;
}

/*
 * Where the kernel shows that the environment ends. The form that says all bounds at once wants no
 * capability.
 */
static void set_env_end(const char *end)
{
	static char text[2048];
	uint64_t field[52] = { 0 };
	long fd = sys4(SYS_openat, AT_FDCWD, "/proc/self/stat", O_RDONLY | O_CLOEXEC, 0);
	long n = sys_failed(fd) ? 0 : sys3(SYS_read, fd, text, sizeof(text) - 1);
	if (sys_failed(fd))
		return;
	sys1(SYS_close, fd);
	text[n > 0 ? n : 0] = '\0';
	/* the second one, a name in brackets, may have anything in it */
	const char *at = strrchr(text, ')');
	for (unsigned i = 2; at && *at && i < 52; at++) {
		if (*at == ' ')
			i++;
		else if (*at >= '0' && *at <= '9' && i < 52)
			field[i] = field[i] * 10 + (uint64_t)(*at - '0');
	}
	struct prctl_mm_map map = {
		.start_code = field[26],
		.end_code = field[27],
		.start_data = field[45],
		.end_data = field[46],
		.start_brk = field[47],
		.brk = (uint64_t)sys1(SYS_brk, 0),
		.start_stack = field[28],
		.arg_start = field[48],
		.arg_end = field[49],
		.env_start = field[50],
		.env_end = (uint64_t)end,
		.exe_fd = ~0u,
	};
	if (field[50] && field[50] <= map.env_end && map.env_end <= field[51])
		sys5(SYS_prctl, PR_SET_MM, PR_SET_MM_MAP, &map, sizeof(map), 0);
}

/*
 * /proc/self/environ ends before the first of them, if nothing else stands behind; else it shows
 * zeroes there.
 */
static void wipe(char *const *entries, unsigned count, char *const *kept)
{
	char *lowest = entries[0];
	for (unsigned i = 0; i < count; i++) {
		memset(entries[i], 0, strlen(entries[i]));
		if (entries[i] < lowest)
			lowest = entries[i];
	}
	for (; *kept; kept++)
		if (*kept > lowest)
			return;
	set_env_end(lowest);
}

/*
 * Take out of the environment what is meant for us. Who looks for the auxiliary vector looks behind
 * the NULL that ends the environment (allocators, runtimes of sanitizers, programs without libc):
 * it stays where it was, and the places that come free in front of it become entries of it that say
 * nothing. They are pairs: of an odd number one variable stays, empty.
 */
#define OURS_MAX 8

static void take_out(char **env, int children)
{
	static char empty[] = "LD_PRELOAD=", no_shm[] = WIRE_ENV_SHM "=";
	char *ours[OURS_MAX], **to = env, **e;
	unsigned count = 0, at = 0, place[OURS_MAX];
	for (unsigned i = 0; env[i] && count < OURS_MAX; i++) {
		if (!is_ours_alone(env, i, children))
			continue;
		place[count] = i;
		ours[count++] = env[i];
	}
	if (count % 2) {
		count--;
		env[place[count]] = is_variable(ours[count], "LD_PRELOAD") ? empty : no_shm;
	}
	if (!count)
		return;
	for (e = env; *e; e++) {
		if (at < count && *e == ours[at])
			at++;
		else
			*to++ = *e;
	}
	*to = NULL;
	for (unsigned i = 0; i < count; i++)
		to[1 + i] = (char *)(uintptr_t)(i % 2 ? 0 : AT_IGNORE);
	wipe(ours, count, env);
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
 * The pattern as children find it, those of forks and what they start: a program may overwrite its
 * environment with a title, and a daemon or a script goes to another folder. The variable, where
 * there is one, says the same from now on.
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

/* This library's path, as the last LD_PRELOAD has it. */
static const char *find_library(char **env)
{
	static char kept[4096];
	for (char **e = env; *e; e++) {
		const char *list = value_of(*e, "", "LD_PRELOAD");
		for (size_t len; list && *list; list += len + (list[len] != '\0')) {
			len = strcspn(list, ": ");
			size_t name = sizeof(WIRE_PRELOAD_NAME) - 1;
			if (len < sizeof(kept) && len >= name &&
			    memcmp(list + len - name, WIRE_PRELOAD_NAME, name) == 0) {
				memcpy(kept, list, len);
				kept[len] = '\0';
			}
		}
	}
	return *kept ? kept : NULL;
}

/* Before anything is taken out of @env: WIRE_ENV_NEXT. */
static void read_next(struct options *o, char **env)
{
	static char kept[8192];
	const char *value = NULL;
	unsigned long pid = 0, budget = 0;
	for (char **e = env; *e && !value; e++)
		value = value_of(*e, "", WIRE_ENV_NEXT);
	if (!value || strlen(value) >= sizeof(kept))
		return;
	for (; *value >= '0' && *value <= '9' && pid < 1u << 30; value++)
		pid = pid * 10 + (unsigned long)(*value - '0');
	if (*value != ':' || !strchr(value + 1, ':'))
		return;
	strcpy(kept, value + 1);
	o->next = kept;
	o->library = find_library(env);
	if (o->fd >= 0)
		return;
	o->stranger = pid != (unsigned long)sys0(SYS_getpid);
	const char *at = kept;
	o->on_full = *at == 'w' ? WIRE_FULL_WAIT : *at == 'd' ? WIRE_FULL_DROP : WIRE_FULL_LIMIT;
	at += *at != ':';
	for (; *at >= '0' && *at <= '9' && budget < 1u << 30; at++)
		budget = budget * 10 + (unsigned long)(*at - '0');
	if (budget >= WIRE_HEAP_BUDGET_MIN && budget <= 1u << 30)
		o->budget = budget;
	for (; *at && *at != ':'; at++) {
		o->free_stacks |= *at == 'f';
		o->stamp_every_event |= *at == 's';
		if (*at >= '0' && *at <= '9') /* behind a u */
			o->until_ns = o->until_ns * 10 + (uint64_t)(*at - '0');
	}
	o->output = at + (*at == ':');
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one line an option */
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
	const char *level = look(env, "LOG"), *family = NULL;
	unsigned long number_of = 0;
	/* nobody but a byteledger parent sets it */
	for (char **e = env; *e && !family; e++)
		family = value_of(*e, "", WIRE_ENV_FAMILY);
	if (number(family, &number_of))
		o->family = number_of;
	/* who started them all hears of it: a program's stderr is its own */
	log_open(level || !o->family ? level : "off", file ? log_file : NULL, n);
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
	read_next(o, env);
	/*
	 * who started the first program says what went wrong; the program's stderr is its own. Of
	 * one that was to be followed nobody else would say it
	 */
	if (!look(env, "LOG") && !file && o->next)
		log_open("off", NULL, 0);
	if (o->track_children)
		o->library = find_library(env);
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
	take_out(env, o->track_children);
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

/* Of a script, whose first line is read into @line, the program that runs it; else @path. */
static const char *interpreter(const char *path, char *line, size_t size)
{
	long fd = sys4(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0), n = 0;
	if (sys_failed(fd))
		return path;
	n = sys3(SYS_read, fd, line, size - 1);
	sys1(SYS_close, fd);
	if (sys_failed(n) || n < 3 || line[0] != '#' || line[1] != '!')
		return path;
	line[n] = '\0';
	line += 2 + strspn(line + 2, " \t");
	line[strcspn(line, " \t\n")] = '\0';
	return line;
}

size_t options_program(char *to, size_t size)
{
	char line[256];
	long n = sys4(SYS_readlinkat, AT_FDCWD, "/proc/self/exe", to, size - 1);
	size_t len = n > 0 ? (size_t)n : 0;
	/* nothing is at /proc: as it was asked for, which the kernel leaves beside the arguments */
	const char *asked = n > 0 ? NULL : (const char *)getauxval(AT_EXECFN);
	if (asked)
		asked = interpreter(asked, line, sizeof(line));
	if (asked && asked[0] != '/') {
		n = sys2(SYS_getcwd, to, size - 1); /* counts the NUL */
		if (n > 1 && to[0] == '/') {
			len = (size_t)n - 1;
			if (len > 1)
				to[len++] = '/';
		}
		while (asked[0] == '.' && asked[1] == '/')
			asked += 2;
	}
	while (asked && *asked && len < size - 1)
		to[len++] = *asked++;
	to[len] = '\0';
	return len;
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
			options_program(exe, sizeof(exe));
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
