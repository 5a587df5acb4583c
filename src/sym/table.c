/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"

void table_fini(struct table *table)
{
	free(table->symbols);
	free(table->reach);
	free(table->code);
	pool_fini(&table->pool);
	memset(table, 0, sizeof(*table));
}

static int by_lo(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return (x > y) - (x < y);
}

int table_code(struct table *table, const struct image *main)
{
	Elf_Scn *scn = NULL;
	size_t cap = 0;
	while ((scn = elf_nextscn(main->elf, scn))) {
		GElf_Shdr shdr;
		uint64_t end;
		if (!gelf_getshdr(scn, &shdr) || !(shdr.sh_flags & SHF_EXECINSTR) ||
		    !(shdr.sh_flags & SHF_ALLOC) || !shdr.sh_size ||
		    __builtin_add_overflow(shdr.sh_addr, shdr.sh_size, &end))
			continue;
		if (table->code_count == cap) {
			cap = cap ? cap * 2 : 16;
			uint64_t *grown = reallocarray(table->code, cap, 2 * sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			table->code = grown;
		}
		table->code[2 * table->code_count] = shdr.sh_addr;
		table->code[2 * table->code_count++ + 1] = end;
	}
	if (table->code_count)
		qsort(table->code, table->code_count, 2 * sizeof(uint64_t), by_lo);
	return 0;
}

/* The end of the executable section that holds @address; 0 = it is not code. */
static uint64_t code_end(const struct table *table, uint64_t address)
{
	size_t lo =
		search_beyond(table->code, table->code_count, 2 * sizeof(*table->code), 0, address);
	return lo && address < table->code[2 * lo - 1] ? table->code[2 * lo - 1] : 0;
}

int table_add(struct table *table, uint64_t lo, uint64_t bytes, const char *name, size_t name_len,
	      unsigned rank)
{
	uint64_t end = code_end(table, lo), hi;
	if (!end)
		return 0;
	if (__builtin_add_overflow(lo, bytes, &hi) || hi > end)
		hi = end;
	if (table->count == table->cap) {
		size_t cap = table->cap ? table->cap * 2 : 1024;
		struct table_symbol *grown = reallocarray(table->symbols, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		table->symbols = grown;
		table->cap = cap;
	}
	char *copy = pool_alloc(&table->pool, name_len + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, name, name_len);
	table->symbols[table->count++] = (struct table_symbol){
		.lo = lo, .hi = hi, .name = copy, .rank = (uint8_t)rank, .sizeless = !bytes
	};
	return 0;
}

/*
 * Aliases: what has a size before what has none, what others can link to before local names, functions before labels,
 * and then the name with fewer underscores in front: people know malloc, not __libc_malloc.
 */
static unsigned rank_of(const GElf_Sym *sym, const char *name)
{
	unsigned rank = 0, underscores = 0;
	if (sym->st_size)
		rank |= 128;
	if (GELF_ST_TYPE(sym->st_info) != STT_NOTYPE)
		rank |= 64;
	if (GELF_ST_BIND(sym->st_info) != STB_LOCAL)
		rank |= 32;
	if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R'))
		return rank | 15;
	while (name[underscores] == '_' && underscores < 15)
		underscores++;
	return rank | (15 - underscores);
}

/* Mapping symbols of ARM and RISC-V ($x, $d), local labels of assemblers, file and section marks. */
static int is_function(const GElf_Sym *sym, const char *name)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON)
		return 0;
	if (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE)
		return 0;
	return name[0] && name[0] != '$' && strncmp(name, ".L", 2);
}

int table_read(struct table *table, const struct image *image, uint32_t section_type)
{
	Elf_Scn *scn = NULL;
	while ((scn = elf_nextscn(image->elf, scn))) {
		GElf_Shdr shdr;
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != section_type)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		Elf_Data *text = elf_getdata(elf_getscn(image->elf, shdr.sh_link), NULL);
		if (!data || !data->d_buf || !text || !text->d_buf)
			continue;
		size_t count = data->d_size / gelf_fsize(image->elf, ELF_T_SYM, 1, EV_CURRENT);
		for (size_t i = 1; i < count && i <= INT32_MAX; i++) {
			GElf_Sym sym;
			if (!gelf_getsym(data, (int)i, &sym) || sym.st_name >= text->d_size)
				continue;
			const char *name = (const char *)text->d_buf + sym.st_name;
			size_t most = text->d_size - sym.st_name;
			size_t len = strnlen(name, most < TABLE_NAME_MAX ? most : TABLE_NAME_MAX);
			if (len == most || !is_function(&sym, name))
				continue;
			const char *version = memchr(name, '@', len);
			if (version && version > name) /* name@@VERSION of old linkers */
				len = (size_t)(version - name);
			if (table_add(table, sym.st_value, sym.st_size, name, len,
				      rank_of(&sym, name)) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct table_symbol *x = a, *y = b;
	if (x->lo != y->lo)
		return x->lo < y->lo ? -1 : 1;
	if (x->rank != y->rank)
		return x->rank > y->rank ? -1 : 1;
	return strcmp(x->name, y->name); /* any order will do, but always the same */
}

int table_finish(struct table *table)
{
	if (!table->count)
		return 0;
	qsort(table->symbols, table->count, sizeof(*table->symbols), by_place);
	uint64_t *reaches = reallocarray(table->reach, table->count, sizeof(*reaches));
	if (!reaches)
		return -ENOMEM;
	table->reach = reaches;
	/* one symbol an address; a sizeless label inside a function that knows its size is not a function */
	size_t kept = 0;
	uint64_t sized_to = 0;
	for (size_t i = 0; i < table->count; i++) {
		struct table_symbol *s = &table->symbols[i];
		if (kept && table->symbols[kept - 1].lo == s->lo)
			continue;
		if (s->sizeless && s->lo < sized_to)
			continue;
		if (!s->sizeless && s->hi > sized_to)
			sized_to = s->hi;
		table->symbols[kept++] = *s;
	}
	table->count = table->finished = kept;
	uint64_t reach = 0;
	for (size_t i = 0; i < kept; i++) {
		struct table_symbol *s = &table->symbols[i];
		if (s->sizeless) {
			s->hi = code_end(table, s->lo);
			if (i + 1 < kept && table->symbols[i + 1].lo < s->hi)
				s->hi = table->symbols[i + 1].lo;
		}
		if (s->hi > reach)
			reach = s->hi;
		table->reach[i] = reach;
	}
	return 0;
}

struct table_symbol *table_find(const struct table *table, uint64_t address)
{
	size_t lo = search_beyond(table->symbols, table->finished, sizeof(*table->symbols),
				  offsetof(struct table_symbol, lo), address);
	/* walking back is bounded by nesting in honest files, and by this number in others */
	for (unsigned steps = 0; lo && table->reach[lo - 1] > address && steps < 256; steps++)
		if (table->symbols[--lo].hi > address)
			return &table->symbols[lo];
	return NULL;
}
