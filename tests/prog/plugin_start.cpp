// SPDX-License-Identifier: Apache-2.0
// A plugin whose constructor starts a thread and waits for it, while the loader holds its lock: what the thread calls for
// the first time must not ask the loader for anything.
#include <cstring>
#include <new>
#include <pthread.h>
extern "C" void __register_frame(void *);
extern "C" void __deregister_frame(void *);
static unsigned nothing[1]; // an empty list of frames
static void *first_calls(void *)
{
	int *volatile p = new int(3);
	delete p;
	__register_frame(nothing);
	__deregister_frame(nothing);
	return nullptr;
}
struct start {
	start()
	{
		pthread_t thread;
		pthread_create(&thread, nullptr, first_calls, nullptr);
		pthread_join(thread, nullptr);
	}
} static started;
extern "C" void ask()
{
	struct other { // another form than before
		alignas(64) char bytes[64];
	};
	other *volatile p = new other;
	delete p;
}
