/* SPDX-License-Identifier: Apache-2.0 */
#include "query/balance.h"

#include "query/instant.h"

static int add_up(struct balance *b, const struct recording_ears *ears,
		  const struct explain_opt *opt, struct err *err)
{
	int rc = b->instant.names ? recording_resolve(b->instant.names, ears, err) : 0;
	if (rc < 0)
		return rc;
	b->explain = explain_new(&b->instant, opt, err);
	return b->explain ? 0 : err->code;
}

int balance_read(struct balance *b, const char *path, const struct query_time *time,
		 const struct recording_ears *ears, const struct explain_opt *opt, struct err *err)
{
	int rc = instant_read(path, time, NULL, &b->instant, err);
	return rc < 0 ? rc : add_up(b, ears, opt, err);
}

int balance_of_process(struct balance *b, pid_t pid, int freeze, const struct recording_ears *ears,
		       const struct explain_opt *opt, struct err *err)
{
	const char *why_not;
	int rc = instant_of_process(pid, freeze, &b->instant, &why_not, err);
	if (rc == 0)
		rc = add_up(b, ears, opt, err);
	if (rc == 0)
		b->explain->why_not = why_not;
	return rc;
}

void balance_fini(struct balance *b)
{
	explain_free(b->explain);
	instant_fini(&b->instant);
	b->explain = NULL;
}
