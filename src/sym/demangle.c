/* SPDX-License-Identifier: Apache-2.0 */
/*
 * demangle.c - libiberty does the work; here its appetite is bounded: substitutions let a name of a
 * kilobyte expand to gigabytes, so output beyond NAME_MAX_BYTES ends the attempt and the name stays
 * as it is.
 */
#include "sym/sym.h"

#include <ctype.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "base/buf.h"

#define MANGLED_MAX_BYTES (16u << 10)
#define NAME_MAX_BYTES (64u << 10)

struct output {
	struct buf text;
	jmp_buf too_long;
};

static void collect(const char *part, size_t len, void *opaque)
{
	struct output *output = opaque;
	if (output->text.len + len > NAME_MAX_BYTES)
		longjmp(output->too_long,
			1); /* the callback has no other way to stop the printer */
	buf_put(&output->text, part, len);
}

/* _ZN ... 17h<16 hex digits>E, or with a suffix such as .llvm.123 behind it */
static int is_rust_legacy(const char *name)
{
	if (strncmp(name, "_ZN", 3))
		return 0;
	for (const char *at = strstr(name, "17h"); at; at = strstr(at + 1, "17h")) {
		size_t digits = 0;
		while (digits < 16 && isxdigit((unsigned char)at[3 + digits]))
			digits++;
		if (digits == 16 && at[19] == 'E' && (!at[20] || at[20] == '.'))
			return 1;
	}
	return 0;
}

int sym_language(const char *name)
{
	if (!name)
		return SYMBOL_PLAIN;
	if (!strncmp(name, "_R", 2) || is_rust_legacy(name))
		return SYMBOL_RUST;
	return !strncmp(name, "_Z", 2) ? SYMBOL_CPP : SYMBOL_PLAIN;
}

static int demangle_into(struct output *output, const char *name)
{
	if (setjmp(output->too_long))
		return 0;
	int options = DMGL_PARAMS | DMGL_ANSI;
	if ((!strncmp(name, "_R", 2) || is_rust_legacy(name)) &&
	    rust_demangle_callback(name, options, collect, output))
		return 1;
	buf_clear(&output->text);
	return !strncmp(name, "_Z", 2) &&
	       cplus_demangle_v3_callback(name, options, collect, output);
}

/* Replace every @from by @to; @to is not longer. */
static void replace(char *text, const char *from, const char *to)
{
	size_t from_len = strlen(from), to_len = strlen(to);
	char *out = text;
	for (const char *in = text; *in;) {
		if (*in == *from && !strncmp(in, from, from_len)) {
			memcpy(out, to, to_len);
			out += to_len;
			in += from_len;
		} else {
			*out++ = *in++;
		}
	}
	*out = '\0';
}

/* "> >" as people write it today; operator> keeps its blank. */
static void close_brackets(char *text)
{
	char *out = text;
	for (char *in = text; *in; in++) {
		if (in[0] == ' ' && in[1] == '>' && out > text && out[-1] == '>' &&
		    !(out - text >= 9 && !memcmp(out - 9, "operator>", 9)))
			continue;
		*out++ = *in;
	}
	*out = '\0';
}

char *sym_demangle(const char *name)
{
	if (name[0] != '_' || (name[1] != 'Z' && name[1] != 'R') ||
	    strnlen(name, MANGLED_MAX_BYTES) == MANGLED_MAX_BYTES)
		return strdup(name);
	struct output output = { 0 };
	if (!demangle_into(&output, name) || !output.text.len || buf_failed(&output.text)) {
		buf_fini(&output.text);
		return strdup(name);
	}
	char *plain = buf_take(&output.text);
	if (!plain)
		return NULL;
	close_brackets(plain);
	replace(plain,
		"std::__cxx11::basic_string<char, std::char_traits<char>, std::allocator<char>>",
		"std::string");
	return plain;
}
