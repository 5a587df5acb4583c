/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fileio.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/resource.h>
#include <unistd.h>

ssize_t fileio_text(int dir, const char *path, char *text, size_t size)
{
	size_t len = 0;
	ssize_t got = 1;
	text[0] = '\0';
	int fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	while (got > 0 && len + 1 < size) {
		got = read(fd, text + len, size - 1 - len);
		if (got < 0 && errno == EINTR)
			got = 1;
		else if (got > 0)
			len += (size_t)got;
	}
	int rc = got < 0 ? -errno : 0;
	text[len] = '\0';
	close(fd);
	return rc < 0 ? rc : (ssize_t)len;
}

ssize_t fileio_pread(int fd, void *to, size_t len, uint64_t at)
{
	size_t done = 0;
	if (at > INT64_MAX || len > SSIZE_MAX)
		return -EINVAL;
	while (done < len) {
		ssize_t n = pread(fd, (char *)to + done, len - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int fileio_pwrite(int fd, const void *from, size_t len, uint64_t at)
{
	size_t done = 0;
	struct rlimit limit;
	/* asking costs less than a signal mask */
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
	    at + len > limit.rlim_cur)
		return -EFBIG;
	while (done < len) {
		ssize_t n = pwrite(fd, (const char *)from + done, len - done, (off_t)(at + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (n == 0)
			return -EIO;
		done += (size_t)n;
	}
	return 0;
}
