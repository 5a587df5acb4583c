/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sym/image.h"
#include "sym/table.h"

struct functions {
	struct image_root root;
	struct image main, debug, mini;
	enum functions_names names;
	struct table stubs; /* once somebody asked */
	int stubs_tried;
	char stub[256];
};

static int has_section_of(const struct image *image, uint32_t type)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	while (image->elf && (scn = elf_nextscn(image->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == type && shdr.sh_size)
			return 1;
	return 0;
}

struct functions *functions_open(uint32_t pid, const char *path, const uint8_t *build_id,
				 uint8_t build_id_len, struct err *err)
{
	struct functions *f = calloc(1, sizeof(*f));
	if (!f) {
		err_set(err, -ENOMEM, "cannot look for functions");
		return NULL;
	}
	f->root.fd = -1;
	int rc = image_root_open(&f->root, pid, err);
	if (!rc) {
		rc = image_open_module(&f->main, &f->root, path, build_id, build_id_len);
		if (rc)
			err_set(err, rc, "cannot read '%s'", path);
	}
	if (rc) {
		functions_free(f);
		return NULL;
	}
	if (has_section_of(&f->main, SHT_SYMTAB)) {
		f->names = FUNCTIONS_ALL;
	} else {
		const struct debug_search search = { .root = &f->root };
		if (!image_find_debug(&f->debug, &search, &f->main, path, f->main.build_id,
				      f->main.build_id_len))
			f->names = FUNCTIONS_ALL;
		else if (!image_open_minidebug(&f->mini, &f->main))
			f->names = FUNCTIONS_MINIDEBUG;
		else if (has_section_of(&f->main, SHT_DYNSYM))
			f->names = FUNCTIONS_DYNAMIC;
	}
	return f;
}

void functions_free(struct functions *f)
{
	if (!f)
		return;
	table_fini(&f->stubs);
	image_close(&f->mini);
	image_close(&f->debug);
	image_close(&f->main);
	image_root_close(&f->root);
	free(f);
}

void functions_freep(struct functions **functions)
{
	functions_free(*functions);
}

enum functions_names functions_names(const struct functions *functions)
{
	return functions->names;
}

int functions_is_static(const struct functions *functions)
{
	size_t count;
	GElf_Ehdr ehdr;
	if (!gelf_getehdr(functions->main.elf, &ehdr) ||
	    elf_getphdrnum(functions->main.elf, &count) < 0)
		return 0;
	int dynamic = 0;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr phdr;
		if (gelf_getphdr(functions->main.elf, (int)i, &phdr) && phdr.p_type == PT_INTERP)
			return 0;
		dynamic |= phdr.p_type == PT_DYNAMIC;
	}
	return ehdr.e_type == ET_EXEC || dynamic;
}

static int each_in(const struct image *image, uint32_t type, int exports,
		   int (*fn)(void *ctx, const struct function *function), void *ctx)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	int rc = 0;
	while (!rc && image->elf && (scn = elf_nextscn(image->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != type || !shdr.sh_entsize)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		size_t count = data ? shdr.sh_size / shdr.sh_entsize : 0;
		for (size_t i = 0; !rc && i < count && i < INT32_MAX; i++) {
			GElf_Sym sym;
			if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
			    GELF_ST_TYPE(sym.st_info) != STT_FUNC || !sym.st_value)
				continue;
			struct function function = {
				.name = elf_strptr(image->elf, shdr.sh_link, sym.st_name),
				.vaddr = sym.st_value,
				.bytes = sym.st_size,
				.exported = exports && GELF_ST_BIND(sym.st_info) != STB_LOCAL,
			};
			if (function.name && function.name[0])
				rc = fn(ctx, &function);
		}
	}
	return rc;
}

int functions_each(struct functions *f, int (*fn)(void *ctx, const struct function *function),
		   void *ctx)
{
	int rc = each_in(&f->main, SHT_DYNSYM, 1, fn, ctx);
	if (!rc)
		rc = each_in(&f->main, SHT_SYMTAB, 0, fn, ctx);
	if (!rc)
		rc = each_in(&f->debug, SHT_SYMTAB, 0, fn, ctx);
	if (!rc)
		rc = each_in(&f->mini, SHT_SYMTAB, 0, fn, ctx);
	return rc;
}

uint64_t functions_variable(struct functions *f, const char *name)
{
	const struct image *images[] = { &f->main, &f->debug };
	for (size_t k = 0; k < 2; k++) {
		Elf_Scn *scn = NULL;
		GElf_Shdr shdr;
		while (images[k]->elf && (scn = elf_nextscn(images[k]->elf, scn))) {
			if (!gelf_getshdr(scn, &shdr) ||
			    (shdr.sh_type != SHT_SYMTAB && shdr.sh_type != SHT_DYNSYM) ||
			    !shdr.sh_entsize)
				continue;
			Elf_Data *data = elf_getdata(scn, NULL);
			size_t count = data ? shdr.sh_size / shdr.sh_entsize : 0;
			for (size_t i = 0; i < count && i < INT32_MAX; i++) {
				GElf_Sym sym;
				const char *own;
				if (gelf_getsym(data, (int)i, &sym) &&
				    GELF_ST_TYPE(sym.st_info) == STT_OBJECT &&
				    (own = elf_strptr(images[k]->elf, shdr.sh_link, sym.st_name)) &&
				    !strcmp(own, name))
					return sym.st_value;
			}
		}
	}
	return 0;
}

struct usdt_walk {
	int (*fn)(void *ctx, const struct usdt *usdt);
	void *ctx;
	uint64_t base; /* where .stapsdt.base is now; 0 = the file has none */
};

/* A file that was prelinked after it was linked: all has moved as its base has. */
static int put_usdt(void *ctx, const struct usdt *usdt)
{
	const struct usdt_walk *walk = ctx;
	struct usdt moved = *usdt;
	uint64_t by = walk->base && usdt->base ? walk->base - usdt->base : 0;
	moved.vaddr += by;
	if (moved.semaphore)
		moved.semaphore += by;
	return walk->fn(walk->ctx, &moved);
}

int functions_usdts(struct functions *f, int (*fn)(void *ctx, const struct usdt *usdt), void *ctx)
{
	struct usdt_walk walk = { fn, ctx, 0 };
	size_t names;
	Elf_Data *notes = NULL;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	if (elf_getshdrstrndx(f->main.elf, &names) < 0)
		return 0;
	while ((scn = elf_nextscn(f->main.elf, scn))) {
		const char *name = gelf_getshdr(scn, &shdr)
					   ? elf_strptr(f->main.elf, names, shdr.sh_name)
					   : NULL;
		if (name && !strcmp(name, ".stapsdt.base"))
			walk.base = shdr.sh_addr;
		else if (name && shdr.sh_type == SHT_NOTE && !strcmp(name, ".note.stapsdt"))
			notes = elf_rawdata(scn, NULL);
	}
	return notes && notes->d_buf ? usdt_notes(notes->d_buf, notes->d_size, put_usdt, &walk) : 0;
}

int64_t functions_vaddr(const struct functions *f, uint64_t offset)
{
	size_t count;
	if (elf_getphdrnum(f->main.elf, &count) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < count; i++) {
		GElf_Phdr phdr;
		if (gelf_getphdr(f->main.elf, (int)i, &phdr) && phdr.p_type == PT_LOAD &&
		    (phdr.p_flags & PF_X) && offset >= (phdr.p_offset & ~4095ull) &&
		    offset < phdr.p_offset + phdr.p_filesz)
			return (int64_t)(phdr.p_vaddr - phdr.p_offset + offset);
	}
	return -ENOENT;
}

static int find_segment(const struct functions *f, uint64_t vaddr, GElf_Phdr *phdr)
{
	size_t count;
	if (elf_getphdrnum(f->main.elf, &count) < 0)
		return -EBADMSG;
	for (size_t i = 0; i < count; i++)
		if (gelf_getphdr(f->main.elf, (int)i, phdr) && phdr->p_type == PT_LOAD &&
		    vaddr >= phdr->p_vaddr && vaddr - phdr->p_vaddr < phdr->p_filesz)
			return 0;
	return -ENOENT;
}

int64_t functions_offset(const struct functions *f, uint64_t vaddr)
{
	GElf_Phdr phdr;
	int rc = find_segment(f, vaddr, &phdr);
	return rc < 0 ? rc : (int64_t)(vaddr - phdr.p_vaddr + phdr.p_offset);
}

size_t functions_code(const struct functions *f, uint64_t vaddr, void *to, size_t bytes)
{
	GElf_Phdr phdr;
	if (find_segment(f, vaddr, &phdr) < 0 || !(phdr.p_flags & PF_X))
		return 0;
	uint64_t left = phdr.p_filesz - (vaddr - phdr.p_vaddr);
	if (bytes > left)
		bytes = left;
	ssize_t got = pread(f->main.fd, to, bytes, (off_t)(vaddr - phdr.p_vaddr + phdr.p_offset));
	return got < 0 ? 0 : (size_t)got;
}

const char *functions_stub(struct functions *f, uint64_t vaddr)
{
	static const char mark[] = "@plt";
	if (!f->stubs_tried++ &&
	    (table_code(&f->stubs, &f->main) < 0 ||
	     table_read(&f->stubs, &f->main, SHT_DYNSYM) < 0 || table_finish(&f->stubs) < 0 ||
	     table_plt(&f->stubs, &f->main) < 0 || table_finish(&f->stubs) < 0))
		table_fini(&f->stubs);
	struct table_symbol *symbol = table_find(&f->stubs, vaddr);
	const struct table_name *found = symbol ? table_name(&f->stubs, symbol) : NULL;
	size_t len = found ? strlen(found->name) : 0, cut = sizeof(mark) - 1;
	if (len <= cut || len >= sizeof(f->stub) || strcmp(found->name + len - cut, mark))
		return NULL;
	memcpy(f->stub, found->name, len - cut);
	f->stub[len - cut] = '\0';
	return f->stub;
}
