/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "preload/log.h"
#include "preload/more.h"
#include "preload/next.h"
#include "preload/process.h"
#include "wire/heap_layout.h"
#include "wire/heap_start.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

#define KEEP \
	3 /* where the recorder finds the descriptor; below are those that every program expects */

/* Growing a file beyond the limit would raise SIGXFSZ, a memfd's too. */
static int size_allowed(uint64_t bytes)
{
	struct rlimit limit;
	if (sys_failed(sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit)) ||
	    bytes <= limit.rlim_cur)
		return 1;
	log_line(LOG_WARN, "the file size limit of %d bytes (ulimit -f) forbids a file of %d",
		 (long)limit.rlim_cur, (long)bytes);
	return 0;
}

/* What is mapped in this process by now; 0: nobody says. */
static uint64_t mapped_now(void)
{
	char text[32];
	uint64_t pages = 0;
	long fd = sys4(SYS_openat, AT_FDCWD, "/proc/self/statm", O_RDONLY | O_CLOEXEC, 0);
	if (sys_failed(fd))
		return 0;
	long n = sys3(SYS_read, fd, text, sizeof(text));
	sys1(SYS_close, fd);
	for (long i = 0; i < n && text[i] >= '0' && text[i] <= '9'; i++)
		pages = pages * 10 + (uint64_t)(text[i] - '0');
	return pages * 4096;
}

/* Of the address space that a limit leaves to the program, the library takes an eighth at most. */
#define SPACE_SHARE 8

/* How many bytes of address space the library may map; UINT64_MAX: nothing limits it. */
static uint64_t space_allowed(void)
{
	struct rlimit limit;
	if (sys_failed(sys4(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit)) ||
	    limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	uint64_t mapped = mapped_now();
	return limit.rlim_cur > mapped ? (limit.rlim_cur - mapped) / SPACE_SHARE : 0;
}

/* The budget whose file and tables fit into @space bytes; 0: not even the smallest do. */
static uint64_t budget_within(uint64_t budget, uint64_t space)
{
	const uint64_t budgets[] = { budget, WIRE_HEAP_BUDGET_DEFAULT, WIRE_HEAP_BUDGET_TIGHT };
	for (unsigned i = 0; i < sizeof(budgets) / sizeof(budgets[0]); i++) {
		struct wire_heap_header layout = { 0 };
		wire_heap_layout(&layout, budgets[i]);
		if (budgets[i] <= budget &&
		    layout.total_bytes + unwind_process_bytes() + more_bytes(&layout) <= space)
			return budgets[i];
	}
	log_line(LOG_WARN, "the address space limit (ulimit -v) leaves no room for a recording");
	return 0;
}

static void begin(struct wire_heap_header *heap, const struct options *opt, uint32_t on_full)
{
	heap->on_full = on_full;
	heap->free_stacks = (uint32_t)opt->free_stacks;
	heap->stamp_every_event = (uint32_t)opt->stamp_every_event;
	heap->sample_bytes = opt->sample_bytes;
	heap->name_threads = wire_filter_check(opt->filter) > 1;
	heap->family = opt->family;
	heap->start_cycles = cycles();
	heap->start_ns = now_ns();
	struct timespec wall;
	the_clock(CLOCK_REALTIME, &wall);
	heap->start_realtime_ns = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
}

struct wire_heap_header *helper_shared(const struct options *opt, int *fd)
{
	struct wire_heap_header layout = { 0 };
	uint64_t budget = budget_within(opt->budget, space_allowed());
	if (!budget)
		return NULL;
	wire_heap_layout(&layout, budget);
	if (!size_allowed(layout.total_bytes))
		return NULL;
	long file = sys2(SYS_memfd_create, WIRE_MEMFD_NAME, MFD_ALLOW_SEALING | MFD_CLOEXEC);
	if (!sys_failed(file) &&
	    file < KEEP) { /* the program runs without a stdin, say: not ours to take */
		long low = file;
		file = sys3(SYS_fcntl, low, F_DUPFD_CLOEXEC, KEEP);
		sys1(SYS_close, low);
	}
	if (sys_failed(file))
		return NULL;
	long at = -1;
	if (!sys_failed(sys2(SYS_ftruncate, file, layout.total_bytes)))
		at = sys6(SYS_mmap, 0, (long)layout.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			  file, 0);
	if (sys_failed(at)) {
		sys1(SYS_close, file);
		return NULL;
	}
	struct wire_heap_header *heap = (struct wire_heap_header *)at;
	*heap = layout;
	wire_heap_layout_slots(heap);
	begin(heap, opt, opt->on_full);
	/* a target that shrinks the file would kill its reader */
	sys3(SYS_fcntl, file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	*fd = (int)file;
	return heap;
}

/* ---- starting the recorder ---- */

/*
 * Everything that the two children need, prepared before: they share the program's memory and must
 * not touch it.
 */
#define SETTINGS_MAX 16

struct launch {
	const char *output;
	int fd;
	/* the recorder has written its word */
	volatile int started;
	/* with which the last one ended that has not */
	volatile int status;
	/* that one's, or the one that started */
	volatile unsigned path;
	/* somebody is at it beside the child of a fork */
	volatile int beside;
	/* @parent is not looked at any more */
	int settled;
	/* what is to be recorded */
	struct wire_heap_header *heap;
	/* the book of a parent whose recorder is on its way; NULL: none */
	struct wire_heap_header *parent;
	char **env;
	uint64_t env_bytes;
	/* NAME=VALUE */
	const char *settings[SETTINGS_MAX];
	unsigned setting_count;
	char paths[8][1024];
	unsigned path_count;
	char number[16];
};

/* Of the middle one, and of the one beside the child of a fork: both run for a moment. */
#define CHILD_STACK 16384
static char child_stack[2][CHILD_STACK] __attribute__((aligned(64)));

/*
 * How long a recorder may take to write its word; one that is at it longer, on a busy machine, is
 * taken to be there.
 */
#define WORD_WAIT_NS 2000000000u

static void arrange_files(const struct launch *launch)
{
	long null = sys3(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR);
	if (launch->fd != KEEP)
		sys3(SYS_dup3, launch->fd, KEEP, 0);
	else
		sys3(SYS_fcntl, KEEP, F_SETFD, 0);
	/* stdout may be a pipe whose reader waits for its end */
	if (null != 0)
		sys3(SYS_dup3, null, 0, 0);
	sys3(SYS_dup3, 0, 1, 0);
	/*
	 * What a loader or a shell says in place of the recorder is not for the program's stderr.
	 * The recorder finds that behind its descriptor, for the one line about its own trouble.
	 */
	if (sys_failed(sys3(SYS_dup3, 2, WIRE_RECORDER_STDERR, 0)))
		sys3(SYS_dup3, 0, WIRE_RECORDER_STDERR, 0);
	sys3(SYS_dup3, 0, 2, 0);
	sys3(SYS_close_range, WIRE_RECORDER_STDERR + 1, ~0U, 0);
}

/* What limits the program's address space is not meant for its recorder. */
static void lift_limit(void)
{
	struct rlimit limit;
	const struct rlimit none = { RLIM_INFINITY, RLIM_INFINITY };
	if (!sys_failed(sys4(SYS_prlimit64, 0, RLIMIT_AS, &none, NULL)) ||
	    sys_failed(sys4(SYS_prlimit64, 0, RLIMIT_AS, NULL, &limit)))
		return;
	limit.rlim_cur = limit.rlim_max;
	sys4(SYS_prlimit64, 0, RLIMIT_AS, &limit, NULL);
}

static __attribute__((noreturn, noinline)) void run_helper(struct launch *launch)
{
	lift_limit();
	/* whoever forks the program now asks who records it */
	__atomic_store_n(&launch->heap->recorder_pid, (uint32_t)sys0(SYS_getpid), __ATOMIC_RELEASE);
	const char *path = launch->paths[launch->path];
	const char *argv[5 + SETTINGS_MAX + 1] = { path, WIRE_RECORDER_OPTION, "3", "-o",
						   launch->output };
	for (unsigned k = 0; k < launch->setting_count; k++)
		argv[5 + k] = launch->settings[k];
	sys3(SYS_execve, path, argv, launch->env);
	sys1(SYS_exit_group, 127);
	__builtin_unreachable();
}

/*
 * As vfork() does, but libc's would write errno, which belongs to the program beside us. The child
 * has its frames below ours and never comes back.
 */
static __attribute__((noinline)) long spawn_helper(struct launch *launch)
{
	long pid = sys5(SYS_clone, CLONE_VM | CLONE_VFORK, 0, NULL, NULL, 0);
	if (pid == 0)
		run_helper(launch);
	return pid;
}

/* Who records @parent; 0: nobody does, or nobody came in a second. */
static uint32_t recorder_of(const struct wire_heap_header *parent)
{
	const struct timespec pause = { 0, 200000 };
	uint64_t until = now_ns() + 1000000000u;
	uint32_t pid;
	while (!(pid = __atomic_load_n(&parent->recorder_pid, __ATOMIC_ACQUIRE)) &&
	       !__atomic_load_n(&parent->detach, __ATOMIC_RELAXED) && now_ns() < until)
		sys4(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &pause, NULL);
	return pid;
}

/*
 * Its first heartbeat, or that it cannot record what it is asked to, of which it says itself why.
 */
static int has_word(const struct wire_heap_header *heap)
{
	return __atomic_load_n(&heap->heartbeat_ns, __ATOMIC_ACQUIRE) ||
	       __atomic_load_n(&heap->detach, __ATOMIC_ACQUIRE);
}

/*
 * Until the recorder @pid has written its word or ended. That it was executed says nothing: its
 * loader may end it.
 */
static int await_word(struct launch *launch, long pid)
{
	const struct timespec pause = { 0, 1000000 };
	uint64_t until = now_ns() + WORD_WAIT_NS;
	int status = 0;
	for (;;) {
		/*
		 * a wait for the recorder's beat: filters that a program inherits may know no sleep
		 */
		uint32_t tick = __atomic_load_n(&launch->heap->tick, __ATOMIC_ACQUIRE);
		if (has_word(launch->heap))
			break;
		long rc = sys4(SYS_wait4, pid, &status, WNOHANG | __WALL, NULL);
		if (rc == pid && !has_word(launch->heap)) {
			launch->status =
				WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
			return 0;
		}
		if (rc == pid || now_ns() > until)
			break;
		sys4(SYS_futex, &launch->heap->tick, FUTEX_WAIT, tick, &pause);
	}
	return 1;
}

/* One after the other, until a recorder stands. */
static void start_recorder(struct launch *launch)
{
	arrange_files(launch);
	launch->status = 127;
	for (unsigned i = 0; i < launch->path_count && !launch->started; i++) {
		launch->path = i;
		long pid = spawn_helper(launch);
		launch->started = !sys_failed(pid); /* should a filter end us */
		launch->started = launch->started && await_word(launch, pid);
	}
	if (launch->started)
		return;
	/* first: the child, which ends when it need not wait for us, and its parent may end then */
	if (launch->parent)
		__atomic_add_fetch(&launch->parent->unrecorded_children, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&launch->heap->recorder_pid, 0, __ATOMIC_RELEASE);
}

static int run_middle(void *arg)
{
	struct launch *launch = arg;
	sys0(SYS_setsid);
	start_recorder(launch);
	sys1(SYS_exit_group, 0);
	return 0;
}

/* A child that went on has no other way by now: nothing is recorded. */
static int run_beside(void *arg)
{
	struct launch *launch = arg;
	/* whoever forks the child now asks who records that */
	if (launch->parent)
		launch->heap->fork_recorder = recorder_of(launch->parent);
	start_recorder(launch);
	if (!launch->started) {
		__atomic_store_n(&launch->heap->detach, 1, __ATOMIC_RELAXED);
		sys3(SYS_dup3, WIRE_RECORDER_STDERR, 2, 0);
		log_line(LOG_ERROR,
			 "the recorder of a child could not be started: %s ended with %d",
			 launch->paths[launch->path], (long)launch->status);
	}
	__atomic_store_n(&launch->settled, 1, __ATOMIC_RELEASE);
	sys1(SYS_exit_group, 0);
	return 0;
}

/*
 * It has ended before the child of the fork goes on: whoever looks for children finds none that the
 * program has not made.
 */
static int run_middle_beside(void *arg)
{
	struct launch *launch = arg;
	sys0(SYS_setsid);
	launch->beside = clone(run_beside, child_stack[1] + CHILD_STACK, CLONE_VM, arg) > 0;
	sys1(SYS_exit_group, 0);
	return 0;
}

static void add_path(struct launch *launch, const char *folder, size_t folder_len, const char *name)
{
	if (launch->path_count == sizeof(launch->paths) / sizeof(launch->paths[0]))
		return;
	char *to = launch->paths[launch->path_count];
	size_t len = strlen(name);
	if (folder_len + 1 + len >= sizeof(launch->paths[0]))
		return;
	memcpy(to, folder, folder_len);
	if (folder_len && to[folder_len - 1] != '/')
		to[folder_len++] = '/';
	memcpy(to + folder_len, name, len + 1);
	if (!sys_failed(sys3(SYS_faccessat, AT_FDCWD, to, 1 /* X_OK */)))
		launch->path_count++;
}

static void find_helper(const struct options *opt, struct launch *launch)
{
	if (opt->helper && *opt->helper) {
		add_path(launch, "", 0, opt->helper);
		return;
	}
	uintptr_t lo;
	const struct link_map *own = next_object((const void *)helper_start, &lo);
	const char *slash = own && own->l_name ? strrchr(own->l_name, '/') : NULL;
	if (slash)
		add_path(launch, own->l_name, (size_t)(slash - own->l_name), "byteledger");
	const char *path = opt->path;
	while (path && *path) {
		size_t len = strcspn(path, ":");
		if (len)
			add_path(launch, path, len, "byteledger");
		path += len + (path[len] == ':');
	}
}

/* The helper must not trace itself, nor hear what was meant for us. */
static int wanted_by_helper(const char *entry)
{
	static const char *const out[] = { "LD_PRELOAD=", "LD_AUDIT=", "LD_LIBRARY_PATH=",
					   "BYTELEDGER_", "MEMORY_PROFILER_" };
	for (size_t i = 0; i < sizeof(out) / sizeof(out[0]); i++)
		if (strncmp(entry, out[i], strlen(out[i])) == 0)
			return 0;
	return 1;
}

static struct launch launch;

/* "UNTIL=NS", which stands in no environment. */
#define UNTIL_BYTES 32

static const char *put_until(char *to, uint64_t ns)
{
	char *at = to + UNTIL_BYTES;
	*--at = '\0';
	do {
		*--at = (char)('0' + ns % 10);
	} while (ns /= 10);
	at -= sizeof(WIRE_UNTIL) - 1;
	return memcpy(at, WIRE_UNTIL, sizeof(WIRE_UNTIL) - 1);
}

/* The helper's environment: what stood in the program's at its start. */
static int copy_env(const struct options *opt)
{
	static const char *const names[] = WIRE_RECORDER_SETTINGS;
	size_t count = 0, kept = 0, text = 0;
	launch.setting_count = 0;
	for (; opt->env[count]; count++)
		text += strlen(opt->env[count]) + 1;
	uint64_t bytes = (count + 1) * sizeof(char *) + text + UNTIL_BYTES;
	long at = sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed(at))
		return 0;
	launch.env = (char **)at;
	launch.env_bytes = bytes;
	char *to = (char *)(launch.env + count + 1);
	for (size_t i = 0; i < count; i++) {
		if (!wanted_by_helper(opt->env[i]))
			continue;
		size_t len = strlen(opt->env[i]) + 1;
		launch.env[kept++] = memcpy(to, opt->env[i], len);
		to += len;
	}
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		const char *entry = options_entry(opt->env, names[i]);
		if (!entry || launch.setting_count == SETTINGS_MAX)
			continue;
		size_t len = strlen(entry) + 1;
		launch.settings[launch.setting_count++] = memcpy(to, entry, len);
		to += len;
	}
	if (opt->until_ns && launch.setting_count < SETTINGS_MAX)
		launch.settings[launch.setting_count++] = put_until(to, opt->until_ns);
	return 1;
}

void helper_prepare(const struct options *opt)
{
	find_helper(opt, &launch);
	copy_env(opt);
}

/* Everything that can be known to be missing is known here. Return: 1 @launch is complete. */
static int ready(const struct options *opt, int fd, struct wire_heap_header *heap)
{
	int subreaper = 0;
	/*
	 * The helper's exit signal of 0 becomes SIGCHLD on exec: whoever inherits it sees a child
	 * that it never made. Where that is the program itself no helper is started.
	 */
	sys2(SYS_prctl, PR_GET_CHILD_SUBREAPER, &subreaper);
	if (sys0(SYS_getpid) == 1 || subreaper || process.reaper) {
		log_line(LOG_INFO, "this process inherits orphans: no helper is started");
		return 0;
	}
	launch.output = opt->output;
	launch.fd = fd;
	launch.heap = heap;
	launch.started = 0;
	launch.settled = launch.beside = 0;
	if (!launch.path_count)
		find_helper(opt, &launch);
	if (!launch.path_count) {
		log_line(LOG_WARN,
			 "no byteledger beside the library, in PATH or in BYTELEDGER_HELPER");
		return 0;
	}
	return launch.env || copy_env(opt);
}

/* The middle one; all signals stay blocked in all of them: their handlers are the program's. */
static void start_middle(int (*run)(void *))
{
	uint64_t before = block_signals();
	int pid = clone(run, child_stack[0] + CHILD_STACK, CLONE_VM | CLONE_VFORK, &launch);
	int status;
	if (pid > 0)
		sys4(SYS_wait4, pid, &status, __WCLONE, NULL);
	unblock_signals(before);
}

int helper_start(const struct options *opt, int fd, struct wire_heap_header *heap)
{
	if (!ready(opt, fd, heap))
		return 0;
	launch.parent = NULL;
	start_middle(run_middle);
	if (!opt->track_children) {
		sys2(SYS_munmap, launch.env, launch.env_bytes);
		launch.env = NULL;
	}
	if (launch.started)
		log_line(LOG_INFO, "recorder started: %s", launch.paths[launch.path]);
	else
		log_line(LOG_WARN, "recorder %s ended with %d before it attached; raw file instead",
			 launch.paths[launch.path], (long)launch.status);
	return launch.started;
}

/* A child may have another root than the process that looked for the helper. */
static int helper_there(void)
{
	for (unsigned i = 0; i < launch.path_count; i++)
		if (!sys_failed(sys3(SYS_faccessat, AT_FDCWD, launch.paths[i], 1 /* X_OK */)))
			return 1;
	return 0;
}

int helper_start_beside(const struct options *opt, int fd, struct wire_heap_header *heap,
			struct wire_heap_header *parent)
{
	if (!ready(opt, fd, heap) || !helper_there())
		return 0;
	launch.parent = parent;
	start_middle(run_middle_beside);
	if (launch.beside)
		log_line(LOG_INFO, "recorder is started beside the child: %s", launch.paths[0]);
	else
		log_line(LOG_WARN, "the recorder could not be started");
	return launch.beside;
}

int helper_settled(void)
{
	return __atomic_load_n(&launch.settled, __ATOMIC_ACQUIRE);
}

/* ---- raw mode ---- */

/*
 * Rings that never wrap, in a sparse file: what is not touched costs nothing. The scratch memory,
 * which nobody reads, has its place there and lies in private memory.
 */
static void raw_slots(struct wire_heap_header *heap, struct wire_heap_slot *slot, unsigned shift)
{
	uint64_t off = heap->nodes_off + (uint64_t)heap->node_max * sizeof(struct wire_node);
	off = (off + 4095) & ~4095ULL;
	uint64_t scratch_off = off;
	for (uint32_t i = 0; i < heap->slot_count; i++) {
		uint32_t ring, scratch;
		wire_heap_slot_sizes(heap->slot_count, i, &ring, &scratch);
		off += scratch;
	}
	for (uint32_t i = 0; i < heap->slot_count; i++) {
		uint32_t ring, scratch;
		wire_heap_slot_sizes(heap->slot_count, i, &ring, &scratch);
		/*
		 * the further ones, of a large budget, stay small: readers refuse files of more
		 * than 16 GiB
		 */
		uint64_t bytes = (uint64_t)ring << (i < WIRE_HEAP_SLOTS || shift < 4 ? shift : 4);
		if (slot) {
			slot[i].ring_bytes = (uint32_t)bytes;
			slot[i].scratch_bytes = scratch;
			slot[i].scratch_off = scratch_off;
			slot[i].ring_off = off;
		}
		scratch_off += scratch;
		off += bytes;
	}
	heap->total_bytes = off;
}

/*
 * Size and map the file; the tables get disk space now, the rings piece by piece (ring.c): a store
 * to a page for which the disk has no room ends a program by SIGBUS. Return: the mapping, or
 * negative errno.
 */
static long raw_map(int fd, uint64_t budget, unsigned shift, uint64_t space)
{
	struct wire_heap_header layout = { 0 };
	wire_heap_layout(&layout, budget);
	raw_slots(&layout, NULL, shift);
	if (layout.total_bytes > space)
		return -ENOMEM;
	uint64_t tables = layout.nodes_off + (uint64_t)layout.node_max * sizeof(struct wire_node);
	tables = (tables + 4095) & ~4095ULL;
	uint64_t scratch = 0;
	for (uint32_t i = 0; i < layout.slot_count; i++) {
		uint32_t ring, bytes;
		wire_heap_slot_sizes(layout.slot_count, i, &ring, &bytes);
		scratch += bytes;
	}
	if (!size_allowed(layout.total_bytes))
		return -EFBIG;
	long rc = sys2(SYS_ftruncate, fd, layout.total_bytes);
	if (sys_failed(rc))
		return rc;
	long at = sys6(SYS_mmap, 0, (long)layout.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
		       fd, 0);
	if (sys_failed(at))
		return at;
	rc = sys4(SYS_fallocate, fd, 0, 0, tables);
	if (rc == -EOPNOTSUPP || rc == -ENOSYS) /* the same, at the price of touching it */
		rc = sys3(SYS_madvise, at, tables, MADV_POPULATE_WRITE);
	if (!sys_failed(rc))
		rc = sys6(SYS_mmap, at + (long)tables, (long)scratch, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	if (sys_failed(rc)) {
		sys2(SYS_munmap, at, layout.total_bytes);
		return rc;
	}
	struct wire_heap_header *heap = (struct wire_heap_header *)at;
	*heap = layout;
	raw_slots(heap, (struct wire_heap_slot *)((char *)heap + heap->slots_off), shift);
	return at;
}

struct wire_heap_header *helper_raw(const struct options *opt)
{
	char path[1024];
	size_t len;
	uint64_t space = space_allowed(), budget = budget_within(opt->budget, space);
	if (!budget || !*opt->output || !options_file(path, sizeof(path) - 16, opt->output, 0))
		return NULL;
	len = strlen(path);
	strcpy(path + len, WIRE_RAW_SUFFIX);
	len += sizeof(WIRE_RAW_SUFFIX) - 1;
	long fd = -1;
	for (int i = 0; i < 1000; i++) {
		fd = sys4(SYS_openat, AT_FDCWD, path,
			  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd != -EEXIST)
			break;
		/* an existing file is never overwritten: OUTPUT.raw.1, .2 ... */
		int n = i + 1, digits = n > 99 ? 3 : n > 9 ? 2 : 1;
		path[len] = '.';
		path[len + 1 + (size_t)digits] = '\0';
		for (int d = digits; d; d--, n /= 10)
			path[len + (size_t)d] = (char)('0' + n % 10);
	}
	if (sys_failed(fd)) {
		log_line(LOG_ERROR, "cannot create %s: error %d", path, -fd);
		return NULL;
	}
	/*
	 * 1 GiB for each of the first threads, or what limits of file size and address space leave;
	 * all of it sparse
	 */
	long at = -1;
	for (unsigned shift = 9; shift-- > 0 && sys_failed(at);)
		at = raw_map((int)fd, budget, shift, space);
	if (at == -ENOSPC) /* with the smallest tables */
		at = raw_map((int)fd, WIRE_HEAP_BUDGET_MIN, 8, space);
	sys1(SYS_close, fd);
	if (sys_failed(at)) {
		sys3(SYS_unlinkat, AT_FDCWD, path, 0);
		log_line(LOG_ERROR, "cannot map %s: error %d", path, -at);
		return NULL;
	}
	begin((struct wire_heap_header *)at, opt, WIRE_FULL_DROP);
	log_line(LOG_INFO, "raw mode: %s", path);
	return (struct wire_heap_header *)at;
}
