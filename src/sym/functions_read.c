/* SPDX-License-Identifier: Apache-2.0 */
/*
 * functions_read.c - the reader's side of functions.h: names, stubs, probes and variables of the
 * file that was given.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sym/files.h"
#include "sym/functions.h"
#include "sym/functions_wire.h"
#include "sym/table.h"

#define MORE_BYTES (256u << 10) /* of one answer of many */

/* One process, one file at a time. */
static struct {
	struct image main, debug, mini;
	struct buf out;
} file;

static int has_section_of(const struct image *image, uint32_t type)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	while (image->elf && (scn = elf_nextscn(image->elf, scn)))
		if (gelf_getshdr(scn, &shdr) && shdr.sh_type == type && shdr.sh_size)
			return 1;
	return 0;
}

static uint32_t open_file(const struct image_root *root, const struct buf *in)
{
	struct file_ask ask;
	char path[PATH_MAX + 1], *found = NULL;
	int fd;
	image_close(&file.mini);
	image_close(&file.debug);
	image_close(&file.main);
	memcpy(&ask, in->data, sizeof(ask));
	memcpy(path, in->data + sizeof(ask), ask.path_len);
	path[ask.path_len] = '\0';
	if (!opener_ask(OPENER_GIVEN, "", 0, 0, &found, &fd) || fd < 0 ||
	    image_open_fd(&file.main, fd, ask.build_id, (uint8_t)ask.build_id_len) < 0)
		return FUNCTIONS_UNREADABLE;
	const struct debug_search search = { .root = root };
	if (has_section_of(&file.main, SHT_SYMTAB) ||
	    !image_find_debug(&file.debug, &search, &file.main, path, file.main.build_id,
			      file.main.build_id_len))
		return FUNCTIONS_ALL;
	if (!image_open_minidebug(&file.mini, &file.main))
		return FUNCTIONS_MINIDEBUG;
	return has_section_of(&file.main, SHT_DYNSYM) ? FUNCTIONS_DYNAMIC : FUNCTIONS_STRIPPED;
}

static void put_name(const struct function_head *head, const char *name)
{
	buf_put(&file.out, head, sizeof(*head));
	buf_put(&file.out, name, head->name_len);
	buf_putc(&file.out, '\0');
	if (file.out.len > MORE_BYTES) {
		reader_answer(FILES_MORE, &file.out);
		buf_clear(&file.out);
	}
}

static void each_in(const struct image *image, uint32_t type, int exports)
{
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	while (image->elf && (scn = elf_nextscn(image->elf, scn))) {
		if (!gelf_getshdr(scn, &shdr) || shdr.sh_type != type || !shdr.sh_entsize)
			continue;
		Elf_Data *data = elf_getdata(scn, NULL);
		size_t count = data ? shdr.sh_size / shdr.sh_entsize : 0;
		for (size_t i = 0; i < count && i < INT32_MAX; i++) {
			GElf_Sym sym;
			if (!gelf_getsym(data, (int)i, &sym) || sym.st_shndx == SHN_UNDEF ||
			    GELF_ST_TYPE(sym.st_info) != STT_FUNC || !sym.st_value)
				continue;
			const char *name = elf_strptr(image->elf, shdr.sh_link, sym.st_name);
			if (!name || !name[0])
				continue;
			put_name(
				&(struct function_head){
					.vaddr = sym.st_value,
					.bytes = sym.st_size,
					.name_len = (uint32_t)strnlen(name, TABLE_NAME_MAX),
					.exported =
						exports && GELF_ST_BIND(sym.st_info) != STB_LOCAL,
				},
				name);
		}
	}
}

static void each(void)
{
	each_in(&file.main, SHT_DYNSYM, 1);
	each_in(&file.main, SHT_SYMTAB, 0);
	each_in(&file.debug, SHT_SYMTAB, 0);
	each_in(&file.mini, SHT_SYMTAB, 0);
}

static void stubs(void)
{
	static const char mark[] = "@plt";
	struct table table = { 0 };
	size_t cut = sizeof(mark) - 1;
	if (table_code(&table, &file.main) < 0 || table_read(&table, &file.main, SHT_DYNSYM) < 0 ||
	    table_finish(&table) < 0 || table_plt(&table, &file.main) < 0 ||
	    table_finish(&table) < 0)
		table_fini(&table);
	for (size_t i = 0; i < table.count; i++) {
		struct table_symbol *s = &table.symbols[i];
		const struct table_name *found =
			table_is_stub(&table, s->lo) ? table_name(&table, s) : NULL;
		size_t len = found ? strlen(found->name) : 0;
		if (len > cut && len < FUNCTIONS_STUB_MAX && !strcmp(found->name + len - cut, mark))
			put_name(&(struct function_head){ .vaddr = s->lo,
							  .bytes = s->hi - s->lo,
							  .name_len = (uint32_t)(len - cut) },
				 found->name);
	}
	table_fini(&table);
}

static uint64_t variable(const char *name)
{
	const struct image *images[] = { &file.main, &file.debug };
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

static void variables(const struct buf *in)
{
	for (size_t at = 0; at < in->len; at += strlen(in->data + at) + 1) {
		uint64_t value = variable(in->data + at);
		buf_put(&file.out, &value, sizeof(value));
	}
}

static void usdts(void)
{
	size_t names;
	uint64_t base = 0;
	Elf_Data *notes = NULL;
	Elf_Scn *scn = NULL;
	GElf_Shdr shdr;
	if (!file.main.elf || elf_getshdrstrndx(file.main.elf, &names) < 0)
		return;
	while ((scn = elf_nextscn(file.main.elf, scn))) {
		const char *name = gelf_getshdr(scn, &shdr)
					   ? elf_strptr(file.main.elf, names, shdr.sh_name)
					   : NULL;
		if (name && !strcmp(name, ".stapsdt.base"))
			base = shdr.sh_addr;
		else if (name && shdr.sh_type == SHT_NOTE && !strcmp(name, ".note.stapsdt"))
			notes = elf_rawdata(scn, NULL);
	}
	if (!notes || !notes->d_buf || notes->d_size > READER_ANSWER_MAX / 2)
		return;
	buf_put(&file.out, &base, sizeof(base));
	buf_put(&file.out, notes->d_buf, notes->d_size);
}

void functions_hear(struct elf_files *files, uint32_t what, const struct buf *in)
{
	buf_clear(&file.out);
	if (what == FILES_FUNCTIONS) {
		uint32_t names = open_file(&files->root, in);
		buf_put(&file.out, &names, sizeof(names));
	} else if (what == FILES_EACH) {
		each();
	} else if (what == FILES_STUBS) {
		stubs();
	} else if (what == FILES_USDTS) {
		usdts();
	} else if (what == FILES_VARIABLES) {
		variables(in);
	}
	reader_answer(FILES_END, &file.out);
}
