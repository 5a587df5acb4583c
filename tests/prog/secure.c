/* SPDX-License-Identifier: Apache-2.0 */
/* secure - says whether the loader ran it in secure mode, and its effective user. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <unistd.h>

int main(void)
{
	free(malloc(10));
	printf("secure %lu euid %u\n", getauxval(AT_SECURE), (unsigned)geteuid());
	return 0;
}
