/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ends.h - where stacks end early: the outermost code that is known of those that are partial, by
 * reason.
 */
#ifndef VIEW_ENDS_H
#define VIEW_ENDS_H

#include <stdint.h>

#include "base/err.h"
#include "model/event.h"

struct prof;

#define VIEW_ENDS_MAX 1024u /* different places that are told apart */

/**
 * struct view_end - of all allocations whose stacks end for one reason. Strings are lent from the
 * prof.
 */
struct view_end {
	/* of them end in the module where most do */
	uint64_t in_module;
	/* "" = code of no file; NULL = none ends */
	const char *module;
	/* of those, in the function where most do */
	uint64_t in_function;
	/* NULL: no one has a name */
	const char *function;
};

/**
 * view_ends() - @ends by reason. 12 bytes a stack while it looks, one pass. 0, or -ENOMEM with
 * @err.
 */
int view_ends(const struct prof *prof, struct view_end ends[STACK_STOP_MAX], struct err *err);
/** view_end_goes() - "end in", or what stacks of that reason do at the code named. Static. */
const char *view_end_goes(unsigned stop);
/**
 * view_end_why() - what that reason means, to stand behind "end in FUNCTION, "; NULL where there is
 * no more to say.
 */
const char *view_end_why(unsigned stop);

#endif
