/* SPDX-License-Identifier: Apache-2.0 */
/*
 * held fork|jump PLUGIN - a thread loads PLUGIN with RTLD_DEEPBIND and is stopped, by a tracer, where memory is first made
 * writable for that. Meanwhile a child is forked, which loads PLUGIN likewise; or a signal comes whose handler jumps out,
 * and PLUGIN is loaded likewise once more.
 *
 * held start - a thread switches the recording on, allocates 77 bytes, and is stopped in the middle of the start that this
 * brings. Meanwhile a child is forked that ends at once, and one that allocates 78 bytes. The end is a SIGKILL.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *plugin;
static int begin[2], held[2], go_on[2];
static pid_t loader;
static sigjmp_buf out;
static enum { LOADS, STARTS } does;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(out, 1);
}

static int load(void)
{
	return dlopen(plugin, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND) != NULL;
}

static void *load_held(void *arg)
{
	char byte;
	(void)arg;
	loader = gettid();
	if (write(held[1], "", 1) != 1 || read(begin[0], &byte, 1) != 1)
		return NULL;
	if (does == STARTS) {
		int (*start)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "byteledger_heap_start");
		if (start && start() == 0)
			free(malloc(77));
	} else if (sigsetjmp(out, 1) == 0) {
		load();
	}
	return NULL;
}

static int is_the_place(const struct user_regs_struct *regs)
{
	if (does == STARTS)
		return regs->orig_rax == SYS_madvise && regs->rdx == MADV_WIPEONFORK;
	return regs->orig_rax == SYS_mprotect && regs->rdx & PROT_WRITE;
}

/* In a process of its own. */
static int trace(pid_t process, int with_signal)
{
	struct user_regs_struct regs;
	char byte;
	int status;
	if (ptrace(PTRACE_SEIZE, loader, NULL, NULL) < 0 ||
	    ptrace(PTRACE_INTERRUPT, loader, NULL, NULL) < 0 ||
	    waitpid(loader, &status, __WALL) < 0 || write(begin[1], "", 1) != 1)
		return 1;
	do {
		if (ptrace(PTRACE_SYSCALL, loader, NULL, NULL) < 0 ||
		    waitpid(loader, &status, __WALL) < 0 || !WIFSTOPPED(status) ||
		    ptrace(PTRACE_GETREGS, loader, NULL, &regs) < 0)
			return 1;
	} while (!is_the_place(&regs));
	if (with_signal)
		syscall(SYS_tgkill, process, loader, SIGUSR1);
	else if (write(held[1], "", 1) != 1 || read(go_on[0], &byte, 1) != 1)
		return 1;
	return ptrace(PTRACE_DETACH, loader, NULL, NULL) < 0;
}

int main(int argc, char **argv)
{
	/* one that waits for ever must not outlive its test */
	const struct rlimit seconds = { 5, 5 };
	pthread_t thread;
	char byte;
	int status = 0, jumps;
	if (argc < 2 || pipe(begin) < 0 || pipe(held) < 0 || pipe(go_on) < 0)
		return 1;
	jumps = strcmp(argv[1], "jump") == 0;
	does = strcmp(argv[1], "start") == 0 ? STARTS : LOADS;
	plugin = argv[2];
	setrlimit(RLIMIT_CPU, &seconds);
	signal(SIGUSR1, jump);
	if (pthread_create(&thread, NULL, load_held, NULL) != 0 || read(held[0], &byte, 1) != 1)
		return 1;
	pid_t process = getpid(), tracer = fork();
	if (tracer == 0)
		_exit(trace(process, jumps));
	prctl(PR_SET_PTRACER, tracer);
	if (!jumps) {
		if (read(held[0], &byte, 1) != 1)
			return 1;
		pid_t first = does == STARTS ? fork() : -1;
		if (first == 0)
			_exit(0);
		if (first > 0 && (waitpid(first, &status, 0) < 0 || status != 0))
			return 1;
		pid_t child = fork();
		if (child == 0)
			_exit(does == STARTS ? !malloc(78) : !load());
		if (waitpid(child, &status, 0) < 0 || write(go_on[1], "", 1) != 1)
			return 1;
		if (does == LOADS)
			printf("child: %d\n", status);
		else
			printf("%d\n", (int)child);
	}
	pthread_join(thread, NULL);
	if (waitpid(tracer, &status, 0) < 0 || status != 0)
		return 1;
	if (does == STARTS)
		return fflush(stdout) == 0 && raise(SIGKILL);
	if (!load())
		return 1;
	puts("done");
	return 0;
}
