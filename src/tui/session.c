/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/session.h"

#include <errno.h>
#include <langinfo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/reach.h"
#include "base/clock.h"
#include "base/outfile.h"
#include "base/text.h"
#include "query/follow.h"
#include "query/written.h"
#include "tui/paint.h"
#include "tui/views.h"

#define STILL_NS 3000000000ull /* rows stay put so long after a key */
#define STALE_NS 3000000000ull
#define SEEK_NS 3000000000ull /* between two looks for a recording that somebody may begin */

struct heap_session {
	struct heap_session_opt opt;
	const char *path;
	struct err err;

	/* of opt.pid */
	char *found;
	/* CLOCK_MONOTONIC: when it was looked for */
	uint64_t sought_ns;
	struct recording *recording;
	struct prof *prof;
	struct follow *follow;
	/* what is shown */
	struct snap *snap;
	/* CLOCK_MONOTONIC */
	uint64_t fed_ns;
	/* NULL: there is no heap */
	struct heap_view *view;
	struct views *views;
	/* one of the views is shown, not the heap */
	int beside;
	/* CLOCK_MONOTONIC; 0: something has changed since */
	uint64_t drawn_ns;
	struct grid grid;
	char title[128], said[160];
	/* asked for by `y` */
	struct buf stack;
};

static void describe(struct heap_session *t, const struct prof *prof)
{
	const struct prof_process *p = prof_process(prof);
	if (p) {
		const char *slash = p->exe ? strrchr(p->exe, '/') : NULL;
		snprintf(t->title, sizeof(t->title), "%.64s %u",
			 slash    ? slash + 1
			 : p->exe ? p->exe
				  : "",
			 p->pid);
	}
}

/* ---- where it comes from --------------------------------------------------------------------- */

static int follow_file(struct heap_session *t)
{
	t->follow = follow_new(t->path, NULL, &t->err);
	if (!t->follow)
		return t->err.code;
	t->snap = follow_wait(t->follow, 0, 30000000000ull);
	if (!t->snap)
		return err_set(&t->err, -ETIMEDOUT, "cannot follow '%s'", t->path);
	describe(t, snap_prof(t->snap));
	return 0;
}

static int open_file(struct heap_session *t)
{
	t->recording = recording_open(t->path, t->opt.ears, &t->err);
	if (!t->recording)
		return t->err.code;
	t->prof = recording_read(t->recording, t->opt.query, &t->err);
	if (!t->prof)
		return t->err.code;
	if (recording_goes_on(t->recording) && recording_kind(t->recording) == RECORDING_BLT &&
	    query_is_empty(t->opt.query))
		return follow_file(t);
	if (recording_resolve(t->prof, t->opt.ears, &t->err) < 0)
		return t->err.code;
	if (recording_warning(t->recording))
		snprintf(t->said, sizeof(t->said), "%.150s", recording_warning(t->recording));
	describe(t, t->prof);
	return 0;
}

static int begin_heap(struct heap_session *t)
{
	int moment = t->opt.query->at.kind != QUERY_TIME_NONE;
	int rc = open_file(t);
	if (rc < 0)
		return rc;
	struct heap_opt opt = {
		.title = t->title,
		.by = t->opt.by,
		.cost = t->opt.cost_given     ? t->opt.cost
			: t->follow || moment ? VIEW_COST_LIVE
					      : VIEW_COST_PEAK,
		.inverted = t->opt.inverted,
		.live = t->follow != NULL,
		.moment = moment,
		.when = t->opt.words ? t->opt.words
			: t->follow  ? "now"
				     : "whole recording",
		.short_name = t->opt.short_name,
	};
	t->view = heap_view_new(&opt, &t->err);
	if (!t->view)
		return t->err.code;
	const struct prof *prof = t->follow ? snap_prof(t->snap) : t->prof;
	struct prof_totals totals;
	prof_totals(prof, &totals);
	t->fed_ns = clock_ns(CLOCK_MONOTONIC);
	return heap_view_feed(t->view, prof, totals.runtime_ns, &t->err);
}

/** is_elsewhere() - a server, a folder or a store: no recording that could be read here. */
static int is_elsewhere(const char *path)
{
	struct stat st;
	return reach_is_server(path) || (stat(path, &st) == 0 && S_ISDIR(st.st_mode));
}

static int begin_views(struct heap_session *t)
{
	const struct views_opt opt = { .path = t->opt.path,
				       .written = t->found,
				       .pid = t->opt.pid,
				       .heap = t->view != NULL,
				       .delay_ns = t->opt.delay_ns,
				       .short_name = t->opt.short_name };
	t->views = views_new(&opt, &t->err);
	if (!t->views)
		return t->err.code;
	if (t->view) {
		heap_view_tabs(t->view, views_tabs(t->views));
		return 0;
	}
	unsigned has = views_has(t->views), first = SCREENS;
	if (has >> SCREEN_REGIONS & 1)
		/* what a process holds, before anything that takes its time */
		first = SCREEN_REGIONS;
	for (unsigned i = 0; first == SCREENS && i < SCREENS; i++)
		if (has >> i & 1)
			first = i;
	if (first == SCREENS)
		return err_set(&t->err, -ENOENT, "there is nothing to show");
	if (views_name(t->views)[0])
		snprintf(t->title, sizeof(t->title), t->opt.pid ? "%.100s %d" : "%.100s",
			 views_name(t->views), (int)t->opt.pid);
	t->beside = 1;
	return views_show(t->views, (enum screen)first, &t->err);
}

static int begin(struct heap_session *t)
{
	int rc = 0;
	if (t->opt.pid) {
		rc = written_find(t->opt.pid, &t->found, &t->err);
		t->path = t->found;
		if (rc == -EINVAL) { /* what it holds can be told all the same */
			snprintf(t->said, sizeof(t->said), "%.150s", t->err.msg);
			err_init(&t->err);
			rc = 0;
		}
	}
	if (rc == 0 && t->path && !is_elsewhere(t->path))
		rc = begin_heap(t);
	return rc < 0 ? rc : begin_views(t);
}

static void end_heap(struct heap_session *t)
{
	heap_view_freep(&t->view);
	snap_unrefp(&t->snap);
	follow_freep(&t->follow);
	prof_freep(&t->prof);
	recording_freep(&t->recording);
	free(t->found);
	t->found = NULL;
	t->path = t->opt.path;
}

/** seek() - somebody may have begun to record the process: its tree and table are there then. */
static int seek(struct heap_session *t, uint64_t now)
{
	if (!t->opt.pid || t->view || now < t->sought_ns + SEEK_NS)
		return 0;
	t->sought_ns = now;
	struct err none = { 0 };
	if (written_find(t->opt.pid, &t->found, &none) < 0)
		return 0;
	t->path = t->found;
	/* one that is not readable yet is looked at again */
	if (begin_heap(t) < 0) {
		err_init(&t->err);
		end_heap(t);
		return 0;
	}
	int screen = views_screen(t->views);
	views_free(t->views);
	t->views = NULL;
	int rc = begin_views(t);
	if (rc == 0)
		rc = views_show(t->views, (enum screen)screen, &t->err);
	snprintf(t->said, sizeof(t->said), "what it allocates is being recorded: 3 and 4 show it");
	return rc;
}

/* The newest reading, unless the reader is at the keys or asked for a hold. */
static int look(struct heap_session *t, uint64_t key_ns)
{
	char remark[64] = "", age[TEXT_NUMBER_MAX];
	struct follow_state state;
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	int rc = seek(t, now);
	if (rc < 0)
		return rc;
	if (t->beside)
		return views_look(t->views, now < key_ns + STILL_NS, &t->err);
	if (!t->follow) {
		heap_view_remark(t->view, t->said);
		return 0;
	}
	follow_state(t->follow, &state);
	uint64_t taken = snap_time_ns(t->snap);
	if (state.over)
		snprintf(remark, sizeof(remark), "%s",
			 state.err.code ? "connection lost" : "ended");
	else if (now > taken + STALE_NS && heap_view_holds(t->view))
		snprintf(remark, sizeof(remark), "%s old", text_duration(age, now - taken));
	else if (now > taken + STALE_NS)
		snprintf(remark, sizeof(remark), "nothing new for %s",
			 text_duration(age, now - taken));
	heap_view_remark(t->view, remark);
	if (heap_view_holds(t->view) || now < key_ns + STILL_NS ||
	    now < t->fed_ns + t->opt.delay_ns)
		return 0;
	struct snap *snap = follow_snap(t->follow);
	if (!snap || snap_number(snap) == snap_number(t->snap)) {
		snap_unref(snap);
		return 0;
	}
	struct prof_totals totals;
	prof_totals(snap_prof(snap), &totals);
	rc = heap_view_feed(t->view, snap_prof(snap), totals.runtime_ns, &t->err);
	t->drawn_ns = 0;
	snap_unref(t->snap);
	t->snap = snap;
	/*
	 * laying a large heap out anew takes its time: one part in twenty of the processor at most
	 */
	uint64_t took = clock_ns(CLOCK_MONOTONIC) - now;
	t->fed_ns = now + (took * 20 > t->opt.delay_ns ? took * 20 - t->opt.delay_ns : 0);
	return rc;
}

/* ---- the terminal ---------------------------------------------------------------------------- */

static void write_screen(struct heap_session *t)
{
	struct err err = { 0 };
	char *made = NULL;
	FILE *file = outfile_create("byteledger_top.txt", &made, &err);
	for (unsigned i = 0; file && i < t->grid.rows; i++) {
		char *line = grid_row_text(&t->grid, i);
		fprintf(file, "%s\n", line ? line : "");
		free(line);
	}
	if (file && fclose(file) == 0)
		snprintf(t->said, sizeof(t->said), "written: %.100s", made);
	else
		snprintf(t->said, sizeof(t->said), "%.150s",
			 err.code ? err.msg : "cannot write the screen");
	free(made);
}

static int draw(struct heap_session *t)
{
	unsigned rows, columns;
	paint_size(&rows, &columns);
	if (rows != t->grid.rows || columns != t->grid.columns) {
		grid_fini(&t->grid);
		int rc = grid_init(&t->grid, rows, columns,
				   strcmp(nl_langinfo(CODESET), "UTF-8") != 0, &t->err);
		if (rc < 0)
			return rc;
	}
	if (t->beside)
		views_draw(t->views, t->title, t->said, &t->grid);
	else
		heap_view_draw(t->view, &t->grid);
	paint_show(&t->grid);
	return 0;
}

static int is_heaps(int screen)
{
	return screen == SCREEN_TREE || screen == SCREEN_TABLE;
}

/** is_other_heaps() - from the tree to the table of one moment, or back. */
static int is_other_heaps(const struct heap_session *t, int screen)
{
	int shown = views_screen(t->views);
	return is_heaps(shown) && shown != screen;
}

/** leave_whole() - the tree or table of another moment than the heap's own screens show. */
static int leave_whole(struct heap_session *t)
{
	int screen = (int)heap_view_screen(t->view);
	t->beside = 1;
	return views_screen(t->views) == screen
		       ? 0
		       : views_show(t->views, (enum screen)screen, &t->err);
}

/** leads() - a digit: to another screen. 1: it was one; negative errno. */
static int leads(struct heap_session *t, int key)
{
	int screen = key - '0';
	if (screen < SCREEN_BALANCE || screen >= SCREENS)
		return 0;
	if (!(views_has(t->views) >> screen & 1)) {
		if (t->beside)
			snprintf(t->said, sizeof(t->said), "%s", views_why_not(t->views, screen));
		else
			heap_view_say(t->view, views_why_not(t->views, screen));
		return 1;
	}
	if (t->view && is_heaps(screen) && !(t->beside && is_other_heaps(t, screen))) {
		t->beside = 0;
		return heap_view_key(t->view, key, &t->err);
	}
	t->beside = 1;
	int rc = views_show(t->views, (enum screen)screen, &t->err);
	return rc < 0 ? rc : 1;
}

/** take() - 1: the reader leaves; negative errno. */
static int take(struct heap_session *t, int key)
{
	if (t->beside)
		t->said[0] = '\0';
	int rc = t->beside ? 0 : heap_view_key(t->view, key, &t->err);
	if (rc == 0 && !t->beside && (key == ',' || key == '.' || key == '<' || key == '>'))
		rc = leave_whole(t);
	if (rc == 0 && t->beside)
		rc = views_key(t->views, key, &t->err);
	if (rc == 0)
		rc = leads(t, key);
	if (rc)
		return rc < 0 ? rc : 0;
	if (key == 'q' || key == PAINT_ESCAPE || (key == '1' && t->opt.from_list))
		return 1;
	if (key == 'w')
		write_screen(t);
	if (key == 'y' && t->beside)
		views_path(t->views, &t->stack);
	else if (key == 'y')
		heap_view_path(t->view, &t->stack);
	return 0;
}

static int loop(struct heap_session *t)
{
	uint64_t key_ns = 0;
	for (;;) {
		int rc = look(t, key_ns);
		uint64_t now = clock_ns(CLOCK_MONOTONIC);
		/* ages are told in seconds: in between nothing new can be drawn */
		if (rc == 0 && (t->beside || !t->drawn_ns || now >= t->drawn_ns + NS_PER_S)) {
			rc = draw(t);
			t->drawn_ns = now;
		}
		if (rc < 0)
			return rc;
		int key = paint_key(t->follow || t->beside ? 200 : 1000);
		if (key == PAINT_GONE)
			return 0;
		if (key == PAINT_NONE)
			continue;
		t->drawn_ns = 0;
		if (key == PAINT_RESIZE)
			continue;
		if (key != ' ')
			key_ns = clock_ns(CLOCK_MONOTONIC);
		rc = take(t, key);
		if (rc)
			return rc < 0 ? rc : 0;
	}
}

void heap_session_free(struct heap_session *t)
{
	if (!t)
		return;
	views_free(t->views);
	end_heap(t);
	grid_fini(&t->grid);
	buf_fini(&t->stack);
	free(t);
}

struct heap_session *heap_session_new(const struct heap_session_opt *opt, struct err *err)
{
	struct heap_session *t = calloc(1, sizeof(*t));
	if (!t) {
		err_set(err, -ENOMEM, "cannot show a heap");
		return NULL;
	}
	t->opt = *opt;
	t->path = opt->path;
	if (begin(t) == 0)
		return t;
	*err = t->err;
	heap_session_free(t);
	return NULL;
}

int heap_session_run(struct heap_session *t, struct err *err)
{
	int rc = paint_open(err);
	if (rc < 0)
		return rc;
	rc = loop(t);
	paint_close();
	if (rc < 0)
		*err = t->err;
	return rc;
}

const struct buf *heap_session_stack(const struct heap_session *t)
{
	return &t->stack;
}
