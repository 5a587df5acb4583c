/* SPDX-License-Identifier: Apache-2.0 */
/*
 * junk - code without unwind entries, whose rbp is no frame pointer, allocates 77 bytes: above the place that rbp names stands
 * what is no return address: a number, a place in a segment that is not executed, one where nothing is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const char text[] = "not code";

int main(void)
{
	static const unsigned char code[] = {
		0x55,                   /* push %rbp */
		0x48, 0x89, 0xfd,       /* mov %rdi, %rbp */
		0xbf, 77,   0,    0, 0, /* mov $77, %edi */
		0xff, 0xd6,             /* call *%rsi */
		0x5d,                   /* pop %rbp */
		0xc3,                   /* ret */
	};
	char *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return 1;
	memcpy(at, code, sizeof(code));
	if (mprotect(at, 4096, PROT_READ | PROT_EXEC) < 0 || munmap(at + 4096, 4096) < 0)
		return 1;
	void *(*call)(const void **, void *(*)(size_t)) =
		(void *(*)(const void **, void *(*)(size_t)))at;
	const void *junk[] = { (const void *)5, text + 1, at + 4100 };
	for (int i = 0; i < 30; i++) {
		const void *above[] = { above, junk[i % 3] };
		free(call(above, malloc));
	}
	puts("done");
	return 0;
}
