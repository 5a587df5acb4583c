/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_usdt.c - notes of static probes as a stranger's file has them: every probe told has its texts, and arguments are known or refused. */
#include <stdlib.h>
#include <string.h>

#include "sym/usdt.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int take(void *ctx, const struct usdt *usdt)
{
	struct usdt_arg args[USDT_ARGS_MAX];
	int count = usdt_args(usdt->args, args);
	(void)ctx;
	if (count > USDT_ARGS_MAX || strlen(usdt->provider) + strlen(usdt->name) > 1u << 30)
		abort();
	for (int i = 0; i < count; i++)
		if (args[i].reg > 15 || !args[i].bytes)
			abort();
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return usdt_notes(data, size, take, NULL);
}
