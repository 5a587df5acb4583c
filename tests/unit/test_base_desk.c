/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that ask and the one that answers, and the word that may have been meant. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/desk.h"
#include "base/nearest.h"

#define LONG_NS 60000000000ull

static struct desk desk;
static int answers; /* what is known; under the desk's word alone */

static void *ask(void *seen)
{
	desk_ask(&desk, LONG_NS);
	*(int *)seen = answers;
	return NULL;
}

static void somebody_asks(void)
{
	struct pollfd fd = { .fd = desk_fd(&desk), .events = POLLIN };
	assert_int_equal(poll(&fd, 1, 60000), 1);
}

static void a_question_is_answered_with_what_was_measured_behind_it(void **state)
{
	(void)state;
	struct err err = { 0 };
	pthread_t threads[3];
	int seen[3] = { 0 };
	assert_int_equal(desk_init(&desk, &err), 0);
	assert_int_equal(desk_waits(&desk), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask, &seen[i]), 0);
	uint64_t asked = 0;
	while (asked < 3) {
		somebody_asks();
		asked = desk_asked(&desk);
	}
	assert_int_equal(desk_waits(&desk), 1);
	desk_answer(&desk, 0); /* of before the questions: answers none */
	assert_int_equal(desk_waits(&desk), 1);
	answers = 7;
	desk_answer(&desk, asked);
	for (int i = 0; i < 3; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(seen[i], 7);
	}
	assert_int_equal(desk_waits(&desk), 0);
	desk_fini(&desk);
}

static void whoever_asks_when_all_is_over_does_not_wait(void **state)
{
	(void)state;
	struct err err = { 0 };
	pthread_t thread;
	int seen = 0;
	answers = 1;
	assert_int_equal(desk_init(&desk, &err), 0);
	assert_int_equal(pthread_create(&thread, NULL, ask, &seen), 0);
	somebody_asks();
	desk_close(&desk);
	pthread_join(thread, NULL);
	assert_int_equal(seen, 1);
	desk_ask(&desk, LONG_NS);
	desk_fini(&desk);
}

static void a_question_that_nobody_hears_ends_by_itself(void **state)
{
	(void)state;
	struct err err = { 0 };
	assert_int_equal(desk_init(&desk, &err), 0);
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	desk_ask(&desk, 20000000);
	assert_true(clock_ns(CLOCK_MONOTONIC) - began >= 20000000);
	desk_fini(&desk);
}

static void the_nearest_word_is_near(void **state)
{
	(void)state;
	static const char *const words[] = { "report", "regions", "record", "run", "export" };
	assert_string_equal(nearest_word("reprot", words, 5), "report");
	assert_string_equal(nearest_word("regoins", words, 5), "regions");
	assert_string_equal(nearest_word("exp", words, 5), "export"); /* its beginning */
	assert_null(nearest_word("zzzzzzz", words, 5));
	assert_null(nearest_word("ab", words, 5));
	char longer[200];
	memset(longer, 'r', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	assert_null(nearest_word(longer, words, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_question_is_answered_with_what_was_measured_behind_it),
		cmocka_unit_test(whoever_asks_when_all_is_over_does_not_wait),
		cmocka_unit_test(a_question_that_nobody_hears_ends_by_itself),
		cmocka_unit_test(the_nearest_word_is_near),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
