/* SPDX-License-Identifier: Apache-2.0 */
/* start.c - from the first hooked call to the first recorded one. */
#include "preload/start.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "preload/control.h"
#include "preload/fork.h"
#include "preload/helper.h"
#include "preload/libc.h"
#include "preload/log.h"
#include "preload/modules.h"
#include "preload/more.h"
#include "preload/next.h"
#include "preload/options.h"
#include "preload/patched.h"
#include "preload/thread.h"
#include "wire/heap_start.h"

extern void *__libc_stack_end; /* the loader's: where the program's arguments begin */

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

void own_memory_name(const void *at, uint64_t bytes)
{
	sys5(SYS_prctl, PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, "byteledger");
}

int own_range_add(const void *at, uint64_t bytes)
{
	struct wire_heap_header *heap = process.heap;
	for (unsigned i = 0; i < sizeof(heap->own_ranges) / sizeof(heap->own_ranges[0]); i++) {
		if (heap->own_ranges[i][1])
			continue;
		heap->own_ranges[i][0] = (uint64_t)at;
		heap->own_ranges[i][1] = (uint64_t)at + bytes;
		return 1;
	}
	return 0;
}

static void take_heap(struct wire_heap_header *heap)
{
	process.heap = heap;
	process.slots = (struct wire_heap_slot *)((char *)heap + heap->slots_off);
	process.pid = (uint32_t)sys0(SYS_getpid);
	process.free_stacks = heap->free_stacks;
	process.sample_bytes = heap->sample_bytes;
	own_range_add(heap, heap->total_bytes);
	own_enter();
}

void *own_memory(uint64_t bytes)
{
	long rc = sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed(rc))
		return NULL;
	if (!own_range_add((void *)rc, bytes)) {
		sys2(SYS_munmap, rc, bytes);
		return NULL;
	}
	own_memory_name((void *)rc, bytes);
	return (void *)rc;
}

/*
 * Whether the places in the header lie within the file: a wrong descriptor must not crash the
 * program.
 */
static int header_fits(const struct wire_heap_header *h, uint64_t bytes)
{
	uint64_t end;
	if (h->magic != WIRE_HEAP_MAGIC || h->version != WIRE_HEAP_VERSION ||
	    h->header_bytes != sizeof(*h) || h->total_bytes != bytes || !h->slot_count)
		return 0;
	if (__builtin_add_overflow(h->slots_off,
				   (uint64_t)h->slot_count * sizeof(struct wire_heap_slot), &end) ||
	    end > bytes)
		return 0;
	if (__builtin_add_overflow(h->modules_off,
				   (uint64_t)h->module_max * sizeof(struct wire_module), &end) ||
	    end > bytes)
		return 0;
	if (__builtin_add_overflow(h->strings_off, (uint64_t)h->string_bytes, &end) || end > bytes)
		return 0;
	if (__builtin_add_overflow(h->index_off, (uint64_t)h->index_entries * 4, &end) ||
	    end > bytes)
		return 0;
	if (__builtin_add_overflow(h->nodes_off, (uint64_t)h->node_max * sizeof(struct wire_node),
				   &end) ||
	    end > bytes)
		return 0;
	const struct wire_heap_slot *slot = (const void *)((const char *)h + h->slots_off);
	for (uint32_t i = 0; i < h->slot_count; i++) {
		uint64_t ring = slot[i].ring_bytes;
		if (ring < 4096 || (ring & (ring - 1)) ||
		    __builtin_add_overflow(slot[i].ring_off, ring, &end) || end > bytes ||
		    __builtin_add_overflow(slot[i].scratch_off, (uint64_t)slot[i].scratch_bytes,
					   &end) ||
		    end > bytes)
			return 0;
	}
	return 1;
}

/*
 * The parent's file, if @fd is one: the number may have been taken over by something of the
 * program's own, which is left alone. Closes @fd if it was ours.
 */
static struct wire_heap_header *map_shared(int fd)
{
	struct stat st;
	const long sealed = F_SEAL_SHRINK | F_SEAL_GROW;
	long seals = sys2(SYS_fcntl, fd, F_GET_SEALS);
	if (sys_failed(seals) || (seals & sealed) != sealed ||
	    sys_failed(sys2(SYS_fstat, fd, &st)) || st.st_size < 65536)
		return NULL;
	long rc = sys6(SYS_mmap, 0, st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (sys_failed(rc))
		return NULL;
	struct wire_heap_header *heap = (struct wire_heap_header *)rc;
	if (!header_fits(heap, (uint64_t)st.st_size) ||
	    __atomic_load_n(&heap->attached, __ATOMIC_RELAXED)) {
		sys2(SYS_munmap, rc, st.st_size);
		return NULL;
	}
	sys1(SYS_close, fd);
	sys3(SYS_madvise, rc, st.st_size, MADV_DONTDUMP);
	return heap;
}

static void find_main_stack(void)
{
	struct rlimit limit = { 0 };
	sys4(SYS_prlimit64, 0, RLIMIT_STACK, NULL, &limit);
	uint64_t bytes = limit.rlim_cur;
	if (bytes > 1u << 30)
		bytes = 1u << 30;
	if (bytes < 128u << 10) /* the arguments alone may have more: the kernel grants that much */
		bytes = 128u << 10;
	process.main_stack_hi = ((uint64_t)__libc_stack_end + 4095) & ~4095UL;
	process.main_stack_lo = process.main_stack_hi - bytes;
}

/* As glibc registers it from 2.35 on, if nobody told it not to. */
static void find_rseq(void)
{
	if (!libc_find_object() || !libc_has(dlsym)) /* then the names are there */
		return;
	const unsigned *size = dlsym(RTLD_DEFAULT, "__rseq_size");
	const ptrdiff_t *offset = dlsym(RTLD_DEFAULT, "__rseq_offset");
	if (size && offset && *size)
		process.rseq_offset = *offset;
}

/* As /proc/self/cmdline has them, where that is: in a root of its own often nothing is at /proc. */
static uint32_t read_arguments(char *to, uint32_t room)
{
	uint32_t have = 0;
	long fd = sys4(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0), n = 1;
	if (sys_failed(fd)) {
		long count = *(const long *)__libc_stack_end;
		char *const *word = (char *const *)__libc_stack_end + 1;
		for (long i = 0; i < count && word[i]; i++) {
			size_t bytes = strlen(word[i]) + 1;
			if (bytes > room - have)
				return 0;
			memcpy(to + have, word[i], bytes);
			have += (uint32_t)bytes;
		}
		return have;
	}
	for (; have < room; have += (uint32_t)n) {
		n = sys3(SYS_read, fd, to + have, room - have);
		if (sys_failed(n) || n == 0)
			break;
	}
	sys1(SYS_close, fd);
	return n ? 0 : have;
}

/*
 * Short programs have ended before a recorder of the library's has a look at /proc. Nobody else
 * enters strings yet.
 */
static void note_arguments(struct wire_heap_header *heap)
{
	uint32_t room = heap->string_bytes - heap->string_used;
	if (room > WIRE_CMDLINE_BYTES + 1)
		room = WIRE_CMDLINE_BYTES + 1;
	uint32_t have = read_arguments((char *)heap + heap->strings_off + heap->string_used, room);
	if (!have)
		return;
	heap->cmdline_off = heap->string_used;
	heap->cmdline_bytes = have;
	heap->string_used += have;
}

/* From here on the recorder may look. */
static void attach(struct wire_heap_header *heap)
{
	if (options_program(heap->exe, sizeof(heap->exe)) >= sizeof(heap->exe) - 1)
		heap->exe[0] = '\0';
	note_arguments(heap);
	heap->target_pid = (uint32_t)sys0(SYS_getpid);
	heap->parent_pid = (uint32_t)sys0(SYS_getppid);
	__atomic_store_n(&heap->attached, 1, __ATOMIC_RELEASE);
}

/* The shared memory is there: everything else that a hook needs. Return: 1 ready. */
static int prepare(struct wire_heap_header *heap)
{
	take_heap(heap);
	uint64_t more = more_bytes(heap);
	void *memory = own_memory(unwind_process_bytes() + more);
	if (!memory)
		return 0;
	process.pieces = (uint32_t)(more / MORE_PIECE);
	/* the child of a fork finds the word wiped, however it was made */
	if (sys_failed(sys3(SYS_madvise, &proc, sizeof(proc), MADV_WIPEONFORK)))
		return 0;
	pthread_key_t key;
	if (next.key_create && next.key_create(&key, thread_end) == 0) {
		process.key = key;
		process.have_key = 1;
	}
	find_main_stack();
	find_rseq();
	modules_init();
	process.unwind = unwind_process_init(memory, heap, module_find, page_probe, NULL);
	if (!heap->attached)
		attach(heap);
	return 1;
}

static struct options *options;

/* The objects that are known: their nodes and entries name rows of process.heap still. */
static void carry_objects(struct wire_heap_header *heap)
{
	const struct wire_heap_header *old = process.heap;
	/* rows are whole before they are counted, whoever entered one at the moment of the fork */
	heap->module_gen = old->module_gen;
	heap->module_count = old->module_count;
	heap->string_used = old->string_used;
	heap->modules_nameless = old->modules_nameless;
	memcpy((char *)heap + heap->modules_off, (const char *)old + old->modules_off,
	       old->module_count * sizeof(struct wire_module));
	memcpy((char *)heap + heap->strings_off, (const char *)old + old->strings_off,
	       old->string_used);
}

/* What a followed child takes along from its parent's book, which is process.heap still. */
static void carry_over(struct wire_heap_header *heap, const struct thread *t)
{
	const struct wire_heap_header *old = process.heap;
	heap->free_stacks = old->free_stacks;
	heap->sample_bytes = old->sample_bytes;
	heap->name_threads = old->name_threads;
	heap->stamp_every_event = old->stamp_every_event;
	heap->enabled_wanted = old->enabled_wanted;
	heap->forked_from = process.pid;
	heap->fork_number = t->fork_number;
	carry_objects(heap);
}

/*
 * Where a process could not start one its children wait for the answer, too: they have a raw file
 * for it.
 */
static int start_helper(const struct thread *child, struct wire_heap_header *heap, int fd)
{
	if (!child || process.raw)
		return helper_start(options, fd, heap);
	process.starter = (uint32_t)helper_start_beside(options, fd, heap, process.heap);
	return (int)process.starter;
}

/* A recorder, or a raw file. Return: the shared memory, attached; NULL: neither. */
static struct wire_heap_header *open_alone(const struct thread *child)
{
	int fd;
	struct wire_heap_header *heap = helper_shared(options, &fd);
	if (heap) {
		sys3(SYS_madvise, heap, heap->total_bytes, MADV_DONTDUMP);
		if (child) {
			carry_over(heap, child);
			heap->on_full = process.raw ? options->on_full : process.heap->on_full;
		}
		attach(heap);
		int helper = start_helper(child, heap, fd);
		sys1(SYS_close, fd);
		process.raw = 0;
		if (helper)
			return heap;
		sys2(SYS_munmap, heap, heap->total_bytes);
	}
	heap = helper_raw(options);
	if (!heap) {
		log_line(LOG_ERROR, "nothing is recorded: no recorder, and no raw file");
		return NULL;
	}
	if (child)
		carry_over(heap, child);
	strcpy(heap->filter, options->filter);
	process.raw = 1;
	return heap;
}

/* Without a byteledger parent. */
static uint32_t start_alone(void)
{
	if (!*options->output) {
		log_line(LOG_ERROR, "nothing is recorded: BYTELEDGER_OUTPUT is empty");
		return MODE_OFF;
	}
	if (wire_filter_check(options->filter) < 0) {
		log_line(LOG_ERROR,
			 "nothing is recorded: FILTER=%s is not of the form "
			 "[!]thread:NAME,[!]module:NAME, see byteledger-preload(7)",
			 options->filter);
		return MODE_OFF;
	}
	if (options->sample_bytes && wire_filter_has_module(options->filter)) {
		log_line(LOG_ERROR,
			 "nothing is recorded: FILTER=%s with SAMPLE_BYTES: which module "
			 "called is not known of stacks that are left out",
			 options->filter);
		return MODE_OFF;
	}
	struct wire_heap_header *heap = open_alone(NULL);
	process.alone = 1;
	return heap && prepare(heap) ? MODE_ON : MODE_OFF;
}

static uint32_t late; /* start_late() has begun */

/*
 * What was found out about the program holds for the child: the next definitions, the modules, the
 * stepper's rules. Its stacks get numbers of their own, and its thread, which has another number
 * now, a place of its own.
 */
void start_child(struct thread *t)
{
	/*
	 * of another epoch: a hook of this thread's may have looked before the signal whose handler
	 * forked
	 */
	uint32_t word = t->fork_word + MODE_EPOCH;
	process.forked = 1;
	process.starter = 0; /* the parent's */
	if (process.starter_heap)
		sys2(SYS_munmap, process.starter_heap, sizeof(*process.starter_heap));
	process.starter_heap = NULL;
	process.early = (struct wire_lost_count){ 0 };
	modules_forked();
	next_forked();
	thread_forked();
	more_forked();
	if ((word & MODE_MASK) == MODE_IDLE) {
		/* another thread may have been about to start here, or may have started since */
		if (process.heap)
			sys2(SYS_munmap, process.heap, process.heap->total_bytes);
		process.heap = NULL;
		late = 0;
		process.pid = (uint32_t)sys0(SYS_getpid);
		t->tid = 0;
		t->sync = SYNC_UNBORN;
		__atomic_store_n((uint32_t *)&proc.word, word, __ATOMIC_RELEASE);
		return;
	}
	struct wire_heap_header *old = process.heap;
	uint64_t old_bytes = old->total_bytes;
	struct wire_heap_header *heap = open_alone(t);
	if (!heap) {
		__atomic_add_fetch(&old->unrecorded_children, 1, __ATOMIC_RELAXED);
		return;
	}
	take_heap(heap);
	/* the starter reads the header: fork_settle() lets go of it */
	process.starter_heap = process.starter ? old : NULL;
	uint64_t kept = process.starter ? sizeof(*old) : 0;
	kept = (kept + 4095) & ~4095UL;
	sys2(SYS_munmap, (char *)old + kept, old_bytes - kept);
	process.slot_hint = 0;
	process.slot_top = 0;
	process.forks = 0;
	own_range_add(process.unwind,
		      unwind_process_bytes() + (uint64_t)process.pieces * MORE_PIECE);
	unwind_process_forked(process.unwind);
	unwind_process_init(process.unwind, heap, module_find, page_probe, NULL);
	if (!heap->attached)
		attach(heap);
	thread_renew(t, process.pid); /* the stack's bounds are what they were */
	__atomic_store_n((uint32_t *)&proc.word, word, __ATOMIC_RELEASE);
	log_line(LOG_INFO, "recorded as the child of a fork");
}

static void *zeroed(size_t size)
{
	return next.calloc(1, size);
}

static COLD uint32_t start(void)
{
	next_resolve();
	__atomic_store_n(&process.resolved, 1, __ATOMIC_RELEASE);
	if (getauxval(AT_SECURE))
		return MODE_OFF;
	options = options_read((char **)__libc_stack_end);
	if (options->stranger)
		return MODE_OFF;
	process.next = options->next;
	process.library = options->library;
	if (options->zero_memory && next.calloc)
		next.malloc = zeroed;
	control_signals(options->usr1, options->usr2);
	process.follow = (uint32_t)options->track_children;
	if (process.follow)
		helper_prepare(options);
	if (options->fd < 0) {
		process.pid = (uint32_t)sys0(SYS_getpid);
		process.wanted = !options->disabled;
		return options->disabled ? MODE_IDLE : start_alone();
	}
	struct wire_heap_header *heap = map_shared(options->fd);
	if (!heap) {
		log_line(LOG_ERROR,
			 "nothing is recorded: descriptor %d is not a recorder's shared memory",
			 (long)options->fd);
		return MODE_OFF;
	}
	if (!prepare(heap)) {
		log_line(LOG_ERROR, "nothing is recorded: no memory");
		return MODE_OFF;
	}
	if (options->disabled)
		heap->enabled_wanted = 0;
	return heap->enabled_wanted ? MODE_ON : MODE_SUSPENDED;
}

void start_once(void)
{
	uint32_t none = START_NONE;
	if (!__atomic_compare_exchange_n(&process.started, &none, START_BUSY, 0, __ATOMIC_ACQUIRE,
					 __ATOMIC_RELAXED))
		return;
	int saved_errno = errno;
	/* a handler that jumped out of the start would leave it begun for good */
	uint64_t before = block_signals();
	uint32_t mode = start();
	if (mode != MODE_OFF && options->own_allocators)
		own_hook_all();
	if (mode != MODE_OFF && allocator_is_libc && !process.free_stacks)
		mode |= MODE_PLAIN;
	__atomic_store_n((uint32_t *)&proc.word, mode, __ATOMIC_SEQ_CST);
	__atomic_store_n(&process.started, START_DONE, __ATOMIC_RELEASE);
	count_early();
	unblock_signals(before);
	errno = saved_errno;
}

void start_late(void)
{
	uint64_t before = block_signals(); /* as in start_once() */
	if (__atomic_exchange_n(&late, 1, __ATOMIC_ACQUIRE)) {
		unblock_signals(before);
		return;
	}
	options->disabled = 0;
	uint32_t mode = start_alone();
	if (mode != MODE_OFF && allocator_is_libc && !process.free_stacks)
		mode |= MODE_PLAIN;
	__atomic_store_n((uint32_t *)&proc.word, mode, __ATOMIC_RELEASE);
	unblock_signals(before);
}

/* ---- into a process that runs ---- */

/*
 * The place of the book before stays readable, whatever a thread still knows of it: @heap comes
 * there, or nothing does. Return: where @heap is now.
 */
static struct wire_heap_header *succeed(struct wire_heap_header *heap)
{
	struct wire_heap_header *old = process.heap;
	uint64_t old_bytes = old->total_bytes, bytes = heap->total_bytes;
	if (old_bytes == bytes) {
		long rc = sys5(SYS_mremap, heap, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, old);
		return sys_failed(rc) ? heap : (struct wire_heap_header *)rc;
	}
	sys6(SYS_mmap, (long)old, (long)old_bytes, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
	return heap;
}

/* Another session: what was found out about the program holds. */
static void begin_again(struct wire_heap_header *heap)
{
	if (process.pid != (uint32_t)sys0(SYS_getpid)) { /* the child of a fork, not followed */
		process.forked = 1;
		modules_forked();
		next_forked();
		thread_forked();
	}
	carry_objects(heap);
	heap = succeed(heap);
	process.early = (struct wire_lost_count){ 0 };
	process.slot_hint = process.slot_top = process.forks = 0;
	process.raw = process.alone = 0;
	take_heap(heap);
	own_range_add(process.unwind,
		      unwind_process_bytes() + (uint64_t)process.pieces * MORE_PIECE);
	unwind_process_forked(process.unwind);
	unwind_process_init(process.unwind, heap, module_find, page_probe, NULL);
	attach(heap);
	modules_closed();
}

#define OTHER_NS 2000000000u

int start_injected(const struct options *asked, int *fd)
{
	const struct wire_heap_header *old = process.heap;
	uint32_t mode = proc.word & MODE_MASK, none = START_NONE;
	/* somebody else is about to, or a call of the program's is waited for */
	if (mode == MODE_IDLE || (mode > MODE_OFF && process.raw) ||
	    (old && !old->recorder_pid && !old->detach && now_ns() - old->start_ns < OTHER_NS &&
	     process.pid == (uint32_t)sys0(SYS_getpid)))
		return -EBUSY;
	/* who asks has made sure that the recorder is gone: no hook has heard of that yet */
	if (mode > MODE_OFF)
		__atomic_store_n((uint32_t *)&proc.word, (proc.word & ~MODE_MASK) | MODE_OFF,
				 __ATOMIC_SEQ_CST);
	int again = !__atomic_compare_exchange_n(&process.started, &none, START_BUSY, 0,
						 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	/* it has refused to record, or is about to begin */
	if (again && (none != START_DONE || !process.unwind))
		return -EBUSY;
	if (!again) {
		next_resolve();
		__atomic_store_n(&process.resolved, 1, __ATOMIC_RELEASE);
	}
	struct wire_heap_header *heap = helper_shared(asked, fd);
	int ready = heap != NULL;
	if (heap) {
		sys3(SYS_madvise, heap, heap->total_bytes, MADV_DONTDUMP);
		if (again)
			begin_again(heap);
		else
			ready = prepare(heap);
	}
	if (!again) {
		if (ready)
			pthread_atfork(fork_prepare, fork_parent, fork_child);
		__atomic_store_n((uint32_t *)&proc.word, MODE_OFF, __ATOMIC_SEQ_CST);
		__atomic_store_n(&process.started, START_DONE, __ATOMIC_RELEASE);
	}
	if (!ready)
		return -ENOMEM;
	/* once the word says so, for the threads' words are of the session before until then */
	__atomic_add_fetch(&process.session, 1, __ATOMIC_SEQ_CST);
	return 0;
}

HIDDEN long fail_syscall(long rc);
HIDDEN long fail_syscall(long rc)
{
	errno = (int)-rc;
	return -1;
}

/*
 * Programs that never allocate are attached too. What may take locks of libc's waits for this
 * moment.
 */
static void begin(void)
{
	static int begun;
	struct thread *t = &self;
	uint32_t sync = t->sync;
	if (begun)
		return;
	begun = 1;
	t->sync = SYNC_OWN;
	t->own = 1;
	if (process.started == START_NONE)
		start_once();
	/* here nobody holds a lock of libc's */
	pthread_atfork(fork_prepare, fork_parent, fork_child);
	if (libc_has(dlerror)) {
		dlerror(); /* a program that asks must not hear about our lookups; */
		dlerror(); /* the second call releases the text */
	}
	t->own = 0;
	t->sync = sync;
}

/*
 * It comes before the constructors of all other objects (-z initfirst), libc's among them: in a
 * program with a malloc of its own, what they allocate leads to no hook before (measured: 400
 * blocks, 1.5 MiB of rustc), and threads that they start would keep it from being hooked at all.
 *
 * It comes before what an executable's .preinit_array has, too: the runtime of a sanitizer, whose
 * malloc() must not be called before (dlsym() does for a name that is not there). Such a program
 * waits for begin_main(), or the first call of a hook.
 */
__attribute__((constructor)) static void constructed(void)
{
	uintptr_t lo;
	const struct link_map *own = next_object((const void *)constructed, &lo),
			      *libc = next_object((const void *)getauxval, &lo), *map = own;
	/* what is preloaded, or linked, stands before the C library, which it needs */
	while (map && map != libc)
		map = map->l_next;
	process.injected = own && libc && !map;
	if (process.injected) /* byteledger_heap_inject() begins */
		return;
	if (!next_has_preinit((const void *)getauxval(AT_ENTRY)))
		begin();
}

HIDDEN void begin_main(void);
HIDDEN void begin_main(void)
{
	begin();
}
