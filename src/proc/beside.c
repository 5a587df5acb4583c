/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/beside.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/fileio.h"
#include "proc/breakdown.h"

#define DESCRIPTORS_MAX 65536u
#define NO_LIMIT (1ull << 62) /* version 1 says the largest number of whole pages for none */

/* ---- files of one number, or of words and numbers -------------------------------------------------------------------- */

static uint64_t number_in(const char *folder, const char *file)
{
	char path[BESIDE_PATH_MAX + 64], text[64];
	char *end;
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	fileio_text(AT_FDCWD, path, text, sizeof(text));
	unsigned long long value = strtoull(text, &end, 10); /* "max" has no digits */
	return end == text ? UINT64_MAX : value;
}

static ssize_t text_in(const char *folder, const char *file, char *text, size_t size)
{
	char path[BESIDE_PATH_MAX + 64];
	snprintf(path, sizeof(path), "%s/%s", folder, file);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = 0, got;
	while (fd >= 0 && (size_t)len + 1 < size &&
	       (got = read(fd, text + len, size - 1 - (size_t)len)) > 0)
		len += got;
	if (fd >= 0)
		close(fd);
	text[fd >= 0 ? len : 0] = '\0';
	return fd < 0 ? -1 : len;
}

/* "word 123" in @text, a line each. */
static uint64_t word_in(const char *text, const char *word)
{
	size_t len = strlen(word);
	for (const char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL)
		if (strncmp(at, word, len) == 0 && at[len] == ' ')
			return strtoull(at + len + 1, NULL, 10);
	return UINT64_MAX;
}

/* ---- cgroups ----------------------------------------------------------------------------------------------------------- */

/* A mount's place holds no blanks: the kernel writes them as \040, and such a place is left alone. */
static int mount_of(int version, char *at, size_t size)
{
	FILE *mounts = fopen("/proc/self/mounts", "re");
	char line[8192];
	int found = 0;
	while (mounts && !found && fgets(line, sizeof(line), mounts)) {
		char place[BESIDE_PATH_MAX], type[64], flags[2048];
		if (sscanf(line, "%*s %4095s %63s %2047s", place, type, flags) != 3)
			continue;
		char list[2050];
		snprintf(list, sizeof(list), ",%.2046s,", flags);
		found = version == 2 ? strcmp(type, "cgroup2") == 0
				     : strcmp(type, "cgroup") == 0 && strstr(list, ",memory,");
		if (found)
			snprintf(at, size, "%s", place);
	}
	if (mounts)
		fclose(mounts);
	return found;
}

/* The path behind "N:memory:" or "0::" of /proc/PID/cgroup; one outside our namespace is not ours to see. */
static int path_of(const char *text, int version, char *path, size_t size)
{
	for (const char *at = text; at && *at; at = strchr(at, '\n'), at = at ? at + 1 : NULL) {
		const char *list = strchr(at, ':'), *end = strchr(at, '\n');
		const char *second = list ? strchr(list + 1, ':') : NULL;
		size_t line = end ? (size_t)(end - at) : strlen(at);
		if (!second || (size_t)(second - at) >= line)
			continue;
		size_t words = (size_t)(second - list - 1);
		char controllers[256];
		if (words >= sizeof(controllers) - 2)
			continue;
		snprintf(controllers, sizeof(controllers), ",%.*s,", (int)words, list + 1);
		if (version == 2 ? words != 0 : !strstr(controllers, ",memory,"))
			continue;
		size_t len = line - (size_t)(second + 1 - at);
		if (len >= size || second[1] != '/')
			return 0;
		memcpy(path, second + 1, len);
		path[len] = '\0';
		return !strstr(path, "/..");
	}
	return 0;
}

/* The folder of @target's memory cgroup, and where its mount ends in it. Return: the version, 0 if there is none. */
static int folder_of(const struct target *target, char folder[BESIDE_PATH_MAX], size_t *mount_len)
{
	char text[8192], path[2048];
	if (target_text(target, "cgroup", text, sizeof(text)) <= 0)
		return 0;
	/* version 1 first: where it has the memory controller, version 2 has not */
	for (int version = 1; version <= 2; version++) {
		char mount[1024];
		if (!path_of(text, version, path, sizeof(path)) ||
		    !mount_of(version, mount, sizeof(mount)))
			continue;
		*mount_len = strlen(mount);
		/* inside a container the path may be the host's: then the mount itself is ours */
		snprintf(folder, BESIDE_PATH_MAX, "%s%s", mount, strcmp(path, "/") ? path : "");
		const char *file = version == 1 ? "memory.usage_in_bytes" : "memory.stat";
		char probe[64];
		if (text_in(folder, file, probe, sizeof(probe)) >= 0)
			return version;
		folder[*mount_len] = '\0';
		if (text_in(folder, file, probe, sizeof(probe)) >= 0)
			return version;
	}
	return 0;
}

static uint64_t lowest_limit(const char *folder, size_t mount_len, int version)
{
	char at[BESIDE_PATH_MAX];
	uint64_t limit = UINT64_MAX;
	snprintf(at, sizeof(at), "%s", folder);
	for (;;) {
		uint64_t own = number_in(at, version == 1 ? "memory.limit_in_bytes" : "memory.max");
		if (own < limit && own < NO_LIMIT)
			limit = own;
		char *slash = strrchr(at, '/');
		if (strlen(at) <= mount_len || !slash)
			return limit;
		*slash = '\0';
	}
}

uint64_t cgroup_limit(const struct target *target)
{
	char folder[BESIDE_PATH_MAX];
	size_t mount_len = 0;
	int version = folder_of(target, folder, &mount_len);
	return version ? lowest_limit(folder, mount_len, version) : UINT64_MAX;
}

static void read_1(const char *folder, struct cgroup_memory *m)
{
	char text[16384];
	m->current_bytes = number_in(folder, "memory.usage_in_bytes");
	m->peak_bytes = number_in(folder, "memory.max_usage_in_bytes");
	m->kernel_bytes = number_in(folder, "memory.kmem.usage_in_bytes");
	m->socket_bytes = number_in(folder, "memory.kmem.tcp.usage_in_bytes");
	if (text_in(folder, "memory.stat", text, sizeof(text)) > 0) {
		m->anon_bytes = word_in(text, "total_rss");
		m->shmem_bytes = word_in(text, "total_shmem");
		m->file_bytes = word_in(text, "total_cache");
		m->file_mapped_bytes = word_in(text, "total_mapped_file");
		m->inactive_file_bytes = word_in(text, "total_inactive_file");
		m->active_file_bytes = word_in(text, "total_active_file");
		m->swap_bytes = word_in(text, "total_swap");
	}
	if (text_in(folder, "memory.oom_control", text, sizeof(text)) > 0)
		m->oom_kills = word_in(text, "oom_kill");
}

static void read_2(const char *folder, struct cgroup_memory *m)
{
	char text[16384];
	m->current_bytes = number_in(folder, "memory.current");
	m->peak_bytes = number_in(folder, "memory.peak");
	m->swap_bytes = number_in(folder, "memory.swap.current");
	if (text_in(folder, "memory.stat", text, sizeof(text)) > 0) {
		m->anon_bytes = word_in(text, "anon");
		m->shmem_bytes = word_in(text, "shmem");
		m->file_bytes = word_in(text, "file");
		m->file_mapped_bytes = word_in(text, "file_mapped");
		m->inactive_file_bytes = word_in(text, "inactive_file");
		m->active_file_bytes = word_in(text, "active_file");
		m->kernel_bytes = word_in(text, "kernel");
		m->page_table_bytes = word_in(text, "pagetables");
		m->slab_reclaimable_bytes = word_in(text, "slab_reclaimable");
		m->slab_unreclaimable_bytes = word_in(text, "slab_unreclaimable");
		m->socket_bytes = word_in(text, "sock");
		m->kernel_stack_bytes = word_in(text, "kernel_stack");
		m->percpu_bytes = word_in(text, "percpu");
	}
	if (text_in(folder, "memory.events", text, sizeof(text)) > 0)
		m->oom_kills = word_in(text, "oom_kill");
	if (text_in(folder, "memory.pressure", text, sizeof(text)) > 0) {
		const char *some = strstr(text, "some avg10="), *full = strstr(text, "full avg10=");
		m->pressure_some = some ? strtod(some + 11, NULL) : -1;
		m->pressure_full = full ? strtod(full + 11, NULL) : -1;
	}
}

static void clear(struct cgroup_memory *m)
{
	memset(m, 0xff, sizeof(*m)); /* UINT64_MAX: not told */
	m->version = 0;
	m->path[0] = '\0';
	m->pressure_some = m->pressure_full = -1;
}

static int read_folder(const char *folder, size_t mount_len, int version, struct cgroup_memory *m)
{
	m->version = version;
	snprintf(m->path, sizeof(m->path), "%s", folder);
	if (version == 1)
		read_1(folder, m);
	else
		read_2(folder, m);
	m->limit_bytes = lowest_limit(folder, mount_len, version);
	return 0;
}

int cgroup_memory_read(const struct target *target, struct cgroup_memory *m)
{
	char folder[BESIDE_PATH_MAX];
	size_t mount_len = 0;
	clear(m);
	int version = folder_of(target, folder, &mount_len);
	return version ? read_folder(folder, mount_len, version, m) : -ENOENT;
}

int cgroup_memory_at(const char *path, struct cgroup_memory *m)
{
	char probe[64], mount[1024];
	clear(m);
	for (int version = 1; version <= 2; version++) {
		const char *file = version == 1 ? "memory.usage_in_bytes" : "memory.stat";
		if (text_in(path, file, probe, sizeof(probe)) < 0)
			continue;
		if (!mount_of(version, mount, sizeof(mount)))
			mount[0] = '\0';
		return read_folder(path, strlen(mount), version, m);
	}
	return -ENOENT;
}

uint64_t cgroup_working_set(const struct cgroup_memory *m)
{
	if (m->current_bytes == UINT64_MAX || m->inactive_file_bytes == UINT64_MAX)
		return UINT64_MAX;
	return m->current_bytes > m->inactive_file_bytes ? m->current_bytes - m->inactive_file_bytes
							 : 0;
}

/* ---- files without a name ---------------------------------------------------------------------------------------------- */

struct held {
	uint64_t device, inode;
};

static int by_file(const void *a, const void *b)
{
	const struct held *x = a, *y = b;
	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static size_t mapped_files(const struct breakdown *b, struct held **files)
{
	size_t count = 0;
	struct held *list = calloc(b->region_count + 1, sizeof(*list));
	for (size_t i = 0; list && i < b->region_count; i++)
		if (b->regions[i].inode)
			list[count++] = (struct held){ makedev(b->regions[i].dev_major,
							       b->regions[i].dev_minor),
						       b->regions[i].inode };
	if (count)
		qsort(list, count, sizeof(*list), by_file);
	*files = list;
	return count;
}

static void hold(struct beside *beside, int dir, const char *name, const struct stat *st)
{
	uint64_t bytes = (uint64_t)st->st_blocks * 512;
	beside->held_bytes += bytes;
	beside->held_count++;
	if (bytes <= beside->held_largest_bytes)
		return;
	char link[256];
	ssize_t len = readlinkat(dir, name, link, sizeof(link) - 1);
	link[len > 0 ? len : 0] = '\0';
	char *end = strstr(link, " (deleted)");
	if (end)
		*end = '\0';
	beside->held_largest_bytes = bytes;
	snprintf(beside->held_name, sizeof(beside->held_name), "%.63s", link);
}

static void look_at_descriptors(const struct target *target, const struct breakdown *b,
				struct beside *beside)
{
	int fd = openat(target->dir, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct held *mapped = NULL, *seen = NULL;
	size_t mapped_count = mapped_files(b, &mapped), seen_count = 0, seen_room = 0;
	unsigned looked = 0;
	if (!dir && fd >= 0)
		close(fd);
	beside->held_known = dir != NULL && mapped;
	for (struct dirent *e;
	     dir && mapped && looked < DESCRIPTORS_MAX && (e = readdir(dir)) != NULL; looked++) {
		struct stat st;
		if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, 0) < 0 ||
		    !S_ISREG(st.st_mode) || st.st_nlink || !st.st_blocks)
			continue;
		struct held key = { st.st_dev, st.st_ino };
		int known = bsearch(&key, mapped, mapped_count, sizeof(key), by_file) != NULL;
		for (size_t i = 0; i < seen_count && !known; i++)
			known = by_file(&seen[i], &key) == 0;
		if (known)
			continue;
		if (seen_count == seen_room) {
			seen_room = seen_room ? seen_room * 2 : 64;
			struct held *grown =
				seen_room > 4096 ? NULL : realloc(seen, seen_room * sizeof(*seen));
			if (!grown)
				break; /* thousands of files without a name: what was counted is a bound from below */
			seen = grown;
		}
		seen[seen_count++] = key;
		hold(beside, dirfd(dir), e->d_name, &st);
	}
	free(mapped);
	free(seen);
	if (dir)
		closedir(dir);
}

uint64_t beside_mappings_max(void)
{
	return number_in("/proc/sys/vm", "max_map_count");
}

void beside_read(const struct target *target, const struct breakdown *b, struct beside *beside)
{
	memset(beside, 0, sizeof(*beside));
	cgroup_memory_read(target, &beside->cgroup);
	beside->page_table_bytes = b->totals.page_table_bytes;
	beside->locked_bytes = b->totals.locked_bytes;
	beside->pinned_bytes = b->totals.pinned_bytes;
	beside->oom_bytes = b->rss_bytes + b->swap_bytes +
			    (beside->page_table_bytes == UINT64_MAX ? 0 : beside->page_table_bytes);
	beside->mappings = b->region_total;
	beside->mappings_max = beside_mappings_max();
	look_at_descriptors(target, b, beside);
}
