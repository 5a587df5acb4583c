/* SPDX-License-Identifier: Apache-2.0 */
/* veil.c - what a definition calls things by, made less or nothing. */
#include "query/veil.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/intern.h"

#define AT_ONCE_MAX 256 /* functions inlined at one place */

/** struct numbered - names of one kind; the n-th one is called "PREFIX_n". */
struct numbered {
	const char *prefix;
	struct idtab tab;
	char **names;
	uint32_t count, room;
};

enum kind { LIBRARIES, SOURCES, FUNCTIONS, THREADS, KINDS };

struct veil {
	struct sink sink;
	struct sink *to;
	enum veil_how how;
	/* the program's own path, to tell its module by */
	char *exe;
	struct numbered numbered[KINDS];
	/* by AT_ONCE_MAX of them, two texts a symbol */
	char texts[AT_ONCE_MAX][2][32];
	struct symbol symbols[AT_ONCE_MAX];
};

static const char *base_of(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;
	return slash ? slash + 1 : path;
}

/** number_of() - of @name among those of its kind, from 1; 0: no memory. */
static uint32_t number_of(struct numbered *n, const char *name)
{
	uint32_t hash = (uint32_t)hash_bytes(name, strlen(name), hash_seed());
	if (idtab_reserve(&n->tab) < 0)
		return 0;
	uint32_t at = idtab_first(&n->tab, hash);
	for (; n->tab.slots[at].id != IDTAB_NONE; at = idtab_next(&n->tab, at))
		if (n->tab.slots[at].hash == hash &&
		    strcmp(n->names[n->tab.slots[at].id], name) == 0)
			return n->tab.slots[at].id + 1;
	if (n->count == n->room) {
		uint32_t room = n->room ? n->room * 2 : 64;
		char **grown = reallocarray(n->names, room, sizeof(*grown));
		if (!grown)
			return 0;
		n->names = grown;
		n->room = room;
	}
	if (!(n->names[n->count] = strdup(name)))
		return 0;
	idtab_put(&n->tab, at, hash, n->count);
	return ++n->count;
}

/** cover() - @name, of @kind, as it is told: in @text, or lent; NULL stays NULL. */
static const char *cover(struct veil *v, enum kind kind, const char *name, char text[32], int *rc)
{
	if (!name || v->how == VEIL_NOTHING)
		return name;
	if (v->how == VEIL_PARTLY)
		return kind == LIBRARIES || kind == SOURCES ? base_of(name) : name;
	uint32_t number = number_of(&v->numbered[kind], name);
	if (!number)
		*rc = -ENOMEM;
	snprintf(text, 32, "%s_%u", v->numbered[kind].prefix, number);
	return text;
}

static int cover_process(struct veil *v, struct def *def)
{
	if (def->process.exe && (!v->exe || strcmp(v->exe, def->process.exe) != 0)) {
		free(v->exe);
		v->exe = strdup(def->process.exe);
		if (!v->exe)
			return -ENOMEM;
	}
	def->process.exe = v->how == VEIL_FULLY ? "program" : base_of(def->process.exe);
	def->process.cmdline = def->process.exe;
	def->process.cmdline_bytes = def->process.exe ? strlen(def->process.exe) + 1 : 0;
	if (v->how == VEIL_FULLY) {
		def->process.pid = def->process.parent_pid = 0;
		def->process.start_realtime_ns = def->process.start_monotonic_ns = 0;
		def->process.family = 0;
	}
	return 0;
}

static void cover_module(struct veil *v, struct def *def, char text[32], int *rc)
{
	if (v->how == VEIL_FULLY && v->exe && def->module.path &&
	    strcmp(def->module.path, v->exe) == 0)
		def->module.path = "program";
	else
		def->module.path = cover(v, LIBRARIES, def->module.path, text, rc);
	if (v->how == VEIL_FULLY)
		def->module.build_id_len = 0;
}

static void cover_symbols(struct veil *v, struct def *def, int *rc)
{
	uint32_t count = def->symbol.count < AT_ONCE_MAX ? def->symbol.count : AT_ONCE_MAX;
	for (uint32_t i = 0; i < count; i++) {
		struct symbol *to = &v->symbols[i];
		*to = def->symbol.symbols[i];
		to->function = cover(v, FUNCTIONS, to->function, v->texts[i][0], rc);
		to->file = cover(v, SOURCES, to->file, v->texts[i][1], rc);
	}
	def->symbol.symbols = v->symbols;
	def->symbol.count = count;
}

static int veil_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct veil *v = (struct veil *)sink;
	struct def covered = *def;
	char text[32];
	int rc = 0;
	switch (v->how == VEIL_NOTHING ? 0 : (int)def->kind) {
	case DEF_PROCESS:
		rc = cover_process(v, &covered);
		break;
	case DEF_THREAD:
		if (!def->thread.tid && def->thread.name &&
		    strcmp(def->thread.name, THREADS_FURTHER) == 0)
			break; /* nobody's name: many share it */
		covered.thread.name = cover(v, THREADS, def->thread.name, text, &rc);
		if (v->how == VEIL_FULLY && covered.thread.tid)
			covered.thread.tid = def->id + 1;
		break;
	case DEF_MODULE:
		cover_module(v, &covered, text, &rc);
		break;
	case DEF_SYMBOL:
		cover_symbols(v, &covered, &rc);
		break;
	case DEF_RULE: /* a pattern of names, or of paths */
		return 0;
	default:
		break;
	}
	if (rc < 0)
		return err_set(err, rc, "cannot hold the names");
	return v->to->define(v->to, &covered, err);
}

static int veil_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct veil *v = (struct veil *)sink;
	size_t done = 0;
	int rc = 0;
	for (size_t i = 0; i < count && rc >= 0 && v->how == VEIL_FULLY; i++) {
		if (events[i].kind != EVENT_FORKED)
			continue;
		struct event covered = events[i];
		covered.value = covered.value != 0; /* of whom it is the child */
		rc = i > done ? v->to->put(v->to, events + done, i - done, err) : 0;
		rc = rc < 0 ? rc : v->to->put(v->to, &covered, 1, err);
		done = i + 1;
	}
	return rc < 0 || done == count ? rc : v->to->put(v->to, events + done, count - done, err);
}

struct veil *veil_new(enum veil_how how, struct sink *to, struct err *err)
{
	struct veil *v = calloc(1, sizeof(*v));
	if (!v) {
		err_set(err, -ENOMEM, "cannot hold the names");
		return NULL;
	}
	static const char *const prefixes[KINDS] = {
		[LIBRARIES] = "lib", [SOURCES] = "src", [FUNCTIONS] = "fn", [THREADS] = "thread"
	};
	v->sink = (struct sink){ .define = veil_define, .put = veil_put };
	v->to = to;
	v->how = how;
	for (size_t i = 0; i < KINDS; i++)
		v->numbered[i].prefix = prefixes[i];
	return v;
}

struct sink *veil_sink(struct veil *veil)
{
	return &veil->sink;
}

void veil_freep(struct veil **veil)
{
	struct veil *v = *veil;
	*veil = NULL;
	if (!v)
		return;
	for (size_t i = 0; i < KINDS; i++) {
		for (uint32_t j = 0; j < v->numbered[i].count; j++)
			free(v->numbered[i].names[j]);
		free(v->numbered[i].names);
		idtab_fini(&v->numbered[i].tab);
	}
	free(v->exe);
	free(v);
}
