/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recording.h - recordings of every kind behind one face; kinds are told by content, never by name.
 * Nothing is printed: what takes long and what is worth knowing comes out through struct
 * recording_ears.
 */
#ifndef QUERY_RECORDING_H
#define QUERY_RECORDING_H

#include "base/err.h"
#include "model/event.h"
#include "model/prof.h"
#include "query/query.h"

enum recording_kind { RECORDING_BLT = 1, RECORDING_HEAPTRACK, RECORDING_RAW };

struct recording;

/**
 * struct recording_ears - who hears how far the work is; all of it may be NULL. Called on the
 * thread that does the work.
 */
struct recording_ears {
	void *ctx;
	/**
	 * @what is under way ("reading"), @total 0: unknown; @what NULL: it is over. Some hundred
	 * times a second at most.
	 */
	void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
	/**
	 * Something was not to be had, and the reading goes on without it: a message and a hint.
	 */
	void (*notice)(void *ctx, const struct err *notice);
	/* builds are compared: that one of them is no longer there is no news */
	int across_builds;
};

/**
 * recording_open() - recognise and open @path; NULL with @err and a hint for what is no recording.
 * @ears: copied, or NULL.
 */
struct recording *recording_open(const char *path, const struct recording_ears *ears,
				 struct err *err);
void recording_freep(struct recording **recording);
/**
 * recording_spares() - whether something else may be written to @path, which is replaced then: not
 * what is read (@read; NULL: nothing is), and no recording of a run. 0; -EINVAL with a
 * hint.
 */
int recording_spares(const char *path, const char *read, struct err *err);
enum recording_kind recording_kind(const struct recording *recording);
const char *recording_path(const struct recording *recording);

/** recording_run() - replay everything into @sink. Can be called again. */
int recording_run(struct recording *recording, struct sink *sink, struct err *err);

/**
 * recording_read() - the reading that @query (NULL: everything) selects; a new prof, or NULL with
 * @err.
 */
struct prof *recording_read(struct recording *recording, const struct query *query,
			    struct err *err);

/**
 * recording_will_stream() - before recording_read(), where recording_stream() is to follow: the
 * reading has to say what is in the stream. In a damaged file the summary says more, so that it is
 * left alone. Cost: all bytes are read, not decoded.
 */
int recording_will_stream(struct recording *recording, struct err *err);

/**
 * recording_checked() - 1: it was read like that, and @damaged says what came of it; 0: not yet, or
 * more bytes came since. recording_assume() - what was found when the same bytes were open before:
 * they are not read again for that.
 */
int recording_checked(const struct recording *recording, int *damaged);
void recording_assume(struct recording *recording, int damaged);

/** recording_stream() - replay what @query (NULL: everything) selects into @sink. */
int recording_stream(struct recording *recording, const struct query *query, struct sink *sink,
		     struct err *err);

/**
 * recording_source() - it as what query_run() and query_stream() read, made ready for @query (NULL:
 * everything) as recording_read() does, and with @streams as behind recording_will_stream(): for
 * who runs the query himself. Valid as long as @recording. 0 or negative errno.
 */
int recording_source(struct recording *recording, const struct query *query, int streams,
		     struct query_source *source, struct err *err);
/** recording_is_written() - 1: a .blt file whose writer lived when it was opened. */
int recording_is_written(const struct recording *recording);
/** recording_goes_on() - after a run: 1 where its recorder was still at it. */
int recording_goes_on(const struct recording *recording);

/**
 * recording_warning() - one line on what could not be read, after a run; NULL where the file is
 * whole. Lent.
 */
const char *recording_warning(const struct recording *recording);

/**
 * recording_resolve() - resolve the frames of @prof that carry no symbols, from the files on this
 * machine and the servers that DEBUGINFOD_URLS names. @ears may be NULL.
 */
int recording_resolve(struct prof *prof, const struct recording_ears *ears, struct err *err);

/**
 * recording_store_symbols() - the names of @prof, its reading, into the file itself. -EINVAL where
 * its kind takes none.
 */
int recording_store_symbols(const struct recording *recording, const struct prof *prof,
			    struct err *err);

#endif
