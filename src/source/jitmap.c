/* SPDX-License-Identifier: Apache-2.0 */
#include "source/jitmap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fileio.h"

#define ROWS_MAX (1u << 20)
#define TEXT_MAX (128u << 20) /* of names */
#define NAME_MAX_BYTES 4096
#define RECENT 1024  /* rows that are looked through one by one before they are sorted in */
#define LOOK_BACK 64 /* rows that may lie over an address */
#define CHUNK (256 << 10)
#define DUMP_LOOK_NS 500000000u
#define DUMP_MAGIC 0x4a695444u
#define DUMP_HEADER 40
#define RECORD_HEADER 16
#define RECORD_MAX (16u << 20)

struct tail {
	/* -1: not open */
	int fd;
	/* read so far */
	uint64_t at;
	/* it makes no sense, or is another's */
	int given_up;
};

struct jitmap {
	pid_t pid, own_pid;
	/* of the program, kept: once it has ended nobody can open it */
	int root;
	uid_t uid;
	struct tail map, dump;
	uint64_t dump_looked_ns;
	/* by start, then number */
	struct jit_code *sorted;
	size_t sorted_count, sorted_room;
	struct jit_code recent[RECENT];
	size_t recent_count;
	uint32_t next_number;
	uint64_t text_bytes;
	char *chunk;
};

struct jitmap *jitmap_new(pid_t pid, pid_t own_pid)
{
	struct jitmap *m = calloc(1, sizeof(*m));
	char path[64];
	struct stat st;
	if (!m)
		return NULL;
	m->pid = pid;
	m->own_pid = own_pid;
	m->map.fd = m->dump.fd = -1;
	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	m->root = pid > 0 ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	snprintf(path, sizeof(path), "/proc/%d", (int)pid);
	m->uid = stat(path, &st) == 0 ? st.st_uid : (uid_t)-1;
	return m;
}

void jitmap_free(struct jitmap *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->sorted_count; i++)
		free((char *)m->sorted[i].function);
	for (size_t i = 0; i < m->recent_count; i++)
		free((char *)m->recent[i].function);
	if (m->root >= 0)
		close(m->root);
	if (m->map.fd >= 0)
		close(m->map.fd);
	if (m->dump.fd >= 0)
		close(m->dump.fd);
	free(m->sorted);
	free(m->chunk);
	free(m);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int by_start(const void *a, const void *b)
{
	const struct jit_code *x = a, *y = b;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

/* The recent ones into their places: both parts are sorted. */
static int settle(struct jitmap *m)
{
	size_t count = m->sorted_count + m->recent_count;
	if (count > m->sorted_room) {
		size_t room = m->sorted_room ? 2 * m->sorted_room : 4 * RECENT;
		struct jit_code *grown = reallocarray(m->sorted, room, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		m->sorted = grown;
		m->sorted_room = room;
	}
	qsort(m->recent, m->recent_count, sizeof(*m->recent), by_start);
	size_t old = m->sorted_count, fresh = m->recent_count;
	for (size_t to = count; fresh; to--) {
		int take_old = old && by_start(&m->sorted[old - 1], &m->recent[fresh - 1]) > 0;
		m->sorted[to - 1] = take_old ? m->sorted[--old] : m->recent[--fresh];
	}
	m->sorted_count = count;
	m->recent_count = 0;
	return 0;
}

/*
 * "JS:*name /a/file.js:12:34": what stands before the place is the name; @name is cut there. NULL:
 * it tells no place.
 */
static char *split_place(char *name, uint32_t *line)
{
	char *at = strrchr(name, ':'), *end;
	if (!at || at == name || strspn(at + 1, "0123456789") != strlen(at + 1) || !at[1])
		return NULL;
	*at = '\0';
	char *before = strrchr(name, ':');
	if (!before || strspn(before + 1, "0123456789") != strlen(before + 1) || !before[1]) {
		*at = ':';
		return NULL;
	}
	unsigned long n = strtoul(before + 1, &end, 10);
	*before = '\0';
	*line = n <= UINT32_MAX ? (uint32_t)n : 0;
	char *space = strchr(name, ' ');
	if (!space)
		return NULL;
	*space = '\0';
	char *file = space + 1;
	if (strncmp(file, "file://", 7) == 0)
		file += 7;
	return *file ? file : NULL;
}

/* Kinds of V8's code and its tiers say nothing that anybody asks of a name. */
static char *bare_name(char *name)
{
	static const char *const kinds[] = { "JS:", "LazyCompile:", "Function:", "Script:",
					     "Eval:" };
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		size_t len = strlen(kinds[i]);
		if (strncmp(name, kinds[i], len) != 0)
			continue;
		name += len;
		return name + (*name && strchr("~^+*", *name) ? 1 : 0);
	}
	return name;
}

static void add_row(struct jitmap *m, uint64_t start, uint64_t size, const char *name, size_t len)
{
	uint64_t end;
	if (!size || __builtin_add_overflow(start, size, &end) || !len ||
	    m->next_number == ROWS_MAX || m->text_bytes > TEXT_MAX)
		return;
	len = len > NAME_MAX_BYTES ? NAME_MAX_BYTES : len;
	/* the name comes first, and owns what follows it */
	char *text = malloc(len + sizeof("(anonymous)"));
	if (!text || (m->recent_count == RECENT && settle(m) < 0)) {
		free(text);
		return;
	}
	memcpy(text, name, len);
	text[len] = '\0';
	m->text_bytes += len + 16;
	struct jit_code *row = &m->recent[m->recent_count++];
	*row = (struct jit_code){ .start = start, .end = end, .number = ++m->next_number };
	char *bare = bare_name(text);
	row->file = bare == text ? NULL : split_place(bare, &row->line);
	size_t used = strlen(bare);
	if (!row->file)
		row->line = 0;
	/* the file stands behind the name in the same memory: only the name moves */
	if (!used) {
		char *file = row->file ? strdup(row->file) : NULL;
		size_t file_len = file ? strlen(file) : 0;
		char *whole = malloc(sizeof("(anonymous)") + file_len + 1);
		if (whole) {
			strcpy(whole, "(anonymous)");
			row->file = file ? strcpy(whole + sizeof("(anonymous)"), file) : NULL;
			free(text);
			text = whole;
		}
		free(file);
	} else if (bare != text) {
		memmove(text, bare, used + 1);
	}
	row->function = text;
}

static const struct jit_code *better(const struct jit_code *a, const struct jit_code *b)
{
	return !a || b->number > a->number ? b : a;
}

const struct jit_code *jitmap_find(const struct jitmap *m, uint64_t addr)
{
	const struct jit_code *found = NULL;
	for (size_t i = m->recent_count; i-- > 0 && !found;)
		if (addr >= m->recent[i].start && addr < m->recent[i].end)
			found = &m->recent[i];
	if (found)
		return found;
	size_t low = 0, high = m->sorted_count;
	while (low < high) {
		size_t mid = (low + high) / 2;
		if (m->sorted[mid].start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	for (size_t i = low; i-- > 0 && low - i <= LOOK_BACK;)
		if (addr < m->sorted[i].end)
			found = better(found, &m->sorted[i]);
	return found;
}

/* ---- perf maps ------------------------------------------------------------------------------- */

static const char *hex(const char *at, const char *end, uint64_t *to)
{
	const char *from = at;
	*to = 0;
	if (end - at > 2 && at[0] == '0' && (at[1] | 32) == 'x')
		from = at += 2;
	for (; at < end; at++) {
		char c = *at;
		unsigned digit = c >= '0' && c <= '9' ? (unsigned)(c - '0')
				 : (c | 32) >= 'a' && (c | 32) <= 'f'
					 ? (unsigned)((c | 32) - 'a' + 10)
					 : 16;
		if (digit > 15)
			break;
		if (*to >> 60)
			return NULL;
		*to = *to << 4 | digit;
	}
	return at == from || at == end || *at != ' ' ? NULL : at + 1;
}

size_t jitmap_text(struct jitmap *m, const char *text, size_t bytes)
{
	size_t taken = 0;
	for (const char *end; (end = memchr(text + taken, '\n', bytes - taken));
	     taken = (size_t)(end + 1 - text)) {
		uint64_t start, size;
		const char *at = hex(text + taken, end, &start);
		at = at ? hex(at, end, &size) : NULL;
		if (at)
			add_row(m, start, size, at, (size_t)(end - at));
	}
	return taken;
}

/* ---- jitdump --------------------------------------------------------------------------------- */

struct record {
	uint32_t id, bytes;
	uint64_t time;
};

struct code_load {
	uint32_t pid, tid;
	uint64_t vma, addr, size, index;
};

struct code_move {
	uint32_t pid, tid;
	uint64_t vma, from, to, size, index;
};

ssize_t jitmap_dump(struct jitmap *m, const void *bytes, size_t count)
{
	const char *at = bytes;
	size_t taken = 0;
	while (count - taken >= RECORD_HEADER) {
		struct record record;
		struct code_load load;
		struct code_move move;
		memcpy(&record, at + taken, sizeof(record));
		if (record.bytes < RECORD_HEADER || record.bytes > RECORD_MAX)
			return -EBADMSG;
		if (record.bytes > count - taken)
			break;
		const char *body = at + taken + RECORD_HEADER;
		size_t left = record.bytes - RECORD_HEADER;
		if (record.id == 0 && left > sizeof(load)) {
			memcpy(&load, body, sizeof(load));
			const char *name = body + sizeof(load);
			add_row(m, load.addr, load.size, name, strnlen(name, left - sizeof(load)));
		} else if (record.id == 1 && left >= sizeof(move)) {
			memcpy(&move, body, sizeof(move));
			const struct jit_code *old = jitmap_find(m, move.from);
			if (old && old->start == move.from)
				add_row(m, move.to, move.size, old->function,
					strlen(old->function));
		}
		taken += record.bytes;
	}
	return (ssize_t)taken;
}

/* ---- files ----------------------------------------------------------------------------------- */

static int open_below(const struct jitmap *m, const char *path)
{
	struct open_how how = { .flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	struct stat st;
	if (m->root < 0)
		return -1;
	int fd = (int)syscall(SYS_openat2, m->root, path, &how, sizeof(how));
	/* anybody may put a file into /tmp */
	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) ||
			(st.st_uid != m->uid && st.st_uid != 0))) {
		close(fd);
		fd = -1;
	}
	return fd;
}

static void read_map(struct jitmap *m)
{
	char path[64];
	if (m->map.fd < 0) {
		snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)m->own_pid);
		m->map.fd = open_below(m, path);
	}
	while (m->map.fd >= 0) {
		ssize_t got = pread(m->map.fd, m->chunk, CHUNK, (off_t)m->map.at);
		if (got <= 0)
			return;
		size_t taken = jitmap_text(m, m->chunk, (size_t)got);
		if (!taken && got == CHUNK) /* a line without an end */
			taken = CHUNK;
		m->map.at += taken;
		if (taken < (size_t)got / 2)
			return;
	}
}

/* It is mapped executable, which is the sign that perf looks for. */
static void find_dump(struct jitmap *m)
{
	char path[64], want[64];
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	if (m->dump.given_up || (m->dump_looked_ns && now - m->dump_looked_ns < DUMP_LOOK_NS))
		return;
	m->dump_looked_ns = now;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)m->pid);
	snprintf(want, sizeof(want), "/jit-%d.dump\n", (int)m->own_pid);
	FILE *maps = fopen(path, "re");
	char *line = NULL;
	size_t room = 0;
	for (ssize_t len; maps && m->dump.fd < 0 && (len = getline(&line, &room, maps)) > 0;) {
		size_t tail = strlen(want);
		char *name = strchr(line, '/');
		if (!name || (size_t)len < tail || strcmp(line + len - tail, want) != 0)
			continue;
		line[len - 1] = '\0';
		m->dump.fd = open_below(m, name);
	}
	free(line);
	if (maps)
		fclose(maps);
}

static void read_dump(struct jitmap *m)
{
	if (m->dump.fd < 0)
		find_dump(m);
	uint32_t head[4];
	if (m->dump.fd >= 0 && !m->dump.at) {
		if (pread(m->dump.fd, head, sizeof(head), 0) != sizeof(head))
			return;
		m->dump.given_up =
			head[0] != DUMP_MAGIC || head[2] < DUMP_HEADER || head[2] > CHUNK;
		m->dump.at = head[2];
	}
	while (m->dump.fd >= 0 && !m->dump.given_up) {
		ssize_t got = pread(m->dump.fd, m->chunk, CHUNK, (off_t)m->dump.at);
		ssize_t taken = got > 0 ? jitmap_dump(m, m->chunk, (size_t)got) : 0;
		if (taken < 0)
			m->dump.given_up = 1;
		if (got == CHUNK && taken ==
					    /*
			     * code larger than what is read at once has a name, too: it is passed
			     * by
			     */
					    0) {
			struct record record;
			memcpy(&record, m->chunk, sizeof(record));
			taken = (ssize_t)record.bytes;
		}
		if (taken <= 0)
			return;
		m->dump.at += (uint64_t)taken;
	}
}

void jitmap_poll(struct jitmap *m)
{
	if (!m->chunk && !(m->chunk = malloc(CHUNK)))
		return;
	read_map(m);
	read_dump(m);
}
