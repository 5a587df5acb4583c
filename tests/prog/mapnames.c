/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mapnames.c - maps memory from functions of known names and names some of it, when told to by a line on stdin. Prints
 * "WHAT START BYTES" for each place, then "done". A kernel without VMA names refuses the names; this program goes on.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif
#define MIB (1024ul * 1024)
#define NOINLINE __attribute__((noinline))

/* no function of its own: who calls it is who asks */
#define MAP(where, bytes)                                                             \
	checked(mmap(where, bytes, PROT_READ | PROT_WRITE,                            \
		     MAP_PRIVATE | MAP_ANONYMOUS | ((where) ? MAP_FIXED : 0), -1, 0), \
		bytes)

static char *checked(char *at, size_t bytes)
{
	if (at == MAP_FAILED)
		exit(1);
	memset(at, 1, bytes);
	return at;
}

static void told(const char *what, const void *at, size_t bytes)
{
	printf("%s %lu %lu\n", what, (unsigned long)at, (unsigned long)bytes);
}

NOINLINE static char *keep_index(char *where)
{
	char *at = MAP(where, 3 * MIB);
	told("index", at, 3 * MIB);
	return at;
}

NOINLINE static char *keep_blocks(char *where)
{
	char *at = MAP(where, 2 * MIB);
	told("blocks", at, 2 * MIB);
	return at;
}

NOINLINE static char *grow(char *where)
{
	char *at = MAP(where, MIB);
	at = mremap(at, MIB, 5 * MIB, MREMAP_MAYMOVE);
	if (at == MAP_FAILED)
		exit(1);
	memset(at, 1, 5 * MIB);
	told("moved", at, 5 * MIB);
	return at;
}

static void name(char *at, size_t bytes, const char *text)
{
	prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, text);
}

int main(void)
{
	char line[16];
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 0;
	/* side by side, so that the kernel makes one mapping of both: the probe alone can tell them apart */
	char *room = mmap(NULL, 64 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *index = keep_index(room + MIB);
	keep_blocks(index + 3 * MIB);
	/* what was mapped first is gone, another function's takes its place */
	char *gone = keep_index(room + 16 * MIB);
	munmap(gone, 3 * MIB);
	keep_blocks(gone);
	grow(room + 32 * MIB);
	char *cache = MAP(room + 40 * MIB, 4 * MIB);
	for (int i = 0; i < 4; i++) {
		char text[32];
		snprintf(text, sizeof(text), "TNC-%d", i);
		name(cache + i * MIB, MIB, text);
	}
	told("cache", cache, 4 * MIB);
	char *go = MAP(room + 48 * MIB, MIB);
	name(go, MIB, " Go: heap");
	told("go", go, MIB);
	char *bad = MAP(room + 52 * MIB, MIB);
	name(bad, MIB, "not$allowed");
	told("bad", bad, MIB);
	char *again = MAP(room + 56 * MIB, MIB);
	name(again, MIB, "old name");
	again = keep_blocks(room +
			    56 * MIB); /* over it: the name is gone with what it was given to */
	mlockall(
		MCL_CURRENT); /* where it may: what is resident stays so, and can be compared with what was asked for */
	printf("done\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
