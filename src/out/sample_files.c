/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sample_files.c - the files that a report of samples may have beside it, and the screen while they
 * come.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "base/text.h"
#include "out/out.h"
#include "out/sample.h"
#include "query/recording.h"

int out_sample_table(const char *path, const struct samples *samples, const struct prof *prof,
		     const struct out_sample_opt *opt, int flat, struct err *err)
{
	CLEANUP(outfile_fini) struct outfile out = { 0 };
	int rc = recording_spares(path, NULL, err);
	if (!rc)
		rc = outfile_open(&out, path, 1, err);
	if (!rc)
		rc = out_sample_csv(out.to, samples, prof, opt, flat, err);
	return rc ? rc : outfile_commit(&out, err);
}

static int write_flame(const char *path, struct prof *prof, enum view_cost cost, struct err *err)
{
	CLEANUP(outfile_fini) struct outfile out = { 0 };
	const struct out_opt opt = { .cost = cost };
	int rc = recording_spares(path, NULL, err);
	if (!rc)
		rc = outfile_open(&out, path, 1, err);
	if (!rc)
		rc = out_flamegraph(out.to, prof, &opt, err);
	return rc ? rc : outfile_commit(&out, err);
}

int out_sample_flames(const char *path, struct prof *prof, enum out_sample_order order,
		      int has_live, struct err *err)
{
	static const struct {
		const char *what;
		enum view_cost cost;
	} kinds[] = { { "traffic", VIEW_COST_ALLOCATED },
		      { "count", VIEW_COST_ALLOCATIONS },
		      { "live", VIEW_COST_LIVE } };
	const char *base = strrchr(path, '/'), *dot = strrchr(base ? base : path, '.');
	int stem = dot && dot != path ? (int)(dot - path) : (int)strlen(path);
	unsigned chosen = order == SAMPLE_BY_COUNT                  ? 1
			  : order == SAMPLE_BY_TRAFFIC || !has_live ? 0
								    : 2;
	int rc = write_flame(path, prof, kinds[chosen].cost, err);
	for (unsigned i = 0; !rc && i < (has_live ? 3u : 2u); i++) {
		char name[4096];
		snprintf(name, sizeof(name), "%.*s-by-%s.svg", stem, path, kinds[i].what);
		rc = write_flame(name, prof, kinds[i].cost, err);
	}
	return rc;
}

int out_sample_screen(FILE *to, const struct samples *samples, const struct prof *prof,
		      const struct out_sample_opt *how, size_t rows, struct err *err)
{
	char *text = NULL;
	size_t bytes = 0;
	struct out_sample_opt opt = *how;
	opt.screen = 1;
	if (!opt.top || opt.top > rows)
		opt.top = rows;
	FILE *memory = open_memstream(&text, &bytes);
	if (!memory)
		return err_set(err, -ENOMEM, "cannot draw");
	int rc = out_sample_text(memory, samples, prof, &opt, err);
	fclose(memory);
	fputs("\033[H", to);
	for (char *line = text; rc == 0 && line && *line && rows-- > 1;) {
		size_t len = strcspn(line, "\n");
		char *next = line[len] ? line + len + 1 : line + len;
		line[len] = '\0';
		size_t fits = opt.width > 0 ? text_fit(line, (size_t)opt.width) : len;
		fprintf(to, "%.*s\033[K\n", (int)fits, line);
		line = next;
	}
	fputs("\033[J", to);
	fflush(to);
	free(text);
	return rc;
}
