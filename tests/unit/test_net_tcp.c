/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "net/packet.h"
#include "net/tcp.h"

struct seen {
	struct net_tcp_sink sink;
	/* gaps as 0xEE bytes, so that both ways compare */
	struct buf stream[2];
	uint64_t gaps, gap_bytes;
	int opened, closed, syn;
	char initiator[NET_ADDR_TEXT_MAX];
};

static int on_open(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns,
		   const struct net_addr *initiator, const struct net_addr *responder, int syn_seen,
		   struct err *err)
{
	struct seen *seen = (struct seen *)sink;
	(void)flow, (void)time_ns, (void)responder, (void)err;
	seen->opened++;
	seen->syn = syn_seen;
	net_addr_text(initiator, seen->initiator);
	return 0;
}

static int on_data(struct net_tcp_sink *sink, uint64_t flow, int from, uint64_t time_ns,
		   const uint8_t *bytes, size_t len, struct err *err)
{
	(void)flow, (void)time_ns, (void)err;
	buf_put(&((struct seen *)sink)->stream[from], bytes, len);
	return 0;
}

static int on_gap(struct net_tcp_sink *sink, uint64_t flow, int from, uint64_t time_ns,
		  uint64_t lost, struct err *err)
{
	struct seen *seen = (struct seen *)sink;
	(void)flow, (void)time_ns, (void)err;
	seen->gaps++;
	seen->gap_bytes += lost;
	for (uint64_t i = 0; i < lost; i++)
		buf_putc(&seen->stream[from], (char)0xee);
	return 0;
}

static int on_close(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	(void)flow, (void)time_ns, (void)err, (void)reason;
	((struct seen *)sink)->closed++;
	return 0;
}

static void begin(struct seen *seen)
{
	memset(seen, 0, sizeof(*seen));
	seen->sink = (struct net_tcp_sink){ on_open, on_data, on_gap, on_close };
}

static struct net_tcp_segment segment(int from_initiator, uint32_t seq, const char *bytes,
				      size_t len)
{
	struct net_tcp_segment s = {
		.seq = seq, .bytes = (const uint8_t *)bytes, .len = len, .captured = len
	};
	struct net_addr a = { .port = 40000 }, b = { .port = 9732 };
	a.ip[10] = a.ip[11] = b.ip[10] = b.ip[11] = 0xff;
	a.ip[15] = 1;
	b.ip[15] = 2;
	s.from = from_initiator ? a : b;
	s.to = from_initiator ? b : a;
	return s;
}

static void segments_in_any_order_give_the_bytes_that_were_sent(void **state)
{
	(void)state;
	srand(7);
	for (int round = 0; round < 200; round++) {
		struct seen seen;
		struct err err = { 0 };
		begin(&seen);
		struct net_tcp *tcp = net_tcp_new(&seen.sink, &err);
		char sent[20000];
		for (size_t i = 0; i < sizeof(sent); i++)
			sent[i] = (char)rand();
		uint32_t start = round % 2 ? 0xffffff00u : (uint32_t)rand(); /* half of them wrap */
		struct net_tcp_segment syn = segment(1, start, NULL, 0);
		syn.syn = 1;
		assert_int_equal(net_tcp_segment(tcp, &syn, &err), 0);
		struct net_tcp_segment list[600];
		size_t count = 0;
		for (size_t at = 0; at < sizeof(sent);) {
			size_t len = 1 + (size_t)rand() % 300;
			if (len > sizeof(sent) - at)
				len = sizeof(sent) - at;
			list[count++] = segment(1, start + 1 + (uint32_t)at, sent + at, len);
			if (rand() % 4 == 0 && at > 50) /* a retransmission cut otherwise */
				list[count++] = segment(1, start + 1 + (uint32_t)at - 50,
							sent + at - 50, 50 + len / 2);
			at += len;
		}
		for (size_t i = 0; i + 1 < count; i++) {
			size_t k = i + (size_t)rand() % 8;
			if (k < count) {
				struct net_tcp_segment t = list[i];
				list[i] = list[k];
				list[k] = t;
			}
		}
		for (size_t i = 0; i < count; i++)
			assert_int_equal(net_tcp_segment(tcp, &list[i], &err), 0);
		assert_int_equal(net_tcp_finish(tcp, 0, &err), 0);
		assert_int_equal(seen.gaps, 0);
		assert_int_equal(seen.opened, 1);
		assert_int_equal(seen.closed, 1);
		assert_true(seen.syn);
		assert_string_equal(seen.initiator, "0.0.0.1:40000");
		assert_int_equal(seen.stream[1].len, sizeof(sent));
		assert_memory_equal(seen.stream[1].data, sent, sizeof(sent));
		net_tcp_free(tcp);
		buf_fini(&seen.stream[0]);
		buf_fini(&seen.stream[1]);
	}
}

static void bytes_never_captured_become_a_gap_of_exactly_their_length(void **state)
{
	(void)state;
	struct seen seen;
	struct err err = { 0 };
	begin(&seen);
	struct net_tcp *tcp = net_tcp_new(&seen.sink, &err);
	struct net_tcp_segment s = segment(1, 1000, NULL, 0);
	s.syn = 1;
	assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
	s = segment(1, 1001, "abc", 3);
	assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
	s = segment(1, 1014, "xyz", 3); /* ten bytes are missing */
	assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
	assert_int_equal(seen.gaps, 0); /* they may still come */
	s = segment(0, 500, NULL, 0);
	s.has_ack = 1;
	s.ack = 1017; /* the other side has them */
	s.syn = 1;
	assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
	assert_int_equal(seen.gaps, 1);
	assert_int_equal(seen.gap_bytes, 10);
	assert_int_equal(seen.stream[1].len, 16);
	assert_memory_equal(seen.stream[1].data + 13, "xyz", 3);
	net_tcp_free(tcp);
	buf_fini(&seen.stream[0]);
	buf_fini(&seen.stream[1]);
}

static void ports_used_again_make_a_new_connection(void **state)
{
	(void)state;
	struct seen seen;
	struct err err = { 0 };
	begin(&seen);
	struct net_tcp *tcp = net_tcp_new(&seen.sink, &err);
	for (uint32_t i = 0; i < 3; i++) {
		struct net_tcp_segment s = segment(1, i * 100000, NULL, 0);
		s.syn = 1;
		assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
		assert_int_equal(net_tcp_segment(tcp, &s, &err),
				 0); /* the SYN again is no second one */
		s = segment(1, i * 100000 + 1, "data", 4);
		assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
	}
	assert_int_equal(seen.opened, 3);
	assert_int_equal(seen.closed, 2);
	assert_int_equal(seen.stream[1].len, 12);
	net_tcp_free(tcp);
	buf_fini(&seen.stream[0]);
	buf_fini(&seen.stream[1]);
}

/* A segment whose time, flags and acknowledgement are given as a word: S, F, R, and A for "has_ack". */
static void send(struct net_tcp *tcp, uint64_t time_s, const char *flags, int from_initiator,
		 uint32_t seq, uint32_t ack, const char *text)
{
	struct err err = { 0 };
	struct net_tcp_segment s = segment(from_initiator, seq, text, strlen(text));
	s.time_ns = time_s * 1000000000u;
	s.syn = !!strchr(flags, 'S');
	s.fin = !!strchr(flags, 'F');
	s.rst = !!strchr(flags, 'R');
	s.has_ack = !!strchr(flags, 'A');
	s.ack = ack;
	assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
}

static struct net_tcp *shake_hands(struct seen *seen)
{
	struct err err = { 0 };
	begin(seen);
	struct net_tcp *tcp = net_tcp_new(&seen->sink, &err);
	send(tcp, 1, "S", 1, 1000, 0, "");
	send(tcp, 1, "SA", 0, 5000, 1001, "");
	send(tcp, 1, "A", 1, 1001, 5001, "");
	return tcp;
}

static void end(struct net_tcp *tcp, struct seen *seen)
{
	net_tcp_free(tcp);
	buf_fini(&seen->stream[0]);
	buf_fini(&seen->stream[1]);
}

static void bytes_missing_at_the_end_are_told_when_both_sides_have_ended(void **state)
{
	struct seen seen;
	struct net_tcp *tcp = shake_hands(&seen);
	(void)state;
	send(tcp, 1, "A", 1, 1001, 5001, "abc");
	/* a thousand bytes and the FIN's own number: all of it is acknowledged, the bytes were not captured */
	send(tcp, 1, "FA", 1, 2004, 5001, "");
	send(tcp, 1, "FA", 0, 5001, 2005, "");
	assert_int_equal(seen.closed, 1);
	assert_int_equal(seen.gaps, 1);
	assert_int_equal(seen.gap_bytes, 1000);
	end(tcp, &seen);
}

static void bytes_missing_at_the_end_of_the_capture_are_told(void **state)
{
	struct seen seen;
	struct err err = { 0 };
	struct net_tcp *tcp = shake_hands(&seen);
	(void)state;
	struct net_tcp_segment cut = segment(1, 1001, "abcdefgh", 8);
	cut.captured = 3;
	assert_int_equal(net_tcp_segment(tcp, &cut, &err), 0);
	send(tcp, 1, "A", 1, 1009, 5101, ""); /* the other side sent a hundred bytes */
	assert_int_equal(seen.gaps, 0);
	assert_int_equal(net_tcp_finish(tcp, 0, &err), 0);
	assert_int_equal(seen.gaps, 2);
	assert_int_equal(seen.gap_bytes, 105);
	assert_int_equal(seen.stream[1].len, 8);
	assert_int_equal(seen.stream[0].len, 100);
	end(tcp, &seen);
}

static void an_acknowledged_fin_is_no_missing_byte(void **state)
{
	struct seen seen;
	struct err err = { 0 };
	struct net_tcp *tcp = shake_hands(&seen);
	(void)state;
	send(tcp, 1, "A", 1, 1001, 5001, "abc");
	send(tcp, 1, "A", 0, 5001, 1005, ""); /* the FIN behind "abc" was not captured */
	assert_int_equal(net_tcp_finish(tcp, 0, &err), 0);
	assert_int_equal(seen.gaps, 0);
	end(tcp, &seen);
}

static void a_stream_begins_where_the_other_side_acknowledges_its_syn(void **state)
{
	struct seen seen;
	struct err err = { 0 };
	(void)state;
	begin(&seen);
	struct net_tcp *tcp = net_tcp_new(&seen.sink, &err);
	send(tcp, 1, "S", 1, 1000, 0, "");
	/* neither the SYN-ACK nor the first three bytes behind it were captured */
	send(tcp, 1, "A", 1, 1001, 5001, "hello");
	send(tcp, 1, "A", 0, 5004, 1006, "def");
	send(tcp, 1, "A", 1, 1006, 5007, "");
	assert_int_equal(seen.gaps, 1);
	assert_int_equal(seen.gap_bytes, 3);
	assert_int_equal(seen.stream[0].len, 6);
	assert_memory_equal(seen.stream[0].data + 3, "def", 3);
	end(tcp, &seen);
}

static void what_comes_behind_a_connections_end_opens_no_other(void **state)
{
	(void)state;
	for (int reset = 0; reset < 2; reset++) {
		struct seen seen;
		struct net_tcp *tcp = shake_hands(&seen);
		send(tcp, 1, "A", 1, 1001, 5001, "abc");
		if (reset) {
			send(tcp, 1, "R", 0, 5001, 0, "");
		} else {
			send(tcp, 1, "FA", 1, 1004, 5001, "");
			send(tcp, 1, "FA", 0, 5001, 1005, "");
		}
		assert_int_equal(seen.closed, 1);
		send(tcp, 2, "A", 1, 1001, 5001, "abc"); /* again */
		send(tcp, 2, "A", 1, 1004, 5001, "def"); /* on its way when the reset came */
		send(tcp, 2, "S", 1, 1000, 0, "");
		send(tcp, 2, "SA", 0, 5000, 1001, "");
		assert_int_equal(seen.opened, 1);
		assert_int_equal(seen.stream[1].len, 3);
		/* another sequence is another connection, and so is any when a minute has passed */
		send(tcp, 3, "S", 1, 70000, 0, "");
		send(tcp, 3, "", 1, 70001, 0, "ghi");
		assert_int_equal(seen.opened, 2);
		send(tcp, 3, "R", 1, 70004, 0, "");
		send(tcp, 70, "", 1, 70004, 0, "jkl");
		assert_int_equal(seen.opened, 3);
		assert_int_equal(seen.stream[1].len, 9);
		end(tcp, &seen);
	}
}

static void an_ip_header_shorter_than_it_can_be_is_damaged(void **state)
{
	(void)state;
	uint8_t packet[40] = { [0] = 0x45, [3] = 40, [9] = 6, [32] = 5 << 4 };
	struct net_tcp_segment seg = { 0 };
	assert_int_equal(net_packet(packet, sizeof(packet), &seg), NET_PACKET_SEGMENT);
	for (unsigned words = 0; words < 5; words++) {
		packet[0] = (uint8_t)(0x40 | words);
		packet[words * 4 + 12] =
			5 << 4; /* what would be read as the length of the TCP header */
		assert_int_equal(net_packet(packet, sizeof(packet), &seg), NET_PACKET_DAMAGED);
		packet[words * 4 + 12] = 0;
	}
}

/* What came out of many flows, counted. */
struct counts {
	struct net_tcp_sink sink;
	uint64_t bytes, gaps, last_gap;
};

static int count_data(struct net_tcp_sink *sink, uint64_t flow, int from, uint64_t time_ns,
		      const uint8_t *bytes, size_t len, struct err *err)
{
	(void)flow, (void)from, (void)time_ns, (void)bytes, (void)err;
	((struct counts *)sink)->bytes += len;
	return 0;
}

static int count_gap(struct net_tcp_sink *sink, uint64_t flow, int from, uint64_t time_ns,
		     uint64_t lost, struct err *err)
{
	struct counts *counts = (struct counts *)sink;
	(void)from, (void)time_ns, (void)lost, (void)err;
	counts->gaps++;
	counts->last_gap = flow;
	return 0;
}

static int count_open(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns,
		      const struct net_addr *initiator, const struct net_addr *responder,
		      int syn_seen, struct err *err)
{
	(void)sink, (void)flow, (void)time_ns, (void)initiator, (void)responder, (void)syn_seen;
	(void)err;
	return 0;
}

static int count_close(struct net_tcp_sink *sink, uint64_t flow, uint64_t time_ns,
		       const char *reason, struct err *err)
{
	(void)sink, (void)flow, (void)time_ns, (void)reason, (void)err;
	return 0;
}

static void what_all_flows_hold_back_is_bounded_and_the_oldest_give_up_first(void **state)
{
	static char bytes[60000];
	struct counts counts = { { count_open, count_data, count_gap, count_close }, 0, 0, 0 };
	struct err err = { 0 };
	struct net_tcp *tcp = net_tcp_new(&counts.sink, &err);
	const unsigned flows = 60, each = 60;
	uint64_t fed = 0;
	(void)state;
	assert_true((uint64_t)flows * each * sizeof(bytes) > 3 * (uint64_t)NET_TCP_HELD_MAX / 2);
	for (unsigned flow = 0; flow < flows; flow++) {
		struct net_tcp_segment s = segment(1, 0, NULL, 0);
		s.from.port = (uint16_t)(40000 + flow);
		s.syn = 1;
		assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
		for (unsigned i = 0; i < each; i++) { /* its first byte does not come */
			s = segment(1, 2 + i * (uint32_t)sizeof(bytes), bytes, sizeof(bytes));
			s.from.port = (uint16_t)(40000 + flow);
			assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
			fed += sizeof(bytes);
			assert_true(fed - counts.bytes <= NET_TCP_HELD_MAX);
		}
	}
	/* those that spoke last still wait, and need no gap when the byte comes */
	uint64_t gaps = counts.gaps, before = counts.bytes;
	assert_true(gaps > 0 && counts.last_gap == gaps - 1 && gaps < flows - 1);
	struct net_tcp_segment s = segment(1, 1, bytes, 1);
	s.from.port = (uint16_t)(40000 + flows - 1);
	assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
	assert_int_equal(counts.bytes - before, 1 + each * sizeof(bytes));
	assert_int_equal(counts.gaps, gaps);
	assert_int_equal(net_tcp_finish(tcp, 0, &err), 0);
	assert_int_equal(counts.bytes, fed + 1);
	net_tcp_free(tcp);
}

/* The hash that the table had once, and that anybody could compute. */
static unsigned old_hash(const struct net_addr *a)
{
	uint64_t h = a->port;
	for (int i = 0; i < 16; i++)
		h = (h ^ a->ip[i]) * 0x100000001b3ULL;
	return (unsigned)(h ^ h >> 29);
}

static void addresses_chosen_to_collide_spread_over_the_table(void **state)
{
	struct seen seen;
	struct err err = { 0 };
	(void)state;
	begin(&seen);
	struct net_tcp *tcp = net_tcp_new(&seen.sink, &err);
	assert_non_null(tcp);
	unsigned flows = 0;
	for (uint64_t n = 0; flows < 1024; n++) {
		struct net_tcp_segment s = segment(1, 0, NULL, 0);
		s.syn = 1;
		memcpy(s.from.ip + 8, &n, sizeof(n));
		s.from.port = (uint16_t)(n * 7919);
		if (old_hash(&s.from) % 16384)
			continue;
		flows++;
		assert_int_equal(net_tcp_segment(tcp, &s, &err), 0);
	}
	/* all in one place then; at random a place has more than 10 once in 10^16 runs */
	assert_true(net_tcp_fullest(tcp) > 0 && net_tcp_fullest(tcp) <= 10);
	net_tcp_free(tcp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(segments_in_any_order_give_the_bytes_that_were_sent),
		cmocka_unit_test(bytes_never_captured_become_a_gap_of_exactly_their_length),
		cmocka_unit_test(bytes_missing_at_the_end_are_told_when_both_sides_have_ended),
		cmocka_unit_test(bytes_missing_at_the_end_of_the_capture_are_told),
		cmocka_unit_test(an_acknowledged_fin_is_no_missing_byte),
		cmocka_unit_test(a_stream_begins_where_the_other_side_acknowledges_its_syn),
		cmocka_unit_test(what_comes_behind_a_connections_end_opens_no_other),
		cmocka_unit_test(an_ip_header_shorter_than_it_can_be_is_damaged),
		cmocka_unit_test(ports_used_again_make_a_new_connection),
		cmocka_unit_test(addresses_chosen_to_collide_spread_over_the_table),
		cmocka_unit_test(what_all_flows_hold_back_is_bounded_and_the_oldest_give_up_first),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
