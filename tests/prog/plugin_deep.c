/* SPDX-License-Identifier: Apache-2.0 */
/* Loaded with RTLD_DEEPBIND by `manners deep`: it finds the C library before the global scope. */
#include <stdlib.h>

static void *kept;

__attribute__((constructor)) static void begin(void)
{
	kept = malloc(1000);
}

/* Takes a block of its caller's, gives one of its own. */
void *plugin_swap(void *block, size_t bytes);
void *plugin_swap(void *block, size_t bytes)
{
	free(block);
	kept = realloc(kept, 1000 + bytes);
	return calloc(1, bytes);
}
