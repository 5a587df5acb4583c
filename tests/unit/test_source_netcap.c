/* SPDX-License-Identifier: Apache-2.0 */
/* The capture by packets: what a namespace's packets say about the sockets of one process, and whose sockets these are. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <netinet/in.h>

#include <cmocka.h>

#include "base/buf.h"
#include "proc/sockets.h"
#include "source/netcap_owner.h"
#include "source/netcap_track.h"

struct fixture {
	struct netcap_sink sink;
	struct netcap_flows *flows;
	struct netcap_track *track;
	struct err err;
	/* gaps as '.' */
	struct buf stream[2];
	char reason[64];
	int opened, closed, local_initiated, answer;
};

static int on_open(struct netcap_sink *sink, const struct netcap_conn *conn, struct err *err)
{
	struct fixture *f = (struct fixture *)sink;
	(void)err;
	f->opened++;
	f->local_initiated = conn->local_initiated;
	return 0;
}

static int on_data(struct netcap_sink *sink, uint64_t conn, int out, uint64_t time_ns,
		   uint64_t offset, const void *bytes, size_t len, struct err *err)
{
	struct fixture *f = (struct fixture *)sink;
	(void)conn, (void)time_ns, (void)err;
	assert_int_equal(offset, f->stream[out].len);
	buf_put(&f->stream[out], bytes, len);
	return 0;
}

static int on_gap(struct netcap_sink *sink, uint64_t conn, int out, uint64_t time_ns,
		  uint64_t offset, uint64_t lost, enum netcap_gap why, struct err *err)
{
	struct fixture *f = (struct fixture *)sink;
	(void)conn, (void)time_ns, (void)err, (void)why;
	assert_int_equal(offset, f->stream[out].len);
	for (uint64_t i = 0; i < lost; i++)
		buf_putc(&f->stream[out], '.');
	return 0;
}

static int on_close(struct netcap_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		    struct err *err)
{
	struct fixture *f = (struct fixture *)sink;
	(void)conn, (void)time_ns, (void)err;
	f->closed++;
	snprintf(f->reason, sizeof(f->reason), "%s", reason);
	return 0;
}

static int whose(void *ctx, const struct net_tcp_segment *syn, struct netcap_owner_who *who)
{
	struct fixture *f = ctx;
	(void)syn;
	*who = (struct netcap_owner_who){ 1, 9732 };
	return f->answer;
}

static void begin(struct fixture *f)
{
	struct netcap_track_opt opt = { .connections_max = 4, .whose = whose, .ctx = f };
	memset(f, 0, sizeof(*f));
	f->answer = 1;
	f->sink = (struct netcap_sink){ on_open, on_data, on_gap, on_close, NULL };
	f->flows = netcap_flows_new(&f->err);
	f->track = netcap_track_new(&opt, f->flows, &f->err);
	assert_non_null(f->track);
}

static void end(struct fixture *f, const char *in, const char *out, const char *reason)
{
	assert_int_equal(netcap_flows_finish(f->flows, 9, "recording ended", netcap_track_last,
					     f->track, &f->sink, &f->err),
			 0);
	assert_string_equal(buf_cstr(&f->stream[0]), in);
	assert_string_equal(buf_cstr(&f->stream[1]), out);
	assert_string_equal(f->reason, reason);
	assert_int_equal(f->opened, f->closed);
	buf_fini(&f->stream[0]);
	buf_fini(&f->stream[1]);
	netcap_track_free(f->track);
	netcap_flows_free(f->flows);
}

enum { SYN = 1, FIN = 2, RST = 4, ACK = 8 };

/* Our side is port 1, the other one port 2; both streams begin at 1. */
static int packet(struct fixture *f, int out, int flags, uint32_t seq, uint32_t ack,
		  const char *text)
{
	struct net_tcp_segment s = { .time_ns = 5, .seq = seq, .ack = ack };
	s.from.port = out ? 1 : 2;
	s.to.port = out ? 2 : 1;
	s.syn = (flags & SYN) != 0;
	s.fin = (flags & FIN) != 0;
	s.rst = (flags & RST) != 0;
	s.has_ack = (flags & ACK) != 0;
	s.bytes = (const uint8_t *)text;
	s.len = s.captured = strlen(text);
	return netcap_track_segment(f->track, &s, out ? NETCAP_TRACK_LEAVES : NETCAP_TRACK_REACHES,
				    &f->sink, &f->err);
}

static void shake_hands(struct fixture *f)
{
	packet(f, 1, SYN, 0, 0, "");
	packet(f, 0, SYN | ACK, 0, 1, "");
	packet(f, 1, ACK, 1, 1, "");
}

static void a_connection_from_its_first_to_its_last_packet(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	shake_hands(&f);
	assert_true(f.local_initiated);
	packet(&f, 1, ACK, 1, 1, "hello");
	packet(&f, 0, ACK, 4, 6, "ld"); /* overtook */
	packet(&f, 0, ACK, 1, 6, "wor");
	packet(&f, 0, ACK, 1, 6, "wor");
	packet(&f, 0, ACK | FIN, 6, 6, "");
	assert_int_equal(f.closed, 0);
	packet(&f, 1, ACK | FIN, 6, 7, ""); /* all bytes are where they belong */
	assert_int_equal(f.closed, 1);
	packet(&f, 0, ACK, 7, 7, "");
	assert_int_equal(f.opened, 1);
	end(&f, "world", "hello", "closed by peer");
}

static void what_was_acknowledged_and_never_seen_is_a_gap_of_its_length(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	shake_hands(&f);
	packet(&f, 0, ACK, 1, 1, "ab");
	packet(&f, 0, ACK, 6, 1, "fg");
	assert_int_equal(f.stream[0].len, 2); /* it may still come */
	packet(&f, 1, ACK, 1, 8, "");
	assert_string_equal(buf_cstr(&f.stream[0]), "ab...fg");
	packet(&f, 1, ACK, 1, 11, ""); /* three more, with nothing behind them */
	end(&f, "ab...fg...", "", "recording ended");
}

static void a_last_packet_that_was_not_seen_is_no_byte(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	shake_hands(&f);
	packet(&f, 0, ACK, 1, 1, "ab");
	packet(&f, 1, ACK | FIN, 1, 4, ""); /* "ab" and a FIN that nobody saw */
	end(&f, "ab", "", "recording ended");
}

static void a_reset_counts_only_where_the_receiver_waits(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	shake_hands(&f);
	packet(&f, 0, ACK, 1, 1, "ab");
	packet(&f, 0, RST, 100, 0, "");
	packet(&f, 0, RST | ACK, 2, 1, "");
	assert_int_equal(f.closed, 0);
	packet(&f, 0, RST, 3, 0, "");
	end(&f, "ab", "", "reset");
}

static void a_refused_connect_is_told_as_such(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	packet(&f, 1, SYN, 0, 0, "");
	packet(&f, 0, RST | ACK, 0, 77, ""); /* a stranger's */
	assert_int_equal(f.closed, 0);
	packet(&f, 0, RST | ACK, 0, 1, "");
	end(&f, "", "", "connection refused");
}

static void a_connection_that_the_peer_does_not_confirm_is_none(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	packet(&f, 1, SYN | ACK, 0, 1, ""); /* to a scan */
	packet(&f, 0, RST, 1, 0, "");
	end(&f, "", "", "");
	begin(&f);
	packet(&f, 1, SYN | ACK, 0, 1, "");
	packet(&f, 0, ACK, 1, 1, "hi");
	assert_int_equal(f.opened, 1);
	assert_false(f.local_initiated);
	end(&f, "hi", "", "recording ended");
}

static void who_asks_too_early_is_asked_again_and_nothing_happened(void **state)
{
	struct fixture f;
	struct netcap_track_stats stats;
	(void)state;
	begin(&f);
	f.answer = -EAGAIN;
	assert_int_equal(packet(&f, 1, SYN, 0, 0, ""), -EAGAIN);
	f.answer = -ENOENT;
	assert_int_equal(packet(&f, 1, SYN, 0, 0, ""), 0);
	f.answer = 0;
	assert_int_equal(packet(&f, 1, SYN, 0, 0, ""), 0);
	netcap_track_stats(f.track, &stats);
	assert_int_equal(stats.unowned, 1);
	f.answer = 1;
	shake_hands(&f);
	end(&f, "", "", "recording ended");
}

static void the_same_ports_again_are_a_new_connection(void **state)
{
	struct fixture f;
	(void)state;
	begin(&f);
	shake_hands(&f);
	packet(&f, 1, ACK, 1, 1, "one");
	packet(&f, 1, SYN, 1000, 0, "");
	assert_int_equal(f.opened, 2);
	assert_int_equal(f.closed, 1);
	buf_clear(&f.stream[1]);
	packet(&f, 1, ACK, 1001, 1, "two");
	end(&f, "", "two", "recording ended");
}

static int denied(void *ctx, uint64_t cookie)
{
	return cookie != *(uint64_t *)ctx;
}

static void a_socket_that_is_gone_twice_in_a_row_has_closed(void **state)
{
	struct fixture f;
	struct wire_net_socket s = { .head = { .kind = WIRE_NET_OPEN, .cookie = 7 }, .up = 1 };
	uint64_t none = 0, gone = 7;
	(void)state;
	begin(&f);
	/* one behind the other in their bucket */
	for (int i = 0; i < 2; i++, s.head.cookie = 0x4006)
		assert_int_equal(netcap_flows_record(f.flows, &s, sizeof(s), &f.sink, &f.err), 0);
	uint64_t *answers[] = { &gone, &none, &gone };
	for (int i = 0; i < 3; i++) {
		assert_int_equal(
			netcap_flows_sweep(f.flows, 9, denied, answers[i], &f.sink, &f.err), 0);
		assert_int_equal(f.closed, 0);
	}
	assert_int_equal(netcap_flows_sweep(f.flows, 9, denied, &gone, &f.sink, &f.err), 0);
	assert_int_equal(f.closed, 1);
	assert_string_equal(f.reason, "closed, end not seen");
	end(&f, "", "", "recording ended");
}

static void lines_of_the_socket_tables_are_read_and_others_passed_over(void **state)
{
	struct proc_sockets sockets = { 0 };
	static const uint8_t v4[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
	static const uint8_t v6[16] = { 0x20, 0x01, 0x0d, 0xb8, [15] = 1 };
	(void)state;
	assert_int_equal(proc_sockets_parse(&sockets,
					    "  sl  local_address rem_address   st tx_queue "
					    "rx_queue tr tm->when retrnsmt   "
					    "uid  timeout inode\n"
					    "   0: 0100007F:2604 00000000:0000 0A "
					    "00000000:00000000 00:00000000 00000000     "
					    "0        0 4711 1 0000000000000000 100 0 0 10 0\n"
					    "   1: B80D0120000000000000000001000000:0050 "
					    "B80D0120000000000000000001000000:C350 01 "
					    "00000000:00000000 00:00000000 00000000"
					    "  1000        0 99999999999 1\n"
					    "   2: 0100007F 0100007F:1 01 0:0 0:0 0 0 0 5\n"
					    "   3: 01G0007F:0001 0100007F:0001 01 0:0 0:0 0 0 0 5\n"
					    "   4: 0100007F:0001 0100\n"),
			 0);
	assert_int_equal(sockets.count, 2);
	assert_memory_equal(sockets.rows[0].local_ip, v4, 16);
	assert_int_equal(sockets.rows[0].local_port, 9732);
	assert_int_equal(sockets.rows[0].state, 10);
	assert_int_equal(sockets.rows[0].inode, 4711);
	assert_memory_equal(sockets.rows[1].remote_ip, v6, 16);
	assert_int_equal(sockets.rows[1].remote_port, 50000);
	assert_int_equal(sockets.rows[1].inode, 99999999999);
	proc_sockets_fini(&sockets);
}

static int send_fd(int to, int fd)
{
	union {
		struct cmsghdr head;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { .head = { .cmsg_len = CMSG_LEN(sizeof(int)),
				.cmsg_level = SOL_SOCKET,
				.cmsg_type = SCM_RIGHTS } };
	struct iovec byte = { "", 1 };
	struct msghdr message = { .msg_iov = &byte,
				  .msg_iovlen = 1,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	return sendmsg(to, &message, 0) == 1;
}

/* Listens, tells where, waits for a byte, and leaves its listener under way to nobody. */
static void listen_and_leave(int to)
{
	struct sockaddr_in at = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(at);
	char byte;
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	_exit(fd < 0 || bind(fd, (struct sockaddr *)&at, len) < 0 || listen(fd, 1) < 0 ||
	      getsockname(fd, (struct sockaddr *)&at, &len) < 0 ||
	      write(to, &at.sin_port, sizeof(at.sin_port)) != sizeof(at.sin_port) ||
	      read(to, &byte, 1) != 1 || !send_fd(to, fd));
}

struct processes {
	int listens, ended;
	uint32_t pid;
};

static void on_owner(void *ctx, enum netcap_process what, uint32_t pid, uint16_t node_port)
{
	struct processes *seen = ctx;
	(void)node_port;
	seen->pid = pid;
	if (what == NETCAP_NODE_LISTENS)
		seen->listens++;
	else
		seen->ended++;
}

/* A process ends at any moment of a look: its listener may be among the sockets, and the process in nobody's list any more. */
static void a_listener_whose_process_has_ended_accepted_as_that_one(void **state)
{
	int ends[2], status;
	struct net_addr at = { .ip = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 } };
	struct netcap_opt opt = { .ports = &at.port, .port_count = 1 };
	struct netcap_owner_who who = { 0, 0 };
	struct processes seen = { 0, 0, 0 };
	struct err err;
	uint16_t port;
	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (!child)
		listen_and_leave(ends[1]);
	assert_int_equal(read(ends[0], &port, sizeof(port)), sizeof(port));
	at.port = ntohs(port);
	struct netcap_owner *owner = netcap_owner_new(&opt, &err);
	assert_non_null(owner);
	assert_int_equal(netcap_owner_look(owner, on_owner, &seen, &err), 0);
	assert_int_equal(netcap_owner_accepts(owner, &at, &who), 1);
	assert_int_equal(who.pid, child);
	assert_int_equal(write(ends[0], "", 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);

	assert_int_equal(netcap_owner_look(owner, on_owner, &seen, &err), 0);
	assert_int_equal(netcap_owner_hidden(owner), 1);
	assert_int_equal(netcap_owner_accepts(owner, &at, &who), 1);
	assert_int_equal(who.pid, child);
	assert_int_equal(who.node_port, at.port);
	assert_true(seen.listens == 1 && seen.ended == 1 && seen.pid == (uint32_t)child);
	netcap_owner_free(owner);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_connection_from_its_first_to_its_last_packet),
		cmocka_unit_test(what_was_acknowledged_and_never_seen_is_a_gap_of_its_length),
		cmocka_unit_test(a_last_packet_that_was_not_seen_is_no_byte),
		cmocka_unit_test(a_reset_counts_only_where_the_receiver_waits),
		cmocka_unit_test(a_refused_connect_is_told_as_such),
		cmocka_unit_test(a_connection_that_the_peer_does_not_confirm_is_none),
		cmocka_unit_test(who_asks_too_early_is_asked_again_and_nothing_happened),
		cmocka_unit_test(the_same_ports_again_are_a_new_connection),
		cmocka_unit_test(a_socket_that_is_gone_twice_in_a_row_has_closed),
		cmocka_unit_test(lines_of_the_socket_tables_are_read_and_others_passed_over),
		cmocka_unit_test(a_listener_whose_process_has_ended_accepted_as_that_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
