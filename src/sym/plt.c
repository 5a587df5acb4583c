/* SPDX-License-Identifier: Apache-2.0 */
/*
 * plt.c - names for procedure linkage stubs. They have no symbols of their own: each jumps through
 * a slot, and the relocation that fills the slot names the function. Reading the jump itself serves
 * every flavour (.plt, .plt.sec, .plt.got, with and without endbr64) without knowing how the linker
 * numbered them.
 */
#include "sym/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slot {
	uint64_t address;
	/* NULL: a resolver function chosen at load time */
	const char *name;
	uint64_t target;
};

struct slots {
	struct slot *all;
	size_t count, cap;
};

static int by_address(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;
	return (x->address > y->address) - (x->address < y->address);
}

static int read_relocations(struct slots *slots, const struct image *main, Elf_Scn *scn,
			    const GElf_Shdr *shdr)
{
	Elf_Scn *symbols = elf_getscn(main->elf, shdr->sh_link);
	GElf_Shdr symbols_shdr;
	Elf_Data *data = elf_getdata(scn, NULL);
	Elf_Data *symbol_data = symbols ? elf_getdata(symbols, NULL) : NULL;
	if (!data || !data->d_buf || !symbol_data || !gelf_getshdr(symbols, &symbols_shdr) ||
	    symbols_shdr.sh_type != SHT_DYNSYM)
		return 0;
	size_t count = data->d_size / gelf_fsize(main->elf, ELF_T_RELA, 1, EV_CURRENT);
	for (size_t i = 0; i < count && i <= INT32_MAX; i++) {
		GElf_Rela rela;
		GElf_Sym sym;
		if (!gelf_getrela(data, (int)i, &rela))
			break;
		uint64_t type = GELF_R_TYPE(rela.r_info);
		if (type != R_X86_64_JUMP_SLOT && type != R_X86_64_GLOB_DAT &&
		    type != R_X86_64_IRELATIVE)
			continue;
		struct slot slot = { .address = rela.r_offset, .target = (uint64_t)rela.r_addend };
		if (type != R_X86_64_IRELATIVE) {
			if (!gelf_getsym(symbol_data, (int)GELF_R_SYM(rela.r_info), &sym))
				continue;
			slot.name = elf_strptr(main->elf, symbols_shdr.sh_link, sym.st_name);
			if (!slot.name || !*slot.name)
				continue;
		}
		if (slots->count == slots->cap) {
			size_t cap = slots->cap ? slots->cap * 2 : 256;
			struct slot *grown = reallocarray(slots->all, cap, sizeof(*grown));
			if (!grown)
				return -ENOMEM;
			slots->all = grown;
			slots->cap = cap;
		}
		slots->all[slots->count++] = slot;
	}
	return 0;
}

/*
 * Length of the indirect jump through memory at @code, 0 if there is none; *@disp is its
 * displacement.
 */
static size_t jump_at(const uint8_t *code, size_t bytes, int32_t *disp)
{
	size_t at = 0;
	if (bytes >= 4 && !memcmp(code, "\xf3\x0f\x1e\xfa", 4)) /* endbr64 */
		at = 4;
	if (at < bytes && code[at] == 0xf2) /* bnd */
		at++;
	if (bytes < at + 6 || code[at] != 0xff || code[at + 1] != 0x25)
		return 0;
	memcpy(disp, code + at + 2, 4);
	return at + 6;
}

static int name_stub(struct table *table, const struct slots *slots, uint64_t address,
		     uint64_t slot_address, uint64_t bytes)
{
	struct slot key = { .address = slot_address };
	const struct slot *slot = bsearch(&key, slots->all, slots->count, sizeof(key), by_address);
	if (!slot)
		return 0;
	char text[512];
	int len;
	struct table_symbol *resolver = slot->name ? NULL : table_find(table, slot->target);
	const struct table_name *named = resolver ? table_name(table, resolver) : NULL;
	if (slot->name || named)
		len = snprintf(text, sizeof(text), "%s@plt", slot->name ? slot->name : named->name);
	else
		len = snprintf(text, sizeof(text), "*0x%llx@plt", (unsigned long long)slot->target);
	if (len < 0 || (size_t)len >= sizeof(text))
		return 0;
	return table_add(table, address, bytes, text, (size_t)len, 0);
}

static int read_stubs(struct table *table, const struct slots *slots, const GElf_Shdr *shdr,
		      Elf_Data *data)
{
	const uint8_t *code = data->d_buf;
	size_t stub = shdr->sh_entsize == 8 ? 8 : 16;
	for (size_t at = 0; at + stub <= data->d_size; at += stub) {
		int32_t disp;
		size_t jump = jump_at(code + at, stub, &disp);
		uint64_t address = shdr->sh_addr + at;
		if (jump && name_stub(table, slots, address,
				      address + jump + (uint64_t)(int64_t)disp, stub) < 0)
			return -ENOMEM;
	}
	return 0;
}

int table_plt(struct table *table, const struct image *main)
{
	GElf_Ehdr ehdr;
	if (!gelf_getehdr(main->elf, &ehdr) || ehdr.e_machine != EM_X86_64)
		return 0;
	struct slots slots = { 0 };
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	int rc = 0;
	while (!rc && (scn = elf_nextscn(main->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == SHT_RELA)
			rc = read_relocations(&slots, main, scn, &shdr);
	if (!rc && slots.count) {
		static const char *const names[] = { ".plt", ".plt.sec", ".plt.got" };
		qsort(slots.all, slots.count, sizeof(*slots.all), by_address);
		for (size_t i = 0; !rc && i < ARRAY_LEN(names); i++) {
			Elf_Scn *stubs = image_section(main, names[i], &shdr);
			Elf_Data *data = stubs ? elf_getdata(stubs, NULL) : NULL;
			if (data && data->d_buf)
				rc = read_stubs(table, &slots, &shdr, data);
		}
	}
	free(slots.all);
	return rc;
}
