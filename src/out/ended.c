/* SPDX-License-Identifier: Apache-2.0 */
#include "out/ended.h"

#include <errno.h>

#include "base/cleanup.h"
#include "out/explain.h"
#include "out/pages.h"
#include "query/balance.h"
#include "query/resident.h"

static int put_balance(FILE *to, const char *path, const struct out_ended_opt *opt, struct err *err)
{
	CLEANUP(balance_fini) struct balance b = { 0 };
	const struct explain_opt by = { .by = VIEW_BY_FUNCTION };
	int rc = balance_read(&b, path, NULL, opt->ears, &by, err);
	if (rc < 0)
		return rc == -ENODATA ? 0 : rc;
	return out_explain_brief(to, b.explain, &opt->out, err);
}

int out_ended(FILE *to, const char *path, const struct prof *prof, const struct out_ended_opt *opt,
	      struct err *err)
{
	struct out_opt out = opt->out;
	CLEANUP(paged_fini) struct paged paged = { 0 };
	if (paged_open(&paged, path, NULL, prof, err) < 0)
		return err->code;
	out.pages = paged.shot;
	int rc = opt->json ? out_json(to, prof, &out, err) : out_text(to, prof, &out, err);
	if (rc >= 0 && !opt->json && opt->with_balance) {
		fputc('\n', to);
		rc = put_balance(to, path, opt, err);
	}
	if (rc >= 0 && !opt->json)
		rc = out_pages_below(to, paged.shot, &out, err);
	fflush(to);
	return rc;
}
