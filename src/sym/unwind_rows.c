/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/unwind_rows.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sym/rows_build.h"
#include "unwind/table.h"

#define CACHE_MAX_BYTES (512ULL << 20)
#define SUFFIX ".unwind1"

struct unwind_rows {
	struct image_root root;
	int cache; /* the folder, -1 = none */
};

/* Every folder of the path is made where missing; the last one must be ours and nobody else's to write. */
static int open_cache(const char *dir)
{
	char path[PATH_MAX];
	if (snprintf(path, sizeof(path), "%s/", dir) >= (int)sizeof(path) || dir[0] != '/')
		return -1;
	for (char *slash = path + 1; (slash = strchr(slash, '/')); slash++) {
		*slash = '\0';
		mkdir(path, 0700);
		*slash = '/';
	}
	struct stat st;
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd >= 0 && (fstat(fd, &st) < 0 || st.st_uid != geteuid() || (st.st_mode & 022))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static int open_default_cache(void)
{
	char path[PATH_MAX];
	const char *base = secure_getenv("XDG_CACHE_HOME"), *home = secure_getenv("HOME");
	int len;
	if (base && base[0] == '/')
		len = snprintf(path, sizeof(path), "%s/byteledger", base);
	else if (!geteuid())
		len = snprintf(path, sizeof(path), "/var/cache/byteledger");
	else if (home && home[0] == '/')
		len = snprintf(path, sizeof(path), "%s/.cache/byteledger", home);
	else
		return -1;
	return len > 0 && len < (int)sizeof(path) ? open_cache(path) : -1;
}

struct unwind_rows *unwind_rows_new(uint32_t pid, const char *cache_dir, struct err *err)
{
	struct unwind_rows *rows = calloc(1, sizeof(*rows));
	if (!rows) {
		err_set(err, -ENOMEM, "cannot allocate a maker of unwind tables");
		return NULL;
	}
	rows->cache = -1;
	if (image_root_open(&rows->root, pid, err) < 0) {
		free(rows);
		return NULL;
	}
	/* without a cache everything works, slower: not an error */
	if (!cache_dir)
		rows->cache = open_default_cache();
	else if (*cache_dir)
		rows->cache = open_cache(cache_dir);
	return rows;
}

void unwind_rows_free(struct unwind_rows *rows)
{
	if (!rows)
		return;
	image_root_close(&rows->root);
	if (rows->cache >= 0)
		close(rows->cache);
	free(rows);
}

void unwind_rows_freep(struct unwind_rows **rows)
{
	unwind_rows_free(*rows);
}

/*
 * The owner and size of the file belong to the name: a build id alone is a claim, and somebody else's program with the
 * id of libc must not put its table in libc's place.
 */
static int cache_name(char *name, size_t size, const struct image *image)
{
	struct stat st;
	if (!image->build_id_len || image->build_id_len > 23 || image->fd < 0 ||
	    fstat(image->fd, &st) < 0)
		return -1;
	size_t at = 0;
	for (unsigned i = 0; i < image->build_id_len; i++)
		at += (size_t)snprintf(name + at, size - at, "%02x", image->build_id[i]);
	snprintf(name + at, size - at, "-%u-%" PRIx64 SUFFIX, st.st_uid, (uint64_t)st.st_size);
	return 0;
}

static int64_t cache_get(const struct unwind_rows *rows, const char *name,
			 const struct image *image, struct wire_unwind **blob)
{
	struct stat st;
	int fd = openat(rows->cache, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -ENOENT;
	int64_t rc = -ENOENT;
	char *bytes = NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    (size_t)st.st_size >= sizeof(**blob) && st.st_size <= INT32_MAX &&
	    (bytes = malloc((size_t)st.st_size)) &&
	    read(fd, bytes, (size_t)st.st_size) == st.st_size) {
		const struct wire_unwind *head = (const struct wire_unwind *)bytes;
		if (unwind_table_valid(bytes, (uint64_t)st.st_size) &&
		    head->total_bytes == st.st_size && head->build_id_len == image->build_id_len &&
		    !memcmp(head->build_id, image->build_id, image->build_id_len))
			rc = st.st_size;
	}
	close(fd);
	if (rc < 0)
		free(bytes);
	else
		*blob = (struct wire_unwind *)bytes;
	return rc;
}

/* Keep the folder below its bound: the tables that were made longest ago go first. */
static void cache_prune(const struct unwind_rows *rows, uint64_t coming)
{
	for (unsigned rounds = 0; rounds < 4096; rounds++) {
		int fd = openat(rows->cache, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
		if (!dir) {
			if (fd >= 0)
				close(fd);
			return;
		}
		uint64_t sum = coming;
		char oldest[NAME_MAX + 1] = "";
		struct timespec when = { 0 };
		for (struct dirent *entry; (entry = readdir(dir));) {
			struct stat st;
			if (entry->d_name[0] == '.' ||
			    fstatat(rows->cache, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
			    !S_ISREG(st.st_mode))
				continue;
			sum += (uint64_t)st.st_size;
			if (strstr(entry->d_name, SUFFIX) &&
			    (!oldest[0] || st.st_mtim.tv_sec < when.tv_sec)) {
				snprintf(oldest, sizeof(oldest), "%s", entry->d_name);
				when = st.st_mtim;
			}
		}
		closedir(dir);
		if (sum <= CACHE_MAX_BYTES || !oldest[0] || unlinkat(rows->cache, oldest, 0) < 0)
			return;
	}
}

static void cache_put(const struct unwind_rows *rows, const char *name,
		      const struct wire_unwind *blob)
{
	char temporary[NAME_MAX + 16];
	cache_prune(rows, blob->total_bytes);
	snprintf(temporary, sizeof(temporary), ".%s.%d", name, getpid());
	int fd = openat(rows->cache, temporary,
			O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	int whole = write(fd, blob, blob->total_bytes) == (ssize_t)blob->total_bytes;
	if (close(fd) < 0 || !whole || renameat(rows->cache, temporary, rows->cache, name) < 0)
		unlinkat(rows->cache, temporary, 0);
}

static int64_t build(const struct image *image, struct wire_unwind **blob,
		     struct unwind_rows_info *info)
{
	GElf_Ehdr ehdr;
	if (!gelf_getehdr(image->elf, &ehdr) || ehdr.e_machine != EM_X86_64)
		return -EBADMSG;
	struct rows_list list = { 0 }, more = { 0 };
	int has_eh_frame = !rows_from_eh_frame(&list, image);
	int has_debug_frame = !rows_from_libdw(&more, image, 1);
	int64_t rc = -ENOENT;
	if (has_debug_frame)
		rows_fill(&list, &more);
	if (has_eh_frame || has_debug_frame)
		rc = rows_blob(&list, image, blob, info);
	rows_fini(&list);
	rows_fini(&more);
	return rc;
}

static void find_segments(const struct image *image, struct unwind_rows_info *info)
{
	size_t count;
	if (elf_getphdrnum(image->elf, &count) < 0)
		return;
	for (size_t i = 0; i < count && info->exec_count < UNWIND_ROWS_SEGMENTS; i++) {
		GElf_Phdr phdr;
		if (gelf_getphdr(image->elf, (int)i, &phdr) && phdr.p_type == PT_LOAD &&
		    (phdr.p_flags & PF_X))
			info->exec[info->exec_count++] =
				(struct unwind_rows_segment){ phdr.p_offset, phdr.p_filesz,
							      phdr.p_vaddr };
	}
}

int64_t unwind_rows_get(struct unwind_rows *rows, const char *path, const uint8_t *build_id,
			uint8_t len, struct wire_unwind **blob, struct unwind_rows_info *info,
			struct err *err)
{
	struct image image;
	struct unwind_rows_info unused;
	char name[NAME_MAX];
	info = info ? info : &unused;
	memset(info, 0, sizeof(*info));
	*blob = NULL;
	int64_t rc = image_open_module(&image, &rows->root, path, build_id, len);
	if (rc < 0)
		return err_set(err, (int)rc, "cannot read unwind data of '%s'", path);
	find_segments(&image, info);
	int cached = rows->cache >= 0 && !cache_name(name, sizeof(name), &image);
	rc = cached ? cache_get(rows, name, &image, blob) : -ENOENT;
	info->cached = rc > 0;
	if (rc < 0) {
		rc = build(&image, blob, info);
		if (rc > 0 && cached)
			cache_put(rows, name, *blob);
	}
	image_close(&image);
	if (rc < 0)
		err_set(err, (int)rc, "cannot build an unwind table of '%s'", path);
	return rc;
}
