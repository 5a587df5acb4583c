/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_suppress.c - a file of suppressions, and each of its lines as a pattern for the line before. */
#include <stdlib.h>
#include <string.h>

#include "view/suppress.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct err err = { 0 };
	struct suppress *rules = suppress_new(1, &err);
	char *text = malloc(size + 1);
	if (!rules || !text)
		abort();
	suppress_add(rules, (const char *)data, size, "input", &err);
	memcpy(text, data, size);
	text[size] = '\0';
	const char *last = "";
	for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
		suppress_matches(line, last);
		last = line;
	}
	free(text);
	suppress_freep(&rules);
	return 0;
}
