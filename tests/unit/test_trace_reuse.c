/* SPDX-License-Identifier: Apache-2.0 */
/* How blocks' addresses come back: whatever is foretold, what is read is what was written, and it costs little. */
#include "trace_back.h"

#define BLOCKS 4000u

struct heap {
	struct sink *to;
	struct event live[BLOCKS * 2];
	uint32_t spare[BLOCKS * 2], spare_count, next;
};

static void put_one(struct heap *heap, const struct event *event)
{
	struct err err = { 0 };
	assert_done(heap->to->put(heap->to, event, 1, &err), err);
}

static uint32_t allocate(struct heap *heap, uint64_t addr, uint64_t bytes)
{
	uint32_t number = heap->spare_count ? heap->spare[--heap->spare_count] : heap->next++;
	heap->live[number] = (struct event){
		.kind = EVENT_ALLOC, .addr = addr, .bytes = bytes, .block = { number }
	};
	put_one(heap, &heap->live[number]);
	return number;
}

static void release(struct heap *heap, uint32_t number)
{
	struct event event = heap->live[number];
	event.kind = EVENT_FREE;
	put_one(heap, &event);
	heap->spare[heap->spare_count++] = number;
}

/* Blocks die in another order than they were made in, and the next ones stand in that one, oldest first; some are cut into two. */
static void rounds(struct sink *to, unsigned count, int wild)
{
	struct heap *heap = calloc(1, sizeof(*heap));
	uint32_t *order = calloc(BLOCKS * 4, sizeof(*order));
	assert_true(heap && order);
	uint32_t *whole = order + BLOCKS, *piece = whole + BLOCKS, *died = piece + BLOCKS;
	heap->to = to;
	uint64_t seed = 1;
	for (uint32_t i = 0; i < BLOCKS; i++)
		order[i] = i * 7919 % BLOCKS;
	for (unsigned round = 0; round < count; round++) {
		for (uint32_t i = 0; i < BLOCKS; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			uint64_t off = wild && seed >> 60 == 0 ? 16 : 0;
			uint64_t addr = 0x10000000 + order[i] * 4096ull + off;
			uint32_t brief = allocate(heap, 0x8000 + off, 500);
			whole[i] = allocate(heap, addr, 100);
			release(heap, brief);
			if (order[i] % 3 == 0)
				piece[i] = allocate(heap, addr + 112, 72);
		}
		for (uint32_t i = 0; i < BLOCKS; i++) {
			uint32_t at = i * (wild && round % 3 ? 7919 : 1237) % BLOCKS;
			died[i] = order[at];
			release(heap, whole[at]);
			if (order[at] % 3 == 0)
				release(heap, piece[at]);
		}
		memcpy(order, died, BLOCKS * sizeof(*order));
		for (uint32_t i = 0; wild && i + 900 < BLOCKS; i += 9) {
			uint32_t first = order[i];
			order[i] = order[i + 900];
			order[i + 900] = first;
		}
	}
	free(order);
	free(heap);
}

/* Bits that an event takes; all of them are compared. */
static double written(unsigned count, int wild, struct trace_survey *survey)
{
	struct err err = { 0 };
	struct copy in, out;
	struct trace_reader_info info;
	unlink(path);
	struct trace_writer *w = trace_writer_new(path, NULL, &err);
	assert_non_null(w);
	const struct def thread = { .kind = DEF_THREAD, .thread = { .tid = 1 } };
	struct sink_tee tee;
	sink_tee_init(&tee);
	copy_init(&in);
	sink_tee_add(&tee, trace_writer_sink(w));
	sink_tee_add(&tee, &in.sink);
	assert_done(tee.sink.define(&tee.sink, &thread, &err), err);
	rounds(&tee.sink, count, wild);
	assert_done(trace_writer_finish(w, NULL, &err), err);
	read_back(&out, &info);
	assert_int_equal(out.count, in.count);
	assert_same_events(&in, &out, out.count);
	double bits = 8.0 * (double)info.file_bytes / (double)in.count;
	struct trace_reader *r = trace_reader_new(path, &err);
	assert_non_null(r);
	assert_done(trace_reader_survey(r, survey, NULL, &err), err);
	trace_reader_freep(&r);
	copy_fini(&in);
	copy_fini(&out);
	return bits;
}

static uint64_t raw(const struct trace_survey *survey, const char *name)
{
	for (unsigned i = 0; i < TRACE_COLUMNS; i++)
		if (survey->column[i].name && !strcmp(survey->column[i].name, name))
			return survey->column[i].raw_bytes;
	fail_msg("no column %s", name);
	return 0;
}

static void blocks_that_come_back_in_the_order_in_which_they_died_cost_little(void **state)
{
	(void)state;
	struct trace_survey survey;
	double bits = written(12, 0, &survey);
	/* all but those of the first round are found by a step from the one before, pieces by the end of what they are cut from */
	assert_true(raw(&survey, "steps") > 8 * BLOCKS);
	assert_true(raw(&survey, "apart") > BLOCKS);
	assert_true(raw(&survey, "addresses") < 10 * BLOCKS);
	if (bits > 2.5)
		fail_msg("%.2f bits an event", bits);
}

static void whatever_comes_back_where_is_read_as_it_was_written(void **state)
{
	(void)state;
	struct trace_survey survey;
	written(30, 1, &survey);
	assert_true(raw(&survey, "steps") > 10 * BLOCKS && raw(&survey, "places") > BLOCKS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			blocks_that_come_back_in_the_order_in_which_they_died_cost_little, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(whatever_comes_back_where_is_read_as_it_was_written,
						set_up, tear_down),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
