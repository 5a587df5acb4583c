/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * send.h - a recording on its way to `byteledger gather`, over a stream socket; numbers are
 * little-endian. A connection carries one recording:
 *
 *    -> struct wire_send_hello      which one, and the token
 *    <- struct wire_send_answer     how many of its bytes are held there, or why not
 *    -> struct wire_send_frame ...  DATA with its bytes behind it, from where the answer said,
 *                                   without a gap; ALIVE while nothing comes; END or DROP
 *    <- struct wire_send_answer     to END and DROP: what is held now
 *
 * A recording is known by its file header, whose clocks and boot id no other one has: who lost the
 * connection says hello again and goes on behind what is held. The receiver may answer at any time
 * why it takes no more, and closes.
 */
#ifndef WIRE_SEND_H
#define WIRE_SEND_H

#include <stdint.h>

#define WIRE_SEND_PORT 17833
#define WIRE_SEND_MAGIC "BLTSEND\n"
#define WIRE_SEND_VERSION 1
#define WIRE_SEND_HEADER 64       /* of a recording */
#define WIRE_SEND_DATA_MAX 65536u /* bytes of one frame */
#define WIRE_SEND_ALIVE_S 10      /* a sender that has nothing to say says so that often */

struct wire_send_hello {
	uint8_t magic[8];
	uint32_t version;
	/* of the process that is recorded, as its own machine numbers it */
	uint32_t pid;
	uint8_t header[WIRE_SEND_HEADER];
	/* what its file is called there; ends in a NUL, as the token does; "" = none */
	char name[176];
	char token[256];
};
_Static_assert(sizeof(struct wire_send_hello) == 512, "wire_send_hello");

enum wire_send_status {
	WIRE_SEND_OK = 0,
	WIRE_SEND_TOKEN,    /* not the one that is asked for */
	WIRE_SEND_VERSIONS, /* of a version that is not understood */
	WIRE_SEND_BUSY,     /* as many as can be are received: later */
	WIRE_SEND_FULL,     /* no room on the disk: later */
	WIRE_SEND_REFUSED   /* what came made no sense, or cannot be written */
};

struct wire_send_answer {
	uint8_t magic[8];
	/* enum wire_send_status */
	uint32_t status;
	uint32_t reserved;
	/* bytes of the recording that are there */
	uint64_t held;
};
_Static_assert(sizeof(struct wire_send_answer) == 24, "wire_send_answer");

enum wire_send_type {
	WIRE_SEND_DATA = 1, /* bytes follow, which belong at offset */
	WIRE_SEND_ALIVE,
	WIRE_SEND_END, /* offset = length of the recording: that is all of it */
	WIRE_SEND_DROP /* it held nothing worth keeping, and was removed by its recorder */
};

struct wire_send_frame {
	/* enum wire_send_type */
	uint32_t type;
	uint32_t bytes;
	uint64_t offset;
};
_Static_assert(sizeof(struct wire_send_frame) == 16, "wire_send_frame");

#endif
