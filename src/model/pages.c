/* SPDX-License-Identifier: Apache-2.0 */
#include "model/pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

const char *pages_kind_name(unsigned kind)
{
	static const char *const names[PAGES_KINDS] = {
		[PAGES_ANON] = "anon",       [PAGES_SHMEM] = "shmem", [PAGES_FILE] = "file",
		[PAGES_SWAP] = "swap",       [PAGES_CACHE] = "cache", [PAGES_KERNEL] = "kernel",
		[PAGES_HUGETLB] = "hugetlb", [PAGES_HELD] = "held",
	};
	return kind < PAGES_KINDS ? names[kind] : NULL;
}

#define KIND_WORDS "anon, shmem, file, swap, hugetlb, cache, kernel or held"

int pages_kinds_parse(const char *text, uint32_t *kinds, struct err *err)
{
	*kinds = 0;
	for (const char *at = text; *at;) {
		size_t len = strcspn(at, ",");
		unsigned kind = 0;
		while (kind < PAGES_KINDS && (strlen(pages_kind_name(kind)) != len ||
					      strncmp(pages_kind_name(kind), at, len) != 0))
			kind++;
		if (kind == PAGES_KINDS)
			return err_set(err, -EINVAL, "unknown kind '%.*s': " KIND_WORDS, (int)len,
				       at);
		*kinds |= 1u << kind;
		at += len + (at[len] == ',');
	}
	return *kinds ? 0 : err_set(err, -EINVAL, "--kind needs a word: " KIND_WORDS);
}

static const struct {
	const char *name, *text;
} reasons[PAGES_REASONS] = {
	[PAGES_KNOWN] = { "known", "known" },
	[PAGES_BEFORE_ATTACH] = { "before_attach", "there before byteledger was" },
	[PAGES_OTHER_TASK] = { "other_task", "allocated by another task" },
	[PAGES_NOT_SEEN] = { "not_seen", "file or shared pages mapped without a fault" },
	[PAGES_TABLE_FULL] = { "table_full", "the table of stacks was full" },
	[PAGES_WALK_BUSY] = { "walk_busy", "no room to walk the stack" },
	[PAGES_NO_FRAMES] = { "no_frames", "a stack without a frame" },
	[PAGES_POOL] = { "pool", "from the pool of huge pages" },
};

const char *page_reason_name(unsigned reason)
{
	return reason < PAGES_REASONS ? reasons[reason].name : NULL;
}

const char *page_reason_text(unsigned reason)
{
	return reason < PAGES_REASONS ? reasons[reason].text : NULL;
}

const char *page_loss_name(unsigned loss)
{
	static const char *const names[PAGES_LOSSES] = {
		[PAGES_LOST_STACKS] = "stacks_full",   [PAGES_LOST_FRAMES] = "frames_full",
		[PAGES_LOST_BUSY] = "walk_busy",       [PAGES_LOST_MOVES] = "moves_full",
		[PAGES_LOST_EVENTS] = "events_full",   [PAGES_LOST_PROCESSES] = "processes_full",
		[PAGES_LOST_WINDOWS] = "windows_full", [PAGES_LOST_MEMORY] = "memory_beyond",
		[PAGES_LOST_MISSED] = "events_missed",
	};
	return loss < PAGES_LOSSES ? names[loss] : NULL;
}

struct page_stack *page_stack_get(const struct page_stack *stack)
{
	struct page_stack *own = (struct page_stack *)stack;
	if (own)
		atomic_fetch_add(&own->refs, 1);
	return own;
}

void page_stack_put(const struct page_stack *stack)
{
	struct page_stack *own = (struct page_stack *)stack;
	if (!own || atomic_fetch_sub(&own->refs, 1) > 1)
		return;
	for (uint16_t i = 0; own->counts && i < own->count; i++)
		atomic_fetch_sub(&((struct page_frame *)own->frames[i])->held, 1);
	free(own);
}

/* A process stands in several shots once it has ended. */
struct counted {
	struct page_process process;
	atomic_int refs;
};

struct page_process *page_process_new(void)
{
	struct counted *counted = calloc(1, sizeof(*counted));
	if (!counted)
		return NULL;
	atomic_init(&counted->refs, 1);
	return &counted->process;
}

struct page_process *page_process_get(struct page_process *process)
{
	atomic_fetch_add(&((struct counted *)process)->refs, 1);
	return process;
}

void page_process_put(struct page_process *process)
{
	if (!process || atomic_fetch_sub(&((struct counted *)process)->refs, 1) > 1)
		return;
	for (size_t i = 0; i < process->row_count; i++) {
		free((char *)process->rows[i].label);
		page_stack_put(process->rows[i].stack);
	}
	for (size_t i = 0; i < process->live_count; i++)
		page_stack_put(process->live[i].stack);
	free(process->live);
	free(process->rows);
	free(process->cmdline);
	free(process);
}

struct page_shot *page_shot_get(struct page_shot *shot)
{
	if (shot)
		atomic_fetch_add(&shot->refs, 1);
	return shot;
}

void page_shot_put(struct page_shot *shot)
{
	if (!shot || atomic_fetch_sub(&shot->refs, 1) > 1)
		return;
	for (size_t i = 0; i < shot->count; i++)
		page_process_put(shot->processes[i]);
	free(shot->processes);
	page_process_put(shot->group);
	if (shot->leave)
		shot->leave(shot->home);
	free(shot);
}

void page_shot_putp(struct page_shot **shot)
{
	page_shot_put(*shot);
}

const struct page_process *page_shot_find(const struct page_shot *shot, pid_t pid)
{
	for (size_t i = 0; i < shot->count; i++)
		if (!pid || shot->processes[i]->pid == pid)
			return shot->processes[i];
	return NULL;
}
