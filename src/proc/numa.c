/* SPDX-License-Identifier: Apache-2.0 */
#include "proc/numa.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "proc/smaps.h"

#define TEXT_MAX (256ull << 20) /* a mapping's line has some 100 bytes */

static struct numa_row *new_row(struct numa *numa)
{
	if (numa->count % 256 == 0) {
		struct numa_row *grown = realloc(numa->rows, (numa->count + 256) * sizeof(*grown));
		if (!grown)
			return NULL;
		numa->rows = grown;
	}
	struct numa_row *row = &numa->rows[numa->count++];
	*row = (struct numa_row){ 0 };
	return row;
}

/* "N0=123": pages of a node; "kernelpagesize_kB=4": how large they are. */
static void take_word(const char *word, uint64_t pages[NUMA_NODES_MAX + 1], uint64_t *page_bytes)
{
	char *end;
	if (word[0] == 'N' && word[1] >= '0' && word[1] <= '9') {
		unsigned long long node = strtoull(word + 1, &end, 10);
		if (*end == '=')
			pages[node < NUMA_NODES_MAX ? node : NUMA_NODES_MAX] +=
				strtoull(end + 1, NULL, 10);
	} else if (strncmp(word, "kernelpagesize_kB=", 18) == 0) {
		unsigned long long kib = strtoull(word + 18, NULL, 10);
		*page_bytes = kib && kib <= 1u << 21 ? kib << 10 : *page_bytes;
	}
}

/* "7f00 default anon=3 dirty=3 N0=3 kernelpagesize_kB=4"; a file's name has its blanks escaped. */
static int take_line(struct numa *numa, char *line)
{
	uint64_t pages[NUMA_NODES_MAX + 1] = { 0 }, page_bytes = 4096;
	char *rest = NULL, *end;
	char *word = strtok_r(line, " ", &rest);
	uint64_t start = word ? strtoull(word, &end, 16) : 0;
	char *policy = word && *end == '\0' ? strtok_r(NULL, " ", &rest) : NULL;
	if (!policy)
		return 0;
	while ((word = strtok_r(NULL, " ", &rest)) != NULL)
		if (strncmp(word, "file=", 5) != 0)
			take_word(word, pages, &page_bytes);
	struct numa_row *row = new_row(numa);
	if (!row)
		return -ENOMEM;
	row->start = start;
	snprintf(row->policy, sizeof(row->policy), "%.39s", policy);
	for (unsigned i = 0; i <= NUMA_NODES_MAX; i++) {
		uint64_t bytes;
		if (__builtin_mul_overflow(pages[i], page_bytes, &bytes))
			bytes = 0;
		*(i < NUMA_NODES_MAX ? &row->node_bytes[i] : &row->other_bytes) = bytes;
	}
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct numa_row *x = a, *y = b;
	return x->start < y->start ? -1 : x->start > y->start;
}

int numa_parse(struct numa *numa, const char *text)
{
	char *copy = strdup(text), *rest = NULL;
	int rc = copy ? 0 : -ENOMEM;
	for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line && rc == 0;
	     line = strtok_r(NULL, "\n", &rest))
		rc = take_line(numa, line);
	free(copy);
	if (numa->count)
		qsort(numa->rows, numa->count, sizeof(*numa->rows), by_start);
	return rc;
}

int numa_read(const struct target *target, struct numa *numa, uint64_t *stall_ns)
{
	struct err ignored = { 0 };
	size_t len = 0, room = 1u << 16;
	int fd = target_file(target, "numa_maps", &ignored), rc = 0;
	if (fd < 0)
		return fd;
	char *text = malloc(room);
	ssize_t got = 0;
	struct turns turns;
	walk_turns(&turns, target, TURNS_RAISED);
	while (text && len < TEXT_MAX) {
		uint64_t before = turns_begin(&turns);
		got = read(fd, text + len, room - len - 1);
		if (got < 0)
			rc = -errno;
		turns_end(&turns, before, stall_ns);
		if (got <= 0)
			break;
		len += (size_t)got;
		if (room - len > 4096)
			continue;
		char *grown = realloc(text, room * 2);
		if (!grown)
			free(text);
		text = grown;
		room *= 2;
	}
	turns_over(&turns);
	close(fd);
	if (text)
		text[len] = '\0';
	if (rc == 0)
		rc = text ? numa_parse(numa, text) : -ENOMEM;
	free(text);
	return rc;
}

const struct numa_row *numa_at(const struct numa *numa, uint64_t start)
{
	struct numa_row key = { .start = start };
	return numa && numa->count
		       ? bsearch(&key, numa->rows, numa->count, sizeof(*numa->rows), by_start)
		       : NULL;
}

int numa_is_told(const struct numa_row *row)
{
	unsigned nodes = row->other_bytes != 0;
	for (unsigned i = 0; i < NUMA_NODES_MAX; i++)
		nodes += row->node_bytes[i] != 0;
	return nodes > 1 || strcmp(row->policy, "default") != 0;
}

void numa_free(struct numa *numa)
{
	if (numa)
		free(numa->rows);
	free(numa);
}
