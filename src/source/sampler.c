/* SPDX-License-Identifier: Apache-2.0 */
#include "source/sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "model/event.h"
#include "sample.skel.h"
#include "source/bpfstack_events.h"
#include "source/bpftables.h"
#include "source/sampler_impl.h"

#define INITIAL_PIDNS_INODE 0xeffffffcu
#define PENDING_MAX 4096u /* threads that are inside of a call that was taken */
#define RING_BYTES (4u << 20)
#define CACHES_MAX 4096u /* slab caches that have a name */
#define EVERY_MAX (1u << 20)

struct sampler *sampler_new(const struct sampler_opt *opt, struct err *err)
{
	struct sampler *s = calloc(1, sizeof(*s));
	if (!s) {
		err_set(err, -ENOMEM, "cannot allocate a sampler");
		return NULL;
	}
	s->opt = *opt;
	if (!s->opt.sample_bytes)
		s->opt.sample_bytes = SAMPLER_BYTES;
	if (!s->opt.bytes_max)
		s->opt.bytes_max = UINT64_MAX;
	if (s->opt.sample_bytes > SAMPLE_BYTES_MAX || s->opt.sample_every > EVERY_MAX) {
		err_set(err, -EINVAL, "one sample for so many is out of range");
		free(s);
		return NULL;
	}
	s->tables = bpftables_new(s->opt.cache_dir, 0, err);
	if (!s->tables) {
		free(s);
		return NULL;
	}
	return s;
}

void sampler_free(struct sampler *s)
{
	if (!s)
		return;
	sampler_detach(s);
	sampler_activity_end(s);
	ring_buffer__free(s->ring);
	ring_buffer__free(s->wake);
	kernel_names_free(s->kernel_names);
	bpfstack_events_free(s->events);
	bpftables_free(s->tables);
	sample_bpf__destroy(s->skeleton);
	free(s->links);
	for (size_t i = 0; i < s->set_count; i++)
		sampler_functions_fini(&s->sets[i].functions);
	free(s->sets);
	for (uint32_t i = 0; i < s->numbered_count; i++)
		free(s->numbered[i].module);
	free(s);
}

void sampler_freep(struct sampler **sampler)
{
	sampler_free(*sampler);
}

int sampler_add(struct sampler *s, uint32_t pid, struct err *err)
{
	return bpftables_add(s->tables, pid, err);
}

/* --- loading --- */

/* libbpf talks on stderr; rooms do not. Its last words are kept for the error text. */
static _Thread_local char last_words[512];

static int PRINTF(2, 0) keep_words(enum libbpf_print_level level, const char *format, va_list args)
{
	if (level == LIBBPF_WARN && !last_words[0])
		vsnprintf(last_words, sizeof(last_words), format, args);
	last_words[strcspn(last_words, "\n")] = '\0';
	return 0;
}

static int refused(int rc, const char *what, struct err *err)
{
	/* what is not permitted is said by the code, and libbpf's guess at a cause is none then */
	if (rc == -EPERM)
		err_set(err, rc, "cannot %s", what);
	else
		err_set(err, rc, "cannot %s: %s", what, last_words[0] ? last_words : "refused");
	return err_hint(err, "needs Linux 6.1 with BTF, CAP_BPF and CAP_PERFMON; 'byteledger "
			     "check' lists what is missing");
}

/*
 * The chance of a block of @bytes. Exact for the largest of the sizes that share it; whatever it
 * is, it weighs what it lets through, so it makes no bias.
 */
static uint32_t chance_of(double bytes, double every)
{
	if (every <= 1 || bytes >= 8 * every)
		return WIRE_SAMPLE_ALWAYS;
	double chance = -expm1(-(bytes < 1 ? 1 : bytes) / every) * 4294967296.0;
	return chance >= 4294967295.0 ? WIRE_SAMPLE_ALWAYS : chance < 1 ? 1 : (uint32_t)chance;
}

void sampler_chances(uint64_t sample_bytes, struct wire_sample_chances *to)
{
	double every = (double)sample_bytes;
	memset(to, 0xff, sizeof(*to));
	for (unsigned i = 0; i < WIRE_SAMPLE_STEPS; i++)
		to->v[i] = chance_of(i * 16 + 15, every);
	for (unsigned i = WIRE_SAMPLE_STEPS; i < WIRE_SAMPLE_CHANCES; i++) {
		unsigned power = WIRE_SAMPLE_STEPS_LOG2 + (i - WIRE_SAMPLE_STEPS) / 4;
		double quarter = ldexp(0.25, (int)power);
		to->v[i] = chance_of((5 + (i - WIRE_SAMPLE_STEPS) % 4) * quarter, every);
	}
}

static unsigned log2_of(uint64_t value)
{
	return value ? 63u - (unsigned)__builtin_clzll(value) : 0;
}

/* Which programs are wanted: what is refused by older kernels is not loaded there. */
static void choose_programs(struct sampler *s, int session)
{
	struct sample_bpf *k = s->skeleton;
	int track = s->opt.track, kernel = s->opt.kernel;
	struct bpf_program *const of_kernel[] = {
		k->progs.kernel_kmalloc,    k->progs.kernel_cache_alloc,
		k->progs.kernel_page_alloc, k->progs.kernel_percpu_alloc,
		k->progs.kernel_kfree,      k->progs.kernel_cache_free,
		k->progs.kernel_page_free,  k->progs.kernel_percpu_free,
	};
	for (size_t i = 0; i < sizeof(of_kernel) / sizeof(of_kernel[0]); i++)
		bpf_program__set_autoload(of_kernel[i], kernel && (track || i < 4));
	s->session = track && session;
	s->multi = !track && session;
	bpf_program__set_autoload(k->progs.sample_usdt, !kernel);
	bpf_program__set_autoload(k->progs.sample_switched, s->opt.windows);
	bpf_program__set_autoload(k->progs.sample_look, s->opt.windows);
	bpf_program__set_autoload(k->progs.sample_tick, s->opt.windows);
	bpf_program__set_autoload(k->progs.sample_call, !track && !kernel);
	bpf_program__set_autoload(k->progs.sample_call_multi, !track && session && !kernel);
	if (!track && session)
		bpf_program__set_expected_attach_type(k->progs.sample_call_multi,
						      SAMPLER_ATTACH_MULTI);
	bpf_program__set_autoload(k->progs.sample_session, track && session && !kernel);
	bpf_program__set_autoload(k->progs.sample_begin, track && !session && !kernel);
	bpf_program__set_autoload(k->progs.sample_end, track && !session && !kernel);
	bpf_program__set_autoload(k->progs.sample_free, track && !kernel);
	if (track && session)
		bpf_program__set_expected_attach_type(k->progs.sample_session,
						      SAMPLER_ATTACH_SESSION);
	if (track && session && s->opt.family)
		bpf_program__set_expected_attach_type(k->progs.sample_free, SAMPLER_ATTACH_MULTI);
}

static int set_up(struct sampler *s, int session)
{
	struct sample_bpf *k = s->skeleton;
	struct stat st;
	uint64_t bytes = bpftables_bytes(s->tables);
	uint32_t rows = s->opt.rows_max ? s->opt.rows_max : SAMPLER_ROWS_MAX;
	uint32_t live = s->opt.live_max ? s->opt.live_max : SAMPLER_LIVE_MAX;
	unsigned power = log2_of(s->opt.sample_every ? s->opt.sample_every : s->opt.sample_bytes);
	choose_programs(s, session);
	k->rodata->walk_words_mask = bytes / 4 - 1;
	k->rodata->walk_frames_max = WIRE_SAMPLE_FRAMES_MAX;
	k->rodata->sample_bytes_min = s->opt.bytes_min;
	k->rodata->sample_bytes_max = s->opt.bytes_max;
	k->rodata->sample_every =
		s->opt.sample_every ? s->opt.sample_every : s->opt.sample_bytes == 1;
	k->rodata->sample_track = s->opt.track != 0;
	k->rodata->sample_two_links = s->opt.track && !session;
	k->rodata->sample_send = s->opt.events != 0;
	k->rodata->sample_kernel_only = s->opt.kernel_pids > 0;
	k->rodata->sample_tid = s->opt.tid;
	if (s->opt.comm) {
		k->rodata->sample_has_comm = 1;
		snprintf((char *)k->rodata->sample_comm, sizeof(k->rodata->sample_comm), "%s",
			 s->opt.comm);
	}
	/* squares of the largest weights, added up millions of times, stay below 2^64 */
	s->square_shift = s->opt.sample_every ? 12 : power > 16 ? power - 16 : 0;
	s->count_shift = power > 19 ? power - 7 : 12;
	k->rodata->sample_square_shift = s->square_shift;
	k->rodata->sample_count_shift = s->count_shift;
	if (!stat("/proc/self/ns/pid", &st) && st.st_ino != INITIAL_PIDNS_INODE) {
		k->rodata->sample_pidns_dev = st.st_dev;
		k->rodata->sample_pidns_ino = st.st_ino;
	}
	const struct {
		struct bpf_map *map;
		uint32_t entries;
	} sizes[] = {
		{ k->maps.walk_rules, (uint32_t)libbpf_num_possible_cpus() * WIRE_STACK_SLOTS },
		{ k->maps.sample_rows, rows },
		{ k->maps.sample_stacks, rows },
		{ k->maps.sample_live, s->opt.track ? live : 1 },
		{ k->maps.sample_pending, s->opt.track ? PENDING_MAX : 1 },
		{ k->maps.sample_ring, s->opt.events ? RING_BYTES : 4096 },
		{ k->maps.sample_kernel_pids,
		  s->opt.kernel_pids ? (uint32_t)s->opt.kernel_pids : 1 },
		{ k->maps.sample_callers, s->opt.windows ? WIRE_SAMPLE_CALLERS_MAX : 1 },
		{ k->maps.sample_places, s->opt.windows ? WIRE_SAMPLE_PLACES_MAX : 1 },
		{ k->maps.sample_caches, s->opt.kernel ? CACHES_MAX : 1 },
	};
	struct bpf_map *const growing[] = { k->maps.sample_rows, k->maps.sample_stacks,
					    k->maps.sample_live };
	int rc = bpf_map__set_value_size(k->maps.walk_words, (uint32_t)bytes);
	/*
	 * tables that ask for memory while it is watched would be seen asking, and ask for more to
	 * note that
	 */
	for (size_t i = 0; !rc && s->opt.kernel && i < sizeof(growing) / sizeof(growing[0]); i++)
		rc = bpf_map__set_map_flags(growing[i], 0);
	for (size_t i = 0; !rc && i < sizeof(sizes) / sizeof(sizes[0]); i++)
		rc = bpf_map__set_max_entries(sizes[i].map, sizes[i].entries);
	return rc;
}

static int open_rest(struct sampler *s, struct err *err)
{
	struct sample_bpf *k = s->skeleton;
	const struct bpftables_maps maps = { k->maps.walk_words, k->maps.walk_places,
					     k->maps.walk_processes, k->maps.walk_rules };
	int rc = bpftables_open(s->tables, &maps, err);
	s->events = rc < 0 ? NULL : bpfstack_events_new();
	/* what was mapped since the processes were looked at was announced to nobody */
	bpftables_mark(s->tables, 0);
	bpftables_update(s->tables, s->events != NULL, NULL, NULL);
	return rc < 0 ? rc : sampler_set_bytes(s, s->opt.sample_bytes, err);
}

int sampler_load(struct sampler *s, struct err *err)
{
	libbpf_print_fn_t talk = libbpf_set_print(keep_words);
	int rc = -1;
	/* the newer way first, where it is of use */
	for (int session = !s->opt.no_session; rc < 0 && session >= 0; session--) {
		last_words[0] = '\0';
		sample_bpf__destroy(s->skeleton);
		s->skeleton = sample_bpf__open();
		if (!s->skeleton)
			rc = refused(-errno, "open the sampler's programs", err);
		else if ((rc = set_up(s, session)) < 0)
			rc = refused(rc, "set up the sampler's programs", err);
		else if ((rc = sample_bpf__load(s->skeleton)) < 0)
			rc = refused(rc, "load the sampler's programs", err);
		else if (session && !s->opt.kernel && !sampler_links_many(s))
			rc = -ENOTSUP; /* before 6.6, before 6.13: the older way */
	}
	libbpf_set_print(talk);
	if (rc == 0 && s->opt.kernel) { /* without names addresses are shown */
		struct err hidden = { 0 };
		s->kernel_names = kernel_names_new(&hidden);
	}
	return rc < 0 ? rc : open_rest(s, err);
}

void sampler_switch(struct sampler *s, int on)
{
	__atomic_store_n(&s->skeleton->data->sample_on, on != 0, __ATOMIC_SEQ_CST);
}

int sampler_quota(struct sampler *s, uint64_t calls, struct err *err)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *all = cpus > 0 ? calloc((size_t)cpus, sizeof(*all)) : NULL;
	uint32_t zero = 0;
	if (!all)
		return err_set(err, -ENOMEM, "cannot set a quota of calls");
	for (int cpu = 0; cpu < cpus; cpu++)
		all[cpu] = calls;
	int rc = bpf_map_update_elem(bpf_map__fd(s->skeleton->maps.sample_quota), &zero, all,
				     BPF_ANY) < 0
			 ? err_set(err, -errno, "cannot set a quota of calls")
			 : 0;
	free(all);
	return rc;
}

static int take_wake(void *ctx, void *data, size_t bytes)
{
	(void)data;
	(void)bytes;
	*(int *)ctx += 1;
	return 0;
}

int sampler_wake_fd(struct sampler *s)
{
	if (!s->wake)
		s->wake = ring_buffer__new(bpf_map__fd(s->skeleton->maps.sample_wake), take_wake,
					   &s->woken, NULL);
	return s->wake ? ring_buffer__epoll_fd(s->wake) : -1;
}

int sampler_woken(struct sampler *s)
{
	s->woken = 0;
	if (s->wake)
		ring_buffer__consume(s->wake);
	return s->woken > 0;
}

int sampler_set_bytes(struct sampler *s, uint64_t sample_bytes, struct err *err)
{
	struct wire_sample_chances chances;
	uint32_t zero = 0;
	sampler_chances(sample_bytes, &chances);
	if (bpf_map_update_elem(bpf_map__fd(s->skeleton->maps.sample_chances), &zero, &chances,
				BPF_ANY) < 0)
		return err_set(err, -errno, "cannot fill the table of chances");
	return 0;
}

int sampler_has_session(const struct sampler *s)
{
	return s->session;
}

/* --- reading --- */

static void changed(void *ctx, uint32_t pid)
{
	struct sampler *s = ctx;
	bpftables_mark(s->tables, pid);
}

void sampler_poll(struct sampler *s, void (*mapped)(void *ctx, uint32_t pid), void *ctx)
{
	if (s->events)
		bpfstack_events_read(s->events, changed, s);
	bpftables_update(s->tables, s->events != NULL, mapped, ctx);
}

size_t sampler_strangers(struct sampler *s, uint32_t *pids, size_t max)
{
	int fd = bpf_map__fd(s->skeleton->maps.sample_strangers);
	uint32_t pid;
	size_t count = 0;
	while (count < max && bpf_map_get_next_key(fd, NULL, &pid) == 0) {
		bpf_map_delete_elem(fd, &pid);
		pids[count++] = pid;
	}
	return count;
}

#define BATCH 512u

/* All of a hash map, some hundred at a time. What changes meanwhile may be seen or not. */
static int each_of(int fd, size_t key_bytes, size_t value_bytes,
		   int (*fn)(void *ctx, const void *key, const void *value), void *ctx,
		   struct err *err)
{
	char *keys = malloc(BATCH * key_bytes), *values = malloc(BATCH * value_bytes);
	uint64_t at[8] = { 0 }, next[8] = { 0 };
	int rc = keys && values ? 0 : err_set(err, -ENOMEM, "cannot read the sampler's tables");
	for (int first = 1, last = 0; !rc && !last; first = 0) {
		uint32_t count = BATCH;
		if (bpf_map_lookup_batch(fd, first ? NULL : at, next, keys, values, &count, NULL) <
		    0) {
			if (errno != ENOENT) {
				rc = err_set(err, -errno, "cannot read the sampler's tables");
				break;
			}
			last = 1;
		}
		for (uint32_t i = 0; !rc && i < count; i++)
			rc = fn(ctx, keys + i * key_bytes, values + i * value_bytes);
		memcpy(at, next, sizeof(at));
	}
	free(keys);
	free(values);
	return rc;
}

struct row_call {
	int (*row)(void *ctx, const struct wire_sample_row_key *key,
		   const struct wire_sample_row *row);
	int (*live)(void *ctx, const struct wire_sample_live_key *key,
		    const struct wire_sample_live *live);
	void *ctx;
};

static int call_row(void *ctx, const void *key, const void *value)
{
	struct row_call *call = ctx;
	return call->row(call->ctx, key, value);
}

static int call_live(void *ctx, const void *key, const void *value)
{
	struct row_call *call = ctx;
	return call->live(call->ctx, key, value);
}

int sampler_rows(struct sampler *s,
		 int (*row)(void *ctx, const struct wire_sample_row_key *key,
			    const struct wire_sample_row *row),
		 void *ctx, struct err *err)
{
	struct row_call call = { .row = row, .ctx = ctx };
	return each_of(bpf_map__fd(s->skeleton->maps.sample_rows),
		       sizeof(struct wire_sample_row_key), sizeof(struct wire_sample_row), call_row,
		       &call, err);
}

int sampler_live(struct sampler *s,
		 int (*live)(void *ctx, const struct wire_sample_live_key *key,
			     const struct wire_sample_live *live),
		 void *ctx, struct err *err)
{
	struct row_call call = { .live = live, .ctx = ctx };
	return each_of(bpf_map__fd(s->skeleton->maps.sample_live),
		       sizeof(struct wire_sample_live_key), sizeof(struct wire_sample_live),
		       call_live, &call, err);
}

int sampler_stack(struct sampler *s, uint64_t stack, struct wire_sample_stack *out)
{
	if (bpf_map_lookup_elem(bpf_map__fd(s->skeleton->maps.sample_stacks), &stack, out) < 0)
		return -errno;
	if (out->count > WIRE_SAMPLE_FRAMES_MAX)
		out->count = WIRE_SAMPLE_FRAMES_MAX;
	return 0;
}

static int take_event(void *ctx, void *data, size_t bytes)
{
	struct sampler *s = ctx;
	if (bytes >= sizeof(struct wire_sample_event) && !s->event_rc)
		s->event_rc = s->event_cb(s->event_ctx, data);
	return 0;
}

int sampler_events(struct sampler *s,
		   int (*event)(void *ctx, const struct wire_sample_event *event), void *ctx,
		   struct err *err)
{
	if (!s->ring)
		s->ring = ring_buffer__new(bpf_map__fd(s->skeleton->maps.sample_ring), take_event,
					   s, NULL);
	if (!s->ring)
		return err_set(err, -errno, "cannot open the ring of samples");
	s->event_cb = event;
	s->event_ctx = ctx;
	s->event_rc = 0;
	int rc = ring_buffer__consume(s->ring);
	return s->event_rc ? s->event_rc
	       : rc < 0    ? err_set(err, rc, "cannot read the ring of samples")
			   : rc;
}

/* A per-CPU array's element, added up. */
static int add_up(int fd, uint32_t key, uint64_t *sum, size_t words, struct err *err)
{
	int cpus = libbpf_num_possible_cpus();
	uint64_t *all = cpus > 0 ? calloc((size_t)cpus * words, sizeof(*all)) : NULL;
	if (!all)
		return err_set(err, -ENOMEM, "cannot read counters");
	int rc = bpf_map_lookup_elem(fd, &key, all) < 0
			 ? err_set(err, -errno, "cannot read counters")
			 : 0;
	memset(sum, 0, words * sizeof(*sum));
	for (int cpu = 0; !rc && cpu < cpus; cpu++)
		for (size_t i = 0; i < words; i++)
			sum[i] += all[(size_t)cpu * words + i];
	free(all);
	return rc;
}

int sampler_counts(struct sampler *s, uint64_t counts[WIRE_SAMPLE_COUNTERS], struct err *err)
{
	return add_up(bpf_map__fd(s->skeleton->maps.sample_counters), 0, counts,
		      WIRE_SAMPLE_COUNTERS, err);
}

int sampler_hits(struct sampler *s, uint64_t *hits, struct err *err)
{
	int rc = 0;
	memset(hits, 0, WIRE_SAMPLE_FUNCTIONS_MAX * sizeof(*hits));
	uint32_t count = s->opt.kernel ? WIRE_SAMPLE_KERNEL_MAX : s->numbered_count;
	for (uint32_t i = 0; !rc && i < count; i++)
		rc = add_up(bpf_map__fd(s->skeleton->maps.sample_hits), i, &hits[i], 1, err);
	return rc;
}

double sampler_deviation(const struct sampler *s, uint64_t variance_bytes)
{
	return ldexp(sqrt((double)variance_bytes), (int)s->square_shift);
}

double sampler_deviation_count(const struct sampler *s, uint64_t variance_count)
{
	return ldexp(sqrt((double)variance_count), (int)s->count_shift - 16);
}

int sampler_locate(const struct sampler *s, uint32_t pid, uint64_t addr, struct sampler_spot *spot)
{
	struct bpftables_spot found;
	int rc = bpftables_locate(s->tables, pid, addr, &found);
	if (!rc)
		*spot = (struct sampler_spot){ found.path, found.build_id, found.build_id_len,
					       found.offset };
	return rc;
}

/* What the kernel says a map takes, which of one without reserved entries is what it holds. */
static uint64_t map_bytes(const struct bpf_map *map)
{
	char path[64], line[128];
	uint64_t bytes = 0;
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", bpf_map__fd(map));
	FILE *file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		sscanf(line, "memlock: %" SCNu64, &bytes);
	if (file)
		fclose(file);
	return bytes;
}

int sampler_cost(struct sampler *s, struct sampler_cost *cost, struct err *err)
{
	struct bpf_map *map;
	struct bpf_program *program;
	memset(cost, 0, sizeof(*cost));
	bpf_object__for_each_map(map, s->skeleton->obj) cost->kernel_bytes += map_bytes(map);
	bpf_object__for_each_program(program, s->skeleton->obj)
	{
		struct bpf_prog_info info = { 0 };
		uint32_t bytes = sizeof(info);
		int fd = bpf_program__fd(program);
		if (fd < 0)
			continue;
		if (bpf_obj_get_info_by_fd(fd, &info, &bytes) < 0)
			return err_set(err, -errno, "cannot ask about the sampler's programs");
		cost->runs += info.run_cnt;
		cost->run_ns += info.run_time_ns;
		cost->missed += info.recursion_misses;
	}
	return 0;
}
