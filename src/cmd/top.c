/* SPDX-License-Identifier: Apache-2.0 */
/* top.c - `byteledger top FILE | -p PID`: a heap in the terminal, finished or growing. */
#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/outfile.h"
#include "base/text.h"
#include "cmd/cmd.h"
#include "cmd/memory.h"
#include "cmd/open.h"
#include "cmd/select.h"
#include "out/name.h"
#include "query/follow.h"
#include "query/written.h"
#include "tui/heap.h"
#include "tui/paint.h"

#define STILL_NS 3000000000ull /* rows stay put so long after a key */
#define STALE_NS 3000000000ull

struct top {
	struct selection selection; /* first: the child parser's input */
	const char *path;
	pid_t pid;
	uint64_t delay_ns;
	struct err err;

	char *found; /* of -p */
	struct recording *recording;
	struct prof *prof;
	struct follow *follow;
	struct snap *snap; /* what is shown */
	uint64_t fed_ns;   /* CLOCK_MONOTONIC */
	struct heap_view *view;
	struct grid grid;
	char title[128], said[160];
	struct buf stack; /* asked for by `y` */
};

enum { OPT_DELAY = 'd', OPT_PID = 'p' };

static const struct argp_option options[] = {
	{ "pid", OPT_PID, "PID", 0, "A program that is being recorded", 3 },
	{ "delay", OPT_DELAY, "DURATION", 0, "Between two looks at what grows (default 1s)", 3 },
	{ 0 },
};

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static int parse_pid(const char *text, pid_t *pid, struct err *err)
{
	char *end;
	errno = 0;
	long n = strtol(text, &end, 10);
	if (errno || *end || end == text || n <= 0 || n > INT32_MAX)
		return err_set(err, -EINVAL, "bad process id '%s'", text);
	*pid = (pid_t)n;
	return 0;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct top *t = state->input;
	int rc = 0;
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &t->selection;
		break;
	case OPT_PID:
		rc = parse_pid(arg, &t->pid, &t->err);
		break;
	case OPT_DELAY:
		rc = query_duration_parse(arg, &t->delay_ns, &t->err);
		if (rc == 0 && t->delay_ns < 100000000u)
			rc = err_set(&t->err, -EINVAL, "bad delay '%s': 100ms at least", arg);
		break;
	case ARGP_KEY_ARG:
		if (t->path)
			cmd_usage("one recording at a time: '%s' is another", arg);
		t->path = arg;
		break;
	case ARGP_KEY_END:
		if (t->selection.limit || t->selection.inclusive || t->selection.skip_count ||
		    t->selection.no_skip)
			cmd_usage("--limit, --sort, --skip and --no-skip are of lists; here keys "
				  "sort and all rows are shown");
		if (t->selection.by == VIEW_BY_THREAD)
			cmd_usage("top shows no threads");
		if (!t->path == !t->pid)
			cmd_usage(t->path ? "either a file or a process"
					  : "no FILE, and no -p PID");
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	if (rc < 0)
		cmd_refuse(&t->err);
	return 0;
}

static void describe(struct top *t, const struct prof *prof)
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

/* ---- where it comes from ------------------------------------------------------------------------------------------ */

static int follow_file(struct top *t)
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

static int open_file(struct top *t)
{
	t->recording = cmd_open_recording(t->path, &t->err);
	if (!t->recording)
		return t->err.code;
	t->prof = recording_read(t->recording, &t->selection.query, &t->err);
	if (!t->prof)
		return t->err.code;
	if (recording_goes_on(t->recording) && recording_kind(t->recording) == RECORDING_BLT &&
	    query_is_empty(&t->selection.query))
		return follow_file(t);
	if (cmd_resolve(t->prof, &t->err) < 0)
		return t->err.code;
	if (recording_warning(t->recording))
		snprintf(t->said, sizeof(t->said), "%.150s", recording_warning(t->recording));
	describe(t, t->prof);
	return 0;
}

static int begin(struct top *t)
{
	int moment = t->selection.query.at.kind != QUERY_TIME_NONE;
	if (t->pid) {
		int rc = written_find(t->pid, &t->found, &t->err);
		if (rc < 0)
			return rc;
		t->path = t->found;
	}
	int rc = open_file(t);
	if (rc < 0)
		return rc;
	struct heap_opt opt = {
		.title = t->title,
		.by = t->selection.by,
		.cost = t->selection.cost_given ? t->selection.cost
			: t->follow || moment   ? VIEW_COST_LIVE
						: VIEW_COST_PEAK,
		.inverted = t->selection.inverted,
		.live = t->follow != NULL,
		.moment = moment,
		.when = select_words(&t->selection) ? select_words(&t->selection)
			: t->follow                 ? "now"
						    : "whole recording",
		.short_name = text_short_name,
	};
	t->view = heap_view_new(&opt, &t->err);
	if (!t->view)
		return t->err.code;
	const struct prof *prof = t->follow ? snap_prof(t->snap) : t->prof;
	struct prof_totals totals;
	prof_totals(prof, &totals);
	t->fed_ns = now_ns();
	return heap_view_feed(t->view, prof, totals.runtime_ns, &t->err);
}

/* The newest reading, unless the reader is at the keys or asked for a hold. */
static int look(struct top *t, uint64_t key_ns)
{
	char remark[64] = "", age[TEXT_NUMBER_MAX];
	struct follow_state state;
	uint64_t now = now_ns();
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
	if (heap_view_holds(t->view) || now < key_ns + STILL_NS || now < t->fed_ns + t->delay_ns)
		return 0;
	struct snap *snap = follow_snap(t->follow);
	if (!snap || snap_number(snap) == snap_number(t->snap)) {
		snap_unref(snap);
		return 0;
	}
	struct prof_totals totals;
	prof_totals(snap_prof(snap), &totals);
	int rc = heap_view_feed(t->view, snap_prof(snap), totals.runtime_ns, &t->err);
	snap_unref(t->snap);
	t->snap = snap;
	/* laying a large heap out anew takes its time: one part in twenty of the processor at most */
	uint64_t took = now_ns() - now;
	t->fed_ns = now + (took * 20 > t->delay_ns ? took * 20 - t->delay_ns : 0);
	return rc;
}

/* ---- the terminal ------------------------------------------------------------------------------------------------- */

static void write_screen(struct top *t)
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

static int draw(struct top *t)
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
	heap_view_draw(t->view, &t->grid);
	paint_show(&t->grid);
	return 0;
}

static int loop(struct top *t)
{
	uint64_t key_ns = 0;
	for (;;) {
		int rc = look(t, key_ns);
		if (rc == 0)
			rc = draw(t);
		if (rc < 0)
			return rc;
		int key = paint_key(t->follow ? 200 : 1000);
		if (key == PAINT_GONE)
			return 0;
		if (key == PAINT_NONE || key == PAINT_RESIZE)
			continue;
		rc = heap_view_key(t->view, key, &t->err);
		if (rc < 0)
			return rc;
		if (key != ' ')
			key_ns = now_ns();
		if (rc)
			continue;
		if (key == 'q' || key == PAINT_ESCAPE)
			return 0;
		if (key == 'w')
			write_screen(t);
		if (key == 'y')
			heap_view_path(t->view, &t->stack);
	}
}

static void fini(struct top *t)
{
	heap_view_freep(&t->view);
	grid_fini(&t->grid);
	snap_unrefp(&t->snap);
	follow_freep(&t->follow);
	prof_freep(&t->prof);
	recording_freep(&t->recording);
	free(t->found);
	buf_fini(&t->stack);
}

int cmd_top(int argc, char **argv)
{
	static const struct argp_child children[] = { { &select_argp, 0, NULL, 0 },
						      { &memory_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "FILE\n-p PID",
		.doc = "Show a heap in the terminal: the call tree and a table of a recording, "
		       "finished "
		       "or still being written.\vKeys: ? shows them.",
		.children = children,
	};
	struct top t = { .delay_ns = 1000000000u };
	if (cmd_parse(&argp, argc, argv, NULL, &t) < 0)
		return CMD_USAGE;
	setlocale(LC_CTYPE, "");
	int rc = paint_check(&t.err);
	if (rc < 0) {
		cmd_fail(&t.err);
		return CMD_USAGE;
	}
	rc = begin(&t);
	if (rc == 0)
		rc = paint_open(&t.err);
	if (rc == 0) {
		rc = loop(&t);
		paint_close();
	}
	if (rc == 0 && t.stack.len)
		fwrite(t.stack.data, 1, t.stack.len, stdout);
	int status = rc < 0 ? cmd_fail(&t.err) : CMD_OK;
	fini(&t);
	return status;
}
