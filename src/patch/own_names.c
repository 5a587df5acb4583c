/* SPDX-License-Identifier: Apache-2.0 */
/*
 * own_names.c - the public functions of the allocators that programs carry. Sources: jemalloc(3),
 * the headers of tcmalloc (gperftools/tcmalloc.h) and mimalloc (mimalloc.h 1.7 to 3.6), Firefox's
 * mozmemory.h, malloc(3), and the C++ ABI's names. An executable that has a malloc() of its own may
 * have a strdup() that goes another way to the same heap (Firefox has). What releases many blocks
 * at once (mi_heap_destroy(), jemalloc's arenas) names none of them and is not there; nor is what
 * takes more than four arguments (mi_recalloc_aligned_at()): what those call counts.
 */
#include <string.h>

#include "patch/own.h"

#define PLAIN                                                                            \
	(OWN_BIT(OWN_STANDARD) | OWN_BIT(OWN_JE) | OWN_BIT(OWN_RJEM) | OWN_BIT(OWN_TC) | \
	 OWN_BIT(OWN_MI))
#define JEMALLOC (OWN_BIT(OWN_EXTENDED) | OWN_BIT(OWN_JE) | OWN_BIT(OWN_RJEM))
#define _ OWN_NONE

const char *const own_titles[OWN_FAMILIES] = {
	[OWN_STANDARD] = "malloc",
	[OWN_EXTENDED] = "jemalloc (mallocx)",
	[OWN_JE] = "jemalloc (je_)",
	[OWN_RJEM] = "jemalloc (_rjem_)",
	[OWN_TC] = "tcmalloc (tc_)",
	[OWN_MI] = "mimalloc (mi_)",
	[OWN_MOZ] = "mozjemalloc (moz_arena_)",
	[OWN_OPERATORS] = "operator new",
};

const char *const own_prefix[OWN_FAMILIES] = {
	[OWN_STANDARD] = "", [OWN_EXTENDED] = "", [OWN_JE] = "je_",   [OWN_RJEM] = "_rjem_",
	[OWN_TC] = "tc_",    [OWN_MI] = "mi_",    [OWN_MOZ] = "moz_", [OWN_OPERATORS] = "",
};

/* In the order of strcmp(). The arguments: block, size, count, alignment. */
static const struct own_name names[] = {
	/* clang-format off */
	{ "_ZdaPv", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdaPvRKSt9nothrow_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdaPvSt11align_val_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdaPvSt11align_val_tRKSt9nothrow_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdaPvm", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdaPvmSt11align_val_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdlPv", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdlPvRKSt9nothrow_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdlPvSt11align_val_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdlPvSt11align_val_tRKSt9nothrow_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdlPvm", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZdlPvmSt11align_val_t", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_Znam", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZnamRKSt9nothrow_t", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZnamSt11align_val_t", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZnamSt11align_val_tRKSt9nothrow_t", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_Znwm", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZnwmRKSt9nothrow_t", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZnwmSt11align_val_t", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "_ZnwmSt11align_val_tRKSt9nothrow_t", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_OPERATORS), 1 },
	{ "aligned_alloc", { OWN_OBTAIN, _, 1, _, 0 }, PLAIN, 0 },
	{ "aligned_recalloc", { OWN_RESIZE, 0, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "arena_calloc", { OWN_OBTAIN, _, 2, 1, _ }, OWN_BIT(OWN_MOZ), 1 },
	{ "arena_free", { OWN_RELEASE, 1, _, _, _ }, OWN_BIT(OWN_MOZ), 1 },
	{ "arena_malloc", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MOZ), 1 },
	{ "arena_memalign", { OWN_OBTAIN, _, 2, _, 1 }, OWN_BIT(OWN_MOZ), 1 },
	{ "arena_realloc", { OWN_RESIZE, 1, 2, _, _ }, OWN_BIT(OWN_MOZ), 1 },
	{ "calloc", { OWN_OBTAIN, _, 1, 0, _ }, PLAIN, 1 },
	{ "calloc_aligned", { OWN_OBTAIN, _, 1, 0, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "calloc_aligned_at", { OWN_OBTAIN, _, 1, 0, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "cfree", { OWN_RELEASE, 0, _, _, _ }, PLAIN, 0 },
	{ "dallocx", { OWN_RELEASE, 0, _, _, _ }, JEMALLOC, 1 },
	{ "delete", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "delete_aligned", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "delete_aligned_nothrow", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "delete_nothrow", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "delete_sized", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "delete_sized_aligned", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "deletearray", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "deletearray_aligned", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "deletearray_aligned_nothrow", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "deletearray_nothrow", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "deletearray_sized", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "deletearray_sized_aligned", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "expand", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "free", { OWN_RELEASE, 0, _, _, _ }, PLAIN, 1 },
	{ "free_aligned", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "free_aligned_sized", { OWN_RELEASE, 0, _, _, _ }, PLAIN, 1 },
	{ "free_size", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "free_size_aligned", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "free_sized", { OWN_RELEASE, 0, _, _, _ }, PLAIN, 1 },
	{ "free_small", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "free_small_local", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "free_small_local_nonnull", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "free_small_nonnull", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_alloc_new", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_alloc_new_n", { OWN_OBTAIN, _, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_calloc", { OWN_OBTAIN, _, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_calloc_aligned", { OWN_OBTAIN, _, 2, 1, 3 }, OWN_BIT(OWN_MI), 0 },
	{ "heap_malloc", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_malloc_aligned", { OWN_OBTAIN, _, 1, _, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "heap_malloc_aligned_at", { OWN_OBTAIN, _, 1, _, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "heap_malloc_small", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_mallocn", { OWN_OBTAIN, _, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_realloc", { OWN_RESIZE, 1, 2, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_realloc_aligned", { OWN_RESIZE, 1, 2, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_reallocf", { OWN_RESIZE_OR_FREE, 1, 2, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_reallocn", { OWN_RESIZE, 1, 3, 2, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_realpath", { OWN_OBTAIN_TEXT, _, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_recalloc", { OWN_RESIZE, 1, 3, 2, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_rezalloc", { OWN_RESIZE, 1, 2, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_rezalloc_aligned", { OWN_RESIZE, 1, 2, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_strdup", { OWN_OBTAIN_TEXT, _, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_strndup", { OWN_OBTAIN_TEXT, _, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_zalloc", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "heap_zalloc_aligned", { OWN_OBTAIN, _, 1, _, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "heap_zalloc_aligned_at", { OWN_OBTAIN, _, 1, _, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "heap_zalloc_small", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "malloc", { OWN_OBTAIN, _, 0, _, _ }, PLAIN, 1 },
	{ "malloc_aligned", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_MI), 0 },
	{ "malloc_aligned_at", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_MI), 0 },
	{ "malloc_skip_new_handler", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "malloc_small", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "mallocn", { OWN_OBTAIN, _, 1, 0, _ }, OWN_BIT(OWN_MI), 0 },
	{ "mallocx", { OWN_OBTAIN, _, 0, _, _ }, JEMALLOC, 1 },
	{ "memalign", { OWN_OBTAIN, _, 1, _, 0 }, PLAIN, 1 },
	{ "new", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_TC) | OWN_BIT(OWN_MI), 0 },
	{ "new_aligned", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_TC) | OWN_BIT(OWN_MI), 0 },
	{ "new_aligned_nothrow", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_TC) | OWN_BIT(OWN_MI), 0 },
	{ "new_n", { OWN_OBTAIN, _, 1, 0, _ }, OWN_BIT(OWN_MI), 0 },
	{ "new_nothrow", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_TC) | OWN_BIT(OWN_MI), 0 },
	{ "new_realloc", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "new_reallocn", { OWN_RESIZE, 0, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "newarray", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "newarray_aligned", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_TC), 0 },
	{ "newarray_aligned_nothrow", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_TC), 0 },
	{ "newarray_nothrow", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_TC), 0 },
	{ "posix_memalign", { OWN_OBTAIN_TO, 0, 2, _, 1 }, PLAIN, 1 },
	{ "pvalloc", { OWN_OBTAIN, _, 0, _, _ }, PLAIN, 0 },
	{ "rallocx", { OWN_RESIZE, 0, 1, _, _ }, JEMALLOC, 1 },
	{ "realloc", { OWN_RESIZE, 0, 1, _, _ }, PLAIN, 1 },
	{ "realloc_aligned", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "realloc_aligned_at", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "reallocarray", { OWN_RESIZE, 0, 2, 1, _ }, PLAIN, 0 },
	{ "reallocf", { OWN_RESIZE_OR_FREE, 0, 1, _, _ }, OWN_BIT(OWN_STANDARD) | OWN_BIT(OWN_MI), 0 },
	{ "reallocn", { OWN_RESIZE, 0, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "realpath", { OWN_OBTAIN_TEXT, _, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "recalloc", { OWN_RESIZE, 0, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "recalloc_aligned", { OWN_RESIZE, 0, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "rezalloc", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "rezalloc_aligned", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "rezalloc_aligned_at", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "sdallocx", { OWN_RELEASE, 0, _, _, _ }, JEMALLOC, 1 },
	{ "strdup", { OWN_OBTAIN_TEXT, _, _, _, _ }, OWN_BIT(OWN_STANDARD) | OWN_BIT(OWN_MI), 0 },
	{ "strndup", { OWN_OBTAIN_TEXT, _, _, _, _ }, OWN_BIT(OWN_STANDARD) | OWN_BIT(OWN_MI), 0 },
	{ "theap_alloc_new", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_alloc_new_n", { OWN_OBTAIN, _, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_alloc_new_nothrow", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_calloc", { OWN_OBTAIN, _, 2, 1, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_malloc", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_malloc_aligned", { OWN_OBTAIN, _, 1, _, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "theap_malloc_small", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_realloc", { OWN_RESIZE, 1, 2, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_rezalloc", { OWN_RESIZE, 1, 2, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_zalloc", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "theap_zalloc_aligned", { OWN_OBTAIN, _, 1, _, 2 }, OWN_BIT(OWN_MI), 0 },
	{ "theap_zalloc_small", { OWN_OBTAIN, _, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "ucalloc", { OWN_OBTAIN, _, 1, 0, _ }, OWN_BIT(OWN_MI), 0 },
	{ "ufree", { OWN_RELEASE, 0, _, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "umalloc", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "umalloc_aligned", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_MI), 0 },
	{ "umalloc_small", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "urealloc", { OWN_RESIZE, 0, 1, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "uzalloc_aligned", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_MI), 0 },
	{ "uzalloc_small", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "valloc", { OWN_OBTAIN, _, 0, _, _ }, PLAIN, 0 },
	{ "xallocx", { OWN_RESIZE_IN_PLACE, 0, 1, _, _ }, JEMALLOC, 1 },
	{ "zalloc", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_MI), 0 },
	{ "zalloc_aligned", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_MI), 0 },
	{ "zalloc_aligned_at", { OWN_OBTAIN, _, 0, _, 1 }, OWN_BIT(OWN_MI), 0 },
	{ "zalloc_small", { OWN_OBTAIN, _, 0, _, _ }, OWN_BIT(OWN_MI), 0 },
	/* clang-format on */
};
#undef _

static const struct own_name *look(const char *name, unsigned families)
{
	unsigned lo = 0, hi = sizeof(names) / sizeof(names[0]);
	while (lo < hi) {
		unsigned mid = (lo + hi) / 2;
		int order = strcmp(name, names[mid].name);
		if (order == 0)
			return names[mid].families & families ? &names[mid] : NULL;
		if (order < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

const struct own_name *own_name(const char *name, enum own_family *family)
{
	for (int f = OWN_JE; f <= OWN_MOZ; f++) {
		size_t len = strlen(own_prefix[f]);
		if (strncmp(name, own_prefix[f], len) == 0) {
			*family = (enum own_family)f;
			return look(name + len, OWN_BIT(f));
		}
	}
	/* most names of a C++ or Rust program */
	if (*name == '_' && strncmp(name, "_Zn", 3) != 0 && strncmp(name, "_Zd", 3) != 0)
		return NULL;
	const unsigned bare =
		OWN_BIT(OWN_STANDARD) | OWN_BIT(OWN_EXTENDED) | OWN_BIT(OWN_OPERATORS);
	const struct own_name *found = look(name, bare);
	if (found)
		*family = found->families & OWN_BIT(OWN_STANDARD)   ? OWN_STANDARD
			  : found->families & OWN_BIT(OWN_EXTENDED) ? OWN_EXTENDED
								    : OWN_OPERATORS;
	return found;
}
