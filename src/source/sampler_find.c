/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler_find.c - which functions of a process allocate, which of them forward to others, and
 * where each is probed.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "source/sampler_find.h"
#include "source/sampler_names.h"
#include "sym/files.h"
#include "sym/functions.h"
#include "sym/program.h"

#define CODE_BYTES 4096u
#define NEAR_MAX 5

struct found {
	const struct spec *spec;
	unsigned prefix;
	char *name;
	uint64_t vaddr, bytes;
	struct site site;
	int leave_out;
};

/* What tells whose allocator a file has. */
const char *const sampler_allocators[] = { "glibc", "jemalloc", "tcmalloc", "mimalloc",
					   "go",    "hotspot",  "rust",     NULL };
static const struct {
	/* a name, or what one begins with where it ends in * */
	const char *function;
	unsigned allocator;
} families[] = {
	{ "malloc_trim", 0 },      { "mallocx", 1 },           { "je_mallocx", 1 },
	{ "_rjem_mallocx", 1 },    { "tc_malloc", 2 },         { "mi_malloc", 3 },
	{ "runtime.mallocgc", 4 }, { "_ZN11AllocTracer*", 5 }, { "__rust_alloc", 6 },
};

/* The search of one file. */
struct search {
	const struct sampler_want *want;
	/* the name alone */
	const char *wanted;
	size_t wanted_len;
	struct spec custom;
	/* and left out, as frees were asked for */
	int is_go;
	uint64_t hook_bytes;
	/* bits: of which allocators it has functions */
	unsigned families;
	struct found *all;
	size_t count, cap;
	int failed;
	struct {
		char *name;
		unsigned distance;
	} near[NEAR_MAX];
};

void sampler_functions_fini(struct sampler_functions *functions)
{
	for (size_t i = 0; i < functions->count; i++) {
		free(functions->all[i].module);
		free(functions->all[i].name);
		free(functions->all[i].attach);
	}
	free(functions->all);
	*functions = (struct sampler_functions){ 0 };
}

/*
 * Equal. Of a program with a hundred thousand names nearly none is: the first three letters, which
 * all have that are looked for, tell that without a call.
 */
static int is_name(const char *name, const char *other)
{
	return name[0] == other[0] && name[1] == other[1] && (!name[1] || name[2] == other[2]) &&
	       !strcmp(name, other);
}

/* Words that are no allocator's without a prefix. */
static int is_word(const char *name)
{
	static const char *const words[] = { "new",         "newarray", "new_nothrow",   "delete",
					     "deletearray", "zalloc",   "malloc_aligned" };
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (!strcmp(name, words[i]))
			return 1;
	return 0;
}

static const struct spec *spec_of(const char *name, unsigned *prefix)
{
	for (unsigned p = 0; p < ARRAY_LEN(prefixes); p++) {
		size_t len = strlen(prefixes[p]);
		if (strncmp(name, prefixes[p], len))
			continue;
		for (size_t i = 0; i < ARRAY_LEN(specs); i++) {
			if (is_name(name + len, specs[i].name) &&
			    !(p < 4 && is_word(specs[i].name))) {
				*prefix = p;
				return &specs[i];
			}
		}
	}
	return NULL;
}

/* How many letters lie between two names, up to 12; more than that is no likeness. */
static unsigned distance(const char *a, const char *b, size_t b_len)
{
	enum { MAX = 64 };
	unsigned row[MAX + 1];
	size_t a_len = strlen(a);
	if (a_len > MAX || b_len > MAX)
		return 99;
	for (size_t k = 0; k <= b_len; k++)
		row[k] = (unsigned)k;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned before = row[0];
		row[0] = (unsigned)i;
		for (size_t k = 1; k <= b_len; k++) {
			unsigned cost = before + (tolower((unsigned char)a[i - 1]) !=
						  tolower((unsigned char)b[k - 1]));
			before = row[k];
			if (row[k] + 1 < cost)
				cost = row[k] + 1;
			if (row[k - 1] + 1 < cost)
				cost = row[k - 1] + 1;
			row[k] = cost;
		}
	}
	return row[b_len];
}

static void note_near(struct search *s, const char *name)
{
	unsigned d = distance(name, s->wanted, s->wanted_len);
	/* what holds the word is near, however long it is */
	if (d > s->wanted_len / 2 && s->wanted_len > 3) {
		char word[64];
		snprintf(word, sizeof(word), "%.*s", (int)s->wanted_len, s->wanted);
		if (strcasestr(name, word))
			d = (unsigned)s->wanted_len / 2;
	}
	if (d > s->wanted_len / 2 + 1)
		return;
	for (unsigned i = 0; i < NEAR_MAX; i++)
		if (s->near[i].name && !strcmp(s->near[i].name, name))
			return;
	for (unsigned i = 0; i < NEAR_MAX; i++) {
		if (s->near[i].name && s->near[i].distance <= d)
			continue;
		free(s->near[NEAR_MAX - 1].name);
		memmove(&s->near[i + 1], &s->near[i], (NEAR_MAX - 1 - i) * sizeof(s->near[0]));
		s->near[i].name = strdup(name);
		s->near[i].distance = d;
		return;
	}
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one rule of names a case */
static int take(void *ctx, const struct function *f)
{
	struct search *s = ctx;
	unsigned prefix = 0;
	const struct spec *spec;
	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		const char *name = families[i].function, *star = strchr(name, '*');
		if (star ? !strncmp(f->name, name, (size_t)(star - name)) : is_name(f->name, name))
			s->families |= 1u << families[i].allocator;
	}
	if (s->wanted) {
		if (strlen(f->name) != s->wanted_len ||
		    strncasecmp(f->name, s->wanted, s->wanted_len)) {
			note_near(s, f->name);
			spec = s->want->track ? spec_of(f->name, &prefix) : NULL;
			if (!spec || spec->group < FREE)
				return 0;
		} else {
			spec = &s->custom;
		}
	} else {
		spec = spec_of(f->name, &prefix);
	}
	if (!spec || (spec->group >= FREE && !s->want->track))
		return 0;
	for (size_t i = 0; i < s->count; i++) {
		struct found *same = &s->all[i];
		if (same->vaddr != f->vaddr)
			continue;
		/* aliases: the name that people know */
		if (prefix < same->prefix || (prefix == same->prefix && spec < same->spec)) {
			char *name = strdup(f->name);
			if (!name)
				return s->failed = -ENOMEM;
			free(same->name);
			same->name = name;
			same->prefix = prefix;
			same->spec = spec;
		}
		return 0;
	}
	if (s->count == s->cap) {
		size_t cap = s->cap ? s->cap * 2 : 32;
		struct found *grown = reallocarray(s->all, cap, sizeof(*grown));
		if (!grown)
			return s->failed = -ENOMEM;
		s->all = grown;
		s->cap = cap;
	}
	s->all[s->count] = (struct found){ .spec = spec,
					   .prefix = prefix,
					   .name = strdup(f->name),
					   .vaddr = f->vaddr,
					   .bytes = f->bytes };
	if (!s->all[s->count].name)
		return s->failed = -ENOMEM;
	s->count++;
	return 0;
}

static uint32_t wanted_registers(const struct spec *spec)
{
	const uint8_t regs[] = { spec->size, spec->times, spec->old, spec->align };
	uint32_t bits = 0;
	for (size_t i = 0; i < ARRAY_LEN(regs); i++)
		if (regs[i] != WIRE_SAMPLE_NONE)
			bits |= 1u << regs[i];
	return bits;
}

static size_t read_code(struct functions *file, uint64_t vaddr, uint64_t bytes, uint8_t *code)
{
	return functions_code(file, vaddr, code, bytes && bytes < CODE_BYTES ? bytes : CODE_BYTES);
}

#define G(group) (1u << (group))
#define ALLOCATES (G(ALLOC) | G(ZEROED) | G(RESIZE) | G(ALIGNED) | G(STORED) | G(PAGES))

static int is_of(const struct spec *spec, uint32_t groups)
{
	return spec && (groups & G(spec->group));
}

/*
 * Whether the code at @target, which may be a stub that leads elsewhere, is a function of one of
 * @groups.
 */
static int is_target(const struct search *s, struct functions *file, uint64_t target,
		     uint32_t groups)
{
	unsigned prefix;
	for (size_t i = 0; i < s->count; i++)
		if (s->all[i].vaddr == target && is_of(s->all[i].spec, groups))
			return 1;
	const char *stub = functions_stub(file, target);
	return stub && is_of(spec_of(stub, &prefix), groups);
}

/*
 * Whether one of @edges leads to a function of one of @groups, at once or by @steps others between.
 */
static int edges_lead(const struct search *s, struct functions *file, const uint64_t *edges,
		      uint32_t count, uint32_t groups, int steps)
{
	for (uint32_t e = 0; e < count; e++)
		if (is_target(s, file, edges[e], groups))
			return 1;
	for (uint32_t e = 0; steps && e < count; e++) {
		uint8_t code[SITE_EDGES_BYTES];
		uint64_t next[SITE_EDGES_MAX];
		size_t bytes = functions_code(file, edges[e], code, sizeof(code));
		uint32_t n = bytes ? site_edges(code, bytes, edges[e], next) : 0;
		if (edges_lead(s, file, next, n, groups, steps - 1))
			return 1;
	}
	return 0;
}

static int leads_to(const struct search *s, struct functions *file, const struct site *from,
		    uint32_t groups, int steps)
{
	return edges_lead(s, file, from->edges, from->edge_count, groups, steps);
}

/* Whether a function does nothing but hand on to another one that is counted. */
static int only_forwards(const struct search *s, struct functions *file, const struct found *f)
{
	uint32_t own = f->spec->group >= FREE ? G(FREE) | G(FREE_FORWARDER)
					      : ALLOCATES | G(ROUNDER) | G(FORWARDER);
	if (f->site.jumps_at_once && is_target(s, file, f->site.edges[0], own))
		return 1;
	switch (f->spec->group) {
	case FORWARDER:
		return leads_to(s, file, &f->site, ALLOCATES, 1);
	case ROUNDER:
		return leads_to(s, file, &f->site, G(ROUNDER), 0);
	case PAGES:
		return leads_to(s, file, &f->site, ALLOCATES & ~G(PAGES), 0);
	case ALIGNED: /* small alignments may end in malloc(), the others do not */
		return leads_to(s, file, &f->site, G(ALIGNED), 0);
	case FREE_FORWARDER:
		return leads_to(s, file, &f->site, G(FREE), 0);
	default:
		return 0;
	}
}

static struct found *found_as(const struct search *s, const char *name)
{
	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->all[i].name, name))
			return &s->all[i];
	return NULL;
}

/* The value of a variable of eight bytes of a process; 0 where it cannot be read. */
static uint64_t variable_of(struct functions *file, uint32_t pid,
			    const struct code_mapping *mapping, const char *name)
{
	uint64_t at = functions_variable(file, name), value = 0;
	int64_t vaddr = functions_vaddr(file, mapping->file_offset);
	char path[64];
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/mem", pid);
	int mem = pid && at && vaddr >= 0 ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	if (mem < 0)
		return 0;
	if (pread(mem, &value, sizeof(value), (off_t)(at + mapping->lo - (uint64_t)vaddr)) !=
	    sizeof(value))
		value = 0;
	close(mem);
	return value;
}

/*
 * A Go program: it takes one sample for MemProfileRate bytes by itself unless it was linked without
 * its profile; then every call is looked at. Its frees are the collector's, and returns of its
 * functions cannot be probed, as its stacks move.
 */
static void decide_go(struct search *s, struct functions *file, uint32_t pid,
		      const struct code_mapping *mapping)
{
	struct found *each = found_as(s, "runtime.mallocgc");
	struct found *hook = found_as(s, "runtime.profilealloc");
	uint64_t rate;
	if (!each)
		return;
	rate = variable_of(file, pid, mapping, "runtime.MemProfileRate");
	if (s->want->track) {
		each->leave_out = s->is_go = 1;
		if (hook)
			hook->leave_out = 1;
	} else if (hook && rate && rate <= 1u << 30) {
		each->leave_out = 1;
		s->hook_bytes = rate;
	} else if (hook) {
		hook->leave_out = 1;
	}
}

/*
 * jemalloc and tcmalloc: where they sample by themselves, their own hook stands for all of their
 * functions.
 */
static void decide_hooks(struct search *s, struct functions *file, uint32_t pid,
			 const struct code_mapping *mapping)
{
	struct found *hook = NULL;
	for (size_t i = 0; i < s->count; i++)
		if (s->all[i].spec->flags & WIRE_SAMPLE_F_COUNTER ||
		    !strcmp(s->all[i].spec->name, TCMALLOC_HOOK))
			hook = &s->all[i];
	if (!hook)
		return;
	hook->leave_out = s->want->track || s->want->calls_only;
	if (!hook->leave_out && !(hook->spec->flags & WIRE_SAMPLE_F_COUNTER)) {
		uint64_t rate = variable_of(file, pid, mapping, TCMALLOC_RATE);
		if (!rate)
			rate = variable_of(file, pid, mapping, TCMALLOC_RATE_LATER);
		hook->leave_out = !rate || rate > 1u << 30;
		if (!hook->leave_out)
			s->hook_bytes = rate;
	}
	for (size_t i = 0; i < s->count && !hook->leave_out; i++)
		if (s->all[i].spec->group != HOOK && s->all[i].spec->group < FREE)
			s->all[i].leave_out = 1;
}

/* The sites, and what is not to be probed: what only forwards is seen where it arrives. */
static void decide(struct search *s, struct functions *file)
{
	static uint8_t code[CODE_BYTES];
	int has_malloc = 0, has_free = 0;
	for (size_t i = 0; i < s->count; i++) {
		struct found *f = &s->all[i];
		size_t bytes = read_code(file, f->vaddr, f->bytes, code);
		site_choose(code, bytes, f->vaddr, wanted_registers(f->spec), &f->site);
		f->leave_out = !bytes;
		has_malloc |= f->spec->group == ALLOC;
		has_free |= f->spec->group == FREE;
	}
	for (size_t i = 0; i < s->count; i++) {
		struct found *f = &s->all[i];
		int is_free = f->spec->group >= FREE;
		if (f->spec == &s->custom || f->leave_out)
			continue;
		if (f->spec->group == HOOK) {
			f->leave_out = s->want->track;
			continue;
		}
		/*
		 * a free is to be followed where the allocation was asked for by name, in whatever
		 * module
		 */
		/*
		 * libstdc++ has no allocator, and asks libc's for more than it was asked for where
		 * alignments are given
		 */
		int is_none = is_free ? !has_free || (!has_malloc && !s->wanted) : !has_malloc;
		f->leave_out = only_forwards(s, file, f) || (is_none && f->spec->group != ROUNDER);
	}
}

/* Through what path the very file that is mapped can be reached. */
char *sampler_attach_path(uint32_t pid, const struct code_mapping *mapping)
{
	char path[4200], *copy;
	struct stat own, mapped;
	char at[128];
	if (!pid)
		return strdup(mapping->path);
	snprintf(at, sizeof(at), "/proc/%" PRIu32 "/map_files/%" PRIx64 "-%" PRIx64, pid,
		 mapping->lo, mapping->hi);
	snprintf(path, sizeof(path), "/proc/%" PRIu32 "/root%s", pid, mapping->path);
	if (stat(path, &own) == 0 && own.st_ino == mapping->inode &&
	    (stat(at, &mapped) < 0 || (own.st_dev == mapped.st_dev && own.st_ino == mapped.st_ino)))
		copy = strdup(path);
	else
		copy = strdup(at);
	return copy;
}

static int add_found(struct search *s, struct functions *file, uint32_t pid,
		     const struct code_mapping *mapping, struct sampler_functions *out,
		     struct err *err)
{
	for (size_t i = 0; i < s->count; i++) {
		const struct found *f = &s->all[i];
		if (f->leave_out)
			continue;
		int64_t at = functions_offset(file, f->vaddr + f->site.offset);
		struct sampler_function *grown =
			at < 0 ? NULL : reallocarray(out->all, out->count + 1, sizeof(*out->all));
		if (at < 0)
			continue;
		if (!grown)
			return err_set(err, -ENOMEM, "cannot list functions");
		out->all = grown;
		int leads = leads_to(s, file, &f->site, G(ALLOC) | G(ZEROED),
				     f->spec->group == ALIGNED);
		uint8_t align =
			f->spec->group == ALIGNED && leads ? f->spec->align : WIRE_SAMPLE_NONE;
		uint8_t flags = f->spec->flags;
		if (f->spec->group == RESIZE && leads && f->spec != &s->custom)
			flags |= WIRE_SAMPLE_F_OLD_NULL_ELSEWHERE;
		struct sampler_function *to = &out->all[out->count];
		*to = (struct sampler_function){
			.module = strdup(mapping->path),
			.name = strdup(f->name),
			.vaddr = f->vaddr,
			.bytes = f->bytes,
			.site = f->site.offset,
			.file_at = (uint64_t)at,
			.leads_to = { f->site.leads_to[0], f->site.leads_to[1] },
			.kind = (enum sampler_site_kind)f->site.kind,
			.is_free = f->spec->group >= FREE,
			.is_hook = f->spec->group == HOOK,
			.cookie = WIRE_SAMPLE_COOKIE(f->spec->size, f->spec->times, f->spec->old,
						     align, flags, 0),
			.attach = sampler_attach_path(pid, mapping),
		};
		out->count++;
		if (!to->module || !to->name || !to->attach)
			return err_set(err, -ENOMEM, "cannot list functions");
	}
	return 0;
}

/* "NAME[:SIZE[,TIMES]]" */
static int parse_wanted(struct search *s, const char *text, struct err *err)
{
	const char *colon = strchr(text, ':');
	unsigned size = 0, times = WIRE_SAMPLE_NONE, prefix;
	char end;
	s->wanted = text;
	s->wanted_len = colon ? (size_t)(colon - text) : strlen(text);
	if (!s->wanted_len)
		return err_set(err, -EINVAL, "'%s' names no function", text);
	char name[256];
	snprintf(name, sizeof(name), "%.*s", (int)s->wanted_len, text);
	for (char *p = name; *p && spec_of(name, &prefix) == NULL; p++)
		*p = (char)tolower((unsigned char)*p); /* MALLOC, as in any case */
	const struct spec *known = spec_of(name, &prefix);
	if (colon) {
		int n = sscanf(colon + 1, "%u,%u%c", &size, &times, &end);
		if (n < 1 || n > 2 ||
		    (n == 1 && strspn(colon + 1, "0123456789") != strlen(colon + 1)) || size > 5 ||
		    (n == 2 && times > 5)) {
			err_set(err, -EINVAL, "'%s': the size is an argument from 0 to 5", text);
			return err_hint(err, "NAME:SIZEARG or NAME:SIZEARG,TIMESARG; arguments "
					     "count from 0");
		}
	} else if (known && known->group >= FREE) {
		return err_set(err, -EINVAL, "'%s' allocates nothing", text);
	}
	s->custom = known && !colon ? *known
				    : (struct spec){ .group = ALLOC,
						     .size = (uint8_t)size,
						     .times = (uint8_t)times,
						     .old = WIRE_SAMPLE_NONE,
						     .align = WIRE_SAMPLE_NONE };
	if (known && !colon) /* asked for by name: counted, whatever it calls */
		s->custom.group = known->group == FORWARDER || known->group == ROUNDER ||
						  known->group == PAGES
					  ? ALLOC
					  : known->group;
	return 0;
}

static void clear_found(struct search *s)
{
	for (size_t i = 0; i < s->count; i++)
		free(s->all[i].name);
	s->count = 0;
}

static int is_family(const struct search *s)
{
	for (unsigned i = 0; sampler_allocators[i]; i++)
		if (!strcmp(sampler_allocators[i], s->want->allocator))
			return s->families >> i & 1;
	return 0;
}

static int look_into(struct search *s, struct elf_files *files, uint32_t pid,
		     const struct code_mapping *mapping, struct sampler_functions *out,
		     enum functions_names *names, int *is_static, struct err *err)
{
	struct err gone;
	err_init(&gone);
	CLEANUP(functions_freep)
	struct functions *file = functions_open(files, mapping->path, mapping->build_id,
						mapping->build_id_len, &gone);
	if (!file)
		return s->want->program ? err_set(err, gone.code, "%s", gone.msg) : 0;
	*names = functions_names(file);
	*is_static = functions_is_static(file);
	clear_found(s);
	s->families = 0;
	int died = functions_each(file, take, s);
	if (s->failed)
		return err_set(err, s->failed, "cannot list functions");
	if (died == -EPIPE)
		return s->want->program
			       ? err_set(err, died, "whoever reads '%s' died", mapping->path)
			       : 0;
	if (s->want->allocator && !is_family(s))
		return 0;
	decide(s, file);
	if (!s->wanted) {
		decide_go(s, file, pid, mapping);
		decide_hooks(s, file, pid, mapping);
	}
	out->hook_bytes = s->hook_bytes;
	int rc = add_found(s, file, pid, mapping, out, err);
	return rc || s->wanted || s->want->calls_only
		       ? rc
		       : sampler_find_usdts(file, pid, mapping, s->want->track, out, err);
}

static void free_function(struct sampler_function *f)
{
	free(f->module);
	free(f->name);
	free(f->attach);
}

/*
 * A program that samples by the contract says all that there is to say: what its functions are
 * called for is known from there.
 */
static void keep_usdts_alone(struct sampler_functions *out)
{
	size_t kept = 0, allocs = 0;
	for (size_t i = 0; i < out->count; i++)
		allocs += out->all[i].is_usdt && !out->all[i].is_free;
	for (size_t i = 0; i < out->count && allocs; i++) {
		if (out->all[i].is_usdt)
			out->all[kept++] = out->all[i];
		else
			free_function(&out->all[i]);
	}
	if (allocs)
		out->count = kept;
}

static int is_first(const struct code_mappings *mappings, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(mappings->all[k].path, mappings->all[i].path) &&
		    mappings->all[k].inode == mappings->all[i].inode)
			return 0;
	return 1;
}

/* The same file, by what it is called or by what it is. */
static int is_program(const char *program, uint32_t pid, const char *path)
{
	char below[4200];
	struct stat a, b;
	if (!strcmp(program, path))
		return 1;
	const char *base = strrchr(path, '/');
	if (!strchr(program, '/'))
		return base && !strcmp(base + 1, program);
	snprintf(below, sizeof(below), "/proc/%" PRIu32 "/root%s", pid, path);
	return stat(program, &a) == 0 && stat(below, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}

static int nothing_found(const struct search *s, uint32_t pid, const char *program,
			 enum functions_names names, int is_static, struct err *err)
{
	char who[64], what[300];
	snprintf(who, sizeof(who), "process %" PRIu32, pid);
	snprintf(what, sizeof(what), "no function '%.*s'", (int)s->wanted_len,
		 s->wanted ? s->wanted : "");
	int is_foreign = sym_program_is_foreign(pid, program);
	const char *kind = is_foreign ? ": it is a program for another machine or word size"
			   : names == FUNCTIONS_STRIPPED && is_static
				   ? ": it is a static program, stripped of its names"
			   : names == FUNCTIONS_STRIPPED ? ": it is stripped of its names"
			   : is_static                   ? ": it is a static program"
							 : "";
	if (s->is_go) {
		err_set(err, -EINVAL,
			"%s runs Go, whose collector frees: what is live cannot be followed", who);
		return err_hint(err, "without --leaks its allocations are sampled");
	}
	if (s->want->allocator && !s->wanted)
		snprintf(what, sizeof(what), "no %s", s->want->allocator);
	err_set(err, -ENOENT, "%s in %s%s%s%s",
		s->wanted || s->want->allocator ? what : "no allocator was found",
		program ? "'" : who, program ? program : "", program ? "'" : "", kind);
	err->code = -ENOENT;
	char *tail = strstr(err->msg, ": No such file");
	if (tail)
		*tail = '\0';
	struct buf text = { 0 };
	for (unsigned i = 0; i < NEAR_MAX && s->near[i].name; i++)
		buf_printf(&text, "%s%s", i ? ", " : "", s->near[i].name);
	if (text.len)
		err_hint(err, "names that come near: %s", buf_cstr(&text));
	else if (is_foreign)
		err_hint(err,
			 "only programs of byteledger's own machine and word size are sampled");
	else if (names == FUNCTIONS_STRIPPED)
		err_hint(err, "its debug file has the names; or give the library that allocates "
			      "with --program");
	else
		err_hint(err, "-f NAME:SIZEARG names a function and the argument that is the size");
	buf_fini(&text);
	return -ENOENT;
}

struct sampler_files {
	struct code_mappings mappings;
};

void sampler_files_freep(struct sampler_files **files)
{
	if (*files)
		code_mappings_fini(&(*files)->mappings);
	free(*files);
	*files = NULL;
}

static int was_looked_into(const struct sampler_files *before, const struct code_mapping *mapping)
{
	for (size_t i = 0; before && i < before->mappings.count; i++)
		if (before->mappings.all[i].inode == mapping->inode &&
		    !strcmp(before->mappings.all[i].path, mapping->path))
			return 1;
	return 0;
}

static int has_new(const struct sampler_files *before, const struct code_mappings *now)
{
	for (size_t i = 0; i < now->count; i++)
		if (now->all[i].path[0] == '/' && !was_looked_into(before, &now->all[i]))
			return 1;
	return 0;
}

/* In what is mapped now and was not @before; of that the mappings are left in @mappings. */
static int find(uint32_t pid, const struct sampler_want *want, const struct sampler_files *before,
		struct code_mappings *mappings, struct sampler_functions *out, struct err *err)
{
	struct search s = { .want = want };
	enum functions_names names = FUNCTIONS_STRIPPED;
	int is_static = 0, met = 0, rc = 0;
	struct code_mapping alone = { .path = (char *)want->program };
	memset(out, 0, sizeof(*out));
	CLEANUP(elf_files_freep) struct elf_files *files = NULL;
	if (want->function)
		rc = parse_wanted(&s, want->function, err);
	if (!rc && pid)
		rc = code_mappings_read(mappings, pid, NULL, err);
	if (rc < 0 || (before && !has_new(before, mappings)))
		return rc;
	if (!(files = elf_files_new(pid, err)))
		rc = -EACCES; /* what @err says */
	int is_foreign = sym_program_is_foreign(pid, want->program);
	met = !pid || is_foreign;
	if (!rc && !pid && !is_foreign)
		rc = look_into(&s, files, 0, &alone, out, &names, &is_static, err);
	for (size_t i = 0; !rc && !is_foreign && i < mappings->count; i++) {
		const struct code_mapping *mapping = &mappings->all[i];
		enum functions_names its;
		int its_static = 0;
		if (mapping->path[0] != '/' || !is_first(mappings, i) ||
		    was_looked_into(before, mapping))
			continue;
		if (want->program && !is_program(want->program, pid, mapping->path))
			continue;
		its = FUNCTIONS_STRIPPED;
		rc = look_into(&s, files, pid, mapping, out, &its, &its_static, err);
		if (!met || its > names)
			names = its;
		/* what is loaded looks static as well: it names no loader */
		is_static = !met && its_static;
		met++;
	}
	if (!rc && !met && !before)
		rc = want->program
			     ? err_set(err, -EINVAL, "process %" PRIu32 " has not mapped '%s'", pid,
				       want->program)
			     : err_set(err, -EINVAL, "process %" PRIu32 " has mapped no file", pid);
	if (!rc)
		keep_usdts_alone(out);
	int allocs = 0;
	for (size_t i = 0; i < out->count; i++)
		allocs += !out->all[i].is_free;
	if (!rc && !allocs && !before)
		rc = nothing_found(&s, pid, want->program, names, is_static, err);
	clear_found(&s);
	free(s.all);
	for (unsigned i = 0; i < NEAR_MAX; i++)
		free(s.near[i].name);
	if (rc < 0)
		sampler_functions_fini(out);
	return rc;
}

int sampler_find(uint32_t pid, const struct sampler_want *want, struct sampler_functions *out,
		 struct err *err)
{
	struct code_mappings mappings = { 0 };
	int rc = find(pid, want, NULL, &mappings, out, err);
	code_mappings_fini(&mappings);
	return rc;
}

int sampler_find_more(uint32_t pid, const struct sampler_want *want, struct sampler_files **files,
		      struct sampler_functions *out, struct err *err)
{
	struct sampler_files *now = calloc(1, sizeof(*now));
	memset(out, 0, sizeof(*out));
	if (!now)
		return err_set(err, -ENOMEM, "cannot list files");
	int rc = find(pid, want, *files, &now->mappings, out, err);
	if (rc < 0) {
		sampler_files_freep(&now);
		return rc;
	}
	sampler_files_freep(files);
	*files = now;
	return 0;
}
