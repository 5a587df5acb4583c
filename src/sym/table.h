/* SPDX-License-Identifier: Apache-2.0 */
/* table.h - the function symbols of a module as one sorted array; PLT stubs among them. */
#ifndef SYM_TABLE_H
#define SYM_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "sym/image.h"
#include "sym/pool.h"

/** struct table_symbol - [lo, hi) belongs to this function. */
struct table_symbol {
	uint64_t lo, hi;
	const char *name;  /* as the file spells it; in the table's pool */
	const char *plain; /* demangled, once somebody asked; in the caller's pool */
	uint8_t rank;      /* the greater wins at one address */
	uint8_t sizeless;  /* hi is a guess: up to the next symbol */
};

/** struct table - zero-initialised is empty and valid. */
struct table {
	struct table_symbol *symbols; /* by lo; at most one at an address */
	uint64_t *reach;              /* greatest hi of symbols[0..i] */
	size_t count, cap;
	size_t finished; /* as many stood here when table_finish() last ran */
	struct pool pool;
	/* where code is: pairs lo, hi of executable sections, sorted */
	uint64_t *code;
	size_t code_count;
};

void table_fini(struct table *table);
/** table_code() - learn where @main has code; before the first table_read(). */
int table_code(struct table *table, const struct image *main);
/** table_read() - add the functions of .symtab or .dynsym; 0 or -ENOMEM. Damage costs the damaged symbols only. */
int table_read(struct table *table, const struct image *image, uint32_t section_type);
/** table_finish() - sort, choose among aliases, close open ends; again after more was added. O(n log n). */
int table_finish(struct table *table);
/** table_plt() - add the stubs of @main as "symbol@plt" to a finished table; finish it once more afterwards. */
int table_plt(struct table *table, const struct image *main);
/** table_find() - the innermost function over @address, NULL where there is none. O(log n). */
struct table_symbol *table_find(const struct table *table, uint64_t address);

/* for plt.c */
int table_add(struct table *table, uint64_t lo, uint64_t bytes, const char *name, size_t name_len,
	      unsigned rank);
/* names are bounded: a hostile string table costs at most this much a symbol */
#define TABLE_NAME_MAX (64u << 10)

#endif
