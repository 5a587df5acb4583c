/* SPDX-License-Identifier: Apache-2.0 */
/* v1_search.c - which frames match, and what passes through them, each block once. */
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"

#define FRAMES_MAX 10000
#define LARGEST_MAX 200
#define TURNED_MAX 20000 /* of a turned tree's nodes, the costliest are looked through */

/** struct search - how names are compared. */
struct search {
	regex_t regex;
	int is_regex, exact_case;
	const char *text;
};

static int search_init(struct search *s, const char *find, struct err *err)
{
	size_t len = strlen(find);
	*s = (struct search){ .text = find };
	for (const char *at = find; *at; at++)
		s->exact_case |= *at >= 'A' && *at <= 'Z';
	if (find[0] != '/' || len < 3 || find[len - 1] != '/')
		return 0;
	char *pattern = strndup(find + 1, len - 2);
	int bad = pattern ? regcomp(&s->regex, pattern, REG_EXTENDED | REG_NOSUB) : REG_ESPACE;
	free(pattern);
	s->is_regex = bad == 0;
	return bad ? err_set(err, -EINVAL, "'find' is no regular expression") : 0;
}

static void search_fini(struct search *s)
{
	if (s->is_regex)
		regfree(&s->regex);
}

static int contains(const struct search *s, const char *name)
{
	if (!name)
		return 0;
	return (s->exact_case ? strstr(name, s->text) : strcasestr(name, s->text)) != NULL;
}

static int matches(const struct search *s, const struct fold_frame *f)
{
	if (s->is_regex)
		return f->function && regexec(&s->regex, f->function, 0, NULL, 0) == 0;
	return contains(s, f->function) || contains(s, f->module) || contains(s, f->file);
}

struct found {
	/* by frame */
	uint8_t *hit;
	uint64_t total, boxes, frames;
};

/**
 * add_up() - @hit by node, from the root on down: a block whose stack passes through a match counts
 * once.
 */
static int add_up(const struct fold *fold, const struct fold_sums *sums, struct found *found)
{
	uint8_t *below = calloc(fold->node_count, 1);
	if (!below)
		return -ENOMEM;
	for (uint32_t i = 1; i < fold->node_count; i++) {
		const struct fold_node *n = &fold->nodes[i];
		int hit = found->hit[n->frame];
		found->boxes += (uint64_t)(hit && sums->total[i]);
		below[i] = (uint8_t)(hit | below[n->parent]);
		if (below[i])
			sum_add(&found->total, sums->self[i]);
	}
	free(below);
	return 0;
}

/** struct best - the costliest so far, the largest first. */
struct best {
	struct {
		uint64_t total, key;
	} all[LARGEST_MAX];
	uint32_t count;
};

static void keep_best(struct best *best, uint64_t total, uint64_t key)
{
	uint32_t k = best->count;
	if (k == LARGEST_MAX && best->all[k - 1].total >= total)
		return;
	if (k == LARGEST_MAX)
		k--;
	else
		best->count++;
	for (; k && best->all[k - 1].total < total; k--)
		best->all[k] = best->all[k - 1];
	best->all[k].total = total;
	best->all[k].key = key;
}

/** put_largest() - keys of the costliest nodes that match, in the tree as it is shown. */
static int put_largest(struct v1_call *call, const struct fold_sums *sums,
		       const struct found *found, struct err *err)
{
	const struct fold *fold = call->folded->fold;
	struct v1_column keys = { 0 };
	struct best best = { .count = 0 };
	if (call->ask.inverted) {
		struct fold_picks picks;
		const struct fold_ask ask = { .cost = *sums,
					      .inverted = 1,
					      .nodes_max = TURNED_MAX };
		int rc = fold_choose(fold, &ask, &picks, err);
		if (rc < 0)
			return rc;
		for (uint32_t i = 1; i < picks.count; i++)
			if (found->hit[picks.all[i].frame])
				keep_best(&best, picks.all[i].total, picks.all[i].key);
		fold_picks_fini(&picks);
	} else {
		for (uint32_t i = 1; i < fold->node_count; i++)
			if (found->hit[fold->nodes[i].frame] && sums->total[i])
				keep_best(&best, sums->total[i], fold->nodes[i].key);
	}
	for (uint32_t i = 0; i < best.count; i++)
		v1_col_key(&keys, best.all[i].key);
	v1_col_put(call, "largest", &keys);
	return 0;
}

static int answer(struct v1_call *call, const uint64_t *values, struct found *found,
		  struct err *err)
{
	const struct fold *fold = call->folded->fold;
	struct jsonw *json = &call->json;
	struct fold_sums sums;
	struct v1_column keys = { 0 };
	uint64_t boxes = 0;
	int rc = fold_sum(fold, 0, values, &sums, err);
	if (rc == 0 && add_up(fold, &sums, found) < 0)
		rc = err_set(err, -ENOMEM, "cannot search");
	for (uint32_t i = 1; rc == 0 && i < fold->node_count; i++)
		boxes += sums.total[i] != 0;
	if (rc == 0) {
		jsonw_object(json, NULL);
		v1_head(call, values);
		/* the head's total is of everything selected */
		jsonw_u64(json, "matched", found->total);
		jsonw_u64(json, "boxes", found->boxes);
		jsonw_u64(json, "of", boxes);
		for (uint32_t i = 1, n = 0; i < fold->frame_count && n < FRAMES_MAX; i++) {
			if (found->hit[i]) {
				v1_col_key(&keys, fold->frames[i].key);
				n++;
			}
		}
		v1_col_put(call, "frames", &keys);
		jsonw_u64(json, "frames_total", found->frames);
		rc = put_largest(call, &sums, found, err);
		jsonw_object_end(json);
	}
	fold_sums_fini(&sums);
	return rc;
}

int v1_search(struct v1_call *call, struct err *err)
{
	struct search search;
	if (!call->ask.find) {
		err_set(err, -EINVAL, "'find' is missing");
		return err_hint(err, "some text, or /a regular expression/");
	}
	call->wants_one = 1;
	int rc = v1_fold(call, err);
	if (rc)
		return rc;
	const struct fold *fold = call->folded->fold;
	struct found found = { .hit = calloc(fold->frame_count, 1) };
	uint64_t *values = v1_values(call->reading, call->ask.cost, err);
	rc = !values      ? err->code
	     : !found.hit ? err_set(err, -ENOMEM, "cannot search")
			  : search_init(&search, call->ask.find, err);
	if (rc == 0) {
		for (uint32_t i = 1; i < fold->frame_count; i++) {
			found.hit[i] = (uint8_t)matches(&search, &fold->frames[i]);
			found.frames += found.hit[i];
		}
		search_fini(&search);
		rc = answer(call, values, &found, err);
	}
	free(values);
	free(found.hit);
	return rc;
}
