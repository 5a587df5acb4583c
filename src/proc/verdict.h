/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verdict.h - a breakdown in one sentence, in the words of `explain`: what of RSS is used, what
 * could go, what is stuck, what is files.
 */
#ifndef PROC_VERDICT_H
#define PROC_VERDICT_H

#include "base/buf.h"
#include "proc/breakdown.h"
#include "proc/text.h"

/** struct verdict - bytes of RSS; they add up to it. */
struct verdict {
	/* by the allocators' books */
	uint64_t live, free_pages, holes, caches, metadata;
	/* of allocators and runtimes whose books were not read, or do not say */
	uint64_t unread;
	/* pages of files: programs, libraries, data */
	uint64_t files;
	/* variables of programs and libraries */
	uint64_t data;
	uint64_t stacks, shared, named, anonymous, own, rest;
	/* of the rest: made at run time */
	uint64_t code;
	uint64_t rss;
	/* "malloc", "jemalloc": who keeps what is free, where it is one; else NULL */
	const char *by;
	/* some allocator's books were */
	int read;
};

/** verdict_of() - O(classes). */
struct verdict verdict_of(const struct breakdown *breakdown);
/**
 * verdict_sentence() - what `explain` says first, in the same words and unbroken; a line each where
 * something is free. @raw: sizes as plain numbers of bytes. Nothing where no allocator's books were
 * read.
 */
void verdict_sentence(struct buf *to, const struct verdict *verdict, int raw);
/**
 * verdict_text() - the sentence, what its words mean where they occur, and what stands beside RSS
 * where it is large.
 */
void verdict_text(struct buf *to, const struct breakdown *breakdown,
		  const struct regions_text_opt *opt);
/** verdict_would() - what makes @allocator give free pages back: "malloc_trim(0) would return". */
const char *verdict_would(const char *allocator);

#endif
