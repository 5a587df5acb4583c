/* SPDX-License-Identifier: Apache-2.0 */
/*
 * brief.c - the own breakdown for signal handlers: /proc/self/smaps line by line from the stack,
 * with async-signal-safe calls only.
 */
#include <byteledger.h>

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "embed/embed.h"

enum { HEAP, STACK, NAMED, LIBRARIES, PROGRAM, FILES, ANONYMOUS, REST, KINDS };
static const char *const kinds[KINDS] = { "heap (brk)", "main stack",  "named",     "libraries",
					  "program",    "other files", "anonymous", "other" };

/** struct brief - a reading under way. */
struct brief {
	uint64_t kib[KINDS];
	/* of the mapping whose fields come */
	unsigned kind;
	char program[1024];
	size_t program_len;
};

static int is_header(const char *line, size_t len)
{
	size_t i = 0;
	while (i < len &&
	       ((line[i] >= '0' && line[i] <= '9') || (line[i] >= 'a' && line[i] <= 'f')))
		i++;
	return i > 0 && i < len && line[i] == '-';
}

/* Where the name begins: behind range, permissions, offset, device and inode. */
static const char *name_of(const char *line, size_t len, size_t *left)
{
	size_t i = 0;
	for (unsigned field = 0; field < 5; field++) {
		while (i < len && line[i] != ' ')
			i++;
		while (i < len && line[i] == ' ')
			i++;
	}
	*left = len - i;
	return line + i;
}

static int begins(const char *text, size_t len, const char *with)
{
	size_t n = strlen(with);
	return len >= n && memcmp(text, with, n) == 0;
}

static int is_library(const char *path, size_t len)
{
	size_t base = len;
	while (base > 0 && path[base - 1] != '/')
		base--;
	for (; base + 3 <= len; base++)
		if (memcmp(path + base, ".so", 3) == 0)
			return 1;
	return 0;
}

static unsigned kind_of(const struct brief *b, const char *line, size_t len)
{
	size_t left;
	const char *name = name_of(line, len, &left);
	if (!left)
		return ANONYMOUS;
	if (name[0] == '/') {
		if (left == b->program_len && memcmp(name, b->program, left) == 0)
			return PROGRAM;
		return is_library(name, left) ? LIBRARIES : FILES;
	}
	return begins(name, left, "[heap]")    ? HEAP
	       : begins(name, left, "[stack]") ? STACK
	       : begins(name, left, "[anon")   ? NAMED
					       : REST;
}

static void take_line(struct brief *b, const char *line, size_t len)
{
	if (is_header(line, len)) {
		b->kind = kind_of(b, line, len);
		return;
	}
	if (!begins(line, len, "Rss:"))
		return;
	uint64_t kib = 0;
	for (size_t i = 4; i < len; i++)
		if (line[i] >= '0' && line[i] <= '9')
			kib = kib * 10 + (uint64_t)(line[i] - '0');
	b->kib[b->kind] += kib;
}

/* A line longer than the buffer is cut: the name of a mapping ends it. */
static int take_all(struct brief *b, int in)
{
	char text[8192];
	size_t have = 0;
	int cutting = 0;
	for (;;) {
		ssize_t got = read(in, text + have, sizeof(text) - have);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		if (got == 0)
			break;
		have += (size_t)got;
		size_t start = 0;
		for (char *end; (end = memchr(text + start, '\n', have - start));
		     start = (size_t)(end - text) + 1) {
			if (!cutting)
				take_line(b, text + start, (size_t)(end - text) - start);
			cutting = 0;
		}
		if (!start && have == sizeof(text)) {
			if (!cutting)
				take_line(b, text, have);
			cutting = 1;
			start = have;
		}
		have -= start;
		memmove(text, text + start, have);
	}
	return 0;
}

static size_t put_text(char *to, const char *text, size_t width)
{
	size_t len = strlen(text);
	memcpy(to, text, len);
	for (; len < width; len++)
		to[len] = ' ';
	return len;
}

static size_t put_kib(char *to, const char *word, uint64_t kib)
{
	char digits[24];
	size_t n = 0, at = put_text(to, word, 16);
	do
		digits[n++] = (char)('0' + kib % 10);
	while ((kib /= 10));
	for (size_t i = n; i < 12; i++)
		to[at++] = ' ';
	while (n)
		to[at++] = digits[--n];
	return at + put_text(to + at, " KiB\n", 0);
}

EXPORT int byteledger_breakdown_signal(int fd)
{
	int saved_errno = errno, rc = -ENOENT;
	struct brief b = { .kind = REST };
	char out[64 * (KINDS + 1)];
	size_t len, at = 0;
	uint64_t sum = 0;
	ssize_t path = readlink("/proc/self/exe", b.program, sizeof(b.program));
	b.program_len = path > 0 ? (size_t)path : 0;
	int in = open("/proc/self/smaps", O_RDONLY | O_CLOEXEC);
	if (in >= 0) {
		rc = take_all(&b, in);
		close(in);
	} else {
		rc = -errno;
	}
	for (unsigned i = 0; i < KINDS; i++)
		sum += b.kib[i];
	len = put_kib(out, "RSS", sum);
	for (unsigned i = 0; i < KINDS; i++)
		if (b.kib[i])
			len += put_kib(out + len, kinds[i], b.kib[i]);
	while (rc == 0 && at < len) {
		ssize_t put = write(fd, out + at, len - at);
		if (put < 0 && errno == EINTR)
			continue;
		if (put <= 0)
			rc = put < 0 ? -errno : -EIO;
		else
			at += (size_t)put;
	}
	errno = saved_errno;
	return rc;
}
