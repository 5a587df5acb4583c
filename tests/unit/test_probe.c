/* SPDX-License-Identifier: Apache-2.0 */
/* Processes looked at by probes, by something that is no command: which readings are kept, what is heard, what is counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/prof.h"
#include "probe/pages_kept.h"
#include "probe/pages_life.h"
#include "probe/sample_life.h"
#include "probe/sample_life_impl.h"

#define S 1000000000ull
#define MIB (1ull << 20)

/* ---- which readings are kept ----------------------------------------------------------------------------------------- */

static struct page_shot *shot_at(uint64_t time_ns)
{
	struct page_shot *shot = calloc(1, sizeof(*shot));
	assert_non_null(shot);
	atomic_init(&shot->refs, 1);
	shot->time_ns = time_ns;
	return shot;
}

static void earlier_readings_are_thinned_out_and_reach_back_to_the_first(void **state)
{
	(void)state;
	struct pages_kept kept = { 0 };
	for (uint64_t t = 0; t < 1000; t++) {
		struct page_shot *shot = shot_at(t * S / 4);
		pages_kept_put(&kept, shot);
		page_shot_put(shot);
	}
	assert_true(kept.count >= PAGES_KEPT_MAX / 2 && kept.count <= PAGES_KEPT_MAX);
	assert_int_equal(kept.kept[0]->time_ns, 0);
	for (size_t i = 1; i < kept.count; i++)
		assert_int_equal(kept.kept[i]->time_ns - kept.kept[i - 1]->time_ns,
				 kept.kept[1]->time_ns);
	/* 250 seconds in 64 places: one every four */
	assert_int_equal(kept.kept[1]->time_ns, 4 * S);
	struct page_shot *past = pages_kept_past(&kept, 250 * S, 101 * S);
	assert_int_equal(past->time_ns, 148 * S);
	page_shot_put(past);
	assert_null(pages_kept_past(&kept, 250 * S, 251 * S));
	pages_kept_fini(&kept);
}

static void a_reading_is_compared_with_the_last_one_of_before_its_time(void **state)
{
	(void)state;
	struct pages_kept kept = { 0 };
	assert_null(pages_kept_then(&kept));
	for (uint64_t t = 0; t <= 100; t++) {
		struct page_shot *shot = shot_at(t * S);
		pages_kept_since(&kept, shot, 10 * S);
		page_shot_put(shot);
		assert_int_equal(pages_kept_then(&kept)->time_ns, (t > 10 ? t - 10 : 0) * S);
	}
	pages_kept_fini(&kept);
}

static void readings_that_come_too_fast_are_not_all_kept(void **state)
{
	(void)state;
	struct pages_kept kept = { 0 };
	for (uint64_t t = 0; t <= 4000; t++) {
		struct page_shot *shot = shot_at(t * S / 100);
		pages_kept_since(&kept, shot, 10 * S);
		page_shot_put(shot);
		assert_true(kept.since_count <= PAGES_SINCE_MAX);
		uint64_t age = t * S / 100 - pages_kept_then(&kept)->time_ns;
		assert_true(t < 1000 ||
			    (age >= 10 * S && age <= 10 * S + 2 * (10 * S / PAGES_SINCE_PARTS)));
	}
	pages_kept_fini(&kept);
}

/* ---- lives ----------------------------------------------------------------------------------------------------------- */

/* What drops privileges and blocks signals is done in a process of its own. Its status: 0 good, 77 not permitted here. */
#define NOT_PERMITTED 77
static void in_a_child(int (*body)(void))
{
	int status;
	fflush(NULL);
	pid_t pid = fork();
	if (!pid)
		_exit(body());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_PERMITTED)
		skip();
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int refused(const struct err *err)
{
	if (err->code == -EPERM || err->code == -EACCES || err->code == -ENOSYS)
		return NOT_PERMITTED;
	fprintf(stderr, "%s\n", err->msg);
	return 1;
}

/* A process that holds @bytes, and allocates and frees on and on. */
static pid_t busy(size_t bytes)
{
	int ready[2];
	char byte;
	if (pipe(ready) < 0)
		return -1;
	pid_t pid = fork();
	if (pid) {
		ssize_t got = read(ready[0], &byte, 1);
		close(ready[0]);
		close(ready[1]);
		return got == 1 ? pid : -1;
	}
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memset(at, 1, bytes);
	if (write(ready[1], "", 1) != 1)
		_exit(1);
	for (;;) {
		void *volatile block = malloc(100000);
		free(block);
	}
}

static void end_of(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void on_say(const char *text)
{
	(void)text;
}

static int on_fail(const struct err *err)
{
	fprintf(stderr, "%s\n", err->msg);
	return 0;
}

struct heard {
	int ready, counted;
};

static int on_ready(void *ctx, struct err *err)
{
	(void)err;
	((struct heard *)ctx)->ready++;
	return 0;
}

static int on_counted(void *ctx, struct err *err)
{
	(void)err;
	((struct heard *)ctx)->counted++;
	return 0;
}

static int pages_of_a_process(void)
{
	struct err err = { 0 };
	struct heard heard = { 0 };
	pid_t pid = busy(8 * MIB);
	struct targets targets = { .pids = { pid }, .pid_count = 1 };
	const struct pages_life_opt opt = { .targets = &targets,
					    .end_ns = clock_ns(CLOCK_MONOTONIC) + S / 5,
					    .ears = { &heard, on_say, on_fail, on_ready,
						      on_counted } };
	struct pages_life *life = pages_life_new(&opt, &err);
	if (!life)
		return 2;
	int rc = pages_life_shot(life) ? 3 : 0; /* nothing was counted yet */
	if (!rc && pages_life_run(life, &err) < 0)
		rc = refused(&err);
	struct page_shot *shot = rc ? NULL : pages_life_shot(life);
	const struct page_process *process = shot ? page_shot_find(shot, pid) : NULL;
	if (!rc && (!process || process->kinds[PAGES_ANON] < 8 * MIB))
		rc = 4;
	if (!rc && (heard.ready != 1 || heard.counted < 1))
		rc = 5;
	if (!rc && pages_life_ended(life, pid)) /* it goes on */
		rc = 6;
	page_shot_put(shot);
	pages_life_free(life);
	end_of(pid);
	return rc;
}

static void a_life_counts_the_pages_of_its_process_and_tells(void **state)
{
	(void)state;
	in_a_child(pages_of_a_process);
}

/* It ends once it was counted. */
static int on_end(void *ctx, struct err *err)
{
	(void)err;
	kill(*(const pid_t *)ctx, SIGKILL);
	return 0;
}

static int pages_until_the_end(void)
{
	struct err err = { 0 };
	pid_t pid = busy(MIB);
	struct targets targets = { .pids = { pid }, .pid_count = 1 };
	const struct pages_life_opt opt = { .targets = &targets,
					    .ears = { &pid, on_say, on_fail, NULL, on_end } };
	struct pages_life *life = pages_life_new(&opt, &err);
	int rc = pages_life_run(life, &err) < 0 ? refused(&err) : 0;
	if (!rc && !pages_life_ended(life, pid))
		rc = 7;
	pages_life_free(life);
	end_of(pid);
	return rc;
}

static void a_life_ends_with_its_process(void **state)
{
	(void)state;
	in_a_child(pages_until_the_end);
}

static int sample_of_a_process(void)
{
	struct err err = { 0 };
	struct heard heard = { 0 };
	pid_t pid = busy(MIB);
	struct targets targets = { .pids = { pid }, .pid_count = 1 };
	const struct sample_life_opt opt = {
		.targets = &targets,
		.duration_ns = S / 5,
		.ears = { .ctx = &heard, .say = on_say, .ready = on_ready, .show = on_counted },
	};
	struct sample_life *life = sample_life_new(&opt, &err);
	if (!life)
		return 2;
	int rc = sample_life_begin(life, &err) < 0 ? refused(&err) : 0, ended = 0;
	if (!rc) {
		ended = sample_life_run(life, &err);
		rc = ended < 0 ? refused(&err) : ended ? 3 : 0; /* the clock ended it */
	}
	if (sample_life_end(life, ended, &err) < 0 && !rc)
		rc = refused(&err);
	struct prof *prof = rc ? NULL : sample_life_read(life, 1, &err);
	const struct samples *samples = sample_life_samples(life);
	uint64_t bytes = 0;
	for (size_t i = 0; prof && i < samples->row_count; i++)
		if (samples->rows[i].pid == (uint32_t)pid)
			bytes += (uint64_t)samples->rows[i].now.bytes;
	if (!rc && (!prof || bytes < 100000))
		rc = 4;
	if (!rc && heard.ready != 1)
		rc = 5;
	prof_freep(&prof);
	sample_life_free(life);
	end_of(pid);
	return rc;
}

static void a_life_samples_what_its_process_allocates(void **state)
{
	(void)state;
	in_a_child(sample_of_a_process);
}

static int sample_of_nobody(void)
{
	struct err err = { 0 };
	pid_t pid = fork();
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	struct targets targets = { .pids = { pid }, .pid_count = 1 };
	const struct sample_life_opt opt = { .targets = &targets,
					     .ears = { .say = on_say, .show = on_counted } };
	struct sample_life *life = sample_life_new(&opt, &err);
	int rc = sample_life_begin(life, &err);
	char number[16];
	snprintf(number, sizeof(number), "%d", pid);
	int good = rc < 0 && strstr(err.msg, number);
	sample_life_end(life, rc, &err);
	sample_life_free(life);
	return good ? 0 : 8;
}

static void a_process_that_is_gone_is_refused_by_its_number(void **state)
{
	(void)state;
	in_a_child(sample_of_nobody);
}

/* ---- how many processes at once -------------------------------------------------------------------------------------- */

static void processes_that_have_ended_make_place_for_others(void **state)
{
	(void)state;
	static struct sample_target all[SAMPLE_PROCESSES_MAX], gone[SAMPLE_PROCESSES_MAX];
	size_t count = SAMPLE_PROCESSES_MAX;
	for (uint32_t i = 0; i < SAMPLE_PROCESSES_MAX; i++)
		all[i] = (struct sample_target){ .pid = i + 1, .pidfd = -1, .cpu_ns = i };
	/* all of them run: there is none */
	assert_int_equal(sample_places_free(all, &count, gone), 0);
	assert_int_equal(count, SAMPLE_PROCESSES_MAX);
	/* the first, the last and two beside each other */
	static const uint32_t which[] = { 0, 100, 101, SAMPLE_PROCESSES_MAX - 1 };
	for (unsigned i = 0; i < 4; i++)
		all[which[i]].ended = 1;
	assert_int_equal(sample_places_free(all, &count, gone), 4);
	assert_int_equal(count, SAMPLE_PROCESSES_MAX - 4);
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(gone[i].pid, which[i] + 1);
		assert_int_equal(gone[i].cpu_ns, which[i]);
	}
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(all[i].ended, 0);
		assert_true(!i || all[i].pid > all[i - 1].pid);
	}
	/* as many come, and all of them end */
	while (count < SAMPLE_PROCESSES_MAX)
		all[count++] = (struct sample_target){ .pid = 1000 };
	for (size_t i = 0; i < count; i++)
		all[i].ended = 1;
	assert_int_equal(sample_places_free(all, &count, gone), SAMPLE_PROCESSES_MAX);
	assert_int_equal(count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(earlier_readings_are_thinned_out_and_reach_back_to_the_first),
		cmocka_unit_test(a_reading_is_compared_with_the_last_one_of_before_its_time),
		cmocka_unit_test(readings_that_come_too_fast_are_not_all_kept),
		cmocka_unit_test(a_process_that_is_gone_is_refused_by_its_number),
		cmocka_unit_test(a_life_counts_the_pages_of_its_process_and_tells),
		cmocka_unit_test(a_life_ends_with_its_process),
		cmocka_unit_test(a_life_samples_what_its_process_allocates),
		cmocka_unit_test(processes_that_have_ended_make_place_for_others),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
