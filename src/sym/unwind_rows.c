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

#include "sym/files.h"
#include "sym/rows_build.h"
#include "unwind/table.h"

#define CACHE_MAX_BYTES (512ULL << 20)
#define BLOB_MAX_BYTES (1ll << 30)
#define SUFFIX ".unwind1"

struct unwind_rows {
	struct elf_files *files;
	/* the folder, -1 = none */
	int cache;
};

/*
 * Every folder of the path is made where missing; the last one must be ours and nobody else's to
 * write.
 */
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
	rows->files = elf_files_new(pid, err);
	if (!rows->files) {
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
	elf_files_free(rows->files);
	if (rows->cache >= 0)
		close(rows->cache);
	free(rows);
}

/*
 * The owner and size of the file belong to the name: a build id alone is a claim, and somebody
 * else's program with the id of libc must not put its table in libc's place.
 */
static int cache_name(char *name, size_t size, const struct headed *file)
{
	struct stat st;
	const struct elf_head *head = &file->head;
	if (!head->build_id_len || head->build_id_len > 23 || fstat(file->fd, &st) < 0)
		return -1;
	size_t at = 0;
	for (unsigned i = 0; i < head->build_id_len; i++)
		at += (size_t)snprintf(name + at, size - at, "%02x", head->build_id[i]);
	snprintf(name + at, size - at, "-%u-%" PRIx64 SUFFIX, st.st_uid, (uint64_t)st.st_size);
	return 0;
}

static int64_t cache_get(const struct unwind_rows *rows, const char *name,
			 const struct elf_head *file, struct wire_unwind **blob)
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
		    head->total_bytes == st.st_size && head->build_id_len == file->build_id_len &&
		    !memcmp(head->build_id, file->build_id, file->build_id_len))
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

/* ---- the reader ------------------------------------------------------------------------------ */

struct rows_answer {
	/* bytes of the blob that follow, or negative errno */
	int64_t rc;
	uint64_t fdes, rows, rules, eval_rows, text_bytes;
};

void rows_hear(const struct buf *in)
{
	struct rows_answer answer = { .rc = -EBADMSG };
	struct unwind_rows_info info = { 0 };
	struct wire_unwind *blob = NULL;
	struct image image = { 0 };
	struct file_ask ask;
	struct buf out = { 0 };
	char *found = NULL;
	int fd;
	memcpy(&ask, in->data, sizeof(ask));
	if (opener_ask(OPENER_GIVEN, "", 0, 0, &found, &fd) && fd >= 0 &&
	    image_open_fd(&image, fd, ask.build_id, (uint8_t)ask.build_id_len) == 0)
		answer.rc = build(&image, &blob, &info);
	image_close(&image);
	answer.fdes = info.fdes;
	answer.rows = info.rows;
	answer.rules = info.rules;
	answer.eval_rows = info.eval_rows;
	answer.text_bytes = info.text_bytes;
	buf_put(&out, &answer, sizeof(answer));
	reader_answer(FILES_END, &out);
	buf_fini(&out);
	if (answer.rc > 0)
		reader_answer_raw(blob, (size_t)answer.rc);
	free(blob);
}

/* ---- who asks it ----------------------------------------------------------------------------- */

static int64_t ask(struct elf_files *files, const struct headed *file, const char *path,
		   struct wire_unwind **blob, struct unwind_rows_info *info)
{
	struct rows_answer answer;
	uint32_t what;
	if (elf_files_ask(files, FILES_ROWS, file->fd, path, &file->head, &what) < 0)
		return -EPIPE;
	const struct buf *heard = reader_buf(files->reader);
	if (what != FILES_END || heard->len != sizeof(answer))
		return elf_files_died(files);
	memcpy(&answer, heard->data, sizeof(answer));
	if (answer.rc <= 0)
		return answer.rc < 0 && answer.rc >= -4095 ? answer.rc : -EBADMSG;
	struct wire_unwind *bytes = answer.rc > BLOB_MAX_BYTES ? NULL : malloc((size_t)answer.rc);
	if (!bytes || reader_hear_raw(files->reader, bytes, (size_t)answer.rc) < 0 ||
	    (size_t)answer.rc < sizeof(*bytes) || !unwind_table_valid(bytes, (uint64_t)answer.rc) ||
	    bytes->total_bytes != answer.rc || bytes->build_id_len > file->head.build_id_len ||
	    memcmp(bytes->build_id, file->head.build_id, bytes->build_id_len)) {
		free(bytes);
		return elf_files_died(files);
	}
	info->fdes = answer.fdes;
	info->rows = answer.rows;
	info->rules = answer.rules;
	info->eval_rows = answer.eval_rows;
	info->text_bytes = answer.text_bytes;
	*blob = bytes;
	return answer.rc;
}

static void find_segments(const struct elf_head *head, struct unwind_rows_info *info)
{
	for (uint32_t i = 0; i < head->segment_count && info->exec_count < UNWIND_ROWS_SEGMENTS;
	     i++) {
		const Elf64_Phdr *s = &head->segments[i];
		if (s->p_type == PT_LOAD && (s->p_flags & PF_X))
			info->exec[info->exec_count++] =
				(struct unwind_rows_segment){ s->p_offset, s->p_filesz,
							      s->p_vaddr };
	}
}

/* The kernel's own code, as it stands in ourselves: nobody else could have written it. */
static int64_t get_vdso(struct unwind_rows *rows, const uint8_t *build_id, uint8_t len,
			struct wire_unwind **blob, struct unwind_rows_info *info)
{
	struct image image;
	int64_t rc = image_open_module(&image, &rows->files->root, "[vdso]", build_id, len);
	size_t count;
	if (rc < 0)
		return rc;
	if (elf_getphdrnum(image.elf, &count) == 0) {
		struct elf_head head = { 0 };
		for (size_t i = 0; i < count && i < HEAD_SEGMENTS_MAX; i++) {
			GElf_Phdr phdr;
			if (gelf_getphdr(image.elf, (int)i, &phdr))
				head.segments[head.segment_count++] = phdr;
		}
		find_segments(&head, info);
	}
	rc = build(&image, blob, info);
	image_close(&image);
	return rc;
}

void unwind_rows_rest(struct unwind_rows *rows)
{
	if (rows)
		elf_files_rest(rows->files);
}

int64_t unwind_rows_get(struct unwind_rows *rows, const char *path, const uint8_t *build_id,
			uint8_t len, struct wire_unwind **blob, struct unwind_rows_info *info,
			struct err *err)
{
	struct headed file = { .fd = -1 };
	struct unwind_rows_info unused;
	char name[NAME_MAX];
	int64_t rc;
	info = info ? info : &unused;
	memset(info, 0, sizeof(*info));
	*blob = NULL;
	if (!strcmp(path, "[vdso]")) {
		rc = get_vdso(rows, build_id, len, blob, info);
		return rc < 0 ? err_set(err, (int)rc, "cannot build an unwind table of '%s'", path)
			      : rc;
	}
	rc = elf_files_open(rows->files, path, build_id, len, &file, NULL);
	if (rc < 0)
		return err_set(err, (int)rc, "cannot read unwind data of '%s'", path);
	find_segments(&file.head, info);
	int cached = rows->cache >= 0 && !cache_name(name, sizeof(name), &file);
	rc = cached ? cache_get(rows, name, &file.head, blob) : -ENOENT;
	info->cached = rc > 0;
	if (rc < 0) {
		rc = ask(rows->files, &file, path, blob, info);
		if (rc > 0 && cached)
			cache_put(rows, name, *blob);
	}
	close(file.fd);
	if (rc < 0)
		err_set(err, (int)rc, "cannot build an unwind table of '%s'", path);
	return rc;
}
