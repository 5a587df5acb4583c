/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own.c - find the allocators that the program carries itself, and put our hooks in front of them.
 * See own.h.
 */
#include "patch/own.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "patch/patch.h"
#include "preload/log.h"
#include "preload/next.h"
#include "preload/patched.h"
#include "preload/process.h"
#include "preload/start.h"
#include "unwind/cfi.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

#define CALLS_MAX 384           /* functions in a process; mimalloc has 90 */
#define FUNCTION_MAX (1u << 20) /* bytes of one function that are looked through */
#define CODE_ALIGN 16u          /* functions begin there, unless they are built for size */
#define PAGE 4096UL
#define LOWEST (64u << 10) /* further down a null pointer with an offset shall fault */
#define SLOT_BYTES 192u
_Static_assert(SLOT_BYTES >= PATCH_STUB_BYTES + PATCH_MOVED_MAX, "a stub and a moved head");

/* A function that would be hooked. */
struct found {
	uintptr_t at;
	size_t bytes;
	const struct own_name *name;
	/* OWN_BIT(): it may have several names */
	unsigned families;
	/* bytes that move; 0: they cannot */
	unsigned head;
	/* by any of its names */
	int core;
	/* with functions that are none of an allocator's */
	int shared;
};

/* What is known of one object while it is looked at. */
struct object {
	const struct link_map *map;
	const ElfW(Phdr) * ph;
	unsigned ph_count;
	uintptr_t lo, hi;
	const char *name;
	int executable;
	/* its .symtab was there, too */
	int whole;
	/* memory of the start's, for all objects in turn */
	struct found *found;
	unsigned count, dropped;
	/* families of which such a function was seen */
	unsigned obtains, releases;
	/* where what would move lies */
	struct code_range heads;
};

static struct own_call calls[CALLS_MAX];
static unsigned call_count;
static unsigned held_count;
static struct code_range beside[NEXT_CARRIED_MAX]; /* our memory near them */
static char told[WIRE_OWN_BYTES];

/* ---- symbols ---- */

static int allowed(const struct object *o, enum own_family family, const ElfW(Sym) * sym)
{
	unsigned bind = ELF64_ST_BIND(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || !sym->st_value)
		return 0;
	/*
	 * a static function may have such a name by accident, and outside the executable ours come
	 * first
	 */
	if (!*own_prefix[family] && bind != STB_GLOBAL && bind != STB_WEAK)
		return 0;
	return o->executable || (family != OWN_STANDARD && family != OWN_OPERATORS);
}

/*
 * A program's own things may be called tc or mi: then tc_new() and mi_free() are theirs. Nobody
 * calls a thing malloc.
 */
static int tells(const struct own_name *name)
{
	unsigned kind = name->shape.kind;
	return (kind == OWN_OBTAIN || kind == OWN_OBTAIN_TO) && strncmp(name->name, "new", 3) != 0;
}

static void consider(void *ctx, const ElfW(Sym) * sym, const char *text)
{
	struct object *o = ctx;
	enum own_family family;
	const struct own_name *name = own_name(text, &family);
	if (!name || !allowed(o, family, sym))
		return;
	if (name->shape.kind == OWN_RELEASE)
		o->releases |= OWN_BIT(family);
	else if (tells(name))
		o->obtains |= OWN_BIT(family);
	uintptr_t at = o->map->l_addr + sym->st_value;
	for (unsigned i = 0; i < o->count; i++) {
		if (o->found[i].at == at) {
			o->found[i].families |= OWN_BIT(family);
			o->found[i].core |= name->core;
			return;
		}
	}
	if (call_count + o->count == CALLS_MAX) {
		o->dropped++;
		return;
	}
	/*
	 * a variable that leads to the function, or what chooses one: nothing to move, and its
	 * calls are not seen
	 */
	size_t bytes = ELF64_ST_TYPE(sym->st_info) == STT_FUNC ? sym->st_size : 0;
	o->found[o->count++] = (struct found){ .at = at,
					       .bytes = bytes,
					       .name = name,
					       .families = OWN_BIT(family),
					       .core = name->core };
}

typedef void each_symbol(void *ctx, const ElfW(Sym) * sym, const char *text);

/* ---- the executable's file ---- */

/* A part of a file, mapped. */
struct part {
	char *map;
	/* of the mapping */
	size_t bytes;
	const char *at;
};

static int part_map(struct part *part, long fd, uint64_t file_bytes, uint64_t off, uint64_t bytes)
{
	uint64_t skip = off % PAGE, end;
	if (!bytes || __builtin_add_overflow(off, bytes, &end) || end > file_bytes)
		return 0;
	long rc = sys6(SYS_mmap, 0, (long)(skip + bytes), PROT_READ, MAP_PRIVATE, fd,
		       (long)(off - skip));
	if (sys_failed(rc))
		return 0;
	*part = (struct part){ (char *)rc, skip + bytes, (char *)rc + skip };
	return 1;
}

static void part_unmap(const struct part *part)
{
	sys2(SYS_munmap, part->map, part->bytes);
}

static int read_all(long fd, void *to, size_t bytes, uint64_t off)
{
	return sys4(SYS_pread64, fd, to, bytes, off) == (long)bytes;
}

static int read_section(long fd, const ElfW(Ehdr) * eh, uint64_t n, ElfW(Shdr) * to)
{
	return read_all(fd, to, sizeof(*to), eh->e_shoff + n * sizeof(*to));
}

/* Nobody can write to or cut the file of a running executable, so the mapping stays whole. */
static void each_in_tables(struct object *o, long fd, uint64_t file_bytes, const ElfW(Shdr) * table,
			   const ElfW(Shdr) * text, each_symbol *each)
{
	struct part symbols, strings;
	if (!part_map(&symbols, fd, file_bytes, table->sh_offset, table->sh_size))
		return;
	if (part_map(&strings, fd, file_bytes, text->sh_offset, text->sh_size)) {
		const ElfW(Sym) *sym = (const ElfW(Sym) *)symbols.at;
		size_t count = table->sh_size / sizeof(*sym);
		o->whole = strings.at[text->sh_size - 1] == '\0';
		for (size_t k = 0; o->whole && k < count; k++)
			if (sym[k].st_name < text->sh_size)
				each(o, &sym[k], strings.at + sym[k].st_name);
		part_unmap(&strings);
	}
	part_unmap(&symbols);
}

static void each_in_file(struct object *o, long fd, each_symbol *each)
{
	ElfW(Ehdr) eh;
	ElfW(Shdr) section, text;
	struct stat st;
	ElfW(Phdr) ph;
	/*
	 * another file where the program was started through the loader, or stands in another root
	 * by now
	 */
	if (sys_failed(sys2(SYS_fstat, fd, &st)) || !read_all(fd, &eh, sizeof(eh), 0) ||
	    memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 || eh.e_phnum != o->ph_count)
		return;
	for (unsigned i = 0; i < eh.e_phnum; i++)
		if (!read_all(fd, &ph, sizeof(ph), eh.e_phoff + i * sizeof(ph)) ||
		    memcmp(&ph, &o->ph[i], sizeof(ph)) != 0)
			return;
	if (eh.e_shentsize != sizeof(section) || !read_section(fd, &eh, 0, &section))
		return;
	/* where they are too many for the field, the first one says how many */
	uint64_t file_bytes = (uint64_t)st.st_size,
		 count = eh.e_shnum ? eh.e_shnum : section.sh_size;
	for (uint64_t i = 1; i < count && read_section(fd, &eh, i, &section); i++) {
		if (section.sh_type != SHT_SYMTAB)
			continue;
		if (section.sh_link < count && section.sh_entsize == sizeof(ElfW(Sym)) &&
		    section.sh_offset % 8 == 0 && read_section(fd, &eh, section.sh_link, &text))
			each_in_tables(o, fd, file_bytes, &section, &text, each);
		return;
	}
}

static void each_known(struct object *o, each_symbol *each)
{
	if (!o->executable) {
		next_symbols(o->map, each, o);
		return;
	}
	long fd = sys4(SYS_openat, AT_FDCWD, "/proc/self/exe", O_RDONLY | O_CLOEXEC, 0);
	if (!sys_failed(fd)) {
		each_in_file(o, fd, each);
		sys1(SYS_close, fd);
	}
	/* what it exports is in the other table, too */
	if (!o->whole)
		next_symbols(o->map, each, o);
}

/* ---- the code of one function ---- */

/* The segment of @o that holds the code at @at; NULL: there is none, or none that can be read. */
static const ElfW(Phdr) * segment(const struct object *o, uintptr_t at)
{
	for (const ElfW(Phdr) *ph = o->ph; ph < o->ph + o->ph_count; ph++)
		if (ph->p_type == PT_LOAD && (ph->p_flags & (PF_X | PF_R)) == (PF_X | PF_R) &&
		    at - (o->map->l_addr + ph->p_vaddr) < ph->p_filesz)
			return ph;
	return NULL;
}

/*
 * How much of the function is there to be read. A free() that does nothing is one byte long: up to
 * where the next function could begin stands padding, which patch_head() tells from code.
 */
static size_t code_bytes(const struct object *o, uintptr_t at, size_t bytes)
{
	const ElfW(Phdr) *ph = segment(o, at);
	if (bytes && bytes < CODE_ALIGN && at % CODE_ALIGN == 0)
		bytes = CODE_ALIGN;
	size_t room = ph ? o->map->l_addr + ph->p_vaddr + ph->p_filesz - at : 0;
	bytes = bytes < room ? bytes : room;
	return bytes < FUNCTION_MAX ? bytes : FUNCTION_MAX;
}

/*
 * A head that another symbol leads into stays where it is: who comes there would find the middle of
 * a jump. So does a free() that does nothing, if the linker made one of all functions that do
 * nothing: calls of the others would be frees.
 */
static void keep_entered(void *ctx, const ElfW(Sym) * sym, const char *text)
{
	struct object *o = ctx;
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	enum own_family family;
	if ((type != STT_FUNC && type != STT_NOTYPE && type != STT_GNU_IFUNC) ||
	    sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS)
		return;
	uintptr_t at = o->map->l_addr + sym->st_value;
	if (at - o->heads.lo >= o->heads.hi - o->heads.lo) /* nearly all of what may be a million */
		return;
	for (unsigned i = 0; i < o->count; i++) {
		struct found *f = &o->found[i];
		if (at - f->at >= f->head)
			continue;
		if (at == f->at) {
			if (type != STT_FUNC || f->name->shape.kind != OWN_RELEASE ||
			    own_name(text, &family) || strncmp(text, "__libc_", 7) == 0 ||
			    !patch_does_nothing((const uint8_t *)at, code_bytes(o, at, f->bytes)))
				continue;
			f->shared = 1;
		}
		f->head = 0;
	}
}

/* ---- memory beside the code ---- */

/* Where nothing is yet, or nowhere. */
static int map_at(uintptr_t at, size_t bytes, struct code_range *to)
{
	long rc = sys6(SYS_mmap, (long)at, (long)bytes, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (sys_failed(rc))
		return 0;
	*to = (struct code_range){ (uintptr_t)rc, (uintptr_t)rc + bytes };
	if ((uintptr_t)rc == at) /* kernels before 4.17 take it for a hint */
		return 1;
	sys2(SYS_munmap, rc, bytes);
	return 0;
}

/*
 * Below the object, where a jump of five bytes reaches it, else above; not above the executable,
 * where its heap grows. Kept within half the reach, so that what the moved instructions refer to is
 * in reach as well, but in the largest of programs.
 */
static int beside_map(const struct object *o, size_t bytes, struct code_range *to)
{
	const uintptr_t step = 1u << 20;
	for (uintptr_t n = 0; n < 1024 && o->lo >= LOWEST + bytes + n * step; n++)
		if (map_at(o->lo - bytes - n * step, bytes, to))
			return 1;
	for (uintptr_t n = 0; n < 1024 && !o->executable; n++)
		if (map_at(o->hi + n * step, bytes, to))
			return 1;
	return 0;
}

static uint8_t *slot(const struct code_range *range, unsigned n)
{
	return (uint8_t *)range->lo + (size_t)n * SLOT_BYTES;
}

static int led_into(const struct object *o, const struct found *f, size_t bytes)
{
	const ElfW(Phdr) *ph = segment(o, f->at);
	const uint8_t *lo = (const uint8_t *)o->map->l_addr + ph->p_vaddr;
	return patch_led_into((const uint8_t *)f->at, bytes, f->head, lo, lo + ph->p_filesz);
}

/* What the object tells of its frames, in memory; no hdr: nothing. */
static struct unwind_image frames_of(const struct object *o)
{
	struct unwind_image image = { 0 };
	for (const ElfW(Phdr) *ph = o->ph; ph < o->ph + o->ph_count; ph++)
		if (ph->p_type == PT_GNU_EH_FRAME)
			image.hdr = (const uint8_t *)o->map->l_addr + ph->p_vaddr;
	for (const ElfW(Phdr) *ph = o->ph; image.hdr && ph < o->ph + o->ph_count; ph++) {
		const uint8_t *at = (const uint8_t *)o->map->l_addr + ph->p_vaddr;
		if (ph->p_type == PT_LOAD && image.hdr >= at && image.hdr < at + ph->p_filesz) {
			image.lo = at;
			image.hi = at + ph->p_filesz;
		}
	}
	if (!image.hi)
		image.hdr = NULL;
	return image;
}

/*
 * A second witness beside the symbol, which may be a label within a function or before it, or have
 * a wrong size: for exceptions the compiler wrote down what function the place belongs to that the
 * jump will take. Return: the function's bytes; 0: it is another one.
 */
static size_t extent(const struct unwind_image *image, const struct found *f)
{
	struct unwind_fde fde;
	if (!image->hdr || !unwind_cfi_find(image, f->at + PATCH_JUMP_BYTES - 1, &fde))
		return f->bytes;
	if (fde.lo != f->at)
		return 0;
	return f->bytes && fde.hi - fde.lo > f->bytes ? fde.hi - fde.lo : f->bytes;
}

/* Everything that can be done without touching the program's code. */
static void prepare_calls(struct object *o, const struct code_range *to)
{
	const struct unwind_image image = frames_of(o);
	for (unsigned i = 0; i < o->count; i++) {
		struct found *f = &o->found[i];
		struct own_call *call = &calls[call_count + i];
		uint8_t *at = slot(to, i), *moved = at + PATCH_STUB_BYTES;
		const uint8_t *code = (const uint8_t *)f->at;
		size_t bytes = code_bytes(o, f->at, extent(&image, f));
		f->head = patch_head(code, bytes);
		if (!f->head || led_into(o, f, bytes) || !patch_move(moved, code, f->head)) {
			f->head = 0;
			continue;
		}
		o->heads.lo = !o->heads.hi || f->at < o->heads.lo ? f->at : o->heads.lo;
		o->heads.hi = f->at + f->head > o->heads.hi ? f->at + f->head : o->heads.hi;
		call->shape = f->name->shape;
		call->object_lo = o->lo;
		call->object_bytes = o->hi - o->lo;
		memcpy(&call->next, &moved, sizeof(moved));
		patch_stub(at, call, own_entries[call->shape.kind]);
	}
}

/* ---- which of them ---- */

/* The families that are hooked: whole ones, of which everything that matters can be moved. */
static unsigned choose(const struct object *o)
{
	unsigned whole = o->obtains & o->releases;
	for (unsigned i = 0; i < o->count; i++) {
		const struct found *f = &o->found[i];
		if (f->head || !(f->families & o->obtains & o->releases))
			continue;
		log_line(LOG_INFO, "%s%s of %s cannot be hooked: %s",
			 own_prefix[__builtin_ctz(f->families)], f->name->name, o->name,
			 f->shared
				 ? "it does nothing, and functions of other names are the same code"
				 : "the beginning of its code cannot be moved");
		if (f->core)
			whole &= ~f->families;
	}
	if (!(whole & OWN_BIT(OWN_STANDARD)))
		whole &= ~OWN_BIT(OWN_MOZ);
	/* by themselves they lead into a malloc() that is seen */
	return whole == OWN_BIT(OWN_OPERATORS) ? 0 : whole;
}

static int chosen(const struct found *f, unsigned families)
{
	return f->head && f->families & families;
}

/* ---- the program's code ---- */

static int protect(const struct object *o, const struct found *f, int writable)
{
	/* no page behind the jump: it may be data */
	uintptr_t lo = f->at & ~(PAGE - 1),
		  hi = (f->at + PATCH_JUMP_BYTES + PAGE - 1) & ~(PAGE - 1);
	int prot = PROT_READ | PROT_EXEC;
	if (writable || segment(o, f->at)->p_flags & PF_W)
		prot |= PROT_WRITE;
	return !sys_failed(sys3(SYS_mprotect, lo, hi - lo, prot));
}

/* All or nothing. Code that is being run stays executable meanwhile. */
static int make_writable(const struct object *o, unsigned families)
{
	for (unsigned i = 0; i < o->count; i++) {
		if (!chosen(&o->found[i], families) || protect(o, &o->found[i], 1))
			continue;
		while (i--)
			if (chosen(&o->found[i], families))
				protect(o, &o->found[i], 0);
		return 0;
	}
	return 1;
}

/* Where a hook of ours calls such a function, it spares the jump. */
static void bypass(uintptr_t at, const struct own_call *call)
{
	for (size_t i = 0; i < sizeof(next) / sizeof(at); i++) {
		char *word = (char *)&next + i * sizeof(at);
		if (memcmp(word, &at, sizeof(at)) == 0)
			memcpy(word, &call->next, sizeof(at));
	}
}

static void patch(struct object *o, const struct code_range *to, unsigned families)
{
	for (unsigned i = 0; i < o->count; i++) {
		const struct found *f = &o->found[i];
		if (!chosen(f, families))
			continue;
		/* in reach: the moved head, beside the stub, has its jump back there */
		if (patch_jump((uint8_t *)f->at, slot(to, i)))
			bypass(f->at, &calls[call_count + i]);
	}
	/* two of them may share a page */
	for (unsigned i = 0; i < o->count; i++)
		if (chosen(&o->found[i], families))
			protect(o, &o->found[i], 0);
	/*
	 * What does the work may lie anywhere in it. Nor is a handler counted, then, that allocates
	 * while it interrupts this.
	 */
	next_carried[held_count] = (struct code_range){ o->lo, o->hi };
}

/* ---- what is said ---- */

static void tell(const char *text)
{
	size_t have = strlen(told), room = sizeof(told) - 1 - have, len = strlen(text);
	memcpy(told + have, text, len < room ? len : room);
}

static void tell_hooked(const struct object *o, unsigned families)
{
	for (unsigned i = 0; i < OWN_FAMILIES; i++) {
		unsigned count = 0;
		if (!(families & OWN_BIT(i)))
			continue;
		for (unsigned k = 0; k < o->count; k++)
			count += chosen(&o->found[k], families & OWN_BIT(i));
		log_line(LOG_INFO, "%s of %s is hooked, %d functions", own_titles[i], o->name,
			 (long)count);
		if (i == OWN_OPERATORS)
			continue;
		if (told[0])
			tell(", ");
		tell(own_titles[i]);
	}
}

void own_enter(void)
{
	if (!process.heap)
		return;
	memcpy(process.heap->own_allocators, told, sizeof(told));
	for (unsigned i = 0; i < held_count; i++)
		own_range_add((const void *)beside[i].lo, beside[i].hi - beside[i].lo);
}

/* ---- one object ---- */

static void hook_object(struct object *o)
{
	unsigned there = o->obtains & o->releases;
	if (!o->count || !(there & ~OWN_BIT(OWN_OPERATORS)))
		return;
	if (o->dropped)
		log_line(LOG_INFO, "%s has %d functions too many", o->name, (long)o->dropped);
	struct code_range to;
	size_t bytes = ((size_t)o->count * SLOT_BYTES + PAGE - 1) & ~(PAGE - 1);
	if (held_count == NEXT_CARRIED_MAX || !beside_map(o, bytes, &to)) {
		log_line(LOG_INFO, "allocators of %s are not hooked: no memory beside its code",
			 o->name);
		return;
	}
	prepare_calls(o, &to);
	each_known(o, keep_entered);
	unsigned families = choose(o);
	if (!families || sys_failed(sys3(SYS_mprotect, to.lo, bytes, PROT_READ | PROT_EXEC)) ||
	    !make_writable(o, families)) {
		if (families)
			log_line(
				LOG_INFO,
				"allocators of %s are not hooked: its code cannot be made writable",
				o->name);
		sys2(SYS_munmap, to.lo, bytes);
		return;
	}
	beside[held_count] = to;
	patch(o, &to, families);
	own_memory_name((const void *)to.lo, bytes);
	held_count++;
	call_count += o->count;
	tell_hooked(o, families);
}

static int single_threaded(void)
{
	struct stat st;
	/* a folder for each thread, and the two that every folder has */
	return !sys_failed(sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &st, 0)) &&
	       st.st_nlink == 3;
}

/* Where its headers are in memory. Return: 0 they are not. */
static int describe(struct object *o)
{
	const struct link_map *map = o->map;
	if (o->executable) {
		/* the loader does not say where it begins if there is room between its segments */
		o->name = "the executable";
		o->ph = (const void *)getauxval(AT_PHDR);
		o->ph_count = (unsigned)getauxval(AT_PHNUM);
	} else {
		uintptr_t lo;
		o->name = map->l_name;
		if (next_object(map->l_ld, &lo) != map || !next_code(map->l_ld).lo ||
		    lo == own_code.lo)
			return 0;
		const ElfW(Ehdr) *eh = (const void *)lo;
		o->ph = (const void *)(lo + eh->e_phoff);
		o->ph_count = eh->e_phnum;
	}
	o->lo = UINTPTR_MAX;
	for (unsigned i = 0; o->ph && i < o->ph_count; i++) {
		uintptr_t at = map->l_addr + (o->ph[i].p_vaddr & ~(PAGE - 1));
		uintptr_t end = map->l_addr + o->ph[i].p_vaddr + o->ph[i].p_memsz;
		if (o->ph[i].p_type != PT_LOAD)
			continue;
		o->lo = at < o->lo ? at : o->lo;
		o->hi = end > o->hi ? (end + PAGE - 1) & ~(PAGE - 1) : o->hi;
	}
	return o->lo != UINTPTR_MAX;
}

void own_hook_all(void)
{
	/*
	 * what such an object exports; its names are looked through only where it has one of these
	 */
	static const char *const signs[] = { "mallocx", "je_malloc", "_rjem_malloc", "tc_malloc",
					     "mi_malloc" };
	uintptr_t lo;
	const struct link_map *first = next_object((const void *)getauxval(AT_ENTRY), &lo);
	if (!first)
		return;
	if (!single_threaded()) {
		log_line(LOG_INFO, "no allocator of the program's own is hooked: "
				   "it has several threads already, or no /proc");
		return;
	}
	const size_t room = CALLS_MAX * sizeof(struct found);
	long candidates =
		sys6(SYS_mmap, 0, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (sys_failed(candidates)) {
		log_line(LOG_INFO, "no allocator of the program's own is hooked: no memory");
		return;
	}
	for (const struct link_map *map = first; map; map = map->l_next) {
		struct object o = { .map = map,
				    .found = (struct found *)candidates,
				    .executable = map == first };
		if (!describe(&o))
			continue;
		int wanted = o.executable;
		for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]) && !wanted; i++)
			wanted = next_has(map, signs[i]);
		if (wanted)
			each_known(&o, consider);
		hook_object(&o);
		if (o.executable && !held_count)
			log_line(LOG_INFO, "no allocator of the executable's own is hooked%s",
				 o.whole ? ""
					 : ": it is stripped, only what it exports has a name");
	}
	sys2(SYS_munmap, candidates, room);
	own_enter();
}
