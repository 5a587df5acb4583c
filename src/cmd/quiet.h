/* SPDX-License-Identifier: Apache-2.0 */
/* quiet.h - --suppress and --no-suppress, the same in every command that tells of leaks. */
#ifndef CMD_QUIET_H
#define CMD_QUIET_H

#include "query/suppress_files.h"

/** quiet_take() - --suppress @arg; more than there is room for is a usage error. */
void quiet_take(struct suppress_files *given, const char *arg);
/** quiet_tell() - on stderr, how much was suppressed; nothing where nothing was. */
void quiet_tell(const struct suppress *suppress);

#endif
