/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/classify.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "proc/classify_names.h"

#define HEAP_ALIGN \
	(64ull << 20)      /* glibc's HEAP_MAX_SIZE: where arenas other than the main one begin */
#define HEADER_BYTES 2048u /* the ELF header and 35 program headers */
#define GUARD_MAX (1u << 20)
#define DESCRIPTOR_LOOK (64u << 10)
#define PAGEMAP_CLOSED (-2)
#define ACCESS (REGION_READ | REGION_WRITE | REGION_EXEC)

void classify_init(struct classifier *c, const struct target *target, struct thread_stack *threads,
		   size_t thread_count, region_fn put, void *ctx)
{
	*c = (struct classifier){ .target = target,
				  .threads = threads,
				  .thread_count = thread_count,
				  .put = put,
				  .ctx = ctx,
				  .pagemap = PAGEMAP_CLOSED };
}

void classify_fini(struct classifier *c)
{
	if (c->pagemap >= 0)
		close(c->pagemap);
	if (c->pages_opened > 0)
		pages_close(&c->pages);
	free(c->idle.blocks);
	for (unsigned i = 0; i < CLASSIFY_GROUP_MAX; i++)
		free(c->held[i].name);
	free(c->module_path);
	c->module_path = NULL;
}

static int is_resident(struct classifier *c, uint64_t addr, size_t len)
{
	static long page;
	if (!page)
		page = sysconf(_SC_PAGESIZE);
	if (c->pagemap == PAGEMAP_CLOSED)
		c->pagemap = target_openat(c->target, "pagemap", O_RDONLY | O_CLOEXEC);
	if (c->pagemap < 0)
		return 0;
	uint64_t first = addr / (uint64_t)page, last = (addr + len - 1) / (uint64_t)page;
	for (uint64_t at = first; at <= last; at++) {
		uint64_t entry;
		if (pread(c->pagemap, &entry, sizeof(entry), (off_t)(at * 8)) != sizeof(entry) ||
		    !(entry >> 63))
			return 0;
	}
	return 1;
}

/**
 * peek() - copy memory of the target from mapping @r, but only from resident pages: reading another
 * would fault it in, change RSS and perhaps wait for a disk. Return: @len, or -1.
 */
static int peek(struct classifier *c, const struct region *r, uint64_t addr, void *to, size_t len)
{
	/* where all of the mapping is resident there is nothing to ask */
	if (c->unreadable || !(r->rss_bytes == r->end - r->start || is_resident(c, addr, len)))
		return -1;
	ssize_t got = target_read(c->target, addr, to, len);
	if (got == -EPERM || got == -ENOSYS)
		c->unreadable = 1;
	return got == (ssize_t)len ? (int)len : -1;
}

static void set(struct region *r, enum region_class class, enum region_how how, const char *label)
{
	r->class = (uint8_t) class;
	r->how = (uint8_t)how;
	r->label = label;
}

static void copy(char **to, size_t *cap, const char *text)
{
	size_t need = strlen(text) + 1;
	if (need > *cap) {
		char *grown = realloc(*to, need + 64);
		if (!grown)
			return;
		*to = grown;
		*cap = need + 64;
	}
	memcpy(*to, text, need);
}

/* ---- modules --------------------------------------------------------------------------------- */

/**
 * module_extent() - where the PT_LOAD segments end in memory, from the headers at @start. 1 ELF, 0
 * another file, -1 unread.
 */
static int module_extent(struct classifier *c, const struct region *first, uint64_t *end)
{
	unsigned char bytes[HEADER_BYTES];
	for (size_t i = 0; i < c->module_count; i++) {
		if (c->modules[i].start == first->start) {
			*end = c->modules[i].end;
			return 1;
		}
	}
	*end = 0;
	if (first->offset != 0 || !(first->perms & REGION_READ) ||
	    peek(c, first, first->start, bytes, sizeof(bytes)) < 0)
		return -1;
	if (memcmp(bytes, ELFMAG, SELFMAG) != 0)
		return 0;
	Elf64_Ehdr header;
	memcpy(&header, bytes, sizeof(header));
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_phentsize != sizeof(Elf64_Phdr))
		return 1; /* 32-bit: neighbours decide about bss */
	uint64_t bias = 0, top = 0;
	int based = 0;
	for (unsigned i = 0; i < header.e_phnum; i++) {
		uint64_t at = header.e_phoff + (uint64_t)i * sizeof(Elf64_Phdr);
		if (header.e_phoff > sizeof(bytes) || at + sizeof(Elf64_Phdr) > sizeof(bytes))
			break;
		Elf64_Phdr segment;
		memcpy(&segment, bytes + at, sizeof(segment));
		if (segment.p_type != PT_LOAD)
			continue;
		if (!based) {
			bias = first->start + segment.p_offset - segment.p_vaddr;
			based = 1;
		}
		uint64_t stop = bias + segment.p_vaddr + segment.p_memsz;
		if (stop > top &&
		    stop - first->start < 1ull << 40) /* hostile headers claim anything */
			top = stop;
	}
	*end = (top + 4095) & ~4095ull;
	return 1;
}

static int is_program(const struct classifier *c, const struct region *r)
{
	const struct target *t = c->target;
	if (r->inode != t->exe_inode || t->exe_inode == 0)
		return 0;
	/* on btrfs and overlays maps and stat() name different devices: then the path decides */
	return makedev(r->dev_major, r->dev_minor) == t->exe_device || strcmp(r->name, t->exe) == 0;
}

static void classify_segment(struct classifier *c, struct region *r, int program,
			     enum region_how how)
{
	static const enum region_class classes[2][3] = {
		{ REGION_LIBRARY_TEXT, REGION_LIBRARY_DATA, REGION_LIBRARY_RODATA },
		{ REGION_PROGRAM_TEXT, REGION_PROGRAM_DATA, REGION_PROGRAM_RODATA },
	};
	if (!(r->perms & ACCESS))
		set(r, REGION_RESERVED, how, c->module_label); /* gaps that old linkers leave */
	else
		set(r,
		    classes[program][r->perms & REGION_EXEC    ? 0
				     : r->perms & REGION_WRITE ? 1
							       : 2],
		    how, c->module_label);
	r->owner = r->name;
}

static int is_library_name(const char *name)
{
	const char *base = strrchr(name, '/');
	const char *so = strstr(base ? base : name, ".so");
	return so && (so[3] == '\0' || (so[3] == '.' && so[4] >= '0' && so[4] <= '9') ||
		      strcmp(so + 3, " (deleted)") == 0);
}

static int is_jit_dump(const char *name)
{
	const char *base = strrchr(name, '/');
	base = base ? base + 1 : name;
	return strncmp(base, "perf-", 5) == 0 || strncmp(base, "jit-", 4) == 0 ||
	       strncmp(base, "jitted-", 7) == 0;
}

static void classify_file(struct classifier *c, struct region *r, int library)
{
	if (r->perms & REGION_EXEC && is_jit_dump(r->name)) {
		set(r, REGION_JIT, HOW_PATH, "jit dump");
	} else if (strstr(r->name, "libbyteledger-heap.so")) {
		set(r, REGION_BYTELEDGER, HOW_PATH, "libbyteledger-heap.so");
	} else if (library) {
		label_base(c->module_label, r->name);
		classify_segment(c, r, is_program(c, r), HOW_PATH);
	} else {
		label_file(c->label, r->name);
		set(r, REGION_MAPPED_FILE, HOW_PATH, c->label);
	}
	r->owner = r->name;
}

/**
 * is_guard() - no access, and small: runtimes reserve much more below their heaps (Go, HotSpot).
 */
static int is_guard(const struct region *r)
{
	return !(r->perms & ACCESS) && r->name[0] == '\0' && r->end - r->start <= GUARD_MAX;
}

static int emit(struct classifier *c, struct region *r)
{
	c->last_end = r->end;
	c->last_guard = is_guard(r);
	return c->put(c->ctx, r);
}

/**
 * flush_group() - the held mappings of one file come out: as a module where one is executable, else
 * as data.
 */
static int flush_group(struct classifier *c)
{
	int executable = 0, rc = 0;
	for (unsigned i = 0; i < c->count; i++)
		executable |= c->held[i].region.perms & REGION_EXEC;
	struct region *first = &c->held[0].region;
	uint64_t end = 0;
	int elf = executable ? module_extent(c, first, &end) : 0;
	int program = is_program(c, first);
	/*
	 * what could not be looked at but is executable and private is a module as far as its path
	 * goes
	 */
	int module = elf > 0 || (elf < 0 && !is_jit_dump(first->name)) || program;
	int own = strstr(first->name, "libbyteledger-heap.so") != NULL;
	label_base(c->module_label, first->name);
	for (unsigned i = 0; i < c->count && rc == 0; i++) {
		struct region *r = &c->held[i].region;
		if (module && !own)
			classify_segment(c, r, program, elf > 0 ? HOW_ELF_SEGMENT : HOW_PATH);
		else
			classify_file(c, r, !executable && is_library_name(r->name));
		rc = emit(c, r);
	}
	if (module) {
		copy(&c->module_path, &c->module_path_cap, first->name);
		c->module_end = end;
		c->module_next = c->held[c->count - 1].region.end;
		c->module_program = own ? 2 : (unsigned)program;
	} else {
		c->module_next = 0;
	}
	c->count = 0;
	c->group = 0;
	return rc;
}

/**
 * take_bss() - 1 for the unnamed private mapping right behind a module's last one, which its
 * headers reach into, and for those right behind that: madvise(), mlock() and mprotect() cut a bss
 * into several.
 */
static int take_bss(struct classifier *c, const struct region *r)
{
	if (!c->module_next || r->start != c->module_next || r->perms & REGION_SHARED ||
	    (c->module_end ? r->start >= c->module_end : !(r->perms & REGION_WRITE)))
		return 0;
	c->module_next = r->end < c->module_end ? r->end : 0;
	return 1;
}

static void classify_bss(struct classifier *c, struct region *r)
{
	enum region_class class = c->module_program == 2   ? REGION_BYTELEDGER
				  : c->module_program == 1 ? REGION_PROGRAM_BSS
							   : REGION_LIBRARY_BSS;
	set(r, class, c->module_end ? HOW_ELF_SEGMENT : HOW_ELF_NEIGHBOUR, c->module_label);
	r->owner = c->module_path;
}

/* ---- stacks and heaps ------------------------------------------------------------------------ */

static void own_thread(struct classifier *c, struct region *r, struct thread_stack *thread)
{
	snprintf(c->owner, sizeof(c->owner), "thread %d (%s)", (int)thread->tid, thread->name);
	r->owner = c->owner;
	if (thread->stack_end)
		return;
	thread->stack_start = r->start;
	thread->stack_end = r->end;
	thread->rss_bytes = r->rss_bytes;
	thread->how = r->how;
}

static struct thread_stack *pointing_into(const struct classifier *c, const struct region *r)
{
	for (size_t i = 0; i < c->thread_count; i++)
		if (c->threads[i].stack_pointer >= r->start && c->threads[i].stack_pointer < r->end)
			return &c->threads[i];
	return NULL;
}

/**
 * descriptor() - a thread descriptor near the top: 1, 0, or -1 unread. Not always at the very top:
 * the kernel merges a stack with what happens to lie right above it, which for a program's first
 * thread is often the loader's block of TLS.
 */
static int descriptor(struct classifier *c, const struct region *r, struct thread_descriptor *found)
{
	uint64_t probe,
		below = r->end - r->start > DESCRIPTOR_LOOK ? r->end - DESCRIPTOR_LOOK : r->start;
	if (r->rss_bytes == 0)
		return -1;
	int rc = -1;
	for (uint64_t end = r->end; end > below && rc != 1; end -= 4096) {
		/*
		 * a descriptor takes more than half a page: two at a time, unless the lower one is
		 * not resident
		 */
		uint64_t from = end - 4096;
		if (peek(c, r, from, &probe, sizeof(probe)) < 0)
			continue;
		if (from > below && peek(c, r, from - 4096, &probe, sizeof(probe)) == sizeof(probe))
			from -= 4096;
		rc = threads_descriptor(c->target, from, end, found);
		if (rc < 0)
			return -1;
	}
	return rc;
}

/** open_pages() - 1 where what is resident, and what is a guard, can be asked for. */
static int open_pages(struct classifier *c)
{
	struct err ignored = { 0 };
	if (!c->pages_opened)
		c->pages_opened = pages_open(&c->pages, c->target, &ignored) < 0 ? -1 : 1;
	return c->pages_opened > 0;
}

/**
 * classify_stacks() - a mapping that may hold several stacks: its threads get theirs. 1 if it is
 * stacks in the first place (@at_top: its end is one's), else 0, also where memory is short: then
 * the top one is all that is known.
 */
static int classify_stacks(struct classifier *c, struct region *r, int at_top)
{
	struct stack_blocks all = { 0 };
	uint64_t bytes = 0, ignored;
	int live = 0;
	if (c->unreadable || !open_pages(c) ||
	    stacks_in(c->target, &c->pages, r, c->threads, c->thread_count, &all) < 0) {
		free(all.blocks);
		return 0;
	}
	for (size_t i = 0; i < all.count; i++) {
		const struct stack_block *block = &all.blocks[i];
		struct thread_stack *t =
			block->tid ? threads_find(c->threads, c->thread_count, block->tid, 1)
				   : NULL;
		bytes += block->end - block->start;
		live |= t != NULL;
		if (!t)
			stack_blocks_add(&c->idle, block);
		if (!t || t->stack_end)
			continue;
		t->stack_start = block->start;
		t->stack_end = block->end;
		t->how = HOW_THREAD_DESCRIPTOR;
		if (pages_count(&c->pages, block->start, block->end, &t->rss_bytes, &ignored,
				NULL) < 0)
			t->rss_bytes = 0;
	}
	size_t count = all.count;
	free(all.blocks);
	if (!count || (!at_top && bytes < (r->end - r->start) / 2))
		return 0;
	set(r, live ? REGION_STACK : REGION_STACK_CACHE, HOW_THREAD_DESCRIPTOR,
	    live ? "thread stacks" : "stack cache");
	return 1;
}

/**
 * classify_stack() - 1 if an anonymous writable mapping is a thread's stack. A stack pointer alone
 * proves nothing: Go's goroutines and other coroutines run on heap memory. A guard below or a
 * thread descriptor at the top must join it.
 */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one kind of evidence a case */
static int classify_stack(struct classifier *c, struct region *r)
{
	int guarded = c->last_guard && c->last_end == r->start;
	struct thread_stack *running = pointing_into(c, r);
	if (!guarded && !running && !(r->flags & REGION_FLAG_GUARD))
		return 0;
	struct thread_descriptor found = { 0 };
	int seen = r->end - r->start >= 16384 || running ? descriptor(c, r, &found) : 0;
	/*
	 * of the first thread it stands in the loader's block of TLS, and its stack is the kernel's
	 */
	if (seen == 1 && !found.block_end && c->threads) {
		struct thread_stack *first =
			threads_find(c->threads, c->thread_count, found.tid, 1);
		seen = !first || first->tid != c->target->pid;
	}
	int whole = seen == 1 && (!found.block_end || found.block_start <= r->start) &&
		    ((found.block_end + 4095) & ~4095ull) <= r->end;
	if (c->threads && !whole && (seen == 1 || running || r->flags & REGION_FLAG_GUARD)) {
		int several = classify_stacks(c, r, seen == 1);
		if (several)
			return several;
	}
	if (seen == 1) {
		struct thread_stack *thread =
			found.tid ? threads_find(c->threads, c->thread_count, found.tid, 1) : NULL;
		if (!thread)
			thread = running;
		int live = thread || (found.tid && !c->threads);
		set(r, live ? REGION_STACK : REGION_STACK_CACHE, HOW_THREAD_DESCRIPTOR,
		    live ? "thread stacks" : "stack cache");
		if (thread)
			own_thread(c, r, thread);
		/*
		 * it lies in a larger mapping: what belongs to others is cut off by who reads heaps
		 */
		if (thread && thread->how == HOW_THREAD_DESCRIPTOR && thread->stack_end == r->end &&
		    found.block_end && found.block_end <= r->end) {
			thread->stack_start =
				found.block_start > r->start ? found.block_start : r->start;
			thread->stack_end = (found.block_end + 4095) & ~4095ull;
		}
		return 1;
	}
	if (running && guarded) {
		set(r, REGION_STACK, HOW_STACK_POINTER, "thread stacks");
		own_thread(c, r, running);
		return 1;
	}
	return 0;
}

/**
 * classify_arena() - glibc's heap_info at a multiple of 64 MiB: { arena, previous heap, size, ...
 * }.
 */
static int classify_arena(struct classifier *c, struct region *r)
{
	uint64_t at = (r->start + HEAP_ALIGN - 1) & ~(HEAP_ALIGN - 1), info[4];
	if (at != r->start || peek(c, r, at, info, sizeof(info)) < 0)
		return 0;
	uint64_t arena = info[0], previous = info[1], size = info[2];
	if (size == 0 || size > HEAP_ALIGN || size & 4095 || size > r->end - at || arena & 7)
		return 0;
	if (previous == 0 ? arena < at || arena > at + 256
			  : previous & (HEAP_ALIGN - 1) || arena < 4096 || arena >> 47)
		return 0;
	set(r, REGION_ALLOCATOR, HOW_ALLOCATOR, "malloc arenas");
	r->owner = "glibc malloc";
	return 1;
}

/**
 * classify_large() - a block that malloc mapped by itself: { padding, size with bit 1 set } at the
 * start.
 */
static int classify_large(struct classifier *c, struct region *r)
{
	uint64_t chunk[2];
	/*
	 * malloc maps blocks from 128 KiB on; smaller mappings are not looked into: there may be
	 * 30,000 of them
	 */
	if (r->rss_bytes == 0 || r->end - r->start < 128 * 1024 ||
	    peek(c, r, r->start, chunk, sizeof(chunk)) < 0)
		return 0;
	uint64_t size = chunk[1] & ~7ull, shift = chunk[0];
	/* since 2.43: 16 bytes less, and bit 0 means huge pages */
	if ((size + shift) & 4095) {
		shift &= ~1ull;
		size += 16;
	}
	if ((chunk[1] & 7) != 2 || size <= 16 || (size + shift) & 4095 ||
	    size > r->end - r->start || shift > 1u << 21)
		return 0;
	set(r, REGION_ALLOCATOR, HOW_CHUNK_HEADER, "malloc large");
	r->owner = "glibc malloc";
	return 1;
}

static void classify_anonymous(struct classifier *c, struct region *r)
{
	int bss = take_bss(c, r);
	if (!(r->perms & ACCESS)) {
		set(r, REGION_RESERVED, HOW_FLAGS, "no access");
		return;
	}
	if (r->perms & REGION_SHARED) {
		set(r, REGION_SHARED_ANONYMOUS, HOW_FLAGS, "shared anonymous");
		return;
	}
	if (r->flags & (REGION_FLAG_PFNMAP | REGION_FLAG_IO)) {
		set(r, REGION_DEVICE, HOW_FLAGS, "device aperture");
		return;
	}
	if (r->perms & REGION_EXEC) {
		set(r, REGION_JIT, HOW_FLAGS,
		    r->perms & REGION_WRITE ? "writable code" : "code without a file");
		return;
	}
	if (bss) {
		classify_bss(c, r);
		return;
	}
	if (r->perms & REGION_WRITE &&
	    (classify_stack(c, r) || classify_arena(c, r) || classify_large(c, r)))
		return;
	set(r, REGION_ANONYMOUS, HOW_FLAGS,
	    !(r->perms & REGION_WRITE)            ? "read-only"
	    : r->flags & REGION_FLAG_SHADOW_STACK ? "shadow stacks"
						  : "read-write");
}

/* ---- names ----------------------------------------------------------------------------------- */

static void classify_main_stack(struct classifier *c, struct region *r)
{
	set(r, REGION_STACK, HOW_KERNEL_NAME, "main stack");
	struct thread_stack *main_thread =
		threads_find(c->threads, c->thread_count, c->target->pid, 0);
	if (main_thread)
		own_thread(c, r, main_thread);
}

static void classify_named(struct classifier *c, struct region *r)
{
	struct name_rule rule;
	int known = name_rule(r->name, &rule, c->label, c->owner);
	if (!known) {
		/* a pseudo name or path that no rule knows: still one line, never dropped */
		label_name(c->label, r->name);
		set(r, r->perms & ACCESS ? REGION_MAPPED_FILE : REGION_RESERVED, HOW_PATH,
		    c->label);
		return;
	}
	if (rule.main_stack) {
		classify_main_stack(c, r);
		return;
	}
	set(r, rule.class, rule.how, c->label);
	r->owner = c->owner[0] ? c->owner : NULL;
	if (rule.class == REGION_STACK && rule.how == HOW_VMA_NAME) {
		/* named stacks carry the thread's id, but a cached one keeps its name */
		if (!classify_stack(c, r) && c->threads) {
			struct thread_stack *thread =
				threads_find(c->threads, c->thread_count, (pid_t)rule.tid, 1);
			set(r, thread ? REGION_STACK : REGION_STACK_CACHE, HOW_VMA_NAME,
			    thread ? "thread stacks" : "stack cache");
			if (thread)
				own_thread(c, r, thread);
		}
	}
}

static int is_file_segment(const struct region *r)
{
	/*
	 * special files live on their own pseudo devices but look like paths: name_rule() takes
	 * those
	 */
	return r->inode && r->name[0] == '/' && !(r->perms & REGION_SHARED) &&
	       !name_is_special(r->name) && !(r->flags & REGION_FLAG_HUGETLB);
}

static int same_file(const struct region *a, const struct region *b)
{
	return a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && strcmp(a->name, b->name) == 0;
}

static int hold(struct classifier *c, const struct region *r)
{
	struct classify_held *held = &c->held[c->count];
	held->region = *r;
	copy(&held->name, &held->name_cap, r->name);
	if (!held->name || strcmp(held->name, r->name) != 0)
		return -ENOMEM;
	held->region.name = held->name;
	c->count++;
	return 0;
}

/** flush_guard() - the mapping without access that waited for what lies above it. */
static int flush_guard(struct classifier *c, const struct region *above)
{
	if (!c->count)
		return 0;
	struct region *r = &c->held[0].region;
	int stack = above && above->start == r->end &&
		    (above->class == REGION_STACK || above->class == REGION_STACK_CACHE);
	set(r, REGION_RESERVED, HOW_FLAGS, stack ? "stack guards" : "no access");
	c->count = 0;
	return c->put(c->ctx, r);
}

int classify_region(void *classifier, struct region *region)
{
	struct classifier *c = classifier;
	int rc = 0;
	if (c->group) {
		const struct region *first = &c->held[0].region;
		if (is_file_segment(region) && same_file(first, region) &&
		    c->count < CLASSIFY_GROUP_MAX)
			return hold(c, region);
		rc = flush_group(c);
		if (rc)
			return rc;
	}
	if (is_file_segment(region)) {
		rc = flush_guard(c, NULL);
		c->group = 1;
		return rc ? rc : hold(c, region);
	}
	region->owner = NULL;
	if (region->flags & REGION_FLAG_HUGETLB) {
		set(region, REGION_HUGETLB, HOW_FLAGS,
		    region->perms & REGION_SHARED ? "shared huge pages" : "private huge pages");
		if (region->name[0])
			region->owner = region->name;
	} else if (region->name[0] == '\0') {
		classify_anonymous(c, region);
	} else if (region->name[0] == '/' && !name_is_special(region->name)) {
		classify_file(c, region, 0); /* shared mapping of a file */
	} else {
		classify_named(c, region);
	}
	rc = flush_guard(c, region);
	if (rc)
		return rc;
	if (!(region->perms & ACCESS) && region->name[0] == '\0') {
		c->last_end = region->end;
		c->last_guard = is_guard(region);
		return hold(c, region);
	}
	return emit(c, region);
}

int classify_end(struct classifier *c)
{
	return c->group ? flush_group(c) : flush_guard(c, NULL);
}
