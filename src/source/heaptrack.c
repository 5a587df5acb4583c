/* SPDX-License-Identifier: Apache-2.0 */
#include "source/heaptrack.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/search.h"
#include "source/heaptrack_impl.h"

#define SYMBOLS_MAX 1024 /* inlined functions at one address; deeper ones are left out */
#define FORMAT_MAX 3
#define MODULES_MAX (64u << 10)
#define RULES_MAX 1000u
#define SUPPRESSION_MAX 1000u
#define CMDLINE_MAX (4u << 20) /* the kernel allows 2 MiB */

int ht_no_memory(struct ht_reader *r)
{
	return err_set(r->err, -ENOMEM, "cannot read '%s'", r->name);
}

int ht_table_failed(struct ht_reader *r, int rc, const char *what)
{
	if (rc != -E2BIG)
		return ht_no_memory(r);
	return err_set(r->err, -EBADMSG, "cannot read '%s': too many %s", r->name, what);
}

static int take_text(struct ht_reader *r, const char **at, const char *end, int whole,
		     const char **text, size_t *len)
{
	return ht_take_text(at, end, r->info->format >= 3, whole, text, len);
}

/* ---- out ------------------------------------------------------------------------------------- */

static int define_process(struct ht_reader *r, int ended)
{
	size_t bytes = r->cmdline.len;
	char *split = NULL;
	if (bytes) {
		/*
		 * the file joins the arguments by spaces and does not quote: this is the best there
		 * is
		 */
		split = strndup(buf_cstr(&r->cmdline), bytes);
		if (!split)
			return ht_no_memory(r);
		bytes = strlen(split);
		for (char *p = split; *p; p++)
			if (*p == ' ')
				*p = '\0';
		bytes++;
	}
	int whole = !r->info->warning[0];
	struct def def = {
		.kind = DEF_PROCESS,
		.process = { .exe = r->exe ? r->exe : split,
			     .cmdline = split,
			     .cmdline_bytes = bytes,
			     .comment = "heaptrack",
			     .time_bound_ns = 10 * 1000 * 1000,
			     .ended = ended,
			     .complete = ended && whole,
			     .exit_status = -1,
			     .runtime_ns = ended ? r->time_ns : 0,
			     .peak_rss_bytes = r->peak_rss_bytes },
	};
	int rc = r->sink->define(r->sink, &def, r->err);
	free(split);
	return rc;
}

/* The process and the one thread, before anything refers to them. */
int ht_begin(struct ht_reader *r)
{
	if (r->process_defined && !r->process_stale)
		return 0;
	int first = !r->process_defined;
	r->process_defined = 1;
	r->process_stale = 0;
	int rc = define_process(r, 0);
	if (rc == 0 && first) {
		struct def def = { .kind = DEF_THREAD };
		rc = r->sink->define(r->sink, &def, r->err);
	}
	return rc;
}

static int define(struct ht_reader *r, const struct def *def)
{
	int rc = ht_begin(r);
	return rc < 0 ? rc : r->sink->define(r->sink, def, r->err);
}

/* ---- definitions ----------------------------------------------------------------------------- */

static int on_name(struct ht_reader *r, const char *at, const char *end)
{
	const char *text;
	size_t len;
	if (!take_text(r, &at, end, 1, &text, &len))
		return STOP_HERE;
	int rc = ht_names_add(&r->names, text, len, r->opt.max_definitions, r->opt.max_text_bytes);
	return rc < 0 ? ht_table_failed(r, rc, "names") : 0;
}

/*
 * S leak:PATTERN: what the program's own makers do not want to hear of. Its readers pass over lines
 * that are none.
 */
static int on_rule(struct ht_reader *r, const char *line, const char *end)
{
	static const char head[] = "S leak:";
	char pattern[SUPPRESSION_MAX + 1];
	size_t skip = sizeof(head) - 1, len = (size_t)(end - line);
	while (len > skip && (end[-1] == ' ' || end[-1] == '\r'))
		end--, len--;
	if (len <= skip || len - skip > SUPPRESSION_MAX || memcmp(line, head, skip) != 0 ||
	    memchr(line, '\0', len) || r->rules == RULES_MAX)
		return 0;
	memcpy(pattern, line + skip, len - skip);
	pattern[len - skip] = '\0';
	struct def def = { .kind = DEF_RULE, .id = ++r->rules, .rule = { pattern } };
	return define(r, &def);
}

/* Interpreted files name a module by a string: it becomes a module at its first use. */
static int module_by_name(struct ht_reader *r, uint64_t name, uint32_t *module)
{
	*module = 0;
	const char *path = ht_names_get(&r->names, name);
	if (!path)
		return 0;
	if (name > r->module_of_name_cap) {
		uint32_t cap = r->names.cap;
		uint32_t *grown = realloc(r->module_of_name, cap * sizeof(*grown));
		if (!grown)
			return ht_no_memory(r);
		memset(grown + r->module_of_name_cap, 0,
		       (cap - r->module_of_name_cap) * sizeof(*grown));
		r->module_of_name = grown;
		r->module_of_name_cap = cap;
	}
	uint32_t *known = &r->module_of_name[name - 1];
	if (!*known) {
		if (r->name_modules >= MODULES_MAX)
			return ht_table_failed(r, -E2BIG, "modules");
		struct def def = { .kind = DEF_MODULE,
				   .id = ++r->name_modules,
				   .module = { .path = path } };
		int rc = define(r, &def);
		if (rc < 0)
			return rc;
		*known = r->name_modules;
	}
	*module = *known;
	return 0;
}

static int new_frame(struct ht_reader *r, uint32_t module, uint64_t offset, uint32_t *frame)
{
	if (r->frames >= r->opt.max_definitions)
		return ht_table_failed(r, -E2BIG, "addresses");
	struct def def = { .kind = DEF_FRAME,
			   .id = ++r->frames,
			   .frame = { .module = { module }, .offset = offset } };
	*frame = r->frames;
	return define(r, &def);
}

/* i IP MODULE [FUNC [FILE LINE {FUNC FILE LINE}..]] */
static int on_address(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t ip, module_name = 0, function, file, line;
	if (!ht_take_hex(&at, end, &ip))
		return STOP_HERE;
	ht_take_hex(&at, end, &module_name);
	uint32_t module, frame = 0;
	int rc = module_by_name(r, module_name, &module);
	if (rc == 0)
		rc = new_frame(r, module, ip, &frame);
	if (rc < 0)
		return rc;
	struct symbol symbols[SYMBOLS_MAX];
	uint32_t count = 0;
	while (count < SYMBOLS_MAX && ht_take_hex(&at, end, &function)) {
		file = line = 0;
		if (ht_take_hex(&at, end, &file))
			ht_take_hex(&at, end, &line);
		if (count)
			symbols[count - 1].inlined = 1;
		symbols[count++] =
			(struct symbol){ .function = ht_names_get(&r->names, function),
					 .file = ht_names_get(&r->names, file),
					 .line = line > UINT32_MAX ? 0 : (uint32_t)line };
	}
	if (count < SYMBOLS_MAX && at != end)
		return STOP_HERE;
	if (!count)
		return 0;
	struct def def = { .kind = DEF_SYMBOL,
			   .id = frame,
			   .symbol = { .symbols = symbols, .count = count } };
	return define(r, &def);
}

/* The first loaded object that begins behind @address. */
static uint32_t loaded_above(const struct ht_reader *r, uint64_t address)
{
	return (uint32_t)search_beyond(r->loaded, r->loaded_count, sizeof(*r->loaded),
				       offsetof(struct loaded, lo), address);
}

static int load(struct ht_reader *r, uint32_t module)
{
	const struct module_row *row = &r->modules[module];
	int rc = ht_grow((void **)&r->loaded, sizeof(*r->loaded), r->loaded_count, &r->loaded_cap,
			 MODULES_MAX);
	if (rc < 0)
		return ht_table_failed(r, rc, "modules");
	uint32_t at = loaded_above(r, row->lo);
	memmove(&r->loaded[at + 1], &r->loaded[at], (r->loaded_count - at) * sizeof(*r->loaded));
	r->loaded[at] = (struct loaded){ row->lo, row->hi, module };
	r->loaded_count++;
	return 0;
}

/* Raw: the frame of an address, by the modules loaded now. */
static int frame_of_ip(struct ht_reader *r, uint64_t ip, uint32_t *frame)
{
	/* Until 1.4 the file holds return addresses; we count like addr2line. */
	if (r->info->writer < 0x010400 && ip)
		ip--;
	if (ht_map_find(&r->frame_of_ip, ip, frame))
		return 0;
	uint32_t module = 0;
	uint64_t offset = ip;
	uint32_t at = loaded_above(r, ip);
	if (at && ip < r->loaded[at - 1].hi) {
		module = r->loaded[at - 1].module + 1;
		offset = ip - r->modules[module - 1].base;
	}
	int rc = new_frame(r, module, offset, frame);
	if (rc == 0 && ht_map_set(&r->frame_of_ip, ip, *frame) < 0)
		rc = ht_no_memory(r);
	return rc;
}

int ht_trace(struct ht_reader *r, uint64_t ip, uint64_t parent)
{
	if (parent > r->stacks)
		return STOP_HERE;
	if (r->stacks >= r->opt.max_definitions)
		return ht_table_failed(r, -E2BIG, "traces");
	if (r->kind == KIND_UNKNOWN)
		r->kind = KIND_RAW; /* an interpreted file numbers an address first */
	uint32_t frame = 0;
	int rc = 0;
	if (r->kind == KIND_RAW)
		rc = frame_of_ip(r, ip, &frame);
	else if (ip > r->frames)
		return STOP_HERE;
	else
		frame = (uint32_t)ip;
	if (rc == 0 && !frame) {
		if (!r->unknown_frame)
			rc = new_frame(r, 0, 0, &r->unknown_frame);
		frame = r->unknown_frame;
	}
	if (rc < 0)
		return rc;
	struct def def = { .kind = DEF_STACK,
			   .id = ++r->stacks,
			   .stack = { .parent = { (uint32_t)parent }, .frame = { frame } } };
	return define(r, &def);
}

/* t IP parent */
static int on_trace(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t ip, parent;
	if (!ht_take_hex(&at, end, &ip) || !ht_take_hex(&at, end, &parent))
		return STOP_HERE;
	return ht_trace(r, ip, parent);
}

static int on_class(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t bytes, trace;
	if (!ht_take_hex(&at, end, &bytes) || !ht_take_hex(&at, end, &trace) || trace > r->stacks ||
	    bytes > INT64_MAX)
		return STOP_HERE;
	int rc = ht_grow((void **)&r->classes, sizeof(*r->classes), r->class_count, &r->class_cap,
			 r->opt.max_definitions);
	if (rc < 0)
		return ht_table_failed(r, rc, "allocation classes");
	/*
	 * the pair in 64 bits; where that is ambiguous (blocks of 1 TiB) equal classes just stay
	 * apart
	 */
	uint64_t pair = bytes ^ trace << 40;
	uint32_t home = r->class_count;
	if (ht_map_find(&r->class_of_pair, pair, &home)) {
		if (r->classes[home].bytes != bytes || r->classes[home].stack != trace)
			home = r->class_count;
	} else if (ht_map_set(&r->class_of_pair, pair, home) < 0) {
		return ht_no_memory(r);
	}
	r->classes[r->class_count++] =
		(struct class_row){ .bytes = bytes, .stack = (uint32_t)trace, .home = home };
	return 0;
}

static int set_text(struct ht_reader *r, char **to, const char *text, size_t len)
{
	*to = strndup(text, len);
	if (!*to)
		return ht_no_memory(r);
	r->process_stale = r->process_defined;
	return 0;
}

static uint64_t module_hash(const char *path, size_t len, uint64_t base, uint64_t lo, uint64_t hi)
{
	const uint64_t place[] = { base, lo, hi };
	return hash_bytes(path, len, hash_bytes(place, sizeof(place), hash_seed()));
}

/* m path base {vaddr memsz}.. ; path "-": the list starts anew */
static int on_module(struct ht_reader *r, const char *at, const char *end)
{
	const char *path;
	size_t len;
	if (!take_text(r, &at, end, 0, &path, &len))
		return STOP_HERE;
	if (len == 1 && path[0] == '-') {
		r->loaded_count = 0;
		ht_map_clear(&r->frame_of_ip);
		return 0;
	}
	uint64_t base, vaddr, memsz, lo = UINT64_MAX, hi = 0;
	if (!ht_take_hex(&at, end, &base))
		return STOP_HERE;
	while (ht_take_hex(&at, end, &vaddr) && ht_take_hex(&at, end, &memsz)) {
		uint64_t from, to;
		if (__builtin_add_overflow(base, vaddr, &from) ||
		    __builtin_add_overflow(from, memsz, &to))
			return STOP_HERE;
		lo = from < lo ? from : lo;
		hi = to > hi ? to : hi;
	}
	if (lo > hi)
		lo = hi = base;
	if (len == 1 && path[0] == 'x' && r->exe) {
		path = r->exe;
		len = strlen(r->exe);
	}
	ht_map_clear(&r->frame_of_ip);
	uint64_t hash = module_hash(path, len, base, lo, hi);
	uint32_t known;
	if (ht_map_find(&r->module_of_hash, hash, &known)) {
		const struct module_row *row = &r->modules[known];
		if (row->base == base && row->lo == lo && row->hi == hi &&
		    strlen(row->path) == len && memcmp(row->path, path, len) == 0)
			return load(r, known);
	}
	int rc = ht_grow((void **)&r->modules, sizeof(*r->modules), r->module_count, &r->module_cap,
			 MODULES_MAX);
	if (rc < 0)
		return ht_table_failed(r, rc, "modules");
	char *copy = strndup(path, len);
	if (!copy)
		return ht_no_memory(r);
	r->modules[r->module_count++] =
		(struct module_row){ .path = copy, .base = base, .lo = lo, .hi = hi };
	if (ht_map_set(&r->module_of_hash, hash, r->module_count - 1) < 0)
		return ht_no_memory(r);
	rc = load(r, r->module_count - 1);
	if (rc < 0)
		return rc;
	struct def def = { .kind = DEF_MODULE,
			   .id = r->module_count,
			   .module = { .path = copy, .bias = base, .lo = lo, .hi = hi } };
	return define(r, &def);
}

/* ---- events ---------------------------------------------------------------------------------- */

static int on_time(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t ms, ns;
	if (!ht_take_hex(&at, end, &ms) || __builtin_mul_overflow(ms, 1000000u, &ns) ||
	    ns > EVENT_TIME_MAX_NS)
		return STOP_HERE;
	/* must not decrease (5.2); an event's time never does */
	if (ns > r->time_ns)
		r->time_ns = ns;
	return 0;
}

static int on_rss(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t pages, bytes;
	if (!ht_take_hex(&at, end, &pages) ||
	    __builtin_mul_overflow(pages, r->page_bytes, &bytes) || bytes > INT64_MAX)
		return STOP_HERE;
	if (bytes > r->peak_rss_bytes)
		r->peak_rss_bytes = bytes;
	int rc;
	struct event *event = ht_add_event(r, EVENT_RSS, &rc);
	if (!event)
		return rc;
	event->bytes = bytes;
	event->value = r->peak_rss_bytes;
	return 0;
}

/*
 * A: all costs so far are reset. They were not sent yet when it stands where heaptrack writes it,
 * at the start.
 */
static int on_attach(struct ht_reader *r)
{
	if (r->events_sent)
		return err_set(
			r->err, -EBADMSG,
			"cannot read '%s': line %llu resets the costs after %d events or more",
			r->name, (unsigned long long)r->info->lines, HT_BATCH);
	r->batched = 0;
	r->info->skipped = 0;
	ht_blocks_fini(&r->blocks);
	ht_map_fini(&r->block_of_pointer);
	for (uint32_t i = 0; i < r->class_count; i++)
		r->classes[i].live = 0;
	r->last_valid = 0;
	return 0;
}

/* ---- the whole ------------------------------------------------------------------------------- */

static int on_version(struct ht_reader *r, const char *at, const char *end)
{
	uint64_t writer, format = 0;
	if (!ht_take_hex(&at, end, &writer) || writer > UINT32_MAX)
		return err_set(r->err, -EBADMSG, "'%s' is no heaptrack file", r->name);
	if (!ht_take_hex(&at, end, &format))
		format = writer == 0x010200;
	if (format > FORMAT_MAX) {
		err_set(r->err, -EBADMSG, "cannot read '%s': heaptrack format %llu is too new",
			r->name, (unsigned long long)format);
		return err_hint(r->err, "formats 0 to %d are understood", FORMAT_MAX);
	}
	r->info->writer = (uint32_t)writer;
	r->info->format = (uint32_t)format;
	return 0;
}

/* The first line that only one kind of file has decides which kind this is. */
static int is_kind(struct ht_reader *r, enum file_kind kind)
{
	if (r->kind == KIND_UNKNOWN)
		r->kind = kind;
	return r->kind == kind;
}

static int handle(struct ht_reader *r, const char *line, const char *end)
{
	if (line == end || *line == '#')
		return 0;
	if (end - line >= 2 && line[1] != ' ')
		return STOP_HERE;
	const char *at = line + 1;
	uint64_t value;
	switch (*line) {
	case '+':
		return ht_on_alloc(r, at, end);
	case '-':
		return ht_on_free(r, at, end);
	case 't':
		return on_trace(r, at, end);
	case 'a':
		return is_kind(r, KIND_INTERPRETED) ? on_class(r, at, end) : STOP_HERE;
	case 's':
		return is_kind(r, KIND_INTERPRETED) ? on_name(r, at, end) : STOP_HERE;
	case 'i':
		return is_kind(r, KIND_INTERPRETED) ? on_address(r, at, end) : STOP_HERE;
	case 'm':
		return is_kind(r, KIND_RAW) ? on_module(r, at, end) : STOP_HERE;
	case 'x': {
		const char *text;
		size_t len;
		if (r->exe || r->kind == KIND_INTERPRETED ||
		    !take_text(r, &at, end, 0, &text, &len))
			return STOP_HERE;
		r->kind = KIND_RAW;
		return set_text(r, &r->exe, text, len);
	}
	case 'X':
		if (r->cmdline.len || end - line < 3)
			return STOP_HERE; /* twice in one file = damaged (5.2) */
		r->in_cmdline = 1;
		r->process_stale = r->process_defined;
		buf_put(&r->cmdline, line + 2, (size_t)(end - line - 2));
		return buf_failed(&r->cmdline) ? ht_no_memory(r) : 0;
	case 'I':
		if (!ht_take_hex(&at, end, &value) || !value || value > 1u << 30)
			return STOP_HERE;
		r->page_bytes = value;
		return 0;
	case 'c':
		return on_time(r, at, end);
	case 'R':
		return on_rss(r, at, end);
	case 'S':
		return on_rule(r, line, end);
	case 'A':
		return on_attach(r);
	default:
		return STOP_HERE;
	}
}

/*
 * Arguments may hold line ends, which X writes as they are (python -c 'a\nb'): until the first line
 * that makes sense, lines belong to the command line. Blocks cannot come yet.
 */
static int after_cmdline(struct ht_reader *r, const char *line, const char *end)
{
	enum file_kind kind = r->kind;
	int rc = line < end && (*line == '+' || *line == '-') ? STOP_HERE : handle(r, line, end);
	if (rc != STOP_HERE) {
		r->in_cmdline = line == end || *line == '#';
		return rc;
	}
	r->kind = kind;
	buf_putc(&r->cmdline, ' ');
	buf_put(&r->cmdline, line, (size_t)(end - line));
	if (buf_failed(&r->cmdline))
		return ht_no_memory(r);
	return r->cmdline.len > CMDLINE_MAX ? STOP_HERE : 0;
}

static void warn(struct ht_reader *r, const char *why)
{
	snprintf(r->info->warning, sizeof(r->info->warning), "'%s': %s, read up to line %llu",
		 r->name, why, (unsigned long long)r->info->lines);
}

static int next_line(struct ht_reader *r, const char **line, const char **end)
{
	if (r->lines.reads != r->reads_told && r->opt.progress) {
		uint64_t done, total;
		r->reads_told = r->lines.reads;
		zstream_progress(r->lines.in, &done, &total);
		r->opt.progress(r->opt.progress_ctx, done, total);
	}
	int rc = ht_lines_next(&r->lines, line, end, r->err);
	if (rc == -EMSGSIZE)
		return err_set(r->err, -EBADMSG, "cannot read '%s': line %llu has no end", r->name,
			       (unsigned long long)r->info->lines + 1);
	r->info->lines += rc > 0;
	return rc;
}

static int run(struct ht_reader *r)
{
	const char *line, *end;
	int rc, started = 0;
	while ((rc = next_line(r, &line, &end)) > 0) {
		if (!started && line != end && *line != '#') {
			if (line[0] != 'v' || end - line < 3 || line[1] != ' ')
				return err_set(r->err, -EBADMSG, "'%s' is no heaptrack file",
					       r->name);
			rc = on_version(r, line + 1, end);
			started = 1;
		} else {
			rc = r->in_cmdline ? after_cmdline(r, line, end) : handle(r, line, end);
		}
		if (rc == 0)
			rc = ht_short_lines(r);
		if (rc < 0)
			return rc;
		if (rc == STOP_HERE) {
			warn(r, "damaged line");
			rc = ht_lose(r, 1, 0);
			break;
		}
	}
	if (rc < 0)
		return rc;
	if (!started)
		return err_set(r->err, -EBADMSG, "'%s' is no heaptrack file", r->name);
	r->info->raw = r->kind == KIND_RAW;
	if (!r->info->warning[0] && zstream_damaged(r->lines.in))
		warn(r, zstream_damaged(r->lines.in));
	if (!r->info->warning[0] && r->lines.torn)
		warn(r, "last line is incomplete");
	rc = ht_begin(r);
	if (rc == 0)
		rc = ht_flush(r);
	if (rc == 0 && !r->info->warning[0] && r->info->skipped)
		snprintf(r->info->warning, sizeof(r->info->warning),
			 "'%s': %llu damaged lines skipped", r->name,
			 (unsigned long long)r->info->skipped);
	return rc < 0 ? rc : define_process(r, 1);
}

int heaptrack_run_stream(struct zstream *stream, const char *name, struct sink *sink,
			 const struct heaptrack_opt *opt, struct heaptrack_info *info,
			 struct err *err)
{
	*info = (struct heaptrack_info){ 0 };
	struct ht_reader *r = calloc(1, sizeof(*r));
	if (!r)
		return err_set(err, -ENOMEM, "cannot read '%s'", name);
	r->lines.in = stream;
	r->name = name;
	r->sink = sink;
	r->info = info;
	r->err = err;
	r->page_bytes = 4096;
	if (opt)
		r->opt = *opt;
	if (!r->opt.max_live)
		r->opt.max_live = 1u << 26;
	if (!r->opt.max_definitions)
		r->opt.max_definitions = 1u << 25;
	if (!r->opt.max_text_bytes)
		r->opt.max_text_bytes = 512u << 20;
	int rc = run(r);
	ht_lines_fini(&r->lines);
	buf_fini(&r->cmdline);
	free(r->exe);
	ht_names_fini(&r->names);
	free(r->module_of_name);
	while (r->module_count)
		free(r->modules[--r->module_count].path);
	free(r->modules);
	ht_map_fini(&r->frame_of_ip);
	ht_map_fini(&r->module_of_hash);
	free(r->loaded);
	free(r->classes);
	ht_map_fini(&r->class_of_pair);
	ht_blocks_fini(&r->blocks);
	ht_map_fini(&r->block_of_pointer);
	free(r);
	return rc;
}

int heaptrack_run(const char *path, struct sink *sink, const struct heaptrack_opt *opt,
		  struct heaptrack_info *info, struct err *err)
{
	*info = (struct heaptrack_info){ 0 };
	CLEANUP(zstream_freep) struct zstream *stream = zstream_open(path, err);
	if (!stream)
		return err->code;
	return heaptrack_run_stream(stream, path, sink, opt, info, err);
}

int heaptrack_is(const char *path, struct err *err)
{
	CLEANUP(zstream_freep) struct zstream *stream = zstream_open(path, err);
	if (!stream)
		return err->code;
	char head[4096];
	size_t len = 0;
	while (len < sizeof(head)) {
		ssize_t got = zstream_read(stream, head + len, sizeof(head) - len, err);
		if (got < 0)
			return (int)got;
		if (got == 0)
			break;
		len += (size_t)got;
	}
	const char *at = head, *end = head + len;
	while (at < end && (*at == '\n' || *at == '#')) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		at = newline ? newline + 1 : end;
	}
	uint64_t writer;
	if (end - at < 3 || at[0] != 'v' || at[1] != ' ')
		return 0;
	const char *stop = memchr(at, '\n', (size_t)(end - at));
	at++;
	return ht_take_hex(&at, stop ? stop : end, &writer);
}
