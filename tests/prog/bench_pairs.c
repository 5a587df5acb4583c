/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_pairs.c - malloc+free pairs at a known stack depth, in several shapes; the program under `./dev bench pairs`.
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
 * Frames of different sizes, so that stacks of many layouts end at one address and one stack pointer:
 *
 * outer    like paths, but the functions' frames differ in size, and the outermost levels are those that vary
 * inner    the same with the innermost levels
 * grammar  a recursive descent: each of 20,000 paths takes its own functions at all levels, and ends at its own depth
 * tree     insertion into a binary tree of 20,000 keys by recursion, below DEPTH / 3 frames, for 2,000 new keys in turn
 * interp   an interpreter walks a program of 256 statements; a function for each kind of node, a pair at each leaf
 *
 * SHAPE:N is N paths, keys or statements instead; SHAPE-random takes them in random order.
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

/* ---- outer, inner, grammar ---- */

/* What a path does: which of eight functions calls on at each level. */
struct way {
	uint8_t depth;
	uint8_t take[127];
};

typedef void (*sized_fn)(int left, const uint8_t *take);
static const sized_fn sized[8];

#define SIZED(name, bytes)                                       \
	static NOINLINE void name(int left, const uint8_t *take) \
	{                                                        \
		char room[bytes];                                \
		__asm__ volatile("" : : "r"(room) : "memory");   \
		if (left == 0)                                   \
			pair();                                  \
		else                                             \
			sized[*take](left - 1, take + 1);        \
		__asm__ volatile("" : : "r"(room) : "memory");   \
	}
SIZED(sized0, 16)
SIZED(sized1, 32)
SIZED(sized2, 48)
SIZED(sized3, 64)
SIZED(sized4, 80)
SIZED(sized5, 96)
SIZED(sized6, 112)
SIZED(sized7, 160)
static const sized_fn sized[8] = { sized0, sized1, sized2, sized3, sized4, sized5, sized6, sized7 };

static uint32_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 20);
}

#define VARYING 7 /* levels that differ between the paths of outer and inner: four functions each */

static void *must(void *block)
{
	if (!block)
		abort();
	return block;
}

static const struct way *make_ways(const char *shape, int depth, uint32_t count)
{
	struct way *ways = must(calloc(count, sizeof(*ways)));
	uint64_t state = 88172645463325252ULL;

	for (uint32_t i = 0; i < count; i++) {
		struct way *w = &ways[i];
		int from = 0, to = depth;
		w->depth = (uint8_t)depth;
		if (!strcmp(shape, "grammar"))
			w->depth =
				(uint8_t)(depth - (int)(draw(&state) % (uint32_t)(depth / 4 + 1)));
		else if (!strcmp(shape, "outer"))
			to = VARYING;
		else
			from = depth > VARYING ? depth - VARYING : 0;
		for (int k = from; k < to && k < depth; k++)
			w->take[k] = (uint8_t)(draw(&state) % (strcmp(shape, "grammar") ? 4 : 8));
	}
	return ways;
}

/* ---- tree ---- */

struct leaf {
	struct leaf *left, *right;
	uint32_t key;
};

static NOINLINE void insert(struct leaf **at, uint32_t key, int keep)
{
	if (!*at) {
		struct leaf *made = must(malloc(sizeof(*made)));
		*made = (struct leaf){ .key = key };
		*at = made;
		if (!keep) {
			*at = NULL;
			free(made);
		}
	} else if (key < (*at)->key) {
		insert(&(*at)->left, key, keep);
	} else {
		insert(&(*at)->right, key, keep);
	}
	__asm__ volatile("" : : : "memory");
}

static NOINLINE void below(int frames, struct leaf **top, uint32_t key)
{
	if (frames)
		below(frames - 1, top, key);
	else
		insert(top, key, 0);
	__asm__ volatile("" : : : "memory");
}

/* ---- interp ---- */

struct node {
	uint8_t kind, args;
	struct node *arg[3];
};

struct machine {
	/* pairs to make */
	uint64_t left;
	int64_t value;
};

#define KINDS 6
typedef void (*eval_fn)(struct machine *m, const struct node *n);
static const eval_fn eval_kind[KINDS];

static NOINLINE void eval(struct machine *m, const struct node *n)
{
	if (n->args) {
		eval_kind[n->kind](m, n);
	} else if (m->left) {
		m->left--;
		pair();
	}
	__asm__ volatile("" : : : "memory");
}

#define KIND(name, bytes)                                                  \
	static NOINLINE void name(struct machine *m, const struct node *n) \
	{                                                                  \
		char room[bytes];                                          \
		__asm__ volatile("" : : "r"(room) : "memory");             \
		for (int i = 0; i < n->args; i++) {                        \
			eval(m, n->arg[i]);                                \
			m->value += i;                                     \
		}                                                          \
		__asm__ volatile("" : : "r"(room) : "memory");             \
	}
KIND(eval_add, 16)
KIND(eval_call, 160)
KIND(eval_list, 96)
KIND(eval_if, 32)
KIND(eval_loop, 64)
KIND(eval_let, 48)
static const eval_fn eval_kind[KINDS] = { eval_add, eval_call, eval_list,
					  eval_if,  eval_loop, eval_let };

/* Of a random shape: rather deep than wide, as programs are. */
static struct node *make_node(uint64_t *state, int depth)
{
	struct node *n = must(calloc(1, sizeof(*n)));

	if (!depth)
		return n;
	n->kind = (uint8_t)(draw(state) % KINDS);
	n->args = (uint8_t)(1 + draw(state) % 3);
	uint32_t deep = draw(state) % n->args;
	for (uint32_t i = 0; i < n->args; i++)
		n->arg[i] = make_node(state, i == deep ? depth - 1 : depth / 4);
	return n;
}

static const char *const shapes[] = { "same",  "reenter", "paths", "outer",
				      "inner", "grammar", "tree",  "interp" };

struct job {
	const char *shape;
	int depth;
	int random;
	uint32_t count;
	uint64_t pairs;
	double ns;
	const struct way *ways;
	struct leaf *top;
	struct node **program;
};

/* What the shape needs before the clock runs; the same for every thread, but for a tree each, which changes. */
static void prepare(struct job *job)
{
	uint64_t state = 88172645463325252ULL;

	if (!strcmp(job->shape, "tree")) {
		for (int i = 0; i < 20000; i++)
			insert(&job->top, draw(&state), 1);
	} else if (!strcmp(job->shape, "interp")) {
		job->program = must(calloc(job->count, sizeof(struct node *)));
		for (uint32_t i = 0; i < job->count; i++)
			job->program[i] = make_node(&state, job->depth / 2);
	} else if (job->count) {
		job->ways = make_ways(job->shape, job->depth - 1, job->count);
	}
}

static NOINLINE void work_on_many(const struct job *job, uint64_t pairs)
{
	struct machine machine = { .left = pairs };
	struct leaf *top = job->top;
	uint64_t state = 362436069362436069ULL;

	for (uint64_t i = 0; i < pairs && machine.left; i++) {
		uint32_t k = (uint32_t)((job->random ? draw(&state) : i) % job->count);
		if (job->ways)
			sized0(job->ways[k].depth, job->ways[k].take);
		else if (job->program)
			eval(&machine, job->program[k]);
		else
			below(job->depth / 3, &top, (k + 1) * 2654435761u);
	}
	__asm__ volatile("" : : : "memory");
}

static NOINLINE void work(const struct job *job, uint64_t pairs)
{
	if (job->count) {
		work_on_many(job, pairs);
	} else if (!strcmp(job->shape, "same")) {
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
	work(job, 2ull * (job->count > PATHS ? job->count : PATHS)); /* warm */
	double begin = cpu_ns();
	work(job, job->pairs);
	job->ns = cpu_ns() - begin;
	return NULL;
}

/* SHAPE[:N][-random]; return 1 where it is none. */
static int take_shape(struct job *job, const char *name)
{
	size_t length = strcspn(name, ":-");
	const char *rest = name + length;

	for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
		if (strlen(shapes[i]) != length || strncmp(name, shapes[i], length))
			continue;
		job->shape = shapes[i];
		if (i < 3)
			return *rest != 0;
		job->count = i == 5 ? 20000 : i == 6 ? 2000 : i == 7 ? 256 : PATHS;
		if (*rest == ':')
			job->count = (uint32_t)strtoul(rest + 1, (char **)&rest, 10);
		job->random = !strcmp(rest, "-random");
		return !job->count || job->count > 1000000 || (*rest && !job->random);
	}
	return 1;
}

int main(int argc, char **argv)
{
	static struct job jobs[64];
	pthread_t threads[64];
	struct job job = { .depth = argc > 2 ? atoi(argv[2]) : 0 };
	int count = argc > 4 ? atoi(argv[4]) : 1;

	if (argc < 3 || take_shape(&job, argv[1]) || job.depth < 1 ||
	    job.depth > (job.count ? 127 : 100000) || count < 1 || count > 64) {
		fprintf(stderr,
			"usage: bench_pairs same|reenter|paths|outer|inner|grammar|tree|interp"
			"[:N][-random] DEPTH [PAIRS [THREADS]]\n");
		return 2;
	}
	prepare(&job);
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
