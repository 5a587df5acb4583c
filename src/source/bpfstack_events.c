/* SPDX-License-Identifier: Apache-2.0 */
#include "source/bpfstack_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/perf_event.h>

#define RING_BYTES (32u << 10)

struct perf_ring {
	int fd;
	struct perf_event_mmap_page *head;
};

struct bpfstack_events {
	uint32_t count;
	struct perf_ring rings[];
};

static size_t page_bytes(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

void bpfstack_events_free(struct bpfstack_events *events)
{
	if (!events)
		return;
	for (uint32_t i = 0; i < events->count; i++) {
		munmap(events->rings[i].head, page_bytes() + RING_BYTES);
		close(events->rings[i].fd);
	}
	free(events);
}

static int open_ring(struct perf_ring *ring, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.mmap = 1, /* executable ones only */
		.mmap2 = 1,
		.watermark = 1,
		.wakeup_watermark = 1,
		.disabled = 1,
	};
	ring->fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (ring->fd < 0)
		return -errno;
	void *at = mmap(NULL, page_bytes() + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED,
			ring->fd, 0);
	if (at == MAP_FAILED) {
		close(ring->fd);
		return -errno;
	}
	ring->head = at;
	ioctl(ring->fd, PERF_EVENT_IOC_ENABLE, 0);
	return 0;
}

struct bpfstack_events *bpfstack_events_new(void)
{
	long cpus = sysconf(_SC_NPROCESSORS_CONF);
	if (cpus < 1)
		return NULL;
	struct bpfstack_events *events =
		calloc(1, sizeof(*events) + (size_t)cpus * sizeof(events->rings[0]));
	if (!events)
		return NULL;
	for (int cpu = 0; cpu < cpus; cpu++) {
		int rc = open_ring(&events->rings[events->count], cpu);
		if (!rc) {
			events->count++;
		} else if (rc != -ENODEV) { /* a CPU that is off line announces nothing */
			bpfstack_events_free(events);
			return NULL;
		}
	}
	return events;
}

uint32_t bpfstack_events_count(const struct bpfstack_events *events)
{
	return events->count;
}

int bpfstack_events_fd(const struct bpfstack_events *events, uint32_t number)
{
	return events->rings[number].fd;
}

static void copy_out(const struct perf_ring *ring, uint64_t at, void *to, size_t bytes)
{
	const char *data = (const char *)ring->head + page_bytes();
	for (size_t i = 0; i < bytes; i++)
		((char *)to)[i] = data[(at + i) % RING_BYTES];
}

void bpfstack_events_read(struct bpfstack_events *events, void (*changed)(void *ctx, uint32_t pid),
			  void *ctx)
{
	for (uint32_t i = 0; i < events->count; i++) {
		struct perf_ring *ring = &events->rings[i];
		uint64_t end = __atomic_load_n(&ring->head->data_head, __ATOMIC_ACQUIRE);
		uint64_t at = ring->head->data_tail;
		while (at < end) {
			struct {
				struct perf_event_header header;
				uint32_t pid;
			} record;
			copy_out(ring, at, &record, sizeof(record));
			if (record.header.type == PERF_RECORD_MMAP2 ||
			    record.header.type == PERF_RECORD_MMAP)
				changed(ctx, record.pid);
			else if (record.header.type == PERF_RECORD_LOST)
				changed(ctx, 0);
			if (record.header.size < sizeof(record.header))
				break;
			at += record.header.size;
		}
		__atomic_store_n(&ring->head->data_tail, end, __ATOMIC_RELEASE);
	}
}
