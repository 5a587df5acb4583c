/* SPDX-License-Identifier: Apache-2.0 */
/*
 * functions.h - the functions of one file by all of their names, and where in a function a probe
 * costs least.
 */
#ifndef SYM_FUNCTIONS_H
#define SYM_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "sym/usdt.h"

struct elf_files;

/**
 * struct functions - one file, opened; its names can be walked as often as wanted. One thread. What
 * it holds is read by the reader of sym/files.h, and what is said here about it is missing where
 * that dies.
 */
struct functions;

/** Where a file's names stand: what is said of one in which an allocator is not found. */
enum functions_names {
	FUNCTIONS_STRIPPED = 0,  /* no name of any function is left */
	FUNCTIONS_DYNAMIC = 1,   /* those only that others can link to */
	FUNCTIONS_MINIDEBUG = 2, /* .gnu_debugdata: those of functions, too */
	FUNCTIONS_ALL = 3,       /* .symtab, its own or that of a debug file */
};

/**
 * functions_open() - the file that the process of @files has mapped as @path, deleted ones and
 * those of containers, too; its debug files with it. The one before it is to be freed first.
 * @build_id as in sym_resolve(). Return: NULL with @err: -ENOENT, -ESTALE,
 * -EBADMSG, -EPIPE (its reader died over it).
 */
struct functions *functions_open(struct elf_files *files, const char *path, const uint8_t *build_id,
				 uint8_t build_id_len, struct err *err);
void functions_free(struct functions *functions);
void functions_freep(struct functions **functions);
enum functions_names functions_names(const struct functions *functions);
/**
 * functions_is_static() - 1: a program without an interpreter, whose allocator can stand in it
 * alone.
 */
int functions_is_static(const struct functions *functions);

struct function {
	/* lent for the call */
	const char *name;
	uint64_t vaddr, bytes;
	/* in .dynsym, and what others bind to */
	int exported;
};
/**
 * functions_each() - every name of every function; several of one address come one by one. Nonzero
 * of @fn ends and is returned; -EPIPE: its reader died.
 */
int functions_each(struct functions *functions,
		   int (*fn)(void *ctx, const struct function *function), void *ctx);

/**
 * functions_stub() - the function that the PLT stub at @vaddr leads to, which may be another
 * module's; NULL where there is no stub. Lent until the next call.
 */
const char *functions_stub(struct functions *functions, uint64_t vaddr);

/**
 * functions_usdts() - every static probe that the file announces, at its virtual address. Nonzero
 * of @fn ends and is returned.
 */
int functions_usdts(struct functions *functions, int (*fn)(void *ctx, const struct usdt *usdt),
		    void *ctx);
/** functions_variables() - the virtual addresses of variables, 0 = it has none. 0, or -EPIPE. */
int functions_variables(struct functions *functions, const char *const names[], size_t count,
			uint64_t at[]);
/** functions_variable() - the virtual address of variable @name, 0 = it has none. */
uint64_t functions_variable(struct functions *functions, const char *name);
/**
 * functions_vaddr() - the virtual address of what stands at @offset of the file, in code; -ENOENT.
 */
int64_t functions_vaddr(const struct functions *functions, uint64_t offset);
/**
 * functions_offset() - the place in the file of virtual address @vaddr; -ENOENT where none is
 * mapped from the file there.
 */
int64_t functions_offset(const struct functions *functions, uint64_t vaddr);
/** functions_code() - copy up to @bytes of code at @vaddr; the number copied. */
size_t functions_code(const struct functions *functions, uint64_t vaddr, void *to, size_t bytes);

/*
 * What a probe on an instruction costs: the kernel emulates it, steps over a copy of it, or writes
 * a call in its place.
 */
enum site_kind { SITE_EMULATED, SITE_STEPPED, SITE_NOP5 };

#define SITE_EDGES_MAX 64

/** struct site - where to put a probe on a function, and whom it calls. */
struct site {
	/* from the entry */
	uint64_t offset;
	enum site_kind kind;
	/* from the place on; 0: nothing more */
	int64_t leads_to[2];
	/* targets of direct calls and jumps out of it, as virtual addresses */
	uint64_t edges[SITE_EDGES_MAX];
	uint32_t edge_count;
	/* its first instruction, endbr64 apart, is a jump to edges[0] */
	int jumps_at_once;
};

/**
 * site_choose() - the cheapest place of the function of @bytes code bytes at @vaddr where the
 * registers of @wanted (bit n: enum wire_sample_reg) still hold what its caller put there, and rsp
 * is as at entry. The entry where there is no other. A nop of 5 bytes is never chosen where there
 * is another: from Linux 6.18 on it is rewritten so that forked children die. Pure.
 */
void site_choose(const uint8_t *code, size_t bytes, uint64_t vaddr, uint32_t wanted,
		 struct site *site);

/**
 * site_edges() - whom the code at @vaddr calls and jumps to outside of its @bytes, by what can be
 * reached from its first instruction: for a function whose end is not known. At most
 * SITE_EDGES_BYTES of it are looked at. Pure. Return: how many of @edges, at most SITE_EDGES_MAX.
 */
uint32_t site_edges(const uint8_t *code, size_t bytes, uint64_t vaddr,
		    uint64_t edges[SITE_EDGES_MAX]);
#define SITE_EDGES_BYTES 2048

#endif
