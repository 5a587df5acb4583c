/* SPDX-License-Identifier: Apache-2.0 */
/*
 * script.h - scripts over the blocks and mappings of a recording: Lua 5.4 with the names that users
 * of the older tracer know (docs/bytehound.md lists them).
 *
 * A script is a stranger's program. It runs in a child of its own, which holds no descriptor but
 * the pipe to us and the recording's rows, may open none, and is killed when its time is over or
 * nobody waits for it any more: whatever it does, and whatever a fault in the interpreter would let
 * it do, ends with that child. It has no io, os, package, debug, load, dofile or bytecode.
 */
#ifndef SCRIPT_SCRIPT_H
#define SCRIPT_SCRIPT_H

#include "base/buf.h"
#include "base/err.h"
#include "model/prof.h"
#include "query/blocks.h"

#define SCRIPT_OUTPUTS_MAX 10000
#define SCRIPT_TEXT_MAX (8u << 20)      /* of what is printed */
#define SCRIPT_PICTURES_MAX (16u << 20) /* of all pictures together */

/**
 * struct script_map - a mapping that the program made, as a row (id from 1, bytes, both times,
 * stack) and what else is known.
 */
struct script_map {
	struct block_row row;
	/* PROT_READ ... */
	uint32_t prot;
	int is_jemalloc;
};

/** struct script_data - what a script works on; lent for the call. */
struct script_data {
	const struct blocks *blocks;
	const struct prof *names;
	/* by stack row of @names */
	const struct block_group *groups;
	const struct script_map *maps;
	size_t map_count;
	uint64_t length_ns;
	int has_jemalloc;
};

struct script_opt {
	/* 0: 20, 60 */
	unsigned cpu_seconds, wall_seconds;
	/* of the interpreter and its lists; 0: 256 MiB */
	size_t memory_bytes;
	/* does nobody wait any more? NULL: somebody does */
	int (*gone)(void *ctx);
	void *ctx;
	/*
	 * Not NULL: the script is a filter, whose value is a list: bit id - 1 is set for each of
	 * its blocks, or mappings if @of_maps. Zeroed, of shared memory (script_bits_new()).
	 */
	uint8_t *bits;
	int of_maps;
};

/** struct script_output - a line that was printed, or a picture. */
struct script_output {
	/* line, or SVG; NUL-terminated */
	char *text;
	size_t len;
	/* of a picture: where the script put it; NULL: a line */
	char *path;
};
struct script_result {
	int ok;
	double elapsed_seconds;
	/* why it failed */
	char *message;
	/* 0: not known */
	unsigned line;
	struct script_output *outputs;
	size_t count;
	/* private */
	size_t room, text_bytes, picture_bytes;
	int has_ended;
};

/**
 * script_run() - run @source. A script that fails is no error: result->ok says it. -ENOENT:
 * liblua5.4 is not installed, -ECANCELED: nobody waits any more. Blocks for as long as it takes;
 * any thread. Release with script_result_fini().
 */
int script_run(const char *source, size_t len, const struct script_data *data,
	       const struct script_opt *opt, struct script_result *result, struct err *err);
void script_result_fini(struct script_result *result);

/** script_bits_new() - @count zeroed bits that a script's child can set; NULL without memory. */
uint8_t *script_bits_new(uint64_t count);
void script_bits_free(uint8_t *bits, uint64_t count);

#endif
