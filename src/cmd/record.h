/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - recording a program from a command line: `heap`, `run`, and the recorder that the
 * preload library starts.
 */
#ifndef CMD_RECORD_H
#define CMD_RECORD_H

#include <stddef.h>

/**
 * record_command() - the whole of `heap` and `run`, which are called @name and do what @doc says;
 * @snapshots: the recording says where the memory is. Returns byteledger's exit status.
 */
int record_command(int argc, char **argv, const char *name, const char *doc, int snapshots);

/**
 * record_quietly() - record the program @argv into @output and print nothing but what goes wrong.
 * @made receives the recording's path, "" where there is none. Return: the program's status.
 */
int record_quietly(const char *output, char **argv, char *made, size_t size);

/** record_helper() - `byteledger --recorder FD [-o PATTERN]`, started by the preload library. */
int record_helper(int argc, char **argv);

#endif
