/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metrics.h - lines of Prometheus' text format 0.0.4. One handler of /metrics calls its
 * contributors one after the other; each writes whole families with these.
 */
#ifndef OUT_METRICS_H
#define OUT_METRICS_H

#include <stdint.h>

#include "base/buf.h"

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/**
 * metric_family() - HELP and TYPE; all lines of the family follow before the next one. @type:
 * counter, gauge, histogram.
 */
void metric_family(struct buf *out, const char *name, const char *type, const char *help);
/** metric_begin() - a line's name; then labels, then one value. */
void metric_begin(struct buf *out, const char *name);
/** metric_label() - @value is escaped; bytes of it that are not UTF-8 are spelled \xNN. */
void metric_label(struct buf *out, const char *key, const char *value);
void metric_u64(struct buf *out, uint64_t value);
void metric_double(struct buf *out, double value);

#endif
