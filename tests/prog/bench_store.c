/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_store.c - fill a store with skewed messages and ask for pages of 100: rows a second in, bytes on disk, latencies.
 * usage: bench_store FOLDER MESSAGES [PAYLOAD_BYTES]; prints one JSON object.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "store/store.h"

#define QUERIES 2000
#define SLICE 500000

static uint64_t seed = 88172645463325252ULL;

static uint32_t rnd(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (uint32_t)(seed >> 32);
}

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(int rc, const struct err *err)
{
	if (rc < 0) {
		fprintf(stderr, "bench_store: %s\n", err->msg);
		exit(1);
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* 90 % of one type and one address, the rest thinly spread: some pairs match nothing at all. */
static void shape(uint64_t i, struct message *m, char addr[32])
{
	uint32_t r = rnd() % 1000;
	m->type = r < 900   ? MESSAGE_OPERATION
		  : r < 990 ? MESSAGE_CURRENT_HEAD
			    : (enum message_type)(3 + rnd() % 24);
	m->sender = (enum message_sender)(rnd() % 100 < 70);
	m->initiator = (enum message_sender)(rnd() % 1000 == 0);
	snprintf(addr, 32, "10.0.%u.%u:9732", rnd() % 1000 < 950 ? 0 : rnd() % 4,
		 rnd() % 1000 < 900 ? 1 : rnd() % 250);
	m->time_ns = 1700000000000000000ULL + i * 50000;
}

/* @slowest: rows a second in the slowest stretch of SLICE messages. */
static void fill(struct store *store, uint64_t count, size_t payload, double *slowest)
{
	double since = now_s();
	*slowest = 0;
	struct err err = { 0 };
	struct message_sink *sink = store_message_sink(store);
	uint8_t *raw = malloc(payload + 18);
	char addr[32];
	struct message_connection conn = { .remote_addr = "10.0.0.1:9732" };
	must(sink->connection(sink, &conn, &err), &err);
	for (uint64_t i = 0; i < count; i++) {
		for (size_t k = 0; k + 4 <= payload + 18; k += 4) {
			uint32_t r = rnd();
			memcpy(raw + k, &r, 4);
		}
		struct message m = {
			.first_chunk = i, .last_chunk = i, .remote_addr = addr, .plain_len = payload
		};
		shape(i, &m, addr);
		m.json = "{\"Operation\":{\"operation\":{\"branch\":"
			 "\"BLockGenesisGenesisGenesisGenesisGenesisd6f5afWyME7\",\"data\":"
			 "\"aabbccddeeff\"}}}";
		m.json_len = strlen(m.json);
		struct message_chunk chunk = { .counter = i,
					       .sender = m.sender,
					       .time_ns = m.time_ns,
					       .raw = raw,
					       .raw_len = payload + 18,
					       .plain = raw + 18,
					       .plain_len = payload };
		must(sink->chunk(sink, &chunk, &err), &err);
		must(sink->message(sink, &m, &err), &err);
		if ((i + 1) % SLICE == 0) {
			double rate = SLICE / (now_s() - since);
			if (*slowest == 0 || rate < *slowest)
				*slowest = rate;
			since = now_s();
			fprintf(stderr, "%" PRIu64 " messages: %.0f a second\n", i + 1, rate);
		}
	}
	must(store_flush(store, &err), &err);
	free(raw);
}

/* One random single filter or pair, with and without a deep cursor. */
static void ask(struct store_query *q, unsigned char types[4], char addr[32], uint64_t count)
{
	*q = (struct store_query){ .limit = 100, .forward = rnd() % 2 };
	unsigned first = rnd() % 6, second = rnd() % 6;
	for (int k = 0; k < 2; k++) {
		switch (k ? second : first) {
		case 0:
			q->types = types;
			q->type_count = 1 + rnd() % 4;
			types[0] = (unsigned char)(3 + rnd() % 26);
			for (size_t t = 1; t < q->type_count; t++)
				types[t] = (unsigned char)(3 + (types[0] - 3u + t) % 26);
			break;
		case 1:
			snprintf(addr, 32, "10.0.%u.%u:9732", rnd() % 5, rnd() % 260);
			q->remote_addr = addr;
			break;
		case 2:
			q->has_incoming = 1;
			q->incoming = (int)(rnd() % 2);
			break;
		case 3:
			q->has_initiator = 1;
			q->initiator = (enum message_sender)(rnd() % 2);
			break;
		case 4:
			q->has_from = q->has_to = 1;
			q->from_ns = 1700000000000000000ULL + (uint64_t)rnd() % count * 50000;
			q->to_ns = q->from_ns + rnd() % 1000000000u;
			break;
		default:
			q->has_cursor = 1;
			q->cursor = (uint64_t)rnd() % count;
		}
	}
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	uint64_t count = strtoull(argv[2], NULL, 10);
	size_t payload = argc > 3 ? (size_t)strtoul(argv[3], NULL, 10) : 200;
	struct err err = { 0 };
	struct store *store;
	must(store_open(argv[1], NULL, &store, &err), &err);
	double start = now_s();
	double slowest;
	fill(store, count, payload, &slowest);
	double filled = now_s() - start;
	struct store_stats stats;
	must(store_stats(store, &stats, &err), &err);
	struct store_reader *reader;
	must(store_reader_open(argv[1], &reader, &err), &err);
	static double latency[QUERIES];
	double worst = 0;
	struct store_query worst_query = { 0 };
	for (int i = 0; i < QUERIES; i++) {
		struct store_query q;
		unsigned char types[4];
		char addr[32];
		struct store_page *page;
		ask(&q, types, addr, count);
		double t = now_s();
		must(store_messages(reader, &q, &page, &err), &err);
		latency[i] = now_s() - t;
		if (latency[i] > worst) {
			worst = latency[i];
			worst_query = q;
		}
		store_page_free(page);
	}
	qsort(latency, QUERIES, sizeof(latency[0]), by_value);
	printf("{\"messages\":%" PRIu64 ",\"rows_per_s\":%.0f,\"slowest_half_million_per_s\":%.0f,"
	       "\"raw_payload_bytes\":%" PRIu64 ",\"database_bytes\":%" PRIu64
	       ",\"segment_bytes\":%" PRIu64
	       ",\"page_ms\":{\"p50\":%.3f,\"p99\":%.3f,\"max\":%.3f},"
	       "\"worst\":{\"types\":%zu,\"addr\":%d,\"incoming\":%d,\"initiator\":%d,\"time\":%d,"
	       "\"cursor\":%d}}\n",
	       count, (double)count / filled, slowest, count * payload, stats.database_bytes,
	       stats.segment_bytes, latency[QUERIES / 2] * 1e3, latency[QUERIES * 99 / 100] * 1e3,
	       latency[QUERIES - 1] * 1e3, worst_query.type_count, worst_query.remote_addr != NULL,
	       worst_query.has_incoming, worst_query.has_initiator, worst_query.has_from,
	       worst_query.has_cursor);
	store_reader_close(reader);
	must(store_close(store, &err), &err);
	return 0;
}
