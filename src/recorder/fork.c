/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork.c - the blocks that a child of a fork takes along, from the recorder of its parent to its
 * own (wire/heap_start.h, way 4).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/param.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "recorder/record.h"
#include "wire/heap_start.h"

/*
 * A child's recorder runs a few milliseconds after the fork; one that does not come was never
 * started. Where many fork at once it comes later, and so may the snapshot, before which stand
 * those of the others.
 */
#define OFFER_NS NS_PER_S
#define OFFER_LONG_NS 5000000000u
/* What the snapshots that nobody has taken yet may hold: of more, the oldest go. */
#define OFFERS_BYTES (64u << 20)
#define OFFERS_LEAST 8
#define LOOK_NS 2000000l
#define LOOK_LAST_NS 128000000l

static void pause_ns(long ns)
{
	const struct timespec ts = { .tv_nsec = ns };
	nanosleep(&ts, NULL);
}

/* ---- the parent's recorder ------------------------------------------------------------------- */

static void take_back(struct record_offer *offer)
{
	close(offer->fd - 1);
	offer->fd = 0;
}

static int make_offer(struct record *rec, uint64_t number, struct err *err)
{
	struct def process = { .kind = DEF_PROCESS };
	process.process.pid = (uint32_t)rec->pid;
	process.process.exe = rec->exe;
	process.process.cmdline = rec->cmdline;
	process.process.cmdline_bytes = rec->cmdline_bytes;
	process.process.exit_status = -1;

	char name[64];
	snprintf(name, sizeof(name), WIRE_FORK_NAME "%d-%llu", (int)getpid(),
		 (unsigned long long)number);
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return err_set(err, -errno, "cannot make room for a snapshot");
	struct trace_writer *writer = trace_writer_new_fd(fd, name, NULL, err);
	struct sink *to = writer ? trace_writer_sink(writer) : NULL;
	int rc = to ? to->define(to, &process, err) : err->code;
	if (to && rc >= 0)
		rc = source_heap_snapshot(rec->heap, to, err);
	if (writer && rc < 0)
		trace_writer_freep(&writer);
	else if (writer)
		rc = trace_writer_finish(writer, NULL, err);
	if (rc == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) < 0)
		rc = err_set(err, -errno, "cannot seal a snapshot");
	if (rc < 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

/* Let go of what was taken, or is older than @age_ns. Return: how many are left. */
static int tend(struct record *rec, uint64_t age_ns)
{
	int left = 0;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	for (unsigned i = 0; i < RECORD_OFFERS; i++) {
		struct record_offer *offer = &rec->offers[i];
		if (!offer->fd)
			continue;
		int seals = fcntl(offer->fd - 1, F_GET_SEALS);
		if (seals < 0 || seals & F_SEAL_GROW || now - offer->ns > age_ns)
			take_back(offer);
		else
			left++;
	}
	return left;
}

/*
 * A place for one more of @bytes. The descriptors are not to be used up: the next file needs one,
 * too.
 */
static struct record_offer *find_place(struct record *rec, uint64_t bytes)
{
	struct rlimit limit;
	unsigned most = RECORD_OFFERS;
	if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur / 4 < most)
		most = limit.rlim_cur / 4 < OFFERS_LEAST ? OFFERS_LEAST
							 : (unsigned)limit.rlim_cur / 4;
	tend(rec, OFFER_LONG_NS);
	for (;;) {
		struct record_offer *free_one = NULL, *oldest = NULL;
		uint64_t sum = bytes;
		for (struct record_offer *o = rec->offers; o < rec->offers + most; o++) {
			if (!o->fd)
				free_one = o;
			else if (!oldest || o->ns < oldest->ns)
				oldest = o;
			sum += o->fd ? o->bytes : 0;
		}
		if (free_one && (sum <= OFFERS_BYTES || !oldest))
			return free_one;
		take_back(oldest);
	}
}

int record_offer(void *ctx, uint64_t number)
{
	struct record *rec = ctx;
	struct err err = { 0 };
	struct stat st;
	int fd = make_offer(rec, number, &err);
	/* then the child's recording says that its parent's blocks are not known */
	if (fd < 0)
		return 0;
	uint64_t bytes = fstat(fd, &st) == 0 ? (uint64_t)st.st_size : 0;
	*find_place(rec, bytes) = (struct record_offer){ .fd = fd + 1,
							 .bytes = bytes,
							 .ns = clock_ns(CLOCK_MONOTONIC) };
	return 0;
}

void record_tend_offers(struct record *rec)
{
	tend(rec, OFFER_LONG_NS);
}

void record_wait_offers(struct record *rec)
{
	while (tend(rec, OFFER_NS))
		pause_ns(LOOK_NS);
}

/* ---- the child's recorder -------------------------------------------------------------------- */

/* The snapshot among the descriptors of process @pid, opened; -1: it is not there, or not whole. */
static int find_offer(uint32_t pid, uint32_t number)
{
	char folder[64], name[64], target[96];
	snprintf(folder, sizeof(folder), "/proc/%u/fd", pid);
	int want = snprintf(name, sizeof(name), "/memfd:" WIRE_FORK_NAME "%u-%u", pid, number);
	DIR *dir = opendir(folder);
	int fd = -1;
	if (!dir)
		return -1;
	for (struct dirent *entry; fd < 0 && (entry = readdir(dir));) {
		ssize_t len = readlinkat(dirfd(dir), entry->d_name, target, sizeof(target) - 1);
		if (len < want || memcmp(target, name, (size_t)want) != 0 ||
		    (len > want && target[want] != ' '))
			continue;
		fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_CLOEXEC | O_NONBLOCK);
	}
	closedir(dir);
	int seals = fd < 0 ? -1 : fcntl(fd, F_GET_SEALS);
	if (fd >= 0 && (seals < 0 || !(seals & F_SEAL_SHRINK))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* What the snapshot says of the process itself, where nobody else does any more. */
struct handed {
	struct sink sink;
	struct sink *to;
	struct record *rec;
};

static int snapshot_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct handed *snapshot = (struct handed *)sink;
	struct record *rec = snapshot->rec;
	if (def->kind != DEF_PROCESS)
		return snapshot->to->define(snapshot->to, def, err);
	if (!rec->cmdline && def->process.cmdline_bytes) {
		rec->cmdline = malloc(def->process.cmdline_bytes);
		if (!rec->cmdline)
			return err_set(err, -ENOMEM, "cannot hold a command line");
		memcpy(rec->cmdline, def->process.cmdline, def->process.cmdline_bytes);
		rec->cmdline_bytes = def->process.cmdline_bytes;
	}
	return 0;
}

static int snapshot_put(struct sink *sink, const struct event *events, size_t count,
			struct err *err)
{
	struct handed *snapshot = (struct handed *)sink;
	return snapshot->to->put(snapshot->to, events, count, err);
}

/* Return: 1 the snapshot was read, 0 there is none, negative errno. */
static int take_offer(struct record *rec, const struct source_heap_fork *fork, struct err *err)
{
	uint64_t until = clock_ns(CLOCK_MONOTONIC) + OFFER_LONG_NS;
	int fd;
	/*
	 * many may look at once, among as many: ever less often, so that he who makes them has the
	 * processor
	 */
	for (long wait = LOOK_NS; (fd = find_offer(fork->recorder, fork->number)) < 0;
	     wait = MIN(2 * wait, LOOK_LAST_NS)) {
		if (clock_ns(CLOCK_MONOTONIC) > until || kill((pid_t)fork->recorder, 0) < 0)
			return 0;
		pause_ns(wait);
	}
	/* what was judged, and not what its number stands for in that process by now */
	struct trace_reader *reader = trace_reader_new_fd(fd, "the parent's snapshot", err);
	struct handed snapshot = { .sink = { .define = snapshot_define, .put = snapshot_put },
				   .rec = rec };
	if (reader)
		snapshot.to = source_heap_inherit(rec->heap, record_sink(rec), err);
	int rc = snapshot.to ? trace_reader_run(reader, &snapshot.sink, NULL, err) : err->code;
	trace_reader_freep(&reader);
	fcntl(fd, F_ADD_SEALS, F_SEAL_GROW);
	close(fd);
	return rc < 0 ? rc : 1;
}

int record_inherit(struct record *rec, struct err *err)
{
	struct source_heap_fork fork;
	source_heap_fork(rec->heap, &fork);
	if (!fork.from)
		return 0;
	rec->forked = 1;
	/* a title in the place of the arguments is followed by what is left of them: nothing */
	while (rec->cmdline_bytes > 1 && !rec->cmdline[rec->cmdline_bytes - 1] &&
	       !rec->cmdline[rec->cmdline_bytes - 2])
		rec->cmdline_bytes--;
	int known = fork.number && fork.recorder ? take_offer(rec, &fork, err) : 0;
	if (known < 0)
		return known;
	return source_heap_inherited(rec->heap, record_sink(rec), known, err);
}
