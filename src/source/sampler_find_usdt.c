/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_find_usdt.c - static probes by which programs tell of what they have sampled themselves:
 * otel_memory:alloc(ptr, size, weighted_bytes) and otel_memory:free(ptr), which were called ddheap
 * before.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "source/sampler_find.h"

static const char *const providers[] = { "otel_memory", "ddheap" };

struct search {
	struct functions *file;
	uint32_t pid;
	const struct code_mapping *mapping;
	int track;
	struct sampler_functions *out;
	struct err *err;
};

static void describe(struct wire_sample_arg *to, const struct usdt_arg *from)
{
	to->kind = (uint8_t)from->kind; /* both enums number alike */
	/* from the instruction's number of a register to its place in struct pt_regs */
	static const uint8_t slots[16] = { 10, 11, 12, 5, 19, 4, 13, 14, 9, 8, 7, 6, 3, 2, 1, 0 };
	to->reg = slots[from->reg & 15];
	to->bytes = (uint8_t)abs(from->bytes);
	to->value = (uint64_t)from->value;
}

/*
 * A nop is emulated; where the compiler left one of a byte before one of five, the probe stands on
 * the first.
 */
static enum sampler_site_kind kind_of(struct functions *file, uint64_t vaddr)
{
	static const uint8_t nop5[] = { 0x0f, 0x1f, 0x44, 0x00, 0x00 };
	uint8_t code[sizeof(nop5)];
	size_t bytes = functions_code(file, vaddr, code, sizeof(code));
	return bytes && code[0] == 0x90                              ? SAMPLER_EMULATED
	       : bytes == sizeof(nop5) && !memcmp(code, nop5, bytes) ? SAMPLER_NOP5
								     : SAMPLER_STEPPED;
}

static int take(void *ctx, const struct usdt *usdt)
{
	struct search *s = ctx;
	struct usdt_arg args[USDT_ARGS_MAX];
	int ours = 0, is_free = !strcmp(usdt->name, "free"), count;
	for (size_t i = 0; i < ARRAY_LEN(providers); i++)
		ours |= !strcmp(usdt->provider, providers[i]);
	if (!ours || (!is_free && strcmp(usdt->name, "alloc")) || (is_free && !s->track))
		return 0;
	int64_t at = functions_offset(s->file, usdt->vaddr);
	int64_t semaphore = usdt->semaphore ? functions_offset(s->file, usdt->semaphore) : 0;
	count = usdt_args(usdt->args, args);
	if (at < 0 || semaphore < 0 || count < (is_free ? 1 : 3))
		return 0; /* not by the contract */
	struct sampler_function *grown =
		reallocarray(s->out->all, s->out->count + 1, sizeof(*grown));
	if (!grown)
		return err_set(s->err, -ENOMEM, "cannot list functions");
	s->out->all = grown;
	struct sampler_function *to = &grown[s->out->count];
	char name[64];
	snprintf(name, sizeof(name), "%.40s:%s", usdt->provider, usdt->name);
	*to = (struct sampler_function){
		.module = strdup(s->mapping->path),
		.name = strdup(name),
		.vaddr = usdt->vaddr,
		.bytes = 1,
		.file_at = (uint64_t)at,
		.kind = kind_of(s->file, usdt->vaddr),
		.is_free = is_free,
		.is_hook = 1,
		.is_usdt = 1,
		.semaphore_at = (uint64_t)semaphore,
		.cookie = WIRE_SAMPLE_COOKIE(WIRE_SAMPLE_NONE, WIRE_SAMPLE_NONE, WIRE_SAMPLE_NONE,
					     WIRE_SAMPLE_NONE, 0, 0),
		.attach = sampler_attach_path(s->pid, s->mapping),
	};
	for (int i = 0; i < 3 && i < count; i++)
		describe(&to->usdt.arg[i], &args[i]);
	to->usdt.is_free = (uint32_t)is_free;
	s->out->count++;
	return to->module && to->name && to->attach
		       ? 0
		       : err_set(s->err, -ENOMEM, "cannot list functions");
}

int sampler_find_usdts(struct functions *file, uint32_t pid, const struct code_mapping *mapping,
		       int track, struct sampler_functions *out, struct err *err)
{
	struct search s = { file, pid, mapping, track, out, err };
	return functions_usdts(file, take, &s);
}
