/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>

#define RELA_MAX (256u << 20)

int slots_names(struct slots_names *names, const struct target *target,
		const struct wire_inject *said)
{
	names->count = 0;
	for (uint32_t i = 0; i < said->hook_count && i < WIRE_INJECT_HOOKS; i++) {
		char *to = names->name[names->count];
		ssize_t got = target_read(target, said->hooks[i].name, to, SLOTS_NAME - 1);
		if (got <= 0)
			return 0;
		to[got] = '\0';
		names->hook[names->count++] = said->hooks[i];
	}
	return names->count != 0;
}

static const struct wire_inject_hook *hook_of(const struct slots_names *names, const char *name)
{
	for (uint32_t i = 0; i < names->count; i++)
		if (names->name[i][0] == name[0] && strcmp(names->name[i], name) == 0)
			return &names->hook[i];
	return NULL;
}

static void add(struct slots *slots, const struct slot *slot, int anew)
{
	uint32_t i = 0;
	while (i < slots->count && slots->list[i].at != slot->at)
		i++;
	if (i < slots->count && !anew)
		return;
	slots->fresh += anew;
	if (i == SLOTS_MAX) {
		slots->more = 1;
		return;
	}
	slots->list[i] = *slot;
	/* in this order: who puts them back reads up to the count at any moment */
	__atomic_store_n(&slots->count, i == slots->count ? i + 1 : slots->count, __ATOMIC_RELEASE);
}

/* Whether a slot of @o is one to lead to @hook, as it is now. */
static int fits(const struct object *o, const Elf64_Rela *rela, const Elf64_Sym *sym,
		const struct wire_inject_hook *hook, uint64_t now)
{
	unsigned type = (unsigned)ELF64_R_TYPE(rela->r_info);
	if (now == hook->original)
		return type == R_X86_64_JUMP_SLOT || rela->r_addend == 0;
	/* not filled in yet: it leads back into the object, and from there to the loader */
	return type == R_X86_64_JUMP_SLOT && sym->st_shndx == SHN_UNDEF && now >= o->lo &&
	       now < o->hi;
}

static void look_at(struct slots *slots, const struct objects *objects, const struct object *o,
		    const struct slots_names *names, const Elf64_Rela *rela)
{
	unsigned type = (unsigned)ELF64_R_TYPE(rela->r_info);
	uint64_t index = ELF64_R_SYM(rela->r_info);
	if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT && type != R_X86_64_64)
		return;
	if (!index || index >= o->symbol_count)
		return;
	const Elf64_Sym *sym = &o->symbols[index];
	if (sym->st_name >= o->strings_bytes)
		return;
	const struct wire_inject_hook *hook = hook_of(names, o->strings + sym->st_name);
	struct slot slot = { .at = o->bias + rela->r_offset };
	if (!hook || slot.at % sizeof(slot.before) ||
	    target_read(objects->target, slot.at, &slot.before, sizeof(slot.before)) !=
		    sizeof(slot.before))
		return;
	slot.after = hook->hook;
	slot.original = hook->original;
	if (slot.before == hook->hook) { /* of ours, or of a recorder that nobody was left of */
		slot.before = hook->original;
		slot.led = 1;
		add(slots, &slot, 0);
	} else if (fits(o, rela, sym, hook, slot.before)) {
		add(slots, &slot, 1);
	}
}

static void collect_table(struct slots *slots, const struct objects *objects,
			  const struct object *o, const struct slots_names *names, uint64_t at,
			  uint64_t bytes)
{
	if (!at || bytes < sizeof(Elf64_Rela) || bytes > RELA_MAX)
		return;
	Elf64_Rela *rela = malloc(bytes);
	ssize_t got = rela ? target_read(objects->target, at, rela, bytes) : 0;
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(*rela); i++)
		if (ELF64_R_TYPE(rela[i].r_info) != R_X86_64_RELATIVE)
			look_at(slots, objects, o, names, &rela[i]);
	free(rela);
}

void slots_collect(struct slots *slots, struct objects *objects, const struct slots_names *names,
		   uint64_t own_lo)
{
	for (size_t i = 0; i < objects->count; i++) {
		struct object *o = &objects->list[i];
		if (o->is_loader || o->is_vdso || o->lo == own_lo || !object_symbols(objects, o))
			continue;
		collect_table(slots, objects, o, names, o->plt_at, o->plt_bytes);
		collect_table(slots, objects, o, names, o->rela_at, o->rela_bytes);
	}
}

static int peek(pid_t tid, uint64_t at, uint64_t *word)
{
	errno = 0;
	*word = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, (void *)at, NULL);
	return errno == 0;
}

unsigned slots_lead(struct slots *slots, pid_t tid)
{
	unsigned written = 0;
	slots->fresh = 0;
	for (uint32_t i = 0; i < slots->count; i++) {
		struct slot *s = &slots->list[i];
		uint64_t now;
		if (s->led || !peek(tid, s->at, &now) || (now != s->before && now != s->original))
			continue;
		s->before = now;
		s->led = 1;
		written += ptrace(PTRACE_POKEDATA, tid, (void *)s->at, (void *)s->after) == 0;
	}
	return written;
}

unsigned slots_put_back(struct slots *slots, pid_t tid)
{
	unsigned written = 0;
	uint32_t count = __atomic_load_n(&slots->count, __ATOMIC_ACQUIRE);
	for (uint32_t i = 0; i < count && i < SLOTS_MAX; i++) {
		struct slot *s = &slots->list[i];
		uint64_t now;
		if (!s->led || !peek(tid, s->at, &now) || now != s->after)
			continue;
		if (ptrace(PTRACE_POKEDATA, tid, (void *)s->at, (void *)s->before) == 0) {
			s->led = 0;
			written++;
		}
	}
	return written;
}
