/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/prof.h"
#include "trace/trace.h"
#include "trace_back.h"

static int wide_sizes; /* of record() */

/* Write @count events, keep a copy; with @flush_every the writer is flushed now and then. */
static void record(struct copy *copy, uint64_t seed, size_t count, size_t flush_every, int finish)
{
	struct err err = { 0 };
	struct stream s;
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	if (!w)
		fail_msg("%s", err.msg);
	struct sink_tee tee;
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(w));
	if (copy) {
		copy_init(copy);
		sink_tee_add(&tee, &copy->sink);
	}
	stream_init(&s, seed, 5000);
	s.wide = wide_sizes;
	for (size_t done = 0; done < count;) {
		size_t step =
			flush_every && flush_every < count - done ? flush_every : count - done;
		stream_run(&s, &tee.sink, step);
		done += step;
		if (flush_every)
			assert_done(trace_writer_flush(w, &err), err);
	}
	stream_fini(&s);
	if (finish)
		assert_done(trace_writer_finish(w, NULL, &err), err);
	else
		trace_writer_freep(&w);
}

static void what_was_written_is_read_back_event_by_event(void **state)
{
	(void)state;
	static const size_t counts[] = { 0, 1, 2, 100, 65536, 65537, 200000 };
	for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
		struct copy in, out;
		struct trace_reader_info info;
		unlink(path);
		wide_sizes = 1;
		record(&in, i + 1, counts[i], i % 2 ? 777 : 0, 1);
		wide_sizes = 0;
		read_back(&out, &info);
		assert_int_equal(out.count, counts[i]);
		assert_same_events(&in, &out, out.count);
		assert_int_equal(info.events, counts[i]);
		assert_int_equal(info.indexed, 1);
		assert_int_equal(info.truncated, 0);
		assert_int_equal(info.damaged_blocks, 0);
		assert_int_equal(info.skipped_bytes, 0);
		assert_string_equal(buf_cstr(&in.defs), buf_cstr(&out.defs));
		copy_fini(&in);
		copy_fini(&out);
	}
}

static void an_existing_file_is_never_overwritten(void **state)
{
	(void)state;
	struct err err = { 0 };
	char expect[128];
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
	for (int i = 1; i < 4; i++) {
		struct trace_writer *w = trace_writer_new(path, NULL, &err);
		assert_non_null(w);
		snprintf(expect, sizeof(expect), "%s.%d", path, i);
		assert_string_equal(trace_writer_path(w), expect);
		struct stat st;
		assert_int_equal(stat(expect, &st), 0);
		assert_int_equal(st.st_mode & 0777, 0600);
		assert_done(trace_writer_finish(w, NULL, &err), err);
	}
	assert_null(trace_writer_new("/nonexistent/x.blt", NULL, &err));
	assert_non_null(strstr(err.msg, "cannot create '/nonexistent/x.blt'"));
}

static void an_open_file_is_read_whatever_its_name_stands_for_by_now(void **state)
{
	(void)state;
	struct copy in, out;
	struct err err = { 0 };
	copy_init(&in);
	record(&in, 5, 3000, 1000, 1);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	int other = open(path, O_RDONLY | O_CLOEXEC);
	assert_int_equal(flock(fd, LOCK_EX | LOCK_NB), 0);
	assert_int_equal(unlink(path), 0);
	spill("another", 7);
	struct trace_reader *r = trace_reader_new_fd(fd, path, &err);
	assert_non_null(r);
	assert_int_equal(flock(other, LOCK_SH | LOCK_NB), -1); /* who adds symbols reads so */
	assert_int_equal(close(other), 0);
	copy_init(&out);
	assert_done(trace_reader_run(r, &out.sink, NULL, &err), err);
	assert_int_equal(out.count, in.count);
	assert_same_events(&in, &out, in.count);
	trace_reader_freep(&r);
	assert_int_equal(close(fd), 0); /* it stayed ours */
	copy_fini(&in);
	copy_fini(&out);
}

static void a_writer_that_breaks_the_rules_of_events_is_told(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	struct sink *sink = trace_writer_sink(w);
	struct event alloc = { .kind = EVENT_ALLOC, .time_ns = 5, .block = { 3 } };
	struct event release = { .kind = EVENT_FREE, .time_ns = 5, .block = { 3 } };
	assert_int_equal(sink->put(sink, &release, 1, &err), -EINVAL);
	assert_int_equal(sink->put(sink, &alloc, 1, &err), 0);
	assert_int_equal(sink->put(sink, &alloc, 1, &err), -EINVAL);
	release.time_ns = 4;
	assert_int_equal(sink->put(sink, &release, 1, &err), -EINVAL);
	assert_non_null(strstr(err.msg, "time goes back"));
	release.time_ns = 5;
	assert_int_equal(sink->put(sink, &release, 1, &err), 0);
	assert_int_equal(sink->put(sink, &release, 1, &err), -EINVAL);
	assert_done(trace_writer_finish(w, NULL, &err), err);
	struct copy out;
	struct trace_reader_info info;
	read_back(&out, &info);
	assert_int_equal(out.count, 2);
	copy_fini(&out);
}

static void a_file_cut_anywhere_gives_the_beginning_of_what_was_written(void **state)
{
	(void)state;
	struct copy in;
	size_t len, most = 0;
	record(&in, 7, 200, 25, 1);
	char *data = slurp(&len);
	for (size_t cut = 0; cut < len; cut++) {
		struct err err = { 0 };
		struct copy out;
		struct trace_reader_info info;
		spill(data, cut);
		struct trace_reader *r = trace_reader_new(path, &err);
		if (!r) {
			assert_true(cut < 64);
			assert_int_equal(err.code, -EBADMSG);
			continue;
		}
		assert_true(cut >= 64);
		copy_init(&out);
		assert_done(trace_reader_run(r, &out.sink, NULL, &err), err);
		trace_reader_info(r, &info);
		assert_true(out.count >= most);
		most = out.count;
		assert_same_events(&in, &out, out.count);
		assert_int_equal(info.damaged_blocks, 0);
		copy_fini(&out);
		trace_reader_freep(&r);
	}
	assert_int_equal(most, in.count);
	free(data);
	copy_fini(&in);
}

static void every_flipped_bit_is_noticed_skipped_and_counted(void **state)
{
	(void)state;
	struct copy in;
	size_t len;
	record(&in, 11, 150, 20, 1);
	const struct sums all = sums(&in);
	char *data = slurp(&len);
	int fd = open(path, O_WRONLY);
	assert_true(fd >= 0);
	for (size_t bit = 0; bit < len * 8; bit++) {
		struct err err = { 0 };
		struct copy out;
		struct trace_reader_info info;
		char flipped = (char)(data[bit / 8] ^ (char)(1 << bit % 8));
		if (bit)
			assert_int_equal(
				pwrite(fd, data + (bit - 1) / 8, 1, (off_t)((bit - 1) / 8)), 1);
		assert_int_equal(pwrite(fd, &flipped, 1, (off_t)(bit / 8)), 1);
		struct trace_reader *r = trace_reader_new(path, &err);
		if (!r) {
			assert_true(bit / 8 < 8);
			continue;
		}
		copy_init(&out);
		assert_done(trace_reader_run(r, &out.sink, NULL, &err), err);
		trace_reader_info(r, &info);
		if (!info.damaged_blocks && !info.truncated && info.indexed)
			fail_msg("bit %zu went unnoticed", bit);
		const struct sums told = sums(&out);
		if (info.indexed)
			assert_same_sums(&told, &all);
		copy_fini(&out);
		trace_reader_freep(&r);
	}
	close(fd);
	free(data);
	copy_fini(&in);
}

/* What follows a file that was full begins with all threads that there ever were, and may end soon. */
static void a_small_file_of_very_many_threads_is_whole(void **state)
{
	(void)state;
	struct err err = { 0 };
	const uint32_t count = 65537;
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	assert_non_null(w);
	struct sink *to = trace_writer_sink(w);
	for (uint32_t id = 0; id < count; id++) {
		struct def thread = { .kind = DEF_THREAD, .id = id };
		thread.thread.tid = 1000 + id;
		thread.thread.name = "worker";
		assert_done(to->define(to, &thread, &err), err);
	}
	const struct event event = { .kind = EVENT_ALLOC, .bytes = 8, .thread.v = count - 1 };
	assert_done(to->put(to, &event, 1, &err), err);
	assert_done(trace_writer_finish(w, NULL, &err), err);

	struct trace_reader_info info;
	struct trace_reader *r = trace_reader_new(path, &err);
	struct prof *prof = prof_new(&err);
	assert_true(r && prof);
	assert_done(trace_reader_run(r, prof_sink(prof), NULL, &err), err);
	trace_reader_info(r, &info);
	print_message("# %u threads in %u bytes\n", count, (unsigned)info.file_bytes);
	assert_int_equal(info.damaged_blocks, 0);
	const struct prof_thread *last = prof_thread(prof, (struct thread_id){ count - 1 });
	assert_true(last && last->tid == 1000 + count - 1);
	prof_freep(&prof);
	trace_reader_freep(&r);
}

static void foreign_and_empty_files_are_refused_with_a_reason(void **state)
{
	(void)state;
	static const struct {
		const char *data;
		size_t len;
		const char *why;
	} cases[] = {
		{ "", 0, "is empty" },
		{ "hello, world", 12, "is not a byteledger recording" },
		{ "\x28\xb5\x2f\xfd heaptrack", 14, "is not a byteledger recording" },
		{ "\x89"
		  "BLT\r\n\x1a\n\x01",
		  9, "ends within its header" },
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct err err = { 0 };
		spill(cases[i].data, cases[i].len);
		assert_null(trace_reader_new(path, &err));
		assert_non_null(strstr(err.msg, cases[i].why));
		assert_int_equal(trace_is(path, &err), i == 3);
	}
	struct err err = { 0 };
	assert_null(trace_reader_new(dir, &err));
	assert_non_null(strstr(err.msg, "not a regular file"));
	unlink(path);
	assert_int_equal(trace_is(path, &err), -ENOENT);
}

static void a_newer_version_is_refused_by_number(void **state)
{
	(void)state;
	struct copy in;
	size_t len;
	struct err err = { 0 };
	record(&in, 3, 10, 0, 1);
	copy_fini(&in);
	char *data = slurp(&len);
	/* version 4 with a good checksum */
	static const unsigned char head[] = { 4, 0, 0, 0 };
	memcpy(data + 8, head, 4);
	extern uint32_t crc_32(uint32_t, const void *, size_t);
	uint32_t crc = crc_32(0, data, 60);
	memcpy(data + 60, &crc, 4);
	spill(data, len);
	free(data);
	assert_null(trace_reader_new(path, &err));
	assert_non_null(strstr(err.msg, "format version 4"));
}

static void a_killed_writer_loses_nothing_that_was_flushed(void **state)
{
	(void)state;
	struct copy in, out;
	struct trace_reader_info info;
	int ready[2];
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = { 0 };
		struct stream s;
		struct trace_writer *w = trace_writer_new(path, NULL, &err);
		stream_init(&s, 21, 5000);
		stream_run(&s, trace_writer_sink(w), 100000);
		trace_writer_flush(w, &err);
		stream_run(&s, trace_writer_sink(w), 5000);
		if (write(ready[1], "x", 1) == 1)
			pause();
		_exit(1);
	}
	char byte;
	assert_int_equal(read(ready[0], &byte, 1), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(ready[0]);
	close(ready[1]);
	struct stream s;
	copy_init(&in);
	stream_init(&s, 21, 5000);
	stream_run(&s, &in.sink, 105000);
	stream_fini(&s);
	read_back(&out, &info);
	assert_int_equal(out.count, 100000);
	assert_int_equal(info.indexed, 0);
	assert_int_equal(info.events, 100000);
	assert_same_events(&in, &out, out.count);
	copy_fini(&in);
	copy_fini(&out);
}

/* @kept events are decided and @waiting behind them are not; then @more of those are, and the writer dies. */
static void leave_undecided(uint64_t seed, size_t kept, size_t waiting, size_t more)
{
	struct err err = { 0 };
	struct stream s;
	const struct trace_writer_opt opt = { .culling = 1 };
	struct trace_writer *w = trace_writer_new(path, &opt, &err);
	assert_non_null(w);
	struct late late = { .to = trace_writer_sink(w) };
	copy_init(&late.copy);
	late.copy.sink.define = late_define;
	stream_init(&s, seed, 5000);
	stream_run(&s, late.to, kept);
	stream_run(&s, &late.copy.sink, waiting);
	stream_fini(&s);
	for (int i = 0; i < 2; i++) { /* the second one replaces the first */
		assert_done(trace_writer_flush(w, &err), err);
		struct sink *pending = trace_writer_pending(w);
		assert_non_null(pending);
		assert_done(pending->put(pending, late.copy.events, late.copy.count, &err), err);
		assert_done(trace_writer_pending_end(w, &err), err);
	}
	assert_done(late.to->put(late.to, late.copy.events, more, &err), err);
	assert_done(trace_writer_flush(w, &err), err);
	trace_writer_freep(&w);
	copy_fini(&late.copy);
}

static void assert_stream_is_read(uint64_t seed, size_t count, uint64_t damaged)
{
	struct copy in, out;
	struct stream s;
	struct trace_reader_info info;
	copy_init(&in);
	stream_init(&s, seed, 5000);
	stream_run(&s, &in.sink, count);
	stream_fini(&s);
	read_back(&out, &info);
	assert_int_equal(out.count, count);
	assert_int_equal(info.damaged_blocks, damaged);
	assert_same_events(&in, &out, out.count);
	copy_fini(&in);
	copy_fini(&out);
}

static void a_killed_writer_loses_nothing_that_was_told_as_undecided(void **state)
{
	(void)state;
	static const size_t kept[] = { 1, 1000, 70000, 100000 };
	for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) {
		leave_undecided(50 + i, kept[i], 70000, i % 2 ? 3000 : 0);
		assert_stream_is_read(50 + i, kept[i] + 70000, 0);
		struct err err = { 0 };
		struct prof *prof = prof_new(&err);
		assert_done(trace_append_symbols(path, prof, &err), err);
		prof_free(prof);
		assert_stream_is_read(50 + i, kept[i] + 70000, 0);
		unlink(path);
		char command[128]; /* else the next recording takes another name */
		snprintf(command, sizeof(command), "rm %s.pending", path);
		assert_int_equal(system(command), 0);
	}
}

static int lacks_pending(void)
{
	struct err err = { 0 };
	struct trace_reader_info info;
	struct trace_reader *r = trace_reader_new(path, &err);
	assert_non_null(r);
	trace_reader_info(r, &info);
	trace_reader_freep(&r);
	return info.lacks_pending;
}

static void what_lies_beside_a_recording_is_believed_only_if_it_belongs_to_it(void **state)
{
	(void)state;
	char side[128], other[128], name[128];
	size_t len;
	snprintf(side, sizeof(side), "%s.pending", path);
	snprintf(other, sizeof(other), "%s/other.blt", dir);
	leave_undecided(61, 20000, 5000, 700);
	/* the name of a new recording is one beside which nothing stands: both stay what they are */
	snprintf(name, sizeof(name), "%s", path);
	assert_int_equal(rename(path, other), 0);
	leave_undecided(62, 20000, 5000, 700);
	assert_int_equal(access(path, F_OK), -1);
	snprintf(path, sizeof(path), "%s.1", name);
	assert_stream_is_read(62, 25000, 0);
	snprintf(path, sizeof(path), "%s", other);
	assert_stream_is_read(61, 20700, 0); /* its own is elsewhere */
	assert_true(lacks_pending());
	assert_int_equal(rename(other, name), 0);
	snprintf(path, sizeof(path), "%s", name);
	assert_stream_is_read(61, 25000, 0);
	assert_false(lacks_pending());
	/* another recording's */
	char command[300];
	snprintf(command, sizeof(command), "cp %s.1.pending %s", path, side);
	assert_int_equal(system(command), 0);
	assert_stream_is_read(61, 20700, 0);
	/* one that was cut */
	snprintf(path, sizeof(path), "%s.1", name);
	snprintf(side, sizeof(side), "%s.pending", path);
	struct copy out;
	struct trace_reader_info info;
	char *data = slurp(&len);
	assert_int_equal(truncate(path, (off_t)len / 2),
			 0); /* and no longer reaches to where it begins */
	read_back(&out, &info);
	assert_true(out.count < 20000 && info.damaged_blocks == 0);
	copy_fini(&out);
	spill(data, len);
	free(data);
	assert_int_equal(truncate(side, 2000), 0);
	assert_stream_is_read(62, 20700, 0);
	snprintf(path, sizeof(path), "%s", name);
}

/* Symbols for all frames, as a prof that was filled by replaying the recording would hold them. */
static void resolve_all(struct prof *prof)
{
	struct err err = { 0 };
	struct symbol symbols[2] = { { "late<int>::call()", "late.cc", 77, 1 },
				     { "late_main", NULL, 0, 0 } };
	uint32_t frames = prof_frame_count(prof);
	for (uint32_t i = 1; i < frames; i++) {
		/* by value: the same module and offset under a number of its own */
		const struct prof_frame *f = prof_frame(prof, (struct frame_id){ i });
		const struct prof_module *m = prof_module(prof, f->module);
		struct def def = { .kind = DEF_MODULE, .id = 60000 };
		if (f->symbols)
			continue;
		def.module.path = m->path;
		memcpy(def.module.build_id, m->build_id, sizeof(m->build_id));
		def.module.build_id_len = m->build_id_len;
		if (f->module.v)
			assert_done(prof_sink(prof)->define(prof_sink(prof), &def, &err), err);
		struct def frame = { .kind = DEF_FRAME, .id = 60000 + i };
		frame.frame.module.v = f->module.v ? 60000 : 0;
		frame.frame.offset = f->offset;
		assert_done(prof_sink(prof)->define(prof_sink(prof), &frame, &err), err);
		struct def symbol = { .kind = DEF_SYMBOL, .id = 60000 + i };
		symbol.symbol.symbols = symbols;
		symbol.symbol.count = 2;
		assert_done(prof_sink(prof)->define(prof_sink(prof), &symbol, &err), err);
	}
}

static void assert_resolved(uint64_t damaged_blocks)
{
	struct err err = { 0 };
	struct trace_reader_info info;
	CLEANUP(prof_freep) struct prof *prof = prof_new(&err);
	CLEANUP(trace_reader_freep) struct trace_reader *r = trace_reader_new(path, &err);
	if (!r)
		fail_msg("%s", err.msg);
	assert_done(trace_reader_run(r, prof_sink(prof), NULL, &err), err);
	trace_reader_info(r, &info);
	assert_int_equal(info.damaged_blocks, damaged_blocks);
	uint32_t late = 0;
	for (uint32_t i = 1; i < prof_frame_count(prof); i++) {
		const struct prof_frame *f = prof_frame(prof, (struct frame_id){ i });
		if (!f->symbols)
			fail_msg("frame %u of %u has no symbol", i, prof_frame_count(prof));
		if (strcmp(f->symbols[0].function, "late<int>::call()") != 0)
			continue;
		late++;
		assert_int_equal(f->symbol_count, 2);
		assert_string_equal(f->symbols[0].file, "late.cc");
		assert_int_equal(f->symbols[0].line, 77);
		assert_null(f->symbols[1].file);
	}
	assert_true(late > 10);
}

static void symbols_added_later_are_found_by_every_reader(void **state)
{
	(void)state;
	for (int finished = 0; finished < 2; finished++) {
		struct err err = { 0 };
		struct copy in, out;
		struct trace_reader_info info;
		size_t len;
		unlink(path);
		record(&in, 17, 80000, 5000, finished);
		if (!finished) {
			/* cut in a block: the new ones must not stand behind the rest of it */
			char *data = slurp(&len);
			spill(data, len - 7);
			free(data);
		}
		CLEANUP(prof_freep) struct prof *prof = prof_new(&err);
		CLEANUP(trace_reader_freep) struct trace_reader *r = trace_reader_new(path, &err);
		assert_done(trace_reader_run(r, prof_sink(prof), NULL, &err), err);
		resolve_all(prof);
		assert_done(trace_append_symbols(path, prof, &err), err);
		assert_resolved(0);
		read_back(&out, &info);
		assert_int_equal(info.indexed, finished);
		assert_int_equal(info.truncated, 0);
		assert_int_equal(out.count, finished ? in.count : 75000);
		assert_same_events(&in, &out, out.count);
		copy_fini(&out);
		/* once more: nothing is left to add, and nothing is harmed */
		struct stat before, after;
		assert_int_equal(stat(path, &before), 0);
		assert_done(trace_append_symbols(path, prof, &err), err);
		assert_int_equal(stat(path, &after), 0);
		assert_true(after.st_size - before.st_size < 1000);
		assert_resolved(0);
		copy_fini(&in);
	}
}

static void a_recording_that_is_being_written_takes_no_symbols(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	CLEANUP(prof_freep) struct prof *prof = prof_new(&err);
	assert_int_equal(trace_append_symbols(path, prof, &err), -EAGAIN);
	assert_non_null(strstr(err.msg, "while it is written"));
	assert_done(trace_writer_finish(w, NULL, &err), err);
	assert_done(trace_append_symbols(path, prof, &err), err);
}

/* Events enough for several key blocks; then one block in the middle goes bad. */
static void damage_costs_what_lies_before_the_next_key_block_and_no_more(void **state)
{
	(void)state;
	struct copy in, out;
	struct trace_reader_info info;
	size_t len;
	record(&in, 23, 1200000, 0, 1);
	const struct sums all = sums(&in);
	char *data = slurp(&len);
	assert_true(len > 5 << 20);
	data[len / 5] ^= 0x40;
	spill(data, len);
	free(data);
	read_back(&out, &info);
	assert_true(info.indexed && info.damaged_blocks == 1);
	assert_true(info.skipped_bytes < 2 << 20);
	const struct sums told = sums(&out);
	assert_same_sums(&told, &all);
	assert_true(out.count > in.count * 6 / 10);
	/* what follows is whole: the last events are the same, but for frees of blocks that were never seen */
	size_t i = in.count, j = out.count, same = 0;
	while (i && j && same < 100000) {
		const struct event *x = &in.events[i - 1], *y = &out.events[j - 1];
		if (y->kind == EVENT_LOST && y->value == LOSS_FILE_DAMAGED) {
			j--;
			continue;
		}
		i--;
		if (x->kind != y->kind || x->addr != y->addr || x->bytes != y->bytes) {
			assert_int_equal(x->kind, EVENT_FREE);
			continue;
		}
		assert_int_equal(x->time_ns, y->time_ns);
		assert_int_equal(x->stack.v, y->stack.v);
		assert_int_equal(x->flags, y->flags);
		j--;
		same++;
	}
	assert_int_equal(same, 100000);
	copy_fini(&in);
	copy_fini(&out);
}

static void events_later_than_asked_are_left_out_block_by_block_but_no_definition(void **state)
{
	(void)state;
	struct copy in, all, part;
	struct trace_reader_info info;
	struct err err = { 0 };
	record(&in, 11, 300000, 3000, 1);
	read_back(&all, &info);
	for (unsigned share = 0; share <= 10; share++) {
		uint64_t until = all.events[(all.count - 1) * share / 10].time_ns;
		size_t wanted = 0;
		while (wanted < all.count && all.events[wanted].time_ns <= until)
			wanted++;
		struct trace_reader *r = trace_reader_new(path, &err);
		assert_non_null(r);
		copy_init(&part);
		struct trace_read_opt opt = { .has_until = 1, .until_ns = until };
		assert_done(trace_reader_run(r, &part.sink, &opt, &err), err);
		trace_reader_info(r, &info);
		assert_int_equal(info.damaged_blocks + info.skipped_bytes, 0);
		/* at most the block with the first later one, and one more */
		if (part.count < wanted || part.count > wanted + 6000)
			fail_msg("%zu events of %zu wanted", part.count, wanted);
		assert_memory_equal(part.events, all.events, part.count * sizeof(*all.events));
		assert_string_equal(buf_cstr(&part.defs), buf_cstr(&all.defs));
		copy_fini(&part);
		trace_reader_freep(&r);
	}
	copy_fini(&in);
	copy_fini(&all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_was_written_is_read_back_event_by_event,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(an_existing_file_is_never_overwritten, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(
			an_open_file_is_read_whatever_its_name_stands_for_by_now, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(a_writer_that_breaks_the_rules_of_events_is_told,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_file_cut_anywhere_gives_the_beginning_of_what_was_written, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(every_flipped_bit_is_noticed_skipped_and_counted,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_small_file_of_very_many_threads_is_whole, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(foreign_and_empty_files_are_refused_with_a_reason,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_newer_version_is_refused_by_number, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_killed_writer_loses_nothing_that_was_flushed,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_killed_writer_loses_nothing_that_was_told_as_undecided, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			what_lies_beside_a_recording_is_believed_only_if_it_belongs_to_it, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(symbols_added_later_are_found_by_every_reader,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_recording_that_is_being_written_takes_no_symbols,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			damage_costs_what_lies_before_the_next_key_block_and_no_more, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			events_later_than_asked_are_left_out_block_by_block_but_no_definition,
			set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
