/* SPDX-License-Identifier: Apache-2.0 */
/*
 * debugfile.c - where distributions, users and debuginfod servers keep the debug file of a module.
 */
#include "sym/image.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>

#include "base/crc.h"
#include "sym/servers.h"

#define SYSTEM_DEBUG "/usr/lib/debug"

struct wanted {
	const uint8_t *build_id;
	uint8_t len;
	char hex[2 * 64 + 1];
	/* file name from .gnu_debuglink, or NULL */
	const char *link;
	uint32_t crc;
	/* of the module, without the slash at the end */
	char dir[PATH_MAX];
};

static int crc_matches(const struct image *image, uint32_t want)
{
	unsigned char block[64 << 10];
	uint32_t crc = 0;
	off_t at = 0;
	for (ssize_t got; (got = pread(image->fd, block, sizeof(block), at)) > 0; at += got)
		crc = crc_32(crc, block, (size_t)got);
	return crc == want;
}

/* Is it a debug file at all? The module itself, met again through a symbolic link, is not. */
static int is_useful(const struct image *image)
{
	GElf_Shdr shdr;
	if (image_section(image, ".debug_info", NULL) || image_section(image, ".zdebug_info", NULL))
		return 1;
	return image_section(image, ".symtab", &shdr) && shdr.sh_type == SHT_SYMTAB;
}

static int try(struct image *image, const struct image_root *root, const struct wanted *want,
	       const char *path)
{
	if (image_open(image, root, path, want->build_id, want->len) < 0)
		return -ENOENT;
	/* a build id is proof; without one only the debuglink's CRC is */
	if (is_useful(image) && (want->len || (want->link && crc_matches(image, want->crc))))
		return 0;
	image_close(image);
	return -ENOENT;
}

static int PRINTF(4, 5) try_format(struct image *image, const struct image_root *root,
				   const struct wanted *want, const char *format, ...)
{
	char path[PATH_MAX];
	va_list args;
	va_start(args, format);
	int len = vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	if (len < 0 || (size_t)len >= sizeof(path))
		return -ENOENT;
	return try(image, root, want, path);
}

static int try_by_id(struct image *image, const struct image_root *root, const struct wanted *want)
{
	if (want->len < 2)
		return -ENOENT;
	int rc = try_format(image, root, want, SYSTEM_DEBUG "/.build-id/%.2s/%s.debug", want->hex,
			    want->hex + 2);
	image->lasting = rc == 0;
	return rc;
}

static int try_link(struct image *image, const struct image_root *root, const struct wanted *want)
{
	if (!want->link)
		return -ENOENT;
	if (!try_format(image, root, want, "%s/%s", want->dir, want->link))
		return 0;
	if (!try_format(image, root, want, "%s/.debug/%s", want->dir, want->link))
		return 0;
	return try_format(image, root, want, SYSTEM_DEBUG "%s/%s", want->dir, want->link);
}

static int try_servers(struct image *image, struct servers *servers, const struct wanted *want)
{
	char *path;
	int fd = servers_find(servers, want->build_id, want->len, &path);
	int rc = fd >= 0 ? image_open_fd(image, fd, want->build_id, want->len) : -ENOENT;
	if (!rc)
		image->path = path;
	else
		free(path);
	image->lasting = rc == 0;
	return rc;
}

int image_find_debug(struct image *image, const struct debug_search *search,
		     const struct image *main, const char *path, const uint8_t *build_id,
		     uint8_t len)
{
	struct wanted want = { .build_id = build_id, .len = len };
	memset(image, 0, sizeof(*image));
	if (!len && main->build_id_len) {
		want.build_id = main->build_id;
		want.len = main->build_id_len;
	}
	if (want.len > 64)
		return -ENOENT;
	for (unsigned i = 0; i < want.len; i++)
		snprintf(want.hex + 2 * i, 3, "%02x", want.build_id[i]);
	GElf_Word crc = 0;
	if (main->elf)
		want.link = dwelf_elf_gnu_debuglink(main->elf, &crc);
	if (want.link && strchr(want.link, '/'))
		want.link = NULL; /* a file name by definition; paths are not followed */
	want.crc = crc;
	const char *slash = strrchr(path, '/');
	if (slash && (size_t)(slash - path) < sizeof(want.dir))
		memcpy(want.dir, path, (size_t)(slash - path));

	if (!try_by_id(image, search->root, &want) || !try_link(image, search->root, &want))
		return 0;
	static const struct image_root own = { .fd = -1 };
	if (search->root->fd >= 0 && !try_by_id(image, &own, &want))
		return 0;
	return search->servers ? try_servers(image, search->servers, &want) : -ENOENT;
}
