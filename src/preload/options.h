/* SPDX-License-Identifier: Apache-2.0 */
/* options.h - what the environment asks for; read once, from the initial environment, before libc is usable. */
#ifndef PRELOAD_OPTIONS_H
#define PRELOAD_OPTIONS_H

#include "preload/sys.h"

struct options {
	int fd; /* shared memory made by a byteledger parent; -1 = none */
	int track_children;
};

/**
 * options_read() - @stack: where the kernel put argc. Variables that are only meant for this process are taken out of
 * the environment array there, which is also libc's. Return: static storage.
 */
struct options *options_read(char **stack) HIDDEN;

#endif
