/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/sym.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/intern.h"
#include "sym/child.h"
#include "sym/module.h"
#include "sym/reader.h"

struct sym *sym_new(const struct sym_opt *opt, struct err *err)
{
	struct sym *sym = calloc(1, sizeof(*sym));
	if (!sym) {
		err_set(err, -ENOMEM, "cannot allocate a symboliser");
		return NULL;
	}
	if (image_root_open(&sym->root, opt ? opt->pid : 0, err) < 0) {
		free(sym);
		return NULL;
	}
	sym->search.root = &sym->root;
	sym->in_process = opt && opt->in_process;
	sym->lasting = opt && opt->lasting;
	sym->search.servers = opt && (opt->no_debuginfod || opt->lasting) ? NULL : &sym->servers;
	return sym;
}

size_t sym_changed(const struct sym *sym, const char **path)
{
	*path = sym->changed ? sym->changed->path : NULL;
	return sym->changed_count;
}

int sym_servers_failed(const struct sym *sym)
{
	return sym->servers.failed;
}

void sym_module_rest(struct module *module)
{
	lines_free(module->lines);
	module->lines = NULL;
	table_fini(&module->table);
	image_close(&module->minidebug);
	image_close(&module->debug);
	image_close(&module->main);
	module->opened = module->loaded = module->lines_tried = module->stubs_tried = 0;
}

#define DWARF_GROWS 4 /* compressed sections, and what libdw makes of them */

uint64_t sym_module_held(const struct module *module)
{
	const struct image *debug = module->debug.elf ? &module->debug : &module->main;
	struct stat st;
	uint64_t bytes = module->table.cap * (sizeof(struct table_symbol) + sizeof(uint64_t)) +
			 module->minidebug.memory_bytes;
	if (module->lines && debug->elf && debug->fd >= 0 && fstat(debug->fd, &st) == 0)
		bytes += DWARF_GROWS * (uint64_t)st.st_size;
	return bytes;
}

uint64_t sym_held(const struct sym *sym)
{
	uint64_t held = 0;
	for (size_t i = 0; i < SYM_BUCKETS; i++)
		for (const struct module *m = sym->buckets[i]; m; m = m->next)
			held += sym_module_held(m);
	return held;
}

void sym_rest(struct sym *sym, uint64_t keep_bytes)
{
	if (sym->child && child_held(sym->child) > keep_bytes)
		child_rest(sym->child, NULL);
	if (!sym->in_process || sym_held(sym) <= keep_bytes)
		return;
	for (size_t i = 0; i < SYM_BUCKETS; i++)
		for (struct module *m = sym->buckets[i]; m; m = m->next)
			sym_module_rest(m);
}

void sym_module_done(struct sym *sym, struct module *module)
{
	if (sym->child)
		child_rest(sym->child, module);
	sym_module_rest(module);
}

size_t sym_unread(const struct sym *sym, const char **path)
{
	*path = sym->unread ? sym->unread->path : NULL;
	return sym->unread_count;
}

int sym_open_served(struct sym *sym, const uint8_t *build_id, uint32_t len, char **found)
{
	return sym->search.servers && len <= 64
		       ? servers_find(sym->search.servers, build_id, (uint8_t)len, found)
		       : -ENOENT;
}

void sym_free(struct sym *sym)
{
	if (!sym)
		return;
	child_free(sym->child);
	for (size_t i = 0; i < SYM_BUCKETS; i++) {
		while (sym->buckets[i]) {
			struct module *module = sym->buckets[i];
			sym->buckets[i] = module->next;
			sym_module_rest(module);
			free(module->answers);
			free(module);
		}
	}
	image_root_close(&sym->root);
	pool_fini(&sym->pool);
	free(sym);
}

void sym_freep(struct sym **sym)
{
	sym_free(*sym);
}

struct module *sym_module(struct sym *sym, const char *path, const uint8_t *build_id, uint8_t len)
{
	if (len > sizeof(((struct module *)NULL)->build_id))
		len = 0;
	uint64_t hash = len ? hash_bytes(build_id, len, hash_seed())
			    : hash_bytes(path, strlen(path), hash_seed());
	struct module **bucket = &sym->buckets[hash % SYM_BUCKETS];
	for (struct module *m = *bucket; m; m = m->next)
		if (m->build_id_len == len &&
		    (len ? !memcmp(m->build_id, build_id, len) : !strcmp(m->path, path)))
			return m;
	struct module *module = calloc(1, sizeof(*module));
	const char *copy = pool_string(&sym->pool, path, strlen(path));
	if (!module || !copy) {
		free(module);
		return NULL;
	}
	module->path = copy;
	if (len)
		memcpy(module->build_id, build_id, len);
	module->build_id_len = len;
	module->next = *bucket;
	return *bucket = module;
}

static int has_section(const struct image *image, const char *name)
{
	return image_section(image, name, NULL) != NULL;
}

static int has_symtab(const struct image *image)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	while (image->elf && (scn = elf_nextscn(image->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_SYMTAB)
			return 1;
	return 0;
}

static void open_images(struct sym *sym, struct module *module)
{
	module->opened = 1;
	int opened = image_open_module(&module->main, &sym->root, module->path, module->build_id,
				       module->build_id_len);
	module->stale |= opened == -ESTALE;
	if (!has_section(&module->main, ".debug_info") || !has_symtab(&module->main))
		image_find_debug(&module->debug, &sym->search, &module->main, module->path,
				 module->build_id, module->build_id_len);
}

void sym_module_compare(struct sym *sym, struct module *module)
{
	struct image image;
	if (module->opened || module->stale)
		return;
	module->stale = image_open_module(&image, &sym->root, module->path, module->build_id,
					  module->build_id_len) == -ESTALE;
	image_close(&image);
}

static void note_stale(struct sym *sym, struct module *module)
{
	if (!module->stale || module->told_stale)
		return;
	module->told_stale = 1;
	if (!sym->changed)
		sym->changed = module;
	sym->changed_count++;
}

static void load(struct sym *sym, struct module *module)
{
	module->loaded = 1;
	if (!module->opened)
		open_images(sym, module);
	note_stale(sym, module);
	const struct image *symbols = has_symtab(&module->main)    ? &module->main
				      : has_symtab(&module->debug) ? &module->debug
								   : NULL;
	if (!symbols && module->main.elf &&
	    !image_open_minidebug(&module->minidebug, &module->main))
		symbols = &module->minidebug;
	struct table *table = &module->table;
	const struct image *layout = module->main.elf ? &module->main : &module->debug;
	int rc = layout->elf ? table_code(table, layout) : -ENOENT;
	if (!rc && symbols)
		rc = table_read(table, symbols, SHT_SYMTAB);
	if (!rc && module->main.elf)
		rc = table_read(table, &module->main, SHT_DYNSYM);
	if (!rc)
		rc = table_finish(table);
	if (rc < 0)
		table_fini(table);
}

/*
 * Nobody returns into a linkage stub: only who asks for the instruction that runs needs their
 * names.
 */
static void load_stubs(struct module *module)
{
	module->stubs_tried = 1;
	if (module->main.elf &&
	    (table_plt(&module->table, &module->main) < 0 || table_finish(&module->table) < 0))
		table_fini(&module->table);
}

static void load_lines(struct sym *sym, struct module *module)
{
	module->lines_tried = 1;
	if (!module->opened)
		open_images(sym, module);
	if (has_section(&module->main, ".debug_info") || has_section(&module->main, ".debug_line"))
		module->lines = lines_new(&module->main, &sym->search);
	/* what is found by its build id now will be then, too */
	if (!module->lines && module->debug.elf && !(sym->lasting && module->debug.lasting))
		module->lines = lines_new(&module->debug, &sym->search);
}

static const char *plain_name(struct sym *sym, const char *name)
{
	char *plain = name ? sym_demangle(name) : NULL;
	const char *kept = plain ? pool_string(&sym->pool, plain, strlen(plain)) : NULL;
	free(plain);
	return kept;
}

static const char *whole_path(struct sym *sym, const struct line_frame *frame)
{
	if (!frame->file)
		return NULL;
	if (frame->file[0] == '/' || !frame->dir || !frame->dir[0])
		return pool_string(&sym->pool, frame->file, strlen(frame->file));
	size_t dir = strlen(frame->dir), file = strlen(frame->file);
	char *path = malloc(dir + file + 2);
	if (!path)
		return NULL;
	memcpy(path, frame->dir, dir);
	path[dir] = '/';
	memcpy(path + dir + 1, frame->file, file + 1);
	const char *kept = pool_string(&sym->pool, path, dir + file + 1);
	free(path);
	return kept;
}

/* @frames as the answer; the outermost is called @plain, @name mangled, where these are known. */
static uint32_t put_symbols(struct sym *sym, const struct line_frame *frames, unsigned count,
			    const char *name, const char *plain, const struct symbol **out)
{
	struct symbol *symbols = count ? pool_alloc(&sym->pool, count * sizeof(*symbols)) : NULL;
	if (!symbols)
		return 0;
	for (unsigned i = 0; i < count; i++) {
		struct symbol *symbol = &symbols[i];
		symbol->inlined = i + 1 < count;
		symbol->language =
			(uint8_t)sym_language(!symbol->inlined && name ? name : frames[i].name);
		/*
		 * the symbol table knows clones and aliases by the names that linkers and other
		 * tools use
		 */
		if (!symbol->inlined && plain)
			symbol->function = plain;
		else
			symbol->function = plain_name(sym, frames[i].name);
		symbol->file = whole_path(sym, &frames[i]);
		symbol->line = frames[i].line;
	}
	if (count == 1 && !symbols[0].function && !symbols[0].file)
		return 0;
	*out = symbols;
	return count;
}

/* The recording knows the name of the function itself. */
void sym_call(struct sym *sym, const struct symbol *symbols, uint32_t count,
	      const struct symbol *known)
{
	/* they stand in our own pool */
	if (count && known->function)
		((struct symbol *)symbols)[count - 1].function =
			pool_string(&sym->pool, known->function, strlen(known->function));
}

struct one_answer {
	const struct symbol *symbols;
	uint32_t count;
};

static void keep_one(void *ctx, uint32_t at, const struct symbol *symbols, uint32_t count)
{
	(void)at;
	*(struct one_answer *)ctx = (struct one_answer){ symbols, count };
}

uint32_t sym_module_lines(struct sym *sym, struct module *module, uint64_t offset,
			  const struct symbol *known, const struct symbol **out)
{
	struct line_frame frames[LINES_DEPTH_MAX];
	if (!sym->in_process) {
		struct one_answer one = { 0 };
		sym_lines_ahead(sym, module, &offset, 1, keep_one, &one);
		sym_call(sym, one.symbols, one.count, known);
		*out = one.symbols;
		return one.count;
	}
	if (!module->lines_tried)
		load_lines(sym, module);
	unsigned count = module->lines ? lines_find(module->lines, offset, frames) : 0;
	const char *plain = NULL;
	if (count && known->function)
		plain = pool_string(&sym->pool, known->function, strlen(known->function));
	return put_symbols(sym, frames, count, NULL, plain, out);
}

static struct answer *answer_slot(struct module *module, uint64_t offset)
{
	size_t at = hash_u64(offset, 0, hash_seed()) & (module->answer_size - 1);
	while (module->answers[at].used && module->answers[at].offset != offset)
		at = (at + 1) & (module->answer_size - 1);
	return &module->answers[at];
}

static int answers_grow(struct module *module)
{
	struct answer *old = module->answers;
	size_t old_size = module->answer_size, size = old_size ? old_size * 2 : 8;
	struct answer *answers = calloc(size, sizeof(*answers));
	if (!answers)
		return -1;
	module->answers = answers;
	module->answer_size = size;
	for (size_t i = 0; i < old_size; i++)
		if (old[i].used)
			*answer_slot(module, old[i].offset) = old[i];
	free(old);
	return 0;
}

static uint32_t look_up(struct sym *sym, struct module *module, uint64_t offset,
			const struct symbol **out)
{
	struct line_frame frames[LINES_DEPTH_MAX];
	if (!module->loaded)
		load(sym, module);
	if (!module->lines_tried)
		load_lines(sym, module);
	if (!module->stubs_tried && table_is_stub(&module->table, offset))
		load_stubs(module);
	struct table_symbol *at = table_find(&module->table, offset);
	struct table_name *known = at ? table_name(&module->table, at) : NULL;
	if (known && !known->plain)
		known->plain = plain_name(sym, known->name);
	unsigned count = module->lines ? lines_find(module->lines, offset, frames) : 0;
	if (!count && known) {
		frames[0] = (struct line_frame){ 0 };
		count = 1;
	}
	return put_symbols(sym, frames, count, known ? known->name : NULL,
			   known ? known->plain : NULL, out);
}

/* ---- asking the child ------------------------------------------------------------------------ */

static struct child *child_of(struct sym *sym)
{
	if (!sym->child && sym->children < READERS_MAX) {
		sym->children++;
		sym->child = child_start(sym);
	}
	return sym->child;
}

/* The child died over it, or there is none. */
static void note_unread(struct sym *sym, struct module *module)
{
	child_free(sym->child);
	sym->child = NULL;
	module->unread = 1;
	if (!sym->unread)
		sym->unread = module;
	sym->unread_count++;
}

static void ask(struct sym *sym, struct module *module, int lines, const uint64_t *offsets,
		size_t count, child_fn fn, void *ctx)
{
	if (module->unread || !count)
		return;
	struct child *child = child_of(sym);
	if (!child || child_look_up(child, module, lines, offsets, (uint32_t)count, fn, ctx) < 0) {
		note_unread(sym, module);
		return;
	}
	/* who asks for lines knows the names: nothing is left out */
	if (!lines)
		note_stale(sym, module);
}

int sym_compare(struct sym *sym, const char *path, const uint8_t *build_id, uint8_t build_id_len)
{
	struct module *module = build_id_len ? sym_module(sym, path, build_id, build_id_len) : NULL;
	if (!module || module->unread)
		return 0;
	if (sym->in_process) {
		sym_module_compare(sym, module);
	} else if (!module->stale) {
		struct child *child = child_of(sym);
		if (!child || child_compare(child, module) < 0)
			note_unread(sym, module);
	}
	return module->stale;
}

struct asked {
	struct module *module;
	const uint64_t *offsets;
};

static void keep_answer(void *ctx, uint32_t at, const struct symbol *symbols, uint32_t count)
{
	struct asked *asked = ctx;
	struct answer *answer = answer_slot(asked->module, asked->offsets[at]);
	asked->module->answer_count += !answer->used;
	*answer = (struct answer){ asked->offsets[at], symbols, count, 1 };
}

void sym_ahead(struct sym *sym, struct module *module, const uint64_t *offsets, size_t count)
{
	uint64_t fresh[CHILD_BATCH];
	struct asked asked = { module, fresh };
	for (size_t at = 0; !sym->in_process && at < count;) {
		size_t n = 0;
		while ((module->answer_count + CHILD_BATCH) * 2 >= module->answer_size &&
		       (module->answer_count + (count - at)) * 2 >= module->answer_size)
			if (answers_grow(module) < 0)
				return;
		for (; at < count && n < CHILD_BATCH; at++)
			if (!answer_slot(module, offsets[at])->used)
				fresh[n++] = offsets[at];
		ask(sym, module, 0, fresh, n, keep_answer, &asked);
	}
}

void sym_lines_ahead(struct sym *sym, struct module *module, const uint64_t *offsets, size_t count,
		     void (*fn)(void *ctx, uint32_t at, const struct symbol *symbols,
				uint32_t count),
		     void *ctx)
{
	ask(sym, module, 1, offsets, count < CHILD_BATCH ? count : CHILD_BATCH, fn, ctx);
}

uint32_t sym_module_resolve(struct sym *sym, struct module *module, uint64_t offset,
			    const struct symbol **out)
{
	*out = NULL;
	if (module->answer_count * 2 >= module->answer_size && answers_grow(module) < 0)
		return 0;
	struct answer *answer = answer_slot(module, offset);
	if (!answer->used && !sym->in_process) {
		sym_ahead(sym, module, &offset, 1);
		answer = answer_slot(module, offset);
	}
	if (!answer->used) {
		answer->count =
			sym->in_process ? look_up(sym, module, offset, &answer->symbols) : 0;
		answer->offset = offset;
		answer->used = 1;
		module->answer_count++;
	}
	*out = answer->symbols;
	return answer->count;
}

uint32_t sym_resolve(struct sym *sym, const char *path, const uint8_t *build_id,
		     uint8_t build_id_len, uint64_t offset, const struct symbol **out)
{
	*out = NULL;
	if (!path)
		path = "";
	struct module *module = sym_module(sym, path, build_id, build_id ? build_id_len : 0);
	return module ? sym_module_resolve(sym, module, offset, out) : 0;
}

void sym_prepare(struct sym *sym, const char *path, const uint8_t *build_id, uint8_t build_id_len,
		 const uint64_t *offsets, size_t count)
{
	struct module *module =
		sym_module(sym, path ? path : "", build_id, build_id ? build_id_len : 0);
	if (module)
		sym_ahead(sym, module, offsets, count);
}
