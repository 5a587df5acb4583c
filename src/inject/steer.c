/* SPDX-License-Identifier: Apache-2.0 */
/* steer.c - words to a recorder, through the memory of the process that it records. */
#include "inject/steer.h"

#include <errno.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proc/smaps.h"
#include "proc/target.h"
#include "proc/threads.h"
#include "wire/heap.h"
#include "wire/heap_start.h"

#define ANSWER_NS 10000000000u /* a program that sleeps is looked at every two seconds */
#define LOOK_NS 1000000u

struct header {
	const struct target *target;
	/* its id as it sees itself: a forked child has its parent's header, too */
	uint32_t own_id;
	uint64_t at;
	struct wire_heap_header is;
};

static int find_header(void *ctx, struct region *r)
{
	struct header *h = ctx;
	static const char name[] = "/memfd:" WIRE_MEMFD_NAME;
	if (strncmp(r->name, name, sizeof(name) - 1) != 0 || r->offset ||
	    r->end - r->start < sizeof(h->is) ||
	    target_read(h->target, r->start, &h->is, sizeof(h->is)) != sizeof(h->is) ||
	    h->is.magic != WIRE_HEAP_MAGIC || h->is.version != WIRE_HEAP_VERSION ||
	    h->is.header_bytes != sizeof(h->is) || h->is.detach || !h->is.recorder_pid ||
	    h->is.target_pid != h->own_id)
		return 0;
	h->at = r->start;
	return 1;
}

static int put(const struct header *h, size_t offset, const void *from, size_t len, struct err *err)
{
	struct iovec own = { .iov_base = (void *)(uintptr_t)from, .iov_len = len };
	struct iovec its = { .iov_base = (void *)(uintptr_t)(h->at + offset), .iov_len = len };
	if (process_vm_writev(h->target->pid, &own, 1, &its, 1, 0) == (ssize_t)len)
		return 0;
	int code = errno ? -errno : -EIO;
	err_set(err, code, "cannot steer the recording of process %d", (int)h->target->pid);
	return code == -EPERM ? err_hint(err, "who may trace it may: root, or its own user where "
					      "kernel.yama.ptrace_scope is 0")
			      : err->code;
}

#define PUT(h, member, from, err) \
	put(h, offsetof(struct wire_heap_header, member), from, sizeof((h)->is.member), err)

/* Ask, and wait until it is done. */
static int ask(const struct header *h, unsigned asked, uint32_t mark, struct err *err)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	/* another number than anybody's before, most likely than anybody's at this moment */
	uint32_t number = (uint32_t)(began >> 10) << WIRE_STEER_BITS | asked, done;
	int rc = PUT(h, steer_mark, &mark, err);
	if (rc == 0)
		rc = PUT(h, steer_ns, &began, err);
	if (rc == 0)
		rc = PUT(h, steer_asked, &number, err);
	while (rc == 0) {
		const struct timespec soon = { .tv_nsec = LOOK_NS };
		uint64_t at = h->at + offsetof(struct wire_heap_header, steer_done);
		if (target_read(h->target, at, &done, sizeof(done)) != sizeof(done))
			return err_set(err, -ESRCH, "process %d has ended before it was done",
				       (int)h->target->pid);
		if (done == number)
			break;
		if (clock_ns(CLOCK_MONOTONIC) - began > ANSWER_NS) {
			err_set(err, -ETIMEDOUT, "the recorder of process %d does not answer",
				(int)h->target->pid);
			return err_hint(
				err,
				"is it stopped, is its disk full, or is another one steering?");
		}
		nanosleep(&soon, NULL);
	}
	return rc;
}

#define BEAT_WAIT_NS 200000000u

int steer_recorded(const struct target *target, uint32_t *recorder)
{
	struct header h = { .target = target };
	struct reading reading;
	struct err ignored = { 0 };
	uint64_t beat = 0;
	h.own_id = (uint32_t)threads_own_id(target, target->pid);
	maps_each(target, find_header, &h, &reading, &ignored);
	if (!h.at)
		return 0;
	*recorder = h.is.recorder_pid;
	if (kill((pid_t)h.is.recorder_pid, 0) == 0 || errno == EPERM)
		return 1;
	/* it may be in another namespace: its heart beats, or it has ended */
	const struct timespec wait = { .tv_nsec = BEAT_WAIT_NS };
	nanosleep(&wait, NULL);
	uint64_t at = h.at + offsetof(struct wire_heap_header, heartbeat_ns);
	return target_read(target, at, &beat, sizeof(beat)) == sizeof(beat) &&
	       beat != h.is.heartbeat_ns;
}

static int bad(const struct steering *s, const char *program, struct err *err)
{
	if (program)
		return err_set(err, -EINVAL, "'%s' makes no sense beside -p", program);
	if (!s->pid)
		return err_set(err, -EINVAL, "whose recording? -p PID");
	if (s->what & STEER_START && s->what & STEER_STOP)
		return err_set(err, -EINVAL, "--start or --stop, not both");
	return 0;
}

int steer(const struct steering *s, const char *program, struct err *err)
{
	CLEANUP(target_close) struct target target = { 0 };
	struct header h = { .target = &target };
	struct reading reading;
	int rc = bad(s, program, err);
	if (rc == 0)
		rc = target_open(&target, s->pid, err);
	if (rc == 0) {
		h.own_id = (uint32_t)threads_own_id(&target, s->pid);
		rc = maps_each(&target, find_header, &h, &reading, err);
	}
	if (!h.at && rc < 0)
		return rc;
	if (!h.at) {
		err_set(err, -ENOMSG, "nothing records process %d", (int)s->pid);
		return err_hint(err, "'byteledger heap -p %d' records it from then on",
				(int)s->pid);
	}
	rc = 0;
	if (s->what & (STEER_START | STEER_STOP)) {
		uint32_t on = (s->what & STEER_START) != 0;
		rc = PUT(&h, enabled_wanted, &on, err);
	}
	unsigned asked = (s->what & STEER_MARK ? WIRE_STEER_MARK : 0) | WIRE_STEER_SYNC;
	if (rc == 0 && s->what & (STEER_MARK | STEER_SYNC))
		rc = ask(&h, asked, s->mark, err);
	return rc;
}
