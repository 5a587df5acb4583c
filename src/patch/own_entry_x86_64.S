/* SPDX-License-Identifier: Apache-2.0 */
/* own_entry_x86_64.S - between the stubs of hooked functions and the hooks of own_hooks.c. */
#if defined(__CET__) && (__CET__ & 1)
#define ENTRY_MARK endbr64
#else
#define ENTRY_MARK
#endif

	.text

.macro DONE name
	.cfi_endproc
	.size	\name, . - \name
.endm

/*
 * Where the stubs of own.c jump to, with the function's struct own_call in rax, and what stood there on the stack.
 *
 * A call from another object keeps to the calling convention, as one of a function that the loader leads to us does: a frame,
 * so that who looks along the frame pointers finds the caller, and the hook's arguments. Within the object compilers that see
 * a function and its callers at once break the convention: values stay over the call in whatever registers the function does
 * not touch (even the one of its result, if it has none), and the stack is aligned as far as the function needs. There the
 * registers are what they were when this returns (of wider ones the lower half: nothing here but the C library's memcpy()
 * uses those), and the stack is aligned anew. An exception may pass: the frame's personality leaves the hook.
 *
 * Who returns into this library has jumped from one of the allocator's functions to another, or back to the beginning of the
 * same one: that call is counted already, or is not to be. Without a frame, for it may be a loop.
 */
#define KEPT 32				/* behind the hook's arguments on the stack */
#define FRAME (KEPT + 8 * 8 + 16 * 16)

/* struct own_call */
#define NEXT 0
#define OBJECT_LO 8
#define OBJECT_BYTES 16

.macro OWN name, impl
	.p2align 4
	.type	\name, @function
\name:
	.cfi_startproc
	.cfi_personality 0x1b, own_personality	/* DW_EH_PE_pcrel | DW_EH_PE_sdata4 */
	.cfi_adjust_cfa_offset 8
	push	%r11
	.cfi_adjust_cfa_offset 8
	mov	16(%rsp), %r11		/* where it returns to */
	cmp	own_code(%rip), %r11
	jb	1f
	cmp	8+own_code(%rip), %r11
	jb	own_jumped
1:	sub	OBJECT_LO(%rax), %r11
	cmp	OBJECT_BYTES(%rax), %r11
	jb	2f
	mov	8(%rsp), %r11
	mov	%rbp, 8(%rsp)
	.cfi_rel_offset %rbp, 8
	lea	8(%rsp), %rbp
	.cfi_remember_state
	.cfi_def_cfa %rbp, 16
	push	%r11			/* below the word of r11, so that the stack is aligned */
	push	%rbx
	push	(%rbp)
	mov	%rax, %r8
	lea	16(%rbp), %r9
	call	\impl
	leave
	.cfi_def_cfa %rsp, 8
	.cfi_restore %rbp
	ret

	.cfi_restore_state
	.cfi_restore %rbp
2:	mov	(%rsp), %r11
	push	%rcx
	.cfi_adjust_cfa_offset 8
	mov	16(%rsp), %rcx
	mov	%rcx, 8(%rsp)		/* rax, below a frame as all have it */
	pop	%rcx
	.cfi_adjust_cfa_offset -8
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
	mov	NEXT(%rax), %r11
	mov	8(%rsp), %rax
	mov	%r11, 8(%rsp)
	pop	%r11
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

/*
 * The stubs of led.c, as own.c writes them where heads move: the function's struct own_call in rax, and what stood there on
 * the stack.
 */
#define LED_MAX 192
#define LED_CALL 40
#define ENTRY 24

	.p2align 4
	.globl	own_led_stubs
	.hidden	own_led_stubs
	.type	own_led_stubs, @function
own_led_stubs:
	.cfi_startproc
	.set	n, 0
	.rept	LED_MAX
	.p2align 4
	ENTRY_MARK
	push	%rax
	.cfi_adjust_cfa_offset 8
	lea	own_led+n*LED_CALL(%rip), %rax
	jmp	*ENTRY(%rax)
	.cfi_adjust_cfa_offset -8
	.set	n, n + 1
	.endr
	.org	own_led_stubs + LED_MAX * 16	/* no stub is longer */
	DONE	own_led_stubs

/* own_next_release(a, b, c, d, own, ax): with what stood in rax, which is what stands there afterwards if nothing is returned. */
	.p2align 4
	.globl	own_next_release
	.hidden	own_next_release
	.type	own_next_release, @function
own_next_release:
	.cfi_startproc
	mov	%r9, %rax
	jmp	*NEXT(%r8)
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
