/* SPDX-License-Identifier: Apache-2.0 */
/*
 * patchall.c - preloaded: patches every exported function of the library whose file is called PATCH_OBJECT before the program
 * starts, so that each counts its calls and goes on in its moved head. Tells at the end, on stderr.
 */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "patch/patch.h"

#define SPACING 0x100000
#define PAGE 4096ul

struct patched {
	unsigned long calls;
	void *moved;
};

/*
 * Entered by a stub, with the function's struct patched in rax, whose own value it pushed. Flags mean nothing at a function's
 * entry.
 */
__asm__(".text\n.hidden count_call\n.type count_call, @function\ncount_call:\n lock incq (%rax)\n"
	"mov 8(%rax), %rax\n xchg %rax, (%rsp)\n ret\n"
	".size count_call, .-count_call");
extern const char count_call[] HIDDEN;

static struct patched *all;
static unsigned patched, refused, small, traps;

/* The object's code and symbols. */
struct object {
	uintptr_t bias, hi, code_lo, code_hi;
	const ElfW(Sym) * symbols;
	const uint32_t *hash;
};

static void look_at(const struct dl_phdr_info *info, struct object *object)
{
	const ElfW(Dyn) *dynamic = NULL;
	object->bias = info->dlpi_addr;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];
		uintptr_t lo = info->dlpi_addr + part->p_vaddr, hi = lo + part->p_memsz;
		if (part->p_type == PT_DYNAMIC)
			dynamic = (const void *)lo;
		if (part->p_type != PT_LOAD)
			continue;
		object->hi = hi;
		if (part->p_flags & PF_X) {
			object->code_lo = lo & -PAGE;
			object->code_hi = (hi + PAGE - 1) & -PAGE;
		}
	}
	for (; dynamic && dynamic->d_tag != DT_NULL; dynamic++) {
		if (dynamic->d_tag == DT_SYMTAB)
			object->symbols = (const void *)dynamic->d_un.d_ptr;
		if (dynamic->d_tag == DT_GNU_HASH)
			object->hash = (const void *)dynamic->d_un.d_ptr;
	}
}

/* Its table of names does not say how long it is: behind the last chain. */
static uint32_t symbols_of(const struct object *object)
{
	uint32_t buckets = object->hash[0], first = object->hash[1], last = 0;
	const uint32_t *bucket = object->hash + 4 + object->hash[2] * 2, *chain = bucket + buckets;
	for (uint32_t i = 0; i < buckets; i++)
		last = bucket[i] > last ? bucket[i] : last;
	while (last >= first && !(chain[last - first] & 1))
		last++;
	return last + 1;
}

static uint8_t *room_behind(uintptr_t at, size_t bytes)
{
	at = (at + SPACING - 1) & -(uintptr_t)SPACING;
	for (int tries = 0; tries < 512; tries++, at += SPACING) {
		void *room = mmap((void *)at, bytes, PROT_READ | PROT_WRITE | PROT_EXEC,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (room != MAP_FAILED)
			return room;
	}
	return NULL;
}

/* Symbols may share a function. */
static int is_patched(const uint8_t *code, const uint8_t *room, size_t bytes)
{
	int32_t by;
	memcpy(&by, code + 1, sizeof(by));
	return code[0] == 0xe9 && (uintptr_t)code + 5 + (intptr_t)by - (uintptr_t)room < bytes;
}

/*
 * Nothing but ud2, with which compilers fill what must never be called (deleting destructors of abstract classes). It stays where
 * it is: a signal handler may look at where it happened.
 */
static int only_traps(const uint8_t *code, size_t size)
{
	static const uint8_t trap[6] = { 0xf3, 0x0f, 0x1e, 0xfa, 0x0f, 0x0b };
	return size == sizeof(trap) && memcmp(code, trap, sizeof(trap)) == 0;
}

static void patch_one(const struct object *object, uint8_t *code, size_t size, uint8_t *stub)
{
	const uint8_t *lo = (const uint8_t *)object->code_lo,
		      *hi = (const uint8_t *)object->code_hi;
	uint8_t *to = stub + PATCH_STUB_BYTES;
	unsigned head = patch_head(code, size);
	if (!head || patch_led_into(code, size, head, lo, hi) || !patch_move(to, code, head)) {
		traps += only_traps(code, size);
		refused += size >= PATCH_JUMP_BYTES && !only_traps(code, size);
		small += size < PATCH_JUMP_BYTES;
		return;
	}
	all[patched].moved = to;
	patch_stub(stub, &all[patched], count_call);
	patched += patch_jump(code, stub);
}

static int patch_object(struct dl_phdr_info *info, size_t size, void *name)
{
	(void)size;
	const char *slash = strrchr(info->dlpi_name, '/');
	if (!slash || strcmp(slash + 1, name) != 0)
		return 0;
	struct object object = { 0 };
	look_at(info, &object);
	uint32_t count = symbols_of(&object);
	size_t each = PATCH_STUB_BYTES + PATCH_MOVED_MAX, bytes = count * each;
	uint8_t *room = room_behind(object.hi, bytes);
	all = calloc(count, sizeof(*all));
	if (!room || !all ||
	    mprotect((void *)object.code_lo, object.code_hi - object.code_lo,
		     PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
		abort();
	for (uint32_t i = 1; i < count; i++) {
		const ElfW(Sym) *symbol = &object.symbols[i];
		uint8_t *code = (uint8_t *)object.bias + symbol->st_value;
		if (ELF64_ST_TYPE(symbol->st_info) == STT_FUNC && symbol->st_shndx != SHN_UNDEF &&
		    symbol->st_size && !is_patched(code, room, bytes))
			patch_one(&object, code, symbol->st_size, room + i * each);
	}
	return 1;
}

__attribute__((constructor)) static void patch_all(void)
{
	char *name = getenv("PATCH_OBJECT");
	if (!name || !dl_iterate_phdr(patch_object, name))
		fprintf(stderr, "no such object\n");
	unsetenv("LD_PRELOAD"); /* not in what the program starts */
}

__attribute__((destructor)) static void tell(void)
{
	unsigned long calls = 0;
	for (unsigned i = 0; i < patched; i++)
		calls += all[i].calls;
	fprintf(stderr, "patched %u refused %u small %u traps %u calls %lu\n", patched, refused,
		small, traps, calls);
}
