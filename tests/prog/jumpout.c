/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jumpout FOLDER - a plugin of FOLDER is loaded by a relative name, called, and unloaded, 20 times; a timer's handler jumps
 * out of the call. So many mappings stand before the plugin's that whoever looks its name up is mostly in the middle of that.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#define PAGES 30000L

static sigjmp_buf out;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

int main(int argc, char **argv)
{
	/* one that waits for ever must not outlive its test */
	const struct rlimit seconds = { 10, 10 };
	const struct itimerval soon = { .it_value = { 0, 1000 } }, never = { 0 };
	char *pages = mmap(NULL, PAGES * 4096, PROT_NONE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (argc != 2 || chdir(argv[1]) < 0 || pages == MAP_FAILED)
		return 1;
	setrlimit(RLIMIT_CPU, &seconds);
	for (long i = 0; i < PAGES; i += 2)
		if (mprotect(pages + i * 4096, 4096, PROT_READ) < 0)
			return 1;
	signal(SIGALRM, jump);
	for (volatile int i = 0; i < 20; i++) {
		void *library = dlopen("./libplugin_a.so", RTLD_NOW);
		void *(*take)(size_t) =
			library ? (void *(*)(size_t))dlsym(library, "plugin_take") : NULL;
		if (!take)
			return 1;
		if (sigsetjmp(out, 1) == 0) {
			setitimer(ITIMER_REAL, &soon, NULL);
			free(take(10));
		}
		setitimer(ITIMER_REAL, &never, NULL);
		if (dlclose(library) != 0)
			return 1;
	}
	puts("done");
	return 0;
}
