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

#define FILE_MAX (4u << 20)
#define LINES_MAX 200000

/** read_source() - a regular file, no symbolic link on the way, of FILE_MAX at most. */
static int read_source(const char *path, struct buf *text, struct err *err)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
				.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS };
	struct stat st;
	if (path[0] != '/') {
		err_set(err, -ENOENT, "not on this disk: %s", path);
		return err_hint(err, "the debug information names it without a folder");
	}
	int fd = (int)syscall(SYS_openat2, AT_FDCWD, path, &how, sizeof(how));
	if (fd < 0 && errno == ENOSYS)
		fd = open(path, (int)how.flags);
	int rc = 0;
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

static int answer(struct v1_call *call, const char *path, const struct buf *text,
		  const uint64_t *own, const uint64_t *through, const uint64_t *values)
{
	const struct fold *fold = call->folded->fold;
	struct jsonw *json = &call->json;
	struct v1_column line = { 0 }, self = { 0 }, total = { 0 };
	jsonw_object(json, NULL);
	v1_head(call, values);
	jsonw_str(json, "path", path);
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
	rc = read_source(path, &text, err);
	if (rc < 0)
		return rc;
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
		rc = answer(call, path, &text, own, through, values);
	}
	fold_sums_fini(&sums);
	free(values);
	free(own);
	free(through);
	return rc;
}
