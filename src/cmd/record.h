/* SPDX-License-Identifier: Apache-2.0 */
/* record.h - recording a program from a command line: `heap`, `run`, and the recorder that the preload library starts. */
#ifndef CMD_RECORD_H
#define CMD_RECORD_H

/**
 * record_command() - the whole of `heap` and `run`, which are called @name and do what @doc says; returns byteledger's exit
 * status.
 */
int record_command(int argc, char **argv, const char *name, const char *doc);

/** record_helper() - `byteledger --recorder FD [-o PATTERN]`, started by the preload library. */
int record_helper(int argc, char **argv);

#endif
