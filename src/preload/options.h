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
	/* shared memory made by a byteledger parent; -1 = none */
	int fd;
	int track_children;
	/* start switched off */
	int disabled;
	int free_stacks, stamp_every_event;
	/* malloc gives zeroed blocks, as calloc does */
	int zero_memory;
	/* hook those that the program carries itself */
	int own_allocators;
	/* install the toggle on that signal */
	int usr1, usr2;
	/* enum wire_on_full */
	uint32_t on_full;
	/* the number that the recordings of a program and its children bear; 0 = none */
	uint64_t family;
	/* bytes of shared memory */
	uint64_t budget;
	/* one stack for so many bytes; 0 = for every allocation */
	uint64_t sample_bytes;
	/* pattern; "" = no file */
	const char *output;
	/* whose allocations are recorded; "" = all */
	const char *filter;
	/* NULL: search */
	const char *helper;
	/* PATH, where the helper is looked for last */
	const char *path;
	char **env;
	/*
	 * FLAGS:PATTERN of WIRE_ENV_NEXT, for what an exec puts in this program's place; NULL: it
	 * is not recorded
	 */
	const char *next;
	/* of it: when its recording is over, by CLOCK_MONOTONIC; 0: when it ends */
	uint64_t until_ns;
	/* this library's path, where there is @next or children are followed */
	const char *library;
	/* what is found was meant for another process: nothing is recorded */
	int stranger;
};

/**
 * options_read() - @stack: where the kernel put argc. Variables that are only meant for this
 * process are taken out of the environment array there, which is also libc's. Opens the log.
 * Return: static storage.
 */
struct options *options_read(char **stack) HIDDEN;

/**
 * options_bare_env() - @env for a program that cannot open this library: without it in LD_PRELOAD.
 * @to has room for as many, @text of @size bytes for what is left of the lists. Return: @to.
 */
char *const *options_bare_env(char *const *env, char **to, char *text, size_t size) HIDDEN;

/**
 * options_entry() - "NAME=VALUE" of the variable @name, whichever prefix it has in @env; NULL: it
 * is not set.
 */
const char *options_entry(char *const *env, const char *name) HIDDEN;

/**
 * options_program() - the program's path into @to: as /proc tells it, or else as it was asked for,
 * from the current folder on. Return: its length; @size - 1: it may be longer. 0: not known.
 */
size_t options_program(char *to, size_t size) HIDDEN;
/**
 * options_file() - expand a file pattern (%e %t %p %h %n %%; others stay, %n is empty if @number is
 * negative) into @to; "/" and control characters in values become "_". Return: 1, or 0 where it
 * does not fit.
 */
int options_file(char *to, size_t size, const char *pattern, long number) HIDDEN;

#endif
