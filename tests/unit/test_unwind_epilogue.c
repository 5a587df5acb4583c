/* SPDX-License-Identifier: Apache-2.0 */
/* unwind/epilogue.h, unwind/call_x86_64.h: what machine code says of its own frame. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "unwind/call_x86_64.h"
#include "unwind/epilogue.h"
#include "unwind/rule.h"

/* Go 1.26's crosscall2 behind its call: add $0x18,%rsp; five registers, rbp from 0x28(%rsp); add $0x30,%rsp; pop %rbp; ret */
static const uint8_t crosscall2[] = {
	0x48, 0x83, 0xc4, 0x18, 0x48, 0x8b, 0x1c, 0x24, 0x4c, 0x8b, 0x64, 0x24, 0x08,
	0x4c, 0x8b, 0x6c, 0x24, 0x10, 0x4c, 0x8b, 0x74, 0x24, 0x18, 0x4c, 0x8b, 0x7c,
	0x24, 0x20, 0x48, 0x8b, 0x6c, 0x24, 0x28, 0x48, 0x83, 0xc4, 0x30, 0x5d, 0xc3,
};

static void a_frame_is_told_by_the_code_that_leaves_it(void **state)
{
	struct unwind_epilogue e;
	uint64_t rule;

	(void)state;
	assert_int_equal(unwind_epilogue(crosscall2, sizeof(crosscall2), &e), 0);
	assert_int_equal(e.cfa, 0x18 + 0x30 + 8 + 8);
	assert_true(e.bp.known && e.bx.known);
	assert_int_equal(e.bp.at, 0x18 + 0x30); /* the last load wins */
	assert_int_equal(e.bx.at, 0x18);
	rule = unwind_epilogue_rule(&e);
	assert_int_equal(unwind_rule_kind(rule), WIRE_RULE_SP);
	assert_int_equal(unwind_rule_cfa(rule), e.cfa);
	assert_int_equal(unwind_rule_bp(rule), e.bp.at - e.cfa);
	assert_int_equal(unwind_rule_bx(rule), e.bx.at - e.cfa);
}

static void all_forms_are_read(void **state)
{
	static const uint8_t forms[] = {
		0x0f, 0x10, 0x74, 0x24, 0x10,                         /* movups 0x10(%rsp),%xmm6 */
		0x44, 0x0f, 0x28, 0x84, 0x24, 0x80, 0x00, 0x00, 0x00, /* movaps 0x80(%rsp),%xmm8 */
		0x48, 0x81, 0xc4, 0x00, 0x01, 0x00, 0x00,             /* add $0x100,%rsp */
		0x48, 0x8d, 0x64, 0x24, 0x08,                         /* lea 8(%rsp),%rsp */
		0x9d, 0xfc, 0x5b, 0x41, 0x5c, 0xc3, /* popf, cld, pop %rbx, pop %r12, ret */
	};
	struct unwind_epilogue e;

	(void)state;
	assert_int_equal(unwind_epilogue(forms, sizeof(forms), &e), 0);
	assert_int_equal(e.cfa, 0x100 + 8 + 3 * 8 + 8);
	assert_false(e.bp.known);
	assert_int_equal(e.bx.at, 0x100 + 8 + 8);
	assert_int_equal(unwind_rule_bp(unwind_epilogue_rule(&e)), 0);
}

static void anything_else_is_no_way_out(void **state)
{
	static const uint8_t jump[] = { 0x48, 0x83, 0xc4, 0x18, 0xeb, 0x02, 0xc3, 0xc3 };
	static const uint8_t down[] = { 0x48, 0x83, 0xc4, 0xf8, 0xc3 }; /* add $-8,%rsp */
	static const uint8_t other[] = {
		0x48, 0x8b, 0x5c, 0x25, 0x08, 0xc3
	};                                             /* mov 8(%rbp),%rbx */
	static const uint8_t stack[] = { 0x5c, 0xc3 }; /* pop %rsp */
	static const uint8_t far[] = { 0x48, 0x81, 0xc4, 0xff, 0xff, 0xff, 0x7f, 0xc3 };
	struct unwind_epilogue e = { 7, { 0, 0 }, { 0, 0 } };

	(void)state;
	assert_int_equal(unwind_epilogue(jump, sizeof(jump), &e), -1);
	assert_int_equal(unwind_epilogue(down, sizeof(down), &e), -1);
	assert_int_equal(unwind_epilogue(other, sizeof(other), &e), -1);
	assert_int_equal(unwind_epilogue(stack, sizeof(stack), &e), -1);
	assert_int_equal(unwind_epilogue(far, sizeof(far), &e), -1);
	for (uint32_t cut = 0; cut < sizeof(crosscall2); cut++)
		assert_int_equal(unwind_epilogue(crosscall2, cut, &e), -1);
	assert_int_equal(e.cfa, 7);
}

/* The 8 bytes that end with @bytes. */
static uint64_t before(const uint8_t *bytes, size_t count)
{
	uint8_t all[8] = { 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90 };
	uint64_t word;

	memcpy(all + 8 - count, bytes, count);
	memcpy(&word, all, 8);
	return word;
}

static void addresses_behind_calls_are_told_from_others(void **state)
{
	static const uint8_t near[] = { 0xe8, 0x7f, 0x84, 0xff, 0xff };
	static const uint8_t rax[] = { 0xff, 0xd0 };
	static const uint8_t memory[] = { 0xff, 0x53, 0x10 };             /* call *0x10(%rbx) */
	static const uint8_t far[] = { 0xff, 0x94, 0x24, 0x80, 0, 0, 0 }; /* call *0x80(%rsp) */
	static const uint8_t jump[] = { 0xff, 0xe0 };
	static const uint8_t push[] = { 0xff, 0x75, 0x08 }; /* push 8(%rbp) */

	(void)state;
	assert_true(unwind_follows_call(before(near, sizeof(near))));
	assert_true(unwind_follows_call(before(rax, sizeof(rax))));
	assert_true(unwind_follows_call(before(memory, sizeof(memory))));
	assert_true(unwind_follows_call(before(far, sizeof(far))));
	assert_false(unwind_follows_call(before(jump, sizeof(jump))));
	assert_false(unwind_follows_call(before(push, sizeof(push))));
	assert_false(unwind_follows_call(before(push, 0)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_frame_is_told_by_the_code_that_leaves_it),
		cmocka_unit_test(all_forms_are_read),
		cmocka_unit_test(anything_else_is_no_way_out),
		cmocka_unit_test(addresses_behind_calls_are_told_from_others),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
