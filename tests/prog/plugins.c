/* SPDX-License-Identifier: Apache-2.0 */
/* plugins N FOLDER - load and unload two copies of a plugin at the same address, N times; then a C++ plugin. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "truth.h"

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 1;
	char path[4096];
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof(path), "%s/libplugin_%c.so", argv[2], i & 1 ? 'b' : 'a');
		void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
		if (!handle) {
			fprintf(stderr, "%s\n", dlerror());
			return 1;
		}
		void *(*take)(size_t) = (void *(*)(size_t))dlsym(handle, "plugin_take");
		void *p = took(take(100), 100);
		gave(p);
		free(p);
		if (dlclose(handle) != 0)
			return 1;
	}
	if (dlerror())
		return 1; /* somebody else's failure */
	snprintf(path, sizeof(path), "%s/libplugin_cxx.so", argv[2]);
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!handle) {
		fprintf(stderr, "%s\n", dlerror());
		return 1;
	}
	int (*cxx)(int) = (int (*)(int))dlsym(handle, "plugin_cxx");
	if (cxx(10) != 1010)
		return 1;
	truth_print();
	return 0;
}
