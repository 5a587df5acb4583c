/* SPDX-License-Identifier: Apache-2.0 */
/* The published and constructed Tezos vectors: every identity, nonce, key, proof of work, text form and message body. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>
#include <sodium.h>

#include "net/b58.h"
#include "net/conn.h"
#include "net/decode.h"
#include "net/seal.h"

static json_t *load(const char *name)
{
	char path[512];
	json_error_t why;
	snprintf(path, sizeof(path), "%s/%s", getenv("TEZOS_VECTORS"), name);
	json_t *root = json_load_file(path, 0, &why);
	if (!root)
		fail_msg("%s: %s", path, why.text);
	return root;
}

static const char *text(const json_t *object, const char *key)
{
	const char *value = json_string_value(json_object_get(object, key));
	if (!value)
		fail_msg("key '%s' is missing", key);
	return value;
}

static size_t unhex(const char *hex, uint8_t *out, size_t cap)
{
	size_t len = 0;
	assert_int_equal(sodium_hex2bin(out, cap, hex, strlen(hex), NULL, &len, NULL), 0);
	return len;
}

static void start(void)
{
	struct err err = { 0 };
	assert_int_equal(net_seal_init(&err), 0);
}

static void identities_load_and_have_the_expected_peer_id_and_work(void **state)
{
	(void)state;
	start();
	json_t *root = load("identities/expected.json"), *want;
	size_t i;
	json_array_foreach(root, i, want)
	{
		char path[512];
		struct err err = { 0 };
		snprintf(path, sizeof(path), "%s/identities/%s", getenv("TEZOS_VECTORS"),
			 text(want, "file"));
		struct net_identity *identity = net_identity_load(path, &err);
		if (!identity)
			fail_msg("%s", err.msg);
		assert_string_equal(net_identity_peer_id(identity), text(want, "peer_id"));
		const uint8_t *key = net_identity_public_key(identity),
			      *stamp = net_identity_stamp(identity);
		assert_int_equal(net_pow_ok(key, stamp, 26.0),
				 json_is_true(json_object_get(want, "pow_ok_at_26.0")));
		assert_int_equal(net_pow_ok(key, stamp, 24.0),
				 json_is_true(json_object_get(want, "pow_ok_at_24.0")));
		net_identity_free(identity);
	}
	assert_true(json_array_size(root) >= 9);
	json_decref(root);
}

static void message_bodies_decode_as_expected_or_are_refused(void **state)
{
	(void)state;
	start();
	const char *files[] = { "messages/handshake.json", "messages/peer_messages.json" };
	static uint8_t bytes[1 << 20];
	for (int f = 0; f < 2; f++) {
		json_t *root = load(files[f]), *item;
		size_t i;
		json_array_foreach(root, i, item)
		{
			struct buf json = { 0 };
			struct net_decode_error error;
			int valid = !json_is_false(json_object_get(item, "valid")), rc;
			const char *type = json_string_value(json_object_get(item, "type"));
			if (f == 0) {
				size_t len = unhex(text(item, "body_hex"), bytes, sizeof(bytes));
				rc = strcmp(type, "connection") == 0
					     ? net_decode_connection(bytes, len, &json, &error)
				     : strcmp(type, "metadata") == 0
					     ? net_decode_metadata(bytes, len, &json, &error)
					     : net_decode_ack(bytes, len, &json, &error);
			} else {
				size_t len = unhex(text(item, "wire_hex"), bytes, sizeof(bytes));
				uint32_t said = (uint32_t)bytes[0] << 24 | bytes[1] << 16 |
						bytes[2] << 8 | bytes[3];
				rc = len < 6 || said != len - 4
					     ? -1
					     : net_decode_peer((uint16_t)(bytes[4] << 8 | bytes[5]),
							       bytes + 6, len - 6, &json, &error);
			}
			if (!valid) {
				assert_int_not_equal(rc, 0);
			} else {
				if (rc != 0)
					fail_msg("%s item %zu: %s", files[f], i, error.text);
				json_t *want = json_object_get(item, "message");
				if (want) {
					/* the reference writes keys in the API's order: compare the text itself */
					char *expected =
						json_dumps(want, JSON_COMPACT | JSON_ENCODE_ANY);
					assert_string_equal(buf_cstr(&json), expected);
					free(expected);
				}
			}
			buf_fini(&json);
		}
		json_decref(root);
	}
}

static void control_characters_of_a_peer_are_escaped(void **state)
{
	static const char name[] = "\xc2\x9b"
				   "31m\x7f\xc2\xa0\x1b";
	uint8_t body[2 + 32 + 24 + 24 + 4 + sizeof(name) - 1 + 4] = { 0 };
	struct buf json = { 0 };
	struct net_decode_error error = { "" };
	(void)state;
	body[85] = sizeof(name) - 1;
	memcpy(body + 86, name, sizeof(name) - 1);
	if (net_decode_connection(body, sizeof(body), &json, &error) < 0)
		fail_msg("%s", error.text);
	assert_non_null(strstr(buf_cstr(&json), "\"\\u009b31m\\u007f\xc2\xa0\\u001b\""));
	buf_fini(&json);
}

static void nonces_and_boxes_agree(void **state)
{
	(void)state;
	start();
	uint8_t nonce[24] = { 0 };
	memset(nonce, 0xff, 24);
	net_nonce_add(nonce, 1);
	for (int i = 0; i < 24; i++)
		assert_int_equal(nonce[i], 0);
	net_nonce_add(nonce, 0x1ff);
	net_nonce_add(nonce, 1);
	assert_int_equal(nonce[22], 2);
	assert_int_equal(nonce[23], 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identities_load_and_have_the_expected_peer_id_and_work),
		cmocka_unit_test(message_bodies_decode_as_expected_or_are_refused),
		cmocka_unit_test(control_characters_of_a_peer_are_escaped),
		cmocka_unit_test(nonces_and_boxes_agree),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
