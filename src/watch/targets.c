/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/targets.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"
#include "proc/proc.h"
#include "watch/container.h"

#define CGROUP_DEPTH_MAX 32
#define PIDS_MAX 100000u
#define MORE_NS NS_PER_S /* between looks for restarts and children */
#define NAME_POLL_MS \
	50 /* a program that runs for less may be missed, and has no memory to look at */

int targets_given(const struct targets *targets)
{
	return targets->pid_count || targets->name || targets->container || targets->cgroup;
}

void target_list_fini(struct target_list *list)
{
	free(list->pids);
	*list = (struct target_list){ 0 };
}

int target_list_add(struct target_list *list, pid_t pid, struct err *err)
{
	for (size_t i = 0; i < list->count; i++)
		if (list->pids[i] == pid)
			return 0;
	if (list->count == PIDS_MAX)
		return err_set(err, -EINVAL, "more than %u processes", PIDS_MAX);
	if ((list->count & (list->count - 1)) == 0) {
		pid_t *grown = realloc(list->pids,
				       (list->count ? list->count * 2 : 1) * sizeof(*list->pids));
		if (!grown)
			return err_set(err, -ENOMEM, "cannot list processes");
		list->pids = grown;
	}
	list->pids[list->count++] = pid;
	return 0;
}

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

static int by_pid(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;
	return x < y ? -1 : x > y;
}

static int matches_base(const char *path, const char *name)
{
	const char *base = strrchr(path, '/');
	return fnmatch(name, base ? base + 1 : path, 0) == 0;
}

/*
 * What of the process is called @name: "executable", "comm" or "argv[0]"; NULL: nothing. @exe: its
 * executable's path, "" if hidden.
 */
static const char *name_by(pid_t pid, const char *name, char exe[4096])
{
	char comm[32];
	exe[0] = '\0';
	if (proc_exe(pid, exe, 4096) < 0)
		exe[0] = '\0';
	char *deleted = strstr(exe, " (deleted)");
	if (deleted && deleted[10] == '\0')
		*deleted = '\0';
	if (exe[0] && matches_base(exe, name))
		return "executable";
	/* a kernel thread has neither an executable nor arguments, and no memory to look at */
	if (proc_comm(pid, pid, comm, sizeof(comm)) == 0 && fnmatch(name, comm, 0) == 0 && exe[0])
		return "comm";
	char *line = NULL;
	ssize_t len = exe[0] ? proc_cmdline(pid, &line) : -1;
	const char *by = NULL;
	if (len > 0) {
		/*
		 * a title that a program gave itself ("redis-server *:6379") ends its name with a
		 * blank or a colon
		 */
		line[strcspn(line, " :")] = '\0';
		by = matches_base(line, name) ? "argv[0]" : NULL;
	}
	free(line);
	return by;
}

static int has_name(pid_t pid, const char *name)
{
	char exe[4096];
	return name_by(pid, name, exe) != NULL;
}

/* Whoever is found by another name than the executable's is told of. */
static void tell_names(const struct targets *targets, const struct target_list *list, size_t from)
{
	for (size_t i = from; i < list->count && targets->called; i++) {
		char exe[4096];
		const char *by = name_by(list->pids[i], targets->name, exe);
		const char *base = strrchr(exe, '/');
		if (by && strcmp(by, "executable") != 0)
			targets->called(list->pids[i], by, base ? base + 1 : exe);
	}
}

typedef int (*matches_fn)(pid_t pid, const char *text);

/* Every process that @matches, by PID; our own is not looked for. */
static int find_all(matches_fn matches, const char *text, struct target_list *list, struct err *err)
{
	CLEANUP(closedirp) DIR *dir = opendir("/proc");
	if (!dir)
		return err_set(err, -errno, "cannot list processes");
	size_t before = list->count;
	for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		if (pid <= 0 || pid == getpid() || !matches(pid, text))
			continue;
		int rc = target_list_add(list, pid, err);
		if (rc < 0)
			return rc;
	}
	if (list->count > before)
		qsort(list->pids + before, list->count - before, sizeof(*list->pids), by_pid);
	return 0;
}

static int in_container(pid_t pid, const char *id)
{
	return container_holds(id, pid);
}

static int find_container(struct targets *targets, struct target_list *list, struct err *err)
{
	size_t before = list->count;
	int rc = container_id(targets->container, targets->container_id, err);
	if (rc == 0)
		rc = find_all(in_container, targets->container_id, list, err);
	if (rc < 0 || list->count > before)
		return rc;
	err_set(err, -ESRCH, "container '%s' holds no process", targets->container);
	return err_hint(err,
			"it may have ended, or runs below another kernel; --cgroup PATH names a "
			"cgroup directly");
}

static int add_procs(int dir, struct target_list *list, struct err *err)
{
	int fd = openat(dir, "cgroup.procs", O_RDONLY | O_CLOEXEC);
	FILE *file = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!file) {
		int code = -errno;
		if (fd >= 0)
			close(fd);
		/* a threaded cgroup lists no processes of its own: its parent does */
		return code == -EOPNOTSUPP ? 0 : err_set(err, code, "cannot read cgroup.procs");
	}
	char line[64];
	int rc = 0;
	while (rc == 0 && fgets(line, sizeof(line), file)) {
		pid_t pid = (pid_t)strtol(line, NULL, 10);
		char exe[4096];
		/*
		 * 0: of another PID namespace. Kernel threads and zombies have no memory to look at
		 */
		if (pid > 0 && proc_exe(pid, exe, sizeof(exe)) != -ENOENT)
			rc = target_list_add(list, pid, err);
	}
	fclose(file);
	return rc;
}

/** walk_cgroup() - the processes of a cgroup and of those below it; @fd is closed. */
static int walk_cgroup(int fd, unsigned depth, struct target_list *list, struct err *err)
{
	int rc = add_procs(fd, list, err);
	CLEANUP(closedirp) DIR *dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return rc;
	}
	for (struct dirent *entry; rc == 0 && (entry = readdir(dir)) != NULL;) {
		if (entry->d_type != DT_DIR || entry->d_name[0] == '.' || depth == CGROUP_DEPTH_MAX)
			continue;
		int below =
			openat(fd, entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (below >= 0)
			rc = walk_cgroup(below, depth + 1, list, err);
	}
	return rc;
}

/**
 * open_cgroup() - the folder of a cgroup: an absolute path below a mounted cgroup file system, or
 * one as /proc/PID/cgroup names it, looked for where version 2 is mounted, then below the memory
 * controller of version 1.
 */
static int open_cgroup(const char *path)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	if (!mounts)
		return -errno;
	int found = -ENOENT, version = 0;
	char line[8192];
	while (fgets(line, sizeof(line), mounts)) {
		char at[4096], type[64], flags[2048], full[8400];
		if (sscanf(line, "%*s %4095s %63s %2047s", at, type, flags) != 3)
			continue;
		int is2 = strcmp(type, "cgroup2") == 0;
		if (!is2 && strcmp(type, "cgroup") != 0)
			continue;
		size_t len = strlen(at);
		if (strncmp(path, at, len) == 0 && (path[len] == '/' || path[len] == '\0'))
			snprintf(full, sizeof(full), "%s", path);
		else if (is2 || strstr(flags, ",memory"))
			snprintf(full, sizeof(full), "%s/%s", at, path);
		else
			continue;
		if (version == 2 || (version == 1 && !is2))
			continue;
		int fd = open(full, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			continue;
		if (found >= 0)
			close(found);
		found = fd;
		version = is2 ? 2 : 1;
	}
	fclose(mounts);
	return found;
}

static int find_cgroup(const char *path, struct target_list *list, struct err *err)
{
	int fd = open_cgroup(path);
	if (fd < 0) {
		err_set(err, fd, "cannot open cgroup '%s'", path);
		return err_hint(err,
				"a path as in /proc/PID/cgroup, or a folder below the place where "
				"cgroups are mounted");
	}
	size_t before = list->count;
	int rc = walk_cgroup(fd, 0, list, err);
	if (rc < 0)
		return err_wrap(err, "cgroup '%s'", path);
	if (list->count == before)
		return err_set(err, -EINVAL, "cgroup '%s' holds no process", path);
	qsort(list->pids + before, list->count - before, sizeof(*list->pids), by_pid);
	return 0;
}

/* ---- descendants ----------------------------------------------------------------------------- */

/* The parent of a process that still has memory; 0 for one that has not. */
static pid_t parent_of(pid_t pid)
{
	char path[32], text[512];
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fileio_text(AT_FDCWD, path, text, sizeof(text));
	/* "1 (name) S 0 ...": the name may hold anything */
	const char *at = strrchr(text, ')');
	if (!at || at[1] != ' ' || !at[2] ||
	    (strchr("ZX", at[2]) && (at[2] == 'X' || !proc_living_thread(pid))))
		return 0;
	return (pid_t)strtol(at + 3, NULL, 10);
}

static int any(pid_t pid, const char *text)
{
	(void)text;
	return pid > 0;
}

static int add_descendants(struct target_list *list, struct err *err)
{
	CLEANUP(target_list_fini) struct target_list all = { 0 };
	int rc = find_all(any, NULL, &all, err);
	pid_t *parents = rc < 0 ? NULL : calloc(all.count + 1, sizeof(*parents));
	if (rc == 0 && !parents)
		rc = err_set(err, -ENOMEM, "cannot list processes");
	for (size_t i = 0; i < all.count && rc == 0; i++)
		parents[i] = parent_of(all.pids[i]);
	/* the list grows while it is walked: children of children come behind */
	for (size_t at = 0; at < list->count && rc == 0; at++)
		for (size_t i = 0; i < all.count && rc == 0; i++)
			if (parents[i] == list->pids[at])
				rc = target_list_add(list, all.pids[i], err);
	free(parents);
	return rc;
}

int targets_find(struct targets *targets, uint64_t until_ns, struct target_list *list,
		 struct err *err)
{
	int rc = 0;
	for (unsigned i = 0; i < targets->pid_count && rc == 0; i++)
		rc = target_list_add(list, targets->pids[i], err);
	if (rc == 0 && targets->container)
		rc = find_container(targets, list, err);
	if (rc == 0 && targets->cgroup)
		rc = find_cgroup(targets->cgroup, list, err);
	size_t before = list->count;
	for (int said = 0; rc == 0 && targets->name; said = 1) {
		uint64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		rc = find_all(has_name, targets->name, list, err);
		if (rc < 0 || list->count > before || targets->at_once)
			break;
		if (!said && targets->waiting)
			targets->waiting(targets->name);
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		if (until_ns && now >= until_ns) {
			err_set(err, -EINVAL, "no program called '%s' came while --duration ran",
				targets->name);
			return err_hint(
				err,
				"the name is that of the executable, of the process (comm) or of "
				"argv[0], without its folder");
		}
		/* where there are many processes, less often: a twentieth of a CPU at most */
		cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
		uint64_t pause_ms = NAME_POLL_MS + cpu / 1000000 * 20;
		if (until_ns && (until_ns - now) / 1000000 < pause_ms)
			pause_ms = (until_ns - now) / 1000000 + 1;
		poll(NULL, 0, (int)pause_ms);
	}
	if (rc == 0 && targets->name)
		tell_names(targets, list, before);
	return rc == 0 && targets->follow_children ? add_descendants(list, err) : rc;
}

int targets_follow(const struct targets *targets)
{
	return targets->name || targets->container || targets->cgroup || targets->follow_children;
}

int targets_more(const struct targets *targets, struct target_list *list, struct err *err)
{
	struct err none = { 0 }; /* a cgroup that holds no process just now */
	int rc = 0;
	if (targets->name)
		rc = find_all(has_name, targets->name, list, err);
	if (rc == 0 && targets->container_id[0])
		rc = find_all(in_container, targets->container_id, list, err);
	if (rc == 0 && targets->cgroup)
		find_cgroup(targets->cgroup, list, &none);
	return rc == 0 && targets->follow_children ? add_descendants(list, err) : rc;
}

uint64_t targets_more_due(uint64_t cpu_ns)
{
	uint64_t pause = cpu_ns * 1000;
	return clock_ns(CLOCK_MONOTONIC) + (pause > MORE_NS ? pause : MORE_NS);
}

void targets_title(const struct targets *t, struct buf *title)
{
	if (t->container)
		buf_printf(title, "container '%s'", t->container);
	else if (t->cgroup)
		buf_printf(title, "cgroup '%s'", t->cgroup);
	else if (t->name)
		buf_printf(title, "'%s'", t->name);
	else
		buf_puts(title, "these");
}

void targets_cgroup(const struct targets *t, struct ledger *ledger)
{
	struct cgroup_memory named;
	if (!t->cgroup || t->cgroup[0] != '/' || cgroup_memory_at(t->cgroup, &named) != 0)
		return;
	ledger->cgroup = named;
	ledger->cgroups = 1;
}
