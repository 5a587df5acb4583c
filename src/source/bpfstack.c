/* SPDX-License-Identifier: Apache-2.0 */
#include "source/bpfstack.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/capability.h>

#include "base/clock.h"
#include "source/bpfstack_events.h"
#include "source/bpfstack_places.h"
#include "stack.skel.h"
#include "sym/unwind_rows.h"

#define TABLE_MIN_BYTES (4u << 20)
#define TABLE_MAX_BYTES (1u << 30)
#define EXTENTS_MAX 65536u /* mappings, names and stacks that are kept, of all processes */
#define EXTENT_NAMES_MAX 16384u
#define EXTENT_STACKS_MAX 16384u
#define INITIAL_PIDNS_INODE 0xeffffffcu
#define RETIRE_NS \
	1000000000ULL /* a range of places that a walk may still be reading is left alone this long */
#define LOOK_EVERY_NS 50000000ULL /* where the kernel does not announce mappings */

/* The unwind table of one file. */
struct table {
	char *path;
	uint64_t inode;
	uint8_t build_id[32];
	uint8_t build_id_len;
	struct wire_unwind *blob; /* NULL: it has none */
	struct unwind_rows_info info;
	uint32_t at; /* in words, u32 units; 0 = not placed */
};

struct process {
	uint32_t pid;
	struct unwind_rows *rows;
	uint64_t hash; /* of the mappings that are published */
	uint32_t first, count;
	uint32_t place_count;
	struct wire_stack_place *places; /* ready to be published */
	uint32_t *place_tables;          /* number of each one's table + 1 */
	uint64_t *place_biases; /* what its file's addresses are off by; UINT64_MAX = unknown */
	uint64_t looked_ns;
	int dirty;
};

struct retired {
	uint32_t first, count;
	uint64_t until_ns;
};

struct bpfstack {
	struct bpfstack_opt opt;
	struct stack_bpf *skeleton;
	struct bpf_link *links[16];
	uint32_t link_count;
	struct table *tables;
	uint32_t table_count;
	struct process *processes;
	uint32_t process_count;
	struct retired retired[256];
	uint32_t retired_count;
	uint32_t generation;
	uint32_t *words; /* mapped */
	uint64_t words_bytes, words_used;
	struct wire_stack_place *places; /* mapped */
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
	if (stack->words)
		munmap(stack->words, stack->words_bytes);
	if (stack->places)
		munmap(stack->places, sizeof(struct wire_stack_place) * WIRE_STACK_PLACES_MAX);
	stack_bpf__destroy(stack->skeleton);
	for (uint32_t i = 0; i < stack->table_count; i++) {
		free(stack->tables[i].path);
		free(stack->tables[i].blob);
	}
	free(stack->tables);
	for (uint32_t i = 0; i < stack->process_count; i++) {
		unwind_rows_free(stack->processes[i].rows);
		free(stack->processes[i].places);
		free(stack->processes[i].place_tables);
		free(stack->processes[i].place_biases);
	}
	free(stack->processes);
	free(stack);
}

void bpfstack_freep(struct bpfstack **stack)
{
	bpfstack_free(*stack);
}

static int same_file(const struct table *table, const struct code_mapping *mapping)
{
	if (table->build_id_len != mapping->build_id_len ||
	    memcmp(table->build_id, mapping->build_id, table->build_id_len))
		return 0;
	return table->build_id_len ||
	       (table->inode == mapping->inode && !strcmp(table->path, mapping->path));
}

/* Put a table into the kernel's words; what does not fit stays without, and is counted in info. */
static void place_table(struct bpfstack *stack, struct table *table)
{
	if (!table->blob || !stack->words)
		return;
	uint64_t at = (stack->words_used + 7) & ~7ULL, bytes = table->blob->total_bytes;
	if (at + bytes <= stack->words_bytes) {
		memcpy((char *)stack->words + at, table->blob, bytes);
		table->at = (uint32_t)(at / 4);
		stack->words_used = at + bytes;
	}
	/* only the header is wanted from here on */
	struct wire_unwind *head = realloc(table->blob, sizeof(*head));
	if (head)
		table->blob = head;
}

/* Number + 1 of the table of what is mapped there; 0 for code without a file. */
static int64_t find_table(struct bpfstack *stack, struct process *process,
			  const struct code_mapping *mapping, struct err *err)
{
	if (mapping->path[0] != '/' && strcmp(mapping->path, "[vdso]"))
		return 0;
	for (uint32_t i = 0; i < stack->table_count; i++)
		if (same_file(&stack->tables[i], mapping))
			return i + 1;
	struct table *grown = reallocarray(stack->tables, stack->table_count + 1, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "cannot list unwind tables");
	stack->tables = grown;
	struct table *table = &grown[stack->table_count];
	*table = (struct table){ .path = strdup(mapping->path), .inode = mapping->inode };
	if (!table->path)
		return err_set(err, -ENOMEM, "cannot list unwind tables");
	memcpy(table->build_id, mapping->build_id, mapping->build_id_len);
	table->build_id_len = mapping->build_id_len;
	struct err
		ignored; /* a module without a table is a fact about the module, counted in info */
	err_init(&ignored);
	unwind_rows_get(process->rows, mapping->path, mapping->build_id, mapping->build_id_len,
			&table->blob, &table->info, &ignored);
	place_table(stack, table);
	return ++stack->table_count;
}

/* What must be added to a file's virtual address at that mapping; 0 = the file does not say. */
static int find_bias(const struct table *table, const struct code_mapping *mapping, uint64_t *bias)
{
	uint64_t bytes = mapping->hi - mapping->lo;
	for (uint32_t i = 0; i < table->info.exec_count; i++) {
		const struct unwind_rows_segment *s = &table->info.exec[i];
		if (mapping->file_offset < s->file_offset + s->file_bytes &&
		    mapping->file_offset + bytes > s->file_offset) {
			*bias = mapping->lo - (s->vaddr + (mapping->file_offset - s->file_offset));
			return 1;
		}
	}
	return 0;
}

static int describe(struct bpfstack *stack, struct process *process, struct code_mappings *mappings,
		    struct err *err)
{
	struct wire_stack_place *places = calloc(mappings->count, sizeof(*places));
	uint32_t *tables = calloc(mappings->count, sizeof(*tables));
	uint64_t *biases = calloc(mappings->count, sizeof(*biases));
	int64_t rc = places && tables && biases ? 0 : err_set(err, -ENOMEM, "cannot list mappings");
	for (size_t i = 0; rc >= 0 && i < mappings->count; i++) {
		const struct code_mapping *mapping = &mappings->all[i];
		places[i].lo = mapping->lo;
		places[i].hi = mapping->hi;
		rc = find_table(stack, process, mapping, err);
		if (rc > 0)
			tables[i] = (uint32_t)rc;
		/* a file without recipes is a gap, code of no file may have frame pointers: both are tried so */
		places[i].text_lo = mapping->hi;
		places[i].text_bytes = rc > 0;
		uint64_t bias;
		const struct table *table = rc > 0 ? &stack->tables[rc - 1] : NULL;
		biases[i] = table && find_bias(table, mapping, &bias) ? bias : UINT64_MAX;
		if (table && table->blob && biases[i] != UINT64_MAX) {
			places[i].text_lo = bias + table->blob->text_lo;
			places[i].text_bytes = (uint32_t)table->blob->text_bytes;
		}
	}
	if (rc < 0) {
		free(places);
		free(tables);
		free(biases);
		return (int)rc;
	}
	free(process->places);
	free(process->place_tables);
	free(process->place_biases);
	process->place_biases = biases;
	process->place_count = (uint32_t)mappings->count;
	process->places = places;
	process->place_tables = tables;
	process->hash = mappings->hash;
	return (int)mappings->count;
}

/* First room of @count places that no process has, nor had until a moment ago. */
static int64_t find_range(struct bpfstack *stack, uint32_t count)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint32_t kept = 0;
	for (uint32_t i = 0; i < stack->retired_count; i++)
		if (stack->retired[i].until_ns > now)
			stack->retired[kept++] = stack->retired[i];
	stack->retired_count = kept;
	for (uint32_t first = 0;;) {
		uint32_t next = first;
		for (uint32_t i = 0; i < stack->process_count; i++) {
			const struct process *p = &stack->processes[i];
			if (p->count && first < p->first + p->count && p->first < first + count)
				next = p->first + p->count;
		}
		for (uint32_t i = 0; i < stack->retired_count; i++) {
			const struct retired *r = &stack->retired[i];
			if (first < r->first + r->count && r->first < first + count)
				next = r->first + r->count;
		}
		if (next + count > WIRE_STACK_PLACES_MAX)
			return -ENOSPC;
		if (next == first)
			return first;
		first = next;
	}
}

/* Recipes of 2^17 generations ago would look fresh: forget them all. */
static int clear_rules(struct bpfstack *stack)
{
	int fd = bpf_map__fd(stack->skeleton->maps.walk_rules);
	struct wire_stack_rules *none = calloc(1, sizeof(*none));
	int rc = none ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < bpf_map__max_entries(stack->skeleton->maps.walk_rules); i++)
		rc = bpf_map_update_elem(fd, &i, none, BPF_ANY);
	free(none);
	return rc;
}

static int publish(struct bpfstack *stack, struct process *process, uint32_t count, struct err *err)
{
	int64_t first = find_range(stack, count);
	if (first < 0 || (process->count && stack->retired_count == 256))
		return err_set(err, -ENOSPC, "cannot list the mappings of %u processes",
			       stack->process_count);
	for (uint32_t i = 0; i < count; i++) {
		struct wire_stack_place place = process->places[i];
		const struct table *table = process->place_tables[i]
						    ? &stack->tables[process->place_tables[i] - 1]
						    : NULL;
		if (table && table->blob && place.text_bytes > 1) {
			if (table->at) {
				place.idx = table->at + table->blob->idx_off / 4;
				place.row = table->at + table->blob->row_off / 4;
				place.rule = (table->at + table->blob->rule_off / 4) / 2;
			} else { /* did not fit */
				place.text_lo = place.hi;
				place.text_bytes = 1;
			}
		}
		stack->places[first + i] = place;
	}
	__atomic_thread_fence(__ATOMIC_RELEASE); /* places before the entry that names them */
	stack->generation = (stack->generation + 1) % WIRE_STACK_GENERATIONS;
	if (!stack->generation) {
		stack->generation = 1;
		if (clear_rules(stack) < 0)
			return err_set(err, -ENOMEM, "cannot clear remembered recipes");
	}
	struct wire_stack_process entry = { .first = (uint32_t)first,
					    .count = count,
					    .generation = stack->generation };
	if (bpf_map_update_elem(bpf_map__fd(stack->skeleton->maps.walk_processes), &process->pid,
				&entry, BPF_ANY) < 0)
		return err_set(err, -errno, "cannot publish the mappings of process %u",
			       process->pid);
	if (process->count)
		stack->retired[stack->retired_count++] =
			(struct retired){ process->first, process->count,
					  clock_ns(CLOCK_MONOTONIC) + RETIRE_NS };
	process->first = (uint32_t)first;
	process->count = count;
	return 0;
}

static struct process *find_process(const struct bpfstack *stack, uint32_t pid)
{
	for (uint32_t i = 0; i < stack->process_count; i++)
		if (stack->processes[i].pid == pid)
			return &stack->processes[i];
	return NULL;
}

static int look(struct bpfstack *stack, struct process *process, struct err *err)
{
	struct code_mappings mappings;
	int rc = code_mappings_read(&mappings, process->pid, err);
	if (rc < 0)
		return rc;
	process->dirty = 0;
	process->looked_ns = clock_ns(CLOCK_MONOTONIC);
	if (process->places && process->hash == mappings.hash) {
		code_mappings_fini(&mappings);
		return 0;
	}
	int count = describe(stack, process, &mappings, err);
	code_mappings_fini(&mappings);
	if (count < 0)
		return count;
	if (!stack->skeleton) {
		process->count = (uint32_t)count;
		return 1;
	}
	rc = publish(stack, process, (uint32_t)count, err);
	if (rc < 0) /* the kernel has the older places still: the next look publishes again */
		process->hash = 0;
	return rc < 0 ? rc : 1;
}

int bpfstack_add(struct bpfstack *stack, uint32_t pid, struct err *err)
{
	if (find_process(stack, pid))
		return 0;
	if (stack->process_count == WIRE_STACK_PROCESSES_MAX)
		return err_set(err, -ENOSPC, "cannot follow more than %d processes",
			       WIRE_STACK_PROCESSES_MAX);
	struct process *grown =
		reallocarray(stack->processes, stack->process_count + 1, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "cannot follow process %u", pid);
	stack->processes = grown;
	struct process *process = &grown[stack->process_count];
	*process = (struct process){ .pid = pid };
	process->rows = unwind_rows_new(pid, stack->opt.cache_dir, err);
	if (!process->rows)
		return err->code;
	stack->process_count++;
	int rc = look(stack, process, err);
	if (rc < 0) {
		unwind_rows_free(process->rows);
		free(process->places);
		free(process->place_tables);
		free(process->place_biases);
		stack->process_count--;
		return rc;
	}
	return 0;
}

int bpfstack_refresh(struct bpfstack *stack, uint32_t pid, struct err *err)
{
	struct process *process = find_process(stack, pid);
	if (!process)
		return err_set(err, -ESRCH, "process %u was not added", pid);
	return look(stack, process, err);
}

static uint32_t table_bytes(const struct bpfstack *stack)
{
	uint64_t need = 0, room = TABLE_MIN_BYTES;
	for (uint32_t i = 0; i < stack->table_count; i++)
		if (stack->tables[i].blob)
			need += stack->tables[i].blob->total_bytes + 8;
	need = stack->opt.table_bytes ? stack->opt.table_bytes : need * 2;
	while (room < need && room < TABLE_MAX_BYTES)
		room *= 2;
	return (uint32_t)room;
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
	uint32_t bytes = table_bytes(stack);
	int rc = bpf_map__set_value_size(s->maps.walk_words, bytes);
	stack->words_bytes = bytes;
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
	void *words = mmap(NULL, stack->words_bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			   bpf_map__fd(s->maps.walk_words), 0);
	if (words == MAP_FAILED)
		return err_set(err, -errno, "cannot map the kernel's unwind tables");
	stack->words = words;
	void *places =
		mmap(NULL, sizeof(struct wire_stack_place) * WIRE_STACK_PLACES_MAX,
		     PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(s->maps.walk_places), 0);
	if (places == MAP_FAILED)
		return err_set(err, -errno, "cannot map the kernel's list of mappings");
	stack->places = places;
	stack->words_used = 8; /* number 0 means "not placed" */
	stack->ring = ring_buffer__new(bpf_map__fd(s->maps.stack_ring), take_record, stack, NULL);
	stack->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!stack->ring || stack->epoll < 0 ||
	    watch(stack, ring_buffer__epoll_fd(stack->ring)) < 0)
		return err_set(err, -errno, "cannot open the ring of stacks");
	/* without them mappings are looked at now and then */
	stack->events = bpfstack_events_new();
	for (uint32_t i = 0; stack->events && i < bpfstack_events_count(stack->events); i++)
		watch(stack, bpfstack_events_fd(stack->events, i));
	for (uint32_t i = 0; i < stack->table_count; i++)
		place_table(stack, &stack->tables[i]);
	for (uint32_t i = 0; i < stack->process_count; i++) {
		struct process *process = &stack->processes[i];
		uint32_t count = process->count;
		process->count = 0;
		int rc = publish(stack, process, count, err);
		if (rc < 0)
			return rc;
	}
	return 0;
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
	const struct process *process = find_process(stack, pid);
	for (uint32_t i = 0; process && i < process->place_count; i++) {
		const struct wire_stack_place *place = &process->places[i];
		if (addr < place->lo || addr >= place->hi)
			continue;
		if (!process->place_tables[i] || process->place_biases[i] == UINT64_MAX)
			return -ENOENT;
		const struct table *table = &stack->tables[process->place_tables[i] - 1];
		*spot = (struct bpfstack_spot){ table->path, table->build_id, table->build_id_len,
						addr - process->place_biases[i] };
		return 0;
	}
	return -ENOENT;
}

static void mark_dirty(void *ctx, uint32_t pid)
{
	struct bpfstack *stack = ctx;
	for (uint32_t i = 0; i < stack->process_count; i++)
		if (!pid || stack->processes[i].pid == pid)
			stack->processes[i].dirty = 1;
}

static void look_at_dirty(struct bpfstack *stack)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (stack->events)
		bpfstack_events_read(stack->events, mark_dirty, stack);
	for (uint32_t i = 0; i < stack->process_count; i++) {
		struct process *process = &stack->processes[i];
		struct err gone; /* a process that ended sends nothing any more: not an error */
		err_init(&gone);
		if (process->dirty || (!stack->events && now - process->looked_ns > LOOK_EVERY_NS))
			look(stack, process, &gone);
	}
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
	info->table_bytes = (uint32_t)stack->words_used;
	info->table_room = (uint32_t)stack->words_bytes;
	info->modules = stack->table_count;
	for (uint32_t i = 0; i < stack->table_count; i++)
		info->modules_without_table += !stack->tables[i].at;
	for (uint32_t i = 0; i < stack->process_count; i++)
		info->places += stack->processes[i].count;
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
