/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bpftables.h - what bpf/walk.h walks by, kept up to date from user space: unwind tables and the
 * executable mappings of the processes that are followed. Whoever loads a program that includes
 * walk.h owns one.
 *
 * Calls in order of use: new, add (each process), bytes (between open and load), open (after load),
 * then mark and update as mappings come, add and remove as processes do, free. One thread at a
 * time.
 */
#ifndef SOURCE_BPFTABLES_H
#define SOURCE_BPFTABLES_H

#include <stdint.h>

#include <bpf/libbpf.h>

#include "base/err.h"
#include "wire/stack.h"

struct bpftables;

/** The maps of walk.h in the loaded skeleton; lent. */
struct bpftables_maps {
	struct bpf_map *words, *places, *processes, *rules;
};

/**
 * bpftables_new() - @cache_dir as unwind_rows_new(). @table_bytes: room for tables; 0 = twice what
 * the processes added before bpftables_bytes() need, 4 MiB at least.
 */
struct bpftables *bpftables_new(const char *cache_dir, uint32_t table_bytes, struct err *err);
void bpftables_free(struct bpftables *tables);

/**
 * bpftables_add() - follow process @pid: read its mappings, make or fetch their tables (seconds for
 * gigabytes of code that was never seen before), publish them. -ESRCH when it is gone.
 */
int bpftables_add(struct bpftables *tables, uint32_t pid, struct err *err);
/**
 * bpftables_expect() - make the table of the file @path, which will be mapped; nothing where it has
 * none.
 */
void bpftables_expect(struct bpftables *tables, const char *path);
/**
 * bpftables_fork() - @child runs the code of @parent, which is followed: it gets the same places,
 * nothing is read. Return: 0, or negative errno where bpftables_add() is to be tried.
 */
int bpftables_fork(struct bpftables *tables, uint32_t parent, uint32_t child);
/** bpftables_remove() - forget @pid, which ended; its tables stay for others. */
void bpftables_remove(struct bpftables *tables, uint32_t pid);

/**
 * bpftables_bytes() - the size that the map of words is to have, a power of two; the mask is that /
 * 4 - 1.
 */
uint64_t bpftables_bytes(struct bpftables *tables);
/** bpftables_open() - the programs are loaded: fill their maps. */
int bpftables_open(struct bpftables *tables, const struct bpftables_maps *maps, struct err *err);

/**
 * bpftables_refresh() - look whether @pid has mapped new code, and publish it. Return: 1 changed, 0
 * not, or negative.
 */
int bpftables_refresh(struct bpftables *tables, uint32_t pid, struct err *err);
/** bpftables_mark() - something was mapped in @pid (0: in any): bpftables_update() is to look. */
void bpftables_mark(struct bpftables *tables, uint32_t pid);
/**
 * bpftables_update() - look at those that were marked, or, where nobody announces mappings
 * (@announced 0), at each every 50 ms. @changed, which may be NULL, for each process whose code is
 * not what it was. Return: how many.
 */
int bpftables_update(struct bpftables *tables, int announced,
		     void (*changed)(void *ctx, uint32_t pid), void *ctx);

/**
 * struct bpftables_spot - a place in code, as sym_resolve() wants it; lent until the next change.
 */
struct bpftables_spot {
	/* NULL: code of no file */
	const char *path;
	const uint8_t *build_id;
	uint8_t build_id_len;
	/*
	 * ELF virtual address; of bpftables_each(): what to subtract from addresses, UINT64_MAX =
	 * unknown
	 */
	uint64_t offset;
	/* of bpftables_each(): of the mapping's first byte */
	uint64_t file_offset;
};
/** bpftables_locate() - where @addr of process @pid is; -ENOENT where no file's code is mapped. */
int bpftables_locate(const struct bpftables *tables, uint32_t pid, uint64_t addr,
		     struct bpftables_spot *spot);
/**
 * bpftables_each() - every executable mapping of @pid by address; -ENOENT where it is not followed,
 * else @place's value.
 */
int bpftables_each(const struct bpftables *tables, uint32_t pid,
		   int (*place)(void *ctx, const struct bpftables_spot *spot, uint64_t lo,
				uint64_t hi),
		   void *ctx);

struct bpftables_counts {
	uint64_t table_bytes, table_room;
	uint32_t modules, places, modules_without_table;
	/* of those: for want of room */
	uint32_t modules_left_out;
};
void bpftables_count(const struct bpftables *tables, struct bpftables_counts *counts);

#endif
