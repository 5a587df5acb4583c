/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile mappings: the bytes are the text of smaps; what the parser takes goes through the classifier of this very process
 * (whose memory the addresses may hit), a table of names made of the same bytes, rows, groups and both text layouts.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proc/classify.h"
#include "proc/names.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint64_t sum;

static int count(void *ctx, struct region *r)
{
	(void)ctx;
	if (!r->label || !r->name || r->class >= REGION_CLASS_COUNT || r->how >= HOW_COUNT ||
	    strlen(r->label) >= LABEL_MAX)
		abort();
	sum += r->rss_bytes;
	return 0;
}

static const struct names *names;

static int cut(void *ctx, struct region *r)
{
	struct pages none = { .fd = -1 };
	uint64_t before = sum;
	int rc = names_put(names, r, &none, count, ctx);
	if (sum - before != r->rss_bytes)
		abort();
	return rc;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct target self;
	struct err err = { 0 };
	if (!self.pid && target_open(&self, 0, &err) < 0)
		return 0;
	struct names table = { 0 };
	uint64_t *copy = malloc(size + sizeof(struct names_header));
	memcpy(copy, data, size);
	copy[0] = size % 3 ? NAMES_MAGIC : copy[0];
	if (names_read(&self, NULL, (uintptr_t)copy, size, &table) < 0)
		table = (struct names){ 0 };
	names = &table;
	int fd = memfd_create("fuzz", 0);
	if (write(fd, data, size) == (ssize_t)size && lseek(fd, 0, SEEK_SET) == 0) {
		struct classifier classifier;
		struct reading reading = { 0 };
		classify_init(&classifier, &self, NULL, 0, cut, NULL);
		if (smaps_parse(fd, classify_region, &classifier, &reading, &err) == 0)
			classify_end(&classifier);
		classify_fini(&classifier);
	}
	close(fd);
	names_fini(&table);
	free(copy);
	return 0;
}
