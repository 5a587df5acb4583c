// SPDX-License-Identifier: Apache-2.0
// A C++ plugin for a C program: brings its runtime along in a private scope.
#include <string>
extern "C" int plugin_cxx(int n)
{
	int total = 0;
	for (int i = 0; i < n; i++) {
		std::string *s = new std::string(100, 'x');
		total += (int)s->size();
		delete s;
		try {
			throw i;
		} catch (int caught) {
			total += caught == i;
		}
	}
	return total;
}
