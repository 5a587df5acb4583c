/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/cmd.h"
#include "cmd/record.h"

int cmd_heap(int argc, char **argv)
{
	return record_command(argc, argv, "heap",
			      "Record every allocation of PROGRAM with its stack.", 0);
}
