/* SPDX-License-Identifier: Apache-2.0 */
#include "base/err.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void err_init(struct err *err)
{
	err->code = 0;
	err->msg[0] = '\0';
	err->hint[0] = '\0';
}

/*
 * Messages name files and processes, whose names anybody may choose: what a terminal would obey is
 * shown as its number. What does not fit any more is cut.
 */
static void disarm(char *text, size_t size)
{
	char safe[sizeof(((struct err *)0)->msg)];
	size_t len = 0;
	const unsigned char *at = (const unsigned char *)text;
	for (; *at; at++) {
		int c1 = at[0] == 0xc2 && at[1] >= 0x80 && at[1] < 0xa0; /* in UTF-8 */
		if (*at >= 0x20 && *at != 0x7f && !c1) {
			if (len + 1 >= size)
				break;
			safe[len++] = (char)*at;
			continue;
		}
		if (len + 4 >= size)
			break;
		len += (size_t)snprintf(safe + len, 5, "\\x%02x", at[c1]);
		at += c1;
	}
	memcpy(text, safe, len);
	text[len] = '\0';
}

static int describes_data(int code)
{
	return code == -EINVAL || code == -ENOMSG || code == -EBADMSG;
}

int err_set(struct err *err, int code, const char *fmt, ...)
{
	if (!err)
		return code;
	va_list args;
	va_start(args, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	disarm(err->msg, sizeof(err->msg));
	size_t len = strlen(err->msg);
	err->code = code;
	err->hint[0] = '\0';
	if (!describes_data(code))
		snprintf(err->msg + len, sizeof(err->msg) - len, ": %s", strerror(-code));
	return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	if (!err)
		return -EIO;
	char text[sizeof(err->msg)];
	va_list args;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	disarm(text, sizeof(text));
	size_t len = strlen(text);
	if (len < sizeof(text) - 2) {
		/* a message too long for both loses its end */
		memcpy(text + len, ": ", 2);
		size_t room = sizeof(text) - len - 3, had = strlen(err->msg);
		memcpy(text + len + 2, err->msg, had < room ? had : room);
		text[len + 2 + (had < room ? had : room)] = '\0';
	}
	memcpy(err->msg, text, sizeof(text));
	return err->code;
}

int err_hint(struct err *err, const char *fmt, ...)
{
	if (!err)
		return -EIO;
	va_list args;
	va_start(args, fmt);
	vsnprintf(err->hint, sizeof(err->hint), fmt, args);
	va_end(args);
	disarm(err->hint, sizeof(err->hint));
	return err->code;
}
