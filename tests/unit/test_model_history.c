/* SPDX-License-Identifier: Apache-2.0 */
/* Histories of regions: what is kept at which resolution, what survives a restart, a cut, a flipped bit and a full label table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "model/history.h"
#include "model/history_impl.h"

#define SECOND 1000000000ull
#define START (1700000000ull * SECOND)
#define KIB 1024ull

static char folder[] = "/tmp/byteledger-history-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/h", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static struct history *open_history(const char *name)
{
	struct history *h = NULL;
	struct err err = { 0 };
	if (history_open(name, 1, &h, &err) < 0)
		fail_msg("%s", err.msg);
	return h;
}

/* Second @s: the process has s + 100 KiB, one label a third of it, another is there in even seconds only. */
static void add_second(struct history *h, uint64_t s)
{
	struct history_row rows[3] = {
		{ "", "", (s + 100) * KIB, (s + 200) * KIB, 0, 10 },
		{ "allocator", "heap (brk)", (s + 100) / 3 * KIB, (s + 100) * KIB, 4 * KIB, 1 },
		{ "named", "TNC-*", s * KIB, s * KIB, 0, s },
	};
	struct err err = { 0 };
	if (history_add(h, START + s * SECOND, rows, s % 2 ? 2 : 3, &err) < 0)
		fail_msg("%s", err.msg);
}

static size_t series(struct history *h, size_t key, uint64_t from_s, uint64_t to_s,
		     struct history_point **points)
{
	size_t count;
	assert_int_equal(history_series(h, key, START + from_s * SECOND, START + to_s * SECOND,
					points, &count),
			 0);
	return count;
}

static void check_second(const struct history_point *p)
{
	uint64_t s = (p->time_ns - START) / SECOND;
	assert_int_equal(p->rss_bytes, (s + 100) * KIB);
	assert_int_equal(p->virtual_bytes, (s + 200) * KIB);
	assert_int_equal(p->count, 10);
}

static void samples_come_back_as_they_were(void **state)
{
	(void)state;
	struct history *h = open_history(NULL);
	for (uint64_t s = 0; s < 300; s++)
		add_second(h, s);
	struct history_point *p;
	assert_int_equal(series(h, 0, 0, 1000, &p), 300);
	for (size_t i = 0; i < 300; i++)
		check_second(&p[i]);
	free(p);
	int key = history_find(h, "named", "TNC-*");
	assert_true(key > 0);
	assert_int_equal(series(h, (size_t)key, 100, 103, &p), 4);
	assert_int_equal(p[0].rss_bytes, 100 * KIB);
	assert_int_equal(p[1].rss_bytes, 0); /* not there in odd seconds */
	assert_int_equal(p[2].count, 102);
	free(p);
	assert_int_equal(history_find(h, "named", "else"), -ENOENT);
	history_close(h);
}

static void old_samples_grow_coarse_and_then_go(void **state)
{
	(void)state;
	struct history *h = open_history(NULL);
	uint64_t end = 5 * 24 * 3600;
	for (uint64_t s = 0; s < end; s += s + 7200 < end ? 10 : 1)
		add_second(h, s);
	struct history_point *p;
	size_t n = series(h, 0, end - 600, end, &p);
	assert_in_range(n, 599, 601);
	free(p);
	n = series(h, 0, end - 7200, end - 3600, &p);
	assert_in_range(n, 355, 365); /* one in ten seconds */
	for (size_t i = 0; i < n; i++)
		check_second(&p[i]);
	free(p);
	n = series(h, 0, end - 48 * 3600, end - 24 * 3600, &p);
	assert_in_range(n, 715, 725); /* one in two minutes */
	free(p);
	n = series(h, 0, 0, end, &p);
	assert_true(n > 0);
	assert_true(p[0].time_ns >= START + (end - 4 * 24 * 3600 - 64 * 120 - 120) * SECOND);
	for (size_t i = 1; i < n; i++)
		assert_true(p[i].time_ns > p[i - 1].time_ns);
	free(p);
	history_close(h);
}

static void a_restart_goes_on_where_the_last_run_ended(void **state)
{
	(void)state;
	struct err err = { 0 };
	for (uint64_t run = 0; run < 3; run++) {
		struct history *h = open_history(path);
		struct history_run who = { START + run * 100 * SECOND, 4242 + (int)run, "program" };
		assert_int_equal(history_start(h, &who, &err), 0);
		for (uint64_t s = run * 100; s < run * 100 + 90; s++)
			add_second(h, s);
		history_close(h); /* a crash leaves the same bytes: nothing is written at the end */
	}
	struct history *h = NULL;
	assert_int_equal(history_open(path, 0, &h, &err), 0);
	struct history_point *p;
	assert_int_equal(series(h, 0, 0, 1000, &p), 270);
	for (size_t i = 0; i < 270; i++)
		check_second(&p[i]);
	free(p);
	struct history_run *runs;
	size_t count;
	assert_int_equal(history_runs(h, &runs, &count), 0);
	assert_int_equal(count, 3);
	assert_int_equal(runs[2].pid, 4244);
	assert_string_equal(runs[2].comm, "program");
	free(runs);
	history_close(h);
	unlink(path);
}

static void a_history_that_is_being_written_is_not_written_twice(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct history *h = open_history(path), *other = NULL;
	assert_int_equal(history_open(path, 1, &other, &err), -EBUSY);
	assert_int_equal(history_open(path, 0, &other, &err), 0); /* reading is fine */
	history_close(other);
	history_close(h);
	unlink(path);
}

static void the_file_is_written_anew_before_it_grows_without_end(void **state)
{
	(void)state;
	struct history *h = open_history(path);
	struct history_row rows[200];
	char labels[200][16];
	struct err err = { 0 };
	struct stat st;
	uint64_t largest = 0;
	for (uint64_t s = 0; s < 4000; s++) {
		for (uint64_t i = 0; i < 200; i++) {
			snprintf(labels[i], sizeof(labels[i]), "label %llu", (unsigned long long)i);
			rows[i] = (struct history_row){
				"named", labels[i], (s * 7919 * (i + 1) % 100000) * KIB,
				s * KIB, 0,         i
			};
		}
		assert_int_equal(history_add(h, START + s * SECOND, rows, 200, &err), 0);
		assert_int_equal(stat(path, &st), 0);
		largest = (uint64_t)st.st_size > largest ? (uint64_t)st.st_size : largest;
	}
	assert_true(largest < (8u << 20));
	struct history_point *before, *after;
	size_t n = series(h, 0, 0, 4000, &before);
	history_close(h);
	h = open_history(path);
	assert_int_equal(series(h, 0, 0, 4000, &after), n);
	assert_memory_equal(before, after, n * sizeof(*before));
	free(before);
	free(after);
	history_close(h);
	unlink(path);
}

/* Samples until the file has been written anew, or @seconds have passed: 1 if it was. */
static int until_renewed(struct history *h, uint64_t seconds)
{
	struct history_row rows[200];
	char labels[200][16];
	struct err err = { 0 };
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	ino_t before = st.st_ino;
	for (uint64_t s = 0; s < seconds; s++) {
		for (uint64_t i = 0; i < 200; i++) {
			snprintf(labels[i], sizeof(labels[i]), "label %llu", (unsigned long long)i);
			rows[i] = (struct history_row){
				"named", labels[i], (s * 7919 * (i + 1) % 100000) * KIB,
				s * KIB, 0,         i
			};
		}
		if (history_add(h, START + s * SECOND, rows, 200, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(stat(path, &st), 0);
		if (st.st_ino != before)
			return 1;
	}
	return 0;
}

static void what_a_killed_watcher_left_does_not_keep_the_next_from_renewing(void **state)
{
	(void)state;
	char beside[128];
	struct stat st;
	snprintf(beside, sizeof(beside), "%s%s", path, HISTORY_BESIDE);
	for (int kind = 0; kind < 2; kind++) {
		struct history *h = open_history(path), *other = NULL;
		struct err err = { 0 };
		if (kind)
			assert_int_equal(symlink("/etc/passwd", beside), 0);
		else
			assert_int_equal(close(open(beside, O_WRONLY | O_CREAT, 0600)), 0);
		assert_int_equal(until_renewed(h, 4000), 1);
		assert_int_equal(lstat(beside, &st), -1);
		/* the file of that name is the one that is locked */
		assert_int_equal(history_open(path, 1, &other, &err), -EBUSY);
		history_close(h);
		unlink(path);
	}
}

/*
 * Another watcher opens the file, then it is renewed, and the lock on the old one is free: others try that all the time, and
 * none may believe that it is the one who writes.
 */
static void a_lock_on_a_file_that_was_replaced_is_no_lock(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct history *h = open_history(path), *other = NULL;
	atomic_int *stop = mmap(NULL, sizeof(*stop), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(stop != MAP_FAILED);
	for (int i = 0; i < 3; i++) {
		pid_t child = fork();
		assert_true(child >= 0);
		if (child)
			continue;
		close(h->fd); /* the lock is shared with the parent's */
		while (!atomic_load(stop)) {
			if (history_open(path, 1, &other, &err) == 0)
				_exit(1);
		}
		_exit(0);
	}
	int renewed = 0, status, bad = 0;
	for (int i = 0; i < 300; i++) {
		pthread_mutex_lock(&h->lock);
		renewed += history_file_renew(h, &err) == 0;
		pthread_mutex_unlock(&h->lock);
	}
	atomic_store(stop, 1);
	while (wait(&status) > 0)
		bad += status != 0;
	assert_int_equal(bad, 0);
	assert_int_equal(renewed, 300);
	history_close(h);
	unlink(path);
	munmap(stop, sizeof(*stop));
}

/* The RSS of all labels of @class now, and how many there are. */
static uint64_t class_rss(struct history *h, const char *class, size_t *labels)
{
	struct history_point now[HISTORY_LABELS_MAX];
	uint64_t sum = 0;
	size_t keys = history_keys(h);
	*labels = 0;
	assert_int_equal(history_newest(h, now, keys), 0);
	for (size_t i = 1; i < keys; i++) {
		struct history_key key = history_key(h, i);
		if (strcmp(key.class, class) == 0) {
			sum += now[i].rss_bytes;
			*labels += 1;
		}
	}
	return sum;
}

static void more_labels_than_fit_are_added_up_in_their_class(void **state)
{
	(void)state;
	struct history *h = open_history(NULL);
	struct history_row rows[1000];
	char labels[1000][16];
	struct err err = { 0 };
	size_t named, mapped;
	rows[0] = (struct history_row){ "", "", 999 * KIB, 0, 0, 0 };
	for (unsigned i = 1; i < 1000; i++) {
		snprintf(labels[i], sizeof(labels[i]), "%u", i);
		rows[i] = (struct history_row){
			i % 3 ? "named" : "mapped-file", labels[i], KIB, 0, 0, 1
		};
	}
	assert_int_equal(history_add(h, START, rows, 1000, &err), 0);
	assert_in_range(history_keys(h), 2, HISTORY_LABELS_MAX);
	assert_int_equal(class_rss(h, "named", &named), 666 * KIB);
	assert_int_equal(class_rss(h, "mapped-file", &mapped), 333 * KIB);
	assert_true(named > 100 && mapped > 50);
	assert_true(history_find(h, "named", "(other)") > 0);
	assert_true(history_find(h, "mapped-file", "(other)") > 0);
	assert_int_equal(history_find(h, "(other)", "(other)"), -ENOENT);
	history_close(h);
}

/* Ten labels a second, each there for five seconds: thousands in the end, and one that stays. */
static void add_passing(struct history *h, uint64_t s)
{
	struct history_row rows[60];
	char labels[60][24];
	struct err err = { 0 };
	size_t count = 2;
	rows[0] = (struct history_row){ "", "", (50 + s) * KIB, 0, 0, 0 };
	rows[1] = (struct history_row){ "allocator", "heap (brk)", s * KIB, 0, 0, 1 };
	for (uint64_t born = s > 4 ? s - 4 : 0; born <= s; born++) {
		for (unsigned i = 0; i < 10; i++, count++) {
			snprintf(labels[count], sizeof(labels[count]), "%llu/%u",
				 (unsigned long long)born, i);
			rows[count] = (struct history_row){ "named", labels[count], KIB, 0, 0, 1 };
		}
	}
	if (history_add(h, START + s * SECOND, rows, count, &err) < 0)
		fail_msg("%s", err.msg);
}

static void check_passing(struct history *h, uint64_t end)
{
	struct history_point *p, *named[HISTORY_LABELS_MAX];
	size_t n = series(h, 0, 0, end, &p), keys = history_keys(h);
	int heap = history_find(h, "allocator", "heap (brk)");
	assert_true(n > 0 && heap > 0);
	for (size_t k = 1; k < keys; k++)
		assert_int_equal(series(h, k, 0, end, &named[k]), n);
	/* at each moment that is kept the classes have what they had */
	for (size_t i = 0; i < n; i++) {
		uint64_t s = (p[i].time_ns - START) / SECOND, sum = 0, count = 0;
		for (size_t k = 1; k < keys; k++) {
			if ((int)k != heap)
				sum += named[k][i].rss_bytes, count += named[k][i].count;
		}
		assert_int_equal(named[heap][i].rss_bytes, s * KIB);
		assert_int_equal(sum, (s > 4 ? 50 : 10 * (s + 1)) * KIB);
		assert_int_equal(count, s > 4 ? 50 : 10 * (s + 1));
	}
	for (size_t k = 1; k < keys; k++)
		free(named[k]);
	free(p);
}

static void labels_that_are_long_gone_make_room_for_new_ones(void **state)
{
	(void)state;
	struct history *h = open_history(path);
	const uint64_t end = 5000;
	uint64_t own = 0, changes = 0;
	for (uint64_t s = 0; s < end; s++) {
		char label[24];
		add_passing(h, s);
		snprintf(label, sizeof(label), "%llu/9", (unsigned long long)s);
		own += history_find(h, "named", label) > 0;
		assert_in_range(history_keys(h), 2, HISTORY_LABELS_MAX);
		assert_true(history_changes(h) >= changes);
		changes = history_changes(h);
	}
	/* without retiring it would be those of the first 22 seconds */
	assert_true(own > 100);
	check_passing(h, end);
	size_t keys = history_keys(h);
	struct history_key last = history_key(h, keys - 1);
	history_close(h);
	h = open_history(path);
	assert_int_equal(history_damaged(h), 0);
	assert_int_equal(history_keys(h), keys);
	assert_string_equal(history_key(h, keys - 1).label, last.label);
	check_passing(h, end);
	history_close(h);
	unlink(path);
}

static void several_series_are_read_at_once_as_one_by_one(void **state)
{
	(void)state;
	struct history *h = open_history(NULL);
	for (uint64_t s = 0; s < 4000; s++)
		add_second(h, s);
	struct history_line lines[3] = { { .number = 2 }, { .number = 0 }, { .number = 1 } };
	assert_int_equal(history_lines(h, lines, 3, START + 500 * SECOND, START + 3900 * SECOND),
			 0);
	for (size_t i = 0; i < 3; i++) {
		struct history_point *p;
		size_t n = series(h, lines[i].number, 500, 3900, &p);
		assert_int_equal(lines[i].count, n);
		assert_memory_equal(lines[i].points, p, n * sizeof(*p));
		free(p);
	}
	assert_string_equal(lines[0].key.label, "TNC-*");
	assert_string_equal(lines[2].key.class, "allocator");
	/* the two labels together, since the clock was last set back: always */
	uint8_t picked[HISTORY_LABELS_MAX] = { 0, 1, 1 };
	struct history_point *sum;
	size_t n;
	assert_int_equal(
		history_recent(h, picked, START + 500 * SECOND, START + 3900 * SECOND, &sum, &n),
		0);
	assert_int_equal(n, lines[0].count);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(sum[i].rss_bytes,
				 lines[0].points[i].rss_bytes + lines[2].points[i].rss_bytes);
	free(sum);
	history_lines_fini(lines, 3);
	history_close(h);
}

/* Second @s of a clock that is wrong by @off seconds. */
static void add_wrong_second(struct history *h, uint64_t s, uint64_t off)
{
	struct history_row row = { "", "", (s + 100) * KIB, (s + 200) * KIB, 0, 10 };
	struct err err = { 0 };
	if (history_add(h, START + (s + off) * SECOND, &row, 1, &err) < 0)
		fail_msg("%s", err.msg);
}

static void a_clock_that_ran_ahead_and_was_set_back_costs_no_sample(void **state)
{
	(void)state;
	const uint64_t year = 365 * 86400;
	struct history_point *p, now;
	struct history *h = open_history(path);
	for (uint64_t s = 0; s < 300; s++)
		add_wrong_second(h, s, 0);
	for (uint64_t s = 300; s < 400; s++)
		add_wrong_second(h, s, year);
	for (uint64_t s = 400; s < 500; s++)
		add_wrong_second(h, s, 0);
	/* as written, and as read back */
	for (int run = 0; run < 2; run++) {
		assert_int_equal(series(h, 0, 0, 1000, &p), 400);
		for (size_t i = 0; i < 400; i++) {
			check_second(&p[i]);
			assert_true(!i || p[i].time_ns > p[i - 1].time_ns);
		}
		free(p);
		assert_int_equal(series(h, 0, 0, 2 * year, &p), 500);
		assert_int_equal(p[400].time_ns, START + (300 + year) * SECOND);
		free(p);
		assert_int_equal(history_at(h, START + 450 * SECOND, &now, 1), 0);
		assert_int_equal(now.rss_bytes, 550 * KIB);
		assert_int_equal(history_at(h, START + 350 * SECOND, &now, 1), 0);
		assert_int_equal(now.rss_bytes, 399 * KIB);
		assert_int_equal(history_newest(h, &now, 1), 0);
		assert_int_equal(now.rss_bytes, 599 * KIB);
		assert_int_equal(history_damaged(h), 0);
		history_close(h);
		h = open_history(path);
	}
	/* rules see what was taken since, also where the clock passes the same moments again */
	add_wrong_second(h, 500, 100);
	add_wrong_second(h, 550, 0);
	size_t count;
	uint8_t picked[HISTORY_LABELS_MAX] = { 1 };
	assert_int_equal(history_recent(h, picked, 0, UINT64_MAX, &p, &count), 0);
	assert_int_equal(count, 1);
	check_second(p);
	free(p);
	/* after the file was written anew, too */
	assert_int_equal(until_renewed(h, 4000), 1);
	history_close(h);
	h = open_history(path);
	assert_int_equal(history_damaged(h), 0);
	assert_int_equal(history_at(h, START + (399 + year) * SECOND, &now, 1), 0);
	assert_in_range(now.rss_bytes, 490 * KIB, 499 * KIB); /* one in ten seconds by now */
	history_close(h);
	unlink(path);
}

static void time_alone_makes_nothing_old(void **state)
{
	(void)state;
	const uint64_t week = 7 * 86400, end = 3 * week + 7200;
	struct history_point *p;
	struct history *h = open_history(NULL);
	for (uint64_t s = 0; s < 7200; s++)
		add_wrong_second(h, s, 0);
	/* nobody watched for weeks, or the clock was set ahead: the hours before are still there */
	for (uint64_t s = 3 * week; s < 3 * week + 300; s++)
		add_wrong_second(h, s, 0);
	size_t n = series(h, 0, 0, 7200, &p);
	assert_true(n >= 660 && p[0].time_ns <= START + 120 * SECOND);
	free(p);
	/* and they go for what comes after */
	for (uint64_t s = 3 * week + 300; s < end; s++)
		add_wrong_second(h, s, 0);
	size_t later = series(h, 0, 0, 7200, &p);
	free(p);
	assert_true(later < n);
	n = series(h, 0, end - 600, end, &p);
	assert_in_range(n, 599, 600);
	free(p);
	history_close(h);
}

static char *read_file(size_t *len)
{
	FILE *file = fopen(path, "rb");
	assert_non_null(file);
	char *bytes = malloc(1 << 20);
	*len = fread(bytes, 1, 1 << 20, file);
	fclose(file);
	return bytes;
}

static void write_file(const char *bytes, size_t len)
{
	unlink(path);
	FILE *file = fopen(path, "wb");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, len, file), len);
	fclose(file);
}

static void a_cut_or_flipped_file_yields_what_stands_before(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct history *h = open_history(path);
	for (uint64_t s = 0; s < 20; s++)
		add_second(h, s);
	history_close(h);
	size_t len;
	char *bytes = read_file(&len);
	for (size_t at = 8; at < len; at++) {
		for (int flip = 0; flip < 2; flip++) {
			bytes[at] = (char)(bytes[at] ^ (flip ? 0x10 : 0));
			write_file(bytes, flip ? len : at);
			bytes[at] = (char)(bytes[at] ^ (flip ? 0x10 : 0));
			h = NULL;
			assert_int_equal(history_open(path, 0, &h, &err), 0);
			struct history_point *p;
			size_t n = series(h, 0, 0, 100, &p);
			assert_true(n <= 20);
			for (size_t i = 0; i < n; i++)
				check_second(&p[i]);
			if (flip)
				assert_true(history_damaged(h) > 0);
			free(p);
			history_close(h);
		}
	}
	/* a watcher goes on behind the sound part */
	write_file(bytes, len - 3);
	h = open_history(path);
	add_second(h, 50);
	history_close(h);
	h = open_history(path);
	assert_int_equal(history_damaged(h), 0);
	struct history_point *p;
	size_t n = series(h, 0, 0, 100, &p);
	assert_int_equal(p[n - 1].rss_bytes, 150 * KIB);
	free(p);
	history_close(h);
	free(bytes);
	unlink(path);
}

/* What is read of a damaged file is right, label by label; returns how many seconds that is. */
static size_t right_seconds(struct history *h)
{
	struct history_point *p;
	size_t n = series(h, 0, 0, 1000, &p);
	for (size_t i = 0; i < n; i++)
		check_second(&p[i]);
	free(p);
	int key = history_find(h, "allocator", "heap (brk)");
	size_t of_label = key > 0 ? series(h, (size_t)key, 0, 1000, &p) : 0;
	for (size_t i = 0; i < of_label; i++)
		assert_int_equal(p[i].rss_bytes, ((p[i].time_ns - START) / SECOND + 100) / 3 * KIB);
	if (key > 0)
		free(p);
	return n;
}

static void a_damaged_frame_costs_what_hangs_on_it_and_nothing_else(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct history *h = open_history(path);
	for (uint64_t s = 0; s < 300; s++)
		add_second(h, s);
	history_close(h);
	size_t len, other_len, middle = 0, payloads = 0;
	char *bytes = read_file(&len), aside[80];
	snprintf(aside, sizeof(aside), "%s.damaged", path);
	for (size_t at = 8, next; at < len; at = next) {
		next = at + 8 + (uint8_t)bytes[at + 2] + ((size_t)(uint8_t)bytes[at + 3] << 8);
		middle = at < len / 2 ? at : middle;
		for (size_t i = at; i < next && bytes[at] == 3; i += 3) {
			bytes[i] ^= 0x12;
			write_file(bytes, len);
			bytes[i] ^= 0x12;
			h = NULL;
			assert_int_equal(history_open(path, 0, &h, &err), 0);
			assert_true(history_damaged(h) > 0);
			size_t n = right_seconds(h);
			/* up to the next frame that stands alone, the last one's seconds may all hang on it */
			if (i >= at + 4 && next < len && ++payloads)
				assert_in_range(n, 300 - 128, 300);
			history_close(h);
		}
	}
	assert_true(payloads > 100);
	/* a watcher goes on, and the next one finds a sound file */
	bytes[middle + 8] ^= 0x12;
	write_file(bytes, len);
	bytes[middle + 8] ^= 0x12;
	h = open_history(path);
	assert_null(history_aside(h));
	add_second(h, 300);
	history_close(h);
	h = open_history(path);
	assert_int_equal(history_damaged(h), 0);
	assert_in_range(right_seconds(h), 300 - 128, 301);
	history_close(h);
	/* where nobody can tell what a record was, what stands behind it is kept for somebody who can */
	bytes[middle] ^= 0x12;
	write_file(bytes, len);
	h = open_history(path);
	assert_string_equal(history_aside(h), aside);
	add_second(h, 300);
	assert_true(right_seconds(h) > 100);
	history_close(h);
	h = open_history(path);
	assert_int_equal(history_damaged(h), 0);
	history_close(h);
	assert_int_equal(rename(aside, path), 0);
	char *kept = read_file(&other_len);
	assert_int_equal(other_len, len);
	assert_memory_equal(kept, bytes, len);
	free(kept);
	free(bytes);
	unlink(path);
}

static void what_is_no_history_is_left_alone(void **state)
{
	(void)state;
	struct err err = { 0 };
	struct history *h = NULL;
	write_file("precious", 8);
	assert_int_equal(history_open(path, 1, &h, &err), -EBADMSG);
	size_t len;
	char *bytes = read_file(&len);
	assert_int_equal(len, 8);
	assert_memory_equal(bytes, "precious", 8);
	free(bytes);
	unlink(path);
	assert_int_equal(history_open(path, 0, &h, &err), -ENOENT);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_true(history_open(path, 1, &h, &err) < 0);
	unlink(path);
	assert_int_equal(symlink("/etc/passwd", path), 0);
	assert_true(history_open(path, 1, &h, &err) < 0);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples_come_back_as_they_were),
		cmocka_unit_test(old_samples_grow_coarse_and_then_go),
		cmocka_unit_test(a_restart_goes_on_where_the_last_run_ended),
		cmocka_unit_test(a_history_that_is_being_written_is_not_written_twice),
		cmocka_unit_test(the_file_is_written_anew_before_it_grows_without_end),
		cmocka_unit_test(what_a_killed_watcher_left_does_not_keep_the_next_from_renewing),
		cmocka_unit_test(a_lock_on_a_file_that_was_replaced_is_no_lock),
		cmocka_unit_test(more_labels_than_fit_are_added_up_in_their_class),
		cmocka_unit_test(labels_that_are_long_gone_make_room_for_new_ones),
		cmocka_unit_test(several_series_are_read_at_once_as_one_by_one),
		cmocka_unit_test(a_clock_that_ran_ahead_and_was_set_back_costs_no_sample),
		cmocka_unit_test(time_alone_makes_nothing_old),
		cmocka_unit_test(a_cut_or_flipped_file_yields_what_stands_before),
		cmocka_unit_test(a_damaged_frame_costs_what_hangs_on_it_and_nothing_else),
		cmocka_unit_test(what_is_no_history_is_left_alone),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
