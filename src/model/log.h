/* SPDX-License-Identifier: Apache-2.0 */
/*
 * log.h - levels of a node's log lines. Producers are net/ and source/, consumers store/ and api/.
 */
#ifndef MODEL_LOG_H
#define MODEL_LOG_H

#include <stddef.h>

/** Numbers are the store's and never change. */
enum log_level {
	LOG_LEVEL_TRACE = 1,
	LOG_LEVEL_DEBUG = 2,
	LOG_LEVEL_INFO = 4,
	LOG_LEVEL_NOTICE = 8,
	LOG_LEVEL_WARNING = 16,
	LOG_LEVEL_ERROR = 32,
	LOG_LEVEL_FATAL = 64
};

/** log_level_name() - "Trace" ... "Fatal", the API's spelling; NULL for other numbers. */
const char *log_level_name(unsigned level);
/**
 * log_level_parse() - a word of any case, with the short forms nodes use (warn, crit, debg ...); 0
 * = unknown.
 */
enum log_level log_level_parse(const char *word, size_t len);

#endif
