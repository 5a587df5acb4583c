/* SPDX-License-Identifier: Apache-2.0 */
/* quiet.h - --suppress and --no-suppress, the same in every command that tells of leaks. */
#ifndef CMD_QUIET_H
#define CMD_QUIET_H

#include <stddef.h>

#include "view/suppress.h"

#define QUIET_FILES_MAX 32

struct quiet {
	const char *files[QUIET_FILES_MAX]; /* lent from argv */
	size_t count;
	int off; /* not the built-in ones */
};

/** quiet_take() - --suppress @arg; more than there is room for is a usage error. */
void quiet_take(struct quiet *quiet, const char *arg);
/** quiet_check() - can the files be read, and understood? Before anything is started. */
int quiet_check(const struct quiet *quiet, struct err *err);
/**
 * quiet_run() - suppress_run() over @prof with what was asked for; release with suppress_freep(). What is given in files is always
 * taken out of @prof's leaks, the built-in rules only with @built_in_too: a machine gets them told apart. NULL with @err.
 */
struct suppress *quiet_run(const struct quiet *quiet, struct prof *prof, int built_in_too,
			   struct err *err);
/** quiet_tell() - on stderr, how much was suppressed; nothing where nothing was. */
void quiet_tell(const struct suppress *suppress);

#endif
