/* SPDX-License-Identifier: Apache-2.0 */
/*
 * late.h - libraries that few commands need, loaded when the first one does: linked in the ordinary
 * way, libcurl, libmicrohttpd and what they bring took more than half of the start of every
 * command.
 */
#ifndef BASE_LATE_H
#define BASE_LATE_H

#include <pthread.h>
#include <stddef.h>

#include "base/err.h"

struct late_function {
	const char *name;
	/* address of the pointer to it */
	void *to;
};

/**
 * struct late - one library; static, zero but for what is set here. It stays until the process
 * ends.
 */
struct late {
	/* names to try, in order, NULL behind the last */
	const char *const *files;
	/* for the hint */
	const char *package;
	const struct late_function *functions;
	size_t count;
	/* PTHREAD_MUTEX_INITIALIZER */
	pthread_mutex_t lock;
	int ready;
};

/**
 * late_get() - the functions are there behind the first 0; any thread. -ENOENT: not installed, or
 * another library.
 */
int late_get(struct late *late, struct err *err);

#define LATE_FUNCTION(table, prefix, name)   \
	{                                    \
#prefix #name, &(table).name \
	}

#endif
