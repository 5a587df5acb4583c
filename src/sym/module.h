/* SPDX-License-Identifier: Apache-2.0 */
/* module.h - the inside of struct sym: one module per build id, and what its addresses resolved to. */
#ifndef SYM_MODULE_H
#define SYM_MODULE_H

#include "sym/image.h"
#include "sym/lines.h"
#include "sym/pool.h"
#include "sym/servers.h"
#include "sym/sym.h"
#include "sym/table.h"

struct answer {
	uint64_t offset;
	const struct symbol *symbols;
	uint32_t count;
	uint32_t used;
};

struct module {
	struct module *next; /* in its bucket */
	const char *path;    /* what it was first asked under */
	uint8_t build_id[64];
	uint8_t build_id_len;
	int opened, loaded, lines_tried, stubs_tried, stale, told_stale;
	struct table table;
	struct image main, debug, minidebug;
	struct lines *lines;
	struct answer *answers; /* by offset, open addressing */
	size_t answer_count, answer_size;
};

#define SYM_BUCKETS 16384

struct sym {
	struct image_root root;
	struct debug_search search;
	struct servers servers;
	int lasting;
	struct pool pool;
	struct module *buckets[SYM_BUCKETS];
	const struct module *changed; /* the first of those whose file has another build id now */
	size_t changed_count;
};

/** sym_module() - the module of that build id, or of that path where it has none; NULL when memory is short. */
struct module *sym_module(struct sym *sym, const char *path, const uint8_t *build_id, uint8_t len);
/** sym_module_rest() - give back files and tables of a module that is done with; answers stay, and it can be asked again. */
void sym_module_rest(struct module *module);
uint32_t sym_module_resolve(struct sym *sym, struct module *module, uint64_t offset,
			    const struct symbol **out);

/**
 * sym_module_lines() - what debug information adds to @known, a function that stands in the recording: file, line and what is
 * inlined there. Return: as sym_resolve(); 0: nothing.
 */
uint32_t sym_module_lines(struct sym *sym, struct module *module, uint64_t offset,
			  const struct symbol *known, const struct symbol **out);

#endif
