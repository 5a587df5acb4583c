/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_source.c - a source file with what its lines asked for. Only files that the recording's
 * symbols name are ever opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/v1_internal.h"
#include "base/cleanup.h"

#define FILE_MAX (4u << 20)
#define LINES_MAX 200000

#define PARTS_MAX 256 /* names of a path */

/** open_plain() - @path below @dir, no symbolic link on the way; negative errno. */
static int open_plain(int dir, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)(O_RDONLY | O_CLOEXEC | O_NOFOLLOW | flags),
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	if (dir != AT_FDCWD)
		how.resolve |= RESOLVE_BENEATH;
	int fd = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	return fd < 0 ? -errno : fd;
}

/**
 * part_path() - the names of @path, which is changed, without `.` and with `..` taken back; what
 * leads above its begin is left out. Return: their number.
 */
static size_t part_path(char *path, const char *parts[PARTS_MAX])
{
	size_t count = 0;
	char *save = NULL;
	for (char *part = strtok_r(path, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
		if (strcmp(part, ".") == 0)
			continue;
		if (strcmp(part, "..") == 0)
			count -= count > 0;
		else if (count < PARTS_MAX)
			parts[count++] = part;
	}
	return count;
}

/**
 * open_below() - what @path names, below the folder @prefix: all of it, or what is left of it
 * without its first folders, the longest that is there.
 * *@found: which, malloc'd. Negative errno.
 */
static int open_below(const char *prefix, const char *path, char **found)
{
	const char *parts[PARTS_MAX];
	char *names = strdup(path);
	/* its reader has named it, links on it and all; nothing below it may lead out */
	int dir = open(prefix, O_DIRECTORY | O_PATH | O_CLOEXEC), fd = -ENOENT;
	size_t count = names ? part_path(names, parts) : 0;
	for (size_t from = 0; dir >= 0 && fd < 0 && from < count; from++) {
		CLEANUP(buf_fini) struct buf below = { 0 };
		for (size_t i = from; i < count; i++)
			buf_printf(&below, "%s%s", below.len ? "/" : "", parts[i]);
		fd = open_plain(dir, buf_cstr(&below), O_NONBLOCK);
		if (fd >= 0 && asprintf(found, "%s/%s", prefix, buf_cstr(&below)) < 0)
			*found = NULL;
	}
	free(names);
	if (dir >= 0)
		close(dir);
	return fd;
}

/** read_source() - a regular file, no symbolic link on the way, of FILE_MAX at most. */
static int read_source(const char *path, const char *prefix, char **found, struct buf *text,
		       struct err *err)
{
	struct stat st;
	int fd = path[0] == '/' ? open_plain(AT_FDCWD, path, O_NONBLOCK) : -ENOENT;
	if (fd == -ENOSYS)
		fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 && prefix)
		fd = open_below(prefix, path, found);
	int rc = 0;
	if (fd < 0 && prefix) {
		err_set(err, -ENOENT, "not on this disk: %s", path);
		return err_hint(err, "neither there nor below %s", prefix);
	}
	if (fd < 0 && path[0] != '/') {
		err_set(err, -ENOENT, "not on this disk: %s", path);
		return err_hint(err, "the debug information names it without a folder");
	}
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		rc = err_set(err, -ENOENT, "not on this disk: %s", path);
	else if (st.st_size > FILE_MAX)
		rc = err_set(err, -EINVAL, "'%s' is larger than %u MiB", path, FILE_MAX >> 20);
	while (rc == 0 && text->len < FILE_MAX) {
		char *to = buf_reserve(text, 65536);
		ssize_t n = to ? read(fd, to, 65536) : -1;
		if (n < 0)
			rc = err_set(err, to ? -EIO : -ENOMEM, "cannot read '%s'", path);
		if (n <= 0)
			break;
		text->len += (size_t)n;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}

/** names_file() - is the frame of the file with that key? */
static int names_file(const struct fold_frame *f, uint64_t key)
{
	CLEANUP(buf_fini) struct buf bytes = { 0 };
	if (!f->file)
		return 0;
	buf_put(&bytes, "\0", 2);
	buf_puts(&bytes, f->file);
	return view_key_bytes(bytes.data, bytes.len) == key;
}

static int answer(struct v1_call *call, const char *path, const char *found, const struct buf *text,
		  const uint64_t *own, const uint64_t *through, const uint64_t *values)
{
	const struct fold *fold = call->folded->fold;
	struct jsonw *json = &call->json;
	struct v1_column line = { 0 }, self = { 0 }, total = { 0 };
	jsonw_object(json, NULL);
	v1_head(call, values);
	jsonw_str(json, "path", path);
	jsonw_str(json, "found", found ? found : path);
	jsonw_array(json, "text");
	for (size_t at = 0, lines = 0; at < text->len && lines < LINES_MAX; lines++) {
		const char *end = memchr(text->data + at, '\n', text->len - at);
		size_t len = end ? (size_t)(end - text->data) - at : text->len - at;
		jsonw_strn(json, NULL, text->data + at, len);
		at += len + 1;
	}
	jsonw_array_end(json);
	for (uint32_t i = 1; i < fold->frame_count; i++) {
		if (!names_file(&fold->frames[i], call->ask.file) || !(own[i] | through[i]))
			continue;
		v1_col_u64(&line, fold->frames[i].line);
		v1_col_u64(&self, own[i]);
		v1_col_u64(&total, through[i]);
	}
	jsonw_object(json, "lines");
	v1_col_put(call, "line", &line);
	v1_col_put(call, "self", &self);
	v1_col_put(call, "total", &total);
	jsonw_object_end(json);
	jsonw_object_end(json);
	return 0;
}

int v1_source(struct v1_call *call, struct err *err)
{
	struct ask *ask = &call->ask;
	const char *path = NULL;
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (!ask->has_file) {
		err_set(err, -EINVAL, "'file' is missing");
		return err_hint(err, "the key of a file, as /api/v1/rows?by=file gives it");
	}
	if (ask->by_given)
		v1_unapplied(call, "lines are shown", "by", NULL);
	if (ask->inverted)
		v1_unapplied(call, "lines have no direction", "inverted", NULL);
	if (ask->has_base)
		v1_unapplied(call, "lines are not compared", "base", NULL);
	ask->fold.by = VIEW_BY_LINE;
	free(ask->folding);
	ask->folding = strdup("by=line");
	ask->has_base = 0;
	int rc =
		ask->folding ? v1_fold(call, err) : err_set(err, -ENOMEM, "cannot fold the stacks");
	if (rc)
		return rc;
	const struct fold *fold = call->folded->fold;
	for (uint32_t i = 1; i < fold->frame_count && !path; i++)
		if (names_file(&fold->frames[i], ask->file))
			path = fold->frames[i].file;
	if (!path)
		return err_set(err, -ENOENT, "the recording names no file with this key");
	char *found = NULL;
	rc = read_source(path, ask->prefix, &found, &text, err);
	if (rc < 0) {
		free(found);
		return rc;
	}
	struct fold_sums sums = { 0 };
	uint64_t *values = v1_values(call->reading, ask->cost, err);
	uint64_t *own = calloc(fold->frame_count, sizeof(*own)),
		 *through = calloc(fold->frame_count, sizeof(*through));
	rc = !values            ? err->code
	     : !own || !through ? err_set(err, -ENOMEM, "cannot add up")
				: fold_sum(fold, 0, values, &sums, err);
	if (rc == 0)
		rc = fold_own_sums(fold, 0, values, own, err);
	if (rc == 0) {
		fold_inclusive_sums(fold, &sums, through);
		rc = answer(call, path, found, &text, own, through, values);
	}
	free(found);
	fold_sums_fini(&sums);
	free(values);
	free(own);
	free(through);
	return rc;
}
