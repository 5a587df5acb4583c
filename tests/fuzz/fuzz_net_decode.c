/* SPDX-License-Identifier: Apache-2.0 */
/* Every decoder on any bytes: 2 bytes choose the decoder and tag, the rest is the body. What comes out has to be JSON, and bounded. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "net/decode.h"
#include "net/packet.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint16_t tags[] = { 0x01, 0x02, 0x03, 0x04, 0x05, 0x10, 0x11, 0x12, 0x13,
				 0x14, 0x20, 0x21, 0x30, 0x31, 0x40, 0x41, 0x50, 0x51,
				 0x60, 0x61, 0x70, 0x71, 0x80, 0x81, 0x90, 0x91, 0x22 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct buf json = { 0 };
	struct net_decode_error error = { "" };
	if (size < 1)
		return 0;
	const uint8_t *body = data + 1;
	size_t len = size - 1;
	int rc;
	switch (data[0]) {
	case 255:
		rc = net_decode_connection(body, len, &json, &error);
		break;
	case 254:
		rc = net_decode_metadata(body, len, &json, &error);
		break;
	case 253:
		rc = net_decode_ack(body, len, &json, &error);
		break;
	case 252: {
		struct net_tcp_segment seg = { 0 };
		if (net_packet(body, len, &seg) == NET_PACKET_SEGMENT &&
		    (seg.captured > len || seg.bytes < body ||
		     seg.bytes + seg.captured > body + len))
			abort();
		return 0;
	}
	default:
		rc = net_decode_peer(tags[data[0] % (sizeof(tags) / sizeof(tags[0]))], body, len,
				     &json, &error);
		break;
	}
	if (rc < 0) {
		if (!error.text[0] || json.len)
			abort();
	} else {
		json_error_t why;
		json_t *root =
			json_loadb(json.data, json.len, JSON_DECODE_ANY | JSON_ALLOW_NUL, &why);
		if (!root || json.len > 16 * len + 4096)
			abort();
		json_decref(root);
	}
	buf_fini(&json);
	return 0;
}
