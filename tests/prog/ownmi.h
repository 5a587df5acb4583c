/* SPDX-License-Identifier: Apache-2.0 */
/* ownmi.h - mimalloc's functions as far as ownmi.c calls them: its header is not needed to call it. */
#ifndef OWNMI_H
#define OWNMI_H

#include <stddef.h>

typedef struct mi_heap mi_heap_t;

void mi_free(void *p);
void mi_cfree(void *p);
void mi_free_size(void *p, size_t n);
void mi_free_size_aligned(void *p, size_t n, size_t align);
void mi_free_aligned(void *p, size_t align);
size_t mi_usable_size(const void *p);
void *mi_expand(void *p, size_t n);

void *mi_malloc(size_t n);
void *mi_malloc_small(size_t n);
void *mi_zalloc_small(size_t n);
void *mi_zalloc(size_t n);
void *mi_calloc(size_t count, size_t n);
void *mi_mallocn(size_t count, size_t n);
void *mi_realloc(void *p, size_t n);
void *mi_reallocn(void *p, size_t count, size_t n);
void *mi_reallocarray(void *p, size_t count, size_t n);
void *mi_reallocf(void *p, size_t n);
void *mi_rezalloc(void *p, size_t n);
void *mi_recalloc(void *p, size_t count, size_t n);
char *mi_strdup(const char *s);
char *mi_strndup(const char *s, size_t n);

void *mi_malloc_aligned(size_t n, size_t align);
void *mi_malloc_aligned_at(size_t n, size_t align, size_t offset);
void *mi_zalloc_aligned(size_t n, size_t align);
void *mi_zalloc_aligned_at(size_t n, size_t align, size_t offset);
void *mi_calloc_aligned(size_t count, size_t n, size_t align);
void *mi_calloc_aligned_at(size_t count, size_t n, size_t align, size_t offset);
void *mi_realloc_aligned(void *p, size_t n, size_t align);
void *mi_rezalloc_aligned(void *p, size_t n, size_t align);
void *mi_recalloc_aligned(void *p, size_t count, size_t n, size_t align);
int mi_posix_memalign(void **to, size_t align, size_t n);
void *mi_memalign(size_t align, size_t n);
void *mi_aligned_alloc(size_t align, size_t n);
void *mi_valloc(size_t n);
void *mi_pvalloc(size_t n);

/* by version: to 3.2 the former, then the latter */
__attribute__((weak)) mi_heap_t *mi_heap_get_default(void);
__attribute__((weak)) mi_heap_t *mi_heap_main(void);
void *mi_heap_malloc(mi_heap_t *heap, size_t n);
void *mi_heap_malloc_small(mi_heap_t *heap, size_t n);
void *mi_heap_zalloc(mi_heap_t *heap, size_t n);
void *mi_heap_calloc(mi_heap_t *heap, size_t count, size_t n);
void *mi_heap_mallocn(mi_heap_t *heap, size_t count, size_t n);
void *mi_heap_realloc(mi_heap_t *heap, void *p, size_t n);
void *mi_heap_reallocn(mi_heap_t *heap, void *p, size_t count, size_t n);
void *mi_heap_reallocf(mi_heap_t *heap, void *p, size_t n);
void *mi_heap_rezalloc(mi_heap_t *heap, void *p, size_t n);
void *mi_heap_recalloc(mi_heap_t *heap, void *p, size_t count, size_t n);
void *mi_heap_malloc_aligned(mi_heap_t *heap, size_t n, size_t align);
void *mi_heap_zalloc_aligned(mi_heap_t *heap, size_t n, size_t align);
void *mi_heap_calloc_aligned(mi_heap_t *heap, size_t count, size_t n, size_t align);
void *mi_heap_realloc_aligned(mi_heap_t *heap, void *p, size_t n, size_t align);
char *mi_heap_strdup(mi_heap_t *heap, const char *s);
char *mi_heap_strndup(mi_heap_t *heap, const char *s, size_t n);

void *mi_new(size_t n);
void *mi_new_n(size_t count, size_t n);
void *mi_new_nothrow(size_t n);
void *mi_new_aligned(size_t n, size_t align);
void *mi_new_aligned_nothrow(size_t n, size_t align);
void *mi_new_realloc(void *p, size_t n);
void *mi_new_reallocn(void *p, size_t count, size_t n);

/* Since 3.3: a thread's part of a heap; blocks that come with their true size; what is known to be small. */
typedef struct mi_theap mi_theap_t;
#define LATER __attribute__((weak))
LATER mi_theap_t *mi_theap_get_default(void);
LATER void *mi_theap_malloc(mi_theap_t *heap, size_t n);
LATER void *mi_theap_malloc_small(mi_theap_t *heap, size_t n);
LATER void *mi_theap_malloc_aligned(mi_theap_t *heap, size_t n, size_t align);
LATER void *mi_theap_zalloc(mi_theap_t *heap, size_t n);
LATER void *mi_theap_calloc(mi_theap_t *heap, size_t count, size_t n);
LATER void *mi_theap_realloc(mi_theap_t *heap, void *p, size_t n);
LATER void *mi_theap_rezalloc(mi_theap_t *heap, void *p, size_t n);
LATER void *mi_theap_alloc_new(mi_theap_t *heap, size_t n);
LATER void *mi_theap_alloc_new_n(mi_theap_t *heap, size_t count, size_t n);
LATER void *mi_umalloc(size_t n, size_t *size);
LATER void *mi_umalloc_aligned(size_t n, size_t align, size_t *size);
LATER void *mi_ucalloc(size_t count, size_t n, size_t *size);
LATER void *mi_urealloc(void *p, size_t n, size_t *before, size_t *behind);
LATER void mi_ufree(void *p, size_t *size);
LATER void mi_free_small(void *p);

#endif
