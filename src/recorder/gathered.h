/* SPDX-License-Identifier: Apache-2.0 */
/* gathered.h - a file of gather's folder that a recording is received into. */
#ifndef RECORDER_GATHERED_H
#define RECORDER_GATHERED_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "wire/send.h"

struct gathered {
	/* -1: there is none */
	int fd;
	uint8_t header[WIRE_SEND_HEADER];
	/* in the folder */
	char name[160];
	uint64_t bytes;
	/* by us, just now: not one that was there and goes on */
	int created;
	/* nobody sends it any more since then, 0: somebody does; ns */
	uint64_t alone_ns;
};

/**
 * gathered_open() - the file of @folder that begins with @header and nobody writes, or else a new
 * one, called @name or with a number behind it. Its lock tells readers that it is being written.
 */
int gathered_open(struct gathered *file, int folder, const uint8_t *header, const char *name,
		  struct err *err);
/** gathered_has_room() - 1: the disk takes more. */
int gathered_has_room(int folder);
/** gathered_put() - at its end; on failure it ends where it did. 0 or negative errno. */
int gathered_put(struct gathered *file, const void *bytes, size_t count);
/** gathered_close() - nobody writes it any more. */
void gathered_close(struct gathered *file);

#endif
