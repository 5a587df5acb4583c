/* SPDX-License-Identifier: Apache-2.0 */
#include "source/heapfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sym/functions.h"
#include "sym/image.h"

static uint64_t variable(const struct target *target, const char *path, const char *name)
{
	struct err ignored = { 0 };
	CLEANUP(functions_freep)
	struct functions *file = functions_open((uint32_t)target->pid, path, NULL, 0, &ignored);
	return file ? functions_variable(file, name) : 0;
}

static ssize_t read_file(const struct target *target, const char *path, uint64_t offset, void *to,
			 size_t len)
{
	struct image_root root = { .fd = openat(target->dir, "root", O_PATH | O_CLOEXEC) };
	struct image image = { 0 };
	if (root.fd < 0)
		return -errno;
	int rc = image_open(&image, &root, path, NULL, 0);
	ssize_t got = rc < 0 ? rc : pread(image.fd, to, len, (off_t)offset);
	image_close(&image);
	close(root.fd);
	return got;
}

const struct heap_files heapfiles = { variable, read_file };
