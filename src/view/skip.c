/* SPDX-License-Identifier: Apache-2.0 */
/*
 * skip.c - who asked? Allocation wrappers, the language's standard library and what stands above
 * main are told by their names, and by the patterns that the user gave.
 */
#include <ctype.h>
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "view/impl.h"

struct view_skip {
	int off;
	regex_t *regexes;
	size_t count;
};

static int starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

static int is_one_of(const char *text, size_t len, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (strlen(words[i]) == len && memcmp(words[i], text, len) == 0)
			return 1;
	return 0;
}

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * A wrapper is called as what it wraps, with a library's prefix before and a variant behind:
 * "g_try_malloc0", "zmalloc_usable". Only what is known on either side counts, so that
 * "alloc_nodes" or "leak_malloc_here" are somebody's own code.
 */
static const char *const stems[] = { "reallocarray", "posix_memalign", "aligned_alloc", "memalign",
				     "realloc",      "malloc",         "calloc",        "zalloc",
				     "valloc",       "strdup",         "strndup",       "memdup",
				     "asprintf",     "alloc" };
static const char *const prefixes[] = {
	"",
	"x",
	"z",
	"e",
	"s",
	"k",
	"t",
	"ztry",
	"my",
	"my_",
	"do_x",
	"safe",
	"safe_",
	"safesys",
	"ck_",
	"check_",
	"checked_",
	"must_",
	"try_",
	"mem_",
	"util_",
	"g_",
	"g_try_",
	"g_slice_",
	"je_",
	"tc_",
	"mi_",
	"mi_heap_",
	"rte_",
	"av_",
	"uv_",
	"uv__",
	"ngx_",
	"apr_",
	"apr_p",
	"curl_",
	"curl_dbg_",
	"crypto_",
	"openssl_",
	"pymem_",
	"pymem_raw",
	"pyobject_",
	"pyobject_gc_",
	"pymalloc_",
	"perl_safesys",
	"ruby_",
	"ruby_x",
	"objspace_x",
	"sqlite3",
	"sqlite3_",
	"sqlite3db",
	"sqlite3mem",
	"xml",
	"xml_",
	"luam_",
	"zend_",
	"zend_mm_",
	"qemu_",
	"git_",
	"git__",
	"hb_",
	"pg_",
	"sdl_",
	"talloc_",
	"cairo_",
	"evutil_",
	"event_mm_",
	"jsonp_",
	"default_bz",
	"zs",
	"zstd_custom",
	"zstd_custom",
	"lzma_",
	"ares_",
	"nghttp2_mem_",
	"v",
	"rpl_",
};
/* "alloc" alone says less: these libraries call their wrappers so. */
static const char *const alloc_prefixes[] = {
	"x",         "ngx_",     "ngx_p",           "ngx_pc",   "apr_p",    "p",
	"pymalloc_", "g_slice_", "pyobject_gc_",    "pcache1",  "l_",       "zend_mm_",
	"lzma_",     "yy",       "memorycontext",   "allocset", "aligned",  "a",
	"pymem_",    "mem_",     "memorycontextmc", "talloc_",  "__rdl_",   "__rg_",
	"rdl_",      "rg_",      "rust_",           "opendir_", "pcre2_",   "gcry_",
	"pool_",     "obstack_", "sqlite3parser",   "gc",       "sdl_simd", "sdl_"
};
static const char *const suffixes[] = { "",
					"0",
					"1",
					"2",
					"64",
					"n",
					"z",
					"_n",
					"nn",
					"zero",
					"raw",
					"rawnn",
					"_raw",
					"_usable",
					"_array",
					"huge",
					"_usable_internal",
					"_internal",
					"_extended",
					"_aligned",
					"_impl",
					"_0",
					"_printf",
					"_vprintf",
					"_real",
					"_atomic",
					"_nofail",
					"_or_die",
					"_safe",
					"withretry",
					"zeroed",
					"_zeroed",
					"_generic",
					"_n0",
					"_u",
					"_with",
					"_slow",
					"extended",
					"aligned",
					"_gently",
					"_finish" };
/* Those whose names do not say it. */
static const char *const known[] = {
	"sqlite3vdbememgrow",
	"sqlite3vdbememclearandresize",
	"sqlite3btreemalloc",
	"g_slice_alloc",
	"g_malloc_n",
	"g_array_maybe_expand",
	"g_ptr_array_maybe_expand",
	"g_string_maybe_expand",
	"allocateheap",
	"reallocateheap",
	"ngx_create_pool",
	"allocate_buffer",
	"grow_pod",
	"mallocforgrow",
	"startnewslab",
	"allocsetcontextcreateinternal",
	"memorycontextcreate",
	"new_arena",
	"strbuf_grow",
	"gen_alloc",
	"exnew",
	"newhe",
	"nrealloc",
	"ast_mem_alloc",
};

/*
 * Behind the last "::" that is not inside of template arguments, up to parameters or a compiler's
 * ".part.0".
 */
static size_t last_word(const char *name, const char **word, const char **scope_end)
{
	const char *at = name, *begin = name, *scope = NULL;
	size_t depth = 0;
	for (; *at; at++) {
		if (*at == '<') {
			depth++;
		} else if (*at == '>' && depth) {
			depth--;
		} else if (depth == 0 && at[0] == ':' && at[1] == ':') {
			scope = at;
			begin = at + 2;
			at++;
		} else if (depth == 0 && *at == ' ') {
			begin = at + 1; /* a return type */
		} else if (depth == 0 && (*at == '(' || *at == '.' || *at == '@')) {
			break;
		}
	}
	const char *end = begin + strcspn(begin, "<(.@[");
	*word = begin;
	*scope_end = scope;
	return (size_t)(end - begin);
}

static int is_helper(const char *name)
{
	const char *word, *scope;
	char low[64];
	size_t len = last_word(name, &word, &scope);
	/* such names are the C library's and the compiler's own */
	if (name[0] == '_' && (name[1] == '_' || (name[1] >= 'A' && name[1] <= 'Z')) && !scope &&
	    strcasestr(name, "alloc"))
		return 1;
	while (len && *word == '_')
		word++, len--;
	if (len == 0 || len >= sizeof(low))
		return 0;
	for (size_t i = 0; i < len; i++)
		low[i] = (char)tolower((unsigned char)word[i]);
	low[len] = '\0';
	if (is_one_of(low, len, known, ARRAY_LEN(known)))
		return 1;
	/* "Allocator::allocate", "BumpPtrAllocatorImpl::Allocate" */
	if (scope && starts(low, "allocate")) {
		const char *class = memmem(name, (size_t)(scope - name), "Alloc", 5);
		return class != NULL;
	}
	for (size_t i = 0; i < ARRAY_LEN(stems); i++) {
		const char *stem = strstr(low, stems[i]);
		if (!stem)
			continue;
		size_t before = (size_t)(stem - low), stem_len = strlen(stems[i]);
		int only_alloc = stem_len == 5;
		const char *const *front = only_alloc ? alloc_prefixes : prefixes;
		size_t fronts = only_alloc ? ARRAY_LEN(alloc_prefixes) : ARRAY_LEN(prefixes);
		if (is_one_of(low, before, front, fronts) &&
		    is_one_of(stem + stem_len, len - before - stem_len, suffixes,
			      ARRAY_LEN(suffixes)))
			return 1;
	}
	return 0;
}

/**
 * rust_type() - behind what says how a type is referred to: "&mut dyn core::fmt::Write" is
 * core::fmt::Write.
 */
static const char *rust_type(const char *at)
{
	static const char *const marks[] = {
		"&", "*const ", "*mut ", "mut ", "dyn ", "[", "(", "<"
	};
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		if (starts(at, marks[i])) {
			at += strlen(marks[i]);
			i = (size_t)-1;
		}
	}
	return at;
}

/**
 * is_rust_standard() - "<u64 as core::fmt::Display>::fmt" or "<alloc::vec::Vec<T> as ..>": the
 * standard library's trait for a type that is not the program's, whose types have a path; or a type
 * of the standard library.
 */
static int is_rust_standard(const char *name)
{
	static const char *const crates[] = { "core::", "alloc::", "std::", "hashbrown::" };
	const char *type = rust_type(name + 1), *as = strstr(name, " as ");
	for (size_t i = 0; i < ARRAY_LEN(crates); i++)
		if (starts(type, crates[i]) ||
		    (as && starts(as + 4, crates[i]) &&
		     !memmem(type, as > type ? (size_t)(as - type) : 0, "::", 2)))
			return 1;
	return 0;
}

enum view_role view_role(const char *name)
{
	static const char *const start[] = {
		"_start",  "__libc_start_", "start_thread",       "clone3",
		"__clone", "__GI___clone",  "std::rt::lang_start"
	};
	static const char *const standard[] = {
		"std::",   "__gnu_cxx::", "core::",      "alloc::",      "<alloc::",
		"<core::", "<std::",      "void std::",  "hashbrown::",  "operator new",
		"__cxa_",  "__rust_",     "<dyn core::", "<dyn alloc::", "<dyn std::"
	};
	if (!name)
		return VIEW_OWN;
	for (size_t i = 0; i < ARRAY_LEN(start); i++)
		if (starts(name, start[i]))
			return VIEW_START;
	if (strstr(name, "__rust_begin_short_backtrace"))
		return VIEW_START; /* in std::sys, whatever the version */
	if (name[0] == '<' && is_rust_standard(name))
		return VIEW_STANDARD;
	for (size_t i = 0; i < ARRAY_LEN(standard); i++)
		if (starts(name, standard[i]))
			return VIEW_STANDARD;
	/* Template functions carry a return type: look behind it. */
	const char *std_name = strstr(name, " std::");
	if (std_name && !memchr(name, '(', (size_t)(std_name - name)) &&
	    !memchr(name, '<', (size_t)(std_name - name)))
		return VIEW_STANDARD;
	const char *new_name = strstr(name, "::operator new");
	if (new_name && view_is_wrapper(new_name + 2))
		return VIEW_HELPER; /* of a class that has its own */
	return is_helper(name) ? VIEW_HELPER : VIEW_OWN;
}

/* ---- what is asked for ----------------------------------------------------------------------- */

struct view_skip *view_skip_new(int off, const char *const *regexes, size_t count, struct err *err)
{
	CLEANUP(view_skip_freep) struct view_skip *skip = calloc(1, sizeof(*skip));
	if (skip)
		skip->regexes = calloc(count ? count : 1, sizeof(*skip->regexes));
	if (!skip || !skip->regexes) {
		err_set(err, -ENOMEM, "cannot keep patterns");
		return NULL;
	}
	skip->off = off;
	for (; skip->count < count; skip->count++) {
		char why[128];
		regex_t *re = &skip->regexes[skip->count];
		int rc = regcomp(re, regexes[skip->count], REG_EXTENDED | REG_NOSUB);
		if (rc == 0)
			continue;
		regerror(rc, re, why, sizeof(why));
		err_set(err, -EINVAL, "bad pattern '%s': %s", regexes[skip->count], why);
		return NULL;
	}
	return STEAL(skip);
}

void view_skip_freep(struct view_skip **skip)
{
	for (size_t i = 0; *skip && i < (*skip)->count; i++)
		regfree(&(*skip)->regexes[i]);
	if (*skip)
		free((*skip)->regexes);
	free(*skip);
	*skip = NULL;
}

enum view_role view_skip_role(const struct view_skip *skip, const char *function)
{
	for (size_t i = 0; function && skip && i < skip->count; i++)
		if (regexec(&skip->regexes[i], function, 0, NULL, 0) == 0)
			return VIEW_HELPER;
	enum view_role role = view_role(function);
	return skip && skip->off && role != VIEW_START ? VIEW_OWN : role;
}

/* ---- by frame -------------------------------------------------------------------------------- */

#define UNKNOWN 0xff

int view_owns_init(struct view_owns *owns, const struct prof *prof, const struct view_skip *skip)
{
	uint32_t frames = prof_frame_count(prof);
	*owns = (struct view_owns){ .prof = prof, .skip = skip };
	owns->first = malloc(frames ? frames : 1);
	if (!owns->first)
		return -ENOMEM;
	memset(owns->first, UNKNOWN, frames);
	return 0;
}

void view_owns_fini(struct view_owns *owns)
{
	free(owns->first);
	owns->first = NULL;
}

uint32_t view_owns_first(struct view_owns *owns, struct frame_id id)
{
	const struct prof_frame *f = prof_frame(owns->prof, id);
	uint8_t *known_first = &owns->first[id.v];
	uint32_t i = 0;
	if (*known_first != UNKNOWN && *known_first != UNKNOWN - 1)
		return *known_first;
	while (i < f->symbol_count) {
		enum view_role role = view_skip_role(owns->skip, f->symbols[i].function);
		if (role == VIEW_OWN || role == VIEW_START)
			break;
		i++;
	}
	/* as many as that are counted each time */
	*known_first = i < UNKNOWN - 1 ? (uint8_t)i : UNKNOWN - 1;
	return i;
}

int view_owns_stack(struct view_owns *owns, struct stack_id stack, struct frame_id *frame,
		    uint32_t *entry)
{
	struct stack_id at = view_canonical(owns->prof, stack);
	const struct prof_stack *s = prof_stack(owns->prof, at);
	if (at.v == 0 || s->stop)
		return 0;
	*frame = s->frame;
	*entry = view_frame_hidden(prof_frame(owns->prof, s->frame));
	if (*entry >= view_frame_count(prof_frame(owns->prof, s->frame)))
		*entry = 0;
	for (; at.v && !s->stop; at = s->parent, s = prof_stack(owns->prof, at)) {
		const struct prof_frame *f = prof_frame(owns->prof, s->frame);
		uint32_t first = view_owns_first(owns, s->frame);
		if (first >= view_frame_count(f))
			continue;
		if (first < f->symbol_count && view_role(f->symbols[first].function) == VIEW_START)
			break; /* nobody's own code: the innermost says most */
		*frame = s->frame;
		*entry = first;
		break;
	}
	return 1;
}
