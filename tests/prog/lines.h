/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lines.h - a program of counts that goes on until its input ends: a line N is N rounds, and is answered by what they allocated,
 * the bytes, and what they released. Without stdio, whose buffers are the allocator's, too.
 */
#ifndef LINES_H
#define LINES_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Return: the number on the next line; -1: there is none. */
static inline int lines_next(void)
{
	char text[64];
	size_t have = 0;
	while (have < sizeof(text) - 1 && read(0, text + have, 1) == 1 && text[have] != '\n')
		have++;
	int more = text[have] == '\n';
	text[have] = '\0';
	return more ? atoi(text) : -1;
}

static inline void lines_say(unsigned long allocs, unsigned long bytes, unsigned long frees)
{
	char text[128];
	int len = snprintf(text, sizeof(text), "%lu %lu %lu\n", allocs, bytes, frees);
	if (write(1, text, (size_t)len) < 0)
		abort();
}

static inline void lines_ready(void)
{
	if (write(1, "ready\n", 6) < 0)
		abort();
}

#endif
