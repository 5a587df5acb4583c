/* SPDX-License-Identifier: Apache-2.0 */
#include "model/snap.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "model/prof.h"

struct snap {
	struct prof *prof;
	uint64_t number, time_ns;
	/* atomic */
	uint32_t refs;
};

struct snap *snap_take(const struct prof *prof, struct err *err)
{
	struct snap *snap = calloc(1, sizeof(*snap));
	if (!snap) {
		err_set(err, -ENOMEM, "cannot freeze a reading");
		return NULL;
	}
	snap->refs = 1;
	snap->time_ns = clock_ns(CLOCK_MONOTONIC);
	snap->prof = prof_freeze(prof, err);
	if (!snap->prof)
		snap_unrefp(&snap);
	return snap;
}

struct snap *snap_ref(struct snap *snap)
{
	__atomic_add_fetch(&snap->refs, 1, __ATOMIC_RELAXED);
	return snap;
}

void snap_unref(struct snap *snap)
{
	/* release: what this thread read is read; acquire: what the others read, too */
	if (!snap || __atomic_sub_fetch(&snap->refs, 1, __ATOMIC_ACQ_REL))
		return;
	prof_free(snap->prof);
	free(snap);
}

void snap_unrefp(struct snap **snap)
{
	snap_unref(*snap);
	*snap = NULL;
}

const struct prof *snap_prof(const struct snap *snap)
{
	return snap->prof;
}

uint64_t snap_number(const struct snap *snap)
{
	return snap->number;
}

uint64_t snap_time_ns(const struct snap *snap)
{
	return snap->time_ns;
}

/* ---- the place ------------------------------------------------------------------------------- */

struct snap_place {
	/* held for some instructions only */
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct snap *newest;
	uint64_t number;
	int closed;
};

struct snap_place *snap_place_new(struct err *err)
{
	struct snap_place *place = calloc(1, sizeof(*place));
	if (!place) {
		err_set(err, -ENOMEM, "cannot make a place for readings");
		return NULL;
	}
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&place->changed, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_mutex_init(&place->lock, NULL);
	return place;
}

void snap_place_freep(struct snap_place **place)
{
	struct snap_place *p = *place;
	*place = NULL;
	if (!p)
		return;
	snap_unref(p->newest);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

void snap_publish(struct snap_place *place, struct snap *snap)
{
	snap->number = place->number + 1; /* nobody else writes it */
	pthread_mutex_lock(&place->lock);
	struct snap *old = place->newest;
	place->newest = snap;
	place->number = snap->number;
	pthread_cond_broadcast(&place->changed);
	pthread_mutex_unlock(&place->lock);
	snap_unref(old); /* to give a large one back takes its time */
}

static struct snap *newest(struct snap_place *place)
{
	return place->newest ? snap_ref(place->newest) : NULL;
}

struct snap *snap_get(struct snap_place *place)
{
	pthread_mutex_lock(&place->lock);
	struct snap *snap = newest(place);
	pthread_mutex_unlock(&place->lock);
	return snap;
}

struct snap *snap_wait(struct snap_place *place, uint64_t after, uint64_t timeout_ns)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC);
	if (__builtin_add_overflow(until, timeout_ns, &until) || until > INT64_MAX)
		until = INT64_MAX;
	const struct timespec at = clock_time(until);
	int rc = 0;
	pthread_mutex_lock(&place->lock);
	while (place->number <= after && !place->closed && rc == 0)
		rc = pthread_cond_timedwait(&place->changed, &place->lock, &at);
	struct snap *snap = place->number > after ? newest(place) : NULL;
	pthread_mutex_unlock(&place->lock);
	return snap;
}

void snap_place_close(struct snap_place *place)
{
	pthread_mutex_lock(&place->lock);
	place->closed = 1;
	pthread_cond_broadcast(&place->changed);
	pthread_mutex_unlock(&place->lock);
}
