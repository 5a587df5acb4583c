/* SPDX-License-Identifier: Apache-2.0 */
/* functions_wire.h - what functions.c and its reader say to each other. */
#ifndef SYM_FUNCTIONS_WIRE_H
#define SYM_FUNCTIONS_WIRE_H

#include <stdint.h>

#define FUNCTIONS_UNREADABLE UINT32_MAX /* instead of enum functions_names */
#define FUNCTIONS_STUB_MAX 256

/* Of a function or a stub; its name follows, with a NUL. */
struct function_head {
	uint64_t vaddr, bytes;
	uint32_t name_len, exported;
};

#endif
