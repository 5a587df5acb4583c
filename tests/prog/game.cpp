// SPDX-License-Identifier: Apache-2.0
/*
 * game.cpp - the memory of a game-like program: a pool of entities in a mapping of its own, particles in chunks of malloc that a free
 * list hands out, levels that are loaded and unloaded again, names as small strings.
 *
 * usage: game LEVELS
 * Loads LEVELS levels, drops every other one, and prints "ready LIVE_BYTES" of what it asked malloc for; then waits for lines: "trim"
 * calls malloc_trim(0), "unload" drops the other levels; each prints "done RSS_BYTES".
 */
#include <malloc.h>
#include <sys/mman.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace
{

struct entity {
	float place[3], speed[3];
	uint32_t kind, next;
	char data[96];
};

class entity_pool
{
      public:
	explicit entity_pool(size_t count) : count_(count)
	{
		base_ = static_cast<entity *>(mmap(nullptr, count * sizeof(entity),
						   PROT_READ | PROT_WRITE,
						   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	}
	entity *take()
	{
		return base_ == MAP_FAILED || used_ == count_ ? nullptr : &base_[used_++];
	}

      private:
	entity *base_;
	size_t count_, used_ = 0;
};

/* Particles of 64 bytes, 1,024 in a chunk: malloc sees the chunks alone. */
class particles
{
      public:
	void *take()
	{
		if (!free_) {
			chunks_.emplace_back(static_cast<char *>(std::malloc(64 * 1024)),
					     std::free);
			for (size_t i = 0; i < 1024; i++)
				give(chunks_.back().get() + i * 64);
		}
		void *at = free_;
		std::memcpy(&free_, at, sizeof(free_));
		return at;
	}
	void give(void *at)
	{
		std::memcpy(at, &free_, sizeof(free_));
		free_ = at;
	}

      private:
	void *free_ = nullptr;
	std::vector<std::unique_ptr<char, void (*)(void *)>> chunks_;
};

struct level {
	std::vector<std::unique_ptr<char[]>> meshes;
	std::unordered_map<std::string, int> names;
};

uint64_t state = 88172645463325252ull;

uint64_t any()
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

__attribute__((noinline)) std::unique_ptr<level> load_level(unsigned number)
{
	auto l = std::make_unique<level>();
	for (int i = 0; i < 400; i++) {
		size_t bytes = 200 + any() % 12000;
		l->meshes.emplace_back(new char[bytes]);
		std::memset(l->meshes.back().get(), 1, bytes);
		l->names["level " + std::to_string(number) + " thing " + std::to_string(any())] = i;
	}
	return l;
}

void tell()
{
	long pages = 0;
	if (FILE *file = std::fopen("/proc/self/statm", "r")) {
		if (std::fscanf(file, "%*d %ld", &pages) != 1)
			pages = 0;
		std::fclose(file);
	}
	std::printf("done %ld\n", pages * 4096);
	std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv)
{
	unsigned count = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 40;
	entity_pool entities(100000);
	particles dust;
	std::vector<void *> flying;
	std::vector<std::unique_ptr<level>> levels;
	char line[64];
	for (unsigned i = 0; i < 60000; i++)
		std::memset(static_cast<void *>(entities.take()), 2, sizeof(entity));
	for (unsigned i = 0; i < count; i++) {
		levels.push_back(load_level(i));
		for (int k = 0; k < 2000; k++)
			flying.push_back(dust.take());
	}
	for (size_t i = 0; i < flying.size(); i += 2)
		dust.give(flying[i]);
	for (size_t i = 0; i < levels.size(); i += 2)
		levels[i].reset();
	std::printf("ready\n");
	std::fflush(stdout);
	while (std::fgets(line, sizeof(line), stdin)) {
		if (std::strncmp(line, "trim", 4) == 0)
			malloc_trim(0);
		if (std::strncmp(line, "unload", 6) == 0)
			levels.clear();
		tell();
	}
	return 0;
}
