/* SPDX-License-Identifier: Apache-2.0 */
/* Syslog messages out of a TCP stream: counted, ended by a line end, both in turn, too long, cut off; in any pieces. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/utf8.h"
#include "net/frames.h"

static struct net_frames frames;
static struct buf seen; /* messages in brackets, ~ where the end is missing */

static void on_frame(void *ctx, const char *text, size_t len, int cut)
{
	(void)ctx;
	buf_putc(&seen, '[');
	buf_put(&seen, text, len);
	buf_puts(&seen, cut ? "~]" : "]");
}

static const char *fed(const char *stream, size_t len, size_t piece)
{
	memset(&frames, 0, sizeof(frames));
	buf_clear(&seen);
	for (size_t at = 0, room; at < len;) {
		char *to = net_frames_room(&frames, &room);
		assert_true(room > 0);
		size_t n = len - at < piece ? len - at : piece;
		n = n < room ? n : room;
		memcpy(to, stream + at, n);
		at += n;
		net_frames_fed(&frames, n, 0, on_frame, NULL);
	}
	net_frames_fed(&frames, 0, 1, on_frame, NULL);
	assert_int_equal(frames.len, 0);
	return buf_cstr(&seen);
}

/* Whatever the pieces. */
static void gives(const char *stream, const char *want)
{
	for (size_t piece = 1; piece <= strlen(stream); piece++)
		assert_string_equal(fed(stream, strlen(stream), piece), want);
}

static void both_framings_may_take_turns(void **state)
{
	(void)state;
	gives("<27>1 - h a p m - x\n", "[<27>1 - h a p m - x]");
	gives("19 <27>1 - h a p m - x", "[<27>1 - h a p m - x]");
	/* a counted message may hold line ends; many senders put one behind it */
	gives("6 <1>a\nb8 <2>c d e\n<3>f\n6 <4>g h<5>i\r\n",
	      "[<1>a\nb][<2>c d e][<3>f][<4>g h][<5>i\r]");
	gives("\n\n<1>a\n\n<2>b\n", "[<1>a][<2>b]");
}

static void a_line_that_begins_with_a_number_is_a_line(void **state)
{
	(void)state;
	gives("12 monkeys\n", "[12 monkeys]");
	gives("12\n<1>a\n", "[12][<1>a]");
	gives("0 <1>a\n", "[0 <1>a]");
	gives("1234567 <1>a\n", "[1234567 <1>a]");
	gives("12<1>a\n", "[12<1>a]");
}

static void what_a_sender_leaves_behind_is_kept_and_told_as_cut(void **state)
{
	(void)state;
	gives("<1>no line end", "[<1>no line end]");
	gives("20 <1>half", "[<1>half~]");
	gives("20", "[20]");
	gives("20 ", "[20 ]");
}

static void a_message_that_is_too_long_is_cut_and_the_next_one_is_whole(void **state)
{
	(void)state;
	size_t lens[] = { NET_FRAME_MAX - 1, NET_FRAME_MAX, NET_FRAME_MAX + 1,
			  3 * NET_FRAME_MAX + 5 };
	for (size_t i = 0; i < ARRAY_LEN(lens); i++) {
		for (int counted = 0; counted < 2; counted++) {
			for (size_t first = 0; first < 2; first++) {
				CLEANUP(buf_fini) struct buf stream = { 0 };
				if (first)
					buf_puts(&stream, "<1>before\n");
				size_t from = stream.len;
				if (counted)
					buf_printf(&stream, "%zu ", lens[i]);
				size_t head = stream.len - from;
				buf_puts(&stream, "<2>");
				while (stream.len < from + head + lens[i])
					buf_putc(&stream, 'x');
				buf_puts(&stream, counted ? "9 <3>behind" : "\n<3>behind\n");
				size_t kept = lens[i] + head < NET_FRAME_MAX ? lens[i]
									     : NET_FRAME_MAX - head;
				CLEANUP(buf_fini) struct buf want = { 0 };
				buf_puts(&want, first ? "[<1>before][" : "[");
				buf_put(&want, stream.data + from + head, kept);
				/* a line is known to be whole by the line end behind it only */
				int cut = counted ? kept < lens[i] : lens[i] >= NET_FRAME_MAX;
				buf_puts(&want, cut ? "~][<3>behind]" : "][<3>behind]");
				const size_t pieces[] = { 1000, 4096, 65536, 1u << 20 };
				for (size_t p = 0; p < ARRAY_LEN(pieces); p++)
					assert_true(strcmp(fed(stream.data, stream.len, pieces[p]),
							   buf_cstr(&want)) == 0);
			}
		}
	}
}

static void a_text_that_was_cut_ends_with_a_whole_letter(void **state)
{
	(void)state;
	const struct {
		const char *text;
		size_t cut;
	} cases[] = { { "", 0 },
		      { "a", 0 },
		      { "\xc3\xa4", 0 },
		      { "a\xc3", 1 },
		      { "\xe2\x82", 2 },
		      { "\xe2\x82\xac", 0 },
		      { "\xf0\x9f\x98", 3 },
		      { "\xf0\x9f", 2 },
		      { "\xf0\x9f\x98\x80", 0 },
		      { "\xe2", 1 },
		      { "\x82\x82", 0 },
		      { "\xff", 0 } };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(utf8_cut(cases[i].text, strlen(cases[i].text)), cases[i].cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_framings_may_take_turns),
		cmocka_unit_test(a_line_that_begins_with_a_number_is_a_line),
		cmocka_unit_test(what_a_sender_leaves_behind_is_kept_and_told_as_cut),
		cmocka_unit_test(a_message_that_is_too_long_is_cut_and_the_next_one_is_whole),
		cmocka_unit_test(a_text_that_was_cut_ends_with_a_whole_letter),
	};
	int rc = cmocka_run_group_tests(tests, NULL, NULL);
	buf_fini(&seen);
	return rc;
}
