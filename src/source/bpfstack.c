/* SPDX-License-Identifier: Apache-2.0 */
#include "source/bpfstack.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>

#include "source/bpfstack_events.h"
#include "source/bpftables.h"
#include "stack.skel.h"

#define EXTENTS_MAX 65536u /* mappings, names and stacks that are kept, of all processes */
#define EXTENT_NAMES_MAX 16384u
#define EXTENT_STACKS_MAX 16384u
#define INITIAL_PIDNS_INODE 0xeffffffcu
struct bpfstack {
	struct bpfstack_opt opt;
	struct stack_bpf *skeleton;
	struct bpf_link *links[16];
	uint32_t link_count;
	struct bpftables *tables;
	struct ring_buffer *ring;
	struct bpfstack_events *events;
	int epoll;
	uint32_t verified, stack_bytes;
	int (*stack_cb)(void *ctx, const struct wire_stack *record);
	void *stack_ctx;
	char log[64 << 10];
};

struct bpfstack *bpfstack_new(const struct bpfstack_opt *opt, struct err *err)
{
	struct bpfstack *stack = calloc(1, sizeof(*stack));
	if (!stack) {
		err_set(err, -ENOMEM, "cannot allocate a stack walker");
		return NULL;
	}
	if (opt)
		stack->opt = *opt;
	stack->epoll = -1;
	stack->tables = bpftables_new(stack->opt.cache_dir, stack->opt.table_bytes, err);
	if (!stack->tables) {
		free(stack);
		return NULL;
	}
	return stack;
}

void bpfstack_detach(struct bpfstack *stack)
{
	for (uint32_t i = 0; i < stack->link_count; i++)
		bpf_link__destroy(stack->links[i]);
	stack->link_count = 0;
}

void bpfstack_free(struct bpfstack *stack)
{
	if (!stack)
		return;
	bpfstack_detach(stack);
	ring_buffer__free(stack->ring);
	bpfstack_events_free(stack->events);
	if (stack->epoll >= 0)
		close(stack->epoll);
	stack_bpf__destroy(stack->skeleton);
	bpftables_free(stack->tables);
	free(stack);
}

void bpfstack_freep(struct bpfstack **stack)
{
	bpfstack_free(*stack);
}

int bpfstack_add(struct bpfstack *stack, uint32_t pid, struct err *err)
{
	return bpftables_add(stack->tables, pid, err);
}

int bpfstack_refresh(struct bpfstack *stack, uint32_t pid, struct err *err)
{
	return bpftables_refresh(stack->tables, pid, err);
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

static int refused(struct bpfstack *stack, int rc, const char *what, struct err *err)
{
	/* the verifier's verdict is the last line before its statistics */
	char *verdict = strstr(stack->log, "\nprocessed ");
	if (verdict && verdict > stack->log) {
		*verdict = '\0';
		char *line = strrchr(stack->log, '\n');
		snprintf(last_words, sizeof(last_words), "%s", line ? line + 1 : stack->log);
	}
	err_set(err, rc, "cannot %s: %s", what, last_words[0] ? last_words : "refused");
	return err_hint(err, "needs Linux 6.1 with BTF, CAP_BPF and CAP_PERFMON; 'byteledger "
			     "check' lists what is missing");
}

static void read_log(struct bpfstack *stack)
{
	const char *at = strstr(stack->log, "stack depth ");
	stack->stack_bytes = 0;
	for (at = at ? at + strlen("stack depth ") : NULL; at && *at >= '0' && *at <= '9';
	     at += *at == '+')
		stack->stack_bytes += (uint32_t)strtoul(at, (char **)&at, 10);
	at = strstr(stack->log, "processed ");
	if (at)
		stack->verified = (uint32_t)strtoul(at + strlen("processed "), NULL, 10);
}

static int set_up(struct bpfstack *stack)
{
	struct stack_bpf *s = stack->skeleton;
	struct stat st;
	uint32_t bytes = (uint32_t)bpftables_bytes(stack->tables);
	int rc = bpf_map__set_value_size(s->maps.walk_words, bytes);
	s->rodata->walk_words_mask = bytes / 4 - 1;
	s->rodata->walk_use_cache = !stack->opt.no_rule_cache;
	if (stack->opt.block_bytes >= 8 && stack->opt.block_bytes <= 4096)
		s->rodata->walk_block_bytes = stack->opt.block_bytes;
	if (stack->opt.frames_max && stack->opt.frames_max < WIRE_STACK_FRAMES_MAX)
		s->rodata->walk_frames_max = stack->opt.frames_max;
	s->rodata->stack_send = !stack->opt.count_only;
	if (!stat("/proc/self/ns/pid", &st) && st.st_ino != INITIAL_PIDNS_INODE) {
		s->rodata->stack_pidns_dev = st.st_dev;
		s->rodata->stack_pidns_ino = st.st_ino;
	}
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.walk_rules,
					      (uint32_t)libbpf_num_possible_cpus() *
						      WIRE_STACK_SLOTS);
	if (!rc)
		rc = bpf_map__set_max_entries(s->maps.stack_ring, stack->opt.ring_bytes
									  ? stack->opt.ring_bytes
									  : 4 << 20);
	if (stack->opt.extents) {
		bpf_program__set_autoload(s->progs.stack_at_function, false);
		if (!rc)
			rc = bpf_map__set_max_entries(s->maps.extents, EXTENTS_MAX);
		if (!rc)
			rc = bpf_map__set_max_entries(s->maps.extent_names, EXTENT_NAMES_MAX);
		if (!rc)
			rc = bpf_map__set_max_entries(s->maps.extent_stacks, EXTENT_STACKS_MAX);
	} else {
		bpf_program__set_autoload(s->progs.extent_changed, false);
	}
	bpf_program__set_log_buf(s->progs.stack_at_function, stack->log, sizeof(stack->log));
	bpf_program__set_log_level(s->progs.stack_at_function, 4); /* statistics only */
	return rc;
}

static int take_record(void *ctx, void *data, size_t bytes)
{
	struct bpfstack *stack = ctx;
	const struct wire_stack *record = data;
	size_t head = offsetof(struct wire_stack, frame);
	if (bytes < head || record->count > WIRE_STACK_FRAMES_MAX ||
	    bytes < head + record->count * 8u)
		return 0;
	return stack->stack_cb && stack->stack_cb(stack->stack_ctx, record) ? -ECANCELED : 0;
}

static int watch(struct bpfstack *stack, int fd)
{
	struct epoll_event event = { .events = EPOLLIN };
	return epoll_ctl(stack->epoll, EPOLL_CTL_ADD, fd, &event);
}

static int open_rest(struct bpfstack *stack, struct err *err)
{
	struct stack_bpf *s = stack->skeleton;
	stack->ring = ring_buffer__new(bpf_map__fd(s->maps.stack_ring), take_record, stack, NULL);
	stack->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!stack->ring || stack->epoll < 0 ||
	    watch(stack, ring_buffer__epoll_fd(stack->ring)) < 0)
		return err_set(err, -errno, "cannot open the ring of stacks");
	/* without them mappings are looked at now and then */
	stack->events = bpfstack_events_new();
	for (uint32_t i = 0; stack->events && i < bpfstack_events_count(stack->events); i++)
		watch(stack, bpfstack_events_fd(stack->events, i));
	const struct bpftables_maps maps = { s->maps.walk_words, s->maps.walk_places,
					     s->maps.walk_processes, s->maps.walk_rules };
	return bpftables_open(stack->tables, &maps, err);
}

int bpfstack_load(struct bpfstack *stack, struct err *err)
{
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	last_words[0] = '\0';
	int rc = 0;
	stack->skeleton = stack_bpf__open();
	if (!stack->skeleton)
		rc = refused(stack, -errno, "open the stack walker", err);
	if (!rc && (rc = set_up(stack)) < 0)
		rc = refused(stack, rc, "set up the stack walker", err);
	if (!rc && (rc = stack_bpf__load(stack->skeleton)) < 0)
		rc = refused(stack, rc, "load the stack walker", err);
	if (!rc) {
		read_log(stack);
		rc = open_rest(stack, err);
	}
	libbpf_set_print(talk);
	return rc;
}

int bpfstack_attach(struct bpfstack *stack, uint32_t pid, const char *path, const char *symbol,
		    uint64_t offset, struct err *err)
{
	if (stack->link_count == sizeof(stack->links) / sizeof(stack->links[0]))
		return err_set(err, -ENOSPC, "cannot attach to more than %u places",
			       stack->link_count);
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .func_name = symbol);
	struct bpf_link *link =
		bpf_program__attach_uprobe_opts(stack->skeleton->progs.stack_at_function,
						pid ? (pid_t)pid : -1, path, offset, &opts);
	int error = errno;
	libbpf_set_print(talk);
	if (!link)
		return err_set(err, -error, "cannot attach to '%s' in '%s'",
			       symbol ? symbol : "code", path);
	stack->links[stack->link_count++] = link;
	return 0;
}

int bpfstack_attach_extents(struct bpfstack *stack, struct err *err)
{
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	struct bpf_link *link = bpf_program__attach(stack->skeleton->progs.extent_changed);
	int error = errno;
	libbpf_set_print(talk);
	if (!link)
		return err_set(err, -error, "cannot look at system calls that map memory");
	stack->links[stack->link_count++] = link;
	return 0;
}

int bpfstack_extents_fd(const struct bpfstack *stack)
{
	return bpf_map__fd(stack->skeleton->maps.extents);
}

int bpfstack_names_fd(const struct bpfstack *stack)
{
	return bpf_map__fd(stack->skeleton->maps.extent_names);
}

int bpfstack_locate(const struct bpfstack *stack, uint32_t pid, uint64_t addr,
		    struct bpfstack_spot *spot)
{
	struct bpftables_spot found;
	int rc = bpftables_locate(stack->tables, pid, addr, &found);
	if (!rc)
		*spot = (struct bpfstack_spot){ found.path, found.build_id, found.build_id_len,
						found.offset };
	return rc;
}

static void mark_dirty(void *ctx, uint32_t pid)
{
	bpftables_mark(ctx, pid);
}

static void look_at_dirty(struct bpfstack *stack)
{
	if (stack->events)
		bpfstack_events_read(stack->events, mark_dirty, stack->tables);
	bpftables_update(stack->tables, !!stack->events, NULL, NULL);
}

int bpfstack_drain(struct bpfstack *stack, int timeout_ms,
		   int (*stack_cb)(void *ctx, const struct wire_stack *record), void *ctx,
		   struct err *err)
{
	struct epoll_event event;
	if (epoll_wait(stack->epoll, &event, 1, timeout_ms) < 0 && errno != EINTR)
		return err_set(err, -errno, "cannot wait for stacks");
	look_at_dirty(stack);
	stack->stack_cb = stack_cb;
	stack->stack_ctx = ctx;
	int rc = ring_buffer__consume(stack->ring);
	if (rc < 0 && rc != -ECANCELED)
		return err_set(err, rc, "cannot read the ring of stacks");
	return rc < 0 ? 0 : rc;
}

int bpfstack_counts(struct bpfstack *stack, uint64_t counts[WIRE_STACK_COUNTERS], struct err *err)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *all = cpus > 0 ? calloc((size_t)cpus * WIRE_STACK_COUNTERS, sizeof(*all)) : NULL;
	uint32_t zero = 0;
	if (!all)
		return err_set(err, -ENOMEM, "cannot read counters");
	int rc = bpf_map_lookup_elem(bpf_map__fd(stack->skeleton->maps.walk_counters), &zero, all);
	if (rc < 0)
		rc = err_set(err, -errno, "cannot read counters");
	memset(counts, 0, WIRE_STACK_COUNTERS * sizeof(*counts));
	for (int cpu = 0; !rc && cpu < cpus; cpu++)
		for (unsigned i = 0; i < WIRE_STACK_COUNTERS; i++)
			counts[i] += all[(size_t)cpu * WIRE_STACK_COUNTERS + i];
	free(all);
	return rc;
}

int bpfstack_info(struct bpfstack *stack, struct bpfstack_info *info, struct err *err)
{
	struct bpf_prog_info kernel = { 0 };
	uint32_t bytes = sizeof(kernel);
	memset(info, 0, sizeof(*info));
	if (bpf_obj_get_info_by_fd(bpf_program__fd(stack->skeleton->progs.stack_at_function),
				   &kernel, &bytes) < 0)
		return err_set(err, -errno, "cannot ask about the stack walker");
	info->verified_instructions =
		kernel.verified_insns ? kernel.verified_insns : stack->verified;
	info->program_bytes = kernel.jited_prog_len;
	info->stack_bytes = stack->stack_bytes;
	info->runs = kernel.run_cnt;
	info->run_ns = kernel.run_time_ns;
	struct bpftables_counts counts;
	bpftables_count(stack->tables, &counts);
	info->table_bytes = (uint32_t)counts.table_bytes;
	info->table_room = (uint32_t)counts.table_room;
	info->modules = counts.modules;
	info->modules_without_table = counts.modules_without_table;
	info->places = counts.places;
	return 0;
}

int bpfstack_drop_privileges(struct err *err)
{
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2];
	if (syscall(SYS_capget, &head, data) < 0)
		return err_set(err, -errno, "cannot read capabilities");
	/* new mappings have to be read from /proc/PID as before */
	uint32_t keep = 1u << CAP_SYS_PTRACE | 1u << CAP_DAC_READ_SEARCH;
	data[0].effective &= keep;
	data[0].permitted &= keep;
	data[1].effective = data[1].permitted = 0;
	data[0].inheritable = data[1].inheritable = 0;
	if (syscall(SYS_capset, &head, data) < 0)
		return err_set(err, -errno, "cannot drop capabilities");
	return 0;
}
