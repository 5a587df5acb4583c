/* SPDX-License-Identifier: Apache-2.0 */
/* own_entry_x86_64.S - between the stubs of hooked functions and the hooks of own_hooks.c. */
	.text

.macro DONE name
	.cfi_endproc
	.size	\name, . - \name
.endm

/*
 * Where the stubs of own.c jump to, with a word on the stack that says which function it is. Compilers that see a function
 * and its callers at once break the calling convention: values stay over the call in whatever registers the function does
 * not touch (even the one of its result, if it has none), and the stack is aligned as far as the function needs. So the
 * registers are what they were when this returns (of wider ones the lower half: nothing here but the C library's memcpy()
 * uses those), and the stack is aligned anew. An exception may pass: the frame's personality leaves the hook.
 *
 * Who returns into this library has jumped from one of the allocator's functions to another, or back to the beginning of the
 * same one: that call is counted already, or is not to be. Without a frame, for it may be a loop.
 */
#define KEPT 32				/* behind the hook's arguments on the stack */
#define FRAME (KEPT + 8 * 8 + 16 * 16)

.macro OWN name, impl
	.p2align 4
	.type	\name, @function
\name:
	.cfi_startproc
	.cfi_personality 0x1b, own_personality	/* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
	.cfi_adjust_cfa_offset 8
	push	%rax
	.cfi_adjust_cfa_offset 8
	mov	16(%rsp), %rax
	cmp	own_code(%rip), %rax
	jb	1f
	cmp	8+own_code(%rip), %rax
	jb	own_jumped
1:	mov	8(%rsp), %rax		/* the word: in its place a frame as all have it */
	mov	%rbp, 8(%rsp)
	.cfi_rel_offset %rbp, 8
	lea	8(%rsp), %rbp
	.cfi_def_cfa %rbp, 16
	sub	$FRAME, %rsp
	and	$-16, %rsp
	.set	at, KEPT
	.irp	reg, rcx, rdx, rsi, rdi, r8, r9, r10, r11
	mov	%\reg, at(%rsp)
	.set	at, at + 8
	.endr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	%xmm\n, at(%rsp)
	.set	at, at + 16
	.endr
	mov	%rax, %r8
	lea	16(%rbp), %r9
	mov	(%rbp), %r10
	mov	-8(%rbp), %r11
	mov	%r10, (%rsp)
	mov	%rbx, 8(%rsp)
	mov	%r11, 16(%rsp)
	call	\impl
	.set	at, KEPT
	.irp	reg, rcx, rdx, rsi, rdi, r8, r9, r10, r11
	mov	at(%rsp), %\reg
	.set	at, at + 8
	.endr
	.irp	n, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
	movups	at(%rsp), %xmm\n
	.set	at, at + 16
	.endr
	mov	%rbp, %rsp
	pop	%rbp
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret
	DONE	\name
.endm

	.type	own_jumped, @function
own_jumped:
	.cfi_startproc
	.cfi_def_cfa_offset 24
	mov	8(%rsp), %rax
	mov	(%rax), %rax		/* struct own_call, next */
	mov	%rax, 8(%rsp)
	pop	%rax
	.cfi_adjust_cfa_offset -8
	lea	8(%rsp), %rsp
	.cfi_adjust_cfa_offset -8
	jmp	*-8(%rsp)
	DONE	own_jumped

	OWN	entry_obtain, own_obtain
	OWN	entry_obtain_text, own_obtain_text
	OWN	entry_obtain_to, own_obtain_to
	OWN	entry_release, own_release
	OWN	entry_resize, own_resize
	OWN	entry_resize_in_place, own_resize_in_place

/* own_next_release(a, b, c, d, own, ax): with what stood in rax, which is what stands there afterwards if nothing is returned. */
	.p2align 4
	.globl	own_next_release
	.hidden	own_next_release
	.type	own_next_release, @function
own_next_release:
	.cfi_startproc
	mov	%r9, %rax
	jmp	*(%r8)			/* struct own_call, next */
	DONE	own_next_release

	.section .data.rel.ro, "aw"
	.globl	own_entries
	.hidden	own_entries
	.p2align 3
	.type	own_entries, @object
own_entries:	/* in the order of enum own_kind */
	.quad	entry_obtain, entry_obtain_text, entry_obtain_to, entry_release, entry_resize, entry_resize
	.quad	entry_resize_in_place
	.size	own_entries, . - own_entries

	.section .note.GNU-stack, "", @progbits
