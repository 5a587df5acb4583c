/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ownlate - linked with a library whose constructor has a thread in the program's own malloc before main() begins. Says
 * how often that allocated.
 */
#include <stdio.h>
#include <stdlib.h>

long plugin_thread_stop(void);

int main(void)
{
	void *p = malloc(10);
	free(p);
	printf("%ld\n", plugin_thread_stop());
	return 0;
}
