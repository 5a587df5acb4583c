/* SPDX-License-Identifier: Apache-2.0 */
/* include.c - INCLUDE_FILE: files that match are embedded in the recording when it begins. */
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "recorder/record.h"

/* The program may wait meanwhile: a tenth of a second's work. */
#define FILE_MAX (8u << 20)
#define ALL_MAX (32u << 20)
#define NAMES_MAX 256

/*
 * Read @path into @to, if it is a file of at most @most bytes. What is no file is none that
 * matches. Return: 1, 0, -errno.
 */
static int read_file(const char *path, size_t most, struct trace_file *file, struct buf *to)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0) {
		int why = errno;
		if (fd >= 0)
			close(fd);
		return -why;
	}
	int regular = S_ISREG(st.st_mode);
	file->bytes = (uint64_t)st.st_size;
	file->changed_ns = clock_of(&st.st_mtim);
	ssize_t n = regular ? 1 : 0;
	buf_clear(to);
	/* files of /proc say that they are empty: what can be read counts */
	while (n > 0 && file->bytes <= most && to->len <= most) {
		char *chunk = buf_reserve(to, 65536);
		n = chunk ? read(fd, chunk, 65536) : -1;
		if (n < 0)
			n = chunk ? -errno : -ENOMEM;
		else
			to->len += (size_t)n;
	}
	close(fd);
	if (n < 0)
		return (int)n;
	if (to->len > file->bytes)
		file->bytes = to->len;
	file->state = file->bytes <= most ? TRACE_FILE_STORED : TRACE_FILE_TOO_LARGE;
	if (file->state == TRACE_FILE_STORED)
		file->bytes = to->len;
	return regular;
}

static void tell(const struct record *rec, const char *path, const char *why)
{
	record_tell(rec, "'%s' is not in the recording: %s", path, why);
}

void record_include(struct record *rec)
{
	const char *pattern = rec->settings.include;
	CLEANUP(buf_fini) struct buf content = { 0 };
	size_t left = ALL_MAX;
	glob_t found = { 0 };
	/*
	 * a later file of the same recording, and the children of forks, have nothing new to say
	 * about it
	 */
	struct source_heap_fork fork;
	source_heap_fork(rec->heap, &fork);
	int first = rec->file_count == 0 && !fork.from;
	int rc = pattern && *pattern ? glob(pattern, 0, NULL, &found) : GLOB_NOMATCH;
	if (first && pattern && *pattern && rc != 0)
		tell(rec, pattern, rc == GLOB_NOMATCH ? "no file matches" : "cannot look for it");
	for (size_t i = 0; rc == 0 && i < found.gl_pathc; i++) {
		struct trace_file file = { .path = found.gl_pathv[i] };
		struct err err = { 0 };
		if (i == NAMES_MAX) {
			if (first)
				tell(rec, file.path,
				     "256 files are the most, nor is any that follows");
			break;
		}
		int is = read_file(file.path, left < FILE_MAX ? left : FILE_MAX, &file, &content);
		if (is == 0)
			continue; /* a folder, say */
		if (is < 0)
			file.state = TRACE_FILE_UNREADABLE;
		if (first && is < 0)
			tell(rec, file.path, strerror(-is));
		if (first && file.state == TRACE_FILE_TOO_LARGE)
			tell(rec, file.path,
			     "files of more than 8 MiB, or of 32 MiB together, are not");
		if (trace_writer_attach(rec->writer, &file, content.data, &err) < 0) {
			if (first)
				tell(rec, file.path, err.msg);
			break;
		}
		if (file.state == TRACE_FILE_STORED)
			left -= file.bytes;
	}
	globfree(&found);
}
