/* SPDX-License-Identifier: Apache-2.0 */
/*
 * incoming.h - what a sender of a recording says (wire/send.h), from bytes as they come; a pure
 * function of them. They are a stranger's: whatever breaks a rule ends the conversation.
 */
#ifndef RECORDER_INCOMING_H
#define RECORDER_INCOMING_H

#include <stddef.h>
#include <stdint.h>

#include "wire/send.h"

/* One conversation; all 0 at first. */
struct incoming {
	uint8_t head[sizeof(struct wire_send_hello)];
	size_t have;
	int greeted;
	/* bytes of a frame that are still to come, and where they belong */
	uint32_t left;
	uint64_t at;
};

enum incoming_kind {
	INCOMING_HELLO = 1,
	INCOMING_DATA,
	INCOMING_ALIVE,
	INCOMING_END,
	INCOMING_DROP
};

struct incoming_item {
	enum incoming_kind kind;
	/* of a hello; its texts end. Lent until the next call */
	const struct wire_send_hello *hello;
	/* of data, lent from the input; of an end: where that is */
	const uint8_t *bytes;
	size_t count;
	uint64_t at;
};

/**
 * incoming_take() - the next thing that is said in the *@left bytes at *@from, which move on.
 * Return: 1 with @item; 0 all was taken, and more has to come; -EPROTO another version of this;
 * -EBADMSG no such thing.
 */
int incoming_take(struct incoming *in, const uint8_t **from, size_t *left,
		  struct incoming_item *item);

/**
 * incoming_answer() - the other way: what a receiver answers. Return: enum wire_send_status, with
 * *@held; -EPROTO no such thing.
 */
int incoming_answer(const struct wire_send_answer *answer, uint64_t *held);

#define INCOMING_NAME 128
/**
 * incoming_name() - what a stranger called its file, as the name of one in a folder of ours: no
 * slash, no leading dot, plain characters, .blt or .blt.NUMBER at its end.
 */
void incoming_name(const char *from, char to[INCOMING_NAME]);

#endif
