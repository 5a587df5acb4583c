/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/image.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <elfutils/libdwelf.h>
#include <linux/openat2.h>
#include <lzma.h>

#define MINIDEBUG_MAX_BYTES (256u << 20)
#define PACKED_FREE (64u << 20) /* may be claimed by any file */
#define PACKED_RATIO 16u        /* beyond that, for each byte of it */
#define MAPPINGS_TRIED 4096u
#define VDSO_MAX_BYTES (64u << 10)

void image_close(struct image *image)
{
	if (image->elf) {
		elf_end(image->elf);
		if (image->fd >= 0)
			close(image->fd);
	}
	free(image->memory);
	free(image->path);
	memset(image, 0, sizeof(*image));
}

int image_root_open(struct image_root *root, uint32_t pid, struct err *err)
{
	root->fd = -1;
	root->pid = pid;
	if (!pid)
		return 0;
	char path[64];
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root", pid);
	root->fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (root->fd < 0)
		return err_set(err, -errno, "cannot open '%s'", path);
	return 0;
}

void image_root_close(struct image_root *root)
{
	if (root->fd >= 0)
		close(root->fd);
	root->fd = -1;
}

/*
 * Opening a device or a fifo can have effects or hang: look at an O_PATH descriptor first, then
 * open that very file.
 */
static int open_regular(int dir, const char *path, uint64_t resolve)
{
	struct open_how how = { .flags = O_PATH | O_CLOEXEC, .resolve = resolve };
	int place = (int)syscall(SYS_openat2, dir, path, &how, sizeof(how));
	if (place < 0)
		return -errno;
	struct stat st;
	int fd;
	if (fstat(place, &st) < 0)
		fd = -errno;
	else if (!S_ISREG(st.st_mode))
		fd = -ENOENT;
	else {
		char self[64];
		snprintf(self, sizeof(self), "/proc/self/fd/%d", place);
		fd = open(self, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			fd = -errno;
	}
	close(place);
	return fd;
}

/*
 * What a section of debug information says that it is when it is not packed; 0: it is not. Only its
 * head is read: gelf_getchdr() reads all of it.
 */
static uint64_t unpacked_bytes(const struct image *image, size_t names, const GElf_Shdr *shdr)
{
	const int64_t at = (int64_t)shdr->sh_offset;
	const char *name = elf_strptr(image->elf, names, shdr->sh_name);
	const Elf_Data *data;
	uint64_t bytes;
	if (shdr->sh_flags & SHF_COMPRESSED) {
		if (gelf_getclass(image->elf) == ELFCLASS32) {
			data = elf_getdata_rawchunk(image->elf, at, sizeof(Elf32_Chdr), ELF_T_CHDR);
			return data ? ((const Elf32_Chdr *)data->d_buf)->ch_size : 0;
		}
		data = elf_getdata_rawchunk(image->elf, at, sizeof(Elf64_Chdr), ELF_T_CHDR);
		return data ? ((const Elf64_Chdr *)data->d_buf)->ch_size : 0;
	}
	/* the older way, by name: "ZLIB" and the size, its highest byte first */
	if (!name || strncmp(name, ".zdebug", 7) != 0 ||
	    !(data = elf_getdata_rawchunk(image->elf, at, 12, ELF_T_BYTE)))
		return 0;
	memcpy(&bytes, (const char *)data->d_buf + 4, sizeof(bytes));
	return be64toh(bytes);
}

/*
 * What compressed sections claim to be is taken from memory before a byte of them is looked at, and
 * deflate can claim a thousand times what it is. Real debug information is packed to a third or a
 * quarter.
 */
static int claims_too_much(const struct image *image, uint64_t file_bytes)
{
	uint64_t claimed = 0;
	size_t names = 0;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	elf_getshdrstrndx(image->elf, &names);
	while ((scn = elf_nextscn(image->elf, scn))) {
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type != SHT_NOBITS &&
		    __builtin_add_overflow(claimed, unpacked_bytes(image, names, &shdr), &claimed))
			return 1;
	}
	return claimed > PACKED_FREE && claimed / PACKED_RATIO > file_bytes;
}

static uint64_t bytes_of(const struct image *image)
{
	struct stat st;
	return image->fd < 0                                  ? image->memory_bytes
	       : fstat(image->fd, &st) == 0 && st.st_size > 0 ? (uint64_t)st.st_size
							      : 0;
}

static int adopt(struct image *image, const uint8_t *build_id, uint8_t len)
{
	int rc = -EBADMSG;
	if (!image->elf || elf_kind(image->elf) != ELF_K_ELF)
		goto fail;
	const void *id;
	ssize_t id_len = dwelf_elf_gnu_build_id(image->elf, &id);
	if (id_len > 0 && (size_t)id_len <= sizeof(image->build_id)) {
		memcpy(image->build_id, id, (size_t)id_len);
		image->build_id_len = (uint8_t)id_len;
	}
	rc = -ESTALE;
	if (len && (len != image->build_id_len || memcmp(build_id, image->build_id, len)))
		goto fail;
	rc = -EFBIG;
	if (claims_too_much(image, bytes_of(image)))
		goto fail;
	return 0;
fail:
	if (!image->elf && image->fd >= 0)
		close(image->fd);
	image_close(image);
	return rc;
}

int image_open_fd(struct image *image, int fd, const uint8_t *build_id, uint8_t len)
{
	memset(image, 0, sizeof(*image));
	elf_version(EV_CURRENT);
	image->fd = fd;
	image->elf = elf_begin(fd, ELF_C_READ, NULL);
	return adopt(image, build_id, len);
}

int image_open_memory(struct image *image, void *memory, size_t bytes, const uint8_t *build_id,
		      uint8_t len)
{
	memset(image, 0, sizeof(*image));
	elf_version(EV_CURRENT);
	image->fd = -1;
	image->memory = memory;
	image->memory_bytes = bytes;
	image->elf = elf_memory(memory, bytes);
	return adopt(image, build_id, len);
}

int image_open(struct image *image, const struct image_root *root, const char *path,
	       const uint8_t *build_id, uint8_t len)
{
	memset(image, 0, sizeof(*image));
	int fd = image_open_path(root, root && root->fd >= 0 ? OPENER_BELOW : OPENER_OWN, path, 0);
	if (fd < 0)
		return fd;
	int rc = image_open_fd(image, fd, build_id, len);
	if (rc < 0)
		return rc;
	image->path = strdup(path);
	return 0;
}

/*
 * The vDSO is one file for all processes of a boot (one per class); ours serves, its build id
 * tells.
 */
static int open_vdso(struct image *image, const uint8_t *build_id, uint8_t len)
{
	const char *start = (const char *)getauxval(AT_SYSINFO_EHDR);
	if (!start)
		return -ENOENT;
	const Elf64_Ehdr *ehdr = (const Elf64_Ehdr *)start;
	size_t bytes = ehdr->e_shoff + (size_t)ehdr->e_shnum * ehdr->e_shentsize;
	if (bytes > VDSO_MAX_BYTES)
		return -EBADMSG;
	void *copy = malloc(bytes);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, start, bytes);
	return image_open_memory(image, copy, bytes, build_id, len);
}

/* The @nth mapping that the process has of @path, even if no path leads there any more. */
static int open_nth(const struct image_root *root, const char *path, uint32_t nth)
{
	char name[64], *line = NULL;
	size_t line_cap = 0;
	snprintf(name, sizeof(name), "/proc/%" PRIu32 "/maps", root->pid);
	FILE *maps = fopen(name, "re");
	if (!maps)
		return -errno;
	int fd = -ENOENT;
	size_t want = strlen(path);
	while (getline(&line, &line_cap, maps) > 0) {
		uint64_t lo, hi;
		int at = 0;
		if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %*s %*s %*s %*s %n", &lo, &hi, &at) < 2 ||
		    !at)
			continue;
		line[strcspn(line, "\n")] = '\0';
		if (strncmp(line + at, path, want) ||
		    (line[at + (int)want] && strcmp(line + at + want, " (deleted)")))
			continue;
		if (nth--)
			continue;
		char mapped[128];
		snprintf(mapped, sizeof(mapped), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64,
			 root->pid, lo, hi);
		fd = open_regular(AT_FDCWD, mapped, 0);
		break;
	}
	free(line);
	fclose(maps);
	return fd;
}

/*
 * The kernel tells names as our root sees them: of a process whose root lies below (chroot) they
 * begin with where that is. NULL: not so.
 */
static const char *below(const struct image_root *root, const char *path)
{
	char name[64], top[PATH_MAX];
	snprintf(name, sizeof(name), "/proc/%" PRIu32 "/root", root->pid);
	ssize_t len = root->pid ? readlink(name, top, sizeof(top)) : -1;
	return len > 1 && (size_t)len < sizeof(top) && strncmp(path, top, (size_t)len) == 0 &&
			       path[len] == '/'
		       ? path + len
		       : NULL;
}

static int open_below(const struct image_root *root, const char *path)
{
	const char *inside = below(root, path);
	int fd = inside ? open_regular(root->fd, inside, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS)
			: -ENOENT;
	return fd >= 0 ? fd : open_regular(root->fd, path, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

int image_open_path(const struct image_root *root, enum opener_kind kind, const char *path,
		    uint32_t nth)
{
	char *found = NULL;
	int fd;
	if (opener_ask(kind, path, (uint32_t)strlen(path), nth, &found, &fd))
		return fd;
	if (kind == OPENER_MAPPED)
		return root->pid ? open_nth(root, path, nth) : -ENOENT;
	if (kind == OPENER_BELOW && root->fd >= 0)
		return open_below(root, path);
	return open_regular(AT_FDCWD, path, 0);
}

static int accept_path(const struct image_root *root, enum opener_kind kind, const char *path,
		       uint32_t nth, const uint8_t *build_id, uint8_t len, image_accept_fn accept,
		       void *to)
{
	int fd = image_open_path(root, kind, path, nth);
	return fd < 0 ? fd : accept(to, fd, build_id, len);
}

int image_find_module(const struct image_root *root, const char *path, const uint8_t *build_id,
		      uint8_t len, image_accept_fn accept, void *to, char **found)
{
	static const char deleted[] = " (deleted)";
	enum opener_kind own = root->fd >= 0 ? OPENER_BELOW : OPENER_OWN;
	if (path[0] != '/')
		return -ENOENT;
	int rc = accept_path(root, own, path, 0, build_id, len, accept, to), now = rc;
	size_t path_len = strlen(path), mark = sizeof(deleted) - 1;
	char plain[PATH_MAX];
	if (rc && path_len > mark && path_len < sizeof(plain) &&
	    !strcmp(path + path_len - mark, deleted)) {
		memcpy(plain, path, path_len - mark);
		plain[path_len - mark] = '\0';
		path = plain;
		/*
		 * a build that was replaced in place often has its old self under the same id again
		 */
		if (len)
			now = accept_path(root, own, path, 0, build_id, len, accept, to);
	}
	/*
	 * whatever is refused there, the next mapping may be; only where none is left opening fails
	 */
	for (uint32_t nth = 0; now && root->pid && nth < MAPPINGS_TRIED; nth++) {
		int fd = image_open_path(root, OPENER_MAPPED, path, nth);
		if (fd < 0)
			break;
		now = accept(to, fd, build_id, len);
	}
	if (!now && found)
		*found = strdup(path);
	return now ? rc : 0;
}

static int accept_image(void *to, int fd, const uint8_t *build_id, uint8_t len)
{
	return image_open_fd(to, fd, build_id, len);
}

int image_open_module(struct image *image, const struct image_root *root, const char *path,
		      const uint8_t *build_id, uint8_t len)
{
	char *found = NULL;
	memset(image, 0, sizeof(*image));
	if (!strcmp(path, "[vdso]"))
		return open_vdso(image, build_id, len);
	int rc = image_find_module(root, path, build_id, len, accept_image, image, &found);
	if (!rc)
		image->path = found;
	return rc;
}

Elf_Scn *image_section(const struct image *image, const char *name, GElf_Shdr *shdr)
{
	size_t names;
	if (!image->elf || elf_getshdrstrndx(image->elf, &names) < 0)
		return NULL;
	Elf_Scn *scn = NULL;
	while ((scn = elf_nextscn(image->elf, scn))) {
		GElf_Shdr local, *s = shdr ? shdr : &local;
		const char *own;
		if (gelf_getshdr(scn, s) && (own = elf_strptr(image->elf, names, s->sh_name)) &&
		    !strcmp(own, name))
			return scn;
	}
	return NULL;
}

int image_open_minidebug(struct image *image, const struct image *from)
{
	memset(image, 0, sizeof(*image));
	Elf_Scn *scn = image_section(from, ".gnu_debugdata", NULL);
	Elf_Data *packed = scn ? elf_rawdata(scn, NULL) : NULL;
	if (!packed || !packed->d_buf || !packed->d_size)
		return -ENOENT;
	size_t cap = packed->d_size * 4 + 4096, used = 0, in = 0;
	char *plain = NULL;
	for (;; cap *= 2) {
		uint64_t memlimit = 128u << 20;
		if (cap > MINIDEBUG_MAX_BYTES || !(plain = malloc(cap)))
			return -E2BIG;
		in = used = 0;
		lzma_ret rc =
			lzma_stream_buffer_decode(&memlimit, 0, NULL, packed->d_buf, &in,
						  packed->d_size, (uint8_t *)plain, &used, cap);
		if (rc == LZMA_OK)
			break;
		free(plain);
		if (rc != LZMA_BUF_ERROR)
			return -EBADMSG;
	}
	return image_open_memory(image, plain, used, NULL, 0);
}
