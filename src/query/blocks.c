/* SPDX-License-Identifier: Apache-2.0 */
#include "query/blocks.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "query/blocks_impl.h"
#include "query/impl.h"

#define ROWS_HELD BLOCK_PAGE /* on their way to the file, or out of it */

#define RESERVE_MOST (1ull << 30) /* of the file system that the rows lie in */

#define NO_TID UINT32_MAX /* of a number that no thread has yet */

/** struct live_row - a block that lives now. */
struct live_row {
	struct block_row row;
	/* @thread: its code */
	uint16_t lives, thread;
};
/**
 * struct thread - who a producer's thread number is, and the realloc that it is in the middle of.
 */
struct thread {
	uint32_t tid;
	/* 0: none */
	uint32_t chain;
	uint16_t position;
	/* of its tid among the columns */
	uint16_t code;
};

struct build {
	struct sink sink;
	struct blocks *blocks;
	const struct prof *names;
	/* struct live_row by block number */
	struct chunked live;
	/* struct thread by the producer's number */
	struct chunked threads;
	/* block number, plus one */
	uint32_t highest;
	uint64_t allocations;
	size_t held;
	struct block_row hold[ROWS_HELD];
	uint16_t hold_threads[ROWS_HELD];
};

int blocks_write(int fd, const void *bytes, size_t len, uint64_t at, struct err *err)
{
	const char *from = bytes;
	while (len) {
		ssize_t n = pwrite(fd, from, len, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			err_set(err, n < 0 ? -errno : -EIO, "cannot write a temporary file");
			return err_hint(err, "set TMPDIR to a folder with more free space");
		}
		from += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

int blocks_read_at(int fd, void *to, size_t len, uint64_t at, struct err *err)
{
	for (size_t got = 0; got < len;) {
		ssize_t n = pread(fd, (char *)to + got, len - got, (off_t)(at + got));
		if (n > 0)
			got += (size_t)n;
		else if (n == 0 || errno != EINTR)
			return err_set(err, n < 0 ? -errno : -EIO, "cannot read a temporary file");
	}
	return 0;
}

/** leave_room() - -ENOSPC where what others need of the file system would be taken. */
static int leave_room(struct blocks *blocks, struct err *err)
{
	struct statvfs fs;
	if (blocks->rows % (16 * BLOCK_PAGE) || fstatvfs(blocks->rows_fd, &fs) < 0)
		return 0;
	uint64_t reserve = (uint64_t)fs.f_blocks * fs.f_frsize / 20;
	if ((uint64_t)fs.f_bavail * fs.f_frsize > (reserve < RESERVE_MOST ? reserve : RESERVE_MOST))
		return 0;
	return err_set(err, -ENOSPC, "cannot write a temporary file: too little room is left");
}

static int flush(struct build *b, struct err *err)
{
	struct blocks *blocks = b->blocks;
	size_t count = b->held;
	b->held = 0;
	if (!count)
		return 0;
	int rc = leave_room(blocks, err);
	return rc < 0 ? rc : blocks_put_page(blocks, b->hold, count, b->hold_threads, err);
}

static int append(struct build *b, const struct live_row *live, struct err *err)
{
	b->hold[b->held] = live->row;
	b->hold_threads[b->held++] = live->thread;
	return b->held == ROWS_HELD ? flush(b, err) : 0;
}

static struct thread *thread_of(struct build *b, struct thread_id id, struct err *err)
{
	struct thread *thread = chunked_touch(&b->threads, id.v);
	if (!thread)
		err_set(err, -ENOMEM, "cannot keep the threads");
	return thread;
}

/** begin_chain() - a block that a realloc takes the place of is the first of a new one. */
static int begin_chain(struct build *b, struct block_row *row, struct err *err)
{
	if (b->blocks->chains == UINT32_MAX - 1)
		return 0;
	const struct block_chain chain = { .first_id = row->id,
					   .first_time_ns = row->time_ns,
					   .freed_ns = BLOCK_NEVER,
					   .first_bytes = row->bytes,
					   .last_bytes = row->bytes,
					   .length = 1 };
	row->chain = ++b->blocks->chains;
	return blocks_write(b->blocks->chains_fd, &chain, sizeof(chain),
			    (uint64_t)row->chain * sizeof(chain), err);
}

/** end_chain() - its last block is known. */
static int end_chain(struct build *b, const struct block_row *row, struct err *err)
{
	struct block_chain chain;
	uint64_t at = (uint64_t)row->chain * sizeof(chain);
	if (pread(b->blocks->chains_fd, &chain, sizeof(chain), (off_t)at) != sizeof(chain))
		return err_set(err, -EIO, "cannot read a temporary file");
	chain.freed_ns = row->freed_ns;
	chain.last_bytes = row->bytes;
	chain.length = row->position + 1u;
	return blocks_write(b->blocks->chains_fd, &chain, sizeof(chain), at, err);
}

static int on_alloc(struct build *b, const struct event *ev, struct err *err)
{
	struct live_row *live = chunked_touch(&b->live, ev->block.v);
	struct thread *thread = thread_of(b, ev->thread, err);
	if (!live || !thread)
		return err_set(err, -ENOMEM, "cannot keep the live blocks");
	if (ev->block.v >= b->highest)
		b->highest = ev->block.v + 1;
	int by_realloc = ev->flags & EVENT_F_REALLOC && thread->chain;
	live->lives = 1;
	live->thread = thread->code;
	live->row = (struct block_row){
		.id = ++b->allocations,
		.time_ns = ev->time_ns,
		.freed_ns = BLOCK_NEVER,
		.addr = ev->addr,
		.bytes = ev->bytes,
		.stack = prof_stack_row(b->names, ev->stack).v,
		.tid = thread->tid,
		.chain = by_realloc ? thread->chain : 0,
		.position = by_realloc && thread->position < UINT16_MAX
				    ? (uint16_t)(thread->position + 1)
			    : by_realloc ? UINT16_MAX
					 : 0,
		.flags = (uint16_t)((by_realloc ? BLOCK_BY_REALLOC : 0) |
				    (ev->flags & EVENT_F_UNCERTAIN ? BLOCK_UNCERTAIN : 0) |
				    (ev->flags & EVENT_F_INHERITED ? BLOCK_INHERITED : 0)),
	};
	thread->chain = 0;
	return 0;
}

static int on_free(struct build *b, const struct event *ev, struct err *err)
{
	struct live_row *live =
		chunked_has(&b->live, ev->block.v) ? chunked_at(&b->live, ev->block.v) : NULL;
	struct thread *thread = thread_of(b, ev->thread, err);
	if (!thread)
		return err->code;
	thread->chain = 0;
	if (!live || !live->lives)
		return 0;
	struct block_row *row = &live->row;
	int rc = 0;
	live->lives = 0;
	row->freed_ns = ev->time_ns;
	row->free_stack = prof_stack_row(b->names, ev->aux_stack).v;
	row->free_tid = thread->tid;
	row->flags |= ev->flags & EVENT_F_TEMPORARY ? BLOCK_TEMPORARY : 0;
	if (ev->flags & EVENT_F_REALLOC) {
		row->flags |= BLOCK_ENDS_REALLOC;
		if (!row->chain)
			rc = begin_chain(b, row, err);
		thread->chain = row->chain;
		thread->position = row->position;
	} else if (row->chain) {
		rc = end_chain(b, row, err);
	}
	return rc < 0 ? rc : append(b, live, err);
}

static int build_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct build *b = (struct build *)sink;
	int rc = 0;
	for (size_t i = 0; i < count && rc == 0; i++) {
		const struct event *ev = &events[i];
		if (ev->kind != EVENT_ALLOC && ev->kind != EVENT_FREE)
			continue;
		if (ev->block.v == BLOCK_NONE)
			return err_set(err, -EINVAL,
				       "this recording does not tell its blocks apart");
		rc = ev->kind == EVENT_ALLOC ? on_alloc(b, ev, err) : on_free(b, ev, err);
	}
	return rc;
}

/**
 * name_thread() - its code is its number and one, where that fits, and only for the first that had
 * the number.
 */
static int name_thread(struct blocks *blocks, struct thread *thread, uint32_t number,
		       struct err *err)
{
	uint32_t code = number + 1u;
	int rc = 0;
	thread->code = BLOCK_THREAD_OTHER;
	if (number >= UINT16_MAX)
		return 0;
	pthread_mutex_lock(&blocks->lock);
	if (code >= blocks->tid_count) {
		uint32_t *tids = realloc(blocks->tids, (code + 1) * sizeof(*tids));
		if (tids) {
			for (uint32_t i = blocks->tid_count; i <= code; i++)
				tids[i] = NO_TID;
			blocks->tids = tids;
			blocks->tid_count = code + 1;
		} else {
			rc = err_set(err, -ENOMEM, "cannot keep the threads");
		}
	}
	if (rc == 0 && blocks->tids[code] == NO_TID)
		blocks->tids[code] = thread->tid;
	if (rc == 0 && blocks->tids[code] == thread->tid)
		thread->code = (uint16_t)code;
	pthread_mutex_unlock(&blocks->lock);
	return rc;
}

static int build_define(struct sink *sink, const struct def *def, struct err *err)
{
	if (def->kind != DEF_THREAD)
		return 0;
	struct thread *thread = thread_of((struct build *)sink, (struct thread_id){ def->id }, err);
	if (!thread)
		return err->code;
	thread->tid = def->thread.tid;
	return name_thread(((struct build *)sink)->blocks, thread, def->id, err);
}

static int write_the_living(struct build *b, struct err *err)
{
	int rc = 0;
	for (uint32_t i = 0; i < b->highest && rc == 0; i++) {
		const struct live_row *live =
			chunked_has(&b->live, i) ? chunked_at(&b->live, i) : NULL;
		if (!live || !live->lives)
			continue;
		if (live->row.chain)
			rc = end_chain(b, &live->row, err);
		if (rc == 0)
			rc = append(b, live, err);
	}
	return rc < 0 ? rc : flush(b, err);
}

static int map_chains(struct blocks *blocks, struct err *err)
{
	size_t bytes = ((size_t)blocks->chains + 1) * sizeof(*blocks->chain);
	if (ftruncate(blocks->chains_fd, (off_t)bytes) < 0)
		return err_set(err, -errno, "cannot grow a temporary file");
	void *map = mmap(NULL, bytes, PROT_READ, MAP_SHARED, blocks->chains_fd, 0);
	if (map == MAP_FAILED)
		return err_set(err, -errno, "cannot map a temporary file");
	blocks->chain = map;
	return 0;
}

struct blocks *blocks_open(struct err *err)
{
	struct blocks *blocks = calloc(1, sizeof(*blocks));
	if (!blocks) {
		err_set(err, -ENOMEM, "cannot list the blocks");
		return NULL;
	}
	pthread_mutex_init(&blocks->lock, NULL);
	blocks->chains_fd = blocks->columns_fd = -1;
	blocks->rows_fd = scratch_open(err);
	if (blocks->rows_fd >= 0)
		blocks->chains_fd = scratch_open(err);
	if (blocks->chains_fd >= 0)
		blocks->columns_fd = scratch_open(err);
	if (blocks->columns_fd >= 0)
		return blocks;
	blocks_free(blocks);
	return NULL;
}

int blocks_fill(struct blocks *blocks, const struct query_source *source, const struct prof *names,
		struct err *err)
{
	struct build *b = calloc(1, sizeof(*b));
	if (!b)
		return err_set(err, -ENOMEM, "cannot list the blocks");
	b->sink = (struct sink){ .define = build_define, .put = build_put };
	b->blocks = blocks;
	b->names = names;
	b->live = (struct chunked)CHUNKED_INIT(struct live_row);
	b->threads = (struct chunked)CHUNKED_INIT(struct thread);
	int rc = source->run(source->ctx, &b->sink, err);
	if (rc == 0)
		rc = write_the_living(b, err);
	chunked_fini(&b->live);
	chunked_fini(&b->threads);
	if (rc == 0)
		rc = map_chains(blocks, err);
	free(b);
	if ((rc == -ENOSPC || rc == -EDQUOT || rc == -EFBIG) && blocks->rows) {
		*err = (struct err){ 0 };
		blocks->is_full = 1;
		rc = 0;
	}
	return rc;
}

struct blocks *blocks_new(const struct query_source *source, const struct prof *names,
			  struct err *err)
{
	struct blocks *blocks = blocks_open(err);
	int rc = blocks ? blocks_fill(blocks, source, names, err) : 0;
	if (blocks && rc == 0 && !blocks->is_full)
		return blocks;
	if (blocks && rc == 0)
		err_set(err, -ENOSPC, "there is no room for all blocks");
	blocks_free(blocks);
	return NULL;
}

void blocks_free(struct blocks *blocks)
{
	if (!blocks)
		return;
	if (blocks->chain)
		munmap(blocks->chain, ((size_t)blocks->chains + 1) * sizeof(*blocks->chain));
	if (blocks->rows_fd >= 0)
		close(blocks->rows_fd);
	if (blocks->chains_fd >= 0)
		close(blocks->chains_fd);
	if (blocks->columns_fd >= 0)
		close(blocks->columns_fd);
	pthread_mutex_destroy(&blocks->lock);
	free(blocks->zones);
	free(blocks->tids);
	free(blocks);
}

const struct block_chain *blocks_chain(const struct blocks *blocks, uint32_t chain)
{
	return blocks->chain ? &blocks->chain[chain] : NULL;
}

int blocks_is_full(const struct blocks *blocks)
{
	return blocks->is_full;
}

uint64_t blocks_disk(const struct blocks *blocks)
{
	return blocks->end + blocks->rows / BLOCK_PAGE * BLOCK_PAGE_BYTES;
}

int blocks_scan(const struct blocks *blocks,
		int (*each)(void *ctx, const struct block_row *rows, size_t count), void *ctx,
		struct err *err)
{
	struct block_row *rows = malloc(BLOCK_PAGE * sizeof(*rows));
	unsigned char *scratch = malloc(BLOCK_PACKED_MAX);
	struct block_zone zone;
	int rc = rows && scratch ? 0 : err_set(err, -ENOMEM, "cannot read the blocks");
	for (uint64_t page = 0; page * BLOCK_PAGE < blocks->rows && rc == 0; page++) {
		size_t count = blocks_page(blocks, page, &zone);
		rc = block_unpack(blocks->rows_fd, &zone.packing, count, rows, scratch, err);
		if (rc == 0)
			rc = each(ctx, rows, count);
	}
	free(rows);
	free(scratch);
	return rc;
}

int blocks_read(const struct blocks *blocks, uint64_t at, struct block_row *row, struct err *err)
{
	struct block_zone zone;
	size_t count = blocks_page(blocks, at / BLOCK_PAGE, &zone);
	return block_unpack_one(blocks->rows_fd, &zone.packing, count, at % BLOCK_PAGE, row, err);
}

void blocks_descriptors(const struct blocks *blocks, int descriptors[2])
{
	descriptors[0] = blocks->rows_fd;
	descriptors[1] = -1; /* the chains are mapped */
}

/* ---- selections ------------------------------------------------------------------------------ */

static int resolve_time(const struct query *q, const struct query_time *time,
			const struct prof *names, uint64_t *ns, struct err *err)
{
	return q->times_inside ? query_time_resolve_inside(time, names, time == &q->at, ns, err)
			       : query_time_resolve(time, names, ns, err);
}

int block_filter_init(struct block_filter *f, const struct query *q, const struct prof *names,
		      struct err *err)
{
	struct prof_totals totals;
	int rc = 0;
	prof_totals(names, &totals);
	*f = (struct block_filter){
		.to_ns = UINT64_MAX,
		.at_ns = UINT64_MAX,
		.min_size = q->min_size,
		.max_size = q->has_max_size ? q->max_size : UINT64_MAX,
		.lifetime_min_ns = q->has_lifetime_min ? q->lifetime_min_ns : 0,
		.lifetime_max_ns = q->has_lifetime_max ? q->lifetime_max_ns : UINT64_MAX,
		.end_ns = totals.runtime_ns,
		.leaked = q->leaked,
		.has_thread = q->has_thread,
		.tid = q->thread,
		.address_from = q->address_from,
		.address_to = q->has_address ? q->address_to : UINT64_MAX,
		.has_at = q->at.kind != QUERY_TIME_NONE,
	};
	if (q->from.kind)
		rc = resolve_time(q, &q->from, names, &f->from_ns, err);
	/* the end as a bound excludes nothing */
	if (rc == 0 && q->to.kind && q->to.kind != QUERY_TIME_END)
		rc = resolve_time(q, &q->to, names, &f->to_ns, err);
	if (rc == 0 && q->at.kind == QUERY_TIME_END)
		f->at_ns = UINT64_MAX - 1;
	else if (rc == 0 && q->at.kind)
		rc = resolve_time(q, &q->at, names, &f->at_ns, err);
	if (rc == 0 && q->function_regex) {
		f->stacks = query_mask(names, q->function_regex, 0, err);
		rc = f->stacks ? 0 : err->code;
	}
	if (rc == 0 && q->module)
		rc = module_stacks(names, q->module, &f->stacks, err);
	if (rc == 0 && q->has_stack)
		rc = one_stack(names, q->stack, &f->stacks, err);
	if (rc < 0)
		block_filter_fini(f);
	return rc;
}

void block_filter_fini(struct block_filter *f)
{
	free(f->stacks);
	f->stacks = NULL;
}
