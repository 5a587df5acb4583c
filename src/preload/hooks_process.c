/* SPDX-License-Identifier: Apache-2.0 */
/* hooks_process.c - calls that change what may be recorded, and the ends of a process. */
#include <errno.h>
#include <stdlib.h>

#include "preload/next.h"
#include "preload/state.h"

#define EXPORT __attribute__((visibility("default")))

int dlclose(void *handle);
EXPORT int dlclose(void *handle)
{
	struct thread *t = &self;
	if (!process.resolved)
		start_once();
	if (!next.dlclose)
		return -1;
	int rc = next.dlclose(handle);
	if (rc == 0 && (proc.word & MODE_MASK) > MODE_OFF) {
		int saved_errno = errno;
		uint32_t sync = t->sync;
		t->sync = SYNC_OWN;
		t->own = 1;
		modules_closed();
		t->own = 0;
		t->sync = sync;
		errno = saved_errno;
	}
	return rc;
}
