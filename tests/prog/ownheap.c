/* SPDX-License-Identifier: Apache-2.0 */
/* ownheap.c - blocks of powers of two from one large reservation, a list of released ones for each size. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ownheap.h"

#define RESERVED ((size_t)64 << 30)
#define CLASSES 36
#define MAGIC 0x6f776e6865617021ULL
#define GONE 0x676f6e65676f6e65ULL
#define LINK 8 /* of the next released piece, behind the mark */

struct head {
	uint64_t magic;
	size_t bytes;
	/* of the whole piece */
	char *base;
	/* its class */
	uint64_t of;
};

static char *pool;
static size_t used;
static char *list[CLASSES];
static int taken, reserving;
static unsigned long served;

static void stop(const char *why)
{
	if (write(2, why, strlen(why)) < 0)
		_exit(8);
	_exit(9);
}

static int reserve(void)
{
	if (__atomic_load_n(&pool, __ATOMIC_ACQUIRE))
		return 1;
	while (__atomic_exchange_n(&reserving, 1, __ATOMIC_ACQUIRE))
		;
	if (!pool) {
		char *at = mmap(NULL, RESERVED, PROT_READ | PROT_WRITE,
				MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		__atomic_store_n(&pool, at == MAP_FAILED ? NULL : at, __ATOMIC_RELEASE);
	}
	__atomic_store_n(&reserving, 0, __ATOMIC_RELEASE);
	return pool != NULL;
}

static char *piece(unsigned of)
{
	char *at = NULL;
	if (!__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE)) {
		at = list[of];
		if (at)
			memcpy(&list[of], at + LINK, sizeof(void *));
		__atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
	}
	if (at)
		return at;
	size_t from = __atomic_fetch_add(&used, (size_t)1 << of, __ATOMIC_RELAXED);
	return from + ((size_t)1 << of) <= RESERVED ? pool + from : NULL;
}

static struct head *head_of(const void *block)
{
	struct head *head = (struct head *)(uintptr_t)block - 1;
	if (!pool || (const char *)block < pool + sizeof(*head) ||
	    (const char *)block >= pool + RESERVED)
		stop("a block that is not ours\n");
	if (head->magic == GONE)
		stop("a block that was given back before\n");
	if (head->magic != MAGIC)
		stop("no block\n");
	return head;
}

void *own_take_at(size_t bytes, size_t align, size_t offset, int zero)
{
	size_t step = align > 16 ? align : 16;
	if (bytes > RESERVED / 4 || step > RESERVED / 4 || !reserve()) {
		errno = ENOMEM;
		return NULL;
	}
	size_t whole = bytes + sizeof(struct head) + (step > 16 ? step : 0);
	unsigned of = 6;
	while ((size_t)1 << of < whole)
		of++;
	char *base = of < CLASSES ? piece(of) : NULL;
	if (!base) {
		errno = ENOMEM;
		return NULL;
	}
	char *block = (char *)(((uintptr_t)base + sizeof(struct head) + offset + step - 1) &
			       ~(step - 1)) -
		      offset;
	struct head head = { MAGIC, bytes, base, of };
	memcpy(block - sizeof(head), &head, sizeof(head));
	if (zero)
		memset(block, 0, bytes);
	else if (bytes < 4096)
		memset(block, 0xa5, bytes);
	__atomic_fetch_add(&served, 1, __ATOMIC_RELAXED);
	return block;
}

void *own_take(size_t bytes, size_t align, int zero)
{
	return own_take_at(bytes, align, 0, zero);
}

void own_give(void *block)
{
	if (!block)
		return;
	struct head *head = head_of(block);
	uint64_t of = head->of;
	char *base = head->base;
	head->magic = GONE;
	if (__atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE))
		return;
	memcpy(base + LINK, &list[of], sizeof(void *));
	list[of] = base;
	__atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
}

size_t own_room(const void *block)
{
	const struct head *head = head_of(block);
	return (size_t)(head->base + ((size_t)1 << head->of) - (const char *)block);
}

void own_set(void *block, size_t bytes)
{
	head_of(block)->bytes = bytes;
}

void *own_resize(void *block, size_t bytes, size_t align, int zero)
{
	size_t old = head_of(block)->bytes;
	void *fresh = own_take(bytes, align, zero);
	if (!fresh)
		return NULL;
	memcpy(fresh, block, old < bytes ? old : bytes);
	own_give(block);
	return fresh;
}

unsigned long own_served(void)
{
	return __atomic_load_n(&served, __ATOMIC_RELAXED);
}
