/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of functions: how long instructions are, which heads move, and that they do the same elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "patch/patch.h"

#define PAGE 4096

/* "48 89 f8": the bytes behind one another. */
static unsigned from_hex(const char *text, uint8_t *out)
{
	unsigned bytes = 0;
	for (char *end; *text; text = end) {
		out[bytes++] = (uint8_t)strtoul(text, &end, 16);
		assert_true(bytes < 128 && end != text);
	}
	return bytes;
}

/* Each is one instruction as objdump 2.40 and the manual cut it: what follows in memory may look like more of it. */
static const char *const encodings[] = {
	"f3 0f 1e fa", /* endbr64 */
	"66 66 2e 0f 1f 84 00 00 00 00 00",
	"66 66 66 66 66 66 2e 0f 1f 84 00 00 00 00 00", /* fifteen */
	"f3 c3",
	"f2 e9 10 00 00 00",
	"3e ff e0",                /* notrack jmp */
	"66 66 48 e8 10 00 00 00", /* the call of __tls_get_addr */
	"66 48 ff 15 10 00 00 00",
	"67 e8 10 00 00 00", /* what a linker makes of a call through the table */
	"48 b8 88 77 66 55 44 33 22 11",
	"66 b8 34 12",
	"b8 78 56 34 12",
	"48 c7 c0 78 56 34 12",
	"66 c7 00 34 12",
	"66 48 c7 00 78 56 34 12", /* REX.W beats the prefix */
	"48 a1 88 77 66 55 44 33 22 11",
	"67 a0 44 33 22 11",
	"c8 10 00 01", /* enter */
	"c2 08 00",
	"f6 c1 07",
	"f6 05 10 00 00 00 07", /* RIP-relative with an immediate behind */
	"f6 d1",
	"f7 c1 78 56 34 12",
	"66 f7 c1 34 12",
	"f7 d9",
	"48 83 3d 10 00 00 00 07",
	"48 81 3d 10 00 00 00 78 56 34 12",
	"48 69 05 10 00 00 00 78 56 34 12",
	"48 8b 04 25 10 00 00 00", /* neither base nor index */
	"64 48 8b 04 25 28 00 00 00",
	"48 8b 04 05 10 00 00 00", /* r/m 4 with base 5: no base */
	"48 8b 44 05 10",          /* with base rbp */
	"4a 8b 04 a5 10 00 00 00",
	"8b 84 24 10 00 00 00",
	"41 8b 45 00", /* r13 */
	"43 8b 44 25 00",
	"68 78 56 34 12",
	"66 68 34 12",
	"6a 05",
	"63 c1",
	"8f 00", /* pop (%rax) */
	"8f 44 24 08",
	"c6 f8 05",          /* xabort */
	"c7 f8 10 00 00 00", /* xbegin */
	"cd 80",
	"e3 05",
	"67 e3 05",
	"9b",
	"d9 7c 24 02",
	"db 2d 10 00 00 00",
	"f0 48 0f b1 0d 10 00 00 00",
	"f3 48 0f b8 c1", /* popcnt */
	"0f ba e0 05",
	"0f a4 c1 05",
	"0f ae 05 10 00 00 00",
	"0f ae f0",
	"0f 01 f9", /* rdtscp */
	"0f 01 15 10 00 00 00",
	"0f 22 d8", /* mov %rax,%cr3 */
	"0f 22 00", /* the same: no memory here, whatever the field says */
	"0f 05",
	"0f 0b",
	"67 0f b9 40 02", /* ud1, as clang's sanitizers write it */
	"0f c8",
	"0f 84 10 00 00 00",
	"0f 70 c1 05",
	"66 0f 73 f9 05",
	"0f c2 05 10 00 00 00 05",
	"0f 18 0d 10 00 00 00",
	"66 0f 38 00 05 10 00 00 00",
	"f2 48 0f 38 f1 c1", /* crc32 */
	"0f 38 f1 00",       /* movbe */
	"66 0f 3a 0f c1 05",
	"66 0f 3a 0f 05 10 00 00 00 05",
	"f3 0f 3a f0 c0 05", /* hreset */
	"c5 f8 77",          /* vzeroupper has no ModRM */
	"c5 f8 28 c1",
	"c5 f8 28 05 10 00 00 00",
	"c5 f1 73 f9 05",
	"c5 f9 70 05 10 00 00 00 05",
	"c5 f8 ae 15 10 00 00 00",
	"c4 e2 79 18 05 10 00 00 00",
	"c4 e2 f9 92 04 0d 10 00 00 00", /* a vector as index */
	"c4 e3 79 0f c1 05",
	"c4 e3 fb f0 c1 05", /* rorx */
	"c4 e3 79 df 05 10 00 00 00 05",
	"c4 e3 f9 68 c1 20", /* a register in the immediate */
	"c4 e1 79 6e c1",
	"64 c5 f8 28 00",
	"67 c5 f8 28 00",
	"62 f1 7c 48 28 c1",
	"62 f1 7c 48 28 05 10 00 00 00",
	"62 f1 7c 48 28 40 01", /* a displacement of one byte that counts vectors */
	"62 f1 7d 48 72 f1 05",
	"62 f1 7c 48 c2 c1 05",
	"62 f2 7d 48 92 04 0d 10 00 00 00",
	"62 f3 7d 48 25 c1 05",
	"62 f3 7d 48 25 05 10 00 00 00 05",
	"62 f1 7e 08 7b c1", /* vcvtusi2ss: its opcode is free without EVEX */
	"62 f5 7c 48 58 c1",
	"62 f6 7d 48 98 05 10 00 00 00",
};

static void lengths_are_those_of_the_manual(void **state)
{
	(void)state;
	static const uint8_t behind[] = { 0x00, 0x05, 0x24, 0x90, 0xff };
	for (size_t i = 0; i < sizeof(encodings) / sizeof(encodings[0]); i++) {
		uint8_t code[128];
		unsigned bytes = from_hex(encodings[i], code);
		for (size_t j = 0; j < sizeof(behind); j++) {
			memset(code + bytes, behind[j], 32);
			if (patch_length(code, bytes + 32) != bytes)
				fail_msg("%s: %u instead of %u", encodings[i],
					 patch_length(code, bytes + 32), bytes);
		}
		/* a heap copy of just what may be read: a sanitizer sees one byte more */
		uint8_t *cut = malloc(bytes);
		assert_non_null(cut);
		memcpy(cut, code, bytes);
		assert_int_equal(patch_length(cut, bytes), bytes);
		uint8_t *shorter = realloc(cut, bytes - 1 ? bytes - 1 : 1);
		assert_non_null(shorter);
		if (patch_length(shorter, bytes - 1) == bytes)
			fail_msg("%s: cut by a byte it is still whole", encodings[i]);
		free(shorter);
	}
}

static void what_is_no_instruction_is_unknown(void **state)
{
	(void)state;
	static const char *const unknown[] = {
		"",
		"06",
		"27",
		"60",
		"82 c0 05",
		"9a 10 00 00 00 33 00", /* a far call, gone with 64 bits */
		"ce",
		"d4 0a",
		"d6",
		"ea 10 00 00 00 33 00",
		"8d c0",             /* the address of a register */
		"8f e8 78 c0 c1 05", /* XOP */
		"c6 c8 05",
		"fe d0",
		"ff f8",
		"ff d8", /* a far call through a register */
		"0f 04",
		"0f 0a",
		"0f 0f c1 0d", /* 3DNow! */
		"0f 24 c0",
		"0f 39",
		"0f 7a c0",
		"0f b8 c1",
		"0f ba c0 05",
		"66 0f 78 c0 04 05", /* extrq */
		"66 e9 10 00 00 00", /* two processors, two lengths */
		"66 0f 84 10 00 00 00",
		"66 eb 05",
		"48 66 89 c1", /* a REX prefix without effect */
		"48 48 89 c1",
		"66 c5 f8 28 c1",
		"48 c5 f8 28 c1",
		"f0 c5 f8 28 c1",
		"c5 f8 04 c1",
		"c4 e0 79 28 c1",
		"c4 e4 79 28 c1",
		"62 f1 78 48 28 c1", /* a bit that must be set */
		"62 f9 7c 48 28 c1", /* and one that must not: APX */
		"62 f4 7c 08 01 c1",
		"62 f1 7c 48 77",
		"66 66 66 66 66 66 66 66 66 66 66 66 66 66 66 90", /* sixteen */
		"66 66 66 66 66 66 66 66 66 66 66 66 66 66 89 c1", /* the same, seen later */
		"f3 f3 f3 f3 f3 f3 f3 f3 f3 f3 f3 f3 f3 f3 f3",
		"48",
		"66",
		"0f",
		"0f 38",
		"c5",
		"62 f1",
	};
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		uint8_t code[128];
		unsigned bytes = from_hex(unknown[i], code);
		if (patch_length(code, bytes))
			fail_msg("%s: %u", unknown[i], patch_length(code, bytes));
	}
}

/* ---- heads that move: functions of their own, beside what was moved ---- */

typedef long (*function)(long, long);
struct moving {
	const char *name;
	function code;
	const char *end;
	unsigned head;
};

#define FUNCTION(name, text)                                                                 \
	__asm__(".text\n.balign 16\n.globl patched_" #name ", patched_" #name                \
		"_end\n.type patched_" #name ", @function\npatched_" #name ":\n" text        \
		"\npatched_" #name "_end:\n.size patched_" #name ", .-patched_" #name "\n"); \
	extern long patched_##name(long, long);                                              \
	extern const char patched_##name##_end[]

long patch_word;
void *patch_pointer;

FUNCTION(load, "mov patch_word(%rip), %rax\n add %rdi, %rax\n ret");
FUNCTION(store, "mov %rdi, patch_word(%rip)\n mov %rsi, %rax\n ret");
FUNCTION(address, "lea patch_word(%rip), %rax\n ret");
FUNCTION(store_immediate, "movl $0x12345678, patch_word(%rip)\n mov patch_word(%rip), %eax\n ret");
FUNCTION(compare_immediate, "cmpb $7, patch_word(%rip)\n sete %al\n movzbl %al, %eax\n ret");
FUNCTION(vector, "vmovq patch_word(%rip), %xmm0\n vmovq %xmm0, %rax\n ret");
FUNCTION(short_condition, "test %edi, %edi\n .byte 0x74, 1f - . - 1\n lea 1(%rdi), %rax\n ret\n"
			  "1: mov $-7, %rax\n ret");
FUNCTION(near_condition, "test %edi, %edi\n .byte 0x0f, 0x85\n .long 1f - . - 4\n mov %rsi, %rax\n"
			 "ret\n 1: mov $-7, %rax\n ret");
FUNCTION(short_jump, ".byte 0xeb, 1f - . - 1, 0xcc, 0xcc, 0xcc\n ud2\n 1: lea (%rdi, %rsi), %rax\n"
		     "ret");
FUNCTION(near_jump, ".byte 0xe9\n .long 1f - . - 4\n ud2\n 1: lea (%rdi, %rsi), %rax\n ret");
FUNCTION(jump_away, ".byte 0xe9\n .long patched_pushes - . - 4");
FUNCTION(landing, "endbr64\n mov %rdi, %rax\n add %rsi, %rax\n ret");
FUNCTION(pushes, "push %rbp\n push %r15\n push %rbx\n mov %rdi, %rbx\n lea (%rbx, %rsi, 2), %rax\n"
		 "pop %rbx\n pop %r15\n pop %rbp\n ret");
FUNCTION(frame,
	 "sub $0x1000, %rsp\n mov %rdi, 8(%rsp)\n mov 8(%rsp), %rax\n add $0x1000, %rsp\n ret");
FUNCTION(wide, "movabs $0x1122334455667788, %rax\n xor %rdi, %rax\n ret");
FUNCTION(returns_early, "mov %rdi, %rax\n ret\n nop");
FUNCTION(loops, "1: add %rdi, %rax\n dec %rsi\n jg 1b\n ret");
FUNCTION(data_behind,
	 "mov %rdi, %rax\n neg %rax\n jz 1f\n inc %rax\n 1: ret\n .byte 6, 0x0f, 4, 0x62");
/* what is called tells whither it returns: into the function, wherever the call stands */
FUNCTION(return_address, "mov (%rsp), %rax\n ret");
FUNCTION(calls, "push %rbx\n call patched_return_address\n pop %rbx\n ret");
FUNCTION(calls_through, "push %rbx\n call *patch_pointer(%rip)\n pop %rbx\n ret");
FUNCTION(calls_register, "mov %rdi, %rax\n call *%rax\n ret");
FUNCTION(calls_memory, "push %rbx\n mov %rdi, %rbx\n call *(%rbx)\n pop %rbx\n ret");

#define MOVING(name, head)                                        \
	{                                                         \
#name, patched_##name, patched_##name##_end, head \
	}
static const struct moving moving[] = {
	MOVING(load, 7),
	MOVING(store, 7),
	MOVING(address, 7),
	MOVING(store_immediate, 10),
	MOVING(compare_immediate, 7),
	MOVING(short_condition, 8),
	MOVING(near_condition, 8),
	MOVING(short_jump, 5),
	MOVING(near_jump, 5),
	MOVING(jump_away, 5),
	MOVING(landing, 7),
	MOVING(pushes, 7),
	MOVING(frame, 7),
	MOVING(wide, 10),
	MOVING(returns_early, 5),
	MOVING(loops, 6),
	MOVING(data_behind, 6),
	MOVING(calls, 6),
	MOVING(calls_through, 7),
};

/* In reach of the functions, unlike what mmap() would give. */
static uint8_t room[4 * PAGE] __attribute__((aligned(PAGE)));

static uint8_t *open_room(void)
{
	assert_int_equal(mprotect(room, sizeof(room), PROT_READ | PROT_WRITE | PROT_EXEC), 0);
	memset(room, 0xcc, sizeof(room));
	return room;
}

static function as_function(const void *code)
{
	function out;
	memcpy(&out, &code, sizeof(out));
	return out;
}

static const uint8_t *as_bytes(function code)
{
	const uint8_t *out;
	memcpy(&out, &code, sizeof(out));
	return out;
}

static unsigned bytes_of(const struct moving *one)
{
	return (unsigned)((const uint8_t *)one->end - as_bytes(one->code));
}

/* rax is the functions' own to begin with for one that loops to its start */
static long call_with(function code, long a, long b)
{
	long out = 100;
	__asm__ volatile("sub $128, %%rsp\n call *%[code]\n add $128, %%rsp"
			 : "+a"(out), "+D"(a), "+S"(b)
			 : [code] "r"(code)
			 : "rcx", "rdx", "r8", "r9", "r10", "r11", "xmm0", "memory", "cc");
	return out;
}

static void moved_heads_do_the_same(void **state)
{
	(void)state;
	static const long words[] = { 0, 7, -3, 0x7fffffff };
	uint8_t *to = open_room() + 3; /* at no address that is round */
	for (size_t i = 0; i < sizeof(moving) / sizeof(moving[0]); i++) {
		const struct moving *one = &moving[i];
		unsigned head = patch_head(as_bytes(one->code), bytes_of(one));
		if (head != one->head)
			fail_msg("%s: %u bytes instead of %u", one->name, head, one->head);
		unsigned bytes = patch_move(to, as_bytes(one->code), head);
		assert_true(bytes >= head && bytes <= PATCH_MOVED_MAX);
		assert_int_equal(to[bytes], 0xcc);
		for (size_t j = 0; j < sizeof(words) / sizeof(words[0]); j++) {
			long a = words[j], b = words[(j + 1) % 4];
			patch_pointer = (void *)(uintptr_t)patched_return_address;
			patch_word = words[j];
			long expected = call_with(one->code, a, b), word = patch_word;
			patch_word = words[j];
			long got = call_with(as_function(to), a, b);
			if (got != expected || patch_word != word)
				fail_msg(
					"%s(%ld, %ld): %ld instead of %ld, word %ld instead of %ld",
					one->name, a, b, got, expected, patch_word, word);
		}
		to += bytes;
	}
}

static void a_vector_prefix_does_not_hide_an_operand(void **state)
{
	(void)state;
	if (!__builtin_cpu_supports("avx"))
		skip();
	uint8_t *to = open_room();
	const uint8_t *code = as_bytes(patched_vector);
	unsigned head = patch_head(code, (unsigned)((const uint8_t *)patched_vector_end - code));
	assert_int_equal(head, 8);
	assert_true(patch_move(to, code, head) > 0);
	patch_word = 0x123456789abcdef;
	assert_int_equal(call_with(as_function(to), 0, 0), 0x123456789abcdef);
}

static void check_call(function code, const char *end, long pointer, unsigned head)
{
	uint8_t *to = open_room();
	assert_int_equal(
		patch_head(as_bytes(code), (unsigned)((const uint8_t *)end - as_bytes(code))),
		head);
	assert_true(patch_move(to, as_bytes(code), head) > head);
	assert_int_equal(call_with(code, pointer, 0), (long)as_bytes(code) + head);
	assert_int_equal(call_with(as_function(to), pointer, 0), (long)as_bytes(code) + head);
}

static void a_moved_call_through_an_argument_returns_into_the_function(void **state)
{
	(void)state;
	patch_pointer = (void *)(uintptr_t)patched_return_address;
	check_call(patched_calls_register, patched_calls_register_end, (long)patch_pointer, 5);
	check_call(patched_calls_memory, patched_calls_memory_end, (long)&patch_pointer, 6);
}

/* ---- heads that stay ---- */

struct staying {
	const char *why, *code;
	/* 0: it stays; otherwise what differs from the line before is harmless */
	unsigned head;
};
static const struct staying staying[] = {
	{ "nothing", "", 0 },
	{ "too short", "31 c0 c3", 0 },
	{ "too short with padding", "31 c0 c3 90", 0 },
	{ "with enough padding", "31 c0 c3 66 90", 5 },
	{ "breakpoints as padding", "c3 cc cc cc cc", 5 },
	{ "a long nop as padding", "c3 66 2e 0f 1f 84 00 00 00 00 00", 11 },
	{ "other code behind the end", "c3 31 c0 90 90 c3", 0 },
	{ "other code behind a jump", "eb 02 31 c0 c3", 0 },
	{ "the last instruction is cut", "31 c0 48 89", 0 },
	{ "cut behind five bytes", "31 c0 48 c7 c0 01 00 00", 0 },
	{ "a call in the midst", "ff d0 48 89 c3 c3", 0 },
	{ "a call through the stack", "48 89 f8 ff 54 24 08 c3", 0 },
	{ "a call through r12", "49 89 fc 41 ff d4 c3", 0 },
	{ "a far call", "48 89 f8 ff 18 c3", 0 },
	{ "a breakpoint first", "cc 89 f8 48 89 c3 c3", 0 },
	{ "a breakpoint in the midst", "48 89 f8 cc 89 c3 c3", 0 },
	{ "an interrupt", "48 89 f8 cd 80 c3", 0 },
	{ "an unknown byte", "48 89 f8 06 90 c3", 0 },
	{ "a loop", "48 89 f8 e2 00 c3", 0 },
	{ "jrcxz", "48 89 f8 e3 00 c3", 0 },
	{ "halt", "48 89 f8 f4 90 c3", 0 },
	{ "a port", "48 89 f8 e4 10 c3", 0 },
	{ "another port", "48 89 f8 ec 90 c3", 0 },
	{ "a control register", "48 89 f8 0f 20 c0 c3", 0 },
	{ "a fault on purpose", "48 89 f8 0f 0b", 0 },
	{ "an interrupt's return", "48 89 f8 48 cf", 0 },
	{ "a transaction", "48 89 f8 c7 f8 00 00 00 00 c3", 0 },
	{ "half an address", "67 48 8b 05 10 00 00 00 c3", 0 },
	{ "a short branch back", "53 48 89 fb 85 c0 75 f9 c3", 0 },
	{ "to the very start", "53 48 89 fb 85 c0 75 f8 c3", 6 },
	{ "behind the head", "53 48 89 fb 85 c0 75 fe c3", 6 },
	{ "a near branch back", "53 48 89 fb 85 c0 0f 85 f5 ff ff ff c3", 0 },
	{ "to the very start", "53 48 89 fb 85 c0 0f 85 f4 ff ff ff c3", 6 },
	{ "a jump back", "53 48 89 fb 85 c0 e9 f7 ff ff ff", 0 },
	{ "a call back", "53 48 89 fb 85 c0 e8 f6 ff ff ff c3", 0 },
	{ "a loop back", "53 48 89 fb 85 c0 e2 f9 c3", 0 },
	{ "a transaction that goes on in it", "53 48 89 fb 85 c0 c7 f8 f5 ff ff ff c3", 0 },
	{ "a branch forward in it", "75 01 90 90 90 c3", 0 },
	{ "behind it", "75 03 90 90 90 c3", 5 },
	{ "a jump over padding in it", "eb 01 cc 90 90 c3", 0 },
	{ "an address in it is taken", "53 48 89 fb 85 c0 48 8d 05 f4 ff ff ff ff e0", 0 },
	{ "of its start", "53 48 89 fb 85 c0 48 8d 05 f3 ff ff ff ff e0", 6 },
	{ "a branch back behind the return", "53 48 89 fb 85 c0 74 01 c3 75 f6 c3", 0 },
	{ "an unknown instruction in the midst", "53 48 89 fb 85 c0 06 c3", 0 },
	{ "data behind the return", "53 48 89 fb 85 c0 c3 06", 6 },
	{ "and then padding", "53 48 89 fb 85 c0 c3 66 90 cc 06", 6 },
	{ "no data: a branch leads further", "53 48 89 fb 85 c0 74 02 c3 06 c3", 0 },
	{ "no data: a branch leads there", "53 48 89 fb 85 c0 74 01 c3 06", 0 },
	{ "a table's targets are not known", "53 48 89 fb 85 c0 ff e0 06", 0 },
	{ "nor those of a table in memory", "53 48 89 fb 85 c0 ff 24 c5 00 00 00 00 06", 0 },
	{ "a pointer is no table", "53 48 89 fb 85 c0 ff 25 00 00 00 00 06", 6 },
	{ "code behind data", "53 48 89 fb 85 c0 c3 06 06 e9 f3 ff ff ff", 0 },
};

static void heads_that_cannot_move_stay(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(staying) / sizeof(staying[0]); i++) {
		uint8_t code[128];
		unsigned bytes = from_hex(staying[i].code, code);
		uint8_t *exact = malloc(bytes ? bytes : 1); /* for a sanitizer */
		assert_non_null(exact);
		memcpy(exact, code, bytes);
		unsigned head = patch_head(exact, bytes);
		free(exact);
		if (head != staying[i].head)
			fail_msg("%s: %s: %u instead of %u", staying[i].why, staying[i].code, head,
				 staying[i].head);
	}
}

static uint8_t *further(const uint8_t *from, int64_t by)
{
	return (uint8_t *)((uintptr_t)from + (uintptr_t)by);
}

static void what_does_not_reach_is_not_written(void **state)
{
	(void)state;
	uint8_t *code = open_room() + 2 * PAGE, before[16], *to = code + 64;
	static const char *const near[] = {
		"48 89 f8 48 8b 05 00 00 00 80 c3", /* loads from 2 GB below */
		"48 89 f8 48 8d 05 00 00 00 80 c3",
		"48 89 f8 e9 00 00 00 80",
		"48 89 f8 0f 84 00 00 00 80 c3",
	};
	for (size_t i = 0; i < sizeof(near) / sizeof(near[0]); i++) {
		unsigned head = patch_head(code, from_hex(near[i], code));
		assert_true(head >= PATCH_JUMP_BYTES);
		assert_int_equal(patch_move(to, code, head), 0);
		assert_int_equal(to[0], 0xcc);
		/* from further down it reaches; conditional branches that were short grow and need a byte more */
		assert_true(patch_move(code - 64, code, head) > 0);
	}
	/* the jump behind the head does not reach: both ways, and neither address exists */
	unsigned head = patch_head(code, from_hex("48 89 f8 48 89 f8 c3", code));
	assert_int_equal(patch_move(further(code, 1LL << 32), code, head), 0);
	assert_int_equal(patch_move(further(code, -(1LL << 32)), code, head), 0);

	memcpy(before, code, sizeof(before));
	assert_int_equal(patch_jump(code, further(code, (1LL << 31) + 5)), 0);
	assert_int_equal(patch_jump(code, further(code, -(1LL << 31) + 4)), 0);
	assert_memory_equal(code, before, sizeof(before));
	assert_int_equal(patch_jump(code, further(code, (1LL << 31) + 4)), 1);
	assert_memory_equal(code, "\xe9\xff\xff\xff\x7f", 5);
	assert_int_equal(patch_jump(code, further(code, -(1LL << 31) + 5)), 1);
	assert_memory_equal(code, "\xe9\x00\x00\x00\x80", 5);
	assert_memory_equal(code + 5, before + 5, sizeof(before) - 5);
}

/* ---- a function that runs, patched ---- */

void *hook_goes_on;
long hook_saw;
/* What the preload library's entry will do: note which function it was and call on. */
__asm__(".text\n.globl patch_hook\n.type patch_hook, @function\npatch_hook:\n mov "
	"%rax, hook_saw(%rip)\n"
	"pop %rax\n"
	"jmp *hook_goes_on(%rip)\n .size patch_hook, .-patch_hook");
extern const char patch_hook[];

static void a_patched_function_runs_through_hook_and_trampoline(void **state)
{
	(void)state;
	uint8_t *page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(page != MAP_FAILED);
	const uint8_t *model = as_bytes(patched_pushes);
	unsigned bytes = (unsigned)((const uint8_t *)patched_pushes_end - model);
	/* in a word from its start and from within, over two words, over two pages */
	static const unsigned places[] = { 64, 65, 67, 68, 71, PAGE - 2 };
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		uint8_t *code = page + places[i], *stub = page + PAGE + 256, *to = stub + 64;
		memset(page, 0x90, 2 * PAGE);
		memcpy(code, model, bytes);
		unsigned head = patch_head(code, bytes);
		assert_int_equal(head, 7);
		assert_true(patch_move(to, code, head) > 0);
		long arg = 0x1122334455667788 + (long)i;
		assert_int_equal(patch_stub(stub, (void *)arg, patch_hook), PATCH_STUB_BYTES);
		assert_int_equal(stub[PATCH_STUB_BYTES], 0x90);
		assert_int_equal(patch_jump(code, stub), 1);
		assert_int_equal(code[0], 0xe9);
		/* around it nothing changed */
		for (unsigned j = 1; j <= 8; j++)
			assert_int_equal(code[-(int)j], 0x90);
		assert_memory_equal(code + PATCH_JUMP_BYTES, model + PATCH_JUMP_BYTES,
				    bytes - PATCH_JUMP_BYTES);
		hook_goes_on = to;
		hook_saw = 0;
		assert_int_equal(call_with(as_function(code), 40, 1), 42);
		assert_int_equal(hook_saw, arg);
	}
	munmap(page, 2 * PAGE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_are_those_of_the_manual),
		cmocka_unit_test(what_is_no_instruction_is_unknown),
		cmocka_unit_test(moved_heads_do_the_same),
		cmocka_unit_test(a_vector_prefix_does_not_hide_an_operand),
		cmocka_unit_test(a_moved_call_through_an_argument_returns_into_the_function),
		cmocka_unit_test(heads_that_cannot_move_stay),
		cmocka_unit_test(what_does_not_reach_is_not_written),
		cmocka_unit_test(a_patched_function_runs_through_hook_and_trampoline),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
