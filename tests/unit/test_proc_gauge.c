/* SPDX-License-Identifier: Apache-2.0 */
/* What says whether a process has done anything: of a child that waits, touches a page, computes, one at a time. */
#include <grp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "proc/proc.h"

#define PAGE 4096u

static void serve(int in, int out)
{
	static const char answer = 1;
	char *at =
		mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char what;
	for (size_t page = 0; read(in, &what, 1) == 1; page++) {
		if (what == 't')
			at[page % 16 * PAGE] = 1;
		struct timespec spent = { 0 };
		while (what == 'c' && spent.tv_nsec < 200000000)
			clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
		if (write(out, &answer, 1) != 1)
			break;
	}
	_exit(0);
}

static void ask(int to, int from, char what)
{
	char answer;
	assert_int_equal(write(to, &what, 1), 1);
	assert_int_equal(read(from, &answer, 1), 1);
}

static void a_fault_and_time_on_a_processor_are_told_apart_from_sleep(void **state)
{
	(void)state;
	int to[2], from[2];
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(to[1]);
		serve(to[0], from[1]);
	}
	struct proc_gauge gauge = { .pid = pid };
	uint64_t before, touched, asleep, computed;
	ask(to[1], from[0], 't'); /* the code's own first faults are behind it */
	assert_int_equal(proc_gauge_stir(&gauge, &before), 0);
	ask(to[1], from[0], 't');
	assert_int_equal(proc_gauge_stir(&gauge, &touched), 0);
	assert_true(touched > before);
	/* it may be on its way to sleep */
	for (int i = 0; asleep = touched, i < 50; i++) {
		usleep(20000);
		assert_int_equal(proc_gauge_stir(&gauge, &touched), 0);
		if (asleep == touched)
			break;
	}
	assert_true(asleep == touched);
	ask(to[1], from[0], 'c');
	assert_int_equal(proc_gauge_stir(&gauge, &computed), 0);
	assert_true(computed > asleep);
	close(to[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(proc_gauge_stir(&gauge, &asleep) < 0);
	proc_gauge_fini(&gauge);
}

static void what_resident_memory_consists_of_is_of_one_reading(void **state)
{
	(void)state;
	const size_t bytes = 24 << 20;
	struct proc_gauge gauge = { .pid = getpid() };
	struct proc_resident before, after;
	assert_int_equal(proc_gauge_resident(&gauge, &before), 0);
	char *own = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *shared =
		mmap(NULL, 2 * bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(own != MAP_FAILED && shared != MAP_FAILED);
	memset(own, 1, bytes);
	memset(shared, 1, 2 * bytes);
	assert_int_equal(proc_gauge_resident(&gauge, &after), 0);
	assert_int_equal(after.memory.rss_bytes,
			 after.anon_bytes + after.file_bytes + after.shmem_bytes);
	/* the kernel's counters lag a little, where they are kept by processor */
	assert_true(after.anon_bytes + (1 << 20) > before.anon_bytes + bytes);
	assert_true(after.shmem_bytes + (1 << 20) > before.shmem_bytes + 2 * bytes);
	assert_true(after.memory.virtual_bytes >= before.memory.virtual_bytes + 3 * bytes);
	assert_true(after.peak_bytes + (1 << 20) > after.memory.rss_bytes);
	munmap(own, bytes);
	munmap(shared, 2 * bytes);
	proc_gauge_fini(&gauge);
}

static void who_is_in_many_groups_has_memory_too(void **state)
{
	(void)state;
	enum { GROUPS = 2000 };
	static gid_t groups[GROUPS];
	int to[2], from[2];
	char ready;
	for (unsigned i = 0; i < GROUPS; i++)
		groups[i] = 1900000000u + i;
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	pid_t pid = fork();
	if (pid == 0) {
		ready = setgroups(GROUPS, groups) == 0;
		_exit(write(from[1], &ready, 1) != 1 || read(to[0], &ready, 1) < 0);
	}
	assert_int_equal(read(from[0], &ready, 1), 1);
	struct proc_gauge gauge = { .pid = pid };
	struct proc_resident resident = { 0 };
	uint64_t peak = 0;
	int rc = proc_gauge_resident(&gauge, &resident), peak_rc = proc_peak_rss(pid, &peak);
	proc_gauge_fini(&gauge);
	close(to[1]);
	close(to[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	if (!ready) /* only root may be in as many as it likes */
		skip();
	assert_int_equal(rc, 0);
	assert_int_equal(peak_rc, 0);
	assert_true(resident.anon_bytes && resident.memory.rss_bytes && peak);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fault_and_time_on_a_processor_are_told_apart_from_sleep),
		cmocka_unit_test(what_resident_memory_consists_of_is_of_one_reading),
		cmocka_unit_test(who_is_in_many_groups_has_memory_too),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
