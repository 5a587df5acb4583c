/* SPDX-License-Identifier: Apache-2.0 */
/*
 * exchange HOW N [THREADS] - blocks that go back and forth between threads, N rounds each, with a count of its own.
 * swap: into shared places, whoever finds a block there frees it; resize: out of a shared place, grown or shrunk by whoever
 * took it, and back; pass: made by one thread, freed by the next; mix: one after the other.
 * Whose block stood at an address within one instant is nobody's to say; that all of them are gone is. So all are, then each
 * thread makes some that stay, a neighbour frees some of those and resizes others, and main makes the largest of all, at a
 * moment when nobody else moves. Before such a step whoever takes it waits for two milliseconds and writes more than a
 * kilobyte of records, so that a stamp lies between, with a recorder and without.
 * Prints a line per function: its name, allocations, bytes, blocks and bytes that live at the end; one per thread: its id,
 * allocations, bytes; and the frees.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS_MAX 16
#define PLACES 8
#define QUEUE 64
#define KEPT 30
#define TIMES 128 /* more than a kilobyte of records */

enum { GIVE, RESIZE, SETTLE, KEEP, HOLD, GROW, MARK, FUNCTIONS };
static const char *const names[] = { "give", "resize", "settle", "keep", "hold", "grow", "mark" };

struct sum {
	unsigned long allocations, bytes, live, live_bytes;
};
struct worker {
	/* of what it called itself; live: of what stays */
	struct sum sums[FUNCTIONS];
	unsigned long frees;
	int tid, number;
	unsigned seed, made, freed;
	void *own, *kept[KEPT];
	/* what this one made for the next */
	_Atomic(void *) queue[QUEUE];
};
static struct worker workers[THREADS_MAX + 1]; /* the last one is main */
static int thread_count = 4;
static long rounds;
static int swaps, resizes, passes;
static _Atomic(void *) places[PLACES];
static pthread_barrier_t all;

static unsigned next(struct worker *w)
{
	w->seed = w->seed * 1103515245 + 12345;
	return w->seed >> 8;
}

static void *took(struct worker *w, int function, void *block, size_t size)
{
	if (!block)
		abort();
	w->sums[function].allocations++;
	w->sums[function].bytes += size;
	return block;
}

/* The callers that the recording names: no clones of them; what comes behind the call keeps them in the stack. */
#ifdef __clang__
#define EXACTLY __attribute__((noinline))
#else
#define EXACTLY __attribute__((noipa))
#endif
#define MADE_BY(name, function)                                  \
	EXACTLY static void *name(struct worker *w, size_t size) \
	{                                                        \
		return took(w, function, malloc(size), size);    \
	}
MADE_BY(give, GIVE)
MADE_BY(keep, KEEP)
MADE_BY(hold, HOLD)
MADE_BY(mark, MARK)
#define RESIZED_BY(name, function)                                          \
	EXACTLY static void *name(struct worker *w, void *old, size_t size) \
	{                                                                   \
		w->frees += old != NULL;                                    \
		return took(w, function, realloc(old, size), size);         \
	}
RESIZED_BY(resize, RESIZE)
RESIZED_BY(grow, GROW)
RESIZED_BY(settle, SETTLE)

static void drop(struct worker *w, void *block)
{
	w->frees += block != NULL;
	free(block);
}

/* By a block that nobody else ever has the address of: it keeps its place. */
static void settled(struct worker *w)
{
	usleep(2000);
	for (int i = 0; i < TIMES; i++)
		w->own = settle(w, w->own, 40);
}

static void swap(struct worker *w)
{
	void *block = give(w, 16 + next(w) % 3 * 32 + next(w) % 8);
	drop(w, atomic_exchange(&places[next(w) % PLACES], block));
}

static void change(struct worker *w)
{
	unsigned at = next(w) % PLACES;
	void *block = resize(w, atomic_exchange(&places[at], NULL), 16 + next(w) % 400);
	drop(w, atomic_exchange(&places[at], block));
}

/* It makes one where its own queue has room, and frees the next one of its neighbour's. */
static void pass(struct worker *w)
{
	struct worker *before = &workers[(w->number + thread_count - 1) % thread_count];
	_Atomic(void *) *to = &w->queue[w->made % QUEUE];
	int made = !atomic_load(to);
	if (made) {
		atomic_store(to, give(w, 24 + next(w) % 40));
		w->made++;
	}
	void *block = atomic_exchange(&before->queue[w->freed % QUEUE], NULL);
	w->freed += block != NULL;
	drop(w, block);
	if (!made && !block)
		sched_yield();
}

static void *work(void *arg)
{
	struct worker *w = arg;
	struct worker *other = &workers[(w->number + 1) % thread_count];
	w->tid = gettid();
	w->own = settle(w, NULL, 40);
	w->sums[SETTLE].live++;
	w->sums[SETTLE].live_bytes += 40;
	pthread_barrier_wait(&all);
	for (long i = 0; i < rounds; i++) {
		if (swaps)
			swap(w);
		if (resizes)
			change(w);
		if (passes)
			pass(w);
	}
	pthread_barrier_wait(&all); /* main takes what was left */
	pthread_barrier_wait(&all);
	settled(w);
	for (int i = 0; i < KEPT; i++)
		w->kept[i] = w->number % 2 ? keep(w, 100 + (size_t)i) : hold(w, 100 + (size_t)i);
	pthread_barrier_wait(&all);
	settled(w);
	for (int i = 0; i < KEPT; i++) {
		struct sum *old = &w->sums[other->number % 2 ? KEEP : HOLD], *new = &w->sums[GROW];
		if (i % 3 == 0) {
			drop(w, other->kept[i]);
		} else if (i % 3 == 1) {
			grow(w, other->kept[i], 1000);
			new->live++;
			new->live_bytes += 1000;
		} else {
			old->live++;
			old->live_bytes += 100 + (size_t)i;
		}
	}
	pthread_barrier_wait(&all);
	return NULL;
}

static void print(void)
{
	struct sum sums[FUNCTIONS] = { 0 };
	unsigned long frees = 0;
	for (int t = 0; t <= thread_count; t++) {
		const struct worker *w = &workers[t < thread_count ? t : THREADS_MAX];
		unsigned long allocations = 0, bytes = 0;
		for (int f = 0; f < FUNCTIONS; f++) {
			sums[f].allocations += w->sums[f].allocations;
			sums[f].bytes += w->sums[f].bytes;
			sums[f].live += w->sums[f].live;
			sums[f].live_bytes += w->sums[f].live_bytes;
			allocations += w->sums[f].allocations;
			bytes += w->sums[f].bytes;
		}
		frees += w->frees;
		if (t < thread_count)
			printf("thread %d %lu %lu\n", w->tid, allocations, bytes);
	}
	for (int f = 0; f < FUNCTIONS; f++)
		printf("function %s %lu %lu %lu %lu\n", names[f], sums[f].allocations,
		       sums[f].bytes, sums[f].live, sums[f].live_bytes);
	printf("frees %lu\n", frees);
}

int main(int argc, char **argv)
{
	static char out[1 << 14];
	pthread_t thread[THREADS_MAX];
	const char *how = argc > 1 ? argv[1] : "mix";
	rounds = argc > 2 ? atol(argv[2]) : 1000;
	if (argc > 3)
		thread_count = atoi(argv[3]);
	swaps = !strcmp(how, "swap") || !strcmp(how, "mix");
	resizes = !strcmp(how, "resize") || !strcmp(how, "mix");
	passes = !strcmp(how, "pass") || !strcmp(how, "mix");
	if (!(swaps || resizes || passes) || thread_count < 2 || thread_count > THREADS_MAX)
		return 2;
	setvbuf(stdout, out, _IOFBF, sizeof(out)); /* and none of the C library's */
	pthread_barrier_init(&all, NULL, (unsigned)thread_count + 1);
	for (int t = 0; t < thread_count; t++) {
		workers[t].number = t;
		workers[t].seed = (unsigned)t * 7919 + 1;
		if (pthread_create(&thread[t], NULL, work, &workers[t]) != 0)
			return 1;
	}
	struct worker *own = &workers[THREADS_MAX];
	own->own = settle(own, NULL, 40);
	own->sums[SETTLE].live++;
	own->sums[SETTLE].live_bytes += 40;
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	settled(own);
	for (int i = 0; i < PLACES; i++)
		drop(own, atomic_exchange(&places[i], NULL));
	for (int t = 0; t < thread_count; t++)
		for (int i = 0; i < QUEUE; i++)
			drop(own, atomic_exchange(&workers[t].queue[i], NULL));
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	pthread_barrier_wait(&all);
	settled(own);
	drop(own, mark(own, 4 << 20));
	for (int t = 0; t < thread_count; t++)
		pthread_join(thread[t], NULL);
	print();
	return 0;
}
