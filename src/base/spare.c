/* SPDX-License-Identifier: Apache-2.0 */
#include "base/spare.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/huge.h"

/** struct spare - stands before each array. */
struct spare {
	/* of those that are kept, given back last first */
	struct spare *next;
	/* behind it */
	size_t bytes;
	/* the array begins with a cache line */
	char pad[48];
};
_Static_assert(sizeof(struct spare) == 64, "struct spare");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct spare *first;
static size_t kept;

/** take() - one that is as large as that, and not much larger; NULL. */
static struct spare *take(size_t bytes)
{
	struct spare **best = NULL, *s = NULL;
	pthread_mutex_lock(&lock);
	for (struct spare **at = &first; *at; at = &(*at)->next)
		if ((*at)->bytes >= bytes && (*at)->bytes / 2 <= bytes &&
		    (!best || (*at)->bytes < (*best)->bytes))
			best = at;
	if (best) {
		s = *best;
		*best = s->next;
		kept -= s->bytes;
	}
	pthread_mutex_unlock(&lock);
	return s;
}

void *spare_calloc(size_t count, size_t size)
{
	size_t bytes;
	if (__builtin_mul_overflow(count, size, &bytes) || bytes > SIZE_MAX - sizeof(struct spare))
		return NULL;
	struct spare *s = bytes >= SPARE_FROM ? take(bytes) : NULL;
	if (s) {
		memset(s + 1, 0, bytes);
		return s + 1;
	}
	s = calloc(1, sizeof(*s) + bytes);
	if (!s)
		return NULL;
	s->bytes = bytes;
	return s + 1;
}

/**
 * drop() - those that were given back longest ago, until no more than @most is kept. Return: a list
 * of them. Under the lock.
 */
static struct spare *drop(size_t most)
{
	struct spare **at = &first;
	for (size_t bytes = 0; *at && (bytes += (*at)->bytes) <= most;)
		at = &(*at)->next;
	struct spare *gone = *at;
	*at = NULL;
	for (const struct spare *s = gone; s; s = s->next)
		kept -= s->bytes;
	return gone;
}

static void free_all(struct spare *gone)
{
	for (struct spare *next; gone; gone = next) {
		next = gone->next;
		free(gone);
	}
}

void spare_free(void *at)
{
	struct spare *s = at ? (struct spare *)at - 1 : NULL;
	if (!s)
		return;
#ifdef HUGE_WATCHED
	const int keeps = 0;
#else
	const int keeps = s->bytes >= SPARE_FROM && s->bytes <= SPARE_MAX / 2;
#endif
	if (!keeps) {
		free(s);
		return;
	}
	pthread_mutex_lock(&lock);
	s->next = first;
	first = s;
	kept += s->bytes;
	struct spare *gone = drop(SPARE_MAX);
	pthread_mutex_unlock(&lock);
	free_all(gone);
}

void spare_give_back(void)
{
	pthread_mutex_lock(&lock);
	struct spare *gone = drop(0);
	pthread_mutex_unlock(&lock);
	free_all(gone);
}

size_t spare_kept(void)
{
	pthread_mutex_lock(&lock);
	size_t bytes = kept;
	pthread_mutex_unlock(&lock);
	return bytes;
}
