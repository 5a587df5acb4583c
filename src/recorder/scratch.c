/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/scratch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int scratch_make(struct scratch *s, struct err *err)
{
	const char *tmp = getenv("TMPDIR");
	snprintf(s->folder, sizeof(s->folder), "%s/byteledger.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(s->folder))
		return err_set(err, -errno, "cannot make a folder for the recording");
	snprintf(s->path, sizeof(s->path), "%s/explain.blt", s->folder);
	return 0;
}

void scratch_remove(const struct scratch *s, const char *made)
{
	unlink(made);
	rmdir(s->folder);
}
