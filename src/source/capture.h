/* SPDX-License-Identifier: Apache-2.0 */
/*
 * capture.h - recorded network traffic as a source: pcap and pcapng files (libpcap, TCP put
 * together by net/tcp.h) and .jsonl files of payloads in order. File types are told by content.
 */
#ifndef SOURCE_CAPTURE_H
#define SOURCE_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/**
 * What a capture says of a connection when it begins; addresses are "ip:port" or NULL where the
 * file does not tell.
 */
struct capture_conn {
	/* the capture's number, any value */
	uint64_t conn;
	/* wall clock where the file has it */
	uint64_t time_ns;
	const char *initiator_addr, *responder_addr;
	/* the beginning is not in the capture */
	int attached_late;
};

/** struct capture_sink - takes a capture in order. Negative errno stops the reading. */
struct capture_sink {
	int (*open)(struct capture_sink *sink, const struct capture_conn *conn, struct err *err);
	int (*data)(struct capture_sink *sink, uint64_t conn, int from_initiator, uint64_t time_ns,
		    const void *bytes, size_t len, struct err *err);
	/** @lost 0 = an unknown number of bytes. */
	int (*gap)(struct capture_sink *sink, uint64_t conn, int from_initiator, uint64_t time_ns,
		   uint64_t lost, struct err *err);
	int (*close)(struct capture_sink *sink, uint64_t conn, uint64_t time_ns, const char *reason,
		     struct err *err);
};

/** struct capture_stats - what was read and what was passed over. */
struct capture_stats {
	uint64_t records, payload_bytes, not_tcp, damaged, fragments;
};

/**
 * capture_read() - read the whole of @path into @sink; every connection opened is closed before the
 * return. Return: 0, or negative errno with @err; a file that ends early is read up to its end and
 * counted in stats.damaged.
 */
int capture_read(const char *path, struct capture_sink *sink, struct capture_stats *stats,
		 struct err *err);

/* The two kinds, for capture_read(). */
int capture_read_jsonl(const char *path, struct capture_sink *sink, struct capture_stats *stats,
		       struct err *err);
int capture_read_pcap(const char *path, struct capture_sink *sink, struct capture_stats *stats,
		      struct err *err);

#endif
