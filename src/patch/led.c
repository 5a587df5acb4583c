/* SPDX-License-Identifier: Apache-2.0 */
/*
 * led.c - allocators under names of their own (mallocx, je_malloc, mi_malloc) in a library of a
 * process that ran before we came: no code moves there. The words through which other objects call
 * them are led to stubs of ours in own_entry_x86_64.S, by whoever leads those of malloc(), and from
 * there to the same hooks. Who calls one that cannot be led, by the rule of only_one(), is refused
 * before (inject/carried.c).
 */
#include <elf.h>
#include <link.h>
#include <string.h>

#include "patch/own.h"
#include "preload/next.h"
#include "preload/patched.h"
#include "preload/process.h"

_Static_assert(sizeof(struct own_call) == OWN_LED_CALL && OWN_LED_MAX >= 169,
	       "own_entry_x86_64.S, and a place for each name of the five families");

struct own_call own_led[OWN_LED_MAX];
static uint8_t used[OWN_LED_MAX]; /* this time */

/* In turn for one library's symbols. */
enum pass { IS_WHOLE, HAD_BEFORE, TAKE };

struct lead {
	enum own_family family;
	enum pass pass;
	/* of the library */
	struct code_range code;
	/* whether it has such functions */
	int obtains, releases;
	own_led_fn *each;
	void *ctx;
};

/* As inject/carried.c has them: what obtains. */
static int has_such(const struct link_map *map, enum own_family family)
{
	static const struct {
		enum own_family family;
		const char *name;
	} signs[] = { { OWN_EXTENDED, "mallocx" },   { OWN_JE, "je_malloc" },
		      { OWN_JE, "je_mallocx" },      { OWN_RJEM, "_rjem_malloc" },
		      { OWN_RJEM, "_rjem_mallocx" }, { OWN_TC, "tc_malloc" },
		      { OWN_MI, "mi_malloc" } };
	for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
		if (signs[i].family == family && next_has(map, signs[i].name))
			return 1;
	return 0;
}

/*
 * Where two objects have it, a word that is not filled in yet may be meant for either. What the
 * executable has is called from within it, past all words.
 */
static const struct link_map *only_one(enum own_family family)
{
	const struct link_map *found = NULL;
	for (const struct link_map *map = _r_debug.r_map; map; map = map->l_next) {
		if (!has_such(map, family))
			continue;
		if (found || map == _r_debug.r_map)
			return NULL;
		found = map;
	}
	return found;
}

/*
 * The stub of @original: the one it had in a recording before, to which a word may lead still, or
 * one that nobody has any more.
 */
static unsigned stub_of(const struct lead *lead, uintptr_t original, const struct own_shape *shape)
{
	unsigned n = 0;
	for (; n < OWN_LED_MAX; n++)
		if ((uintptr_t)own_led[n].next == original &&
		    memcmp(&own_led[n].shape, shape, sizeof(*shape)) == 0)
			return n;
	if (lead->pass == TAKE)
		for (n = 0; n < OWN_LED_MAX && used[n]; n++)
			;
	return n;
}

static void look(void *ctx, const ElfW(Sym) * sym, const char *text)
{
	struct lead *lead = ctx;
	enum own_family family;
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	if (sym->st_shndx == SHN_UNDEF || (type != STT_FUNC && type != STT_GNU_IFUNC))
		return;
	const struct own_name *name = own_name(text, &family);
	if (!name || family != lead->family)
		return;
	uintptr_t original = (uintptr_t)next_first(text);
	/* not where another object comes first with this name */
	if (original - lead->code.lo >= lead->code.hi - lead->code.lo)
		return;
	lead->obtains |= name->shape.kind == OWN_OBTAIN;
	lead->releases |= name->shape.kind == OWN_RELEASE;
	unsigned n = lead->pass == IS_WHOLE ? OWN_LED_MAX : stub_of(lead, original, &name->shape);
	if (n == OWN_LED_MAX)
		return;
	used[n] = 1;
	if (lead->pass != TAKE)
		return;
	memcpy(&own_led[n].next, &original, sizeof(original));
	own_led[n].object_lo = lead->code.lo;
	own_led[n].object_bytes = lead->code.hi - lead->code.lo;
	own_led[n].entry = own_entries[name->shape.kind];
	own_led[n].shape = name->shape;
	lead->each(lead->ctx, (uintptr_t)own_led_stubs + (size_t)n * OWN_LED_STUB, original, text);
}

static void tell(const char *title)
{
	char *to = process.heap->own_allocators;
	size_t have = strlen(to), len = strlen(title);
	if (have + 2 + len >= WIRE_OWN_BYTES)
		return;
	if (have)
		memcpy(to + have, ", ", 2);
	memcpy(to + have + (have ? 2 : 0), title, len);
}

void own_lead(own_led_fn *each, void *ctx)
{
	struct lead leads[OWN_FAMILIES];
	const struct link_map *maps[OWN_FAMILIES] = { NULL };
	uintptr_t lo;
	unsigned carried = 0;
	memset(used, 0, sizeof(used));
	memset(next_carried, 0, sizeof(next_carried));
	for (enum own_family f = OWN_EXTENDED; f <= OWN_MI; f++) {
		leads[f] = (struct lead){ .family = f, .each = each, .ctx = ctx };
		maps[f] = only_one(f);
		if (maps[f] && next_object(maps[f]->l_ld, &lo) == maps[f])
			leads[f].code = next_code(maps[f]->l_ld);
	}
	for (enum pass pass = IS_WHOLE; pass <= TAKE; pass++) {
		for (enum own_family f = OWN_EXTENDED; f <= OWN_MI; f++) {
			leads[f].pass = pass;
			if (maps[f] && leads[f].code.lo)
				next_symbols(maps[f], look, &leads[f]);
			if (!leads[f].obtains || !leads[f].releases)
				maps[f] = NULL;
		}
	}
	for (enum own_family f = OWN_EXTENDED; f <= OWN_MI; f++) {
		if (!maps[f])
			continue;
		tell(own_titles[f]);
		/* five in as many libraries: the last one's calls of its own names are lost ones */
		if (carried < NEXT_CARRIED_MAX)
			next_carried[carried++] = leads[f].code;
	}
}
