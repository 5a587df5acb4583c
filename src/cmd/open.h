/* SPDX-License-Identifier: Apache-2.0 */
/* open.h - recordings of every kind behind one face; kinds are told by content, never by name (contract 2). */
#ifndef CMD_OPEN_H
#define CMD_OPEN_H

#include "base/err.h"
#include "model/event.h"
#include "model/prof.h"
#include "query/query.h"

enum recording_kind { RECORDING_BLT = 1, RECORDING_HEAPTRACK, RECORDING_RAW };

struct recording;

/** cmd_open_recording() - recognise and open @path; NULL with @err and a hint for what is no recording. */
struct recording *cmd_open_recording(const char *path, struct err *err);
void recording_freep(struct recording **recording);
enum recording_kind recording_kind(const struct recording *recording);
const char *recording_path(const struct recording *recording);

/**
 * recording_run() - replay everything into @sink; progress is shown on a terminal after a second. Can be called again.
 */
int recording_run(struct recording *recording, struct sink *sink, struct err *err);

/** recording_read() - the reading that @query (NULL: everything) selects; a new prof, or NULL with @err. */
struct prof *recording_read(struct recording *recording, const struct query *query,
			    struct err *err);

/**
 * recording_will_stream() - before recording_read(), where recording_stream() is to follow: the reading has to say what is in the
 * stream. In a damaged file the summary says more, so that it is left alone. Cost: all bytes are read, not decoded.
 */
int recording_will_stream(struct recording *recording, struct err *err);

/** recording_stream() - replay what @query (NULL: everything) selects into @sink. */
int recording_stream(struct recording *recording, const struct query *query, struct sink *sink,
		     struct err *err);

/** recording_warning() - one line on what could not be read, after a run; NULL where the file is whole. Lent. */
const char *recording_warning(const struct recording *recording);

/** cmd_resolve() - resolve the frames of @prof that carry no symbols, from the files on this machine. */
int cmd_resolve(struct prof *prof, struct err *err);

#endif
