/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lua.h - liblua5.4's functions under their own names, fetched by lua_library_get() when the first
 * script comes: few servers ever run one. Private to script.
 */
#ifndef SCRIPT_LUA_H
#define SCRIPT_LUA_H

#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "base/err.h"

#define LUA_FUNCTIONS(X)         \
	X(lua_newstate)          \
	X(lua_close)             \
	X(lua_gettop)            \
	X(lua_settop)            \
	X(lua_copy)              \
	X(lua_pushvalue)         \
	X(lua_rotate)            \
	X(lua_absindex)          \
	X(lua_type)              \
	X(lua_isinteger)         \
	X(lua_isnumber)          \
	X(lua_tonumberx)         \
	X(lua_tointegerx)        \
	X(lua_toboolean)         \
	X(lua_tolstring)         \
	X(lua_touserdata)        \
	X(lua_rawlen)            \
	X(lua_pushnil)           \
	X(lua_pushnumber)        \
	X(lua_pushinteger)       \
	X(lua_pushlstring)       \
	X(lua_pushstring)        \
	X(lua_pushfstring)       \
	X(lua_pushcclosure)      \
	X(lua_pushboolean)       \
	X(lua_pushlightuserdata) \
	X(lua_createtable)       \
	X(lua_newuserdatauv)     \
	X(lua_getglobal)         \
	X(lua_setglobal)         \
	X(lua_getfield)          \
	X(lua_setfield)          \
	X(lua_rawgeti)           \
	X(lua_rawseti)           \
	X(lua_rawget)            \
	X(lua_rawset)            \
	X(lua_setmetatable)      \
	X(lua_getiuservalue)     \
	X(lua_setiuservalue)     \
	X(lua_callk)             \
	X(lua_pcallk)            \
	X(lua_sethook)           \
	X(lua_error)             \
	X(luaL_error)            \
	X(luaL_argerror)         \
	X(luaL_typeerror)        \
	X(luaL_checknumber)      \
	X(luaL_checkinteger)     \
	X(luaL_checklstring)     \
	X(luaL_optlstring)       \
	X(luaL_checkudata)       \
	X(luaL_testudata)        \
	X(luaL_newmetatable)     \
	X(luaL_setmetatable)     \
	X(luaL_setfuncs)         \
	X(luaL_tolstring)        \
	X(luaL_loadbufferx)      \
	X(luaL_requiref)         \
	X(luaopen_base)          \
	X(luaopen_string)        \
	X(luaopen_table)         \
	X(luaopen_math)          \
	X(luaopen_utf8)

struct lua_library {
#define X(name) __typeof__(&(name)) name##_;
	LUA_FUNCTIONS(X)
#undef X
};
extern struct lua_library lua_library;

/**
 * lua_library_get() - 0, or -ENOENT with @err and a hint where liblua5.4 is not installed. Any
 * thread.
 */
int lua_library_get(struct err *err);

/* The headers' macros call these names, too. */
#ifndef SCRIPT_LUA_PLAIN
#define lua_newstate lua_library.lua_newstate_
#define lua_close lua_library.lua_close_
#define lua_gettop lua_library.lua_gettop_
#define lua_settop lua_library.lua_settop_
#define lua_copy lua_library.lua_copy_
#define lua_pushvalue lua_library.lua_pushvalue_
#define lua_rotate lua_library.lua_rotate_
#define lua_absindex lua_library.lua_absindex_
#define lua_type lua_library.lua_type_
#define lua_isinteger lua_library.lua_isinteger_
#define lua_isnumber lua_library.lua_isnumber_
#define lua_tonumberx lua_library.lua_tonumberx_
#define lua_tointegerx lua_library.lua_tointegerx_
#define lua_toboolean lua_library.lua_toboolean_
#define lua_tolstring lua_library.lua_tolstring_
#define lua_touserdata lua_library.lua_touserdata_
#define lua_rawlen lua_library.lua_rawlen_
#define lua_pushnil lua_library.lua_pushnil_
#define lua_pushnumber lua_library.lua_pushnumber_
#define lua_pushinteger lua_library.lua_pushinteger_
#define lua_pushlstring lua_library.lua_pushlstring_
#define lua_pushstring lua_library.lua_pushstring_
#define lua_pushfstring lua_library.lua_pushfstring_
#define lua_pushcclosure lua_library.lua_pushcclosure_
#define lua_pushboolean lua_library.lua_pushboolean_
#define lua_pushlightuserdata lua_library.lua_pushlightuserdata_
#define lua_createtable lua_library.lua_createtable_
#define lua_newuserdatauv lua_library.lua_newuserdatauv_
#define lua_getglobal lua_library.lua_getglobal_
#define lua_setglobal lua_library.lua_setglobal_
#define lua_getfield lua_library.lua_getfield_
#define lua_setfield lua_library.lua_setfield_
#define lua_rawgeti lua_library.lua_rawgeti_
#define lua_rawseti lua_library.lua_rawseti_
#define lua_rawget lua_library.lua_rawget_
#define lua_rawset lua_library.lua_rawset_
#define lua_setmetatable lua_library.lua_setmetatable_
#define lua_getiuservalue lua_library.lua_getiuservalue_
#define lua_setiuservalue lua_library.lua_setiuservalue_
#define lua_callk lua_library.lua_callk_
#define lua_pcallk lua_library.lua_pcallk_
#define lua_sethook lua_library.lua_sethook_
#define lua_error lua_library.lua_error_
#define luaL_error lua_library.luaL_error_
#define luaL_argerror lua_library.luaL_argerror_
#define luaL_typeerror lua_library.luaL_typeerror_
#define luaL_checknumber lua_library.luaL_checknumber_
#define luaL_checkinteger lua_library.luaL_checkinteger_
#define luaL_checklstring lua_library.luaL_checklstring_
#define luaL_optlstring lua_library.luaL_optlstring_
#define luaL_checkudata lua_library.luaL_checkudata_
#define luaL_testudata lua_library.luaL_testudata_
#define luaL_newmetatable lua_library.luaL_newmetatable_
#define luaL_setmetatable lua_library.luaL_setmetatable_
#define luaL_setfuncs lua_library.luaL_setfuncs_
#define luaL_tolstring lua_library.luaL_tolstring_
#define luaL_loadbufferx lua_library.luaL_loadbufferx_
#define luaL_requiref lua_library.luaL_requiref_
#define luaopen_base lua_library.luaopen_base_
#define luaopen_string lua_library.luaopen_string_
#define luaopen_table lua_library.luaopen_table_
#define luaopen_math lua_library.luaopen_math_
#define luaopen_utf8 lua_library.luaopen_utf8_
#endif

#endif
