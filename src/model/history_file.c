/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history_file.c - the history as an append-only file: a header, then records. All numbers
 * little-endian.
 *   header: "BLHIST1\n"
 *   record: u8 kind, u8 tier, u16 length, u32 CRC-32 of kind, tier, length and payload, payload
 *   kind 1, label: class and label, each ended by NUL; numbered from 1 in order of appearance (0 is
 *   the process)
 *   kind 2, run: u64 CLOCK_REALTIME ns, i32 pid, name of the process
 *   kind 3, frame: as in history.c
 * A frame that fails its checksum is passed over, and those behind it that say only what changed;
 * any other record ends what is read. A watcher cuts off a record that ended early; a file of which
 * more is left than that it keeps under another name.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/crc.h"
#include "base/fileio.h"
#include "model/history_impl.h"

#define MAGIC "BLHIST1\n"
#define MAGIC_LEN 8
#define RECORD_HEAD 8
#define OPEN_TRIES 8
#define PASSED_MAX 64           /* damaged frames in a row */
#define SEARCH_MAX (256u << 20) /* bytes whose checksum is made to look for records */
#define ASIDE_MAX 100
#define SLACK \
	(1u << 20) /* a file is written anew when it is twice what it must be, and this much more */

static void record(struct buf *to, unsigned kind, unsigned tier, const void *payload, size_t len)
{
	uint8_t head[RECORD_HEAD] = { (uint8_t)kind, (uint8_t)tier, (uint8_t)len,
				      (uint8_t)(len >> 8) };
	uint32_t crc = crc_32(crc_32(0, head, 4), payload, len);
	for (int i = 0; i < 4; i++)
		head[4 + i] = (uint8_t)(crc >> (8 * i));
	buf_put(to, head, sizeof(head));
	buf_put(to, payload, len);
}

static void record_key(struct buf *to, const struct history_key *key)
{
	char payload[2 * HISTORY_NAME_MAX + 2];
	size_t class_len = strlen(key->class) + 1, label_len = strlen(key->label) + 1;
	memcpy(payload, key->class, class_len);
	memcpy(payload + class_len, key->label, label_len);
	record(to, RECORD_LABEL, 0, payload, class_len + label_len);
}

static void record_run(struct buf *to, const struct history_run *run)
{
	uint8_t payload[12 + sizeof(run->comm)];
	for (int i = 0; i < 8; i++)
		payload[i] = (uint8_t)(run->time_ns >> (8 * i));
	for (int i = 0; i < 4; i++)
		payload[8 + i] = (uint8_t)((uint32_t)run->pid >> (8 * i));
	size_t len = strnlen(run->comm, sizeof(run->comm) - 1);
	memcpy(payload + 12, run->comm, len);
	record(to, RECORD_RUN, 0, payload, 12 + len);
}

/* ---- reading --------------------------------------------------------------------------------- */

static int take_run(struct history *h, const uint8_t *payload, size_t len)
{
	struct history_run run = { 0 };
	if (len < 12 || len - 12 >= sizeof(run.comm))
		return -EBADMSG;
	uint32_t pid = 0;
	for (int i = 0; i < 8; i++)
		run.time_ns |= (uint64_t)payload[i] << (8 * i);
	for (int i = 0; i < 4; i++)
		pid |= (uint32_t)payload[8 + i] << (8 * i);
	run.pid = (int32_t)pid;
	memcpy(run.comm, payload + 12, len - 12);
	return history_take_run(h, &run);
}

static int take_key(struct history *h, const char *payload, size_t len)
{
	size_t class_len = strnlen(payload, len);
	if (class_len >= len || class_len > HISTORY_NAME_MAX)
		return -EBADMSG;
	const char *label = payload + class_len + 1;
	size_t left = len - class_len - 1, label_len = strnlen(label, left);
	if (label_len + 1 != left || label_len > HISTORY_NAME_MAX)
		return -EBADMSG;
	return history_take_key(h, payload, class_len, label, label_len);
}

static int take(struct history *h, const uint8_t *head, size_t len)
{
	const uint8_t *payload = head + RECORD_HEAD;
	switch (head[0]) {
	case RECORD_LABEL:
		return take_key(h, (const char *)payload, len);
	case RECORD_RUN:
		return take_run(h, payload, len);
	case RECORD_FRAME:
		return head[1] < HISTORY_TIERS
			       ? history_take_frame(h, head[1], (const char *)payload, len)
			       : -EBADMSG;
	default:
		return 0; /* of a later version: passed over */
	}
}

/*
 * The bytes of the record that begins @at, 0 where its end or its checksum is not that of a record.
 */
static size_t sound_record(const uint8_t *bytes, size_t len, size_t at)
{
	const uint8_t *head = bytes + at;
	if (len - at < RECORD_HEAD)
		return 0;
	size_t payload = (size_t)head[2] | (size_t)head[3] << 8;
	uint32_t crc = 0;
	for (int i = 0; i < 4; i++)
		crc |= (uint32_t)head[4 + i] << (8 * i);
	if (payload > len - at - RECORD_HEAD ||
	    crc_32(crc_32(0, head, 4), head + RECORD_HEAD, payload) != crc)
		return 0;
	return RECORD_HEAD + payload;
}

/*
 * Whether a record is a label's but for its kind: without it all that follow would have other
 * numbers.
 */
static int was_label(const uint8_t *head, size_t payload)
{
	uint8_t other[4] = { RECORD_LABEL, 0, head[2], head[3] };
	uint32_t crc = crc_32(crc_32(0, other, 4), head + RECORD_HEAD, payload);
	for (int i = 0; i < 4; i++)
		if (head[4 + i] != (uint8_t)(crc >> (8 * i)))
			return 0;
	return 1;
}

/*
 * Where the damaged records that begin @at can be passed over: they say that they are frames or
 * runs, and a sound one follows. A label is never passed over, because the numbers of all others go
 * by it. Return: the place of the sound one, 0 where there is none.
 */
static size_t pass_frames(const uint8_t *bytes, size_t len, size_t at)
{
	for (unsigned i = 0; i < PASSED_MAX && len - at > RECORD_HEAD; i++) {
		const uint8_t *head = bytes + at;
		size_t payload = (size_t)head[2] | (size_t)head[3] << 8;
		if (sound_record(bytes, len, at))
			return at;
		if ((head[0] != RECORD_FRAME && head[0] != RECORD_RUN) ||
		    head[1] >= HISTORY_TIERS || payload > len - at - RECORD_HEAD ||
		    was_label(head, payload))
			return 0;
		at += RECORD_HEAD + payload;
	}
	return 0;
}

/*
 * Everything that can be read; returns where the rest begins. @passed: the bytes of damaged frames
 * in between, and of those that say only what changed since then.
 */
static ssize_t take_all(struct history *h, const uint8_t *bytes, size_t len, uint64_t *passed)
{
	size_t at = MAGIC_LEN, size, next;
	unsigned missed = 0; /* tiers whose next frame must stand alone */
	while (at < len) {
		const uint8_t *head = bytes + at;
		size = sound_record(bytes, len, at);
		int frame = size && head[0] == RECORD_FRAME && head[1] < HISTORY_TIERS;
		if (frame && history_stands_alone(head + RECORD_HEAD, size - RECORD_HEAD))
			missed &= ~(1u << head[1]);
		int rc = !size                             ? -EBADMSG
			 : frame && missed & 1u << head[1] ? 1
							   : take(h, head, size - RECORD_HEAD);
		if (rc == -ENOMEM)
			return rc;
		if (rc < 0 && (size || !(next = pass_frames(bytes, len, at))))
			break;
		if (rc <
		    0) { /* what says whose frame it was may be what is damaged: no tier goes on */
			missed = (1u << HISTORY_TIERS) - 1;
			size = next - at;
		}
		*passed += rc ? size : 0;
		at += size;
	}
	return (ssize_t)at;
}

/*
 * Whether anything behind the first unsound byte could still be of use to somebody: more than a
 * record that ended early.
 */
static int holds_more(const uint8_t *bytes, size_t len, size_t at)
{
	size_t work = 0;
	while (++at < len) {
		size_t payload = len - at < RECORD_HEAD
					 ? 0
					 : (size_t)bytes[at + 2] | (size_t)bytes[at + 3] << 8;
		if (bytes[at] < RECORD_LABEL || bytes[at] > RECORD_FRAME ||
		    len - at < RECORD_HEAD || bytes[at + 1] >= HISTORY_TIERS)
			continue;
		work += payload;
		if (work > SEARCH_MAX || sound_record(bytes, len, at))
			return 1;
	}
	return 0;
}

static int load(struct history *h, const char *path, uint64_t size, struct err *err)
{
	if (size > HISTORY_FILE_MAX)
		return err_set(err, -EBADMSG, "'%s' is too large for a history: %llu bytes", path,
			       (unsigned long long)size);
	uint8_t *bytes = malloc(size + 1);
	if (!bytes)
		return err_set(err, -ENOMEM, "cannot read '%s'", path);
	ssize_t got = fileio_pread(h->fd, bytes, size, 0), sound = 0;
	uint64_t passed = 0;
	if (got >= 0 && (got < MAGIC_LEN || memcmp(bytes, MAGIC, MAGIC_LEN) != 0)) {
		free(bytes);
		err_set(err, -EBADMSG, "'%s' is no history of regions", path);
		return err_hint(err, "a new file is made where none is; this one is left as it is");
	}
	if (got >= 0)
		sound = take_all(h, bytes, (size_t)got, &passed);
	h->must_renew = passed != 0;
	h->keep_aside = sound >= 0 && sound < got && holds_more(bytes, (size_t)got, (size_t)sound);
	free(bytes);
	if (got < 0 || sound < 0)
		return err_set(err, got < 0 ? (int)got : (int)sound, "cannot read '%s'", path);
	h->file_bytes = (uint64_t)sound;
	h->damaged_bytes = (uint64_t)(got - sound) + passed;
	h->keys_written = h->key_count;
	return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/*
 * 1 if @path names the file that is open: another watcher may have put a new one in its place
 * since.
 */
static int still_named(int fd, const char *path)
{
	struct stat open_one, named;
	return fstat(fd, &open_one) == 0 && stat(path, &named) == 0 &&
	       open_one.st_dev == named.st_dev && open_one.st_ino == named.st_ino;
}

/* Open and, to write, lock; -EAGAIN where the name belongs to another file by then. */
static int open_once(struct history *h, const char *path, struct err *err)
{
	int created = 0;
	/* not blocking: a fifo of that name must not hang us */
	h->fd = open(path, (h->writable ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	if (h->fd < 0 && errno == ENOENT && h->writable) {
		h->fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		created = h->fd >= 0;
		if (h->fd < 0 && errno == EEXIST)
			return -EAGAIN;
	}
	if (h->fd < 0)
		return err_set(err, -errno, "cannot open '%s'", path);
	if (!h->writable)
		return 0;
	if (flock(h->fd, LOCK_EX | LOCK_NB) < 0) {
		err_set(err, -EBUSY, "cannot write '%s'", path);
		return err_hint(err, "another watcher writes this history: give each its own file");
	}
	if (!still_named(h->fd, path)) {
		close(h->fd);
		h->fd = -1;
		return -EAGAIN;
	}
	int rc = created ? fileio_pwrite(h->fd, MAGIC, MAGIC_LEN, 0) : 0;
	return rc < 0 ? err_set(err, rc, "cannot write '%s'", path) : 0;
}

/* Another name for the file as it is, before a new one takes its own. */
static int put_aside(struct history *h, struct err *err)
{
	for (int i = 0; i < ASIDE_MAX; i++) {
		free(h->aside);
		if (asprintf(&h->aside, i ? "%s.damaged.%d" : "%s.damaged", h->path, i) < 0)
			h->aside = NULL;
		if (!h->aside)
			return err_set(err, -ENOMEM, "cannot keep '%s' aside", h->path);
		if (link(h->path, h->aside) == 0)
			return 0;
		if (errno != EEXIST)
			return err_set(err, -errno, "cannot keep damaged '%s' as '%s'", h->path,
				       h->aside);
	}
	return err_set(err, -EEXIST, "cannot keep damaged '%s' as '%s'", h->path, h->aside);
}

int history_file_open(struct history *h, const char *path, int write, struct err *err)
{
	struct stat st;
	h->path = strdup(path);
	if (!h->path)
		return err_set(err, -ENOMEM, "cannot open '%s'", path);
	h->writable = write;
	int rc = -EAGAIN;
	for (int i = 0; i < OPEN_TRIES && rc == -EAGAIN; i++)
		rc = open_once(h, path, err);
	if (rc == -EAGAIN)
		return err_set(err, rc, "cannot open '%s': it is replaced all the time", path);
	if (rc < 0)
		return rc;
	if (fstat(h->fd, &st) < 0)
		return err_set(err, -errno, "cannot read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EINVAL, "'%s' is not a regular file", path);
	rc = load(h, path, (uint64_t)st.st_size, err);
	if (rc < 0 || !write || !h->damaged_bytes)
		return rc;
	if (h->keep_aside)
		rc = put_aside(h, err);
	if (rc < 0 || h->keep_aside || h->must_renew)
		return rc < 0 ? rc : history_file_renew(h, err);
	if (ftruncate(h->fd, (off_t)h->file_bytes) < 0)
		return err_set(err, -errno, "cannot cut the damaged end off '%s'", path);
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

static int append(struct history *h, const struct buf *records, struct err *err)
{
	int rc = buf_failed(records)
			 ? -ENOMEM
			 : fileio_pwrite(h->fd, records->data, records->len, h->file_bytes);
	if (rc < 0)
		return err_set(err, rc, "cannot write '%s'", h->path);
	h->file_bytes += records->len;
	return 0;
}

int history_file_run(struct history *h, const struct history_run *run, struct err *err)
{
	CLEANUP(buf_fini) struct buf records = { 0 };
	record_run(&records, run);
	return append(h, &records, err);
}

int history_file_frame(struct history *h, unsigned tier, const char *bytes, size_t len,
		       struct err *err)
{
	CLEANUP(buf_fini) struct buf records = { 0 };
	/*
	 * A frame of differences needs the one before it in the file: after a failed write the file
	 * is made anew, which needs room for both, so that is tried until it succeeds. Likewise
	 * where labels have other numbers than in the file.
	 */
	if (h->failing || h->renumbered || h->file_bytes > 2 * h->kept_bytes + SLACK)
		return history_file_renew(h, err);
	size_t keys = h->keys_written;
	for (; keys < h->key_count; keys++)
		record_key(&records, &h->keys[keys]);
	if (len > UINT16_MAX)
		return err_set(err, -EMSGSIZE, "cannot write '%s': a sample is too large", h->path);
	record(&records, RECORD_FRAME, tier, bytes, len);
	int rc = append(h, &records, err);
	if (rc == 0)
		h->keys_written = keys;
	return rc;
}

/* Frames lie in a chunk without a length: decoding finds their ends. */
static int copy_chunk(struct buf *to, unsigned tier, const struct history_chunk *chunk)
{
	const char *at = chunk->bytes.data;
	size_t left = chunk->bytes.len;
	while (left) {
		size_t len = history_frame_len(at, left);
		if (!len || len > UINT16_MAX)
			return -EBADMSG;
		record(to, RECORD_FRAME, tier, at, len);
		at += len;
		left -= len;
	}
	return 0;
}

/*
 * Only who holds the history's lock writes it anew, so the name needs no process in it, and what a
 * killed watcher left there is nobody's.
 */
static int create_beside(const char *path)
{
	for (int i = 0;; i++) {
		int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd >= 0 || errno != EEXIST || i)
			return fd < 0 ? -errno : fd;
		if (unlink(path) < 0 && errno != ENOENT)
			return -errno;
	}
}

/*
 * On disk before it takes the old one's place: a machine that crashes must not be left with an
 * empty one.
 */
static int fill_and_rename(int fd, const struct buf *all, const char *from, const char *to)
{
	int rc = flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno
						  : fileio_pwrite(fd, all->data, all->len, 0);
	if (rc == 0 && (fsync(fd) < 0 || rename(from, to) < 0))
		rc = -errno;
	return rc;
}

int history_file_renew(struct history *h, struct err *err)
{
	CLEANUP(buf_fini) struct buf all = { 0 };
	char path[4096];
	int rc = 0;
	buf_put(&all, MAGIC, MAGIC_LEN);
	for (size_t i = 0; i < h->run_count; i++)
		record_run(&all, &h->runs[i]);
	for (size_t i = 1; i < h->key_count; i++)
		record_key(&all, &h->keys[i]);
	for (unsigned t = HISTORY_TIERS; t-- > 0 && !rc;) {
		for (const struct history_chunk *c = h->tiers[t].first; c && !rc; c = c->next)
			rc = copy_chunk(&all, t, c);
	}
	if (rc < 0 || buf_failed(&all))
		return err_set(err, rc < 0 ? rc : -ENOMEM, "cannot write '%s' anew", h->path);
	if (snprintf(path, sizeof(path), "%s" HISTORY_BESIDE, h->path) >= (int)sizeof(path))
		return err_set(err, -ENAMETOOLONG, "cannot write '%s' anew", h->path);
	int fd = create_beside(path);
	if (fd < 0)
		return err_set(err, fd, "cannot create '%s'", path);
	rc = fill_and_rename(fd, &all, path, h->path);
	if (rc < 0) {
		unlink(path);
		close(fd);
		return err_set(err, rc, "cannot write '%s' anew", h->path);
	}
	close(h->fd);
	h->fd = fd;
	h->file_bytes = all.len;
	h->keys_written = h->key_count;
	h->renumbered = 0;
	return 0;
}

void history_close(struct history *h)
{
	if (!h)
		return;
	for (unsigned t = 0; t < HISTORY_TIERS; t++) {
		while (h->tiers[t].first) {
			struct history_chunk *c = h->tiers[t].first;
			h->tiers[t].first = c->next;
			buf_fini(&c->bytes);
			free(c);
		}
	}
	if (h->fd >= 0)
		close(h->fd);
	pthread_mutex_destroy(&h->lock);
	free(h->runs);
	free(h->path);
	free(h->aside);
	free(h);
}
