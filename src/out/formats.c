/* SPDX-License-Identifier: Apache-2.0 */
#include "out/formats.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "out/stream.h"

#define READING(name, ending, type, ...) { #name, ending, type, out_##name, NULL, __VA_ARGS__ },
#define STREAM(name, ending, type, ...) \
	{ #name, ending, type, NULL, out_##name##_new, __VA_ARGS__ },
static const struct out_format formats[] = { OUT_FORMATS(READING, STREAM) };

const struct out_format *out_format_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(formats); i++)
		if (strcmp(formats[i].name, name) == 0)
			return &formats[i];
	return NULL;
}

int out_format_follows(const struct out_format *format, unsigned words, struct err *err)
{
	static const char *const names[] = { "by", "cost", "limit", "inverted" };
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (words & ~format->words & 1u << i)
			return err_set(err, -EINVAL, "--%s does not apply to %s", names[i],
				       format->name);
	return 0;
}

int out_format_stream(const struct out_format *format, FILE *to, struct recording *recording,
		      const struct query *query, const struct prof *names, struct err *err)
{
	struct out_stream *stream = format->stream(to, names, err);
	if (!stream)
		return err->code;
	int rc = recording_stream(recording, query, out_stream_sink(stream), err);
	if (rc < 0) {
		out_stream_free(stream);
		return rc;
	}
	return out_stream_finish(stream, err);
}

int out_format_nothing(const struct out_format *format, const struct prof *prof,
		       const struct query *query, const char *path, enum view_cost cost, char *text,
		       size_t size)
{
	/* a table lists what has none of the cost, too */
	int shows_cost = format->words & OUT_WORD_COST && !(format->words & OUT_WORD_BY);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	if (totals.cost.allocations && (!shows_cost || view_cost_of(&totals.cost, cost)))
		return 0;
	if (totals.cost.allocations)
		snprintf(text, size,
			 "no allocation of '%s' has the cost '%s': the export shows none", path,
			 view_cost_name(cost));
	else if (!query_is_empty(query))
		snprintf(text, size,
			 "no allocation of '%s' fits the selection: the export is empty", path);
	else
		snprintf(text, size, "no allocation is in '%s': the export is empty", path);
	return 1;
}
