// SPDX-License-Identifier: Apache-2.0
// A plugin with operators of its own, which the C library must never see: its blocks come from a pool.
#include <cstddef>
#include <cstdint>
static char pool[4096];
static size_t used;
static int news, deletes;
void *operator new(size_t n)
{
	void *p = pool + used;
	used += (n + 15) & ~static_cast<size_t>(15);
	news++;
	return p;
}
void operator delete(void *p) noexcept
{
	deletes += p >= pool && p < pool + sizeof(pool);
}
void operator delete(void *p, size_t) noexcept
{
	deletes += p >= pool && p < pool + sizeof(pool);
}
extern "C" int plugin_pool(int n)
{
	for (int i = 0; i < n; i++) {
		int *volatile p = new int(3);
		delete p;
	}
	return news * 1000 + deletes;
}
