/* SPDX-License-Identifier: Apache-2.0 */
/*
 * turns.c - threads that need much memory one after the other, or all at once: what their arenas keep.
 *
 * usage: turns THREADS MIB turns|together
 * Each thread allocates MIB of 200-byte blocks and frees them but for one in 4096; then prints "ready RSS_BYTES" and waits for the end of
 * stdin, all threads alive.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t count;
static int in_turns;
static pthread_barrier_t working, done;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;

static void *serve(void *ctx)
{
	void **blocks = ctx;
	if (in_turns)
		pthread_mutex_lock(&turn);
	for (size_t i = 0; i < count; i++) {
		blocks[i] = malloc(200);
		memset(blocks[i], 1, 200);
	}
	if (!in_turns)
		pthread_barrier_wait(&working);
	for (size_t i = 0; i < count; i++)
		if (i % 4096)
			free(blocks[i]);
	if (in_turns)
		pthread_mutex_unlock(&turn);
	pthread_barrier_wait(&done);
	pthread_barrier_wait(&done);
	return NULL;
}

static unsigned long rss_bytes(void)
{
	unsigned long kib = 0;
	char line[256];
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "Rss: %lu", &kib);
	if (file)
		fclose(file);
	return kib << 10;
}

int main(int argc, char **argv)
{
	enum { MAX = 64 };
	unsigned threads = argc > 1 ? (unsigned)atoi(argv[1]) : 4;
	pthread_t id[MAX];
	count = (size_t)(argc > 2 ? atoi(argv[2]) : 8) * 1048576 / 208;
	in_turns = argc > 3 && strcmp(argv[3], "turns") == 0;
	threads = threads < MAX ? threads : MAX;
	pthread_barrier_init(&working, NULL, threads);
	pthread_barrier_init(&done, NULL, threads + 1);
	for (unsigned i = 0; i < threads; i++) {
		/* from main's arena: the threads' hold their blocks alone */
		void *blocks = calloc(count + 1, sizeof(void *));
		if (!blocks || pthread_create(&id[i], NULL, serve, blocks) != 0)
			return 1;
	}
	pthread_barrier_wait(&done);
	printf("ready %lu\n", rss_bytes());
	fflush(stdout);
	while (getchar() != EOF)
		;
	pthread_barrier_wait(&done);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(id[i], NULL);
	return 0;
}
