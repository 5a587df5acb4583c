/* SPDX-License-Identifier: Apache-2.0 */
/*
 * slots.h - the words through which a process's objects call what the library hooks: led to the
 * hooks, and put back. Collected while the process runs, written while all of its threads stand
 * still, by ptrace: pages that are read-only stay so.
 */
#ifndef INJECT_SLOTS_H
#define INJECT_SLOTS_H

#include <stdint.h>
#include <sys/types.h>

#include "inject/objects.h"
#include "wire/inject.h"

#define SLOTS_MAX 65536u
#define SLOTS_NAME 48

struct slot {
	/* 0: given up */
	uint64_t at;
	uint64_t before, after;
	uint64_t original;
	/* it was written */
	uint32_t led, zero;
};

/** struct slots - shared with who puts them back should we not come to it. */
struct slots {
	uint32_t count;
	/* there was no room for some */
	uint32_t more;
	/* collected since the last were led */
	uint32_t fresh, zero;
	struct slot list[SLOTS_MAX];
};

struct slots_names {
	uint32_t count;
	struct wire_inject_hook hook[WIRE_INJECT_HOOKS];
	char name[WIRE_INJECT_HOOKS][SLOTS_NAME];
};

/** slots_names() - read the hooks' names out of @target. Return: 0: not possible. */
int slots_names(struct slots_names *names, const struct target *target,
		const struct wire_inject *said);
/**
 * slots_collect() - add the slots of all objects but the loader, the kernel's and the one at
 * @own_lo which hold what they held when the loader filled them in, or have not been filled in yet.
 * Some ms for a hundred objects.
 */
void slots_collect(struct slots *slots, struct objects *objects, const struct slots_names *names,
		   uint64_t own_lo);
/**
 * slots_lead(), slots_put_back() - where they still hold that; @tid, like all others, is stopped by
 * us. Some us each. Return: how many were written.
 */
unsigned slots_lead(struct slots *slots, pid_t tid);
unsigned slots_put_back(struct slots *slots, pid_t tid);

#endif
