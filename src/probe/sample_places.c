/* SPDX-License-Identifier: Apache-2.0 */
/* sample_places.c - so many processes at once: those that have ended make place. */
#include "probe/sample_life_impl.h"

size_t sample_places_free(struct sample_target *all, size_t *count, struct sample_target *gone)
{
	size_t kept = 0, ended = 0;
	for (size_t i = 0; i < *count; i++) {
		if (all[i].ended)
			gone[ended++] = all[i];
		else
			all[kept++] = all[i];
	}
	*count = kept;
	return ended;
}
