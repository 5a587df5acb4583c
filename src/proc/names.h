/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h - names that a program gave to its memory where the kernel keeps none: the table of
 * libbyteledger, found in the program's mappings by its own name and read as hostile.
 *
 * The table is a private mapping of a memfd that is called "byteledger-names" (private, so that a
 * child of fork() has its own): one struct names_header, then @capacity entries. The sequence is
 * odd while the owner changes something.
 */
#ifndef PROC_NAMES_H
#define PROC_NAMES_H

#include <stddef.h>
#include <stdint.h>

#include "proc/label.h"
#include "proc/region.h"
#include "proc/smaps.h"
#include "proc/target.h"

#define NAMES_MEMFD "byteledger-names"
#define NAMES_PATH "/memfd:byteledger-names (deleted)"
#define NAMES_MAGIC 0x31534d414e4c42ull /* "BLNAMS1" */
#define NAMES_MAX 8000u
#define NAMES_NAME_BYTES 80u

struct names_header {
	uint64_t magic;
	uint32_t sequence;
	/* entries in use or free again; the rest was never used */
	uint32_t count;
	uint64_t reserved[6];
};
struct names_entry {
	/* bytes 0: free */
	uint64_t start, bytes;
	char name[NAMES_NAME_BYTES];
};
_Static_assert(sizeof(struct names_header) == 64 && sizeof(struct names_entry) == 96, "layout");

/**
 * struct names - a validated copy: by address, no two overlap, every name is terminated.
 * Zero-initialised is empty.
 */
struct names {
	struct names_entry *entries;
	size_t count;
	/* entries that broke a rule */
	size_t dropped;
	/**
	 * What entry @index makes of @piece, which is a whole mapping or a @part of one: class,
	 * how, label (may be put into
	 * @label) and more. NULL: a name of libbyteledger's table.
	 */
	void (*describe)(const struct names *names, size_t index, int part, struct region *piece,
			 char label[LABEL_MAX]);
	/* for it */
	void *ctx;
};

/**
 * names_read() - copy the table that lies at [@addr, @addr + @bytes) of @target. At most 770 KiB;
 * entries that make no sense are dropped and counted. @pages: read only what is resident; NULL for
 * the caller's own table. Return: 0, -EAGAIN (changed all the time), -EBADMSG (no table), -ENOMEM,
 * or that of the reading.
 */
int names_read(const struct target *target, struct pages *pages, uint64_t addr, uint64_t bytes,
	       struct names *names);
void names_fini(struct names *names);

/**
 * names_put() - pass @region on to @put, cut into pieces where names cover parts of it. What is
 * resident of a piece is counted by @pages; the other figures are divided in proportion; the pieces
 * add up to the mapping exactly. Return: 0 or @put's value.
 */
int names_put(const struct names *names, const struct region *region, struct pages *pages,
	      region_fn put, void *ctx);

#endif
