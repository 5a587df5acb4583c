/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_out.h - what the parts of the heap source share: where the target's tables stand, and where
 * definitions and failures go.
 */
#ifndef SOURCE_HEAP_OUT_H
#define SOURCE_HEAP_OUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "model/event.h"
#include "wire/heap.h"

/**
 * struct heap_tables - the shared file as far as it is in memory; all behind @base but @layout is
 * the target's, and hostile.
 */
struct heap_tables {
	/* mapped; raw: a private copy of everything before the rings */
	char *base;
	/* mapped or allocated */
	uint64_t base_bytes;
	/* private copy of the constant part, validated once */
	struct wire_heap_header layout;
	struct wire_heap_header *header;
	bool raw;
};

/** struct heap_out - during a call; what is handed over is lent. */
struct heap_out {
	struct sink *sink;
	struct err *err;
};

/** enum heap_run - what came of a record, or of a part of it. */
enum heap_run {
	HEAP_RUN_EMPTY,
	HEAP_RUN_YIELD,
	HEAP_RUN_WAIT,
	HEAP_RUN_BAD,   /* a rule was broken */
	HEAP_RUN_FAILED /* the sink's failure, heap->err is filled */
};

#endif
