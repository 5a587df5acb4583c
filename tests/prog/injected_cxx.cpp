/* SPDX-License-Identifier: Apache-2.0 */
/*
 * injected_cxx.cpp - injected.c's "count" with the operators: a line N of stdin: N rounds, then a
 * line of allocations, bytes and frees.
 */
#include <cstdio>
#include <cstdlib>
#include <new>
#include <unistd.h>

struct alignas(64) wide {
	char text[192];
};

static bool next_line(char *to, size_t size)
{
	size_t have = 0;
	while (have < size - 1 && read(0, to + have, 1) == 1 && to[have] != '\n')
		have++;
	bool more = to[have] == '\n';
	to[have] = '\0';
	return more;
}

int main()
{
	char line[128] = "ready\n";
	if (write(1, line, 6) != 6)
		return 1;
	while (next_line(line, sizeof(line))) {
		unsigned long rounds = strtoul(line, nullptr, 10), bytes = 0;
		for (unsigned long i = 0; i < rounds; i++) {
			size_t n = 1 + i % 100;
			char *volatile one = new char;
			int *volatile many = new int[n];
			wide *volatile aligned = new wide;
			char *volatile none = new (std::nothrow) char[n];
			void *volatile plain = ::operator new(3 * n);
			bytes += 1 + n * sizeof(int) + sizeof(wide) + n + 3 * n;
			delete one;
			delete[] many;
			delete aligned;
			delete[] none;
			::operator delete(plain);
		}
		int len = snprintf(line, sizeof(line), "%lu %lu %lu\n", 5 * rounds, bytes,
				   5 * rounds);
		if (write(1, line, (size_t)len) != len)
			return 1;
	}
	return 0;
}
