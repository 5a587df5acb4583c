/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sets.c - the index of messages: for each block of ids and each value of a filter, which of the
 * block's ids have it.
 *
 * A block is gathered in memory and written whole, sorted by key, when the first id behind it
 * comes. So an index entry is made per value and block, not four per message, and a store of any
 * size takes rows as fast as an empty one. Messages of the newest block are found by looking at
 * them all.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/internal.h"

#define KINDS 4
#define OFFSET_BITS 12
#define B_BITS 8
#define A_BITS 40
_Static_assert(STORE_SET_IDS == 1 << OFFSET_BITS, "an offset fits exactly");

struct store_sets {
	/* id / STORE_SET_IDS */
	uint64_t block;
	size_t count;
	/*
	 * kind, a, b, offset from the highest bit down: sorted, the ids of a set stand together in
	 * order
	 */
	uint64_t keys[KINDS * STORE_SET_IDS];
	char text[STORE_SET_IDS * 5 + 2];
};

static uint64_t key_of(unsigned kind, uint64_t a, unsigned b, unsigned offset)
{
	return (uint64_t)kind << (A_BITS + B_BITS + OFFSET_BITS) |
	       (a & ((1ull << A_BITS) - 1)) << (B_BITS + OFFSET_BITS) |
	       (uint64_t)(b & 0xff) << OFFSET_BITS | offset;
}

static int by_key(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
	return x < y ? -1 : x > y;
}

static char *put_offset(char *at, unsigned offset)
{
	char digits[4];
	int n = 0;
	do {
		digits[n++] = (char)('0' + offset % 10);
		offset /= 10;
	} while (offset);
	while (n)
		*at++ = digits[--n];
	return at;
}

static int write_set(struct store *store, uint64_t key, const char *text, size_t len,
		     struct err *err)
{
	sqlite3_stmt *s = store->insert.message_set;
	key >>= OFFSET_BITS;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)(key >> (A_BITS + B_BITS)));
	sqlite3_bind_int64(s, 2, (sqlite3_int64)(key >> B_BITS & ((1ull << A_BITS) - 1)));
	sqlite3_bind_int64(s, 3, (sqlite3_int64)(key & 0xff));
	sqlite3_bind_int64(s, 4, (sqlite3_int64)store->sets->block);
	sqlite3_bind_text(s, 5, text, (int)len, SQLITE_STATIC);
	int rc = store_step(s, "index a block of messages", err);
	sqlite3_reset(s);
	return rc;
}

/* Writing twice, after a failure half way, gives the same rows. */
static int write_block(struct store *store, struct err *err)
{
	struct store_sets *sets = store->sets;
	int rc = 0;
	qsort(sets->keys, sets->count, sizeof(sets->keys[0]), by_key);
	for (size_t i = 0; rc == 0 && i < sets->count;) {
		uint64_t set = sets->keys[i] >> OFFSET_BITS, key = sets->keys[i];
		char *at = sets->text;
		for (; i < sets->count && sets->keys[i] >> OFFSET_BITS == set; i++) {
			*at = at == sets->text ? '[' : ',';
			at = put_offset(at + 1, (unsigned)(sets->keys[i] & (STORE_SET_IDS - 1)));
		}
		*at++ = ']';
		rc = write_set(store, key, sets->text, (size_t)(at - sets->text), err);
	}
	return rc;
}

int store_sets_enter(struct store *store, uint64_t id, struct err *err)
{
	struct store_sets *sets = store->sets;
	if (sets->block == id / STORE_SET_IDS)
		return 0;
	int rc = write_block(store, err);
	if (rc < 0)
		return rc;
	sets->block = id / STORE_SET_IDS;
	sets->count = 0;
	return 0;
}

void store_sets_add(struct store *store, uint64_t id, unsigned type, unsigned si, uint64_t address)
{
	struct store_sets *sets = store->sets;
	unsigned offset = (unsigned)(id % STORE_SET_IDS);
	uint64_t *keys = sets->keys + sets->count;
	keys[0] = key_of(STORE_SET_SIDE, si, 0, offset);
	keys[1] = key_of(STORE_SET_TYPE, type, si, offset);
	keys[2] = key_of(STORE_SET_ADDRESS_SIDE, address, si, offset);
	keys[3] = key_of(STORE_SET_ADDRESS_TYPE, address, type, offset);
	sets->count += KINDS;
}

/* Read the messages from @first on into an empty block. */
static int take_up(struct store *store, uint64_t first, struct err *err)
{
	CLEANUP(store_finalizep) sqlite3_stmt *s = NULL;
	if (!store->sets && !(store->sets = malloc(sizeof(*store->sets))))
		return err_set(err, -ENOMEM, "cannot allocate the index of messages");
	store->sets->count = 0;
	store->sets->block = first / STORE_SET_IDS;
	int rc = store_prepare(store->db, &s,
			       "SELECT id, type, si, address FROM message WHERE id >= ?1 "
			       "ORDER BY id",
			       err);
	if (rc < 0)
		return rc;
	sqlite3_bind_int64(s, 1, (sqlite3_int64)first);
	while (rc == 0 && (rc = store_step(s, "index the messages", err)) > 0) {
		uint64_t id = (uint64_t)sqlite3_column_int64(s, 0);
		rc = store_sets_enter(store, id, err);
		if (rc == 0)
			store_sets_add(store, id, (unsigned)sqlite3_column_int(s, 1),
				       (unsigned)sqlite3_column_int(s, 2),
				       (uint64_t)sqlite3_column_int64(s, 3));
	}
	return rc;
}

int store_sets_resume(struct store *store, struct err *err)
{
	return take_up(store, store->next_message - store->next_message % STORE_SET_IDS, err);
}

int store_sets_migrate(struct store *store, struct err *err)
{
	uint64_t first;
	char sql[64];
	int rc = store_sql(store->db,
			   "BEGIN; DROP INDEX IF EXISTS message_by_type;"
			   "DROP INDEX IF EXISTS message_by_side;"
			   "DROP INDEX IF EXISTS message_by_address;"
			   "DROP INDEX IF EXISTS message_by_address_type",
			   err);
	if (rc == 0)
		rc = store_number(store->db, "SELECT min(id) FROM message", 0, &first, err);
	if (rc == 0)
		rc = take_up(store, first, err);
	snprintf(sql, sizeof(sql), "PRAGMA user_version=%d; COMMIT", STORE_VERSION);
	return rc < 0 ? rc : store_sql(store->db, sql, err);
}
