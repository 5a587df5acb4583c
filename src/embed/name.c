/* SPDX-License-Identifier: Apache-2.0 */
/*
 * name.c - names for memory: the kernel's where it keeps them, else a table that `byteledger
 * regions` finds (proc/names.h).
 */
#include <byteledger.h>

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "embed/embed.h"
#include "proc/names.h"

#ifndef PR_SET_VMA
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

#define TABLE_BYTES (sizeof(struct names_header) + NAMES_MAX * sizeof(struct names_entry))

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct names_header
	*table; /* followed by NAMES_MAX entries, of which untouched pages cost nothing */

static struct names_entry *entries(void)
{
	return (struct names_entry *)(table + 1);
}

uint64_t embed_names(size_t *bytes)
{
	pthread_mutex_lock(&lock);
	uint64_t addr = (uintptr_t)table;
	pthread_mutex_unlock(&lock);
	*bytes = TABLE_BYTES;
	return addr;
}

static int open_table(void)
{
	int fd = memfd_create(NAMES_MEMFD, MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	void *at = ftruncate(fd, (off_t)TABLE_BYTES) == 0
			   ? mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0)
			   : MAP_FAILED;
	int code = -errno;
	close(fd);
	if (at == MAP_FAILED)
		return code;
	table = at;
	table->magic = NAMES_MAGIC;
	return 0;
}

static void change_begin(void)
{
	__atomic_store_n(&table->sequence, table->sequence + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(
		__ATOMIC_RELEASE); /* a reader that sees the change sees the odd number */
}

static void change_end(void)
{
	__atomic_store_n(&table->sequence, table->sequence + 1, __ATOMIC_RELEASE);
}

/**
 * forget() - take names away from [@start, @start + @bytes); one that is only partly covered keeps
 * the rest.
 */
static int forget(uint64_t start, uint64_t bytes)
{
	uint64_t end = start + bytes;
	for (uint32_t i = 0; i < table->count; i++) {
		struct names_entry *e = &entries()[i];
		uint64_t stop = e->start + e->bytes;
		if (e->bytes == 0 || e->start >= end || stop <= start)
			continue;
		if (e->start < start && stop > end) {
			/* a hole in the middle: the upper part needs an entry of its own */
			if (table->count == NAMES_MAX)
				return -ENOSPC;
			struct names_entry *upper = &entries()[table->count++];
			*upper = *e;
			upper->start = end;
			upper->bytes = stop - end;
			e->bytes = start - e->start;
		} else if (e->start < start) {
			e->bytes = start - e->start;
		} else if (stop > end) {
			e->start = end;
			e->bytes = stop - end;
		} else {
			e->bytes = 0;
		}
	}
	return 0;
}

static int remember(uint64_t start, uint64_t bytes, const char *name)
{
	uint32_t free_slot = table->count;
	for (uint32_t i = 0; i < table->count; i++) {
		if (entries()[i].bytes == 0) {
			free_slot = i;
			break;
		}
	}
	if (free_slot == NAMES_MAX)
		return -ENOSPC;
	struct names_entry *e = &entries()[free_slot];
	memset(e->name, 0, sizeof(e->name));
	memcpy(e->name, name, strlen(name));
	e->start = start;
	e->bytes = bytes;
	if (free_slot == table->count)
		table->count++;
	return 0;
}

static int is_allowed(const char *name)
{
	size_t len = strnlen(name, BYTELEDGER_NAME_MAX + 1);
	if (len == 0 || len > BYTELEDGER_NAME_MAX)
		return 0;
	for (size_t i = 0; i < len; i++)
		if (name[i] < 0x20 || name[i] > 0x7e || strchr("[]\\$`", name[i]))
			return 0;
	return 1;
}

/*
 * A thread that names while another forks must not leave the child a lock that nobody holds, or a
 * table half changed.
 */
static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

static void prepare(void)
{
	pthread_atfork(before_fork, after_fork, after_fork);
}

EXPORT int byteledger_name(void *start, size_t bytes, const char *name)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)start, end;
	if (at & (page - 1))
		return -EADDRNOTAVAIL;
	if (bytes == 0 || __builtin_add_overflow(at, bytes, &end) ||
	    __builtin_add_overflow(end, page - 1, &end) || (name && !is_allowed(name)))
		return -EINVAL;
	bytes = (end & ~(page - 1)) - at;
	int saved_errno = errno, rc = 0;
	int named = prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, at, bytes, name) == 0;
	/*
	 * EINVAL: a kernel without names; EBADF: a file mapping; both go to the table. msync()
	 * tells whether anything is there.
	 */
	if (!named && name && msync(start, bytes, MS_ASYNC) < 0 && errno == ENOMEM)
		rc = -ENOMEM;
	static pthread_once_t prepared = PTHREAD_ONCE_INIT;
	pthread_once(&prepared, prepare);
	pthread_mutex_lock(&lock);
	if (rc == 0 && !table && !named && name)
		rc = open_table();
	if (rc == 0 && table) {
		change_begin();
		rc = forget(at, bytes);
		if (rc == 0 && name && !named)
			rc = remember(at, bytes, name);
		change_end();
	}
	pthread_mutex_unlock(&lock);
	errno = saved_errno;
	return rc;
}
