/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_names.h - the functions that allocators have, and which of their arguments say what.
 * Private to source/sampler_find.c.
 */
#ifndef SOURCE_SAMPLER_NAMES_H
#define SOURCE_SAMPLER_NAMES_H

#include <stdint.h>

#include "wire/sample.h"

#define TCMALLOC_HOOK "_ZN8tcmalloc7Sampler20RecordAllocationSlowEm"
/* by version: the name of the flag's type is in it */
#define TCMALLOC_RATE                                                                         \
	"_ZN61FLAG__namespace_do_not_use_directly_use_DECLARE_int64_instead31FLAGS_tcmalloc_" \
	"sample_parameterE"
#define TCMALLOC_RATE_LATER                                                                     \
	"_ZN63FLAG__namespace_do_not_use_directly_use_DECLARE_int64_t_instead31FLAGS_tcmalloc_" \
	"sample_parameterE"
#define JEMALLOC_HOOK "te_event_trigger"

enum group {
	ALLOC,
	ZEROED,
	RESIZE,
	ALIGNED,
	STORED,
	PAGES,
	HOOK,
	ROUNDER, /* forwards, with a size that is not the one it was asked for */
	FORWARDER,
	FREE,
	FREE_FORWARDER
};

/* Arguments by number of register: di si dx cx r8 r9; 15 = none. */
static const struct spec {
	const char *name;
	enum group group;
	uint8_t size, times, old, align, flags;
} specs[] = {
	{ "malloc", ALLOC, 0, 15, 15, 15, 0 },
	{ "calloc", ZEROED, 0, 1, 15, 15, 0 },
	{ "realloc", RESIZE, 1, 15, 0, 15, 0 },
	{ "memalign", ALIGNED, 1, 15, 15, 0, 0 },
	{ "aligned_alloc", ALIGNED, 1, 15, 15, 0, 0 },
	{ "posix_memalign", STORED, 2, 15, 0, 15, WIRE_SAMPLE_F_STORED },
	{ "valloc", PAGES, 0, 15, 15, 15, 0 },
	{ "pvalloc", PAGES, 0, 15, 15, 15, 0 },
	{ "reallocarray", FORWARDER, 1, 2, 0, 15, 0 },
	{ "mallocx", ALLOC, 0, 15, 15, 15, 0 },
	{ "rallocx", RESIZE, 1, 15, 0, 15, 0 },
	{ "xallocx", RESIZE, 1, 15, 0, 15, WIRE_SAMPLE_F_IN_PLACE },
	{ "_Znwm", FORWARDER, 0, 15, 15, 15, 0 },
	{ "_Znam", FORWARDER, 0, 15, 15, 15, 0 },
	{ "_ZnwmRKSt9nothrow_t", FORWARDER, 0, 15, 15, 15, 0 },
	{ "_ZnamRKSt9nothrow_t", FORWARDER, 0, 15, 15, 15, 0 },
	{ "_ZnwmSt11align_val_t", ROUNDER, 0, 15, 15, 15, 0 },
	{ "_ZnamSt11align_val_t", ROUNDER, 0, 15, 15, 15, 0 },
	{ "_ZnwmSt11align_val_tRKSt9nothrow_t", ROUNDER, 0, 15, 15, 15, 0 },
	{ "_ZnamSt11align_val_tRKSt9nothrow_t", ROUNDER, 0, 15, 15, 15, 0 },
	{ "zalloc", ALLOC, 0, 15, 15, 15, 0 },          /* mi_zalloc */
	{ "malloc_aligned", ALIGNED, 0, 15, 15, 1, 0 }, /* mi_malloc_aligned */
	{ "new", FORWARDER, 0, 15, 15, 15, 0 },         /* mi_new, tc_new */
	{ "newarray", FORWARDER, 0, 15, 15, 15, 0 },    /* tc_newarray */
	{ "new_nothrow", FORWARDER, 0, 15, 15, 15, 0 }, /* tc_new_nothrow */
	/* Go: register arguments; what its own profile takes, or else every call */
	{ "runtime.mallocgc", ALLOC, 6, 15, 15, 15, 0 },
	{ "runtime.profilealloc", HOOK, 3, 15, 15, 15, WIRE_SAMPLE_F_HOOK },
	/* HotSpot: a new thread-local buffer stands for all that was taken from the one before */
	{ "_ZN11AllocTracer27send_allocation_in_new_tlabEP5KlassPP12HeapWordImplmmP10JavaThread",
	  HOOK, 3, 2, 15, 15, WIRE_SAMPLE_F_WEIGHED },
	{ "_ZN11AllocTracer28send_allocation_outside_tlabEP5KlassPP12HeapWordImplmP10JavaThread",
	  HOOK, 2, 2, 15, 15, WIRE_SAMPLE_F_WEIGHED },
	/* gperftools' tcmalloc, where it was started with TCMALLOC_SAMPLE_PARAMETER */
	{ TCMALLOC_HOOK, HOOK, 1, 15, 15, 15, WIRE_SAMPLE_F_HOOK },
	/* jemalloc 5.3: a thread has passed its next 64 KiB or so */
	{ JEMALLOC_HOOK, HOOK, 1, 15, 15, 15, WIRE_SAMPLE_F_COUNTER },
	{ "free", FREE, 15, 15, 0, 15, 0 },
	{ "cfree", FREE, 15, 15, 0, 15, 0 },
	{ "dallocx", FREE, 15, 15, 0, 15, 0 },
	{ "sdallocx", FREE, 15, 15, 0, 15, 0 },
	{ "free_sized", FREE, 15, 15, 0, 15, 0 },
	{ "_ZdlPv", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdaPv", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdlPvm", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdaPvm", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdlPvRKSt9nothrow_t", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdaPvRKSt9nothrow_t", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdlPvSt11align_val_t", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdaPvSt11align_val_t", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdlPvmSt11align_val_t", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "_ZdaPvmSt11align_val_t", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "delete", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "deletearray", FREE_FORWARDER, 15, 15, 0, 15, 0 },
	{ "__rust_alloc", FORWARDER, 0, 15, 15, 15, 0 },
	{ "__rust_alloc_zeroed", FORWARDER, 0, 15, 15, 15, 0 },
	{ "__rust_realloc", FORWARDER, 3, 15, 0, 15, 0 },
	{ "__rust_dealloc", FREE_FORWARDER, 15, 15, 0, 15, 0 },
};
/* What builds of allocators put in front of their names. The first is none at all. */
static const char *const prefixes[] = { "", "je_", "_rjem_je_", "_rjem_", "tc_", "mi_" };

#endif
