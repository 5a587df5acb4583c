/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own.h - allocators that a program carries inside its executable, or under names of their own:
 * jemalloc in a Rust program (_rjem_malloc), a linked mimalloc or tcmalloc, a malloc that the
 * executable defines itself. The loader leads nobody from those names to us, so the functions'
 * heads are moved aside and a jump to our hooks takes their place; the program's own allocator goes
 * on serving. The outermost call counts, as everywhere.
 */
#ifndef PATCH_OWN_H
#define PATCH_OWN_H

#include <stddef.h>
#include <stdint.h>

#include "preload/sys.h"

#define OWN_NONE 0xff

/* What a function does. */
enum own_kind {
	OWN_OBTAIN,      /* returns a block */
	OWN_OBTAIN_TEXT, /* returns a block that holds a string: its size is the string's */
	OWN_OBTAIN_TO,   /* as posix_memalign() */
	OWN_RELEASE,
	OWN_RESIZE, /* as realloc(); returns NULL, and leaves the block as it is, where it fails */
	OWN_RESIZE_OR_FREE,  /* as reallocf(): releases the block where it fails */
	OWN_RESIZE_IN_PLACE, /* as xallocx(): returns the size that the block has now */
	OWN_KINDS
};

/* Which argument is what; OWN_NONE: there is none. */
struct own_shape {
	uint8_t kind, block, size, count, align;
};

/* A hooked function, as its stub hands it to the hook. The entry code knows what stands where. */
struct own_call {
	/* its moved head; the function itself, where only words lead here */
	uint64_t (*next)(uint64_t, uint64_t, uint64_t, uint64_t);
	/* the object that it lies in */
	uint64_t object_lo, object_bytes;
	/* where such words' stub goes on to */
	const void *entry;
	struct own_shape shape;
};
_Static_assert(offsetof(struct own_call, next) == 0 && offsetof(struct own_call, object_lo) == 8 &&
		       offsetof(struct own_call, object_bytes) == 16 &&
		       offsetof(struct own_call, entry) == 24,
	       "own_entry_x86_64.S");

/* ---- own_names.c ---- */

/* Allocators that are told apart. */
enum own_family {
	OWN_STANDARD, /* malloc and so on, defined by the executable */
	OWN_EXTENDED, /* mallocx and so on: jemalloc without a prefix */
	OWN_JE,
	OWN_RJEM,
	OWN_TC,
	OWN_MI,
	/*
	 * blocks of a place that is named; free() and realloc() are the standard ones: only beside
	 * those
	 */
	OWN_MOZ,
	/* new and delete, defined by the executable: only beside one of the others */
	OWN_OPERATORS,
	OWN_FAMILIES
};
#define OWN_BIT(family) (1u << (family))

struct own_name {
	/* without the family's prefix */
	const char *name;
	struct own_shape shape;
	/* OWN_BIT() of those that have it */
	uint8_t families;
	/* the allocator is hooked with this one or not at all */
	uint8_t core;
};

extern const char *const own_titles[OWN_FAMILIES] HIDDEN;
/**
 * own_prefix() - what a family's names begin with; "" = nothing. Its functions may be local symbols
 * where it has one.
 */
extern const char *const own_prefix[OWN_FAMILIES] HIDDEN;

/**
 * own_name() - what the symbol @name is, NULL: nothing of ours; *@family whose. Reentrant; some 20
 * ns for most.
 */
const struct own_name *own_name(const char *name, enum own_family *family) HIDDEN;

/* ---- own_hooks.c, by way of own_entry_x86_64.S ---- */

/** own_entries[] - where a stub jumps to, by kind. */
extern const void *const own_entries[OWN_KINDS] HIDDEN;

/* @ax: what the register of the result holds before the call. */
#define OWN_ARGS                                                                                 \
	uint64_t a, uint64_t b, uint64_t c, uint64_t d, const struct own_call *own, uint64_t sp, \
		uint64_t bp, uint64_t bx, uint64_t ax
uint64_t own_obtain(OWN_ARGS) HIDDEN;
uint64_t own_obtain_text(OWN_ARGS) HIDDEN;
uint64_t own_obtain_to(OWN_ARGS) HIDDEN;
uint64_t own_release(OWN_ARGS) HIDDEN;
uint64_t own_resize(OWN_ARGS) HIDDEN;
uint64_t own_resize_in_place(OWN_ARGS) HIDDEN;

/**
 * own_next_release() - what the stub stands for, called with @ax in the register of the result: it
 * may return none.
 */
uint64_t own_next_release(uint64_t a, uint64_t b, uint64_t c, uint64_t d,
			  const struct own_call *own, uint64_t ax) HIDDEN;

/* ---- led.c ---- */

#define OWN_LED_MAX 192
#define OWN_LED_CALL 40 /* bytes of a struct own_call */
#define OWN_LED_STUB 16 /* bytes of a stub's code */
extern struct own_call own_led[OWN_LED_MAX] HIDDEN;
/** own_led_stubs - the code to which words are led: stub n goes on with own_led[n]. */
extern const uint8_t own_led_stubs[OWN_LED_MAX * OWN_LED_STUB] HIDDEN;

#endif
