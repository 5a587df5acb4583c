/* SPDX-License-Identifier: Apache-2.0 */
/* extract.c - the files that are embedded in a recording, as files again. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "recorder/rewrite.h"
#include "trace/trace.h"

#define REPEATS_MAX 1000

struct extract {
	int folder;
	const char *name;
	void (*each)(void *ctx, const char *name, const char *made);
	void *ctx;
	/* the first that could not be unpacked */
	struct err failed;
	/* files, whatever became of them */
	size_t count;
};

/** open_folder() - the next part of a path below @at, made where it is not there; takes @at. */
static int open_folder(int at, const char *part)
{
	if (mkdirat(at, part, 0700) < 0 && errno != EEXIST) {
		int code = -errno;
		close(at);
		return code;
	}
	/* whoever put a link there does not choose where a stranger's file goes */
	int fd = openat(at, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int code = -errno;
	close(at);
	return fd < 0 ? code : fd;
}

static int create(int at, const char *name, char *made, size_t size)
{
	for (int i = -1; i < REPEATS_MAX; i++) {
		int len = i < 0 ? snprintf(made, size, "%s", name)
				: snprintf(made, size, "%s.%03d", name, i);
		if (len >= (int)size)
			return -ENAMETOOLONG;
		int fd = openat(at, made, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				0600);
		if (fd >= 0 || errno != EEXIST)
			return fd < 0 ? -errno : fd;
	}
	return -EEXIST;
}

static int write_all(int fd, const char *bytes, size_t count)
{
	while (count) {
		ssize_t wrote = write(fd, bytes, count);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return wrote < 0 ? -errno : -EIO;
		bytes += wrote;
		count -= (size_t)wrote;
	}
	return 0;
}

/** descend() - to the folder of @path's last part, *@last; @path is taken apart. A descriptor. */
static int descend(const struct extract *x, char *path, const char **last, struct buf *made)
{
	int at = fcntl(x->folder, F_DUPFD_CLOEXEC, 3);
	for (char *part; at >= 0 && (part = strsep(&path, "/"));) {
		if (!*part || strcmp(part, ".") == 0 || strcmp(part, "..") == 0)
			continue;
		if (*last) {
			at = open_folder(at, *last);
			buf_printf(made, "/%s", *last);
		}
		*last = part;
	}
	return at;
}

/** unpack() - below the folder; @made is where, for people. 0 or negative errno. */
static int unpack(const struct extract *x, const struct trace_file *file, struct buf *made)
{
	char name[300] = "", *path = strdup(file->path);
	const char *last = NULL;
	if (!path)
		return -ENOMEM;
	int at = descend(x, path, &last, made);
	int fd = at < 0 ? at : last ? create(at, last, name, sizeof(name)) : -EINVAL;
	int rc = fd < 0 ? fd : write_all(fd, file->content, file->bytes);
	if (fd >= 0 && close(fd) < 0 && rc == 0)
		rc = -errno;
	if (fd >= 0 && rc < 0)
		unlinkat(at, name, 0); /* ours alone: it was created exclusively */
	if (at >= 0)
		close(at);
	free(path);
	buf_printf(made, "/%s", name);
	return rc;
}

static int on_file(void *ctx, const struct trace_file *file, struct err *err)
{
	struct extract *x = ctx;
	x->count++;
	CLEANUP(buf_fini) struct buf made = { 0 };
	CLEANUP(buf_fini) struct buf shown = { 0 }; /* a name may hold what a terminal obeys */
	if (file->state != TRACE_FILE_STORED) {
		x->each(x->ctx, file->path, NULL);
		return 0;
	}
	buf_puts(&made, x->name);
	int rc = unpack(x, file, &made);
	if (rc == -ENOMEM || rc == -ENOSPC || rc == -EDQUOT)
		return err_set(err, rc, "cannot unpack '%s' below '%s'", file->path, x->name);
	if (rc < 0 && !x->failed.code) /* the others may be as they should */
		err_set(&x->failed, rc, "cannot unpack '%s' below '%s'", file->path, x->name);
	if (rc < 0)
		return 0;
	text_escape(&shown, buf_cstr(&made), 0);
	x->each(x->ctx, file->path, buf_cstr(&shown));
	return 0;
}

int recorder_extract(const char *path, const char *folder,
		     void (*each)(void *ctx, const char *name, const char *made), void *ctx,
		     struct err *err)
{
	struct extract x = { .name = folder, .each = each, .ctx = ctx };
	int is_ours = mkdir(folder, 0700) == 0;
	if (!is_ours && errno != EEXIST)
		return err_set(err, -errno, "cannot make the folder '%s'", folder);
	CLEANUP(trace_reader_freep) struct trace_reader *reader = trace_reader_new(path, err);
	if (!reader)
		return err->code;
	x.folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (x.folder < 0)
		return err_set(err, -errno, "cannot write into '%s'", folder);
	int rc = trace_reader_files(reader, on_file, &x, err);
	close(x.folder);
	if (rc >= 0 && !x.count) {
		if (is_ours)
			rmdir(folder);
		err_set(err, -ENOENT, "no files are embedded in '%s'", path);
		return err_hint(err, "BYTELEDGER_INCLUDE_FILE=PATTERN embeds them as it is made");
	}
	if (rc >= 0 && x.failed.code)
		*err = x.failed;
	return rc < 0 ? rc : x.failed.code;
}
