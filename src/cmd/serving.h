/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serving.h - the options of a command that serves what it shows (api/serving.h): `serve`, and
 * `--serve` of those that record.
 */
#ifndef CMD_SERVING_H
#define CMD_SERVING_H

#include <argp.h>

#include "api/serving.h"

/**
 * serving_guard_argp - a child parser for --token-file, --no-auth, --host, --cors; its input is a
 * struct serving_opt.
 */
extern const struct argp serving_guard_argp;
/** serving_argp - the same and --serve [ADDR:PORT], for a command that records. */
extern const struct argp serving_argp;
/**
 * serving_takes() - is @word the address that --serve may have as the next word? Then it is taken:
 * 1.
 */
int serving_takes(struct serving_opt *opt, const char *word);

/** serving_open_page() - start the browser where --open asks for it: 1 it was; why not is said. */
int serving_open_page(const struct serving_opt *opt, const struct serving *serving);
/** serving_tell_url() - on stdout. */
void serving_tell_url(const struct serving *serving);
/** serving_tell_note() - the line on who can read what is served, where there is one; on stderr. */
void serving_tell_note(const struct serving *serving);
/** serving_begin() - serving_new(), and that line unless opt->quiet. */
struct serving *serving_begin(const struct serving_opt *opt, const char *const *paths, size_t count,
			      struct err *err);

#endif
