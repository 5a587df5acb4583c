/* SPDX-License-Identifier: Apache-2.0 */
/*
 * files.h - the ELF files of one process, and the reader (sym/reader.h) that is asked about them.
 */
#ifndef SYM_FILES_H
#define SYM_FILES_H

#include <stdint.h>

#include "base/err.h"
#include "sym/head.h"
#include "sym/image.h"
#include "sym/reader.h"

/**
 * struct elf_files - one thread, one file at a time. Its reader begins when the first file is
 * looked into.
 */
struct elf_files {
	struct image_root root;
	struct reader_work work;
	/* NULL: not begun, or dead */
	struct reader *reader;
	int begun;
};

/** elf_files_new() - of process @pid; 0: nobody's, paths are our own. NULL with @err. */
struct elf_files *elf_files_new(uint32_t pid, struct err *err);
void elf_files_free(struct elf_files *files);
void elf_files_freep(struct elf_files **files);
/** elf_files_rest() - end the reader; the next question begins another. NULL is fine. */
void elf_files_rest(struct elf_files *files);
int elf_files_open(const struct elf_files *files, const char *path, const uint8_t *build_id,
		   uint8_t len, struct headed *headed, char **found);

/* What a reader is asked: the first two begin with a struct file_ask, and the file is given. */
enum files_say {
	FILES_FUNCTIONS, /* open it: one u32, enum functions_names */
	FILES_ROWS,      /* its unwind table: struct rows_answer, then the blob, raw */
	FILES_EACH,      /* every name: answers of FILES_MORE, then FILES_END */
	FILES_STUBS,     /* every stub: likewise */
	FILES_USDTS,     /* u64 base, then the notes as they are */
	FILES_VARIABLES, /* names, each with its NUL: a u64 each */
	FILES_MORE,
	FILES_END
};

struct file_ask {
	uint8_t build_id[64];
	/* the path follows */
	uint32_t build_id_len, path_len;
};

/**
 * elf_files_ask() - @what about the file behind @fd (-1: the one before); where it is one of the
 * first two, with @path and @build_id. Return: 0 with the first answer in reader_buf(), or -EPIPE:
 * the reader died over it, or there can be none.
 */
int elf_files_ask(struct elf_files *files, enum files_say what, int fd, const char *path,
		  const struct elf_head *head, uint32_t *answer);
/** elf_files_died() - its answer was none: it is not asked again. Return: -EPIPE. */
int elf_files_died(struct elf_files *files);

/* In the reader. */
void functions_hear(struct elf_files *files, uint32_t what, const struct buf *in);
void rows_hear(const struct buf *in);

#endif
