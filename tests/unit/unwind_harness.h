/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unwind_harness.h - the stepper inside a test program, without the preload library: shared memory from calloc, modules
 * by dl_iterate_phdr, capture of the caller's stack.
 */
#ifndef UNWIND_HARNESS_H
#define UNWIND_HARNESS_H

#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unwind/capture.h"
#include "wire/heap_layout.h"

struct harness {
	struct wire_heap_header *heap;
	struct unwind_process *process;
};

struct harness_search {
	uint64_t pc;
	struct unwind_module *module;
	int found;
};

static inline int harness_phdr(struct dl_phdr_info *info, size_t size, void *data)
{
	struct harness_search *s = data;
	uint64_t lo = UINT64_MAX, hi = 0, hdr = 0, hdr_bytes = 0;
	int inside = 0;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD) {
			lo = at < lo ? at : lo;
			hi = at + p->p_memsz > hi ? at + p->p_memsz : hi;
			inside |= (p->p_flags & PF_X) && s->pc >= at && s->pc < at + p->p_memsz;
		} else if (p->p_type == PT_GNU_EH_FRAME) {
			hdr = at;
			hdr_bytes = p->p_memsz;
		}
	}
	if (!inside)
		return 0;
	s->found = 1;
	s->module->bias = info->dlpi_addr;
	s->module->lo = lo;
	s->module->hi = hi;
	s->module->eh_frame_hdr = (const uint8_t *)(uintptr_t)hdr;
	s->module->eh_frame_hdr_bytes = hdr_bytes;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		uint64_t at = info->dlpi_addr + p->p_vaddr;
		if (p->p_type == PT_LOAD && hdr >= at && hdr < at + p->p_filesz) {
			s->module->readable_lo = at;
			s->module->readable_hi = at + p->p_filesz;
		}
	}
	return 1;
}

static inline int harness_find(void *ctx, uint64_t pc, struct unwind_module *module)
{
	struct harness_search s = { pc, module, 0 };
	(void)ctx;
	dl_iterate_phdr(harness_phdr, &s);
	return s.found ? UNWIND_MODULE : UNWIND_NOT_CODE;
}

static inline int harness_probe(void *ctx, uint64_t addr)
{
	int saved = errno;
	(void)ctx;
	long rc = syscall(SYS_rt_sigprocmask, -1, addr & ~4095ull, 0, 8);
	int ok = !(rc < 0 && errno == EFAULT);
	errno = saved;
	return ok;
}

static inline void harness_init(struct harness *h)
{
	struct wire_heap_header layout = { 0 };
	wire_heap_layout(&layout, 64u << 20);
	h->heap = mmap(NULL, layout.total_bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (h->heap == MAP_FAILED)
		abort();
	memcpy(h->heap, &layout, sizeof(layout));
	wire_heap_layout_slots(h->heap);
	void *memory = mmap(NULL, unwind_process_bytes(), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	h->process = unwind_process_init(memory, h->heap, harness_find, harness_probe, NULL);
}

static inline struct unwind_thread *harness_thread(struct harness *h, uint32_t slot)
{
	const struct wire_heap_slot *s = (const void *)((const char *)h->heap + h->heap->slots_off);
	pthread_attr_t attr;
	void *lo;
	size_t bytes;
	pthread_getattr_np(pthread_self(), &attr);
	pthread_attr_getstack(&attr, &lo, &bytes);
	pthread_attr_destroy(&attr);
	return unwind_thread_init((char *)h->heap + s[slot].scratch_off, s[slot].scratch_bytes,
				  h->process, (uint64_t)(uintptr_t)lo,
				  (uint64_t)(uintptr_t)lo + bytes);
}

/* Innermost first; returns the number of frames, *root the enum wire_stop they hang below. */
static inline uint32_t harness_frames(const struct harness *h, uint32_t node, uint64_t *ip,
				      uint32_t max, uint32_t *root)
{
	const struct wire_node *nodes = (const void *)((const char *)h->heap + h->heap->nodes_off);
	uint32_t n = 0;
	for (; node >= WIRE_STOP_MAX; node = nodes[node].parent) {
		if (n < max)
			ip[n] = nodes[node].pc;
		n++;
	}
	*root = node;
	return n;
}

/*
 * capture_here(thread) - the stack of whoever calls it, from its return address on; rbp and rbx as they are there.
 */
uint32_t capture_here(struct unwind_thread *thread);
__asm__(".text\n"
	".globl capture_here\n"
	".type capture_here, @function\n"
	"capture_here:\n"
	"	.cfi_startproc\n"
	"	mov (%rsp), %rax\n"
	"	lea 8(%rsp), %rdx\n"
	"	sub $40, %rsp\n"
	"	.cfi_adjust_cfa_offset 40\n"
	"	mov %rax, (%rsp)\n"
	"	mov %rdx, 8(%rsp)\n"
	"	mov %rbp, 16(%rsp)\n"
	"	mov %rbx, 24(%rsp)\n"
	"	mov %rsp, %rsi\n"
	"	call unwind_capture\n"
	"	add $40, %rsp\n"
	"	.cfi_adjust_cfa_offset -40\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size capture_here, .-capture_here\n");

#endif
