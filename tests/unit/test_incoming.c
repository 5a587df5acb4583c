/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <endian.h>
#include <errno.h>

#include "base/token.h"
#include "recorder/incoming.h"
#include "trace/block.h"

static struct wire_send_hello good_hello(void)
{
	const struct blt_file_header header = { .version = 3, .realtime_ns = 7 };
	struct wire_send_hello hello = { .version = htole32(WIRE_SEND_VERSION),
					 .pid = htole32(7),
					 .name = "a.blt",
					 .token = "word" };
	memcpy(hello.magic, WIRE_SEND_MAGIC, sizeof(hello.magic));
	blt_file_header_put(hello.header, &header);
	return hello;
}

/* The first thing in @bytes. */
static int first(const void *bytes, size_t count, struct incoming_item *item)
{
	static struct incoming in;
	const uint8_t *at = bytes;
	in = (struct incoming){ 0 };
	return incoming_take(&in, &at, &count, item);
}

static void a_hello_is_taken_whole_and_byte_by_byte(void **state)
{
	const struct wire_send_hello hello = good_hello();
	struct incoming_item item;
	(void)state;
	assert_int_equal(first(&hello, sizeof(hello), &item), 1);
	assert_int_equal(item.kind, INCOMING_HELLO);
	assert_string_equal(item.hello->name, "a.blt");
	struct incoming in = { 0 };
	for (size_t i = 0; i < sizeof(hello); i++) {
		const uint8_t *at = (const uint8_t *)&hello + i;
		size_t left = 1;
		assert_int_equal(incoming_take(&in, &at, &left, &item), i == sizeof(hello) - 1);
		assert_int_equal(left, 0);
	}
	assert_string_equal(item.hello->token, "word");
}

static void what_is_no_hello_is_known_by_its_first_bytes(void **state)
{
	struct wire_send_hello hello = good_hello();
	struct incoming_item item;
	(void)state;
	assert_int_equal(first("GET / HTTP/1.1\r\n", 16, &item), -EBADMSG);
	assert_int_equal(first("BLTX", 4, &item), -EBADMSG);
	assert_int_equal(first("BLTS", 4, &item), 0);
	hello.version = htole32(2);
	assert_int_equal(first(&hello, sizeof(hello), &item), -EPROTO);
	hello = good_hello();
	hello.header[40] ^= 1; /* its checksum differs */
	assert_int_equal(first(&hello, sizeof(hello), &item), -EBADMSG);
	hello = good_hello();
	memset(hello.name, 'x', sizeof(hello.name));
	assert_int_equal(first(&hello, sizeof(hello), &item), -EBADMSG);
	hello = good_hello();
	memset(hello.token, 'x', sizeof(hello.token));
	assert_int_equal(first(&hello, sizeof(hello), &item), -EBADMSG);
}

/* Behind a hello. */
static int frame(uint32_t type, uint32_t bytes, uint64_t offset, const char *more,
		 struct incoming_item *item)
{
	static uint8_t text[1024];
	static struct incoming in;
	const struct wire_send_hello hello = good_hello();
	const struct wire_send_frame head = { htole32(type), htole32(bytes), htole64(offset) };
	const uint8_t *at = text;
	size_t left = sizeof(hello) + sizeof(head) + strlen(more);
	memcpy(text, &hello, sizeof(hello));
	memcpy(text + sizeof(hello), &head, sizeof(head));
	memcpy(text + sizeof(hello) + sizeof(head), more, strlen(more));
	in = (struct incoming){ 0 };
	assert_int_equal(incoming_take(&in, &at, &left, item), 1);
	return incoming_take(&in, &at, &left, item);
}

static void frames_say_where_their_bytes_belong(void **state)
{
	struct incoming_item item;
	(void)state;
	assert_int_equal(frame(WIRE_SEND_DATA, 5, 64, "abc", &item), 1);
	assert_int_equal(item.kind, INCOMING_DATA);
	assert_int_equal(item.count, 3);
	assert_int_equal(item.at, 64);
	assert_memory_equal(item.bytes, "abc", 3);
	assert_int_equal(frame(WIRE_SEND_END, 0, 99, "", &item), 1);
	assert_int_equal(item.kind, INCOMING_END);
	assert_int_equal(item.at, 99);
	assert_int_equal(frame(WIRE_SEND_ALIVE, 0, 0, "", &item), 1);
	assert_int_equal(item.kind, INCOMING_ALIVE);
	assert_int_equal(frame(WIRE_SEND_DROP, 0, 0, "", &item), 1);
	assert_int_equal(item.kind, INCOMING_DROP);
}

static void frames_that_break_a_rule_end_the_conversation(void **state)
{
	struct incoming_item item;
	(void)state;
	assert_int_equal(frame(WIRE_SEND_DATA, 0, 64, "", &item), -EBADMSG);
	assert_int_equal(frame(WIRE_SEND_DATA, WIRE_SEND_DATA_MAX + 1, 64, "", &item), -EBADMSG);
	assert_int_equal(frame(WIRE_SEND_DATA, 1, UINT64_MAX, "a", &item), -EBADMSG);
	assert_int_equal(frame(WIRE_SEND_END, 1, 64, "a", &item), -EBADMSG);
	assert_int_equal(frame(WIRE_SEND_DROP, 1, 64, "a", &item), -EBADMSG);
	assert_int_equal(frame(0, 0, 0, "", &item), -EBADMSG);
	assert_int_equal(frame(5, 0, 0, "", &item), -EBADMSG);
}

static void names_lead_nowhere_else(void **state)
{
	static const char *const cases[][2] = {
		{ "a.blt", "a.blt" },
		{ "a.blt.12", "a.blt.12" },
		{ "a", "a.blt" },
		{ "a.12", "a.12.blt" },
		{ "", "recording.blt" },
		{ "/", "recording.blt" },
		{ "../../etc/passwd", "passwd.blt" },
		{ "..", "_..blt" },
		{ ".blt", "_blt.blt" },
		{ "a\x1b[0m b\n.blt", "a__0m_b_.blt" },
		{ "\xc3\xa4.blt", "__.blt" },
	};
	char to[INCOMING_NAME], most[300];
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		incoming_name(cases[i][0], to);
		assert_string_equal(to, cases[i][1]);
	}
	memset(most, 'n', sizeof(most) - 1);
	most[sizeof(most) - 1] = '\0';
	incoming_name(most, to);
	assert_int_equal(strlen(to), INCOMING_NAME - 4);
}

static void an_answer_is_one_or_nothing(void **state)
{
	struct wire_send_answer answer = { .status = htole32(WIRE_SEND_FULL), .held = htole64(7) };
	uint64_t held = 0;
	(void)state;
	assert_int_equal(incoming_answer(&answer, &held), -EPROTO);
	memcpy(answer.magic, WIRE_SEND_MAGIC, sizeof(answer.magic));
	assert_int_equal(incoming_answer(&answer, &held), WIRE_SEND_FULL);
	assert_int_equal(held, 7);
	answer.status = htole32(WIRE_SEND_REFUSED + 1);
	assert_int_equal(incoming_answer(&answer, &held), -EPROTO);
}

static void a_token_is_the_whole_word(void **state)
{
	(void)state;
	assert_true(token_same("abcdefgh", "abcdefgh"));
	assert_false(token_same("abcdefg", "abcdefgh"));
	assert_false(token_same("abcdefghi", "abcdefgh"));
	assert_false(token_same("", "abcdefgh"));
	assert_false(token_same("Abcdefgh", "abcdefgh"));
	assert_false(token_same("abcdefgH", "abcdefgh"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_is_taken_whole_and_byte_by_byte),
		cmocka_unit_test(what_is_no_hello_is_known_by_its_first_bytes),
		cmocka_unit_test(frames_say_where_their_bytes_belong),
		cmocka_unit_test(frames_that_break_a_rule_end_the_conversation),
		cmocka_unit_test(names_lead_nowhere_else),
		cmocka_unit_test(an_answer_is_one_or_nothing),
		cmocka_unit_test(a_token_is_the_whole_word),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
