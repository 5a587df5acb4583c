/* SPDX-License-Identifier: Apache-2.0 */
#include "node/inbox.h"

#include <errno.h>
#include <string.h>

int node_inbox_put(struct node_inbox *inbox, const struct node_event *event, const void *bytes)
{
	size_t before = inbox->events.len;
	buf_put(&inbox->events, event, sizeof(*event));
	if (event->len)
		buf_put(&inbox->events, bytes, event->len);
	if (!buf_failed(&inbox->events))
		return 0;
	inbox->events.failed = 0;
	inbox->events.len = before;
	return -ENOMEM;
}

int node_inbox_take(struct node_inbox *inbox, struct node_event *event, const void **bytes)
{
	if (inbox->at == inbox->events.len) {
		/* what one burst needed is not kept */
		buf_fini(&inbox->events);
		inbox->at = 0;
		return 0;
	}
	const char *p = inbox->events.data + inbox->at;
	memcpy(event, p, sizeof(*event));
	*bytes = p + sizeof(*event);
	inbox->at += sizeof(*event) + event->len;
	return 1;
}

size_t node_inbox_bytes(const struct node_inbox *inbox)
{
	return inbox->events.len - inbox->at;
}

void node_inbox_fini(struct node_inbox *inbox)
{
	buf_fini(&inbox->events);
	inbox->at = 0;
}
