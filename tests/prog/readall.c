/* SPDX-License-Identifier: Apache-2.0 */
/*
 * readall [ARGS...] - prints arguments and environment by every way that there is to read them, and whether the auxiliary
 * vector stands behind the NULL that ends the environment, as the kernel gave it.
 */
#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

extern char **environ;
extern void *__libc_stack_end;
static char **of_constructor;

__attribute__((constructor)) static void constructed(int argc, char **argv, char **envp)
{
	(void)argc;
	(void)argv;
	of_constructor = envp;
}

static void print_list(const char *name, char **list)
{
	for (; *list; list++)
		printf("%s %s\n", name, *list);
}

static void print_file(const char *path)
{
	static char text[1 << 20];
	int fd = open(path, O_RDONLY);
	ssize_t n, len = 0;
	while ((n = read(fd, text + len, sizeof(text) - 1 - (size_t)len)) > 0)
		len += n;
	close(fd);
	for (char *at = text; at < text + len; at += strlen(at) + 1)
		printf("%s %s\n", path, at);
}

static void compare_auxv(const char *name, char **env)
{
	static Elf64_auxv_t told[64];
	int fd = open("/proc/self/auxv", O_RDONLY);
	ssize_t n = read(fd, told, sizeof(told));
	close(fd);
	while (*env)
		env++;
	const Elf64_auxv_t *here = (const Elf64_auxv_t *)(env + 1);
	for (const Elf64_auxv_t *a = told;
	     a < told + n / (ssize_t)sizeof(*a) && a->a_type != AT_NULL; a++) {
		const Elf64_auxv_t *b = here;
		while (b->a_type != AT_NULL && b->a_type != a->a_type)
			b++;
		if (b->a_type != a->a_type || b->a_un.a_val != a->a_un.a_val)
			printf("%s: entry %lu is missing\n", name, (unsigned long)a->a_type);
		/* the loader has its own idea of AT_HWCAP */
		if (a->a_type != AT_HWCAP && getauxval(a->a_type) != a->a_un.a_val)
			printf("getauxval(%lu) differs\n", (unsigned long)a->a_type);
	}
	printf("%s: %d\n", name, n > 0);
}

int main(int argc, char **argv, char **envp)
{
	char **stack = (char **)__libc_stack_end;
	print_list("argv", argv);
	print_list("stack argv", stack + 1);
	printf("%d %ld\n", argc, *(long *)stack);
	print_list("environ", environ);
	print_list("envp", envp);
	print_list("behind argv", argv + argc + 1);
	print_list("constructor", of_constructor);
	print_file("/proc/self/cmdline");
	print_file("/proc/self/environ");
	compare_auxv("environ", environ);
	compare_auxv("envp", envp);
	compare_auxv("stack", stack + 1 + argc + 1);
	return 0;
}
