/* SPDX-License-Identifier: Apache-2.0 */
/* attach_impl.h - what attach.c, attach_may.c and keep.c share. */
#ifndef INJECT_ATTACH_IMPL_H
#define INJECT_ATTACH_IMPL_H

#include <sys/types.h>

#include "inject/attach.h"
#include "inject/objects.h"
#include "inject/slots.h"
#include "proc/target.h"
#include "wire/inject.h"

#define RTLD_NOW_LOCAL 2u       /* RTLD_NOW | RTLD_LOCAL */
#define RTLD_DLOPEN 0x80000000u /* by whom __libc_dlopen_mode() is called */

/* What the keeper finds out and does, and we, who do the rest. */
#define ATTACH_CODE 64

struct attach_shared {
	/* the library there, and the code of its that was called */
	uint64_t own_lo, own_call;
	uint8_t own_code[ATTACH_CODE];
	struct wire_inject said;
	struct slots_names names;
	/* the keeper's descriptor of the shared memory */
	int memory;
	int rc;
	struct err err;
	struct slots slots;
};

struct attach {
	pid_t pid;
	struct target target;
	struct objects objects;
	struct attach_shared *shared;
	/* the loader's book of the library */
	uint64_t own_map;
	/* what came behind the library, and how often dlclose() was called, as of the last look */
	uint64_t behind;
	uint32_t closes;
	/* when the book is to be read again, and how often still because something came */
	uint64_t look_ns;
	unsigned looks;
	/* the word says that events are recorded */
	int led;
	/* descriptors; -1: none */
	int memory, pidfd;
	/* who puts everything back should we be killed; 0: none */
	pid_t keeper;
	int keeper_pipe;
};

/**
 * attach_may() - open the target, and refuse what cannot be or must not be, each with its reason.
 */
int attach_may(struct attach *attach, const struct attach_opt *opt, struct err *err);
struct freeze;
/**
 * attach_freeze() - freeze_begin(); for two seconds not while a thread waits so that it cannot be
 * stopped. -EINVAL with @err: it waits still, and nothing was stopped.
 */
int attach_freeze(struct attach *attach, struct freeze *freeze, struct err *err);
/** attach_objects() - objects_read(), again for a second where the program is being started. */
int attach_objects(struct attach *attach, struct err *err);
/**
 * attach_is_there() - whether the library is still where it was; not behind an exec. All of the
 * process's threads are stopped, or it may change at once.
 */
int attach_is_there(const struct attach *attach);
/** attach_put_back() - see attach_undo(); by whoever comes first. */
int attach_put_back(struct attach *attach, struct err *err);

/** attach_come() - in the keeper: lead a thread aside, to load the library and have it prepare. */
int attach_come(struct attach *attach, const struct attach_opt *opt, struct err *err);

/** keep_begin() - start the keeper, which does attach_come(), and wait for that. */
int keep_begin(struct attach *attach, const struct attach_opt *opt, struct err *err);
/** keep_end() - it has nothing to do any more. */
void keep_end(struct attach *attach);
/** keep_leave() - it has to do what we could not, and is not waited for. */
void keep_leave(struct attach *attach);

#endif
