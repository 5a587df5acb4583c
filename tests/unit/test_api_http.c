/* SPDX-License-Identifier: Apache-2.0 */
/* The HTTP server from outside, over real sockets on loopback: who may ask, what comes back, what a stranger can not grow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/http.h"
#include "base/cleanup.h"

static void hello(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)ctx;
	uint64_t n = 7;
	int flag = 0;
	if (http_request_u64(request, "n", &n, reply) < 0 ||
	    http_request_bool(request, "flag", &flag, reply) < 0)
		return;
	buf_printf(&reply->body, "{\"n\":%llu,\"flag\":%d,\"tail\":\"%s\"}", (unsigned long long)n,
		   flag, http_request_tail(request));
}

static int tick(void *stream, struct buf *out)
{
	int *left = stream;
	if (!*left)
		return -1;
	buf_printf(out, "data: %d\n\n", (*left)--);
	return 0;
}

static int ticks;

static void events(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)ctx, (void)request;
	ticks = 3;
	reply->stream = &ticks;
	reply->stream_more = tick;
}

static int once(void *stream, struct buf *out)
{
	int *told = stream;
	if (!(*told)++)
		buf_puts(out, "data: once\n\n");
	return 0;
}

static int told;

/* Goes on for ever, and says nothing. */
static void silence(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	(void)ctx, (void)request;
	told = 0;
	reply->stream = &told;
	reply->stream_more = once;
}

static int gate[2]; /* who is held waits for a byte */
static int entered[2];

static void held(void *ctx, const struct http_request *request, struct http_reply *reply)
{
	char byte = 0;
	(void)ctx, (void)request;
	assert_int_equal(write(entered[1], &byte, 1), 1);
	assert_int_equal(read(gate[0], &byte, 1), 1);
	buf_puts(&reply->body, "{}");
}

static const struct http_route routes[] = { { "/hello", hello, NULL },
					    { "/below/", hello, NULL },
					    { "/events", events, NULL },
					    { "/held", held, NULL },
					    { "/silence", silence, NULL } };

static struct http_server *start(const struct http_opt *more)
{
	struct http_opt opt = more ? *more : (struct http_opt){ 0 };
	struct err err = { 0 };
	struct http_server *server = NULL;
	opt.address = opt.address ? opt.address : "127.0.0.1:0";
	opt.routes = routes;
	opt.route_count = ARRAY_LEN(routes);
	if (http_server_start(&opt, &server, &err) < 0)
		fail_msg("%s", err.msg);
	return server;
}

static int dial(const struct http_server *server)
{
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	addr.sin_port = htons((uint16_t)atoi(strrchr(http_server_url(server), ':') + 1));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval limit = { .tv_sec = 10 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	return fd;
}

/* One request on a connection of its own; returns the whole answer, lent until the next call. */
static const char *ask(const struct http_server *server, const char *method, const char *path,
		       const char *headers)
{
	static char answer[65536];
	char request[4096];
	int fd = dial(server);
	int len = snprintf(request, sizeof(request),
			   "%s %s HTTP/1.1\r\n%sConnection: close\r\n\r\n", method, path, headers);
	assert_int_equal(send(fd, request, (size_t)len, 0), len);
	size_t got = 0;
	for (;;) {
		ssize_t n = recv(fd, answer + got, sizeof(answer) - 1 - got, 0);
		if (n <= 0)
			break;
		got += (size_t)n;
	}
	answer[got] = '\0';
	close(fd);
	return answer;
}

#define LOCAL "Host: localhost\r\n"

static void expect(const char *answer, unsigned status, const char *part)
{
	unsigned got = 0;
	assert_int_equal(sscanf(answer, "HTTP/1.1 %u", &got), 1);
	if (got != status || (part && !strstr(answer, part)))
		fail_msg("wanted %u with '%s', got: %.600s", status, part ? part : "", answer);
}

static void routes_answer_and_bad_parameters_are_named(void **state)
{
	(void)state;
	struct http_server *s = start(NULL);
	assert_non_null(strstr(http_server_note(s), "every local user"));
	expect(ask(s, "GET", "/hello", LOCAL), 200, "{\"n\":7,\"flag\":0,\"tail\":\"\"}");
	expect(ask(s, "GET", "/hello?n=18446744073709551615&flag=true", LOCAL), 200,
	       "{\"n\":18446744073709551615,\"flag\":1");
	expect(ask(s, "GET", "/below/a%20b", LOCAL), 200, "\"tail\":\"a b\"");
	expect(ask(s, "GET", "/hello?n=-1", LOCAL), 400, "{\"error\":\"'n' is a whole number");
	expect(ask(s, "GET", "/hello?n=18446744073709551616", LOCAL), 400, "error");
	expect(ask(s, "GET", "/hello?flag=yes", LOCAL), 400, "true or false");
	expect(ask(s, "GET", "/nothing", LOCAL), 404, "{\"error\":");
	expect(ask(s, "POST", "/hello", LOCAL), 405, "only GET");
	expect(ask(s, "OPTIONS", "/hello", LOCAL), 204, "Allow: GET, HEAD, OPTIONS");
	expect(ask(s, "OPTIONS", "/hello", LOCAL "Origin: http://localhost:3000\r\n"), 204,
	       "Access-Control-Allow-Headers: Authorization, If-None-Match");
	expect(ask(s, "OPTIONS", "/hello", LOCAL "Origin: http://evil.example\r\n"), 403, "error");
	char given[160], tag[64];
	const char *etag = strstr(ask(s, "GET", "/hello?n=9", LOCAL), "ETag: ");
	assert_non_null(etag);
	assert_int_equal(sscanf(etag, "ETag: %63s", tag), 1);
	snprintf(given, sizeof(given), LOCAL "If-None-Match: %s\r\n", tag);
	expect(ask(s, "GET", "/hello?n=9", given), 304, NULL);
	expect(ask(s, "GET", "/hello?n=8", given), 200, "\"n\":8");
	expect(ask(s, "GET", "/events", LOCAL), 200, "data: 1");
	expect(ask(s, "GET", "/hello", LOCAL), 200, "nosniff");
	http_server_stop(s);
}

static void foreign_hosts_and_origins_are_refused(void **state)
{
	(void)state;
	const char *const hosts[] = { "node.example", NULL };
	struct http_opt opt = { .hosts = hosts };
	struct http_server *s = start(&opt);
	expect(ask(s, "GET", "/hello", "Host: 127.0.0.1:17832\r\n"), 200, NULL);
	expect(ask(s, "GET", "/hello", "Host: [::1]:1\r\n"), 200, NULL);
	expect(ask(s, "GET", "/hello", "Host: Node.Example:80\r\n"), 200, NULL);
	expect(ask(s, "GET", "/hello", "Host: evil.example\r\n"), 403, "error");
	expect(ask(s, "GET", "/hello", "Host: 127.0.0.1.evil.example\r\n"), 403, "error");
	expect(ask(s, "GET", "/hello", LOCAL "Origin: http://evil.example\r\n"), 403, "error");
	expect(ask(s, "GET", "/hello", LOCAL "Origin: null\r\n"), 403, "error");
	expect(ask(s, "GET", "/hello", LOCAL "Sec-Fetch-Site: cross-site\r\n"), 403, "error");
	expect(ask(s, "GET", "/hello", LOCAL "Sec-Fetch-Site: same-origin\r\n"), 200, NULL);
	expect(ask(s, "GET", "/hello", LOCAL "Origin: http://localhost:8080\r\n"), 200,
	       "Access-Control-Allow-Origin: http://localhost:8080");
	expect(ask(s, "GET", "/nothing", LOCAL "Origin: http://127.0.0.1:3000\r\n"), 404,
	       "Access-Control-Allow-Origin: http://127.0.0.1:3000");
	http_server_stop(s);
	struct http_opt open = { .cors = "*" };
	s = start(&open);
	expect(ask(s, "GET", "/hello", LOCAL "Origin: http://anywhere.example\r\n"), 200,
	       "Access-Control-Allow-Origin: *");
	http_server_stop(s);
}

static void token_guards_and_comes_by_header_link_or_cookie(void **state)
{
	(void)state;
	char path[] = "/tmp/byteledger-token-XXXXXX";
	int fd = mkstemp(path);
	assert_int_equal(write(fd, "0123456789abcdef\n", 17), 17);
	close(fd);
	struct http_opt opt = { .token_file = path };
	struct err err = { 0 };
	struct http_server *none = NULL;
	chmod(path, 0644);
	assert_true(http_server_start(&opt, &none, &err) < 0);
	assert_non_null(strstr(err.hint, "chmod 600"));
	chmod(path, 0600);
	struct http_server *s = start(&opt);
	assert_null(http_server_note(s));
	expect(ask(s, "GET", "/hello", LOCAL), 401, "token");
	expect(ask(s, "GET", "/hello", LOCAL "Authorization: Bearer 0123456789abcdeX\r\n"), 401,
	       NULL);
	expect(ask(s, "GET", "/hello", LOCAL "Authorization: Bearer 0123456789abcdef\r\n"), 200,
	       NULL);
	expect(ask(s, "GET", "/?token=0123456789abcdef", LOCAL), 303, "HttpOnly; SameSite=Strict");
	expect(ask(s, "GET", "/?token=0123456789abcdef", LOCAL), 303,
	       "Referrer-Policy: no-referrer");
	expect(ask(s, "GET", "/hello?token=0123456789abcdef", LOCAL), 401, NULL);
	expect(ask(s, "GET", "/hello", LOCAL "Cookie: byteledger=0123456789abcdef\r\n"), 200, NULL);
	http_server_stop(s);
	unlink(path);
}

static void addresses_beyond_loopback_need_a_word(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct http_server *s = NULL;
	struct http_opt opt = { .address = "0.0.0.0:0", .routes = routes, .route_count = 1 };
	assert_int_equal(http_server_start(&opt, &s, &err), -EACCES);
	assert_non_null(strstr(err.hint, "--token-file"));
	const char *const bad[] = { "nowhere", "127.0.0.1:99999", "127.0.0.1:", "[::1:80",
				    "1.2.3.4.5:1" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		opt.address = bad[i];
		assert_int_equal(http_server_start(&opt, &s, &err), -EINVAL);
	}
	s = start(NULL);
	char taken[64];
	snprintf(taken, sizeof(taken), "127.0.0.1:%d", atoi(strrchr(http_server_url(s), ':') + 1));
	struct http_server *second = NULL;
	opt.address = taken;
	assert_int_equal(http_server_start(&opt, &second, &err), -EADDRINUSE);
	http_server_stop(s);
}

static int count_closed(const int *fds, int from, int to)
{
	int count = 0;
	for (int i = from; i < to; i++) {
		char bytes[256];
		ssize_t n;
		while ((n = recv(fds[i], bytes, sizeof(bytes), MSG_DONTWAIT)) > 0)
			;
		count += n == 0 || (n < 0 && errno != EAGAIN);
	}
	return count;
}

static void two_hundred_slow_clients_keep_nobody_out(void **state)
{
	(void)state;
	struct http_server *s = start(NULL);
	char begun[256];
	int fds[200], stream = dial(s);
	static const char listen_on[] = "GET /silence HTTP/1.1\r\n" LOCAL "\r\n";
	send(stream, listen_on, sizeof(listen_on) - 1, 0);
	assert_true(recv(stream, begun, sizeof(begun), 0) > 0);
	for (int i = 0; i < 200; i++) {
		fds[i] = dial(s);
		send(fds[i], "GET /hel", 8, MSG_NOSIGNAL);
	}
	/* they are never silent for long, and who asks is answered all the same */
	for (int round = 0; round < 10; round++) {
		expect(ask(s, "GET", "/hello", LOCAL), 200, NULL);
		for (int i = 0; i < 200; i++)
			send(fds[i], "l", 1, MSG_NOSIGNAL);
	}
	/* who waited longest made room; who is being answered did not */
	const int most = HTTP_CONNECTIONS_PER_IP;
	for (int tries = 0; tries < 300 && count_closed(fds, 0, 200 - most) < 200 - most; tries++)
		usleep(50000);
	assert_int_equal(count_closed(fds, 0, 200 - most), 200 - most);
	assert_true(count_closed(fds, 200 - most, 200) < most);
	assert_int_equal(count_closed(&stream, 0, 1), 0);
	for (int i = 0; i < 200; i++)
		close(fds[i]);
	close(stream);
	http_server_stop(s);
}

static void who_finds_all_places_taken_is_told_and_not_hung_up(void **state)
{
	(void)state;
	enum { PLACES = HTTP_CONNECTIONS_PER_IP, MORE = 200 };
	struct http_server *s = start(NULL);
	static const char wait[] = "GET /held HTTP/1.1\r\n" LOCAL "\r\n";
	int fds[PLACES], more[MORE];
	char byte = 0;
	assert_int_equal(pipe(gate), 0);
	assert_int_equal(pipe(entered), 0);
	for (int i = 0; i < PLACES; i++) {
		fds[i] = dial(s);
		send(fds[i], wait, sizeof(wait) - 1, 0);
		assert_int_equal(read(entered[0], &byte, 1), 1);
	}
	for (int i = 0; i < MORE; i++)
		more[i] = dial(s);
	for (int i = 0; i < MORE; i++) {
		char text[1024];
		static const char hello_too[] = "GET /hello HTTP/1.1\r\n" LOCAL "\r\n";
		size_t len = 0;
		send(more[i], hello_too, sizeof(hello_too) - 1, MSG_NOSIGNAL);
		for (ssize_t n = 1; n > 0; len += n > 0 ? (size_t)n : 0)
			n = recv(more[i], text + len, sizeof(text) - 1 - len, 0);
		text[len] = '\0';
		assert_ptr_equal(strstr(text, "HTTP/1.1 503 "), text);
		assert_non_null(strstr(text, "Retry-After: 1"));
		assert_non_null(strstr(text, "all are being answered"));
		close(more[i]);
	}
	expect(ask(s, "POST", "/hello", LOCAL), 503, NULL);
	for (int i = 0; i < PLACES; i++)
		assert_int_equal(write(gate[1], &byte, 1), 1);
	for (int i = 0; i < PLACES; i++) {
		char text[16] = "";
		assert_int_equal(recv(fds[i], text, 12, MSG_WAITALL), 12);
		assert_string_equal(text, "HTTP/1.1 200");
		close(fds[i]);
	}
	http_server_stop(s);
	for (int i = 0; i < 2; i++) {
		close(gate[i]);
		close(entered[i]);
	}
}

static void asked(const char *what, int status, const char *has)
{
	CLEANUP(buf_fini) struct buf to = { 0 };
	assert_int_equal(http_local_ask(routes, ARRAY_LEN(routes), what, NULL, &to), status);
	if (has)
		assert_non_null(strstr(buf_cstr(&to), has));
}

static void the_same_routes_answer_without_a_server(void **state)
{
	(void)state;
	char many[400] = "/hello?";
	asked("/hello", 200, "{\"n\":7,\"flag\":0,\"tail\":\"\"}");
	asked("/hello?n=9&flag=true", 200, "{\"n\":9,\"flag\":1");
	asked("/h%65llo?%6e=1%32&&flag", 400, "'flag' is true or false");
	asked("/hello?n=-1", 400, "'n' is a whole number");
	asked("/nothing?n=1", 404, "no such path: /nothing");
	asked("/hello?n=%zz", 400, "%zz");
	for (int i = 0; i < 33; i++)
		strcat(many, "n=1&");
	asked(many, -E2BIG, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(routes_answer_and_bad_parameters_are_named),
		cmocka_unit_test(foreign_hosts_and_origins_are_refused),
		cmocka_unit_test(token_guards_and_comes_by_header_link_or_cookie),
		cmocka_unit_test(addresses_beyond_loopback_need_a_word),
		cmocka_unit_test(two_hundred_slow_clients_keep_nobody_out),
		cmocka_unit_test(who_finds_all_places_taken_is_told_and_not_hung_up),
		cmocka_unit_test(the_same_routes_answer_without_a_server),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
