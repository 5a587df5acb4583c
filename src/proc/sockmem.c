/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/sockmem.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/search.h"

#define ANSWER_BYTES 32768

struct wanted {
	const uint64_t *inodes;
	size_t count;
	uint64_t bytes;
};

static int is_wanted(const struct wanted *w, uint64_t inode)
{
	size_t beyond = search_beyond(w->inodes, w->count, sizeof(*w->inodes), 0, inode);
	return beyond && w->inodes[beyond - 1] == inode;
}

/*
 * The attribute's figures: what has come, what waits to go, what the socket took beyond, and what
 * came while it was locked.
 */
static void add(struct wanted *w, const struct rtattr *at, int left, unsigned short type)
{
	static const unsigned parts[] = { SK_MEMINFO_RMEM_ALLOC, SK_MEMINFO_WMEM_QUEUED,
					  SK_MEMINFO_OPTMEM, SK_MEMINFO_BACKLOG };
	uint32_t figures[SK_MEMINFO_VARS] = { 0 };
	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		size_t len = RTA_PAYLOAD(at);
		if (at->rta_type != type)
			continue;
		memcpy(figures, RTA_DATA(at), len < sizeof(figures) ? len : sizeof(figures));
		for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
			w->bytes += figures[parts[i]];
		/*
		 * of a Unix socket only what was allocated for sending is told: nothing is queued
		 * there, it lies at the other end
		 */
		if (!figures[SK_MEMINFO_WMEM_QUEUED])
			w->bytes += figures[SK_MEMINFO_WMEM_ALLOC];
		return;
	}
}

static void take(struct wanted *w, const struct nlmsghdr *head, int family)
{
	if (family == AF_UNIX) {
		const struct unix_diag_msg *one = NLMSG_DATA(head);
		if (head->nlmsg_len >= NLMSG_LENGTH(sizeof(*one)) && is_wanted(w, one->udiag_ino))
			add(w, (const struct rtattr *)(const void *)(one + 1),
			    (int)(head->nlmsg_len - NLMSG_LENGTH(sizeof(*one))), UNIX_DIAG_MEMINFO);
		return;
	}
	const struct inet_diag_msg *one = NLMSG_DATA(head);
	if (head->nlmsg_len >= NLMSG_LENGTH(sizeof(*one)) && is_wanted(w, one->idiag_inode))
		add(w, (const struct rtattr *)(const void *)(one + 1),
		    (int)(head->nlmsg_len - NLMSG_LENGTH(sizeof(*one))), INET_DIAG_SKMEMINFO);
}

/* Answers to a dump that was asked for. 0 at its end, or negative errno. */
static int listen_to(int fd, struct wanted *w, int family)
{
	_Alignas(struct nlmsghdr) char text[ANSWER_BYTES];
	for (;;) {
		ssize_t got = recv(fd, text, sizeof(text), 0);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got < 0 ? -errno : -EIO;
		size_t left = (size_t)got;
		for (const struct nlmsghdr *head = (const void *)text; NLMSG_OK(head, left);
		     head = NLMSG_NEXT(head, left)) {
			if (head->nlmsg_type == NLMSG_DONE)
				return 0;
			if (head->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *error = NLMSG_DATA(head);
				return head->nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) &&
						       error->error < 0
					       ? error->error
					       : -EIO;
			}
			if (head->nlmsg_type == SOCK_DIAG_BY_FAMILY)
				take(w, head, family);
		}
	}
}

static int ask(int fd, struct wanted *w, unsigned char family, unsigned char protocol)
{
	struct {
		struct nlmsghdr head;
		union {
			struct inet_diag_req_v2 inet;
			struct unix_diag_req un;
		};
	} what;
	memset(&what, 0, sizeof(what));
	what.head.nlmsg_type = SOCK_DIAG_BY_FAMILY;
	what.head.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	if (family == AF_UNIX) {
		what.head.nlmsg_len = NLMSG_LENGTH(sizeof(what.un));
		what.un.sdiag_family = AF_UNIX;
		what.un.udiag_states = ~0u;
		what.un.udiag_show = UDIAG_SHOW_MEMINFO;
	} else {
		what.head.nlmsg_len = NLMSG_LENGTH(sizeof(what.inet));
		what.inet.sdiag_family = family;
		what.inet.sdiag_protocol = protocol;
		what.inet.idiag_ext = 1u << (INET_DIAG_SKMEMINFO - 1);
		what.inet.idiag_states = ~0u;
	}
	if (send(fd, &what, what.head.nlmsg_len, 0) < 0)
		return -errno;
	return listen_to(fd, w, family);
}

uint64_t sockmem_of(const uint64_t *inodes, size_t count)
{
	static const struct {
		unsigned char family, protocol;
	} kinds[] = { { AF_INET, IPPROTO_TCP }, { AF_INET6, IPPROTO_TCP },
		      { AF_INET, IPPROTO_UDP }, { AF_INET6, IPPROTO_UDP },
		      { AF_UNIX, 0 },           { AF_INET, IPPROTO_RAW },
		      { AF_INET6, IPPROTO_RAW } };
	struct wanted w = { inodes, count, 0 };
	int told = 0;
	if (!count)
		return 0;
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
	if (fd < 0)
		return UINT64_MAX;
	/* the kernel answers at once, or not at all */
	const struct timeval most = { .tv_sec = 2 };
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
	/* a kernel without one of the modules tells of the others */
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		told |= ask(fd, &w, kinds[i].family, kinds[i].protocol) == 0;
	close(fd);
	return told ? w.bytes : UINT64_MAX;
}
