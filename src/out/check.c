/* SPDX-License-Identifier: Apache-2.0 */
#include "out/check.h"

void out_check_text(FILE *to, const struct out_check *line)
{
	const struct err *why = line->why;
	fprintf(to, "%-4s %-13s %s\n", why ? "no" : "ok", line->feature,
		why ? why->msg : line->gives);
	if (why && why->hint[0])
		fprintf(to, "%-18s hint: %s\n", "", why->hint);
}

void out_check_json(struct jsonw *json, const struct out_check *line)
{
	const struct err *why = line->why;
	jsonw_object(json, NULL);
	jsonw_str(json, "feature", line->feature);
	jsonw_bool(json, "ok", !why);
	jsonw_str(json, "why", why ? why->msg : line->gives);
	jsonw_str(json, "hint", why && why->hint[0] ? why->hint : NULL);
	jsonw_object_end(json);
}
