/* SPDX-License-Identifier: Apache-2.0 */
#include "base/token.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int token_same(const char *a, const char *b)
{
	size_t len = strlen(b);
	unsigned char differs = strlen(a) != len;
	for (size_t i = 0; a[i] && i < len; i++)
		differs |= (unsigned char)(a[i] ^ b[i]);
	return !differs;
}

int token_load(const char *path, char token[TOKEN_MAX], struct err *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0) {
		int rc = err_set(err, -errno, "cannot open token file '%s'", path);
		if (fd >= 0)
			close(fd);
		return rc;
	}
	ssize_t len = S_ISREG(st.st_mode) ? read(fd, token, TOKEN_MAX) : -1;
	close(fd);
	if (len < 0)
		return err_set(err, -EINVAL, "cannot read token file '%s': not a regular file",
			       path);
	if (st.st_mode & 077) {
		err_set(err, -EINVAL, "cannot use token file '%s': others may read or change it",
			path);
		return err_hint(err, "chmod 600 '%s'", path);
	}
	while (len > 0 && isspace((unsigned char)token[len - 1]))
		len--;
	for (ssize_t i = 0; i < len; i++) {
		if (!isgraph((unsigned char)token[i]) || strchr("\";,\\", token[i]))
			len = -1;
	}
	if (len < 16 || len >= TOKEN_MAX) {
		token[0] = '\0';
		err_set(err, -EINVAL,
			"cannot use token file '%s': not one word of 16 to 255 plain characters",
			path);
		return err_hint(err, "for example: head -c 24 /dev/urandom | base64 > '%s'", path);
	}
	token[len] = '\0';
	return 0;
}
