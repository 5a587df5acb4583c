/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as the code that a call returns to. What is read has to be a frame that a recipe expresses, or none. */
#include <stddef.h>

#include "unwind/epilogue.h"
#include "unwind/rule.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct unwind_epilogue e;
	uint64_t rule;

	if (size > UNWIND_EPILOGUE_BYTES || unwind_epilogue(data, (uint32_t)size, &e))
		return 0;
	rule = unwind_epilogue_rule(&e);
	if (e.cfa < 8 || (rule != WIRE_RULE_GAP && unwind_rule_cfa(rule) != e.cfa))
		__builtin_trap();
	return 0;
}
