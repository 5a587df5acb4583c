/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may take of the machine; each case in a child of its own, for bounds stay. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bound.h"
#include "base/err.h"

/* The exit status of @run in a child, which is 0 where all is as it should be; 128 and more: ended by a signal. */
static int in_child(int (*run)(void))
{
	int status;
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(run());
	assert_int_equal(waitpid(child, &status, 0), child);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int asks_for_too_much(void)
{
	if (!bound_memory(64 << 20))
		return 77; /* a sanitizer's shadow: nothing is bounded */
	void *at =
		mmap(NULL, 128 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at != MAP_FAILED || errno != ENOMEM)
		return 1;
	return bound_memory(1ull << 40) ? 2 : 0; /* never more than before */
}

static void memory_beyond_the_bound_is_refused(void **state)
{
	(void)state;
	int status = in_child(asks_for_too_much);
	assert_true(status == 0 || status == 77);
}

static int has_stdout_closed(void)
{
	close(STDOUT_FILENO);
	bound_streams();
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	if (fd == STDOUT_FILENO)
		return 1;
	if (!(fcntl(STDOUT_FILENO, F_GETFD) & FD_CLOEXEC))
		return 2;
	return write(STDOUT_FILENO, "x", 1) == -1 && errno == EBADF ? 0 : 3;
}

static void a_closed_stream_is_never_the_next_file(void **state)
{
	(void)state;
	assert_int_equal(in_child(has_stdout_closed), 0);
}

static int writes_beyond_the_limit(void)
{
	char name[] = "/tmp/bound.XXXXXX";
	const struct rlimit small = { 4, 4 };
	int fd = mkstemp(name);
	if (fd < 0)
		return 1;
	unlink(name);
	bound_file_size();
	setrlimit(RLIMIT_FSIZE, &small);
	return write(fd, "12345678", 8) == 4 && write(fd, "9", 1) == -1 && errno == EFBIG ? 0 : 2;
}

static void a_limit_on_files_is_an_error_and_no_end(void **state)
{
	(void)state;
	assert_int_equal(in_child(writes_beyond_the_limit), 0);
}

static int raises_descriptors(void)
{
	struct rlimit limit = { 10, 20 }, now;
	setrlimit(RLIMIT_NOFILE, &limit);
	bound_descriptors(15);
	getrlimit(RLIMIT_NOFILE, &now);
	if (now.rlim_cur != 15)
		return 1;
	bound_descriptors(100);
	getrlimit(RLIMIT_NOFILE, &now);
	return now.rlim_cur == 20 ? 0 : 2;
}

static void descriptors_are_raised_as_far_as_they_may_be(void **state)
{
	(void)state;
	assert_int_equal(in_child(raises_descriptors), 0);
}

static void usual_errors_have_a_hint_and_others_none(void **state)
{
	(void)state;
	assert_non_null(err_usual_hint(-ENOENT));
	assert_non_null(err_usual_hint(-ENOSPC));
	assert_null(err_usual_hint(-EDOM));
	assert_null(err_usual_hint(0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(memory_beyond_the_bound_is_refused),
		cmocka_unit_test(a_closed_stream_is_never_the_next_file),
		cmocka_unit_test(a_limit_on_files_is_an_error_and_no_end),
		cmocka_unit_test(descriptors_are_raised_as_far_as_they_may_be),
		cmocka_unit_test(usual_errors_have_a_hint_and_others_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
