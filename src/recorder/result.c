/* SPDX-License-Identifier: Apache-2.0 */
#include "recorder/result.h"

#include <errno.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/outfile.h"
#include "recorder/recorder.h"

void result_init(struct result *result, const char *pattern, FILE *to)
{
	*result = (struct result){ .pattern = pattern, .to = pattern ? NULL : to };
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
		result->to = outfile_create(name, &result->path, err);
		rc = result->to ? 0 : err->code;
	}
	if (rc == 0)
		result->name = STEAL(name);
	free(name);
	return rc;
}

int result_flush(FILE *to, struct err *err)
{
	return fflush(to) != 0 || ferror(to) ? result_failed(err) : 0;
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

void result_let_go(struct result *result)
{
	__fpurge(result->to);
	clearerr(result->to);
	result->to = NULL;
}

void result_fini(struct result *result)
{
	struct err err = { 0 };
	result_end(result, &err);
}
