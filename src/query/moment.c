/* SPDX-License-Identifier: Apache-2.0 */
/* moment.c - which moment of a recording a time means, and whether it has such a moment. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "query/impl.h"

#define DAY (86400 * NS_PER_S)

/**
 * local_wall() - ns since 1970 of a clock time @days after the day on which @start_ns lies, where
 * we are. 0 or -1.
 */
static int local_wall(uint64_t start_ns, unsigned days, uint64_t clock_ns, uint64_t *wall_ns)
{
	time_t start = (time_t)(start_ns / NS_PER_S);
	struct tm tm;
	if (!localtime_r(&start, &tm))
		return -1;
	tm.tm_mday += (int)days;
	tm.tm_hour = (int)(clock_ns / (3600 * NS_PER_S));
	tm.tm_min = (int)(clock_ns / (60 * NS_PER_S) % 60);
	tm.tm_sec = (int)(clock_ns / NS_PER_S % 60);
	tm.tm_isdst = -1;
	time_t wall = mktime(&tm);
	if (wall < 0)
		return -1;
	*wall_ns = (uint64_t)wall * NS_PER_S + clock_ns % NS_PER_S;
	return 0;
}

/**
 * clock_wall() - the first such time of day that the recording has; that of its first day where it
 * has none.
 */
static uint64_t clock_wall(const struct query_time *time, uint64_t start_ns, uint64_t runtime_ns)
{
	uint64_t wall = 0, first = 0;
	for (unsigned day = 0; day <= runtime_ns / DAY + 1; day++) {
		if (local_wall(start_ns, day, time->value, &wall) < 0)
			break;
		if (day == 0)
			first = wall;
		if (wall + time->span_ns > start_ns && wall <= start_ns + runtime_ns)
			return wall;
	}
	return first;
}

/* How it is shown: rounded to three digits, so what is typed from there may be a little more. */
static uint64_t grace(uint64_t runtime_ns)
{
	uint64_t rounding = runtime_ns / 200;
	return rounding > 1000000 ? rounding : 1000000;
}

static void put_clock(char *to, size_t size, uint64_t wall_ns, int with_day)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_S);
	struct tm tm;
	if (!localtime_r(&seconds, &tm) ||
	    !strftime(to, size, with_day ? "%Y-%m-%d %H:%M:%S" : "%H:%M:%S", &tm))
		snprintf(to, size, "?");
}

static int outside(const struct query_time *time, uint64_t start_ns, uint64_t runtime_ns,
		   struct err *err)
{
	char length[TEXT_NUMBER_MAX], first[32], last[32];
	int bare = *time->text && time->text[strspn(time->text, "0123456789.")] == '\0';
	err_set(err, -EINVAL, "'%s' lies outside of the recording",
		*time->text ? time->text : "the moment");
	text_duration(length, runtime_ns);
	if (!start_ns)
		return err_hint(err, "it goes from 0 to %s%s%s%s", length,
				bare ? "; per cent are written " : "", bare ? time->text : "",
				bare ? "%" : "");
	put_clock(first, sizeof(first), start_ns, 1);
	put_clock(last, sizeof(last), start_ns + runtime_ns,
		  start_ns / DAY != (start_ns + runtime_ns) / DAY);
	return err_hint(err, "it goes from 0 to %s, that is from %s to %s%s%s%s", length, first,
			last, bare ? "; per cent are written " : "", bare ? time->text : "",
			bare ? "%" : "");
}

int query_mark(const struct marks *marks, uint64_t value, uint64_t *ns, struct err *err)
{
	const struct mark *mark = marks_find(marks, value);
	char list[160] = "";
	size_t len = 0;
	uint32_t i = 0;
	if (mark) {
		*ns = mark->time_ns;
		return 0;
	}
	for (; i < marks->count && len + 24 < sizeof(list); i++)
		if (marks_find(marks, marks->at[i].value) == &marks->at[i])
			len += (size_t)snprintf(list + len, sizeof(list) - len, "%s%llu",
						len ? ", " : "",
						(unsigned long long)marks->at[i].value);
	err_set(err, -EINVAL, "the recording has no mark %llu", (unsigned long long)value);
	if (marks->unknown)
		return err_hint(err, "its summary was written before marks were kept in it");
	if (!marks->count)
		return err_hint(err, "'byteledger heap -p PID --mark N' marks moments, as "
				     "byteledger_heap_set_marker() "
				     "of the program does");
	return err_hint(err, "it has %s%s", list,
			i < marks->count || marks->total > marks->count ? " and others" : "");
}

static int resolve(const struct query_time *time, const struct prof *reading, int strict, int last,
		   uint64_t *ns, struct err *err)
{
	struct prof_totals totals;
	prof_totals(reading, &totals);
	const struct prof_process *process = prof_process(reading);
	uint64_t end = totals.runtime_ns, start = process ? process->start_realtime_ns : 0, wall;
	switch (time->kind) {
	case QUERY_TIME_START_NS:
		*ns = time->value;
		if (strict && *ns > end) {
			if (*ns - end > grace(end))
				return outside(time, start, end, err);
			*ns = end;
		}
		return 0;
	case QUERY_TIME_END_NS:
		if (strict && time->value > end && time->value - end > grace(end))
			return outside(time, start, end, err);
		*ns = time->value < end ? end - time->value : 0;
		return 0;
	case QUERY_TIME_PERMILLION:
		*ns = (uint64_t)((__uint128_t)end * time->value / 1000000);
		return 0;
	case QUERY_TIME_PEAK:
		*ns = totals.peak_time_ns;
		return 0;
	case QUERY_TIME_MARK:
		return query_mark(prof_marks(reading), time->value, ns, err);
	case QUERY_TIME_WALL_NS:
	case QUERY_TIME_CLOCK_NS:
		if (!start) {
			err_set(err, -EINVAL, "the recording does not know the time of day");
			return err_hint(err, "give a time from its start, like 10s");
		}
		wall = time->kind == QUERY_TIME_WALL_NS ? time->value
							: clock_wall(time, start, end);
		uint64_t span = time->span_ns ? time->span_ns : 1;
		if (strict && (wall + span <= start ||
			       (wall > start + end && wall - start - end > grace(end))))
			return outside(time, start, end, err);
		*ns = wall > start ? wall - start : 0;
		/* a minute or second that had begun before: what it says of the end of it */
		if (wall < start && last && wall + span > start)
			*ns = wall + span - start - 1 < end ? wall + span - start - 1 : end;
		return 0;
	case QUERY_TIME_NONE:
	case QUERY_TIME_END:
		break;
	}
	*ns = end;
	return 0;
}

int query_time_resolve(const struct query_time *time, const struct prof *reading, uint64_t *ns,
		       struct err *err)
{
	return resolve(time, reading, 0, 0, ns, err);
}

int query_time_resolve_inside(const struct query_time *time, const struct prof *reading, int last,
			      uint64_t *ns, struct err *err)
{
	return resolve(time, reading, 1, last, ns, err);
}
