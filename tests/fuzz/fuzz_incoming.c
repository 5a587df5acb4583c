/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_incoming.c - what a stranger sends to `gather`, in one piece and byte by byte: the same comes
 * out, data lies inside what came, and a file's name is one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "recorder/incoming.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_name(const char *from)
{
	char name[INCOMING_NAME];
	incoming_name(from, name);
	if (!name[0] || name[0] == '.' || strchr(name, '/') || !strstr(name, ".blt") ||
	    strlen(name) >= sizeof(name))
		abort();
}

/* What comes out, as one number. */
static uint32_t feed(const uint8_t *data, size_t size, size_t step)
{
	struct incoming in = { 0 };
	struct incoming_item item;
	uint32_t sum = 0;
	for (size_t at = 0; at < size; at += step) {
		const uint8_t *from = data + at,
			      *end = from + (size - at < step ? size - at : step);
		size_t left = (size_t)(end - from);
		int rc;
		while ((rc = incoming_take(&in, &from, &left, &item)) > 0) {
			if (from + left != end)
				abort();
			if (item.kind == INCOMING_DATA) {
				if (!item.count || item.bytes < data ||
				    item.bytes + item.count > end)
					abort();
				for (size_t i = 0; i < item.count; i++) {
					uint64_t place = item.at + i;
					sum = crc_32(sum, &place, sizeof(place));
					sum = crc_32(sum, item.bytes + i, 1);
				}
				continue;
			}
			if (item.kind == INCOMING_HELLO)
				check_name(item.hello->name);
			sum = crc_32(sum, &item.kind, sizeof(item.kind));
			sum = crc_32(sum, &item.at, sizeof(item.at));
		}
		if (rc < 0)
			return crc_32(sum, &rc, sizeof(rc));
		if (left)
			abort();
	}
	return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct wire_send_answer answer = { 0 };
	uint64_t held;
	char name[200] = "";
	memcpy(name, data, size < sizeof(name) - 1 ? size : sizeof(name) - 1);
	check_name(name);
	memcpy(&answer, data, size < sizeof(answer) ? size : sizeof(answer));
	if (incoming_answer(&answer, &held) > WIRE_SEND_REFUSED)
		abort();
	if (feed(data, size, size + 1) != feed(data, size, 1) ||
	    feed(data, size, 7) != feed(data, size, 1))
		abort();
	return 0;
}
