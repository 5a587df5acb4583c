// SPDX-License-Identifier: Apache-2.0
// The first operator new of an object, called when the program chooses.
#include <new>
extern "C" void ask()
{
	int *volatile p = new int(3);
	delete p;
}
