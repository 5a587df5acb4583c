/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symbols.c - add what frames resolve to, and readings of pages, to a recording that is finished.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fileio.h"
#include "trace/defs.h"
#include "trace/paged.h"
#include "trace/reader.h"
#include "trace/replay.h"

#define BLOCK_BYTES (1u << 20)

/* The recording's own modules and frames, and which of them have symbols already. */
struct names {
	struct sink sink;
	const struct prof *prof;
	/* by the recording's module number: the prof's */
	uint32_t *module_row;
	uint32_t module_count;
	struct own_frame {
		uint64_t offset;
		uint32_t module_row, id;
		int defined;
		enum prof_knows resolved;
	} * frame;
	uint32_t frame_count;
};

/* What is written: blocks behind @end. */
struct addition {
	int fd;
	uint64_t end;
	struct zblock_enc *zenc;
	struct defs_enc defs;
	uint64_t defs_before, time_ns;
	struct buf out;
	struct index *index;
};

static int grow(void **array, uint32_t *count, uint32_t id, size_t size, struct err *err)
{
	if (id < *count)
		return 0;
	uint32_t more = *count ? *count : 256;
	while (more <= id)
		more *= 2;
	void *to = realloc(*array, more * size);
	if (!to)
		return err_set(err, -ENOMEM, "cannot hold %u definitions", more);
	memset((char *)to + *count * size, 0, (more - *count) * size);
	*array = to;
	*count = more;
	return 0;
}

/* The prof's row of the same module; UINT32_MAX where it has none. */
static uint32_t find_module(const struct prof *prof, const struct def *def)
{
	const char *path = def->module.path ? def->module.path : "";
	for (uint32_t i = 0; i < prof_module_count(prof); i++) {
		const struct prof_module *m = prof_module(prof, (struct module_id){ i });
		if (m && m->path && strcmp(m->path, path) == 0 &&
		    m->build_id_len == def->module.build_id_len &&
		    memcmp(m->build_id, def->module.build_id, m->build_id_len) == 0)
			return i;
	}
	return UINT32_MAX;
}

static int names_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct names *n = (struct names *)sink;
	if (def->kind == DEF_MODULE) {
		int rc = grow((void **)&n->module_row, &n->module_count, def->id,
			      sizeof(*n->module_row), err);
		if (rc < 0)
			return rc;
		n->module_row[def->id] = find_module(n->prof, def);
	} else if (def->kind == DEF_FRAME || def->kind == DEF_SYMBOL) {
		int rc = grow((void **)&n->frame, &n->frame_count, def->id, sizeof(*n->frame), err);
		if (rc < 0)
			return rc;
		struct own_frame *f = &n->frame[def->id];
		f->id = def->id;
		if (def->kind == DEF_SYMBOL) {
			f->resolved = symbols_know(def->symbol.symbols, def->symbol.count);
			return 0;
		}
		uint32_t module = def->frame.module.v;
		f->module_row = module < n->module_count ? n->module_row[module] : 0;
		f->offset = def->frame.offset;
		f->defined = 1;
	}
	return 0;
}

static int names_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	(void)sink;
	(void)events;
	(void)count;
	(void)err;
	return 0;
}

static int by_place(const void *a, const void *b)
{
	const struct own_frame *x = a, *y = b;
	if (x->module_row != y->module_row)
		return x->module_row < y->module_row ? -1 : 1;
	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int write_out(struct addition *to, struct err *err)
{
	int rc = fileio_pwrite(to->fd, to->out.data, to->out.len, to->end);
	if (rc < 0)
		return err_set(err, rc, "cannot add to the recording");
	to->end += to->out.len;
	buf_clear(&to->out);
	return 0;
}

static int write_defs(struct addition *to, struct err *err)
{
	if (!to->defs.rows)
		return 0;
	struct blt_head head = { .type = BLT_DEFS,
				 .rows = to->defs.rows,
				 .first = to->defs_before,
				 .time_ns = to->time_ns };
	int rc = blt_pack(&to->defs.cols, &head, to->zenc, &to->out, err);
	if (rc >= 0)
		rc = index_add(to->index, to->end, &head, err);
	to->defs_before += to->defs.rows;
	defs_enc_clear(&to->defs);
	return rc < 0 ? rc : write_out(to, err);
}

/* Every symbol that the prof has for a frame of the recording, unless the recording has one. */
static int write_symbols(struct addition *to, struct names *names, struct err *err)
{
	const struct prof *prof = names->prof;
	int rc = 0;
	if (names->frame_count)
		qsort(names->frame, names->frame_count, sizeof(*names->frame), by_place);
	for (uint32_t i = 1; i < prof_frame_count(prof) && rc >= 0; i++) {
		const struct prof_frame *f = prof_frame(prof, (struct frame_id){ i });
		struct own_frame key = { .offset = f->offset, .module_row = f->module.v };
		if (!f->symbols || !f->symbol_count || !names->frame_count)
			continue;
		struct own_frame *own = bsearch(&key, names->frame, names->frame_count,
						sizeof(*names->frame), by_place);
		if (!own)
			continue;
		enum prof_knows knows_more = prof_frame_knows(f);
		/* several numbers may name one place; the search finds any of them */
		struct own_frame *end = names->frame + names->frame_count;
		while (own > names->frame && by_place(own - 1, &key) == 0)
			own--;
		for (; own < end && by_place(own, &key) == 0 && rc >= 0; own++) {
			if (!own->defined || own->resolved >= knows_more)
				continue;
			struct def def = { .kind = DEF_SYMBOL, .id = own->id };
			def.symbol.symbols = f->symbols;
			def.symbol.count = f->symbol_count < DEFS_SYMBOLS_MAX ? f->symbol_count
									      : DEFS_SYMBOLS_MAX;
			rc = defs_enc_add(&to->defs, &def, err);
			if (rc >= 0 &&
			    (to->defs.bytes >= BLOCK_BYTES || to->defs.rows >= BLT_ROWS_MAX))
				rc = write_defs(to, err);
		}
	}
	return rc < 0 ? rc : write_defs(to, err);
}

struct readings {
	struct page_shot *const *shots;
	size_t count;
	pid_t pid;
	uint64_t zero_ns;
};

static int write_paged(struct addition *to, struct blt_cols *cols, struct blt_head *head, int rc,
		       struct err *err)
{
	if (rc < 0)
		err_set(err, rc, "cannot add readings of pages");
	else
		rc = blt_pack(cols, head, to->zenc, &to->out, err);
	if (rc >= 0)
		rc = index_add(to->index, to->end, head, err);
	blt_cols_fini(cols);
	return rc < 0 ? rc : write_out(to, err);
}

static int write_readings(struct addition *to, const struct readings *readings, struct err *err)
{
	struct paged_names names = { 0 };
	const struct page_process *last = NULL;
	int rc = 0;
	for (size_t i = 0; rc >= 0 && i < readings->count; i++) {
		const struct page_process *process =
			page_shot_find(readings->shots[i], readings->pid);
		struct blt_cols cols = { 0 };
		struct blt_head head = { .type = BLT_PAGES, .rows = 1 };
		/* of one that has ended every shot has the last reading */
		if (!process || process == last || process->time_ns < readings->zero_ns)
			continue;
		last = process;
		head.time_ns = process->time_ns - readings->zero_ns;
		rc = paged_encode(&cols, readings->shots[i], process, readings->zero_ns, &names);
		rc = write_paged(to, &cols, &head, rc, err);
	}
	for (uint32_t from = 0, count = 1; rc >= 0 && count && from < names.room;) {
		struct blt_cols cols = { 0 };
		struct blt_head head = { .type = BLT_PAGES, .time_ns = to->time_ns };
		rc = paged_encode_names(&cols, &names, &from, &count);
		head.rows = count;
		if (rc < 0 || count)
			rc = write_paged(to, &cols, &head, rc, err);
		else
			blt_cols_fini(&cols);
	}
	paged_names_fini(&names);
	return rc;
}

/* Where the last whole block ends, and the definitions up to there. */
static int survey(struct trace_reader *r, struct addition *to, struct index *index, struct err *err)
{
	to->end = BLT_FILE_HEADER;
	for (uint64_t at = BLT_FILE_HEADER; at < r->info.file_bytes;) {
		struct blt_head head;
		int rc = reader_head(r, at, &head);
		if (rc == 0)
			rc = reader_resync(r, at + 1, &at);
		else if (rc > 0) {
			rc = index_add(index, at, &head, err);
			at += BLT_BLOCK_HEADER + head.stored;
			to->end = at;
			if (head.type == BLT_DEFS)
				to->defs_before = head.first + head.rows;
			if (head.time_ns > to->time_ns)
				to->time_ns = head.time_ns;
			if (rc >= 0)
				continue;
		}
		if (rc == 0)
			break; /* nothing whole behind */
		if (rc < 0)
			return err_set(err, rc, "cannot read '%s'", r->path);
	}
	return 0;
}

static int write_index(struct addition *to, const struct events_tally *total, struct err *err)
{
	struct blt_cols cols = { 0 };
	struct blt_head head = { .type = BLT_INDEX, .time_ns = to->time_ns };
	struct blt_head end = { .type = BLT_END, .first = to->end, .time_ns = to->time_ns };
	index_put(to->index, total, &cols.col[0]);
	head.rows = to->index->count;
	int rc = blt_pack(&cols, &head, to->zenc, &to->out, err);
	blt_cols_clear(&cols);
	if (rc >= 0)
		rc = blt_pack(&cols, &end, to->zenc, &to->out, err);
	blt_cols_fini(&cols);
	return rc < 0 ? rc : write_out(to, err);
}

static int copy_range(int from, int to, uint64_t len, struct err *err)
{
	CLEANUP(buf_fini) struct buf buf = { 0 };
	char *chunk = buf_reserve(&buf, 1u << 20);
	if (!chunk)
		return err_set(err, -ENOMEM, "cannot copy the recording");
	for (uint64_t at = 0; at < len;) {
		size_t step = len - at < 1u << 20 ? (size_t)(len - at) : 1u << 20;
		ssize_t n = fileio_pread(from, chunk, step, at);
		int rc = n < 0 ? (int)n : n == 0 ? -EIO : fileio_pwrite(to, chunk, (size_t)n, at);
		if (rc < 0)
			return err_set(err, rc, "cannot copy the recording");
		at += (uint64_t)n;
	}
	return 0;
}

/* One of @prof, @readings. */
static int add_to(struct trace_reader *r, int fd, const char *path, const struct prof *prof,
		  const struct readings *readings, struct err *err)
{
	struct index index = { 0 };
	struct addition to = { .fd = fd, .index = &index };
	struct names names = { .sink = { names_define, names_put }, .prof = prof };
	int whole = r->info.indexed, fresh = -1;
	char *other = NULL;
	to.zenc = zblock_enc_new(err);
	int rc = to.zenc ? survey(r, &to, &index, err) : -ENOMEM;
	if (rc >= 0 && prof)
		rc = replay_all_defs(r, &names.sink, err);
	if (rc >= 0 && to.end < r->info.file_bytes) {
		/*
		 * a cut block at the end would stand between: take what is whole into a new file,
		 * and swap
		 */
		struct stat st;
		if (asprintf(&other, "%s.XXXXXX", path) < 0)
			other = NULL;
		fresh = other ? mkostemp(other, O_CLOEXEC) : -1;
		if (fresh < 0 || fstat(fd, &st) < 0 || fchown(fresh, st.st_uid, st.st_gid) < 0 ||
		    fchmod(fresh, st.st_mode & 0777) < 0)
			rc = err_set(err, -errno, "cannot create a file beside '%s'", path);
		else
			rc = copy_range(fd, fresh, to.end, err);
		to.fd = fresh;
	}
	uint64_t before = to.end;
	if (rc >= 0 && prof)
		rc = write_symbols(&to, &names, err);
	if (rc >= 0 && readings)
		rc = write_readings(&to, readings, err);
	/* where nothing was to add the file stays as it is */
	if (rc >= 0 && whole && (to.end != before || fresh >= 0))
		rc = write_index(&to, &r->total, err);
	if (fresh >= 0) {
		if (rc >= 0 && fsync(fresh) < 0)
			rc = err_set(err, -errno, "cannot write '%s'", other);
		if (rc >= 0 && rename(other, path) < 0)
			rc = err_set(err, -errno, "cannot replace '%s'", path);
		if (rc < 0)
			unlink(other);
		close(fresh);
	} else if (rc < 0 && to.zenc && ftruncate(fd, (off_t)before) < 0) {
		err_wrap(err, "the recording ends with an incomplete block now");
	}
	free(other);
	zblock_enc_free(to.zenc);
	defs_enc_fini(&to.defs);
	buf_fini(&to.out);
	index_fini(&index);
	free(names.module_row);
	free(names.frame);
	return rc;
}

struct places {
	/* first */
	struct sink sink;
	struct sink *to;
};

static int places_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct sink *to = ((struct places *)sink)->to;
	if (def->kind == DEF_STACK || def->kind == DEF_THREAD)
		return 0;
	return to->define(to, def, err);
}

int trace_reader_places(struct trace_reader *reader, struct prof *prof, struct err *err)
{
	struct places places = { { places_define, names_put }, prof_sink(prof) };
	return replay_all_defs(reader, &places.sink, err);
}

static int append_to(const char *path, const struct prof *prof, const struct readings *readings,
		     struct err *err)
{
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s' for writing", path);
	/*
	 * locked before it is read, and read through the same descriptor: nobody puts another file
	 * between the two
	 */
	int mine = flock(fd, LOCK_EX | LOCK_NB) == 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : -1;
	if (mine < 0) {
		err_set(err, -errno, "cannot add to '%s' while it is written", path);
		close(fd);
		return err ? err->code : -EIO;
	}
	CLEANUP(trace_reader_freep) struct trace_reader *r = reader_of(mine, path, err);
	int rc = r ? add_to(r, fd, path, prof, readings, err) : err ? err->code : -EIO;
	if (close(fd) < 0 && rc >= 0)
		rc = err_set(err, -errno, "cannot write '%s'", path);
	return rc;
}

int trace_append_symbols(const char *path, const struct prof *prof, struct err *err)
{
	return append_to(path, prof, NULL, err);
}

int trace_append_pages(const char *path, struct page_shot *const *shots, size_t count, pid_t pid,
		       uint64_t zero_ns, struct err *err)
{
	const struct readings readings = { shots, count, pid, zero_ns };
	return append_to(path, NULL, &readings, err);
}
