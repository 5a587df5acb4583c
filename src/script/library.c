/* SPDX-License-Identifier: Apache-2.0 */
/* library.c - liblua5.4, loaded when it is needed. */
#define SCRIPT_LUA_PLAIN
#include "script/lua.h"

#include "base/cleanup.h"
#include "base/late.h"

struct lua_library lua_library;

int lua_library_get(struct err *err)
{
	static const char *const files[] = { "liblua5.4.so.0", NULL };
	static const struct late_function functions[] = {
#define X(name) { #name, &lua_library.name##_ },
		LUA_FUNCTIONS(X)
#undef X
	};
	static struct late late = { .files = files,
				    .package = "liblua5.4-0",
				    .functions = functions,
				    .count = ARRAY_LEN(functions),
				    .lock = PTHREAD_MUTEX_INITIALIZER };
	return late_get(&late, err);
}
