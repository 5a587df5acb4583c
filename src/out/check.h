/* SPDX-License-Identifier: Apache-2.0 */
/* check.h - what a machine permits, a line a feature. */
#ifndef OUT_CHECK_H
#define OUT_CHECK_H

#include <stdio.h>

#include "base/err.h"
#include "base/jsonw.h"

struct out_check {
	/* its name, and in a few words what works where it succeeds */
	const char *feature, *gives;
	/* why it does not, with the remedy; NULL: it does */
	const struct err *why;
};
void out_check_text(FILE *to, const struct out_check *line);
/** out_check_json() - an object, into an array that is open. */
void out_check_json(struct jsonw *json, const struct out_check *line);

#endif
