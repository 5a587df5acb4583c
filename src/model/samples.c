/* SPDX-License-Identifier: Apache-2.0 */
#include "model/samples.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define ONE 1.1 /* window that has nearly all of the weight */

struct samples *samples_new(struct err *err)
{
	struct samples *s = calloc(1, sizeof(*s));
	if (!s) {
		err_set(err, -ENOMEM, "cannot keep samples");
		return NULL;
	}
	s->duty = s->times = s->mean = s->scale = s->by_work = 1;
	return s;
}

void samples_free(struct samples *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->row_count; i++) {
		free(s->rows[i].past);
		free(s->rows[i].blocks);
		free(s->rows[i].base);
		free(s->rows[i].open);
		free(s->rows[i].mark);
		free(s->rows[i].last);
	}
	free(s->rows);
	free(s->frames);
	free(s->frame_list);
	free(s->modules);
	free(s->functions);
	free(s->processes);
	idtab_fini(&s->row_tab);
	idtab_fini(&s->frame_tab);
	intern_fini(&s->names);
	free(s);
}

/* Room for one more of @bytes each; 0 or -1. */
static int grow(void *array, size_t *cap, size_t count, size_t bytes)
{
	void *old, *grown;
	if (count < *cap)
		return 0;
	memcpy(&old, array, sizeof(old));
	size_t want = *cap ? *cap * 2 : 64;
	while (want <= count)
		want *= 2;
	grown = reallocarray(old, want, bytes);
	if (!grown)
		return -1;
	memcpy(array, &grown, sizeof(grown));
	*cap = want;
	return 0;
}

static uint32_t row_hash(uint32_t pid, uint64_t stack)
{
	return (uint32_t)hash_u64(pid, stack, hash_seed());
}

struct sample_row *samples_row(const struct samples *s, uint32_t pid, uint64_t stack)
{
	uint32_t hash = row_hash(pid, stack);
	if (!s->row_tab.slots)
		return NULL;
	for (uint32_t at = idtab_first(&s->row_tab, hash); s->row_tab.slots[at].id != IDTAB_NONE;
	     at = idtab_next(&s->row_tab, at)) {
		struct sample_row *row = &s->rows[s->row_tab.slots[at].id];
		if (row->stack == stack && row->pid == pid)
			return row;
	}
	return NULL;
}

struct sample_row *samples_add_row(struct samples *s, uint32_t pid, uint64_t stack,
				   const uint32_t *frames, size_t count, uint8_t stop)
{
	uint32_t hash = row_hash(pid, stack), at;
	if (grow(&s->rows, &s->row_cap, s->row_count, sizeof(*s->rows)) < 0 ||
	    (count && grow(&s->frame_list, &s->frame_list_cap, s->frame_list_count + count,
			   sizeof(*s->frame_list)) < 0) ||
	    idtab_reserve(&s->row_tab) < 0)
		return NULL;
	struct sample_row *row = &s->rows[s->row_count];
	*row = (struct sample_row){ .stack = stack,
				    .pid = pid,
				    .frames = (uint32_t)s->frame_list_count,
				    .frame_count = (uint16_t)count,
				    .stop = stop };
	if (count)
		memcpy(s->frame_list + s->frame_list_count, frames, count * sizeof(*frames));
	s->frame_list_count += count;
	for (at = idtab_first(&s->row_tab, hash); s->row_tab.slots[at].id != IDTAB_NONE;)
		at = idtab_next(&s->row_tab, at);
	idtab_put(&s->row_tab, at, hash, (uint32_t)s->row_count++);
	return row;
}

uint32_t samples_frame(struct samples *s, uint32_t module, uint64_t offset, uint64_t addr)
{
	uint32_t hash = (uint32_t)hash_u64(module, offset, hash_seed()), at;
	if (!s->frame_count) {
		if (grow(&s->frames, &s->frame_cap, 1, sizeof(*s->frames)) < 0)
			return 0;
		s->frames[0] = (struct sample_frame){ 0 };
		s->frame_count = 1;
	}
	if (idtab_reserve(&s->frame_tab) < 0 ||
	    grow(&s->frames, &s->frame_cap, s->frame_count, sizeof(*s->frames)) < 0)
		return 0;
	for (at = idtab_first(&s->frame_tab, hash); s->frame_tab.slots[at].id != IDTAB_NONE;
	     at = idtab_next(&s->frame_tab, at)) {
		const struct sample_frame *f = &s->frames[s->frame_tab.slots[at].id];
		if (f->module == module && f->offset == offset && f->addr == addr)
			return s->frame_tab.slots[at].id;
	}
	s->frames[s->frame_count] = (struct sample_frame){ module, offset, addr };
	idtab_put(&s->frame_tab, at, hash, (uint32_t)s->frame_count);
	return (uint32_t)s->frame_count++;
}

uint32_t samples_module(struct samples *s, const char *path, const uint8_t *build_id,
			uint8_t build_id_len)
{
	if (!path)
		return 0;
	if (build_id_len > sizeof(s->modules->build_id))
		build_id_len = 0;
	for (size_t i = 1; i < s->module_count; i++) {
		const struct sample_module *m = &s->modules[i];
		if (m->build_id_len == build_id_len &&
		    !memcmp(m->build_id, build_id, build_id_len) && !strcmp(m->path, path))
			return (uint32_t)i;
	}
	size_t count = s->module_count ? s->module_count : 1;
	struct sample_module *grown = reallocarray(s->modules, count + 1, sizeof(*grown));
	const char *name = intern_str(&s->names, path);
	if (grown)
		s->modules = grown;
	if (!grown || !name)
		return 0;
	s->modules[0] = (struct sample_module){ .path = "" };
	s->modules[count] = (struct sample_module){ .path = name, .build_id_len = build_id_len };
	if (build_id_len)
		memcpy(s->modules[count].build_id, build_id, build_id_len);
	s->module_count = count + 1;
	return (uint32_t)count;
}

struct sample_process *samples_process(struct samples *s, uint32_t pid)
{
	for (size_t i = 0; i < s->process_count; i++)
		if (s->processes[i].pid == pid)
			return &s->processes[i];
	return NULL;
}

struct sample_process *samples_add_process(struct samples *s, uint32_t pid, const char *exe)
{
	struct sample_process *found = samples_process(s, pid);
	if (found)
		return found;
	struct sample_process *grown =
		reallocarray(s->processes, s->process_count + 1, sizeof(*grown));
	const char *name = intern_str(&s->names, exe ? exe : "");
	if (grown)
		s->processes = grown;
	if (!grown || !name)
		return NULL;
	s->processes[s->process_count] =
		(struct sample_process){ .pid = pid, .exe = name, .tier = "B" };
	return &s->processes[s->process_count++];
}

int samples_rename_process(struct samples *s, uint32_t pid, const char *exe)
{
	struct sample_process *p = samples_process(s, pid);
	const char *name = p && strcmp(p->exe, exe) ? intern_str(&s->names, exe) : NULL;
	if (name)
		p->exe = name;
	return name != NULL;
}

struct sample_function *samples_add_function(struct samples *s, const struct sample_function *from)
{
	for (size_t i = 0; i < s->function_count; i++) {
		struct sample_function *f = &s->functions[i];
		if (f->pid == from->pid && f->offset == from->offset &&
		    !strcmp(f->module, from->module))
			return f;
	}
	struct sample_function *grown =
		reallocarray(s->functions, s->function_count + 1, sizeof(*grown));
	if (!grown)
		return NULL;
	s->functions = grown;
	struct sample_function *to = &grown[s->function_count];
	*to = *from;
	to->module = intern_str(&s->names, from->module);
	to->name = intern_str(&s->names, from->name);
	if (!to->module || !to->name)
		return NULL;
	s->function_count++;
	return to;
}

void samples_add_block(struct sample_row *row, const struct sample_block *block)
{
	uint32_t n = row->block_count;
	if (n < SAMPLES_BLOCKS_MAX && (n & (n - 1)) == 0) {
		struct sample_block *grown =
			reallocarray(row->blocks, n ? 2 * n : 1, sizeof(*grown));
		if (grown)
			row->blocks = grown;
		else
			n = SAMPLES_BLOCKS_MAX;
	}
	if (n >= SAMPLES_BLOCKS_MAX)
		row->blocks_more++;
	else
		row->blocks[row->block_count++] = *block;
}

/* Of a sum: what the epochs before gave, what windows stand for, and what came since. */
struct terms {
	double base, open, raw, mark;
};

static double sum_of(const struct samples *s, struct terms t)
{
	return t.base + (t.open + (t.raw - t.mark) * s->times) * s->scale;
}

/* What the draws since then add to the variance. */
static double drawn(double raw, double mark, double times)
{
	double since = raw * raw - mark * mark;
	return since > 0 ? since * times * times : 0;
}

/*
 * By how much windows are off what their weights would have them, squared. What is told goes with
 * their work, or with their time: one in which the processes did not get to run is off by nothing
 * in the former case, and by all that it would have had in the latter. *@alike: how many windows of
 * one weight tell as much.
 */
static double off(const struct samples *s, const struct sample_spread *spread, double had,
		  double *alike)
{
	double by_work = s->work > 0 ? s->by_work : 0, by_time = 1 - by_work;
	double work = by_work > 0 ? by_work / s->work : 0, time = by_time / s->time;
	double crossed = work * spread->crossed_work + time * spread->crossed_time;
	double weights = work * work * s->work_squares + 2 * work * time * s->work_times +
			 time * time * s->time_squares;
	*alike = weights > 0 ? 1 / weights : 1;
	return spread->squares - 2 * had * crossed + had * had * weights;
}

/*
 * That so many windows met nothing of what came before leaves room for as much as one of them in as
 * many stands for.
 */
static double unmet(const struct samples *s, const struct sample_spread *spread, struct terms t)
{
	if (spread->seen + t.raw - t.mark > 0 || t.base <= 0)
		return 0;
	double most = t.base * s->missed / fmax(s->windows * s->heard, 1);
	return most * most;
}

/*
 * What the windows of this epoch differ by, as a variance of its sum; of few by as much more as
 * Student's distribution is wider. One alone says nothing of what it stands for beside it: that may
 * be nothing, or as much again as it saw, or as came in as long a time before. Several say no less
 * than one.
 */
static double differing(const struct samples *s, const struct sample_spread *spread, struct terms t)
{
	double n = s->windows, k = s->scale, all = s->mean * k;
	double seen = fmax(spread->seen + t.raw - t.mark, t.base * s->before);
	double alone = all > 1 ? seen * seen * (all - 1) * (all - 1) : 0;
	double least = unmet(s, spread, t);
	if (least > 0)
		return n <= 1 ? fmax(least, alone) : least;
	if (n <= 1 || s->time <= 0)
		return alone;
	double squares = off(s, spread, t.open + (t.raw - t.mark) * s->times, &n);
	if (n < ONE)
		return alone;
	double wider = 1 + 5.5 / ((n - 1) * (n - 1));
	double between = squares > 0 ? n / (n - 1) * squares * k * k * wider * wider : 0;
	return between < alone ? between : alone;
}

/* What is unsure of this epoch with its scale, that of the windows' gaps apart. */
static double unsure(const struct samples *s, struct terms t)
{
	return s->scale * s->mean > 1 ? (sum_of(s, t) - t.base) * s->scale_error : 0;
}

/* What all rows share: with what is told to be anything, as long as it is. */
static double wrong_by(const struct samples *s, const struct sample_spread *spread, struct terms t)
{
	return spread->unsure + unsure(s, t) + s->doubt * sum_of(s, t);
}

/*
 * The standard error of a sum: of the draws, or of the windows where that is more, which holds the
 * draws as well; and of all scales.
 */
static double error_of(const struct samples *s, const struct sample_spread *spread, struct terms t,
		       double since)
{
	double k = s->scale, drawn = spread->drawn + (spread->draws + since) * k * k;
	double between = spread->between + differing(s, spread, t);
	double wrong = wrong_by(s, spread, t);
	return sqrt((between > drawn ? between : drawn) + wrong * wrong);
}

/* A row's figures before it has any of these. */
static const struct sample_figures none;

struct parts {
	const struct sample_figures *base, *open, *mark;
};

static struct parts parts_of(const struct sample_row *row)
{
	return (struct parts){ row->base ? row->base : &none, row->open ? row->open : &none,
			       row->mark ? row->mark : &none };
}

static struct terms count_of(const struct sample_row *row)
{
	struct parts p = parts_of(row);
	return (struct terms){ p.base->count, p.open->count, row->raw.count, p.mark->count };
}

static struct terms bytes_of(const struct sample_row *row)
{
	struct parts p = parts_of(row);
	return (struct terms){ p.base->bytes, p.open->bytes, row->raw.bytes, p.mark->bytes };
}

#define SUM_OF(x) sum_of(s, (struct terms){ p.base->x, p.open->x, raw->x, p.mark->x })

void samples_scale(const struct samples *s, struct sample_row *row)
{
	struct parts p = parts_of(row);
	const struct sample_figures *raw = &row->raw;
	struct sample_figures *now = &row->now;
	now->taken = raw->taken;
	now->last_ns = raw->last_ns;
	now->count = SUM_OF(count);
	now->bytes = SUM_OF(bytes);
	now->freed_count = SUM_OF(freed_count);
	now->freed_bytes = SUM_OF(freed_bytes);
	now->temporary_count = SUM_OF(temporary_count);
	for (unsigned i = 0; i < SAMPLES_SIZES; i++)
		now->size[i] = SUM_OF(size[i]);
	for (unsigned i = 0; i < SAMPLES_LIVES; i++)
		now->life[i] = SUM_OF(life[i]);
	now->error_bytes = error_of(s, &row->bytes_spread, bytes_of(row),
				    drawn(raw->error_bytes, p.mark->error_bytes, s->times));
	now->error_count = error_of(s, &row->count_spread, count_of(row),
				    drawn(raw->error_count, p.mark->error_count, s->times));
	now->live_error_bytes = raw->live_error_bytes;
	now->live_count = now->live_bytes = 0;
	if (s->tracked) {
		/* counters of one moment are read one after the other */
		now->live_count = now->count > now->freed_count ? now->count - now->freed_count : 0;
		now->live_bytes = now->bytes > now->freed_bytes ? now->bytes - now->freed_bytes : 0;
		if (now->live_count < 0.5 / 65536)
			now->live_bytes = 0;
		if (now->live_bytes > row->peak_live_bytes)
			row->peak_live_bytes = now->live_bytes;
	}
}

/* Room for what a row keeps of windows and epochs. */
static int keep_parts(struct sample_row *row, struct err *err)
{
	struct sample_figures **const parts[] = { &row->base, &row->open, &row->mark };
	for (unsigned i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
		if (!*parts[i])
			*parts[i] = calloc(1, sizeof(**parts[i]));
		if (!*parts[i])
			return err_set(err, -ENOMEM, "cannot keep samples");
	}
	return 0;
}

static void end_window(struct sample_spread *spread, double seen, double times, double draws,
		       double work, double time)
{
	double had = seen * times;
	spread->seen += seen;
	spread->draws += draws;
	spread->squares += had * had;
	spread->crossed_work += had * work;
	spread->crossed_time += had * time;
}

#define STANDS_FOR(x) open->x += (raw->x - mark->x) * times

/* What came from @mark to @raw stands for @times as much. */
static void end_row_window(struct sample_row *row, const struct sample_figures *raw,
			   const struct sample_figures *mark, double times, double work,
			   double time)
{
	struct sample_figures *open = row->open;
	end_window(&row->bytes_spread, raw->bytes - mark->bytes, times,
		   drawn(raw->error_bytes, mark->error_bytes, times), work, time);
	end_window(&row->count_spread, raw->count - mark->count, times,
		   drawn(raw->error_count, mark->error_count, times), work, time);
	STANDS_FOR(count);
	STANDS_FOR(bytes);
	STANDS_FOR(freed_count);
	STANDS_FOR(freed_bytes);
	STANDS_FOR(temporary_count);
	for (unsigned i = 0; i < SAMPLES_SIZES; i++)
		STANDS_FOR(size[i]);
	for (unsigned i = 0; i < SAMPLES_LIVES; i++)
		STANDS_FOR(life[i]);
}

static void count_window(struct samples *s, double work, double time)
{
	s->windows++;
	s->work += work;
	s->time += time;
	s->work_squares += work * work;
	s->time_squares += time * time;
	s->work_times += work * time;
}

int samples_window(struct samples *s, double work, double time, struct err *err)
{
	work *= s->times;
	time *= s->times;
	for (size_t i = 0; i < s->row_count; i++) {
		struct sample_row *row = &s->rows[i];
		int rc = keep_parts(row, err);
		if (rc < 0)
			return rc;
		end_row_window(row, &row->raw, row->mark, s->times, work, time);
		*row->mark = row->raw;
	}
	count_window(s, work, time);
	return 0;
}

int samples_again(struct samples *s, double times, double work, double time, struct err *err)
{
	for (size_t i = 0; i < s->row_count; i++) {
		struct sample_row *row = &s->rows[i];
		int rc = row->last ? keep_parts(row, err) : 0;
		if (rc < 0)
			return rc;
		if (row->last)
			end_row_window(row, row->last, &none, times, work, time);
		free(row->last);
		row->last = NULL;
	}
	count_window(s, work, time);
	return 0;
}

#define CAME(x) last->x = raw->x - mark->x

/* What came since the mark, where anything did. */
static int keep_last(struct sample_row *row, struct err *err)
{
	const struct sample_figures *raw = &row->raw, *mark = row->mark;
	free(row->last);
	row->last = NULL;
	if (raw->count <= mark->count && raw->bytes <= mark->bytes)
		return 0;
	struct sample_figures *last = row->last = calloc(1, sizeof(*last));
	if (!last)
		return err_set(err, -ENOMEM, "cannot keep samples");
	CAME(count);
	CAME(bytes);
	CAME(freed_count);
	CAME(freed_bytes);
	CAME(temporary_count);
	last->error_bytes = sqrt(drawn(raw->error_bytes, mark->error_bytes, 1));
	last->error_count = sqrt(drawn(raw->error_count, mark->error_count, 1));
	for (unsigned i = 0; i < SAMPLES_SIZES; i++)
		CAME(size[i]);
	for (unsigned i = 0; i < SAMPLES_LIVES; i++)
		CAME(life[i]);
	return 0;
}

static void end_epoch(const struct samples *s, struct sample_spread *spread, struct terms t,
		      double since)
{
	double k = s->scale;
	spread->drawn += (spread->draws + since) * k * k;
	spread->between += differing(s, spread, t);
	spread->unsure += unsure(s, t);
	spread->seen = spread->draws = spread->squares = 0;
	spread->crossed_work = spread->crossed_time = 0;
}

int samples_epoch(struct samples *s, struct err *err)
{
	for (size_t i = 0; i < s->row_count; i++) {
		struct sample_row *row = &s->rows[i];
		int rc = keep_parts(row, err);
		if (rc == 0 && s->keeps_last)
			rc = keep_last(row, err);
		if (rc < 0)
			return rc;
		samples_scale(s, row);
		end_epoch(s, &row->bytes_spread, bytes_of(row),
			  drawn(row->raw.error_bytes, row->mark->error_bytes, s->times));
		end_epoch(s, &row->count_spread, count_of(row),
			  drawn(row->raw.error_count, row->mark->error_count, s->times));
		*row->base = row->now;
		*row->open = none;
		*row->mark = row->raw;
	}
	s->windows = s->work = s->time = s->before = 0;
	s->work_squares = s->time_squares = s->work_times = 0;
	return 0;
}

void samples_unsure(const struct samples *s, const struct sample_row *row, double *bytes,
		    double *count)
{
	*bytes = wrong_by(s, &row->bytes_spread, bytes_of(row));
	*count = wrong_by(s, &row->count_spread, count_of(row));
}

int samples_are_least(const struct samples *s)
{
	double sum = 0, unsure = 0;
	for (size_t i = 0; i < s->row_count; i++) {
		double bytes, count;
		samples_unsure(s, &s->rows[i], &bytes, &count);
		sum += s->rows[i].now.count;
		unsure += count;
	}
	return unsure > 2 * sum;
}

void samples_go_on(struct samples *s, double seen_ns, double missed_ns, double unsure)
{
	double k = seen_ns > 0 ? 1 + missed_ns / seen_ns : 1;
	for (size_t i = 0; k > 1 && i < s->row_count; i++) {
		struct sample_row *row = &s->rows[i];
		struct sample_spread *const spreads[] = { &row->bytes_spread, &row->count_spread };
		if (!row->base)
			continue;
		row->base->count *= k;
		row->base->bytes *= k;
		for (unsigned b = 0; b < SAMPLES_SIZES; b++)
			row->base->size[b] *= k;
		for (unsigned b = 0; b < 2; b++) {
			spreads[b]->unsure *= k;
			spreads[b]->unsure +=
				unsure * (k - 1) / k * (b ? row->base->count : row->base->bytes);
			spreads[b]->drawn *= k * k;
			spreads[b]->between *= k * k;
		}
		samples_scale(s, row);
	}
}

void samples_doubt(struct samples *s, double calls)
{
	double all = 0, before = s->doubt;
	s->bounded = calls > 0;
	for (size_t i = 0; i < s->row_count; i++)
		all += s->rows[i].now.count;
	s->doubt = all > 0 ? calls / all : 0;
	for (size_t i = 0; (s->doubt > 0 || before > 0) && i < s->row_count; i++)
		samples_scale(s, &s->rows[i]);
}

/*
 * A long watch keeps every second, then every fourth reading: as many as there is room for, over
 * the whole time.
 */
static void note(struct sample_row *row, uint64_t now_ns)
{
	if (!row->past) {
		row->past = calloc(SAMPLES_PAST_MAX, sizeof(*row->past));
		if (!row->past)
			return;
		row->past_skip = 1;
	}
	if (row->past_seen++ % row->past_skip)
		return;
	if (row->past_count == SAMPLES_PAST_MAX) {
		for (uint32_t i = 0; i < SAMPLES_PAST_MAX / 2; i++)
			row->past[i] = row->past[2 * i];
		row->past_count = SAMPLES_PAST_MAX / 2;
		row->past_skip *= 2;
	}
	row->past[row->past_count++] =
		(struct sample_past){ now_ns, row->now.live_bytes, row->now.live_error_bytes };
}

void samples_mark(struct samples *s, uint64_t now_ns)
{
	s->now_ns = now_ns;
	for (size_t i = 0; s->tracked && i < s->row_count; i++)
		note(&s->rows[i], now_ns);
}

static uint64_t whole(double value)
{
	return value < 0 ? 0 : value > 1.8e19 ? UINT64_MAX : (uint64_t)llround(value);
}

/*
 * Definitions of what a row's stack is made of. @next: the next free number of a stack; returns the
 * row's, 0 on failure.
 */
static int define_row(struct sink *sink, const struct samples *s, struct sample_row *row,
		      uint32_t *next, struct err *err)
{
	uint32_t parent = 0;
	struct def def = { .kind = DEF_STACK };
	int rc = 0;
	if (row->stop) { /* numbers of the reasons come first */
		parent = row->stop;
		def.id = row->stop;
		def.stack.stop = row->stop;
		rc = sink->define(sink, &def, err);
	}
	/* the innermost is the allocator's own */
	for (uint32_t i = row->frame_count; !rc && i-- > 1;) {
		def = (struct def){ .kind = DEF_STACK, .id = *next };
		def.stack.parent.v = parent;
		def.stack.frame.v = s->frame_list[row->frames + i];
		rc = sink->define(sink, &def, err);
		parent = (*next)++;
	}
	row->prof_stack.v = parent;
	return rc;
}

static int define_places(struct sink *sink, const struct samples *s, struct err *err)
{
	int rc = 0;
	for (size_t i = 1; !rc && i < s->module_count; i++) {
		struct def def = { .kind = DEF_MODULE, .id = (uint32_t)i };
		def.module.path = s->modules[i].path;
		memcpy(def.module.build_id, s->modules[i].build_id, sizeof(def.module.build_id));
		def.module.build_id_len = s->modules[i].build_id_len;
		rc = sink->define(sink, &def, err);
	}
	for (size_t i = 1; !rc && i < s->frame_count; i++) {
		struct def def = { .kind = DEF_FRAME, .id = (uint32_t)i };
		def.frame.module.v = s->frames[i].module;
		def.frame.offset = s->frames[i].offset;
		rc = sink->define(sink, &def, err);
	}
	return rc;
}

static int define_process(struct sink *sink, const struct samples *s, uint32_t pid, struct err *err)
{
	const struct sample_process *p = s->process_count ? &s->processes[0] : NULL;
	for (size_t i = 0; i < s->process_count; i++)
		if (s->processes[i].pid == pid)
			p = &s->processes[i];
	struct def def = { .kind = DEF_PROCESS };
	def.process.pid = p ? p->pid : 0;
	def.process.exe = p ? p->exe : "";
	def.process.cmdline = p ? p->exe : "";
	def.process.cmdline_bytes = p ? strlen(p->exe) : 0;
	def.process.comment = PROF_SAMPLER;
	def.process.start_realtime_ns = s->start_realtime_ns;
	def.process.start_monotonic_ns = s->start_ns;
	def.process.exit_status = -1;
	def.process.complete = 1;
	def.process.runtime_ns = s->now_ns - s->start_ns;
	return sink->define(sink, &def, err);
}

static int load_rows(struct samples *s, uint32_t pid, struct prof *prof, struct err *err)
{
	struct prof_totals totals = { 0 };
	uint32_t next = STACK_STOP_MAX;
	int rc = 0;
	for (size_t i = 0; !rc && i < s->row_count; i++) {
		struct sample_row *row = &s->rows[i];
		if (row->hidden || (pid && row->pid != pid))
			continue;
		rc = define_row(prof_sink(prof), s, row, &next, err);
		if (rc < 0)
			break;
		struct cost cost = {
			.allocations = whole(row->now.count),
			.allocated_bytes = whole(row->now.bytes),
			.frees = whole(row->now.freed_count),
			.temporary = whole(row->now.temporary_count),
			.leaked = whole(row->now.live_count),
			.leaked_bytes = whole(row->now.live_bytes),
			.peak_bytes = whole(row->now.live_bytes),
		};
		row->prof_stack = prof_stack_row(prof, row->prof_stack);
		cost_add(&totals.cost, &cost);
		rc = prof_load_stack(prof, row->prof_stack, &cost, err);
		if (row->stop)
			totals.partial[row->stop & (STACK_STOP_MAX - 1)] += row->now.taken;
	}
	totals.runtime_ns = s->now_ns - s->start_ns;
	for (unsigned i = 0; i < s->lost_count; i++)
		totals.lost_events += s->lost[i].count;
	return rc ? rc : prof_load_totals(prof, &totals, err);
}

struct prof *samples_prof(struct samples *s, uint32_t pid, struct err *err)
{
	CLEANUP(prof_freep) struct prof *prof = prof_new(err);
	if (!prof || define_process(prof_sink(prof), s, pid, err) < 0 ||
	    define_places(prof_sink(prof), s, err) < 0 || load_rows(s, pid, prof, err) < 0)
		return NULL;
	return STEAL(prof);
}

const char *sample_verdict_name(enum sample_verdict verdict)
{
	static const char *const names[] = {
		[SAMPLE_TEMPORARY] = "temporary", [SAMPLE_STEADY] = "steady",
		[SAMPLE_STARTUP] = "startup",     [SAMPLE_PLATEAU] = "plateau",
		[SAMPLE_SAWTOOTH] = "sawtooth",   [SAMPLE_GROWING] = "growing",
	};
	return names[verdict];
}
