/* SPDX-License-Identifier: Apache-2.0 */
#include "source/heapfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "sym/files.h"
#include "sym/functions.h"

static void variables(const struct target *target, const char *path, const char *const names[],
		      size_t count, uint64_t at[])
{
	struct err ignored = { 0 };
	memset(at, 0, count * sizeof(*at));
	CLEANUP(elf_files_freep)
	struct elf_files *files = elf_files_new((uint32_t)target->pid, &ignored);
	CLEANUP(functions_freep)
	struct functions *file = files ? functions_open(files, path, NULL, 0, &ignored) : NULL;
	if (file)
		functions_variables(file, names, count, at);
}

static int open_file(const struct target *target, const char *path)
{
	struct image_root root = { .pid = (uint32_t)target->pid,
				   .fd = target_openat(target, "root", O_PATH | O_CLOEXEC) };
	if (root.fd < 0)
		return -errno;
	int fd = image_open_path(&root, OPENER_BELOW, path, 0);
	close(root.fd);
	return fd;
}

const struct heap_files heapfiles = { variables, open_file };
