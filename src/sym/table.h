/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the function symbols of a module as one sorted array; PLT stubs among them. */
#ifndef SYM_TABLE_H
#define SYM_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "sym/image.h"
#include "sym/pool.h"

/* A name, once somebody asked for it; in the table's pool. */
struct table_name {
	/* as the file spells it */
	const char *name;
	/* demangled, once somebody asked; in the caller's pool */
	const char *plain;
};

/**
 * struct table_symbol - [lo, hi) belongs to this function. Most are never asked for: their names
 * stay in the file.
 */
struct table_symbol {
	uint64_t lo, hi;
	/* NULL: not asked for */
	struct table_name *named;
	/* where its name stands in the strings */
	uint32_t text;
	/* which of the table's strings */
	uint8_t strings;
	/* the greater wins at one address; with the name's own once it is known */
	uint8_t rank;
	/* hi is a guess: up to the next symbol */
	uint8_t sizeless;
	/* it is the best of those at its address, and the first of them */
	uint8_t chosen;
};

/* A string section, of which is read what names are asked for. */
struct table_strings {
	/* the file; -1: it is in memory, at @memory */
	int fd;
	const char *memory;
	uint64_t offset, bytes;
	/* what was read last: @held bytes from @from on */
	char *window;
	size_t held;
	uint32_t from;
};
#define TABLE_STRINGS_MAX 8
#define TABLE_STUBS_MAX 4

/**
 * struct table - zero-initialised is empty and valid. The images that were read have to stay open.
 */
struct table {
	/* by lo */
	struct table_symbol *symbols;
	/* greatest hi of symbols[0..i] */
	uint64_t *reach;
	size_t count, cap;
	/* as many stood here when table_finish() last ran */
	size_t finished;
	struct pool pool;
	struct table_strings strings[TABLE_STRINGS_MAX];
	unsigned strings_count;
	/* where code is: pairs lo, hi of executable sections, sorted */
	uint64_t *code;
	size_t code_count;
	/* pairs lo, hi: of which nobody asks often */
	uint64_t stubs[2 * TABLE_STUBS_MAX];
	unsigned stubs_count;
};

void table_fini(struct table *table);
/** table_code() - learn where @main has code; before the first table_read(). */
int table_code(struct table *table, const struct image *main);
/**
 * table_read() - add the functions of .symtab or .dynsym; 0 or -ENOMEM. Damage costs the damaged
 * symbols only.
 */
int table_read(struct table *table, const struct image *image, uint32_t section_type);
/** table_finish() - sort, close open ends; again after more was added. O(n). */
int table_finish(struct table *table);
/**
 * table_plt() - add the stubs of @main as "symbol@plt" to a finished table; finish it once more
 * afterwards.
 */
int table_plt(struct table *table, const struct image *main);
/** table_is_stub() - 1: @address lies where table_plt() finds names. */
int table_is_stub(const struct table *table, uint64_t address);
/** table_find() - the innermost function over @address, NULL where there is none. O(log n). */
struct table_symbol *table_find(struct table *table, uint64_t address);
/**
 * table_name() - what it is called, lent until table_fini(); NULL where the file does not say, or
 * memory is short.
 */
struct table_name *table_name(struct table *table, struct table_symbol *symbol);

/* for plt.c */
int table_add(struct table *table, uint64_t lo, uint64_t bytes, const char *name, size_t name_len,
	      unsigned rank);
/* names are bounded: a hostile string table costs at most this much a symbol */
#define TABLE_NAME_MAX (64u << 10)

#endif
