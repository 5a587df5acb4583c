/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/result.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "recorder/recorder.h"

#define NUMBERS_MAX 100000u

FILE *result_create(const char *path, char **made, struct err *err)
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

void result_init(struct result *result, const char *pattern, int quiet, int program,
		 int format_given)
{
	*result = (struct result){ .pattern = pattern };
	if (!pattern && !quiet)
		result->to = program && !format_given && !isatty(STDOUT_FILENO) ? stderr : stdout;
}

int result_for(struct result *result, const char *exe, pid_t pid, struct err *err)
{
	if (!result->pattern)
		return 0;
	char *name = recorder_name(result->pattern, exe, pid, err);
	if (!name)
		return err->code;
	if (result->name && strcmp(name, result->name) == 0) {
		free(name);
		return 0;
	}
	int rc = result_end(result, err);
	if (rc == 0) {
		result->to = result_create(name, &result->path, err);
		rc = result->to ? 0 : err->code;
	}
	if (rc == 0)
		result->name = STEAL(name);
	free(name);
	return rc;
}

int result_failed(struct err *err)
{
	int code = errno ? -errno : -EIO;
	return err_set(err, code,
		       code == -EPIPE ? "nobody reads the result any more"
				      : "cannot write the result");
}

int result_end(struct result *result, struct err *err)
{
	int bad = 0;
	errno = 0;
	if (result->to) {
		bad = fflush(result->to) != 0;
		bad |= ferror(result->to);
	}
	if (result->to && result->pattern) {
		bad |= fclose(result->to) != 0;
		result->to = NULL;
	}
	int code = errno ? -errno : -EIO;
	if (bad && result->path)
		err_set(err, code, "cannot write '%s'", result->path);
	else if (bad)
		err_set(err, code, "cannot write the result");
	free(result->name);
	free(result->path);
	result->name = result->path = NULL;
	return bad ? err->code : 0;
}

void result_fini(struct result *result)
{
	struct err err = { 0 };
	result_end(result, &err);
}
