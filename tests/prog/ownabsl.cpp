// SPDX-License-Identifier: Apache-2.0
// ownabsl.cpp - an allocator as google's tcmalloc is linked into programs: malloc and operator new are names of functions of its
// own, of which none calls another, with what is asked for often inlined in each. Linked with a main() in a file of its own.
#include <cstddef>
#include <cstring>
#include <new>
#include <sys/mman.h>

#define AS(function) __attribute__((visibility("default"), alias(#function)))

namespace
{
struct head { // in front of each block, of 16 bytes
	size_t units, bytes;
};
void *lists[64]; // by units of 64 bytes
const size_t slab_bytes = 1 << 20;

void *map(size_t bytes)
{
	return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

__attribute__((noinline)) void *slow(size_t units)
{
	char *slab = static_cast<char *>(map(slab_bytes));
	for (size_t at = 0; at + units * 64 <= slab_bytes; at += units * 64) {
		*reinterpret_cast<void **>(slab + at) = lists[units];
		lists[units] = slab + at;
	}
	void *first = lists[units];
	lists[units] = *static_cast<void **>(first);
	return first;
}

inline void *fast(size_t bytes)
{
	size_t units = (bytes + sizeof(head) + 63) / 64;
	void *at;
	if (__builtin_expect(units >= 64, 0)) {
		units = 0;
		at = map(bytes + sizeof(head));
	} else if (__builtin_expect(!(at = lists[units]), 0)) {
		at = slow(units);
	} else {
		lists[units] = *static_cast<void **>(at);
	}
	*static_cast<head *>(at) = { units, bytes };
	return static_cast<head *>(at) + 1;
}

inline void done(void *block)
{
	head *at = static_cast<head *>(block) - 1;
	if (!block)
		return;
	if (size_t units = at->units) {
		*reinterpret_cast<void **>(at) = lists[units];
		lists[units] = at;
	} else {
		munmap(at, at->bytes + sizeof(*at));
	}
}
} // namespace

extern "C" {
void *TCMallocInternalMalloc(size_t n) noexcept
{
	return fast(n);
}
void TCMallocInternalFree(void *p) noexcept
{
	done(p);
}
void *TCMallocInternalCalloc(size_t count, size_t n) noexcept
{
	return memset(fast(count * n), 0, count * n);
}
void *TCMallocInternalRealloc(void *p, size_t n) noexcept
{
	void *moved = fast(n);
	size_t had = p ? (static_cast<head *>(p) - 1)->bytes : 0;
	memcpy(moved, p, had < n ? had : n);
	done(p);
	return moved;
}
void *TCMallocInternalNew(size_t n)
{
	return fast(n);
}
void TCMallocInternalDelete(void *p) noexcept
{
	done(p);
}
void TCMallocInternalDeleteSized(void *p, size_t) noexcept
{
	done(p);
}
void *malloc(size_t) noexcept AS(TCMallocInternalMalloc);
void free(void *) noexcept AS(TCMallocInternalFree);
void *calloc(size_t, size_t) noexcept AS(TCMallocInternalCalloc);
void *realloc(void *, size_t) noexcept AS(TCMallocInternalRealloc);
}
void *operator new(size_t) AS(TCMallocInternalNew);
void *operator new[](size_t) AS(TCMallocInternalNew);
void operator delete(void *) noexcept AS(TCMallocInternalDelete);
void operator delete[](void *) noexcept AS(TCMallocInternalDelete);
void operator delete(void *, size_t) noexcept AS(TCMallocInternalDeleteSized);
void operator delete[](void *, size_t) noexcept AS(TCMallocInternalDeleteSized);
