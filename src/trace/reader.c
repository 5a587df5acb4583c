/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/fileio.h"
#include "trace/attach.h"
#include "trace/cursor.h"
#include "trace/pending.h"
#include "trace/replay.h"
#include "trace/shot.h"
#include "trace/summary.h"

#define RESYNC_CHUNK (256u << 10)

int trace_is(const char *path, struct err *err)
{
	char magic[BLT_MAGIC_BYTES];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s'", path);
	ssize_t n = fileio_pread(fd, magic, sizeof(magic), 0);
	close(fd);
	if (n < 0)
		return err_set(err, (int)n, "cannot read '%s'", path);
	return n == sizeof(magic) && memcmp(magic, BLT_MAGIC, sizeof(magic)) == 0;
}

int reader_head(struct trace_reader *r, uint64_t at, struct blt_head *head)
{
	uint8_t bytes[BLT_BLOCK_HEADER];
	if (at > r->info.file_bytes || r->info.file_bytes - at < sizeof(bytes))
		return 0;
	ssize_t n = fileio_pread(r->fd, bytes, sizeof(bytes), at);
	if (n < 0)
		return (int)n;
	return n == sizeof(bytes) && blt_head_get(bytes, head) &&
	       head->stored <= r->info.file_bytes - at - sizeof(bytes);
}

int reader_resync(struct trace_reader *r, uint64_t from, uint64_t *at)
{
	uint8_t marker[8];
	put_le64(marker, BLT_MARKER);
	while (from < r->info.file_bytes) {
		buf_clear(&r->payload);
		uint8_t *chunk = (uint8_t *)buf_reserve(&r->payload, RESYNC_CHUNK);
		if (!chunk)
			return -ENOMEM;
		ssize_t n = fileio_pread(r->fd, chunk, RESYNC_CHUNK, from);
		if (n < 0)
			return (int)n;
		if (n < BLT_BLOCK_HEADER)
			return 0;
		for (const uint8_t *p = chunk; p;) {
			size_t left = (size_t)(chunk + n - p);
			struct blt_head head;
			p = left >= sizeof(marker) ? memmem(p, left, marker, sizeof(marker)) : NULL;
			if (!p)
				break;
			uint64_t place = from + (uint64_t)(p - chunk);
			int rc = reader_head(r, place, &head);
			if (rc < 0)
				return rc;
			if (rc > 0) {
				*at = place;
				return 1;
			}
			p++;
		}
		from += (uint64_t)n - (sizeof(marker) - 1);
	}
	return 0;
}

int reader_payload(struct trace_reader *r, uint64_t at, const struct blt_head *head,
		   const uint8_t **payload)
{
	buf_clear(&r->payload);
	uint8_t *to = (uint8_t *)buf_reserve(&r->payload, head->stored ? head->stored : 1);
	if (!to)
		return -ENOMEM;
	ssize_t n = fileio_pread(r->fd, to, head->stored, at + BLT_BLOCK_HEADER);
	if (n < 0)
		return (int)n;
	if ((size_t)n != head->stored || crc_32(0, to, head->stored) != head->crc)
		return -EBADMSG;
	*payload = to;
	return 0;
}

/* The snapshot at @from, which stands alone, for one behind it that resembles it. */
static int load_like(struct trace_reader *r, uint64_t at, uint64_t from)
{
	const uint8_t *payload;
	struct blt_head head;
	if (r->like_at == from)
		return 0;
	r->like_at = 0;
	if (from >= at)
		return -EBADMSG;
	int rc = reader_head(r, from, &head);
	if (rc <= 0 || head.type != BLT_SNAPSHOT || head.first)
		return rc < 0 ? rc : -EBADMSG;
	rc = reader_payload(r, from, &head, &payload);
	if (rc == 0)
		rc = blt_unpack(&head, payload, r->zdec, &r->like_scratch, &r->like);
	if (rc == 0)
		r->like_at = from;
	return rc;
}

int reader_load(struct trace_reader *r, uint64_t at, const struct blt_head *head,
		struct blt_view *view)
{
	const uint8_t *payload;
	int is_like = head->type == BLT_SNAPSHOT && head->first;
	int rc = is_like ? load_like(r, at, head->first) : 0;
	if (rc == 0)
		rc = reader_payload(r, at, head, &payload);
	if (rc == 0 && head->type == BLT_EVENTS)
		return blt_unpack_flow(head, payload, r->zdec, &r->scratch, &r->flows, view);
	return rc < 0 ? rc
		      : blt_unpack_like(head, payload, r->zdec, &r->scratch,
					is_like ? &r->like : NULL, view);
}

/*
 * The index at the end, if the file was finished. Return: 1, 0 if there is none or it is damaged,
 * negative errno.
 */
static int load_index(struct trace_reader *r)
{
	struct blt_head end, head;
	struct blt_view view;
	uint64_t last = r->info.file_bytes - BLT_BLOCK_HEADER;
	if (r->info.file_bytes < BLT_FILE_HEADER + 2 * BLT_BLOCK_HEADER)
		return 0;
	int rc = reader_head(r, last, &end);
	if (rc <= 0 || end.type != BLT_END || end.first >= last)
		return rc < 0 ? rc : 0;
	rc = reader_head(r, end.first, &head);
	if (rc <= 0 || head.type != BLT_INDEX)
		return rc < 0 ? rc : 0;
	rc = reader_load(r, end.first, &head, &view);
	if (rc >= 0)
		rc = index_get(&r->index, &r->total, view.col[0].at, view.col[0].end,
			       r->info.file_bytes);
	if (rc == -EBADMSG) {
		index_fini(&r->index);
		r->total = (struct events_tally){ 0 };
		return 0;
	}
	return rc < 0 ? rc : 1;
}

/* Walk from header to header, as an index would have told it. Costs one small read a block. */
static int rebuild_index(struct trace_reader *r, struct err *err)
{
	uint64_t at = BLT_FILE_HEADER;
	for (;;) {
		struct blt_head head;
		int rc = reader_head(r, at, &head);
		if (rc == 0) {
			uint64_t next;
			if (at < r->info.file_bytes)
				r->info.truncated = 1;
			rc = reader_resync(r, at + 1, &next);
			if (rc == 0)
				return 0;
			if (rc > 0) {
				r->info.truncated = 0; /* damage, not the end */
				at = next;
				continue;
			}
		}
		if (rc < 0)
			return err_set(err, rc, "cannot read '%s'", r->path);
		rc = index_add(&r->index, at, &head, err);
		if (rc < 0)
			return rc;
		if (head.type == BLT_EVENTS && !reader_is_replaced(r, at, &head) &&
		    head.first + head.rows > r->total.events)
			r->total.events = head.first + head.rows;
		at += BLT_BLOCK_HEADER + head.stored;
	}
}

/*
 * What a recorder had not decided about when it was killed, or has not yet: it stands for the
 * events from where it begins. A side file of something else, or of a file that was copied without
 * its end, is of no meaning.
 */
static int open_side(struct trace_reader *r, const uint8_t *header)
{
	CLEANUP(trace_reader_freep) struct trace_reader *side = calloc(1, sizeof(*side));
	uint8_t its[BLT_FILE_HEADER];
	struct blt_head head;
	struct blt_view view;
	struct stat st;
	if (side)
		side->fd = -1;
	if (!side || asprintf(&side->path, "%s" PENDING_SUFFIX, r->path) < 0)
		return -ENOMEM;
	side->fd = open(side->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	if (side->fd < 0 || fstat(side->fd, &st) < 0 || !S_ISREG(st.st_mode))
		return 0;
	side->info.file_bytes = (uint64_t)st.st_size;
	side->zdec = zblock_dec_new(NULL);
	if (!side->zdec)
		return -ENOMEM;
	if (fileio_pread(side->fd, its, sizeof(its), 0) != sizeof(its) ||
	    memcmp(its, header, sizeof(its)) != 0 || reader_head(side, sizeof(its), &head) <= 0 ||
	    head.type != BLT_PENDING || reader_load(side, sizeof(its), &head, &view) < 0)
		return 0;
	struct cursor at = cursor_column(&view, PEC_AT);
	uint64_t end = get_num(&at);
	/* asked last: the recording had grown to there before the side file said so */
	if (at.bad || end < BLT_FILE_HEADER || fstat(r->fd, &st) < 0 || end > (uint64_t)st.st_size)
		return 0;
	r->info.file_bytes = (uint64_t)st.st_size;
	r->side_from = end;
	r->side = STEAL(side);
	return 0;
}

int reader_is_written(int fd)
{
	int free_now = flock(fd, LOCK_SH | LOCK_NB) == 0;
	if (free_now)
		flock(fd, LOCK_UN);
	return !free_now && errno == EWOULDBLOCK;
}

struct trace_reader *reader_of(int fd, const char *path, struct err *err)
{
	CLEANUP(trace_reader_freep) struct trace_reader *r = calloc(1, sizeof(*r));
	if (!r) {
		close(fd);
		err_set(err, -ENOMEM, "cannot open '%s'", path);
		return NULL;
	}
	r->fd = fd;
	r->path = strdup(path);
	r->zdec = r->path ? zblock_dec_new(err) : NULL;
	if (!r->zdec) {
		err_set(err, -ENOMEM, "cannot open '%s'", path);
		return NULL;
	}
	struct stat st;
	if (fstat(r->fd, &st) < 0) {
		err_set(err, -errno, "cannot open '%s'", path);
		return NULL;
	}
	if (!S_ISREG(st.st_mode)) {
		err_set(err, -EINVAL, "cannot read '%s': not a regular file", path);
		return NULL;
	}
	r->info.file_bytes = (uint64_t)st.st_size;
	uint8_t bytes[BLT_FILE_HEADER];
	ssize_t n = fileio_pread(r->fd, bytes, sizeof(bytes), 0);
	if (n < 0) {
		err_set(err, (int)n, "cannot read '%s'", path);
		return NULL;
	}
	int good = n < BLT_MAGIC_BYTES ? -EBADMSG
		   : n < BLT_FILE_HEADER
			   ? (memcmp(bytes, BLT_MAGIC, BLT_MAGIC_BYTES) ? -EBADMSG : 0)
			   : blt_file_header_get(bytes, &r->header);
	if (good < 0) {
		err_set(err, -EBADMSG, n ? "'%s' is not a byteledger recording" : "'%s' is empty",
			path);
		return NULL;
	}
	if (n < BLT_FILE_HEADER) {
		err_set(err, -EBADMSG, "'%s' ends within its header", path);
		return NULL;
	}
	/*
	 * A header whose checksum differs is damaged: what it says is not believed, what follows is
	 * read all the same.
	 */
	if (!good)
		r->header = (struct blt_file_header){ .version = BLT_VERSION };
	r->header_damaged = !good;
	r->info.version = r->header.version;
	if (r->header.version > BLT_VERSION || r->header.version == 0) {
		err_set(err, -EBADMSG, "'%s' has format version %u, this program reads up to %u",
			path, r->header.version, BLT_VERSION);
		err_hint(err, "read it with the byteledger that wrote it, or a newer one");
		return NULL;
	}
	int rc = load_index(r);
	if (rc < 0) {
		err_set(err, rc, "cannot read '%s'", path);
		return NULL;
	}
	r->info.indexed = rc;
	if (!rc && good && (rc = open_side(r, bytes)) < 0) {
		err_set(err, rc, "cannot read '%s'", path);
		return NULL;
	}
	r->info.lacks_pending = !r->info.indexed && r->header.flags & BLT_H_LATE && !r->side;
	if (!r->info.indexed && rebuild_index(r, err) < 0)
		return NULL;
	r->info.events = r->total.events;
	r->info.blocks = r->index.blocks;
	r->info.damaged_blocks = (uint64_t)r->header_damaged;
	for (uint32_t i = 0; i < r->index.count; i++)
		if (r->index.entry[i].type == BLT_SUMMARY)
			r->info.has_summary = 1;
	return STEAL(r);
}

struct trace_reader *trace_reader_new(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		err_set(err, -errno, "cannot open '%s'", path);
		return NULL;
	}
	int written = reader_is_written(fd); /* before its length: what ends meanwhile is whole */
	struct trace_reader *r = reader_of(fd, path, err);
	if (r)
		r->info.being_written = written;
	return r;
}

struct trace_reader *trace_reader_new_fd(int fd, const char *name, struct err *err)
{
	int mine = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (mine < 0) {
		err_set(err, -errno, "cannot open '%s'", name);
		return NULL;
	}
	return reader_of(mine, name, err);
}

void trace_reader_freep(struct trace_reader **reader)
{
	struct trace_reader *r = *reader;
	*reader = NULL;
	if (!r)
		return;
	if (r->fd >= 0)
		close(r->fd);
	trace_reader_freep(&r->side);
	zblock_dec_free(r->zdec);
	buf_fini(&r->payload);
	buf_fini(&r->scratch);
	blt_flows_fini(&r->flows);
	buf_fini(&r->like_scratch);
	index_fini(&r->index);
	free(r->path);
	free(r);
}

void trace_reader_info(const struct trace_reader *reader, struct trace_reader_info *info)
{
	*info = reader->info;
}

/*
 * Walk over all blocks; @each sees those of @type that are whole. Return: 0, or -EBADMSG where
 * anything is damaged.
 */
static int each_block(struct trace_reader *r, unsigned type,
		      int (*each)(void *ctx, const struct blt_head *head,
				  const struct blt_view *view, struct err *err),
		      void *ctx, struct err *err)
{
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes;) {
		struct blt_head head;
		struct blt_view view;
		int rc = reader_head(r, at, &head);
		if (rc > 0 && head.type == type) {
			rc = reader_load(r, at, &head, &view);
			if (rc >= 0 && each)
				rc = each(ctx, &head, &view, err);
		} else if (rc == 0) {
			rc = -EBADMSG;
		}
		if (rc < 0)
			return rc;
		at += BLT_BLOCK_HEADER + head.stored;
	}
	return 0;
}

int trace_reader_files(struct trace_reader *r,
		       int (*each)(void *ctx, const struct trace_file *file, struct err *err),
		       void *ctx, struct err *err)
{
	CLEANUP(buf_fini) struct buf path = { 0 };
	int rc = 0;
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes && rc >= 0;) {
		struct blt_head head;
		struct blt_view view;
		struct trace_file file;
		rc = reader_head(r, at, &head);
		if (rc == 0) {
			rc = reader_resync(r, at + 1, &at);
			if (rc == 0)
				break;
			continue;
		}
		if (rc < 0 || head.type != BLT_FILE) {
			at += BLT_BLOCK_HEADER + head.stored;
			continue;
		}
		rc = reader_load(r, at, &head, &view);
		if (rc >= 0)
			rc = attach_get(&view, &file, &path);
		at += BLT_BLOCK_HEADER + head.stored;
		if (rc == -EBADMSG)
			rc = 0;
		else if (rc >= 0 && (rc = each(ctx, &file, err)) < 0)
			return rc;
	}
	return rc < 0 ? err_set(err, rc, "cannot read '%s'", r->path) : 0;
}

int trace_reader_reached(struct trace_reader *r, uint64_t *time_ns, struct err *err)
{
	int rc = 0;
	*time_ns = 0;
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes && rc >= 0;) {
		struct blt_head head;
		rc = reader_head(r, at, &head);
		if (rc == 0) {
			rc = reader_resync(r, at + 1, &at);
			if (rc == 0)
				break;
			continue;
		}
		at += BLT_BLOCK_HEADER + head.stored;
		if (rc > 0 && head.type == BLT_EVENTS && head.time_ns > *time_ns)
			*time_ns = head.time_ns;
	}
	return rc < 0 ? err_set(err, rc, "cannot read '%s'", r->path) : 0;
}

int trace_reader_shots(struct trace_reader *r, struct trace_shot **shots, size_t *count,
		       size_t *unreadable, struct err *err)
{
	struct trace_shot *list = NULL;
	size_t room = 0, bad = 0;
	int rc = 0;
	*count = 0;
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes && rc >= 0;) {
		struct blt_head head;
		struct blt_view view;
		rc = reader_head(r, at, &head);
		if (rc == 0) {
			rc = reader_resync(r, at + 1, &at);
			if (rc == 0)
				break;
			bad++;
			continue;
		}
		uint64_t here = at;
		at += BLT_BLOCK_HEADER + head.stored;
		if (rc < 0 || head.type != BLT_SNAPSHOT)
			continue;
		rc = reader_load(r, here, &head, &view);
		if (rc == -EBADMSG) {
			rc = 0;
			bad++;
		} else if (rc >= 0) {
			struct trace_shot shot = { .at = here };
			shot.time_ns = shot_time(&view, &shot.rss_bytes);
			if (shot.time_ns == UINT64_MAX) {
				bad++;
				continue;
			}
			if (*count == room) {
				room = room ? room * 2 : 16;
				struct trace_shot *grown = realloc(list, room * sizeof(*grown));
				if (!grown) {
					rc = -ENOMEM;
					break;
				}
				list = grown;
			}
			list[(*count)++] = shot;
		}
	}
	if (unreadable)
		*unreadable = bad;
	if (rc < 0) {
		free(list);
		*count = 0;
		return err_set(err, rc, "cannot read '%s'", r->path);
	}
	*shots = list;
	return 0;
}

struct snapshot *trace_reader_shot(struct trace_reader *r, const struct trace_shot *shot,
				   struct err *err)
{
	struct blt_head head;
	struct blt_view view;
	struct snapshot *snapshot = NULL;
	int rc = reader_head(r, shot->at, &head);
	rc = rc == 1 ? reader_load(r, shot->at, &head, &view) : rc < 0 ? rc : -EBADMSG;
	if (rc >= 0)
		snapshot = shot_decode(&view, &rc);
	if (snapshot)
		return snapshot;
	err_set(err, rc, "cannot use a snapshot in '%s'%s", r->path,
		rc == -EBADMSG ? ": what it says is not possible" : "");
	return NULL;
}

static int define_block(void *ctx, const struct blt_head *head, const struct blt_view *view,
			struct err *err)
{
	return replay_defs(ctx, view, head->rows, err);
}

int trace_reader_summary(struct trace_reader *reader, struct prof *prof, struct err *err)
{
	struct blt_head head = { 0 };
	struct blt_view view;
	uint64_t at = 0;
	if (!reader->info.has_summary)
		return 0;
	for (uint32_t i = 0; i < reader->index.count; i++)
		if (reader->index.entry[i].type == BLT_SUMMARY)
			at = reader->index.entry[i].at;
	/*
	 * All definitions must be whole before the first one reaches the prof: where they are not,
	 * a replay makes do.
	 */
	int rc = reader_head(reader, at, &head);
	if (rc == 0 || (rc > 0 && head.type != BLT_SUMMARY))
		return 0;
	if (rc >= 0)
		rc = reader_load(reader, at, &head, &view);
	if (rc >= 0)
		rc = each_block(reader, BLT_DEFS, NULL, NULL, err);
	if (rc == -EBADMSG)
		return 0;
	CLEANUP(replay_freep) struct replay *replay = NULL;
	if (rc >= 0) {
		replay = replay_new(reader, prof_sink(prof), err);
		rc = replay ? each_block(reader, BLT_DEFS, define_block, replay, err) : -ENOMEM;
	}
	if (rc >= 0)
		rc = reader_load(reader, at, &head, &view);
	if (rc >= 0)
		rc = summary_get(&view, head.rows, prof, err);
	return rc < 0 ? err_wrap(err, "cannot read the summary of '%s'", reader->path) : 1;
}
