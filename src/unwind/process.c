/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * process.c - what all threads share: where recipes come from, and the blocks that the program
 * announced.
 */
#include "unwind/bytes.h"
#include "unwind/call_x86_64.h"
#include "unwind/epilogue.h"
#include "unwind/state.h"
#include "unwind/table.h"

#define PAGE 4096ull
#define BLOCK_FILLING ((const uint8_t *)1)

uint64_t unwind_process_bytes(void)
{
	return (sizeof(struct unwind_process) + PAGE - 1) / PAGE * PAGE;
}

struct unwind_process *unwind_process_init(void *memory, void *base, unwind_find_module_fn find,
					   unwind_probe_fn probe, void *ctx)
{
	struct unwind_process *p = memory;
	unwind_nodes_init(&p->nodes, base);
	p->module_gen = &((struct wire_heap_header *)base)->module_gen;
	p->find = find;
	p->probe = probe;
	p->ctx = ctx;
	return p;
}

void unwind_process_changed(struct unwind_process *process)
{
	__atomic_fetch_add(&process->epoch, 1u << EPOCH_CODE_SHIFT, __ATOMIC_RELEASE);
}

void unwind_process_stacks_changed(struct unwind_process *process)
{
	__atomic_fetch_add(&process->epoch, 1, __ATOMIC_RELEASE);
}

/*
 * The bounds only move outwards: whatever mixture of old and new ones a thread reads, it holds what
 * it has to.
 */
void unwind_process_reused(struct unwind_process *process, uint64_t lo, uint64_t hi)
{
	if (!process->reused_hi || lo < process->reused_lo)
		__atomic_store_n(&process->reused_lo, lo, __ATOMIC_RELEASE);
	if (hi > process->reused_hi)
		__atomic_store_n(&process->reused_hi, hi, __ATOMIC_RELEASE);
}

void unwind_process_forked(struct unwind_process *process)
{
	process->block_readers = 0;
	for (uint32_t i = 0; i < process->block_count; i++)
		if (process->block[i].begin == BLOCK_FILLING)
			process->block[i].begin = NULL;
	unwind_process_changed(process);
}

/* Every page of [lo, hi) can be read. */
static int readable(struct unwind_process *p, uint64_t lo, uint64_t hi)
{
	if (!p->probe)
		return 1; /* the program gave these addresses to its own unwinder as well */
	if (hi < lo || hi - lo > 1ull << 28)
		return 0;
	for (uint64_t page = lo & ~(PAGE - 1); page < hi; page += PAGE) {
		if (!p->probe(p->ctx, page))
			return 0;
	}
	return 1;
}

/* Bounds of the records at @begin: readable throughout, ended by a zero length. */
static int measure(struct unwind_process *p, const uint8_t *begin, struct frame_block *block)
{
	const uint8_t *at = begin;
	uint32_t len = 0, id;

	block->read_lo = begin;
	for (;;) {
		if (!readable(p, (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at + 4))
			return 0;
		__builtin_memcpy(&len, at, 4);
		if (!len)
			break;
		if (len < 4 || len >= 0xfffffff0u ||
		    !readable(p, (uint64_t)(uintptr_t)at, (uint64_t)(uintptr_t)at + 4 + len))
			return 0;
		__builtin_memcpy(&id, at + 4, 4);
		/* a single record may have its CIE somewhere before it */
		if (id && at + 4 - id < block->read_lo) {
			const uint8_t *cie = at + 4 - id;
			if (!readable(p, (uint64_t)(uintptr_t)cie, (uint64_t)(uintptr_t)at))
				return 0;
			block->read_lo = cie;
		}
		at += 4 + len;
	}
	block->read_hi = at + 4;

	struct unwind_image image = { block->read_lo, block->read_hi, NULL, begin };
	struct unwind_fde fde;
	block->lo = UINT64_MAX;
	block->hi = 0;
	for (at = begin; at;) {
		at = unwind_cfi_next(&image, at, &fde);
		if (!at || fde.lo >= fde.hi)
			continue;
		if (fde.lo < block->lo)
			block->lo = fde.lo;
		if (fde.hi > block->hi)
			block->hi = fde.hi;
	}
	return block->lo < block->hi;
}

void unwind_register_frame(struct unwind_process *p, const void *begin)
{
	struct frame_block found;

	if (!begin || !measure(p, begin, &found))
		return;
	for (uint32_t i = 0; i < UNWIND_BLOCKS_MAX; i++) {
		struct frame_block *b = &p->block[i];
		const uint8_t *expected = NULL;
		if (!__atomic_compare_exchange_n(&b->begin, &expected, BLOCK_FILLING, 0,
						 __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
			continue;
		b->read_lo = found.read_lo;
		b->read_hi = found.read_hi;
		b->lo = found.lo;
		b->hi = found.hi;
		__atomic_store_n(&b->begin, (const uint8_t *)begin, __ATOMIC_RELEASE);
		uint32_t count = __atomic_load_n(&p->block_count, __ATOMIC_RELAXED);
		while (count < i + 1 &&
		       !__atomic_compare_exchange_n(&p->block_count, &count, i + 1, 0,
						    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
			;
		unwind_process_changed(p);
		return;
	}
}

void unwind_deregister_frame(struct unwind_process *p, const void *begin)
{
	uint32_t count = __atomic_load_n(&p->block_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		const uint8_t *expected = begin;
		if (!begin ||
		    !__atomic_compare_exchange_n(&p->block[i].begin, &expected, BLOCK_FILLING, 0,
						 __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))
			continue;
		/*
		 * The memory goes away when this returns: wait for look-ups under way. They are
		 * short; the bound is for a look-up that this very thread interrupted.
		 */
		for (unsigned spin = 0;
		     __atomic_load_n(&p->block_readers, __ATOMIC_SEQ_CST) && spin < 1u << 20;
		     spin++)
			unwind_pause();
		__atomic_store_n(&p->block[i].begin, NULL, __ATOMIC_RELEASE);
		unwind_process_changed(p);
		return;
	}
}

/*
 * In this order: a handler that jumps out between the two makes others wait for longer, never for
 * less.
 */
void unwind_read_blocks(struct unwind_thread *t)
{
	__atomic_fetch_add(&t->process->block_readers, 1, __ATOMIC_SEQ_CST);
	__atomic_store_n(&t->reading, 1, __ATOMIC_SEQ_CST);
}

void unwind_leave_blocks(struct unwind_thread *t)
{
	__atomic_store_n(&t->reading, 0, __ATOMIC_SEQ_CST);
	__atomic_fetch_sub(&t->process->block_readers, 1, __ATOMIC_SEQ_CST);
}

/* The block that describes @pc; the caller holds a reader's mark. */
static int find_block(struct unwind_process *p, uint64_t pc, struct unwind_image *image,
		      struct unwind_fde *fde)
{
	uint32_t count = __atomic_load_n(&p->block_count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		struct frame_block *b = &p->block[i];
		const uint8_t *begin = __atomic_load_n(&b->begin, __ATOMIC_SEQ_CST);
		if (!begin || begin == BLOCK_FILLING || pc < b->lo || pc >= b->hi)
			continue;
		*image = (struct unwind_image){ b->read_lo, b->read_hi, NULL, begin };
		if (unwind_cfi_find(image, pc, fde))
			return 1;
	}
	return 0;
}

/*
 * .eh_frame stands behind its header with GNU ld, before it with others: the bounds are the
 * segment's.
 */
static void module_image(const struct unwind_module *m, struct unwind_image *image)
{
	*image = (struct unwind_image){ (const uint8_t *)(uintptr_t)m->readable_lo,
					(const uint8_t *)(uintptr_t)m->readable_hi, m->eh_frame_hdr,
					NULL };
}

/*
 * The entry for @pc: by the header, or by what the file's sections tell of, which the module is
 * asked for then.
 */
static int find_in_module(struct unwind_process *p, uint64_t pc, struct unwind_module *m,
			  struct unwind_image *image, struct unwind_fde *fde)
{
	if (m->eh_frame_hdr) {
		module_image(m, image);
		if (unwind_cfi_find(image, pc, fde))
			return 1;
	}
	m->search_file = 1;
	if (p->find(p->ctx, pc, m) != UNWIND_MODULE)
		return 0;
	const struct unwind_frames *f = &m->frames;
	if (f->eh_frame && !m->eh_frame_hdr) {
		*image = (struct unwind_image){ f->eh_lo, f->eh_hi, NULL, f->eh_frame };
		if (unwind_cfi_find(image, pc, fde))
			return 1;
	}
	if (!f->debug_frame)
		return 0;
	*image = (struct unwind_image){ f->debug_frame, f->debug_frame + f->debug_bytes,
					NULL,           f->debug_frame,
					.debug = 1,     .bias = m->bias };
	return unwind_cfi_find(image, pc, fde);
}

/* A signal return stub without unwind entries (musl, hand-made ones). */
static int is_sigreturn(struct unwind_process *p, uint64_t at)
{
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)at;

	if (!p->probe || !p->probe(p->ctx, at) ||
	    !p->probe(p->ctx, at + sizeof(unwind_sigreturn) - 1))
		return 0;
	for (unsigned i = 0; i < sizeof(unwind_sigreturn); i++) {
		if (bytes[i] != unwind_sigreturn[i])
			return 0;
	}
	return 1;
}

/*
 * The recipe of code without entries, from its own bytes: where a call returns to and nothing
 * follows but the way out (assembly between languages: Go's crosscall2, whose rbp is no frame
 * pointer that anything but its own return knows of).
 */
static uint64_t code_rule(struct unwind_process *p, uint64_t ip)
{
	const uint8_t *code = (const uint8_t *)(uintptr_t)ip;
	uint32_t bytes = UNWIND_EPILOGUE_BYTES, here = (uint32_t)(4096 - ip % 4096);
	struct unwind_epilogue e;

	if (ip < 4096 || !p->probe || !p->probe(p->ctx, ip - 8) || !p->probe(p->ctx, ip))
		return WIRE_RULE_GAP;
	if (here < bytes && !p->probe(p->ctx, ip + here))
		bytes = here;
	if (!unwind_follows_call(unwind_load(ip - 8)) || unwind_epilogue(code, bytes, &e))
		return WIRE_RULE_GAP;
	return unwind_epilogue_rule(&e);
}

static uint64_t row_rule(struct unwind_thread *t, const struct unwind_image *image,
			 const struct unwind_fde *fde, uint64_t pc)
{
	if (!unwind_cfi_row(image, fde, pc, &t->work))
		return WIRE_RULE_EVAL; /* found but not understood: the full step will say so */
	return unwind_cfi_rule(fde, &t->work.row, image->hi);
}

uint64_t unwind_find_rule(struct unwind_thread *t, uint64_t ip, int *cacheable)
{
	struct unwind_process *p = t->process;
	struct unwind_module *module = &t->module;
	struct unwind_image *image = &t->image;
	struct unwind_fde *fde = &t->fde;
	uint64_t pc = ip - 1;

	*cacheable = 1;
	*module = (struct unwind_module){ 0 };
	if (__atomic_load_n(&p->block_count, __ATOMIC_ACQUIRE)) {
		uint64_t rule = 0;
		int found;
		unwind_read_blocks(t);
		found = find_block(p, pc, image, fde);
		if (found)
			rule = row_rule(t, image, fde, pc);
		unwind_leave_blocks(t);
		if (found)
			return rule;
	}
	switch (p->find ? p->find(p->ctx, pc, module) : UNWIND_NOT_CODE) {
	case UNWIND_MODULE:
		break;
	case UNWIND_CODE:
		return is_sigreturn(p, ip) ? WIRE_RULE_SIGNAL : RULE_CODE;
	default:
		*cacheable = 0;
		return RULE_NOT_CODE;
	}
	if (find_in_module(p, pc, module, image, fde))
		return row_rule(t, image, fde, pc);
	/*
	 * A return address that is the first byte of a function was put there by hand: the function
	 * is entered by return (__start_context of makecontext). Nothing called it, so it is the
	 * outermost frame.
	 */
	if (module->eh_frame_hdr) {
		module_image(module, image);
		if (unwind_cfi_find(image, ip, fde) && fde->lo == ip && !fde->signal)
			return WIRE_RULE_END;
	}
	return is_sigreturn(p, ip) ? WIRE_RULE_SIGNAL : code_rule(p, ip);
}

int unwind_find_row(struct unwind_thread *t, uint64_t ip, struct unwind_fde *fde,
		    const uint8_t **hi)
{
	struct unwind_process *p = t->process;
	struct unwind_module module = { 0 };
	struct unwind_image image;

	if (p->find && p->find(p->ctx, ip - 1, &module) == UNWIND_MODULE &&
	    find_in_module(p, ip - 1, &module, &image, fde)) {
		*hi = image.hi;
		return unwind_cfi_row(&image, fde, ip - 1, &t->work);
	}
	if (__atomic_load_n(&p->block_count, __ATOMIC_ACQUIRE)) {
		int found;
		unwind_read_blocks(t);
		found = find_block(p, ip - 1, &image, fde);
		if (found) {
			*hi = image.hi;
			found = unwind_cfi_row(&image, fde, ip - 1, &t->work);
		}
		unwind_leave_blocks(t);
		return found;
	}
	return 0;
}
