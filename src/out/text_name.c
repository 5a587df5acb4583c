/* SPDX-License-Identifier: Apache-2.0 */
/* text_name.c - long names made short, and what a name says about a frame. */
#include <ctype.h>
#include <string.h>
#include <sys/param.h>

#include "out/text_impl.h"

static int starts(const char *text, const char *with)
{
	return strncmp(text, with, strlen(with)) == 0;
}

/**
 * is_operator() - does the output so far end in the word "operator"? Then what follows is part of
 * the name.
 */
static int is_operator(const struct buf *out)
{
	static const char word[] = "operator";
	size_t len = sizeof(word) - 1;
	if (out->len < len || memcmp(out->data + out->len - len, word, len) != 0)
		return 0;
	return out->len == len || !(isalnum((unsigned char)out->data[out->len - len - 1]) ||
				    out->data[out->len - len - 1] == '_');
}

/**
 * skip_nested() - behind the bracket that closes the one at @at; the end of the text where it is
 * never closed.
 */
static const char *skip_nested(const char *at)
{
	char open = *at, close = open == '<' ? '>' : ')';
	size_t depth = 0;
	for (; *at; at++) {
		if (*at == open) {
			depth++;
		} else if (*at == close &&
			   at[-1] != '-') { /* not the arrow of a trailing return type */
			if (--depth == 0)
				return at + 1;
		} else if (*at == '(' && open == '<') {
			at = skip_nested(at);
			if (!*at)
				return at;
			at--;
		}
	}
	return at;
}

/**
 * rust_type() - behind what says how a type is referred to: "&mut dyn core::fmt::Write" is
 * core::fmt::Write.
 */
static const char *rust_type(const char *at)
{
	static const char *const marks[] = {
		"&", "*const ", "*mut ", "mut ", "dyn ", "[", "(", "<"
	};
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		if (starts(at, marks[i])) {
			at += strlen(marks[i]);
			i = (size_t)-1;
		}
	}
	return at;
}

/**
 * rust_self() - "<alloc::vec::Vec<T> as core::ops::Drop>::drop" begins with a type: keep its last
 * path word.
 */
static const char *rust_self(struct buf *out, const char *at)
{
	const char *end = skip_nested(at), *word = at = rust_type(at + 1);
	for (; at < end && *at; at++) {
		if (*at == '<')
			break;
		if (*at == ' ' || *at == '>')
			break;
		if (at[0] == ':' && at[1] == ':')
			word = at + 2;
	}
	buf_put(out, word, (size_t)(at - word));
	return end;
}

/**
 * cut_return_type() - "void ns::f" is "ns::f": all up to the last space, but for the one behind
 * "operator".
 */
static void cut_return_type(struct buf *out)
{
	const char *op = NULL;
	size_t limit = out->len;
	for (size_t i = 0; i + 8 <= out->len; i++) {
		if (memcmp(out->data + i, "operator", 8) == 0) {
			op = out->data + i;
			break;
		}
	}
	if (op)
		limit = (size_t)(op - out->data);
	size_t cut = 0, depth = 0;
	for (size_t i = 0; i < limit; i++) {
		if (out->data[i] == '<')
			depth++;
		else if (out->data[i] == '>' && depth)
			depth--;
		else if (out->data[i] == ' ' && depth == 0)
			cut = i + 1;
	}
	if (cut && cut < out->len) {
		memmove(out->data, out->data + cut, out->len - cut);
		out->len -= cut;
	}
}

static const char *const dropped[] = { "[abi:cxx11]", "__cxx11::", "__1::", "{{closure}}::" };

static const char string_type[] =
	"basic_string<char, std::char_traits<char>, std::allocator<char> >";

/**
 * put_arguments() - the template arguments that begin at @at, those of their own types left out;
 * returns their end.
 */
static const char *put_arguments(struct buf *out, const char *at, int ascii)
{
	const char *end = skip_nested(at);
	buf_putc(out, *at++);
	while (at < end) {
		if (*at == '<' && !is_operator(out)) {
			at = skip_nested(at);
			buf_puts(out, ascii ? "<..>" : "<\xe2\x80\xa6>");
		} else if (at[0] == ' ' && at[1] == '>') {
			at++; /* "> >" */
		} else {
			buf_putc(out, *at++);
		}
	}
	return end;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one form a case */
static void put_name(struct buf *to, const char *function, int with_arguments, int ascii)
{
	CLEANUP(buf_fini) struct buf out = { 0 };
	const char *at = function;
	int has_parameters = 0;
	if (*at == '<' && strchr(at, '>'))
		at = rust_self(&out, at);
	while (*at) {
		size_t i = 0;
		while (i < ARRAY_LEN(dropped) && !starts(at, dropped[i]))
			i++;
		if (i < ARRAY_LEN(dropped)) {
			at += strlen(dropped[i]);
		} else if (starts(at, string_type)) {
			buf_puts(&out, "string");
			at += sizeof(string_type) - 1;
		} else if (*at == '<' && is_operator(&out)) {
			while (*at == '<' || *at == '=' || *at == '>')
				buf_putc(&out, *at++);
		} else if (*at == '<' && strchr(at, '>') && with_arguments) {
			at = put_arguments(&out, at, ascii);
		} else if (*at == '<' && strchr(at, '>')) {
			at = skip_nested(at);
			buf_puts(&out, ascii ? "<..>" : "<\xe2\x80\xa6>");
		} else if (starts(at, "(anonymous namespace)")) {
			buf_puts(&out, "(anon)");
			at += strlen("(anonymous namespace)");
		} else if (starts(at, "()") && is_operator(&out)) {
			buf_puts(&out, "()");
			at += 2;
		} else if (starts(at, "(*") && out.len && out.data[out.len - 1] == '.') {
			while (*at && *at != ')') /* Go's receiver */
				buf_putc(&out, *at++);
		} else if (*at == '(' && out.len) {
			at = skip_nested(at);
			has_parameters = 1;
			if (*at == '#' || *at == '}') /* of a lambda */
				continue;
			/*
			 * "f(int) const::{lambda()#1}" goes on, " const" or " [clone .part.0]"
			 * ends.
			 */
			const char *more = strstr(at, "::");
			if (!more || (*at == ' ' && !starts(at, " const::")))
				break;
			at = more;
		} else {
			buf_putc(&out, *at++);
		}
	}
	if (has_parameters)
		cut_return_type(&out);
	/* Rust's legacy mangling ends in a hash. */
	if (out.len > 19 && memcmp(out.data + out.len - 19, "::h", 3) == 0 &&
	    strspn(buf_cstr(&out) + out.len - 16, "0123456789abcdef") == 16)
		out.len -= 19;
	if (out.len == 0)
		buf_puts(&out, function);
	text_escape(to, buf_cstr(&out), ascii);
}

void text_short_name(struct buf *to, const char *function, int ascii)
{
	put_name(to, function, 0, ascii);
}

void text_argument_name(struct buf *to, const char *function, int ascii)
{
	put_name(to, function, 1, ascii);
}

const char *text_inner_name(const char *name, size_t columns)
{
	while (text_columns(name) > columns) {
		const char *at = name;
		while (*at && !(at[0] == ':' && at[1] == ':'))
			at = *at == '<' && strchr(at, '>') ? skip_nested(at) : at + 1;
		if (!*at || !at[2] || starts(at + 2, "operator")) /* says nothing alone */
			break;
		name = at + 2;
	}
	return name;
}

void text_name_within(struct buf *to, const char *function, size_t columns, int ascii)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	text_escape(&name, function, ascii);
	if (text_columns(buf_cstr(&name)) > columns) {
		buf_clear(&name);
		text_short_name(&name, function, ascii);
	}
	const char *inner = text_inner_name(buf_cstr(&name), columns);
	const char *dots = ascii ? ".." : "\xe2\x80\xa6";
	if (text_columns(inner) > columns) {
		buf_put(to, inner, text_fit(inner, columns - MIN(columns, text_columns(dots))));
		inner = dots;
	}
	buf_puts(to, inner);
}

void text_frame_name(struct buf *to, const struct view_frame *frame, int ascii)
{
	if (frame->function) {
		text_short_name(to, frame->function, ascii);
		return;
	}
	if (frame->folded) {
		buf_putc(to, '[');
		text_escape(to, frame->module ? frame->module : "unknown code", ascii);
		buf_putc(to, ']');
		return;
	}
	text_escape(to, frame->module ? frame->module : "?", ascii);
	buf_printf(to, "+0x%llx", (unsigned long long)frame->offset);
}

void text_caller_name(struct buf *to, const struct view_frame *frame, int ascii)
{
	if (frame->function || !frame->module) {
		text_frame_name(to, frame, ascii);
		return;
	}
	buf_putc(to, '[');
	text_escape(to, frame->module, ascii);
	buf_putc(to, ']');
}

enum view_role text_node_role(const struct page *page, const struct view_tree *tree, uint32_t node)
{
	uint8_t *known = &page->roles[tree->nodes[node].frame];
	if (!*known)
		*known = (uint8_t)(view_skip_role(page->skip,
						  view_node_frame(tree, node)->function) +
				   1);
	return (enum view_role)(*known - 1);
}
