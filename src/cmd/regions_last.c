/* SPDX-License-Identifier: Apache-2.0 */
/*
 * regions_last.c - `regions` around a program, or for a time: the last reading of each process is
 * printed.
 */
#include <errno.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/regions.h"
#include "watch/last.h"

struct last {
	struct regions *r;
	int signals, status;
};

static int on_signals(void *ctx)
{
	const struct last *l = ctx;
	return started_signals(l->signals, l->r->program.pid);
}

static struct breakdown *on_read(void *ctx, const struct target *target, struct err *err)
{
	return regions_read(((const struct last *)ctx)->r, target, err);
}

static int on_tell(void *ctx, const struct breakdown *b, const char *exe, uint64_t age_ns,
		   int ended, struct err *err)
{
	struct last *l = ctx;
	int rc = regions_print(l->r, b, exe, age_ns, ended, err);
	if (rc < 0)
		l->status = cmd_fail(err);
	return rc;
}

static void on_unread(void *ctx, const struct err *why)
{
	struct last *l = ctx;
	struct err early = { 0 };
	if (l->r->quiet) /* nobody asked for its reading */
		return;
	err_set(&early, -ENOMSG, "the program ended before its memory was read");
	err_hint(&early, "'byteledger run -- PROGRAM' records such short ones, too");
	l->status = cmd_fail(l->r->program.pid && why->code == -ESRCH ? &early : why);
}

static void on_full(void *ctx, unsigned most)
{
	(void)ctx;
	cmd_say("more than %u processes: the others are left out", most);
}

int regions_last(struct regions *r, const struct target_list *list, int *stopped)
{
	struct err err = { 0 };
	struct last l = { .r = r,
			  .signals = r->program.pid ? r->program.signals : signals_open(0),
			  .status = CMD_OK };
	const struct last_opt opt = { .targets = &r->targets,
				      .program = r->program.pid,
				      .end_ns = r->watch.end_ns,
				      .signals = l.signals,
				      .ctx = &l,
				      .signalled = on_signals,
				      .read = on_read,
				      .tell = on_tell,
				      .unread = on_unread,
				      .full = on_full };
	if (watch_last(&opt, list, stopped, &err) < 0)
		l.status = cmd_fail(&err);
	if (!r->program.pid && l.signals >= 0)
		close(l.signals);
	return l.status;
}
