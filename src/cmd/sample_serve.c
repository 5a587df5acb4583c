/* SPDX-License-Identifier: Apache-2.0 */
/* sample_serve.c - what was sampled so far, by HTTP while it is sampled (api/sample_live.h). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd/cmd.h"
#include "cmd/sample.h"

int sample_serve(struct sample_run *l, struct err *err)
{
	sample_live_init(&l->live, l->life);
	l->more = sample_live_more(&l->live);
	l->is_served = 1;
	struct serving_opt opt = l->args->serving;
	opt.more = &l->more;
	opt.quiet = 1;
	l->serving = serving_new(&opt, NULL, 0, err);
	if (!l->serving)
		return err->code;
	const char *note = serving_note(l->serving);
	cmd_say("serving %sapi/v1/sample", serving_url(l->serving));
	if (note)
		cmd_say("%s", note);
	return 0;
}

int sample_serve_answer(struct sample_run *l, struct err *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *to = open_memstream(&text, &len);
	int rc = to ? sample_json(l, to, err) : err_set(err, -ENOMEM, "cannot answer");
	if (to && fclose(to) != 0 && !rc)
		rc = err_set(err, -ENOMEM, "cannot answer");
	if (rc < 0)
		free(text);
	else
		sample_live_answer(&l->live, text, len);
	return rc;
}

void sample_serve_end(struct sample_run *l)
{
	if (!l->is_served)
		return;
	desk_close(sample_life_desk(l->life));
	serving_freep(&l->serving);
	sample_live_fini(&l->live);
}
