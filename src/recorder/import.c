/* SPDX-License-Identifier: Apache-2.0 */
/* import.c - a recording of what another program wrote. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "recorder/recorder.h"
#include "trace/trace.h"

static int import_into(struct recording *rec, struct trace_writer **writer, struct err *err)
{
	CLEANUP(prof_freep) struct prof *prof = prof_new(err);
	if (!prof)
		return err->code;
	struct sink_tee tee;
	sink_tee_init(&tee);
	sink_tee_add(&tee, trace_writer_sink(*writer));
	sink_tee_add(&tee, prof_sink(prof));
	int rc = recording_run(rec, &tee.sink, err);
	if (rc < 0)
		return rc;
	if (trace_writer_lost(*writer))
		return err_set(err, -ENOSPC, "cannot write '%s'", trace_writer_path(*writer));
	struct trace_writer *finished = STEAL(*writer);
	return trace_writer_finish(finished, prof, err);
}

int recorder_import(struct recording *rec, const char *out_path, char **path, struct err *err)
{
	*path = NULL;
	if (recording_kind(rec) == RECORDING_BLT) {
		err_set(err, -EINVAL, "'%s' is a recording already", recording_path(rec));
		return err_hint(err, "'byteledger report' reads it; 'byteledger export' writes "
				     "other formats");
	}
	CLEANUP(trace_writer_freep)
	struct trace_writer *writer = trace_writer_new(out_path, NULL, err);
	if (!writer)
		return err->code;
	char *made = strdup(trace_writer_path(writer));
	int rc = made ? import_into(rec, &writer, err)
		      : err_set(err, -ENOMEM, "cannot import '%s'", recording_path(rec));
	if (rc < 0 && made) {
		remove(made); /* ours alone: it was created exclusively */
		free(made);
		return rc;
	}
	*path = made;
	return rc;
}
