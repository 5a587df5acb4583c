/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as a function's code: whatever they are, the place of the probe lies inside. */
#include <stddef.h>
#include <stdint.h>

#include "sym/functions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct site site;
	if (size < 2)
		return 0;
	site_choose(data + 1, size - 1, 0x1000, data[0], &site);
	if (site.offset >= size - 1 || site.edge_count > SITE_EDGES_MAX)
		__builtin_trap();
	return 0;
}
