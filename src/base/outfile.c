/* SPDX-License-Identifier: Apache-2.0 */
#include "base/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/zstream.h"

#define STDIO_BYTES (256 * 1024)
#define NUMBERS_MAX 100000u

/*
 * The file of a program that is told to end meanwhile goes with it: it may be large, and nobody
 * else knows its name.
 */
static const char *volatile unfinished;

static void on_end(int number)
{
	if (unfinished)
		unlink(unfinished);
	signal(number, SIG_DFL);
	raise(number);
}

/** make_temporary() - as mkostemp(): O_EXCL, mode 0600; from then on it goes with us. */
static int make_temporary(char *path)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGPIPE };
	struct sigaction now, ours = { .sa_handler = on_end };
	sigset_t held, before;
	sigemptyset(&held);
	for (size_t i = 0; i < ARRAY_LEN(ends); i++)
		sigaddset(&held, ends[i]);
	sigprocmask(SIG_BLOCK, &held, &before);
	int fd = mkostemp(path, O_CLOEXEC), saved = errno;
	unfinished = fd < 0 ? NULL : path;
	for (size_t i = 0; i < ARRAY_LEN(ends) && fd >= 0; i++)
		if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			sigaction(ends[i], &ours, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	errno = saved;
	return fd;
}

static int compress_to(struct outfile *out, enum zstream_kind kind, struct err *err)
{
	out->file = out->to;
	out->to = zstream_writer(out->file, kind, err);
	return out->to ? 0 : err->code;
}

int outfile_open(struct outfile *out, const char *path, int compress, struct err *err)
{
	*out = (struct outfile){ 0 };
	struct stat st;
	/* a device, a fifo: nothing to replace, only to write to */
	if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
		out->to = S_ISDIR(st.st_mode) ? (errno = EISDIR, NULL) : fopen(path, "we");
		if (!out->to)
			return err_set(err, -errno, "cannot write '%s'", path);
		return 0;
	}
	out->path = strdup(path);
	if (!out->path || asprintf(&out->temporary, "%s.XXXXXX", path) < 0) {
		out->temporary = NULL;
		return err_set(err, -ENOMEM, "cannot write '%s'", path);
	}
	int fd = make_temporary(out->temporary);
	out->to = fd < 0 ? NULL : fdopen(fd, "w");
	if (!out->to) {
		int saved = errno;
		if (fd >= 0) {
			close(fd);
			unlink(out->temporary);
		}
		free(out->temporary);
		out->temporary = NULL;
		return err_set(err, -saved, "cannot write '%s'", path);
	}
	setvbuf(out->to, NULL, _IOFBF, STDIO_BYTES);
	enum zstream_kind kind = compress ? zstream_kind_for_name(path) : ZSTREAM_PLAIN;
	return kind == ZSTREAM_PLAIN ? 0 : compress_to(out, kind, err);
}

static int close_all(struct outfile *out)
{
	int bad = 0;
	if (out->to && out->is_lent)
		bad = fflush(out->to) != 0 || ferror(out->to);
	else if (out->to)
		bad = ferror(out->to) | (fclose(out->to) != 0);
	if (out->file)
		bad |= ferror(out->file) | (fclose(out->file) != 0);
	out->to = out->file = NULL;
	return bad ? -1 : 0;
}

int outfile_commit(struct outfile *out, struct err *err)
{
	errno = 0;
	if (close_all(out) < 0 || (out->path && rename(out->temporary, out->path) < 0)) {
		int rc = err_set(err, errno ? -errno : -EIO, "cannot write '%s'",
				 out->path ? out->path : "standard output");
		outfile_fini(out);
		return rc;
	}
	unfinished = NULL;
	free(out->temporary);
	out->temporary = NULL;
	outfile_fini(out);
	return 0;
}

void outfile_fini(struct outfile *out)
{
	close_all(out);
	if (out->temporary)
		unlink(out->temporary);
	unfinished = NULL;
	free(out->temporary);
	free(out->path);
	*out = (struct outfile){ 0 };
}

FILE *outfile_create(const char *path, char **made, struct err *err)
{
	struct stat st;
	int device = stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
	*made = NULL;
	for (unsigned n = 0; n < NUMBERS_MAX; n++) {
		free(*made);
		if (asprintf(made, n ? "%s.%u" : "%s", path, n) < 0)
			*made = NULL;
		if (!*made)
			break;
		int fd = open(*made,
			      device ? O_WRONLY | O_CLOEXEC
				     : O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			      0600);
		FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
		if (to)
			return to;
		int code = -errno;
		if (fd >= 0)
			close(fd);
		if (code != -EEXIST) {
			err_set(err, code, "cannot create '%s'", *made);
			free(*made);
			*made = NULL;
			return NULL;
		}
	}
	err_set(err, *made ? -EEXIST : -ENOMEM, "cannot create '%s'", path);
	free(*made);
	*made = NULL;
	return NULL;
}

int outfile_is(const char *path, const char *other)
{
	struct stat a, b;
	return stat(path, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev &&
	       a.st_ino == b.st_ino;
}
