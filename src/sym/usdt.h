/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usdt.h - static probes that a file announces in .note.stapsdt: where they are, and where their
 * arguments stand.
 */
#ifndef SYM_USDT_H
#define SYM_USDT_H

#include <stddef.h>
#include <stdint.h>

#define USDT_ARGS_MAX 12

enum usdt_kind { USDT_CONSTANT, USDT_REGISTER, USDT_MEMORY };

/**
 * struct usdt_arg - one argument: a constant, a register, or what is at an offset from where a
 * register points.
 */
struct usdt_arg {
	enum usdt_kind kind;
	/* 1, 2, 4 or 8; negative: signed */
	int8_t bytes;
	/* x86-64's number of it: ax cx dx bx sp bp si di r8 .. r15 */
	uint8_t reg;
	/* of the constant; the offset */
	int64_t value;
};

struct usdt {
	/* lent */
	const char *provider, *name, *args;
	/* as the linker knew it: see @base */
	uint64_t vaddr;
	/* where .stapsdt.base was then; what it is off now everything is off */
	uint64_t base;
	/* a variable's address, 0 = none */
	uint64_t semaphore;
};

/**
 * usdt_notes() - every probe of a section's @bytes; damaged notes end the walk. Nonzero of @fn ends
 * and is returned. Pure.
 */
int usdt_notes(const uint8_t *data, size_t bytes, int (*fn)(void *ctx, const struct usdt *usdt),
	       void *ctx);
/**
 * usdt_args() - "8@%rdi -4@$12 8@-8(%rbp)". Return: how many of @args, at most USDT_ARGS_MAX;
 * -EINVAL where one is of another form. Pure.
 */
int usdt_args(const char *text, struct usdt_arg args[USDT_ARGS_MAX]);

#endif
