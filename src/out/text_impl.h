/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text_impl.h - what the files of the text report share: a page of known width, and how names are
 * made short.
 */
#ifndef OUT_TEXT_IMPL_H
#define OUT_TEXT_IMPL_H

#include "base/buf.h"
#include "base/text.h"
#include "model/mapped.h"
#include "out/name.h"
#include "out/out.h"

#define VALUE_COLUMNS 9
#define MAPPED_LEAST 65536 /* bytes of mappings that are told: less is what every program has */
#define SHARE_COLUMNS 7
#define AMOUNT_COLUMNS (VALUE_COLUMNS + SHARE_COLUMNS + 2)

/** struct page - where text goes, and what the terminal can show. */
struct page {
	struct buf *to;
	size_t width;
	int colour, ascii;
	/* of the tree's frames, 1 more than enum view_role; 0 = not asked for yet */
	uint8_t *roles;
	const struct view_skip *skip;
};

enum tint { TINT_PLAIN, TINT_BOLD, TINT_DIM, TINT_RED, TINT_YELLOW, TINT_BAR };

/** page_tint() - switch colour; nothing without colours. Back to plain before the line ends. */
void page_tint(struct page *page, enum tint tint);
/**
 * page_text() - @text in at most @columns columns, cut with an ellipsis; returns the columns used.
 */
size_t page_text(struct page *page, const char *text, size_t columns);
/**
 * page_middle() - the same, but cut in the middle: of a path what stands behind the last '/' says
 * most.
 */
size_t page_middle(struct page *page, const char *text, size_t columns);
void page_spaces(struct page *page, size_t count);
/** page_right() - @text flush right in @columns. */
void page_right(struct page *page, const char *text, size_t columns);
/** page_bar() - @part of @whole as a bar of @columns, filled up with spaces. */
void page_bar(struct page *page, uint64_t part, uint64_t whole, size_t columns);

/**
 * text_argument_name() - the same with the outer template arguments, where functions differ by
 * nothing else.
 */
void text_argument_name(struct buf *to, const char *function, int ascii);
/**
 * text_inner_name() - where @name goes on when as many outer scopes ("ns::") are left off as
 * @columns ask; lent.
 */
const char *text_inner_name(const char *name, size_t columns);
/** text_frame_name() - the short name of a frame; "module+0x12" where it has none. */
void text_frame_name(struct buf *to, const struct view_frame *frame, int ascii);
/** text_caller_name() - the same for a list of callers: "[module]" where it has none. */
void text_caller_name(struct buf *to, const struct view_frame *frame, int ascii);

/** text_node_role() - that of @node's frame, looked for once: many call paths share few names. */
enum view_role text_node_role(const struct page *page, const struct view_tree *tree, uint32_t node);

/**
 * text_header() - what ran, what of it counts (opt->selection, NULL = all), losses first, totals.
 */
void text_header(struct page *page, const struct prof *prof, const struct prof_totals *totals,
		 const struct out_opt *opt);
/** text_curves() - heap and RSS over time; with @selected up to the last moment that counts. */
void text_curves(struct page *page, const struct prof *prof, const struct prof_totals *totals,
		 int selected);
/**
 * text_names() - which modules hide who allocated because they have no symbols, and what helps;
 * nothing where none does.
 */
void text_names(struct page *page, const struct view_tree *tree);
/**
 * text_warn() - @text, in several lines where it is longer than the page, broken between its parts
 * (", ").
 */
void text_warn(struct page *page, enum tint tint, const char *text);
/**
 * text_suppressed() - below what is leaked: one line of what was not counted there, with a title of
 * its own where it is @untitled; nothing where there is none.
 */
void text_suppressed(struct page *page, const struct suppress *suppress, int untitled);
/** text_amount() - value, share, bar; returns the columns used. */
size_t text_amount(struct page *page, enum view_cost cost, uint64_t value, uint64_t whole);
/** text_place() - "file:line": where the function stands; empty where nobody knows. */
void text_place(struct buf *to, const struct page *page, const struct view_frame *frame);
/** text_put_place() - such a place, in at most @columns; returns those used. */
size_t text_put_place(struct page *page, const char *place, size_t columns);
/** text_went_on() - the recording has ended and the process has not: what it holds is no leak. */
int text_went_on(const struct prof *prof);
/**
 * text_section() - the @limit largest call paths by @cost, each with its callers; where there are
 * none, @alone says so.
 */
void text_section(struct page *page, const struct prof *prof, const struct view_paths *paths,
		  enum view_cost cost, size_t limit, int alone, int being_written);
/**
 * text_mapped() - the @limit stacks that had mapped most at the peak of that, beside the heap;
 * nothing where it is little.
 */
void text_mapped(struct page *page, const struct prof *prof, const struct view_paths *paths,
		 size_t limit);
/** text_tree() - the call tree by tree->cost, in about @limit lines. */
void text_tree(struct page *page, const struct view_tree *tree, size_t limit);
/** text_table() - groups other than stacks: one line each. */
int text_table(struct page *page, const struct prof *prof, const struct out_opt *opt, size_t limit,
	       struct err *err);
/** text_signal() - "SIGSEGV (11)"; "signal 99" where it has no name. */
void text_signal(struct buf *to, int number);
/** text_value() - a cost's figure in its unit. */
const char *text_value(char to[TEXT_NUMBER_MAX], enum view_cost cost, uint64_t value);
/** text_title() - "Peak", "Leaked" ...: a heading with a rule. */
void text_title(struct page *page, const char *title, const char *remark);

#endif
