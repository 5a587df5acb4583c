/* SPDX-License-Identifier: Apache-2.0 */
/* shelf_fold.c - folded trees that several questions share. */
#include "api/shelf_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- folded trees ---------------------------------------------------------------------------- */

static void fold_unref(struct shelf *shelf, struct own_fold *f)
{
	if (--f->refs)
		return;
	fold_free(f->fold.fold);
	pthread_mutex_lock(&shelf->lock);
	for (unsigned i = 0; i < FOLD_SIDES_MAX; i++)
		shelf_book_unref((struct own_book *)f->fold.books[i]);
	pthread_mutex_unlock(&shelf->lock);
	free(f->key);
	free(f);
}

/**
 * trim_folds() - the one used longest ago goes, but never the newest without transforms: most
 * questions need that.
 */
static void trim_folds(struct shelf *shelf)
{
	unsigned count = 0;
	for (struct own_fold *f = shelf->folds; f; f = f->next)
		count++;
	for (; count > SHELF_FOLDS_MAX; count--) {
		struct own_fold **at = &shelf->folds;
		int has_plain = 0;
		for (struct own_fold **f = at; *f; f = &(*f)->next) {
			if ((*f)->key[0] || has_plain)
				at = f;
			has_plain |= !(*f)->key[0];
		}
		struct own_fold *f = *at;
		*at = f->next;
		f->on_shelf = 0;
		fold_unref(shelf, f);
	}
}

static int is_of(const struct own_fold *f, const char *key, struct reading *const *readings,
		 unsigned count)
{
	for (unsigned i = 0; i < FOLD_SIDES_MAX; i++)
		if (f->fold.books[i] != (i < count ? readings[i]->book : NULL))
			return 0;
	return strcmp(f->key, key) == 0;
}

static struct own_fold *make_fold(struct shelf *shelf, const struct fold_opt *opt, const char *key,
				  struct reading *const *readings, unsigned count, struct err *err)
{
	struct fold_side sides[FOLD_SIDES_MAX];
	struct own_fold *f = calloc(1, sizeof(*f));
	if (!f || !(f->key = strdup(key))) {
		free(f);
		err_set(err, -ENOMEM, "cannot fold the stacks");
		return NULL;
	}
	for (unsigned i = 0; i < count; i++)
		sides[i] = (struct fold_side){ readings[i]->book->names, readings[i]->book->stacks,
					       readings[i]->book->count };
	f->refs = 1;
	f->fold.fold = fold_new(opt, sides, count, err);
	if (!f->fold.fold) {
		free(f->key);
		free(f);
		return NULL;
	}
	pthread_mutex_lock(&shelf->lock);
	for (unsigned i = 0; i < count; i++) {
		f->fold.books[i] = readings[i]->book;
		((struct own_book *)readings[i]->book)->refs++;
	}
	pthread_mutex_unlock(&shelf->lock);
	f->on_shelf = 1;
	return f;
}

struct shelf_fold *shelf_fold(struct shelf *shelf, const struct fold_opt *opt, const char *key,
			      struct reading *const *readings, unsigned count, struct err *err)
{
	pthread_mutex_lock(&shelf->folding);
	struct own_fold *f = NULL;
	for (struct own_fold **at = &shelf->folds; *at && !f; at = &(*at)->next) {
		if (is_of(*at, key, readings, count)) {
			f = *at;
			*at = f->next;
			break;
		}
	}
	if (!f)
		f = make_fold(shelf, opt, key, readings, count, err);
	if (f) {
		f->refs++;
		f->next = shelf->folds;
		shelf->folds = f;
		trim_folds(shelf);
	}
	pthread_mutex_unlock(&shelf->folding);
	return f ? &f->fold : NULL;
}

void shelf_unfold(struct shelf *shelf, struct shelf_fold *fold)
{
	if (!fold)
		return;
	pthread_mutex_lock(&shelf->folding);
	fold_unref(shelf, (struct own_fold *)fold);
	pthread_mutex_unlock(&shelf->folding);
}

void shelf_shed_folds(struct shelf *shelf)
{
	pthread_mutex_lock(&shelf->folding);
	for (struct own_fold **at = &shelf->folds; *at;) {
		struct own_fold *f = *at;
		if (f->refs > 1) {
			at = &f->next;
			continue;
		}
		*at = f->next;
		f->on_shelf = 0;
		fold_unref(shelf, f);
	}
	pthread_mutex_unlock(&shelf->folding);
}

void shelf_free_folds(struct shelf *shelf)
{
	for (struct own_fold *f = shelf->folds, *next; f; f = next) {
		next = f->next;
		f->refs = 1;
		fold_unref(shelf, f);
	}
	shelf->folds = NULL;
}
