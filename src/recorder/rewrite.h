/* SPDX-License-Identifier: Apache-2.0 */
/* rewrite.h - a recording made of another one, or of several, which stay as they are. */
#ifndef RECORDER_REWRITE_H
#define RECORDER_REWRITE_H

#include "query/recording.h"
#include "query/veil.h"

/** struct rewrite_opt - zero-initialised copies, with names for all that this machine can name. */
struct rewrite_opt {
	/* how far it is, and what cannot be named; NULL */
	const struct recording_ears *ears;
	/* of what another program wrote, as it is: a recording is refused */
	int imports;
	/* leave out what was freed within @lifetime_ns of its allocation; no names are looked up */
	int strips;
	uint64_t lifetime_ns;
	/*
	 * Snapshots, readings of pages and embedded files are full of paths: where anything is
	 * veiled, they go.
	 */
	enum veil_how veil;
};
struct rewrite_result {
	/* malloc'd: @out_path, or that with a number behind it */
	char *path;
	uint64_t before_bytes, after_bytes;
	/* stripped */
	uint64_t left_out_allocations, left_out_bytes;
};

/**
 * recorder_rewrite() - @rec, as @opt says, into a new recording. Memory does not grow with events.
 * 0 or negative errno: no file stays. @result: free its path.
 */
int recorder_rewrite(struct recording *rec, const struct rewrite_opt *opt, const char *out_path,
		     struct rewrite_result *result, struct err *err);

/**
 * recorder_merge() - the recordings at @paths as one (query/merge.h) into a new recording, with the
 * files that are embedded in them; snapshots and readings of pages are of one process each and stay
 * where they are. @ears: may be NULL; its notices are what is damaged in which. As
 * recorder_rewrite().
 */
int recorder_merge(const char *const *paths, size_t count, const char *out_path,
		   const struct recording_ears *ears, struct rewrite_result *result,
		   struct err *err);

/**
 * recorder_extract() - the files that are embedded in the recording @path, below @folder, which is
 * made where it is not there: their own paths, never outside of it; one that is there already gets
 * .000, .001 ... @each is told of each, with NULL where its content is not in the recording.
 */
int recorder_extract(const char *path, const char *folder,
		     void (*each)(void *ctx, const char *name, const char *made), void *ctx,
		     struct err *err);

#endif
