/* SPDX-License-Identifier: Apache-2.0 */
/*
 * opener.h - who opens files: this process itself, or, in the child that reads them without
 * privileges, its parent.
 */
#ifndef SYM_OPENER_H
#define SYM_OPENER_H

#include <stdint.h>

enum opener_kind {
	OPENER_BELOW,  /* @path below the root of the process that is asked about */
	OPENER_OWN,    /* @path below our own root */
	OPENER_MAPPED, /* the @nth mapping of @path in that process */
	OPENER_GIVEN,  /* the file that the question is about */
	OPENER_SERVER  /* the debug file of build id @path[@len], from a debuginfod server */
};

/**
 * A descriptor, or negative errno. *@found: malloc'd, where a server's file is kept; NULL for
 * others.
 */
typedef int (*opener_fn)(void *ctx, enum opener_kind kind, const char *path, uint32_t len,
			 uint32_t nth, char **found);

/** opener_set() - from now on this process asks @fn. Once, before anything is opened. */
void opener_set(opener_fn fn, void *ctx);
/** opener_ask() - 1 and *@fd if there is somebody to ask, else 0. */
int opener_ask(enum opener_kind kind, const char *path, uint32_t len, uint32_t nth, char **found,
	       int *fd);

#endif
