/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/call.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

#include "base/clock.h"

#ifdef __x86_64__
#define FLOATS_MAX 65536 /* all that XSAVE keeps; 11 KiB with tiles */
#define FLAGS 0x202      /* interrupts, and the bit that is always set */
#define STOP_NS 10000000000u
#define SYSTEM_NS 5000000000u
#define LOOK_FIRST_NS 20000
#define LOOK_LAST_NS 1000000
#define STEP_NS 50000000u

struct call {
	pid_t tid;
	uint64_t instruction;
	/* as it stood */
	struct user_regs_struct regs;
	uint64_t blocked;
	size_t floats_bytes;
	_Alignas(64) char floats[FLOATS_MAX];
};

/*
 * The next stop of @tid. Return: 0 and *@status, -ESRCH it has ended, -ETIMEDOUT. Polled: our
 * children's signals are somebody else's affair.
 */
static int next_stop(pid_t tid, uint64_t limit_ns, int *status)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + limit_ns;
	long pause = LOOK_FIRST_NS;
	for (unsigned n = 0;; n++) {
		pid_t got = waitpid(tid, status, __WALL | WNOHANG);
		if (got == tid)
			return WIFSTOPPED(*status) ? 0 : -ESRCH;
		if (got < 0 && errno != EINTR)
			return -ESRCH;
		if (n < 64) /* it is at it on the other processor, most likely */
			continue;
		if (clock_ns(CLOCK_MONOTONIC) > until)
			return -ETIMEDOUT;
		const struct timespec ts = { .tv_nsec = pause };
		nanosleep(&ts, NULL);
		pause = pause < LOOK_LAST_NS ? 2 * pause : pause;
	}
}

static int failed(const struct call *call, struct err *err)
{
	int code = errno ? -errno : -EIO;
	return err_set(err, code, "cannot lead thread %d aside", (int)call->tid);
}

static int ended(const struct call *call, struct err *err)
{
	return err_set(err, -ESRCH, "thread %d has ended meanwhile", (int)call->tid);
}

struct call *call_begin(pid_t tid, uint64_t instruction, struct err *err)
{
	struct call *call = aligned_alloc(64, (sizeof(*call) + 63) & ~63ul);
	if (!call) {
		err_set(err, -ENOMEM, "cannot lead thread %d aside", (int)tid);
		return NULL;
	}
	memset(call, 0, sizeof(*call));
	call->tid = tid;
	call->instruction = instruction;
	struct iovec floats = { call->floats, sizeof(call->floats) };
	/* what a crash of ours raises stays: blocked, the kernel would take its handler away */
	uint64_t all = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGILL - 1) |
			 1ull << (SIGFPE - 1) | 1ull << (SIGTRAP - 1));
	if (ptrace(PTRACE_GETREGS, tid, NULL, &call->regs) < 0 ||
	    ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &floats) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(call->blocked), &call->blocked) < 0 ||
	    ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0 ||
	    ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(all), &all) < 0) {
		failed(call, err);
		free(call);
		return NULL;
	}
	call->floats_bytes = floats.iov_len;
	return call;
}

/*
 * Up to the next stop at a system call. -EFAULT: a signal that nobody can block; it is not
 * delivered, its cause is ours.
 */
static int to_system_call(struct call *call, uint64_t until, struct user_regs_struct *regs)
{
	for (;;) {
		int status;
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (ptrace(PTRACE_SYSCALL, call->tid, NULL, NULL) < 0)
			return -errno;
		int rc = next_stop(call->tid, until > now ? until - now : 1, &status);
		if (rc < 0)
			return rc;
		if (status >> 16) /* of the whole group, which has to wait */
			continue;
		if (WSTOPSIG(status) != (SIGTRAP | 0x80))
			return -EFAULT;
		return ptrace(PTRACE_GETREGS, call->tid, NULL, regs) < 0 ? -errno : 0;
	}
}

int call_system(struct call *call, long nr, const uint64_t arg[6], int64_t *result, struct err *err)
{
	struct user_regs_struct regs = call->regs;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + SYSTEM_NS;
	regs.rip = call->instruction;
	regs.rax = (unsigned long)nr;
	regs.orig_rax = -1ul;
	regs.rdi = arg[0];
	regs.rsi = arg[1];
	regs.rdx = arg[2];
	regs.r10 = arg[3];
	regs.r8 = arg[4];
	regs.r9 = arg[5];
	regs.eflags = FLAGS;
	if (ptrace(PTRACE_SETREGS, call->tid, NULL, &regs) < 0)
		return failed(call, err);
	for (int i = 0; i < 2; i++) {
		int rc = to_system_call(call, until, &regs);
		if (rc == -ESRCH)
			return ended(call, err);
		if (rc < 0)
			return err_set(err, rc, "cannot lead thread %d aside", (int)call->tid);
	}
	*result = (int64_t)regs.rax;
	return 0;
}

int call_function(struct call *call, uint64_t function, uint64_t stack, const uint64_t arg[3],
		  uint64_t limit_ns, uint64_t *result, struct err *err)
{
	struct user_regs_struct regs = call->regs;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + limit_ns;
	stack = (stack & ~63ull) - 8;
	regs.rip = function;
	regs.rsp = stack;
	regs.rbp = 0;
	regs.rax = 0;
	regs.orig_rax = -1ul;
	regs.rdi = arg[0];
	regs.rsi = arg[1];
	regs.rdx = arg[2];
	regs.eflags = FLAGS;
	if (ptrace(PTRACE_POKEDATA, call->tid, (void *)stack, (void *)call->instruction) < 0 ||
	    ptrace(PTRACE_SETREGS, call->tid, NULL, &regs) < 0)
		return failed(call, err);
	for (;;) {
		int rc = to_system_call(call, until, &regs);
		if (rc == -ESRCH)
			return ended(call, err);
		if (rc == -ETIMEDOUT)
			return err_set(err, rc, "thread %d does not come back in time",
				       (int)call->tid);
		if (rc == -EFAULT)
			return err_set(err, rc, "thread %d met a fault on its way", (int)call->tid);
		if (rc < 0)
			return err_set(err, rc, "cannot lead thread %d aside", (int)call->tid);
		/* what it returned is the number of the system call that it is about to make */
		if (regs.rsp == stack + 8 && regs.rip == call->instruction + 2)
			break;
	}
	*result = regs.orig_rax;
	regs.orig_rax = -1ul; /* which is none */
	if (ptrace(PTRACE_SETREGS, call->tid, NULL, &regs) < 0)
		return failed(call, err);
	int rc = to_system_call(call, until + SYSTEM_NS, &regs);
	return rc == -ESRCH ? ended(call, err) : rc < 0 ? failed(call, err) : 0;
}

int call_end(struct call *call)
{
	struct iovec floats = { call->floats, call->floats_bytes };
	pid_t tid = call->tid;
	int status, rc = 0;
	/*
	 * The kernel makes a system call that was interrupted anew on the way out of a stop like
	 * the first one, and not on the way out of one at a system call.
	 */
	ptrace(PTRACE_INTERRUPT, tid, NULL, NULL);
	do {
		ptrace(PTRACE_CONT, tid, NULL, NULL); /* it may be running still */
		rc = next_stop(tid, STOP_NS, &status);
	} while (rc == 0 && status >> 16 != PTRACE_EVENT_STOP);
	if (rc == 0 &&
	    (ptrace(PTRACE_SETREGS, tid, NULL, &call->regs) < 0 ||
	     ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &floats) < 0 ||
	     ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(call->blocked), &call->blocked) < 0))
		rc = -errno;
	free(call);
	return rc;
}

/* Whether the trap of a step waits to be delivered. */
static int has_trap(pid_t tid)
{
	siginfo_t infos[32];
	struct __ptrace_peeksiginfo_args args = { .nr = 32 };
	long count = ptrace(PTRACE_PEEKSIGINFO, tid, &args, infos);
	for (long i = 0; i < count; i++)
		if (infos[i].si_signo == SIGTRAP && infos[i].si_code > 0)
			return 1;
	return 0;
}

/*
 * A step takes its time: the thread waits in the kernel, or for a processor. It is stopped, and the
 * trap of the step, which would end the program, is not left behind.
 */
static int stop_stepping(pid_t tid, int *signal)
{
	int status;
	if (ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0)
		return -errno;
	for (;;) {
		int rc = next_stop(tid, STOP_NS, &status);
		if (rc < 0)
			return rc;
		if (!(status >> 16) && WSTOPSIG(status) != SIGTRAP) {
			*signal = WSTOPSIG(status);
			return 0;
		}
		if (!(status >> 16) || !has_trap(tid))
			return 0;
		if (ptrace(PTRACE_CONT, tid, NULL, NULL) < 0)
			return -errno;
	}
}

int call_leave(pid_t tid, int (*done)(void *ctx, pid_t tid), void *ctx, unsigned steps, int *signal)
{
	for (unsigned i = 0; i < steps; i++) {
		int status;
		if (ptrace(PTRACE_SINGLESTEP, tid, NULL, NULL) < 0)
			return -errno;
		int rc = next_stop(tid, STEP_NS, &status);
		if (rc == -ETIMEDOUT)
			return stop_stepping(tid, signal);
		if (rc < 0)
			return rc;
		if (status >> 16)
			return 0;
		if (WSTOPSIG(status) != SIGTRAP) {
			*signal = WSTOPSIG(status);
			return 0;
		}
		if (done(ctx, tid))
			return 1;
	}
	return 0;
}
#else
struct call *call_begin(pid_t tid, uint64_t instruction, struct err *err)
{
	(void)tid;
	(void)instruction;
	err_set(err, -ENOTSUP, "cannot come into a program on this machine");
	return NULL;
}

int call_system(struct call *call, long nr, const uint64_t arg[6], int64_t *result, struct err *err)
{
	(void)call;
	(void)nr;
	(void)arg;
	(void)result;
	return err_set(err, -ENOTSUP, "cannot come into a program on this machine");
}

int call_function(struct call *call, uint64_t function, uint64_t stack, const uint64_t arg[3],
		  uint64_t limit_ns, uint64_t *result, struct err *err)
{
	(void)function;
	(void)stack;
	(void)limit_ns;
	return call_system(call, 0, arg, (int64_t *)result, err);
}

int call_end(struct call *call)
{
	(void)call;
	return 0;
}

int call_leave(pid_t tid, int (*done)(void *ctx, pid_t tid), void *ctx, unsigned steps, int *signal)
{
	(void)tid;
	(void)done;
	(void)ctx;
	(void)steps;
	(void)signal;
	return 0;
}
#endif
