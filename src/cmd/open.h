/* SPDX-License-Identifier: Apache-2.0 */
/* open.h - recordings as commands read them: progress on a terminal, notices on stderr. */
#ifndef CMD_OPEN_H
#define CMD_OPEN_H

#include "query/recording.h"

/** cmd_ears - a line of progress on a terminal, notices on stderr. */
extern const struct recording_ears cmd_ears;

/** cmd_open_recording() - recording_open() with a line of progress and notices on stderr. */
struct recording *cmd_open_recording(const char *path, struct err *err);

/** cmd_resolve() - recording_resolve() likewise. */
int cmd_resolve(struct prof *prof, struct err *err);

#endif
