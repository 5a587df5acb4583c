/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c - the other book of a recording: resident pages by call stack, read beside the snapshots of where the memory is. */
#include <errno.h>

#include "base/cleanup.h"
#include "base/clock.h"
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
	if (!pages->own || pageown_launch(pages->own, begin, pid, 0, &pages->why) == 0)
		return;
	/* one that has ended by now had no page to tell of, and that is no news */
	if (pages->why.code == -ESRCH)
		pages->why = (struct err){ 0 };
	pageown_freep(&pages->own);
}

void record_pages_read(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	struct err ignored = { 0 };
	if (!pages->own)
		return;
	pageown_poll(pages->own, NULL, NULL, &ignored);
	pageown_read(pages->own, &pages->taken, &ignored);
}

int record_pages_put(struct record *rec)
{
	struct record_pages *pages = &rec->pages;
	CLEANUP(page_shot_putp) struct page_shot *shot = STEAL(pages->taken);
	const struct page_process *process = shot ? page_shot_find(shot, rec->pid) : NULL;
	struct err ignored = { 0 };
	/* one that is ending keeps what it had: that was put before */
	if (!process || !rec->writer || rec->failed ||
	    trace_writer_pages(rec->writer, shot, process, source_heap_start_ns(rec->heap),
			       &ignored) < 0)
		return 0;
	pages->count++;
	return 1;
}

#define AFTER_PAUSE_NS 50000000
#define AFTER_FIRST_NS 20000000ull
#define AFTER_LAST_NS 5000000000ull
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
	record_pages_read(rec);
	struct page_shot *shot = STEAL(pages->taken);
	const struct page_process *process = shot ? page_shot_find(shot, rec->pid) : NULL;
	if (process && !process->ended && pages->after_count == RECORD_PAGES_AFTER)
		thin_out(pages, rec->pid);
	if (process && !process->ended && pages->after_count < RECORD_PAGES_AFTER)
		pages->after[pages->after_count++] = shot;
	else
		page_shot_put(shot);
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

void record_pages_name(struct record *rec)
{
	if (rec->pages.own && rec->pages.count)
		pageown_resolve_all(rec->pages.own);
}

void record_pages_fini(struct record *rec)
{
	page_shot_put(STEAL(rec->pages.taken));
	while (rec->pages.after_count)
		page_shot_put(rec->pages.after[--rec->pages.after_count]);
	pageown_freep(&rec->pages.own);
}
