/* SPDX-License-Identifier: Apache-2.0 */
/*
 * half.c - one direction: cut length-prefixed chunks and open them; seek.c finds the way back after
 * a gap.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "net/conn_internal.h"

void half_fini(struct net_half *half)
{
	buf_fini(&half->pending);
	buf_fini(&half->message);
	seek_free(half->seek);
	half->seek = NULL;
	free(half->boundaries);
	half->boundaries = NULL;
	for (int i = 0; i < 2; i++)
		buf_fini(&half->held[i].plain);
}

static void remember_boundary(struct net_half *half)
{
	if (half->state != HALF_OPEN && half->state != HALF_SEEK)
		return;
	if (!half->boundaries)
		half->boundaries = malloc(NET_BOUNDARIES * sizeof(*half->boundaries));
	if (!half->boundaries)
		return; /* places are found without them, later */
	if (half->boundary_count == NET_BOUNDARIES) {
		half->boundary_first = (half->boundary_first + 1) % NET_BOUNDARIES;
		half->boundary_count--;
	}
	half->boundaries[(half->boundary_first + half->boundary_count++) % NET_BOUNDARIES] =
		half->pending_offset + half_len(half);
}

int half_append(struct net_half *half, const void *bytes, size_t len, uint64_t time_ns)
{
	if (half->start == half->pending.len) {
		buf_clear(&half->pending);
		half->start = 0;
	} else if (half->start > (64u << 10)) {
		memmove(half->pending.data, half_bytes(half), half_len(half));
		half->pending.len -= half->start;
		half->start = 0;
	}
	remember_boundary(half);
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

int half_flush_front(struct net_conn *conn, struct net_half *half, size_t len, struct err *err)
{
	if (!len)
		return 0;
	int rc = report(conn, half, MESSAGE_NO_COUNTER, half_bytes(half), len, NULL, 0, err);
	consume(half, len);
	return rc;
}

int half_flush_raw(struct net_conn *conn, struct net_half *half, struct err *err)
{
	return half_flush_front(conn, half, half_len(half), err);
}

int half_take(struct net_conn *conn, struct net_half *half, size_t len, struct err *err)
{
	uint64_t counter = half->counter++;
	conn_proved(conn);
	net_nonce_add(half->nonce, 1);
	const uint8_t *plain = (const uint8_t *)conn->plain->data;
	int rc = report(conn, half, counter, half_bytes(half), len, plain, conn->plain->len, err);
	consume(half, len);
	if (rc >= 0)
		rc = build_plain(conn, half, counter, half->pending_time_ns, plain,
				 conn->plain->len, err);
	return rc;
}

int half_open(struct net_conn *conn, const uint8_t nonce[NET_NONCE_BYTES], const uint8_t *chunk,
	      size_t len)
{
	buf_clear(conn->plain);
	/* one byte more, so that an empty plaintext still has an address */
	if (!buf_reserve(conn->plain, len))
		return -ENOMEM;
	int rc = net_open(conn->key, nonce, chunk + 2, len - 2, (uint8_t *)conn->plain->data);
	if (rc == 0)
		conn->plain->len = len - 2 - NET_AUTH_BYTES;
	return rc;
}

int half_is_boundary(const struct net_half *half, uint64_t offset)
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

/*
 * The next chunk of an open half. 1 = it was taken, 0 = it is not whole yet, or the half is open no
 * more.
 */
static int run_open(struct net_conn *conn, struct net_half *half, struct err *err)
{
	const uint8_t *p = half_bytes(half);
	size_t have = half_len(half);
	if (have < 2 || have < 2u + ((size_t)p[0] << 8 | p[1]))
		return 0;
	size_t len = 2u + ((size_t)p[0] << 8 | p[1]);
	if (half->state == HALF_SEALED) {
		int rc = report(conn, half, half->counter++, p, len, NULL, 0, err);
		consume(half, len);
		return rc < 0 ? rc : 1;
	}
	int opened = half_open(conn, half->nonce, p, len);
	if (opened == 0) {
		int rc = half_take(conn, half, len, err);
		return rc < 0 ? rc : 1;
	}
	if (opened == -ENOMEM)
		return err_set(err, -ENOMEM, "cannot allocate memory for a chunk");
	/*
	 * Kept as it is; whether one chunk was damaged or bytes are missing unseen, the search
	 * tells.
	 */
	conn_comment(conn, "%s chunk cannot decrypt, position: %llu", conn_half_word(half),
		     (unsigned long long)half->counter);
	conn->row.undecrypted[half->sender]++;
	int rc = build_gap(conn, half, half->pending_time_ns,
			   "a chunk of the message could not be decrypted", err);
	if (rc >= 0)
		rc = seek_begin(conn, half, NET_SEEK_NONCES, 0, err);
	return rc < 0 ? rc : 1;
}

int half_run(struct net_conn *conn, struct net_half *half, struct err *err)
{
	int rc = 1;
	while (rc > 0) {
		if (half->state == HALF_RAW)
			return half_flush_raw(conn, half, err);
		if (half->state == HALF_SEEK)
			rc = seek_run(conn, half, err);
		else if (half->state == HALF_OPEN || half->state == HALF_SEALED)
			rc = run_open(conn, half, err);
		else
			return 0;
	}
	return rc;
}
