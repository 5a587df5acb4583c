/* SPDX-License-Identifier: Apache-2.0 */
#include "base/desk.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

int desk_init(struct desk *desk, struct err *err)
{
	pthread_condattr_t attr;
	*desk = (struct desk){ .wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
	if (desk->wake < 0)
		return err_set(err, -errno, "cannot answer other threads");
	pthread_mutex_init(&desk->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&desk->answer, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

void desk_fini(struct desk *desk)
{
	pthread_cond_destroy(&desk->answer);
	pthread_mutex_destroy(&desk->lock);
	close(desk->wake);
}

void desk_ask(struct desk *desk, uint64_t wait_ns)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + wait_ns;
	const struct timespec end = clock_time(until);
	pthread_mutex_lock(&desk->lock);
	uint64_t mine = ++desk->asked;
	eventfd_write(desk->wake, 1);
	while (desk->answered < mine && !desk->over &&
	       pthread_cond_timedwait(&desk->answer, &desk->lock, &end) == 0)
		;
	pthread_mutex_unlock(&desk->lock);
}

int desk_fd(const struct desk *desk)
{
	return desk->wake;
}

uint64_t desk_asked(struct desk *desk)
{
	eventfd_t ignored;
	eventfd_read(desk->wake, &ignored);
	pthread_mutex_lock(&desk->lock);
	uint64_t asked = desk->asked;
	pthread_mutex_unlock(&desk->lock);
	return asked;
}

int desk_waits(struct desk *desk)
{
	pthread_mutex_lock(&desk->lock);
	int waits = desk->asked > desk->answered;
	pthread_mutex_unlock(&desk->lock);
	return waits;
}

void desk_answer(struct desk *desk, uint64_t asked)
{
	pthread_mutex_lock(&desk->lock);
	if (asked > desk->answered)
		desk->answered = asked;
	pthread_cond_broadcast(&desk->answer);
	pthread_mutex_unlock(&desk->lock);
}

void desk_close(struct desk *desk)
{
	pthread_mutex_lock(&desk->lock);
	desk->over = 1;
	pthread_cond_broadcast(&desk->answer);
	pthread_mutex_unlock(&desk->lock);
}
