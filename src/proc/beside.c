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
#include "proc/sockmem.h"

#define DESCRIPTORS_MAX 65536u
#define NO_LIMIT (1ull << 62) /* version 1 says the largest number of whole pages for none */

/* ---- files of one number, or of words and numbers -------------------------------------------- */

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

/* ---- cgroups --------------------------------------------------------------------------------- */

/*
 * A mount's place holds no blanks: the kernel writes them as \040, and such a place is left alone.
 */
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

/*
 * The path behind "N:memory:" or "0::" of /proc/PID/cgroup; one outside our namespace is not ours
 * to see.
 */
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

/*
 * The folder of @target's memory cgroup, and where its mount ends in it. Return: the version, 0 if
 * there is none.
 */
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

static int pressure_in(const char *folder, const char *file, struct cgroup_memory *m)
{
	char text[512];
	if (text_in(folder, file, text, sizeof(text)) <= 0)
		return 0;
	const char *some = strstr(text, "some avg10="), *full = strstr(text, "full avg10=");
	m->pressure_some = some ? strtod(some + 11, NULL) : -1;
	m->pressure_full = full ? strtod(full + 11, NULL) : -1;
	return m->pressure_some >= 0;
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
		m->dirty_bytes = word_in(text, "total_dirty");
		m->writeback_bytes = word_in(text, "total_writeback");
		m->unevictable_bytes = word_in(text, "total_unevictable");
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
		m->dirty_bytes = word_in(text, "file_dirty");
		m->writeback_bytes = word_in(text, "file_writeback");
		m->unevictable_bytes = word_in(text, "unevictable");
	}
	if (text_in(folder, "memory.events", text, sizeof(text)) > 0)
		m->oom_kills = word_in(text, "oom_kill");
	pressure_in(folder, "memory.pressure", m);
}

static void clear(struct cgroup_memory *m)
{
	memset(m, 0xff, sizeof(*m)); /* UINT64_MAX: not told */
	m->version = 0;
	m->path[0] = '\0';
	m->pressure_some = m->pressure_full = -1;
	m->pressure_of_machine = 0;
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

/*
 * Version 1 has none: that of its cgroup of version 2 where there is one beside, else the
 * machine's.
 */
static void find_pressure(const struct target *target, struct cgroup_memory *m)
{
	char text[8192], path[2048], mount[1024], folder[BESIDE_PATH_MAX];
	if (m->version == 1 && target_text(target, "cgroup", text, sizeof(text)) > 0 &&
	    path_of(text, 2, path, sizeof(path)) && strcmp(path, "/") != 0 &&
	    mount_of(2, mount, sizeof(mount))) {
		snprintf(folder, sizeof(folder), "%s%s", mount, path);
		if (pressure_in(folder, "memory.pressure", m))
			return;
	}
	m->pressure_of_machine = pressure_in("/proc/pressure", "memory", m);
}

int cgroup_memory_read(const struct target *target, struct cgroup_memory *m)
{
	char folder[BESIDE_PATH_MAX];
	size_t mount_len = 0;
	clear(m);
	int version = folder_of(target, folder, &mount_len);
	if (!version)
		return -ENOENT;
	read_folder(folder, mount_len, version, m);
	if (m->pressure_some < 0)
		find_pressure(target, m);
	return 0;
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
		read_folder(path, strlen(mount), version, m);
		if (m->pressure_some < 0)
			m->pressure_of_machine = pressure_in("/proc/pressure", "memory", m);
		return 0;
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

uint64_t cgroup_cache_reclaimable(const struct cgroup_memory *m)
{
	if (m->inactive_file_bytes == UINT64_MAX || m->active_file_bytes == UINT64_MAX)
		return UINT64_MAX;
	return m->inactive_file_bytes + m->active_file_bytes;
}

uint64_t cgroup_cache_held(const struct cgroup_memory *m)
{
	uint64_t goes = cgroup_cache_reclaimable(m);
	if (goes == UINT64_MAX || m->file_bytes == UINT64_MAX)
		return UINT64_MAX;
	return m->file_bytes > goes ? m->file_bytes - goes : 0;
}

/* ---- files without a name -------------------------------------------------------------------- */

static int by_file(const void *a, const void *b)
{
	const struct held_file *x = a, *y = b;
	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return x->device < y->device ? -1 : x->device > y->device;
}

static int by_number(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static size_t mapped_files(const struct breakdown *b, struct held_file **files)
{
	size_t count = 0;
	struct held_file *list = calloc(b->region_count + 1, sizeof(*list));
	for (size_t i = 0; list && i < b->region_count; i++)
		if (b->regions[i].inode)
			list[count++] =
				(struct held_file){ .device = makedev(b->regions[i].dev_major,
								      b->regions[i].dev_minor),
						    .inode = b->regions[i].inode };
	if (count)
		qsort(list, count, sizeof(*list), by_file);
	*files = list;
	return count;
}

/*
 * One more that is held; 0 where it is known already or there is no room: thousands of them are a
 * bound from below.
 */
static struct held_file *hold(struct beside *beside, uint64_t device, uint64_t inode,
			      uint64_t bytes)
{
	struct held_file key = { .device = device, .inode = inode, .bytes = bytes };
	for (size_t i = 0; i < beside->held_listed; i++)
		if (by_file(&beside->held[i], &key) == 0)
			return NULL;
	if (beside->held_listed == BESIDE_HELD_MAX)
		return NULL;
	if (beside->held_listed % 64 == 0) {
		struct held_file *grown =
			realloc(beside->held, (beside->held_listed + 64) * sizeof(*beside->held));
		if (!grown)
			return NULL;
		beside->held = grown;
	}
	beside->held[beside->held_listed] = key;
	beside->held_bytes += bytes;
	beside->held_count++;
	return &beside->held[beside->held_listed++];
}

static void name_largest(struct beside *beside, const struct held_file *file)
{
	if (file->bytes <= beside->held_largest_bytes)
		return;
	beside->held_largest_bytes = file->bytes;
	memcpy(beside->held_name, file->name, sizeof(beside->held_name));
}

static void hold_file(struct beside *beside, int dir, const char *name, const struct stat *st)
{
	struct held_file *file =
		hold(beside, st->st_dev, st->st_ino, (uint64_t)st->st_blocks * 512);
	char link[256];
	if (!file)
		return;
	ssize_t len = readlinkat(dir, name, link, sizeof(link) - 1);
	link[len > 0 ? len : 0] = '\0';
	char *end = strstr(link, " (deleted)");
	if (end)
		*end = '\0';
	snprintf(file->name, sizeof(file->name), "%.63s", link);
	name_largest(beside, file);
}

struct inodes {
	uint64_t *all;
	size_t count, room;
};

static void add_inode(struct inodes *inodes, uint64_t inode)
{
	if (inodes->count == inodes->room) {
		size_t room = inodes->room ? inodes->room * 2 : 64;
		uint64_t *grown = realloc(inodes->all, room * sizeof(*grown));
		if (!grown)
			return;
		inodes->all = grown;
		inodes->room = room;
	}
	inodes->all[inodes->count++] = inode;
}

/* What sock_diag tells is of our own network namespace. */
static int same_network(const struct target *target)
{
	struct stat own, its;
	return stat("/proc/self/ns/net", &own) == 0 &&
	       fstatat(target->dir, "ns/net", &its, 0) == 0 && own.st_ino == its.st_ino &&
	       own.st_dev == its.st_dev;
}

static void look_at_descriptors(const struct target *target, const struct breakdown *b,
				int want_sockets, struct beside *beside)
{
	int fd = target_openat(target, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct held_file *mapped = NULL;
	struct inodes sockets = { 0 };
	size_t mapped_count = mapped_files(b, &mapped);
	unsigned looked = 0;
	if (!dir && fd >= 0)
		close(fd);
	beside->held_known = dir != NULL && mapped;
	for (struct dirent *e;
	     dir && mapped && looked < DESCRIPTORS_MAX && (e = readdir(dir)) != NULL; looked++) {
		struct stat st;
		if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, 0) < 0)
			continue;
		if (S_ISSOCK(st.st_mode))
			add_inode(&sockets, st.st_ino);
		if (!S_ISREG(st.st_mode) || st.st_nlink || !st.st_blocks)
			continue;
		struct held_file key = { .device = st.st_dev, .inode = st.st_ino };
		if (!bsearch(&key, mapped, mapped_count, sizeof(key), by_file))
			hold_file(beside, dirfd(dir), e->d_name, &st);
	}
	if (sockets.count)
		qsort(sockets.all, sockets.count, sizeof(*sockets.all), by_number);
	beside->sockets = dir ? sockets.count : UINT64_MAX;
	beside->socket_bytes = !dir || !want_sockets ? UINT64_MAX
			       : !sockets.count || same_network(target)
				       ? sockmem_of(sockets.all, sockets.count)
				       : UINT64_MAX;
	free(sockets.all);
	free(mapped);
	if (dir)
		closedir(dir);
}

/*
 * System V segments that it made and nobody has attached: they stay until somebody removes them,
 * whoever ends.
 */
static void look_at_segments(const struct target *target, struct beside *beside)
{
	FILE *list = fopen("/proc/sysvipc/shm", "re");
	char line[1024];
	while (list && fgets(line, sizeof(line), list)) {
		long long key, id, size, creator, attached, rss;
		if (sscanf(line,
			   "%lld %lld %*s %lld %lld %*s %lld %*s %*s %*s %*s %*s %*s %*s %lld",
			   &key, &id, &size, &creator, &attached, &rss) != 6 ||
		    creator != target->pid || attached || rss <= 0)
			continue;
		struct held_file *file = hold(beside, 0, (uint64_t)id, (uint64_t)rss);
		if (!file)
			continue;
		snprintf(file->name, sizeof(file->name), "System V segment %lld, key 0x%llx", id,
			 (unsigned long long)key & 0xffffffffu);
		name_largest(beside, file);
	}
	if (list)
		fclose(list);
}

uint64_t beside_mappings_max(void)
{
	return number_in("/proc/sys/vm", "max_map_count");
}

int beside_oom_score(const struct target *target)
{
	char text[32], *end;
	if (target_text(target, "oom_score", text, sizeof(text)) <= 0)
		return -1;
	long score = strtol(text, &end, 10);
	return end == text || score < 0 || score > 1000000 ? -1 : (int)score;
}

void beside_read(const struct target *target, const struct breakdown *b, int sockets,
		 struct beside *beside)
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
	look_at_descriptors(target, b, sockets, beside);
	look_at_segments(target, beside);
	beside->oom_score = beside_oom_score(target);
}

void beside_free(struct beside *beside)
{
	if (beside)
		free(beside->held);
	free(beside);
}
