// SPDX-License-Identifier: Apache-2.0
// What each number means, in the words of the report's own definitions. A test compares them with docs and the command's words.

export const TERMS: Record<string, string> = {
	allocation:
		"One outermost successful call of the allocator (malloc, calloc, realloc, operator new and their kin). Bytes are the size that was asked for.",
	allocations: "Successful allocator calls, each outermost one counted once; a realloc is a free of the old block and an allocation of the new.",
	allocated: "All bytes that were asked for, whether they were freed later or not.",
	frees: "Frees of known blocks; free(NULL) is none.",
	foreign_frees: "Frees of blocks that the recording never saw made.",
	temporary:
		"Allocations freed before the same thread allocated anything else; the free inside a realloc counts. They belong to who allocated.",
	leaked: "Allocated and never freed when the recording ended. A cache looks the same: Growth tells them apart.",
	uncertain: "Blocks that were live when a free was lost, and never seen freed: perhaps leaked, perhaps not.",
	peak: "Bytes live at the first moment at which the sum of all live requested bytes was highest.",
	live: "Bytes that were asked for and not yet freed at the chosen moment.",
	rss: "Memory of the process that is in RAM, as the kernel counts it (VmRSS): heap, code, files, stacks, everything.",
	peak_rss: "The kernel's own highest RSS of the process (VmHWM), read before it ended.",
	virtual: "Address space that the process reserved (VmSize); most of it need not be in RAM.",
	heap: "Requested bytes of all blocks that are live, without what the allocator adds.",
	threads: "Threads with at least one recorded event.",
	stacks: "Distinct call stacks that allocated.",
	runtime: "Length of the recording.",
	total: "Blocks whose call stack passes through here.",
	self: "Blocks that were asked for right here: the function called the allocator itself.",
	blocks: "How many blocks these bytes are; of costs that count calls, how many allocations.",
	of_all: "Share of everything selected.",
	of_shown: "Share of what the picture shows now.",
	of_parent: "Share of the box one level up.",
	everywhere: "All places of this function together; a block counts once however often the function stands in its stack.",
	base: "The same place in what it is compared with.",
	delta: "Now less then: + has grown, − has shrunk.",
	rest: "Bytes below that are not loaded yet.",
	unexplained: "Resident memory that this recording has no line for: allocator overhead, code, files, stacks. `byteledger explain` breaks it down.",
	lost: "Events that could not be recorded, by reason. Totals are too low by these.",
	partial: "Allocations whose call stack could not be walked to its end; they are counted, their outer callers are missing.",
	culled: "Blocks that were freed so soon that only their sums were kept: they are in all totals, not in lists of blocks.",
	sampled: "Only a sample of the allocations was recorded, each standing for more bytes: figures are estimates.",
	mapping: "Memory that the program itself mapped (mmap, brk), beside the heap and never inside its totals.",
	lifetime: "From the allocation to the free; a block never freed lives to the end of the recording.",
	growth: "Live bytes gained an hour, with the confidence of the straight line through the moments looked at.",
	size: "Bytes asked for by one allocation.",
};

export const COSTS: { value: string; label: string; term: string; unit: "bytes" | "blocks" }[] = [
	{ value: "peak", label: "peak", term: "peak", unit: "bytes" },
	{ value: "live", label: "live", term: "live", unit: "bytes" },
	{ value: "allocated", label: "allocated bytes", term: "allocated", unit: "bytes" },
	{ value: "allocations", label: "allocations", term: "allocations", unit: "blocks" },
	{ value: "temporary", label: "temporary", term: "temporary", unit: "blocks" },
	{ value: "leaked", label: "leaked", term: "leaked", unit: "bytes" },
];

/** COLUMNS - what a table's column is called, and the term behind it. */
export const COLUMNS: Record<string, { label: string; term: string; unit: "bytes" | "blocks" }> = {
	allocations: { label: "allocations", term: "allocations", unit: "blocks" },
	allocated_bytes: { label: "allocated", term: "allocated", unit: "bytes" },
	temporary_allocations: { label: "temporary", term: "temporary", unit: "blocks" },
	leaked_allocations: { label: "leaked blocks", term: "leaked", unit: "blocks" },
	leaked_bytes: { label: "leaked", term: "leaked", unit: "bytes" },
	peak_bytes: { label: "at peak", term: "peak", unit: "bytes" },
	live_bytes: { label: "live", term: "live", unit: "bytes" },
	live_allocations: { label: "live blocks", term: "live", unit: "blocks" },
	uncertain_allocations: { label: "uncertain", term: "uncertain", unit: "blocks" },
};
