/* SPDX-License-Identifier: Apache-2.0 */
/* screens_internal.h - what screens.c and screens_more.c share. */
#ifndef TUI_SCREENS_INTERNAL_H
#define TUI_SCREENS_INTERNAL_H

#include <jansson.h>

#include "tui/screens.h"

struct reading {
	const struct screen_what *what;
	struct sheet *sheet;
	json_t *top;
};

/* Numbers come as doubles: addresses of the kernel are larger than a json_int_t. */
int64_t reading_number(const json_t *object, const char *key);
const char *reading_word(const json_t *object, const char *key);
/** reading_function() - how a frame as object, {function, module, offset}, is called. */
void reading_function(const struct reading *r, const json_t *frame, struct buf *to);
/** reading_frames() - a row a frame of the array, below @parent; "file:line" is their detail. */
int reading_frames(const struct reading *r, const json_t *frames, uint32_t parent, uint64_t key);
/** reading_sum() - of two such numbers, one of the same range; what is not known adds nothing. */
int64_t reading_sum(int64_t a, int64_t b);
/** reading_count() - a number as text, "?" where it is not there. Lent, or @text. */
const char *reading_count(char text[24], const json_t *object, const char *key);
/** reading_too_deep() - says below the rows that some were left out. */
void reading_too_deep(struct sheet *sheet);
/** reading_text() - printf into the arena; NULL without memory. */
const char *reading_text(struct sheet *sheet, const char *fmt, ...) PRINTF(2, 3);

/** reading_verdict() - the sentences of the array @key, as the sheet's. */
void reading_verdict(const struct reading *r, const char *key);

int read_regions(const struct reading *r);
int read_maps(const struct reading *r);
int read_pages(const struct reading *r);
int read_sampler(const struct reading *r);
int read_messages(const struct reading *r);
int read_connections(const struct reading *r);
int read_logs(const struct reading *r);

#define ARRAY(r, key) json_object_get((r)->top, key)

#endif
