/* SPDX-License-Identifier: Apache-2.0 */
/*
 * served.c - which allocator serves which module: what the loader bound each module's `malloc` to,
 * read from the slot that its calls go through. And what jemalloc and Go go by now, where the files
 * name the variables.
 */
#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heaps/files.h"
#include "heaps/readers.h"
#include "proc/settings.h"

#define TABLE_MAX (8u << 20) /* bytes of one table of a file */
#define MODULES_MAX 256u
#define HEADERS_MAX 64u
#define PROVIDERS_MAX 16u

#ifdef __aarch64__
#define SLOT R_AARCH64_JUMP_SLOT
#define DATA R_AARCH64_GLOB_DAT
#else
#define SLOT R_X86_64_JUMP_SLOT
#define DATA R_X86_64_GLOB_DAT
#endif

struct module {
	struct breakdown *b;
	/* its start, at the file's */
	const struct region *first;
	int fd;
	uint64_t bias;
	Elf64_Phdr headers[HEADERS_MAX];
	unsigned count;
	uint64_t symbols, strings, strings_bytes, calls, calls_bytes, data, data_bytes, relative;
	/* symbols, then strings, as far as they were read */
	char *text;
	Elf64_Sym *table;
	size_t symbol_count;
	/* a `malloc` of its own, though its calls may go to another's */
	int has_one;
};

static int read_at(const struct module *m, uint64_t offset, void *to, size_t len)
{
	return m->fd >= 0 && pread(m->fd, to, len, (off_t)offset) == (ssize_t)len;
}

/* Where @vaddr's bytes are in the file; UINT64_MAX: nowhere. */
static uint64_t offset_of(const struct module *m, uint64_t vaddr)
{
	for (unsigned i = 0; i < m->count; i++) {
		const Elf64_Phdr *h = &m->headers[i];
		if (h->p_type == PT_LOAD && vaddr >= h->p_vaddr && vaddr - h->p_vaddr < h->p_filesz)
			return vaddr - h->p_vaddr + h->p_offset;
	}
	return UINT64_MAX;
}

static void *read_table(const struct module *m, uint64_t vaddr, uint64_t bytes)
{
	uint64_t offset = offset_of(m, vaddr);
	void *table = offset != UINT64_MAX && bytes && bytes <= TABLE_MAX ? malloc(bytes) : NULL;
	if (table && !read_at(m, offset, table, bytes)) {
		free(table);
		table = NULL;
	}
	return table;
}

static int read_dynamic(struct module *m, const Elf64_Phdr *where)
{
	size_t count = where->p_filesz / sizeof(Elf64_Dyn);
	Elf64_Dyn *all = count < 4096 ? read_table(m, where->p_vaddr, where->p_filesz) : NULL;
	for (size_t i = 0; all && i < count && all[i].d_tag != DT_NULL; i++) {
		uint64_t value = all[i].d_un.d_val;
		switch (all[i].d_tag) {
		case DT_SYMTAB:
			m->symbols = value;
			break;
		case DT_STRTAB:
			m->strings = value;
			break;
		case DT_STRSZ:
			m->strings_bytes = value;
			break;
		case DT_JMPREL:
			m->calls = value;
			break;
		case DT_PLTRELSZ:
			m->calls_bytes = value;
			break;
		case DT_RELA:
			m->data = value;
			break;
		case DT_RELASZ:
			m->data_bytes = value;
			break;
		case DT_RELACOUNT:
			m->relative = value;
			break;
		default:
			break;
		}
	}
	free(all);
	/*
	 * the strings follow the symbols: every linker does so, and nothing says how many symbols
	 * there are
	 */
	return m->symbols && m->strings > m->symbols && m->strings_bytes;
}

static int open_module(struct module *m)
{
	Elf64_Ehdr head;
	const Elf64_Phdr *dynamic = NULL;
	if (!read_at(m, 0, &head, sizeof(head)) || memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 ||
	    head.e_ident[EI_CLASS] != ELFCLASS64 || head.e_phentsize != sizeof(Elf64_Phdr) ||
	    head.e_phnum > HEADERS_MAX ||
	    !read_at(m, head.e_phoff, m->headers, head.e_phnum * sizeof(Elf64_Phdr)))
		return 0;
	m->count = head.e_phnum;
	for (unsigned i = 0; i < m->count; i++) {
		if (m->headers[i].p_type == PT_DYNAMIC)
			dynamic = &m->headers[i];
		if (m->headers[i].p_type == PT_LOAD && m->headers[i].p_offset == 0)
			m->bias = m->first->start - m->headers[i].p_vaddr;
	}
	if (!dynamic || !read_dynamic(m, dynamic))
		return 0;
	uint64_t bytes = m->strings - m->symbols;
	m->symbol_count = bytes / sizeof(Elf64_Sym);
	m->table = read_table(m, m->symbols, bytes);
	m->text = read_table(m, m->strings, m->strings_bytes);
	return m->table && m->text;
}

static int is_malloc(const struct module *m, uint64_t info)
{
	uint64_t number = ELF64_R_SYM(info), type = ELF64_R_TYPE(info);
	if ((type != SLOT && type != DATA) || number >= m->symbol_count)
		return 0;
	uint64_t at = m->table[number].st_name;
	return at < m->strings_bytes && m->strings_bytes - at >= 7 &&
	       memcmp(m->text + at, "malloc", 7) == 0;
}

/* The slot of `malloc` by one table of relocations; 0: none. */
static uint64_t slot_in(struct module *m, uint64_t vaddr, uint64_t bytes)
{
	Elf64_Rela *all = read_table(m, vaddr, bytes);
	uint64_t slot = 0;
	for (size_t i = 0; all && i < bytes / sizeof(*all) && !slot; i++)
		if (is_malloc(m, all[i].r_info)) {
			slot = m->bias + all[i].r_offset;
			m->has_one = m->table[ELF64_R_SYM(all[i].r_info)].st_shndx != SHN_UNDEF;
		}
	free(all);
	return slot;
}

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* Whom @m calls; NULL where nobody was called yet, or what stands there is no module. */
static const char *serves(struct module *m, const struct memory *memory)
{
	uint64_t skip = m->relative * sizeof(Elf64_Rela), target;
	uint64_t slot = m->calls ? slot_in(m, m->calls, m->calls_bytes) : 0;
	if (!slot && m->data && m->data_bytes > skip)
		slot = slot_in(m, m->data + skip, m->data_bytes - skip);
	if (!slot || memory_read(memory, slot, &target, sizeof(target)) < 0)
		return NULL;
	size_t at = breakdown_find(m->b, target);
	if (at == m->b->region_count || m->b->regions[at].name[0] != '/' ||
	    !(m->b->regions[at].perms & REGION_EXEC))
		return NULL;
	/* its own stub still: the loader looks for it when it is called first */
	return strcmp(m->b->regions[at].name, m->first->name) == 0
		       ? NULL
		       : base_of(m->b->regions[at].name);
}

struct provider {
	const char *name;
	char modules[160];
	unsigned count, left_out;
};

static void note(struct provider *all, size_t *count, const char *name, const char *module)
{
	size_t i = 0;
	while (i < *count && strcmp(all[i].name, name) != 0)
		i++;
	if (i == PROVIDERS_MAX)
		return;
	if (i == *count)
		all[(*count)++] = (struct provider){ .name = name };
	struct provider *p = &all[i];
	size_t len = strlen(p->modules);
	p->count++;
	if (len + strlen(module) + 3 + 24 > sizeof(p->modules))
		p->left_out++;
	else
		snprintf(p->modules + len, sizeof(p->modules) - len, "%s%s", len ? ", " : "",
			 module);
}

static void tell_providers(struct settings *to, struct provider *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		char name[96];
		size_t len = strlen(all[i].modules);
		snprintf(name, sizeof(name), "%.39s serves", all[i].name);
		if (all[i].left_out)
			snprintf(all[i].modules + len, sizeof(all[i].modules) - len, " and %u more",
				 all[i].left_out);
		settings_add(to, name, all[i].modules,
			     count > 1 ? "where their malloc leads" : "where malloc leads");
	}
}

static int number_at(const struct memory *memory, uint64_t at, void *to, size_t len)
{
	return at && memory_read(memory, at, to, len) == 0;
}

static int has_reading(const struct breakdown *b, const char *allocator)
{
	for (size_t i = 0; i < b->allocator_count; i++)
		if (strcmp(b->allocators[i].allocator, allocator) == 0)
			return 1;
	return 0;
}

static uint64_t variable(const struct module *m, const char *name)
{
	uint64_t at = heap_files_variable(m->b->files, m->b->files_of, m->first->name, name);
	return at ? m->bias + at : 0;
}

static void tell_jemalloc(const struct module *m, const struct memory *memory)
{
	static const struct {
		const char *name;
		unsigned bytes;
	} options[] = { { "narenas", 4 },        { "dirty_decay_ms", 8 },
			{ "muzzy_decay_ms", 8 }, { "background_thread", 1 },
			{ "tcache", 1 },         { "retain", 1 } };
	enum { COUNT = sizeof(options) / sizeof(options[0]) };
	char names[COUNT][64];
	const char *all[COUNT];
	uint64_t at[COUNT];
	for (size_t i = 0; i < COUNT; i++) {
		snprintf(names[i], sizeof(names[i]), "je_opt_%s", options[i].name);
		all[i] = names[i];
	}
	m->b->files->variables(m->b->files_of, m->first->name, all, COUNT, at);
	for (size_t i = 0; i < COUNT; i++) {
		char text[32];
		int64_t value = 0;
		if (!at[i] || !number_at(memory, m->bias + at[i], &value, options[i].bytes))
			continue; /* a library without its symbols says none */
		snprintf(text, sizeof(text), "%lld", (long long)value);
		settings_add(m->b->settings, names[i] + 3, text, "jemalloc, in force");
	}
}

/* Its first two fields since Go 1.19: the goal in per cent, and the limit in bytes. */
static void tell_go(const struct module *m, const struct memory *memory)
{
	uint64_t at = variable(m, "runtime.gcController");
	int32_t percent;
	int64_t limit;
	char text[32];
	if (!number_at(memory, at, &percent, sizeof(percent)) ||
	    !number_at(memory, at + 8, &limit, sizeof(limit)) || percent < -1 ||
	    percent > 10000000 || limit < 0)
		return;
	snprintf(text, sizeof(text), percent < 0 ? "off" : "%d", (int)percent);
	settings_add(m->b->settings, "GOGC", text, "Go, in force");
	snprintf(text, sizeof(text), limit == INT64_MAX ? "none" : "%lld", (long long)limit);
	settings_add(m->b->settings, "GOMEMLIMIT", text, "Go, in force");
}

/* The first of its mappings. */
static int begins_module(const struct breakdown *b, size_t i)
{
	const struct region *r = &b->regions[i];
	return r->name[0] == '/' && r->offset == 0 && r->inode && r->class >= REGION_PROGRAM_TEXT &&
	       r->class <= REGION_LIBRARY_BSS;
}

struct serving {
	const char *module, *by;
	int has_one;
};

/*
 * A program at fixed addresses stands for `malloc` with its own stub wherever its address is taken:
 * whoever is served by a module that has none and calls another's is served by that one.
 */
static const char *in_the_end(const struct serving *all, unsigned count, const char *by)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(all[i].module, by) == 0 && !all[i].has_one)
			return all[i].by;
	return by;
}

int heaps_served(struct breakdown *b, const struct memory *memory, struct err *err)
{
	struct provider *all = calloc(PROVIDERS_MAX, sizeof(*all));
	size_t count = 0;
	struct serving *found = calloc(MODULES_MAX, sizeof(*found));
	unsigned modules = 0, founds = 0;
	int jemalloc = has_reading(b, "jemalloc"), go = has_reading(b, "Go heap");
	if (!all || !found) {
		free(all);
		free(found);
		return err_set(err, -ENOMEM, "cannot tell which allocator serves whom");
	}
	for (size_t i = 0; i < b->region_count && modules < MODULES_MAX; i++) {
		struct module m = { .b = b, .first = &b->regions[i] };
		if (!begins_module(b, i))
			continue;
		modules++;
		m.fd = b->files->open(b->files_of, m.first->name);
		int program = m.first->class <= REGION_PROGRAM_BSS;
		const char *by = open_module(&m) ? serves(&m, memory) : NULL;
		if (by)
			found[founds++] = (struct serving){ base_of(m.first->name), by, m.has_one };
		if (jemalloc && (program || strstr(base_of(m.first->name), "jemalloc")))
			tell_jemalloc(&m, memory);
		if (go && program)
			tell_go(&m, memory);
		free(m.table);
		free(m.text);
		if (m.fd >= 0)
			close(m.fd);
	}
	for (unsigned i = 0; i < founds; i++)
		note(all, &count, in_the_end(found, founds, found[i].by), found[i].module);
	tell_providers(b->settings, all, count);
	free(found);
	free(all);
	return 0;
}
