/* SPDX-License-Identifier: Apache-2.0 */
#include "model/log.h"

#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

const char *log_level_name(unsigned level)
{
	switch (level) {
	case LOG_LEVEL_TRACE:
		return "Trace";
	case LOG_LEVEL_DEBUG:
		return "Debug";
	case LOG_LEVEL_INFO:
		return "Info";
	case LOG_LEVEL_NOTICE:
		return "Notice";
	case LOG_LEVEL_WARNING:
		return "Warning";
	case LOG_LEVEL_ERROR:
		return "Error";
	case LOG_LEVEL_FATAL:
		return "Fatal";
	default:
		return NULL;
	}
}

enum log_level log_level_parse(const char *word, size_t len)
{
	static const struct {
		const char *word;
		enum log_level level;
	} words[] = {
		{ "trace", LOG_LEVEL_TRACE },    { "trce", LOG_LEVEL_TRACE },
		{ "debug", LOG_LEVEL_DEBUG },    { "debg", LOG_LEVEL_DEBUG },
		{ "info", LOG_LEVEL_INFO },      { "notice", LOG_LEVEL_NOTICE },
		{ "noti", LOG_LEVEL_NOTICE },    { "warning", LOG_LEVEL_WARNING },
		{ "warn", LOG_LEVEL_WARNING },   { "error", LOG_LEVEL_ERROR },
		{ "erro", LOG_LEVEL_ERROR },     { "err", LOG_LEVEL_ERROR },
		{ "fatal", LOG_LEVEL_FATAL },    { "crit", LOG_LEVEL_FATAL },
		{ "critical", LOG_LEVEL_FATAL }, { "emergency", LOG_LEVEL_FATAL },
		{ "alert", LOG_LEVEL_FATAL },
	};
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strlen(words[i].word) == len && strncasecmp(words[i].word, word, len) == 0)
			return words[i].level;
	}
	return 0;
}
