/* SPDX-License-Identifier: Apache-2.0 */
/*
 * next_find.c - definitions found without the loader: in a hook, dlsym(), dlopen() and dladdr()
 * would wait for the loader's lock, whose holder may be waiting for this very thread (a constructor
 * that starts a thread and joins it), and would wipe the text that the program's own dlerror() is
 * about to return. The loader's _dl_find_object() takes no lock; from the object that it finds, the
 * chain of link maps and the tables in the objects themselves say the rest.
 */
#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "preload/libc.h"
#include "preload/modules.h"
#include "preload/next.h"
#include "preload/process.h"

#define SCOPE_MAX 128
#define CHAIN_MAX 65536 /* more objects than any process has: the chain is torn */

/* Before glibc 2.35 there is only what takes the loader's lock. */
struct object_search {
	uintptr_t pc, lo, bias;
	const char *name;
};

static int search_object(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct object_search *search = arg;
	uintptr_t lo = UINTPTR_MAX, hi = 0;
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];
		if (ph->p_type != PT_LOAD)
			continue;
		uintptr_t from = info->dlpi_addr + ph->p_vaddr, to = from + ph->p_memsz;
		lo = from < lo ? from : lo;
		hi = to > hi ? to : hi;
	}
	if (search->pc < lo || search->pc >= hi)
		return 0;
	search->lo = lo & ~4095UL;
	search->bias = info->dlpi_addr;
	search->name = info->dlpi_name;
	return 1;
}

static const struct link_map *object_by_lock(const void *pc, uintptr_t *lo)
{
	struct object_search search = { .pc = (uintptr_t)pc };
	if (!dl_iterate_phdr(search_object, &search))
		return NULL;
	*lo = search.lo;
	/* the name is the very text that the loader's book has */
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next)
		if (map->l_addr == search.bias &&
		    (map->l_name == search.name || strcmp(map->l_name, search.name) == 0))
			return map;
	return NULL;
}

const struct link_map *next_object(const void *pc, uintptr_t *lo)
{
	libc_find_object_fn find = libc_find_object();
	*lo = 0;
	if (!find)
		return object_by_lock(pc, lo);
	struct dl_find_object found;
	if (find((void *)(uintptr_t)pc, &found) != 0)
		return NULL;
	*lo = (uintptr_t)found.dlfo_map_start;
	return found.dlfo_link_map;
}

struct code_range next_code(const void *code)
{
	uintptr_t lo;
	const struct link_map *map = code ? next_object(code, &lo) : NULL;
	const ElfW(Ehdr) *eh = map ? (const void *)lo : NULL;
	if (!eh || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh->e_phentsize != sizeof(ElfW(Phdr)))
		return (struct code_range){ 0 };
	const ElfW(Phdr) *ph = (const void *)((const char *)eh + eh->e_phoff);
	uintptr_t end = 0;
	for (int i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > end)
			end = ph[i].p_vaddr + ph[i].p_memsz;
	return (struct code_range){ lo, map->l_addr + end };
}

/* ---- the chain of link maps ---- */

/*
 * Whether @map can be looked at. Another thread's dlclose() may release it meanwhile; what the
 * caller's object needs stays, and only that is used, but the way there leads past the others.
 */
static int readable(const struct link_map *map)
{
	uint64_t from = (uint64_t)map, last = from + sizeof(*map) - 1;
	if (process.seccomp) /* nobody can be asked, and nobody can unload */
		return 1;
	return page_probe(NULL, from) && (from >> 12 == last >> 12 || page_probe(NULL, last));
}

static int loaded(const struct link_map *map)
{
	uintptr_t lo;
	return !libc_find_object() || (map->l_ld && next_object(map->l_ld, &lo) == map);
}

/* The loader has added the bias to the addresses in a dynamic section that it may write to. */
static uintptr_t dynamic(const struct link_map *map, ElfW(Sxword) tag, int is_address)
{
	for (const ElfW(Dyn) *d = map->l_ld; d && d->d_tag != DT_NULL; d++) {
		if (d->d_tag != tag)
			continue;
		if (is_address && d->d_un.d_ptr < map->l_addr)
			return map->l_addr + d->d_un.d_ptr;
		return d->d_un.d_ptr;
	}
	return 0;
}

static int has_name(const struct link_map *map, const char *name, int soname)
{
	if (soname) {
		const char *strings = (const char *)dynamic(map, DT_STRTAB, 1);
		uintptr_t at = dynamic(map, DT_SONAME, 0);
		return strings && at && strcmp(strings + at, name) == 0;
	}
	if (!map->l_name)
		return 0;
	const char *slash = strrchr(map->l_name, '/');
	return strcmp(strchr(name, '/') || !slash ? map->l_name : slash + 1, name) == 0;
}

/*
 * The loaded object called @name in @from's namespace. *@whole becomes 0 where the chain changed
 * under the search.
 */
static const struct link_map *find_loaded(const struct link_map *from, const char *name, int *whole)
{
	/* nearly always the file's name does, and costs no look into the object */
	for (int soname = 0; soname < 2; soname++) {
		for (int back = 0; back < 2; back++) {
			const struct link_map *map = from;
			for (unsigned n = 0; map; n++, map = back ? map->l_prev : map->l_next) {
				if (n == CHAIN_MAX || !readable(map)) {
					*whole = 0;
					break;
				}
				if (loaded(map) && has_name(map, name, soname))
					return map;
			}
		}
	}
	return NULL;
}

/* ---- one object's symbols ---- */

static int is_shown(const ElfW(Sym) * sym)
{
	return sym->st_shndx != SHN_UNDEF && sym->st_value &&
	       ELF64_ST_BIND(sym->st_info) != STB_LOCAL;
}

static int is_symbol(const struct link_map *map, uint32_t at, const char *name, uintptr_t *value)
{
	const ElfW(Sym) *sym = (const ElfW(Sym) *)dynamic(map, DT_SYMTAB, 1) + at;
	const char *strings = (const char *)dynamic(map, DT_STRTAB, 1);
	const uint16_t *versions = (const uint16_t *)dynamic(map, DT_VERSYM, 1);
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	if (!is_shown(sym) || (type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC) ||
	    (versions && versions[at] & 0x8000) || strcmp(strings + sym->st_name, name) != 0)
		return 0;
	*value = map->l_addr + sym->st_value;
	if (type == STT_GNU_IFUNC) {
		uintptr_t (*choose)(void);
		memcpy(&choose, value, sizeof(choose));
		*value = choose();
	}
	return 1;
}

static uintptr_t find_gnu(const struct link_map *map, const uint32_t *table, const char *name)
{
	uint32_t hash = 5381;
	for (const char *c = name; *c; c++)
		hash = hash * 33 + (unsigned char)*c;
	uint32_t buckets = table[0], first = table[1], blooms = table[2];
	const uint64_t *bloom = (const uint64_t *)(table + 4);
	const uint32_t *bucket = (const uint32_t *)(bloom + blooms), *chain = bucket + buckets;
	uint64_t word = bloom[hash / 64 & (blooms - 1)];
	if (!buckets || !(word >> hash % 64 & word >> (hash >> table[3]) % 64 & 1))
		return 0;
	uintptr_t value;
	uint32_t at = bucket[hash % buckets];
	if (at < first)
		return 0;
	do {
		if ((chain[at - first] | 1) == (hash | 1) && is_symbol(map, at, name, &value))
			return value;
	} while (!(chain[at++ - first] & 1));
	return 0;
}

static uintptr_t find_sysv(const struct link_map *map, const uint32_t *table, const char *name)
{
	uint32_t hash = 0;
	for (const char *c = name; *c; c++) {
		hash = (hash << 4) + (unsigned char)*c;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	const uint32_t *bucket = table + 2, *chain = bucket + table[0];
	uintptr_t value;
	for (uint32_t at = table[0] ? bucket[hash % table[0]] : 0; at; at = chain[at])
		if (is_symbol(map, at, name, &value))
			return value;
	return 0;
}

/* What @map itself calls @name; 0: it does not. */
static uintptr_t find_in(const struct link_map *map, const char *name)
{
	const uint32_t *gnu = (const uint32_t *)dynamic(map, DT_GNU_HASH, 1);
	const uint32_t *sysv = (const uint32_t *)dynamic(map, DT_HASH, 1);
	return gnu ? find_gnu(map, gnu, name) : sysv ? find_sysv(map, sysv, name) : 0;
}

struct libc_late libc_late;

void libc_look_late(void)
{
	uintptr_t at = 0;
	for (const struct link_map *map = _r_debug.r_map; map && !at; map = map->l_next)
		if (has_name(map, "libc.so.6", 1))
			at = find_in(map, "_dl_find_object");
	memcpy(&libc_late.find_object, &at, sizeof(at));
	__atomic_store_n(&libc_late.known, 1, __ATOMIC_RELEASE);
}

void *next_behind(const char *name)
{
	uintptr_t lo, at = 0;
	const struct link_map *map = next_object((const void *)next_behind, &lo);
	while (map && (map = map->l_next) && !at)
		at = find_in(map, name);
	return (void *)at;
}

void *next_first(const char *name)
{
	uintptr_t at = 0;
	for (const struct link_map *map = _r_debug.r_map; map && !at; map = map->l_next)
		at = find_in(map, name);
	return (void *)at;
}

/* Return: how many are still missing. */
static unsigned look_in(const struct link_map *map, struct next_wanted *wanted, unsigned count)
{
	unsigned missing = 0;
	for (unsigned i = 0; i < count; i++) {
		if (!wanted[i].at)
			wanted[i].at = find_in(map, wanted[i].name);
		missing += !wanted[i].at;
	}
	return missing;
}

/* ---- what an object needs ---- */

struct scope {
	const struct link_map *of[SCOPE_MAX];
	unsigned count;
};

static void scope_add(struct scope *scope, const struct link_map *map)
{
	if (!map || scope->count == SCOPE_MAX ||
	    (uintptr_t)map->l_ld - own_code.lo < own_code.hi - own_code.lo)
		return;
	for (unsigned i = 0; i < scope->count; i++)
		if (scope->of[i] == map)
			return;
	scope->of[scope->count++] = map;
}

int next_find(const struct link_map *from, struct next_wanted *wanted, unsigned count,
	      const char *const *last)
{
	struct scope scope;
	int whole = 1;
	scope.count = 0;
	if (!from)
		return 1;
	scope_add(&scope, from);
	/* in the order in which the loader looks: the object, then what it needs, level by level */
	for (unsigned i = 0; i < scope.count; i++) {
		const struct link_map *map = scope.of[i];
		if (!look_in(map, wanted, count))
			return whole;
		const char *strings = (const char *)dynamic(map, DT_STRTAB, 1);
		for (const ElfW(Dyn) *d = map->l_ld; strings && d && d->d_tag != DT_NULL; d++)
			if (d->d_tag == DT_NEEDED)
				scope_add(&scope,
					  find_loaded(from, strings + d->d_un.d_val, &whole));
	}
	for (; *last && !wanted[0].at; last++) {
		const struct link_map *map = find_loaded(from, *last, &whole);
		if (map)
			look_in(map, wanted, count);
	}
	return whole;
}

static const struct link_map *frames_map; /* of the runtime that next_frames() found */

void next_frames(const void *pc)
{
	static const char *const runtimes[] = { "libgcc_s.so.1", NULL };
	struct next_wanted wanted[] = { { "__register_frame", 0 }, { "__deregister_frame", 0 } };
	uintptr_t lo;
	next_find(next_object(pc, &lo), wanted, 2, runtimes);
	frames_map = wanted[0].at ? next_object((const void *)wanted[0].at, &lo) : NULL;
	memcpy(&next.deregister_frame, &wanted[1].at, sizeof(wanted[1].at));
	memcpy(&next.register_frame, &wanted[0].at, sizeof(wanted[0].at));
}

void next_frames_closed(void)
{
	uintptr_t at, lo;
	memcpy(&at, &next.register_frame, sizeof(at));
	if (!frames_map || !at || next_object((const void *)at, &lo) == frames_map)
		return;
	next.register_frame = NULL;
	next.deregister_frame = NULL;
}

/* ---- objects that look into themselves first ---- */

/* Whether the definition @at, called @name, is one of those behind ours. */
static int behind_ours(uintptr_t at, const char *name)
{
	for (size_t i = 0; i < sizeof(next) / sizeof(at); i++)
		if (memcmp((const char *)&next + i * sizeof(at), &at, sizeof(at)) == 0)
			return 1;
	if (at == (uintptr_t)next_syscall || at == (uintptr_t)next_dlopen)
		return 1;
	/* the table has another malloc where blocks are to be zeroed, and no reallocarray */
	return allocator_is_libc && at - allocator_lo < allocator_hi - allocator_lo &&
	       (strcmp(name, "malloc") == 0 || strcmp(name, "reallocarray") == 0);
}

static uint32_t symbol_count(const struct link_map *map)
{
	const uint32_t *gnu = (const uint32_t *)dynamic(map, DT_GNU_HASH, 1);
	const uint32_t *sysv = (const uint32_t *)dynamic(map, DT_HASH, 1);
	if (sysv)
		return sysv[1];
	if (!gnu)
		return 0;
	uint32_t buckets = gnu[0], first = gnu[1], last = 0;
	const uint32_t *bucket = gnu + 4 + 2 * (size_t)gnu[2], *chain = bucket + buckets;
	for (uint32_t i = 0; i < buckets; i++)
		last = bucket[i] > last ? bucket[i] : last;
	if (last < first || !last)
		return 0;
	while (!(chain[last - first] & 1))
		last++;
	return last + 1;
}

int next_has_preinit(const void *code)
{
	uintptr_t lo;
	const struct link_map *map = next_object(code, &lo);
	return map && dynamic(map, DT_PREINIT_ARRAYSZ, 0) != 0;
}

int next_has(const struct link_map *map, const char *name)
{
	return find_in(map, name) != 0;
}

void next_symbols(const struct link_map *map,
		  void (*each)(void *ctx, const ElfW(Sym) * sym, const char *name), void *ctx)
{
	const ElfW(Sym) *symbols = (const ElfW(Sym) *)dynamic(map, DT_SYMTAB, 1);
	const char *strings = (const char *)dynamic(map, DT_STRTAB, 1);
	for (uint32_t i = 0, count = symbol_count(map); i < count; i++)
		each(ctx, &symbols[i], strings + symbols[i].st_name);
}

/* How the segment of @map that holds @at may be used; 0: there is none. */
static int protection(const struct link_map *map, const void *lo, uintptr_t at)
{
	const ElfW(Ehdr) *eh = lo;
	const ElfW(Phdr) *ph = (const void *)((const char *)eh + eh->e_phoff);
	for (int i = 0; i < eh->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD && at - (map->l_addr + ph[i].p_vaddr) < ph[i].p_filesz)
			return (ph[i].p_flags & PF_R ? PROT_READ : 0) |
			       (ph[i].p_flags & PF_W ? PROT_WRITE : 0) |
			       (ph[i].p_flags & PF_X ? PROT_EXEC : 0);
	return 0;
}

/* From here on whoever looks for this symbol finds @ours. Half a symbol is never seen. */
static void take_place(const struct link_map *map, const void *lo, const ElfW(Sym) * sym,
		       uintptr_t ours)
{
	uintptr_t at = (uintptr_t)&sym->st_value;
	int before = protection(map, lo, at);
	if (!before || sys_failed(sys3(SYS_mprotect, at & ~4095UL, 4096, before | PROT_WRITE)))
		return;
	__atomic_store_n((uintptr_t *)at, ours - map->l_addr, __ATOMIC_RELEASE);
	sys3(SYS_mprotect, at & ~4095UL, 4096, before);
}

static void take_places(const struct link_map *own, const void *code)
{
	uintptr_t lo;
	const struct link_map *map = code ? next_object(code, &lo) : NULL;
	if (!map || map == own || !next_code(code).lo)
		return;
	const ElfW(Sym) *symbols = (const ElfW(Sym) *)dynamic(map, DT_SYMTAB, 1);
	const char *strings = (const char *)dynamic(map, DT_STRTAB, 1);
	for (uint32_t i = 0, count = symbol_count(map); i < count; i++) {
		const ElfW(Sym) *sym = &symbols[i];
		if (!is_shown(sym) || ELF64_ST_TYPE(sym->st_info) != STT_FUNC)
			continue;
		const char *name = strings + sym->st_name;
		uintptr_t ours =
			behind_ours(map->l_addr + sym->st_value, name) ? find_in(own, name) : 0;
		if (ours)
			take_place(map, (const void *)lo, sym, ours);
	}
}

enum { NOT_YET, UNDER_WAY, DONE };
static uint32_t deepbind;

void next_deepbind(void)
{
	uint32_t seen = NOT_YET;
	uintptr_t lo;
	/* under seccomp memory can no longer be made writable */
	if (process.seccomp || __atomic_load_n(&deepbind, __ATOMIC_ACQUIRE) == DONE)
		return;
	/*
	 * a handler that jumped out of it, or that loads such an object, would leave everybody
	 * waiting for good
	 */
	uint64_t before = block_signals();
	if (__atomic_compare_exchange_n(&deepbind, &seen, UNDER_WAY, 0, __ATOMIC_ACQUIRE,
					__ATOMIC_ACQUIRE)) {
		const struct link_map *own = next_object((const void *)next_deepbind, &lo);
		if (own) {
			take_places(own, (const void *)next.fork);
			take_places(own, (const void *)next.free);
			take_places(own, (const void *)next.cxx_new[NEW]);
			take_places(own, (const void *)next.register_frame);
		}
		__atomic_store_n(&deepbind, DONE, __ATOMIC_RELEASE);
	}
	unblock_signals(before);
	while (__atomic_load_n(&deepbind, __ATOMIC_ACQUIRE) == UNDER_WAY)
		sys0(SYS_sched_yield); /* whoever is at it waits for nobody */
}

void next_forked(void)
{
	/* whoever was at it does not exist here; what has its place already is passed over */
	if (deepbind == UNDER_WAY)
		deepbind = NOT_YET;
}
