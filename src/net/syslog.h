/* SPDX-License-Identifier: Apache-2.0 */
/*
 * syslog.h - a node's log line out of a syslog datagram: RFC 5424, RFC 3164, or no header at all;
 * the text in either of the TezEdge form, the two Octez forms, or anything else. Never fails for
 * UTF-8 text: what is not understood stays whole.
 */
#ifndef NET_SYSLOG_H
#define NET_SYSLOG_H

#include <stddef.h>
#include <stdint.h>

#include "model/log.h"

/** struct log_line - pointers lie inside the datagram. */
struct log_line {
	/* 0 = the header had none */
	uint64_t time_ns;
	enum log_level level;
	/* Octez section, "" where there is none */
	const char *section;
	size_t section_len;
	const char *message;
	size_t message_len;
};

/**
 * net_syslog_parse() - @now_ns: wall clock of arrival; gives an RFC 3164 time its year and is the
 * time where there is none. Return: 0, or -EILSEQ where the datagram is not UTF-8 (the caller
 * counts it). Any thread, O(len).
 */
int net_syslog_parse(const char *datagram, size_t len, uint64_t now_ns, struct log_line *line);

#endif
