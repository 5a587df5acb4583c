/* SPDX-License-Identifier: Apache-2.0 */
/*
 * runtimes.c - heaps of language runtimes that need no symbols to be read: CPython's small objects
 * by the shape of their pools, HotSpot's spaces from the performance counters that every JVM maps.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "heaps/readers.h"
#include "proc/breakdown.h"
#include "proc/memory.h"

/* ---- CPython 3.8 and later ------------------------------------------------------------------- */

#define POOL_BYTES 16384u    /* a pool lies at a multiple of its size, its header at its start */
#define POOL_BYTES_OLD 4096u /* before 3.10, in arenas of 256 KiB */
#define POOL_HEAD 48u
#define POOL_CLASSES 32u  /* of 16, 32, ... 512 bytes */
#define POOLS_AT_ONCE 64u /* of an arena: 1 MiB */
#define POOLS_STRIDE 4u
#define POOLS_TRIED_MAX (1u << 22) /* 64 GiB of anonymous memory */

struct pool {
	uint32_t used, pad;
	uint64_t free_block, next, prev;
	uint32_t arena, class, next_offset, last_offset;
};

/* Everything that a header says of itself must agree. */
static int is_pool(const struct pool *p, uint64_t at, uint32_t bytes)
{
	if (p->class >= POOL_CLASSES || p->pad)
		return 0;
	uint32_t size = (p->class + 1) * 16, room = (bytes - POOL_HEAD) / size;
	if (p->last_offset != bytes - size || p->used > room || p->next_offset < POOL_HEAD ||
	    p->next_offset > bytes || (p->next_offset - POOL_HEAD) % size)
		return 0;
	if (p->free_block && (p->free_block < at + POOL_HEAD || p->free_block >= at + bytes ||
			      (p->free_block - at - POOL_HEAD) % size))
		return 0;
	return p->used <= (p->next_offset - POOL_HEAD) / size;
}

struct pools {
	const struct memory *memory;
	/* of headers, and of whole pools behind them */
	struct memory_pages here, pages;
	struct allocator_reading sum;
	uint64_t pools, tried;
	/* of each */
	uint32_t bytes;
	struct units *units;
};

static uint64_t count_pool(struct pools *s, const struct pool *p, uint64_t at)
{
	uint64_t resident = memory_resident(&s->pages, at, at + s->bytes);
	uint64_t live = (uint64_t)p->used * (p->class + 1) * 16;
	s->pools++;
	s->sum.resident_bytes += resident;
	s->sum.reserved_bytes += s->bytes;
	const struct unit unit = { .start = at,
				   .bytes = s->bytes,
				   .slot = p->used ? (p->class + 1) * 16ull : 0,
				   .head = POOL_HEAD,
				   .used = p->used,
				   .kind = p->used ? UNIT_RUNTIME : UNIT_RUNTIME_FREE };
	units_add(s->units, &unit);
	if (!p->used) {
		s->sum.free_page_bytes += resident;
		return resident;
	}
	s->sum.live_bytes += live;
	s->sum.live_count += p->used;
	s->sum.metadata_bytes += POOL_HEAD;
	s->sum.hole_bytes += resident > live + POOL_HEAD ? resident - live - POOL_HEAD : 0;
	return resident;
}

/* Pools that may begin at *@at, each @step further: which, and their headers. Return: how many. */
static unsigned next_pools(struct pools *s, uint64_t *at, uint64_t end, uint64_t limit,
			   uint64_t step, uint64_t places[POOLS_AT_ONCE],
			   struct pool heads[POOLS_AT_ONCE])
{
	struct target_piece pieces[POOLS_AT_ONCE];
	unsigned count = 0;
	while (count < POOLS_AT_ONCE && *at < end && limit - *at >= s->bytes &&
	       s->tried++ < POOLS_TRIED_MAX) {
		/* a pool in use has written its header */
		uint64_t first = memory_resident_from(&s->here, *at, end);
		if (first - *at < s->memory->page_bytes) {
			places[count] = *at;
			pieces[count] =
				(struct target_piece){ *at, &heads[count], sizeof(heads[0]) };
			count++;
			*at += step;
		} else {
			*at = (first + s->bytes - 1) & ~(uint64_t)(s->bytes - 1);
		}
	}
	ssize_t got = count ? memory_read_pieces(s->memory, pieces, count) : 0;
	return got < 0 ? 0 : (unsigned)((size_t)got / sizeof(heads[0]));
}

/*
 * Resident bytes of the pools that begin in one mapping; the mappings that touch it end at @limit.
 * An arena is filled from its start, and the next one begun when it is full: where as many headers
 * in a row as an arena has are none, every fourth is looked at until one is, and then those before
 * it. What is missed so are three pools at most, of the arena begun last.
 */
static uint64_t read_pools(struct pools *s, const struct region *region, uint64_t limit)
{
	struct pool heads[POOLS_AT_ONCE];
	uint64_t places[POOLS_AT_ONCE], found = 0, looked = region->start, step = s->bytes;
	uint64_t at = (region->start + s->bytes - 1) & ~(uint64_t)(s->bytes - 1);
	while (at >= region->start && at < region->end && limit - at >= s->bytes &&
	       s->tried < POOLS_TRIED_MAX) {
		unsigned hits = 0,
			 count = next_pools(s, &at, region->end, limit, step, places, heads);
		for (unsigned i = 0; i < count && !(hits && step > s->bytes); i++) {
			if (!is_pool(&heads[i], places[i], s->bytes)) {
				looked = step > s->bytes ? places[i] + s->bytes : looked;
			} else if (step == s->bytes) {
				found += count_pool(s, &heads[i], places[i]);
				hits++;
			} else {
				uint64_t back = (POOLS_STRIDE - 1) * s->bytes;
				at = places[i] - looked > back ? places[i] - back : looked;
				hits++;
			}
		}
		if (step > s->bytes ? hits > 0 : count == POOLS_AT_ONCE && !hits) {
			step = hits ? s->bytes : POOLS_STRIDE * s->bytes;
			looked = hits ? looked : at;
		}
	}
	return found;
}

static int runs_python(const struct breakdown *b)
{
	for (size_t i = 0; i < b->region_count; i++) {
		const char *base = strrchr(b->regions[i].name, '/');
		if (base &&
		    (strncmp(base, "/python3", 8) == 0 || strncmp(base, "/libpython3", 11) == 0))
			return 1;
	}
	return 0;
}

static int may_hold_pools(const struct region *r)
{
	return (r->perms & (REGION_READ | REGION_WRITE | REGION_SHARED)) ==
		       (REGION_READ | REGION_WRITE) &&
	       !r->inode && r->class == REGION_ANONYMOUS;
}

/*
 * Where the mappings end that touch mapping @i and one another: the kernel cuts an arena where a
 * part of it was treated otherwise.
 */
static uint64_t run_end(const struct breakdown *b, size_t i)
{
	while (i + 1 < b->region_count && b->regions[i + 1].start == b->regions[i].end &&
	       may_hold_pools(&b->regions[i + 1]))
		i++;
	return b->regions[i].end;
}

/*
 * Pools of @bytes in every mapping that may hold some, and which of those they have for themselves.
 */
static void read_all_pools(struct pools *s, const struct breakdown *b, uint32_t bytes,
			   uint8_t *claims)
{
	uint64_t limit = 0;
	s->bytes = bytes;
	s->tried = 0;
	for (size_t i = 0; i < b->region_count; i++) {
		const struct region *r = &b->regions[i];
		if (!may_hold_pools(r))
			continue;
		if (r->start >= limit)
			limit = run_end(b, i);
		uint64_t pools = read_pools(s, r, limit);
		claims[i] = pools && pools >= r->rss_bytes / 2;
	}
}

int heaps_cpython(struct breakdown *b, const struct memory *memory, struct err *err)
{
	if (!runs_python(b))
		return 0;
	static const char *const label[] = { "CPython objects" };
	struct pools *s = calloc(1, sizeof(*s));
	uint8_t *claims = calloc(b->region_count + 1, 1);
	struct allocator_reading *a = NULL;
	int rc = s && claims ? 0 : -ENOMEM;
	if (rc == 0)
		s->memory = s->here.memory = s->pages.memory = memory;
	if (rc == 0)
		s->units = b->units;
	if (rc == 0)
		read_all_pools(s, b, POOL_BYTES, claims);
	if (rc == 0 && !s->pools)
		read_all_pools(s, b, POOL_BYTES_OLD, claims);
	/*
	 * only headers that agree in every field are counted; what was swapped out has its own with
	 * it
	 */
	double consistency = rc == 0 ? 100 * heaps_present(b, claims) : 0;
	if (rc == 0 && (s->pools || memory_is_spent(memory)) &&
	    (rc = heaps_judge(b, memory, label[0], consistency)) == 1) {
		rc = heaps_claim(b, claims, REGION_RUNTIME, label, "CPython");
		a = rc == 0 ? heaps_add(b) : NULL;
		rc = rc == 0 && !a ? -ENOMEM : rc;
	}
	if (a) {
		*a = s->sum;
		a->exact = 1;
		a->consistency = consistency;
		snprintf(a->allocator, sizeof(a->allocator), "CPython objects");
		snprintf(a->how, sizeof(a->how),
			 "%llu pools of %u KiB, recognised by their headers",
			 (unsigned long long)s->pools, s->bytes / 1024);
	}
	free(claims);
	free(s);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}

/* ---- HotSpot --------------------------------------------------------------------------------- */

#define PERF_MAGIC 0xc0c0feca /* bytes ca fe c0 c0 */
#define PERF_HEAD 32u
#define PERF_BYTES_MAX (1u << 20)
#define PERF_ENTRIES_MAX 8192u
#define PERF_VALUE_MAX (1ull << 48) /* so many entries of that cannot overflow */

static uint32_t u32_at(const char *bytes)
{
	uint32_t v;
	memcpy(&v, bytes, 4);
	return v;
}

/* "sun.gc.generation.1.space.0.used": the part behind the space; NULL for any other counter. */
static const char *space_part(const char *name)
{
	const char *dot = strrchr(name, '.');
	if (!dot || (strncmp(name, "sun.gc.generation.", 18) != 0 &&
		     strncmp(name, "sun.gc.metaspace.", 17) != 0))
		return NULL;
	if (name[7] == 'g' && !strstr(name, ".space."))
		return NULL;
	return dot + 1;
}

struct counters {
	uint64_t used, capacity;
	/* what the generations may grow to, together */
	uint64_t heap_bytes;
	/* of the generations */
	uint64_t largest_max;
	unsigned spaces;
};

/*
 * Where generations share regions each may have the whole heap: G1 adds some bytes, so that none is
 * 0, no other collector does.
 */
static void add_generation(struct counters *c, const char *name, uint64_t max)
{
	size_t digits =
		strncmp(name, "sun.gc.generation.", 18) == 0 ? strspn(name + 18, "0123456789") : 0;
	if (!digits || strcmp(name + 18 + digits, ".maxCapacity") != 0 || max >= PERF_VALUE_MAX)
		return;
	uint64_t whole = max & ~4095ull;
	c->largest_max = whole > c->largest_max ? whole : c->largest_max;
	c->heap_bytes = max & 4095 ? c->largest_max : c->heap_bytes + whole;
}

/*
 * The counters that `jstat` reads: a header, then entries { length, name offset, vector length,
 * type, flags, units, variability, data offset }. Every offset is the target's word.
 */
static void read_counters(const char *bytes, size_t len, struct counters *c)
{
	if (len < PERF_HEAD || u32_at(bytes) != PERF_MAGIC || bytes[4] != 1 || bytes[5] != 2)
		return;
	uint64_t at = u32_at(bytes + 24);
	uint32_t count = u32_at(bytes + 28);
	for (uint32_t i = 0; i < count && i < PERF_ENTRIES_MAX && at <= len && len - at >= 20;
	     i++) {
		uint32_t entry = u32_at(bytes + at), name = u32_at(bytes + at + 4),
			 data = u32_at(bytes + at + 16);
		if (entry < 20 || entry > len - at)
			break;
		uint64_t value;
		if (bytes[at + 12] == 'J' && !u32_at(bytes + at + 8) && name < entry &&
		    data <= entry - 8 && memchr(bytes + at + name, '\0', entry - name)) {
			const char *part = space_part(bytes + at + name);
			memcpy(&value, bytes + at + data, 8);
			add_generation(c, bytes + at + name, value);
			if (part && strcmp(part, "used") == 0 && value < PERF_VALUE_MAX) {
				c->used += value;
				c->spaces++;
			} else if (part && strcmp(part, "capacity") == 0 &&
				   value < PERF_VALUE_MAX) {
				c->capacity += value;
			}
		}
		at += entry;
	}
}

/*
 * The heap is reserved as one stretch; of archived classes (.jsa) some are mapped into it. Its last
 * mapping, or -1.
 */
static long heap_end(const struct breakdown *b, size_t first, uint64_t bytes)
{
	const struct region *r = &b->regions[first];
	uint64_t end;
	if (!may_hold_pools(r) || __builtin_add_overflow(r->start, bytes, &end))
		return -1;
	size_t last = breakdown_find(b, end - 1);
	if (last >= b->region_count || b->regions[last].end != end)
		return -1;
	for (size_t i = first; i <= last; i++) {
		const char *dot = strrchr(b->regions[i].name, '.');
		unsigned class = b->regions[i].class;
		if ((i > first && b->regions[i].start != b->regions[i - 1].end) ||
		    !(class == REGION_ANONYMOUS || class == REGION_RESERVED ||
		      (dot && strcmp(dot, ".jsa") == 0)))
			return -1;
	}
	return (long)last;
}

/*
 * The one stretch of just that size claims its mappings. Return: resident bytes of it, 0 where
 * there is none, or several.
 */
static uint64_t claim_heap(const struct breakdown *b, uint64_t bytes, uint8_t *claims)
{
	size_t first = 0, last = 0;
	unsigned found = 0;
	uint64_t resident = 0;
	for (size_t i = 0; i < b->region_count && bytes && found < 2; i++) {
		long end = heap_end(b, i, bytes);
		if (end < 0)
			continue;
		found++;
		first = i;
		last = (size_t)end;
	}
	for (size_t i = first; i <= last && found == 1; i++) {
		claims[i] = b->regions[i].class == REGION_ANONYMOUS;
		resident += b->regions[i].rss_bytes;
	}
	return resident;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one collector a case */
int heaps_hotspot(struct breakdown *b, const struct memory *memory, struct err *err)
{
	static const char *const label[] = { "HotSpot heap" };
	struct counters c = { 0 };
	int rc = 0;
	for (size_t i = 0; i < b->region_count && !c.spaces && rc == 0; i++) {
		const struct region *r = &b->regions[i];
		uint64_t len = r->end - r->start;
		if (!strstr(r->name, "/hsperfdata_") || len > PERF_BYTES_MAX)
			continue;
		char *bytes = malloc(len);
		if (!bytes)
			rc = -ENOMEM;
		else if (memory_read_resident(memory, r->start, bytes, len) == 0)
			read_counters(bytes, len, &c);
		free(bytes);
	}
	if (rc == 0 && (c.spaces || memory_is_spent(memory)))
		rc = heaps_judge(b, memory, label[0], c.used <= c.capacity ? 100 : 0);
	/* its own tables say where; where they cannot be read, the size of the heap does */
	struct hotspot_places places = { 0 };
	int placed = rc >= 0 ? hotspot_places(b, memory, &places) : 0;
	int64_t placed_bytes = placed > 0 ? hotspot_claim(b, &places) : placed;
	if (placed_bytes < 0)
		rc = -ENOMEM;
	uint8_t *claims = rc == 1 ? calloc(b->region_count + 1, 1) : NULL;
	uint64_t resident = !claims           ? 0
			    : places.heap.end ? (uint64_t)placed_bytes
					      : claim_heap(b, c.heap_bytes, claims);
	if (rc == 1)
		rc = claims ? heaps_claim(b, claims, REGION_RUNTIME, label, "HotSpot") : -ENOMEM;
	struct allocator_reading *a = claims && rc == 0 ? heaps_add(b) : NULL;
	if (a) {
		snprintf(a->allocator, sizeof(a->allocator), "%s", label[0]);
		snprintf(a->how, sizeof(a->how),
			 "%u spaces of its counters as of the last collection%s", c.spaces,
			 places.heap.end ? ", mappings by its own tables"
			 : resident      ? ", mapping by its size"
					 : "");
		a->live_bytes = c.used;
		a->reserved_bytes = c.capacity;
		a->free_page_bytes = a->hole_bytes = a->cache_bytes = a->metadata_bytes =
			a->live_count = UINT64_MAX;
		a->resident_bytes = resident ? resident : UINT64_MAX;
		a->consistency = 100;
	} else if (claims && rc == 0) {
		rc = -ENOMEM;
	}
	free(claims);
	return rc < 0 ? err_set(err, rc, "cannot read the heap of process %d", (int)b->pid) : 0;
}
