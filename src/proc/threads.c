/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/threads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_tid(const void *a, const void *b)
{
	const struct thread_stack *x = a, *y = b;
	return x->tid < y->tid ? -1 : x->tid > y->tid;
}

/**
 * stack_pointer() - of a blocked thread from its `syscall`: "NR args... sp pc" or "-1 sp pc";
 * "running" has none.
 */
static int stack_pointer(const struct target *target, pid_t tid, uint64_t *sp)
{
	char path[48], text[256];
	snprintf(path, sizeof(path), "task/%d/syscall", (int)tid);
	ssize_t got = target_text(target, path, text, sizeof(text));
	if (got < 0)
		return (int)got;
	char *words[16];
	unsigned count = 0;
	for (char *save, *word = strtok_r(text, " \n", &save); word && count < 16;
	     word = strtok_r(NULL, " \n", &save))
		words[count++] = word;
	if (count >= 3) /* the last two are sp and pc in both forms */
		*sp = strtoull(words[count - 2], NULL, 16);
	return 0;
}

pid_t threads_own_id(const struct target *target, pid_t tid)
{
	char path[48], text[4096];
	snprintf(path, sizeof(path), "task/%d/status", (int)tid);
	if (target_text(target, path, text, sizeof(text)) <= 0)
		return tid;
	const char *line = strstr(text, "\nNSpid:");
	pid_t last = tid;
	for (line = line ? line + 7 : "\n"; *line && *line != '\n';) {
		char *end;
		long value = strtol(line, &end, 10);
		if (end == line)
			break;
		last = (pid_t)value;
		line = end;
	}
	return last;
}

/* Where /proc was silent: a thread that runs has no pointer there. */
static void add_facts(const struct target *target, threads_facts_fn ask, struct thread_stack *list,
		      size_t count)
{
	struct thread_fact *facts = NULL;
	struct err ignored = { 0 };
	size_t fact_count = 0, i = 0;
	while (i < count && list[i].stack_pointer)
		i++;
	if (!ask || i == count || ask(target->pid, &facts, &fact_count, &ignored) < 0)
		return; /* the pointer stays unknown, and is shown as such */
	for (i = 0; i < fact_count; i++) {
		struct thread_stack *thread = threads_find(list, count, facts[i].tid, 0);
		if (thread && !thread->stack_pointer)
			thread->stack_pointer = facts[i].stack_pointer;
	}
	free(facts);
}

int threads_read(const struct target *target, threads_facts_fn facts, struct thread_stack **threads,
		 size_t *count, struct err *err)
{
	*threads = NULL;
	*count = 0;
	int fd = target_openat(target, "task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	if (!dir) {
		int code = -errno;
		if (fd >= 0)
			close(fd);
		return target_fail(target, code, "threads", err);
	}
	struct thread_stack *list = NULL;
	size_t used = 0, cap = 0;
	int pointers = 1, in_namespace = threads_own_id(target, target->pid) != target->pid;
	for (struct dirent *entry; used < THREADS_MAX && (entry = readdir(dir)) != NULL;) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (tid <= 0)
			continue;
		if (used == cap) {
			cap = cap ? cap * 2 : 16;
			struct thread_stack *grown = realloc(list, cap * sizeof(*list));
			if (!grown) {
				free(list);
				closedir(dir);
				return err_set(err, -ENOMEM,
					       "cannot list the threads of process %d",
					       (int)target->pid);
			}
			list = grown;
		}
		struct thread_stack thread = { .tid = tid, .ns_tid = tid };
		char path[48];
		snprintf(path, sizeof(path), "task/%d/comm", (int)tid);
		ssize_t got = target_text(target, path, thread.name, sizeof(thread.name));
		if (got < 0)
			continue; /* ended */
		if (got > 0 && thread.name[got - 1] == '\n')
			thread.name[got - 1] = '\0';
		if (in_namespace)
			thread.ns_tid = threads_own_id(target, tid);
		if (pointers && stack_pointer(target, tid, &thread.stack_pointer) == -EPERM)
			pointers = 0; /* not for this user: asking 10,000 times does not help */
		list[used++] = thread;
	}
	closedir(dir);
	if (used)
		qsort(list, used, sizeof(*list), by_tid);
	add_facts(target, facts, list, used);
	*threads = list;
	*count = used;
	return 0;
}

struct thread_stack *threads_find(struct thread_stack *threads, size_t count, pid_t tid, int ns)
{
	struct thread_stack key = { .tid = tid };
	struct thread_stack *found =
		count ? bsearch(&key, threads, count, sizeof(key), by_tid) : NULL;
	if (!ns || (found && found->ns_tid == tid))
		return found;
	for (size_t i = 0; i < count; i++)
		if (threads[i].ns_tid == tid)
			return &threads[i];
	return NULL;
}

/*
 * glibc's struct pthread on x86-64 begins with the thread control block, whose words 0 and 2 hold
 * its own address (the ABI needs the first, `%fs:0`; glibc's THREAD_SELF the second). The tid
 * stands at 0x2d0 in every release since 2.4; the kernel clears it when the thread ends
 * (CLONE_CHILD_CLEARTID), pthread_join() makes it -1. The struct is aligned to 64 and the last
 * thing in the mapping.
 */
#define LOOK_BYTES 8192u
#define TID_OFFSET 0x2d0u
#define TID_LIMIT 4194304 /* PID_MAX_LIMIT */

#ifdef __x86_64__
/*
 * stackblock and stackblock_size stand side by side; where differs between releases, what they
 * enclose does not.
 */
static void find_block(const uint64_t *words, size_t count, struct thread_descriptor *d)
{
	for (size_t i = TID_OFFSET / 8 + 1; i + 1 < count; i++) {
		uint64_t start = words[i], bytes = words[i + 1], end;
		if (bytes < 16384 || bytes > 1ull << 40 || start > d->addr ||
		    __builtin_add_overflow(start, bytes, &end) || end <= d->addr ||
		    end - d->addr > LOOK_BYTES)
			continue;
		d->block_start = start;
		d->block_end = end;
		return;
	}
}
#endif

int threads_descriptor(const struct target *target, uint64_t start, uint64_t end,
		       struct thread_descriptor *found)
{
#ifdef __x86_64__
	uint64_t words[LOOK_BYTES / 8];
	uint64_t from = end - start > LOOK_BYTES ? end - LOOK_BYTES : start;
	ssize_t got = target_read(target, from, words, end - from);
	if (got < 0)
		return (int)got;
	size_t count = (size_t)got / 8, step = 8; /* 64 bytes */
	for (size_t i = count / step * step; i >= step;) {
		i -= step;
		uint64_t at = from + i * 8;
		if (words[i] != at || i + TID_OFFSET / 8 >= count || words[i + 2] != at)
			continue;
		int32_t tid;
		memcpy(&tid, (const char *)(words + i) + TID_OFFSET, sizeof(tid));
		if (tid < -1 || tid > TID_LIMIT) /* -1: joined */
			continue;
		*found = (struct thread_descriptor){ .addr = at, .tid = tid < 0 ? 0 : tid };
		find_block(words + i, count - i, found);
		return 1;
	}
#else
	(void)target, (void)start, (void)end, (void)found;
#endif
	return 0;
}
