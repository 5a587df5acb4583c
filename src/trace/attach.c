/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/attach.h"

#include <errno.h>
#include <string.h>

#include "trace/cursor.h"

#define PATH_BYTES_MAX 65536

void attach_put(struct blt_cols *cols, const struct trace_file *file, const void *content)
{
	struct buf *to = &cols->col[ATC_FILE];
	size_t len = strlen(file->path);
	put_num(to, len);
	buf_put(to, file->path, len);
	put_num(to, file->bytes);
	put_num(to, file->changed_ns);
	put_num(to, file->state);
	if (file->state == TRACE_FILE_STORED)
		buf_put(&cols->col[ATC_CONTENT], content, file->bytes);
}

int attach_get(const struct blt_view *view, struct trace_file *file, struct buf *path)
{
	struct cursor c = cursor_column(view, ATC_FILE);
	struct cursor content = cursor_column(view, ATC_CONTENT);
	uint64_t len = get_num(&c);
	if (c.bad || !len || len > PATH_BYTES_MAX || len > (uint64_t)(c.end - c.at) ||
	    memchr(c.at, 0, len))
		return -EBADMSG;
	buf_clear(path);
	buf_put(path, c.at, len);
	buf_putc(path, '\0');
	c.at += len;
	file->bytes = get_num(&c);
	file->changed_ns = get_num(&c);
	uint64_t state = get_num(&c);
	if (buf_failed(path))
		return -ENOMEM;
	if (c.bad || state >= TRACE_FILE_STATES ||
	    (state == TRACE_FILE_STORED && file->bytes != (uint64_t)(content.end - content.at)))
		return -EBADMSG;
	file->path = path->data;
	file->state = (enum trace_file_state)state;
	file->content = state == TRACE_FILE_STORED ? content.at : NULL;
	return 0;
}
