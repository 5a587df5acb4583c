/* SPDX-License-Identifier: Apache-2.0 */
/*
 * entry_x86_64.S - the exported names. Each hands the registers that the first step of a walk needs to its C function:
 * the caller's stack pointer (after the return), rbp and rbx, which C code could not get at unharmed.
 *
 * With N arguments of its own (at most three) a hook gets them as arguments N+1 .. N+3 and is jumped to, so that no
 * frame stands in between and exceptions pass as if the hook had been called directly. A hook with more arguments is
 * called, with the three words as its first stack arguments.
 */
#if defined(__CET__) && (__CET__ & 1)
#define ENTRY_MARK endbr64
#else
#define ENTRY_MARK
#endif

	.text

.macro ENTRY name
	.globl	\name
	.type	\name, @function
	.p2align 4
\name:
	.cfi_startproc
	ENTRY_MARK
.endm

.macro DONE name
	.cfi_endproc
	.size	\name, . - \name
.endm

.macro HOOK1 name, impl
	ENTRY	\name
	lea	8(%rsp), %rsi
	mov	%rbp, %rdx
	mov	%rbx, %rcx
	jmp	\impl
	DONE	\name
.endm

.macro HOOK2 name, impl
	ENTRY	\name
	lea	8(%rsp), %rdx
	mov	%rbp, %rcx
	mov	%rbx, %r8
	jmp	\impl
	DONE	\name
.endm

.macro HOOK3 name, impl
	ENTRY	\name
	lea	8(%rsp), %rcx
	mov	%rbp, %r8
	mov	%rbx, %r9
	jmp	\impl
	DONE	\name
.endm

.macro HOOK6 name, impl
	ENTRY	\name
	lea	8(%rsp), %rax
	push	%rbx
	.cfi_adjust_cfa_offset 8
	push	%rbp
	.cfi_adjust_cfa_offset 8
	push	%rax
	.cfi_adjust_cfa_offset 8
	call	\impl
	add	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	DONE	\name
.endm

	.section .text.hot, "ax", @progbits /* HOT in sys.h */

	HOOK1	malloc, hook_malloc
	HOOK1	free, hook_free
	HOOK1	cfree, hook_cfree
	HOOK2	calloc, hook_calloc
	HOOK2	realloc, hook_realloc
	HOOK3	reallocarray, hook_reallocarray
	HOOK3	posix_memalign, hook_posix_memalign
	HOOK2	memalign, hook_memalign
	HOOK2	aligned_alloc, hook_aligned_alloc
	HOOK1	valloc, hook_valloc
	HOOK1	pvalloc, hook_pvalloc
	HOOK2	free_sized, hook_free_sized
	HOOK3	free_aligned_sized, hook_free_aligned_sized

	HOOK1	_Znwm, hook_new
	HOOK2	_ZnwmRKSt9nothrow_t, hook_new_nt
	HOOK2	_ZnwmSt11align_val_t, hook_new_al
	HOOK3	_ZnwmSt11align_val_tRKSt9nothrow_t, hook_new_al_nt
	HOOK1	_Znam, hook_newa
	HOOK2	_ZnamRKSt9nothrow_t, hook_newa_nt
	HOOK2	_ZnamSt11align_val_t, hook_newa_al
	HOOK3	_ZnamSt11align_val_tRKSt9nothrow_t, hook_newa_al_nt

	HOOK1	_ZdlPv, hook_del
	HOOK2	_ZdlPvm, hook_del_sz
	HOOK2	_ZdlPvRKSt9nothrow_t, hook_del_nt
	HOOK2	_ZdlPvSt11align_val_t, hook_del_al
	HOOK3	_ZdlPvmSt11align_val_t, hook_del_sz_al
	HOOK3	_ZdlPvSt11align_val_tRKSt9nothrow_t, hook_del_al_nt
	HOOK1	_ZdaPv, hook_dela
	HOOK2	_ZdaPvm, hook_dela_sz
	HOOK2	_ZdaPvRKSt9nothrow_t, hook_dela_nt
	HOOK2	_ZdaPvSt11align_val_t, hook_dela_al
	HOOK3	_ZdaPvmSt11align_val_t, hook_dela_sz_al
	HOOK3	_ZdaPvSt11align_val_tRKSt9nothrow_t, hook_dela_al_nt

	HOOK6	mmap, hook_mmap
	HOOK6	mmap64, hook_mmap
	HOOK2	munmap, hook_munmap
	HOOK6	mremap, hook_mremap
	HOOK1	brk, hook_brk
	HOOK1	sbrk, hook_sbrk

	.text

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
	.text

/*
 * dlopen() is jumped through, so that the loader sees who calls; only RTLD_DEEPBIND makes a difference to us.
 */
	ENTRY	dlopen
	test	$8, %sil		/* RTLD_DEEPBIND */
	jne	1f
	mov	next_dlopen(%rip), %r11
	test	%r11, %r11
	je	1f
	jmp	*%r11
1:	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	mov	%esi, %edi
	call	note_dlopen
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	mov	next_dlopen(%rip), %r11
	test	%r11, %r11
	je	2f
	jmp	*%r11
2:	xor	%eax, %eax		/* a process without a loader to call */
	ret
	DONE	dlopen

/*
 * Where an executable's first instructions lead, with all objects constructed but itself.
 */
	ENTRY	__libc_start_main
	.irp	reg, rdi, rsi, rdx, rcx, r8, r9, rbp
	push	%\reg
	.cfi_adjust_cfa_offset 8
	.endr
	call	begin_main
	.irp	reg, rbp, r9, r8, rcx, rdx, rsi, rdi
	pop	%\reg
	.cfi_adjust_cfa_offset -8
	.endr
	jmp	*next_start_main(%rip)
	DONE	__libc_start_main

/*
 * syscall() is jumped through, whatever its arguments are; only the numbers that change what a hook may do are looked at.
 */
	ENTRY	syscall
	cmp	$317, %rdi		/* seccomp */
	je	1f
	cmp	$231, %rdi		/* exit_group */
	je	1f
	cmp	$157, %rdi		/* prctl */
	je	1f
	cmp	$59, %rdi		/* execve */
	je	1f
	cmp	$322, %rdi		/* execveat */
	je	1f
	lea	-9(%rdi), %r11		/* mmap, mprotect, munmap */
	cmp	$2, %r11
	jbe	1f
	cmp	$25, %rdi		/* mremap */
	je	1f
	cmp	$28, %rdi		/* madvise */
	je	1f
	cmp	$30, %rdi		/* shmat */
	je	1f
	cmp	$67, %rdi		/* shmdt */
	je	1f
	cmp	$216, %rdi		/* remap_file_pages */
	je	1f
	cmp	$329, %rdi		/* pkey_mprotect */
	je	1f
	cmp	$440, %rdi		/* process_madvise */
	je	1f
0:	mov	next_syscall(%rip), %r11
	test	%r11, %r11
	je	2f
	jmp	*%r11
1:	push	%rdi
	.cfi_adjust_cfa_offset 8
	push	%rsi
	.cfi_adjust_cfa_offset 8
	push	%rdx
	.cfi_adjust_cfa_offset 8
	push	%rcx
	.cfi_adjust_cfa_offset 8
	push	%r8
	.cfi_adjust_cfa_offset 8
	push	%r9
	.cfi_adjust_cfa_offset 8
	sub	$8, %rsp
	.cfi_adjust_cfa_offset 8
	call	note_syscall
	add	$8, %rsp
	.cfi_adjust_cfa_offset -8
	pop	%r9
	.cfi_adjust_cfa_offset -8
	pop	%r8
	.cfi_adjust_cfa_offset -8
	pop	%rcx
	.cfi_adjust_cfa_offset -8
	pop	%rdx
	.cfi_adjust_cfa_offset -8
	pop	%rsi
	.cfi_adjust_cfa_offset -8
	pop	%rdi
	.cfi_adjust_cfa_offset -8
	jmp	0b
2:	/* nothing is resolved yet, and an allocator that starts must not wait for that: as the C library does it */
	mov	%rdi, %rax
	mov	%rsi, %rdi
	mov	%rdx, %rsi
	mov	%rcx, %rdx
	mov	%r8, %r10
	mov	%r9, %r8
	mov	8(%rsp), %r9
	syscall
	cmp	$-4095, %rax
	jae	4f
	ret
4:	mov	%rax, %rdi
	jmp	fail_syscall
	DONE	syscall

	.section .note.GNU-stack, "", @progbits
