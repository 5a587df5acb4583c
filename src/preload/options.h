/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h - what the environment asks for; read once, from the initial environment, before libc
 * is usable.
 */
#ifndef PRELOAD_OPTIONS_H
#define PRELOAD_OPTIONS_H

#include <stddef.h>

#include "preload/sys.h"

struct options {
	int fd; /* shared memory made by a byteledger parent; -1 = none */
	int track_children;
	int disabled; /* start switched off */
	int free_stacks, stamp_every_event;
	int zero_memory;       /* malloc gives zeroed blocks, as calloc does */
	int own_allocators;    /* hook those that the program carries itself */
	int usr1, usr2;        /* install the toggle on that signal */
	uint32_t on_full;      /* enum wire_on_full */
	uint64_t budget;       /* bytes of shared memory */
	uint64_t sample_bytes; /* one stack for so many bytes; 0 = for every allocation */
	const char *output;    /* pattern; "" = no file */
	const char *filter;    /* whose allocations are recorded; "" = all */
	const char *helper;    /* NULL: search */
	const char *path;      /* PATH, where the helper is looked for last */
	char **env;
	/*
	 * FLAGS:PATTERN of WIRE_ENV_NEXT, for what an exec puts in this program's place; NULL: it
	 * is not recorded
	 */
	const char *next;
	/* of it: when its recording is over, by CLOCK_MONOTONIC; 0: when it ends */
	uint64_t until_ns;
	const char *library; /* this library's path, where there is @next */
	int stranger;        /* what is found was meant for another process: nothing is recorded */
};

/**
 * options_read() - @stack: where the kernel put argc. Variables that are only meant for this
 * process are taken out of the environment array there, which is also libc's. Opens the log.
 * Return: static storage.
 */
struct options *options_read(char **stack) HIDDEN;

/**
 * options_entry() - "NAME=VALUE" of the variable @name, whichever prefix it has in @env; NULL: it
 * is not set.
 */
const char *options_entry(char *const *env, const char *name) HIDDEN;

/**
 * options_file() - expand a file pattern (%e %t %p %h %n %%; others stay, %n is empty if @number is
 * negative) into @to; "/" and control characters in values become "_". Return: 1, or 0 where it
 * does not fit.
 */
int options_file(char *to, size_t size, const char *pattern, long number) HIDDEN;

#endif
