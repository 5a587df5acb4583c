/* SPDX-License-Identifier: Apache-2.0 */
/* contents.h - what is in a recording, written out. */
#ifndef OUT_CONTENTS_H
#define OUT_CONTENTS_H

#include <stdio.h>

#include "query/contents.h"

/** out_contents_text() - for people. out_contents_json() - one object, a line. */
void out_contents_text(FILE *to, const struct contents *contents);
void out_contents_json(FILE *to, const struct contents *contents);

#endif
