/* SPDX-License-Identifier: Apache-2.0 */
/*
 * image.h - an ELF file opened with care, and the search for its debug file.
 *
 * Paths come from the target and are resolved below its root; only regular files are opened, and
 * read by pread rather than mapped, so that a file which shrinks under us is a short read and not a
 * SIGBUS.
 */
#ifndef SYM_IMAGE_H
#define SYM_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include <gelf.h>

#include "base/err.h"
#include "sym/opener.h"

/** struct image - one ELF file; zero-initialised is closed and valid. */
struct image {
	Elf *elf;
	/* valid while elf is set; -1 for images in memory */
	int fd;
	void *memory;
	size_t memory_bytes;
	uint8_t build_id[64];
	uint8_t build_id_len;
	/* where it was found, as seen below its root; malloc'd */
	char *path;
	/* found by its build id where whoever looks later finds it, too */
	int lasting;
};
void image_close(struct image *image);

/** struct image_root - where paths start. fd: O_PATH of /proc/PID/root; -1 = our own root. */
struct image_root {
	int fd;
	/* for /proc/PID/map_files and the vDSO; 0 = none */
	uint32_t pid;
};
/** image_root_open() - @pid 0: our own root, which cannot fail. Close with image_root_close(). */
int image_root_open(struct image_root *root, uint32_t pid, struct err *err);
void image_root_close(struct image_root *root);

/**
 * image_open_path() - a regular file's descriptor, for whoever may not open it; or negative errno.
 */
int image_open_path(const struct image_root *root, enum opener_kind kind, const char *path,
		    uint32_t nth);

/**
 * image_open() - the ELF file at @path below @root. @build_id: what it must have (@len 0: anything
 * goes). Return: 0, -ENOENT, -EBADMSG (not a usable ELF file), -EFBIG (small sections that claim to
 * unpack to a great deal), -ESTALE (another build id), or what opening answered.
 */
int image_open(struct image *image, const struct image_root *root, const char *path,
	       const uint8_t *build_id, uint8_t len);
/** image_open_fd() - likewise from a descriptor, which is taken over in any case. */
int image_open_fd(struct image *image, int fd, const uint8_t *build_id, uint8_t len);
/**
 * image_open_memory() - likewise from a malloc'd copy of a file, which is taken over in any case.
 */
int image_open_memory(struct image *image, void *memory, size_t bytes, const uint8_t *build_id,
		      uint8_t len);

/**
 * Whether the file is the one that is looked for: 0, or negative errno; takes @fd over in any case.
 */
typedef int (*image_accept_fn)(void *to, int fd, const uint8_t *build_id, uint8_t len);

/**
 * image_find_module() - offer @accept what process @root may have mapped as @path, until it takes
 * one: see image_open_module(). @found: malloc'd, where it was; may be NULL. Return: 0, or what the
 * path itself answered.
 */
int image_find_module(const struct image_root *root, const char *path, const uint8_t *build_id,
		      uint8_t len, image_accept_fn accept, void *to, char **found);

/**
 * image_open_module() - the file a process has mapped as @path: the path itself, or where that is
 * gone or replaced ("(deleted)", memfd), the mapping below /proc/PID/map_files; "[vdso]" is copied
 * from memory.
 */
int image_open_module(struct image *image, const struct image_root *root, const char *path,
		      const uint8_t *build_id, uint8_t len);

/**
 * image_open_minidebug() - the ELF file packed into .gnu_debugdata of @from; -ENOENT where it has
 * none.
 */
int image_open_minidebug(struct image *image, const struct image *from);

struct servers;

/** struct debug_search - where debug files may be. */
struct debug_search {
	const struct image_root *root;
	/* asked last; NULL = never */
	struct servers *servers;
};

/**
 * image_find_debug() - the separate debug file of the module at @path. @main may be closed (the
 * module is gone): then only the @build_id can find one. Every candidate must carry that build id,
 * or where the module has none, match the CRC of its debuglink. Cost: a few failed opens; a CRC
 * pass over the file; whatever the network takes.
 */
int image_find_debug(struct image *image, const struct debug_search *search,
		     const struct image *main, const char *path, const uint8_t *build_id,
		     uint8_t len);

/**
 * image_section() - the first section called @name, NULL where there is none. @shdr may be NULL.
 */
Elf_Scn *image_section(const struct image *image, const char *name, GElf_Shdr *shdr);

#endif
