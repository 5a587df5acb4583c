/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace.h - the .blt recording: write, read, recover, verify. docs/format.md describes every byte
 * and is normative.
 */
#ifndef TRACE_TRACE_H
#define TRACE_TRACE_H

#include <stdint.h>

#include "base/err.h"
#include "model/event.h"
#include "model/instant.h"
#include "model/pages.h"
#include "model/prof.h"
#include "model/snapshot.h"

/* ---- writing: one thread --------------------------------------------------------------------- */

struct trace_writer;

struct trace_writer_opt {
	/* stop recording (LOSS_WRITE_FAILED, counted) when the disk has less; 0 = no floor */
	uint64_t min_free_bytes;
	/* events come late: trace_writer_pending() is going to be told what is undecided */
	int culling;
	/* the file may be taken away when it ends, and its name become free */
	int brief;
	/* its header says neither where nor when it was written */
	int anonymous;
	/*
	 * wait so long at most for a name that another writer has given to such a file; 0 = not at
	 * all
	 */
	uint64_t await_ns;
};

/**
 * trace_writer_new() - create a recording; O_EXCL|O_NOFOLLOW, mode 0600. An existing file is never
 * overwritten: ".1", ".2" ... is tried; trace_writer_path() tells which it became.
 */
struct trace_writer *trace_writer_new(const char *path, const struct trace_writer_opt *opt,
				      struct err *err);
/**
 * trace_writer_new_fd() - the same into @fd, an empty regular file or memfd that stays the
 * caller's; @name is for messages.
 */
struct trace_writer *trace_writer_new_fd(int fd, const char *name,
					 const struct trace_writer_opt *opt, struct err *err);
const char *trace_writer_path(const struct trace_writer *writer);
/**
 * trace_writer_sink() - takes definitions and events in order. Whole blocks are compressed and
 * written as they fill. A failed write is not an error of put(): the rest is counted
 * (trace_writer_lost()), the recording stays readable.
 */
struct sink *trace_writer_sink(struct trace_writer *writer);
/**
 * trace_writer_flush() - put everything taken so far on disk as whole blocks; called at least once
 * a second.
 */
int trace_writer_flush(struct trace_writer *writer, struct err *err);
/**
 * trace_writer_pending() - after a flush, of a writer that was made for culling: takes the events
 * that are undecided at this moment, in order. trace_writer_pending_end() puts them into
 * FILE.pending in the place of what stood there, which a reader of a recording that was not
 * finished reads as its end. Both at least once a second; NULL once writing has stopped.
 */
struct sink *trace_writer_pending(struct trace_writer *writer);
int trace_writer_pending_end(struct trace_writer *writer, struct err *err);
/** struct trace_file - one that was embedded. */
enum trace_file_state {
	TRACE_FILE_STORED = 0,
	TRACE_FILE_TOO_LARGE,  /* its content was left out */
	TRACE_FILE_UNREADABLE, /* likewise */
	TRACE_FILE_STATES
};
struct trace_file {
	const char *path;
	uint64_t bytes;
	/* since 1970 */
	uint64_t changed_ns;
	enum trace_file_state state;
	/* trace_reader_files() only: of @bytes where it is stored, else NULL; lent */
	const void *content;
};
/**
 * trace_writer_attach() - embed a file, whose @content (file->bytes of it) is stored where its
 * state says so. 0 or negative errno: nothing was written, and the recording goes on.
 */
int trace_writer_attach(struct trace_writer *writer, const struct trace_file *file,
			const void *content, struct err *err);
/**
 * trace_writer_snapshot() - where the process's memory was at one instant. 0; -E2BIG for one that a
 * block cannot hold; other negative errno: nothing was written. In no case the recording stops for
 * it.
 */
int trace_writer_snapshot(struct trace_writer *writer, const struct snapshot *snapshot,
			  struct err *err);
/**
 * trace_writer_pages() - one reading of resident pages by call stack, of @process, which is one of
 * @shot; @zero_ns is CLOCK_MONOTONIC of the recording's time 0. Its frames have to stay until
 * trace_writer_finish(), which writes what they are called by then. As trace_writer_snapshot().
 */
int trace_writer_pages(struct trace_writer *writer, const struct page_shot *shot,
		       const struct page_process *process, uint64_t zero_ns, struct err *err);
/** trace_writer_rows() - events that wait for more to come: what a flush would pack. */
uint32_t trace_writer_rows(const struct trace_writer *writer);
/** trace_writer_bytes() - size of the file so far. */
uint64_t trace_writer_bytes(const struct trace_writer *writer);
uint64_t trace_writer_lost(const struct trace_writer *writer);
/**
 * trace_writer_has_room() - of a writer that has stopped because a disk was full, 1: there is room
 * again, for as much as the file holds (256 MiB at most), so that another one beside it is worth a
 * try. 0 whatever else it stopped for.
 */
int trace_writer_has_room(const struct trace_writer *writer);
/**
 * trace_writer_finish() - write the summary of @prof (per-stack counters, so that a plain report
 * needs no replay; NULL: none) and the index; close. @writer is released in any case.
 */
int trace_writer_finish(struct trace_writer *writer, const struct prof *prof, struct err *err);
void trace_writer_freep(struct trace_writer **writer);

/* ---- reading --------------------------------------------------------------------------------- */

struct trace_reader;

struct trace_reader_info {
	uint64_t file_bytes, events, blocks, damaged_blocks, skipped_bytes;
	/* 1 = the index at the end was there and good */
	int indexed;
	int has_summary;
	/* 1 = bytes after the last whole block */
	int truncated;
	/* 1 = its writer lived when it was opened */
	int being_written;
	/* 1 = FILE.pending is looked for, and is not there or is another's */
	int lacks_pending;
	/* 1 = the last run that told the end found none, because its writer is still at it */
	int goes_on;
	uint32_t version;
};

/**
 * trace_is() - 1 if the file begins like a recording, 0 if not, negative errno where it cannot be
 * read.
 */
int trace_is(const char *path, struct err *err);
struct trace_reader *trace_reader_new(const char *path, struct err *err);
/**
 * trace_reader_new_fd() - of the file that @fd is open on, which stays the caller's, lock and all;
 * @name is for messages.
 */
struct trace_reader *trace_reader_new_fd(int fd, const char *name, struct err *err);
void trace_reader_freep(struct trace_reader **reader);
void trace_reader_info(const struct trace_reader *reader, struct trace_reader_info *info);

/**
 * struct trace_key - a key block of events: reading can begin at it, by whoever knows what lives
 * there (trace_reader_from()).
 */
struct trace_key {
	/* its place in the file */
	uint64_t at;
	/* events before it */
	uint64_t first;
	/* of its first event */
	uint64_t time_ns;
};
/**
 * struct trace_seed - a block that lives at a key block and is freed in what is read from there.
 */
struct trace_seed {
	uint64_t bytes;
	/* slot: its block number */
	uint32_t slot, stack;
};

struct trace_read_opt {
	/* may be NULL */
	void (*progress)(void *ctx, uint64_t done, uint64_t total);
	void *progress_ctx;
	/*
	 * 1: events later than @until_ns may be left out, block by block, unread; definitions are
	 * not
	 */
	int has_until;
	uint64_t until_ns;
	/*
	 * 1: what is missing at the end is told, too. A writer that was killed wrote no end:
	 * EVENT_LOST with LOSS_RECORDER_DIED. A file that was cut short says nothing of how its
	 * program ended, whatever stands in it.
	 */
	int tells_end;
	/* may be NULL; before its events */
	void (*key)(void *ctx, const struct trace_key *key);
	void *key_ctx;
};
/**
 * trace_reader_run() - replay everything into @sink in recorded order: definitions, then the events
 * that use them. Damaged stretches are skipped and reported as EVENT_LOST with LOSS_FILE_DAMAGED.
 * Block numbers are the recording's own (dense, reused, one for one with the writer's while a block
 * lives). Memory: bounded by definitions and live blocks.
 */
int trace_reader_run(struct trace_reader *reader, struct sink *sink,
		     const struct trace_read_opt *opt, struct err *err);
/** struct trace_living - what lives at one moment. */
struct trace_living {
	/* by no order; groups are the recording's numbers of stacks */
	struct sheet_block *blocks;
	/* huge_free(blocks, room_bytes) */
	size_t count, room_bytes;
	/* of the last event that was read, which may be later than what was asked for */
	uint64_t last_ns;
	/*
	 * given: how much longer to read for the sums; what was allocated and freed then, where
	 * @has_sums (not where it was too much)
	 */
	uint64_t beyond_ns;
	uint64_t allocated_bytes, freed_bytes;
	int has_sums;
};
/**
 * trace_reader_living() - the blocks that live after all events up to @until_ns. @sink gets
 * definitions, and of the events up to there those that are neither alloc nor free. @living: zeroed
 * but for @living->beyond_ns. Memory: 32 bytes a live block at most, and 40 an event of the time
 * beyond, of two million at most. 0 or negative errno.
 */
int trace_reader_living(struct trace_reader *reader, struct sink *sink, uint64_t until_ns,
			struct trace_living *living, struct err *err);
/**
 * trace_reader_from() - the events of the key block at @key and of those behind it, up to the block
 * at @until (0: to the end), into
 * @sink's put; no definitions. @seeds: the blocks that live at @key and are freed in what is read;
 * their addresses are not known
 * (0). Any other free of a block of before is told as EVENT_LOST. Any thread, several at once,
 * while nobody else reads by @reader or closes it. Memory: slots of the recording. Return: 0, what
 * @sink returned, -EBADMSG.
 */
int trace_reader_from(const struct trace_reader *reader, const struct trace_key *key,
		      uint64_t until, const struct trace_seed *seeds, size_t count,
		      struct sink *sink, struct err *err);
/* ---- following: a recording that is being written, by whoever writes it; one thread ---------- */

struct trace_follow;
/**
 * trace_follow_new() - read @path from its beginning, into @sink, which has to stay. Costs its
 * writer nothing. What stands undecided beside the file (short-lived blocks that may be left out)
 * is not read: it comes when it is decided.
 */
struct trace_follow *trace_follow_new(const char *path, struct sink *sink, struct err *err);
void trace_follow_freep(struct trace_follow **follow);
/**
 * trace_follow_keys() - @key is told of each key block before its events; before the first drain.
 */
void trace_follow_keys(struct trace_follow *follow,
		       void (*key)(void *ctx, const struct trace_key *key), void *ctx);
/** trace_follow_from() - as trace_reader_from(), of what was read by now; while no drain runs. */
int trace_follow_from(const struct trace_follow *follow, const struct trace_key *key,
		      uint64_t until, const struct trace_seed *seeds, size_t count,
		      struct sink *sink, struct err *err);
/**
 * trace_follow_drain() - hand on the blocks that have become whole since the last call, of at most
 * some MiB. A block that is half written is waited for. Damage is skipped and told as
 * trace_reader_run() does. Return: 1 something came, 0 nothing new, negative errno.
 */
int trace_follow_drain(struct trace_follow *follow, struct err *err);
/**
 * trace_follow_until() - drains go no further than byte @until, where another reader of the same
 * file stands; the end of the recording is not told then.
 */
void trace_follow_until(struct trace_follow *follow, uint64_t until);
/** struct trace_follow_state - how far it is. */
struct trace_follow_state {
	/* as of the last drain */
	uint64_t file_bytes, read_bytes;
	uint64_t damaged_blocks, skipped_bytes;
	/* 1: the writer has gone and everything was read; where it wrote no end that was told */
	int over;
};
void trace_follow_state(const struct trace_follow *follow, struct trace_follow_state *state);

/* ---- reading on ------------------------------------------------------------------------------ */

/**
 * trace_reader_summary() - load definitions and the summary into @prof without replaying a single
 * event. Return: 1 done, 0 there is none (replay instead), negative errno.
 */
int trace_reader_summary(struct trace_reader *reader, struct prof *prof, struct err *err);
/**
 * trace_reader_files() - what was embedded, in order; @file is lent. Damaged blocks are passed
 * over. 0, or what @each returned.
 */
int trace_reader_files(struct trace_reader *reader,
		       int (*each)(void *ctx, const struct trace_file *file, struct err *err),
		       void *ctx, struct err *err);
/** struct trace_shot - a snapshot that a recording has: its instant, and where it stands. */
struct trace_shot {
	uint64_t time_ns, rss_bytes, at;
};
/**
 * trace_reader_shots() - all that are whole, in order; malloc'd. O(blocks), and the heads of
 * snapshots are read. *@unreadable (NULL: nobody asks): places where one is damaged or of a later
 * layout, or where something is damaged that may have been one. 0 or negative errno.
 */
int trace_reader_shots(struct trace_reader *reader, struct trace_shot **shots, size_t *count,
		       size_t *unreadable, struct err *err);
/**
 * trace_reader_reached() - no earlier than when the last block of events begins: what happened
 * before that moment has been written. Reads the heads of blocks only. 0 or negative errno.
 */
int trace_reader_reached(struct trace_reader *reader, uint64_t *time_ns, struct err *err);
/**
 * trace_reader_shot() - load one; snapshot_free(). NULL with @err: -EBADMSG where it contradicts
 * itself.
 */
struct snapshot *trace_reader_shot(struct trace_reader *reader, const struct trace_shot *shot,
				   struct err *err);
/**
 * struct trace_pages - readings of resident pages that a recording has; their frames are equal
 * where they are the same.
 */
struct trace_pages;
struct trace_pages_reading {
	uint64_t time_ns, rss_bytes, at;
};
/** trace_pages_new() - find them all, in order, in the file as it is. O(blocks). NULL with @err. */
struct trace_pages *trace_pages_new(const char *path, struct err *err);
void trace_pages_free(struct trace_pages *pages);
size_t trace_pages_count(const struct trace_pages *pages);
const struct trace_pages_reading *trace_pages_reading(const struct trace_pages *pages, size_t i);
/**
 * trace_pages_load() - one of them as a shot of one process, whose times are the recording's; put
 * by the caller, and may outlive
 * @pages. What a recording has names for is named. NULL with @err: -EBADMSG where it contradicts
 * itself.
 */
struct page_shot *trace_pages_load(struct trace_pages *pages, size_t i, struct err *err);
#define TRACE_TYPES 10
#define TRACE_COLUMNS 18

/** struct trace_survey - what a recording is made of. */
struct trace_survey {
	uint32_t version;
	/* ELF e_machine; 0 unknown */
	uint16_t machine;
	uint8_t boot_id[16];
	/* when the file was created */
	uint64_t realtime_ns, monotonic_ns;
	int header_damaged;
	uint64_t damaged_stretches, unreadable_bytes, key_blocks;
	struct {
		/* static; NULL for types that do not exist */
		const char *name;
		uint64_t blocks, rows, stored_bytes;
	} type[TRACE_TYPES];
	struct {
		/* of a column of event blocks */
		const char *name;
		uint64_t raw_bytes, stored_bytes;
	} column[TRACE_COLUMNS];
};
/**
 * trace_reader_survey() - read all blocks and compare their checksums, without decoding them. 0 or
 * negative errno.
 */
int trace_reader_survey(struct trace_reader *reader, struct trace_survey *survey,
			const struct trace_read_opt *opt, struct err *err);
/**
 * trace_reader_places() - hand what says where code is (the process, its modules and frames, and
 * the symbols that the file has) to @prof, a new one: enough to resolve names. Reads no event and
 * no stack, of which a file has far more.
 */
int trace_reader_places(struct trace_reader *reader, struct prof *prof, struct err *err);
/**
 * trace_append_symbols() - add DEF_SYMBOL definitions to a finished recording (the file is
 * rewritten atomically where it must be, else extended). @prof holds the resolved frames.
 */
int trace_append_symbols(const char *path, const struct prof *prof, struct err *err);
/**
 * trace_append_pages() - add readings of process @pid, whose frames have been named, to a finished
 * recording in the same way. @zero_ns: CLOCK_MONOTONIC of its time 0; readings of before are left
 * out.
 */
int trace_append_pages(const char *path, struct page_shot *const *shots, size_t count, pid_t pid,
		       uint64_t zero_ns, struct err *err);

#endif
