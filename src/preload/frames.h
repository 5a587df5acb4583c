/* SPDX-License-Identifier: Apache-2.0 */
/* frames.h - unwind entries that only an object's section table tells of. */
#ifndef PRELOAD_FRAMES_H
#define PRELOAD_FRAMES_H

#include <link.h>

#include "unwind/capture.h"

struct frames_object {
	uint64_t bias;
	/* as mapped */
	const ElfW(Phdr) * phdr;
	unsigned phdr_count;
};

/**
 * frames_load() - read the section table of the file @path and fill @to, which is zeroed, with what
 * of it is not announced by a header. Some ten system calls; under the lock of modules.c. What
 * cannot be read is left out.
 */
void frames_load(const char *path, const struct frames_object *object, struct unwind_frames *to);

#endif
