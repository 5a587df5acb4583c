/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ask.c - questions to /api/v1: "key=value&..." without escapes, as the HTTP server has undone them. */
#include <stdlib.h>
#include <string.h>

#include "api/ask.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *find(void *ctx, const char *key)
{
	size_t len = strlen(key);
	for (const char *p = ctx; *p; p += strlen(p) + 1) {
		if (strncmp(p, key, len) == 0 && p[len] == '=')
			return p + len + 1;
	}
	return NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *args = malloc(size + 2);
	struct ask ask;
	struct err err = { 0 };
	if (!args)
		return 0;
	memcpy(args, data, size);
	args[size] = args[size + 1] = '\0';
	for (char *p = args; p < args + size; p++)
		*p = *p == '&' ? '\0' : *p;
	static const unsigned words[] = { ~(unsigned)(ASK_AXES | ASK_BLOCKS | ASK_EXPORT),
					  ~(unsigned)(ASK_TRANSFORMS | ASK_ROWS) };
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++) {
		err = (struct err){ 0 };
		int rc = ask_parse(find, args, words[i], &ask, &err);
		if ((rc < 0) != (err.code < 0) || (rc == 0 && ask.fold.step_count > FOLD_STEPS_MAX))
			abort();
		if (rc == 0)
			ask_fini(&ask);
	}
	free(args);
	return 0;
}
