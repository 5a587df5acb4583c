/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "source/jitmap.h"

static struct jitmap *with(const char *text)
{
	struct jitmap *map = jitmap_new(0, 0);
	assert_int_equal(jitmap_text(map, text, strlen(text)), strlen(text));
	return map;
}

static void rows_of_every_runtime_name_function_file_and_line(void **state)
{
	(void)state;
	struct jitmap *map = with("1000 10 JS:*hot /srv/a b.js:3:14\n"
				  "1010 10 JS:~ file:///srv/main.mjs:1:1\n"
				  "0x1020 0x10 byte[] L.squeeze(byte[])\n"
				  "1030 10 $lists:map/2\n"
				  "1040 10 Builtin:ArrayPush\n"
				  "1050 10 JS:^odd name without place\n");
	const struct jit_code *code = jitmap_find(map, 0x100f);
	assert_string_equal(code->function, "hot");
	assert_string_equal(code->file, "/srv/a b.js");
	assert_int_equal(code->line, 3);
	code = jitmap_find(map, 0x1010);
	assert_string_equal(code->function, "(anonymous)");
	assert_string_equal(code->file, "/srv/main.mjs");
	assert_string_equal(jitmap_find(map, 0x1020)->function, "byte[] L.squeeze(byte[])");
	assert_string_equal(jitmap_find(map, 0x1030)->function, "$lists:map/2");
	assert_string_equal(jitmap_find(map, 0x1040)->function, "Builtin:ArrayPush");
	assert_string_equal(jitmap_find(map, 0x1050)->function, "odd name without place");
	assert_null(jitmap_find(map, 0x1050)->file);
	assert_null(jitmap_find(map, 0x1060));
	assert_null(jitmap_find(map, 0xfff));
	jitmap_free(map);
}

static void code_that_comes_to_the_place_of_other_code_has_its_own_name(void **state)
{
	(void)state;
	struct jitmap *map = jitmap_new(0, 0);
	char line[64];
	for (unsigned i = 0; i < 5000; i++) { /* beyond what is looked through one by one */
		int len =
			snprintf(line, sizeof(line), "%x 100 f%u\n", 0x10000 + i % 100 * 0x100, i);
		assert_int_equal(jitmap_text(map, line, (size_t)len), len);
	}
	for (unsigned i = 0; i < 100; i++) {
		snprintf(line, sizeof(line), "f%u", 4900 + i);
		const struct jit_code *code = jitmap_find(map, 0x10000 + i * 0x100 + 0x80);
		assert_non_null(code);
		assert_string_equal(code->function, line);
	}
	jitmap_free(map);
}

static void nonsense_is_passed_by(void **state)
{
	(void)state;
	struct jitmap *map =
		with("\n\nzz 10 x\n10\n10 20\n10 20 \nffffffffffffffff ff over\n1 0 empty\n"
		     "12345678901234567 10 long\n40 8 good\n");
	assert_string_equal(jitmap_find(map, 0x44)->function, "good");
	assert_null(jitmap_find(map, 0x10));
	/* what is no whole line is left for the next time */
	assert_int_equal(jitmap_text(map, "50 8 ha", 7), 0);
	jitmap_free(map);
}

static void records_of_a_dump_load_and_move(void **state)
{
	(void)state;
	struct jitmap *map = jitmap_new(0, 0);
	struct {
		uint32_t id, bytes;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, addr, size, index;
		char name[8];
	} load = { 0, sizeof(load), 0, 1, 1, 0x1000, 0x1000, 0x40, 1, "f" };
	struct {
		uint32_t id, bytes;
		uint64_t time;
		uint32_t pid, tid;
		uint64_t vma, from, to, size, index;
	} move = { 1, sizeof(move), 0, 1, 1, 0x1000, 0x1000, 0x9000, 0x40, 1 };
	assert_int_equal(jitmap_dump(map, &load, sizeof(load)), sizeof(load));
	assert_int_equal(jitmap_dump(map, &move, sizeof(move)), sizeof(move));
	assert_string_equal(jitmap_find(map, 0x103f)->function, "f");
	assert_string_equal(jitmap_find(map, 0x9000)->function, "f");
	assert_int_equal(jitmap_dump(map, &load, sizeof(load) - 1), 0);
	load.bytes = 3;
	assert_int_equal(jitmap_dump(map, &load, sizeof(load)), -EBADMSG);
	jitmap_free(map);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_every_runtime_name_function_file_and_line),
		cmocka_unit_test(code_that_comes_to_the_place_of_other_code_has_its_own_name),
		cmocka_unit_test(nonsense_is_passed_by),
		cmocka_unit_test(records_of_a_dump_load_and_move),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
