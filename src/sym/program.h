/* SPDX-License-Identifier: Apache-2.0 */
/*
 * program.h - what kind of program a file is, as far as preloading a library into it is concerned.
 */
#ifndef SYM_PROGRAM_H
#define SYM_PROGRAM_H

#include <stdint.h>

enum sym_program {
	SYM_PROGRAM_NOT_ELF = 0,
	SYM_PROGRAM_DYNAMIC, /* has an interpreter (PT_INTERP): the loader reads LD_PRELOAD */
	SYM_PROGRAM_STATIC,
	/* its interpreter is that of musl, bionic or uClibc: a library for glibc stops it */
	SYM_PROGRAM_OTHER_LIBC,
	/* needs AddressSanitizer's library, which ends a program that it does not come first in */
	SYM_PROGRAM_ASAN,
	SYM_PROGRAM_FOREIGN /* other word size or machine than byteledger's own */
};

/**
 * sym_program() - look at @fd, open for reading; its offset does not matter. A damaged ELF file
 * counts as NOT_ELF.
 */
enum sym_program sym_program(int fd);
/** sym_program_is_foreign() - whether what process @pid runs is; 0: whether @file is. */
int sym_program_is_foreign(uint32_t pid, const char *file);

#endif
