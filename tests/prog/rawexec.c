/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rawexec HOW PROGRAM [ARGS...] - become another program past the C library's exec functions, by syscall() or by the
 * instruction itself, once the recorder has looked at this one ("instruction": when descriptor 8 ends).
 */
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

extern char **environ;

int main(int argc, char **argv)
{
	char byte;
	if (argc < 3 || !malloc(100))
		return 2;
	if (strcmp(argv[1], "syscall") == 0) {
		syscall(SYS_execve, "/nonexistent", argv + 2, environ);
		syscall(SYS_execve, argv[2], argv + 2, environ);
		return 126;
	}
	while (read(8, &byte, 1) > 0)
		;
	long rc;
	__asm__ volatile("syscall"
			 : "=a"(rc)
			 : "a"(SYS_execve), "D"(argv[2]), "S"(argv + 2), "d"(environ)
			 : "rcx", "r11", "memory");
	return 126;
}
