/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_explain.c - the balance sheet of a recording at one of its snapshots, or what changed between
 * two.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"
#include "out/explain.h"
#include "query/instant.h"
#include "view/explain.h"

/** struct sheets_args - plain data; @path is the shelf's own string, which stays. */
struct sheets_args {
	const char *path;
	enum view_by by;
	struct query_time at, diff;
};

/** struct sheets - one, or two of which the difference is asked for. */
struct sheets {
	struct instant instant[2];
	struct explain *explain[2];
};

static void sheets_free(void *data)
{
	struct sheets *s = data;
	for (unsigned i = 0; s && i < 2; i++) {
		explain_free(s->explain[i]);
		instant_fini(&s->instant[i]);
	}
	free(s);
}

static size_t sheets_bytes(const struct sheets *s)
{
	size_t bytes = sizeof(*s);
	for (unsigned i = 0; i < 2; i++)
		if (s->explain[i])
			bytes +=
				s->instant[i].snapshot->unit_count * sizeof(struct snapshot_unit) +
				s->instant[i].snapshot->piece_count *
					sizeof(struct snapshot_piece) +
				s->instant[i].snapshot->run_count * sizeof(struct snapshot_run) +
				s->explain[i]->sheet->group_count * (sizeof(struct sheet_group) +
								     sizeof(struct explain_group)) +
				prof_stack_count(s->instant[i].names) * sizeof(struct prof_stack);
	return bytes;
}

static int make_sheets(const void *ctx, const struct shelf_task *task,
		       struct shelf_product *product, struct err *err)
{
	const struct sheets_args *args = ctx;
	const struct explain_opt opt = { .by = args->by };
	struct sheets *s = calloc(1, sizeof(*s));
	int rc = s ? 0 : err_set(err, -ENOMEM, "cannot explain a recording");
	for (unsigned i = 0; i < 2 && rc == 0; i++) {
		struct instant *instant = &s->instant[i];
		if (i && !args->diff.kind)
			break;
		rc = instant_read(args->path, i ? &args->diff : &args->at, task->source, instant,
				  err);
		if (rc == 0)
			rc = task->source->resolve(task->source->ctx, instant->names, err);
		if (rc == 0 && !(s->explain[i] = explain_new(instant, &opt, err)))
			rc = err->code;
		/* what is kept is the sheet: the blocks have been counted */
		instant_drop(instant);
	}
	if (rc < 0) {
		sheets_free(s);
		return rc;
	}
	*product = (struct shelf_product){ s, sheets_bytes(s), sheets_free };
	return 0;
}

int v1_explain(struct v1_call *call, struct err *err)
{
	const struct ask *ask = &call->ask;
	struct sheets_args args;
	CLEANUP(buf_fini) struct buf words = { 0 };
	if (call->source >= V1_LIVE_FIRST)
		return v1_explain_live(call, err);
	memset(&args, 0, sizeof(args)); /* with its padding: it is copied as bytes */
	args.path = shelf_at(call->shelf, call->source)->path;
	args.by = ask->by_given ? ask->by : VIEW_BY_FUNCTION;
	args.at = ask->query.at;
	args.diff = ask->diff;
	if (args.by == VIEW_BY_THREAD)
		return err_set(err, -EINVAL,
			       "'by' says nothing here as thread: function, module, file, line or "
			       "stack");
	buf_printf(&words, "explain by %d %s", (int)args.by, ask->rest);
	int rc = v1_make(call, buf_cstr(&words), make_sheets, &args, sizeof(args), 0, err);
	if (rc == -ENODATA)
		rc = err->code = -ENOENT;
	if (rc)
		return rc;
	const struct sheets *s = call->reading->product.data;
	jsonw_object(&call->json, NULL);
	v1_head(call, NULL);
	if (s->explain[1])
		out_explain_diff_members(&call->json, s->explain[0], s->explain[1]);
	else
		out_explain_members(&call->json, s->explain[0], ask->limit);
	jsonw_object_end(&call->json);
	return 0;
}
