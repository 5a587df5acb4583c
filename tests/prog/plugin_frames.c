/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_frames - two frames of changing size around an allocation; how their unwind entries are found is the linker's. */
#include <stdlib.h>
#include <string.h>

void *frames_inner(size_t bytes);
void *frames_outer(size_t bytes);

__attribute__((noinline)) void *frames_inner(size_t bytes)
{
	volatile char room[100];
	memset((char *)room, 1, sizeof(room));
	void *block = malloc(bytes + (size_t)room[bytes % 100] - 1);
	room[0] = 2;
	return block;
}

__attribute__((noinline)) void *frames_outer(size_t bytes)
{
	volatile char room[300];
	memset((char *)room, 1, sizeof(room));
	void *block = frames_inner(bytes + (size_t)room[bytes % 300] - 1);
	room[0] = 2;
	return block;
}
