/* SPDX-License-Identifier: Apache-2.0 */
/*
 * head.h - what the first bytes of an ELF file say: its segments and its build id. All that this
 * process reads of a stranger's file by itself, in bounded pieces and without a library; the rest
 * is a reader's (sym/reader.h).
 */
#ifndef SYM_HEAD_H
#define SYM_HEAD_H

#include <elf.h>
#include <stdint.h>

#define HEAD_SEGMENTS_MAX 128

struct elf_head {
	uint16_t type, machine;
	uint8_t build_id[64];
	uint8_t build_id_len;
	uint32_t segment_count;
	Elf64_Phdr segments[HEAD_SEGMENTS_MAX];
};

/**
 * head_read() - of @fd, whose offset does not matter. -EBADMSG: no 64-bit ELF file of our byte
 * order, or damaged.
 */
int head_read(struct elf_head *head, int fd);

/** struct headed - a file that is open, and its head. */
struct headed {
	int fd;
	struct elf_head head;
};
/** headed_accept() - an image_accept_fn; @to: struct headed. */
int headed_accept(void *to, int fd, const uint8_t *build_id, uint8_t len);

#endif
