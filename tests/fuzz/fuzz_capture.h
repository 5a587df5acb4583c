/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_capture.h - what every capture must keep to, whatever it is fed: offsets of a direction are without a hole (the next
 * one is where data or gap before it ended), and what is not open gets nothing.
 */
#ifndef TESTS_FUZZ_CAPTURE_H
#define TESTS_FUZZ_CAPTURE_H

#include <stdint.h>
#include <stdlib.h>

#include "source/netcap.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CONNS 256

struct checker {
	struct netcap_sink sink;
	uint64_t opened, closed;
	uint64_t offset[CONNS][2];
	/* 1 open, 2 closed */
	uint8_t state[CONNS];
};

static inline struct checker *of(struct netcap_sink *sink, uint64_t conn)
{
	struct checker *checker = (struct checker *)sink;
	if (conn >= CONNS || checker->state[conn] != 1)
		abort();
	return checker;
}

static inline int on_open(struct netcap_sink *sink, const struct netcap_conn *conn, struct err *err)
{
	struct checker *checker = (struct checker *)sink;
	(void)err;
	if (conn->conn != checker->opened++ || conn->conn >= CONNS)
		abort();
	checker->state[conn->conn] = 1;
	return 0;
}

static inline int on_data(struct netcap_sink *sink, uint64_t conn, int out, uint64_t time_ns,
			  uint64_t offset, const void *bytes, size_t len, struct err *err)
{
	uint64_t *next = &of(sink, conn)->offset[conn][out];
	volatile uint8_t last = ((const uint8_t *)bytes)[len - 1];
	(void)time_ns, (void)err, (void)last;
	if (!len || offset != *next)
		abort();
	*next += len;
	return 0;
}

static inline int on_gap(struct netcap_sink *sink, uint64_t conn, int out, uint64_t time_ns,
			 uint64_t offset, uint64_t lost, enum netcap_gap why, struct err *err)
{
	uint64_t *next = &of(sink, conn)->offset[conn][out];
	(void)time_ns, (void)err;
	if (!lost || offset != *next || !netcap_gap_text(why)[0])
		abort();
	*next += lost;
	return 0;
}

static inline int on_close(struct netcap_sink *sink, uint64_t conn, uint64_t time_ns,
			   const char *reason, struct err *err)
{
	struct checker *checker = of(sink, conn);
	(void)time_ns, (void)err;
	if (!reason[0])
		abort();
	checker->state[conn] = 2;
	checker->closed++;
	return 0;
}

static inline void checker_init(struct checker *checker)
{
	*checker = (struct checker){ .sink = { on_open, on_data, on_gap, on_close, NULL } };
}

#endif
