/* SPDX-License-Identifier: Apache-2.0 */
/* impl.h - what the files of this room share. */
#ifndef VIEW_IMPL_H
#define VIEW_IMPL_H

#include "view/view.h"

/**
 * view_canonical() - @stack without the inner frames that are nothing but allocator calls. Stacks
 * with equal canonical rows look the same. Never strips the last frame: an allocator called by
 * nobody known is its own row.
 */
struct stack_id view_canonical(const struct prof *prof, struct stack_id stack);
/** view_frame_count() - how many view_frames a frame unfolds to: its symbols, or one. */
uint32_t view_frame_count(const struct prof_frame *frame);
/** view_frame_at() - entry @i of those, innermost first. */
void view_frame_at(const struct prof *prof, const struct prof_frame *frame, uint32_t i,
		   struct view_frame *out);
/**
 * view_frame_hidden() - how many entries at the inner end of @frame are wrappers; may be all of
 * them.
 */
uint32_t view_frame_hidden(const struct prof_frame *frame);

/**
 * view_choose_folds() - by module, 1 where its unnamed functions become one node: those with names
 * beside them, those where little is allocated, and code of no module (made at run time, mostly).
 * NULL without memory.
 */
uint8_t *view_choose_folds(const struct prof *prof);

/** struct view_owns - who asked, by frame: each name is looked at once. */
struct view_owns {
	const struct prof *prof;
	const struct view_skip *skip;
	uint8_t *first;
};
int view_owns_init(struct view_owns *owns, const struct prof *prof, const struct view_skip *skip);
void view_owns_fini(struct view_owns *owns);
/**
 * view_owns_first() - how many entries at the inner end of a frame row are skipped; may be all of
 * them.
 */
uint32_t view_owns_first(struct view_owns *owns, struct frame_id frame);
/**
 * view_owns_stack() - the frame row and its entry that asked for @stack's blocks: the innermost
 * that is not skipped, the innermost of all where none is. Return: 1, 0 for a stack without frames.
 */
int view_owns_stack(struct view_owns *owns, struct stack_id stack, struct frame_id *frame,
		    uint32_t *entry);

#endif
