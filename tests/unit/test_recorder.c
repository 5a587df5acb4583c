/* SPDX-License-Identifier: Apache-2.0 */
/* A recording as an object: started, run, stopped and finished by something that is no command. LIBRARY: the one to preload. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "model/prof.h"
#include "query/follow.h"
#include "query/recording.h"
#include "recorder/recorder.h"
#include "trace_folder.h"

#define SECOND_NS 1000000000u

extern char **environ;

struct heard {
	int files, fails, news;
	char file[128], failure[1024];
};

static void on_tell(void *ctx, const struct err *what)
{
	struct heard *heard = ctx;
	heard->fails += what->code != 0;
	heard->news += what->code == 0;
	if (what->code)
		snprintf(heard->failure, sizeof(heard->failure), "%s", what->msg);
}

static void on_file(void *ctx, const char *name)
{
	struct heard *heard = ctx;
	heard->files++;
	snprintf(heard->file, sizeof(heard->file), "%s", name);
}

static struct recorder_opt options(struct heard *heard)
{
	*heard = (struct heard){ 0 };
	return (struct recorder_opt){ .ears = { .ctx = heard, .tell = on_tell, .file = on_file },
				      .pattern = path,
				      .comment = "test",
				      .variables = environ,
				      .library = getenv("LIBRARY") };
}

static struct recorder *started(const struct recorder_opt *opt, char **argv)
{
	struct err err = { 0 };
	int status;
	struct recorder *r = recorder_start(opt, argv, &status, &err);
	if (!r)
		fail_msg("%s", err.msg);
	return r;
}

static void finished(struct recorder *r, struct recorder_result *result)
{
	struct err err = { 0 };
	assert_done(recorder_finish(r, result, &err), err);
}

static struct prof *read_back(const char *file)
{
	struct err err = { 0 };
	CLEANUP(recording_freep) struct recording *rec = recording_open(file, NULL, &err);
	struct prof *prof = rec ? recording_read(rec, NULL, &err) : NULL;
	if (!prof)
		fail_msg("%s", err.msg);
	return prof;
}

static void a_program_is_recorded_and_its_status_told(void **state)
{
	(void)state;
	for (int takes = 0; takes < 2; takes++) {
		struct heard heard;
		struct recorder_opt opt = options(&heard);
		struct recorder_result result;
		char *argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 3", NULL };
		opt.takes_signals = takes;
		unlink(path);
		struct recorder *r = started(&opt, argv);
		assert_int_equal(recorder_run(r, 0), RECORDER_ENDED);
		finished(r, &result);
		assert_int_equal(result.exit_status, 3);
		assert_int_equal(result.attached, 1);
		assert_int_equal(result.failed, 0);
		assert_string_equal(result.path, path);
		assert_int_equal(heard.files, 1);
		assert_string_equal(heard.file, path);
		assert_int_equal(heard.fails, 0);
		struct prof *prof = read_back(result.path);
		struct prof_totals totals;
		prof_totals(prof, &totals);
		assert_int_equal(prof_process(prof)->ended, 1);
		assert_int_equal(prof_process(prof)->complete, 1);
		assert_int_equal(totals.cost.allocations, result.allocations);
		assert_true(result.allocations > 0);
		prof_free(prof);
		recorder_freep(&r);
	}
}

static void a_program_that_is_not_there_has_a_shells_status(void **state)
{
	(void)state;
	struct heard heard;
	struct err err = { 0 };
	struct recorder_opt opt = options(&heard);
	char *argv[] = { (char *)"/nowhere/prog", NULL };
	int status = 0;
	assert_null(recorder_start(&opt, argv, &status, &err));
	assert_int_equal(status, 127);
	assert_int_equal(err.code, -ENOENT);
	assert_true(err.hint[0] != 0);
	assert_int_equal(heard.files, 0);
}

static void a_file_that_cannot_be_made_is_heard_of_and_the_program_goes_on(void **state)
{
	(void)state;
	struct heard heard;
	struct recorder_opt opt = options(&heard);
	struct recorder_result result;
	char *argv[] = { (char *)"sh", (char *)"-c", (char *)"exit 4", NULL };
	opt.pattern = "/nowhere/a.blt";
	struct recorder *r = started(&opt, argv);
	assert_int_equal(heard.fails, 1);
	assert_non_null(strstr(heard.failure, "/nowhere/a.blt"));
	assert_int_equal(recorder_run(r, 0), RECORDER_ENDED);
	finished(r, &result);
	assert_null(result.path);
	assert_int_equal(result.exit_status, 4);
	assert_int_equal(result.failed, 1);
	recorder_freep(&r);
}

static void *stop_soon(void *arg)
{
	usleep(200000);
	recorder_stop(arg);
	return NULL;
}

static void end(pid_t pid)
{
	assert_int_equal(kill(pid, 0), 0); /* it went on */
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void any_thread_may_stop_it_and_the_program_goes_on(void **state)
{
	(void)state;
	struct heard heard;
	struct recorder_opt opt = options(&heard);
	struct recorder_result result;
	pthread_t thread;
	char *argv[] = { (char *)"sleep", (char *)"60", NULL };
	struct recorder *r = started(&opt, argv);
	pid_t pid = recorder_pid(r);
	assert_int_equal(pthread_create(&thread, NULL, stop_soon, r), 0);
	assert_int_equal(recorder_run(r, 0), RECORDER_STOPPED);
	pthread_join(thread, NULL);
	finished(r, &result);
	assert_int_equal(result.exit_status, 0);
	struct prof *prof = read_back(result.path);
	assert_int_equal(prof_process(prof)->complete, 1);
	assert_int_equal(prof_process(prof)->exit_status, PROF_WENT_ON);
	prof_free(prof);
	recorder_freep(&r);
	end(pid);
}

static void a_stop_before_the_run_is_not_lost(void **state)
{
	(void)state;
	struct heard heard;
	struct recorder_opt opt = options(&heard);
	char *argv[] = { (char *)"sleep", (char *)"60", NULL };
	struct recorder *r = started(&opt, argv);
	pid_t pid = recorder_pid(r);
	recorder_stop(r);
	assert_int_equal(recorder_run(r, 60ull * SECOND_NS), RECORDER_STOPPED);
	finished(r, NULL);
	recorder_freep(&r);
	end(pid);
}

static void its_time_is_over_when_it_was_said_to_be(void **state)
{
	(void)state;
	struct heard heard;
	struct recorder_opt opt = options(&heard);
	struct recorder_result result;
	char *argv[] = { (char *)"sleep", (char *)"60", NULL };
	struct recorder *r = started(&opt, argv);
	pid_t pid = recorder_pid(r);
	assert_int_equal(recorder_run(r, SECOND_NS / 4), RECORDER_TIME_OVER);
	finished(r, &result);
	struct prof *prof = read_back(result.path);
	struct prof_totals totals;
	prof_totals(prof, &totals);
	assert_true(totals.runtime_ns >= SECOND_NS / 4 && totals.runtime_ns < 20ull * SECOND_NS);
	prof_free(prof);
	recorder_freep(&r);
	end(pid);
}

static void *run_it(void *arg)
{
	recorder_run(arg, 0);
	return NULL;
}

static void what_is_recorded_can_be_seen_meanwhile(void **state)
{
	(void)state;
	struct heard heard;
	struct err err = { 0 };
	struct recorder_opt opt = options(&heard);
	pthread_t thread;
	char *argv[] = { (char *)"sleep", (char *)"60", NULL };
	struct recorder *r = started(&opt, argv);
	pid_t pid = recorder_pid(r);
	assert_int_equal(pthread_create(&thread, NULL, run_it, r), 0);
	struct follow *follow = follow_new(heard.file, NULL, &err);
	if (!follow)
		fail_msg("%s", err.msg);
	uint64_t seen = 0, allocations = 0;
	while (!allocations) {
		struct prof_totals totals;
		struct snap *snap = follow_wait(follow, seen, 30ull * SECOND_NS);
		assert_non_null(snap);
		seen = snap_number(snap);
		prof_totals(snap_prof(snap), &totals);
		allocations = totals.cost.allocations;
		snap_unref(snap);
	}
	recorder_stop(r);
	pthread_join(thread, NULL);
	finished(r, NULL);
	recorder_freep(&r);
	struct follow_state at;
	do {
		snap_unref(follow_wait(follow, seen, SECOND_NS / 10));
		follow_state(follow, &at);
	} while (!at.over);
	assert_int_equal(at.err.code, 0);
	follow_freep(&follow);
	end(pid);
}

static void names_are_made_of_program_and_process(void **state)
{
	(void)state;
	static const struct {
		const char *pattern, *name;
	} cases[] = {
		{ "%e_%p.blt", "prog_77.blt" }, { "a%%b%q", "a%b%q" }, { "%n", "0" }, { "x%", "x%" }
	};
	struct err err = { 0 };
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char *name = recorder_name(cases[i].pattern, "/usr/bin/prog", 77, &err);
		assert_string_equal(name, cases[i].name);
		free(name);
	}
	static const char *const folders[] = { "/", "/tmp/..", "/tmp/../" };
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		char *name = recorder_name(folders[i], "/usr/bin/prog", 77, &err);
		const char *base = name + strlen(folders[i]);
		assert_memory_equal(name, folders[i], strlen(folders[i]));
		assert_string_equal(base + (*base == '/'), "byteledger_prog_77.blt");
		free(name);
	}
	char *name = recorder_name("%e", "/bin/a\nb", 1, &err);
	assert_string_equal(name, "a_b");
	free(name);
	assert_null(recorder_name("", "/bin/a", 1, &err));
	assert_int_equal(err.code, -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_program_is_recorded_and_its_status_told, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_program_that_is_not_there_has_a_shells_status,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_file_that_cannot_be_made_is_heard_of_and_the_program_goes_on, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(any_thread_may_stop_it_and_the_program_goes_on,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_stop_before_the_run_is_not_lost, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(its_time_is_over_when_it_was_said_to_be, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(what_is_recorded_can_be_seen_meanwhile, set_up,
						tear_down),
		cmocka_unit_test(names_are_made_of_program_and_process),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
