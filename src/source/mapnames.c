/* SPDX-License-Identifier: Apache-2.0 */
#include "source/mapnames.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <bpf/bpf.h>

#include "base/arena.h"
#include "base/cleanup.h"
#include "base/intern.h"
#include "base/search.h"
#include "proc/classify_names.h"
#include "source/bpfstack.h"
#include "sym/sym.h"

#define PROCESSES_MAX 64
#define FRAMES_MAX 64u
#define RING_BYTES (1u << 20)
#define STEPS_MAX 200000u /* entries of the kernel's tables that one reading looks at */
#define LAYERS_MAX 64     /* extents over one address that are told apart: the newest */

/* Who asked: by the hash that the kernel gave the stack. */
struct asker {
	uint64_t hash;
	/* interned; module may be NULL */
	const char *function, *module;
};

struct watched {
	pid_t pid;
	struct sym *sym;
};

struct mapnames {
	pthread_mutex_t lock;
	struct bpfstack *stack;
	struct watched processes[PROCESSES_MAX];
	size_t process_count;
	/* by hash */
	struct asker *askers;
	size_t asker_count, asker_cap;
	struct intern texts;
	/* no memory while records came in */
	int failed;
};

/* ---- life ------------------------------------------------------------------------------------ */

struct mapnames *mapnames_new(struct err *err)
{
	struct mapnames *n = calloc(1, sizeof(*n));
	if (!n) {
		err_set(err, -ENOMEM, "cannot watch mappings");
		return NULL;
	}
	pthread_mutex_init(&n->lock, NULL);
#ifdef __x86_64__
	struct bpfstack_opt opt = { .extents = 1,
				    .frames_max = FRAMES_MAX,
				    .ring_bytes = RING_BYTES };
	n->stack = bpfstack_new(&opt, err);
#else
	err_set(err, -EOPNOTSUPP, "system calls are looked at on x86-64 only");
#endif
	if (!n->stack || bpfstack_load(n->stack, err) < 0 ||
	    bpfstack_attach_extents(n->stack, err) < 0) {
		mapnames_free(n);
		return NULL;
	}
	return n;
}

void mapnames_free(struct mapnames *n)
{
	if (!n)
		return;
	bpfstack_free(n->stack);
	for (size_t i = 0; i < n->process_count; i++)
		sym_free(n->processes[i].sym);
	free(n->askers);
	intern_fini(&n->texts);
	pthread_mutex_destroy(&n->lock);
	free(n);
}

void mapnames_freep(struct mapnames **names)
{
	mapnames_free(*names);
}

static struct watched *find(struct mapnames *n, pid_t pid)
{
	for (size_t i = 0; i < n->process_count; i++)
		if (n->processes[i].pid == pid)
			return &n->processes[i];
	return NULL;
}

int mapnames_add(struct mapnames *n, pid_t pid, struct err *err)
{
	if (find(n, pid))
		return 0;
	if (n->process_count == PROCESSES_MAX)
		return err_set(err, -ENOSPC, "cannot watch the mappings of more than %d processes",
			       PROCESSES_MAX);
	int rc = bpfstack_add(n->stack, (uint32_t)pid, err);
	if (rc < 0)
		return rc;
	/* the network is not asked while somebody waits for a page */
	struct sym_opt opt = { .pid = (uint32_t)pid, .no_debuginfod = 1 };
	struct sym *sym = sym_new(&opt, err);
	if (!sym)
		return err->code;
	n->processes[n->process_count++] = (struct watched){ pid, sym };
	return 0;
}

uint64_t mapnames_lost(struct mapnames *n)
{
	uint64_t counts[WIRE_STACK_COUNTERS];
	struct err ignored = { 0 };
	pthread_mutex_lock(&n->lock);
	int rc = bpfstack_counts(n->stack, counts, &ignored);
	pthread_mutex_unlock(&n->lock);
	return rc < 0 ? 0 : counts[WIRE_STACK_EXTENTS_LOST];
}

/* ---- who asked ------------------------------------------------------------------------------- */

static int begins_with_one(const char *text, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strncmp(text, words[i], strlen(words[i])) == 0)
			return 1;
	return 0;
}

/* Modules whose business it is to fetch memory for others. */
static int is_plumbing(const char *path)
{
	static const char *const modules[] = { "libc.so",     "libc-",       "ld-linux",
					       "ld-musl",     "libpthread",  "libjemalloc",
					       "libtcmalloc", "libmimalloc", "libstdc++",
					       "libc++",      "libasan",     "libbyteledger",
					       "[vdso]" };
	const char *base = strrchr(path, '/');
	return begins_with_one(base ? base + 1 : path, modules, ARRAY_LEN(modules));
}

/* The same of a function, where an allocator is linked into the program. */
static int is_allocator(const char *function)
{
	static const char *const words[] = {
		"mmap",
		"__mmap",
		"malloc",
		"__libc_malloc",
		"calloc",
		"__libc_calloc",
		"realloc",
		"__libc_realloc",
		"_int_malloc",
		"_int_realloc",
		"sysmalloc",
		"new_heap",
		"memalign",
		"_mid_memalign",
		"posix_memalign",
		"aligned_alloc",
		"operator new",
		"je_",
		"_rjem_",
		"tc_",
		"tcmalloc::",
		"mi_",
		"_mi_",
		"xmalloc",
		"xcalloc",
		"xrealloc",
		"runtime.sysAlloc",
		"runtime.sysReserve",
		"runtime.mmap",
		"runtime.sysMmap",
		"runtime.sysMap",
		"runtime/internal/syscall",
		"syscall",
	};
	return begins_with_one(function, words, ARRAY_LEN(words));
}

static const char *base_of(const char *path)
{
	const char *base = strrchr(path, '/');
	return base ? base + 1 : path;
}

/* The first frame that is no allocator; where all are, the outermost that has a name. */
static struct asker who_asked(struct mapnames *n, const struct wire_stack *record, struct sym *sym)
{
	struct asker asker = { .hash = record->arg };
	char text[256] = "";
	for (unsigned i = 0; i < record->count; i++) {
		struct bpfstack_spot spot;
		const struct symbol *symbols;
		/* addresses behind a call: the call itself is before */
		if (bpfstack_locate(n->stack, record->pid, record->frame[i] - 1, &spot) < 0)
			continue;
		int plumbing = is_plumbing(spot.path);
		uint32_t count = sym_resolve(sym, spot.path, spot.build_id, spot.build_id_len,
					     spot.offset, &symbols);
		const char *function = NULL;
		for (uint32_t k = 0; k < count && !(function && !plumbing); k++)
			if (symbols[k].function && !is_allocator(symbols[k].function))
				function = symbols[k].function;
		if (function)
			snprintf(text, sizeof(text), "%s", function);
		else if (!count || !symbols[0].function)
			snprintf(text, sizeof(text), "%s+0x%llx", base_of(spot.path),
				 (unsigned long long)spot.offset);
		else
			continue; /* an allocator */
		asker.module = intern_str(&n->texts, spot.path);
		if (!plumbing)
			break;
	}
	asker.function = intern_str(&n->texts, text[0] ? text : "?");
	if (!asker.function)
		n->failed = 1;
	return asker;
}

static struct asker *asker_of(struct mapnames *n, uint64_t hash)
{
	size_t low = 0, high = n->asker_count;
	while (low < high) {
		size_t middle = low + (high - low) / 2;
		if (n->askers[middle].hash < hash)
			low = middle + 1;
		else
			high = middle;
	}
	return low < n->asker_count && n->askers[low].hash == hash ? &n->askers[low] : NULL;
}

static int by_hash(const void *a, const void *b)
{
	const struct asker *x = a, *y = b;
	return x->hash < y->hash ? -1 : x->hash > y->hash;
}

/* For bpfstack_drain(): appended here, put in order behind the last one. */
static int take_stack(void *ctx, const struct wire_stack *record)
{
	struct mapnames *n = ctx;
	struct watched *w = find(n, (pid_t)record->pid);
	if (!w || n->failed)
		return n->failed;
	if (n->asker_count == n->asker_cap) {
		size_t cap = n->asker_cap ? n->asker_cap * 2 : 64;
		struct asker *grown = realloc(n->askers, cap * sizeof(*grown));
		if (!grown) {
			n->failed = 1;
			return 1;
		}
		n->askers = grown;
		n->asker_cap = cap;
	}
	n->askers[n->asker_count] = who_asked(n, record, w->sym);
	n->asker_count += !n->failed;
	return n->failed;
}

/* ---- what the kernel kept -------------------------------------------------------------------- */

/* An extent (stack) or a name over [start, end), the newer the higher time_ns. */
struct layer {
	uint64_t start, end, time_ns, stack;
	/* NULL: an extent; "": names were taken away. Lent from the arena */
	const char *name;
};

struct layers {
	struct layer *all;
	size_t count, cap;
	struct arena texts;
};

static int add_layer(struct layers *l, const struct layer *layer)
{
	if (l->count == l->cap) {
		size_t cap = l->cap ? l->cap * 2 : 256;
		struct layer *grown = realloc(l->all, cap * sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		l->all = grown;
		l->cap = cap;
	}
	l->all[l->count++] = *layer;
	return 0;
}

/*
 * The rules that the kernel has for names: printable, without what would end a name or a command.
 */
static int is_name(const char *text)
{
	size_t i = 0;
	for (; text[i]; i++)
		if (text[i] < 0x20 || text[i] > 0x7e || strchr("[]\\$`", text[i]))
			return 0;
	return i < WIRE_EXTENT_NAME_BYTES;
}

/*
 * Does anything of [start, end) still exist? What does not is forgotten, so that the kernel's
 * tables do not fill up.
 */
static int is_mapped(const struct breakdown *b, uint64_t start, uint64_t end)
{
	size_t at = search_beyond(b->regions, b->region_count, sizeof(*b->regions),
				  offsetof(struct region, end), start);
	return at < b->region_count && b->regions[at].start < end;
}

union value {
	struct wire_extent extent;
	struct wire_extent_name name;
};

/*
 * One entry after the other. Where the kernel deletes the one that was just read, the walk begins
 * anew, so it is bounded; an entry read twice does no harm. Only what is older than the list of
 * mappings is judged by it.
 */
static int read_table(int fd, int names, const struct breakdown *b, struct layers *l)
{
	struct wire_extent_key key, next, *from = NULL;
	struct wire_extent_key *stale = NULL;
	size_t stale_count = 0;
	union value value;
	int rc = 0;
	for (unsigned steps = 0;
	     rc == 0 && steps < STEPS_MAX && bpf_map_get_next_key(fd, from, &next) == 0;
	     steps++, key = next, from = &key) {
		if (next.pid != (uint32_t)b->pid || bpf_map_lookup_elem(fd, &next, &value) < 0)
			continue;
		uint64_t bytes = names ? value.name.bytes : value.extent.bytes;
		struct layer layer = { .start = next.start,
				       .time_ns = names ? value.name.time_ns : value.extent.time_ns,
				       .stack = names ? 0 : value.extent.stack };
		int whole = bytes && !(next.start & 4095) &&
			    !__builtin_add_overflow(next.start, bytes, &layer.end);
		if (names)
			value.name.name[WIRE_EXTENT_NAME_BYTES - 1] = '\0';
		if (!whole || (names && !is_name(value.name.name)) ||
		    (layer.time_ns < b->start_ns && !is_mapped(b, layer.start, layer.end))) {
			struct wire_extent_key *grown =
				reallocarray(stale, stale_count + 1, sizeof(*stale));
			if (grown) {
				stale = grown;
				stale[stale_count++] = next;
			}
			continue;
		}
		if (names) {
			layer.name =
				arena_memdup(&l->texts, value.name.name, strlen(value.name.name));
			rc = layer.name ? 0 : -ENOMEM;
		}
		if (rc == 0)
			rc = add_layer(l, &layer);
	}
	for (size_t i = 0; i < stale_count; i++)
		bpf_map_delete_elem(fd, &stale[i]);
	free(stale);
	return rc;
}

/* ---- one over the other ---------------------------------------------------------------------- */

/* What is to be called how: for proc/names.h, with who asked for each. */
struct pieces {
	struct names names;
	size_t cap;
	const struct asker **askers;
	char owner[LABEL_MAX];
};

static int add_piece(struct pieces *p, uint64_t start, uint64_t end, const char *name,
		     const struct asker *asker)
{
	struct names_entry *last = p->names.count ? &p->names.entries[p->names.count - 1] : NULL;
	if (last && last->start + last->bytes == start && strcmp(last->name, name) == 0 &&
	    p->askers[p->names.count - 1] == asker) {
		last->bytes += end - start;
		return 0;
	}
	if (p->names.count == p->cap) {
		size_t cap = p->cap ? p->cap * 2 : 64;
		struct names_entry *entries = realloc(p->names.entries, cap * sizeof(*entries));
		if (entries)
			p->names.entries = entries;
		const struct asker **askers = realloc(p->askers, cap * sizeof(*askers));
		if (askers)
			p->askers = askers;
		if (!entries || !askers)
			return -ENOMEM;
		p->cap = cap;
	}
	struct names_entry *e = &p->names.entries[p->names.count];
	*e = (struct names_entry){ .start = start, .bytes = end - start };
	memcpy(e->name, name, strlen(name)); /* shorter: is_name() */
	p->askers[p->names.count++] = asker;
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct layer *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

struct active {
	const struct layer *all[LAYERS_MAX];
	size_t count;
};

static void add_active(struct active *a, const struct layer *layer)
{
	size_t at = a->count;
	if (a->count == LAYERS_MAX) {
		at = 0;
		for (size_t i = 1; i < a->count; i++)
			if (a->all[i]->time_ns < a->all[at]->time_ns)
				at = i;
		if (a->all[at]->time_ns > layer->time_ns)
			return;
	} else {
		a->count++;
	}
	a->all[at] = layer;
}

/* [@start, @end) as the newest layers have it. */
static int put_pieces(struct mapnames *n, const struct active *a, uint64_t start, uint64_t end,
		      struct pieces *named, struct pieces *asked)
{
	const struct layer *extent = NULL, *name = NULL;
	for (size_t i = 0; i < a->count; i++) {
		const struct layer **newest = a->all[i]->name ? &name : &extent;
		if (!*newest || a->all[i]->time_ns > (*newest)->time_ns)
			*newest = a->all[i];
	}
	/* what was mapped later has no name yet */
	if (name && name->name[0] && (!extent || name->time_ns > extent->time_ns))
		return add_piece(named, start, end, name->name, NULL);
	const struct asker *asker = extent ? asker_of(n, extent->stack) : NULL;
	return asker ? add_piece(asked, start, end, "", asker) : 0;
}

/* From the lowest address to the highest, with those layers at hand that cover the place. */
static int sweep(struct mapnames *n, struct layers *l, struct pieces *named, struct pieces *asked)
{
	struct active a = { .count = 0 };
	uint64_t at = 0;
	size_t next = 0;
	int rc = 0;
	if (l->count)
		qsort(l->all, l->count, sizeof(*l->all), by_start);
	while (rc == 0 && (next < l->count || a.count)) {
		uint64_t stop = next < l->count ? l->all[next].start : UINT64_MAX;
		for (size_t i = 0; i < a.count; i++)
			if (a.all[i]->end < stop)
				stop = a.all[i]->end;
		if (a.count && stop > at)
			rc = put_pieces(n, &a, at, stop, named, asked);
		at = stop;
		for (size_t i = 0; i < a.count;) {
			if (a.all[i]->end <= at)
				a.all[i] = a.all[--a.count];
			else
				i++;
		}
		for (; next < l->count && l->all[next].start <= at; next++)
			add_active(&a, &l->all[next]);
	}
	return rc;
}

/* ---- over the mappings ----------------------------------------------------------------------- */

/* As if the kernel had kept the name: the same rules say what it is. */
static void describe_name(const struct names *names, size_t index, int part, struct region *piece,
			  char label[LABEL_MAX])
{
	struct pieces *p = names->ctx;
	char whole[WIRE_EXTENT_NAME_BYTES + 16];
	struct name_rule rule;
	(void)part;
	snprintf(whole, sizeof(whole), "[anon:%s]", names->entries[index].name);
	if (!name_rule(whole, &rule, label, p->owner))
		return;
	piece->class = (uint8_t)rule.class;
	piece->how = HOW_PRCTL;
	piece->label = label;
	piece->owner = p->owner[0] ? p->owner : NULL;
	piece->name = names->entries[index].name;
}

static void describe_asker(const struct names *names, size_t index, int part, struct region *piece,
			   char label[LABEL_MAX])
{
	struct pieces *p = names->ctx;
	(void)part;
	snprintf(label, LABEL_MAX, "mmap by %s", p->askers[index]->function);
	piece->how = HOW_OWNER_STACK;
	piece->label = label;
	piece->owner = p->askers[index]->module;
}

/* Anonymous memory without a name, but for stacks: those are known by their threads. */
static int wants_name(const struct region *r)
{
	return r->class != REGION_STACK && r->class != REGION_STACK_CACHE &&
	       (!r->name[0] || strcmp(r->name, "/dev/zero (deleted)") == 0);
}

/* What rules say nothing about but its permissions. */
static int wants_asker(const struct region *r)
{
	return r->class == REGION_ANONYMOUS && r->how == HOW_FLAGS && !r->name[0];
}

static int apply(struct mapnames *n, struct layers *l, struct breakdown *b,
		 const struct target *target)
{
	struct pieces named = { .names.describe = describe_name },
		      asked = { .names.describe = describe_asker };
	named.names.ctx = &named;
	asked.names.ctx = &asked;
	int rc = sweep(n, l, &named, &asked);
	if (rc == 0 && named.names.count)
		rc = breakdown_cut(b, target, &named.names, wants_name);
	if (rc == 0 && asked.names.count)
		rc = breakdown_cut(b, target, &asked.names, wants_asker);
	free(named.names.entries);
	free(asked.names.entries);
	free(named.askers);
	free(asked.askers);
	return rc;
}

int mapnames_apply(struct mapnames *n, struct breakdown *b, const struct target *target,
		   struct err *err)
{
	struct layers l = { .count = 0 };
	int rc = 0;
	pthread_mutex_lock(&n->lock);
	if (find(n, b->pid)) {
		size_t known = n->asker_count;
		rc = bpfstack_drain(n->stack, 0, take_stack, n, err);
		if (n->asker_count > known)
			qsort(n->askers, n->asker_count, sizeof(*n->askers), by_hash);
		if (n->failed)
			rc = -ENOMEM;
		if (rc >= 0)
			rc = read_table(bpfstack_extents_fd(n->stack), 0, b, &l);
		if (rc == 0)
			rc = read_table(bpfstack_names_fd(n->stack), 1, b, &l);
		if (rc == 0)
			rc = apply(n, &l, b, target);
	}
	pthread_mutex_unlock(&n->lock);
	free(l.all);
	arena_fini(&l.texts);
	if (rc < 0)
		return err && err->code ? err->code
					: err_set(err, rc, "cannot name the mappings of process %d",
						  (int)b->pid);
	return breakdown_sum(b, err);
}

struct mapnames *mapnames_of(const pid_t *pids, size_t count, struct err *err)
{
	struct mapnames *names = mapnames_new(err);
	for (size_t i = 0; i < count && names && !err->code; i++)
		mapnames_add(names, pids[i], err);
	return names;
}
