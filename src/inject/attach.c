/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "inject/attach_impl.h"
#include "inject/call.h"
#include "inject/freeze.h"
#include "inject/walk.h"
#include "wire/heap_start.h"

#define TRY_NS 2000000000u   /* for a safe place */
#define PAUSE_NS 3000000u    /* between two looks */
#define LOAD_NS 20000000000u /* for the loader, which reads from a disk */
#define STEPS 20000u         /* through a call of the allocator, or a page that it clears */
#define STEPPERS 4u          /* threads that are tried so at a time */
#define STACK_BYTES (512u << 10)
#define RED_ZONE 128u

/* ---- a thread that may be led aside ---------------------------------------------------------- */

/* Where the library is already, and an allocator beside the C library's. */
static void find_ranges(struct objects *objects, struct walk_ask *ask)
{
	*ask = (struct walk_ask){ .objects = objects };
	struct object *own = objects_named(objects, WIRE_PRELOAD_NAME);
	if (own) {
		uint64_t at = object_find(objects, own, WIRE_INJECT_SYNC);
		if (at)
			target_read(objects->target, at, &ask->sync_at, sizeof(ask->sync_at));
		ask->own_lo = own->lo;
		ask->own_hi = own->hi;
	}
	for (size_t i = 0; i < objects->count; i++) {
		struct object *o = &objects->list[i];
		if (o == own || o->is_libc || o->is_loader || o->is_vdso ||
		    !object_find(objects, o, "malloc") || !object_find(objects, o, "free"))
			continue;
		ask->allocator_lo = o->lo;
		ask->allocator_hi = o->hi;
		break;
	}
}

struct look {
	struct walk_ask ask;
	/* what its place was */
	enum walk_place place;
	unsigned seen[WALK_GONE + 1];
};

static int is_out(void *ctx, pid_t tid)
{
	struct look *look = ctx;
	int waits;
	uint64_t pc = walk_pc(tid, &waits);
	const struct object *o = objects_at(look->ask.objects, pc);
	if (!o || waits || o->is_libc || o->is_loader || o->is_vdso ||
	    pc - look->ask.allocator_lo < look->ask.allocator_hi - look->ask.allocator_lo ||
	    pc - look->ask.own_lo < look->ask.own_hi - look->ask.own_lo)
		return 0;
	look->place = walk_place(&look->ask, tid);
	return look->place == WALK_SAFE;
}

/* All stand still. Return: the number of the one to be led aside; -1: none. */
static int choose(const struct freeze *f, struct look *look)
{
	int safe = -1, loads = 0;
	memset(look->seen, 0, sizeof(look->seen));
	for (size_t i = 0; i < f->count; i++) {
		enum walk_place place = walk_place(&look->ask, f->threads[i].tid);
		look->seen[place]++;
		loads |= place == WALK_LOADING || place == WALK_HOOK;
		if (place == WALK_SAFE && !f->threads[i].signal && safe < 0)
			safe = (int)i;
	}
	return loads ? -1 : safe;
}

/*
 * Nobody stands at a safe place, and all run: one of those that are in the allocator comes out of
 * it, step by step, while the others go on. Return: its tid; 0: it did not come to it.
 */
static pid_t lead_out(struct freeze *f, struct look *look, unsigned turn)
{
	size_t count = f->count;
	if (look->seen[WALK_LOADING] || look->seen[WALK_HOOK])
		return 0;
	for (size_t k = 0; k < count; k++) {
		size_t i = (k + turn) % count;
		pid_t tid = f->threads[i].tid;
		int waits = 0;
		if (!walk_pc(tid, &waits) || waits || f->threads[i].signal ||
		    walk_place(&look->ask, tid) != WALK_BUSY)
			continue;
		freeze_keep(f, tid);
		int rc = call_leave(tid, is_out, look, STEPS, &f->threads[0].signal);
		return rc == 1 ? tid : 0;
	}
	return 0;
}

static int no_place(const struct look *look, pid_t pid, struct err *err)
{
	err_set(err, -EINVAL,
		"cannot come into process %d: no thread of it stood at a place where that is safe "
		"within 2 s; nothing was changed",
		(int)pid);
	if (look->seen[WALK_LOADING])
		return err_hint(err, "it is loading a library: once more, in a moment");
	if (look->seen[WALK_UNKNOWN])
		return err_hint(err,
				"its threads' stacks cannot be followed (code that was made "
				"while it ran, or without call frames); 'byteledger sample -p "
				"%d' needs no such place",
				(int)pid);
	return err_hint(err,
			"once more, in a moment; 'byteledger sample -p %d' needs no such place",
			(int)pid);
}

/* Stop one thread at a safe place; @f holds it alone. Return: its tid, or negative errno. */
static pid_t hold_one(struct attach *a, struct freeze *f, struct err *err)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + TRY_NS;
	struct look look = { .place = WALK_GONE };
	for (unsigned turn = 0;; turn++) {
		int rc = attach_objects(a, err);
		if (rc < 0)
			return rc;
		find_ranges(&a->objects, &look.ask);
		rc = attach_freeze(a, f, err);
		if (rc < 0) {
			freeze_end(f);
			return rc;
		}
		if (!f->count) {
			freeze_end(f);
			return err_set(err, -ESRCH, "process %d has ended", (int)a->pid);
		}
		int at = choose(f, &look);
		if (at >= 0) {
			pid_t tid = f->threads[at].tid;
			freeze_keep(f, tid);
			return tid;
		}
		pid_t out = lead_out(f, &look, turn);
		if (out > 0)
			return out;
		freeze_end(f);
		if (clock_ns(CLOCK_MONOTONIC) > until)
			return no_place(&look, a->pid, err);
		const struct timespec pause = { .tv_nsec = PAUSE_NS };
		nanosleep(&pause, NULL);
	}
}

/* ---- what it does there ---------------------------------------------------------------------- */

/* A system call instruction of the C library's that is followed by a return. */
static uint64_t find_instruction(struct attach *a, struct object *libc)
{
	static const char *const plain[] = { "getppid", "getpid", "getuid" };
	uint8_t code[256];
	for (size_t k = 0; k < ARRAY_LEN(plain); k++) {
		uint64_t at = object_find(&a->objects, libc, plain[k]);
		ssize_t got = at ? target_read(&a->target, at, code, 32) : 0;
		for (ssize_t i = 0; i + 2 < got; i++)
			if (code[i] == 0x0f && code[i + 1] == 0x05 && code[i + 2] == 0xc3)
				return at + (uint64_t)i;
	}
	return 0;
}

/* Where a handler of a signal returns to: mov $SYS_rt_sigreturn, %rax; syscall. 0: not found. */
static uint64_t find_restorer(struct attach *a, const struct object *libc)
{
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
	static uint8_t text[64u << 10];
	for (uint64_t at = libc->lo; at < libc->hi; at += sizeof(text) - sizeof(code)) {
		ssize_t got = target_read(&a->target, at, text, sizeof(text));
		const uint8_t *found =
			got > 0 ? memmem(text, (size_t)got, code, sizeof(code)) : NULL;
		if (found)
			return at + (uint64_t)(found - text);
	}
	return 0;
}

/*
 * A frame on the thread's own stack, as long as there is no other: on the first thread's alone, for
 * that has room, and others may be as small as coroutines'. 0: it stands on none.
 */
static uint64_t own_guard(struct attach *a, const struct call *call)
{
	char *line = NULL;
	size_t room = 0;
	uint64_t at = call_stack(call), found = 0;
	int fd = openat(a->target.dir, "maps", O_RDONLY | O_CLOEXEC);
	FILE *maps = fd < 0 ? NULL : fdopen(fd, "r");
	while (maps && !found && getline(&line, &room, maps) > 0) {
		unsigned long long lo, hi;
		if (strstr(line, "[stack]") && sscanf(line, "%llx-%llx", &lo, &hi) == 2 &&
		    at < hi && at > lo + RED_ZONE + call_guard_bytes(call))
			found = (at - RED_ZONE - call_guard_bytes(call)) & ~63ull;
	}
	free(line);
	if (maps)
		fclose(maps);
	else if (fd >= 0)
		close(fd);
	return found;
}

struct aside {
	struct attach *attach;
	struct call *call;
	/* memory of its own: a stack, and above that what is handed over */
	uint64_t stack, data;
};

static int put(struct aside *in, pid_t tid, uint64_t at, const void *from, size_t bytes,
	       struct err *err)
{
	(void)in;
	for (size_t i = 0; i < bytes; i += sizeof(uint64_t)) {
		uint64_t word = 0;
		memcpy(&word, (const char *)from + i,
		       bytes - i < sizeof(word) ? bytes - i : sizeof(word));
		if (ptrace(PTRACE_POKEDATA, tid, (void *)(at + i), (void *)word) < 0)
			return err_set(err, -errno, "cannot write into process %d", (int)tid);
	}
	return 0;
}

static int load_library(struct aside *in, pid_t tid, const char *path, struct err *err)
{
	struct attach *a = in->attach;
	char said[256] = "";
	uint64_t handle = 0, text = 0, open = 0, why = 0, mode = RTLD_NOW_LOCAL;
	static const char *const places[] = { "libc.so.6", "libdl.so.2" };
	for (size_t i = 0; i < ARRAY_LEN(places) && !open; i++) {
		struct object *o = objects_named(&a->objects, places[i]);
		open = o ? object_find(&a->objects, o, "dlopen") : 0;
		why = o ? object_find(&a->objects, o, "dlerror") : 0;
	}
	struct object *libc = objects_named(&a->objects, "libc.so.6");
	if (!open && libc) { /* before glibc 2.34, where the program has no libdl */
		open = object_find(&a->objects, libc, "__libc_dlopen_mode");
		mode |= RTLD_DLOPEN;
	}
	if (!open)
		return err_set(err, -EINVAL, "its C library shows no dlopen()");
	int rc = put(in, tid, in->data, path, strlen(path) + 1, err);
	if (rc == 0)
		rc = call_function(in->call, open, in->stack,
				   (const uint64_t[]){ in->data, mode, 0 }, LOAD_NS, &handle, err);
	if (rc < 0 || handle)
		return rc;
	if (why &&
	    call_function(in->call, why, in->stack, (const uint64_t[]){ 0, 0, 0 }, LOAD_NS, &text,
			  err) == 0 &&
	    text) {
		ssize_t got = target_read(&a->target, text, said, sizeof(said) - 1);
		said[got > 0 ? got : 0] = '\0';
	}
	return err_set(err, -EINVAL, "its loader says: %s", *said ? said : "it cannot be loaded");
}

static int call_library(struct aside *in, pid_t tid, const struct attach_opt *opt, struct err *err)
{
	struct attach *a = in->attach;
	struct wire_inject *said = &a->shared->said;
	uint64_t answer;
	struct object *own = objects_named(&a->objects, WIRE_PRELOAD_NAME);
	uint64_t at = own ? object_find(&a->objects, own, WIRE_INJECT_CALL) : 0;
	if (!at)
		return err_set(err, -EINVAL,
			       "another version of the library is in it already, which cannot "
			       "record again");
	a->shared->own_lo = own->lo;
	a->shared->own_call = at;
	if (target_read(&a->target, at, a->shared->own_code, ATTACH_CODE) != ATTACH_CODE)
		return err_set(err, -EIO, "the library cannot be read");
	*said = (struct wire_inject){ .magic = WIRE_INJECT_MAGIC,
				      .budget_bytes = opt->budget_bytes,
				      .sample_bytes = opt->sample_bytes,
				      .on_full = opt->on_full,
				      .free_stacks = opt->free_stacks,
				      .stamp_every_event = opt->stamp_every_event,
				      .name_threads = opt->name_threads };
	int rc = put(in, tid, in->data, said, offsetof(struct wire_inject, hooks), err);
	if (rc == 0)
		rc = call_function(in->call, at, in->stack, (const uint64_t[]){ in->data, 0, 0 },
				   LOAD_NS, &answer, err);
	if (rc < 0)
		return rc;
	if ((int32_t)answer < 0) {
		int code = (int32_t)answer;
		err_set(err, code, "the library cannot record there");
		return code == -EBUSY ? err_hint(err, "it is recorded already, or waits for that")
		       : code == -EPROTO ? err_hint(err, "another version of it is there already")
					 : err_hint(err, "has it memory and descriptors enough?");
	}
	if (answer != WIRE_INJECT_DONE ||
	    target_read(&a->target, in->data, said, sizeof(*said)) != sizeof(*said) ||
	    said->hook_count > WIRE_INJECT_HOOKS)
		return err_set(err, -EIO, "the library's answer cannot be read");
	int pidfd = (int)syscall(SYS_pidfd_open, a->pid, 0);
	a->shared->memory = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, said->fd, 0);
	rc = a->shared->memory < 0 ? err_set(err, -errno, "cannot take its shared memory") : 0;
	if (pidfd >= 0)
		close(pidfd);
	int64_t closed;
	call_system(in->call, SYS_close, (const uint64_t[6]){ (uint64_t)said->fd }, &closed, NULL);
	return rc;
}

/* The thread @tid is stopped at a safe place. */
static int aside(struct attach *a, pid_t tid, const struct attach_opt *opt, struct err *err)
{
	struct aside in = { .attach = a };
	struct object *libc = objects_named(&a->objects, "libc.so.6");
	uint64_t instruction = libc ? find_instruction(a, libc) : 0;
	int64_t at = 0, done;
	if (!instruction) {
		err_set(err, -EINVAL,
			"its C library is not glibc, which the recording library needs");
		return err_hint(err, "'byteledger sample -p %d' sees by probes who allocates",
				(int)a->pid);
	}
	in.call = call_begin(tid, instruction, err);
	if (!in.call)
		return err->code;
	const uint64_t map[6] = { 0,
				  STACK_BYTES + sizeof(struct wire_inject) + PATH_MAX,
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS,
				  -1ull,
				  0 };
	uint64_t restorer = find_restorer(a, libc), own = restorer ? own_guard(a, in.call) : 0;
	int rc = own ? call_guard(in.call, own, restorer, err) : 0;
	if (rc == 0)
		rc = call_system(in.call, SYS_mmap, map, &at, err);
	if (rc == 0 && (uint64_t)at > -4096ull)
		rc = err_set(err, (int)at, "there is no memory for a stack");
	if (rc == 0) {
		in.stack = (uint64_t)at + STACK_BYTES - CALL_GUARD_MOST;
		in.data = (uint64_t)at + STACK_BYTES;
		if (restorer)
			rc = call_guard(in.call, in.stack, restorer, err);
		if (rc == 0 && !objects_named(&a->objects, WIRE_PRELOAD_NAME))
			rc = load_library(&in, tid, opt->library, err);
		if (rc == 0)
			rc = objects_read(&a->objects, &a->target, err);
		if (rc == 0)
			rc = call_library(&in, tid, opt, err);
		call_guard_again(in.call, own);
		if (rc != -ESRCH && rc != -ETIMEDOUT && rc != -EFAULT)
			call_system(in.call, SYS_munmap,
				    (const uint64_t[6]){ map[0] + (uint64_t)at, map[1] }, &done,
				    NULL);
	}
	int end = call_end(in.call);
	return rc < 0    ? rc
	       : end < 0 ? err_set(err, end, "thread %d has ended meanwhile", (int)tid)
			 : 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

int attach_come(struct attach *a, const struct attach_opt *opt, struct err *err)
{
	struct freeze f = { 0 };
	pid_t tid = hold_one(a, &f, err);
	if (tid < 0)
		return tid;
	int rc = aside(a, tid, opt, err);
	freeze_end(&f);
	if (rc == 0 && !a->shared->said.preloaded &&
	    !slots_names(&a->shared->names, &a->target, &a->shared->said))
		rc = target_fail(&a->target, -EIO, "memory", err);
	return rc;
}

struct attach *attach_begin(const struct attach_opt *opt, struct err *err)
{
	CLEANUP(attach_freep) struct attach *a = calloc(1, sizeof(*a));
	void *shared = mmap(NULL, sizeof(*a->shared), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (!a || shared == MAP_FAILED) {
		err_set(err, -ENOMEM, "cannot come into process %d", (int)opt->pid);
		return NULL;
	}
	a->shared = shared;
	a->pid = opt->pid;
	a->memory = a->pidfd = a->keeper_pipe = -1;
	if (attach_may(a, opt, err) < 0 || keep_begin(a, opt, err) < 0)
		return NULL;
	return STEAL(a);
}

int attach_take_memory(struct attach *a)
{
	int memory = a->memory;
	a->memory = -1;
	return memory;
}

/* Written while everything stands still. */
static int set_word(struct attach *a, pid_t tid, uint32_t word)
{
	errno = 0;
	uint64_t both =
		(uint64_t)ptrace(PTRACE_PEEKDATA, tid, (void *)a->shared->said.word_at, NULL);
	if (errno)
		return -errno;
	both = (both & ~0xffffffffull) | word;
	return ptrace(PTRACE_POKEDATA, tid, (void *)a->shared->said.word_at, (void *)both) < 0
		       ? -errno
		       : 0;
}

int attach_lead(struct attach *a, struct err *err)
{
	struct freeze f = { 0 };
	int rc = attach_objects(a, err);
	if (rc < 0)
		return rc;
	struct object *own = objects_named(&a->objects, WIRE_PRELOAD_NAME);
	a->own_map = own ? own->map_at : 0;
	if (!a->shared->said.preloaded)
		slots_collect(&a->shared->slots, &a->objects, &a->shared->names, a->shared->own_lo);
	if (a->led && !a->shared->slots.fresh)
		return 0;
	rc = attach_freeze(a, &f, err);
	if (rc == 0 && !f.count)
		rc = err_set(err, -ESRCH, "process %d has ended", (int)a->pid);
	if (rc == 0 && !attach_is_there(a))
		rc = err_set(err, -ESRCH, "process %d became another program meanwhile",
			     (int)a->pid);
	if (rc == 0 && !a->led) {
		rc = set_word(a, f.threads[0].tid, a->shared->said.word_on);
		a->led = rc == 0;
	}
	if (rc == 0)
		slots_lead(&a->shared->slots, f.threads[0].tid);
	freeze_end(&f);
	return rc;
}

/* What comes is in the book before it is filled in. */
#define LOOKS 5u
#define LOOK_FIRST_NS 20000000u
#define BEHIND_MAX 4096u

/* A number for what the loader's book has behind the library, which never goes. */
static uint64_t look_behind(struct attach *a)
{
	struct link_map map;
	uint64_t sum = 0, at = a->own_map;
	for (unsigned n = 0; at && n < BEHIND_MAX; n++) {
		if (target_read(&a->target, at, &map, sizeof(map)) != sizeof(map))
			break;
		sum = (sum ^ at ^ map.l_addr) * 0x9e3779b97f4a7c15ull;
		at = (uint64_t)(uintptr_t)map.l_next;
	}
	return sum;
}

void attach_look(struct attach *a, uint64_t now)
{
	uint32_t closes = 0;
	struct err ignored = { 0 };
	if (!a->led || a->shared->said.preloaded)
		return;
	uint64_t behind = look_behind(a);
	target_read(&a->target, a->shared->said.closes_at, &closes, sizeof(closes));
	if (behind != a->behind || closes != a->closes) {
		a->behind = behind;
		a->closes = closes;
		a->looks = LOOKS;
		a->look_ns = now;
	}
	if (!a->looks || now < a->look_ns)
		return;
	a->looks--;
	a->look_ns = now + ((uint64_t)LOOK_FIRST_NS << 2 * (LOOKS - 1 - a->looks));
	attach_lead(a, &ignored);
}

int attach_undo(struct attach *a, struct err *err)
{
	int rc = attach_put_back(a, err);
	if (rc == 0) {
		keep_end(a);
		return 0;
	}
	keep_leave(a);
	return err_set(
		err, -EINVAL,
		"process %d calls its allocator by way of the library still, since it cannot be "
		"stopped now; byteledger-keep puts that back as soon as it can",
		(int)a->pid);
}

void attach_freep(struct attach **attach)
{
	struct attach *a = *attach;
	*attach = NULL;
	if (!a)
		return;
	if (a->led)
		attach_put_back(a, NULL);
	keep_end(a);
	objects_fini(&a->objects);
	target_close(&a->target);
	if (a->shared)
		munmap(a->shared, sizeof(*a->shared));
	if (a->memory >= 0)
		close(a->memory);
	if (a->pidfd >= 0)
		close(a->pidfd);
	free(a);
}
