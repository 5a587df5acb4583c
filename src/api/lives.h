/* SPDX-License-Identifier: Apache-2.0 */
/* lives.h - processes that are looked at, as sources of the page. */
#ifndef API_LIVES_H
#define API_LIVES_H

#include <sys/types.h>

#include "api/serving.h"

#define LIVES_MAX 16

/** struct lives - zero-initialised; stays as long as the server. */
struct lives {
	struct v1_live all[LIVES_MAX];
	char names[LIVES_MAX][64];
	size_t count;
};

/**
 * lives_add() - process @pid, which runs @exe; beyond LIVES_MAX nothing. @has: words of `has`
 * (docs/api.md 4.1), NULL-terminated, static.
 */
void lives_add(struct lives *lives, const char *exe, pid_t pid, const char *const *has);
/** lives_none() - where none was added: one without a name, for a process that is waited for. */
void lives_none(struct lives *lives, const char *const *has);

#endif
