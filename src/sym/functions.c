/* SPDX-License-Identifier: Apache-2.0 */
#include "sym/functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sym/files.h"
#include "sym/functions_wire.h"

#define STUBS_MAX (1u << 20)

struct stub {
	uint64_t lo, hi;
	char *name;
};

struct functions {
	struct elf_files *files;
	struct headed main;
	enum functions_names names;
	/* by lo, once somebody asked */
	struct stub *stubs;
	size_t stub_count, stub_cap;
	int stubs_tried;
};

struct functions *functions_open(struct elf_files *files, const char *path, const uint8_t *build_id,
				 uint8_t build_id_len, struct err *err)
{
	struct functions *f = calloc(1, sizeof(*f));
	uint32_t what, names;
	char *found = NULL;
	if (!f) {
		err_set(err, -ENOMEM, "cannot look for functions");
		return NULL;
	}
	f->files = files;
	f->main.fd = -1;
	int rc = elf_files_open(files, path, build_id, build_id_len, &f->main, &found);
	if (!rc)
		rc = elf_files_ask(files, FILES_FUNCTIONS, f->main.fd, found ? found : path,
				   &f->main.head, &what);
	if (rc == -EPIPE)
		err_set(err, rc, "whoever reads '%s' died", path);
	const struct buf *heard = rc ? NULL : reader_buf(files->reader);
	if (!rc && (what != FILES_END || heard->len != sizeof(names)))
		rc = -EBADMSG;
	if (!rc) {
		memcpy(&names, heard->data, sizeof(names));
		rc = names > FUNCTIONS_ALL ? -EBADMSG : 0;
	}
	free(found);
	if (rc) {
		if (rc != -EPIPE)
			err_set(err, rc, "cannot read '%s'", path);
		functions_free(f);
		return NULL;
	}
	f->names = (enum functions_names)names;
	return f;
}

void functions_free(struct functions *f)
{
	if (!f)
		return;
	for (size_t i = 0; i < f->stub_count; i++)
		free(f->stubs[i].name);
	free(f->stubs);
	if (f->main.fd >= 0)
		close(f->main.fd);
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
	const struct elf_head *head = &functions->main.head;
	int dynamic = 0;
	for (uint32_t i = 0; i < head->segment_count; i++) {
		if (head->segments[i].p_type == PT_INTERP)
			return 0;
		dynamic |= head->segments[i].p_type == PT_DYNAMIC;
	}
	return head->type == ET_EXEC || dynamic;
}

/* One answer of names: 0, nonzero of @fn, or -EPIPE where it breaks the rules. */
static int take_names(const struct buf *heard,
		      int (*fn)(void *ctx, const struct function *function), void *ctx)
{
	size_t at = 0;
	int rc = 0;
	while (!rc && at < heard->len) {
		struct function_head head;
		if (heard->len - at < sizeof(head))
			return -EPIPE;
		memcpy(&head, heard->data + at, sizeof(head));
		at += sizeof(head);
		if (head.name_len >= heard->len - at || heard->data[at + head.name_len] != '\0')
			return -EPIPE;
		const struct function function = { .name = heard->data + at,
						   .vaddr = head.vaddr,
						   .bytes = head.bytes,
						   .exported = head.exported != 0 };
		at += head.name_len + 1u;
		rc = fn(ctx, &function);
	}
	return rc;
}

static int ask_names(struct functions *f, enum files_say which,
		     int (*fn)(void *ctx, const struct function *function), void *ctx)
{
	struct elf_files *files = f->files;
	uint32_t what = FILES_MORE;
	int rc = 0;
	if (files->reader)
		buf_clear(reader_buf(files->reader));
	if (elf_files_ask(files, which, -1, NULL, NULL, &what) < 0)
		return -EPIPE;
	for (;;) {
		/* what @fn did not want to hear has to be heard all the same */
		if (!rc)
			rc = take_names(reader_buf(files->reader), fn, ctx);
		if (what != FILES_MORE)
			return rc;
		if (reader_hear(files->reader, &what) < 0)
			return elf_files_died(files);
	}
}

int functions_each(struct functions *f, int (*fn)(void *ctx, const struct function *function),
		   void *ctx)
{
	return ask_names(f, FILES_EACH, fn, ctx);
}

int functions_variables(struct functions *f, const char *const names[], size_t count, uint64_t at[])
{
	struct elf_files *files = f->files;
	uint32_t what;
	memset(at, 0, count * sizeof(*at));
	if (!files->reader)
		return -EPIPE;
	struct buf *buf = reader_buf(files->reader);
	buf_clear(buf);
	for (size_t i = 0; i < count; i++)
		buf_put(buf, names[i], strlen(names[i]) + 1);
	if (elf_files_ask(files, FILES_VARIABLES, -1, NULL, NULL, &what) < 0)
		return -EPIPE;
	if (what != FILES_END || buf->len != count * sizeof(*at))
		return elf_files_died(files);
	memcpy(at, buf->data, count * sizeof(*at));
	return 0;
}

uint64_t functions_variable(struct functions *f, const char *name)
{
	uint64_t at;
	functions_variables(f, &name, 1, &at);
	return at;
}

struct usdt_walk {
	int (*fn)(void *ctx, const struct usdt *usdt);
	void *ctx;
	/* where .stapsdt.base is now; 0 = the file has none */
	uint64_t base;
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
	uint32_t what;
	if (!f->files->reader)
		return 0;
	struct buf *buf = reader_buf(f->files->reader);
	buf_clear(buf);
	if (elf_files_ask(f->files, FILES_USDTS, -1, NULL, NULL, &what) < 0 ||
	    buf->len < sizeof(walk.base))
		return 0;
	/* who is told may ask for more, which takes the buffer */
	size_t bytes = buf->len;
	uint8_t *notes = malloc(bytes);
	if (!notes)
		return -ENOMEM;
	memcpy(notes, buf->data, bytes);
	memcpy(&walk.base, notes, sizeof(walk.base));
	int rc = usdt_notes(notes + sizeof(walk.base), bytes - sizeof(walk.base), put_usdt, &walk);
	free(notes);
	return rc;
}

int64_t functions_vaddr(const struct functions *f, uint64_t offset)
{
	const struct elf_head *head = &f->main.head;
	for (uint32_t i = 0; i < head->segment_count; i++) {
		const Elf64_Phdr *s = &head->segments[i];
		if (s->p_type == PT_LOAD && (s->p_flags & PF_X) &&
		    offset >= (s->p_offset & ~4095ull) &&
		    (offset < s->p_offset || offset - s->p_offset < s->p_filesz))
			return (int64_t)(s->p_vaddr - s->p_offset + offset);
	}
	return -ENOENT;
}

static const Elf64_Phdr *find_segment(const struct functions *f, uint64_t vaddr)
{
	const struct elf_head *head = &f->main.head;
	for (uint32_t i = 0; i < head->segment_count; i++) {
		const Elf64_Phdr *s = &head->segments[i];
		if (s->p_type == PT_LOAD && vaddr >= s->p_vaddr && vaddr - s->p_vaddr < s->p_filesz)
			return s;
	}
	return NULL;
}

int64_t functions_offset(const struct functions *f, uint64_t vaddr)
{
	const Elf64_Phdr *s = find_segment(f, vaddr);
	return s ? (int64_t)(vaddr - s->p_vaddr + s->p_offset) : -ENOENT;
}

size_t functions_code(const struct functions *f, uint64_t vaddr, void *to, size_t bytes)
{
	const Elf64_Phdr *s = find_segment(f, vaddr);
	if (!s || !(s->p_flags & PF_X))
		return 0;
	uint64_t left = s->p_filesz - (vaddr - s->p_vaddr);
	if (bytes > left)
		bytes = left;
	ssize_t got = pread(f->main.fd, to, bytes, (off_t)(vaddr - s->p_vaddr + s->p_offset));
	return got < 0 ? 0 : (size_t)got;
}

static int take_stub(void *ctx, const struct function *function)
{
	struct functions *f = ctx;
	if (f->stub_count == f->stub_cap) {
		size_t cap = f->stub_cap ? f->stub_cap * 2 : 256;
		struct stub *grown =
			cap > STUBS_MAX ? NULL : reallocarray(f->stubs, cap, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		f->stubs = grown;
		f->stub_cap = cap;
	}
	struct stub *stub = &f->stubs[f->stub_count];
	*stub = (struct stub){ function->vaddr, function->vaddr + function->bytes,
			       strdup(function->name) };
	f->stub_count += stub->name != NULL;
	return stub->name ? 0 : -ENOMEM;
}

static int by_lo(const void *a, const void *b)
{
	const struct stub *x = a, *y = b;
	return (x->lo > y->lo) - (x->lo < y->lo);
}

const char *functions_stub(struct functions *f, uint64_t vaddr)
{
	if (!f->stubs_tried++) {
		ask_names(f, FILES_STUBS, take_stub, f);
		if (f->stub_count)
			qsort(f->stubs, f->stub_count, sizeof(*f->stubs), by_lo);
	}
	size_t lo = 0, hi = f->stub_count;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (f->stubs[mid].lo <= vaddr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo && vaddr < f->stubs[lo - 1].hi ? f->stubs[lo - 1].name : NULL;
}
