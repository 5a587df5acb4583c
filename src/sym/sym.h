/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sym.h - addresses to functions, files, lines and inlined frames, by build id; one cache;
 * demangled C++ and Rust names.
 *
 * Files are read by a child process (sym/child.h), so every struct sym that is asked has one; a
 * thread at a time.
 */
#ifndef SYM_SYM_H
#define SYM_SYM_H

#include <stdint.h>

#include "base/err.h"
#include "model/event.h"
#include "model/prof.h"

struct sym;

struct sym_opt {
	/* != 0: files are opened below /proc/PID/root (openat2 RESOLVE_IN_ROOT) */
	uint32_t pid;
	/* 1 = never ask, even when DEBUGINFOD_URLS is set */
	int no_debuginfod;
	/* 1 = files are read by this process itself: for tests of what reads them */
	int in_process;
	/*
	 * 1 = for keeping: no lines that /usr/lib/debug and servers have under the build id, which
	 * can be had later
	 */
	int lasting;
};

struct sym *sym_new(const struct sym_opt *opt, struct err *err);
void sym_free(struct sym *sym);
void sym_freep(struct sym **sym);

/**
 * sym_resolve() - what stands at @offset (ELF virtual address, already return address - 1) of the
 * module at @path.
 * @build_id: compared with the file's; a file with another id is not used (NULL/0: unknown, not
 *   compared).
 * Return: number of symbols (>= 1; innermost first, the last is the real function), 0 where nothing
 * is known. @out is lent until sym_free(); equal strings are shared. Cost: the first address of a
 * module opens it; later ones a lookup. Regular files only. Never fails for damaged files: they
 * resolve to nothing.
 */
uint32_t sym_resolve(struct sym *sym, const char *path, const uint8_t *build_id,
		     uint8_t build_id_len, uint64_t offset, const struct symbol **out);

/**
 * sym_prepare() - the same for many @offsets of one module at once, for what sym_resolve() is asked
 * next: one question instead of many.
 */
void sym_prepare(struct sym *sym, const char *path, const uint8_t *build_id, uint8_t build_id_len,
		 const uint64_t *offsets, size_t count);

/**
 * sym_resolve_prof() - resolve every frame of @prof that has no symbols yet, or a function without
 * a line, module by module, and hand DEF_SYMBOL definitions, whose ids are frame rows of @prof, to
 * @sink (prof_symbol_sink(@prof)). @progress may be NULL; it is called while a server is waited
 * for, too.
 */
int sym_resolve_prof(struct sym *sym, struct prof *prof, struct sink *sink,
		     void (*progress)(void *ctx, uint64_t done, uint64_t total), void *ctx,
		     struct err *err);

/** sym_resolve_rows() - the same for the frame rows from @first to before @end. */
int sym_resolve_rows(struct sym *sym, struct prof *prof, uint32_t first, uint32_t end,
		     struct sink *sink, void (*progress)(void *ctx, uint64_t done, uint64_t total),
		     void *ctx, struct err *err);

/**
 * sym_rest() - give back what was read of files where that is more than @keep_bytes, roughly;
 * answers stay, and all can be asked again.
 */
void sym_rest(struct sym *sym, uint64_t keep_bytes);

/**
 * sym_demangle() - malloc'd plain name for an Itanium C++, Rust legacy or Rust v0 name; a copy of
 * @name otherwise.
 */
char *sym_demangle(const char *name);

/** sym_language() - enum symbol_language by how @name is mangled; NULL is plain. */
int sym_language(const char *name);

/**
 * sym_changed() - how many of the files that were asked for are not what they were (by build id);
 * *@path the first, lent.
 */
size_t sym_changed(const struct sym *sym, const char **path);

/**
 * sym_compare() - 1: the file at @path has another build id than @build_id by now; 0: it has not,
 * or there is none to compare. Reads no symbols and asks no servers.
 */
int sym_compare(struct sym *sym, const char *path, const uint8_t *build_id, uint8_t build_id_len);

/**
 * sym_unread() - how many files could not be read to their end: ELF and DWARF are read by a child
 * without privileges and with bounded memory, and over these it died. Their names are missing.
 * *@path the first, lent.
 */
size_t sym_unread(const struct sym *sym, const char **path);

/**
 * sym_servers_failed() - 0, or why the debuginfod servers are not asked any more (negative errno):
 * one did not answer, for 10 seconds or what DEBUGINFOD_TIMEOUT says. What only they have has no
 * names, then.
 */
int sym_servers_failed(const struct sym *sym);
/**
 * sym_servers_try() - ask the servers of DEBUGINFOD_URLS for a file that nobody has; blocks as long
 * as that. Not thread-safe. Return: 0 when one answered, negative errno with @err.
 */
int sym_servers_try(struct err *err);

#endif
