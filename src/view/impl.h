/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - what the files of this room share. */
#ifndef VIEW_IMPL_H
#define VIEW_IMPL_H

#include "view/view.h"

/**
 * view_canonical() - @stack without the inner frames that are nothing but allocator calls. Stacks with equal canonical
 * rows look the same. Never strips the last frame: an allocator called by nobody known is its own row.
 */
struct stack_id view_canonical(const struct prof *prof, struct stack_id stack);
/** view_frame_count() - how many view_frames a frame unfolds to: its symbols, or one. */
uint32_t view_frame_count(const struct prof_frame *frame);
/** view_frame_at() - entry @i of those, innermost first. */
void view_frame_at(const struct prof *prof, const struct prof_frame *frame, uint32_t i,
		   struct view_frame *out);
/** view_frame_hidden() - how many entries at the inner end of @frame are wrappers; may be all of them. */
uint32_t view_frame_hidden(const struct prof_frame *frame);

#endif
