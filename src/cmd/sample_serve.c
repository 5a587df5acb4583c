/* SPDX-License-Identifier: Apache-2.0 */
/* sample_serve.c - what was sampled so far, by HTTP while it is sampled (api/sample_live.h). */

#include "cmd/cmd.h"
#include "cmd/sample.h"

int sample_serve(void *run, struct err *err)
{
	struct sample_run *l = run;
	sample_live_init(&l->live, l->life);
	l->more = sample_live_more(&l->live);
	l->is_served = 1;
	struct serving_opt opt = l->args->serving;
	opt.more = &l->more;
	l->serving = serving_new(&opt, NULL, 0, err);
	if (!l->serving)
		return err->code;
	cmd_say("serving %sapi/v1/sample", serving_url(l->serving));
	serving_tell_note(l->serving);
	return 0;
}

int sample_serve_answer(void *run, struct err *err)
{
	return sample_live_answer(&((struct sample_run *)run)->live, sample_json, run, err);
}

void sample_serve_end(struct sample_run *l)
{
	if (!l->is_served)
		return;
	desk_close(sample_life_desk(l->life));
	serving_freep(&l->serving);
	sample_live_fini(&l->live);
}
