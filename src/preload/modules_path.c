/* SPDX-License-Identifier: Apache-2.0 */
/* modules_path.c - where a mapped file lies, as the kernel says it. */
#include <fcntl.h>
#include <string.h>

#include "preload/modules.h"
#include "preload/thread.h"

static const char *hex(const char *at, uint64_t *value)
{
	for (*value = 0;; at++) {
		unsigned digit = *at >= '0' && *at <= '9'   ? (unsigned)(*at - '0')
				 : *at >= 'a' && *at <= 'f' ? (unsigned)(*at - 'a') + 10
							    : 16;
		if (digit == 16)
			return at;
		*value = *value << 4 | digit;
	}
}

/*
 * The path in a line of /proc/self/maps, if that mapping holds @lo; NULL: another one, or no file.
 */
static char *path_in(char *line, uint64_t lo)
{
	static const char gone[] = " (deleted)";
	uint64_t from, to;
	const char *dash = hex(line, &from);
	if (*dash != '-')
		return NULL;
	hex(dash + 1, &to);
	char *path = lo >= from && lo < to ? strchr(line, '/') : NULL;
	size_t len = path ? strlen(path) : 0;
	if (len > sizeof(gone) && strcmp(path + len - (sizeof(gone) - 1), gone) == 0)
		path[len - (sizeof(gone) - 1)] = '\0';
	return path;
}

const char *mapped_path(uint64_t lo)
{
	static char text[2 * 4096 + 1]; /* the kernel gives whole lines, a path long at most */
	char *path = NULL;
	long fd = no_calls()
			  ? -1
			  : sys4(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC, 0);
	if (sys_failed(fd))
		return NULL;
	size_t have = 0;
	for (long n; !path; have += (size_t)n) {
		n = sys3(SYS_read, fd, text + have, sizeof(text) - 1 - have);
		if (sys_failed(n) || n == 0)
			break;
		text[have + (size_t)n] = '\0';
		char *line = text, *end;
		while (!path && (end = strchr(line, '\n'))) {
			*end = '\0';
			path = path_in(line, lo);
			line = end + 1;
		}
		n -= line - text;
		if (!path)
			memmove(text, line, have + (size_t)n);
	}
	sys1(SYS_close, fd);
	return path;
}
