/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/proc.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"

#define CMDLINE_MAX (1u << 20)

static void closedirp(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/*
 * The letter of a state in a `stat`, '?' where it says none; the name before it may hold anything.
 */
static char state_in(const char *stat)
{
	const char *at = strrchr(stat, ')');
	return at && at[1] == ' ' && at[2] ? at[2] : '?';
}

pid_t proc_living_thread(pid_t pid)
{
	char path[64], text[1024];
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	CLEANUP(closedirp) DIR *dir = opendir(path);
	for (struct dirent *entry; dir && (entry = readdir(dir));) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
		if (tid <= 0 || tid == pid || fileio_text(AT_FDCWD, path, text, sizeof(text)) < 0)
			continue;
		if (!strchr("?ZX", state_in(text)))
			return tid;
	}
	return 0;
}

/*
 * /proc/PID/@name, or with @tid the same of a thread that outlived the main one: a process's memory
 * is any of its threads'.
 */
static ssize_t read_of(pid_t pid, pid_t tid, const char *name, char *text, size_t size)
{
	char path[64];
	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)pid, (int)tid, name);
	else
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return fileio_text(AT_FDCWD, path, text, size);
}

/*
 * `status` tells a process's groups before its memory: who is in some hundreds of them has a longer
 * one.
 */
#define STATUS_USUAL 4096
#define STATUS_MOST (1u << 20) /* 65,536 groups of eleven letters are 704 KiB */

static void free_text(char **text)
{
	free(*text);
}

int proc_peak_rss(pid_t pid, uint64_t *bytes)
{
	char usual[STATUS_USUAL], *text = usual;
	CLEANUP(free_text) char *all = NULL;
	const char *line;
	unsigned long long kib;
	for (pid_t tid = 0;;) {
		ssize_t got = read_of(pid, tid, "status", usual, sizeof(usual));
		if (got == sizeof(usual) - 1 && (all || (all = malloc(STATUS_MOST)))) {
			text = all;
			got = read_of(pid, tid, "status", all, STATUS_MOST);
		}
		if (got < 0)
			return (int)got;
		line = strstr(text, "\nVmHWM:");
		if (line || tid || !(tid = proc_living_thread(pid)))
			break;
	}
	if (!line || sscanf(line + 7, "%llu", &kib) != 1)
		return -ENODATA;
	*bytes = kib * 1024;
	return 0;
}

int proc_comm(pid_t pid, pid_t tid, char *name, size_t size)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", (int)pid, (int)tid);
	ssize_t got = fileio_text(AT_FDCWD, path, name, size);
	if (got < 0)
		return (int)got;
	if (got > 0 && name[got - 1] == '\n')
		name[got - 1] = '\0';
	return 0;
}

int proc_exe(pid_t pid, char *path, size_t size)
{
	char link[64];
	snprintf(link, sizeof(link), "/proc/%d/exe", (int)pid);
	ssize_t got = readlink(link, path, size - 1);
	if (got < 0 && errno == ENOENT) {
		char text[1024];
		pid_t tid = read_of(pid, 0, "stat", text, sizeof(text)) > 0 && state_in(text) == 'Z'
				    ? proc_living_thread(pid)
				    : 0;
		snprintf(link, sizeof(link), "/proc/%d/task/%d/exe", (int)pid, (int)tid);
		errno = ENOENT;
		got = tid ? readlink(link, path, size - 1) : -1;
	}
	if (got < 0)
		return -errno;
	path[got] = '\0';
	return 0;
}

ssize_t proc_cmdline(pid_t pid, char **cmdline)
{
	char path[64];
	snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
	CLEANUP(fileio_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	char *text = malloc(CMDLINE_MAX + 1);
	if (!text)
		return -ENOMEM;
	size_t len = 0;
	while (len < CMDLINE_MAX) {
		ssize_t got = read(fd, text + len, CMDLINE_MAX - len);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		len += (size_t)got;
	}
	text[len] = '\0';
	char *fit = realloc(text, len + 1);
	*cmdline = fit ? fit : text;
	return (ssize_t)len;
}

/*
 * Field @number of /proc/PID/stat, from 3 on; the second one is a name, which may have anything in
 * it.
 */
static int stat_field(const char *text, int number, uint64_t *value)
{
	const char *field = strrchr(text, ')');
	for (int n = 2; field && n < number; n++)
		field = strchr(field + 1, ' ');
	unsigned long long read;
	if (!field || sscanf(field, "%llu", &read) != 1)
		return -ENODATA;
	*value = read;
	return 0;
}

/* ---- again and again ------------------------------------------------------------------------- */

/* One read: the kernel makes the whole text for it. */
static ssize_t gauge_read(const struct proc_gauge *gauge, const char *name, int *fd, char *text,
			  size_t size)
{
	char path[64];
	if (!*fd) {
		snprintf(path, sizeof(path), "/proc/%d/%s", (int)gauge->pid, name);
		*fd = open(path, O_RDONLY | O_CLOEXEC) + 1;
	}
	ssize_t got = *fd ? pread(*fd - 1, text, size - 1, 0) : -1;
	if (got < 0)
		return -errno;
	text[got] = '\0';
	return got;
}

/* -ENODATA for a process without memory. */
static int parse_statm(const char *text, struct proc_memory *memory)
{
	unsigned long long size = 0, resident = 0;
	if (sscanf(text, "%llu %llu", &size, &resident) != 2 || !size)
		return -ENODATA;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	*memory =
		(struct proc_memory){ .rss_bytes = resident * page, .virtual_bytes = size * page };
	return 0;
}

int proc_gauge_memory(struct proc_gauge *gauge, struct proc_memory *memory)
{
	char text[256];
	ssize_t got = gauge_read(gauge, "statm", &gauge->statm, text, sizeof(text));
	int rc = got < 0 ? (int)got : parse_statm(text, memory);
	pid_t tid = rc == -ENODATA ? proc_living_thread(gauge->pid) : 0;
	if (!tid)
		return rc;
	got = read_of(gauge->pid, tid, "statm", text, sizeof(text));
	return got < 0 ? (int)got : parse_statm(text, memory);
}

/* -ENODATA for a process without memory. */
static int parse_status(const char *text, struct proc_resident *r)
{
	/* in the kernel's order; VmSwap is missing where it was built without swap */
	const struct {
		const char *key;
		uint64_t *to;
	} lines[] = {
		{ "\nVmSize:", &r->memory.virtual_bytes }, { "\nVmHWM:", &r->peak_bytes },
		{ "\nVmRSS:", &r->memory.rss_bytes },      { "\nRssAnon:", &r->anon_bytes },
		{ "\nRssFile:", &r->file_bytes },          { "\nRssShmem:", &r->shmem_bytes },
		{ "\nVmSwap:", &r->swap_bytes },
	};
	const size_t count = sizeof(lines) / sizeof(lines[0]);
	for (size_t i = 0; i < count; i++) {
		const char *line = strstr(text, lines[i].key);
		if (!line && i + 1 < count)
			return -ENODATA;
		*lines[i].to = line ? strtoull(line + strlen(lines[i].key), NULL, 10) * 1024 : 0;
		text = line ? line : text;
	}
	return 0;
}

int proc_gauge_resident(struct proc_gauge *gauge, struct proc_resident *resident)
{
	char usual[STATUS_USUAL], *text = usual;
	CLEANUP(free_text) char *all = NULL;
	size_t size = sizeof(usual);
	ssize_t got = gauge_read(gauge, "status", &gauge->status, text, size);
	if (got == STATUS_USUAL - 1 && (all = malloc(STATUS_MOST))) {
		text = all;
		size = STATUS_MOST;
		got = gauge_read(gauge, "status", &gauge->status, text, size);
	}
	int rc = got < 0 ? (int)got : parse_status(text, resident);
	pid_t tid = rc == -ENODATA ? proc_living_thread(gauge->pid) : 0;
	if (!tid)
		return rc;
	got = read_of(gauge->pid, tid, "status", text, size);
	return got < 0 ? (int)got : parse_status(text, resident);
}

int proc_gauge_start_stack(struct proc_gauge *gauge, uint64_t *at)
{
	char text[1024];
	ssize_t got = gauge_read(gauge, "stat", &gauge->stat, text, sizeof(text));
	int rc = got < 0 ? (int)got : stat_field(text, 28, at);
	return rc == 0 && !*at ? -EACCES : rc;
}

int proc_gauge_stir(struct proc_gauge *gauge, uint64_t *stir)
{
	/* minor and major faults, CPU time as user and as system: all of them only grow */
	static const int fields[] = { 10, 12, 14, 15 };
	char text[1024];
	ssize_t got = gauge_read(gauge, "stat", &gauge->stat, text, sizeof(text));
	int rc = got < 0 ? (int)got : 0;
	*stir = 0;
	for (size_t i = 0; rc == 0 && i < sizeof(fields) / sizeof(fields[0]); i++) {
		uint64_t value = 0;
		rc = stat_field(text, fields[i], &value);
		*stir += value;
	}
	return rc;
}

void proc_gauge_fini(struct proc_gauge *gauge)
{
	if (gauge->statm)
		close(gauge->statm - 1);
	if (gauge->stat)
		close(gauge->stat - 1);
	if (gauge->status)
		close(gauge->status - 1);
}

int proc_maps_has(pid_t pid, const char *name, uint64_t inode)
{
	char path[64], line[4352];
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	CLEANUP(fileio_fclosep) FILE *file = fopen(path, "re");
	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		const char *at = strchr(line, '/');
		unsigned long long number = 0;
		if (at && strncmp(at, name, strlen(name)) == 0 &&
		    (inode == 0 ||
		     (sscanf(line, "%*s %*s %*s %*s %llu", &number) == 1 && number == inode)))
			return 1;
	}
	return ferror(file) ? -EIO : 0;
}

int proc_environ_has(pid_t pid, const char *name, const char *text)
{
	char path[64];
	size_t size = 0, len = strlen(name);
	int has = 0;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	CLEANUP(fileio_fclosep) FILE *file = fopen(path, "re");
	char *entry = NULL;
	if (!file)
		return -errno;
	while (!has && getdelim(&entry, &size, '\0', file) > 0)
		has = strncmp(entry, name, len) == 0 && entry[len] == '=' &&
		      strstr(entry + len, text) != NULL;
	free(entry);
	return !has && ferror(file) ? -EIO : has;
}
