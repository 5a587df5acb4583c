/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/objects.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fileio.h"

#define OBJECTS_MAX 8192
#define DYNAMIC_MAX 512
#define PHDR_MAX 64
#define SYMBOLS_MAX (4u << 20)
#define STRINGS_MAX (256u << 20)
#define FRAMES_MAX (512u << 20)
#define AUX_MAX 64

static int get(const struct target *t, uint64_t addr, void *to, size_t len)
{
	return target_read(t, addr, to, len) == (ssize_t)len;
}

void objects_fini(struct objects *objects)
{
	for (size_t i = 0; i < objects->count; i++) {
		free(objects->list[i].symbols);
		free(objects->list[i].strings);
		free(objects->list[i].frames);
	}
	free(objects->list);
	*objects = (struct objects){ 0 };
}

/* ---- one object ------------------------------------------------------------------------------ */

/* The loader adds the bias to what it may write to; the kernel's object is as it was made. */
static uint64_t address(const struct object *o, uint64_t value)
{
	return value < o->bias ? o->bias + value : value;
}

static void read_dynamic(const struct target *t, struct object *o)
{
	Elf64_Dyn dyn[DYNAMIC_MAX];
	ssize_t got = target_read(t, o->dynamic, dyn, sizeof(dyn));
	size_t count = got > 0 ? (size_t)got / sizeof(dyn[0]) : 0;
	for (size_t i = 0; i < count && dyn[i].d_tag != DT_NULL; i++) {
		uint64_t value = dyn[i].d_un.d_val, at = address(o, value);
		switch (dyn[i].d_tag) {
		case DT_SYMTAB:
			o->symbols_at = at;
			break;
		case DT_STRTAB:
			o->strings_at = at;
			break;
		case DT_STRSZ:
			o->strings_bytes = value;
			break;
		case DT_GNU_HASH:
			o->gnu_hash_at = at;
			break;
		case DT_HASH:
			o->hash_at = at;
			break;
		case DT_JMPREL:
			o->plt_at = at;
			break;
		case DT_PLTRELSZ:
			o->plt_bytes = value;
			break;
		case DT_RELA:
			o->rela_at = at;
			break;
		case DT_RELASZ:
			o->rela_bytes = value;
			break;
		default:
			break;
		}
	}
}

static void take_headers(struct object *o, const Elf64_Phdr *ph, size_t count)
{
	o->lo = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		uint64_t at = o->bias + ph[i].p_vaddr, end = at + ph[i].p_memsz;
		if (ph[i].p_type == PT_LOAD) {
			o->lo = (at & ~4095ull) < o->lo ? at & ~4095ull : o->lo;
			o->hi = end > o->hi ? end : o->hi;
		} else if (ph[i].p_type == PT_GNU_EH_FRAME) {
			o->frames_at = at;
		} else if (ph[i].p_type == PT_DYNAMIC) {
			o->dynamic = at;
		}
	}
	for (size_t i = 0; i < count && o->frames_at; i++) {
		uint64_t at = o->bias + ph[i].p_vaddr;
		if (ph[i].p_type != PT_LOAD || o->frames_at - at >= ph[i].p_filesz)
			continue;
		o->frames_lo = at;
		o->frames_hi = at + ph[i].p_filesz;
	}
}

static int read_headers(const struct target *t, struct object *o)
{
	Elf64_Ehdr eh;
	Elf64_Phdr ph[PHDR_MAX];
	if (!get(t, o->bias, &eh, sizeof(eh)) || memcmp(eh.e_ident, ELFMAG, SELFMAG) != 0 ||
	    eh.e_phentsize != sizeof(ph[0]) || eh.e_phnum > PHDR_MAX ||
	    !get(t, o->bias + eh.e_phoff, ph, eh.e_phnum * sizeof(ph[0])))
		return 0;
	take_headers(o, ph, eh.e_phnum);
	return 1;
}

static void classify(struct object *o)
{
	static const char *const parts[] = { "libc.so.6",  "libpthread.so.0", "libdl.so.2",
					     "librt.so.1", "libc-2.",         "libpthread-2.",
					     "libdl-2.",   "librt-2." };
	const char *slash = strrchr(o->name, '/'), *file = slash ? slash + 1 : o->name;
	o->is_loader = strncmp(file, "ld-linux", 8) == 0 || strncmp(file, "ld-2.", 5) == 0;
	o->is_vdso = strncmp(file, "linux-vdso", 10) == 0;
	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		o->is_libc |= strncmp(file, parts[i], strlen(parts[i])) == 0;
}

/* ---- all of them ----------------------------------------------------------------------------- */

struct aux {
	uint64_t phdr, phnum, base;
};

static int read_aux(const struct target *t, struct aux *to)
{
	Elf64_auxv_t aux[AUX_MAX];
	CLEANUP(fileio_closep) int fd = target_openat(t, "auxv", O_RDONLY | O_CLOEXEC);
	ssize_t got = fd < 0 ? -1 : read(fd, aux, sizeof(aux));
	for (ssize_t i = 0; i < got / (ssize_t)sizeof(aux[0]); i++) {
		if (aux[i].a_type == AT_PHDR)
			to->phdr = aux[i].a_un.a_val;
		else if (aux[i].a_type == AT_PHNUM)
			to->phnum = aux[i].a_un.a_val;
		else if (aux[i].a_type == AT_BASE)
			to->base = aux[i].a_un.a_val;
	}
	return to->phdr && to->phnum && to->phnum <= PHDR_MAX;
}

/* Where the loader's book begins, as the executable's dynamic section tells debuggers. */
static uint64_t book(const struct target *t, const struct object *exe)
{
	Elf64_Dyn dyn[DYNAMIC_MAX];
	struct r_debug debug;
	ssize_t got = target_read(t, exe->dynamic, dyn, sizeof(dyn));
	size_t count = got > 0 ? (size_t)got / sizeof(dyn[0]) : 0;
	for (size_t i = 0; i < count && dyn[i].d_tag != DT_NULL; i++)
		if (dyn[i].d_tag == DT_DEBUG && get(t, dyn[i].d_un.d_ptr, &debug, sizeof(debug)) &&
		    debug.r_state == RT_CONSISTENT)
			return (uint64_t)(uintptr_t)debug.r_map;
	return 0;
}

static struct object *add(struct objects *objects, size_t *room)
{
	if (objects->count == *room) {
		size_t grown = *room ? 2 * *room : 64;
		struct object *list = reallocarray(objects->list, grown, sizeof(*list));
		if (!list)
			return NULL;
		objects->list = list;
		*room = grown;
	}
	struct object *o = &objects->list[objects->count++];
	memset(o, 0, sizeof(*o));
	return o;
}

static void read_name(const struct target *t, uint64_t at, char *to, size_t size)
{
	ssize_t got = at ? target_read(t, at, to, size - 1) : 0;
	to[got > 0 ? got : 0] = '\0';
}

int objects_read(struct objects *objects, const struct target *t, struct err *err)
{
	struct aux aux = { 0 };
	Elf64_Phdr ph[PHDR_MAX];
	struct object exe = { 0 };
	size_t room = 0;
	objects_fini(objects);
	objects->target = t;
	errno = 0;
	if (!read_aux(t, &aux) || !get(t, aux.phdr, ph, aux.phnum * sizeof(ph[0]))) {
		int code = target_fail(t, errno ? -errno : -EIO, "memory", err);
		/* it is there, but not all of its memory is of the same program */
		return code == -EIO || code == -EFAULT ? err->code = -EAGAIN : code;
	}
	for (size_t i = 0; i < aux.phnum; i++)
		if (ph[i].p_type == PT_PHDR)
			exe.bias = aux.phdr - ph[i].p_vaddr;
	take_headers(&exe, ph, aux.phnum);
	if (!exe.dynamic || !aux.base)
		return err_set(err, -ENOEXEC, "it is statically linked, so no library can come in");
	uint64_t at = book(t, &exe);
	if (!at)
		return err_set(err, -EAGAIN, "process %d is being started", (int)t->pid);
	struct link_map map;
	for (size_t n = 0; at && n < OBJECTS_MAX && get(t, at, &map, sizeof(map)); n++) {
		struct object *o = add(objects, &room);
		if (!o)
			return err_set(err, -ENOMEM, "cannot read the program's objects");
		o->bias = map.l_addr;
		o->map_at = at;
		read_name(t, (uint64_t)(uintptr_t)map.l_name, o->name, sizeof(o->name));
		if (n == 0) {
			o->bias = exe.bias;
			take_headers(o, ph, aux.phnum);
		} else if (!read_headers(t, o)) {
			objects->count--;
			at = (uint64_t)(uintptr_t)map.l_next;
			continue;
		}
		classify(o);
		read_dynamic(t, o);
		at = (uint64_t)(uintptr_t)map.l_next;
	}
	return 0;
}

struct object *objects_at(const struct objects *objects, uint64_t addr)
{
	for (size_t i = 0; i < objects->count; i++)
		if (addr >= objects->list[i].lo && addr < objects->list[i].hi)
			return &objects->list[i];
	return NULL;
}

struct object *objects_named(const struct objects *objects, const char *file)
{
	for (size_t i = 0; i < objects->count; i++) {
		const char *slash = strrchr(objects->list[i].name, '/');
		if (strcmp(slash ? slash + 1 : objects->list[i].name, file) == 0)
			return &objects->list[i];
	}
	return NULL;
}

/* ---- symbols --------------------------------------------------------------------------------- */

/* How many there are: the table does not say, but the hashes do. */
static uint64_t count_symbols(const struct target *t, const struct object *o)
{
	uint32_t head[4], sysv[2], last = 0, chain[256];
	if (o->hash_at && get(t, o->hash_at, sysv, sizeof(sysv)))
		return sysv[1];
	if (!o->gnu_hash_at || !get(t, o->gnu_hash_at, head, sizeof(head)) ||
	    head[0] > SYMBOLS_MAX || head[2] > SYMBOLS_MAX)
		return 0;
	uint64_t buckets_at = o->gnu_hash_at + sizeof(head) + 8ull * head[2];
	uint32_t *buckets = malloc(((size_t)head[0] + 1) * sizeof(*buckets));
	if (!buckets || !get(t, buckets_at, buckets, (size_t)head[0] * sizeof(*buckets))) {
		free(buckets);
		return 0;
	}
	for (uint32_t i = 0; i < head[0]; i++)
		last = buckets[i] > last ? buckets[i] : last;
	free(buckets);
	if (last < head[1])
		return head[1];
	for (uint64_t at = buckets_at + 4ull * head[0] + 4ull * (last - head[1]);
	     last < SYMBOLS_MAX;) {
		ssize_t got = target_read(t, at, chain, sizeof(chain));
		for (ssize_t i = 0; i < got / 4; i++, last++)
			if (chain[i] & 1)
				return last + 1;
		if (got < (ssize_t)sizeof(chain))
			return 0;
		at += sizeof(chain);
	}
	return 0;
}

int object_symbols(const struct objects *objects, struct object *o)
{
	if (o->symbols || o->no_symbols)
		return o->symbols != NULL;
	o->no_symbols = 1;
	uint64_t count = count_symbols(objects->target, o);
	if (!count || count > SYMBOLS_MAX || !o->strings_bytes || o->strings_bytes > STRINGS_MAX)
		return 0;
	Elf64_Sym *symbols = calloc(count, sizeof(*symbols));
	char *strings = malloc(o->strings_bytes + 1);
	if (!symbols || !strings ||
	    !get(objects->target, o->symbols_at, symbols, count * sizeof(*symbols)) ||
	    !get(objects->target, o->strings_at, strings, o->strings_bytes)) {
		free(symbols);
		free(strings);
		return 0;
	}
	strings[o->strings_bytes] = '\0';
	o->symbols = symbols;
	o->strings = strings;
	o->symbol_count = count;
	return 1;
}

static int is_defined(const struct object *o, const Elf64_Sym *sym)
{
	unsigned type = ELF64_ST_TYPE(sym->st_info);
	return sym->st_shndx != SHN_UNDEF && sym->st_value && sym->st_name < o->strings_bytes &&
	       (type == STT_FUNC || type == STT_OBJECT);
}

uint64_t object_find(const struct objects *objects, struct object *o, const char *name)
{
	if (!object_symbols(objects, o))
		return 0;
	for (size_t i = 0; i < o->symbol_count; i++)
		if (is_defined(o, &o->symbols[i]) &&
		    strcmp(o->strings + o->symbols[i].st_name, name) == 0)
			return o->bias + o->symbols[i].st_value;
	return 0;
}

int object_is_in(const struct objects *objects, struct object *o, uint64_t addr,
		 const char *const *names)
{
	if (!object_symbols(objects, o))
		return 0;
	for (size_t i = 0; i < o->symbol_count; i++) {
		const Elf64_Sym *sym = &o->symbols[i];
		if (!is_defined(o, sym) || addr - o->bias - sym->st_value >= sym->st_size)
			continue;
		for (size_t k = 0; names[k]; k++)
			if (strcmp(o->strings + sym->st_name, names[k]) == 0)
				return 1;
	}
	return 0;
}

int object_is_named(const struct objects *objects, struct object *o, uint64_t addr)
{
	if (!object_symbols(objects, o))
		return 0;
	for (size_t i = 0; i < o->symbol_count; i++)
		if (is_defined(o, &o->symbols[i]) &&
		    addr - o->bias - o->symbols[i].st_value < o->symbols[i].st_size)
			return 1;
	return 0;
}

int object_frames(const struct objects *objects, struct object *o)
{
	if (o->frames || o->no_frames)
		return o->frames != NULL;
	o->no_frames = 1;
	size_t bytes = o->frames_hi - o->frames_lo;
	if (!o->frames_at || !bytes || bytes > FRAMES_MAX)
		return 0;
	uint8_t *frames = malloc(bytes);
	if (frames && !get(objects->target, o->frames_lo, frames, bytes)) {
		free(frames);
		frames = NULL;
	}
	o->frames = frames;
	return frames != NULL;
}
