/* SPDX-License-Identifier: Apache-2.0 */
/* ended.h - the report that a recording ends with. */
#ifndef OUT_ENDED_H
#define OUT_ENDED_H

#include "out/out.h"
#include "query/recording.h"

struct out_ended_opt {
	struct out_opt out;
	/* one object; else text for people */
	int json;
	/* of text: three lines on the highest of its snapshots, where it has one */
	int with_balance;
	/* of what is read again for that */
	const struct recording_ears *ears;
};
/** out_ended() - of the finished recording @path, which holds @prof: heap, balance and pages. */
int out_ended(FILE *to, const char *path, const struct prof *prof, const struct out_ended_opt *opt,
	      struct err *err);

#endif
