/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/incoming.h"

#include <ctype.h>
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/param.h>

#include "trace/block.h"

#define OFFSET_MAX (UINT64_C(1) << 62)

/* 0, or why this is no hello; as soon as it can be told. */
static int check_hello(const struct incoming *in)
{
	const struct wire_send_hello *hello = (const void *)in->head;
	uint32_t version;
	if (memcmp(in->head, WIRE_SEND_MAGIC, MIN(in->have, sizeof(hello->magic))) != 0)
		return -EBADMSG;
	if (in->have < sizeof(*hello))
		return 0;
	memcpy(&version, in->head + offsetof(struct wire_send_hello, version), sizeof(version));
	if (le32toh(version) != WIRE_SEND_VERSION)
		return -EPROTO;
	if (hello->name[sizeof(hello->name) - 1] || hello->token[sizeof(hello->token) - 1])
		return -EBADMSG;
	struct blt_file_header header;
	return blt_file_header_get(hello->header, &header) == 1 ? 0 : -EBADMSG;
}

static int take_frame(struct incoming *in, struct incoming_item *item)
{
	struct wire_send_frame frame;
	memcpy(&frame, in->head, sizeof(frame));
	uint32_t bytes = le32toh(frame.bytes);
	uint64_t at = le64toh(frame.offset);
	in->have = 0;
	item->at = at;
	switch (le32toh(frame.type)) {
	case WIRE_SEND_DATA:
		if (!bytes || bytes > WIRE_SEND_DATA_MAX || at > OFFSET_MAX)
			return -EBADMSG;
		in->left = bytes;
		in->at = at;
		return 0;
	case WIRE_SEND_ALIVE:
		item->kind = INCOMING_ALIVE;
		break;
	case WIRE_SEND_END:
		item->kind = INCOMING_END;
		break;
	case WIRE_SEND_DROP:
		item->kind = INCOMING_DROP;
		break;
	default:
		return -EBADMSG;
	}
	return bytes ? -EBADMSG : 1;
}

int incoming_take(struct incoming *in, const uint8_t **from, size_t *left,
		  struct incoming_item *item)
{
	*item = (struct incoming_item){ 0 };
	while (*left) {
		if (in->left) {
			size_t count = MIN(*left, in->left);
			*item = (struct incoming_item){
				.kind = INCOMING_DATA, .bytes = *from, .count = count, .at = in->at
			};
			*from += count;
			*left -= count;
			in->left -= (uint32_t)count;
			in->at += count;
			return 1;
		}
		size_t want = in->greeted ? sizeof(struct wire_send_frame) : sizeof(in->head);
		size_t count = MIN(*left, want - in->have);
		memcpy(in->head + in->have, *from, count);
		*from += count;
		*left -= count;
		in->have += count;
		int rc = in->greeted ? 0 : check_hello(in);
		if (rc < 0)
			return rc;
		if (in->have < want)
			return 0;
		if (in->greeted) {
			rc = take_frame(in, item);
			if (rc)
				return rc;
			continue;
		}
		in->greeted = 1;
		in->have = 0;
		item->kind = INCOMING_HELLO;
		item->hello = (const void *)in->head;
		return 1;
	}
	return 0;
}

int incoming_answer(const struct wire_send_answer *answer, uint64_t *held)
{
	uint32_t status = le32toh(answer->status);
	*held = le64toh(answer->held);
	if (memcmp(answer->magic, WIRE_SEND_MAGIC, sizeof(answer->magic)) != 0 ||
	    status > WIRE_SEND_REFUSED)
		return -EPROTO;
	return (int)status;
}

/* ".blt", or ".blt.7". */
static int has_suffix(const char *name)
{
	size_t len = strlen(name);
	while (len && isdigit((unsigned char)name[len - 1]))
		len--;
	if (name[len] && len && name[len - 1] == '.')
		len--;
	else if (name[len])
		return 0;
	return len > 4 && strncmp(name + len - 4, ".blt", 4) == 0;
}

void incoming_name(const char *from, char to[INCOMING_NAME])
{
	const char *slash = strrchr(from, '/');
	size_t len = 0;
	for (const char *at = slash ? slash + 1 : from; *at && len < INCOMING_NAME - 8; at++) {
		unsigned char c = (unsigned char)*at;
		int plain = c < 128 && (isalnum(c) || strchr("_-+.", c)) && (len || c != '.');
		to[len++] = plain ? (char)c : '_';
	}
	to[len] = '\0';
	if (!len)
		snprintf(to, INCOMING_NAME, "recording.blt");
	else if (!has_suffix(to))
		snprintf(to + len, INCOMING_NAME - len, ".blt");
}
