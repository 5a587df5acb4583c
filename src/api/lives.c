/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lives.h"

#include <stdio.h>
#include <string.h>

void lives_add(struct lives *lives, const char *exe, pid_t pid, const char *const *has)
{
	const char *slash = strrchr(exe, '/');
	size_t at = lives->count;
	if (at == LIVES_MAX)
		return;
	snprintf(lives->names[at], sizeof(lives->names[0]), "%s", slash ? slash + 1 : exe);
	lives->all[at] = (struct v1_live){
		.name = lives->names[at], .kind = "process", .pid = (int32_t)pid, .has = has
	};
	lives->count++;
}

void lives_none(struct lives *lives, const char *const *has)
{
	if (!lives->count)
		lives->all[lives->count++] =
			(struct v1_live){ .name = "process", .kind = "process", .has = has };
}
