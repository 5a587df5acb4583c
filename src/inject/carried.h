/* SPDX-License-Identifier: Apache-2.0 */
/*
 * carried.h - allocators that a program carries under names of their own: je_malloc in the
 * executable, _rjem_malloc in a Rust program, whose calls no word leads anywhere, so that who is
 * led to the hooks while it runs would seem to make none. Those of a library that others call
 * (mallocx of libjemalloc.so) are led, if one library has it: see patch/led.c.
 */
#ifndef INJECT_CARRIED_H
#define INJECT_CARRIED_H

#include "inject/objects.h"

/**
 * carried_find() - the name by which such an allocator is called that cannot be led, a literal;
 * NULL: there is none that has a name. Reads the symbols of the
 * executable's file, and of the objects what they ask of each other: linear in their number.
 */
const char *carried_find(struct objects *objects);

#endif
