/* SPDX-License-Identifier: Apache-2.0 */
#include "net/decode.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/decode_in.h"

#define CHAIN_NAME_MAX 1024
#define POINT_MAX 47
#define PATH_LEVELS_MAX 64 /* Octez has 3; beyond its limits we decode what the structure permits */

enum message_type net_tag_type(uint16_t tag)
{
	switch (tag) {
	case 0x01:
		return MESSAGE_DISCONNECT;
	case 0x02:
		return MESSAGE_BOOTSTRAP;
	case 0x03:
		return MESSAGE_ADVERTISE;
	case 0x04:
		return MESSAGE_SWAP_REQUEST;
	case 0x05:
		return MESSAGE_SWAP_ACK;
	case 0x10:
		return MESSAGE_GET_CURRENT_BRANCH;
	case 0x11:
		return MESSAGE_CURRENT_BRANCH;
	case 0x12:
		return MESSAGE_DEACTIVATE;
	case 0x13:
		return MESSAGE_GET_CURRENT_HEAD;
	case 0x14:
		return MESSAGE_CURRENT_HEAD;
	case 0x20:
		return MESSAGE_GET_BLOCK_HEADERS;
	case 0x21:
		return MESSAGE_BLOCK_HEADER;
	case 0x30:
		return MESSAGE_GET_OPERATIONS;
	case 0x31:
		return MESSAGE_OPERATION;
	case 0x40:
		return MESSAGE_GET_PROTOCOLS;
	case 0x41:
		return MESSAGE_PROTOCOL;
	case 0x50:
		return MESSAGE_GET_OPERATION_HASHES_FOR_BLOCKS;
	case 0x51:
		return MESSAGE_OPERATION_HASHES_FOR_BLOCKS;
	case 0x60:
		return MESSAGE_GET_OPERATIONS_FOR_BLOCKS;
	case 0x61:
		return MESSAGE_OPERATIONS_FOR_BLOCKS;
	case 0x70:
		return MESSAGE_GET_CHECKPOINT;
	case 0x71:
		return MESSAGE_CHECKPOINT;
	case 0x80:
		return MESSAGE_GET_PROTOCOL_BRANCH;
	case 0x81:
		return MESSAGE_PROTOCOL_BRANCH;
	case 0x90:
		return MESSAGE_GET_PREDECESSOR_HEADER;
	case 0x91:
		return MESSAGE_PREDECESSOR_HEADER;
	default:
		return MESSAGE_UNKNOWN;
	}
}

static struct in begin(const uint8_t *body, size_t len, struct net_decode_error *error)
{
	error->text[0] = '\0';
	return (struct in){ body, body + len, error, 0 };
}

static int finish(struct in *in, struct buf *json, size_t json_start, const char *what)
{
	in_end(in, what);
	if (!in->failed && buf_failed(json))
		in_fail(in, "out of memory");
	if (!in->failed)
		return 0;
	json->len = json_start;
	return -EBADMSG;
}

int net_is_connection(const uint8_t *body, size_t len)
{
	const size_t name = 2 + 32 + 24 + 24, fixed = name + 4 + 2 + 2;
	if (len < fixed)
		return 0;
	const uint8_t *p = body + name;
	uint32_t n = (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
	if (n > CHAIN_NAME_MAX || len != fixed + n)
		return 0;
	for (uint32_t i = 0; i < n; i++) {
		if (p[4 + i] < 0x20 || p[4 + i] == 0x7f)
			return 0;
	}
	return 1;
}

int net_decode_connection(const uint8_t *body, size_t len, struct buf *json,
			  struct net_decode_error *error)
{
	struct in in = begin(body, len, error);
	size_t start = json->len;
	buf_printf(json, "{\"port\":%u,\"public_key\":", in_u16(&in, "the port"));
	const uint8_t *p = in_take(&in, 32, "the public key");
	if (p)
		put_numbers(json, p, 32);
	buf_puts(json, ",\"proof_of_work_stamp\":");
	if ((p = in_take(&in, 24, "the proof-of-work stamp")))
		put_numbers(json, p, 24);
	buf_puts(json, ",\"message_nonce\":");
	if ((p = in_take(&in, 24, "the message nonce")))
		put_numbers(json, p, 24);
	buf_puts(json, ",\"version\":{\"chain_name\":");
	put_text(json, &in, CHAIN_NAME_MAX, "the chain name");
	buf_printf(json, ",\"distributed_db_version\":%u",
		   in_u16(&in, "the distributed_db_version"));
	buf_printf(json, ",\"p2p_version\":%u}}", in_u16(&in, "the p2p_version"));
	return finish(&in, json, start, "the connection message");
}

int net_decode_metadata(const uint8_t *body, size_t len, struct buf *json,
			struct net_decode_error *error)
{
	struct in in = begin(body, len, error);
	size_t start = json->len;
	buf_puts(json, "{\"disable_mempool\":");
	put_bool(json, &in, "disable_mempool");
	buf_puts(json, ",\"private_node\":");
	put_bool(json, &in, "private_node");
	buf_putc(json, '}');
	return finish(&in, json, start, "the metadata message");
}

static void points(struct buf *json, struct in *in)
{
	buf_putc(json, '[');
	for (int first = 1; in_left(in); first = 0) {
		if (!first)
			buf_putc(json, ',');
		put_text(json, in, POINT_MAX, "an address");
	}
	buf_putc(json, ']');
}

int net_decode_ack(const uint8_t *body, size_t len, struct buf *json,
		   struct net_decode_error *error)
{
	static const char *const motives[] = { "NoMotive",
					       "TooManyConnections",
					       "UnknownChainName",
					       "DeprecatedP2pVersion",
					       "DeprecatedDistributedDbVersion",
					       "AlreadyConnected" };
	struct in in = begin(body, len, error);
	size_t start = json->len;
	uint8_t tag = in_u8(&in, "the ack tag");
	if (in.failed) {
	} else if (tag == 0) {
		buf_puts(json, "\"Ack\"");
	} else if (tag == 0xff) {
		buf_puts(json, "\"NackV0\"");
	} else if (tag == 1) {
		uint16_t motive = in_u16(&in, "the motive");
		if (motive < ARRAY_LEN(motives))
			buf_printf(json, "{\"Nack\":{\"motive\":\"%s\"", motives[motive]);
		else
			buf_printf(json, "{\"Nack\":{\"motive\":%u", motive);
		struct in list = in_block(&in, "the list of addresses");
		buf_puts(json, ",\"potential_peers_to_connect\":");
		points(json, &list);
		in_merge(&in, &list);
		buf_puts(json, "}}");
	} else {
		in_fail(&in, "unknown ack tag 0x%02x", tag);
	}
	return finish(&in, json, start, "the ack message");
}

/* fitness: dyn(list(dyn(bytes))) */
static void fitness(struct buf *json, struct in *in)
{
	struct in list = in_block(in, "the fitness");
	buf_putc(json, '[');
	for (int first = 1; in_left(&list); first = 0) {
		struct in item = in_block(&list, "a part of the fitness");
		if (!first)
			buf_putc(json, ',');
		put_hex(json, item.p, in_left(&item));
	}
	buf_putc(json, ']');
	in_merge(in, &list);
}

static void header(struct buf *json, struct in *in)
{
	buf_printf(json, "{\"level\":%d", (int32_t)in_u32(in, "the level"));
	buf_printf(json, ",\"proto\":%u,\"predecessor\":", in_u8(in, "the proto"));
	put_hash(json, in, NET_HASH_BLOCK);
	buf_puts(json, ",\"timestamp\":");
	put_time(json, (int64_t)in_u64(in, "the timestamp"));
	buf_printf(json, ",\"validation_pass\":%u,\"operations_hash\":",
		   in_u8(in, "the validation pass"));
	put_hash(json, in, NET_HASH_OPERATION_LIST_LIST);
	buf_puts(json, ",\"fitness\":");
	fitness(json, in);
	buf_puts(json, ",\"context\":");
	put_hash(json, in, NET_HASH_CONTEXT);
	buf_puts(json, ",\"protocol_data\":");
	put_hex(json, in->p, in_left(in));
	buf_putc(json, '}');
	in->p = in->end;
}

static void header_block(struct buf *json, struct in *in)
{
	struct in block = in_block(in, "the block header");
	header(json, &block);
	in_merge(in, &block);
}

static void locator(struct buf *json, struct in *in)
{
	buf_puts(json, "{\"current_head\":");
	header_block(json, in);
	buf_puts(json, ",\"history\":");
	put_hashes(json, in, NET_HASH_BLOCK);
	buf_putc(json, '}');
}

static void hash_block(struct buf *json, struct in *in, enum net_hash kind)
{
	struct in list = in_block(in, "a list of hashes");
	put_hashes(json, &list, kind);
	in_end(&list, "a list of hashes");
	in_merge(in, &list);
}

static void operation(struct buf *json, struct in *in)
{
	buf_puts(json, "{\"branch\":");
	put_hash(json, in, NET_HASH_BLOCK);
	buf_puts(json, ",\"data\":");
	put_hex(json, in->p, in_left(in));
	buf_putc(json, '}');
	in->p = in->end;
}

static void block_pass(struct buf *json, struct in *in)
{
	buf_puts(json, "{\"hash\":");
	put_hash(json, in, NET_HASH_BLOCK);
	buf_printf(json, ",\"validation_pass\":%d}", (int8_t)in_u8(in, "the validation pass"));
}

static void block_passes(struct buf *json, struct in *in)
{
	struct in list = in_block(in, "a list of blocks");
	buf_putc(json, '[');
	for (int first = 1; in_left(&list); first = 0) {
		if (!first)
			buf_putc(json, ',');
		block_pass(json, &list);
	}
	buf_putc(json, ']');
	in_merge(in, &list);
}

/*
 * A Merkle path, outermost first. The right siblings of 0xf0 nodes stand behind the end mark,
 * innermost first.
 */
static void path(struct buf *json, struct in *in)
{
	struct {
		/* of 0x0f nodes; filled later for 0xf0 */
		const uint8_t *sibling;
		int right;
	} level[PATH_LEVELS_MAX];
	size_t depth = 0;
	for (;;) {
		uint8_t tag = in_u8(in, "the path");
		if (in->failed || tag == 0x00)
			break;
		if (depth == PATH_LEVELS_MAX) {
			in_fail(in, "the path has more than %d levels", PATH_LEVELS_MAX);
			break;
		}
		if (tag != 0xf0 && tag != 0x0f) {
			in_fail(in, "unknown path tag 0x%02x", tag);
			break;
		}
		level[depth].right = tag == 0xf0;
		level[depth].sibling = tag == 0x0f ? in_take(in, 32, "a path hash") : NULL;
		depth++;
	}
	for (size_t i = depth; i-- > 0 && !in->failed;) {
		if (level[i].right)
			level[i].sibling = in_take(in, 32, "a path hash");
	}
	buf_putc(json, '[');
	for (size_t i = 0; i < depth && !in->failed; i++) {
		buf_puts(json, i ? "," : "");
		buf_puts(json, level[i].right ? "{\"Left\":{\"right\":" : "{\"Right\":{\"left\":");
		put_numbers(json, level[i].sibling, 32);
		buf_puts(json, "}}");
	}
	buf_putc(json, ']');
}

static void operations(struct buf *json, struct in *in)
{
	buf_putc(json, '[');
	for (int first = 1; in_left(in); first = 0) {
		struct in item = in_block(in, "an operation");
		if (!first)
			buf_putc(json, ',');
		operation(json, &item);
		in_merge(in, &item);
	}
	buf_putc(json, ']');
}

static void protocol(struct buf *json, struct in *in)
{
	buf_printf(json, "{\"expected_env_version\":%d,\"components\":[",
		   (int16_t)in_u16(in, "the environment version"));
	struct in list = in_block(in, "the components");
	for (int first = 1; in_left(&list); first = 0) {
		buf_puts(json, first ? "{\"name\":" : ",{\"name\":");
		put_text(json, &list, UINT32_MAX, "a component's name");
		buf_puts(json, ",\"interface\":");
		uint8_t has = in_u8(&list, "the interface mark");
		if (has == 0xff)
			put_text(json, &list, UINT32_MAX, "an interface");
		else if (has == 0)
			buf_puts(json, "null");
		else
			in_fail(&list, "the interface mark is 0x%02x", has);
		buf_puts(json, ",\"implementation\":");
		put_text(json, &list, UINT32_MAX, "an implementation");
		buf_putc(json, '}');
	}
	in_merge(in, &list);
	buf_puts(json, "]}");
}

static void swap(struct buf *json, struct in *in, const char *name)
{
	buf_printf(json, "{\"%s\":{\"point\":", name);
	put_text(json, in, POINT_MAX, "an address");
	buf_puts(json, ",\"peer_id\":");
	put_hash(json, in, NET_HASH_PEER);
	buf_puts(json, "}}");
}

static void chain(struct buf *json, struct in *in, const char *before)
{
	buf_puts(json, before);
	put_hash(json, in, NET_HASH_CHAIN);
}

static void current_head(struct buf *json, struct in *in)
{
	chain(json, in, "{\"CurrentHead\":{\"chain_id\":");
	buf_puts(json, ",\"current_block_header\":");
	header_block(json, in);
	buf_puts(json, ",\"current_mempool\":{\"known_valid\":");
	hash_block(json, in, NET_HASH_OPERATION);
	buf_puts(json, ",\"pending\":");
	struct in pending = in_block(in, "the pending operations");
	hash_block(json, &pending, NET_HASH_OPERATION);
	in_end(&pending, "the pending operations");
	in_merge(in, &pending);
	buf_puts(json, "}}}");
}

static void predecessor_header(struct buf *json, struct in *in, int with_header)
{
	buf_puts(json, with_header ? "{\"PredecessorHeader\":{\"block_hash\":"
				   : "{\"GetPredecessorHeader\":{\"block_hash\":");
	put_hash(json, in, NET_HASH_BLOCK);
	buf_printf(json, ",\"offset\":%d", (int32_t)in_u32(in, "the offset"));
	if (with_header) {
		buf_puts(json, ",\"header\":");
		header(json, in);
	}
	buf_puts(json, "}}");
}

static void protocol_branch(struct buf *json, struct in *in, int with_locator)
{
	chain(json, in,
	      with_locator ? "{\"ProtocolBranch\":{\"chain_id\":"
			   : "{\"GetProtocolBranch\":{\"chain_id\":");
	buf_printf(json, ",\"proto_level\":%u", in_u8(in, "the protocol level"));
	if (with_locator) {
		buf_puts(json, ",\"locator\":");
		locator(json, in);
	}
	buf_puts(json, "}}");
}

/* The two answers about a block's operations share their beginning. */
static void operations_for_block(struct buf *json, struct in *in, int only_hashes)
{
	buf_puts(json, only_hashes
			       ? "{\"OperationHashesForBlocks\":{\"operation_hashes_for_block\":"
			       : "{\"OperationsForBlocks\":{\"operations_for_block\":");
	block_pass(json, in);
	buf_puts(json, ",\"operation_hashes_path\":");
	path(json, in);
	if (only_hashes) {
		buf_puts(json, ",\"operation_hashes\":");
		put_hashes(json, in, NET_HASH_OPERATION);
	} else {
		buf_puts(json, ",\"operations\":");
		operations(json, in);
	}
	buf_puts(json, "}}");
}

static void listed(struct buf *json, struct in *in, const char *before, enum net_hash kind)
{
	buf_puts(json, before);
	hash_block(json, in, kind);
	buf_puts(json, "}}");
}

int net_decode_peer(uint16_t tag, const uint8_t *body, size_t len, struct buf *json,
		    struct net_decode_error *error)
{
	struct in in = begin(body, len, error);
	size_t start = json->len;
	switch (tag) {
	case 0x01:
		buf_puts(json, "\"Disconnect\"");
		break;
	case 0x02:
		buf_puts(json, "\"Bootstrap\"");
		break;
	case 0x03:
		buf_puts(json, "{\"Advertise\":{\"id\":");
		points(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x04:
		swap(json, &in, "SwapRequest");
		break;
	case 0x05:
		swap(json, &in, "SwapAck");
		break;
	case 0x10:
		chain(json, &in, "{\"GetCurrentBranch\":{\"chain_id\":");
		buf_puts(json, "}}");
		break;
	case 0x11:
		chain(json, &in, "{\"CurrentBranch\":{\"chain_id\":");
		buf_puts(json, ",\"current_branch\":");
		locator(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x12:
		chain(json, &in, "{\"Deactivate\":{\"deactivate\":");
		buf_puts(json, "}}");
		break;
	case 0x13:
		chain(json, &in, "{\"GetCurrentHead\":{\"chain_id\":");
		buf_puts(json, "}}");
		break;
	case 0x14:
		current_head(json, &in);
		break;
	case 0x20:
		listed(json, &in, "{\"GetBlockHeaders\":{\"get_block_headers\":", NET_HASH_BLOCK);
		break;
	case 0x21:
		buf_puts(json, "{\"BlockHeader\":{\"block_header\":");
		header(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x30:
		listed(json, &in, "{\"GetOperations\":{\"get_operations\":", NET_HASH_OPERATION);
		break;
	case 0x31:
		buf_puts(json, "{\"Operation\":{\"operation\":");
		operation(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x40:
		listed(json, &in, "{\"GetProtocols\":{\"get_protocols\":", NET_HASH_PROTOCOL);
		break;
	case 0x41:
		buf_puts(json, "{\"Protocol\":{\"protocol\":");
		protocol(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x50:
		buf_puts(json,
			 "{\"GetOperationHashesForBlocks\":{\"get_operation_hashes_for_blocks\":");
		block_passes(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x51:
		operations_for_block(json, &in, 1);
		break;
	case 0x60:
		buf_puts(json, "{\"GetOperationsForBlocks\":{\"get_operations_for_blocks\":");
		block_passes(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x61:
		operations_for_block(json, &in, 0);
		break;
	case 0x70:
		chain(json, &in, "{\"GetCheckpoint\":{\"chain_id\":");
		buf_puts(json, "}}");
		break;
	case 0x71:
		chain(json, &in, "{\"Checkpoint\":{\"chain_id\":");
		buf_puts(json, ",\"header\":");
		header(json, &in);
		buf_puts(json, "}}");
		break;
	case 0x80:
		protocol_branch(json, &in, 0);
		break;
	case 0x81:
		protocol_branch(json, &in, 1);
		break;
	case 0x90:
		predecessor_header(json, &in, 0);
		break;
	case 0x91:
		predecessor_header(json, &in, 1);
		break;
	default:
		in_fail(&in, "unknown tag 0x%04x", tag);
	}
	return finish(&in, json, start, "the message");
}
