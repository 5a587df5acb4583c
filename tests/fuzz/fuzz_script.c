/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_script.c - scripts over the blocks of a small recording: whatever a script is, its child ends within its time, and what comes out of the
 * pipe is lines and pictures within their bounds.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "script/script.h"

#define BLOCKS 100

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay(void *ctx, struct sink *sink, struct err *err)
{
	static const struct symbol symbol = { .function = "ns::work<int>(int)",
					      .file = "x.c",
					      .line = 7 };
	const struct def defs[] = {
		{ .kind = DEF_PROCESS, .process = { .pid = 7, .exe = "/bin/x" } },
		{ .kind = DEF_MODULE, .id = 1, .module = { .path = "/bin/x" } },
		{ .kind = DEF_THREAD, .id = 1, .thread = { .tid = 7, .name = "x" } },
		{ .kind = DEF_FRAME, .id = 1, .frame = { { 1 }, 16 } },
		{ .kind = DEF_SYMBOL, .id = 1, .symbol = { &symbol, 1 } },
		{ .kind = DEF_STACK, .id = 1, .stack = { .frame = { 1 } } },
	};
	(void)ctx;
	for (size_t i = 0; i < ARRAY_LEN(defs); i++)
		if (sink->define(sink, &defs[i], err) < 0)
			return -1;
	for (uint32_t i = 1; i <= BLOCKS; i++) {
		struct event ev = { .kind = EVENT_ALLOC,
				    .time_ns = i * 2000000ull,
				    .addr = 0x1000 * i,
				    .bytes = i,
				    .thread = { 1 },
				    .stack = { 1 },
				    .block = { i } };
		if (sink->put(sink, &ev, 1, err) < 0)
			return -1;
		ev.kind = EVENT_FREE;
		ev.time_ns += 1000000;
		if (i % 10 && sink->put(sink, &ev, 1, err) < 0)
			return -1;
	}
	return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct prof *names;
	static struct blocks *blocks;
	static struct block_group groups[16];
	static const struct script_map map = {
		{ .id = 1, .addr = 0x1000, .bytes = 0x10000, .freed_ns = BLOCK_NEVER, .stack = 1 },
		3,
		0
	};
	struct err err = { 0 };
	if (!blocks) {
		const struct query_source source = { .run = replay };
		names = prof_new(&err);
		if (!names || replay(NULL, prof_sink(names), &err) < 0 ||
		    prof_stack_count(names) > ARRAY_LEN(groups) ||
		    !(blocks = blocks_new(&source, names, &err)))
			abort();
	}
	const struct script_data of = { .blocks = blocks,
					.names = names,
					.groups = groups,
					.maps = &map,
					.map_count = 1,
					.length_ns = 300000000 };
	const struct script_opt opt = { .cpu_seconds = 1,
					.wall_seconds = 5,
					.memory_bytes = 16u << 20 };
	struct script_result result;
	size_t text = 0, pictures = 0;
	int rc = script_run((const char *)data, size, &of, &opt, &result, &err);
	if (rc < 0)
		return rc == -ENOENT || rc == -EMSGSIZE || rc == -EINVAL ? 0 : (abort(), 0);
	if (result.count > SCRIPT_OUTPUTS_MAX || result.elapsed_seconds > 30 ||
	    result.ok == (result.message != NULL))
		abort();
	for (size_t i = 0; i < result.count; i++) {
		if (strlen(result.outputs[i].text) > result.outputs[i].len)
			abort();
		*(result.outputs[i].path ? &pictures : &text) += result.outputs[i].len;
	}
	if (text > SCRIPT_TEXT_MAX || pictures > SCRIPT_PICTURES_MAX)
		abort();
	script_result_fini(&result);
	return 0;
}
