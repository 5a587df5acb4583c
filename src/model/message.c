/* SPDX-License-Identifier: Apache-2.0 */
#include "model/message.h"

#include <errno.h>
#include <string.h>

static const struct {
	enum message_type type;
	const char *word;
} words[] = {
	{ MESSAGE_CONNECTION, "connection_message" },
	{ MESSAGE_METADATA, "metadata" },
	{ MESSAGE_ACK, "ack_message" },
	{ MESSAGE_DISCONNECT, "disconnect" },
	{ MESSAGE_BOOTSTRAP, "bootstrap" },
	{ MESSAGE_ADVERTISE, "advertise" },
	{ MESSAGE_SWAP_REQUEST, "swap_request" },
	{ MESSAGE_SWAP_ACK, "swap_ack" },
	{ MESSAGE_GET_CURRENT_BRANCH, "get_current_branch" },
	{ MESSAGE_CURRENT_BRANCH, "current_branch" },
	{ MESSAGE_DEACTIVATE, "deactivate" },
	{ MESSAGE_GET_CURRENT_HEAD, "get_current_head" },
	{ MESSAGE_CURRENT_HEAD, "current_head" },
	{ MESSAGE_GET_BLOCK_HEADERS, "get_block_headers" },
	{ MESSAGE_BLOCK_HEADER, "block_header" },
	{ MESSAGE_GET_OPERATIONS, "get_operations" },
	{ MESSAGE_OPERATION, "operation" },
	{ MESSAGE_GET_PROTOCOLS, "get_protocols" },
	{ MESSAGE_PROTOCOL, "protocol" },
	{ MESSAGE_GET_OPERATION_HASHES_FOR_BLOCKS, "get_operation_hashes_for_blocks" },
	{ MESSAGE_OPERATION_HASHES_FOR_BLOCKS, "operation_hashes_for_blocks" },
	{ MESSAGE_GET_OPERATIONS_FOR_BLOCKS, "get_operations_for_blocks" },
	{ MESSAGE_OPERATIONS_FOR_BLOCKS, "operations_for_blocks" },
	{ MESSAGE_GET_CHECKPOINT, "get_checkpoint" },
	{ MESSAGE_CHECKPOINT, "checkpoint" },
	{ MESSAGE_GET_PROTOCOL_BRANCH, "get_protocol_branch" },
	{ MESSAGE_PROTOCOL_BRANCH, "protocol_branch" },
	{ MESSAGE_GET_PREDECESSOR_HEADER, "get_predecessor_header" },
	{ MESSAGE_PREDECESSOR_HEADER, "predecessor_header" },
	{ MESSAGE_UNKNOWN, "unknown" },
	/* the older spelling of the filter word, singular */
	{ MESSAGE_OPERATION_HASHES_FOR_BLOCKS, "operation_hashes_for_block" },
};

const char *message_type_kind(enum message_type type)
{
	if (type <= MESSAGE_ACK)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (words[i].type == type)
			return words[i].word;
	}
	return "unknown";
}

const char *message_type_category(enum message_type type)
{
	switch (type) {
	case MESSAGE_CONNECTION:
		return "connection";
	case MESSAGE_METADATA:
		return "meta";
	case MESSAGE_ACK:
		return "ack";
	default:
		return "p2p";
	}
}

int message_type_parse(const char *word, size_t len, enum message_type *type)
{
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strlen(words[i].word) == len && memcmp(words[i].word, word, len) == 0) {
			*type = words[i].type;
			return 0;
		}
	}
	return -EINVAL;
}
