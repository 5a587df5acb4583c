/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fileio.h"
#include "trace/attach.h"
#include "trace/block.h"
#include "trace/defs.h"
#include "trace/events.h"
#include "trace/index.h"
#include "trace/paged.h"
#include "trace/pending.h"
#include "trace/shot.h"
#include "trace/summary.h"

/*
 * Kept free behind the last block, so that the count of what was lost, and the index, find room on
 * a full disk.
 */
#define TAIL_RESERVE (64u << 10)
/* Space is reserved ahead in these steps, so that most blocks need no system call for it. */
#define RESERVE_STEP (1u << 20)
/* To begin another file after a full disk: as much as this one holds, or so much. */
#define ROOM_ENOUGH (256u << 20)
#define KEY_BYTES (1u << 20)
#define KEY_BYTES_PER_SLOT 8ULL
/* what tells little takes few bytes: who looks for a moment reads from a key block on */
#define KEY_EVENTS (1u << 20)
#define KEY_EVENTS_PER_SLOT 4ULL
#define DEFS_BLOCK_BYTES (1u << 20)
#define DEFS_BLOCK_ROWS 65536
#define AWAIT_LOOK_NS 2000000
/* Of a larger snapshot no copy is kept for the next ones to resemble. */
#define SHOT_LIKE_MAX (4u << 20)

struct trace_writer {
	struct sink sink;
	char *path;
	int fd;
	struct trace_writer_opt opt;
	struct zblock_enc *zenc;
	struct defs_enc defs;
	uint64_t defs_before;
	/* bytes of event blocks since a key block */
	uint64_t since_key;
	uint64_t events_since_key;
	struct summary_names names;
	struct events_enc *events;
	struct index index;
	struct buf out;
	/* where the next block goes; everything before is whole */
	uint64_t end;
	/* the file system keeps space up to here; 0 = it cannot */
	uint64_t reserved;
	int no_reserve;
	/* NULL: nothing comes late */
	struct pending *pending;
	/* code != 0: writing has stopped */
	struct err failed;
	struct events_tally lost;
	/* by what was lost */
	struct events_told told;
	struct paged_names page_names;
	/* of the snapshot that the next ones resemble */
	struct blt_cols shot;
	/* 0: there is none */
	uint64_t shot_at;
	size_t shot_stored;
};

static int writer_define(struct sink *sink, const struct def *def, struct err *err);
static int writer_put(struct sink *sink, const struct event *events, size_t count, struct err *err);

static void read_boot_id(uint8_t *id)
{
	char text[64] = "";
	memset(id, 0, 16); /* says unknown */
	ssize_t n = fileio_text(AT_FDCWD, "/proc/sys/kernel/random/boot_id", text, sizeof(text));
	unsigned digits = 0;
	for (ssize_t i = 0; i < n && digits < 32; i++) {
		const char *hex = "0123456789abcdef", *at = text[i] ? strchr(hex, text[i]) : NULL;
		if (!at)
			continue;
		id[digits / 2] |= (uint8_t)((at - hex) << (digits % 2 ? 0 : 4));
		digits++;
	}
}

/*
 * @path is there. Whether it has gone meanwhile, or may go soon: a writer with opt.brief is at work
 * on it, or it is empty because it
 * was created just now. Waits a little, then.
 */
static int may_go(const char *path, uint64_t until_ns)
{
	const struct timespec look = { .tv_nsec = AWAIT_LOOK_NS };
	struct flock mark = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	struct stat st;
	if (clock_ns(CLOCK_MONOTONIC) >= until_ns)
		return 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ENOENT;
	int brief = fcntl(fd, F_OFD_GETLK, &mark) == 0 && mark.l_type != F_UNLCK;
	brief |= fstat(fd, &st) == 0 && st.st_size == 0;
	close(fd);
	if (brief)
		nanosleep(&look, NULL);
	return brief;
}

static int create_file(struct trace_writer *w, const char *path, struct err *err)
{
	struct stat st;
	uint64_t until = w->opt.await_ns ? clock_ns(CLOCK_MONOTONIC) + w->opt.await_ns : 0;
	int why;
	/* a number behind the name of a device or a folder is not what was meant */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "cannot create '%s': a %s is there, and no file", path,
			       S_ISDIR(st.st_mode) ? "folder" : "device");
	for (unsigned n = 0; n < 100000; n++) {
		free(w->path);
		if (n == 0)
			w->path = strdup(path);
		else if (asprintf(&w->path, "%s.%u", path, n) < 0)
			w->path = NULL;
		if (!w->path)
			return err_set(err, -ENOMEM, "cannot create '%s'", path);
		if (w->opt.culling && pending_there(w->path))
			continue;
		do {
			w->fd = open(w->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
				     0600);
			why = w->fd < 0 ? errno : 0;
		} while (why == EEXIST && n == 0 && may_go(w->path, until));
		if (!why) {
			struct flock mark = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
			if (w->opt.brief)
				fcntl(w->fd, F_OFD_SETLK, &mark);
			/*
			 * whoever adds symbols to a finished recording sees by this that it is not
			 */
			flock(w->fd, LOCK_EX | LOCK_NB);
			return 0;
		}
		if (why != EEXIST)
			return err_set(err, -why, "cannot create '%s'", w->path);
	}
	return err_set(err, -EEXIST, "cannot create '%s'", path);
}

/*
 * Make sure that @len bytes and the tail behind them fit, before a byte is written: a block is on
 * disk whole or not at all.
 * @tail: the block belongs to the end and may use what was kept for it.
 */
static int make_room(struct trace_writer *w, size_t len, int tail, struct err *err)
{
	uint64_t need = w->end + len + (tail ? 0 : TAIL_RESERVE);
	struct rlimit limit;
	/* Writing beyond the limit would raise SIGXFSZ; asking costs less than a signal mask. */
	int limited = getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
	if (limited && need > limit.rlim_cur)
		return err_set(err, -EFBIG, "cannot write '%s'", w->path);
	struct statvfs fs;
	if (!tail && w->opt.min_free_bytes && fstatvfs(w->fd, &fs) == 0 &&
	    (uint64_t)fs.f_bavail * fs.f_frsize < w->opt.min_free_bytes)
		return err_set(err, -ENOSPC, "cannot write '%s': less than %" PRIu64 " bytes free",
			       w->path, w->opt.min_free_bytes);
	if (w->no_reserve || need <= w->reserved)
		return 0;
	uint64_t from = w->reserved > w->end ? w->reserved : w->end;
	uint64_t to = tail ? need : need + RESERVE_STEP;
	if (limited && to > limit.rlim_cur)
		to = limit.rlim_cur; /* fallocate() too raises SIGXFSZ beyond it */
	int rc = fallocate(w->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
	if (rc < 0 && errno == ENOSPC && to > need) {
		to = need;
		rc = fallocate(w->fd, FALLOC_FL_KEEP_SIZE, (off_t)from, (off_t)(to - from));
	}
	if (rc == 0) {
		w->reserved = to;
		return 0;
	}
	if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL)
		return err_set(err, -errno, "cannot write '%s'", w->path);
	w->no_reserve = 1;
	return 0;
}

/* Put what stands in w->out at the end of the file. On failure the file ends where it did. */
static int append(struct trace_writer *w, int tail, struct err *err)
{
	int rc = make_room(w, w->out.len, tail, err);
	if (rc < 0)
		return rc;
	rc = fileio_pwrite(w->fd, w->out.data, w->out.len, w->end);
	if (rc < 0) {
		if (ftruncate(w->fd, (off_t)w->end) < 0)
			err_set(err, rc, "cannot write '%s' (nor cut it)", w->path);
		else
			err_set(err, rc, "cannot write '%s'", w->path);
		w->reserved = 0;
		return rc;
	}
	w->end += w->out.len;
	return 0;
}

static void tally_add(struct events_tally *to, const struct events_tally *from)
{
	to->events += from->events;
	to->allocations += from->allocations;
	to->bytes += from->bytes;
	to->frees += from->frees;
}

/* The open block is not going to be written. */
static void lose_open(struct trace_writer *w)
{
	const struct events_told *told = events_enc_told(w->events);
	struct events_tally open;
	events_enc_tally(w->events, NULL, &open);
	open.frees -= open.implied; /* lost before */
	tally_add(&w->lost, &open);
	for (unsigned i = 0; i < LOSS_REASON_MAX; i++)
		tally_add(&w->told.lost[i], &told->lost[i]);
	tally_add(&w->told.culled, &told->culled);
	tally_add(&w->told.filtered, &told->filtered);
	tally_add(&w->told.filtered_inherited, &told->filtered_inherited);
}

/* Pack and write one block, and note it in the index. */
static int write_block(struct trace_writer *w, struct blt_cols *cols, struct blt_head *head,
		       int tail, struct err *err)
{
	uint64_t at = w->end;
	buf_clear(&w->out);
	int rc = blt_pack(cols, head, w->zenc, &w->out, err);
	if (rc >= 0)
		rc = append(w, tail, err);
	if (rc >= 0)
		rc = index_add(&w->index, at, head, err);
	return rc;
}

static int write_defs(struct trace_writer *w, struct err *err)
{
	struct blt_head head = { .type = BLT_DEFS,
				 .rows = w->defs.rows,
				 .first = w->defs_before,
				 .time_ns = events_enc_last_time(w->events) };
	w->defs.cols.tight = 1;
	int rc = write_block(w, &w->defs.cols, &head, 0, err);
	if (rc >= 0)
		w->defs_before += w->defs.rows;
	defs_enc_clear(&w->defs);
	return rc;
}

static int write_events(struct trace_writer *w, int tail, struct err *err)
{
	struct blt_head head;
	struct blt_cols *cols = events_enc_block(w->events, &head);
	int rc = write_block(w, cols, &head, tail, err);
	if (rc < 0)
		lose_open(w);
	w->since_key += w->out.len;
	w->events_since_key += head.rows;
	/*
	 * After damage reading goes on at the next key block. Each costs what the guesses had
	 * learnt: some bytes for every block that lives on.
	 */
	uint64_t slots = events_enc_slots(w->events);
	int key = w->since_key >= KEY_BYTES + KEY_BYTES_PER_SLOT * slots ||
		  w->events_since_key >= KEY_EVENTS + KEY_EVENTS_PER_SLOT * slots;
	if (key)
		w->since_key = w->events_since_key = 0;
	events_enc_clear(w->events, rc >= 0, key);
	return rc;
}

/* Definitions go first: what the events of the open block name is defined before it. */
static int write_open(struct trace_writer *w, int events)
{
	int rc = 0;
	if (w->defs.rows)
		rc = write_defs(w, &w->failed);
	if (events_enc_rows(w->events) && (events || rc < 0)) {
		if (rc < 0) {
			lose_open(w);
			events_enc_clear(w->events, 0, 1);
		} else {
			rc = write_events(w, 0, &w->failed);
		}
	}
	return rc;
}

/* @fd < 0: create @path. */
static struct trace_writer *new_writer(int fd, const char *path, const struct trace_writer_opt *opt,
				       struct err *err)
{
	CLEANUP(trace_writer_freep) struct trace_writer *w = calloc(1, sizeof(*w));
	if (!w) {
		err_set(err, -ENOMEM, "cannot create '%s'", path);
		return NULL;
	}
	w->fd = -1;
	w->sink = (struct sink){ .define = writer_define, .put = writer_put };
	if (opt)
		w->opt = *opt;
	w->zenc = zblock_enc_new(err);
	w->events = w->zenc ? events_enc_new(err) : NULL;
	if (!w->events)
		return NULL;
	if (fd < 0 && create_file(w, path, err) < 0)
		return NULL;
	if (fd >= 0) {
		w->path = strdup(path);
		w->fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
		if (!w->path || w->fd < 0) {
			err_set(err, w->path ? -errno : -ENOMEM, "cannot write '%s'", path);
			return NULL;
		}
	}
	struct blt_file_header header = {
		.version = BLT_VERSION,
#if defined(__x86_64__)
		.machine = 62,
#elif defined(__aarch64__)
		.machine = 183,
#endif
		.flags = w->opt.culling ? BLT_H_LATE : 0,
		.realtime_ns = clock_ns(CLOCK_REALTIME),
		.monotonic_ns = clock_ns(CLOCK_MONOTONIC),
	};
	if (w->opt.anonymous)
		header.realtime_ns = header.monotonic_ns = 0;
	else
		read_boot_id(header.boot_id);
	char *to = buf_reserve(&w->out, BLT_FILE_HEADER);
	if (!to) {
		err_set(err, -ENOMEM, "cannot create '%s'", path);
		return NULL;
	}
	blt_file_header_put((uint8_t *)to, &header);
	w->out.len = BLT_FILE_HEADER;
	if (w->opt.culling && !(w->pending = pending_new(w->path, &header, w->events, err)))
		return NULL;
	if (append(w, 0, err) < 0) {
		if (fd < 0)
			unlink(w->path);
		return NULL;
	}
	return STEAL(w);
}

struct trace_writer *trace_writer_new(const char *path, const struct trace_writer_opt *opt,
				      struct err *err)
{
	return new_writer(-1, path, opt, err);
}

struct trace_writer *trace_writer_new_fd(int fd, const char *name,
					 const struct trace_writer_opt *opt, struct err *err)
{
	return new_writer(fd, name, opt, err);
}

const char *trace_writer_path(const struct trace_writer *writer)
{
	return writer->path;
}

struct sink *trace_writer_sink(struct trace_writer *writer)
{
	return &writer->sink;
}

int trace_writer_attach(struct trace_writer *w, const struct trace_file *file, const void *content,
			struct err *err)
{
	struct blt_cols cols = { 0 };
	struct blt_head head = { .type = BLT_FILE,
				 .rows = 1,
				 .time_ns = events_enc_last_time(w->events) };
	attach_put(&cols, file, content);
	int rc = w->failed.code ? err_set(err, w->failed.code, "%s", w->failed.msg)
				: write_block(w, &cols, &head, 0, err);
	blt_cols_fini(&cols);
	return rc < 0 ? rc : 0;
}

int trace_writer_snapshot(struct trace_writer *w, const struct snapshot *snapshot, struct err *err)
{
	struct blt_cols cols = { 0 };
	struct blt_head head = { .type = BLT_SNAPSHOT, .rows = 1, .time_ns = snapshot->time_ns };
	uint64_t at = w->end;
	size_t raw = 0;
	shot_encode(&cols, snapshot);
	for (unsigned i = 0; i < BLT_COL_MAX; i++)
		raw += cols.col[i].len;
	cols.tight = 1;
	if (w->shot_at) {
		cols.like = &w->shot;
		head.first = w->shot_at;
	}
	int rc = w->failed.code ? err_set(err, w->failed.code, "%s", w->failed.msg)
				: write_block(w, &cols, &head, 0, err);
	if (rc >= 0 && !w->shot_at && raw <= SHOT_LIKE_MAX) {
		w->shot = cols;
		w->shot_at = at;
		w->shot_stored = head.stored;
		return 0;
	}
	/*
	 * it has become another one: the next stands alone, and is what is resembled from there on
	 */
	if (rc >= 0 && w->shot_at && head.stored > w->shot_stored / 2) {
		blt_cols_fini(&w->shot);
		w->shot = (struct blt_cols){ 0 };
		w->shot_at = 0;
	}
	blt_cols_fini(&cols);
	return rc < 0 ? rc : 0;
}

static int put_pages(struct trace_writer *w, struct blt_cols *cols, struct blt_head *head, int rc,
		     struct err *err)
{
	if (rc < 0)
		err_set(err, rc, "cannot record pages");
	else if (w->failed.code)
		rc = err_set(err, w->failed.code, "%s", w->failed.msg);
	else
		rc = write_block(w, cols, head, 0, err);
	blt_cols_fini(cols);
	return rc < 0 ? rc : 0;
}

int trace_writer_pages(struct trace_writer *w, const struct page_shot *shot,
		       const struct page_process *process, uint64_t zero_ns, struct err *err)
{
	struct blt_cols cols = { 0 };
	struct blt_head head = { .type = BLT_PAGES, .rows = 1 };
	head.time_ns = process->time_ns > zero_ns ? process->time_ns - zero_ns : 0;
	int rc = paged_encode(&cols, shot, process, zero_ns, &w->page_names);
	return put_pages(w, &cols, &head, rc, err);
}

static int write_page_names(struct trace_writer *w, struct err *err)
{
	int rc = 0;
	for (uint32_t from = 0, count = 1; !rc && count && from < w->page_names.room;) {
		struct blt_cols cols = { 0 };
		struct blt_head head = { .type = BLT_PAGES,
					 .time_ns = events_enc_last_time(w->events) };
		rc = paged_encode_names(&cols, &w->page_names, &from, &count);
		head.rows = count;
		if (rc || count)
			rc = put_pages(w, &cols, &head, rc, err);
		else
			blt_cols_fini(&cols);
	}
	return rc;
}

struct sink *trace_writer_pending(struct trace_writer *writer)
{
	return writer->pending && !writer->failed.code ? pending_begin(writer->pending, writer->end)
						       : NULL;
}

int trace_writer_pending_end(struct trace_writer *writer, struct err *err)
{
	return pending_write(writer->pending, writer->fd, err);
}

uint32_t trace_writer_rows(const struct trace_writer *writer)
{
	return events_enc_rows(writer->events);
}

uint64_t trace_writer_bytes(const struct trace_writer *writer)
{
	return writer->end;
}

uint64_t trace_writer_lost(const struct trace_writer *writer)
{
	return writer->lost.events;
}

int trace_writer_has_room(const struct trace_writer *w)
{
	struct statvfs fs;
	uint64_t need = (w->end < ROOM_ENOUGH ? w->end : ROOM_ENOUGH) + TAIL_RESERVE + RESERVE_STEP;
	if ((w->failed.code != -ENOSPC && w->failed.code != -EDQUOT) || fstatvfs(w->fd, &fs) < 0 ||
	    __builtin_add_overflow(need, w->opt.min_free_bytes, &need))
		return 0;
	return (uint64_t)fs.f_bavail * fs.f_frsize >= need;
}

static int writer_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct trace_writer *w = (struct trace_writer *)sink;
	if (w->failed.code)
		return 0;
	int rc = defs_enc_add(&w->defs, def, err);
	if (rc >= 0 && def->kind == DEF_STACK && def->id >= w->names.stacks)
		w->names.stacks = def->id + 1;
	if (rc >= 0 && def->kind == DEF_THREAD && def->id >= w->names.threads)
		w->names.threads = def->id + 1;
	if (rc >= 0 && (w->defs.bytes >= DEFS_BLOCK_BYTES || w->defs.rows >= DEFS_BLOCK_ROWS))
		write_open(w, 0);
	return rc;
}

static void count_lost(struct trace_writer *w, const struct event *event)
{
	struct events_tally *lost = &w->lost;
	lost->events++;
	if (event->kind == EVENT_ALLOC) {
		lost->allocations++;
		lost->bytes += event->bytes;
	} else if (event->kind == EVENT_FREE || event->kind == EVENT_FREE_FOREIGN) {
		lost->frees += event->kind != EVENT_FREE || !(event->flags & EVENT_F_IMPLIED);
	} else {
		events_told_add(&w->told, event);
	}
}

static int writer_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct trace_writer *w = (struct trace_writer *)sink;
	for (size_t i = 0; i < count;) {
		size_t taken;
		if (w->failed.code) {
			count_lost(w, &events[i++]);
			continue;
		}
		int rc = events_enc_add(w->events, events + i, count - i, &taken, err);
		if (rc < 0)
			return rc;
		i += taken;
		if (rc > 0)
			write_open(w, 1);
	}
	return 0;
}

int trace_writer_flush(struct trace_writer *writer, struct err *err)
{
	if (!writer->failed.code)
		write_open(writer, 1);
	if (!writer->failed.code)
		return 0;
	if (err)
		*err = writer->failed;
	return writer->failed.code;
}

static int add_loss(struct trace_writer *w, unsigned reason, const struct events_tally *sum,
		    struct err *err)
{
	const struct event lost = { .kind = EVENT_LOST,
				    .time_ns = events_enc_last_time(w->events),
				    .value = reason,
				    .addr = sum->allocations,
				    .bytes = sum->bytes,
				    .block.v = sum->frees > UINT32_MAX ? UINT32_MAX
								       : (uint32_t)sum->frees };
	size_t taken;
	return events_enc_add(w->events, &lost, 1, &taken, err);
}

static int add_filtered(struct trace_writer *w, uint8_t flags, const struct events_tally *sum,
			struct err *err)
{
	const struct event told = { .kind = EVENT_FILTERED,
				    .flags = flags,
				    .time_ns = events_enc_last_time(w->events),
				    .addr = sum->allocations,
				    .bytes = sum->bytes,
				    .value = sum->frees };
	size_t taken;
	return sum->events ? events_enc_add(w->events, &told, 1, &taken, err) : 0;
}

/*
 * The rest after a failed write, in the room that was kept for it. What others had lost before, and
 * what a filter left out, is told again, in one sum each; blocks left out for their short life are
 * lost, because their stacks may not be there.
 */
static int write_loss(struct trace_writer *w, struct err *err)
{
	struct events_tally lost = w->lost;
	int rc = 0;
	for (unsigned i = 0; i < LOSS_REASON_MAX && rc >= 0; i++)
		if (w->told.lost[i].events)
			rc = add_loss(w, i, &w->told.lost[i], err);
	if (rc >= 0)
		rc = add_filtered(w, EVENT_F_INHERITED, &w->told.filtered_inherited, err);
	if (rc >= 0)
		rc = add_filtered(w, 0, &w->told.filtered, err);
	tally_add(&lost, &w->told.culled);
	if (rc >= 0)
		rc = add_loss(w, LOSS_WRITE_FAILED, &lost, err);
	return rc < 0 ? rc : write_events(w, 1, err);
}

/*
 * So few events are replayed faster than a person notices; a summary would be a large part of so
 * small a file.
 */
#define SUMMARY_MIN_EVENTS 65536
/*
 * One point of the timeline for so many bytes of the recording: it must not make up more than some
 * percent of it.
 */
#define BYTES_PER_POINT 400
#define POINTS_MIN 100

static int write_summary(struct trace_writer *w, const struct prof *prof, struct err *err)
{
	struct events_tally kept;
	events_enc_tally(w->events, &kept, NULL);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	/* a replay would not find the peak of what the recording lacks */
	if (kept.events < SUMMARY_MIN_EVENTS && !totals.culled_allocations)
		return 0;
	struct blt_cols cols = { 0 };
	struct blt_head head = { .type = BLT_SUMMARY, .time_ns = events_enc_last_time(w->events) };
	uint64_t points = w->end / BYTES_PER_POINT;
	int64_t rows = summary_put(prof, &totals, &w->names,
				   points < POINTS_MIN ? POINTS_MIN : points, &cols, err);
	int rc = rows < 0 ? (int)rows : 0;
	head.rows = (uint32_t)rows;
	if (rc >= 0 && rows > BLT_ROWS_MAX)
		rc = 0; /* so many stacks are replayed */
	else if (rc >= 0)
		rc = write_block(w, &cols, &head, 1, err);
	blt_cols_fini(&cols);
	return rc;
}

static int write_index(struct trace_writer *w, struct err *err)
{
	struct blt_cols cols = { 0 };
	struct events_tally kept;
	events_enc_tally(w->events, &kept, NULL);
	struct blt_head head = { .type = BLT_INDEX, .time_ns = events_enc_last_time(w->events) };
	struct blt_head end = { .type = BLT_END, .first = w->end, .time_ns = head.time_ns };
	index_put(&w->index, &kept, &cols.col[0]);
	head.rows = w->index.count;
	buf_clear(&w->out);
	int rc = blt_pack(&cols, &head, w->zenc, &w->out, err);
	blt_cols_clear(&cols); /* the end is a header only */
	if (rc >= 0)
		rc = blt_pack(&cols, &end, w->zenc, &w->out, err);
	blt_cols_fini(&cols);
	return rc < 0 ? rc : append(w, 1, err);
}

int trace_writer_finish(struct trace_writer *writer, const struct prof *prof, struct err *err)
{
	CLEANUP(trace_writer_freep) struct trace_writer *w = writer;
	int rc = trace_writer_flush(w, err);
	struct err tail = { 0 };
	int tail_rc = 0;
	if (rc < 0)
		tail_rc = write_loss(w, &tail);
	/*
	 * After a failure the file lacks what the prof knows: then a replay is the truth about the
	 * file.
	 */
	else if ((tail_rc = write_page_names(w, &tail)) >= 0 && prof)
		tail_rc = write_summary(w, prof, &tail);
	/*
	 * It is smaller than a summary, for which there may have been no room. Not where the count
	 * of what was lost is missing: such a file must not look finished.
	 */
	if (tail_rc >= 0)
		tail_rc = write_index(w, &tail);
	else if (rc >= 0)
		write_index(w, NULL);
	/* Give back what was reserved and not used; the content stays. */
	if (ftruncate(w->fd, (off_t)w->end) < 0 && tail_rc >= 0)
		tail_rc = err_set(&tail, -errno, "cannot finish '%s'", w->path);
	if (close(w->fd) < 0 && tail_rc >= 0)
		tail_rc = err_set(&tail, -errno, "cannot finish '%s'", w->path);
	w->fd = -1;
	pending_free(STEAL(w->pending), tail_rc >= 0);
	if (rc >= 0 && tail_rc < 0) {
		if (err)
			*err = tail;
		rc = tail_rc;
	}
	return rc;
}

void trace_writer_freep(struct trace_writer **writer)
{
	struct trace_writer *w = *writer;
	*writer = NULL;
	if (!w)
		return;
	if (w->fd >= 0)
		close(w->fd);
	pending_free(w->pending, 0);
	zblock_enc_free(w->zenc);
	defs_enc_fini(&w->defs);
	events_enc_free(w->events);
	index_fini(&w->index);
	paged_names_fini(&w->page_names);
	blt_cols_fini(&w->shot);
	buf_fini(&w->out);
	free(w->path);
	free(w);
}
