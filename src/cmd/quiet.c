/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/quiet.h"

#include "base/text.h"
#include "cmd/cmd.h"

void quiet_take(struct suppress_files *given, const char *arg)
{
	if (given->count == SUPPRESS_FILES_MAX)
		cmd_usage("too many --suppress: one file may hold all patterns");
	given->files[given->count++] = arg;
}

void quiet_tell(const struct suppress *suppress)
{
	uint64_t allocations, bytes;
	char x[TEXT_NUMBER_MAX], y[TEXT_NUMBER_MAX];
	suppress_sum(suppress, &allocations, &bytes);
	if (allocations)
		cmd_say("suppressed: %s of leaks in %s block%s", text_bytes(x, bytes),
			text_grouped(y, allocations), allocations == 1 ? "" : "s");
}
