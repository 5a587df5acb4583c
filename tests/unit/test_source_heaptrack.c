/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "source/heaptrack.h"
#include "source/heaptrack_lines.h"

/* A sink that keeps the books in the plainest way and breaks off the test where the producer breaks a rule. */
struct books {
	struct sink sink;
	uint64_t allocations, bytes, frees, foreign, temporary, live, peak, peak_ns,
		lost_allocations, lost_frees, peak_rss, runtime_ns;
	uint32_t modules, frames, stacks, processes, threads;
	int complete, ended;
	uint64_t last_ns;
	struct {
		int live;
		uint64_t bytes, addr;
		uint32_t stack;
	} block[1000];
	uint32_t parent[1000], frame[1000];
	/* "frame:function@file:line<inlined-into ..." a line each */
	char names[8192];
	char module_names[2048], cmdline[256], exe[256];
};

static int keep_definition(struct sink *sink, const struct def *def, struct err *err)
{
	struct books *books = (struct books *)sink;
	(void)err;
	assert_true(def->kind == DEF_PROCESS || books->processes);
	size_t used = strlen(books->names);
	switch (def->kind) {
	case DEF_PROCESS:
		books->processes++;
		books->ended = def->process.ended;
		books->complete = def->process.complete;
		books->runtime_ns = def->process.runtime_ns;
		books->peak_rss = def->process.peak_rss_bytes;
		snprintf(books->exe, sizeof(books->exe), "%s",
			 def->process.exe ? def->process.exe : "(none)");
		books->cmdline[0] = '\0';
		for (size_t i = 0; i < def->process.cmdline_bytes && i < 255; i++) {
			char c = def->process.cmdline[i];
			books->cmdline[i] = c ? c : '|';
			books->cmdline[i + 1] = '\0';
		}
		break;
	case DEF_THREAD:
		books->threads++;
		break;
	case DEF_MODULE:
		assert_int_equal(def->id, ++books->modules);
		strcat(books->module_names, def->module.path);
		strcat(books->module_names, ";");
		break;
	case DEF_FRAME:
		assert_int_equal(def->id, ++books->frames);
		assert_true(def->frame.module.v <= books->modules);
		snprintf(books->names + used, sizeof(books->names) - used, "%u=%u+%llx\n", def->id,
			 def->frame.module.v, (unsigned long long)def->frame.offset);
		break;
	case DEF_STACK:
		assert_int_equal(def->id, ++books->stacks);
		assert_true(def->stack.parent.v < def->id);
		assert_true(def->stack.frame.v && def->stack.frame.v <= books->frames);
		if (def->id < 1000) {
			books->parent[def->id] = def->stack.parent.v;
			books->frame[def->id] = def->stack.frame.v;
		}
		break;
	case DEF_SYMBOL:
		assert_true(def->id && def->id <= books->frames);
		for (uint32_t i = 0; i < def->symbol.count; i++) {
			const struct symbol *symbol = &def->symbol.symbols[i];
			assert_int_equal(symbol->inlined, i + 1 < def->symbol.count);
			used = strlen(books->names);
			snprintf(books->names + used, sizeof(books->names) - used, " %s@%s:%u%s",
				 symbol->function ? symbol->function : "?",
				 symbol->file ? symbol->file : "?", symbol->line,
				 symbol->inlined ? "<" : "\n");
		}
		break;
	case DEF_RULE:
		assert_true(def->rule.pattern[0]);
		break;
	}
	return 0;
}

static int keep_events(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct books *books = (struct books *)sink;
	(void)err;
	assert_int_equal(books->threads, 1);
	for (size_t i = 0; i < count; i++) {
		const struct event *event = &events[i];
		assert_true(event->time_ns >= books->last_ns);
		books->last_ns = event->time_ns;
		assert_true(event->stack.v <= books->stacks);
		uint32_t b = event->block.v;
		switch (event->kind) {
		case EVENT_ALLOC:
			assert_true(b < 1000 && !books->block[b].live);
			books->block[b].live = 1;
			books->block[b].bytes = event->bytes;
			books->block[b].addr = event->addr;
			books->block[b].stack = event->stack.v;
			books->allocations++;
			books->bytes += event->bytes;
			books->live += event->bytes;
			if (books->live > books->peak) {
				books->peak = books->live;
				books->peak_ns = event->time_ns;
			}
			break;
		case EVENT_FREE:
			assert_true(b < 1000 && books->block[b].live);
			assert_int_equal(books->block[b].bytes, event->bytes);
			assert_int_equal(books->block[b].addr, event->addr);
			assert_int_equal(books->block[b].stack, event->stack.v);
			books->block[b].live = 0;
			books->frees++;
			books->temporary += event->flags & EVENT_F_TEMPORARY ? 1 : 0;
			books->live -= event->bytes;
			break;
		case EVENT_FREE_FOREIGN:
			books->foreign++;
			break;
		case EVENT_LOST:
			assert_int_equal(event->value, LOSS_FILE_DAMAGED);
			books->lost_allocations += event->addr;
			books->lost_frees += b;
			break;
		case EVENT_RSS:
			break;
		default:
			fail_msg("unexpected event %u", event->kind);
		}
	}
	return 0;
}

static struct books books;
static struct heaptrack_info info;
static struct err err;

static int read_bytes(const void *bytes, size_t len, const struct heaptrack_opt *opt)
{
	memset(&books, 0, sizeof(books));
	err_init(&err);
	books.sink.define = keep_definition;
	books.sink.put = keep_events;
	struct zstream *stream = zstream_open_bytes(bytes, len, &err);
	assert_non_null(stream);
	int rc = heaptrack_run_stream(stream, "test", &books.sink, opt, &info, &err);
	zstream_free(stream);
	return rc;
}

static int read_text(const char *text)
{
	return read_bytes(text, strlen(text), NULL);
}

#define EVENTS_INTERPRETED                                                             \
	"i 401000 1 2 3 a\ni 402000 1 4 3 14 2 3 1e\nt 1 0\nt 2 1\na 40 2\n+ 0\n+ 0\n" \
	"c 64\nR 100\n- 0\na 1000 1\n+ 1\nc c8\nR 200\n"

static const char sized[] = "v 10400 3\nX /bin/demo with args\nI 1000 5e2991\ns 9 /bin/demo\n"
			    "s 4 main\ns b demo file.c\ns 8 alloc_it\n" EVENTS_INTERPRETED;

static void assert_the_example(void)
{
	assert_int_equal(books.allocations, 3);
	assert_int_equal(books.bytes, 0x40 * 2 + 0x1000);
	assert_int_equal(books.frees, 1);
	assert_int_equal(books.temporary, 1);
	assert_int_equal(books.live, 0x1040);
	assert_int_equal(books.peak, 0x1040);
	assert_int_equal(books.peak_ns, 100 * 1000000);
	assert_int_equal(books.runtime_ns, 200 * 1000000);
	assert_int_equal(books.peak_rss, 0x200 * 4096);
	assert_true(books.ended && books.complete);
	assert_string_equal(books.cmdline, "/bin/demo|with|args|");
	assert_string_equal(books.exe, "/bin/demo");
	assert_string_equal(books.module_names, "/bin/demo;");
	assert_string_equal(books.names,
			    "1=1+401000\n main@demo file.c:10\n"
			    "2=1+402000\n alloc_it@demo file.c:20< main@demo file.c:30\n");
	assert_int_equal(books.parent[2], 1);
	assert_int_equal(books.frame[2], 2);
	assert_string_equal(info.warning, "");
}

static void interpreted_files_of_format_1_2_and_3_say_the_same(void **state)
{
	(void)state;
	assert_int_equal(read_text(sized), 0);
	assert_the_example();
	assert_int_equal(info.format, 3);
	assert_int_equal(info.raw, 0);
	for (int format = 1; format <= 2; format++) {
		char text[1024];
		snprintf(text, sizeof(text),
			 "v 10300 %d\nX /bin/demo with args\nI 1000 5e2991\ns /bin/demo\ns main\n"
			 "s demo file.c\ns alloc_it\n" EVENTS_INTERPRETED,
			 format);
		assert_int_equal(read_text(text), 0);
		assert_the_example();
	}
	/* a writer of this number without a format means format 1 */
	assert_int_equal(read_text("v 10200\nX a\ns m\ni 1 1\nt 1 0\na 8 1\n+ 0\n"), 0);
	assert_int_equal(info.format, 1);
	assert_int_equal(books.bytes, 8);
}

static void format_0_has_pointers_and_symbols(void **state)
{
	(void)state;
	assert_int_equal(read_text("v 10000\nX a b\ns a.out\ns f\ni 401000 1 2\nt 1 0\n"
				   "+ 40 1 1000\n+ 20 1 2000\n- 1000\n- 2000\n- 3000\n"),
			 0);
	assert_int_equal(info.format, 0);
	assert_int_equal(books.allocations, 2);
	assert_int_equal(books.frees, 2);
	assert_int_equal(books.foreign, 1);
	assert_int_equal(books.temporary, 0);
	assert_string_equal(books.names, "1=1+401000\n f@?:0\n");
}

static const char raw_text[] =
	"v 10400 3\nx 8 /bin/a b\nX a b\nI 1000 5e2990\nm 1 -\n"
	"m 1 x 560000000000 0 7918 8000 1000\nm c /lib/libc.so 7f0000000000 0 25388 26000 1000\n"
	"t 560000000100 0\nt 7f0000026010 1\nt 123 2\n+ 40 2 1000\n+ 50 3 2000\n- 2000\n- 1000\n"
	"+ 8 1 3000\n+ 10 1 3000\n- 9999\nc a\n"
	"m 1 -\nm c /lib/libx.so 560000000000 0 1000\nt 560000000100 0\n+ 1 4 4000\n";

static void raw_files_resolve_addresses_by_the_modules_of_their_time(void **state)
{
	(void)state;
	assert_int_equal(read_text(raw_text), 0);
	assert_int_equal(info.raw, 1);
	assert_string_equal(books.module_names, "/bin/a b;/lib/libc.so;/lib/libx.so;");
	assert_string_equal(books.names, "1=1+100\n2=2+26010\n3=0+123\n4=3+100\n");
	assert_string_equal(books.exe, "/bin/a b");
	assert_int_equal(books.allocations, 5);
	/* 3000 was given out twice: its free was not seen, and is implied */
	assert_int_equal(books.frees, 3);
	assert_int_equal(info.implied, 1);
	assert_int_equal(books.foreign, 1);
	assert_int_equal(books.temporary, 1);
	assert_int_equal(books.live, 0x10 + 1);
	assert_int_equal(books.peak, 0x90);
}

static void addresses_of_old_writers_are_return_addresses(void **state)
{
	(void)state;
	assert_int_equal(read_text("v 10300 2\nx /bin/a\nX a\nm -\nm x 1000 0 100\nt 1011 0\n"), 0);
	assert_string_equal(books.names, "1=1+10\n");
}

static void temporary_is_judged_by_the_preceding_line_of_blocks(void **state)
{
	(void)state;
	assert_int_equal(
		read_text("v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\na 9 1\n"
			  "+ 0\nc 1\n- 0\n"      /* temporary */
			  "+ 0\n+ 1\n- 0\n- 1\n" /* not: 1 came between; not: a free came between */
			  "+ 1\nR 1\n- 1\n"),    /* temporary */
		0);
	assert_int_equal(books.temporary, 2);
	assert_int_equal(books.live, 0);
}

static void classes_of_equal_size_and_trace_share_their_blocks(void **state)
{
	(void)state;
	assert_int_equal(read_text("v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\na 9 1\na 8 1\n"
				   "+ 0\n+ 2\n- 0\n- 0\n+ 0\n- 2\n+ 2\n- 1\n"),
			 0);
	assert_int_equal(books.frees, 3);
	assert_int_equal(books.foreign, 1);
	assert_int_equal(books.live, 8);
	assert_int_equal(books.temporary, 0);
}

static void attaching_forgets_what_came_before(void **state)
{
	(void)state;
	assert_int_equal(
		read_text("v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\n+ 0\n+ 0\nA\n+ 0\n- 0\n"
			  "- 0\n"),
		0);
	assert_int_equal(books.allocations, 1);
	assert_int_equal(books.frees, 1);
	assert_int_equal(books.foreign, 1);
}

static void every_cut_yields_the_readable_part(void **state)
{
	(void)state;
	size_t len = strlen(sized);
	for (size_t cut = 10; cut < len; cut++) {
		assert_int_equal(read_bytes(sized, cut, NULL), 0);
		int torn = sized[cut - 1] != '\n';
		assert_int_equal(books.complete, !torn);
		assert_int_equal(info.warning[0] != '\0', torn);
		assert_true(books.ended);
	}
	char *packed;
	size_t size;
	FILE *to = open_memstream(&packed, &size);
	FILE *out = zstream_writer(to, ZSTREAM_ZSTD, &err);
	fputs(sized, out);
	fclose(out);
	fclose(to);
	assert_int_equal(read_bytes(packed, size, NULL), 0);
	assert_the_example();
	/* with its last four bytes, the checksum, gone all lines are there */
	assert_int_equal(read_bytes(packed, size - 1, NULL), 0);
	assert_int_equal(books.allocations, 3);
	assert_int_equal(books.complete, 0);
	assert_non_null(strstr(info.warning, "ends early"));
	free(packed);
}

static void damaged_definitions_end_reading_and_are_counted(void **state)
{
	(void)state;
	static const char *const damage[] = { "t 99 0\n",
					      "t 1 99\n",
					      "t zz\n",
					      "a 8 99\n",
					      "a ffffffffffffffff 1\n",
					      "i\n",
					      "s 99 m\n",
					      "?\n",
					      "q 1\n",
					      "i 1 1 zz\n",
					      "x 1 a\n",
					      "m 1 -\n",
					      "c\n",
					      "c 50000000000\n", /* 174 years */
					      "R ffffffffffffffff\n",
					      "X twice\n",
					      "I 0 0\n",
					      "+0\n" };
	for (size_t i = 0; i < ARRAY_LEN(damage); i++) {
		char text[512];
		snprintf(text, sizeof(text),
			 "v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\n+ 0\n%s+ 0\n", damage[i]);
		print_message("# %s", damage[i]);
		assert_int_equal(read_text(text), 0);
		assert_int_equal(books.allocations, 1);
		assert_int_equal(books.lost_allocations, 1);
		assert_int_equal(books.complete, 0);
		assert_string_equal(info.warning, "'test': damaged line, read up to line 8");
	}
}

static void events_that_refer_to_nothing_are_skipped_and_counted(void **state)
{
	(void)state;
	assert_int_equal(read_text("v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\n+ 0\n+ 7\n- 7\n"
				   "- ffffffffffffffff\n+ 0\n+\n-\n"),
			 0);
	assert_int_equal(books.allocations, 2);
	assert_int_equal(books.lost_allocations, 2);
	assert_int_equal(books.lost_frees, 3);
	assert_string_equal(info.warning, "'test': 5 damaged lines skipped");
	assert_int_equal(books.complete, 0);
}

static void strangers_and_newer_formats_are_refused(void **state)
{
	(void)state;
	static const char *const strangers[] = {
		"", "\n", "#\n", "hello\n", "v\n", "v x\n", "+ 1\nv 10400 3\n", "v 10400 3"
	};
	for (size_t i = 0; i < ARRAY_LEN(strangers); i++) {
		assert_int_equal(read_text(strangers[i]), -EBADMSG);
		assert_string_equal(err.msg, "'test' is no heaptrack file");
	}
	assert_int_equal(read_text("v 10500 4\n"), -EBADMSG);
	assert_string_equal(err.msg, "cannot read 'test': heaptrack format 4 is too new");
	assert_string_equal(err.hint, "formats 0 to 3 are understood");
}

static void every_table_has_a_bound(void **state)
{
	(void)state;
	const struct heaptrack_opt opt = { .max_live = 100,
					   .max_definitions = 100,
					   .max_text_bytes = 10000 };
	static const char *const repeat[] = { "+ 0\n", "s 1 x\n", "i 1 1\n", "t 1 0\n", "a 1 1\n" };
	for (size_t i = 0; i < ARRAY_LEN(repeat); i++) {
		struct buf text = { 0 };
		buf_puts(&text, "v 10400 3\nX a\ns 1 m\ni 1 1\nt 1 0\na 8 1\n");
		for (int k = 0; k < 200; k++)
			buf_puts(&text, repeat[i]);
		assert_int_equal(read_bytes(text.data, text.len, &opt), -EBADMSG);
		assert_non_null(strstr(err.msg, "cannot read 'test': too many "));
		buf_fini(&text);
	}
	struct buf text = { 0 };
	buf_puts(&text, "v 10400 3\nX ");
	for (int k = 0; k < 20 << 20; k++)
		buf_putc(&text, 'x');
	assert_int_equal(read_bytes(text.data, text.len, NULL), -EBADMSG);
	assert_string_equal(err.msg, "cannot read 'test': line 2 has no end");
	buf_fini(&text);
}

static void short_fields_are_read_as_long_ones_are(void **state)
{
	(void)state;
	static const char ends[] = " \n/:`gA~\x80\xb0\xba\xff\0\r-";
	for (unsigned digits = 0; digits <= 9; digits++) {
		for (unsigned round = 0; round < 20000; round++) {
			char field[18];
			for (unsigned i = 0; i < digits; i++)
				field[i] = "0123456789abcdef"[rand() % 16];
			for (unsigned i = digits; i < sizeof(field); i++)
				field[i] = i > digits && rand() % 2
						   ? (char)rand()
						   : ends[(unsigned)rand() % sizeof(ends)];
			uint64_t is = 0, want = 0;
			unsigned got = ht_short_hex(field, &is);
			assert_int_equal(got, digits > 8 ? 8 : digits);
			if (digits == 0 || digits >= 8)
				continue;
			const char *at = field;
			assert_true(ht_take_hex(&at, field + digits, &want));
			assert_int_equal(is, want);
		}
	}
}

/* The same lines with numbers of the usual length, and of one that only the slow way takes. */
static void put_many(struct buf *text, int width)
{
	buf_puts(text, "v 10400 3\nX /bin/demo\nI 1000 100\ns 1 m\ns 1 f\ni 1000 1 2\n");
	srand(3);
	unsigned stacks = 0, classes = 0;
	for (unsigned i = 0; i < 100000; i++) {
		unsigned what = (unsigned)rand() % 64;
		if (!stacks || (what == 0 && stacks < 900))
			buf_printf(text, "t %0*x %0*x\n", width, 1, width,
				   (unsigned)rand() % (++stacks));
		else if (!classes || (what == 1 && classes < 40))
			buf_printf(text, "a %x %x\n", 1 + classes++, 1 + (unsigned)rand() % stacks);
		else if (what == 2)
			buf_printf(text, "c %x\n", i);
		else if (what == 3) /* refers to nothing: counted as lost */
			buf_printf(text, "%c %0*x\n", rand() % 2 ? '+' : '-', width, 0x7ffffff);
		else if (what % 2)
			buf_printf(text, "+ %0*x\n- %0*x\n", width, (unsigned)rand() % classes,
				   width, (unsigned)rand() % classes);
		else
			buf_printf(text, "- %0*x\n", width, (unsigned)rand() % classes);
	}
}

static size_t count_lines(struct buf *text)
{
	size_t lines = 0;
	for (const char *p = buf_cstr(text); (p = strchr(p, '\n')); p++)
		lines++;
	return lines;
}

static unsigned told;

static void count_progress(void *ctx, uint64_t done, uint64_t total)
{
	(void)ctx;
	assert_true(done <= total);
	told++;
}

static void usual_lines_and_long_numbers_make_the_same_books(void **state)
{
	(void)state;
	static struct books plain;
	struct heaptrack_opt opt = { .progress = count_progress };
	for (int width = 1; width <= 8; width += 7) {
		CLEANUP(buf_fini) struct buf text = { 0 };
		put_many(&text, width);
		told = 0;
		assert_int_equal(read_bytes(text.data, text.len, &opt), 0);
		assert_in_range(told, 2, text.len / 1000); /* once for each piece read */
		assert_true(books.complete == 0 && info.skipped > 100);
		assert_true(books.allocations > 10000 && books.temporary > 10);
		assert_int_equal(info.lines, count_lines(&text));
		if (width == 1)
			plain = books;
		else
			assert_memory_equal(&plain, &books, sizeof(books));
	}
	/* a trace below one that does not exist ends the reading, and the line is told */
	CLEANUP(buf_fini) struct buf text = { 0 };
	put_many(&text, 1);
	text.len = (size_t)(strstr(buf_cstr(&text), "\n+") - text.data) + 1;
	buf_puts(&text, "t 1 ffff\n+ 0\n+ 0\n+ 0\n+ 0\n+ 0\n+ 0\n");
	assert_int_equal(read_bytes(text.data, text.len, NULL), 0);
	assert_int_equal(books.allocations, 0);
	char want[80];
	snprintf(want, sizeof(want), "'test': damaged line, read up to line %zu",
		 count_lines(&text) - 6);
	assert_string_equal(info.warning, want);
}

static int refuse_events(struct sink *sink, const struct event *events, size_t count, struct err *e)
{
	(void)sink;
	(void)events;
	(void)count;
	return err_set(e, -ENOSPC, "cannot write");
}

static void a_failing_sink_ends_reading_with_its_error(void **state)
{
	(void)state;
	memset(&books, 0, sizeof(books));
	books.sink.define = keep_definition;
	books.sink.put = refuse_events;
	struct zstream *stream = zstream_open_bytes(sized, strlen(sized), &err);
	assert_int_equal(heaptrack_run_stream(stream, "t", &books.sink, NULL, &info, &err),
			 -ENOSPC);
	zstream_free(stream);
}

static void line_ends_inside_arguments_are_part_of_the_command_line(void **state)
{
	(void)state;
	assert_int_equal(
		read_text(
			"v 10400 3\nX python3 -c\nimport x\na = 1\ns = 2\n\n+ 1\nI 1000 5\ns 1 m\n"
			"i 1 1\nt 1 0\na 8 1\n+ 0\n"),
		0);
	assert_string_equal(books.cmdline, "python3|-c|import|x|a|=|1|s|=|2|+|1|");
	assert_int_equal(books.allocations, 1);
	assert_int_equal(books.complete, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(interpreted_files_of_format_1_2_and_3_say_the_same),
		cmocka_unit_test(format_0_has_pointers_and_symbols),
		cmocka_unit_test(raw_files_resolve_addresses_by_the_modules_of_their_time),
		cmocka_unit_test(addresses_of_old_writers_are_return_addresses),
		cmocka_unit_test(temporary_is_judged_by_the_preceding_line_of_blocks),
		cmocka_unit_test(classes_of_equal_size_and_trace_share_their_blocks),
		cmocka_unit_test(attaching_forgets_what_came_before),
		cmocka_unit_test(every_cut_yields_the_readable_part),
		cmocka_unit_test(damaged_definitions_end_reading_and_are_counted),
		cmocka_unit_test(events_that_refer_to_nothing_are_skipped_and_counted),
		cmocka_unit_test(strangers_and_newer_formats_are_refused),
		cmocka_unit_test(line_ends_inside_arguments_are_part_of_the_command_line),
		cmocka_unit_test(every_table_has_a_bound),
		cmocka_unit_test(short_fields_are_read_as_long_ones_are),
		cmocka_unit_test(usual_lines_and_long_numbers_make_the_same_books),
		cmocka_unit_test(a_failing_sink_ends_reading_with_its_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
