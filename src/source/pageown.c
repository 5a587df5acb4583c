/* SPDX-License-Identifier: Apache-2.0 */
#include "source/pageown.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <linux/capability.h>

#include "base/cleanup.h"
#include "base/fileio.h"
#include "source/pageown_impl.h"

#include "pages.skel.h" /* behind the types that its data has */

#define STACKS_DEFAULT 65536u
#define STACKS_MAX (4u << 20)
#define FRAMES_A_STACK 32u
#define WINDOWS_DEFAULT 65536u
#define INITIAL_PIDNS_INODE 0xeffffffcu
#define HUGE_BYTES (2ul << 20)

struct pageown *pageown_new(const struct pageown_opt *opt, struct err *err)
{
	struct pageown *p = calloc(1, sizeof(*p));
	if (!p) {
		err_set(err, -ENOMEM, "cannot allocate the page profiler");
		return NULL;
	}
	if (opt)
		p->opt = *opt;
	pthread_mutexattr_t again;
	pthread_mutexattr_init(&again);
	pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&p->lock, &again);
	pthread_mutexattr_destroy(&again);
	p->epoll = p->kpageflags = -1;
	p->told = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	p->zero_pfn = p->huge_zero_pfn = UINT64_MAX;
	if (p->opt.take_name && !(p->take_name = strdup(p->opt.take_name))) {
		err_set(err, -ENOMEM, "cannot allocate the page profiler");
		free(p);
		return NULL;
	}
	return p;
}

void pageown_detach(struct pageown *p)
{
	for (uint32_t i = 0; i < p->link_count; i++)
		bpf_link__destroy(p->links[i]);
	p->link_count = 0;
}

static void unmap(void *at, uint64_t bytes)
{
	if (at)
		munmap(at, bytes);
}

void pageown_free(struct pageown *p)
{
	if (!p)
		return;
	pageown_stop(p);
	pageown_detach(p);
	ring_buffer__free(p->ring);
	bpfstack_events_free(p->announcements);
	if (p->epoll >= 0)
		close(p->epoll);
	unmap(p->owner, p->owner_bytes);
	unmap(p->heads, p->heads_bytes);
	unmap(p->live, p->live_bytes);
	unmap(p->pool, p->pool_bytes);
	bpftables_free(p->tables);
	pages_bpf__destroy(p->skeleton);
	for (size_t i = 0; i < p->followed_count; i++)
		pageown_followed_fini(&p->followed[i]);
	free(p->followed);
	pageown_stacks_fini(p);
	if (p->kpageflags >= 0)
		close(p->kpageflags);
	free(p->seen);
	free(p->events);
	if (p->told >= 0)
		close(p->told);
	if (p->wake >= 0)
		close(p->wake);
	pthread_mutex_destroy(&p->lock);
	free(p->take_name);
	free(p);
}

void pageown_freep(struct pageown **pages)
{
	pageown_free(*pages);
	*pages = NULL;
}

/* libbpf talks on stderr; rooms do not. Its last words are kept for the error text. */
static _Thread_local char last_words[512];

static int PRINTF(2, 0) keep_words(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN)
		vsnprintf(last_words, sizeof(last_words), format, args);
	last_words[strcspn(last_words, "\n")] = '\0';
	return 0;
}

static int refused(struct pageown *p, int rc, const char *what, struct err *err)
{
	/* the verifier's verdict is the last line before its statistics */
	char *verdict = strstr(p->log, "\nprocessed ");
	if (verdict && verdict > p->log) {
		*verdict = '\0';
		char *line = strrchr(p->log, '\n');
		snprintf(last_words, sizeof(last_words), "%s", line ? line + 1 : p->log);
	}
	/* what is not permitted is said by the code, and libbpf's guess at a cause is none then */
	if (rc == -EPERM)
		err_set(err, rc, "cannot %s", what);
	else
		err_set(err, rc, "cannot %s: %s", what, last_words[0] ? last_words : "refused");
	return err_hint(err, "needs Linux 6.1 with BTF, CAP_BPF and CAP_PERFMON; 'byteledger "
			     "check' lists what is missing");
}

/* ---- what this kernel has -------------------------------------------------------------------- */

/* Arguments of a tracepoint, the first hidden one included; 0: this kernel does not have it. */
static uint32_t tracepoint_args(const struct btf *btf, const char *name)
{
	char type[80];
	snprintf(type, sizeof(type), "btf_trace_%s", name);
	int id = btf__find_by_name_kind(btf, type, BTF_KIND_TYPEDEF);
	const struct btf_type *t = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	t = t ? btf__type_by_id(btf, t->type) : NULL; /* pointer */
	t = t && btf_is_ptr(t) ? btf__type_by_id(btf, t->type) : NULL;
	return t && btf_is_func_proto(t) ? btf_vlen(t) : 0;
}

/*
 * From the 7th version on programs on raw tracepoints are preempted: bpf/preempted.h. Return: 1
 * where what those need is there.
 */
static int needs_classic(const struct btf *btf)
{
	static const char *const types[] = {
		"mm_page_alloc", "mm_page_free",  "mm_filemap_op_page_cache",
		"exceptions",    "migration_pte", "migration_pmd"
	};
	struct utsname kernel;
	if (uname(&kernel) < 0 || strtoul(kernel.release, NULL, 10) < 7 ||
	    (access("/sys/kernel/tracing/events/kmem", F_OK) < 0 &&
	     access("/sys/kernel/debug/tracing/events/kmem", F_OK) < 0))
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		char type[80];
		snprintf(type, sizeof(type), "trace_event_raw_%s", types[i]);
		if (btf__find_by_name_kind(btf, type, BTF_KIND_STRUCT) <= 0)
			return 0;
	}
	return 1;
}

static void load_classic(struct pages_bpf *s, int classic, int moves, int huge, int faults)
{
	bpf_program__set_autoload(s->progs.pages_alloc_classic, classic);
	bpf_program__set_autoload(s->progs.pages_free_classic, classic);
	bpf_program__set_autoload(s->progs.pages_cached_classic, classic);
	bpf_program__set_autoload(s->progs.pages_uncached_classic, classic);
	bpf_program__set_autoload(s->progs.pages_fault_user_classic, classic && faults);
	bpf_program__set_autoload(s->progs.pages_fault_kernel_classic, classic && faults);
	bpf_program__set_autoload(s->progs.pages_mapped_again, classic && faults);
	bpf_program__set_autoload(s->progs.pages_move_begins_classic, classic && moves);
	bpf_program__set_autoload(s->progs.pages_move_ends_classic, classic && moves);
	bpf_program__set_autoload(s->progs.pages_move_huge_begins_classic, classic && huge);
	bpf_program__set_autoload(s->progs.pages_move_huge_ends_classic, classic && huge);
}

static int ask_kernel(struct pageown *p, struct err *err)
{
	struct pages_bpf *s = p->skeleton;
	struct btf *btf = btf__load_vmlinux_btf();
	if (!btf) {
		/* libbpf's error is that no process has that id */
		err_set(err, -ENOTSUP, "cannot read the kernel's types (BTF)");
		return err_hint(err, "needs a kernel built with CONFIG_DEBUG_INFO_BTF, and /sys "
				     "mounted");
	}
	int id = btf__find_by_name_kind(btf, "page", BTF_KIND_STRUCT);
	int64_t bytes = id > 0 ? btf__resolve_size(btf, (uint32_t)id) : 0;
	static const char *const needed[] = { "mm_page_alloc",
					      "mm_page_free",
					      "mm_filemap_add_to_page_cache",
					      "mm_filemap_delete_from_page_cache",
					      "sched_process_fork",
					      "sched_process_exec",
					      "sched_process_exit" };
	int rc = 0;
	for (size_t i = 0; !rc && i < ARRAY_LEN(needed); i++)
		if (!tracepoint_args(btf, needed[i]))
			rc = err_set(err, -ENOTSUP, "this kernel has no tracepoint '%s'",
				     needed[i]);
	if (!rc && bytes < 16)
		rc = err_set(err, -ENOTSUP, "this kernel does not say how large a struct page is");
	p->migration = tracepoint_args(btf, "set_migration_pte") &&
		       tracepoint_args(btf, "remove_migration_pte");
	p->faults = tracepoint_args(btf, "page_fault_user") &&
		    tracepoint_args(btf, "page_fault_kernel");
	/* with a count as third argument changes are gathered, 64 at a time */
	p->each_rss_change = tracepoint_args(btf, "rss_stat") == 3;
	int huge = tracepoint_args(btf, "set_migration_pmd") &&
		   tracepoint_args(btf, "remove_migration_pmd");
	int classic = needs_classic(btf);
	btf__free(btf);
	if (rc)
		return rc;
	s->rodata->pages_page_bytes = (uint32_t)bytes;
	s->rodata->pages_by_error_code = !p->each_rss_change;
	bpf_program__set_autoload(s->progs.pages_move_begins, p->migration);
	bpf_program__set_autoload(s->progs.pages_move_ends, p->migration);
	bpf_program__set_autoload(s->progs.pages_move_huge_begins, huge);
	bpf_program__set_autoload(s->progs.pages_move_huge_ends, huge);
	bpf_program__set_autoload(s->progs.pages_fault_user, p->faults);
	bpf_program__set_autoload(s->progs.pages_fault_kernel, p->faults);
	bpf_program__set_autoload(s->progs.pages_mapped, p->faults);
	load_classic(s, classic, p->migration, huge, p->faults);
	return 0;
}

/* Whether anybody could be given a page of a pool of huge ones. */
static int has_huge_pool(void)
{
	static const char *const files[] = { "nr_hugepages", "nr_overcommit_hugepages" };
	CLEANUP(globfree) glob_t found = { 0 };
	uint64_t sum = 0;
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		char pattern[80];
		snprintf(pattern, sizeof(pattern), "/sys/kernel/mm/hugepages/*/%s", files[i]);
		glob(pattern, i ? GLOB_APPEND : 0, NULL, &found);
	}
	for (size_t i = 0; i < found.gl_pathc; i++) {
		char text[32] = "";
		if (fileio_text(AT_FDCWD, found.gl_pathv[i], text, sizeof(text)) > 0)
			sum += strtoull(text, NULL, 10);
	}
	return sum > 0;
}

/* One more than the largest number of a physical page. */
static uint64_t span_pages(void)
{
	FILE *zones = fopen("/proc/zoneinfo", "re");
	char line[256];
	uint64_t end = 0, spanned = 0, value;
	while (zones && fgets(line, sizeof(line), zones)) {
		if (sscanf(line, " spanned %lu", &value) == 1)
			spanned = value;
		else if (sscanf(line, " start_pfn: %lu", &value) == 1 && spanned &&
			 value + spanned > end)
			end = value + spanned;
	}
	if (zones)
		fclose(zones);
	return end;
}

/* ---- loading --------------------------------------------------------------------------------- */

static uint64_t bounded(uint64_t value, uint64_t otherwise, uint64_t max)
{
	value = value ? value : otherwise;
	return value > max ? max : value;
}

/* Tables take a page more where their last one is not full. */
static uint64_t mapped_bytes(uint64_t bytes)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	return (bytes + page - 1) / page * page;
}

static int set_up(struct pageown *p, struct err *err)
{
	struct pages_bpf *s = p->skeleton;
	struct stat st;
	uint64_t span = (span_pages() + 7) & ~7ull, part_max = 1ull << WIRE_PAGES_PART_SHIFT;
	if (!span)
		return err_set(err, -EIO, "cannot read '/proc/zoneinfo': how much memory there is");
	uint64_t parts = (span + part_max - 1) / part_max;
	p->owner_words = span;
	p->owner_part_words = span < part_max ? span : part_max;
	p->owner_stride_words = (p->owner_part_words + 1) & ~1ull;
	p->owner_bytes = mapped_bytes(p->owner_stride_words * 4 * parts);
	p->stacks_max = (uint32_t)bounded(p->opt.stacks_max, STACKS_DEFAULT, STACKS_MAX);
	p->pool_words =
		bounded(p->opt.frame_words, (uint64_t)p->stacks_max * FRAMES_A_STACK, 1ull << 26);
	if (p->pool_words < 2 * WIRE_STACK_FRAMES_MAX)
		p->pool_words = 2 * WIRE_STACK_FRAMES_MAX;
	p->heads_bytes = mapped_bytes(p->stacks_max * sizeof(struct wire_pages_stack_head));
	p->live_bytes = mapped_bytes(p->stacks_max * sizeof(struct wire_pages_live));
	p->pool_bytes = mapped_bytes(p->pool_words * 8);
	s->rodata->pages_part_len = p->owner_part_words;
	s->rodata->pages_pool_words = p->pool_words;
	s->rodata->pages_stacks_max = p->stacks_max;
	if (p->take_name) {
		for (size_t i = 0; i < 15 && p->take_name[i]; i++)
			s->rodata->pages_name[i] = p->take_name[i];
		s->rodata->pages_name_flags = p->opt.take_children ? WIRE_PAGES_FOLLOW : 0;
	}
	s->rodata->pages_hugetlb = (uint32_t)has_huge_pool();
	s->rodata->pages_tell_execs = (uint32_t)p->opt.tell_execs;
	if (!stat("/proc/self/ns/pid", &st) && st.st_ino != INITIAL_PIDNS_INODE) {
		s->rodata->pages_pidns_dev = st.st_dev;
		s->rodata->pages_pidns_ino = st.st_ino;
	}
	uint64_t words = bpftables_bytes(p->tables);
	uint32_t windows = (uint32_t)bounded(p->opt.windows_max, WINDOWS_DEFAULT, 16u << 20),
		 rules = (uint32_t)libbpf_num_possible_cpus() * WIRE_STACK_SLOTS;
	s->rodata->walk_words_mask = words / 4 - 1;
	int rc = bpf_map__set_value_size(s->maps.pages_owner, (uint32_t)p->owner_part_words * 4);
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.pages_owner, (uint32_t)parts);
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.pages_ids, p->stacks_max);
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.pages_heads, p->stacks_max);
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.pages_live, p->stacks_max);
	if (!rc)
		rc = bpf_map__set_value_size(s->maps.pages_pool, (uint32_t)(p->pool_words * 8));
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.pages_windows, windows);
	if (!rc)
		rc = bpf_map__set_value_size(s->maps.walk_words, (uint32_t)words);
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.walk_rules, rules);
	/*
	 * as the kernel books them: tables by their size, an entry of a hash by its key, value and
	 * links
	 */
	p->kernel_bytes = p->owner_bytes + p->heads_bytes + p->live_bytes + p->pool_bytes +
			  p->stacks_max * 80ull + windows * 96ull + words +
			  rules * sizeof(struct wire_stack_rules) +
			  sizeof(struct wire_stack_place) * WIRE_STACK_PLACES_MAX;
	bpf_program__set_log_buf(s->progs.pages_alloc, p->log, sizeof(p->log));
	bpf_program__set_log_level(s->progs.pages_alloc, 4); /* statistics only */
	return rc ? refused(p, rc, "size the page profiler's tables", err) : 0;
}

static void *map_table(struct bpf_map *map, uint64_t bytes, const char *what, struct err *err)
{
	void *at = mmap(NULL, bytes, PROT_READ, MAP_SHARED, bpf_map__fd(map), 0);
	if (at == MAP_FAILED) {
		err_set(err, -errno, "cannot map the kernel's table of %s", what);
		return NULL;
	}
	/*
	 * a child would be given 20,000 entries of its page table, and have them taken away when it
	 * execs: 10 ms
	 */
	madvise(at, bytes, MADV_DONTFORK);
	return at;
}

static int watch(struct pageown *p, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	return epoll_ctl(p->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int take_event(void *ctx, void *data, size_t bytes)
{
	return bytes < sizeof(struct wire_pages_event) ? 0 : pageown_on_event(ctx, data);
}

static int open_rest(struct pageown *p, struct err *err)
{
	struct pages_bpf *s = p->skeleton;
	if (!(p->owner = map_table(s->maps.pages_owner, p->owner_bytes, "owners", err)) ||
	    !(p->heads = map_table(s->maps.pages_heads, p->heads_bytes, "stacks", err)) ||
	    !(p->live = map_table(s->maps.pages_live, p->live_bytes, "sums", err)) ||
	    !(p->pool = map_table(s->maps.pages_pool, p->pool_bytes, "frames", err)))
		return err->code;
	p->ring = ring_buffer__new(bpf_map__fd(s->maps.pages_events), take_event, p, NULL);
	p->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!p->ring || p->epoll < 0 || watch(p, ring_buffer__epoll_fd(p->ring)) < 0)
		return err_set(err, -errno, "cannot open the ring of process events");
	/*
	 * where faults are not told, the machine's mappings are listened to: dearer for everybody
	 */
	p->announcements = p->faults ? NULL : bpfstack_events_new();
	for (uint32_t i = 0; p->announcements && i < bpfstack_events_count(p->announcements); i++)
		watch(p, bpfstack_events_fd(p->announcements, i));
	const struct bpftables_maps maps = { s->maps.walk_words, s->maps.walk_places,
					     s->maps.walk_processes, s->maps.walk_rules };
	return bpftables_open(p->tables, &maps, err);
}

/*
 * The numbers that the kernel gives to pages which we touch, beside the addresses of their struct
 * page.
 */
static int find_vmemmap(struct pageown *p, struct err *err)
{
	struct pages_bpf *s = p->skeleton;
	const size_t page = (size_t)sysconf(_SC_PAGESIZE), count = 8;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_set(err, -errno, "cannot read '/proc/self/pagemap'");
	char *at = mmap(NULL, HUGE_BYTES + count * page, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t base = 0, agreed = 0, entries[8] = { 0 };
	if (at != MAP_FAILED) {
		madvise(at, HUGE_BYTES + count * page, MADV_NOHUGEPAGE);
		s->bss->pages_calibrated_tid = (uint32_t)syscall(SYS_gettid);
		for (size_t i = 0; i < count; i++)
			at[i * page] = 1;
		s->bss->pages_calibrated_tid = 0;
		if (pread(fd, entries, sizeof(entries), (off_t)((uintptr_t)at / page * 8)) < 0)
			memset(entries, 0, sizeof(entries));
	}
	/* faults of other pages of ours may stand between: the base is what most agree on */
	uint32_t seen = s->bss->pages_calibrated_count < 64 ? s->bss->pages_calibrated_count : 64;
	for (uint32_t i = 0; i < seen; i++) {
		for (size_t k = 0; k < count; k++) {
			uint64_t pfn = entries[k] & ((1ull << 55) - 1), votes = 0;
			if (!pfn)
				continue;
			uint64_t maybe =
				s->bss->pages_calibrated[i] - pfn * s->rodata->pages_page_bytes;
			for (uint32_t j = 0; j < seen; j++)
				for (size_t m = 0; m < count; m++)
					votes += s->bss->pages_calibrated[j] ==
						 maybe + (entries[m] & ((1ull << 55) - 1)) *
								 s->rodata->pages_page_bytes;
			if (votes > agreed) {
				agreed = votes;
				base = maybe;
			}
		}
	}
	if (at != MAP_FAILED)
		munmap(at, HUGE_BYTES + count * page);
	close(fd);
	if (!(entries[0] & ((1ull << 55) - 1))) {
		err_set(err, -EPERM, "cannot read the numbers of physical pages");
		return err_hint(err, "needs root or CAP_SYS_ADMIN: without them the kernel shows "
				     "zeros");
	}
	if (agreed < count - 1)
		return err_set(err, -ENOTSUP,
			       "this kernel's list of pages is not one array: %u of %zu pages "
			       "agree",
			       (unsigned)agreed, count);
	s->bss->pages_vmemmap = base;
	return 0;
}

/* What is followed may not run yet: a compiler's code needs 11 MiB, most programs' one. */
static uint32_t table_room(void)
{
	uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
	return memory > 3ull << 30 ? 16u << 20 : 8u << 20;
}

int pageown_load(struct pageown *p, struct err *err)
{
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	last_words[0] = '\0';
	int rc = 0;
	p->tables = bpftables_new(p->opt.cache_dir,
				  p->opt.table_bytes ? p->opt.table_bytes : table_room(), err);
	if (!p->tables)
		rc = err->code;
	if (!rc && !(p->skeleton = pages_bpf__open()))
		rc = refused(p, -errno, "open the page profiler", err);
	if (!rc)
		rc = ask_kernel(p, err);
	if (!rc)
		rc = set_up(p, err);
	if (!rc && (rc = pages_bpf__load(p->skeleton)) < 0)
		rc = refused(p, rc, "load the page profiler", err);
	if (!rc)
		rc = open_rest(p, err);
	struct bpf_link *link = NULL;
	if (!rc && !(link = bpf_program__attach(p->skeleton->progs.pages_calibrate)))
		rc = refused(p, -errno, "attach to page allocations", err);
	if (!rc)
		rc = find_vmemmap(p, err);
	bpf_link__destroy(link);
	libbpf_set_print(talk);
	return rc ? rc : pageown_walk_init(p);
}

int pageown_attach(struct pageown *p, struct err *err)
{
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	struct bpf_program *program;
	int rc = 0;
	last_words[0] = '\0';
	bpf_object__for_each_program(program, p->skeleton->obj)
	{
		if (!bpf_program__autoload(program) ||
		    program == p->skeleton->progs.pages_calibrate)
			continue;
		struct bpf_link *link = bpf_program__attach(program);
		if (!link) {
			char what[64];
			snprintf(what, sizeof(what), "attach '%s'", bpf_program__name(program));
			rc = refused(p, -errno, what, err);
			break;
		}
		p->links[p->link_count++] = link;
	}
	libbpf_set_print(talk);
	if (rc)
		pageown_detach(p);
	return rc;
}

/* ---- the tables that are not arrays ---------------------------------------------------------- */

int pageown_map_process(struct pageown *p, pid_t pid, const struct wire_pages_process *process)
{
	uint32_t key = (uint32_t)pid;
	if (bpf_map_update_elem(bpf_map__fd(p->skeleton->maps.pages_processes), &key, process,
				BPF_NOEXIST) < 0)
		return errno == EEXIST ? 0 : -errno;
	__atomic_fetch_add(&p->skeleton->bss->pages_maybe[key & 0xffff], 1, __ATOMIC_SEQ_CST);
	return 1;
}

void pageown_unmap_process(struct pageown *p, pid_t pid)
{
	uint32_t key = (uint32_t)pid;
	if (!bpf_map_delete_elem(bpf_map__fd(p->skeleton->maps.pages_processes), &key))
		__atomic_fetch_sub(&p->skeleton->bss->pages_maybe[key & 0xffff], 1,
				   __ATOMIC_SEQ_CST);
}

int pageown_window(struct pageown *p, pid_t pid, uint64_t window, struct wire_pages_window *out)
{
	struct wire_pages_window_key key = { .window = window, .tgid = (uint32_t)pid };
	return bpf_map_lookup_elem(bpf_map__fd(p->skeleton->maps.pages_windows), &key, out);
}

uint32_t pageown_next(const struct pageown *p)
{
	uint32_t next = __atomic_load_n(&p->skeleton->data->pages_next_stack, __ATOMIC_ACQUIRE);
	return next < p->stacks_max ? next : p->stacks_max;
}

void pageown_sleep(struct pageown *p, int asleep)
{
	__atomic_store_n(&p->skeleton->bss->pages_asleep, (uint32_t)asleep, __ATOMIC_SEQ_CST);
}

uint64_t pageown_pool_used(const struct pageown *p)
{
	return p->skeleton->bss->pages_pool_used;
}

void pageown_forget_hash(struct pageown *p, uint64_t hash)
{
	bpf_map_delete_elem(bpf_map__fd(p->skeleton->maps.pages_ids), &hash);
}

int pageown_put_ring(struct pageown *p, uint32_t frames, uint32_t id)
{
	uint32_t class = (frames + WIRE_PAGES_CLASS_WORDS - 1) / WIRE_PAGES_CLASS_WORDS;
	struct wire_pages_ring *ring =
		(void *)&p->skeleton->bss->pages_given_back[class % WIRE_PAGES_CLASSES];
	uint32_t tail = ring->tail;
	if (tail - __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE) >= WIRE_PAGES_RING)
		return -ENOSPC;
	ring->stack[tail % WIRE_PAGES_RING] = id;
	__atomic_store_n(&ring->tail, tail + 1, __ATOMIC_RELEASE);
	return 0;
}

int pageown_fd(const struct pageown *p)
{
	return p->running ? p->told : p->epoll;
}

static uint64_t ask_program(struct bpf_program *program, struct bpf_prog_info *info)
{
	uint32_t bytes = sizeof(*info);
	int fd = bpf_program__autoload(program) ? bpf_program__fd(program) : -1;
	*info = (struct bpf_prog_info){ 0 };
	if (fd < 0 || bpf_obj_get_info_by_fd(fd, info, &bytes) < 0)
		return 0;
	return info->recursion_misses;
}

/* The program that tells the same by another way; NULL: none does here. */
static struct bpf_program *stand_in(struct pageown *p, struct bpf_program *program)
{
	static const char *const ways[] = { "classic", "again" };
	struct bpf_program *other = NULL;
	for (size_t i = 0; !other && i < ARRAY_LEN(ways); i++) {
		char name[64];
		snprintf(name, sizeof(name), "%s_%s", bpf_program__name(program), ways[i]);
		other = bpf_object__find_program_by_name(p->skeleton->obj, name);
	}
	return other && bpf_program__autoload(other) ? other : NULL;
}

static int stands_in(const char *name)
{
	size_t len = strlen(name);
	return (len > 8 && !strcmp(name + len - 8, "_classic")) ||
	       (len > 6 && !strcmp(name + len - 6, "_again"));
}

/*
 * What ran while it ran already on the same CPU is left out by the kernel, and counted. Where
 * another program stands in, what neither saw is as much as the one of them missed that missed
 * less, at most.
 */
static uint64_t missed(struct pageown *p, uint64_t *runs, uint64_t *run_ns, uint32_t *verified)
{
	struct bpf_program *program;
	uint64_t sum = 0;
	*runs = *run_ns = 0;
	*verified = 0;
	bpf_object__for_each_program(program, p->skeleton->obj)
	{
		struct bpf_prog_info info, its;
		uint64_t misses = ask_program(program, &info);
		struct bpf_program *other = stand_in(p, program);
		*runs += info.run_cnt;
		*run_ns += info.run_time_ns;
		if (info.verified_insns > *verified)
			*verified = info.verified_insns;
		if (stands_in(bpf_program__name(program)))
			continue;
		if (other && misses) {
			uint64_t as_well = ask_program(other, &its);
			misses = misses < as_well ? misses : as_well;
		}
		sum += misses;
	}
	return sum;
}

void pageown_lost(struct pageown *p, uint64_t lost[PAGES_LOSSES])
{
	const uint64_t *counters = p->skeleton->bss->pages_counters;
	uint64_t runs, run_ns;
	uint32_t verified;
	lost[PAGES_LOST_STACKS] = counters[WIRE_PAGES_COUNT_STACKS_FULL];
	lost[PAGES_LOST_FRAMES] = counters[WIRE_PAGES_COUNT_POOL_FULL];
	lost[PAGES_LOST_BUSY] = counters[WIRE_PAGES_COUNT_BUSY];
	lost[PAGES_LOST_MOVES] = counters[WIRE_PAGES_COUNT_MOVES_FULL];
	lost[PAGES_LOST_EVENTS] = counters[WIRE_PAGES_COUNT_EVENTS_LOST];
	lost[PAGES_LOST_PROCESSES] = counters[WIRE_PAGES_COUNT_PROCESSES_FULL];
	lost[PAGES_LOST_WINDOWS] = counters[WIRE_PAGES_COUNT_WINDOWS_FULL];
	lost[PAGES_LOST_MEMORY] = counters[WIRE_PAGES_COUNT_BEYOND];
	lost[PAGES_LOST_MISSED] = missed(p, &runs, &run_ns, &verified);
}

void pageown_moved(const struct pageown *p, uint64_t *moved, uint64_t *stale)
{
	*moved = p->skeleton->bss->pages_counters[WIRE_PAGES_COUNT_MOVED];
	*stale = p->skeleton->bss->pages_counters[WIRE_PAGES_COUNT_STALE];
}

int pageown_info(struct pageown *p, struct pageown_info *info, struct err *err)
{
	if (!p->skeleton)
		return err_set(err, -EINVAL, "the page profiler is not loaded");
	*info = (struct pageown_info){ .owner_bytes = p->owner_bytes,
				       .kernel_bytes = p->kernel_bytes,
				       .stacks = pageown_next(p) - WIRE_PAGES_FIRST,
				       .stacks_max = p->stacks_max,
				       .pool_words = p->skeleton->bss->pages_pool_used,
				       .pool_words_max = p->pool_words,
				       .migration = p->migration,
				       .faults = p->faults,
				       .each_rss_change = p->each_rss_change };
	struct bpftables_counts tables;
	bpftables_count(p->tables, &tables);
	info->table_room = tables.table_room;
	info->tables_left_out = tables.modules_left_out;
	memcpy(info->counters, p->skeleton->bss->pages_counters, sizeof(info->counters));
	info->missed = missed(p, &info->runs, &info->run_ns, &info->verified_instructions_max);
	return 0;
}

int pageown_drop_own(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &head, data) < 0)
		return err_set(err, -errno, "cannot read capabilities");
	/* page tables and mappings of processes to come, and of what ours exec */
	uint32_t keep = 1u << CAP_SYS_PTRACE | 1u << CAP_DAC_READ_SEARCH | 1u << CAP_SYS_ADMIN |
			1u << CAP_KILL;
	data[0].effective &= keep;
	data[0].permitted &= keep;
	data[1].effective = data[1].permitted = 0;
	data[0].inheritable = data[1].inheritable = 0;
	if (syscall(SYS_capset, &head, data) < 0)
		return err_set(err, -errno, "cannot drop capabilities");
	return 0;
}

int pageown_drop_privileges(struct pageown *p, struct err *err)
{
	if (p->running) {
		atomic_store(&p->drop, 1);
		eventfd_write(p->wake, 1);
	}
	return pageown_drop_own(err);
}
