/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/carried.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/fileio.h"

#define SYMBOLS_MAX (64u << 20)
#define STRINGS_MAX (1u << 30)
#define SECTIONS_MAX 65536u
#define AT_ONCE 4096u

enum family { JE, RJEM, EXTENDED, TC, MI, FAMILIES };

/*
 * Names that the room patch has, too, which hooks them where a program is started: what obtains,
 * and what releases. It takes both to be an allocator.
 */
static const struct {
	const char *name;
	enum family family;
	int releases;
} names[] = {
	{ "je_malloc", JE, 0 },        { "je_mallocx", JE, 0 },    { "je_free", JE, 1 },
	{ "je_dallocx", JE, 1 },       { "je_sdallocx", JE, 1 },   { "_rjem_malloc", RJEM, 0 },
	{ "_rjem_mallocx", RJEM, 0 },  { "_rjem_free", RJEM, 1 },  { "_rjem_dallocx", RJEM, 1 },
	{ "_rjem_sdallocx", RJEM, 1 }, { "mallocx", EXTENDED, 0 }, { "dallocx", EXTENDED, 1 },
	{ "sdallocx", EXTENDED, 1 },   { "tc_malloc", TC, 0 },     { "tc_free", TC, 1 },
	{ "mi_malloc", MI, 0 },        { "mi_free", MI, 1 },
};

/*
 * What a library's own functions are that are no hook's, of those that obtain: they take more than
 * four arguments, or write down where the block is.
 */
static const char *const unled[] = { "mi_aligned_offset_recalloc",
				     "mi_dupenv_s",
				     "mi_heap_calloc_aligned_at",
				     "mi_heap_realloc_aligned_at",
				     "mi_heap_recalloc_aligned",
				     "mi_heap_recalloc_aligned_at",
				     "mi_heap_rezalloc_aligned_at",
				     "mi_mbsdup",
				     "mi_reallocarr",
				     "mi_recalloc_aligned_at",
				     "mi_wcsdup",
				     "mi_wdupenv_s" };

struct seen {
	const char *obtains[FAMILIES];
	int releases[FAMILIES];
};

static void add(struct seen *seen, size_t i)
{
	if (names[i].releases)
		seen->releases[names[i].family] = 1;
	else
		seen->obtains[names[i].family] = names[i].name;
}

/* Return: its number in @names; ARRAY_LEN(names): it is none of them. */
static size_t number_of(const char *name)
{
	size_t i = 0;
	while (i < ARRAY_LEN(names) &&
	       (*name != *names[i].name || strcmp(name, names[i].name) != 0))
		i++;
	return i;
}

static void consider(struct seen *seen, const char *name)
{
	size_t i = number_of(name);
	if (i < ARRAY_LEN(names))
		add(seen, i);
}

static const char *whole(const struct seen *seen, enum family f)
{
	return seen->releases[f] ? seen->obtains[f] : NULL;
}

/* ---- the executable's file ------------------------------------------------------------------- */

static int get(int fd, void *to, size_t bytes, uint64_t at)
{
	return fileio_pread(fd, to, bytes, at) == (ssize_t)bytes;
}

static void read_table(int fd, const Elf64_Shdr *table, const Elf64_Shdr *text, struct seen *seen)
{
	uint64_t count = table->sh_size / sizeof(Elf64_Sym), bytes = text->sh_size;
	if (count > SYMBOLS_MAX || !bytes || bytes > STRINGS_MAX)
		return;
	char *strings = malloc(bytes + 1);
	Elf64_Sym *some = malloc(AT_ONCE * sizeof(*some));
	if (strings && some && get(fd, strings, bytes, text->sh_offset)) {
		strings[bytes] = '\0';
		for (uint64_t i = 0; i < count; i++) {
			uint64_t left = count - i, n = left < AT_ONCE ? left : AT_ONCE;
			const Elf64_Sym *sym = &some[i % AT_ONCE];
			if (i % AT_ONCE == 0 &&
			    !get(fd, some, n * sizeof(*some), table->sh_offset + i * sizeof(*some)))
				break;
			if (ELF64_ST_TYPE(sym->st_info) == STT_FUNC && sym->st_shndx != SHN_UNDEF &&
			    sym->st_name < bytes)
				consider(seen, strings + sym->st_name);
		}
	}
	free(some);
	free(strings);
}

/* Stripped ones have no such table. */
static void read_file(const struct target *t, struct seen *seen)
{
	CLEANUP(fileio_closep) int fd = target_openat(t, "exe", O_RDONLY | O_CLOEXEC);
	Elf64_Shdr section, text;
	Elf64_Ehdr eh;
	if (fd < 0 || !get(fd, &eh, sizeof(eh), 0) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_shentsize != sizeof(section) || !get(fd, &section, sizeof(section), eh.e_shoff))
		return;
	/* where they are too many for the field, the first one says how many */
	uint64_t count = eh.e_shnum ? eh.e_shnum : section.sh_size;
	for (uint64_t i = 1; i < count && i < SECTIONS_MAX; i++) {
		if (!get(fd, &section, sizeof(section), eh.e_shoff + i * sizeof(section)))
			return;
		if (section.sh_type != SHT_SYMTAB)
			continue;
		if (section.sh_entsize == sizeof(Elf64_Sym) && section.sh_link < count &&
		    get(fd, &text, sizeof(text), eh.e_shoff + section.sh_link * sizeof(text)))
			read_table(fd, &section, &text, seen);
		return;
	}
}

/* ---- what objects ask of each other ---------------------------------------------------------- */

struct asked {
	/* the executable has it, other objects have it, some object asks for it */
	struct seen own, others, asked;
	/* objects that have what obtains, and whether two have the same name */
	unsigned holders[FAMILIES];
	int twice[FAMILIES];
	/* by which object, from 1 on */
	size_t had[ARRAY_LEN(names)];
	/* one library has both */
	int together[FAMILIES];
	/* what is asked for and cannot be led */
	const char *unled;
};

static void defines(struct asked *to, struct seen *here, const char *name, size_t object)
{
	size_t i = number_of(name);
	if (i == ARRAY_LEN(names))
		return;
	if (to->had[i] && to->had[i] != object)
		to->twice[names[i].family] = 1;
	to->had[i] = object;
	add(here, i);
}

static void asks(struct asked *to, const char *name)
{
	consider(&to->asked, name);
	for (size_t i = 0; *name == 'm' && i < ARRAY_LEN(unled); i++)
		if (strcmp(name, unled[i]) == 0)
			to->unled = unled[i];
}

static void read_object(struct asked *to, const struct object *o, struct seen *here, size_t number)
{
	for (size_t k = 0; k < o->symbol_count; k++) {
		const Elf64_Sym *sym = &o->symbols[k];
		if (sym->st_name >= o->strings_bytes)
			continue;
		const char *name = o->strings + sym->st_name;
		unsigned type = ELF64_ST_TYPE(sym->st_info);
		if (sym->st_shndx == SHN_UNDEF)
			asks(to, name);
		else if (type == STT_FUNC || type == STT_GNU_IFUNC)
			defines(to, here, name, number);
	}
}

static void merge(struct asked *to, struct seen *seen, const struct seen *here, int is_library)
{
	for (size_t f = 0; f < FAMILIES; f++) {
		if (here->obtains[f])
			seen->obtains[f] = here->obtains[f];
		seen->releases[f] |= here->releases[f];
		to->holders[f] += here->obtains[f] != NULL;
		to->together[f] |= is_library && whole(here, f);
	}
}

/*
 * Whether an object calls what another one defines. A library may ask for it in case it is there,
 * and one that nobody asks for under such a name serves malloc(), which is led.
 */
static void read_objects(struct objects *objects, struct asked *to)
{
	for (size_t i = 0; i < objects->count; i++) {
		struct object *o = &objects->list[i];
		struct seen here = { 0 };
		if (o->is_libc || o->is_loader || o->is_vdso || !object_symbols(objects, o))
			continue;
		read_object(to, o, &here, i + 1);
		merge(to, i ? &to->others : &to->own, &here, i > 0);
	}
}

const char *carried_find(struct objects *objects)
{
	struct asked all = { 0 };

	read_file(objects->target, &all.own);
	read_objects(objects, &all);
	for (size_t f = 0; f < FAMILIES; f++)
		if (whole(&all.own, f))
			return whole(&all.own, f);
	for (size_t f = 0; f < FAMILIES; f++) {
		if (!whole(&all.others, f) || (!all.asked.obtains[f] && !all.asked.releases[f]))
			continue;
		if (all.holders[f] != 1 || !all.together[f] || all.twice[f])
			return all.others.obtains[f];
		if (f == MI && all.unled)
			return all.unled;
	}
	return NULL;
}
