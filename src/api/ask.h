/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask.h - the words of a question to /api/v1 (docs/api.md 1): parsed, checked against what a route
 * takes, and put into one canonical text. A pure function of key and value, so that anything can be
 * fed to it.
 */
#ifndef API_ASK_H
#define API_ASK_H

#include "query/query.h"
#include "view/fold.h"

/* Groups of words that a route takes. */
enum ask_words {
	ASK_SRC = 1,           /* src */
	ASK_SELECTION = 2,     /* cost by at ... base */
	ASK_TREE = 4,          /* n nodes function side keys more */
	ASK_ROWS = 8,          /* sort order cursor */
	ASK_FIND = 16,         /* find */
	ASK_SERIES = 32,       /* series points encoding */
	ASK_WAIT = 64,         /* wait */
	ASK_EXPORT = 128,      /* format; `to` may name one, too */
	ASK_BLOCKS = 256,      /* order (time, size, lifetime) cursor part group */
	ASK_AXES = 512,        /* y, and x as an axis */
	ASK_WIDTH = 1024,      /* width */
	ASK_FILE = 2048,       /* file prefix */
	ASK_TRANSFORMS = 4096, /* x */
	ASK_TOPICS = 8192,     /* topics */
	ASK_SHEET = 16384,     /* by at diff limit */
	ASK_MARKS = 32768,     /* marks */
};

#define ASK_NODES_DEFAULT 6000
#define ASK_NODES_MAX 200000
#define ASK_LIMIT_DEFAULT 200
#define ASK_LIMIT_MAX 10000
#define ASK_POINTS_DEFAULT 1440
#define ASK_POINTS_MAX 4096
#define ASK_WAIT_MAX 250
#define ASK_QUERY_MAX 8192 /* bytes of keys and values together */

struct ask {
	uint64_t source;
	int source_given;
	enum view_cost cost;
	enum view_by by;
	int cost_given, by_given;
	/* strings are lent from the request */
	struct query query;
	uint64_t limit;
	int limit_given;
	int inverted;
	/* steps[].module lies in @text */
	struct fold_opt fold;
	int trunk;
	int has_base;
	uint64_t base_source;
	struct query_time base_at;
	/* NULL: the base is as a whole */
	const char *base_time;

	uint64_t node, function, nodes;
	int has_node, has_function, callers, keys;
	/* columns of nodes beside those that each has */
	int with_temporary, with_age;
	/* NULL; a frame of a module, path or function that it matches is the program's own */
	const char *own;
	/* of growth; the route finds them */
	const char *marks;
	const char *sort;
	int ascending;
	uint64_t cursor;
	const char *find;
	/* of events; the route knows them */
	const char *topics;
	/* of an export */
	const char *format;
	/* of blocks; NULL: not given */
	const char *order;
	/* of blocks: by the stack that allocated them */
	int grouped;
	const char *axis_x, *axis_y;
	/* of a sheet: what changed up to there */
	struct query_time diff;
	uint64_t width, file;
	int has_file;
	/* NULL; a folder of this disk, where sources are looked for, too */
	const char *prefix;
	const char *series;
	uint64_t points;
	/* numbers of series are what they differ by from those before them */
	int deltas;
	int has_wait;
	uint64_t wait_ms;
	/* who asked this does not come back */
	int stops;
	/* what is there so far, after the wait */
	int part;

	/* owned: names inside `x` */
	char *text;
	/* owned: canonical, the words of the selection that are given */
	char *selection;
	/* owned: canonical, all others but `wait` */
	char *rest;
	/* owned: what needs a replay of its own, "" = everything */
	char *reading;
	/* owned: the same without `at` */
	char *reading_but_at;
	/* owned: what the folded tree depends on */
	char *folding;
};

typedef const char *(*ask_get)(void *ctx, const char *key);
/**
 * ask_parse() - @get gives the value of a key or NULL. Keys that @words do not cover are not looked
 * for: ask_names() lists those that are, for a check that nothing else was sent. 0 or -EINVAL with
 * @err, and nothing to release.
 */
int ask_parse(ask_get get, void *ctx, unsigned words, struct ask *ask, struct err *err);
void ask_fini(struct ask *ask);
/**
 * ask_names() - the keys that @words cover into @names, NULL behind the last; returns their number.
 */
#define ASK_NAMES_MAX 48
size_t ask_names(unsigned words, const char *names[ASK_NAMES_MAX + 1]);

#endif
