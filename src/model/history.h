/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h - how large each kind of memory was over time: a sample a second for ten minutes, one
 * in ten seconds for three hours, one in two minutes for four days. Optionally kept in an
 * append-only file, so that the hours before a crash can be read after it, and a restart goes on
 * where the last run ended.
 *
 * Samples are stored as differences (what did not change costs nothing): some 100 bytes a second
 * for 200 labels. The file is a row of records, each with its checksum; a cut or damaged tail is
 * left out. docs/history.md describes it.
 *
 * One thread writes; history_series() and the other readers may run on other threads at the same
 * time.
 */
#ifndef MODEL_HISTORY_H
#define MODEL_HISTORY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

#define HISTORY_TIERS 3
#define HISTORY_LABELS_MAX 256 /* what comes later is added up under its class's "(other)" */
#define HISTORY_CLASSES_MAX 32 /* of them kept back for those */
#define HISTORY_GONE_SAMPLES \
	600 /* a label in none of so many samples, ten minutes', may be retired */
#define HISTORY_CLASS_BESIDE \
	"beside" /* the class of what is no part of RSS: page tables, the cgroup's charges */
#define HISTORY_CLASS_KIND \
	"kind" /* "anon", "file", "shmem": what status says RSS is made of, at each look */
#define HISTORY_NAME_MAX 128             /* bytes of a class or label; longer ones are cut */
#define HISTORY_UNIT 1024                /* bytes; the kernel's figures are multiples of it */
#define HISTORY_BESIDE ".byteledger-new" /* behind a history's name: where it is written anew */
#define HISTORY_FILE_MAX (64u << 20)     /* larger files are not read */

/** struct history_row - one kind of memory at one moment; strings are lent. */
struct history_row {
	const char *class, *label;
	uint64_t rss_bytes, virtual_bytes, swap_bytes, count;
};

/** history_adds_up() - are labels of @class those that add up to RSS? */
static inline int history_adds_up(const char *class)
{
	return strcmp(class, HISTORY_CLASS_BESIDE) != 0 && strcmp(class, HISTORY_CLASS_KIND) != 0;
}

/** struct history_point - @time_ns: CLOCK_REALTIME. */
struct history_point {
	uint64_t time_ns;
	uint64_t rss_bytes, virtual_bytes, swap_bytes, count;
};

/** struct history_key - a label that occurs. Key 0 is the process as a whole. */
struct history_key {
	char class[HISTORY_NAME_MAX + 1], label[HISTORY_NAME_MAX + 1];
	/* of this label as long as it has a number; never another one's in this process */
	uint64_t id;
};

/** struct history_run - a stretch recorded by one watcher of one process. */
struct history_run {
	uint64_t time_ns;
	int32_t pid;
	char comm[32];
};

struct history;

/**
 * history_open() - @path NULL: in memory only. An existing file is read and continued; a file that
 * is no history is refused (-EBADMSG), so is one that another watcher writes (-EBUSY). @write 0:
 * only read, nothing is locked or changed. Memory: 3 MiB for 200 labels that all change always.
 */
int history_open(const char *path, int write, struct history **out, struct err *err);
/** history_close() - what was added has been written already; NULL is accepted. */
void history_close(struct history *history);

/** history_start() - a watcher begins to look at a process. */
int history_start(struct history *history, const struct history_run *run, struct err *err);
/**
 * history_add() - one sample of everything: labels that are not in @rows are 0 now. @rows[0] is the
 * process as a whole (its class and label are ignored). @time_ns is what the clock says: one that
 * was wrong is not corrected afterwards. Where it is earlier than that of the sample before, the
 * clock was set back; nothing is refused or dropped for it. A failed write keeps the sample in
 * memory and returns the error once; later ones are tried again.
 */
int history_add(struct history *history, uint64_t time_ns, const struct history_row *rows,
		size_t count, struct err *err);

/**
 * history_keys() - number of labels now, key 0 included; history_key() one of them. While labels
 * come, numbers only get more; history_add() may retire labels that are long gone
 * (HISTORY_GONE_SAMPLES) where new ones come and there is no room: their past is added to their
 * class's "(other)", and numbers change. history_changes() differs then, and for every new label.
 */
size_t history_keys(const struct history *history);
struct history_key history_key(const struct history *history, size_t key);
uint64_t history_changes(const struct history *history);
/** history_find() - the key of a class and label (as long as names are kept); -ENOENT. */
int history_find(const struct history *history, const char *class, const char *label);
/**
 * history_series() - the points of @key in [@from_ns, @to_ns], by time, the finest that is kept of
 * each moment; malloc'd. O(samples kept). -ENOMEM.
 */
int history_series(const struct history *history, size_t key, uint64_t from_ns, uint64_t to_ns,
		   struct history_point **points, size_t *count);
/** struct history_line - the series of one key; @number is asked for, the rest is the answer. */
struct history_line {
	size_t number, count;
	struct history_key key;
	struct history_point *points;
	/* history_read.c's */
	int unsorted;
};
#define HISTORY_LINES_MAX 16 /* so that a group takes a few MB at most */
/**
 * history_lines() - history_series() of several keys, at most HISTORY_LINES_MAX, in one pass, which
 * costs hardly more than one; @lines[].key is of the same moment. Release with
 * history_lines_fini(), whether or not it failed.
 */
int history_lines(const struct history *history, struct history_line *lines, size_t count,
		  uint64_t from_ns, uint64_t to_ns);
void history_lines_fini(struct history_line *lines, size_t count);
/**
 * history_recent() - the sum of the keys that are 1 in @picked (HISTORY_LABELS_MAX places), of what
 * was added since the clock was last set back: points whose times are as far apart as they were
 * taken.
 */
int history_recent(const struct history *history, const uint8_t *picked, uint64_t from_ns,
		   uint64_t to_ns, struct history_point **points, size_t *count);
/** history_runs() - who was watched when, by time; malloc'd. */
int history_runs(const struct history *history, struct history_run **runs, size_t *count);
/**
 * history_at() - the values of every key at the last sample not later than @time_ns; @points has
 * history_keys() places.
 */
int history_at(const struct history *history, uint64_t time_ns, struct history_point *points,
	       size_t keys);
/**
 * history_newest() - likewise of the sample added last, whatever its time; -ENOENT where there is
 * none.
 */
int history_newest(const struct history *history, struct history_point *points, size_t keys);
/** history_damaged() - bytes of the file that could not be read; 0 = sound. */
uint64_t history_damaged(const struct history *history);
/**
 * history_aside() - where a writer kept a file of which it could not read all, lent; NULL: it did
 * not.
 */
const char *history_aside(const struct history *history);

#endif
