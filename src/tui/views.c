/* SPDX-License-Identifier: Apache-2.0 */
#include "tui/views.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/reach.h"
#include "api/v1.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/text.h"
#include "query/instant.h"
#include "query/resident.h"
#include "tui/asker.h"

#define SPARK 16
#define SLOW_NS NS_PER_S
#define STALE_NS 3000000000ull
#define AT_END 1000u /* thousandths */

struct views {
	struct views_opt opt;
	/* answers are worked out in this process */
	int is_ours;
	struct reach *reach;
	struct asker *asker;
	struct screen_what what;
	struct sheet_view *view;
	struct screen_sources sources;
	unsigned forms[SCREENS];
	char tabs[96], keys[160];
	char failed[400];
	/* what is asked for now is shown */
	int answered;
	/* the reader asked, not the clock: it is shown, held or not */
	int wanted;
	uint64_t asked_ns, shown_ns, next_ns;
	uint64_t past[SPARK];
	unsigned past_count;
};

/* ---- what there is --------------------------------------------------------------------------- */

static int reach(struct views *v, struct err *err)
{
	if (!v->reach)
		v->reach = !v->opt.path                   ? reach_process(v->opt.pid, err)
			   : reach_is_server(v->opt.path) ? reach_server(v->opt.path, err)
							  : reach_file(v->opt.path, err);
	if (v->reach && !v->asker)
		v->asker = asker_new(v->reach, err);
	return v->asker ? 0 : err->code;
}

static int ask(struct views *v, const char *what, struct buf *to, struct err *err)
{
	int status = reach_ask(v->reach, what, NULL, to, err);
	if (status < 0 || status == 200)
		return status < 0 ? status : 0;
	CLEANUP(buf_fini) struct buf text = { 0 };
	screen_error(buf_cstr(to), to->len, &text);
	return err_set(err, -EIO, "%.300s", buf_cstr(&text));
}

/** ask_sources() - of a recording not all is told before it was read once. */
static int ask_sources(struct views *v, struct err *err)
{
	int rc = reach(v, err);
	for (int again = 0; again < 2 && rc == 0; again++) {
		CLEANUP(buf_fini) struct buf answer = { 0 }, summary = { 0 };
		char what[64];
		rc = ask(v, "/api/v1/sources", &answer, err);
		if (rc == 0)
			rc = screen_sources(buf_cstr(&answer), answer.len, &v->sources, err);
		if (rc < 0 || again || v->sources.recording == SCREEN_NOWHERE)
			break;
		snprintf(what, sizeof(what), "/api/v1/summary?src=%u", v->sources.recording);
		rc = ask(v, what, &summary, err);
	}
	if (rc == 0 && v->sources.recording != SCREEN_NOWHERE) {
		CLEANUP(buf_fini) struct buf answer = { 0 };
		struct err none = { 0 }; /* a server that has no pages says so, or nothing */
		if (ask(v, "/v1/tree?short=true", &answer, &none) == 0 &&
		    screen_counts_pages(buf_cstr(&answer), answer.len))
			v->sources.has |= 1u << SCREEN_PAGES;
	}
	return rc;
}

static int has_pages(const char *path)
{
	struct err err = { 0 };
	CLEANUP(resident_freep) struct resident *resident = resident_open(path, &err);
	return resident != NULL;
}

/** look_at_file() - without reading all of it: that is for who looks at its heap. */
static void look_at_file(struct views *v, const char *path)
{
	v->sources.recording = 0;
	v->sources.has |= 1u << SCREEN_GROWTH | 1u << SCREEN_REGIONS;
	if (instant_is_there(path) > 0)
		v->sources.has |= 1u << SCREEN_BALANCE;
	if (has_pages(path))
		v->sources.has |= 1u << SCREEN_PAGES;
}

static int ask_name(struct views *v, struct err *err)
{
	CLEANUP(buf_fini) struct buf answer = { 0 };
	struct screen_sources sources;
	int rc = ask(v, "/api/v1/sources", &answer, err);
	if (rc == 0)
		rc = screen_sources(buf_cstr(&answer), answer.len, &sources, err);
	if (rc == 0)
		memcpy(v->sources.name, sources.name, sizeof(sources.name));
	return rc;
}

static int look_for(struct views *v, struct err *err)
{
	v->sources = (struct screen_sources){ .recording = SCREEN_NOWHERE,
					      .process = SCREEN_NOWHERE,
					      .node = SCREEN_NOWHERE };
	if (!v->opt.path) {
		if (v->opt.written)
			look_at_file(v, v->opt.written);
		v->sources.process = V1_LIVE_FIRST;
		v->sources.pid = v->opt.pid;
		v->sources.live = 1;
		v->sources.has |= 1u << SCREEN_BALANCE | 1u << SCREEN_GROWTH | 1u << SCREEN_REGIONS;
		return reach(v, err) < 0 || v->opt.written ? err->code : ask_name(v, err);
	}
	if (!v->opt.heap)
		return ask_sources(v, err);
	look_at_file(v, v->opt.path);
	return 0;
}

static void name_tabs(struct views *v)
{
	static const char *const names[SCREENS] = {
		[SCREEN_BALANCE] = "bal",  [SCREEN_TREE] = "tree",   [SCREEN_TABLE] = "tab",
		[SCREEN_GROWTH] = "grow",  [SCREEN_REGIONS] = "reg", [SCREEN_PAGES] = "pages",
		[SCREEN_SAMPLER] = "smpl", [SCREEN_NODE] = "node"
	};
	unsigned has = views_has(v);
	size_t len = 0;
	for (unsigned i = SCREEN_BALANCE; i < SCREENS; i++)
		if (has >> i & 1 && len < sizeof(v->tabs))
			len += (size_t)snprintf(
				v->tabs + len, sizeof(v->tabs) - len, "%s%u%s", len ? " " : "", i,
				i == SCREEN_REGIONS && v->sources.process == SCREEN_NOWHERE
					? "maps"
					: names[i]);
}

unsigned views_has(const struct views *v)
{
	return v->sources.has | (v->opt.heap ? 1u << SCREEN_TREE | 1u << SCREEN_TABLE : 0);
}

const char *views_name(const struct views *v)
{
	return v->sources.name;
}

const char *views_tabs(const struct views *v)
{
	return v->tabs;
}

const char *views_why_not(const struct views *v, int screen)
{
	int process = !v->opt.path;
	switch (screen) {
	case SCREEN_BALANCE:
		return "no snapshot is in it: 'run' takes them along";
	case SCREEN_TREE:
	case SCREEN_TABLE:
		return process ? "it is not being recorded: 'heap -p PID' would record it"
			       : "there is no recording of a heap";
	case SCREEN_PAGES:
		return process ? "pages by stack: 'pages -p PID --serve', then 'top' with its "
				 "address"
			       : "no pages are in it: 'run' as root takes them along";
	case SCREEN_SAMPLER:
		return "samples: 'sample -p PID --serve', then 'top' with its address";
	case SCREEN_NODE:
		return "what a node says: 'net', then 'top' with its address or store";
	default:
		return "nothing there is known of";
	}
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void ask_now(struct views *v)
{
	CLEANUP(buf_fini) struct buf what = { 0 };
	screen_question(&v->what, &what);
	asker_want(v->asker, buf_cstr(&what));
	v->asked_ns = clock_ns(CLOCK_MONOTONIC);
}

/* What the reader asked for is shown as soon as it is there. */
static void ask_for_reader(struct views *v)
{
	v->wanted = 1;
	ask_now(v);
}

/** turn() - another question: what was shown says nothing about its answer. */
static void turn(struct views *v)
{
	sheet_view_forget(v->view);
	v->answered = 0;
	v->failed[0] = '\0';
	ask_for_reader(v);
}

/** move() - another moment of the same: no seconds lie between the two. */
static void move(struct views *v, int by)
{
	int at = (int)(v->what.has_at ? v->what.at : AT_END) + by;
	v->what.has_at = 1;
	v->what.at = at < 0 ? 0 : at > (int)AT_END ? AT_END : (unsigned)at;
	if (v->what.since >= v->what.at)
		v->what.since = 0;
	sheet_view_move(v->view);
	ask_for_reader(v);
}

static int is_now(const struct views *v)
{
	return v->sources.live && !(screen_moves(&v->what) && v->what.has_at);
}

static void see_rss(struct views *v, uint64_t rss)
{
	if (!rss || !is_now(v))
		return;
	if (v->past_count == SPARK)
		memmove(v->past, v->past + 1, --v->past_count * sizeof(*v->past));
	v->past[v->past_count++] = rss;
}

static int show_answer(struct views *v, const struct asked *asked, struct err *err)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	CLEANUP(sheet_fini) struct sheet sheet = { 0 };
	struct err why = asked->err;
	/*
	 * what is dear to work out here is asked for less often: one part in twenty of a processor
	 */
	int dear = v->what.screen == SCREEN_BALANCE || screen_merges(&v->what);
	uint64_t pause = v->opt.delay_ns;
	if (v->what.screen == SCREEN_GROWTH)
		pause *= 2; /* nothing grows within a second that could be told from noise */
	if (dear && v->is_ours && asked->status == 200 && asked->took_ns * 20 > pause)
		pause = asked->took_ns * 20;
	v->next_ns = now + pause;
	v->wanted = 0;
	if (asked->status == 200 &&
	    screen_read(&v->what, asked->body.data, asked->body.len, &sheet, &why) == 0) {
		v->failed[0] = '\0';
		v->answered = 1;
		v->shown_ns = asked->time_ns;
		see_rss(v, sheet.rss_bytes);
		return sheet_view_feed(v->view, &sheet, asked->time_ns, is_now(v), err);
	}
	CLEANUP(buf_fini) struct buf text = { 0 };
	if (asked->status && asked->status != 200)
		screen_error(asked->body.data ? asked->body.data : "", asked->body.len, &text);
	else
		buf_printf(&text, "%s%s%s", why.msg, why.hint[0] ? ": " : "", why.hint);
	snprintf(v->failed, sizeof(v->failed), "%s", buf_cstr(&text));
	return 0;
}

int views_look(struct views *v, int still, struct err *err)
{
	struct asked asked = { 0 };
	int rc = 0, holds = sheet_view_holds(v->view) || (still && v->answered);
	if (v->sources.live && v->answered && holds && !v->wanted)
		return 0;
	if (asker_take(v->asker, &asked)) {
		rc = show_answer(v, &asked, err);
		buf_fini(&asked.body);
	}
	if (v->sources.live && !asker_waits(v->asker) && clock_ns(CLOCK_MONOTONIC) >= v->next_ns)
		ask_now(v);
	return rc;
}

int views_show(struct views *v, enum screen screen, struct err *err)
{
	int rc = reach(v, err);
	if (rc < 0)
		return rc;
	if (v->what.screen == screen)
		v->forms[screen]++;
	v->what.screen = screen;
	v->what.form = v->forms[screen] % screen_forms(&v->what);
	turn(v);
	return 0;
}

int views_screen(const struct views *v)
{
	return (int)v->what.screen;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void next_by(struct views *v)
{
	static const enum view_by order[] = { VIEW_BY_FUNCTION, VIEW_BY_MODULE, VIEW_BY_FILE,
					      VIEW_BY_LINE };
	size_t at = 0;
	while (at + 1 < ARRAY_LEN(order) && order[at] != v->what.by)
		at++;
	v->what.by = order[(at + 1) % ARRAY_LEN(order)];
	turn(v);
}

/** take() - keys of these screens alone: 1 taken. */
static int take(struct views *v, int key)
{
	int moves = screen_moves(&v->what);
	switch (key) {
	case 'm':
		if (screen_merges(&v->what))
			next_by(v);
		return 1;
	case 'i':
	case 'v':
		if (screen_forms(&v->what) > 1) {
			v->what.form = ++v->forms[v->what.screen] % screen_forms(&v->what);
			turn(v);
		}
		return 1;
	case ',':
	case '.':
		if (moves)
			move(v, key == ',' ? -10 : 10);
		return 1;
	case '<':
	case '>':
		if (moves)
			move(v, key == '<' ? -100 : 100);
		return 1;
	case 'r':
		ask_for_reader(v);
		return 1;
	case 'd':
		if (v->what.screen != SCREEN_GROWTH || !moves)
			return 0;
		v->what.since = v->what.has_at && v->what.at < AT_END ? v->what.at : 0;
		v->what.at = AT_END;
		v->what.has_at = 1;
		sheet_view_move(v->view);
		ask_for_reader(v);
		return 1;
	default:
		return 0;
	}
}

int views_key(struct views *v, int key, struct err *err)
{
	/* `d` of growth is a question, not a base; but typed text and the help take every key */
	int growth = v->what.screen == SCREEN_GROWTH && key == 'd' && screen_moves(&v->what);
	if (growth && !sheet_view_takes_all(v->view))
		return take(v, key);
	int rc = sheet_view_key(v->view, key, err);
	return rc ? rc : take(v, key);
}

void views_path(const struct views *v, struct buf *to)
{
	sheet_view_path(v->view, to);
}

/* ---- drawing --------------------------------------------------------------------------------- */

static const char *const help[SCREENS][8] = {
	[SCREEN_BALANCE] = { "2 balance: each resident byte is on one line, and all lines are RSS",
			     "m                           stacks by function, module, file, line",
			     ", . < >                     a recording: a hundredth, a tenth back "
			     "and on" },
	[SCREEN_TREE] = { "3 tree: what lives, by call path from main on",
			  "m v                         merge by function ..; from the allocations "
			  "on",
			  ", . < >                     a hundredth, a tenth of the time back and "
			  "on" },
	[SCREEN_TABLE] = { "4 table: LIVE is asked for below this function, SELF by itself",
			   "m                           merge by function, module, file, line",
			   ", . < >                     a hundredth, a tenth of the time back and "
			   "on" },
	[SCREEN_GROWTH] = { "5 growth: what lived at the ends of 16 slices of time: does it grow?",
			    "m                           by function, module, file, line",
			    ", . < >                     a recording: its end; d: it begins "
			    "there" },
	[SCREEN_REGIONS] = { "6 regions: by mapping; of a recording what the program mapped itself",
			     "v 6                         classes, mappings, threads, allocators" },
	[SCREEN_PAGES] = { "7 pages: resident pages by the call path that touched them first",
			   "v 7                         with page cache that nobody has mapped" },
	[SCREEN_SAMPLER] = { "8 sampler: estimates; the error is one standard deviation" },
	[SCREEN_NODE] = { "9 node: what it said to its peers",
			  "v 9                         messages, connections, log lines" },
};

static const char *waiting(const struct views *v, char text[448])
{
	if (v->answered)
		return NULL;
	if (v->failed[0])
		snprintf(text, 448, "%s: %s", screen_name(v->what.screen), v->failed);
	else
		snprintf(text, 448, "%s: being read", screen_name(v->what.screen));
	return text;
}

void views_draw(struct views *v, const char *title, const char *said, struct grid *grid)
{
	char remark[64] = "", waits[448], age[TEXT_NUMBER_MAX];
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (v->answered && v->failed[0])
		snprintf(remark, sizeof(remark), "%.60s", v->failed);
	else if (v->answered && !v->sources.live && asker_waits(v->asker) &&
		 now > v->asked_ns + SLOW_NS)
		snprintf(remark, sizeof(remark), "being read");
	else if (v->answered && v->sources.live && sheet_view_holds(v->view) &&
		 now > v->shown_ns + STALE_NS)
		snprintf(remark, sizeof(remark), "%s old",
			 text_duration(age, (now - v->shown_ns) / NS_PER_S * NS_PER_S));
	snprintf(v->keys, sizeof(v->keys), "%s%s%s%s /find s:sort", v->tabs,
		 screen_forms(&v->what) > 1 ? " v:form" : "",
		 screen_merges(&v->what) ? " m:by" : "",
		 screen_moves(&v->what) ? " ,.<>:time" : "");
	const struct sheet_frame frame = { .title = title,
					   .remark = remark,
					   .said = said,
					   .keys = v->keys,
					   .help = help[v->what.screen],
					   .waits = waiting(v, waits),
					   .past = v->past,
					   .past_count = v->past_count };
	sheet_view_draw(v->view, &frame, grid);
}

/* ---- life ------------------------------------------------------------------------------------ */

struct views *views_new(const struct views_opt *opt, struct err *err)
{
	struct views *v = calloc(1, sizeof(*v));
	if (!v) {
		err_set(err, -ENOMEM, "cannot show what is there");
		return NULL;
	}
	v->opt = *opt;
	v->is_ours = !opt->path || !reach_is_server(opt->path);
	v->view = sheet_view_new(err);
	if (!v->view || look_for(v, err) < 0) {
		views_free(v);
		return NULL;
	}
	v->what = (struct screen_what){ .recording = v->sources.recording,
					.process = v->sources.process,
					.node = v->sources.node,
					.pid = v->sources.pid,
					.by = VIEW_BY_FUNCTION,
					.at = AT_END,
					.short_name = opt->short_name };
	name_tabs(v);
	return v;
}

void views_free(struct views *v)
{
	if (!v)
		return;
	asker_free(v->asker);
	reach_free(v->reach);
	sheet_view_free(v->view);
	free(v);
}
