/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_syslog.c - a datagram from anybody: what is found lies inside it, and the level is one. */
#include <stdlib.h>

#include "net/syslog.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct log_line line;
	const char *text = (const char *)data;
	if (net_syslog_parse(text, size, 1700000000000000000u, &line) < 0)
		return 0;
	if (!log_level_name(line.level) || !line.time_ns || line.message < text ||
	    line.message_len > size || line.message + line.message_len > text + size ||
	    (line.section_len &&
	     (line.section < text || line.section + line.section_len > text + size)))
		abort();
	return 0;
}
