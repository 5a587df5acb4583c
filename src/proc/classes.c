/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/classes.h"

#include <string.h>
#include <strings.h>

static const struct {
	const char *about;
	int open;
} abouts[REGION_CLASS_COUNT] = {
	[REGION_ALLOCATOR] = { "memory that an allocator took: blocks, what it keeps free, its "
			       "books",
			       1 },
	[REGION_RUNTIME] = { "heap and tables of a language runtime", 1 },
	[REGION_NAMED] = { "named by the program (prctl or libbyteledger); the label is that name",
			   1 },
	[REGION_STACK] = { "stacks of live threads", 0 },
	[REGION_STACK_CACHE] = { "stacks of threads that ended, kept for the next", 0 },
	[REGION_ANONYMOUS] = { "private memory that nothing names: mmap() by the program itself",
			       1 },
	[REGION_JIT] = { "executable memory that no file backs", 0 },
	[REGION_PROGRAM_TEXT] = { "the executable's code", 1 },
	[REGION_PROGRAM_RODATA] = { "the executable's constants", 1 },
	[REGION_PROGRAM_DATA] = { "the executable's variables", 1 },
	[REGION_PROGRAM_BSS] = { "the executable's variables that start as zero", 1 },
	[REGION_LIBRARY_TEXT] = { "code of libraries; the label is the file's name", 1 },
	[REGION_LIBRARY_RODATA] = { "constants of libraries", 1 },
	[REGION_LIBRARY_DATA] = { "variables of libraries", 1 },
	[REGION_LIBRARY_BSS] = { "variables of libraries that start as zero", 1 },
	[REGION_MAPPED_FILE] = { "other files; the label is the path", 1 },
	[REGION_MEMFD] = { "memfd; the label is its name", 1 },
	[REGION_SYSV_SHM] = { "System V shared memory; the label is its key", 1 },
	[REGION_POSIX_SHM] = { "POSIX shared memory (/dev/shm)", 1 },
	[REGION_SHARED_ANONYMOUS] = { "shared with children, without a file", 0 },
	[REGION_HUGETLB] = { "huge pages of a pool; no part of RSS", 1 },
	[REGION_DEVICE] = { "buffers and apertures of devices", 1 },
	[REGION_KERNEL_BUFFER] = { "io_uring, perf, BPF and other buffers of the kernel", 1 },
	[REGION_KERNEL_HELPER] = { "vdso, vvar, vsyscall", 0 },
	[REGION_INSTRUMENTATION] = { "trampolines of probes: measuring causes them", 0 },
	[REGION_BYTELEDGER] = { "byteledger itself", 1 },
	[REGION_RESERVED] = { "address space without access: guards, reservations", 1 },
};

const struct class_label class_labels[] = {
	{ REGION_ALLOCATOR, "heap (brk)",
	  "the heap at the program's end: glibc's main arena, mostly" },
	{ REGION_ALLOCATOR, "malloc arenas", "glibc's further arenas" },
	{ REGION_ALLOCATOR, "malloc large", "blocks that glibc maps one by one" },
	{ REGION_ALLOCATOR, "jemalloc", "extents of jemalloc" },
	{ REGION_ALLOCATOR, "jemalloc metadata", "its books" },
	{ REGION_ALLOCATOR, "tcmalloc", "spans of tcmalloc" },
	{ REGION_ALLOCATOR, "mimalloc", "segments of mimalloc" },
	{ REGION_ALLOCATOR, "PartitionAlloc", "super pages of chromium's allocator" },
	{ REGION_ALLOCATOR, "PartitionAlloc metadata", "its books" },
	{ REGION_ALLOCATOR, "musl malloc", "groups of musl's malloc" },
	{ REGION_RUNTIME, "CPython objects", "pools of small Python objects" },
	{ REGION_RUNTIME, "Go heap", "spans of the Go runtime" },
	{ REGION_RUNTIME, "Go stacks",
	  "spans of goroutines' stacks and of what the collector works with" },
	{ REGION_RUNTIME, "Go idle", "64 KiB and more between spans: free, kept or given back" },
	{ REGION_RUNTIME, "Go metadata", "its tables" },
	{ REGION_RUNTIME, "HotSpot heap", "the Java heap" },
	{ REGION_RUNTIME, "HotSpot class space", "compressed class pointers lead here" },
	{ REGION_BYTELEDGER, "byteledger's own memory",
	  "mapped by its library inside the program" },
	{ REGION_RUNTIME, "BEAM carriers", "what Erlang's allocators take from the system" },
	{ REGION_RUNTIME, "OCaml heap",
	  "pools of OCaml 5's domains: live or not yet swept; large blocks are malloc's" },
	{ REGION_RUNTIME, "OCaml minor heap", "where each domain of OCaml 5 makes new values" },
	{ REGION_RUNTIME, "SBCL heap", "the dynamic space of Steel Bank Common Lisp" },
	{ REGION_RUNTIME, "SBCL code and symbols", "its spaces that never move" },
	{ REGION_RUNTIME, "HotSpot metaspace", "what describes classes: methods, constants" },
	{ REGION_RUNTIME, "HotSpot code cache", "code compiled by the JVM" },
	{ REGION_RUNTIME, "HotSpot card table", "books of its garbage collector" },
	{ REGION_RUNTIME, ".NET heap",
	  "what its garbage collector manages: objects and free space" },
	{ REGION_RUNTIME, ".NET heap tables", "cards, bricks and marks of that collector" },
	{ REGION_RUNTIME, "V8 heap", "pages of JavaScript objects" },
	{ REGION_RUNTIME, "V8 code", "code compiled by V8" },
	{ REGION_RUNTIME, "Oilpan heap", "pages of the C++ objects that chromium collects" },
	{ REGION_RUNTIME, "Ruby heap", "pages of Ruby objects" },
	{ REGION_RUNTIME, "PHP heap", "chunks of the Zend allocator" },
	{ REGION_STACK, "main stack", "of the first thread" },
	{ REGION_STACK, "thread stacks", "of all others" },
	{ REGION_STACK_CACHE, "stack cache", "" },
	{ REGION_ANONYMOUS, "read-write", "" },
	{ REGION_ANONYMOUS, "read-only", "" },
	{ REGION_ANONYMOUS, "shadow stacks", "" },
	{ REGION_JIT, "writable code", "" },
	{ REGION_JIT, "code without a file", "" },
	{ REGION_JIT, "jit dump", "" },
	{ REGION_SHARED_ANONYMOUS, "shared anonymous", "" },
	{ REGION_KERNEL_HELPER, "vdso", "" },
	{ REGION_KERNEL_HELPER, "vvar", "" },
	{ REGION_KERNEL_HELPER, "vsyscall", "" },
	{ REGION_INSTRUMENTATION, "uprobe trampoline", "" },
	{ REGION_RESERVED, "no access", "" },
	{ REGION_RESERVED, "stack guards", "" },
	{ CLASS_BESIDE, "page tables", "of the process" },
	{ CLASS_BESIDE, "cgroup", "all that its cgroup is charged for" },
	{ CLASS_BESIDE, "cgroup working set",
	  "that less inactive page cache: what kubelet counts" },
	{ CLASS_BESIDE, "cgroup page cache", "" },
	{ CLASS_BESIDE, "cgroup slab", "" },
	{ CLASS_BESIDE, "cgroup sockets", "" },
	{ CLASS_BESIDE, "cgroup of the kernel", "page tables, slab, stacks and more" },
};
const size_t class_label_count = sizeof(class_labels) / sizeof(class_labels[0]);

const char *class_about(unsigned class)
{
	return class < REGION_CLASS_COUNT && abouts[class].about ? abouts[class].about : "";
}

int class_is_open(unsigned class)
{
	return class < REGION_CLASS_COUNT && abouts[class].open;
}

/*
 * Letters of which one of the two has more, and how far the rest is shared from the start: small is
 * near.
 */
static unsigned distance(const char *a, const char *b)
{
	unsigned char row[64];
	size_t m = strlen(a), n = strlen(b);
	if (m > 60 || n > 60)
		return 255;
	for (size_t j = 0; j <= n; j++)
		row[j] = (unsigned char)j;
	for (size_t i = 1; i <= m; i++) {
		unsigned char before = row[0];
		row[0] = (unsigned char)i;
		for (size_t j = 1; j <= n; j++) {
			unsigned char best = before;
			before = row[j];
			if (strncasecmp(a + i - 1, b + j - 1, 1) != 0)
				best++;
			best = row[j] + 1 < best ? (unsigned char)(row[j] + 1) : best;
			best = row[j - 1] + 1 < best ? (unsigned char)(row[j - 1] + 1) : best;
			row[j] = best;
		}
	}
	return row[n];
}

static int is_label_of(unsigned class, const char *label)
{
	for (size_t i = 0; i < class_label_count; i++)
		if (class_labels[i].class == class && strcmp(class_labels[i].label, label) == 0)
			return 1;
	return 0;
}

int classes_know(const char *name, const char **nearest)
{
	/* of "Foo" every letter would have to be another one: that is not near */
	unsigned length = (unsigned)strlen(name), near = length < 4 ? 2 : length / 3 + 2;
	unsigned least = near < 5 ? near : 5;
	*nearest = NULL;
	const char *so = strstr(name, ".so");
	size_t beside = strlen(CLASS_BESIDE_WORD);
	if (strncmp(name, CLASS_BESIDE_WORD, beside) == 0 &&
	    (!name[beside] ||
	     (name[beside] == '/' && is_label_of(CLASS_BESIDE, name + beside + 1))))
		return 1;
	if (name[0] == '/' || (so && (so[3] == '\0' || so[3] == '.')))
		return 1;
	for (unsigned class = 0; class < REGION_CLASS_COUNT; class ++) {
		const char *word = region_class_name(class);
		size_t len = strlen(word);
		if (strcmp(name, word) == 0)
			return 1;
		if (strncmp(name, word, len) == 0 && name[len] == '/' && name[len + 1] &&
		    (class_is_open(class) || is_label_of(class, name + len + 1)))
			return 1;
		unsigned far = distance(name, word);
		if (far < least) {
			least = far;
			*nearest = word;
		}
	}
	for (size_t i = 0; i < class_label_count; i++) {
		if (strcmp(name, class_labels[i].label) == 0)
			return 1;
		unsigned far = distance(name, class_labels[i].label);
		if (far < least) {
			least = far;
			*nearest = class_labels[i].label;
		}
	}
	return 0;
}
