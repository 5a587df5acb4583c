/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_pairs.c - malloc+free pairs at a known stack depth, in three shapes; the program under `./dev bench pairs`.
 *
 *     bench_pairs SHAPE DEPTH [PAIRS [THREADS]]
 *
 * same     the frames stay where they are, pairs repeat in the innermost one
 * reenter  all DEPTH frames are left and entered again for every pair
 * paths    like reenter, along 1,000 different call paths in turn: at each level one of four functions calls on, chosen
 *          by the digits of the scrambled path number, so that neighbours in turn differ all over the stack. All four
 *          have frames of one size: every path meets malloc at the same address and the same stack pointer, which
 *          makes it as hard as it can be to tell them apart.
 *
 * DEPTH frames stand between main (or the thread's start) and the frame that calls malloc. Without PAIRS: as many as
 * take about 10 seconds, at least 10 million. Prints one JSON line: CPU time by CLOCK_THREAD_CPUTIME_ID (the slowest
 * thread's), and the same in cycles of the core, by a chain of dependent multiplications timed before and after.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone, noipa))
#define PATHS 1000

static double cpu_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* ns a core cycle: a multiplication takes three on every x86-64 core of the last 15 years. */
static NOINLINE double cycle_ns(void)
{
	double best = 1e9;
	for (int round = 0; round < 5; round++) {
		uint64_t x = 3;
		double begin = cpu_ns();
		for (int i = 0; i < 1000000; i++)
			__asm__ volatile("imul %0, %0" : "+r"(x));
		double ns = (cpu_ns() - begin) / 3e6;
		best = ns < best ? ns : best;
	}
	return best;
}

static NOINLINE void pair(void)
{
	void *block = malloc(48);
	__asm__ volatile("" : : "r"(block) : "memory");
	free(block);
	__asm__ volatile("" : : : "memory"); /* no tail call: the frame stays */
}

/* ---- same, reenter ---- */

static NOINLINE void descend(int depth, uint64_t pairs)
{
	if (depth == 0) {
		for (uint64_t i = 0; i < pairs; i++)
			pair();
	} else {
		descend(depth - 1, pairs);
	}
	__asm__ volatile("" : : : "memory");
}

/* ---- paths ---- */

typedef void (*level_fn)(int depth, uint32_t path);
static NOINLINE void level0(int depth, uint32_t path);
static NOINLINE void level1(int depth, uint32_t path);
static NOINLINE void level2(int depth, uint32_t path);
static NOINLINE void level3(int depth, uint32_t path);
static const level_fn levels[4] = { level0, level1, level2, level3 };

#define LEVEL(name)                                                           \
	static NOINLINE void name(int depth, uint32_t path)                   \
	{                                                                     \
		if (depth == 0)                                               \
			pair();                                               \
		else                                                          \
			levels[path >> 2 * (depth % 5) & 3](depth - 1, path); \
		__asm__ volatile("" : : : "memory");                          \
	}
LEVEL(level0)
LEVEL(level1)
LEVEL(level2)
LEVEL(level3)

struct job {
	const char *shape;
	int depth;
	uint64_t pairs;
	double ns;
};

static NOINLINE void work(const struct job *job, uint64_t pairs)
{
	if (!strcmp(job->shape, "same")) {
		descend(job->depth - 1, pairs);
	} else if (!strcmp(job->shape, "reenter")) {
		for (uint64_t i = 0; i < pairs; i++)
			descend(job->depth - 1, 1);
	} else {
		for (uint64_t i = 0; i < pairs; i++)
			level0(job->depth - 1, (uint32_t)(i % PATHS * 421 & 1023));
	}
	__asm__ volatile("" : : : "memory");
}

static void *run(void *arg)
{
	struct job *job = arg;
	work(job, 2 * PATHS); /* warm */
	double begin = cpu_ns();
	work(job, job->pairs);
	job->ns = cpu_ns() - begin;
	return NULL;
}

int main(int argc, char **argv)
{
	static struct job jobs[64];
	pthread_t threads[64];
	struct job job = { .shape = argc > 1 ? argv[1] : "",
			   .depth = argc > 2 ? atoi(argv[2]) : 0 };
	int count = argc > 4 ? atoi(argv[4]) : 1;

	if ((strcmp(job.shape, "same") && strcmp(job.shape, "reenter") &&
	     strcmp(job.shape, "paths")) ||
	    job.depth < 1 || job.depth > 100000 || count < 1 || count > 64) {
		fprintf(stderr, "usage: bench_pairs same|reenter|paths DEPTH [PAIRS [THREADS]]\n");
		return 2;
	}
	job.pairs = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
	if (!job.pairs) {
		job.pairs = 1000000;
		run(&job);
		job.pairs = (uint64_t)(10e9 / (job.ns / 1e6));
		if (job.pairs < 10000000)
			job.pairs = 10000000;
	}
	double cycle = cycle_ns(), slowest = 0;
	for (int i = 0; i < count; i++)
		jobs[i] = job;
	if (count == 1) {
		run(&jobs[0]);
	} else {
		for (int i = 0; i < count; i++)
			pthread_create(&threads[i], NULL, run, &jobs[i]);
		for (int i = 0; i < count; i++)
			pthread_join(threads[i], NULL);
	}
	for (int i = 0; i < count; i++)
		slowest = jobs[i].ns > slowest ? jobs[i].ns : slowest;
	cycle = (cycle + cycle_ns()) / 2;
	double each = slowest / (double)job.pairs;
	printf("{\"shape\":\"%s\",\"depth\":%d,\"threads\":%d,\"pairs\":%llu,\"ns_per_pair\":%.2f,"
	       "\"cycles_per_pair\":%.1f,\"ghz\":%.3f}\n",
	       job.shape, job.depth, count, (unsigned long long)job.pairs, each, each / cycle,
	       1 / cycle);
	return 0;
}
