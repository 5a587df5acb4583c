/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wild SEED - signals with any rsp, rbp and rbx, in code with unwind entries and without; their handler, on a stack of its own,
 * allocates. Where a walk reads what is not there the program ends; else it prints "alive".
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define ALT_BYTES 65536
#define PLACES 2000

static __thread sigjmp_buf out;
static __thread uint64_t seed, alt;
static uint64_t place[PLACES]; /* where mappings begin and end */
static unsigned places;

static void handler(int sig)
{
	(void)sig;
	free(malloc(55));
	siglongjmp(out, 1);
}

static uint64_t number(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static uint64_t any(void)
{
	uint64_t here = (uint64_t)__builtin_frame_address(0);

	switch (number() % 8) {
	case 0:
		return here + number() % (1 << 20) - (1 << 19);
	case 1:
		return here - number() % (9 << 20);
	case 2:
		return number() % 8192;
	case 3:
		return number();
	case 4:
		return place[number() % places] + number() % 8192 - 4096;
	case 5:
		return place[number() % places] + number() % 65536;
	case 6:
		return (uint64_t)pthread_self() + number() % 16384 - 8192;
	default:
		return here + number() % 4096;
	}
}

/* The kernel ends who seems to be at the end of the alternate stack already. */
static uint64_t stack_pointer(void)
{
	uint64_t sp;

	do
		sp = any();
	while (sp - alt + 8192 < ALT_BYTES + 16384);
	return number() % 4 ? sp & ~7ull : sp;
}

/* Sets the three registers; what unwinds believes that it saved rbp. */
void go_wild(uint64_t sp, uint64_t bp, uint64_t bx);
__asm__(".text\n"
	".type go_wild, @function\n"
	"go_wild:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa %rbp, 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	.cfi_offset %rbx, -24\n"
	"	mov %rdx, %rbx\n"
	"	mov %rsi, %rbp\n"
	"	mov %rdi, %rsp\n"
	"	ud2\n"
	"	.cfi_endproc\n"
	".size go_wild, .-go_wild\n"
	".type go_wild_by_sp, @function\n"
	"go_wild_by_sp:\n"
	"	.cfi_startproc\n"
	"	.cfi_def_cfa_offset 48\n"
	"	.cfi_offset %rbp, -16\n"
	"	mov %rdx, %rbx\n"
	"	mov %rsi, %rbp\n"
	"	mov %rdi, %rsp\n"
	"	ud2\n"
	"	.cfi_endproc\n"
	".size go_wild_by_sp, .-go_wild_by_sp\n");
void go_wild_by_sp(uint64_t sp, uint64_t bp, uint64_t bx);
static void (*without_entries)(uint64_t sp, uint64_t bp, uint64_t bx);

static void *tries(void *arg)
{
	stack_t stack = { .ss_size = ALT_BYTES };

	stack.ss_sp =
		mmap(NULL, ALT_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (stack.ss_sp == MAP_FAILED || sigaltstack(&stack, NULL) < 0)
		exit(1);
	alt = (uint64_t)stack.ss_sp;
	seed = ((uint64_t)(uintptr_t)arg + 1) * 0x9e3779b97f4a7c15ull;
	for (volatile int i = 0; i < 10000; i++) {
		if (sigsetjmp(out, 1))
			continue;
		uint64_t sp = stack_pointer(), bp = any(), bx = any();
		switch (number() % 3) {
		case 0:
			go_wild(sp, bp, bx);
			break;
		case 1:
			go_wild_by_sp(sp, bp, bx);
			break;
		default:
			without_entries(sp, bp & ~7ull, bx);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	/* mov %rsi, %rbp; mov %rdi, %rsp; ud2 */
	static const unsigned char code[] = { 0x48, 0x89, 0xf5, 0x48, 0x89, 0xfc, 0x0f, 0x0b };
	struct sigaction act = { .sa_handler = handler, .sa_flags = SA_ONSTACK };
	char line[4096], *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
				    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	FILE *maps = fopen("/proc/self/maps", "r");
	pthread_t thread;

	if (argc != 2 || !maps || at == MAP_FAILED || sigaction(SIGILL, &act, NULL) < 0)
		return 1;
	for (; places + 2 <= PLACES && fgets(line, sizeof(line), maps); places += 2)
		if (sscanf(line, "%lx-%lx", &place[places], &place[places + 1]) != 2)
			return 1;
	fclose(maps);
	memcpy(at, code, sizeof(code));
	memcpy(&without_entries, &at, sizeof(at));
	uintptr_t begin = strtoul(argv[1], NULL, 10);
	tries((void *)begin);
	if (pthread_create(&thread, NULL, tries, (void *)(begin + 1)) || pthread_join(thread, NULL))
		return 1;
	puts("alive");
	return 0;
}
