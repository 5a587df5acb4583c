/* SPDX-License-Identifier: Apache-2.0 */
/*
 * hotspot.c - where a JVM's parts lie, by the tables that it keeps for debuggers
 * (gHotSpotVMStructs): they name each field with its type and its place, so that one reader does
 * for all versions and collectors. The texts lie in pages that the JVM itself hardly touches; they
 * are read from the file.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heaps/files.h"
#include "heaps/readers.h"
#include "heaps/scan.h"
#include "proc/owned.h"

#define ENTRIES_MAX 8192u
#define ENTRY_BYTES 48u
#define BLOCK_BYTES 32768u
#define BLOCKS 8u
#define SPAN_MAX (1ull << 46)
#define CLASS_SPACE_MAX (4ull << 30)
#define CLASSES_MAX (1u << 18)
#define NODE_WORDS 16u
#define NODE_ALIGN (4ull << 20) /* since 16; larger ones, too */
#define NODES_MAX HOTSPOT_METASPACES

enum wanted {
	HEAP,      /* static, a pointer */
	RESERVED,  /* of the heap: start and words */
	CODE_LOW,  /* static */
	CODE_HIGH, /* static */
	BARRIERS,  /* static, a pointer */
	CARDS,     /* of barriers: a pointer */
	MAP,       /* of cards: its bytes begin here */
	MAP_SIZE,
	KLASS_BASE, /* static */
	SHARED_TOP, /* static */
	LOADERS,    /* static: the first loader's data, a pointer */
	LOADER_NEXT,
	LOADER_CLASSES, /* the first of its classes */
	CLASS_NEXT,
	CONSTANTS, /* of a class */
	HOLDER,    /* of constants: their class */
	METHODS,   /* of a class, an array */
	WANTED
};
static const struct {
	const char *type, *field;
	enum wanted what;
} wanted[] = {
	{ "Universe", "_collectedHeap", HEAP },
	{ "CollectedHeap", "_reserved", RESERVED },
	{ "CodeCache", "_low_bound", CODE_LOW },
	{ "CodeCache", "_high_bound", CODE_HIGH },
	{ "BarrierSet", "_barrier_set", BARRIERS },
	{ "CardTableBarrierSet", "_card_table", CARDS },
	{ "CardTable", "_byte_map", MAP },
	{ "CardTable", "_byte_map_size", MAP_SIZE },
	{ "CompressedKlassPointers", "_narrow_klass._base", KLASS_BASE },
	{ "CompressedKlassPointers", "_base", KLASS_BASE },
	{ "MetaspaceObj", "_shared_metaspace_top", SHARED_TOP },
	{ "ClassLoaderDataGraph", "_head", LOADERS },
	{ "ClassLoaderData", "_next", LOADER_NEXT },
	{ "ClassLoaderData", "_klasses", LOADER_CLASSES },
	{ "Klass", "_next_link", CLASS_NEXT },
	{ "InstanceKlass", "_constants", CONSTANTS },
	{ "ConstantPool", "_pool_holder", HOLDER },
	{ "InstanceKlass", "_methods", METHODS },
};

/* Blocks of the library's file, for texts. */
struct texts {
	const struct breakdown *b;
	const char *path;
	int fd;
	struct {
		/* plus 1 */
		uint64_t number;
		size_t len;
		char bytes[BLOCK_BYTES];
	} blocks[BLOCKS];
};

/* The text at @addr, at most @size - 1 bytes; 0 where it is none of the library's file. */
static int text_at(struct texts *t, uint64_t addr, char *to, size_t size)
{
	size_t at = addr ? breakdown_find(t->b, addr) : t->b->region_count;
	if (at == t->b->region_count || strcmp(t->b->regions[at].name, t->path) != 0)
		return 0;
	const struct region *r = &t->b->regions[at];
	uint64_t offset = addr - r->start + r->offset;
	size_t len = 0;
	while (len + 1 < size) {
		uint64_t number = (offset + len) / BLOCK_BYTES;
		size_t from = (size_t)((offset + len) % BLOCK_BYTES), slot = number % BLOCKS;
		if (t->blocks[slot].number != number + 1) {
			ssize_t got = pread(t->fd, t->blocks[slot].bytes, BLOCK_BYTES,
					    (off_t)(number * BLOCK_BYTES));
			t->blocks[slot].number = number + 1;
			t->blocks[slot].len = got > 0 ? (size_t)got : 0;
		}
		if (from >= t->blocks[slot].len)
			return 0;
		char c = to[len] = t->blocks[slot].bytes[from];
		if (!c)
			return 1;
		len++;
	}
	to[len] = '\0';
	return 1;
}

struct found {
	/* an address of a static field, or the offset of another */
	uint64_t value[WANTED];
	int known[WANTED];
};

static void note(struct found *f, const char *type, const char *field, int is_static,
		 uint64_t offset, uint64_t address)
{
	for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
		if (strcmp(wanted[i].type, type) != 0 || strcmp(wanted[i].field, field) != 0)
			continue;
		f->known[wanted[i].what] = 1;
		f->value[wanted[i].what] = is_static ? address : offset;
	}
}

static void read_table(struct texts *t, const struct memory *memory, uint64_t table,
		       struct found *f)
{
	for (unsigned i = 0; i < ENTRIES_MAX; i++) {
		uint64_t entry[ENTRY_BYTES / 8];
		char type[64], field[64];
		if (memory_read(memory, table + (uint64_t)i * ENTRY_BYTES, entry, sizeof(entry)) <
			    0 ||
		    !entry[0] || memory_spend(memory, 256) < 0)
			return;
		if (text_at(t, entry[0], type, sizeof(type)) &&
		    text_at(t, entry[1], field, sizeof(field)))
			note(f, type, field, (int)(entry[3] & 1), entry[4], entry[5]);
	}
}

/*
 * The mappings that touch the one at @addr: a node of metaspace is one reservation, committed piece
 * by piece.
 */
static void note_metaspace(const struct breakdown *b, uint64_t addr, struct hotspot_places *p)
{
	for (unsigned i = 0; i < p->metaspace_count; i++)
		if (addr >= p->metaspace[i].start && addr < p->metaspace[i].end)
			return;
	size_t at = breakdown_find(b, addr);
	if (at == b->region_count || p->metaspace_count == HOTSPOT_METASPACES ||
	    b->regions[at].inode || b->regions[at].name[0] ||
	    b->regions[at].class != REGION_ANONYMOUS ||
	    (addr >= p->classes.start && addr < p->classes.end))
		return;
	p->metaspace[p->metaspace_count++] =
		(struct memory_run){ b->regions[at].start, b->regions[at].end };
}

static int word(const struct memory *memory, uint64_t at, uint64_t *value)
{
	return memory_read(memory, at, value, 8) == 0;
}

static void set(struct memory_run *run, uint64_t start, uint64_t bytes)
{
	uint64_t end;
	if (start && bytes && bytes < SPAN_MAX && !__builtin_add_overflow(start, bytes, &end))
		*run = (struct memory_run){ start, end };
}

static void follow(const struct memory *memory, const struct found *f, struct hotspot_places *p)
{
	uint64_t at, low, high, size, pair[2];
	if (f->known[HEAP] && f->known[RESERVED] && word(memory, f->value[HEAP], &at) &&
	    memory_read(memory, at + f->value[RESERVED], pair, sizeof(pair)) == 0 &&
	    pair[1] < SPAN_MAX / 8)
		set(&p->heap, pair[0], pair[1] * 8);
	if (f->known[CODE_LOW] && f->known[CODE_HIGH] && word(memory, f->value[CODE_LOW], &low) &&
	    word(memory, f->value[CODE_HIGH], &high) && high > low)
		set(&p->code, low, high - low);
	if (f->known[BARRIERS] && f->known[CARDS] && f->known[MAP] && f->known[MAP_SIZE] &&
	    word(memory, f->value[BARRIERS], &at) && word(memory, at + f->value[CARDS], &at) &&
	    word(memory, at + f->value[MAP], &low) &&
	    word(memory, at + f->value[MAP_SIZE], &size) && size < 1ull << 40)
		set(&p->cards, low, size);
	if (f->known[KLASS_BASE] && f->known[SHARED_TOP] &&
	    word(memory, f->value[KLASS_BASE], &low) && word(memory, f->value[SHARED_TOP], &high) &&
	    high > low && high - low < CLASS_SPACE_MAX)
		set(&p->classes, high, CLASS_SPACE_MAX - (high - low));
}

/*
 * Where classes are described: constants that lead back to their class prove the mapping that they
 * lie in. Archived ones lie in a file. Return: a class that lies in none.
 */
static uint64_t look_for_classes(const struct breakdown *b, const struct memory *memory,
				 const struct found *f, struct hotspot_places *p)
{
	uint64_t loader = 0, class, constants, back, methods, in_space = 0;
	for (int i = LOADERS; i <= HOLDER; i++)
		if (!f->known[i])
			return 0;
	unsigned left = CLASSES_MAX;
	if (!word(memory, f->value[LOADERS], &loader))
		return 0;
	for (; loader && left; left--) {
		if (!word(memory, loader + f->value[LOADER_CLASSES], &class))
			class = 0;
		for (; class && left && memory_spend(memory, 64) == 0; left--) {
			if (word(memory, class + f->value[CONSTANTS], &constants) &&
			    word(memory, constants + f->value[HOLDER], &back) && back == class) {
				note_metaspace(b, constants, p);
				if (scan_heap_at(b, class, 8))
					in_space = class;
				if (f->known[METHODS] &&
				    word(memory, class + f->value[METHODS], &methods))
					note_metaspace(b, methods, p);
			}
			if (!word(memory, class + f->value[CLASS_NEXT], &class))
				break;
		}
		if (!word(memory, loader + f->value[LOADER_NEXT], &loader))
			break;
	}
	return in_space;
}

/*
 * Where the JVM keeps its own books of metaspace (since 16; no table names them): a static pointer
 * to a context, that to a list, that to nodes, which are reservations. Each node says its place
 * twice.
 */
struct spaces {
	const struct breakdown *b;
	const struct memory *memory;
	const char *path;
	struct hotspot_places *places;
	/* mappings that hold descriptions of classes */
	struct memory_run proven[HOTSPOT_METASPACES];
	unsigned proven_count;
	/* any that the loaders list, of the class space; 0: none known */
	uint64_t class;
	int found;
};

static int of_library(const struct spaces *s, uint64_t addr)
{
	size_t at = addr ? breakdown_find(s->b, addr) : s->b->region_count;
	return at < s->b->region_count && strcmp(s->b->regions[at].name, s->path) == 0;
}

/*
 * The list of the context at @at: it has a name, before that perhaps a table of functions, behind
 * it the list and what hands out its pieces, which begins with the list again.
 */
static uint64_t list_of(const struct spaces *s, uint64_t at)
{
	uint64_t w[4], list;
	if (!scan_heap_at(s->b, at, 8) || memory_read(s->memory, at, w, sizeof(w)) < 0 ||
	    !of_library(s, w[0]))
		return 0;
	unsigned k = of_library(s, w[1]) ? 2 : 1;
	return scan_heap_at(s->b, w[k], 8) && scan_heap_at(s->b, w[k + 1], 8) &&
			       word(s->memory, w[k + 1], &list) && list == w[k]
		       ? list
		       : 0;
}

/* Its first node: a table of functions, a name, the node. */
static uint64_t first_node(const struct spaces *s, uint64_t list)
{
	uint64_t w[3];
	return memory_read(s->memory, list, w, sizeof(w)) == 0 && of_library(s, w[0]) &&
			       of_library(s, w[1]) && scan_heap_at(s->b, w[2], 8)
		       ? w[2]
		       : 0;
}

/* The reservation that the node at @at describes, and the next node; 0 where it is none. */
static int node_at(const struct spaces *s, uint64_t at, struct memory_run *run, uint64_t *next)
{
	uint64_t w[NODE_WORDS];
	*run = (struct memory_run){ 0 };
	if (memory_read(s->memory, at, w, sizeof(w)) < 0 || !w[1] || w[1] & (NODE_ALIGN - 1) ||
	    !w[2] || w[2] & (NODE_ALIGN - 1))
		return 0;
	for (unsigned i = 3; i + 1 < NODE_WORDS && !run->end; i++)
		if (w[i] == w[1] && w[i + 1] == w[2] / 8)
			set(run, w[1], w[2]);
	*next = w[0];
	return run->end != 0;
}

static int holds(const struct memory_run *run, uint64_t addr)
{
	return addr >= run->start && addr < run->end;
}

static int take_list(struct spaces *s, uint64_t node)
{
	struct memory_run runs[NODES_MAX];
	unsigned count = 0, descriptions = 0, classes = 0;
	for (; node && count < NODES_MAX && node_at(s, node, &runs[count], &node); count++) {
		for (unsigned i = 0; i < s->proven_count; i++)
			descriptions |= holds(&runs[count], s->proven[i].start);
		classes |= holds(&runs[count], s->class);
	}
	if (descriptions) {
		memcpy(s->places->metaspace, runs, count * sizeof(runs[0]));
		s->places->metaspace_count = count;
	} else if (classes && count == 1) {
		s->places->classes = runs[0];
		s->places->classes_are_exact = 1;
	}
	s->found += descriptions || classes;
	return s->found == 2;
}

static int look_for_contexts(void *ctx, const struct scan_block *block)
{
	struct spaces *s = ctx;
	for (size_t i = 0; i < block->count; i++) {
		uint64_t list = list_of(s, block->words[i]);
		uint64_t node = list ? first_node(s, list) : 0;
		if (node && take_list(s, node))
			return 1;
	}
	return 0;
}

/*
 * Mappings with descriptions were found one by one; whole reservations take their place. Without
 * them those must do.
 */
static int look_for_spaces(const struct breakdown *b, const struct memory *memory, const char *path,
			   uint64_t class, struct hotspot_places *places)
{
	struct spaces *s = places->metaspace_count ? calloc(1, sizeof(*s)) : NULL;
	if (!s)
		return places->metaspace_count ? -ENOMEM : 0;
	s->b = b;
	s->memory = memory;
	s->path = path;
	s->places = places;
	s->class = class;
	s->proven_count = places->metaspace_count;
	memcpy(s->proven, places->metaspace, sizeof(s->proven));
	int rc = scan_data(b, memory, 0, look_for_contexts, s);
	free(s);
	return rc < 0 ? rc : 0;
}

int hotspot_places(const struct breakdown *b, const struct memory *memory,
		   struct hotspot_places *places)
{
	const struct region *library = NULL;
	*places = (struct hotspot_places){ 0 };
	for (size_t i = 0; i < b->region_count && !library && b->files; i++) {
		const char *base = strrchr(b->regions[i].name, '/');
		if (base && strcmp(base, "/libjvm.so") == 0 && b->regions[i].offset == 0)
			library = &b->regions[i];
	}
	if (!library)
		return 0;
	uint64_t at = heap_files_variable(b->files, b->files_of, library->name,
					  "gHotSpotVMStructs"),
		 table;
	struct texts *texts = at ? calloc(1, sizeof(*texts)) : NULL;
	struct found found = { 0 };
	int rc = 0;
	if (at && !texts)
		return -ENOMEM;
	if (at && word(memory, library->start + at, &table)) {
		texts->b = b;
		texts->path = library->name;
		texts->fd = b->files->open(b->files_of, library->name);
		read_table(texts, memory, table, &found);
		follow(memory, &found, places);
		uint64_t class = look_for_classes(b, memory, &found, places);
		rc = look_for_spaces(b, memory, library->name, class, places);
		if (texts->fd >= 0)
			close(texts->fd);
	}
	free(texts);
	if (rc < 0)
		return rc;
	return places->heap.end || places->code.end;
}

/*
 * What of [start, end) is the process's own memory is @label's. Return: resident bytes, or -ENOMEM.
 */
static int64_t claim(struct breakdown *b, const struct memory_run *run, const char *label,
		     int classes)
{
	int64_t resident = 0;
	uint64_t expected = 0;
	for (size_t i = 0; i < b->region_count && b->regions[i].start < run->end; i++) {
		const struct region *r = &b->regions[i];
		if (r->end <= run->start)
			continue;
		/*
		 * the class space is one reservation: it ends where something else lies, or nothing
		 */
		if (classes && expected && r->start != expected)
			break;
		if (classes && !expected && r->start - run->start > 64u << 20)
			break;
		expected = r->end;
		if (r->class == REGION_RESERVED)
			continue;
		/* malloc may have most of a mapping, and this the rest */
		if (r->name[0] || (r->class != REGION_ANONYMOUS && r->class != REGION_JIT &&
				   r->class != REGION_ALLOCATOR)) {
			if (classes)
				break;
			continue;
		}
		uint64_t start = r->start > run->start ? r->start : run->start;
		uint64_t end = r->end < run->end ? r->end : run->end;
		int whole = start == r->start && end == r->end && r->class != REGION_ALLOCATOR;
		if (heaps_own(b, start, end, REGION_RUNTIME, label, "HotSpot", OWNED_PART,
			      HOW_ALLOCATOR) < 0 ||
		    (whole &&
		     breakdown_relabel(b, i, REGION_RUNTIME, label, "HotSpot", HOW_ALLOCATOR) < 0))
			return -ENOMEM;
		resident += (int64_t)(whole ? r->rss_bytes : 0);
	}
	return resident;
}

int64_t hotspot_claim(struct breakdown *b, const struct hotspot_places *p)
{
	int64_t heap = claim(b, &p->heap, "HotSpot heap", 0);
	if (heap < 0 || claim(b, &p->code, "HotSpot code cache", 0) < 0 ||
	    claim(b, &p->cards, "HotSpot card table", 0) < 0 ||
	    claim(b, &p->classes, "HotSpot class space", !p->classes_are_exact) < 0)
		return -ENOMEM;
	for (unsigned i = 0; i < p->metaspace_count; i++)
		if (claim(b, &p->metaspace[i], "HotSpot metaspace", 0) < 0)
			return -ENOMEM;
	return heap;
}
