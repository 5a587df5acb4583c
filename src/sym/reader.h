/* SPDX-License-Identifier: Apache-2.0 */
/*
 * reader.h - a process of its own that reads ELF and DWARF: it has no privileges (sym/confine.h),
 * files are opened for it, its memory is bounded, and when it dies, what it was asked is missing
 * and nothing else.
 *
 * It begins as a copy of this process, so nothing has to be found and started anew; what it says is
 * checked as a file would be.
 */
#ifndef SYM_READER_H
#define SYM_READER_H

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "sym/image.h"

struct reader;

/*
 * What it may take beyond what this process had when it began, and for each byte of a file that it
 * has to read.
 */
#define READER_BYTES (384ull << 20)
#define READER_FILE_GROWS 8u
/*
 * So often one that died is begun anew in the life of who asks; after that its answers are missing.
 */
#define READERS_MAX 8
#define READER_ANSWER_MAX (64u << 20) /* bytes of one answer */
#define READER_PATH_ROOM (2u * PATH_MAX)

/** struct reader_work - what one is for; kept by the caller as long as the reader. */
struct reader_work {
	/* of the process, 15 letters at most */
	const char *name;
	/* where its paths start */
	const struct image_root *root;
	/* a debug file from a server, as servers_find(); NULL: none is asked */
	int (*served)(void *ctx, const uint8_t *build_id, uint32_t len, char **found);
	/* in the reader: at first (may be NULL), and for each thing that is said to it */
	void (*begin)(void *ctx);
	void (*hear)(void *ctx, uint32_t what, const struct buf *in);
	void *ctx;
};

/** reader_start() - NULL with errno: there can be none. */
struct reader *reader_start(const struct reader_work *work);
/** reader_free() - it ends. NULL is fine. */
void reader_free(struct reader *reader);
/** reader_pid() - for tests that harm it. */
int reader_pid(const struct reader *reader);

/** reader_buf() - what is said next, and what was heard last. */
struct buf *reader_buf(struct reader *reader);
/** reader_give() - the file that is meant by OPENER_GIVEN; lent until another is, -1 = none. */
void reader_give(struct reader *reader, int fd);
/** reader_forget_files() - what was opened so far grants no memory any more. */
void reader_forget_files(struct reader *reader);
/**
 * reader_say() - reader_buf() under @what, whose meaning is the work's. 0, or negative errno: it is
 * dead.
 */
int reader_say(struct reader *reader, uint32_t what);
/**
 * reader_hear() - its next answer into reader_buf(); opens files for it meanwhile. 0, or -EPIPE: it
 * is dead.
 */
int reader_hear(struct reader *reader, uint32_t *what);
/** reader_hear_raw() - bytes that follow an answer which announced them. */
int reader_hear_raw(struct reader *reader, void *to, size_t len);

/*
 * In the reader itself, which ends where nobody hears it: an answer, and bytes that it announced.
 */
void reader_answer(uint32_t what, const struct buf *answer);
void reader_answer_raw(const void *bytes, size_t len);

#endif
