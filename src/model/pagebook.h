/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pagebook.h - readings of a process's resident pages as the events of a recording, so that
 * whatever reads recordings reads them: report, export, diff, the web page.
 *
 * Each stack of each kind (anon, shmem, file) is one block, whose size is what it had resident at
 * the last reading: it is allocated when it first has pages, reallocated when they become more or
 * fewer, freed when none are left. What is live at a time is RSS at the last reading before it;
 * peaks are those of readings. The outermost frame of every stack is its kind; pages without a
 * stack hang below the reason and the mapping. Allocations and their sizes count readings, and mean
 * nothing by themselves.
 */
#ifndef MODEL_PAGEBOOK_H
#define MODEL_PAGEBOOK_H

#include "base/err.h"
#include "model/event.h"
#include "model/pages.h"

#define PAGEBOOK_COMMENT "pages" /* DEF_PROCESS's: where a recording's events come from */

struct pagebook;
/** pagebook_new() - of one process, into @sink, which has to stay. */
struct pagebook *pagebook_new(struct sink *sink, struct err *err);
void pagebook_free(struct pagebook *book);
/**
 * pagebook_put() - one more reading; nothing where it was put already. Time 0 is that of the first.
 */
int pagebook_put(struct pagebook *book, const struct page_process *process, struct err *err);
/**
 * pagebook_end() - no more comes: what frames are called (as far as they were resolved), and how it
 * ended. @exit_status as waitpid() tells, -1 = unknown; @complete 0: its last reading is not of its
 * end.
 */
int pagebook_end(struct pagebook *book, int ended, int exit_status, struct err *err);

#endif
