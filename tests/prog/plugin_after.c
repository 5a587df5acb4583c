/* SPDX-License-Identifier: Apache-2.0 */
/* A function whose frame only its unwind entry tells of, and the address to which what it calls returns. */
__asm__(".text\n"
	".globl plugin_take, plugin_after\n"
	".type plugin_take, @function\n"
	"plugin_take:\n"
	".cfi_startproc\n"
	"	sub $24, %rsp\n"
	".cfi_adjust_cfa_offset 24\n"
	"	call malloc@PLT\n"
	"plugin_after:\n"
	"	add $24, %rsp\n"
	".cfi_adjust_cfa_offset -24\n"
	"	ret\n"
	".cfi_endproc\n"
	".size plugin_take, . - plugin_take\n"
	".section .note.GNU-stack, \"\", @progbits\n"
	".text\n");
