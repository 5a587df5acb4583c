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
#include <ucontext.h>

#include "base/clock.h"

#ifdef __x86_64__
#include <cpuid.h>

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
	/* where its frame lies, 0: there is none */
	uint64_t guard;
	/* its signals are blocked */
	int masked;
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
	if (ptrace(PTRACE_GETREGS, tid, NULL, &call->regs) < 0 ||
	    ptrace(PTRACE_GETREGSET, tid, (void *)NT_X86_XSTATE, &floats) < 0 ||
	    ptrace(PTRACE_GETSIGMASK, tid, (void *)sizeof(call->blocked), &call->blocked) < 0 ||
	    ptrace(PTRACE_SETOPTIONS, tid, NULL, (void *)PTRACE_O_TRACESYSGOOD) < 0) {
		failed(call, err);
		free(call);
		return NULL;
	}
	call->floats_bytes = floats.iov_len;
	return call;
}

/* Once its registers lead back by themselves, which brings its own signals back, too. */
static int block_signals(struct call *call)
{
	/* what a crash of ours raises stays: blocked, the kernel would take its handler away */
	uint64_t all = ~(1ull << (SIGSEGV - 1) | 1ull << (SIGBUS - 1) | 1ull << (SIGILL - 1) |
			 1ull << (SIGFPE - 1) | 1ull << (SIGTRAP - 1));
	if (!call->masked && ptrace(PTRACE_SETSIGMASK, call->tid, (void *)sizeof(all), &all) < 0)
		return -1;
	call->masked = 1;
	return 0;
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

/* ---- should we be killed --------------------------------------------------------------------- */

/* Of the area that XSAVE fills; the kernel says in a signal's frame how much of it counts. */
#define FX_WORDS 464
#define FX_USED 512
#define FX_LEAST (512 + 64)
#define FX_MAGIC 0x46505853u
#define FX_MAGIC_END 0x46505845u
#define FX_TILES (3ull << 17) /* large, and only there for who has asked for them */

struct fx_words {
	uint32_t magic, whole_bytes;
	uint64_t features;
	uint32_t bytes, none;
};

static size_t floats_that_count(const struct call *call, uint64_t *features)
{
	uint64_t used;
	size_t bytes = FX_LEAST;
	memcpy(features, call->floats + FX_WORDS, sizeof(*features));
	memcpy(&used, call->floats + FX_USED, sizeof(used));
	if (!(used & FX_TILES))
		*features &= ~FX_TILES;
	for (unsigned i = 2; i < 63; i++) {
		unsigned size, offset, c, d;
		if (!(*features >> i & 1))
			continue;
		__cpuid_count(0xd, i, size, offset, c, d);
		if (offset + size > bytes)
			bytes = offset + size;
	}
	return bytes;
}

/* What the kernel does on the way out to a call that a stop has interrupted. */
static void restart(greg_t *regs, int64_t call)
{
	if (call < 0)
		return;
	switch (regs[REG_RAX]) {
	case -512: /* ERESTARTSYS, ERESTARTNOINTR, ERESTARTNOHAND */
	case -513:
	case -514:
		regs[REG_RAX] = call;
		regs[REG_RIP] -= 2;
		break;
	case -516: /* ERESTART_RESTARTBLOCK, which a frame does not bring back */
		regs[REG_RAX] = -EINTR;
		break;
	default:
		break;
	}
}

static int poke(pid_t tid, uint64_t at, const void *from, size_t bytes)
{
	for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
		uint64_t word = 0;
		memcpy(&word, (const char *)from + i,
		       bytes - i < sizeof(word) ? bytes - i : sizeof(word));
		if (ptrace(PTRACE_POKEDATA, tid, (void *)(at + i), (void *)word) < 0)
			return -errno;
	}
	return 0;
}

struct frame {
	uint64_t restorer;
	/* the kernel's, but for what it does not read */
	ucontext_t context;
};

size_t call_guard_bytes(const struct call *call)
{
	return sizeof(struct frame) + 128 + call->floats_bytes + sizeof(uint64_t);
}

void call_guard_again(struct call *call, uint64_t at)
{
	if (call->guard)
		call->guard = at & ~63ull;
}

uint64_t call_stack(const struct call *call)
{
	return call->regs.rsp;
}

int call_guard(struct call *call, uint64_t at, uint64_t restorer, struct err *err)
{
	struct frame frame = { .restorer = restorer };
	const struct user_regs_struct *r = &call->regs;
	struct fx_words words = { .magic = FX_MAGIC };
	const uint32_t end = FX_MAGIC_END;
	uint64_t guard = at & ~63ull, floats = (guard + sizeof(frame) + 63) & ~63ull;
	if (call->floats_bytes >= FX_LEAST)
		words.bytes = (uint32_t)floats_that_count(call, &words.features);
	if (!words.bytes || words.bytes > call->floats_bytes)
		return 0; /* not the way of this processor: as well as without */
	words.whole_bytes = words.bytes + (uint32_t)sizeof(end);
	greg_t *to = frame.context.uc_mcontext.gregs;
	const unsigned long long from[] = {
		[REG_R8] = r->r8,   [REG_R9] = r->r9,      [REG_R10] = r->r10, [REG_R11] = r->r11,
		[REG_R12] = r->r12, [REG_R13] = r->r13,    [REG_R14] = r->r14, [REG_R15] = r->r15,
		[REG_RDI] = r->rdi, [REG_RSI] = r->rsi,    [REG_RBP] = r->rbp, [REG_RBX] = r->rbx,
		[REG_RDX] = r->rdx, [REG_RAX] = r->rax,    [REG_RCX] = r->rcx, [REG_RSP] = r->rsp,
		[REG_RIP] = r->rip, [REG_EFL] = r->eflags,
	};
	memcpy(to, from, sizeof(from));
	to[REG_CSGSFS] = (greg_t)((r->cs & 0xffff) | (r->ss & 0xffff) << 48);
	restart(to, (int64_t)r->orig_rax);
	/* floating point in full; the stack segment stands there */
	frame.context.uc_flags = 1 | 2 | 4;
	memcpy(&frame.context.uc_mcontext.fpregs, &floats, sizeof(floats));
	memcpy(&frame.context.uc_sigmask, &call->blocked, sizeof(call->blocked));
	int rc = poke(call->tid, guard, &frame, sizeof(frame));
	rc = rc < 0 ? rc : poke(call->tid, floats, call->floats, words.bytes);
	rc = rc < 0 ? rc : poke(call->tid, floats + FX_WORDS, &words, sizeof(words));
	rc = rc < 0 ? rc : poke(call->tid, floats + words.bytes, &end, sizeof(end));
	if (rc < 0)
		return err_set(err, rc, "cannot lead thread %d aside", (int)call->tid);
	call->guard = guard;
	return 0;
}

/* ---- calls ----------------------------------------------------------------------------------- */

int call_system(struct call *call, long nr, const uint64_t arg[6], int64_t *result, struct err *err)
{
	struct user_regs_struct regs = call->regs;
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + SYSTEM_NS;
	regs.rip = call->instruction;
	regs.rsp = call->guard ? call->guard : regs.rsp;
	regs.rax = (unsigned long)nr;
	regs.orig_rax = -1ul;
	regs.rdi = arg[0];
	regs.rsi = arg[1];
	regs.rdx = arg[2];
	regs.r10 = arg[3];
	regs.r8 = arg[4];
	regs.r9 = arg[5];
	regs.eflags = FLAGS;
	if (ptrace(PTRACE_SETREGS, call->tid, NULL, &regs) < 0 || block_signals(call) < 0)
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
	if (call->guard && stack + 8 != call->guard)
		return err_set(err, -EINVAL, "the frame of thread %d lies elsewhere",
			       (int)call->tid);
	if (ptrace(PTRACE_POKEDATA, call->tid, (void *)stack, (void *)call->instruction) < 0 ||
	    ptrace(PTRACE_SETREGS, call->tid, NULL, &regs) < 0 || block_signals(call) < 0)
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
	    (ptrace(PTRACE_SETSIGMASK, tid, (void *)sizeof(call->blocked), &call->blocked) < 0 ||
	     ptrace(PTRACE_SETREGSET, tid, (void *)NT_X86_XSTATE, &floats) < 0 ||
	     ptrace(PTRACE_SETREGS, tid, NULL, &call->regs) < 0))
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

int call_guard(struct call *call, uint64_t at, uint64_t restorer, struct err *err)
{
	int64_t none;
	(void)restorer;
	return call_system(call, 0, &at, &none, err);
}

size_t call_guard_bytes(const struct call *call)
{
	(void)call;
	return 0;
}

void call_guard_again(struct call *call, uint64_t at)
{
	(void)call;
	(void)at;
}

uint64_t call_stack(const struct call *call)
{
	(void)call;
	return 0;
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
