/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/gathered.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fileio.h"
#include "recorder/incoming.h"

#define NAMES_MAX 100000
/* A reader looks for the lock by taking it for a moment. */
#define LOCK_TRIES 20
#define LOCK_PAUSE_NS 1000000
#define ROOM_LEAST (256u << 10)

static int lock(int fd)
{
	const struct timespec pause = { .tv_nsec = LOCK_PAUSE_NS };
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return 1;
		nanosleep(&pause, NULL);
	}
	return 0;
}

/* @name is a recording of ours with that header, and nobody writes it: 1, it is @file's. */
static int take_up(struct gathered *file, int folder, const char *name, const uint8_t *header)
{
	uint8_t begin[WIRE_SEND_HEADER];
	struct stat st;
	if (strlen(name) >= sizeof(file->name) || !strstr(name, ".blt"))
		return 0;
	int fd = openat(folder, name, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return 0;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
	    fileio_pread(fd, begin, sizeof(begin), 0) != sizeof(begin) ||
	    memcmp(begin, header, sizeof(begin)) != 0 || !lock(fd) || fstat(fd, &st) < 0) {
		close(fd);
		return 0;
	}
	*file = (struct gathered){ .fd = fd, .bytes = (uint64_t)st.st_size };
	strcpy(file->name, name);
	return 1;
}

static int find(struct gathered *file, int folder, const uint8_t *header)
{
	int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir && fd >= 0)
		close(fd);
	for (struct dirent *entry; dir && !found && (entry = readdir(dir));)
		found = take_up(file, folder, entry->d_name, header);
	if (dir)
		closedir(dir);
	return found;
}

static int create(struct gathered *file, int folder, const uint8_t *header, const char *name,
		  struct err *err)
{
	for (unsigned n = 0; n < NAMES_MAX; n++) {
		snprintf(file->name, sizeof(file->name), n ? "%.*s.%u" : "%.*s", INCOMING_NAME,
			 name, n);
		file->fd = openat(folder, file->name,
				  O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (file->fd >= 0)
			break;
		if (errno != EEXIST)
			return err_set(err, -errno, "cannot create '%s'", file->name);
	}
	if (file->fd < 0)
		return err_set(err, -EEXIST, "cannot create '%s'", name);
	lock(file->fd);
	file->created = 1;
	int rc = gathered_put(file, header, WIRE_SEND_HEADER);
	if (rc == 0)
		return 0;
	unlinkat(folder, file->name, 0);
	gathered_close(file);
	return err_set(err, rc, "cannot write '%s'", file->name);
}

int gathered_open(struct gathered *file, int folder, const uint8_t *header, const char *name,
		  struct err *err)
{
	*file = (struct gathered){ .fd = -1 };
	int rc = find(file, folder, header) ? 0 : create(file, folder, header, name, err);
	memcpy(file->header, header, sizeof(file->header));
	return rc;
}

int gathered_has_room(int folder)
{
	struct statvfs fs;
	return fstatvfs(folder, &fs) < 0 || (uint64_t)fs.f_bavail * fs.f_frsize >= ROOM_LEAST;
}

int gathered_put(struct gathered *file, const void *bytes, size_t count)
{
	int rc = fileio_pwrite(file->fd, bytes, count, file->bytes);
	if (rc == 0)
		file->bytes += count;
	else if (ftruncate(file->fd, (off_t)file->bytes) < 0)
		return -EIO;
	return rc;
}

void gathered_close(struct gathered *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}
