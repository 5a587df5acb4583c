/* SPDX-License-Identifier: Apache-2.0 */
/*
 * out.h - one file per format. Formats write into a stdio stream or a buf; nothing here opens,
 * prints or exits.
 */
#ifndef OUT_OUT_H
#define OUT_OUT_H

#include <stdio.h>

#include "base/err.h"
#include "model/event.h"
#include "model/pages.h"
#include "model/prof.h"
#include "view/suppress.h"
#include "view/view.h"

struct out_opt {
	enum view_by by;
	enum view_cost cost;
	int inverted;
	/* groups of frames are sorted by their inclusive figures */
	int inclusive;
	/* who does not count as who asked; NULL: the known ones. Lent */
	const struct view_skip *skip;
	/* leaks that nobody wants to hear of, after suppress_run(); NULL: none. Lent */
	const struct suppress *suppress;
	/* the recording goes on: what lives is no leak */
	int being_written;
	/* text, speedscope: what is read is what was live at one moment */
	int moment;
	/* text: only the table of @by and @cost, instead of the default sections */
	int one_section;
	/* json: resident pages beside, one process; NULL: none. Lent */
	const struct page_shot *pages;
	/* rows; 0 = the format's default (text 10, others unlimited) */
	size_t limit;
	/* text: terminal colours */
	int colour;
	/* text: columns; 0 = 100 */
	int width;
	/* text: nothing beyond ASCII (the locale is not UTF-8) */
	int ascii;
	/* text: the words that narrow what counts, told in the heading; NULL = everything */
	const char *selection;
};

/** out_view() - what @opt asks of view_table_new() and view_each(). */
static inline struct view_opt out_view(const struct out_opt *opt)
{
	return (struct view_opt){ .by = opt->by,
				  .cost = opt->cost,
				  .inclusive = opt->inclusive,
				  .limit = opt->limit,
				  .skip = opt->skip };
}

/**
 * out_losses() - what the figures of a reading do not know: events lost, blocks uncertain or
 * culled; the first lines of out_text(), for formats that have no place for it. @no_sums: the
 * format holds single blocks only. @events: it is made of events, whose figures are what was
 * recorded, and no estimates. Writes nothing where all is known.
 */
int out_losses(FILE *to, const struct prof *prof, int no_sums, int events, struct err *err);

/* Formats of a reading: folded flamegraph pprof speedscope csv json, text. */
int out_text(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err);
int out_json(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err);
int out_csv(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err);
int out_folded(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err);
int out_flamegraph(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err);
int out_pprof(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err);
/**
 * out_pprof_since() - the same with what @base (NULL: nothing) holds taken away, as pprof's own
 * -diff_base does: samples below zero with the label pprof::base.
 */
int out_pprof_since(FILE *to, const struct prof *base, const struct prof *prof,
		    const struct out_opt *opt, struct err *err);
int out_speedscope(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err);

/*
 * Formats of a stream: they are sinks that write as events pass.
 * @names: a prof that was fed by the same producer with the same events before (so it knows the
 *   producer's numbers, all
 * names, the peak and the runtime); lent until the stream is finished. Definitions are taken from
 * it, not from the sink. Memory: tables by stacks; heaptrack besides 24 bytes for each distinct
 * pair of size and stack, at most 96 MiB; dhat besides 8 bytes a live block. out_stream_finish()
 * writes the rest and releases the stream; out_stream_free() only releases it.
 */
struct out_stream;
struct out_stream *out_heaptrack_new(FILE *to, const struct prof *names, struct err *err);
struct out_stream *out_massif_new(FILE *to, const struct prof *names, struct err *err);
struct out_stream *out_dhat_new(FILE *to, const struct prof *names, struct err *err);
struct out_stream *out_jsonl_new(FILE *to, const struct prof *names, struct err *err);
struct sink *out_stream_sink(struct out_stream *stream);
int out_stream_finish(struct out_stream *stream, struct err *err);
void out_stream_free(struct out_stream *stream);

#endif
