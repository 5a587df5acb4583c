/* SPDX-License-Identifier: Apache-2.0 */
#include "source/filter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "wire/heap_filter.h"

int source_filter_new(struct sieve **sieve, const char *text, struct sink *to, struct err *err)
{
	*sieve = NULL;
	if (!text || !*text)
		return 0;
	if (wire_filter_check(text) < 0) {
		err_set(err, -EINVAL, "cannot use BYTELEDGER_FILTER '%s'", text);
		err_hint(err, "thread:NAME, !thread:NAME, module:NAME, !module:NAME, separated by "
			      "commas, at most 1023 bytes; see byteledger-preload(7)");
		return -EINVAL;
	}
	/* a word has more than eight bytes */
	size_t count = 0;
	struct sieve_word *words = calloc(strlen(text) / 8 + 1, sizeof(*words));
	int complete = words != NULL;
	for (const char *at = text; complete && *at;) {
		struct wire_filter_word word;
		at = wire_filter_word(at, &word);
		words[count] = (struct sieve_word){
			.what = word.is_module ? SIEVE_MODULE : SIEVE_THREAD,
			.unless = word.unless,
			.glob = strndup(word.glob, word.glob_len),
		};
		complete = words[count++].glob != NULL;
	}
	if (complete)
		*sieve = sieve_new(words, count, to, err);
	else
		err_set(err, -ENOMEM, "cannot hold a filter");
	for (size_t i = 0; i < count; i++)
		free((char *)words[i].glob);
	free(words);
	return *sieve ? 0 : -ENOMEM;
}
