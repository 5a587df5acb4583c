/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c - which ELF object holds an address: asked when the stepper meets a return address for
 * the first time, which is also when the object is written into the shared module table.
 *
 * The loader's _dl_find_object() takes no lock, so it may be asked from any hook. Older C libraries
 * have only dl_iterate_phdr(), which takes the loader's (recursive) lock; there a hook that runs
 * while another thread loads an object waits for it.
 */
#include "preload/modules.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload/frames.h"
#include "preload/libc.h"
#include "preload/log.h"
#include "preload/options.h"
#include "preload/patched.h"
#include "preload/rowless.h"
#include "preload/thread.h"
#include "wire/heap_start.h"

/*
 * Every field but @seen stands still while @live; an entry that died may be taken for another
 * object at @lo.
 */
struct entry {
	const struct link_map *map;
	uint64_t lo;
	uint32_t live;
	/* in the shared table; UINT32_MAX where that was full */
	uint32_t index;
	/* hash: the loader may give a new object the place and the link map of an old one */
	uint32_t name;
	/* whether its code has been looked at for system calls */
	uint32_t asked;
	/* the last sweep that met it, or that was under way when it came */
	uint32_t seen;
	struct unwind_module module;
	/* stand still once @searched */
	struct unwind_frames frames;
	/* the file's sections were looked at */
	uint32_t searched;
};

#define ENTRIES 4096u
#define CELLS 8192u

static struct entry entries[ENTRIES];
static uint32_t entry_count;
static uint32_t cells[CELLS];     /* number of an entry + 1 */
static const struct thread *lock; /* who holds it */
static uint32_t sweeps;           /* how many have begun */
static uint32_t nameless;         /* objects for which there was no entry */
static uint64_t
	/* dlpi_subs when last looked at: never in a hook, for it takes the loader's lock */
	unloads;

#define SPINS 2000   /* some 50 us: longer than the lock is mostly held by a thread that runs */
#define ROUNDS 20000 /* a second of them */

static char exe_path[4096];
static char own_folder[4096];
static uint64_t vdso;

/* What a look at the loader's books yields. */
struct object {
	/* NULL: not known */
	const struct link_map *map;
	uint64_t bias, lo, hi;
	const ElfW(Phdr) * phdr;
	unsigned phdr_count;
	/* "" for the program itself */
	const char *name;
	uint32_t name_hash;
};

/*
 * Under the lock: addresses mean something else from here on; every thread forgets what it knew of
 * them.
 */
static void new_generation(uint32_t gen)
{
	__atomic_store_n(&process.heap->module_gen, gen, __ATOMIC_RELEASE);
	__atomic_fetch_add((uint32_t *)&proc.word, MODE_EPOCH, __ATOMIC_RELEASE);
}

/*
 * In a hook: whoever holds the lock may not run at all, and our caller may be the reason. Return: 1
 * it is ours.
 */
static int modules_lock(void)
{
	for (unsigned i = 0; i < SPINS; i++) {
		const struct thread *holder = NULL;
		if (__atomic_compare_exchange_n(&lock, &holder, &self, 0, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return 1;
		if (holder == &self) {
			/*
			 * a signal handler jumped out of what we did under it: what was being
			 * retired is so now
			 */
			new_generation(process.heap->module_gen + 1);
			return 1;
		}
		cpu_pause();
	}
	return 0;
}

static void modules_unlock(void)
{
	__atomic_store_n(&lock, NULL, __ATOMIC_RELEASE);
}

void modules_left(void)
{
	if (__atomic_load_n(&lock, __ATOMIC_RELAXED) == &self && modules_lock())
		modules_unlock();
}

static uint32_t cell_of(uint64_t lo)
{
	return (uint32_t)(((lo >> 12) * 0x9e3779b97f4a7c15ULL) >> 51) & (CELLS - 1);
}

static uint32_t hash_name(const char *name)
{
	uint32_t h = 2166136261u;
	for (; *name; name++)
		h = (h ^ (unsigned char)*name) * 16777619u;
	return h;
}

/*
 * The entry at @lo: of @object where that is given, else a dead one (@dead) or a live one of
 * whatever object.
 */
static struct entry *entry_at(uint64_t lo, const struct object *object, int dead)
{
	for (uint32_t at = cell_of(lo), i = 0; i < CELLS; i++, at = (at + 1) % CELLS) {
		uint32_t number = __atomic_load_n(&cells[at], __ATOMIC_ACQUIRE);
		if (!number)
			return NULL;
		struct entry *e = &entries[number - 1];
		if (e->lo != lo || __atomic_load_n(&e->live, __ATOMIC_ACQUIRE) == (uint32_t)dead)
			continue;
		if (!object || (e->map == object->map && e->name == object->name_hash &&
				e->module.hi == object->hi))
			return e;
	}
	return NULL;
}

static struct entry *find_entry(const struct object *object)
{
	return entry_at(object->lo, object, 0);
}

static int phdrs_of(uint64_t at, uint64_t hi, struct object *object)
{
	const ElfW(Ehdr) *eh = (const void *)at;
	uint64_t end;
	if (hi - at < sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh->e_phentsize != sizeof(ElfW(Phdr)))
		return 0;
	if (__builtin_add_overflow(eh->e_phoff, eh->e_phnum * sizeof(ElfW(Phdr)), &end) ||
	    end > hi - at || end > 4096)
		return 0;
	object->phdr = (const void *)(at + eh->e_phoff);
	object->phdr_count = eh->e_phnum;
	return 1;
}

struct search {
	uint64_t pc;
	struct object *object;
};

static void range_of(const struct dl_phdr_info *info, uint64_t *lo, uint64_t *hi)
{
	*lo = UINT64_MAX;
	*hi = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type != PT_LOAD)
			continue;
		uint64_t from = info->dlpi_addr + ph->p_vaddr, to = from + ph->p_memsz;
		*lo = from < *lo ? from : *lo;
		*hi = to > *hi ? to : *hi;
	}
	*lo &= ~4095UL;
}

static int search_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	struct search *s = arg;
	uint64_t lo, hi;
	range_of(info, &lo, &hi);
	if (s->pc < lo || s->pc >= hi)
		return 0;
	*s->object = (struct object){ .bias = info->dlpi_addr,
				      .lo = lo,
				      .hi = hi,
				      .phdr = info->dlpi_phdr,
				      .phdr_count = info->dlpi_phnum,
				      .name = info->dlpi_name };
	return 1;
}

static int find_object(uint64_t pc, struct object *object)
{
	*object = (struct object){ .name = "" };
	libc_find_object_fn find = libc_find_object();
	if (find) {
		struct dl_find_object found;
		if (find((void *)pc, &found) == 0) {
			object->map = found.dlfo_link_map;
			object->bias = found.dlfo_link_map->l_addr;
			object->lo = (uint64_t)found.dlfo_map_start;
			object->hi = (uint64_t)found.dlfo_map_end;
			/* the vDSO as /proc/PID/maps has it */
			object->name = object->lo == vdso ? "[vdso]" : found.dlfo_link_map->l_name;
			/*
			 * the headers lie at the start of the first segment in everything that
			 * linkers make
			 */
			if (phdrs_of(object->lo, object->hi, object))
				return 1;
		}
	}
	if (vdso && pc >= vdso && pc - vdso < 16384) {
		object->map = NULL;
		object->lo = vdso;
		object->hi = vdso + 16384;
		object->name = "[vdso]";
		if (!phdrs_of(vdso, object->hi, object))
			return 0;
		for (unsigned i = 0; i < object->phdr_count; i++) {
			if (object->phdr[i].p_type != PT_LOAD)
				continue;
			object->bias = vdso - object->phdr[i].p_vaddr;
			object->hi = vdso + object->phdr[i].p_memsz;
		}
		return pc < object->hi;
	}
	if (find && !object->map)
		return 0;
	struct search search = { .pc = pc, .object = object };
	return dl_iterate_phdr(search_one, &search);
}

static void fill_unwind(const struct object *o, struct unwind_module *module)
{
	*module = (struct unwind_module){ .bias = o->bias, .lo = o->lo, .hi = o->hi };
	for (unsigned i = 0; i < o->phdr_count; i++) {
		if (o->phdr[i].p_type != PT_GNU_EH_FRAME)
			continue;
		module->eh_frame_hdr = (const uint8_t *)(o->bias + o->phdr[i].p_vaddr);
		module->eh_frame_hdr_bytes = o->phdr[i].p_memsz;
	}
	for (unsigned i = 0; module->eh_frame_hdr && i < o->phdr_count; i++) {
		uint64_t from = o->bias + o->phdr[i].p_vaddr;
		if (o->phdr[i].p_type != PT_LOAD || (uint64_t)module->eh_frame_hdr < from ||
		    (uint64_t)module->eh_frame_hdr >= from + o->phdr[i].p_memsz)
			continue;
		module->readable_lo = from;
		module->readable_hi = from + o->phdr[i].p_filesz;
	}
	if (!module->readable_hi)
		module->eh_frame_hdr = NULL;
}

static void build_id_of(const struct object *o, struct wire_module *to)
{
	for (unsigned i = 0; i < o->phdr_count; i++) {
		if (o->phdr[i].p_type != PT_NOTE)
			continue;
		uint64_t at = o->bias + o->phdr[i].p_vaddr, end = at + o->phdr[i].p_memsz;
		if (at < o->lo || end > o->hi || end < at)
			continue;
		while (end - at >= sizeof(ElfW(Nhdr))) {
			const ElfW(Nhdr) *note = (const void *)at;
			uint64_t name = (note->n_namesz + 3ULL) & ~3ULL;
			uint64_t desc = (note->n_descsz + 3ULL) & ~3ULL;
			if (end - at - sizeof(*note) < name + desc)
				break;
			const char *text = (const char *)(note + 1);
			if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
			    memcmp(text, "GNU", 4) == 0 && note->n_descsz <= sizeof(to->build_id)) {
				memcpy(to->build_id, text + name, note->n_descsz);
				to->build_id_len = (uint8_t)note->n_descsz;
				return;
			}
			at += sizeof(*note) + name + desc;
		}
	}
}

static struct wire_module *rows(void)
{
	return (struct wire_module *)((char *)process.heap + process.heap->modules_off);
}

static int same_text(const struct wire_module *row, const char *a, const char *b)
{
	size_t a_len = strlen(a), b_len = strlen(b);
	const char *text = (char *)process.heap + process.heap->strings_off + row->path_off;
	return row->path_len == a_len + b_len && memcmp(text, a, a_len) == 0 &&
	       memcmp(text + a_len, b, b_len) == 0;
}

/*
 * Two texts as one in the shared string area: where a row has it already, or appended. 0 where the
 * area is full.
 */
static int put_string(const char *a, const char *b, uint32_t *off, uint16_t *len)
{
	struct wire_heap_header *heap = process.heap;
	size_t a_len = strlen(a), b_len = strlen(b);
	for (uint32_t i = 0; i < heap->module_count; i++) {
		if (!same_text(&rows()[i], a, b))
			continue;
		*off = rows()[i].path_off;
		*len = rows()[i].path_len;
		return 1;
	}
	if (a_len + b_len > UINT16_MAX || a_len + b_len > heap->string_bytes - heap->string_used)
		return 0;
	char *to = (char *)heap + heap->strings_off + heap->string_used;
	memcpy(to, a, a_len);
	memcpy(to + a_len, b, b_len);
	*off = heap->string_used;
	*len = (uint16_t)(a_len + b_len);
	heap->string_used += (uint32_t)(a_len + b_len);
	return 1;
}

/* What the table tells of objects that lay in a range and are gone. */
struct former {
	/* the generation since which none of them is there; 0: there never was one */
	uint32_t since;
	/* the row of the last one */
	uint32_t last;
	/* other code has been met there since */
	int taken;
};

static struct former find_former(uint64_t lo, uint64_t hi)
{
	struct former f = { 0 };
	uint32_t count = __atomic_load_n(&process.heap->module_count, __ATOMIC_ACQUIRE);
	if (!__atomic_load_n(&process.heap->module_gen, __ATOMIC_ACQUIRE))
		return f;
	for (uint32_t i = 0; i < count; i++) {
		const struct wire_module *row = &rows()[i];
		uint32_t until = __atomic_load_n(&row->gen_until, __ATOMIC_ACQUIRE);
		if (lo >= row->hi || hi <= row->lo || !until)
			continue;
		if (until > f.since) {
			f.since = until;
			f.last = i;
			f.taken = __atomic_load_n(&row->taken, __ATOMIC_ACQUIRE);
		}
	}
	return f;
}

/*
 * Code was met that has no row: what lay there before must not go on, or it would be taken for it.
 */
static uint32_t since_rowless(uint64_t lo, uint64_t hi)
{
	struct former f = find_former(lo, hi);
	if (f.since)
		__atomic_store_n(&rows()[f.last].taken, 1, __ATOMIC_RELEASE);
	return f.since;
}

/* Whether @row is gone and was of the same file at the same place. */
static int was_like(const struct wire_module *row, const struct wire_module *like,
		    const char *folder, const char *path)
{
	return row->gen_until && row->bias == like->bias && row->lo == like->lo &&
	       row->hi == like->hi && row->build_id_len == like->build_id_len &&
	       memcmp(row->build_id, like->build_id, sizeof(row->build_id)) == 0 &&
	       same_text(row, folder, path);
}

/*
 * The table is full: the row of the same file at the same place that has been gone for longest
 * begins anew. Stacks of its former time were read long ago.
 */
static uint32_t revive(const struct wire_module *like, const char *folder, const char *path)
{
	uint32_t best = UINT32_MAX;
	for (uint32_t i = 0; i < process.heap->module_count; i++) {
		const struct wire_module *row = &rows()[i];
		if (!was_like(row, like, folder, path))
			continue;
		if (best == UINT32_MAX || row->gen_until < rows()[best].gen_until)
			best = i;
	}
	if (best == UINT32_MAX)
		return best;
	/* in this order, so that it never seems to have been there all the time */
	__atomic_store_n(&rows()[best].gen_from, like->gen_from, __ATOMIC_RELEASE);
	__atomic_store_n(&rows()[best].gen_until, 0, __ATOMIC_RELEASE);
	return best;
}

/*
 * The generation since which the addresses of @o, which gets a row, have meant what they mean
 * there; 0: always. *@later: the stack under way knows the former meaning.
 */
static uint32_t since_of_object(const struct object *o, const struct former *former, int *later)
{
	uint32_t gen = process.heap->module_gen;
	enum rowless rowless = rowless_in(o->lo, o->hi);
	/* the nodes of that code are not to be this object's */
	if (rowless == ROWLESS_THERE) { /* it went away unseen: its recipes are known still */
		unwind_process_reused(process.unwind, o->lo, o->hi);
		rowless_gone(o->lo, o->hi);
		*later = 1;
	} else if (!former->taken) {
		return rowless ? gen : former->since;
	}
	new_generation(gen + 1);
	return gen + 1;
}

static uint32_t publish(const struct object *o, int *later)
{
	struct wire_heap_header *heap = process.heap;
	uint32_t index = heap->module_count;
	struct wire_module row = { .bias = o->bias, .lo = o->lo, .hi = o->hi };
	const char *folder = "", *path = o->name;
	if (!path[0]) {
		path = exe_path;
	} else if (path[0] != '/' && o->lo != vdso) {
		const char *mapped = mapped_path(o->lo);
		folder = mapped ? "" : own_folder;
		path = mapped ? mapped : path;
	}
	build_id_of(o, &row);
	struct former former = find_former(o->lo, o->hi);
	/*
	 * the same file, by its build id: its addresses mean what they meant then, and so do the
	 * nodes made of them
	 */
	if (former.since && !former.taken && row.build_id_len &&
	    was_like(&rows()[former.last], &row, folder, path)) {
		__atomic_store_n(&rows()[former.last].gen_until, 0, __ATOMIC_RELEASE);
		return former.last;
	}
	row.gen_from = since_of_object(o, &former, later);
	if (index >= heap->module_max) {
		index = revive(&row, folder, path);
		if (index == UINT32_MAX)
			heap->modules_nameless++;
		return index;
	}
	if (!put_string(folder, path, &row.path_off, &row.path_len))
		row.path_len = 0;
	rows()[index] = row;
	__atomic_store_n(&heap->module_count, index + 1, __ATOMIC_RELEASE);
	return index;
}

/*
 * An entry for @o: that of an object which lay there before, or a new one. NULL: there are no more.
 */
static struct entry *place(const struct object *o, int *later)
{
	struct entry *e = entry_at(o->lo, NULL, 1);
	int fresh = !e;
	if (fresh && entry_count == ENTRIES) {
		nameless++;
		process.heap->modules_nameless++;
		return NULL;
	}
	if (fresh)
		e = &entries[entry_count];
	e->map = o->map;
	e->lo = o->lo;
	e->name = o->name_hash;
	e->seen = __atomic_load_n(&sweeps, __ATOMIC_ACQUIRE);
	fill_unwind(o, &e->module);
	e->frames = (struct unwind_frames){ 0 };
	e->searched = 0;
	e->index = publish(o, later);
	e->module.since =
		e->index != UINT32_MAX ? rows()[e->index].gen_from : since_rowless(o->lo, o->hi);
	__atomic_store_n(&e->live, 1, __ATOMIC_RELEASE);
	if (fresh) {
		uint32_t at = cell_of(o->lo);
		while (cells[at])
			at = (at + 1) % CELLS;
		entry_count++;
		__atomic_store_n(&cells[at], entry_count, __ATOMIC_RELEASE);
	}
	return e;
}

/* Under the lock: an object is gone as of generation @gen. */
static void retire(struct entry *e, uint32_t gen)
{
	if (e->index != UINT32_MAX) {
		rows()[e->index].taken = 0;
		__atomic_store_n(&rows()[e->index].gen_until, gen, __ATOMIC_RELEASE);
	}
	unwind_process_reused(process.unwind, e->lo, e->module.hi);
	__atomic_store_n(&e->live, 0, __ATOMIC_RELEASE);
}

/*
 * Enter an object that was not met before. What overlaps it went away without a dlclose() that we
 * saw: libc unloads its converters and name services by itself. Return: its entry; NULL with
 * *@later where this stack must end before it.
 */
static struct entry *add_entry(const struct object *o, int *later)
{
	*later = 1;
	if (!modules_lock())
		return NULL;
	struct entry *e = find_entry(o);
	*later = 0;
	if (!e) {
		uint32_t gen = process.heap->module_gen + 1;
		for (uint32_t i = 0; i < entry_count; i++) {
			if (!entries[i].live || entries[i].lo >= o->hi ||
			    entries[i].module.hi <= o->lo)
				continue;
			retire(&entries[i], gen);
			*later = 1; /* the stack under way counts as of the old generation */
		}
		if (*later)
			new_generation(gen);
		e = place(o, later);
	}
	modules_unlock();
	return e;
}

/*
 * Once for each object: what its file tells of call frames. The path is the one that the table
 * shows.
 */
static void search_file(struct entry *e, const struct object *o)
{
	static char path[4096];
	if (__atomic_load_n(&e->searched, __ATOMIC_ACQUIRE) || e->index == UINT32_MAX ||
	    o->lo == vdso || !modules_lock())
		return;
	const struct wire_module *row = &rows()[e->index];
	if (!e->searched && row->path_len < sizeof(path)) {
		const struct frames_object object = { o->bias, o->phdr, o->phdr_count };
		memcpy(path, (char *)process.heap + process.heap->strings_off + row->path_off,
		       row->path_len);
		path[row->path_len] = '\0';
		frames_load(path, &object, &e->frames);
	}
	__atomic_store_n(&e->searched, 1, __ATOMIC_RELEASE);
	modules_unlock();
}

/* libc's calls by which pages are closed have hooks. */
static int is_libc(const char *name)
{
	static const char *const ours[] = { "libc.so.", "ld-linux", "libpthread.so.", "libc-2.",
					    WIRE_PRELOAD_NAME };
	const char *slash = strrchr(name, '/');
	name = slash ? slash + 1 : name;
	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++)
		if (strncmp(name, ours[i], strlen(ours[i])) == 0)
			return 1;
	return 0;
}

/* Once for each object: may it close a page of a stack where nobody sees it? */
static void ask_for_calls(struct entry *e, const struct object *o)
{
	static char path[4096];
	if (__atomic_load_n(&e->asked, __ATOMIC_ACQUIRE) || e->index == UINT32_MAX ||
	    process.closes || o->lo == vdso || no_calls() || !modules_lock())
		return;
	const struct wire_module *row = &rows()[e->index];
	if (!e->asked && row->path_len < sizeof(path)) {
		const struct frames_object object = { o->bias, o->phdr, o->phdr_count };
		memcpy(path, (char *)process.heap + process.heap->strings_off + row->path_off,
		       row->path_len);
		path[row->path_len] = '\0';
		if (!is_libc(path) && calls_closing(path, &object, &e->module)) {
			log_line(LOG_INFO,
				 "%s may close pages by system calls of its own: each stack's "
				 "pages are asked for",
				 path);
			process.closes = 1;
			self.unwind = NULL; /* the hot path asks nobody */
			__atomic_fetch_add((uint32_t *)&proc.word, MODE_EPOCH, __ATOMIC_RELAXED);
		}
	}
	__atomic_store_n(&e->asked, 1, __ATOMIC_RELEASE);
	modules_unlock();
}

/*
 * Not every word that a guess takes for a return address is one: strings and tables lie in objects,
 * too.
 */
static int in_code(const struct object *o, uint64_t pc)
{
	for (unsigned i = 0; i < o->phdr_count; i++)
		if (o->phdr[i].p_type == PT_LOAD && o->phdr[i].p_flags & PF_X &&
		    pc - (o->bias + o->phdr[i].p_vaddr) < o->phdr[i].p_memsz)
			return 1;
	return 0;
}

int module_find(void *ctx, uint64_t pc, struct unwind_module *module)
{
	(void)ctx;
	int search = module->search_file;
	struct object object;
	int later = 0;
	if (!find_object(pc, &object)) {
		/* where nobody can be asked it may be code */
		if (!no_calls() && !page_probe(NULL, pc & ~4095UL))
			return UNWIND_NOT_CODE;
		module->since = since_rowless(pc, pc + 1);
		if (!no_calls())
			rowless_met(pc);
		return UNWIND_CODE;
	}
	if (!in_code(&object, pc))
		return UNWIND_NOT_CODE;
	object.name_hash = hash_name(object.name);
	struct entry *e = find_entry(&object);
	if (!e)
		e = add_entry(&object, &later);
	if (later)
		return UNWIND_NOT_CODE; /* never remembered: the next stack gets there */
	if (!e) {
		/* no entry is left: walk all the same */
		fill_unwind(&object, module);
		module->since = since_rowless(object.lo, object.hi);
		return UNWIND_MODULE;
	}
	if (unlikely(!__atomic_load_n(&e->asked, __ATOMIC_ACQUIRE)))
		ask_for_calls(e, &object);
	if (search)
		search_file(e, &object);
	*module = e->module;
	if (__atomic_load_n(&e->searched, __ATOMIC_ACQUIRE))
		module->frames = e->frames;
	return UNWIND_MODULE;
}

int page_probe(void *ctx, uint64_t addr)
{
	(void)ctx;
	/* the address 0 would mean that there is no set to read: the first page is nobody's */
	if (no_calls() || addr < 4096)
		return 0;
	/* an impossible "how" is refused only after the set was read */
	return sys4(SYS_rt_sigprocmask, -1L, addr, NULL, 8) != -EFAULT;
}

/* ---- objects that go away ---- */

static int read_unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_subs;
	return 1;
}

/* Older C libraries: what dl_iterate_phdr() shows is there. */
static int mark_seen(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	uint32_t sweep = *(const uint32_t *)arg;
	uint64_t lo, hi;
	range_of(info, &lo, &hi);
	struct entry *e = entry_at(lo, NULL, 0);
	if (e && e->seen < sweep)
		__atomic_store_n(&e->seen, sweep, __ATOMIC_RELAXED);
	return 0;
}

static int is_gone(const struct entry *e, uint32_t sweep)
{
	struct dl_find_object found;
	if (e->lo == vdso)
		return 0;
	libc_find_object_fn find = libc_find_object();
	if (!find)
		return e->seen < sweep;
	/* knows every namespace of dlmopen(), where dl_iterate_phdr() shows the caller's only */
	return find((void *)e->lo, &found) != 0 || (e->map && found.dlfo_link_map != e->map);
}

void modules_closed(void)
{
	struct wire_heap_header *heap = process.heap;
	uint64_t now = 0;
	if (!heap)
		return;
	/*
	 * Nothing of the loader's is waited for under our lock: a thread may hold the loader's (in
	 * its callback of dl_iterate_phdr(), in a constructor) and be on its way into ours.
	 */
	dl_iterate_phdr(read_unloads, &now);
	if (now == __atomic_load_n(&unloads, __ATOMIC_RELAXED))
		return;
	__atomic_store_n(&unloads, now, __ATOMIC_RELAXED);
	uint32_t sweep = __atomic_add_fetch(&sweeps, 1, __ATOMIC_ACQ_REL);
	if (!libc_find_object())
		dl_iterate_phdr(mark_seen, &sweep);
	for (unsigned round = 0; !modules_lock(); round++) {
		if (round == ROUNDS) {
			/*
			 * its holder jumped out of a hook and has called none since: the next
			 * dlclose() looks again
			 */
			__atomic_store_n(&unloads, 0, __ATOMIC_RELAXED);
			return;
		}
		if (!no_calls())
			sys0(SYS_sched_yield);
	}
	uint32_t gen = heap->module_gen + 1, gone = nameless;
	for (uint32_t i = 0; i < entry_count; i++) {
		if (!entries[i].live || !is_gone(&entries[i], sweep))
			continue;
		retire(&entries[i], gen);
		gone++;
	}
	if (gone)
		new_generation(gen);
	modules_unlock();
}

void modules_unmapped(uint64_t at, uint64_t bytes)
{
	if (rowless_in(at, at + bytes) != ROWLESS_THERE)
		return;
	if (!modules_lock()) {
		unwind_process_changed(
			process.unwind); /* and the object that comes there raises it */
		return;
	}
	unwind_process_reused(process.unwind, at, at + bytes);
	rowless_gone(at, at + bytes);
	new_generation(process.heap->module_gen + 1);
	modules_unlock();
}

void modules_forked(void)
{
	/* whoever held it does not exist here; rows are only entered when they are whole */
	modules_unlock();
}

void modules_init(void)
{
	vdso = getauxval(AT_SYSINFO_EHDR);
	options_program(exe_path, sizeof(exe_path));
	long n = sys2(SYS_getcwd, own_folder, sizeof(own_folder) - 2); /* counts the NUL */
	if (n > 1 && own_folder[0] == '/') {
		if (own_folder[n - 2] != '/') {
			own_folder[n - 1] = '/';
			own_folder[n] = '\0';
		}
	} else {
		own_folder[0] = '\0';
	}
}
