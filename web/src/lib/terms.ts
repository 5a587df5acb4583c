// SPDX-License-Identifier: Apache-2.0
// What each number means, in the words of the report's own definitions. A test compares them with docs and the command's words.

export const TERMS: Record<string, string> = {
	allocation:
		"One outermost successful call of the allocator (malloc, calloc, realloc, operator new and their kin). Bytes are the size that was asked for.",
	allocations: "Successful allocator calls, each outermost one counted once; a realloc is a free of the old block and an allocation of the new.",
	allocated: "All bytes that were asked for, whether they were freed later or not.",
	frees: "Frees of known blocks; free(NULL) is none.",
	messages: "Messages on the wire that the node's store holds, by their own clocks: sent and received, of all peers.",
	log_lines: "Log lines that the node's store holds, of all levels, by their own clocks.",
	foreign_frees: "Frees of blocks that the recording never saw made.",
	temporary:
		"Allocations freed before the same thread allocated anything else; the free inside a realloc counts. They belong to who allocated.",
	leaked: "Allocated and never freed when the recording ended. A cache looks the same: Growth tells them apart.",
	uncertain: "Blocks that were live when a free was lost, and never seen freed: perhaps leaked, perhaps not.",
	peak: "Bytes live at the first moment at which the sum of all live requested bytes was highest.",
	live: "Bytes that were asked for and not yet freed at the chosen moment.",
	rss: "Memory of the process that is in RAM, as the kernel counts it (VmRSS): heap, code, files, stacks, everything.",
	peak_rss: "The kernel's own highest RSS of the process (VmHWM), read before it ended.",
	anon: "The part of RSS that no file stands behind (RssAnon): heap, stacks, data that was written to.",
	file: "The part of RSS that files stand behind (RssFile): code, libraries, mapped files.",
	shmem: "The part of RSS that is shared memory (RssShmem): shm, memfd, tmpfs, shared anonymous mappings.",
	swap: "Memory of the process that was written to swap (VmSwap): beside RSS, not in it.",
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
	age: "How long ago, on average over the bytes, what lives there was allocated: at the moment that is looked at, at the peak, or at the end.",
	temporary_share: "Of the allocations whose call stack passes through here, those that were temporary.",
	inlined: "The compiler put this function into its caller: it has no frame of its own.",
	lifetime: "From the allocation to the free; a block never freed lives to the end of the recording.",
	growth: "Live bytes gained an hour, with the confidence of the straight line through the moments looked at.",
	size: "Bytes asked for by one allocation.",
	unexplained_line: "Resident pages for which nothing gave evidence, and what changed between the kernel's figures and the list of pages. The lines and this one add up to RSS exactly.",
	occupancy: "Pages on which some block lives, by how much of them is live. What is free on nearly empty pages cannot be given back while the last block there lives.",
	attributed: "Pages whose call stack is known: the stack for which the kernel handed the page out.",
	estimate: "What the samples stand for, with the half width of its 95 % interval.",
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
	peak_allocations: { label: "blocks at peak", term: "peak", unit: "blocks" },
	live_bytes: { label: "live", term: "live", unit: "bytes" },
	live_allocations: { label: "live blocks", term: "live", unit: "blocks" },
	uncertain_allocations: { label: "uncertain", term: "uncertain", unit: "blocks" },
};

/** CLASSES - the lines of the balance sheet (docs/explain.md). */
export const CLASSES: Record<string, { label: string; text: string }> = {
	"heap-live": { label: "live blocks", text: "Requested bytes, on resident pages, of blocks that were allocated and not yet freed." },
	"heap-waste": { label: "rounding of blocks", text: "What blocks take beyond the size that was asked for." },
	"allocator-free-pages": { label: "free pages the allocator keeps", text: "Whole pages without any live block: they could be given back at once." },
	"allocator-holes": { label: "holes", text: "Free, but on a page with a live block: they go back only when the blocks that hold them do." },
	"allocator-caches": { label: "allocator's caches", text: "Freed, but kept for a thread or a size, to be handed out again quickly." },
	"allocator-metadata": { label: "allocator's own tables", text: "Headers and tables with which the allocator keeps its books." },
	"runtime-heap": { label: "language runtime's heap", text: "Memory that a runtime (CPython, Go, HotSpot, V8) manages by itself, live and free together where it cannot be told apart." },
	"anonymous-mmap": { label: "mapped by the program", text: "Anonymous memory that the program's own calls of mmap and brk asked for." },
	"named-regions": { label: "named regions", text: "Mappings that the program gave a name." },
	"thread-stacks": { label: "thread stacks", text: "Stacks of the main thread and of all others, as far as they were touched." },
	"program-and-library-data": { label: "data of program and libraries", text: "Private pages of executables and shared libraries: variables, relocations." },
	"file-mappings": { label: "files", text: "Pages of mapped files, code among them: shared with others, and the kernel can drop them." },
	"shared-memory": { label: "shared memory", text: "memfd, System V, POSIX shared memory, shared anonymous mappings." },
	"huge-pages": { label: "rounding of huge pages", text: "Parts of transparent huge pages that hold only zeroes: there because the page is large." },
	"kernel-instrumentation": { label: "kernel's own mappings", text: "vdso, perf and BPF maps, io_uring." },
	byteledger: { label: "byteledger itself", text: "What recording costs: not there without it." },
};

/** KINDS, REASONS - of resident pages (docs/pages.md). */
export const KINDS: Record<string, { label: string; text: string }> = {
	anon: { label: "anonymous", text: "Anonymous memory and private copies of file pages; the kernel's RssAnon." },
	shmem: { label: "shared", text: "Shared anonymous memory, memfd, tmpfs, System V; the kernel's RssShmem." },
	file: { label: "file", text: "Mapped pages of files; the kernel's RssFile." },
	swap: { label: "swapped", text: "Anonymous memory that is swapped out; it keeps the stack that it had. Beside RSS." },
	hugetlb: { label: "hugetlb", text: "Mapped pages of the pool of huge pages. Beside RSS." },
	cache: { label: "page cache", text: "Page cache that this process caused and has not mapped: files read and written. Beside RSS." },
	kernel: { label: "kernel", text: "The kernel's own pages that this process caused: page tables, slab, pipes, sockets. Beside RSS." },
	held: { label: "held", text: "Neither mapped nor cache and yet not free. Beside RSS." },
};
export const REASONS: Record<string, { label: string; text: string }> = {
	before_attach: { label: "there before", text: "The page was there when counting began; this can only shrink." },
	other_task: { label: "another process", text: "No allocation for this process was seen: another process wrote into it." },
	not_seen: { label: "not seen", text: "Of a file or of shared memory, mapped without a fault that was seen." },
	pool: { label: "huge page pool", text: "From the pool of huge pages: of those no allocation tells." },
	table_full: { label: "table full", text: "The kernel's table of stacks was full (--stacks)." },
	walk_busy: { label: "walk busy", text: "The walk was interrupted by walks." },
	no_frames: { label: "kernel worker", text: "Allocated by a worker thread of the kernel for the process." },
};

/** STOPS - why a stack ends early, as the manual of `report` says it. */
export const STOPS: Record<string, string> = {
	gap: "The module has unwind tables, but not for this code.",
	no_module: "Code of no file, such as a just-in-time compiler makes, without frame pointers that lead on.",
	guessed: "Code without tables whose frame pointers seem to lead on: what lies behind it is likely, not certain.",
	unsupported: "The tables ask for what the stepper cannot do.",
	unreadable: "A caller's place lies outside the thread's stack.",
	no_progress: "A caller would lie no further out than what it called: the stack was overwritten, or its tables are wrong.",
	too_deep: "More than 65,535 frames.",
	node_table_full: "The table through which the program tells its stacks had no more room.",
	no_scratch: "There was no memory to walk this thread's stack with.",
	stacks_off: "Stacks were not asked for.",
	file_damaged: "The stack was described in a part of the file that cannot be read.",
};
