/* SPDX-License-Identifier: Apache-2.0 */
#include "source/bpftables.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>

#include "base/clock.h"
#include "source/bpfstack_places.h"
#include "sym/unwind_rows.h"

#define TABLE_MIN_BYTES (4u << 20)
#define TABLE_MAX_BYTES (1u << 30)
/* a range of places that a walk may still be reading is left alone this long */
#define RETIRE_NS NS_PER_S
#define LOOK_EVERY_NS 50000000ULL /* where the kernel does not announce mappings */

/* The unwind table of one file. */
struct table {
	char *path;
	uint64_t inode;
	uint8_t build_id[32];
	uint8_t build_id_len;
	/* NULL: it has none */
	struct wire_unwind *blob;
	struct unwind_rows_info info;
	/* in words, u32 units; 0 = not placed */
	uint32_t at;
};

/* Places in the kernel's list; those of a process and of what was forked from it are the same. */
struct range {
	uint32_t first, count;
	uint32_t users, generation;
	/* nobody's since: kept until then */
	uint64_t until_ns;
};

struct process {
	uint32_t pid;
	/* NULL: none was needed yet */
	struct unwind_rows *rows;
	/* of the mappings that are published */
	uint64_t hash;
	struct range *range;
	uint32_t place_count;
	/* ready to be published */
	struct wire_stack_place *places;
	/* number of each one's table + 1 */
	uint32_t *place_tables;
	/* what its file's addresses are off by; UINT64_MAX = unknown */
	uint64_t *place_biases;
	/* in the file */
	uint64_t *place_offsets;
	uint64_t looked_ns;
	int dirty;
};

struct bpftables {
	char *cache_dir;
	/* asked for */
	uint32_t table_bytes;
	struct bpftables_maps maps;
	struct table *tables;
	uint32_t table_count;
	struct process *processes;
	uint32_t process_count;
	struct range **ranges;
	uint32_t range_count, range_cap;
	/* where room is looked for first */
	uint32_t next_place;
	struct code_ids ids;
	uint32_t generation;
	/* mapped */
	uint32_t *words;
	uint64_t words_bytes, words_used;
	/* mapped */
	struct wire_stack_place *places;
};

struct bpftables *bpftables_new(const char *cache_dir, uint32_t table_bytes, struct err *err)
{
	struct bpftables *t = calloc(1, sizeof(*t));
	if (t && cache_dir)
		t->cache_dir = strdup(cache_dir);
	if (!t || (cache_dir && !t->cache_dir)) {
		free(t);
		err_set(err, -ENOMEM, "cannot allocate unwind tables");
		return NULL;
	}
	t->table_bytes = table_bytes;
	return t;
}

static void fini_process(struct process *process)
{
	unwind_rows_free(process->rows);
	free(process->places);
	free(process->place_tables);
	free(process->place_biases);
	free(process->place_offsets);
}

void bpftables_free(struct bpftables *t)
{
	if (!t)
		return;
	if (t->words)
		munmap(t->words, t->words_bytes);
	if (t->places)
		munmap(t->places, sizeof(struct wire_stack_place) * WIRE_STACK_PLACES_MAX);
	for (uint32_t i = 0; i < t->table_count; i++) {
		free(t->tables[i].path);
		free(t->tables[i].blob);
	}
	free(t->tables);
	for (uint32_t i = 0; i < t->process_count; i++)
		fini_process(&t->processes[i]);
	free(t->processes);
	for (uint32_t i = 0; i < t->range_count; i++)
		free(t->ranges[i]);
	free(t->ranges);
	free(t->cache_dir);
	free(t);
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
static void place_table(struct bpftables *t, struct table *table)
{
	if (!table->blob || !t->words)
		return;
	uint64_t at = (t->words_used + 7) & ~7ULL, bytes = table->blob->total_bytes;
	if (at + bytes <= t->words_bytes) {
		memcpy((char *)t->words + at, table->blob, bytes);
		table->at = (uint32_t)(at / 4);
		t->words_used = at + bytes;
	}
	/* only the header is wanted from here on */
	struct wire_unwind *head = realloc(table->blob, sizeof(*head));
	if (head)
		table->blob = head;
}

/* Number + 1 of the table of what is mapped there; 0 for code without a file. */
static int64_t find_table(struct bpftables *t, struct process *process,
			  const struct code_mapping *mapping, struct err *err)
{
	if (mapping->path[0] != '/' && strcmp(mapping->path, "[vdso]"))
		return 0;
	for (uint32_t i = 0; i < t->table_count; i++)
		if (same_file(&t->tables[i], mapping))
			return i + 1;
	struct table *grown = reallocarray(t->tables, t->table_count + 1, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "cannot list unwind tables");
	t->tables = grown;
	struct table *table = &grown[t->table_count];
	*table = (struct table){ .path = strdup(mapping->path), .inode = mapping->inode };
	if (!table->path)
		return err_set(err, -ENOMEM, "cannot list unwind tables");
	memcpy(table->build_id, mapping->build_id, mapping->build_id_len);
	table->build_id_len = mapping->build_id_len;
	/* a module without a table is a fact about the module, counted in info */
	struct err ignored;
	err_init(&ignored);
	if (!process->rows)
		process->rows = unwind_rows_new(process->pid, t->cache_dir, &ignored);
	if (process->rows)
		unwind_rows_get(process->rows, mapping->path, mapping->build_id,
				mapping->build_id_len, &table->blob, &table->info, &ignored);
	place_table(t, table);
	return ++t->table_count;
}

void bpftables_expect(struct bpftables *t, const char *path)
{
	struct err ignored = { 0 };
	struct unwind_rows *rows = unwind_rows_new(0, t->cache_dir, &ignored);
	struct table *grown = reallocarray(t->tables, t->table_count + 1, sizeof(*grown));
	if (grown)
		t->tables = grown;
	struct table table = { .path = strdup(path) };
	if (rows && grown && table.path)
		unwind_rows_get(rows, path, NULL, 0, &table.blob, &table.info, &ignored);
	unwind_rows_free(rows);
	int known = !table.blob || !table.blob->build_id_len ||
		    table.blob->build_id_len > sizeof(table.build_id);
	if (!known) { /* it is found again by its build id only */
		table.build_id_len = (uint8_t)table.blob->build_id_len;
		memcpy(table.build_id, table.blob->build_id, table.build_id_len);
	}
	for (uint32_t i = 0; !known && i < t->table_count; i++)
		known = t->tables[i].build_id_len == table.build_id_len &&
			!memcmp(t->tables[i].build_id, table.build_id, table.build_id_len);
	if (known) {
		free(table.blob);
		free(table.path);
		return;
	}
	place_table(t, &table);
	t->tables[t->table_count++] = table;
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

static int describe(struct bpftables *t, struct process *process, struct code_mappings *mappings,
		    struct err *err)
{
	struct wire_stack_place *places = calloc(mappings->count, sizeof(*places));
	uint32_t *tables = calloc(mappings->count, sizeof(*tables));
	uint64_t *biases = calloc(mappings->count, sizeof(*biases));
	uint64_t *offsets = calloc(mappings->count, sizeof(*offsets));
	int64_t rc = places && tables && biases && offsets
			     ? 0
			     : err_set(err, -ENOMEM, "cannot list mappings");
	for (size_t i = 0; rc >= 0 && i < mappings->count; i++) {
		const struct code_mapping *mapping = &mappings->all[i];
		places[i].lo = mapping->lo;
		places[i].hi = mapping->hi;
		offsets[i] = mapping->file_offset;
		rc = find_table(t, process, mapping, err);
		if (rc > 0)
			tables[i] = (uint32_t)rc;
		/*
		 * a file without recipes is a gap, code of no file may have frame pointers: both
		 * are tried so
		 */
		places[i].text_lo = mapping->hi;
		places[i].text_bytes = rc > 0;
		uint64_t bias;
		const struct table *table = rc > 0 ? &t->tables[rc - 1] : NULL;
		biases[i] = table && find_bias(table, mapping, &bias) ? bias : UINT64_MAX;
		if (table && table->blob && biases[i] != UINT64_MAX) {
			places[i].text_lo = bias + table->blob->text_lo;
			places[i].text_bytes = (uint32_t)table->blob->text_bytes;
		}
	}
	unwind_rows_rest(process->rows);
	if (rc < 0) {
		free(places);
		free(tables);
		free(biases);
		free(offsets);
		return (int)rc;
	}
	free(process->places);
	free(process->place_tables);
	free(process->place_biases);
	free(process->place_offsets);
	process->place_biases = biases;
	process->place_offsets = offsets;
	process->place_count = (uint32_t)mappings->count;
	process->places = places;
	process->place_tables = tables;
	process->hash = mappings->hash;
	return (int)mappings->count;
}

static void drop_range(struct range *range)
{
	if (range && !--range->users)
		range->until_ns = clock_ns(CLOCK_MONOTONIC) + RETIRE_NS;
}

/* The end of what overlaps with [first, first + count); 0: nothing does. */
static uint32_t taken_until(const struct bpftables *t, uint32_t first, uint32_t count)
{
	for (uint32_t i = 0; i < t->range_count; i++) {
		const struct range *r = t->ranges[i];
		if (first < r->first + r->count && r->first < first + count)
			return r->first + r->count;
	}
	return 0;
}

/*
 * Room for @count places that no process has, nor had until a moment ago: behind what was given
 * last, mostly at once.
 */
static struct range *make_range(struct bpftables *t, uint32_t count)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	uint32_t kept = 0, end;
	for (uint32_t i = 0; i < t->range_count; i++) {
		if (t->ranges[i]->users || t->ranges[i]->until_ns > now)
			t->ranges[kept++] = t->ranges[i];
		else
			free(t->ranges[i]);
	}
	t->range_count = kept;
	if (t->range_count == t->range_cap) {
		uint32_t cap = t->range_cap ? t->range_cap * 2 : 64;
		struct range **grown = reallocarray(t->ranges, cap, sizeof(struct range *));
		if (!grown)
			return NULL;
		t->ranges = grown;
		t->range_cap = cap;
	}
	uint32_t first = t->next_place;
	for (int again = 0;;) {
		if (first + count > WIRE_STACK_PLACES_MAX) {
			if (again++)
				return NULL;
			first = 0;
		}
		end = taken_until(t, first, count);
		if (!end)
			break;
		first = end;
	}
	struct range *range = calloc(1, sizeof(*range));
	if (!range)
		return NULL;
	*range = (struct range){ .first = first, .count = count, .users = 1 };
	t->next_place = first + count;
	return t->ranges[t->range_count++] = range;
}

/* Recipes of 2^17 generations ago would look fresh: forget them all. */
static int clear_rules(struct bpftables *t)
{
	int fd = bpf_map__fd(t->maps.rules);
	struct wire_stack_rules *none = calloc(1, sizeof(*none));
	int rc = none ? 0 : -ENOMEM;
	for (uint32_t i = 0; !rc && i < bpf_map__max_entries(t->maps.rules); i++)
		rc = bpf_map_update_elem(fd, &i, none, BPF_ANY);
	free(none);
	return rc;
}

static int tell_kernel(struct bpftables *t, const struct process *process, uint64_t flags)
{
	struct wire_stack_process entry = { .first = process->range->first,
					    .count = process->range->count,
					    .generation = process->range->generation };
	return bpf_map_update_elem(bpf_map__fd(t->maps.processes), &process->pid, &entry, flags) < 0
		       ? -errno
		       : 0;
}

static int publish(struct bpftables *t, struct process *process, uint32_t count, struct err *err)
{
	struct range *range = make_range(t, count), *before = process->range;
	if (!range)
		return err_set(err, -ENOSPC, "cannot list the mappings of %u processes",
			       t->process_count);
	for (uint32_t i = 0; i < count; i++) {
		struct wire_stack_place place = process->places[i];
		const struct table *table =
			process->place_tables[i] ? &t->tables[process->place_tables[i] - 1] : NULL;
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
		t->places[range->first + i] = place;
	}
	__atomic_thread_fence(__ATOMIC_RELEASE); /* places before the entry that names them */
	t->generation = (t->generation + 1) % WIRE_STACK_GENERATIONS;
	if (!t->generation) {
		t->generation = 1;
		if (clear_rules(t) < 0) {
			drop_range(range);
			return err_set(err, -ENOMEM, "cannot clear remembered recipes");
		}
	}
	range->generation = t->generation;
	process->range = range;
	int rc = tell_kernel(t, process, BPF_ANY);
	if (rc < 0) {
		process->range = before;
		drop_range(range);
		return err_set(err, rc, "cannot publish the mappings of process %u", process->pid);
	}
	drop_range(before);
	return 0;
}

static struct process *find_process(const struct bpftables *t, uint32_t pid)
{
	for (uint32_t i = 0; i < t->process_count; i++)
		if (t->processes[i].pid == pid)
			return &t->processes[i];
	return NULL;
}

static int look(struct bpftables *t, struct process *process, struct err *err)
{
	struct code_mappings mappings;
	int rc = code_mappings_read(&mappings, process->pid, &t->ids, err);
	if (rc < 0)
		return rc;
	process->dirty = 0;
	process->looked_ns = clock_ns(CLOCK_MONOTONIC);
	if (process->places && process->hash == mappings.hash) {
		code_mappings_fini(&mappings);
		return 0;
	}
	int count = describe(t, process, &mappings, err);
	code_mappings_fini(&mappings);
	if (count < 0)
		return count;
	if (!t->words) /* bpftables_open() publishes it */
		return 1;
	rc = publish(t, process, (uint32_t)count, err);
	if (rc < 0) /* the kernel has the older places still: the next look publishes again */
		process->hash = 0;
	return rc < 0 ? rc : 1;
}

int bpftables_add(struct bpftables *t, uint32_t pid, struct err *err)
{
	if (find_process(t, pid))
		return 0;
	if (t->process_count == WIRE_STACK_PROCESSES_MAX)
		return err_set(err, -ENOSPC, "cannot follow more than %d processes",
			       WIRE_STACK_PROCESSES_MAX);
	struct process *grown = reallocarray(t->processes, t->process_count + 1, sizeof(*grown));
	if (!grown)
		return err_set(err, -ENOMEM, "cannot follow process %u", pid);
	t->processes = grown;
	struct process *process = &grown[t->process_count];
	*process = (struct process){ .pid = pid };
	t->process_count++;
	int rc = look(t, process, err);
	if (rc < 0) {
		fini_process(process);
		t->process_count--;
		return rc;
	}
	return 0;
}

static void *copy_of(const void *from, uint32_t count, size_t size)
{
	void *to = from ? calloc(count + 1, size) : NULL;
	if (to)
		memcpy(to, from, count * size);
	return to;
}

int bpftables_fork(struct bpftables *t, uint32_t parent, uint32_t child)
{
	if (find_process(t, child))
		return 0;
	if (t->process_count == WIRE_STACK_PROCESSES_MAX || !find_process(t, parent))
		return t->process_count == WIRE_STACK_PROCESSES_MAX ? -ENOSPC : -ESRCH;
	struct process *grown = reallocarray(t->processes, t->process_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	t->processes = grown;
	const struct process *from = find_process(t, parent);
	struct process *to = &grown[t->process_count];
	uint32_t count = from->place_count;
	*to = (struct process){
		.pid = child,
		.hash = from->hash,
		.range = from->range,
		.place_count = count,
		.places = copy_of(from->places, count, sizeof(*to->places)),
		.place_tables = copy_of(from->place_tables, count, sizeof(*to->place_tables)),
		.place_biases = copy_of(from->place_biases, count, sizeof(*to->place_biases)),
		.place_offsets = copy_of(from->place_offsets, count, sizeof(*to->place_offsets)),
		.looked_ns = clock_ns(CLOCK_MONOTONIC)
	};
	if (!to->range || !to->places || !to->place_tables || !to->place_biases ||
	    !to->place_offsets) {
		fini_process(to);
		return -ENOMEM;
	}
	to->range->users++;
	t->process_count++;
	tell_kernel(t, to, BPF_NOEXIST); /* the kernel side may have done it already */
	return 0;
}

int bpftables_refresh(struct bpftables *t, uint32_t pid, struct err *err)
{
	struct process *process = find_process(t, pid);
	if (!process)
		return err_set(err, -ESRCH, "process %u was not added", pid);
	return look(t, process, err);
}

static uint32_t table_bytes(const struct bpftables *t)
{
	uint64_t need = 0, room = TABLE_MIN_BYTES;
	for (uint32_t i = 0; i < t->table_count; i++)
		if (t->tables[i].blob)
			need += t->tables[i].blob->total_bytes + 8;
	need = t->table_bytes ? t->table_bytes : need * 2;
	while (room < need && room < TABLE_MAX_BYTES)
		room *= 2;
	return (uint32_t)room;
}

uint64_t bpftables_bytes(struct bpftables *t)
{
	if (!t->words_bytes)
		t->words_bytes = table_bytes(t);
	return t->words_bytes;
}

int bpftables_open(struct bpftables *t, const struct bpftables_maps *maps, struct err *err)
{
	t->maps = *maps;
	void *words = mmap(NULL, bpftables_bytes(t), PROT_READ | PROT_WRITE, MAP_SHARED,
			   bpf_map__fd(maps->words), 0);
	if (words == MAP_FAILED)
		return err_set(err, -errno, "cannot map the kernel's unwind tables");
	t->words = words;
	void *places = mmap(NULL, sizeof(struct wire_stack_place) * WIRE_STACK_PLACES_MAX,
			    PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(maps->places), 0);
	if (places == MAP_FAILED)
		return err_set(err, -errno, "cannot map the kernel's list of mappings");
	t->places = places;
	/* a child would be given all of their pages, which costs as much as the fork */
	madvise(words, bpftables_bytes(t), MADV_DONTFORK);
	madvise(places, sizeof(struct wire_stack_place) * WIRE_STACK_PLACES_MAX, MADV_DONTFORK);
	t->words_used = 8; /* number 0 means "not placed" */
	for (uint32_t i = 0; i < t->table_count; i++)
		place_table(t, &t->tables[i]);
	for (uint32_t i = 0; i < t->process_count; i++) {
		struct process *process = &t->processes[i];
		int rc = publish(t, process, process->place_count, err);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int bpftables_locate(const struct bpftables *t, uint32_t pid, uint64_t addr,
		     struct bpftables_spot *spot)
{
	const struct process *process = find_process(t, pid);
	for (uint32_t i = 0; process && i < process->place_count; i++) {
		const struct wire_stack_place *place = &process->places[i];
		if (addr < place->lo || addr >= place->hi)
			continue;
		if (!process->place_tables[i] || process->place_biases[i] == UINT64_MAX)
			return -ENOENT;
		const struct table *table = &t->tables[process->place_tables[i] - 1];
		*spot = (struct bpftables_spot){ table->path, table->build_id, table->build_id_len,
						 addr - process->place_biases[i] };
		return 0;
	}
	return -ENOENT;
}

void bpftables_mark(struct bpftables *t, uint32_t pid)
{
	for (uint32_t i = 0; i < t->process_count; i++)
		if (!pid || t->processes[i].pid == pid)
			t->processes[i].dirty = 1;
}

int bpftables_update(struct bpftables *t, int announced, void (*changed)(void *ctx, uint32_t pid),
		     void *ctx)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int count = 0;
	for (uint32_t i = 0; i < t->process_count; i++) {
		struct process *process = &t->processes[i];
		struct err gone; /* a process that ended sends nothing any more: not an error */
		err_init(&gone);
		if (!process->dirty && (announced || now - process->looked_ns <= LOOK_EVERY_NS))
			continue;
		if (look(t, process, &gone) > 0) {
			count++;
			if (changed)
				changed(ctx, process->pid);
		}
	}
	return count;
}

void bpftables_remove(struct bpftables *t, uint32_t pid)
{
	struct process *process = find_process(t, pid);
	if (!process)
		return;
	if (t->words)
		bpf_map_delete_elem(bpf_map__fd(t->maps.processes), &pid);
	drop_range(process->range);
	fini_process(process);
	*process = t->processes[--t->process_count];
}

int bpftables_each(const struct bpftables *t, uint32_t pid,
		   int (*place)(void *ctx, const struct bpftables_spot *spot, uint64_t lo,
				uint64_t hi),
		   void *ctx)
{
	const struct process *process = find_process(t, pid);
	int rc = process ? 0 : -ENOENT;
	for (uint32_t i = 0; process && !rc && i < process->place_count; i++) {
		struct bpftables_spot spot = { 0 };
		if (process->place_tables[i]) {
			const struct table *table = &t->tables[process->place_tables[i] - 1];
			spot = (struct bpftables_spot){ table->path, table->build_id,
							table->build_id_len,
							process->place_biases[i] };
			spot.file_offset = process->place_offsets[i];
		}
		rc = place(ctx, &spot, process->places[i].lo, process->places[i].hi);
	}
	return rc;
}

void bpftables_count(const struct bpftables *t, struct bpftables_counts *counts)
{
	*counts = (struct bpftables_counts){ .table_bytes = t->words_used,
					     .table_room = t->words_bytes,
					     .modules = t->table_count };
	for (uint32_t i = 0; i < t->table_count; i++) {
		counts->modules_without_table += !t->tables[i].at;
		counts->modules_left_out += t->tables[i].blob && !t->tables[i].at;
	}
	for (uint32_t i = 0; i < t->process_count; i++)
		counts->places += t->processes[i].place_count;
}
