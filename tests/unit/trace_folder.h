/* SPDX-License-Identifier: Apache-2.0 */
/* trace_folder.h - a folder for the recordings of one test, gone with it. */
#ifndef TESTS_TRACE_FOLDER_H
#define TESTS_TRACE_FOLDER_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char dir[64], path[96];

static inline int set_up(void **state)
{
	(void)state;
	/* in memory where possible: thousands of small files are written */
	strcpy(dir,
	       access("/dev/shm", W_OK) == 0 ? "/dev/shm/blt-test-XXXXXX" : "/tmp/blt-test-XXXXXX");
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a.blt", dir);
	return 0;
}

static inline int tear_down(void **state)
{
	(void)state;
	char command[128];
	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	return system(command);
}

#define assert_done(call, err)                                \
	do {                                                  \
		if ((call) < 0)                               \
			fail_msg("%s: %s", #call, (err).msg); \
	} while (0)

#endif
