/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/usdt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define NOTE_TYPE 3
#define HEAD_BYTES 12
#define PLACES_BYTES 24 /* location, base, semaphore */

static uint32_t read_u32(const uint8_t *at)
{
	uint32_t v;
	memcpy(&v, at, sizeof(v));
	return v;
}

static uint64_t read_u64(const uint8_t *at)
{
	uint64_t v;
	memcpy(&v, at, sizeof(v));
	return v;
}

/* The three texts of a note's body; 0 where one has no end. */
static int take_texts(const char *text, size_t bytes, struct usdt *usdt)
{
	const char **fields[] = { &usdt->provider, &usdt->name, &usdt->args };
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const char *end = memchr(text, '\0', bytes);
		if (!end)
			return 0;
		*fields[i] = text;
		bytes -= (size_t)(end + 1 - text);
		text = end + 1;
	}
	return 1;
}

int usdt_notes(const uint8_t *data, size_t bytes, int (*fn)(void *ctx, const struct usdt *usdt),
	       void *ctx)
{
	while (bytes >= HEAD_BYTES) {
		size_t name = read_u32(data), body = read_u32(data + 4);
		size_t name_padded = (name + 3) & ~(size_t)3, body_padded = (body + 3) & ~(size_t)3;
		if (name > bytes || body > bytes || name_padded > bytes - HEAD_BYTES ||
		    body > bytes - HEAD_BYTES - name_padded)
			return 0;
		const uint8_t *at = data + HEAD_BYTES + name_padded;
		struct usdt usdt = { 0 };
		if (read_u32(data + 8) == NOTE_TYPE && name == 8 &&
		    !memcmp(data + HEAD_BYTES, "stapsdt", 8) && body >= PLACES_BYTES &&
		    take_texts((const char *)at + PLACES_BYTES, body - PLACES_BYTES, &usdt)) {
			usdt.vaddr = read_u64(at);
			usdt.base = read_u64(at + 8);
			usdt.semaphore = read_u64(at + 16);
			int rc = fn(ctx, &usdt);
			if (rc)
				return rc;
		}
		size_t all = HEAD_BYTES + name_padded + body_padded;
		if (all >= bytes)
			return 0;
		data += all;
		bytes -= all;
	}
	return 0;
}

/* "%rdi", "%r10d", "%al": the register's number; -1 = none. */
static int reg_of(const char *name, size_t len)
{
	static const char *const names[16][4] = {
		{ "rax", "eax", "ax", "al" },      { "rcx", "ecx", "cx", "cl" },
		{ "rdx", "edx", "dx", "dl" },      { "rbx", "ebx", "bx", "bl" },
		{ "rsp", "esp", "sp", "spl" },     { "rbp", "ebp", "bp", "bpl" },
		{ "rsi", "esi", "si", "sil" },     { "rdi", "edi", "di", "dil" },
		{ "r8", "r8d", "r8w", "r8b" },     { "r9", "r9d", "r9w", "r9b" },
		{ "r10", "r10d", "r10w", "r10b" }, { "r11", "r11d", "r11w", "r11b" },
		{ "r12", "r12d", "r12w", "r12b" }, { "r13", "r13d", "r13w", "r13b" },
		{ "r14", "r14d", "r14w", "r14b" }, { "r15", "r15d", "r15w", "r15b" },
	};
	for (int i = 0; i < 16; i++)
		for (int k = 0; k < 4; k++)
			if (strlen(names[i][k]) == len && !memcmp(names[i][k], name, len))
				return i;
	return -1;
}

static int take_arg(const char *text, size_t len, struct usdt_arg *arg)
{
	char word[64], *rest;
	if (len >= sizeof(word))
		return -EINVAL;
	memcpy(word, text, len);
	word[len] = '\0';
	long bytes = strtol(word, &rest, 10);
	if (rest == word || *rest++ != '@' ||
	    (labs(bytes) != 1 && labs(bytes) != 2 && labs(bytes) != 4 && labs(bytes) != 8))
		return -EINVAL;
	*arg = (struct usdt_arg){ .bytes = (int8_t)bytes };
	int reg;
	char *end;
	if (*rest == '$') {
		arg->kind = USDT_CONSTANT;
		arg->value = strtoll(rest + 1, &end, 0);
		return end == rest + 1 || *end ? -EINVAL : 0;
	}
	if (*rest == '%') {
		arg->kind = USDT_REGISTER;
		reg = reg_of(rest + 1, strlen(rest + 1));
	} else {
		arg->kind = USDT_MEMORY;
		arg->value = strtoll(rest, &end, 0);
		size_t tail = strlen(end);
		if (tail < 4 || end[0] != '(' || end[1] != '%' || end[tail - 1] != ')')
			return -EINVAL;
		reg = reg_of(end + 2, tail - 3);
	}
	if (reg < 0)
		return -EINVAL;
	arg->reg = (uint8_t)reg;
	return 0;
}

int usdt_args(const char *text, struct usdt_arg args[USDT_ARGS_MAX])
{
	int count = 0;
	while (*(text += strspn(text, " ")) && count < USDT_ARGS_MAX) {
		size_t len = strcspn(text, " ");
		int rc = take_arg(text, len, &args[count]);
		if (rc)
			return rc;
		count++;
		text += len;
	}
	return count;
}
