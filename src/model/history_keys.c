/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history_keys.c - the numbers of labels: given out in order of appearance, the last ones kept back
 * for what each class has beside them. Labels that have been gone for long make room for new ones:
 * their past is added to their class's "(other)".
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "model/history_impl.h"

#define OTHER "(other)"
#define OWN_MAX (HISTORY_LABELS_MAX - HISTORY_CLASSES_MAX)
#define NOWHERE UINT16_MAX
#define RETIRE_SAMPLES \
	(HISTORY_GONE_SAMPLES / 4) /* between two goes: all that is kept is gone through */

static uint32_t hash_of(const char *class, const char *label)
{
	uint32_t hash = 2166136261u; /* FNV-1a */
	for (; *class; class ++)
		hash = (hash ^ (uint8_t) * class) * 16777619u;
	hash *= 16777619u;
	for (; *label; label++)
		hash = (hash ^ (uint8_t)*label) * 16777619u;
	return hash;
}

static void name_key(struct history_key *key, const char *class, size_t class_len,
		     const char *label, size_t label_len)
{
	memset(key, 0, sizeof(*key));
	memcpy(key->class, class, class_len < HISTORY_NAME_MAX ? class_len : HISTORY_NAME_MAX);
	memcpy(key->label, label, label_len < HISTORY_NAME_MAX ? label_len : HISTORY_NAME_MAX);
}

static int find_key(const struct history *h, const struct history_key *name)
{
	uint32_t hash = hash_of(name->class, name->label);
	for (size_t i = 1; i < h->key_count; i++) {
		if (h->hashes[i] == hash && strcmp(h->keys[i].class, name->class) == 0 &&
		    strcmp(h->keys[i].label, name->label) == 0)
			return (int)i;
	}
	return -ENOENT;
}

int history_find_key(const struct history *h, const char *class, const char *label)
{
	struct history_key name;
	name_key(&name, class, strlen(class), label, strlen(label));
	return find_key(h, &name);
}

static int add_key(struct history *h, const struct history_key *name)
{
	size_t i = h->key_count;
	if (i == HISTORY_LABELS_MAX)
		return -ENOSPC;
	h->keys[i] = *name;
	h->keys[i].id = ++h->next_id;
	h->hashes[i] = hash_of(name->class, name->label);
	h->seen[i] = h->samples;
	h->changes++;
	h->key_count++;
	return (int)i;
}

int history_take_key(struct history *h, const char *class, size_t class_len, const char *label,
		     size_t label_len)
{
	struct history_key name;
	name_key(&name, class, class_len, label, label_len);
	int rc = add_key(h, &name);
	return rc < 0 ? rc : 0;
}

int history_key_of(struct history *h, const char *class, const char *label)
{
	struct history_key name;
	name_key(&name, class, strlen(class), label, strlen(label));
	int key = find_key(h, &name);
	if (key >= 0 || h->key_count < OWN_MAX)
		return key >= 0 ? key : add_key(h, &name);
	name_key(&name, class, strlen(class), OTHER, strlen(OTHER));
	key = find_key(h, &name);
	if (key >= 0 || h->key_count < HISTORY_LABELS_MAX - 1)
		return key >= 0 ? key : add_key(h, &name);
	/* more classes than there are: a file of somebody else's */
	name_key(&name, OTHER, strlen(OTHER), OTHER, strlen(OTHER));
	key = find_key(h, &name);
	return key >= 0 ? key : add_key(h, &name);
}

/* ---- retiring -------------------------------------------------------------------------------- */

struct fold {
	/* new numbers */
	uint16_t to[HISTORY_LABELS_MAX];
	size_t keys;
	struct buf out;
	struct history_values last[HISTORY_LABELS_MAX], now[HISTORY_LABELS_MAX];
	uint64_t last_ms;
	int begun;
};

static void fold_values(const struct fold *f, struct history_values *to,
			const struct history_values *from)
{
	memset(to, 0, HISTORY_LABELS_MAX * sizeof(*to));
	for (size_t i = 0; i < HISTORY_LABELS_MAX; i++) {
		for (unsigned k = 0; k < VALUES && f->to[i] != NOWHERE; k++)
			to[f->to[i]].v[k] += from[i].v[k];
	}
}

static int fold_frame(void *ctx, uint64_t time_ms, const struct history_values *values)
{
	struct fold *f = ctx;
	fold_values(f, f->now, values);
	history_encode(&f->out, !f->begun, time_ms, f->last_ms, f->last, f->now, f->keys);
	memcpy(f->last, f->now, sizeof(f->last));
	f->last_ms = time_ms;
	f->begun = 1;
	return buf_failed(&f->out) ? -ENOMEM : 0;
}

/* All chunks in the new numbers, in @out in order; nothing is changed yet. */
static int fold_chunks(const struct history *h, struct fold *f, struct buf *out)
{
	for (unsigned t = 0; t < HISTORY_TIERS; t++) {
		for (const struct history_chunk *c = h->tiers[t].first; c; c = c->next) {
			f->begun = 0;
			f->out = (struct buf){ 0 };
			int rc = history_decode(c->bytes.data, c->bytes.len, fold_frame, f);
			*out++ = f->out;
			if (rc < 0)
				return rc;
		}
	}
	return 0;
}

static void put_chunks(struct history *h, struct fold *f, struct buf *from)
{
	h->kept_bytes = 0;
	for (unsigned t = 0; t < HISTORY_TIERS; t++) {
		struct history_tier *tier = &h->tiers[t];
		for (struct history_chunk *c = tier->first; c; c = c->next) {
			buf_fini(&c->bytes);
			c->bytes = *from;
			*from++ = (struct buf){ 0 };
			h->kept_bytes += c->bytes.len;
		}
		fold_values(f, f->now, tier->now);
		memcpy(tier->now, f->now, sizeof(tier->now));
	}
}

/* The labels that stay, and for each class that loses some, its "(other)". How many are lost. */
static size_t choose(const struct history *h, struct history *kept, struct fold *f)
{
	size_t gone = 0;
	memset(f->to, 0xff, sizeof(f->to));
	for (size_t i = 0; i < h->key_count; i++) {
		if (i && strcmp(h->keys[i].label, OTHER) != 0 &&
		    h->samples - h->seen[i] >= HISTORY_GONE_SAMPLES) {
			gone++;
			continue;
		}
		f->to[i] = (uint16_t)kept->key_count;
		kept->keys[kept->key_count] = h->keys[i];
		kept->hashes[kept->key_count] = h->hashes[i];
		kept->seen[kept->key_count++] = h->seen[i];
	}
	kept->next_id = h->next_id;
	kept->samples = h->samples;
	for (size_t i = 0; i < h->key_count && gone; i++) {
		int other = f->to[i] == NOWHERE ? history_find_key(kept, h->keys[i].class, OTHER)
						: f->to[i];
		if (other < 0) {
			struct history_key name;
			name_key(&name, h->keys[i].class, strlen(h->keys[i].class), OTHER,
				 strlen(OTHER));
			other = add_key(kept, &name); /* there is room: one is gone for it */
		}
		f->to[i] = (uint16_t)other;
	}
	f->keys = kept->key_count;
	return gone;
}

static int retire(struct history *h, struct history *kept, struct fold *f)
{
	size_t chunks = 0;
	if (!choose(h, kept, f))
		return 0;
	for (unsigned t = 0; t < HISTORY_TIERS; t++)
		chunks += h->tiers[t].chunks;
	struct buf *out = calloc(chunks + 1, sizeof(*out));
	int rc = out ? fold_chunks(h, f, out) : -ENOMEM;
	if (rc == 0) {
		put_chunks(h, f, out);
		memcpy(h->keys, kept->keys, sizeof(h->keys));
		memcpy(h->hashes, kept->hashes, sizeof(h->hashes));
		memcpy(h->seen, kept->seen, sizeof(h->seen));
		h->key_count = kept->key_count;
		h->next_id = kept->next_id;
		h->changes++;
		h->renumbered = 1;
	}
	for (size_t i = 0; out && i < chunks; i++)
		buf_fini(&out[i]);
	free(out);
	return rc;
}

int history_make_room(struct history *h, const struct history_row *rows, size_t count)
{
	size_t unknown = 0;
	for (size_t i = 1; i < count; i++)
		unknown += history_find_key(h, rows[i].class, rows[i].label) < 0;
	if (!unknown || h->key_count + unknown <= OWN_MAX ||
	    h->samples < h->retired_at + RETIRE_SAMPLES)
		return 0;
	h->retired_at = h->samples;
	struct history *kept = calloc(1, sizeof(*kept));
	struct fold *f = calloc(1, sizeof(*f));
	int rc = kept && f ? retire(h, kept, f) : -ENOMEM;
	free(kept);
	free(f);
	return rc;
}
