/* SPDX-License-Identifier: Apache-2.0 */
#include "api/tree_file.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "query/resident.h"

#define LOOK_NS NS_PER_S /* a recording that grows is looked at again */
#define KEPT 8           /* readings that were asked for lately */

struct tree_file {
	struct tree_source source;
	pthread_mutex_t lock;
	char **paths;
	size_t count;
	/* of the one that is open */
	char *open_path;
	struct resident *resident;
	int64_t bytes;
	uint64_t looked_ns;
	struct {
		size_t number;
		struct page_shot *shot;
	} kept[KEPT];
	size_t next;
};

static void forget(struct tree_file *file)
{
	for (size_t i = 0; i < KEPT; i++) {
		page_shot_put(file->kept[i].shot);
		file->kept[i].shot = NULL;
	}
	resident_freep(&file->resident);
	file->open_path = NULL;
}

/* The last of the recordings that has readings, as far as it is written by now. */
static int look(struct tree_file *file)
{
	uint64_t now = clock_ns(CLOCK_MONOTONIC);
	struct stat st;
	if (file->looked_ns && now - file->looked_ns < LOOK_NS)
		return file->resident != NULL;
	file->looked_ns = now;
	for (size_t i = file->count; i-- > 0;) {
		const char *path = file->paths[i];
		struct err ignored = { 0 };
		if (stat(path, &st) < 0)
			continue;
		if (file->open_path == path && file->bytes == st.st_size)
			return 1;
		struct resident *resident = resident_open(path, &ignored);
		if (!resident)
			continue;
		forget(file);
		file->resident = resident;
		file->open_path = file->paths[i];
		file->bytes = st.st_size;
		return 1;
	}
	return file->resident != NULL;
}

static struct page_shot *load(struct tree_file *file, size_t number)
{
	struct err ignored = { 0 };
	for (size_t i = 0; i < KEPT; i++)
		if (file->kept[i].shot && file->kept[i].number == number)
			return page_shot_get(file->kept[i].shot);
	struct page_shot *shot = resident_load(file->resident, number, &ignored);
	if (!shot)
		return NULL;
	page_shot_put(file->kept[file->next].shot);
	file->kept[file->next].number = number;
	file->kept[file->next].shot = page_shot_get(shot);
	file->next = (file->next + 1) % KEPT;
	return shot;
}

static struct page_shot *lend_past(void *ctx, uint64_t ago_ns)
{
	struct tree_file *file = ctx;
	struct page_shot *shot = NULL;
	pthread_mutex_lock(&file->lock);
	if (look(file)) {
		size_t last = resident_count(file->resident) - 1;
		uint64_t end_ns = resident_reading(file->resident, last)->time_ns;
		size_t number = last;
		if (ago_ns) {
			/* of the moments before the first reading, that one tells */
			number = ago_ns <= end_ns ? resident_at(file->resident, end_ns - ago_ns)
						  : SIZE_MAX;
		}
		shot = number < SIZE_MAX ? load(file, number) : NULL;
	}
	pthread_mutex_unlock(&file->lock);
	return shot;
}

static struct page_shot *lend(void *ctx)
{
	return lend_past(ctx, 0);
}

struct tree_file *tree_file_new(struct err *err)
{
	struct tree_file *file = calloc(1, sizeof(*file));
	if (!file) {
		err_set(err, -ENOMEM, "cannot serve");
		return NULL;
	}
	pthread_mutex_init(&file->lock, NULL);
	file->source = (struct tree_source){ .ctx = file, .lend = lend, .lend_past = lend_past };
	return file;
}

int tree_file_add(struct tree_file *file, const char *path)
{
	char *own = strdup(path);
	pthread_mutex_lock(&file->lock);
	char **grown = own ? reallocarray(file->paths, file->count + 1, sizeof(*grown)) : NULL;
	if (grown) {
		file->paths = grown;
		file->paths[file->count++] = STEAL(own);
		file->looked_ns = 0;
	}
	pthread_mutex_unlock(&file->lock);
	free(own);
	return grown ? 0 : -ENOMEM;
}

void tree_file_free(struct tree_file *file)
{
	if (!file)
		return;
	forget(file);
	for (size_t i = 0; i < file->count; i++)
		free(file->paths[i]);
	free(file->paths);
	pthread_mutex_destroy(&file->lock);
	free(file);
}

struct tree_source *tree_file_source(struct tree_file *file)
{
	return &file->source;
}
