/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nop5.c - a function of nothing but a nop of five bytes, as compilers leave for tracers. usage: nop5 CHILDREN. After a line on
 * stdin it calls it, then in forked children; prints how many of these ended well.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

void *only_nop5(unsigned long bytes);
__asm__(".text\n.p2align 4\n.globl only_nop5\n.type only_nop5,@function\n"
	"only_nop5: .byte 0x0f, 0x1f, 0x44, 0x00, 0x00\n ret\n.size only_nop5, .-only_nop5\n"
	".section .note.GNU-stack,\"\",@progbits\n.text\n");

int main(int argc, char **argv)
{
	char line[64];
	int good = 0;
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	for (int i = 0; i < 1000; i++)
		only_nop5(64);
	for (int i = 0; argc > 1 && i < atoi(argv[1]); i++) {
		int status = 1;
		pid_t child = fork();
		if (child == 0) {
			only_nop5(64);
			_exit(0);
		}
		waitpid(child, &status, 0);
		good += status == 0;
	}
	printf("%d\n", good);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
