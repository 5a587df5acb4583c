/* SPDX-License-Identifier: Apache-2.0 */
#include "model/marks.h"

#include <stddef.h>

const struct mark *marks_find(const struct marks *marks, uint64_t value)
{
	for (uint32_t i = 0; i < marks->count; i++)
		if (marks->at[i].value == value)
			return &marks->at[i];
	return NULL;
}

/* Leave out whatever is not the first of its number. */
static void keep_firsts(struct marks *marks)
{
	uint32_t count = marks->count;
	marks->count = 0;
	for (uint32_t i = 0; i < count; i++)
		if (!marks_find(marks, marks->at[i].value))
			marks->at[marks->count++] = marks->at[i];
	marks->firsts = 1;
}

void marks_put(struct marks *marks, uint64_t time_ns, uint64_t value)
{
	marks->total++;
	if (marks->count == MARKS_MAX && !marks->firsts)
		keep_firsts(marks);
	if (marks->count == MARKS_MAX || (marks->firsts && marks_find(marks, value)))
		return;
	marks->at[marks->count++] = (struct mark){ time_ns, value };
}
