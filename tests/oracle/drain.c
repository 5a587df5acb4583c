/* SPDX-License-Identifier: Apache-2.0 */
/*
 * drain.c - the smallest recorder: runs PROGRAM under the preload library LIBRARY, empties the rings and throws the events
 * away. What a traced program costs or captures can then be looked at without anything behind the rings.
 *
 *     drain LIBRARY PROGRAM [ARGS...]
 *
 * FREE_STACKS=1 asks for the stacks of free too. At the end one JSON line on stderr; exits with the program's status.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "wire/heap.h"
#include "wire/heap_layout.h"

static uint64_t now_ns(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static uint64_t drain(struct wire_heap_header *heap)
{
	struct wire_heap_slot *slot = (void *)((char *)heap + heap->slots_off);
	uint64_t bytes = 0;

	heap->heartbeat_ns = now_ns();
	heap->tick++;
	for (uint32_t i = 0; i < heap->slot_count; i++) {
		uint64_t head = __atomic_load_n(&slot[i].head, __ATOMIC_ACQUIRE);
		if (head == slot[i].tail)
			continue; /* no write: it would take the line from its thread */
		bytes += head - slot[i].tail;
		__atomic_store_n(&slot[i].tail, head, __ATOMIC_RELEASE);
	}
	return bytes;
}

int main(int argc, char **argv)
{
	struct wire_heap_header layout = { 0 };
	struct rusage used;
	uint64_t bytes = 0, lost = 0, waits = 0;
	int status;

	if (argc < 3) {
		fprintf(stderr, "usage: drain LIBRARY PROGRAM [ARGS...]\n");
		return 2;
	}
	/* stacks are compared by the table's nodes, so none of them is to go: nobody copies them here */
	wire_heap_layout(&layout, 1u << 30);
	layout.free_stacks = getenv("FREE_STACKS") != NULL;
	int fd = memfd_create("byteledger", MFD_ALLOW_SEALING);
	if (fd < 0 || ftruncate(fd, (off_t)layout.total_bytes) < 0)
		return 1;
	struct wire_heap_header *heap =
		mmap(NULL, layout.total_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (heap == MAP_FAILED)
		return 1;
	memcpy(heap, &layout, sizeof(layout));
	wire_heap_layout_slots(heap);
	fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	heap->recorder_pid = (uint32_t)getpid();
	heap->start_ns = heap->heartbeat_ns = now_ns();

	pid_t pid = fork();
	if (pid < 0)
		return 1;
	if (pid == 0) {
		char text[16];
		snprintf(text, sizeof(text), "%d", fd);
		setenv("BYTELEDGER_SHM", text, 1);
		setenv("LD_PRELOAD", argv[1], 1);
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	while (wait4(pid, &status, WNOHANG, &used) == 0) {
		bytes += drain(heap);
		nanosleep(&(struct timespec){ 0, 400000 }, NULL);
	}
	bytes += drain(heap);
	const struct wire_heap_slot *slot = (const void *)((char *)heap + heap->slots_off);
	for (uint32_t i = 0; i < heap->slot_count; i++) {
		waits += slot[i].waits;
		for (int reason = 0; reason < WIRE_LOST_MAX; reason++)
			lost += slot[i].lost[reason].allocations + slot[i].lost[reason].frees;
	}
	fprintf(stderr,
		"{\"ring_bytes\":%llu,\"waits\":%llu,\"lost\":%llu,\"nodes\":%u,\"modules\":%u,"
		"\"user_s\":%.3f,\"system_s\":%.3f}\n",
		(unsigned long long)bytes, (unsigned long long)waits, (unsigned long long)lost,
		heap->node_count, heap->module_count,
		(double)used.ru_utime.tv_sec + (double)used.ru_utime.tv_usec / 1e6,
		(double)used.ru_stime.tv_sec + (double)used.ru_stime.tv_usec / 1e6);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
