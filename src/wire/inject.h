/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * inject.h - what the recorder and the library say to each other where the library came into a
 * process that runs: the recorder calls WIRE_INJECT_CALL with the address of a struct wire_inject
 * in the process's memory.
 */
#ifndef WIRE_INJECT_H
#define WIRE_INJECT_H

#include <stdint.h>

#define WIRE_INJECT_MAGIC 0x33746a6e69676562ull /* "beginjt3" */
#define WIRE_INJECT_CALL "byteledger_heap_inject"
/* It returns negative errno or this, which is no number of a system call: see inject/call.h. */
#define WIRE_INJECT_DONE 0x10000000
/*
 * An int64_t of the library's: where a thread says whether it is in a hook, from its thread pointer
 * on; 0 = not known. It writes to the shared memory only while the low byte is one of these two.
 */
#define WIRE_INJECT_SYNC "byteledger_heap_sync_at"
#define WIRE_INJECT_SYNC_NEXT 2u
#define WIRE_INJECT_SYNC_OWN 3u
#define WIRE_INJECT_HOOKS 288

struct wire_inject_hook {
	/* of ours, and what is called where nobody records */
	uint64_t hook, original;
	/* by which objects ask for that, with its NUL; in the process's memory */
	uint64_t name;
};

struct wire_inject {
	/* WIRE_INJECT_MAGIC; another library of the same name answers -EPROTO */
	uint64_t magic;

	/* asked for; as in struct wire_heap_header */

	uint64_t budget_bytes, sample_bytes;
	uint32_t on_full, free_stacks, stamp_every_event, name_threads;

	/* answered */

	/* of the shared memory, for the recorder to take and close */
	int32_t fd;
	/* in @hooks */
	uint32_t hook_count;
	/* where the process word is, and what stands there while events are recorded */
	uint64_t word_at;
	uint32_t word_on;
	/* 1 = the loader leads to the hooks: there is nothing to redirect */
	uint32_t preloaded;
	/* code of the allocator behind ours, and of a word that counts calls of dlclose() */
	uint64_t allocator_lo, allocator_hi, closes_at;
	struct wire_inject_hook hooks[WIRE_INJECT_HOOKS];
};

_Static_assert(sizeof(struct wire_inject) == 88 + WIRE_INJECT_HOOKS * 24, "as both sides see it");

#endif
