/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heap_raw.c - OUTPUT.raw, written where no recorder could be started (wire/heap_start.h, way 3):
 * the same layout on disk. It is read, never mapped: a file that somebody cuts while we read must
 * not end us. A ring is fetched piece by piece into a window that the decoder sees as a ring.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fileio.h"
#include "source/heap_internal.h"

#define WINDOW_BYTES (64u << 10)
#define TABLES_BYTES_MAX (1ULL << 30)
#define CALIBRATE_NS 20000000

/*
 * As much of [@off, @off + @bytes) as the file has; the rest is zero. Return: 0 or negative errno.
 */
static int read_at(int fd, void *to, uint64_t bytes, uint64_t off)
{
	memset(to, 0, bytes);
	ssize_t got = fileio_pread(fd, to, bytes, off);
	return got < 0 ? (int)got : 0;
}

int heap_raw_fill(struct source_heap *heap, struct heap_ring *ring, uint64_t *head)
{
	*head = ring->head;
	if (ring->head == ring->raw_head)
		return 0;
	if (!ring->base) {
		ring->base = malloc(WINDOW_BYTES);
		if (!ring->base)
			return err_set(heap->out.err, -ENOMEM,
				       "cannot allocate a window of a ring");
		ring->mask = WINDOW_BYTES - 1;
	}
	uint64_t want = ring->tail + WINDOW_BYTES;
	if (want > ring->raw_head)
		want = ring->raw_head;
	for (uint64_t pos = ring->head; pos < want;) {
		uint64_t in_window = pos & ring->mask;
		uint64_t bytes = want - pos;
		if (bytes > WINDOW_BYTES - in_window)
			bytes = WINDOW_BYTES - in_window;
		int rc = read_at(heap->fd, (char *)ring->base + in_window, bytes,
				 ring->raw_off + pos);
		if (rc < 0)
			return err_set(heap->out.err, rc, "cannot read a ring");
		pos += bytes;
	}
	*head = want;
	return 0;
}

/*
 * Two moments on both clocks: from the exit hook, or, after a crash on this same machine, from this
 * machine's counter.
 */
static void calibrate(struct source_heap *heap)
{
	const struct wire_heap_header *h = &heap->tables.layout;
	if (h->end_cycles > h->start_cycles && h->end_ns > h->start_ns) {
		heap_clock_add(&heap->clock, h->end_cycles, h->end_ns);
		return;
	}
	struct timespec pause = { .tv_nsec = CALIBRATE_NS };
	uint64_t c0 = heap_cycles(), n0 = clock_ns(CLOCK_MONOTONIC);
	nanosleep(&pause, NULL);
	uint64_t cycles = heap_cycles() - c0, ns = clock_ns(CLOCK_MONOTONIC) - n0;
	heap_clock_add(&heap->clock, h->start_cycles + cycles, h->start_ns + ns);
}

static int open_raw(struct source_heap *heap, const char *path, struct err *err)
{
	struct stat st;
	heap->tables.raw = true;
	heap->fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (heap->fd < 0 || fstat(heap->fd, &st) < 0)
		return err_set(err, -errno, "cannot open '%s'", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, -EBADMSG, "cannot read '%s': not a regular file", path);
	int rc = read_at(heap->fd, &heap->tables.layout, sizeof(heap->tables.layout), 0);
	if (rc < 0)
		return err_set(err, rc, "cannot read '%s'", path);
	heap->tables.layout.filter[sizeof(heap->tables.layout.filter) - 1] = '\0';
	uint64_t tables = heap->tables.layout.nodes_off +
			  (uint64_t)heap->tables.layout.node_max * sizeof(struct wire_node);
	/*
	 * the nodes are the last table; heap_raw_init() sees that the others lie before their end
	 */
	if (heap->tables.layout.magic == WIRE_HEAP_MAGIC &&
	    heap->tables.layout.nodes_off <= TABLES_BYTES_MAX &&
	    tables >= sizeof(heap->tables.layout) && tables <= TABLES_BYTES_MAX) {
		/*
		 * a copy that was cut keeps what it has; what is missing reads as zero and costs no
		 * memory
		 */
		uint64_t there = (uint64_t)st.st_size < tables ? (uint64_t)st.st_size : tables;
		heap->tables.base = calloc(1, tables);
		if (!heap->tables.base)
			return err_set(err, -ENOMEM, "cannot allocate %llu bytes for '%s'",
				       (unsigned long long)tables, path);
		rc = read_at(heap->fd, heap->tables.base, there, 0);
		if (rc < 0)
			return err_set(err, rc, "cannot read '%s'", path);
	} else {
		return err_set(err, -EBADMSG, "cannot read '%s': not a raw heap recording", path);
	}
	heap->tables.base_bytes = tables;
	heap->tables.header = (struct wire_heap_header *)heap->tables.base;
	uint64_t file_bytes = (uint64_t)st.st_size;
	rc = heap_raw_init(heap,
			   file_bytes > heap->tables.layout.total_bytes
				   ? file_bytes
				   : heap->tables.layout.total_bytes,
			   err);
	if (rc < 0)
		return err_wrap(err, "cannot read '%s'", path);
	for (uint32_t i = 0; i < heap->tables.layout.slot_count; i++) {
		struct heap_ring *ring = &heap->merge.rings[i];
		uint64_t head = ring->slot->head, left = 0;
		if (file_bytes > ring->raw_off)
			left = file_bytes - ring->raw_off;
		if (head > ring->mask + 1)
			head = ring->mask + 1;
		ring->raw_head = (head < left ? head : left) & ~7ULL;
	}
	calibrate(heap);
	heap->limit_ns = UINT64_MAX;
	return 0;
}

int source_heap_raw_head(const char *path, struct source_heap_raw_head *head)
{
	struct wire_heap_header h;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	ssize_t got = fd < 0 ? -1 : pread(fd, &h, sizeof(h), 0);
	if (fd >= 0)
		close(fd);
	if (got != sizeof(h) || h.magic != WIRE_HEAP_MAGIC || h.version != WIRE_HEAP_VERSION ||
	    h.header_bytes != sizeof(h) || !h.target_pid)
		return 0;
	*head = (struct source_heap_raw_head){ .family = h.family,
					       .start_ns = h.start_ns,
					       .start_realtime_ns = h.start_realtime_ns,
					       .pid = h.target_pid,
					       .parent_pid = h.parent_pid };
	return 1;
}

struct source_heap *source_heap_raw(const char *path, struct err *err)
{
	CLEANUP(source_heap_freep) struct source_heap *heap = calloc(1, sizeof(*heap));
	if (!heap) {
		err_set(err, -ENOMEM, "cannot allocate a heap source");
		return NULL;
	}
	if (open_raw(heap, path, err) < 0)
		return NULL;
	return STEAL(heap);
}

int source_heap_is_raw(const char *path, struct err *err)
{
	uint64_t magic = 0;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return err_set(err, -errno, "cannot open '%s'", path);
	ssize_t got = pread(fd, &magic, sizeof(magic), 0);
	close(fd);
	return got == sizeof(magic) && magic == WIRE_HEAP_MAGIC;
}
