/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h - what the files of the child share: the state of a script, and the kinds of values
 * that it handles. Private to script.
 */
#ifndef SCRIPT_MACHINE_H
#define SCRIPT_MACHINE_H

#include <time.h>

#include "script/lua.h"
#include "script/script.h"

#define LIST_NAME "list"
#define GROUPS_NAME "groups"
#define ITEM_NAME "block"
#define TRACE_NAME "backtrace"
#define DURATION_NAME "duration"
#define GRAPH_NAME "graph"

/**
 * struct machine - one script's state, found behind the allocator's pointer and as a light upvalue.
 */
struct machine {
	const struct script_data *data;
	const struct script_opt *opt;
	/* the pipe */
	int out;
	size_t used, most;
	size_t pictures;
	/* of pictures: nothing but a prefix of their paths */
	char cwd[256];
	/* blocks */
	uint64_t rows;
};

/** What goes through the pipe: a byte that says what, its length, the bytes. */
enum message { MESSAGE_LINE = 'l', MESSAGE_PICTURE = 'p', MESSAGE_ERROR = 'e', MESSAGE_DONE = 'd' };
/** machine_tell() - ends the child where nobody listens. */
void machine_tell(struct machine *m, enum message what, const void *a, size_t a_len, const void *b,
		  size_t b_len);
/** machine_main() - in the child: runs @source and does not return. */
void machine_main(struct machine *m, const char *source, size_t len) __attribute__((noreturn));
struct machine *machine_of(lua_State *L);

/**
 * struct list - some blocks, or some mappings: a bit for each row in the order of blocks_scan().
 * Its first user value: rows by id.
 */
struct list {
	int of_maps;
	uint64_t rows, count;
	uint8_t bits[];
};
struct list *list_check(lua_State *L, int at);
struct list *list_push(lua_State *L, int of_maps);
/** list_each() - its rows, in the order of the scan; @each returns nonzero to end. */
int list_each(lua_State *L, const struct list *list,
	      int (*each)(void *ctx, uint64_t at, const struct block_row *row), void *ctx);
/** list_of_stacks() - what of @list has a stack in @mask. */
struct list *list_of_stacks(lua_State *L, const struct list *list, const uint8_t *mask);
static inline int list_has(const struct list *list, uint64_t at)
{
	return list->bits[at / 8] >> at % 8 & 1;
}
/** mask_push() - a byte for each stack row, zeroed: on the stack, so that Lua frees it. */
uint8_t *mask_push(lua_State *L);

/** struct groups - blocks of a list by stack; its first user value is that list. */
struct groups_row {
	uint32_t stack;
	uint64_t count, bytes;
};
struct groups {
	uint32_t count;
	int of_maps;
	struct groups_row rows[];
};

struct item {
	struct block_row row;
};
void item_push(lua_State *L, const struct block_row *row);
struct trace {
	uint32_t stack;
	int stripped;
};
void duration_push(lua_State *L, int64_t ns);
/** duration_check() - a duration, or a number of seconds. */
int64_t duration_check(lua_State *L, int at);

/* Each registers its kinds of values and globals. */
void lists_open(lua_State *L);
void groups_open(lua_State *L);
void items_open(lua_State *L);
void graph_open(lua_State *L);
/** graph_of_list() - list:save_as_graph([name]), and the same as a flame graph. */
int graph_of_list(lua_State *L);
int flame_of_list(lua_State *L);
/** flame_save() - a picture of @list's blocks by stack. */
void flame_save(lua_State *L, const struct list *list, const char *name);
/** picture_save() - hand a picture on; @name may be NULL. */
void picture_save(struct machine *m, const char *name, const char *kind, const char *svg,
		  size_t len);

#endif
