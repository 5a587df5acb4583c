/* SPDX-License-Identifier: Apache-2.0 */
/* A first byte of even value: rows of a perf map; else records of a jitdump. */
#include <stddef.h>
#include <stdint.h>

#include "source/jitmap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct jitmap *map = size ? jitmap_new(0, 0) : NULL;
	if (map && data[0] % 2)
		jitmap_dump(map, data + 1, size - 1);
	else if (map)
		jitmap_text(map, (const char *)data + 1, size - 1);
	for (uint64_t at = 0; map && at < 4096; at += 16)
		jitmap_find(map, at);
	jitmap_free(map);
	return 0;
}
