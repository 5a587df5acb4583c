/* SPDX-License-Identifier: Apache-2.0 */
/* source/pageown_stacks: addresses of code of no file are forgotten once no stack holds them, and nobody looks at them after that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "source/pageown_impl.h"
#include "trace/paged.h"

#define DEPTH 100u
#define STACKS 600u
#define CODE 0x1000000ull     /* of a file, one page */
#define NOWHERE 0x70000000ull /* of none */

/* The kernel's side, and what is known of mappings. */
static uint32_t next_number = WIRE_PAGES_FIRST;

uint32_t pageown_next(const struct pageown *p)
{
	(void)p;
	return next_number;
}

uint64_t pageown_pool_used(const struct pageown *p)
{
	return p->pool_words;
}

void pageown_forget_hash(struct pageown *p, uint64_t hash)
{
	(void)p;
	(void)hash;
}

int pageown_put_ring(struct pageown *p, uint32_t frames, uint32_t id)
{
	(void)p;
	(void)frames;
	(void)id;
	return 0;
}

int pageown_consume(struct pageown *p)
{
	(void)p;
	return 0;
}

struct followed *pageown_find(const struct pageown *p, pid_t pid)
{
	(void)p;
	(void)pid;
	return NULL;
}

int bpftables_each(const struct bpftables *tables, uint32_t pid,
		   int (*place)(void *ctx, const struct bpftables_spot *spot, uint64_t lo,
				uint64_t hi),
		   void *ctx)
{
	const struct bpftables_spot spot = { .path = "/bin/true", .offset = CODE };
	(void)tables;
	(void)pid;
	return place(ctx, &spot, CODE, CODE + 4096);
}

struct fixture {
	struct pageown *p;
	uint64_t words;
};

static void fixture_open(struct fixture *f)
{
	next_number = WIRE_PAGES_FIRST;
	struct pageown *p = f->p = calloc(1, sizeof(*p));
	f->words = 0;
	pthread_mutex_init(&p->lock, NULL);
	p->stacks_max = 2 * STACKS;
	p->pool_words = (uint64_t)p->stacks_max * (DEPTH + 1);
	p->heads = calloc(p->stacks_max, sizeof(*p->heads));
	p->live = calloc(p->stacks_max, sizeof(*p->live));
	p->pool = calloc(p->pool_words, sizeof(*p->pool));
	pageown_image_learn(p, pageown_image(p, getpid(), 0));
}

static void fixture_close(struct fixture *f)
{
	pageown_stacks_fini(f->p);
	pthread_mutex_destroy(&f->p->lock);
	free(f->p->heads);
	free(f->p->live);
	free(f->p->pool);
	free(f->p);
}

/* A stack with a page: DEPTH frames from @from on of no file, called by one of the file. */
static uint32_t push(struct fixture *f, uint64_t from)
{
	uint32_t id = next_number++;
	f->p->heads[id] = (struct wire_pages_stack_head){ .first_ns = id,
							  .tgid = (uint32_t)getpid(),
							  .at = (uint32_t)f->words,
							  .count = DEPTH + 1 };
	f->p->live[id].anon = 1;
	for (uint32_t i = 0; i < DEPTH; i++)
		f->p->pool[f->words++] = from + i + 1;
	f->p->pool[f->words++] = CODE + 0x41;
	return id;
}

/* Its process has ended, and its pages are gone. */
static void lose_all(struct fixture *f)
{
	for (uint32_t id = WIRE_PAGES_FIRST; id < next_number; id++)
		f->p->live[id].anon = 0;
	for (int i = 0; i < 2; i++) {
		f->p->gave_back_ns = 0;
		pageown_give_back(f->p);
	}
}

static void addresses_of_no_file_are_forgotten_when_no_stack_holds_them(void **state)
{
	(void)state;
	struct fixture f;
	fixture_open(&f);
	for (uint32_t i = 0; i < STACKS; i++)
		push(&f, NOWHERE + (uint64_t)i * DEPTH);
	pageown_take_stacks(f.p, 1);
	assert_int_equal(f.p->frame_count, 1 + STACKS * DEPTH);
	/* stacks hold all of them */
	pageown_sweep_frames(f.p);
	assert_int_equal(f.p->frame_count, 1 + STACKS * DEPTH);
	/* as a reading does */
	const struct page_stack *kept = page_stack_get(pageown_stack(f.p, WIRE_PAGES_FIRST + 7));
	const struct page_frame *in_file = kept->frames[DEPTH];
	assert_string_equal(in_file->module->path, "/bin/true");
	assert_int_equal(in_file->number, 0);
	lose_all(&f);
	/* not before there are twice as many as were kept */
	pageown_sweep_frames(f.p);
	assert_int_equal(f.p->frame_count, 1 + STACKS * DEPTH);
	f.p->frames_sweep_at = 0;
	pageown_sweep_frames(f.p);
	assert_int_equal(f.p->frame_count, 1 + DEPTH);
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(kept->frames[i]->offset, NOWHERE + 7 * DEPTH + i);
	/* what was kept is found again, what was forgotten is made */
	uint32_t same = push(&f, NOWHERE + 7 * DEPTH), other = push(&f, NOWHERE + 9 * DEPTH);
	pageown_take_stacks(f.p, 1);
	const struct page_stack *again = pageown_stack(f.p, same);
	for (uint32_t i = 0; i <= DEPTH; i++)
		assert_ptr_equal(again->frames[i], kept->frames[i]);
	again = pageown_stack(f.p, other);
	assert_ptr_equal(again->frames[DEPTH], in_file);
	for (uint32_t i = 0; i < DEPTH; i++)
		assert_int_equal(again->frames[i]->offset, NOWHERE + 9 * DEPTH + i);
	assert_int_equal(f.p->frame_count, 1 + 2 * DEPTH);
	assert_int_equal(f.p->frame_numbers, 1);
	page_stack_put(kept);
	fixture_close(&f);
}

static void a_recording_names_none_that_were_forgotten_meanwhile(void **state)
{
	(void)state;
	struct fixture f;
	struct paged_names names = { 0 };
	struct blt_cols cols = { 0 }, last = { 0 };
	fixture_open(&f);
	for (uint32_t i = 0; i < STACKS; i++)
		push(&f, NOWHERE + (uint64_t)i * DEPTH);
	pageown_take_stacks(f.p, 1);
	struct page_row row = { .bytes = 4096, .stack = pageown_stack(f.p, WIRE_PAGES_FIRST + 7) };
	struct page_process process = { .pid = getpid(), .rows = &row, .row_count = 1 };
	struct page_shot shot = { 0 };
	assert_int_equal(paged_encode(&cols, &shot, &process, 0, &names), 0);
	blt_cols_fini(&cols);
	const struct page_frame *in_file = row.stack->frames[DEPTH];
	lose_all(&f);
	pageown_sweep_frames(f.p);
	assert_int_equal(f.p->frame_count, 1);
	static const struct symbol symbol = { .function = "work" };
	atomic_store(&f.p->frames[0]->symbol_count, 1);
	atomic_store(&f.p->frames[0]->symbols, &symbol);
	for (uint32_t i = 0; i < names.room; i++)
		assert_ptr_equal(names.frames[i], i ? NULL : in_file);
	uint32_t from = 0, count = 0;
	assert_int_equal(paged_encode_names(&last, &names, &from, &count), 0);
	assert_int_equal(count, 1);
	blt_cols_fini(&last);
	paged_names_fini(&names);
	fixture_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_no_file_are_forgotten_when_no_stack_holds_them),
		cmocka_unit_test(a_recording_names_none_that_were_forgotten_meanwhile),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
