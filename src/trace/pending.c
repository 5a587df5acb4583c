/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fileio.h"
#include "trace/cursor.h"

#define ROWS_MAX 65536

struct pending {
	struct sink sink;
	char *path, *path_new;
	struct blt_file_header header;
	const struct events_enc *enc;
	struct blt_cols cols;
	struct zblock_enc *zenc;
	struct buf out;
	uint32_t rows;
	/* of the recording */
	uint64_t end;
	uint64_t time, addr;
	uint32_t stack;
	/* the file */
	int there;
	/*
	 * by block number: 1 + how many allocations the sink had taken before the block's; 0: it is
	 * of the recording
	 */
	uint64_t *made;
	uint32_t made_count;
	/* taken ever; before this content */
	uint64_t allocations, from;
};

int pending_there(const char *path)
{
	static const char *const suffixes[] = { PENDING_SUFFIX, PENDING_SUFFIX_NEW };
	for (int i = 0; i < 2; i++) {
		char *name;
		if (asprintf(&name, "%s%s", path, suffixes[i]) < 0)
			return 1;
		int there = faccessat(AT_FDCWD, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
		free(name);
		if (there)
			return 1;
	}
	return 0;
}

static int no_memory(struct err *err)
{
	return err_set(err, -ENOMEM, "cannot hold what is undecided");
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int pack(struct pending *p, struct err *err)
{
	struct blt_head head = { .type = BLT_PENDING, .rows = p->rows, .time_ns = p->time };
	put_num(&p->cols.col[PEC_AT], p->end);
	int rc = p->rows ? blt_pack(&p->cols, &head, p->zenc, &p->out, err) : 0;
	blt_cols_clear(&p->cols);
	p->rows = p->stack = 0;
	p->time = p->addr = 0;
	return rc;
}

static uint64_t *made_at(struct pending *p, uint32_t block)
{
	if (block >= p->made_count) {
		uint64_t count = p->made_count ? p->made_count : 1024;
		while (count <= block)
			count *= 2;
		uint64_t *made = realloc(p->made, count * sizeof(*made));
		if (!made)
			return NULL;
		memset(made + p->made_count, 0, (count - p->made_count) * sizeof(*made));
		p->made = made;
		p->made_count = (uint32_t)count;
	}
	return &p->made[block];
}

static void put_numbers(struct pending *p, const struct event *ev)
{
	struct buf *col = p->cols.col;
	put_num(&col[PEC_STACK], zigzag((int64_t)ev->stack.v - p->stack));
	put_num(&col[PEC_ADDR], zigzag((int64_t)(ev->addr - p->addr)));
	put_num(&col[PEC_BYTES], ev->bytes);
	p->stack = ev->stack.v;
	p->addr = ev->addr;
}

static int put_one(struct pending *p, const struct event *ev, struct err *err)
{
	struct buf *col = p->cols.col;
	int of_block = ev->kind == EVENT_ALLOC || ev->kind == EVENT_FREE;
	uint64_t *made = of_block ? made_at(p, ev->block.v) : NULL;
	if (of_block && !made)
		return no_memory(err);
	buf_putc(&col[PEC_KIND], (char)(ev->kind | ev->flags << 4));
	put_num(&col[PEC_TIME], ev->time_ns - p->time);
	put_num(&col[PEC_THREAD], ev->thread.v);
	p->time = ev->time_ns;
	if (ev->kind != EVENT_FREE)
		put_numbers(p, ev);
	if (ev->kind == EVENT_ALLOC) {
		*made = ++p->allocations;
	} else if (ev->kind == EVENT_FREE) {
		int here = *made > p->from;
		put_num(&col[PEC_AUX], ev->aux_stack.v);
		put_num(&col[PEC_BLOCK], here ? (*made - p->from - 1) * 2 + 1
					      : (uint64_t)events_enc_slot(p->enc, ev->block.v) * 2);
		*made = 0;
	} else {
		put_num(&col[PEC_VALUE], ev->value);
		put_num(&col[PEC_AUX], ev->aux_stack.v);
		put_num(&col[PEC_BLOCK], (uint64_t)ev->block.v + 1);
	}
	return ++p->rows == ROWS_MAX ? pack(p, err) : 0;
}

static int pending_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	int rc = 0;
	for (size_t i = 0; i < count && rc >= 0; i++)
		rc = put_one((struct pending *)sink, &events[i], err);
	return rc;
}

static int pending_define(struct sink *sink, const struct def *def, struct err *err)
{
	(void)sink;
	(void)def;
	(void)err;
	return 0; /* the recording's own */
}

/* ---- the file -------------------------------------------------------------------------------- */

struct pending *pending_new(const char *path, const struct blt_file_header *header,
			    const struct events_enc *enc, struct err *err)
{
	struct pending *p = calloc(1, sizeof(*p));
	if (!p) {
		no_memory(err);
		return NULL;
	}
	p->sink = (struct sink){ .define = pending_define, .put = pending_put };
	p->header = *header;
	p->enc = enc;
	/* its own: what stands in the recording's columns meanwhile is not packed yet */
	p->zenc = zblock_enc_new(err);
	if (asprintf(&p->path, "%s" PENDING_SUFFIX, path) < 0)
		p->path = NULL;
	if (asprintf(&p->path_new, "%s" PENDING_SUFFIX_NEW, path) < 0)
		p->path_new = NULL;
	if (!p->zenc || !p->path || !p->path_new) {
		no_memory(err);
		pending_free(p, 0);
		return NULL;
	}
	return p;
}

struct sink *pending_begin(struct pending *p, uint64_t end)
{
	p->end = end;
	return &p->sink;
}

/* Whoever may read the recording reads this, too. */
static int give_away(int to, int like)
{
	struct stat st;
	if (fstat(like, &st) < 0)
		return -errno;
	if (st.st_uid == geteuid() && st.st_gid == getegid())
		return 0;
	return fchown(to, st.st_uid, st.st_gid) < 0 ? -errno : 0;
}

static int replace(struct pending *p, int like)
{
	uint8_t header[BLT_FILE_HEADER];
	blt_file_header_put(header, &p->header);
	int fd = open(p->path_new, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int rc = fileio_pwrite(fd, header, sizeof(header), 0);
	if (rc >= 0)
		rc = fileio_pwrite(fd, p->out.data, p->out.len, sizeof(header));
	if (rc >= 0)
		rc = give_away(fd, like);
	if (close(fd) < 0 && rc >= 0)
		rc = -errno;
	if (rc >= 0 && rename(p->path_new, p->path) < 0)
		rc = -errno;
	if (rc < 0)
		unlink(p->path_new);
	return rc;
}

int pending_write(struct pending *p, int fd, struct err *err)
{
	int rc = pack(p, err);
	if (rc >= 0 && p->out.len) {
		rc = replace(p, fd);
		p->there |= rc >= 0;
		if (rc < 0)
			err_set(err, rc, "cannot write '%s'", p->path);
	} else if (rc >= 0 && p->there) {
		unlink(p->path);
		p->there = 0;
	}
	buf_clear(&p->out);
	p->from = p->allocations;
	return rc;
}

void pending_free(struct pending *p, int remove)
{
	if (!p)
		return;
	if (remove && p->there)
		unlink(p->path);
	zblock_enc_free(p->zenc);
	blt_cols_fini(&p->cols);
	buf_fini(&p->out);
	free(p->made);
	free(p->path);
	free(p->path_new);
	free(p);
}
