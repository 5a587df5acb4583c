/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof.c - profile.proto, gzip'd: a sample for each stack with all costs, functions and lines
 * resolved. Samples are written as they come, what they refer to behind them: together they are as
 * long as all stacks, which nobody has to hold.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/intern.h"
#include "base/varint.h"
#include "base/zstream.h"
#include "out/out.h"
#include "out/profile.pb-c.h"
#include "out/stream.h"

#define SAMPLE_TYPES 6
#define SAMPLE_TAG 0x12 /* Profile.sample, field 2, of its own length */

typedef Perftools__Profiles__Profile Profile;
typedef Perftools__Profiles__Sample Sample;
typedef Perftools__Profiles__Mapping Mapping;
typedef Perftools__Profiles__Location Location;
typedef Perftools__Profiles__Line Line;
typedef Perftools__Profiles__Function Function;
typedef Perftools__Profiles__ValueType ValueType;
typedef Perftools__Profiles__Label Label;

/** struct vec - a growing array of pointers, as protobuf-c wants its repeated messages. */
struct vec {
	void **items;
	size_t count, cap;
};

/* A location is a frame without the wrappers inlined at its inner end. */
struct location_key {
	uint32_t frame, skip;
};

struct pprof {
	const struct prof *prof;
	/* all messages but samples live here */
	struct arena arena;
	FILE *gzip;
	/* one sample */
	struct buf packed;
	struct intern strings;
	struct vec string_table, mappings, locations, functions;
	struct idtab string_tab, location_tab, function_tab;
	struct location_key *location_keys;
	uint32_t location_cap;
	/* by module row: id, 0 = not listed */
	uint32_t *mapping_of;
	uint64_t stop_location[STACK_STOP_MAX];
	/* locations of one stack */
	uint64_t *ids;
	size_t id_cap;
	/* of samples that are taken away, as pprof itself calls it; NULL: they are added */
	Label *base;
	/* out of memory: sticky, asked once */
	int failed;
};

static void *take(struct pprof *p, size_t bytes)
{
	void *room = arena_alloc(&p->arena, bytes);
	if (!room)
		p->failed = 1;
	else
		memset(room, 0, bytes);
	return room;
}

static void push(struct pprof *p, struct vec *vec, void *item)
{
	if (vec->count == vec->cap) {
		size_t cap = vec->cap ? vec->cap * 2 : 256;
		void **grown = realloc(vec->items, cap * sizeof(*grown));
		if (!grown) {
			p->failed = 1;
			return;
		}
		vec->items = grown;
		vec->cap = cap;
	}
	vec->items[vec->count++] = item;
}

/* Index in the string table; names from outside must be UTF-8 there. */
static int64_t string_index(struct pprof *p, const char *text)
{
	if (!text)
		text = "";
	CLEANUP(buf_fini) struct buf clean = { 0 };
	out_clean_utf8(&clean, text);
	const char *known = intern_str(&p->strings, buf_cstr(&clean));
	if (!known || buf_failed(&clean) || idtab_reserve(&p->string_tab) < 0) {
		p->failed = 1;
		return 0;
	}
	uint32_t hash = (uint32_t)hash_u64((uintptr_t)known, 0, hash_seed());
	uint32_t at = idtab_first(&p->string_tab, hash);
	for (; p->string_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&p->string_tab, at))
		if (p->string_table.items[p->string_tab.slots[at].id] == known)
			return p->string_tab.slots[at].id;
	idtab_put(&p->string_tab, at, hash, (uint32_t)p->string_table.count);
	push(p, &p->string_table, (void *)known);
	return (int64_t)p->string_table.count - 1;
}

/*
 * Where both names are equal pprof takes them for undone C++ and cuts what stands in brackets:
 * "<Vec<T> as Extend>::extend" would be "::extend". A name that is not the system's stays as it is.
 */
static int is_rust_path(const char *name)
{
	return name && (name[0] == '<' || strstr(name, "::<") || strstr(name, " as ") ||
			strstr(name, "{{"));
}

static uint64_t function_id(struct pprof *p, const char *name, const char *file)
{
	int64_t name_index = string_index(p, name), file_index = string_index(p, file);
	if (idtab_reserve(&p->function_tab) < 0) {
		p->failed = 1;
		return 0;
	}
	uint32_t hash = (uint32_t)hash_u64((uint64_t)name_index, (uint64_t)file_index, hash_seed());
	uint32_t at = idtab_first(&p->function_tab, hash);
	for (; p->function_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&p->function_tab, at)) {
		const Function *known = p->functions.items[p->function_tab.slots[at].id];
		if (known->name == name_index && known->filename == file_index)
			return known->id;
	}
	Function *function = take(p, sizeof(*function));
	if (!function)
		return 0;
	perftools__profiles__function__init(function);
	function->id = p->functions.count + 1;
	function->name = name_index;
	function->system_name = is_rust_path(name) ? 0 : name_index;
	function->filename = file_index;
	idtab_put(&p->function_tab, at, hash, (uint32_t)p->functions.count);
	push(p, &p->functions, function);
	return function->id;
}

static uint64_t mapping_id(struct pprof *p, struct module_id module)
{
	if (!module.v)
		return 0;
	if (p->mapping_of[module.v])
		return p->mapping_of[module.v];
	const struct prof_module *row = prof_module(p->prof, module);
	Mapping *mapping = take(p, sizeof(*mapping));
	if (!mapping)
		return 0;
	perftools__profiles__mapping__init(mapping);
	char build_id[2 * sizeof(row->build_id) + 1] = "";
	for (unsigned i = 0; i < row->build_id_len && i < sizeof(row->build_id); i++)
		snprintf(build_id + 2 * i, 3, "%02x", row->build_id[i]);
	mapping->id = p->mappings.count + 1;
	mapping->memory_start = row->lo;
	mapping->memory_limit = row->hi;
	mapping->filename = string_index(p, row->path);
	mapping->build_id = string_index(p, build_id);
	/* Names are here: pprof need not look for the files, which may be others by now. */
	mapping->has_functions = mapping->has_filenames = 1;
	mapping->has_line_numbers = mapping->has_inline_frames = 1;
	p->mapping_of[module.v] = (uint32_t)mapping->id;
	push(p, &p->mappings, mapping);
	return mapping->id;
}

/*
 * pprof takes the first mapping for the program. Recordings name it by path, imports by its first
 * word.
 */
static void map_program_first(struct pprof *p, const struct prof_process *process)
{
	const char *exe = process && process->exe ? process->exe : "";
	const char *slash = strrchr(exe, '/');
	uint32_t count = prof_module_count(p->prof), found = 0;
	for (uint32_t row = 1; row < count; row++) {
		const struct prof_module *module = prof_module(p->prof, (struct module_id){ row });
		if (strcmp(module->path, exe) == 0) {
			found = row;
			break;
		}
		if (!found && !slash && strcmp(module->name, exe) == 0)
			found = row;
	}
	mapping_id(p, (struct module_id){ found });
}

static void add_line(struct pprof *p, Location *location, const char *function, const char *file,
		     uint32_t line)
{
	Line *row = take(p, sizeof(*row));
	if (!row)
		return;
	perftools__profiles__line__init(row);
	row->function_id = function_id(p, function, file);
	row->line = line;
	location->line[location->n_line++] = row;
}

static Location *new_location(struct pprof *p, size_t lines)
{
	Location *location = take(p, sizeof(*location));
	Line **room = take(p, lines * sizeof(*room));
	if (!location || !room)
		return NULL;
	perftools__profiles__location__init(location);
	location->id = p->locations.count + 1;
	location->line = room;
	push(p, &p->locations, location);
	return location;
}

static uint64_t location_id(struct pprof *p, uint32_t row, uint32_t skip)
{
	if (idtab_reserve(&p->location_tab) < 0) {
		p->failed = 1;
		return 0;
	}
	uint32_t hash = (uint32_t)hash_u64(row, skip, hash_seed());
	uint32_t at = idtab_first(&p->location_tab, hash);
	for (; p->location_tab.slots[at].id != IDTAB_NONE; at = idtab_next(&p->location_tab, at)) {
		uint32_t known = p->location_tab.slots[at].id;
		if (p->location_keys[known].frame == row && p->location_keys[known].skip == skip)
			return known + 1;
	}
	uint32_t number = (uint32_t)p->locations.count;
	if (number >= p->location_cap) {
		uint32_t cap = p->location_cap ? p->location_cap * 2 : 1024;
		cap = cap > number ? cap : number + 1;
		struct location_key *grown = realloc(p->location_keys, cap * sizeof(*grown));
		if (!grown) {
			p->failed = 1;
			return 0;
		}
		p->location_keys = grown;
		p->location_cap = cap;
	}
	const struct prof_frame *frame = prof_frame(p->prof, (struct frame_id){ row });
	Location *location = new_location(p, frame->symbol_count + 1);
	if (!location)
		return 0;
	idtab_put(&p->location_tab, at, hash, number);
	p->location_keys[number] = (struct location_key){ row, skip };
	location->mapping_id = mapping_id(p, frame->module);
	location->address = prof_module(p->prof, frame->module)->bias + frame->offset;
	for (uint32_t i = skip; i < frame->symbol_count; i++) {
		const struct symbol *symbol = &frame->symbols[i];
		struct out_label label;
		add_line(p, location, out_symbol_label(p->prof, frame, symbol, &label),
			 symbol->file, symbol->line);
	}
	if (!frame->symbol_count) {
		struct out_label label;
		add_line(p, location, out_symbol_label(p->prof, frame, NULL, &label), NULL, 0);
	}
	return location->id;
}

static uint64_t stop_location(struct pprof *p, unsigned stop)
{
	if (!p->stop_location[stop]) {
		/*
		 * a place without address; its key is taken by nobody else: no frame has this row
		 */
		Location *location = new_location(p, 1);
		if (!location)
			return 0;
		add_line(p, location, view_stop_label(stop), NULL, 0);
		p->stop_location[stop] = location->id;
	}
	return p->stop_location[stop];
}

static size_t collect(struct pprof *p, struct stack_id stack)
{
	struct out_walk walk;
	struct out_step step;
	size_t count = 0;
	uint32_t frame = UINT32_MAX;
	out_walk_init(&walk, p->prof, stack);
	while (out_walk_next(&walk, &step)) {
		/* inlined functions are lines of one location, which their first one makes */
		if (!step.stop && step.symbol && step.frame.v == frame)
			continue;
		frame = step.stop ? UINT32_MAX : step.frame.v;
		if (count == p->id_cap) {
			size_t cap = count ? count * 2 : 256;
			uint64_t *grown = realloc(p->ids, cap * sizeof(*grown));
			if (!grown) {
				p->failed = 1;
				return 0;
			}
			p->ids = grown;
			p->id_cap = cap;
		}
		p->ids[count++] = step.stop ? stop_location(p, step.stop)
					    : location_id(p, step.frame.v, step.symbol);
	}
	return count;
}

static int add_sample(void *ctx, const struct view_row *row)
{
	struct pprof *p = ctx;
	const struct cost *cost = &row->cost;
	Sample sample;
	/* in use is what lives, also where a lost free may have freed it */
	const uint64_t of_type[SAMPLE_TYPES] = { cost->allocations,
						 cost->allocated_bytes,
						 cost->leaked + cost->uncertain,
						 view_cost_of(cost, VIEW_COST_LIVE),
						 cost->peak_bytes,
						 cost->temporary };
	int64_t values[SAMPLE_TYPES];
	for (size_t i = 0; i < SAMPLE_TYPES; i++)
		values[i] = (of_type[i] > INT64_MAX ? INT64_MAX : (int64_t)of_type[i]) *
			    (p->base ? -1 : 1);
	perftools__profiles__sample__init(&sample);
	sample.n_label = p->base != NULL;
	sample.label = &p->base;
	sample.n_location_id = collect(p, row->stack);
	sample.location_id = p->ids;
	sample.n_value = SAMPLE_TYPES;
	sample.value = values;
	size_t size = perftools__profiles__sample__get_packed_size(&sample);
	buf_clear(&p->packed);
	uint8_t *start = (uint8_t *)buf_reserve(&p->packed, 1 + VARINT_MAX + size);
	if (!start || p->failed)
		return -ENOMEM;
	uint8_t *at = start;
	*at++ = SAMPLE_TAG;
	at = varint_put(at, size);
	at += perftools__profiles__sample__pack(&sample, at);
	size_t bytes = (size_t)(at - start);
	return fwrite(start, 1, bytes, p->gzip) == bytes ? 0 : -EIO;
}

static const char *const type_names[SAMPLE_TYPES][2] = {
	{ "alloc_objects", "count" }, { "alloc_space", "bytes" }, { "inuse_objects", "count" },
	{ "inuse_space", "bytes" },   { "peak_space", "bytes" },  { "temporary_objects", "count" },
};

static const char *default_type(enum view_cost cost)
{
	switch (cost) {
	case VIEW_COST_ALLOCATIONS:
		return type_names[0][0];
	case VIEW_COST_ALLOCATED:
		return type_names[1][0];
	case VIEW_COST_LEAKED:
	case VIEW_COST_LIVE:
		return type_names[3][0];
	case VIEW_COST_TEMPORARY:
		return type_names[5][0];
	case VIEW_COST_PEAK:
		break;
	}
	return type_names[4][0];
}

static ValueType *value_type(struct pprof *p, const char *type, const char *unit)
{
	ValueType *value = take(p, sizeof(*value));
	if (!value)
		return NULL;
	perftools__profiles__value_type__init(value);
	value->type = string_index(p, type);
	value->unit = string_index(p, unit);
	return value;
}

/* Everything but the samples. */
static int pack(struct pprof *p, Profile *profile)
{
	profile->n_mapping = p->mappings.count;
	profile->mapping = (Mapping **)p->mappings.items;
	profile->n_location = p->locations.count;
	profile->location = (Location **)p->locations.items;
	profile->n_function = p->functions.count;
	profile->function = (Function **)p->functions.items;
	profile->n_string_table = p->string_table.count;
	profile->string_table = (char **)p->string_table.items;
	size_t size = perftools__profiles__profile__get_packed_size(profile);
	uint8_t *packed = malloc(size ? size : 1);
	if (!packed)
		return -ENOMEM;
	perftools__profiles__profile__pack(profile, packed);
	int rc = fwrite(packed, 1, size, p->gzip) == size ? 0 : -EIO;
	free(packed);
	return rc;
}

static int add_samples(struct pprof *p, const struct out_opt *opt, struct err *err)
{
	return view_each(p->prof, &(struct view_opt){ .cost = opt->cost, .limit = opt->limit },
			 add_sample, p, err);
}

/* The same of what it is compared with, below zero; its rows are others. */
static int take_away(struct pprof *p, const struct prof *base, const struct out_opt *opt,
		     struct err *err)
{
	p->prof = base;
	idtab_fini(&p->location_tab);
	p->location_tab = (struct idtab){ 0 };
	free(p->mapping_of);
	p->mapping_of = calloc(prof_module_count(base) + 1, sizeof(*p->mapping_of));
	p->base = take(p, sizeof(*p->base));
	if (!p->mapping_of || !p->base)
		return -ENOMEM;
	perftools__profiles__label__init(p->base);
	p->base->key = string_index(p, "pprof::base");
	p->base->str = string_index(p, "true");
	return add_samples(p, opt, err);
}

int out_pprof(FILE *to, const struct prof *prof, const struct out_opt *opt, struct err *err)
{
	return out_pprof_since(to, NULL, prof, opt, err);
}

int out_pprof_since(FILE *to, const struct prof *base, const struct prof *prof,
		    const struct out_opt *opt, struct err *err)
{
	struct pprof p = { .prof = prof };
	Profile profile;
	perftools__profiles__profile__init(&profile);
	string_index(&p, ""); /* the format's first string */
	p.mapping_of = calloc(prof_module_count(prof) + 1, sizeof(*p.mapping_of));
	ValueType *types[SAMPLE_TYPES];
	for (size_t i = 0; i < SAMPLE_TYPES; i++)
		types[i] = value_type(&p, type_names[i][0], type_names[i][1]);
	profile.n_sample_type = SAMPLE_TYPES;
	profile.sample_type = types;
	profile.period_type = value_type(&p, "space", "bytes");
	const struct prof_process *process = prof_process(prof);
	profile.period = process && process->sample_bytes ? (int64_t)process->sample_bytes : 1;
	profile.default_sample_type = string_index(&p, default_type(opt->cost));
	if (p.mapping_of)
		map_program_first(&p, process);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	profile.time_nanos = process ? (int64_t)process->start_realtime_ns : 0;
	profile.duration_nanos = (int64_t)totals.runtime_ns;
	char *cmdline = out_command_line(prof);
	int64_t comments[2] = { string_index(&p, cmdline) };
	profile.n_comment = 1;
	profile.comment = comments;
	if (totals.lost_events) {
		char text[80];
		snprintf(text, sizeof(text), "incomplete: %" PRIu64 " events were lost",
			 totals.lost_events);
		comments[profile.n_comment++] = string_index(&p, text);
	}
	int rc = !cmdline || !p.mapping_of || p.failed ? -ENOMEM : 0;
	if (rc == 0 && !(p.gzip = zstream_writer(to, ZSTREAM_GZIP, err)))
		rc = err->code;
	if (rc == 0)
		rc = add_samples(&p, opt, err);
	if (rc == 0 && base)
		rc = take_away(&p, base, opt, err);
	if (rc == 0)
		rc = pack(&p, &profile);
	if (p.gzip && fclose(p.gzip) != 0 && rc == 0)
		rc = -EIO;
	if (rc == -EIO)
		rc = err_set(err, errno ? -errno : -EIO, "cannot write the export");
	if (rc == -ENOMEM)
		out_no_memory(err);
	free(cmdline);
	buf_fini(&p.packed);
	arena_fini(&p.arena);
	intern_fini(&p.strings);
	struct vec *vecs[] = { &p.string_table, &p.mappings, &p.locations, &p.functions };
	for (size_t i = 0; i < ARRAY_LEN(vecs); i++)
		free(vecs[i]->items);
	idtab_fini(&p.string_tab);
	idtab_fini(&p.location_tab);
	idtab_fini(&p.function_tab);
	free(p.location_keys);
	free(p.mapping_of);
	free(p.ids);
	return rc;
}
