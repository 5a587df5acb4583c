/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.c - the other book of a recording: resident pages by call stack, read beside the snapshots
 * of where the memory is.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "query/family.h"
#include "recorder/record.h"

void record_pages_open(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	struct err *why = &pages->why;
	pages->own = pageown_new(NULL, why);
	if (!pages->own)
		return;
	if (pageown_load(pages->own, why) < 0 || pageown_attach(pages->own, why) < 0 ||
	    pageown_start(pages->own, why) < 0)
		pageown_freep(&pages->own);
}

void record_pages_expect(struct record *rec, const char *program)
{
	if (rec->pages.own)
		pageown_expect(rec->pages.own, program);
}

void record_pages_launch(struct record *rec, int begin, pid_t pid)
{
	struct record_pages *pages = &rec->pages;
	if (!pages->own ||
	    pageown_launch(pages->own, begin, pid, pages->children, &pages->why) == 0)
		return;
	/* one that has ended by now had no page to tell of, and that is no news */
	if (pages->why.code == -ESRCH)
		pages->why = (struct err){ 0 };
	pageown_freep(&pages->own);
}

/* A child's recorder is its child: nobody asked for our own pages. */
static void on_event(void *ctx, const struct pageown_event *event)
{
	struct record_pages *pages = ctx;
	char link[64];
	struct stat own, its;
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)event->pid);
	if (event->kind == PAGES_EXECED && event->followed && stat(link, &its) == 0 &&
	    stat("/proc/self/exe", &own) == 0 && own.st_dev == its.st_dev &&
	    own.st_ino == its.st_ino)
		pageown_unfollow(pages->own, event->pid);
}

void record_pages_read(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	struct err ignored = { 0 };
	if (!pages->own)
		return;
	pageown_poll(pages->own, pages->children ? on_event : NULL, pages, &ignored);
	pageown_read(pages->own, &pages->taken, &ignored);
}

#define AFTER_PAUSE_NS 50000000
#define AFTER_FIRST_NS 20000000ull
#define AFTER_LAST_NS 5000000000ull
#define LOOK_FIRST_NS 50000000ull
#define LOOK_LAST_NS NS_PER_S
#define LOOK_MOST 256u
#define LOOK_PART 20u /* a twentieth more or less of all of them is news */
#define LOOK_LEAST (1u << 20)
#define AFTER_SHARE 50u /* of the time, one part at most goes into reading */

/* Every second one goes, but for the largest. */
static void thin_out(struct record_pages *pages, pid_t pid)
{
	size_t kept = 0, largest = 0;
	uint64_t most = 0;
	for (size_t i = 0; i < pages->after_count; i++) {
		const struct page_process *process = page_shot_find(pages->after[i], pid);
		if (process && process->rss_bytes > most) {
			most = process->rss_bytes;
			largest = i;
		}
	}
	for (size_t i = 0; i < pages->after_count; i++) {
		if (i % 2 == 0 || i == largest)
			pages->after[kept++] = pages->after[i];
		else
			page_shot_put(pages->after[i]);
	}
	pages->after_count = kept;
	pages->after_every_ns *= 2;
}

static void keep(struct record_pages *pages, struct page_shot *shot, pid_t pid)
{
	if (pages->after_count == RECORD_PAGES_AFTER)
		thin_out(pages, pid);
	if (pages->after_count < RECORD_PAGES_AFTER)
		pages->after[pages->after_count++] = shot;
	else
		page_shot_put(shot);
}

int record_pages_put(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	CLEANUP(page_shot_putp) struct page_shot *shot = STEAL(pages->taken);
	const struct page_process *process = shot ? page_shot_find(shot, rec->pid) : NULL;
	struct err ignored = { 0 };
	pages->children_read_bytes = pages->children_bytes;
	if (shot && pages->children && shot->count > 1)
		keep(pages, page_shot_get(shot), rec->pid);
	/* one that is ending keeps what it had: that was put before */
	if (!process || !rec->writer || rec->failed ||
	    trace_writer_pages(rec->writer, shot, process, source_heap_start_ns(rec->heap),
			       &ignored) < 0)
		return 0;
	pages->count++;
	return 1;
}

void record_pages_keep(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	record_shots_finish(rec); /* one at a time reads */
	record_pages_read(rec);
	struct page_shot *shot = STEAL(pages->taken);
	const struct page_process *process = shot ? page_shot_find(shot, rec->pid) : NULL;
	if (process && !process->ended)
		keep(pages, shot, rec->pid);
	else
		page_shot_put(shot);
}

int64_t record_pages_after(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	uint64_t now = clock_ns(CLOCK_MONOTONIC), cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
	if (!pages->own || now < pages->after_next_ns)
		return AFTER_PAUSE_NS;
	if (!pages->after_began_ns) {
		pages->after_began_ns = now;
		pages->after_every_ns = AFTER_FIRST_NS;
	}
	record_pages_keep(rec);
	uint64_t pause = (clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu) * AFTER_SHARE;
	pause = pause > pages->after_every_ns ? pause : pages->after_every_ns;
	pause = pause < AFTER_LAST_NS || pages->after_every_ns > AFTER_LAST_NS ? pause
									       : AFTER_LAST_NS;
	pages->after_next_ns = now + pause;
	return pause < AFTER_PAUSE_NS ? (int64_t)pause : AFTER_PAUSE_NS;
}

int record_pages_append(struct record *rec, const char *path, uint64_t zero_ns, struct err *err)
{
	struct record_pages *pages = &rec->pages;
	if (!pages->own || !pages->after_count)
		return 0;
	if (rec->settings.store_symbols)
		pageown_resolve_all(pages->own);
	return trace_append_pages(path, pages->after, pages->after_count, rec->pid, zero_ns, err);
}

static uint64_t bytes_of(struct pageown *own)
{
	pid_t pids[LOOK_MOST];
	uint64_t sum = 0;
	size_t count = pageown_pids(own, pids, LOOK_MOST);
	for (size_t i = 0; i < count; i++) {
		struct proc_gauge gauge = { .pid = pids[i] };
		struct proc_memory memory;
		if (proc_gauge_memory(&gauge, &memory) == 0)
			sum += memory.rss_bytes;
		proc_gauge_fini(&gauge);
	}
	return sum;
}

int record_pages_look(struct record *rec, uint64_t now, int64_t *pause)
{
	struct record_pages *pages = &rec->pages;
	struct pollfd told = { .events = POLLIN };
	if (!pages->own || !pages->children)
		return 0;
	told.fd = pageown_fd(pages->own);
	int news = poll(&told, 1, 0) > 0;
	if (news || now >= pages->look_next_ns) {
		uint64_t before = pages->children_bytes;
		pages->children_bytes = bytes_of(pages->own);
		int same = !news && before == pages->children_bytes;
		pages->look_wait_ns = same ? 2 * pages->look_wait_ns : LOOK_FIRST_NS;
		if (pages->look_wait_ns > LOOK_LAST_NS)
			pages->look_wait_ns = LOOK_LAST_NS;
		pages->look_next_ns = now + pages->look_wait_ns;
	}
	if (*pause > (int64_t)(pages->look_next_ns - now))
		*pause = (int64_t)(pages->look_next_ns - now);
	uint64_t was = pages->children_read_bytes, is = pages->children_bytes,
		 by = is > was ? is - was : was - is;
	return news || by > was / LOOK_PART + LOOK_LEAST;
}

/* Of the programs that a process was, what was read last is the last one's. */
static int is_last_of(const struct family *family, const struct family_member *m)
{
	for (size_t i = 0; i < family->count; i++)
		if (family->members[i].pid == m->pid &&
		    family->members[i].start_monotonic_ns > m->start_monotonic_ns)
			return 0;
	return 1;
}

static int was_read(const struct record_pages *pages, const struct family_member *m)
{
	for (size_t i = 0; i < pages->after_count; i++) {
		const struct page_process *process = page_shot_find(pages->after[i], (pid_t)m->pid);
		if (process && process->time_ns >= m->start_monotonic_ns)
			return 1;
	}
	return 0;
}

void record_pages_children(struct record *rec, const char *path)
{
	struct record_pages *pages = &rec->pages;
	if (!pages->own || !pages->children || !pages->after_count)
		return;
	/* who has ended since keeps what was read last */
	record_pages_read(rec);
	if (pages->taken)
		keep(pages, STEAL(pages->taken), rec->pid);
	struct err ignored = { 0 };
	CLEANUP(family_freep) struct family *family = family_await(path, &ignored);
	if (family && rec->settings.store_symbols)
		pageown_resolve_all(pages->own);
	for (size_t i = 0; family && i < family->count; i++) {
		const struct family_member *m = &family->members[i];
		struct err err = { 0 };
		if ((pid_t)m->pid == rec->pid || !m->ended || !is_last_of(family, m) ||
		    !was_read(pages, m))
			continue;
		if (trace_append_pages(m->path, pages->after, pages->after_count, (pid_t)m->pid,
				       m->start_monotonic_ns, &err) < 0)
			record_fail(rec, &err);
		else if (++pages->child_files)
			record_send_again(rec, m->path);
	}
}

void record_pages_name(struct record *rec)
{
	if (rec->pages.own && rec->pages.count)
		pageown_resolve_all(rec->pages.own);
}

void record_pages_fini(struct record *rec)
{
	record_pages_deaf(rec);
	page_shot_put(STEAL(rec->pages.taken));
	while (rec->pages.after_count)
		page_shot_put(rec->pages.after[--rec->pages.after_count]);
	pageown_freep(&rec->pages.own);
}
