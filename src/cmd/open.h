/* SPDX-License-Identifier: Apache-2.0 */
/* open.h - who hears of it when commands read recordings. */
#ifndef CMD_OPEN_H
#define CMD_OPEN_H

#include "query/recording.h"

/** cmd_ears - a line of progress on a terminal, notices on stderr. */
extern const struct recording_ears cmd_ears;

#endif
