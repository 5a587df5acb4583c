/* SPDX-License-Identifier: Apache-2.0 */
/* name.c - what a recording's file is called. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
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

/* Behind what @name holds. */
static void put_pattern(struct buf *name, const char *pattern, const char *exe, pid_t pid)
{
	char host[256] = "";
	const char *base = strrchr(exe, '/');
	gethostname(host, sizeof(host) - 1);
	for (const char *at = pattern; *at; at++) {
		if (*at != '%') {
			buf_putc(name, *at);
			continue;
		}
		switch (*++at) {
		case 'e':
			put_value(name, base ? base + 1 : exe);
			break;
		case 'p':
			buf_printf(name, "%d", (int)pid);
			break;
		case 't':
			buf_printf(name, "%llu",
				   (unsigned long long)(clock_ns(CLOCK_REALTIME) / NS_PER_S));
			break;
		case 'h':
			put_value(name, host);
			break;
		case 'n': /* one recording a process so far: always the first */
			buf_putc(name, '0');
			break;
		case '%':
			buf_putc(name, '%');
			break;
		default: /* stands for nothing: as it was typed */
			at--;
			buf_putc(name, '%');
			break;
		}
	}
}

char *recorder_name(const char *pattern, const char *exe, pid_t pid, struct err *err)
{
	CLEANUP(buf_fini) struct buf name = { 0 };
	struct stat st;
	put_pattern(&name, pattern, exe, pid);
	if (name.len == 0) {
		err_set(err, -EINVAL, "cannot use '%s' as a file name: it comes out empty",
			pattern);
		return NULL;
	}
	buf_putc(&name, '\0'); /* for stat() alone */
	int is_folder = !buf_failed(&name) && stat(name.data, &st) == 0 && S_ISDIR(st.st_mode);
	name.len--;
	if (is_folder) {
		if (name.data[name.len - 1] != '/')
			buf_putc(&name, '/');
		put_pattern(&name, RECORDER_PATTERN, exe, pid);
	}
	char *text = buf_take(&name);
	if (!text)
		err_set(err, -ENOMEM, "cannot allocate a file name");
	return text;
}

int recorder_may_create(const char *pattern, const char *exe, struct err *err)
{
	char *path = recorder_name(pattern, exe ? exe : "process", getpid(), err);
	if (!path)
		return err->code;
	/* what the recording will be called is known when its process is: one beside it will do */
	struct stat st;
	int rc = 0, fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd >= 0) {
		close(fd);
		unlink(path);
	} else if (errno == EEXIST) {
		/* a file beside it will be called .1, .2 ...; not one beside a device */
		if (stat(path, &st) == 0 && !S_ISREG(st.st_mode))
			rc = -ENODEV;
		else if (access(dirname(path), W_OK | X_OK) < 0)
			rc = -errno;
	} else {
		rc = -errno;
	}
	/* a folder is meant, and there is none */
	int no_folder = rc == -EISDIR;
	rc = no_folder ? -ENOENT : rc;
	if (rc < 0) {
		err_set(err, rc, "cannot create a recording like '%s'%s", pattern,
			rc == -ENODEV ? ", which is no file" : "");
		err_hint(err, "the program was not started; %s",
			 no_folder ? "make that folder first" : "-o names another file");
	}
	free(path);
	return rc;
}
