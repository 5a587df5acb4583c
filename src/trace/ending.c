/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/ending.h"

static int ending_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct ending *ending = (struct ending *)sink;
	if (def->kind == DEF_PROCESS)
		ending->ended = def->process.ended;
	return ending->to->define(ending->to, def, err);
}

static int ending_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct ending *ending = (struct ending *)sink;
	if (count)
		ending->last_ns = events[count - 1].time_ns;
	/*
	 * on a full disk there is room for nothing but this, which comes last and says how much is
	 * missing; a recorder without memory says only why
	 */
	if (count && events[count - 1].kind == EVENT_LOST &&
	    (events[count - 1].value == LOSS_WRITE_FAILED ||
	     events[count - 1].value == LOSS_NO_MEMORY))
		ending->ended = 1;
	return ending->to->put(ending->to, events, count, err);
}

struct sink *ending_init(struct ending *ending, struct sink *to)
{
	*ending =
		(struct ending){ .sink = { .define = ending_define, .put = ending_put }, .to = to };
	return &ending->sink;
}

int ending_tell(const struct ending *ending, struct trace_reader *reader, int has_until,
		struct err *err)
{
	int rc = 0;
	reader->info.goes_on = !ending->ended && reader->info.being_written;
	/* what stood in the rings by then is missing, nobody knows how much */
	if (!ending->ended && !reader->info.goes_on && !has_until) {
		struct event died = { .kind = EVENT_LOST,
				      .time_ns = ending->last_ns,
				      .value = LOSS_RECORDER_DIED };
		rc = ending->to->put(ending->to, &died, 1, err);
	}
	if (rc < 0 || !reader->info.truncated)
		return rc;
	/* whatever the file says about the end of the program, the end is what is missing */
	struct def def = { .kind = DEF_PROCESS, .process = { .exit_status = -1 } };
	return ending->to->define(ending->to, &def, err);
}
