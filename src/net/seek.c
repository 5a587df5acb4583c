/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seek.c - the way back into a sealed stream: look at places of it until a chunk authenticates.
 *
 * The peer decides how many places, nonces and gaps there are. So everything that is done here is
 * paid from budgets of the connection that gaps do not fill (struct net_seek_limit), and every loop
 * can be left and taken up again, for connections share a thread by slices.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn_internal.h"

/*
 * Nanoseconds, measured with libsodium 1.0.18: 312 for a body of 16 bytes, 687 for 1,000, 21,130
 * for 65,000.
 */
#define COST_TRY 300u
#define COST_TRY_BYTES 3u /* and one for so many bytes */
#define COST_PLACE 100u
#define COST_NONCE 300u
#define NONCES_AT_ONCE 128u
/* of the budget: for places that nothing speaks for; and what trying all nonces leaves */
#define WEAK_SHARE 4u
#define WAITING_MAX \
	4096u /* unlikely places that wait for their bytes; likely ones: NET_BOUNDARIES more */

const struct net_seek_limit net_seek_live = { .burst = 77u * 1000000u, .per_second = 13000000u };

enum look { LOOK_NO, LOOK_FOUND, LOOK_WAITS, LOOK_PAUSED };

/** A place that may be the start of a chunk. */
struct place {
	/* stream offsets; end: what must be there to go on */
	uint64_t at, end;
	/* a system call began here, or a chunk ended here if its length can be trusted */
	int likely;
};

struct seek {
	/* every place below this stream offset was ruled out, waits or is the one at hand */
	uint64_t tried;
	/* where the next chunk begins if only the last one was damaged */
	uint64_t chain;
	/* how many chunks may be missing */
	uint64_t nonces;
	/* the gap's length is known: few nonces, so any place may be tried with all */
	int every_byte;
	/* the slice ended, not the work */
	int busy;
	struct net_starts *starts;
	/* still to be made */
	uint32_t starts_left;
	/* struct place[]: those that need bytes which have not come yet */
	struct buf waiting;
	/* lowest stream end at which one of them can be tried */
	uint64_t wakes;
	/* they are gone through: [0, pass_out) and [pass_in, end) are left */
	int passing;
	size_t pass_in, pass_out;
	/* the place at hand, and how far the look at it came */
	int active, stage;
	struct place now;
	uint64_t cursor, nonce;
};

void seek_free(struct seek *seek)
{
	if (!seek)
		return;
	net_starts_free(seek->starts);
	buf_fini(&seek->waiting);
	free(seek);
}

size_t seek_bytes(const struct seek *seek)
{
	return seek ? sizeof(*seek) + net_starts_bytes(seek->starts) + seek->waiting.cap : 0;
}

int seek_busy(const struct net_half *half)
{
	return half->state == HALF_SEEK && half->seek->busy;
}

/* ---- budgets --------------------------------------------------------------------------------- */

static uint64_t less(uint64_t from, uint64_t what)
{
	return from > what ? from - what : 0;
}

static uint64_t more(uint64_t to, uint64_t what, uint64_t most)
{
	return to >= most || what >= most - to ? most : to + what;
}

static void spend(struct net_conn *conn, uint64_t *budget, uint64_t cost)
{
	*budget = less(*budget, cost);
	conn->slice_left = less(conn->slice_left, cost);
	conn->seek_spent += cost;
}

void seek_grant(struct net_conn *conn, uint64_t time_ns, size_t bytes)
{
	const struct net_seek_limit *limit = conn->seek_limit;
	uint64_t passed = less(time_ns, conn->seek_paid_ns);
	conn->seek_paid_ns = time_ns;
	if (!conn->seek_began)
		return;
	double given = (double)limit->per_second * (double)passed / 1e9 +
		       (double)limit->per_byte * (double)bytes;
	uint64_t whole = given < (double)limit->burst ? (uint64_t)given : limit->burst;
	conn->seek_left = more(conn->seek_left, whole, limit->burst);
	conn->seek_weak_left =
		more(conn->seek_weak_left, whole / WEAK_SHARE, limit->burst / WEAK_SHARE);
}

void seek_slice(struct net_conn *conn)
{
	const struct net_seek_limit *limit = conn->seek_limit;
	conn->slice_left = UINT64_MAX;
	if (limit->slice)
		conn->slice_left =
			limit->turn && *limit->turn < limit->slice ? *limit->turn : limit->slice;
	conn->slice_from = conn->seek_spent;
}

void seek_slice_end(struct net_conn *conn)
{
	const struct net_seek_limit *limit = conn->seek_limit;
	if (limit->turn)
		*limit->turn = less(*limit->turn, conn->seek_spent - conn->slice_from);
}

/* The first search of the connection: its burst. */
static void take_burst(struct net_conn *conn)
{
	const struct net_seek_limit *limit = conn->seek_limit;
	uint64_t share = limit->burst / WEAK_SHARE, all = limit->burst + share;
	if (conn->seek_began)
		return;
	conn->seek_began = 1;
	if (limit->bursts) {
		all = *limit->bursts < all ? *limit->bursts : all;
		*limit->bursts -= all;
	}
	conn->seek_weak_left = all / (WEAK_SHARE + 1);
	conn->seek_left = all - conn->seek_weak_left;
}

/* ---- one place ------------------------------------------------------------------------------- */

static uint64_t try_cost(size_t body)
{
	return COST_TRY + body / COST_TRY_BYTES;
}

/* Authenticate with the nonce @missed places ahead, at the cost of @budget where it is in vain. */
static int attempt(struct net_conn *conn, struct net_half *half, const uint8_t *p, size_t body,
		   uint64_t missed, uint64_t *budget)
{
	uint8_t nonce[NET_NONCE_BYTES];
	memcpy(nonce, half->nonce, sizeof(nonce));
	net_nonce_add(nonce, missed);
	int rc = half_open(conn, nonce, p, 2 + body);
	if (rc == -ENOMEM)
		return rc;
	if (rc == 0)
		return LOOK_FOUND;
	spend(conn, budget, try_cost(body));
	return LOOK_NO;
}

/*
 * Trying all nonces is what costs most: it leaves a share for places that read like a message's
 * start.
 */
static int affords_all(const struct net_conn *conn, const struct seek *s, size_t body)
{
	if (s->now.likely)
		return conn->seek_left >= conn->seek_limit->burst / WEAK_SHARE + try_cost(body);
	return s->every_byte && conn->seek_weak_left >= try_cost(body);
}

/*
 * Does @p read like the start of a message? One that fills its chunk is no accident; longer ones
 * are tried while the budget for unlikely places lasts. With @p short of the whole chunk: worth
 * waiting for?
 */
static int look_for_start(struct net_conn *conn, struct net_half *half, const uint8_t *p,
			  size_t body, int whole, uint64_t *missed)
{
	struct seek *s = half->seek;
	struct net_start start;
	while (net_starts_next(s->starts, p + 2 + NET_AUTH_BYTES, &s->cursor, &start)) {
		int fills = start.size + 4u == body - NET_AUTH_BYTES;
		uint64_t *budget = fills ? &conn->seek_left : &conn->seek_weak_left;
		if (start.missed >= s->nonces || *budget < try_cost(body))
			continue;
		if (!whole)
			return LOOK_WAITS;
		int rc = attempt(conn, half, p, body, start.missed, budget);
		*missed = start.missed;
		if (rc)
			return rc;
		if (!conn->slice_left)
			return LOOK_PAUSED;
	}
	return LOOK_NO;
}

static int look_at_all(struct net_conn *conn, struct net_half *half, const uint8_t *p, size_t body,
		       uint64_t *missed)
{
	struct seek *s = half->seek;
	while (s->nonce < s->nonces && affords_all(conn, s, body)) {
		*missed = s->nonce++;
		int rc = attempt(conn, half, p, body, *missed,
				 s->now.likely ? &conn->seek_left : &conn->seek_weak_left);
		if (rc)
			return rc;
		if (!conn->slice_left)
			return LOOK_PAUSED;
	}
	return LOOK_NO;
}

/*
 * The place at hand: as the start of a message, and, where that is affordable, as any chunk. enum
 * look or negative errno.
 */
static int look(struct net_conn *conn, struct net_half *half, uint64_t *missed)
{
	struct seek *s = half->seek;
	struct place *now = &s->now;
	const uint8_t *p = half_bytes(half) + (now->at - half->pending_offset);
	size_t have = half_len(half) - (size_t)(now->at - half->pending_offset);
	now->end = now->at + 2;
	if (have < 2)
		return LOOK_WAITS;
	size_t body = (size_t)p[0] << 8 | p[1];
	size_t chunk = 2 + body, head = 2 + NET_AUTH_BYTES + NET_START_BYTES;
	int begins = chunk >= head, whole = have >= chunk;
	if (s->stage == 0) {
		if (now->at == s->chain && body)
			s->chain = now->at + chunk;
		if (body < NET_AUTH_BYTES || conn->seek_left < COST_PLACE)
			return LOOK_NO;
		int any = affords_all(conn, s, body);
		now->end = now->at + (any || whole ? chunk : head);
		if (now->at + have < now->end)
			return any || begins ? LOOK_WAITS : LOOK_NO;
		spend(conn, &conn->seek_left, COST_PLACE);
		s->cursor = s->nonce = 0;
		s->stage = begins ? 1 : 2;
	}
	now->end = now->at + chunk;
	if (s->stage == 1) {
		int rc = look_for_start(conn, half, p, body, whole, missed);
		if (rc)
			return rc;
		s->stage = 2;
	}
	return whole ? look_at_all(conn, half, p, body, missed) : LOOK_NO;
}

/* ---- which place is next --------------------------------------------------------------------- */

static struct place *waiting(struct seek *s)
{
	return (struct place *)s->waiting.data;
}

static size_t waiting_count(const struct seek *s)
{
	return s->waiting.len / sizeof(struct place);
}

/* The place at hand cannot be judged yet. */
static int put_off(struct seek *s)
{
	size_t most = s->now.likely ? WAITING_MAX + NET_BOUNDARIES : WAITING_MAX;
	if (waiting_count(s) >= most)
		return 0;
	buf_put(&s->waiting, &s->now, sizeof(s->now));
	if (s->now.end < s->wakes)
		s->wakes = s->now.end;
	return buf_failed(&s->waiting) ? -ENOMEM : 0;
}

static void begin_place(struct seek *s, struct place place)
{
	s->now = place;
	s->active = 1;
	s->stage = 0;
}

/* One of those whose bytes have come. */
static int next_waiting(struct net_conn *conn, struct seek *s, uint64_t stream_end)
{
	if (!s->passing) {
		if (stream_end < s->wakes)
			return 0;
		s->passing = 1;
		s->pass_in = s->pass_out = 0;
		s->wakes = UINT64_MAX;
		/* going through them costs, too */
		spend(conn, &conn->seek_left, waiting_count(s));
	}
	while (s->pass_in < waiting_count(s)) {
		struct place place = waiting(s)[s->pass_in++];
		if (place.end <= stream_end) {
			begin_place(s, place);
			return 1;
		}
		if (place.end < s->wakes)
			s->wakes = place.end;
		waiting(s)[s->pass_out++] = place;
	}
	s->waiting.len = s->pass_out * sizeof(struct place);
	s->passing = 0;
	return 0;
}

static int next_place(struct net_conn *conn, const struct net_half *half, uint64_t stream_end)
{
	struct seek *s = half->seek;
	if (next_waiting(conn, s, stream_end))
		return 1;
	if (s->tried >= stream_end)
		return 0;
	uint64_t at = s->tried++;
	begin_place(s, (struct place){ at, 0, at == s->chain || half_is_boundary(half, at) });
	return 1;
}

/* Nothing before this stream offset can be a chunk any more. */
static uint64_t lowest(const struct net_half *half)
{
	struct seek *s = half->seek;
	uint64_t first = s->active && s->now.at < s->tried ? s->now.at : s->tried;
	size_t count = waiting_count(s);
	for (size_t i = 0; i < count; i++) {
		if (s->passing && i == s->pass_out && i < s->pass_in)
			i = s->pass_in;
		if (i < count && waiting(s)[i].at < first)
			first = waiting(s)[i].at;
	}
	return first;
}

/* ---- the search ------------------------------------------------------------------------------ */

static uint64_t stream_end_of(const struct net_half *half)
{
	return half->pending_offset + half_len(half);
}

int seek_begin(struct net_conn *conn, struct net_half *half, uint64_t nonces, int every_byte,
	       struct err *err)
{
	struct seek *s = calloc(1, sizeof(*s));
	take_burst(conn);
	uint64_t most = conn->hurries ? 0 : conn->seek_left / 2 / COST_NONCE;
	if (s)
		s->starts = net_starts_new(half->nonce, nonces < most ? nonces : most);
	if (!s || !s->starts) {
		free(s);
		return err_set(err, -ENOMEM, "cannot allocate memory to find the way back");
	}
	s->starts_left = net_starts_make(s->starts, conn->key, 0);
	s->nonces = nonces;
	s->every_byte = every_byte;
	s->tried = s->chain = half->pending_offset;
	s->wakes = UINT64_MAX;
	seek_free(half->seek);
	half->seek = s;
	half->state = HALF_SEEK;
	half->unplaced = 1;
	return 0;
}

int seek_again(struct net_conn *conn, struct net_half *half, struct err *err)
{
	return seek_begin(conn, half, half->seek->nonces, half->seek->every_byte, err);
}

int seek_gap(struct net_conn *conn, struct net_half *half, uint64_t lost, struct err *err)
{
	int rc = build_gap(conn, half, half->pending_time_ns, "bytes were lost inside the message",
			   err);
	if (rc >= 0 && half->state != HALF_RAW) {
		/* what stands before the gap can not be completed any more */
		rc = half_flush_raw(conn, half, err);
	}
	half->pending_offset += lost;
	if (half->state == HALF_OPEN || half->state == HALF_SEEK) {
		uint64_t nonces = lost ? lost / (2 + NET_AUTH_BYTES) + 2 : NET_SEEK_NONCES;
		if (half->state == HALF_SEEK)
			nonces += half->seek->nonces;
		if (rc >= 0)
			rc = seek_begin(conn, half, nonces, lost != 0, err);
	} else if (half->state == HALF_SEALED) {
		/* without a key no place in the stream can be proven */
		half->state = HALF_RAW;
	}
	return rc;
}

/* 1 = all nonces are ready. */
static int make_starts(struct net_conn *conn, struct seek *s)
{
	while (s->starts_left && conn->slice_left) {
		uint32_t n = s->starts_left < NONCES_AT_ONCE ? s->starts_left : NONCES_AT_ONCE;
		s->starts_left = net_starts_make(s->starts, conn->key, n);
		spend(conn, &conn->seek_left, n * COST_NONCE);
	}
	return !s->starts_left;
}

static int found(struct net_conn *conn, struct net_half *half, uint64_t missed, struct err *err)
{
	uint64_t at = half->seek->now.at;
	int rc = half_flush_front(conn, half, (size_t)(at - half->pending_offset), err);
	if (rc < 0)
		return rc;
	if (missed)
		conn_comment(conn, "%s message lack chunks, at: %llu", conn_half_word(half),
			     (unsigned long long)half->counter);
	half->counter += missed;
	net_nonce_add(half->nonce, missed);
	half->state = HALF_OPEN;
	conn->row.resyncs[half->sender]++;
	seek_free(half->seek);
	half->seek = NULL;
	const uint8_t *p = half_bytes(half);
	rc = half_take(conn, half, 2u + ((size_t)p[0] << 8 | p[1]), err);
	return rc < 0 ? rc : 1;
}

/* Pass over all that came; nothing of it is looked at any more. */
static int give_up(struct net_conn *conn, struct net_half *half, struct err *err)
{
	struct seek *s = half->seek;
	s->tried = s->chain = stream_end_of(half);
	s->waiting.len = 0;
	s->wakes = UINT64_MAX;
	s->busy = s->active = s->passing = 0;
	return half_flush_raw(conn, half, err);
}

int seek_run(struct net_conn *conn, struct net_half *half, struct err *err)
{
	struct seek *s = half->seek;
	uint64_t stream_end = stream_end_of(half), missed = 0;
	if (conn->hurries)
		return give_up(conn, half, err);
	s->busy = !make_starts(conn, s);
	if (!s->busy && conn->seek_left < waiting_count(s))
		s->waiting.len = 0, s->passing = 0, s->wakes = UINT64_MAX;
	while (!s->busy) {
		if (!conn->slice_left) {
			s->busy = 1;
			break;
		}
		if (!s->active && !next_place(conn, half, stream_end))
			break;
		int rc = look(conn, half, &missed);
		if (rc == LOOK_FOUND)
			return found(conn, half, missed, err);
		s->busy = rc == LOOK_PAUSED;
		s->active = s->busy;
		if (rc == LOOK_WAITS)
			rc = put_off(s);
		if (rc < 0)
			return err_set(err, rc, "cannot allocate memory to find the way back");
	}
	/* what lies before the first place that may be a chunk is none: keep it raw */
	return half_flush_front(conn, half, (size_t)(lowest(half) - half->pending_offset), err);
}

int seek_end(struct net_conn *conn, struct net_half *half, struct err *err)
{
	int rc = 0;
	while (rc >= 0 && half->state == HALF_OPEN && half_len(half) > 2) {
		rc = build_gap(conn, half, half->pending_time_ns,
			       "the chunk that would complete the message never came", err);
		if (rc >= 0)
			rc = seek_begin(conn, half, NET_SEEK_NONCES, 0, err);
		if (rc >= 0)
			rc = half_run(conn, half, err);
	}
	return rc;
}
