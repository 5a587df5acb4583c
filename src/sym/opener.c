/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/opener.h"

#include <stddef.h>

static opener_fn opener;
static void *opener_ctx;

void opener_set(opener_fn fn, void *ctx)
{
	opener = fn;
	opener_ctx = ctx;
}

int opener_ask(enum opener_kind kind, const char *path, uint32_t len, uint32_t nth, char **found,
	       int *fd)
{
	if (!opener)
		return 0;
	*fd = opener(opener_ctx, kind, path, len, nth, found);
	return 1;
}
