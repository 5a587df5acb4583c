/* SPDX-License-Identifier: Apache-2.0 */
/*
 * modules.c - which ELF object holds an address: asked when the stepper meets a return address for the first time, which
 * is also when the object is written into the shared module table.
 *
 * _dl_find_object() takes no lock, so it may be asked from any hook. Older C libraries have only dl_iterate_phdr(),
 * which takes the loader's (recursive) lock; there a hook that runs while another thread loads an object waits for it.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>

#include "preload/state.h"

/* weak: glibc has it from 2.35 on */
extern int _dl_find_object(void *pc, struct dl_find_object *result) __attribute__((weak));

struct entry {
	const struct link_map *map;
	uint64_t lo;
	uint32_t live;
	uint32_t index; /* in the shared table; UINT32_MAX where that was full */
	struct unwind_module module;
};

#define ENTRIES 4096u
#define CELLS 8192u

static struct entry entries[ENTRIES];
static uint32_t entry_count;
static uint32_t cells[CELLS]; /* number of an entry + 1 */
static uint32_t lock;
static uint64_t unloads; /* dlpi_subs when last looked at */

static char exe_path[4096];
static char own_folder[4096];
static uint64_t vdso;

/* What a look at the loader's books yields. */
struct object {
	const struct link_map *map; /* NULL: not known */
	uint64_t bias, lo, hi;
	const ElfW(Phdr) * phdr;
	unsigned phdr_count;
	const char *name; /* "" for the program itself */
};

static void modules_lock(void)
{
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		__builtin_ia32_pause();
}

static void modules_unlock(void)
{
	__atomic_store_n(&lock, 0, __ATOMIC_RELEASE);
}

static uint32_t cell_of(uint64_t lo)
{
	return (uint32_t)(((lo >> 12) * 0x9e3779b97f4a7c15ULL) >> 51) & (CELLS - 1);
}

static struct entry *find_entry(const struct object *object)
{
	for (uint32_t at = cell_of(object->lo), i = 0; i < CELLS; i++, at = (at + 1) % CELLS) {
		uint32_t number = __atomic_load_n(&cells[at], __ATOMIC_ACQUIRE);
		if (!number)
			return NULL;
		struct entry *e = &entries[number - 1];
		if (e->lo == object->lo && e->map == object->map &&
		    __atomic_load_n(&e->live, __ATOMIC_ACQUIRE))
			return e;
	}
	return NULL;
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

static int search_one(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	struct search *s = arg;
	uint64_t lo = UINT64_MAX, hi = 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type != PT_LOAD)
			continue;
		uint64_t from = info->dlpi_addr + ph->p_vaddr, to = from + ph->p_memsz;
		lo = from < lo ? from : lo;
		hi = to > hi ? to : hi;
	}
	if (s->pc < lo || s->pc >= hi)
		return 0;
	*s->object = (struct object){ .bias = info->dlpi_addr,
				      .lo = lo & ~4095UL,
				      .hi = hi,
				      .phdr = info->dlpi_phdr,
				      .phdr_count = info->dlpi_phnum,
				      .name = info->dlpi_name };
	return 1;
}

static int find_object(uint64_t pc, struct object *object)
{
	*object = (struct object){ .name = "" };
	if (_dl_find_object) {
		struct dl_find_object found;
		if (_dl_find_object((void *)pc, &found) == 0) {
			object->map = found.dlfo_link_map;
			object->bias = found.dlfo_link_map->l_addr;
			object->lo = (uint64_t)found.dlfo_map_start;
			object->hi = (uint64_t)found.dlfo_map_end;
			object->name = found.dlfo_link_map->l_name;
			/* the headers lie at the start of the first segment in everything that linkers make */
			if (phdrs_of(object->lo, object->hi, object))
				return 1;
		}
	}
	if (vdso && pc >= vdso && pc - vdso < 16384) {
		object->map = NULL;
		object->lo = vdso;
		object->hi = vdso + 16384;
		object->name = "linux-vdso.so.1";
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
	if (_dl_find_object && !object->map)
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

/* Append text to the shared string area; 0 where it is full. */
static int put_string(const char *a, const char *b, uint32_t *off, uint16_t *len)
{
	struct wire_heap_header *heap = process.heap;
	size_t a_len = strlen(a), b_len = strlen(b);
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

static uint32_t publish(const struct object *o)
{
	struct wire_heap_header *heap = process.heap;
	uint32_t index = heap->module_count;
	if (index >= heap->module_max)
		return UINT32_MAX;
	struct wire_module *to = (struct wire_module *)((char *)heap + heap->modules_off) + index;
	*to = (struct wire_module){
		.bias = o->bias, .lo = o->lo, .hi = o->hi, .gen_from = heap->module_gen
	};
	const char *folder = "", *path = o->name;
	if (o->lo == vdso) {
		to->flags |= WIRE_MODULE_VDSO;
	} else if (!path[0]) {
		to->flags |= WIRE_MODULE_EXE;
		path = exe_path;
	} else if (path[0] != '/') {
		folder = own_folder;
	}
	if ((uint64_t)&entries >= o->lo && (uint64_t)&entries < o->hi)
		to->flags |= WIRE_MODULE_OWN;
	if (!put_string(folder, path, &to->path_off, &to->path_len))
		to->path_len = 0;
	build_id_of(o, to);
	__atomic_store_n(&heap->module_count, index + 1, __ATOMIC_RELEASE);
	return index;
}

static struct entry *add_entry(const struct object *o)
{
	modules_lock();
	struct entry *e = find_entry(o);
	if (!e && entry_count < ENTRIES) {
		e = &entries[entry_count];
		*e = (struct entry){ .map = o->map, .lo = o->lo, .live = 1 };
		fill_unwind(o, &e->module);
		e->index = publish(o);
		uint32_t at = cell_of(o->lo);
		while (cells[at])
			at = (at + 1) % CELLS;
		entry_count++;
		__atomic_store_n(&cells[at], entry_count, __ATOMIC_RELEASE);
	}
	modules_unlock();
	return e;
}

int module_find(void *ctx, uint64_t pc, struct unwind_module *module)
{
	(void)ctx;
	struct object object;
	if (!find_object(pc, &object))
		return UNWIND_CODE;
	struct entry *e = find_entry(&object);
	if (!e)
		e = add_entry(&object);
	if (!e) {
		/* the table is full: walk all the same, the names come from /proc/PID/maps */
		fill_unwind(&object, module);
		return UNWIND_MODULE;
	}
	*module = e->module;
	return UNWIND_MODULE;
}

int page_probe(void *ctx, uint64_t addr)
{
	(void)ctx;
	if (process.seccomp)
		return 0;
	/* an impossible "how" is refused only after the set was read */
	return sys4(SYS_rt_sigprocmask, -1L, addr, NULL, 8) != -EFAULT;
}

/* ---- objects that go away ---- */

struct sweep {
	uint64_t unloads;
	uint32_t count;
	uint8_t *seen; /* by entry */
};

static int read_unloads(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	*(uint64_t *)arg = info->dlpi_subs;
	return 1;
}

static int mark_seen(struct dl_phdr_info *info, size_t size, void *arg)
{
	(void)size;
	struct sweep *sweep = arg;
	for (uint32_t i = 0; i < sweep->count; i++)
		if (entries[i].live && entries[i].module.bias == info->dlpi_addr &&
		    (uint64_t)info->dlpi_phdr >= entries[i].lo &&
		    (uint64_t)info->dlpi_phdr < entries[i].module.hi)
			sweep->seen[i] = 1;
	return 0;
}

void modules_closed(void)
{
	struct wire_heap_header *heap = process.heap;
	static uint8_t seen[ENTRIES]; /* used under the lock only */
	uint64_t now = 0;
	if (!heap)
		return;
	dl_iterate_phdr(read_unloads, &now);
	if (now == __atomic_load_n(&unloads, __ATOMIC_RELAXED))
		return;
	/*
	 * The loader's lock is taken inside ours here, and ours inside nothing of the loader's elsewhere: find_object()
	 * has returned before add_entry() locks.
	 */
	modules_lock();
	__atomic_store_n(&unloads, now, __ATOMIC_RELAXED);
	memset(seen, 0, sizeof(seen));
	struct sweep sweep = { .count = entry_count, .seen = seen };
	dl_iterate_phdr(mark_seen, &sweep);
	uint32_t gen = heap->module_gen + 1, gone = 0;
	struct wire_module *table = (struct wire_module *)((char *)heap + heap->modules_off);
	for (uint32_t i = 0; i < sweep.count; i++) {
		struct entry *e = &entries[i];
		if (!e->live || seen[i] || e->lo == vdso)
			continue;
		if (e->index != UINT32_MAX)
			__atomic_store_n(&table[e->index].gen_until, gen, __ATOMIC_RELEASE);
		__atomic_store_n(&e->live, 0, __ATOMIC_RELEASE);
		gone++;
	}
	if (gone) {
		__atomic_store_n(&heap->module_gen, gen, __ATOMIC_RELEASE);
		__atomic_fetch_add((uint32_t *)&proc.word, MODE_EPOCH, __ATOMIC_RELEASE);
	}
	modules_unlock();
}

void modules_init(void)
{
	vdso = getauxval(AT_SYSINFO_EHDR);
	long n = sys3(SYS_readlink, "/proc/self/exe", exe_path, sizeof(exe_path) - 1);
	exe_path[n > 0 ? n : 0] = '\0';
	n = sys2(SYS_getcwd, own_folder, sizeof(own_folder) - 2); /* counts the NUL */
	if (n > 1 && own_folder[0] == '/') {
		if (own_folder[n - 2] != '/') {
			own_folder[n - 1] = '/';
			own_folder[n] = '\0';
		}
	} else {
		own_folder[0] = '\0';
	}
	uint64_t now = 0;
	dl_iterate_phdr(read_unloads, &now);
	unloads = now;
}
