/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fileio.h"

static void a_small_file_is_a_string_whatever_it_holds(void **state)
{
	(void)state;
	char name[] = "/tmp/fileio-XXXXXX", text[8];
	int fd = mkstemp(name);
	assert_true(fd >= 0);
	memset(text, 'x', sizeof(text));
	assert_int_equal(fileio_text(AT_FDCWD, name, text, sizeof(text)), 0);
	assert_string_equal(text, "");
	assert_int_equal(write(fd, "1234567890", 10), 10);
	assert_int_equal(fileio_text(AT_FDCWD, name, text, sizeof(text)), 7);
	assert_string_equal(text, "1234567");
	assert_int_equal(ftruncate(fd, 3), 0);
	int dir = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(fileio_text(dir, name + 5, text, sizeof(text)), 3);
	assert_string_equal(text, "123");
	assert_int_equal(fileio_text(AT_FDCWD, "/tmp", text, sizeof(text)), -EISDIR);
	assert_string_equal(text, "");
	unlink(name);
	memset(text, 'x', sizeof(text));
	assert_int_equal(fileio_text(dir, name + 5, text, sizeof(text)), -ENOENT);
	assert_string_equal(text, "");
	/* what comes in pieces is read to its end */
	int ends[2];
	char path[32];
	assert_int_equal(pipe(ends), 0);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", ends[0]);
	assert_int_equal(write(ends[1], "ab", 2), 2);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		int left = 1;
		while (ioctl(ends[0], FIONREAD, &left) == 0 && left)
			sched_yield();
		_exit(write(ends[1], "cd", 2) == 2 ? 0 : 1);
	}
	close(ends[1]);
	assert_int_equal(fileio_text(AT_FDCWD, path, text, sizeof(text)), 4);
	assert_string_equal(text, "abcd");
	int status;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	close(ends[0]);
	close(dir);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_small_file_is_a_string_whatever_it_holds),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
