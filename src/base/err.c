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
	int len = vsnprintf(err->msg, sizeof(err->msg), fmt, args);
	va_end(args);
	err->code = code;
	err->hint[0] = '\0';
	if (!describes_data(code) && len >= 0 && (size_t)len < sizeof(err->msg))
		snprintf(err->msg + len, sizeof(err->msg) - (size_t)len, ": %s", strerror(-code));
	return code;
}

int err_wrap(struct err *err, const char *fmt, ...)
{
	if (!err)
		return -EIO;
	char text[sizeof(err->msg)];
	va_list args;
	va_start(args, fmt);
	int len = vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	if (len >= 0 && (size_t)len < sizeof(text) - 2) {
		/* a message too long for both loses its end */
		memcpy(text + len, ": ", 2);
		size_t room = sizeof(text) - (size_t)len - 3, had = strlen(err->msg);
		memcpy(text + len + 2, err->msg, had < room ? had : room);
		text[(size_t)len + 2 + (had < room ? had : room)] = '\0';
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
	return err->code;
}
