/* SPDX-License-Identifier: Apache-2.0 */
/* life.c - one recording: drain the rings, watch the process, keep the file whole, finish. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fileio.h"
#include "model/family.h"
#include "proc/proc.h"
#include "recorder/record.h"
#include "wire/heap.h"
#include "wire/heap_start.h"

#define MS 1000000u
#define RSS_FIRST_NS (10 * MS)
#define RSS_LAST_NS (100 * MS)
#define RSS_REPEAT_NS (250 * MS) /* how long a point may stand for its neighbours */
/* a killed recorder may lose a second; it may also have lost its processor for a while */
#define FLUSH_NS (400 * MS)
#define HOUSE_NS (250 * MS)
#define PAUSE_YOUNG_NS (10 * MS)
#define PAUSE_MOST_NS (20 * MS)
#define PAUSE_LEAST_NS (MS / 4)
/*
 * Nothing came for so long: asleep from then on, but for a look at the program's size now and then.
 */
#define IDLE_NS (600 * MS)
#define IDLE_LOOK_FIRST_NS (200 * MS)
#define IDLE_LOOK_LAST_NS (2000ull * MS)
#define END_FIRST_NS (MS / 2)
#define END_ROWS 8192 /* fewer are packed at once */
/* Each file that a disk cuts short again makes the wait for the next one longer. */
#define RESUME_FIRST_NS (1000ull * MS)
#define RESUME_LAST_NS (60000ull * MS)
#define EXEC_FIRST_NS (5 * MS)
#define EXEC_LAST_NS (1000ull * MS)

/* ---- begin ----------------------------------------------------------------------------------- */

static void describe(const struct record *rec, struct def *def)
{
	*def = (struct def){ .kind = DEF_PROCESS };
	struct source_heap_state state;
	source_heap_state(rec->heap, &state);
	def->process.sample_bytes = state.sample_bytes;
	def->process.family = rec->settings.family;
	/* of the one that we started it is nobody's affair who we are */
	def->process.parent_pid = rec->is_root ? 0 : state.parent_pid;
	uint64_t start = source_heap_start_ns(rec->heap);
	def->process.pid = (uint32_t)rec->pid;
	def->process.exe = rec->exe;
	def->process.cmdline = rec->cmdline;
	def->process.cmdline_bytes = rec->cmdline_bytes;
	def->process.comment = rec->comment;
	def->process.start_monotonic_ns = start;
	def->process.start_realtime_ns =
		clock_ns(CLOCK_REALTIME) - (clock_ns(CLOCK_MONOTONIC) - start);
	def->process.time_bound_ns = rec->time_bound_ns;
	if (!state.stamp_every_event) /* of what was handed over so far */
		def->process.time_bound_ns =
			MAX(rec->time_bound_ns, source_heap_bound_ns(rec->heap));
	def->process.exit_status = -1;
}

/* A path's last part, without what /proc appends once the file is gone. */
static int same_name(const char *a, const char *b)
{
	const char *name_a = strrchr(a, '/'), *name_b = strrchr(b, '/');
	name_a = name_a ? name_a + 1 : a;
	name_b = name_b ? name_b + 1 : b;
	size_t len = strlen(name_a);
	return strncmp(name_a, name_b, len) == 0 &&
	       (!name_b[len] || strcmp(name_b + len, " (deleted)") == 0);
}

/* Which program this is: what attached, even if an exec has replaced it since or it has ended. */
static void identify(struct record *rec)
{
	char said[sizeof(rec->exe)], exe[sizeof(rec->exe)];
	char *cmdline = NULL;
	int attached = source_heap_exe(rec->heap, said, sizeof(said));
	ssize_t len = proc_cmdline(rec->pid, &cmdline);
	/* asked last: a command line that was read before is not a successor's either */
	int found =
		proc_exe(rec->pid, exe, sizeof(exe)) >= 0 && (!attached || same_name(said, exe));
	if (found || attached)
		strcpy(rec->exe, found ? exe : said);
	else if (!rec->exe[0])
		strcpy(rec->exe, "unknown");
	size_t bytes = found && len > 0 ? (size_t)len : 0;
	if (!bytes) {
		free(cmdline);
		cmdline = source_heap_cmdline(rec->heap, &bytes);
	}
	if (bytes) {
		free(rec->cmdline);
		rec->cmdline = cmdline;
		rec->cmdline_bytes = bytes;
	}
}

/*
 * What a fork's child recorded before it became this program, of the same pid and often of the same
 * name (git, sh), may be about to go: its name is ours then. Where names do not tell processes
 * apart it is anybody's, and not waited for.
 */
static int names_tell_processes_apart(const struct record *rec, const char *pattern)
{
	struct err err = { 0 };
	char *others = recorder_name(pattern, rec->exe, rec->pid + 1, &err);
	int apart = others && strcmp(others, rec->path) != 0;
	free(others);
	return apart;
}

int record_open(struct record *rec, struct source_heap *heap, pid_t pid, const char *pattern,
		const char *comment, uint64_t time_bound_ns, struct err *err)
{
	rec->heap = heap;
	rec->pid = rec->gauge.pid = pid;
	rec->comment = comment;
	rec->time_bound_ns = time_bound_ns;
	rec->exec_wait_ns = EXEC_FIRST_NS;
	/* a child's end is told by SIGCHLD, which nothing can refuse */
	rec->pidfd = rec->is_child ? -1 : (int)syscall(SYS_pidfd_open, pid, 0);
	if (rec->pidfd < 0 && !rec->is_child && errno == ESRCH)
		rec->gone = 1; /* what it wrote is all there */
	else if (rec->pidfd < 0 && !rec->is_child)
		return err_set(err, -errno, "cannot watch process %d", (int)pid);
	identify(rec);
	rec->path = recorder_name(pattern, rec->exe, pid, err);
	if (!rec->path)
		return err->code;
	rec->own_name = names_tell_processes_apart(rec, pattern);
	if (record_begin_file(rec, err) < 0)
		return err->code;
	source_heap_set_pid(heap, pid);
	source_heap_on_fork(heap, record_offer, rec);
	struct def def;
	describe(rec, &def);
	int rc = record_sink(rec)->define(record_sink(rec), &def, err);
	return rc < 0 ? rc : record_inherit(rec, err);
}

/* ---- while it runs --------------------------------------------------------------------------- */

/*
 * Less than three hundredths: hardly to be seen, and a file of few events would consist of such
 * points.
 */
static int is_near(uint64_t a, uint64_t b)
{
	return (a > b ? a - b : b - a) < b / 32;
}

/*
 * An exec that succeeded took the library and its mapping away; one in a child of vfork() only
 * looks like it.
 */
static void look_for_exec(struct record *rec, uint64_t now)
{
	struct stat st;
	if (rec->memfd_inode == 0 && fstat(source_heap_fd(rec->heap), &st) == 0)
		rec->memfd_inode = st.st_ino; /* the successor may have one of the same name */
	int gone = proc_maps_has(rec->pid, "/memfd:" WIRE_MEMFD_NAME, rec->memfd_inode) == 0;
	if (gone && !rec->replaced) /* not the last look: that may be at the successor's end */
		rec->replaced_ns = now;
	rec->replaced = gone;
}

void record_look_for_exec(struct record *rec)
{
	look_for_exec(rec, source_heap_now_ns(rec->heap));
}

/*
 * After an exec that was called: again and again, because it may still be under way, or have
 * failed.
 */
static void expect_exec(struct record *rec, uint64_t now)
{
	if (now < rec->exec_next_ns)
		return;
	look_for_exec(rec, now);
	rec->exec_next_ns = now + rec->exec_wait_ns;
	if (rec->exec_wait_ns < EXEC_LAST_NS)
		rec->exec_wait_ns *= 2;
}

/* An exec that nobody called by a name that we know: the arguments lie elsewhere. */
static void notice_exec(struct record *rec, uint64_t now)
{
	uint64_t at;
	if (proc_gauge_start_stack(&rec->gauge, &at) < 0)
		return;
	/* the first look may come behind an exec, too */
	if (rec->start_stack != at)
		look_for_exec(rec, now);
	/* or the program has ended since: its mappings are gone, nothing came in their place */
	struct proc_memory memory;
	if (rec->replaced && !rec->start_stack && proc_gauge_memory(&rec->gauge, &memory) < 0)
		rec->replaced = 0;
	rec->start_stack = at;
}

/*
 * What stands between the program and a recorder for a moment says nothing when it ends; a child
 * says SIGCHLD.
 */
static int is_childs_own(pid_t pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[got > 0 ? got : 0] = '\0';
	const char *at = strrchr(text, ')'); /* the name may hold anything */
	for (unsigned field = 2; at && field < 38; field++)
		at = strchr(at + 1, ' ');
	return !at || strtol(at + 1, NULL, 10) != 0;
}

static void note_child(struct record *rec, pid_t pid)
{
	uint64_t peak;
	uint32_t seen = MIN(rec->child_count, RECORD_CHILDREN), i = 0;
	while (i < seen && rec->children[i] != pid)
		i++;
	if (i == seen && !is_childs_own(pid))
		return;
	if (i == seen)
		rec->children[rec->child_count++ % RECORD_CHILDREN] = pid;
	if (proc_peak_rss(pid, &peak) < 0 || peak <= rec->child_peak_bytes)
		return;
	char exe[sizeof(rec->child_exe)];
	rec->child_peak_bytes = peak;
	if (proc_exe(pid, exe, sizeof(exe)) >= 0)
		strcpy(rec->child_exe, exe);
}

/*
 * Who records a shell is told of what runs in its place. Those of its first thread; what lives
 * shorter than a look is not seen.
 */
static void look_for_children(struct record *rec)
{
	char path[64], list[4096];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)rec->pid, (int)rec->pid);
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, list, sizeof(list) - 1);
	if (got <= 0)
		return;
	list[got] = '\0';
	char *rest;
	for (char *at = strtok_r(list, " ", &rest); at; at = strtok_r(NULL, " ", &rest)) {
		pid_t pid = (pid_t)strtol(at, NULL, 10);
		if (pid > 0)
			note_child(rec, pid);
	}
}

void record_look_around(struct record *rec)
{
	char path[4096 + 16];
	look_for_children(rec);
	for (; rec->next && rec->ears.file; rec->next_heard++) {
		int len = snprintf(path, sizeof(path), rec->next_heard ? "%s.%u" : "%s", rec->next,
				   rec->next_heard);
		if (len < 0 || (size_t)len >= sizeof(path) || access(path, F_OK) < 0)
			return;
		rec->ears.file(rec->ears.ctx, path);
	}
}

static void note_peak(struct record *rec, uint64_t now, uint64_t peak)
{
	rec->peak_next_ns = now + RSS_LAST_NS;
	rec->peak_rss_bytes = MAX(rec->peak_rss_bytes, peak);
}

/* One that has not run since has the peak that it had. */
static void take_peak(struct record *rec, uint64_t now, int anyway)
{
	uint64_t peak, stir = 0;
	rec->peak_next_ns = now + RSS_LAST_NS;
	if (!anyway && proc_gauge_stir(&rec->gauge, &stir) == 0 && stir == rec->peak_stir)
		return;
	if (proc_peak_rss(rec->pid, &peak) == 0)
		note_peak(rec, now, peak);
	rec->peak_stir = stir; /* as of before that reading */
}

static int take_rss(struct record *rec, uint64_t now, int peak_too)
{
	struct proc_memory memory;
	struct proc_resident resident = { 0 };
	if (proc_gauge_memory(&rec->gauge, &memory) < 0) /* gone, or about to be */
		return 0;
	int point = peak_too || now >= rec->rss_repeat_ns ||
		    !is_near(memory.rss_bytes, rec->rss.rss_bytes) ||
		    !is_near(memory.virtual_bytes, rec->rss.virtual_bytes);
	/* all of a point's figures are of one reading */
	int whole = point && proc_gauge_resident(&rec->gauge, &resident) == 0;
	notice_exec(rec, now); /* behind the readings: they may be the successor's */
	look_for_children(rec);
	if (rec->replaced)
		return 0;
	if (whole)
		note_peak(rec, now, resident.peak_bytes);
	else if (peak_too || now >= rec->peak_next_ns)
		take_peak(rec, now, peak_too);
	/* young programs grow fast; those of two seconds are looked at ten times a second */
	uint64_t interval = now / 20;
	interval = interval < RSS_FIRST_NS ? RSS_FIRST_NS : interval;
	rec->rss_next_ns = now + (interval > RSS_LAST_NS ? RSS_LAST_NS : interval);
	if (!point)
		return 0;
	rec->rss = memory;
	rec->rss_repeat_ns = now + RSS_REPEAT_NS;
	if (!whole)
		resident.memory = memory;
	resident.peak_bytes = rec->peak_rss_bytes;
	return source_heap_rss(rec->heap, record_sink(rec), &resident, &rec->err);
}

void record_note_successor(struct record *rec)
{
	char exe[sizeof(rec->replaced_by)];
	/*
	 * a program may write over its environment, but not before the library that it names was
	 * loaded
	 */
	int unfollowed = proc_environ_has(rec->pid, "LD_PRELOAD", WIRE_PRELOAD_NAME) == 0 &&
			 proc_maps_has(rec->pid, "/memfd:" WIRE_MEMFD_NAME, 0) == 0;
	if (proc_exe(rec->pid, exe, sizeof(exe)) < 0)
		return; /* it has ended, and what was read may be nothing */
	strcpy(rec->replaced_by, exe);
	rec->unfollowed = unfollowed;
}

/*
 * How long the rings may be left alone: until the fullest one would hold an eighth of its size, if
 * it fills as it did in the
 * @since_ns before it was emptied. Each wake-up costs as much as a thousand events.
 */
static int64_t pause_after(unsigned permille, uint64_t since_ns, uint64_t now)
{
	if (permille >= 250)
		return 0;
	/* a young program's timeline has a point each ten milliseconds, see take_rss() */
	uint64_t most = MIN(MAX(now / 20, PAUSE_YOUNG_NS), PAUSE_MOST_NS);
	uint64_t pause = permille ? since_ns * 125 / permille : most;
	return (int64_t)MIN(MAX(pause, PAUSE_LEAST_NS), most);
}

/*
 * The program's exit hook ran: mostly nothing comes any more, and the kernel takes the process
 * apart for as long as packing the last events takes. They are packed when none came since the look
 * before. Return: how soon to look again at most.
 */
static int64_t expect_end(struct record *rec, int64_t pause, ssize_t permille)
{
	rec->end_wait_ns = rec->end_wait_ns ? 2 * rec->end_wait_ns : END_FIRST_NS;
	rec->end_wait_ns = MIN(rec->end_wait_ns, PAUSE_MOST_NS);
	if (!permille && trace_writer_rows(rec->writer) >= END_ROWS)
		rec->flush_next_ns = 0;
	return MIN(pause, rec->end_wait_ns);
}

/*
 * Nobody says anything: the heart sleeps, and this thread until it is woken or the program's size
 * may have changed. Not while anything hangs on time: what is undecided, a disk without room.
 */
static int64_t idle_pause(struct record *rec, int64_t pause, uint64_t now)
{
	if (rec->cull || rec->sieve || rec->failed || rec->saw_exiting ||
	    !record_heart_sleep(&rec->heart))
		return pause;
	/* one that goes on touching what it has gets its points as before */
	int grows = !is_near(rec->rss.rss_bytes, rec->idle_rss_bytes);
	rec->idle_rss_bytes = rec->rss.rss_bytes;
	rec->rss_wait_ns = grows || !rec->rss_wait_ns ? IDLE_LOOK_FIRST_NS : 2 * rec->rss_wait_ns;
	rec->rss_wait_ns = MIN(rec->rss_wait_ns, IDLE_LOOK_LAST_NS);
	rec->rss_next_ns = MIN(rec->rss_next_ns, now + rec->rss_wait_ns);
	return (int64_t)rec->rss_wait_ns;
}

/*
 * The file is full: it ends here as if the recorder had been told to stop, and another one goes on.
 */
static int next_file(struct record *rec, const struct source_heap_state *state)
{
	struct def begun, ended;
	describe(rec, &begun);
	describe(rec, &ended);
	ended.process.ended = 1;
	ended.process.complete = 1;
	ended.process.runtime_ns = source_heap_now_ns(rec->heap);
	ended.process.peak_rss_bytes = rec->peak_rss_bytes;
	ended.process.modules_nameless = state->modules_nameless;
	return record_rotate(rec, &begun, &ended, &rec->err);
}

/* A disk was full: what lives goes on in another file once there is room again. */
static int resume(struct record *rec, const struct source_heap_state *state, uint64_t now)
{
	rec->resume_next_ns = now + FLUSH_NS;
	return trace_writer_has_room(rec->writer) ? next_file(rec, state) : 0;
}

void record_await_room(struct record *rec)
{
	uint64_t wait = rec->resume_wait_ns ? 2 * rec->resume_wait_ns : RESUME_FIRST_NS;
	rec->resume_wait_ns = MIN(wait, RESUME_LAST_NS);
	rec->resume_next_ns = source_heap_now_ns(rec->heap) + rec->resume_wait_ns;
}

/*
 * Somebody outside marks a moment, or wants what happened to stand in the file. Answered when the
 * rings were drained and the file was @flushed since it was asked: with the next step. Not while
 * nothing can be written: who waits is told that nobody answers.
 */
static int obey_steering(struct record *rec, int flushed, int64_t *pause)
{
	uint32_t number;
	unsigned asked = source_heap_asked(rec->heap, &number);
	if (!asked || rec->failed)
		return 0;
	if (rec->steer_seen == number && flushed) {
		source_heap_answer(rec->heap, number);
		return 0;
	}
	rec->flush_next_ns = 0;
	*pause = 0;
	if (rec->steer_seen == number)
		return 0;
	rec->steer_seen = number;
	return asked & WIRE_STEER_MARK
		       ? source_heap_put_mark(rec->heap, record_sink(rec), &rec->err)
		       : 0;
}

/* What may have happened, case by case. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity) */
int64_t record_step(struct record *rec)
{
	uint64_t since_ns = source_heap_now_ns(rec->heap) - rec->drained_ns;
	ssize_t permille = source_heap_drain(rec->heap, record_sink(rec), &rec->err);
	uint64_t now = source_heap_now_ns(rec->heap);
	struct source_heap_state state;
	rec->drained_ns = now;
	source_heap_state(rec->heap, &state);
	int rc = permille < 0 ? (int)permille : 0;
	int exiting = state.exiting && !rec->saw_exiting;
	rec->saw_exiting |= state.exiting;
	if (state.peak_rss_bytes > rec->peak_rss_bytes)
		rec->peak_rss_bytes = state.peak_rss_bytes;
	if (state.exec_called)
		expect_exec(rec, now);
	else
		rec->exec_wait_ns = EXEC_FIRST_NS;
	/* before, it is still our own child that has not become the program */
	if (rc == 0 && state.attached && !rec->replaced && (exiting || now >= rec->rss_next_ns))
		rc = take_rss(rec, now, exiting);
	if (rc == 0 && (exiting || now >= rec->house_next_ns)) {
		rc = source_heap_housekeep(rec->heap, record_sink(rec), exiting, &rec->err);
		rec->house_next_ns = now + HOUSE_NS;
		record_tend_offers(rec);
	}
	record_names_step(rec->names, state.exiting);
	int64_t pause = pause_after((unsigned)MAX(permille, 0), since_ns, now);
	if (permille || !state.attached)
		rec->news_ns = now;
	if (rc == 0 && state.exiting)
		pause = expect_end(rec, pause, permille);
	else if (rc == 0 && now - rec->news_ns > IDLE_NS)
		pause = idle_pause(rec, pause, now);
	/* the program waits for that, and for no more */
	int exit_waits = state.exiting && !permille && source_heap_exit_waits(rec->heap, 0);
	if (exit_waits)
		rec->flush_next_ns = 0;
	if (rc == 0 && rec->sieve && now >= rec->flush_next_ns)
		rc = sieve_tell(rec->sieve, &rec->err);
	if (rc == 0 && rec->cull && now >= rec->flush_next_ns)
		rc = cull_advance(rec->cull, now, &rec->err);
	if (rc == 0 && now >= rec->flush_next_ns) {
		rc = rec->failed ? 0 : trace_writer_flush(rec->writer, &rec->err);
		if (rc == 0 && rec->cull)
			rc = record_keep_undecided(rec);
		rec->flush_next_ns = now + FLUSH_NS;
	}
	if (exit_waits)
		source_heap_exit_waits(rec->heap, 1);
	if (rc == 0)
		rc = obey_steering(rec, rec->flush_next_ns == now + FLUSH_NS, &pause);
	if (rc == 0 && rec->failed && now >= rec->resume_next_ns)
		rc = resume(rec, &state, now);
	else if (rc == 0 && !rec->failed && record_is_full(rec))
		rc = next_file(rec, &state);
	record_send_grew(rec);
	return rc < 0 ? rc : record_shots_step(rec, now, state.exiting, pause);
}

/* ---- end ------------------------------------------------------------------------------------- */

static void *release_run(void *heap)
{
	source_heap_free(heap);
	return NULL;
}

/*
 * Nothing is read from the books any more. To give their memory back takes as long as to pack what
 * is left to write.
 */
static void release(struct record *rec)
{
	record_heart_stop(&rec->heart);
	source_heap_stats(rec->heap, &rec->stats);
	rec->releasing = pthread_create(&rec->release, NULL, release_run, rec->heap) == 0;
	if (!rec->releasing)
		source_heap_free(rec->heap);
	rec->heap = NULL;
}

/* What its own recording cannot show, for who reads it among its family (query/family.c). */
static void complete_comment(const struct record *rec, const struct source_heap_state *state,
			     struct buf *text)
{
	buf_puts(text, rec->comment ? rec->comment : "heap");
	if (state->unrecorded_children)
		buf_printf(text, FAMILY_UNRECORDED "%u", state->unrecorded_children);
	if (rec->replaced || state->exec_entered)
		buf_printf(text, FAMILY_BECAME "%s", rec->replaced_by);
}

int record_finish(struct record *rec, int detach, int status, int complete, struct err *err)
{
	struct def def;
	record_shots_finish(rec);
	if (detach)
		take_rss(rec, source_heap_now_ns(rec->heap), 1);
	int rc = source_heap_finish(rec->heap, record_sink(rec), detach, err);
	source_heap_state(rec->heap, &rec->state);
	if (rec->state.peak_rss_bytes > rec->peak_rss_bytes)
		rec->peak_rss_bytes = rec->state.peak_rss_bytes;
	rec->state.end.peak_bytes = rec->peak_rss_bytes;
	if (rc == 0 && !detach && !rec->replaced && rec->state.end.memory.rss_bytes)
		rc = source_heap_rss(rec->heap, record_sink(rec), &rec->state.end, err);
	CLEANUP(buf_fini) struct buf comment = { 0 };
	describe(rec, &def);
	if (rec->settings.family && !rec->attach) {
		complete_comment(rec, &rec->state, &comment);
		def.process.comment = buf_cstr(&comment);
	}
	def.process.ended = 1;
	def.process.complete = complete;
	def.process.exit_status = detach ? PROF_WENT_ON : status;
	def.process.runtime_ns = rec->replaced ? rec->replaced_ns : source_heap_now_ns(rec->heap);
	def.process.peak_rss_bytes = rec->peak_rss_bytes;
	def.process.modules_nameless = rec->state.modules_nameless;
	release(rec);
	if (rc < 0) {
		trace_writer_finish(STEAL(rec->writer), NULL, NULL);
		return rc;
	}
	return record_end_file(rec, &def, err);
}

void record_fini(struct record *rec)
{
	record_wait_offers(rec);
	record_send_fini(rec);
	record_heart_stop(&rec->heart);
	record_pages_fini(rec);
	record_names_freep(&rec->names);
	if (rec->releasing)
		pthread_join(rec->release, NULL);
	source_heap_free(rec->heap);
	record_files_fini(rec);
	cull_freep(&rec->cull);
	sieve_freep(&rec->sieve);
	trace_writer_freep(&rec->writer);
	prof_freep(&rec->sums);
	free(rec->cmdline);
	proc_gauge_fini(&rec->gauge);
	if (rec->pidfd > 0)
		close(rec->pidfd);
}
