/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/processes.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc/proc.h"

static int is_named(pid_t pid, const char *glob)
{
	char path[PATH_MAX], comm[32];
	if (!glob)
		return 1;
	if (proc_exe(pid, path, sizeof(path)) == 0) {
		const char *slash = strrchr(path, '/');
		return fnmatch(glob, slash ? slash + 1 : path, 0) == 0;
	}
	return proc_comm(pid, pid, comm, sizeof(comm)) == 0 && fnmatch(glob, comm, 0) == 0;
}

/**
 * put_name() - what it was called with, but for the program's folder; the thread's name where it
 * has none.
 */
static void put_name(pid_t pid, char *name, size_t size)
{
	char *words = NULL, comm[32];
	ssize_t len = proc_cmdline(pid, &words);
	name[0] = '\0';
	if (len > 0) {
		size_t first = strnlen(words, (size_t)len), used = 0;
		const char *slash = words[0] == '/' ? memrchr(words, '/', first) : NULL;
		const char *from = slash ? slash + 1 : words;
		size_t left = (size_t)(words + len - from);
		for (; used < left && used + 1 < size; used++)
			name[used] = from[used] ? from[used] : ' ';
		while (used && name[used - 1] == ' ')
			used--;
		name[used] = '\0';
	}
	if (!name[0] && proc_comm(pid, pid, comm, sizeof(comm)) == 0)
		snprintf(name, size, "[%s]", comm);
	free(words);
}

/** take() - 1: it is one of them. */
static int take(pid_t pid, const char *glob, struct process_row *row)
{
	struct proc_gauge gauge = { .pid = pid };
	struct proc_memory memory = { 0 };
	int rc = proc_gauge_memory(&gauge, &memory);
	proc_gauge_fini(&gauge);
	/* kernel threads hold nothing, nor does what has ended */
	if (rc < 0 || !memory.rss_bytes || !is_named(pid, glob))
		return 0;
	*row = (struct process_row){ .pid = pid, .rss_bytes = memory.rss_bytes };
	if (proc_peak_rss(pid, &row->peak_bytes) < 0)
		row->peak_bytes = 0;
	put_name(pid, row->name, sizeof(row->name));
	return 1;
}

int processes_read(const char *glob, struct process_row *rows, size_t room, struct err *err)
{
	DIR *dir = opendir("/proc");
	int count = 0;
	if (!dir)
		return err_set(err, -errno, "cannot list processes");
	for (struct dirent *entry; (size_t)count < room && (entry = readdir(dir));)
		if (isdigit((unsigned char)entry->d_name[0]))
			count += take((pid_t)strtol(entry->d_name, NULL, 10), glob, &rows[count]);
	closedir(dir);
	return count;
}
