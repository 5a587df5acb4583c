/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/events_model.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge.h"

const char *events_col_name(unsigned id)
{
	static const char *const names[EVC_COUNT] = {
		[EVC_META] = "sums",      [EVC_OP] = "operations", [EVC_TIME] = "times",
		[EVC_THREAD] = "threads", [EVC_STACK] = "stacks",  [EVC_BYTES] = "sizes",
		[EVC_ADDR] = "addresses", [EVC_DEPTH] = "depths",  [EVC_AGE] = "ages",
		[EVC_SLOT] = "slots",     [EVC_FLAGS] = "flags",   [EVC_AUX] = "free stacks",
		[EVC_KIND] = "kinds",     [EVC_OTHER] = "others",  [EVC_DEAD] = "dead slots",
		[EVC_APART] = "apart",    [EVC_STEP] = "steps",    [EVC_PLACE] = "places",
	};
	return id < EVC_COUNT ? names[id] : NULL;
}

/* What is not zero in a model that knows nothing. */
static void begin(struct events_model *m)
{
	for (unsigned i = 0; i < THREAD_CONTEXTS; i++) {
		m->thread[i].made = NO_SLOT;
		m->thread[i].near = m->has_near ? m->near[i] : NULL;
	}
}

/* Before the first key block there is nothing to forget, and most of it was never touched. */
static void forget(struct events_model *m)
{
	if (!m->has_begun) {
		m->has_begun = 1;
		return;
	}
	memset(m->other, 0, sizeof(m->other));
	memset(m->guess, 0, sizeof(m->guess));
	memset(m->thread, 0, sizeof(m->thread));
	for (unsigned i = 0; i < CLASSES; i++) {
		struct dead_list *list = &m->dead[i];
		list->first = list->count = list->taken = list->last = 0;
	}
	for (unsigned i = 0; m->has_near && i < THREAD_CONTEXTS; i++) {
		for (unsigned k = 0; k < NEAR_CLASSES; k++)
			m->near[i][k].count = 0;
	}
	m->literal_stack = 0;
	m->seq = 0;
	begin(m);
}

struct events_model *events_model_new(uint32_t version, struct err *err)
{
	struct events_model *m = calloc(1, sizeof(*m));
	if (!m) {
		err_set(err, -ENOMEM, "cannot set up the coding of events");
		return NULL;
	}
	m->has_near = version > 1;
	m->has_far = version > 2;
	begin(m);
	return m;
}

void events_model_free(struct events_model *model)
{
	if (!model)
		return;
	for (unsigned i = 0; i < CLASSES; i++)
		free(model->dead[i].dead);
	huge_free(model->slots, model->slot_cap * sizeof(*model->slots));
	free(model->spare);
	free(model->where);
	free(model);
}

/* The writer has to look for what stands from place 0 on elsewhere than before. */
static void note_all(struct events_model *m, struct dead_list *list)
{
	for (uint32_t i = 0; m->where && i < list->count; i++)
		model_note_where(m, list, i);
}

void events_model_squeeze(struct events_model *m, struct dead_list *list)
{
	uint32_t to = 0, last = 0;
	for (uint32_t i = list->first; i < list->count; i++) {
		if (list->dead[i].slot == NO_SLOT)
			continue;
		last += model_step_to(list, i) < 0;
		list->dead[to++] = list->dead[i];
	}
	list->last = last;
	list->count = to;
	list->first = list->taken = 0;
	note_all(m, list);
}

int events_model_grow(struct events_model *m, struct dead_list *list)
{
	if (list->first > list->cap / 2) {
		memmove(list->dead, list->dead + list->first,
			(list->count - list->first) * sizeof(*list->dead));
		list->count -= list->first;
		list->last -= list->first;
		list->first = 0;
		note_all(m, list);
		return 0;
	}
	uint32_t cap = list->cap ? list->cap + list->cap / 2 : 16;
	struct dead *dead = realloc(list->dead, cap * sizeof(*dead));
	if (!dead)
		return -ENOMEM;
	list->dead = dead;
	list->cap = cap;
	return 0;
}

int events_model_room(struct events_model *m)
{
	/* what is beyond the last slot is not touched, and takes no memory */
	if (m->spare_count || m->slot_count < m->slot_cap)
		return 0;
	uint32_t cap = m->slot_cap ? m->slot_cap * 2 : 4096;
	if (m->slot_count >= EVENTS_BLOCK_MAX)
		return -E2BIG;
	/* doubled, it stays a multiple of huge pages: the kernel moves those as they are */
	struct slot *slots =
		huge_resize(m->slots, m->slot_cap * sizeof(*slots), cap * sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	m->slots = slots;
	m->slot_cap = cap;
	return 0;
}

static int spare_room(struct events_model *m, uint32_t count)
{
	m->spare_count = 0;
	if (count <= m->spare_cap)
		return 0;
	uint32_t *spare = realloc(m->spare, count * sizeof(*spare));
	if (!spare)
		return -ENOMEM;
	m->spare = spare;
	m->spare_cap = count;
	return 0;
}

int events_model_reset(struct events_model *m)
{
	uint32_t dead = 0;
	forget(m);
	for (uint32_t i = 0; i < m->slot_count; i++)
		dead += m->slots[i].state == SLOT_DEAD;
	if (spare_room(m, dead) < 0)
		return -ENOMEM;
	for (uint32_t i = m->slot_count; i-- > 0;) {
		m->slots[i].seq = 0;
		if (m->slots[i].state == SLOT_DEAD)
			m->spare[m->spare_count++] = i;
	}
	return 0;
}

int events_model_reset_to(struct events_model *m, const uint8_t *live)
{
	uint32_t dead = 0;
	forget(m);
	for (uint32_t i = 0; i < m->slot_count; i++)
		dead += !live[i];
	if (spare_room(m, dead) < 0)
		return -ENOMEM;
	for (uint32_t i = m->slot_count; i-- > 0;) {
		if (!live[i])
			m->spare[m->spare_count++] = i;
	}
	return 0;
}
