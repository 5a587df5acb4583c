/* SPDX-License-Identifier: Apache-2.0 */
/* heart.c - the thread by which a traced program sees that its recorder lives. */
#include <errno.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder/record.h"

#define SOON_NS 1000000u

static void *heart_run(void *arg)
{
	struct record_heart *heart = arg;
	struct timespec next;
	int told = heart->ends < 0;
	pthread_setname_np(pthread_self(), "beat");
	do {
		if (__atomic_exchange_n(&heart->sleep, 0, __ATOMIC_ACQ_REL)) {
			source_heap_sleep(heart->heap);
			source_heap_beat(heart->heap);
			__atomic_store_n(&heart->asleep, 0, __ATOMIC_RELEASE);
			if (heart->ends >= 0)
				eventfd_write(heart->ends, 1);
		}
		if (source_heap_beat(heart->heap) && !told)
			told = eventfd_write(heart->ends, 1) == 0;
		next = clock_time(clock_ns(CLOCK_MONOTONIC) + SOURCE_HEAP_BEAT_NS);
	} while (sem_clockwait(&heart->stop, CLOCK_MONOTONIC, &next) < 0);
	return NULL;
}

int record_heart_start(struct record_heart *heart, struct source_heap *heap, struct err *err)
{
	heart->heap = heap;
	heart->ends = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	sem_init(&heart->stop, 0, 0);
	int rc = pthread_create(&heart->thread, NULL, heart_run, heart);
	heart->running = rc == 0;
	return rc ? err_set(err, -rc, "cannot start a thread") : 0;
}

int record_heart_sleep(struct record_heart *heart)
{
	if (!heart->running || heart->ends < 0 || source_heap_stay_awake(heart->heap))
		return 0;
	if (!__atomic_load_n(&heart->asleep, __ATOMIC_ACQUIRE)) {
		__atomic_store_n(&heart->asleep, 1, __ATOMIC_RELEASE);
		__atomic_store_n(&heart->sleep, 1, __ATOMIC_RELEASE);
	}
	return 1;
}

void record_heart_stop(struct record_heart *heart)
{
	if (!heart->running)
		return;
	sem_post(&heart->stop);
	/* it may be about to sleep: woken until it is gone */
	struct timespec soon;
	do {
		source_heap_wake(heart->heap);
		soon = clock_time(clock_ns(CLOCK_REALTIME) + SOON_NS);
	} while (pthread_timedjoin_np(heart->thread, NULL, &soon) == ETIMEDOUT);
	sem_destroy(&heart->stop);
	if (heart->ends >= 0)
		close(heart->ends);
	heart->running = 0;
}
