/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the published front end of TezEdge's memory profiler asks, over a real socket, and what it gets, byte by byte: one question when
 * its page is opened, another when "Reversed" is ticked, and what scripts ask beside.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cmocka.h>

#include "api/tree.h"
#include "base/cleanup.h"

#define KIB 1024ull

static const struct page_module node = { .path = "/usr/bin/light-node", .name = "light-node" };
static const struct page_module libc = { .path = "/lib/libc.so.6", .name = "libc.so.6" };
static const struct page_module made = { .path = "", .name = "[jit]" };
static struct symbol names[] = {
	{ .function = "memset", .language = SYMBOL_PLAIN },
	{ .function = "read", .language = SYMBOL_PLAIN },
	{ .function = "arena::grow::h00112233445566aa", .language = SYMBOL_RUST },
	{ .function = "storage::Table<int>::load(char const*)", .language = SYMBOL_CPP },
	{ .function = "main", .language = SYMBOL_PLAIN },
};
enum { MEMSET, READ, GROW, LOAD, MAIN, NAMELESS, JIT, FRAMES };
static struct page_frame frames[FRAMES] = {
	[MEMSET] = { .module = &libc, .offset = 0x18b0b9, .file_offset = 0x18a0ba },
	[READ] = { .module = &libc, .offset = 0xf3d2f, .file_offset = 0xf2d30 },
	[GROW] = { .module = &node, .offset = 0x421f8, .file_offset = 0x411f9 },
	[LOAD] = { .module = &node, .offset = 0x501, .file_offset = 0x502 },
	[MAIN] = { .module = &node, .offset = 0x10, .file_offset = 0x11 },
	[NAMELESS] = { .module = &node, .offset = 0x99998, .file_offset = 0x99999 },
	[JIT] = { .module = &made, .offset = 0x7f0012345677, .file_offset = 0x7f0012345678 },
};

static const struct page_stack *make_stack(const unsigned *which, uint16_t count)
{
	struct page_stack *stack = calloc(1, sizeof(*stack) + count * sizeof(stack->frames[0]));
	assert_non_null(stack);
	atomic_init(&stack->refs, 1);
	stack->pid = 4711;
	stack->program = &node;
	stack->count = count;
	for (uint16_t i = 0; i < count; i++)
		stack->frames[i] = &frames[which[i]];
	return stack;
}
#define STACK(...)                              \
	make_stack((unsigned[]){ __VA_ARGS__ }, \
		   sizeof((unsigned[]){ __VA_ARGS__ }) / sizeof(unsigned))

static struct page_process *make_process(void)
{
	const struct page_row rows[] = {
		{ .bytes = 5120 * KIB, .kind = PAGES_ANON, .stack = STACK(MEMSET, GROW, MAIN) },
		{ .bytes = 300 * KIB, .kind = PAGES_ANON, .stack = STACK(MEMSET, LOAD, MAIN) },
		{ .bytes = 212 * KIB, .kind = PAGES_ANON, .stack = STACK(MEMSET, JIT, MAIN) },
		{ .bytes = 512 * KIB, .kind = PAGES_ANON, .stack = STACK(MEMSET) },
		{ .bytes = 2048 * KIB, .kind = PAGES_CACHE, .stack = STACK(READ, LOAD, MAIN) },
		{ .bytes = 640 * KIB, .kind = PAGES_FILE, .stack = STACK(NAMELESS, MAIN) },
		{ .bytes = 4 * KIB, .kind = PAGES_ANON, .stack = STACK(GROW, MAIN) },
		{ .bytes = 380 * KIB, .kind = PAGES_ANON, .reason = PAGES_BEFORE_ATTACH },
		/* neither is part of the tree unless it is asked for */
		{ .bytes = 64 * KIB, .kind = PAGES_SWAP, .stack = STACK(MEMSET, GROW, MAIN) },
		{ .bytes = 32 * KIB, .kind = PAGES_KERNEL, .stack = STACK(READ, LOAD, MAIN) },
	};
	struct page_process *process = page_process_new();
	assert_non_null(process);
	process->pid = 4711;
	process->row_count = ARRAY_LEN(rows);
	process->rows = calloc(process->row_count, sizeof(*process->rows));
	assert_non_null(process->rows);
	memcpy(process->rows, rows, sizeof(rows));
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		process->kinds[rows[i].kind] += rows[i].bytes;
	process->unattributed[PAGES_BEFORE_ATTACH] = 380 * KIB;
	process->rss_anon_bytes = process->kinds[PAGES_ANON];
	process->time_ns = UINT64_MAX; /* an age of 0 */
	return process;
}

static struct page_shot *shot;

static struct page_shot *lend(void *ctx)
{
	(void)ctx;
	return page_shot_get(shot);
}

static struct http_server *server;
static struct tree_source source = { .lend = lend };
static struct http_route routes[TREE_ROUTES];

static int begin(void **state)
{
	struct err err = { 0 };
	const struct http_opt opt = { .address = "127.0.0.1:0",
				      .routes = routes,
				      .route_count = tree_routes(&source, routes) };
	(void)state;
	for (unsigned i = 0; i < FRAMES; i++) {
		atomic_init(&frames[i].symbols, i < ARRAY_LEN(names) ? &names[i] : NULL);
		atomic_init(&frames[i].symbol_count, i < ARRAY_LEN(names));
	}
	return http_server_start(&opt, &server, &err);
}

static int end(void **state)
{
	(void)state;
	http_server_stop(server);
	page_shot_put(shot);
	return 0;
}

/* From now on there is a reading. */
static void count_pages(void)
{
	if (shot)
		return;
	shot = calloc(1, sizeof(*shot));
	assert_non_null(shot);
	atomic_init(&shot->refs, 1);
	shot->processes = calloc(1, sizeof(*shot->processes));
	assert_non_null(shot->processes);
	shot->processes[0] = make_process();
	shot->count = 1;
}

/* As a browser asks; returns the whole answer, lent until the next call. */
static const char *ask(const char *method, const char *path)
{
	static char answer[65536];
	char request[1024];
	struct sockaddr_in addr = { .sin_family = AF_INET,
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	addr.sin_port = htons((uint16_t)atoi(strrchr(http_server_url(server), ':') + 1));
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	struct timeval limit = { .tv_sec = 60 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	int len = snprintf(request, sizeof(request),
			   "%s %s HTTP/1.1\r\n"
			   "Host: localhost:%d\r\n"
			   "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36\r\n"
			   "Accept: application/json, text/plain, */*\r\n"
			   "Origin: http://localhost:4200\r\n"
			   "Referer: http://localhost:4200/\r\n"
			   "Connection: close\r\n\r\n",
			   method, path, ntohs(addr.sin_port));
	assert_int_equal(send(fd, request, (size_t)len, 0), len);
	size_t got = 0;
	for (ssize_t n; (n = recv(fd, answer + got, sizeof(answer) - 1 - got, 0)) > 0;)
		got += (size_t)n;
	answer[got] = '\0';
	close(fd);
	return answer;
}

/* Nodes have numbers that are the same while the program runs: eight digits each. */
static void without_ids(char *to, size_t room, const char *from)
{
	static const char key[] = "\"id\":\"";
	snprintf(to, room, "%s", from);
	for (char *at = to; (at = strstr(at, key));) {
		at += strlen(key);
		assert_int_equal(strspn(at, "0123456789abcdef"), 8);
		memset(at, '-', 8);
	}
}

static void expect(const char *path, unsigned status, const char *body)
{
	static char plain[65536];
	const char *answer = ask("GET", path), *at = strstr(answer, "\r\n\r\n");
	unsigned got = 0;
	assert_int_equal(sscanf(answer, "HTTP/1.1 %u", &got), 1);
	assert_int_equal(got, status);
	assert_non_null(strstr(answer, "Content-Type: application/json"));
	assert_non_null(strstr(answer, "Access-Control-Allow-Origin: http://localhost:4200"));
	assert_non_null(at);
	without_ids(plain, sizeof(plain), at + 4);
	assert_string_equal(plain, body);
}

static void before_there_is_a_target_the_tree_is_empty_and_its_number_is_zero(void **state)
{
	(void)state;
	if (shot)
		skip();
	expect("/v1/tree?threshold=512&reverse=false", 200,
	       "{\"value\":0,\"cacheValue\":0,\"frames\":[]}");
	expect("/v1/pid", 200, "0");
}

#define NODE(offset, executable, function, category, value, cache, self)                           \
	"{\"name\":{\"offset\":\"" offset "\",\"executable\":\"" executable                        \
	"\",\"functionName\":" function ",\"functionCategory\":\"" category "\"},\"value\":" value \
	",\"cacheValue\":" cache ",\"selfValue\":" self ",\"id\":\"--------\",\"frames\":["
#define PSEUDO(name, value, cache) \
	"{\"name\":\"" name "\",\"value\":" value ",\"cacheValue\":" cache "}"

static void expect_pieces(const char *path, const char *const *pieces, size_t count)
{
	CLEANUP(buf_fini) struct buf body = { 0 };
	for (size_t i = 0; i < count; i++)
		buf_puts(&body, pieces[i]);
	expect(path, 200, buf_cstr(&body));
}

static void opening_its_page_gets_the_innermost_functions_on_top(void **state)
{
	static const char *const pieces[] = {
		"{\"value\":9216,\"cacheValue\":2688,\"frames\":[",
		NODE("0018a0ba", "libc.so.6", "\"memset\"", "systemLib", "6144", "0", "512"),
		NODE("000411f9", "light-node", "\"arena::grow::h00112233445566aa\"", "nodeRust",
		     "5120", "0", "0"),
		NODE("00000011", "light-node", "\"main\"", "nodeCpp", "5120", "0", "5120"),
		"]}]},",
		PSEUDO("underThreshold", "512", "0"),
		"]},",
		NODE("000f2d30", "libc.so.6", "\"read\"", "systemLib", "2048", "2048", "0"),
		NODE("00000502", "light-node", "\"storage::Table<int>::load(char const*)\"",
		     "nodeCpp", "2048", "2048", "0"),
		NODE("00000011", "light-node", "\"main\"", "nodeCpp", "2048", "2048", "2048"),
		"]}]}]},",
		NODE("00099999", "light-node", "null", "nodeCpp", "640", "640", "0"),
		NODE("00000011", "light-node", "\"main\"", "nodeCpp", "640", "640", "640"),
		"]}]},",
		PSEUDO("underThreshold", "4", "0"),
		",",
		PSEUDO("unknown", "380", "0"),
		"]}",
	};
	(void)state;
	count_pages();
	expect_pieces("/v1/tree?threshold=512&reverse=false", pieces, ARRAY_LEN(pieces));
}

static void ticking_reversed_gets_the_same_root_with_the_outermost_on_top(void **state)
{
	static const char *const pieces[] = {
		"{\"value\":9216,\"cacheValue\":2688,\"frames\":[",
		NODE("00000011", "light-node", "\"main\"", "nodeCpp", "8324", "2688", "0"),
		NODE("000411f9", "light-node", "\"arena::grow::h00112233445566aa\"", "nodeRust",
		     "5124", "0", "4"),
		NODE("0018a0ba", "libc.so.6", "\"memset\"", "systemLib", "5120", "0", "5120"),
		"]}]},",
		NODE("00000502", "light-node", "\"storage::Table<int>::load(char const*)\"",
		     "nodeCpp", "2348", "2048", "0"),
		NODE("000f2d30", "libc.so.6", "\"read\"", "systemLib", "2048", "2048", "2048"),
		"]},",
		PSEUDO("underThreshold", "300", "0"),
		"]},",
		NODE("00099999", "light-node", "null", "nodeCpp", "640", "640", "640"),
		"]},",
		PSEUDO("underThreshold", "212", "0"),
		"]},",
		NODE("0018a0ba", "libc.so.6", "\"memset\"", "systemLib", "512", "0", "512"),
		"]},",
		PSEUDO("unknown", "380", "0"),
		"]}",
	};
	(void)state;
	count_pages();
	expect_pieces("/v1/tree?threshold=512&reverse=true", pieces, ARRAY_LEN(pieces));
}

static void whatever_was_accepted_is_and_what_was_refused_is_said(void **state)
{
	static char plain[65536];
	(void)state;
	count_pages();
	without_ids(plain, sizeof(plain),
		    strstr(ask("GET", "/v1/tree?threshold=512&reverse=false"), "\r\n\r\n") + 4);
	/* defaults, a slash at the end, parameters that nobody knows */
	expect("/v1/tree?threshold=512", 200, plain);
	expect("/v1/tree/?threshold=512&reverse=false", 200, plain);
	expect("/v1/tree?threshold=512&reverse=false&_=1732550400000", 200, plain);
	expect("/v1/pid", 200, "4711");
	expect("/v1/pid/", 200, "4711");
	/* nothing is as large as that: all of it is below, and still there */
	expect("/v1/tree?threshold=18446744073709551615", 200,
	       "{\"value\":9216,\"cacheValue\":2688,\"frames\":["
	       "{\"name\":\"underThreshold\",\"value\":8836,\"cacheValue\":2688},"
	       "{\"name\":\"unknown\",\"value\":380,\"cacheValue\":0}]}");
	expect("/v1/tree?short=true", 200,
	       "{\"total\":9216,\"cache\":2688,\"anon\":6528,\"systemReportAnon\":6528,\"file\":"
	       "640,"
	       "\"shmem\":0,\"kernel\":32,\"unattributed\":380,\"lost\":0,\"age\":0}");
	static const char *const refused[] = { "threshold=-1", "threshold=1.5", "threshold=",
					       "reverse=1",    "reverse=True",  "short=yes" };
	for (size_t i = 0; i < ARRAY_LEN(refused); i++) {
		char path[64];
		snprintf(path, sizeof(path), "/v1/tree?%s", refused[i]);
		assert_non_null(strstr(ask("GET", path), "HTTP/1.1 400 "));
		assert_non_null(strstr(ask("GET", path), "\r\n\r\n{\"error\":\""));
	}
	assert_non_null(strstr(ask("GET", "/v1/trees"), "HTTP/1.1 404 "));
	assert_non_null(strstr(ask("POST", "/v1/tree"), "HTTP/1.1 405 "));
	assert_non_null(strstr(ask("GET", "/openapi/memory-profiler-openapi.json"),
			       "{\"openapi\":\"3.0.0\""));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(before_there_is_a_target_the_tree_is_empty_and_its_number_is_zero),
		cmocka_unit_test(opening_its_page_gets_the_innermost_functions_on_top),
		cmocka_unit_test(ticking_reversed_gets_the_same_root_with_the_outermost_on_top),
		cmocka_unit_test(whatever_was_accepted_is_and_what_was_refused_is_said),
	};
	return cmocka_run_group_tests(tests, begin, end);
}
