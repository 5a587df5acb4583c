/* SPDX-License-Identifier: Apache-2.0 */
/* log.h - the library's own log: raw writes, nothing of stdio, nothing allocated, errno kept. */
#ifndef PRELOAD_LOG_H
#define PRELOAD_LOG_H

#include "preload/sys.h"

enum log_level { LOG_TRACE, LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR, LOG_OFF };

/**
 * log_open() - @level by name ("trace" .. "error"), NULL: errors only; @path NULL: stderr. A log
 * that has grown beyond
 * @rotate bytes (0 = never) becomes PATH.initial once, PATH.old later.
 */
void log_open(const char *level, const char *path, uint64_t rotate) HIDDEN;

/** log_line() - one line, "[time] [pid tid] LVL text"; %s and %d (a long) are known. */
void log_line(enum log_level level, const char *text, ...) HIDDEN;

#endif
