/* SPDX-License-Identifier: Apache-2.0 */
/*
 * embedded.c - a program that keeps its own books (also a valid C++ program):
 *
 *	cc examples/embedded.c $(pkg-config --cflags --libs byteledger) -o embedded && ./embedded 127.0.0.1:6060 [TOKEN]
 *
 * It names the chunks of a cache, prints where its memory is, and answers http://127.0.0.1:6060/debug/memory until its
 * standard input ends. `byteledger regions -p PID` shows the same names from outside.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* mlock2(); C++ has it already */
#endif
#include <byteledger.h>

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK ((size_t)1 << 20)
#define CHUNKS 8

int main(int argc, char **argv)
{
	/* one mapping, cut into chunks: each is charged with its own resident pages all the same */
	char *cache = (char *)mmap(NULL, CHUNK * CHUNKS, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (cache == MAP_FAILED)
		return 1;
	madvise(cache, CHUNK * CHUNKS,
		MADV_NOHUGEPAGE); /* so that chunks that nobody wrote to stay empty */
	/* what was written to stays in memory, whatever else the machine wants; where that is refused it is as before */
	if (mlock2(cache, CHUNK * CHUNKS, MLOCK_ONFAULT) < 0)
		perror("cannot lock the cache in memory");
	for (int i = 0; i < CHUNKS; i++) {
		char name[32];
		snprintf(name, sizeof(name), "cache-%d", i);
		int rc = byteledger_name(cache + (size_t)i * CHUNK, CHUNK, name);
		if (rc < 0)
			fprintf(stderr, "cannot name a chunk: %s\n", strerror(-rc));
	}
	memset(cache, 1, CHUNK * (CHUNKS - 2)); /* the last two stay empty */

	int rc = byteledger_breakdown(STDOUT_FILENO, 5);
	if (rc < 0)
		fprintf(stderr, "cannot look at my own memory: %s\n", strerror(-rc));
	if (argc > 1 && (rc = argc > 2 ? byteledger_serve_token(argv[1], argv[2])
				       : byteledger_serve(argv[1])) < 0) {
		fprintf(stderr, "cannot serve on %s: %s\n", argv[1], strerror(-rc));
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}
