/* SPDX-License-Identifier: Apache-2.0 */
/*
 * events.h - events as columns of an EVENTS block. Private to trace/; docs/format.md is normative.
 */
#ifndef TRACE_EVENTS_H
#define TRACE_EVENTS_H

#include "model/event.h"
#include "model/instant.h"
#include "trace/block.h"

#define EVENTS_ROWS_MAX 65536
#define EVENTS_BLOCK_MAX (1u << 28) /* block numbers */

/** struct events_tally - running sums over everything encoded or decoded so far. */
struct events_tally {
	/* frees: the foreign ones too */
	uint64_t events, allocations, bytes, frees;
	/* of the frees: those that nobody saw, which some EVENT_LOST has spoken of */
	uint64_t implied;
	/*
	 * what EVENT_LOST (of blocks) and EVENT_CULLED speak of, in this order: allocations, bytes,
	 * frees
	 */
	uint64_t spoken[3];
};
#define EVENTS_UNTOLD UINT64_MAX /* implied, of files that say neither that nor what is behind it */

/** events_tally_fill() - what @tally does not tell has not changed since @seen. */
static inline void events_tally_fill(struct events_tally *tally, const struct events_tally *seen)
{
	if (tally->implied != EVENTS_UNTOLD)
		return;
	tally->implied = seen->implied;
	for (unsigned i = 0; i < 3; i++)
		tally->spoken[i] = seen->spoken[i];
}
void events_tally_speak(struct events_tally *tally, const struct event *event);

/**
 * struct events_told - sums of events that speak of others which are not there; their events: how
 * many spoke.
 */
struct events_told {
	struct events_tally lost[LOSS_REASON_MAX], culled, filtered, filtered_inherited;
};
void events_told_add(struct events_told *told, const struct event *event);

struct events_enc;
struct events_enc *events_enc_new(struct err *err);
void events_enc_free(struct events_enc *enc);
/**
 * events_enc_add() - take events until the block is full; *@taken says how many. Return: 0; 1 if
 * the block is full now (the caller packs it and calls events_enc_clear()); -EINVAL for an event
 * that breaks a rule of event.h (a free of a dead block, an allocation of a live one, time going
 * back); -ENOMEM.
 */
int events_enc_add(struct events_enc *enc, const struct event *events, size_t count, size_t *taken,
		   struct err *err);
uint32_t events_enc_rows(const struct events_enc *enc);
/**
 * events_enc_block() - complete the columns; fills type, flags, rows, first and time_ns of @head.
 */
struct blt_cols *events_enc_block(struct events_enc *enc, struct blt_head *head);
/**
 * events_enc_clear() - begin the next block. @kept: 0 if the finished one was not written: its rows
 * don't count, and from then on only events that are neither alloc nor free are taken.
 * @key_next: 1 = it shall be a key block, from which a reader can go on after damage.
 */
void events_enc_clear(struct events_enc *enc, int kept, int key_next);
/**
 * events_enc_tally() - of all blocks that were kept; @open: of the block under construction. Either
 * may be NULL.
 */
void events_enc_tally(const struct events_enc *enc, struct events_tally *kept,
		      struct events_tally *open);
/** events_enc_told() - by the block under construction; lent until it is cleared. */
const struct events_told *events_enc_told(const struct events_enc *enc);
/**
 * events_enc_slots() - how many blocks the coding keeps state for; what a key block costs grows
 * with it.
 */
uint32_t events_enc_slots(const struct events_enc *enc);
uint64_t events_enc_last_time(const struct events_enc *enc);
/**
 * events_enc_slot() - by which number a reader of what was coded so far knows the live block
 * @number; UINT32_MAX: none.
 */
uint32_t events_enc_slot(const struct events_enc *enc, uint32_t number);

/**
 * struct events_out - where decoded events go. Negative returns end the decoding and are handed on.
 */
struct events_out {
	int (*take)(void *ctx, struct event *events, size_t count, struct err *err);
	/*
	 * called before an event names a stack or thread for the first time since a key block;
	 * cheap for known ones
	 */
	int (*need_stack)(void *ctx, uint32_t stack, struct err *err);
	int (*need_thread)(void *ctx, uint32_t thread, struct err *err);
	void *ctx;
	/* of the file */
	uint32_t version;
	/* how many live blocks may be missing after damage */
	uint32_t slots_missing_max;
	/*
	 * 1: only what lives after all events up to @until_ns is asked for: allocations and frees
	 * are not handed on
	 */
	int living;
	uint64_t until_ns;
	/*
	 * living: events up to that are read on for the bytes they come to, and taken back in the
	 * end; 0: none
	 */
	uint64_t beyond_ns;
};

struct trace_seed;
struct trace_living;
struct events_dec;
struct events_dec *events_dec_new(const struct events_out *out, struct err *err);
void events_dec_free(struct events_dec *dec);
/**
 * events_dec_block() - decode a block and hand its events on in batches. Where events before a key
 * block are missing, an EVENT_LOST tells how many first; blocks whose free is among them are freed
 * then. Return: 0; 1 if the block was skipped because it builds on missing ones; -EBADMSG where the
 * columns break a rule (what came before is handed on), -ENOMEM, -E2BIG, or a negative code from
 * @out.
 */
int events_dec_block(struct events_dec *dec, const struct blt_head *head,
		     const struct blt_view *view, struct err *err);
/**
 * events_dec_pending() - decode a PENDING block: events behind all that was decoded. Return: as
 * events_dec_block().
 */
int events_dec_pending(struct events_dec *dec, const struct blt_head *head,
		       const struct blt_view *view, struct err *err);
/**
 * events_dec_stopped() - out.living: an event later than out.until_ns was met; no more blocks may
 * be decoded.
 */
int events_dec_stopped(const struct events_dec *dec);
/**
 * events_dec_living() - out.living: the blocks that live now. The decoder has none afterwards:
 * nothing more may be decoded.
 */
void events_dec_living(struct events_dec *dec, struct trace_living *living);
/**
 * events_dec_resume() - of a new one: the first block is a key block in the middle of a recording,
 * with these blocks alive. 0, -ENOMEM, -EBADMSG.
 */
int events_dec_resume(struct events_dec *dec, const struct trace_seed *seeds, size_t count);
/**
 * events_dec_miss() - something of the recording is damaged: what follows may speak of events that
 * are missing.
 */
void events_dec_miss(struct events_dec *dec);
/**
 * events_dec_end() - no more blocks come: tell how many events are missing up to where the sums are
 * @total, or where nobody says that (NULL), up to the last block that was passed over.
 */
int events_dec_end(struct events_dec *dec, const struct events_tally *total, struct err *err);
/** events_col_name() - what column @id of an EVENTS block holds; NULL for none. */
const char *events_col_name(unsigned id);

#endif
