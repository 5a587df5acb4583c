/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/toml.h"

static struct toml *parse(const char *text)
{
	struct err err = { 0 };
	struct toml *root = toml_parse(text, strlen(text), "x.toml", &err);
	if (!root)
		fail_msg("%s", err.msg);
	return root;
}

static int unknown;

static void note(void *ctx, const struct toml *member)
{
	(void)ctx, (void)member;
	unknown++;
}

static void documented_configuration_is_understood(void **state)
{
	(void)state;
	struct toml *root =
		parse("http_v2 = 17732 # both\nbind = \"127.0.0.1\"\nextra = [1, 2,\n 3, "
		      "]\n\n[[nodes]]\nname = \"9732\"\n"
		      "p2p = { identity = '/data/id\\x', port = 9732, store_limit = 1_000_000 }\n"
		      "log = { port = 10000, disable_search = true }\n[[nodes]]\nname = "
		      "\"b\\u00e9\\n\"\n");
	struct err err = { 0 };
	uint64_t number = 0;
	const char *text = NULL;
	int flag = 0;
	assert_int_equal(toml_u64(root, "http_v2", 65535, &number, &err), 1);
	assert_int_equal(number, 17732);
	assert_int_equal(toml_u64(root, "absent", 65535, &number, &err), 0);
	assert_int_equal(toml_string(root, "bind", &text, &err), 1);
	assert_string_equal(text, "127.0.0.1");
	struct toml *nodes = toml_get(root, "nodes");
	assert_int_equal(nodes->kind, TOML_ARRAY);
	struct toml *p2p = toml_get(nodes->first, "p2p");
	assert_int_equal(toml_u64(p2p, "store_limit", UINT64_MAX, &number, &err), 1);
	assert_int_equal(number, 1000000);
	assert_int_equal(toml_string(p2p, "identity", &text, &err), 1);
	assert_string_equal(text, "/data/id\\x");
	assert_int_equal(toml_bool(toml_get(nodes->first, "log"), "disable_search", &flag, &err),
			 1);
	assert_int_equal(flag, 1);
	assert_int_equal(toml_string(nodes->first->next, "name", &text, &err), 1);
	assert_string_equal(text, "b\xc3\xa9\n");
	assert_int_equal(toml_u64(p2p, "port", 100, &number, &err), -22);
	assert_non_null(strstr(err.msg, "line 8"));
	unknown = 0;
	toml_unused(root, note, NULL);
	assert_int_equal(unknown, 3); /* extra, the first name, log.port */
	toml_free(root);
}

static void what_is_not_understood_is_an_error_with_its_line(void **state)
{
	(void)state;
	const char *const bad[] = { "a = \n",
				    "a 1\n",
				    "\na = 1 b = 2\n",
				    "a.b = 1\n",
				    "a = \"x\n\"",
				    "[t\n",
				    "[t]\n[t]\n",
				    "a = 1\na = 2\n",
				    "a = [1, 2\n",
				    "a = {b = 1,\n",
				    "a = 0x\n",
				    "a = tru\n",
				    "\xff = 1\n",
				    "a = \"\\q\"",
				    "a = 99999999999999999999\n",
				    "= 3\n",
				    "a = [[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]\n" };
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };
		struct toml *root = toml_parse(bad[i], strlen(bad[i]), "x.toml", &err);
		if (root)
			fail_msg("accepted: %s", bad[i]);
		assert_non_null(strstr(err.msg, "'x.toml' line "));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(documented_configuration_is_understood),
		cmocka_unit_test(what_is_not_understood_is_an_error_with_its_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
