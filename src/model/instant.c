/* SPDX-License-Identifier: Apache-2.0 */
#include "model/instant.h"

#include <stdlib.h>
#include <string.h>

void instant_fini(struct instant *i)
{
	free(i->blocks);
	free(i->maps);
	prof_free(i->names);
	snapshot_free(i->snapshot);
	memset(i, 0, sizeof(*i));
}
