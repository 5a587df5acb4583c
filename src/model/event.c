/* SPDX-License-Identifier: Apache-2.0 */
#include "model/event.h"

#include <errno.h>

static int tee_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct sink_tee *tee = (struct sink_tee *)sink;
	for (size_t i = 0; i < tee->count; i++) {
		int rc = tee->to[i]->define(tee->to[i], def, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

static int tee_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct sink_tee *tee = (struct sink_tee *)sink;
	for (size_t i = 0; i < tee->count; i++) {
		int rc = tee->to[i]->put(tee->to[i], events, count, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

void sink_tee_init(struct sink_tee *tee)
{
	*tee = (struct sink_tee){ .sink = { .define = tee_define, .put = tee_put } };
}

int sink_tee_add(struct sink_tee *tee, struct sink *to)
{
	if (tee->count == ARRAY_LEN(tee->to))
		return -ENOSPC;
	tee->to[tee->count++] = to;
	return 0;
}

const char *stack_stop_name(unsigned stop)
{
	static const char *const names[STACK_STOP_MAX] = {
		[1] = "gap",
		[2] = "no_module",
		[3] = "unsupported",
		[4] = "unreadable",
		[5] = "no_progress",
		[6] = "too_deep",
		[7] = "guessed",
		[8] = "node_table_full",
		[9] = "no_scratch",
		[10] = "stacks_off",
		[STACK_STOP_DAMAGED] = "file_damaged",
		[STACK_STOP_UNSAMPLED] = "not_sampled",
	};
	return stop < STACK_STOP_MAX ? names[stop] : NULL;
}

const char *loss_reason_name(unsigned reason)
{
	static const char *const names[LOSS_REASON_MAX] = {
		[LOSS_RING_FULL] = "ring_full",
		[LOSS_NO_SLOT] = "no_slot",
		[LOSS_NESTED] = "nested_signal",
		[LOSS_EARLY] = "before_start",
		[LOSS_SECCOMP] = "seccomp",
		[LOSS_REGION] = "region",
		[LOSS_RECORDER_DIED] = "recorder_died",
		[LOSS_RING_DAMAGED] = "ring_damaged",
		[LOSS_DISORDER] = "disorder",
		[LOSS_FILE_DAMAGED] = "file_damaged",
		[LOSS_WRITE_FAILED] = "write_failed",
		[LOSS_NO_MEMORY] = "no_memory",
	};
	return reason < LOSS_REASON_MAX ? names[reason] : NULL;
}
