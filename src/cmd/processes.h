/* SPDX-License-Identifier: Apache-2.0 */
/* processes.h - the processes of this machine, for `byteledger top`. */
#ifndef CMD_PROCESSES_H
#define CMD_PROCESSES_H

#include "tui/crowd.h"

/** processes_read() - those with memory whose program's name @ctx (a glob; NULL: any) matches, as struct crowd_opt wants them. */
int processes_read(void *ctx, struct crowd_row *rows, size_t room, struct err *err);

#endif
