/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/walk.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>

#include "base/cleanup.h"
#include "unwind/cfi.h"
#include "wire/inject.h"

#ifdef __x86_64__
#define CODE_64 0x33 /* segment of 64-bit code */
#define FRAMES 512
#define REG(n) (1u << (n))

/* What waits, or asks the kernel for something, and holds nothing that loading a library needs. */
static const char *const waits_in[] = { "poll",
					"ppoll",
					"select",
					"pselect",
					"epoll_wait",
					"epoll_pwait",
					"epoll_pwait2",
					"nanosleep",
					"clock_nanosleep",
					"usleep",
					"sleep",
					"pause",
					"sigsuspend",
					"sigwait",
					"sigwaitinfo",
					"sigtimedwait",
					"wait",
					"wait3",
					"wait4",
					"waitpid",
					"waitid",
					"read",
					"readv",
					"pread64",
					"preadv",
					"write",
					"writev",
					"pwrite64",
					"pwritev",
					"recv",
					"recvfrom",
					"recvmsg",
					"recvmmsg",
					"send",
					"sendto",
					"sendmsg",
					"sendmmsg",
					"accept",
					"accept4",
					"connect",
					"msgrcv",
					"msgsnd",
					"semop",
					"semtimedop",
					"flock",
					"fsync",
					"fdatasync",
					"ioctl",
					"syscall",
					"sched_yield",
					"pthread_cond_wait",
					"pthread_cond_timedwait",
					"pthread_cond_clockwait",
					"sem_wait",
					"sem_timedwait",
					"sem_clockwait",
					"pthread_join",
					"pthread_timedjoin_np",
					"pthread_clockjoin_np",
					"pthread_mutex_lock",
					"pthread_rwlock_rdlock",
					"pthread_rwlock_wrlock",
					"pthread_barrier_wait",
					"io_getevents",
					"eventfd_read",
					NULL };

/* What must have returned: allocator, loader, and who holds locks that loading takes. */
static const char *const never_in[] = { "malloc",
					"free",
					"calloc",
					"realloc",
					"reallocarray",
					"memalign",
					"aligned_alloc",
					"posix_memalign",
					"valloc",
					"pvalloc",
					"cfree",
					"malloc_trim",
					"malloc_info",
					"malloc_stats",
					"mallinfo",
					"mallinfo2",
					"mallopt",
					"malloc_usable_size",
					"dlopen",
					"dlmopen",
					"dlclose",
					"dlsym",
					"dlvsym",
					"dladdr",
					"dladdr1",
					"dlinfo",
					"dl_iterate_phdr",
					"__libc_dlopen_mode",
					"fork",
					"_Fork",
					"__fork",
					"vfork",
					"pthread_create",
					"pthread_exit",
					"pthread_atfork",
					"__register_atfork",
					"exit",
					"quick_exit",
					"__cxa_atexit",
					"__cxa_finalize",
					"__tls_get_addr",
					"pthread_getattr_np",
					"pthread_attr_setstack",
					"posix_spawn",
					"posix_spawnp",
					"system",
					"popen",
					"setlocale",
					"newlocale",
					"bindtextdomain",
					"gettext",
					"dcgettext",
					"dcngettext",
					"__libc_freeres",
					"setuid",
					"setgid",
					"setgroups",
					"setresuid",
					"setresgid",
					"setreuid",
					"setregid",
					"seteuid",
					"setegid",
					NULL };

struct walk {
	const struct walk_ask *ask;
	uint64_t reg[UNWIND_REGS];
	/* bit n: register n is known */
	uint32_t known;
	int waits;
	/* its thread pointer */
	uint64_t thread;
	struct unwind_cfi_work work;
};

static int get_regs(pid_t tid, struct user_regs_struct *regs)
{
	return ptrace(PTRACE_GETREGS, tid, NULL, regs) == 0 && regs->cs == CODE_64;
}

uint64_t walk_pc(pid_t tid, int *waits)
{
	struct user_regs_struct regs;
	if (!get_regs(tid, &regs))
		return 0;
	*waits = (int64_t)regs.orig_rax >= 0;
	return regs.rip;
}

static int load(const struct walk *w, uint64_t at, uint64_t *to)
{
	return target_read(w->ask->objects->target, at, to, sizeof(*to)) == sizeof(*to);
}

static int begin(struct walk *w, pid_t tid)
{
	struct user_regs_struct r;
	if (!get_regs(tid, &r))
		return 0;
	const uint64_t all[UNWIND_REGS] = { r.rax, r.rdx, r.rcx, r.rbx, r.rsi, r.rdi,
					    r.rbp, r.rsp, r.r8,  r.r9,  r.r10, r.r11,
					    r.r12, r.r13, r.r14, r.r15, r.rip };
	memcpy(w->reg, all, sizeof(all));
	w->known = REG(UNWIND_REGS) - 1;
	w->waits = (int64_t)r.orig_rax >= 0;
	w->thread = r.fs_base;
	return 1;
}

/*
 * What its own word says, where it is in what a hook called. A hook that only calls the C library's
 * allocator does not say so, and looks anew afterwards.
 */
static int may_write(const struct walk *w)
{
	uint64_t word = 0;
	if (!w->ask->sync_at || !load(w, w->thread + (uint64_t)w->ask->sync_at, &word))
		return 1;
	unsigned kind = word & 0xff;
	return kind == WIRE_INJECT_SYNC_NEXT || kind == WIRE_INJECT_SYNC_OWN;
}

/* One frame out. Return: 1 there is a caller, 0 this was the outermost, -1 it cannot be told. */
static int step(struct walk *w, struct object *o, uint64_t look)
{
	struct unwind_fde fde;
	if (!object_frames(w->ask->objects, o))
		return -1;
	uint64_t shift = (uint64_t)(uintptr_t)o->frames - o->frames_lo;
	const struct unwind_image image = { .lo = o->frames,
					    .hi = o->frames + (o->frames_hi - o->frames_lo),
					    .hdr = o->frames + (o->frames_at - o->frames_lo) };
	if (!unwind_cfi_find(&image, look + shift, &fde) || fde.signal ||
	    !unwind_cfi_row(&image, &fde, look + shift, &w->work))
		return -1;
	const struct unwind_row *row = &w->work.row;
	const struct unwind_reg_rule *ra = &row->reg[UNWIND_REG_RA];
	if (ra->how == UNWIND_UNDEFINED)
		return 0;
	if (row->cfa_expr || row->cfa_reg >= UNWIND_REGS || !(w->known & REG(row->cfa_reg)) ||
	    ra->how != UNWIND_AT_CFA)
		return -1;
	uint64_t cfa = w->reg[row->cfa_reg] + (uint64_t)row->cfa_off, next[UNWIND_REGS];
	if (cfa <= w->reg[UNWIND_REG_SP])
		return -1;
	memcpy(next, w->reg, sizeof(next));
	uint32_t known = w->known & UNWIND_CALLEE_SAVED;
	for (unsigned i = 0; i < UNWIND_REGS; i++) {
		if (!(UNWIND_CALLEE_SAVED & REG(i)) || row->reg[i].how == UNWIND_UNSPECIFIED ||
		    row->reg[i].how == UNWIND_SAME)
			continue;
		known &= ~REG(i);
		if (row->reg[i].how == UNWIND_AT_CFA &&
		    load(w, cfa + (uint64_t)row->reg[i].value, &next[i]))
			known |= REG(i);
	}
	if (!load(w, cfa + (uint64_t)ra->value, &next[UNWIND_REG_RA]))
		return -1;
	next[UNWIND_REG_SP] = cfa;
	memcpy(w->reg, next, sizeof(next));
	w->known = known | REG(UNWIND_REG_SP) | REG(UNWIND_REG_RA);
	return next[UNWIND_REG_RA] != 0;
}

static int within(uint64_t pc, uint64_t lo, uint64_t hi)
{
	return pc - lo < hi - lo;
}

enum { LEAD_IN_LIBC, LEAD_OVER };

/*
 * What one frame says: WALK_SAFE: nothing against it. *@lead: the innermost ones, which may be
 * functions of the C library's that have no name, are over with the first one that waits.
 */
static enum walk_place judge(const struct walk *w, struct object *o, uint64_t look, int *lead,
			     int innermost)
{
	const struct walk_ask *ask = w->ask;
	if (within(look, ask->own_lo, ask->own_hi))
		return innermost || may_write(w) ? WALK_HOOK : WALK_BUSY;
	if (within(look, ask->allocator_lo, ask->allocator_hi))
		return WALK_BUSY;
	if (o->is_loader)
		return WALK_LOADING;
	if (!o->is_libc) {
		enum walk_place place = *lead == LEAD_OVER ? WALK_SAFE : WALK_BUSY;
		return place;
	}
	if (object_is_in(ask->objects, o, look, never_in))
		return WALK_BUSY;
	if (*lead == LEAD_OVER)
		return WALK_SAFE;
	if (object_is_in(ask->objects, o, look, waits_in)) {
		*lead = LEAD_OVER;
		return WALK_SAFE;
	}
	/* only behind what waits it may be followed by one that has a name */
	return w->waits && !object_is_named(ask->objects, o, look) ? WALK_SAFE : WALK_BUSY;
}

enum walk_place walk_place(const struct walk_ask *ask, pid_t tid)
{
	struct walk w = { .ask = ask };
	enum walk_place place = WALK_SAFE;
	if (!begin(&w, tid))
		return WALK_GONE;
	int lead = LEAD_OVER;
	for (unsigned n = 0; n < FRAMES; n++) {
		uint64_t pc = w.reg[UNWIND_REG_RA], look = n ? pc - 1 : pc;
		struct object *o = objects_at(ask->objects, look);
		if (!o)
			return place == WALK_SAFE ? WALK_UNKNOWN : place;
		if (!n && o->is_libc)
			lead = LEAD_IN_LIBC;
		enum walk_place here = judge(&w, o, look, &lead, n == 0);
		if (here == WALK_LOADING || here == WALK_HOOK)
			return here;
		place = here == WALK_BUSY ? here : place;
		int rc = step(&w, o, look);
		if (rc == 0)
			return lead == LEAD_OVER ? place : WALK_BUSY;
		if (rc < 0)
			return place == WALK_SAFE ? WALK_UNKNOWN : place;
	}
	return place == WALK_SAFE ? WALK_UNKNOWN : place;
}
#else
enum walk_place walk_place(const struct walk_ask *ask, pid_t tid)
{
	(void)ask;
	(void)tid;
	return WALK_UNKNOWN;
}

uint64_t walk_pc(pid_t tid, int *waits)
{
	(void)tid;
	*waits = 0;
	return 0;
}
#endif
