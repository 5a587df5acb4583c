/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/region.h"

#include <string.h>

#include "base/cleanup.h"

const char *region_class_name(unsigned class)
{
	static const char *const names[] = {
		[REGION_ALLOCATOR] = "allocator",
		[REGION_RUNTIME] = "runtime",
		[REGION_NAMED] = "named",
		[REGION_STACK] = "stack",
		[REGION_STACK_CACHE] = "stack-cache",
		[REGION_ANONYMOUS] = "anonymous",
		[REGION_JIT] = "jit",
		[REGION_PROGRAM_TEXT] = "program-text",
		[REGION_PROGRAM_RODATA] = "program-rodata",
		[REGION_PROGRAM_DATA] = "program-data",
		[REGION_PROGRAM_BSS] = "program-bss",
		[REGION_LIBRARY_TEXT] = "library-text",
		[REGION_LIBRARY_RODATA] = "library-rodata",
		[REGION_LIBRARY_DATA] = "library-data",
		[REGION_LIBRARY_BSS] = "library-bss",
		[REGION_MAPPED_FILE] = "mapped-file",
		[REGION_MEMFD] = "memfd",
		[REGION_SYSV_SHM] = "sysv-shm",
		[REGION_POSIX_SHM] = "posix-shm",
		[REGION_SHARED_ANONYMOUS] = "shared-anonymous",
		[REGION_HUGETLB] = "hugetlb",
		[REGION_DEVICE] = "device",
		[REGION_KERNEL_BUFFER] = "kernel-buffer",
		[REGION_KERNEL_HELPER] = "kernel-helper",
		[REGION_INSTRUMENTATION] = "instrumentation",
		[REGION_BYTELEDGER] = "byteledger",
		[REGION_RESERVED] = "reserved",
	};
	_Static_assert(ARRAY_LEN(names) == REGION_CLASS_COUNT, "a class without a name");
	return class < ARRAY_LEN(names) ? names[class] : "?";
}

const char *region_how_name(unsigned how)
{
	static const char *const names[] = {
		[HOW_KERNEL_NAME] = "kernel name",
		[HOW_VMA_NAME] = "VMA name",
		[HOW_REGISTRY] = "libbyteledger name",
		[HOW_REGISTRY_PART] = "libbyteledger name, pages counted",
		[HOW_PRCTL] = "name seen by the prctl probe",
		[HOW_OWNER_STACK] = "stack that mapped it",
		[HOW_FLAGS] = "permissions and flags",
		[HOW_PATH] = "path",
		[HOW_ELF_SEGMENT] = "ELF program headers",
		[HOW_ELF_NEIGHBOUR] = "next to a module",
		[HOW_STACK_POINTER] = "stack pointer of a thread",
		[HOW_THREAD_DESCRIPTOR] = "thread descriptor",
		[HOW_GUARD] = "shape, with a guard below",
		[HOW_ALLOCATOR] = "allocator's structures",
		[HOW_CHUNK_HEADER] = "malloc chunk headers",
	};
	_Static_assert(ARRAY_LEN(names) == HOW_COUNT, "a way of knowing without a name");
	return how < ARRAY_LEN(names) ? names[how] : "?";
}

const char *region_perms(const struct region *region, char to[5])
{
	to[0] = region->perms & REGION_READ ? 'r' : '-';
	to[1] = region->perms & REGION_WRITE ? 'w' : '-';
	to[2] = region->perms & REGION_EXEC ? 'x' : '-';
	to[3] = region->perms & REGION_SHARED ? 's' : 'p';
	to[4] = '\0';
	return to;
}

const char *region_flags_text(const struct region *r, char to[REGION_FLAGS_TEXT])
{
	static const char words[][3] = { "sh", "gd", "pf", "io", "mm", "dd", "lo", "ht", "hg",
					 "nh", "mg", "nr", "ac", "wf", "ss", "sl", "gu" };
	size_t len = 0;
	to[0] = '\0';
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		if (!(r->flags >> i & 1))
			continue;
		if (len)
			to[len++] = ' ';
		memcpy(to + len, words[i], 3);
		len += 2;
	}
	return to;
}
