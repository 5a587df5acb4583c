/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/log.h"

#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "preload/thread.h"

static enum log_level least = LOG_ERROR;
static const char *log_path;
static uint64_t rotate_bytes;
static int kept_initial;

struct line {
	char text[1024];
	size_t len;
};

static void put_text(struct line *line, const char *text)
{
	for (; *text && line->len < sizeof(line->text) - 1; text++) {
		char c = *text;
		line->text[line->len++] = (unsigned char)c < ' ' || c == 127 ? '?' : c;
	}
}

static void put_number(struct line *line, long value, int width)
{
	char digits[24];
	int at = sizeof(digits) - 1;
	unsigned long v = value < 0 ? 0UL - (unsigned long)value : (unsigned long)value;
	digits[at] = '\0';
	do {
		digits[--at] = (char)('0' + v % 10);
		v /= 10;
	} while (v);
	while ((int)sizeof(digits) - 1 - at < width)
		digits[--at] = '0';
	if (value < 0)
		digits[--at] = '-';
	put_text(line, digits + at);
}

/* Days since 1970 to a date (proleptic Gregorian). */
static void put_time(struct line *line)
{
	struct timespec ts;
	clock_gettime(CLOCK_REALTIME, &ts);
	long days = ts.tv_sec / 86400, second = ts.tv_sec % 86400;
	long z = days + 719468, era = z / 146097, doe = z - era * 146097;
	long yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	long doy = doe - (365 * yoe + yoe / 4 - yoe / 100), mp = (5 * doy + 2) / 153;
	long day = doy - (153 * mp + 2) / 5 + 1, month = mp < 10 ? mp + 3 : mp - 9;
	put_number(line, yoe + era * 400 + (month <= 2), 4);
	put_text(line, "-");
	put_number(line, month, 2);
	put_text(line, "-");
	put_number(line, day, 2);
	put_text(line, "T");
	put_number(line, second / 3600, 2);
	put_text(line, ":");
	put_number(line, second / 60 % 60, 2);
	put_text(line, ":");
	put_number(line, second % 60, 2);
	put_text(line, ".");
	put_number(line, ts.tv_nsec / 1000000, 3);
	put_text(line, "Z");
}

static void rotate(long fd)
{
	struct stat st;
	char to[1024];
	size_t len = strlen(log_path);
	if (!rotate_bytes || sys_failed(sys2(SYS_fstat, fd, &st)) ||
	    (uint64_t)st.st_size <= rotate_bytes || len + 9 > sizeof(to))
		return;
	memcpy(to, log_path, len);
	/* the beginning says what was asked for: it is kept */
	strcpy(to + len, ".initial");
	if (kept_initial || !sys_failed(sys3(SYS_faccessat, AT_FDCWD, to, 0)))
		strcpy(to + len, ".old");
	kept_initial = 1;
	sys5(SYS_renameat2, AT_FDCWD, log_path, AT_FDCWD, to, 0);
}

void log_open(const char *level, const char *path, uint64_t rotate_when)
{
	static const char *const names[] = { "trace", "debug", "info", "warn", "error" };
	for (int i = 0; level && i < (int)(sizeof(names) / sizeof(names[0])); i++)
		if (strcmp(level, names[i]) == 0)
			least = (enum log_level)i;
	if (level && strcmp(level, "off") == 0)
		least = LOG_OFF;
	log_path = path;
	rotate_bytes = rotate_when;
}

void log_line(enum log_level level, const char *text, ...)
{
	static const char *const names[] = { "TRC", "DBG", "INF", "WRN", "ERR" };
	if (level < least || no_calls())
		return;
	struct line line;
	line.len = 0;
	put_text(&line, "[");
	put_time(&line);
	put_text(&line, "] [");
	put_number(&line, sys0(SYS_getpid), 0);
	put_text(&line, " ");
	put_number(&line, sys0(SYS_gettid), 0);
	put_text(&line, "] ");
	put_text(&line, names[level]);
	put_text(&line, " ");
	va_list args;
	va_start(args, text);
	for (; *text; text++) {
		char one[2] = { *text, '\0' };
		if (*text != '%') {
			put_text(&line, one);
		} else if (*++text == 's') {
			put_text(&line, va_arg(args, const char *));
		} else if (*text == 'd') {
			put_number(&line, va_arg(args, long), 0);
		}
	}
	va_end(args);
	line.text[line.len++] = '\n';
	if (!log_path) {
		sys3(SYS_write, 2, line.text, line.len);
		return;
	}
	/* opened for each line: a daemon closes every descriptor it does not know */
	long fd = sys4(SYS_openat, AT_FDCWD, log_path,
		       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (sys_failed(fd))
		return;
	sys3(SYS_write, fd, line.text, line.len);
	rotate(fd);
	sys1(SYS_close, fd);
}
