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
