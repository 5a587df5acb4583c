/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region.h - one mapping of a process: what the kernel says of it, and what it is.
 *
 * All sizes are bytes. Text fields are lent by whoever made the region; they hold whatever the
 * target chose (file names, VMA names): escape them before they reach a terminal (base/text.h).
 */
#ifndef PROC_REGION_H
#define PROC_REGION_H

#include <stddef.h>
#include <stdint.h>

/** What a mapping is; every mapping has exactly one, so that the classes add up to RSS. */
enum region_class {
	REGION_ALLOCATOR,    /* brk heap, malloc arenas, large mallocs, other allocators' memory */
	REGION_RUNTIME,      /* a language runtime's heap and tables (Go, HotSpot, V8, CPython) */
	REGION_NAMED,        /* named by the program: VMA name or libbyteledger's registry */
	REGION_STACK,        /* of a live thread */
	REGION_STACK_CACHE,  /* of threads that ended, kept for the next */
	REGION_ANONYMOUS,    /* private memory without a name; the label says what is known */
	REGION_JIT,          /* executable memory that no file backs */
	REGION_PROGRAM_TEXT, /* segments of the executable */
	REGION_PROGRAM_RODATA, /* mapped read-only (constants, symbol tables, relocated data) */
	REGION_PROGRAM_DATA,
	REGION_PROGRAM_BSS,
	REGION_LIBRARY_TEXT, /* segments of other ELF files */
	REGION_LIBRARY_RODATA,
	REGION_LIBRARY_DATA,
	REGION_LIBRARY_BSS,
	REGION_MAPPED_FILE, /* any other file */
	REGION_MEMFD,
	REGION_SYSV_SHM,
	REGION_POSIX_SHM,
	REGION_SHARED_ANONYMOUS,
	REGION_HUGETLB,         /* not part of RSS */
	REGION_DEVICE,          /* GPU buffers, device apertures */
	REGION_KERNEL_BUFFER,   /* io_uring, perf, BPF and KVM buffers */
	REGION_KERNEL_HELPER,   /* vdso, vvar, vsyscall */
	REGION_INSTRUMENTATION, /* uprobe trampolines: measuring causes them */
	REGION_BYTELEDGER,      /* this tool's own mappings in the target */
	REGION_RESERVED,        /* no access (PROT_NONE): guards, reservations */
	REGION_CLASS_COUNT
};

/** How a class or label is known, from the firmest to the weakest kind of evidence. */
enum region_how {
	HOW_KERNEL_NAME,   /* the kernel's own pseudo name: [heap], [stack], [vdso] */
	HOW_VMA_NAME,      /* prctl(PR_SET_VMA_ANON_NAME) */
	HOW_REGISTRY,      /* libbyteledger's names, whole mapping */
	HOW_REGISTRY_PART, /* the same for a part of a mapping, resident pages counted by pagemap */
	HOW_PRCTL,         /* a name that the kernel refused, seen by the prctl probe */
	HOW_OWNER_STACK,   /* the call stack that mapped it */
	HOW_FLAGS,         /* VmFlags or permissions */
	HOW_PATH,          /* the path alone */
	HOW_ELF_SEGMENT,   /* program headers of the module */
	HOW_ELF_NEIGHBOUR, /* adjacent to a module whose headers could not be read */
	HOW_STACK_POINTER, /* a thread's stack pointer lies in it */
	HOW_THREAD_DESCRIPTOR, /* pthread descriptor at its top */
	HOW_GUARD,             /* its shape: guard below, nothing else known */
	HOW_ALLOCATOR,         /* the allocator's own structures */
	HOW_CHUNK_HEADER,      /* malloc's chunk header at its start */
	HOW_COUNT
};

/* Bits of struct region.perms. */
#define REGION_READ 1u
#define REGION_WRITE 2u
#define REGION_EXEC 4u
#define REGION_SHARED 8u

/* Bits of struct region.flags: the two-letter VmFlags of smaps that something here uses. */
enum region_flag {
	REGION_FLAG_SHARED = 1u << 0,        /* sh */
	REGION_FLAG_GROWSDOWN = 1u << 1,     /* gd */
	REGION_FLAG_PFNMAP = 1u << 2,        /* pf */
	REGION_FLAG_IO = 1u << 3,            /* io */
	REGION_FLAG_MIXED = 1u << 4,         /* mm */
	REGION_FLAG_NODUMP = 1u << 5,        /* dd */
	REGION_FLAG_LOCKED = 1u << 6,        /* lo */
	REGION_FLAG_HUGETLB = 1u << 7,       /* ht */
	REGION_FLAG_HUGEPAGE = 1u << 8,      /* hg */
	REGION_FLAG_NOHUGEPAGE = 1u << 9,    /* nh */
	REGION_FLAG_MERGEABLE = 1u << 10,    /* mg: KSM */
	REGION_FLAG_NORESERVE = 1u << 11,    /* nr */
	REGION_FLAG_ACCOUNTED = 1u << 12,    /* ac */
	REGION_FLAG_WIPEONFORK = 1u << 13,   /* wf */
	REGION_FLAG_SHADOW_STACK = 1u << 14, /* ss */
	REGION_FLAG_SEALED = 1u << 15,       /* sl */
	REGION_FLAG_GUARD = 1u << 16,        /* gu: holds guard markers */
};

struct region {
	uint64_t start, end, offset, inode;
	uint32_t dev_major, dev_minor;
	/* REGION_FLAG_*; 0 in a quick reading */
	uint32_t flags;
	/* REGION_READ ... */
	uint8_t perms;
	/* enum region_class */
	uint8_t class;
	/* enum region_how */
	uint8_t how;
	/* counted by pagemap, not by smaps */
	uint8_t guessed_rss;
	/* of protection (pkeys(7)); 0: the one of all */
	uint8_t key;

	/* in every reading */
	uint64_t rss_bytes, swap_bytes;
	/* Only in a full reading; 0 in a quick one. Names as in smaps. */
	uint64_t pss_bytes, pss_dirty_bytes;
	uint64_t shared_clean_bytes, shared_dirty_bytes, private_clean_bytes, private_dirty_bytes;
	uint64_t referenced_bytes, anonymous_bytes, ksm_bytes, lazy_free_bytes;
	uint64_t anon_huge_bytes, shmem_huge_bytes, file_huge_bytes;
	/* beside RSS */
	uint64_t shared_hugetlb_bytes, private_hugetlb_bytes;
	uint64_t swap_pss_bytes, locked_bytes, page_bytes;

	/* the kernel's name, "" where there is none */
	const char *name;
	/* what to call it; numbered names collapsed ("TNC-*") */
	const char *label;
	/* module path, allocator, thread, file or function; NULL = unknown */
	const char *owner;
};

/**
 * region_class_name(), region_how_name() - the words that JSON and text use; "?" for a number out
 * of range.
 */
const char *region_class_name(unsigned class);
const char *region_how_name(unsigned how);
#define REGION_FLAGS_TEXT 64
/**
 * region_flags_text() - the VmFlags that are known here as smaps writes them, "lo hg mg"; "" for
 * none.
 */
const char *region_flags_text(const struct region *region, char to[REGION_FLAGS_TEXT]);
/** region_perms() - "rw-p" into @to. */
const char *region_perms(const struct region *region, char to[5]);

static inline uint64_t region_private_bytes(const struct region *r)
{
	return r->private_clean_bytes + r->private_dirty_bytes;
}
static inline uint64_t region_shared_bytes(const struct region *r)
{
	return r->shared_clean_bytes + r->shared_dirty_bytes;
}
static inline uint64_t region_hugetlb_bytes(const struct region *r)
{
	return r->shared_hugetlb_bytes + r->private_hugetlb_bytes;
}

#endif
