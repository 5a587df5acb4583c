/* SPDX-License-Identifier: Apache-2.0 */
/* pages_follow.c - the processes whose pages are counted: they come, fork, exec and end. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "source/pageown_impl.h"

#define EVENTS_MAX 65536u
#define THREAD_NICE (-10)
#define LOOK_NS 2000000000ull
#define TURN_MS 100
#define TURN_UNTOLD_MS 20 /* where the kernel tells of no mapping */
#define SLEEP_MS 10000

void pageown_followed_fini(struct followed *f)
{
	pageown_close(f);
	sticky_free(f->sticky);
	page_process_put(f->last);
}

struct followed *pageown_find(const struct pageown *p, pid_t pid)
{
	for (size_t i = 0; i < p->followed_count; i++)
		if (p->followed[i].pid == pid && !p->followed[i].ended)
			return &p->followed[i];
	return NULL;
}

int pageown_follows(struct pageown *p, pid_t pid)
{
	pthread_mutex_lock(&p->lock);
	int found = pageown_find(p, pid) != NULL;
	pthread_mutex_unlock(&p->lock);
	return found;
}

size_t pageown_count(struct pageown *p)
{
	size_t count = 0;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->followed_count; i++)
		count += !p->followed[i].ended;
	pthread_mutex_unlock(&p->lock);
	return count;
}

size_t pageown_pids(struct pageown *p, pid_t *pids, size_t max)
{
	size_t count = 0;
	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->followed_count && count < max; i++)
		if (!p->followed[i].ended)
			pids[count++] = p->followed[i].pid;
	pthread_mutex_unlock(&p->lock);
	return count;
}

void pageown_close(struct followed *f)
{
	target_close(&f->target);
	f->target = (struct target){ 0 };
	if (f->pagemap >= 0)
		close(f->pagemap);
	f->pagemap = -1;
}

int pageown_open(struct followed *f, struct err *err)
{
	if (f->pagemap >= 0)
		return 0;
	pageown_close(f);
	int rc = target_open(&f->target, f->pid, err);
	if (rc < 0)
		return rc;
	f->pagemap = target_file(&f->target, "pagemap", err);
	return f->pagemap < 0 ? f->pagemap : 0;
}

static struct followed *enter(struct pageown *p, pid_t pid, struct err *err)
{
	if (p->followed_count == p->followed_cap) {
		size_t cap = p->followed_cap ? p->followed_cap * 2 : 16;
		struct followed *grown = realloc(p->followed, cap * sizeof(*grown));
		if (!grown) {
			err_set(err, -ENOMEM, "cannot follow process %d", (int)pid);
			return NULL;
		}
		p->followed = grown;
		p->followed_cap = cap;
	}
	struct followed *f = &p->followed[p->followed_count];
	*f = (struct followed){ .pid = pid, .pagemap = -1 };
	p->followed_count++;
	return f;
}

static void leave(struct pageown *p, struct followed *f)
{
	pageown_followed_fini(f);
	size_t at = (size_t)(f - p->followed);
	memmove(f, f + 1, (p->followed_count - at - 1) * sizeof(*f));
	p->followed_count--;
}

/*
 * Where its code is. A process without is one that ended, or a kernel thread: told by
 * target_open().
 */
static void learn(struct pageown *p, struct followed *f)
{
	struct err ignored = { 0 };
	bpftables_add(p->tables, (uint32_t)f->pid, &ignored);
	f->image = pageown_image(p, f->pid, f->epoch);
	if (f->image)
		pageown_image_learn(p, f->image);
}

static int follow(struct pageown *p, pid_t pid, int children, struct err *err)
{
	if (pageown_find(p, pid))
		return 0;
	if (pageown_count(p) >= WIRE_PAGES_PROCESSES_MAX)
		return err_set(err, -ENOSPC, "cannot follow more than %d processes",
			       WIRE_PAGES_PROCESSES_MAX);
	struct followed *f = enter(p, pid, err);
	if (!f)
		return err->code;
	int rc = pageown_open(f, err);
	if (!rc) {
		f->late = 1;
		f->children = children;
		/* code first: a stack that is walked without it is a short one */
		learn(p, f);
		struct wire_pages_process process = { .owner = (uint32_t)pid,
						      .flags = children ? WIRE_PAGES_FOLLOW : 0 };
		rc = pageown_map_process(p, pid, &process);
		if (rc < 0)
			err_set(err, rc, "cannot follow process %d", (int)pid);
	}
	if (rc < 0) {
		bpftables_remove(p->tables, (uint32_t)pid);
		leave(p, f);
		return rc;
	}
	return 0;
}

int pageown_follow(struct pageown *p, pid_t pid, int children, struct err *err)
{
	pthread_mutex_lock(&p->lock);
	int rc = follow(p, pid, children, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

static int launch(struct pageown *p, int begin, pid_t pid, int children, struct err *err)
{
	struct wire_pages_process self = { .owner = (uint32_t)getpid(),
					   .flags = WIRE_PAGES_FOLLOW };
	struct err ignored = { 0 };
	if (begin) {
		/*
		 * the loader and the C library are mostly the same files: their tables are there
		 * when it begins
		 */
		bpftables_add(p->tables, (uint32_t)getpid(), &ignored);
		int rc = pageown_map_process(p, getpid(), &self);
		return rc < 0 ? err_set(err, rc, "cannot follow a program that is started") : 0;
	}
	pageown_unmap_process(p, getpid());
	bpftables_remove(p->tables, (uint32_t)getpid());
	if (!pid)
		return 0;
	/* the fork and the exec are in the ring */
	int rc = pageown_take(p, err);
	struct followed *f = pageown_find(p, pid);
	if (rc < 0 || !f) /* it has ended already, or the ring was full */
		return rc < 0 ? rc : pageown_follow(p, pid, children, err);
	f->children = children;
	if (!children) { /* it was to be found through its parent only */
		struct wire_pages_process one = { .owner = (uint32_t)pid, .epoch = f->epoch };
		pageown_unmap_process(p, pid);
		rc = pageown_map_process(p, pid, &one);
	}
	return rc < 0 ? err_set(err, rc, "cannot follow process %d", (int)pid) : 0;
}

int pageown_launch(struct pageown *p, int begin, pid_t pid, int children, struct err *err)
{
	pthread_mutex_lock(&p->lock);
	int rc = launch(p, begin, pid, children, err);
	pthread_mutex_unlock(&p->lock);
	return rc;
}

void pageown_expect(struct pageown *p, const char *name)
{
	char path[4096];
	const char *at = strchr(name, '/') ? NULL : getenv("PATH");
	snprintf(path, sizeof(path), "%s", name);
	while (at && *at) {
		size_t len = strcspn(at, ":");
		snprintf(path, sizeof(path), "%.*s/%s", (int)len, at, name);
		if (access(path, X_OK) == 0)
			break;
		at += len + (at[len] == ':');
	}
	pthread_mutex_lock(&p->lock);
	bpftables_expect(p->tables, path);
	pthread_mutex_unlock(&p->lock);
}

void pageown_unfollow(struct pageown *p, pid_t pid)
{
	pthread_mutex_lock(&p->lock);
	struct followed *f = pageown_find(p, pid);
	if (f) {
		pageown_unmap_process(p, pid);
		bpftables_remove(p->tables, (uint32_t)pid);
		leave(p, f);
	}
	pthread_mutex_unlock(&p->lock);
}

static void tell(struct pageown *p, enum pageown_event_kind kind, pid_t pid, pid_t parent, int ours)
{
	if (p->event_count == p->event_cap) {
		size_t cap = p->event_cap ? p->event_cap * 2 : 64;
		struct pageown_event *grown = p->event_count < EVENTS_MAX
						      ? realloc(p->events, cap * sizeof(*grown))
						      : NULL;
		if (!grown) /* nobody has polled for long: who is there is still known */
			return;
		p->events = grown;
		p->event_cap = cap;
	}
	p->events[p->event_count++] = (struct pageown_event){ kind, pid, parent, ours };
	eventfd_write(p->told, 1);
}

static void on_fork(struct pageown *p, pid_t pid, pid_t parent)
{
	struct err ignored = { 0 };
	struct followed *from = pageown_find(p, parent), *f = pageown_find(p, pid);
	int children = from ? from->children : parent == getpid(), late = from ? from->late : 0;
	if (f || !(f = enter(p, pid, &ignored)))
		return;
	f->children = children;
	f->late = late; /* what its parent had is its own from the start */
	from = pageown_find(p, parent);
	f->ancestors[f->ancestor_count++] = parent;
	for (size_t i = 0; from && i < from->ancestor_count && f->ancestor_count < ANCESTORS_MAX;
	     i++)
		f->ancestors[f->ancestor_count++] = from->ancestors[i];
	/* it runs its parent's code: most exec before they map any of their own */
	if (bpftables_fork(p->tables, (uint32_t)parent, (uint32_t)pid) == 0 && from && from->image)
		f->image = pageown_image_fork(p, pid, from->image);
	else
		learn(p, f);
	tell(p, PAGES_FORKED, pid, parent, 1);
}

static void on_exec(struct pageown *p, pid_t pid, uint32_t epoch)
{
	struct err ignored = { 0 };
	struct followed *f = pageown_find(p, pid);
	if (!epoch) { /* none of ours */
		tell(p, PAGES_EXECED, pid, 0, 0);
		return;
	}
	int late = !f; /* taken up by its name: its arguments' pages stood there before */
	if (!f && !(f = enter(p, pid, &ignored)))
		return;
	f->epoch = epoch;
	f->late = f->at_exec = late;
	f->ancestor_count = 0;
	sticky_free(f->sticky);
	f->sticky = NULL;
	f->first_walk_done = 0;
	pageown_close(f); /* of memory that is gone */
	/* tables that are still those of the former image are read anew */
	bpftables_remove(p->tables, (uint32_t)pid);
	learn(p, f);
	tell(p, PAGES_EXECED, pid, 0, 1);
}

int pageown_on_event(struct pageown *p, const struct wire_pages_event *event)
{
	pid_t pid = (pid_t)event->pid;
	p->took++;
	/* stacks of before are named by code of before */
	pageown_take_stacks(p, 0);
	switch (event->kind) {
	case WIRE_PAGES_FORK:
		on_fork(p, pid, (pid_t)event->other);
		break;
	case WIRE_PAGES_EXEC:
		on_exec(p, pid, event->epoch);
		break;
	case WIRE_PAGES_EXIT: {
		struct followed *f = pageown_find(p, pid);
		if (!f)
			break;
		f->ended = 1;
		bpftables_remove(p->tables, event->pid);
		tell(p, PAGES_ENDED, pid, 0, 1);
		break;
	}
	case WIRE_PAGES_STACK_CAME:
		/* whoever reads the ring now: the thread goes back to its turns */
		eventfd_write(p->wake, 1);
		break;
	case WIRE_PAGES_CODE:
		if (pageown_find(p, pid))
			bpftables_mark(p->tables, event->pid);
		break;
	default:
		break;
	}
	return 0;
}

static void mark(void *ctx, uint32_t pid)
{
	struct pageown *p = ctx;
	bpftables_mark(p->tables, pid);
}

static void changed(void *ctx, uint32_t pid)
{
	struct pageown *p = ctx;
	struct followed *f = pageown_find(p, (pid_t)pid);
	p->took++;
	if (f && f->image)
		pageown_image_learn(p, f->image);
}

int pageown_consume(struct pageown *p)
{
	p->consuming = 1; /* a callback that reads the ring would get its own record again */
	int rc = ring_buffer__consume(p->ring);
	p->consuming = 0;
	return rc;
}

int pageown_take(struct pageown *p, struct err *err)
{
	int rc = pageown_consume(p);
	if (rc < 0)
		return err_set(err, rc, "cannot read the ring of process events");
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (p->announcements)
		bpfstack_events_read(p->announcements, mark, p);
	else if (p->faults && now - p->looked_ns > LOOK_NS) {
		/* as much code went as came: nobody has told */
		bpftables_mark(p->tables, 0);
		p->looked_ns = now;
	}
	bpftables_update(p->tables, p->announcements || p->faults, changed, p);
	pageown_take_stacks(p, 1);
	pageown_give_back(p);
	return 0;
}

int pageown_poll(struct pageown *p, void (*event)(void *ctx, const struct pageown_event *event),
		 void *ctx, struct err *err)
{
	eventfd_t ignored;
	pthread_mutex_lock(&p->lock);
	int rc = p->running ? 0 : pageown_take(p, err);
	eventfd_read(p->told, &ignored);
	struct pageown_event *events = p->events;
	size_t count = p->event_count;
	p->events = NULL;
	p->event_count = p->event_cap = 0;
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; event && i < count; i++)
		event(ctx, &events[i]);
	free(events);
	return rc;
}

/*
 * Stacks are named at least once in TURN_MS while new ones come: their code may be unmapped, which
 * nobody tells. Once a turn has brought nothing the kernel side is asked to tell of the next, and
 * nothing is looked at until then.
 */
static void *run(void *ctx)
{
	struct pageown *p = ctx;
	int tells = p->announcements || p->faults, asleep = 0;
	/* what it does is short, and pages are touched meanwhile by code that has no table yet */
	setpriority(PRIO_PROCESS, (id_t)syscall(SYS_gettid), THREAD_NICE);
	struct pollfd fds[] = { { .fd = p->epoll, .events = POLLIN },
				{ .fd = p->wake, .events = POLLIN } };
	while (!atomic_load(&p->stopping)) {
		struct err ignored = { 0 };
		eventfd_t some;
		int found = poll(fds, 2, asleep ? SLEEP_MS : tells ? TURN_MS : TURN_UNTOLD_MS);
		eventfd_read(p->wake, &some);
		if (atomic_exchange(&p->drop, 0))
			pageown_drop_own(&ignored);
		pthread_mutex_lock(&p->lock);
		uint64_t known = p->took;
		if (asleep)
			pageown_sleep(p, 0);
		pageown_take(p, &ignored);
		asleep = tells && !found && p->took == known;
		if (asleep) { /* what came before that was told is there by now */
			pageown_sleep(p, 1);
			pageown_take(p, &ignored);
			asleep = p->took == known;
		}
		pthread_mutex_unlock(&p->lock);
	}
	return NULL;
}

int pageown_start(struct pageown *p, struct err *err)
{
	/* signals are for the thread of whoever calls */
	sigset_t all, before;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	int rc = pthread_create(&p->thread, NULL, run, p);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (rc)
		return err_set(err, -rc, "cannot start the thread that follows processes");
	pthread_setname_np(p->thread, "pages");
	p->running = 1;
	return 0;
}

void pageown_stop(struct pageown *p)
{
	if (!p->running)
		return;
	atomic_store(&p->stopping, 1);
	eventfd_write(p->wake, 1);
	pthread_join(p->thread, NULL);
	p->running = 0;
	atomic_store(&p->stopping, 0);
}
