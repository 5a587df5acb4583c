/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>

#include "out/text_impl.h"
#include "out/wrap.h"

static void check_name(const char *from, const char *want)
{
	CLEANUP(buf_fini) struct buf b = { 0 };
	text_short_name(&b, from, 1);
	if (strcmp(buf_cstr(&b), want) != 0)
		fail_msg("'%s' became '%s', not '%s'", from, buf_cstr(&b), want);
}

static void names_lose_what_nobody_reads(void **state)
{
	(void)state;
	check_name("main", "main");
	check_name("ns::f(int, char const*)", "ns::f");
	check_name("ns::C::f() const", "ns::C::f");
	check_name("void ns::f<int, std::vector<char> >(int)", "ns::f<..>");
	check_name("std::vector<int, std::allocator<int> >::push_back(int&&)",
		   "std::vector<..>::push_back");
	check_name("std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char> "
		   ">::reserve(unsigned long)",
		   "std::string::reserve");
	check_name("std::map<a, b>::operator[](a const&)", "std::map<..>::operator[]");
	check_name("C::operator()(int) const", "C::operator()");
	check_name("bool ns::operator< <int>(C<int> const&, C<int> const&)", "ns::operator< <..>");
	check_name("std::ostream& operator<<(std::ostream&, X)", "operator<<");
	check_name("C::operator->() const", "C::operator->");
	check_name("operator new(unsigned long)", "operator new");
	check_name("(anonymous namespace)::f(int)", "(anon)::f");
	check_name("a::(anonymous namespace)::B<int>::g(int)", "a::(anon)::B<..>::g");
	check_name("f(int)::{lambda(char)#1}::operator()(char) const", "f::{lambda#1}::operator()");
	check_name("C::f(int) [clone .part.0]", "C::f");
	check_name("C::f[abi:cxx11](int)", "C::f");
	check_name(
		"unsigned long std::max<unsigned long>(unsigned long const&, unsigned long const&)",
		"std::max<..>");
	check_name("core::ptr::drop_in_place<alloc::vec::Vec<u8>>", "core::ptr::drop_in_place<..>");
	check_name("<alloc::vec::Vec<T> as core::ops::drop::Drop>::drop", "Vec::drop");
	check_name("<&mut W as core::fmt::Write>::write_str", "W::write_str");
	check_name("<dyn core::ops::function::Fn<()> as core::any::Any>::type_id", "Fn::type_id");
	check_name("demo::run::h0123456789abcdef", "demo::run");
	check_name("LazyCompile:*foo bar.js:12", "LazyCompile:*foo bar.js:12");
	check_name("strings.(*Builder).grow", "strings.(*Builder).grow");
	check_name("a/b.(*T[go.shape.int]).f.func1", "a/b.(*T[go.shape.int]).f.func1");
	check_name("a.(*b", "a.(*b");
	check_name("<unbalanced", "<unbalanced");
	check_name("f(((", "f");
	check_name("a<b", "a<b");
	check_name("", "");
}

static void scopes_are_left_off_from_outside_where_room_is_short(void **state)
{
	(void)state;
	assert_string_equal(text_inner_name("a::b::c", 7), "a::b::c");
	assert_string_equal(text_inner_name("a::b::c", 6), "b::c");
	assert_string_equal(text_inner_name("a::b::c", 1), "c");
	assert_string_equal(text_inner_name("A<x::y>::f", 5), "f");
	assert_string_equal(text_inner_name("longname", 3), "longname");
	assert_string_equal(text_inner_name("a<b::c", 3), "c");
	assert_string_equal(text_inner_name("a::C::operator()", 3), "C::operator()");
	assert_string_equal(text_inner_name("ends::", 2), "ends::");
}

static void outer_template_arguments_tell_functions_apart(void **state)
{
	(void)state;
	CLEANUP(buf_fini) struct buf b = { 0 };
	text_argument_name(&b, "std::__new_allocator<std::pair<int const, X> >::allocate(unsigned)",
			   1);
	assert_string_equal(buf_cstr(&b), "std::__new_allocator<std::pair<..>>::allocate");
	buf_clear(&b);
	text_argument_name(&b, "void f<int, A<B<C> > >(int)", 1);
	assert_string_equal(buf_cstr(&b), "f<int, A<..>>");
	buf_clear(&b);
	text_argument_name(&b, "f<unbalanced", 1);
	assert_string_equal(buf_cstr(&b), "f<unbalanced");
}

static void a_name_gives_way_only_where_there_is_no_room_for_it(void **state)
{
	static const struct {
		size_t columns;
		const char *shown;
	} cases[] = {
		{ 80, "v8::internal::Heap::Allocate(unsigned long, int)" },
		{ 48, "v8::internal::Heap::Allocate(unsigned long, int)" },
		{ 47, "v8::internal::Heap::Allocate" },
		{ 20, "Heap::Allocate" },
		{ 8, "Allocate" },
		{ 6, "Allo.." },
		{ 1, ".." },
	};
	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct buf b = { 0 };
		text_name_within(&b, "v8::internal::Heap::Allocate(unsigned long, int)",
				 cases[i].columns, 1);
		assert_string_equal(buf_cstr(&b), cases[i].shown);
		buf_fini(&b);
	}
}

static void names_cannot_steer_the_terminal(void **state)
{
	(void)state;
	check_name("evil\033[2J\nname", "evil\\x1b[2J\\x0aname");
	check_name("\xc2\x9b"
		   "31m",
		   "\\xc2\\x9b31m");
	check_name("\xe2\x80\xae"
		   "abc",
		   "\\xe2\\x80\\xae"
		   "abc");
	check_name("caf\xc3\xa9", "caf\\xc3\\xa9");
	check_name("\xff\xfe", "\\xff\\xfe");
	CLEANUP(buf_fini) struct buf b = { 0 };
	text_short_name(&b, "caf\xc3\xa9\x7f", 0);
	assert_string_equal(buf_cstr(&b), "caf\xc3\xa9\\x7f");
}

static void frames_are_told_apart_by_their_names(void **state)
{
	(void)state;
	static const struct {
		const char *name;
		enum view_role role;
	} cases[] = {
		{ "main", VIEW_OWN },
		{ "xmalloc", VIEW_HELPER },
		{ "sqlite3DbMallocZero", VIEW_HELPER },
		{ "g_strdup", VIEW_HELPER },
		{ "std::vector<int>::push_back(int)", VIEW_STANDARD },
		{ "void std::vector<int>::emplace_back<int>(int&&)", VIEW_STANDARD },
		{ "f(std::allocator<char>)", VIEW_OWN },
		{ "void f<int>(std::vector<int>)", VIEW_OWN },
		{ "alloc::raw_vec::finish_grow", VIEW_STANDARD },
		{ "<u64 as core::fmt::Display>::fmt", VIEW_STANDARD },
		{ "<&mut W as core::fmt::Write>::write_str", VIEW_STANDARD },
		{ "<dyn core::any::Any>::is", VIEW_STANDARD },
		{ "<demo::Order as core::fmt::Display>::fmt", VIEW_OWN },
		{ "std::sys::backtrace::__rust_begin_short_backtrace", VIEW_START },
		{ "__libc_start_main_impl", VIEW_START },
		{ "_start", VIEW_START },
		{ "start_thread", VIEW_START },
		{ NULL, VIEW_OWN },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (view_role(cases[i].name) != cases[i].role)
			fail_msg("%s: role %d, not %d", cases[i].name, view_role(cases[i].name),
				 cases[i].role);
	}
}

static void numbers_keep_three_digits(void **state)
{
	(void)state;
	char to[TEXT_NUMBER_MAX];
	assert_string_equal(text_bytes(to, 0), "0 B");
	assert_string_equal(text_bytes(to, 1023), "1023 B");
	assert_string_equal(text_bytes(to, 1024), "1.00 KiB");
	assert_string_equal(text_bytes(to, 1048575), "1.00 MiB");
	assert_string_equal(text_bytes(to, UINT64_MAX), "16.0 EiB");
	assert_string_equal(text_count(to, 9999), "9999");
	assert_string_equal(text_count(to, 10000), "10.0 k");
	assert_string_equal(text_grouped(to, 1234567), "1,234,567");
	assert_string_equal(text_grouped(to, 999), "999");
	assert_string_equal(text_duration(to, 0), "0 ns");
	assert_string_equal(text_duration(to, 1500000), "1.50 ms");
	assert_string_equal(text_duration(to, 99000000000), "99.0 s");
	assert_string_equal(text_duration(to, 125000000000), "2 min 05 s");
	assert_string_equal(text_duration(to, 10920000000000), "3 h 02 min");
	assert_string_equal(text_percent(to, 1, 1000000), "<0.1 %");
	assert_string_equal(text_percent(to, 1, 0), "-");
	assert_string_equal(text_percent(to, 5, 5), "100 %");
}

static void text_is_cut_by_columns_not_bytes(void **state)
{
	(void)state;
	CLEANUP(buf_fini) struct buf b = { 0 };
	struct page page = { .to = &b, .width = 10 };
	assert_int_equal(page_text(&page, "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9", 4), 4);
	assert_string_equal(buf_cstr(&b), "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9");
	buf_clear(&b);
	/* two columns a character: the last one does not fit beside the ellipsis, a blank fills up */
	assert_int_equal(page_text(&page, "\xe6\xbc\xa2\xe5\xad\x97\xe6\xbc\xa2", 4), 4);
	assert_string_equal(buf_cstr(&b), "\xe6\xbc\xa2\xe2\x80\xa6 ");
}

static char *render(const struct prof *prof, int width, int colour)
{
	char *text = NULL;
	size_t len;
	FILE *to = open_memstream(&text, &len);
	struct out_opt opt = { .width = width, .colour = colour };
	struct err err = { 0 };
	if (out_text(to, prof, &opt, &err) < 0)
		fail_msg("%s", err.msg);
	fclose(to);
	return text;
}

static void what_stands_at_the_end_of_a_line_stands_apart(void **state)
{
	char *text = NULL;
	size_t size = 0;
	FILE *to = open_memstream(&text, &size);
	(void)state;
	assert_non_null(to);
	/* "one two three" would leave one blank only */
	out_wrap_beside(to, 20, 0, "one two three four", "18 MiB");
	out_wrap_beside(to, 20, 0, "one two four", "18 MiB");
	fclose(to);
	assert_string_equal(text, "one two       18 MiB\nthree four\none two four  18 MiB\n");
	free(text);
}

static void losses_come_before_any_figure(void **state)
{
	(void)state;
	struct prof *prof = prof_new(NULL);
	struct sink *sink = prof_sink(prof);
	sink->define(sink,
		     &(struct def){ .kind = DEF_PROCESS, .process = { .pid = 9, .exe = "/bin/x" } },
		     NULL);
	struct event lost = {
		.kind = EVENT_LOST, .value = LOSS_RING_FULL, .addr = 1234, .bytes = 4096
	};
	struct event unknown = { .kind = EVENT_LOST, .value = LOSS_RECORDER_DIED };
	struct event one = { .kind = EVENT_LOST, .value = LOSS_NO_SLOT, .addr = 1 };
	sink->put(sink, &lost, 1, NULL);
	sink->put(sink, &one, 1, NULL);
	sink->put(sink, &unknown, 1, NULL);
	char *text = render(prof, 100, 0);
	char *at = strstr(text, "LOST: 1,234 events (ring_full), 1 event (no_slot), an unknown "
				"number of events (recorder_died)");
	assert_non_null(at);
	assert_true(at < strstr(text, "Peak heap"));
	assert_null(strchr(text, '\033'));
	free(text);
	text = render(prof, 100, 1);
	assert_non_null(strstr(text, "\033[1;31mLOST"));
	free(text);
	prof_free(prof);
}

/* The heading's words on threads where the last of @count threads has @name. */
static void check_threads(uint32_t count, const char *name, const char *want, const char *json)
{
	struct prof *prof = prof_new(NULL);
	struct sink *sink = prof_sink(prof);
	for (uint32_t i = 0; i < count; i++) {
		struct def def = { .kind = DEF_THREAD, .id = i };
		def.thread.tid = i + 1 < count ? i + 1 : 0;
		def.thread.name = i + 1 < count ? "worker" : name;
		sink->define(sink, &def, NULL);
		struct event alloc = { .kind = EVENT_ALLOC, .addr = 4096 + i, .bytes = 8 };
		alloc.thread.v = i;
		sink->put(sink, &alloc, 1, NULL);
	}
	char *text = render(prof, 100, 0);
	if (!strstr(text, want))
		fail_msg("no '%s' in %s", want, text);
	free(text);
	size_t size;
	FILE *to = open_memstream(&text, &size);
	assert_int_equal(out_json(to, prof, &(struct out_opt){ 0 }, NULL), 0);
	fclose(to);
	if (!strstr(text, json))
		fail_msg("no '%s' in %s", json, text);
	free(text);
	prof_free(prof);
}

static void a_row_that_threads_share_is_not_counted_as_one(void **state)
{
	(void)state;
	check_threads(3, THREADS_FURTHER, "from more than 2 threads",
		      "\"threads\":3,\"threads_exact\":false,\"stacks\"");
	check_threads(3, "worker", "from 3 threads", "\"threads\":3,\"stacks\"");
	check_threads(1, NULL, "from 1 thread", "\"threads\":1,\"stacks\"");
}

static void json_lines_name_threads_and_mark_frees_that_nobody_saw(void **state)
{
	(void)state;
	struct prof *prof = prof_new(NULL);
	struct sink *sink = prof_sink(prof);
	const char *const names[] = { "main", NULL, "worker" };
	for (uint32_t i = 0; i < 3; i++) {
		struct def def = { .kind = DEF_THREAD, .id = i };
		def.thread.tid = 10 + i;
		def.thread.name = names[i];
		sink->define(sink, &def, NULL);
	}
	struct event events[] = {
		{ .kind = EVENT_ALLOC, .addr = 4096, .bytes = 8 },
		{ .kind = EVENT_FREE, .addr = 4096, .bytes = 8, .flags = EVENT_F_IMPLIED },
		{ .kind = EVENT_ALLOC, .addr = 4096, .bytes = 8, .flags = EVENT_F_INHERITED },
		{ .kind = EVENT_FREE, .addr = 4096, .bytes = 8 },
	};
	sink->put(sink, events, ARRAY_LEN(events), NULL);
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	struct out_stream *stream = out_jsonl_new(to, prof, NULL);
	struct sink *lines = out_stream_sink(stream);
	assert_int_equal(lines->put(lines, events, ARRAY_LEN(events), NULL), 0);
	assert_int_equal(out_stream_finish(stream, NULL), 0);
	fclose(to);
	const char *const wanted[] = {
		"{\"event\":\"process\"",
		"{\"event\":\"thread\",\"tid\":10,\"name\":\"main\"}",
		"{\"event\":\"thread\",\"tid\":12,\"name\":\"worker\"}",
		"\"tid\":10,\"address\":\"0x1000\",\"bytes\":8,\"block\":0}",
		"\"temporary\":false,\"implied\":true}",
		"\"block\":0,\"inherited\":true}",
		"\"temporary\":false}",
		"{\"event\":\"end\"",
	};
	char *line = text;
	for (size_t i = 0; i < ARRAY_LEN(wanted); i++) {
		char *end = strchr(line, '\n');
		assert_non_null(end);
		*end = '\0';
		if (!strstr(line, wanted[i]))
			fail_msg("no '%s' in line %zu: %s", wanted[i], i, line);
		line = end + 1;
	}
	assert_int_equal(*line, 0);
	free(text);
	prof_free(prof);
}

/* What @format writes of @events with @names; NULL: it refused them. */
static char *export_of(struct out_stream *(*format)(FILE *, const struct prof *, struct err *),
		       const struct prof *names, const struct event *events, size_t count,
		       struct err *err)
{
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	struct out_stream *stream = format(to, names, err);
	struct sink *sink = out_stream_sink(stream);
	int rc = sink->put(sink, events, count, err);
	if (rc == 0)
		rc = out_stream_finish(stream, err);
	else
		out_stream_free(stream);
	fclose(to);
	if (rc == 0)
		return text;
	free(text);
	return NULL;
}

static struct prof *one_thread(void)
{
	struct prof *prof = prof_new(NULL);
	const struct def def = { .kind = DEF_THREAD, .thread = { .tid = 1 } };
	prof_sink(prof)->define(prof_sink(prof), &def, NULL);
	return prof;
}

static void sums_of_other_formats_stay_at_the_largest_number(void **state)
{
	(void)state;
	const uint64_t age = UINT64_MAX / 5;
	const struct event events[] = {
		{ .kind = EVENT_CULLED,
		  .addr = 1ull << 61,
		  .bytes = 1ull << 63,
		  .value = 5ull << 56 },
		{ .kind = EVENT_CULLED,
		  .addr = 1ull << 61,
		  .bytes = 1ull << 63,
		  .value = 5ull << 56 },
		{ .kind = EVENT_ALLOC, .addr = 4096, .bytes = 1ull << 63 },
		{ .kind = EVENT_FREE, .addr = 4096, .bytes = 1ull << 63, .time_ns = age },
		{ .kind = EVENT_ALLOC, .addr = 4096, .bytes = 1ull << 63, .time_ns = age },
	};
	struct prof *prof = one_thread();
	struct err err = { 0 };
	for (size_t i = 2; i < ARRAY_LEN(events); i++)
		assert_int_equal(prof_sink(prof)->put(prof_sink(prof), &events[i], 1, &err), 0);
	char *text = export_of(out_dhat_new, prof, events, ARRAY_LEN(events), &err);
	assert_non_null(text);
	const char *const all = "\"tb\":18446744073709551615,\"tbk\":4611686018427387906,"
				"\"tl\":18446744073709551615,\"mb\":9223372036854775808,";
	if (!strstr(text, all))
		fail_msg("no '%s' in %s", all, text);
	free(text);
	text = export_of(out_heaptrack_new, prof, events, ARRAY_LEN(events), &err);
	assert_non_null(text);
	const char *const culled =
		"# culled: 4611686018427387904 allocations, 18446744073709551615 bytes\n";
	if (!strstr(text, culled))
		fail_msg("no '%s' in %s", culled, text);
	free(text);
	prof_free(prof);
}

static void more_than_can_live_is_refused_where_only_a_summary_was_read(void **state)
{
	(void)state;
	struct event events[3];
	for (uint32_t i = 0; i < 3; i++)
		events[i] = (struct event){
			.kind = EVENT_ALLOC, .addr = 4096 * i, .bytes = 1ull << 63, .block = { i }
		};
	struct prof *prof = one_thread();
	struct err err = { 0 };
	assert_null(export_of(out_massif_new, prof, events, 3, &err));
	assert_int_equal(err.code, -EBADMSG);
	err = (struct err){ 0 };
	assert_null(export_of(out_dhat_new, prof, events, 3, &err));
	assert_int_equal(err.code, -EBADMSG);
	prof_free(prof);
}

/* A function that calls itself @depth times, and 40 times beside it another one; blocks are kept on the way. */
static struct prof *recursion(uint32_t depth)
{
	static const char *const names[] = { "main", "execute_what_was_parsed",
					     "evaluate_an_expression", "remember" };
	struct prof *prof = prof_new(NULL);
	struct sink *sink = prof_sink(prof);
	for (uint32_t i = 0; i < ARRAY_LEN(names); i++) {
		struct symbol symbol = { .function = names[i] };
		struct def frame = { .kind = DEF_FRAME, .id = i, .frame = { .offset = 16 * i } };
		struct def def = { .kind = DEF_SYMBOL, .id = i, .symbol = { &symbol, 1 } };
		sink->define(sink, &frame, NULL);
		sink->define(sink, &def, NULL);
	}
	struct def thread = { .kind = DEF_THREAD, .thread = { .tid = 1 } };
	sink->define(sink, &thread, NULL);
	uint32_t inner = 0, block = 0;
	for (uint32_t i = 0; i <= depth; i++) {
		struct def def = { .kind = DEF_STACK,
				   .id = 2 * i + 1,
				   .stack = { { inner }, { 0 }, 0 } };
		def.stack.frame.v = i == 0 ? 0 : 1 + (i % 40 == 0);
		sink->define(sink, &def, NULL);
		inner = def.id;
		def = (struct def){ .kind = DEF_STACK,
				    .id = inner + 1,
				    .stack = { { inner }, { 3 }, 0 } };
		sink->define(sink, &def, NULL);
		struct event alloc = { .kind = EVENT_ALLOC, .stack = { inner + 1 } };
		/* most of it where the recursion begins, and at its end */
		alloc.bytes = i < 5 || i == depth ? 1000 * (depth + 40) : 1;
		alloc.addr = 4096 + 16 * (uint64_t)block;
		alloc.block.v = block++;
		sink->put(sink, &alloc, 1, NULL);
	}
	return prof;
}

static void check_width(const struct prof *prof, int width, int ascii, int inverted)
{
	struct out_opt opt = { .width = width, .ascii = ascii, .inverted = inverted };
	char *text;
	size_t size;
	FILE *to = open_memstream(&text, &size);
	assert_int_equal(out_text(to, prof, &opt, NULL), 0);
	fclose(to);
	assert_non_null(strstr(text, "Call tree"));
	/* what a chain has no room for is counted where there is room for the count */
	if (width >= 60)
		assert_non_null(strstr(text, " more\n"));
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
		if (text_columns(line) > (size_t)width)
			fail_msg("%zu columns, not %d: '%s'", text_columns(line), width, line);
	free(text);
}

static void no_line_is_wider_than_the_page(void **state)
{
	(void)state;
	struct prof *prof = recursion(600);
	for (int width = 40; width <= 120; width += 4)
		for (int way = 0; way < 4; way++)
			check_width(prof, width, way & 1, way >> 1);
	prof_free(prof);
	prof = recursion(12000); /* numbers of five digits */
	check_width(prof, 40, 1, 0);
	prof_free(prof);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_lose_what_nobody_reads),
		cmocka_unit_test(scopes_are_left_off_from_outside_where_room_is_short),
		cmocka_unit_test(outer_template_arguments_tell_functions_apart),
		cmocka_unit_test(a_name_gives_way_only_where_there_is_no_room_for_it),
		cmocka_unit_test(names_cannot_steer_the_terminal),
		cmocka_unit_test(frames_are_told_apart_by_their_names),
		cmocka_unit_test(numbers_keep_three_digits),
		cmocka_unit_test(text_is_cut_by_columns_not_bytes),
		cmocka_unit_test(no_line_is_wider_than_the_page),
		cmocka_unit_test(what_stands_at_the_end_of_a_line_stands_apart),
		cmocka_unit_test(losses_come_before_any_figure),
		cmocka_unit_test(json_lines_name_threads_and_mark_frees_that_nobody_saw),
		cmocka_unit_test(sums_of_other_formats_stay_at_the_largest_number),
		cmocka_unit_test(more_than_can_live_is_refused_where_only_a_summary_was_read),
		cmocka_unit_test(a_row_that_threads_share_is_not_counted_as_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
