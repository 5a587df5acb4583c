/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v1_live.c - of sources that are no recordings: a process's balance sheet as it is now; conditions
 * that were met.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"
#include "base/clock.h"

#define FRESH_NS (10 * NS_PER_S) /* a process is looked through at most once in that time */

static enum view_by sheet_by(const struct v1_call *call)
{
	return !call->ask.by_given || call->ask.by == VIEW_BY_THREAD ? VIEW_BY_FUNCTION
								     : call->ask.by;
}

/**
 * struct now - the last sheets of processes, so that a page which asks often costs a process
 * nothing.
 */
static struct now {
	pthread_mutex_t lock;
	struct {
		const struct v1_live *live;
		enum view_by by;
		uint64_t limit;
		uint64_t time_ns;
		struct buf text;
	} kept[8];
	unsigned next;
} now = { .lock = PTHREAD_MUTEX_INITIALIZER };

static int make_now(const struct v1_live *live, enum view_by by, uint64_t limit, struct buf *to,
		    struct err *err)
{
	char *text = NULL;
	size_t len = 0;
	FILE *stream = open_memstream(&text, &len);
	if (!stream)
		return err_set(err, -ENOMEM, "cannot explain");
	int rc = live->explain(live->ctx, by, limit, stream, err);
	if (fclose(stream) != 0 && rc == 0)
		rc = err_set(err, -ENOMEM, "cannot explain");
	if (rc == 0) {
		buf_clear(to);
		buf_put(to, text, len);
	}
	free(text);
	return rc;
}

int v1_explain_live(struct v1_call *call, struct err *err)
{
	size_t count;
	const struct v1_live *lives = v1_lives(call->v1, &count),
			     *live = &lives[call->source - V1_LIVE_FIRST];
	enum view_by by = sheet_by(call);
	uint64_t limit = call->ask.limit;
	unsigned at = 0;
	int rc = 0;
	if (!live->explain)
		return err_set(err, -ENOENT, "'%s' has no balance sheet", live->name);
	if (call->ask.query.at.kind || call->ask.diff.kind)
		return err_set(err, -EINVAL,
			       "a running process has one moment, which is now: no 'at', no "
			       "'diff'");
	pthread_mutex_lock(&now.lock);
	while (at < ARRAY_LEN(now.kept) &&
	       !(now.kept[at].live == live && now.kept[at].by == by && now.kept[at].limit == limit))
		at++;
	if (at == ARRAY_LEN(now.kept))
		at = now.next++ % ARRAY_LEN(now.kept);
	uint64_t time_ns = clock_ns(CLOCK_MONOTONIC);
	if (now.kept[at].live != live || now.kept[at].by != by || now.kept[at].limit != limit ||
	    time_ns - now.kept[at].time_ns > FRESH_NS) {
		now.kept[at].live = NULL;
		rc = make_now(live, by, limit, &now.kept[at].text, err);
		if (rc == 0) {
			now.kept[at].live = live;
			now.kept[at].by = by;
			now.kept[at].limit = limit;
			now.kept[at].time_ns = time_ns = clock_ns(CLOCK_MONOTONIC);
		}
	}
	if (rc == 0) {
		/*
		 * the sheet's own object, with two members more in front: the same shape as a
		 * recording's
		 */
		CLEANUP(buf_fini) struct buf all = { 0 };
		buf_printf(&all, "{\"source\":%zu,\"age_ns\":%llu,", call->source,
			   (unsigned long long)(time_ns - now.kept[at].time_ns));
		size_t len = now.kept[at].text.len;
		while (len && now.kept[at].text.data[len - 1] == '\n')
			len--;
		buf_put(&all, now.kept[at].text.data + 1, len - 1);
		jsonw_raw(&call->json, NULL, all.data, all.len);
	}
	pthread_mutex_unlock(&now.lock);
	return rc;
}

int v1_alerts(struct v1_call *call, struct err *err)
{
	uint64_t last = 0;
	(void)err;
	CLEANUP(buf_fini) struct buf one = { 0 };
	v1_told(call->v1, 0, &one, &last);
	jsonw_array(&call->json, NULL);
	for (uint64_t i = last > V1_TOLD_MAX ? last - V1_TOLD_MAX + 1 : 1; i <= last; i++) {
		uint64_t newest;
		buf_clear(&one);
		if (v1_told(call->v1, i, &one, &newest))
			jsonw_raw(&call->json, NULL, one.data, one.len);
	}
	jsonw_array_end(&call->json);
	return 0;
}
