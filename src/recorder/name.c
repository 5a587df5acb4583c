/* SPDX-License-Identifier: Apache-2.0 */
/* name.c - what a recording's file is called. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "recorder/recorder.h"

static void put_value(struct buf *to, const char *value)
{
	for (; *value; value++) {
		unsigned char c = (unsigned char)*value;
		buf_putc(to, c == '/' || c < ' ' || c == 127 ? '_' : *value);
	}
}

char *recorder_name(const char *pattern, const char *exe, pid_t pid, struct err *err)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	char host[256] = "";
	const char *base = strrchr(exe, '/');
	gethostname(host, sizeof(host) - 1);
	for (const char *at = pattern; *at; at++) {
		if (*at != '%') {
			buf_putc(&name, *at);
			continue;
		}
		switch (*++at) {
		case 'e':
			put_value(&name, base ? base + 1 : exe);
			break;
		case 'p':
			buf_printf(&name, "%d", (int)pid);
			break;
		case 't':
			buf_printf(&name, "%llu",
				   (unsigned long long)(clock_ns(CLOCK_REALTIME) / 1000000000u));
			break;
		case 'h':
			put_value(&name, host);
			break;
		case 'n': /* one recording a process so far: always the first */
			buf_putc(&name, '0');
			break;
		case '%':
			buf_putc(&name, '%');
			break;
		default: /* stands for nothing: as it was typed */
			at--;
			buf_putc(&name, '%');
			break;
		}
	}
	if (name.len == 0) {
		err_set(err, -EINVAL, "cannot use '%s' as a file name: it comes out empty",
			pattern);
		return NULL;
	}
	char *text = buf_take(&name);
	if (!text)
		err_set(err, -ENOMEM, "cannot allocate a file name");
	return text;
}
