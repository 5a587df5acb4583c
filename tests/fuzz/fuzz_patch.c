/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a function whose head shall move: what is written are whole instructions again. */
#include <stdlib.h>
#include <string.h>

#include "patch/patch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* within reach of each other, and the function at the end, where a sanitizer sees a byte too many */
	uint8_t *to = malloc(PATCH_MOVED_MAX + size), *code = to + PATCH_MOVED_MAX;
	if (!to)
		return 0;
	memcpy(code, data, size);
	unsigned head = patch_head(code, size), bytes = head ? patch_move(to, code, head) : 0,
		 at = 0;
	if (head && (head < PATCH_JUMP_BYTES || head > size))
		__builtin_trap();
	if (bytes > PATCH_MOVED_MAX || (bytes && bytes <= PATCH_JUMP_BYTES))
		__builtin_trap();
	/* the first half as the function, the rest as what it goes on in; the code around begins at the function */
	size_t half = size / 2;
	if (head && head <= half && patch_led_into(code, half, head, code, code + size) > 1)
		__builtin_trap();
	for (unsigned length; at < bytes; at += length) {
		length = patch_length(to + at, bytes - at);
		if (!length)
			__builtin_trap();
	}
	free(to);
	return 0;
}
