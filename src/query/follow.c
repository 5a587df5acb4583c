/* SPDX-License-Identifier: Apache-2.0 */
#include "query/follow.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "model/prof.h"
#include "sym/sym.h"
#include "trace/trace.h"

#define LOOK_NS 100000000u   /* between two looks at a file that did not grow */
#define INTERVAL_NS NS_PER_S /* between two snaps, where nothing else was asked for */
#define FREEZE_SHARE 20      /* of the time at most goes into snaps: one part in so many */
#define ROWS_AT_ONCE 8192    /* frames that get names before the file is looked at again */

struct follow {
	/* of whoever's turn it is: the thread's, while nobody holds */

	/* in front of @prof and @grow */
	struct sink sink;
	/* NULL: no index */
	struct slices_grow *grow;
	struct trace_follow *trace;
	struct prof *prof;
	/* NULL: no names */
	struct sym *sym;
	/* frame rows that were asked for */
	uint32_t named;
	uint64_t interval_ns, taken_ns;
	/* there is something that the newest snap does not have */
	int fresh;
	/* it is more than names */
	int came;
	/* the file has more than was read at the last look */
	int behind;

	char *path;
	/* around what is chosen, and taken before a turn; an empty place has no @chosen */
	pthread_mutex_t choosing;
	struct choice {
		struct chosen *chosen;
		uint64_t used_ns;
	} choices[FOLLOW_CHOSEN_MAX];
	/* of whoever holds */
	int is_choosing;

	struct snap_place *place;
	pthread_t thread;
	int running;
	pthread_mutex_t lock;
	pthread_cond_t wake, turned;
	/* under the lock, as what follows: tickets */
	uint64_t next_turn, turn;
	int stop;
	struct follow_state state;
};

/* ---- turns ----------------------------------------------------------------------------------- */

/**
 * take_turn() - whoever came first goes first: a thread that reads all the time would never let
 * others in.
 */
static void take_turn(struct follow *f)
{
	pthread_mutex_lock(&f->lock);
	uint64_t mine = f->next_turn++;
	while (f->turn != mine)
		pthread_cond_wait(&f->turned, &f->lock);
	pthread_mutex_unlock(&f->lock);
}

static void end_turn(struct follow *f)
{
	pthread_mutex_lock(&f->lock);
	f->turn++;
	pthread_cond_broadcast(&f->turned);
	pthread_mutex_unlock(&f->lock);
}

/* ---- what is read ---------------------------------------------------------------------------- */

static int both_define(struct sink *sink, const struct def *def, struct err *err)
{
	struct follow *f = (struct follow *)sink;
	struct sink *to = prof_sink(f->prof);
	return to->define(to, def, err);
}

static int both_put(struct sink *sink, const struct event *events, size_t count, struct err *err)
{
	struct follow *f = (struct follow *)sink;
	struct sink *to = prof_sink(f->prof), *index = f->grow ? slices_grow_sink(f->grow) : NULL;
	int rc = to->put(to, events, count, err);
	return rc == 0 && index ? index->put(index, events, count, err) : rc;
}

static void on_key(void *ctx, const struct trace_key *key)
{
	const struct follow *f = ctx;
	slices_grow_key(f->grow, &(const struct query_key){ key->at, key->first, key->time_ns });
}

static int publish(struct follow *f, struct err *err)
{
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	struct snap *snap = snap_take(f->prof, err);
	if (!snap)
		return err->code;
	snap_publish(f->place, snap);
	f->taken_ns = clock_ns(CLOCK_MONOTONIC);
	f->fresh = f->came = 0;
	pthread_mutex_lock(&f->lock);
	f->state.freeze_ns = f->taken_ns - began;
	pthread_mutex_unlock(&f->lock);
	return 0;
}

/** is_old() - the last snap is old enough for another one. */
static int is_old(const struct follow *f)
{
	uint64_t wait = f->state.freeze_ns * FREEZE_SHARE;
	wait = wait > f->interval_ns ? wait : f->interval_ns;
	return !f->taken_ns || clock_ns(CLOCK_MONOTONIC) - f->taken_ns >= wait;
}

/**
 * name_some() - give names to the next frames. Return: 1 there were some, 0 all have been asked
 * for.
 */
static int name_some(struct follow *f, struct err *err)
{
	uint32_t count = prof_frame_count(f->prof), end = f->named + ROWS_AT_ONCE;
	if (!f->sym || f->named >= count)
		return 0;
	end = end < count ? end : count;
	int rc = sym_resolve_rows(f->sym, f->prof, f->named, end, prof_symbol_sink(f->prof), NULL,
				  NULL, err);
	f->named = end;
	f->fresh = 1;
	/* names beyond what a reading holds: the rest stay addresses, and the numbers go on */
	if (rc < 0) {
		err_init(err);
		sym_freep(&f->sym);
	}
	return 1;
}

/** note() - what is read, for whoever asks. Return: 1 go on, 0 stop. */
static int note(struct follow *f, const struct trace_follow_state *at)
{
	pthread_mutex_lock(&f->lock);
	f->state.file_bytes = at->file_bytes;
	f->state.read_bytes = at->read_bytes;
	f->state.damaged_blocks = at->damaged_blocks;
	int on = !f->stop;
	pthread_mutex_unlock(&f->lock);
	return on;
}

static void rest(struct follow *f)
{
	struct timespec until = clock_time(clock_ns(CLOCK_MONOTONIC) + LOOK_NS);
	pthread_mutex_lock(&f->lock);
	if (!f->stop)
		pthread_cond_timedwait(&f->wake, &f->lock, &until);
	pthread_mutex_unlock(&f->lock);
}

/* ---- what is chosen -------------------------------------------------------------------------- */

/** drop_idle() - what nobody has asked for lately. */
static void drop_idle(struct follow *f)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (pthread_mutex_trylock(&f->choosing) != 0)
		return;
	for (size_t i = 0; i < FOLLOW_CHOSEN_MAX; i++)
		if (f->choices[i].chosen && now - f->choices[i].used_ns > FOLLOW_CHOSEN_NS)
			chosen_freep(&f->choices[i].chosen);
	pthread_mutex_unlock(&f->choosing);
}

/** choose() - the place of what @query chooses; NULL with @err. */
static struct choice *choose(struct follow *f, const struct query *query, struct err *err)
{
	struct choice *to = &f->choices[0];
	for (size_t i = 0; i < FOLLOW_CHOSEN_MAX; i++) {
		struct choice *c = &f->choices[i];
		if (c->chosen && chosen_is(c->chosen, query)) {
			to = c;
			break;
		}
		if (!c->chosen || (to->chosen && c->used_ns < to->used_ns))
			to = c;
	}
	if (to->chosen && !chosen_is(to->chosen, query))
		chosen_freep(&to->chosen);
	if (!to->chosen)
		to->chosen = chosen_new(f->path, query, err);
	to->used_ns = clock_ns(CLOCK_MONOTONIC);
	return to->chosen ? to : NULL;
}

/** read_on() - as chosen_read(); one of which nothing can be had, or that failed, goes. */
static int read_on(struct follow *f, struct choice *c, uint64_t until,
		   const struct follow_want *want, struct err *err)
{
	uint64_t before = chosen_bytes(c->chosen);
	int rc = chosen_read(c->chosen, until, &want->patience, err);
	pthread_mutex_lock(&f->lock);
	f->state.chosen_bytes += chosen_bytes(c->chosen) - before;
	pthread_mutex_unlock(&f->lock);
	/* who was not waited for to the end is read on by the next one who asks */
	if (rc <= 0 && rc != -ECANCELED)
		chosen_freep(&c->chosen);
	return rc;
}

/**
 * begin_choice() - most of it is read while others have their turns. 1; 0: it cannot be had so;
 * negative errno.
 */
static int begin_choice(struct follow *f, const struct follow_want *want, struct choice **out,
			struct err *err)
{
	struct follow_state at;
	pthread_mutex_lock(&f->choosing);
	f->is_choosing = 1;
	*out = choose(f, want->query, err);
	follow_state(f, &at);
	return *out ? read_on(f, *out, at.read_bytes, want, err) : err->code;
}

static void end_choice(struct follow *f)
{
	f->is_choosing = 0;
	pthread_mutex_unlock(&f->choosing);
}

/**
 * turn() - one look at the file. Return: 1 go on at once, 0 nothing to do for now, negative errno;
 * *@over: this was the last.
 */
static int turn(struct follow *f, int *over, struct err *err)
{
	struct trace_follow_state at;
	/*
	 * what comes is read when it can be shown: in between the newest snap is all that was read
	 */
	int came = is_old(f) || f->behind ? trace_follow_drain(f->trace, err) : 0;
	if (came < 0)
		return came;
	f->fresh |= came;
	f->came |= came;
	trace_follow_state(f->trace, &at);
	f->behind = came && at.read_bytes < at.file_bytes;
	*over = !note(f, &at);
	int rc = f->fresh && is_old(f) ? publish(f, err) : 0;
	int named = rc < 0 || *over ? 0 : name_some(f, err);
	if (rc < 0)
		return rc;
	*over |= at.over && !named;
	return came || named;
}

static void *run(void *arg)
{
	struct follow *f = arg;
	struct err err = { 0 };
	int over = 0, rc = 0;
	pthread_setname_np(pthread_self(), "follow");
	while (!over && rc >= 0) {
		take_turn(f);
		rc = turn(f, &over, &err);
		end_turn(f);
		drop_idle(f);
		if (rc == 0 && !over)
			rest(f);
	}
	take_turn(f);
	if (rc >= 0 && (f->fresh || !f->taken_ns))
		rc = publish(f, &err);
	end_turn(f);
	pthread_mutex_lock(&f->lock);
	f->state.over = 1;
	if (rc < 0)
		f->state.err = err;
	pthread_mutex_unlock(&f->lock);
	snap_place_close(f->place);
	return NULL;
}

static int begin(struct follow *f, const char *path, const struct follow_opt *opt, struct err *err)
{
	int is = trace_is(path, err);
	if (is < 0)
		return is;
	if (!is) {
		err_set(err, -EINVAL, "cannot follow '%s': not a byteledger recording", path);
		return err_hint(err, "files of other kinds can be read once they are finished");
	}
	const struct sym_opt local = { .no_debuginfod = 1 };
	f->path = strdup(path);
	if (!f->path)
		return err_set(err, -ENOMEM, "cannot follow '%s'", path);
	f->interval_ns = opt && opt->interval_ns ? opt->interval_ns : INTERVAL_NS;
	f->prof = prof_new(err);
	f->place = f->prof ? snap_place_new(err) : NULL;
	f->sink = (struct sink){ .define = both_define, .put = both_put };
	f->trace = f->place ? trace_follow_new(path, &f->sink, err) : NULL;
	f->grow = f->trace && opt && opt->index ? slices_grow_new() : NULL;
	if (f->grow)
		trace_follow_keys(f->trace, on_key, f);
	if (f->trace && !(opt && opt->no_names))
		f->sym = sym_new(&local, err);
	if (!f->trace || (!f->sym && !(opt && opt->no_names)))
		return err->code;
	int rc = pthread_create(&f->thread, NULL, run, f);
	f->running = rc == 0;
	return rc ? err_set(err, -rc, "cannot start a thread") : 0;
}

struct follow *follow_new(const char *path, const struct follow_opt *opt, struct err *err)
{
	struct err own = { 0 };
	struct follow *f = calloc(1, sizeof(*f));
	err = err ? err : &own;
	if (!f) {
		err_set(err, -ENOMEM, "cannot follow '%s'", path);
		return NULL;
	}
	pthread_condattr_t monotonic;
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&f->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	pthread_cond_init(&f->turned, NULL);
	pthread_mutex_init(&f->lock, NULL);
	pthread_mutex_init(&f->choosing, NULL);
	if (begin(f, path, opt, err) < 0)
		follow_freep(&f);
	return f;
}

struct snap *follow_snap(struct follow *f)
{
	return snap_get(f->place);
}

struct snap *follow_wait(struct follow *f, uint64_t after, uint64_t timeout_ns)
{
	return snap_wait(f->place, after, timeout_ns);
}

void follow_state(struct follow *f, struct follow_state *state)
{
	pthread_mutex_lock(&f->lock);
	*state = f->state;
	pthread_mutex_unlock(&f->lock);
}

static int run_from(void *ctx, const struct query_key *key, uint64_t until,
		    const struct query_seed *seeds, size_t count, struct sink *sink,
		    struct err *err)
{
	const struct follow *f = ctx;
	const struct trace_key at = { key->at, key->first, key->time_ns };
	return trace_follow_from(f->trace, &at, until,
				 (const struct trace_seed *)(const void *)seeds, count, sink, err);
}

int follow_hold(struct follow *f, const struct follow_want *want, struct follow_held *held,
		struct err *err)
{
	struct trace_follow_state at;
	struct choice *choice = NULL;
	int chooses = want->query && chosen_can(want->query), chose = 0;
	*held = (struct follow_held){ 0 };
	if (!f->grow)
		return 0;
	if (chooses && (chose = begin_choice(f, want, &choice, err)) <= 0) {
		end_choice(f);
		return chose;
	}
	take_turn(f);
	trace_follow_state(f->trace, &at);
	if (chooses && (chose = read_on(f, choice, at.read_bytes, want, err)) <= 0) {
		end_turn(f);
		end_choice(f);
		return chose;
	}
	while (want->names && name_some(f, err))
		;
	held->chosen = choice ? chosen_prof(choice->chosen) : NULL;
	held->named = f->sym && f->named >= prof_frame_count(f->prof);
	int rc = f->came || !f->taken_ns || (held->named && f->fresh) ? publish(f, err) : 0;
	held->slices = rc < 0 ? NULL : slices_grow_end(f->grow, at.read_bytes);
	held->snap = held->slices || (rc == 0 && held->chosen) ? snap_get(f->place) : NULL;
	held->prof = f->prof;
	held->source = (struct query_source){ .run_from = run_from, .ctx = f };
	if (held->snap)
		return 1;
	slices_grow_go_on(f->grow);
	end_turn(f);
	if (choice)
		end_choice(f);
	return rc;
}

void follow_go_on(struct follow *f)
{
	int choosing = f->is_choosing;
	slices_grow_go_on(f->grow);
	end_turn(f);
	if (choosing)
		end_choice(f);
}

void follow_freep(struct follow **follow)
{
	struct follow *f = *follow;
	*follow = NULL;
	if (!f)
		return;
	pthread_mutex_lock(&f->lock);
	f->stop = 1;
	pthread_cond_signal(&f->wake);
	pthread_mutex_unlock(&f->lock);
	if (f->running)
		pthread_join(f->thread, NULL);
	trace_follow_freep(&f->trace);
	snap_place_freep(&f->place);
	prof_freep(&f->prof);
	slices_grow_freep(&f->grow);
	sym_freep(&f->sym);
	for (size_t i = 0; i < FOLLOW_CHOSEN_MAX; i++)
		chosen_freep(&f->choices[i].chosen);
	pthread_mutex_destroy(&f->choosing);
	free(f->path);
	pthread_cond_destroy(&f->wake);
	pthread_cond_destroy(&f->turned);
	pthread_mutex_destroy(&f->lock);
	free(f);
}
