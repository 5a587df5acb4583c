/* SPDX-License-Identifier: Apache-2.0 */
/*
 * earlytext - a preloaded object whose constructor makes the first allocation of the process, in libc's bindtextdomain(),
 * which holds the lock of the translations meanwhile; then it takes that lock again. Tells what dlerror() says at the end.
 */
#include <dlfcn.h>
#include <libintl.h>
#include <stdio.h>

__attribute__((constructor)) static void begin(void)
{
	bindtextdomain("earlytext", "/nonexistent");
	textdomain("earlytext");
}

__attribute__((destructor)) static void end(void)
{
	const char *error = dlerror();
	fprintf(stderr, "dlerror: %s\n", error ? error : "nothing");
}
