/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smaps.c - the text of smaps and maps, line by line. The kernel escapes line ends in names, so a
 * line is a line.
 */
#include "proc/smaps.h"

#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define CHUNK (64u * 1024) /* the kernel hands out at most a page or the longest line a time */
/* a path has at most 4096 bytes, all of which may be escaped fourfold only as "\012" */
#define LINE_MAX_BYTES 8192u
#define WALKED_PAGE_NS 37u

/* In the order of the kernel's text, so that the next field is nearly always the expected one. */
static const struct {
	const char *key;
	unsigned len;
	size_t offset;
} fields[] = {
#define FIELD(key, member)                                                    \
	{                                                                     \
		key ":", sizeof(key ":") - 1, offsetof(struct region, member) \
	}
	FIELD("KernelPageSize", page_bytes),
	FIELD("Rss", rss_bytes),
	FIELD("Pss", pss_bytes),
	FIELD("Pss_Dirty", pss_dirty_bytes),
	FIELD("Shared_Clean", shared_clean_bytes),
	FIELD("Shared_Dirty", shared_dirty_bytes),
	FIELD("Private_Clean", private_clean_bytes),
	FIELD("Private_Dirty", private_dirty_bytes),
	FIELD("Referenced", referenced_bytes),
	FIELD("Anonymous", anonymous_bytes),
	FIELD("KSM", ksm_bytes),
	FIELD("LazyFree", lazy_free_bytes),
	FIELD("AnonHugePages", anon_huge_bytes),
	FIELD("ShmemPmdMapped", shmem_huge_bytes),
	FIELD("FilePmdMapped", file_huge_bytes),
	FIELD("Shared_Hugetlb", shared_hugetlb_bytes),
	FIELD("Private_Hugetlb", private_hugetlb_bytes),
	FIELD("Swap", swap_bytes),
	FIELD("SwapPss", swap_pss_bytes),
	FIELD("Locked", locked_bytes),
#undef FIELD
};

/*
 * The same once more as the kernel prints it: the key padded to 16 columns, the number in 8, " kB".
 * Nearly every line of smaps is one of these in this order, so they are recognised by comparing 16
 * bytes and need no search for the line's end.
 */
#define PADDED 16u
#define LINE_BYTES 28u
static const struct {
	char key[PADDED + 1];
	/* 0xffff: of no use here */
	uint16_t offset;
} plain_lines[] = {
	{ "Size:           ", 0xffff },
	{ "KernelPageSize: ", offsetof(struct region, page_bytes) },
	{ "MMUPageSize:    ", 0xffff },
	{ "Rss:            ", offsetof(struct region, rss_bytes) },
	{ "Pss:            ", offsetof(struct region, pss_bytes) },
	{ "Pss_Dirty:      ", offsetof(struct region, pss_dirty_bytes) },
	{ "Shared_Clean:   ", offsetof(struct region, shared_clean_bytes) },
	{ "Shared_Dirty:   ", offsetof(struct region, shared_dirty_bytes) },
	{ "Private_Clean:  ", offsetof(struct region, private_clean_bytes) },
	{ "Private_Dirty:  ", offsetof(struct region, private_dirty_bytes) },
	{ "Referenced:     ", offsetof(struct region, referenced_bytes) },
	{ "Anonymous:      ", offsetof(struct region, anonymous_bytes) },
	{ "KSM:            ", offsetof(struct region, ksm_bytes) },
	{ "LazyFree:       ", offsetof(struct region, lazy_free_bytes) },
	{ "AnonHugePages:  ", offsetof(struct region, anon_huge_bytes) },
	{ "ShmemPmdMapped: ", offsetof(struct region, shmem_huge_bytes) },
	{ "FilePmdMapped:  ", offsetof(struct region, file_huge_bytes) },
	{ "Shared_Hugetlb: ", offsetof(struct region, shared_hugetlb_bytes) },
	{ "Private_Hugetlb:", offsetof(struct region, private_hugetlb_bytes) },
	{ "Swap:           ", offsetof(struct region, swap_bytes) },
	{ "SwapPss:        ", offsetof(struct region, swap_pss_bytes) },
	{ "Locked:         ", offsetof(struct region, locked_bytes) },
};

/* Known and of no use here: the range says the size, the others are about the mapping's future. */
static const char *const skipped[] = { "Size:", "MMUPageSize:" };

#define FLAG(a, b) ((unsigned)((a) - 'a') * 26 + (unsigned)((b) - 'a'))
static const uint32_t flag_words[26 * 26] = {
	[FLAG('s', 'h')] = REGION_FLAG_SHARED,       [FLAG('g', 'd')] = REGION_FLAG_GROWSDOWN,
	[FLAG('p', 'f')] = REGION_FLAG_PFNMAP,       [FLAG('i', 'o')] = REGION_FLAG_IO,
	[FLAG('m', 'm')] = REGION_FLAG_MIXED,        [FLAG('d', 'd')] = REGION_FLAG_NODUMP,
	[FLAG('l', 'o')] = REGION_FLAG_LOCKED,       [FLAG('h', 't')] = REGION_FLAG_HUGETLB,
	[FLAG('h', 'g')] = REGION_FLAG_HUGEPAGE,     [FLAG('n', 'h')] = REGION_FLAG_NOHUGEPAGE,
	[FLAG('m', 'g')] = REGION_FLAG_MERGEABLE,    [FLAG('n', 'r')] = REGION_FLAG_NORESERVE,
	[FLAG('a', 'c')] = REGION_FLAG_ACCOUNTED,    [FLAG('w', 'f')] = REGION_FLAG_WIPEONFORK,
	[FLAG('s', 's')] = REGION_FLAG_SHADOW_STACK, [FLAG('s', 'l')] = REGION_FLAG_SEALED,
	[FLAG('g', 'u')] = REGION_FLAG_GUARD,
};

struct parser {
	region_fn fn;
	void *ctx;
	struct reading *reading;
	struct region region;
	/* a region waits for the end of its fields */
	int open;
	/* index in fields[] */
	unsigned expected;
	/* index in plain_lines[] */
	unsigned plain;
	char name[LINE_MAX_BYTES];
};

static const char *hex(const char *at, const char *end, uint64_t *value)
{
	uint64_t v = 0;
	const char *from = at;
	for (; at < end; at++) {
		unsigned c = (unsigned char)*at, digit;
		if (c - '0' < 10)
			digit = c - '0';
		else if (c - 'a' < 6)
			digit = c - 'a' + 10;
		else
			break;
		v = v << 4 | digit;
	}
	*value = v;
	return at == from || at - from > 16 ? NULL : at;
}

static const char *decimal(const char *at, const char *end, uint64_t *value)
{
	uint64_t v = 0;
	const char *from = at;
	for (; at < end && (unsigned)(*at - '0') < 10; at++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (unsigned)(*at - '0'), &v))
			return NULL;
	*value = v;
	return at == from ? NULL : at;
}

static const char *one(const char *at, const char *end, char wanted)
{
	return at && at < end && *at == wanted ? at + 1 : NULL;
}

/** header() - "start-end perms offset major:minor inode   name" and nothing else. */
static int header(struct parser *p, const char *at, const char *end)
{
	struct region *r = &p->region;
	uint64_t major, minor;
	memset(r, 0, sizeof(*r));
	at = hex(at, end, &r->start);
	at = one(at, end, '-');
	at = at ? hex(at, end, &r->end) : NULL;
	at = one(at, end, ' ');
	if (!at || end - at < 5 || r->end <= r->start)
		return -EBADMSG;
	static const char letters[4][2] = {
		{ 'r', '-' }, { 'w', '-' }, { 'x', '-' }, { 's', 'p' }
	};
	for (unsigned i = 0; i < 4; i++, at++) {
		if (*at == letters[i][0])
			r->perms |= (uint8_t)(1u << i);
		else if (*at != letters[i][1])
			return -EBADMSG;
	}
	at = one(at, end, ' ');
	at = at ? hex(at, end, &r->offset) : NULL;
	at = one(at, end, ' ');
	at = at ? hex(at, end, &major) : NULL;
	at = one(at, end, ':');
	at = at ? hex(at, end, &minor) : NULL;
	at = one(at, end, ' ');
	at = at ? decimal(at, end, &r->inode) : NULL;
	if (!at)
		return -EBADMSG;
	r->dev_major = (uint32_t)major;
	r->dev_minor = (uint32_t)minor;
	/*
	 * The name stands behind padding; one that begins with a blank (" Go: heap") is inside
	 * brackets.
	 */
	while (at < end && *at == ' ')
		at++;
	size_t len = (size_t)(end - at);
	memcpy(p->name, at, len);
	p->name[len] = '\0';
	r->name = p->name;
	r->label = "";
	return 0;
}

static int is_unit(const char *at, const char *end)
{
	return end - at == 3 && memcmp(at, " kB", 3) == 0;
}

/** number() - "   123 kB" or a bare "   123" behind a key. -1: neither. */
static int number(const char *at, const char *end, uint64_t *bytes, int *scaled)
{
	while (at < end && *at == ' ')
		at++;
	at = decimal(at, end, bytes);
	if (!at)
		return -1;
	*scaled = is_unit(at, end);
	if (*scaled)
		return __builtin_mul_overflow(*bytes, 1024u, bytes) ? -1 : 0;
	return at == end ? 0 : -1;
}

static void unknown(struct reading *reading, const char *key, size_t len, uint64_t bytes)
{
	if (len == 0 || len >= sizeof(reading->unknown[0].key))
		return;
	for (unsigned i = 0; i < reading->unknown_count; i++) {
		if (strncmp(reading->unknown[i].key, key, len) == 0 &&
		    reading->unknown[i].key[len] == '\0') {
			reading->unknown[i].bytes += bytes;
			return;
		}
	}
	if (reading->unknown_count == READING_UNKNOWN_MAX)
		return;
	memcpy(reading->unknown[reading->unknown_count].key, key, len);
	reading->unknown[reading->unknown_count].key[len] = '\0';
	reading->unknown[reading->unknown_count++].bytes = bytes;
}

static void vm_flags(struct region *r, const char *at, const char *end)
{
	while (end - at >= 2) {
		if (*at == ' ') {
			at++;
			continue;
		}
		if ((unsigned)(at[0] - 'a') < 26 && (unsigned)(at[1] - 'a') < 26)
			r->flags |= flag_words[FLAG(at[0], at[1])];
		at += 2;
	}
}

static int begins(const char *at, const char *end, const char *word, size_t len)
{
	return (size_t)(end - at) >= len && memcmp(at, word, len) == 0;
}

static int field(struct parser *p, const char *at, const char *end)
{
	for (unsigned n = 0; n < ARRAY_LEN(fields); n++) {
		unsigned i = p->expected + n;
		if (i >= ARRAY_LEN(fields))
			i -= ARRAY_LEN(fields);
		if (!begins(at, end, fields[i].key, fields[i].len))
			continue;
		uint64_t value;
		int scaled;
		if (number(at + fields[i].len, end, &value, &scaled) < 0 || !scaled)
			return -EBADMSG;
		memcpy((char *)&p->region + fields[i].offset, &value, sizeof(value));
		p->expected = i + 1 < ARRAY_LEN(fields) ? i + 1 : 0;
		/* an older kernel leaves fields out: go on behind this one */
		for (unsigned k = 0; k < ARRAY_LEN(plain_lines); k++)
			if (plain_lines[k].offset == fields[i].offset)
				p->plain = k + 1;
		return 0;
	}
	return 1;
}

static int other_field(struct parser *p, const char *at, const char *end)
{
	if (begins(at, end, "VmFlags:", 8)) {
		vm_flags(&p->region, at + 8, end);
		return 0;
	}
	for (unsigned i = 0; i < ARRAY_LEN(skipped); i++)
		if (begins(at, end, skipped[i], strlen(skipped[i])))
			return 0;
	const char *colon = memchr(at, ':', (size_t)(end - at));
	uint64_t value;
	int scaled;
	if (!colon || *at < 'A' || *at > 'Z')
		return -EBADMSG;
	if (number(colon + 1, end, &value, &scaled) == 0 && scaled)
		unknown(p->reading, at, (size_t)(colon - at), value);
	return 0;
}

static int finish(struct parser *p)
{
	if (!p->open)
		return 0;
	p->open = 0;
	p->reading->regions++;
	return p->fn(p->ctx, &p->region);
}

static int line(struct parser *p, const char *at, const char *end)
{
	unsigned c = (unsigned char)*at;
	if (c - '0' < 10 || c - 'a' < 6) { /* keys begin with a capital */
		int rc = finish(p);
		if (rc)
			return rc;
		rc = header(p, at, end);
		p->open = rc == 0;
		p->expected = 0;
		p->plain = 0;
		return rc;
	}
	if (!p->open)
		return -EBADMSG;
	/*
	 * "Size:" leads every region and is not a field of ours: skip it before the table is
	 * searched.
	 */
	if (c == 'S' && begins(at, end, "Size:", 5))
		return 0;
	/*
	 * More that are between expected ones, or behind them: looking them up would cost a walk of
	 * the table each.
	 */
	if (c == 'T' && begins(at, end, "THPeligible:", 12))
		return 0;
	if (c == 'P' && begins(at, end, "ProtectionKey:", 14)) {
		uint64_t key;
		int scaled;
		if (number(at + 14, end, &key, &scaled) == 0 && !scaled && key < 256)
			p->region.key = (uint8_t)key;
		return 0;
	}
	if ((c == 'M' && begins(at, end, "MMUPageSize:", 12)) || c == 'T' || c == 'V')
		return other_field(p, at, end);
	int rc = field(p, at, end);
	return rc == 1 ? other_field(p, at, end) : rc;
}

/**
 * padded_number() - eight characters, blanks and then digits, all at once; 0 where they are
 * anything else.
 */
static int padded_number(uint64_t text, uint64_t *value)
{
	const uint64_t ones = 0x0101010101010101ull, bit = 0x10 * ones;
	uint64_t v = le64toh(text),
		 blank = ~v & bit;                 /* of blank and digits only a blank lacks it */
	uint64_t digits = (v | bit) ^ 0x30 * ones; /* a blank counts as 0 */
	if ((digits + 0x76 * ones) & 0x80 * ones || digits & 0xf0 * ones || /* above 9 */
	    v & (blank >> 4) * 15 || /* something else that lacks the bit */
	    (blank >> 8 & ~blank) ||
	    blank >> 56) /* a blank behind a digit, or nothing but blanks */
		return 0;
	digits = (digits * 10 + (digits >> 8)) & 0x00ff00ff00ff00ffull;
	digits = (digits * 100 + (digits >> 16)) & 0x0000ffff0000ffffull;
	*value = (digits * 10000 + (digits >> 32)) & 0xffffffffull;
	return 1;
}

/**
 * plain_run() - take the expected lines that stand at @at exactly as the kernel prints them; where
 * they end.
 */
static const char *plain_run(struct parser *p, const char *at, const char *end)
{
	uint64_t none;
	uint32_t kb;
	memcpy(&kb, " kB\n", sizeof(kb));
	memcpy(&none, "       0", sizeof(none));
	unsigned n = p->plain;
	for (; n < ARRAY_LEN(plain_lines) && end - at >= (ptrdiff_t)LINE_BYTES;
	     n++, at += LINE_BYTES) {
		uint64_t key[2], line[3], kib;
		uint32_t unit;
		memcpy(key, plain_lines[n].key, sizeof(key));
		memcpy(line, at, sizeof(line));
		memcpy(&unit, at + LINE_BYTES - 4, sizeof(unit));
		if ((line[0] ^ key[0]) | (line[1] ^ key[1]) | (unit ^ kb))
			break;
		if (line[2] == none) /* most figures are 0, and so is the field already */
			continue;
		if (!padded_number(line[2], &kib))
			break;
		if (plain_lines[n].offset != 0xffff) {
			uint64_t bytes = kib * 1024;
			memcpy((char *)&p->region + plain_lines[n].offset, &bytes, sizeof(bytes));
		}
	}
	p->plain = n;
	return at;
}

/*
 * What to ask for at a time, so that the kernel makes no mapping's text twice: it fills one page,
 * and what did not fit any more it throws away and makes again at the next read, the walk through
 * the mapping's pages with it. Asked for less, it stops before: a mapping's text is seldom above
 * 800 bytes. Almost a third of what reading a small process costs, and of one mapping of gigabytes
 * a second walk under its lock.
 */
static size_t smaps_portion(void)
{
	return (size_t)sysconf(_SC_PAGESIZE) - 800;
}

/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one line of the file a case */
static int parse(int fd, size_t portion, struct turns *turns, region_fn fn, void *ctx,
		 struct reading *reading, struct err *err)
{
	struct parser p;
	memset(&p, 0, offsetof(struct parser, name)); /* not 8 KiB of name */
	p.fn = fn;
	p.ctx = ctx;
	p.reading = reading;
	char *text = malloc(CHUNK);
	if (!text)
		return err_set(err, -ENOMEM, "cannot read mappings");
	size_t have = 0;
	int rc = 0;
	uint64_t began = clock_ns(CLOCK_MONOTONIC);
	for (;;) {
		uint64_t before = turns_begin(turns);
		ssize_t got =
			read(fd, text + have, portion < CHUNK - have ? portion : CHUNK - have);
		int failed = errno;
		turns_end(turns, before, &reading->stall_ns);
		errno = failed;
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0) {
			rc = err_set(err, -errno, "cannot read mappings");
			break;
		}
		if (got == 0)
			break;
		have += (size_t)got;
		const char *at = text, *end = text + have, *stop;
		while (rc == 0 && at < end) {
			if (p.open && p.plain < ARRAY_LEN(plain_lines) &&
			    (at = plain_run(&p, at, end)) == end)
				break;
			stop = memchr(at, '\n', (size_t)(end - at));
			if (!stop)
				break;
			if ((size_t)(stop - at) >= LINE_MAX_BYTES || stop == at)
				rc = -EBADMSG;
			else
				rc = line(&p, at, stop);
			at = stop + 1;
		}
		have = (size_t)(end - at);
		if (rc == 0 && have >= LINE_MAX_BYTES)
			rc = -EBADMSG;
		if (rc)
			break;
		memmove(text, at, have);
	}
	if (rc == 0)
		rc = have ? -EBADMSG : finish(&p);
	if (rc == -EBADMSG && err && !err->code)
		err_set(err, rc, "cannot understand the list of mappings");
	free(text);
	reading->total_ns += clock_ns(CLOCK_MONOTONIC) - began;
	return rc;
}

int smaps_parse(int fd, region_fn fn, void *ctx, struct reading *reading, struct err *err)
{
	struct turns turns;
	turns_init(&turns, TURNS_NONE, 0);
	return parse(fd, CHUNK, &turns, fn, ctx, reading, err);
}

static int each(const struct target *target, const char *name, size_t portion, struct turns *turns,
		region_fn fn, void *ctx, struct reading *reading, struct err *err)
{
	memset(reading, 0, sizeof(*reading));
	int fd = target_file(target, name, err);
	if (fd < 0)
		return fd;
	int rc = parse(fd, portion, turns, fn, ctx, reading, err);
	turns_over(turns);
	close(fd);
	if (rc == -ESRCH || rc == -EACCES || rc == -EPERM)
		return target_fail(target, rc, name, err);
	if (rc < 0)
		return rc;
	/* smaps of a process without memory is empty: it became a zombie meanwhile */
	if (rc == 0 && reading->regions == 0)
		return target_fail(target, -ESRCH, name, err);
	return rc;
}

int smaps_each(const struct target *target, enum turns_how how, region_fn fn, void *ctx,
	       struct reading *reading, struct err *err)
{
	struct turns turns;
	walk_turns(&turns, target, how);
	int rc = each(target, "smaps", smaps_portion(), &turns, fn, ctx, reading, err);
	reading->list = reading->pages = "smaps";
	return rc;
}

int maps_each(const struct target *target, region_fn fn, void *ctx, struct reading *reading,
	      struct err *err)
{
	struct turns turns;
	turns_init(&turns, target->pid != getpid() ? TURNS_PAUSES : TURNS_NONE, target->tid);
	int rc = each(target, "maps", CHUNK, &turns, fn, ctx, reading, err);
	reading->list = "maps";
	return rc;
}

static uint64_t status_kib(const char *text, const char *key)
{
	const char *at = strstr(text, key);
	return at ? strtoull(at + strlen(key), NULL, 10) * 1024 : UINT64_MAX;
}

int totals_read(const struct target *target, struct proc_totals *totals, struct err *err)
{
	char text[8192];
	ssize_t got = target_text(target, "status", text, sizeof(text));
	if (got < 0)
		return target_fail(target, (int)got, "status", err);
	*totals = (struct proc_totals){
		.rss_bytes = status_kib(text, "\nVmRSS:"),
		.rss_anon_bytes = status_kib(text, "\nRssAnon:"),
		.rss_file_bytes = status_kib(text, "\nRssFile:"),
		.rss_shmem_bytes = status_kib(text, "\nRssShmem:"),
		.virtual_bytes = status_kib(text, "\nVmSize:"),
		.peak_bytes = status_kib(text, "\nVmHWM:"),
		.swap_bytes = status_kib(text, "\nVmSwap:"),
		.page_table_bytes = status_kib(text, "\nVmPTE:"),
		.hugetlb_bytes = status_kib(text, "\nHugetlbPages:"),
		.locked_bytes = status_kib(text, "\nVmLck:"),
		.pinned_bytes = status_kib(text, "\nVmPin:"),
	};
	const char *threads = strstr(text, "\nThreads:");
	totals->threads = threads ? strtoull(threads + 9, NULL, 10) : 0;
	if (totals->rss_bytes == UINT64_MAX)
		return target_fail(target, -ESRCH, "status", err);
	return 0;
}

void walk_turns(struct turns *turns, const struct target *target, enum turns_how how)
{
	char text[128];
	struct proc_totals totals;
	struct err ignored = { 0 };
	turns_init(turns, target->pid != getpid() ? how : TURNS_NONE, target->tid);
	if (turns->how < TURNS_RAISED)
		return;
	/* a microsecond, and enough of most processes: no more can be walked than is mapped */
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = UINT32_MAX;
	if (target_text(target, "statm", text, sizeof(text)) > 0)
		pages = strtoull(text, NULL, 10);
	turns_expect(turns, pages * WALKED_PAGE_NS);
	if (turns->too_long && totals_read(target, &totals, &ignored) == 0) {
		uint64_t swap = totals.swap_bytes == UINT64_MAX ? 0 : totals.swap_bytes;
		turns_expect(turns, (totals.rss_bytes + swap) / page * WALKED_PAGE_NS);
	}
}

int rollup_all(const struct target *target, enum turns_how how, struct rollup *rollup,
	       uint64_t *stall_ns, struct err *err)
{
	char text[4096];
	struct turns turns;
	walk_turns(&turns, target, how);
	uint64_t before = turns_begin(&turns), took = 0;
	ssize_t got = target_text(target, "smaps_rollup", text, sizeof(text));
	turns_end(&turns, before, &took);
	turns_over(&turns);
	if (got < 0)
		return target_fail(target, (int)got, "smaps_rollup", err);
	*rollup = (struct rollup){ .rss_bytes = status_kib(text, "\nRss:"),
				   .pss_bytes = status_kib(text, "\nPss:"),
				   .private_bytes = status_kib(text, "\nPrivate_Clean:") +
						    status_kib(text, "\nPrivate_Dirty:"),
				   .swap_bytes = status_kib(text, "\nSwap:") };
	if (rollup->rss_bytes == UINT64_MAX)
		return target_fail(target, -ESRCH, "smaps_rollup", err);
	if (stall_ns && took > *stall_ns)
		*stall_ns = took;
	return 0;
}

int rollup_read(const struct target *target, enum turns_how how, uint64_t *rss_bytes,
		uint64_t *pss_bytes, uint64_t *stall_ns, struct err *err)
{
	struct rollup rollup;
	int rc = rollup_all(target, how, &rollup, stall_ns, err);
	if (rc < 0)
		return rc;
	*rss_bytes = rollup.rss_bytes;
	*pss_bytes = rollup.pss_bytes;
	return 0;
}
