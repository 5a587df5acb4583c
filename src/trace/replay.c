/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replay.c - everything in recorded order into a sink, with damage skipped, counted and made up
 * for.
 */
#include "trace/replay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trace/defs.h"
#include "trace/ending.h"

#define PROGRESS_STEP (1u << 20)

/* The numbers of one kind that were defined. */
struct known {
	uint8_t *bits;
	/* multiple of 8 */
	uint32_t count;
};

struct replay {
	struct trace_reader *reader;
	struct sink *sink;
	struct known threads, modules, frames, stacks;
	/* of threads and modules, whose rows are large */
	uint64_t id_limit, heavy_limit;
	/* what the sink returned when it failed: that is no damage, whatever its number */
	int sink_rc;
};

static int sink_define(struct replay *p, const struct def *def, struct err *err)
{
	return p->sink_rc = p->sink->define(p->sink, def, err);
}

static int is_known(const struct known *known, uint32_t id)
{
	return id < known->count && known->bits[id / 8] >> (id % 8) & 1;
}

static int mark_known(struct replay *p, struct known *known, uint32_t id, struct err *err)
{
	if (id >= known->count) {
		/*
		 * Numbers are dense, and each costs bytes in the file: a wild one is not worth its
		 * memory.
		 */
		int heavy = known == &p->threads || known == &p->modules;
		if (id >= (heavy ? p->heavy_limit : p->id_limit))
			return err_set(err, -EBADMSG, "a definition is numbered %u", id);
		uint32_t count = known->count ? known->count : 1024;
		while (count <= id)
			count *= 2;
		uint8_t *bits = realloc(known->bits, count / 8);
		if (!bits)
			return err_set(err, -ENOMEM, "cannot hold %u definitions", count);
		memset(bits + known->count / 8, 0, (count - known->count) / 8);
		known->bits = bits;
		known->count = count;
	}
	known->bits[id / 8] |= (uint8_t)(1u << (id % 8));
	return 0;
}

static int hand_on(struct replay *p, struct known *known, const struct def *def, struct err *err)
{
	int rc = mark_known(p, known, def->id, err);
	return rc < 0 ? rc : sink_define(p, def, err);
}

/* What names a thing whose definition is missing gets one that says so. */
static int need_thread(struct replay *p, uint32_t id, struct err *err)
{
	if (is_known(&p->threads, id))
		return 0;
	struct def def = { .kind = DEF_THREAD, .id = id };
	return hand_on(p, &p->threads, &def, err);
}

static int need_frame(struct replay *p, uint32_t id, struct err *err)
{
	if (is_known(&p->frames, id))
		return 0;
	struct def def = { .kind = DEF_FRAME, .id = id };
	return hand_on(p, &p->frames, &def, err);
}

static int need_stack(struct replay *p, uint32_t id, struct err *err)
{
	if (!id || is_known(&p->stacks, id))
		return 0;
	struct def def = { .kind = DEF_STACK, .id = id, .stack = { .stop = STACK_STOP_DAMAGED } };
	return hand_on(p, &p->stacks, &def, err);
}

static int take_def(void *ctx, const struct def *def, struct err *err)
{
	struct replay *p = ctx;
	struct def fixed = *def;
	int rc = 0;
	switch (def->kind) {
	case DEF_PROCESS:
		return sink_define(p, def, err);
	case DEF_THREAD:
		return hand_on(p, &p->threads, def, err);
	case DEF_MODULE:
		return hand_on(p, &p->modules, def, err);
	case DEF_FRAME:
		if (def->frame.module.v && !is_known(&p->modules, def->frame.module.v))
			fixed.frame.module.v = 0;
		return hand_on(p, &p->frames, &fixed, err);
	case DEF_STACK:
		if (!def->id)
			return 0; /* the root needs no definition */
		if (def->stack.parent.v >= def->id)
			return err_set(err, -EBADMSG, "a stack is its own caller");
		rc = need_stack(p, def->stack.parent.v, err);
		if (rc >= 0 && !def->stack.stop)
			rc = need_frame(p, def->stack.frame.v, err);
		return rc < 0 ? rc : hand_on(p, &p->stacks, def, err);
	case DEF_SYMBOL:
		rc = need_frame(p, def->id, err);
		return rc < 0 ? rc : sink_define(p, def, err);
	case DEF_RULE:
		return sink_define(p, def, err);
	}
	return 0;
}

static int take_events(void *ctx, struct event *events, size_t count, struct err *err)
{
	struct replay *p = ctx;
	return p->sink_rc = p->sink->put(p->sink, events, count, err);
}

static int check_stack(void *ctx, uint32_t stack, struct err *err)
{
	return need_stack(ctx, stack, err);
}

static int check_thread(void *ctx, uint32_t thread, struct err *err)
{
	return need_thread(ctx, thread, err);
}

int replay_defs(struct replay *replay, const struct blt_view *view, uint32_t rows, struct err *err)
{
	return defs_dec(view, rows, take_def, replay, err);
}

int replay_sink_failed(const struct replay *replay)
{
	return replay->sink_rc < 0;
}

int replay_block(struct replay *p, struct trace_reader *from, struct events_dec *dec, uint64_t at,
		 const struct blt_head *head, struct err *err)
{
	struct blt_view view;
	int rc = 0;
	if (head->type != BLT_DEFS && head->type != BLT_EVENTS && head->type != BLT_PENDING)
		return 0;
	rc = reader_load(from, at, head, &view);
	if (rc == -EBADMSG)
		return err_set(err, rc, "a block is damaged");
	if (rc < 0)
		return err_set(err, rc, "cannot read '%s'", from->path);
	if (head->type == BLT_PENDING)
		return events_dec_pending(dec, head, &view, err);
	if (head->type == BLT_DEFS)
		return replay_defs(p, &view, head->rows, err);
	return events_dec_block(dec, head, &view, err);
}

/*
 * All of the block's events, and of those behind it, are later than what is asked for: times never
 * go back.
 */
static int is_later(const struct trace_read_opt *opt, const struct blt_head *head)
{
	return opt && opt->has_until && head->type == BLT_EVENTS && head->time_ns > opt->until_ns;
}

/*
 * The end of a recording that was not finished: the file is whole, or damaged from the first block
 * that is not.
 */
static int replay_side(struct replay *p, struct events_dec *dec, struct err *err)
{
	struct trace_reader *side = p->reader->side;
	struct blt_head head;
	uint64_t at = BLT_FILE_HEADER;
	int rc = 1;
	for (; side && at < side->info.file_bytes; at += BLT_BLOCK_HEADER + head.stored) {
		rc = reader_head(side, at, &head);
		if (rc > 0)
			rc = replay_block(p, side, dec, at, &head, err);
		else if (rc == 0)
			rc = -EBADMSG;
		if (rc < 0)
			break;
	}
	if (p->sink_rc < 0 || (rc < 0 && rc != -EBADMSG))
		return err_set(err, rc, "cannot read '%s'", side->path);
	if (rc < 0) {
		p->reader->info.damaged_blocks++;
		err_init(err);
	}
	return 0;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one kind of block a case */
static int run(struct replay *p, struct events_dec *dec, const struct trace_read_opt *opt,
	       struct err *err)
{
	struct trace_reader *r = p->reader;
	struct trace_reader_info *info = &r->info;
	uint64_t at = BLT_FILE_HEADER, told = 0;
	int stopped = 0;
	info->damaged_blocks = (uint64_t)r->header_damaged;
	info->skipped_bytes = 0;
	info->truncated = 0;
	while (at < info->file_bytes) {
		struct blt_head head;
		int rc = reader_head(r, at, &head);
		if (rc == 0) {
			uint64_t next = info->file_bytes;
			rc = reader_resync(r, at + 1, &next);
			if (rc >= 0)
				info->skipped_bytes += next - at;
			if (rc > 0)
				info->damaged_blocks++;
			if (rc == 0)
				info->truncated = 1;
			events_dec_miss(dec);
			at = next;
		} else if (rc > 0) {
			if (opt && opt->key && head.type == BLT_EVENTS && head.flags & BLT_F_KEY &&
			    !stopped && !reader_is_replaced(r, at, &head))
				opt->key(opt->key_ctx,
					 &(struct trace_key){ at, head.first, head.time_ns });
			/*
			 * the first later one is read, since it tells what is missing before it;
			 * then none is
			 */
			rc = (stopped && head.type == BLT_EVENTS) ||
					     reader_is_replaced(r, at, &head)
				     ? 0
				     : replay_block(p, r, dec, at, &head, err);
			stopped |= (!reader_is_replaced(r, at, &head) && is_later(opt, &head)) ||
				   events_dec_stopped(dec);
			at += BLT_BLOCK_HEADER + head.stored;
			if (rc > 0)
				info->skipped_bytes += BLT_BLOCK_HEADER + head.stored;
			if (p->sink_rc < 0)
				return rc;
			if (rc == -EBADMSG) {
				info->damaged_blocks++;
				info->skipped_bytes += BLT_BLOCK_HEADER + head.stored;
				events_dec_miss(dec);
				err_init(err);
			} else if (rc < 0) {
				return rc;
			}
		}
		if (rc < 0 && rc != -EBADMSG)
			return err_set(err, rc, "cannot read '%s'", r->path);
		if (opt && opt->progress &&
		    (at - told >= PROGRESS_STEP || at == info->file_bytes)) {
			opt->progress(opt->progress_ctx, at, info->file_bytes);
			told = at;
		}
	}
	if (stopped)
		return 0;
	int rc = events_dec_end(dec, info->indexed ? &r->total : NULL, err);
	return rc < 0 ? rc : replay_side(p, dec, err);
}

void replay_fit(struct replay *p)
{
	uint64_t bytes = p->reader->info.file_bytes;
	/*
	 * Definitions take at least some bits each; the first million are granted even to the
	 * smallest file.
	 */
	p->id_limit = (1u << 20) + bytes * 8;
	if (p->id_limit > 1u << 28)
		p->id_limit = 1u << 28;
	/*
	 * a later file of a recording defines all 65,537 threads of the process, however small it
	 * is
	 */
	p->heavy_limit = (1u << 17) + bytes / 4;
	if (p->heavy_limit > 1u << 24)
		p->heavy_limit = 1u << 24;
}

struct events_dec *replay_decoder(struct replay *p, struct err *err)
{
	struct events_out out = { take_events, check_stack, check_thread, p,
				  p->reader->header.version };
	out.slots_missing_max = (uint32_t)p->id_limit;
	return events_dec_new(&out, err);
}

struct replay *replay_new(struct trace_reader *reader, struct sink *sink, struct err *err)
{
	CLEANUP(replay_freep) struct replay *p = calloc(1, sizeof(*p));
	if (!p) {
		err_set(err, -ENOMEM, "cannot read '%s'", reader->path);
		return NULL;
	}
	p->reader = reader;
	p->sink = sink;
	replay_fit(p);
	if (mark_known(p, &p->stacks, 0, err) < 0)
		return NULL;
	return STEAL(p);
}

void replay_freep(struct replay **replay)
{
	struct replay *p = *replay;
	*replay = NULL;
	if (!p)
		return;
	free(p->threads.bits);
	free(p->modules.bits);
	free(p->frames.bits);
	free(p->stacks.bits);
	free(p);
}

int trace_reader_run(struct trace_reader *reader, struct sink *sink,
		     const struct trace_read_opt *opt, struct err *err)
{
	struct err own = { 0 };
	if (!err)
		err = &own;
	struct ending ending;
	if (opt && opt->tells_end)
		sink = ending_init(&ending, sink);
	CLEANUP(replay_freep) struct replay *p = replay_new(reader, sink, err);
	struct events_dec *dec = p ? replay_decoder(p, err) : NULL;
	int rc = dec ? run(p, dec, opt, err) : -ENOMEM;
	events_dec_free(dec);
	if (rc == 0 && opt && opt->tells_end)
		rc = ending_tell(&ending, reader, opt->has_until, err);
	return rc;
}

int trace_reader_living(struct trace_reader *reader, struct sink *sink, uint64_t until_ns,
			struct trace_living *living, struct err *err)
{
	uint64_t beyond_ns = 0;
	if (living->beyond_ns && __builtin_add_overflow(until_ns, living->beyond_ns, &beyond_ns))
		beyond_ns = 0;
	const struct trace_read_opt opt = { .has_until = 1,
					    .until_ns = beyond_ns ? beyond_ns : until_ns };
	*living = (struct trace_living){ 0 };
	CLEANUP(replay_freep) struct replay *p = replay_new(reader, sink, err);
	if (!p)
		return err->code;
	struct events_out out = { .take = take_events,
				  .need_stack = check_stack,
				  .need_thread = check_thread,
				  .ctx = p,
				  .version = reader->header.version,
				  .slots_missing_max = (uint32_t)p->id_limit,
				  .living = 1,
				  .until_ns = until_ns,
				  .beyond_ns = beyond_ns };
	struct events_dec *dec = events_dec_new(&out, err);
	int rc = dec ? run(p, dec, &opt, err) : -ENOMEM;
	if (rc == 0)
		events_dec_living(dec, living);
	events_dec_free(dec);
	return rc == -ENOMEM ? err_set(err, rc, "cannot hold the live blocks") : rc;
}

struct span {
	struct sink *sink;
	/* what it returned */
	int rc;
};

static int span_take(void *ctx, struct event *events, size_t count, struct err *err)
{
	struct span *span = ctx;
	return span->rc = span->sink->put(span->sink, events, count, err);
}

static int span_need(void *ctx, uint32_t id, struct err *err)
{
	(void)ctx, (void)id, (void)err; /* who asks for a span knows the definitions already */
	return 0;
}

int trace_reader_from(const struct trace_reader *r, const struct trace_key *key, uint64_t until,
		      const struct trace_seed *seeds, size_t count, struct sink *sink,
		      struct err *err)
{
	struct err own = { 0 };
	if (!err)
		err = &own;
	/* what reading changes is its own: other threads may read, too */
	struct trace_reader own_reader = { .path = r->path,
					   .fd = r->fd,
					   .zdec = zblock_dec_new(err),
					   .header = r->header,
					   .info = r->info,
					   .side = r->side,
					   .side_from = r->side_from };
	if (!own_reader.zdec)
		return -ENOMEM;
	struct span span = { .sink = sink };
	const struct events_out out = { span_take, span_need,         span_need,
					&span,     r->header.version, EVENTS_BLOCK_MAX };
	struct events_dec *dec = events_dec_new(&out, err);
	int rc = dec ? events_dec_resume(dec, seeds, count) : -ENOMEM;
	if (rc < 0)
		err_set(err, rc, "cannot read a part of '%s'", r->path);
	int first = 1;
	for (uint64_t at = key->at; rc >= 0 && at < r->info.file_bytes && (!until || at < until);) {
		struct blt_head head;
		struct blt_view view;
		rc = reader_head(&own_reader, at, &head);
		if (rc == 0)
			rc = -EBADMSG;
		if (rc > 0 && first &&
		    (head.type != BLT_EVENTS || !(head.flags & BLT_F_KEY) ||
		     head.first != key->first))
			rc = -EBADMSG;
		first = 0;
		if (rc > 0 && head.type == BLT_EVENTS && !reader_is_replaced(r, at, &head)) {
			rc = reader_load(&own_reader, at, &head, &view);
			if (rc >= 0)
				rc = events_dec_block(dec, &head, &view, err);
			if (rc > 0)
				rc = -EBADMSG;
		}
		if (span.rc < 0)
			rc = span.rc;
		else if (rc < 0)
			err_set(err, rc, "cannot read a part of '%s'", r->path);
		at += BLT_BLOCK_HEADER + head.stored;
	}
	events_dec_free(dec);
	buf_fini(&own_reader.payload);
	buf_fini(&own_reader.scratch);
	blt_flows_fini(&own_reader.flows);
	zblock_dec_free(own_reader.zdec);
	return rc < 0 ? rc : 0;
}

int replay_all_defs(struct trace_reader *r, struct sink *sink, struct err *err)
{
	CLEANUP(replay_freep) struct replay *p = replay_new(r, sink, err);
	if (!p)
		return -ENOMEM;
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes;) {
		struct blt_head head;
		struct blt_view view;
		int rc = reader_head(r, at, &head);
		if (rc == 0) {
			rc = reader_resync(r, at + 1, &at);
			if (rc == 0)
				break;
		} else if (rc > 0) {
			rc = head.type == BLT_DEFS ? reader_load(r, at, &head, &view) : 1;
			if (rc == 0)
				rc = replay_defs(p, &view, head.rows, err);
			at += BLT_BLOCK_HEADER + head.stored;
		}
		if (p->sink_rc < 0)
			return p->sink_rc;
		if (rc < 0 && rc != -EBADMSG)
			return err_set(err, rc, "cannot read '%s'", r->path);
	}
	if (err)
		err_init(err);
	return 0;
}
