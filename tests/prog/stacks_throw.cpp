// SPDX-License-Identifier: Apache-2.0
// stacks_throw.cpp - allocations below deep, ever changing stacks that exceptions, callbacks and handlers cut short; for
// the oracle (tests/oracle) and for reports. Prints a checksum; exit status 0.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static thread_local std::mt19937 random_number(4242);

struct guard {
	std::string text;
	explicit guard(unsigned n) : text(n % 200, 'x')
	{
	}
	~guard() // allocates while an exception passes
	{
		std::string copy(text + text);
		asm volatile("" ::"r"(copy.data()) : "memory");
	}
};

__attribute__((noinline)) static unsigned descend(unsigned depth)
{
	guard on_the_way(random_number());
	volatile char room[64 + depth % 5 * 16];
	room[0] = 1;
	if (depth == 0)
		throw std::runtime_error(std::string(random_number() % 100, 'e'));
	if (random_number() % 8 == 0) {
		try {
			return descend(depth / 2) + room[0];
		} catch (const std::exception &e) {
			return descend(depth - 1) + (unsigned)std::string(e.what()).size();
		}
	}
	return descend(depth - 1) + room[0];
}

__attribute__((noinline)) static unsigned sorts()
{
	std::vector<std::string> words;
	for (int i = 0; i < 40; i++)
		words.push_back(std::string(random_number() % 60, 'a' + i % 26));
	std::sort(words.begin(), words.end(), [](std::string a, std::string b) { return a < b; });
	std::map<std::string, std::unique_ptr<guard>> map;
	for (auto &w : words)
		map[w] = std::make_unique<guard>(random_number());
	return (unsigned)map.size();
}

static void work(unsigned rounds, unsigned *sum)
{
	for (unsigned i = 0; i < rounds; i++) {
		try {
			*sum += descend(random_number() % 30);
		} catch (const std::exception &e) {
			*sum += (unsigned)std::string(e.what()).size();
		}
		std::function<unsigned()> call = sorts;
		if (i % 8 == 0)
			*sum += call();
	}
}

int main(int argc, char **argv)
{
	unsigned rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 3000, sum[3] = {};
	std::thread a(work, rounds, &sum[0]), b(work, rounds, &sum[1]);
	work(rounds, &sum[2]);
	a.join();
	b.join();
	printf("%u\n", sum[0] + sum[1] + sum[2]);
	return 0;
}
