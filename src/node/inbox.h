/* SPDX-License-Identifier: Apache-2.0 */
/*
 * inbox.h - what came for a connection while it was searching: data, gaps and its end, in order.
 * One thread.
 */
#ifndef NODE_INBOX_H
#define NODE_INBOX_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum node_event_kind { NODE_EVENT_DATA, NODE_EVENT_GAP, NODE_EVENT_END };

/** @len: of the bytes behind it, for NODE_EVENT_DATA; else @lost bytes. */
struct node_event {
	uint64_t time_ns, lost;
	size_t len;
	enum node_event_kind kind;
	int outgoing;
};

/** Zeroed is empty and valid. */
struct node_inbox {
	struct buf events;
	size_t at;
};

/** node_inbox_put() - keep an event, its bytes copied; -ENOMEM. */
int node_inbox_put(struct node_inbox *inbox, const struct node_event *event, const void *bytes);
/** node_inbox_take() - 1 and the next one, *@bytes lent until the next call; 0 = there is none. */
int node_inbox_take(struct node_inbox *inbox, struct node_event *event, const void **bytes);
/** node_inbox_bytes() - what it holds. */
size_t node_inbox_bytes(const struct node_inbox *inbox);
void node_inbox_fini(struct node_inbox *inbox);

#endif
