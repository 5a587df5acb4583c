/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/files.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static void hear(void *ctx, uint32_t what, const struct buf *in)
{
	if (what == FILES_ROWS)
		rows_hear(in);
	else
		functions_hear(ctx, what, in);
}

struct elf_files *elf_files_new(uint32_t pid, struct err *err)
{
	struct elf_files *files = calloc(1, sizeof(*files));
	if (!files) {
		err_set(err, -ENOMEM, "cannot look into files");
		return NULL;
	}
	if (image_root_open(&files->root, pid, err) < 0) {
		free(files);
		return NULL;
	}
	files->work = (struct reader_work){
		.name = "files", .root = &files->root, .hear = hear, .ctx = files
	};
	return files;
}

void elf_files_rest(struct elf_files *files)
{
	if (!files)
		return;
	reader_free(files->reader);
	files->reader = NULL;
	/* one that was sent to rest has not died */
	files->begun = 0;
}

void elf_files_free(struct elf_files *files)
{
	if (!files)
		return;
	reader_free(files->reader);
	image_root_close(&files->root);
	free(files);
}

void elf_files_freep(struct elf_files **files)
{
	elf_files_free(*files);
}

int elf_files_open(const struct elf_files *files, const char *path, const uint8_t *build_id,
		   uint8_t len, struct headed *headed, char **found)
{
	return image_find_module(&files->root, path, build_id, len, headed_accept, headed, found);
}

int elf_files_died(struct elf_files *files)
{
	reader_free(files->reader);
	files->reader = NULL;
	return -EPIPE;
}

int elf_files_ask(struct elf_files *files, enum files_say what, int fd, const char *path,
		  const struct elf_head *head, uint32_t *answer)
{
	int begins = what == FILES_FUNCTIONS || what == FILES_ROWS;
	if (!files->reader && begins && files->begun < READERS_MAX) {
		files->begun++;
		files->reader = reader_start(&files->work);
	}
	if (!files->reader)
		return -EPIPE;
	struct buf *buf = reader_buf(files->reader);
	if (begins) {
		struct file_ask ask = { .build_id_len = head->build_id_len,
					.path_len = (uint32_t)strnlen(path, PATH_MAX) };
		memcpy(ask.build_id, head->build_id, sizeof(ask.build_id));
		buf_clear(buf);
		buf_put(buf, &ask, sizeof(ask));
		buf_put(buf, path, ask.path_len);
		reader_forget_files(files->reader);
		reader_give(files->reader, fd);
	}
	if (reader_say(files->reader, what) < 0 || reader_hear(files->reader, answer) < 0)
		return elf_files_died(files);
	return 0;
}
