/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/paged.h"

#include "base/buf.h"
#include "base/cleanup.h"
#include "out/pages.h"

int paged_open(struct paged *paged, const char *path, const struct query_time *at,
	       const struct prof *whole, struct err *err)
{
	uint64_t ns = UINT64_MAX;
	struct err none = { 0 };
	int peak = !at || at->kind == QUERY_TIME_NONE || at->kind == QUERY_TIME_PEAK;
	paged->resident = resident_open(path, &none);
	if (!paged->resident) {
		if (none.code)
			*err = none;
		return none.code;
	}
	if (!peak && query_time_resolve(at, whole, &ns, err) < 0)
		return err->code;
	paged->shot = resident_load(
		paged->resident,
		peak ? resident_peak(paged->resident) : resident_at(paged->resident, ns), err);
	return paged->shot ? 0 : err->code;
}

void paged_fini(struct paged *paged)
{
	page_shot_putp(&paged->shot);
	resident_freep(&paged->resident);
}

int paged_text(FILE *to, const struct paged *paged, const struct out_opt *opt, struct err *err)
{
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (!paged->shot)
		return 0;
	struct out_pages_opt how = { .width = opt->width, .ascii = opt->ascii };
	buf_putc(&text, '\n');
	int rc = out_pages_brief(&text, paged->shot->processes[0], &how, err);
	if (rc == 0)
		fputs(buf_cstr(&text), to);
	return rc;
}
