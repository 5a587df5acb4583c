/* SPDX-License-Identifier: Apache-2.0 */
/* half.c - one direction: cut length-prefixed chunks, open them, and find the way back after a gap. */
#include <errno.h>
#include <string.h>

#include "net/conn_internal.h"

#define CHUNK_MAX (2u + 65535u)

void half_fini(struct net_half *half)
{
	buf_fini(&half->pending);
	buf_fini(&half->message);
	buf_fini(&half->seek_waiting);
	net_starts_free(half->seek_starts);
	for (int i = 0; i < 2; i++)
		buf_fini(&half->held[i].plain);
}

static const uint8_t *pending_at(const struct net_half *half)
{
	return (const uint8_t *)half->pending.data + half->start;
}

static size_t pending_len(const struct net_half *half)
{
	return half->pending.len - half->start;
}

int half_append(struct net_half *half, const void *bytes, size_t len, uint64_t time_ns)
{
	if (half->start == half->pending.len) {
		buf_clear(&half->pending);
		half->start = 0;
	} else if (half->start > (64u << 10)) {
		memmove(half->pending.data, pending_at(half), pending_len(half));
		half->pending.len -= half->start;
		half->start = 0;
	}
	if (half->boundary_count == NET_BOUNDARIES) {
		half->boundary_first = (half->boundary_first + 1) % NET_BOUNDARIES;
		half->boundary_count--;
	}
	half->boundaries[(half->boundary_first + half->boundary_count++) % NET_BOUNDARIES] =
		half->pending_offset + pending_len(half);
	half->pending_time_ns = time_ns;
	buf_put(&half->pending, bytes, len);
	return buf_failed(&half->pending) ? -ENOMEM : 0;
}

static void consume(struct net_half *half, size_t len)
{
	half->start += len;
	half->pending_offset += len;
}

static int report(struct net_conn *conn, struct net_half *half, uint64_t counter,
		  const uint8_t *raw, size_t raw_len, const uint8_t *plain, size_t plain_len,
		  struct err *err)
{
	if (counter != MESSAGE_NO_COUNTER) {
		conn->row.chunks[half->sender]++;
		if (!plain && counter)
			conn->row.undecrypted[half->sender]++;
	}
	struct message_chunk chunk = { .connection = conn->row.id,
				       .counter = counter,
				       .sender = half->sender,
				       .time_ns = half->pending_time_ns,
				       .raw = raw,
				       .raw_len = raw_len,
				       .plain = plain,
				       .plain_len = plain_len };
	return conn->sink->chunk(conn->sink, &chunk, err);
}

static int flush_raw(struct net_conn *conn, struct net_half *half, size_t len, struct err *err)
{
	if (!len)
		return 0;
	int rc = report(conn, half, MESSAGE_NO_COUNTER, pending_at(half), len, NULL, 0, err);
	consume(half, len);
	return rc;
}

int half_flush_raw(struct net_conn *conn, struct net_half *half, struct err *err)
{
	return flush_raw(conn, half, pending_len(half), err);
}

/* The chunk of @len bytes at the front is good: hand it over with its plaintext in conn->plain. */
static int take_open(struct net_conn *conn, struct net_half *half, size_t len, struct err *err)
{
	uint64_t counter = half->counter++;
	net_nonce_add(half->nonce, 1);
	const uint8_t *plain = (const uint8_t *)conn->plain.data;
	int rc = report(conn, half, counter, pending_at(half), len, plain, conn->plain.len, err);
	consume(half, len);
	if (rc >= 0)
		rc = build_plain(conn, half, counter, half->pending_time_ns, plain, conn->plain.len,
				 err);
	return rc;
}

static int try_open(struct net_conn *conn, const uint8_t nonce[NET_NONCE_BYTES],
		    const uint8_t *chunk, size_t len)
{
	buf_clear(&conn->plain);
	/* one byte more, so that an empty plaintext still has an address */
	if (!buf_reserve(&conn->plain, len))
		return -ENOMEM;
	int rc = net_open(conn->key, nonce, chunk + 2, len - 2, (uint8_t *)conn->plain.data);
	if (rc == 0)
		conn->plain.len = len - 2 - NET_AUTH_BYTES;
	return rc;
}

/* 1 = a system call of the sender began at this stream offset. */
static int is_boundary(const struct net_half *half, uint64_t offset)
{
	unsigned low = 0, high = half->boundary_count;
	while (low < high) {
		unsigned mid = (low + high) / 2;
		uint64_t at = half->boundaries[(half->boundary_first + mid) % NET_BOUNDARIES];
		if (at == offset)
			return 1;
		if (at < offset)
			low = mid + 1;
		else
			high = mid;
	}
	return 0;
}

/* Authenticate with the nonce @missed places ahead, at the cost of @budget where it is in vain. 1 = it is a chunk. */
static int seek_try(struct net_conn *conn, struct net_half *half, const uint8_t *p, size_t body,
		    uint64_t missed, uint64_t *budget)
{
	uint8_t nonce[NET_NONCE_BYTES];
	memcpy(nonce, half->nonce, sizeof(nonce));
	net_nonce_add(nonce, missed);
	int rc = try_open(conn, nonce, p, 2 + body);
	if (rc == -ENOMEM)
		return rc;
	*budget -= rc == 0 || *budget < body ? 0 : body;
	return rc == 0;
}

/*
 * Does @p read like the start of a message? One that fills its chunk is no accident; longer ones are tried while the
 * budget for unlikely places lasts. As seek_at(); with @p short of the whole chunk, 2 = worth waiting for.
 */
static int seek_start(struct net_conn *conn, struct net_half *half, const uint8_t *p, size_t body,
		      int whole, uint64_t *missed)
{
	struct net_start start;
	uint64_t cursor = 0;
	while (net_starts_next(half->seek_starts, p + 2 + NET_AUTH_BYTES, &cursor, &start)) {
		int fills = start.size + 4u == body - NET_AUTH_BYTES;
		if (start.missed >= half->seek_nonces || (!fills && half->seek_weak_budget < body))
			continue;
		if (!whole)
			return 2;
		int rc = seek_try(conn, half, p, body, start.missed,
				  fills ? &half->seek_budget : &half->seek_weak_budget);
		*missed = start.missed;
		if (rc)
			return rc;
	}
	return 0;
}

/*
 * Try the place at stream offset @at: as the start of a message, and, where that is affordable, as any chunk. @likely:
 * something speaks for it. 1 found, 0 ruled out, 2 = needs the bytes up to *@end, negative errno.
 */
static int seek_at(struct net_conn *conn, struct net_half *half, uint64_t at, int likely,
		   uint64_t *end, uint64_t *missed)
{
	size_t skip = (size_t)(at - half->pending_offset);
	const uint8_t *p = pending_at(half) + skip;
	size_t have = pending_len(half) - skip;
	*end = at + 2;
	if (have < 2)
		return 2;
	size_t body = (size_t)p[0] << 8 | p[1];
	if (at == half->seek_chain && body)
		half->seek_chain = at + 2 + body;
	if (body < NET_AUTH_BYTES)
		return 0;
	uint64_t *budget = likely ? &half->seek_budget : &half->seek_weak_budget;
	size_t chunk = 2 + body, head = 2 + NET_AUTH_BYTES + NET_START_BYTES;
	int any = (likely || half->seek_every_byte) && *budget >= body, rc = 0;
	int begins = chunk >= head, whole = have >= chunk;
	*end = at + (any || whole ? chunk : head);
	if (at + have < *end)
		return any || begins ? 2 : 0;
	if (begins)
		rc = seek_start(conn, half, p, body, whole, missed);
	*end = at + chunk;
	if (rc || !whole)
		return rc;
	for (uint64_t n = 0; any && n < half->seek_nonces && *budget >= body; n++) {
		rc = seek_try(conn, half, p, body, n, budget);
		*missed = n;
		if (rc)
			return rc;
	}
	return 0;
}

static int seek_wait(struct net_half *half, uint64_t at, uint64_t end, int likely)
{
	struct seek_candidate candidate = { at, end, likely };
	buf_put(&half->seek_waiting, &candidate, sizeof(candidate));
	if (end < half->seek_wakes)
		half->seek_wakes = end;
	return buf_failed(&half->seek_waiting) ? -ENOMEM : 0;
}

/* Try the candidates whose bytes have come; those ruled out leave the list. */
static int seek_retry(struct net_conn *conn, struct net_half *half, uint64_t stream_end,
		      uint64_t *at, uint64_t *missed)
{
	struct seek_candidate *list = (struct seek_candidate *)half->seek_waiting.data;
	size_t count = half->seek_waiting.len / sizeof(*list), kept = 0;
	int found = 0;
	half->seek_wakes = UINT64_MAX;
	for (size_t i = 0; i < count && found >= 0; i++) {
		struct seek_candidate candidate = list[i];
		if (!found && candidate.end <= stream_end) {
			int rc = seek_at(conn, half, candidate.at, candidate.likely, &candidate.end,
					 missed);
			if (rc == 1)
				*at = candidate.at;
			if (rc != 2) {
				found = rc;
				continue;
			}
		}
		if (candidate.end < half->seek_wakes)
			half->seek_wakes = candidate.end;
		list[kept++] = candidate;
	}
	half->seek_waiting.len = kept * sizeof(*list);
	return found;
}

static int seek_new(struct net_conn *conn, struct net_half *half, uint64_t stream_end, uint64_t *at,
		    uint64_t *missed)
{
	for (; half->seek_tried < stream_end; half->seek_tried++) {
		uint64_t here = half->seek_tried, end;
		int likely = here == half->seek_chain || is_boundary(half, here);
		int rc = seek_at(conn, half, here, likely, &end, missed);
		if (rc == 2)
			rc = seek_wait(half, here, end, likely);
		if (rc < 0)
			return rc;
		if (rc == 1) {
			*at = here;
			return 1;
		}
	}
	return 0;
}

static int seek_begin(struct net_conn *conn, struct net_half *half, uint64_t nonces, int every_byte,
		      struct err *err)
{
	/* what is spent on nonces grows with the bytes that came, however many gaps there are */
	uint64_t known = nonces < conn->starts_left ? nonces : conn->starts_left;
	net_starts_free(half->seek_starts);
	half->seek_starts = net_starts_new(conn->key, half->nonce, known);
	if (!half->seek_starts)
		return err_set(err, -ENOMEM, "cannot allocate memory to find the way back");
	conn->starts_left -= known < NET_STARTS_MAX ? known : NET_STARTS_MAX;
	half->state = HALF_SEEK;
	half->seek_nonces = nonces;
	half->seek_every_byte = every_byte;
	half->seek_tried = half->seek_chain = half->pending_offset;
	half->seek_budget = conn->seek_budget;
	half->seek_weak_budget = conn->seek_budget / 8;
	half->seek_wakes = UINT64_MAX;
	half->seek_waiting.len = 0;
	half->unplaced = 1;
	return 0;
}

int half_seek(struct net_conn *conn, struct net_half *half, uint64_t lost, struct err *err)
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
			nonces += half->seek_nonces;
		if (rc >= 0)
			rc = seek_begin(conn, half, nonces, lost != 0, err);
	} else if (half->state == HALF_SEALED) {
		/* without a key no place in the stream can be proven */
		half->state = HALF_RAW;
	}
	return rc;
}

static int run_seek(struct net_conn *conn, struct net_half *half, struct err *err)
{
	uint64_t stream_end = half->pending_offset + pending_len(half), at = 0, missed = 0;
	int rc = stream_end >= half->seek_wakes ? seek_retry(conn, half, stream_end, &at, &missed)
						: 0;
	if (rc == 0)
		rc = seek_new(conn, half, stream_end, &at, &missed);
	if (rc < 0)
		return err_set(err, rc, "cannot allocate memory to find the way back");
	if (rc == 1) {
		rc = flush_raw(conn, half, (size_t)(at - half->pending_offset), err);
		if (rc < 0)
			return rc;
		if (missed)
			conn_comment(conn, "%s message lack chunks, at: %llu", conn_half_word(half),
				     (unsigned long long)half->counter);
		half->counter += missed;
		net_nonce_add(half->nonce, missed);
		half->state = HALF_OPEN;
		conn->row.resyncs[half->sender]++;
		net_starts_free(half->seek_starts);
		half->seek_starts = NULL;
		rc = take_open(conn, half,
			       2u + ((size_t)pending_at(half)[0] << 8 | pending_at(half)[1]), err);
		return rc < 0 ? rc : half_run(conn, half, err);
	}
	/* What lies before the first waiting candidate is no chunk: keep it raw. */
	const struct seek_candidate *list = (const struct seek_candidate *)half->seek_waiting.data;
	uint64_t first = half->seek_waiting.len ? list[0].at : stream_end;
	for (size_t i = 1; i < half->seek_waiting.len / sizeof(*list); i++) {
		if (list[i].at < first)
			first = list[i].at;
	}
	return flush_raw(conn, half, (size_t)(first - half->pending_offset), err);
}

int half_run(struct net_conn *conn, struct net_half *half, struct err *err)
{
	int rc = 0;
	if (half->state == HALF_RAW)
		return half_flush_raw(conn, half, err);
	if (half->state == HALF_SEEK)
		return run_seek(conn, half, err);
	while (rc >= 0 && (half->state == HALF_OPEN || half->state == HALF_SEALED)) {
		const uint8_t *p = pending_at(half);
		size_t have = pending_len(half);
		if (have < 2)
			break;
		size_t len = 2u + ((size_t)p[0] << 8 | p[1]);
		if (have < len)
			break;
		if (half->state == HALF_SEALED) {
			rc = report(conn, half, half->counter++, p, len, NULL, 0, err);
			consume(half, len);
			continue;
		}
		int opened = try_open(conn, half->nonce, p, len);
		if (opened == 0) {
			rc = take_open(conn, half, len, err);
			continue;
		}
		if (opened == -ENOMEM)
			return err_set(err, -ENOMEM, "cannot allocate memory for a chunk");
		/* Kept as it is; whether one chunk was damaged or bytes are missing unseen, the search tells. */
		conn_comment(conn, "%s chunk cannot decrypt, position: %llu", conn_half_word(half),
			     (unsigned long long)half->counter);
		conn->row.undecrypted[half->sender]++;
		rc = build_gap(conn, half, half->pending_time_ns,
			       "a chunk of the message could not be decrypted", err);
		if (rc >= 0)
			rc = seek_begin(conn, half, NET_SEEK_NONCES, 0, err);
		if (rc >= 0)
			rc = run_seek(conn, half, err);
	}
	return rc;
}

int half_settle(struct net_conn *conn, struct net_half *half, struct err *err)
{
	int rc = 0;
	while (rc >= 0 && half->state == HALF_OPEN && pending_len(half) > 2) {
		rc = build_gap(conn, half, half->pending_time_ns,
			       "the chunk that would complete the message never came", err);
		if (rc >= 0)
			rc = seek_begin(conn, half, NET_SEEK_NONCES, 0, err);
		if (rc >= 0)
			rc = run_seek(conn, half, err);
	}
	return rc;
}
