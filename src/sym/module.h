/* SPDX-License-Identifier: Apache-2.0 */
/*
 * module.h - the inside of struct sym: one module per build id, and what its addresses resolved to.
 */
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
	/* in its bucket */
	struct module *next;
	/* what it was first asked under */
	const char *path;
	uint8_t build_id[64];
	uint8_t build_id_len;
	int opened, loaded, lines_tried, stubs_tried, stale, told_stale;
	/* whoever read it died */
	int unread;
	/* what the child counts for it, and since which rest of all */
	uint64_t held;
	uint32_t rests;
	struct table table;
	struct image main, debug, minidebug;
	struct lines *lines;
	/* by offset, open addressing */
	struct answer *answers;
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
	/* who reads files for us; begun when it is first needed */
	struct child *child;
	int in_process, children;
	/* the first of those over which one died */
	const struct module *unread;
	size_t unread_count;
	/* the first of those whose file has another build id now */
	const struct module *changed;
	size_t changed_count;
};

/**
 * sym_module() - the module of that build id, or of that path where it has none; NULL when memory
 * is short.
 */
struct module *sym_module(struct sym *sym, const char *path, const uint8_t *build_id, uint8_t len);
/** sym_ahead() - let all of @offsets be known that are not: one question for many. */
void sym_ahead(struct sym *sym, struct module *module, const uint64_t *offsets, size_t count);
/** sym_lines_ahead() - sym_module_lines() of each of @offsets, in order. */
void sym_lines_ahead(struct sym *sym, struct module *module, const uint64_t *offsets, size_t count,
		     void (*fn)(void *ctx, uint32_t at, const struct symbol *symbols,
				uint32_t count),
		     void *ctx);
/** sym_call() - give the outermost of @symbols, which a child found, the name of @known. */
void sym_call(struct sym *sym, const struct symbol *symbols, uint32_t count,
	      const struct symbol *known);
/** sym_held() - bytes that files take that were read, roughly; walks all modules. */
uint64_t sym_held(const struct sym *sym);
/** sym_module_held() - those of one module. */
uint64_t sym_module_held(const struct module *module);
/** sym_open_served() - a debug file from the servers of @sym, as servers_find(). */
int sym_open_served(struct sym *sym, const uint8_t *build_id, uint32_t len, char **found);
/**
 * sym_module_compare() - have module->stale say whether its file has another build id by now; reads
 * no more than that.
 */
void sym_module_compare(struct sym *sym, struct module *module);
/** sym_module_done() - as sym_module_rest(), wherever it was read. */
void sym_module_done(struct sym *sym, struct module *module);
/**
 * sym_module_rest() - give back files and tables of a module that is done with; answers stay, and
 * it can be asked again.
 */
void sym_module_rest(struct module *module);
uint32_t sym_module_resolve(struct sym *sym, struct module *module, uint64_t offset,
			    const struct symbol **out);

/**
 * sym_module_lines() - what debug information adds to @known, a function that stands in the
 * recording: file, line and what is inlined there. Return: as sym_resolve(); 0: nothing.
 */
uint32_t sym_module_lines(struct sym *sym, struct module *module, uint64_t offset,
			  const struct symbol *known, const struct symbol **out);

#endif
