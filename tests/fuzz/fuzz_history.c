/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile history files: the bytes become records whose checksums are right, or nearly (or the file itself, where they begin with its
 * magic), the file is read, continued and read again. No byte may crash it, and what is sound must come back the same.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/crc.h"
#include "model/history.h"
#include "view/growth.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void make_file(const char *path, const uint8_t *data, size_t size)
{
	CLEANUP(buf_fini) struct buf file = { 0 };
	if (size >= 8 && memcmp(data, "BLHIST1\n", 8) == 0) {
		buf_put(&file, data, size);
	} else {
		buf_puts(&file, "BLHIST1\n");
		while (size > 2) {
			size_t len = data[1];
			len = len < size - 2 ? len : size - 2;
			uint8_t head[8] = { data[0] & 3, data[0] >> 6, (uint8_t)len, 0 };
			uint32_t crc = crc_32(crc_32(0, head, 4), data + 2, len);
			crc ^= data[0] >> 2 & 1; /* damaged */
			for (int i = 0; i < 4; i++)
				head[4 + i] = (uint8_t)(crc >> (8 * i));
			buf_put(&file, head, sizeof(head));
			buf_put(&file, data + 2, len);
			data += 2 + len;
			size -= 2 + len;
		}
	}
	FILE *to = fopen(path, "wb");
	if (!to || fwrite(file.data, 1, file.len, to) != file.len || fclose(to) != 0)
		abort();
}

/* A number that stands for everything that can be read. */
static uint64_t digest(const struct history *h)
{
	uint64_t sum = 0;
	size_t keys = history_keys(h), count;
	for (size_t i = 0; i < keys; i += i < 4 ? 1 : 50) {
		struct history_point *points;
		struct growth growth;
		if (history_series(h, i, 0, UINT64_MAX, &points, &count) < 0)
			abort();
		if (i == 0 && count < 64 && view_growth(points, count, &growth) < 0)
			abort();
		for (size_t k = 0; k < count; k++)
			sum = sum * 31 + points[k].time_ns + points[k].rss_bytes * 3 +
			      points[k].count;
		free(points);
	}
	return sum * 31 + keys;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char path[64];
	struct history *h = NULL;
	struct err err = { 0 };
	if (!path[0])
		snprintf(path, sizeof(path), "/tmp/byteledger-fuzz-history-%d", (int)getpid());
	make_file(path, data, size);
	if (history_open(path, 0, &h, &err) < 0)
		goto out;
	uint64_t before = digest(h);
	struct history_point *now = calloc(history_keys(h), sizeof(*now));
	history_at(h, UINT64_MAX, now, history_keys(h));
	free(now);
	history_close(h);
	/* a watcher cuts off what is damaged: the rest must read the same */
	h = NULL;
	if (history_open(path, 1, &h, &err) < 0)
		abort();
	if (history_aside(h))
		unlink(history_aside(h));
	if (digest(h) != before)
		abort();
	struct history_row row = { "", "", 4096, 8192, 0, 1 };
	if (history_add(h, 4000000000000000000ull, &row, 1, &err) < 0)
		abort();
	before = digest(h);
	history_close(h);
	h = NULL;
	if (history_open(path, 0, &h, &err) < 0 || history_damaged(h) || digest(h) != before)
		abort();
	history_close(h);
out:
	unlink(path);
	return 0;
}
