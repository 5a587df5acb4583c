/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usdt.c - a program that samples its own allocations and tells of them by static probes, as the otel_memory contract has it: one in
 * ten, which stands for ten, while somebody looks (a semaphore); every second sampled one is freed. The notes are written by hand:
 * no header of SystemTap is needed. usage: usdt BLOCKS
 *
 * Begins when a line comes on stdin. Prints how many samples it told, for how many bytes they stand, and the live ones' bytes.
 */
#include <stdio.h>
#include <stdlib.h>

#define APART __attribute__((noinline, noclone))
#define ONE_IN 10

__attribute__((section(".probes"))) volatile unsigned short otel_memory_alloc_semaphore,
	otel_memory_free_semaphore;

#define NOTE(name, args)                                                                     \
	"990: nop\n"                                                                         \
	".pushsection .note.stapsdt,\"\",\"note\"\n"                                         \
	".balign 4\n.4byte 992f-991f, 994f-993f, 3\n"                                        \
	"991: .asciz \"stapsdt\"\n992: .balign 4\n"                                          \
	"993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte otel_memory_" name "_semaphore\n"   \
	".asciz \"otel_memory\"\n.asciz \"" name "\"\n.asciz \"" args "\"\n994: .balign 4\n" \
	".popsection\n"                                                                      \
	".ifndef _.stapsdt.base\n"                                                           \
	".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"              \
	".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n"           \
	".size _.stapsdt.base, 1\n.popsection\n.endif\n"

static unsigned long told, told_bytes, live;

/* One argument in a register, one in memory, one in a register of four bytes. */
APART void tell_alloc(void *block, volatile unsigned long bytes, unsigned stands_for)
{
	__asm__ volatile(NOTE("alloc", "8@%0 8@%1 4@%k2")
			 :
			 : "r"(block), "m"(bytes), "r"(stands_for));
}

APART void tell_free(void *block)
{
	__asm__ volatile(NOTE("free", "8@%0") : : "r"(block));
}

APART void by_sampled(unsigned long i)
{
	unsigned long bytes = i % 5000 + 1;
	void *block = malloc(bytes);
	if (i % ONE_IN == 0 && otel_memory_alloc_semaphore) {
		tell_alloc(block, bytes, (unsigned)bytes * ONE_IN);
		told++;
		told_bytes += bytes * ONE_IN;
		if (i / ONE_IN % 2) {
			live += bytes * ONE_IN;
			return;
		}
		if (otel_memory_free_semaphore)
			tell_free(block);
	}
	free(block);
}

int main(int argc, char **argv)
{
	char line[64];
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (long i = 0; i < (argc > 1 ? atol(argv[1]) : 1000); i++)
		by_sampled((unsigned long)i);
	printf("%lu %lu %lu\n", told, told_bytes, live);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
