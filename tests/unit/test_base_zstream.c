/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/zstream.h"

#define TEXT_BYTES (3u << 20)

/* Compresses badly enough to fill several input buffers. */
static char *sample_text(void)
{
	char *text = malloc(TEXT_BYTES);
	assert_non_null(text);
	uint32_t x = 1;
	for (size_t i = 0; i < TEXT_BYTES; i++) {
		x = x * 1664525 + 1013904223;
		text[i] = (char)(x >> 27);
	}
	return text;
}

static void pack(const char *text, size_t len, enum zstream_kind kind, char **packed, size_t *size)
{
	struct err err = { 0 };
	FILE *to = open_memstream(packed, size);
	assert_non_null(to);
	if (kind == ZSTREAM_PLAIN) {
		fwrite(text, 1, len, to);
	} else {
		FILE *out = zstream_writer(to, kind, &err);
		assert_non_null(out);
		assert_int_equal(fwrite(text, 1, len, out), len);
		assert_int_equal(fclose(out), 0);
	}
	assert_int_equal(fclose(to), 0);
}

static void drain(struct zstream *stream, struct buf *got)
{
	struct err err = { 0 };
	char part[10007];
	ssize_t n;
	while ((n = zstream_read(stream, part, sizeof(part), &err)) > 0)
		buf_put(got, part, (size_t)n);
	assert_int_equal(n, 0);
	assert_int_equal(zstream_read(stream, part, sizeof(part), &err), 0);
}

static void what_is_written_is_read_back_and_told_by_content(void **state)
{
	(void)state;
	char *text = sample_text();
	for (int kind = ZSTREAM_PLAIN; kind <= ZSTREAM_ZSTD; kind++) {
		char *packed;
		size_t size;
		pack(text, TEXT_BYTES, kind, &packed, &size);
		char path[] = "/tmp/zstream-test-XXXXXX";
		int fd = mkstemp(path);
		assert_int_equal(write(fd, packed, size), size);
		close(fd);
		for (int in_memory = 0; in_memory < 2; in_memory++) {
			struct err err = { 0 };
			struct zstream *stream = in_memory ? zstream_open_bytes(packed, size, &err)
							   : zstream_open(path, &err);
			assert_non_null(stream);
			assert_int_equal(zstream_kind(stream), kind);
			struct buf got = { 0 };
			drain(stream, &got);
			assert_null(zstream_damaged(stream));
			assert_int_equal(got.len, TEXT_BYTES);
			assert_memory_equal(got.data, text, TEXT_BYTES);
			uint64_t done, total;
			zstream_progress(stream, &done, &total);
			assert_int_equal(done, size);
			assert_int_equal(total, size);
			buf_fini(&got);
			zstream_free(stream);
		}
		unlink(path);
		free(packed);
	}
	free(text);
}

static void several_members_and_frames_are_one_stream(void **state)
{
	(void)state;
	for (int kind = ZSTREAM_GZIP; kind <= ZSTREAM_ZSTD; kind++) {
		char *a, *b;
		size_t a_size, b_size;
		pack("one ", 4, kind, &a, &a_size);
		pack("two", 3, kind, &b, &b_size);
		a = realloc(a, a_size + b_size);
		memcpy(a + a_size, b, b_size);
		struct err err = { 0 };
		struct zstream *stream = zstream_open_bytes(a, a_size + b_size, &err);
		struct buf got = { 0 };
		drain(stream, &got);
		assert_string_equal(buf_cstr(&got), "one two");
		assert_null(zstream_damaged(stream));
		buf_fini(&got);
		zstream_free(stream);
		free(a);
		free(b);
	}
}

static void a_cut_file_yields_a_prefix_and_says_so(void **state)
{
	(void)state;
	char *text = sample_text();
	size_t len = 300000;
	for (int kind = ZSTREAM_GZIP; kind <= ZSTREAM_ZSTD; kind++) {
		char *packed;
		size_t size, longest = 0;
		pack(text, len, kind, &packed, &size);
		for (size_t cut = 4; cut < size; cut += 1 + size / 97) {
			struct err err = { 0 };
			struct zstream *stream = zstream_open_bytes(packed, cut, &err);
			struct buf got = { 0 };
			drain(stream, &got);
			assert_non_null(zstream_damaged(stream));
			assert_true(got.len <= len);
			assert_memory_equal(got.len ? got.data : text, text, got.len);
			longest = got.len > longest ? got.len : longest;
			buf_fini(&got);
			zstream_free(stream);
		}
		assert_true(longest > len / 2);
		free(packed);
	}
	free(text);
}

static void flipped_bits_end_in_damage_not_in_foreign_memory(void **state)
{
	(void)state;
	char *text = sample_text();
	for (int kind = ZSTREAM_GZIP; kind <= ZSTREAM_ZSTD; kind++) {
		char *packed;
		size_t size;
		pack(text, 4000, kind, &packed, &size);
		for (size_t at = 4; at < size; at++) {
			packed[at] ^= 0x20;
			struct err err = { 0 };
			struct zstream *stream = zstream_open_bytes(packed, size, &err);
			struct buf got = { 0 };
			drain(stream, &got);
			/* a gzip header holds bytes that matter to nobody (time, system) */
			if (at >= 10)
				assert_non_null(zstream_damaged(stream));
			buf_fini(&got);
			zstream_free(stream);
			packed[at] ^= 0x20;
		}
		free(packed);
	}
	free(text);
}

static void empty_and_tiny_files_are_plain(void **state)
{
	(void)state;
	const char *samples[] = { "", "v", "\x1f", "\x28\xb5\x2f" };
	for (size_t i = 0; i < ARRAY_LEN(samples); i++) {
		struct err err = { 0 };
		struct zstream *stream = zstream_open_bytes(samples[i], strlen(samples[i]), &err);
		struct buf got = { 0 };
		assert_int_equal(zstream_kind(stream), ZSTREAM_PLAIN);
		drain(stream, &got);
		assert_string_equal(buf_cstr(&got), samples[i]);
		buf_fini(&got);
		zstream_free(stream);
	}
}

static void folders_and_missing_files_are_errors(void **state)
{
	(void)state;
	struct err err = { 0 };
	assert_null(zstream_open("/", &err));
	assert_int_equal(err.code, -EISDIR);
	assert_null(zstream_open("/nonexistent/file", &err));
	assert_int_equal(err.code, -ENOENT);
	assert_non_null(strstr(err.msg, "'/nonexistent/file'"));
}

static void a_full_disk_is_reported_when_closing(void **state)
{
	(void)state;
	char *text = sample_text();
	for (int kind = ZSTREAM_GZIP; kind <= ZSTREAM_ZSTD; kind++) {
		FILE *full = fopen("/dev/full", "w");
		struct err err = { 0 };
		assert_non_null(full);
		FILE *out = zstream_writer(full, kind, &err);
		int bad = fwrite(text, 1, TEXT_BYTES, out) != TEXT_BYTES;
		bad |= fclose(out) != 0;
		bad |= fclose(full) != 0;
		assert_true(bad);
	}
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_written_is_read_back_and_told_by_content),
		cmocka_unit_test(several_members_and_frames_are_one_stream),
		cmocka_unit_test(a_cut_file_yields_a_prefix_and_says_so),
		cmocka_unit_test(flipped_bits_end_in_damage_not_in_foreign_memory),
		cmocka_unit_test(empty_and_tiny_files_are_plain),
		cmocka_unit_test(folders_and_missing_files_are_errors),
		cmocka_unit_test(a_full_disk_is_reported_when_closing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
