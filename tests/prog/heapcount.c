/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapcount LIBRARY PROGRAM [ARGS...] - run a program with the preload library and count what arrives in shared memory.
 *
 * A reader of the rings that shares no line with the recorder: the hostile programs' own counts are compared with this.
 * Prints one JSON object on descriptor 9 (or stderr), and ends with the program's status.
 * HEAPCOUNT_POLICY=wait|limit|drop, HEAPCOUNT_FREE_STACKS=1, HEAPCOUNT_SLEEP_US=N between drains, HEAPCOUNT_LET_DROP=1: the
 * first drain comes once something was dropped.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/heap.h"
#include "wire/heap_layout.h"

struct totals {
	uint64_t allocs, bytes, frees, reallocs, failed, zero, maps, unmaps, remaps, brks, threads,
		ends;
	uint64_t lost_here, stops[WIRE_STOP_MAX], bad, foreign, marks, switches;
};
static struct totals sum;
static struct wire_heap_header *heap;

/* live blocks of this process: address -> 1; open addressing, grown by doubling */
static uint64_t *table;
static uint64_t table_size = 1 << 16, table_used, live_blocks;

static uint64_t *cell(uint64_t addr)
{
	uint64_t at = (addr * 0x9e3779b97f4a7c15ULL) >> 20 & (table_size - 1);
	while (table[at] && (table[at] >> 1) != addr)
		at = (at + 1) & (table_size - 1);
	return &table[at];
}

static void live(uint64_t addr, int on)
{
	if (table_used * 2 > table_size) {
		uint64_t *old = table, old_size = table_size;
		table_size *= 2;
		table = calloc(table_size, 8);
		table_used = 0;
		for (uint64_t i = 0; i < old_size; i++)
			if (old[i] & 1) {
				*cell(old[i] >> 1) = old[i];
				table_used++;
			}
		free(old);
	}
	uint64_t *c = cell(addr);
	if (!*c)
		table_used++;
	int was = *c & 1;
	live_blocks += on - was;
	*c = addr << 1 | (uint64_t)on;
	if (!on && !was)
		sum.foreign++;
}

static void count_stop(uint32_t node)
{
	const struct wire_node *nodes = (const void *)((const char *)heap + heap->nodes_off);
	uint32_t made = heap->node_count < heap->node_max ? heap->node_count : heap->node_max;
	unsigned depth = 0;
	while (node >= WIRE_STOP_MAX && node < made && nodes[node].parent < node &&
	       depth++ < 100000)
		node = nodes[node].parent;
	if (node >= WIRE_STOP_MAX)
		sum.bad++;
	else
		sum.stops[node]++;
}

static uint64_t drain(struct wire_heap_slot *slot)
{
	uint64_t head = __atomic_load_n(&slot->head, __ATOMIC_ACQUIRE), tail = slot->tail;
	const char *ring = (const char *)heap + slot->ring_off;
	uint64_t began = tail;
	while (tail < head) {
		const uint64_t *w = (const void *)(ring + (tail & (slot->ring_bytes - 1)));
		uint64_t value = w[0] >> 8;
		unsigned words = 1;
		switch (w[0] & 0xff) {
		case WIRE_PAD:
		case WIRE_TIME:
			break;
		case WIRE_FREE:
			sum.frees++;
			live(value, 0);
			break;
		case WIRE_FREE_STACK:
			sum.frees++;
			live(value, 0);
			count_stop((uint32_t)w[1]);
			words = 2;
			break;
		case WIRE_ALLOC:
		case WIRE_REALLOC_END:
			sum.allocs++;
			sum.bytes += w[1] >> WIRE_NODE_BITS;
			sum.zero += !(w[1] >> WIRE_NODE_BITS);
			live(value, 1);
			count_stop(w[1] & (WIRE_NODE_MAX - 1));
			words = 2;
			break;
		case WIRE_ALLOC_BIG:
		case WIRE_REALLOC_END_BIG:
			sum.allocs++;
			sum.bytes += w[2];
			live(value, 1);
			count_stop((uint32_t)w[1]);
			words = 3;
			break;
		case WIRE_REALLOC_BEGIN_STACK:
			count_stop((uint32_t)w[1]);
			words = 2;
			__attribute__((fallthrough));
		case WIRE_REALLOC_BEGIN:
			sum.reallocs++;
			sum.frees++;
			live(value, 0);
			break;
		case WIRE_REALLOC_FAIL:
			sum.failed++;
			sum.frees--;
			live(value, 1);
			break;
		case WIRE_THREAD:
			sum.threads++;
			words = 2;
			break;
		case WIRE_MAP:
			sum.maps++;
			words = 3;
			break;
		case WIRE_UNMAP:
			sum.unmaps++;
			words = 3;
			break;
		case WIRE_REMAP:
			sum.remaps++;
			words = 3;
			break;
		case WIRE_BRK:
			sum.brks++;
			words = 2;
			break;
		case WIRE_LOST:
			sum.lost_here += (value & WIRE_LOST_EACH_MAX) + (value >> WIRE_LOST_BITS);
			words = 2;
			break;
		case WIRE_MARK:
			sum.marks++;
			break;
		case WIRE_SWITCH:
			sum.switches++;
			break;
		case WIRE_THREAD_END:
			sum.ends++;
			break;
		default:
			fprintf(stderr, "heapcount: bad word %#" PRIx64 " at %" PRIu64 "\n", w[0],
				tail);
			sum.bad++;
			tail = head - 8;
		}
		tail += words * 8;
	}
	__atomic_store_n(&slot->tail, tail, __ATOMIC_RELEASE);
	return tail - began;
}

static uint64_t drain_all(void)
{
	uint64_t got = 0;
	struct wire_heap_slot *slots = (void *)((char *)heap + heap->slots_off);
	struct timespec now;
	for (uint32_t i = 0; i < heap->slot_count; i++)
		if (__atomic_load_n(&slots[i].head, __ATOMIC_RELAXED) != slots[i].tail)
			got += drain(&slots[i]);
	clock_gettime(CLOCK_MONOTONIC, &now);
	__atomic_store_n(&heap->heartbeat_ns,
			 (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec,
			 __ATOMIC_RELAXED);
	__atomic_fetch_add(&heap->tick, 1, __ATOMIC_RELAXED);
	return got;
}

/* What found no room so far, by reason. */
static void count_lost(struct wire_lost_count *lost)
{
	const struct wire_heap_slot *slots = (const void *)((const char *)heap + heap->slots_off);
	memcpy(lost, heap->lost, sizeof(heap->lost));
	for (uint32_t i = 0; i < heap->slot_count; i++) {
		for (int r = 0; r < WIRE_LOST_MAX; r++) {
			lost[r].allocations += slots[i].lost[r].allocations;
			lost[r].bytes += slots[i].lost[r].bytes;
			lost[r].frees += slots[i].lost[r].frees;
		}
	}
}

static int has_dropped(void)
{
	struct wire_lost_count lost[WIRE_LOST_MAX];
	uint64_t all = 0;
	count_lost(lost);
	for (int r = 0; r < WIRE_LOST_MAX; r++)
		all += lost[r].allocations + lost[r].frees;
	return all != 0;
}

static void print(FILE *to, int status)
{
	struct wire_lost_count lost[WIRE_LOST_MAX];
	const struct wire_heap_slot *slots = (const void *)((const char *)heap + heap->slots_off);
	uint64_t waits = 0, wait_ns = 0, owned = 0, written = 0;
	count_lost(lost);
	for (uint32_t i = 0; i < heap->slot_count; i++) {
		waits += slots[i].waits;
		wait_ns += slots[i].wait_ns;
		owned += slots[i].owner != 0;
		written += slots[i].head;
	}
	fprintf(to,
		"{\"attached\":%u,\"status\":%d,\"allocs\":%" PRIu64 ",\"bytes\":%" PRIu64
		",\"frees\":%" PRIu64 ",\"reallocs\":%" PRIu64 ",\"failed\":%" PRIu64
		",\"zero\":%" PRIu64 ",\"foreign\":%" PRIu64 ",\"live\":%" PRIu64
		",\"maps\":%" PRIu64 ",\"unmaps\":%" PRIu64 ",\"remaps\":%" PRIu64
		",\"brks\":%" PRIu64 ",\"threads\":%" PRIu64 ",\"thread_ends\":%" PRIu64
		",\"marks\":%" PRIu64 ",\"switches\":%" PRIu64 ",\"bad\":%" PRIu64
		",\"modules\":%u,\"module_gen\":%u,\"nodes\":%u"
		",\"owned\":%" PRIu64 ",\"written\":%" PRIu64 ",\"waits\":%" PRIu64
		",\"wait_ns\":%" PRIu64 ",\"exiting\":%u,\"exec_called\":%u,\"peak_rss\":%" PRIu64
		",\"lost_notices\":%" PRIu64 ",\"lost\":[",
		heap->attached, status, sum.allocs, sum.bytes, sum.frees, sum.reallocs, sum.failed,
		sum.zero, sum.foreign, live_blocks, sum.maps, sum.unmaps, sum.remaps, sum.brks,
		sum.threads, sum.ends, sum.marks, sum.switches, sum.bad, heap->module_count,
		heap->module_gen, heap->node_count, owned, written, waits, wait_ns, heap->exiting,
		heap->exec_called, heap->peak_rss_bytes, sum.lost_here);
	for (int r = 0; r < WIRE_LOST_MAX; r++)
		fprintf(to, "%s[%" PRIu64 ",%" PRIu64 ",%" PRIu64 "]", r ? "," : "",
			lost[r].allocations, lost[r].bytes, lost[r].frees);
	fprintf(to, "],\"stops\":[");
	for (int r = 0; r < WIRE_STOP_MAX; r++)
		fprintf(to, "%s%" PRIu64, r ? "," : "", sum.stops[r]);
	fprintf(to, "]}\n");
	fflush(to);
}

static void forward(int sig)
{
	(void)sig;
}

int main(int argc, char **argv)
{
	if (argc < 3)
		return 2;
	FILE *to = fdopen(9, "w");
	if (!to)
		to = stderr;
	else
		fcntl(9, F_SETFD, FD_CLOEXEC);
	int fd = memfd_create("byteledger", MFD_ALLOW_SEALING);
	struct wire_heap_header layout = { 0 };
	wire_heap_layout(&layout, WIRE_HEAP_BUDGET_DEFAULT);
	if (fd < 0 || ftruncate(fd, (off_t)layout.total_bytes) != 0)
		return 2;
	heap = mmap(NULL, layout.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	table = calloc(table_size, 8);
	if (heap == MAP_FAILED || !table)
		return 2;
	*heap = layout;
	wire_heap_layout_slots(heap);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	const char *policy = getenv("HEAPCOUNT_POLICY");
	heap->on_full = !policy || !strcmp(policy, "wait") ? WIRE_FULL_WAIT
			: !strcmp(policy, "limit")         ? WIRE_FULL_LIMIT
							   : WIRE_FULL_DROP;
	heap->free_stacks = getenv("HEAPCOUNT_FREE_STACKS") != NULL;
	const char *sleep_us = getenv("HEAPCOUNT_SLEEP_US");
	struct timespec pause = { 0, 1000L * (sleep_us ? atol(sleep_us) : 500) };
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	heap->start_ns = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	signal(SIGINT, forward);
	pid_t pid = fork();
	if (pid == 0) {
		char number[16];
		snprintf(number, sizeof(number), "%d", fd);
		setenv("BYTELEDGER_SHM", number, 1);
		setenv("LD_PRELOAD", argv[1], 1);
		signal(SIGINT, SIG_DFL);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	close(fd);
	int status = 0, let_drop = getenv("HEAPCOUNT_LET_DROP") != NULL;
	for (;;) {
		let_drop = let_drop && !has_dropped();
		uint64_t got = let_drop ? 0 : drain_all();
		if (waitpid(pid, &status, WNOHANG) == pid)
			break;
		if (got < 65536)
			nanosleep(&pause, NULL);
	}
	drain_all();
	print(to, status);
	if (WIFSIGNALED(status)) {
		prctl(PR_SET_DUMPABLE, 0);
		signal(WTERMSIG(status), SIG_DFL);
		raise(WTERMSIG(status));
	}
	return WEXITSTATUS(status);
}
