// SPDX-License-Identifier: Apache-2.0
// ownnew N [FRONT] - a program with an operator new and delete of its own, which keep FRONT (32) bytes in front of each block; the
// other forms are the runtime's and lead there. N arrays, N blocks asked for without exceptions, N aligned ones (which do not
// lead there).
#include <cstdio>
#include <cstdlib>
#include <new>

static std::size_t front = 32;

void *operator new(std::size_t size)
{
	char *block = static_cast<char *>(malloc(size + front));
	if (!block)
		throw std::bad_alloc();
	return block + front;
}

void operator delete(void *block) noexcept
{
	if (block)
		free(static_cast<char *>(block) - front);
}

void operator delete(void *block, std::size_t) noexcept
{
	operator delete(block);
}

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	front = argc > 2 ? atoi(argv[2]) : 32;
	for (int i = 0; i < n; i++) {
		char *volatile array = new char[100];
		delete[] array;
		char *volatile single = new (std::nothrow) char;
		delete single;
		char *volatile arrays = new (std::nothrow) char[200];
		delete[] arrays;
		void *volatile aligned = operator new(64, std::align_val_t(64));
		operator delete(aligned, std::align_val_t(64));
	}
	puts("done");
}
