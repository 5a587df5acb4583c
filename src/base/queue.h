/* SPDX-License-Identifier: Apache-2.0 */
/*
 * queue.h - a bounded queue of byte records between threads: any number of producers, one consumer
 * that takes everything at once. A record is written in parts and comes out in one piece, whole
 * records in the order of queue_put().
 */
#ifndef BASE_QUEUE_H
#define BASE_QUEUE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"

struct queue;

/**
 * queue_new() - holds at most @max_bytes that were not taken (a record that is larger alone is let
 * in when empty).
 */
struct queue *queue_new(size_t max_bytes);
/** queue_free() - nobody may use it any more. */
void queue_free(struct queue *queue);
/**
 * queue_put() - append a record of @count parts. @wait_ms: how long to wait for room, 0 = not at
 * all, -1 = without end. Return: 0; -EAGAIN where there was no room in time; -EPIPE behind
 * queue_close(); -ENOMEM.
 */
int queue_put(struct queue *queue, const struct iovec *parts, size_t count, int wait_ms);
/**
 * queue_take() - wait up to @wait_ms for records, then swap all of them with @out (its content is
 * dropped). @since_ns: when the oldest was put, CLOCK_MONOTONIC. Return: number of records; 0 =
 * none in time; -EPIPE = closed and empty.
 */
long queue_take(struct queue *queue, struct buf *out, uint64_t *since_ns, int wait_ms);
/**
 * queue_next() - the next record of what was taken: lends it, advances @at (from 0); NULL at the
 * end.
 */
const void *queue_next(const struct buf *taken, size_t *at, size_t *len);
/** queue_close() - producers get -EPIPE from now on; what is in it can still be taken. */
void queue_close(struct queue *queue);
/** queue_fill() - bytes that wait now, and the most that ever did. */
void queue_fill(struct queue *queue, uint64_t *bytes, uint64_t *high_water);

#endif
