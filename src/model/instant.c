/* SPDX-License-Identifier: Apache-2.0 */
#include "model/instant.h"

#include <stdlib.h>
#include <string.h>

#include "base/huge.h"

void instant_drop(struct instant *i)
{
	huge_free(i->blocks, i->block_room_bytes);
	i->blocks = NULL;
	i->block_count = i->block_room_bytes = 0;
}

void instant_fini(struct instant *i)
{
	instant_drop(i);
	free(i->maps);
	prof_free(i->names);
	snapshot_free(i->snapshot);
	page_shot_put(i->pages);
	memset(i, 0, sizeof(*i));
}
