/* SPDX-License-Identifier: Apache-2.0 */
#include "query/query.h"

#include <errno.h>

struct prof *query_run(const struct query_source *source, const struct query *query,
		       struct err *err)
{
	CLEANUP(prof_freep) struct prof *prof = prof_new(err);
	(void)query;
	if (!prof)
		return NULL;
	int rc = source->summary ? source->summary(source->ctx, prof, err) : 0;
	if (rc == 0)
		rc = source->run(source->ctx, prof_sink(prof), err);
	return rc < 0 ? NULL : STEAL(prof);
}
