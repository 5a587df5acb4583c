/* SPDX-License-Identifier: Apache-2.0 */
/* hooks_process.c - calls that change what may be recorded, and the ends of a process. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "preload/hooks_process.h"
#include "preload/modules.h"
#include "preload/next.h"
#include "preload/options.h"
#include "preload/ring.h"
#include "preload/start.h"
#include "preload/thread.h"
#include "wire/heap_start.h"

#define EXPORT __attribute__((visibility("default")))

/* Under the hooks' guard: what the loader or the runtime allocates for us is ours. */
struct quiet {
	uint32_t sync;
	uint8_t own;
	int saved_errno;
};

static struct quiet quiet_begin(void)
{
	struct quiet q = { self.sync, self.own, errno };
	self.sync = SYNC_IN(SYNC_OWN, (uint64_t)__builtin_frame_address(0));
	self.own = 1;
	return q;
}

static void quiet_end(struct quiet q)
{
	self.own = q.own;
	self.sync = q.sync;
	errno = q.saved_errno;
}

static void resolve(void)
{
	if (likely(__atomic_load_n(&process.resolved, __ATOMIC_ACQUIRE)))
		return;
	struct quiet q = quiet_begin();
	start_once();
	/* another thread is at it: the table is filled within its first milliseconds */
	while (!__atomic_load_n(&process.resolved, __ATOMIC_ACQUIRE) && !q.own)
		sys0(SYS_sched_yield);
	quiet_end(q);
}

static int recording(void)
{
	return (proc.word & MODE_MASK) > MODE_OFF && process.heap;
}

/* Not in the child of a fork (the word is wiped), and not in a vfork child, which shares it. */
static int recording_process(void)
{
	return recording() && !self.forbidden &&
	       (process.seccomp || (uint32_t)sys0(SYS_getpid) == process.pid);
}

/* Its parent's thread stands still meanwhile, and goes on with what it leaves in our memory. */
static int in_vfork_child(void)
{
	return (proc.word & MODE_MASK) > MODE_OFF && !process.seccomp &&
	       (self.forbidden || (uint32_t)sys0(SYS_getpid) != process.pid);
}

/* ---- modules ---- */

/*
 * Before a dlopen() that is the first call of all, or for an object that looks into itself first.
 * The call itself is jumped to: the loader looks where the caller's object wants libraries to be
 * looked for.
 */
HIDDEN void note_dlopen(int flags);
HIDDEN void note_dlopen(int flags)
{
	resolve();
	if (flags & RTLD_DEEPBIND && (proc.word & MODE_MASK) > MODE_OFF)
		next_deepbind();
}

EXPORT int dlclose(void *handle)
{
	resolve();
	if (!next.dlclose)
		return -1;
	int rc = next.dlclose(handle);
	__atomic_fetch_add(&process.closed, 1, __ATOMIC_RELAXED);
	if (rc == 0) {
		struct quiet q = quiet_begin();
		next_cxx_closed();
		next_frames_closed();
		if (recording())
			modules_closed();
		quiet_end(q);
	}
	return rc;
}

EXPORT void __register_frame(void *begin)
{
	resolve();
	if (!next.register_frame) {
		struct quiet q = quiet_begin();
		next_frames(__builtin_return_address(0));
		quiet_end(q);
	}
	if (next.register_frame)
		next.register_frame(begin);
	if (recording() && begin)
		unwind_register_frame(process.unwind, begin);
}

EXPORT void __deregister_frame(void *begin)
{
	if (recording() && begin)
		unwind_deregister_frame(process.unwind, begin);
	if (next.deregister_frame)
		next.deregister_frame(begin);
}

/* ---- thread keys ---- */

/*
 * There are 1,024; a program that wants them all gets ours. It starts nothing: allocators call it
 * while they start.
 */
EXPORT int pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	int (*create)(pthread_key_t *, void (*)(void *)) = next.key_create;
	/*
	 * not by dlsym(): before glibc 2.34 its first call makes a key, and would wait here for
	 * itself
	 */
	if (!create) {
		void *found = next_behind("pthread_key_create");
		memcpy(&create, &found, sizeof(create));
	}
	int rc = create(key, destructor);
	if (rc == EAGAIN && recording_process() && thread_key_give())
		rc = create(key, destructor);
	return rc;
}

EXPORT int __pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	return pthread_key_create(key, destructor);
}

/* ---- seccomp ---- */

/*
 * From here on no system call, for good: threads that start later are not recorded. Strict mode
 * takes the cycle counter away too, and with it the clock of the vDSO. libseccomp, browsers and
 * systemd first ask what the kernel knows, by calls that must fail: a filter that is nowhere,
 * strict mode with arguments. Nothing is forbidden by those.
 */
static void forbid(int strict, int fails)
{
	if (fails)
		return;
	if (in_vfork_child()) {
		self.forbidden = 1;
		return;
	}
	if (strict) {
		process.last_cycles = stamp();
		process.no_tsc = 1;
	}
	if (process.heap)
		__atomic_store_n(&process.heap->stay_awake, 1, __ATOMIC_SEQ_CST);
	ring_wake();
	process.seccomp = 1;
}

static void note_prctl(long option, long mode, long filter)
{
	if (option == PR_SET_SECCOMP)
		forbid(mode == 1 /* SECCOMP_MODE_STRICT */, mode != 1 && (mode != 2 || !filter));
	if (option == PR_SET_TSC && mode == PR_TSC_SIGSEGV) {
		process.last_cycles = stamp();
		process.no_tsc = 1;
	}
}

HIDDEN void note_syscall_memory(long nr, long at, long bytes, long third); /* hooks_protect.c */

static void exec_raw(long nr, const long arg[5]);

HIDDEN void note_syscall(long nr, long first, long second, long third, long fourth, long fifth)
{
	if (nr == SYS_seccomp && first == 0 /* SECCOMP_SET_MODE_STRICT */)
		forbid(1, second || third);
	else if (nr == SYS_seccomp && first == 1 /* SECCOMP_SET_MODE_FILTER */)
		forbid(0, !third);
	else if (nr == SYS_prctl)
		note_prctl(first, second, third);
	else if (nr == SYS_exit_group)
		process_exiting();
	else if ((nr == SYS_execve || nr == SYS_execveat) && recording_process())
		exec_raw(nr, (const long[]){ first, second, third, fourth, fifth });
	else
		note_syscall_memory(nr, first, second, third);
}

EXPORT int prctl(int option, ...)
{
	va_list args;
	va_start(args, option);
	unsigned long a = va_arg(args, unsigned long), b = va_arg(args, unsigned long);
	unsigned long c = va_arg(args, unsigned long), d = va_arg(args, unsigned long);
	va_end(args);
	note_prctl(option, (long)a, (long)b);
	if (likely(next.prctl))
		return next.prctl(option, a, b, c, d);
	long rc = sys5(SYS_prctl, option, a, b, c, d);
	if (sys_failed(rc)) {
		errno = (int)-rc;
		return -1;
	}
	return (int)rc;
}

/* ---- ends ---- */

/* The bytes that a status file gives for @key, in @text; 0: it does not. */
static uint64_t status_bytes(const char *text, long len, const char *key)
{
	for (long i = 0; i + 8 < len; i++) {
		long k = 0;
		while (key[k] && i + k < len && text[i + k] == key[k])
			k++;
		if (key[k])
			continue;
		uint64_t kib = 0;
		for (i += k; i < len && text[i] != '\n'; i++)
			if (text[i] >= '0' && text[i] <= '9')
				kib = kib * 10 + (uint64_t)(text[i] - '0');
		return kib << 10;
	}
	return 0;
}

/*
 * The last word on the size of a process that ends before anybody can look; getrusage() would count
 * what ran before the exec.
 */
static void note_sizes(struct wire_heap_header *heap)
{
	/* not on the stack: _exit() is called from handlers on small ones */
	static char text[4096];
	long fd = sys4(SYS_openat, AT_FDCWD, "/proc/thread-self/status", O_RDONLY | O_CLOEXEC, 0);
	if (sys_failed(fd))
		return;
	long n = sys3(SYS_read, fd, text, sizeof(text));
	sys1(SYS_close, fd);
	heap->peak_rss_bytes = status_bytes(text, n, "VmHWM:");
	heap->end_virtual_bytes = status_bytes(text, n, "VmSize:");
	heap->end_rss_bytes = status_bytes(text, n, "VmRSS:");
	heap->end_anon_bytes = status_bytes(text, n, "RssAnon:");
	heap->end_file_bytes = status_bytes(text, n, "RssFile:");
	heap->end_shmem_bytes = status_bytes(text, n, "RssShmem:");
	heap->end_swap_bytes = status_bytes(text, n, "VmSwap:");
}

static int mark_exiting(void)
{
	if (self.forbidden) {
		self.forbidden = 0; /* who goes on in this memory may */
		return 0;
	}
	if (!recording_process())
		return 0;
	struct wire_heap_header *heap = process.heap;
	struct timespec ts;
	if (!process.seccomp)
		note_sizes(heap);
	heap->end_cycles = stamp();
	if (!process.no_tsc && the_clock(CLOCK_MONOTONIC, &ts) == 0)
		heap->end_ns = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
	__atomic_store_n(&heap->exiting, 1, __ATOMIC_RELEASE);
	ring_wake();
	return 1;
}

#define LOOK_PAUSE_NS 200000
#define LOOK_PAUSES_MAX 10000 /* two seconds */
#define LOOK_BEAT_NS 1000000000u

/*
 * The recorder looks once more where the memory is, if it asked for that: once this process is gone
 * nobody can.
 */
static void await_look(const struct wire_heap_header *heap)
{
	const struct timespec pause = { .tv_nsec = LOOK_PAUSE_NS };
	struct timespec ts;
	uint64_t began = 0;
	for (unsigned i = 0; i < LOOK_PAUSES_MAX; i++) {
		if (__atomic_load_n(&heap->looked_last, __ATOMIC_ACQUIRE) ||
		    __atomic_load_n(&heap->detach, __ATOMIC_RELAXED))
			return;
		uint64_t beat = __atomic_load_n(&heap->heartbeat_ns, __ATOMIC_RELAXED);
		if (the_clock(CLOCK_MONOTONIC, &ts) != 0)
			return;
		uint64_t now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
		if (!i) /* it may have slept until now */
			began = now;
		if (now > (beat > began ? beat : began) + LOOK_BEAT_NS)
			return;
		sys4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
	}
}

void process_exiting(void)
{
	/*
	 * The shared file outlives the process, and whoever started that waits for its own
	 * recorder. One that the library started is nobody's: who looks at the recording next, as
	 * scripts do, finds what is in the file by then.
	 */
	if (!mark_exiting())
		return;
	if (!process.seccomp && !process.no_tsc &&
	    __atomic_load_n(&process.heap->look_last, __ATOMIC_ACQUIRE))
		await_look(process.heap);
	if (process.alone && !process.forked)
		ring_wait_last_block();
}

__attribute__((destructor)) static void destructed(void)
{
	self.forbidden = 0; /* of a child that was killed: none runs destructors */
	process_exiting();
}

EXPORT void _exit(int status)
{
	resolve();
	process_exiting();
	next.exit_now(status);
	__builtin_unreachable();
}

EXPORT void _Exit(int status)
{
	resolve();
	process_exiting();
	next.exit_c99(status);
	__builtin_unreachable();
}

EXPORT void quick_exit(int status)
{
	resolve();
	/* its handlers may still allocate: exiting says only that nobody killed it */
	process_exiting();
	next.quick_exit(status);
	__builtin_unreachable();
}

/* ---- exec: the recording ends here, or goes on where it failed ---- */

enum exec { EXEC_UNSEEN, EXEC_MARKED, EXEC_FORBIDDEN };

static enum exec exec_begin(void)
{
	resolve();
	int forbidden = self.forbidden;
	if (!mark_exiting())
		return forbidden ? EXEC_FORBIDDEN : EXEC_UNSEEN;
	__atomic_store_n(&process.heap->exec_called, WIRE_EXEC_ENTERED, __ATOMIC_RELEASE);
	return EXEC_MARKED;
}

static int exec_failed(enum exec begun, int rc)
{
	if (begun == EXEC_FORBIDDEN)
		self.forbidden = 1;
	if (begun == EXEC_MARKED) {
		__atomic_store_n(&process.heap->exec_called, WIRE_EXEC_NONE, __ATOMIC_RELEASE);
		__atomic_store_n(&process.heap->exiting, 0, __ATOMIC_RELEASE);
	}
	return rc;
}

/*
 * What takes this program's place is recorded as well: it finds the library, and WIRE_ENV_NEXT.
 * Only where this is the process that is recorded, and its environment of a size that fits beside
 * it on the stack.
 */
#define NEXT_ENV_MAX 4096   /* variables */
#define NEXT_TEXT_MAX 16384 /* of each of ours */

/*
 * The loader complains into the program's stderr of a library that it cannot open: under another
 * root, or where the program has become a user that may not. Asked as the loader asks for its own
 * files, so that no filter of system calls minds; for the real user, without the capabilities that
 * an exec takes from who is not root. Return: 1 it can, as far as is known.
 */
static int library_is_here(void)
{
	if (*process.library != '/' || strchr(process.library, '$'))
		return 1; /* the loader looks for it */
#ifdef SYS_access
	long rc = sys2(SYS_access, process.library, R_OK);
#else
	long rc = sys3(SYS_faccessat, AT_FDCWD, process.library, R_OK);
#endif
	return rc != -ENOENT && rc != -ENOTDIR && rc != -EACCES;
}

/** next_count() - how many variables next_env() may make of @envp; 0: it stays as it is. */
static size_t next_count(enum exec begun, char *const *envp)
{
	size_t count = 0;
	if (!process.library || !envp || process.seccomp)
		return 0;
	if (!process.follow && (begun != EXEC_MARKED || !process.next ||
				(uint32_t)sys0(SYS_getpid) != process.heap->target_pid))
		return 0;
	if (library_is_here() == (process.follow != 0))
		return 0;
	while (envp[count] && count <= NEXT_ENV_MAX)
		count++;
	return count > NEXT_ENV_MAX ? 0 : count + 3;
}

static char *put_text(char *to, const char *text)
{
	size_t len = strlen(text);
	memcpy(to, text, len + 1);
	return to + len;
}

/** next_env() - @envp and ours in @to, whose strings are @text; @envp where those find no room. */
static char *const *next_env(char *const *envp, char **to, char *text)
{
	static const char preload[] = "LD_PRELOAD=";
	const char *before = NULL;
	size_t count = 0;
	if (process.follow)
		return options_bare_env(envp, to, text, NEXT_TEXT_MAX);
	for (; envp[count]; count++) {
		to[count] = envp[count];
		if (strncmp(envp[count], preload, sizeof(preload) - 1) == 0)
			before = envp[count] + sizeof(preload) - 1;
	}
	if (strlen(process.library) + (before ? strlen(before) : 0) + 64 > NEXT_TEXT_MAX ||
	    strlen(process.next) + 64 > NEXT_TEXT_MAX)
		return envp;
	to[count++] = text;
	text = put_text(put_text(text, preload), process.library);
	if (before && *before)
		text = put_text(put_text(text, ":"), before);
	to[count++] = ++text;
	text = put_text(text, WIRE_ENV_NEXT "=");
	char digits[12], *digit = digits + sizeof(digits) - 1;
	uint32_t pid = process.heap->target_pid;
	*digit = '\0';
	do {
		*--digit = (char)('0' + pid % 10);
	} while (pid /= 10);
	put_text(put_text(put_text(text, digit), ":"), process.next);
	to[count] = NULL;
	return to;
}

#define WITH_NEXT(begun, envp)                                                             \
	do {                                                                               \
		size_t count_ = next_count(begun, envp);                                   \
		if (count_)                                                                \
			(envp) = next_env(envp, __builtin_alloca(count_ * sizeof(char *)), \
					  __builtin_alloca(2 * NEXT_TEXT_MAX));            \
	} while (0)

EXPORT int execve(const char *path, char *const *argv, char *const *envp)
{
	enum exec begun = exec_begin();
	WITH_NEXT(begun, envp);
	return exec_failed(begun, next.execve(path, argv, envp));
}

EXPORT int execv(const char *path, char *const *argv)
{
	enum exec begun = exec_begin();
	char *const *envp = environ;
	WITH_NEXT(begun, envp);
	return exec_failed(begun, envp == environ ? next.execv(path, argv)
						  : next.execve(path, argv, envp));
}

EXPORT int execvp(const char *file, char *const *argv)
{
	enum exec begun = exec_begin();
	char *const *envp = environ;
	WITH_NEXT(begun, envp);
	return exec_failed(begun, envp == environ ? next.execvp(file, argv)
						  : next.execvpe(file, argv, envp));
}

EXPORT int execvpe(const char *file, char *const *argv, char *const *envp)
{
	enum exec begun = exec_begin();
	WITH_NEXT(begun, envp);
	return exec_failed(begun, next.execvpe(file, argv, envp));
}

EXPORT int fexecve(int fd, char *const *argv, char *const *envp)
{
	enum exec begun = exec_begin();
	WITH_NEXT(begun, envp);
	return exec_failed(begun, next.fexecve(fd, argv, envp));
}

EXPORT int execveat(int fd, const char *path, char *const *argv, char *const *envp, int flags)
{
	enum exec begun = exec_begin();
	WITH_NEXT(begun, envp);
	return exec_failed(begun, next.execveat(fd, path, argv, envp, flags));
}

/*
 * By its number: with what follows the program in its environment where that is to be recorded. If
 * that fails the caller does it as it was asked for, of which nobody sees whether it fails: the
 * recorder looks, and is not told to stop looking.
 */
static __attribute__((noinline)) void exec_raw(long nr, const long arg[5])
{
	int at = nr == SYS_execve ? 2 : 3;
	char *const *envp = (char *const *)arg[at]; /* NOLINT: it is one */
	if (process.next) {
		char *const *asked = envp;
		enum exec begun = exec_begin();
		WITH_NEXT(begun, envp);
		if (envp != asked && nr == SYS_execve)
			sys3(nr, arg[0], arg[1], envp);
		else if (envp != asked)
			sys5(nr, arg[0], arg[1], arg[2], envp, arg[4]);
		exec_failed(begun, -1);
	}
	__atomic_store_n(&process.heap->exec_called, WIRE_EXEC_RAW, __ATOMIC_RELEASE);
}

/* The forms with a list: counted, copied to the stack, handed to the form with an array. */
#define LIST_TO_ARRAY(first, argv, args)                                  \
	do {                                                              \
		size_t count_ = 1;                                        \
		va_start(args, first);                                    \
		while (va_arg(args, const char *))                        \
			count_++;                                         \
		va_end(args);                                             \
		(argv) = __builtin_alloca((count_ + 1) * sizeof(char *)); \
		(argv)[0] = (char *)(uintptr_t)(first);                   \
		va_start(args, first);                                    \
		for (size_t i_ = 1; i_ <= count_; i_++)                   \
			(argv)[i_] = va_arg(args, char *);                \
	} while (0)

EXPORT int execl(const char *path, const char *first, ...)
{
	va_list args;
	char **argv;
	LIST_TO_ARRAY(first, argv, args);
	va_end(args);
	return execv(path, argv);
}

EXPORT int execlp(const char *file, const char *first, ...)
{
	va_list args;
	char **argv;
	LIST_TO_ARRAY(first, argv, args);
	va_end(args);
	return execvp(file, argv);
}

EXPORT int execle(const char *path, const char *first, ...)
{
	va_list args;
	char **argv;
	LIST_TO_ARRAY(first, argv, args);
	char *const *envp = va_arg(args, char *const *);
	va_end(args);
	return execve(path, argv, envp);
}
