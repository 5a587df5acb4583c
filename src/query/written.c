/* SPDX-License-Identifier: Apache-2.0 */
#include "query/written.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "model/event.h"
#include "query/recording.h"
#include "source/snapshot.h"
#include "trace/trace.h"

/**
 * struct whose - a sink that wants to know no more than whose recording it is: that is the first
 * definition.
 */
struct whose {
	struct sink sink;
	pid_t pid;
};

static int whose_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct whose *whose = (struct whose *)sink;
	if (def->kind == DEF_PROCESS)
		whose->pid = (pid_t)def->process.pid;
	return err_set(err, -ECANCELED, "that is enough");
}

static int whose_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)sink, (void)events, (void)count;
	return err_set(err, -ECANCELED, "that is enough");
}

/*
 * Whether the recording at @path is of @pid, and being written. Others may have ones open that take
 * minutes to read.
 */
static int is_of(const char *path, pid_t pid)
{
	struct err err = { 0 };
	struct whose whose = { .sink = { .define = whose_define, .put = whose_put } };
	CLEANUP(recording_freep) struct recording *recording = recording_open(path, NULL, &err);
	if (!recording || recording_kind(recording) != RECORDING_BLT ||
	    !recording_is_written(recording))
		return 0;
	recording_run(recording, &whose.sink, &err);
	return whose.pid == pid;
}

static int look_in(const char *number, pid_t pid, char **path)
{
	char folder[64], link[320], target[4096];
	snprintf(folder, sizeof(folder), "/proc/%.20s/fd", number);
	DIR *dir = opendir(folder);
	struct dirent *entry;
	int found = 0;
	while (dir && !found && (entry = readdir(dir))) {
		snprintf(link, sizeof(link), "%s/%.255s", folder, entry->d_name);
		ssize_t n = readlink(link, target, sizeof(target) - 1);
		if (n <= 0)
			continue;
		target[n] = 0;
		/*
		 * a name is no proof, and spares opening everything; so does a look at who holds it
		 */
		if (strstr(target, ".blt") && access(target, R_OK) == 0 && is_of(target, pid)) {
			*path = strdup(target);
			found = *path != NULL;
		}
	}
	if (dir)
		closedir(dir);
	return found;
}

int written_find(pid_t pid, char **path, struct err *err)
{
	char exe[64], own[4096], theirs[4096];
	ssize_t own_len = readlink("/proc/self/exe", own, sizeof(own));
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int found = 0;
	snprintf(exe, sizeof(exe), "/proc/%d", (int)pid);
	if (access(exe, F_OK) < 0) {
		if (dir)
			closedir(dir);
		return err_set(err, -ESRCH, "cannot show process %d", (int)pid);
	}
	/*
	 * whoever records it says so: after an exec its file has another name until the program has
	 * ended
	 */
	written_of(pid, theirs, sizeof(theirs));
	if (theirs[0]) {
		*path = strdup(theirs);
		found = *path != NULL;
	}
	while (dir && !found && (entry = readdir(dir))) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		snprintf(exe, sizeof(exe), "/proc/%.20s/exe", entry->d_name);
		ssize_t n = readlink(exe, theirs, sizeof(theirs));
		const char *slash = n > 0 ? memrchr(theirs, '/', (size_t)n) : NULL;
		if ((n == own_len && n > 0 && !memcmp(own, theirs, (size_t)n)) ||
		    (slash && theirs + n - slash >= 11 && !memcmp(slash, "/byteledger", 11)))
			found = look_in(entry->d_name, pid, path);
	}
	if (dir)
		closedir(dir);
	if (found)
		return 0;
	err_set(err, -EINVAL, "process %d is not being recorded", (int)pid);
	return err_hint(err,
			"start it with 'byteledger run'; 'byteledger regions -p %d --watch 1' "
			"follows any process",
			(int)pid);
}

void written_by(pid_t recorder, char *path, size_t size)
{
	char folder[64], link[512], at[1024];
	snprintf(folder, sizeof(folder), "/proc/%d/fd", (int)recorder);
	DIR *dir = recorder ? opendir(folder) : NULL;
	path[0] = '\0';
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		snprintf(link, sizeof(link), "%s/%s", folder, entry->d_name);
		ssize_t len = readlink(link, at, sizeof(at) - 1);
		if (len <= 4)
			continue;
		at[len] = '\0';
		struct stat st;
		struct trace_reader *reader = NULL;
		struct err ignored = { 0 };
		/* whatever it is called: what it holds tells */
		if (stat(link, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 64 &&
		    !strstr(at, "byteledger (deleted)") &&
		    (reader = trace_reader_new(at[0] == '/' && access(at, R_OK) == 0 ? at : link,
					       &ignored))) {
			snprintf(path, size, "%s", access(at, R_OK) == 0 ? at : link);
			trace_reader_freep(&reader);
			break;
		}
	}
	if (dir)
		closedir(dir);
}

void written_of(pid_t pid, char *path, size_t size)
{
	written_by(snapshot_recorder(pid), path, size);
}
