/* SPDX-License-Identifier: Apache-2.0 */
/* The way back into a sealed stream, at the budget of live recording: random chunks, cuts and pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <sodium.h>

#include "base/buf.h"
#include "net/conn.h"
#include "net/seal.h"
#include "net/starts.h"

#define MESSAGES_MAX 4096

struct fixture {
	struct net_identity *identity;
	struct net_keyring keyring;
	struct net_key *key;
	/* of initiator and responder */
	struct buf hello[2];
	uint8_t nonce[NET_NONCE_BYTES];
	/* what the initiator sends behind its connection message: chunk @i fills [start[i], start[i + 1]) */
	struct buf stream;
	size_t start[MESSAGES_MAX + 1], count;
	struct message_sink sink;
	uint8_t decoded[MESSAGES_MAX];
	uint64_t seed;
};

static uint64_t any(struct fixture *f, uint64_t below)
{
	f->seed ^= f->seed << 13;
	f->seed ^= f->seed >> 7;
	f->seed ^= f->seed << 17;
	return f->seed % below;
}

static int on_connection(struct message_sink *sink, const struct message_connection *c,
			 struct err *err)
{
	(void)sink, (void)c, (void)err;
	return 0;
}

static int on_chunk(struct message_sink *sink, const struct message_chunk *chunk, struct err *err)
{
	(void)sink, (void)chunk, (void)err;
	return 0;
}

/* A message's first bytes are its number. */
static int on_message(struct message_sink *sink, const struct message *message, struct err *err)
{
	struct fixture *f = (void *)((char *)sink - offsetof(struct fixture, sink));
	(void)err;
	if (message->sender != 0 || message->plain_len < 10 || message->first_chunk < 3)
		return 0;
	uint32_t number;
	memcpy(&number, message->plain + 6, sizeof(number));
	if (number < MESSAGES_MAX)
		f->decoded[number] = 1;
	return 0;
}

static void read_hellos(struct fixture *f)
{
	char path[512], *line = NULL;
	size_t cap = 0;
	snprintf(path, sizeof(path), "%s/captures/octez-outgoing/stream.jsonl",
		 getenv("TEZOS_VECTORS"));
	FILE *file = fopen(path, "re");
	assert_non_null(file);
	for (int i = 0; i < 3 && getline(&line, &cap, file) > 0; i++) {
		json_t *record = json_loads(line, 0, NULL);
		assert_non_null(record);
		const char *hex = json_string_value(json_object_get(record, "hex")),
			   *from = json_string_value(json_object_get(record, "from"));
		struct buf *to = &f->hello[strcmp(from, "responder") == 0];
		uint8_t bytes[512];
		size_t len = 0;
		assert_int_equal(
			sodium_hex2bin(bytes, sizeof(bytes), hex, strlen(hex), NULL, &len, NULL),
			0);
		buf_put(to, bytes, len);
		json_decref(record);
	}
	free(line);
	fclose(file);
}

static void setup(struct fixture *f, uint64_t seed)
{
	struct err err = { 0 };
	char path[512];
	uint8_t other[NET_NONCE_BYTES];
	memset(f, 0, sizeof(*f));
	f->seed = seed;
	f->sink = (struct message_sink){ on_connection, on_chunk, on_message };
	assert_int_equal(net_seal_init(&err), 0);
	snprintf(path, sizeof(path), "%s/identities/drone-1.json", getenv("TEZOS_VECTORS"));
	f->identity = net_identity_load(path, &err);
	assert_non_null(f->identity);
	f->keyring.identities = &f->identity;
	f->keyring.count = 1;
	read_hellos(f);
	f->key = net_key_new(f->identity, (const uint8_t *)f->hello[1].data + 4);
	assert_non_null(f->key);
	net_start_nonces((const uint8_t *)f->hello[0].data, f->hello[0].len,
			 (const uint8_t *)f->hello[1].data, f->hello[1].len, f->nonce, other);
}

static void teardown(struct fixture *f)
{
	net_key_free(f->key);
	net_identity_free(f->identity);
	for (int i = 0; i < 2; i++)
		buf_fini(&f->hello[i]);
	buf_fini(&f->stream);
}

static void seal(struct fixture *f, const uint8_t *plain, size_t len)
{
	static uint8_t chunk[2 + 65535];
	chunk[0] = (uint8_t)((len + NET_AUTH_BYTES) >> 8);
	chunk[1] = (uint8_t)(len + NET_AUTH_BYTES);
	assert_int_equal(
		crypto_box_easy_afternm(chunk + 2, plain, len, f->nonce, net_key_peek(f->key)), 0);
	net_nonce_add(f->nonce, 1);
	buf_put(&f->stream, chunk, 2 + NET_AUTH_BYTES + len);
	f->start[++f->count] = f->stream.len;
}

/* A message of @len bytes with its number in front: an operation's body is read by nobody here. */
static void add_message(struct fixture *f, size_t len)
{
	static uint8_t plain[65535 - NET_AUTH_BYTES];
	uint32_t number = (uint32_t)f->count;
	assert_true(len >= 10 && len <= sizeof(plain));
	for (size_t i = 0; i < len; i++)
		plain[i] = (uint8_t)any(f, 256);
	plain[0] = plain[1] = 0;
	plain[2] = (uint8_t)((len - 4) >> 8);
	plain[3] = (uint8_t)(len - 4);
	plain[4] = 0;
	plain[5] = 0x31;
	memcpy(plain + 6, &number, sizeof(number));
	seal(f, plain, len);
}

static void make_stream(struct fixture *f, size_t messages, size_t smallest, size_t largest)
{
	static const uint8_t metadata[2], ack[1];
	seal(f, metadata, sizeof(metadata));
	seal(f, ack, sizeof(ack));
	while (messages--)
		add_message(f, smallest + any(f, largest - smallest + 1));
}

static void feed(struct net_conn *conn, int from_initiator, const void *bytes, size_t len)
{
	struct err err = { 0 };
	if (net_conn_feed(conn, from_initiator, 1, bytes, len, &err) < 0)
		fail_msg("%s", err.msg);
}

/* All but [@from, @from + @lost), in pieces of @piece bytes that heed no chunk; @told = the length of the gap is known. */
static void play(struct fixture *f, size_t from, size_t lost, size_t piece, int told)
{
	struct err err = { 0 };
	struct net_conn_opt opt = {
		.id = 1, .role = NET_ROLE_INITIATOR, .keyring = &f->keyring, .sink = &f->sink
	};
	struct net_conn *conn = net_conn_new(&opt, &err);
	assert_non_null(conn);
	memset(f->decoded, 0, sizeof(f->decoded));
	feed(conn, 1, f->hello[0].data, f->hello[0].len);
	feed(conn, 0, f->hello[1].data, f->hello[1].len);
	for (size_t at = 0; at < f->stream.len;) {
		size_t end = at < from ? from : f->stream.len,
		       len = end - at < piece ? end - at : piece;
		if (at == from) {
			assert_true(net_conn_gap(conn, 1, 1, told ? lost : 0, &err) >= 0);
			at += lost;
			continue;
		}
		feed(conn, 1, f->stream.data + at, len);
		at += len;
	}
	assert_true(net_conn_close(conn, 1, "end", &err) >= 0);
}

/* Every message whose chunk lies on one side of the gap was decoded. */
static void judge(const struct fixture *f, size_t from, size_t lost)
{
	for (size_t i = 2; i < f->count; i++) {
		if (f->start[i + 1] <= from || f->start[i] >= from + lost) {
			if (!f->decoded[i])
				fail_msg("message %zu of %zu was not decoded: [%zu, %zu), lost %zu "
					 "at %zu",
					 i, f->count, f->start[i], f->start[i + 1], lost, from);
		}
	}
}

static void the_first_message_behind_a_gap_is_found_wherever_it_begins(void **state)
{
	static const struct {
		size_t lost, smallest, largest, piece;
	} cases[] = {
		{ 1448, 20000, 40000, 4096 },   { 16384, 5000, 30000, 8192 },
		{ 16384, 12000, 60000, 1448 },  { 1448, 100, 65000, 65483 },
		{ 40, 100, 300, 1000 },         { 200000, 100, 3000, 32768 },
		{ 1000000, 100, 60000, 16384 },
	};
	static struct fixture f;
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		setup(&f, 88172645463325252ull + i);
		size_t mean = (cases[i].smallest + cases[i].largest) / 2,
		       messages = (cases[i].lost + 400000) / mean + 20;
		make_stream(&f, messages < MESSAGES_MAX - 2 ? messages : MESSAGES_MAX - 2,
			    cases[i].smallest, cases[i].largest);
		for (int round = 0; round < 4; round++) {
			size_t from = f.start[4] + any(&f, f.start[6] - f.start[4]);
			assert_true(from + cases[i].lost < f.start[f.count - 3]);
			play(&f, from, cases[i].lost, cases[i].piece, round & 1);
			judge(&f, from, cases[i].lost);
		}
		teardown(&f);
	}
}

static void nonces_that_fit_a_place_are_told_nearest_first_and_completely(void **state)
{
	static struct fixture f;
	(void)state;
	setup(&f, 7);
	uint8_t first[NET_NONCE_BYTES];
	memcpy(first, f.nonce, sizeof(first));
	make_stream(&f, 1000, 10, 200);
	struct net_starts *starts = net_starts_new(first, f.count);
	assert_non_null(starts);
	assert_int_equal(net_starts_make(starts, f.key, 100), f.count - 100);
	assert_int_equal(net_starts_make(starts, f.key, UINT32_MAX), 0);
	for (size_t i = 2; i < f.count; i++) {
		const uint8_t *chunk = (const uint8_t *)f.stream.data + f.start[i];
		struct net_start start;
		uint64_t cursor = 0;
		int found = 0;
		while (net_starts_next(starts, chunk + 2 + NET_AUTH_BYTES, &cursor, &start)) {
			if (start.missed == i) {
				assert_int_equal(start.size + 4,
						 f.start[i + 1] - f.start[i] - 2 - NET_AUTH_BYTES);
				found++;
			}
		}
		assert_int_equal(found, 1);
	}
	net_starts_free(starts);
	teardown(&f);
}

/*
 * What a hostile peer sends, @bytes of it: a chunk that authenticates nowhere, then one that does after as many nonces as
 * are tried at most, over and over.
 */
static void make_storm(struct fixture *f, size_t bytes)
{
	static const uint8_t nothing[18] = { 0, 16 };
	make_stream(f, 0, 0, 0);
	while (f->stream.len < bytes) {
		buf_put(&f->stream, nothing, sizeof(nothing));
		net_nonce_add(f->nonce, 2498);
		seal(f, NULL, 0);
		f->count = 0;
	}
}

static struct net_conn *storm_conn(struct fixture *f, const struct net_seek_limit *limit)
{
	struct err err = { 0 };
	struct net_conn_opt opt = {
		.role = NET_ROLE_INITIATOR, .keyring = &f->keyring, .seek = limit, .sink = &f->sink
	};
	struct net_conn *conn = net_conn_new(&opt, &err);
	assert_non_null(conn);
	feed(conn, 1, f->hello[0].data, f->hello[0].len);
	feed(conn, 0, f->hello[1].data, f->hello[1].len);
	return conn;
}

/* The dearest single step: all of a chunk. */
#define STEP_MAX 40000u

static void who_makes_us_search_again_and_again_pays_from_one_budget(void **state)
{
	static struct fixture f;
	struct err err = { 0 };
	uint64_t bursts = 1500000;
	const struct net_seek_limit paid = { .burst = 1000000, .per_second = 2000000 },
				    shared = { .burst = 1000000, .bursts = &bursts };
	(void)state;
	setup(&f, 11);
	make_storm(&f, 65536);
	/* the default: an eighth of a second in all, however many gaps there are */
	struct net_conn *conn = storm_conn(&f, NULL);
	for (size_t at = 0; at < f.stream.len; at += 4096) {
		size_t len = f.stream.len - at < 4096 ? f.stream.len - at : 4096;
		feed(conn, 1, f.stream.data + at, len);
	}
	assert_true(net_conn_spent(conn) > 1000000);
	assert_true(net_conn_spent(conn) <= net_seek_live.burst * 5 / 4 + STEP_MAX);
	for (int i = 0; i < 100; i++)
		assert_true(net_conn_gap(conn, 1, 1, 100, &err) >= 0);
	assert_true(net_conn_close(conn, 1, "end", &err) >= 0);

	/* what time gives anew is that much, and the burst at most */
	conn = storm_conn(&f, &paid);
	feed(conn, 1, f.stream.data, f.stream.len);
	uint64_t spent = net_conn_spent(conn);
	assert_true(spent <= 1250000 + STEP_MAX);
	assert_true(net_conn_feed(conn, 1, 250000001, f.stream.data, f.stream.len, &err) >= 0);
	assert_true(net_conn_spent(conn) - spent <= 625000 + STEP_MAX);
	spent = net_conn_spent(conn);
	assert_true(net_conn_feed(conn, 1, 3600000000000, f.stream.data, f.stream.len, &err) >= 0);
	assert_true(net_conn_spent(conn) - spent <= 1250000 + STEP_MAX);
	net_conn_free(conn);

	/* of many connections, all share what there is for bursts */
	spent = 0;
	for (int i = 0; i < 4; i++) {
		conn = storm_conn(&f, &shared);
		feed(conn, 1, f.stream.data, f.stream.len);
		spent += net_conn_spent(conn);
		net_conn_free(conn);
	}
	assert_true(spent > 1000000 && spent <= 1500000 + 4 * STEP_MAX);
	assert_int_equal(bursts, 0);
	teardown(&f);
}

static void searches_go_by_slices_and_find_the_same(void **state)
{
	static struct fixture f;
	struct err err = { 0 };
	uint64_t turn = 0;
	const struct net_seek_limit sliced = { .burst = 77000000, .slice = 50000, .turn = &turn };
	(void)state;
	setup(&f, 12);
	make_stream(&f, 60, 5000, 30000);
	size_t from = f.start[5] + 77, lost = 16384;
	struct net_conn *conn = storm_conn(&f, &sliced);
	feed(conn, 1, f.stream.data, from);
	assert_true(net_conn_gap(conn, 1, 1, 0, &err) >= 0);
	size_t works = 0;
	for (size_t at = from + lost, piece = 5000; at < f.stream.len; at += piece) {
		piece = f.stream.len - at < piece ? f.stream.len - at : piece;
		uint64_t before = net_conn_spent(conn);
		feed(conn, 1, f.stream.data + at, piece);
		/* the turn is over: nothing more is spent before it is filled */
		assert_true(net_conn_spent(conn) - before <= STEP_MAX);
		while (net_conn_busy(conn)) {
			turn = works % 3 ? 1000000 : 20000;
			before = net_conn_spent(conn);
			assert_int_equal(net_conn_work(conn, &err), 0);
			assert_true(net_conn_spent(conn) - before <=
				    (works % 3 ? 50000 : 20000) + STEP_MAX);
			assert_true(++works < 100000);
		}
		turn = 0;
	}
	assert_true(works > 10);
	assert_true(net_conn_close(conn, 1, "end", &err) >= 0);
	judge(&f, from, lost);
	teardown(&f);
}

static void in_a_hurry_nothing_is_searched_and_later_it_is_again(void **state)
{
	static struct fixture f;
	struct err err = { 0 };
	uint64_t turn = 0;
	const struct net_seek_limit sliced = { .burst = 77000000, .slice = 50000, .turn = &turn };
	(void)state;
	setup(&f, 13);
	make_stream(&f, 60, 5000, 30000);
	struct net_conn *conn = storm_conn(&f, &sliced);
	size_t half = f.start[30];
	feed(conn, 1, f.stream.data, f.start[5] + 10);
	assert_true(net_conn_gap(conn, 1, 1, 0, &err) >= 0);
	feed(conn, 1, f.stream.data + f.start[6] + 99, 5000);
	assert_true(net_conn_busy(conn));
	assert_int_equal(net_conn_hurry(conn, 1, &err), 0);
	uint64_t spent = net_conn_spent(conn);
	feed(conn, 1, f.stream.data + f.start[6] + 5099, half - f.start[6] - 5099);
	assert_int_equal(net_conn_spent(conn), spent);
	assert_false(net_conn_busy(conn));
	assert_false(f.decoded[20]);
	assert_int_equal(net_conn_hurry(conn, 0, &err), 0);
	feed(conn, 1, f.stream.data + half, f.stream.len - half);
	while (net_conn_busy(conn)) {
		turn = 1000000;
		assert_int_equal(net_conn_work(conn, &err), 0);
	}
	for (size_t i = 30; i < f.count; i++)
		assert_true(f.decoded[i]);
	assert_true(net_conn_close(conn, 1, "end", &err) >= 0);
	teardown(&f);
}

/* What came of each message: how long it was when it was reported. */
static size_t reported[8], reported_count;

static int on_long_message(struct message_sink *sink, const struct message *message,
			   struct err *err)
{
	(void)sink, (void)err;
	if (message->sender == 0 && message->first_chunk >= 3) {
		assert_true(reported_count < 8);
		reported[reported_count++] = message->plain_len;
	}
	return 0;
}

/* A message of @len bytes over as many chunks as it needs, but for its last @missing bytes. */
static void add_long_message(struct fixture *f, size_t len, size_t missing)
{
	uint8_t *plain = calloc(1, len);
	size_t most = 65535 - NET_AUTH_BYTES;
	assert_non_null(plain);
	for (int i = 0; i < 4; i++)
		plain[i] = (uint8_t)((len - 4) >> (24 - 8 * i));
	plain[5] = 0x31;
	for (size_t at = 0; at < len - missing; at += most)
		seal(f, plain + at, len - missing - at < most ? len - missing - at : most);
	free(plain);
}

static struct net_conn *start_conn(struct fixture *f, struct net_budget *budget)
{
	struct err err = { 0 };
	struct net_conn_opt opt = { .id = 1,
				    .role = NET_ROLE_INITIATOR,
				    .keyring = &f->keyring,
				    .budget = budget,
				    .sink = &f->sink };
	struct net_conn *conn = net_conn_new(&opt, &err);
	assert_non_null(conn);
	reported_count = 0;
	feed(conn, 1, f->hello[0].data, f->hello[0].len);
	feed(conn, 0, f->hello[1].data, f->hello[1].len);
	return conn;
}

static void long_messages_share_a_budget_and_short_ones_need_none(void **state)
{
	static struct fixture f;
	const size_t two = 2 << 20, own = NET_MESSAGE_OWN;
	struct net_budget budget = { 0 };
	struct err err = { 0 };
	(void)state;
	setup(&f, 9);
	f.sink.message = on_long_message;
	make_stream(&f, 0, 0, 0);
	add_long_message(&f, two, 0);
	add_long_message(&f, own, 0);
	size_t before_last = f.stream.len;
	add_long_message(&f, two, 1000);

	struct net_conn *conn = start_conn(&f, &budget);
	feed(conn, 1, f.stream.data, before_last);
	assert_int_equal(reported_count, 2);
	assert_int_equal(reported[0], two);
	assert_int_equal(reported[1], own);
	assert_int_equal(budget.used, 0);
	feed(conn, 1, f.stream.data + before_last, f.stream.len - before_last);
	assert_int_equal(budget.used, two - 1000 - own);
	assert_true(net_conn_close(conn, 1, "end", &err) >= 0);
	assert_int_equal(budget.used, 0);

	/* other connections hold all of it: the long one ends where its own share does, the next is whole */
	budget.used = NET_BUDGET_BYTES;
	conn = start_conn(&f, &budget);
	feed(conn, 1, f.stream.data, before_last);
	assert_int_equal(reported_count, 2);
	assert_true(reported[0] <= own && reported[0] > own - 65536);
	assert_int_equal(reported[1], own);
	assert_int_equal(budget.used, NET_BUDGET_BYTES);
	net_conn_free(conn);
	assert_int_equal(budget.used, NET_BUDGET_BYTES);
	teardown(&f);
}

/* ---- what all connections hold -------------------------------------------------------------------------------------- */

static struct {
	uint64_t raw, given_up;
	size_t hellos;
} seen;

static int count_chunk(struct message_sink *sink, const struct message_chunk *chunk,
		       struct err *err)
{
	(void)sink, (void)err;
	seen.raw += chunk->raw_len;
	return 0;
}

static int count_hello(struct message_sink *sink, const struct message *message, struct err *err)
{
	(void)sink, (void)err;
	seen.hellos += message->type == MESSAGE_CONNECTION;
	return 0;
}

static int count_given_up(struct message_sink *sink, const struct message_connection *c,
			  struct err *err)
{
	(void)sink, (void)err;
	for (size_t i = 0; c->closed_ns && i < c->comment_count; i++)
		seen.given_up += strstr(c->comments[i], "too much was held") != NULL;
	return 0;
}

static struct net_conn *budget_conn(struct fixture *f, struct net_budget *budget)
{
	struct err err = { 0 };
	struct net_conn_opt opt = { .role = NET_ROLE_RESPONDER,
				    .keyring = &f->keyring,
				    .budget = budget,
				    .sink = &f->sink };
	struct net_conn *conn = net_conn_new(&opt, &err);
	assert_non_null(conn);
	return conn;
}

static void half_handshakes_share_one_budget_and_the_oldest_give_way(void **state)
{
	enum { HALF = 100, SPOKEN = 100000, MOST = 2 << 20 };
	static struct fixture f;
	static uint8_t junk[SPOKEN];
	static struct net_conn *conns[HALF];
	struct net_budget budget = { .held_max = MOST };
	struct err err = { 0 };
	(void)state;
	setup(&f, 21);
	f.sink = (struct message_sink){ count_given_up, count_chunk, count_hello };
	memset(&seen, 0, sizeof(seen));
	/* one that has proven itself, and its next chunk is under way */
	make_stream(&f, 1, 5000, 5000);
	struct net_conn_opt opt = { .role = NET_ROLE_INITIATOR,
				    .keyring = &f.keyring,
				    .budget = &budget,
				    .sink = &f.sink };
	struct net_conn *good = net_conn_new(&opt, &err);
	feed(good, 1, f.hello[0].data, f.hello[0].len);
	feed(good, 0, f.hello[1].data, f.hello[1].len);
	feed(good, 1, f.stream.data, f.start[2] + 3000);
	uint64_t fed = f.hello[0].len + f.hello[1].len + f.start[2] + 3000;
	for (int i = 0; i < HALF; i++) {
		conns[i] = budget_conn(&f, &budget);
		feed(conns[i], 1, f.hello[1].data, f.hello[1].len);
		feed(conns[i], 1, junk, SPOKEN);
		fed += f.hello[1].len + SPOKEN;
		assert_true(budget.held <= MOST);
	}
	assert_true(seen.raw > 0);
	feed(good, 1, f.stream.data + f.start[2] + 3000, f.start[3] - f.start[2] - 3000);
	fed += f.start[3] - f.start[2] - 3000;
	assert_int_equal(net_conn_row(good)->undecrypted[0], 0);
	assert_int_equal(net_conn_row(good)->chunks[0], 4);
	assert_int_equal(net_conn_row(good)->comment_count, 0);
	/* the newest still wait for an answer */
	assert_int_equal(net_conn_row(conns[HALF - 1])->comment_count, 0);
	for (int i = 0; i < HALF; i++)
		assert_true(net_conn_close(conns[i], 1, "end", &err) >= 0);
	assert_true(net_conn_close(good, 1, "end", &err) >= 0);
	assert_true(seen.given_up >= HALF - MOST / SPOKEN && seen.given_up < HALF);
	assert_int_equal(seen.raw, fed);
	assert_int_equal(budget.held, 0);
	net_budget_fini(&budget);
	teardown(&f);
}

static void ciphertext_is_no_connection_message(void **state)
{
	static struct fixture f;
	struct err err = { 0 };
	(void)state;
	setup(&f, 22);
	f.sink = (struct message_sink){ count_given_up, count_chunk, count_hello };
	make_stream(&f, 40, 100, 400);
	for (size_t i = 0; i < 40; i++) {
		/* both sides' first chunks are of a stream that was joined in its middle */
		memset(&seen, 0, sizeof(seen));
		struct net_conn *conn = budget_conn(&f, NULL);
		feed(conn, 1, f.stream.data + f.start[i], f.start[i + 1] - f.start[i]);
		feed(conn, 0, f.stream.data + f.start[i + 1], f.start[i + 2] - f.start[i + 1]);
		assert_null(net_conn_row(conn)->remote_peer_id);
		assert_null(net_conn_row(conn)->local_peer_id);
		assert_true(net_conn_close(conn, 1, "end", &err) >= 0);
		assert_int_equal(seen.hellos, 0);
		assert_int_equal(seen.raw, f.start[i + 2] - f.start[i]);
	}
	/* one with our key is one, though it is damaged */
	memset(&seen, 0, sizeof(seen));
	struct net_conn *conn = budget_conn(&f, NULL);
	f.hello[0].data[f.hello[0].len - 5] = 1;
	/* ours is the responder here */
	feed(conn, 0, f.hello[0].data, f.hello[0].len);
	feed(conn, 1, f.hello[1].data, f.hello[1].len);
	assert_non_null(net_conn_row(conn)->remote_peer_id);
	assert_true(net_conn_close(conn, 1, "end", &err) >= 0);
	assert_int_equal(seen.hellos, 2);
	teardown(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_message_behind_a_gap_is_found_wherever_it_begins),
		cmocka_unit_test(nonces_that_fit_a_place_are_told_nearest_first_and_completely),
		cmocka_unit_test(who_makes_us_search_again_and_again_pays_from_one_budget),
		cmocka_unit_test(searches_go_by_slices_and_find_the_same),
		cmocka_unit_test(in_a_hurry_nothing_is_searched_and_later_it_is_again),
		cmocka_unit_test(half_handshakes_share_one_budget_and_the_oldest_give_way),
		cmocka_unit_test(ciphertext_is_no_connection_message),
		cmocka_unit_test(long_messages_share_a_budget_and_short_ones_need_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
