/* SPDX-License-Identifier: Apache-2.0 */
/* What is made of a history for HTTP clients is made once for all who ask. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>

#include <cmocka.h>

#include "api/memory.h"

#define SECOND 1000000000ull
#define START (1700000000ull * SECOND)
#define MIB 1048576ull

static int make(void *ctx, struct buf *body)
{
	int *times = ctx;
	if (*times < 0)
		return *times;
	buf_printf(body, "made %d", ++*times);
	return 0;
}

static const char *ask(struct memory_cache *cache, const char *question, uint64_t time_ns,
		       int *times)
{
	static char text[64];
	CLEANUP(buf_fini) struct buf body = { 0 };
	int rc = memory_cache_answer(cache, question, time_ns, make, times, &body);
	snprintf(text, sizeof(text), "%d %s", rc, buf_cstr(&body));
	return text;
}

static void a_question_is_answered_once_a_sample(void **state)
{
	(void)state;
	struct memory_cache *cache = memory_cache_new();
	int times = 0;
	for (int i = 0; i < 5; i++)
		assert_string_equal(ask(cache, "a", START, &times), "0 made 1");
	assert_string_equal(ask(cache, "b", START, &times), "0 made 2");
	assert_string_equal(ask(cache, "a", START, &times), "0 made 1");
	/* a newer sample: made anew, as soon as what it cost has been earned back */
	while (strcmp(ask(cache, "a", START + SECOND, &times), "0 made 3") != 0)
		assert_int_equal(times, 2);
	/* there is room for a few; whoever asks others pays for it, and nobody gets another's answer */
	for (int i = 0; i < 10; i++) {
		char question[16], answer[16];
		snprintf(question, sizeof(question), "other %d", i);
		snprintf(answer, sizeof(answer), "0 made %d", 4 + i);
		assert_string_equal(ask(cache, question, START + SECOND, &times), answer);
	}
	assert_string_equal(ask(cache, "a", START + SECOND, &times), "0 made 14");
	/* a failure is not remembered */
	times = -ENOMEM;
	assert_string_equal(ask(cache, "c", START, &times), "-12 ");
	times = 0;
	assert_string_equal(ask(cache, "c", START, &times), "0 made 1");
	memory_cache_free(cache);
}

static void add(struct history *history, uint64_t s)
{
	char labels[100][16];
	struct history_row rows[101] = { { "", "", (100 + s) * MIB, 0, 0, 1 } };
	struct err err = { 0 };
	for (uint64_t i = 0; i < 100; i++) {
		snprintf(labels[i], sizeof(labels[i]), "label %llu", (unsigned long long)i);
		rows[1 + i] = (struct history_row){ "named", labels[i], (i + s * (i == 70)) * MIB,
						    0,       0,         1 };
	}
	assert_int_equal(history_add(history, START + s * SECOND, rows, 101, &err), 0);
}

static void trends_are_judged_once_a_sample_and_of_the_largest_labels(void **state)
{
	(void)state;
	struct memory_cache *cache = memory_cache_new();
	struct memory_facts facts = { .pid = 42, .time_ns = START + 59 * SECOND };
	struct memory_trends *trends = calloc(1, sizeof(*trends));
	struct history *history = NULL;
	struct err err = { 0 };
	assert_int_equal(history_open(NULL, 1, &history, &err), 0);
	facts.history = history;
	for (uint64_t s = 0; s < 60; s++)
		add(history, s);
	assert_int_equal(memory_trends_get(cache, &facts, trends), 0);
	assert_int_equal(trends->count, MEMORY_METRIC_LABELS_MAX + 1);
	assert_int_equal(trends->rows[0].growth.verdict, GROWTH_GROWING);
	assert_int_equal(trends->rows[0].growth.points, 60);
	assert_string_equal(trends->rows[1].key.label, "label 70");
	assert_int_equal(trends->rows[1].growth.verdict, GROWTH_GROWING);
	assert_string_equal(trends->rows[2].key.label, "label 99");
	assert_int_equal(trends->rows[2].growth.verdict, GROWTH_STEADY);
	/* what came since is not looked at before the watcher says that there is a sample */
	for (uint64_t s = 60; s < 80; s++)
		add(history, s);
	assert_int_equal(memory_trends_get(cache, &facts, trends), 0);
	assert_int_equal(trends->rows[0].growth.points, 60);
	/* another process is another matter */
	facts.pid = 44;
	facts.time_ns = START + 79 * SECOND;
	assert_int_equal(memory_trends_get(cache, &facts, trends), 0);
	assert_int_equal(trends->rows[0].growth.points, 80);
	facts.pid = 43;
	facts.time_ns = START + 49 * SECOND;
	assert_int_equal(memory_trends_get(cache, &facts, trends), 0);
	assert_int_equal(trends->rows[0].growth.points, 50);
	/* they come and go: each is served, however many there were */
	for (int pid = 100; pid < 300; pid++) {
		facts.pid = pid;
		facts.time_ns = START + (uint64_t)(40 + pid % 20) * SECOND;
		assert_int_equal(memory_trends_get(cache, &facts, trends), 0);
		assert_int_equal(trends->rows[0].growth.points, 41 + pid % 20);
	}
	history_close(history);
	free(trends);
	memory_cache_free(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_is_answered_once_a_sample),
		cmocka_unit_test(trends_are_judged_once_a_sample_and_of_the_largest_labels),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
