/* SPDX-License-Identifier: Apache-2.0 */
#include "query/family.h"

#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "base/clock.h"
#include "source/source.h"
#include "trace/trace.h"

#define FILES_MAX 200000 /* of a folder: what is beyond is not looked into */

/* What the first block of a file says. */
struct head {
	struct sink sink;
	char *path;
	uint64_t family, start_realtime_ns, start_monotonic_ns;
	uint32_t pid, parent_pid;
	/* among the heads; FAMILY_NOBODY */
	uint32_t parent;
	int known, taken, is_raw;
	/* another program was recorded in the same process later */
	int followed;
	struct stat st;
};

struct heads {
	struct head *at;
	size_t count, size;
};

static void heads_fini(struct heads *heads)
{
	for (size_t i = 0; i < heads->count; i++)
		free(heads->at[i].path);
	free(heads->at);
}

/* ---- looking --------------------------------------------------------------------------------- */

static int head_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct head *head = (struct head *)sink;
	if (def->kind == DEF_PROCESS && !head->known) {
		head->known = 1;
		head->family = def->process.family;
		head->pid = def->process.pid;
		head->parent_pid = def->process.parent_pid;
		head->start_realtime_ns = def->process.start_realtime_ns;
		head->start_monotonic_ns = def->process.start_monotonic_ns;
	}
	return err_set(err, -ECANCELED, "enough is known");
}

static int head_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)sink;
	(void)events;
	(void)count;
	return err_set(err, -ECANCELED, "enough is known");
}

static int look_into_raw(struct head *head)
{
	struct source_heap_raw_head raw;
	if (!source_heap_raw_head(head->path, &raw))
		return 0;
	head->is_raw = head->known = 1;
	head->family = raw.family;
	head->pid = raw.pid;
	head->parent_pid = raw.parent_pid;
	head->start_realtime_ns = raw.start_realtime_ns;
	head->start_monotonic_ns = raw.start_ns;
	return 1;
}

/* Return: 1 it is a recording that says of whom, 0 it is not. */
static int look_into(struct head *head)
{
	struct err none = { 0 };
	head->sink = (struct sink){ .define = head_define, .put = head_put };
	head->parent = FAMILY_NOBODY;
	if (stat(head->path, &head->st) < 0 || !S_ISREG(head->st.st_mode))
		return 0;
	if (trace_is(head->path, &none) <= 0)
		return look_into_raw(head);
	CLEANUP(trace_reader_freep)
	struct trace_reader *reader = trace_reader_new(head->path, &none);
	if (reader)
		trace_reader_run(reader, &head->sink, NULL, &none);
	return head->known && head->pid;
}

static int add_head(struct heads *heads, const char *folder, const char *name, struct err *err)
{
	if (heads->count == heads->size) {
		size_t size = heads->size ? 2 * heads->size : 64;
		struct head *grown = reallocarray(heads->at, size, sizeof(*grown));
		if (!grown)
			return err_set(err, -ENOMEM, "cannot hold what is in '%s'", folder);
		heads->at = grown;
		heads->size = size;
	}
	struct head *head = &heads->at[heads->count];
	*head = (struct head){ 0 };
	if (asprintf(&head->path, "%s/%s", folder, name) < 0)
		return err_set(err, -ENOMEM, "cannot hold what is in '%s'", folder);
	if (look_into(head))
		heads->count++;
	else
		free(head->path);
	return 0;
}

static int look_around(struct heads *heads, const char *folder, struct err *err)
{
	DIR *dir = opendir(folder);
	int rc = 0;
	if (!dir)
		return err_set(err, -errno, "cannot read the folder '%s'", folder);
	for (struct dirent *entry; rc == 0 && heads->count < FILES_MAX && (entry = readdir(dir));) {
		size_t len = strlen(entry->d_name);
		/* beside a recording that is being written; the same program is told by that one */
		if (len > 8 && strcmp(entry->d_name + len - 8, ".pending") == 0)
			continue;
		if (entry->d_type == DT_REG || entry->d_type == DT_UNKNOWN)
			rc = add_head(heads, folder, entry->d_name, err);
	}
	closedir(dir);
	return rc;
}

/* ---- who belongs to whom --------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct head *x = a, *y = b;
	if (x->start_realtime_ns != y->start_realtime_ns)
		return x->start_realtime_ns < y->start_realtime_ns ? -1 : 1;
	return strverscmp(x->path, y->path);
}

/* A program whose file was full goes on in another. */
static int is_rest_of(const struct head *a, const struct head *first)
{
	return a->pid == first->pid && a->family == first->family &&
	       a->start_monotonic_ns == first->start_monotonic_ns;
}

static int by_process(const void *a, const void *b)
{
	const struct head *x = a, *y = b;
	if (x->family != y->family)
		return x->family < y->family ? -1 : 1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start_monotonic_ns != y->start_monotonic_ns)
		return x->start_monotonic_ns < y->start_monotonic_ns ? -1 : 1;
	return strverscmp(x->path, y->path);
}

/* The wall clock is told anew for each file of a program, and may be a little off. */
static void sort_heads(struct heads *heads)
{
	qsort(heads->at, heads->count, sizeof(*heads->at), by_process);
	for (size_t i = 1; i < heads->count; i++) {
		struct head *at = &heads->at[i], *before = at - 1;
		if (is_rest_of(at, before))
			at->start_realtime_ns = before->start_realtime_ns;
		else
			before->followed = at->pid == before->pid && at->family == before->family;
	}
	qsort(heads->at, heads->count, sizeof(*heads->at), by_start);
}

/* Of those of that pid the last that began before: a pid may come again. */
static void find_parents(struct heads *heads)
{
	for (size_t i = 0; i < heads->count; i++) {
		struct head *child = &heads->at[i];
		for (size_t k = i; child->parent_pid && k-- > 0;) {
			const struct head *at = &heads->at[k];
			if (at->pid != child->parent_pid || at->family != child->family)
				continue;
			child->parent = (uint32_t)k;
			break;
		}
		/* who has its pages in several files is named by the first */
		while (child->parent != FAMILY_NOBODY && child->parent > 0 &&
		       is_rest_of(&heads->at[child->parent - 1], &heads->at[child->parent]))
			child->parent--;
	}
}

static size_t root_of(const struct heads *heads, size_t at)
{
	while (heads->at[at].parent != FAMILY_NOBODY)
		at = heads->at[at].parent;
	return at;
}

static int same_family(const struct heads *heads, size_t a, size_t b)
{
	if (heads->at[a].family != heads->at[b].family)
		return 0;
	return heads->at[a].family || root_of(heads, a) == root_of(heads, b) ||
	       is_rest_of(&heads->at[a], &heads->at[b]);
}

/* ---- reading --------------------------------------------------------------------------------- */

static void add_totals(struct prof_totals *to, const struct prof_totals *more)
{
	uint64_t peak = to->cost.peak_bytes > more->cost.peak_bytes ? to->cost.peak_bytes
								    : more->cost.peak_bytes;
	/* what a file begins with lived in the one before */
	uint64_t fresh, fresh_bytes;
	if (__builtin_sub_overflow(more->cost.allocations, more->inherited_allocations, &fresh))
		fresh = 0;
	if (__builtin_sub_overflow(more->cost.allocated_bytes, more->inherited_bytes, &fresh_bytes))
		fresh_bytes = 0;
	sum_add(&to->cost.allocations, fresh);
	sum_add(&to->cost.allocated_bytes, fresh_bytes);
	sum_add(&to->cost.frees, more->cost.frees);
	sum_add(&to->cost.temporary, more->cost.temporary);
	to->cost.leaked = more->cost.leaked;
	to->cost.leaked_bytes = more->cost.leaked_bytes;
	to->cost.peak_bytes = peak;
	sum_add(&to->lost_events, more->lost_events);
	to->runtime_ns = more->runtime_ns;
	if (more->peak_rss_bytes > to->peak_rss_bytes)
		to->peak_rss_bytes = more->peak_rss_bytes;
}

static void take_process(struct family_member *m, const struct prof_process *process)
{
	if (!m->exe && process->exe)
		m->exe = strdup(process->exe);
	if (!m->cmdline && process->cmdline_bytes &&
	    (m->cmdline = malloc(process->cmdline_bytes))) {
		memcpy(m->cmdline, process->cmdline, process->cmdline_bytes);
		m->cmdline_bytes = process->cmdline_bytes;
	}
	m->ended = process->ended;
	m->complete = process->complete;
	m->exit_status = process->exit_status;
}

static void take_comment(struct family_member *m, const char *comment, int followed)
{
	const char *became = comment ? strstr(comment, FAMILY_BECAME) : NULL;
	const char *unrecorded = comment ? strstr(comment, FAMILY_UNRECORDED) : NULL;
	if (unrecorded)
		m->unrecorded =
			(uint32_t)strtoul(unrecorded + sizeof(FAMILY_UNRECORDED) - 1, NULL, 10);
	if (!became || followed)
		return;
	free(m->became);
	m->became = strdup(became + sizeof(FAMILY_BECAME) - 1);
}

static void read_member(struct family_member *m, const struct head *head,
			const struct recording_ears *ears)
{
	struct err err = { 0 };
	struct prof_totals totals;
	CLEANUP(recording_freep) struct recording *file = recording_open(head->path, ears, &err);
	CLEANUP(prof_freep) struct prof *prof = file ? recording_read(file, NULL, &err) : NULL;
	if (!prof || !prof_process(prof)) {
		free(m->trouble);
		m->trouble = strdup(err.msg[0] ? err.msg : "it says nothing of its process");
		return;
	}
	prof_totals(prof, &totals);
	take_process(m, prof_process(prof));
	take_comment(m, prof_process(prof)->comment, head->followed);
	m->goes_on = recording_goes_on(file);
	if (m->files++)
		add_totals(&m->totals, &totals);
	else
		m->totals = totals;
	m->runtime_ns = m->totals.runtime_ns;
}

/*
 * What @at started comes behind it, depth first: an own stack, since crafted files may be a deep
 * chain.
 */
static void put_members(struct family *family, struct heads *heads, size_t chosen, uint32_t *place,
			const struct recording_ears *ears)
{
	size_t top = 0, *stack = calloc(heads->count + 1, sizeof(*stack));
	uint32_t *next = calloc(heads->count + 1, sizeof(*next)),
		 *last = malloc((heads->count + 1) * sizeof(*last));
	if (!stack || !next || !last)
		goto out;
	/*
	 * children of each as lists in the order of their start; those of nobody below the place
	 * behind all
	 */
	for (size_t i = 0; i <= heads->count; i++)
		next[i] = last[i] = FAMILY_NOBODY;
	for (size_t i = heads->count; i-- > 0;) {
		struct head *head = &heads->at[i];
		if (!same_family(heads, i, chosen)) {
			family->others++;
			continue;
		}
		size_t below = head->parent == FAMILY_NOBODY ? heads->count : head->parent;
		next[i] = last[below];
		last[below] = (uint32_t)i;
	}
	if (last[heads->count] != FAMILY_NOBODY)
		stack[top++] = last[heads->count];
	while (top) {
		size_t at = stack[--top];
		const struct head *head = &heads->at[at];
		if (next[at] != FAMILY_NOBODY)
			stack[top++] = next[at];
		if (at && heads->at[at - 1].taken && is_rest_of(head, &heads->at[at - 1])) {
			read_member(&family->members[place[at - 1]], head, ears);
			place[at] = place[at - 1];
		} else {
			place[at] = (uint32_t)family->count;
			struct family_member *m = &family->members[family->count++];
			uint32_t parent =
				head->parent == FAMILY_NOBODY ? FAMILY_NOBODY : place[head->parent];
			*m = (struct family_member){
				.path = strdup(head->path),
				.parent = parent,
				.depth = parent == FAMILY_NOBODY
						 ? 0
						 : family->members[parent].depth + 1,
				.pid = head->pid,
				.parent_pid = head->parent_pid,
				.start_realtime_ns = head->start_realtime_ns,
				.start_monotonic_ns = head->start_monotonic_ns,
				.is_raw = head->is_raw,
				.exit_status = -1
			};
			read_member(m, head, ears);
		}
		heads->at[at].taken = 1;
		if (last[at] != FAMILY_NOBODY)
			stack[top++] = last[at];
	}
out:
	free(stack);
	free(next);
	free(last);
}

static struct family *read_family(const char *folder, const char *file,
				  const struct recording_ears *ears, struct err *err)
{
	CLEANUP(family_freep) struct family *family = calloc(1, sizeof(*family));
	CLEANUP(heads_fini) struct heads heads = { 0 };
	struct stat st = { 0 };
	if (!family || !(family->folder = strdup(folder))) {
		err_set(err, -ENOMEM, "cannot read '%s'", folder);
		return NULL;
	}
	if (file && stat(file, &st) < 0) {
		err_set(err, -errno, "cannot read '%s'", file);
		return NULL;
	}
	if (look_around(&heads, folder, err) < 0)
		return NULL;
	sort_heads(&heads);
	find_parents(&heads);
	size_t chosen = heads.count;
	for (size_t i = 0; i < heads.count; i++)
		if (file ? heads.at[i].st.st_ino == st.st_ino && heads.at[i].st.st_dev == st.st_dev
			 : chosen == heads.count || !same_family(&heads, i, chosen))
			chosen = i; /* of a folder: who begins the family that began last */
	if (chosen == heads.count) {
		err_set(err, -ENOENT,
			file ? "'%s' is not the recording of a process"
			     : "there is no recording in '%s'",
			file ? file : folder);
		err_hint(err,
			 "'byteledger run --follow-children -- PROGRAM' makes a family of them");
		return NULL;
	}
	uint32_t *place = calloc(heads.count + 1, sizeof(*place));
	family->members = calloc(heads.count, sizeof(*family->members));
	if (place && family->members)
		put_members(family, &heads, chosen, place, ears);
	free(place);
	if (!family->count) {
		err_set(err, -ENOMEM, "cannot read '%s'", folder);
		return NULL;
	}
	return STEAL(family);
}

struct family *family_read(const char *path, const struct recording_ears *ears, struct err *err)
{
	struct stat st;
	if (stat(path, &st) < 0) {
		err_set(err, -errno, "cannot open '%s'", path);
		return NULL;
	}
	if (S_ISDIR(st.st_mode))
		return read_family(path, NULL, ears, err);
	char *copy = strdup(path);
	struct family *family = copy ? read_family(dirname(copy), path, ears, err) : NULL;
	if (!copy)
		err_set(err, -ENOMEM, "cannot open '%s'", path);
	free(copy);
	return family;
}

void family_freep(struct family **family)
{
	struct family *f = *family;
	*family = NULL;
	if (!f)
		return;
	for (size_t i = 0; i < f->count; i++) {
		free(f->members[i].path);
		free(f->members[i].exe);
		free(f->members[i].cmdline);
		free(f->members[i].became);
		free(f->members[i].trouble);
	}
	free(f->members);
	free(f->folder);
	free(f);
}

size_t family_unfinished(const struct family *family)
{
	size_t count = 0;
	for (size_t i = 0; i < family->count; i++) {
		const struct family_member *m = &family->members[i];
		count += m->goes_on && kill((pid_t)m->pid, 0) < 0 && errno == ESRCH;
	}
	return count;
}

#define AWAIT_NS 3000000000ull
#define AWAIT_LOOK_NS 20000000

struct family *family_await(const char *path, struct err *err)
{
	const struct timespec pause = { .tv_nsec = AWAIT_LOOK_NS };
	for (uint64_t start = clock_ns(CLOCK_MONOTONIC);;) {
		struct family *family = family_read(path, NULL, err);
		if (!family || !family_unfinished(family) ||
		    clock_ns(CLOCK_MONOTONIC) - start > AWAIT_NS)
			return family;
		family_freep(&family);
		nanosleep(&pause, NULL);
	}
}
