/* SPDX-License-Identifier: Apache-2.0 */
/* frames LIBRARY - 100 allocations of 1234 bytes through two functions of a library that is loaded for them. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	void *(*outer)(size_t) = library ? (void *(*)(size_t))dlsym(library, "frames_outer") : NULL;
	if (!outer)
		return 1;
	for (int i = 0; i < 100; i++)
		free(outer(1234));
	puts("done");
	return 0;
}
