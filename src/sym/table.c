/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>

#include "base/fileio.h"
#include "base/search.h"

void table_fini(struct table *table)
{
	for (unsigned i = 0; i < table->strings_count; i++)
		free(table->strings[i].window);
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
	size_t cap = 0, names = 0;
	elf_getshdrstrndx(main->elf, &names);
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
		const char *name = elf_strptr(main->elf, names, shdr.sh_name);
		if (name && !strncmp(name, ".plt", 4) && table->stubs_count < TABLE_STUBS_MAX) {
			table->stubs[2 * table->stubs_count] = shdr.sh_addr;
			table->stubs[2 * table->stubs_count++ + 1] = end;
		}
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

int table_is_stub(const struct table *table, uint64_t address)
{
	for (unsigned i = 0; i < table->stubs_count; i++)
		if (address >= table->stubs[2 * i] && address < table->stubs[2 * i + 1])
			return 1;
	return 0;
}

/* The next place for a symbol at @lo; NULL with *@rc 0: it is not code, -ENOMEM. */
static struct table_symbol *add(struct table *table, uint64_t lo, uint64_t bytes, int *rc)
{
	uint64_t end = code_end(table, lo), hi;
	*rc = 0;
	if (!end)
		return NULL;
	if (__builtin_add_overflow(lo, bytes, &hi) || hi > end)
		hi = end;
	if (table->count == table->cap) {
		size_t cap = table->cap ? table->cap * 2 : 1024;
		struct table_symbol *grown = reallocarray(table->symbols, cap, sizeof(*grown));
		if (!grown) {
			*rc = -ENOMEM;
			return NULL;
		}
		table->symbols = grown;
		table->cap = cap;
	}
	struct table_symbol *symbol = &table->symbols[table->count++];
	*symbol = (struct table_symbol){ .lo = lo, .hi = hi, .sizeless = !bytes };
	return symbol;
}

static struct table_name *keep_name(struct table *table, const char *name, size_t len)
{
	struct table_name *named = pool_alloc(&table->pool, sizeof(*named) + len + 1);
	if (!named)
		return NULL;
	char *copy = (char *)(named + 1);
	memcpy(copy, name, len);
	copy[len] = '\0';
	*named = (struct table_name){ .name = copy };
	return named;
}

int table_add(struct table *table, uint64_t lo, uint64_t bytes, const char *name, size_t name_len,
	      unsigned rank)
{
	int rc;
	struct table_symbol *symbol = add(table, lo, bytes, &rc);
	if (!symbol)
		return rc;
	symbol->rank = (uint8_t)rank;
	symbol->named = keep_name(table, name, name_len);
	return symbol->named ? 0 : -ENOMEM;
}

/* ---- names, out of the file ------------------------------------------------------------------ */

/*
 * What is read for one name. Those that are asked for lie anywhere in some MiB, and each page that
 * is kept of them has to be cleared, filled and given back: more work than to ask for few bytes.
 */
#define WINDOW_BYTES 1024u

/*
 * What stands at @text of @strings, lent until the next call, and how many bytes from there on are
 * at hand: @least of them, or as many as there are.
 */
static const char *peek(struct table_strings *strings, uint32_t text, size_t least, size_t *bytes)
{
	*bytes = 0;
	if (text >= strings->bytes)
		return NULL;
	const uint64_t left = strings->bytes - text;
	if (strings->memory) {
		*bytes = left;
		return strings->memory + strings->offset + text;
	}
	least = MIN(least, left);
	if (text < strings->from || text - strings->from + least > strings->held) {
		if (!strings->window && !(strings->window = malloc(TABLE_NAME_MAX + 1)))
			return NULL;
		ssize_t got =
			fileio_pread(strings->fd, strings->window,
				     MIN(MAX(least, WINDOW_BYTES), left), strings->offset + text);
		strings->from = text;
		strings->held = got > 0 ? (size_t)got : 0;
	}
	if (text - strings->from >= strings->held)
		return NULL;
	*bytes = strings->held - (text - strings->from);
	return strings->window + (text - strings->from);
}

struct table_name *table_name(struct table *table, struct table_symbol *symbol)
{
	struct table_strings *strings = &table->strings[symbol->strings];
	size_t most, len = 0;
	if (symbol->named)
		return symbol->named->name[0] ? symbol->named : NULL;
	const char *name = peek(strings, symbol->text, 1, &most);
	if (name)
		len = strnlen(name, MIN(most, TABLE_NAME_MAX));
	if (name && len == most && (name = peek(strings, symbol->text, TABLE_NAME_MAX + 1, &most)))
		len = strnlen(name, MIN(most, TABLE_NAME_MAX));
	if (!name)
		return NULL;
	if (len == most)
		len = 0; /* the file ends in it */
	const char *version = memchr(name, '@', len);
	if (version && version > name) /* name@@VERSION of old linkers */
		len = (size_t)(version - name);
	symbol->named = keep_name(table, name, len);
	return symbol->named && len ? symbol->named : NULL;
}

/*
 * Aliases: what has a size before what has none, what others can link to before local names,
 * functions before labels, and then the name with fewer underscores in front: people know malloc,
 * not __libc_malloc.
 */
static unsigned rank_of(const GElf_Sym *sym)
{
	unsigned rank = 0;
	if (sym->st_size)
		rank |= 128;
	if (GELF_ST_TYPE(sym->st_info) != STT_NOTYPE)
		rank |= 64;
	if (GELF_ST_BIND(sym->st_info) != STB_LOCAL)
		rank |= 32;
	return rank;
}

static unsigned rank_of_name(const char *name)
{
	unsigned underscores = 0;
	if (name[0] == '_' && (name[1] == 'Z' || name[1] == 'R'))
		return 15;
	while (name[underscores] == '_' && underscores < 15)
		underscores++;
	return 15 - underscores;
}

/*
 * Mapping symbols of ARM and RISC-V ($x, $d), local labels of assemblers, file and section marks.
 */
static int is_function(const GElf_Sym *sym, struct table_strings *strings)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	size_t bytes;
	if (sym->st_shndx == SHN_UNDEF || sym->st_shndx == SHN_ABS || sym->st_shndx == SHN_COMMON ||
	    !sym->st_name || sym->st_name >= strings->bytes)
		return 0;
	if (type == STT_FUNC || type == STT_GNU_IFUNC)
		return 1; /* what it is called is looked up once it matters */
	const char *name = type == STT_NOTYPE ? peek(strings, sym->st_name, 3, &bytes) : NULL;
	return name && name[0] && name[0] != '$' && (bytes < 2 || strncmp(name, ".L", 2) != 0);
}

static struct table_strings *strings_of(struct table *table, const struct image *image,
					const GElf_Shdr *symbols)
{
	GElf_Shdr shdr;
	Elf_Scn *scn = elf_getscn(image->elf, symbols->sh_link);
	if (!scn || !gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_STRTAB || !shdr.sh_size ||
	    shdr.sh_flags & SHF_COMPRESSED || shdr.sh_offset > INT64_MAX ||
	    shdr.sh_size > UINT32_MAX || table->strings_count == TABLE_STRINGS_MAX)
		return NULL;
	if (image->fd < 0 && shdr.sh_offset >= image->memory_bytes)
		return NULL;
	struct table_strings *strings = &table->strings[table->strings_count++];
	*strings = (struct table_strings){ .fd = image->fd,
					   .memory = image->fd < 0 ? image->memory : NULL,
					   .offset = shdr.sh_offset,
					   .bytes = shdr.sh_size };
	if (strings->memory)
		strings->bytes = MIN(strings->bytes, image->memory_bytes - shdr.sh_offset);
	return strings;
}

int table_read(struct table *table, const struct image *image, uint32_t section_type)
{
	Elf_Scn *scn = NULL;
	int rc;
	while ((scn = elf_nextscn(image->elf, scn))) {
		GElf_Shdr shdr;
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != section_type)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		struct table_strings *strings = strings_of(table, image, &shdr);
		if (!data || !data->d_buf || !strings)
			continue;
		size_t count = data->d_size / gelf_fsize(image->elf, ELF_T_SYM, 1, EV_CURRENT);
		for (size_t i = 1; i < count && i <= INT32_MAX; i++) {
			GElf_Sym sym;
			if (!gelf_getsym(data, (int)i, &sym) || !is_function(&sym, strings))
				continue;
			struct table_symbol *symbol = add(table, sym.st_value, sym.st_size, &rc);
			if (!symbol && rc < 0)
				return rc;
			if (!symbol)
				continue;
			symbol->rank = (uint8_t)rank_of(&sym);
			symbol->text = sym.st_name;
			symbol->strings = (uint8_t)(strings - table->strings);
		}
	}
	return 0;
}

/*
 * By lo, least digit first: a library has a hundred thousand, and comparing them took longer than
 * reading them.
 */
static int sort_by_place(struct table *table)
{
	struct table_symbol *from = table->symbols,
			    *to = reallocarray(NULL, table->cap, sizeof(*to));
	uint64_t all = 0;
	if (!to)
		return -ENOMEM;
	for (size_t i = 0; i < table->count; i++)
		all |= from[i].lo;
	for (unsigned shift = 0; shift < 64 && all >> shift; shift += 8) {
		size_t ends[257] = { 0 };
		for (size_t i = 0; i < table->count; i++)
			ends[(from[i].lo >> shift & 255) + 1]++;
		for (unsigned i = 0; i < 256; i++)
			ends[i + 1] += ends[i];
		for (size_t i = 0; i < table->count; i++)
			to[ends[from[i].lo >> shift & 255]++] = from[i];
		struct table_symbol *sorted = to;
		to = from;
		from = sorted;
	}
	table->symbols = from;
	free(to);
	return 0;
}

int table_finish(struct table *table)
{
	if (!table->count)
		return 0;
	uint64_t *reaches = reallocarray(table->reach, table->count, sizeof(*reaches));
	if (!reaches)
		return -ENOMEM;
	table->reach = reaches;
	if (sort_by_place(table) < 0)
		return -ENOMEM;
	/* a sizeless label inside a function that knows its size is not a function */
	size_t kept = 0;
	uint64_t sized_to = 0;
	for (size_t i = 0; i < table->count; i++) {
		struct table_symbol *s = &table->symbols[i];
		s->chosen = 0;
		if (s->sizeless && s->lo < sized_to)
			continue;
		if (!s->sizeless && s->hi > sized_to)
			sized_to = s->hi;
		table->symbols[kept++] = *s;
	}
	table->count = table->finished = kept;
	uint64_t next = UINT64_MAX;
	for (size_t i = kept; i--;) {
		struct table_symbol *s = &table->symbols[i];
		if (i + 1 < kept && table->symbols[i + 1].lo != s->lo)
			next = table->symbols[i + 1].lo;
		if (s->sizeless) {
			s->hi = code_end(table, s->lo);
			if (next < s->hi)
				s->hi = next;
		}
	}
	uint64_t reach = 0;
	for (size_t i = 0; i < kept; i++) {
		if (table->symbols[i].hi > reach)
			reach = table->symbols[i].hi;
		table->reach[i] = reach;
	}
	return 0;
}

static unsigned whole_rank(struct table *table, struct table_symbol *symbol)
{
	const struct table_name *name = table_name(table, symbol);
	return name ? symbol->rank | rank_of_name(name->name) : 0;
}

/*
 * The best of those that stand where number @last does, which is the last of them, becomes their
 * first. Return: its number.
 */
static size_t choose(struct table *table, size_t last)
{
	struct table_symbol *all = table->symbols;
	size_t first = last, best;
	while (first && all[first - 1].lo == all[last].lo)
		first--;
	if (all[first].chosen || first == last)
		return first;
	best = first;
	for (size_t i = first + 1; i <= last; i++) {
		unsigned rank = whole_rank(table, &all[i]), than = whole_rank(table, &all[best]);
		/* of equals any will do, but always the same */
		if (rank > than ||
		    (rank == than && rank && strcmp(all[i].named->name, all[best].named->name) < 0))
			best = i;
	}
	struct table_symbol chosen = all[best];
	all[best] = all[first];
	all[first] = chosen;
	all[first].chosen = 1;
	return first;
}

struct table_symbol *table_find(struct table *table, uint64_t address)
{
	size_t lo = search_beyond(table->symbols, table->finished, sizeof(*table->symbols),
				  offsetof(struct table_symbol, lo), address);
	/* walking back is bounded by nesting in honest files, and by this number in others */
	for (unsigned steps = 0; lo && table->reach[lo - 1] > address && steps < 256; steps++) {
		lo = choose(table, lo - 1);
		if (table->symbols[lo].hi > address)
			return &table->symbols[lo];
	}
	return NULL;
}
