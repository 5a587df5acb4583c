/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heaptrack_impl.h - what the reader's files share: heaptrack.c (lines, definitions),
 * heaptrack_blocks.c (events).
 */
#ifndef SOURCE_HEAPTRACK_IMPL_H
#define SOURCE_HEAPTRACK_IMPL_H

#include "base/buf.h"
#include "source/heaptrack.h"
#include "source/heaptrack_lines.h"
#include "source/heaptrack_tables.h"

#define HT_BATCH 1024

/*
 * A definition that cannot be trusted: reading ends there, what came before stands. Positive, so
 * never an errno.
 */
#define STOP_HERE 1

enum file_kind { KIND_UNKNOWN = 0, KIND_RAW, KIND_INTERPRETED };

struct class_row {
	uint64_t bytes;
	uint32_t stack;
	/* first of the chain of live blocks, number + 1 */
	uint32_t live;
	/* the class of equal size and trace that has the chain: files may number a pair twice */
	uint32_t home;
};

/* A loaded object of a raw file; equal ones have one number. */
struct module_row {
	char *path;
	uint64_t base, lo, hi;
};

/* What is loaded now, by address. The list starts anew after each dlopen. */
struct loaded {
	uint64_t lo, hi;
	/* index of its row */
	uint32_t module;
};

struct ht_reader {
	const char *name;
	struct ht_lines lines;
	/* lines.reads when progress was last told */
	uint64_t reads_told;
	struct sink *sink;
	struct heaptrack_opt opt;
	struct heaptrack_info *info;
	struct err *err;

	enum file_kind kind;
	int process_defined, process_stale, events_sent;
	/* empty: no X yet */
	struct buf cmdline;
	char *exe;
	/* X came, nothing since */
	int in_cmdline;
	/* defined */
	uint32_t rules;
	uint64_t page_bytes, time_ns, peak_rss_bytes;

	struct ht_names names;
	uint32_t *module_of_name;
	uint32_t module_of_name_cap, name_modules;
	struct module_row *modules;
	uint32_t module_count, module_cap;
	/* of path and place: the last row with it */
	struct ht_map module_of_hash;
	/* sorted by lo */
	struct loaded *loaded;
	uint32_t loaded_count, loaded_cap;
	/* raw, for the present list of modules */
	struct ht_map frame_of_ip;
	uint32_t frames, stacks;
	/* stands in where a trace names no address */
	uint32_t unknown_frame;

	struct class_row *classes;
	uint32_t class_count, class_cap;
	struct ht_map class_of_pair;
	struct ht_blocks blocks;
	struct ht_map block_of_pointer;
	/* class or pointer */
	uint64_t last_alloc;
	/* ... of the preceding allocation or free line, if that was an allocation */
	int last_valid;

	struct event batch[HT_BATCH];
	size_t batched;
};

/* heaptrack.c */
int ht_no_memory(struct ht_reader *r);
int ht_table_failed(struct ht_reader *r, int rc, const char *what);
/** ht_begin() - define the process and the one thread, before anything refers to them. */
int ht_begin(struct ht_reader *r);
/**
 * ht_trace() - one more stack. @ip: an address (raw) or the number of one (interpreted). 0,
 * STOP_HERE or negative errno.
 */
int ht_trace(struct ht_reader *r, uint64_t ip, uint64_t parent);

/* heaptrack_blocks.c */
int ht_flush(struct ht_reader *r);
/** ht_add_event() - the next event of the batch; NULL with @rc set. */
struct event *ht_add_event(struct ht_reader *r, enum event_kind kind, int *rc);
/** ht_lose() - a line that refers to nothing, as lost events. */
int ht_lose(struct ht_reader *r, uint64_t allocations, uint32_t frees);
int ht_on_alloc(struct ht_reader *r, const char *at, const char *end);
int ht_on_free(struct ht_reader *r, const char *at, const char *end);
/**
 * ht_short_lines() - take what is read already of an interpreted file as long as its lines are the
 * usual ones: allocations, frees and traces with short numbers, nearly all of a file. Another line
 * is left for the caller. Return: 0, STOP_HERE (the line that was refused is the last one counted)
 * or negative errno.
 */
int ht_short_lines(struct ht_reader *r);

#endif
