/* SPDX-License-Identifier: Apache-2.0 */
/* v1_search.c - which frames match, and what passes through them, each block once. */
#include <errno.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "api/v1_internal.h"

#define FRAMES_MAX 10000
#define LARGEST_MAX 200

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
	uint8_t *hit; /* by frame */
	uint64_t total, boxes, frames;
};

/** add_up() - @hit by node, from the root on down: a block whose stack passes through a match counts once. */
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

/** put_largest() - keys of the costliest nodes that match, in the tree as it is shown. */
static int put_largest(struct v1_call *call, const struct fold_sums *sums,
		       const struct found *found, struct err *err)
{
	struct fold_picks picks;
	struct v1_column keys = { 0 };
	const struct fold_ask ask = { .cost = *sums,
				      .inverted = call->ask.inverted,
				      .nodes_max = ASK_NODES_MAX };
	int rc = fold_choose(call->folded->fold, &ask, &picks, err);
	if (rc < 0)
		return rc;
	/* a few hundred of the largest: pick by pick the largest that is left would be too slow only for more */
	uint32_t *best = calloc(LARGEST_MAX, sizeof(*best)), count = 0;
	for (uint32_t i = 1; best && i < picks.count; i++) {
		const struct fold_pick *p = &picks.all[i];
		if (!found->hit[p->frame])
			continue;
		uint32_t k = count < LARGEST_MAX ? count++ : LARGEST_MAX - 1;
		if (k == LARGEST_MAX - 1 && count == LARGEST_MAX && best[k] &&
		    picks.all[best[k]].total >= p->total)
			continue;
		for (; k && picks.all[best[k - 1]].total < p->total; k--)
			best[k] = best[k - 1];
		best[k] = i;
	}
	for (uint32_t i = 0; i < count; i++)
		v1_col_key(&keys, picks.all[best[i]].key);
	free(best);
	v1_col_put(call, "largest", &keys);
	fold_picks_fini(&picks);
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
