/* SPDX-License-Identifier: Apache-2.0 */
#include "base/queue.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t room, records;
	struct buf fill;
	size_t max_bytes;
	long count;
	uint64_t since_ns, high_water;
	int closed;
};

struct queue *queue_new(size_t max_bytes)
{
	struct queue *queue = calloc(1, sizeof(*queue));
	pthread_condattr_t attr;
	if (!queue)
		return NULL;
	queue->max_bytes = max_bytes;
	pthread_mutex_init(&queue->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&queue->room, &attr);
	pthread_cond_init(&queue->records, &attr);
	pthread_condattr_destroy(&attr);
	return queue;
}

void queue_free(struct queue *queue)
{
	if (!queue)
		return;
	buf_fini(&queue->fill);
	pthread_cond_destroy(&queue->room);
	pthread_cond_destroy(&queue->records);
	pthread_mutex_destroy(&queue->lock);
	free(queue);
}

/* 0 = woken, -EAGAIN = the time is over. */
static int wait_for(struct queue *queue, pthread_cond_t *what, int wait_ms, uint64_t deadline_ns)
{
	if (wait_ms == 0)
		return -EAGAIN;
	if (wait_ms < 0)
		return pthread_cond_wait(what, &queue->lock) ? -EAGAIN : 0;
	struct timespec until = clock_time(deadline_ns);
	return pthread_cond_timedwait(what, &queue->lock, &until) ? -EAGAIN : 0;
}

static uint64_t deadline(int wait_ms)
{
	return wait_ms > 0 ? clock_ns(CLOCK_MONOTONIC) + (uint64_t)wait_ms * 1000000u : 0;
}

static int append(struct queue *queue, const struct iovec *parts, size_t count, size_t len)
{
	struct buf *fill = &queue->fill;
	size_t before = fill->len;
	buf_put(fill, &len, sizeof(len));
	for (size_t i = 0; i < count; i++) {
		if (parts[i].iov_len)
			buf_put(fill, parts[i].iov_base, parts[i].iov_len);
	}
	if (buf_failed(fill)) {
		fill->len = before; /* a whole record or nothing */
		fill->failed = 0;
		return -ENOMEM;
	}
	if (!queue->count++)
		queue->since_ns = clock_ns(CLOCK_MONOTONIC);
	if (fill->len > queue->high_water)
		queue->high_water = fill->len;
	return 0;
}

int queue_put(struct queue *queue, const struct iovec *parts, size_t count, int wait_ms)
{
	size_t len = 0;
	for (size_t i = 0; i < count; i++) {
		if (__builtin_add_overflow(len, parts[i].iov_len, &len))
			return -ENOMEM;
	}
	uint64_t until = deadline(wait_ms);
	int rc = 0;
	pthread_mutex_lock(&queue->lock);
	while (rc == 0 && !queue->closed && queue->count &&
	       len + sizeof(len) > queue->max_bytes - (queue->fill.len < queue->max_bytes
							       ? queue->fill.len
							       : queue->max_bytes))
		rc = wait_for(queue, &queue->room, wait_ms, until);
	if (queue->closed)
		rc = -EPIPE;
	if (rc == 0)
		rc = append(queue, parts, count, len);
	if (rc == 0)
		pthread_cond_signal(&queue->records);
	pthread_mutex_unlock(&queue->lock);
	return rc;
}

long queue_take(struct queue *queue, struct buf *out, uint64_t *since_ns, int wait_ms)
{
	uint64_t until = deadline(wait_ms);
	long count;
	buf_clear(out);
	pthread_mutex_lock(&queue->lock);
	while (!queue->count && !queue->closed &&
	       wait_for(queue, &queue->records, wait_ms, until) == 0)
		;
	count = queue->count;
	if (count) {
		struct buf swap = *out;
		*out = queue->fill;
		queue->fill = swap;
		*since_ns = queue->since_ns;
		queue->count = 0;
		pthread_cond_broadcast(&queue->room);
	} else if (queue->closed) {
		count = -EPIPE;
	}
	pthread_mutex_unlock(&queue->lock);
	return count;
}

const void *queue_next(const struct buf *taken, size_t *at, size_t *len)
{
	if (*at >= taken->len)
		return NULL;
	memcpy(len, taken->data + *at, sizeof(*len));
	const void *record = taken->data + *at + sizeof(*len);
	*at += sizeof(*len) + *len;
	return record;
}

void queue_close(struct queue *queue)
{
	pthread_mutex_lock(&queue->lock);
	queue->closed = 1;
	pthread_cond_broadcast(&queue->room);
	pthread_cond_broadcast(&queue->records);
	pthread_mutex_unlock(&queue->lock);
}

void queue_fill(struct queue *queue, uint64_t *bytes, uint64_t *high_water)
{
	pthread_mutex_lock(&queue->lock);
	*bytes = queue->fill.len;
	*high_water = queue->high_water;
	pthread_mutex_unlock(&queue->lock);
}
