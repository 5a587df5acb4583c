/* SPDX-License-Identifier: Apache-2.0 */
/* failed.h - was all of it written? */
#pragma once

#include <errno.h>
#include <stdio.h>

#include "base/err.h"

/**
 * out_failed() - 0, or why what was written to @to did not arrive: -EPIPE nobody reads it any more,
 * -ENOSPC a full disk ... @what: "cannot write JSON". What an earlier write failed of is asked
 * again, since errno has gone by.
 */
static inline int out_failed(FILE *to, const char *what, struct err *err)
{
	if (!ferror(to))
		return 0;
	errno = 0;
	fflush(to);
	return err_set(err, errno ? -errno : -EIO, "%s", what);
}
