/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chosen.h - blocks of some sizes, addresses or of one thread, of a recording that is being
 * written: read once, and from then on only what came since. What blocks are chosen by is known
 * when they are made, so nothing that was counted changes later; of lifetimes that is not so.
 */
#ifndef QUERY_CHOSEN_H
#define QUERY_CHOSEN_H

#include "model/prof.h"
#include "query/query.h"

struct chosen;

/** chosen_can() - does @query choose by size, address or thread, and by nothing else? */
int chosen_can(const struct query *query);
/** chosen_new() - of the .blt recording at @path; nothing is read yet. NULL with @err. */
struct chosen *chosen_new(const char *path, const struct query *query, struct err *err);
void chosen_freep(struct chosen **chosen);
/** chosen_is() - is it of the same blocks as @query? */
int chosen_is(const struct chosen *chosen, const struct query *query);
/** struct chosen_patience - @look: how far it is, in bytes; nonzero: go on no more. */
struct chosen_patience {
	int (*look)(void *ctx, uint64_t done, uint64_t total);
	void *ctx;
};
/**
 * chosen_read() - on, up to byte @until, where a block begins. 1; 0: it cannot be had of this
 * recording, or that is no place between two blocks; -ECANCELED, or another negative errno.
 */
int chosen_read(struct chosen *chosen, uint64_t until, const struct chosen_patience *patience,
		struct err *err);
/** chosen_prof() - what query_run() gives for the same words, as far as was read; lent. */
const struct prof *chosen_prof(const struct chosen *chosen);
/** chosen_bytes() - how many bytes of the file it has read, ever. */
uint64_t chosen_bytes(const struct chosen *chosen);

#endif
