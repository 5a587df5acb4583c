/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording reader on any bytes. All checksums are made right first (unless the last byte is odd), else nothing would
 * ever get behind them: what is tested is what a hostile file can reach.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/varint.h"
#include "model/prof.h"
#include "trace/block.h"
#include "trace/trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define INPUT_MAX (1u << 16)

/* What the directory says the columns hold together; the header must agree. */
static uint32_t raw_bytes(const uint8_t *at, const uint8_t *end)
{
	uint64_t sum = 0, raw, stored;
	unsigned count = at < end ? *at++ : 0;
	while (count-- && end - at >= 2) {
		at = varint_get(at + 2, end, &raw);
		at = at ? varint_get(at, end, &stored) : NULL;
		if (!at)
			return 0;
		sum += raw;
	}
	return sum < BLT_RAW_MAX ? (uint32_t)sum : 0;
}

static void mend(uint8_t *file, size_t size)
{
	struct blt_file_header header = { .version = BLT_VERSION };
	if (size < BLT_FILE_HEADER)
		return;
	blt_file_header_put(file, &header);
	for (size_t at = BLT_FILE_HEADER; size - at >= BLT_BLOCK_HEADER;) {
		uint8_t *bytes = file + at;
		size_t left = size - at - BLT_BLOCK_HEADER;
		struct blt_head head = { .type = bytes[8],
					 .flags = bytes[9],
					 .rows = get_le32(bytes + 12) % (BLT_ROWS_MAX + 1),
					 .stored = get_le32(bytes + 20),
					 .first = get_le64(bytes + 24),
					 .time_ns = get_le64(bytes + 32) };
		if (head.stored > left)
			head.stored = (uint32_t)left;
		uint8_t *payload = bytes + BLT_BLOCK_HEADER;
		head.raw = raw_bytes(payload, payload + head.stored);
		head.crc = crc_32(0, payload, head.stored);
		blt_head_put(bytes, &head);
		at += BLT_BLOCK_HEADER + head.stored;
	}
}

static int look_at(void *ctx, const struct trace_file *file, struct err *err)
{
	(void)ctx;
	(void)err;
	return strlen(file->path) ? 0 : -1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t file[INPUT_MAX];
	char path[64];
	struct err err = { 0 };
	if (size > sizeof(file))
		return 0;
	memcpy(file, data, size);
	if (size && !(data[size - 1] & 1))
		mend(file, size);
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	if (fd < 0 || write(fd, file, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	struct trace_reader *reader = trace_reader_new(path, &err);
	if (reader) {
		struct trace_survey survey;
		struct prof *prof = prof_new(&err);
		if (prof && trace_reader_summary(reader, prof, &err) == 0)
			trace_reader_run(reader, prof_sink(prof), NULL, &err);
		trace_reader_survey(reader, &survey, NULL, &err);
		trace_reader_files(reader, look_at, NULL, &err);
		prof_free(prof);
		trace_reader_freep(&reader);
	}
	close(fd);
	return 0;
}
