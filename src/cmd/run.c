/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"
#include "cmd/record.h"

int cmd_run(int argc, char **argv)
{
	return record_command(argc, argv, "run",
			      "Record where the memory of PROGRAM goes: every allocation with its "
			      "stack, resident size and mappings over time.",
			      1);
}
