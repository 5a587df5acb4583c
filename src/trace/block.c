/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/block.h"

#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "base/varint.h"

enum { CODING_RAW = 0, CODING_ZSTD = 1, CODING_LIKE = 2, CODING_FLOW = 3, CODING_NONE = 255 };

/* Below this a frame's own header costs more than it saves. */
#define PACK_MIN 24
/* A smaller column costs little either way, and in a small file it counts. */
#define PLAIN_MIN 16384
/* A larger one is not made small by much work. */
#define TIGHT_MAX 8192

void blt_file_header_put(uint8_t *to, const struct blt_file_header *header)
{
	memset(to, 0, BLT_FILE_HEADER);
	memcpy(to, BLT_MAGIC, BLT_MAGIC_BYTES);
	put_le32(to + 8, header->version);
	to[12] = (uint8_t)header->machine;
	to[13] = (uint8_t)(header->machine >> 8);
	to[14] = sizeof(void *);
	to[15] = header->flags;
	memcpy(to + 16, header->boot_id, 16);
	put_le64(to + 32, header->realtime_ns);
	put_le64(to + 40, header->monotonic_ns);
	put_le32(to + BLT_FILE_HEADER - 4, crc_32(0, to, BLT_FILE_HEADER - 4));
}

int blt_file_header_get(const uint8_t *from, struct blt_file_header *header)
{
	if (memcmp(from, BLT_MAGIC, BLT_MAGIC_BYTES) != 0)
		return -EBADMSG;
	header->version = get_le32(from + 8);
	header->machine = (uint16_t)(from[12] | from[13] << 8);
	header->flags = from[15];
	memcpy(header->boot_id, from + 16, 16);
	header->realtime_ns = get_le64(from + 32);
	header->monotonic_ns = get_le64(from + 40);
	return get_le32(from + BLT_FILE_HEADER - 4) == crc_32(0, from, BLT_FILE_HEADER - 4);
}

void blt_head_put(uint8_t *to, const struct blt_head *head)
{
	put_le64(to, BLT_MARKER);
	to[8] = head->type;
	to[9] = head->flags;
	to[10] = to[11] = 0;
	put_le32(to + 12, head->rows);
	put_le32(to + 16, head->raw);
	put_le32(to + 20, head->stored);
	put_le64(to + 24, head->first);
	put_le64(to + 32, head->time_ns);
	put_le32(to + 40, head->crc);
	put_le32(to + 44, crc_32(0, to, 44));
}

int blt_head_get(const uint8_t *from, struct blt_head *head)
{
	if (get_le64(from) != BLT_MARKER || get_le32(from + 44) != crc_32(0, from, 44))
		return 0;
	head->type = from[8];
	head->flags = from[9];
	head->rows = get_le32(from + 12);
	head->raw = get_le32(from + 16);
	head->stored = get_le32(from + 20);
	head->first = get_le64(from + 24);
	head->time_ns = get_le64(from + 32);
	head->crc = get_le32(from + 40);
	return head->raw <= BLT_RAW_MAX && head->stored <= BLT_STORED_MAX &&
	       head->rows <= BLT_ROWS_MAX;
}

void blt_cols_fini(struct blt_cols *cols)
{
	for (size_t i = 0; i < BLT_COL_MAX; i++) {
		buf_fini(&cols->col[i]);
		zflow_enc_free(cols->flow[i]);
	}
}

void blt_flows_fini(struct blt_flows *flows)
{
	for (size_t i = 0; i < BLT_COL_MAX; i++)
		zflow_dec_free(flows->flow[i]);
}

void blt_cols_clear(struct blt_cols *cols)
{
	for (size_t i = 0; i < BLT_COL_MAX; i++)
		buf_clear(&cols->col[i]);
}

/*
 * One column's bytes behind what @out holds: a frame, or as they are where a frame would not be
 * shorter.
 */
static uint8_t pack_column(const struct blt_cols *cols, unsigned i, struct zblock_enc *zenc,
			   struct buf *out)
{
	const struct buf *raw = &cols->col[i], *like = cols->like ? &cols->like->col[i] : NULL;
	int plain = cols->plain >> i & 1;
	enum zblock_effort effort =
		cols->tight && raw->len <= TIGHT_MAX ? ZBLOCK_MUCH : ZBLOCK_USUAL;
	if (cols->flow[i] && raw->len >= PACK_MIN) {
		size_t cap = zflow_bound(raw->len);
		char *to = buf_reserve(out, cap);
		size_t len = to ? zflow_put(cols->flow[i], to, cap, raw->data, raw->len) : 0;
		if (!len)
			/* whatever became of it, nothing can go on from there */
			return CODING_NONE;
		out->len += len;
		return CODING_FLOW;
	}
	if (like && like->len && raw->len >= PACK_MIN) {
		size_t cap = zblock_bound(raw->len);
		char *to = buf_reserve(out, cap);
		size_t len = to ? zblock_compress_like(zenc, effort, to, cap, raw->data, raw->len,
						       like->data, like->len)
				: 0;
		if (len && len < raw->len) {
			out->len += len;
			return CODING_LIKE;
		}
	} else if (raw->len >= PACK_MIN) {
		size_t cap = zblock_bound(raw->len);
		int little = plain && raw->len >= PLAIN_MIN;
		char *to = buf_reserve(out, cap);
		size_t len = to ? zblock_compress(zenc, little ? ZBLOCK_LITTLE : effort, to, cap,
						  raw->data, raw->len)
				: 0;
		if (len && len < raw->len) {
			out->len += len;
			return CODING_ZSTD;
		}
	}
	buf_put(out, raw->data, raw->len);
	return CODING_RAW;
}

int blt_pack(struct blt_cols *cols, struct blt_head *head, struct zblock_enc *zenc, struct buf *out,
	     struct err *err)
{
	uint8_t dir[1 + BLT_COL_MAX * (2 + 2 * VARINT_MAX)], *d = dir + 1;
	const size_t room = BLT_BLOCK_HEADER + sizeof(dir), start = out->len;
	size_t raw = 0;
	dir[0] = 0;
	/*
	 * columns go behind the longest directory there can be, and are moved up to the one that
	 * comes out
	 */
	if (buf_reserve(out, room))
		out->len += room;
	for (unsigned i = 0; i < BLT_COL_MAX; i++) {
		struct buf *col = &cols->col[i];
		if (buf_failed(col))
			return err_set(err, -ENOMEM, "cannot hold a block of the recording");
		if (!col->len)
			continue;
		raw += col->len;
		if (raw > BLT_RAW_MAX)
			return err_set(err, -E2BIG, "a block of the recording would be too large");
		size_t before = out->len;
		dir[0]++;
		*d++ = (uint8_t)i;
		if ((*d++ = pack_column(cols, i, zenc, out)) == CODING_NONE)
			return err_set(err, -ENOMEM, "cannot hold a block of the recording");
		d = varint_put(d, col->len);
		d = varint_put(d, out->len - before);
	}
	if (buf_failed(out))
		return err_set(err, -ENOMEM, "cannot hold a block of the recording");
	size_t dir_len = (size_t)(d - dir), data_len = out->len - start - room;
	uint8_t *to = (uint8_t *)out->data + start, *payload = to + BLT_BLOCK_HEADER;
	head->raw = (uint32_t)raw;
	head->stored = raw ? (uint32_t)(dir_len + data_len) : 0;
	head->crc = 0;
	if (raw) {
		memmove(payload + dir_len, to + room, data_len);
		memcpy(payload, dir, dir_len);
		head->crc = crc_32(0, payload, head->stored);
	}
	blt_head_put(to, head);
	out->len = start + BLT_BLOCK_HEADER + head->stored;
	return 0;
}

static int take_flow(struct blt_flows *flows, unsigned id, uint8_t *to, size_t len,
		     const uint8_t *from, size_t from_len)
{
	struct zflow_dec **flow = &flows->flow[id];

	if (!*flow && !(*flow = zflow_dec_new()))
		return -ENOMEM;
	if (!(flows->begun & 1u << id))
		zflow_dec_restart(*flow);
	flows->begun |= 1u << id;
	return zflow_take(*flow, to, len, from, from_len);
}

/* @flows: NULL where columns that go on cannot be read. */
/* NOLINTNEXTLINE(readability-function-cognitive-complexity): one way to be damaged a case */
static int unpack(const struct blt_head *head, const uint8_t *payload, struct zblock_dec *zdec,
		  struct buf *scratch, const struct blt_view *like, struct blt_flows *flows,
		  struct blt_view *view)
{
	const uint8_t *at = payload, *end = payload + head->stored;
	struct {
		uint8_t id, coding;
	} dir[BLT_COL_MAX];
	memset(view, 0, sizeof(*view));
	if (!head->stored)
		return head->raw ? -EBADMSG : 0;
	unsigned count = *at++;
	if (count > BLT_COL_MAX)
		return -EBADMSG;
	uint64_t raw = 0, stored = 0;
	uint32_t seen = 0;
	for (unsigned i = 0; i < count; i++) {
		uint64_t raw_len, stored_len;
		if (end - at < 2)
			return -EBADMSG;
		dir[i].id = *at++;
		dir[i].coding = *at++;
		at = varint_get(at, end, &raw_len);
		at = at ? varint_get(at, end, &stored_len) : NULL;
		if (!at || dir[i].id >= BLT_COL_MAX || (seen & 1u << dir[i].id) ||
		    raw_len > BLT_RAW_MAX || stored_len > BLT_STORED_MAX)
			return -EBADMSG;
		seen |= 1u << dir[i].id;
		view->raw[dir[i].id] = (uint32_t)raw_len;
		view->stored[dir[i].id] = (uint32_t)stored_len;
		raw += raw_len;
		stored += stored_len;
	}
	if (raw != head->raw || stored != (uint64_t)(end - at))
		return -EBADMSG;
	buf_clear(scratch);
	uint8_t *to = (uint8_t *)buf_reserve(scratch, raw ? raw : 1);
	if (!to)
		return -ENOMEM;
	for (unsigned i = 0; i < count; i++) {
		unsigned id = dir[i].id;
		uint32_t raw_len = view->raw[id], stored_len = view->stored[id];
		if (dir[i].coding == CODING_RAW) {
			if (raw_len != stored_len)
				return -EBADMSG;
			memcpy(to, at, raw_len);
		} else if (dir[i].coding == CODING_LIKE && like) {
			int rc = zblock_decompress_like(
				zdec, to, raw_len, at, stored_len, like->col[id].at,
				(size_t)(like->col[id].end - like->col[id].at));
			if (rc < 0)
				return rc;
		} else if (dir[i].coding == CODING_FLOW && head->type == BLT_EVENTS) {
			int rc = flows ? take_flow(flows, id, to, raw_len, at, stored_len) : 0;
			if (rc < 0)
				return rc;
			if (!flows)
				raw_len = 0;
		} else {
			int rc = dir[i].coding == CODING_ZSTD
					 ? zblock_decompress(zdec, to, raw_len, at, stored_len)
					 : -EBADMSG;
			if (rc < 0)
				return rc;
		}
		view->col[id].at = to;
		view->col[id].end = to + raw_len;
		to += raw_len;
		at += stored_len;
	}
	return 0;
}

int blt_unpack(const struct blt_head *head, const uint8_t *payload, struct zblock_dec *zdec,
	       struct buf *scratch, struct blt_view *view)
{
	return blt_unpack_like(head, payload, zdec, scratch, NULL, view);
}

int blt_unpack_like(const struct blt_head *head, const uint8_t *payload, struct zblock_dec *zdec,
		    struct buf *scratch, const struct blt_view *like, struct blt_view *view)
{
	return unpack(head, payload, zdec, scratch, like, NULL, view);
}

int blt_unpack_flow(const struct blt_head *head, const uint8_t *payload, struct zblock_dec *zdec,
		    struct buf *scratch, struct blt_flows *flows, struct blt_view *view)
{
	if (head->flags & BLT_F_KEY) {
		flows->begun = 0;
		flows->next = head->first;
	}
	int goes_on = flows->next == head->first;
	/* whatever goes wrong below: no block goes on from here */
	flows->next = BLT_NO_FLOW;
	int rc = unpack(head, payload, zdec, scratch, NULL, goes_on ? flows : NULL, view);
	if (rc == 0 && goes_on)
		flows->next = head->first + head->rows;
	return rc;
}
